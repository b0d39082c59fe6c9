//! What the CLI asked, for predicates of a script and for assertions.

use serde_json::Value;

/// One request for a message.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Header names are lower-case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body of `POST /v1/messages`.
    pub(crate) body: Value,
}

impl Request {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The model asked for.
    pub(crate) fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// The session that asks.
    pub(crate) fn session(&self) -> &str {
        self.header("x-claude-code-session-id").unwrap_or_default()
    }

    fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The text blocks of the last user message, joined by line ends. The CLI adds its reminders to it.
    pub(crate) fn last_user_text(&self) -> String {
        self.messages().iter().rev().find(|m| m["role"] == "user").map(text_of).unwrap_or_default()
    }

    /// The text blocks of all user messages.
    pub(crate) fn user_text(&self) -> String {
        self.messages().iter().filter(|m| m["role"] == "user").map(text_of).collect::<Vec<_>>().join("\n")
    }

    /// The tool results of the last message: text and whether it is an error.
    pub(crate) fn tool_results(&self) -> Vec<(String, bool)> {
        let Some(blocks) = self.messages().last().and_then(|m| m["content"].as_array()) else {
            return Vec::new();
        };
        let results = blocks.iter().filter(|block| block["type"] == "tool_result");
        results.map(|b| (blocks_text(&b["content"]), b["is_error"] == true)).collect()
    }

    /// The definition of a tool that the request offers.
    pub(crate) fn tool(&self, tool: &str) -> Option<&Value> {
        self.body["tools"].as_array()?.iter().find(|offered| offered["name"] == tool)
    }
}

fn text_of(message: &Value) -> String {
    blocks_text(&message["content"])
}

fn blocks_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
