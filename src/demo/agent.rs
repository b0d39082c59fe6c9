//! The scripted agent: plays `claude` over the protocol of the real CLI (claude-code §2 to §5).
//!
//! It knows the flags that name a conversation and a format and ignores the rest, answers `initialize`, asks
//! the driver before each tool call when hooks were registered or permission prompts go to stdio, and then
//! really writes and commits the next part of the work ([`super::script`]). What is done is read from the
//! repository, so that nothing has to be remembered between sessions. It ends when its input ends.
//!
//! It is generic over its streams and takes the time as an argument; the pauses, which let a person watch,
//! are data.

mod options;

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use options::{Options, Output};

use super::script::{PARTS, Part, SESSIONS, parts_done};
use super::wire::{self, ResultFacts, Transcript, TurnEnd};
use super::{DemoError, run_git, write_new};

/// Pause between two lines in front of a person; a session has at most five of them.
pub const PAUSE: Duration = Duration::from_millis(400);

/// Where the agent finds itself.
#[derive(Debug, Clone)]
pub struct World {
    /// The working folder.
    pub cwd: PathBuf,
    /// `CLAUDE_CONFIG_DIR`.
    pub config_dir: PathBuf,
    /// The time at the start; the pauses are added to it.
    pub now: Timestamp,
    /// Between two lines.
    pub pause: Duration,
}

/// Why the agent leaves in the middle.
enum Leave {
    /// The driver has closed its side.
    Gone,
    /// The turn was interrupted; the process lives on.
    Interrupted,
}

impl From<io::Error> for Leave {
    fn from(_: io::Error) -> Self {
        Leave::Gone
    }
}

/// Runs the agent; `args` without the program's name. Returns the exit code.
pub fn run(
    args: &[String],
    world: &World,
    input: impl BufRead,
    mut output: impl Write,
    errors: impl Write,
) -> u8 {
    if args.iter().any(|arg| matches!(arg.as_str(), "--version" | "-v")) {
        return u8::from(writeln!(output, "{} (Claude Code)", wire::VERSION).is_err());
    }
    let options = Options::parse(args);
    let named = options.resume.as_ref().or(options.session_id.as_ref());
    let session_id = named.cloned().unwrap_or_else(|| Uuid::new_v4().to_string());
    if Uuid::parse_str(&session_id).is_err() {
        return refuse(errors, "Error: Invalid session ID. Must be a valid UUID.");
    }
    let cwd = world.cwd.canonicalize().unwrap_or_else(|_| world.cwd.clone());
    let transcript = Transcript::new(&world.config_dir, &cwd, &session_id);
    let (turns, has_messages) = transcript.past();
    if options.resume.is_some() && !has_messages {
        return refuse(output, &wire::no_conversation(&session_id).to_string());
    }
    if options.resume.is_none() && transcript.exists() {
        return refuse(errors, &format!("Error: Session ID {session_id} is already in use."));
    }
    let agent = Agent {
        options,
        cwd,
        session_id,
        input,
        output,
        transcript,
        turns,
        at: world.now,
        pause: world.pause,
        spent: Duration::ZERO,
        hook: None,
        requests: 0,
        waiting: VecDeque::new(),
        denials: Vec::new(),
    };
    agent.serve()
}

/// Last words before anything was done; exit code 1 whether or not somebody reads them.
fn refuse(mut to: impl Write, words: &str) -> u8 {
    writeln!(to, "{words}").and_then(|()| to.flush()).map_or(1, |()| 1)
}

struct Agent<I, O> {
    options: Options,
    cwd: PathBuf,
    session_id: String,
    input: I,
    output: O,
    transcript: Transcript,
    /// Turns finished in this conversation.
    turns: u32,
    at: Timestamp,
    pause: Duration,
    spent: Duration,
    /// Callback to ask before each tool call.
    hook: Option<String>,
    /// Requests sent to the driver.
    requests: u32,
    /// Lines that came while an answer was awaited.
    waiting: VecDeque<Value>,
    denials: Vec<Value>,
}

