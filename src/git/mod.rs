//! Git as ground truth: what a session really committed and left behind.
//!
//! Theory of operation: [`discover`] finds the working tree, [`snapshot`] records its state before a session,
//! [`since`] says afterwards what changed. Everything is asked of the user's own `git` (crates, row git): its
//! worktrees, configuration and object formats work because it is the same program.
//!
//! Invariants
//! - Nothing here changes a repository: only reading commands, optional locks off, no prompt, no lazy fetch of
//!   a partial clone, no file-system monitor started, no external diff or filter program.
//! - No `GIT_*` variable of the environment reaches git, so a `GIT_DIR` of a hook cannot redirect a question.
//! - Sizes are bounded: lists have a length, output has a limit, and what was cut is said.
//!
//! Pitfalls
//! - Only what is reachable from `HEAD` of this working tree counts. Commits on a branch that the session left
//!   again, or in another worktree, are not seen.
//! - Paths are bytes. They are hashed and counted here, never shown.

mod error;
mod paths;
mod remotes;
mod removable;
mod run;
mod status;
mod words;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use error::GitError;
pub use paths::changed_paths;
pub use remotes::remotes;
pub use removable::removable;
use run::{git, git_ok};
pub use words::state_words;

/// Most commits that [`Change::commits`] lists.
pub const COMMITS_LISTED: usize = 100;

/// Time limit of one git command. A status over a huge tree on a cold cache takes seconds.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A repository with a working tree. Absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    /// The top of the working tree.
    pub root: PathBuf,
    /// The git directory of this working tree.
    pub git_dir: PathBuf,
    /// The git directory that all worktrees share; equal to `git_dir` in the main one.
    pub common_dir: PathBuf,
}

impl Repo {
    /// Whether this is a linked worktree.
    pub fn is_linked_worktree(&self) -> bool {
        self.git_dir != self.common_dir
    }
}

/// A commit's name: 40 or 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Oid(String);

impl Oid {
    fn parse(text: &str) -> Option<Self> {
        let hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        (hex && matches!(text.len(), 40 | 64)).then(|| Self(text.to_owned()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The state of a working tree at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The commit of `HEAD`; `None` on a branch without a commit.
    pub head: Option<Oid>,
    /// The branch; `None` when `HEAD` is detached.
    pub branch: Option<String>,
    /// Tracked files that differ from `HEAD`, staged or not, unmerged ones included.
    pub dirty: u64,
    /// Untracked files; neither ignored ones nor our own records are among them.
    pub untracked: u64,
    /// Equal for equal dirty states: a hash over names, status, and size and time of the files. A file that
    /// was rewritten with the same content counts as changed.
    pub fingerprint: u64,
    /// The list of changes was longer than the limit: the counts are lower bounds.
    pub cut: bool,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Its name.
    pub oid: Oid,
    /// The first line of its message; invalid bytes are replaced.
    pub subject: String,
    /// Author time, seconds since the epoch.
    pub author_time: i64,
}

/// Size of a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffStat {
    /// Files changed; a rename is one.
    pub files: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
}

/// What happened since a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The newest commits that are reachable now and were not then, newest first, at most [`COMMITS_LISTED`].
    pub commits: Vec<Commit>,
    /// How many there are in all.
    pub commits_total: u64,
    /// From the tree of the old `HEAD` to the tree of the new one, whatever the way between them. `None` when
    /// it cannot be computed (the old commit is gone).
    pub diff: Option<DiffStat>,
    /// The dirty state is another one than then.
    pub dirty_changed: bool,
    /// The old `HEAD` was dropped: it is neither an ancestor of the new one nor, after a switch, still part of
    /// the branch that was left (reset, amended, rebased).
    pub head_moved_backwards: bool,
    /// Another branch than then, or detached, or no longer.
    pub branch_switched: bool,
    /// The state now.
    pub now: Snapshot,
}

impl Snapshot {
    /// The working tree differs from `HEAD`: tracked changes or untracked files.
    pub fn is_dirty(&self) -> bool {
        self.dirty + self.untracked > 0
    }
}

impl Change {
    /// The working tree differs from `HEAD` now.
    pub fn dirty_now(&self) -> bool {
        self.now.is_dirty()
    }

