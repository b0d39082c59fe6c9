//! The files a run leaves: field by field, type by type, mode by mode (design §9, upstream-formats §5.1–5.2).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::story::{PARTIAL, run, run_folders};

/// The names of the fields of a line in the order they stand in it.
fn names(line: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(line).unwrap();
    let mut places: Vec<(usize, String)> = value
        .as_object()
        .unwrap()
        .keys()
        .map(|key| (top_level(line, key).unwrap_or_else(|| panic!("{key}: {line}")), key.clone()))
        .collect();
    places.sort();
    places.into_iter().map(|(_, key)| key).collect()
}

/// Where `"key":` stands in the outermost object of `line`.
fn top_level(line: &str, key: &str) -> Option<usize> {
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    let wanted = format!("\"{key}\":");
    for (at, c) in line.char_indices() {
        if !in_text && depth == 1 && line[at..].starts_with(&wanted) {
            return Some(at);
        }
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = in_text,
            '"' => in_text = !in_text,
            '{' | '[' if !in_text => depth += 1,
            '}' | ']' if !in_text => depth -= 1,
            _ => {}
        }
    }
    None
}

/// One letter for the type of a value: `s`tring, `i`nteger, `f`raction, `b`ool, `a`rray, `o`bject, `n`ull.
fn type_of(value: &Value) -> char {
    match value {
        Value::String(_) => 's',
        Value::Number(number) if number.is_u64() => 'i',
        Value::Number(_) => 'f',
        Value::Bool(_) => 'b',
        Value::Array(_) => 'a',
        Value::Object(_) => 'o',
        Value::Null => 'n',
    }
}

#[track_caller]
fn check_fields(line: &str, fields: &[(&str, &str)]) {
    let value: Value = serde_json::from_str(line).unwrap();
    assert_eq!(names(line), fields.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    for (name, types) in fields {
        assert!(types.contains(type_of(&value[name])), "`{name}` is {}, not of {types}", value[name]);
    }
    assert!(!line.contains(": ") || value.to_string().contains(": "), "compact: {line}");
}

/// `2026-04-25T08:42:00.000Z`
fn is_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00.000Z"
}

