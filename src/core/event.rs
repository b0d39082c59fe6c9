//! Everything that can happen to a run, and everything a run can want: two closed enums.
//!
//! The driver only turns what its sources say into an [`Event`] and carries out the [`Effect`]s that
//! [`super::run::Run::step`] returns. What belongs to an attempt is stamped with its number; the core drops
//! what belongs to an earlier one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::claims::Checked;
use super::evidence::AttemptEnd;
use super::fact::Fact;
use super::hand_over::{Closing, HandOver};
use super::kill_switch::KillSwitch;
use super::mediation;
use super::mode::Mode;
use super::outcome::Class;
use super::published::{
    PeerSession, Purpose, ReportSource, RunEvent, TaskOutcome, Tokens, Verification, Work,
};
use super::recovery::Departure;
use super::resources::ResourceVerdict;
use super::session_report::SessionReport;
use super::signals::Signals;
use super::stuck::ladder::Circle;
use super::suitability::{RunOutcome, Verdict};
use super::task::Task;
use super::time::{TimerId, TimerKind};
use super::transcript_digest::TranscriptDigest;
use super::wave::WaveTotals;

/// How hard the operator wants the run to stop. Only goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    /// Finish this session, start no other (SIGINT).
    Finish,
    /// End the turn now, close, record (SIGINT twice, SIGTERM, SIGHUP).
    Interrupt,
    /// End the process tree at once, record, leave (SIGINT three times).
    Kill,
}

impl StopLevel {
    /// The word used in events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            StopLevel::Finish => "finish",
            StopLevel::Interrupt => "interrupt",
            StopLevel::Kill => "kill",
        }
    }
}

/// What was gathered before a session: the signals, and what the session is to be given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Survey {
    /// For the choice.
    pub signals: Signals,
    /// Open tasks of all sources, in the order of the sources.
    pub tasks: Vec<Task>,
    /// What the sessions before left, of this run and of earlier ones.
    pub hand_over: HandOver,
    /// How the last runs here ended, oldest first.
    pub recent_runs: Vec<RunOutcome>,
}

impl From<Signals> for Survey {
    fn from(signals: Signals) -> Self {
        Survey { signals, ..Survey::default() }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The run begins.
    Start,
    /// Answer to [`Effect::Sample`].
    Sampled {
        /// The verdict.
        verdict: ResourceVerdict,
        /// Other Claude process trees, when known.
        peers: Option<u32>,
    },
    /// Answer to [`Effect::LookForPeers`]: the Claude sessions of others that work in this tree, as far as can
    /// be told.
    PeersHere(Vec<PeerSession>),
    /// Answer to [`Effect::Survey`].
    Surveyed(Box<Survey>),
    /// Answer to [`Effect::Snapshot`].
    Snapshotted,
    /// Answer to [`Effect::Inspect`].
    Inspected {
        /// Which conversation.
        session_id: String,
        /// What its transcript says.
        digest: Box<TranscriptDigest>,
    },
    /// The process of an attempt lives.
    Spawned {
        /// Which attempt.
        attempt: u32,
        /// Process id.
        pid: u32,
    },
    /// A finding.
    Found {
        /// Of which attempt.
        attempt: u32,
        /// What.
        fact: Fact,
    },
    /// The process of an attempt is gone, its output read to the end, its tree swept.
    AttemptOver {
        /// Which attempt.
        attempt: u32,
        /// How.
        end: Box<AttemptEnd>,
    },
    /// Answer to [`Effect::CheckLiveness`].
    Liveness {
        /// Which attempt.
        attempt: u32,
        /// How long ago something moved although the stream was silent; `None` = nothing did.
        moved: Option<Duration>,
    },
    /// Answer to [`Effect::AskGit`].
    GitSaid {
        /// Which attempt.
        attempt: u32,
        /// Which question of it.
        request_id: String,
        /// Whether git ignores all there is at a path. What is not in here is not known.
        removable: BTreeMap<PathBuf, bool>,
    },
    /// A timer ran out.
    Timer(TimerId),
    /// Answer to [`Effect::Measure`].
    Measured {
        /// What git says; `None` when git could not say.
        work: Option<Work>,
        /// Outcome of `--verify`, if it was to run.
        verification: Option<Verification>,
    },
    /// Answer to [`Effect::SettleTasks`]; `None` when the task files could not be read.
    TasksSettled(Option<TaskOutcome>),
    /// Answer to [`Effect::RecordSession`].
    Recorded(Result<(), String>),
    /// The operator wants the run to stop.
    Stop {
        /// How hard.
        level: StopLevel,
        /// Which signal or command.
        by: &'static str,
    },
    /// The machine slept; deadlines get a fresh grace (field-reports L01).
    Suspended {
        /// For how long.
        asleep: Duration,
    },
    /// The run's own files cannot be written any more.
    JournalFailed(String),
}

/// A process to start for a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Number of the attempt, from 1 within the run.
    pub attempt: u32,
    /// Iteration, from 1.
    pub iteration: u32,
    /// Id of the conversation.
    pub session_id: String,
    /// `--resume` instead of `--session-id`.
    pub resume: bool,
    /// Plain `-p` with the prompt on stdin, for a CLI that does not speak the control protocol.
    pub plain: bool,
    /// A message-less transcript blocks the id: move it aside first (recovery §1.7).
    pub quarantine: bool,
    /// Turn within the session, from 1.
    pub turn: u32,
    /// Size of the transcript before the turn.
    pub transcript_offset: u64,
    /// What to say.
    pub purpose: Purpose,
    /// Mode of the session.
    pub mode: Mode,
    /// Sub-agents a wave may have.
    pub cap: u32,
    /// Dollars left, handed to the CLI as its budget.
    pub budget_left_usd: Option<f64>,
    /// Output tokens left; told to the session.
    pub tokens_left: Option<u64>,
    /// Time left of the run; told to the session.
    pub time_left: Duration,
    /// Tasks of the session.
    pub tasks: Vec<Task>,
    /// What the sessions before left.
    pub hand_over: HandOver,
    /// [`Purpose::Answer`]: the question and what is answered.
    pub answer: Option<Answer>,
    /// [`Purpose::Nudge`], or a new conversation after it: the circle that is to be broken.
    pub circle: Option<Circle>,
    /// The conversation it takes over from, when it is a new one.
    pub left: Option<Departure>,
}

