//! A world for the core to run in: a virtual clock, scripted attempts, transcripts that grow.
//!
//! [`World`] stands in for the driver and everything behind it. It drives [`Run::step`] synchronously, carries
//! out the effects, fires timers in the order they are due, and keeps what was published. Nothing waits: a
//! night takes microseconds. Every step is looked over by the [`oracle`], so that each test checks the
//! invariants of a run whatever else it is about.

mod clock_tests;
mod gate_tests;
mod landing_tests;
mod limit_tests;
mod loop_tests;
mod model_tests;
mod oracle;
mod peer_tests;
mod script;
mod stuck_tests;
mod turn_tests;
mod work_tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::autonomy::Autonomy;
use super::event::{Effect, Event, Launch, RunEnd, SessionClose, StopLevel, StopStep, Survey};
use super::evidence::{AttemptEnd, Exit};
use super::fact::Fact;
use super::kill_switch::KillSwitch;
use super::mediation::{Answer, Grounds};
use super::outcome::Class;
use super::published::{PeerSession, RunEvent, TaskOutcome, Verification, Work};
use super::recovery::Policy;
use super::resources::{self, Reading, Sample};
use super::run::{Chain, Inherited, Limits, Run};
use super::signals::Signals;
use super::time::{Due, Now, TimerId, TimerKind};
use super::transcript_digest::{Ended, Excerpt, Growth, Resumable, Tally, TranscriptDigest, TurnOver};
use oracle::Oracle;
use script::{Attempt, Step, done};

/// Bytes of one entry of a transcript.
const ENTRY: u64 = 100;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn start_of_world() -> Now {
    Now { mono: secs(10_000), wall: Timestamp::from_second(1_790_000_000).unwrap() }
}

fn limits() -> Limits {
    Limits {
        max_sessions: 1,
        max_hours: 4.0,
        limit_wait_free: false,
        max_tokens: 500_000,
        max_cost_usd: None,
        confidence_threshold: 0.85,
        carryover_threshold: 0.5,
        peer_abort: 6,
        stall_timeout: secs(600),
        first_output_timeout: secs(180),
        turn_timeout: secs(90 * 60),
        deadline: None,
        exit_grace: secs(15),
        chain: Chain::Fresh,
        verify: false,
        autonomy: Autonomy::Advisory,
        confidence_floor: 0.5,
        answer_after: None,
        gate: Grounds { tree: PathBuf::from("/repo"), ..Grounds::default() },
        stuck_detection: true,
        recovery: Policy {
            backoff: vec![secs(5), secs(30)],
            heals: Vec::new(),
            max_wait: secs(6 * 3600),
            time_zone: TimeZone::UTC,
        },
        peer_grace: secs(300),
        allow_peers: false,
        reserve: 0.0,
        jitter: secs(7),
    }
}

/// Something that will happen.
#[derive(Debug)]
enum Happening {
    Event(Box<Event>),
    Step(u32, Step),
    Suspend(Duration),
    /// The wall clock is set, by so many seconds.
    SetClock(i64),
}

/// An entry of a transcript: text of the model, or the prompt.
#[derive(Debug)]
struct Entry {
    assistant: bool,
    /// The entry ends the turn.
    ends: bool,
}

struct Live {
    number: u32,
    launched: Duration,
    session_id: String,
    script: Attempt,
    failed: bool,
}

/// The world of one run.
struct World {
    now: Now,
    run: Run,
    oracle: Oracle,
    script: VecDeque<Attempt>,
    agenda: BTreeMap<(Duration, u64), Happening>,
    order: u64,
    timers: BTreeMap<TimerKind, (TimerId, Due)>,
    transcripts: HashMap<String, Vec<Entry>>,
    live: Option<Live>,
    /// Signals of the next surveys; then a prompt.
    surveys: VecDeque<Survey>,
    sample: Sample,
    /// Claude sessions of others in this tree: process, and from when until when they live, from the start.
    others: Vec<(u32, Duration, Duration)>,
    /// How long measuring takes.
    measure: Duration,
    verifications: VecDeque<bool>,
    /// What the task files say after the sessions; then nothing.
    settled: VecDeque<TaskOutcome>,
    /// Every question to the task files: given, done, proven.
    asked: Vec<(Vec<String>, Vec<String>, bool)>,
    /// What git ignores.
    ignored: BTreeSet<PathBuf>,
    /// What the questions of the CLI were answered with, in order.
    answers: Vec<(String, Answer)>,
    states_opened: u32,
    work: Option<Work>,
    unrecordable: bool,
    launches: Vec<Launch>,
    stops: Vec<(Duration, StopStep)>,
    closed_inputs: u32,
    liveness_checks: u32,
    verified: u32,
    records: Vec<SessionClose>,
    published: Vec<RunEvent>,
    end: Option<(Duration, RunEnd)>,
}