#[test]
fn the_record_of_a_run() {
    let env = TestEnv::new();
    env.script(PARTIAL);
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    let text = env.read(".orchestrator/metrics/autopilot.jsonl");
    check_fields(
        text.strip_suffix('\n').unwrap(),
        &[
            ("schema_version", "i"),
            ("autopilot_run_id", "s"),
            ("started_at", "s"),
            ("completed_at", "s"),
            ("duration_seconds", "i"),
            ("max_sessions", "i"),
            ("max_hours", "i"), // 4, as JavaScript prints it, not 4.0
            ("confidence_threshold", "f"),
            ("max_tokens", "i"),
            ("iterations_completed", "i"),
            ("kill_switch", "s"),
            ("kill_switch_detail", "s"),
            ("sessions", "a"),
            ("host_class", "sn"),
            ("resource_verdict_at_start", "s"),
            ("fallback_to_manual", "b"),
            ("dry_run", "b"),
            ("total_tokens_used", "i"),
            ("worktree_path", "n"),
            ("parent_run_id", "n"),
            ("stall_recovery_count", "i"),
            ("blocked_by_issue", "n"),
            ("aborted_by_cohort", "b"),
            ("spiral_recovery_count", "i"),
            ("outcome", "s"),
            ("exit_code", "i"),
            ("failure_class", "n"),
            ("cost_usd", "f"),
            ("tokens", "o"),
            ("limit_wait_seconds", "i"),
            ("heals", "a"),
            ("version", "s"),
        ],
    );
    let record = env.last_run();
    assert_eq!(record["schema_version"], 2);
    assert!(is_time(&record["started_at"]) && is_time(&record["completed_at"]), "{record}");
    let id = record["autopilot_run_id"].as_str().unwrap();
    let started: String = record["started_at"].as_str().unwrap()[..16].replace(':', "").replace('T', "-");
    assert_eq!(id, format!("main-{started}-autopilot"));
    assert_eq!(record["tokens"], json!({"input": 100, "output": 50, "cache_read": 0, "cache_creation": 0}));
    assert_eq!(record["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn two_runs_in_one_minute_have_two_names() {
    let env = TestEnv::new();
    env.git(&["switch", "--quiet", "-c", "feat/größe x".replace(' ', "-").as_str()]);
    for _ in 0..3 {
        run(&env, &["--prompt", "x"], 0);
    }
    let ids: Vec<String> =
        env.runs().iter().map(|r| r["autopilot_run_id"].as_str().unwrap().to_owned()).collect();
    assert!(ids.iter().all(|id| id.starts_with("feat-gr-e-x-") && id.contains("-autopilot")), "{ids:?}");
    let mut unique = ids.clone();
    unique.dedup();
    assert_eq!((unique.len(), run_folders(&env).len()), (3, 3), "{ids:?}");
}

#[test]
fn the_record_of_a_session() {
    let env = TestEnv::new();
    env.script(
        "report {\"status\":\"partial\",\"summary\":\"Ported „half\\\"\",\"waves\":[{\"wave\":1,\"role\":\"Impl\",\"agents\":2}],\
         \"agent_summary\":{\"complete\":2,\"partial\":1,\"failed\":0,\"spiral\":0},\
         \"effectiveness\":{\"planned_issues\":4,\"completed\":3,\"carryover\":1,\"emergent\":2}}\n\
         commit \"Port\" a.txt b.txt\ninit\nagent \"look\"\nagent \"port\"\ntext \"Done\"\nresult",
    );
    run(&env, &["--prompt", "x", "--max-sessions", "1", "--mode", "plan-retro"], 0);
    let text = env.read(".orchestrator/metrics/sessions.jsonl");
    check_fields(
        text.strip_suffix('\n').unwrap(),
        &[
            ("schema_version", "i"),
            ("session_id", "s"),
            ("session_type", "s"),
            ("mode", "s"),
            ("autopilot_run_id", "s"),
            ("platform", "s"),
            ("branch", "s"),
            ("session_start_ref", "s"),
            ("started_at", "s"),
            ("completed_at", "s"),
            ("duration_seconds", "i"),
            ("status", "s"),
            ("total_waves", "i"),
            ("waves", "a"),
            ("agent_summary", "o"),
            ("total_agents", "i"),
            ("total_files_changed", "i"),
            ("effectiveness", "o"),
            ("issues_closed", "a"),
            ("issues_created", "a"),
            ("total_token_input", "i"),
            ("total_token_output", "i"),
            ("total_token_input_uncached", "i"),
            ("total_token_cache_read", "i"),
            ("total_token_cache_creation", "i"),
            ("total_cost_usd", "f"),
            ("notes", "s"),
        ],
    );
    let session = &env.sessions()[0];
    assert!(is_time(&session["started_at"]) && is_time(&session["completed_at"]));
    for (name, value) in [
        ("schema_version", json!(2)),
        ("session_type", json!("housekeeping")),
        ("mode", json!("plan-retro")),
        ("autopilot_run_id", env.last_run()["autopilot_run_id"].clone()),
        ("session_start_ref", json!(env.base())),
        ("branch", json!("main")),
        ("status", json!("completed")),
        ("total_waves", json!(1)),
        ("waves", json!([{"wave": 1, "role": "Impl", "agent_count": 2}])),
        ("agent_summary", json!({"complete": 2, "partial": 1, "failed": 0, "spiral": 0})),
        ("total_agents", json!(2)),
        ("total_files_changed", json!(2)),
        ("notes", json!("Ported „half\"")),
    ] {
        assert_eq!(session[name], value, "{name} of {session}");
    }
    let effectiveness =
        json!({"planned_issues": 4, "completed": 3, "carryover": 1, "emergent": 2, "completion_rate": 0.75});
    assert_eq!(session["effectiveness"], effectiveness);
}

#[test]
fn a_record_that_the_session_wrote_is_completed_and_not_doubled() {
    let env = TestEnv::new();
    let own = json!({"schema_version": 2, "session_id": "{session}", "session_type": "deep", "notes": "mine",
        "started_at": "2026-04-25T08:42:00Z", "completed_at": "2026-04-25T09:42:00Z", "extra": [1]});
    let line = own.to_string().replace('"', "\\\"");
    env.script(&format!("touch .orchestrator/metrics/sessions.jsonl \"{line}\\n\"\n{PARTIAL}"));
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    let sessions = env.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
    let session = &sessions[0];
    assert_eq!(session["session_id"], env.calls()[0]["session_id"]);
    assert_eq!(
        (&session["session_type"], &session["notes"], &session["extra"]),
        (&json!("deep"), &json!("mine"), &json!([1]))
    );
    assert_eq!(session["autopilot_run_id"], env.last_run()["autopilot_run_id"]);
    assert_eq!(session["total_token_output"], 50);
}

#[test]
fn the_files_of_a_run() {
    let env = TestEnv::new();
    env.script(PARTIAL);
    run(&env, &["--prompt", "x", "--max-sessions", "2"], 0);
    let mode = |name: &str| {
        let path = env.repo().join(".orchestrator").join(name);
        fs::metadata(&path).unwrap_or_else(|e| panic!("{name}: {e}")).permissions().mode() & 0o777
    };
    let folder = &run_folders(&env)[0];
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    assert_eq!(folder.file_name().unwrap(), id.as_str());
    for name in [
        "autopilot",
        "autopilot/runs",
        &format!("autopilot/runs/{id}"),
        &format!("autopilot/runs/{id}/stream"),
    ] {
        assert_eq!(mode(name), 0o700, "{name}");
    }
    let mut files: Vec<String> = Vec::new();
    for sub in ["", "stream"] {
        for entry in fs::read_dir(folder.join(sub)).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                files.push(entry.path().strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    files.sort();
    assert_eq!(
        files,
        [
            "events.jsonl",
            "report.html",
            "report.md",
            "run.json",
            "stream/attempt-0001.head.jsonl",
            "stream/attempt-0002.head.jsonl"
        ]
    );
    for name in &files {
        assert_eq!(mode(&format!("autopilot/runs/{id}/{name}")), 0o600, "{name}");
    }
    for name in
        ["metrics/autopilot.jsonl", "metrics/sessions.jsonl", "autopilot/lock", "autopilot/.gitignore"]
    {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!(env.read(".orchestrator/autopilot/.gitignore"), "*\n");
    let status = env.git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(!status.contains("autopilot/"), "{status}");

    // The raw stream is what the CLI said, byte for byte.
    let stream = fs::read_to_string(folder.join("stream/attempt-0001.head.jsonl")).unwrap();
    let types: Vec<Value> =
        stream.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["type"].clone()).collect();
    assert!(types.contains(&json!("system")) && types.contains(&json!("result")), "{types:?}");
}

#[test]
fn the_report_of_a_run() {
    let env = TestEnv::new();
    env.script("report {\"status\":\"complete\",\"summary\":\"Ported *all* of it\"}\ncommit \"Port <it>\" a.txt\nturn");
    run(&env, &["--prompt", "x"], 0);
    let report = fs::read_to_string(run_folders(&env)[0].join("report.md")).unwrap();
    let mut settings = crate::support::filters::settings(&env);
    settings.add_filter(r"`[0-9a-f]{10}`", "`[COMMIT]`");
    settings.add_filter(r"started: .*", "started: [TIME]");
    settings.bind(|| insta::assert_snapshot!(report));
}

#[test]
fn a_work_tree_of_its_own_is_on_record() {
    let env = TestEnv::new();
    let tree = env.root().join("tree");
    env.git(&["worktree", "add", "--quiet", "-b", "side", tree.to_str().unwrap()]);
    let run = env.autopilot(&["-C", tree.to_str().unwrap(), "--prompt", "x"]);
    assert_eq!(run.code(), Some(0), "{run}");
    let text = fs::read_to_string(tree.join(".orchestrator/metrics/autopilot.jsonl")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["worktree_path"], json!(tree));
    assert!(record["autopilot_run_id"].as_str().unwrap().starts_with("side-"), "{record}");
    assert_eq!(env.calls()[0]["cwd"], json!(tree));
}
