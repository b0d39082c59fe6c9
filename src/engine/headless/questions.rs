//! The questions of the CLI that wait for an answer (claude-code §5).
//!
//! A turn stands still until its question is answered, and a CLI that gives up waiting may go on as if nobody had
//! objected. So a question that the core does not answer in time is refused here.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::core::fact::Asked;
use crate::core::gate::Decision;
use crate::core::mediation::Answer;
use crate::protocol::RawJson;
use crate::protocol::control::{self, HookReply, PRE_TOOL_USE_CALLBACK};
use crate::protocol::stream::{CanUseTool, ControlRequest, HookCallback, HookEvent, Request};

/// How long an answer may take. A judgement takes a fraction of a millisecond, a look at git a few; the CLI itself
/// gives a hook a minute.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Told to the model in the place of an answer that did not come.
const TOO_LATE: &str = "the call could not be judged in time, and what is not judged is not allowed. Try it once more, or do without it";

/// What a request of the CLI amounts to.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The core is asked; its answer goes to the question that is kept.
    Ask(Box<Asked>, Question),
    /// It is answered at once.
    Reply(Vec<u8>),
    /// It names no id: it cannot be answered.
    Unanswerable,
}

/// What is asked.
#[derive(Debug, Clone)]
enum Kind {
    /// `PreToolUse`.
    Hook,
    /// `can_use_tool`; its answer repeats the input.
    Prompt(Option<RawJson>),
}

/// A question that was passed on.
#[derive(Debug)]
pub(super) struct Question {
    id: String,
    kind: Kind,
}

/// Reads a request.
pub(super) fn incoming(request: &ControlRequest) -> Incoming {
    let Some(id) = request.request_id.clone() else { return Incoming::Unanswerable };
    match &request.request {
        Request::Hook(hook) if asks(hook) => {
            let asked = Asked {
                request_id: id.clone(),
                prompt: false,
                doubt: doubt(hook.tool_name.as_ref(), hook.tool_input.as_ref(), request.elided)
                    .or((hook.event != Some(HookEvent::PreToolUse)).then_some("the question is malformed")),
                tool: hook.tool_name.clone().unwrap_or_default(),
                input: hook.tool_input.as_ref().and_then(RawJson::to_value).unwrap_or_default(),
                call: hook.tool_use_id.clone(),
                cwd: hook.cwd.clone(),
                sub_agent: hook.agent_id.is_some(),
            };
            Incoming::Ask(Box::new(asked), Question { id, kind: Kind::Hook })
        }
        // The end of a turn, or a hook that nobody registered: no opinion.
        Request::Hook(_) => Incoming::Reply(control::hook_reply(&id, HookReply::NormalRules)),
        Request::CanUseTool(CanUseTool { tool_name, input, tool_use_id, agent_id, .. }) => {
            let asked = Asked {
                request_id: id.clone(),
                prompt: true,
                doubt: doubt(tool_name.as_ref(), input.as_ref(), request.elided),
                tool: tool_name.clone().unwrap_or_default(),
                input: input.as_ref().and_then(RawJson::to_value).unwrap_or_default(),
                call: tool_use_id.clone(),
                cwd: None,
                sub_agent: agent_id.is_some(),
            };
            Incoming::Ask(Box::new(asked), Question { id, kind: Kind::Prompt(input.clone()) })
        }
        Request::Unknown { .. } => Incoming::Reply(control::refuse(&id, "not supported")),
    }
}

/// Whether the hook is the one that is asked before a tool runs, however little it says.
fn asks(hook: &HookCallback) -> bool {
    hook.callback_id.as_deref() == Some(PRE_TOOL_USE_CALLBACK) || hook.event == Some(HookEvent::PreToolUse)
}

fn doubt(tool: Option<&String>, input: Option<&RawJson>, elided: bool) -> Option<&'static str> {
    match (tool, input) {
        (None, _) => Some("the question names no tool"),
        (_, None) => Some("the question has no input"),
        _ if elided => Some("the input is too long to be judged"),
        (_, Some(input)) if input.to_value().is_none() => Some("the input cannot be read"),
        _ => None,
    }
}

/// The questions that wait.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: BTreeMap<String, (Kind, Instant)>,
}

impl Questions {
    /// A question was passed on.
    pub(super) fn wait(&mut self, question: Question, now: Instant) {
        self.open.insert(question.id, (question.kind, now + ANSWER_WITHIN));
    }