/// A tool call the agent is about to make.
struct Call {
    name: &'static str,
    input: Value,
    id: String,
    /// Whether the default rules would ask a person.
    sensitive: bool,
}

impl<I: BufRead, O: Write> Agent<I, O> {
    fn serve(mut self) -> u8 {
        if !self.options.streams_in {
            let mut prompt = self.options.prompt.take().unwrap_or_default();
            let mut piped = Vec::new();
            if prompt.is_empty() && self.input.read_to_end(&mut piped).is_ok() {
                prompt = String::from_utf8_lossy(&piped).into_owned();
            }
            return match self.turn(&prompt) {
                Ok(()) => 0,
                Err(_) => 1,
            };
        }
        while let Some(line) = self.waiting.pop_front().or_else(|| self.read()) {
            let handled = match line["type"].as_str() {
                Some("control_request") => self.control(&line).map(drop),
                Some("user") => self.turn(&prompt_text(&line["message"]["content"])),
                _ => Ok(()),
            };
            if handled.is_err() {
                return 1;
            }
        }
        0
    }

    /// The next line that is JSON; `None` at the end.
    fn read(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        loop {
            line.clear();
            match self.input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
            if let Ok(value) = serde_json::from_slice(&line) {
                return Some(value);
            }
        }
    }

    /// A line of the stream; only the stream format shows it.
    fn emit(&mut self, line: &Value) -> io::Result<()> {
        if self.options.output == Output::Stream {
            writeln!(self.output, "{line}")?;
            self.output.flush()?;
        }
        Ok(())
    }

    /// Lets a person watch.
    fn pause(&mut self) {
        if !self.pause.is_zero() {
            std::thread::sleep(self.pause);
        }
        self.spent += self.pause;
    }

    fn time(&self) -> Timestamp {
        self.at.checked_add(self.spent).unwrap_or(self.at)
    }

    /// Answers a request of the driver. Whether it was an interrupt.
    fn control(&mut self, line: &Value) -> io::Result<bool> {
        let request = &line["request"];
        let subtype = request["subtype"].as_str().unwrap_or_default();
        let mut answer = json!({});
        if subtype == "initialize" {
            self.hook = request["hooks"]["PreToolUse"]
                .as_array()
                .and_then(|hooks| hooks.first()?["hookCallbackIds"].as_array()?.first()?.as_str())
                .map(str::to_owned);
            answer = json!({"commands": [], "output_style": "default", "models": []});
        }
        self.emit(&json!({
            "type": "control_response",
            "response": {"subtype": "success", "request_id": line["request_id"], "response": answer},
        }))?;
        Ok(subtype == "interrupt")
    }

    /// Asks the driver, and waits for its answer. Requests that come meanwhile are answered, prompts kept.
    fn ask(&mut self, request: &Value) -> Result<Value, Leave> {
        self.requests += 1;
        let id = format!("demo-{}", self.requests);
        self.emit(&json!({"type": "control_request", "request_id": id, "request": request}))?;
        loop {
            let line = self.read().ok_or(Leave::Gone)?;
            match line["type"].as_str() {
                Some("control_response") if line["response"]["request_id"] == json!(id) => {
                    return Ok(line["response"]["response"].clone());
                }
                Some("control_request") if self.control(&line)? => return Err(Leave::Interrupted),
                Some("user") => self.waiting.push_back(line),
                _ => {}
            }
        }
    }

