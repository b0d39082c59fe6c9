//! The ten reasons a loop stops, each provoked (design §3–4, upstream-formats §3).
//!
//! `user-abort` is in `operator`. Half an hour, the least `--max-hours` takes, is slept through in a moment by the
//! clock of test builds.

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::dump;
use crate::support::story::{HANG, PARTIAL, argument, events, finish, prompt, record_is, run, run_as, says};

/// A run of `args` ends by `switch`: exit code, record, the last check and what the person reads.
#[track_caller]
fn check(script: &str, args: &[&str], switch: &str, detail: &str, code: i32) -> TestEnv {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_TURN_BACKOFF", "0.01,0.01");
    env.script(script);
    let run = run(&env, &[&["--prompt", "x"], args].concat(), code);
    ended_by(&env, switch, detail, code);
    says(&run, &[switch, detail]);
    env
}

#[track_caller]
fn ended_by(env: &TestEnv, switch: &str, detail: &str, code: i32) {
    record_is(
        env,
        &[
            ("kill_switch", json!(switch)),
            ("kill_switch_detail", json!(detail)),
            ("exit_code", json!(code)),
            ("fallback_to_manual", json!(false)),
            ("dry_run", json!(false)),
        ],
    );
    let last = events(env, "switches_checked").pop().expect("a check");
    assert_eq!((&last["hit"], &last["detail"]), (&json!(switch), &json!(detail)), "{}", dump(env));
    let ended = events(env, "run_ended").pop().expect("an end");
    assert_eq!((&ended["kill_switch"], &ended["exit_code"]), (&json!(switch), &json!(code)));
}

fn with_summary(summary: &Value) -> String {
    format!("report {}\nturn", json!({"status": "partial", "agent_summary": summary}))
}

fn with_effectiveness(planned: u32, carryover: u32) -> String {
    let effectiveness =
        json!({"planned_issues": planned, "completed": 0, "carryover": carryover, "emergent": 0});
    format!("report {}\nturn", json!({"status": "partial", "effectiveness": effectiveness}))
}

#[test]
fn max_sessions_reached() {
    let detail = "iterations_completed=2 >= max-sessions=2";
    let env = check(PARTIAL, &["--max-sessions", "2"], "max-sessions-reached", detail, 0);
    record_is(&env, &[("iterations_completed", json!(2)), ("outcome", json!("planned"))]);
}

#[test]
fn token_budget_exceeded() {
    let script = format!("spend {{\"output\":40}}\n{PARTIAL}");
    let detail = "cumulative_tokens=80 >= max-tokens=80";
    let env = check(&script, &["--max-tokens", "80"], "token-budget-exceeded", detail, 0);
    record_is(
        &env,
        &[
            ("iterations_completed", json!(2)),
            ("total_tokens_used", json!(80)),
            ("outcome", json!("planned")),
        ],
    );
    // Every session is told what is left.
    assert!(prompt(&env, 2).contains("40 output tokens"), "{}", prompt(&env, 2));
    // 0 is off.
    let env = TestEnv::new();
    env.script(&script);
    run(&env, &["--prompt", "x", "--max-tokens", "0", "--max-sessions", "3"], 0);
    record_is(&env, &[("kill_switch", json!("max-sessions-reached"))]);
}

#[test]
fn cost_budget_exceeded() {
    let script = format!("spend {{\"cost\":0.25}}\n{PARTIAL}");
    let detail = "cumulative_cost_usd=0.5 >= max-cost=0.4";
    let env = check(&script, &["--max-cost", "0.4"], "token-budget-exceeded", detail, 0);
    record_is(&env, &[("cost_usd", json!(0.5)), ("outcome", json!("planned"))]);
    let budgets: Vec<f64> =
        (1..=2).map(|call| argument(&env, call, "--max-budget-usd").unwrap().parse().unwrap()).collect();
    assert!((budgets[0] - 0.4).abs() < 1e-9 && (budgets[1] - 0.15).abs() < 1e-9, "{budgets:?}");
}

