//! Why git could not answer.

use std::io;
use std::path::{Path, PathBuf};

use crate::process::SpawnError;

/// Why git could not answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The directory to ask in does not exist.
    #[error("no such directory: {dir}", dir = dir.display())]
    NoDirectory {
        /// The directory.
        dir: PathBuf,
    },
    /// No `git` on the search path.
    #[error("git is not installed or not on PATH")]
    Missing,
    /// The directory is in no repository.
    #[error("{dir} is not in a git repository", dir = dir.display())]
    NotARepository {
        /// The directory.
        dir: PathBuf,
    },
    /// The repository has no working tree.
    #[error("{dir} is a bare repository; a working tree is needed", dir = dir.display())]
    Bare {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory is inside of a git directory.
    #[error("{dir} is inside of a git directory, not of a working tree", dir = dir.display())]
    NoWorkTree {
        /// The directory.
        dir: PathBuf,
    },
    /// Git refuses a repository that another user owns.
    #[error("git refuses {dir}: another user owns the repository; to allow it: {hint}", dir = dir.display())]
    DubiousOwnership {
        /// The directory.
        dir: PathBuf,
        /// The command that allows it.
        hint: String,
    },
    /// A git command failed.
    #[error("git {command} failed in {dir} ({exit}): {stderr}", dir = dir.display())]
    Failed {
        /// The subcommand.
        command: String,
        /// Where.
        dir: PathBuf,
        /// The exit status as text.
        exit: String,
        /// The last line of what git said.
        stderr: String,
    },
    /// A git command did not end in time and was killed.
    #[error("git did not answer within {seconds} s in {dir}", dir = dir.display())]
    Timeout {
        /// Where.
        dir: PathBuf,
        /// The limit.
        seconds: u64,
    },
    /// Git could not be started or read.
    #[error("cannot run git in {dir}", dir = dir.display())]
    Io {
        /// Where.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Git succeeded and printed something unexpected.
    #[error("git {what} printed {text:?}")]
    Unexpected {
        /// The question.
        what: &'static str,
        /// The answer.
        text: String,
    },
}

impl GitError {
    /// What a failed command means. `stderr` is git's own text in the C locale.
    pub(super) fn from_failure(dir: &Path, command: &str, exit: String, stderr: &str) -> Self {
        let dir = dir.to_path_buf();
        if stderr.contains("detected dubious ownership") {
            let hint = stderr
                .lines()
                .map(str::trim)
                .find(|line| line.starts_with("git config --global --add safe."));
            let hint = hint.map_or_else(
                || format!("git config --global --add safe.directory {}", dir.display()),
                str::to_owned,
            );
            return Self::DubiousOwnership { dir, hint };
        }
        if stderr.contains("not a git repository") {
            return Self::NotARepository { dir };
        }
        let said = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message");
        Self::Failed { command: command.to_owned(), dir, exit, stderr: said.to_owned() }
    }

    /// What a failed start means.
    pub(super) fn from_spawn(dir: &Path, error: SpawnError) -> Self {
        match error {
            SpawnError::Missing { .. } => Self::Missing,
            SpawnError::WorkingDirectory { .. } => Self::NoDirectory { dir: dir.to_path_buf() },
            other => Self::Io { dir: dir.to_path_buf(), source: io::Error::other(other) },
        }
    }
}
