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
