use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::signals::repository;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn look(bytes: &[u8], count: usize) -> (Vec<SessionFacts>, SourceReading) {
    let repository = repository(".orchestrator/metrics/sessions.jsonl", bytes);
    recent(&Layout::new(repository.path()), count, NOW)
}

fn ids(facts: &[SessionFacts]) -> Vec<&str> {
    facts.iter().map(|facts| facts.session_id.as_deref().unwrap()).collect()
}

fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().flat_map(|record| [record.to_string(), "\n".to_owned()]).collect::<String>().into_bytes()
}

#[test]
fn two_weeks_of_sessions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/signals/sessions.jsonl");
    let bytes = std::fs::read(path).unwrap();
    let (facts, reading) = look(&bytes, 10);
    assert_eq!(ids(&facts), ["old-names", "main-02", "main-03", "main-04-again", "main-05", "main-06"]);
    let types: Vec<_> = facts.iter().map(|facts| facts.session_type.as_deref().unwrap()).collect();
    assert_eq!(types, ["deep", "feature", "feature", "deep", "housekeeping", "feature"]);
    let completions: Vec<_> = facts.iter().map(|facts| facts.completion).collect();
    assert_eq!(completions, [Some(0.9), Some(1.0), Some(0.5), Some(0.75), Some(0.75), None]);
    assert_eq!(
        (facts[2].planned, facts[2].carryover, facts[2].has_effectiveness),
        (Some(2.0), Some(2.0), true)
    );
    assert_eq!((facts[0].planned, facts[0].has_effectiveness), (None, false));
    assert_eq!((facts[5].carryover, facts[5].has_effectiveness), (None, true));
    assert_eq!(reading.source, "sessions.jsonl");
    assert_eq!(reading.origin.as_deref(), Some(".orchestrator/metrics/sessions.jsonl"));
    assert_eq!((reading.age_seconds, reading.says.as_str()), (Some(0), "6 sessions, last feature"));
    assert_eq!(
        reading.problems,
        [
            "1 line: not one record each",
            "1 line: recovered from damaged lines",
            "1 line: cut off at the end of the file",
            "1 line: of a newer schema version: not used",
            "1 record without session_id: not used",
        ]
    );
    let (facts, reading) = look(&bytes, 2);
    assert_eq!(
        (ids(&facts), reading.says.as_str()),
        (vec!["main-05", "main-06"], "2 sessions, last feature")
    );
}

#[test]
fn canonical_reading() {
    let check = |records: &[Value], expected: &[&str]| {
        assert_eq!(ids(&look(&lines(records), 10).0), expected, "{records:#?}");
    };
    let id = |id: &str| json!({ "session_id": id });
    check(&[], &[]);
    check(&[id("a"), id("b"), id("a")], &["a", "b"]);
    check(&[json!({}), json!({"session_id": ""}), json!({"session_id": 7}), id("a")], &["a"]);
    // The last record counts, also when it gives the session up, or takes it back.
    let abandoned = |id: &str| json!({"session_id": id, "status": "abandoned"});
    check(&[id("a"), abandoned("a"), abandoned("b"), id("b")], &["b"]);
    check(
        &[json!({"session_id": "a", "status": null}), json!({"session_id": "b", "status": "unresolved"})],
        &["a", "b"],
    );
    // What may be superseded: no status or abandoned, and the same conversation or start.
    let old = |status: Value, raw: &str, at: &str| json!({"session_id": "old", "status": status, "raw_session_id": raw, "started_at": at});
    let new = json!({"session_id": "new", "supersedes": "old", "raw_session_id": "r", "started_at": "s"});
    check(&[old(Value::Null, "r", "x"), new.clone()], &["new"]);
    check(&[new.clone(), old(Value::Null, "x", "s")], &["new"]);
    check(&[old(Value::Null, "x", "x"), new.clone()], &["old", "new"]);
    check(&[old(json!("completed"), "r", "s"), new.clone()], &["old", "new"]);
    check(&[old(json!("abandoned"), "r", "s"), new.clone()], &["new"]);
    let nothing_in_common = json!({"session_id": "new", "supersedes": "old"});
    check(&[json!({"session_id": "old", "raw_session_id": ""}), nothing_in_common.clone()], &["old", "new"]);
    check(&[id("old"), nothing_in_common], &["old", "new"]);
    // A chain: what is superseded supersedes nothing. A ring: the newest stays.
    let link = |id: &str, target: &str, end: &str| json!({"session_id": id, "supersedes": target, "started_at": "s", "completed_at": end});
    check(&[link("a", "", "1"), link("b", "a", "2"), link("c", "b", "3")], &["a", "c"]);
    check(&[link("a", "c", "3"), link("b", "a", "2"), link("c", "b", "1")], &["a"]);
    check(&[link("a", "b", "1"), link("b", "a", "1")], &["b"]);
    check(&[link("a", "a", "1")], &["a"]);
    // From outside into a ring: that breaks it.
    check(&[link("x", "a", "0"), link("a", "b", "9"), link("b", "a", "1")], &["x", "b"]);
    // A stub that is made up gives way to one that is not, and then supersedes nothing.
    let stub = |id: &str, synthetic: Value, target: &str| json!({"session_id": id, "status": "abandoned", "started_at": "s", "completed_at": "e", "_synthetic_session_id": synthetic, "supersedes": target});
    let real = json!({"session_id": "r", "started_at": "s"});
    check(&[real.clone(), stub("x", json!(true), "r")], &[]);
    check(&[real.clone(), stub("x", json!(true), "r"), stub("y", json!(false), "")], &["r"]);
    check(&[real, stub("x", json!("id-1"), "r"), stub("y", json!(true), "")], &[]);
}

