use proptest::prelude::*;

use super::*;

/// Title, state (`o`pen work, `d`one, `p`arent that waits for its parts, `s`truck), line.
fn found(bytes: &[u8]) -> Vec<(String, char, u32)> {
    let state = |item: &Item| match item {
        item if item.struck => 's',
        item if item.checked => 'd',
        item if item.open_below => 'p',
        _ => 'o',
    };
    let items = parse(bytes).items;
    items.iter().map(|item| (item.title.clone(), state(item), item.line)).collect()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/plans").join(name)).unwrap()
}

#[test]
fn a_plan_with_everything_in_it() {
    let bytes = fixture("mixed.md");
    let expected = [
        ("Before any phase", 'o', 5),
        ("Set up the repository", 'd', 11),
        ("Write the parser (high)", 'o', 12),
        ("Parent with parts", 'p', 17),
        ("first part", 'd', 18),
        ("second part", 'p', 19),
        ("deep part", 'o', 20),
        ("Parent whose parts are done", 'o', 21),
        ("only part", 'd', 22),
        ("~~Dropped~~", 's', 23),
        ("goes with it", 's', 24),
        ("~~Use A~~ Use B", 'o', 25),
        ("~~Also dropped~~ (no time)", 's', 26),
        ("quoted box", 'o', 42),
        ("Numbered", 'o', 50),
        ("Other list", 'o', 51),
        ("Plus", 'o', 52),
        ("", 'o', 53),
        ("[link title](https://example.org/x.md)", 'o', 59),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(title, state, line)| ((*title).to_owned(), *state, *line)).collect();
    assert_eq!(found(&bytes), expected);

    let parsed = parse(&bytes);
    for item in &parsed.items {
        assert!(b" xX".contains(&bytes[item.mark]), "{item:?}");
        assert_eq!((bytes[item.mark - 1], bytes[item.mark + 1]), (b'[', b']'), "{item:?}");
    }
    let by_title = |title: &str| parsed.items.iter().find(|item| item.title == title).unwrap();
    let parser = by_title("Write the parser (high)");
    assert_eq!(parser.phase, ["Plan of the thing", "Phase 1: Ground", "Deliverables"]);
    assert_eq!(
        parser.description.as_deref(),
        Some("It must not panic.\n\n- see [the notes](notes/parser.md)\n- keep offsets")
    );
    assert_eq!(by_title("Before any phase").phase, ["Plan of the thing"]);
    assert_eq!(by_title("Plus").phase, ["Plan of the thing", "Phase 2"]);
    assert_eq!(by_title("Parent with parts").description, None);
    assert!(by_title("deep part").nested && !by_title("Plus").nested);
    assert_eq!(parsed.links, ["notes/parser.md", "https://example.org/x.md"]);
    assert!(!parsed.items[17].is_work(), "a box without a text");
}

#[test]
fn other_encodings_line_ends_and_marks() {
    let bytes = fixture("latin1-crlf-bom.md");
    let parsed = parse(&bytes);
    let titles: Vec<&str> = parsed.items.iter().map(|item| item.title.as_str()).collect();
    assert_eq!(titles, ["Gr\u{fffd}\u{fffd}e pr\u{fffd}fen", "done", "tabbed child"]);
    assert_eq!(parsed.items[0].description.as_deref(), Some("Mehr \u{fffd} Text"));
    assert_eq!(parsed.items[0].phase, ["Caf?"]);
    assert_eq!(parsed.items.iter().map(|item| item.line).collect::<Vec<_>>(), [3, 6, 7]);
    for item in &parsed.items {
        assert_eq!((bytes[item.mark - 1], bytes[item.mark + 1]), (b'[', b']'));
    }
}