#[test]
fn stall_timeout() {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_TURN_BACKOFF", "0.01");
    env.script(HANG);
    let args = ["--prompt", "x", "--stall-timeout", "5", "--max-sessions", "3"];
    let run = run_as(&env, &args, 12, &Expect { any_cost: true, ..Expect::default() });
    assert_eq!(env.calls().len(), 2, "one recovery, in the same conversation: {}", dump(&env));
    assert_eq!(argument(&env, 2, "--resume"), env.calls()[0]["session_id"].as_str().map(str::to_owned));
    let detail = env.last_run()["kill_switch_detail"].as_str().unwrap().to_owned();
    let seconds: u32 = detail
        .strip_prefix("stalled ")
        .and_then(|rest| rest.strip_suffix("s ≥ threshold 5s (marker=stream)"))
        .unwrap_or_else(|| panic!("{detail}"))
        .parse()
        .unwrap();
    assert!((5..30).contains(&seconds), "{detail}");
    ended_by(&env, "stall-timeout", &detail, 12);
    record_is(
        &env,
        &[
            ("iterations_completed", json!(1)),
            ("stall_recovery_count", json!(2)),
            ("outcome", json!("stall-timeout")),
            ("failure_class", json!("stalled")),
        ],
    );
    assert_eq!(env.last_run()["heals"].as_array().map(Vec::len), Some(1));
    says(&run, &["stall-timeout", "Next", "autopilot resume"]);
}

#[test]
fn a_tool_that_makes_progress_is_no_stall() {
    let env = TestEnv::new();
    env.script("init\ntool_start Bash {\"command\":\"make\"}\nbusy 7000\ntool_end \"built\"\nturn");
    run(&env, &["--prompt", "x", "--stall-timeout", "5"], 0);
    record_is(&env, &[("heals", json!([])), ("iterations_completed", json!(1))]);
}

#[test]
fn spiral() {
    let script = with_summary(&json!({"complete": 3, "partial": 0, "failed": 0, "spiral": 2}));
    let env = check(&script, &[], "spiral", "agent_summary.spiral=2 > 0", 13);
    record_is(&env, &[("iterations_completed", json!(1)), ("failure_class", Value::Null)]);
    assert_eq!(env.sessions()[0]["agent_summary"]["spiral"], 2);
}

#[test]
fn failed_wave_by_report() {
    let script = with_summary(&json!({"complete": 3, "partial": 0, "failed": 1, "spiral": 0}));
    let env = check(&script, &[], "failed-wave", "agent_summary.failed=1 > 0", 14);
    record_is(&env, &[("iterations_completed", json!(1)), ("failure_class", Value::Null)]);
    assert_eq!(env.calls().len(), 1);
}

#[test]
fn failed_wave_by_verification() {
    let args = ["--verify", "false"];
    let env = check(PARTIAL, &args, "failed-wave", "--verify failed: exit code 1", 14);
    record_is(&env, &[("iterations_completed", json!(1)), ("outcome", json!("failed-wave"))]);
}

#[test]
fn failed_wave_by_a_crash_that_recovery_does_not_heal() {
    let script = "init\nstderr \"Segmentation fault in libfoo\"\nexit 7";
    let detail = "session failed (unknown_error): Segmentation fault in libfoo; exit code 7; 2 recoveries did not help";
    let env = check(script, &[], "failed-wave", detail, 14);
    assert_eq!(env.calls().len(), 3, "two recoveries");
    record_is(&env, &[("iterations_completed", json!(0)), ("failure_class", json!("unknown_error"))]);
    assert_eq!(env.last_run()["heals"].as_array().map(Vec::len), Some(2));
    assert_eq!(env.sessions()[0]["status"], "abandoned");
}

