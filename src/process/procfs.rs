//! The Linux process table, read by hand from `/proc`.
//!
//! Processes vanish while they are being read: that is a missing row, never an error. Running out of file
//! descriptors or an unreadable `/proc` is an error, because an empty table would read as "everything has
//! ended".

use std::fs::{self, File};
use std::io::{self, Read};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::id::ProcessId;
use super::membership::{Carries, Process, Snapshot};

/// `USER_HZ`: part of the kernel's interface to programs, 100 on every architecture that Rust's standard
/// library supports on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// More than the kernel accepts for arguments and environment together at the usual stack limit (2 MiB).
const LONGEST_ENVIRONMENT: u64 = 8 << 20;

/// The whole process table.
pub(super) fn snapshot() -> io::Result<Snapshot> {
    let mut snapshot = Snapshot::new();
    let mut buffer = Vec::with_capacity(1024);
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(process) = read_stat(pid, &mut buffer)? {
            snapshot.insert(pid, process);
        }
    }
    Ok(snapshot)
}

/// One process.
pub(super) fn process(pid: u32) -> Option<Process> {
    read_stat(pid, &mut Vec::with_capacity(1024)).ok().flatten()
}

/// Whether the environment that the process was started with holds `pair` (`NAME=value`).
pub(super) fn carries_pair(pid: u32, pair: &[u8]) -> Carries {
    carries(pid, |entry| entry == pair)
}

/// Whether it names `name` at all, with any value.
pub(super) fn carries_name(pid: u32, name: &[u8]) -> Carries {
    carries(pid, |entry| entry.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'=')))
}

fn carries(pid: u32, wanted: impl Fn(&[u8]) -> bool) -> Carries {
    let judge = |block: &[u8]| {
        if block.split(|byte| *byte == 0).any(&wanted) { Carries::Yes } else { Carries::No }
    };
    match environment(pid) {
        Ok(block) if block.is_empty() => match why_empty(pid) {
            WhyEmpty::BetweenPrograms => Carries::NotYet,
            WhyEmpty::Ended => Carries::Unknown,
            WhyEmpty::NoneGiven => Carries::No,
            // It was between two programs when it was read, and is no more. What is called a stranger now
            // would be one for good, so ask the new program.
            WhyEmpty::HasOne => environment(pid).map_or(Carries::Unknown, |block| judge(&block)),
        },
        Ok(block) => judge(&block),
        // Somebody else's.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Carries::No,
        Err(_) => Carries::Unknown,
    }
}

fn environment(pid: u32) -> io::Result<Vec<u8>> {
    let mut block = Vec::new();
    File::open(format!("/proc/{pid}/environ"))?.take(LONGEST_ENVIRONMENT).read_to_end(&mut block)?;
    Ok(block)
}

/// What an environment of no bytes means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WhyEmpty {
    /// The process is in the middle of `exec`: its new environment has no place in memory yet.
    BetweenPrograms,
    /// It has a place that is not empty: it was in the middle of `exec` a moment ago.
    HasOne,
    /// A kernel thread, or a program that was given no environment.
    NoneGiven,
    /// It is dead or gone.
    Ended,
}

fn why_empty(pid: u32) -> WhyEmpty {
    fs::read(format!("/proc/{pid}/stat")).map_or(WhyEmpty::Ended, |line| why_empty_in(&line))
}

/// The same, from the line of `/proc/<pid>/stat`.
fn why_empty_in(line: &[u8]) -> WhyEmpty {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let Some((_, fields)) = split_stat(line) else { return WhyEmpty::Ended };
    // Numbered as in proc(5): 9 flags, 50 env_start, 51 env_end.
    let number = |at: usize| fields.get(at - 3).and_then(|text| text.parse::<u64>().ok());
    if matches!(fields.first().copied(), Some("Z" | "X" | "x")) {
        return WhyEmpty::Ended;
    }
    match (number(9), number(50), number(51)) {
        (Some(flags), ..) if flags & KERNEL_THREAD != 0 => WhyEmpty::NoneGiven,
        (Some(_), Some(_), Some(0)) => WhyEmpty::BetweenPrograms,
        (Some(_), Some(start), Some(end)) if start != end => WhyEmpty::HasOne,
        _ => WhyEmpty::NoneGiven,
    }
}

/// Bytes read and written by the process and the children it has waited for, pipes and sockets included. 0
/// when unreadable.
pub(super) fn io_bytes(pid: u32) -> u64 {
    let mut text = String::with_capacity(256);
    let read = File::open(format!("/proc/{pid}/io")).and_then(|mut file| file.read_to_string(&mut text));
    if read.is_err() {
        return 0;
    }
    text.lines()
        .filter_map(|line| line.strip_prefix("rchar: ").or_else(|| line.strip_prefix("wchar: ")))
        .filter_map(|number| number.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

/// How long a live process has been running. The kernel counts start times on this very clock, so no caller's
/// clock can stand in for it; `/proc/uptime` is not used because container runtimes overlay it.
pub(super) fn age(id: &ProcessId) -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0));
    let started = Duration::from_millis(id.start_time.saturating_mul(1000 / TICKS_PER_SECOND));
    now.saturating_sub(started)
}

