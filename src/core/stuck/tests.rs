//! Circles and what only looks like one.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::core::fact::ApiRetry;

/// A session told call by call; a second passes between two facts.
struct Session {
    watch: Watch,
    now: Now,
    calls: u32,
    found: Option<Stuck>,
    /// After how many calls it was found.
    after: u32,
}

impl Session {
    fn new() -> Self {
        Self::watched(Watch::new(false))
    }

    fn watched(watch: Watch) -> Self {
        let now = Now { mono: Duration::from_secs(1000), wall: jiff::Timestamp::UNIX_EPOCH };
        Session { watch, now, calls: 0, found: None, after: 0 }
    }

    fn say(&mut self, fact: &Fact) -> &mut Self {
        self.now.mono += Duration::from_secs(1);
        if let Some(stuck) = self.watch.observe(self.now, fact) {
            self.found.get_or_insert(stuck);
            if self.after == 0 {
                self.after = self.calls;
            }
        }
        self
    }

    fn pause(&mut self, seconds: u64) -> &mut Self {
        self.now.mono += Duration::from_secs(seconds);
        self
    }

    fn begin(&mut self, agent: Option<&str>, name: &str, input: &Value) -> String {
        self.calls += 1;
        let id = format!("toolu_{}", self.calls);
        let summary = input["command"].as_str().or_else(|| input["file_path"].as_str()).unwrap_or_default();
        let call = Call::new(Some(id.clone()), agent.map(str::to_owned), name, input, true);
        let (name, summary) = (name.to_owned(), summary.to_owned());
        self.say(&Fact::ToolStarted { name, summary, sub_agent: agent.is_some(), call });
        id
    }

    fn end(&mut self, agent: Option<&str>, id: String, is_error: bool, text: &str) -> &mut Self {
        let outcome = Outcome::new(Some(id), agent.map(str::to_owned), text, false);
        self.say(&Fact::ToolEnded { is_error, sub_agent: agent.is_some(), outcome })
    }

    fn call_by(
        &mut self,
        agent: Option<&str>,
        name: &str,
        input: &Value,
        is_error: bool,
        text: &str,
    ) -> &mut Self {
        let id = self.begin(agent, name, input);
        self.end(agent, id, is_error, text)
    }

    fn fails(&mut self, command: &str, error: &str) -> &mut Self {
        self.call_by(None, "Bash", &json!({"command": command}), true, error)
    }

    fn runs(&mut self, command: &str, output: &str) -> &mut Self {
        self.call_by(None, "Bash", &json!({"command": command}), false, output)
    }

    fn reads(&mut self, file: &str) -> &mut Self {
        self.call_by(None, "Read", &json!({"file_path": file}), false, "text")
    }

    fn writes(&mut self, file: &str, text: &str) -> &mut Self {
        self.call_by(None, "Write", &json!({"file_path": file, "content": text}), false, "written")
    }

    fn denied(&mut self, command: &str) -> &mut Self {
        let id = self.begin(None, "Bash", &json!({"command": command}));
        self.say(&Fact::Denied { tool: "Bash".to_owned(), id: Some(id.clone()) });
        self.end(None, id, true, "denied")
    }

    fn play(&mut self, calls: Vec<(u8, bool)>) {
        for call in calls {
            play(self, call);
        }
    }

    #[track_caller]
    fn is(&self, kind: Option<Kind>, after: u32, words: &str) -> &Self {
        let found = self.found.as_ref();
        assert_eq!((found.map(|stuck| stuck.kind), self.after), (kind, after), "{found:?}");
        let why = found.map(|stuck| stuck.why.as_str()).unwrap_or_default();
        assert!(why.contains(words), "{why:?} does not say {words:?}");
        self
    }
}

fn told(tell: impl FnOnce(&mut Session)) -> Session {
    let mut session = Session::new();
    tell(&mut session);
    session
}

fn times(count: u32, mut step: impl FnMut(&mut Session)) -> Session {
    told(|session| (0..count).for_each(|_| step(session)))
}

#[test]
fn the_same_failure() {
    let stuck = times(9, |session| {
        session.fails("make", "No rule to make target (0.1s)");
    });
    stuck.is(Some(Kind::SameFailure), 5, "`Bash: make` failed 5 times in a row in the same way");
    assert_eq!(stuck.found.unwrap().evidence, ["Bash: make → failed: No rule to make target (0.1s)"]);
    // Durations differ and are no difference.
    let mut seconds = 0;
    let timed = times(5, |session| {
        seconds += 1;
        session.fails("make", &format!("failed after {seconds}.5s"));
    });
    timed.is(Some(Kind::SameFailure), 5, "");
    times(4, |session| {
        session.fails("make", "x");
    })
    .is(None, 0, "");
    // Another error, or another command in between, is something else.
    let mut line = 0;
    let other_errors = times(20, |session| {
        line += 1;
        session.fails("make", &format!("error in line {line}"));
    });
    other_errors.is(None, 0, "");
    // The same thing tried in another way each time.
    let mut way = 0;
    let other_ways = times(20, |session| {
        way += 1;
        session.fails(&format!("make -j{way}"), "x");
    });
    other_ways.is(None, 0, "");
}

