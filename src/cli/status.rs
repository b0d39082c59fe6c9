//! `autopilot status`: what is running here, or how the last run ended.
//!
//! Quick however long the run is: of its journal only what a summary needs is read (budget: 20 ms for a night of
//! 200,000 events). The exit code says whether a run goes on.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::runs::{self, Depth};
use super::{start, watcher};
use crate::driver::clock;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::report::RunSummary;
use crate::state::layout::{Layout, RunDir};
use crate::state::lock::Holder;
use crate::ui::printer::{Level, Printer};
use crate::ui::text::{TextOptions, instant, span};

#[derive(Serialize)]
struct Document<'a> {
    running: bool,
    holder: Option<&'a Holder>,
    /// Seconds since the session wrote something; `null` = it has not, or nothing runs.
    silent_seconds: Option<u64>,
    run: Option<&'a RunSummary>,
}

pub(super) async fn status(directory: &Path, json: bool, printer: &Printer) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let layout = Layout::new(&repo.root);
    let peek = runs::peek(&layout)?;
    let running = peek.as_ref().is_some_and(|peek| peek.held);
    let holder = peek.as_ref().and_then(|peek| peek.holder.as_ref());
    let exit = match (running, holder) {
        (true, _) => Exit::Planned,
        (false, Some(_)) => Exit::Died,
        (false, None) => Exit::NotRunning,
    };
    if printer.level() == Level::Quiet && !json {
        return Ok(exit);
    }
    let run_id = match holder {
        Some(holder) if running => Some(holder.run_id.clone()),
        _ => runs::ids(&layout)?.pop(),
    };
    let summary = match run_id.as_deref() {
        Some(run_id) => Some(runs::read(&layout, run_id, Depth::Outline)?),
        None => None,
    };
    let run_dir = run_id.as_deref().filter(|_| running).and_then(|run_id| layout.run(run_id));
    let silent = run_dir.as_ref().and_then(silence);
    if json {
        let document = Document {
            running,
            holder,
            silent_seconds: silent.map(|silent| silent.as_secs()),
            run: summary.as_ref(),
        };
        let text = serde_json::to_string(&document)
            .map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?;
        printer.data(&text)?;
        return Ok(exit);
    }
    let options = watcher::page_options(printer);
    let mut text = match (running, holder) {
        (true, Some(holder)) => format!(
            "running: {} since {} (process {} on {})\n",
            holder.run_id, holder.started_at, holder.pid, holder.host
        ),
        (true, None) => "running: a run that is just starting\n".to_owned(),
        (false, Some(holder)) => {
            format!("run {} died without a word; go on with `autopilot resume`\n", holder.run_id)
        }
        (false, None) => "nothing is running here\n".to_owned(),
    };
    match summary {
        Some(summary) => {
            if running {
                text.push_str(&doing(&summary, silent, &options));
            }
            text.push_str(&summary.to_text(&options));
        }
        None => text.push_str("there has been no run here\n"),
    }
    printer.data(&text)?;
    Ok(exit)
}

/// What it does right now, a line.
fn doing(summary: &RunSummary, silent: Option<Duration>, options: &TextOptions) -> String {
    let now = clock::wall();
    let since = |at: jiff::Timestamp| {
        span(Duration::try_from_secs_f64(now.duration_since(at).as_secs_f64()).unwrap_or_default())
    };
    if let Some(wait) = summary.waits.last().filter(|wait| wait.waited_seconds.is_none()) {
        let window = wait.window.as_deref().unwrap_or("usage limit");
        let until = instant(wait.until, &options.time_zone);
        return format!("now: asleep on {} until {until}\n", options.fit(window, 40));
    }
    if let Some(wait) = summary.peer_waits.last().filter(|wait| wait.waited_seconds.is_none()) {
        return format!("now: waits for another Claude session here, for {} so far\n", since(wait.at));
    }
    let Some(session) = summary.sessions.last().filter(|session| session.end.is_none()) else {
        return "now: between sessions\n".to_owned();
    };
    let began = session.started_at.map(|at| format!(", since {}", since(at))).unwrap_or_default();
    let silent = silent.map(|silent| format!(", last output {} ago", span(silent))).unwrap_or_default();
    format!("now: session {}{began}{silent}\n", session.iteration)
}

/// How long ago the raw stream grew.
fn silence(run_dir: &RunDir) -> Option<Duration> {
    let newest: SystemTime = fs::read_dir(run_dir.stream())
        .ok()?
        .filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok())
        .max()?;
    let at = jiff::Timestamp::try_from(newest).ok()?;
    Duration::try_from_secs_f64(clock::wall().duration_since(at).as_secs_f64()).ok()
}
