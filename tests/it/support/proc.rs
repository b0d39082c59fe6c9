//! Processes of a test, found by a mark in their environment that every descendant inherits, whatever session,
//! group or parent it has moved to. Reads `/proc`; where there is none, only the processes that the double
//! recorded itself are known.

use std::fs;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// The variable. Not called `AUTOPILOT_…`: the product may take those for settings of its own.
pub(crate) const MARK: &str = "TEST_PROCESS_MARK";

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proc {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    /// `R`, `S`, `Z`, …
    pub(crate) state: char,
    pub(crate) command: String,
}

/// The process `pid`, zombies included.
pub(crate) fn find(pid: i32) -> Option<Proc> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything, so the fields are counted from its end.
    let (head, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline"))
        .ok()
        .map(|c| String::from_utf8_lossy(&c).replace('\0', " ").trim().to_owned())
        .filter(|c| !c.is_empty())
        .unwrap_or_else(|| head.split_once('(').map_or("", |(_, name)| name).to_owned());
    Some(Proc { pid, parent, state, command })
}

/// Whether `pid` runs; a zombie does not.
pub(crate) fn alive(pid: i32) -> bool {
    match find(pid) {
        Some(proc) => !matches!(proc.state, 'Z' | 'X'),
        None if cfg!(target_os = "linux") => false,
        None => Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok()),
    }
}

/// Every process, by reading `/proc`.
fn all() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The live processes that carry `mark`, this one excluded.
pub(crate) fn marked(mark: &str) -> Vec<Proc> {
    let wanted = format!("{MARK}={mark}").into_bytes();
    let own = i32::try_from(std::process::id()).unwrap();
    all()
        .filter(|pid| *pid != own)
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|b| *b == 0).any(|var| var == wanted))
        })
        .filter_map(find)
        .filter(|proc| !matches!(proc.state, 'Z' | 'X'))
        .collect()
}

/// Children of `pid` that have ended and that nobody has waited for.
pub(crate) fn zombies_of(pid: i32) -> Vec<Proc> {
    all().filter_map(find).filter(|proc| proc.parent == pid && proc.state == 'Z').collect()
}

/// Highest resident size so far, KiB.
pub(crate) fn peak_rss_kib(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").trim().parse().ok()
}

/// Sends a signal; whether it arrived.
pub(crate) fn signal(pid: i32, signal: Signal) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}
