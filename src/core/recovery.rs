//! Outcome → action: the recovery of a turn (design §6, recovery §1.8–1.9).
//!
//! Two questions are kept apart: whether a turn may be tried again (its class and history say so) and with
//! what (the transcript says so: nothing ran → the same prompt; the reply landed → adopt it; partly done →
//! the reconcile prompt). What cannot succeed is not retried; what only needs waiting is not given up.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::evidence::Evidence;
use super::fact::TurnResult;
use super::judge::Outcome;
use super::outcome::Class;
use super::published::Purpose;
use super::run::OpenLimit;
use super::time::Now;
use super::transcript_digest::{Ended, Growth, TurnOver};
pub use limit::Waits;
pub use poison::{Departure, Poison, is_poison};

mod limit;
mod poison;

/// How often a turn may be continued after `--max-turns` (field-reports D09: while the budget lasts, with a
/// counter of our own as backstop).
const MAX_TURN_CONTINUES: u32 = 5;

/// What this turn has already been through.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Recoveries used by crashes, hangs and passing failures.
    pub recoveries: u32,
    /// The full context was compacted once; that is not tried again.
    pub compacted: bool,
    /// An id that is taken was looked at once more.
    pub id_taken: bool,
    /// Continues after `--max-turns`.
    pub turn_continues: u32,
    /// Continues after background work was cut.
    pub background_continues: u32,
    /// Waits for usage limits that may still hold.
    pub limits: Waits,
}

/// What to do after an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The turn is over.
    Accept {
        /// Why, when that is not obvious.
        why: Option<String>,
    },
    /// Try again.
    Again {
        /// With which prompt; `None` = the same one.
        prompt: Option<Purpose>,
        /// In a new conversation.
        fresh: bool,
        /// After this pause.
        after: Duration,
        /// Why.
        why: String,
    },
    /// Sleep; uses up no attempt.
    WaitForLimit(OpenLimit),
    /// A person has to do something; nothing else will help.
    NeedsPerson {
        /// The class that says what.
        class: Class,
        /// Why.
        why: String,
    },
    /// The session is over, without having finished.
    GiveUp {
        /// Why.
        why: String,
    },
}

/// Settings of the recovery.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Pauses before the recoveries of a turn.
    pub backoff: Vec<Duration>,
    /// Pauses before the heals of a run; their number is the limit (recovery §4.2).
    pub heals: Vec<Duration>,
    /// Longest sleep for a usage limit, all its waits together.
    pub max_wait: Duration,
    /// The zone of a reset time that names none.
    pub time_zone: TimeZone,
}

/// What is decided on.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// When.
    pub now: Now,
    /// The conversation.
    pub session_id: &'a str,
    /// What ground truth says.
    pub outcome: &'a Outcome,
    /// What it is judged from.
    pub evidence: &'a Evidence,
    /// Settings.
    pub policy: &'a Policy,
    /// Added to a limit's reset.
    pub jitter: Duration,
}

