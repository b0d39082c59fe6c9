//! `autopilot resume`: goes on with a run that was cut off, or stopped before its work was done.
//!
//! It is the same run: the same id, folder, journal and record, budgets that count all its parts, and the
//! conversation that was under way. What lies between two parts is not counted as its time.

use std::path::Path;

use crate::core::published::Entry;
use crate::core::run::Inherited;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::journal::autopilot_record::Heal;
use crate::journal::reader::read_journal;
use crate::settings::layer::Layer;
use crate::state::layout::Layout;
use crate::state::lock;
use crate::ui::printer::Printer;

use super::args::{Cli, ResumeArgs};
use super::run::{Continued, Earlier, Request, RunFile};
use super::{config, run, runs, start};

pub(super) async fn resume(
    directory: &Path,
    args: &ResumeArgs,
    flags: &Layer,
    asked_now: Vec<String>,
    events: bool,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let layout = Layout::new(&repo.root);
    let run_id = runs::find(&layout, args.run.as_deref())?;
    refuse_running(&layout, &run_id)?;
    let run_dir =
        layout.run(&run_id).ok_or_else(|| CliError::usage(format!("`{run_id}` is not the id of a run")))?;
    let file = read_run_file(&run_dir.run_json()).map_err(|error| error.hinted("start a new run instead"))?;
    let replay = read_journal(&run_dir.events())
        .map_err(|error| CliError::from_error(ErrorKind::Usage, error).hinted("start a new run instead"))?;
    // What was asked at the beginning, over it what was asked by each `resume`, and over that what is asked now.
    let mut layer = Layer::default();
    for argv in std::iter::once(&file.argv).chain(&file.resumed_with) {
        let asked = Cli::parse_argv(argv.iter().map(Into::into)).map_err(|error| {
            CliError::usage("the options of that run are not understood").caused_by(error)
        })?;
        layer.overlay(config::flags(&asked)?);
    }
    let new_prompt = ["prompt", "prompt-file"].iter().any(|name| flags.get(name).is_some());
    // Its text is in `run.json`; the file may have changed, and standard input is gone.
    layer.forget("prompt");
    layer.forget("prompt-file");
    layer.forget("dry-run");
    layer.overlay(flags.clone());
    let verify = config::load(&layer, &config::Files::locate(&repo.root))?.settings.work.verify.is_some();
    let mut inherited = Inherited::from_journal(&replay.entries, verify);
    inherited.work_done &= !new_prompt;
    let request = Request {
        directory: repo.root.clone(),
        flags: layer,
        argv: asked_now,
        events,
        json,
        environment: std::env::vars_os().collect(),
        continued: Some(Continued { run_id, file, inherited, earlier: earlier(&replay.entries) }),
    };
    Box::pin(run::run(request, printer)).await
}

fn earlier(entries: &[Entry]) -> Earlier {
    Earlier {
        started_at: entries.first().map(|entry| entry.at),
        heals: entries.iter().filter_map(|entry| Heal::of(&entry.event)).collect(),
    }
}

fn read_run_file(path: &Path) -> Result<RunFile, CliError> {
    let text = std::fs::read(path).map_err(|error| {
        CliError::new(ErrorKind::Usage, format!("cannot read {}", path.display())).caused_by(error)
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        CliError::new(ErrorKind::Usage, format!("{} is damaged", path.display())).caused_by(error)
    })
}

fn refuse_running(layout: &Layout, run_id: &str) -> Result<(), CliError> {
    match lock::peek(&layout.lock()) {
        Ok(Some(peek)) if peek.held && peek.holder.as_ref().is_some_and(|holder| holder.run_id == run_id) => {
            Err(CliError::new(ErrorKind::AlreadyRunning, format!("run {run_id} is still going on"))
                .hinted("`autopilot status` says how far it is"))
        }
        _ => Ok(()),
    }
}
