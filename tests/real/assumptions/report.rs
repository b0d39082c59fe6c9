//! `--json-schema` together with the control protocol (claude-code §3).
//!
//! The CLI offers the model a tool named `StructuredOutput` whose input is the schema; it forces nothing (`tool_choice`
//! stays unset). A call of it goes through the gate like any other and ends the turn.

use serde_json::{Value, json};

use crate::stub::Reply;
use crate::support::{Night, Turn};

const TOOL: &str = "StructuredOutput";

fn schema() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["status"],
        "properties": {"status": {"type": "string", "enum": ["complete", "partial"]}},
    })
}

fn started(night: &Night) -> Turn {
    let mut turn = Turn::start(night, &["--json-schema", &schema().to_string()]);
    turn.initialize();
    turn.prompt("Do it");
    turn
}

#[test]
fn the_report_is_the_input_of_a_tool() {
    let night = Night::new();
    night.stub.next(Reply::tool(TOOL, &json!({"status": "complete"})));
    let mut turn = started(&night);
    let call = turn.answer_hook("pre", &json!({}));
    assert_eq!(call["tool_name"], TOOL, "the gate is asked about the report too");
    assert_eq!(call["tool_input"], json!({"status": "complete"}));
    let result = turn.result();
    assert_eq!(result["structured_output"], json!({"status": "complete"}));
    assert_eq!(result["stop_reason"], "tool_use");
    assert_eq!(result["terminal_reason"], "completed");
    assert_eq!(result["is_error"], false);
    let requests = night.stub.requests();
    assert_eq!(requests.len(), 1, "the report ends the turn without another request");
    assert_eq!(requests[0].tool(TOOL).unwrap()["input_schema"], schema());
    assert_eq!(requests[0].body["tool_choice"], Value::Null);
}

#[test]
fn a_report_against_the_schema_is_sent_back_to_the_model() {
    let night = Night::new();
    night
        .stub
        .next(Reply::tool(TOOL, &json!({"status": "wonderful"})))
        .next(Reply::tool(TOOL, &json!({"status": "partial"})));
    let result = started(&night).result();
    assert_eq!(result["structured_output"], json!({"status": "partial"}));
    let results = night.stub.requests()[1].tool_results();
    let [(text, true)] = &results[..] else { panic!("one error, not {results:?}") };
    assert!(text.contains("does not match required schema"), "{text}");
}

#[test]
fn a_report_never_given_is_asked_for_once_more() {
    let night = Night::new();
    night.stub.always(Reply::text("Only prose"));
    let mut turn = started(&night);
    let result = turn.result();
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["is_error"], false);
    assert_eq!(result["structured_output"], Value::Null);
    let requests = night.stub.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].last_user_text().contains("MUST call the StructuredOutput tool"));
    let asked = turn.lines().into_iter().find(|line| line["type"] == "user").unwrap();
    assert_eq!(asked["isSynthetic"], true);
}

/// Each turn of a process owes its own report.
#[test]
fn a_later_turn_gives_its_own_report() {
    let night = Night::new();
    night
        .stub
        .next(Reply::tool(TOOL, &json!({"status": "partial"})))
        .next(Reply::tool(TOOL, &json!({"status": "complete"})));
    let mut turn = started(&night);
    assert_eq!(turn.result()["structured_output"], json!({"status": "partial"}));
    turn.prompt("Finish it");
    assert_eq!(turn.result()["structured_output"], json!({"status": "complete"}));
}
