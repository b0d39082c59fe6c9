//! `result`: the end of a turn, its cause and its bill (claude-code §3).
//!
//! Pitfalls: `type` may stand near the end of the line; a failed turn may say `subtype:"success"`; a process
//! may emit several results, of which the last counts; `total_cost_usd` and `modelUsage` are running totals
//! of the conversation, while `model_usage_since_last_result` is the exact addition.

use std::collections::BTreeMap;

use super::{MAX_EXCERPT, MAX_TEXT};
use crate::protocol::{
    lenient::{Object, RawJson, count, number, text},
    raw::Raw,
};

/// Largest cost that is believed, in dollars.
const MAX_COST: f64 = 1e9;

/// The end of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnResult {
    /// `success`, `error_during_execution`, `error_max_turns`, … Read [`TurnResult::is_error`] instead.
    pub subtype: Option<String>,
    /// The flag as it was sent. Read [`TurnResult::is_error`] instead.
    pub is_error_flag: Option<bool>,
    /// `completed`, `api_error`, `max_turns`, `prompt_too_long`, `aborted_streaming`, …
    pub terminal_reason: Option<String>,
    /// Why the model stopped. `tool_use` is normal beside [`TurnResult::structured_output`], else the turn
    /// is incomplete (A22).
    pub stop_reason: Option<String>,
    /// HTTP status of the API failure; `None` when there was no response.
    pub api_error_status: Option<u64>,
    /// Type of the API failure, for example `overloaded_error`.
    pub api_error_type: Option<String>,
    /// The CLI's own code for it, for example `usage_limit_reached`.
    pub api_error: Option<String>,
    /// Messages of the CLI.
    pub errors: Vec<String>,
    /// The final text, at most [`MAX_TEXT`]. Holds only the last message (C13) and may be empty although the
    /// model spoke (A12).
    pub text: Option<String>,
    /// The answer to `--json-schema`.
    pub structured_output: Option<RawJson>,
    /// Round trips with the model.
    pub num_turns: Option<u64>,
    /// Tool calls that were refused; may be incomplete (D04).
    pub permission_denials: Vec<PermissionDenial>,
    /// Running total of the conversation in API-equivalent dollars. `None` when absent, null, negative or
    /// not finite: unknown, never 0 (M03).
    pub total_cost_usd: Option<f64>,
    /// Tokens of this turn's main thread, without sub-agents.
    pub usage: Option<Tokens>,
    /// By model: running total of the conversation.
    pub model_usage: BTreeMap<String, ModelUsage>,
    /// By model: what this result adds, sub-agents included. `None` from CLIs that do not send it.
    pub model_usage_since_last_result: Option<BTreeMap<String, ModelUsage>>,
    /// Sub-agents of the turn.
    pub subagents: Option<SubagentStats>,
    /// Wall time of the turn in milliseconds.
    pub duration_ms: Option<u64>,
    /// Time spent waiting for the API in milliseconds.
    pub duration_api_ms: Option<u64>,
    /// Number of this result in its process, from 0 or 1 by version.
    pub result_index: Option<u64>,
    /// The slash command that was answered without a model, for example `compact`.
    pub local_command: Option<String>,
}

impl TurnResult {
    /// Whether the turn failed: the flag beats the subtype (D01), and an `error…` subtype is a failure even
    /// with the flag off (D09).
    pub fn is_error(&self) -> bool {
        self.is_error_flag == Some(true)
            || self.subtype.as_deref().is_some_and(|subtype| subtype.starts_with("error"))
    }

    pub(super) fn read(line: &Object<'_>) -> Self {
        let mut errors: Vec<String> =
            line.list("errors").into_iter().filter_map(|raw| message_of(raw, line)).collect();
        errors.extend(line.raw("error").and_then(|raw| message_of(raw, line)));
        Self {
            subtype: line.string("subtype"),
            is_error_flag: line.bool("is_error"),
            terminal_reason: line.string("terminal_reason"),
            stop_reason: line.string("stop_reason"),
            api_error_status: line.u64("api_error_status"),
            api_error_type: line.string("api_error_type"),
            api_error: line.string("api_error").or_else(|| line.string("api_error_code")),
            errors,
            text: line.text("result", MAX_TEXT),
            structured_output: line.json("structured_output"),
            num_turns: line.u64("num_turns"),
            permission_denials: line
                .objects("permission_denials")
                .map(|denial| PermissionDenial {
                    tool_name: denial.string("tool_name"),
                    tool_use_id: denial.string("tool_use_id"),
                    tool_input: denial.json("tool_input"),
                })
                .collect(),
            total_cost_usd: cost(line, "total_cost_usd"),
            usage: line.object("usage").map(|usage| Tokens::read(&usage)),
            model_usage: by_model(line, "modelUsage").unwrap_or_default(),
            model_usage_since_last_result: by_model(line, "model_usage_since_last_result"),
            subagents: line.object("subagent_stats").map(|stats| SubagentStats::read(&stats)),
            duration_ms: line.u64("duration_ms"),
            duration_api_ms: line.u64("duration_api_ms"),
            result_index: line.u64("result_index"),
            local_command: line.string("local_command"),
        }
    }
}

