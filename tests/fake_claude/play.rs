//! Plays the script of one call.
//!
//! A step may end the turn early (`interrupt` from the driver) or the process (`exit`, a refusal). In between
//! waits; [`Play::wait`] is the only place where something else can happen.

mod conversation;
mod given;
mod input;
mod world;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::Value;

use self::given::Given;
use crate::args::Args;
use crate::control::{Hooks, Input, Mode};
use crate::out::Out;
use crate::script::{self, Facts, Step};
use crate::signals::Traps;
use crate::state::{Call, now_ms};
use crate::transcript::Transcript;
use crate::wire;

/// Why the steps stopped.
pub(crate) enum Stop {
    /// The process ends with this code.
    Exit(i32),
    /// The driver interrupted the turn.
    Interrupted,
    /// The script is wrong: a mistake of the test.
    Mistake(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Mistake(error.to_string())
    }
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Mistake(text)
    }
}

type Played = Result<(), Stop>;

/// The conversation and where the script stands.
pub(crate) struct Play {
    pub(crate) args: Args,
    pub(crate) call: Arc<Call>,
    pub(crate) out: Arc<Out>,
    pub(crate) traps: Arc<Traps>,
    pub(crate) config_dir: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) session: String,
    used_before: bool,
    mode: Mode,
    hooks: Arc<Hooks>,
    sender: Sender<Input>,
    inputs: Receiver<Input>,
    pending: VecDeque<Input>,
    reading: bool,
    transcript: Option<Transcript>,
    turn: Turn,
    code: i32,
    requests: u64,
    deaf_to_interrupt: bool,
}

/// What a turn has gathered so far.
#[derive(Default)]
struct Turn {
    prompt: String,
    recorded: bool,
    last_text: String,
    steps: u64,
    report: Option<Value>,
    denials: Vec<Value>,
    open_tool: Option<(String, bool)>,
    agents: [u64; 2],
    spend: Option<(f64, u64, u64)>,
    started_ms: u64,
}

impl Play {
    pub(crate) fn new(
        args: Args,
        call: Arc<Call>,
        out: Arc<Out>,
        traps: Arc<Traps>,
        (config_dir, cwd): (PathBuf, PathBuf),
        (session, used_before): (String, bool),
    ) -> Self {
        let (sender, inputs) = mpsc::channel();
        let transcript = Some(Transcript::new(&config_dir, &call.state().path("shadow"), &cwd, &session));
        let mode = if args.stream_input() { Mode::Control } else { Mode::Plain };
        Self {
            args,
            call,
            out,
            traps,
            config_dir,
            cwd,
            session,
            used_before,
            mode,
            hooks: Arc::default(),
            sender,
            inputs,
            pending: VecDeque::new(),
            reading: false,
            transcript,
            turn: Turn::default(),
            code: 0,
            requests: 0,
            deaf_to_interrupt: false,
        }
    }

    /// Plays `steps` and ends the process.
    pub(crate) fn run(mut self, steps: &[Step]) -> ! {
        match self.all(steps) {
            Ok(()) | Err(Stop::Interrupted) => self.call.leave(self.code),
            Err(Stop::Exit(code)) => self.call.leave(code),
            Err(Stop::Mistake(text)) => {
                self.out.stderr(format!("fake-claude: {text}\n").as_bytes());
                self.call.violation("script", &text);
                self.call.leave(99)
            }
        }
    }

    fn all(&mut self, steps: &[Step]) -> Played {
        if script::mentions(steps, &["plain"]) && self.mode == Mode::Control {
            self.mode = Mode::Deaf;
        }
        if script::mentions(steps, &["no_transcript"]) {
            self.transcript = None;
        }
        if !script::mentions(steps, &["read_prompt", "read_stdin"]) {
            self.read_prompt()?;
        }
        let mut rest = steps.iter();
        while let Some(step) = rest.next() {
            match self.step(step) {
                Err(Stop::Interrupted) => {
                    self.call.event("interrupted", &Value::Null);
                    self.traps.end_tools();
                    self.traps.in_tool.store(false, Ordering::SeqCst);
                    self.result(&wire::aborted())?;
                    let next = rest.find(|s| script::mentions(std::slice::from_ref(s), &["next_prompt"]));
                    next.map_or(Ok(()), |step| self.step(step))?;
                }
                other => other?,
            }
        }
        self.wait_for_the_end()
    }

