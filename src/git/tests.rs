//! Against real repositories in temporary directories.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use super::*;

/// A temporary directory and git in it, independent of the user's configuration.
struct Lab {
    _temp: tempfile::TempDir,
    dir: PathBuf,
}

impl Lab {
    fn empty() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        Self { _temp: temp, dir }
    }

    /// A repository without a commit in `repo/`.
    fn unborn() -> Self {
        let lab = Self::empty();
        lab.git(".", &["init", "-q", "-b", "main", "repo"]);
        lab
    }

    /// A repository with one commit of `a.txt`.
    fn committed() -> Self {
        let lab = Self::unborn();
        lab.put("repo/a.txt", "1\n2\n3\n");
        lab.commit("first");
        lab
    }

    fn git(&self, dir: &str, args: &[&str]) -> String {
        let output = self.command(dir, args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[expect(clippy::disallowed_methods, reason = "a test sets up its repository with git itself")]
    fn command(&self, dir: &str, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "commit.gpgSign=false"])
            .args(args)
            .current_dir(self.dir.join(dir))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &self.dir)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_DATE", "1700000000 +0000");
        command
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn commit(&self, subject: &str) {
        self.git("repo", &["add", "-A"]);
        self.git("repo", &["commit", "-q", "--allow-empty", "-m", subject]);
    }

    async fn repo(&self) -> Repo {
        discover(&self.dir.join("repo")).await.unwrap()
    }
}

fn subjects(change: &Change) -> Vec<&str> {
    change.commits.iter().map(|commit| commit.subject.as_str()).collect()
}

#[tokio::test]
async fn discovery() {
    let lab = Lab::committed();
    let top = lab.dir.join("repo");
    let expected = Repo { root: top.clone(), git_dir: top.join(".git"), common_dir: top.join(".git") };
    lab.put("repo/sub/deep/x", "");
    for dir in ["repo", "repo/sub/deep"] {
        assert_eq!(discover(&lab.dir.join(dir)).await.unwrap(), expected, "{dir}");
    }

    lab.git("repo", &["worktree", "add", "-q", "-b", "side", "../linked"]);
    let linked = discover(&lab.dir.join("linked")).await.unwrap();
    assert_eq!((&linked.root, &linked.common_dir), (&lab.dir.join("linked"), &expected.common_dir));
    assert!(linked.is_linked_worktree() && !expected.is_linked_worktree());
    assert_eq!(snapshot(&linked).await.unwrap().branch.as_deref(), Some("side"));

    lab.git(".", &["init", "-q", "--bare", "bare"]);
    fs::create_dir(lab.dir.join("plain")).unwrap();
    let error = |dir: &'static str| {
        let dir = lab.dir.join(dir);
        async move { discover(&dir).await.unwrap_err() }
    };
    assert!(matches!(error("bare").await, GitError::Bare { .. }));
    assert!(matches!(error("repo/.git").await, GitError::NoWorkTree { .. }));
    assert!(matches!(error("plain").await, GitError::NotARepository { .. }));
    assert!(matches!(error("missing").await, GitError::NoDirectory { .. }));
    assert!(matches!(error("repo/a.txt").await, GitError::NoDirectory { .. }));
}

#[tokio::test]
async fn names_that_are_not_text() {
    let lab = Lab::empty();
    let odd = lab.dir.join(std::ffi::OsStr::from_bytes(b"od\xffd\nname"));
    fs::create_dir(&odd).unwrap();
    lab.git(".", &["init", "-q", "-b", "main", "repo"]);
    fs::rename(lab.dir.join("repo"), odd.join("repo")).unwrap();
    let repo = discover(&odd.join("repo")).await.unwrap();
    assert_eq!(repo.root, odd.join("repo"));

    let before = snapshot(&repo).await.unwrap();
    fs::File::create(repo.root.join(std::ffi::OsStr::from_bytes(b"\xfe \n\t"))).unwrap();
    let after = snapshot(&repo).await.unwrap();
    assert_eq!((before.untracked, after.untracked), (0, 1));
    assert_ne!(before.fingerprint, after.fingerprint);
}

#[tokio::test]
async fn our_own_records_are_no_work() {
    let lab = Lab::committed();
    let repo = discover(&lab.dir.join("repo")).await.unwrap();
    let before = snapshot(&repo).await.unwrap();
    fs::create_dir_all(repo.root.join(".orchestrator/metrics")).unwrap();
    lab.put("repo/.orchestrator/metrics/sessions.jsonl", "{}\n");
    lab.put("repo/.claude/STATE.md", "---\nstatus: idle\n---\n");
    assert_eq!(snapshot(&repo).await.unwrap(), before);
    lab.put("repo/.claude/settings.json", "{}\n");
    assert_ne!(snapshot(&repo).await.unwrap(), before, "what else is in that folder is work");
}

