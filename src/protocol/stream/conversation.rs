//! `assistant` and `user` messages: what the model said, called and was told (claude-code §2).
//!
//! Pitfall: an API failure comes as an assistant message of the model [`SYNTHETIC_MODEL`]. Its text is the
//! program's, not the model's; all other text here is data in which error words mean nothing (E03).

use super::{MAX_EXCERPT, MAX_TEXT, Tokens};
use crate::protocol::{
    lenient::{CUT, Object, RawJson, text},
    raw::Raw,
};

/// The `model` of messages that the CLI wrote itself.
pub const SYNTHETIC_MODEL: &str = "<synthetic>";

/// A message of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assistant {
    /// Identity at the API. One API message may come in several lines, a block each.
    pub message_id: Option<String>,
    /// Model that wrote it; [`SYNTHETIC_MODEL`] for the CLI itself.
    pub model: Option<String>,
    /// Its blocks.
    pub content: Vec<Block>,
    /// Tokens of this API call.
    pub usage: Option<Tokens>,
    /// Why the model stopped; usually absent until the last line of a message.
    pub stop_reason: Option<String>,
    /// Class of an API failure, for example `authentication_failed`.
    pub error: Option<String>,
    /// HTTP status of an API failure.
    pub api_error_status: Option<u64>,
}

/// A block of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Text, at most [`MAX_TEXT`].
    Text(String),
    /// Thinking; its text is not kept.
    Thinking,
    /// A tool call.
    ToolUse {
        /// Identity of the call.
        id: Option<String>,
        /// Name of the tool.
        name: Option<String>,
        /// Its input.
        input: Option<RawJson>,
    },
    /// A block of another type.
    Other {
        /// The type; empty if there was none.
        kind: String,
    },
}

impl Assistant {
    /// Whether the CLI wrote this, not a model.
    pub fn is_synthetic(&self) -> bool {
        self.model.as_deref() == Some(SYNTHETIC_MODEL)
    }

    /// The text blocks, joined with a newline; empty if there are none.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|block| match block {
                Block::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }

    pub(super) fn read(line: &Object<'_>) -> Self {
        let error = line.string("error");
        let api_error_status = line.u64("api_error_status");
        let Some(message) = line.object("message") else {
            return Self { error, api_error_status, ..Self::default() };
        };
        let content = match message.raw("content") {
            Some(raw) if raw.kind() == b'"' => {
                text(raw, MAX_TEXT).map(|text| Block::Text(text.into())).into_iter().collect()
            }
            _ => message.objects("content").map(|block| Block::read(&block)).collect(),
        };
        Self {
            message_id: message.string("id"),
            model: message.string("model"),
            content,
            usage: message.object("usage").map(|usage| Tokens::read(&usage)),
            stop_reason: message.string("stop_reason"),
            error,
            api_error_status,
        }
    }
}

impl Block {
    fn read(block: &Object<'_>) -> Self {
        match &*block.str("type").unwrap_or_default() {
            "text" => Self::Text(block.text("text", MAX_TEXT).unwrap_or_default()),
            "thinking" | "redacted_thinking" => Self::Thinking,
            "tool_use" => Self::ToolUse {
                id: block.string("id"),
                name: block.string("name"),
                input: block.json("input"),
            },
            other => Self::Other { kind: other.to_owned() },
        }
    }
}

/// A message to the model: results of tools, a prompt, or a note of the CLI.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Results of tool calls.
    pub tool_results: Vec<ToolResult>,
    /// Text outside tool results, at most [`MAX_EXCERPT`]: the prompt, or a note such as
    /// `[Request interrupted by user]`.
    pub text: Option<String>,
    /// Whether the CLI wrote it by itself.
    pub is_synthetic: bool,
    /// The sub-agent it belongs to.
    pub agent_id: Option<String>,
    /// How the permission of the tool calls was decided.
    pub permissions: Vec<PermissionDecision>,
}

/// The result of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The call.
    pub tool_use_id: Option<String>,
    /// Whether the tool failed or was refused.
    pub is_error: bool,
    /// The text of it, at most [`MAX_EXCERPT`]. Data, never evidence of a limit or an API failure (E03).
    pub text: String,
}

/// How the permission of a tool call was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionDecision {
    /// The call.
    pub tool_use_id: Option<String>,
    /// `allow`, `deny`, …
    pub decision: Option<String>,
    /// Who decided.
    pub source: Option<String>,
    /// Kind of reason, for example `rule` or `hook`.
    pub reason_type: Option<String>,
}

impl User {
    pub(super) fn read(line: &Object<'_>) -> Self {
        let mut user = Self {
            is_synthetic: line.bool("isSynthetic").unwrap_or_default(),
            agent_id: line.string("agent_id"),
            permissions: line
                .objects("tool_result_meta")
                .filter_map(|meta| PermissionDecision::read(&meta))
                .collect(),
            ..Self::default()
        };
        let Some(message) = line.object("message") else { return user };
        let mut texts = Excerpt::default();
        match message.raw("content") {
            Some(raw) if raw.kind() == b'"' => texts.add(raw),
            _ => {
                for block in message.objects("content") {
                    match &*block.str("type").unwrap_or_default() {
                        "tool_result" => user.tool_results.push(ToolResult::read(&block)),
                        "text" => texts.add_block(&block),
                        _ => {}
                    }
                }
            }
        }
        user.text = texts.0;
        user
    }
}

impl ToolResult {
    fn read(block: &Object<'_>) -> Self {
        let mut text = Excerpt::default();
        match block.raw("content") {
            Some(raw) if raw.kind() == b'"' => text.add(raw),
            Some(raw) if raw.kind() == b'[' => {
                block.objects("content").for_each(|part| text.add_block(&part));
            }
            _ => {}
        }
        Self {
            tool_use_id: block.string("tool_use_id"),
            is_error: block.bool("is_error").unwrap_or_default(),
            text: text.0.unwrap_or_default(),
        }
    }
}

impl PermissionDecision {
    fn read(meta: &Object<'_>) -> Option<Self> {
        let decision = meta.object("permission_decision")?;
        Some(Self {
            tool_use_id: meta.string("tool_use_id"),
            decision: decision.string("decision"),
            source: decision.string("source"),
            reason_type: decision.string("reason_type"),
        })
    }
}

/// Text of several blocks, joined with a newline, of [`MAX_EXCERPT`] in all. `None` until the first one.
#[derive(Default)]
struct Excerpt(Option<String>);

impl Excerpt {
    fn add_block(&mut self, block: &Object<'_>) {
        if let Some(raw) = block.raw("text") {
            self.add(raw);
        }
    }

    fn add(&mut self, raw: Raw<'_>) {
        let used = self.0.as_ref().map_or(0, String::len);
        if used >= MAX_EXCERPT {
            return;
        }
        let Some(part) = text(raw, MAX_EXCERPT - used) else { return };
        match &mut self.0 {
            None => self.0 = Some(part.into_owned()),
            Some(joined) => {
                joined.push('\n');
                joined.push_str(&part);
                if joined.len() >= MAX_EXCERPT && !joined.ends_with(CUT) {
                    joined.push_str(CUT);
                }
            }
        }
    }
}
