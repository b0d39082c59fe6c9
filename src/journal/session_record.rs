//! One record a session: a line of `sessions.jsonl` (design §9, upstream-formats §5.2).
//!
//! Upstream's schema 2 with all required fields, the optional ones we can measure, and two of ours:
//! `autopilot_run_id` and `mode`. A session that runs upstream's session-end writes its own record; ours then
//! only *completes* it : what the session reported stands, we fill what it left out.
//!
//! # Merging
//!
//! - The session's value wins. A missing field, or `null`, is a gap and takes our value.
//! - `agent_summary` and `effectiveness` are merged field by field.
//! - A field that the session wrote under an old name counts as written; its canonical name is not added,
//!   or it would hide the session's value from readers that know both.
//! - `autopilot_run_id` is always ours: only we know it for certain.
//! - A stub that somebody back-filled for a dead session (`_backfill_source`) is not the session's word:
//!   there our values win, and the marks that call them guesses go.
//! - Under an id of upstream's own making the record gets `raw_session_id`, the conversation it is about.
//! - Every field keeps its place and its exact bytes; fields we do not know are passed through.

use std::fmt;

use jiff::Timestamp;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::core::mode::Mode;
use crate::core::published::Tokens;

use super::js;

/// Version of the record that is written.
pub const SCHEMA_VERSION: u64 = 2;

/// Old field names and what they are called now (upstream-formats §5.2, "Read normalisation").
pub const ALIASES: [(&str, &str); 14] = [
    ("type", "session_type"),
    ("mode", "session_type"),
    ("closed_issues", "issues_closed"),
    ("new_issues", "issues_created"),
    ("issues_filed", "issues_created"),
    ("issues_planned", "planned_issues"),
    ("files_changed", "total_files_changed"),
    ("snapshots", "snapshots_created"),
    ("learnings", "learnings_added"),
    ("waves_total", "total_waves"),
    ("waves_completed", "total_waves"),
    ("head_ref", "branch"),
    ("isolation_override", "isolation"),
    ("ended_at", "completed_at"),
];

/// What is recorded of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRecord {
    /// Id of the conversation.
    pub session_id: String,
    /// Kind of session.
    pub mode: Mode,
    /// Run it belongs to.
    pub autopilot_run_id: String,
    /// What carried it, such as `claude`.
    pub platform: Option<String>,
    /// Branch at the start.
    pub branch: Option<String>,
    /// Commit at the start.
    pub session_start_ref: Option<String>,
    /// Start, UTC.
    pub started_at: Timestamp,
    /// End, UTC. An end before the start (the wall clock was set back) is written as the start.
    pub completed_at: Timestamp,
    /// Seconds on the monotonic clock.
    pub duration_seconds: u64,
    /// How it ended.
    pub status: SessionStatus,
    /// Groups of sub-agents, in order.
    pub waves: Vec<Wave>,
    /// What became of the sub-agents.
    pub agent_summary: AgentSummary,
    /// Sub-agents started.
    pub total_agents: u64,
    /// Files changed by its commits.
    pub total_files_changed: u64,
    /// Planned against done, when it had a plan; else written as "not measured".
    pub effectiveness: Option<Effectiveness>,
    /// Issues it closed, by number.
    pub issues_closed: Vec<u64>,
    /// Issues it opened, by number.
    pub issues_created: Vec<u64>,
    /// Tokens, when measured.
    pub tokens: Option<Tokens>,
    /// API-equivalent dollars, when known.
    pub total_cost_usd: Option<f64>,
    /// Free text.
    pub notes: Option<String>,
}

/// How a session ended, in upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// It came to its end.
    Completed,
    /// It was given up.
    Abandoned,
    /// It ended with something open.
    Unresolved,
}

/// What became of the sub-agents of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AgentSummary {
    /// Finished.
    pub complete: u64,
    /// Finished in part.
    pub partial: u64,
    /// Failed.
    pub failed: u64,
    /// Went round in circles.
    pub spiral: u64,
}

/// A group of sub-agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wave {
    /// From 1.
    pub wave: u64,
    /// What it was for; not empty.
    pub role: String,
    /// Sub-agents in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_count: Option<u64>,
    /// Files they changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<u64>,
    /// `pass`, `fail`, `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<String>,
}

/// Planned against done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Effectiveness {
    /// Tasks planned.
    pub planned_issues: u64,
    /// Of them done.
    pub completed: u64,
    /// Of them left over.
    pub carryover: u64,
    /// Done without having been planned.
    pub emergent: u64,
    /// `completed / planned_issues`; `None` without a plan.
    #[serde(serialize_with = "js::serialize_optional_number")]
    pub completion_rate: Option<f64>,
}

