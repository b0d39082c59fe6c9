//! Usage limits over a night: told by event or by words only, waited for over a suspend and over the death of
//! the run; and the reserve that is kept of a window.

use super::script::{attempt, failed, reported};
use super::*;
use crate::core::fact::{RateLimit, UsageWindow};
use crate::core::published::{Purpose, ResetSource};
use crate::core::run::OpenLimit;

/// The wall clock that long after the start.
fn in_(seconds: u64) -> Timestamp {
    start_of_world().wall.checked_add(secs(seconds)).unwrap()
}

/// An attempt that a limit refuses with these words.
fn refused(words: &str) -> Attempt {
    attempt().after(1).init().result(failed(Some(429), words))
}

/// The old wording, which says the time exactly.
fn until(reset: Timestamp) -> String {
    format!("Claude AI usage limit reached|{}", reset.as_second())
}

/// The waits: seconds from the start, window and source.
fn waits(world: &World) -> Vec<(i64, Option<String>, ResetSource)> {
    world
        .published
        .iter()
        .filter_map(|event| match event {
            RunEvent::LimitWait { window, until, source, .. } => {
                let seconds = until.duration_since(start_of_world().wall).as_secs();
                Some((seconds, window.clone(), *source))
            }
            _ => None,
        })
        .collect()
}

fn play(attempts: impl IntoIterator<Item = Attempt>) -> World {
    World::new(limits()).attempts(attempts).play()
}

#[test]
fn limited_from_the_start_and_told_by_words_only() {
    let world = play([refused(&until(in_(3600)))]);
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    assert_eq!(waits(&world), [(3607, None, ResetSource::Text)]);
    assert_eq!((world.launches.len(), world.end().stalls), (2, 0));
    assert!(!world.published.iter().any(|event| matches!(event, RunEvent::Healed { .. })));
    // 2026-09-21 14:13:20 UTC: a time of the day is said by the minute.
    let world = play([refused("You've hit your session limit · resets 3:20pm (UTC)")]);
    assert_eq!(waits(&world), [(400 + 3600 + 60 + 7, Some("five_hour".to_owned()), ResetSource::Text)]);
    // In the conversation only, and then the process dies.
    let dies = attempt()
        .after(1)
        .init()
        .say(Fact::ApiError { class: None, status: Some(429), text: until(in_(3600)) })
        .exits(Exit::Code(1));
    assert_eq!(waits(&play([dies])), [(3607, None, ResetSource::Text)]);
}

#[test]
fn words_that_say_no_time_are_asked_again_and_again() {
    let world = play((0..4).map(|_| refused("You've hit your Opus limit")));
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    let pauses: Vec<_> = waits(&world)
        .iter()
        .scan(0, |before, (at, _, source)| {
            assert_eq!(*source, ResetSource::Unknown);
            Some((at - std::mem::replace(before, *at)) / 60)
        })
        .collect();
    assert_eq!(pauses, [5, 10, 20, 40]);
}

#[test]
fn the_reset_passes_and_the_limit_still_holds() {
    // The same words after the wait are the same time, not tomorrow's.
    let words = "You've hit your limit · resets 2:20pm (UTC)";
    let world = play((0..4).map(|_| refused(words)));
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    let sources: Vec<_> = waits(&world).iter().map(|(_, _, source)| *source).collect();
    assert_eq!(
        sources,
        [ResetSource::Text, ResetSource::Unknown, ResetSource::Unknown, ResetSource::Unknown]
    );
    let last = waits(&world).last().unwrap().0;
    assert!((400 + 67 + 35 * 60..400 + 67 + 36 * 60).contains(&last), "{last}");
    // The time moves: the new one is waited for.
    let world = play([refused(&until(in_(600))), refused(&until(in_(1800)))]);
    assert_eq!(waits(&world), [(607, None, ResetSource::Text), (1807, None, ResetSource::Text)]);
    // Just passed: now.
    let world = play([refused(&until(in_(0)))]);
    assert_eq!(waits(&world), [(1 + 7, None, ResetSource::Text)]);
    // For ever: to the longest wait, in a handful of questions.
    let world = play((0..99).map(|_| refused(words)));
    world.ended(Some(KillSwitch::FailedWave), 0, "beyond --max-wait");
    assert_eq!((world.end().failure_class, world.end().needs_person), (Some(Class::UsageLimit), true));
    assert!(world.elapsed() <= 6 * 3600 && world.launches.len() < 14, "{}", world.launches.len());
}

