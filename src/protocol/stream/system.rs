//! `system` messages: the life of the session, its tasks and its tools (claude-code §2).

use super::{MAX_EXCERPT, MAX_LABEL};
use crate::protocol::lenient::Object;

/// A `system` message, by its `subtype`.
#[derive(Debug, Clone, PartialEq)]
pub enum System {
    /// `init`: a turn begins. Repeated on every turn of one process (A17).
    Init(Init),
    /// `api_retry`: a request failed and will be repeated. A sign of life, not a failure (C07).
    ApiRetry(ApiRetry),
    /// `permission_denied`: a tool call was refused.
    PermissionDenied(PermissionDenied),
    /// `task_started`, `task_progress`, `task_updated`, `task_notification`.
    Task(Task),
    /// `background_tasks_changed`: the tasks that run in the background now.
    BackgroundTasks(Vec<Task>),
    /// `status`, for example `compacting`.
    Status(Status),
    /// `compact_boundary`: the conversation was compacted.
    CompactBoundary(CompactBoundary),
    /// `hook_started`, `hook_progress`, `hook_response`: a hook of a plugin or of the user's settings.
    Hook(Hook),
    /// A subtype this version does not know.
    Unknown {
        /// The subtype, if any.
        subtype: Option<String>,
    },
}

/// The start of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Init {
    /// Working directory.
    pub cwd: Option<String>,
    /// Model of the main thread.
    pub model: Option<String>,
    /// Permission mode in force.
    pub permission_mode: Option<String>,
    /// Where the API key comes from; `none` for a subscription.
    pub api_key_source: Option<String>,
    /// Version of the CLI.
    pub claude_code_version: Option<String>,
    /// Names of the tools on offer.
    pub tools: Vec<String>,
    /// Names of the slash commands on offer, without the slash.
    pub slash_commands: Vec<String>,
    /// Names of the loaded plugins.
    pub plugins: Vec<String>,
    /// Names of what the control protocol can do.
    pub capabilities: Vec<String>,
    /// MCP servers and how their start went.
    pub mcp_servers: Vec<McpServer>,
}

/// An MCP server of the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: Option<String>,
    /// `connected`, `failed`, `needs-auth`, …
    pub status: Option<String>,
}

/// A request that will be repeated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiRetry {
    /// Number of this attempt, from 1.
    pub attempt: Option<u64>,
    /// Attempts before the turn fails.
    pub max_retries: Option<u64>,
    /// Pause before the next attempt, in milliseconds; has a fraction.
    pub retry_delay_ms: Option<f64>,
    /// HTTP status; `None` when there was no response.
    pub error_status: Option<u64>,
    /// Class: `authentication_failed`, `rate_limit`, `overloaded`, `server_error`, `unknown`, …
    pub error: Option<String>,
}

/// A refused tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionDenied {
    /// The tool.
    pub tool_name: Option<String>,
    /// The call.
    pub tool_use_id: Option<String>,
    /// The sub-agent that made it, if one did.
    pub agent_id: Option<String>,
    /// What the model was told.
    pub message: Option<String>,
}

/// A background command or a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// What happened to it.
    pub phase: TaskPhase,
    /// Its identity.
    pub task_id: Option<String>,
    /// The tool call that started it.
    pub tool_use_id: Option<String>,
    /// `local_bash`, `local_agent`, …
    pub task_type: Option<String>,
    /// Kind of sub-agent.
    pub subagent_type: Option<String>,
    /// `running`, `completed`, `failed`, `stopped`, …
    pub status: Option<String>,
    /// Whether the turn goes on without waiting for it.
    pub is_backgrounded: Option<bool>,
    /// What it is for, or what came of it.
    pub description: Option<String>,
    /// Tokens it used so far.
    pub total_tokens: Option<u64>,
}

/// What a task message reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskPhase {
    /// `task_started`.
    Started,
    /// `task_progress`.
    Progress,
    /// `task_updated`.
    Updated,
    /// `task_notification`: the task ended, one way or another.
    Notification,
    /// One of `background_tasks_changed`.
    Listed,
}

/// A change of the session's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// `compacting`, …; `None` when the state ended.
    pub status: Option<String>,
    /// Permission mode in force.
    pub permission_mode: Option<String>,
    /// Why a compaction failed.
    pub compact_error: Option<String>,
}

/// A compaction that is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactBoundary {
    /// `auto` or `manual`.
    pub trigger: Option<String>,
    /// Tokens in the context before.
    pub pre_tokens: Option<u64>,
    /// Tokens in the context after.
    pub post_tokens: Option<u64>,
}

