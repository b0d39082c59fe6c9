//! Prompts, answers and the one place where the script waits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Play, Played, Stop, Turn};
use crate::control::{self, Input, Mode};
use crate::script;
use crate::state::now_ms;

/// How long the CLI waits for plain input that does not come (claude-code §5).
const STDIN_PATIENCE: Duration = Duration::from_secs(3);

impl Play {
    pub(super) fn start_reading(&mut self) {
        if !self.reading {
            self.reading = true;
            let (mode, sender) = (self.mode, self.sender.clone());
            let (call, hooks, out) = (Arc::clone(&self.call), Arc::clone(&self.hooks), Arc::clone(&self.out));
            thread::spawn(move || control::read(mode, &call, &hooks, &out, &sender));
        }
    }

    pub(super) fn next_input(&mut self) -> Input {
        match self.pending.pop_front() {
            Some(input) => input,
            // `self.sender` is alive, so the channel never closes.
            None => self.inputs.recv().unwrap_or(Input::Eof),
        }
    }

    pub(super) fn read_prompt(&mut self) -> Played {
        let text = match (self.mode, self.args.prompt.clone()) {
            (Mode::Plain, Some(text)) => text,
            (Mode::Plain, None) => self.plain_prompt()?,
            _ => {
                self.start_reading();
                loop {
                    match self.next_input() {
                        Input::Prompt(text) => break text,
                        Input::Eof => return Err(Stop::Exit(self.code)),
                        Input::Interrupt | Input::Answer(..) => {}
                    }
                }
            }
        };
        self.call.push("prompts", text.clone().into());
        self.call.event("prompt", &Value::Null);
        if text.trim().is_empty() {
            self.out.stderr(
                b"Error: Input contained only whitespace. Provide a prompt with text through stdin or as a prompt argument when using --print\n",
            );
            return Err(Stop::Exit(1));
        }
        self.turn = Turn { prompt: text, started_ms: now_ms(), ..Turn::default() };
        Ok(())
    }

    pub(super) fn plain_prompt(&mut self) -> Result<String, Stop> {
        self.start_reading();
        let first = match self.inputs.recv_timeout(STDIN_PATIENCE) {
            Err(RecvTimeoutError::Timeout) if self.hooks.bytes.load(Ordering::SeqCst) == 0 => {
                self.out.stderr(
                    b"Warning: no stdin data received in 3s, proceeding without it. If piping from a slow command, redirect stdin explicitly: < /dev/null to skip, or wait longer.\n",
                );
                return Ok(String::new());
            }
            Err(_) => self.next_input(),
            Ok(input) => input,
        };
        match first {
            Input::Prompt(text) => Ok(text),
            other => Err(Stop::Mistake(format!("{other:?} instead of a prompt"))),
        }
    }

    /// Waits for `time`; an interrupt ends the wait and the turn.
    pub(super) fn wait(&mut self, time: Duration) -> Played {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.inputs.recv_timeout(left) {
                Ok(Input::Interrupt) if !self.deaf_to_interrupt => return Err(Stop::Interrupted),
                Ok(input) => self.pending.push_back(input),
                Err(_) => return Ok(()),
            }
        }
    }

    /// Waits until `done`, or for ever; gives up when the test's folder is gone.
    pub(super) fn wait_until(&mut self, mut done: impl FnMut() -> bool) -> Played {
        while !done() {
            self.wait(Duration::from_millis(20))?;
            if !self.call.state().path("calls").exists() {
                return Err(Stop::Exit(98));
            }
        }
        Ok(())
    }

    /// Sends a control request and waits for its answer.
    pub(super) fn ask(&mut self, request: &Value, list: &str) -> Result<Value, Stop> {
        self.requests += 1;
        let id = format!("fake-{}-{}", self.call.number, self.requests);
        self.out.line(&json!({"type": "control_request", "request_id": id, "request": request}));
        // Not where answers are timed: each entry is a write.
        if !list.is_empty() {
            self.call.event("asked", request);
        }
        loop {
            match self.inputs.recv().unwrap_or(Input::Eof) {
                Input::Answer(of, response) if of == id => {
                    if !list.is_empty() {
                        self.call.push(list, response.clone());
                    }
                    return Ok(response["response"].clone());
                }
                Input::Interrupt if !self.deaf_to_interrupt => return Err(Stop::Interrupted),
                // Stdin closed under a question: the CLI cannot go on either.
                Input::Eof => return Err(Stop::Exit(1)),
                other => self.pending.push_back(other),
            }
        }
    }

    pub(super) fn read_stdin(&mut self, how: &str) -> Played {
        match how {
            "never" => Ok(()),
            "to-eof" => {
                self.start_reading();
                loop {
                    match self.next_input() {
                        Input::Eof => return Ok(()),
                        Input::Prompt(text) => self.call.push("prompts", text.into()),
                        Input::Answer(..) | Input::Interrupt => {}
                    }
                }
            }
            count => {
                let mut bytes = vec![0; script::size(count).ok_or_else(|| format!("`{count}` is no size"))?];
                io::Read::read_exact(&mut io::stdin().lock(), &mut bytes)?;
                self.call.update(|r| r["stdin_bytes"] = bytes.len().into());
                self.call.event("read", &bytes.len().into());
                Ok(())
            }
        }
    }

    pub(super) fn next_prompt(&mut self) -> Played {
        if self.mode == Mode::Plain {
            return Err(Stop::Mistake("plain input has one prompt".to_owned()));
        }
        self.read_prompt()
    }
}
