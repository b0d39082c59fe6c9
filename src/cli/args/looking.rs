//! Commands that look at runs: `status`, `report`, `logs`, `stop`, `history`, `explain`; and `notify`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use super::{path, text};
use crate::core::notice::NoticeKind;

/// `autopilot explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// Id of the run, or the beginning of it [default: the last one]
    pub run: Option<String>,
    /// Only the decisions of this iteration, from 1
    #[arg(long, value_name = "N")]
    pub iteration: Option<u32>,
    /// Decide again with other limits, as NAME=VALUE, and say what would have been different
    #[arg(long, value_name = "NAME=VALUE,…", value_delimiter = ',', value_parser = text)]
    pub what_if: Vec<String>,
}

/// `autopilot report`.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Id of the run, the beginning of it, or `last` [default: the last one]
    pub run: Option<String>,
    /// What to print [default: text, or by the name of the --output file]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<ReportFormat>,
    /// Write it to this file instead of stdout
    #[arg(short, long, value_name = "FILE", value_parser = path())]
    pub output: Option<PathBuf>,
    /// All runs since then: 7d, 36h, 90m, 2w, or a date such as 2026-11-01
    #[arg(long, value_name = "TIME", value_parser = text, conflicts_with = "run")]
    pub since: Option<String>,
    /// All runs of the last seven days
    #[arg(long, conflicts_with_all = ["since", "run"])]
    pub week: bool,
}

/// What a report is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// For a terminal
    Text,
    /// For programs
    Json,
    /// For a mail or a web forge
    Markdown,
    /// One web page with charts, complete in itself
    Html,
    /// `JUnit` XML, for the test view of a CI system
    Junit,
}

/// `autopilot logs`.
#[derive(Debug, Clone, Args)]
pub struct LogsArgs {
    /// Id of the run, the beginning of it, or `last` [default: the last one]
    pub run: Option<String>,
    /// Go on until the run is over
    #[arg(short, long)]
    pub follow: bool,
    /// Only this session, from 1
    #[arg(long, value_name = "N")]
    pub session: Option<u32>,
}

/// `autopilot stop`.
#[derive(Debug, Clone, Args)]
pub struct StopArgs {
    /// Interrupt the turn and end, like SIGTERM; without it the session is finished first, like one Ctrl-C
    #[arg(long)]
    pub now: bool,
    /// Come back when the run is over
    #[arg(long)]
    pub wait: bool,
}

/// `autopilot history`.
#[derive(Debug, Clone, Args)]
pub struct HistoryArgs {
    /// Runs to list, the newest ones; 0 = all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// What else can be done.
    #[command(subcommand)]
    pub command: Option<HistoryCommand>,
}

/// `autopilot history …`.
#[derive(Debug, Clone, Subcommand)]
pub enum HistoryCommand {
    /// Remove the folders of the oldest runs; their records in autopilot.jsonl stay
    Prune {
        /// Keep so many, the newest ones [default: the setting keep-runs]
        #[arg(long, value_name = "N")]
        keep: Option<u32>,
        /// Keep so much, the newest ones: 500MB, 2GB [default: the setting keep-size]
        #[arg(long, value_name = "SIZE", value_parser = size)]
        max_size: Option<u64>,
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,
    },
}

