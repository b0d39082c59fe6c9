//! The registry: every setting with its default and bounds (design §3), once.

use std::fmt::Write as _;
use std::time::Duration;

use super::key::{Group, Setting, Spec, closest};
use super::kinds::{Choice, Flag, List, Number, OptionalFile, OptionalText, Pauses, Program, Text};
use super::{Billing, Chain, FollowUps, Forge};
use crate::core::autonomy::Autonomy;
use crate::core::mode::Mode;

mod engines;
mod gates;
mod notifications;

pub use engines::{ENGINE, TRIAGE_COMMAND};
pub use gates::{GATE, GATE_ALLOW, GATE_ASK, GATE_DENY};
pub use notifications::{
    NOTIFY_COMMAND, NOTIFY_COOLDOWN, NOTIFY_DESKTOP, NOTIFY_MAIL, NOTIFY_ON, NOTIFY_WEBHOOK, QUIET_HOURS,
    QUIET_URGENT,
};

/// All settings, in the order of help and tables.
pub static ALL: [&dyn Setting; 62] = [
    &MAX_SESSIONS,
    &MAX_HOURS,
    &LIMIT_WAIT_FREE,
    &MAX_TOKENS,
    &MAX_COST,
    &RESERVE,
    &CONFIDENCE_THRESHOLD,
    &CARRYOVER_THRESHOLD,
    &PEER_ABORT,
    &AUTONOMY,
    &CONFIDENCE_FLOOR,
    &STUCK_DETECTION,
    &STALL_TIMEOUT,
    &FIRST_OUTPUT_TIMEOUT,
    &TURN_TIMEOUT,
    &EXIT_GRACE,
    &MAX_WAIT,
    &VERIFY_TIMEOUT,
    &ESCALATION_TIMEOUT,
    &TURN_BACKOFF,
    &HEAL_BACKOFF,
    &PEER_GRACE,
    &DEADLINE,
    &MODE,
    &PROMPT,
    &PROMPT_FILE,
    &VERIFY,
    &CHAIN,
    &AGENTS_PER_WAVE,
    &SESSION_COMMAND,
    &FORGE,
    &BACKLOG_LABEL,
    &STATE_FILE,
    &FOLLOW_UPS,
    &CLAUDE_BIN,
    &MODEL,
    &FALLBACK_MODEL,
    &PERMISSION_MODE,
    &ALLOWED_TOOLS,
    &MCP_CONFIG,
    &CLAUDE_ARG,
    &BILLING,
    &ENGINE,
    &TRIAGE_COMMAND,
    &DRY_RUN,
    &ALLOW_NESTED,
    &ALLOW_PEERS,
    &NO_INHIBIT,
    &GATE,
    &GATE_DENY,
    &GATE_ASK,
    &GATE_ALLOW,
    &KEEP_RUNS,
    &KEEP_SIZE,
    &NOTIFY_COMMAND,
    &NOTIFY_WEBHOOK,
    &NOTIFY_DESKTOP,
    &NOTIFY_MAIL,
    &NOTIFY_ON,
    &QUIET_HOURS,
    &QUIET_URGENT,
    &NOTIFY_COOLDOWN,
];

/// Iterations of a run.
pub static MAX_SESSIONS: Number<u32> = Number::new(
    spec("max-sessions", "AUTOPILOT_MAX_SESSIONS", Group::Budgets, "N", "Sessions to run"),
    5.0,
    1.0,
    50.0,
    to_u32,
)
.whole();

/// Wall clock of a run.
pub static MAX_HOURS: Number<f64> = Number::new(
    spec("max-hours", "AUTOPILOT_MAX_HOURS", Group::Budgets, "H", "Hours the run may take"),
    4.0,
    0.5,
    24.0,
    as_it_is,
);

/// Whether time asleep on a usage limit is free.
pub static LIMIT_WAIT_FREE: Flag = Flag {
    spec: spec(
        "limit-wait-free",
        "AUTOPILOT_LIMIT_WAIT_FREE",
        Group::Budgets,
        "BOOL",
        "Do not count time asleep on a usage limit towards --max-hours",
    ),
};