    /// After the script: a process that talks JSON lines ends when its stdin does.
    fn wait_for_the_end(&mut self) -> Played {
        while self.mode != Mode::Plain && self.reading {
            match self.next_input() {
                Input::Eof => break,
                Input::Prompt(text) => {
                    self.call.violation("unscripted_prompt", &text);
                    return Err(Stop::Exit(99));
                }
                Input::Interrupt | Input::Answer(..) => {}
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Played {
        match step {
            Step::Repeat(times, inner) => {
                (0..*times).try_for_each(|_| inner.iter().try_for_each(|step| self.step(step)))
            }
            Step::Do { line, word, rest } => {
                let cwd = self.cwd.to_string_lossy().into_owned();
                let facts =
                    Facts { session: &self.session, call: self.call.number, cwd: &cwd, now: now_ms() / 1000 };
                let rest = script::expand(rest, &facts);
                self.perform(word, &rest).map_err(|stop| match stop {
                    Stop::Mistake(text) => Stop::Mistake(format!("line {line}: {word}: {text}")),
                    other => other,
                })
            }
            Step::NthCall(..) | Step::IfSession { .. } => {
                Err(Stop::Mistake("a block was not selected".to_owned()))
            }
        }
    }

    fn perform(&mut self, word: &str, rest: &str) -> Played {
        if word == "emit" {
            self.out.stdout(format!("{rest}\n").as_bytes());
            return Ok(());
        }
        let args = script::args(rest)?;
        let a = Given { args: &args };
        match word {
            "plain" | "no_transcript" => Ok(()),
            "read_prompt" => self.read_prompt(),
            "read_stdin" => self.read_stdin(a.word(0)?),
            "next_prompt" => self.next_prompt(),
            "if_used_session_id" => self.refuse_used_id(),
            "new_session" => {
                self.session = wire::uuid();
                self.call.update(|r| r["session_id"] = self.session.clone().into());
                self.transcript = self.transcript.take().map(|_| {
                    Transcript::new(
                        &self.config_dir,
                        &self.call.state().path("shadow"),
                        &self.cwd,
                        &self.session,
                    )
                });
                Ok(())
            }
            "emit_raw" => self.emit_raw(&args),
            "stderr" => self.stderr(&args),
            "sleep" => self.wait(Duration::from_millis(a.number(0)?)),
            "hang" => {
                self.call.event("hang", &Value::Null);
                self.wait_until(|| false)
            }
            "wait_file" => {
                let path = self.call.state().path(&a.text(0)?);
                self.call.event("waiting", &a.text(0)?.into());
                self.wait_until(|| path.exists())
            }
            "mark" => {
                self.call.event("mark", &a.text(0)?.into());
                Ok(())
            }
            "exit" => Err(Stop::Exit(i32::try_from(a.number(0)?).map_err(|e| e.to_string())?)),
            "signal_self" => self.signal_self(a.word(0)?),
            "trap_term" | "trap_int" => {
                let ms = if args.len() > 1 { a.number(1)? } else { 0 };
                *self.traps.last_words.lock().unwrap_or_else(PoisonError::into_inner) =
                    self.transcript.as_ref().map(|_| {
                        let shadows = self.call.state().path("shadow");
                        Transcript::new(&self.config_dir, &shadows, &self.cwd, &self.session)
                    });
                Ok(self.traps.set(word == "trap_int", a.word(0)?, ms)?)
            }
            "trap_interrupt" => {
                self.deaf_to_interrupt = a.word(0)? == "ignore";
                Ok(())
            }
            "alloc" => {
                let bytes = usize::try_from(a.number(0)?).map_err(|e| e.to_string())? << 20;
                // Written, so that it is resident, and kept to the end of the process.
                std::mem::forget(vec![1_u8; bytes]);
                self.call.event("allocated", &bytes.into());
                Ok(())
            }
            "busy" => self.busy(a.number(0)?),
            "spawn_grandchild" => self.spawn_grandchild(&args),
            "touch" => self.write_file(&a.text(0)?, a.bytes(1)),
            "half_write" => {
                let content = a.bytes(1);
                self.write_file(&a.text(0)?, &content[..content.len() / 2])
            }
            "commit" => self.commit(&a.text(0)?, &args[1..]),
            _ => self.speak(word, &a),
        }
    }

    fn refuse_used_id(&self) -> Played {
        if self.args.has("--session-id") && self.used_before {
            self.out.stderr(format!("Error: Session ID {} is already in use.\n", self.session).as_bytes());
            return Err(Stop::Exit(1));
        }
        Ok(())
    }
}
