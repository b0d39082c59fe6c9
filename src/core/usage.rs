//! The account's usage windows as this run saw them, and the reserve that is to be kept of each.
//!
//! Limits are per window and some per model (field-reports E02): a reading is kept for each window and model, so that one
//! is never taken for another. A reading is worth something until its window resets.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::fact::{Fact, RateLimit};

/// How long a window is when an event does not say when it ends: no longer than this.
fn length(name: &str) -> Duration {
    Duration::from_hours(if name == "five_hour" { 5 } else { 7 * 24 })
}

/// The last known state of a window.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    /// `five_hour`, `seven_day`, …
    pub(super) name: String,
    /// Used share, 1 is all.
    pub(super) utilization: f64,
    /// When it resets, if known.
    pub(super) resets_at: Option<Timestamp>,
    /// When it was read.
    read_at: Timestamp,
}

impl Reading {
    fn has_reset(&self, now: Timestamp) -> bool {
        match self.resets_at {
            Some(reset) => reset <= now,
            None => self.read_at.saturating_add(length(&self.name)).is_ok_and(|end| end <= now),
        }
    }
}

/// All windows.
#[derive(Debug, Default)]
pub(super) struct UsageWindows {
    /// By window and by the model that was in use.
    read: BTreeMap<(String, Option<String>), Reading>,
    model: Option<String>,
}

impl UsageWindows {
    /// Takes a fact in; most say nothing of usage.
    pub(super) fn take(&mut self, now: Timestamp, fact: &Fact) {
        match fact {
            Fact::Initialised(init) => self.model.clone_from(&init.model),
            Fact::RateLimit(limit) => self.note(now, limit),
            Fact::Text { .. }
            | Fact::ToolStarted { .. }
            | Fact::ToolEnded { .. }
            | Fact::Usage { .. }
            | Fact::ApiRetry(_)
            | Fact::ApiError { .. }
            | Fact::TaskStarted { .. }
            | Fact::TaskEnded { .. }
            | Fact::Denied { .. }
            | Fact::Result(_)
            | Fact::Anomaly { .. }
            | Fact::Asked(_)
            | Fact::Heartbeat => {}
        }
    }

    fn note(&mut self, now: Timestamp, limit: &RateLimit) {
        for window in limit.windows.iter().filter(|window| Some(&window.name) != limit.window.as_ref()) {
            self.set(now, &window.name, window.utilization, window.resets_at);
        }
        if let Some(name) = &limit.window {
            // What is rejected is used up, whether that is said or not.
            let full = (limit.status == "rejected").then_some(1.0);
            self.set(now, name, limit.utilization.or(full), limit.resets_at);
        }
    }

    fn set(&mut self, now: Timestamp, name: &str, utilization: Option<f64>, resets_at: Option<Timestamp>) {
        let Some(utilization) = utilization.filter(|used| used.is_finite()) else { return };
        let reading = Reading { name: name.to_owned(), utilization, resets_at, read_at: now };
        self.read.insert((name.to_owned(), self.model.clone()), reading);
    }

    /// The fullest window of which less than `reserve` percent is left, if there is one; 0 = no reserve.
    pub(super) fn beyond_reserve(&self, now: Timestamp, reserve: f64) -> Option<Reading> {
        self.read
            .iter()
            .filter(|((_, model), _)| reserve > 0.0 && *model == self.model)
            .map(|(_, reading)| reading)
            // Half a thousandth: 0.9 of 1.0 is 90 percent.
            .filter(|reading| reading.utilization * 100.0 + 0.0005 >= 100.0 - reserve)
            .filter(|reading| !reading.has_reset(now))
            .max_by(|a, b| a.utilization.total_cmp(&b.utilization))
            .cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fact::{Initialised, UsageWindow};

    const HOUR: i64 = 3600;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).unwrap()
    }

    fn limit(status: &str, window: &str, utilization: Option<f64>, resets_in: Option<i64>) -> Fact {
        Fact::RateLimit(RateLimit {
            status: status.to_owned(),
            window: Some(window.to_owned()),
            resets_at: resets_in.map(at),
            utilization,
            ..RateLimit::default()
        })
    }

    fn on(model: &str) -> Fact {
        Fact::Initialised(Initialised { model: Some(model.to_owned()), ..Initialised::default() })
    }

    /// The window that ends a run with this reserve, that many seconds after `facts`.
    #[track_caller]
    fn check(facts: &[Fact], reserve: f64, after: i64, expected: Option<&str>) {
        let mut windows = UsageWindows::default();
        for fact in facts {
            windows.take(at(0), fact);
        }
        let found = windows.beyond_reserve(at(after), reserve).map(|reading| reading.name);
        assert_eq!(found.as_deref(), expected, "{facts:?} with {reserve} after {after}");
    }

    #[test]
    fn a_window_counts_from_its_reserve_until_its_reset() {
        let used = |part| [limit("allowed", "five_hour", Some(part), Some(HOUR))];
        for (part, reserve, expected) in [
            (0.92, 10.0, true),
            (0.9, 10.0, true),
            (0.89, 10.0, false),
            (1.0, 0.5, true),
            (1.2, 1.0, true),
            (1.0, 0.0, false),
            (2.0, 0.0, false),
            (0.0, 100.0, true),
            (f64::NAN, 50.0, false),
        ] {
            check(&used(part), reserve, 60, expected.then_some("five_hour"));
            check(&used(part), reserve, HOUR, None);
        }
        // Not said when: as long as such a window can be.
        for (window, hours) in [("five_hour", 5), ("seven_day", 168), ("something_new", 168)] {
            let facts = [limit("allowed_warning", window, Some(0.95), None)];
            check(&facts, 10.0, hours * HOUR - 1, Some(window));
            check(&facts, 10.0, hours * HOUR, None);
        }
    }

    #[test]
    fn windows_are_kept_apart() {
        let all = |five, seven| {
            let window = |name: &str, used, reset| UsageWindow {
                name: name.to_owned(),
                utilization: Some(used),
                resets_at: Some(at(reset)),
            };
            Fact::RateLimit(RateLimit {
                status: "allowed".to_owned(),
                windows: vec![window("five_hour", five, HOUR), window("seven_day", seven, 99 * HOUR)],
                ..RateLimit::default()
            })
        };
        check(&[all(0.5, 0.95)], 10.0, 0, Some("seven_day"));
        check(&[all(0.95, 0.99)], 10.0, 0, Some("seven_day"));
        check(&[all(0.99, 0.95)], 10.0, 2 * HOUR, Some("seven_day"));
        check(&[all(0.99, 0.5)], 10.0, 2 * HOUR, None);
        // The latest reading of each.
        check(&[all(0.95, 0.5), all(0.1, 0.5)], 10.0, 0, None);
        check(&[all(0.95, 0.5), limit("allowed", "seven_day", Some(0.1), None)], 10.0, 0, Some("five_hour"));
        // Nothing is said of how much is used.
        check(&[all(0.95, 0.5), limit("allowed", "five_hour", None, None)], 10.0, 0, Some("five_hour"));
        check(&[limit("rejected", "five_hour", None, Some(HOUR))], 10.0, 0, Some("five_hour"));
        check(&[limit("allowed", "five_hour", None, Some(HOUR))], 10.0, 0, None);
        // What another model has used up.
        check(&[on("opus"), all(0.95, 0.1), on("sonnet")], 10.0, 0, None);
        check(&[on("opus"), all(0.95, 0.1), on("sonnet"), on("opus")], 10.0, 0, Some("five_hour"));
    }
}
