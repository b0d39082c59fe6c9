//! The pre-launch verdict: its gates, what it does to a run, and what it costs (design §7).

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::run::{Finished, dump};
use crate::support::story::{events, record_is, run, says};

const PLAN: &str = ".project/plan.md";
const GATED: &str = "--autonomy=autonomous-gated";

/// Something to do, and a double that does it.
fn place() -> TestEnv {
    let env = TestEnv::new();
    env.write(PLAN, "- [ ] Write the parser\n");
    env.script("commit \"Parser\" parser.txt\nreport {\"tasks_done\":[\"Write the parser\"]}\nturn");
    env
}

/// Records of earlier runs, one for each way to end; `max-sessions-reached` is as planned.
fn history(env: &TestEnv, endings: &[&str]) {
    let mut text = String::new();
    for (number, switch) in endings.iter().enumerate() {
        let record = json!({"schema_version": 1, "autopilot_run_id": format!("main-2026-04-0{number}-0100-autopilot"),
            "started_at": "2026-04-01T01:00:00.000Z", "completed_at": "2026-04-01T02:00:00.000Z",
            "duration_seconds": 3600, "iterations_completed": 1, "kill_switch": switch, "sessions": [],
            "fallback_to_manual": false, "dry_run": false});
        writeln!(text, "{record}").unwrap();
    }
    env.write(".orchestrator/metrics/autopilot.jsonl", text);
}

const BAD: [&str; 5] =
    ["max-sessions-reached", "spiral", "failed-wave", "max-sessions-reached", "max-sessions-reached"];

/// A repository on GitHub whose last run of CI ended like this.
fn on_github(env: &TestEnv, conclusion: &str) {
    env.git(&["remote", "add", "origin", "git@github.com:tess/parser.git"]);
    let head = env.base();
    let runs = json!([{"status": "completed", "conclusion": conclusion, "headSha": head,
        "workflowName": "tests", "createdAt": "2026-04-01T01:00:00Z"}]);
    env.tool(
        "gh",
        &format!(
            "echo \"$*\" >>{}\ncase $1 in run) echo '{runs}' ;; *) echo '[]' ;; esac",
            env.root().join("gh.log").display()
        ),
    );
}

fn gh_calls(env: &TestEnv) -> Vec<String> {
    let text = std::fs::read_to_string(env.root().join("gh.log")).unwrap_or_default();
    let mut calls: Vec<String> = text.lines().map(str::to_owned).collect();
    calls.sort();
    calls
}

/// `autopilot verdict`: it leaves nothing, starts nothing, and both of its outputs agree.
#[track_caller]
fn verdict(env: &TestEnv, args: &[&str], code: i32) -> (Finished, Value) {
    let before = (env.runs(), env.calls().len());
    let text = env.autopilot(&[&["verdict"], args].concat());
    let data = env.autopilot(&[&["verdict", "--json"], args].concat());
    assert_eq!((text.code(), data.code()), (Some(code), Some(code)), "{text}\n{data}");
    assert_eq!((env.runs(), env.calls().len()), before);
    assert_eq!(text.stdout.contains("may start unattended: yes"), code == 0, "{text}");
    let data = data.json();
    assert_eq!(data["suitable"], code == 0, "{data}");
    (text, data)
}

fn failed_gates(document: &Value) -> Vec<&str> {
    let gates = document["gates"].as_array().unwrap().iter();
    gates.filter(|gate| gate["passed"] == false).map(|gate| gate["name"].as_str().unwrap()).collect()
}

