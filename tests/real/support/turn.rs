//! A conversation with the CLI itself, the way the product talks to it: JSON lines both ways (claude-code §5).

use std::time::Duration;

use serde_json::{Value, json};

use super::child::Program;
use super::night::Night;
use super::wait::STEP;

/// The arguments without which there is no stream.
pub(crate) const STREAM: [&str; 6] =
    ["-p", "--verbose", "--output-format", "stream-json", "--input-format", "stream-json"];

/// The CLI with an open stdin.
pub(crate) struct Turn {
    pub(crate) program: Program,
}

impl Turn {
    /// Starts the CLI with [`STREAM`] and `arguments`.
    pub(crate) fn start(night: &Night, arguments: &[&str]) -> Self {
        Self { program: night.claude(&[&STREAM[..], arguments].concat()) }
    }

    /// Writes one message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.program.write_line(&message.to_string());
    }

    /// Asks for hooks before every tool call and at the end of the turn, and waits for the answer.
    /// Gives the time of the answer since the start of the process, and the answer.
    pub(crate) fn initialize(&mut self) -> (Duration, Value) {
        self.initialize_with(&json!({
            "PreToolUse": [{"matcher": "*", "hookCallbackIds": ["pre"]}],
            "Stop": [{"hookCallbackIds": ["stop"]}],
        }))
    }

    /// The same with other hooks.
    pub(crate) fn initialize_with(&mut self, hooks: &Value) -> (Duration, Value) {
        self.send(&json!({
            "type": "control_request", "request_id": "r1",
            "request": {"subtype": "initialize", "hooks": hooks},
        }));
        self.next_where("answer to initialize", |line| {
            line["type"] == "control_response" && line["response"]["request_id"] == "r1"
        })
    }

    /// Sends a prompt.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.send(&json!({
            "type": "user", "message": {"role": "user", "content": text},
            "parent_tool_use_id": null, "session_id": "default",
        }));
    }

    /// The next line of this type.
    pub(crate) fn next(&mut self, kind: &str) -> Value {
        self.next_where(kind, |line| line["type"] == kind).1
    }

    /// The next result, with everything that asks on the way answered by an empty object, which leaves the CLI's own rules
    /// in force.
    pub(crate) fn result(&mut self) -> Value {
        loop {
            let (_, line) = self.next_where("result", |line| {
                line["type"] == "result" || line["request"]["subtype"] == "hook_callback"
            });
            if line["type"] == "result" {
                return line;
            }
            self.respond(&line["request_id"], &json!({}));
        }
    }

    /// The next line that fits, and its time since the start of the process.
    pub(crate) fn next_where(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> (Duration, Value) {
        self.program.next_line(what, STEP, |line| {
            let line = serde_json::from_str(line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}"));
            fits(&line).then_some(line)
        })
    }

    /// Waits for a hook callback and answers it. Gives the callback's `input`.
    pub(crate) fn answer_hook(&mut self, callback: &str, response: &Value) -> Value {
        let (_, line) = self.next_where(&format!("callback {callback}"), |line| {
            line["type"] == "control_request" && line["request"]["callback_id"] == callback
        });
        self.respond(&line["request_id"], response);
        line["request"]["input"].clone()
    }

    /// Answers a control request.
    pub(crate) fn respond(&mut self, request_id: &Value, response: &Value) {
        self.send(&json!({
            "type": "control_response",
            "response": {"subtype": "success", "request_id": request_id, "response": response},
        }));
    }

    /// All lines of stdout so far.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = self.program.stdout();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Closes stdin and gives the exit code.
    pub(crate) fn close(mut self) -> Option<i32> {
        self.program.close_stdin();
        self.program.wait(STEP).code()
    }
}
