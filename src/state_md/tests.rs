use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;

use super::*;
use crate::core::mode::Mode;

fn now() -> Timestamp {
    "2026-11-03T01:17:00Z".parse().unwrap()
}

fn fixture(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/signals").join(name)).unwrap()
}

/// A repository with `.claude/STATE.md`.
fn repository(text: impl AsRef<[u8]>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), ".claude", text.as_ref());
    folder
}

fn put(root: &Path, dir: &str, bytes: &[u8]) {
    fs::create_dir_all(root.join(dir)).unwrap();
    crate::state::atomic::replace(&root.join(dir).join("STATE.md"), bytes, 0o644).unwrap();
}

fn text_of(root: &Path) -> String {
    fs::read_to_string(root.join(".claude/STATE.md")).unwrap()
}

fn look(text: impl AsRef<[u8]>) -> Reading {
    read(repository(text).path(), None, now())
}

fn hand_over() -> HandOver {
    HandOver {
        recommended_mode: Some(Mode::PlanRetro),
        top_priorities: Some(vec![7, 8, 9, 10, 11, 12]),
        carryover_ratio: Some(1.0 / 3.0),
        completion_rate: Some(0.5),
        rationale: Some("v0: completion <50% → retro".to_owned()),
        what_not_to_retry: vec!["The  second\nway".to_owned()],
        open_questions: vec!["Is \"this\" wanted?".to_owned()],
        session_type: Some("deep".to_owned()),
        branch: Some("feat/x".to_owned()),
    }
}

#[test]
fn a_state_of_upstream() {
    let text = fixture("STATE.md");
    let check = |text: &str| {
        let Reading { fields, extra, source } = look(text);
        assert_eq!(
            fields,
            StateFields {
                recommended_mode: Some("deep".to_owned()),
                top_priorities: Some(vec![131, 118, 140]),
                carryover_ratio: Some(0.33),
                completion_rate: Some(0.67),
                rationale: Some("v0: carryover ≥30% → deep".to_owned()),
            }
        );
        assert_eq!(
            (extra.status.as_deref(), extra.session_type.as_deref()),
            (Some("completed"), Some("feature"))
        );
        assert_eq!(
            extra.what_not_to_retry,
            [
                "Mocking the clock in `sync_test`: the library reads it before the mock is in place (two sessions lost)",
                "Bumping the parser to 4.x: its error type changed",
            ]
        );
        assert_eq!(
            extra.open_questions,
            ["Should exports keep the old column order?", "Who owns the staging database?",]
        );
        assert_eq!(
            (source.source.as_str(), source.origin.as_deref()),
            ("STATE.md", Some(".claude/STATE.md"))
        );
        assert_eq!(source.says, "deep, completion 0.67, carryover 0.33, 3 priorities");
        assert!(source.problems.is_empty() && source.age_seconds == extra.age_seconds, "{source:?}");
    };
    check(&text);
    check(&format!("\u{feff}{}", text.replace('\n', "\r\n")));
}

#[test]
fn each_field_of_the_wrong_type_alone() {
    let check = |line: &str, expected: StateFields, problem: Option<&str>| {
        let Reading { fields, source, .. } = look(format!("---\n{line}\n---\n"));
        assert_eq!(fields, expected, "{line}");
        assert_eq!(source.problems.first().map(String::as_str), problem, "{line}");
    };
    let none = StateFields::default;
    check("recommended-mode: 12", none(), Some("`recommended-mode` is not text: ignored"));
    check("recommended-mode: null", none(), None);
    check(
        "recommended-mode: nonsense",
        StateFields { recommended_mode: Some("nonsense".to_owned()), ..none() },
        None,
    );
    check("top-priorities: 7", none(), Some("`top-priorities` is not a list of whole numbers: ignored"));
    check("top-priorities: [1, x]", none(), Some("`top-priorities` is not a list of whole numbers: ignored"));
    check("top-priorities: [1.5]", none(), Some("`top-priorities` is not a list of whole numbers: ignored"));
    check("top-priorities: []", StateFields { top_priorities: Some(vec![]), ..none() }, None);
    check(
        "top-priorities:\n  - 1\n  - 2.0",
        StateFields { top_priorities: Some(vec![1, 2]), ..none() },
        None,
    );
    check("carryover-ratio: \"0.3\"", none(), Some("`carryover-ratio` is not a number: ignored"));
    check("carryover-ratio: .5", none(), Some("`carryover-ratio` is not a number: ignored"));
    check("completion-rate: 1", StateFields { completion_rate: Some(1.0), ..none() }, None);
    check("rationale: [a]", none(), Some("`rationale` is not text: ignored"));
    assert_eq!(look("---\nstatus: idle\n---\n").source.says, "no recommendation");
}

