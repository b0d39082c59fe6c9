//! How a turn ends that the API fails, the rows of the table in claude-code §3.

use serde_json::{Value, json};

use crate::stub::Reply;
use crate::support::{Night, STEP, Turn};

/// What is read of a failed turn, in this order: the result's `terminal_reason`, `api_error_status`, `api_error_type`,
/// `api_error`, and the `error` class of the synthetic message.
type Seen = [Value; 5];

/// A turn that fails in the given way: what was seen, and the lines.
fn failed(night: &Night, reply: Reply) -> (Seen, Vec<Value>) {
    night.stub.always(reply);
    let mut turn = Turn::start(night, &[]);
    turn.initialize();
    turn.prompt("Do it");
    let result = turn.result();
    assert_eq!(result["subtype"], "success", "whatever failed");
    assert_eq!(result["is_error"], true);
    let lines = turn.lines();
    let synthetic = lines.iter().find(|line| line["message"]["model"] == "<synthetic>");
    let class = synthetic.expect("a failure is also a message")["error"].clone();
    assert_eq!(turn.close(), Some(1));
    let field = |name: &str| result[name].clone();
    let seen = [
        field("terminal_reason"),
        field("api_error_status"),
        field("api_error_type"),
        field("api_error"),
        class,
    ];
    (seen, lines)
}

fn check(reply: Reply, expected: &Value) -> Vec<Value> {
    let (seen, lines) = failed(&Night::new(), reply);
    assert_eq!(&json!(seen), expected);
    lines
}

fn retries(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["subtype"] == "api_retry").map(|line| &line["error"]).collect()
}

#[test]
fn account() {
    let key = check(
        Reply::error(401, "authentication_error", "invalid x-api-key"),
        &json!(["api_error", 401, "authentication_error", null, "authentication_failed"]),
    );
    assert_eq!(retries(&key), ["authentication_failed"], "a 401 is retried like anything else");
    check(
        Reply::error(403, "permission_error", "Your account does not have permission"),
        &json!(["api_error", 403, "permission_error", null, "authentication_failed"]),
    );
    check(
        Reply::error(400, "invalid_request_error", "Your credit balance is too low to access the API."),
        &json!(["api_error", 400, "invalid_request_error", null, "billing_error"]),
    );
    check(
        Reply::error(404, "not_found_error", "model: no-such-model"),
        &json!(["api_error", 404, "not_found_error", null, "model_not_found"]),
    );
}

#[test]
fn server() {
    check(
        Reply::error(429, "rate_limit_error", "slow down"),
        &json!(["api_error", 429, "rate_limit_error", null, "rate_limit"]),
    );
    check(
        Reply::error(500, "api_error", "Internal server error"),
        &json!(["api_error", 500, "api_error", null, "server_error"]),
    );
    let overloaded = check(
        Reply::error(529, "overloaded_error", "Overloaded").header("retry-after", "1"),
        &json!(["api_error", 529, "overloaded_error", null, "server_error"]),
    );
    assert_eq!(retries(&overloaded), ["overloaded"]);
}

#[test]
fn connection() {
    check(Reply::cut(), &json!(["api_error", null, null, "connection_failed", "server_error"]));
    // The CLI itself asks three times to go on where the stream broke off.
    let lines = check(
        Reply::stream_error("overloaded_error", "Overloaded"),
        &json!(["api_error", null, null, null, "server_error"]),
    );
    assert_eq!(lines.iter().filter(|line| line["isSynthetic"] == true).count(), 3);

    let mut night = Night::new();
    night.stub.refuse();
    let (seen, _) = failed(&night, Reply::text("nobody listens"));
    assert_eq!(json!(seen), json!(["api_error", null, null, "connection_failed", "server_error"]));
}

#[test]
fn history() {
    check(
        Reply::error(
            400,
            "invalid_request_error",
            "messages.3.content.0: `thinking` blocks cannot be modified.",
        ),
        &json!(["api_error", 400, "invalid_request_error", null, "unknown"]),
    );
    check(
        Reply::error(
            400,
            "invalid_request_error",
            "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.",
        ),
        &json!(["api_error", 400, "invalid_request_error", "tool_history_mismatch", "invalid_request"]),
    );
    check(
        Reply::error(400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
        &json!(["prompt_too_long", 400, "invalid_request_error", null, "invalid_request"]),
    );
    check(
        Reply::error(413, "request_too_large", "Request exceeds the maximum size"),
        &json!(["image_error", 413, "request_too_large", null, "invalid_request"]),
    );
}

/// The CLI asks the model three times to go on, then gives up.
#[test]
fn output_limit() {
    check(
        Reply::text("Half of it").stop_reason("max_tokens"),
        &json!(["api_error", null, null, "max_output_tokens", "max_output_tokens"]),
    );
}

#[test]
fn usage_limit_of_a_subscription() {
    let mut night = Night::new();
    night.subscription();
    let (seen, lines) = failed(&night, Reply::usage_limit(4_102_444_800));
    assert_eq!(
        json!(seen),
        json!(["api_error", 429, "rate_limit_error", "usage_limit_reached", "rate_limit"])
    );
    assert_eq!(retries(&lines), [] as [&str; 0], "a limit is not retried");
    let event = lines.iter().find(|line| line["type"] == "rate_limit_event").unwrap();
    assert_eq!(event["rate_limit_info"]["status"], "rejected");
    assert_eq!(event["rate_limit_info"]["resetsAt"], 4_102_444_800_i64);
}

#[test]
fn a_limit_on_turns_or_money_is_an_error_of_its_own() {
    for (limit, subtype, terminal) in [
        (["--max-turns", "1"], "error_max_turns", "max_turns"),
        (["--max-budget-usd", "0.000001"], "error_max_budget_usd", "budget_exhausted"),
    ] {
        let night = Night::new();
        night.stub.next(Reply::bash("true")).always(Reply::text("All done"));
        let mut turn = Turn::start(&night, &[&limit[..], &["--allowed-tools", "Bash"]].concat());
        turn.initialize();
        turn.prompt("Do it");
        let result = turn.result();
        assert_eq!(result["subtype"], subtype);
        assert_eq!(result["is_error"], true);
        assert_eq!(result["terminal_reason"], terminal);
        assert_eq!(turn.close(), Some(1));
    }
}

/// Silence of the API is silence of the stream: only a time limit of the driver notices it.
#[test]
fn a_silent_api_gives_neither_line_nor_end() {
    for reply in [Reply::silent(), Reply::never()] {
        let night = Night::new();
        night.stub.always(reply);
        let mut turn = Turn::start(&night, &[]);
        turn.initialize();
        turn.prompt("Do it");
        night.stub.wait_for_request(STEP, |request| request.last_user_text().ends_with("Do it"));
        assert_eq!(turn.lines().last().unwrap()["subtype"], "init");
        assert!(turn.program.is_running());
    }
}
