//! The session report: what a session says about its own work, in the shape handed to `--json-schema`.
//!
//! Theory: the schema asks for a report, the reader expects anything. A report is a *claim* (design §5):
//! what it says is checked against the stream and the repository before it counts, so this module only
//! reads, it judges nothing.
//!
//! Invariants: a missing measurement stays `None` and is never 0 (a made-up 0 would let a kill-switch pass,
//! or fire); reading never fails; every oddity is named in the list of problems. The schema accepts unknown
//! properties, and its properties are the fields read here (a test holds the two together).

use std::fmt;

use serde_json::{Map, Value};

/// What a session reports. Every field may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionReport {
    /// How far the session came.
    pub status: Option<ReportStatus>,
    /// What was done, in a few sentences.
    pub summary: Option<String>,
    /// Outcomes of the sub-agents and work items.
    pub agent_summary: AgentSummary,
    /// Planned against done.
    pub effectiveness: Effectiveness,
    /// The groups of sub-agents that were started, in order.
    pub waves: Vec<Wave>,
    /// Tasks that are done, in the words of the task source.
    pub tasks_done: Vec<String>,
    /// Tasks that are left for a later session.
    pub tasks_carried: Vec<String>,
    /// The mode the session suggests for the next one.
    pub recommended_mode: Option<String>,
    /// What the next session should look at first.
    pub top_priorities: Vec<String>,
    /// Why this mode and these priorities.
    pub rationale: Option<String>,
    /// The question without whose answer the session could not go on.
    pub blocked_on: Option<BlockedOn>,
    /// Approaches that failed and should not be tried again.
    pub do_not_retry: Vec<String>,
}

/// How far a session came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportStatus {
    /// All that was asked is done.
    Complete,
    /// Some of it is done.
    Partial,
    /// A person has to answer or act first.
    Blocked,
    /// There was no open work.
    NothingToDo,
}

impl ReportStatus {
    /// All of them, in the order of the schema.
    pub const ALL: [Self; 4] = [Self::Complete, Self::Partial, Self::Blocked, Self::NothingToDo];

    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Blocked => "blocked",
            Self::NothingToDo => "nothing_to_do",
        }
    }
}

impl fmt::Display for ReportStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Outcomes of the sub-agents and work items of a session. `None` is "not said".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentSummary {
    /// Ended well.
    pub complete: Option<u64>,
    /// Ended with a part of the work.
    pub partial: Option<u64>,
    /// Failed.
    pub failed: Option<u64>,
    /// Went in circles.
    pub spiral: Option<u64>,
}

/// Planned against done. `None` is "not said".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effectiveness {
    /// Issues planned at the start.
    pub planned_issues: Option<u64>,
    /// Of these, done.
    pub completed: Option<u64>,
    /// Of these, left over.
    pub carryover: Option<u64>,
    /// Issues that came up on the way.
    pub emergent: Option<u64>,
}

/// A group of sub-agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wave {
    /// Its number, from 1.
    pub wave: Option<u64>,
    /// What it was for.
    pub role: Option<String>,
    /// Sub-agents started in it.
    pub agents: Option<u64>,
}

/// A question for a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockedOn {
    /// The question.
    pub question: Option<String>,
    /// Answers to choose from, the session's own favourite first.
    pub options: Vec<String>,
}

impl BlockedOn {
    /// The question with its options, in a line; `None` if it asks nothing.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let question = self.question.as_deref().unwrap_or_default().trim();
        if question.is_empty() {
            return None;
        }
        if self.options.is_empty() {
            return Some(question.to_owned());
        }
        Some(format!("{question} [options: {}]", self.options.join(" | ")))
    }
}

