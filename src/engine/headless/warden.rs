//! The owner of an attempt's process: waits for it, stops it, sweeps its tree.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::core::event::StopStep;
use crate::core::evidence::Exit;
use crate::process::{self, Activity, Child, FirstStep, Graces, Ladder, StopReport, Tree};

/// From SIGTERM to SIGKILL. Seconds, not milliseconds: the CLI has to end its tools and write its transcript
/// (field-reports J02).
const TERMINATE_GRACE: Duration = Duration::from_secs(10);
/// From SIGINT to SIGTERM where the control protocol is not spoken (recovery §8.3).
const INTERRUPT_GRACE: Duration = Duration::from_secs(10);
/// How long after SIGKILL until what is left is reported, not waited for.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// Grace for what a process leaves behind when it ends by itself.
const SWEEP_GRACE: Duration = Duration::from_secs(2);

/// What the warden can be asked.
#[derive(Debug)]
pub(in crate::engine) enum Order {
    /// End the tree.
    Stop(StopStep),
    /// How busy the tools are.
    Activity(oneshot::Sender<Option<Activity>>),
}

/// How the process ended.
#[derive(Debug, Default)]
pub(in crate::engine) struct Ended {
    pub(in crate::engine) exit: Option<Exit>,
    pub(in crate::engine) signals: Vec<String>,
    pub(in crate::engine) swept: Vec<String>,
    pub(in crate::engine) survivors: Vec<String>,
}

/// Owns the process until it and all it started are gone.
pub(in crate::engine) async fn watch(mut child: Child, mut orders: UnboundedReceiver<Order>) -> Ended {
    let mut tree = child.tree();
    let first = loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Stop(step)) => break Some(step),
                Some(Order::Activity(reply)) => {
                    // Nobody waits any more when the send fails.
                    _ = reply.send(tree.activity().ok());
                }
                // The reader is gone: nobody is left to look after this process.
                None => break Some(StopStep::Terminate),
            },
            _ = child.wait() => break None,
        }
    };
    let report = if let Some(step) = first {
        stop(&mut child, &mut tree, step, &mut orders).await
    } else {
        let graces = Graces { terminate: SWEEP_GRACE, kill: KILL_GRACE };
        let report = process::sweep(&mut tree, graces).await;
        StopReport {
            signals: Vec::new(),
            exit: child.exit(),
            swept: report.swept,
            survivors: report.survivors,
            verified: report.verified,
        }
    };
    Ended {
        exit: report.exit.map(|exit| match exit {
            process::Exit::Code(code) => Exit::Code(code),
            process::Exit::Signal(signal) => Exit::Signal(signal),
        }),
        signals: report
            .signals
            .iter()
            .map(|sent| format!("{} to {}", sent.signal, recipient(sent.to)))
            .collect(),
        swept: report
            .swept
            .iter()
            .map(|swept| format!("{} ({}, {})", swept.comm, swept.pid, swept.signal))
            .collect(),
        survivors: report.survivors.iter().map(|left| format!("{} ({})", left.comm, left.id.pid)).collect(),
    }
}

/// Carries out a step of the ladder; a harder one that comes meanwhile takes over.
async fn stop(
    child: &mut Child,
    tree: &mut Tree,
    first: StopStep,
    orders: &mut UnboundedReceiver<Order>,
) -> StopReport {
    let mut step = first;
    let mut open = true;
    loop {
        let harder = {
            let stopping = process::stop(child, tree, ladder(step));
            tokio::pin!(stopping);
            loop {
                tokio::select! {
                    biased;
                    order = orders.recv(), if open => match order {
                        Some(Order::Stop(next)) if rank(next) > rank(step) => break next,
                        Some(Order::Stop(_)) => {}
                        Some(Order::Activity(reply)) => _ = reply.send(None),
                        None => open = false,
                    },
                    report = &mut stopping => return report,
                }
            }
        };
        step = harder;
    }
}

fn rank(step: StopStep) -> u8 {
    match step {
        StopStep::Interrupt => 0,
        StopStep::Terminate => 1,
        StopStep::Kill => 2,
    }
}

fn ladder(step: StopStep) -> Ladder {
    let ladder = Ladder {
        first: FirstStep::Terminate,
        interrupt_grace: INTERRUPT_GRACE,
        terminate_grace: TERMINATE_GRACE,
        kill_grace: KILL_GRACE,
    };
    match step {
        StopStep::Interrupt => Ladder { first: FirstStep::Interrupt, ..ladder },
        StopStep::Terminate => ladder,
        StopStep::Kill => Ladder { terminate_grace: Duration::ZERO, ..ladder },
    }
}

fn recipient(to: process::Recipient) -> &'static str {
    match to {
        process::Recipient::Leader => "the process",
        process::Recipient::Group => "its group",
        process::Recipient::Member(_) => "a tool in its own session",
    }
}
