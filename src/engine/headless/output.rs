//! stdout of an attempt: bytes → frames → messages → facts, and the requests that want an answer.

use crate::core::fact::Fact;
use crate::protocol::frame::{Frame, LineFramer};
use crate::protocol::stream::{self, Body, Message, System};

use super::facts::Translator;
use super::questions::{Incoming, Question, incoming};

/// What a chunk of output amounts to.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Facts, in order. Plain signs of life of one chunk are told once.
    pub(super) facts: Vec<Fact>,
    /// Lines to write to stdin.
    pub(super) replies: Vec<Vec<u8>>,
    /// Questions among the facts, each waiting for its answer.
    pub(super) questions: Vec<Question>,
    /// Questions that the CLI takes back, by id.
    pub(super) taken_back: Vec<String>,
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
        // The CLI waits for the answer to each request.
        Body::ControlRequest(request) => match incoming(request) {
            Incoming::Ask(asked, question) => {
                found.facts.push(Fact::Asked(asked));
                found.questions.push(question);
            }
            Incoming::Reply(line) => found.replies.push(line),
            Incoming::Unanswerable => {}
        },
        Body::ControlCancel { request_id } => found.taken_back.extend(request_id.clone()),
        Body::Assistant(_) | Body::User(_) | Body::Result(_) => found.speaks = true,
        // Hooks and tasks may speak before the handshake is answered; an `init` belongs to a turn.
        Body::System(system) => found.speaks |= matches!(**system, System::Init(_)),
        Body::RateLimit(_) | Body::Alive | Body::Unknown { .. } => {}
    }
}
