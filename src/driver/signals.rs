//! What the operator says by signals.
//!
//! Each attempt runs in a process group of its own, so a Ctrl-C in a terminal reaches only us, whether the
//! terminal, a parent or a service manager sends it: we pass on what the run decides, never the raw signal
//! (field-reports J10). SIGINT counts: once, finish this session; twice, end the turn; three times, end the
//! tree and leave. SIGTERM and SIGHUP mean the second at once. `autopilot stop` sends SIGUSR1 and SIGUSR2, which
//! mean the first and the second and do not count: asked twice, a run is not stopped any harder. SIGPIPE is
//! ignored by the runtime.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::core::event::{Event, StopLevel};

/// The signals we listen to.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    asked_to_finish: Signal,
    asked_to_end: Signal,
    interrupts: u32,
    terminations: u32,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            asked_to_finish: signal(SignalKind::user_defined1())?,
            asked_to_end: signal(SignalKind::user_defined2())?,
            interrupts: 0,
            terminations: 0,
        })
    }

    /// The next stop the operator asks for. Cancel-safe.
    pub(super) async fn next(&mut self) -> Event {
        let (level, by) = tokio::select! {
            _ = self.interrupt.recv() => {
                self.interrupts += 1;
                let level = match self.interrupts {
                    1 => StopLevel::Finish,
                    2 => StopLevel::Interrupt,
                    _ => StopLevel::Kill,
                };
                (level, "SIGINT")
            }
            _ = self.terminate.recv() => (self.terminated(), "SIGTERM"),
            _ = self.hangup.recv() => (self.terminated(), "SIGHUP"),
            _ = self.asked_to_finish.recv() => (StopLevel::Finish, "autopilot stop"),
            _ = self.asked_to_end.recv() => (StopLevel::Interrupt, "autopilot stop --now"),
        };
        Event::Stop { level, by }
    }

    /// Asked again and again, a service manager is about to send SIGKILL: do it ourselves, and record it.
    fn terminated(&mut self) -> StopLevel {
        self.terminations += 1;
        if self.terminations > 1 { StopLevel::Kill } else { StopLevel::Interrupt }
    }
}
