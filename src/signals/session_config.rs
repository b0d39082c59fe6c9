//! The `## Session Config` section of CLAUDE.md or AGENTS.md (upstream-formats §5.10, §9 "Dial").
//!
//! Two blocks of it are ours to obey:
//!
//! ```text
//! autopilot:
//!   bg-isolation: none            # worktree | none
//! dispatcher-autonomy:
//!   autonomy: advisory            # off | advisory | autonomous-gated
//!   confidence-floor: 0.6
//! ```
//!
//! The section may be plain or a fenced block. `dispatcher-autonomy:` is also found at the margin elsewhere in the
//! file, where upstream looks for it. A bad value is a problem and counts as absent; so is an unknown key of
//! these blocks, which would otherwise be ignored for ever by a typo.

use std::path::Path;

use jiff::Timestamp;

use super::source;
use crate::core::signals::SourceReading;
use crate::state::bounded;

/// Files that may hold the section, in this order.
const FILES: [&str; 2] = ["CLAUDE.md", "AGENTS.md"];
/// Larger files are not read.
const LARGEST: u64 = 1 << 20;

/// What the section says; `None` = nothing (that makes sense).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionConfig {
    /// `autopilot.bg-isolation`.
    pub bg_isolation: Option<BgIsolation>,
    /// `dispatcher-autonomy.autonomy`, in lower case: one of [`AUTONOMIES`].
    pub autonomy: Option<&'static str>,
    /// `dispatcher-autonomy.confidence-floor`, 0 to 1.
    pub confidence_floor: Option<f64>,
}

/// Where stories of a multi-story run work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BgIsolation {
    /// Each in a work tree of its own.
    Worktree,
    /// All in the main one.
    None,
}

/// Words of `autonomy`.
pub const AUTONOMIES: [&str; 3] = ["off", "advisory", "autonomous-gated"];

/// The session config of the repository at `root`: of the first file that has one.
#[must_use]
pub fn read(root: &Path, now: Timestamp) -> (SessionConfig, SourceReading) {
    let mut skipped: Vec<String> = Vec::new();
    for name in FILES {
        let path = root.join(name);
        let text = match bounded::read(&path, LARGEST) {
            Ok(Some(file)) => String::from_utf8_lossy(&file.bytes).into_owned(),
            Ok(None) => continue,
            Err(error) => {
                skipped.push(format!("{name}: {error}"));
                continue;
            }
        };
        let Some((config, problems)) = parse(&text) else { continue };
        let mut reading = source(root, &path, now);
        "Session Config".clone_into(&mut reading.source);
        reading.says = summary(&config);
        reading.problems = skipped.into_iter().chain(problems).collect();
        return (config, reading);
    }
    let reading = SourceReading {
        source: "Session Config".to_owned(),
        says: "not there".to_owned(),
        problems: skipped,
        ..SourceReading::default()
    };
    (SessionConfig::default(), reading)
}

