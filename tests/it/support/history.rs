//! A repository that autopilot has worked in for years: records and a plan of any length.

use std::fmt::Write as _;

use super::env::TestEnv;

/// How much there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Records in `sessions.jsonl`: 100,000 are a session an hour for eleven years.
    pub(crate) sessions: u32,
    /// Records in `autopilot.jsonl`.
    pub(crate) runs: u32,
    /// Boxes in the plan, every second one ticked.
    pub(crate) tasks: u32,
}

/// The size of the budget of a dry run.
pub(crate) const YEARS: Size = Size { sessions: 100_000, runs: 10_000, tasks: 2_000 };

/// Writes all of it; bytes written.
pub(crate) fn write(env: &TestEnv, size: Size) -> usize {
    let (mut sessions, mut runs, mut plan) = (String::new(), String::new(), "# Plan\n".to_owned());
    for number in 0..size.sessions {
        session_record(&mut sessions, number);
    }
    for number in 0..size.runs {
        run_record(&mut runs, number);
    }
    for number in 0..size.tasks {
        if number % 20 == 0 {
            writeln!(plan, "\n## Phase {}\n", number / 20 + 1).unwrap();
        }
        let mark = if number % 2 == 0 { 'x' } else { ' ' };
        writeln!(plan, "- [{mark}] Build part {number} of the machine\n  It is of kind {}.", number % 7)
            .unwrap();
    }
    let files = [
        (".orchestrator/metrics/sessions.jsonl", sessions),
        (".orchestrator/metrics/autopilot.jsonl", runs),
        (".project/plan.md", plan),
    ];
    let mut bytes = 0;
    for (name, text) in files {
        if !text.is_empty() {
            bytes += text.len();
            env.write(name, text);
        }
    }
    bytes
}

fn session_record(text: &mut String, number: u32) {
    let day = number / 24 % 28 + 1;
    let hour = number % 24;
    writeln!(
        text,
        r#"{{"schema_version":2,"session_id":"00000000-0000-4000-8000-{number:012}","session_type":"feature","mode":"feature","platform":"claude","branch":"main","started_at":"2026-01-{day:02}T{hour:02}:00:00.000Z","completed_at":"2026-01-{day:02}T{hour:02}:40:00.000Z","duration_seconds":2400,"status":"completed","total_waves":2,"waves":[{{"wave":1,"role":"build","agent_count":3}},{{"wave":2,"role":"review","agent_count":2}}],"agent_summary":{{"complete":5,"partial":0,"failed":0,"spiral":0}},"total_agents":5,"total_files_changed":12,"effectiveness":{{"planned_issues":4,"completed":3,"carryover":1,"emergent":0,"completion_rate":0.75}},"issues_closed":[{number}],"issues_created":[],"autopilot_run_id":"main-2026-01-{day:02}-{hour:02}00","notes":"The work of the hour is done and committed."}}"#
    )
    .unwrap();
}

fn run_record(text: &mut String, number: u32) {
    let day = number % 28 + 1;
    writeln!(
        text,
        r#"{{"schema_version":1,"autopilot_run_id":"main-2026-01-{day:02}-0100-autopilot-{number}","started_at":"2026-01-{day:02}T01:00:00.000Z","completed_at":"2026-01-{day:02}T05:00:00.000Z","duration_seconds":14400,"max_sessions":5,"max_hours":4,"confidence_threshold":0.85,"max_tokens":500000,"iterations_completed":5,"kill_switch":"max-sessions-reached","kill_switch_detail":"iterations_completed=5 >= max-sessions=5","sessions":["00000000-0000-4000-8000-{number:012}"],"host_class":null,"resource_verdict_at_start":"green","fallback_to_manual":false,"dry_run":false}}"#
    )
    .unwrap();
}
