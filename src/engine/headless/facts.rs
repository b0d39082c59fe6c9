//! Messages of the stream → facts of the core.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::core::fact::{
    ApiRetry, DeniedCall, Fact, Initialised, ModelUsage, RateLimit, TurnResult, UsageByModel, UsageWindow,
};
use crate::core::published::Tokens;
use crate::core::stuck::call::{Call, Outcome};
use crate::protocol::RawJson;
use crate::protocol::stream::{self, Anomaly, Block, Body, LimitStatus, Message, System, TaskPhase};

/// Longest text of a tool call shown to people, in characters.
const SUMMARY: usize = 120;
/// Anomalies reported one by one; the rest is only counted.
const MAX_ANOMALIES: usize = 20;

/// Translates, and remembers what it has already said.
#[derive(Debug, Default)]
pub struct Translator {
    anomalies: usize,
    unknown: BTreeSet<String>,
}

impl Translator {
    /// Facts of one message, in order, handed to `sink`. At least one: every message is a sign of life.
    pub fn message(&mut self, message: &Message, mut sink: impl FnMut(Fact)) {
        let sub_agent = message.parent_tool_use_id.is_some();
        if let Some(label) = message.unknown_label()
            && self.unknown.len() < 64
            && self.unknown.insert(label.clone())
        {
            tracing::debug!(label, "unknown message type");
        }
        match &message.body {
            Body::System(system) => sink(of_system(system, message)),
            Body::RateLimit(limit) => sink(Fact::RateLimit(of_rate_limit(limit))),
            Body::Assistant(assistant) if assistant.is_synthetic() && !sub_agent => sink(Fact::ApiError {
                class: assistant.error.clone(),
                status: assistant.api_error_status.and_then(|status| u16::try_from(status).ok()),
                text: assistant.text(),
            }),
            Body::Assistant(assistant) => {
                if let (Some(id), Some(usage)) = (&assistant.message_id, assistant.usage) {
                    sink(Fact::Usage { message_id: id.clone(), tokens: tokens(usage) });
                }
                let mut said = false;
                for block in &assistant.content {
                    match block {
                        Block::Text(text) => {
                            said = true;
                            sink(Fact::Text { text: text.clone(), sub_agent });
                        }
                        Block::ToolUse { id, name, input } => {
                            said = true;
                            let name = name.clone().unwrap_or_default();
                            // `StructuredOutput` is how the report is handed in, not work.
                            if name == "StructuredOutput" {
                                continue;
                            }
                            let input = input.as_ref().and_then(RawJson::to_value).unwrap_or_default();
                            let summary = summarise(&input);
                            let agent = message.parent_tool_use_id.clone();
                            let call = Call::new(id.clone(), agent, &name, &input, !is_cut(&input));
                            sink(Fact::ToolStarted { name, summary, sub_agent, call });
                        }
                        Block::Thinking | Block::Other { .. } => {}
                    }
                }
                if !said {
                    sink(Fact::Heartbeat);
                }
            }
            Body::User(user) => {
                if user.tool_results.is_empty() {
                    sink(Fact::Heartbeat);
                }
                for result in &user.tool_results {
                    let denied = user.permissions.iter().any(|permission| {
                        permission.tool_use_id == result.tool_use_id
                            && permission.decision.as_deref() == Some("deny")
                    });
                    let agent = message.parent_tool_use_id.clone();
                    let outcome = Outcome::new(result.tool_use_id.clone(), agent, &result.text, denied);
                    sink(Fact::ToolEnded { is_error: result.is_error, sub_agent, outcome });
                }
            }
            Body::Result(result) => sink(Fact::Result(Box::new(of_result(result, message)))),
            Body::ControlRequest(_)
            | Body::ControlResponse(_)
            | Body::ControlCancel { .. }
            | Body::Alive
            | Body::Unknown { .. } => sink(Fact::Heartbeat),
        }
    }

    /// The fact of an anomaly, unless enough of them have been told.
    pub fn anomaly(&mut self, anomaly: &Anomaly) -> Option<Fact> {
        if !anomaly.is_bad_line() {
            return None;
        }
        self.anomalies += 1;
        let sample = if self.anomalies <= MAX_ANOMALIES { anomaly.to_string() } else { String::new() };
        Some(Fact::Anomaly { kind: anomaly.name(), sample })
    }
}

fn of_system(system: &System, message: &Message) -> Fact {
    match system {
        System::Init(init) => Fact::Initialised(Initialised {
            session_id: message.session_id.clone(),
            model: init.model.clone(),
            cli_version: init.claude_code_version.clone(),
            permission_mode: init.permission_mode.clone(),
            api_key_source: init.api_key_source.clone(),
            failed_mcp_servers: init
                .mcp_servers
                .iter()
                .filter(|server| server.status.as_deref().is_some_and(|status| status.starts_with("fail")))
                .filter_map(|server| server.name.clone())
                .collect(),
        }),
        System::ApiRetry(retry) => Fact::ApiRetry(ApiRetry {
            attempt: small(retry.attempt),
            max_retries: small(retry.max_retries),
            delay_ms: retry.retry_delay_ms.unwrap_or_default(),
            status: retry.error_status.and_then(|status| u16::try_from(status).ok()),
            error: retry.error.clone(),
        }),
        System::PermissionDenied(denied) => Fact::Denied {
            tool: denied.tool_name.clone().unwrap_or_else(|| "a tool".to_owned()),
            id: denied.tool_use_id.clone(),
        },
        System::Task(task) => of_task(task),
        System::BackgroundTasks(_)
        | System::Status(_)
        | System::CompactBoundary(_)
        | System::Hook(_)
        | System::Unknown { .. } => Fact::Heartbeat,
    }
}