/// The JSON Schema of the report, on one line, for `--json-schema`.
pub fn schema() -> &'static str {
    concat!(
        r#"{"type":"object","properties":{"#,
        r#""status":{"type":"string","enum":["complete","partial","blocked","nothing_to_do"],"description":"complete: everything asked is done and committed; partial: some of it; blocked: a person must answer or act first; nothing_to_do: there was no open work"},"#,
        r#""summary":{"type":"string","description":"what was done, in a few sentences"},"#,
        r#""agent_summary":{"type":"object","description":"how many sub-agents or work items ended in which way","properties":{"complete":{"type":"integer","minimum":0},"partial":{"type":"integer","minimum":0},"failed":{"type":"integer","minimum":0},"spiral":{"type":"integer","minimum":0,"description":"went in circles"}},"required":["complete","partial","failed","spiral"]},"#,
        r#""effectiveness":{"type":"object","description":"issues planned at the start, of these completed and carried over, and issues that came up on the way","properties":{"planned_issues":{"type":"integer","minimum":0},"completed":{"type":"integer","minimum":0},"carryover":{"type":"integer","minimum":0},"emergent":{"type":"integer","minimum":0}},"required":["planned_issues","completed","carryover","emergent"]},"#,
        r#""waves":{"type":"array","items":{"type":"object","properties":{"wave":{"type":"integer","minimum":1},"role":{"type":"string"},"agents":{"type":"integer","minimum":0}},"required":["wave","role"]}},"#,
        r#""tasks_done":{"type":"array","items":{"type":"string"},"description":"finished tasks, in the words of the task list"},"#,
        r#""tasks_carried":{"type":"array","items":{"type":"string"},"description":"tasks left for a later session, in the words of the task list"},"#,
        r#""recommended_mode":{"type":"string","enum":["housekeeping","feature","deep","discovery","evolve","plan-retro"],"description":"kind of session to run next"},"#,
        r#""top_priorities":{"type":"array","items":{"type":"string"},"description":"what the next session should look at first"},"#,
        r#""rationale":{"type":"string","description":"why this mode and these priorities"},"#,
        r#""blocked_on":{"type":"object","description":"only with status blocked","properties":{"question":{"type":"string"},"options":{"type":"array","items":{"type":"string"},"description":"possible answers, your favourite first"}},"required":["question"]},"#,
        r#""do_not_retry":{"type":"array","items":{"type":"string"},"description":"approaches that failed and should not be tried again"}"#,
        r#"},"required":["status","summary","agent_summary","effectiveness"]}"#,
    )
}

impl SessionReport {
    /// Reads a report and says what is wrong with it. `None` only if the value is not an object.
    ///
    /// Numbers may be spelt as strings. A value of the wrong type, a negative or a fractional count reads
    /// as missing and is a problem; a missing field is one only if the schema requires it.
    pub fn from_value(value: &Value) -> (Option<Self>, Vec<String>) {
        let mut problems = Problems(Vec::new());
        let Value::Object(map) = value else {
            return (None, vec![format!("report: expected an object, found {}", type_name(value))]);
        };
        let mut report = Fields { map, path: "", problems: &mut problems };
        for required in ["status", "summary", "agent_summary", "effectiveness"] {
            if report.get(required).is_none() {
                report.problem(required, "missing");
            }
        }
        let status = report.status();
        let summary = report.string("summary");
        let tasks_done = report.strings("tasks_done");
        let tasks_carried = report.strings("tasks_carried");
        let recommended_mode = report.string("recommended_mode");
        let top_priorities = report.strings("top_priorities");
        let rationale = report.string("rationale");
        let do_not_retry = report.strings("do_not_retry");
        let agent_summary = report
            .object("agent_summary", |mut fields| AgentSummary {
                complete: fields.count("complete"),
                partial: fields.count("partial"),
                failed: fields.count("failed"),
                spiral: fields.count("spiral"),
            })
            .unwrap_or_default();
        let effectiveness = report
            .object("effectiveness", |mut fields| Effectiveness {
                planned_issues: fields.count("planned_issues"),
                completed: fields.count("completed"),
                carryover: fields.count("carryover"),
                emergent: fields.count("emergent"),
            })
            .unwrap_or_default();
        let blocked_on = report.object("blocked_on", |mut fields| BlockedOn {
            question: fields.string("question"),
            options: fields.strings("options"),
        });
        let waves = report.items("waves", |item, problems| {
            let map = item.as_object()?;
            let mut fields = Fields { map, path: "waves.", problems };
            Some(Wave {
                wave: fields.count("wave"),
                role: fields.string("role"),
                agents: fields.count("agents"),
            })
        });
        let report = Self {
            status,
            summary,
            agent_summary,
            effectiveness,
            waves,
            tasks_done,
            tasks_carried,
            recommended_mode,
            top_priorities,
            rationale,
            blocked_on,
            do_not_retry,
        };
        (Some(report), problems.0)
    }
}

/// Problems kept of one report.
const MAX_PROBLEMS: usize = 50;

struct Problems(Vec<String>);

impl Problems {
    fn note(&mut self, problem: String) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(problem);
        }
    }
}

/// An object of the report, with the path to it for messages.
struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: &'static str,
    problems: &'a mut Problems,
}

