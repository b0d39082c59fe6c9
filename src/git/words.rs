//! The state of a repository in the words of git, for a prompt.

use super::run::git_ok;
use super::{GitError, Repo};

/// Lines of each part that are told; the session can look for itself.
const MOST_LINES: usize = 30;
/// Bytes of a line.
const LONGEST_LINE: usize = 200;

/// Branch, files that differ from the last commit, and the last commits, each part bounded.
///
/// # Errors
/// Git cannot be run or fails; a repository without a commit is no failure.
pub async fn state_words(repo: &Repo) -> Result<String, GitError> {
    let status = ["status", "--short", "--branch", "--untracked-files=normal"];
    let log = ["log", "--oneline", "--no-decorate", "--max-count=10"];
    let (status, log) = tokio::join!(git_ok(&repo.root, &status), git_ok(&repo.root, &log));
    let mut words = bounded(&status?.stdout);
    if let Ok(log) = log {
        words.push_str("\n\nLast commits:\n");
        words.push_str(&bounded(&log.stdout));
    }
    Ok(words.trim_end().to_owned())
}

fn bounded(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(|line| &line[..line.floor_char_boundary(LONGEST_LINE)]).collect();
    let told = &lines[..lines.len().min(MOST_LINES)];
    match lines.len() - told.len() {
        0 => told.join("\n"),
        more => format!("{}\n… and {more} more", told.join("\n")),
    }
}
