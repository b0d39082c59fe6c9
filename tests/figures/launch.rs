//! The program itself: its size, and how long it takes to say something.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::figure::{Measured, mb, median, ms};
use super::support::env::TestEnv;
use super::support::history;

/// The product, built with the bench profile, which is the release profile.
pub(crate) const AUTOPILOT: &str = env!("CARGO_BIN_EXE_autopilot");

pub(crate) fn binary_size() -> Measured {
    let bytes = fs::read(AUTOPILOT).unwrap();
    let stripped = if has_symbols(&bytes) { "NOT stripped" } else { "no symbol table" };
    let size = bytes.len() as u64;
    Measured {
        value: format!("{:.2} MB", mb(size)),
        within: Some(size <= 10_000_000),
        how: format!("{size} bytes, {stripped}; release profile, features of the tests included"),
    }
}

/// Whether an ELF file has a symbol table (section type 2).
fn has_symbols(elf: &[u8]) -> bool {
    assert!(elf.starts_with(b"\x7fELF\x02\x01"), "not a little-endian 64-bit ELF file");
    let short = |at: usize| usize::from(u16::from_le_bytes(elf[at..at + 2].try_into().unwrap()));
    let table = usize::try_from(u64::from_le_bytes(elf[0x28..0x30].try_into().unwrap())).unwrap();
    let (size, count) = (short(0x3a), short(0x3c));
    (0..count).any(|section| elf[table + section * size + 4..].starts_with(&2_u32.to_le_bytes()))
}

pub(crate) fn version_time() -> Measured {
    let run = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version");
        timed(&mut command)
    };
    let (mut ours, mut empty): (Vec<_>, Vec<_>) = (0..41).map(|_| (run(AUTOPILOT), run("/bin/true"))).unzip();
    let (ours, empty) = (median(&mut ours), median(&mut empty));
    Measured {
        value: format!("{:.2} ms", ms(ours)),
        within: Some(ours <= Duration::from_millis(10)),
        how: format!("spawn to wait, median of 41, in turns with /bin/true: {:.2} ms", ms(empty)),
    }
}

pub(crate) fn dry_run_time() -> Measured {
    dry_run(YEARS_OF_SESSIONS, &["--dry-run", "--mode", "feature"])
}

/// The same with everything a run can be chosen by.
pub(crate) fn dry_run_time_with_tasks() -> Measured {
    dry_run(history::YEARS, &["--dry-run"])
}

const YEARS_OF_SESSIONS: history::Size = history::Size { runs: 0, tasks: 0, ..history::YEARS };

fn dry_run(size: history::Size, args: &[&str]) -> Measured {
    let (full, empty) = (TestEnv::new(), TestEnv::new());
    let bytes = history::write(&full, size);
    let plan = printed(&full, args);
    assert!(size.tasks == 0 || plan.contains(&format!("{} open", size.tasks / 2)), "{plan}");
    let run = |env: &TestEnv| timed(env.command(AUTOPILOT).args(args));
    let (mut ours, mut none): (Vec<_>, Vec<_>) = (0..15).map(|_| (run(&full), run(&empty))).unzip();
    let (ours, none) = (median(&mut ours), median(&mut none));
    let history::Size { sessions, runs, tasks } = size;
    Measured {
        value: format!("{:.1} ms", ms(ours)),
        within: Some(ours <= Duration::from_millis(50)),
        how: format!(
            "{sessions} session and {runs} run records, {tasks} tasks, {:.0} MB, cache warm, median of 15, \
             in turns with an empty repository: {:.1} ms",
            mb(bytes as u64),
            ms(none)
        ),
    }
}

/// What a command prints.
fn printed(env: &TestEnv, args: &[&str]) -> String {
    let output = env.command(AUTOPILOT).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a program to its end, which must be a good one.
fn timed(command: &mut Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().unwrap();
    let time = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    time
}