#[tokio::test]
async fn paths_that_changed_since_a_commit() {
    let lab = Lab::committed();
    let repo = lab.repo().await;
    let from = snapshot(&repo).await.unwrap().head.unwrap().to_string();
    assert_eq!(changed_paths(&repo, &from).await.unwrap(), Some(Vec::new()));
    lab.put("repo/a b.rs", "x");
    lab.put("repo/ü.md", "x");
    lab.commit("two");
    let mut found = changed_paths(&repo, &from).await.unwrap().unwrap();
    found.sort();
    assert_eq!(found, ["a b.rs", "ü.md"]);
    for nothing in ["", "0123456789012345678901234567890123456789", "--output=x", "HEAD..main"] {
        assert_eq!(changed_paths(&repo, nothing).await.unwrap(), None, "{nothing}");
    }
}

#[tokio::test]
async fn the_dirty_state() {
    let lab = Lab::committed();
    lab.put("repo/.gitignore", "ignored\n");
    lab.commit("ignore");
    let repo = lab.repo().await;
    let clean = snapshot(&repo).await.unwrap();
    assert_eq!((clean.dirty, clean.untracked, clean.fingerprint, clean.cut), (0, 0, 0, false));
    assert_eq!(clean.head.as_ref().map(Oid::as_str), Some(lab.git("repo", &["rev-parse", "HEAD"]).as_str()));

    lab.put("repo/ignored", "x");
    assert_eq!(snapshot(&repo).await.unwrap(), clean);

    lab.put("repo/a.txt", "changed\n");
    lab.put("repo/new/one", "");
    lab.put("repo/new/two", "");
    let dirty = snapshot(&repo).await.unwrap();
    assert_eq!((dirty.dirty, dirty.untracked), (1, 2));
    assert_eq!(snapshot(&repo).await.unwrap(), dirty, "asking changes nothing");

    lab.put("repo/a.txt", "changed again, and longer\n");
    let edited = snapshot(&repo).await.unwrap();
    assert_eq!((edited.dirty, edited.untracked), (1, 2));
    assert_ne!(edited.fingerprint, dirty.fingerprint, "an edit of a file that is dirty already counts");

    let change = since(&repo, &dirty).await.unwrap();
    assert!(change.dirty_now() && change.dirty_changed && change.commits.is_empty() && !change.is_empty());
    assert!(since(&repo, &edited).await.unwrap().is_empty());
}

#[tokio::test]
async fn commits_since() {
    let lab = Lab::committed();
    let repo = lab.repo().await;
    let then = snapshot(&repo).await.unwrap();
    lab.put("repo/a.txt", "1\nzwei\n3\n4\n");
    lab.commit("second");
    lab.put("repo/b.txt", "x\n");
    lab.commit("third, with ünicode");
    let change = since(&repo, &then).await.unwrap();
    assert_eq!(subjects(&change), ["third, with ünicode", "second"]);
    assert_eq!(change.commits_total, 2);
    assert_eq!(change.commits[0].author_time, 1_700_000_000);
    assert_eq!(change.diff, Some(DiffStat { files: 2, insertions: 3, deletions: 1 }));
    assert!(!change.dirty_now() && !change.head_moved_backwards && !change.branch_switched);
    assert_eq!(Some(&change.commits[0].oid), change.now.head.as_ref());
}

#[tokio::test]
async fn the_list_is_bounded_and_the_total_is_not() {
    let lab = Lab::committed();
    let repo = lab.repo().await;
    let then = snapshot(&repo).await.unwrap();
    let head = then.head.clone().unwrap();
    let tree = lab.git("repo", &["rev-parse", "HEAD^{tree}"]);
    let mut stream = Vec::new();
    let many = COMMITS_LISTED + 20;
    for n in 1..=many {
        let from = if n == 1 { format!("from {head}\n") } else { String::new() };
        write!(
            stream,
            "commit refs/heads/main\nmark :{n}\ncommitter T <t@x> {n} +0000\ndata 3\nmsg\n{from}\n"
        )
        .unwrap();
    }
    lab.put("stream", std::str::from_utf8(&stream).unwrap());
    lab.git("repo", &["-c", "alias.load=!git fast-import --quiet < ../stream", "load"]);
    assert_eq!(lab.git("repo", &["rev-parse", "HEAD^{tree}"]), tree);
    let change = since(&repo, &then).await.unwrap();
    assert_eq!((change.commits.len(), change.commits_total), (COMMITS_LISTED, many as u64));
    assert_eq!(change.diff, Some(DiffStat::default()));
}

