//! `autopilot status`: what is running here, or how the last run ended.

use std::path::Path;

use serde::Serialize;

use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::journal::reader::read_journal;
use crate::report::RunSummary;
use crate::state::layout::Layout;
use crate::state::lock::{self, Holder};
use crate::ui::printer::Printer;

use super::{start, watcher};

#[derive(Serialize)]
struct Document<'a> {
    running: bool,
    holder: Option<&'a Holder>,
    run: Option<&'a RunSummary>,
}

pub(super) async fn status(directory: &Path, json: bool, printer: &Printer) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let layout = Layout::new(&repo.root);
    let peek =
        lock::peek(&layout.lock()).map_err(|error| CliError::from_error(ErrorKind::Environment, error))?;
    let running = peek.as_ref().is_some_and(|peek| peek.held);
    let holder = peek.as_ref().and_then(|peek| peek.holder.as_ref());
    let run_id = match holder {
        Some(holder) if running => Some(holder.run_id.clone()),
        _ => layout
            .run_ids()
            .map_err(|error| CliError::environment("cannot list the runs").caused_by(error))?
            .pop(),
    };
    let summary = match run_id.as_deref().and_then(|run_id| layout.run(run_id)) {
        Some(run_dir) => {
            let replay = read_journal(&run_dir.events())
                .map_err(|error| CliError::from_error(ErrorKind::Environment, error))?;
            Some(RunSummary::from_entries(&replay.entries))
        }
        None => None,
    };
    if json {
        let document = Document { running, holder, run: summary.as_ref() };
        let text = serde_json::to_string(&document)
            .map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?;
        printer.data(&text)?;
        return Ok(Exit::Planned);
    }
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
        Some(summary) => text.push_str(&summary.to_text(&watcher::text_options(printer))),
        None => text.push_str("there has been no run here\n"),
    }
    printer.data(&text)?;
    Ok(Exit::Planned)
}
