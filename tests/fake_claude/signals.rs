//! What signals do (claude-code §6): SIGTERM ends the CLI with 143, SIGINT with **0**, SIGHUP with 129, and all
//! three end the tool it runs. A script can make it slow or deaf instead.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::out::Out;
use crate::state::Call;
use crate::transcript::Transcript;

const DEFAULT: u64 = 0;
const IGNORE: u64 = u64::MAX;

/// What the script wants to happen, shared with the signal thread.
#[derive(Default)]
pub(crate) struct Traps {
    term: AtomicU64,
    int: AtomicU64,
    /// A tool is running: an interrupted turn then gets a result line.
    pub(crate) in_tool: AtomicBool,
    /// Processes of tools, ended with the CLI; each leads its own group.
    pub(crate) tools: Mutex<Vec<u32>>,
    /// What `trap_term slow` writes before it leaves.
    pub(crate) last_words: Mutex<Option<Transcript>>,
}

impl Traps {
    /// Sets a trap by its words: `ignore`, `slow MS` or `default`.
    pub(crate) fn set(&self, int: bool, how: &str, ms: u64) -> Result<(), String> {
        let value = match how {
            "ignore" => IGNORE,
            "default" => DEFAULT,
            "slow" => ms.clamp(1, IGNORE - 1),
            other => return Err(format!("unknown trap `{other}`")),
        };
        let trap = if int { &self.int } else { &self.term };
        trap.store(value, Ordering::SeqCst);
        Ok(())
    }

    /// Ends the processes of tools.
    pub(crate) fn end_tools(&self) {
        for pid in self.tools.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // One that has ended by itself is fine.
                kill_process_group(pid, Signal::KILL).or_else(|_| kill_process(pid, Signal::KILL)).ok();
            }
        }
    }
}

/// Starts the thread and returns when signals are caught.
pub(crate) fn watch(call: Arc<Call>, out: Arc<Out>, traps: Arc<Traps>) -> io::Result<()> {
    let (ready, is_ready) = mpsc::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(async {
            let streams = (|| {
                Ok::<_, io::Error>((
                    signal(SignalKind::terminate())?,
                    signal(SignalKind::interrupt())?,
                    signal(SignalKind::hangup())?,
                ))
            })();
            let (mut term, mut int, mut hup) = match streams {
                Ok(streams) => streams,
                Err(error) => return ready.send(Err(error)).unwrap_or(()),
            };
            if ready.send(Ok(())).is_err() {
                return;
            }
            loop {
                tokio::select! {
                    _ = term.recv() => on_signal(&call, &out, &traps, "TERM"),
                    _ = int.recv() => on_signal(&call, &out, &traps, "INT"),
                    _ = hup.recv() => on_signal(&call, &out, &traps, "HUP"),
                }
            }
        });
    });
    is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("the signal thread is gone")))
}

fn on_signal(call: &Call, out: &Out, traps: &Traps, name: &str) {
    call.event("signal", &name.into());
    let trap = match name {
        "TERM" => traps.term.load(Ordering::SeqCst),
        "INT" => traps.int.load(Ordering::SeqCst),
        _ => DEFAULT,
    };
    if trap == IGNORE {
        return;
    }
    if trap != DEFAULT {
        thread::sleep(Duration::from_millis(trap));
        if let Some(transcript) = traps.last_words.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            transcript.line(&json!({"type": "system", "subtype": "flushed_after_signal"})).ok();
        }
    }
    traps.end_tools();
    match name {
        "TERM" => call.leave(143),
        "HUP" => call.leave(129),
        _ => {
            if traps.in_tool.load(Ordering::SeqCst) {
                out.try_line(&crate::wire::aborted());
            } else {
                out.try_line(&json!({"type": "user", "parent_tool_use_id": null, "message": {"role": "user",
                    "content": [{"type": "text", "text": "[Request interrupted by user]"}]}}));
            }
            call.leave(0)
        }
    }
}
