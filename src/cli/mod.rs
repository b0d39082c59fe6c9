//! The command line: from arguments to a command, and from its result to an exit code.
//!
//! Each command is a file. A command takes settings and a printer; it prints data to stdout, everything for
//! people to stderr, and fails with a [`CliError`] whose kind decides the exit code.

pub mod args;
mod ci;
pub mod completions;
pub mod config;
mod demo;
mod doctor;
mod explain;
mod gate;
mod grounds;
mod history;
mod logs;
pub mod man;
mod next_steps;
mod notify;
mod outlook;
mod plan;
mod remains;
mod report;
mod resume;
mod run;
mod runs;
mod schedule;
mod start;
mod status;
mod stop;
mod verdict;
mod watcher;

use std::ffi::OsString;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::demo as demonstration;
use crate::driver::clock;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::ui::printer::{Level, Options, Printer, Surroundings};

use args::{Cli, Command, ConfigCommand, GateCommand, NotifyCommand};

/// The whole program: what `main` calls.
#[must_use]
pub fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    // The demonstration starts this very program under another name in the place of Claude Code.
    if argv.first().is_some_and(|name| demonstration::is_agent_name(name)) {
        return agent(&argv[1..]);
    }
    let early = Printer::new(
        Options { level: Level::Default, color: clap::ColorChoice::Auto, no_progress: true },
        Surroundings::detect(),
    );
    let cli = match Cli::parse_argv(argv.iter().cloned()) {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Planned };
            return match early.clap(&error) {
                Ok(()) => code.into(),
                Err(error) => fail(&early, &error),
            };
        }
    };
    let level = match (cli.global.quiet, cli.global.verbose) {
        (true, _) => Level::Quiet,
        (false, 0) => Level::Default,
        (false, _) => Level::Verbose,
    };
    log_to_stderr(cli.global.verbose);
    let options = Options { level, color: cli.global.color, no_progress: cli.global.no_progress };
    let printer = Printer::new(options, Surroundings::detect());
    match dispatch(&cli, &argv, &printer) {
        Ok(exit) => exit.into(),
        Err(error) => fail(&printer, &error),
    }
}

fn dispatch(cli: &Cli, argv: &[OsString], printer: &Printer) -> Result<Exit, CliError> {
    match &cli.command {
        Some(Command::Completions { shell }) => {
            printer.data_bytes(&completions::script(*shell))?;
            return Ok(Exit::Planned);
        }
        Some(Command::Man) => {
            let page = man::page().map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?;
            printer.data_bytes(&page)?;
            return Ok(Exit::Planned);
        }
        Some(Command::DemoAgent { args }) => {
            let code = demonstration::agent_main(&lossy(args), clock::wall());
            return Ok(if code == 0 { Exit::Planned } else { Exit::Unexpected });
        }
        None
        | Some(
            Command::Run(_)
            | Command::Resume(_)
            | Command::Status
            | Command::Report(_)
            | Command::Logs(_)
            | Command::Stop(_)
            | Command::History(_)
            | Command::Explain(_)
            | Command::Gate { .. }
            | Command::Verdict(_)
            | Command::Schedule { .. }
            | Command::Notify { .. }
            | Command::Doctor(_)
            | Command::Config { .. }
            | Command::Demo,
        ) => {}
    }
    let flags = config::flags(cli)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::environment("cannot start the runtime").caused_by(error))?;
    let directory = match &cli.global.directory {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().map_err(|error| {
            CliError::environment("the current directory cannot be used")
                .caused_by(error)
                .hinted("it was deleted or moved: start from an existing directory, or give one with -C DIR")
        })?,
    };
    let json = cli.global.json;
    runtime.block_on(async {
        match &cli.command {
            Some(Command::Demo) => Box::pin(demo::demo(json, printer)).await,
            Some(Command::Doctor(how)) if how.as_scheduled => {
                doctor::as_scheduled(&directory, json, printer).await
            }
            Some(Command::Doctor(how)) => {
                Box::pin(doctor::doctor(&directory, how, &flags, json, printer)).await
            }
            Some(Command::Explain(which)) => explain::explain(&directory, which, json, printer).await,
            Some(Command::Gate { command: GateCommand::Explain(what) }) => {
                gate::explain(&directory, what, &flags, json, printer).await
            }
            Some(Command::Schedule { command }) => {
                Box::pin(schedule::schedule(&directory, command, json, printer)).await
            }
            Some(Command::Notify { command: NotifyCommand::Test(what) }) => {
                notify::test(&directory, what, &flags, json, printer).await
            }
            Some(Command::Verdict(_)) => {
                let environment: Vec<_> = std::env::vars_os().collect();
                verdict::verdict(&directory, &flags, &environment, json, printer).await
            }
            Some(Command::Status) => status::status(&directory, json, printer).await,
            Some(Command::Report(which)) => report::report(&directory, which, json, printer).await,
            Some(Command::Logs(which)) => logs::logs(&directory, which, json, printer).await,
            Some(Command::Stop(how)) => stop::stop(&directory, how, json, printer).await,
            Some(Command::History(what)) => history::history(&directory, what, &flags, json, printer).await,
            Some(Command::Config { command: ConfigCommand::Show { origin } }) => {
                let repo = start::repository(&directory).await?;
                let files = config::Files::locate(&repo.root);
                let resolved = config::load(&flags, &files)?;
                let text = if json {
                    config::show_json(&resolved, &files)?
                } else {
                    config::show(&resolved, *origin)
                };
                printer.data(&text)?;
                Ok(Exit::Planned)
            }
            Some(Command::Resume(resume)) => {
                let events = config::wants_events(cli);
                Box::pin(resume::resume(&directory, resume, &flags, lossy(argv), events, json, printer)).await
            }
            _ => {
                let request = run::Request {
                    directory,
                    flags,
                    argv: lossy(argv),
                    events: config::wants_events(cli),
                    json,
                    environment: std::env::vars_os().collect(),
                    continued: None,
                };
                Box::pin(run::run(request, printer)).await
            }
        }
    })
}

fn agent(args: &[OsString]) -> ExitCode {
    ExitCode::from(demonstration::agent_main(&lossy(args), clock::wall()))
}

fn fail(printer: &Printer, error: &CliError) -> ExitCode {
    printer.error(error);
    error.exit().into()
}

fn lossy(args: &[OsString]) -> Vec<String> {
    args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// Diagnostics for developers; `AUTOPILOT_LOG` takes a filter as `tracing` knows it.
fn log_to_stderr(verbose: u8) {
    let default = match verbose {
        0 | 1 => "off",
        2 => "autopilot=debug",
        _ => "autopilot=trace",
    };
    let filter = EnvFilter::try_from_env("AUTOPILOT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // A second initialisation is impossible here, and harmless.
    drop(tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init());
}
