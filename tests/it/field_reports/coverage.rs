//! Which test holds which field report, as a table that cannot lie.
//!
//! `entries.txt` has a line for each entry. The tests of an entry are those of this folder whose names begin with its id,
//! and the ones its line names elsewhere; both are looked up in the sources, where a test is a function with `#[test]` in
//! a module that is really part of its crate. `fixtures/field-reports.md` is the table for people, made from all that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// All entries there are. Ids are names, not a running number.
const ALL: [(char, &str); 14] = [
    ('A', "01 02 03 04 05 07 08 09 10 12 13 14 15 17 18 20 22"),
    ('B', "01 02 05"),
    ('C', "01 02 04 05 06 07 08 11 12 13 14 15 16 17 19"),
    ('D', "01 02 04 06 08 09 10"),
    ('E', "01 02 03 05 06 09"),
    ('F', "01 02 03 04 05 06 07 09 10 12"),
    ('G', "00 01 03 04 05 07 08 09"),
    ('H', "01 02 03 05 06 08 09 11 12 13 14"),
    ('I', "01 04 05 06 07 08 09 10 11 13 14 15 16 17"),
    ('J', "01 02 03 04 06 08 09 10 12"),
    ('K', "01 02 03 04 05 07 08 09 11 13"),
    ('L', "01"),
    ('M', "01 03"),
    ('N', "01 02 04 05 06"),
];

/// Entries that can be shown with the real CLI and a stub of the API, too.
const REAL_CLI: &str =
    "A02 A10 B01 C07 C15 D01 D04 D06 D09 E02 F01 F02 F03 F04 F05 F06 F07 F12 G01 G03 G04 G05 G07 G08";
/// Those of them that ring 4 does not have. May only get shorter.
const NOT_IN_RING_4: [&str; 0] = [];
/// Entries that autopilot does not hold. May only go down.
const OPEN: usize = 0;
/// Entries of which a part is missing. May only go down.
const PARTLY: usize = 3;

/// Where the tests of this folder are, as modules.
const HERE: &str = "it::field_reports::";

/// A line of the table.
struct Entry {
    id: String,
    subject: String,
    does: String,
    classes: Vec<String>,
    state: State,
    elsewhere: Vec<String>,
}

#[derive(Debug, PartialEq)]
enum State {
    Held,
    /// All but this.
    Partly(String),
    /// This is missing.
    Open(String),
}

fn entries(text: &str) -> Vec<Entry> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let list = |cell: &str| -> Vec<String> {
        cell.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    };
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [id, subject, does, classes, state, elsewhere] = cells[..] else {
                panic!("six cells a line: {line}")
            };
            let state = match state.split_once(": ").map_or((state, ""), |(word, missing)| (word, missing)) {
                ("held", "") => State::Held,
                ("partly", missing) if !missing.is_empty() => State::Partly(missing.to_owned()),
                ("open", missing) if !missing.is_empty() => State::Open(missing.to_owned()),
                _ => panic!("held, partly: …, open: …, and not {state}: {line}"),
            };
            let (id, subject, does) = (id.to_owned(), subject.to_owned(), does.to_owned());
            Entry { id, subject, does, classes: list(classes), state, elsewhere: list(elsewhere) }
        })
        .collect()
}

fn table() -> Vec<Entry> {
    entries(include_str!("entries.txt"))
}

fn all_ids() -> Vec<String> {
    ALL.iter().flat_map(|(class, ids)| ids.split(' ').map(move |id| format!("{class}{id}"))).collect()
}

// ---- the tests that there are ----

/// Tests by path, with the file each is in.
type Tests = BTreeMap<String, PathBuf>;

/// Every test of the library (paths as its own), of this binary (`it::`) and of ring 4 (`real::`).
fn tests() -> Tests {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Tests::new();
    for (prefix, file) in [("", "src/lib.rs"), ("it::", "tests/it/main.rs"), ("real::", "tests/real/main.rs")]
    {
        collect(&root.join(file), prefix, &mut found);
    }
    found
}

/// Takes in a file and the files of the modules it declares.
fn collect(file: &Path, module: &str, found: &mut Tests) {
    let source = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (tests, modules) = declared(&source);
    found.extend(tests.into_iter().map(|test| (format!("{module}{test}"), file.to_owned())));
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let mut folder = file.parent().unwrap().to_owned();
    if !["main", "lib", "mod"].contains(&stem) {
        folder.push(stem);
    }
    for name in modules {
        let places = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
        if let Some(place) = places.iter().find(|place| place.exists()) {
            collect(place, &format!("{module}{name}::"), found);
        }
    }
}

