//! Settings: from the command line, the environment and two files to one struct without a gap.
//!
//! Theory of operation. A [`key`] is a setting: its name (the same on the command line and in files), its
//! variable, its default, its bounds and one line of help. All of them stand in [`keys`], and everything else
//! is made from that registry: the help text, the README tables, the check for unknown keys, `config show`.
//! A [`layer::Layer`] holds the values one source gave, each with its [`layer::Origin`]. [`resolve::resolve`]
//! is pure: it takes the layers in order of precedence (command line, `AUTOPILOT_*`, `.autopilot.toml` in the
//! repository, the user's `config.toml`, defaults) and gives [`Settings`], the origin of each value, and
//! notices of what was adjusted.
//!
//! Invariants. A number out of bounds is never an error and never silent: it becomes the bound and a notice
//! (design §3). A value that cannot be read is always an error, also where a stronger layer would hide it: a
//! broken file should not wait for the night the flag is left out. No reading of files, environment or clock
//! here.
//!
//! Pitfalls. An empty variable counts as not set (CI systems expand what is missing to an empty string); an
//! empty value on the command line is refused before it gets here.

use std::path::PathBuf;
use std::time::Duration;

use crate::core::autonomy::Autonomy;
use crate::core::gate::{Policy, Rules};
use crate::core::mode::Mode;
use crate::core::notice::{NoticeKind, QuietHours, Webhook};

pub mod env_vars;
pub mod error;
pub mod key;
pub mod keys;
pub mod kinds;
pub mod layer;
pub mod resolve;
pub mod value;

/// Everything a command needs to know, resolved. An `Option` here means "off" or "not passed on", never
/// "default".
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What a run may use up.
    pub budgets: Budgets,
    /// When a run stops itself for quality.
    pub stop_rules: StopRules,
    /// How long to wait for what.
    pub deadlines: Deadlines,
    /// What is worked on, and how.
    pub work: Work,
    /// The driven program.
    pub claude: Claude,
    /// What keeps a run from doing harm.
    pub safety: Safety,
    /// Who is told what becomes of a run.
    pub notifications: Notifications,
}

/// What a run may use up.
#[derive(Debug, Clone, PartialEq)]
pub struct Budgets {
    /// Iterations, 1 to 50.
    pub max_sessions: u32,
    /// Hours on the wall clock, 0.5 to 24.
    pub max_hours: f64,
    /// Whether time asleep on a usage limit does not count towards `max_hours`.
    pub limit_wait_free: bool,
    /// Output tokens of all models and sub-agents; 0 = off.
    pub max_tokens: u64,
    /// API-equivalent dollars, above 0; `None` = off.
    pub max_cost: Option<f64>,
    /// Percent of each usage window that no session is started into, 0 to 100; 0 = off.
    pub reserve: f64,
}

/// When a run stops itself for quality.
#[derive(Debug, Clone, PartialEq)]
pub struct StopRules {
    /// Least confidence for auto-execution, 0 to 1.
    pub confidence_threshold: f64,
    /// Largest share of planned work that may be left over, 0 to 1.
    pub carryover_threshold: f64,
    /// Peers above which a critically short machine ends the run, 0 to 100.
    pub peer_abort: u32,
    /// What a bad pre-launch verdict does.
    pub autonomy: Autonomy,
    /// Least confidence of a good one, 0 to 1.
    pub confidence_floor: f64,
    /// Whether a turn that goes round in circles is stopped.
    pub stuck_detection: bool,
}

/// How long to wait for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlines {
    /// Silence of stream and transcript before a turn is healed, 5 s to 1 day.
    pub stall: Duration,
    /// Wait for the first line of an attempt, 1 s to 1 hour.
    pub first_output: Duration,
    /// Longest turn, 3 s to 1 day.
    pub turn: Duration,
    /// From `result` to process exit, 1 s to 10 min.
    pub exit_grace: Duration,
    /// Longest sleep for a usage limit, 0 to 8 days.
    pub max_wait: Duration,
    /// Longest `--verify`, 3 s to 1 day.
    pub verify: Duration,
    /// How long a question waits for a person under `autonomous-gated`; 0 = for ever.
    pub escalation: Duration,
    /// Pauses before the recoveries of a turn; their number is the limit (recovery §1.8).
    pub turn_backoff: Vec<Duration>,
    /// Pauses before the heals of a run (recovery §4.2).
    pub heal_backoff: Vec<Duration>,
    /// Longest wait for another Claude session in the same working tree, 0 to 1 day.
    pub peer_grace: Duration,
    /// From the start of this process to the moment it is ended from outside; `None` = nobody ends it.
    pub deadline: Option<Duration>,
}

