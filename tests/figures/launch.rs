//! The program itself: its size, and how long it takes to say something.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::figure::{Measured, mb, median, ms};
use super::support::env::TestEnv;

/// The product, built with the bench profile, which is the release profile.
pub(crate) const AUTOPILOT: &str = env!("CARGO_BIN_EXE_autopilot");

/// Records in `sessions.jsonl`: a session an hour for eleven years.
pub(crate) const RECORDS: u32 = 100_000;

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
    let (full, empty) = (TestEnv::new(), TestEnv::new());
    let mut text = String::new();
    for number in 0..RECORDS {
        session_record(&mut text, number);
    }
    full.write(".orchestrator/metrics/sessions.jsonl", &text);
    let run = |env: &TestEnv| timed(env.command(AUTOPILOT).args(["--dry-run", "--mode", "feature"]));
    let (mut ours, mut none): (Vec<_>, Vec<_>) = (0..15).map(|_| (run(&full), run(&empty))).unzip();
    let (ours, none) = (median(&mut ours), median(&mut none));
    Measured {
        value: format!("{:.1} ms", ms(ours)),
        within: Some(ours <= Duration::from_millis(50)),
        how: format!(
            "{RECORDS} records, {:.0} MB, cache warm, median of 15, in turns with no records: {:.1} ms",
            mb(text.len() as u64),
            ms(none)
        ),
    }
}

pub(crate) fn session_record(text: &mut String, number: u32) {
    let day = number / 24 % 28 + 1;
    let hour = number % 24;
    writeln!(
        text,
        r#"{{"schema_version":2,"session_id":"00000000-0000-4000-8000-{number:012}","session_type":"feature","mode":"feature","platform":"claude","branch":"main","started_at":"2026-01-{day:02}T{hour:02}:00:00.000Z","completed_at":"2026-01-{day:02}T{hour:02}:40:00.000Z","duration_seconds":2400,"status":"completed","total_waves":2,"waves":[{{"wave":1,"role":"build","agent_count":3}},{{"wave":2,"role":"review","agent_count":2}}],"agent_summary":{{"complete":5,"partial":0,"failed":0,"spiral":0}},"total_agents":5,"total_files_changed":12,"effectiveness":{{"planned_issues":4,"completed":3,"carryover":1,"emergent":0,"completion_rate":0.75}},"issues_closed":[{number}],"issues_created":[],"autopilot_run_id":"main-2026-01-{day:02}-{hour:02}00","notes":"The work of the hour is done and committed."}}"#
    )
    .unwrap();
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
