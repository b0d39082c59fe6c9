//! One attempt while it runs: its evidence so far, and its deadlines.
//!
//! Deadlines are lazy: a timer that fires while signs of life came meanwhile is armed again for the rest, so
//! that a busy stream costs nothing.

use std::time::Duration;

use super::event::{Effect, StopStep};
use super::evidence::{Evidence, StopCause};
use super::time::{Now, TimerKind};
use super::turn::Shared;

/// The process that runs now, and what it revealed so far.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) attempt: u32,
    pub(super) epoch: u64,
    pub(super) evidence: Evidence,
    /// A result came and nothing of a further turn since.
    pub(super) result_seen: bool,
    pub(super) input_closed: bool,
    /// The CLI said it pauses until then (`api_retry`).
    pub(super) quiet_until: Option<Now>,
    /// When the first line is due, on the monotonic clock. A suspend moves it.
    pub(super) first_line_due: Duration,
    /// When the turn has to be over, on the monotonic clock. A suspend moves it.
    pub(super) turn_due: Duration,
    /// The ladder is under way; further deadlines are moot.
    pub(super) stopping: bool,
}

impl Running {
    pub(super) fn silence(&self, now: Now) -> Duration {
        let silence = self.evidence.silence(now);
        match self.quiet_until {
            Some(until) => silence.min(now.since(until)),
            None => silence,
        }
    }

    /// A background agent still works, and nothing asked for an end.
    pub(super) fn waits_for_agents(&self) -> bool {
        !self.evidence.agents_running.is_empty() && !self.is_interrupted()
    }

    /// The turn was asked to end: by the operator, for the deadline, or because it goes round in circles.
    pub(super) fn is_interrupted(&self) -> bool {
        matches!(self.evidence.stop_cause, Some(StopCause::Operator | StopCause::Stuck | StopCause::WrapUp))
    }

    pub(super) fn close_input(&mut self, shared: &mut Shared<'_>) {
        if !std::mem::replace(&mut self.input_closed, true) {
            shared.effects.push(Effect::CloseInput { attempt: self.attempt });
        }
    }

    pub(super) fn end(&mut self, cause: StopCause, step: StopStep, shared: &mut Shared<'_>) {
        self.stopping = true;
        // The first cause stays: a hang does not become an operator's stop because the ladder takes long.
        self.evidence.stop_cause.get_or_insert(cause);
        shared.effects.push(Effect::StopAttempt { attempt: self.attempt, step });
    }

    pub(super) fn deadline(&mut self, kind: TimerKind, shared: &mut Shared<'_>) {
        let limits = shared.limits;
        let now = shared.now.mono;
        match kind {
            TimerKind::FirstOutput => {
                if self.evidence.lines > 0 {
                } else if now < self.first_line_due {
                    shared.effects.arm(kind, self.epoch, self.first_line_due.saturating_sub(now));
                } else {
                    self.end(StopCause::FirstOutput, StopStep::Terminate, shared);
                }
            }
            TimerKind::Stall => {
                if self.result_seen {
                    return;
                }
                let silence = self.silence(shared.now);
                if silence < limits.stall_timeout {
                    shared.effects.arm(
                        TimerKind::Stall,
                        self.epoch,
                        limits.stall_timeout.saturating_sub(silence),
                    );
                } else {
                    shared.effects.push(Effect::CheckLiveness { attempt: self.attempt });
                }
            }
            TimerKind::Turn => {
                if now < self.turn_due {
                    shared.effects.arm(kind, self.epoch, self.turn_due.saturating_sub(now));
                } else if self.result_seen && !self.waits_for_agents() {
                    // On its way out: the exit grace looks after it, unless the turn goes on after all.
                    shared.effects.arm(kind, self.epoch, limits.exit_grace);
                } else {
                    self.end(StopCause::TurnTimeout, StopStep::Terminate, shared);
                }
            }
            TimerKind::ExitGrace => {
                if !self.result_seen {
                    return;
                }
                // A background agent is finite; the stall deadline looks after it (recovery §0.1, D2).
                let grace = if self.waits_for_agents() { limits.stall_timeout } else { limits.exit_grace };
                let quiet = self.evidence.silence(shared.now);
                if quiet < grace {
                    shared.effects.arm(TimerKind::ExitGrace, self.epoch, grace.saturating_sub(quiet));
                } else if !self.input_closed {
                    // It waits for us: its agents ended and no turn followed.
                    self.close_input(shared);
                    shared.effects.arm(TimerKind::ExitGrace, self.epoch, limits.exit_grace);
                } else {
                    self.end(StopCause::ExitGrace, StopStep::Terminate, shared);
                }
            }
            TimerKind::InterruptGrace => {
                if !self.result_seen && self.is_interrupted() {
                    // The cause that is noted stays.
                    self.end(StopCause::Operator, StopStep::Terminate, shared);
                }
            }
            TimerKind::Backoff
            | TimerKind::LimitReset
            | TimerKind::PeerPoll
            | TimerKind::Escalation
            | TimerKind::Deadline => {}
        }
    }
}
