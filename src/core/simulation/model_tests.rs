//! Random events in random order: late, doubled, for attempts that never were. The oracle must stay silent.

use proptest::prelude::*;

use super::script::{failed, good, out_of_turns, reported};
use super::*;
use crate::core::evidence::LaunchFailure;
use crate::core::published::Tokens;
use crate::core::stuck::call::Call;

/// An event as it is drawn; which attempt and which timer it is for is said relative to what is known then.
#[derive(Debug, Clone, Copy)]
enum Drawn {
    Sampled {
        critical: bool,
    },
    PeersHere {
        some: bool,
    },
    Surveyed {
        prompt: bool,
    },
    Snapshotted,
    Inspected {
        mine: bool,
        shape: u8,
    },
    Spawned {
        age: u32,
    },
    Found {
        age: u32,
        fact: u8,
        amount: u64,
    },
    Over {
        age: u32,
        how: u8,
    },
    Liveness {
        age: u32,
        moved: bool,
    },
    Timer {
        kind: usize,
        age: u64,
    },
    /// A timer that really is armed runs out.
    Due {
        nth: usize,
    },
    Measured,
    Recorded {
        ok: bool,
    },
    Stop {
        level: u8,
    },
    Suspended {
        seconds: u64,
    },
    JournalFailed,
    Start,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let age = || prop_oneof![6 => Just(0_u32), 1 => 1..4_u32];
    prop_oneof![
        3 => any::<bool>().prop_map(|critical| Drawn::Sampled { critical }),
        3 => prop::bool::weighted(0.3).prop_map(|some| Drawn::PeersHere { some }),
        3 => prop::bool::weighted(0.9).prop_map(|prompt| Drawn::Surveyed { prompt }),
        3 => Just(Drawn::Snapshotted),
        8 => (prop::bool::weighted(0.9), 0..6_u8).prop_map(|(mine, shape)| Drawn::Inspected { mine, shape }),
        1 => age().prop_map(|age| Drawn::Spawned { age }),
        12 => (age(), 0..19_u8, 0..9_000_u64)
            .prop_map(|(age, fact, amount)| Drawn::Found { age, fact, amount }),
        6 => (age(), 0..8_u8).prop_map(|(age, how)| Drawn::Over { age, how }),
        2 => (age(), any::<bool>()).prop_map(|(age, moved)| Drawn::Liveness { age, moved }),
        2 => (0..8_usize, 0..4_u64).prop_map(|(kind, age)| Drawn::Timer { kind, age }),
        8 => (0..8_usize).prop_map(|nth| Drawn::Due { nth }),
        4 => Just(Drawn::Measured),
        4 => prop::bool::weighted(0.95).prop_map(|ok| Drawn::Recorded { ok }),
        1 => (0..3_u8).prop_map(|level| Drawn::Stop { level }),
        1 => (0..40_000_u64).prop_map(|seconds| Drawn::Suspended { seconds }),
        1 => prop::bool::weighted(0.2).prop_map(|fails| if fails { Drawn::JournalFailed } else { Drawn::Start }),
    ]
}

/// The core, its oracle, and what a driver would know.
struct Harness {
    run: Run,
    oracle: Oracle,
    now: Now,
    armed: BTreeMap<TimerKind, (TimerId, Due)>,
    /// The attempt launched last, and the conversation asked for last.
    attempt: u32,
    session_id: String,
    finished: bool,
}

const KINDS: [TimerKind; 9] = [
    TimerKind::FirstOutput,
    TimerKind::Stall,
    TimerKind::Turn,
    TimerKind::ExitGrace,
    TimerKind::InterruptGrace,
    TimerKind::Backoff,
    TimerKind::LimitReset,
    TimerKind::PeerPoll,
    TimerKind::Deadline,
];