    /// Nothing at all happened.
    pub fn is_empty(&self) -> bool {
        self.commits_total == 0 && !self.dirty_changed && !self.head_moved_backwards && !self.branch_switched
    }
}

/// Finds the working tree that `dir` is in.
///
/// # Errors
/// There is none ([`GitError::NotARepository`], [`GitError::Bare`]), git refuses it
/// ([`GitError::DubiousOwnership`]), or git cannot be run.
pub async fn discover(dir: &Path) -> Result<Repo, GitError> {
    let answers = tokio::try_join!(
        rev_parse_path(dir, "--show-toplevel"),
        rev_parse_path(dir, "--absolute-git-dir"),
        rev_parse_path(dir, "--git-common-dir"),
    );
    match answers {
        Ok((root, git_dir, common_dir)) => Ok(Repo { root, git_dir, common_dir }),
        Err(error) => Err(why_not(dir, error).await),
    }
}

/// Why `dir` is in no working tree, after one of the questions was refused with `error`. Only asked then: a
/// run that may start waits for git once, not twice.
async fn why_not(dir: &Path, error: GitError) -> GitError {
    let kind = match git_ok(dir, &["rev-parse", "--is-bare-repository", "--is-inside-work-tree"]).await {
        Ok(kind) => kind,
        Err(plainer) => return plainer,
    };
    let kind = String::from_utf8_lossy(&kind.stdout);
    let mut answers = kind.lines();
    match (answers.next(), answers.next()) {
        (_, Some("true")) => error,
        (Some("true"), _) => GitError::Bare { dir: dir.to_path_buf() },
        _ => GitError::NoWorkTree { dir: dir.to_path_buf() },
    }
}

/// One question a call: a path may hold a newline, so several answers could not be told apart.
async fn rev_parse_path(dir: &Path, what: &str) -> Result<PathBuf, GitError> {
    let output = git_ok(dir, &["rev-parse", "--path-format=absolute", what]).await?;
    Ok(run::path(output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout)))
}