impl<'a> Fields<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn problem(&mut self, key: &str, what: &str) {
        self.problems.note(format!("{}{key}: {what}", self.path));
    }

    fn wrong<T>(&mut self, key: &str, expected: &str, value: &Value) -> Option<T> {
        self.problem(key, &format!("expected {expected}, found {}", type_name(value)));
        None
    }

    fn status(&mut self) -> Option<ReportStatus> {
        let word = self.string("status")?;
        let known = ReportStatus::ALL.into_iter().find(|status| status.as_str() == word.to_lowercase());
        if known.is_none() {
            self.problem("status", "not one of complete, partial, blocked, nothing_to_do");
        }
        known
    }

    /// A text; a blank one is as good as none.
    fn string(&mut self, key: &str) -> Option<String> {
        match self.get(key)? {
            Value::String(text) => Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned),
            other => self.wrong(key, "a string", other),
        }
    }

    fn count(&mut self, key: &str) -> Option<u64> {
        let value = self.get(key)?;
        let count = match value {
            Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
            Value::String(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| text.parse().ok().and_then(whole))
            }
            _ => None,
        };
        if count.is_none() {
            return self.wrong(key, "a count", value);
        }
        count
    }

    fn object<T>(&mut self, key: &'static str, read: impl FnOnce(Fields<'_>) -> T) -> Option<T> {
        match self.get(key)? {
            Value::Object(map) => {
                let path = match key {
                    "agent_summary" => "agent_summary.",
                    "effectiveness" => "effectiveness.",
                    _ => "blocked_on.",
                };
                Some(read(Fields { map, path, problems: self.problems }))
            }
            other => self.wrong(key, "an object", other),
        }
    }

    /// A list of strings; numbers (issue numbers) are taken as text, a single string as a list of one.
    fn strings(&mut self, key: &str) -> Vec<String> {
        if let Some(Value::String(single)) = self.get(key) {
            self.problem(key, "expected a list, found a string");
            return Some(single.trim())
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .into_iter()
                .collect();
        }
        self.items(key, |item, _| match item {
            Value::String(text) => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect()
    }

    fn items<T>(&mut self, key: &str, mut read: impl FnMut(&Value, &mut Problems) -> Option<T>) -> Vec<T> {
        let items = match self.get(key) {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => return self.wrong(key, "a list", other).unwrap_or_default(),
        };
        let mut read_items = Vec::with_capacity(items.len());
        for item in items {
            match read(item, self.problems) {
                Some(item) => read_items.push(item),
                None => self.problem(key, &format!("item is {}", type_name(item))),
            }
        }
        read_items
    }
}

/// The count that a number is, if it is one: `3.0` is, `2.5` and `-1` are not.
fn whole(value: f64) -> Option<u64> {
    const MAX: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
    (value.fract() == 0.0 && (0.0..=MAX).contains(&value)).then_some(value as u64)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn full() -> Value {
        json!({
            "status": "blocked", "summary": "s",
            "agent_summary": {"complete": 4, "partial": 3, "failed": 2, "spiral": 1},
            "effectiveness": {"planned_issues": 8, "completed": 7, "carryover": 6, "emergent": 5},
            "waves": [{"wave": 1, "role": "impl", "agents": 3}],
            "tasks_done": ["a"], "tasks_carried": ["b"], "recommended_mode": "deep",
            "top_priorities": ["c"], "rationale": "r",
            "blocked_on": {"question": "q", "options": ["x", "y"]}, "do_not_retry": ["d"],
        })
    }

    #[test]
    fn a_full_report_is_read_in_full() {
        let (report, problems) = SessionReport::from_value(&full());
        let text = |text: &str| Some(text.to_owned());
        let list = |text: &str| vec![text.to_owned()];
        let expected = SessionReport {
            status: Some(ReportStatus::Blocked),
            summary: text("s"),
            agent_summary: AgentSummary {
                complete: Some(4),
                partial: Some(3),
                failed: Some(2),
                spiral: Some(1),
            },
            effectiveness: Effectiveness {
                planned_issues: Some(8),
                completed: Some(7),
                carryover: Some(6),
                emergent: Some(5),
            },
            waves: vec![Wave { wave: Some(1), role: text("impl"), agents: Some(3) }],
            tasks_done: list("a"),
            tasks_carried: list("b"),
            recommended_mode: text("deep"),
            top_priorities: list("c"),
            rationale: text("r"),
            blocked_on: Some(BlockedOn { question: text("q"), options: vec!["x".into(), "y".into()] }),
            do_not_retry: list("d"),
        };
        assert_eq!((report, problems), (Some(expected), vec![]));
    }

    #[test]
    fn oddities_are_named_and_nothing_is_made_up() {
        const REQUIRED: [&str; 4] =
            ["status: missing", "summary: missing", "agent_summary: missing", "effectiveness: missing"];

        /// Replaces one field of the full report; `expected` are the problems.
        #[track_caller]
        fn check(field: &str, value: Value, expected: &[&str]) -> SessionReport {
            let mut report = full();
            report[field] = value;
            let (report, problems) = SessionReport::from_value(&report);
            assert_eq!(problems, expected);
            report.unwrap()
        }

        assert_eq!(
            SessionReport::from_value(&json!({})),
            (Some(SessionReport::default()), REQUIRED.map(Into::into).into())
        );
        for not_an_object in [json!(null), json!([]), json!("done"), json!(3)] {
            let (report, problems) = SessionReport::from_value(&not_an_object);
            assert_eq!((report, problems.len()), (None, 1));
        }

        let agents = |value, problems: &[&str]| check("agent_summary", value, problems).agent_summary;
        assert_eq!(
            agents(json!({"failed": "2", "spiral": 1.0}), &[]),
            AgentSummary { failed: Some(2), spiral: Some(1), ..AgentSummary::default() }
        );
        let odd = json!({"failed": -1, "spiral": 0.5, "partial": "many", "complete": true});
        assert_eq!(
            agents(
                odd,
                &[
                    "agent_summary.complete: expected a count, found a boolean",
                    "agent_summary.partial: expected a count, found a string",
                    "agent_summary.failed: expected a count, found a number",
                    "agent_summary.spiral: expected a count, found a number",
                ]
            ),
            AgentSummary::default()
        );
        assert_eq!(
            agents(json!(5), &["agent_summary: expected an object, found a number"]),
            AgentSummary::default()
        );
        assert_eq!(agents(json!({"failed": null}), &[]).failed, None);

        assert_eq!(check("status", json!("Complete"), &[]).status, Some(ReportStatus::Complete));
        let unknown = ["status: not one of complete, partial, blocked, nothing_to_do"];
        assert_eq!(check("status", json!("done"), &unknown).status, None);
        assert_eq!(
            check("summary", json!(["x"]), &["summary: expected a string, found a list"]).summary,
            None
        );
        assert_eq!(check("summary", json!("  "), &[]).summary, None);
        assert_eq!(check("top_priorities", json!([412, "b", " "]), &[]).top_priorities, ["412", "b"]);
        assert_eq!(
            check(
                "tasks_done",
                json!(["a", {"id": 1}, null]),
                &["tasks_done: item is an object", "tasks_done: item is null"]
            )
            .tasks_done,
            ["a"]
        );
        assert_eq!(
            check("do_not_retry", json!("x"), &["do_not_retry: expected a list, found a string"])
                .do_not_retry,
            ["x"]
        );
        assert_eq!(
            check("tasks_carried", json!({}), &["tasks_carried: expected a list, found an object"])
                .tasks_carried
                .len(),
            0
        );
        assert_eq!(
            check("waves", json!([{"wave": "2"}, 7]), &["waves: item is a number"]).waves,
            [Wave { wave: Some(2), ..Wave::default() }]
        );
        assert_eq!(check("blocked_on", json!(null), &[]).blocked_on, None);
        assert_eq!(check("something_new", json!(1), &[]).summary.as_deref(), Some("s"));

        let flood =
            check("tasks_done", json!(vec![json!(null); 500]), &["tasks_done: item is null"; MAX_PROBLEMS]);
        assert!(flood.tasks_done.is_empty());
    }

    /// The full report above fills every field, so its keys are the struct's; the schema has to have the same.
    #[test]
    fn schema_and_fields_agree() {
        fn keys(value: &Value) -> Vec<&String> {
            value.as_object().map(|map| map.keys().collect()).unwrap_or_default()
        }
        #[track_caller]
        fn agree(schema: &Value, sample: &Value) {
            match sample {
                Value::Object(_) => {
                    assert_eq!(schema["type"], "object");
                    assert_eq!(keys(&schema["properties"]), keys(sample));
                    assert_eq!(schema.get("additionalProperties"), None);
                    for (key, value) in sample.as_object().unwrap() {
                        agree(&schema["properties"][key], value);
                    }
                }
                Value::Array(items) => {
                    assert_eq!(schema["type"], "array");
                    agree(&schema["items"], &items[0]);
                }
                Value::String(_) => assert_eq!(schema["type"], "string"),
                Value::Number(_) => assert_eq!(schema["type"], "integer"),
                Value::Null | Value::Bool(_) => panic!("not in the report"),
            }
        }
        let schema_value: Value = serde_json::from_str(schema()).unwrap();
        agree(&schema_value, &full());
        assert_eq!(schema_value["required"], json!(["status", "summary", "agent_summary", "effectiveness"]));
        let words: Vec<&str> = ReportStatus::ALL.iter().map(|status| status.as_str()).collect();
        assert_eq!(schema_value["properties"]["status"]["enum"], json!(words));
        assert!(!schema().contains('\n'));
    }
}
