//! What an attempt reveals while it runs: the engine's findings, free of any wire format.
//!
//! The engine translates each line of the stream into at most a few facts. A fact is evidence, never a
//! verdict: nothing in here ends a run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::published::Tokens;
use super::stuck::call::{Call, Outcome};

/// One finding.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// `system/init`. It is repeated on later turns of one process and need not come first (field-reports
    /// A08, A17).
    Initialised(Initialised),
    /// Text of the model.
    Text {
        /// Bounded.
        text: String,
        /// Of a sub-agent; never the session's answer (field-reports I08).
        sub_agent: bool,
    },
    /// A tool call.
    ToolStarted {
        /// Name of the tool.
        name: String,
        /// What it was called with, shortened for people.
        summary: String,
        /// By a sub-agent.
        sub_agent: bool,
        /// The call as it can be compared with others.
        call: Call,
    },
    /// The result of a tool call.
    ToolEnded {
        /// It failed.
        is_error: bool,
        /// Of a sub-agent.
        sub_agent: bool,
        /// The result as it can be compared with others.
        outcome: Outcome,
    },
    /// Tokens of one model message, as far as known while it runs. An estimate; a result settles it.
    Usage {
        /// Messages are repeated; the same id counts once.
        message_id: String,
        /// Tokens of this message.
        tokens: Tokens,
    },
    /// The CLI tries again by itself: a sign of life, not a failure (field-reports C07).
    ApiRetry(ApiRetry),
    /// State of a usage window.
    RateLimit(RateLimit),
    /// An API failure written into the conversation as a synthetic message.
    ApiError {
        /// Class given by the CLI, such as `authentication_failed`.
        class: Option<String>,
        /// HTTP status.
        status: Option<u16>,
        /// Its words.
        text: String,
    },
    /// A sub-agent or background task started.
    TaskStarted {
        /// Its id.
        id: String,
        /// A sub-agent; otherwise a shell.
        agent: bool,
        /// The tool call that started it, where the CLI names it.
        call: Option<String>,
    },
    /// A sub-agent or background task ended.
    TaskEnded {
        /// Its id.
        id: String,
        /// `completed`, `failed`, `stopped`, …
        status: String,
    },
    /// The permission rules denied a tool call.
    Denied {
        /// The tool.
        tool: String,
        /// The call, where the CLI names it.
        id: Option<String>,
    },
    /// The CLI asks before a tool runs, and waits for the answer.
    Asked(Box<Asked>),
    /// The end of a turn, as the CLI sees it.
    Result(Box<TurnResult>),
    /// Something unreadable came. Counted, never fatal (field-reports C01–C06).
    Anomaly {
        /// Short name of the kind.
        kind: &'static str,
        /// Bounded sample.
        sample: String,
    },
    /// Any other well-formed line: a sign of life.
    Heartbeat,
}

/// A question of the CLI: may this tool run (claude-code §5)?
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// Names the question in the answer.
    pub request_id: String,
    /// A person would be asked here (`can_use_tool`); otherwise it is asked before each call (`PreToolUse`).
    pub prompt: bool,
    /// The tool.
    pub tool: String,
    /// Its input.
    pub input: Value,
    /// The call.
    pub call: Option<String>,
    /// Working directory of the call, where the CLI names it.
    pub cwd: Option<String>,
    /// By a sub-agent.
    pub sub_agent: bool,
    /// Why it is not known in full what is asked. Nothing may be approved on it.
    pub doubt: Option<&'static str>,
}

/// `system/init`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Initialised {
    /// The id the CLI uses.
    pub session_id: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Version of the CLI.
    pub cli_version: Option<String>,
    /// Permission mode in force.
    pub permission_mode: Option<String>,
    /// Where the key comes from.
    pub api_key_source: Option<String>,
    /// MCP servers that did not start (field-reports K11).
    pub failed_mcp_servers: Vec<String>,
}

/// `system/api_retry`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiRetry {
    /// Count so far.
    pub attempt: u32,
    /// The CLI's limit.
    pub max_retries: u32,
    /// Pause before the next try, in milliseconds; extends the stall deadline.
    pub delay_ms: f64,
    /// HTTP status.
    pub status: Option<u16>,
    /// Class given by the CLI.
    pub error: Option<String>,
}