#[tokio::test]
async fn from_nothing_to_the_first_commit() {
    let lab = Lab::unborn();
    let repo = lab.repo().await;
    let then = snapshot(&repo).await.unwrap();
    assert_eq!((&then.head, then.branch.as_deref()), (&None, Some("main")));
    assert!(since(&repo, &then).await.unwrap().is_empty());

    lab.put("repo/a.txt", "1\n2\n");
    lab.commit("first");
    lab.commit("second");
    let change = since(&repo, &then).await.unwrap();
    assert_eq!(subjects(&change), ["second", "first"]);
    assert_eq!(change.diff, Some(DiffStat { files: 1, insertions: 2, deletions: 0 }));
    assert!(!change.head_moved_backwards && !change.branch_switched);
}

#[tokio::test]
async fn moved_heads_and_branches() {
    // What is done after the second commit: rewritten, switched, subjects of the new commits.
    type Case = (&'static str, &'static [&'static [&'static str]], bool, bool, &'static [&'static str]);
    let table: &[Case] = &[
        ("nothing", &[], false, false, &[]),
        ("reset", &[&["reset", "-q", "--hard", "HEAD~1"]], true, false, &[]),
        ("amend", &[&["commit", "-q", "--amend", "-m", "amended"]], true, false, &["amended"]),
        ("new branch", &[&["switch", "-q", "-c", "topic"]], false, true, &[]),
        (
            "commit on a new branch",
            &[&["switch", "-q", "-c", "topic"], &["commit", "-q", "--allow-empty", "-m", "new"]],
            false,
            true,
            &["new"],
        ),
        ("older branch, the old one stays", &[&["switch", "-q", "-c", "topic", "HEAD~1"]], false, true, &[]),
        (
            "older branch, the old one deleted",
            &[&["switch", "-q", "-c", "topic", "HEAD~1"], &["branch", "-q", "-D", "main"]],
            true,
            true,
            &[],
        ),
        ("detached in place", &[&["switch", "-q", "--detach"]], false, true, &[]),
        ("orphan", &[&["switch", "-q", "--orphan", "fresh"]], false, true, &[]),
        ("no commit any more", &[&["update-ref", "-d", "HEAD"]], true, false, &[]),
    ];
    for (name, steps, rewritten, switched, expected) in table {
        let lab = Lab::committed();
        lab.put("repo/a.txt", "2\n");
        lab.commit("second");
        let repo = lab.repo().await;
        let then = snapshot(&repo).await.unwrap();
        for step in *steps {
            lab.git("repo", step);
        }
        let change = since(&repo, &then).await.unwrap();
        assert_eq!((change.head_moved_backwards, change.branch_switched), (*rewritten, *switched), "{name}");
        assert_eq!(subjects(&change), *expected, "{name}");
    }
}

#[tokio::test]
async fn an_old_commit_that_is_gone() {
    let lab = Lab::committed();
    let repo = lab.repo().await;
    let gone = Oid::parse(&"ab".repeat(20));
    let then = Snapshot { head: gone, branch: Some("main".to_owned()), ..Snapshot::default() };
    let change = since(&repo, &then).await.unwrap();
    assert!(change.head_moved_backwards);
    assert_eq!((change.commits_total, change.diff), (0, None));
}

#[tokio::test]
async fn asking_changes_nothing_in_the_git_directory() {
    fn state(dir: &Path, out: &mut BTreeMap<PathBuf, (u64, i64, i64)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            out.insert(entry.path(), (meta.size(), meta.mtime(), meta.mtime_nsec()));
            if meta.is_dir() {
                state(&entry.path(), out);
            }
        }
    }
    let lab = Lab::committed();
    let repo = lab.repo().await;
    let then = snapshot(&repo).await.unwrap();
    lab.commit("second");
    // A rewritten file with the same content makes git want to refresh its index.
    lab.put("repo/a.txt", "1\n2\n3\n");
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    state(&repo.root, &mut before);
    discover(&repo.root).await.unwrap();
    snapshot(&repo).await.unwrap();
    since(&repo, &then).await.unwrap();
    since(&repo, &Snapshot::default()).await.unwrap();
    state(&repo.root, &mut after);
    assert_eq!(before, after);
}

#[test]
fn what_git_says_when_it_refuses() {
    let lab = Lab::committed();
    let dir = lab.dir.join("repo");
    // Git's own switch for testing this: it takes every repository for another user's.
    let output =
        lab.command("repo", &["rev-parse"]).env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let refusal =
        |said: &str| GitError::from_failure(&dir.join("sub"), "log", "exit status: 128".to_owned(), said);
    let expected = format!("git config --global --add safe.directory {}", dir.display());
    match refusal(&said) {
        GitError::DubiousOwnership { hint, .. } => assert_eq!(hint, expected),
        other => panic!("{other} from {said:?}"),
    }
    for (said, expected) in [
        ("warning: x\nfatal: bad\n\n", "git log failed in DIR (exit status: 128): fatal: bad"),
        ("", "git log failed in DIR (exit status: 128): no message"),
        (
            "fatal: not a git repository (or any of the parent directories): .git",
            "DIR is not in a git repository",
        ),
        (
            "fatal: detected dubious ownership in repository",
            "git refuses DIR: another user owns the repository; to allow it: git config --global --add safe.directory DIR",
        ),
    ] {
        let error = refusal(said).to_string();
        assert_eq!(error.replace(dir.join("sub").to_str().unwrap(), "DIR"), expected, "{said:?}");
    }
}

