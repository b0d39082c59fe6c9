//! Tells people elsewhere what becomes of a run: by a command, webhooks, the desktop, mail.
//!
//! # Theory of operation
//!
//! A [`Notice`] is made from an event of the run or from its summary. [`Notifier::tell`] hands it to one worker
//! for each [`Channel`] and returns at once. A worker takes all that waits for it, asks [`policy::decide`] for each
//! notice whether it is wanted, makes *one* message of what is left, and has [`deliver`] start one short-lived
//! program for it: a shell, `curl`, `notify-send`, `sendmail`. What came of it is appended to the run's
//! `notifications.jsonl`.
//!
//! The programs of the system are used because they bring proxies, certificates, the session bus and the mail
//! queue with them, and because a program that hangs can be ended: [`Channel::deliver`] is bounded by
//! [`deliver::TIMEOUT`].
//!
//! # Invariants
//!
//! - A channel cannot touch the run: it has its own task, nothing waits for it but [`Notifier::finish`], which comes
//!   after the record, the report and the lock, and which is bounded.
//! - A channel that hangs holds up no other one, and of what piles up behind it nothing is lost: it is told in one
//!   message.
//! - The cooldown begins when a message was delivered, never when it was tried (recovery §11), and outlives the
//!   process: a cron job that is blocked on the same login every ten minutes says so once.
//! - Addresses of webhooks are on no command line and in no file that is written here.

mod curl;
mod deliver;
mod memory;
mod notice;
pub mod policy;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use deliver::Channel;
pub use notice::{Notice, Source};

use crate::tasks::{TaskKind, Tasks};
use memory::Memory;
use policy::{Decision, Rules};

/// Notices that are taken together.
const BATCH: usize = 64;

/// Everything the notifications of a run need.
#[derive(Debug)]
pub struct Setup {
    /// Where to.
    pub channels: Vec<Channel>,
    /// What, and when.
    pub rules: Rules,
    /// The working directory of what is started.
    pub root: PathBuf,
    /// Environment of what is started.
    pub environment: Vec<(OsString, OsString)>,
    /// What was delivered when, over all runs.
    pub memory: PathBuf,
    /// Where outcomes are appended; `None` = nowhere.
    pub log: Option<PathBuf>,
    /// Quiet hours are hours of this zone.
    pub zone: TimeZone,
    /// The wall clock.
    pub clock: fn() -> Timestamp,
}

/// What came of a notice on one channel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// When.
    pub at: Timestamp,
    /// What it was about.
    pub event: &'static str,
    /// Over which channel, without what is secret about it.
    pub channel: String,
    /// `delivered`, `failed`, `held` (quiet hours), `repeated` (cooldown).
    pub outcome: &'static str,
    /// Milliseconds that the delivery took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Hands notices to the channels.
#[derive(Debug)]
pub struct Notifier {
    queues: Vec<UnboundedSender<Arc<Notice>>>,
    tasks: Tasks,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    setup: Setup,
    memory: Mutex<Memory>,
    failures: Mutex<Vec<Outcome>>,
}

impl Notifier {
    /// Starts a worker for each channel. Needs a runtime, unless there are no channels.
    #[must_use]
    pub fn start(setup: Setup) -> Notifier {
        let memory = Mutex::new(Memory::load(&setup.memory));
        let channels = setup.channels.clone();
        let shared = Arc::new(Shared { setup, memory, failures: Mutex::default() });
        let tasks = Tasks::new();
        let queues = channels
            .into_iter()
            .map(|channel| {
                let (sender, queue) = unbounded_channel();
                // It owns a child process, and is waited for.
                tasks.spawn(TaskKind::Session, serve(channel, queue, Arc::clone(&shared)));
                sender
            })
            .collect();
        Notifier { queues, tasks, shared }
    }

    /// Whether anybody is to be told anything.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.queues.is_empty()
    }

    /// Hands it to all channels.
    pub fn tell(&self, notice: Notice) {
        let notice = Arc::new(notice);
        for queue in &self.queues {
            // A worker ends only with its queue.
            drop(queue.send(Arc::clone(&notice)));
        }
    }

    /// Waits until everything was delivered or given up, and says what failed. Bounded: a worker has at most two
    /// messages to go, the one under way and one with all the rest.
    pub async fn finish(self) -> Vec<Outcome> {
        drop(self.queues);
        self.tasks.finish().await;
        let mut failures = self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *failures)
    }
}

async fn serve(channel: Channel, mut queue: UnboundedReceiver<Arc<Notice>>, shared: Arc<Shared>) {
    let mut batch = Vec::new();
    let mut held: Vec<Arc<Notice>> = Vec::new();
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        let mut wanted = Vec::new();
        for notice in batch.drain(..) {
            match shared.decide(&channel, &notice) {
                Decision::Send => wanted.push(notice),
                Decision::Unwanted => {}
                Decision::Quiet => {
                    shared.note(&channel, &notice, "held", None, None);
                    held.push(notice);
                }
                Decision::Repeated { .. } => shared.note(&channel, &notice, "repeated", None, None),
            }
        }
        if wanted.is_empty() {
            continue;
        }
        // What was held back is told with the first message that may go out.
        let told: Vec<Arc<Notice>> = held.drain(..).chain(wanted).collect();
        let Some(message) = Notice::merged(&told) else { continue };
        let began = (shared.setup.clock)();
        let result = channel.deliver(&message, &shared.setup.root, &shared.setup.environment).await;
        let took = (shared.setup.clock)().duration_since(began);
        let took = Duration::try_from(took).ok();
        match result {
            Ok(()) => {
                shared.remember(&channel, &told);
                for notice in &told {
                    shared.note(&channel, notice, "delivered", took, None);
                }
            }
            Err(why) => {
                for notice in &told {
                    shared.note(&channel, notice, "failed", took, Some(why.clone()));
                }
            }
        }
    }
}

impl Shared {
    fn decide(&self, channel: &Channel, notice: &Notice) -> Decision {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let delivered = memory.delivered_at(&channel.to_string(), &notice.key);
        let time = notice.at.to_zoned_datetime(self.setup.zone.clone()).time();
        policy::decide(notice, &self.setup.rules, time, delivered)
    }

    fn remember(&self, channel: &Channel, told: &[Arc<Notice>]) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.setup.clock)();
        for notice in told {
            memory.delivered(channel.to_string(), notice.key.clone(), now);
        }
        if let Err(error) = memory.store(&self.setup.memory) {
            tracing::warn!(%error, "what was delivered is not remembered");
        }
    }

    fn note(
        &self,
        channel: &Channel,
        notice: &Notice,
        outcome: &'static str,
        took: Option<Duration>,
        detail: Option<String>,
    ) {
        let outcome = Outcome {
            at: (self.setup.clock)(),
            event: notice.kind.as_str(),
            channel: channel.to_string(),
            outcome,
            milliseconds: took.and_then(|took| u64::try_from(took.as_millis()).ok()),
            detail,
        };
        tracing::debug!(?outcome, "notification");
        if let Some(log) = &self.setup.log
            && let Err(error) = memory::append(log, &outcome)
        {
            tracing::warn!(%error, "notifications.jsonl");
        }
        if outcome.outcome == "failed" {
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        }
    }
}
