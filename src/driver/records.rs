//! What the run knows → what is written down.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::core::event::SessionClose;
use crate::core::published::{Commit, Verification, Work};
use crate::git::{Change, DiffStat, Snapshot};
use crate::journal::session_record::{AgentSummary, Effectiveness, SessionRecord, SessionStatus, Wave};
use crate::process::{CaptureSpec, Cookie, capture};
use crate::state::atomic;

/// Output of `--verify` that is kept.
const VERIFY_OUTPUT: usize = 1024 * 1024;
/// Of it shown in records.
const VERIFY_TAIL: usize = 2000;

/// A `--verify` to run.
#[derive(Debug)]
pub(super) struct Verify {
    /// Shell command.
    pub(super) command: String,
    /// How long it may take.
    pub(super) timeout: Duration,
    pub(super) run_id: String,
    /// After a `kill -9` of the run the next start finds it by this.
    pub(super) cookie: Cookie,
    /// Where its output is kept.
    pub(super) log: PathBuf,
}

/// Runs it.
pub(super) async fn verify(root: &Path, verify: &Verify) -> Verification {
    let Verify { command, timeout, run_id, cookie, log } = verify;
    let mut spec = CaptureSpec::new("/bin/sh", root);
    spec.args = vec!["-c".into(), command.into()];
    spec.env_set = vec![
        ("AUTOPILOT_RUN_ID".into(), run_id.into()),
        (cookie.name.clone().into(), cookie.value.clone().into()),
    ];
    spec.timeout = *timeout;
    spec.max_output = VERIFY_OUTPUT;
    spec.sweep = true;
    match capture(&spec).await {
        Ok(captured) => {
            let mut output = String::from_utf8_lossy(&captured.stdout).into_owned();
            output.push_str(&String::from_utf8_lossy(&captured.stderr));
            if let Err(error) = atomic::replace(log, output.as_bytes(), atomic::PRIVATE_FILE) {
                tracing::warn!(%error, "the output of --verify is not kept");
            }
            Verification {
                passed: captured.exit.success(),
                ended: captured.exit.to_string(),
                tail: tail(output.trim_end()),
            }
        }
        Err(error) => Verification { passed: false, ended: error.to_string(), tail: String::new() },
    }
}

fn tail(text: &str) -> String {
    let mut from = text.len().saturating_sub(VERIFY_TAIL);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

/// What git says, in the published words.
pub(super) fn work(change: Change) -> Work {
    let DiffStat { files, insertions, deletions } = change.diff.unwrap_or_default();
    Work {
        commits: change
            .commits
            .into_iter()
            .map(|commit| Commit { oid: commit.oid.to_string(), subject: commit.subject })
            .collect(),
        commits_total: change.commits_total,
        files_changed: files,
        insertions,
        deletions,
        dirty: change.now.dirty + change.now.untracked,
        dirty_changed: change.dirty_changed,
        history_rewritten: change.head_moved_backwards,
    }
}

/// The record of a session (upstream-formats §5.2).
pub(super) fn session(run_id: &str, snapshot: Option<&Snapshot>, close: &SessionClose) -> SessionRecord {
    let (report, checked) = (close.report.as_ref(), &close.checked);
    let count = |value: Option<u64>| value.unwrap_or_default();
    let waves: Vec<Wave> = report
        .map(|report| {
            let mut waves = Vec::new();
            for (at, wave) in (1..).zip(&report.waves) {
                waves.push(Wave {
                    wave: wave.wave.filter(|number| *number > 0).unwrap_or(at),
                    role: wave
                        .role
                        .clone()
                        .filter(|role| !role.is_empty())
                        .unwrap_or_else(|| "work".to_owned()),
                    agent_count: wave.agents,
                    files_changed: None,
                    quality: None,
                });
            }
            waves
        })
        .unwrap_or_default();
    SessionRecord {
        session_id: close.session_id.clone(),
        mode: close.mode,
        autopilot_run_id: run_id.to_owned(),
        platform: Some("claude".to_owned()),
        branch: snapshot.and_then(|snapshot| snapshot.branch.clone()),
        session_start_ref: snapshot.and_then(|snapshot| snapshot.head.as_ref().map(ToString::to_string)),
        started_at: close.started_at,
        completed_at: close.ended_at,
        duration_seconds: close.duration.as_secs(),
        status: match (close.completed, report) {
            (true, Some(_)) => SessionStatus::Completed,
            (true, None) => SessionStatus::Unresolved,
            (false, _) => SessionStatus::Abandoned,
        },
        waves,
        agent_summary: AgentSummary {
            complete: count(report.and_then(|report| report.agent_summary.complete)),
            partial: count(report.and_then(|report| report.agent_summary.partial)),
            failed: count(checked.failed),
            spiral: count(checked.spiral),
        },
        total_agents: u64::from(close.agents_started),
        total_files_changed: close.work.as_ref().map(|work| work.files_changed).unwrap_or_default(),
        effectiveness: checked.planned.map(|planned| {
            Effectiveness::new(
                planned,
                count(checked.completed),
                count(checked.carryover),
                count(report.and_then(|report| report.effectiveness.emergent)),
            )
        }),
        issues_closed: Vec::new(),
        issues_created: Vec::new(),
        tokens: Some(close.tokens),
        total_cost_usd: close.cost_usd,
        notes: report.and_then(|report| report.summary.clone()),
    }
}
