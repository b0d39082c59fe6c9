//! One attempt: its reader, its writer, and the handle on both.

use std::io::Write;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::core::event::{Event, StopStep};
use crate::core::evidence::{AttemptEnd, LaunchFailure};
use crate::engine::handle::{Handle, Request};
use crate::process::{self, SpawnError, SpawnSpec};
use crate::protocol::control;
use crate::tasks::{TaskKind, Tasks};

use super::argv::Protocol;
use super::output::{Found, Output};
use super::questions::Questions;
use super::stderr::StderrTail;
use super::warden;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// How long the rest of the stream is read once the tree is swept. Nobody can write any more; this bounds a
/// survivor that still holds the pipe.
const DRAIN: Duration = Duration::from_secs(2);

/// What to start.
pub struct Order {
    /// Number of the attempt; stamps every event.
    pub attempt: u32,
    /// The process.
    pub spawn: SpawnSpec,
    /// How the prompt is sent.
    pub protocol: Protocol,
    /// The prompt.
    pub prompt: String,
    /// The slash command without which the prompt is not sent. Checked where the handshake names the commands.
    pub needs_command: Option<String>,
    /// How long `initialize` may stay unanswered.
    pub handshake_timeout: Duration,
    /// Where the raw bytes of stdout go.
    pub stdout_log: Box<dyn Write + Send>,
}

/// Starts an attempt. Its events go to `events`; the last one is [`Event::AttemptOver`].
pub fn launch(order: Order, events: mpsc::Sender<Event>, tasks: &Tasks) -> Handle {
    let (handle, received) = Handle::new();
    let inner = tasks.clone();
    tasks.spawn(TaskKind::Session, async move {
        let attempt = order.attempt;
        let end = run(order, &events, received, &inner).await;
        // Without a receiver the run is over and the end is nobody's business any more.
        drop(events.send(Event::AttemptOver { attempt, end: Box::new(end) }).await);
    });
    handle
}

async fn run(
    order: Order,
    events: &mpsc::Sender<Event>,
    requests: UnboundedReceiver<Request>,
    tasks: &Tasks,
) -> AttemptEnd {
    let mut child = match process::spawn(&order.spawn) {
        Ok(child) => child,
        Err(error) => return failed(&error),
    };
    let attempt = order.attempt;
    drop(events.send(Event::Spawned { attempt, pid: child.id().pid }).await);
    let (warden_orders, warden_received) = mpsc::unbounded_channel();
    let (ended, warden_ended) = oneshot::channel();
    let (lines, stdin_lines) = mpsc::unbounded_channel();
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    tasks.spawn(TaskKind::Session, async move {
        let end = warden::watch(child, warden_received).await;
        drop(ended.send(end));
    });
    if let Some(stdin) = stdin {
        tasks.spawn(TaskKind::Session, write_lines(stdin, stdin_lines));
    }
    let handshake_id = format!("autopilot-{attempt}");
    let mut reader = Reader {
        attempt,
        events,
        output: Output::new(&handshake_id),
        stderr: StderrTail::default(),
        stdout_log: order.stdout_log,
        lines: Some(lines),
        prompt: Some(order.prompt),
        needs_command: order.needs_command,
        protocol: order.protocol,
        warden: warden_orders,
        questions: Questions::default(),
        handshake_failed: false,
        missing: None,
    };
    match order.protocol {
        Protocol::Control => reader.write(control::initialize(&handshake_id)),
        Protocol::Plain => reader.send_prompt(),
    }
    let end = reader.read(stdout, stderr, requests, warden_ended, order.handshake_timeout).await;
    let (stderr_tail, stderr_noise) = reader.stderr.finish();
    AttemptEnd {
        exit: end.exit,
        launch_failure: reader.missing,
        handshake_failed: reader.handshake_failed,
        lines: reader.output.lines(),
        signals: end.signals,
        swept: end.swept,
        survivors: end.survivors,
        stderr_tail,
        stderr_noise,
        background_ceiling: reader.stderr.background_ceiling(),
        memory_left: None,
    }
}

