//! What a run costs while its session says nothing.

use std::fs;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use super::figure::{Measured, mb, status_bytes};
use super::support::env::TestEnv;

/// How long it is watched.
const WATCH: Duration = Duration::from_secs(20);
/// From the last line of the session to the beginning of the watch.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
struct Seen {
    resident: u64,
    peak: u64,
    anonymous: u64,
    threads: usize,
    ticks: u64,
    switches: u64,
}

/// Both figures come from one watch.
fn seen() -> Seen {
    static SEEN: OnceLock<Seen> = OnceLock::new();
    *SEEN.get_or_init(|| {
        let env = TestEnv::new();
        env.script("init\ntext \"Looking around.\" partial\nmark silent\nhang");
        let mut run = env.start(&["--mode", "feature", "--prompt", "x", "--max-sessions", "1"]);
        run.wait_mark(1, "silent");
        let pid = run.pid();
        thread::sleep(SETTLE);
        let before = (ticks(pid), switches(pid));
        thread::sleep(WATCH);
        let ticks = ticks(pid) - before.0;
        let switches = switches(pid) - before.1;
        let pid = pid.to_string();
        Seen {
            resident: status_bytes(&pid, "VmRSS"),
            peak: status_bytes(&pid, "VmHWM"),
            anonymous: status_bytes(&pid, "RssAnon"),
            threads: fs::read_dir(format!("/proc/{pid}/task")).unwrap().count(),
            ticks,
            switches,
        }
    })
}

pub(crate) fn memory() -> Measured {
    let Seen { resident, peak, anonymous, threads, .. } = seen();
    Measured {
        value: format!("{:.1} MB", mb(resident)),
        within: Some(resident <= 12_000_000),
        how: format!(
            "VmRSS in a turn silent for 22 s (anonymous {:.1} MB, peak {:.1} MB, {threads} threads)",
            mb(anonymous),
            mb(peak)
        ),
    }
}

pub(crate) fn cpu() -> Measured {
    let Seen { ticks, switches, .. } = seen();
    Measured {
        value: format!("{ticks} ticks"),
        within: Some(ticks == 0),
        how: format!("utime + stime of all threads over 20 s; {switches} voluntary context switches"),
    }
}

/// CPU time, user and system, all threads, in ticks.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// How often its threads went to sleep by themselves.
fn switches(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter_map(|status| {
            let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count?.trim().parse::<u64>().ok()
        })
        .sum()
}
