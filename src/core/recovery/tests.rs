//! The table of recovery §1.9, and what each class uses up.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::*;
use crate::core::evidence::Evidence;
use crate::core::fact::{Fact, RateLimit};
use crate::core::transcript_digest::{Ended, Excerpt, Tally, TranscriptDigest};

const HOUR: Duration = Duration::from_hours(1);
const JITTER: Duration = Duration::from_secs(3);

fn now() -> Now {
    Now { mono: Duration::from_secs(5), wall: Timestamp::from_second(1_790_000_000).unwrap() }
}

fn policy() -> Policy {
    let heals = [120, 240, 480].map(Duration::from_secs).to_vec();
    Policy {
        backoff: vec![Duration::from_secs(5), Duration::from_secs(30)],
        heals,
        max_wait: HOUR * 6,
        time_zone: TimeZone::UTC,
    }
}

fn outcome(class: Class, why: &str) -> Outcome {
    Outcome { class, confidence: 1.0, reasons: vec![why.to_owned()] }
}

/// The decision for a class and what is known, with what was used up before.
fn act(class: Class, evidence: &Evidence, history: &mut History) -> Action {
    act_with(&outcome(class, "why"), evidence, history, &mut Poison::default())
}

fn act_with(outcome: &Outcome, evidence: &Evidence, history: &mut History, poison: &mut Poison) -> Action {
    let policy = policy();
    let case = Case { now: now(), session_id: "a", outcome, evidence, policy: &policy, jitter: JITTER };
    decide(case, history, poison)
}

/// (prompt, fresh, seconds) of an `Again`.
#[track_caller]
fn again_of(action: &Action) -> (Option<Purpose>, bool, u64) {
    match action {
        Action::Again { prompt, fresh, after, .. } => (*prompt, *fresh, after.as_secs()),
        other => panic!("no second try: {other:?}"),
    }
}

fn seen(digest: TranscriptDigest) -> Evidence {
    Evidence { digest: Some(digest), ..Evidence::default() }
}

fn grown(assistant: u64) -> TranscriptDigest {
    TranscriptDigest {
        exists: true,
        growth: Growth::Grown { by: 10 },
        after: Tally { assistant, prompts: 1, exact: true, ..Tally::default() },
        ..TranscriptDigest::default()
    }
}

#[test]
fn what_the_transcript_says_decides_the_prompt() {
    let ended = |by, digest| TranscriptDigest { turn_over: TurnOver::Over { by }, ..digest };
    let over = |digest| ended(Ended::StopReason("end_turn".to_owned()), digest);
    let replied = TranscriptDigest { reply: Some(Excerpt::new("reply", 10)), ..over(grown(1)) };
    let reported = TranscriptDigest { structured_output: Some("{}".to_owned()), ..over(grown(1)) };
    for class in
        [Class::Incomplete, Class::StartupHang, Class::Stalled, Class::KilledByOther, Class::UnknownError]
    {
        let act = |digest| act(class, &seen(digest), &mut History::default());
        // No growth; only the prompt was written.
        assert_eq!(again_of(&act(TranscriptDigest::default())), (None, false, 5), "{class}");
        assert_eq!(again_of(&act(grown(0))), (None, false, 5), "{class}");
        // Ended with a reply, or with the report.
        assert!(matches!(act(replied.clone()), Action::Accept { why: Some(_) }), "{class}");
        assert!(matches!(act(reported.clone()), Action::Accept { why: Some(_) }), "{class}");
        // Text without a stop reason may be the first words before a tool call.
        let words = ended(Ended::Text, replied.clone());
        assert_eq!(again_of(&act(words)), (Some(Purpose::Reconcile), false, 5), "{class}");
        // Ended without one; not ended; not known how far.
        assert_eq!(again_of(&act(over(grown(1)))), (Some(Purpose::Reconcile), false, 5), "{class}");
        assert_eq!(again_of(&act(grown(1))), (Some(Purpose::Reconcile), false, 5), "{class}");
        let inexact = TranscriptDigest { after: Tally::default(), ..grown(0) };
        assert_eq!(again_of(&act(inexact)), (Some(Purpose::Reconcile), false, 5), "{class}");
        // Shorter than before.
        let shrunk = TranscriptDigest { growth: Growth::Shrunk { by: 1 }, ..grown(1) };
        assert_eq!(again_of(&act(shrunk)), (Some(Purpose::Reconcile), true, 5), "{class}");
    }
    // The network is no reason to doubt what was done.
    assert_eq!(
        again_of(&act(Class::TransientApi, &seen(grown(1)), &mut History::default())),
        (Some(Purpose::Continue), false, 5)
    );
    // No transcript at all: the stream says whether anything ran.
    let mut spoke = Evidence::default();
    assert_eq!(again_of(&act(Class::Stalled, &spoke, &mut History::default())), (None, false, 5));
    spoke.take(now(), &Fact::Text { text: "x".to_owned(), sub_agent: false });
    assert_eq!(again_of(&act(Class::Stalled, &spoke, &mut History::default())).0, Some(Purpose::Reconcile));
}