/// The branch that is checked out, also one without a commit; `None` when `HEAD` is detached. Unlike
/// [`snapshot`] it does not look at the tree, which takes a while in a large one.
///
/// # Errors
/// Git cannot be run or fails.
pub async fn branch(repo: &Repo) -> Result<Option<String>, GitError> {
    let output = git(&repo.root, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await?;
    let name = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    // Exit code 1 with nothing said: detached.
    Ok((output.success() && !name.is_empty()).then_some(name))
}

/// Records the state of the working tree.
///
/// # Errors
/// Git cannot be run or fails.
pub async fn snapshot(repo: &Repo) -> Result<Snapshot, GitError> {
    let args = [
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=all",
        "--find-renames",
        "--no-ahead-behind",
        "--",
        // Records of our own, and the hand-over between sessions, are no work of a session.
        ":(top,exclude).orchestrator",
        ":(top,exclude).claude/STATE.md",
        ":(top,exclude).codex/STATE.md",
        ":(top,exclude).cursor/STATE.md",
        ":(top,exclude).pi/STATE.md",
    ];
    let output = git_ok(&repo.root, &args).await?;
    let listing = status::parse(&output.stdout, output.truncated);
    let fingerprint = status::fingerprint(&repo.root, &listing);
    Ok(Snapshot {
        head: listing.head,
        branch: listing.branch,
        dirty: listing.dirty,
        untracked: listing.untracked,
        fingerprint,
        cut: listing.cut,
    })
}

/// What happened since `then`.
///
/// # Errors
/// Git cannot be run or fails. An old commit that no longer exists is no error.
pub async fn since(repo: &Repo, then: &Snapshot) -> Result<Change, GitError> {
    let now = snapshot(repo).await?;
    let branch_switched = now.branch != then.branch;
    let mut change = Change {
        commits: Vec::new(),
        commits_total: 0,
        diff: Some(DiffStat::default()),
        dirty_changed: now.fingerprint != then.fingerprint,
        head_moved_backwards: false,
        branch_switched,
        now,
    };
    if change.now.head == then.head {
        return Ok(change);
    }
    if let Some(old) = &then.head {
        change.head_moved_backwards = was_dropped(repo, old, then, &change.now).await?;
        change.diff = None;
    }
    let Some(new) = change.now.head.clone() else { return Ok(change) };
    let range = match &then.head {
        Some(old) if exists(repo, old).await? => vec![new.to_string(), format!("^{old}")],
        // Without the old commit nobody can say which ones are new.
        Some(_) => return Ok(change),
        None => vec![new.to_string()],
    };
    let (total, commits, diff) =
        tokio::try_join!(count(repo, &range), list(repo, &range), diff(repo, then.head.as_ref(), &new),)?;
    change.commits_total = total;
    change.commits = commits;
    change.diff = diff;
    Ok(change)
}

async fn exists(repo: &Repo, oid: &Oid) -> Result<bool, GitError> {
    let commit = format!("{oid}^{{commit}}");
    Ok(git(&repo.root, &["cat-file", "-e", &commit]).await?.success())
}

async fn was_dropped(repo: &Repo, old: &Oid, then: &Snapshot, now: &Snapshot) -> Result<bool, GitError> {
    if let Some(new) = &now.head
        && is_ancestor(repo, old, new.as_str()).await?
    {
        return Ok(false);
    }
    match &then.branch {
        Some(branch) if now.branch.as_ref() != Some(branch) => {
            Ok(!is_ancestor(repo, old, &format!("refs/heads/{branch}")).await?)
        }
        _ => Ok(true),
    }
}

/// A commit that does not exist any more is nobody's ancestor.
async fn is_ancestor(repo: &Repo, old: &Oid, tip: &str) -> Result<bool, GitError> {
    Ok(git(&repo.root, &["merge-base", "--is-ancestor", old.as_str(), tip]).await?.success())
}

async fn count(repo: &Repo, range: &[String]) -> Result<u64, GitError> {
    let mut args = vec!["rev-list", "--count"];
    args.extend(range.iter().map(String::as_str));
    args.push("--");
    let output = git_ok(&repo.root, &args).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .map_err(|_| GitError::Unexpected { what: "rev-list --count", text: text.into_owned() })
}

async fn list(repo: &Repo, range: &[String]) -> Result<Vec<Commit>, GitError> {
    let limit = format!("--max-count={COMMITS_LISTED}");
    let mut args = vec!["log", "-z", "--format=%H %at %s", "--encoding=UTF-8", "--no-show-signature", &limit];
    args.extend(["--no-decorate", "--no-color", "--no-notes", "--no-patch"]);
    args.extend(range.iter().map(String::as_str));
    args.push("--");
    let output = git_ok(&repo.root, &args).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split('\0').filter_map(parse_commit).collect())
}

fn parse_commit(record: &str) -> Option<Commit> {
    let mut fields = record.splitn(3, ' ');
    let oid = Oid::parse(fields.next()?)?;
    let author_time = fields.next()?.parse().ok()?;
    Some(Commit { oid, subject: fields.next().unwrap_or_default().to_owned(), author_time })
}

/// `None` when git cannot compare the two (objects of a partial or damaged clone are missing).
async fn diff(repo: &Repo, old: Option<&Oid>, new: &Oid) -> Result<Option<DiffStat>, GitError> {
    let old = match old {
        Some(old) => old.to_string(),
        None => empty_tree(repo).await?,
    };
    let args =
        ["diff-tree", "-r", "--shortstat", "--find-renames", "-l1000", "--no-ext-diff", "--no-textconv"];
    let output = git(&repo.root, &[&args[..], &[old.as_str(), new.as_str(), "--"]].concat()).await?;
    Ok(output.success().then(|| parse_shortstat(&String::from_utf8_lossy(&output.stdout))))
}

/// The name of the empty tree in the repository's object format. It is computed, nothing is stored.
async fn empty_tree(repo: &Repo) -> Result<String, GitError> {
    let output = git_ok(&repo.root, &["hash-object", "-t", "tree", "--stdin"]).await?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// ` 3 files changed, 10 insertions(+), 2 deletions(-)`; parts that are zero are left out.
fn parse_shortstat(text: &str) -> DiffStat {
    let part = |word: &str| {
        text.split(',')
            .filter(|part| part.contains(word))
            .find_map(|part| part.split_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    };
    DiffStat { files: part("file"), insertions: part("insertion"), deletions: part("deletion") }
}

#[cfg(test)]
mod tests;
