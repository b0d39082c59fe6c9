//! After `kill -9` or a stop: the next start puts things in order, and `resume` goes on with the conversation.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::dump;
use crate::support::story::{
    HANG, PARTIAL, argument, events, finish, prompt, record_is, refused, run, run_as, says,
};

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

/// The one record of the run.
#[track_caller]
fn record_of(env: &TestEnv, id: &str) -> Value {
    let records: Vec<Value> = env.runs().into_iter().filter(|r| r["autopilot_run_id"] == id).collect();
    assert_eq!(records.len(), 1, "{}", dump(env));
    records[0].clone()
}

/// The dead run is on record as such.
#[track_caller]
fn recorded_as_dead(env: &TestEnv, id: &str) {
    let record = record_of(env, id);
    assert_eq!(
        (&record["outcome"], &record["kill_switch"], &record["exit_code"], &record["failure_class"]),
        (&json!("died"), &json!("failed-wave"), &json!(137), &json!("killed_by_other"))
    );
    assert!(record["kill_switch_detail"].as_str().unwrap().contains("died without a word"), "{record}");
}

/// The processes of the dead run are gone, and that it died is in its journal.
#[track_caller]
fn settled(env: &TestEnv, id: &str) {
    assert_eq!(env.leftovers(), []);
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
    let record = record_of(env, id);
    assert_eq!((&record["outcome"], &record["exit_code"]), (&json!("planned"), &json!(0)), "{record}");
    assert_eq!(env.last_run()["autopilot_run_id"], id, "the same run");
    says(&run, &["the run goes on", "used so far"]);
    // One journal, numbered without a gap, in which it ends twice; attempts are counted on.
    assert_eq!(events(env, "run_resumed").len(), 1, "{}", dump(env));
    let attempts: Vec<u64> =
        events(env, "attempt_started").iter().map(|event| event["attempt"].as_u64().unwrap()).collect();
    assert!(attempts.is_sorted_by(|a, b| a < b), "{attempts:?}");
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
    assert_eq!(record_of(&env, &id)["outcome"], "planned");
}

#[test]
fn killed_in_the_second_session() {
    let env = TestEnv::new();
    env.script(&format!("nth_call 1 {{\n{PARTIAL}\n}}\nnth_call 2 {{\n{HANG}\n}}\nnth_call 3 {{\nturn\n}}"));
    let args = ["--prompt", "Port the parser", "--max-sessions", "3"];
    let id = killed(&env, &args, |env| env.has_mark(2, "hang").then_some(()));
    goes_on(&env, &id, 2);
    // The first part is counted.
    record_is(&env, &[("max_sessions", json!(3)), ("iterations_completed", json!(2))]);
    let record = env.last_run();
    let sessions: Vec<Value> = env.calls()[..2].iter().map(|call| call["session_id"].clone()).collect();
    assert_eq!(record["sessions"], json!(sessions));
    let entries = env.events();
    let first = entries.iter().find(|entry| entry["event"]["type"] == "run_started").unwrap();
    let started = first["at"].as_str().unwrap()[..19].to_owned();
    assert_eq!(record["started_at"].as_str().unwrap()[..19], started, "when the first part began");
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
    assert_eq!(record_of(&env, &id)["outcome"], "planned");
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
    recorded_as_dead(&env, &id);
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
    assert_eq!(argument(&env, 2, "--resume").map(Value::from), Some(first.clone()));
    let record = record_of(&env, &id);
    assert_eq!(
        (&record["iterations_completed"], &record["max_sessions"], &record["exit_code"]),
        (&json!(1), &json!(2), &json!(0))
    );
    assert_eq!(record["sessions"], json!([first]), "one conversation, told once");
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
    let record = record_of(&env, &id);
    assert_eq!((&record["max_sessions"], &record["iterations_completed"]), (&json!(2), &json!(2)));
    // What `resume` was told holds for the next one too.
    says(&refused(&env, &["resume"], 2), &["has done its 2 sessions"]);
}

#[test]
fn a_run_that_is_used_up_is_not_gone_on_with() {
    let env = TestEnv::new();
    env.script(&format!("nth_call 1 {{\n{PARTIAL}\n}}\nnth_call 2 {{\nturn\n}}"));
    run_as(&env, &["--prompt", "x", "--max-tokens", "1"], 0, &Expect { any_cost: true, ..Expect::default() });
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    let used = env.last_run()["total_tokens_used"].as_u64().unwrap();
    assert!(used > 1);
    says(&refused(&env, &["resume"], 2), &["has used its 1 output tokens", "--max-tokens"]);
    assert_eq!(record_of(&env, &id)["total_tokens_used"], used, "the record stays");
    run(&env, &["resume", "--max-tokens", "0"], 0);
    let record = record_of(&env, &id);
    assert!(record["total_tokens_used"].as_u64().unwrap() > used, "{record}");
    let seconds = |name: &str| events(&env, name).last().unwrap()["seconds"].as_f64().unwrap();
    assert!(seconds("run_ended") >= seconds("run_resumed"), "time is counted on");
}

#[test]
fn killed_twice() {
    let env = TestEnv::new();
    env.script(&format!("nth_call 1 {{\n{HANG}\n}}\nnth_call 2 {{\n{HANG}\n}}\nnth_call 3 {{\nturn\n}}"));
    let id = killed(&env, &["--prompt", "Port the parser"], |env| env.has_mark(1, "hang").then_some(()));
    let mut second = env.start(&["resume", &id]);
    second.wait_mark(2, "hang");
    second.signal(Signal::KILL);
    assert_eq!(second.finish().signal(), Some(9));
    recorded_as_dead(&env, &id);
    run_as(&env, &["resume"], 0, &Expect { any_cost: true, ..Expect::default() });
    assert_eq!(env.leftovers(), []);
    let record = record_of(&env, &id);
    assert_eq!((&record["outcome"], &record["iterations_completed"]), (&json!("planned"), &json!(1)));
    let deaths = events(&env, "run_ended").iter().filter(|end| end["exit_code"] == 137).count();
    assert_eq!((deaths, events(&env, "run_resumed").len()), (2, 2));
    let first = env.calls()[0]["session_id"].clone();
    assert_eq!(argument(&env, 3, "--resume").map(Value::from), Some(first));
}
