//! The timers the core asked for.
//!
//! At most one timer of each kind is armed; nothing is ever cancelled, a timer of an old epoch comes back and
//! is ignored. Waits are cut into slices, so that a wait which outlasts a suspend, or aims at a wall instant
//! while the clock is set, ends at the right time (field-reports L01).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::core::time::{Due, Now, TimerId, TimerKind};

/// Longest time slept without looking at the clocks again.
pub(super) const SLICE: Duration = Duration::from_mins(1);

/// Armed timers.
#[derive(Debug, Default)]
pub(super) struct Timers {
    armed: BTreeMap<TimerKind, (TimerId, Due)>,
}

impl Timers {
    pub(super) fn arm(&mut self, now: Now, timer: TimerId, after: Duration) {
        self.armed.insert(timer.kind, (timer, Due::after(now, after)));
    }

    pub(super) fn arm_at(&mut self, now: Now, timer: TimerId, at: Timestamp) {
        self.armed.insert(timer.kind, (timer, Due::at(now, at)));
    }

    /// How long to sleep at most.
    pub(super) fn pause(&self, now: Now) -> Duration {
        self.armed.values().map(|(_, due)| due.left(now)).min().unwrap_or(SLICE).min(SLICE)
    }

    /// A timer that has run out, if one has; it is no longer armed.
    pub(super) fn pop(&mut self, now: Now) -> Option<TimerId> {
        let kind = self.armed.iter().find(|(_, (_, due))| due.left(now).is_zero()).map(|(kind, _)| *kind)?;
        self.armed.remove(&kind).map(|(timer, _)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, wall: i64) -> Now {
        Now { mono: Duration::from_secs(seconds), wall: Timestamp::from_second(wall).unwrap() }
    }

    #[test]
    fn a_newer_timer_of_a_kind_replaces_the_older() {
        let mut timers = Timers::default();
        let timer = |epoch| TimerId { kind: TimerKind::Stall, epoch };
        timers.arm(at(0, 0), timer(1), Duration::from_secs(5));
        timers.arm(at(0, 0), timer(2), Duration::from_secs(50));
        assert_eq!(timers.pause(at(0, 0)), Duration::from_secs(50));
        assert_eq!(timers.pop(at(10, 0)), None);
        assert_eq!(timers.pop(at(50, 0)), Some(timer(2)));
        assert_eq!(timers.pop(at(99, 0)), None);
    }

    #[test]
    fn a_wall_timer_follows_the_wall_clock_in_slices() {
        let mut timers = Timers::default();
        let timer = TimerId { kind: TimerKind::LimitReset, epoch: 1 };
        timers.arm_at(at(0, 0), timer, Timestamp::from_second(10_000).unwrap());
        assert_eq!(timers.pause(at(0, 0)), SLICE);
        // The clock was set ahead, or the machine slept: it is due at once.
        assert_eq!(timers.pause(at(1, 10_001)), Duration::ZERO);
        assert_eq!(timers.pop(at(1, 10_001)), Some(timer));
    }
}
