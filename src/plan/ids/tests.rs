use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A person writes: neither atomic nor careful.
fn write(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    use std::io::Write as _;
    fs::File::create(path).unwrap().write_all(text.as_ref()).unwrap();
}

/// Takes in titles of one file, `#` begins a phase, `@` a file; the ids in order.
fn ids(ledger: &mut Ledger, lines: &[&str]) -> Vec<String> {
    let (mut file, mut phase) = ("plan.md".to_owned(), Vec::new());
    let mut owned = Vec::new();
    for line in lines {
        match (line.strip_prefix('#'), line.strip_prefix('@')) {
            (Some(heading), _) => phase = vec![heading.to_owned()],
            (_, Some(name)) => file = name.to_owned(),
            _ => owned.push((file.clone(), phase.clone(), (*line).to_owned())),
        }
    }
    let seen: Vec<Seen<'_>> = owned.iter().map(|(file, phase, title)| Seen { title, file, phase }).collect();
    let indices = ledger.take_in(&seen, NOW);
    indices.iter().map(|index| ledger.tasks[*index].id.clone()).collect()
}

#[test]
fn an_id_follows_its_task() {
    // Of each line after: which line before it is, `None` = a new task.
    let check = |before: &[&str], after: &[&str], expected: &[Option<usize>]| {
        let mut ledger = Ledger::default();
        let old = ids(&mut ledger, before);
        let new = ids(&mut ledger, after);
        let found: Vec<Option<usize>> = new.iter().map(|id| old.iter().position(|old| old == id)).collect();
        assert_eq!(found, expected, "{before:?} -> {after:?}");
    };
    check(&["a", "b"], &["a", "b"], &[Some(0), Some(1)]);
    check(&["a", "b"], &["b", "a"], &[Some(1), Some(0)]);
    check(&["a", "b"], &["b"], &[Some(1)]);
    check(&["a", "b"], &["new", "a", "b"], &[None, Some(0), Some(1)]);
    check(&["a", "a", "b"], &["b", "a", "a"], &[Some(2), Some(0), Some(1)]);
    check(&["#A", "t", "#B", "t"], &["#B", "t", "#A", "t"], &[Some(1), Some(0)]);
    check(&["#A", "t"], &["#B", "t"], &[Some(0)]);
    check(&["@x", "t"], &["@y", "t"], &[Some(0)]);
    check(&["@x", "t", "@y", "t"], &["@y", "t", "@x", "t"], &[Some(1), Some(0)]);
    check(&["Write the parser", "Ship"], &["Ship", "Write the parsers"], &[Some(1), Some(0)]);
    check(&["#A", "Write the parser"], &["#B", "Write the parsers"], &[None]);
    check(&["a", "old words", "c"], &["a", "entirely different", "c"], &[Some(0), Some(1), Some(2)]);
    check(&["a", "old words"], &["a", "entirely different"], &[Some(0), Some(1)]);
    check(&["old words"], &["entirely different"], &[None]);
    check(&["a", "x", "y", "c"], &["a", "entirely", "different", "c"], &[Some(0), None, None, Some(3)]);
    check(&["Add test one", "Add test two"], &["Add test two", "Add test one!"], &[Some(1), Some(0)]);
    check(&["a"], &[], &[]);
}

