//! The fixture files of `fixtures/stream`, each with what it is about.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::json;

use super::*;
use crate::protocol::{RawJson, frame::LineFramer};

/// What a pattern picks out of the items it matches.
macro_rules! pick {
    ($items:expr, $pattern:pat => $picked:expr) => {
        $items
            .filter_map(|item| match item {
                $pattern => Some($picked),
                _ => None,
            })
            .collect()
    };
}

/// One fixture file, parsed.
struct Stream {
    messages: Vec<Message>,
    anomalies: Vec<Anomaly>,
}

impl Stream {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let mut stream = Self { messages: Vec::new(), anomalies: Vec::new() };
        let mut take = |frame: Frame<'_>| {
            let parsed = parse_frame(frame);
            stream.messages.extend(parsed.messages);
            stream.anomalies.extend(parsed.anomalies);
        };
        let mut framer = LineFramer::new();
        for chunk in bytes.chunks(100) {
            framer.push(chunk, &mut take);
        }
        framer.finish(&mut take);
        stream
    }

    fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.messages.iter().map(|message| &message.body)
    }

    fn systems(&self) -> Vec<&System> {
        pick!(self.bodies(), Body::System(system) => &**system)
    }

    fn results(&self) -> Vec<&TurnResult> {
        pick!(self.bodies(), Body::Result(result) => &**result)
    }

    fn assistants(&self) -> Vec<&Assistant> {
        pick!(self.bodies(), Body::Assistant(assistant) => &**assistant)
    }

    fn users(&self) -> Vec<&User> {
        pick!(self.bodies(), Body::User(user) => &**user)
    }

    fn limits(&self) -> Vec<&RateLimit> {
        pick!(self.bodies(), Body::RateLimit(limit) => &**limit)
    }

    fn requests(&self) -> Vec<&ControlRequest> {
        pick!(self.bodies(), Body::ControlRequest(request) => &**request)
    }

    fn inits(&self) -> Vec<&Init> {
        pick!(self.systems().into_iter(), System::Init(init) => init)
    }

    fn retries(&self) -> Vec<&ApiRetry> {
        pick!(self.systems().into_iter(), System::ApiRetry(retry) => retry)
    }

    fn tasks(&self) -> Vec<&Task> {
        pick!(self.systems().into_iter(), System::Task(task) => task)
    }

    fn init(&self) -> &Init {
        self.inits()[0]
    }

    fn result(&self) -> &TurnResult {
        self.results().last().unwrap()
    }

    /// The failed API call at the end: a synthetic message, and a result that says `success` and means it not.
    #[track_caller]
    fn assert_api_failure(&self, error: &str, status: Option<u64>, reason: &str) {
        let synthetic = self.assistants().into_iter().find(|assistant| assistant.is_synthetic()).unwrap();
        assert_eq!((synthetic.error.as_deref(), synthetic.api_error_status), (Some(error), status));
        let result = self.result();
        assert_eq!((result.subtype.as_deref(), result.is_error()), (Some("success"), true));
        assert_eq!(result.api_error_status, status);
        assert_eq!(result.terminal_reason.as_deref(), Some(reason));
        assert_eq!(result.text.as_deref(), Some(synthetic.text().as_str()));
        assert_eq!(result.total_cost_usd, Some(0.0));
    }
}

const SESSION: &str = "5f1c9a52-6f0e-4a7b-9d3c-2b8e7d4c1a10";

type Essentials = fn(&Stream);

