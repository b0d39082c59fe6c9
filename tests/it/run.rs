//! Runs that go as they should: chains, prompts, reports, output, environment.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::dump;
use crate::support::story::{PARTIAL, argument, events, finish, prompt, record_is, run, says};

#[test]
fn three_sessions_in_a_row() {
    let env = TestEnv::new();
    env.script(
        "report {\"status\":\"partial\",\"summary\":\"Did step {call}.\"}\ncommit \"Step {call}\" step{call}.txt\nturn \"Did step {call}.\"",
    );
    let run = run(&env, &["--prompt", "Do the steps", "--max-sessions", "3"], 0);
    let calls = env.calls();
    let ids: BTreeSet<&str> = calls.iter().map(|c| c["session_id"].as_str().unwrap()).collect();
    assert_eq!((calls.len(), ids.len()), (3, 3), "each its own conversation");
    let in_order: Vec<&Value> = calls.iter().map(|c| &c["session_id"]).collect();
    record_is(
        &env,
        &[
            ("kill_switch", json!("max-sessions-reached")),
            ("kill_switch_detail", json!("iterations_completed=3 >= max-sessions=3")),
            ("iterations_completed", json!(3)),
            ("sessions", json!(in_order)),
            ("outcome", json!("planned")),
            ("exit_code", json!(0)),
            ("failure_class", Value::Null),
            ("total_tokens_used", json!(150)),
        ],
    );
    let sessions = env.sessions();
    assert_eq!(sessions.iter().map(|s| &s["session_id"]).collect::<Vec<_>>(), in_order);
    assert!(sessions.iter().all(|s| s["status"] == "completed" && s["total_files_changed"] == 1));
    // What the last one did and wants known goes into the next prompt; the first has none.
    assert!(!prompt(&env, 1).contains("Did step"), "{}", prompt(&env, 1));
    for call in [2, 3] {
        let text = prompt(&env, call);
        assert!(text.contains("Do the steps") && text.contains(&format!("Did step {}.", call - 1)), "{text}");
    }
    says(
        &run,
        &["session 1 of 3", "session 2 of 3", "session 3 of 3", "max-sessions-reached", "Step 3", "Next"],
    );
    assert_eq!(run.stdout, "", "data only when asked for");
}

#[test]
fn a_report_in_the_work_turn_needs_no_other_turn() {
    let env = TestEnv::new();
    run(&env, &["--prompt", "x"], 0);
    assert_eq!(env.calls().len(), 1);
    assert_eq!(events(&env, "report_received")[0]["source"], "structured");
    assert!(argument(&env, 1, "--json-schema").is_some_and(|s| serde_json::from_str::<Value>(&s).is_ok()));
}

#[test]
fn a_missing_report_is_asked_for_once() {
    let env = TestEnv::new();
    env.script("nth_call 1 {\ninit\ntext \"Done\"\nresult\n}\nnth_call 2 {\nturn\n}");
    run(&env, &["--prompt", "x"], 0);
    let id = env.calls()[0]["session_id"].clone();
    assert_eq!(argument(&env, 2, "--resume").map(Value::from), Some(id.clone()), "{}", dump(&env));
    assert_eq!(events(&env, "turn_started")[1]["purpose"], "close");
    assert_eq!(events(&env, "report_received")[0]["source"], "close_turn");
    record_is(&env, &[("sessions", json!([id])), ("total_tokens_used", json!(100))]);
    assert_eq!(env.sessions().len(), 1);
}

#[test]
fn a_session_without_a_report_still_counts_by_what_it_did() {
    let env = TestEnv::new();
    env.script("commit \"Real work\" work{call}.txt\ninit\ntext \"Done\"\nresult");
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    assert_eq!(env.calls().len(), 2, "{}", dump(&env));
    assert_eq!(events(&env, "report_received")[0]["source"], "derived");
    record_is(&env, &[("iterations_completed", json!(1)), ("kill_switch", json!("max-sessions-reached"))]);
    let session = &env.sessions()[0];
    assert_eq!((&session["status"], &session["total_files_changed"]), (&json!("unresolved"), &json!(2)));
    assert_eq!(session["agent_summary"], json!({"complete": 0, "partial": 0, "failed": 0, "spiral": 0}));
}

