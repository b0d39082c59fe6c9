//! The driver: turns what its sources say into core events, carries out the effects, decides nothing.
//!
//! Theory of operation. [`drive`] owns the run's [`Run`] state machine, its timers and its edges, and the only
//! `select!` over all sources: signals first (control beats data), then answers to queries, then the running
//! attempt, then time. Each event goes through [`Run::step`]; the effects that come back are carried out in
//! order. What may take long (git, `--verify`, a contended file lock) runs as a task that answers with an
//! event; what takes a millisecond (the probe, a transcript's tail) is done on the spot.
//!
//! Invariants: an attempt is journaled before its process is started; at most one attempt lives at a time;
//! when `drive` returns, no process of the run is left that could be ended.

pub mod clock;
mod closing;
mod launch;
mod liveness;
mod peers;
mod records;
mod settle;
mod signals;
pub mod survey;
mod timers;

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc::{self, UnboundedSender};
use uuid::Uuid;

use crate::core::event::{Effect, Event, RunEnd, SessionClose};
use crate::core::evidence::Exit;
use crate::core::hand_over::HandOver;
use crate::core::published::RunEvent;
use crate::core::resources;
use crate::core::run::{Inherited, Limits, Run};
use crate::core::task::Task;
use crate::core::time::Now;
use crate::core::transcript_digest::{Growth, Resumable, TranscriptDigest};
use crate::engine::Handle;
use crate::engine::headless::{Billing, PassThrough};
use crate::git::{self, Repo, Snapshot};
use crate::journal::autopilot_record::Heal;
use crate::journal::metrics::{append_session, sessions_length};
use crate::journal::writer::{Journal, JournalError};
use crate::plan;
use crate::probe::Probe;
use crate::process::{self, Cookie};
use crate::state::layout::{Layout, RunDir};
use crate::state::lock::{Reasserted, RunLock};
use crate::state_md;
use crate::tasks::{TaskKind, Tasks};
use crate::transcript;

use closing::Closing;
pub use closing::FollowUps;
use launch::Said;
pub use launch::{billing_notice, environment, planned_argv};
pub use peers::sessions_at_work;
use records::Verify;
use settle::Question;
use signals::Signals;
use survey::{Look, Sources, Surveyed};
use timers::Timers;

/// Events of an attempt that may wait for the driver; beyond that its reader waits.
const EVENT_QUEUE: usize = 256;
/// A gap between the clocks beyond this is a suspend, not a delay.
const SUSPEND: Duration = Duration::from_secs(5);
/// How long the state of the repository after a session may stand for the state before the next one. Saves a
/// `git status` between two sessions (design §12); a wait in between makes it look again.
const SNAPSHOT_LIFE: Duration = Duration::from_secs(1);

/// What carries the turns of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carrier {
    /// `claude -p`.
    Headless,
    /// The interactive program in a pseudo-terminal.
    #[cfg(feature = "pty")]
    Pty {
        /// Shell command that says what an unrecognised screen shows.
        triage: Option<String>,
        /// The operator asked to skip permissions.
        may_bypass: bool,
    },
}

/// Everything a run needs from its surroundings.
#[derive(Debug)]
pub struct Setup {
    /// Id of the run.
    pub run_id: String,
    /// Marks every process the run starts.
    pub cookie: Cookie,
    /// The repository.
    pub repo: Repo,
    /// Where files go.
    pub layout: Layout,
    /// Folder of the run.
    pub run_dir: RunDir,
    /// The limits.
    pub limits: Limits,
    /// Where the work comes from.
    pub sources: Sources,
    /// Whether STATE.md is written.
    pub state_file: bool,
    /// Tasks that the run adds to the plan by itself.
    pub follow_ups: FollowUps,
    /// What an earlier run left.
    pub inherited: Inherited,
    /// Sub-agents per wave on a machine with room to spare.
    pub agents_per_wave: u32,
    /// The driven program; looked up again at each start (field-reports K08).
    pub claude: PathBuf,
    /// Who pays.
    pub billing: Billing,
    /// What carries a turn.
    pub engine: Carrier,
    /// Options passed on to it.
    pub pass_through: PassThrough,
    /// The work, in words.
    pub prompt: Option<String>,
    /// Plug-in whose session command is the prompt.
    pub session_command: Option<String>,
    /// `--verify`.
    pub verify: Option<String>,
    /// How long it may take.
    pub verify_timeout: Duration,
    /// Our environment, from which the child's is made.
    pub environment: Vec<(OsString, OsString)>,
}

