//! Processes by identity: a pid together with the time at which its process started.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::os;

/// A process, told apart from later ones that were given the same pid.
///
/// Meant to be recorded on disk (field-reports J04, H14). Two boots can in theory give the same pair to two
/// processes; a record that must survive a reboot should carry its own evidence beside it, as a
/// [`Cookie`](super::Cookie) does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process id.
    pub pid: u32,
    /// When the process started. Linux: clock ticks since boot (`/proc/<pid>/stat`, field 22). macOS: seconds
    /// since the Unix epoch. 0 when it could not be read; such an identity matches nothing.
    pub start_time: u64,
}

impl ProcessId {
    /// The identity of the process that has `pid` now, a zombie included. `None` when there is none or it is
    /// hidden.
    pub fn of(pid: u32) -> Option<Self> {
        os::process(pid).map(|process| process.id)
    }

    /// Our own identity. `None` when the process table cannot be read.
    pub fn current() -> Option<Self> {
        Self::of(std::process::id())
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.pid)
    }
}

/// Whether that very process still runs. A zombie does not: it can write nothing any more.
pub fn is_alive(id: &ProcessId) -> bool {
    os::process(id.pid).is_some_and(|process| process.id == *id && !process.zombie)
}

/// What can be told about a live process in a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// The short command name (15 bytes at most on Linux).
    pub comm: String,
    /// How long it has been running, time asleep included.
    pub age: Duration,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.age.as_secs() / 60;
        write!(f, "{}, running for ", self.comm)?;
        match (minutes / 60, minutes) {
            (0, 0) => write!(f, "{} s", self.age.as_secs()),
            (0, _) => write!(f, "{minutes} min"),
            (hours, _) => write!(f, "{hours} h {} min", minutes % 60),
        }
    }
}

/// Describes that very process, for lock messages. `None` when it is gone.
pub fn describe(id: &ProcessId) -> Option<Description> {
    let process = os::process(id.pid).filter(|process| process.id == *id && !process.zombie)?;
    Some(Description { comm: process.comm, age: os::age(id) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_survives_a_round_trip_through_json() {
        let id = ProcessId { pid: 4711, start_time: u64::MAX };
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(text, r#"{"pid":4711,"start_time":18446744073709551615}"#);
        assert_eq!(serde_json::from_str::<ProcessId>(&text).unwrap(), id);
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let me = ProcessId::current().unwrap();
        assert!(is_alive(&me));
        let earlier = ProcessId { start_time: me.start_time - 1, ..me };
        assert!(!is_alive(&earlier));
        assert_eq!(describe(&earlier), None);
        assert!(!is_alive(&ProcessId { pid: u32::MAX, start_time: 0 }));
    }

    #[test]
    fn we_can_be_described() {
        let description = describe(&ProcessId::current().unwrap()).unwrap();
        assert!(!description.comm.is_empty());
        assert!(description.age < Duration::from_hours(1), "{description}");
    }

    #[test]
    fn ages_are_readable() {
        let check = |seconds, expected: &str| {
            let description = Description { comm: "claude".into(), age: Duration::from_secs(seconds) };
            assert_eq!(description.to_string(), format!("claude, running for {expected}"));
        };
        check(0, "0 s");
        check(59, "59 s");
        check(60, "1 min");
        check(3599, "59 min");
        check(3600, "1 h 0 min");
        check(100_000, "27 h 46 min");
    }
}
