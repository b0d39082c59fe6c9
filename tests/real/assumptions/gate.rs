//! Deciding on tool calls over the control protocol (claude-code §5).

use serde_json::{Value, json};

use crate::stub::Reply;
use crate::support::{Night, STEP, Turn};

fn decision(decision: &str) -> Value {
    json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": decision,
        "permissionDecisionReason": "a reason of the test",
    }})
}

/// The file that the command of these tests makes.
const FILE: &str = "made";

/// Lets the model ask for one command, answers the callback, and gives the result line.
fn judged(night: &Night, arguments: &[&str], answer: &Value) -> Value {
    night.stub.next(Reply::bash(&format!("touch {FILE}"))).next(Reply::text("All done"));
    let mut turn = Turn::start(night, arguments);
    turn.initialize();
    turn.prompt("Do it");
    let input = turn.answer_hook("pre", answer);
    assert_eq!(input["hook_event_name"], "PreToolUse");
    assert_eq!(input["tool_name"], "Bash");
    assert_eq!(input["tool_input"]["command"], format!("touch {FILE}"));
    assert_eq!(input["agent_id"], Value::Null, "this is the main thread");
    let result = turn.result();
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["is_error"], false, "a denied call does not make the run an error");
    result
}

#[test]
fn an_empty_answer_leaves_the_rules_in_force() {
    let night = Night::new();
    let result = judged(&night, &[], &json!({}));
    assert_eq!(night.read(FILE), None);
    assert_eq!(result["permission_denials"][0]["tool_name"], "Bash");

    let night = Night::new();
    let result = judged(&night, &["--allowed-tools", "Bash"], &json!({}));
    assert_eq!(night.read(FILE).as_deref(), Some(""));
    assert_eq!(result["permission_denials"], json!([]));
}

#[test]
fn deny_blocks_what_the_rules_allow_and_tells_the_model_why() {
    let night = Night::new();
    judged(&night, &["--allowed-tools", "Bash"], &decision("deny"));
    assert_eq!(night.read(FILE), None);
    let results = night.stub.requests()[1].tool_results();
    let [(text, is_error)] = &results[..] else { panic!("one tool result, not {results:?}") };
    assert!(text.contains("a reason of the test"), "{text}");
    assert!(is_error);
}

#[test]
fn allow_overrides_a_permission_prompt() {
    let night = Night::new();
    let result = judged(&night, &[], &decision("allow"));
    assert_eq!(night.read(FILE).as_deref(), Some(""));
    assert_eq!(result["permission_denials"], json!([]));
}

#[test]
fn what_would_ask_a_person_asks_the_driver() {
    for (answer, made) in [
        (json!({"behavior": "allow", "updatedInput": {"command": format!("touch {FILE}")}}), true),
        (json!({"behavior": "deny", "message": "not that"}), false),
    ] {
        let night = Night::new();
        night.stub.next(Reply::bash(&format!("touch {FILE}"))).next(Reply::text("All done"));
        let mut turn = Turn::start(&night, &["--permission-prompt-tool", "stdio"]);
        turn.initialize();
        turn.prompt("Do it");
        turn.answer_hook("pre", &json!({}));
        let (_, line) = turn.next_where("question", |line| line["request"]["subtype"] == "can_use_tool");
        assert_eq!(line["request"]["tool_name"], "Bash");
        assert_eq!(line["request"]["input"]["command"], format!("touch {FILE}"));
        turn.respond(&line["request_id"], &answer);
        assert_eq!(turn.result()["is_error"], false);
        assert_eq!(night.read(FILE).is_some(), made, "{answer}");
    }
}

/// A driver that dies lets nothing through.
#[test]
fn a_call_is_not_run_when_stdin_closes_before_the_answer() {
    let night = Night::new();
    night.stub.next(Reply::bash(&format!("touch {FILE}"))).next(Reply::text("All done"));
    let mut turn = Turn::start(&night, &["--allowed-tools", "Bash"]);
    turn.initialize();
    turn.prompt("Do it");
    turn.next_where("callback", |line| line["request"]["callback_id"] == "pre");
    turn.program.close_stdin();
    assert_eq!(turn.program.wait(STEP).code(), Some(0));
    assert_eq!(night.read(FILE), None);
    assert!(night.stub.requests()[1].tool_results()[0].1, "the model is told of an error");
}

/// The CLI stops waiting after the `timeout` of the hook, in seconds (600 without one), and does not run the call.
#[test]
fn a_call_is_not_run_when_the_answer_does_not_come() {
    let night = Night::new();
    night.stub.next(Reply::bash(&format!("touch {FILE}"))).next(Reply::text("All done"));
    let mut turn = Turn::start(&night, &["--allowed-tools", "Bash"]);
    turn.initialize_with(&json!({
        "PreToolUse": [{"matcher": "*", "hookCallbackIds": ["pre"], "timeout": 1}],
    }));
    turn.prompt("Do it");
    let asked = turn.next_where("callback", |line| line["request"]["callback_id"] == "pre").1;
    let cancelled = turn.next("control_cancel_request");
    assert_eq!(cancelled["request_id"], asked["request_id"]);
    assert_eq!(turn.result()["is_error"], false);
    assert_eq!(night.read(FILE), None);
    assert!(night.stub.requests()[1].tool_results()[0].1, "the model is told of an error");
}

#[test]
fn the_end_of_a_turn_can_be_refused_once() {
    let night = Night::new();
    night.stub.next(Reply::text("Too early")).next(Reply::text("All done"));
    let mut turn = Turn::start(&night, &[]);
    turn.initialize();
    turn.prompt("Do it");
    let input = turn.answer_hook("stop", &json!({"decision": "block", "reason": "the tests were not run"}));
    assert_eq!(input["last_assistant_message"], "Too early");
    assert_eq!(input["background_tasks"], json!([]));
    assert_eq!(input["stop_hook_active"], false);
    let input = turn.answer_hook("stop", &json!({}));
    assert_eq!(input["stop_hook_active"], true);
    assert_eq!(turn.result()["result"], "All done");
    assert!(night.stub.requests()[1].last_user_text().contains("the tests were not run"));
}