#[test]
fn event_and_words_that_differ() {
    let five = |reset: Option<u64>| attempt().after(1).init().rejected(reset.map(in_));
    let said = until(in_(7200));
    for (attempt, expected) in [
        // The event is the better source.
        (five(Some(600)), (607, ResetSource::Event)),
        (five(None), (7207, ResetSource::Text)),
        // It has passed; what holds now is another limit.
        (five(Some(0)), (7207, ResetSource::Text)),
        // A second window is rejected, and only the words say until when.
        (
            five(Some(600)).say(Fact::RateLimit(RateLimit {
                status: "rejected".to_owned(),
                window: Some("seven_day".to_owned()),
                ..RateLimit::default()
            })),
            (7207, ResetSource::Text),
        ),
        // The reset of a window that is not rejected is no reset of the one that is.
        (
            five(None).say(Fact::RateLimit(RateLimit {
                status: "allowed_warning".to_owned(),
                window: Some("seven_day".to_owned()),
                resets_at: Some(in_(90_000)),
                ..RateLimit::default()
            })),
            (7207, ResetSource::Text),
        ),
        // Extra usage pays: that window stops nothing.
        (
            attempt().after(1).init().say(Fact::RateLimit(RateLimit {
                status: "rejected".to_owned(),
                window: Some("five_hour".to_owned()),
                resets_at: Some(in_(90_000)),
                using_overage: true,
                ..RateLimit::default()
            })),
            (7207, ResetSource::Text),
        ),
    ] {
        let world = play([attempt.result(failed(Some(429), &said))]);
        let [(at, _, source)] = waits(&world)[..] else { panic!("{:?}", world.published) };
        assert_eq!((at, source), expected);
    }
}

/// The event says it by the second, the words by the minute: one reset, aimed at once.
#[test]
fn event_and_words_that_mean_the_same() {
    let words = "You've hit your session limit · resets 2:20pm (UTC)";
    // 2:20:00, of which the words leave a minute open; 399 s from the start.
    for (reset, expected) in [(399, ResetSource::Event), (340, ResetSource::Event)] {
        let limited = attempt().after(1).init().rejected(Some(in_(reset))).result(failed(Some(429), words));
        let [(at, _, source)] = waits(&play([limited]))[..] else { panic!("one wait") };
        assert_eq!((at, source), (i64::try_from(reset).unwrap() + 7, expected));
    }
}

#[test]
fn words_said_again_after_work_are_not_tomorrows() {
    let words = "You've hit your session limit · resets 2:20pm (UTC)";
    let worked = attempt()
        .after(1)
        .init()
        .after(600)
        .say(Fact::Text { text: "Done with the first half.".to_owned(), sub_agent: false })
        .result(failed(Some(429), words));
    let world = play([refused(words), worked]);
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    let [(first, ..), (second, ..)] = waits(&world)[..] else { panic!("{:?}", waits(&world)) };
    assert!(first < 480 && second - first < 1200, "{first} {second}");
}

/// What was waited for one window is not counted against another, and a limit that let work through was over.
#[test]
fn each_limit_has_its_own_longest_wait() {
    let window = |name: &str, at| {
        attempt()
            .after(1)
            .init()
            .say(Fact::RateLimit(RateLimit {
                status: "rejected".to_owned(),
                window: Some(name.to_owned()),
                resets_at: Some(in_(at)),
                ..RateLimit::default()
            }))
            .result(failed(Some(429), "limit"))
    };
    let world = play([window("five_hour", 4 * 3600), window("seven_day", 9 * 3600)]);
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    let world = play([window("five_hour", 4 * 3600), window("five_hour", 9 * 3600)]);
    world.ended(Some(KillSwitch::FailedWave), 0, "beyond --max-wait");
    // Ten minutes of work between them.
    let works = |minutes: u64| {
        attempt()
            .init()
            .text("on it goes")
            .after(minutes * 60)
            .text("still")
            .rejected(Some(in_(9 * 3600)))
            .result(failed(Some(429), "limit"))
    };
    let world = play([window("five_hour", 4 * 3600), works(9)]);
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    let world = play([window("five_hour", 4 * 3600), works(1)]);
    world.ended(Some(KillSwitch::FailedWave), 0, "beyond --max-wait");
}

/// A run that inherits a conversation, and the wait it was in.
fn inheriting(limits: Limits, until: Timestamp) -> World {
    let limit = OpenLimit {
        window: Some("five_hour".to_owned()),
        until,
        source: ResetSource::Event,
        why: "You've hit your limit".to_owned(),
    };
    let inherited =
        Inherited { session_id: Some("old".to_owned()), limit: Some(limit), ..Inherited::default() };
    let mut world = World::inheriting(limits, inherited);
    world.transcripts.insert("old".to_owned(), vec![Entry { assistant: true, ends: false }]);
    world
}

