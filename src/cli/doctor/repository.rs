//! The repository: its state, whether commits can be made in it, where work would come from.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::{Check, ok, problem, warning};
use crate::core::signals::SourceReading;
use crate::driver::clock;
use crate::git;
use crate::plan;
use crate::process::{CaptureSpec, Captured, capture};
use crate::signals::session_config;
use crate::state::layout::Layout;

/// Hooks that run when a session commits or pushes.
const HOOKS: [&str; 6] =
    ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push", "post-checkout"];

pub(super) async fn work_tree(repo: &git::Repo) -> Check {
    match git::snapshot(repo).await {
        Ok(snapshot) if snapshot.dirty + snapshot.untracked > 0 => warning(
            "work tree",
            format!("{} changed and {} untracked files", snapshot.dirty, snapshot.untracked),
            "commit or stash them: sessions commit their work, and yours may end up among it",
        ),
        Ok(snapshot) => {
            ok("work tree", format!("clean, on {}", snapshot.branch.as_deref().unwrap_or("a detached HEAD")))
        }
        Err(error) => problem("work tree", error.to_string(), "mend what git complains about"),
    }
}

/// Where work would come from, and what CLAUDE.md says of it.
pub(super) fn work(root: &Path) -> [Check; 2] {
    let now = clock::wall();
    let tasks = plan::look(root, &Layout::new(root).tasks(), now);
    let of = |reading: &SourceReading| format!("{}: {}", reading.source, reading.says);
    let found = tasks.readings.iter().map(of).collect::<Vec<_>>().join("; ");
    let problem_in = |readings: &[SourceReading]| {
        readings.iter().find_map(|reading| Some(format!("{}: {}", reading.source, reading.problems.first()?)))
    };
    let tasks = match problem_in(&tasks.readings) {
        Some(problem) => warning("tasks", found, problem),
        None if tasks.exists => ok("tasks", found),
        None => ok("tasks", "none written down; a run needs --prompt, --mode or .project/plan.md"),
    };
    let (_, reading) = session_config::read(root, now);
    let config = match problem_in(std::slice::from_ref(&reading)) {
        Some(problem) => warning("session config", reading.says, problem),
        None => ok("session config", reading.says),
    };
    [tasks, config]
}

pub(super) fn folder(root: &Path) -> Check {
    let folder = root.join(".orchestrator");
    let place = if folder.is_dir() { folder.as_path() } else { root };
    match access(place, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => ok("state folder", folder.display().to_string()),
        Err(error) => problem(
            "state folder",
            format!("{} cannot be written: {error}", place.display()),
            "mend its owner or permissions; records of a run are kept there",
        ),
    }
}

/// Whether a commit can be made here without a person: identity, signing, hooks.
pub(super) async fn git(root: &Path) -> Vec<Check> {
    let identity = match ask(root, &["var", "GIT_AUTHOR_IDENT"]).await {
        Some(captured) if captured.exit.success() => {
            let text = String::from_utf8_lossy(&captured.stdout).into_owned();
            // `Name <mail> 1700000000 +0000`.
            let end = text.rfind('>').map_or(text.len(), |at| at + 1);
            ok("git identity", text[..end].trim())
        }
        Some(captured) => {
            let words = String::from_utf8_lossy(&captured.stderr);
            let words =
                words.lines().rev().find(|line| line.starts_with("fatal:")).unwrap_or("git does not say why");
            problem(
                "git identity",
                format!("nobody to commit as: {}", words.trim_start_matches("fatal: ")),
                "git config user.name NAME; git config user.email ADDRESS",
            )
        }
        None => problem("git identity", "git cannot be asked", "see whether git works here"),
    };
    let mut checks = vec![identity];
    if let Some(captured) = ask(root, &["config", "--type=bool", "--get", "commit.gpgsign"]).await
        && String::from_utf8_lossy(&captured.stdout).trim() == "true"
    {
        checks.push(warning(
            "git signing",
            "commits are signed (commit.gpgsign)",
            "see that the key needs no passphrase at night, or: git config commit.gpgsign false",
        ));
    }
    checks.extend(hooks(root).await);
    checks
}

async fn ask(root: &Path, args: &[&str]) -> Option<Captured> {
    let mut spec = CaptureSpec::new("git", root);
    spec.args = args.iter().map(OsString::from).collect();
    capture(&spec).await.ok()
}

/// Hooks run without a terminal, and one that fails keeps a session from committing.
async fn hooks(root: &Path) -> Option<Check> {
    let captured = ask(root, &["rev-parse", "--git-path", "hooks"]).await?;
    let folder = root.join(String::from_utf8_lossy(&captured.stdout).trim());
    let found: Vec<PathBuf> =
        HOOKS.iter().map(|name| folder.join(name)).filter(|path| path.is_file()).collect();
    if found.is_empty() {
        return None;
    }
    let name =
        |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let names: Vec<String> = found.iter().map(name).collect();
    let asleep: Vec<String> = found
        .iter()
        .filter(|path| path.metadata().is_ok_and(|file| file.permissions().mode() & 0o111 == 0))
        .map(name)
        .collect();
    let lost: Vec<String> = found.iter().filter(|path| interpreter_is_missing(path)).map(name).collect();
    Some(if !lost.is_empty() {
        problem(
            "git hooks",
            format!("{}: the interpreter does not exist", lost.join(", ")),
            "mend or remove them: no session can commit",
        )
    } else if !asleep.is_empty() {
        warning(
            "git hooks",
            format!("{} not executable: git ignores them", asleep.join(", ")),
            "chmod +x, or remove them",
        )
    } else {
        ok("git hooks", format!("{} (they have to work without a terminal)", names.join(", ")))
    })
}

/// Whether a script names an interpreter that is not there.
fn interpreter_is_missing(path: &Path) -> bool {
    let Ok(Some(file)) = crate::state::bounded::read(path, 1 << 20) else { return false };
    let first = file.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(first);
    let Some(interpreter) = line.strip_prefix("#!").and_then(|rest| rest.split_whitespace().next()) else {
        return false;
    };
    !Path::new(interpreter).exists()
}