/// What is worked on, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The mode of every session; `None` = chosen from signals (`auto`).
    pub mode: Option<Mode>,
    /// The work itself; `None` = the task sources of the repository.
    pub prompt: Option<PromptSource>,
    /// Shell command that must exit 0 after each session; `None` = no check.
    pub verify: Option<String>,
    /// Whether iterations share a conversation.
    pub chain: Chain,
    /// Sub-agents per wave on a machine with room to spare (tier green).
    pub agents_per_wave: u32,
    /// Plug-in whose session command is the prompt; `None` = our own templates.
    pub session_command: Option<String>,
    /// Where issues and the state of CI are asked for.
    pub forge: Forge,
    /// Open issues with this label are tasks.
    pub backlog_label: Option<String>,
    /// Whether STATE.md is written.
    pub state_file: bool,
    /// Tasks that a run adds to the plan by itself.
    pub follow_ups: FollowUps,
}

/// Where issues and the state of CI are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forge {
    /// By the remotes.
    Auto,
    /// Nowhere.
    Off,
    /// `gh`, whatever the remotes are.
    GitHub,
    /// `glab`, whatever the remotes are.
    GitLab,
}

/// Tasks that a run adds to the plan by itself (recovery §10.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowUps {
    /// Look again at work that is reported done and in doubt.
    pub verify: bool,
    /// Bring the documentation up to date after many changes.
    pub docs: bool,
}

/// Where a prompt comes from. It is read elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptSource {
    /// Given as text; not blank.
    Text(String),
    /// To be read from a file.
    File(PathBuf),
    /// To be read from standard input.
    Stdin,
}

/// What carries a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `claude -p` over its stream.
    Headless,
    /// The interactive program in a pseudo-terminal.
    Pty,
}

/// Whether iterations share a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// Each iteration is a new conversation.
    Fresh,
    /// Each iteration continues the last conversation.
    Resume,
}

/// The driven program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claude {
    /// A bare name is looked up on `PATH`; anything with a separator is a path.
    pub bin: PathBuf,
    /// `--model`.
    pub model: Option<String>,
    /// `--fallback-model`.
    pub fallback_model: Option<String>,
    /// `--permission-mode`.
    pub permission_mode: String,
    /// `--allowed-tools`, each as given.
    pub allowed_tools: Vec<String>,
    /// `--mcp-config`, each a file or a JSON text.
    pub mcp_config: Vec<String>,
    /// Passed on as they are.
    pub args: Vec<String>,
    /// What of the billing environment the child sees.
    pub billing: Billing,
    /// What carries a turn.
    pub engine: Engine,
    /// Shell command that says what an unrecognised screen shows.
    pub triage: Option<String>,
}

/// What of the billing environment the child sees (recovery §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Billing {
    /// API keys and provider switches are taken out: only the subscription can be billed.
    Subscription,
    /// The environment is passed on as it is.
    Inherit,
}

/// What keeps a run from doing harm.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, as it is on the command line"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Safety {
    /// Say what would happen, start nothing.
    pub dry_run: bool,
    /// Start also inside a session of another run.
    pub allow_nested: bool,
    /// Start sessions also while another Claude session works in this working tree.
    pub allow_peers: bool,
    /// Let the machine go to sleep while a run goes on.
    pub no_inhibit: bool,
    /// What sessions may do in general.
    pub gate: Policy,
    /// What the operator says about single calls.
    pub rules: Rules,
    /// Folders of runs that are kept; 0 = all.
    pub keep_runs: u32,
    /// Megabytes that they may take together; 0 = any.
    pub keep_size: u64,
}

/// Who is told what becomes of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notifications {
    /// Shell command that gets each notification as JSON.
    pub command: Option<String>,
    /// Web services.
    pub webhooks: Vec<Webhook>,
    /// The desktop of this user.
    pub desktop: bool,
    /// Address that gets mail.
    pub mail: Option<String>,
    /// What is told.
    pub on: Vec<NoticeKind>,
    /// When nothing is told.
    pub quiet_hours: Option<QuietHours>,
    /// What is urgent is told in quiet hours too.
    pub urgent_always: bool,
    /// How long the same is not told again after it was delivered, 0 to 7 days.
    pub cooldown: Duration,
}
