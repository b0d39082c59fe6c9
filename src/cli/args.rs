//! The command line as clap sees it: shapes and help, no meaning.
//!
//! Help, default and bounds of an option come from [`keys`], so that they cannot differ from what is done.
//! Values stay as they are given: `None` is "not on the command line", and [`super::config`] makes a layer of
//! settings of what is there. Options of a run may stand before the command or after it; the later one wins.
//!
//! Pitfall: an option that takes a value refuses one that begins with `-` (except numbers and `--claude-arg`),
//! so that `--prompt --dry-run` is an error and not a prompt.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ColorChoice, CommandFactory as _, Parser, Subcommand};

use crate::error::exit;
use crate::settings::key::{Group, Setting as _, parse_number};
use crate::settings::keys;

mod looking;
mod schedule;

use looking::{
    DOCTOR_HELP, EXPLAIN_HELP, GATE_HELP, HISTORY_HELP, LOGS_HELP, NOTIFY_HELP, REPORT_HELP, STATUS_HELP,
    STOP_HELP,
};
pub use looking::{
    DoctorArgs, ExplainArgs, GateCommand, GateExplainArgs, HistoryArgs, HistoryCommand, LogsArgs,
    NotifyCommand, NotifyTestArgs, ReportArgs, ReportFormat, StopArgs,
};
use schedule::SCHEDULE_HELP;
pub use schedule::{Format, InstallArgs, JobArgs, RemoveArgs, ScheduleCommand, Scheduler, ShowArgs};

const BUDGETS: &str = Group::Budgets.title();
const STOP_RULES: &str = Group::StopRules.title();
const DEADLINES: &str = Group::Deadlines.title();
const WORK: &str = Group::Work.title();
const CLAUDE: &str = Group::Claude.title();
const SAFETY: &str = Group::Safety.title();
const OUTPUT: &str = "Output";
const GLOBAL: &str = "Everywhere";

/// Name of the hidden command that plays `claude`.
const DEMO_AGENT: &str = "demo-agent";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "autopilot",
    version,
    about = "Runs chains of unattended Claude Code sessions, and is still right at 8 am",
    long_about = "Runs chains of unattended Claude Code sessions in a git repository, and is still right at 8 am: \
        it picks what comes next, watches each session, heals what can be healed, stops itself when budgets run \
        out or quality degrades, and leaves a record that explains every decision.\n\n\
        Without a command it does `run`.",
    after_help = "All options of a run: `autopilot --help`, with examples and exit codes.",
    after_long_help = epilogue(),
    args_override_self = true,
    max_term_width = 110
)]
pub struct Cli {
    /// Options of a run that stand before the command.
    #[command(flatten)]
    pub run: RunArgs,
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command; none = `run`.
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// Parses a command line, the name of the program first.
    ///
    /// # Errors
    ///
    /// Wrong usage, and also `--help` and `--version`: clap has the text, [`clap::Error::exit_code`] the code.
    pub fn parse_argv(argv: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let mut argv: Vec<OsString> = argv.into_iter().collect();
        // It plays `claude` and gets arguments of `claude`, some of which clap would take for ours.
        if argv.get(1).is_some_and(|command| command == DEMO_AGENT) {
            argv.insert(2, "--".into());
        }
        Cli::try_parse_from(argv)
    }
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = GLOBAL)]
pub struct GlobalArgs {
    /// Work in this directory [default: .]
    #[arg(short = 'C', global = true, value_name = "DIR", value_parser = path())]
    pub directory: Option<PathBuf>,
    /// Print data as JSON on stdout; for a run, one report at its end
    #[arg(long, global = true)]
    pub json: bool,
    /// Only warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more; twice for even more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// When to use colour [default: auto]
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    pub color: ColorChoice,
    /// No progress bar
    #[arg(long, global = true)]
    pub no_progress: bool,
}

