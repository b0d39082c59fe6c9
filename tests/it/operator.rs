//! What a person or a service manager does while a run goes on: signals, a second start, a look at the state.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::{Running, dump};
use crate::support::story::{HANG, PARTIAL, events, finish, record_is, refused, run, says};

/// Nothing that ends on request may take longer than this on a loaded machine.
const SOON: Duration = Duration::from_secs(8);

/// A session that waits for `go`, then leaves work for another one.
fn waiting() -> String {
    format!("init\nwait_file go\n{}", PARTIAL.replace("turn", "text \"Did a part.\"\nresult"))
}

/// Sends `signals` one by one, each after the run has taken note of the one before.
#[track_caller]
fn send(running: &mut Running<'_>, signals: &[Signal]) {
    for (number, signal) in signals.iter().enumerate() {
        running.signal(*signal);
        running.wait_for("the run takes note of the signal", |env| {
            (events(env, "stop_requested").len() > number).then_some(())
        });
    }
}

/// The run ends by request: at once, with everything gone and on record.
#[track_caller]
fn stopped(env: &TestEnv, running: Running<'_>, by: &str, iterations: u32) {
    let code = if by == "SIGINT" { 130 } else { 143 };
    let expect = Expect { within: SOON, any_cost: true, ..Expect::default() };
    let run = finish(env, running, code, &expect);
    record_is(
        env,
        &[
            ("kill_switch", json!("user-abort")),
            ("iterations_completed", json!(iterations)),
            ("exit_code", json!(code)),
            ("failure_class", Value::Null),
            ("outcome", json!(if by == "SIGINT" { "interrupted" } else { "terminated" })),
        ],
    );
    let detail = env.last_run()["kill_switch_detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("AbortSignal triggered ") && detail.ends_with(&format!("({by})")), "{detail}");
    assert_eq!(env.sessions().len(), usize::from(!env.calls().is_empty()), "{}", dump(env));
    says(&run, &["user-abort", "Next", "autopilot resume"]);
}

#[test]
fn the_first_ctrl_c_lets_the_session_finish() {
    let env = TestEnv::new();
    env.script(&waiting());
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "3"]);
    running.wait_mark(1, "waiting");
    send(&mut running, &[Signal::INT]);
    env.release("go");
    stopped(&env, running, "SIGINT", 1);
    assert_eq!(env.calls().len(), 1, "no other session is started");
    assert_eq!(env.sessions()[0]["status"], "completed");
    let detail = env.last_run()["kill_switch_detail"].clone();
    assert_eq!(detail, "AbortSignal triggered between iterations (SIGINT)");
    assert_eq!(events(&env, "attempt_ended")[0]["signals"], json!([]));
}

#[test]
fn the_second_ctrl_c_ends_the_turn() {
    let env = TestEnv::new();
    env.script(HANG);
    let mut running = env.start(&["--prompt", "x"]);
    running.wait_mark(1, "hang");
    send(&mut running, &[Signal::INT, Signal::INT]);
    stopped(&env, running, "SIGINT", 0);
    assert!(env.has_mark(1, "interrupted"), "asked to stop before it is told to: {}", dump(&env));
    assert_eq!(env.sessions()[0]["status"], "abandoned");
}

#[test]
fn the_third_ctrl_c_ends_everything_at_once() {
    let env = TestEnv::new();
    env.script(&format!(
        "trap_interrupt ignore\ntrap_term ignore\ntrap_int ignore\nspawn_grandchild setsid ignore-term\n\
         spawn_grandchild plain ignore-term hold-stdout\n{HANG}"
    ));
    let mut running = env.start(&["--prompt", "x"]);
    running.wait_mark(1, "hang");
    send(&mut running, &[Signal::INT, Signal::INT, Signal::INT]);
    stopped(&env, running, "SIGINT", 0);
    assert_eq!(env.leftovers(), []);
}

#[test]
fn term_and_hangup_end_the_turn() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")] {
        // Before the first line, in the middle of a tool, with descendants that would live on.
        for script in ["hang", HANG, &format!("spawn_grandchild setsid ignore-term\n{HANG}")] {
            let env = TestEnv::new();
            env.script(script);
            let mut running = env.start(&["--prompt", "x"]);
            running.wait_mark(1, "hang");
            send(&mut running, &[signal]);
            stopped(&env, running, name, 0);
            assert_eq!(env.leftovers(), [], "{script}");
        }
    }
}

