//! One line of stream-json → messages and anomalies.
//!
//! Theory: the envelope (`type`, `subtype`, ids) of every line is read; the rest only as far as the driver
//! needs it. Most bytes of a stream are partial-message deltas and the output of tools, of which the
//! envelope, or a short head, is all that is read. Key order is free, every field is optional, wrong types
//! read as absent, unknown labels are kept as [`Body::Unknown`] for the count (claude-code §2, field-reports
//! C01, C04, C06, C11).
//!
//! Invariants: [`parse_line`] never fails and never panics; a line that is not one JSON object (or a list
//! of them) yields exactly one anomaly for which [`Anomaly::is_bad_line`] holds.

mod conversation;
mod rate_limit;
mod request;
mod result;
mod salvage;
mod system;

use std::{borrow::Cow, fmt};

pub use self::{
    conversation::{Assistant, Block, PermissionDecision, SYNTHETIC_MODEL, ToolResult, User},
    rate_limit::{LimitStatus, LimitWindow, RateLimit},
    request::{CanUseTool, ControlRequest, ControlResponse, HookCallback, HookEvent, Request},
    result::{ModelUsage, PermissionDenial, SubagentStats, Tokens, TurnResult},
    system::{
        ApiRetry, CompactBoundary, Hook, Init, McpServer, PermissionDenied, Status, System, Task, TaskPhase,
    },
};
use super::{
    frame::Frame,
    lenient::{Line, Object},
    raw::Raw,
};

/// Longest text kept of an assistant text block and of a result, in raw bytes.
pub const MAX_TEXT: usize = 64 * 1024;
/// Longest text kept of a tool result, a user message or an explanation, in raw bytes.
pub const MAX_EXCERPT: usize = 4 * 1024;
/// Longest sample kept of a line that could not be read, in bytes.
pub const MAX_SAMPLE: usize = 200;
/// Longest label (`type`, `subtype`) kept of an unknown message, in raw bytes.
const MAX_LABEL: usize = 64;
/// Messages taken from one line.
const MAX_MESSAGES: usize = 1024;

/// What a line said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The messages, in their order on the line. One for an ordinary line.
    pub messages: Vec<Message>,
    /// What was wrong with the line; empty for an ordinary one.
    pub anomalies: Vec<Anomaly>,
}

/// One message of the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The session it belongs to. The line of a failed `--resume` echoes the requested id (H11).
    pub session_id: Option<String>,
    /// Identity of the message.
    pub uuid: Option<String>,
    /// The tool call that started the sub-agent this message comes from; `None` on the main thread.
    pub parent_tool_use_id: Option<String>,
    /// What it says.
    pub body: Body,
}

/// What a message says, by its `type`.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// `system`: life of the session and its tasks.
    System(Box<System>),
    /// `rate_limit_event`: state of the subscription's usage windows.
    RateLimit(Box<RateLimit>),
    /// `assistant`: a message of the model, or an API failure in its clothes.
    Assistant(Box<Assistant>),
    /// `user`: results of tools, prompts of sub-agents, notes of the CLI.
    User(Box<User>),
    /// `result`: the end of a turn (a process may emit several, A17).
    Result(Box<TurnResult>),
    /// `control_request`: the CLI asks and waits for a [`ControlResponse`].
    ControlRequest(Box<ControlRequest>),
    /// `control_response`: the answer to one of our requests.
    ControlResponse(Box<ControlResponse>),
    /// `control_cancel_request`: the CLI no longer waits for an answer.
    ControlCancel {
        /// The request that is void now.
        request_id: Option<String>,
    },
    /// `stream_event`, `tool_progress`, `keep_alive`: a sign of life, not read any further.
    Alive,
    /// A `type` this version does not know: a sign of life and a count, never an error (C06).
    Unknown {
        /// The `type`; empty if there was none.
        kind: String,
        /// The `subtype`, if any.
        subtype: Option<String>,
    },
}

