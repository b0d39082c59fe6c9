//! The files beside STATE.md that say what comes next (upstream-formats §7), and the section of CLAUDE.md that
//! says what is allowed.
//!
//! | file | read by | limit |
//! |---|---|---|
//! | `.orchestrator/metrics/sessions.jsonl` | [`sessions`] | the last real sessions |
//! | `.orchestrator/metrics/learnings.jsonl` | [`learnings`] | the best that have not expired |
//! | `.orchestrator/metrics/autopilot.jsonl` | [`run_history`] | the last runs |
//! | `.orchestrator/bootstrap.lock` | [`bootstrap`] | 64 KiB |
//! | `CLAUDE.md`, `AGENTS.md` | [`session_config`] | 1 MiB |
//!
//! None of these readers fails, writes, or reads a clock: the present is an argument. What is wrong with a
//! file is told in [`SourceReading::problems`], and nothing is made up in its place. The metric files are read
//! from their end, through [`crate::journal::records`], so that the length of a history costs nothing.

pub mod bootstrap;
pub mod learnings;
pub mod run_history;
pub mod session_config;
pub mod sessions;

use std::io;
use std::path::Path;

use jiff::Timestamp;

use crate::core::signals::SourceReading;
use crate::journal::records::Records;
use crate::state::bounded::age_of;

/// The reading of a file at `path` in the repository at `root`, nothing said yet.
fn source(root: &Path, path: &Path, now: Timestamp) -> SourceReading {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let origin = path.exists().then(|| path.strip_prefix(root).unwrap_or(path).display().to_string());
    SourceReading {
        source: name,
        origin,
        age_seconds: age_of(path, now),
        says: "not there".to_owned(),
        problems: Vec::new(),
    }
}

/// Notes what was wrong with a metric file; `newer` = records of a version that is not known here.
fn note(source: &mut SourceReading, walk: &io::Result<Records>, newer: usize) {
    let records = match walk {
        Ok(records) => records,
        Err(error) => {
            "not read".clone_into(&mut source.says);
            source.problems.push(format!("cannot be read: {error}"));
            return;
        }
    };
    let counted = [
        (records.bad_lines, "not one record each"),
        (records.recovered, "recovered from damaged lines"),
        (usize::from(records.torn_tail), "cut off at the end of the file"),
        (newer, "of a newer schema version: not used"),
    ];
    for (count, what) in counted.into_iter().filter(|(count, _)| *count > 0) {
        source.problems.push(format!("{}: {what}", counted_lines(count)));
    }
    if records.gave_up {
        source.problems.push("too long: its beginning was not looked at".to_owned());
    }
}

fn counted_lines(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

/// `1 session`, `3 sessions`, `no session`.
fn counted(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// A repository with one file in it.
#[cfg(test)]
fn repository(path: &str, bytes: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    crate::state::atomic::replace(&path, bytes, 0o600).unwrap();
    folder
}