/// Looks on while a run goes its way.
pub trait Observer {
    /// Something was published; `seq` is its number in the journal, if it went there.
    fn event(&mut self, now: Now, seq: Option<u64>, event: &RunEvent);
    /// A second has passed. Only called when [`Observer::wants_ticks`].
    fn tick(&mut self, now: Now);
    /// Whether there is something on screen that ages.
    fn wants_ticks(&self) -> bool;
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// What the core says.
    pub end: RunEnd,
    /// When it began.
    pub started: Now,
    /// When it ended.
    pub ended: Now,
    /// Automatic repairs, in order.
    pub heals: Vec<Heal>,
    /// Records that could not be written, as JSON lines: for stderr, so that nothing is lost.
    pub unwritten: Vec<String>,
}

/// Why a run could not be driven at all.
#[derive(Debug, Error)]
pub enum DriveError {
    /// The signal handlers could not be installed.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
}

enum Reply {
    Event(Event),
    Snapshot(Option<Snapshot>),
    /// The signals, the tasks, and what a person should know.
    Surveyed(Box<Surveyed>),
    /// What became of tasks, and what a person should know.
    Settled(Event, Vec<String>),
    Warnings(Vec<String>),
    /// What a session did, and the state it left if that still holds.
    Measured(Event, Option<Snapshot>),
    Unwritten(String),
}

struct Driver<'a> {
    setup: &'a Setup,
    run: Run,
    journal: &'a mut Journal,
    lock: &'a mut RunLock,
    observer: &'a mut dyn Observer,
    timers: Timers,
    tasks: Tasks,
    pending: VecDeque<Event>,
    replies: UnboundedSender<Reply>,
    attempts: mpsc::Sender<Event>,
    handle: Option<Handle>,
    probe: Probe,
    snapshot: Option<Snapshot>,
    /// What the last measurement found, and when, on the monotonic clock. Not once we have changed a task file
    /// ourselves: that would count as the next session's work.
    left_by_session: Option<(Duration, Snapshot)>,
    /// Length of `sessions.jsonl` when the session began: what comes after it may be the session's own.
    sessions_length: u64,
    /// Where the child keeps its transcripts.
    config_dir: Option<PathBuf>,
    /// Conversation and transcript of the running attempt, for the liveness check.
    transcript: Option<PathBuf>,
    /// What the running conversation said last.
    said: Said,
    /// Tasks that were open when the session began.
    known_tasks: Vec<Task>,
    /// Warnings that were given; each is told once.
    warned: HashSet<String>,
    iteration: u32,
    /// What the last session of this run left; until there is one, the file says.
    hand_over: Option<HandOver>,
    heals: Vec<Heal>,
    unwritten: Vec<String>,
    end: Option<RunEnd>,
}

/// Drives a run to its end.
pub async fn drive(
    setup: &Setup,
    journal: &mut Journal,
    lock: &mut RunLock,
    observer: &mut dyn Observer,
) -> Result<Ended, DriveError> {
    let mut signals = Signals::listen().map_err(DriveError::Signals)?;
    if let Err(error) = process::become_subreaper() {
        tracing::warn!(%error, "cannot adopt orphans; the sweep relies on marks alone");
    }
    let (replies, mut answers) = mpsc::unbounded_channel();
    let (attempts, mut found) = mpsc::channel(EVENT_QUEUE);
    let ids = (0..Run::ids_needed(setup.limits.max_sessions)).map(|_| Uuid::new_v4().to_string()).collect();
    let started = clock::now();
    let mut driver = Driver {
        run: Run::new(setup.limits.clone(), ids, setup.inherited.clone()),
        journal,
        lock,
        observer,
        timers: Timers::default(),
        tasks: Tasks::new(),
        pending: VecDeque::from([Event::Start]),
        replies,
        attempts,
        handle: None,
        probe: Probe::new(),
        snapshot: None,
        left_by_session: None,
        sessions_length: 0,
        config_dir: launch::config_dir(setup),
        transcript: None,
        said: Said::default(),
        known_tasks: Vec::new(),
        warned: HashSet::new(),
        iteration: 0,
        hand_over: None,
        heals: Vec::new(),
        unwritten: Vec::new(),
        end: None,
        setup,
    };
    let mut asleep = clock::asleep();
    let end = loop {
        while let Some(event) = driver.pending.pop_front() {
            driver.step(event).await;
        }
        if let Some(end) = driver.end.take() {
            break end;
        }
        let now = clock::now();
        let ticking = driver.observer.wants_ticks();
        let pause =
            driver.timers.pause(now).min(if ticking { Duration::from_secs(1) } else { timers::SLICE });
        let event = tokio::select! {
            biased;
            stop = signals.next() => Some(stop),
            Some(reply) = answers.recv() => driver.take(reply),
            Some(event) = found.recv() => Some(event),
            () = tokio::time::sleep(pause) => None,
        };
        let slept = clock::asleep();
        if slept.saturating_sub(asleep) > SUSPEND {
            driver.pending.push_back(Event::Suspended { asleep: slept.saturating_sub(asleep) });
        }
        asleep = slept;
        driver.pending.extend(event);
        let now = clock::now();
        if ticking {
            driver.observer.tick(now);
        }
        while let Some(timer) = driver.timers.pop(now) {
            driver.pending.push_back(Event::Timer(timer));
        }
    };
    driver.handle = None;
    driver.tasks.finish().await;
    Ok(Ended { end, started, ended: clock::now(), heals: driver.heals, unwritten: driver.unwritten })
}

