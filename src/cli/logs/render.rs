//! Entries and messages as lines for people, or as JSON lines.
//!
//! What a session says stands under the lines of the run, further in; what a sub-agent says further in still, under
//! the call that started it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::core::published::{Entry, FORMAT, RunEvent};
use crate::engine::headless::summarise;
use crate::protocol::RawJson;
use crate::protocol::stream::{Block, Body, Message, System, TurnResult};
use crate::ui::plain::{self, PlainState};
use crate::ui::text::{TextOptions, Tone, clean_lines};

/// Where the lines of a session begin.
const INDENT: usize = 10;
/// How much further in a sub-agent stands.
const STEP: usize = 4;
/// Deeper than this nothing is moved further in.
const DEEPEST: usize = 4;
/// Columns that words of a session take at most: longer lines are hard to read.
const MAX_WIDTH: usize = 120;
/// Lines of one text.
const MAX_LINES: usize = 40;
/// Lines of a tool's result that failed.
const MAX_FAILURE: usize = 6;
/// Sub-agents whose depth is remembered.
const MAX_AGENTS: usize = 4096;

/// A page being written.
#[derive(Debug)]
pub(super) struct Render {
    options: TextOptions,
    json: bool,
    /// Only this session.
    only: Option<u32>,
    /// The session that is open, or the last one; 0 before the first.
    session: u32,
    inside: bool,
    plain: PlainState,
    started: Option<Timestamp>,
    /// Depth of the sub-agents by the call that started them.
    agents: HashMap<String, usize>,
    out: String,
}

/// A line of a stream for programs.
#[derive(Serialize)]
struct Line<'l> {
    v: u32,
    seq: Option<u64>,
    at: Option<Timestamp>,
    attempt: u32,
    event: Said<'l>,
}

