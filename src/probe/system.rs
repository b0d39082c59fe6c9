//! The probe where there is no `/proc`: memory, swap and the process table through `sysinfo`.
//!
//! Built on every platform, so that it is type-checked and tested on Linux, too.

use std::path::Path;

use sysinfo::{
    MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind,
};

use super::FREE_PERCENT_COMMAND;
use super::peers::{ProcessRow, count_peers, sessions_here};
use crate::core::resources::{Reading, Sample};

pub(super) fn sample(is_ours: &dyn Fn(u32) -> bool) -> Sample {
    let free_percent = if cfg!(target_os = "macos") {
        Reading::Failed(format!("{} was not run", FREE_PERCENT_COMMAND.join(" ")))
    } else {
        Reading::Absent
    };
    let mut system = match System::new() {
        Ok(system) => system,
        Err(error) => {
            let why = || format!("the system gives no figures: {error}");
            return Sample {
                host_available: Reading::Failed(why()),
                swap_used: Reading::Failed(why()),
                peers: Reading::Failed(why()),
                free_percent,
                ..Sample::default()
            };
        }
    };
    system.refresh_memory_specifics(MemoryRefreshKind::everything());
    // A machine without memory does not run this: zero means that the call failed.
    let known = system.total_memory() > 0;
    let memory = |bytes: u64| {
        if known { Reading::Value(bytes) } else { Reading::Failed("memory size is unknown".to_owned()) }
    };
    let table = table(&mut system);
    Sample {
        host_available: memory(system.available_memory()),
        cgroup_headroom: Reading::Absent,
        swap_used: memory(system.used_swap()),
        peers: if table.is_empty() {
            Reading::Failed("the process table is empty".to_owned())
        } else {
            Reading::Value(count_peers(&table, is_ours))
        },
        free_percent,
        pressure_avg10: Reading::Absent,
    }
}

/// The Claude sessions other than that of `own` whose working directory `is_here`.
pub(super) fn sessions_in(own: u32, is_here: &dyn Fn(&Path) -> bool) -> Vec<u32> {
    let Ok(mut system) = System::new() else { return Vec::new() };
    let table = table(&mut system);
    let directory_is_here = |pid: u32| {
        // Asked for one by one: for every process of the host it would take long.
        let mut one = System::new().ok()?;
        let pid = Pid::from_u32(pid);
        let what = ProcessRefreshKind::nothing().with_cwd(UpdateKind::Always).without_tasks();
        one.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, what);
        one.process(pid)?.cwd().map(is_here)
    };
    sessions_here(&table, own, &|pid| directory_is_here(pid).unwrap_or(false))
}

fn table(system: &mut System) -> Vec<ProcessRow> {
    // Threads are listed as processes otherwise (measured on Linux).
    let what = ProcessRefreshKind::nothing()
        .with_cmd(UpdateKind::Always)
        .with_exe(UpdateKind::Always)
        .without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, what);
    let alive = |process: &&sysinfo::Process| {
        !matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead)
            && process.thread_kind().is_none()
    };
    system
        .processes()
        .values()
        .filter(alive)
        .map(|process| ProcessRow {
            pid: process.pid().as_u32(),
            parent: process.parent().map_or(0, sysinfo::Pid::as_u32),
            comm: process.name().to_owned(),
            exe: process.exe().map(ToOwned::to_owned),
            argv: process.cmd().to_vec(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_what_this_test_knows_of_itself() {
        let mut system = System::new().unwrap();
        let table = table(&mut system);
        let me = table.iter().find(|row| row.pid == std::process::id()).expect("this process is listed");
        assert_eq!(me.parent, std::os::unix::process::parent_id());
        assert_eq!(me.argv.first(), std::env::args_os().next().as_ref());

        let sample = sample(&|_| true);
        assert!(sample.host_available.value().is_some_and(|bytes| *bytes > 0), "{sample:?}");
        assert_eq!(sample.peers, Reading::Value(0));
    }
}
