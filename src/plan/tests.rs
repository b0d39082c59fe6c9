use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::core::task::Priority;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A person writes: neither atomic nor careful.
fn write(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    use std::io::Write as _;
    fs::File::create(path).unwrap().write_all(text.as_ref()).unwrap();
}

struct Repo {
    folder: tempfile::TempDir,
}

impl Repo {
    fn new(files: &[(&str, &str)]) -> Repo {
        let repo = Repo { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(repo.root().join(".project")).unwrap();
        fs::create_dir_all(repo.ledger().parent().unwrap()).unwrap();
        for (name, text) in files {
            repo.write(name, text);
        }
        repo
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn ledger(&self) -> PathBuf {
        self.root().join(".orchestrator/autopilot/tasks.json")
    }

    fn write(&self, name: &str, text: &str) {
        write(self.root().join(".project").join(name), text);
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(".project").join(name)).unwrap()
    }

    fn load(&self) -> Tasks {
        load(self.root(), &self.ledger(), NOW)
    }

    fn take(&self) -> Taken {
        take_inbox(self.root(), &self.ledger(), NOW).unwrap()
    }

    fn settle(&self, given: &[&str], claims: &[&str]) -> Settled {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        settle(self.root(), &self.ledger(), &owned(given), &owned(claims), "session-1")
    }
}

fn id<'a>(tasks: &'a Tasks, title: &str) -> &'a str {
    &tasks.open.iter().find(|task| task.title == title).unwrap().id
}

#[test]
fn loads_tasks_of_all_files_and_says_what_it_read() {
    let repo = Repo::new(&[
        (
            "plan.md",
            "# P\n- [ ] a (high)\n  text\n- [x] b\n- [ ] c\n  - [ ] c1\n\n[more](more.md)\n\n## Follow-up\n- [ ] f\n",
        ),
        ("more.md", "- [ ] d\n"),
        ("inbox.md", "<!-- x -->\n- [ ] i\n- [ ] c1\n"),
    ]);
    let tasks = repo.load();
    let told: Vec<_> = tasks.open.iter().map(|task| (task.title.as_str(), task.source, task.line)).collect();
    assert_eq!(
        told,
        [
            ("a (high)", TaskSource::Plan, 2),
            ("c1", TaskSource::Plan, 6),
            ("f", TaskSource::FollowUp, 11),
            ("d", TaskSource::Plan, 1),
            ("i", TaskSource::Inbox, 2),
        ]
    );
    let first = &tasks.open[0];
    assert_eq!((first.priority, first.description.as_deref()), (Priority::High, Some("text")));
    assert_eq!((first.file.as_str(), first.phase.as_slice()), (".project/plan.md", &["P".to_owned()][..]));
    assert_eq!((tasks.done, tasks.exists), (1, true));
    let says: Vec<_> =
        tasks.readings.iter().map(|reading| (reading.source.as_str(), reading.says.as_str())).collect();
    assert_eq!(says, [("plan.md", "4 open of 5"), ("more.md", "1 open of 1"), ("inbox.md", "2 items")]);
    assert!(tasks.readings.iter().all(|reading| reading.problems.is_empty()));
}

#[test]
fn without_files_there_is_no_source() {
    let repo = Repo::new(&[]);
    let tasks = repo.load();
    assert!(!tasks.exists && tasks.open.is_empty() && tasks.readings.len() == 2);
    repo.write("inbox.md", "");
    assert!(repo.load().exists);
    fs::remove_file(repo.root().join(".project/inbox.md")).unwrap();
    fs::create_dir(repo.root().join(".project/plan.md")).unwrap();
    let tasks = repo.load();
    assert!(!tasks.exists && tasks.readings[0].problems.len() == 1, "what cannot be read is not empty");
    assert!(take_inbox(repo.root(), &repo.ledger(), NOW).is_ok());
    assert!(add_follow_ups(repo.root(), &repo.ledger(), NOW, &["x".to_owned()]).is_err());
}