#[test]
fn bad_files_give_problems() {
    let broken = look(fixture("STATE-broken.md"));
    assert_eq!((broken.fields, broken.source.says.as_str()), (StateFields::default(), "front matter broken"));
    assert!(broken.source.problems[0].starts_with("line 5: the line is indented"), "{:?}", broken.source);
    assert_eq!(broken.extra.what_not_to_retry, ["Reverting the migration by hand"]);
    let open = look("---\nrecommended-mode: deep\n");
    assert!(open.fields.recommended_mode.is_none() && open.source.problems[0].contains("no closing"));
    let huge = look(format!("---\nrationale: \"{}\"\n---\n", "\\".repeat(6 << 20)));
    assert_eq!((huge.fields, huge.source.says.as_str()), (StateFields::default(), "not read"));
    assert!(huge.source.problems[0].contains("too large"), "{:?}", huge.source);
    let bytes = look(b"---\nrecommended-mode: deep\nrationale: \xff\n---\n");
    assert_eq!(bytes.fields.recommended_mode.as_deref(), Some("deep"));
    assert!(bytes.source.problems[0].contains("UTF-8"), "{:?}", bytes.source);
    assert_eq!(look("# Only a body\n").source.says, "no front matter");
    let empty = tempfile::tempdir().unwrap();
    let nothing = read(empty.path(), None, now());
    assert_eq!((nothing.source.says.as_str(), nothing.source.origin), ("not there", None));
}

#[test]
fn the_first_folder_that_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let origin = |dir: Option<&str>| read(root, dir.map(Path::new), now()).source.origin;
    assert_eq!(origin(None), None);
    for dir in [".pi", ".cursor", ".codex", ".claude"] {
        put(root, dir, b"");
        assert_eq!(origin(None), Some(format!("{dir}/STATE.md")));
    }
    put(root, "own", b"");
    assert_eq!(origin(Some("own")).as_deref(), Some("own/STATE.md"));
    assert_eq!(origin(Some("missing")).as_deref(), Some(".claude/STATE.md"));
    assert_eq!(origin(Some("")).as_deref(), Some(".claude/STATE.md"));
    assert_eq!(find(root, Some(&root.join("own"))), Some(root.join("own/STATE.md")));
}

#[test]
fn a_hand_over_changes_nothing_else() {
    for newline in ["\n", "\r\n"] {
        let old = fixture("STATE.md").replace('\n', newline);
        let repository = repository(&old);
        let path = write(repository.path(), None, &hand_over(), now()).unwrap();
        assert_eq!(path, repository.path().join(".claude/STATE.md"));
        let expected = fixture("STATE.md")
            .replace("updated: 2026-11-02T23:40:52.311Z", "updated: 2026-11-03T01:17:00.000Z")
            .replace("recommended-mode: deep", "recommended-mode: plan-retro")
            .replace("[131, 118, 140]", "[7, 8, 9, 10, 11]")
            .replace("completion-rate: 0.67", "completion-rate: 0.50")
            .replace("rationale: \"v0: carryover ≥30% → deep\"", "rationale: \"v0: completion <50% → retro\"")
            .replace("type changed\n", "type changed\n- The second way\n")
            .replace("database?\n", "database?\n- Is \"this\" wanted?\n")
            .replace('\n', newline);
        assert_eq!(text_of(repository.path()), expected);
        // What is not known any more is taken out.
        write(repository.path(), None, &HandOver::default(), now()).unwrap();
        let reading = read(repository.path(), None, now());
        assert_eq!((reading.fields, reading.source.problems.len()), (StateFields::default(), 0));
        assert!(text_of(repository.path()).contains("x-future: 'it''s ours'"));
    }
}

