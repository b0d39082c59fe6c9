//! `autopilot doctor`: is everything here that a night needs?
//!
//! Each check says what it found, and what to do when that is not enough. Nothing is changed, no session is
//! started, and credentials are only looked at as far as "there is something".

mod claude;
mod history;
mod host;
mod repository;
mod scheduled;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::driver::clock;
use crate::error::CliError;
use crate::error::exit::Exit;
use crate::settings::layer::Layer;
use crate::state::layout::Layout;
use crate::ui::printer::{Printer, Style};

use super::args::DoctorArgs;
use super::{config, start};

pub(super) use scheduled::as_scheduled;

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
    args: &DoctorArgs,
    flags: &Layer,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let mut checks = Vec::new();
    let root = match start::repository(directory).await {
        Ok(repo) => {
            checks.push(ok("repository", repo.root.display().to_string()));
            checks.push(repository::work_tree(&repo).await);
            checks.extend(repository::git(&repo.root).await);
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
        checks.push(claude::program(settings, &environment, root).await);
        checks.push(claude::login(settings, &environment, root, clock::wall()));
        checks.push(claude::permissions(settings));
        checks.extend(claude::leaked(settings, &environment));
        checks.extend(claude::mcp(settings, &environment, root));
    }
    checks.extend(repository::work(root));
    checks.push(repository::folder(root));
    checks.push(host::disk(root));
    checks.push(host::machine(settings.as_ref()));
    checks.extend(host::group());
    checks.push(host::clock(clock::wall()));
    checks.extend(host::sleep(settings.as_ref(), root, &environment).await);
    checks.extend(history::others(root));
    checks.extend(history::last_run(&Layout::new(root)));
    if let Some(settings) = &settings {
        checks.extend(history::channels(settings, &environment));
    }
    checks.extend(scheduled::schedules(root).await);
    checks.extend(scheduled::missing(&args.missing));

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
