//! The lines of the stream (claude-code §2 and §3), as values.

use serde_json::{Value, json};

/// The model every line names.
pub(crate) const MODEL: &str = "claude-sonnet-5";

/// `system/init`.
pub(crate) fn init(session: &str, cwd: &str, permission_mode: &str) -> Value {
    json!({
        "type": "system", "subtype": "init", "session_id": session, "cwd": cwd, "model": MODEL,
        "permissionMode": permission_mode, "apiKeySource": "none", "claude_code_version": crate::VERSION,
        "tools": ["Task", "Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "WebFetch", "Write"],
        "mcp_servers": [], "slash_commands": ["compact", "context", "cost"], "agents": ["general-purpose"],
        "plugins": [], "capabilities": ["interrupt_receipt_v1"], "output_style": "default", "uuid": uuid(),
    })
}

/// An `assistant` or `user` line around a message.
pub(crate) fn message(kind: &str, session: &str, message: &Value, parent: Option<&str>) -> Value {
    json!({"type": kind, "message": message, "parent_tool_use_id": parent, "session_id": session, "uuid": uuid()})
}

/// The message of the model with one content block.
pub(crate) fn assistant(block: &Value, stop_reason: Option<&str>, output_tokens: u64) -> Value {
    json!({
        "id": format!("msg_{}", uuid::Uuid::new_v4().simple()), "type": "message", "role": "assistant", "model": MODEL,
        "content": [block], "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": output_tokens},
    })
}

/// The message that carries a tool's answer.
pub(crate) fn tool_result(tool_use_id: &str, text: &str, is_error: bool) -> Value {
    json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": tool_use_id, "content": text, "is_error": is_error}]})
}

/// A `rate_limit_event`.
pub(crate) fn rate_limit(session: &str, status: &str, resets_at: u64, window: &str) -> Value {
    let utilization = if status == "rejected" { 1.0 } else { 0.5 };
    json!({"type": "rate_limit_event", "session_id": session, "uuid": uuid(), "rate_limit_info": {
        "status": status, "resetsAt": resets_at, "rateLimitType": window, "utilization": utilization,
        "isUsingOverage": false, "overageStatus": "rejected",
        "unifiedWindows": {window: {"status": status, "resetsAt": resets_at, "utilization": utilization}},
    }})
}

/// `system/api_retry`.
pub(crate) fn api_retry(session: &str, attempt: u64, status: u64) -> Value {
    json!({"type": "system", "subtype": "api_retry", "session_id": session, "uuid": uuid(), "attempt": attempt,
        "max_retries": 10, "retry_delay_ms": 549.5, "error_status": status, "error": error_class(status, None)})
}

/// What `--resume` says of an id without a conversation: it echoes the id and has no `result`.
pub(crate) fn no_conversation(id: &str) -> Value {
    json!({
        "type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 0, "duration_ms": 0,
        "duration_api_ms": 0, "session_id": id, "total_cost_usd": 0, "permission_denials": [], "modelUsage": {},
        "usage": {"input_tokens": 0, "output_tokens": 0}, "uuid": uuid(),
        "errors": [format!("No conversation found with session ID: {id}")],
    })
}

/// Changes to the result of an interrupted turn.
pub(crate) fn aborted() -> Value {
    json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "result": null,
        "terminal_reason": "aborted_streaming", "stop_reason": null})
}

/// Usage of one model, as `modelUsage` has it.
pub(crate) fn model_usage(input: u64, output: u64, cost: f64) -> Value {
    json!({"inputTokens": input, "outputTokens": output, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0,
        "webSearchRequests": 0, "costUSD": cost, "contextWindow": 200_000})
}

/// `api_error_type` by status.
pub(crate) fn error_type(status: u64) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

/// `error` of an API failure in the transcript, on its `assistant` line and in `api_retry`.
pub(crate) fn error_class(status: u64, text: Option<&str>) -> &'static str {
    match status {
        400 if text.is_some_and(|t| t.contains("Credit balance")) => "billing_error",
        400 | 413 => "invalid_request",
        401 | 403 => "authentication_failed",
        404 => "model_not_found",
        429 => "rate_limit",
        529 => "overloaded",
        500..=599 => "server_error",
        _ => "unknown",
    }
}

/// The session report of a session that went well (the product's `--json-schema`).
pub(crate) fn report() -> Value {
    json!({
        "status": "complete", "summary": "Did the work.",
        "agent_summary": {"complete": 0, "partial": 0, "failed": 0, "spiral": 0},
        "effectiveness": {"planned_issues": 1, "completed": 1, "carryover": 0, "emergent": 0},
        "waves": [], "tasks_done": [], "tasks_carried": [], "recommended_mode": "feature", "top_priorities": [],
        "rationale": "More of the same.", "blocked_on": null, "do_not_retry": [],
    })
}

/// A fresh `uuid` field.
pub(crate) fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}
