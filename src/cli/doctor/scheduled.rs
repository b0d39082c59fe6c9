//! The same checks in the environment that a scheduled run will have (field-reports K05).

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::{Check, ok, warning};
use crate::cli::schedule::{installed, job_path};
use crate::cli::start;
use crate::driver::clock;
use crate::error::CliError;
use crate::error::exit::Exit;
use crate::process::{CaptureSpec, capture};
use crate::ui::printer::Printer;
use crate::ui::text::instant;

/// Longer than all checks take.
const TIMEOUT: Duration = Duration::from_mins(2);
/// What cron and systemd set for every job, whatever shell somebody has.
const KEPT: [&str; 5] = ["HOME", "LOGNAME", "USER", "TZ", "LANG"];
/// Prefixes of variables that decide what a run does, and that only an interactive shell has.
const TELLING: [&str; 3] = ["AUTOPILOT_", "ANTHROPIC_", "CLAUDE_"];

/// What is installed, a line each.
pub(super) async fn schedules(root: &Path) -> Vec<Check> {
    let zone = TimeZone::system();
    let now = clock::wall().to_zoned_datetime(zone.clone());
    let jobs = installed(root).await;
    let line = |job: &crate::schedule::Job| {
        let next = job.slot.next(&now).map(|at| instant(at, &zone)).unwrap_or_default();
        ok(
            "schedule",
            format!("{}: {}, next on {next} (`doctor --as-scheduled` checks it)", job.name, job.slot),
        )
    };
    jobs.iter().map(|(_, job)| line(job)).collect()
}

/// `autopilot doctor --as-scheduled`: this program again, with next to no environment, and with `PATH` and options of
/// the job that is installed.
pub(in crate::cli) async fn as_scheduled(
    directory: &Path,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let root = start::repository(directory).await?.root;
    let job = installed(&root).await.into_iter().next().map(|(_, job)| job);
    let program = match &job {
        Some(job) => job.program.clone(),
        None => std::env::current_exe()
            .map_err(|error| CliError::environment("this program cannot find itself").caused_by(error))?,
    };
    let path =
        job.as_ref().map_or_else(|| job_path(std::env::var_os("PATH").as_deref()), |job| job.path.clone());
    let mut environment: Vec<(OsString, OsString)> =
        vec![("PATH".into(), path.into()), ("SHELL".into(), "/bin/sh".into())];
    environment.extend(std::env::vars_os().filter(|(name, _)| KEPT.iter().any(|kept| name == kept)));

    let mut args: Vec<OsString> = job.iter().flat_map(|job| job.args.iter().map(OsString::from)).collect();
    args.extend(["-C".into(), root.clone().into_os_string(), "doctor".into()]);
    args.extend(json.then(|| "--json".into()));
    args.extend(left_behind().into_iter().map(|name| format!("--missing={name}").into()));
    let mut spec = CaptureSpec::new(program, &root);
    spec.args = args;
    spec.env = Some(environment);
    spec.timeout = TIMEOUT;
    let captured = capture(&spec)
        .await
        .map_err(|error| CliError::environment("the checks cannot be run as a job").caused_by(error))?;
    printer.data(&String::from_utf8_lossy(&captured.stdout))?;
    let errors = String::from_utf8_lossy(&captured.stderr).trim().to_owned();
    if !errors.is_empty() {
        printer.warn(&errors);
    }
    if job.is_none() && !json {
        printer
            .say("no schedule is installed here: this is what one would see (`autopilot schedule install`)");
    }
    Ok(if captured.exit.success() { Exit::Planned } else { Exit::Environment })
}

/// What an interactive shell has and the job has not.
pub(super) fn missing(names: &[String]) -> Option<Check> {
    (!names.is_empty()).then(|| {
        warning(
            "environment",
            format!("set in your shell, and not for the job: {}", names.join(", ")),
            "settings go into .autopilot.toml; a token into the crontab (NAME=value), or Environment= of the service \
             (`systemctl --user edit`)",
        )
    })
}

/// Names of variables that are here and will not be there.
fn left_behind() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let telling = names
        .filter(|(name, value)| !value.is_empty() && TELLING.iter().any(|prefix| name.starts_with(prefix)));
    telling.map(|(name, _)| name).collect()
}