#[test]
fn small_documents() {
    let check = |text: &str, expected: &[(&str, char)]| {
        let found: Vec<_> =
            found(text.as_bytes()).into_iter().map(|(title, state, _)| (title, state)).collect();
        let expected: Vec<_> = expected.iter().map(|(title, state)| ((*title).to_owned(), *state)).collect();
        assert_eq!(found, expected, "{text:?}");
    };
    check("", &[]);
    check("\u{feff}", &[]);
    check("- [ ] a", &[("a", 'o')]);
    check("\u{feff}- [ ] a\n  - [x] b", &[("a", 'o'), ("b", 'd')]);
    check("- [ ] a\r- [x] b\r", &[("a", 'o'), ("b", 'd')]);
    check("- [ ] a\n\n\n- [ ] b\n", &[("a", 'o'), ("b", 'o')]);
    check("- - [ ] inner", &[("inner", 'o')]);
    check("- [ ] [ ] twice", &[("[ ] twice", 'o')]);
    check("- [x] a\n  - [ ] b", &[("a", 'd'), ("b", 'o')]);
    check("- [ ] a\n  - plain\n    - [ ] b", &[("a", 'p'), ("b", 'o')]);
    check("- [ ] a\n  - [ ] ~~b~~", &[("a", 'o'), ("~~b~~", 's')]);
    check("- [ ] a\n  - [ ]\n", &[("a", 'o'), ("", 'o')]);
    check("- [ ] a <!-- b --> c", &[("a  c", 'o')]);
    check("- [ ] `<!--`\n- [ ] b\n- [ ] `-->`", &[("`<!--`", 'o'), ("b", 'o'), ("`-->`", 'o')]);
    check("- [ ] a <!-- never closed\n- [ ] b", &[("a <!-- never closed", 'o'), ("b", 'o')]);
    check("<!-- never closed\n- [ ] b", &[]);
    check("```\n- [ ] never closed", &[]);
    check("<div>\n- [ ] in html\n</div>\n\n- [ ] a", &[("a", 'o')]);
    check("| - [ ] x |\n|---|\n", &[]);
}

#[test]
fn headings_are_kept_by_level() {
    let items = parse(b"# A\n### B\n- [ ] x\n## C\n- [ ] y\n# D\n- [ ] z\n  ## not a phase\n- [ ] w\n").items;
    let phases: Vec<Vec<&str>> =
        items.iter().map(|item| item.phase.iter().map(String::as_str).collect()).collect();
    assert_eq!(phases, [vec!["A", "B"], vec!["A", "C"], vec!["D"], vec!["D"]]);
}

#[test]
fn bad_input_is_bounded() {
    let deep = (0..2000).fold(String::new(), |text, depth| text + &" ".repeat(2 * depth) + "- [ ] a\n");
    assert!(!parse(deep.as_bytes()).items.is_empty());
    let long = format!("- [ ] {}\n  {}", "ä".repeat(100_000), "ö".repeat(100_000));
    let item = &parse(long.as_bytes()).items[0];
    assert!(item.title.len() <= MAX_TITLE && item.description.as_ref().unwrap().len() <= MAX_DESCRIPTION);
    assert!(parse(&vec![b'['; 1 << 20]).items.is_empty());
    assert!(parse(&b"> ".repeat(1 << 18)).items.is_empty());
    assert!(parse(&b"<!--".repeat(1 << 18)).items.is_empty());
}

proptest! {
    #[test]
    fn every_mark_is_one_whatever_the_bytes(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "- [ ] ", "* [x] ", "1. [X] ", "- ", "  ", "\t", "\n", "\r\n", "\r", "```\n", "~~", "<!--", "-->",
                    "# ", "## H\n", "> ", "[ ]", "a", "~~b~~", "`", "---\n", "\u{feff}", "<div>", "[x](y.md)", "ü",
                ]).prop_map(|text| text.as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 1..4),
            ],
            0..60,
        )
    ) {
        let bytes = parts.concat();
        let items = parse(&bytes).items;
        for item in &items {
            prop_assert!(b" \t\x0b\x0cxX".contains(&bytes[item.mark]));
            prop_assert_eq!((bytes[item.mark - 1], bytes[item.mark + 1]), (b'[', b']'));
            prop_assert_eq!(item.checked, b"xX".contains(&bytes[item.mark]));
        }
        prop_assert!(items.windows(2).all(|pair| pair[0].mark < pair[1].mark));
    }
}
