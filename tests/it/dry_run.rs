//! `--dry-run`: the plan, a record of it, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::filters;
use crate::support::history;
use crate::support::run::Finished;
use crate::support::story::{record_is, refused, run, run_folders};

/// A dry run with invariants; nothing is started and no lock is taken.
#[track_caller]
fn plan(env: &TestEnv, args: &[&str]) -> Finished {
    let before = (env.calls().len(), run_folders(env));
    let plan = run(env, args, 0);
    assert_eq!((env.calls().len(), run_folders(env)), before, "something was started: {plan}");
    assert!(!env.repo().join(".orchestrator/autopilot/lock").exists());
    assert_eq!(env.sessions(), [Value::Null; 0]);
    record_is(
        env,
        &[
            ("dry_run", json!(true)),
            ("kill_switch", Value::Null),
            ("kill_switch_detail", json!("dry-run preview — no sessions executed")),
            ("iterations_completed", json!(0)),
            ("sessions", json!([])),
            ("fallback_to_manual", json!(false)),
            ("outcome", json!("planned")),
            ("exit_code", json!(0)),
        ],
    );
    plan
}

/// What depends on the machine.
fn settings(env: &TestEnv) -> insta::Settings {
    let mut settings = filters::settings(env);
    settings.add_filter(r"\d+(\.\d+)? GB", "[SIZE]");
    settings.add_filter(r#""peers":(\d+|null)"#, r#""peers":[N]"#);
    settings.add_filter(r"(green|warn|degraded|critical): at most \d+", "[TIER]: at most [N]");
    settings.add_filter(
        r#""resource_tier":"[a-z]+","agents_per_wave":\d+"#,
        r#""resource_tier":"[TIER]","agents_per_wave":[N]"#,
    );
    settings.add_filter(r#""resource_reasons":.*,"peers""#, r#""resource_reasons":[REASONS],"peers""#);
    settings.add_filter(r"resource (green|warn|degraded) ok", "resource [TIER] ok");
    settings.add_filter(r#""resources: (green|warn|degraded)""#, r#""resources: [TIER]""#);
    settings.add_filter(r"(?m)^            (memory|swap|other|no) .*\n", "");
    settings
}

#[test]
fn the_plan_as_text() {
    let mut env = TestEnv::new();
    env.unset("AUTOPILOT_PEER_ABORT");
    env.set("CLAUDECODE", "1");
    env.set("ANTHROPIC_API_KEY", "hush");
    let plan = plan(
        &env,
        &["--dry-run", "--prompt", "Fix the parser", "--max-sessions=3", "--max-cost=2.5", "--model", "opus"],
    );
    assert_eq!(plan.stderr, "");
    // In the units of people; the snapshot leaves them out.
    let deadlines = "first output 3m 00s, stall 10m 00s, turn 1h 30m, exit grace 15s, limit wait 6h 00m";
    assert!(plan.stdout.contains(deadlines), "{plan}");
    settings(&env).bind(|| insta::assert_snapshot!(plan.stdout));
}

#[test]
fn the_plan_as_data() {
    let mut env = TestEnv::new();
    env.unset("AUTOPILOT_PEER_ABORT");
    let plan = plan(&env, &["--dry-run", "--json", "--mode", "deep"]);
    assert_eq!((plan.stderr.as_str(), plan.stdout.lines().count()), ("", 1));
    assert_eq!(plan.json()["dry_run"], true);
    settings(&env).bind(|| insta::assert_snapshot!(plan.stdout));
}

#[test]
fn a_plan_that_would_not_start_says_so() {
    let env = TestEnv::new();
    let plan = plan(&env, &["--dry-run=true"]);
    assert!(plan.stdout.contains("iteration 1 falls back to manual (exit 3)"), "{plan}");
}

#[test]
fn a_dry_run_can_be_switched_off_and_is_no_way_around_errors() {
    let env = TestEnv::new();
    run(&env, &["--dry-run=false", "--prompt", "x"], 0);
    record_is(&env, &[("dry_run", json!(false))]);
    assert_eq!(env.calls().len(), 1);
    refused(&env, &["--dry-run", "--prompt", "x", "--claude-bin", "/nowhere/claude"], 23);
    refused(&env, &["--dry-run", "--prompt", " "], 2);
}

/// Every file below `folder`, with content and time of the last change.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
        }
    }
    found
}

#[test]
fn years_of_records_and_a_long_plan_are_read_and_left_alone() {
    let env = TestEnv::new();
    history::write(&env, history::YEARS);
    env.write(".project/inbox.md", "- [ ] urgent: oil it\n");
    let records = env.repo().join(".orchestrator/metrics/autopilot.jsonl");
    let mut before = files(env.repo());
    let (old, _) = before.remove(&records).unwrap();
    let first = env.autopilot(&["--dry-run"]);
    assert_eq!(first.code(), Some(0), "{first}");
    assert!(first.peak_rss_kib.is_none_or(|peak| peak < 64 << 10), "{:?} KiB", first.peak_rss_kib);
    for text in ["urgent: oil it (8 of 1001 open)", "Build part 1 of", "10 sessions", "50 runs"] {
        assert!(first.stdout.contains(text), "`{text}` is not in {first}");
    }
    let mut after = files(env.repo());
    let (new, _) = after.remove(&records).unwrap();
    // Our own folder was made for the record.
    after.retain(|path, _| !path.ends_with(".orchestrator/autopilot/.gitignore"));
    let changed: Vec<_> = after.iter().filter(|(path, file)| before.get(*path) != Some(file)).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "{:?}", changed.iter().map(|c| c.0));
    let added = new.strip_prefix(old.as_slice()).expect("what was recorded stays");
    let added: Value = serde_json::from_slice(added).expect("one record");
    assert_eq!(added["dry_run"], true);

    // The same plan again: what was printed rests on nothing that the first one left.
    let again = env.autopilot(&["--dry-run", "--json"]).json();
    assert_eq!((&again["open_tasks"], &again["mode"]), (&json!(1001), &json!("deep")), "{again}");
}
