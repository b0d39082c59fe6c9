use proptest::prelude::*;

use super::*;
use crate::plan::ids::Ledger;
use crate::plan::model::Model;

fn ledger_of(bytes: &[u8]) -> Ledger {
    let parsed = parse(bytes);
    let seen: Vec<Seen<'_>> = listed(&parsed.items)
        .map(|item| Seen { title: &item.title, file: "plan.md", phase: &item.phase })
        .collect();
    let mut ledger = Ledger::default();
    ledger.take_in(&seen, jiff::Timestamp::UNIX_EPOCH);
    ledger
}

fn tick_in(model: &mut Model, ledger: &Ledger, id: &str) -> Ticked {
    tick(model, Path::new("plan.md"), "plan.md", &ledger.tasks, id).unwrap()
}

#[test]
fn finds_the_task_again_after_an_edit_of_a_person() {
    let check = |before: &str, nth: usize, now: &str, expected: Ticked, after: &str| {
        let ledger = ledger_of(before.as_bytes());
        let mut model = Model::with("plan.md", now.as_bytes());
        let id = &ledger.tasks[nth].id;
        assert_eq!(tick_in(&mut model, &ledger, id), expected, "{now}");
        assert_eq!(String::from_utf8_lossy(&model.contents("plan.md").unwrap()), after);
    };
    let plan = "- [ ] a\n- [ ] b\n- [ ] c\n";
    check(plan, 1, plan, Ticked::Done, "- [ ] a\n- [x] b\n- [ ] c\n");
    check(plan, 1, "# New\n- [ ] b\n\n- [ ] a", Ticked::Done, "# New\n- [x] b\n\n- [ ] a");
    check(plan, 1, "- [ ] a\n- [x] b\n", Ticked::Already, "- [ ] a\n- [x] b\n");
    check(plan, 1, "- [ ] a\n- [ ] c\n", Ticked::Gone, "- [ ] a\n- [ ] c\n");
    check(plan, 1, "", Ticked::Gone, "");
    check(plan, 1, "- [ ] b\n  - [ ] part\n", Ticked::NotWork, "- [ ] b\n  - [ ] part\n");
    check(plan, 1, "- [ ] ~~b~~\n- [ ] b\n", Ticked::Done, "- [ ] ~~b~~\n- [x] b\n");
    check(
        "- [ ] Write the parser\n- [ ] z\n",
        0,
        "- [ ] z\n- [ ] Write the parsers\n",
        Ticked::Done,
        "- [ ] z\n- [x] Write the parsers\n",
    );
    check("- [ ] a\n- [ ] a\n", 1, "- [ ] a\n- [ ] a\n", Ticked::Done, "- [ ] a\n- [x] a\n");
    check("- [ ] a\r\n", 0, "\u{feff}- [ ] a\r\n", Ticked::Done, "\u{feff}- [x] a\r\n");
}

proptest! {
    #[test]
    fn only_the_byte_of_the_box_changes(
        parts in prop::collection::vec(
            prop_oneof![
                4 => prop::sample::select(vec![
                    "- [ ] a\n", "- [ ] b\r\n", "  - [ ] c\n", "* [x] d\n", "1. [ ] e\n", "\n", "# H\n", "```\n",
                    "text\n", "- [ ] a\n", "<!-- -->\n", "- [ ] \u{e9}t\u{e9}\n", "\t- [ ] tab\n", "\u{feff}",
                ]).prop_map(|text| text.as_bytes().to_vec()),
                1 => prop::collection::vec(any::<u8>(), 1..8),
            ],
            0..40,
        ),
        choice in any::<prop::sample::Index>(),
    ) {
        let bytes = parts.concat();
        let ledger = ledger_of(&bytes);
        let parsed = parse(&bytes);
        let open: Vec<usize> =
            (0..ledger.tasks.len()).filter(|nth| listed(&parsed.items).nth(*nth).unwrap().is_work()).collect();
        prop_assume!(!open.is_empty());
        let nth = open[choice.index(open.len())];
        let mut model = Model::with("plan.md", &bytes);
        prop_assert_eq!(tick_in(&mut model, &ledger, &ledger.tasks[nth].id), Ticked::Done);
        let after = model.contents("plan.md").unwrap();
        let changed: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != after[*at]).collect();
        prop_assert_eq!(after.len(), bytes.len());
        prop_assert_eq!(&changed, &[listed(&parsed.items).nth(nth).unwrap().mark]);
        prop_assert_eq!(after[changed[0]], b'x');
    }
}
