//! A summary from a journal of which only what matters was read.

use super::{RunOutcome, RunSummary};
use crate::journal::reader::{Replay, Skim};
use crate::ui::text::plural;

impl RunSummary {
    /// Whether an event of this type changes a summary; [`RunSummary::from_skim`] needs no other. Retries are
    /// only counted.
    #[must_use]
    pub fn needs(kind: &str) -> bool {
        !matches!(
            kind,
            "api_retry"
                | "stream_anomaly"
                | "surveyed"
                | "mode_selected"
                | "switches_checked"
                | "verdict_judged"
                | "attempt_spawned"
                | "report_received"
                | "suspended"
                | "stop_requested"
                | "cap_changed"
        )
    }

    /// Folds a journal of which only some events were read.
    #[must_use]
    pub fn from_skim(skim: &Skim) -> Self {
        let mut summary = RunSummary::from_entries(&skim.replay.entries);
        let retries = skim.skipped.get("api_retry").copied().unwrap_or_default();
        summary.api_retries = summary.api_retries.saturating_add(retries);
        if let (Some(last), Some(started)) = (skim.last_at, summary.started_at) {
            summary.last_event_at = Some(last);
            if summary.outcome == RunOutcome::Unfinished {
                let seconds = last.duration_since(started).as_secs_f64();
                summary.seconds = (seconds >= 0.0).then_some(seconds);
            }
        }
        summary.damage = damage(&skim.replay);
        summary
    }
}

/// What is wrong with a journal, in words.
fn damage(replay: &Replay) -> Option<String> {
    let mut wrong = Vec::new();
    if replay.bad_lines > 0 {
        let lines = u64::try_from(replay.bad_lines).unwrap_or(u64::MAX);
        wrong.push(format!("{} of the journal cannot be read", plural(lines, "line")));
    }
    if replay.unknown_events > 0 {
        let events = u64::try_from(replay.unknown_events).unwrap_or(u64::MAX);
        let names = replay.unknown_names.join(", ");
        wrong.push(format!("{} not known to this version: {names}", plural(events, "event")));
    }
    if replay.torn_tail {
        wrong.push("its last line is cut off".to_owned());
    }
    (!wrong.is_empty()).then(|| wrong.join("; "))
}