impl Driver<'_> {
    fn take(&mut self, reply: Reply) -> Option<Event> {
        match reply {
            Reply::Event(event) => Some(event),
            Reply::Snapshot(snapshot) => {
                self.snapshot = snapshot;
                Some(Event::Snapshotted)
            }
            Reply::Measured(event, left) => {
                self.left_by_session = left.map(|snapshot| (clock::now().mono, snapshot));
                Some(event)
            }
            Reply::Surveyed(surveyed) => {
                let Surveyed { survey, warnings, plan_changed } = *surveyed;
                if plan_changed {
                    self.left_by_session = None;
                }
                self.warn(warnings);
                self.known_tasks.clone_from(&survey.tasks);
                Some(Event::Surveyed(Box::new(survey)))
            }
            Reply::Settled(event, warnings) => {
                if let Event::TasksSettled(Some(outcome)) = &event
                    && !outcome.ticked_by_us.is_empty()
                {
                    self.left_by_session = None;
                }
                self.warn(warnings);
                Some(event)
            }
            Reply::Warnings(warnings) => {
                self.warn(warnings);
                None
            }
            Reply::Unwritten(record) => {
                self.unwritten.push(record);
                None
            }
        }
    }

    async fn step(&mut self, mut event: Event) {
        if let Event::Found { fact, .. } = &event {
            self.said.take(fact);
        }
        if let Event::AttemptOver { end, .. } = &mut event {
            // Out of memory looks like any other SIGKILL; a reading right behind it tells more (field-reports J08).
            if matches!(end.exit, Some(Exit::Signal(9) | Exit::Code(137))) {
                end.memory_left = self.probe.memory_left();
            }
            self.handle = None;
            self.transcript = None;
            if let Err(error) = process::reap_adopted() {
                tracing::debug!(%error, "reaping");
            }
        }
        for effect in self.run.step(clock::now(), event) {
            self.carry_out(effect).await;
        }
    }

    async fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Sample => {
                let event = self.sample();
                self.pending.push_back(event);
            }
            Effect::LookForPeers => {
                let here = sessions_at_work(&self.probe, &self.setup.repo.root);
                self.pending.push_back(Event::PeersHere(here));
            }
            Effect::Survey => self.survey(),
            Effect::Snapshot => {
                self.hold_lock();
                self.sessions_length = sessions_length(&self.setup.layout);
                let age = |taken| clock::now().mono.saturating_sub(taken);
                match self.left_by_session.take() {
                    Some((taken, snapshot)) if age(taken) < SNAPSHOT_LIFE => {
                        self.snapshot = Some(snapshot);
                        self.pending.push_back(Event::Snapshotted);
                        return;
                    }
                    Some(_) | None => {}
                }
                let repo = self.setup.repo.clone();
                self.query(async move {
                    let snapshot = git::snapshot(&repo).await;
                    Reply::Snapshot(snapshot.inspect_err(|error| tracing::warn!(%error, "git")).ok())
                });
            }
            Effect::Inspect { session_id, offset } => {
                let digest = Box::new(self.inspect(&session_id, offset.unwrap_or_default()));
                self.pending.push_back(Event::Inspected { session_id, digest });
            }
            Effect::Launch(launch) => Box::pin(self.launch(*launch)).await,
            Effect::CloseInput { .. } => {
                if let Some(handle) = &self.handle {
                    handle.close_input();
                }
            }
            Effect::StopAttempt { step, .. } => {
                if let Some(handle) = &self.handle {
                    handle.stop(step);
                }
            }
            Effect::Answer { request_id, answer, .. } => {
                if let Some(handle) = &self.handle {
                    handle.answer(request_id, answer);
                }
            }
            Effect::AskGit { attempt, request_id, paths } => {
                let root = self.setup.repo.root.clone();
                self.query(async move {
                    let removable = git::removable(&root, &paths).await;
                    Reply::Event(Event::GitSaid { attempt, request_id, removable })
                });
            }
            Effect::CheckLiveness { attempt } => self.check_liveness(attempt),
            Effect::Arm { timer, after } => self.timers.arm(clock::now(), timer, after),
            Effect::ArmAt { timer, at } => self.timers.arm_at(clock::now(), timer, at),
            Effect::Measure { verify } => self.measure(verify),
            Effect::SettleTasks { session_id, given, done, proven } => {
                let known = self.known_tasks.clone();
                self.settle_tasks(Question { session_id, given, done, proven, known });
            }
            Effect::OpenSession { tasks } => self.open_session(tasks),
            Effect::RecordSession(close) => self.record_session(&close),
            Effect::Publish(event) => self.publish(&event),
            Effect::Finish(end) => self.end = Some(*end),
        }
    }

    /// Says it to the journal and to whoever looks on.
    fn publish(&mut self, event: &RunEvent) {
        let now = clock::now();
        self.heals.extend(Heal::of(event));
        let seq = event.is_journaled().then(|| self.journal.next_seq());
        if let Err(error) = self.journal.append(event, now) {
            self.journal_failed(&error);
        }
        self.observer.event(now, seq, event);
    }

    fn journal_failed(&mut self, error: &JournalError) {
        self.pending.push_back(Event::JournalFailed(format!("the journal cannot be written: {error}")));
    }

    /// A session may have removed our files (`git clean -fdx`); then anybody could start a second run here.
    fn hold_lock(&mut self) {
        // Where the repository itself is gone there is nothing to hold, and nothing to be made again.
        if !self.setup.repo.git_dir.exists() {
            return;
        }
        match self.lock.reassert() {
            Ok(Reasserted::Intact) => {}
            Ok(Reasserted::Restored) => self.publish(&RunEvent::Warning {
                text: "the lock file had been removed (git clean?); it was made again".to_owned(),
            }),
            Err(error) => self.publish(&RunEvent::Warning { text: error.to_string() }),
        }
    }

    fn query(&self, future: impl Future<Output = Reply> + Send + 'static) {
        let replies = self.replies.clone();
        self.tasks.spawn(TaskKind::Query, async move {
            // The driver is gone: the answer is nobody's business any more.
            drop(replies.send(future.await));
        });
    }

    fn sample(&self) -> Event {
        let own = std::process::id();
        let sample = self.probe.sample(&|pid| pid == own);
        let verdict = resources::judge(&sample, self.setup.agents_per_wave);
        let peers = sample.peers.value().and_then(|peers| u32::try_from(*peers).ok());
        Event::Sampled { verdict, peers }
    }

    fn inspect(&self, session_id: &str, offset: u64) -> TranscriptDigest {
        let nothing = TranscriptDigest { growth: Growth::of(0, offset), ..TranscriptDigest::default() };
        let found = match self.locate(session_id) {
            Ok(Some(path)) => transcript::digest(&path, offset),
            Ok(None) => return nothing,
            Err(error) => Err(error),
        };
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "transcript");
            // Something is there and cannot be read: resume it, and take nothing for granted.
            TranscriptDigest {
                exists: true,
                resumable: Resumable::Unknown,
                growth: Growth::Grown { by: 0 },
                ..TranscriptDigest::default()
            }
        })
    }

    fn locate(&self, session_id: &str) -> Result<Option<PathBuf>, transcript::TranscriptError> {
        let (Some(config_dir), Ok(session)) = (&self.config_dir, Uuid::parse_str(session_id)) else {
            return Ok(None);
        };
        let located = transcript::locate(config_dir, &self.setup.repo.root, session)?;
        Ok(located.map(|located| located.path))
    }

    fn check_liveness(&self, attempt: u32) {
        let Some(handle) = self.handle.clone() else { return };
        let transcript = self.transcript.clone();
        let stall_timeout = self.setup.limits.stall_timeout;
        let wall = clock::wall();
        self.query(async move {
            let moved = liveness::moving(handle, transcript, stall_timeout, wall).await;
            Reply::Event(Event::Liveness { attempt, moved })
        });
    }

    fn warn(&mut self, warnings: Vec<String>) {
        for text in warnings {
            if self.warned.insert(text.clone()) {
                self.publish(&RunEvent::Warning { text });
            }
        }
    }

    fn survey(&mut self) {
        let sources = self.setup.sources.clone();
        let left = self.hand_over.clone();
        let now = clock::wall();
        self.query(
            async move { Reply::Surveyed(Box::new(survey::survey(sources, left, Look::Take, now).await)) },
        );
    }

    /// The start of a session, in the files of its tasks and its state. Nobody waits for it: what is written
    /// here is read again only before the next session.
    fn open_session(&self, tasks: Vec<String>) {
        let layout = self.setup.layout.clone();
        let state_dir = self.setup.sources.state_dir.clone();
        let state_file = self.setup.state_file;
        let now = clock::wall();
        self.query(async move {
            let opened = tokio::task::spawn_blocking(move || {
                let mut warnings = Vec::new();
                if state_file
                    && let Err(error) = state_md::idle_reset(layout.root(), state_dir.as_deref(), now)
                {
                    warnings.push(error.to_string());
                }
                if let Err(error) = plan::given(&layout.tasks(), &tasks) {
                    warnings.push(error.to_string());
                }
                warnings
            });
            Reply::Warnings(opened.await.unwrap_or_default())
        });
    }

    fn settle_tasks(&self, question: Question) {
        let layout = self.setup.layout.clone();
        let has_issues = self.setup.sources.backlog_label.is_some();
        self.query(async move {
            let settled = tokio::task::spawn_blocking(move || {
                if has_issues {
                    // The session may have closed some: they are asked for anew.
                    drop(std::fs::remove_file(layout.forge_cache()));
                }
                settle::settle(layout.root(), &layout.tasks(), &question)
            });
            match settled.await {
                Ok((outcome, warnings)) => Reply::Settled(Event::TasksSettled(Some(outcome)), warnings),
                Err(_) => Reply::Settled(Event::TasksSettled(None), Vec::new()),
            }
        });
    }

    fn measure(&self, verify: bool) {
        let repo = self.setup.repo.clone();
        let then = self.snapshot.clone();
        let command = self.setup.verify.clone().filter(|_| verify).map(|command| Verify {
            command,
            timeout: self.setup.verify_timeout,
            run_id: self.setup.run_id.clone(),
            cookie: self.setup.cookie.clone(),
            log: self.setup.run_dir.verify_log(self.iteration),
        });
        self.query(async move {
            let change = match &then {
                Some(then) => {
                    git::since(&repo, then).await.inspect_err(|error| tracing::warn!(%error, "git")).ok()
                }
                None => None,
            };
            let verification = match command {
                Some(command) => Some(records::verify(&repo.root, &command).await),
                None => None,
            };
            // The command may have written to the tree after it was looked at.
            let left = change.as_ref().filter(|_| verification.is_none()).map(|change| change.now.clone());
            Reply::Measured(Event::Measured { work: change.map(records::work), verification }, left)
        });
    }

    fn record_session(&mut self, close: &SessionClose) {
        self.hand_over = Some(close.closing.hand_over.clone());
        let record = records::session(&self.setup.run_id, self.snapshot.as_ref(), close);
        let mut closing = Closing::of(self.setup, close, &self.known_tasks, clock::wall());
        if closing.adds_tasks() {
            self.left_by_session = None;
        }
        let layout = self.setup.layout.clone();
        let since = self.sessions_length;
        let replies = self.replies.clone();
        let docs = self.setup.follow_ups.docs && !self.setup.sources.asked.prompt;
        let start =
            self.snapshot.as_ref().and_then(|snapshot| snapshot.head.as_ref().map(ToString::to_string));
        let (repo, known) = (self.setup.repo.clone(), self.known_tasks.clone());
        // The journal says first that the session is over. The other way round a death in between would have
        // `resume` go on with a session that is on record, and record it once more.
        let ended = self.journal.all_stored();
        self.query(async move {
            if let Ok(ended) = ended {
                // A journal that fails has its own way to say so; the record is due all the same.
                drop(ended.wait().await);
            }
            if docs {
                let mark = layout.documentation_mark();
                let wanted = closing::documentation(&repo, &mark, start.as_deref(), &known).await;
                if let Some(wanted) = wanted {
                    closing.add_documentation(wanted);
                }
            }
            // The lock of the file may have to be waited for; that must not hold up a signal.
            let written = tokio::task::spawn_blocking(move || {
                let written = append_session(&layout, &record, since);
                (written, closing.write())
            });
            let result = match written.await {
                Ok((written, warnings)) => {
                    drop(replies.send(Reply::Warnings(warnings)));
                    match written {
                        Ok(_) => Ok(()),
                        Err(error) => {
                            drop(replies.send(Reply::Unwritten(error.record.clone())));
                            Err(error.to_string())
                        }
                    }
                }
                Err(error) => Err(error.to_string()),
            };
            Reply::Event(Event::Recorded(result))
        });
    }
}
