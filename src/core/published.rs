//! The published vocabulary: what a run says about itself.
//!
//! These are the only core types made for the outside. They go, one a line, into `events.jsonl` (the source
//! of `resume`, `explain` and `status`), to `--events` on stdout, and to the progress display. They are
//! owned, serialisable and versioned: fields are only ever added, readers ignore what they do not know, and
//! a change of meaning raises [`FORMAT`]. Nothing secret goes in: environment variables appear by name.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::autonomy::Autonomy;
use super::kill_switch::KillSwitch;
use super::mode::{Alternative, Mode, Pressure};
use super::outcome::Class;
use super::signals::Signals;
use super::suitability::Verdict;
use super::wave::WaveTotals;

/// Version of the event format. A reader refuses a newer one.
pub const FORMAT: u32 = 1;

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`FORMAT`] at the time of writing.
    pub v: u32,
    /// Counts up from 0 within a run.
    pub seq: u64,
    /// When, UTC.
    pub at: Timestamp,
    /// What.
    pub event: RunEvent,
}

/// What a turn is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The work itself.
    Work,
    /// Go on with an interrupted turn: look first what is already done.
    Reconcile,
    /// Go on after a cut that lost nothing (limit, network, turn cap).
    Continue,
    /// Hand in the session report that is missing.
    Close,
    /// Go on with the answer to a question the session was blocked on.
    Answer,
    /// Try something different: it went round in circles.
    Nudge,
    /// Commit what is good and hand in the report: the time is nearly over (`--deadline`).
    WrapUp,
    /// Compact the conversation (`/compact`), which is no work.
    Compact,
}

/// Where the session report came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportSource {
    /// `structured_output` of the work turn.
    Structured,
    /// Handed in when asked again.
    CloseTurn,
    /// Not handed in: derived from stream and git.
    Derived,
}

/// A Claude session of somebody else that is at work in the same working tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerSession {
    /// Process id.
    pub pid: u32,
    /// Seconds since it was started.
    pub age_seconds: u64,
}

impl fmt::Display for PeerSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, hours) = (self.age_seconds / 60, self.age_seconds / 3600);
        write!(f, "{} (started ", self.pid)?;
        match (hours, minutes) {
            (0, 0) => write!(f, "{} s ago)", self.age_seconds),
            (0, _) => write!(f, "{minutes} min ago)"),
            (1..48, _) => write!(f, "{hours} h {} min ago)", minutes % 60),
            _ => write!(f, "{} days ago)", hours / 24),
        }
    }
}

/// Sessions in words, to go into a sentence: `the Claude session 12 (started 3 min ago)`.
#[must_use]
pub fn peer_words(peers: &[PeerSession]) -> String {
    let list: Vec<String> = peers.iter().map(ToString::to_string).collect();
    format!("the Claude session{} {}", if peers.len() == 1 { "" } else { "s" }, list.join(", "))
}

/// How the end of a usage limit is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetSource {
    /// The CLI stated it as a number (`rate_limit_event`).
    Event,
    /// The words of the limit state it.
    Text,
    /// It is not stated, or was over and the limit still held: a pause, then the limit is asked again.
    #[default]
    Unknown,
}

/// A signal of the resource probe, judged (design §7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalReading {
    /// Its name: `memory available`, `swap used`, `other Claude sessions`, `memory free`.
    pub signal: String,
    /// Measured value in words, such as `5.2 GB`; `unknown` when the probe failed.
    pub value: String,
    /// Tier this signal alone would give.
    pub tier: String,
}

