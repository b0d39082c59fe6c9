//! Which processes a test left behind, found by a mark in their environment.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A process that is still there.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) pid: u32,
    /// Its arguments, for the message.
    pub(crate) command: String,
}

/// The live processes, except this one, whose `HOME` is `home`.
pub(crate) fn with_home(home: &Path) -> Vec<Leftover> {
    let mark = [b"HOME=", home.as_os_str().as_bytes()].concat();
    let entries = std::fs::read_dir("/proc").expect("ring 4 needs Linux's /proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| pid != std::process::id())
        .filter_map(|pid| {
            // A process that ends meanwhile reads as an error or as nothing, and so does a zombie.
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            environment.split(|&byte| byte == 0).any(|variable| variable == mark).then_some(())?;
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let command = String::from_utf8_lossy(&arguments).replace('\0', " ").trim_end().to_owned();
            Some(Leftover { pid, command })
        })
        .collect()
}

/// Sends a signal to a process that may have gone.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = pid.try_into().ok().and_then(Pid::from_raw).expect("a process id is positive");
    // Fails when the process has gone, which is as good.
    kill_process(pid, signal).ok();
}