struct Reader<'a> {
    attempt: u32,
    events: &'a mpsc::Sender<Event>,
    output: Output,
    stderr: StderrTail,
    stdout_log: Box<dyn Write + Send>,
    /// To the writer; dropped to close stdin.
    lines: Option<UnboundedSender<Vec<u8>>>,
    /// Until it is sent.
    prompt: Option<String>,
    needs_command: Option<String>,
    protocol: Protocol,
    warden: UnboundedSender<warden::Order>,
    questions: Questions,
    handshake_failed: bool,
    missing: Option<(LaunchFailure, String)>,
}

impl Reader<'_> {
    async fn read(
        &mut self,
        mut stdout: Option<ChildStdout>,
        mut stderr: Option<ChildStderr>,
        mut requests: UnboundedReceiver<Request>,
        mut warden_ended: oneshot::Receiver<warden::Ended>,
        handshake_timeout: Duration,
    ) -> warden::Ended {
        let started = now();
        let mut out = BytesMut::new();
        let mut err = BytesMut::new();
        let mut end: Option<warden::Ended> = None;
        let mut drain_until = None;
        let mut listening = true;
        while end.is_none() || ((stdout.is_some() || stderr.is_some()) && drain_until.is_some()) {
            tokio::select! {
                biased;
                request = requests.recv(), if listening => match request {
                    Some(Request::CloseInput) => self.lines = None,
                    Some(Request::Stop(step)) => self.stop(step),
                    Some(Request::Answer(id, answer)) => {
                        if let Some(line) = self.questions.answer(&id, &answer) {
                            self.write(line);
                        }
                    }
                    Some(Request::Activity(reply)) => self.ask_warden(warden::Order::Activity(reply)),
                    None => {
                        listening = false;
                        self.ask_warden(warden::Order::Stop(StopStep::Terminate));
                    }
                },
                ended = &mut warden_ended, if end.is_none() => {
                    end = Some(ended.unwrap_or_default());
                    drain_until = Some(now() + DRAIN);
                }
                () = sleep_until(started + handshake_timeout),
                    if self.prompt.is_some() && !self.handshake_failed && self.missing.is_none() && end.is_none() =>
                {
                    // Nothing ran: the prompt is still here.
                    self.handshake_failed = true;
                    self.ask_warden(warden::Order::Stop(StopStep::Terminate));
                }
                () = sleep_until(self.questions.due().unwrap_or(started)), if self.questions.due().is_some() => {
                    for line in self.questions.overdue(now()) {
                        self.write(line);
                    }
                }
                () = sleep_until(drain_until.unwrap_or(started)), if drain_until.is_some() => {
                    drain_until = None;
                }
                read = read_some(&mut stdout, &mut out), if stdout.is_some() => {
                    if read == 0 {
                        stdout = None;
                    } else {
                        self.log(&out, read < CHUNK);
                        let found = self.output.push(&out);
                        out.clear();
                        self.take(found).await;
                    }
                }
                read = read_some(&mut stderr, &mut err), if stderr.is_some() => {
                    if read == 0 {
                        stderr = None;
                    } else {
                        self.stderr.push(&err);
                        err.clear();
                    }
                }
            }
        }
        let found = self.output.finish();
        self.take(found).await;
        // A log that cannot be written must not spoil the outcome; the journal reports a full disk itself.
        drop(self.stdout_log.flush());
        end.unwrap_or_default()
    }

    /// A quiet stream is flushed: after a crash of the driver the raw log shows what came last.
    fn log(&mut self, bytes: &[u8], quiet: bool) {
        let written = self
            .stdout_log
            .write_all(bytes)
            .and_then(|()| if quiet { self.stdout_log.flush() } else { Ok(()) });
        if let Err(error) = written {
            tracing::debug!(%error, "raw log");
        }
    }

    async fn take(&mut self, found: Found) {
        let Found { facts, replies, questions, taken_back, handshake, commands, speaks } = found;
        for question in questions {
            self.questions.wait(question, now());
        }
        for id in taken_back {
            self.questions.cancel(&id);
        }
        for reply in replies {
            self.write(reply);
        }
        match handshake {
            Some(false) => {
                self.handshake_failed = true;
                self.ask_warden(warden::Order::Stop(StopStep::Terminate));
            }
            Some(true) if self.lacks_command(commands.as_deref()) => {
                self.ask_warden(warden::Order::Stop(StopStep::Terminate));
            }
            Some(true) => self.send_prompt(),
            None if speaks => self.send_prompt(),
            None => {}
        }
        for fact in facts {
            drop(self.events.send(Event::Found { attempt: self.attempt, fact }).await);
        }
    }

    /// To the CLI an unknown command of a plug-in is a text like any other: the model would make something of
    /// it, all night.
    fn lacks_command(&mut self, offered: Option<&[String]>) -> bool {
        if let (Some(needed), Some(offered)) = (&self.needs_command, offered)
            && !offered.contains(needed)
        {
            let words = format!(
                "Claude Code has no command /{needed}: the plug-in is not loaded (claude-arg = [\"--plugin-dir\", …])"
            );
            self.missing = Some((LaunchFailure::CommandMissing, words));
        }
        self.missing.is_some()
    }

    fn send_prompt(&mut self) {
        if self.handshake_failed || self.missing.is_some() {
            return;
        }
        let Some(prompt) = self.prompt.take() else { return };
        match self.protocol {
            Protocol::Control => self.write(control::user_prompt(&prompt)),
            Protocol::Plain => {
                self.write(prompt.into_bytes());
                self.lines = None;
            }
        }
    }

    fn stop(&mut self, step: StopStep) {
        // Over the control protocol an interrupt ends the turn with a result; the core's deadline follows it
        // with SIGTERM.
        if step == StopStep::Interrupt && self.protocol == Protocol::Control && self.prompt.is_none() {
            self.write(control::interrupt(&format!("autopilot-{}-interrupt", self.attempt)));
        } else {
            self.ask_warden(warden::Order::Stop(step));
        }
    }

    fn write(&mut self, line: Vec<u8>) {
        if let Some(lines) = &self.lines {
            // The writer ends when the child closes its stdin: nothing can be said to it any more.
            drop(lines.send(line));
        }
    }

    fn ask_warden(&self, order: warden::Order) {
        // The warden is gone when the process is: the order has no object.
        drop(self.warden.send(order));
    }
}

