//! `autopilot demo`: the real loop on a scratch repository, with a scripted agent in the place of Claude Code.

use clap::Parser as _;

use crate::demo as demonstration;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::ui::printer::Printer;

use super::args::Cli;
use super::config;
use super::run::{self, Request};

pub(super) async fn demo(json: bool, printer: &Printer) -> Result<Exit, CliError> {
    let exe = std::env::current_exe()
        .map_err(|error| CliError::environment("cannot find this program").caused_by(error))?;
    let demo = demonstration::prepare(None, &exe).map_err(|error| {
        CliError::from_error(ErrorKind::Environment, error)
            .hinted("the demo needs git and a temporary folder")
    })?;
    printer.say(&format!(
        "A scratch repository in {}.\nA scripted agent plays Claude Code; everything else is real.\n",
        demo.repo.display()
    ));
    let argv = vec![
        "autopilot".to_owned(),
        format!("--max-sessions={}", demo.sessions),
        "--max-hours=0.5".to_owned(),
        "--claude-bin".to_owned(),
        demo.claude_bin.display().to_string(),
        "--prompt".to_owned(),
        demo.prompt.clone(),
    ];
    let cli = Cli::try_parse_from(&argv).map_err(|error| {
        CliError::unexpected("the demo's own options are not understood").caused_by(error)
    })?;
    let flags = config::flags(&cli)?;
    // A demo started inside of a session is no nested run: it has its own repository.
    let mut environment: Vec<_> =
        std::env::vars_os().filter(|(name, _)| name != "AUTOPILOT_RUN_ID").collect();
    for (name, value) in &demo.env {
        environment.retain(|(key, _)| key != name);
        environment.push(((*name).into(), value.into()));
    }
    let request = Request {
        directory: demo.repo.clone(),
        flags,
        argv,
        events: false,
        json,
        environment,
        continued: None,
    };
    let exit = Box::pin(run::run(request, printer)).await?;
    let repo = demo.repo.display();
    printer.say(&format!(
        "\nLook around:\n  \
         git -C '{repo}' log --stat\n  \
         autopilot -C '{repo}' status\n  \
         cat '{repo}'/.orchestrator/metrics/autopilot.jsonl\n  \
         ls -R '{repo}'/.orchestrator/autopilot/runs\n\
         Delete it when you are done: rm -r '{}'",
        demo.root.display()
    ));
    Ok(exit)
}
