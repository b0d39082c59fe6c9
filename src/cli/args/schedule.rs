//! `autopilot schedule`.

use clap::{Args, Subcommand, ValueEnum};

use super::text;
use crate::schedule::DEFAULT_NAME;

/// What to do with schedules.
#[derive(Debug, Clone, Subcommand)]
pub enum ScheduleCommand {
    /// Start a run by itself at a time of day, in place of an earlier schedule of the same name
    Install(InstallArgs),
    /// List what is installed for this repository, or print what would be
    Show(ShowArgs),
    /// Take a schedule out again
    Remove(RemoveArgs),
    /// Start a run if its slot is due: what schedulers call
    #[command(hide = true)]
    Run(JobArgs),
}

/// What a job is.
#[derive(Debug, Clone, Args)]
pub struct JobArgs {
    /// Time of day, local
    #[arg(long, value_name = "HH:MM", default_value = "01:17", value_parser = text)]
    pub at: String,
    /// Days: daily, mon-fri, sat,sun, …
    #[arg(long, value_name = "DAYS", default_value = "daily", value_parser = text)]
    pub days: String,
    /// Hours in which a slot that was missed is caught up, once; 0 = never
    #[arg(long, value_name = "H", default_value_t = 12, value_parser = clap::value_parser!(u32).range(0..=168))]
    pub catch_up: u32,
    /// Tells several schedules of one repository apart
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME, value_parser = text)]
    pub name: String,
    /// Options of the run, behind `--`
    #[arg(last = true, value_name = "OPTIONS")]
    pub args: Vec<String>,
}

/// `autopilot schedule install`.
#[derive(Debug, Clone, Args)]
pub struct InstallArgs {
    /// The scheduler [default: launchd on macOS; else systemd if it runs for this user; else cron]
    #[arg(long, value_enum, value_name = "SCHEDULER")]
    pub with: Option<Scheduler>,
    /// The job.
    #[command(flatten)]
    pub job: JobArgs,
}

/// `autopilot schedule show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// Print this job in the format of a scheduler instead
    #[arg(long = "as", value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// The job.
    #[command(flatten)]
    pub job: JobArgs,
}

/// `autopilot schedule remove`.
#[derive(Debug, Clone, Args)]
pub struct RemoveArgs {
    /// Which of them
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME, value_parser = text)]
    pub name: String,
}

/// A scheduler of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scheduler {
    /// The crontab of this user
    Cron,
    /// A timer of this user's systemd
    Systemd,
    /// An agent of this user's launchd
    Launchd,
}

/// What a job can be printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines of a crontab
    Cron,
    /// A service and a timer
    Systemd,
    /// A property list
    Launchd,
    /// A workflow of GitHub Actions that chains jobs
    Github,
    /// A `CronJob`
    Kubernetes,
}

/// What follows the options.
pub(super) const SCHEDULE_HELP: &str = "\
Examples:
  autopilot schedule install --at 01:17 --days mon-fri -- --max-hours=5 --prompt-file work.md
  autopilot doctor --as-scheduled           would it work there? PATH, HOME and login are others than here
  autopilot schedule show                   what is installed, when it is due, when it was last started
  autopilot schedule show --as github -- --max-sessions=8 --prompt-file work.md
  autopilot schedule remove

A slot is started once, however often a scheduler calls. One that was missed because the machine was off or
asleep is caught up once within --catch-up hours. What a scheduled run says is in
.orchestrator/autopilot/schedule.log (cron, launchd) or in the journal (systemd).";
