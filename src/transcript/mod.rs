//! The transcript of a session as ground truth: where it is, how it grows, what it says about a turn.
//!
//! Theory of operation: the CLI appends every message to `<id>.jsonl`. The driver records the size before a
//! turn ([`stat`]) and after the death of a process reads what was added ([`digest`](fn@digest)). The records here are this
//! module's own and apart from those of the stream: the two formats drift separately.
//!
//! Invariants
//! - Nothing here writes to a transcript. [`quarantine`](fn@quarantine) renames one that holds no message, nothing else.
//! - No content makes a read fail: bad lines, NUL blocks, torn tails and oversized lines are counted.
//! - Time and memory are bounded whatever the size of the file (field-reports I11).
//!
//! Pitfalls
//! - While the process lives, absence of a file is no evidence of a hang: some versions write it only at exit
//!   (field-reports I05).
//! - Existence is not resumability (recovery §1.7).

mod digest;
mod head;
mod last_words;
mod locate;
mod quarantine;
mod record;

#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod words_tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use digest::{Limits, digest, digest_within};
pub use last_words::{LastWords, last_words};
pub use locate::{Located, accept_reported, config_dir, encode, expected_path, locate};
pub use quarantine::{Quarantine, quarantine};

/// Why a transcript could not be looked at. What is wrong *inside* a transcript is never an error.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// An operation of the file system failed.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// There is something else than a regular file.
    #[error("{path} is not a regular file", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
}

impl TranscriptError {
    fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_path_buf(), source }
    }
}

/// Size and time of the last change: all that liveness needs (recovery §1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes. The offset of the next turn.
    pub size: u64,
    /// Time of the last change, by the clock of the file system.
    pub modified: SystemTime,
}

/// Size and time of the transcript at `path`; `None` when there is no file.
///
/// # Errors
/// The file system refuses the question.
pub fn stat(path: &Path) -> Result<Option<Stat>, TranscriptError> {
    let found = path.metadata().and_then(|meta| Ok(Stat { size: meta.len(), modified: meta.modified()? }));
    match found {
        Ok(stat) => Ok(Some(stat)),
        Err(source) if is_missing(&source) => Ok(None),
        Err(source) => Err(TranscriptError::io("inspect", path, source)),
    }
}

/// Opens the regular file at `path` for reading, with its size; `None` when there is none.
fn open(path: &Path) -> Result<Option<(File, u64)>, TranscriptError> {
    // Asked before it is opened: opening a FIFO would block.
    match path.metadata() {
        Ok(meta) if !meta.is_file() => return Err(TranscriptError::NotAFile { path: path.to_path_buf() }),
        Ok(_) => {}
        Err(source) if is_missing(&source) => return Ok(None),
        Err(source) => return Err(TranscriptError::io("inspect", path, source)),
    }
    let opened = File::open(path).and_then(|file| {
        let size = file.metadata()?.len();
        Ok((file, size))
    });
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(source) if is_missing(&source) => Ok(None),
        Err(source) => Err(TranscriptError::io("open", path, source)),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