/// Output tokens of a run.
pub static MAX_TOKENS: Number<u64> = Number::new(
    spec(
        "max-tokens",
        "AUTOPILOT_MAX_TOKENS",
        Group::Budgets,
        "N",
        "Output tokens of all models and sub-agents",
    ),
    500_000.0,
    0.0,
    10_000_000.0,
    to_u64,
)
.whole()
.zero_is_off();

/// What is kept of each usage window.
pub static RESERVE: Number<f64> = Number::new(
    spec(
        "reserve",
        "AUTOPILOT_RESERVE",
        Group::Budgets,
        "PERCENT",
        "Start no session when no more than this is left of a usage window of the account",
    ),
    0.0,
    0.0,
    100.0,
    as_it_is,
)
.zero_is_off();

/// Dollars of a run.
pub static MAX_COST: Number<Option<f64>> = Number::new(
    spec(
        "max-cost",
        "AUTOPILOT_MAX_COST",
        Group::Budgets,
        "USD",
        "API-equivalent dollars; each turn gets what is left as --max-budget-usd",
    ),
    0.0,
    0.0,
    f64::INFINITY,
    above_zero,
)
.zero_is_off()
.remarks(free_of_charge);

/// Least confidence for auto-execution.
pub static CONFIDENCE_THRESHOLD: Number<f64> = Number::new(
    spec(
        "confidence-threshold",
        "AUTOPILOT_CONFIDENCE_THRESHOLD",
        Group::StopRules,
        "X",
        "Least confidence in the next mode to start a session unasked",
    ),
    0.85,
    0.0,
    1.0,
    as_it_is,
)
.remarks(random_walk);

/// Largest share of planned work that may be left over.
pub static CARRYOVER_THRESHOLD: Number<f64> = Number::new(
    spec(
        "carryover-threshold",
        "AUTOPILOT_CARRYOVER_THRESHOLD",
        Group::StopRules,
        "X",
        "Stop when a session leaves over more than this share of its plan",
    ),
    0.5,
    0.0,
    1.0,
    as_it_is,
);

/// Peers above which a critically short machine ends the run.
pub static PEER_ABORT: Number<u32> = Number::new(
    spec(
        "peer-abort",
        "AUTOPILOT_PEER_ABORT",
        Group::StopRules,
        "N",
        "Stop when resources are critical and more other Claude sessions than this run",
    ),
    6.0,
    0.0,
    100.0,
    to_u32,
)
.whole();

/// How far a run may go without a person.
pub static AUTONOMY: Choice<Autonomy> = Choice {
    spec: spec(
        "autonomy",
        "AUTOPILOT_AUTONOMY",
        Group::StopRules,
        "DIAL",
        "What a bad pre-launch verdict does: warn (advisory), refuse the run (autonomous-gated), or none is made",
    ),
    options: &[
        ("advisory", Autonomy::Advisory),
        ("off", Autonomy::Off),
        ("autonomous-gated", Autonomy::AutonomousGated),
    ],
};

/// Least confidence of the pre-launch verdict.
pub static CONFIDENCE_FLOOR: Number<f64> = Number::new(
    file_only(
        "confidence-floor",
        "AUTOPILOT_CONFIDENCE_FLOOR",
        Group::StopRules,
        "X",
        "Least confidence at which the pre-launch verdict is yes",
    ),
    0.5,
    0.0,
    1.0,
    as_it_is,
);

/// Whether circles are looked for.
pub static STUCK_DETECTION: Choice<bool> = Choice {
    spec: file_only(
        "stuck-detection",
        "AUTOPILOT_STUCK_DETECTION",
        Group::StopRules,
        "WHEN",
        "Stop a turn that repeats itself: another prompt, /compact, a fresh conversation, then the kill-switch spiral",
    ),
    options: &[("on", true), ("off", false)],
};

/// Silence before a turn is healed.
pub static STALL_TIMEOUT: Number<Duration> = Number::new(
    spec(
        "stall-timeout",
        "AUTOPILOT_STALL_TIMEOUT",
        Group::Deadlines,
        "S",
        "Seconds of silence, with no tool at work, before a turn is healed",
    ),
    600.0,
    5.0,
    86_400.0,
    seconds,
);