    /// The CLI takes a question back.
    pub(super) fn cancel(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// The line that answers a question; `None` when it waits no more.
    pub(super) fn answer(&mut self, id: &str, answer: &Answer) -> Option<Vec<u8>> {
        let (kind, _) = self.open.remove(id)?;
        let reason = &answer.reason;
        Some(match (kind, answer.decision) {
            (Kind::Hook, Decision::Allow) => control::hook_reply(id, HookReply::Allow { reason }),
            (Kind::Hook, Decision::Deny) => control::hook_reply(id, HookReply::Deny { reason }),
            (Kind::Hook, Decision::Defer) => control::hook_reply(id, HookReply::NormalRules),
            (Kind::Prompt(Some(input)), Decision::Allow) => control::allow_tool(id, &input),
            (Kind::Prompt(_), _) => control::deny_tool(id, reason),
        })
    }

    /// When the next question has waited too long.
    pub(super) fn due(&self) -> Option<Instant> {
        self.open.values().map(|(_, due)| *due).min()
    }

    /// Lines that refuse what has waited too long.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let late: Vec<String> =
            self.open.iter().filter(|(_, (_, due))| *due <= now).map(|(id, _)| id.clone()).collect();
        let refusal = Answer { decision: Decision::Deny, reason: TOO_LATE.to_owned() };
        late.iter().filter_map(|id| self.answer(id, &refusal)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::frame::Frame;
    use crate::protocol::stream::{Body, parse_frame};
    use serde_json::{Value, json};

    fn request(line: &Value) -> ControlRequest {
        let text = line.to_string();
        let mut parsed = parse_frame(Frame::Line(text.as_bytes()));
        match parsed.messages.remove(0).body {
            Body::ControlRequest(request) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn hook(callback: &str, input: &Value) -> Value {
        json!({"type": "control_request", "request_id": "q", "request":
            {"subtype": "hook_callback", "callback_id": callback, "input": input}})
    }

    fn bash() -> Value {
        json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"},
            "tool_use_id": "t", "cwd": "/w", "agent_id": "a"})
    }

    #[test]
    fn a_question_is_read_and_what_is_odd_about_it_is_said() {
        for (line, expected) in [
            (hook("pre", &bash()), None),
            // Nobody registered it, and yet it asks.
            (hook("other", &bash()), None),
            (hook("pre", &json!({})), Some("the question names no tool")),
            (hook("pre", &json!("text")), Some("the question names no tool")),
            (hook("pre", &json!({"tool_name": "Bash"})), Some("the question has no input")),
            (
                hook("pre", &json!({"hook_event_name": "New", "tool_name": "Bash", "tool_input": {}})),
                Some("the question is malformed"),
            ),
            (
                json!({"type": "control_request", "request_id": "q", "request":
                    {"subtype": "can_use_tool", "tool_name": "Bash"}}),
                Some("the question has no input"),
            ),
        ] {
            match incoming(&request(&line)) {
                Incoming::Ask(asked, _) => assert_eq!(asked.doubt, expected, "{line}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        let Incoming::Ask(asked, _) = incoming(&request(&hook("pre", &bash()))) else { panic!() };
        assert_eq!(
            *asked,
            Asked {
                request_id: "q".to_owned(),
                prompt: false,
                tool: "Bash".to_owned(),
                input: json!({"command": "ls"}),
                call: Some("t".to_owned()),
                cwd: Some("/w".to_owned()),
                sub_agent: true,
                doubt: None,
            }
        );
    }

    #[test]
    fn what_is_no_question_is_answered_at_once() {
        for line in [
            hook("stop", &json!({"hook_event_name": "Stop"})),
            hook("other", &json!({"hook_event_name": "Brand New"})),
            json!({"type": "control_request", "request_id": "q", "request": {"subtype": "fly"}}),
        ] {
            assert!(matches!(incoming(&request(&line)), Incoming::Reply(_)), "{line}");
        }
        let nameless = json!({"type": "control_request", "request": {"subtype": "can_use_tool"}});
        assert!(matches!(incoming(&request(&nameless)), Incoming::Unanswerable));
    }

    #[test]
    fn each_question_is_answered_once_and_late_ones_are_refused() {
        let start = Instant::now();
        let mut questions = Questions::default();
        let wait = |questions: &mut Questions, id: &str, kind| {
            questions.wait(Question { id: id.to_owned(), kind }, start);
        };
        let said = |line: Vec<u8>| {
            let value: Value = serde_json::from_slice(&line).unwrap();
            value["response"]["response"].clone()
        };
        let input = || Kind::Prompt(Some(RawJson::from(&json!({"command": "ls"}))));
        let answer = |decision| Answer { decision, reason: "why".to_owned() };
        for (kind, decision, expected) in [
            (Kind::Hook, Decision::Defer, json!({})),
            (
                Kind::Hook,
                Decision::Deny,
                json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
                "permissionDecision": "deny", "permissionDecisionReason": "why"}}),
            ),
            (
                Kind::Hook,
                Decision::Allow,
                json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
                "permissionDecision": "allow", "permissionDecisionReason": "why"}}),
            ),
            (input(), Decision::Allow, json!({"behavior": "allow", "updatedInput": {"command": "ls"}})),
            (input(), Decision::Deny, json!({"behavior": "deny", "message": "why"})),
            // No "as usual" where a person would be asked, and nothing is approved that has no input.
            (input(), Decision::Defer, json!({"behavior": "deny", "message": "why"})),
            (Kind::Prompt(None), Decision::Allow, json!({"behavior": "deny", "message": "why"})),
        ] {
            wait(&mut questions, "q", kind);
            assert_eq!(said(questions.answer("q", &answer(decision)).unwrap()), expected);
            assert_eq!(questions.answer("q", &answer(Decision::Allow)), None, "answered");
        }
        wait(&mut questions, "late", input());
        wait(&mut questions, "taken back", Kind::Hook);
        questions.cancel("taken back");
        assert_eq!(questions.due(), Some(start + ANSWER_WITHIN));
        assert!(questions.overdue(start + ANSWER_WITHIN / 2).is_empty());
        let refused = questions.overdue(start + ANSWER_WITHIN);
        assert_eq!(refused.len(), 1);
        assert_eq!(said(refused[0].clone()), json!({"behavior": "deny", "message": TOO_LATE}));
        assert_eq!((questions.due(), questions.answer("late", &answer(Decision::Allow))), (None, None));
    }
}
