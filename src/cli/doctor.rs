//! `autopilot doctor`: is everything here that a night needs?
//!
//! Each check says what it found, and what to do when that is not enough. Nothing is changed, no session is
//! started, and credentials are only looked at as far as "there is something".

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access};
use serde::Serialize;

use crate::core::resources;
use crate::core::signals::SourceReading;
use crate::driver::clock;
use crate::engine::headless::Billing;
use crate::error::CliError;
use crate::error::exit::Exit;
use crate::git;
use crate::plan;
use crate::probe::Probe;
use crate::process::{CaptureSpec, capture};
use crate::settings::Settings;
use crate::settings::layer::Layer;
use crate::signals::session_config;
use crate::state::layout::Layout;
use crate::state::space::free_bytes;
use crate::transcript;
use crate::ui::printer::{Printer, Style};

use super::{config, run, start};

/// `claude --version` answers in a fraction of a second; a cold disk takes a few.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);
/// Less than this is too little for a night of transcripts and builds.
const LITTLE_DISK: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Problem,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

fn ok(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, verdict: Verdict::Ok, found: found.into(), next: None }
}

fn warning(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Check {
    Check { name, verdict: Verdict::Warning, found: found.into(), next: Some(next.into()) }
}

fn problem(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Check {
    Check { name, verdict: Verdict::Problem, found: found.into(), next: Some(next.into()) }
}

pub(super) async fn doctor(
    directory: &Path,
    flags: &Layer,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let mut checks = Vec::new();
    let root = match start::repository(directory).await {
        Ok(repo) => {
            checks.push(ok("repository", repo.root.display().to_string()));
            checks.push(work_tree(&repo).await);
            Some(repo.root)
        }
        Err(error) => {
            checks.push(of_error("repository", &error));
            None
        }
    };
    let root = root.as_deref().unwrap_or(directory);
    let settings = match config::load(flags, &config::Files::locate(root)) {
        Ok(resolved) => {
            checks.push(match resolved.notices.first() {
                None => ok("configuration", "understood"),
                Some(notice) => warning("configuration", notice.clone(), "autopilot config show --origin"),
            });
            Some(resolved.settings)
        }
        Err(error) => {
            checks.push(of_error("configuration", &error));
            None
        }
    };
    if let Some(settings) = &settings {
        checks.extend(claude(settings, &environment, root).await);
        checks.push(login(settings, &environment, root));
        checks.push(permissions(settings));
    }
    checks.extend(work(root));
    checks.push(folder(root));
    checks.push(disk(root));
    checks.push(machine(settings.as_ref()));

    let worst = checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Ok);
    if json {
        let text = serde_json::to_string(&checks)
            .map_err(|error| CliError::unexpected("the checks cannot be written as JSON").caused_by(error))?;
        printer.data(&text)?;
    } else {
        printer.data(&text(&checks, printer))?;
    }
    Ok(if worst == Verdict::Problem { Exit::Environment } else { Exit::Planned })
}

fn text(checks: &[Check], printer: &Printer) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match check.verdict {
            Verdict::Ok => printer.paint(Style::Good, "ok     "),
            Verdict::Warning => printer.paint(Style::Warning, "warning"),
            Verdict::Problem => printer.paint(Style::Bad, "problem"),
        };
        // Writing to a string cannot fail.
        _ = writeln!(text, "{mark} {:<14} {}", check.name, check.found);
        if let Some(next) = &check.next {
            _ = writeln!(text, "{:22} {} {next}", "", printer.paint(Style::Pointer, "next:"));
        }
    }
    text
}

fn of_error(name: &'static str, error: &CliError) -> Check {
    let mut found = error.to_string();
    for cause in error.causes() {
        found = format!("{found}: {cause}");
    }
    problem(name, found, error.hints().first().cloned().unwrap_or_else(|| "see above".to_owned()))
}