#[test]
fn made_new_where_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, None, &hand_over(), now()).unwrap();
    assert_eq!(
        text_of(root),
        "---\nschema-version: 1\nsession-type: deep\nbranch: feat/x\nissues: []\nstarted_at: 2026-11-03T01:17:00.000Z\n\
         status: completed\ncurrent-wave: 0\ntotal-waves: 0\nupdated: 2026-11-03T01:17:00.000Z\n\
         recommended-mode: plan-retro\ntop-priorities: [7, 8, 9, 10, 11]\ncarryover-ratio: 0.33\ncompletion-rate: 0.50\n\
         rationale: \"v0: completion <50% → retro\"\n---\n\n# Session State\n\n## What Not To Retry\n\n- The second way\n\n\
         ## Open Questions\n\n- Is \"this\" wanted?\n"
    );
    assert_eq!(fs::metadata(root.join(".claude/STATE.md")).unwrap().permissions().mode() & 0o777, 0o644);
    // A body without a front matter gets one, and stays as it is.
    let repository = repository("\u{feff}# Notes\r\n\r\n## Open Questions\r\n- Old\r\n");
    write(repository.path(), None, &HandOver { branch: None, ..hand_over() }, now()).unwrap();
    let text = text_of(repository.path());
    assert!(
        text.starts_with("\u{feff}---\r\nschema-version: 1\r\n") && text.contains("branch: null\r\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "\r\n---\r\n\r\n# Notes\r\n\r\n## Open Questions\r\n- Old\r\n- Is \"this\" wanted?\r\n"
        ),
        "{text}"
    );
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    assert!(read(repository.path(), None, now()).source.problems.is_empty());
    // In the folder that was named.
    write(root, Some(Path::new("own")), &hand_over(), now()).unwrap();
    assert!(!root.join("own").exists(), "there is one already, in `.claude`");
    let empty = tempfile::tempdir().unwrap();
    write(empty.path(), Some(Path::new("own")), &hand_over(), now()).unwrap();
    assert!(empty.path().join("own/STATE.md").is_file());
    let missing = empty.path().join("no/repository");
    assert!(matches!(write(&missing, None, &hand_over(), now()), Err(StateMdError::File(_))));
}

#[test]
fn what_cannot_be_read_is_not_written_over() {
    let check = |old: &[u8], says: &str| {
        let repository = repository(old);
        for result in [
            write(repository.path(), None, &hand_over(), now()).map(drop),
            idle_reset(repository.path(), None, now()).map(drop),
        ] {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("STATE.md"), "{error}");
        }
        assert_eq!(fs::read(repository.path().join(".claude/STATE.md")).unwrap(), old);
        assert_eq!(fs::read_dir(repository.path().join(".claude")).unwrap().count(), 1);
    };
    check(
        fixture("STATE-broken.md").as_bytes(),
        "line 5: the line is indented but belongs to no list: mend it",
    );
    check(b"---\nstatus: completed\n", "no closing `---`");
    check(b"---\nstatus: completed\n---\n\xff", "not UTF-8, from byte 26 on");
    check(&vec![b'x'; 6 << 20], "too large: 6291456 bytes");
}

#[test]
fn growth_is_bounded() {
    let filled = |size: usize| format!("---\nstatus: completed\n---\n{}\n", "x".repeat(size));
    let bullets: Vec<String> = (0..20).map(|number| format!("{number} {}", "ü".repeat(900))).collect();
    let many = HandOver { open_questions: bullets, ..hand_over() };
    let repository = repository(filled((256 << 10) - 200));
    let before = text_of(repository.path());
    let error = write(repository.path(), None, &many, now()).unwrap_err();
    assert!(matches!(error, StateMdError::TooLarge { limit: 262_144, .. }), "{error}");
    assert_eq!(text_of(repository.path()), before);
    // A small file may take a whole hand-over, and bullets are cut.
    put(repository.path(), ".claude", filled(0).as_bytes());
    write(repository.path(), None, &many, now()).unwrap();
    let reading = read(repository.path(), None, now());
    assert_eq!(reading.extra.open_questions.len(), 20);
    assert!(reading.extra.open_questions.iter().all(|says| says.chars().count() == 400));
}

