//! When a conversation is poisoned: broken in a way that makes every further attempt fail as the last one
//! (recovery §6).
//!
//! Two triggers, on one conversation: the same deterministic failure twice (three times, if each has words of
//! its own), or four failures of any kind in quick succession. Login, billing, limits and the network never
//! count: they say nothing of the conversation, and a new one would meet them as well.
//!
//! A poisoned conversation is left for a fresh one, at most one for each cause in a session, and not sooner than
//! ten minutes after the last one was left. This is committed in two steps: the departure uses nothing up until
//! the new conversation has *started*, so that a start that fails costs neither the cause nor the cooldown.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::core::outcome::Class;
use crate::core::time::Now;

/// The same deterministic failure so often is poison (recovery §6).
const SAME: u32 = 2;
/// Deterministic failures of one conversation after which it is left, even if each has words of its own
/// (field-reports G00: the wordings do not end).
const DETERMINISTIC: u32 = 3;
/// So many failures in quick succession are poison, whatever they are (recovery §6).
const RAPID: u32 = 4;
/// A pause between two failures that ends a quick succession (recovery §6).
const RAPID_GAP: Duration = Duration::from_mins(3);
/// From one departure to the next (recovery §6).
pub(super) const COOLDOWN: Duration = Duration::from_mins(10);
/// New conversations that may fail to start before a cause counts as used up.
const FAILED_STARTS: u32 = 2;

/// What the failures of a run's conversations add up to.
#[derive(Debug, Clone, Default)]
pub struct Poison {
    /// The conversation the counts are about.
    anchor: String,
    /// Words of its last deterministic failure, without what differs from time to time.
    signature: Option<String>,
    same: u32,
    deterministic: u32,
    rapid: u32,
    last_failure: Option<Now>,
    /// When a poisoned conversation was left last.
    left_at: Option<Timestamp>,
    /// Causes of this session for which a fresh conversation has started.
    used: Vec<Class>,
    /// A departure whose new conversation has not started yet.
    pending: Option<Departure>,
    /// Departures of this session that were begun, by cause.
    begun: BTreeMap<Class, u32>,
    /// The next session is one that goes on (`resume`).
    goes_on: bool,
}

/// A conversation that is being left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Its id.
    pub session_id: String,
    /// What for.
    pub class: Class,
    /// In words.
    pub why: String,
}

impl Poison {
    /// What a run that goes on (`resume`) had come to: when a poisoned conversation was left last, and for which
    /// causes the session under way has left one.
    #[must_use]
    pub fn reopened(left_at: Option<Timestamp>, used: Vec<Class>) -> Self {
        Poison { left_at, used, goes_on: true, ..Poison::default() }
    }

    /// A session begins: each cause may be tried once more.
    pub fn begin_session(&mut self) {
        if !std::mem::take(&mut self.goes_on) {
            *self = Poison { left_at: self.left_at, ..Poison::default() };
        }
    }

    /// A deterministic failure; whether the conversation is poisoned.
    pub fn deterministic(&mut self, now: Now, session_id: &str, words: &str) -> bool {
        let rapid = self.failed(now, session_id);
        let signature = without_numbers(words);
        let again = self.signature.as_ref() == Some(&signature);
        self.same = if again { self.same + 1 } else { 1 };
        self.signature = Some(signature);
        self.deterministic += 1;
        rapid || self.same >= SAME || self.deterministic >= DETERMINISTIC
    }

    /// A failure that may pass; whether the conversation is poisoned.
    pub fn failed(&mut self, now: Now, session_id: &str) -> bool {
        if self.anchor != session_id {
            session_id.clone_into(&mut self.anchor);
            (self.signature, self.same, self.deterministic, self.rapid) = (None, 0, 0, 0);
            self.last_failure = None;
        }
        if self.last_failure.is_some_and(|last| now.since(last) > RAPID_GAP) {
            self.rapid = 0;
        }
        self.rapid += 1;
        self.last_failure = Some(now);
        self.rapid >= RAPID
    }

    /// How long the cooldown still lasts.
    #[must_use]
    pub fn cooldown(&self, now: Now) -> Duration {
        let Some(left_at) = self.left_at else { return Duration::ZERO };
        let since = now.wall.duration_since(left_at);
        // A clock that was set back does not lengthen it.
        COOLDOWN.saturating_sub(Duration::try_from(since).unwrap_or_default())
    }

    /// Begins to leave a conversation; `false` when that cause is used up.
    pub fn leave(&mut self, session_id: &str, class: Class, why: &str) -> bool {
        let begun = self.begun.entry(class).or_default();
        if self.used.contains(&class) || *begun > FAILED_STARTS {
            return false;
        }
        *begun += 1;
        // One that never started is no conversation that could be left.
        let session_id = match &self.pending {
            Some(pending) => pending.session_id.clone(),
            None => session_id.to_owned(),
        };
        self.pending = Some(Departure { session_id, class, why: why.to_owned() });
        true
    }