#[test]
fn a_child_deaf_to_everything_is_gone_after_one_sigterm() {
    let env = TestEnv::new();
    env.script(&format!(
        "trap_interrupt ignore\ntrap_term ignore\ntrap_int ignore\nspawn_grandchild setsid ignore-term\n{HANG}"
    ));
    let mut running = env.start(&["--prompt", "x"]);
    running.wait_mark(1, "hang");
    send(&mut running, &[Signal::TERM]);
    // 10 s for the interrupt, then the ladder from SIGTERM to SIGKILL.
    let expect = Expect { within: Duration::from_secs(30), any_cost: true, ..Expect::default() };
    finish(&env, running, 143, &expect);
    assert_eq!(env.leftovers(), []);
    let signals = events(&env, "attempt_ended")[0]["signals"].to_string();
    assert!(signals.contains("SIGTERM") && signals.contains("SIGKILL"), "{signals}");
    record_is(&env, &[("kill_switch", json!("user-abort"))]);
}

#[test]
fn a_second_sigterm_does_not_wait() {
    let env = TestEnv::new();
    env.script(&format!("trap_interrupt ignore\ntrap_term ignore\n{HANG}"));
    let mut running = env.start(&["--prompt", "x"]);
    running.wait_mark(1, "hang");
    send(&mut running, &[Signal::TERM, Signal::TERM]);
    stopped(&env, running, "SIGTERM", 0);
}

#[test]
fn a_pause_before_a_recovery_is_cut_short() {
    for signals in [[Signal::INT].as_slice(), &[Signal::TERM]] {
        let mut env = TestEnv::new();
        env.set("AUTOPILOT_TURN_BACKOFF", "120");
        env.script("init\nexit 7");
        let mut running = env.start(&["--prompt", "x"]);
        running.wait_event("a recovery", |e| e["event"]["type"] == "healed");
        send(&mut running, signals);
        stopped(&env, running, if signals[0] == Signal::INT { "SIGINT" } else { "SIGTERM" }, 0);
        assert_eq!(env.calls().len(), 1);
    }
}

#[test]
fn the_sleep_until_a_limit_resets_is_cut_short() {
    for signals in [[Signal::INT].as_slice(), &[Signal::HUP]] {
        let env = TestEnv::new();
        env.script("init\nusage_limit +3600s");
        let mut running = env.start(&["--prompt", "x"]);
        running.wait_event("a limit", |e| e["event"]["type"] == "limit_wait");
        send(&mut running, signals);
        stopped(&env, running, if signals[0] == Signal::INT { "SIGINT" } else { "SIGHUP" }, 0);
        assert!(env.last_run()["limit_wait_seconds"].as_u64().is_some_and(|s| s < 60), "{}", env.last_run());
    }
}

#[test]
fn a_verification_is_cut_short_and_decides_nothing() {
    for (signals, by) in [([Signal::TERM].as_slice(), "SIGTERM"), (&[Signal::INT, Signal::INT], "SIGINT")] {
        let env = TestEnv::new();
        let verify = "sleep 300 & echo $! >>\"$TMPDIR/verifying\"; wait";
        let mut running = env.start(&["--prompt", "x", "--verify", verify]);
        running.wait_for("the verification", |env| env.root().join("tmp/verifying").exists().then_some(()));
        send(&mut running, signals);
        stopped(&env, running, by, 1);
        assert_eq!(env.leftovers(), []);
        // Complete by its own word only: there is something left to do.
        run(&env, &["resume", "--verify", "true"], 0);
        assert_eq!(env.calls().len(), 2, "{}", dump(&env));
    }
}

#[test]
fn a_second_start_is_refused_and_says_who_is_there() {
    let env = TestEnv::new();
    env.script(&waiting());
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "1"]);
    running.wait_mark(1, "waiting");
    let started = running.wait_event("the start", |e| e["event"]["type"] == "run_started");
    let id = started["event"]["run_id"].as_str().unwrap();
    for args in [["--prompt", "y"].as_slice(), &["resume"], &["resume", id]] {
        let second = env.autopilot(args);
        assert_eq!((second.code(), second.stdout.as_str()), (Some(5), ""), "{second}");
        says(&second, &[id, "hint: "]);
    }
    let second = env.autopilot(&["--prompt", "y"]);
    let since = &started["at"].as_str().unwrap()[..16];
    says(&second, &[&format!("run {id} holds this repository since {since}"), "autopilot status"]);
    // A plan needs no lock.
    assert_eq!(env.autopilot(&["--prompt", "y", "--dry-run"]).code(), Some(0));
    env.release("go");
    finish(&env, running, 0, &Expect::default());
    assert_eq!(env.calls().len(), 1);
    run(&env, &["--prompt", "z", "--max-sessions", "1"], 0);
}

