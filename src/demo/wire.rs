//! The lines the agent writes: the shapes of claude-code §2 to §5, and its transcript (§4).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

/// Version the agent claims.
pub(super) const VERSION: &str = "0.0.0-demo";
/// Model the agent claims.
pub(super) const MODEL: &str = "demo-model";
/// Made-up dollars of a turn.
const TURN_COST: f64 = 0.0125;

fn new_uuid() -> String {
    Uuid::new_v4().to_string()
}

/// `system/init`.
pub(super) fn init(session_id: &str, cwd: &Path, permission_mode: &str) -> Value {
    json!({
        "type": "system", "subtype": "init", "session_id": session_id, "cwd": cwd.to_string_lossy(),
        "model": MODEL, "permissionMode": permission_mode, "tools": ["Bash", "Read", "Write"],
        "mcp_servers": [], "slash_commands": [], "plugins": [], "capabilities": [],
        "apiKeySource": "none", "claude_code_version": VERSION, "uuid": new_uuid(),
    })
}

/// `system/api_retry`, as when the API is overloaded for a moment.
pub(super) fn api_retry(session_id: &str) -> Value {
    json!({
        "type": "system", "subtype": "api_retry", "session_id": session_id, "attempt": 1, "max_retries": 10,
        "retry_delay_ms": 500, "error_status": 529, "error": "overloaded", "uuid": new_uuid(),
    })
}

/// A message of the model.
pub(super) fn assistant_message(content: &Value, stop_reason: Option<&str>) -> Value {
    json!({
        "id": format!("msg_demo_{}", Uuid::new_v4().simple()), "type": "message", "role": "assistant",
        "model": MODEL, "content": [content], "stop_reason": stop_reason, "usage": message_usage(),
    })
}

/// The result of a tool.
pub(super) fn tool_result_message(tool_use_id: &str, text: &str, is_error: bool) -> Value {
    json!({
        "role": "user",
        "content": [{
            "type": "tool_result", "tool_use_id": tool_use_id, "content": text, "is_error": is_error,
        }],
    })
}

/// A message as a line of the stream; `kind` is `assistant` or `user`.
pub(super) fn message_line(kind: &str, session_id: &str, message: &Value) -> Value {
    json!({
        "type": kind, "message": message, "parent_tool_use_id": null, "session_id": session_id,
        "uuid": new_uuid(),
    })
}

/// What one message of a turn says it used; several make up a turn.
fn message_usage() -> Value {
    json!({
        "input_tokens": 4, "output_tokens": 160, "cache_read_input_tokens": 2_000,
        "cache_creation_input_tokens": 100,
    })
}

fn usage() -> Value {
    json!({
        "input_tokens": 12, "output_tokens": 640, "cache_read_input_tokens": 8_000,
        "cache_creation_input_tokens": 400,
    })
}

fn model_usage(turns: u32) -> Value {
    let times = |tokens: u64| tokens * u64::from(turns);
    json!({ MODEL: {
        "inputTokens": times(12), "outputTokens": times(640), "cacheReadInputTokens": times(8_000),
        "cacheCreationInputTokens": times(400), "webSearchRequests": 0, "costUSD": total_cost(turns),
    }})
}

/// How a turn ended.
pub(super) enum TurnEnd {
    /// It was finished; with the session report when a schema was given.
    Done(Option<Value>),
    /// It was interrupted.
    Interrupted,
}

/// What the result line needs beside the end itself.
pub(super) struct ResultFacts<'f> {
    pub(super) session_id: &'f str,
    pub(super) text: &'f str,
    /// Turns of the conversation, this one included.
    pub(super) turns: u32,
    pub(super) denials: &'f [Value],
    pub(super) milliseconds: u64,
}

/// The dollars of a conversation of so many turns.
pub(super) fn total_cost(turns: u32) -> f64 {
    TURN_COST * f64::from(turns)
}