#[test]
fn looking_again_is_no_circle_at_once() {
    let poll = |session: &mut Session| {
        session.runs("gh run view 1", "in progress");
    };
    times(5, poll).is(None, 0, "");
    times(6, poll).is(Some(Kind::Pattern), 6, "came 6 times in a row with the same outcome");
    let mut part = 0;
    let moving = times(40, |session| {
        part += 1;
        session.runs("gh run view 1", &format!("{part} of 40 steps"));
    });
    moving.is(None, 0, "");
}

#[test]
fn a_pattern_of_every_length() {
    for length in 2..=LONGEST_PATTERN {
        let mut at = 0;
        let session = times(60, |session| {
            at = (at + 1) % length;
            if at == 0 {
                session.fails("make", "error");
            } else {
                session.reads(&format!("src/{at}.rs"));
            }
        });
        let after = u32::try_from(length * PATTERN_TIMES).unwrap();
        session.is(Some(Kind::Pattern), after, &format!("the same {length} tool calls came 4 times"));
        assert_eq!(session.found.unwrap().evidence.len(), length);
    }
    // A longer round is not looked for.
    let mut at = 0;
    times(59, |session| {
        at = (at + 1) % (LONGEST_PATTERN + 1);
        session.reads(&format!("src/{at}.rs"));
    })
    .is(None, 0, "");
}

#[test]
fn what_gets_something_done_is_no_circle() {
    // The test fails the same way each time, but the code changes in between.
    let mut version = 0;
    times(40, |session| {
        version += 1;
        session.writes("src/a.rs", &format!("version {version}")).fails("cargo test", "1 failed");
    })
    .is(None, 0, "");
    // Writing the same again and again is none.
    times(40, |session| {
        session.writes("src/a.rs", "the same").fails("cargo test", "1 failed");
    })
    .is(Some(Kind::Pattern), 9, "");
    // A test that says something new is; one that only goes to and fro is not.
    let mut left = 100;
    times(15, |session| {
        left -= 1;
        session.reads("a").reads("b").fails("cargo test", &format!("{left} failed"));
    })
    .is(None, 0, "");
    let mut run = 0;
    times(60, |session| {
        run += 1;
        session.fails("cargo test", &format!("{} failed", run % 2));
    })
    .is(Some(Kind::Pattern), 10, "");
    // A commit that is one.
    times(40, |session| {
        session.runs("git commit -qam wip", "").reads("a");
    })
    .is(None, 0, "");
    times(40, |session| {
        session.runs("git commit -qam wip || true", "nothing to commit, working tree clean");
    })
    .is(Some(Kind::Pattern), 6, "");
    times(40, |session| {
        session.fails("git commit -qam wip", "hook failed");
    })
    .is(Some(Kind::SameFailure), 5, "");
}

#[test]
fn ticking_tasks_counts_as_long_as_there_are_more() {
    let todos = |done: usize| {
        let list = |at| json!({"status": if at < done { "completed" } else { "pending" }});
        json!({"todos": (0..30).map(list).collect::<Vec<Value>>()})
    };
    let mut done = 0;
    times(30, |session| {
        done += 1;
        session.call_by(None, "TodoWrite", &todos(done), false, "ok");
    })
    .is(None, 0, "");
    let mut turn = 0;
    times(30, |session| {
        turn += 1;
        session.call_by(None, "TodoWrite", &todos(1 + turn % 2), false, "ok");
    })
    .is(Some(Kind::Pattern), 9, "");
}

#[test]
fn refusals() {
    let mut which = 0;
    let mut denied = |session: &mut Session| {
        which += 1;
        session.denied(&format!("rm -r {which}"));
    };
    let session = told(|session| {
        for _ in 0..5 {
            denied(session);
            session.reads("other");
            session.runs("ls", &format!("{}", session.calls));
        }
    });
    session.is(Some(Kind::Denials), 13, "5 tool calls were denied and nothing got done between them");
    assert_eq!(session.found.unwrap().evidence[0], "Bash: rm -r 1 → denied");
    // Five with work between them are a narrow permission, no circle.
    told(|session| {
        for at in 0..20 {
            session.denied(&format!("rm -r {at}")).writes("a", &format!("{at}"));
        }
    })
    .is(None, 0, "");
    // A denial that names no call, and one that only the result tells.
    told(|session| {
        for _ in 0..5 {
            session.say(&Fact::Denied { tool: "Write".to_owned(), id: None });
        }
    })
    .is(Some(Kind::Denials), 0, "");
    told(|session| {
        for at in 0..5 {
            let id = session.begin(None, "Write", &json!({"file_path": "a", "content": at}));
            let outcome = Outcome::new(Some(id), None, "no", true);
            session.say(&Fact::ToolEnded { is_error: true, sub_agent: false, outcome });
        }
    })
    .is(Some(Kind::Denials), 5, "");
}