/// A question a session was blocked on, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The question.
    pub question: String,
    /// What is answered.
    pub answer: String,
}

/// How to end a process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopStep {
    /// Over the control protocol, or SIGINT: the turn ends with a result.
    Interrupt,
    /// SIGTERM, grace, SIGKILL, sweep.
    Terminate,
    /// SIGKILL at once, sweep.
    Kill,
}

/// What a session leaves for its record.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionClose {
    /// Iteration, from 1.
    pub iteration: u32,
    /// Id of the conversation.
    pub session_id: String,
    /// Mode.
    pub mode: Mode,
    /// Whether it counts as a completed iteration.
    pub completed: bool,
    /// What ground truth says.
    pub class: Class,
    /// Its report, if it gave one.
    pub report: Option<SessionReport>,
    /// Where that came from.
    pub report_source: ReportSource,
    /// What git says.
    pub work: Option<Work>,
    /// `--verify`.
    pub verification: Option<Verification>,
    /// The numbers that count: the worse of claim and ground truth.
    pub checked: Checked,
    /// What became of its tasks.
    pub tasks: Option<TaskOutcome>,
    /// Sub-agents it started.
    pub agents_started: u32,
    /// What became of the sub-agents it wanted.
    pub wave: WaveTotals,
    /// What it leaves to the next.
    pub closing: Closing,
    /// Tokens.
    pub tokens: Tokens,
    /// Dollars, when known.
    pub cost_usd: Option<f64>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

