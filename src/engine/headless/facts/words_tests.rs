//! Field-reports E03 from the wire on: whatever a healthy session says, reads, runs or is told, in words of limits
//! and errors, ids and numbers, nothing of it is taken for a limit or an error of its own.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::core::evidence::{AttemptEnd, Evidence, Exit};
use crate::core::judge::wordings::wording;
use crate::core::judge::{judge, limit_words};
use crate::core::outcome::Class;
use crate::core::time::Now;
use crate::protocol::stream::parse_line;

fn assistant(block: &Value, agent: Option<&str>) -> Value {
    let message = json!({"id": "m", "role": "assistant", "model": "claude-sonnet-5", "content": [block],
        "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
    json!({"type": "assistant", "message": message, "parent_tool_use_id": agent, "session_id": "s"})
}

fn user(content: &Value, agent: Option<&str>) -> Value {
    let message = json!({"role": "user", "content": content});
    json!({"type": "user", "message": message, "parent_tool_use_id": agent, "session_id": "s"})
}

/// The places where text of a session stands that is not the CLI's word on a failure.
fn said(place: usize, words: &str, agent: Option<&str>) -> Value {
    match place {
        0 => assistant(&json!({"type": "text", "text": words}), agent),
        1 => assistant(&json!({"type": "thinking", "thinking": words}), agent),
        2 => {
            let input = json!({"command": format!("grep -r '{words}' ."), "description": words});
            assistant(&json!({"type": "tool_use", "id": "t", "name": "Bash", "input": input}), agent)
        }
        3 => user(
            &json!([{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": words}]),
            agent,
        ),
        4 => {
            let text = json!([{"type": "text", "text": words}]);
            user(&json!([{"type": "tool_result", "tool_use_id": "t", "content": text}]), agent)
        }
        5 => user(&json!(words), agent),
        6 => json!({"type": "system", "subtype": "hook_response", "session_id": "s", "hook_name": "Stop",
            "stdout": words, "stderr": words, "output": words, "exit_code": 1, "outcome": "error"}),
        7 => json!({"type": "system", "subtype": "notification", "session_id": "s", "text": words}),
        _ => json!({"type": "rate_limit_event", "session_id": "s",
            "rate_limit_info": {"status": "allowed", "rateLimitType": "five_hour", "note": words}}),
    }
}

const PLACES: usize = 9;

/// What is known of an attempt that sent these lines and left with 0.
fn after(lines: &[Value]) -> Evidence {
    let now =
        Now { mono: std::time::Duration::from_secs(5), wall: Timestamp::from_second(1_790_000_000).unwrap() };
    let mut evidence = Evidence { started: Some(now), ..Evidence::default() };
    let mut translator = Translator::default();
    for line in lines {
        let parsed = parse_line(line.to_string().as_bytes());
        assert_eq!(parsed.messages.len(), 1, "{line}");
        for message in &parsed.messages {
            translator.message(message, |fact| evidence.take(now, &fact));
        }
    }
    evidence.end = AttemptEnd { exit: Some(Exit::Code(0)), ..AttemptEnd::default() };
    evidence
}

fn good_result(words: &str, with_report: bool) -> Value {
    let mut result = json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 3,
        "result": words, "session_id": "s", "stop_reason": "end_turn", "terminal_reason": "completed",
        "total_cost_usd": 0.1, "usage": {"input_tokens": 1, "output_tokens": 1}, "permission_denials": []});
    if with_report {
        result["structured_output"] =
            json!({"status": "complete", "summary": words, "do_not_retry": [words]});
    }
    result
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn words_on_the_wire_are_only_words(
        lines in prop::collection::vec((0..PLACES, wording(), any::<bool>()), 1..8),
        last in wording(),
        with_report in any::<bool>(),
    ) {
        let mut lines: Vec<Value> =
            lines.iter().map(|(place, words, agent)| said(*place, words, agent.then_some("toolu_1"))).collect();
        lines.push(good_result(&last, with_report));
        let evidence = after(&lines);
        prop_assert_eq!(judge(&evidence).class, Class::Ok);
        prop_assert_eq!(limit_words(&evidence), None);
        prop_assert!(evidence.api_error.is_none() && evidence.rejected_window().is_none());

        // The stream lost its result: cut short, and still no limit and no error.
        lines.pop();
        let evidence = after(&lines);
        prop_assert_eq!(judge(&evidence).class, Class::Incomplete);
        prop_assert_eq!(limit_words(&evidence), None);
    }
}

/// The test above would hold of a judge that is deaf: the same words where the CLI says them count.
#[test]
fn the_same_words_as_an_error_result_count() {
    let words = crate::core::judge::wordings::LIMITS[0];
    let mut failed = good_result(words, false);
    failed["is_error"] = json!(true);
    failed["api_error_status"] = json!(429);
    assert_eq!(judge(&after(&[failed])).class, Class::UsageLimit);
}