impl World {
    fn new(limits: Limits) -> Self {
        Self::inheriting(limits, Inherited::default())
    }

    fn inheriting(limits: Limits, inherited: Inherited) -> Self {
        let ids = (0..Run::ids_needed(limits.max_sessions)).map(|n| format!("id-{n}")).collect();
        World {
            now: start_of_world(),
            oracle: Oracle::new(limits.max_sessions),
            run: Run::new(limits, ids, inherited),
            script: VecDeque::new(),
            agenda: BTreeMap::new(),
            order: 0,
            timers: BTreeMap::new(),
            transcripts: HashMap::new(),
            live: None,
            surveys: VecDeque::new(),
            sample: Sample::default(),
            others: Vec::new(),
            measure: secs(0),
            verifications: VecDeque::new(),
            settled: VecDeque::new(),
            asked: Vec::new(),
            ignored: BTreeSet::new(),
            answers: Vec::new(),
            states_opened: 0,
            work: Some(Work::default()),
            unrecordable: false,
            launches: Vec::new(),
            stops: Vec::new(),
            closed_inputs: 0,
            liveness_checks: 0,
            verified: 0,
            records: Vec::new(),
            published: Vec::new(),
            end: None,
        }
    }

    /// The attempts to come, in order; after them every attempt is [`done`].
    fn attempts(mut self, attempts: impl IntoIterator<Item = Attempt>) -> Self {
        self.script.extend(attempts);
        self
    }

    /// Lets something happen this long after the start.
    fn at(mut self, after: Duration, event: Event) -> Self {
        self.schedule(after, Happening::Event(Box::new(event)));
        self
    }

    fn stop_at(self, after: Duration, level: StopLevel) -> Self {
        self.at(after, Event::Stop { level, by: "SIGINT" })
    }

    /// The machine sleeps.
    fn suspend_at(mut self, after: Duration, asleep: Duration) -> Self {
        self.schedule(after, Happening::Suspend(asleep));
        self
    }

    /// The wall clock jumps.
    fn set_clock_at(mut self, after: Duration, seconds: i64) -> Self {
        self.schedule(after, Happening::SetClock(seconds));
        self
    }

    fn survey(mut self, survey: impl Into<Survey>) -> Self {
        self.surveys.push_back(survey.into());
        self
    }

    fn machine(mut self, available_gb: u64, peers: Option<u64>) -> Self {
        self.sample.host_available = Reading::Value(available_gb * resources::GB);
        self.sample.peers = peers.map_or(Reading::Absent, Reading::Value);
        self
    }

    fn schedule(&mut self, after: Duration, happening: Happening) {
        self.order += 1;
        self.agenda.insert((self.now.mono + after, self.order), happening);
    }

    /// Plays until the run is over.
    #[track_caller]
    fn play(mut self) -> Self {
        self.step(Event::Start);
        for _ in 0..100_000 {
            if self.end.is_some() && self.agenda.is_empty() {
                return self;
            }
            if !self.advance() {
                break;
            }
        }
        assert!(self.end.is_some(), "nothing is left to happen and the run is not over: {:#?}", self.run);
        self
    }

    /// The next thing happens; `false` when there is none.
    fn advance(&mut self) -> bool {
        let planned = self.agenda.keys().next().copied();
        let timer = self.timers.iter().map(|(kind, (_, due))| (due.left(self.now), *kind)).min();
        let planned_left = planned.map(|(at, _)| at.saturating_sub(self.now.mono));
        match (planned_left, timer) {
            (Some(left), Some((timer_left, _))) if left <= timer_left => self.happen(left, planned),
            (Some(left), None) => self.happen(left, planned),
            (_, Some((left, kind))) => {
                self.pass(left);
                if let Some((timer, _)) = self.timers.remove(&kind) {
                    self.step(Event::Timer(timer));
                }
            }
            (None, None) => return false,
        }
        true
    }