/// Reads `/proc/<pid>/stat`; `Ok(None)` when the process is gone or hidden from us.
fn read_stat(pid: u32, buffer: &mut Vec<u8>) -> io::Result<Option<Process>> {
    buffer.clear();
    let read = File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read_to_end(buffer));
    match read {
        Ok(_) => Ok(parse_stat(pid, buffer)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => Ok(None),
            _ => Err(error),
        },
    }
}

/// The command name, and the fields from the third on. The name may itself hold spaces and parentheses: it
/// ends at the *last* closing one.
fn split_stat(line: &[u8]) -> Option<(&[u8], Vec<&str>)> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    Some((line.get(open + 1..close)?, rest.split_ascii_whitespace().collect()))
}

fn parse_stat(pid: u32, line: &[u8]) -> Option<Process> {
    let (comm, fields) = split_stat(line)?;
    let comm = String::from_utf8_lossy(comm).into_owned();
    // Numbered as in proc(5).
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at).and_then(|text| text.parse::<u64>().ok());
    // Parent, group and session are 0 for a process of an outer pid namespace and may be -1 for kernel
    // threads.
    let pid_at = |at: usize| field(at).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let state = field(3)?;
    Some(Process {
        id: ProcessId { pid, start_time: number(22)? },
        parent: pid_at(4),
        group: pid_at(5),
        session: pid_at(6),
        zombie: matches!(state, "Z" | "X" | "x"),
        comm,
        cpu_ticks: (14..=17).filter_map(number).fold(0, u64::saturating_add),
    })
}

#[cfg(test)]
mod tests {
    use super::super::spawn;
    use super::super::testing::{sh, wait_until};
    use super::*;

    #[test]
    fn stat_lines() {
        let line = |comm: &str, state: &str| {
            format!(
                "7 ({comm}) {state} 5 6 4 0 -1 4194304 97 0 0 0 1 2 3 4 20 0 1 0 67542 3133440 356 18446744073709551615"
            )
        };
        let check = |text: &str, comm: &str, zombie: bool| {
            let expected = Process {
                id: ProcessId { pid: 7, start_time: 67542 },
                parent: 5,
                group: 6,
                session: 4,
                zombie,
                comm: comm.into(),
                cpu_ticks: 10,
            };
            assert_eq!(parse_stat(7, text.as_bytes()), Some(expected), "{text}");
        };
        check(&line("cat", "R"), "cat", false);
        check(&line("sleep", "Z"), "sleep", true);
        check(&line("a) S 1 1 (b", "S"), "a) S 1 1 (b", false);
        check(&line("", "S"), "", false);
        check(&line("new\nline", "D"), "new\nline", false);
        for broken in ["", "7", "7 (cat", "7 (cat)", "7 (cat) S 1 2 3", "7 )cat( S", "()"] {
            assert_eq!(parse_stat(7, broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn the_table_holds_us_and_nobody_who_does_not_exist() {
        let me = std::process::id();
        let snapshot = snapshot().unwrap();
        assert_eq!(snapshot[&me].id, ProcessId::current().unwrap());
        assert!(snapshot.contains_key(&snapshot[&me].parent));
        assert_eq!(process(u32::MAX), None);
        assert_eq!(carries_pair(u32::MAX, b"A=b"), Carries::Unknown);
        assert_eq!(carries_pair(me, b"NO_SUCH_NAME=x"), Carries::No);
        assert_eq!(carries_name(me, b"PATH"), Carries::Yes);
        assert_eq!(carries_name(me, b"PAT"), Carries::No);
        assert!(io_bytes(me) > 0);
    }

    #[tokio::test]
    async fn an_empty_environment_is_no_exec_in_progress() {
        let child = spawn(&sh("exec env -i sleep 300")).unwrap();
        let pid = child.id().pid;
        wait_until("it sleeps", || process(pid).is_some_and(|process| process.comm == "sleep")).await;
        wait_until("it has a place for its environment", || carries_name(pid, b"PATH") == Carries::No).await;
        // kthreadd, where this pid namespace shows it.
        assert!(
            process(2).is_none_or(|thread| thread.comm != "kthreadd" || why_empty(2) == WhyEmpty::NoneGiven)
        );
    }

    #[test]
    fn an_environment_of_no_bytes_has_four_reasons() {
        let line = |state: &str, flags: u64, start: u64, end: u64| {
            let before_flags = format!("7 (a (b) c) {state} 5 6 4 0 -1 {flags}");
            let between = "0 ".repeat(40);
            format!("{before_flags} {between}{start} {end} 0")
        };
        let check = |text: &str, expected: WhyEmpty| {
            assert_eq!(why_empty_in(text.as_bytes()), expected, "{text}");
        };
        check(&line("R", 0x40_0000, 0, 0), WhyEmpty::BetweenPrograms);
        check(&line("R", 0x40_0000, 4096, 5000), WhyEmpty::HasOne);
        check(&line("S", 0x40_0000, 4096, 4096), WhyEmpty::NoneGiven);
        check(&line("S", 0x20_8040, 0, 0), WhyEmpty::NoneGiven);
        check(&line("Z", 0x40_0004, 0, 0), WhyEmpty::Ended);
        check("", WhyEmpty::Ended);
    }
}