/// Wait for the first line.
pub static FIRST_OUTPUT_TIMEOUT: Number<Duration> = Number::new(
    spec(
        "first-output-timeout",
        "AUTOPILOT_FIRST_OUTPUT_TIMEOUT",
        Group::Deadlines,
        "S",
        "Seconds until the first line of a started claude",
    ),
    180.0,
    1.0,
    3_600.0,
    seconds,
);

/// Longest turn.
pub static TURN_TIMEOUT: Number<Duration> = Number::new(
    spec(
        "turn-timeout",
        "AUTOPILOT_TURN_TIMEOUT",
        Group::Deadlines,
        "M",
        "Minutes one turn of a session may take",
    ),
    90.0,
    0.05,
    1_440.0,
    minutes,
);

/// From `result` to process exit.
pub static EXIT_GRACE: Number<Duration> = Number::new(
    spec(
        "exit-grace",
        "AUTOPILOT_EXIT_GRACE",
        Group::Deadlines,
        "S",
        "Seconds claude has to exit after its result",
    ),
    15.0,
    1.0,
    600.0,
    seconds,
);

/// Longest sleep for a usage limit.
pub static MAX_WAIT: Number<Duration> = Number::new(
    spec(
        "max-wait",
        "AUTOPILOT_MAX_WAIT",
        Group::Deadlines,
        "H",
        "Hours to sleep at most until a usage limit resets",
    ),
    6.0,
    0.0,
    192.0,
    hours,
);

/// Longest `--verify`.
pub static VERIFY_TIMEOUT: Number<Duration> = Number::new(
    file_only(
        "verify-timeout",
        "AUTOPILOT_VERIFY_TIMEOUT",
        Group::Deadlines,
        "M",
        "Minutes --verify may take before it is ended and counts as failed",
    ),
    30.0,
    0.05,
    1440.0,
    minutes,
);

/// How long a question may stay unanswered.
pub static ESCALATION_TIMEOUT: Number<Duration> = Number::new(
    file_only(
        "escalation-timeout",
        "AUTOPILOT_ESCALATION_TIMEOUT",
        Group::Deadlines,
        "M",
        "Minutes a session's question waits for a person before it takes its first option; only with \
         --autonomy autonomous-gated, 0 = never",
    ),
    20.0,
    0.0,
    1440.0,
    minutes,
);

/// Pauses before a turn is tried again.
pub static TURN_BACKOFF: Pauses = Pauses {
    spec: file_only(
        "turn-backoff",
        "AUTOPILOT_TURN_BACKOFF",
        Group::Deadlines,
        "S,S",
        "Seconds to pause before each recovery of a turn that crashed, hung or met a passing failure",
    ),
    default: "5, 30",
};

/// Pauses before a session that its recoveries did not save is healed once more.
pub static HEAL_BACKOFF: Pauses = Pauses {
    spec: file_only(
        "heal-backoff",
        "AUTOPILOT_HEAL_BACKOFF",
        Group::Deadlines,
        "S,S",
        "Seconds to pause before each heal of a run, once the recoveries of a turn are used up; a quarter of an \
         hour of healthy work refills them",
    ),
    default: "120, 240, 480",
};

/// Longest wait for another Claude session in the same working tree.
pub static PEER_GRACE: Number<Duration> = Number::new(
    spec(
        "peer-grace",
        "AUTOPILOT_PEER_GRACE",
        Group::Deadlines,
        "S",
        "Seconds to wait before each session for another Claude session in this working tree to end",
    ),
    300.0,
    0.0,
    86_400.0,
    seconds,
);

/// When this process has to be gone.
pub static DEADLINE: Number<Option<Duration>> = Number::new(
    spec(
        "deadline",
        "AUTOPILOT_DEADLINE",
        Group::Deadlines,
        "M",
        "Minutes until this process is ended from outside (a CI job): it lands softly before that, and resume goes on",
    ),
    0.0,
    0.0,
    14_400.0,
    minutes_above_zero,
)
.zero_is_off();