    /// Whether the driver lets a call through; the reason if not.
    fn permitted(&mut self, call: &Call) -> Result<Result<(), String>, Leave> {
        if let Some(callback) = self.hook.clone() {
            let answer = self.ask(&json!({
                "subtype": "hook_callback", "callback_id": callback, "tool_use_id": call.id,
                "input": {
                    "hook_event_name": "PreToolUse", "tool_name": call.name, "tool_input": call.input,
                    "tool_use_id": call.id, "session_id": self.session_id,
                    "cwd": self.cwd.to_string_lossy(), "permission_mode": self.options.permission_mode,
                },
            }))?;
            let decision = &answer["hookSpecificOutput"];
            match decision["permissionDecision"].as_str() {
                Some("deny") => return Ok(Err(text_of(&decision["permissionDecisionReason"]))),
                Some("allow") => return Ok(Ok(())),
                _ => {}
            }
        }
        if call.sensitive && self.options.asks && self.options.permission_mode != "bypassPermissions" {
            let answer = self.ask(&json!({
                "subtype": "can_use_tool", "tool_name": call.name, "input": call.input,
                "tool_use_id": call.id, "permission_suggestions": [],
            }))?;
            if answer["behavior"] != "allow" {
                return Ok(Err(text_of(&answer["message"])));
            }
        }
        Ok(Ok(()))
    }

    /// One content block of the model, on the stream and in the transcript.
    fn say(&mut self, content: &Value, stop_reason: Option<&str>) -> io::Result<()> {
        let message = wire::assistant_message(content, stop_reason);
        self.transcript.message("assistant", &message, self.time())?;
        self.emit(&wire::message_line("assistant", &self.session_id, &message))
    }

    fn say_text(&mut self, text: &str, stop_reason: Option<&str>) -> io::Result<()> {
        self.say(&json!({"type": "text", "text": text}), stop_reason)?;
        self.pause();
        Ok(())
    }

    /// A tool call from announcement to result. Whether it was done.
    fn call(
        &mut self,
        name: &'static str,
        input: Value,
        sensitive: bool,
        act: impl FnOnce() -> Result<String, DemoError>,
    ) -> Result<bool, Leave> {
        let call = Call { name, input, id: format!("toolu_demo_{}", Uuid::new_v4().simple()), sensitive };
        self.say(&json!({"type": "tool_use", "id": call.id, "name": name, "input": call.input}), None)?;
        let (text, is_error) = match self.permitted(&call)? {
            Err(reason) => {
                self.denials.push(json!({
                    "tool_name": name, "tool_use_id": call.id, "tool_input": call.input,
                }));
                (reason, true)
            }
            Ok(()) => match act() {
                Ok(text) => (text, false),
                Err(error) => (error.to_string(), true),
            },
        };
        let message = wire::tool_result_message(&call.id, &text, is_error);
        self.transcript.message("user", &message, self.time())?;
        self.emit(&wire::message_line("user", &self.session_id, &message))?;
        self.pause();
        Ok(!is_error)
    }