/// Decides, and notes in `history` and `poison` what the decision uses up.
pub fn decide(case: Case<'_>, history: &mut History, poison: &mut Poison) -> Action {
    let Case { now, outcome, evidence, policy, jitter, .. } = case;
    let why = outcome.reasons.join("; ");
    if outcome.class != Class::UsageLimit {
        history.limits = Waits::default();
    }
    match outcome.class {
        Class::Ok | Class::OkExitAnomaly | Class::Denied | Class::Budget | Class::HungAfterResult => {
            Action::Accept { why: None }
        }
        Class::Auth
        | Class::Billing
        | Class::ModelUnavailable
        | Class::EnvRefused
        | Class::Disk
        | Class::Blocked => Action::NeedsPerson { class: outcome.class, why },
        Class::UsageLimit => limit::wait(now, evidence, &mut history.limits, policy, jitter, why),
        Class::IncompleteBackground => {
            history.background_continues += 1;
            if history.background_continues > 1 {
                Action::Accept { why: Some(why) }
            } else {
                again(Some(Purpose::Continue), false, Duration::ZERO, why)
            }
        }
        Class::MaxTurns | Class::OutputLimit => {
            history.turn_continues += 1;
            if history.turn_continues > MAX_TURN_CONTINUES {
                Action::GiveUp { why: format!("{why}; continued {MAX_TURN_CONTINUES} times already") }
            } else {
                again(Some(Purpose::Continue), false, Duration::ZERO, why)
            }
        }
        Class::PoisonedSession => same_again(case, poison, why),
        Class::UnknownError if failed_without_a_turn(evidence) => same_again(case, poison, why),
        // A conversation that has been compacted loses less than one that is left (field-reports G05).
        Class::ContextFull if !history.compacted && !compacted_in_vain(evidence, &why) => {
            history.compacted = true;
            again(Some(Purpose::Compact), false, Duration::ZERO, why)
        }
        Class::ContextFull | Class::PolicyRefusal | Class::NoSession | Class::Stuck => {
            fresh_once(case, outcome.class, poison, &why)
        }
        // Look again: with messages in it the conversation is resumed, else it gets a new id (H03, H13).
        Class::SessionInUse if !history.id_taken => {
            history.id_taken = true;
            again(None, false, Duration::ZERO, why)
        }
        Class::SessionInUse | Class::NoWork | Class::KilledByDriver => Action::GiveUp { why },
        Class::Incomplete
        | Class::StartupHang
        | Class::Stalled
        | Class::TransientApi
        | Class::BinaryMissing
        | Class::KilledByOther
        | Class::UnknownError => recover(case, history, poison, why),
    }
}

/// So long an attempt has to live for the heals of the run to be refilled (design §6).
pub const HEALTHY: Duration = Duration::from_mins(15);

/// A heal of the run: what a turn gave up is tried again after minutes instead of seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heal {
    /// With which prompt; `None` = the same one.
    pub prompt: Option<Purpose>,
    /// After this pause.
    pub after: Duration,
}

/// Whether a turn that was given up is worth a heal of the run, `used` of which are gone (recovery §4.2). Only
/// what may be different in some minutes is: crashes, hangs, passing failures. A conversation that fails the
/// same way every time is not, and neither is what needs a person.
#[must_use]
pub fn heal(outcome: &Outcome, evidence: &Evidence, policy: &Policy, used: u32) -> Option<Heal> {
    let passes = match outcome.class {
        Class::Incomplete
        | Class::StartupHang
        | Class::Stalled
        | Class::TransientApi
        | Class::KilledByOther => true,
        Class::UnknownError => !failed_without_a_turn(evidence),
        Class::Ok
        | Class::OkExitAnomaly
        | Class::IncompleteBackground
        | Class::HungAfterResult
        | Class::UsageLimit
        | Class::Auth
        | Class::Billing
        | Class::ModelUnavailable
        | Class::PolicyRefusal
        | Class::PoisonedSession
        | Class::ContextFull
        | Class::OutputLimit
        | Class::MaxTurns
        | Class::Budget
        | Class::Denied
        | Class::NoWork
        | Class::NoSession
        | Class::SessionInUse
        | Class::EnvRefused
        | Class::BinaryMissing
        | Class::Disk
        | Class::Blocked
        | Class::Stuck
        | Class::KilledByDriver => false,
    };
    let after = *policy.heals.get(used as usize).filter(|_| passes)?;
    let prompt = ran(evidence).then_some(Purpose::Reconcile);
    Some(Heal { prompt, after })
}

/// Whether the model got as far as doing something, as far as is known.
fn ran(evidence: &Evidence) -> bool {
    match &evidence.digest {
        // A tool that ran has done something, whether it was written down or not.
        Some(digest) => digest.model_ran().unwrap_or(true) || evidence.tool_calls > 0,
        None => evidence.tool_calls > 0 || !evidence.text.is_empty(),
    }
}