fn of_task(task: &stream::Task) -> Fact {
    let Some(id) = task.task_id.clone() else { return Fact::Heartbeat };
    let status = task.status.clone().unwrap_or_default();
    let over = matches!(status.as_str(), "completed" | "failed" | "stopped" | "killed" | "cancelled");
    match task.phase {
        TaskPhase::Started => {
            let agent = task.task_type.as_deref() == Some("local_agent");
            Fact::TaskStarted { id, agent, call: task.tool_use_id.clone() }
        }
        TaskPhase::Notification => Fact::TaskEnded { id, status },
        TaskPhase::Updated if over => Fact::TaskEnded { id, status },
        TaskPhase::Updated | TaskPhase::Progress | TaskPhase::Listed => Fact::Heartbeat,
    }
}

fn of_rate_limit(limit: &stream::RateLimit) -> RateLimit {
    let own = limit.limit_type.as_deref();
    let listed = limit.windows.iter().find(|window| Some(window.name.as_str()) == own);
    let resets_at = limit.resets_at.or_else(|| listed.and_then(|window| window.resets_at));
    let instant = |seconds: Option<i64>| seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    RateLimit {
        status: match &limit.status {
            Some(LimitStatus::Allowed) => "allowed".to_owned(),
            Some(LimitStatus::AllowedWarning) => "allowed_warning".to_owned(),
            Some(LimitStatus::Rejected) => "rejected".to_owned(),
            Some(LimitStatus::Unknown(status)) => status.clone(),
            None => "unknown".to_owned(),
        },
        window: limit.limit_type.clone(),
        resets_at: instant(resets_at),
        utilization: limit.utilization.or_else(|| listed.and_then(|window| window.utilization)),
        using_overage: limit.is_using_overage == Some(true),
        windows: limit
            .windows
            .iter()
            .map(|window| UsageWindow {
                name: window.name.clone(),
                utilization: window.utilization,
                resets_at: instant(window.resets_at),
            })
            .collect(),
    }
}

fn of_result(result: &stream::TurnResult, message: &Message) -> TurnResult {
    let by_model = |usage: &std::collections::BTreeMap<String, stream::ModelUsage>| -> UsageByModel {
        usage
            .iter()
            .map(|(model, usage)| {
                (model.clone(), ModelUsage { tokens: tokens(usage.tokens), cost_usd: usage.cost_usd })
            })
            .collect()
    };
    TurnResult {
        subtype: result.subtype.clone(),
        is_error: result.is_error(),
        terminal_reason: result.terminal_reason.clone(),
        stop_reason: result.stop_reason.clone(),
        api_error_status: result.api_error_status.and_then(|status| u16::try_from(status).ok()),
        api_error: result.api_error.clone(),
        api_error_type: result.api_error_type.clone(),
        errors: result.errors.clone(),
        text: result.text.clone().unwrap_or_default(),
        structured_output: result.structured_output.as_ref().and_then(RawJson::to_value),
        num_turns: result.num_turns,
        local_command: result.local_command.clone(),
        denied: result
            .permission_denials
            .iter()
            .map(|denial| DeniedCall {
                tool: denial.tool_name.clone().unwrap_or_else(|| "a tool".to_owned()),
                id: denial.tool_use_id.clone(),
            })
            .collect(),
        total_cost_usd: result.total_cost_usd,
        model_usage: (!result.model_usage.is_empty()).then(|| by_model(&result.model_usage)),
        usage_since_last_result: result.model_usage_since_last_result.as_ref().map(by_model),
        usage: result.usage.map(tokens),
        session_id: message.session_id.clone(),
        agents_killed_by_system: result
            .subagents
            .and_then(|stats| stats.killed_by_system)
            .unwrap_or_default(),
    }
}

fn tokens(tokens: stream::Tokens) -> Tokens {
    Tokens {
        input: tokens.input.unwrap_or_default(),
        output: tokens.output.unwrap_or_default(),
        cache_read: tokens.cache_read.unwrap_or_default(),
        cache_creation: tokens.cache_creation.unwrap_or_default(),
    }
}

fn small(value: Option<u64>) -> u32 {
    value.and_then(|value| u32::try_from(value).ok()).unwrap_or_default()
}

/// Whether a text in `input` was too long for its line and is not all there.
fn is_cut(input: &Value) -> bool {
    match input {
        Value::String(text) => text.ends_with(" bytes cut]"),
        Value::Array(items) => items.iter().any(is_cut),
        Value::Object(fields) => fields.values().any(is_cut),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The input field that tells a person what a tool call is about.
#[must_use]
pub fn summarise(input: &Value) -> String {
    const KEYS: [&str; 9] =
        ["command", "file_path", "notebook_path", "pattern", "url", "query", "description", "prompt", "plan"];
    let text = KEYS
        .iter()
        .find_map(|key| input.get(key))
        // What a person would have been asked (field-reports D08).
        .or_else(|| input.pointer("/questions/0/question"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let mut summary: String = line.chars().take(SUMMARY).collect();
    if summary.len() < text.len() {
        summary.push('…');
    }
    summary
}

#[cfg(test)]
mod words_tests;
