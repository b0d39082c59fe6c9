//! Circles: every step of the ladder, what resets it, what is stronger than it.

use serde_json::json;

use super::script::{attempt, compacted, done, failed, good, reported};
use super::*;
use crate::core::mode::Mode;
use crate::core::published::Purpose::{self, Close, Compact, Nudge, Reconcile, Work};

use KillSwitch::{FailedWave, MaxSessionsReached, Spiral, UserAbort};

/// An attempt that runs the same failing command five times, a second apart, and then thinks for ever.
fn circling() -> Attempt {
    (0..5).fold(attempt().after(1).init(), |attempt, _| attempt.after(1).fails("make", "No rule"))
}

/// The same after it wrote something new.
fn circling_after(text: &str) -> Attempt {
    let begun = attempt().after(1).init().writes("a.rs", text);
    (0..5).fold(begun, |attempt, _| attempt.after(1).fails("make", "No rule"))
}

fn compacting() -> Attempt {
    attempt().after(1).init().after(3).result(compacted())
}

/// What each launch said, and whether it resumed.
fn said(world: &World) -> Vec<(Purpose, bool)> {
    world.launches.iter().map(|launch| (launch.purpose, launch.resume)).collect()
}

fn heals(world: &World) -> Vec<(Class, u32, &str)> {
    let healed = world.published.iter().filter_map(|event| match event {
        RunEvent::Healed { class, recovery, action, .. } => Some((*class, *recovery, action.as_str())),
        _ => None,
    });
    healed.collect()
}

fn play(attempts: impl IntoIterator<Item = Attempt>) -> World {
    World::new(limits()).attempts(attempts).play()
}

const NUDGED: &str = "interrupted, then a different prompt";
const COMPACTED: &str = "interrupted, then /compact and a different prompt";
const RENEWED: &str = "fresh conversation with hand-over";

