//! Eight processes that add to the metric files at once.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use autopilot::core::kill_switch::KillSwitch;
use autopilot::core::mode::Mode;
use autopilot::core::published::Tokens;
use autopilot::journal::autopilot_record::{AutopilotRecord, SCHEMA_VERSION};
use autopilot::journal::metrics::{append_autopilot, append_session};
use autopilot::journal::records::{MetricFile, read_records};
use autopilot::journal::session_record::{AgentSummary, SessionRecord, SessionStatus};
use autopilot::state::layout::Layout;
use jiff::Timestamp;

use super::figure::Measured;

const PROCESSES: usize = 8;
const APPENDS: usize = 200;

pub(crate) fn all_there() -> Measured {
    let (runs, sessions, time) = together(PROCESSES, APPENDS);
    let (_, _, alone) = together(1, APPENDS);
    let wanted = PROCESSES * APPENDS;
    Measured {
        value: format!("{runs} and {sessions}"),
        within: Some((runs, sessions) == (wanted, wanted)),
        how: format!(
            "autopilot.jsonl and sessions.jsonl, {PROCESSES} processes x {APPENDS} synced appends to each, \
             {:.1} s in all; one process alone does its {APPENDS} in {:.1} s",
            time.as_secs_f64(),
            alone.as_secs_f64()
        ),
    }
}

/// Whole records in both files, and the time it took.
fn together(processes: usize, appends: usize) -> (usize, usize, Duration) {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    layout.prepare().unwrap();
    let itself = std::env::current_exe().unwrap();
    let mut children: Vec<_> = (0..processes)
        .map(|_| {
            let mut command = Command::new(&itself);
            command.args(["__append".as_ref(), root.path().as_os_str(), appends.to_string().as_ref()]);
            command.stdin(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    // They all wait for a byte, so that none is done before the last has started.
    let start = Instant::now();
    for child in &mut children {
        child.stdin.take().unwrap().write_all(b"x").unwrap();
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let time = start.elapsed();
    let count = |path: &Path, kind| {
        let records = read_records(path, kind).unwrap();
        let key = if kind == MetricFile::Autopilot { "autopilot_run_id" } else { "session_id" };
        let mut ids: Vec<String> =
            records.values.iter().filter_map(|record| Some(record.get(key)?.as_str()?.to_owned())).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    };
    let runs = count(&layout.autopilot_jsonl(), MetricFile::Autopilot);
    let sessions = count(&layout.sessions_jsonl(), MetricFile::Sessions);
    (runs, sessions, time)
}

/// One of the processes.
pub(crate) fn subject(root: &str, count: &str) -> ExitCode {
    let layout = Layout::new(root);
    std::io::Read::read(&mut std::io::stdin(), &mut [0]).unwrap();
    for number in 0..count.parse::<usize>().unwrap() {
        let id = format!("{}-{number}", std::process::id());
        append_autopilot(&layout, &run_record(&id)).unwrap();
        append_session(&layout, &session_record(&id), u64::MAX).unwrap();
    }
    ExitCode::SUCCESS
}

fn run_record(id: &str) -> AutopilotRecord {
    AutopilotRecord {
        schema_version: SCHEMA_VERSION,
        autopilot_run_id: id.to_owned(),
        started_at: Timestamp::UNIX_EPOCH,
        completed_at: Timestamp::UNIX_EPOCH,
        duration_seconds: 0,
        max_sessions: 5,
        max_hours: 4.0,
        confidence_threshold: 0.85,
        max_tokens: 500_000,
        iterations_completed: 5,
        kill_switch: Some(KillSwitch::MaxSessionsReached),
        kill_switch_detail: None,
        sessions: vec!["00000000-0000-4000-8000-000000000000".to_owned(); 5],
        host_class: None,
        resource_verdict_at_start: Some("green".to_owned()),
        fallback_to_manual: false,
        dry_run: false,
        total_tokens_used: 0,
        worktree_path: None,
        parent_run_id: None,
        stall_recovery_count: 0,
        blocked_by_issue: None,
        aborted_by_cohort: false,
        spiral_recovery_count: 0,
        outcome: "planned".to_owned(),
        exit_code: 0,
        failure_class: None,
        cost_usd: None,
        tokens: Tokens::default(),
        limit_wait_seconds: 0,
        heals: Vec::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn session_record(id: &str) -> SessionRecord {
    SessionRecord {
        session_id: id.to_owned(),
        mode: Mode::Feature,
        autopilot_run_id: "run".to_owned(),
        platform: None,
        branch: None,
        session_start_ref: None,
        started_at: Timestamp::UNIX_EPOCH,
        completed_at: Timestamp::UNIX_EPOCH,
        duration_seconds: 0,
        status: SessionStatus::Completed,
        waves: Vec::new(),
        agent_summary: AgentSummary::default(),
        total_agents: 0,
        total_files_changed: 0,
        effectiveness: None,
        issues_closed: Vec::new(),
        issues_created: Vec::new(),
        tokens: None,
        total_cost_usd: None,
        notes: Some("The work of the hour is done and committed.".to_owned()),
    }
}