    /// A prompt from its arrival to its result.
    fn turn(&mut self, prompt: &str) -> io::Result<()> {
        self.emit(&wire::init(&self.session_id, &self.cwd, &self.options.permission_mode))?;
        self.denials.clear();
        let asked = json!({"role": "user", "content": prompt});
        self.transcript.message("user", &asked, self.time())?;
        let (text, end) = match self.work() {
            Ok((text, report)) => (text, TurnEnd::Done(self.options.wants_report.then_some(report))),
            Err(Leave::Interrupted) => (String::new(), TurnEnd::Interrupted),
            Err(Leave::Gone) => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        self.turns = self.turns.saturating_add(1);
        self.transcript.turn_over(self.turns)?;
        let line = wire::result(
            &end,
            &ResultFacts {
                session_id: &self.session_id,
                text: &text,
                turns: self.turns,
                denials: &self.denials,
                milliseconds: u64::try_from(self.spent.as_millis()).unwrap_or(u64::MAX),
            },
        );
        match self.options.output {
            Output::Stream => self.emit(&line)?,
            Output::Json => writeln!(self.output, "{line}")?,
            Output::Text => writeln!(self.output, "{text}")?,
        }
        self.output.flush()
    }

    /// The next part of the work: its last words and the session report.
    fn work(&mut self) -> Result<(String, Value), Leave> {
        let done = match parts_done(&self.cwd) {
            Ok(Some(done)) => done,
            Ok(None) => {
                let why = "This repository was not made by `autopilot demo`, so I leave it alone.";
                return self.close(report("blocked", why, None, SESSIONS as usize));
            }
            Err(error) => {
                let why = format!("I cannot read the repository: {error}.");
                return self.close(report("blocked", &why, None, SESSIONS as usize));
            }
        };
        let Some(part) = PARTS.get(done) else {
            return self.close(report("nothing_to_do", "All parts of the guide are there.", None, 0));
        };
        let left = PARTS.len() - done - 1;
        self.say_text(&format!("{done} of {SESSIONS} parts are there. The next is {}.", part.title), None)?;
        if done == 1 {
            // As the real CLI does in a bad minute.
            self.emit(&wire::api_retry(&self.session_id))?;
            self.pause();
        }
        if !self.write_and_commit(part, done)? {
            let why = format!("The part {:?} could not be committed.", part.title);
            return self.close(report("partial", &why, None, left + 1));
        }
        let status = if left == 0 { "complete" } else { "partial" };
        let summary = format!("Wrote part {} of {SESSIONS}: {}.", done + 1, part.title);
        self.close(report(status, &summary, Some(part), left))
    }

    fn write_and_commit(&mut self, part: &'static Part, done: usize) -> Result<bool, Leave> {
        let (cwd, path) = (self.cwd.clone(), self.cwd.join(part.path));
        let input = json!({"file_path": path.to_string_lossy(), "content": part.text});
        let written = self.call("Write", input, false, || {
            // It may be left from a session that was cut off between writing and committing.
            if !path.exists() {
                let folder = path.parent().unwrap_or(&cwd);
                std::fs::create_dir_all(folder).map_err(super::failed("make", folder))?;
                write_new(&path, part.text)?;
            }
            Ok(format!("File created successfully at: {}", path.display()))
        })?;
        if !written {
            return Ok(false);
        }
        let subject = format!("Guide, part {} of {SESSIONS}: {}", done + 1, part.title);
        let command = format!("git add {0} && git commit -m '{subject}'", part.path);
        let input = json!({"command": command, "description": "Commit the new part"});
        let cwd = self.cwd.clone();
        self.call("Bash", input, true, || {
            run_git(&cwd, &["add", part.path])?;
            run_git(&cwd, &["commit", "-m", &subject])
        })
    }

    /// Last words and report.
    fn close(&mut self, report: Value) -> Result<(String, Value), Leave> {
        let text = text_of(&report["summary"]);
        self.say_text(&text, if self.options.wants_report { None } else { Some("end_turn") })?;
        if self.options.wants_report {
            let id = format!("toolu_demo_{}", Uuid::new_v4().simple());
            let call = json!({"type": "tool_use", "id": id, "name": "StructuredOutput", "input": report});
            self.say(&call, Some("tool_use"))?;
            let message = wire::tool_result_message(&id, "Structured output provided successfully", false);
            self.transcript.message("user", &message, self.time())?;
            self.emit(&wire::message_line("user", &self.session_id, &message))?;
        }
        Ok((text, report))
    }
}

/// The session report (design §5). `part` is what was done, `left` how many parts remain.
fn report(status: &str, summary: &str, part: Option<&Part>, left: usize) -> Value {
    let done = usize::from(part.is_some());
    let carried: Vec<&str> =
        PARTS[PARTS.len().saturating_sub(left)..].iter().map(|part| part.title).collect();
    let mut report = json!({
        "status": status, "summary": summary,
        "agent_summary": {"complete": done, "partial": 0, "failed": 0, "spiral": 0},
        "effectiveness": {"planned_issues": done, "completed": done, "carryover": 0, "emergent": 0},
        "waves": [], "tasks_done": part.map(|part| part.title).into_iter().collect::<Vec<_>>(),
        "tasks_carried": carried, "recommended_mode": "feature", "top_priorities": [],
        "rationale": "One part a session.", "do_not_retry": [],
    });
    if status == "blocked" {
        report["blocked_on"] = json!({"question": summary, "options": ["run `autopilot demo` instead"]});
    }
    report
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The text of a prompt: a string, or the text blocks of a list.
fn prompt_text(content: &Value) -> String {
    match content {
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        other => text_of(other),
    }
}

#[cfg(test)]
mod tests;
