//! What is known before the next session is chosen (design §5, upstream-formats §6.2, §7).
//!
//! The edges gather these anew before every iteration; nothing here is ever fatal. What could not be read is
//! `None` or empty, never made up, and [`Signals::sources`] says for every source where it was looked for, how
//! old it is and what was wrong with it. The whole is journaled, so that a choice can be explained, and made
//! again with other thresholds, from the record alone.

use serde::{Deserialize, Serialize};

use super::mode::Mode;
use super::task::TaskEvidence;

/// Everything the choice of a session rests on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Signals {
    /// `--mode`.
    pub forced_mode: Option<Mode>,
    /// There is a prompt (`--prompt`, `--prompt-file`).
    pub prompt: bool,
    /// A conversation that was cut off waits to go on (`resume`).
    pub interrupted: bool,
    /// Recommendation fields of STATE.md.
    pub state: StateFields,
    /// The last real records of `sessions.jsonl`, oldest first, at most [`RECENT_SESSIONS`].
    pub recent_sessions: Vec<SessionFacts>,
    /// `bootstrap.lock`; an empty file is `Some` with nothing in it, and counts as there.
    pub bootstrap: Option<BootstrapLock>,
    /// What was learned, best first, decayed and expired already, at most [`LEARNINGS`].
    pub learnings: Vec<Learning>,
    /// Open issues of the forge.
    pub backlog: Option<Backlog>,
    /// State of CI on the current branch.
    pub ci: Option<CiStatus>,
    /// Open tasks; `None` = there is no source of tasks.
    pub tasks: Option<TaskEvidence>,
    /// Words of the work, for the keywords of context pressure (upstream never gives any).
    pub task_text: Option<String>,
    /// Where each of these came from.
    pub sources: Vec<SourceReading>,
}

/// How many sessions the selector looks back on (upstream-formats §7).
pub const RECENT_SESSIONS: usize = 10;
/// How many learnings it is given (upstream-formats §7).
pub const LEARNINGS: usize = 15;

/// The recommendation fields of STATE.md; one of the wrong type is `None` (upstream-formats §5.5).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StateFields {
    /// `recommended-mode`, as written: it need not be a mode.
    pub recommended_mode: Option<String>,
    /// `top-priorities`: issue numbers. An empty list is not the same as none.
    pub top_priorities: Option<Vec<i64>>,
    /// `carryover-ratio`.
    pub carryover_ratio: Option<f64>,
    /// `completion-rate`.
    pub completion_rate: Option<f64>,
    /// `rationale`.
    pub rationale: Option<String>,
}

/// What the selector reads of a record of `sessions.jsonl`, aliases resolved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionFacts {
    /// Id of the session.
    pub session_id: Option<String>,
    /// `session_type`.
    pub session_type: Option<String>,
    /// `effectiveness.completion_rate ?? effectiveness.completion_ratio ?? completion_rate ??
    /// completion_ratio`; `None` counts as 0 where a mean is formed.
    pub completion: Option<f64>,
    /// The record has an `effectiveness` object (upstream-formats §6.5, pressure).
    pub has_effectiveness: bool,
    /// `effectiveness.planned_issues`, when a number.
    pub planned: Option<f64>,
    /// `effectiveness.carryover`, when a number.
    pub carryover: Option<f64>,
}

/// `.orchestrator/bootstrap.lock` (upstream-formats §5.8).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BootstrapLock {
    /// `tier`: `fast`, `standard`, `deep`, or anything else.
    pub tier: Option<String>,
}

/// One learning (upstream-formats §5.3).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Learning {
    /// `type`, aliases resolved.
    pub kind: String,
    /// `subject`, as written.
    pub subject: String,
    /// `insight`, as written; may be empty.
    pub insight: String,
    /// Confidence after decay, 0 to 1.
    pub score: f64,
}

/// Open issues, summed up (upstream-formats §7). Not used for scores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backlog {
    /// `github` or `gitlab`.
    pub forge: String,
    /// Issues seen.
    pub total: u32,
    /// Labelled `priority:critical` (or `::`).
    pub critical: u32,
    /// Labelled `priority:high` (or `::`).
    pub high: u32,
    /// Not updated for more than 30 days.
    pub stale: u32,
    /// There may be more than were asked for.
    pub truncated: bool,
    /// The issues that are work for a run: those with the configured label.
    pub tasks: Vec<Issue>,
}

/// An issue of the forge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Issue {
    /// Its number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its labels.
    pub labels: Vec<String>,
}

/// Last finished run of CI on the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CiStatus {
    /// It passed.
    Green,
    /// It failed.
    Red,
    /// None has finished yet.
    Pending,
    /// There is CI, and its state could not be told.
    Unknown,
}

impl CiStatus {
    /// The word used in events and rationales.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CiStatus::Green => "green",
            CiStatus::Red => "red",
            CiStatus::Pending => "pending",
            CiStatus::Unknown => "unknown",
        }
    }
}

/// How a source was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceReading {
    /// Name of the source: `STATE.md`, `sessions.jsonl`, `bootstrap.lock`, `learnings.jsonl`, `backlog`,
    /// `ci`, `plan.md`, `inbox.md`, `hand-over`.
    pub source: String,
    /// Where it was read: a path relative to the repository, or a command. `None` = nothing is there.
    pub origin: Option<String>,
    /// Seconds since it was last changed.
    pub age_seconds: Option<u64>,
    /// What it says, in a few words: `3 open of 7`, `deep, completion 0.8`, `not there`.
    pub says: String,
    /// What was wrong with it: bad lines, wrong types, a command that hung.
    pub problems: Vec<String>,
}
