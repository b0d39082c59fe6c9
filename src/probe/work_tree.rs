//! Which working tree a directory belongs to.

use std::path::Path;

/// Whether `dir` is in the working tree whose top is `root`: at or below it, with no other repository or linked
/// worktree between them. The nearest `.git` above a directory decides, as it does for git itself.
///
/// Both are absolute and free of links, as the kernel gives them.
pub(super) fn contains(root: &Path, dir: &Path) -> bool {
    dir.ancestors().take_while(|above| above.starts_with(root)).find(|above| *above == root || is_top(above))
        == Some(root)
}

/// A linked worktree and a submodule have a file there; an empty folder of that name is nothing to git.
fn is_top(dir: &Path) -> bool {
    let git = dir.join(".git");
    git.is_file() || git.join("HEAD").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture")]
    fn the_nearest_repository_decides() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("repo");
        for folder in [
            "repo/.git/refs",
            "repo/src/deep",
            "repo/odd/.git",
            "repo/vendored/.git",
            "repo/vendored/src",
            "repo/.claude/worktrees/one/src",
            "repository",
        ] {
            std::fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        for file in ["repo/.git/HEAD", "repo/vendored/.git/HEAD", "repo/.claude/worktrees/one/.git"] {
            std::fs::write(place.path().join(file), "").unwrap();
        }
        for (dir, expected) in [
            ("repo", true),
            ("repo/src/deep", true),
            ("repo/.git/refs", true),
            ("repo/odd", true),
            ("repo/.claude/worktrees", true),
            ("repo/src/gone (deleted)", true),
            ("repo/vendored", false),
            ("repo/vendored/src", false),
            ("repo/.claude/worktrees/one/src", false),
            ("repository", false),
            ("repo (deleted)", false),
            ("", false),
        ] {
            assert_eq!(contains(&root, &place.path().join(dir)), expected, "{dir}");
        }
        assert!(!contains(&root, Path::new("/")));
        // Seen from the linked worktree.
        let linked = root.join(".claude/worktrees/one");
        assert!(contains(&linked, &linked.join("src")));
        assert!(!contains(&linked, &root));
    }
}