#[test]
fn a_different_prompt_in_the_same_conversation() {
    let world = play([circling(), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(world.classes(), [Class::Stuck, Class::Ok]);
    assert_eq!(world.stopped(), [(6, StopStep::Interrupt)]);
    assert_eq!(said(&world), [(Work, false), (Nudge, true)]);
    assert_eq!(world.launches[0].session_id, world.launches[1].session_id);
    assert_eq!(heals(&world), [(Class::Stuck, 1, NUDGED)]);
    assert_eq!(world.launches[0].circle, None);
    let circle = world.launches[1].circle.clone().unwrap();
    assert!(circle.cause.contains("`Bash: make` failed 5 times in a row"), "{circle:?}");
    assert_eq!(circle.tried, ["Bash: make → failed: No rule"]);
    // One that does not answer the interrupt is terminated.
    let world = play([circling().deaf(), done()]);
    assert_eq!(world.classes(), [Class::Stuck, Class::Ok]);
    assert_eq!(world.stopped(), [(6, StopStep::Interrupt), (16, StopStep::Terminate)]);
    assert_eq!(said(&world), [(Work, false), (Nudge, true)]);
}

#[test]
fn compaction_then_a_different_prompt() {
    let world = play([circling(), circling(), compacting(), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(world.classes(), [Class::Stuck, Class::Stuck, Class::Ok, Class::Ok]);
    assert_eq!(said(&world), [(Work, false), (Nudge, true), (Compact, true), (Nudge, true)]);
    assert_eq!(heals(&world), [(Class::Stuck, 1, NUDGED), (Class::Stuck, 2, COMPACTED)]);
    assert!(world.launches.iter().all(|launch| launch.session_id == world.launches[0].session_id));
    assert_eq!(
        world.records[0].report.as_ref().unwrap().summary.as_deref(),
        Some("s"),
        "one report, of the last"
    );
}

#[test]
fn a_compaction_that_fails_is_gone_without() {
    for broken in [
        attempt().after(1).init().result(failed(Some(400), "Not enough messages to compact")),
        attempt().after(1).init().exits(Exit::Signal(9)),
        attempt().writes_nothing(),
    ] {
        let world = play([circling(), circling(), broken, done()]);
        world.ended(Some(MaxSessionsReached), 1, "");
        assert_eq!(said(&world)[2..], [(Compact, true), (Nudge, true)]);
        assert!(world.published.iter().any(|event| matches!(
            event,
            RunEvent::Warning { text } if text.contains("could not be compacted")
        )));
    }
    // Without a login nothing else would go either.
    let login = attempt().after(1).init().result(failed(Some(401), "Please run /login"));
    let world = play([circling(), circling(), login]);
    world.ended(Some(FailedWave), 0, "/login");
    assert!(world.end().needs_person);
    // A limit is waited for, then it is compacted.
    let limit = start_of_world().wall.checked_add(secs(600)).unwrap();
    let limited =
        attempt().after(1).init().rejected(Some(limit)).result(failed(Some(429), "usage limit reached"));
    let world = play([circling(), circling(), limited, compacting(), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(said(&world)[2..], [(Compact, true), (Compact, true), (Nudge, true)]);
}

#[test]
fn a_fresh_conversation_takes_over() {
    let world = play([circling(), circling(), compacting(), circling(), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(said(&world)[3..], [(Nudge, true), (Reconcile, false)]);
    assert_ne!(world.launches[3].session_id, world.launches[4].session_id);
    assert_eq!(world.stopped()[2].1, StopStep::Terminate);
    assert_eq!(heals(&world)[2].2, RENEWED);
    assert!(world.launches[4].circle.is_some(), "the new one is told what did not help");
}

#[test]
fn the_last_step_is_the_human() {
    let world = play([circling(), circling(), compacting(), circling(), circling()]);
    world.ended(Some(Spiral), 1, "`Bash: make` failed 5 times in a row in the same way; 3 steps against it");
    assert_eq!(world.end().failure_class, Some(Class::Stuck));
    assert!(!world.end().needs_person);
    assert_eq!(heals(&world).len(), 3, "the last step heals nothing");
    let record = &world.records[0];
    assert_eq!((record.class, record.checked.spiral), (Class::Stuck, Some(1)));
    let words = world.end().detail.clone().unwrap();
    assert!(words.contains("No rule"), "{words}");
}

#[test]
fn something_done_begins_the_ladder_again() {
    let world =
        play([circling(), circling_after("one"), circling_after("two"), circling_after("three"), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    let said = said(&world);
    assert_eq!(said[1..], [(Nudge, true); 4]);
    // What was written before is no news.
    let world = play([circling_after("one"), circling_after("one"), compacting(), done()]);
    assert_eq!(super::stuck_tests::said(&world)[1..], [(Nudge, true), (Compact, true), (Nudge, true)]);
}

#[test]
fn steps_are_bounded_whatever_is_done_between_them() {
    let world = play((0..50).map(|at| circling_after(&format!("version {at}"))));
    world.ended(Some(Spiral), 1, "9 steps against it did not help");
    assert_eq!(world.launches.len(), 10);
    // The same with sessions left: a spiral ends the run (design §4).
    let limits = Limits { max_sessions: 4, ..limits() };
    let attempts = [circling(), circling(), compacting(), circling(), circling()];
    let world = World::new(limits).attempts(attempts).play();
    world.ended(Some(Spiral), 1, "");
    assert_eq!(world.launches.len(), 5);
}

#[test]
fn a_fresh_conversation_is_started_once() {
    let again = || circling_after("new");
    let world = play([
        circling(),
        circling(),
        compacting(),
        circling(),
        again(),
        circling(),
        compacting(),
        circling(),
        done(),
    ]);
    world.ended(Some(Spiral), 1, "");
    let fresh = heals(&world).iter().filter(|(_, _, action)| *action == RENEWED).count();
    assert_eq!(fresh, 1);
}

#[test]
fn the_operator_wins_at_every_step() {
    // In the middle of each step: after the interrupt, between the attempts, during the compaction.
    let attempts: [fn() -> Attempt; 5] = [circling, circling, compacting, circling, circling];
    for launches in [1, 2, 4, 5] {
        let attempts = &attempts[..launches];
        let quiet = play(attempts.iter().map(|make| make().deaf()));
        let (asked, _) = *quiet.stopped().iter().rfind(|(_, step)| *step != StopStep::Kill).unwrap();
        for level in [StopLevel::Interrupt, StopLevel::Kill] {
            // The stop comes a moment after ours was sent and before the process is gone.
            let world = World::new(limits())
                .attempts(attempts.iter().map(|make| make().deaf()))
                .stop_at(secs(asked - 4), level)
                .play();
            world.ended(Some(UserAbort), 0, "");
            assert!(world.launches.len() <= launches, "{level:?}: {:?}", said(&world));
        }
    }
    // While the conversation is compacted.
    let slow = attempt().after(1).init().after(100).result(compacted());
    let world = World::new(limits())
        .attempts([circling(), circling(), slow])
        .stop_at(secs(60), StopLevel::Interrupt)
        .play();
    world.ended(Some(UserAbort), 0, "");
    assert_eq!(said(&world).last(), Some(&(Compact, true)));
    // One Ctrl-C lets the session finish, with what it takes to get there.
    let world =
        World::new(limits()).attempts([circling(), done()]).stop_at(secs(3), StopLevel::Finish).play();
    world.ended(Some(UserAbort), 1, "");
    assert_eq!(said(&world), [(Work, false), (Nudge, true)]);
}

#[test]
fn a_turn_that_ends_just_then_is_over() {
    let mut late = circling();
    late.on_interrupt = Some(Fact::Result(Box::new(reported("partial"))));
    let world = play([late]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!((world.classes(), world.launches.len()), (vec![Class::Ok], 1));
}

#[test]
fn a_report_is_not_asked_for_twice() {
    let world = play([attempt().init().text("done").result(good()), circling()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(said(&world), [(Work, false), (Close, true)]);
    assert_eq!(heals(&world), []);
}

#[test]
fn it_can_be_switched_off_and_discovery_only_reads() {
    let limits = Limits { stuck_detection: false, ..limits() };
    let busy = || (0..30).fold(circling(), |busy, _| busy.after(1).fails("make", "No rule"));
    let world = World::new(limits).attempts([busy().result(reported("partial"))]).play();
    assert_eq!((world.classes(), world.stops.len()), (vec![Class::Ok], 0));

    let reading = || {
        let many = (0..100).fold(attempt().init(), |many, at| many.after(30).reads(&format!("{at}.rs")));
        many.result(reported("partial"))
    };
    let world = play([reading(), done()]);
    assert_eq!(world.classes(), [Class::Stuck, Class::Ok]);
    assert_eq!(world.stopped(), [(60 * 30, StopStep::Interrupt)]);
    let signals = Signals { forced_mode: Some(Mode::Discovery), prompt: true, ..Signals::default() };
    let world = World::new(super::limits()).survey(signals).attempts([reading()]).play();
    assert_eq!((world.launches[0].mode, world.classes()), (Mode::Discovery, vec![Class::Ok]));
}

#[test]
fn a_sub_agent_in_a_circle_stops_the_turn() {
    let circling = (0..5).fold(attempt().init().agent_starts("a"), |attempt, _| {
        attempt.after(1).call(Some("toolu_agent"), "Bash", &json!({"command": "make"}), true, "No rule")
    });
    let world = play([circling, done()]);
    assert_eq!(world.stopped(), [(5, StopStep::Interrupt)]);
    assert_eq!(said(&world), [(Work, false), (Nudge, true)]);
    assert!(world.launches[1].circle.as_ref().unwrap().cause.starts_with("a sub-agent: "));
}