#[test]
fn the_mode_of_the_file_and_a_link_stay() {
    let repository = repository("---\nstatus: idle\n---\n");
    let path = repository.path().join(".claude/STATE.md");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    write(repository.path(), None, &hand_over(), now()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    fs::rename(&path, repository.path().join("elsewhere.md")).unwrap();
    std::os::unix::fs::symlink("../elsewhere.md", &path).unwrap();
    write(repository.path(), None, &HandOver::default(), now()).unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert!(!text_of(repository.path()).contains("plan-retro"));
}

#[test]
fn an_idle_reset() {
    let repository = repository(fixture("STATE.md"));
    assert!(idle_reset(repository.path(), None, now()).unwrap());
    let text = text_of(repository.path());
    let expected = fixture("STATE.md")
        .replace("status: completed", "status: idle")
        .replace("current-wave: 3", "current-wave: 0")
        .replace(
            "recommended-mode: deep\ntop-priorities: [131, 118, 140]\ncarryover-ratio: 0.33\ncompletion-rate: 0.67\n\
             rationale: \"v0: carryover ≥30% → deep\"\n",
            "",
        )
        + "\n## Previous Recommendations\n\n- 2026-11-03T01:17:00.000Z: recommended-mode: deep; top-priorities: [131, 118, 140]; \
           carryover-ratio: 0.33; completion-rate: 0.67; rationale: \"v0: carryover ≥30% → deep\"\n";
    assert_eq!(text, expected);
    let reading = read(repository.path(), None, now());
    assert_eq!((reading.fields, reading.extra.what_not_to_retry.len()), (StateFields::default(), 2));
    // Once is enough, and what is not completed is left alone.
    assert!(!idle_reset(repository.path(), None, now()).unwrap());
    assert_eq!(text_of(repository.path()), expected);
    for other in ["", "# Body\n", "---\nstatus: active\n---\n", "---\nstatus: \"completed \"\n---\n"] {
        put(repository.path(), ".claude", other.as_bytes());
        assert!(!idle_reset(repository.path(), None, now()).unwrap(), "{other}");
        assert_eq!(text_of(repository.path()), other);
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(!idle_reset(empty.path(), None, now()).unwrap());
    // The archive does not grow for ever.
    put(repository.path(), ".claude", b"---\nstatus: idle\n---\n");
    for number in 0..9 {
        write(
            repository.path(),
            None,
            &HandOver { top_priorities: Some(vec![number]), ..hand_over() },
            now(),
        )
        .unwrap();
        let text = text_of(repository.path()).replace("status: idle", "status: completed");
        put(repository.path(), ".claude", text.as_bytes());
        assert!(idle_reset(repository.path(), None, now()).unwrap());
    }
    assert_eq!(text_of(repository.path()).matches("recommended-mode").count(), 5);
}

#[test]
fn repeated_keys_become_one() {
    let repository = repository("---\nrationale: one\nkept: 1\nrationale: two\n---\n");
    write(
        repository.path(),
        None,
        &HandOver { rationale: Some("x".to_owned()), ..HandOver::default() },
        now(),
    )
    .unwrap();
    assert_eq!(
        text_of(repository.path()),
        "---\nkept: 1\nrationale: x\nupdated: 2026-11-03T01:17:00.000Z\n---\n"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Fifty hand-overs in a row: the size is that of the first, quotes and backslashes do not breed.
    #[test]
    fn writing_again_does_not_grow(
        rationale in "[ \\\\\"':#a→\n-]{0,140}",
        bullet in "[ \\\\\"'a-c\\[\\]-]{0,20}",
        foreign in "(x-old: (\"[a\\\\\"]{0,6}\"|'[a']{0,5}'|[a-c\\\\\"]{0,6})\n){0,3}",
        newline in prop_oneof![Just("\n"), Just("\r\n")],
    ) {
        let old = format!("---\nstatus: idle\n{foreign}---\n\n{foreign}").replace('\n', newline);
        let repository = repository(&old);
        let hand_over = HandOver {
            rationale: Some(rationale),
            what_not_to_retry: vec![bullet.clone()],
            open_questions: vec![bullet],
            ..hand_over()
        };
        write(repository.path(), None, &hand_over, now()).unwrap();
        let first = text_of(repository.path());
        for line in foreign.lines() {
            prop_assert!(first.contains(line));
        }
        for _ in 0..49 {
            write(repository.path(), None, &hand_over, now()).unwrap();
        }
        prop_assert_eq!(text_of(repository.path()), first);
    }

    /// Any text: either it is refused and stays, or the hand-over is in it and the old lines are too.
    #[test]
    fn refused_or_all_there(old in "(---\n)?((a|status|updated):? ?[\\[\\]'\"x1,]{0,5}\r?\n|  - x\n|## Open Questions\n){0,6}(---\n)?(- a|## N|x){0,2}") {
        let repository = repository(&old);
        if write(repository.path(), None, &hand_over(), now()).is_err() {
            prop_assert_eq!(text_of(repository.path()), old);
            return Ok(());
        }
        let reading = read(repository.path(), None, now());
        prop_assert_eq!(reading.fields.recommended_mode.as_deref(), Some("plan-retro"));
        prop_assert_eq!(reading.extra.open_questions.last().map(String::as_str), Some("Is \"this\" wanted?"));
        let text = text_of(repository.path());
        let mut in_updated = false;
        for line in old.lines() {
            // The key we set, with the list that was its value.
            in_updated = line.starts_with("updated") || (in_updated && line == "  - x");
            if in_updated {
                continue;
            }
            prop_assert!(text.contains(line), "{} is gone from {}", line, text);
        }
    }
}
