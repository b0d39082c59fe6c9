//! `autopilot stop`: asks the run that goes on here to end.
//!
//! Whom: the lock says who holds it; that it is *held* proves that a run lives, and process id together with start
//! time prove that it is this one. Nobody is found by name. What is sent does not count (SIGUSR1, SIGUSR2), so
//! that two people who stop the same run do not kill its session.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::args::StopArgs;
use super::{runs, start};
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::process::{ProcessId, Request, SendError, ask};
use crate::state::layout::Layout;
use crate::state::lock::{Holder, Peek};
use crate::ui::printer::Printer;

/// How often the lock is looked at while the end is waited for.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Document<'a> {
    run_id: Option<&'a str>,
    /// `finish` or `interrupt`; `null` when there is nothing to stop.
    asked: Option<&'static str>,
    /// Whether it has ended meanwhile (`--wait`).
    ended: bool,
}

pub(super) async fn stop(
    directory: &Path,
    args: &StopArgs,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let layout = Layout::new(&repo.root);
    let held = runs::peek(&layout)?.filter(|peek| peek.held);
    let Some(Peek { holder, .. }) = held else {
        return nothing(&layout, json, printer);
    };
    let Some(holder) = holder else {
        return Err(CliError::new(
            ErrorKind::AlreadyRunning,
            "a run is just starting here, and has not said who it is",
        )
        .hinted("try again in a second"));
    };
    let (request, asked) = if args.now { (Request::End, "interrupt") } else { (Request::Finish, "finish") };
    match ask(identity(&holder)?, request) {
        Ok(()) => {}
        // It ended between the look and the signal.
        Err(SendError::Gone) if !runs::is_running(&layout, &holder.run_id)? => {
            return nothing(&layout, json, printer);
        }
        Err(error) => {
            return Err(CliError::environment(format!(
                "run {} (process {} on {}) cannot be told to stop",
                holder.run_id, holder.pid, holder.host
            ))
            .caused_by(error)
            .hinted("do it as the user, and in the container, that it runs in"));
        }
    }
    if !json {
        let run_id = &holder.run_id;
        printer.say(&if args.now {
            format!("run {run_id}: the turn is interrupted and recorded, then it stops")
        } else {
            format!(
                "run {run_id}: the session is finished, then it stops (`autopilot stop --now` does not wait for it)"
            )
        });
    }
    if args.wait {
        while runs::is_running(&layout, &holder.run_id)? {
            tokio::time::sleep(LOOK).await;
        }
        if !json {
            printer.say(&format!("run {} is over; go on with `autopilot resume`", holder.run_id));
        }
    }
    if json {
        print(printer, &Document { run_id: Some(&holder.run_id), asked: Some(asked), ended: args.wait })?;
    }
    Ok(Exit::Planned)
}

/// The process of a run, if it can be known to be that one.
fn identity(holder: &Holder) -> Result<ProcessId, CliError> {
    let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if !holder.host.is_empty() && holder.host != here {
        return Err(CliError::environment(format!(
            "run {} goes on on another machine, {}; this one is {here}",
            holder.run_id, holder.host
        ))
        .hinted("stop it there"));
    }
    if holder.pid_start_time == 0 {
        return Err(CliError::environment(format!(
            "run {} did not say when its process {} was started, so that cannot be told from a later one",
            holder.run_id, holder.pid
        ))
        .hinted(format!("if it is the run: kill -INT {}", holder.pid)));
    }
    Ok(ProcessId { pid: holder.pid, start_time: holder.pid_start_time })
}

fn nothing(layout: &Layout, json: bool, printer: &Printer) -> Result<Exit, CliError> {
    if json {
        print(printer, &Document { run_id: None, asked: None, ended: false })?;
    } else {
        let died = runs::peek(layout)?.and_then(|peek| peek.holder).map(|holder| {
            format!("; run {} died without a word, go on with `autopilot resume`", holder.run_id)
        });
        printer.say(&format!("nothing is running here{}", died.unwrap_or_default()));
    }
    Ok(Exit::NotRunning)
}

fn print(printer: &Printer, document: &Document<'_>) -> Result<(), CliError> {
    let text = serde_json::to_string(document)
        .map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?;
    printer.data(&text)
}