    fn happen(&mut self, left: Duration, key: Option<(Duration, u64)>) {
        self.pass(left);
        let Some(happening) = key.and_then(|key| self.agenda.remove(&key)) else { return };
        match happening {
            Happening::Event(event) => self.step(*event),
            Happening::Step(attempt, step) => self.play_step(attempt, step),
            Happening::SetClock(seconds) => {
                self.now.wall = self.now.wall.checked_add(SignedDuration::from_secs(seconds)).unwrap();
            }
            Happening::Suspend(asleep) => {
                self.pass(asleep);
                // As in the driver: what ran out meanwhile is on its way before the core hears of the sleep.
                let late: Vec<_> = self
                    .timers
                    .iter()
                    .filter(|(_, (_, due))| due.left(self.now).is_zero())
                    .map(|(kind, _)| *kind)
                    .collect();
                let late: Vec<_> = late.iter().filter_map(|kind| self.timers.remove(kind)).collect();
                self.step(Event::Suspended { asleep });
                for (timer, _) in late {
                    self.step(Event::Timer(timer));
                }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now.mono += time;
        self.now.wall = self.now.wall.checked_add(time).unwrap();
    }

    fn play_step(&mut self, attempt: u32, step: Step) {
        let Some(live) = self.live.as_mut().filter(|live| live.number == attempt) else { return };
        let transcript = |entry| {
            if live.script.writes { Some((live.session_id.clone(), entry)) } else { None }
        };
        let (entry, event) = match step {
            Step::Say(fact) => {
                let entry = match &*fact {
                    Fact::Initialised(_) => transcript(Entry { assistant: false, ends: false }),
                    Fact::Text { sub_agent: false, .. } | Fact::ToolStarted { sub_agent: false, .. } => {
                        transcript(Entry { assistant: true, ends: false })
                    }
                    _ => None,
                };
                if let Fact::Result(result) = &*fact {
                    live.failed = result.is_error;
                }
                (entry, Some(Event::Found { attempt, fact: *fact }))
            }
            Step::Land => (transcript(Entry { assistant: true, ends: true }), None),
            Step::Exit(end) => {
                self.live = None;
                (None, Some(Event::AttemptOver { attempt, end }))
            }
        };
        if let Some((id, entry)) = entry {
            self.transcripts.entry(id).or_default().push(entry);
        }
        if let Some(event) = event {
            self.step(event);
        }
    }

    fn step(&mut self, event: Event) {
        let mut pending = VecDeque::from([event]);
        while let Some(event) = pending.pop_front() {
            self.oracle.event(&event);
            for effect in self.run.step(self.now, event) {
                self.oracle.effect(&effect, self.run.running_attempt());
                self.carry_out(effect, &mut pending);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect, pending: &mut VecDeque<Event>) {
        match effect {
            Effect::Sample => {
                let peers = self.sample.peers.value().map(|peers| u32::try_from(*peers).unwrap());
                pending.push_back(Event::Sampled { verdict: resources::judge(&self.sample, 8), peers });
            }
            Effect::LookForPeers => pending.push_back(Event::PeersHere(self.peers_here())),
            Effect::Survey => {
                let prompt = Signals { prompt: true, ..Signals::default() };
                let survey = self.surveys.pop_front().unwrap_or_else(|| prompt.into());
                pending.push_back(Event::Surveyed(Box::new(survey)));
            }
            Effect::Snapshot => {
                self.schedule(Duration::from_millis(20), Happening::Event(Box::new(Event::Snapshotted)));
            }
            Effect::Inspect { session_id, offset } => {
                let digest = Box::new(self.digest(&session_id, offset.unwrap_or_default()));
                pending.push_back(Event::Inspected { session_id, digest });
            }
            Effect::Launch(launch) => self.launch(*launch),
            Effect::CloseInput { .. } => {
                self.closed_inputs += 1;
                if let Some(live) = self.live.as_ref().filter(|live| !live.script.lingers) {
                    let code = i32::from(live.failed);
                    self.exit_soon(Exit::Code(code));
                }
            }
            Effect::StopAttempt { step, .. } => {
                self.stops.push((self.now.mono, step));
                let Some(live) = &mut self.live else { return };
                match step {
                    StopStep::Interrupt => {
                        if let Some(answer) = live.script.on_interrupt.take() {
                            let number = live.number;
                            self.schedule(
                                Duration::from_millis(100),
                                Happening::Step(number, Step::Say(Box::new(answer))),
                            );
                        }
                    }
                    StopStep::Terminate => self.exit_soon(Exit::Code(143)),
                    StopStep::Kill => self.exit_soon(Exit::Signal(9)),
                }
            }
            Effect::Answer { request_id, answer, .. } => self.answers.push((request_id, answer)),
            Effect::AskGit { attempt, request_id, paths } => {
                let removable = paths
                    .into_iter()
                    .map(|path| {
                        let ignored = self.ignored.contains(&path);
                        (path, ignored)
                    })
                    .collect();
                pending.push_back(Event::GitSaid { attempt, request_id, removable });
            }
            Effect::CheckLiveness { attempt } => {
                self.liveness_checks += 1;
                let moved = self
                    .live
                    .as_ref()
                    .filter(|live| self.now.mono.saturating_sub(live.launched) < live.script.tools_until)
                    .map(|_| Duration::ZERO);
                pending.push_back(Event::Liveness { attempt, moved });
            }
            Effect::Arm { timer, after } => {
                self.timers.insert(timer.kind, (timer, Due::after(self.now, after)));
            }
            Effect::ArmAt { timer, at } => {
                self.timers.insert(timer.kind, (timer, Due::at(self.now, at)));
            }
            Effect::Measure { verify } => {
                self.verified += u32::from(verify);
                let verification = verify.then(|| Verification {
                    passed: self.verifications.pop_front().unwrap_or(true),
                    ended: "exit code".to_owned(),
                    tail: String::new(),
                });
                let event = Event::Measured { work: self.work.clone(), verification };
                self.schedule(self.measure, Happening::Event(Box::new(event)));
            }
            Effect::SettleTasks { given, done, proven, .. } => {
                self.asked.push((given, done, proven));
                pending.push_back(Event::TasksSettled(self.settled.pop_front()));
            }
            Effect::OpenSession { .. } => self.states_opened += 1,
            Effect::RecordSession(close) => {
                self.records.push(*close);
                let result =
                    if self.unrecordable { Err("no space left on device".to_owned()) } else { Ok(()) };
                pending.push_back(Event::Recorded(result));
            }
            Effect::Publish(event) => self.published.push(*event),
            Effect::Finish(end) => self.end = Some((self.now.mono, *end)),
        }
    }

    fn exit_soon(&mut self, exit: Exit) {
        let Some(number) = self.live.as_ref().map(|live| live.number) else { return };
        let end = Box::new(AttemptEnd { exit: Some(exit), ..AttemptEnd::default() });
        self.schedule(Duration::from_millis(50), Happening::Step(number, Step::Exit(end)));
    }

    fn launch(&mut self, launch: Launch) {
        let mut script = self.script.pop_front().unwrap_or_else(done);
        for (after, step) in std::mem::take(&mut script.steps) {
            self.schedule(after, Happening::Step(launch.attempt, step));
        }
        self.live = Some(Live {
            number: launch.attempt,
            launched: self.now.mono,
            session_id: launch.session_id.clone(),
            script,
            failed: false,
        });
        self.launches.push(launch);
    }

    fn digest(&self, session_id: &str, offset: u64) -> TranscriptDigest {
        let Some(entries) = self.transcripts.get(session_id) else {
            return TranscriptDigest { growth: Growth::of(0, offset), ..TranscriptDigest::default() };
        };
        let size = entries.len() as u64 * ENTRY;
        let after = entries.iter().skip(usize::try_from(offset / ENTRY).unwrap());
        let assistant = after.clone().filter(|entry| entry.assistant).count() as u64;
        let ended = entries.last().is_some_and(|entry| entry.ends);
        TranscriptDigest {
            exists: true,
            size,
            growth: Growth::of(size, offset),
            resumable: if entries.is_empty() { Resumable::No } else { Resumable::Yes },
            turn_over: if ended {
                TurnOver::Over { by: Ended::StopReason("end_turn".to_owned()) }
            } else {
                TurnOver::NoMessage
            },
            reply: (ended && assistant > 0).then(|| Excerpt::new("the reply", 100)),
            after: Tally {
                assistant,
                prompts: after.count() as u64 - assistant,
                exact: true,
                ..Tally::default()
            },
            ..TranscriptDigest::default()
        }
    }

    fn end(&self) -> &RunEnd {
        &self.end.as_ref().unwrap().1
    }

    /// Which switch, after how many iterations, with which words.
    #[track_caller]
    fn ended(&self, switch: Option<KillSwitch>, iterations: u32, words: &str) {
        let end = self.end();
        let detail = end.detail.clone().unwrap_or_default();
        assert_eq!((end.kill_switch, end.iterations), (switch, iterations), "{detail}");
        assert!(detail.contains(words), "{detail:?} does not say {words:?}");
    }

    /// The class of every attempt, in order.
    fn classes(&self) -> Vec<Class> {
        self.published
            .iter()
            .filter_map(|event| match event {
                RunEvent::OutcomeJudged { class, .. } => Some(*class),
                _ => None,
            })
            .collect()
    }

    /// Seconds from the start to the end.
    fn elapsed(&self) -> u64 {
        self.end.as_ref().unwrap().0.saturating_sub(start_of_world().mono).as_secs()
    }

    /// The moments at which an attempt was stopped, and how, in seconds from the start.
    fn stopped(&self) -> Vec<(u64, StopStep)> {
        self.stops
            .iter()
            .map(|(at, step)| (at.saturating_sub(start_of_world().mono).as_secs(), *step))
            .collect()
    }
}