#[test]
fn a_run_inside_of_a_run_is_refused() {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_RUN_ID", "main-2026-04-25-0842-autopilot");
    let run_nested = refused(&env, &["--prompt", "x"], 5);
    says(&run_nested, &["main-2026-04-25-0842-autopilot", "--allow-nested"]);
    run(&env, &["--prompt", "x", "--allow-nested"], 0);
    assert_eq!(env.calls()[0]["env"]["AUTOPILOT_RUN_ID"], env.last_run()["autopilot_run_id"]);
}

#[test]
fn the_status_of_a_run() {
    let env = TestEnv::new();
    let status = |code: i32| {
        let (text, json) = (env.autopilot(&["status"]), env.autopilot(&["status", "--json"]));
        assert_eq!((text.code(), json.code()), (Some(code), Some(code)), "{text}\n{json}");
        let quiet = env.autopilot(&["status", "-q"]);
        assert_eq!((quiet.code(), quiet.stdout.as_str()), (Some(code), ""), "{quiet}");
        assert_eq!((text.stderr.as_str(), json.stderr.as_str()), ("", ""));
        (text.stdout.clone(), json.json())
    };
    let (text, document) = status(6);
    assert!(text.contains("nothing is running here"), "{text}");
    assert_eq!(document, json!({"running": false, "holder": null, "silent_seconds": null, "run": null}));

    env.script(&waiting());
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "1"]);
    running.wait_mark(1, "waiting");
    let (text, document) = status(0);
    let id = document["holder"]["run_id"].as_str().unwrap().to_owned();
    assert!(text.starts_with(&format!("running: {id} since ")), "{text}");
    assert!(text.contains("\nnow: session 1, since ") && text.contains(", last output "), "{text}");
    assert_eq!((&document["running"], &document["holder"]["pid"]), (&json!(true), &json!(running.pid())));
    assert_eq!((&document["run"]["run_id"], &document["run"]["exit_code"]), (&json!(id), &Value::Null));
    assert_eq!(document["run"]["sessions"].as_array().map(Vec::len), Some(1));

    env.release("go");
    finish(&env, running, 0, &Expect::default());
    let (text, document) = status(6);
    assert!(text.contains("nothing is running here") && text.contains("max-sessions-reached"), "{text}");
    assert_eq!((&document["running"], &document["run"]["exit_code"]), (&json!(false), &json!(0)));
}

#[test]
fn the_machine_is_kept_awake_while_a_run_goes_on() {
    let env = TestEnv::new();
    // Like the real one: it runs what it is given, and holds the wish meanwhile.
    env.tool(
        "systemd-inhibit",
        "echo \"$@\" > \"$HOME/asked\"; : > \"$HOME/held\"; shift 4; \"$@\"; rm \"$HOME/held\"; : > \"$HOME/released\"",
    );
    env.script(&waiting());
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "1"]);
    running.wait_mark(1, "waiting");
    let home = env.home();
    running.wait_for("the wish is held", |_| home.join("held").exists().then_some(()));
    env.release("go");
    finish(&env, running, 0, &Expect::default());
    assert!(home.join("released").exists() && !home.join("held").exists());
    let asked = std::fs::read_to_string(home.join("asked")).unwrap();
    assert!(asked.starts_with("--what=sleep:idle --who=autopilot --why="), "{asked}");
    std::fs::remove_file(home.join("asked")).unwrap();
    env.release("go");
    run(&env, &["--prompt", "x", "--max-sessions", "1", "--no-inhibit"], 0);
    assert!(!home.join("asked").exists());
}

#[test]
fn a_machine_that_may_not_be_kept_awake_is_worked_on_all_the_same() {
    let env = TestEnv::new();
    env.tool("systemd-inhibit", "echo 'Failed to inhibit: Access denied' >&2; exit 1");
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
}