#[test]
fn a_chain_of_one_conversation() {
    let env = TestEnv::new();
    env.script(PARTIAL);
    run(&env, &["--prompt", "x", "--max-sessions", "3", "--chain", "resume"], 0);
    let id = env.calls()[0]["session_id"].as_str().unwrap().to_owned();
    assert_eq!(argument(&env, 1, "--session-id"), Some(id.clone()));
    for call in [2, 3] {
        assert_eq!(
            (argument(&env, call, "--resume"), argument(&env, call, "--session-id")),
            (Some(id.clone()), None)
        );
    }
    record_is(&env, &[("iterations_completed", json!(3)), ("sessions", json!([id, id, id]))]);
    assert_eq!(env.sessions().len(), 3);
    assert_eq!(
        events(&env, "session_started").iter().map(|e| &e["continued"]).collect::<Vec<_>>(),
        [false, true, true]
    );
}

#[test]
fn the_prompt_comes_from_where_it_is_said_to_be() {
    let env = TestEnv::new();
    env.write("night.md", "\u{feff}Fix <the> {{ parser }} in „größe\"\n");
    let wanted = "Fix <the> {{ parser }} in „größe\"";
    run(&env, &["--prompt-file", "night.md"], 0);
    run(&env, &["--prompt", wanted], 0);
    for call in [1, 2] {
        assert!(prompt(&env, call).contains(wanted), "{}", prompt(&env, call));
        assert!(!prompt(&env, call).contains('\u{feff}'));
    }

    let mut command = env.command(env!("CARGO_BIN_EXE_autopilot"));
    command.stdin(fs::File::open(env.repo().join("night.md")).unwrap());
    let running = env.start_command(command, &["--prompt-file", "-"]);
    finish(&env, running, 0, &Expect::default());
    assert!(prompt(&env, 3).contains(wanted), "{}", prompt(&env, 3));
}

#[test]
fn a_slash_command_is_sent_as_it_is() {
    let env = TestEnv::new();
    run(&env, &["--prompt", "/review the last commit"], 0);
    assert_eq!(prompt(&env, 1).trim_end(), "/review the last commit");
}

#[test]
fn the_prompt_is_never_an_argument() {
    let env = TestEnv::new();
    run(&env, &["--prompt", "a-very-special-prompt"], 0);
    let call = &env.calls()[0];
    assert!(!call["argv"].to_string().contains("a-very-special-prompt"), "{call}");
    assert!(prompt(&env, 1).contains("a-very-special-prompt"));
}

#[test]
fn complete_and_nothing_to_do_end_the_run_as_planned() {
    for status in ["complete", "nothing_to_do"] {
        let env = TestEnv::new();
        env.script(&format!("report {{\"status\":\"{status}\"}}\nturn"));
        let run = run(&env, &["--prompt", "x", "--max-sessions", "5"], 0);
        assert_eq!(env.calls().len(), 1, "{status}");
        record_is(
            &env,
            &[
                ("kill_switch", Value::Null),
                ("kill_switch_detail", json!("no open work: a session reported it complete")),
                ("iterations_completed", json!(1)),
                ("outcome", json!("planned")),
                ("fallback_to_manual", json!(false)),
            ],
        );
        says(&run, &["ended as planned", "no open work"]);
    }
}

