//! Words of limits and errors in a conversation file: only what the CLI itself marked as a failure is one.

use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::digest;
use crate::core::judge::wordings::wording;

fn entry(kind: &str, content: &Value) -> Value {
    let message = json!({"role": kind, "id": "m", "model": "claude-sonnet-5", "content": content,
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}});
    json!({"type": kind, "uuid": "u", "sessionId": "s", "isSidechain": false, "message": message})
}

fn said(place: usize, words: &str) -> Value {
    match place {
        0 => entry("assistant", &json!([{"type": "text", "text": words}])),
        1 => entry("assistant", &json!([{"type": "thinking", "thinking": words}])),
        2 => entry(
            "assistant",
            &json!([{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": words}}]),
        ),
        3 => entry(
            "user",
            &json!([{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": words}]),
        ),
        4 => entry("user", &json!(words)),
        _ => json!({"type": "summary", "summary": words, "leafUuid": "u"}),
    }
}

fn digested(entries: &[Value]) -> crate::core::transcript_digest::TranscriptDigest {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let text: Vec<String> = entries.iter().map(Value::to_string).collect();
    #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
    fs::write(&path, text.join("\n") + "\n").unwrap();
    digest(&path, 0).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn words_in_a_conversation_are_only_words(
        said_so in prop::collection::vec((0..6_usize, wording()), 1..8),
    ) {
        let entries: Vec<Value> = said_so.iter().map(|(place, words)| said(*place, words)).collect();
        let found = digested(&entries);
        prop_assert_eq!(found.api_error, None);
        prop_assert_eq!(found.bad_lines, 0);
    }
}

#[test]
fn the_same_words_marked_as_a_failure_count() {
    let mut failure = said(0, "Claude AI usage limit reached|1762952400");
    failure["isApiErrorMessage"] = json!(true);
    failure["message"]["model"] = json!("<synthetic>");
    assert!(digested(&[failure]).api_error.is_some());
}
