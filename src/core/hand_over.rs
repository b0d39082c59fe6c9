//! What one session leaves to the next (design §5, upstream-formats §12).

use serde::{Deserialize, Serialize};

use super::session_report::{BlockedOn, SessionReport};
use super::signals::StateFields;

/// What the next session is told of the ones before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HandOver {
    /// Session it comes from.
    pub session_id: Option<String>,
    /// Where that session stopped, in its own words.
    pub summary: Option<String>,
    /// What was tried without success.
    pub do_not_retry: Vec<String>,
    /// What nobody has answered yet.
    pub open_questions: Vec<String>,
}

impl HandOver {
    /// What a session leaves, on top of what it was given itself: dead ends stay dead ends.
    #[must_use]
    pub fn after(&self, session_id: &str, report: Option<&SessionReport>) -> Self {
        let mut next = HandOver { session_id: Some(session_id.to_owned()), ..self.clone() };
        let Some(report) = report else { return next };
        next.summary.clone_from(&report.summary);
        add(&mut next.do_not_retry, &report.do_not_retry, DO_NOT_RETRY);
        let question = report.blocked_on.as_ref().and_then(BlockedOn::words);
        add(&mut next.open_questions, question.as_slice(), OPEN_QUESTIONS);
        next
    }

    /// Adds what another source knows, without doubling it.
    #[must_use]
    pub fn with(mut self, other: &HandOver) -> Self {
        self.summary = self.summary.or_else(|| other.summary.clone());
        self.session_id = self.session_id.or_else(|| other.session_id.clone());
        add(&mut self.do_not_retry, &other.do_not_retry, DO_NOT_RETRY);
        add(&mut self.open_questions, &other.open_questions, OPEN_QUESTIONS);
        self
    }
}

/// Bullets kept of `## What Not To Retry` (upstream-formats §5.5).
pub const DO_NOT_RETRY: usize = 10;
/// Bullets kept of `## Open Questions` (upstream-formats §5.5).
pub const OPEN_QUESTIONS: usize = 20;

/// Adds what is not there yet; the oldest make room.
fn add(list: &mut Vec<String>, more: &[String], cap: usize) {
    for item in more {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
    list.drain(..list.len().saturating_sub(cap));
}

/// What is written down when a session closes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Closing {
    /// Recommendation for the next session; empty when the session planned nothing that could be counted.
    pub fields: StateFields,
    /// For the prompt of the next session.
    pub hand_over: HandOver,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_ends_are_kept_once_and_the_oldest_make_room() {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let before = HandOver { do_not_retry: list(&["a", "b"]), ..HandOver::default() };
        let report = SessionReport {
            summary: Some("half".to_owned()),
            do_not_retry: list(&["b", "c"]),
            ..SessionReport::default()
        };
        let after = before.after("s1", Some(&report));
        assert_eq!(after.do_not_retry, list(&["a", "b", "c"]));
        assert_eq!((after.summary.as_deref(), after.session_id.as_deref()), (Some("half"), Some("s1")));

        let many: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        let report = SessionReport { do_not_retry: many.clone(), ..SessionReport::default() };
        assert_eq!(after.after("s2", Some(&report)).do_not_retry, many[2..]);
        assert_eq!(
            before.after("s3", None).do_not_retry,
            before.do_not_retry,
            "a lost session forgets nothing"
        );
    }

    #[test]
    fn a_question_stays_open_until_somebody_answers() {
        let report = SessionReport {
            blocked_on: Some(BlockedOn {
                question: Some("which?".to_owned()),
                options: vec!["a".to_owned(), "b".to_owned()],
            }),
            ..SessionReport::default()
        };
        let after = HandOver::default().after("s1", Some(&report));
        assert_eq!(after.open_questions, ["which? [options: a | b]"]);
        assert_eq!(after.clone().with(&after), after);
    }
}
