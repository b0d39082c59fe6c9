//! What sessions learned: the best that still hold (upstream-formats §5.3, §7).
//!
//! Kept is a record with a numeric confidence above 0.3 that has not expired. The score is its confidence,
//! halved every 90 days since it was last confirmed, but never less than a tenth of it. The best come first, of
//! equals the newest.
//!
//! A record without `expires_at` lives as long as its type says, from the day it was last confirmed; one
//! without any date does not expire.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::{counted, note, source};
use crate::core::signals::{Learning, SourceReading};
use crate::journal::records::{MetricFile, newest_first};
use crate::state::layout::Layout;

/// Newest records that are looked at.
const WINDOW: usize = 5_000;
/// A confidence up to this is not worth telling.
const LEAST_CONFIDENCE: f64 = 0.3;
/// Days in which a confidence halves.
const HALF_LIFE_DAYS: f64 = 90.0;
/// The part of a confidence that never decays.
const FLOOR: f64 = 0.1;

/// Days a record lives, by its type (upstream-formats §5.3).
const DAYS_BY_TYPE: [(i64, &[&str]); 4] = [
    (30, &["mode-selector-accuracy"]),
    (45, &["fragile-file", "effective-sizing", "recurring-issue", "fragile-pattern"]),
    (60, &["hardware-pattern", "domain-regression", "stagnation-class-frequency"]),
    (
        90,
        &[
            "workflow-pattern",
            "proven-pattern",
            "anti-pattern",
            "autopilot-effectiveness",
            "autonomy-verdict",
            "convention",
            "architecture-pattern",
            "design-pattern",
        ],
    ),
];
/// Days of every other type.
const DAYS: i64 = 60;

/// The best `count` learnings of the repository, best first.
#[must_use]
pub fn best(layout: &Layout, count: usize, now: Timestamp) -> (Vec<Learning>, SourceReading) {
    let path = layout.learnings_jsonl();
    let mut reading = source(layout.root(), &path, now);
    let (mut read, mut newer, mut expired) = (0, 0, 0);
    let mut found = Vec::new();
    let walk = newest_first(&path, |record| {
        read += 1;
        if MetricFile::Learnings.is_newer(&record) {
            newer += 1;
        } else if let Some(learned) = Learned::of(&record) {
            if learned.has_expired(now) {
                expired += 1;
            } else {
                found.push((learned.score(now), learned));
            }
        }
        if read < WINDOW { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    // Of equals in everything, the one that stands first in the file.
    found.reverse();
    found.sort_by(|(score, learned), (other_score, other)| {
        other_score.total_cmp(score).then_with(|| newest(learned.created_at, other.created_at))
    });
    if reading.origin.is_some() {
        reading.says = format!("{}, {expired} expired", counted(found.len(), "learning"));
    }
    note(&mut reading, &walk, newer);
    found.truncate(count);
    let best = found.into_iter().map(|(score, learned)| Learning {
        kind: learned.kind,
        subject: learned.subject,
        insight: learned.insight,
        score,
    });
    (best.collect(), reading)
}

/// The newer first, what has no date last.
fn newest(one: Option<Timestamp>, other: Option<Timestamp>) -> Ordering {
    other.cmp(&one)
}

/// A record worth a look.
#[derive(Debug)]
struct Learned {
    kind: String,
    subject: String,
    insight: String,
    confidence: f64,
    created_at: Option<Timestamp>,
    /// The first that can be read of `last_reinforced`, `last_accessed`, `updated_at`, `created_at`.
    confirmed_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
}

impl Learned {
    /// `None` when it is not confident enough.
    fn of(record: &Map<String, Value>) -> Option<Learned> {
        let confidence = record.get("confidence")?.as_f64()?;
        if confidence <= LEAST_CONFIDENCE {
            return None;
        }
        let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
        let date = |key: &str| instant(text(key));
        // An old name counts only where the canonical one is absent.
        let updated = if record.contains_key("updated_at") { "updated_at" } else { "last_seen" };
        let created_at = date("created_at");
        Some(Learned {
            kind: match text("type") {
                "gotcha" => "anti-pattern",
                "pattern" => "proven-pattern",
                kind => kind,
            }
            .to_owned(),
            subject: text("subject").to_owned(),
            insight: text("insight").to_owned(),
            confidence,
            created_at,
            confirmed_at: ["last_reinforced", "last_accessed", updated]
                .into_iter()
                .find_map(date)
                .or(created_at),
            expires_at: date("expires_at"),
        })
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        let days = DAYS_BY_TYPE.iter().find(|(_, kinds)| kinds.contains(&self.kind.as_str()));
        let days = days.map_or(DAYS, |(days, _)| *days);
        let end = self
            .expires_at
            .or_else(|| self.confirmed_at?.checked_add(SignedDuration::from_hours(24 * days)).ok());
        end.is_some_and(|end| end <= now)
    }

    /// Confidence after decay, 0 to 1.
    fn score(&self, now: Timestamp) -> f64 {
        let days = self.confirmed_at.map_or(0.0, |at| now.duration_since(at).as_secs_f64() / 86_400.0);
        let decayed = self.confidence * 0.5_f64.powf(days.max(0.0) / HALF_LIFE_DAYS);
        decayed.max(self.confidence * FLOOR).clamp(0.0, 1.0)
    }
}

/// An instant as records have it: with an offset, or a date or time that is taken for UTC.
fn instant(text: &str) -> Option<Timestamp> {
    let civil = |at: DateTime| TimeZone::UTC.to_timestamp(at).ok();
    text.parse()
        .ok()
        .or_else(|| civil(text.parse().ok()?))
        .or_else(|| civil(text.parse::<Date>().ok()?.into()))
}

#[cfg(test)]
mod tests;