#[test]
fn a_reply_is_not_taken_over_an_error_result() {
    let replied = TranscriptDigest {
        turn_over: TurnOver::Over { by: Ended::Text },
        reply: Some(Excerpt::new("reply", 10)),
        ..grown(1)
    };
    let mut evidence = seen(replied);
    evidence.result = Some(crate::core::fact::TurnResult { is_error: true, ..Default::default() });
    again_of(&act(Class::TransientApi, &evidence, &mut History::default()));
}

#[test]
fn two_recoveries_then_the_end() {
    for class in [
        Class::Incomplete,
        Class::StartupHang,
        Class::Stalled,
        Class::TransientApi,
        Class::KilledByOther,
        Class::UnknownError,
        Class::BinaryMissing,
    ] {
        let mut history = History::default();
        let mut act = || act(class, &Evidence::default(), &mut history);
        assert_eq!(again_of(&act()).2, 5);
        assert_eq!(again_of(&act()).2, 30);
        match act() {
            Action::GiveUp { why } => assert!(why.contains("2 recoveries did not help"), "{why}"),
            Action::NeedsPerson { class: Class::BinaryMissing, .. } => {
                assert_eq!(class, Class::BinaryMissing);
            }
            other => panic!("{class}: {other:?}"),
        }
    }
}

#[test]
fn what_is_over_and_what_needs_a_person() {
    for class in [Class::Ok, Class::OkExitAnomaly, Class::Denied, Class::Budget, Class::HungAfterResult] {
        let action = act(class, &Evidence::default(), &mut History::default());
        assert_eq!(action, Action::Accept { why: None }, "{class}");
    }
    for class in
        [Class::Auth, Class::Billing, Class::ModelUnavailable, Class::EnvRefused, Class::Disk, Class::Blocked]
    {
        let action = act(class, &Evidence::default(), &mut History::default());
        assert_eq!(action, Action::NeedsPerson { class, why: "why".to_owned() });
    }
    for class in [Class::NoWork, Class::KilledByDriver] {
        let action = act(class, &Evidence::default(), &mut History::default());
        assert_eq!(action, Action::GiveUp { why: "why".to_owned() }, "{class}");
    }
}

#[test]
fn a_fresh_conversation_once_for_each_cause() {
    let (mut history, mut poison) = (History::default(), Poison::default());
    // A full context is made room in first.
    let full = act(Class::ContextFull, &Evidence::default(), &mut history);
    assert_eq!(again_of(&full), (Some(Purpose::Compact), false, 0));
    for class in [Class::ContextFull, Class::PolicyRefusal, Class::NoSession] {
        let mut act = || act_with(&outcome(class, "why"), &Evidence::default(), &mut history, &mut poison);
        assert_eq!(again_of(&act()), (Some(Purpose::Reconcile), true, 0), "{class}");
        assert!(poison.commit(now()).is_some());
        let mut act = || act_with(&outcome(class, "why"), &Evidence::default(), &mut history, &mut poison);
        assert!(matches!(act(), Action::GiveUp { .. }), "{class}");
    }
    assert_eq!(history.recoveries, 0, "none of them uses up a recovery (field-reports H12)");
    // The id is taken: look again once, do not start over.
    let mut act = || act(Class::SessionInUse, &Evidence::default(), &mut history);
    assert_eq!(again_of(&act()), (None, false, 0));
    assert!(matches!(act(), Action::GiveUp { .. }));
}

#[test]
fn the_same_failure_twice_is_poison() {
    let (mut history, mut poison) = (History::default(), Poison::default());
    let mut fail = |poison: &mut Poison, why: &str| {
        act_with(&outcome(Class::PoisonedSession, why), &Evidence::default(), &mut history, poison)
    };
    // Positions, ids and columns differ; it is the same failure (field-reports G00, G07).
    let words =
        |n: u32, id: &str| format!("messages.{n}.content.{n}: `tool_use` ids without result: toolu_0{id}");
    assert_eq!(again_of(&fail(&mut poison, &words(7, "a1"))), (None, false, 5));
    assert_eq!(again_of(&fail(&mut poison, &words(12, "b2"))), (Some(Purpose::Reconcile), true, 0));
    // A start that fails uses nothing up; the one that worked does.
    assert_eq!(again_of(&fail(&mut poison, &words(12, "b2"))), (Some(Purpose::Reconcile), true, 0));
    assert!(poison.commit(now()).is_some());
    assert!(matches!(fail(&mut poison, &words(4, "d4")), Action::GiveUp { .. }));
    // In the next session it may be left again, ten minutes after the last time.
    poison.begin_session();
    fail(&mut poison, &words(1, "e1"));
    assert_eq!(again_of(&fail(&mut poison, &words(2, "e2"))), (Some(Purpose::Reconcile), true, 600));
}