/// The tests of a source, and the modules it has in files of their own. The source is formatted, so that a module that
/// stands in it ends with the brace that is as far in as its beginning.
fn declared(source: &str) -> (Vec<String>, Vec<String>) {
    let (mut tests, mut modules) = (Vec::new(), Vec::new());
    let mut inside: Vec<(usize, &str)> = Vec::new();
    let (mut is_test, mut ignored) = (false, false);
    for line in source.lines() {
        let code = line.trim_start();
        let depth = line.len() - code.len();
        let item =
            ["pub(crate) ", "pub ", "async "].iter().fold(code, |item, word| item.trim_start_matches(word));
        if code.starts_with("#[test]") || code.starts_with("#[tokio::test") {
            is_test = true;
        } else if code.starts_with("#[ignore") {
            ignored = true;
        } else if let Some(name) = item.strip_prefix("mod ") {
            match name.strip_suffix(" {") {
                Some(name) => inside.push((depth, name)),
                None => modules.extend(name.strip_suffix(';').map(str::to_owned)),
            }
        } else if let Some(rest) = item.strip_prefix("fn ") {
            if is_test && !ignored {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                let path: Vec<&str> = inside.iter().map(|(_, name)| *name).chain([name]).collect();
                tests.push(path.join("::"));
            }
            (is_test, ignored) = (false, false);
        } else if code == "}" && inside.last().is_some_and(|(of, _)| *of == depth) {
            inside.pop();
        }
    }
    (tests, modules)
}

/// The ids at the beginning of the name of a test.
fn ids_of(path: &str) -> Vec<String> {
    let is_id = |word: &&str| {
        let bytes = word.as_bytes();
        bytes.len() == 3 && bytes[0].is_ascii_lowercase() && bytes[1..].iter().all(u8::is_ascii_digit)
    };
    let name = path.rsplit("::").next().unwrap_or_default();
    name.split('_').take_while(is_id).map(str::to_ascii_uppercase).collect()
}

/// The tests of an entry, in the order of their rings.
fn tests_of<'a>(entry: &'a Entry, all: &'a Tests) -> Vec<&'a str> {
    let by_name = all.keys().filter(|path| path.starts_with(HERE) && ids_of(path).contains(&entry.id));
    let mut tests: Vec<&str> =
        by_name.map(String::as_str).chain(entry.elsewhere.iter().map(String::as_str)).collect();
    tests.sort_by_key(|path| ring(path));
    tests
}

fn ring(path: &str) -> u8 {
    match path.split_once("::").map_or("", |(first, _)| first) {
        "real" => 4,
        "it" => 3,
        _ if path.starts_with("core::simulation::") => 2,
        _ => 1,
    }
}

