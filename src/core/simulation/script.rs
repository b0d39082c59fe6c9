//! What an attempt does, told as a script: `attempt().init().after(30).text("…").result(reported("complete"))`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::core::evidence::{AttemptEnd, Exit};
use crate::core::fact::{ApiRetry, Asked, Fact, Initialised, ModelUsage, RateLimit, TurnResult};
use crate::core::published::Tokens;
use crate::core::stuck::call::{Call, Outcome};

/// One thing an attempt does.
#[derive(Debug)]
pub(super) enum Step {
    /// A line of the stream. Init and text of the main thread go into the transcript as well.
    Say(Box<Fact>),
    /// The reply lands in the transcript and nowhere else.
    Land,
    /// The process ends.
    Exit(Box<AttemptEnd>),
}

/// The script of one attempt. After a result it ends when its input is closed, unless it lingers.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) steps: Vec<(Duration, Step)>,
    at: Duration,
    calls: u32,
    /// Whether there is a transcript.
    pub(super) writes: bool,
    /// Stays after its result, whatever is done to its input.
    pub(super) lingers: bool,
    /// A tool makes progress until then, from the launch.
    pub(super) tools_until: Duration,
    /// What an interrupt is answered with; `None` = nothing.
    pub(super) on_interrupt: Option<Fact>,
}

pub(super) fn attempt() -> Attempt {
    Attempt {
        steps: Vec::new(),
        at: Duration::ZERO,
        calls: 0,
        writes: true,
        lingers: false,
        tools_until: Duration::ZERO,
        on_interrupt: Some(Fact::Result(Box::new(TurnResult {
            subtype: Some("error_during_execution".to_owned()),
            is_error: true,
            terminal_reason: Some("aborted_streaming".to_owned()),
            ..TurnResult::default()
        }))),
    }
}

/// A healthy attempt that reports part of the work.
pub(super) fn done() -> Attempt {
    attempt().after(1).init().after(9).text("did it").result(reported("partial"))
}

impl Attempt {
    /// The next step comes this much later.
    pub(super) fn after(mut self, seconds: u64) -> Self {
        self.at += Duration::from_secs(seconds);
        self
    }

    pub(super) fn say(mut self, fact: Fact) -> Self {
        self.steps.push((self.at, Step::Say(Box::new(fact))));
        self
    }

    pub(super) fn init(self) -> Self {
        self.say(Fact::Initialised(Initialised::default()))
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.say(Fact::Text { text: text.to_owned(), sub_agent: false })
    }

    pub(super) fn tool(self, name: &str) -> Self {
        self.say(Fact::ToolStarted {
            name: name.to_owned(),
            summary: String::new(),
            sub_agent: false,
            call: Call::default(),
        })
    }

    /// A tool call with its input and its result, of the main thread or of a sub-agent.
    pub(super) fn call(
        mut self,
        agent: Option<&str>,
        name: &str,
        input: &Value,
        is_error: bool,
        output: &str,
    ) -> Self {
        self.calls += 1;
        let (id, agent) = (Some(format!("toolu_{}", self.calls)), agent.map(str::to_owned));
        let sub_agent = agent.is_some();
        let summary = input["command"].as_str().unwrap_or_default().to_owned();
        let call = Call::new(id.clone(), agent.clone(), name, input, true);
        let outcome = Outcome::new(id, agent, output, false);
        self.say(Fact::ToolStarted { name: name.to_owned(), summary, sub_agent, call }).say(Fact::ToolEnded {
            is_error,
            sub_agent,
            outcome,
        })
    }

    pub(super) fn fails(self, command: &str, error: &str) -> Self {
        self.call(None, "Bash", &json!({"command": command}), true, error)
    }

    pub(super) fn reads(self, file: &str) -> Self {
        self.call(None, "Read", &json!({"file_path": file}), false, "text")
    }

    pub(super) fn writes(self, file: &str, text: &str) -> Self {
        self.call(None, "Write", &json!({"file_path": file, "content": text}), false, "written")
    }

    pub(super) fn usage(self, message_id: &str, output: u64) -> Self {
        let tokens = Tokens { output, ..Tokens::default() };
        self.say(Fact::Usage { message_id: message_id.to_owned(), tokens })
    }

    pub(super) fn agent_starts(self, id: &str) -> Self {
        self.say(Fact::TaskStarted { id: id.to_owned(), agent: true, call: None })
    }

    /// A sub-agent begins, and the CLI says for which call.
    pub(super) fn agent_starts_for(self, id: &str, call: &str) -> Self {
        self.say(Fact::TaskStarted { id: id.to_owned(), agent: true, call: Some(call.to_owned()) })
    }

    pub(super) fn agent_ends(self, id: &str, status: &str) -> Self {
        self.say(Fact::TaskEnded { id: id.to_owned(), status: status.to_owned() })
    }

