//! Usage limits of the account: told by words only, waited for over the death of a run, too long to wait for, and
//! kept away from.

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::{Expect, check_invariants};
use crate::support::run::dump;
use crate::support::story::{argument, events, finish, prompt, record_is, run, run_as, says};

/// What the call before the limit cost is known by estimate only.
fn any_cost() -> Expect {
    Expect { any_cost: true, ..Expect::default() }
}

/// A first call that meets a limit in the middle of its work, told by words alone, and then good turns.
fn limited(reset_in: u32) -> String {
    format!(
        "nth_call 1 {{\ninit\ntool Bash {{\"command\":\"make\"}}\napi_error 429 \"Claude AI usage limit reached|{{now+{reset_in}}}\"\nexit 1\n}}\nnth_call 2 {{\nturn\n}}"
    )
}

/// When the events of this type were written.
fn times(env: &TestEnv, kind: &str) -> Vec<Timestamp> {
    let of_kind = env.events().into_iter().filter(|entry| entry["event"]["type"] == kind);
    of_kind.map(|entry| entry["at"].as_str().unwrap().parse().unwrap()).collect()
}

/// The only wait, and its end.
#[track_caller]
fn wait(env: &TestEnv) -> (Value, Timestamp) {
    let [wait] = &events(env, "limit_wait")[..] else { panic!("not one wait: {}", dump(env)) };
    (wait.clone(), wait["until"].as_str().unwrap().parse().unwrap())
}

/// The second call goes on in the conversation of the first.
#[track_caller]
fn goes_on(env: &TestEnv) {
    assert_eq!(env.calls().len(), 2, "{}", dump(env));
    let first = env.calls()[0]["session_id"].clone();
    assert_eq!(argument(env, 2, "--resume").map(Value::from), Some(first), "{}", dump(env));
}

#[test]
fn a_limit_that_only_words_tell_of_is_waited_for() {
    let env = TestEnv::new();
    env.script(&limited(6));
    let run = run(&env, &["--prompt", "Port the parser", "--max-sessions", "1"], 0);
    goes_on(&env);
    let (wait, until) = wait(&env);
    assert_eq!((&wait["source"], &wait["window"]), (&json!("text"), &json!(null)));
    assert!(times(&env, "limit_wait_over")[0] >= until, "it woke up too early: {}", dump(&env));
    assert!(times(&env, "attempt_started")[1] >= until);
    says(&run, &["usage limit: asleep until", "the time its words name", "awake again"]);
    record_is(&env, &[("exit_code", json!(0)), ("iterations_completed", json!(1)), ("heals", json!([]))]);
    assert!(env.last_run()["limit_wait_seconds"].as_u64() >= Some(1), "{}", env.last_run());
    assert!(prompt(&env, 2).len() > 20);
}

#[test]
fn a_limit_beyond_the_longest_wait_ends_the_run_and_resume_goes_on() {
    let env = TestEnv::new();
    env.script(&limited(7200));
    let args = ["--prompt", "Port the parser", "--max-sessions", "1", "--max-wait", "1"];
    let run = run_as(&env, &args, 22, &any_cost());
    assert_eq!(env.calls().len(), 1, "{}", dump(&env));
    assert_eq!(events(&env, "limit_wait"), [] as [Value; 0]);
    record_is(&env, &[("kill_switch", json!("failed-wave")), ("failure_class", json!("usage_limit"))]);
    let detail = env.last_run()["kill_switch_detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("it resets at") && detail.contains("beyond --max-wait"), "{detail}");
    says(&run, &["autopilot resume", "once the limit has reset"]);
    // It has been lifted meanwhile.
    run_as(&env, &["resume"], 0, &any_cost());
    goes_on(&env);
    assert!(prompt(&env, 2).contains("Port the parser"), "{}", prompt(&env, 2));
}

#[test]
fn a_stop_during_the_wait_ends_it_at_once() {
    let env = TestEnv::new();
    env.script(&limited(3600));
    let mut running = env.start(&["--prompt", "Port the parser", "--max-sessions", "1"]);
    running.wait_event("the wait", |line| line["event"]["type"] == "limit_wait");
    running.signal(Signal::INT);
    finish(&env, running, 130, &any_cost());
    assert_eq!(env.calls().len(), 1, "{}", dump(&env));
    record_is(&env, &[("kill_switch", json!("user-abort")), ("iterations_completed", json!(0))]);
    assert!(env.last_run()["limit_wait_seconds"].as_u64().is_some_and(|seconds| seconds < 60));
    // Who ended the wait at the keyboard and resumes knows better: it asks, and is let through.
    run_as(&env, &["resume"], 0, &any_cost());
    goes_on(&env);
    assert_eq!(events(&env, "limit_wait").len(), 1, "{}", dump(&env));
}

#[test]
fn a_run_that_dies_in_the_wait_is_resumed_with_the_rest_of_it() {
    let env = TestEnv::new();
    env.script(&limited(10));
    let mut running = env.start(&["--prompt", "Port the parser", "--max-sessions", "1"]);
    running.wait_event("the wait", |line| line["event"]["type"] == "limit_wait");
    running.signal(Signal::KILL);
    let run = running.finish();
    assert_eq!(run.signal(), Some(9), "{run}");
    check_invariants(&env, &run, &Expect { killed: true, ..Expect::default() });
    let (before, until) = wait(&env);
    run_as(&env, &["resume"], 0, &any_cost());
    goes_on(&env);
    let waits = events(&env, "limit_wait");
    assert_eq!(waits, [before.clone(), before], "{}", dump(&env));
    assert!(times(&env, "attempt_started")[1] >= until, "it did not wait: {}", dump(&env));
}

#[test]
fn a_reserve_is_kept() {
    let env = TestEnv::new();
    let event = "emit {\"type\":\"rate_limit_event\",\"session_id\":\"{session}\",\"rate_limit_info\":{\"status\":\"allowed_warning\",\"rateLimitType\":\"five_hour\",\"resetsAt\":{now+3600},\"utilization\":0.92,\"unifiedWindows\":{\"five_hour\":{\"utilization\":0.92,\"resetsAt\":{now+3600}},\"seven_day\":{\"utilization\":0.4,\"resetsAt\":{now+90000}}}}}";
    env.script(&format!("init\n{event}\nreport {{\"status\":\"partial\"}}\ntext \"Did a part.\"\nresult"));
    let args = ["--prompt", "Port the parser", "--max-sessions", "3", "--reserve"];
    let kept = run(&env, &[&args[..], &["10"]].concat(), 0);
    let words = "usage window five_hour is 92 % used, --reserve 10 keeps the rest";
    record_is(
        &env,
        &[
            ("kill_switch", json!(null)),
            ("kill_switch_detail", json!(words)),
            ("iterations_completed", json!(1)),
            ("failure_class", json!(null)),
        ],
    );
    says(&kept, &["usage window five_hour is 92 % used, resets", "autopilot resume"]);
    let [reached] = &events(&env, "reserve_reached")[..] else { panic!("{}", dump(&env)) };
    assert_eq!((&reached["iteration"], &reached["window"]), (&json!(2), &json!("five_hour")));
    let explained = env.autopilot(&["explain"]);
    assert!(explained.stdout.contains("--reserve 10 keeps the rest"), "{explained}");
    // Enough is left for this one.
    run(&env, &[&args[..], &["5"]].concat(), 0);
    record_is(&env, &[("iterations_completed", json!(3))]);
}