#[test]
fn a_crash_that_a_heal_of_the_run_gets_over() {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_TURN_BACKOFF", "0.01,0.01");
    env.set("AUTOPILOT_HEAL_BACKOFF", "0.02,0.03,0.04");
    env.script(&format!("nth_call 1 {{\ninit\nexit 7\n}}\nnth_call 8 {{\n{PARTIAL}\n}}"));
    let args = ["--prompt", "x", "--max-sessions", "1"];
    let run = run_as(&env, &args, 0, &Expect { any_cost: true, ..Expect::default() });
    assert_eq!(env.calls().len(), 8, "{}", dump(&env));
    let heals: Vec<Value> = events(&env, "healed").iter().map(|heal| heal["run_heal"].clone()).collect();
    // The first heal meets the fourth failure in a row, which leaves the conversation; the new one has its own
    // two recoveries.
    assert_eq!(heals, [Value::Null, Value::Null, 1.into(), Value::Null, Value::Null, Value::Null, 2.into()]);
    assert_eq!(events(&env, "conversation_left").len(), 1);
    assert_eq!(env.sessions().len(), 1, "one session, one record");
    says(&run, &["run heal 1 of 3", "run heal 2 of 3"]);
}

#[test]
fn carryover_too_high() {
    let detail = "carryover/planned=0.67 > threshold=0.5 (carryover=2, planned=3)";
    let env = check(&with_effectiveness(3, 2), &[], "carryover-too-high", detail, 15);
    record_is(&env, &[("iterations_completed", json!(1)), ("outcome", json!("carryover-too-high"))]);
    let detail = "carryover/planned=0.25 > threshold=0.2 (carryover=1, planned=4)";
    let args = ["--carryover-threshold", "0.2"];
    check(&with_effectiveness(4, 1), &args, "carryover-too-high", detail, 15);
    // Strictly more than the threshold; nothing planned proves nothing.
    for (planned, carryover) in [(4, 2), (0, 3)] {
        let detail = "iterations_completed=1 >= max-sessions=1";
        let script = with_effectiveness(planned, carryover);
        check(&script, &["--max-sessions", "1"], "max-sessions-reached", detail, 0);
    }
}

#[test]
fn the_first_that_fires_counts() {
    let both = json!({"status": "partial",
        "agent_summary": {"complete": 0, "partial": 0, "failed": 1, "spiral": 1},
        "effectiveness": {"planned_issues": 1, "completed": 0, "carryover": 1, "emergent": 0}});
    let args = ["--verify", "false", "--max-sessions", "1", "--max-tokens", "1"];
    check(&format!("report {both}\nturn"), &args, "spiral", "agent_summary.spiral=1 > 0", 13);
    let tokens_too = "iterations_completed=1 >= max-sessions=1";
    check(PARTIAL, &["--max-sessions", "1", "--max-tokens", "1"], "max-sessions-reached", tokens_too, 0);
}

#[test]
fn nothing_to_go_by_is_a_fallback_and_no_switch() {
    let env = TestEnv::new();
    let run = run(&env, &[], 3);
    assert_eq!(env.calls(), [Value::Null; 0]);
    record_is(
        &env,
        &[
            ("kill_switch", Value::Null),
            ("kill_switch_detail", json!("iteration 1: confidence=0 < threshold=0.85 — fallback to manual")),
            ("fallback_to_manual", json!(true)),
            ("iterations_completed", json!(0)),
            ("sessions", json!([])),
            ("outcome", json!("manual-fallback")),
        ],
    );
    says(&run, &["not sure enough", "Next", "autopilot --prompt", "autopilot --mode"]);
    // A mode that is named is certain enough for any threshold.
    super::kill_switches::run(&env, &["--mode", "deep", "--confidence-threshold", "1"], 0);
    assert_eq!(env.sessions()[0]["session_type"], "deep");
}