#[test]
fn what_comes_back_is_known_and_what_resembles_it_is_not() {
    let mut ledger = Ledger::default();
    let old = ids(&mut ledger, &["Write the parser", "b"]);
    assert_eq!(ids(&mut ledger, &["b"]), old[1..]);
    assert!(!old.contains(&ids(&mut ledger, &["b", "x", "Write the parsers"])[2]));
    assert_eq!(ids(&mut ledger, &["b", "Write the parser"])[1], old[0]);
    // Only so many are remembered, the newest.
    let many: Vec<String> = (0..2000).map(|n| format!("task number {n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let before = ids(&mut ledger, &many);
    ids(&mut ledger, &["b"]);
    assert_eq!(ledger.tasks.len(), MAX_GONE + 1);
    assert_eq!(ids(&mut ledger, &["b", many[1999]])[1], before[1999]);
}

#[test]
fn the_ledger_survives_what_happens_to_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.json");
    let mut ledger = Ledger::default();
    let old = ids(&mut ledger, &["a", "b", "b"]);
    ledger.tasks[1].carried = 2;
    ledger.write(&path).unwrap();
    assert_eq!(Ledger::read(&path, true).0.tasks, ledger.tasks);

    for damage in ["", "{", "[]", "null", "{\"version\":1,\"tasks\":7}", "\u{0}"] {
        write(&path, damage);
        let (_, problem) = Ledger::read(&path, false);
        assert!(problem.unwrap().contains("damaged") && path.exists(), "{damage}");
        let (mut rebuilt, problem) = Ledger::read(&path, true);
        assert!(problem.unwrap().contains("damaged-") && !path.exists(), "{damage}");
        assert_eq!(ids(&mut rebuilt, &["a", "b", "b"]), old, "the same tasks get the same ids again");
    }
    let asides = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(asides, 6, "nothing was overwritten");

    let newer = r#"{"version":2,"tasks":[],"more":1}"#;
    write(&path, newer);
    let (mut ledger, problem) = Ledger::read(&path, true);
    assert!(problem.unwrap().contains("version 2"));
    ids(&mut ledger, &["a"]);
    ledger.write(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);

    let twice = r#"{"version":1,"tasks":[{"id":"x1"},{"id":"x1"},{"id":""}],"more":1}"#;
    write(&path, twice);
    let (ledger, problem) = Ledger::read(&path, true);
    assert_eq!((ledger.tasks.len(), problem), (1, None));
}

#[test]
fn large_rewrites_are_compared_in_a_window() {
    let mut ledger = Ledger::default();
    let before: Vec<String> =
        (0..500).map(|n| format!("Implement the feature with the number {n}")).collect();
    let after: Vec<String> = before.iter().map(|line| format!("{line} now")).collect();
    let old = ids(&mut ledger, &before.iter().map(String::as_str).collect::<Vec<_>>());
    let new = ids(&mut ledger, &after.iter().map(String::as_str).collect::<Vec<_>>());
    let (old, new): (HashSet<_>, HashSet<_>) = (old.into_iter().collect(), new.into_iter().collect());
    assert_eq!(old, new);
}

proptest! {
    #[test]
    fn ids_are_unique_and_stay_through_single_edits_and_moves(
        steps in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3_u8),
            1..12,
        )
    ) {
        let words = ["parser", "ledger", "driver", "journal", "report", "engine", "settings", "probe"];
        let mut lines: Vec<String> =
            words.iter().map(|word| format!("Write the {word} of the program with its {word} tests")).collect();
        lines.push("same".to_owned());
        lines.push("same".to_owned());
        let mut ledger = Ledger::default();
        let look = |ledger: &mut Ledger, lines: &[String]| {
            ids(ledger, &lines.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let mut expected = look(&mut ledger, &lines);
        prop_assert_eq!(expected.iter().collect::<HashSet<_>>().len(), lines.len());
        prop_assert!(expected.iter().all(|id| id.len() == ID_LENGTH && !id.contains(['i', 'l', 'o', 'u'])));
        for (one, two, kind) in steps {
            let one = one.index(lines.len());
            match kind {
                // An edit.
                0 if lines[one] != "same" => lines[one].push('s'),
                // A move; of two with the same text none can be told from the other.
                1 if lines[one] != "same" => {
                    let line = lines.remove(one);
                    let id = expected.remove(one);
                    let to = two.index(lines.len() + 1);
                    lines.insert(to, line);
                    expected.insert(to, id);
                }
                _ => {}
            }
            prop_assert_eq!(look(&mut ledger, &lines), expected.clone());
        }
    }
}