#[test]
fn a_blocked_session_ends_the_run_with_its_question() {
    let env = TestEnv::new();
    env.script(
        "report {\"status\":\"blocked\",\"blocked_on\":{\"question\":\"Postgres or SQLite?\",\"options\":[\"Postgres\",\"SQLite\"]}}\nturn",
    );
    let run = run(&env, &["--prompt", "x", "--max-sessions", "5"], 24);
    assert_eq!(env.calls().len(), 1);
    record_is(
        &env,
        &[
            ("kill_switch", json!("failed-wave")),
            (
                "kill_switch_detail",
                json!("blocked on a person's answer: Postgres or SQLite? [options: Postgres | SQLite]"),
            ),
            ("failure_class", json!("blocked")),
            ("outcome", json!("blocked")),
            ("iterations_completed", json!(1)),
        ],
    );
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    says(
        &run,
        &["Postgres or SQLite?", "Next", "answer the question", &format!("autopilot resume {id} --prompt")],
    );
    let report = env.read(&format!(".orchestrator/autopilot/runs/{id}/report.md"));
    assert!(report.contains("Postgres or SQLite?"), "{report}");

    // The answer goes into the same run's continuation.
    env.script("turn \"Took SQLite.\"");
    super::run::run(&env, &["resume", &id, "--prompt", "x, and take SQLite"], 0);
    assert!(prompt(&env, 2).contains("x, and take SQLite"), "{}", prompt(&env, 2));
    record_is(&env, &[("autopilot_run_id", json!(id)), ("outcome", json!("planned"))]);
}

#[test]
fn verification_decides_over_the_claim() {
    let env = TestEnv::new();
    let args = ["--prompt", "x", "--verify", "test -e fixed && echo all good"];
    env.script("touch fixed\nturn");
    run(&env, &args, 0);
    assert_eq!(events(&env, "session_ended")[0]["verification"]["passed"], true);
    assert!(prompt(&env, 1).contains("test -e fixed"), "the session is told: {}", prompt(&env, 1));

    let env = TestEnv::new();
    let args = ["--prompt", "x", "--verify", "echo 3 tests failed >&2; exit 7"];
    let run = run(&env, &args, 14);
    record_is(
        &env,
        &[
            ("kill_switch", json!("failed-wave")),
            ("kill_switch_detail", json!("--verify failed: exit code 7")),
            ("iterations_completed", json!(1)),
            ("outcome", json!("failed-wave")),
        ],
    );
    let ended = &events(&env, "session_ended")[0];
    assert_eq!(ended["verification"]["passed"], false);
    assert_eq!(ended["verification"]["tail"], "3 tests failed");
    assert_eq!(ended["contradictions"], json!(["reported complete, but --verify failed"]));
    says(
        &run,
        &["but: reported complete, but --verify failed", "3 tests failed", "failed-wave", "autopilot resume"],
    );

    // The claim was wrong, so there is work left to go on with.
    env.script("touch fixed\nturn");
    let run = super::run::run(&env, &["resume", "--verify", "test -e fixed"], 0);
    assert_eq!(env.calls().len(), 2, "{run}");
}

#[test]
fn what_a_verification_leaves_running_is_ended() {
    let env = TestEnv::new();
    let verify = "sleep 300 & setsid sleep 300 >/dev/null 2>&1 & sh -c 'trap \"\" TERM; sleep 300' & true";
    run(&env, &["--prompt", "x", "--verify", verify], 0);
    assert_eq!(env.leftovers(), []);
}

