//! Reads the end of a transcript, backwards, until everything the judge needs is known.
//!
//! The cost depends on the last turn and not on the file: a transcript of 1 GiB is judged from its last few
//! blocks. Two budgets bound the work: after [`Limits::soft`] bytes only an undecided turn-over question is
//! worth reading on, after [`Limits::hard`] nothing is.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use serde_json::value::RawValue;

use super::head::Head;
use super::record::{Block, Content, Entry, Message, Role, Text, lossy};
use super::{TranscriptError, open};
use crate::core::published::Tokens;
use crate::core::transcript_digest::{
    ApiError, Ended, Excerpt, Growth, Open, Resumable, TranscriptDigest, TurnOver,
};
use crate::state::backward::{BackwardLines, Line};

/// The tool that carries the answer of a turn with `--json-schema`.
const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// Stop reasons after which the model does not go on by itself. Any other one leaves the turn open, because a
/// needless reconcile prompt costs little and a turn taken for finished costs the work.
const FINAL_STOP_REASONS: [&str; 5] =
    ["end_turn", "stop_sequence", "max_tokens", "refusal", "model_context_window_exceeded"];

/// How much [`digest_within`] reads and keeps. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Read at most this much for figures that may stay inexact.
    pub soft: u64,
    /// Read at most about this much to find the last message.
    pub hard: u64,
    /// Longest line that is looked at.
    pub line: usize,
    /// Longest text that is kept.
    pub text: usize,
}

impl Default for Limits {
    /// 2 MiB, 128 MiB, 8 MiB, 64 KiB. A longer line is no answer of a model, and would cost a few times its size.
    fn default() -> Self {
        Self { soft: 2 << 20, hard: 128 << 20, line: 8 << 20, text: 64 << 10 }
    }
}

/// Digests the transcript at `path`, seen from `offset`, with the default [`Limits`]. A missing file is a
/// digest, too ([`TranscriptDigest::exists`]).
///
/// # Errors
/// The file exists and cannot be read, or is not a regular file.
pub fn digest(path: &Path, offset: u64) -> Result<TranscriptDigest, TranscriptError> {
    digest_within(path, offset, &Limits::default())
}

/// [`digest`] with limits of your own.
///
/// # Errors
/// As [`digest`].
pub fn digest_within(path: &Path, offset: u64, limits: &Limits) -> Result<TranscriptDigest, TranscriptError> {
    let Some((file, size)) = open(path)? else {
        let mut digest = TranscriptDigest { growth: Growth::of(0, offset), ..TranscriptDigest::default() };
        digest.after.exact = offset == 0;
        return Ok(digest);
    };
    let mut scan = Scan::new(size, offset, *limits);
    scan.run(&file).map_err(|source| TranscriptError::io("read", path, source))?;
    Ok(scan.digest)
}

/// The state of one backward pass: everything here is about lines *behind* the one that is fed next.
struct Scan {
    offset: u64,
    limits: Limits,
    digest: TranscriptDigest,
    /// The turn-over question is answered.
    decided: bool,
    /// Accepted results at the end of the file. If one of them answers `StructuredOutput`, the turn is over.
    awaiting_call: Vec<String>,
    /// Ids of the tool results seen so far; the value says whether the result is an error.
    results: HashMap<String, bool>,
    /// A main-chain assistant line was seen.
    assistant_seen: bool,
    /// A line after the offset could not be looked at.
    unread_after: bool,
    /// What the messages after the offset cost. A message is several lines with the same figures.
    costs: HashMap<String, Tokens>,
    dangling: Dangling,
}

/// The search for tool calls without a result. Only the last message of the model can have them, because it
/// could not have gone on without the results; the message may be several lines.
#[derive(Debug, PartialEq, Eq)]
enum Dangling {
    /// No assistant line yet.
    Waiting,
    /// In the lines of the message with this id.
    In(Option<String>),
    /// Past it.
    Done,
}

impl Scan {
    fn new(size: u64, offset: u64, limits: Limits) -> Self {
        let digest = TranscriptDigest {
            exists: true,
            size,
            growth: Growth::of(size, offset),
            ..TranscriptDigest::default()
        };
        Self {
            offset,
            limits,
            digest,
            decided: false,
            awaiting_call: Vec::new(),
            results: HashMap::new(),
            assistant_seen: false,
            unread_after: false,
            costs: HashMap::new(),
            dangling: Dangling::Waiting,
        }
    }