#[test]
fn a_long_time_and_many_calls_with_nothing_to_show() {
    let mut file = 0;
    let look = |seconds| {
        move |session: &mut Session| {
            session.pause(seconds);
            session.reads(&format!("src/{}.rs", session.calls));
        }
    };
    times(61, look(30)).is(Some(Kind::NoProgress), 60, "60 tool calls in 31 min changed nothing");
    // Many calls in a short time, few calls in a long time: a long look around, long builds.
    times(300, look(1)).is(None, 0, "");
    times(59, look(600)).is(None, 0, "");
    // The clock begins with the first call: what the model thought before is not counted.
    told(|session| {
        session.pause(7200);
        (0..60).for_each(|_| look(2)(session));
    })
    .is(None, 0, "");
    // Something done now and then is enough.
    times(200, |session| {
        file += 1;
        look(30)(session);
        if file % 50 == 0 {
            session.writes("notes.md", &format!("{file}"));
        }
    })
    .is(None, 0, "");
    // A session that is not to change anything does not; a sleep of the machine is no time.
    let mut reader = Session::watched(Watch::new(true));
    (0..200).for_each(|_| look(30)(&mut reader));
    reader.is(None, 0, "");
    told(|session| {
        (0..59).for_each(|_| look(1)(session));
        session.pause(36_000).watch.slept(Duration::from_hours(10));
        (0..20).for_each(|_| look(1)(session));
    })
    .is(None, 0, "");
}

#[test]
fn a_long_build_is_no_circle() {
    told(|session| {
        session.reads("a");
        let id = session.begin(None, "Bash", &json!({"command": "make world"}));
        for _ in 0..1200 {
            session.say(&Fact::Heartbeat);
            session.say(&Fact::ApiRetry(ApiRetry::default()));
            session.say(&Fact::Text { text: "Still building".to_owned(), sub_agent: false });
        }
        session.end(None, id, false, "built");
    })
    .is(None, 0, "");
}

#[test]
fn signs_of_life_are_no_progress() {
    let mut session = Session::new();
    for _ in 0..5 {
        session.fails("make", "x");
        for fact in [
            Fact::Heartbeat,
            Fact::Text { text: "Let me try again.\nNow.".to_owned(), sub_agent: false },
            Fact::Text { text: "sub".to_owned(), sub_agent: true },
            Fact::TaskStarted { id: "t".to_owned(), agent: true, call: None },
            Fact::TaskEnded { id: "t".to_owned(), status: "completed".to_owned() },
            Fact::ApiRetry(ApiRetry::default()),
            Fact::Anomaly { kind: "not_json", sample: String::new() },
        ] {
            session.say(&fact);
        }
    }
    session.is(Some(Kind::SameFailure), 5, "");
    assert_eq!(session.watch.progress(), 0);
    assert_eq!(session.found.unwrap().evidence[1], "its last words: Let me try again.");
}

#[test]
fn sub_agents_are_judged_on_their_own() {
    let make = json!({"command": "make"});
    // Four times each: nobody is in a circle.
    told(|session| {
        for _ in 0..4 {
            for agent in [None, Some("a"), Some("b")] {
                session.call_by(agent, "Bash", &make, true, "x");
            }
        }
    })
    .is(None, 0, "");
    // The work of one does not hide the circle of the other.
    told(|session| {
        for at in 0..5 {
            session.call_by(Some("a"), "Bash", &make, true, "x");
            session.call_by(Some("b"), "Write", &json!({"file_path": "f", "content": at}), false, "");
        }
    })
    .is(Some(Kind::SameFailure), 9, "a sub-agent: `Bash: make` failed 5 times");
    // Who directs sub-agents that work is not idle.
    told(|session| {
        for at in 0..200 {
            session.pause(30).reads(&format!("{at}"));
            if at % 20 == 0 {
                session.call_by(Some("a"), "Write", &json!({"file_path": "f", "content": at}), false, "");
            }
        }
    })
    .is(None, 0, "");
}

