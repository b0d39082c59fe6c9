//! What may be removed without a loss: single files, and what git ignores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::run::git;

/// For each path below `root`, whether it is one plain file, or a folder of which git tracks nothing and ignores all.
///
/// Links are followed first: what leads out of the working tree is not removable. Nor is what holds a repository of
/// its own, such as another working tree with work that is not committed. Whatever cannot be found out is a no.
pub async fn removable(root: &Path, paths: &[PathBuf]) -> BTreeMap<PathBuf, bool> {
    let mut answers = BTreeMap::new();
    for path in paths {
        answers.insert(path.clone(), is_removable(root, path).await);
    }
    answers
}

async fn is_removable(root: &Path, path: &Path) -> bool {
    let Ok(real_root) = root.canonicalize() else { return false };
    // The path itself may not exist yet, and a link is removed, not what it leads to.
    let existing = path.ancestors().skip(1).find_map(|folder| folder.canonicalize().ok());
    let Some(parent) = existing else { return false };
    if !parent.starts_with(&real_root) {
        return false;
    }
    if let Ok(metadata) = path.symlink_metadata() {
        if metadata.is_file() {
            return true;
        }
        let leads_out =
            !path.canonicalize().is_ok_and(|real| real.starts_with(&real_root) && real != real_root);
        if metadata.is_symlink() && leads_out {
            return false;
        }
        if holds_a_repository(path) {
            return false;
        }
    }
    let Some(text) = path.to_str() else { return false };
    // One process, because a tool waits for the answer. Asked with the index, as here, git does not call a folder ignored
    // when it tracks a file in it.
    git(root, &["check-ignore", "--quiet", "--", text]).await.is_ok_and(|output| output.success())
}

/// Whether it or a folder right below it is the top of a working tree.
fn holds_a_repository(path: &Path) -> bool {
    let is_top = |folder: &Path| folder.join(".git").exists();
    let below = std::fs::read_dir(path).into_iter().flatten().flatten();
    is_top(path) || below.take(1_000).any(|entry| is_top(&entry.path()))
}