/// Options of a run. `None` and empty = not given.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    /// [`keys::MAX_SESSIONS`].
    #[arg(long, value_name = keys::MAX_SESSIONS.spec().metavar, help = keys::MAX_SESSIONS.help(), help_heading = BUDGETS,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub max_sessions: Option<f64>,
    /// [`keys::MAX_HOURS`].
    #[arg(long, value_name = keys::MAX_HOURS.spec().metavar, help = keys::MAX_HOURS.help(), help_heading = BUDGETS,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub max_hours: Option<f64>,
    /// [`keys::LIMIT_WAIT_FREE`].
    #[arg(long, value_name = keys::LIMIT_WAIT_FREE.spec.metavar, help = keys::LIMIT_WAIT_FREE.help(),
        help_heading = BUDGETS, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide_possible_values = true)]
    pub limit_wait_free: Option<bool>,
    /// [`keys::MAX_TOKENS`].
    #[arg(long, value_name = keys::MAX_TOKENS.spec().metavar, help = keys::MAX_TOKENS.help(), help_heading = BUDGETS,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub max_tokens: Option<f64>,
    /// [`keys::MAX_COST`].
    #[arg(long, value_name = keys::MAX_COST.spec().metavar, help = keys::MAX_COST.help(), help_heading = BUDGETS,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub max_cost: Option<f64>,
    /// [`keys::RESERVE`].
    #[arg(long, value_name = keys::RESERVE.spec().metavar, help = keys::RESERVE.help(), help_heading = BUDGETS,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub reserve: Option<f64>,

    /// [`keys::CONFIDENCE_THRESHOLD`].
    #[arg(long, value_name = keys::CONFIDENCE_THRESHOLD.spec().metavar, help = keys::CONFIDENCE_THRESHOLD.help(),
        help_heading = STOP_RULES, value_parser = parse_number, allow_negative_numbers = true)]
    pub confidence_threshold: Option<f64>,
    /// [`keys::CARRYOVER_THRESHOLD`].
    #[arg(long, value_name = keys::CARRYOVER_THRESHOLD.spec().metavar, help = keys::CARRYOVER_THRESHOLD.help(),
        help_heading = STOP_RULES, value_parser = parse_number, allow_negative_numbers = true)]
    pub carryover_threshold: Option<f64>,
    /// [`keys::PEER_ABORT`].
    #[arg(long, value_name = keys::PEER_ABORT.spec().metavar, help = keys::PEER_ABORT.help(), help_heading = STOP_RULES,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub peer_abort: Option<f64>,

    /// [`keys::AUTONOMY`].
    #[arg(long, value_name = keys::AUTONOMY.spec.metavar, help = keys::AUTONOMY.help(), help_heading = STOP_RULES,
        value_parser = PossibleValuesParser::new(keys::AUTONOMY.words()))]
    pub autonomy: Option<String>,

    /// [`keys::STALL_TIMEOUT`].
    #[arg(long, value_name = keys::STALL_TIMEOUT.spec().metavar, help = keys::STALL_TIMEOUT.help(),
        help_heading = DEADLINES, value_parser = parse_number, allow_negative_numbers = true)]
    pub stall_timeout: Option<f64>,
    /// [`keys::FIRST_OUTPUT_TIMEOUT`].
    #[arg(long, value_name = keys::FIRST_OUTPUT_TIMEOUT.spec().metavar, help = keys::FIRST_OUTPUT_TIMEOUT.help(),
        help_heading = DEADLINES, value_parser = parse_number, allow_negative_numbers = true)]
    pub first_output_timeout: Option<f64>,
    /// [`keys::TURN_TIMEOUT`].
    #[arg(long, value_name = keys::TURN_TIMEOUT.spec().metavar, help = keys::TURN_TIMEOUT.help(),
        help_heading = DEADLINES, value_parser = parse_number, allow_negative_numbers = true)]
    pub turn_timeout: Option<f64>,
    /// [`keys::EXIT_GRACE`].
    #[arg(long, value_name = keys::EXIT_GRACE.spec().metavar, help = keys::EXIT_GRACE.help(), help_heading = DEADLINES,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub exit_grace: Option<f64>,
    /// [`keys::MAX_WAIT`].
    #[arg(long, value_name = keys::MAX_WAIT.spec().metavar, help = keys::MAX_WAIT.help(), help_heading = DEADLINES,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub max_wait: Option<f64>,
    /// [`keys::PEER_GRACE`].
    #[arg(long, value_name = keys::PEER_GRACE.spec().metavar, help = keys::PEER_GRACE.help(), help_heading = DEADLINES,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub peer_grace: Option<f64>,
    /// [`keys::DEADLINE`].
    #[arg(long, value_name = keys::DEADLINE.spec().metavar, help = keys::DEADLINE.help(), help_heading = DEADLINES,
        value_parser = parse_number, allow_negative_numbers = true)]
    pub deadline: Option<f64>,

    /// [`keys::MODE`].
    #[arg(long, value_name = keys::MODE.spec.metavar, help = keys::MODE.help(), help_heading = WORK,
        value_parser = PossibleValuesParser::new(keys::MODE.words()))]
    pub mode: Option<String>,
    /// [`keys::PROMPT`].
    #[arg(long, value_name = keys::PROMPT.spec.metavar, help = keys::PROMPT.help(), help_heading = WORK,
        value_parser = text, conflicts_with = "prompt_file")]
    pub prompt: Option<String>,
    /// [`keys::PROMPT_FILE`].
    #[arg(long, value_name = keys::PROMPT_FILE.spec.metavar, help = keys::PROMPT_FILE.help(), help_heading = WORK,
        value_parser = path())]
    pub prompt_file: Option<PathBuf>,
    /// [`keys::VERIFY`].
    #[arg(long, value_name = keys::VERIFY.spec.metavar, help = keys::VERIFY.help(), help_heading = WORK,
        value_parser = text)]
    pub verify: Option<String>,
    /// [`keys::CHAIN`].
    #[arg(long, value_name = keys::CHAIN.spec.metavar, help = keys::CHAIN.help(), help_heading = WORK,
        value_parser = PossibleValuesParser::new(keys::CHAIN.words()))]
    pub chain: Option<String>,

    /// [`keys::CLAUDE_BIN`].
    #[arg(long, value_name = keys::CLAUDE_BIN.spec.metavar, help = keys::CLAUDE_BIN.help(), help_heading = CLAUDE,
        value_parser = path())]
    pub claude_bin: Option<PathBuf>,
    /// [`keys::MODEL`].
    #[arg(long, value_name = keys::MODEL.spec.metavar, help = keys::MODEL.help(), help_heading = CLAUDE,
        value_parser = text)]
    pub model: Option<String>,
    /// [`keys::FALLBACK_MODEL`].
    #[arg(long, value_name = keys::FALLBACK_MODEL.spec.metavar, help = keys::FALLBACK_MODEL.help(),
        help_heading = CLAUDE, value_parser = text)]
    pub fallback_model: Option<String>,
    /// [`keys::PERMISSION_MODE`].
    #[arg(long, value_name = keys::PERMISSION_MODE.spec.metavar, help = keys::PERMISSION_MODE.help(),
        help_heading = CLAUDE, value_parser = text)]
    pub permission_mode: Option<String>,
    /// [`keys::ALLOWED_TOOLS`].
    #[arg(long, value_name = keys::ALLOWED_TOOLS.spec.metavar, help = keys::ALLOWED_TOOLS.help(),
        help_heading = CLAUDE, value_parser = text)]
    pub allowed_tools: Vec<String>,
    /// [`keys::MCP_CONFIG`].
    #[arg(long, value_name = keys::MCP_CONFIG.spec.metavar, help = keys::MCP_CONFIG.help(), help_heading = CLAUDE,
        value_parser = text)]
    pub mcp_config: Vec<String>,
    /// [`keys::CLAUDE_ARG`].
    #[arg(long, value_name = keys::CLAUDE_ARG.spec.metavar, help = keys::CLAUDE_ARG.help(), help_heading = CLAUDE,
        value_parser = text, allow_hyphen_values = true)]
    pub claude_arg: Vec<String>,

    /// [`keys::DRY_RUN`].
    #[arg(long, alias = "dryRun", value_name = keys::DRY_RUN.spec.metavar, help = keys::DRY_RUN.help(),
        help_heading = SAFETY, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide_possible_values = true)]
    pub dry_run: Option<bool>,
    /// [`keys::ALLOW_NESTED`].
    #[arg(long, value_name = keys::ALLOW_NESTED.spec.metavar, help = keys::ALLOW_NESTED.help(), help_heading = SAFETY,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub allow_nested: Option<bool>,
    /// [`keys::ALLOW_PEERS`].
    #[arg(long, value_name = keys::ALLOW_PEERS.spec.metavar, help = keys::ALLOW_PEERS.help(), help_heading = SAFETY,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub allow_peers: Option<bool>,
    /// [`keys::NO_INHIBIT`].
    #[arg(long, value_name = keys::NO_INHIBIT.spec.metavar, help = keys::NO_INHIBIT.help(), help_heading = SAFETY,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub no_inhibit: Option<bool>,
    /// [`keys::ENGINE`].
    #[arg(long, value_name = keys::ENGINE.spec.metavar, help = keys::ENGINE.help(), help_heading = CLAUDE,
        value_parser = PossibleValuesParser::new(keys::ENGINE.words()))]
    pub engine: Option<String>,
    /// [`keys::GATE`].
    #[arg(long, value_name = keys::GATE.spec.metavar, help = keys::GATE.help(), help_heading = SAFETY,
        value_parser = PossibleValuesParser::new(keys::GATE.words()))]
    pub gate: Option<String>,

    /// Print what happens as JSON lines on stdout
    #[arg(long, help_heading = OUTPUT)]
    pub events: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a chain of sessions (also what happens without a command)
    #[command(after_long_help = epilogue())]
    Run(Box<RunArgs>),
    /// Go on with a run that was cut off
    Resume(Box<ResumeArgs>),
    /// Say what is running here, or how the last run ended
    #[command(after_long_help = STATUS_HELP)]
    Status,
    /// Print the report of a run: what was done, what it cost, why it ended, what to do next
    #[command(after_long_help = REPORT_HELP)]
    Report(ReportArgs),
    /// Print what the sessions of a run said and did; -f follows one that goes on
    #[command(after_long_help = LOGS_HELP)]
    Logs(LogsArgs),
    /// End the run that goes on here, after its session or at once
    #[command(after_long_help = STOP_HELP)]
    Stop(StopArgs),
    /// List the runs of this repository, or remove the oldest ones
    #[command(after_long_help = HISTORY_HELP, args_conflicts_with_subcommands = true)]
    History(HistoryArgs),
    /// Print every decision of a run, with its inputs and reasons
    #[command(after_long_help = EXPLAIN_HELP)]
    Explain(ExplainArgs),
    /// Say whether a run may start here unattended, and why
    Verdict(Box<RunArgs>),
    /// Say what the gate makes of a tool call
    #[command(after_long_help = GATE_HELP)]
    Gate {
        /// What to do.
        #[command(subcommand)]
        command: GateCommand,
    },
    /// Start runs by themselves: cron, systemd, launchd, GitHub Actions, Kubernetes
    #[command(after_long_help = SCHEDULE_HELP, after_help = SCHEDULE_HELP)]
    Schedule {
        /// What to do.
        #[command(subcommand)]
        command: ScheduleCommand,
    },
    /// See whether notifications arrive
    #[command(after_long_help = NOTIFY_HELP)]
    Notify {
        /// What to do.
        #[command(subcommand)]
        command: NotifyCommand,
    },
    /// Check everything that would make tonight's run fail, and say what to do about it
    #[command(after_long_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Show the settings in force
    Config {
        /// What to do with them.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Watch a run in a scratch repository, with a stand-in for claude: no account, no cost
    Demo,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// The stand-in for claude that `demo` drives.
    #[command(name = DEMO_AGENT, hide = true, disable_help_flag = true)]
    DemoAgent {
        /// Arguments of claude, as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// `autopilot resume`.
#[derive(Debug, Clone, Args)]
pub struct ResumeArgs {
    /// Id of the run, or the beginning of it [default: the last one]
    pub run: Option<String>,
    /// Options that differ from those of the configuration.
    #[command(flatten)]
    pub options: RunArgs,
}

/// `autopilot config`.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Print every setting with its value, as a configuration file
    Show {
        /// Say where each value came from
        #[arg(long)]
        origin: bool,
    },
}

/// Why an empty text or path is refused.
const EMPTY: &str = "it is empty; leave the option out instead";

/// Text that is not empty.
fn text(text: &str) -> Result<String, &'static str> {
    if text.is_empty() { Err(EMPTY) } else { Ok(text.to_owned()) }
}

