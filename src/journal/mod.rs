//! The records: what goes into which file, in what shape, and how it is read back.
//!
//! | file | written by | read by |
//! |---|---|---|
//! | `metrics/autopilot.jsonl`, `metrics/sessions.jsonl` | [`metrics`] ([`autopilot_record`], [`session_record`]) | [`records`] |
//! | `metrics/learnings.jsonl` | upstream alone | [`records`] |
//! | `runs/<id>/events.jsonl` | [`writer`] | [`reader`] |
//! | `runs/<id>/stream/*` | [`raw`] | [`raw::segments`] |
//!
//! Two kinds of files, two kinds of care. The metric files are shared with upstream tools that know neither
//! our lock nor our care: lines in them may be torn, glued, foreign or damaged, and everything that is
//! readable is read. The event journal is ours alone: one writer, one format number, and what is not
//! understood is counted.
//!
//! Canonical reading of sessions (upstream-formats §5.2: aliases, last record wins, `supersedes`) is not
//! done here: [`crate::signals`] does it on top of [`records`], which only delivers what is in the file.

pub mod autopilot_record;
pub mod js;
mod lines;
pub mod metrics;
pub mod raw;
pub mod reader;
pub mod records;
pub mod session_record;
pub mod writer;

/// Starts this test binary again, as the one test `name`, behind some shell commands: for tests that need
/// other processes to kill or to compete with.
#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "`process` starts what the product starts, not a test's own double"
)]
fn start_self(name: &str, prelude: &str, variables: &[(&str, &str)]) -> std::process::Child {
    std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("{prelude} exec \"$0\" --exact {name} --nocapture"))
        .arg(std::env::current_exe().unwrap())
        .envs(variables.iter().copied())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}
