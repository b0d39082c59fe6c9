//! What a run that died without a word has left: processes, and the record it owes.
//!
//! After a `kill -9` or a power cut the lock file still names the run. Whoever takes the lock next ends the
//! processes that carry its mark (field-reports J04, H14), writes its record and its last event from its
//! journal, and says so. A session that was over, and whose record was still on its way, gets it from there
//! too. Nothing of the work tree is touched.

mod sessions;

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::core::kill_switch::KillSwitch;
use crate::core::outcome::Class;
use crate::core::published::{Entry, RunEvent, Tokens};
use crate::core::time::Now;
use crate::driver::clock;
use crate::journal::autopilot_record::{AutopilotRecord, Heal, SCHEMA_VERSION};
use crate::journal::metrics::store_autopilot;
use crate::journal::reader::read_journal;
use crate::journal::records::of_run;
use crate::journal::writer::Journal;
use crate::process::{Cookie, Graces, ProcessId, sweep_orphans};
use crate::report::{RunOutcome, RunSummary};
use crate::settings::env_vars;
use crate::state::layout::Layout;
use crate::state::lock::{Acquired, Holder, RunLock};

/// Grace for what a dead run left. It may be writing a file.
const GRACES: Graces = Graces { terminate: Duration::from_secs(5), kill: Duration::from_secs(5) };
/// Exit code a shell would have seen: 128 + SIGKILL.
const KILLED: u8 = 137;
const DETAIL: &str =
    "the run died without a word (killed, or the machine went down); recorded by the next start";

/// Puts the remains of dead runs in order.
pub(super) async fn settle(layout: &Layout, acquired: Acquired) -> (RunLock, Vec<RunEvent>) {
    let Acquired { mut lock, previous, damaged } = acquired;
    let mut events = Vec::new();
    if damaged {
        events.push(RunEvent::Warning {
            text: "the lock file was damaged: a run may have died here; its processes cannot be told"
                .to_owned(),
        });
    }
    let mut all_settled = true;
    for holder in &previous {
        let cookie = Cookie::new(env_vars::AUTOPILOT_COOKIE, holder.cookie.clone());
        let recorded = ProcessId { pid: holder.pid, start_time: holder.pid_start_time };
        let recorded = if holder.pid_start_time > 0 { vec![recorded] } else { Vec::new() };
        let report = sweep_orphans(&cookie, &recorded, GRACES).await;
        all_settled &= report.survivors.is_empty();
        events.push(RunEvent::DeadRunFound {
            run_id: holder.run_id.clone(),
            swept: report.swept.iter().map(|swept| format!("{} ({})", swept.comm, swept.pid)).collect(),
            survivors: report
                .survivors
                .iter()
                .map(|left| format!("{} ({})", left.comm, left.id.pid))
                .collect(),
        });
        events
            .extend(record(layout, holder, clock::now()).into_iter().map(|text| RunEvent::Warning { text }));
    }
    if all_settled && let Err(error) = lock.settled() {
        events.push(RunEvent::Warning { text: error.to_string() });
    }
    (lock, events)
}

/// Writes the records and the last event that are missing; says what failed.
fn record(layout: &Layout, holder: &Holder, now: Now) -> Vec<String> {
    let Some(run_dir) = layout.run(&holder.run_id) else { return Vec::new() };
    let path = run_dir.events();
    let entries = match read_journal(&path) {
        Ok(replay) => replay.entries,
        // It died before its first word.
        Err(_) if run_dir.path().is_dir() && !path.exists() => Vec::new(),
        Err(error) => return vec![format!("the journal of run {} cannot be read: {error}", holder.run_id)],
    };
    let mut failed = sessions::write_missing(layout, &holder.run_id, &entries);
    failed.extend(run_record(layout, holder, &path, &entries, now));
    failed
}

