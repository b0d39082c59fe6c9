//! The last sessions, canonically read (upstream-formats §5.2, "Canonical read", and §7).
//!
//! In this order: the last record of an id counts, and stands where the id first appeared; records without id
//! are dropped; of abandoned records with the same start and end, the synthetic ones are dropped when one is
//! not; a record that is superseded is dropped; abandoned records are dropped; the last ones of what is left
//! are the answer.
//!
//! # Window
//!
//! To be exact, that would take the whole file: a correction may be anywhere behind its record. Read are the
//! last [`WINDOW`] records, and more only while they do not yield enough real sessions (each time twice as
//! many, up to the bound of [`newest_first`]). The answer is then the canonical reading of that tail: what is
//! corrected or superseded over a distance of more than [`WINDOW`] records may show up once too often, at the
//! place of its correction.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{counted, note, source};
use crate::core::signals::{SessionFacts, SourceReading};
use crate::journal::records::{MetricFile, newest_first};
use crate::journal::session_record::ALIASES;
use crate::state::layout::Layout;

/// Records that are always read: years of nights, for a few milliseconds.
pub const WINDOW: usize = 512;

/// The last `count` real sessions of the repository, oldest first.
#[must_use]
pub fn recent(layout: &Layout, count: usize, now: Timestamp) -> (Vec<SessionFacts>, SourceReading) {
    let path = layout.sessions_jsonl();
    let mut reading = source(layout.root(), &path, now);
    let mut tail = Tail::default();
    let (mut read, mut newer, mut without_id, mut next_look) = (0, 0, 0, WINDOW);
    let walk = newest_first(&path, |record| {
        read += 1;
        if MetricFile::Sessions.is_newer(&record) {
            newer += 1;
        } else if !tail.add(&record) {
            without_id += 1;
        }
        if read < next_look {
            return ControlFlow::Continue(());
        }
        next_look *= 2;
        if tail.real().len() >= count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let mut sessions = tail.real();
    sessions.drain(..sessions.len().saturating_sub(count));
    let facts: Vec<SessionFacts> = sessions.into_iter().map(|found| found.facts.clone()).collect();
    if reading.origin.is_some() {
        reading.says = summary(&facts);
    }
    note(&mut reading, &walk, newer);
    if without_id > 0 {
        reading.problems.push(format!("{} without session_id: not used", counted(without_id, "record")));
    }
    (facts, reading)
}

/// `10 sessions, last feature, completion 0.8`.
fn summary(facts: &[SessionFacts]) -> String {
    let last = facts.last().map(|last| {
        let completion = last.completion.map(|completion| format!(", completion {completion}"));
        [", last ", last.session_type.as_deref().unwrap_or("of no type"), &completion.unwrap_or_default()]
            .concat()
    });
    counted(facts.len(), "session") + &last.unwrap_or_default()
}

/// A record, as far as the canonical reading needs it.
#[derive(Debug)]
struct Found {
    id: String,
    facts: SessionFacts,
    /// `status`; `None` when absent or null.
    status: Option<String>,
    /// Made up for a session of which nothing is known.
    synthetic: bool,
    raw_session_id: Option<String>,
    started_at: Option<String>,
    completed_at: Option<String>,
    supersedes: Option<String>,
    /// How far from the end of the file the id first appears, in records.
    first: usize,
}

impl Found {
    fn is_abandoned(&self) -> bool {
        self.status.as_deref() == Some("abandoned")
    }

    /// `completed_at ?? started_at`, and the id against ties.
    fn age_key(&self) -> (Option<&str>, &str) {
        (self.completed_at.as_deref().or(self.started_at.as_deref()), &self.id)
    }

    /// Whether this record may take the place of `other`.
    fn may_supersede(&self, other: &Found) -> bool {
        let same = |ours: &Option<String>, theirs: &Option<String>| {
            ours.as_ref().is_some_and(|ours| !ours.is_empty() && Some(ours) == theirs.as_ref())
        };
        (other.status.is_none() || other.is_abandoned())
            && (same(&self.raw_session_id, &other.raw_session_id)
                || same(&self.started_at, &other.started_at))
    }
}

/// The end of the file, one record an id.
#[derive(Debug, Default)]
struct Tail {
    read: usize,
    found: Vec<Found>,
    places: HashMap<String, usize>,
}

impl Tail {
    /// Takes the next record towards the beginning; `false` when it has no id.
    fn add(&mut self, record: &Map<String, Value>) -> bool {
        self.read += 1;
        let Some(id) = text(record, "session_id").filter(|id| !id.is_empty()) else { return false };
        if let Some(place) = self.places.get(&id) {
            // Older than the one that counts, which only takes its place.
            self.found[*place].first = self.read;
            return true;
        }
        self.places.insert(id.clone(), self.found.len());
        self.found.push(Found {
            facts: facts(&id, record),
            id,
            status: text(record, "status"),
            synthetic: record.get("_synthetic_session_id").is_some_and(truthy),
            raw_session_id: text(record, "raw_session_id"),
            started_at: text(record, "started_at"),
            completed_at: text(record, "completed_at").or_else(|| text(record, "ended_at")),
            supersedes: text(record, "supersedes"),
            first: self.read,
        });
        true
    }

    /// The real sessions, oldest first.
    fn real(&self) -> Vec<&Found> {
        let mut kept: Vec<&Found> = self.found.iter().collect();
        kept.sort_by_key(|found| std::cmp::Reverse(found.first));
        without_synthetic(&mut kept);
        without_superseded(&mut kept);
        kept.retain(|found| !found.is_abandoned());
        kept
    }
}

/// Rule 2: an abandoned record that is made up gives way to one that is not, of the same start and end.
fn without_synthetic(kept: &mut Vec<&Found>) {
    let span = |found: &Found| -> Option<(String, String)> {
        let (start, end) = (found.started_at.clone()?, found.completed_at.clone()?);
        (found.is_abandoned() && !start.is_empty() && !end.is_empty()).then_some((start, end))
    };
    let genuine: HashSet<_> =
        kept.iter().filter(|found| !found.synthetic).filter_map(|found| span(found)).collect();
    kept.retain(|found| !(found.synthetic && span(found).is_some_and(|span| genuine.contains(&span))));
}

/// Rule 3: what a record that stays supersedes, goes. Of records that supersede each other in a ring the newest
/// stays.
fn without_superseded(kept: &mut Vec<&Found>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        Open,
        Stays,
        Goes,
    }
    let places: HashMap<&str, usize> =
        kept.iter().enumerate().map(|(place, found)| (found.id.as_str(), place)).collect();
    // At most one for each: whose place it takes.
    let target: Vec<Option<usize>> = kept
        .iter()
        .map(|found| {
            let place = *places.get(found.supersedes.as_deref()?)?;
            (kept[place].id != found.id && found.may_supersede(kept[place])).then_some(place)
        })
        .collect();
    let mut rivals = vec![0_usize; kept.len()];
    for place in target.iter().flatten() {
        rivals[*place] += 1;
    }
    let mut fate = vec![Fate::Open; kept.len()];
    let mut decided: Vec<usize> = (0..kept.len()).filter(|place| rivals[*place] == 0).collect();
    for place in &decided {
        fate[*place] = Fate::Stays;
    }
    loop {
        while let Some(place) = decided.pop() {
            let Some(next) = target[place].filter(|next| fate[*next] == Fate::Open) else { continue };
            rivals[next] -= 1;
            if fate[place] == Fate::Stays {
                fate[next] = Fate::Goes;
                decided.push(next);
            } else if rivals[next] == 0 {
                fate[next] = Fate::Stays;
                decided.push(next);
            }
        }
        // What is still open are rings.
        let Some(start) = fate.iter().position(|fate| *fate == Fate::Open) else { break };
        let mut ring = vec![start];
        while let Some(next) = target[ring[ring.len() - 1]].filter(|next| *next != start) {
            ring.push(next);
        }
        let newest = ring.iter().copied().max_by_key(|place| kept[*place].age_key());
        for place in ring {
            fate[place] = if Some(place) == newest { Fate::Stays } else { Fate::Goes };
        }
    }
    let mut place = 0;
    kept.retain(|_| {
        place += 1;
        fate[place - 1] != Fate::Goes
    });
}

fn facts(id: &str, record: &Map<String, Value>) -> SessionFacts {
    let effectiveness = record.get("effectiveness").and_then(Value::as_object);
    let of_plan = |key: &str| effectiveness.and_then(|object| object.get(key)).and_then(Value::as_f64);
    let rate = ["completion_rate", "completion_ratio"];
    // The first that is there counts, whatever it is: `??` looks at null alone.
    let completion = [effectiveness, Some(record)]
        .into_iter()
        .flatten()
        .flat_map(|object| rate.iter().filter_map(|key| object.get(*key)))
        .find(|value| !value.is_null())
        .and_then(Value::as_f64);
    let old_names = ALIASES.iter().filter(|(_, name)| *name == "session_type").map(|(old, _)| *old);
    let session_type = std::iter::once("session_type").chain(old_names).find_map(|key| record.get(key));
    SessionFacts {
        session_id: Some(id.to_owned()),
        session_type: session_type.and_then(Value::as_str).map(ToOwned::to_owned),
        completion,
        has_effectiveness: effectiveness.is_some(),
        planned: of_plan("planned_issues"),
        carryover: of_plan("carryover"),
    }
}

fn text(record: &Map<String, Value>, key: &str) -> Option<String> {
    record.get(key)?.as_str().map(ToOwned::to_owned)
}

/// A flag that some writers set to `true` and others to the id itself.
fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false)) && value != "" && *value != 0
}

#[cfg(test)]
mod tests;