/// Every fixture of the folder, with what it is about.
const FIXTURES: &[(&str, Essentials)] = &[
    ("normal-tools", |s| {
        let init = s.init();
        assert_eq!(init.claude_code_version.as_deref(), Some("2.1.332"));
        assert_eq!(init.model.as_deref(), Some("claude-sonnet-5"));
        assert_eq!(init.permission_mode.as_deref(), Some("acceptEdits"));
        assert_eq!(init.tools[0], "Task");
        assert_eq!(init.plugins, ["session-orchestrator"]);
        assert_eq!(init.mcp_servers[0].status.as_deref(), Some("connected"));
        assert!(matches!(s.systems()[1], System::Hook(hook) if hook.exit_code == Some(0)));
        let assistants = s.assistants();
        assert_eq!(assistants[0].content, [Block::Thinking]);
        let Block::ToolUse { name, input, .. } = &assistants[2].content[0] else { panic!() };
        assert_eq!(name.as_deref(), Some("Bash"));
        assert_eq!(input.as_ref().unwrap().to_value().unwrap()["command"], "cargo nextest run");
        assert_eq!(assistants[2].usage.unwrap().cache_read, Some(15_000));
        let users = s.users();
        assert!(users[0].tool_results[0].is_error);
        assert_eq!(users[0].tool_results[0].text, "FAIL cart::total\nexpected 3, got 2");
        assert_eq!(users[0].permissions[0].decision.as_deref(), Some("allow"));
        assert!(!users[1].tool_results[0].is_error);
        assert_eq!(users[1].tool_results[0].text, "The file was edited.");
        let result = s.result();
        assert!(!result.is_error());
        assert_eq!(result.terminal_reason.as_deref(), Some("completed"));
        assert_eq!(result.text.as_deref(), Some(assistants.last().unwrap().text().as_str()));
        assert_eq!(result.usage.unwrap().output, Some(220));
        let added = &result.model_usage_since_last_result.as_ref().unwrap()["claude-sonnet-5"];
        assert_eq!((added.tokens.input, added.cost_usd), (Some(12), Some(0.0184)));
        assert_eq!(result.subagents.unwrap().spawned, Some(0));
        assert!(s.messages.iter().filter(|message| message.body == Body::Alive).count() == 3);
    }),
    ("json-schema", |s| {
        let result = s.result();
        assert_eq!(result.stop_reason.as_deref(), Some("tool_use"));
        assert_eq!(result.structured_output.as_ref().unwrap().to_value().unwrap()["status"], "complete");
        assert!(!result.is_error());
    }),
    ("auth-401", |s| {
        s.assert_api_failure("authentication_failed", Some(401), "api_error");
        assert_eq!(s.result().api_error_type.as_deref(), Some("authentication_error"));
        assert_eq!(s.retries()[1].error.as_deref(), Some("authentication_failed"));
        assert_eq!(s.retries()[1].retry_delay_ms, Some(1043.5));
    }),
    ("rate-limit-429-api-key", |s| {
        s.assert_api_failure("rate_limit", Some(429), "api_error");
        assert_eq!(s.result().api_error, None);
        assert!(s.limits().is_empty());
    }),
    ("usage-limit-subscription", |s| {
        s.assert_api_failure("rate_limit", Some(429), "api_error");
        assert_eq!(s.result().api_error.as_deref(), Some("usage_limit_reached"));
        assert_eq!(s.init().api_key_source.as_deref(), Some("none"));
        let limit = s.limits()[0];
        assert_eq!(limit.status, Some(LimitStatus::Rejected));
        assert_eq!(limit.limit_type.as_deref(), Some("five_hour"));
        assert_eq!(limit.resets_at, Some(1_796_070_060));
        assert_eq!((limit.utilization, limit.is_using_overage), (Some(1.0), Some(false)));
        assert_eq!(limit.windows.len(), 2);
        let week = limit.windows.iter().find(|window| window.name == "seven_day").unwrap();
        assert_eq!((week.status.clone(), week.utilization), (Some(LimitStatus::Allowed), Some(0.42)));
    }),
    ("usage-limit-allowed", |s| {
        let statuses: Vec<_> = s.limits().iter().map(|limit| limit.status.clone().unwrap()).collect();
        let unknown = LimitStatus::Unknown("throttled_soft".into());
        assert_eq!(statuses, [LimitStatus::Allowed, LimitStatus::AllowedWarning, unknown]);
        assert_eq!(s.limits()[0].resets_at, None);
        assert!(!s.result().is_error());
    }),
    ("overloaded-529", |s| {
        s.assert_api_failure("overloaded", Some(529), "api_error");
        let statuses: Vec<_> = s.retries().iter().map(|retry| retry.error_status).collect();
        assert_eq!(statuses, [Some(529), Some(529), None, Some(529)]);
        assert_eq!(s.retries()[0].max_retries, Some(10));
    }),
    ("connection-cut", |s| {
        s.assert_api_failure("unknown", None, "api_error");
        assert_eq!(s.result().api_error.as_deref(), Some("connection_failed"));
    }),
    ("prompt-too-long", |s| {
        s.assert_api_failure("invalid_request", Some(400), "prompt_too_long");
        assert!(
            matches!(s.systems()[1], System::Status(status) if status.status.as_deref() == Some("compacting"))
        );
    }),
    ("compaction", |s| {
        let boundaries: Vec<&CompactBoundary> =
            pick!(s.systems().into_iter(), System::CompactBoundary(boundary) => boundary);
        let expected = CompactBoundary {
            trigger: Some("auto".into()),
            pre_tokens: Some(167_204),
            post_tokens: Some(21_877),
        };
        assert_eq!(boundaries, [&expected]);
        assert!(s.users()[0].is_synthetic);
    }),
    ("max-turns", |s| {
        let result = s.result();
        assert!(result.is_error());
        assert_eq!(result.errors, ["Reached maximum number of turns (1)"]);
        assert_eq!((result.terminal_reason.as_deref(), &result.text), (Some("max_turns"), &None));
    }),
    ("budget", |s| {
        let result = s.result();
        assert!(result.is_error());
        // The reply is complete although the turn counts as failed.
        assert_eq!(result.stop_reason.as_deref(), Some("end_turn"));
        assert_eq!(result.terminal_reason.as_deref(), Some("budget_exhausted"));
    }),
    ("interrupt", |s| {
        let responses: Vec<&ControlResponse> =
            pick!(s.bodies(), Body::ControlResponse(response) => &**response);
        let cancelled: Vec<&str> =
            pick!(s.bodies(), Body::ControlCancel { request_id: Some(request_id) } => request_id.as_str());
        assert_eq!(cancelled, ["c2"]);
        let requests = s.requests();
        assert_eq!((responses[1].request_id.as_deref(), responses[1].success), (Some("i1"), true));
        let Request::Hook(hook) = &requests[0].request else { panic!() };
        assert_eq!((hook.callback_id.as_deref(), &hook.event), (Some("pre"), &Some(HookEvent::PreToolUse)));
        assert_eq!(hook.tool_input.as_ref().unwrap().to_value().unwrap()["command"], "git push --force");
        assert_eq!(hook.agent_id, None);
        let Request::CanUseTool(ask) = &requests[1].request else { panic!() };
        assert_eq!(requests[1].request_id.as_deref(), Some("c2"));
        assert_eq!(ask.blocked_path.as_deref(), Some("/etc/hosts"));
        let input = ask.input.as_ref().and_then(RawJson::to_value);
        assert_eq!(input, Some(json!({"file_path": "/etc/hosts", "content": "x"})));
        assert_eq!(s.users()[0].text.as_deref(), Some("[Request interrupted by user]"));
        assert_eq!(s.result().terminal_reason.as_deref(), Some("aborted_streaming"));
        assert!(s.result().is_error());
    }),
    ("resume-unknown-id", |s| {
        assert_eq!(s.messages.len(), 1);
        assert_eq!(s.messages[0].session_id.as_deref(), Some(SESSION));
        assert_eq!(s.result().errors, [format!("No conversation found with session ID: {SESSION}")]);
        assert!(s.result().is_error());
        assert_eq!(s.result().model_usage_since_last_result, None);
    }),
    ("sub-agent", |s| {
        let parents: BTreeSet<_> =
            s.messages.iter().filter_map(|message| message.parent_tool_use_id.as_deref()).collect();
        assert_eq!(parents.into_iter().collect::<Vec<_>>(), ["toolu_41"]);
        assert_eq!(s.users()[0].agent_id.as_deref(), Some("a1f3"));
        let tasks = s.tasks();
        let phases: Vec<_> = tasks.iter().map(|task| task.phase).collect();
        assert_eq!(
            phases,
            [TaskPhase::Started, TaskPhase::Progress, TaskPhase::Updated, TaskPhase::Notification]
        );
        assert_eq!(
            (tasks[0].task_type.as_deref(), tasks[0].is_backgrounded),
            (Some("local_agent"), Some(false))
        );
        assert_eq!(tasks[2].status.as_deref(), Some("completed"));
        assert_eq!((tasks[3].status.as_deref(), tasks[3].total_tokens), (Some("completed"), Some(1430)));
        let Request::Hook(hook) = &s.requests()[0].request else { panic!() };
        assert_eq!(hook.agent_id.as_deref(), Some("a1f3"));
        let result = s.result();
        assert_eq!(result.model_usage.len(), 2);
        assert_eq!(result.model_usage["claude-haiku-5"].tokens.output, Some(730));
        let agents = result.subagents.unwrap();
        assert_eq!((agents.spawned, agents.completed, agents.refused), (Some(1), Some(1), Some(3)));
        assert_eq!(agents.killed_by_system, Some(0));
    }),
    ("several-results", |s| {
        let results = s.results();
        let indices: Vec<_> = results.iter().map(|result| result.result_index).collect();
        assert_eq!(indices, [Some(0), Some(1), Some(2)]);
        assert_eq!(s.inits().len(), 3);
        let sessions: BTreeSet<_> =
            s.messages.iter().filter_map(|message| message.session_id.as_deref()).collect();
        assert_eq!(sessions.into_iter().collect::<Vec<_>>(), [SESSION]);
        // The total runs; what each result adds is said apart.
        assert_eq!(s.result().total_cost_usd, Some(0.0209));
        let added = &s.result().model_usage_since_last_result.as_ref().unwrap()["claude-sonnet-5"];
        assert_eq!(added.cost_usd, Some(0.0049));
        let listed: Vec<usize> =
            pick!(s.systems().into_iter(), System::BackgroundTasks(tasks) => tasks.len());
        assert_eq!(listed, [1, 0]);
        assert_eq!(s.tasks()[0].is_backgrounded, Some(true));
    }),
    ("permission-denied", |s| {
        assert!(
            matches!(s.systems()[1], System::PermissionDenied(denied) if denied.tool_name.as_deref() == Some("Bash"))
        );
        let result = s.result();
        assert!(!result.is_error());
        assert_eq!(result.permission_denials[0].tool_name.as_deref(), Some("Bash"));
        assert_eq!(s.users()[0].permissions[0].decision.as_deref(), Some("deny"));
    }),
    ("incomplete-tool-use", |s| {
        let result = s.result();
        assert_eq!((result.stop_reason.as_deref(), &result.structured_output), (Some("tool_use"), &None));
        assert_eq!(result.text.as_deref(), Some(""));
    }),
    ("tolerance-zoo", |s| {
        let bad: Vec<_> =
            s.anomalies.iter().filter(|anomaly| anomaly.is_bad_line()).map(Anomaly::name).collect();
        let expected = [
            "not_json",
            "not_an_object",
            "not_an_object",
            "not_an_object",
            "not_an_object",
            "not_json",
            "glued",
            "not_json",
            "glued",
            "truncated_tail",
        ];
        assert_eq!(bad, expected);
        assert_eq!(s.anomalies.iter().filter(|anomaly| **anomaly == Anomaly::InvalidUtf8).count(), 1);
        let unknown: Vec<_> = s.messages.iter().filter_map(Message::unknown_label).collect();
        assert_eq!(unknown, ["system/thinking_tokens", "hologram/3d", "/no type at all"]);
        assert_eq!(s.init().tools.len(), 6);
        let texts: Vec<_> = s.assistants().iter().map(|assistant| assistant.text()).collect();
        assert_eq!(
            texts,
            ["", "bad byte \u{fffd} here", "half \u{fffd}\u{fffd}\u{fffd} pair", "plain string"]
        );
        assert_eq!(s.limits()[0].status, Some(LimitStatus::Allowed));
        assert_eq!((s.retries()[0].attempt, s.retries()[0].retry_delay_ms), (Some(2), Some(549.5)));
        assert_eq!(s.users()[0].text.as_deref(), Some("glued"));
        let tool = &s.users()[1].tool_results[0];
        assert_eq!((tool.text.as_str(), tool.is_error), ("a\nb", true));
        let result = s.result();
        assert!(result.is_error());
        assert_eq!((result.total_cost_usd, result.num_turns, &result.text), (None, Some(3), &None));
        assert_eq!(result.errors, ["odd"]);
    }),
];

#[test]
fn fixtures_read_as_documented() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/stream/2.1.332");
    for (name, essentials) in FIXTURES {
        let stream = Stream::read(&folder.join(name).with_extension("jsonl"));
        if *name != "tolerance-zoo" {
            assert_eq!(stream.anomalies, [], "{name}");
            assert_eq!(stream.messages.iter().find_map(Message::unknown_label), None, "{name}");
            for message in &stream.messages {
                let session = message.session_id.as_deref();
                assert!(session.is_none_or(|session| session == SESSION), "{name}: {message:?}");
            }
        }
        let outcome = std::panic::catch_unwind(|| essentials(&stream));
        assert!(outcome.is_ok(), "{name} does not read as documented");
    }
    let listed: BTreeSet<_> = FIXTURES.iter().map(|(name, _)| format!("{name}.jsonl")).collect();
    let present: BTreeSet<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(present, listed, "every fixture has its line in the table");
}
