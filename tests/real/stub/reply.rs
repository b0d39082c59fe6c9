//! What the stub answers: a value, built by the test that needs it.

use serde_json::{Value, json};

/// One answer of the Messages API, or one way of failing to give it.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(super) kind: Kind,
    pub(super) headers: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Message(Message),
    Error {
        status: u16,
        kind: String,
        message: String,
    },
    /// A message that ends in an `error` event after its first block.
    StreamError {
        kind: String,
        message: String,
    },
    /// The connection is closed after the first block.
    CutAfterBlock,
    /// Headers of an event stream, then nothing until the stub ends.
    SilentAfterHeaders,
    /// Not even headers until the stub ends.
    NeverAnswered,
}

/// A message of the assistant.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) content: Vec<Value>,
    pub(super) stop_reason: String,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

impl Reply {
    fn new(kind: Kind) -> Self {
        Self { kind, headers: Vec::new() }
    }

    fn message(content: Vec<Value>) -> Self {
        let stop_reason = "end_turn".to_owned();
        Self::new(Kind::Message(Message { content, stop_reason, input_tokens: 100, output_tokens: 10 }))
    }

    /// A plain text answer, `end_turn`.
    pub(crate) fn text(text: &str) -> Self {
        Self::message(vec![json!({"type": "text", "text": text})])
    }

    /// A call of a tool, which the CLI really runs; it asks again with the tool result.
    pub(crate) fn tool(name: &str, input: &Value) -> Self {
        Self::message(Vec::new()).and_tool(name, input)
    }

    /// A call of the `Bash` tool.
    pub(crate) fn bash(command: &str) -> Self {
        Self::tool("Bash", &json!({"command": command, "description": "a step of the test"}))
    }

    /// A session report, the way the CLI takes the output of `--json-schema`; it ends the turn.
    pub(crate) fn report(status: &str) -> Self {
        Self::report_with(status, &json!({}))
    }

    /// A session report with more fields, or others.
    pub(crate) fn report_with(status: &str, more: &Value) -> Self {
        let mut report = json!({
            "status": status, "summary": format!("A session that ends {status}."),
            "agent_summary": {"complete": 1, "partial": 0, "failed": 0, "spiral": 0},
            "effectiveness": {"planned_issues": 1, "completed": 1, "carryover": 0, "emergent": 0},
        });
        for (key, value) in more.as_object().expect("the fields of a report are an object") {
            report[key] = value.clone();
        }
        Self::tool("StructuredOutput", &report)
    }

    /// Adds a tool call to the same message.
    pub(crate) fn and_tool(mut self, name: &str, input: &Value) -> Self {
        if let Kind::Message(message) = &mut self.kind {
            // The id is made unique for each answer when it is sent.
            message.content.push(json!({"type": "tool_use", "name": name, "input": input}));
            "tool_use".clone_into(&mut message.stop_reason);
        }
        self
    }

    /// An HTTP error with the body of the API.
    pub(crate) fn error(status: u16, kind: &str, message: &str) -> Self {
        Self::new(Kind::Error { status, kind: kind.to_owned(), message: message.to_owned() })
    }

    /// A message that breaks off with an `error` event.
    pub(crate) fn stream_error(kind: &str, message: &str) -> Self {
        Self::new(Kind::StreamError { kind: kind.to_owned(), message: message.to_owned() })
    }

    /// A connection closed after the first block.
    pub(crate) fn cut() -> Self {
        Self::new(Kind::CutAfterBlock)
    }

    /// Headers, then silence.
    pub(crate) fn silent() -> Self {
        Self::new(Kind::SilentAfterHeaders)
    }

    /// Silence from the start.
    pub(crate) fn never() -> Self {
        Self::new(Kind::NeverAnswered)
    }

    /// A usage limit of a subscription, as the API tells it (claude-code §2, field-reports O2).
    pub(crate) fn usage_limit(resets_at: i64) -> Self {
        Self::error(429, "rate_limit_error", "This request would exceed your account's rate limit.")
            .header("anthropic-ratelimit-unified-status", "rejected")
            .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
            .header("anthropic-ratelimit-unified-reset", &resets_at.to_string())
            .header("anthropic-ratelimit-unified-5h-status", "rejected")
            .header("anthropic-ratelimit-unified-5h-utilization", "1")
            .header("anthropic-ratelimit-unified-5h-reset", &resets_at.to_string())
    }

    /// Adds a response header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets `stop_reason` of a message.
    pub(crate) fn stop_reason(mut self, reason: &str) -> Self {
        if let Kind::Message(message) = &mut self.kind {
            reason.clone_into(&mut message.stop_reason);
        }
        self
    }

    /// Sets the tokens a message says it cost.
    pub(crate) fn usage(mut self, input: u64, output: u64) -> Self {
        if let Kind::Message(message) = &mut self.kind {
            (message.input_tokens, message.output_tokens) = (input, output);
        }
        self
    }
}
