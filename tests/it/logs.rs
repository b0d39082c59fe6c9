//! `autopilot logs`: what sessions said and did, after a run and while it goes on.

use serde_json::Value;

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::Finished;
use crate::support::story::{PARTIAL, finish, prints, run, run_as, says};

const TALK: &str = r#"init
text "I look around first.\n\nThen I write."
tool_start Bash {"command":"cargo test --workspace"}
tool_end "2 tests failed" error
emit {"type":"assistant","session_id":"{session}","parent_tool_use_id":null,"message":{"id":"m9","model":"claude-opus-4-8","content":[{"type":"tool_use","id":"toolu_agent","name":"Task","input":{"description":"Read the docs","subagent_type":"Explore"}}]}}
emit {"type":"assistant","session_id":"{session}","parent_tool_use_id":"toolu_agent","message":{"id":"m10","model":"claude-haiku-4-5","content":[{"type":"text","text":"The docs say \u001b[2Jnothing."}]}}
"#;

#[track_caller]
fn logs(env: &TestEnv, args: &[&str], code: i32) -> Finished {
    let told = env.autopilot(&[&["logs"], args].concat());
    assert_eq!(told.code(), Some(code), "{told}");
    told
}

fn talk() -> String {
    format!("{TALK}{PARTIAL}").replace("turn \"Did a part.\"", "text \"Did a part.\"\nresult")
}

#[test]
fn a_run_that_is_over_is_told_in_its_order() {
    let env = TestEnv::new();
    env.script(&talk());
    run_as(
        &env,
        &["--prompt", "x", "--max-sessions", "2"],
        0,
        &Expect { any_cost: true, ..Expect::default() },
    );
    let told = logs(&env, &[], 0);
    prints(
        &told,
        &[
            "session 1 of 2 starts: feature",
            "Claude Code ",
            "\n          • I look around first.\n",
            "\n            Then I write.\n",
            "          → Bash: cargo test --workspace\n",
            "          ! failed: 2 tests failed\n",
            "          → Task: Explore: Read the docs\n",
            "              • The docs say nothing.\n",
            "• Did a part.",
            "session 1 of 2 ended: partial",
            "session 2 of 2 starts",
            "• I look around first.",
            "session 2 of 2 ended",
        ],
    );
    assert!(!told.stdout.contains('\u{1b}') && told.stderr.is_empty(), "{told}");
    // Following what is over ends at once.
    assert_eq!(logs(&env, &["-f"], 0).stdout, told.stdout);
    let second = logs(&env, &["--session", "2"], 0);
    prints(&second, &["session 2 of 2 starts", "I look around first", "session 2 of 2 ended"]);
    assert!(!second.stdout.contains("session 1 of 2"), "{second}");

    let lines: Vec<Value> =
        logs(&env, &["--json"], 0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["event"]["type"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"run_started"), Some(&"run_ended")));
    let tool = lines.iter().find(|line| line["event"]["type"] == "tool_used").unwrap();
    assert_eq!(
        (&tool["seq"], &tool["attempt"], &tool["event"]["name"]),
        (&Value::Null, &1.into(), &"Bash".into())
    );
    let journaled = lines.iter().filter(|line| line["seq"].is_u64()).count();
    assert_eq!(journaled, env.events().len());
}

#[test]
fn a_run_under_way_is_followed_to_its_end() {
    let env = TestEnv::new();
    env.script(&format!("{TALK}wait_file go\n{}", PARTIAL.replace("turn", "text \"Did a part.\"\nresult")));
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "1"]);
    running.wait_mark(1, "waiting");
    // Without -f it says how far the run is, and that it goes on.
    let so_far = logs(&env, &[], 0);
    prints(&so_far, &["session 1 of 1 starts", "I look around first"]);
    says(&so_far, &["goes on; `autopilot logs -f` follows it"]);
    let mut follower = env.start(&["logs", "--follow"]);
    follower.wait_for("the follower has the text", |env| {
        let out = std::fs::read_dir(env.root().join("out")).unwrap();
        out.filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|e| e == "stdout"))
            .filter(|entry| std::fs::read_to_string(entry.path()).is_ok_and(|t| t.contains("I look around")))
            .nth(1)
            .map(drop)
    });
    env.release("go");
    finish(&env, running, 0, &Expect { any_cost: true, ..Expect::default() });
    let told = follower.finish();
    assert_eq!(told.code(), Some(0), "{told}");
    prints(&told, &["I look around first", "The docs say nothing.", "• Did a part.", "session 1 of 1 ended"]);
    assert_eq!(told.stdout.matches("I look around first").count(), 1, "{told}");
}

#[test]
fn the_follower_of_a_run_that_dies_ends_and_says_so() {
    let env = TestEnv::new();
    env.script(&format!("{TALK}hang"));
    let mut running = env.start(&["--prompt", "x"]);
    running.wait_mark(1, "hang");
    let follower = env.start(&["logs", "-f"]);
    running.signal(rustix::process::Signal::KILL);
    let told = follower.finish();
    assert_eq!(told.code(), Some(0), "{told}");
    prints(&told, &["session 1 of 5 starts", "I look around first"]);
    says(&told, &["died without a word", "autopilot resume"]);
    drop(running);
    // Without -f the same.
    let told = logs(&env, &[], 0);
    prints(&told, &["I look around first", "The docs say nothing."]);
    says(&told, &["died without a word"]);
    env.script("turn");
    run(&env, &["--prompt", "y", "--max-sessions", "1"], 0);
}

#[test]
fn no_run_no_log() {
    let env = TestEnv::new();
    says(&logs(&env, &[], 2), &["there has been no run here"]);
    says(&logs(&env, &["-f"], 2), &["there has been no run here"]);
}