/// The table of recovery §1.9.
fn recover(case: Case<'_>, history: &mut History, poison: &mut Poison, why: String) -> Action {
    let Case { evidence, policy, .. } = case;
    let class = case.outcome.class;
    let digest = evidence.digest.as_ref();
    if let Some(digest) = digest
        && evidence.result.is_none()
        && matches!(digest.growth, Growth::Grown { .. })
        // Text without a stop reason may be the first words of a message that was to go on with a tool call.
        && matches!(digest.turn_over, TurnOver::Over { by: Ended::StopReason(_) | Ended::StructuredOutput })
        && (digest.reply.is_some() || digest.structured_output.is_some())
    {
        return Action::Accept { why: Some(format!("{why}; the reply stands complete in the transcript")) };
    }
    // The network and a program that is missing say nothing of the conversation (recovery §6).
    if !matches!(class, Class::TransientApi | Class::BinaryMissing)
        && poison.failed(case.now, case.session_id)
        && let Some(action) = leave(case, Class::PoisonedSession, poison, &why)
    {
        return action;
    }
    let why = match digest.map(|digest| digest.growth) {
        // Told, because the conversation that goes on will not know what it did (field-reports I10, I16).
        Some(Growth::Shrunk { by }) => {
            format!("{why}; the transcript is {by} bytes shorter than before the turn")
        }
        Some(Growth::Unchanged) if evidence.tool_calls > 0 => format!(
            "{why}; the transcript did not grow: the conversation will not remember {} tool calls",
            evidence.tool_calls
        ),
        Some(Growth::Unchanged | Growth::Grown { .. }) | None => why,
    };
    let Some(after) = policy.backoff.get(history.recoveries as usize).copied() else {
        let tried = history.recoveries;
        return if class == Class::BinaryMissing {
            Action::NeedsPerson { class, why }
        } else {
            Action::GiveUp { why: format!("{why}; {tried} recoveries did not help") }
        };
    };
    history.recoveries += 1;
    // Shorter than it was: nothing can be concluded from it (recovery §1.6).
    if digest.is_some_and(|digest| matches!(digest.growth, Growth::Shrunk { .. })) {
        return again(Some(Purpose::Reconcile), true, after, why);
    }
    match (ran(evidence), class) {
        (false, _) => again(None, false, after, why),
        (true, Class::TransientApi) => again(Some(Purpose::Continue), false, after, why),
        (true, _) => again(Some(Purpose::Reconcile), false, after, why),
    }
}

/// A failure that will probably be the same for ever: twice leaves the conversation.
fn same_again(case: Case<'_>, poison: &mut Poison, why: String) -> Action {
    if poison.deterministic(case.now, case.session_id, &why) {
        fresh_once(case, case.outcome.class, poison, &why)
    } else {
        // One retry of the same conversation: some of these pass by themselves (field-reports G07).
        again(None, false, case.policy.backoff.first().copied().unwrap_or_default(), why)
    }
}

/// The CLI has tried to compact the conversation by itself, and says so (field-reports G08).
fn compacted_in_vain(evidence: &Evidence, why: &str) -> bool {
    let thrashes = |result: &TurnResult| result.terminal_reason.as_deref() == Some("rapid_refill_breaker");
    evidence.result.as_ref().is_some_and(thrashes) || why.to_lowercase().contains("compact")
}

/// An error result before the model had a turn: what is the same twice is as deterministic as a 400
/// (field-reports G00).
fn failed_without_a_turn(evidence: &Evidence) -> bool {
    evidence.result.as_ref().is_some_and(|result| result.is_error && result.num_turns == Some(0))
}

fn again(prompt: Option<Purpose>, fresh: bool, after: Duration, why: String) -> Action {
    Action::Again { prompt, fresh, after, why }
}

fn fresh_once(case: Case<'_>, class: Class, poison: &mut Poison, why: &str) -> Action {
    match leave(case, class, poison, why) {
        Some(action) => action,
        None => Action::GiveUp { why: format!("{why}; a fresh conversation met the same") },
    }
}

/// Leaves the conversation for a fresh one, after the cooldown; `None` when that cause is used up.
fn leave(case: Case<'_>, class: Class, poison: &mut Poison, why: &str) -> Option<Action> {
    if !poison.leave(case.session_id, class, why) {
        return None;
    }
    let after = if poison::is_poison(class) { poison.cooldown(case.now) } else { Duration::ZERO };
    Some(again(Some(Purpose::Reconcile), true, after, why.to_owned()))
}

#[cfg(test)]
mod tests;