#[test]
fn four_failures_in_quick_succession_are_poison_too() {
    let long = Policy { backoff: vec![Duration::ZERO; 9], ..policy() };
    let none = Evidence::default();
    let fails = |class: Class| {
        let (mut history, mut poison) = (History::default(), Poison::default());
        (0..4)
            .map(|_| {
                let outcome = outcome(class, "why");
                let case = Case {
                    now: now(),
                    session_id: "a",
                    outcome: &outcome,
                    evidence: &none,
                    policy: &long,
                    jitter: JITTER,
                };
                again_of(&decide(case, &mut history, &mut poison)).1
            })
            .collect::<Vec<_>>()
    };
    for class in [Class::Incomplete, Class::StartupHang, Class::Stalled, Class::KilledByOther] {
        assert_eq!(fails(class), [false, false, false, true], "{class}");
    }
    assert_eq!(fails(Class::TransientApi), [false; 4], "the network is not the conversation's fault");
}

#[test]
fn cuts_that_lost_nothing_go_on() {
    let mut history = History::default();
    let none = Evidence::default();
    assert_eq!(
        again_of(&act(Class::IncompleteBackground, &none, &mut history)),
        (Some(Purpose::Continue), false, 0)
    );
    assert!(matches!(act(Class::IncompleteBackground, &none, &mut history), Action::Accept { why: Some(_) }));
    for n in 0..5 {
        let class = if n % 2 == 0 { Class::MaxTurns } else { Class::OutputLimit };
        assert_eq!(again_of(&act(class, &none, &mut history)), (Some(Purpose::Continue), false, 0));
    }
    assert!(matches!(act(Class::MaxTurns, &none, &mut history), Action::GiveUp { .. }));
}

/// Evidence of a window that is rejected, and resets that many seconds from now.
fn rejected(resets_in: Option<i64>) -> Evidence {
    let mut evidence = Evidence::default();
    evidence.take(
        now(),
        &Fact::RateLimit(RateLimit {
            status: "rejected".to_owned(),
            window: Some("five_hour".to_owned()),
            resets_at: resets_in
                .map(|seconds| Timestamp::from_second(now().wall.as_second() + seconds).unwrap()),
            ..RateLimit::default()
        }),
    );
    evidence
}

/// Seconds a limit is waited for.
#[track_caller]
fn wait(evidence: &Evidence, history: &mut History) -> i64 {
    match act(Class::UsageLimit, evidence, history) {
        Action::WaitForLimit(limit) => limit.until.as_second() - now().wall.as_second(),
        other => panic!("no wait: {other:?}"),
    }
}

#[test]
fn limits_are_waited_for() {
    // Said: until then, and a little.
    assert_eq!(wait(&rejected(Some(3600)), &mut History::default()), 3603);
    // Just passed: soon. Then less and less often, to an hour at most.
    let mut history = History::default();
    let pauses: Vec<_> = (0..6).map(|_| wait(&rejected(Some(-10)), &mut history)).collect();
    assert_eq!(pauses, [5, 300, 600, 1200, 2400, 3600]);
    // Not said, or told by words only.
    for evidence in [rejected(None), Evidence::default()] {
        let mut history = History::default();
        let pauses: Vec<_> = (0..5).map(|_| wait(&evidence, &mut history)).collect();
        assert_eq!(pauses, [300, 600, 1200, 2400, 3600]);
        assert_eq!(history.recoveries, 0);
    }
    // Anything else in between, and the next limit is a new one.
    let mut history = History::default();
    wait(&rejected(None), &mut history);
    act(Class::TransientApi, &Evidence::default(), &mut history);
    assert_eq!(wait(&rejected(None), &mut history), 300);
}

#[test]
fn limits_beyond_the_longest_wait_need_a_person() {
    let needs_person = |action: &Action| match action {
        Action::NeedsPerson { class: Class::UsageLimit, why } => why.contains("beyond --max-wait"),
        _ => false,
    };
    let edge = i64::try_from((HOUR * 6).saturating_sub(JITTER).as_secs()).unwrap();
    assert_eq!(wait(&rejected(Some(edge)), &mut History::default()), edge + 3);
    assert!(needs_person(&act(Class::UsageLimit, &rejected(Some(edge + 1)), &mut History::default())));
    // Far beyond any calendar.
    assert!(needs_person(&act(Class::UsageLimit, &rejected(Some(200_000_000_000)), &mut History::default())));
    // It moves on each time: together they count (field-reports E06).
    let mut history = History::default();
    for _ in 0..3 {
        wait(&rejected(Some(7000)), &mut history);
    }
    assert!(needs_person(&act(Class::UsageLimit, &rejected(Some(7000)), &mut history)));
    // No waiting wanted.
    let none = Policy { max_wait: Duration::ZERO, ..policy() };
    let (limited, evidence) = (outcome(Class::UsageLimit, "x"), rejected(Some(60)));
    let case = Case {
        now: now(),
        session_id: "a",
        outcome: &limited,
        evidence: &evidence,
        policy: &none,
        jitter: JITTER,
    };
    assert!(needs_person(&decide(case, &mut History::default(), &mut Poison::default())));
}
