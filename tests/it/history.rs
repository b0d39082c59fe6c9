//! `autopilot history`: the list of runs, and what becomes of old folders.

use std::fs;

use serde_json::Value;

use crate::support::env::TestEnv;
use crate::support::run::Finished;
use crate::support::story::{PARTIAL, run, run_folders, says};

#[track_caller]
fn history(env: &TestEnv, args: &[&str], code: i32) -> Finished {
    let told = env.autopilot(&[&["history"], args].concat());
    assert_eq!(told.code(), Some(code), "{told}");
    told
}

/// A run that ended, or did not, of so many bytes.
fn folder(env: &TestEnv, day: u32, ended: bool, bytes: usize) -> String {
    let id = format!("main-2026-01-{day:02}-0100-autopilot");
    let at = format!("2026-01-{day:02}T01:00:00Z");
    let line =
        |seq: u32, event: &str| format!("{{\"v\":1,\"seq\":{seq},\"at\":\"{at}\",\"event\":{event}}}\n");
    let mut journal = line(
        0,
        &format!(
            r#"{{"type":"run_started","run_id":"{id}","version":"0.1.0","repository":"/r","branch":"main","parent_run_id":null,"max_sessions":5,"max_hours":4.0,"max_tokens":0,"max_cost_usd":null,"confidence_threshold":0.85,"claude":"c","claude_version":null}}"#
        ),
    );
    if ended {
        journal += &line(
            1,
            r#"{"type":"run_ended","kill_switch":"max-sessions-reached","detail":null,"exit_code":0,"failure_class":null,"fallback_to_manual":false,"iterations":5,"sessions":[],"tokens":{"input":0,"output":7,"cache_read":0,"cache_creation":0},"cost_usd":1.5,"seconds":60.0,"limit_wait_seconds":0,"next":[]}"#,
        );
    }
    let run = format!(".orchestrator/autopilot/runs/{id}");
    env.write(&format!("{run}/events.jsonl"), journal);
    env.write(&format!("{run}/stream/attempt-0001.head.jsonl"), vec![b'x'; bytes]);
    id
}

fn left(env: &TestEnv) -> Vec<String> {
    run_folders(env).iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn runs_are_listed_newest_first() {
    let env = TestEnv::new();
    says(&history(&env, &[], 0), &["there has been no run here"]);
    let old = folder(&env, 1, true, 10);
    let dead = folder(&env, 2, false, 10);
    env.script(&format!("commit \"One\" one.txt\n{PARTIAL}"));
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    let told = history(&env, &[], 0);
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert!(lines[0].starts_with("sessions  commits"), "{told}");
    for (line, parts) in lines[1..].iter().zip([
        ["1/1", "max-sessions-reached", id.as_str()],
        ["0/5", "not finished", &dead],
        ["5/5", "max-sessions-reached", &old],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}: {parts:?}");
    }
    let document: Value = history(&env, &["--json", "--limit", "1"], 0).json();
    let runs = document["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["run_id"], &runs[0]["commits"]), (1, &id.into(), &1.into()));
    assert!(runs[0]["bytes"].as_u64().is_some_and(|bytes| bytes > 500), "{document}");
    assert_eq!(history(&env, &["--limit=0", "--json"], 0).json()["runs"].as_array().map(Vec::len), Some(3));
}

#[test]
fn pruning_keeps_the_newest_and_all_that_may_go_on() {
    let env = TestEnv::new();
    let ids: Vec<String> = (1..=6).map(|day| folder(&env, day, day != 2, 100_000)).collect();
    let told = history(&env, &["prune", "--keep", "3", "--dry-run"], 0);
    says(&told, &["would remove", "would remove 2 runs, "]);
    assert_eq!(left(&env).len(), 6);
    history(&env, &["prune", "--keep", "3"], 0);
    // The second one has no end.
    assert_eq!(left(&env), [&ids[1], &ids[3], &ids[4], &ids[5]].map(Clone::clone));
    let told = history(&env, &["prune", "--max-size", "250k", "--json"], 0);
    assert_eq!(told.json()["removed"], serde_json::json!([ids[3]]));
    assert_eq!(left(&env), [&ids[1], &ids[4], &ids[5]].map(Clone::clone));
    history(&env, &["prune", "--keep", "0"], 0);
    assert_eq!(left(&env), [&ids[1], &ids[5]].map(Clone::clone));
    for wrong in [["prune", "--max-size", "huge"].as_slice(), &["prune", "--keep", "-1"], &["--limit", "x"]] {
        history(&env, wrong, 2);
    }
}

#[test]
fn a_run_ends_with_it_by_the_settings() {
    let mut env = TestEnv::new();
    let ids: Vec<String> = (1..=4).map(|day| folder(&env, day, true, 10)).collect();
    env.set("AUTOPILOT_KEEP_RUNS", "3");
    env.script(PARTIAL);
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    let last = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    assert_eq!(left(&env), [ids[2].clone(), ids[3].clone(), last.clone()]);
    // What is gone is still known by its record, with what that says.
    fs::remove_dir_all(env.repo().join(".orchestrator/autopilot/runs").join(&last)).unwrap();
    let told = history(&env, &[], 0);
    let line = told.stdout.lines().find(|line| line.contains(&last)).unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains("max-sessions-reached") && line.contains("unknown"), "{line}");
}

/// Records of every version that was ever written are history for ever.
#[test]
fn old_records_are_listed_and_reported() {
    let env = TestEnv::new();
    let read = |name: &str| {
        fs::read_to_string(format!("{}/fixtures/journal/upstream/{name}", env!("CARGO_MANIFEST_DIR")))
            .unwrap()
    };
    let records = format!("{}{{\"torn\n{}", read("autopilot-v1.jsonl"), read("autopilot-v2.jsonl"));
    env.write(".orchestrator/metrics/autopilot.jsonl", &records);
    let wanted: Vec<String> = records
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|record| record.get("kind").is_none() && record["dry_run"] != true)
        .map(|record| record["autopilot_run_id"].as_str().unwrap().to_owned())
        .collect();
    assert!(wanted.len() >= 3, "{wanted:?}");
    let listed = history(&env, &["--limit", "0", "--json"], 0).json();
    let week = env.autopilot(&["report", "--since", "2020-01-01"]);
    assert_eq!(week.code(), Some(0), "{week}");
    for id in &wanted {
        let found = listed["runs"].as_array().unwrap().iter().any(|run| run["run_id"] == id.as_str());
        assert!(found && week.stdout.contains(id), "{id} is missing: {listed}\n{week}");
    }
}