/// `result`.
pub(super) fn result(end: &TurnEnd, facts: &ResultFacts<'_>) -> Value {
    let mut line = json!({
        "duration_ms": facts.milliseconds, "num_turns": 3, "session_id": facts.session_id,
        "total_cost_usd": total_cost(facts.turns), "usage": usage(), "modelUsage": model_usage(facts.turns),
        "model_usage_since_last_result": model_usage(1), "permission_denials": facts.denials,
        "subagent_stats": {"spawned": 0, "completed": 0, "failed": 0}, "uuid": new_uuid(),
        "api_error_status": null, "type": "result",
    });
    let more = match end {
        TurnEnd::Done(report) => {
            let mut more = json!({
                "subtype": "success", "is_error": false, "terminal_reason": "completed",
                "stop_reason": if report.is_some() { "tool_use" } else { "end_turn" }, "result": facts.text,
            });
            if let Some(report) = report {
                more["structured_output"] = report.clone();
            }
            more
        }
        TurnEnd::Interrupted => json!({
            "subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming",
            "stop_reason": null, "errors": ["interrupted"],
        }),
    };
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    line
}

/// The result of a conversation that cannot be resumed.
pub(super) fn no_conversation(session_id: &str) -> Value {
    json!({
        "type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": session_id,
        "num_turns": 0, "duration_ms": 0, "total_cost_usd": 0, "permission_denials": [],
        "errors": [format!("No conversation found with session ID: {session_id}")],
    })
}

/// Folder of a project's transcripts: each UTF-16 unit outside `[A-Za-z0-9]` of the resolved path becomes
/// `-`; a long name is cut (claude-code §4).
pub(super) fn encode(cwd: &Path) -> String {
    let keep = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    let name: String = cwd.to_string_lossy().encode_utf16().map(keep).collect();
    if name.len() <= 200 { name } else { format!("{}-demo", &name[..200]) }
}

/// The transcript of a conversation.
pub(super) struct Transcript {
    path: PathBuf,
    session_id: String,
    cwd: String,
    parent: Option<String>,
}

impl Transcript {
    /// The transcript of `session_id` in `cwd`, which must be resolved. Nothing is made yet.
    pub(super) fn new(config_dir: &Path, cwd: &Path, session_id: &str) -> Self {
        let path = config_dir.join("projects").join(encode(cwd)).join(format!("{session_id}.jsonl"));
        let cwd = cwd.to_string_lossy().into_owned();
        Transcript { path, session_id: session_id.to_owned(), cwd, parent: None }
    }

    pub(super) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Turns that were finished in it, and whether it holds any message.
    pub(super) fn past(&self) -> (u32, bool) {
        let text = fs::read(&self.path).unwrap_or_default();
        let entries = text.split(|byte| *byte == b'\n');
        let kinds: Vec<String> = entries
            .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
            .filter_map(|entry| Some(entry.get("type")?.as_str()?.to_owned()))
            .collect();
        let turns = kinds.iter().filter(|kind| *kind == "cost-state").count();
        let messages = kinds.iter().any(|kind| kind == "user" || kind == "assistant");
        (u32::try_from(turns).unwrap_or(u32::MAX), messages)
    }

    /// Appends a message; `kind` is `user` or `assistant`.
    pub(super) fn message(&mut self, kind: &str, message: &Value, at: Timestamp) -> io::Result<()> {
        let uuid = new_uuid();
        let parent = self.parent.replace(uuid.clone());
        self.append(&json!({
            "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": self.session_id, "cwd": self.cwd,
            "timestamp": at, "version": VERSION, "isSidechain": false, "userType": "external",
            "message": message,
        }))
    }

    /// Appends the mark of a finished turn.
    pub(super) fn turn_over(&self, turns: u32) -> io::Result<()> {
        let total = total_cost(turns);
        self.append(&json!({"type": "cost-state", "sessionId": self.session_id, "totalCostUSD": total}))
    }

    fn append(&self, entry: &Value) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        let mut file: File = options.append(true).create(true).mode(0o600).open(&self.path)?;
        file.write_all(format!("{entry}\n").as_bytes())
    }
}