#[test]
fn the_first_name_and_the_first_value_count() {
    let check = |record: Value, expected: (Option<&str>, Option<f64>)| {
        let mut record = record;
        record["session_id"] = json!("a");
        let (facts, _) = look(&lines(&[record.clone()]), 1);
        assert_eq!((facts[0].session_type.as_deref(), facts[0].completion), expected, "{record}");
    };
    check(
        json!({"session_type": "deep", "mode": "feature", "completion_rate": 0.5}),
        (Some("deep"), Some(0.5)),
    );
    check(json!({"mode": "evolve"}), (Some("evolve"), None));
    check(json!({"type": "deep", "mode": "feature"}), (Some("deep"), None));
    check(json!({"session_type": 7, "type": "deep"}), (None, None));
    check(json!({"effectiveness": {"completion_ratio": 0.1}, "completion_rate": 0.2}), (None, Some(0.1)));
    check(json!({"effectiveness": {"completion_rate": null}, "completion_ratio": 0.2}), (None, Some(0.2)));
    check(json!({"effectiveness": {"completion_rate": "1"}, "completion_rate": 0.2}), (None, None));
    check(json!({"effectiveness": 3, "completion_rate": 1}), (None, Some(1.0)));
}

#[test]
fn stubs_never_use_up_the_window() {
    let mut text = String::new();
    for number in 0..20 {
        writeln!(text, "{{\"session_id\":\"real-{number}\"}}").unwrap();
    }
    for number in 0..5 * WINDOW {
        writeln!(text, "{{\"session_id\":\"stub-{number}\",\"status\":\"abandoned\"}}").unwrap();
    }
    let (facts, reading) = look(text.as_bytes(), 3);
    assert_eq!(ids(&facts), ["real-17", "real-18", "real-19"]);
    assert!(reading.problems.is_empty(), "{reading:?}");
}

#[test]
fn a_correction_within_the_window_keeps_its_place() {
    let record = |number: usize| format!("{{\"session_id\":\"s{number}\",\"completion_rate\":{number}}}\n");
    let mut text: String = (0..2000).map(record).collect();
    text += "{\"session_id\":\"s1600\",\"completion_rate\":0}\n";
    let (facts, _) = look(text.as_bytes(), 400);
    assert_eq!(facts.len(), 400);
    assert_eq!((ids(&facts)[0], facts[0].completion), ("s1600", Some(0.0)));
    assert_eq!(ids(&facts)[399], "s1999");
}

#[test]
fn damage_is_skipped_and_told() {
    let mut text = b"{\"session_id\":\"a\"}\n".to_vec();
    text.resize(text.len() + 5000, 0);
    text.extend_from_slice(b"\n\xff\xfe\n{\"session_id\":\"b\",\"notes\":\"");
    text.resize(text.len() + (17 << 20), b'x');
    text.extend_from_slice(b"\"}\r\n{\"session_id\":\"c\"}\r\n{\"session_id\":");
    let (facts, reading) = look(&text, 10);
    assert_eq!(ids(&facts), ["a", "c"]);
    assert_eq!(reading.problems, ["3 lines: not one record each", "1 line: cut off at the end of the file"]);
}

#[test]
fn no_file_or_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path());
    let (facts, reading) = recent(&layout, 10, NOW);
    assert_eq!((facts.len(), reading.origin, reading.says.as_str()), (0, None, "not there"));
    assert!(reading.problems.is_empty());
    std::fs::create_dir_all(layout.sessions_jsonl()).unwrap();
    let (facts, reading) = recent(&layout, 10, NOW);
    assert_eq!((facts.len(), reading.says.as_str(), reading.problems.len()), (0, "not read", 1));
    assert_eq!(look(b"", 10).1.says, "no session");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Against the rule told forwards: the last record of an id counts, at the place of the first.
    #[test]
    fn as_told_forwards(records in prop::collection::vec((0_u8..12, any::<bool>()), 0..40), count in 0_usize..8) {
        let mut order: Vec<String> = Vec::new();
        let mut last = HashMap::new();
        let mut text = String::new();
        for (id, abandoned) in records {
            let id = format!("s{id}");
            let status = if abandoned { "abandoned" } else { "completed" };
            writeln!(text, "{{\"session_id\":\"{id}\",\"status\":\"{status}\"}}").unwrap();
            if !order.contains(&id) {
                order.push(id.clone());
            }
            last.insert(id, abandoned);
        }
        order.retain(|id| !last[id]);
        order.drain(..order.len().saturating_sub(count));
        let (facts, _) = look(text.as_bytes(), count);
        prop_assert_eq!(ids(&facts), order);
    }

    /// What stays does not hang on the order of the records, and a ring never loses all of its members.
    #[test]
    fn superseding_is_blind_to_order(targets in prop::collection::vec(0_usize..9, 1..9), turn in 0_usize..9) {
        let mut records: Vec<Value> = targets
            .iter()
            .enumerate()
            .map(|(number, target)| json!({
                "session_id": format!("s{number}"), "supersedes": format!("s{target}"),
                "started_at": "s", "completed_at": format!("{}", number * 7 % 5),
            }))
            .collect();
        let set = |records: &[Value]| -> BTreeSet<String> {
            ids(&look(&lines(records), 99).0).into_iter().map(ToOwned::to_owned).collect()
        };
        let first = set(&records);
        prop_assert!(!first.is_empty());
        let turn = turn % records.len();
        records.rotate_left(turn);
        prop_assert_eq!(set(&records), first.clone());
        records.reverse();
        prop_assert_eq!(set(&records), first);
    }

    #[test]
    fn no_bytes_upset_it(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        look(&bytes, 10);
    }
}