/// Reads into `buffer`; 0 = end or a broken pipe. Cancel-safe.
async fn read_some(source: &mut Option<impl AsyncRead + Unpin>, buffer: &mut BytesMut) -> usize {
    let Some(source) = source else { return 0 };
    buffer.reserve(CHUNK);
    source.read_buf(buffer).await.unwrap_or(0)
}

/// Writes what comes, and closes stdin when no more can come. A child that closed its end is no failure by
/// itself (field-reports C16).
async fn write_lines(mut stdin: ChildStdin, mut lines: UnboundedReceiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if let Err(error) = stdin.write_all(&line).await {
            tracing::debug!(%error, "stdin of the child");
            return;
        }
    }
}

fn now() -> Instant {
    Instant::now()
}

pub(in crate::engine) fn failed(error: &SpawnError) -> AttemptEnd {
    let kind = match error {
        SpawnError::Missing { .. } | SpawnError::Busy { .. } | SpawnError::SymlinkLoop { .. } => {
            LaunchFailure::ProgramMissing
        }
        SpawnError::InterpreterMissing { .. } | SpawnError::NotExecutable { .. } => {
            LaunchFailure::NotExecutable
        }
        SpawnError::WorkingDirectory { .. } => LaunchFailure::DirectoryGone,
        SpawnError::Other { .. } => LaunchFailure::Other,
    };
    let mut words = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        words = format!("{words}: {source}");
    }
    AttemptEnd { launch_failure: Some((kind, words)), ..AttemptEnd::default() }
}
