//! Tests of the built program: one binary, so that it links once.
//!
//! Ring 3 runs the real `autopilot` against `fake-claude`, a scripted double of the Claude Code CLI, in an
//! environment built from nothing, and checks the ten invariants of `support::invariants` after every run.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start processes, read clocks and write fixtures themselves"
)]

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod ci;
#[cfg(test)]
mod crash;
#[cfg(all(test, target_os = "linux"))]
mod disk;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod dry_run;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod fake_claude;
#[cfg(test)]
mod field_reports;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod handover;
#[cfg(test)]
mod history;
#[cfg(test)]
mod kill_switches;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod notify;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod records;
#[cfg(test)]
mod report;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod run;
#[cfg(test)]
mod schedule;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod stuck;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod verdict;
