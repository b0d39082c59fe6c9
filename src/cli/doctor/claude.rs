//! The driven program: its version, its login, what it would inherit.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Check, of_error, ok, problem, warning};
use crate::cli::{run, start};
use crate::engine::headless::{Billing, child_environment};
use crate::process::{CaptureSpec, capture};
use crate::settings::Settings;
use crate::transcript;
use crate::ui::text::instant;

/// `claude --version` answers in a fraction of a second; a cold disk takes a few.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);
/// A login that ends during the night is as good as none.
const A_NIGHT: SignedDuration = SignedDuration::from_hours(12);
/// More than any file of settings.
const MAX_FILE: u64 = 1 << 20;

/// A version, comparable.
type Version = (u32, u32, u32);

/// Versions before which something is known to go wrong at night, newest first (vendor change log, field-reports
/// R). The first that applies is told.
const KNOWN_BAD: [(Version, &str); 5] = [
    ((2, 1, 225), "before 2.1.225 a passing 401 could throw a valid login away"),
    ((2, 1, 214), "before 2.1.214 the end of a long stream could be cut off"),
    (
        (2, 1, 208),
        "before 2.1.208 results could be lost in a pipe, and memory of MCP servers grew without bound",
    ),
    ((2, 1, 204), "before 2.1.204 hooks at the start held everything back"),
    ((2, 1, 163), "before 2.1.163 a background command kept a session alive for ever"),
];
/// Older ones do not speak the control protocol and the structured reports that runs use.
const OLDEST: Version = (2, 1, 0);
/// What the tests run.
const TESTED: Version = (2, 1, 332);

/// The program: whether it starts, and whether its version is known for something bad.
pub(super) async fn program(settings: &Settings, environment: &[(OsString, OsString)], root: &Path) -> Check {
    let program = match start::find_program(&settings.claude.bin, environment) {
        Ok(program) => program,
        Err(error) => return of_error("claude", &error),
    };
    let mut spec = CaptureSpec::new(&program, root);
    spec.args = vec!["--version".into()];
    spec.env_remove = vec!["CLAUDECODE".into()];
    spec.timeout = VERSION_TIMEOUT;
    match capture(&spec).await {
        Ok(captured) if captured.exit.success() => {
            let version = String::from_utf8_lossy(&captured.stdout).trim().to_owned();
            of_version(&version, &program)
        }
        Ok(captured) => problem(
            "claude",
            format!("{} --version ended with {}", program.display(), captured.exit),
            "run it by hand; reinstall Claude Code if it does not start",
        ),
        Err(error) => problem("claude", error.to_string(), "reinstall Claude Code, or see --claude-bin"),
    }
}

/// Who pays, and whether they can be asked. Of credentials nothing is read but when they expire.
pub(super) fn login(
    settings: &Settings,
    environment: &[(OsString, OsString)],
    root: &Path,
    now: Timestamp,
) -> Check {
    let get = |name: &str| variable(environment, name);
    if get("CLAUDE_CODE_OAUTH_TOKEN").is_some() {
        return ok("login", "CLAUDE_CODE_OAUTH_TOKEN is set");
    }
    let key = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"].into_iter().find(|name| get(name).is_some());
    if let Some(name) = key
        && run::billing(settings) == Billing::Inherit
    {
        return warning(
            "login",
            format!("{name} is set: an API account pays for the night"),
            "set billing = \"subscription\" to drop it, if a subscription should be used",
        );
    }
    let Some(config_dir) = transcript::config_dir(get("CLAUDE_CONFIG_DIR"), get("HOME"), root) else {
        return problem("login", "neither HOME nor CLAUDE_CONFIG_DIR is set", "set HOME in the crontab");
    };
    let credentials = config_dir.join(".credentials.json");
    if credentials.is_file() {
        return of_credentials(&credentials, now);
    }
    if cfg!(target_os = "macos") {
        return warning(
            "login",
            "on macOS the login is in the keychain, which cron and launchd may not reach",
            "claude setup-token, and CLAUDE_CODE_OAUTH_TOKEN in the environment of the job",
        );
    }
    problem(
        "login",
        format!("no token in the environment and no credentials in {}", config_dir.display()),
        "claude /login, or CLAUDE_CODE_OAUTH_TOKEN from `claude setup-token`",
    )
}

/// Claude Code refuses to skip permissions as root (field-reports K02).
pub(super) fn permissions(settings: &Settings) -> Check {
    let skips = settings.claude.permission_mode == "bypassPermissions"
        || settings.claude.args.iter().any(|arg| arg == "--dangerously-skip-permissions");
    if !skips {
        return ok("permissions", format!("--permission-mode {}", settings.claude.permission_mode));
    }
    if rustix::process::getuid().is_root() {
        problem(
            "permissions",
            "Claude Code refuses to skip permissions as root",
            "run as an ordinary user, or use --permission-mode acceptEdits with --allowed-tools",
        )
    } else {
        warning(
            "permissions",
            "sessions may do anything this user may do",
            "prefer --permission-mode acceptEdits with --allowed-tools, or a container",
        )
    }
}

