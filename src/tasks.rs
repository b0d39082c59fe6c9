//! The one way to start an asynchronous task.
//!
//! Every task has a [`TaskKind`] that says what happens to it at the end of a run, and all of them are
//! waited for, so that nothing is cut off by the runtime going away.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a task is, and with that what becomes of it when the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Owns a child process: always waited for, it ends the process tree first.
    Session,
    /// Fetches something for the run (git, the probe, a transcript): dropped when the run ends.
    Query,
}

/// The tasks of a run.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    end: CancellationToken,
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub fn new() -> Self {
        Tasks::default()
    }

    /// Starts a task. Must be called inside a runtime.
    pub fn spawn(&self, kind: TaskKind, future: impl Future<Output = ()> + Send + 'static) {
        match kind {
            TaskKind::Session => {
                drop(self.tracker.spawn(future));
            }
            TaskKind::Query => {
                let end = self.end.clone();
                drop(self.tracker.spawn(async move {
                    // A query that is cut off has no one left to answer to.
                    _ = end.run_until_cancelled(future).await;
                }));
            }
        }
    }

    /// Ends the queries and waits until every task is over.
    pub async fn finish(&self) {
        self.end.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