impl Message {
    /// `type/subtype` of a message that this version does not know, for the counter by label.
    pub fn unknown_label(&self) -> Option<String> {
        match &self.body {
            Body::Unknown { kind, subtype: Some(subtype) } => Some(format!("{kind}/{subtype}")),
            Body::Unknown { kind, subtype: None } => Some(kind.clone()),
            Body::System(system) => match &**system {
                System::Unknown { subtype } => {
                    Some(format!("system/{}", subtype.as_deref().unwrap_or_default()))
                }
                _ => None,
            },
            Body::ControlRequest(request) => match &request.request {
                Request::Unknown { subtype } => {
                    Some(format!("control_request/{}", subtype.as_deref().unwrap_or_default()))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// Something about a line that is not as documented. Counted and reported, never fatal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anomaly {
    /// Not JSON, and no message in it: a banner, a debug print, half of a torn line (C04, C01).
    NotJson {
        /// Length of the line in bytes.
        len: usize,
        /// Its beginning, at most [`MAX_SAMPLE`] bytes.
        sample: String,
    },
    /// Not one JSON value, but whole messages were found in it and are delivered (C01).
    Glued {
        /// Number of messages found.
        salvaged: usize,
        /// The line's beginning, at most [`MAX_SAMPLE`] bytes.
        sample: String,
    },
    /// JSON, but not an object (a number, a string, a list item of that kind).
    NotAnObject {
        /// Its beginning, at most [`MAX_SAMPLE`] bytes.
        sample: String,
    },
    /// The stream ended inside a line that cannot be read as it is (C02).
    TruncatedTail {
        /// Length of the tail in bytes.
        len: u64,
        /// Its beginning, at most [`MAX_SAMPLE`] bytes.
        sample: String,
    },
    /// The line was skipped for its length (C05).
    Oversized {
        /// Length of the line in bytes.
        len: u64,
        /// Its beginning, at most [`MAX_SAMPLE`] bytes.
        sample: String,
    },
    /// The line's long strings were cut for its length (C05).
    Elided {
        /// Length of the line in bytes.
        len: u64,
    },
    /// Bytes that are not UTF-8 were replaced by U+FFFD (C11).
    InvalidUtf8,
    /// A known field holds a type it is not documented to hold; it reads as absent (C06).
    WrongType {
        /// The field.
        field: &'static str,
    },
    /// A list is longer than what is kept of it.
    TooMany {
        /// The field, or `line` for the messages of one line.
        field: &'static str,
    },
}

impl Anomaly {
    /// Whether the line itself could not be read as documented (the `bad_lines` count of a report).
    pub fn is_bad_line(&self) -> bool {
        match self {
            Self::NotJson { .. }
            | Self::Glued { .. }
            | Self::NotAnObject { .. }
            | Self::TruncatedTail { .. }
            | Self::Oversized { .. } => true,
            Self::Elided { .. } | Self::InvalidUtf8 | Self::WrongType { .. } | Self::TooMany { .. } => false,
        }
    }

    /// A short fixed name, for counters.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotJson { .. } => "not_json",
            Self::Glued { .. } => "glued",
            Self::NotAnObject { .. } => "not_an_object",
            Self::TruncatedTail { .. } => "truncated_tail",
            Self::Oversized { .. } => "oversized",
            Self::Elided { .. } => "elided",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::WrongType { .. } => "wrong_type",
            Self::TooMany { .. } => "too_many",
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { len, sample } => write!(f, "line of {len} bytes is not JSON: {sample}"),
            Self::Glued { salvaged, sample } => {
                write!(f, "{salvaged} message(s) found inside a torn line: {sample}")
            }
            Self::NotAnObject { sample } => write!(f, "line is not a JSON object: {sample}"),
            Self::TruncatedTail { len, sample } => {
                write!(f, "stream ended inside a line ({len} bytes): {sample}")
            }
            Self::Oversized { len, sample } => write!(f, "line of {len} bytes skipped: {sample}"),
            Self::Elided { len } => write!(f, "long strings of a line of {len} bytes cut"),
            Self::InvalidUtf8 => f.write_str("bytes that are not UTF-8 replaced"),
            Self::WrongType { field } => write!(f, "field `{field}` has an unexpected type"),
            Self::TooMany { field } => write!(f, "too many items in `{field}`"),
        }
    }
}

/// Reads one frame. Requests of an elided line carry [`ControlRequest::elided`]; an unterminated tail is
/// read like a line, for a writer that died right before the newline.
pub fn parse_frame(frame: Frame<'_>) -> Parsed {
    match frame {
        Frame::Line(line) => parse_line(line),
        Frame::Elided { line, len } => {
            let mut parsed = parse_line(line);
            for message in &mut parsed.messages {
                if let Body::ControlRequest(request) = &mut message.body {
                    request.elided = true;
                }
            }
            parsed.anomalies.push(Anomaly::Elided { len });
            parsed
        }
        Frame::Oversized { len, head } => Parsed {
            messages: Vec::new(),
            anomalies: vec![Anomaly::Oversized { len, sample: sample(&String::from_utf8_lossy(head)) }],
        },
        Frame::Tail { bytes, len } => {
            let mut parsed = parse_line(bytes);
            for anomaly in &mut parsed.anomalies {
                if let Anomaly::NotJson { sample, .. } = anomaly {
                    *anomaly = Anomaly::TruncatedTail { len, sample: std::mem::take(sample) };
                }
            }
            parsed
        }
    }
}

/// Reads one line. A blank line says nothing.
pub fn parse_line(bytes: &[u8]) -> Parsed {
    let line = Line::default();
    // The lossy decoder is several times slower than the strict one.
    let text = str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
    if matches!(text, Cow::Owned(_)) {
        line.note(Anomaly::InvalidUtf8);
    }
    let text = text.trim_start_matches('\u{feff}').trim();
    let mut messages = Vec::new();
    match Raw::parse(text) {
        Some(raw) if raw.kind() == b'[' => read_list(raw, &mut messages, &line),
        Some(raw) => match Object::new(raw, &line) {
            Some(object) => messages.push(Message::read(&object)),
            None => line.note(Anomaly::NotAnObject { sample: sample(text) }),
        },
        None if text.is_empty() => {}
        None => salvage::read(text, &mut messages, &line),
    }
    Parsed { messages, anomalies: line.into_anomalies() }
}

fn read_list(list: Raw<'_>, messages: &mut Vec<Message>, line: &Line) {
    let mut odd = None;
    let mut items = list.parts(line.long());
    for raw in items.by_ref().take(MAX_MESSAGES) {
        match Object::new(raw, line) {
            Some(object) => messages.push(Message::read(&object)),
            None => odd = odd.or(Some(raw)),
        }
    }
    if let Some(raw) = odd {
        line.note(Anomaly::NotAnObject { sample: sample(raw.get()) });
    }
    if items.next().is_some() {
        line.note(Anomaly::TooMany { field: "line" });
    }
}

impl Message {
    fn read(object: &Object<'_>) -> Self {
        let kind = object.str("type").unwrap_or_default();
        let body = match &*kind {
            "stream_event" | "tool_progress" | "keep_alive" => Body::Alive,
            "assistant" => Body::Assistant(Box::new(Assistant::read(object))),
            "user" => Body::User(Box::new(User::read(object))),
            "system" => Body::System(Box::new(System::read(object))),
            "result" => Body::Result(Box::new(TurnResult::read(object))),
            "rate_limit_event" => Body::RateLimit(Box::new(RateLimit::read(object))),
            "control_request" => Body::ControlRequest(Box::new(ControlRequest::read(object))),
            "control_response" => Body::ControlResponse(Box::new(ControlResponse::read(object))),
            "control_cancel_request" => Body::ControlCancel { request_id: object.string("request_id") },
            _ => Body::Unknown {
                kind: object.text("type", MAX_LABEL).unwrap_or_default(),
                subtype: object.text("subtype", MAX_LABEL),
            },
        };
        Self {
            session_id: object.string("session_id"),
            uuid: object.string("uuid"),
            parent_tool_use_id: object.string("parent_tool_use_id"),
            body,
        }
    }

    /// Whether `label` is a `type` that a top-level message of this protocol has.
    fn is_known(label: &str) -> bool {
        matches!(
            label,
            "stream_event"
                | "tool_progress"
                | "assistant"
                | "user"
                | "system"
                | "result"
                | "rate_limit_event"
                | "control_request"
                | "control_response"
                | "control_cancel_request"
        )
    }
}

/// The beginning of a line, for a person to recognise it by.
fn sample(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_SAMPLE)].to_owned()
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