    /// The CLI asks before it runs a tool; the id of the question is that of the call.
    pub(super) fn asks(self, id: &str, tool: &str, input: &Value) -> Self {
        self.say(Fact::Asked(Box::new(Asked {
            request_id: id.to_owned(),
            tool: tool.to_owned(),
            input: input.clone(),
            call: Some(id.to_owned()),
            ..Asked::default()
        })))
    }

    pub(super) fn denied(self, tool: &str) -> Self {
        self.say(Fact::Denied { tool: tool.to_owned(), id: None })
    }

    pub(super) fn retries_in(self, seconds: u32) -> Self {
        self.say(Fact::ApiRetry(ApiRetry { delay_ms: f64::from(seconds) * 1000.0, ..ApiRetry::default() }))
    }

    pub(super) fn rejected(self, resets_at: Option<Timestamp>) -> Self {
        self.say(Fact::RateLimit(RateLimit {
            status: "rejected".to_owned(),
            window: Some("five_hour".to_owned()),
            resets_at,
            ..RateLimit::default()
        }))
    }

    pub(super) fn result(self, result: TurnResult) -> Self {
        self.say(Fact::Result(Box::new(result)))
    }

    pub(super) fn lands(mut self) -> Self {
        self.steps.push((self.at, Step::Land));
        self
    }

    pub(super) fn exits(self, exit: Exit) -> Self {
        self.ends(AttemptEnd { exit: Some(exit), ..AttemptEnd::default() })
    }

    pub(super) fn ends(mut self, end: AttemptEnd) -> Self {
        self.steps.push((self.at, Step::Exit(Box::new(end))));
        self
    }

    pub(super) fn lingers(mut self) -> Self {
        self.lingers = true;
        self
    }

    pub(super) fn writes_nothing(mut self) -> Self {
        self.writes = false;
        self
    }

    pub(super) fn tools_move_for(mut self, seconds: u64) -> Self {
        self.tools_until = Duration::from_secs(seconds);
        self
    }

    pub(super) fn deaf(mut self) -> Self {
        self.on_interrupt = None;
        self
    }
}

/// A good result without a report.
pub(super) fn good() -> TurnResult {
    TurnResult {
        subtype: Some("success".to_owned()),
        terminal_reason: Some("completed".to_owned()),
        stop_reason: Some("end_turn".to_owned()),
        text: "done".to_owned(),
        ..TurnResult::default()
    }
}

/// What `/compact` is answered with (claude-code §3).
pub(super) fn compacted() -> TurnResult {
    TurnResult {
        subtype: Some("success".to_owned()),
        num_turns: Some(0),
        local_command: Some("compact".to_owned()),
        ..TurnResult::default()
    }
}

/// A good result with a session report of this status.
pub(super) fn reported(status: &str) -> TurnResult {
    TurnResult {
        stop_reason: Some("tool_use".to_owned()),
        structured_output: Some(json!({"status": status, "summary": "s"})),
        ..good()
    }
}

/// A report with these counts: sub-agents gone in circles and failed, issues planned and carried over.
pub(super) fn counted(spiral: u64, failed: u64, planned: u64, carryover: u64) -> TurnResult {
    TurnResult {
        structured_output: Some(json!({
            "status": "partial", "summary": "s",
            "agent_summary": {"complete": 1, "partial": 0, "failed": failed, "spiral": spiral},
            "effectiveness": {"planned_issues": planned, "completed": 0, "carryover": carryover, "emergent": 0},
        })),
        ..good()
    }
}

/// `result` with what it cost: output tokens and dollars since the last one.
pub(super) fn costing(result: TurnResult, output: u64, dollars: f64) -> TurnResult {
    let usage = ModelUsage { tokens: Tokens { output, ..Tokens::default() }, cost_usd: Some(dollars) };
    TurnResult {
        usage_since_last_result: Some(BTreeMap::from([("opus".to_owned(), usage)])),
        total_cost_usd: Some(dollars),
        ..result
    }
}

/// An API failure as a result.
pub(super) fn failed(status: Option<u16>, words: &str) -> TurnResult {
    TurnResult {
        subtype: Some("success".to_owned()),
        is_error: true,
        terminal_reason: Some("api_error".to_owned()),
        api_error_status: status,
        text: words.to_owned(),
        ..TurnResult::default()
    }
}

/// The CLI stopped after `--max-turns`.
pub(super) fn out_of_turns() -> TurnResult {
    TurnResult {
        subtype: Some("error_max_turns".to_owned()),
        is_error: true,
        terminal_reason: Some("max_turns".to_owned()),
        errors: vec!["Reached maximum number of turns (1)".to_owned()],
        ..TurnResult::default()
    }
}
