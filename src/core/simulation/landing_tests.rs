//! The landing before a deadline: no new session, then a prompt to wrap up, then the interrupt.

use super::script::{attempt, failed, good, reported};
use super::*;
use crate::core::published::Purpose::{self, Close, Work, WrapUp};

use KillSwitch::{MaxHoursExceeded, MaxSessionsReached, UserAbort};

/// A process that has an hour: no new session from minute 45, wrap up at 50, interrupt at 58.
fn an_hour(max_sessions: u32) -> Limits {
    Limits {
        max_sessions,
        deadline: Some(Duration::from_hours(1)),
        turn_timeout: Duration::from_hours(9),
        ..limits()
    }
}

/// Works, and says so, minute by minute.
fn busy(minutes: u64) -> Attempt {
    (0..minutes).fold(attempt().after(1).init(), |attempt, _| attempt.after(60).text("on it"))
}

fn said(world: &World) -> Vec<(Purpose, bool)> {
    world.launches.iter().map(|launch| (launch.purpose, launch.resume)).collect()
}

const MINUTE: u64 = 60;

#[test]
fn no_session_is_begun_late_and_none_is_cut_that_ends_in_time() {
    let world = World::new(an_hour(9))
        .attempts([busy(20).result(reported("partial")), busy(27).result(reported("partial"))])
        .play();
    world.ended(Some(MaxHoursExceeded), 2, "deadline=60 min: too little time is left for another session");
    assert_eq!(world.stops, []);
    assert!(world.elapsed() < 49 * MINUTE);
    // With sessions to spare it ends by the number, as ever.
    World::new(an_hour(1)).attempts([busy(20).result(good())]).play().ended(Some(MaxSessionsReached), 1, "");
}

#[test]
fn a_session_at_work_is_asked_to_wrap_up() {
    let world = World::new(an_hour(9)).attempts([busy(100), busy(2).result(reported("partial"))]).play();
    world.ended(Some(MaxHoursExceeded), 1, "deadline=60 min: reached");
    assert_eq!(world.stopped(), [(50 * MINUTE, StopStep::Interrupt)]);
    assert_eq!(said(&world), [(Work, false), (WrapUp, true)]);
    assert_eq!(world.classes(), [Class::KilledByDriver, Class::Ok]);
    assert!(world.records[0].completed, "it has handed in its report");
    let left = world.launches[1].time_left;
    assert!(left <= Duration::from_mins(8) && left > Duration::from_mins(7), "{left:?}");
}

#[test]
fn what_still_runs_then_is_interrupted() {
    let world = World::new(an_hour(9)).attempts([busy(100), busy(100)]).play();
    world.ended(Some(MaxHoursExceeded), 0, "deadline=60 min: reached");
    assert_eq!(world.stopped(), [(50 * MINUTE, StopStep::Interrupt), (58 * MINUTE, StopStep::Interrupt)]);
    assert!(!world.records[0].completed);
    assert!(world.elapsed() < 59 * MINUTE);
}

#[test]
fn a_turn_that_ends_just_then_and_a_report_are_left_alone() {
    // The result is there, the process is on its way out.
    let mut lingering = busy(49).after(58).result(reported("partial"));
    lingering.lingers = true;
    let world = World::new(an_hour(9)).attempts([lingering]).play();
    world.ended(Some(MaxHoursExceeded), 1, "");
    assert_eq!(said(&world), [(Work, false)]);
    // The report is being handed in: the close turn has no report to give up for.
    let world = World::new(an_hour(9))
        .attempts([
            busy(49).text("x").result(crate::core::fact::TurnResult { structured_output: None, ..good() }),
            busy(1).result(good()),
        ])
        .play();
    assert_eq!(said(&world), [(Work, false), (Close, true)]);
    world.ended(Some(MaxHoursExceeded), 1, "");
}

#[test]
fn a_limit_that_outlasts_the_process_ends_it_at_once() {
    let words = "You've hit your session limit · resets 5:20pm (UTC)";
    let world =
        World::new(an_hour(9)).attempts([attempt().after(1).init().result(failed(Some(429), words))]).play();
    world.ended(Some(MaxHoursExceeded), 0, "deadline=60 min: the usage limit lasts longer");
    assert!(world.elapsed() < MINUTE);
    let told = |event: &RunEvent| matches!(event, RunEvent::LimitWait { .. });
    assert!(world.published.iter().any(told), "the next process takes the wait up");
}

#[test]
fn a_person_is_stronger() {
    let world =
        World::new(an_hour(9)).attempts([busy(100)]).stop_at(secs(40 * MINUTE), StopLevel::Interrupt).play();
    world.ended(Some(UserAbort), 0, "(SIGINT)");
    assert_eq!(world.stopped(), [(40 * MINUTE, StopStep::Interrupt)]);
    // Asked to finish before: it still has to be over in time.
    let world = World::new(an_hour(9))
        .attempts([busy(100), busy(1).result(reported("partial"))])
        .stop_at(secs(40 * MINUTE), StopLevel::Finish)
        .play();
    world.ended(Some(UserAbort), 1, "(SIGINT)");
    assert_eq!(said(&world), [(Work, false), (WrapUp, true)]);
}
