//! Stdout and stderr. A line is written whole under one lock, because the stdin thread answers
//! control requests while the script is writing.

use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::state::Call;

/// The two output streams.
pub(crate) struct Out {
    call: Arc<Call>,
    lock: Mutex<()>,
}

impl Out {
    pub(crate) fn new(call: Arc<Call>) -> Self {
        Self { call, lock: Mutex::new(()) }
    }

    /// One JSON line on stdout.
    pub(crate) fn line(&self, value: &Value) {
        self.stdout(format!("{value}\n").as_bytes());
    }

    /// Bytes on stdout. A reader that is gone ends the process, as it ends the CLI.
    pub(crate) fn stdout(&self, bytes: &[u8]) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        drop((stdout, guard));
        if written.is_err() {
            self.call.event("broken_pipe", &Value::Null);
            self.call.leave(1);
        }
    }

    /// Like [`Out::line`] from a place that must not wait: left out when a write is under way.
    pub(crate) fn try_line(&self, value: &Value) {
        if let Ok(_guard) = self.lock.try_lock() {
            let mut stdout = io::stdout().lock();
            // The process is about to end; there is nothing to do about a reader that is gone.
            stdout.write_all(format!("{value}\n").as_bytes()).and_then(|()| stdout.flush()).ok();
        }
    }

    /// Bytes on stderr.
    #[expect(clippy::unused_self, reason = "one object stands for both streams")]
    pub(crate) fn stderr(&self, bytes: &[u8]) {
        // The CLI does not mind a closed stderr.
        io::stderr().lock().write_all(bytes).ok();
    }
}