fn summary(config: &SessionConfig) -> String {
    let parts: Vec<String> = [
        config.bg_isolation.map(|isolation| match isolation {
            BgIsolation::Worktree => "bg-isolation worktree".to_owned(),
            BgIsolation::None => "bg-isolation none".to_owned(),
        }),
        config.autonomy.map(|autonomy| format!("autonomy {autonomy}")),
        config.confidence_floor.map(|floor| format!("confidence floor {floor}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { "nothing for autopilot".to_owned() } else { parts.join(", ") }
}

/// `None` when the file has neither the section nor a block of ours.
fn parse(text: &str) -> Option<(SessionConfig, Vec<String>)> {
    let lines: Vec<&str> = text.trim_start_matches('\u{feff}').lines().map(str::trim_end).collect();
    let section = section(&lines);
    let within = section.unwrap_or_default();
    let autopilot = block(within, "autopilot");
    let dial = block(within, "dispatcher-autonomy").or_else(|| block(&lines, "dispatcher-autonomy"));
    if section.is_none() && dial.is_none() {
        return None;
    }
    let mut config = SessionConfig::default();
    let mut problems = Vec::new();
    for (key, value) in autopilot.unwrap_or_default() {
        match (key, value.to_ascii_lowercase().as_str()) {
            ("bg-isolation", "worktree") => config.bg_isolation = Some(BgIsolation::Worktree),
            ("bg-isolation", "none") => config.bg_isolation = Some(BgIsolation::None),
            ("bg-isolation", _) => {
                problems.push(format!("autopilot.bg-isolation is `{value}`: only worktree or none"));
            }
            _ => problems.push(format!("autopilot.{key} is not known")),
        }
    }
    for (key, value) in dial.unwrap_or_default() {
        match key {
            "autonomy" => {
                config.autonomy = AUTONOMIES.into_iter().find(|word| word.eq_ignore_ascii_case(value));
                if config.autonomy.is_none() {
                    problems.push(format!(
                        "dispatcher-autonomy.autonomy is `{value}`: only {}",
                        AUTONOMIES.join(", ")
                    ));
                }
            }
            "confidence-floor" => {
                config.confidence_floor = decimal(value);
                if config.confidence_floor.is_none() {
                    problems.push(format!(
                        "dispatcher-autonomy.confidence-floor is `{value}`: only a decimal from 0 to 1"
                    ));
                }
            }
            _ => problems.push(format!("dispatcher-autonomy.{key} is not known")),
        }
    }
    Some((config, problems))
}

/// Lines of the section, up to the next heading of its level or above.
fn section<'l, 't>(lines: &'l [&'t str]) -> Option<&'l [&'t str]> {
    let mut fenced = false;
    let mut start = None;
    for (number, line) in lines.iter().enumerate() {
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        } else if !fenced && (line.starts_with("# ") || line.starts_with("## ")) {
            if let Some(start) = start {
                return Some(&lines[start..number]);
            }
            if line
                .strip_prefix("## ")
                .is_some_and(|title| title.trim().eq_ignore_ascii_case("Session Config"))
            {
                start = Some(number + 1);
            }
        }
    }
    start.map(|start| &lines[start..])
}

/// The `key: value` lines that are indented below `name:`; the first such block counts.
fn block<'t>(lines: &[&'t str], name: &str) -> Option<Vec<(&'t str, &'t str)>> {
    let is_head = |line: &&str| {
        line.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(':'))
            .is_some_and(|rest| bare(rest).is_empty())
    };
    let start = lines.iter().position(is_head)?;
    let fields = lines[start + 1..]
        .iter()
        .filter(|line| !line.trim_start().starts_with('#'))
        .take_while(|line| line.is_empty() || line.starts_with(char::is_whitespace))
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key.trim(), bare(value)));
    Some(fields.collect())
}

/// A value without its comment and quotes.
fn bare(value: &str) -> &str {
    let value = value.trim();
    let value =
        if value.starts_with('#') { "" } else { value.split(" #").next().unwrap_or_default().trim_end() };
    let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    quoted.unwrap_or(value)
}

