//! With shell scripts in the place of `gh` and `glab`. Nothing here reaches a network.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use crate::core::signals::Issue;
use crate::process::{ProcessId, is_alive};

use super::*;

const ISSUES: &str = r#"[{"number": 7, "title": "Do it", "updatedAt": "2026-03-31T10:00:00Z",
    "labels": [{"name": "priority:high"}, {"name": "autopilot"}]}]"#;
const RUNS: &str = r#"[{"status": "completed", "conclusion": "failure", "workflowName": "test",
    "createdAt": "2026-03-31T10:00:00Z"}]"#;

/// A folder with a program, and a query to it.
struct Lab {
    folder: tempfile::TempDir,
    query: ForgeQuery,
}

impl Lab {
    /// `script` finds the command in `$1`: `issue`, `run` or `ci`. Each call leaves a line in `calls`.
    fn new(kind: ForgeKind, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let spec = match kind {
            ForgeKind::GitHub => "github.example.com/o/r",
            ForgeKind::GitLab => "https://gitlab.example.com/g/r",
        };
        let forge = Forge { kind, host: None, spec: Some(spec.into()), remote: "origin".into() };
        let now = "2026-03-31T12:00:00Z".parse().unwrap();
        let mut query = ForgeQuery::new(folder.path(), forge, now);
        query.program = folder.path().join(kind.program());
        query.branch = Some("main".into());
        query.label = Some("autopilot".into());
        query.timeout = Duration::from_mins(1);
        let lab = Lab { folder, query };
        lab.script(script);
        lab
    }

    fn github(issues: &str, runs: &str) -> Self {
        Lab::new(ForgeKind::GitHub, &format!("case $1 in issue) {issues};; run) {runs};; esac"))
    }

    fn script(&self, script: &str) {
        let text = format!("#!/bin/sh\necho \"$*\" >> calls\n{script}\n");
        // A new file: the old one may still be running.
        fs::remove_file(&self.query.program).ok();
        let mut file = File::create(&self.query.program).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.set_permissions(Permissions::from_mode(0o755)).unwrap();
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("forge.json")
    }

    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        let mut calls: Vec<String> = text.lines().map(str::to_owned).collect();
        calls.sort();
        calls
    }

    async fn read(&self) -> Readings {
        read(&self.query, &self.cache()).await
    }

    fn wait(&mut self, seconds: i64) {
        self.query.now += jiff::SignedDuration::from_secs(seconds);
    }
}

fn echo(text: &str) -> String {
    format!("cat <<'EOF'\n{text}\nEOF\n")
}

fn problem(reading: &SourceReading) -> &str {
    reading.problems.first().map_or("", String::as_str)
}

#[tokio::test]
async fn a_good_answer_of_gh() {
    let lab = Lab::github(&echo(ISSUES), &echo(RUNS));
    let (backlog, ci, sources) = lab.read().await;
    let labels = vec!["priority:high".into(), "autopilot".into()];
    let tasks = vec![Issue { number: 7, title: "Do it".into(), labels }];
    let expected = Backlog { forge: "github".into(), total: 1, high: 1, tasks, ..Backlog::default() };
    assert_eq!((backlog, ci), (Some(expected), Some(CiStatus::Red)));
    let shown: Vec<_> =
        sources.iter().map(|source| (source.source.as_str(), source.origin.as_deref().unwrap())).collect();
    assert_eq!(
        shown,
        [
            ("backlog", "gh issue list -R github.example.com/o/r"),
            ("ci", "gh run list -R github.example.com/o/r")
        ]
    );
    assert_eq!(sources[0].says, "1 open, 0 critical, 1 high, 0 stale, 1 with the label `autopilot`");
    assert_eq!(sources[1].says, "red: test");
    assert!(sources.iter().all(|source| source.problems.is_empty() && source.age_seconds == Some(0)));
    assert_eq!(
        lab.calls(),
        [
            "issue list --limit=100 --state=open --json=number,title,labels,updatedAt -R github.example.com/o/r",
            "run list --branch=main --limit=10 --json=status,conclusion,headSha,workflowName,createdAt \
             -R github.example.com/o/r",
        ]
    );
}

#[tokio::test]
async fn a_good_answer_of_glab() {
    let issues = r#"[{"id": 1, "iid": 2, "title": "T", "labels": ["priority::critical"],
        "updated_at": "2026-01-01T00:00:00.000Z"}]"#;
    let runs = r#"[{"id": 5, "status": "success", "ref": "main"}]"#;
    let script = format!("case $1 in issue) {};; ci) {};; esac", echo(issues), echo(runs));
    let lab = Lab::new(ForgeKind::GitLab, &script);
    let (backlog, ci, _) = lab.read().await;
    let expected = Backlog { forge: "gitlab".into(), total: 1, critical: 1, stale: 1, ..Backlog::default() };
    assert_eq!((backlog, ci), (Some(expected), Some(CiStatus::Green)));
    assert_eq!(
        lab.calls(),
        [
            "ci list --ref=main --per-page=10 --output=json -R https://gitlab.example.com/g/r",
            "issue list --per-page=100 --output=json -R https://gitlab.example.com/g/r",
        ]
    );
}