#[test]
fn a_look_changes_nothing_and_gives_the_same_ids() {
    let repo = Repo::new(&[("plan.md", "- [ ] a\n- [ ] a\n"), ("inbox.md", "- [ ] i\n")]);
    let seen = look(repo.root(), &repo.ledger(), NOW);
    assert!(!repo.ledger().exists());
    assert_eq!(repo.load().open, seen.open);
    write(repo.ledger(), "{");
    assert_eq!(look(repo.root(), &repo.ledger(), NOW).open, seen.open);
    assert_eq!(fs::read_to_string(repo.ledger()).unwrap(), "{");
    let tasks = repo.load();
    assert_eq!(tasks.open, seen.open);
    assert!(tasks.readings[0].problems[0].contains("damaged"));
}

#[test]
fn an_item_keeps_its_id_from_the_inbox_to_the_plan() {
    let repo = Repo::new(&[("inbox.md", "# Inbox\n\n- [ ] Fix it\n## Add login\nUse OAuth\n")]);
    let before = repo.load();
    let taken = repo.take();
    assert_eq!(taken.added, ["Fix it", "Add login"]);
    assert_eq!(repo.read("inbox.md"), "# Inbox\n\n");
    assert_eq!(repo.read("plan.md"), "## Inbox\n\n- [ ] Fix it\n- [ ] Add login\n  Use OAuth\n");
    let after = repo.load();
    let ids = |tasks: &Tasks| tasks.open.iter().map(|task| task.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&before), ids(&after));
    assert!(after.open.iter().all(|task| task.source == TaskSource::Plan));
    let archive = fs::read_to_string(repo.ledger().with_file_name("inbox-archive.md")).unwrap();
    assert_eq!(archive, "- [ ] Fix it\n## Add login\nUse OAuth\n");
    assert_eq!(repo.take(), Taken::default());
}

#[test]
fn a_session_is_settled() {
    let repo = Repo::new(&[(
        "plan.md",
        "- [ ] Write the parser\n- [ ] Write the ledger\n- [ ] Ship the release\n- [ ] Tell everybody\n- [ ] other work\n",
    )]);
    let tasks = repo.load();
    let ids: Vec<String> = tasks.open.iter().map(|task| task.id.clone()).collect();
    given(&repo.ledger(), &ids[..4]).unwrap();
    // The session ticks one, removes one, and says what it did.
    repo.write(
        "plan.md",
        "- [x] Write the parser\n- [ ] Write the ledger\n- [ ] Ship the release\n- [ ] other work\n- [ ] Ship it\n",
    );
    let given: Vec<&str> = ids[..4].iter().map(String::as_str).collect();
    let settled = repo.settle(
        &given,
        &["write the ledgers", &ids[4].to_uppercase(), "Ship", "zzzzzz", "", "write the parser"],
    );
    assert_eq!(settled.ticked_by_session, [ids[0].clone()]);
    assert_eq!(settled.ticked_by_us, [ids[1].clone(), ids[4].clone()]);
    assert_eq!(settled.still_open, [ids[2].clone()]);
    assert_eq!(settled.gone, [ids[3].clone()]);
    assert_eq!(settled.unknown_claims, ["Ship", "zzzzzz", ""]);
    assert!(settled.problems.is_empty(), "{settled:?}");
    assert_eq!(
        repo.read("plan.md"),
        "- [x] Write the parser\n- [x] Write the ledger\n- [ ] Ship the release\n- [x] other work\n- [ ] Ship it\n"
    );
    let tasks = repo.load();
    let carried: Vec<(&str, u32)> =
        tasks.open.iter().map(|task| (task.title.as_str(), task.carried)).collect();
    assert_eq!(carried, [("Ship the release", 1), ("Ship it", 0)]);
    repo.settle(&[&ids[2]], &[]);
    assert_eq!(repo.load().open[0].carried, 2);
    let (ledger, _) = Ledger::read(&repo.ledger(), false);
    let entry = |id: &str| ledger.tasks.iter().find(|entry| entry.id == id).unwrap();
    assert_eq!(entry(&ids[1]).done_by.as_deref(), Some("session-1"));
    assert_eq!((entry(&ids[0]).given, entry(&ids[4]).given, entry(&ids[2]).carried), (1, 0, 2));
}