/// A plain decimal from 0 to 1: no sign, no exponent.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|number| plain && (0.0..=1.0).contains(number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::signals::repository;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn config(
        isolation: Option<BgIsolation>,
        autonomy: Option<&'static str>,
        floor: Option<f64>,
    ) -> SessionConfig {
        SessionConfig { bg_isolation: isolation, autonomy, confidence_floor: floor }
    }

    #[test]
    fn values_and_what_is_wrong_with_them() {
        let check = |text: &str, expected: SessionConfig, problems: &[&str]| {
            let (found, told) = parse(text).unwrap();
            assert_eq!(found, expected, "{text}");
            assert_eq!(told.len(), problems.len(), "{text}: {told:?}");
            for (told, problem) in told.iter().zip(problems) {
                assert!(told.contains(problem), "{told} does not say {problem}");
            }
        };
        let nothing = || config(None, None, None);
        check("## Session Config\n", nothing(), &[]);
        check("## Session Config\nagents-per-wave: 6\nautopilot:\n", nothing(), &[]);
        check(
            "# P\r\n## session config\r\n\r\n```yaml\r\nautopilot:\r\n  bg-isolation: none   # worktree | none\r\n\r\ndispatcher-autonomy:\r\n  \
             # how far\r\n  autonomy: Autonomous-Gated\r\n  confidence-floor: \"0.6\"\r\n```\r\n## Next\r\nautopilot:\r\n  bg-isolation: worktree\r\n",
            config(Some(BgIsolation::None), Some("autonomous-gated"), Some(0.6)),
            &[],
        );
        check(
            "dispatcher-autonomy:\n  autonomy: off\n## Session Config\nautopilot: # ours\n  bg-isolation: 'Worktree'\n",
            config(Some(BgIsolation::Worktree), Some("off"), None),
            &[],
        );
        // The one of the section counts.
        check(
            "dispatcher-autonomy:\n  autonomy: off\n## Session Config\ndispatcher-autonomy:\n  autonomy: advisory\n",
            config(None, Some("advisory"), None),
            &[],
        );
        check(
            "## Session Config\nautopilot:\n  bg-isolation: yes\n  bg_isolation: none\ndispatcher-autonomy:\n  autonomy:\n  \
             confidence-floor: 1.5\n  floor: 1\n",
            nothing(),
            &["`yes`", "bg_isolation is not known", "autonomy is ``", "`1.5`", "floor is not known"],
        );
        for floor in ["-0.5", "+0.5", "1e-1", "NaN", "inf", ".", "", "0.5.1", "50%"] {
            check(
                &format!("dispatcher-autonomy:\n  confidence-floor: {floor}\n"),
                nothing(),
                &["only a decimal"],
            );
        }
        for (floor, value) in [("0", 0.0), ("1", 1.0), (".5", 0.5), ("0.50", 0.5)] {
            check(
                &format!("dispatcher-autonomy:\n  confidence-floor: {floor}\n"),
                config(None, None, Some(value)),
                &[],
            );
        }
        for none in
            ["", "# Session Config\nautopilot:\n  bg-isolation: none\n", "```\n## Session Config\n```\n"]
        {
            assert_eq!(parse(none), None, "{none}");
        }
    }

    #[test]
    fn the_first_file_that_has_one() {
        let repository = repository("AGENTS.md", b"## Session Config\nautopilot:\n  bg-isolation: none\n");
        let look = || read(repository.path(), NOW);
        let (found, reading) = look();
        assert_eq!(found.bg_isolation, Some(BgIsolation::None));
        assert_eq!(
            (reading.origin.as_deref(), reading.says.as_str()),
            (Some("AGENTS.md"), "bg-isolation none")
        );
        let claude = repository.path().join("CLAUDE.md");
        let put = |bytes: &[u8]| crate::state::atomic::replace(&claude, bytes, 0o600).unwrap();
        put(b"# Nothing of ours\n");
        assert_eq!(look().1.origin.as_deref(), Some("AGENTS.md"));
        put(&vec![b'x'; 2 << 20]);
        let (_, reading) = look();
        assert_eq!(reading.origin.as_deref(), Some("AGENTS.md"));
        assert!(reading.problems[0].contains("CLAUDE.md: too large"), "{reading:?}");
        put(b"## Session Config\n\xff\ndispatcher-autonomy:\n  autonomy: advisory\n");
        let (found, reading) = look();
        assert_eq!((found.bg_isolation, found.autonomy), (None, Some("advisory")));
        assert_eq!(
            (reading.origin.as_deref(), reading.says.as_str()),
            (Some("CLAUDE.md"), "autonomy advisory")
        );
        let empty = tempfile::tempdir().unwrap();
        let (found, reading) = read(empty.path(), NOW);
        assert_eq!(
            (found, reading.origin, reading.says.as_str()),
            (SessionConfig::default(), None, "not there")
        );
    }

    proptest! {
        #[test]
        fn no_text_upsets_it(text in "(## Session Config\n)?((autopilot|dispatcher-autonomy|  autonomy|```|# x|\\PC{0,6}):?[ #\"\\PC]{0,6}\n){0,8}") {
            parse(&text);
        }
    }
}
