//! A made-up night for the tests of lines and reports: three sessions, one heal, one limit, one lie.

use jiff::{Span, Timestamp};

use crate::core::kill_switch::KillSwitch;
use crate::core::mode::Mode;
use crate::core::outcome::Class;
use crate::core::published::{
    Commit, Entry, FORMAT, ModelSpend, Purpose, ReportSource, ResetSource, RunEvent, SignalReading,
    SwitchInputs, Tokens, Verification, Work,
};
use crate::core::wave::WaveTotals;

/// When the night begins.
pub(crate) fn start() -> Timestamp {
    "2026-08-23T01:17:00Z".parse().expect("a valid time")
}

/// The first event.
pub(crate) fn run_started() -> RunEvent {
    RunEvent::RunStarted {
        run_id: "main-2026-08-23-0117-autopilot".into(),
        version: "0.1.0".into(),
        repository: "/proj/shop".into(),
        branch: Some("main".into()),
        parent_run_id: None,
        max_sessions: 3,
        max_hours: 5.0,
        max_tokens: 500_000,
        max_cost_usd: Some(10.0),
        confidence_threshold: 0.85,
        claude: "/usr/bin/claude".into(),
        claude_version: Some("2.1.332".into()),
    }
}

/// A session begins.
pub(crate) fn session_started(iteration: u32, id: &str) -> RunEvent {
    RunEvent::SessionStarted {
        iteration,
        session_id: id.into(),
        mode: Mode::Feature,
        cap: 8,
        continued: false,
        tasks: Vec::new(),
    }
}

/// A session ends well.
pub(crate) fn session_ended(iteration: u32, id: &str) -> RunEvent {
    RunEvent::SessionEnded {
        iteration,
        session_id: id.into(),
        completed: true,
        class: Class::Ok,
        status: Some("partial".into()),
        summary: Some("Added the basket page.\nTests pass.".into()),
        work: Some(Work {
            commits: vec![
                Commit { oid: "1f00aa".into(), subject: "Basket: totals".into() },
                Commit { oid: "1f00ab".into(), subject: "Basket: page | list".into() },
            ],
            commits_total: 2,
            files_changed: 5,
            insertions: 1_240,
            deletions: 12,
            dirty: 0,
            dirty_changed: false,
            history_rewritten: false,
        }),
        contradictions: vec![],
        verification: Some(Verification { passed: true, ended: "exit 0".into(), tail: String::new() }),
        tasks: None,
        tokens: Tokens { input: 3_000, output: 41_250, cache_read: 900_000, cache_creation: 20_000 },
        models: vec![
            ModelSpend {
                model: "claude-opus-4".into(),
                tokens: Tokens { output: 38_250, ..Tokens::default() },
                cost_usd: Some(1.15),
            },
            ModelSpend {
                model: "claude-haiku-4".into(),
                tokens: Tokens { output: 3_000, ..Tokens::default() },
                cost_usd: Some(0.1),
            },
        ],
        cost_usd: Some(1.25),
        seconds: 1_504.0,
        turns: 1,
        attempts: 1,
        denials: 0,
        wave: WaveTotals::default(),
    }
}

