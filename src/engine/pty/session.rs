//! One attempt: the terminal, the transcript, and the pilot between them.

use std::io::Write;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::core::event::{Event, StopStep};
use crate::core::evidence::AttemptEnd;
use crate::core::fact::{Asked, Fact, Initialised};
use crate::engine::handle::{Handle, Request};
use crate::engine::headless::{failed, warden};
use crate::process::{self, SpawnSpec};
use crate::tasks::{TaskKind, Tasks};

use super::pilot::{Act, Pilot, Seen};
use super::screen;
use super::tail::Tail;
use super::timings::{COLUMNS, POLL, ROWS};
use super::{report, triage};

/// What to start.
pub struct Order {
    /// Number of the attempt; stamps every event.
    pub attempt: u32,
    /// The process.
    pub spawn: SpawnSpec,
    /// The prompt.
    pub prompt: String,
    /// JSON schema of the report that the prompt shall ask for.
    pub report_schema: Option<String>,
    /// The conversation.
    pub session_id: String,
    /// It is continued.
    pub resume: bool,
    /// The operator asked to skip permissions.
    pub may_bypass: bool,
    /// Where the transcript grows.
    pub transcript: PathBuf,
    /// The triage command.
    pub triage: Option<String>,
    /// Where lines of the transcript go, in the place of the stream's.
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
    // Before the program may write to it.
    let tail = Tail::new(order.transcript.clone());
    let (child, terminal) = match process::spawn_on_terminal(&order.spawn, ROWS, COLUMNS) {
        Ok(started) => started,
        Err(error) => return failed(&error),
    };
    let attempt = order.attempt;
    drop(events.send(Event::Spawned { attempt, pid: child.id().pid }).await);
    let (warden_orders, warden_received) = mpsc::unbounded_channel();
    let (ended, warden_ended) = oneshot::channel();
    tasks.spawn(TaskKind::Session, async move {
        let end = warden::watch(child, warden_received).await;
        drop(ended.send(end));
    });
    let mut prompt = order.prompt;
    if let Some(schema) = &order.report_schema {
        prompt.push_str(&report::instruction(schema));
    }
    let mut session = Session {
        attempt,
        events,
        tail,
        pilot: Pilot::new(Duration::ZERO, prompt, order.resume, order.may_bypass),
        parser: vt100::Parser::new(cells(ROWS), cells(COLUMNS), 0),
        keyboard: terminal.keyboard,
        warden: warden_orders,
        started: Instant::now(),
        id: order.session_id,
        initialised: false,
        found: 0,
        gave_up: None,
        triage: order.triage,
        cwd: order.spawn.cwd,
        stdout_log: order.stdout_log,
    };
    let end = session.watch(terminal.output, requests, warden_ended).await;
    drop(session.stdout_log.flush());
    AttemptEnd {
        exit: end.exit,
        lines: session.found,
        signals: end.signals,
        swept: end.swept,
        survivors: end.survivors,
        stderr_tail: session.gave_up.unwrap_or_default(),
        ..AttemptEnd::default()
    }
}

struct Session<'a> {
    attempt: u32,
    events: &'a mpsc::Sender<Event>,
    tail: Tail,
    pilot: Pilot,
    parser: vt100::Parser,
    keyboard: pty_process::OwnedWritePty,
    warden: UnboundedSender<warden::Order>,
    started: Instant,
    id: String,
    initialised: bool,
    found: u64,
    gave_up: Option<String>,
    triage: Option<String>,
    cwd: PathBuf,
    stdout_log: Box<dyn Write + Send>,
}