/// How the run ends.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "facts of a record, each read by its name")]
pub struct RunEnd {
    /// The switch, if one fired.
    pub kill_switch: Option<KillSwitch>,
    /// Its words, or those of the fall-back or the planned end.
    pub detail: Option<String>,
    /// Class of the failure that ended it.
    pub failure_class: Option<Class>,
    /// A person must act before anything else (exit codes 20 to 24).
    pub needs_person: bool,
    /// Iteration 1 fell back to manual.
    pub fallback_to_manual: bool,
    /// The pre-launch verdict that forbade the start (exit code 4).
    pub forbidden: Option<Verdict>,
    /// The Claude sessions that were still at work in this tree when the grace for them was over. Not empty:
    /// they ended the run (exit code 5).
    pub peers: Vec<PeerSession>,
    /// A session reported that there is nothing left to do.
    pub work_done: bool,
    /// The usage window that `--reserve` ended the run for: it has to reset first.
    pub reserved_window: Option<String>,
    /// The deadline ended it, and another process can go on at once.
    pub deadline_reached: bool,
    /// The signal or command that asked for the end.
    pub stopped_by: Option<&'static str>,
    /// Completed iterations.
    pub iterations: u32,
    /// Conversations, in order.
    pub sessions: Vec<String>,
    /// Tokens.
    pub tokens: Tokens,
    /// Dollars, when known.
    pub cost_usd: Option<f64>,
    /// How long it took.
    pub duration: Duration,
    /// How much of that asleep on usage limits.
    pub limit_wait: Duration,
    /// Hangs that ended a session (upstream-formats §5.1, `stall_recovery_count`).
    pub stalls: u32,
    /// Tier of the first sample.
    pub resource_verdict_at_start: Option<String>,
}

/// What the run wants done.
#[derive(Debug)]
pub enum Effect {
    /// Look at the machine.
    Sample,
    /// Look whether other Claude sessions work in this tree.
    LookForPeers,
    /// Gather the signals for the choice of the next session.
    Survey,
    /// Remember the state of the repository: a session begins.
    Snapshot,
    /// Read the transcript of a conversation; with an offset, what came after it.
    Inspect {
        /// Which conversation.
        session_id: String,
        /// Where the turn began.
        offset: Option<u64>,
    },
    /// Start a process for a turn.
    Launch(Box<Launch>),
    /// No further prompt will come: close stdin, so that the process ends.
    CloseInput {
        /// Which attempt.
        attempt: u32,
    },
    /// End it.
    StopAttempt {
        /// Which attempt.
        attempt: u32,
        /// How.
        step: StopStep,
    },
    /// Answer a question of the CLI.
    Answer {
        /// Which attempt.
        attempt: u32,
        /// Which question of it.
        request_id: String,
        /// The answer.
        answer: mediation::Answer,
    },
    /// See whether git ignores all there is at these paths: build output may be removed, work may not.
    AskGit {
        /// Which attempt.
        attempt: u32,
        /// Which question of it depends on that.
        request_id: String,
        /// The paths.
        paths: Vec<PathBuf>,
    },
    /// The stream is silent: see whether transcript or tools move.
    CheckLiveness {
        /// Which attempt.
        attempt: u32,
    },
    /// Ask for a timer.
    Arm {
        /// Its id; a newer one of the same kind replaces it.
        timer: TimerId,
        /// From now.
        after: Duration,
    },
    /// Ask for a timer that aims at a wall instant.
    ArmAt {
        /// Its id.
        timer: TimerId,
        /// When.
        at: Timestamp,
    },
    /// See what the session did, and run `--verify` if asked.
    Measure {
        /// Whether `--verify` is worth running.
        verify: bool,
    },
    /// See what became of tasks, and tick the boxes of those that are proven.
    SettleTasks {
        /// Id of the conversation.
        session_id: String,
        /// Ids of the tasks the session was given.
        given: Vec<String>,
        /// Tasks it reports done, by id or in words.
        done: Vec<String>,
        /// Whether the work is proven: an open box of a reported task may be ticked for the session.
        proven: bool,
    },
    /// A session begins that is not a continuation: reset what the last one recommended (upstream-formats
    /// §5.5, idle reset), and remember what it is given.
    OpenSession {
        /// Ids of its tasks.
        tasks: Vec<String>,
    },
    /// Write the session's record and its hand-over.
    RecordSession(Box<SessionClose>),
    /// Say it to the journal, the display and `--events`.
    Publish(Box<RunEvent>),
    /// The run is over.
    Finish(Box<RunEnd>),
}

/// What a step wants done, in order.
#[derive(Debug, Default)]
#[must_use = "effects that are not carried out lose the run's decisions"]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// Adds one.
    pub fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    /// Adds a published event.
    pub fn publish(&mut self, event: RunEvent) {
        self.push(Effect::Publish(Box::new(event)));
    }

    /// Adds a timer.
    pub fn arm(&mut self, kind: TimerKind, epoch: u64, after: Duration) {
        self.push(Effect::Arm { timer: TimerId { kind, epoch }, after });
    }
}

impl IntoIterator for Effects {
    type Item = Effect;
    type IntoIter = std::vec::IntoIter<Effect>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
