//! After `kill -9` or a stop: the next start puts things in order, and `resume` goes on with the conversation.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::dump;
use crate::support::story::{HANG, PARTIAL, argument, events, finish, prompt, record_is, refused, run, says};

/// Starts a run, ends it without a word once `moment` is there, and gives its id.
#[track_caller]
fn killed(env: &TestEnv, args: &[&str], moment: impl FnMut(&TestEnv) -> Option<()>) -> String {
    let mut running = env.start(args);
    running.wait_for("the moment", moment);
    running.signal(Signal::KILL);
    let run = running.finish();
    assert_eq!(run.signal(), Some(9), "{run}");
    crate::support::invariants::check_invariants(env, &run, &Expect { killed: true, ..Expect::default() });
    let id = events(env, "run_started").pop().unwrap()["run_id"].as_str().unwrap().to_owned();
    assert!(!env.runs().iter().any(|record| record["autopilot_run_id"] == id), "it cannot have a record");
    id
}

/// The dead run is on record, its processes are gone, and its last event is there.
#[track_caller]
fn settled(env: &TestEnv, id: &str) {
    assert_eq!(env.leftovers(), []);
    let records: Vec<Value> = env.runs().into_iter().filter(|r| r["autopilot_run_id"] == id).collect();
    assert_eq!(records.len(), 1, "{}", dump(env));
    let record = &records[0];
    assert_eq!(
        (&record["outcome"], &record["kill_switch"], &record["exit_code"], &record["failure_class"]),
        (&json!("died"), &json!("failed-wave"), &json!(137), &json!("killed_by_other"))
    );
    assert!(record["kill_switch_detail"].as_str().unwrap().contains("died without a word"), "{record}");
    let found = events(env, "dead_run_found");
    assert_eq!(found.iter().filter(|e| e["run_id"] == id).count(), 1, "{}", dump(env));
    let ends = events(env, "run_ended").iter().filter(|e| e["exit_code"] == 137).count();
    assert!(ends >= 1, "{}", dump(env));
}

/// The resumed run finishes the conversation that was under way.
#[track_caller]
fn goes_on(env: &TestEnv, id: &str, before: usize) {
    let any_cost = Expect { any_cost: true, ..Expect::default() };
    let running = env.start(&["resume", id]);
    let run = finish(env, running, 0, &any_cost);
    settled(env, id);
    let call = before + 1;
    assert_eq!(
        argument(env, call, "--resume").map(Value::from),
        Some(env.calls()[before - 1]["session_id"].clone())
    );
    let text = prompt(env, call);
    assert!(text.contains("git status") && text.contains("Port the parser"), "a reconcile prompt: {text}");
    assert_ne!(text, prompt(env, before));
    record_is(env, &[("parent_run_id", json!(id)), ("exit_code", json!(0))]);
    says(&run, &[&format!("going on with {id}")]);
}

#[test]
fn killed_in_the_middle_of_a_tool() {
    let env = TestEnv::new();
    env.script(&format!(
        "nth_call 1 {{\nspawn_grandchild setsid ignore-term\n{HANG}\n}}\nnth_call 2 {{\nturn\n}}"
    ));
    let id = killed(&env, &["--prompt", "Port the parser"], |env| env.has_mark(1, "hang").then_some(()));
    let status = env.autopilot(&["status"]);
    assert_eq!(status.code(), Some(7), "{status}");
    assert!(status.stdout.contains(&format!("run {id} died without a word")), "{status}");
    assert!(status.stdout.contains("autopilot resume"), "{status}");
    goes_on(&env, &id, 1);
    assert_eq!(events(&env, "dead_run_found")[0]["survivors"], json!([]));
    // Only once: there is nothing more to put in order.
    run(&env, &["--prompt", "y"], 0);
    settled(&env, &id);
}

#[test]
fn killed_in_the_second_session() {
    let env = TestEnv::new();
    env.script(&format!("nth_call 1 {{\n{PARTIAL}\n}}\nnth_call 2 {{\n{HANG}\n}}\nnth_call 3 {{\nturn\n}}"));
    let args = ["--prompt", "Port the parser", "--max-sessions", "3"];
    let id = killed(&env, &args, |env| env.has_mark(2, "hang").then_some(()));
    goes_on(&env, &id, 2);
    // The first part is counted: two of three sessions are left.
    record_is(&env, &[("max_sessions", json!(2)), ("iterations_completed", json!(1))]);
    let records = env.runs();
    assert_eq!(
        (&records[0]["iterations_completed"], &records[0]["total_tokens_used"]),
        (&json!(1), &json!(50))
    );
}