/// What a stream has that the journal has not. The first two are those of `--events`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said<'l> {
    ToolUsed { name: &'l str, summary: String, sub_agent: bool },
    TextWritten { text: &'l str, sub_agent: bool },
    ToolFailed { text: &'l str, sub_agent: bool },
    ToolDenied { name: &'l str },
    TurnFailed { text: &'l str },
}

impl Render {
    pub(super) fn new(options: TextOptions, json: bool, only: Option<u32>) -> Render {
        let plain = PlainState::new(options.clone());
        Render {
            options,
            json,
            only,
            session: 0,
            inside: false,
            plain,
            started: None,
            agents: HashMap::new(),
            out: String::new(),
        }
    }

    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    pub(super) fn entry(&mut self, entry: &Entry) {
        let started = *self.started.get_or_insert(entry.at);
        if let RunEvent::SessionStarted { iteration, .. } = &entry.event {
            (self.session, self.inside) = (*iteration, true);
        }
        let elapsed =
            Duration::try_from_secs_f64(entry.at.duration_since(started).as_secs_f64()).unwrap_or_default();
        // Rendered even if it is not wanted: the lines depend on what was said before.
        let line = plain::render(&entry.event, elapsed, &mut self.plain);
        if self.is_wanted() {
            if self.json {
                _ = writeln!(self.out, "{}", serde_json::to_string(entry).unwrap_or_default());
            } else if let Some(line) = line {
                self.out.push_str(&line);
                self.out.push('\n');
            }
        }
        if matches!(entry.event, RunEvent::SessionEnded { .. }) {
            self.inside = false;
        }
    }

    /// Part of the stream is not there.
    pub(super) fn gap(&mut self) {
        if self.is_wanted() && !self.json {
            self.lines(0, Tone::Dim, "", "[what stood here was not kept: it is in the transcript]", 1);
        }
    }

    pub(super) fn message(&mut self, attempt: u32, message: &Message) {
        let parent = message.parent_tool_use_id.as_deref();
        let depth = parent.map_or(0, |id| self.agents.get(id).copied().unwrap_or(1));
        let sub_agent = parent.is_some();
        match &message.body {
            Body::Assistant(assistant) => {
                for block in &assistant.content {
                    match block {
                        Block::Text(text) if assistant.is_synthetic() => {
                            self.said(attempt, Said::TurnFailed { text }, depth);
                        }
                        Block::Text(text) => self.said(attempt, Said::TextWritten { text, sub_agent }, depth),
                        Block::ToolUse { id, name, input } => {
                            let name = name.as_deref().unwrap_or("a tool");
                            // How the report is handed in, which the journal tells.
                            if name == "StructuredOutput" {
                                continue;
                            }
                            if let Some(id) = id
                                && matches!(name, "Task" | "Agent")
                                && self.agents.len() < MAX_AGENTS
                            {
                                self.agents.insert(id.clone(), (depth + 1).min(DEEPEST));
                            }
                            let input = input.as_ref().and_then(RawJson::to_value).unwrap_or_default();
                            let mut summary = summarise(&input);
                            if let Some(kind) = input.get("subagent_type").and_then(serde_json::Value::as_str)
                            {
                                summary = format!("{kind}: {summary}");
                            }
                            self.said(attempt, Said::ToolUsed { name, summary, sub_agent }, depth);
                        }
                        Block::Thinking | Block::Other { .. } => {}
                    }
                }
            }
            Body::User(user) => {
                for result in user.tool_results.iter().filter(|result| result.is_error) {
                    self.said(attempt, Said::ToolFailed { text: &result.text, sub_agent }, depth);
                }
            }
            Body::System(system) => {
                if let System::PermissionDenied(denied) = &**system {
                    let name = denied.tool_name.as_deref().unwrap_or("a tool");
                    self.said(attempt, Said::ToolDenied { name }, depth);
                }
            }
            Body::Result(result) => self.result(attempt, result),
            Body::RateLimit(_)
            | Body::ControlRequest(_)
            | Body::ControlResponse(_)
            | Body::ControlCancel { .. }
            | Body::Alive
            | Body::Unknown { .. } => {}
        }
    }

    fn result(&mut self, attempt: u32, result: &TurnResult) {
        if result.is_error() {
            let errors = result.errors.join("; ");
            let text = result.text.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or(&errors);
            self.said(attempt, Said::TurnFailed { text }, 0);
        }
    }

    fn said(&mut self, attempt: u32, said: Said<'_>, depth: usize) {
        if !self.is_wanted() {
            return;
        }
        if self.json {
            let line = Line { v: FORMAT, seq: None, at: None, attempt, event: said };
            _ = writeln!(self.out, "{}", serde_json::to_string(&line).unwrap_or_default());
            return;
        }
        match said {
            Said::TextWritten { text, .. } => self.lines(depth, Tone::Plain, "• ", text, MAX_LINES),
            Said::ToolUsed { name, summary, .. } => {
                self.lines(depth, Tone::Dim, "→ ", &format!("{name}: {summary}"), 1);
            }
            Said::ToolFailed { text, .. } => {
                self.lines(depth, Tone::Warn, "! ", &format!("failed: {text}"), MAX_FAILURE);
            }
            Said::ToolDenied { name } => self.lines(depth, Tone::Warn, "! ", &format!("denied: {name}"), 1),
            Said::TurnFailed { text } => {
                self.lines(depth, Tone::Bad, "! ", &format!("turn failed: {text}"), MAX_FAILURE);
            }
        }
    }

    /// Foreign text behind a sign, its lines kept and broken to the width.
    fn lines(&mut self, depth: usize, tone: Tone, sign: &str, text: &str, most: usize) {
        let indent = INDENT + depth * STEP;
        let room = self.options.width.min(MAX_WIDTH).saturating_sub(indent + 2).max(20);
        let mut lines: Vec<String> = clean_lines(text, usize::MAX)
            .iter()
            .flat_map(|line| self.options.wrap_kept(line, room))
            .collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        let more = lines.len().saturating_sub(most);
        lines.truncate(most);
        if more > 0 && most > 1 {
            lines.push(format!("[{more} more lines]"));
        } else if more > 0
            && let Some(last) = lines.last_mut()
        {
            last.push_str(&self.options.spell(" …"));
        }
        let sign = self.options.spell(sign).into_owned();
        for (number, line) in lines.iter().enumerate() {
            let lead = if number == 0 { sign.clone() } else { " ".repeat(sign.chars().count()) };
            let line = if line.is_empty() {
                String::new()
            } else {
                format!("{}{}", " ".repeat(indent), self.options.paint(tone, &format!("{lead}{line}")))
            };
            _ = writeln!(self.out, "{line}");
        }
    }

    fn is_wanted(&self) -> bool {
        self.only.is_none_or(|only| self.inside && only == self.session)
    }
}
