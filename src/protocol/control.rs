//! Builds the lines that go to the stdin of a turn (claude-code §5).
//!
//! Theory: with `--input-format stream-json` the CLI reads one JSON message a line. Each function here
//! returns one such line, newline included, ready for a single write.
//!
//! Invariants: exactly one `\n`, at the end. U+2028 and U+2029 are written as escapes too: some JavaScript
//! line readers split on them.

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::lenient::RawJson;

/// Callback id under which the `PreToolUse` hook is registered.
pub const PRE_TOOL_USE_CALLBACK: &str = "pre";
/// Callback id under which the `Stop` hook is registered.
pub const STOP_CALLBACK: &str = "stop";

/// The answer to a `PreToolUse` hook callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookReply<'a> {
    /// No opinion: Claude Code's own rules decide. Also the answer to every other event.
    NormalRules,
    /// Run the tool, whatever the rules say.
    Allow {
        /// Why, for the record.
        reason: &'a str,
    },
    /// Do not run the tool.
    Deny {
        /// Why; the model reads it as the result of its call.
        reason: &'a str,
    },
}

/// A prompt: the first starts a turn, a further one after a result starts the next turn.
pub fn user_prompt(text: &str) -> Vec<u8> {
    line(&json!({
        "type": "user",
        "message": { "role": "user", "content": text },
        "parent_tool_use_id": null,
        "session_id": "default",
    }))
}

/// The handshake, to be sent before the first prompt. With it every tool call of the session and of its
/// sub-agents asks first, and the end of the main thread's turn is announced.
pub fn initialize(request_id: &str) -> Vec<u8> {
    request(
        request_id,
        &json!({
            "subtype": "initialize",
            "hooks": {
                "PreToolUse": [{ "matcher": "*", "hookCallbackIds": [PRE_TOOL_USE_CALLBACK] }],
                "Stop": [{ "hookCallbackIds": [STOP_CALLBACK] }],
            },
        }),
    )
}

/// Ends the running turn with a result; the process lives on.
pub fn interrupt(request_id: &str) -> Vec<u8> {
    request(request_id, &json!({ "subtype": "interrupt" }))
}

/// Answers a hook callback.
pub fn hook_reply(request_id: &str, reply: HookReply<'_>) -> Vec<u8> {
    let decision = |decision: &str, reason: &str| {
        json!({
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": decision,
                "permissionDecisionReason": reason,
            },
        })
    };
    let response = match reply {
        HookReply::NormalRules => json!({}),
        HookReply::Allow { reason } => decision("allow", reason),
        HookReply::Deny { reason } => decision("deny", reason),
    };
    respond(request_id, &response)
}

/// Answers `can_use_tool`: run the tool with this input (usually the one of the request).
pub fn allow_tool(request_id: &str, updated_input: &RawJson) -> Vec<u8> {
    #[derive(Serialize)]
    struct Allow<'a> {
        behavior: &'static str,
        #[serde(rename = "updatedInput")]
        updated_input: &'a RawValue,
    }
    respond(request_id, &Allow { behavior: "allow", updated_input: updated_input.as_raw() })
}

/// Answers `can_use_tool`: do not run the tool. The model reads the message.
pub fn deny_tool(request_id: &str, message: &str) -> Vec<u8> {
    respond(request_id, &json!({ "behavior": "deny", "message": message }))
}

/// Answers a request that is not understood, so that the CLI does not wait for ever. The shape is that of
/// the published SDKs.
pub fn refuse(request_id: &str, error: &str) -> Vec<u8> {
    line(&json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": request_id, "error": error },
    }))
}

fn request(request_id: &str, request: &Value) -> Vec<u8> {
    line(&json!({ "type": "control_request", "request_id": request_id, "request": request }))
}

fn respond(request_id: &str, response: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a, T> {
        r#type: &'static str,
        response: Success<'a, T>,
    }
    #[derive(Serialize)]
    struct Success<'a, T> {
        subtype: &'static str,
        request_id: &'a str,
        response: &'a T,
    }
    line(&Line { r#type: "control_response", response: Success { subtype: "success", request_id, response } })
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_string(message).expect("strings, literals and valid JSON serialise");
    // Outside strings JSON has no such characters, and raw JSON came from a line: no newline in it.
    let mut line = text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_documented_shape() {
        let hostile = "a\nb\r\"\\\u{2028}\u{2029}\u{0}é";
        let success = |response: Value| {
            json!({
                "type": "control_response",
                "response": {"subtype": "success", "request_id": "q", "response": response},
            })
        };
        let decision = |decision, reason| {
            success(json!({"hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
            }}))
        };
        let input = json!({"command": "ls\n\u{2028}", "timeout": 1.5});
        let cases = [
            (
                user_prompt(hostile),
                json!({
                    "type": "user", "message": {"role": "user", "content": hostile},
                    "parent_tool_use_id": null, "session_id": "default",
                }),
            ),
            (
                initialize("r1"),
                json!({
                    "type": "control_request", "request_id": "r1", "request": {
                        "subtype": "initialize",
                        "hooks": {
                            "PreToolUse": [{"matcher": "*", "hookCallbackIds": ["pre"]}],
                            "Stop": [{"hookCallbackIds": ["stop"]}],
                        },
                    },
                }),
            ),
            (
                interrupt("i1"),
                json!({"type": "control_request", "request_id": "i1", "request": {"subtype": "interrupt"}}),
            ),
            (hook_reply("q", HookReply::NormalRules), success(json!({}))),
            (hook_reply("q", HookReply::Allow { reason: "ordinary" }), decision("allow", "ordinary")),
            (hook_reply("q", HookReply::Deny { reason: hostile }), decision("deny", hostile)),
            (
                allow_tool("q", &RawJson::from(&input)),
                success(json!({"behavior": "allow", "updatedInput": input})),
            ),
            (deny_tool("q", "no"), success(json!({"behavior": "deny", "message": "no"}))),
            (
                refuse("q", "unknown"),
                json!({
                    "type": "control_response",
                    "response": {"subtype": "error", "request_id": "q", "error": "unknown"},
                }),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), expected);
            let text = String::from_utf8(line).unwrap();
            assert_eq!(text.find(['\n', '\u{2028}', '\u{2029}']), Some(text.len() - 1));
        }
    }
}
