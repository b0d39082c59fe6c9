//! The figures of the budgets, measured on the release build and printed as a table: `cargo bench --bench figures`,
//! with a word behind `--` only the figures whose name holds it.
//!
//! Nothing here fails because a machine is slow or busy: a missed budget is a line that says so. What fails is
//! a figure that could not be taken at all (exit code 1), because a budget that nobody measures is no budget.
//!
//! Habits: medians of several runs, never the best of them; where there is something to compare with (an
//! empty program, an empty repository, the double without `autopilot`), it is measured in turns with the
//! subject in the same run, so that the load of the machine hits both. Each line says the load at its time.

#![expect(clippy::unwrap_used, reason = "a figure that cannot be taken is a panic, caught and reported")]
#![expect(
    clippy::disallowed_methods,
    reason = "a bench starts processes, reads clocks and writes fixtures itself"
)]
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

mod appends;
mod chaos;
mod figure;
mod gap;
mod gate;
mod launch;
mod notice;
mod report;
mod silence;
mod stop;
mod stream;
#[path = "../it/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the tests of the built program use the rest")]
mod support;
mod transcript;

use std::process::ExitCode;

use figure::{Figure, Taken, table};

/// Everything that is measured, cheap figures first; behind it [`chaos::CASES`].
const FIGURES: &[Figure] = &[
    Figure { name: "binary-size", budget: "<= 10 MB", take: launch::binary_size },
    Figure { name: "version-time", budget: "<= 10 ms", take: launch::version_time },
    Figure { name: "dry-run-time", budget: "<= 50 ms", take: launch::dry_run_time },
    Figure { name: "dry-run-with-tasks", budget: "<= 50 ms", take: launch::dry_run_time_with_tasks },
    Figure { name: "report-time", budget: "<= 300 ms", take: report::report_time },
    Figure { name: "report-status", budget: "<= 20 ms", take: report::status_time },
    Figure { name: "report-page", budget: "none", take: report::page_size },
    Figure { name: "outcome-time", budget: "<= 20 ms", take: transcript::outcome_time },
    Figure { name: "gap-sessions", budget: "<= 50 ms", take: gap::between_sessions },
    Figure { name: "gap-recovery", budget: "<= 50 ms", take: gap::before_a_recovery },
    Figure { name: "gate-answer", budget: "p99 <= 5 ms", take: gate::answers },
    Figure { name: "notice-delay", budget: "none", take: notice::delay },
    Figure { name: "stream-rate", budget: ">= 300 MB/s", take: stream::rate },
    Figure { name: "stream-memory", budget: "<= 32 MB", take: stream::memory },
    Figure { name: "stream-small-lines", budget: "none", take: stream::small_lines },
    Figure { name: "stream-end-to-end", budget: "<= 32 MB", take: stream::end_to_end },
    Figure { name: "appends", budget: "1600 of 1600", take: appends::all_there },
    Figure { name: "stop-time", budget: "none", take: stop::stubborn_tree },
    Figure { name: "silent-memory", budget: "<= 12 MB", take: silence::memory },
    Figure { name: "silent-cpu", budget: "0 ticks", take: silence::cpu },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // This program again, as the subject of a measurement.
        ["__stream", mix] => return stream::subject(mix),
        ["__append", root, count] => return appends::subject(root, count),
        _ => {}
    }
    if cfg!(debug_assertions) {
        println!("not the release profile: figures of a debug build mean nothing; use `cargo bench`");
        return ExitCode::FAILURE;
    }
    let wanted: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let mut taken = Vec::new();
    for figure in FIGURES.iter().chain(&chaos::CASES) {
        if wanted.is_empty() || wanted.iter().any(|word| figure.name.contains(word.as_str())) {
            taken.push((figure, Taken::of(figure)));
        }
    }
    print!("{}", table(&taken));
    let beside = chaos::beside(&taken);
    if !beside.is_empty() {
        print!("\nchaos, beside what was measured of others (see tests/figures/chaos.rs)\n{beside}");
    }
    if taken.iter().all(|(_, taken)| taken.measured.is_ok()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