/// The inputs of the kill-switch checks, as they were.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchInputs {
    /// Completed iterations.
    pub iterations: u32,
    /// `--max-sessions`.
    pub max_sessions: u32,
    /// Hours on the run's clock.
    pub elapsed_hours: f64,
    /// `--max-hours`.
    pub max_hours: f64,
    /// Output tokens so far.
    pub tokens: u64,
    /// `--max-tokens`; 0 = off.
    pub max_tokens: u64,
    /// API-equivalent dollars so far, when known.
    pub cost_usd: Option<f64>,
    /// `--max-cost`.
    pub max_cost_usd: Option<f64>,
    /// Tier of the resource probe.
    pub resources: String,
    /// Other Claude process trees, when known.
    pub peers: Option<u32>,
    /// `--peer-abort`.
    pub peer_abort: u32,
    /// `agent_summary.spiral` of the session just ended.
    pub spiral: Option<f64>,
    /// `agent_summary.failed` of the session just ended.
    pub failed: Option<f64>,
    /// `effectiveness.planned_issues`.
    pub planned: Option<f64>,
    /// `effectiveness.carryover`.
    pub carryover: Option<f64>,
    /// `--carryover-threshold`.
    pub carryover_threshold: f64,
}

/// Tokens of one session or of a run, all models and sub-agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Fresh input.
    pub input: u64,
    /// Output; the budget `--max-tokens` counts these.
    pub output: u64,
    /// Read from the prompt cache.
    pub cache_read: u64,
    /// Written to the prompt cache.
    pub cache_creation: u64,
}

/// What one model used in a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelSpend {
    /// Its name, as the CLI gives it.
    pub model: String,
    /// Tokens.
    pub tokens: Tokens,
    /// API-equivalent dollars, when known.
    pub cost_usd: Option<f64>,
}

/// What git says a session did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Commits since the session began, newest first, bounded.
    pub commits: Vec<Commit>,
    /// All commits, also those beyond the bound.
    pub commits_total: u64,
    /// Files changed by the commits.
    pub files_changed: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Files changed or untracked and not committed.
    pub dirty: u64,
    /// These are not the ones that were so before the session, or not in the same state.
    #[serde(default)]
    pub dirty_changed: bool,
    /// The old head is no longer an ancestor of the new one.
    pub history_rewritten: bool,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Object id.
    pub oid: String,
    /// First line of the message.
    pub subject: String,
}

/// Outcome of `--verify`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Exit 0.
    pub passed: bool,
    /// How it ended, in words.
    pub ended: String,
    /// Last lines of its output.
    pub tail: String,
}

/// What became of the tasks of a session, by title.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskOutcome {
    /// Tasks the session was given.
    pub given: Vec<String>,
    /// Boxes that the session ticked.
    pub ticked_by_session: Vec<String>,
    /// Boxes that were ticked because the session reported the task done and committed work.
    pub ticked_by_us: Vec<String>,
    /// Given, and still open.
    pub still_open: Vec<String>,
    /// Given, and not in the files any more, or struck through.
    pub gone: Vec<String>,
    /// Reported done, with nothing committed for it: the box stays open.
    pub disproved: Vec<String>,
    /// Reported done, and no task of that name is known.
    pub unknown_claims: Vec<String>,
}