#[test]
fn calls_at_the_same_time_are_told_apart() {
    told(|session| {
        for at in 0..5 {
            let make = session.begin(None, "Bash", &json!({"command": "make"}));
            let write = session.begin(None, "Write", &json!({"file_path": "f", "content": at}));
            session.end(None, write, false, "").end(None, make, true, "x");
        }
    })
    .is(None, 0, "");
    // Without ids the results come in the order of the calls.
    let mut session = Session::new();
    for _ in 0..5 {
        let call = Call { id: None, ..Call::new(None, None, "Bash", &json!({"command": "make"}), true) };
        session.say(&Fact::ToolStarted {
            name: "Bash".to_owned(),
            summary: String::new(),
            sub_agent: false,
            call,
        });
        session.say(&Fact::ToolEnded {
            is_error: true,
            sub_agent: false,
            outcome: Outcome::new(None, None, "x", false),
        });
    }
    assert_eq!(session.found.unwrap().kind, Kind::SameFailure);
    // A result of a call that was never seen is nothing.
    let mut session = Session::new();
    session.end(None, "toolu_unknown".to_owned(), true, "x");
    session.is(None, 0, "");
}

#[test]
fn a_circle_is_told_once_and_an_attempt_begins_anew() {
    let mut session = Session::new();
    let mut told = Vec::new();
    for at in 1..=15 {
        session.found = None;
        session.fails("make", "x");
        told.extend(session.found.take().map(|_| at));
    }
    assert_eq!(told, [5, 10, 15]);
    let mut session = Session::new();
    for _ in 0..5 {
        (0..4).for_each(|_| {
            session.fails("make", "x");
        });
        session.watch.begin_attempt();
    }
    session.is(None, 0, "");
    // What was written stays known: the same again is no progress in the next attempt either.
    let mut session = Session::new();
    session.writes("a", "x").watch.begin_attempt();
    session.writes("a", "x");
    assert_eq!(session.watch.progress(), 1);
}

#[test]
fn memory_is_bounded() {
    let mut session = Session::new();
    for at in 0..WRITTEN + 100 {
        let agent = format!("agent {at}");
        session.begin(Some(&agent), "Bash", &json!({"command": format!("sleep {at}")}));
        session.call_by(Some(&agent), "Write", &json!({"file_path": "f", "content": at}), false, "");
        session.fails(&format!("cargo test {at}"), &"x".repeat(LINE + 1));
    }
    session.is(None, 0, "");
    let watch = &session.watch;
    assert!(watch.threads.len() <= THREADS && watch.pending.len() <= PENDING && watch.tests.len() <= TESTS);
    assert_eq!((watch.written.len(), watch.written_order.len()), (WRITTEN, WRITTEN));
    assert!(watch.threads.iter().flat_map(|thread| &thread.done).all(|done| done.words.len() <= LINE + 3));
}

/// A call that is drawn: which, and whether it fails.
fn drawn() -> impl Strategy<Value = (u8, bool)> {
    (0..6_u8, any::<bool>())
}

fn play(session: &mut Session, (which, is_error): (u8, bool)) {
    let (name, input) = match which {
        0 => ("Bash", json!({"command": "make"})),
        1 => ("Read", json!({"file_path": "a"})),
        2 => ("Bash", json!({"command": "cargo test"})),
        3 => ("Grep", json!({"pattern": "x"})),
        4 => ("Write", json!({"file_path": "same", "content": "same"})),
        _ => ("Bash", json!({"command": "ls"})),
    };
    session.call_by(None, name, &input, is_error, if is_error { "error" } else { "fine" });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// With something done after every few calls there is no circle, whatever the calls are.
    #[test]
    fn a_stream_that_gets_on_is_never_stopped(
        rounds in prop::collection::vec((prop::collection::vec(drawn(), 0..4), 0..900_u64), 1..80),
    ) {
        let mut session = Session::new();
        for (at, (calls, pause)) in rounds.into_iter().enumerate() {
            session.pause(pause);
            session.play(calls);
            session.writes("a", &format!("version {at}"));
        }
        prop_assert!(session.found.is_none(), "{:?}", session.found);
    }

    /// Whatever is repeated, it is noticed in time, and whatever came before.
    #[test]
    fn every_repetition_is_noticed(
        before in prop::collection::vec(drawn(), 0..12),
        round in prop::collection::vec(drawn(), 1..=LONGEST_PATTERN),
    ) {
        let mut session = Session::new();
        session.play(before);
        // What a first run of a test or a first write says is said.
        session.play(round.clone());
        session.play(round.clone());
        session.found = None;
        for _ in 0..=SAME_CALLS.max(PATTERN_TIMES) {
            session.play(round.clone());
        }
        prop_assert!(session.found.is_some());
    }
}