impl Harness {
    fn new(max_sessions: u32) -> Self {
        let deadline = Some(Duration::from_hours(2));
        let limits = Limits { max_sessions, verify: true, max_cost_usd: Some(1.0), deadline, ..limits() };
        let ids = (0..Run::ids_needed(max_sessions)).map(|n| format!("id-{n}")).collect();
        Harness {
            run: Run::new(limits, ids, Inherited::default()),
            oracle: Oracle::new(max_sessions),
            now: start_of_world(),
            armed: BTreeMap::new(),
            attempt: 0,
            session_id: String::new(),
            finished: false,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now.mono += time;
        self.now.wall = self.now.wall.checked_add(time).unwrap();
    }

    /// The effects of an event, without the published ones.
    fn step(&mut self, event: Event) -> Vec<Effect> {
        self.oracle.event(&event);
        let mut wants = Vec::new();
        for effect in self.run.step(self.now, event) {
            self.oracle.effect(&effect, self.run.running_attempt());
            match &effect {
                Effect::Launch(launch) => self.attempt = launch.attempt,
                Effect::Inspect { session_id, .. } => self.session_id.clone_from(session_id),
                Effect::Arm { timer, after } => {
                    self.armed.insert(timer.kind, (*timer, Due::after(self.now, *after)));
                }
                Effect::ArmAt { timer, at } => {
                    self.armed.insert(timer.kind, (*timer, Due::at(self.now, *at)));
                }
                Effect::Finish(_) => self.finished = true,
                _ => {}
            }
            if !matches!(effect, Effect::Publish(_)) {
                wants.push(effect);
            }
        }
        wants
    }

    fn event(&mut self, drawn: Drawn) -> Event {
        let of = |age: u32, attempt: u32| attempt.wrapping_sub(age);
        match drawn {
            Drawn::Sampled { critical } => sampled(critical),
            Drawn::PeersHere { some } => Event::PeersHere(
                some.then_some(PeerSession { pid: 77, age_seconds: 60 }).into_iter().collect(),
            ),
            Drawn::Surveyed { prompt } => {
                Event::Surveyed(Box::new(Signals { prompt, ..Signals::default() }.into()))
            }
            Drawn::Snapshotted => Event::Snapshotted,
            Drawn::Inspected { mine, shape } => Event::Inspected {
                session_id: if mine { self.session_id.clone() } else { "stranger".to_owned() },
                digest: Box::new(digest(shape)),
            },
            Drawn::Spawned { age } => Event::Spawned { attempt: of(age, self.attempt), pid: 7 },
            Drawn::Found { age, fact: which, amount } => {
                Event::Found { attempt: of(age, self.attempt), fact: fact(which, amount, self.now) }
            }
            Drawn::Over { age, how } => {
                Event::AttemptOver { attempt: of(age, self.attempt), end: Box::new(end_of_attempt(how)) }
            }
            Drawn::Liveness { age, moved } => {
                Event::Liveness { attempt: of(age, self.attempt), moved: moved.then_some(Duration::ZERO) }
            }
            Drawn::Timer { kind, age } => {
                let known = self.armed.values().map(|(timer, _)| timer.epoch).max().unwrap_or_default();
                Event::Timer(TimerId { kind: KINDS[kind], epoch: known.wrapping_sub(age) })
            }
            Drawn::Due { nth } => {
                let kind = self.armed.keys().nth(nth % self.armed.len().max(1)).copied();
                match kind.and_then(|kind| self.armed.remove(&kind)) {
                    Some((timer, due)) => {
                        self.pass(due.left(self.now));
                        Event::Timer(timer)
                    }
                    None => Event::Start,
                }
            }
            Drawn::Measured => Event::Measured { work: None, verification: None },
            Drawn::Recorded { ok } => Event::Recorded(if ok { Ok(()) } else { Err("full".to_owned()) }),
            Drawn::Stop { level } => Event::Stop {
                level: [StopLevel::Finish, StopLevel::Interrupt, StopLevel::Kill][usize::from(level)],
                by: "SIGINT",
            },
            Drawn::Suspended { seconds } => {
                self.pass(secs(seconds));
                Event::Suspended { asleep: secs(seconds) }
            }
            Drawn::JournalFailed => Event::JournalFailed("full".to_owned()),
            Drawn::Start => Event::Start,
        }
    }

    /// From here on everything is answered as a healthy world would, and attempts end: the run has to end.
    fn wind_down(&mut self, unanswered: Vec<Effect>) {
        // Answers that were asked for and drawn away are given once more; doubles have no effect.
        let mut pending: VecDeque<Event> = VecDeque::from([
            Event::Start,
            sampled(false),
            Event::PeersHere(Vec::new()),
            Event::Surveyed(Box::new(Signals { prompt: true, ..Signals::default() }.into())),
            Event::Snapshotted,
            Event::Inspected { session_id: self.session_id.clone(), digest: Box::new(digest(0)) },
            Event::Measured { work: None, verification: None },
            Event::Recorded(Ok(())),
        ]);
        pending.extend(unanswered.into_iter().filter_map(|effect| Self::answer(&effect)));
        for _ in 0..5_000 {
            if self.finished {
                break;
            }
            let event = pending.pop_front().or_else(|| {
                let attempt = self.oracle.live()?;
                Some(Event::AttemptOver { attempt, end: Box::new(end_of_attempt(0)) })
            });
            let event = event.unwrap_or_else(|| self.event(Drawn::Due { nth: 0 }));
            let wants = self.step(event);
            pending.extend(wants.iter().filter_map(Self::answer).collect::<Vec<_>>());
        }
        assert!(self.finished, "the run does not end: {:#?}", self.run);
        assert!(self.run.is_over());
    }

    fn answer(effect: &Effect) -> Option<Event> {
        Some(match effect {
            Effect::Sample => sampled(false),
            Effect::LookForPeers => Event::PeersHere(Vec::new()),
            Effect::Survey => {
                Event::Surveyed(Box::new(Signals { prompt: true, ..Signals::default() }.into()))
            }
            Effect::Snapshot => Event::Snapshotted,
            Effect::Inspect { session_id, .. } => {
                Event::Inspected { session_id: session_id.clone(), digest: Box::new(digest(1)) }
            }
            Effect::CheckLiveness { attempt } => Event::Liveness { attempt: *attempt, moved: None },
            Effect::Measure { .. } => Event::Measured { work: None, verification: None },
            Effect::RecordSession(_) => Event::Recorded(Ok(())),
            _ => return None,
        })
    }
}

fn sampled(critical: bool) -> Event {
    let mut sample = Sample::default();
    if critical {
        sample.host_available = Reading::Value(1);
    }
    Event::Sampled { verdict: resources::judge(&sample, 8), peers: Some(u32::from(critical)) }
}

fn digest(shape: u8) -> TranscriptDigest {
    let known = TranscriptDigest {
        exists: true,
        size: 900,
        resumable: Resumable::Yes,
        ..TranscriptDigest::default()
    };
    match shape {
        0 => TranscriptDigest::default(),
        1 => known,
        2 => TranscriptDigest {
            growth: Growth::Grown { by: 300 },
            after: Tally { assistant: 2, exact: true, ..Tally::default() },
            ..known
        },
        3 => TranscriptDigest {
            growth: Growth::Grown { by: 300 },
            turn_over: TurnOver::Over { by: Ended::Text },
            reply: Some(Excerpt::new("reply", 10)),
            ..known
        },
        4 => TranscriptDigest { growth: Growth::Shrunk { by: 100 }, ..known },
        _ => TranscriptDigest { resumable: Resumable::Unknown, ..known },
    }
}

fn fact(which: u8, amount: u64, now: Now) -> Fact {
    let tokens = Tokens { output: amount, input: amount / 2, ..Tokens::default() };
    let result = |result| Fact::Result(Box::new(result));
    match which {
        0 => Fact::Initialised(super::super::fact::Initialised::default()),
        1 => Fact::Text { text: "x".to_owned(), sub_agent: amount.is_multiple_of(2) },
        2 => Fact::ToolStarted {
            name: "Bash".to_owned(),
            summary: String::new(),
            sub_agent: false,
            call: Call::default(),
        },
        3 => Fact::Usage { message_id: format!("m{}", amount % 3), tokens },
        4 => Fact::TaskStarted { id: format!("t{}", amount % 2), agent: true, call: None },
        5 => Fact::TaskEnded { id: format!("t{}", amount % 2), status: "completed".to_owned() },
        6 => result(good()),
        7 => result(reported("partial")),
        8 => result(script::costing(reported("partial"), amount, 0.1)),
        9 => result(failed(Some(529), "Overloaded")),
        10 => result(failed(Some(400), "broken")),
        11 => result(out_of_turns()),
        12 => Fact::Anomaly { kind: "not_json", sample: String::new() },
        13 => result(failed(None, "Prompt is too long")),
        14 => Fact::RateLimit(super::super::fact::RateLimit {
            status: if amount.is_multiple_of(2) { "rejected" } else { "allowed" }.to_owned(),
            window: None,
            resets_at: now.wall.checked_add(secs(amount)).ok(),
            utilization: None,
            ..super::super::fact::RateLimit::default()
        }),
        // Often enough to be a circle now and then.
        16.. => Fact::Denied { tool: "Bash".to_owned(), id: None },
        _ => Fact::ApiRetry(super::super::fact::ApiRetry {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            delay_ms: if amount == 0 { f64::NAN } else { amount as f64 - 10.0 },
            ..super::super::fact::ApiRetry::default()
        }),
    }
}

fn end_of_attempt(how: u8) -> AttemptEnd {
    let exit = |exit| AttemptEnd { exit: Some(exit), ..AttemptEnd::default() };
    match how {
        0 => exit(Exit::Code(0)),
        1 => exit(Exit::Code(1)),
        2 => exit(Exit::Signal(9)),
        3 => AttemptEnd { handshake_failed: true, ..exit(Exit::Code(143)) },
        4 => AttemptEnd {
            launch_failure: Some((LaunchFailure::Other, "odd".to_owned())),
            ..AttemptEnd::default()
        },
        5 => AttemptEnd {
            stderr_tail: "Error: Session ID x is already in use.".to_owned(),
            ..exit(Exit::Code(1))
        },
        6 => AttemptEnd { background_ceiling: true, ..exit(Exit::Code(0)) },
        _ => AttemptEnd::default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_events_breaks_a_run(
        max_sessions in 1..4_u32,
        pauses in prop::collection::vec(0..400_u64, 120),
        events in prop::collection::vec(drawn(), 0..120),
    ) {
        let mut harness = Harness::new(max_sessions);
        let mut unanswered = harness.step(Event::Start);
        for (drawn, pause) in events.into_iter().zip(pauses) {
            harness.pass(secs(pause));
            let event = harness.event(drawn);
            let wants = harness.step(event);
            unanswered.extend(wants);
        }
        harness.wind_down(unanswered);
    }

    /// The same with a driver that answers what it is asked, so that runs get far: attempts say and do anything.
    #[test]
    fn a_driver_that_answers_gets_every_run_to_its_end(
        max_sessions in 1..4_u32,
        events in prop::collection::vec(drawn(), 0..250),
    ) {
        let mut harness = Harness::new(max_sessions);
        let mut pending: VecDeque<Event> = VecDeque::from([Event::Start]);
        let mut events = events.into_iter();
        while let Some(event) = pending.pop_front().or_else(|| events.next().map(|drawn| harness.event(drawn))) {
            harness.pass(secs(1));
            let wants = harness.step(event);
            pending.extend(wants.iter().filter_map(Harness::answer).collect::<Vec<_>>());
        }
        harness.wind_down(Vec::new());
    }
}
