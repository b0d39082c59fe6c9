//! Context pressure: how much the work at hand would fill a session (upstream-formats §6.6).
//!
//! The order of the sums and the points where they are rounded are upstream's; see [`super::compatible`].

use super::super::mode::{Pressure, PressureLevel};
use super::super::signals::{SessionFacts, Signals};
use super::{clamp, round2};

/// Sessions whose carry-over counts.
const SESSIONS: usize = 5;
/// Carry-over that is nothing special.
const USUAL_CARRYOVER: f64 = 0.3;
/// What a phrase of work that cuts across everything adds.
const KEYWORDS: f64 = 0.25;

/// The pressure, and the terms of its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    pub(super) pressure: Pressure,
    scope: f64,
    keywords: f64,
    carryover: f64,
}

impl Reading {
    /// One line for the reasons.
    pub(super) fn explain(&self) -> String {
        let Reading { pressure: Pressure { level, score }, scope, keywords, carryover } = self;
        format!(
            "context pressure: {} {score} = scope {} + keywords {} + carry-over {}",
            level.as_str(),
            round2(*scope),
            round2(*keywords),
            round2(*carryover)
        )
    }
}

/// Reads it off the signals. What is missing adds nothing.
pub(super) fn read(signals: &Signals) -> Reading {
    let priorities = signals.state.top_priorities.as_ref().map_or(0, Vec::len);
    #[expect(clippy::cast_precision_loss, reason = "a list of priorities is far shorter than 2^52")]
    let scope = clamp((priorities as f64 - 3.0) / 10.0, 0.0, 0.5);
    let keywords = if signals.task_text.as_deref().is_some_and(cuts_across) { KEYWORDS } else { 0.0 };
    let carryover = clamp(usual_carryover(&signals.recent_sessions) - USUAL_CARRYOVER, 0.0, 0.25);
    let total = round2(clamp(scope + keywords + carryover, 0.0, 1.0));
    let level = if total < 0.3 {
        PressureLevel::Low
    } else if total < 0.7 {
        PressureLevel::Medium
    } else {
        PressureLevel::High
    };
    Reading { pressure: Pressure { level, score: total }, scope, keywords, carryover }
}

/// Whether anything says something about the pressure. If not, it has no influence on a score, not even where
/// a low one is a bonus (upstream-formats §6.5, last row).
pub(super) fn is_known(signals: &Signals) -> bool {
    signals.state.top_priorities.is_some()
        || signals.task_text.as_deref().is_some_and(|text| !text.is_empty())
        || signals.recent_sessions.iter().any(|session| session.has_effectiveness)
}

/// Mean of carry-over to plan over the sessions that have both; 0 without any.
fn usual_carryover(sessions: &[SessionFacts]) -> f64 {
    let last = &sessions[sessions.len().saturating_sub(SESSIONS)..];
    let mut sum = 0.0;
    let mut count = 0.0;
    for session in last {
        if let (Some(carryover), Some(planned)) = (session.carryover, session.planned)
            && carryover.is_finite()
            && planned.is_finite()
            && planned > 0.0
        {
            sum += carryover / planned;
            count += 1.0;
        }
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Phrases of work that touches everything, whatever their case.
fn cuts_across(text: &str) -> bool {
    const PHRASES: [&str; 9] = [
        "across all",
        "every skill",
        "every agent",
        "every repo",
        "repo-wide",
        "repowide",
        "cross-cutting",
        "rename across",
        "massive refactor",
    ];
    let text = text.to_ascii_lowercase();
    PHRASES.iter().any(|phrase| text.contains(phrase))
}