/// What happened, or was decided, and why.
#[expect(clippy::large_enum_variant, reason = "its shape is that of the journal; effects box it")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEvent {
    /// First event of a run.
    RunStarted {
        /// Id of the run.
        run_id: String,
        /// Version of `autopilot`.
        version: String,
        /// Top level of the repository.
        repository: String,
        /// Branch, when on one.
        branch: Option<String>,
        /// Run this one continues.
        parent_run_id: Option<String>,
        /// `--max-sessions`.
        max_sessions: u32,
        /// `--max-hours`.
        max_hours: f64,
        /// `--max-tokens`; 0 = off.
        max_tokens: u64,
        /// `--max-cost`.
        max_cost_usd: Option<f64>,
        /// `--confidence-threshold`.
        confidence_threshold: f64,
        /// Program that is driven.
        claude: String,
        /// Its `--version`.
        claude_version: Option<String>,
    },
    /// The run goes on (`resume`), in a new process, under its id and with its books. Budgets are those of the
    /// whole run; they may be others than before.
    RunResumed {
        /// Version of `autopilot`.
        version: String,
        /// Branch, when on one.
        branch: Option<String>,
        /// `--max-sessions`.
        max_sessions: u32,
        /// `--max-hours`.
        max_hours: f64,
        /// `--max-tokens`; 0 = off.
        max_tokens: u64,
        /// `--max-cost`.
        max_cost_usd: Option<f64>,
        /// `--confidence-threshold`.
        confidence_threshold: f64,
        /// Completed iterations so far.
        iterations: u32,
        /// Seconds it was at work so far; what lies between two parts is not counted.
        seconds: f64,
        /// Tokens so far.
        tokens: Tokens,
        /// Dollars so far, when known.
        cost_usd: Option<f64>,
    },
    /// A run that died without a word was found and put in order.
    DeadRunFound {
        /// Its id.
        run_id: String,
        /// Processes it left, by name, which were ended.
        swept: Vec<String>,
        /// Still alive after that.
        survivors: Vec<String>,
    },
    /// The machine was looked at.
    ResourcesJudged {
        /// Iteration about to start, from 1.
        iteration: u32,
        /// Most restrictive tier.
        tier: String,
        /// Sub-agents a wave may have.
        cap: u32,
        /// Name of the signal that decided, when one did.
        deciding: Option<String>,
        /// All signals.
        signals: Vec<SignalReading>,
    },
    /// The signals for the choice of the next session, as they were read.
    Surveyed {
        /// Iteration about to start, from 1.
        iteration: u32,
        /// All of them, with their sources.
        signals: Box<Signals>,
    },
    /// What kind of session comes next.
    ModeSelected {
        /// Iteration about to start, from 1.
        iteration: u32,
        /// The choice; `None` = no recommendation.
        mode: Option<Mode>,
        /// 0 to 1.
        confidence: f64,
        /// `--confidence-threshold`.
        threshold: f64,
        /// Why.
        rationale: String,
        /// The other modes that came into question, best first.
        #[serde(default)]
        alternatives: Vec<Alternative>,
        /// How full the plate is.
        #[serde(default)]
        pressure: Pressure,
        /// The steps of the choice, one a line.
        #[serde(default)]
        reasons: Vec<String>,
    },
    /// The pre-launch verdict: may this run start unattended?
    VerdictJudged {
        /// What a no does.
        autonomy: Autonomy,
        /// The verdict with its gates.
        verdict: Verdict,
    },
    /// The kill-switches were checked.
    SwitchesChecked {
        /// Iteration, from 1.
        iteration: u32,
        /// `before` or `after` the session.
        phase: String,
        /// What was compared.
        inputs: SwitchInputs,
        /// The first that fired.
        hit: Option<KillSwitch>,
        /// Its words.
        detail: Option<String>,
    },
    /// A usage window is used up as far as `--reserve` lets it be: no session is started.
    ReserveReached {
        /// Iteration that is not started, from 1.
        iteration: u32,
        /// Which window.
        window: String,
        /// Used share of it, 1 is all.
        utilization: f64,
        /// When it resets, if known.
        resets_at: Option<Timestamp>,
        /// `--reserve`, in percent.
        reserve: f64,
    },
    /// A conversation begins (or is continued by `--chain resume` or `resume`).
    SessionStarted {
        /// Iteration, from 1.
        iteration: u32,
        /// Id of the conversation.
        session_id: String,
        /// Mode of the session.
        mode: Mode,
        /// Sub-agents a wave may have.
        cap: u32,
        /// Whether an earlier conversation goes on.
        continued: bool,
        /// Tasks it is given, by title.
        #[serde(default)]
        tasks: Vec<String>,
    },
    /// A prompt is about to be sent.
    TurnStarted {
        /// Id of the conversation.
        session_id: String,
        /// From 1 within the session.
        turn: u32,
        /// What for.
        purpose: Purpose,
        /// Size of the prompt in bytes.
        prompt_bytes: u64,
        /// Size of the transcript before it, in bytes: what comes after this offset belongs to the turn.
        transcript_offset: u64,
    },
    /// A process is being started for the turn.
    AttemptStarted {
        /// From 1 within the run.
        attempt: u32,
        /// Id of the conversation.
        session_id: String,
        /// `--resume` instead of `--session-id`.
        resume: bool,
        /// Arguments; the prompt is never among them.
        argv: Vec<String>,
        /// Variables taken out of the child's environment, by name.
        env_removed: Vec<String>,
        /// Claude and Anthropic variables passed on, by name.
        env_kept: Vec<String>,
    },
    /// The process lives.
    AttemptSpawned {
        /// Which attempt.
        attempt: u32,
        /// Process id.
        pid: u32,
    },
    /// The CLI introduced itself.
    Initialised {
        /// Which attempt.
        attempt: u32,
        /// Id the CLI uses.
        session_id: Option<String>,
        /// Model.
        model: Option<String>,
        /// Version of the CLI.
        cli_version: Option<String>,
        /// Permission mode in force.
        permission_mode: Option<String>,
        /// Where its key comes from; `none` for a subscription.
        api_key_source: Option<String>,
        /// MCP servers that did not start.
        failed_mcp_servers: Vec<String>,
    },
    /// A tool was called. Not journaled: the raw stream has it.
    ToolUsed {
        /// Tool.
        name: String,
        /// What it was called with, shortened.
        summary: String,
        /// By a sub-agent.
        sub_agent: bool,
    },
    /// The model wrote something. Not journaled: the raw stream has it.
    TextWritten {
        /// Shortened.
        text: String,
        /// By a sub-agent.
        sub_agent: bool,
    },
    /// Running totals of the run. Not journaled.
    Progress {
        /// Output tokens so far, estimated while a turn runs.
        output_tokens: u64,
        /// Dollars so far, when known.
        cost_usd: Option<f64>,
    },
    /// The CLI tries an API call again by itself.
    ApiRetry {
        /// Its count.
        attempt: u32,
        /// Its limit.
        max_retries: u32,
        /// HTTP status.
        status: Option<u16>,
        /// Class the CLI gives.
        error: Option<String>,
    },
    /// State of a usage window.
    RateLimit {
        /// `allowed`, `allowed_warning`, `rejected`.
        status: String,
        /// Which window.
        window: Option<String>,
        /// When it resets.
        resets_at: Option<Timestamp>,
        /// 0 to 1.
        utilization: Option<f64>,
    },
    /// Output that could not be read was skipped. Counted, never fatal.
    StreamAnomaly {
        /// What kind.
        anomaly: String,
        /// A bounded sample.
        sample: String,
    },
    /// The process is gone and its tree is empty (or the rest is named).
    AttemptEnded {
        /// Which attempt.
        attempt: u32,
        /// How it ended, in words.
        exit: Option<String>,
        /// Signals we sent, in order.
        signals: Vec<String>,
        /// Processes it left that were ended.
        swept: Vec<String>,
        /// Still alive after that.
        survivors: Vec<String>,
        /// Lines read.
        lines: u64,
        /// Lines that could not be read.
        bad_lines: u64,
        /// Longest silence in seconds.
        longest_gap_seconds: f64,
        /// Seconds it lived.
        seconds: f64,
        /// Last words on stderr, noise removed.
        stderr_tail: String,
    },
    /// What ground truth says of the attempt.
    OutcomeJudged {
        /// Which attempt.
        attempt: u32,
        /// Id of the conversation.
        session_id: String,
        /// The class.
        class: Class,
        /// 0 to 1.
        confidence: f64,
        /// Why, strongest first.
        reasons: Vec<String>,
    },
    /// A conversation that could not go on was left, and the one that takes over has started.
    ConversationLeft {
        /// Its id; its transcript stays as it is.
        session_id: String,
        /// Id of the one that takes over.
        successor: String,
        /// What was wrong.
        class: Class,
        /// In words.
        why: String,
    },
    /// The books after an attempt, for `resume` to open again.
    Accounted {
        /// Id of the conversation.
        session_id: String,
        /// Tokens of the run.
        tokens: Tokens,
        /// Dollars of the run, when known.
        cost_usd: Option<f64>,
        /// Running total of the conversation, as far as the CLI stated it.
        conversation_tokens: Tokens,
        /// The same in dollars.
        conversation_cost_usd: Option<f64>,
    },
    /// An automatic repair.
    Healed {
        /// Id of the conversation it was for.
        session_id: String,
        /// What was wrong.
        class: Class,
        /// What is done about it.
        action: String,
        /// Why that.
        why: String,
        /// Recoveries used by this turn, or heals by this run, this one included.
        recovery: u32,
        /// A heal of the run, by its number; `None` = a recovery of the turn.
        #[serde(default)]
        run_heal: Option<u32>,
        /// Pause before it, in seconds.
        delay_seconds: u64,
    },
    /// Asleep until a usage limit resets.
    LimitWait {
        /// Which window.
        window: Option<String>,
        /// Until when.
        until: Timestamp,
        /// How that is known.
        #[serde(default)]
        source: ResetSource,
        /// Words of the limit.
        why: String,
    },
    /// Awake again after a usage limit.
    LimitWaitOver {
        /// How long it took, in seconds.
        waited_seconds: u64,
    },
    /// Before a session: another Claude session is at work in this working tree, so this run waits for it to
    /// end. Said again when other sessions take its place.
    PeerWait {
        /// Iteration about to start, from 1.
        iteration: u32,
        /// Who is at work here.
        peers: Vec<PeerSession>,
        /// Until when the run waits.
        until: Timestamp,
        /// The same, in seconds from now.
        at_most_seconds: u64,
    },
    /// Nobody else is at work in this working tree any more.
    PeerGone {
        /// How long the run waited, in seconds.
        waited_seconds: u64,
    },
    /// The machine was asleep; deadlines got a fresh grace.
    Suspended {
        /// For how long, in seconds.
        asleep_seconds: f64,
    },
    /// The session's own report.
    ReportReceived {
        /// Id of the conversation.
        session_id: String,
        /// How it was obtained.
        source: ReportSource,
        /// `complete`, `partial`, `blocked`, `nothing_to_do`.
        status: Option<String>,
        /// Fields that were not as asked.
        problems: Vec<String>,
    },
    /// A session is blocked on a question, and a person has some time to answer before it is answered for them.
    QuestionAsked {
        /// Id of the conversation.
        session_id: String,
        /// The question.
        question: String,
        /// Its options, the session's favourite first.
        options: Vec<String>,
        /// When the first option is taken.
        until: Timestamp,
    },
    /// A question was answered.
    QuestionAnswered {
        /// Id of the conversation.
        session_id: String,
        /// The answer.
        answer: String,
        /// Who or what gave it.
        by: String,
    },
    /// The CLI asked before a tool ran, and this was answered.
    GateDecided {
        /// The tool.
        tool: String,
        /// The part of the call that decided, shortened, without what looks like a secret.
        what: String,
        /// `allow`, `deny`, or `defer`: Claude Code's own rules decide.
        decision: String,
        /// Why.
        reason: String,
        /// A person would have been asked; otherwise it is asked before each call.
        prompt: bool,
        /// By a sub-agent.
        sub_agent: bool,
    },
    /// The machine changed: so many sub-agents may run at once from now on.
    CapChanged {
        /// So many.
        cap: u32,
        /// Tier of the machine.
        tier: String,
        /// The reading that decided.
        why: Option<String>,
    },
    /// A sub-agent was asked for, refused, began or ended. Not journaled: the end of the session has the totals.
    WaveChanged {
        /// Sub-agents that run or are about to.
        live: u32,
        /// So many may.
        cap: u32,
        /// Of the session so far.
        totals: WaveTotals,
    },
    /// A session is over.
    SessionEnded {
        /// Iteration, from 1.
        iteration: u32,
        /// Id of the conversation.
        session_id: String,
        /// Whether it counts as a completed iteration.
        completed: bool,
        /// What ground truth says.
        class: Class,
        /// Status it reported.
        status: Option<String>,
        /// Its own summary.
        summary: Option<String>,
        /// What git says.
        work: Option<Work>,
        /// Where claim and ground truth disagree.
        contradictions: Vec<String>,
        /// `--verify`.
        verification: Option<Verification>,
        /// What became of its tasks.
        #[serde(default)]
        tasks: Option<TaskOutcome>,
        /// Tokens of the session.
        tokens: Tokens,
        /// The same by model, as far as known: without what was only estimated.
        #[serde(default)]
        models: Vec<ModelSpend>,
        /// Dollars of the session, when known.
        cost_usd: Option<f64>,
        /// Seconds it took.
        seconds: f64,
        /// Turns it took.
        turns: u32,
        /// Processes started for it.
        attempts: u32,
        /// Tool calls that were denied.
        denials: u32,
        /// What became of the sub-agents it wanted.
        #[serde(default)]
        wave: WaveTotals,
    },
    /// The operator asked for an end.
    StopRequested {
        /// `finish`, `interrupt`, `kill`.
        level: String,
        /// Signal or command it came by.
        by: String,
    },
    /// Something a person should know that changes nothing.
    Warning {
        /// In words.
        text: String,
    },
    /// Last event of a run.
    RunEnded {
        /// The switch, if one fired.
        kill_switch: Option<KillSwitch>,
        /// Its words, or those of the fall-back.
        detail: Option<String>,
        /// Exit code of the process.
        exit_code: u8,
        /// Class of the failure that ended it.
        failure_class: Option<Class>,
        /// Iteration 1 fell back to manual.
        fallback_to_manual: bool,
        /// Completed iterations.
        iterations: u32,
        /// Conversations, in order.
        sessions: Vec<String>,
        /// Tokens of the run.
        tokens: Tokens,
        /// Dollars of the run, when known.
        cost_usd: Option<f64>,
        /// Seconds it took.
        seconds: f64,
        /// Seconds of them asleep on usage limits.
        limit_wait_seconds: u64,
        /// What a person does next, most useful first.
        next: Vec<String>,
    },
}