impl Session<'_> {
    async fn watch(
        &mut self,
        output: pty_process::OwnedReadPty,
        mut requests: UnboundedReceiver<Request>,
        mut warden_ended: oneshot::Receiver<warden::Ended>,
    ) -> warden::Ended {
        let mut output = Some(output);
        let mut chunk = vec![0; 64 << 10];
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut listening = true;
        loop {
            tokio::select! {
                biased;
                request = requests.recv(), if listening => match request {
                    Some(Request::CloseInput) => self.pilot.leave(),
                    Some(Request::Stop(step)) => self.stop(step).await,
                    Some(Request::Answer(id, answer)) => {
                        let allow = answer.decision == crate::core::gate::Decision::Allow;
                        let lines = self.lines();
                        let acts = self.pilot.answered(self.now(), &id, &lines, allow, &answer.reason);
                        self.perform(acts).await;
                    }
                    Some(Request::Activity(reply)) => self.ask_warden(warden::Order::Activity(reply)),
                    None => {
                        listening = false;
                        self.ask_warden(warden::Order::Stop(StopStep::Terminate));
                    }
                },
                ended = &mut warden_ended => {
                    // What it wrote last counts.
                    self.read_transcript().await;
                    return ended.unwrap_or_default();
                }
                read = read_some(&mut output, &mut chunk), if output.is_some() => match read {
                    0 => output = None,
                    read => self.parser.process(&chunk[..read]),
                },
                _ = ticks.tick() => self.tick().await,
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn lines(&self) -> Vec<String> {
        self.parser.screen().rows(0, COLUMNS).collect()
    }

    async fn tick(&mut self) {
        let grown = self.read_transcript().await;
        let lines = self.lines();
        let now = self.now();
        let acts = self.pilot.look(&Seen {
            now,
            lines: &lines,
            grown,
            pending: &self.tail.pending,
            end: self.tail.end.as_ref(),
            settled: self.tail.settled,
            prompts: self.tail.prompts,
        });
        self.perform(acts).await;
    }

    async fn read_transcript(&mut self) -> bool {
        let (facts, grown) = self.tail.look();
        if !self.initialised && self.tail.version.is_some() {
            self.initialised = true;
            self.find(Fact::Initialised(Initialised {
                session_id: Some(self.id.clone()),
                cli_version: self.tail.version.clone(),
                ..Initialised::default()
            }))
            .await;
        }
        let mut last = None;
        for fact in facts {
            // Plain signs of life of one look are told once.
            if fact == Fact::Heartbeat && last == Some(true) {
                continue;
            }
            last = Some(fact == Fact::Heartbeat);
            self.find(fact).await;
        }
        for line in self.tail.take_log() {
            if let Err(error) = self.stdout_log.write_all(&line) {
                tracing::debug!(%error, "raw log");
            }
        }
        grown
    }

    async fn find(&mut self, fact: Fact) {
        self.found += 1;
        drop(self.events.send(Event::Found { attempt: self.attempt, fact }).await);
    }

    async fn perform(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Paste(text) => {
                    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\u{1b}', "");
                    self.press(format!("\u{1b}[200~{text}\u{1b}[201~").as_bytes()).await;
                }
                Act::Enter => self.press(b"\r").await,
                Act::Escape => self.press(b"\x1b").await,
                Act::Down => self.press(b"\x1b[B").await,
                Act::Digit(digit) => self.press(digit.to_string().as_bytes()).await,
                Act::ControlC => self.press(b"\x03").await,
                Act::Nudge => self.nudge().await,
                Act::Ask(id, call) => self.ask(id, call).await,
                Act::Triage => self.ask_triage().await,
                Act::Over(end) => {
                    let result = self.tail.result(&end, &self.id);
                    self.find(Fact::Result(Box::new(result))).await;
                }
                Act::GiveUp(why) => self.give_up(why),
                Act::Login => {
                    let text = "the program asks for a login: run `claude` once and /login".to_owned();
                    let class = Some("authentication_failed".to_owned());
                    self.find(Fact::ApiError { class, status: Some(401), text: text.clone() }).await;
                    self.give_up(text);
                }
            }
        }
    }

    async fn ask(&mut self, id: String, call: Option<super::tail::Pending>) {
        let call = call.or_else(|| self.tail.call_of_sub_agent(&self.lines()));
        let sub_agent = call.as_ref().is_some_and(|call| call.sub_agent);
        let doubt = call.is_none().then_some("the dialog does not show a call of the transcript");
        let call = call.unwrap_or_else(|| super::tail::Pending {
            id: String::new(),
            tool: "a dialog".to_owned(),
            input: serde_json::json!({"description": screen::last_lines(&self.lines())}),
            sub_agent: false,
        });
        self.find(Fact::Asked(Box::new(Asked {
            request_id: id,
            prompt: true,
            tool: call.tool,
            input: call.input,
            call: Some(call.id).filter(|id| !id.is_empty()),
            cwd: None,
            sub_agent,
            doubt,
        })))
        .await;
    }

    async fn ask_triage(&mut self) {
        let Some(command) = self.triage.clone() else { return };
        let (state, key) = triage::ask(&command, &self.lines(), &self.cwd).await;
        tracing::debug!(state, ?key, "triage");
        let acts = self.pilot.triaged(self.now(), &state, key.as_deref());
        Box::pin(self.perform(acts)).await;
    }

    fn give_up(&mut self, why: String) {
        self.gave_up = Some(why);
        self.ask_warden(warden::Order::Stop(StopStep::Terminate));
    }

    /// Esc ends a turn as a person would; the core's deadline follows it with SIGTERM.
    async fn stop(&mut self, step: StopStep) {
        if step == StopStep::Interrupt && !self.pilot.waits_to_type() {
            self.press(b"\x1b").await;
        } else {
            self.ask_warden(warden::Order::Stop(step));
        }
    }

    async fn nudge(&mut self) {
        let narrower = self.keyboard.resize(pty_process::Size::new(ROWS, COLUMNS - 1));
        sleep(Duration::from_millis(100)).await;
        let back = self.keyboard.resize(pty_process::Size::new(ROWS, COLUMNS));
        if let Err(error) = narrower.and(back) {
            tracing::debug!(%error, "terminal");
        }
    }

    async fn press(&mut self, keys: &[u8]) {
        if let Err(error) = self.keyboard.write_all(keys).await {
            tracing::debug!(%error, "keyboard of the child");
        }
    }

    fn ask_warden(&self, order: warden::Order) {
        // The warden is gone when the process is: the order has no object.
        drop(self.warden.send(order));
    }
}

/// A size that is not 0.
fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap_or(NonZero::<u16>::MIN)
}

/// Reads what is printed; 0 = the terminal is closed. Cancel-safe.
async fn read_some(output: &mut Option<pty_process::OwnedReadPty>, chunk: &mut [u8]) -> usize {
    let Some(output) = output else { return 0 };
    output.read(chunk).await.unwrap_or(0)
}
