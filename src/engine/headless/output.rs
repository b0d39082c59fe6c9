//! stdout of an attempt: bytes → frames → messages → facts, and the requests that want an answer.

use crate::core::fact::Fact;
use crate::protocol::control::{self, HookReply};
use crate::protocol::frame::{Frame, LineFramer};
use crate::protocol::stream::{self, Body, ControlRequest, Message, Request, System};

use super::facts::Translator;

/// Tools that wait for a person.
const FOR_A_PERSON: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];
/// What the model reads in the place of an answer.
const NOBODY_HERE: &str = "No person is here to answer. Decide by yourself, take what is easier to undo, and go on with the \
    work. If nothing useful can be done without a person, report `blocked` with the question.";

/// What a chunk of output amounts to.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Facts, in order. Plain signs of life of one chunk are told once.
    pub(super) facts: Vec<Fact>,
    /// Lines to write to stdin.
    pub(super) replies: Vec<Vec<u8>>,
    /// The handshake was answered; `false` = refused.
    pub(super) handshake: Option<bool>,
    /// With the handshake: the slash commands on offer, where it names them.
    pub(super) commands: Option<Vec<String>>,
    /// The CLI spoke of a turn, handshake or not.
    pub(super) speaks: bool,
}

/// Reads stdout.
#[derive(Debug)]
pub(super) struct Output {
    framer: LineFramer,
    translator: Translator,
    handshake_id: String,
}

impl Output {
    pub(super) fn new(handshake_id: &str) -> Self {
        Output {
            framer: LineFramer::new(),
            translator: Translator::default(),
            handshake_id: handshake_id.to_owned(),
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) -> Found {
        let Output { framer, translator, handshake_id } = self;
        let mut found = Found::default();
        framer.push(chunk, |frame| take(frame, translator, handshake_id, &mut found));
        found
    }

    /// Lines so far, readable or not.
    pub(super) fn lines(&self) -> u64 {
        self.framer.stats().lines
    }

    pub(super) fn finish(&mut self) -> Found {
        let Output { framer, translator, handshake_id } = self;
        let mut found = Found::default();
        framer.finish(|frame| take(frame, translator, handshake_id, &mut found));
        found
    }
}

fn take(frame: Frame<'_>, translator: &mut Translator, handshake_id: &str, found: &mut Found) {
    let parsed = stream::parse_frame(frame);
    for anomaly in &parsed.anomalies {
        found.facts.extend(translator.anomaly(anomaly));
    }
    for message in &parsed.messages {
        answer(message, handshake_id, found);
        // An answer to a request of ours is no output of the session: one that only says "initialized" and
        // then nothing has not started (field-reports A08).
        if matches!(message.body, Body::ControlResponse(_)) {
            continue;
        }
        translator.message(message, |fact| {
            if fact != Fact::Heartbeat || found.facts.last() != Some(&Fact::Heartbeat) {
                found.facts.push(fact);
            }
        });
    }
}

fn answer(message: &Message, handshake_id: &str, found: &mut Found) {
    match &message.body {
        Body::ControlResponse(response) => {
            if response.request_id.as_deref() == Some(handshake_id) {
                found.handshake = Some(response.success);
                found.commands = response.commands();
            }
        }
        Body::ControlRequest(request) => found.replies.extend(reply(request)),
        Body::Assistant(_) | Body::User(_) | Body::Result(_) => found.speaks = true,
        // Hooks and tasks may speak before the handshake is answered; an `init` belongs to a turn.
        Body::System(system) => found.speaks |= matches!(**system, System::Init(_)),
        Body::RateLimit(_) | Body::ControlCancel { .. } | Body::Alive | Body::Unknown { .. } => {}
    }
}

/// The CLI waits for the answer to each request. Hooks get "the normal rules apply"; what we did not ask for
/// is refused, so that the turn does not stand still.
fn reply(request: &ControlRequest) -> Option<Vec<u8>> {
    let id = request.request_id.as_deref()?;
    Some(match &request.request {
        // The CLI would fail such a call with words that say nothing of the night, and the turn often ends there
        // (field-reports D08).
        Request::Hook(hook) if hook.tool_name.as_deref().is_some_and(|tool| FOR_A_PERSON.contains(&tool)) => {
            control::hook_reply(id, HookReply::Deny { reason: NOBODY_HERE })
        }
        Request::Hook(_) => control::hook_reply(id, HookReply::NormalRules),
        Request::CanUseTool(_) => control::deny_tool(id, "no person is here to ask; work without it"),
        Request::Unknown { .. } => control::refuse(id, "not supported"),
    })
}
