//! The landing before a deadline (`--deadline`): a CI job, or whatever else ends this process at a known time.
//!
//! ```text
//! start ───────────────── no new session ───── wrap up ───────────── interrupt ─── deadline
//!                         15 min before        10 min before         2 min before
//! ```
//!
//! Of a short deadline the same shares: 30, 20 and 5 percent. A session that is at work when it is time to wrap up is
//! interrupted and asked to commit what is good and to report; what still runs at the interrupt is stopped and
//! recorded like a stop by SIGTERM. Either way the run has ended as planned (`max-hours-exceeded`), and `resume` goes on
//! with it.

use std::time::Duration;

use super::{Run, State};
use crate::core::event::{Effects, StopLevel};
use crate::core::kill_switch::{Fired, KillSwitch};
use crate::core::time::{Now, TimerKind};
use crate::core::turn::Shared;

/// Who stops a run when its time is over, as events say it.
pub(super) const BY: &str = "deadline";

/// Epochs of the timer.
const WRAP_UP: u64 = 1;
const INTERRUPT: u64 = 2;

/// The three steps, as time before the deadline.
struct Steps {
    no_new_session: Duration,
    wrap_up: Duration,
    interrupt: Duration,
}

impl Steps {
    fn before(deadline: Duration) -> Steps {
        let share = |minutes: u64, percent: u32| Duration::from_mins(minutes).min(deadline * percent / 100);
        Steps { no_new_session: share(15, 30), wrap_up: share(10, 20), interrupt: share(2, 5) }
    }
}

impl Run {
    /// Time until the interrupt.
    pub(super) fn deadline_in(&self, now: Now) -> Option<Duration> {
        self.left_before(now, |steps| steps.interrupt)
    }

    fn left_before(&self, now: Now, step: impl FnOnce(&Steps) -> Duration) -> Option<Duration> {
        let (deadline, started) = (self.limits.deadline?, self.started?);
        let at = deadline.saturating_sub(step(&Steps::before(deadline)));
        Some(at.saturating_sub(now.since(started)))
    }

    pub(super) fn prepare_landing(&self, effects: &mut Effects) {
        if let Some(deadline) = self.limits.deadline {
            let wrap_up = deadline.saturating_sub(Steps::before(deadline).wrap_up);
            effects.arm(TimerKind::Deadline, WRAP_UP, wrap_up);
        }
    }

    /// A step is due.
    pub(super) fn land(&mut self, now: Now, epoch: u64, effects: &mut Effects) {
        if self.is_over() {
            return;
        }
        if epoch == INTERRUPT {
            self.request_stop(now, StopLevel::Interrupt, BY, effects);
            return;
        }
        // Whatever only waits ends with this; what works goes on to its end.
        self.request_stop(now, StopLevel::Finish, BY, effects);
        if self.is_over() {
            return;
        }
        let elapsed = self.elapsed(now);
        let stop = self.stop.map(|(level, _)| level);
        let deadline_in = self.deadline_in(now);
        if let State::InSession(session) = &mut self.state {
            let (limits, books) = (&self.limits, &mut self.books);
            let mut shared = Shared { now, limits, books, effects, stop, elapsed, deadline_in };
            session.wrap_up(&mut shared);
        }
        effects.arm(TimerKind::Deadline, INTERRUPT, deadline_in.unwrap_or_default());
    }

    /// No session is begun that would be interrupted before it gets anywhere.
    pub(super) fn too_late_to_begin(&mut self, now: Now) -> Option<Fired> {
        let left = self.left_before(now, |steps| steps.no_new_session)?;
        left.is_zero().then(|| self.fired("too little time is left for another session"))
    }

    /// The stop that ended the session was that of the deadline.
    pub(super) fn landed(&mut self) -> Fired {
        self.fired("reached")
    }

    /// A usage limit outlasts this process.
    pub(super) fn limited_beyond_deadline(&mut self) -> Option<Fired> {
        let why = self.books.limit_beyond_deadline.take()?;
        Some(self.fired(&format!("the usage limit lasts longer ({why})")))
    }

    fn fired(&mut self, words: &str) -> Fired {
        self.deadline_reached = true;
        let minutes = self.limits.deadline.unwrap_or_default().as_secs_f64() / 60.0;
        let detail = format!("deadline={minutes} min: {words}");
        Fired { switch: KillSwitch::MaxHoursExceeded, detail }
    }
}
