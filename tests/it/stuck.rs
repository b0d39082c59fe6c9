//! Turns that go round in circles (design §6, recovery §10.3–10.4): every step against them, and what is stronger.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::{Finished, dump};
use crate::support::story::{argument, events, finish, prompt, record_is, run, run_as, says};

/// The same failing command again and again, until somebody ends it.
const CIRCLE: &str = "init\nrepeat 5 {\ntool Bash {\"command\":\"make world\"} \"No rule to make target 'world'\" error\n}\nhang";
/// What the CLI says of `/compact` (claude-code §3).
const COMPACTED: &str = "init\nresult {\"num_turns\":0,\"local_command\":\"compact\",\"result\":\"\"}";
const WHY: &str = "`Bash: make world` failed 5 times in a row in the same way";

/// Each call of the double has its own script; the last one is that of all further calls.
fn script(calls: &[&str]) -> String {
    let blocks = calls.iter().enumerate().map(|(at, steps)| format!("nth_call {} {{\n{steps}\n}}", at + 1));
    blocks.collect::<Vec<_>>().join("\n")
}

fn circling(calls: &[&str], code: i32) -> (TestEnv, Finished) {
    let env = TestEnv::new();
    env.script(&script(calls));
    let run = run(&env, &["--prompt", "Build the world", "--max-sessions", "1"], code);
    (env, run)
}