/// A refused tool call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PermissionDenial {
    /// The tool.
    pub tool_name: Option<String>,
    /// The call.
    pub tool_use_id: Option<String>,
    /// Its input.
    pub tool_input: Option<RawJson>,
}

/// Token counts. `None` is "not said", which is not 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input tokens that were neither read from nor written to the cache.
    pub input: Option<u64>,
    /// Output tokens.
    pub output: Option<u64>,
    /// Input tokens read from the cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to the cache.
    pub cache_creation: Option<u64>,
}

impl Tokens {
    /// Both spellings are in use: `snake_case` in `usage`, `camelCase` in the maps by model.
    pub(super) fn read(usage: &Object<'_>) -> Self {
        let either = |snake, camel| usage.u64(snake).or_else(|| usage.u64(camel));
        Self {
            input: either("input_tokens", "inputTokens"),
            output: either("output_tokens", "outputTokens"),
            cache_read: either("cache_read_input_tokens", "cacheReadInputTokens"),
            cache_creation: either("cache_creation_input_tokens", "cacheCreationInputTokens"),
        }
    }
}

/// Tokens and cost of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelUsage {
    /// Token counts.
    pub tokens: Tokens,
    /// API-equivalent dollars.
    pub cost_usd: Option<f64>,
    /// Size of the model's context window in tokens.
    pub context_window: Option<u64>,
}

/// Counts of sub-agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubagentStats {
    /// Started.
    pub spawned: Option<u64>,
    /// Ended by themselves.
    pub completed: Option<u64>,
    /// Failed.
    pub failed: Option<u64>,
    /// Stopped by the agent that started them.
    pub killed_by_parent: Option<u64>,
    /// Stopped by the user.
    pub killed_by_user: Option<u64>,
    /// Stopped by the CLI, for example at the end of the turn (B01).
    pub killed_by_system: Option<u64>,
    /// Never started, for whatever reason.
    pub refused: Option<u64>,
}

impl SubagentStats {
    fn read(stats: &Object<'_>) -> Self {
        let killed = stats.object("killed");
        let killed = |key| killed.as_ref().and_then(|killed| killed.u64(key));
        Self {
            spawned: stats.u64("spawned"),
            completed: stats.u64("completed"),
            failed: stats.u64("failed"),
            killed_by_parent: killed("parent"),
            killed_by_user: killed("user"),
            killed_by_system: killed("system"),
            // A count, or a count for each reason.
            refused: stats.raw("refused").and_then(|raw| match raw.kind() {
                b'{' => stats.object("refused").map(|reasons| {
                    reasons.entries().filter_map(|(_, raw)| count(raw)).fold(0, u64::saturating_add)
                }),
                _ => stats.u64("refused"),
            }),
        }
    }
}

fn by_model(line: &Object<'_>, key: &'static str) -> Option<BTreeMap<String, ModelUsage>> {
    let models = line.object(key)?;
    let read = |(model, raw): (&str, _)| {
        let usage = Object::from_raw(raw, key, line.line())?;
        let cost_usd = cost(&usage, "costUSD").or_else(|| cost(&usage, "cost_usd"));
        let context_window = usage.u64("contextWindow");
        Some((model.to_owned(), ModelUsage { tokens: Tokens::read(&usage), cost_usd, context_window }))
    };
    Some(models.entries().filter_map(read).collect())
}

fn cost(object: &Object<'_>, key: &'static str) -> Option<f64> {
    object.raw(key).and_then(number).filter(|cost| (0.0..=MAX_COST).contains(cost))
}

/// An entry of `errors`: a string, or an object with a `message`.
fn message_of<'a>(raw: Raw<'a>, line: &Object<'a>) -> Option<String> {
    match raw.kind() {
        b'"' => text(raw, MAX_EXCERPT).map(Into::into),
        b'{' => Object::from_raw(raw, "errors", line.line())?.text("message", MAX_EXCERPT),
        _ => None,
    }
}