#[test]
fn killed_during_a_pause() {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_TURN_BACKOFF", "120");
    env.script(&format!(
        "nth_call 1 {{\n{}\nexit 7\n}}\nnth_call 2 {{\nturn\n}}",
        HANG.replace("\nhang", "")
    ));
    let healed = |env: &TestEnv| (!events(env, "healed").is_empty()).then_some(());
    let id = killed(&env, &["--prompt", "Port the parser"], healed);
    goes_on(&env, &id, 1);
}

#[test]
fn killed_during_the_verification() {
    let env = TestEnv::new();
    env.script(PARTIAL);
    let verify = "echo >>\"$TMPDIR/verifying\"; sleep 300";
    let args = ["--prompt", "Port the parser", "--verify", verify];
    let id = killed(&env, &args, |env| env.root().join("tmp/verifying").exists().then_some(()));
    env.script("turn");
    run(&env, &["resume", &id, "--verify", "true"], 0);
    settled(&env, &id);
}

#[test]
fn killed_before_the_first_word() {
    let env = TestEnv::new();
    env.script("nth_call 1 {\nno_transcript\nhang\n}\nnth_call 2 {\nturn\n}");
    let id = killed(&env, &["--prompt", "Port the parser"], |env| env.has_mark(1, "hang").then_some(()));
    let any_cost = Expect { any_cost: true, ..Expect::default() };
    finish(&env, env.start(&["resume"]), 0, &any_cost);
    settled(&env, &id);
    // There is no conversation to go on with: a new one, never the same id twice.
    assert_ne!(env.calls()[0]["session_id"], env.calls()[1]["session_id"]);
    assert!(prompt(&env, 2).contains("Port the parser"), "{}", prompt(&env, 2));
}

#[test]
fn a_plain_start_puts_the_dead_run_in_order_too() {
    let env = TestEnv::new();
    env.script(&format!("nth_call 1 {{\n{HANG}\n}}\nnth_call 2 {{\nturn\n}}"));
    let id = killed(&env, &["--prompt", "x"], |env| env.has_mark(1, "hang").then_some(()));
    let run = run(&env, &["--prompt", "y"], 0);
    settled(&env, &id);
    says(&run, &[&id]);
    assert_eq!(argument(&env, 2, "--resume"), None, "its own conversation");
}

#[test]
fn a_stopped_run_goes_on_where_it_was() {
    let env = TestEnv::new();
    env.script(&format!("nth_call 1 {{\n{HANG}\n}}\nnth_call 2 {{\nturn\n}}"));
    let mut running = env.start(&["--prompt", "Port the parser", "--max-sessions", "2"]);
    running.wait_mark(1, "hang");
    running.signal(Signal::TERM);
    finish(&env, running, 143, &Expect { any_cost: true, ..Expect::default() });
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    run(&env, &["resume"], 0);
    let first = env.calls()[0]["session_id"].clone();
    assert_eq!(argument(&env, 2, "--resume").map(Value::from), Some(first));
    record_is(
        &env,
        &[("parent_run_id", json!(id)), ("iterations_completed", json!(1)), ("max_sessions", json!(2))],
    );
}

#[test]
fn what_cannot_be_resumed() {
    let env = TestEnv::new();
    says(&refused(&env, &["resume"], 2), &["there has been no run here", "hint"]);
    env.script(PARTIAL);
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    says(&refused(&env, &["resume", "other"], 2), &["there is no run `other`", &id]);
    says(&refused(&env, &["resume", "../../.."], 2), &["there is no run"]);
    says(&refused(&env, &["resume"], 2), &["has done its 1 sessions", "--max-sessions"]);
    // With more of them it goes on.
    run(&env, &["resume", "--max-sessions", "2"], 0);
    assert_eq!(env.calls().len(), 2);
    record_is(&env, &[("parent_run_id", json!(id)), ("max_sessions", json!(1))]);
}
