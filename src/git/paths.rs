//! Which paths changed between a commit and now.

use super::run::{git, git_ok};
use super::{GitError, Repo};

/// Paths that differ between the commit `from` and `HEAD`, relative to the top of the work tree; bytes that are
/// no text are replaced. `None` when that commit is not there (any more).
///
/// # Errors
/// Git cannot be run or fails.
pub async fn changed_paths(repo: &Repo, from: &str) -> Result<Option<Vec<String>>, GitError> {
    // A word that git would take for an option, or for a range, is no commit.
    if from.is_empty() || !from.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let commit = format!("{from}^{{commit}}");
    if !git(&repo.root, &["cat-file", "-e", &commit]).await?.success() {
        return Ok(None);
    }
    let output =
        git_ok(&repo.root, &["diff", "--name-only", "-z", "--no-renames", from, "HEAD", "--"]).await?;
    let paths = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(Some(paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect()))
}