/// Mode of every session.
pub static MODE: Choice<Option<Mode>> = Choice {
    spec: spec(
        "mode",
        "AUTOPILOT_MODE",
        Group::Work,
        "MODE",
        "Kind of session, instead of choosing each time",
    ),
    options: &[
        ("auto", None),
        ("housekeeping", Some(Mode::Housekeeping)),
        ("feature", Some(Mode::Feature)),
        ("deep", Some(Mode::Deep)),
        ("discovery", Some(Mode::Discovery)),
        ("evolve", Some(Mode::Evolve)),
        ("plan-retro", Some(Mode::PlanRetro)),
    ],
};

/// The work itself.
pub static PROMPT: OptionalText = OptionalText {
    spec: spec("prompt", "AUTOPILOT_PROMPT", Group::Work, "TEXT", "The work itself, in words"),
    example: "Make the test suite pass",
};

/// The work itself, in a file.
pub static PROMPT_FILE: OptionalFile = OptionalFile {
    spec: spec(
        "prompt-file",
        "AUTOPILOT_PROMPT_FILE",
        Group::Work,
        "FILE",
        "Like --prompt, read from a file; - is standard input",
    ),
    example: "night.md",
};

/// Check after each session.
pub static VERIFY: OptionalText = OptionalText {
    spec: spec(
        "verify",
        "AUTOPILOT_VERIFY",
        Group::Work,
        "CMD",
        "Shell command that must exit 0 after each session, or the session has failed",
    ),
    example: "cargo test",
};

/// Whether iterations share a conversation.
pub static CHAIN: Choice<Chain> = Choice {
    spec: spec(
        "chain",
        "AUTOPILOT_CHAIN",
        Group::Work,
        "CHAIN",
        "Begin a new conversation each time, or continue the last one",
    ),
    options: &[("fresh", Chain::Fresh), ("resume", Chain::Resume)],
};

/// Sub-agents per wave.
pub static AGENTS_PER_WAVE: Number<u32> = Number::new(
    file_only(
        "agents-per-wave",
        "AUTOPILOT_AGENTS_PER_WAVE",
        Group::Work,
        "N",
        "Sub-agents a session may start at once while the machine has room to spare",
    ),
    8.0,
    1.0,
    64.0,
    to_u32,
)
.whole();

/// Plug-in whose session command is the prompt.
pub static SESSION_COMMAND: OptionalText = OptionalText {
    spec: file_only(
        "session-command",
        "AUTOPILOT_SESSION_COMMAND",
        Group::Work,
        "NAME",
        "Plug-in whose /NAME:session command is sent instead of the built-in prompt",
    ),
    example: "session-orchestrator",
};

/// Where issues and the state of CI are asked for.
pub static FORGE: Choice<Forge> = Choice {
    spec: file_only(
        "forge",
        "AUTOPILOT_FORGE",
        Group::Work,
        "FORGE",
        "Ask gh or glab for issues and the state of CI: by the remotes (auto), never, or the one named",
    ),
    options: &[
        ("auto", Forge::Auto),
        ("off", Forge::Off),
        ("github", Forge::GitHub),
        ("gitlab", Forge::GitLab),
    ],
};

/// Which issues are work for a run.
pub static BACKLOG_LABEL: OptionalText = OptionalText {
    spec: file_only(
        "backlog-label",
        "AUTOPILOT_BACKLOG_LABEL",
        Group::Work,
        "LABEL",
        "Open issues with this label are tasks of a run, besides those of .project/",
    ),
    example: "autopilot",
};

/// Whether STATE.md is written.
pub static STATE_FILE: Choice<bool> = Choice {
    spec: file_only(
        "state-file",
        "AUTOPILOT_STATE_FILE",
        Group::Work,
        "WHEN",
        "Write the recommendation for the next session into STATE.md (.claude/ unless there is one elsewhere)",
    ),
    options: &[("write", true), ("off", false)],
};

/// Tasks that a run adds to the plan by itself.
pub static FOLLOW_UPS: Choice<FollowUps> = Choice {
    spec: file_only(
        "follow-ups",
        "AUTOPILOT_FOLLOW_UPS",
        Group::Work,
        "WHICH",
        "Tasks a run may add to .project/plan.md by itself: look again at doubtful work, update the documentation",
    ),
    options: &[
        ("verify", FollowUps { verify: true, docs: false }),
        ("off", FollowUps { verify: false, docs: false }),
        ("docs", FollowUps { verify: false, docs: true }),
        ("all", FollowUps { verify: true, docs: true }),
    ],
};

