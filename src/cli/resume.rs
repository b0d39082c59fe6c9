//! `autopilot resume`: goes on with a run that was cut off, or stopped before its work was done.

use std::path::Path;

use crate::core::published::{Entry, RunEvent};
use crate::core::recovery::HEALTHY;
use crate::core::run::{Inherited, OpenLimit};
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::journal::reader::read_journal;
use crate::report::RunSummary;
use crate::settings::layer::Layer;
use crate::state::layout::{Layout, RunDir};
use crate::state::lock;
use crate::ui::printer::Printer;

use super::args::{Cli, ResumeArgs};
use super::run::{Continued, Request, RunFile};
use super::{config, run, start};

mod chain;

use chain::Chain;

pub(super) async fn resume(
    directory: &Path,
    args: &ResumeArgs,
    flags: &Layer,
    events: bool,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let layout = Layout::new(&repo.root);
    let run_id = find_run(&layout, args.run.as_deref())?;
    refuse_running(&layout, &run_id)?;
    let run_dir =
        layout.run(&run_id).ok_or_else(|| CliError::usage(format!("`{run_id}` is not the id of a run")))?;
    let file = read_run_file(&run_dir.run_json()).map_err(|error| error.hinted("start a new run instead"))?;
    let replay = read_journal(&run_dir.events())
        .map_err(|error| CliError::from_error(ErrorKind::Usage, error).hinted("start a new run instead"))?;
    let before = Chain::before(&layout, &file);
    // What was asked then, and over it what is asked now.
    let old = Cli::parse_argv(file.argv.iter().map(Into::into))
        .map_err(|error| CliError::usage("the options of that run are not understood").caused_by(error))?;
    let mut layer = config::flags(&old)?;
    let new_prompt = ["prompt", "prompt-file"].iter().any(|name| flags.get(name).is_some());
    // Its text is in `run.json`; the file may have changed, and standard input is gone.
    layer.forget("prompt");
    layer.forget("prompt-file");
    layer.forget("dry-run");
    layer.overlay(flags.clone());
    let verify = config::load(&layer, &config::Files::locate(&repo.root))?.settings.work.verify.is_some();
    let (inherited, work_done) = interrupted(&before.unfinished(&file, &replay.entries), verify);
    let heals = heals_used(before.entries().chain(&replay.entries));
    let used = before.used().and(&RunSummary::from_entries(&replay.entries));
    let request = Request {
        directory: repo.root.clone(),
        flags: layer,
        argv: file.argv.clone(),
        events,
        json,
        environment: std::env::vars_os().collect(),
        continued: Some(Continued {
            run_id: run_id.clone(),
            prompt: file.prompt,
            inherited: Inherited { work_done: work_done && !new_prompt, heals, ..inherited },
            sessions_done: used.sessions,
            tokens_used: used.tokens,
            cost_usd: used.cost_usd,
        }),
    };
    run::run(request, printer).await
}

fn read_run_file(path: &Path) -> Result<RunFile, CliError> {
    let text = std::fs::read(path).map_err(|error| {
        CliError::new(ErrorKind::Usage, format!("cannot read {}", path.display())).caused_by(error)
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        CliError::new(ErrorKind::Usage, format!("{} is damaged", path.display())).caused_by(error)
    })
}

/// The run with this id or beginning of an id; by default the last one that said that it began: one that died
/// before has nothing to go on with or to explain.
pub(super) fn find_run(layout: &Layout, wanted: Option<&str>) -> Result<String, CliError> {
    let ids = layout
        .run_ids()
        .map_err(|error| CliError::environment("cannot list the runs of this repository").caused_by(error))?;
    let Some(wanted) = wanted else {
        let began = ids.iter().rev().find(|id| layout.run(id).is_some_and(|run_dir| began(&run_dir)));
        return began.or(ids.last()).cloned().ok_or_else(|| {
            CliError::usage("there has been no run here").hinted("start one with `autopilot`")
        });
    };
    let matching: Vec<&String> = ids.iter().filter(|id| id.starts_with(wanted)).collect();
    match matching.as_slice() {
        _ if ids.iter().any(|id| id == wanted) => Ok(wanted.to_owned()),
        [one] => Ok((*one).clone()),
        [] => Err(CliError::usage(format!("there is no run `{wanted}` here"))
            .hinted(format!("the last one is {}", ids.last().map_or("none", String::as_str)))),
        several => Err(CliError::usage(format!("{} runs begin with `{wanted}`", several.len()))
            .hinted(format!("for instance {}", several[0]))),
    }
}

/// A journal that cannot be read is for whoever wants to read it to complain of.
fn began(run_dir: &RunDir) -> bool {
    match read_journal(&run_dir.events()) {
        Ok(replay) => replay.entries.iter().any(|entry| matches!(entry.event, RunEvent::RunStarted { .. })),
        Err(_) => run_dir.events().exists(),
    }
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

/// Heals of the run that were used up when it ended: what fails over and over gets no new ones by being resumed
/// over and over (recovery §4.2).
fn heals_used<'a>(entries: impl Iterator<Item = &'a Entry>) -> u32 {
    let mut used = 0;
    for entry in entries {
        match &entry.event {
            RunEvent::Healed { run_heal: Some(number), .. } => used = *number,
            RunEvent::SessionEnded { completed: true, .. } => used = 0,
            RunEvent::AttemptEnded { seconds, longest_gap_seconds, .. }
                if seconds - longest_gap_seconds >= HEALTHY.as_secs_f64() =>
            {
                used = 0;
            }
            _ => {}
        }
    }
    used
}

/// The conversation that was cut off with the limit it was waiting for, and whether a session had reported the
/// work complete.
fn interrupted(entries: &[&Entry], verify: bool) -> (Inherited, bool) {
    let mut open: Option<String> = None;
    let mut limit: Option<OpenLimit> = None;
    let mut session: Option<String> = None;
    let mut done = false;
    for entry in entries {
        match &entry.event {
            // The id may change within a session: the last one that was used counts.
            RunEvent::AttemptStarted { session_id, .. } => {
                open = Some(session_id.clone());
                limit = None;
            }
            RunEvent::LimitWait { window, until, source, why } => {
                // A run that took up a wait, and ended before it asked anything.
                open = open.or_else(|| session.clone());
                limit = Some(OpenLimit {
                    window: window.clone(),
                    until: *until,
                    source: *source,
                    why: why.clone(),
                });
            }
            RunEvent::LimitWaitOver { .. } => limit = None,
            // A person who ended the wait at the keyboard, and now asks to go on, knows better than a plan made
            // before: it asks at once. A shutdown (SIGTERM, SIGHUP) or a death says nothing about the limit.
            RunEvent::StopRequested { by, .. } if by == "SIGINT" => limit = None,
            RunEvent::SessionStarted { session_id, .. } => session = Some(session_id.clone()),
            RunEvent::SessionEnded { completed: true, status, verification, .. } => {
                (open, limit) = (None, None);
                // A claim that `--verify` contradicts, or had no time to look at, leaves work.
                done |= matches!(status.as_deref(), Some("complete" | "nothing_to_do"))
                    && verification.as_ref().map_or(!verify, |verification| verification.passed);
            }
            _ => {}
        }
    }
    (Inherited { session_id: open, limit, ..Inherited::default() }, done)
}