/// A run that the verdict forbids: nothing is started, and the record says why.
#[track_caller]
fn forbidden(env: &TestEnv, why: &str) {
    let records = env.runs().len();
    let run = run(env, &[GATED], 4);
    assert_eq!((env.calls().len(), env.runs().len()), (0, records + 1), "{run}");
    record_is(
        env,
        &[
            ("kill_switch", Value::Null),
            ("exit_code", json!(4)),
            ("outcome", json!("verdict-no")),
            ("fallback_to_manual", json!(false)),
            ("iterations_completed", json!(0)),
            ("sessions", json!([])),
        ],
    );
    let detail = env.last_run()["kill_switch_detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.contains(why), "{detail}");
    says(&run, &[why]);
}

#[test]
fn a_good_repository_may_start() {
    let env = place();
    history(&env, &["max-sessions-reached"; 5]);
    let (_, document) = verdict(&env, &[GATED], 0);
    assert_eq!(document["mode"], "housekeeping");
    assert_eq!(failed_gates(&document), [""; 0]);
    run(&env, &[GATED], 0);
    assert_eq!(env.calls().len(), 1);
    assert_eq!(events(&env, "verdict_judged")[0]["verdict"]["suitable"], true);
}

#[test]
fn bad_endings_forbid_a_run_that_asks_for_it() {
    let env = place();
    history(&env, &BAD);
    let (text, document) = verdict(&env, &[], 4);
    assert_eq!(failed_gates(&document), ["history"], "{text}");
    assert!(text.stdout.contains("2 of the last 5 runs ended badly"), "{text}");
    forbidden(&env, "kill-switch 2/5 fired rate=0.4 FAIL");
    // Neither the refused run nor a dry one is a run of the history.
    let (_, again) = verdict(&env, &[], 4);
    let why = |document: &Value| {
        let gates = document["gates"].as_array().unwrap();
        gates.iter().find(|gate| gate["name"] == "history").unwrap()["why"].clone()
    };
    assert_eq!(why(&again).as_str().map(|why| why.starts_with("2 of the last ")), Some(true), "{again}");
}

#[test]
fn an_advice_is_given_and_the_run_starts() {
    let env = place();
    history(&env, &BAD);
    let run_advised = run(&env, &[], 0);
    assert_eq!(env.calls().len(), 1);
    says(&run_advised, &["2 of the last 5 runs ended badly", "session 1 of 5"]);

    // Off: nobody asks.
    let env = place();
    history(&env, &BAD);
    let run_off = run(&env, &["--autonomy", "off"], 0);
    assert!(!run_off.stderr.contains("ended badly"), "{run_off}");
    assert_eq!((env.calls().len(), events(&env, "verdict_judged").len()), (1, 0));
}

#[test]
fn too_little_confidence_is_a_no_too() {
    let env = TestEnv::new();
    let (text, document) = verdict(&env, &[], 4);
    assert_eq!(failed_gates(&document), ["confidence"], "{text}");
    forbidden(&env, "confidence 0>=0.5 FAIL");
}

#[test]
fn red_ci_forbids_and_green_ci_does_not() {
    let env = place();
    on_github(&env, "failure");
    let (text, document) = verdict(&env, &[], 4);
    assert_eq!(failed_gates(&document), ["ci"], "{text}");
    forbidden(&env, "CI red FAIL");
    let calls = gh_calls(&env);
    assert!(calls.iter().any(|call| call.starts_with("run list --branch=main")), "{calls:?}");
    assert!(calls.iter().all(|call| call.ends_with("-R github.com/tess/parser")), "{calls:?}");

    let env = place();
    on_github(&env, "success");
    verdict(&env, &[], 0);
    run(&env, &[GATED], 0);
    assert_eq!(env.calls().len(), 1);
}

#[test]
fn nobody_asks_a_forge_that_is_switched_off() {
    let env = place();
    env.write(".autopilot.toml", "forge = \"off\"\n");
    on_github(&env, "failure");
    verdict(&env, &[], 0);
    run(&env, &[GATED], 0);
    assert_eq!(gh_calls(&env), [""; 0]);
}

#[test]
fn a_program_that_fails_is_told_and_forbids_nothing() {
    let env = place();
    on_github(&env, "failure");
    env.tool("gh", "echo 'gh: please log in: https://tess:hush-4711@github.com/login' >&2; exit 4");
    let run = run(&env, &[GATED], 0);
    let told: Vec<Value> = events(&env, "warning").iter().map(|event| event["text"].clone()).collect();
    assert!(told.iter().any(|text| text.as_str().unwrap().contains("please log in")), "{told:?}");
    assert!(!dump(&env).contains("hush-4711") && !run.stderr.contains("hush-4711"), "a secret was told");
    says(&run, &["please log in", "session 1"]);
}

#[test]
fn a_program_that_hangs_is_ended_and_the_run_goes_on() {
    let env = place();
    env.git(&["remote", "add", "origin", "https://github.com/tess/parser"]);
    env.tool("gh", "trap '' TERM INT HUP; sleep 300 & sleep 300");
    let run = run(&env, &[GATED, "--max-sessions", "1"], 0);
    // Ten seconds for both questions together, and the time it takes to end a process that will not go.
    assert!(run.elapsed < Duration::from_secs(25), "{run}");
    assert_eq!((env.calls().len(), env.leftovers().len()), (1, 0), "{run}");
    says(&run, &["did not answer within 10 s", "session 1"]);
    // What did not answer is not asked again at once.
    let again = env.autopilot(&["verdict"]);
    assert!(again.elapsed < Duration::from_secs(5), "{again}");
}