/// Where work would come from, and what CLAUDE.md says of it.
fn work(root: &Path) -> [Check; 2] {
    let now = clock::wall();
    let tasks = plan::look(root, &Layout::new(root).tasks(), now);
    let of = |reading: &SourceReading| format!("{}: {}", reading.source, reading.says);
    let found = tasks.readings.iter().map(of).collect::<Vec<_>>().join("; ");
    let problem_in = |readings: &[SourceReading]| {
        readings.iter().find_map(|reading| Some(format!("{}: {}", reading.source, reading.problems.first()?)))
    };
    let tasks = match problem_in(&tasks.readings) {
        Some(problem) => warning("tasks", found, problem),
        None if tasks.exists => ok("tasks", found),
        None => ok("tasks", "none written down; a run needs --prompt, --mode or .project/plan.md"),
    };
    let (_, reading) = session_config::read(root, now);
    let config = match problem_in(std::slice::from_ref(&reading)) {
        Some(problem) => warning("session config", reading.says, problem),
        None => ok("session config", reading.says),
    };
    [tasks, config]
}

async fn work_tree(repo: &git::Repo) -> Check {
    match git::snapshot(repo).await {
        Ok(snapshot) if snapshot.dirty + snapshot.untracked > 0 => warning(
            "work tree",
            format!("{} changed and {} untracked files", snapshot.dirty, snapshot.untracked),
            "commit or stash them: sessions commit their work, and yours may end up among it",
        ),
        Ok(snapshot) => {
            ok("work tree", format!("clean, on {}", snapshot.branch.as_deref().unwrap_or("a detached HEAD")))
        }
        Err(error) => problem("work tree", error.to_string(), "mend what git complains about"),
    }
}

async fn claude(settings: &Settings, environment: &[(OsString, OsString)], root: &Path) -> Vec<Check> {
    let program = match start::find_program(&settings.claude.bin, environment) {
        Ok(program) => program,
        Err(error) => return vec![of_error("claude", &error)],
    };
    let mut spec = CaptureSpec::new(&program, root);
    spec.args = vec!["--version".into()];
    spec.env_remove = vec!["CLAUDECODE".into()];
    spec.timeout = VERSION_TIMEOUT;
    let found = match capture(&spec).await {
        Ok(captured) if captured.exit.success() => {
            let version = String::from_utf8_lossy(&captured.stdout).trim().to_owned();
            ok("claude", format!("{version} at {}", program.display()))
        }
        Ok(captured) => problem(
            "claude",
            format!("{} --version ended with {}", program.display(), captured.exit),
            "run it by hand; reinstall Claude Code if it does not start",
        ),
        Err(error) => problem("claude", error.to_string(), "reinstall Claude Code, or see --claude-bin"),
    };
    vec![found]
}

fn login(settings: &Settings, environment: &[(OsString, OsString)], root: &Path) -> Check {
    let get = |name: &str| {
        environment
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| value.as_os_str())
    };
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
    if config_dir.join(".credentials.json").is_file() {
        return ok("login", format!("credentials in {}", config_dir.display()));
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
fn permissions(settings: &Settings) -> Check {
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

fn folder(root: &Path) -> Check {
    let folder = root.join(".orchestrator");
    let place = if folder.is_dir() { folder.as_path() } else { root };
    match access(place, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => ok("state folder", folder.display().to_string()),
        Err(error) => problem(
            "state folder",
            format!("{} cannot be written: {error}", place.display()),
            "mend its owner or permissions; records of a run are kept there",
        ),
    }
}

fn disk(root: &Path) -> Check {
    match free_bytes(root) {
        Some(free) => {
            let words = format!("{:.1} GB free", free_gigabytes(free));
            if free < LITTLE_DISK {
                warning("disk", words, "free some space: transcripts and builds need it")
            } else {
                ok("disk", words)
            }
        }
        None => warning("disk", "free space cannot be read".to_owned(), "look with df"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn free_gigabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn machine(settings: Option<&Settings>) -> Check {
    let own = std::process::id();
    let sample = Probe::new().sample(&|pid| pid == own);
    let default_cap = settings.map_or(resources::DEFAULT_CAP, |settings| settings.work.agents_per_wave);
    let verdict = resources::judge(&sample, default_cap);
    let words = format!(
        "{}, {} sub-agents per wave{}",
        verdict.tier,
        verdict.cap,
        verdict.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default()
    );
    match verdict.tier {
        resources::Tier::Unknown | resources::Tier::Green => ok("machine", words),
        _ => warning("machine", words, "close other sessions, or expect smaller waves"),
    }
}
