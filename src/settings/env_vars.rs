//! Every environment variable that is read, in one place.
//!
//! Those of settings come from [`super::keys`]; the others stand here. A variable that is not in this table
//! must not be read.

use std::ffi::OsStr;
use std::fmt::Write as _;

use super::key::closest;
use super::keys;

/// Filter of the debug log, in the syntax of `tracing`.
pub const AUTOPILOT_LOG: &str = "AUTOPILOT_LOG";
/// Set for sessions and all they start: the id of the run they belong to.
pub const AUTOPILOT_RUN_ID: &str = "AUTOPILOT_RUN_ID";
/// Unique mark of everything a run starts; its next start finds orphans by it.
pub const AUTOPILOT_COOKIE: &str = "AUTOPILOT_COOKIE";
/// Unique mark of a helper such as git.
pub const AUTOPILOT_HELPER_ID: &str = "AUTOPILOT_HELPER_ID";
/// No colour, whatever its value, unless it is empty.
pub const NO_COLOR: &str = "NO_COLOR";
/// Set by CI systems.
pub const CI: &str = "CI";
/// Kind of terminal.
pub const TERM: &str = "TERM";
/// Where programs are looked up.
pub const PATH: &str = "PATH";
/// Home folder.
pub const HOME: &str = "HOME";
/// Where the user's configuration lives.
pub const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// Where Claude Code keeps its files.
pub const CLAUDE_CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";

/// `true` in a job of GitHub Actions.
pub const GITHUB_ACTIONS: &str = "GITHUB_ACTIONS";
/// File for the summary of a step there.
pub const GITHUB_STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";
/// File for its outputs.
pub const GITHUB_OUTPUT: &str = "GITHUB_OUTPUT";

/// Where upstream keeps STATE.md.
pub const SO_STATE_DIR: &str = "SO_STATE_DIR";

/// A variable and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvVar {
    /// Name.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
}

/// The variables that are not settings.
pub const OTHERS: [EnvVar; 15] = [
    EnvVar { name: AUTOPILOT_LOG, about: "filter of the debug log on stderr, for example `autopilot=debug`" },
    EnvVar { name: AUTOPILOT_RUN_ID, about: "set for everything a run starts; a run that finds it refuses" },
    EnvVar { name: AUTOPILOT_COOKIE, about: "set for everything a run starts, so that orphans are found" },
    EnvVar { name: AUTOPILOT_HELPER_ID, about: "set for helpers such as git, so that they are found" },
    EnvVar { name: NO_COLOR, about: "not empty: no colour, unless --color=always" },
    EnvVar { name: CI, about: "not empty: no progress bar" },
    EnvVar { name: TERM, about: "`dumb`: no colour and no progress bar" },
    EnvVar { name: PATH, about: "where claude, git and the shell are looked up" },
    EnvVar { name: HOME, about: "home folder" },
    EnvVar { name: XDG_CONFIG_HOME, about: "folder of autopilot/config.toml instead of ~/.config" },
    EnvVar { name: CLAUDE_CONFIG_DIR, about: "where Claude Code keeps its transcripts instead of ~/.claude" },
    EnvVar { name: GITHUB_ACTIONS, about: "`true`: annotations, summary and outputs for the step" },
    EnvVar { name: GITHUB_STEP_SUMMARY, about: "gets the report as Markdown at the end of a run there" },
    EnvVar {
        name: GITHUB_OUTPUT,
        about: "gets run-id, exit-code, outcome and more at the end of a run there",
    },
    EnvVar {
        name: SO_STATE_DIR,
        about: "folder of STATE.md, looked at before .claude, .codex, .cursor and .pi",
    },
];

/// Every variable: settings first, in their order.
pub fn all() -> impl Iterator<Item = EnvVar> {
    let settings = keys::ALL.into_iter().map(|setting| {
        let spec = setting.spec();
        EnvVar { name: spec.env, about: spec.about }
    });
    settings.chain(OTHERS)
}

/// The table of [`OTHERS`] as Markdown, for the README; those of the settings stand in the table of settings.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from("| variable | meaning |\n|---|---|\n");
    for variable in OTHERS {
        let _ = writeln!(text, "| `{}` | {} |", variable.name, variable.about);
    }
    text
}

/// A notice for each variable that looks like ours and is not.
///
/// Not an error, unlike an unknown key of a file: other programs may use the prefix, and the whole
/// environment is rarely in one hand.
pub fn unknown<'a>(names: impl Iterator<Item = &'a OsStr>) -> Vec<String> {
    names
        .filter_map(OsStr::to_str)
        .filter(|name| name.starts_with("AUTOPILOT_") && all().all(|known| known.name != *name))
        .map(|name| {
            let lower = name.to_lowercase().replace('_', "-");
            let meant = closest(
                lower.trim_start_matches("autopilot-"),
                keys::ALL.into_iter().map(|setting| setting.spec().name),
            )
            .and_then(keys::find);
            match meant {
                Some(setting) => {
                    format!("the variable {name} is not known; did you mean {}?", setting.spec().env)
                }
                None => format!("the variable {name} is not known"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().map(|variable| variable.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(markdown().lines().count(), OTHERS.len() + 2);
    }

    #[test]
    fn only_ours_and_only_unknown_ones() {
        let names = [
            "PATH",
            "AUTOPILOT_MAX_HOURS",
            "AUTOPILOT_RUN_ID",
            "AUTOPILOT_MAX_HOUR",
            "AUTOPILOT_XYZZY",
            "HOME",
        ];
        insta::assert_snapshot!(unknown(names.iter().map(OsStr::new)).join("\n"), @r"
        the variable AUTOPILOT_MAX_HOUR is not known; did you mean AUTOPILOT_MAX_HOURS?
        the variable AUTOPILOT_XYZZY is not known
        ");
    }
}
