//! STATE.md: what upstream's sessions hand over to each other (upstream-formats §5.5, §12).
//!
//! A Markdown file with a front matter. Of the front matter, the five recommendation fields matter here; of
//! the body, `## What Not To Retry` and `## Open Questions`. The file belongs to upstream and to people:
//! whatever else is in it keeps its bytes when [`write()`] changes those.
//!
//! Reading never fails. What cannot be read is `None` and a problem in [`SourceReading`]; a front matter that
//! upstream would refuse as a whole is refused as a whole, the sections of the body are read all the same.

pub mod front_matter;
mod sections;
mod write;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub use write::{HandOver, StateMdError, idle_reset, write};

use self::front_matter::{FrontMatter, Value};
use crate::core::signals::{SourceReading, StateFields};
use crate::state::bounded::{self, age_seconds};

/// Folders in which STATE.md is looked for, in this order (upstream-formats §5.5).
pub const STATE_DIRS: [&str; 4] = [".claude", ".codex", ".cursor", ".pi"];

/// Heading of the section of things that were tried and failed, and how many it holds.
pub const WHAT_NOT_TO_RETRY: (&str, usize) = ("What Not To Retry", 10);
/// Heading of the section of questions for a person, and how many it holds.
pub const OPEN_QUESTIONS: (&str, usize) = ("Open Questions", 20);

/// Larger files are not read. Far above what is ever written ([`write()`] stops at 256 KiB), far below
/// the 6 MB that a STATE.md has grown to in the field (upstream-formats §15.1, #739).
const LARGEST: u64 = 1 << 20;

/// What STATE.md holds besides the recommendation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extra {
    /// `status`: `active`, `paused`, `completed`, `idle`, or anything else.
    pub status: Option<String>,
    /// `session-type`.
    pub session_type: Option<String>,
    /// What was tried and failed, oldest first.
    pub what_not_to_retry: Vec<String>,
    /// Questions for a person, oldest first.
    pub open_questions: Vec<String>,
    /// Seconds since the file was last changed.
    pub age_seconds: Option<u64>,
}

/// A STATE.md that was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// The recommendation.
    pub fields: StateFields,
    /// The rest.
    pub extra: Extra,
    /// Where from, and what was wrong with it.
    pub source: SourceReading,
}

/// The STATE.md of the repository at `root`: in `state_dir` (the value of `SO_STATE_DIR`, relative to `root`)
/// or else in the first of [`STATE_DIRS`] that has one.
#[must_use]
pub fn find(root: &Path, state_dir: Option<&Path>) -> Option<PathBuf> {
    candidates(root, state_dir).find(|path| path.exists())
}

fn candidates<'a>(root: &'a Path, state_dir: Option<&'a Path>) -> impl Iterator<Item = PathBuf> + 'a {
    given(state_dir).into_iter().chain(STATE_DIRS.iter().map(Path::new)).map(move |dir| in_dir(root, dir))
}

/// Where a new one goes.
fn preferred(root: &Path, state_dir: Option<&Path>) -> PathBuf {
    in_dir(root, given(state_dir).unwrap_or(Path::new(STATE_DIRS[0])))
}

/// An empty variable is none.
fn given(state_dir: Option<&Path>) -> Option<&Path> {
    state_dir.filter(|dir| !dir.as_os_str().is_empty())
}

fn in_dir(root: &Path, dir: &Path) -> PathBuf {
    root.join(dir).join("STATE.md")
}

