//! The process table through `sysinfo`: macOS, where there is no `/proc`.
//!
//! **Not verified on macOS.** The tests of this file run it on Linux beside `procfs`, which shows that it
//! compiles and that its fields mean the same, no more. Known differences: start times have a resolution of
//! one second; the environment of processes of other users, and of those protected by the system, cannot be
//! read; there is no subreaper, so what left its parent, its session and its environment between two looks is
//! lost.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};

use super::id::ProcessId;
use super::membership::{Carries, Process, Snapshot};

fn refreshed(which: ProcessesToUpdate<'_>, kind: ProcessRefreshKind) -> io::Result<System> {
    let mut system = System::new().map_err(|error| io::Error::other(error.to_string()))?;
    system.refresh_processes_specifics(which, true, kind.without_tasks());
    Ok(system)
}

fn refreshed_one(pid: u32, kind: ProcessRefreshKind) -> Option<System> {
    refreshed(ProcessesToUpdate::Some(&[Pid::from_u32(pid)]), kind).ok()
}

pub(super) fn snapshot() -> io::Result<Snapshot> {
    let system = refreshed(ProcessesToUpdate::All, ProcessRefreshKind::nothing().with_cpu())?;
    if system.processes().is_empty() {
        return Err(io::Error::other("the process table is empty"));
    }
    Ok(system.processes().values().map(row).map(|process| (process.id.pid, process)).collect())
}

pub(super) fn process(pid: u32) -> Option<Process> {
    let system = refreshed_one(pid, ProcessRefreshKind::nothing().with_cpu())?;
    system.process(Pid::from_u32(pid)).map(row)
}

pub(super) fn carries_pair(pid: u32, pair: &[u8]) -> Carries {
    carries(pid, |entry| entry == pair)
}

pub(super) fn carries_name(pid: u32, name: &[u8]) -> Carries {
    carries(pid, |entry| entry.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'=')))
}

/// An empty environment is unreadable, or not there yet, or really empty: the three look alike.
fn carries(pid: u32, wanted: impl Fn(&[u8]) -> bool) -> Carries {
    let system = refreshed_one(pid, ProcessRefreshKind::nothing().with_environ(UpdateKind::Always));
    let block =
        system.as_ref().and_then(|system| system.process(Pid::from_u32(pid))).map(sysinfo::Process::environ);
    match block {
        None | Some([]) => Carries::Unknown,
        Some(block) if block.iter().any(|entry| wanted(entry.as_bytes())) => Carries::Yes,
        Some(_) => Carries::No,
    }
}

/// Disk only: macOS does not count pipes and sockets.
pub(super) fn io_bytes(pid: u32) -> u64 {
    let usage = |system: System| system.process(Pid::from_u32(pid)).map(sysinfo::Process::disk_usage);
    refreshed_one(pid, ProcessRefreshKind::nothing().with_disk_usage())
        .and_then(usage)
        .map_or(0, |usage| usage.total_read_bytes.saturating_add(usage.total_written_bytes))
}

/// Start times are on the wall clock here, so that is what an age is told from.
pub(super) fn age(id: &ProcessId) -> Duration {
    let now = clock_gettime(ClockId::Realtime).tv_sec;
    Duration::from_secs(u64::try_from(now).unwrap_or(0).saturating_sub(id.start_time))
}

/// Group of `pid`; 0 where it is unknown, or is not of this pid namespace, or is that of a kernel thread.
///
/// Not `rustix::process::getpgid`: that one asserts never to see a 0, and a process that was started from
/// outside its pid namespace (any container's first) has group and session 0.
#[expect(unsafe_code, reason = "no safe wrapper accepts a group of 0")]
fn group(pid: u32) -> u32 {
    let Ok(pid) = i32::try_from(pid) else { return 0 };
    // SAFETY: `getpgid` takes a number and returns one; it touches no memory of ours.
    u32::try_from(unsafe { libc::getpgid(pid) }).unwrap_or(0)
}

fn row(process: &sysinfo::Process) -> Process {
    let pid = process.pid().as_u32();

    let session = process.session_id().map_or(0, Pid::as_u32);
    Process {
        id: ProcessId { pid, start_time: process.start_time() },
        parent: process.parent().map_or(0, Pid::as_u32),
        group: group(pid),
        session,
        zombie: matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead),
        comm: process.name().to_string_lossy().into_owned(),
        cpu_ticks: process.accumulated_cpu_time() / 10,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::procfs;
    use super::super::spawn;
    use super::super::testing::{read_word, sh};
    use super::*;

    #[tokio::test]
    async fn it_agrees_with_procfs() {
        let mut child = spawn(&sh("exec 2>/dev/null; echo ready; read line")).unwrap();
        assert_eq!(read_word(&mut child).await, "ready");
        for pid in [std::process::id(), child.id().pid] {
            let (here, there) = (process(pid).unwrap(), procfs::process(pid).unwrap());
            assert_eq!(
                (here.parent, here.group, here.session, here.zombie, &here.comm),
                (there.parent, there.group, there.session, there.zombie, &there.comm)
            );
            assert_eq!(snapshot().unwrap()[&pid].id, here.id);
            assert!(age(&here.id).abs_diff(procfs::age(&there.id)) < Duration::from_secs(5));
        }
        let pair = child.cookie().pair();
        assert_eq!(carries_pair(child.id().pid, &pair), Carries::Yes);
        assert_eq!(carries_pair(child.id().pid, b"NO=such"), Carries::No);
        assert_eq!(carries_name(child.id().pid, child.cookie().name.as_bytes()), Carries::Yes);
        assert_eq!(carries_name(child.id().pid, b"NO"), Carries::No);
        assert_eq!(carries_pair(u32::MAX >> 1, &pair), Carries::Unknown);
        assert_eq!(process(u32::MAX >> 1), None);
        assert_eq!(io_bytes(u32::MAX >> 1), 0);
    }
}
