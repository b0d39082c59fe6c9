//! `control_request` and `control_response` as the CLI sends them (claude-code §5).
//!
//! Pitfall: the CLI waits for the answer to a request. One that is not understood has to be answered too
//! ([`crate::protocol::control::refuse`]), or the turn stands still.

use super::{MAX_EXCERPT, MAX_LABEL, MAX_TEXT};
use crate::protocol::lenient::{Object, RawJson};

/// A question of the CLI.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlRequest {
    /// Names the question in the answer. Without one it cannot be answered.
    pub request_id: Option<String>,
    /// Long strings of the request were cut for its length: what is asked is not known in full, so nothing
    /// may be approved on it.
    pub elided: bool,
    /// What is asked.
    pub request: Request,
}

/// What is asked, by its `subtype`.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// `hook_callback`: one of the hooks that were registered at `initialize`.
    Hook(HookCallback),
    /// `can_use_tool`: a person would be asked for permission here.
    CanUseTool(CanUseTool),
    /// A subtype this version does not know.
    Unknown {
        /// The subtype, if any.
        subtype: Option<String>,
    },
}

/// A call of a registered hook.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookCallback {
    /// The id that was registered for this hook.
    pub callback_id: Option<String>,
    /// The event; `None` if the request does not say.
    pub event: Option<HookEvent>,
    /// The tool about to run (`PreToolUse`).
    pub tool_name: Option<String>,
    /// Its input.
    pub tool_input: Option<RawJson>,
    /// The call.
    pub tool_use_id: Option<String>,
    /// The session.
    pub session_id: Option<String>,
    /// Its transcript file.
    pub transcript_path: Option<String>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Permission mode in force.
    pub permission_mode: Option<String>,
    /// The sub-agent that makes the call; `None` on the main thread.
    pub agent_id: Option<String>,
    /// Whether an earlier stop was already held back by a hook (`Stop`).
    pub stop_hook_active: Option<bool>,
    /// The last text of the model (`Stop`), at most [`MAX_TEXT`].
    pub last_assistant_message: Option<String>,
    /// Number of tasks still running in the background (`Stop`); `None` if the request does not say.
    pub background_tasks: Option<usize>,
}

/// The event a hook is called for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookEvent {
    /// Before a tool runs.
    PreToolUse,
    /// The main thread is about to end its turn. Not the end: only a result is (B05).
    Stop,
    /// A sub-agent is about to end.
    SubagentStop,
    /// An event this version does not know.
    Unknown(String),
}

/// A permission prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CanUseTool {
    /// The tool.
    pub tool_name: Option<String>,
    /// Its input.
    pub input: Option<RawJson>,
    /// The call.
    pub tool_use_id: Option<String>,
    /// The sub-agent that makes the call; `None` on the main thread.
    pub agent_id: Option<String>,
    /// Rules that a person could add.
    pub permission_suggestions: Option<RawJson>,
    /// The path outside the allowed directories, if that is the reason.
    pub blocked_path: Option<String>,
    /// Why permission is needed.
    pub decision_reason: Option<String>,
}

/// The answer to one of our requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ControlResponse {
    /// The request it answers.
    pub request_id: Option<String>,
    /// Whether it was carried out.
    pub success: bool,
    /// Why not.
    pub error: Option<String>,
    /// What it brought.
    pub response: Option<RawJson>,
}

impl ControlRequest {
    pub(super) fn read(line: &Object<'_>) -> Self {
        let request = line.object("request").map_or(Request::Unknown { subtype: None }, |request| {
            match &*request.str("subtype").unwrap_or_default() {
                "hook_callback" => Request::Hook(HookCallback::read(&request)),
                "can_use_tool" => Request::CanUseTool(CanUseTool::read(&request)),
                _ => Request::Unknown { subtype: request.text("subtype", MAX_LABEL) },
            }
        });
        Self { request_id: line.string("request_id"), elided: false, request }
    }
}

impl HookCallback {
    fn read(request: &Object<'_>) -> Self {
        let callback_id = request.string("callback_id");
        let Some(input) = request.object("input") else {
            return Self { callback_id, tool_use_id: request.string("tool_use_id"), ..Self::default() };
        };
        Self {
            callback_id,
            event: input.str("hook_event_name").map(|event| match &*event {
                "PreToolUse" => HookEvent::PreToolUse,
                "Stop" => HookEvent::Stop,
                "SubagentStop" => HookEvent::SubagentStop,
                other => HookEvent::Unknown(other.to_owned()),
            }),
            tool_name: input.string("tool_name"),
            tool_input: input.json("tool_input"),
            tool_use_id: input.string("tool_use_id").or_else(|| request.string("tool_use_id")),
            session_id: input.string("session_id"),
            transcript_path: input.string("transcript_path"),
            cwd: input.string("cwd"),
            permission_mode: input.string("permission_mode"),
            agent_id: input.string("agent_id"),
            stop_hook_active: input.bool("stop_hook_active"),
            last_assistant_message: input.text("last_assistant_message", MAX_TEXT),
            background_tasks: input.raw("background_tasks").map(|_| input.list("background_tasks").len()),
        }
    }
}

impl CanUseTool {
    fn read(request: &Object<'_>) -> Self {
        Self {
            tool_name: request.string("tool_name"),
            input: request.json("input"),
            tool_use_id: request.string("tool_use_id"),
            agent_id: request.string("agent_id"),
            permission_suggestions: request.json("permission_suggestions"),
            blocked_path: request.string("blocked_path"),
            decision_reason: request.text("decision_reason", MAX_EXCERPT),
        }
    }
}

impl ControlResponse {
    /// The names of the slash commands that the answer to `initialize` offers, without the slash. `None` when it
    /// names none: the CLI always has some of its own.
    #[must_use]
    pub fn commands(&self) -> Option<Vec<String>> {
        let value = self.response.as_ref()?.to_value()?;
        let commands = value.get("commands")?.as_array()?;
        let name = |command: &serde_json::Value| Some(command.get("name")?.as_str()?.to_owned());
        let names: Vec<String> = commands.iter().filter_map(name).collect();
        (!names.is_empty()).then_some(names)
    }

    pub(super) fn read(line: &Object<'_>) -> Self {
        let Some(response) = line.object("response") else { return Self::default() };
        Self {
            request_id: response.string("request_id").or_else(|| line.string("request_id")),
            success: response.str("subtype").is_some_and(|subtype| subtype == "success"),
            error: response.text("error", MAX_EXCERPT),
            response: response.json("response"),
        }
    }
}