/// A path that is not empty; it need not be UTF-8.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new()
        .try_map(|path| if path.is_empty() { Err(EMPTY) } else { Ok(PathBuf::from(path)) })
}

/// The commands as a Markdown table, for the README.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from("| command | what it does |\n|---|---|\n");
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        _ = writeln!(out, "| `autopilot {}` | {about} |", command.get_name());
    }
    out
}

/// What follows the options: examples, where else settings come from, exit codes.
fn epilogue() -> String {
    format!(
        "\
Examples:
  autopilot --max-sessions=5 --max-hours=4 --prompt-file work.md
                                        overnight, on the work that work.md describes
  autopilot --prompt 'Fix the flaky tests' --verify 'cargo test'
                                        a session counts only if the tests pass after it
  autopilot --dry-run --prompt-file work.md
                                        what would happen; nothing is started
  autopilot --json --max-sessions=3 --prompt-file work.md
                                        a CI job; go on later with `autopilot resume`

Settings:
  Every option of a run is also a variable (AUTOPILOT_MAX_HOURS=2) and a key (max-hours = 2) in
  .autopilot.toml of the repository or autopilot/config.toml of your configuration folder.
  The command line comes first, then variables, then the two files. A number beyond a bound
  becomes the bound. `autopilot config show --origin` says what is in force, and why.

Exit codes:
{}",
        exit::help_text()
    )
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn parse(words: &str) -> Result<Cli, clap::Error> {
        let argv = std::iter::once("autopilot").chain(words.split(' ').filter(|word| !word.is_empty()));
        Cli::parse_argv(argv.map(OsString::from))
    }

    #[test]
    fn definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help() {
        let mut command = Cli::command().term_width(110);
        insta::assert_snapshot!("help_long", command.render_long_help());
        insta::assert_snapshot!("help_short", command.render_help());
    }

    #[test]
    fn every_setting_of_the_command_line_is_an_option_with_its_help() {
        let command = Cli::command();
        let known = |name: &str| command.get_arguments().find(|arg| arg.get_long() == Some(name));
        for setting in keys::ALL {
            let spec = setting.spec();
            let arg = known(spec.name);
            assert_eq!(arg.is_some(), spec.flag, "{}", spec.name);
            if let Some(arg) = arg {
                assert_eq!(arg.get_help().map(ToString::to_string), Some(setting.help()), "{}", spec.name);
                assert_eq!(arg.get_help_heading(), Some(spec.group.title()), "{}", spec.name);
            }
        }
        for arg in command.get_arguments().filter_map(clap::Arg::get_long) {
            let is_setting = keys::find(arg).is_some() || keys::COMMAND_LINE_ONLY.contains(&arg);
            assert!(is_setting || ["help", "version"].contains(&arg), "{arg}");
        }
    }

    #[test]
    fn options_stand_before_or_after_run_with_or_without_an_equals_sign() {
        for words in ["--max-sessions=5", "--max-sessions 5"] {
            assert_eq!(parse(words).unwrap().run.max_sessions, Some(5.0));
            let Some(Command::Run(run)) = parse(&format!("run {words}")).unwrap().command else {
                panic!("not a run")
            };
            assert_eq!(run.max_sessions, Some(5.0));
        }
    }

    #[test]
    fn numbers() {
        for (text, number) in [("3.7", 3.7), ("999", 999.0), ("0", 0.0), ("-5", -5.0), ("1e1", 10.0)] {
            for words in [format!("--max-hours={text}"), format!("--max-hours {text}")] {
                assert_eq!(parse(&words).unwrap().run.max_hours, Some(number), "{words}");
            }
        }
    }

    /// Each was something else upstream (upstream-formats §4.1).
    #[test]
    fn refused_with_exit_code_2() {
        for words in [
            "--max-sessions=",
            "--max-hours=",
            "--confidence-threshold=",
            "--max-tokens=",
            "--max-sessions",
            "--max-sessions=abc",
            "--max-sessions=NaN",
            "--max-sessions=Infinity",
            "--max-sessions=inf",
            "--max-sessions=0x10",
            "--max-sessions=3=4",
            "--max-sessions=3 --max-sessions=abc",
            "--max-session=3",
            "--unknown",
            "--mode=fast",
            "--mode=",
            "--prompt=",
            "--prompt --dry-run",
            "--prompt=a --prompt-file=b",
            "--prompt-file=",
            "--verify=",
            "--model=",
            "--claude-bin=",
            "--claude-arg=",
            "--dry-run=",
            "--dry-run=yes",
            "--dry-run=1",
            "--color=sometimes",
            "--quiet --verbose",
            "stray",
            "run stray",
            "config",
            "completions",
            "-C",
        ] {
            let error = parse(words).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{words}");
            assert!(error.use_stderr(), "{words}");
        }
    }

    #[test]
    fn refusals_teach() {
        let check = |words: &str, expected: &str| {
            let text = parse(words).unwrap_err().to_string();
            assert!(text.contains(expected), "{words}: {text}");
        };
        check("--max-sessions=", "leave the option out to keep the default");
        check("--max-sessions=abc", "it is not a number");
        check("--max-hours=inf", "it is not a finite number");
        check("--max-session=3", "'--max-sessions'");
        check("--mode=featur", "'feature'");
        check("--verify=", "leave the option out instead");
        check("--claude-bin=", "leave the option out instead");
        check("statsu", "'status'");
    }

    #[test]
    fn dry_run() {
        for (words, expected) in [
            ("", None),
            ("--dry-run", Some(true)),
            ("--dryRun", Some(true)),
            ("--dry-run=true", Some(true)),
            ("--dryRun=true", Some(true)),
            ("--dry-run=false", Some(false)),
            ("--dry-run --dry-run=false", Some(false)),
            ("--dry-run --max-hours 2", Some(true)),
        ] {
            assert_eq!(parse(words).unwrap().run.dry_run, expected, "{words}");
        }
        let Some(Command::Run(run)) = parse("--dry-run run").unwrap().command else { panic!("not a run") };
        assert_eq!(run.dry_run, None);
    }

    #[test]
    fn the_later_one_wins() {
        assert_eq!(parse("--max-sessions=3 --max-sessions=4").unwrap().run.max_sessions, Some(4.0));
    }

    #[test]
    fn lists() {
        let run =
            parse("--claude-arg --debug --claude-arg=--x=y --allowed-tools Edit --allowed-tools Bash(git)")
                .unwrap()
                .run;
        assert_eq!(run.claude_arg, ["--debug", "--x=y"]);
        assert_eq!(run.allowed_tools, ["Edit", "Bash(git)"]);
    }

    #[test]
    fn global_options_stand_anywhere() {
        for words in ["-C /x --json -vv --color=never status", "status -C /x --json -v -v --color never"] {
            let global = parse(words).unwrap().global;
            assert_eq!(global.directory, Some(PathBuf::from("/x")));
            assert_eq!((global.json, global.verbose, global.color), (true, 2, ColorChoice::Never), "{words}");
        }
    }

    #[test]
    fn help_and_version_are_not_errors() {
        for (words, kind) in [
            ("--help", ErrorKind::DisplayHelp),
            ("run --help", ErrorKind::DisplayHelp),
            ("--version", ErrorKind::DisplayVersion),
        ] {
            let error = parse(words).unwrap_err();
            assert_eq!((error.kind(), error.exit_code()), (kind, 0), "{words}");
        }
    }

    #[test]
    fn the_stand_in_takes_everything_raw() {
        for words in [
            "",
            "--version",
            "--help",
            "-h",
            "--verbose --output-format stream-json",
            "-p --session-id 1 --json --color=x --max-budget-usd 3 -- prompt --",
            "-C",
            "doctor",
        ] {
            let Some(Command::DemoAgent { args }) = parse(&format!("demo-agent {words}")).unwrap().command
            else {
                panic!("not the stand-in")
            };
            let expected: Vec<_> = words.split(' ').filter(|word| !word.is_empty()).collect();
            assert_eq!(args, expected, "{words}");
        }
    }
}
