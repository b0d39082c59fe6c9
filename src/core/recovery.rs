//! Outcome → action: the recovery of a turn (design §6, recovery §1.8–1.9).
//!
//! Two questions are kept apart: whether a turn may be tried again (its class and history say so) and with
//! what (the transcript says so: nothing ran → the same prompt; the reply landed → adopt it; partly done →
//! the reconcile prompt). What cannot succeed is not retried; what only needs waiting is not given up.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::evidence::Evidence;
use super::judge::Outcome;
use super::outcome::Class;
use super::published::Purpose;
use super::time::Now;
use super::transcript_digest::{Ended, Growth, TurnOver};

/// How often a turn may be continued after `--max-turns` (field-reports D09: while the budget lasts, with a
/// counter of our own as backstop).
const MAX_TURN_CONTINUES: u32 = 5;
/// Pause before asking again when a limit does not say when it resets (recovery §4.5).
const UNKNOWN_RESET: Duration = Duration::from_mins(5);
/// Deterministic failures of one conversation after which it is left, even if each has words of its own
/// (field-reports G00: the wordings do not end).
const MOST_POISONINGS: u32 = 3;
/// Longest of the growing pauses while a limit that should be over still holds (field-reports E06).
const LONGEST_PROBE_PAUSE: Duration = Duration::from_hours(1);

/// What this turn has already been through.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Recoveries used by crashes, hangs and passing failures.
    pub recoveries: u32,
    /// Causes for which a fresh conversation was already started; one each.
    pub fresh_starts: BTreeSet<Class>,
    /// The last deterministic failure of this conversation, with digits and ids removed (field-reports G00).
    pub last_poison: Option<String>,
    /// Deterministic failures of this conversation, whatever their words.
    pub poisonings: u32,
    /// Continues after `--max-turns`.
    pub turn_continues: u32,
    /// Continues after background work was cut.
    pub background_continues: u32,
    /// Waits for a usage limit in a row.
    pub limit_waits: u32,
    /// Of them those that had no reset to aim at.
    pub limit_probes: u32,
    /// The reset that was said last.
    pub last_reset: Option<Timestamp>,
    /// What the waits add up to.
    pub limit_waited: Duration,
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
    WaitForLimit {
        /// Until when.
        until: Timestamp,
        /// Which window.
        window: Option<String>,
        /// The words of the limit.
        why: String,
    },
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
    /// Longest sleep for a usage limit.
    pub max_wait: Duration,
}

/// Decides, and notes in `history` what the decision uses up.
pub fn decide(
    now: Now,
    outcome: &Outcome,
    evidence: &Evidence,
    history: &mut History,
    policy: &Policy,
    jitter: Duration,
) -> Action {
    let why = outcome.reasons.join("; ");
    if outcome.class != Class::UsageLimit {
        history.limit_waits = 0;
        history.limit_probes = 0;
        history.limit_waited = Duration::ZERO;
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
        Class::UsageLimit => wait_for_limit(now, evidence, history, policy, jitter, why),
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
        Class::PoisonedSession => same_again(outcome.class, history, policy, why),
        Class::UnknownError if failed_without_a_turn(evidence) => {
            same_again(outcome.class, history, policy, why)
        }
        Class::ContextFull | Class::PolicyRefusal | Class::NoSession | Class::Stuck => {
            fresh_once(outcome.class, history, why)
        }
        // Look again: with messages in it the conversation is resumed, else it gets a new id (H03, H13).
        Class::SessionInUse if history.fresh_starts.insert(outcome.class) => {
            again(None, false, Duration::ZERO, why)
        }
        Class::SessionInUse | Class::NoWork | Class::KilledByDriver => Action::GiveUp { why },
        Class::Incomplete
        | Class::StartupHang
        | Class::Stalled
        | Class::TransientApi
        | Class::BinaryMissing
        | Class::KilledByOther
        | Class::UnknownError => recover(outcome.class, evidence, history, policy, why),
    }
}

