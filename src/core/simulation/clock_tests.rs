//! The wall clock is set, by ten hours ahead or back, in the middle of everything: no deadline comes sooner or later
//! for it, no run is ended by it and none is kept alive (design §4).

use super::script::{attempt, failed, reported};
use super::*;

/// Ahead and back, and not at all.
const JUMPS: [i64; 3] = [0, 36_000, -36_000];

fn limits_for(sessions: u32, hours: f64) -> Limits {
    Limits { max_sessions: sessions, max_hours: hours, ..limits() }
}

/// What a run comes to: the switch, iterations, how long it took, when its processes were stopped, and how long it
/// slept on limits. The same for every jump.
fn outcome(world: &World) -> (Option<KillSwitch>, u32, Duration, Vec<(u64, StopStep)>, Duration) {
    let end = world.end();
    (end.kill_switch, end.iterations, end.duration, world.stopped(), end.limit_wait)
}

/// The same world with each jump, at each of these moments (seconds from the start).
#[track_caller]
fn unmoved(world: impl Fn() -> World, moments: &[u64]) -> World {
    let expected = world().play();
    for moment in moments {
        for jump in JUMPS {
            let played = world().set_clock_at(secs(*moment), jump).play();
            assert_eq!(outcome(&played), outcome(&expected), "{jump} s at {moment} s");
            // And back again.
            let played =
                world().set_clock_at(secs(*moment), jump).set_clock_at(secs(*moment + 5), -jump).play();
            assert_eq!(outcome(&played), outcome(&expected), "{jump} s and back at {moment} s");
        }
    }
    expected
}

#[test]
fn healthy_sessions() {
    let busy = || (0..40).fold(attempt().init(), |busy, _| busy.after(30).tool("Bash")).after(5);
    let world = || {
        World::new(limits_for(3, 4.0)).attempts((0..3).map(|_| busy().text("x").result(reported("partial"))))
    };
    let world = unmoved(world, &[0, 1, 600, 1_205, 1_206, 2_000, 3_500]);
    world.ended(Some(KillSwitch::MaxSessionsReached), 3, "");
}

#[test]
fn a_hang_is_ended_when_it_is_due() {
    let world =
        unmoved(|| World::new(limits()).attempts([attempt().init().text("x")]), &[0, 1, 300, 599, 600]);
    assert_eq!(world.stopped(), [(600, StopStep::Terminate)]);
    let silent = unmoved(|| World::new(limits()).attempts([attempt()]), &[0, 100, 179]);
    assert_eq!(silent.stopped(), [(180, StopStep::Terminate)]);
    let lingers = || attempt().init().text("x").result(reported("partial")).lingers();
    let lingers = unmoved(|| World::new(limits()).attempts([lingers()]), &[0, 1, 14]);
    assert_eq!(lingers.stopped(), [(15, StopStep::Terminate)]);
}

#[test]
fn the_limit_of_a_turn_and_the_hours_of_a_run() {
    let busy = || (0..2_000).fold(attempt().init(), |busy, _| busy.after(30).tool("Bash"));
    let world = unmoved(|| World::new(limits()).attempts([busy()]), &[0, 1_000, 5_399]);
    assert_eq!(world.stopped()[0], (5_400, StopStep::Terminate));
    let hour = || (0..110).fold(attempt().init(), |busy, _| busy.after(30).tool("Bash")).text("x");
    let world = unmoved(
        || {
            let sessions = (0..9).map(|_| hour().result(reported("partial")));
            World::new(limits_for(9, 2.5)).attempts(sessions)
        },
        &[10, 3_000, 8_000],
    );
    world.ended(Some(KillSwitch::MaxHoursExceeded), 3, "");
}

#[test]
fn the_pause_before_another_try() {
    let crash = || attempt().init().text("x").exits(Exit::Signal(11));
    unmoved(|| World::new(limits()).attempts([crash(), crash()]), &[0, 2, 4, 10, 30]);
}

/// A reset is a wall instant, so here the jump counts, but only towards the end of the wait: who wakes up too early
/// asks, and is told to wait on.
#[test]
fn the_sleep_until_a_limit_resets() {
    let at = |seconds: i64| start_of_world().wall.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    let limited = |reset: i64| {
        attempt().after(1).init().text("x").rejected(Some(at(reset))).result(failed(Some(429), "limit"))
    };
    for jump in JUMPS {
        // Ahead: it asks at once, and the limit has been lifted. Back: it does not sleep for ten hours more.
        let world = World::new(limits()).attempts([limited(3_600)]).set_clock_at(secs(600), jump).play();
        world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
        let slept = world.end().limit_wait.as_secs();
        assert!(if jump > 0 { slept < 600 } else { (3_600..3_610).contains(&slept) }, "{jump}: {slept} s");
        assert_eq!(world.launches.len(), 2);
    }
    // Ahead, and the limit still holds by that clock: the sleep goes on, and no attempt is used up.
    let world = World::new(limits())
        .attempts([limited(3_600), limited(36_000 + 3_600)])
        .set_clock_at(secs(600), 36_000)
        .play();
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    assert_eq!((world.launches.len(), world.end().stalls), (3, 0));
    assert!((3_590..3_630).contains(&world.end().limit_wait.as_secs()), "{:?}", world.end().limit_wait);
}