impl Effectiveness {
    /// With the rate worked out, to two decimals.
    #[must_use]
    pub fn new(planned_issues: u64, completed: u64, carryover: u64, emergent: u64) -> Effectiveness {
        #[expect(clippy::cast_precision_loss, reason = "task counts are far below 2^52")]
        let rate =
            (planned_issues > 0).then(|| (completed as f64 / planned_issues as f64 * 100.0).round() / 100.0);
        Effectiveness { planned_issues, completed, carryover, emergent, completion_rate: rate }
    }
}

/// `effectiveness` as it is written. Without a plan it is upstream's "not measured", `{"carryover":null}`: a
/// record that lacks the field gets no note in upstream's vault and an alarm at every session start.
#[derive(Serialize)]
#[serde(untagged)]
enum Measured {
    Plan(Effectiveness),
    Not { carryover: () },
}

/// Upstream's `session_type` knows three values only; the others are forms of upkeep.
#[must_use]
pub fn session_type(mode: Mode) -> &'static str {
    match mode {
        Mode::Feature => "feature",
        Mode::Deep => "deep",
        Mode::Housekeeping | Mode::Discovery | Mode::Evolve | Mode::PlanRetro => "housekeeping",
    }
}

/// The record as it is written; field order is part of the format.
#[derive(Serialize)]
struct Wire<'a> {
    schema_version: u64,
    session_id: &'a str,
    session_type: &'static str,
    mode: Mode,
    autopilot_run_id: &'a str,
    platform: &'a Option<String>,
    branch: &'a Option<String>,
    session_start_ref: &'a Option<String>,
    #[serde(serialize_with = "js::serialize_timestamp")]
    started_at: Timestamp,
    #[serde(serialize_with = "js::serialize_timestamp")]
    completed_at: Timestamp,
    duration_seconds: u64,
    status: SessionStatus,
    total_waves: u64,
    waves: &'a [Wave],
    agent_summary: AgentSummary,
    total_agents: u64,
    total_files_changed: u64,
    effectiveness: Measured,
    issues_closed: &'a [u64],
    issues_created: &'a [u64],
    total_token_input: Option<u64>,
    total_token_output: Option<u64>,
    total_token_input_uncached: Option<u64>,
    total_token_cache_read: Option<u64>,
    total_token_cache_creation: Option<u64>,
    #[serde(serialize_with = "js::serialize_optional_number")]
    total_cost_usd: Option<f64>,
    notes: &'a Option<String>,
    #[serde(rename = "_clamped", skip_serializing_if = "Option::is_none")]
    clamped: Option<bool>,
    #[serde(rename = "_original_completed_at", skip_serializing_if = "Option::is_none")]
    original_completed_at: Option<String>,
}

impl Serialize for SessionRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inverted = self.completed_at < self.started_at;
        let tokens = self.tokens;
        Wire {
            schema_version: SCHEMA_VERSION,
            session_id: &self.session_id,
            session_type: session_type(self.mode),
            mode: self.mode,
            autopilot_run_id: &self.autopilot_run_id,
            platform: &self.platform,
            branch: &self.branch,
            session_start_ref: &self.session_start_ref,
            started_at: self.started_at,
            completed_at: self.completed_at.max(self.started_at),
            duration_seconds: self.duration_seconds,
            status: self.status,
            total_waves: self.waves.len() as u64,
            waves: &self.waves,
            agent_summary: self.agent_summary,
            total_agents: self.total_agents,
            total_files_changed: self.total_files_changed,
            effectiveness: self.effectiveness.map_or(Measured::Not { carryover: () }, Measured::Plan),
            issues_closed: &self.issues_closed,
            issues_created: &self.issues_created,
            total_token_input: tokens.map(|tokens| {
                tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_creation)
            }),
            total_token_output: tokens.map(|tokens| tokens.output),
            total_token_input_uncached: tokens.map(|tokens| tokens.input),
            total_token_cache_read: tokens.map(|tokens| tokens.cache_read),
            total_token_cache_creation: tokens.map(|tokens| tokens.cache_creation),
            total_cost_usd: self.total_cost_usd,
            notes: &self.notes,
            clamped: inverted.then_some(true),
            original_completed_at: inverted.then(|| js::timestamp(self.completed_at)),
        }
        .serialize(serializer)
    }
}