/// The table of recovery §1.9.
fn recover(class: Class, evidence: &Evidence, history: &mut History, policy: &Policy, why: String) -> Action {
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
    let ran = match digest {
        Some(digest) => digest.model_ran().unwrap_or(true),
        None => evidence.tool_calls > 0 || !evidence.text.is_empty(),
    };
    match (ran, class) {
        (false, _) => again(None, false, after, why),
        (true, Class::TransientApi) => again(Some(Purpose::Continue), false, after, why),
        (true, _) => again(Some(Purpose::Reconcile), false, after, why),
    }
}

/// A failure that will probably be the same for ever: the same words twice leave the conversation.
fn same_again(class: Class, history: &mut History, policy: &Policy, why: String) -> Action {
    let signature = without_numbers(&why);
    history.poisonings += 1;
    if history.last_poison.as_ref() == Some(&signature) || history.poisonings >= MOST_POISONINGS {
        fresh_once(class, history, why)
    } else {
        // One retry of the same conversation: some of these pass by themselves (field-reports G07).
        history.last_poison = Some(signature);
        again(None, false, policy.backoff.first().copied().unwrap_or_default(), why)
    }
}

/// An error result before the model had a turn: what is the same twice is as deterministic as a 400
/// (field-reports G00).
fn failed_without_a_turn(evidence: &Evidence) -> bool {
    evidence.result.as_ref().is_some_and(|result| result.is_error && result.num_turns == Some(0))
}

fn again(prompt: Option<Purpose>, fresh: bool, after: Duration, why: String) -> Action {
    Action::Again { prompt, fresh, after, why }
}

fn fresh_once(class: Class, history: &mut History, why: String) -> Action {
    if history.fresh_starts.insert(class) {
        history.last_poison = None;
        history.poisonings = 0;
        again(Some(Purpose::Reconcile), true, Duration::ZERO, why)
    } else {
        Action::GiveUp { why: format!("{why}; a fresh conversation met the same") }
    }
}

fn wait_for_limit(
    now: Now,
    evidence: &Evidence,
    history: &mut History,
    policy: &Policy,
    jitter: Duration,
    why: String,
) -> Action {
    let rejected = evidence.rejected_window();
    let window = rejected.and_then(|limit| limit.window.clone());
    history.limit_waits += 1;
    let reset = rejected.and_then(|limit| limit.resets_at);
    let waited_for = std::mem::replace(&mut history.last_reset, reset);
    let pause = match reset {
        Some(reset) if reset > now.wall => now.until_wall(reset) + jitter,
        // Just passed, and not the one that was waited for already: ask again soon.
        Some(reset) if waited_for != Some(reset) => jitter.max(Duration::from_secs(5)),
        // Not said, or passed and still limited: ask less and less often (field-reports E06).
        Some(_) | None => {
            let pause = UNKNOWN_RESET.saturating_mul(1 << history.limit_probes.min(8));
            history.limit_probes += 1;
            pause.min(LONGEST_PROBE_PAUSE)
        }
    };
    history.limit_waited = history.limit_waited.saturating_add(pause);
    // A limit that goes on holding after its reset is bounded as well (field-reports E06).
    if history.limit_waited > policy.max_wait {
        let minutes = pause.as_secs() / 60;
        return Action::NeedsPerson {
            class: Class::UsageLimit,
            why: if history.limit_waits > 1 {
                format!("{why}; it still holds, and {minutes} min more would be beyond --max-wait")
            } else {
                format!("{why}; it resets in {minutes} min, beyond --max-wait")
            },
        };
    }
    let until = now.wall.checked_add(pause).unwrap_or(Timestamp::MAX);
    Action::WaitForLimit { until, window, why }
}

/// The words of a failure without what differs from time to time: digits and hexadecimal ids
/// (field-reports G00, G07).
fn without_numbers(words: &str) -> String {
    words
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
        .filter(|word| !word.is_empty() && !word.chars().any(|c| c.is_ascii_digit()))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests;
