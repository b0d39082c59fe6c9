//! A session that needs an answer: who gives it, when, and what happens without one (design §8).

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::dump;
use crate::support::story::{argument, events, finish, prompt, record_is, run, says};

const GATED: &str = "--autonomy=autonomous-gated";
const QUESTION: &str = "Postgres or SQLite?";

/// A place in which a question waits three seconds, the shortest that is no race with the end of a turn.
fn place(script: &str) -> TestEnv {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_ESCALATION_TIMEOUT", "0.05");
    env.script(script);
    env
}

fn asks(options: &[&str]) -> String {
    let on = json!({"question": QUESTION, "options": options});
    format!("report {}\nturn", json!({"status": "blocked", "blocked_on": on}))
}

#[test]
fn the_first_option_is_taken_when_nobody_answers() {
    let env = place(&format!(
        "nth_call 1 {{\n{}\n}}\nnth_call 2 {{\ncommit \"Take Postgres\" db.txt\nturn\n}}",
        asks(&["Postgres", "SQLite"])
    ));
    let run = run(&env, &["--prompt", "Choose a database", GATED], 0);
    assert!(run.elapsed >= Duration::from_secs(3), "somebody could have answered: {run}");
    let id = env.calls()[0]["session_id"].as_str().unwrap().to_owned();
    assert_eq!((env.calls().len(), argument(&env, 2, "--resume")), (2, Some(id.clone())), "{}", dump(&env));
    let answer = prompt(&env, 2);
    assert!(answer.contains(QUESTION) && answer.contains("Postgres"), "{answer}");
    let purposes: Vec<Value> =
        events(&env, "turn_started").iter().map(|turn| turn["purpose"].clone()).collect();
    assert_eq!(purposes, ["work", "answer"]);
    let asked = &events(&env, "question_asked")[0];
    assert_eq!(json!([asked["question"], asked["options"]]), json!([QUESTION, ["Postgres", "SQLite"]]));
    assert_eq!(events(&env, "question_answered")[0]["answer"], "Postgres");
    // One session, which went on and did the work.
    record_is(
        &env,
        &[("kill_switch", Value::Null), ("iterations_completed", json!(1)), ("sessions", json!([id]))],
    );
    assert_eq!(env.sessions().len(), 1);
    says(&run, &[QUESTION, "Postgres", "session 1 of 5 ended: complete"]);
    let told = env.autopilot(&["explain"]);
    assert!(told.stdout.contains(QUESTION) && told.stdout.contains("answered: Postgres"), "{told}");
}

#[test]
fn a_question_without_options_needs_a_person() {
    let env = place(&asks(&[]));
    let run = run(&env, &["--prompt", "x", GATED], 24);
    assert_eq!(env.calls().len(), 1);
    record_is(&env, &[("failure_class", json!("blocked")), ("kill_switch", json!("failed-wave"))]);
    says(&run, &[QUESTION, "answer the question"]);
}

#[test]
fn who_asks_on_and_on_needs_a_person() {
    let env = place(&asks(&["Postgres", "SQLite"]));
    run(&env, &["--prompt", "x", GATED], 24);
    assert_eq!(env.calls().len(), 4, "the work and three answers");
    assert_eq!(events(&env, "question_answered").len(), 3);
    record_is(&env, &[("failure_class", json!("blocked")), ("iterations_completed", json!(1))]);
}

#[test]
fn who_advises_only_does_not_answer() {
    let env = place(&asks(&["Postgres", "SQLite"]));
    env.write(".project/plan.md", "- [ ] Choose a database\n");
    let first = run(&env, &[], 24);
    assert_eq!((env.calls().len(), events(&env, "question_asked").len()), (1, 0));
    says(&first, &[&format!("{QUESTION} [options: Postgres | SQLite]")]);
    // The next run is told of it, until somebody answers.
    env.script("turn");
    run(&env, &["--max-sessions", "1", "--carryover-threshold", "1"], 0);
    assert!(prompt(&env, 2).contains(QUESTION), "{}", prompt(&env, 2));
}

#[test]
fn a_stop_does_not_wait_for_an_answer() {
    let mut env = place(&asks(&["Postgres", "SQLite"]));
    env.set("AUTOPILOT_ESCALATION_TIMEOUT", "60");
    let mut running = env.start(&["--prompt", "x", GATED]);
    running.wait_event("a question", |entry| entry["event"]["type"] == "question_asked");
    running.signal(Signal::INT);
    let run = finish(&env, running, 130, &Expect::default());
    assert_eq!(env.calls().len(), 1, "{run}");
    record_is(&env, &[("kill_switch", json!("user-abort"))]);
    assert_eq!(env.sessions().len(), 1);
}
