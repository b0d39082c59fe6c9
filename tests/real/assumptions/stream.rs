//! The stream of a turn (claude-code §2 and §5).

use serde_json::{Value, json};

use crate::stub::Reply;
use crate::support::{Night, STEP, Turn};

/// The types and subtypes of the lines, in order.
fn kinds(lines: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    lines.iter().map(|line| [text(&line["type"]), text(&line["subtype"])].join("/")).collect()
}

#[test]
fn initialize_is_answered_before_the_turn_begins() {
    let night = Night::new();
    night.stub.next(Reply::text("All done"));
    let mut turn = Turn::start(&night, &[]);
    let (after, answer) = turn.initialize();
    println!("initialize answered after {after:?}");
    assert_eq!(answer["response"]["subtype"], "success");
    assert!(night.stub.requests().is_empty(), "initialize alone asks the model nothing");

    turn.prompt("Do it");
    let result = turn.result();
    let lines = turn.lines();
    assert_eq!(
        kinds(&lines),
        ["control_response/", "system/init", "assistant/", "control_request/", "result/success"]
    );
    let init = &lines[1];
    assert_eq!(init["claude_code_version"], include_str!("../cli-version").trim());
    assert_eq!(init["cwd"], night.repo().display().to_string());
    assert_eq!(init["session_id"], result["session_id"]);
    assert_eq!(init["apiKeySource"], "ANTHROPIC_API_KEY");
    assert_eq!(result["is_error"], false);
    assert_eq!(result["terminal_reason"], "completed");
    assert_eq!(result["result"], "All done");
    let request = &night.stub.requests()[0];
    assert!(request.last_user_text().ends_with("Do it"), "{}", request.last_user_text());
    assert_eq!(Some(request.model()), init["model"].as_str());
}

#[test]
fn one_process_takes_a_second_prompt_and_ends_when_stdin_closes() {
    let night = Night::new();
    night.stub.next(Reply::text("First")).next(Reply::text("Second"));
    let mut turn = Turn::start(&night, &[]);
    turn.initialize();
    for (index, text) in ["First", "Second"].into_iter().enumerate() {
        turn.prompt("Go on");
        let result = turn.result();
        assert_eq!(result["result"], text);
        assert_eq!(result["result_index"], index);
    }
    let inits = turn.lines().iter().filter(|line| line["subtype"] == "init").count();
    assert_eq!(inits, 2, "init is repeated on every turn");
    assert!(turn.program.is_running(), "with stdin open it waits for the next prompt");
    assert_eq!(turn.close(), Some(0));
}

#[test]
fn stdin_may_close_before_the_result() {
    let night = Night::new();
    night.stub.next(Reply::text("All done"));
    let mut turn = Turn::start(&night, &[]);
    turn.initialize();
    turn.prompt("Do it");
    turn.program.close_stdin();
    assert_eq!(turn.result()["result"], "All done");
    assert_eq!(turn.program.wait(STEP).code(), Some(0));
}

/// The fall-back for a CLI that does not answer `initialize`.
#[test]
fn a_prompt_on_a_plain_stdin_gives_the_same_stream() {
    let night = Night::new();
    night.stub.next(Reply::text("All done"));
    let mut program = night.claude(&["-p", "--verbose", "--output-format", "stream-json"]);
    program.write_line("Do it");
    program.close_stdin();
    assert_eq!(program.wait(STEP).code(), Some(0));
    let lines: Vec<Value> =
        program.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(kinds(&lines), ["system/init", "assistant/", "result/success"]);
}

#[test]
fn a_plan_with_a_subscription_reports_its_window() {
    let mut night = Night::new();
    night.subscription();
    let reply = Reply::text("All done")
        .header("anthropic-ratelimit-unified-status", "allowed_warning")
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
        .header("anthropic-ratelimit-unified-reset", "4102444800")
        .header("anthropic-ratelimit-unified-5h-status", "allowed_warning")
        .header("anthropic-ratelimit-unified-5h-utilization", "0.93")
        .header("anthropic-ratelimit-unified-5h-reset", "4102444800");
    night.stub.next(reply);
    let mut turn = Turn::start(&night, &[]);
    turn.initialize();
    turn.prompt("Do it");
    let info = turn.next("rate_limit_event")["rate_limit_info"].take();
    assert_eq!(info["status"], "allowed_warning");
    assert_eq!(info["rateLimitType"], "five_hour");
    assert_eq!(info["resetsAt"], 4_102_444_800_i64);
    assert_eq!(info["utilization"], json!(0.93));
    assert_eq!(turn.result()["is_error"], false);
    assert_eq!(night.stub.requests()[0].header("x-api-key"), None);
}

/// A prompt that the CLI answers by itself looks like a success: only `num_turns` tells that nothing was worked on.
#[test]
fn a_local_command_is_a_success_of_no_turns() {
    let night = Night::new();
    night.stub.always(Reply::text("Fine"));
    let mut turn = Turn::start(&night, &[]);
    turn.initialize();
    turn.prompt("Do it");
    assert_eq!(turn.result()["num_turns"], 1);
    for (prompt, command) in [("/session feature", Value::Null), ("/compact", json!("compact"))] {
        turn.prompt(prompt);
        let result = turn.result();
        assert_eq!(result["subtype"], "success", "{prompt}");
        assert_eq!(result["is_error"], false, "{prompt}");
        assert_eq!(result["num_turns"], 0, "{prompt}");
        assert_eq!(result["local_command"], command, "{prompt}");
        assert_eq!(result["terminal_reason"], Value::Null, "{prompt}");
    }
    let lines = turn.lines();
    let boundary = lines.iter().find(|line| line["subtype"] == "compact_boundary").unwrap();
    assert_eq!(boundary["compact_metadata"]["trigger"], "manual");
    turn.prompt("Go on");
    assert_eq!(turn.result()["num_turns"], 1);
}
