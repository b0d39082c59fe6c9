//! Records of sessions that a dead run still owed.
//!
//! A session's end is in the journal before its record is in `sessions.jsonl`. A run that dies in between owes
//! the record; it is made from the journal. What only the dead process knew (waves, sub-agents) is not in it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::core::mode::Mode;
use crate::core::published::{Entry, RunEvent};
use crate::journal::metrics::{append_session, sessions_length};
use crate::journal::records::session_records;
use crate::journal::session_record::{AgentSummary, Effectiveness, SessionRecord, SessionStatus};
use crate::state::layout::Layout;

/// Writes those that are missing; says what failed.
pub(super) fn write_missing(layout: &Layout, run_id: &str, entries: &[Entry]) -> Vec<String> {
    let mut of_id: BTreeMap<String, Vec<SessionRecord>> = BTreeMap::new();
    for record in ended(run_id, entries) {
        of_id.entry(record.session_id.clone()).or_default().push(record);
    }
    let mut failed = Vec::new();
    for (id, records) in of_id {
        let there = match session_records(&layout.sessions_jsonl(), run_id, &id) {
            Ok(there) => there,
            Err(error) => {
                failed.push(format!("the records of the sessions cannot be read: {error}"));
                continue;
            }
        };
        for (at, record) in records.iter().enumerate().skip(there) {
            // The first one of a conversation completes what the session has written itself; the next ones, of
            // iterations that went on with it, must not be taken for that.
            let since = if at == 0 { 0 } else { sessions_length(layout) };
            if let Err(error) = append_session(layout, record, since) {
                failed.push(format!("{error}; the record: {}", error.record));
            }
        }
    }
    failed
}

/// The sessions that came to an end, as records, in order.
fn ended(run_id: &str, entries: &[Entry]) -> Vec<SessionRecord> {
    let mut branch = None;
    let mut started: Option<(Timestamp, Mode)> = None;
    let mut records = Vec::new();
    for entry in entries {
        match &entry.event {
            RunEvent::RunStarted { branch: on, .. } => branch.clone_from(on),
            RunEvent::SessionStarted { mode, .. } => started = Some((entry.at, *mode)),
            RunEvent::SessionEnded {
                session_id,
                completed,
                status,
                summary,
                work,
                tasks,
                tokens,
                cost_usd,
                seconds,
                ..
            } => {
                // A journal whose beginning was lost: there is no telling what kind of session it was.
                let Some((started_at, mode)) = started.take() else { continue };
                records.push(SessionRecord {
                    session_id: session_id.clone(),
                    mode,
                    autopilot_run_id: run_id.to_owned(),
                    platform: Some("claude".to_owned()),
                    branch: branch.clone(),
                    session_start_ref: None,
                    started_at,
                    completed_at: entry.at,
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a float is cut to the range of the integer"
                    )]
                    duration_seconds: *seconds as u64,
                    status: match (completed, status) {
                        (true, Some(_)) => SessionStatus::Completed,
                        (true, None) => SessionStatus::Unresolved,
                        (false, _) => SessionStatus::Abandoned,
                    },
                    waves: Vec::new(),
                    agent_summary: AgentSummary::default(),
                    total_agents: 0,
                    total_files_changed: work.as_ref().map(|work| work.files_changed).unwrap_or_default(),
                    effectiveness: tasks.as_ref().filter(|tasks| !tasks.given.is_empty()).map(|tasks| {
                        let [given, open] = [&tasks.given, &tasks.still_open].map(|list| list.len() as u64);
                        Effectiveness::new(given, given.saturating_sub(open), open, 0)
                    }),
                    issues_closed: Vec::new(),
                    issues_created: Vec::new(),
                    tokens: Some(*tokens),
                    total_cost_usd: *cost_usd,
                    notes: summary.clone(),
                });
            }
            _ => {}
        }
    }
    records
}