/// The driven program.
pub static CLAUDE_BIN: Program = Program {
    spec: spec("claude-bin", "AUTOPILOT_CLAUDE_BIN", Group::Claude, "PATH", "The claude to drive"),
    default: "claude",
};

/// `--model`.
pub static MODEL: OptionalText = OptionalText {
    spec: spec("model", "AUTOPILOT_MODEL", Group::Claude, "MODEL", "Model, passed on to claude"),
    example: "opus",
};

/// `--fallback-model`.
pub static FALLBACK_MODEL: OptionalText = OptionalText {
    spec: spec(
        "fallback-model",
        "AUTOPILOT_FALLBACK_MODEL",
        Group::Claude,
        "MODEL",
        "Model for when the first is overloaded, passed on to claude",
    ),
    example: "sonnet",
};

/// `--permission-mode`.
pub static PERMISSION_MODE: Text = Text {
    spec: spec(
        "permission-mode",
        "AUTOPILOT_PERMISSION_MODE",
        Group::Claude,
        "MODE",
        "Permission mode, passed on to claude",
    ),
    default: "acceptEdits",
};

/// `--allowed-tools`.
pub static ALLOWED_TOOLS: List = List {
    spec: spec(
        "allowed-tools",
        "AUTOPILOT_ALLOWED_TOOLS",
        Group::Claude,
        "TOOLS",
        "Tools that need no permission, passed on to claude; repeatable",
    ),
    example: "Bash(cargo *)",
};

/// `--mcp-config`.
pub static MCP_CONFIG: List = List {
    spec: spec(
        "mcp-config",
        "AUTOPILOT_MCP_CONFIG",
        Group::Claude,
        "CONFIG",
        "MCP configuration, a file or JSON text, passed on to claude; repeatable",
    ),
    example: "mcp.json",
};

/// Any other argument.
pub static CLAUDE_ARG: List = List {
    spec: spec(
        "claude-arg",
        "AUTOPILOT_CLAUDE_ARG",
        Group::Claude,
        "ARG",
        "One more argument for claude, as it is; repeatable",
    ),
    example: "--add-dir=../shared",
};

/// What of the billing environment the child sees.
pub static BILLING: Choice<Billing> = Choice {
    spec: file_only(
        "billing",
        "AUTOPILOT_BILLING",
        Group::Claude,
        "WHO",
        "Pass API keys and provider switches on to claude, or hide them so that only the subscription pays",
    ),
    options: &[("inherit", Billing::Inherit), ("subscription", Billing::Subscription)],
};

/// Start nothing.
pub static DRY_RUN: Flag = Flag {
    spec: spec(
        "dry-run",
        "AUTOPILOT_DRY_RUN",
        Group::Safety,
        "BOOL",
        "Say what would happen and start nothing",
    ),
};

/// Start also inside a session of another run.
pub static ALLOW_NESTED: Flag = Flag {
    spec: spec(
        "allow-nested",
        "AUTOPILOT_ALLOW_NESTED",
        Group::Safety,
        "BOOL",
        "Start also inside a session of another run",
    ),
};

/// Work beside other Claude sessions in the same working tree.
pub static ALLOW_PEERS: Flag = Flag {
    spec: spec(
        "allow-peers",
        "AUTOPILOT_ALLOW_PEERS",
        Group::Safety,
        "BOOL",
        "Start sessions also while another Claude session works in this working tree",
    ),
};

/// Let the machine sleep.
pub static NO_INHIBIT: Flag = Flag {
    spec: spec(
        "no-inhibit",
        "AUTOPILOT_NO_INHIBIT",
        Group::Safety,
        "BOOL",
        "Let the machine go to sleep while a run goes on",
    ),
};

