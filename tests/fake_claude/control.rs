//! Stdin. A thread reads it, so that a driver which writes is never blocked by a script that is busy,
//! answers what the CLI answers at any time (`initialize`, `interrupt`), and hands the rest over.

use std::io::{BufRead as _, BufReader, Read as _, stdin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::out::Out;
use crate::state::Call;

/// What stdin had to say.
#[derive(Debug)]
pub(crate) enum Input {
    /// A prompt: all of plain input, or one `user` line.
    Prompt(String),
    /// The answer to one of our requests, by its `request_id`.
    Answer(String, Value),
    /// The driver wants the turn to end.
    Interrupt,
    /// Stdin is closed.
    Eof,
}

/// What the driver registered with `initialize`.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    registered: Mutex<Value>,
    /// Bytes read so far: plain input that has begun is waited for.
    pub(crate) bytes: AtomicUsize,
}

impl Hooks {
    /// The callbacks of the driver for `event`, those that match `tool` where there is one.
    pub(crate) fn callbacks(&self, event: &str, tool: Option<&str>) -> Vec<String> {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let matchers = registered[event].as_array().into_iter().flatten();
        matchers
            .filter(|m| match (m["matcher"].as_str(), tool) {
                (None | Some("" | "*"), _) | (_, None) => true,
                (Some(names), Some(tool)) => names.split('|').any(|name| name == tool),
            })
            .filter_map(|m| m["hookCallbackIds"].as_array())
            .flatten()
            .filter_map(|id| Some(id.as_str()?.to_owned()))
            .collect()
    }
}

/// How to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All of stdin is the prompt.
    Plain,
    /// JSON lines, control requests answered.
    Control,
    /// JSON lines, control requests ignored: a CLI from before the protocol.
    Deaf,
}

/// Reads to the end; meant for a thread of its own.
pub(crate) fn read(mode: Mode, call: &Arc<Call>, hooks: &Hooks, out: &Out, to: &Sender<Input>) {
    if mode == Mode::Plain {
        read_plain(call, hooks, to);
    } else {
        read_lines(mode, call, hooks, out, to);
    }
    // Nobody listens any more when the script is over.
    to.send(Input::Eof).ok();
}

fn read_plain(call: &Call, hooks: &Hooks, to: &Sender<Input>) {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    while let Ok(n @ 1..) = stdin().lock().read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..n]);
        hooks.bytes.fetch_add(n, Ordering::SeqCst);
    }
    call.update(|r| r["stdin_bytes"] = bytes.len().into());
    to.send(Input::Prompt(String::from_utf8_lossy(&bytes).into_owned())).ok();
}

fn read_lines(mode: Mode, call: &Arc<Call>, hooks: &Hooks, out: &Out, to: &Sender<Input>) {
    let mut reader = BufReader::new(stdin());
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let total = hooks.bytes.fetch_add(line.len(), Ordering::SeqCst) + line.len();
        call.update(|r| r["stdin_bytes"] = total.into());
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            if line.iter().all(u8::is_ascii_whitespace) {
                line.clear();
                continue;
            }
            out.stderr(
                format!("Error parsing streaming input line: {}\n", String::from_utf8_lossy(&line))
                    .as_bytes(),
            );
            call.leave(1)
        };
        line.clear();
        let input = match message["type"].as_str() {
            Some("user") => Some(Input::Prompt(prompt_text(&message["message"]["content"]))),
            Some("control_request") if mode == Mode::Control => control(call, hooks, out, &message),
            Some("control_response") => {
                let response = &message["response"];
                let id = response["request_id"].as_str().unwrap_or_default().to_owned();
                Some(Input::Answer(id, response.clone()))
            }
            _ => None,
        };
        if input.is_some_and(|input| to.send(input).is_err()) {
            return;
        }
    }
}

fn control(call: &Call, hooks: &Hooks, out: &Out, message: &Value) -> Option<Input> {
    let request = &message["request"];
    let (id, subtype) = (&message["request_id"], request["subtype"].as_str().unwrap_or_default());
    call.push("controls", message.clone());
    match subtype {
        "initialize" => {
            *hooks.registered.lock().unwrap_or_else(PoisonError::into_inner) = request["hooks"].clone();
            answer(
                out,
                id,
                &json!({"commands": [], "output_style": "default", "available_output_styles": ["default"],
                "models": [], "account": {}, "pid": std::process::id()}),
            );
            None
        }
        "interrupt" => {
            answer(out, id, &json!({}));
            Some(Input::Interrupt)
        }
        "set_permission_mode" | "set_model" | "set_max_thinking_tokens" => {
            answer(out, id, &json!({}));
            None
        }
        other => {
            let error = format!("Unsupported control request subtype: {other}");
            out.line(&json!({"type": "control_response",
                "response": {"subtype": "error", "request_id": id, "error": error}}));
            None
        }
    }
}

fn answer(out: &Out, id: &Value, response: &Value) {
    out.line(&json!({"type": "control_response",
        "response": {"subtype": "success", "request_id": id, "response": response}}));
}

fn prompt_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