#[test]
fn json_is_one_document_and_events_are_the_journal() {
    let env = TestEnv::new();
    env.script(PARTIAL);
    let run_json = run(&env, &["--json", "--prompt", "x", "--max-sessions", "2"], 0);
    let document = run_json.json();
    assert_eq!(run_json.stdout.lines().count(), 1, "{run_json}");
    assert_eq!(document["run_id"], env.last_run()["autopilot_run_id"]);
    assert_eq!((&document["exit_code"], &document["iterations"]), (&json!(0), &json!(2)));
    assert_eq!(document["sessions"].as_array().map(Vec::len), Some(2));
    says(&run_json, &["session 2 of 2"]);

    let env = TestEnv::new();
    env.script(&format!("init\ntool Bash {{\"command\":\"ls\"}} \"a\"\n{}", PARTIAL.replace("init", "")));
    let run_events = run(&env, &["--events", "--prompt", "x", "--max-sessions", "2"], 0);
    let lines: Vec<Value> = run_events
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let (journaled, live): (Vec<Value>, Vec<Value>) = lines.into_iter().partition(|l| l["seq"].is_u64());
    assert_eq!(journaled, env.events());
    let seqs: Vec<u64> = journaled.iter().map(|l| l["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(journaled[0]["event"]["type"], "run_started");
    assert_eq!(journaled.last().unwrap()["event"]["type"], "run_ended");
    assert!(live.iter().any(|l| l["event"]["type"] == "tool_used"), "{live:?}");
}

#[test]
fn quiet_is_quiet_and_colour_only_when_asked_for() {
    let env = TestEnv::new();
    let run_quiet = run(&env, &["--quiet", "--prompt", "x"], 0);
    assert_eq!((run_quiet.stdout.as_str(), run_quiet.stderr.as_str()), ("", ""));
    // Not a terminal: no escape sequences, whoever asks.
    for args in [
        ["--prompt", "x"].as_slice(),
        &["--color", "never", "--prompt", "x"],
        &["--no-progress", "--prompt", "x"],
    ] {
        let run = run(&env, args, 0);
        assert!(!run.stderr.contains('\u{1b}'), "{run}");
    }
    let run = run(&env, &["--color", "always", "--prompt", "x"], 0);
    assert!(run.stderr.contains('\u{1b}'), "{run}");
}

#[test]
fn a_plain_cli_that_knows_no_control_protocol_is_driven_too() {
    let env = TestEnv::new();
    env.script("plain\nturn");
    let run = run(&env, &["--prompt", "x", "--first-output-timeout", "2"], 0);
    says(&run, &["session 1 of 5 ended"]);
    record_is(&env, &[("iterations_completed", json!(1))]);
}

const SECRET: &str = "hush-4711-hush";

fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            found.extend(files_with(&entry.path(), text));
        } else if String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).contains(text) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn the_environment_of_a_session() {
    let outer = ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "ANTHROPIC_LOG"];
    let login = ["CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"];
    let paid = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"];
    for billing in ["subscription", "inherit"] {
        let mut env = TestEnv::new();
        env.write(".autopilot.toml", format!("billing = \"{billing}\"\n"));
        for name in outer.iter().chain(&paid).chain(&["CLAUDE_CODE_OAUTH_TOKEN", "MY_OWN"]) {
            env.set(name, SECRET);
        }
        let run = run(&env, &["--prompt", "x", "-v"], 0);
        let call = &env.calls()[0];
        let has = |name: &str| !call["env"][name].is_null();
        let inherits = billing == "inherit";
        assert!(!outer.iter().any(|name| has(name)), "{call}");
        assert!(login.iter().all(|name| has(name)) && has("MY_OWN") && has("HOME"), "{call}");
        assert!(paid.iter().all(|name| has(name) == inherits), "{billing}: {call}");
        assert_eq!(call["env"]["AUTOPILOT_RUN_ID"], env.last_run()["autopilot_run_id"]);

        // Names are on record, values nowhere.
        let attempt = &events(&env, "attempt_started")[0];
        let names = |key: &str| attempt[key].to_string();
        assert!(outer.iter().all(|name| names("env_removed").contains(name)), "{attempt}");
        assert!(login.iter().all(|name| names("env_kept").contains(name)), "{attempt}");
        let paid_in = if inherits { "env_kept" } else { "env_removed" };
        assert!(paid.iter().all(|name| names(paid_in).contains(name)), "{attempt}");
        assert_eq!(files_with(&env.repo().join(".orchestrator"), SECRET), [""; 0]);
        assert!(!run.stderr.contains(SECRET), "{run}");
        assert_eq!(run.stderr.contains("ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN set"), inherits, "{run}");
    }
}