/// A hook that runs inside the CLI (not one of ours, those are control requests).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hook {
    /// The message's subtype: `hook_started`, `hook_progress`, `hook_response`.
    pub phase: String,
    /// Name of the hook.
    pub hook_name: Option<String>,
    /// The event it is for, for example `SessionStart`.
    pub hook_event: Option<String>,
    /// `success`, `error`, `cancelled`, …
    pub outcome: Option<String>,
    /// Exit status of its command.
    pub exit_code: Option<u64>,
}

impl System {
    pub(super) fn read(message: &Object<'_>) -> Self {
        let subtype = message.str("subtype").unwrap_or_default();
        match &*subtype {
            "init" => Self::Init(Init::read(message)),
            "api_retry" => Self::ApiRetry(ApiRetry {
                attempt: message.u64("attempt"),
                max_retries: message.u64("max_retries"),
                retry_delay_ms: message.f64("retry_delay_ms").filter(|delay| *delay >= 0.0),
                error_status: message.u64("error_status"),
                error: message.string("error"),
            }),
            "permission_denied" => Self::PermissionDenied(PermissionDenied {
                tool_name: message.string("tool_name"),
                tool_use_id: message.string("tool_use_id"),
                agent_id: message.string("agent_id"),
                message: message.text("message", MAX_EXCERPT),
            }),
            "task_started" => Self::Task(Task::read(message, TaskPhase::Started)),
            "task_progress" => Self::Task(Task::read(message, TaskPhase::Progress)),
            "task_updated" => Self::Task(Task::read(message, TaskPhase::Updated)),
            "task_notification" => Self::Task(Task::read(message, TaskPhase::Notification)),
            "background_tasks_changed" => Self::BackgroundTasks(
                message.objects("tasks").map(|task| Task::read(&task, TaskPhase::Listed)).collect(),
            ),
            "status" => Self::Status(Status {
                status: message.string("status"),
                permission_mode: message.string("permissionMode"),
                compact_error: message.text("compact_error", MAX_EXCERPT),
            }),
            "compact_boundary" => Self::CompactBoundary(message.object("compact_metadata").map_or_else(
                Default::default,
                |meta| CompactBoundary {
                    trigger: meta.string("trigger"),
                    pre_tokens: meta.u64("pre_tokens"),
                    post_tokens: meta.u64("post_tokens"),
                },
            )),
            "hook_started" | "hook_progress" | "hook_response" => Self::Hook(Hook {
                phase: subtype.into_owned(),
                hook_name: message.string("hook_name"),
                hook_event: message.string("hook_event"),
                outcome: message.string("outcome"),
                exit_code: message.u64("exit_code"),
            }),
            _ => Self::Unknown { subtype: message.text("subtype", MAX_LABEL) },
        }
    }
}

impl Init {
    fn read(message: &Object<'_>) -> Self {
        Self {
            cwd: message.string("cwd"),
            model: message.string("model"),
            permission_mode: message.string("permissionMode"),
            api_key_source: message.string("apiKeySource"),
            claude_code_version: message.string("claude_code_version"),
            tools: message.names("tools"),
            slash_commands: message.names("slash_commands"),
            plugins: message.names("plugins"),
            capabilities: message.names("capabilities"),
            mcp_servers: message
                .objects("mcp_servers")
                .map(|server| McpServer { name: server.string("name"), status: server.string("status") })
                .collect(),
        }
    }
}

impl Task {
    /// `task_updated` carries what changed under `patch`, the other messages on the top level.
    fn read(message: &Object<'_>, phase: TaskPhase) -> Self {
        let patch = message.object("patch");
        let place = |key| patch.as_ref().filter(|patch| patch.raw(key).is_some()).unwrap_or(message);
        Self {
            phase,
            task_id: message.string("task_id").or_else(|| message.string("id")),
            tool_use_id: message.string("tool_use_id"),
            task_type: message
                .string("task_type")
                .or_else(|| message.string("type").filter(|kind| kind != "system")),
            subagent_type: message.string("subagent_type"),
            status: place("status").string("status"),
            is_backgrounded: place("is_backgrounded").bool("is_backgrounded"),
            description: message
                .text("summary", MAX_EXCERPT)
                .or_else(|| message.text("description", MAX_EXCERPT)),
            total_tokens: place("usage").object("usage").and_then(|usage| usage.u64("total_tokens")),
        }
    }
}