/// Reads it. `now` is for its age.
#[must_use]
pub fn read(root: &Path, state_dir: Option<&Path>, now: Timestamp) -> Reading {
    let mut reading = Reading::default();
    let source = &mut reading.source;
    "STATE.md".clone_into(&mut source.source);
    "not there".clone_into(&mut source.says);
    let Some(path) = find(root, state_dir) else { return reading };
    source.origin = Some(path.strip_prefix(root).unwrap_or(&path).display().to_string());
    let file = match bounded::read(&path, LARGEST) {
        Ok(Some(file)) => file,
        // Removed since it was found.
        Ok(None) => return reading,
        Err(error) => {
            "not read".clone_into(&mut source.says);
            source.problems.push(error.to_string());
            return reading;
        }
    };
    source.age_seconds = file.modified.and_then(|at| age_seconds(at, now));
    reading.extra.age_seconds = source.age_seconds;
    let text = String::from_utf8_lossy(&file.bytes);
    if let std::borrow::Cow::Owned(_) = text {
        source.problems.push("has bytes that are not UTF-8: they were replaced".to_owned());
    }
    let (says, body) = match front_matter::parse(&text) {
        Ok(Some(found)) => {
            reading.fields = fields(&found, &mut source.problems);
            reading.extra.status = string(&found, "status", &mut source.problems);
            reading.extra.session_type = string(&found, "session-type", &mut source.problems);
            (summary(&reading.fields), found.body)
        }
        Ok(None) => ("no front matter".to_owned(), 0),
        Err(broken) => {
            source
                .problems
                .push(format!("line {}: {}: the front matter was ignored", broken.line, broken.what));
            ("front matter broken".to_owned(), 0)
        }
    };
    source.says = says;
    reading.extra.what_not_to_retry = sections::bullets(&text, body, WHAT_NOT_TO_RETRY.0);
    reading.extra.open_questions = sections::bullets(&text, body, OPEN_QUESTIONS.0);
    reading
}

/// Names of the five recommendation fields, in the order in which they are written.
const RECOMMENDATION: [&str; 5] =
    ["recommended-mode", "top-priorities", "carryover-ratio", "completion-rate", "rationale"];

/// The recommendation. A field of the wrong type is `None`, alone (upstream-formats §5.5).
fn fields(found: &FrontMatter, problems: &mut Vec<String>) -> StateFields {
    let [mode, priorities, carryover, completion, rationale] = RECOMMENDATION;
    StateFields {
        recommended_mode: string(found, mode, problems),
        top_priorities: typed(found, priorities, "a list of whole numbers", problems, |value| match value {
            Value::List(items) => items.iter().map(whole).collect(),
            _ => None,
        }),
        carryover_ratio: typed(found, carryover, "a number", problems, number),
        completion_rate: typed(found, completion, "a number", problems, number),
        rationale: string(found, rationale, problems),
    }
}

fn string(found: &FrontMatter, key: &str, problems: &mut Vec<String>) -> Option<String> {
    typed(found, key, "text", problems, |value| match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    })
}

fn number(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "a ratio is a small number")]
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) if number.is_finite() => Some(*number),
        _ => None,
    }
}

/// To JavaScript, `3.0` is a whole number.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        #[expect(clippy::cast_possible_truncation, reason = "whole and small, as checked")]
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => Some(*number as i64),
        _ => None,
    }
}

fn typed<T>(
    found: &FrontMatter,
    key: &str,
    expected: &str,
    problems: &mut Vec<String>,
    read: impl Fn(&Value) -> Option<T>,
) -> Option<T> {
    let value = found.get(key).filter(|value| **value != Value::Null)?;
    let read = read(value);
    if read.is_none() {
        problems.push(format!("`{key}` is not {expected}: ignored"));
    }
    read
}

/// `deep, completion 0.8, carryover 0.3, 2 priorities`.
fn summary(fields: &StateFields) -> String {
    let parts: Vec<String> = [
        fields.recommended_mode.clone(),
        fields.completion_rate.map(|rate| format!("completion {rate}")),
        fields.carryover_ratio.map(|ratio| format!("carryover {ratio}")),
        fields.top_priorities.as_ref().map(|list| match list.len() {
            1 => "1 priority".to_owned(),
            count => format!("{count} priorities"),
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { "no recommendation".to_owned() } else { parts.join(", ") }
}
