//! The course of a run in time: what the charts of the HTML report are drawn from.
//!
//! Bounded whatever the journal holds: a reading that says nothing new is dropped, and of more than
//! [`MAX_POINTS`] readings every second one is.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::core::outcome::Class;
use crate::core::published::{Purpose, RunEvent};

/// Readings of one kind that are kept.
const MAX_POINTS: usize = 2048;
/// A change of a usage window that is worth a point, as a share.
const WINDOW_STEP: f64 = 0.005;
/// Name of the signal that counts peers (design §7).
const PEERS: &str = "other Claude sessions";

/// What happened when.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Course {
    /// Processes that were started, in order.
    pub attempts: Vec<AttemptSpan>,
    /// How the machine was judged before sessions, in order.
    pub resources: Vec<ResourcePoint>,
    /// How far usage windows were used up, in order.
    pub windows: Vec<WindowPoint>,
    #[serde(skip)]
    now: Under,
}

/// What the next event belongs to.
#[derive(Debug, Clone, Default, PartialEq)]
struct Under {
    iteration: u32,
    turn: u32,
    purpose: Option<Purpose>,
}

/// The life of one process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptSpan {
    /// From 1 within the run.
    pub attempt: u32,
    /// Iteration, from 1.
    pub iteration: u32,
    /// Turn within the session, from 1; 0 = unknown.
    pub turn: u32,
    /// What the turn was for, when known.
    pub purpose: Option<Purpose>,
    /// When it was started.
    pub at: Timestamp,
    /// When it was gone; `None` = it is not, as far as is known.
    pub until: Option<Timestamp>,
    /// What ground truth says of it.
    pub class: Option<Class>,
}

/// How the machine was judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourcePoint {
    /// When.
    pub at: Timestamp,
    /// Most restrictive tier.
    pub tier: String,
    /// Sub-agents a wave may have.
    pub cap: u32,
    /// Name of the signal that decided.
    pub deciding: Option<String>,
    /// Other Claude sessions on the machine; `None` = unknown.
    pub peers: Option<u32>,
}

/// How far a usage window was used up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WindowPoint {
    /// When.
    pub at: Timestamp,
    /// Which window.
    pub window: String,
    /// 0 to 1.
    pub utilization: f64,
    /// `allowed`, `allowed_warning`, `rejected`.
    pub status: String,
    /// When it resets, if known.
    pub resets_at: Option<Timestamp>,
}

impl Course {
    pub(super) fn apply(&mut self, at: Timestamp, event: &RunEvent) {
        match event {
            RunEvent::SessionStarted { iteration, .. } => {
                self.now = Under { iteration: *iteration, turn: 0, purpose: None };
            }
            RunEvent::TurnStarted { turn, purpose, .. } => {
                (self.now.turn, self.now.purpose) = (*turn, Some(*purpose));
            }
            RunEvent::AttemptStarted { attempt, .. } => {
                let Under { iteration, turn, purpose } = self.now;
                let span =
                    AttemptSpan { attempt: *attempt, iteration, turn, purpose, at, until: None, class: None };
                self.attempts.push(span);
            }
            RunEvent::AttemptEnded { attempt, .. } => {
                if let Some(span) = self.span(*attempt) {
                    span.until = Some(at);
                }
            }
            RunEvent::OutcomeJudged { attempt, class, .. } => {
                if let Some(span) = self.span(*attempt) {
                    span.class = Some(*class);
                    span.until.get_or_insert(at);
                }
            }
            RunEvent::ResourcesJudged { tier, cap, deciding, signals, .. } => {
                let peers = signals.iter().find(|signal| signal.signal == PEERS);
                let peers = peers.and_then(|signal| signal.value.parse().ok());
                let (tier, cap, deciding) = (tier.clone(), *cap, deciding.clone());
                self.resources.push(ResourcePoint { at, tier, cap, deciding, peers });
                thin(&mut self.resources);
            }
            RunEvent::RateLimit { status, window, utilization: Some(used), resets_at }
                if used.is_finite() =>
            {
                let window = window.clone().unwrap_or_else(|| "unnamed".to_owned());
                self.window(WindowPoint {
                    at,
                    window,
                    utilization: *used,
                    status: status.clone(),
                    resets_at: *resets_at,
                });
            }
            _ => {}
        }
    }

    fn span(&mut self, attempt: u32) -> Option<&mut AttemptSpan> {
        self.attempts.iter_mut().rev().find(|span| span.attempt == attempt)
    }

    fn window(&mut self, point: WindowPoint) {
        let last = self.windows.iter().rev().take(64).find(|known| known.window == point.window);
        let same = last.is_some_and(|last| {
            (last.utilization - point.utilization).abs() < WINDOW_STEP
                && last.status == point.status
                && last.resets_at == point.resets_at
        });
        if !same {
            self.windows.push(point);
            thin(&mut self.windows);
        }
    }

    /// The readings of each window, in order, the window first read first.
    pub(super) fn by_window(&self) -> Vec<(&str, Vec<&WindowPoint>)> {
        let mut order: Vec<(&str, Vec<&WindowPoint>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for point in &self.windows {
            let place = *places.entry(&point.window).or_insert_with(|| {
                order.push((&point.window, Vec::new()));
                order.len() - 1
            });
            order[place].1.push(point);
        }
        order
    }
}

/// Drops every second of too many; the first and the newest stay.
fn thin<T>(points: &mut Vec<T>) {
    if points.len() > MAX_POINTS {
        let last = points.len() - 1;
        let mut at = 0;
        points.retain(|_| {
            let keep = at % 2 == 0 || at == last;
            at += 1;
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(window: &str, used: f64) -> RunEvent {
        RunEvent::RateLimit {
            status: "allowed".into(),
            window: Some(window.into()),
            resets_at: None,
            utilization: Some(used),
        }
    }

    #[test]
    fn readings_that_say_nothing_new_are_dropped() {
        let mut course = Course::default();
        let at = Timestamp::UNIX_EPOCH;
        for used in [0.1, 0.1, 0.102, 0.2, f64::NAN, 0.2] {
            course.apply(at, &limit("five_hour", used));
            course.apply(at, &limit("seven_day", 0.5));
        }
        let told: Vec<_> = course.windows.iter().map(|p| (p.window.as_str(), p.utilization)).collect();
        assert_eq!(told, [("five_hour", 0.1), ("seven_day", 0.5), ("five_hour", 0.2)]);
        assert_eq!(course.by_window().len(), 2);
    }

    #[test]
    fn a_journal_of_any_length_stays_small() {
        let mut course = Course::default();
        for n in 0..200_000_u32 {
            course.apply(Timestamp::UNIX_EPOCH, &limit("w", f64::from(n % 100) / 100.0));
        }
        assert!(course.windows.len() <= MAX_POINTS, "{}", course.windows.len());
        assert!((course.windows.last().unwrap().utilization - 0.99).abs() < 1e-9);
    }
}
