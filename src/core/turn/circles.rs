//! A turn that goes round in circles: it is stopped, and the next step of the ladder is taken (design §6).
//!
//! ```text
//! nudge    interrupt → judged `stuck` → "try something else" in the same conversation
//! compact  interrupt → judged `stuck` → `/compact` → the same
//! fresh    terminate → judged `stuck` → the recovery of a conversation that cannot go on, once a turn
//! end      interrupt → judged `stuck` → the session is over, the kill-switch `spiral` fires
//! ```
//!
//! What the operator asks for wins at every point.

use super::{INTERRUPT_GRACE, Shared, Turn, TurnEnd};
use crate::core::attempt::Running;
use crate::core::conversation::Conversation;
use crate::core::event::{Effect, StopLevel, StopStep};
use crate::core::evidence::StopCause;
use crate::core::fact::Fact;
use crate::core::judge::Outcome;
use crate::core::mode::Mode;
use crate::core::outcome::Class;
use crate::core::published::{Purpose, RunEvent};
use crate::core::stuck::ladder::{Circle, Ladder, Step};
use crate::core::stuck::{Stuck, Watch};
use crate::core::time::TimerKind;

/// Calls told of a circle that ended a session.
const TOLD: usize = 3;

/// The watch over a session and the steps it has been through. It goes from turn to turn.
#[derive(Debug, Default)]
pub(in crate::core) struct Circles {
    on: bool,
    watch: Watch,
    ladder: Ladder,
    /// What the running attempt was stopped for, and what is to follow.
    found: Option<(Step, Stuck)>,
    /// The last circle, for the prompts after it.
    pub(super) circle: Option<Circle>,
}

impl Circles {
    pub(in crate::core) fn new(on: bool, mode: Mode) -> Self {
        Circles { on, watch: Watch::new(mode == Mode::Discovery), ..Circles::default() }
    }

    pub(super) fn begin_attempt(&mut self) {
        self.watch.begin_attempt();
        self.found = None;
    }

    pub(super) fn slept(&mut self, asleep: std::time::Duration) {
        self.watch.slept(asleep);
    }

    /// Takes a fact of the running attempt in, and stops it when it goes round in circles.
    pub(super) fn look(&mut self, fact: &Fact, running: &mut Running, shared: &mut Shared<'_>) {
        if !self.on {
            return;
        }
        let Some(stuck) = self.watch.observe(shared.now, fact) else { return };
        let ending = running.stopping || running.result_seen || running.evidence.stop_cause.is_some();
        if ending || shared.stop >= Some(StopLevel::Interrupt) {
            return;
        }
        let step = self.ladder.next(self.watch.progress());
        running.evidence.circle = Some(stuck.why.clone());
        self.found = Some((step, stuck));
        match step {
            Step::Nudge | Step::Compact | Step::End => {
                running.evidence.stop_cause = Some(StopCause::Stuck);
                let (attempt, step) = (running.attempt, StopStep::Interrupt);
                shared.effects.push(Effect::StopAttempt { attempt, step });
                shared.effects.arm(TimerKind::InterruptGrace, running.epoch, INTERRUPT_GRACE);
            }
            Step::Fresh => running.end(StopCause::Stuck, StopStep::Terminate, shared),
        }
    }

    /// The session ends on this circle: what it was doing, in words.
    fn last_words(&self, stuck: &Stuck) -> String {
        let before = self.ladder.taken().saturating_sub(1);
        let steps = match before {
            0 => String::new(),
            1 => "; 1 step against it did not help".to_owned(),
            steps => format!("; {steps} steps against it did not help"),
        };
        let calls: Vec<&str> = stuck.evidence.iter().take(TOLD).map(String::as_str).collect();
        let calls = if calls.is_empty() { String::new() } else { format!("; {}", calls.join("; ")) };
        format!("{}{steps}{calls}", stuck.why)
    }
}

impl Turn {
    /// The watch, for the next turn of the session.
    pub(in crate::core) fn take_circles(&mut self) -> Circles {
        std::mem::take(&mut self.circles)
    }

    /// Whether what follows the attempt is a step against a circle, and not a recovery.
    pub(super) fn is_step(&self, outcome: &Outcome) -> bool {
        if outcome.class == Class::Stuck {
            // A new conversation is what the recovery does.
            return !matches!(self.circles.found, Some((Step::Fresh, _)));
        }
        // Whatever became of the compaction, the different prompt is worth its try; unless nothing can run now.
        self.prompt == Purpose::Compact
            && !matches!(
                outcome.class,
                Class::UsageLimit
                    | Class::Auth
                    | Class::Billing
                    | Class::ModelUnavailable
                    | Class::EnvRefused
                    | Class::Disk
                    | Class::BinaryMissing
                    | Class::KilledByDriver
            )
    }

    /// Takes the step.
    pub(super) fn step(
        &mut self,
        outcome: &Outcome,
        conversation: &Conversation,
        shared: &mut Shared<'_>,
    ) -> Option<TurnEnd> {
        if shared.stop >= Some(StopLevel::Interrupt) {
            return Some(TurnEnd::Aborted);
        }
        let why = outcome.reasons.join("; ");
        if outcome.class != Class::Stuck {
            if outcome.class != Class::Ok {
                let text = format!("the conversation could not be compacted: {why}");
                shared.effects.publish(RunEvent::Warning { text });
            }
            self.prompt = Purpose::Nudge;
            self.look_again(conversation, shared);
            return None;
        }
        // The report is worth one try, not a night.
        if self.purpose == Purpose::Close {
            return Some(TurnEnd::Failed { class: outcome.class, why, stall: None });
        }
        let Some((step, stuck)) = self.circles.found.take() else {
            return Some(TurnEnd::Spiral { why });
        };
        let (prompt, action) = match step {
            Step::Nudge => (Purpose::Nudge, "interrupted, then a different prompt"),
            Step::Compact => (Purpose::Compact, "interrupted, then /compact and a different prompt"),
            Step::Fresh | Step::End => {
                return Some(TurnEnd::Spiral { why: self.circles.last_words(&stuck) });
            }
        };
        self.circles.circle = Some(Circle::from(&stuck));
        self.prompt = prompt;
        shared.effects.publish(RunEvent::Healed {
            session_id: conversation.id.clone(),
            class: outcome.class,
            action: action.to_owned(),
            why: stuck.why,
            recovery: self.circles.ladder.taken(),
            run_heal: None,
            delay_seconds: 0,
        });
        self.look_again(conversation, shared);
        None
    }

    /// A new conversation takes over: it is told of the circle, if that was the reason.
    pub(super) fn hand_circle_over(&mut self, class: Class) {
        let found = self.circles.found.take().filter(|_| class == Class::Stuck);
        self.circles.circle = found.map(|(_, stuck)| Circle::from(&stuck));
    }

    /// The recovery gave up. On a circle that is the last step.
    pub(super) fn gave_up_on_circle(&mut self, class: Class, why: &str) -> Option<TurnEnd> {
        if class != Class::Stuck || self.purpose == Purpose::Close {
            return None;
        }
        let words = self.circles.found.take().map(|(_, stuck)| self.circles.last_words(&stuck));
        Some(TurnEnd::Spiral { why: words.unwrap_or_else(|| why.to_owned()) })
    }
}