impl ApiRetry {
    /// The API does not accept the login. Once may be a mishap of the server or a token that is being renewed.
    #[must_use]
    pub fn refuses_login(&self) -> bool {
        self.status == Some(401) || self.error.as_deref() == Some("authentication_failed")
    }
}

/// `rate_limit_event` (claude-code §2, field-reports E02).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RateLimit {
    /// `allowed`, `allowed_warning`, `rejected`.
    pub status: String,
    /// `five_hour`, `seven_day`, …
    pub window: Option<String>,
    /// When the window resets.
    pub resets_at: Option<Timestamp>,
    /// 0 to 1.
    pub utilization: Option<f64>,
    /// Requests are paid from extra usage: a rejected window does not stop them.
    pub using_overage: bool,
    /// All windows that the event lists (`unifiedWindows`).
    pub windows: Vec<UsageWindow>,
}

/// A usage window as an event lists it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageWindow {
    /// `five_hour`, `seven_day`, …
    pub name: String,
    /// 0 to 1.
    pub utilization: Option<f64>,
    /// When it resets.
    pub resets_at: Option<Timestamp>,
}

/// What one model used: tokens and dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelUsage {
    /// Tokens.
    pub tokens: Tokens,
    /// API-equivalent dollars, when known.
    pub cost_usd: Option<f64>,
}

/// Usage by model.
pub type UsageByModel = BTreeMap<String, ModelUsage>;

/// A call that was denied, as the result of a turn lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeniedCall {
    /// The tool.
    pub tool: String,
    /// The call, where the CLI names it.
    pub id: Option<String>,
}

/// The `result` line (claude-code §3).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnResult {
    /// `success`, `error_during_execution`, `error_max_turns`, …
    pub subtype: Option<String>,
    /// `is_error`, or a subtype that says so (field-reports D01, D09).
    pub is_error: bool,
    /// `completed`, `api_error`, `prompt_too_long`, `max_turns`, …
    pub terminal_reason: Option<String>,
    /// `end_turn`, `tool_use`, `max_tokens`, …
    pub stop_reason: Option<String>,
    /// HTTP status of an API failure.
    pub api_error_status: Option<u16>,
    /// `usage_limit_reached`, `connection_failed`, `tool_history_mismatch`, …
    pub api_error: Option<String>,
    /// `authentication_error`, `rate_limit_error`, …
    pub api_error_type: Option<String>,
    /// `errors[]`.
    pub errors: Vec<String>,
    /// Text of the result.
    pub text: String,
    /// Answer to `--json-schema`.
    pub structured_output: Option<Value>,
    /// Model turns.
    pub num_turns: Option<u64>,
    /// The command that the CLI answered by itself, such as `compact` (claude-code §3).
    pub local_command: Option<String>,
    /// Calls that were denied, also those the gate refused.
    pub denied: Vec<DeniedCall>,
    /// Running total of the conversation, in dollars.
    pub total_cost_usd: Option<f64>,
    /// Running totals of the conversation by model.
    pub model_usage: Option<UsageByModel>,
    /// Exactly what was added since the last result, sub-agents included.
    pub usage_since_last_result: Option<UsageByModel>,
    /// Main thread of this turn only; the last resort.
    pub usage: Option<Tokens>,
    /// Id the CLI used.
    pub session_id: Option<String>,
    /// Sub-agents the system killed at the end of the turn (field-reports B01).
    pub agents_killed_by_system: u64,
}

impl TurnResult {
    /// The most telling words about a failure, never empty (field-reports C14).
    #[must_use]
    pub fn failure_text(&self) -> String {
        let text = self.text.trim();
        if !text.is_empty() {
            return text.to_owned();
        }
        // All of them: the first may be the least telling one (field-reports K07).
        let errors: Vec<&str> =
            self.errors.iter().map(|error| error.trim()).filter(|error| !error.is_empty()).collect();
        if !errors.is_empty() {
            return errors.join("; ");
        }
        let parts: Vec<String> = [
            self.subtype.clone(),
            self.terminal_reason.clone(),
            self.api_error.clone(),
            self.api_error_status.map(|status| format!("status {status}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if parts.is_empty() { "the result gives no reason".to_owned() } else { parts.join(", ") }
    }
}
