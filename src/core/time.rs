//! Time as data.
//!
//! The core never asks what time it is; the driver says so with every event. `mono` counts suspend
//! (`CLOCK_BOOTTIME` on Linux), so that a deadline means the same whether the machine slept or not, and
//! `wall` is only used for what people read and for usage-limit resets, which are wall instants.

use std::time::Duration;

use jiff::Timestamp;

/// The two clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since an arbitrary fixed point (boot); never jumps, includes time asleep.
    pub mono: Duration,
    /// UTC wall clock; may jump either way.
    pub wall: Timestamp,
}

impl Now {
    /// Time since `earlier` on the monotonic clock; zero if `earlier` lies ahead.
    #[must_use]
    pub fn since(self, earlier: Now) -> Duration {
        self.mono.saturating_sub(earlier.mono)
    }

    /// Time until a wall instant; zero once it has passed.
    #[must_use]
    pub fn until_wall(self, instant: Timestamp) -> Duration {
        Duration::try_from(instant.duration_since(self.wall)).unwrap_or_default()
    }
}

/// When a timer runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The wall instant it aims at.
    wall: Option<Timestamp>,
    /// On the monotonic clock, at the latest.
    mono: Duration,
}

impl Due {
    /// After this long, whatever the wall clock does.
    #[must_use]
    pub fn after(now: Now, time: Duration) -> Due {
        Due { wall: None, mono: now.mono.saturating_add(time) }
    }

    /// At a wall instant: sooner where the clock is set ahead, but never later than it is away now. A clock that
    /// is set back by hours in the middle of a wait does not prolong it; who wakes up asks, and learns.
    #[must_use]
    pub fn at(now: Now, instant: Timestamp) -> Due {
        Due { wall: Some(instant), mono: now.mono.saturating_add(now.until_wall(instant)) }
    }

    /// Time left; zero once it has run out.
    #[must_use]
    pub fn left(self, now: Now) -> Duration {
        let left = self.mono.saturating_sub(now.mono);
        self.wall.map_or(left, |instant| left.min(now.until_wall(instant)))
    }
}

/// What a timer is for. One kind has at most one live timer at a time; a newer one replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerKind {
    /// Nothing has come from the attempt yet (`--first-output-timeout`).
    FirstOutput,
    /// The attempt has gone silent (`--stall-timeout`).
    Stall,
    /// The turn as a whole (`--turn-timeout`).
    Turn,
    /// From `result` to process exit (`--exit-grace`).
    ExitGrace,
    /// From an interrupt request to its `result`.
    InterruptGrace,
    /// Pause before a turn is tried again (recovery §1.8).
    Backoff,
    /// Waiting for a usage limit to reset.
    LimitReset,
    /// Waiting for a person to answer a question (`--escalation-timeout`).
    Escalation,
    /// The next look whether another Claude session still works in this tree.
    PeerPoll,
    /// The landing before the process has to be gone (`--deadline`).
    Deadline,
}

/// A timer as it leaves the core and as it comes back.
///
/// `epoch` names the state for which it was armed; a timer of an earlier epoch has no effect, so nothing
/// ever needs to be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId {
    /// What it is for.
    pub kind: TimerKind,
    /// The state it belongs to.
    pub epoch: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_comes_no_later_for_a_clock_that_was_set() {
        let instant = Timestamp::from_second(1_000).unwrap();
        for (now, after, aimed) in [
            (at(5, 0), 1_000, 1_000),
            (at(905, 900), 100, 100),
            (at(1_005, 1_000), 0, 0),
            // Set ahead by ten hours, and back by ten.
            (at(105, 36_100), 900, 0),
            (at(105, -35_900), 900, 900),
            (at(1_005, -35_000), 0, 0),
        ] {
            let began = at(5, 0);
            let left = |due: Due| due.left(now).as_secs();
            assert_eq!(left(Due::after(began, Duration::from_secs(1_000))), after, "{now:?}");
            assert_eq!(left(Due::at(began, instant)), aimed, "{now:?}");
        }
        // Past already.
        assert_eq!(Due::at(at(5, 2_000), instant).left(at(5, 2_000)), Duration::ZERO);
    }

    fn at(mono: u64, wall: i64) -> Now {
        Now { mono: Duration::from_secs(mono), wall: Timestamp::from_second(wall).unwrap() }
    }

    #[test]
    fn the_monotonic_clock_measures_and_the_wall_clock_aims() {
        // The wall clock jumps: nothing that is measured changes.
        assert_eq!(at(90, 5).since(at(30, 4_000_000)).as_secs(), 60);
        assert_eq!(at(30, 0).since(at(90, 0)), Duration::ZERO);
        for (now, instant, left) in [(100, 160, 60), (100, 100, 0), (100, 40, 0), (-50, 10, 60)] {
            let left = Duration::from_secs(left);
            assert_eq!(at(7, now).until_wall(Timestamp::from_second(instant).unwrap()), left);
        }
        // The whole calendar fits.
        let ages = Now { mono: Duration::ZERO, wall: Timestamp::MIN }.until_wall(Timestamp::MAX);
        assert!(ages > Duration::from_hours(24 * 365 * 19_000));
    }
}