/// A number of bytes: `500MB`, `2GB`, `800k`; a bare number is megabytes, as in the setting.
fn size(text: &str) -> Result<u64, &'static str> {
    const WRONG: &str = "give a size such as 500MB or 2GB";
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit: f64 = match lower[digits.len()..].trim() {
        "" | "m" | "mb" | "mib" => 1e6,
        "g" | "gb" | "gib" => 1e9,
        "k" | "kb" | "kib" => 1e3,
        "b" => 1.0,
        _ => return Err(WRONG),
    };
    let number: f64 = digits.parse().map_err(|_| WRONG)?;
    if !number.is_finite() || number < 0.0 {
        return Err(WRONG);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` stops at the bounds")]
    Ok((number * unit) as u64)
}

pub(super) const STATUS_HELP: &str = "\
Exit codes:
    0  a run goes on here
    6  nothing is running
    7  the last run died without a word: `autopilot resume` goes on with it

Examples:
  autopilot status                      how far it is
  autopilot status --json | jq .running
  autopilot status -q && echo busy      only the exit code";

pub(super) const REPORT_HELP: &str = "\
Examples:
  autopilot report                      the last run
  autopilot report --output night.html  the same as a web page with charts: one file, no network
  autopilot report main-2026-11-14      a run by the beginning of its id
  autopilot report --week --format markdown
                                        all runs of the last seven days
  autopilot report --format junit --output report.xml
                                        for the test view of a CI system";

pub(super) const LOGS_HELP: &str = "\
Examples:
  autopilot logs -f                     watch the run that goes on, from any terminal
  autopilot logs --session 2            what the second session of the last run did
  autopilot logs --json | jq .event     one JSON object a line

Of a long stream the first MiB and the last 7 to 15 MiB of each process are kept.";

pub(super) const STOP_HELP: &str = "\
The run is found by its lock and is signalled only when process id and start time are those of the run. Asking
twice is the same as asking once.

Exit codes:
    0  it was told (with --wait: it is over)
    6  nothing is running here

Examples:
  autopilot stop                        finish this session, then stop
  autopilot stop --now --wait           interrupt the session, record it, and come back when all is gone
  autopilot resume                      go on later";

pub(super) const HISTORY_HELP: &str = "\
Examples:
  autopilot history                     the last twenty runs
  autopilot history --limit 0 --json    all of them, for programs
  autopilot history prune --keep 10     remove the folders of all but the newest ten
  autopilot history prune --max-size 500MB --dry-run

A run ends with the same, by the settings keep-runs and keep-size. A run that goes on, or one that has no end and
can be resumed, is never removed.";

/// `autopilot gate`.
#[derive(Debug, Clone, Subcommand)]
pub enum GateCommand {
    /// Say how a command is parsed, and what the gate makes of each part; nothing is run
    #[command(after_long_help = GATE_HELP)]
    Explain(GateExplainArgs),
}

/// `autopilot gate explain`.
#[derive(Debug, Clone, Args)]
pub struct GateExplainArgs {
    /// A shell command; of another tool the file, the address, or its whole input as JSON
    pub what: String,
    /// The tool that would be called
    #[arg(long, value_name = "NAME", default_value = "Bash")]
    pub tool: String,
    /// Judge as in a session of this kind; rules may be for one
    #[arg(long = "as", value_name = "MODE", default_value = "feature")]
    pub mode: crate::core::mode::Mode,
}

pub(super) const GATE_HELP: &str = "\
Examples:
  autopilot gate explain 'cargo test && rm -rf target'
  autopilot --gate strict gate explain 'cargo test'
  autopilot gate explain --tool Edit .github/workflows/ci.yml

Rules stand in .autopilot.toml, deny before ask before allow:
  gate-deny = [\"Bash(npm install:*)\"]
  gate-allow = [\"Bash(git push:*)\", \"WebFetch(domain:docs.rs)\", \"deep: Bash(docker compose:*)\"]
Bash(x:*) is every command that begins with x, Bash(x) that very command; Edit(docs/**) files that are written,
Read(//etc/hosts) files that are read; a bare name is every call of a tool. What a chain, a pipe, a substitution or
`sh -c` would run is judged part by part. A rule lifts a refusal, but not that of the worst: for these it has to be
the very command.";

pub(super) const EXPLAIN_HELP: &str = "\
Examples:
  autopilot explain --iteration 2       why the second session was what it was, and what it was judged to be
  autopilot explain --what-if confidence-threshold=0.7,max-sessions=8
                                        what the recorded decisions would have been with these limits

--what-if takes confidence-threshold, carryover-threshold, peer-abort, max-sessions, max-hours, max-tokens and
max-cost.";

/// `autopilot doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Check in the environment that a scheduled run will have: its PATH, its options, nothing of this shell
    #[arg(long)]
    pub as_scheduled: bool,
    /// Variables that a scheduled run will not have; set by `--as-scheduled`.
    #[arg(long, hide = true, conflicts_with = "as_scheduled")]
    pub missing: Vec<String>,
}

/// What follows the options of `doctor`.
pub(super) const DOCTOR_HELP: &str = "\
Looked at: repository, git identity, signing and hooks, configuration, claude and its version, login and when it
ends, permissions, variables of other sessions, MCP servers, tasks, state folder, disk, memory, limits of the
container, clock, other runs and Claude sessions here, how the last run ended, notifications, schedules.

Nothing is changed and no session is started; of credentials nothing is read but when they expire.
Exit code 0: a run can start; warnings are worth reading. 23: something would stop it.";

/// `autopilot notify`.
#[derive(Debug, Clone, Subcommand)]
pub enum NotifyCommand {
    /// Send a message over every channel that is configured, and say what came of it
    Test(NotifyTestArgs),
}

/// `autopilot notify test`.
#[derive(Debug, Clone, Args)]
pub struct NotifyTestArgs {
    /// What kind of message to send
    #[arg(long, value_name = "KIND", default_value = "done",
        value_parser = PossibleValuesParser::new(NoticeKind::ALL.map(NoticeKind::as_str)))]
    pub event: String,
}

/// What follows the options of `notify`.
pub(super) const NOTIFY_HELP: &str = "\
Notifications are set up in .autopilot.toml or autopilot/config.toml:
  notify-command = \"jq -r .title | wall\"        a shell command; it gets JSON on standard input
  notify-webhook = [\"slack=$SLACK_WEBHOOK_URL\"]  json, slack, discord or ntfy; an address or a variable
  notify-desktop = \"on\"                          notify-send, or osascript on macOS
  notify-mail = \"me@example.org\"                 sendmail
  notify-on = [\"blocked\", \"stopped\"]           what to tell; all but `started` unless it is set
  quiet-hours = \"22:00-07:00\"                    only what is urgent is sent; the rest comes later

A test ignores quiet hours and cooldown. Exit code 23: something was not delivered.";