#[tokio::test]
async fn the_program_is_told_to_be_quiet_and_has_no_input() {
    let told = "[ \"$GH_PROMPT_DISABLED$GH_NO_UPDATE_NOTIFIER$NO_COLOR$GLAB_CHECK_UPDATE\" = 111false ] \
                && [ -z \"$(cat)\" ] && echo '[]'";
    let lab = Lab::github(told, told);
    let (backlog, ci, sources) = lab.read().await;
    assert_eq!((backlog.map(|backlog| backlog.total), ci), (Some(0), None), "{sources:?}");
    assert_eq!(sources[1].says, "no runs on this branch");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_no_problem() {
    let mut lab = Lab::github("", "");
    lab.query.program = lab.folder.path().join("elsewhere/gh");
    let (backlog, ci, sources) = lab.read().await;
    assert_eq!((backlog, ci), (None, None));
    for source in &sources {
        assert_eq!((source.says.as_str(), &source.origin), ("gh is not installed", &None));
        assert_eq!(source.problems, [""; 0]);
    }
    assert_eq!(sources.len(), 2);
    // It may be installed any moment.
    assert!(!lab.cache().exists());
}

#[tokio::test]
async fn a_failure_says_why_and_leaves_the_other_answer_alone() {
    let lab = Lab::github("echo 'HTTP 401: Bad credentials' >&2; exit 4", &echo(RUNS));
    let (backlog, ci, sources) = lab.read().await;
    assert_eq!((backlog, ci), (None, Some(CiStatus::Red)));
    assert_eq!(
        problem(&sources[0]),
        "`gh issue list -R github.example.com/o/r` failed with exit code 4: HTTP 401: Bad credentials"
    );
    assert_eq!(sources[0].says, "the backlog is not known");

    let lab = Lab::github(&echo(ISSUES), "echo '[]'; exit 1");
    let (backlog, ci, sources) = lab.read().await;
    // An answer of a command that failed is none.
    assert_eq!((backlog.map(|backlog| backlog.total), ci), (Some(1), Some(CiStatus::Unknown)));
    assert!(problem(&sources[1]).ends_with("failed with exit code 1"), "{sources:?}");

    let lab = Lab::github("kill -9 $$", &echo(RUNS));
    assert!(problem(&lab.read().await.2[0]).ends_with("failed with signal 9 (SIGKILL)"));

    // Not a program at all.
    let lab = Lab::github("", "");
    File::create(&lab.query.program).unwrap().write_all(b"\0\0\0\0").unwrap();
    let (backlog, ci, sources) = lab.read().await;
    assert_eq!((backlog, ci), (None, Some(CiStatus::Unknown)));
    assert!(problem(&sources[0]).contains("cannot be started"), "{sources:?}");
}

#[tokio::test]
async fn garbage_is_no_answer() {
    for garbage in ["echo 'Welcome!'", "echo '{}'", "true", "printf '\\377\\376'", "echo '[{\"number\": 1'"] {
        let (backlog, ci, sources) = Lab::github(garbage, garbage).read().await;
        assert_eq!((backlog, ci), (None, Some(CiStatus::Unknown)), "{garbage}");
        for source in sources {
            assert!(problem(&source).contains("its answer is no list"), "{garbage}: {source:?}");
        }
    }
}

#[tokio::test]
async fn a_huge_answer_is_cut_off() {
    let huge = "head -c 30000000 /dev/zero | tr '\\0' '['";
    let (backlog, ci, sources) = Lab::github(huge, &echo(RUNS)).read().await;
    assert_eq!((backlog, ci), (None, Some(CiStatus::Red)));
    assert!(problem(&sources[0]).ends_with("answered more than 16 MiB"), "{sources:?}");
    // Much on standard error hurts nothing.
    let chatty = format!("head -c 30000000 /dev/zero >&2\n{}", echo(RUNS));
    let (_, ci, sources) = Lab::github(&echo(ISSUES), &chatty).read().await;
    assert_eq!((ci, problem(&sources[1])), (Some(CiStatus::Red), ""));
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_with_all_its_children() {
    let hang = "sleep 300 & echo $$ $! > $1.pids; sleep 301";
    let mut lab = Lab::github(hang, hang);
    // Long enough for a loaded machine to get as far as the second `sleep`.
    lab.query.timeout = Duration::from_millis(1500);
    let (backlog, ci, sources) = lab.read().await;
    assert_eq!((backlog, ci), (None, Some(CiStatus::Unknown)));
    for source in &sources {
        assert!(problem(source).ends_with("did not answer within 1.5 s and was ended"), "{source:?}");
    }
    for command in ["issue", "run"] {
        let pids = fs::read_to_string(lab.folder.path().join(format!("{command}.pids"))).unwrap();
        let pids: Vec<u32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 2);
        for pid in pids {
            assert!(ProcessId::of(pid).is_none_or(|id| !is_alive(&id)), "{command}: {pid} lives");
        }
    }
}

#[tokio::test]
async fn both_commands_run_at_the_same_time() {
    // Each waits for the other one: in sequence, the first would run out of time.
    let meet = |own: &str, other: &str| {
        format!("touch {own}.here; while ! [ -e {other}.here ]; do sleep 0.01; done; echo '[]'")
    };
    let (backlog, ci, sources) = Lab::github(&meet("a", "b"), &meet("b", "a")).read().await;
    assert_eq!((backlog.map(|backlog| backlog.total), ci), (Some(0), None), "{sources:?}");
}

#[tokio::test]
async fn answers_are_kept_for_ten_minutes() {
    let mut lab = Lab::github(&echo(ISSUES), &echo(RUNS));
    let first = lab.read().await;
    lab.script("exit 1");
    lab.wait(599);
    let mut second = lab.read().await;
    assert_eq!(lab.calls().len(), 2);
    assert!(second.2.iter().all(|source| source.age_seconds == Some(599)));
    second.2.iter_mut().for_each(|source| source.age_seconds = Some(0));
    assert_eq!(first, second);
    lab.wait(1);
    assert_eq!(lab.read().await.0, None);
    assert_eq!(lab.calls().len(), 4);
}

#[tokio::test]
async fn a_failure_is_kept_for_a_minute() {
    let mut lab = Lab::github("exit 1", &echo(RUNS));
    lab.read().await;
    lab.script(&format!("case $1 in issue) {};; run) exit 1;; esac", echo(ISSUES)));
    lab.wait(59);
    let (backlog, _, sources) = lab.read().await;
    assert_eq!((backlog, sources[0].age_seconds), (None, Some(59)));
    assert!(problem(&sources[0]).contains("failed with"));
    assert_eq!(lab.calls().len(), 2);
    lab.wait(1);
    // Only what is no longer fresh is asked again.
    let (backlog, ci, _) = lab.read().await;
    assert_eq!((backlog.map(|backlog| backlog.total), ci), (Some(1), Some(CiStatus::Red)));
    assert_eq!(lab.calls().len(), 3);
}

#[tokio::test]
async fn another_question_has_another_answer() {
    let mut lab = Lab::github(&echo(ISSUES), &echo(RUNS));
    lab.read().await;
    let asked = async |lab: &Lab| {
        let before = lab.calls().len();
        lab.read().await;
        lab.calls().len() - before
    };
    assert_eq!(asked(&lab).await, 0);
    lab.query.branch = Some("other".into());
    assert_eq!(asked(&lab).await, 1);
    lab.query.label = None;
    assert_eq!(asked(&lab).await, 1);
    lab.query.forge.spec = Some("github.example.com/o/r2".into());
    assert_eq!(asked(&lab).await, 2);
    assert_eq!(asked(&lab).await, 0);
    lab.wait(-1);
    assert_eq!(asked(&lab).await, 2, "an answer from the future");
    File::create(lab.cache()).unwrap().write_all(b"{\"version\": 1, ").unwrap();
    assert_eq!(asked(&lab).await, 2, "a damaged file");
}

#[tokio::test]
async fn without_a_branch_ci_is_not_asked_about() {
    let mut lab = Lab::github(&echo(ISSUES), &echo(RUNS));
    lab.query.branch = None;
    let (backlog, ci, sources) = lab.read().await;
    assert_eq!((backlog.is_some(), ci, sources[1].says.as_str()), (true, None, "not on a branch"));
    lab.read().await;
    assert_eq!(lab.calls().len(), 1);
}

#[tokio::test]
async fn a_branch_is_never_an_option() {
    let mut lab = Lab::github(&echo(ISSUES), &echo(RUNS));
    lab.query.branch = Some("--web".into());
    lab.query.forge.spec = None;
    lab.read().await;
    assert!(lab.calls()[1].starts_with("run list --branch=--web --limit"), "{:?}", lab.calls());
    assert!(lab.calls().iter().all(|call| !call.contains("-R")));
}

#[tokio::test]
async fn the_cache_alone_starts_nothing() {
    let lab = Lab::github(&echo(ISSUES), &echo(RUNS));
    let (backlog, ci, sources) = read_cached_only(&lab.query, &lab.cache());
    assert_eq!((backlog, ci, lab.calls().len()), (None, None, 0));
    assert!(sources.iter().all(|source| source.says == "not asked"));
    let asked = lab.read().await;
    assert_eq!(read_cached_only(&lab.query, &lab.cache()), asked);
    assert_eq!(lab.calls().len(), 2);
}

#[tokio::test]
async fn a_full_window_is_said() {
    let lab = Lab::github(&echo(&format!("[{}]", vec!["{}"; 100].join(","))), &echo(RUNS));
    let (backlog, _, sources) = lab.read().await;
    assert!(backlog.unwrap().truncated);
    assert_eq!(problem(&sources[0]), "only the newest 100 issues were looked at");
}