#[test]
fn shortstat() {
    for (text, files, insertions, deletions) in [
        (" 1 file changed, 1 insertion(+)\n", 1, 1, 0),
        (" 3 files changed, 10 insertions(+), 2 deletions(-)\n", 3, 10, 2),
        (" 2 files changed, 1 deletion(-)\n", 2, 0, 1),
        (" 1 file changed, 0 insertions(+), 0 deletions(-)\n", 1, 0, 0),
        ("", 0, 0, 0),
    ] {
        assert_eq!(parse_shortstat(text), DiffStat { files, insertions, deletions }, "{text:?}");
    }
}

#[tokio::test]
async fn remotes_are_listed_with_the_urls_that_git_would_use() {
    let lab = Lab::unborn();
    let repo = lab.repo().await;
    assert_eq!(remotes(&repo).await.unwrap(), []);
    lab.git("repo", &["remote", "add", "origin", "git@git.example.com:o/r.git"]);
    lab.git("repo", &["remote", "add", "backup", "/srv/with space (fetch)/r"]);
    lab.git("repo", &["remote", "set-url", "--push", "origin", "git@elsewhere.example.com:o/r.git"]);
    lab.git("repo", &["remote", "add", "short", "work:o/r"]);
    lab.git("repo", &["config", "url.https://git.example.com/.insteadOf", "work:"]);
    let expected = [
        ("backup", "/srv/with space (fetch)/r"),
        ("origin", "git@git.example.com:o/r.git"),
        ("short", "https://git.example.com/o/r"),
    ];
    let expected = expected.map(|(name, url)| (name.to_owned(), url.to_owned()));
    assert_eq!(remotes(&repo).await.unwrap(), expected);
}

#[tokio::test]
async fn the_branch_without_a_look_at_the_tree() {
    let lab = Lab::unborn();
    let repo = discover(&lab.dir.join("repo")).await.unwrap();
    assert_eq!(branch(&repo).await.unwrap().as_deref(), Some("main"));
    let lab = Lab::committed();
    let repo = discover(&lab.dir.join("repo")).await.unwrap();
    lab.git("repo", &["switch", "-q", "-c", "feature/ü"]);
    assert_eq!(branch(&repo).await.unwrap().as_deref(), Some("feature/ü"));
    lab.git("repo", &["switch", "-q", "--detach"]);
    assert_eq!(branch(&repo).await.unwrap(), None);
}

#[tokio::test]
async fn the_state_in_words() {
    let lab = Lab::unborn();
    let repo = discover(&lab.dir.join("repo")).await.unwrap();
    assert!(state_words(&repo).await.unwrap().contains("main"), "also without a commit");
    let lab = Lab::committed();
    for n in 0..40 {
        lab.put(&format!("repo/new-{n}.txt"), "x");
    }
    lab.put("repo/a.txt", "changed\n");
    let repo = discover(&lab.dir.join("repo")).await.unwrap();
    let words = state_words(&repo).await.unwrap();
    for part in ["## main", " M a.txt", "?? new-0.txt", "and 12 more", "Last commits:", "first"] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[tokio::test]
async fn what_may_be_removed_without_a_loss() {
    let lab = Lab::committed();
    lab.put("repo/.gitignore", "target\nmixed\nout*\n");
    lab.put("repo/target/debug/app", "built");
    lab.put("repo/mixed/kept", "tracked all the same");
    lab.put("repo/src/main.rs", "source");
    lab.git("repo", &["add", "--force", "mixed/kept"]);
    lab.commit("more");
    lab.put("elsewhere/file", "not ours");
    std::os::unix::fs::symlink(lab.dir.join("elsewhere"), lab.dir.join("repo/out")).unwrap();
    lab.git(".", &["init", "-q", "repo/target/nested"]);
    lab.put("repo/outer/built", "built");
    let root = lab.dir.join("repo");
    for (path, expected) in [
        ("target/debug", true),
        ("target", false), // a repository of its own is in it
        ("target/nested", false),
        ("mixed", false),
        ("src", false),
        ("src/main.rs", true), // one file
        ("outer", true),
        ("out", false), // a link that leads out
        ("out/x", false),
        ("out-that-is-not-there", true),
        ("not-there", false),
        ("../elsewhere", false),
        ("", false),
    ] {
        let path = root.join(path);
        let answers = removable(&root, std::slice::from_ref(&path)).await;
        assert_eq!(answers[&path], expected, "{}", path.display());
    }
}