    fn run(&mut self, file: &File) -> std::io::Result<()> {
        let size = self.digest.size;
        let mut lines = BackwardLines::new(file, size, self.limits.line);
        let mut buffer = Vec::new();
        // Nothing starts behind the end of the file.
        let mut reached = size;
        while !self.satisfied(reached) {
            let budget = if self.decided { self.limits.soft } else { self.limits.hard };
            let Some(line) = lines.next_line(budget, &mut buffer)? else { break };
            reached = line.start;
            self.feed(&line);
        }
        self.digest.scanned = lines.bytes_read();
        self.digest.dangling_tool_use.reverse();
        for cost in self.costs.values() {
            let sum = &mut self.digest.tokens_after;
            sum.input = sum.input.saturating_add(cost.input);
            sum.output = sum.output.saturating_add(cost.output);
            sum.cache_read = sum.cache_read.saturating_add(cost.cache_read);
            sum.cache_creation = sum.cache_creation.saturating_add(cost.cache_creation);
        }
        let whole = lines.is_done() || reached == 0;
        let region_seen = whole || reached <= self.offset;
        self.digest.after.exact = region_seen && size >= self.offset && !self.unread_after;
        if !self.decided && !whole {
            self.digest.turn_over = TurnOver::NotOver { why: Open::NotSeen };
        }
        if self.digest.resumable != Resumable::Yes && !whole {
            let head = Head::read(file, size)?;
            self.digest.scanned += head.read;
            self.digest.resumable = if head.has_message { Resumable::Yes } else { Resumable::Unknown };
        }
        Ok(())
    }

    /// Everything is known and no line before `reached` can change it.
    fn satisfied(&self, reached: u64) -> bool {
        self.decided
            && reached <= self.offset
            && self.awaiting_call.is_empty()
            && self.dangling == Dangling::Done
            && self.digest.resumable == Resumable::Yes
    }

    fn feed(&mut self, line: &Line<'_>) {
        let Some(bytes) = line.bytes else {
            self.digest.oversized_lines += 1;
            self.unread_after |= line.start >= self.offset;
            self.decide(TurnOver::NotOver { why: Open::Oversized });
            return;
        };
        let trimmed = trim_nul(bytes);
        let had_nul = trimmed.len() < bytes.len();
        self.digest.nul_lines += u64::from(had_nul);
        let text = lossy(trimmed.trim_ascii());
        let parsed = Entry::parse(&text);
        if !line.terminated && (had_nul || parsed.is_none()) {
            self.digest.torn_tail = true;
        }
        match parsed {
            Some(entry) => self.entry(&entry, line.start >= self.offset),
            None if text.is_empty() || !line.terminated => {}
            None => self.digest.bad_lines += 1,
        }
    }

    fn entry(&mut self, entry: &Entry<'_>, after: bool) {
        if self.digest.last_timestamp.is_none() {
            self.digest.last_timestamp = entry.timestamp.as_ref().map(|t| t.as_str().to_owned());
        }
        if entry.is_side_chain() || entry.is_aside() {
            return;
        }
        match entry.role() {
            Some(Role::Assistant) if entry.is_api_error == Some(true) => self.api_error(entry, after),
            Some(Role::Assistant) if !entry.is_synthetic() => self.assistant(entry, after),
            Some(Role::User) => self.user(entry, after),
            Some(Role::Assistant) | None => {}
        }
    }

    fn api_error(&mut self, entry: &Entry<'_>, after: bool) {
        self.decide(TurnOver::NotOver { why: Open::ApiError });
        if after {
            self.digest.after.api_errors += 1;
            if !self.assistant_seen {
                let keep = |text: &str| Excerpt::new(text, self.limits.text);
                self.digest.api_error = Some(ApiError {
                    class: entry.error.as_ref().map(|c| c.as_str().to_owned()),
                    status: entry.api_error_status,
                    text: keep(&entry.content().text()),
                    details: entry.error_details.as_ref().map(|d| keep(d.as_str())),
                });
            }
        }
        self.assistant_seen = true;
    }

    fn assistant(&mut self, entry: &Entry<'_>, after: bool) {
        let content = entry.content();
        let text = content.text();
        let message = entry.message();
        self.decide(judge_reply(
            &content,
            &text,
            message.and_then(|m| m.stop_reason.as_ref()).map(Text::as_str),
        ));
        if !text.is_empty() {
            self.digest.resumable = Resumable::Yes;
            if after && self.digest.reply.is_none() {
                self.digest.reply = Some(Excerpt::new(&text, self.limits.text));
            }
        }
        self.message_boundary(message.and_then(|m| m.id.as_ref()).map(Text::as_str));
        // Backwards, so that several calls on one line end up oldest first, too.
        for call in content.blocks("tool_use").collect::<Vec<_>>().into_iter().rev() {
            self.tool_use(call, after);
        }
        if after && let Some(message) = message {
            self.cost(message);
        }
        self.digest.after.assistant += u64::from(after);
        self.assistant_seen = true;
    }