#[test]
fn a_resumed_run_waits_for_the_rest() {
    let world = inheriting(limits(), in_(1800)).play();
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    // It is in the new journal as well: this run may die, too.
    assert_eq!(waits(&world), [(1800, Some("five_hour".to_owned()), ResetSource::Event)]);
    assert!((1800..1900).contains(&world.elapsed()), "{}", world.elapsed());
    let first = &world.launches[0];
    assert_eq!((first.session_id.as_str(), first.resume, first.purpose), ("old", true, Purpose::Reconcile));
    assert!((1799..=1800).contains(&world.end().limit_wait.as_secs()), "{:?}", world.end().limit_wait);
    // Over meanwhile, or longer than this run may wait: asked at once.
    let short = Limits { recovery: Policy { max_wait: secs(600), ..limits().recovery }, ..limits() };
    for world in [inheriting(limits(), in_(0)), inheriting(short.clone(), in_(1800))] {
        let world = world.play();
        world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
        assert!(waits(&world).is_empty() && world.elapsed() < 60);
    }
    let still = || attempt().init().rejected(Some(in_(1800))).result(failed(Some(429), "limit"));
    let world = inheriting(short, in_(1800)).attempts([still()]).play();
    world.ended(Some(KillSwitch::FailedWave), 0, "beyond --max-wait");
    // The rest counts towards the longest wait.
    let hour = Limits { recovery: Policy { max_wait: secs(3600), ..limits().recovery }, ..limits() };
    let more = attempt().init().rejected(Some(in_(4000))).result(failed(Some(429), "limit"));
    let world = inheriting(hour, in_(1800)).attempts([more]).play();
    world.ended(Some(KillSwitch::FailedWave), 0, "beyond --max-wait");
    // Asleep over it: due at wake-up. Stopped in it: at once.
    let world = inheriting(limits(), in_(1800)).suspend_at(secs(60), secs(5 * 3600)).play();
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    assert!((18_060..18_120).contains(&world.elapsed()), "{}", world.elapsed());
    let world = inheriting(limits(), in_(1800)).stop_at(secs(60), StopLevel::Finish).play();
    world.ended(Some(KillSwitch::UserAbort), 0, "");
    assert_eq!((world.elapsed(), world.launches.len(), world.records.len()), (60, 0, 1));
    assert!((59..=60).contains(&world.end().limit_wait.as_secs()), "{:?}", world.end().limit_wait);
}

/// A session in which windows are read: five hours and seven days, with the used share and the reset.
fn reads(five: (f64, u64), seven: (f64, u64)) -> Attempt {
    let window = |name: &str, (used, reset): (f64, u64)| UsageWindow {
        name: name.to_owned(),
        utilization: Some(used),
        resets_at: Some(in_(reset)),
    };
    attempt()
        .init()
        .say(Fact::RateLimit(RateLimit {
            status: "allowed".to_owned(),
            window: Some("five_hour".to_owned()),
            windows: vec![window("five_hour", five), window("seven_day", seven)],
            utilization: Some(five.0),
            resets_at: Some(in_(five.1)),
            ..RateLimit::default()
        }))
        .text("did it")
        .result(reported("partial"))
}

#[test]
fn a_reserve_ends_the_run_as_planned() {
    let run = |reserve, attempts: Vec<Attempt>| {
        World::new(Limits { max_sessions: 3, reserve, ..limits() }).attempts(attempts).play()
    };
    let world = run(10.0, vec![reads((0.5, 3600), (0.3, 90_000)), reads((0.92, 3600), (0.3, 90_000))]);
    world.ended(None, 2, "usage window five_hour is 92 % used, --reserve 10 keeps the rest");
    assert!(world.end().reserved_window.is_some() && world.end().failure_class.is_none());
    assert!(world.published.iter().any(|event| matches!(
        event,
        RunEvent::ReserveReached { iteration: 3, window, resets_at: Some(at), .. }
            if window == "five_hour" && *at == in_(3600)
    )));
    let world = run(10.0, vec![reads((0.2, 3600), (0.9, 90_000))]);
    world.ended(None, 1, "usage window seven_day is 90 % used");
    // Off; enough left; reset meanwhile.
    for (reserve, reset, used) in [(0.0, 3600, 1.0), (10.0, 3600, 0.89), (10.0, 0, 0.99)] {
        let world = run(reserve, vec![reads((used, reset), (0.3, 90_000))]);
        world.ended(Some(KillSwitch::MaxSessionsReached), 3, "");
    }
    // A limit that was waited for within a session has reset by the next.
    let limited = attempt().init().rejected(Some(in_(600))).result(failed(Some(429), "limit"));
    let world = run(10.0, vec![limited]);
    world.ended(Some(KillSwitch::MaxSessionsReached), 3, "");
}