fn variable<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    environment
        .iter()
        .find(|(key, value)| key == name && !value.is_empty())
        .map(|(_, value)| value.as_os_str())
}

/// `2.1.332 (Claude Code)`.
fn version_in(text: &str) -> Option<Version> {
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = word.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

fn of_version(text: &str, program: &Path) -> Check {
    let found = format!("{text} at {}", program.display());
    let update = "claude update, or install the version you want";
    match version_in(text) {
        None => warning("claude", format!("{found}: that is no version"), "see whether it is Claude Code"),
        Some(version) if version < OLDEST => {
            problem("claude", format!("{found}: too old to be driven"), update)
        }
        Some(version) => match KNOWN_BAD.iter().rev().find(|(fixed, _)| version < *fixed) {
            Some((_, why)) => warning("claude", format!("{found}: {why}"), update),
            None if version.0 > TESTED.0 => warning(
                "claude",
                format!("{found}: tested up to {}.{}.{}", TESTED.0, TESTED.1, TESTED.2),
                "try it with a short run first: autopilot --max-sessions=1",
            ),
            None => ok("claude", found),
        },
    }
}

/// The parts of the credentials that are no secret.
#[derive(Deserialize)]
struct Credentials {
    #[serde(rename = "claudeAiOauth")]
    oauth: Option<Oauth>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Oauth {
    /// Milliseconds since 1970.
    expires_at: Option<i64>,
    refresh_token_expires_at: Option<i64>,
    /// That there is one; its value is not kept.
    refresh_token: Option<IgnoredAny>,
}

fn of_credentials(path: &Path, now: Timestamp) -> Check {
    let found = format!("credentials in {}", path.parent().unwrap_or(path).display());
    let bytes = crate::state::bounded::read(path, MAX_FILE).ok().flatten().map(|file| file.bytes);
    let credentials: Option<Credentials> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(credentials) = credentials else {
        return warning("login", format!("{found} that cannot be read"), "claude /login");
    };
    let Some(oauth) = credentials.oauth else { return ok("login", found) };
    let at = |milliseconds: Option<i64>| milliseconds.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    // The access token lives for hours and is renewed with the refresh token; only where there is none it decides.
    let end = match oauth.refresh_token {
        Some(IgnoredAny) => at(oauth.refresh_token_expires_at),
        None => at(oauth.expires_at),
    };
    let Some(end) = end else { return ok("login", found) };
    let words = instant(end, &TimeZone::system());
    let next = "claude /login";
    if end <= now {
        problem("login", format!("{found}, which expired on {words}"), next)
    } else if end.duration_since(now) < A_NIGHT {
        warning("login", format!("{found}, which expire on {words}"), next)
    } else {
        ok("login", format!("{found}, valid until {words}"))
    }
}

/// Variables of another Claude Code session, which sessions would not get, and those that decide who pays.
pub(super) fn leaked(settings: &Settings, environment: &[(OsString, OsString)]) -> Option<Check> {
    let child = child_environment(environment.iter().cloned(), run::billing(settings), &[]);
    if child.removed.is_empty() {
        return None;
    }
    let names = child.removed.join(", ");
    Some(ok("variables", format!("not passed on to sessions: {names}")))
}

/// What `.mcp.json` and `mcp-config` name.
pub(super) fn mcp(settings: &Settings, environment: &[(OsString, OsString)], root: &Path) -> Vec<Check> {
    let own = root.join(".mcp.json");
    let files = own.is_file().then(|| own.display().to_string());
    files
        .into_iter()
        .chain(settings.claude.mcp_config.iter().cloned())
        .map(|config| {
            let text = config.trim_start();
            let (name, bytes) = if text.starts_with('{') {
                ("mcp-config".to_owned(), Ok(Some(text.as_bytes().to_vec())))
            } else {
                let path = root.join(text);
                let read = crate::state::bounded::read(&path, MAX_FILE);
                (text.to_owned(), read.map(|file| file.map(|file| file.bytes)))
            };
            let next = "mend or remove it: a server that does not start is missing all night";
            let bytes = match bytes {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return problem("mcp", format!("{name} does not exist"), next),
                Err(error) => return problem("mcp", format!("{name} cannot be read: {error}"), next),
            };
            of_mcp(&name, &bytes, environment, root)
        })
        .collect()
}

fn of_mcp(name: &str, bytes: &[u8], environment: &[(OsString, OsString)], root: &Path) -> Check {
    let next = "mend or remove it: a server that does not start is missing all night";
    let document: serde_json::Value = match serde_json::from_slice(bytes) {
        Ok(document) => document,
        Err(error) => return problem("mcp", format!("{name} is not JSON: {error}"), next),
    };
    let Some(servers) = document.get("mcpServers").and_then(serde_json::Value::as_object) else {
        return warning("mcp", format!("{name} has no mcpServers"), next);
    };
    let missing: Vec<String> = servers
        .iter()
        .filter_map(|(server, config)| Some((server, config.get("command")?.as_str()?)))
        // What a variable says is known only to the session.
        .filter(|(_, command)| !command.contains('$'))
        .filter(|(_, command)| {
            let path = Path::new(command);
            let path = if path.components().count() > 1 { root.join(path) } else { path.to_owned() };
            start::find_program(&path, environment).is_err()
        })
        .map(|(server, command)| format!("{server} ({command})"))
        .collect();
    if missing.is_empty() {
        ok("mcp", format!("{name}: {}", crate::ui::text::plural(servers.len() as u64, "server")))
    } else {
        warning("mcp", format!("{name}: not on PATH: {}", missing.join(", ")), next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::state::atomic;

    #[test]
    fn versions() {
        for (text, verdict, words) in [
            ("2.1.332 (Claude Code)", Verdict::Ok, ""),
            ("2.1.400 (Claude Code)", Verdict::Ok, ""),
            ("3.0.1 (Claude Code)", Verdict::Warning, "tested up to 2.1.332"),
            ("2.1.220 (Claude Code)", Verdict::Warning, "before 2.1.225"),
            ("2.1.150 (Claude Code)", Verdict::Warning, "before 2.1.163"),
            ("2.0.76 (Claude Code)", Verdict::Problem, "too old"),
            ("1.0.128", Verdict::Problem, "too old"),
            ("hello", Verdict::Warning, "no version"),
            ("", Verdict::Warning, "no version"),
        ] {
            let check = of_version(text, Path::new("/bin/claude"));
            assert_eq!(check.verdict, verdict, "{text}");
            assert!(check.found.contains(words), "{}", check.found);
        }
    }

    #[test]
    fn credentials_are_looked_at_as_far_as_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".credentials.json");
        let now: Timestamp = "2026-12-01T20:00:00Z".parse().unwrap();
        let milliseconds = |hours: i64| (now + SignedDuration::from_hours(hours)).as_millisecond();
        let (past, soon, later) = (milliseconds(-1), milliseconds(3), milliseconds(100));
        for (text, verdict) in [
            (
                format!("{{\"claudeAiOauth\":{{\"accessToken\":\"a\",\"expiresAt\":{past}}}}}"),
                Verdict::Problem,
            ),
            (format!("{{\"claudeAiOauth\":{{\"expiresAt\":{soon}}}}}"), Verdict::Warning),
            (format!("{{\"claudeAiOauth\":{{\"expiresAt\":{later}}}}}"), Verdict::Ok),
            // It is renewed.
            (format!("{{\"claudeAiOauth\":{{\"expiresAt\":{past},\"refreshToken\":\"r\"}}}}"), Verdict::Ok),
            (
                format!(
                    "{{\"claudeAiOauth\":{{\"expiresAt\":{later},\"refreshToken\":\"r\",\"refreshTokenExpiresAt\":{past}}}}}"
                ),
                Verdict::Problem,
            ),
            ("{}".to_owned(), Verdict::Ok),
            ("{broken".to_owned(), Verdict::Warning),
        ] {
            atomic::replace(&path, text.as_bytes(), atomic::PRIVATE_FILE).unwrap();
            let check = of_credentials(&path, now);
            assert_eq!(check.verdict, verdict, "{text}: {}", check.found);
        }
    }

    #[test]
    fn mcp_servers_that_cannot_start() {
        let environment = [(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))];
        let check = |text: &str| of_mcp("x", text.as_bytes(), &environment, Path::new("/srv"));
        for (text, verdict, words) in [
            (
                "{\"mcpServers\":{\"a\":{\"command\":\"sh\"},\"b\":{\"type\":\"http\",\"url\":\"https://x\"}}}",
                Verdict::Ok,
                "2 servers",
            ),
            (
                "{\"mcpServers\":{\"a\":{\"command\":\"no-such-server\"}}}",
                Verdict::Warning,
                "a (no-such-server)",
            ),
            ("{\"mcpServers\":{\"a\":{\"command\":\"${HOME}/server\"}}}", Verdict::Ok, "1 server"),
            ("{\"servers\":{}}", Verdict::Warning, "no mcpServers"),
            ("{", Verdict::Problem, "not JSON"),
        ] {
            let check = check(text);
            assert_eq!(check.verdict, verdict, "{text}");
            assert!(check.found.contains(words), "{}", check.found);
        }
    }
}