/// The actions against circles, as the run's events have them.
fn steps(env: &TestEnv) -> Vec<String> {
    let healed = events(env, "healed");
    healed
        .iter()
        .map(|heal| {
            assert_eq!(heal["class"], "stuck", "{heal}");
            assert!(heal["why"].as_str().unwrap().contains("make world"), "{heal}");
            heal["action"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn purposes(env: &TestEnv) -> Vec<Value> {
    events(env, "turn_started").iter().map(|turn| turn["purpose"].clone()).collect()
}

/// The conversation of each call of the double.
fn conversations(env: &TestEnv) -> Vec<String> {
    let of = |call| {
        argument(env, call, "--resume").or_else(|| argument(env, call, "--session-id")).expect("an id")
    };
    (1..=env.calls().len()).map(of).collect()
}

#[test]
fn a_different_prompt_follows_in_the_same_conversation() {
    let (env, run) = circling(&[CIRCLE, "turn"], 0);
    record_is(&env, &[("kill_switch", json!("max-sessions-reached")), ("iterations_completed", json!(1))]);
    assert_eq!(steps(&env), ["interrupted, then a different prompt"]);
    assert!(env.has_mark(1, "interrupted"), "{}", dump(&env));
    assert_eq!(events(&env, "attempt_ended")[0]["signals"], json!([]), "asked over the control protocol");
    let ids = conversations(&env);
    assert_eq!((ids.len(), &ids[0]), (2, &ids[1]));
    let said = prompt(&env, 2);
    for words in ["going round in circles", WHY, "Already tried", "No rule to make target 'world'"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("Build the world"), "the instruction is known: {said}");
    says(&run, &["heal 1 for stuck", WHY]);
    assert_eq!(env.last_run()["heals"][0]["class"], "stuck");
}

#[test]
fn the_second_step_is_compaction() {
    let (env, _) = circling(&[CIRCLE, CIRCLE, COMPACTED, "turn"], 0);
    assert_eq!(purposes(&env), ["work", "nudge", "compact", "nudge"]);
    assert_eq!(prompt(&env, 3), "/compact");
    assert!(prompt(&env, 4).contains(WHY), "{}", prompt(&env, 4));
    let mut ids = conversations(&env);
    ids.dedup();
    assert_eq!(ids.len(), 1);
    // Nobody asks a compaction for a session report.
    assert_eq!(events(&env, "report_received").len(), 1, "{}", dump(&env));
    record_is(&env, &[("kill_switch", json!("max-sessions-reached"))]);
}

#[test]
fn the_third_step_is_a_fresh_conversation() {
    let (env, _) = circling(&[CIRCLE, CIRCLE, COMPACTED, CIRCLE, "turn"], 0);
    assert_eq!(steps(&env).last().unwrap(), "fresh conversation with hand-over");
    let ids = conversations(&env);
    assert!(ids[3] != ids[4] && argument(&env, 5, "--session-id").is_some(), "{ids:?}");
    let said = prompt(&env, 5);
    for words in ["You take over from a session that was lost", WHY, "Build the world", "Do not repeat"] {
        assert!(said.contains(words), "{said}");
    }
    record_is(&env, &[("kill_switch", json!("max-sessions-reached"))]);
}

#[test]
fn the_last_step_tells_the_human() {
    let (env, run) = circling(&[CIRCLE, CIRCLE, COMPACTED, CIRCLE], 13);
    let detail = format!(
        "went round in circles: {WHY}; 3 steps against it did not help; Bash: make world → failed: No rule to make target 'world'"
    );
    record_is(
        &env,
        &[
            ("kill_switch", json!("spiral")),
            ("kill_switch_detail", json!(detail)),
            ("failure_class", json!("stuck")),
            ("iterations_completed", json!(1)),
        ],
    );
    assert_eq!(env.sessions()[0]["agent_summary"]["spiral"], 1, "{}", env.sessions()[0]);
    assert_eq!(env.calls().len(), 5);
    says(&run, &["spiral", WHY]);
}

#[test]
fn something_done_in_between_starts_with_the_first_step_again() {
    let works = format!(
        "init\ntool Write {{\"file_path\":\"a\",\"content\":\"{{call}}\"}}\n{}",
        CIRCLE.trim_start_matches("init\n")
    );
    let (env, _) = circling(&[CIRCLE, &works, &works, "turn"], 0);
    assert_eq!(purposes(&env), ["work", "nudge", "nudge", "nudge"]);
    assert_eq!(steps(&env), ["interrupted, then a different prompt"; 3]);
}

#[test]
fn refusals_are_a_circle() {
    let refused = "init\nrepeat 5 {\nask_permission Bash {\"command\":\"curl example.org\"}\n}\nhang";
    let env = TestEnv::new();
    env.script(&script(&[refused, "turn"]));
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    assert_eq!(purposes(&env), ["work", "nudge"]);
    assert!(prompt(&env, 2).contains("5 tool calls were denied"), "{}", prompt(&env, 2));
}

#[test]
fn a_cli_without_the_control_protocol_is_signalled() {
    let (env, _) = circling(&[&format!("plain\n{CIRCLE}"), &format!("plain\n{CIRCLE}"), "plain\nturn"], 0);
    // The first call is the handshake that nobody answers.
    assert_eq!(purposes(&env), ["work", "work", "nudge"]);
    assert_eq!(steps(&env), ["interrupted, then a different prompt"]);
}

#[test]
fn a_person_who_wants_to_stop_does_not_wait_for_the_steps() {
    let deaf = format!("trap_interrupt ignore\n{CIRCLE}");
    for calls in [vec![deaf.as_str()], vec![CIRCLE, deaf.as_str()], vec![CIRCLE, CIRCLE, "init\nhang"]] {
        let env = TestEnv::new();
        env.script(&script(&calls));
        let mut running = env.start(&["--prompt", "x", "--max-sessions", "3"]);
        running.wait_mark(calls.len() as u64, "hang");
        running.signal(Signal::TERM);
        let expect = Expect { within: Duration::from_secs(25), any_cost: true, ..Expect::default() };
        finish(&env, running, 143, &expect);
        record_is(&env, &[("kill_switch", json!("user-abort"))]);
        assert_eq!(env.calls().len(), calls.len(), "nothing is started after the signal");
    }
}

#[test]
fn it_can_be_switched_off() {
    let env = TestEnv::new();
    env.write(".autopilot.toml", "stuck-detection = \"off\"\n");
    env.script(&format!("{}\ntext \"Done.\"\nreport\nresult", CIRCLE.trim_end_matches("\nhang")));
    run_as(&env, &["--prompt", "x", "--max-sessions", "1"], 0, &Expect::default());
    assert_eq!((env.calls().len(), events(&env, "healed")), (1, Vec::new()));
}