fn rings(tests: &[&str]) -> String {
    let rings: BTreeSet<u8> = tests.iter().map(|path| ring(path)).collect();
    rings.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

// ---- the table for people ----

fn markdown(table: &[Entry], all: &Tests) -> String {
    let count = |wanted: fn(&State) -> bool| table.iter().filter(|entry| wanted(&entry.state)).count();
    let mut text = format!(
        "# Field reports\n\nWhat happened to people who ran Claude Code unattended, by id, and the test that holds it. Made from\n\
         `tests/it/field_reports/entries.txt` and the sources: `UPDATE_FIELD_REPORTS=1 cargo test --test it coverage`.\n\n\
         {} entries: {} held, {} partly, {} open. Rings: 1 a part by itself, 2 simulated runs, 3 the program with a double\n\
         of the CLI, 4 the program with the real CLI.\n",
        table.len(),
        count(|state| *state == State::Held),
        count(|state| matches!(state, State::Partly(_))),
        count(|state| matches!(state, State::Open(_))),
    );
    for ring_of in 1..=4 {
        let entries =
            table.iter().filter(|entry| tests_of(entry, all).iter().any(|path| ring(path) == ring_of));
        write!(
            text,
            "{} {} in ring {ring_of}",
            if ring_of == 1 { "\nEntries with a test:" } else { "," },
            entries.count()
        )
        .unwrap();
    }
    text.push_str(
        ".\n\n| id | subject | autopilot | class | state | ring | tests |\n|---|---|---|---|---|---|---|\n",
    );
    for entry in table {
        let tests = tests_of(entry, all);
        let state = match &entry.state {
            State::Held => "held".to_owned(),
            State::Partly(missing) => format!("partly: {missing}"),
            State::Open(missing) => format!("**open**: {missing}"),
        };
        let names: Vec<String> =
            tests.iter().map(|path| format!("`{}`", path.strip_prefix(HERE).unwrap_or(path))).collect();
        let classes: Vec<String> = entry.classes.iter().map(|class| format!("`{class}`")).collect();
        let cells = [
            &entry.id,
            &entry.subject,
            &entry.does,
            &classes.join(" "),
            &state,
            &rings(&tests),
            &names.join(" "),
        ];
        writeln!(text, "| {} |", cells.map(String::as_str).join(" | ")).unwrap();
    }
    text
}

// ---- the checks ----

#[test]
fn no_entry_is_missing_and_none_is_there_twice() {
    let listed: Vec<String> = table().into_iter().map(|entry| entry.id).collect();
    assert_eq!(listed, all_ids());
    assert_eq!(listed.len(), 118);
}

#[test]
fn the_tests_of_the_table_exist() {
    let (all, table) = (tests(), table());
    for entry in &table {
        for path in &entry.elsewhere {
            assert!(all.contains_key(path), "{}: no such test: {path}", entry.id);
            assert!(
                !(path.starts_with(HERE) && ids_of(path).contains(&entry.id)),
                "{}: found by name: {path}",
                entry.id
            );
        }
        let has_tests = !tests_of(entry, &all).is_empty();
        assert!(has_tests || matches!(entry.state, State::Open(_)), "{}: no test", entry.id);
    }
    for path in all.keys().filter(|path| path.starts_with(HERE)) {
        for id in ids_of(path) {
            assert!(table.iter().any(|entry| entry.id == id), "{path}: there is no entry {id}");
        }
    }
}

/// A class of the table is one that its tests speak of.
#[test]
fn the_classes_of_the_table_are_tested() {
    let all = tests();
    for entry in table() {
        let sources: Vec<String> =
            tests_of(&entry, &all).iter().map(|path| std::fs::read_to_string(&all[*path]).unwrap()).collect();
        for class in &entry.classes {
            let variant: String =
                class.split('_').map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect();
            let spoken_of = [format!("\"{class}\""), format!("Class::{variant}")];
            let found = sources.iter().any(|source| spoken_of.iter().any(|words| source.contains(words)));
            assert!(found, "{}: no test speaks of {class}", entry.id);
        }
    }
}

#[test]
fn what_is_missing_only_gets_less() {
    let table = table();
    let open = table.iter().filter(|entry| matches!(entry.state, State::Open(_))).count();
    let partly = table.iter().filter(|entry| matches!(entry.state, State::Partly(_))).count();
    assert_eq!((open, partly), (OPEN, PARTLY), "lower the number when one is closed, and never raise it");
    let all = tests();
    let without: Vec<&str> = table
        .iter()
        .filter(|entry| REAL_CLI.split(' ').any(|id| id == entry.id))
        .filter(|entry| !tests_of(entry, &all).iter().any(|path| ring(path) == 4))
        .map(|entry| entry.id.as_str())
        .collect();
    assert_eq!(without, NOT_IN_RING_4);
}

#[test]
fn the_table_for_people_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/field-reports.md");
    let wanted = markdown(&table(), &tests());
    if std::env::var_os("UPDATE_FIELD_REPORTS").is_some() {
        std::fs::write(&path, &wanted).expect("the table can be written");
    }
    assert!(
        std::fs::read_to_string(&path).is_ok_and(|text| text == wanted),
        "fixtures/field-reports.md is not up to date: run UPDATE_FIELD_REPORTS=1 cargo test --test it coverage"
    );
}

#[test]
fn only_a_function_that_is_run_is_a_test() {
    let source = "mod far;\npub(crate) mod wide;\n#[test]\nfn one() {\n}\nfn helper() {\n}\n#[tokio::test]\nasync fn two() {\n}\n\
                  #[test]\n#[ignore]\nfn never() {\n}\n#[cfg(test)]\nmod tests {\n    #[test]\n    #[should_panic]\n    fn three() {\n    }\n\
                  \x20   mod deep {\n        #[test]\n        fn four() {\n        }\n    }\n}\n#[test]\nfn five() {\n}\n";
    let (tests, modules) = declared(source);
    assert_eq!(tests, ["one", "two", "tests::three", "tests::deep::four", "five"]);
    assert_eq!(modules, ["far", "wide"]);
    for (path, ids) in [
        ("it::a::a01_a14_deaf", &["A01", "A14"][..]),
        ("it::a::n06_every_start", &["N06"]),
        ("it::a::fine_a01", &[]),
        ("a0x_b", &[]),
    ] {
        assert_eq!(ids_of(path), ids, "{path}");
    }
}

#[test]
fn a_line_of_the_table_says_all() {
    let read = |state: &str| entries(&format!("A01 | s | d | ok, no_work | {state} | x::y, z")).remove(0);
    assert_eq!(read("partly: this").state, State::Partly("this".to_owned()));
    assert_eq!(
        (read("held").classes, read("held").elsewhere),
        (vec!["ok".into(), "no_work".into()], vec!["x::y".into(), "z".into()])
    );
    for wrong in ["held: this", "open", "fine"] {
        assert!(std::panic::catch_unwind(|| read(wrong)).is_err(), "{wrong}");
    }
}
