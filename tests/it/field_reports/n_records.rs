//! Classes M and N: cost, and the driver's own records.

use std::fs;
use std::thread;

use serde_json::Value;

use super::{night, strings};
use crate::support::invariants::{Expect, problems};

#[test]
fn m01_three_results_of_a_conversation_over_two_processes() {
    // The total of the CLI runs on over `--resume`; the sum is what was spent.
    let script = "nth_call 1 {\ninit\nspend {\"cost\":0.25,\"input\":10,\"output\":20}\ntext \"Done.\"\nresult\n}\nnth_call 2 {\nspend {\"cost\":0.03,\"input\":1,\"output\":2}\nturn\n}";
    let morning = night(script).run();
    morning.fine();
    let record = morning.env.last_run();
    assert!((record["cost_usd"].as_f64().unwrap() - 0.28).abs() < 1e-9, "{morning}");
    assert_eq!(record["tokens"]["output"], 22, "{morning}");
}

#[test]
fn m03_an_absent_or_impossible_cost_is_unknown_not_zero() {
    for cost in ["null", "\"NaN\"", "\"a lot\"", "-1", "[]"] {
        let changes = format!(
            "{{\"total_cost_usd\":{cost},\"modelUsage\":null,\"model_usage_since_last_result\":null}}"
        );
        let morning = night(&format!("init\ntext \"Done.\"\nreport\nresult {changes}"))
            .expect(|expect| expect.any_cost = true)
            .run();
        morning.fine();
        assert!(morning.env.last_run()["cost_usd"].is_null(), "{cost}: {morning}");
        assert_ne!(morning.env.last_run()["total_tokens_used"], 0, "{cost}: tokens are known: {morning}");
    }
}

#[test]
fn n01_a_torn_last_line_is_closed_off_and_kept() {
    let night = night("turn");
    let metrics = night.env.repo().join(".orchestrator/metrics");
    fs::create_dir_all(&metrics).unwrap();
    // Torn in the middle of a character; whole but without its end.
    let torn = b"{\"schema_version\":2,\"notes\":\"caf\xc3".as_slice();
    let whole = b"{\"schema_version\":2,\"session_id\":\"3f0c8a52-6f0a-4d43-9b6e-0d4f6a2b9c11\"}".as_slice();
    fs::write(metrics.join("autopilot.jsonl"), torn).unwrap();
    fs::write(metrics.join("sessions.jsonl"), whole).unwrap();
    let run = night.env.autopilot(&["--prompt=Do the work.", "--no-progress"]);
    let found = problems(&night.env, &run, &Expect::default());
    assert!(found.len() == 1 && found[0].1.contains("autopilot.jsonl:1"), "the torn line alone: {found:?}");
    let lines = |name: &str| -> Vec<Vec<u8>> {
        let bytes = fs::read(metrics.join(name)).unwrap();
        bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let (runs, sessions) = (lines("autopilot.jsonl"), lines("sessions.jsonl"));
    assert_eq!((runs.len(), &*runs[0]), (2, torn));
    assert_eq!((sessions.len(), &*sessions[0]), (2, whole));
}

#[test]
fn n02_many_processes_append_to_one_log() {
    let night = night("turn");
    let env = &night.env;
    thread::scope(|scope| {
        for _ in 0..6 {
            let mut command = env.command(env!("CARGO_BIN_EXE_autopilot"));
            command.args(["--dry-run", "--no-progress", "--prompt=Do the work."]);
            scope.spawn(move || {
                for _ in 0..4 {
                    let output = command.output().unwrap();
                    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
                }
            });
        }
    });
    let log = fs::read_to_string(env.repo().join(".orchestrator/metrics/autopilot.jsonl")).unwrap();
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 24);
    assert!(log.ends_with('\n'));
}

#[test]
fn n04_a_cut_off_session_is_no_failure_and_is_not_started_again_without_end() {
    let morning = night("init\ntool Bash {\"command\":\"make\"}\nexit 0").run();
    morning.ended(14, "failed-wave", "incomplete").judged(&["incomplete"; 3]);
}

#[test]
fn n05_the_same_status_with_growing_commits_goes_on() {
    let script = "init\ncommit \"Step {call}\" src/step{call}.rs\ntext \"Working.\"\nreport {\"status\":\"partial\",\"summary\":\"Working.\"}\nresult";
    let morning = night(script).set("AUTOPILOT_MAX_SESSIONS", "4").run();
    morning.fine();
    assert_eq!(morning.env.last_run()["iterations_completed"], 4, "{morning}");
}

#[test]
fn n06_every_start_has_its_prompt() {
    let script = "nth_call 1 {\ninit\ntool Bash {\"command\":\"make\"}\nexit 1\n}\nnth_call 2 {\ninit\nusage_limit +1s\nexit 1\n}\nnth_call 3 {\ninit\ntext \"Done.\"\nresult\n}\nnth_call 4 {\nturn\n}";
    let morning = night(script).run();
    morning.fine();
    for call in morning.env.calls() {
        let prompts = strings(&call["prompts"]);
        assert!(prompts.len() == 1 && !prompts[0].trim().is_empty(), "{morning}");
    }
    assert_eq!(morning.env.calls().len(), 4);
}