    fn cost(&mut self, message: &Message<'_>) {
        let (Some(id), Some(usage)) = (message.id.as_ref(), message.usage()) else { return };
        let known = self.costs.entry(id.as_str().to_owned()).or_default();
        known.input = known.input.max(usage.input.unwrap_or_default());
        known.output = known.output.max(usage.output.unwrap_or_default());
        known.cache_read = known.cache_read.max(usage.cache_read.unwrap_or_default());
        known.cache_creation = known.cache_creation.max(usage.cache_creation.unwrap_or_default());
    }

    fn message_boundary(&mut self, id: Option<&str>) {
        let next = match &self.dangling {
            Dangling::Waiting => Dangling::In(id.map(str::to_owned)),
            Dangling::In(current) if current.as_deref() == id => return,
            Dangling::In(_) | Dangling::Done => Dangling::Done,
        };
        self.dangling = next;
    }

    fn tool_use(&mut self, call: &Block<'_>, after: bool) {
        let Some(id) = call.id.as_ref().map(Text::as_str) else { return };
        let result = self.results.get(id).copied();
        if matches!(self.dangling, Dangling::In(_)) && result.is_none() {
            self.digest.dangling_tool_use.push(id.to_owned());
        }
        let structured = call.name.as_ref().is_some_and(|name| name.as_str() == STRUCTURED_OUTPUT);
        if structured && after && result != Some(true) && self.digest.structured_output.is_none() {
            let input = call.input.map(RawValue::get).filter(|json| json.len() <= self.limits.text);
            self.digest.structured_output = input.map(str::to_owned);
        }
        if self.awaiting_call.iter().any(|waiting| waiting == id) {
            self.awaiting_call.clear();
            if structured {
                self.digest.turn_over = TurnOver::Over { by: Ended::StructuredOutput };
            }
        }
    }

    fn user(&mut self, entry: &Entry<'_>, after: bool) {
        let content = entry.content();
        let text = content.text();
        if !text.is_empty() {
            self.digest.resumable = Resumable::Yes;
        }
        let mut accepted = Vec::new();
        let mut is_result = false;
        for result in content.blocks("tool_result") {
            is_result = true;
            let Some(id) = result.tool_use_id.as_ref() else { continue };
            let is_error = result.is_error == Some(true);
            self.results.insert(id.as_str().to_owned(), is_error);
            if !is_error {
                accepted.push(id.as_str().to_owned());
            }
        }
        if is_result {
            if self.decide(TurnOver::NotOver { why: Open::ToolResult }) {
                self.awaiting_call = accepted;
            }
            self.digest.after.tool_results += u64::from(after);
            return;
        }
        let interrupted = text.starts_with("[Request interrupted by user");
        self.decide(TurnOver::NotOver { why: if interrupted { Open::Interrupted } else { Open::Prompt } });
        if !interrupted {
            self.awaiting_call.clear();
            self.dangling = Dangling::Done;
        }
        self.digest.after.prompts += u64::from(after);
    }

    /// Answers the turn-over question unless it is answered. Says whether it was open.
    fn decide(&mut self, verdict: TurnOver) -> bool {
        let open = !self.decided;
        if open {
            self.digest.turn_over = verdict;
            self.decided = true;
        }
        open
    }
}

/// The turn-over predicate for an assistant entry (recovery §1.5).
fn judge_reply(content: &Content<'_>, text: &str, stop_reason: Option<&str>) -> TurnOver {
    if content.blocks("tool_use").next().is_some() {
        return TurnOver::NotOver { why: Open::ToolUse };
    }
    match stop_reason {
        _ if text.is_empty() => TurnOver::NotOver { why: Open::NoText },
        None => TurnOver::Over { by: Ended::Text },
        Some(reason) if FINAL_STOP_REASONS.contains(&reason) => {
            TurnOver::Over { by: Ended::StopReason(reason.to_owned()) }
        }
        Some(reason) => TurnOver::NotOver { why: Open::StopReason(reason.to_owned()) },
    }
}

/// Without the NUL bytes at both ends: blocks of them are what a host crash leaves of lost writes.
fn trim_nul(bytes: &[u8]) -> &[u8] {
    let from = bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len());
    let to = bytes.iter().rposition(|b| *b != 0).map_or(from, |last| last + 1);
    &bytes[from..to]
}