/// Runs whose folders are kept.
pub static KEEP_RUNS: Number<u32> = Number::new(
    file_only(
        "keep-runs",
        "AUTOPILOT_KEEP_RUNS",
        Group::Safety,
        "N",
        "Folders of runs to keep, the newest ones; at the end of a run older ones are removed, their records stay",
    ),
    50.0,
    0.0,
    100_000.0,
    to_u32,
)
.whole()
.zero_is_off();

/// Megabytes that the folders of runs may take.
pub static KEEP_SIZE: Number<u64> = Number::new(
    file_only(
        "keep-size",
        "AUTOPILOT_KEEP_SIZE",
        Group::Safety,
        "MB",
        "Megabytes that folders of runs may take together; at the end of a run the oldest beyond that are removed",
    ),
    2_000.0,
    0.0,
    10_000_000.0,
    to_u64,
)
.whole()
.zero_is_off();

/// Options of one invocation that no file can set.
pub const COMMAND_LINE_ONLY: [&str; 6] = ["json", "events", "quiet", "verbose", "color", "no-progress"];

/// The setting of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Setting> {
    ALL.into_iter().find(|setting| setting.spec().name == name)
}

/// The name that was probably meant.
#[must_use]
pub fn suggest(name: &str) -> Option<&'static str> {
    closest(name, ALL.into_iter().map(|setting| setting.spec().name))
}

/// All settings as a Markdown table, for the README.
#[must_use]
pub fn markdown() -> String {
    let mut text =
        String::from("| setting | default | bounds | variable | meaning |\n|---|---|---|---|---|\n");
    for setting in ALL {
        let spec = setting.spec();
        let name = if spec.flag { format!("`--{}`", spec.name) } else { format!("`{}` (file)", spec.name) };
        let (default, bounds) = (setting.default_words(), setting.bounds());
        let _ = writeln!(text, "| {name} | {default} | {bounds} | `{}` | {} |", spec.env, spec.about);
    }
    text
}

const fn spec(
    name: &'static str,
    env: &'static str,
    group: Group,
    metavar: &'static str,
    about: &'static str,
) -> Spec {
    Spec { name, env, flag: true, group, metavar, about }
}

/// A setting the command line does not have.
const fn file_only(
    name: &'static str,
    env: &'static str,
    group: Group,
    metavar: &'static str,
    about: &'static str,
) -> Spec {
    Spec { name, env, flag: false, group, metavar, about }
}

/// Below 0.5 modes are taken that the selector itself does not believe in (design §3).
fn random_walk(threshold: f64) -> Option<&'static str> {
    (threshold < 0.5).then_some("is below 0.5: a run will wander between modes more or less at random")
}

/// `--max-cost 0` can be read as "spend nothing"; it means "no limit", like `--max-tokens 0`.
fn free_of_charge(dollars: f64) -> Option<&'static str> {
    (dollars == 0.0).then_some("means no limit on cost")
}

fn as_it_is(number: f64) -> f64 {
    number
}

fn above_zero(number: f64) -> Option<f64> {
    (number > 0.0).then_some(number)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in bounds and whole")]
fn to_u32(number: f64) -> u32 {
    number as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in bounds and whole")]
fn to_u64(number: f64) -> u64 {
    number as u64
}

/// The bounds of every deadline are far inside what a `Duration` holds; a default that is not would show in
/// every test.
fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or_default()
}

fn minutes(number: f64) -> Duration {
    seconds(number * 60.0)
}

fn minutes_above_zero(number: f64) -> Option<Duration> {
    (number > 0.0).then(|| minutes(number))
}

fn hours(number: f64) -> Duration {
    seconds(number * 3_600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_and_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|setting| setting.spec().name).collect();
        for setting in ALL {
            let spec = setting.spec();
            let variable = format!("AUTOPILOT_{}", spec.name.to_uppercase().replace('-', "_"));
            assert_eq!(spec.env, variable);
            assert!(!spec.about.is_empty() && !spec.about.ends_with('.'), "{}", spec.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn mode_knows_all_modes() {
        let words: Vec<_> = MODE.words().skip(1).collect();
        assert_eq!(words, Mode::ALL.map(Mode::as_str));
    }

    #[test]
    fn the_table() {
        insta::assert_snapshot!(markdown());
    }
}
