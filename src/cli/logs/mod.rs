//! `autopilot logs`: what the sessions of a run said and did, from its journal and the raw streams.
//!
//! Theory of operation. The journal has times and no words of the model; the streams have the words and no
//! times. They are told in one order: an attempt's stream is played where the journal says the attempt was
//! spawned, and where both have the same thing (the introduction, a retry, a usage window) the journal's entries
//! before it are told first. While a run goes on both files are looked at five times a second.
//!
//! Invariants. Everything is foreign text and is cleaned. A follower ends: with the last event of the run, or when
//! nobody holds the run's lock any more.

mod play;
mod render;
mod stream;

use std::path::Path;
use std::time::Duration;

use super::args::LogsArgs;
use super::{runs, start, watcher};
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::journal::reader::{Follower, is_missing};
use crate::state::layout::Layout;
use crate::ui::printer::Printer;

use play::Play;
use render::Render;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn logs(
    directory: &Path,
    args: &LogsArgs,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let layout = Layout::new(&repo.root);
    let run_id = match (&args.run, args.follow) {
        // Who wants to follow means the run that goes on.
        (None, true) => match runs::peek(&layout)?.filter(|peek| peek.held).and_then(|peek| peek.holder) {
            Some(holder) => holder.run_id,
            None => runs::find(&layout, None)?,
        },
        (wanted, _) => runs::find(&layout, wanted.as_deref())?,
    };
    let run_dir =
        layout.run(&run_id).ok_or_else(|| CliError::usage(format!("`{run_id}` is not the id of a run")))?;
    let options = watcher::log_options(printer);
    let mut play = Play::new(run_dir.stream(), Render::new(options, json, args.session));
    let mut follower: Option<Follower> = None;
    loop {
        // Looked at before the files: what a run wrote before it let go of its lock is then read.
        let running = runs::is_running(&layout, &run_id)?;
        if follower.is_none() {
            match Follower::open(&run_dir.events()) {
                Ok(opened) => follower = Some(opened),
                Err(error) if is_missing(&error) && running && args.follow => {}
                Err(error) => {
                    return Err(CliError::from_error(ErrorKind::Environment, error)
                        .hinted("its journal is not there; `autopilot report` tells what its record says"));
                }
            }
        }
        if let Some(follower) = &mut follower {
            let replay =
                follower.poll().map_err(|error| CliError::from_error(ErrorKind::Environment, error))?;
            play.add(replay.entries);
        }
        let over = play.is_at_the_end() || !running || !args.follow;
        play.go_on(over);
        let text = play.take();
        if !text.is_empty() {
            printer.data(&text)?;
        }
        if printer.stdout_is_closed() || play.has_ended() {
            return Ok(Exit::Planned);
        }
        if over {
            if !running && !json {
                printer.warn(&format!(
                    "run {run_id} has no end: it died without a word; `autopilot resume {run_id}` goes on with it"
                ));
            } else if !json {
                printer.say(&format!("run {run_id} goes on; `autopilot logs -f` follows it"));
            }
            return Ok(Exit::Planned);
        }
        tokio::time::sleep(LOOK).await;
    }
}
