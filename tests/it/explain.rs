//! `autopilot explain`: every decision of a run, from its journal alone.

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::run::Finished;
use crate::support::story::{prints, run, says};

/// A run of two sessions: the second one stops the run.
fn two_sessions() -> TestEnv {
    let env = TestEnv::new();
    env.write(
        ".project/plan.md",
        "- [ ] Write the parser\n- [ ] Write the printer\n- [ ] Write the checker\n",
    );
    let report = |done: &[&str], more: Value| {
        let mut report = json!({"status": "partial", "tasks_done": done});
        for (key, value) in more.as_object().unwrap() {
            report[key] = value.clone();
        }
        format!("commit \"Work of call {{call}}\" work{{call}}.txt\nreport {report}\nturn")
    };
    let counts =
        json!({"effectiveness": {"planned_issues": 4, "completed": 1, "carryover": 3, "emergent": 0}});
    env.script(&format!(
        "nth_call 1 {{\n{}\n}}\nnth_call 2 {{\n{}\n}}",
        report(&["Write the parser", "Write the moon"], json!({})),
        report(&[], counts)
    ));
    run(&env, &[], 15);
    env
}

/// The command changes nothing and starts nothing.
#[track_caller]
fn explain(env: &TestEnv, args: &[&str], code: i32) -> Finished {
    let before = (env.runs(), env.calls().len(), env.events());
    let told = env.autopilot(&[&["explain"], args].concat());
    assert_eq!(told.code(), Some(code), "{told}");
    assert_eq!((env.runs(), env.calls().len(), env.events()), before);
    told
}

const SECOND: [&str; 10] = [
    "resources: ",
    "    other Claude sessions: ",
    "signals:",
    "    plan.md: 2 open of 3",
    "mode: feature, confidence 0.95 >= threshold 0.85",
    "task evidence: 2 open tasks",
    "task: Write the printer",
    "outcome of attempt",
    "carry-over 3 of 4 planned (more than 0.5 stops)",
    "end: carryover-too-high",
];

#[test]
fn every_decision_of_a_run_with_its_reasons() {
    let env = two_sessions();
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    for args in [vec![], vec![id.as_str()]] {
        let told = explain(&env, &args, 0);
        prints(
            &told,
            &[
                &format!("run {id}"),
                "iteration 1",
                "resources: ",
                "signals:",
                "STATE.md",
                "pre-launch verdict: yes",
                "task: Write the parser",
                "session over: ok, reported partial",
                "done, ticked by autopilot: Write the parser",
                "no task of that name: Write the moon",
                "kill-switches after the session: none fires",
                "iteration 2",
            ],
        );
        let second = told.stdout.split("\niteration 2\n").nth(1).expect("a second iteration");
        prints(&Finished { stdout: second.to_owned(), ..explain(&env, &args, 0) }, &SECOND);
    }
}

#[test]
fn one_iteration_alone() {
    let env = two_sessions();
    let told = explain(&env, &["--iteration", "2"], 0);
    prints(&told, &SECOND);
    assert!(!told.stdout.contains("iteration 1") && !told.stdout.contains("Write the parser"), "{told}");
    let told = explain(&env, &["--iteration", "7"], 2);
    says(&told, &["no decision of iteration 7", "without --iteration"]);
    assert_eq!(told.stdout, "");
}

#[test]
fn the_same_as_data() {
    let env = two_sessions();
    let told = explain(&env, &["--json"], 0);
    let lines: Vec<Value> = told.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let journal = env.events();
    assert!(lines.iter().all(|line| journal.contains(line)), "nothing is made up: {told}");
    let of = |kind: &str| lines.iter().filter(|line| line["event"]["type"] == kind).count();
    for (kind, count) in [
        ("surveyed", 2),
        ("mode_selected", 2),
        ("resources_judged", 2),
        ("verdict_judged", 1),
        ("switches_checked", 4),
        ("session_ended", 2),
        ("run_ended", 1),
    ] {
        assert_eq!(of(kind), count, "{kind}: {told}");
    }
    let second = explain(&env, &["--iteration", "2", "--json"], 0);
    assert!(second.stdout.lines().count() < lines.len() && !second.stdout.is_empty(), "{second}");
}

#[test]
fn what_is_not_there_is_said() {
    let env = TestEnv::new();
    let told = explain(&env, &[], 2);
    assert!(!told.stderr.is_empty() && told.stdout.is_empty(), "{told}");
    run(&env, &["--prompt", "x"], 0);
    for id in ["main-1999-01-01-0000-autopilot", "../../etc", "nothing"] {
        let told = explain(&env, &[id], 2);
        says(&told, &[id]);
        assert_eq!(told.stdout, "", "{told}");
    }
}

#[test]
fn other_limits_on_the_recorded_inputs() {
    let env = two_sessions();
    let same = explain(&env, &["--what-if", "peer-abort=7"], 0);
    prints(
        &same,
        &["iteration 1", "mode: ", "as it was", "iteration 2", "nothing would have been different"],
    );
    let longer = explain(&env, &["--what-if", "carryover-threshold=0.9"], 0);
    prints(
        &longer,
        &[
            "iteration 2",
            "kill-switches after the session: was carryover-too-high",
            "would have been none fires",
            "what would have followed is not known",
        ],
    );
    let stricter = explain(&env, &["--what-if", "confidence-threshold=0.99,max-sessions=1"], 0);
    prints(&stricter, &["iteration 1", "mode: was feature", "threshold 0.99: starts none"]);
    let json = explain(&env, &["--what-if=max-sessions=1", "--json"], 0);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let last = document["decisions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["iteration"], &last["differs"]), (&json!(2), &json!(true)), "{document}");
    assert_eq!(last["after"], "max-sessions-reached: iterations_completed=1 >= max-sessions=1");
    for wrong in ["confidence-threshold", "x=1", "max-sessions=many", "max-sessions=-1", "mode=deep"] {
        let told = explain(&env, &["--what-if", wrong], 2);
        says(&told, &["--what-if", "one of confidence-threshold"]);
    }
}
