//! Sending signals, with the guards that every send goes through.

use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal as RawSignal, getpgrp, kill_process, kill_process_group};

use super::id::{ProcessId, is_alive};

/// The signals of the stop ladder, mildest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Signal {
    /// SIGINT: end the turn. Claude Code then exits 0 (claude-code §6).
    Interrupt,
    /// SIGTERM: end, and clean up.
    Terminate,
    /// SIGKILL: cannot be refused, leaves children behind.
    Kill,
}

impl Signal {
    fn raw(self) -> RawSignal {
        match self {
            Self::Interrupt => RawSignal::INT,
            Self::Terminate => RawSignal::TERM,
            Self::Kill => RawSignal::KILL,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Kill => "SIGKILL",
        })
    }
}

/// Why a signal did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// A pid that must never be signalled.
    #[error("refused to signal pid {0}: ourselves, our own group or the system")]
    Refused(u32),
    /// Nobody has that identity any more.
    #[error("the process is gone")]
    Gone,
    /// It belongs to somebody else.
    #[error("not permitted")]
    NotPermitted,
    /// Something else.
    #[error(transparent)]
    Other(io::Error),
}

/// What another process is asked for by signal (`autopilot stop`). Unlike SIGINT and SIGTERM these do not count:
/// asked twice is asked once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// SIGUSR1: finish the session, then stop.
    Finish,
    /// SIGUSR2: interrupt the turn, record, stop.
    End,
}

/// Asks that very process, or nobody.
///
/// # Errors
/// It is gone, or it may not be signalled.
pub fn ask(id: ProcessId, request: Request) -> Result<(), SendError> {
    send_raw(
        id,
        match request {
            Request::Finish => RawSignal::USR1,
            Request::End => RawSignal::USR2,
        },
    )
}

impl From<Errno> for SendError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::SRCH => Self::Gone,
            Errno::PERM => Self::NotPermitted,
            other => Self::Other(other.into()),
        }
    }
}

/// Signals that very process, or nobody.
pub(super) fn send(id: ProcessId, signal: Signal) -> Result<(), SendError> {
    send_raw(id, signal.raw())
}

fn send_raw(id: ProcessId, signal: RawSignal) -> Result<(), SendError> {
    let pid = guarded(id.pid)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
        match pidfd_open(pid, PidfdFlags::empty()) {
            // The descriptor names one process for ever, so the start time compared *after* opening it is its
            // own.
            Ok(pidfd) if is_alive(&id) => return Ok(pidfd_send_signal(pidfd, signal)?),
            Ok(_) | Err(Errno::SRCH | Errno::INVAL) => return Err(SendError::Gone),
            // Kernels before 5.3 and some sandboxes: the check and the signal are then two steps, as
            // everywhere else.
            Err(Errno::NOSYS | Errno::PERM) => {}
            Err(other) => return Err(other.into()),
        }
    }
    if is_alive(&id) { Ok(kill_process(pid, signal)?) } else { Err(SendError::Gone) }
}

/// Signals a child of ours. The caller holds it unreaped, so its pid cannot belong to anybody else.
pub(super) fn send_to_unreaped(pid: u32, signal: Signal) -> Result<(), SendError> {
    Ok(kill_process(guarded(pid)?, signal.raw())?)
}

/// Signals the group led by a child of ours. The caller holds the leader unreaped, so the number still names
/// its group.
pub(super) fn send_to_group_of_unreaped(pid: u32, signal: Signal) -> Result<(), SendError> {
    Ok(kill_process_group(guarded(pid)?, signal.raw())?)
}

/// `kill` takes 0, 1 and negative numbers to mean "our own group", "init" and "groups" (field-reports J10).
fn guarded(pid: u32) -> Result<Pid, SendError> {
    let refused = pid <= 1 || pid == std::process::id() || getpgrp().as_raw_pid().cast_unsigned() == pid;
    if refused {
        return Err(SendError::Refused(pid));
    }
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(SendError::Gone)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Exit;
    use super::super::testing::bystander;
    use super::*;

    #[test]
    fn dangerous_numbers_are_refused() {
        let group = getpgrp().as_raw_pid().cast_unsigned();
        for pid in [0, 1, std::process::id(), group] {
            assert!(matches!(guarded(pid), Err(SendError::Refused(_))), "{pid}");
            let start_time = ProcessId::of(pid).map_or(0, |id| id.start_time);
            assert!(
                matches!(send(ProcessId { pid, start_time }, Signal::Kill), Err(SendError::Refused(_))),
                "{pid}"
            );
            assert!(
                matches!(send_to_group_of_unreaped(pid, Signal::Kill), Err(SendError::Refused(_))),
                "{pid}"
            );
        }
        for pid in [u32::MAX, i32::MAX.cast_unsigned() + 1] {
            assert!(matches!(guarded(pid), Err(SendError::Gone)), "{pid}");
        }
    }

    #[tokio::test]
    async fn whoever_was_given_the_pid_later_is_not_hit() {
        let mut child = bystander().await;
        let earlier = ProcessId { start_time: child.id().start_time - 1, ..child.id() };
        assert!(matches!(send(earlier, Signal::Kill), Err(SendError::Gone)));
        assert!(child.wait_at_most(Duration::from_millis(20)).await.is_none());
        send(child.id(), Signal::Terminate).unwrap();
        assert_eq!(child.wait().await.unwrap(), Exit::Signal(15));
        assert!(matches!(send(child.id(), Signal::Kill), Err(SendError::Gone)));
    }
}