/// Peers are looked for in the whole `/proc`, so real ones would stop other runs on the machine too. These are `sleep`s
/// whose command line reads as that of `claude`, and only in the mount namespace of this run.
#[cfg(target_os = "linux")]
#[test]
fn resource_overload() {
    let in_namespace = |env: &TestEnv, args: &[&str], code: i32| {
        let script = "for n in 1 2 3 4 5 6 7; do
                (cd / && exec sleep 300) & peers=\"$peers $!\"; /usr/bin/mount --bind \"$TMPDIR/cmdline\" /proc/$!/cmdline || exit 99
            done
            \"$@\"; code=$?; kill $peers; exit $code";
        let mut command = env.command("/usr/bin/unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command.arg(env!("CARGO_BIN_EXE_autopilot"));
        finish(env, env.start_command(command, args), code, &Expect::default())
    };
    let env = TestEnv::new();
    std::fs::write(env.root().join("tmp/cmdline"), "claude\0-p\0").unwrap();
    let run = in_namespace(&env, &["--prompt", "x", "--peer-abort", "6"], 11);
    ended_by(&env, "resource-overload", "verdict=critical peers=7 > threshold=6", 11);
    assert_eq!(env.calls(), [Value::Null; 0]);
    record_is(
        &env,
        &[
            ("iterations_completed", json!(0)),
            ("resource_verdict_at_start", json!("critical")),
            ("outcome", json!("resource-overload")),
        ],
    );
    says(&run, &["critical", "resource-overload", "close other Claude sessions"]);

    // Critical alone does not stop: the session works without sub-agents.
    in_namespace(&env, &["--prompt", "x", "--peer-abort", "7"], 0);
    assert_eq!(events(&env, "session_started")[0]["cap"], 0);
    assert!(prompt(&env, 1).contains("Work without sub-agents"), "{}", prompt(&env, 1));
}

#[test]
fn max_hours_exceeded() {
    // The machine sleeps for 31 minutes in the middle of the session: that time counts.
    let mut env = TestEnv::new();
    let asleep = env.root().join("asleep");
    env.set("TEST_ASLEEP_FILE", &asleep.to_string_lossy());
    let rest = PARTIAL.replace("turn", "text");
    env.script(&format!("init\nwait_file go\n{rest}\nresult"));
    let mut running = env.start(&["--prompt", "x", "--max-hours", "0.5"]);
    running.wait_mark(1, "waiting");
    std::fs::write(&asleep, "1860").expect("a file outside of the repository");
    env.release("go");
    let run = finish(&env, running, 0, &Expect { any_cost: true, ..Expect::default() });
    let detail = "elapsed=0.52h >= max-hours=0.5h";
    ended_by(&env, "max-hours-exceeded", detail, 0);
    says(&run, &["max-hours-exceeded", detail, "autopilot resume"]);
    record_is(&env, &[("iterations_completed", json!(1))]);
    assert_eq!(env.calls().len(), 1);
    assert!(events(&env, "suspended")[0]["asleep_seconds"].as_f64() >= Some(1859.0));
}

#[test]
fn low_confidence_fallback() {
    // The session that was cut off goes on; what should come after it nobody has said.
    let env = TestEnv::new();
    env.script(HANG);
    let mut running = env.start(&["--mode", "feature"]);
    running.wait_mark(1, "hang");
    running.signal(rustix::process::Signal::TERM);
    finish(&env, running, 143, &Expect { any_cost: true, ..Expect::default() });
    env.script(PARTIAL);
    let run =
        run_as(&env, &["resume", "--mode", "auto"], 10, &Expect { any_cost: true, ..Expect::default() });
    let detail = "iteration 2: confidence=0.55 < threshold=0.85";
    says(&run, &["goes on with the session that was cut off", "low-confidence-fallback", detail]);
    record_is(
        &env,
        &[
            ("kill_switch", json!("low-confidence-fallback")),
            ("kill_switch_detail", json!(detail)),
            ("exit_code", json!(10)),
            ("fallback_to_manual", json!(false)),
            ("iterations_completed", json!(1)),
        ],
    );
    let chosen = events(&env, "mode_selected").pop().expect("a choice");
    assert_eq!((&chosen["iteration"], &chosen["confidence"]), (&json!(2), &json!(0.55)));
    assert_eq!(env.calls().len(), 2);
}
