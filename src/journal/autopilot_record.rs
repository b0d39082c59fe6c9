//! One record a run: a line of `autopilot.jsonl` (design §9, upstream-formats §5.1).
//!
//! The fields of upstream's version 1 come first, in upstream's order; ours follow. Readers of version 1
//! ignore what they do not know. `null` is written, never left out.

use jiff::Timestamp;
use serde::Serialize;

use crate::core::kill_switch::KillSwitch;
use crate::core::outcome::Class;
use crate::core::published::{RunEvent, Tokens};

use super::js;

/// Version of the record: upstream's 1 plus our fields.
pub const SCHEMA_VERSION: u64 = 2;

/// What is recorded of a run. Field order is part of the format.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AutopilotRecord {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u64,
    /// Id of the run.
    pub autopilot_run_id: String,
    /// Start, UTC.
    #[serde(serialize_with = "js::serialize_timestamp")]
    pub started_at: Timestamp,
    /// End, UTC.
    #[serde(serialize_with = "js::serialize_timestamp")]
    pub completed_at: Timestamp,
    /// Seconds on the run's monotonic clock, rounded.
    pub duration_seconds: u64,
    /// `--max-sessions`, as clamped.
    pub max_sessions: u32,
    /// `--max-hours`, as clamped.
    #[serde(serialize_with = "js::serialize_number")]
    pub max_hours: f64,
    /// `--confidence-threshold`, as clamped.
    #[serde(serialize_with = "js::serialize_number")]
    pub confidence_threshold: f64,
    /// `--max-tokens`; 0 = off.
    pub max_tokens: u64,
    /// Completed sessions.
    pub iterations_completed: u32,
    /// The switch that ended the run; `None` for a dry run and the fall-back of iteration 1.
    pub kill_switch: Option<KillSwitch>,
    /// Its words; those of a dry run and the fall-back too.
    pub kill_switch_detail: Option<String>,
    /// Conversations, in order.
    pub sessions: Vec<String>,
    /// `host_class` of upstream's `host.json`.
    pub host_class: Option<String>,
    /// Resource tier when the run started.
    pub resource_verdict_at_start: Option<String>,
    /// Iteration 1 fell back to manual.
    pub fallback_to_manual: bool,
    /// Nothing was started.
    pub dry_run: bool,
    /// Output tokens of the run: what `--max-tokens` counts.
    pub total_tokens_used: u64,
    /// Work tree, when not the repository itself.
    pub worktree_path: Option<String>,
    /// Run this one continues.
    pub parent_run_id: Option<String>,
    /// Stalled turns that were killed and resumed.
    pub stall_recovery_count: u32,
    /// Always `None`; kept for upstream's readers.
    pub blocked_by_issue: Option<u64>,
    /// Always `false`; kept for upstream's readers.
    pub aborted_by_cohort: bool,
    /// Sessions that went round in circles and were put right.
    pub spiral_recovery_count: u32,
    /// How the run ended, in one word.
    pub outcome: String,
    /// Exit code of the process (design §3).
    pub exit_code: u8,
    /// Class of the failure that ended it.
    pub failure_class: Option<Class>,
    /// API-equivalent dollars, when known.
    #[serde(serialize_with = "js::serialize_optional_number")]
    pub cost_usd: Option<f64>,
    /// Tokens of the run, all models and sub-agents.
    pub tokens: Tokens,
    /// Seconds asleep on usage limits.
    pub limit_wait_seconds: u64,
    /// Automatic repairs, in order.
    pub heals: Vec<Heal>,
    /// Version of `autopilot`.
    pub version: String,
}

/// One automatic repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Heal {
    /// Id of the conversation.
    pub session_id: String,
    /// What was wrong.
    pub class: Class,
    /// What was done about it.
    pub action: String,
    /// Which recovery of its turn it was, from 1.
    pub recovery: u32,
}

impl Heal {
    /// The repair that an event tells of; most tell of none.
    #[must_use]
    pub fn of(event: &RunEvent) -> Option<Heal> {
        let RunEvent::Healed { session_id, class, action, recovery, .. } = event else { return None };
        let (session_id, action) = (session_id.clone(), action.clone());
        Some(Heal { session_id, class: *class, action, recovery: *recovery })
    }
}