#[test]
fn claims_name_a_task_in_several_ways() {
    let check = |claim: &str, expected: &str| {
        let repo = Repo::new(&[(
            "plan.md",
            "- [ ] one thing to do\n- [ ] two\n  - [ ] part\n- [ ] **Three** things.\n",
        )]);
        let tasks = repo.load();
        let one = id(&tasks, "one thing to do").to_owned();
        let claim = claim.replace("ID", &one);
        repo.settle(&[&one], &[&claim]);
        let ticked: Vec<String> = repo
            .read("plan.md")
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- [x] ").map(str::to_owned))
            .collect();
        assert_eq!(ticked.join(","), expected, "{claim}");
    };
    check("ID", "one thing to do");
    check("[ID]", "one thing to do");
    check("ID: anything at all", "one thing to do");
    check("One thing to do.", "one thing to do");
    check("one thing to do!!", "one thing to do");
    check("one thing too", "one thing to do");
    check("three things", "**Three** things.");
    check("thre things", "");
    check("two", "");
    check("part", "part");
    check("nothing of the kind", "");
}

#[test]
fn follow_ups_are_added_once() {
    let repo = Repo::new(&[]);
    let add = |titles: &[&str]| {
        let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
        add_follow_ups(repo.root(), &repo.ledger(), NOW, &titles).unwrap()
    };
    assert!(add(&[]).is_empty());
    assert!(!repo.root().join(".project/plan.md").exists());
    assert_eq!(add(&["Verify & Polish: a", "Verify & Polish: a", "", "two\nlines"]).len(), 2);
    assert!(add(&["verify & polish: A"]).is_empty());
    assert_eq!(repo.read("plan.md"), "## Follow-up\n\n- [ ] Verify & Polish: a\n- [ ] two lines\n");
}

#[test]
fn a_save_that_went_past_the_file_is_put_back() {
    use std::io::{Seek as _, SeekFrom, Write as _};
    let repo = Repo::new(&[("plan.md", "- [ ] a\n")]);
    let path = repo.root().join(".project/plan.md");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let tasks = repo.load();
    // An editor has the file open, and writes after our edit.
    let mut editor = fs::OpenOptions::new().write(true).open(&path).unwrap();
    repo.settle(&[id(&tasks, "a")], &["a"]);
    assert_eq!(repo.read("plan.md"), "- [x] a\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    editor.set_len(0).unwrap();
    editor.seek(SeekFrom::Start(0)).unwrap();
    editor.write_all(b"- [ ] a\n- [ ] by a person\n").unwrap();
    drop(editor);
    let tasks = repo.load();
    assert_eq!(repo.read("plan.md"), "- [ ] a\n- [ ] by a person\n");
    assert_eq!(tasks.open.len(), 2);
    assert!(tasks.readings[0].problems.is_empty(), "{tasks:?}");
    // What is accounted for goes in the end.
    let later = Timestamp::MAX;
    drop(load(repo.root(), &repo.ledger(), later));
    assert_eq!(fs::read_dir(repo.ledger().with_file_name("kept")).unwrap().count(), 0);
}

#[test]
fn a_save_that_can_not_be_put_back_is_set_aside() {
    use std::io::Write as _;
    let repo = Repo::new(&[("plan.md", "- [ ] a\n")]);
    let path = repo.root().join(".project/plan.md");
    let tasks = repo.load();
    let mut editor = fs::OpenOptions::new().append(true).open(&path).unwrap();
    repo.settle(&[id(&tasks, "a")], &["a"]);
    editor.write_all(b"- [ ] late\n").unwrap();
    repo.write("plan.md", "- [ ] newer\n");
    let tasks = repo.load();
    assert_eq!(repo.read("plan.md"), "- [ ] newer\n");
    let problem = tasks.readings[0].problems.join("\n");
    assert!(problem.contains("set aside") && problem.contains("rescued-"), "{problem}");
    let rescued = problem.rsplit_once(": ").unwrap().1;
    assert_eq!(fs::read_to_string(rescued).unwrap(), "- [ ] a\n- [ ] late\n");
    assert!(repo.load().readings[0].problems.is_empty());
}