/// A JSON object whose fields keep their order and whose values keep their bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    pub(super) fn get(&self, key: &str) -> Option<&RawValue> {
        // Of two fields of one name the last counts, as in JavaScript.
        self.0.iter().rfind(|(name, _)| name == key).map(|(_, value)| value.as_ref())
    }

    /// The value of a field that is a string.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.get() == "true")
    }

    fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| name != key);
    }

    fn set(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().rfind(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Whether a field is missing or `null`, under all of its names.
    fn lacks(&self, key: &str) -> bool {
        let given = |name: &str| self.get(name).is_some_and(|value| value.get() != "null");
        !given(key) && !ALIASES.iter().any(|(alias, canonical)| *canonical == key && given(alias))
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawObject, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut object = RawObject::default();
                while let Some(field) = map.next_entry::<String, Box<RawValue>>()? {
                    object.0.push(field);
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Objects that are merged field by field.
const NESTED: [&str; 2] = ["agent_summary", "effectiveness"];

/// Marks of a back-filled stub that say which of its values are guesses (`session-close-backfill.mjs`).
const GUESSES: [&str; 4] =
    ["_backfill_incomplete_fields", "_session_type_inferred", "_synthetic", "_completed_at_estimated"];

/// Whether a record was filled in for a session that did not write one.
pub(super) fn is_stub(theirs: &RawObject) -> bool {
    theirs.get("_backfill_source").is_some()
}

/// The record `theirs`, which the session wrote itself, with our measurements in its gaps.
pub(super) fn complete(theirs: &RawObject, record: &SessionRecord) -> RawObject {
    let ours = to_raw(record);
    let stub = is_stub(theirs);
    let mut merged = theirs.clone();
    if stub {
        for mark in GUESSES {
            merged.remove(mark);
        }
    }
    let id = &record.session_id;
    if theirs.text("session_id").is_some_and(|named| named != *id) && theirs.lacks("raw_session_id") {
        merged.set("raw_session_id", to_raw_value(id).expect("a text serialises"));
    }
    let wins = |key: &str, value: &RawValue| match key {
        "autopilot_run_id" => true,
        // The schema version says how their fields are to be read; the id may be one of upstream's own making.
        "schema_version" | "session_id" => false,
        "effectiveness" => stub && record.effectiveness.is_some(),
        _ => stub && value.get() != "null",
    };
    for (key, value) in ours.0 {
        if wins(&key, &value) {
            merged.set(&key, value);
        } else if theirs.lacks(&key) {
            // Do not turn "missing" into `null`, nor hide an old `mode` that stands for the type.
            if value.get() != "null" {
                merged.set(&key, value);
            }
        } else if NESTED.contains(&key.as_str())
            && let Some(theirs) = theirs.get(&key)
            && let Ok(mut inner) = serde_json::from_str::<RawObject>(theirs.get())
            && let Ok(ours) = serde_json::from_str::<RawObject>(value.get())
        {
            for (name, value) in ours.0 {
                if inner.lacks(&name) && value.get() != "null" {
                    inner.set(&name, value);
                }
            }
            merged.set(&key, to_raw_value(&inner).expect("raw values serialise"));
        }
    }
    merged
}

fn to_raw(record: &SessionRecord) -> RawObject {
    let text = serde_json::to_string(record).expect("plain data serialises");
    serde_json::from_str(&text).expect("what was just written is an object")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn record(id: &str) -> SessionRecord {
        SessionRecord {
            session_id: id.to_owned(),
            mode: Mode::Feature,
            autopilot_run_id: "main-2026-04-25-0842-autopilot".to_owned(),
            platform: Some("claude".to_owned()),
            branch: Some("main".to_owned()),
            session_start_ref: Some("0123abc".to_owned()),
            started_at: "2026-04-25T08:42:00Z".parse().unwrap(),
            completed_at: "2026-04-25T09:00:00.25Z".parse().unwrap(),
            duration_seconds: 1080,
            status: SessionStatus::Completed,
            waves: vec![],
            agent_summary: AgentSummary { complete: 2, ..AgentSummary::default() },
            total_agents: 2,
            total_files_changed: 3,
            effectiveness: Some(Effectiveness::new(3, 2, 1, 0)),
            issues_closed: vec![7],
            issues_created: vec![],
            tokens: Some(Tokens { input: 10, output: 20, cache_read: 300, cache_creation: 40 }),
            total_cost_usd: Some(1.0),
            notes: None,
        }
    }

    fn merge(theirs: &str) -> String {
        let theirs: RawObject = serde_json::from_str(theirs).unwrap();
        serde_json::to_string(&complete(&theirs, &record("s1"))).unwrap()
    }

    #[test]
    fn the_session_has_the_last_word() {
        let theirs = r#"{"session_id":"s1","session_type":"deep","started_at":"2026-04-25T08:42:03Z","completed_at":"2026-04-25T08:59:00Z","total_waves":1,"waves":[{"wave":1,"role":"impl","x":1.50}],"agent_summary":{"complete":1,"partial":1,"failed":0,"spiral":0},"total_agents":5,"total_files_changed":9,"effectiveness":{"carryover":null,"planned_issues":4},"zeta":{"b":1,"a":[1e3,"ü"]},"branch":null,"status":"unresolved"}"#;
        let merged = merge(theirs);
        // Order and bytes of what they wrote are kept up to the first gap we filled.
        assert!(merged.starts_with(r#"{"session_id":"s1","session_type":"deep","started_at":"2026-04-25T08:42:03Z","completed_at":"2026-04-25T08:59:00Z","total_waves":1,"waves":[{"wave":1,"role":"impl","x":1.50}],"agent_summary":{"complete":1,"partial":1,"failed":0,"spiral":0},"total_agents":5,"total_files_changed":9,"#), "{merged}");
        assert!(merged.contains(r#""zeta":{"b":1,"a":[1e3,"ü"]}"#), "{merged}");
        let value: serde_json::Value = serde_json::from_str(&merged).unwrap();
        for (pointer, expected) in [
            ("/session_type", "\"deep\""),
            ("/mode", "\"feature\""),
            ("/status", "\"unresolved\""),
            ("/branch", "\"main\""),
            ("/duration_seconds", "1080"),
            ("/total_token_input", "350"),
            ("/total_cost_usd", "1"),
            ("/autopilot_run_id", "\"main-2026-04-25-0842-autopilot\""),
            ("/effectiveness/planned_issues", "4"),
            ("/effectiveness/carryover", "1"),
            ("/effectiveness/completed", "2"),
            ("/issues_closed", "[7]"),
        ] {
            assert_eq!(
                value.pointer(pointer).map(ToString::to_string).as_deref(),
                Some(expected),
                "{pointer}"
            );
        }
        assert!(value.get("notes").is_none());
    }

    #[test]
    fn old_names_are_not_hidden() {
        let merged = merge(
            r#"{"session_id":"s1","type":"deep","files_changed":9,"head_ref":"dev","ended_at":"2026-04-25T08:59:00Z"}"#,
        );
        for hidden in ["\"session_type\"", "\"total_files_changed\"", "\"branch\"", "\"completed_at\""] {
            assert!(!merged.contains(hidden), "{hidden} in {merged}");
        }
        // `mode` alone stands for the type as well; it stays what it was.
        let merged = merge(r#"{"session_id":"s1","mode":"deep"}"#);
        assert!(merged.contains(r#""mode":"deep""#) && !merged.contains("session_type"), "{merged}");
    }

    #[test]
    fn run_id_is_ours_and_a_stub_is_not_the_sessions_word() {
        let merged = merge(r#"{"session_id":"s1","autopilot_run_id":"made-up","status":"abandoned"}"#);
        assert!(merged.contains(r#""autopilot_run_id":"main-2026-04-25-0842-autopilot""#), "{merged}");
        assert!(merged.contains(r#""status":"abandoned""#), "{merged}");
        let merged = merge(
            r#"{"schema_version":1,"session_id":"x1","session_type":"unknown","status":"abandoned","total_agents":0,"_backfill_source":"sweep","_backfill_incomplete_fields":["total_agents"],"_session_type_inferred":true,"_synthetic":true,"_completed_at_estimated":true,"_synthetic_session_id":true}"#,
        );
        // What was a guess is none any more; that the id is one stays true.
        assert!(merged.starts_with(r#"{"schema_version":1,"session_id":"x1","session_type":"feature","status":"completed","total_agents":2,"_backfill_source":"sweep","_synthetic_session_id":true,"raw_session_id":"s1","#), "{merged}");
        assert_eq!(merged.matches("raw_session_id").count(), 1);
        let mut unplanned = record("s1");
        unplanned.effectiveness = None;
        let stub =
            r#"{"session_id":"s1","effectiveness":{"carryover":3},"_backfill_source":"state-md-completed"}"#;
        let merged =
            serde_json::to_string(&complete(&serde_json::from_str(stub).unwrap(), &unplanned)).unwrap();
        assert!(
            merged.contains(r#""effectiveness":{"carryover":3},"#),
            "not measured is no better: {merged}"
        );
        let merged = merge(r#"{"session_id":"x1","raw_session_id":"s1","_synthetic":true}"#);
        assert!(
            merged.starts_with(r#"{"session_id":"x1","raw_session_id":"s1","_synthetic":true,"#),
            "{merged}"
        );
    }

    #[test]
    fn an_end_before_the_start_is_clamped() {
        let mut odd = record("s1");
        odd.completed_at = "2026-04-25T08:00:00Z".parse().unwrap();
        let text = serde_json::to_string(&odd).unwrap();
        assert!(text.contains(r#""completed_at":"2026-04-25T08:42:00.000Z""#), "{text}");
        assert!(
            text.ends_with(r#""_clamped":true,"_original_completed_at":"2026-04-25T08:00:00.000Z"}"#),
            "{text}"
        );
    }

    #[test]
    fn every_mode_has_a_valid_type() {
        for mode in Mode::ALL {
            assert!(["feature", "deep", "housekeeping"].contains(&session_type(mode)));
        }
    }
}