impl RunEvent {
    /// Whether it goes into `events.jsonl`. The rest is for the eye only; the raw stream keeps it.
    #[must_use]
    pub fn is_journaled(&self) -> bool {
        !matches!(
            self,
            RunEvent::ToolUsed { .. }
                | RunEvent::TextWritten { .. }
                | RunEvent::Progress { .. }
                | RunEvent::WaveChanged { .. }
        )
    }

    /// Whether losing it would lose the run's state: it is synced to disk before the run goes on.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        matches!(
            self,
            RunEvent::RunStarted { .. }
                | RunEvent::RunResumed { .. }
                | RunEvent::SessionStarted { .. }
                | RunEvent::TurnStarted { .. }
                | RunEvent::AttemptStarted { .. }
                | RunEvent::AttemptSpawned { .. }
                | RunEvent::Healed { .. }
                | RunEvent::ConversationLeft { .. }
                | RunEvent::LimitWait { .. }
                | RunEvent::SessionEnded { .. }
                | RunEvent::RunEnded { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_in_words() {
        for (age_seconds, words) in [
            (0, "7 (started 0 s ago)"),
            (59, "7 (started 59 s ago)"),
            (720, "7 (started 12 min ago)"),
            (3_600, "7 (started 1 h 0 min ago)"),
            (47 * 3_600 + 3_540, "7 (started 47 h 59 min ago)"),
            (48 * 3_600, "7 (started 2 days ago)"),
        ] {
            let peer = PeerSession { pid: 7, age_seconds };
            assert_eq!(peer.to_string(), words);
            assert_eq!(peer_words(std::slice::from_ref(&peer)), format!("the Claude session {words}"));
        }
        let two = [7, 8].map(|pid| PeerSession { pid, age_seconds: 60 });
        assert_eq!(peer_words(&two), "the Claude sessions 7 (started 1 min ago), 8 (started 1 min ago)");
    }
}