/// The record of the run, and its last event.
fn run_record(layout: &Layout, holder: &Holder, path: &Path, entries: &[Entry], now: Now) -> Option<String> {
    let summary = RunSummary::from_entries(entries);
    let tokens = summary.tokens.unwrap_or_default();
    let started_at = summary.started_at.unwrap_or(holder.started_at);
    let completed_at = summary.last_event_at.unwrap_or(started_at).max(started_at);
    let worked = Duration::try_from_secs_f64(summary.seconds.unwrap_or_default()).unwrap_or_default();
    let mut sessions: Vec<String> = Vec::new();
    for session in &summary.sessions {
        if sessions.last() != Some(&session.session_id) {
            sessions.push(session.session_id.clone());
        }
    }
    if summary.outcome == RunOutcome::Unfinished {
        let last = RunEvent::RunEnded {
            kill_switch: Some(KillSwitch::FailedWave),
            detail: Some(DETAIL.to_owned()),
            exit_code: KILLED,
            failure_class: Some(Class::KilledByOther),
            fallback_to_manual: false,
            iterations: summary.iterations,
            sessions: sessions.clone(),
            tokens,
            cost_usd: summary.cost_usd,
            seconds: worked.as_secs_f64(),
            limit_wait_seconds: summary.limit_wait_seconds,
            next: vec![format!("autopilot resume {}", holder.run_id)],
        };
        let written = Journal::open(path).and_then(|mut journal| {
            journal.append(&last, now)?;
            journal.finish()
        });
        if let Err(error) = written {
            return Some(format!("the journal of run {} cannot be closed: {error}", holder.run_id));
        }
    }
    // Its own record is there: it died on its way out. Not so with the record of an earlier part.
    let recorded = of_run(&layout.autopilot_jsonl(), &holder.run_id).ok().flatten();
    if recorded.is_some_and(|record| is_of_part(&record, summary.resumed_at.last().copied())) {
        return None;
    }
    let limits = summary.limits.as_ref();
    let record = AutopilotRecord {
        schema_version: SCHEMA_VERSION,
        autopilot_run_id: holder.run_id.clone(),
        started_at,
        completed_at,
        duration_seconds: worked.as_secs(),
        max_sessions: limits.map(|limits| limits.max_sessions).unwrap_or_default(),
        max_hours: limits.map(|limits| limits.max_hours).unwrap_or_default(),
        confidence_threshold: confidence_threshold(entries),
        max_tokens: limits.map(|limits| limits.max_tokens).unwrap_or_default(),
        iterations_completed: summary.iterations,
        kill_switch: Some(KillSwitch::FailedWave),
        kill_switch_detail: Some(DETAIL.to_owned()),
        sessions,
        host_class: None,
        resource_verdict_at_start: None,
        fallback_to_manual: false,
        dry_run: false,
        total_tokens_used: tokens.output,
        worktree_path: None,
        parent_run_id: summary.parent_run_id.clone(),
        stall_recovery_count: 0,
        blocked_by_issue: None,
        aborted_by_cohort: false,
        spiral_recovery_count: 0,
        outcome: "died".to_owned(),
        exit_code: KILLED,
        failure_class: Some(Class::KilledByOther),
        cost_usd: summary.cost_usd,
        tokens: Tokens { ..tokens },
        limit_wait_seconds: summary.limit_wait_seconds,
        heals: summary
            .heals
            .iter()
            .map(|heal| Heal {
                session_id: heal.session_id.clone(),
                class: heal.class,
                action: heal.action.clone(),
                recovery: 0,
            })
            .collect(),
        version: summary.version.clone().unwrap_or_else(|| holder.version.clone()),
    };
    store_autopilot(layout, &record).err().map(|error| format!("{error}; the record: {}", error.record))
}

/// Whether a record was written at the end of the part that began then; without one, it was.
fn is_of_part(record: &Map<String, Value>, resumed_at: Option<Timestamp>) -> bool {
    let completed_at = record.get("completed_at").and_then(Value::as_str);
    let completed_at = completed_at.and_then(|text| text.parse::<Timestamp>().ok());
    // Records know seconds.
    resumed_at.is_none_or(|resumed| completed_at.is_some_and(|end| end.as_second() >= resumed.as_second()))
}

fn confidence_threshold(entries: &[Entry]) -> f64 {
    entries
        .iter()
        .find_map(|entry| match &entry.event {
            RunEvent::RunStarted { confidence_threshold, .. } => Some(*confidence_threshold),
            _ => None,
        })
        .unwrap_or_default()
}