/// The events of the night, each with the seconds since its start.
pub(crate) fn events() -> Vec<(i64, RunEvent)> {
    let inputs = SwitchInputs { iterations: 2, max_sessions: 3, ..SwitchInputs::default() };
    vec![
        (0, run_started()),
        (
            1,
            RunEvent::ResourcesJudged {
                iteration: 1,
                tier: "green".into(),
                cap: 8,
                deciding: None,
                signals: vec![SignalReading {
                    signal: "ram_available".into(),
                    value: "9.1 GB".into(),
                    tier: "green".into(),
                }],
            },
        ),
        (
            1,
            RunEvent::ModeSelected {
                alternatives: Vec::new(),
                pressure: crate::core::mode::Pressure::default(),
                reasons: Vec::new(),
                iteration: 1,
                mode: Some(Mode::Feature),
                confidence: 0.9,
                threshold: 0.85,
                rationale: "4 open tasks in .project/plan.md".into(),
            },
        ),
        (2, session_started(1, "5a5a0001")),
        (
            2,
            RunEvent::TurnStarted {
                session_id: "5a5a0001".into(),
                turn: 1,
                purpose: Purpose::Work,
                prompt_bytes: 2_000,
                transcript_offset: 0,
            },
        ),
        (4, initialised(1)),
        (60, RunEvent::ToolUsed { name: "Bash".into(), summary: "cargo test".into(), sub_agent: false }),
        (90, retry(1)),
        (92, retry(2)),
        (96, retry(3)),
        (99, RunEvent::TextWritten { text: "All \u{1b}[32mgreen\u{1b}[0m.".into(), sub_agent: false }),
        (1_506, session_ended(1, "5a5a0001")),
        (1_510, session_started(2, "5a5a0002")),
        (1_512, initialised(2)),
        (
            3_000,
            RunEvent::OutcomeJudged {
                attempt: 2,
                session_id: "5a5a0002".into(),
                class: Class::Stalled,
                confidence: 0.95,
                reasons: vec!["no output for 600 s".into(), "no tool made progress".into()],
            },
        ),
        (
            3_000,
            RunEvent::Healed {
                session_id: "5a5a0002".into(),
                class: Class::Stalled,
                action: "resume the session with the reconcile prompt".into(),
                why: "the transcript grew and the turn was not over".into(),
                recovery: 1,
                run_heal: None,
                delay_seconds: 5,
            },
        ),
        (
            4_000,
            RunEvent::LimitWait {
                window: Some("five_hour".into()),
                until: "2026-08-23T03:30:00Z".parse().expect("a valid time"),
                source: ResetSource::Event,
                why: "You've hit your 5-hour limit".into(),
            },
        ),
        (8_020, RunEvent::LimitWaitOver { waited_seconds: 4_020 }),
        (
            9_000,
            RunEvent::ReportReceived {
                session_id: "5a5a0002".into(),
                source: ReportSource::CloseTurn,
                status: Some("complete".into()),
                problems: vec![],
            },
        ),
        (
            9_001,
            RunEvent::SessionEnded {
                iteration: 2,
                session_id: "5a5a0002".into(),
                completed: true,
                class: Class::Ok,
                status: Some("complete".into()),
                summary: Some("Everything is done.".into()),
                work: Some(Work { dirty: 2, ..Work::default() }),
                contradictions: vec!["reported 3 tasks done, but made no commit".into()],
                tasks: None,
                verification: Some(Verification {
                    passed: false,
                    ended: "exit 101".into(),
                    tail: "running 12 tests\ntest basket ... FAILED\n".into(),
                }),
                tokens: Tokens::default(),
                models: vec![],
                cost_usd: None,
                seconds: 7_491.0,
                turns: 3,
                attempts: 2,
                denials: 4,
                wave: WaveTotals { asked: 7, started: 5, denied: 2, peak: 3 },
            },
        ),
        (
            9_001,
            RunEvent::SwitchesChecked {
                iteration: 2,
                phase: "after".into(),
                inputs,
                hit: Some(KillSwitch::FailedWave),
                detail: Some("verification failed: exit 101".into()),
            },
        ),
        (
            9_002,
            RunEvent::RunEnded {
                kill_switch: Some(KillSwitch::FailedWave),
                detail: Some("verification failed: exit 101".into()),
                exit_code: 14,
                failure_class: None,
                fallback_to_manual: false,
                iterations: 2,
                sessions: vec!["5a5a0001".into(), "5a5a0002".into()],
                tokens: Tokens { input: 3_000, output: 41_250, cache_read: 900_000, cache_creation: 20_000 },
                cost_usd: None,
                seconds: 9_002.0,
                limit_wait_seconds: 4_020,
                next: vec!["autopilot status".into(), "autopilot resume".into()],
            },
        ),
    ]
}

fn initialised(attempt: u32) -> RunEvent {
    RunEvent::Initialised {
        attempt,
        session_id: Some("5a5a0001".into()),
        model: Some("claude-opus-4".into()),
        cli_version: Some("2.1.332".into()),
        permission_mode: Some("acceptEdits".into()),
        api_key_source: Some("none".into()),
        failed_mcp_servers: vec![],
    }
}

fn retry(attempt: u32) -> RunEvent {
    RunEvent::ApiRetry { attempt, max_retries: 10, status: Some(529), error: Some("overloaded".into()) }
}

/// The night as its journal has it.
pub(crate) fn journal() -> Vec<Entry> {
    events()
        .into_iter()
        .filter(|(_, event)| event.is_journaled())
        .zip(0..)
        .map(|((at, event), seq)| Entry { v: FORMAT, seq, at: start() + Span::new().seconds(at), event })
        .collect()
}