    /// The conversation that is being left, as long as the new one has not started.
    #[must_use]
    pub fn departure(&self) -> Option<&Departure> {
        self.pending.as_ref()
    }

    /// The new conversation has started: now it counts.
    pub fn commit(&mut self, now: Now) -> Option<Departure> {
        let departure = self.pending.take()?;
        self.used.push(departure.class);
        if is_poison(departure.class) {
            self.left_at = Some(now.wall);
        }
        Some(departure)
    }
}

/// Whether the cooldown is about it: a full context is no poison, and a lost conversation neither.
#[must_use]
pub fn is_poison(class: Class) -> bool {
    matches!(class, Class::PoisonedSession | Class::UnknownError)
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Now {
        let wall = Timestamp::from_second(1_790_000_000 + i64::try_from(seconds).unwrap()).unwrap();
        Now { mono: Duration::from_secs(seconds), wall }
    }

    #[test]
    fn words_without_what_differs() {
        for (a, b) in [
            ("messages.7.content.2: `thinking` blocks", "messages.19.content.0: `thinking` blocks"),
            ("tool_use ids toolu_01AbC without result", "tool_use ids toolu_99Xy without result"),
            ("request req_1b2c failed", "request req_77aa failed"),
        ] {
            assert_eq!(without_numbers(a), without_numbers(b));
        }
        assert_ne!(without_numbers("prompt is too long"), without_numbers("image is too large"));
    }

    #[test]
    fn the_same_words_twice_or_four_failures_in_quick_succession() {
        let mut poison = Poison::default();
        assert!(!poison.deterministic(at(0), "a", "messages.1: bad"));
        assert!(poison.deterministic(at(9000), "a", "messages.2: bad"), "gaps do not clear it");
        // Another conversation begins at nothing.
        assert!(!poison.deterministic(at(9001), "b", "messages.2: bad"));
        assert!(!poison.deterministic(at(9002), "b", "other"));
        assert!(poison.deterministic(at(9003), "b", "one more"));

        let mut poison = Poison::default();
        let mut fails = |seconds: u64| poison.failed(at(seconds), "a");
        assert!(!fails(0) && !fails(5) && !fails(35) && fails(35 + 180));
        let mut poison = Poison::default();
        let mut fails = |seconds: u64| poison.failed(at(seconds), "a");
        assert!(!fails(0) && !fails(5) && !fails(35) && !fails(35 + 181) && !fails(300) && !fails(400));
        assert!(fails(500));
    }

    #[test]
    fn one_departure_a_cause_and_only_a_start_counts() {
        let mut poison = Poison::default();
        assert_eq!(poison.commit(at(0)), None);
        // Two that do not start, and one that does.
        for id in ["a", "b", "c"] {
            assert!(poison.leave(id, Class::PoisonedSession, "why"), "{id}");
            assert_eq!(poison.departure().unwrap().session_id, "a", "the one that had started");
            assert_eq!(poison.cooldown(at(0)), Duration::ZERO);
        }
        assert!(!poison.leave("d", Class::PoisonedSession, "why"), "not for ever");
        let departure =
            Departure { session_id: "a".into(), class: Class::PoisonedSession, why: "why".into() };
        assert_eq!(poison.commit(at(100)), Some(departure));
        assert_eq!(poison.cooldown(at(101)), Duration::from_secs(599));
        assert_eq!(poison.cooldown(at(700)), Duration::ZERO);
        assert_eq!(poison.cooldown(at(0)), COOLDOWN, "a clock that was set back");
        // Another cause is another matter; the cooldown is about poison alone.
        assert!(poison.leave("e", Class::ContextFull, "full"));
        poison.commit(at(5000));
        assert_eq!(poison.cooldown(at(5000)), Duration::ZERO);
        // The next session may leave one again, after the cooldown.
        poison.begin_session();
        assert!(poison.leave("f", Class::PoisonedSession, "why"));
        assert_eq!(poison.cooldown(at(101)), Duration::from_secs(599));
        // So it is after a `resume`.
        let mut poison = Poison::reopened(Some(at(100).wall), vec![Class::ContextFull]);
        assert_eq!(poison.cooldown(at(400)), Duration::from_mins(5));
        assert!(
            !poison.leave("g", Class::ContextFull, "full") && poison.leave("g", Class::NoSession, "gone")
        );
    }

    proptest! {
        /// Failures that lie further apart than the gap never add up to a quick succession.
        #[test]
        fn slow_failures_never_trip(gaps in proptest::collection::vec(181_u64..5000, 0..40)) {
            let mut poison = Poison::default();
            let mut clock = 0;
            for gap in gaps {
                clock += gap;
                prop_assert!(!poison.failed(at(clock), "a"));
            }
        }
    }
}
