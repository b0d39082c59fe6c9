use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::signals::repository;

fn now() -> Timestamp {
    "2026-11-03T01:17:00Z".parse().unwrap()
}

fn look(bytes: &[u8], count: usize) -> (Vec<Learning>, SourceReading) {
    let repository = repository(".orchestrator/metrics/learnings.jsonl", bytes);
    best(&Layout::new(repository.path()), count, now())
}

fn subjects(found: &[Learning]) -> Vec<&str> {
    found.iter().map(|learning| learning.subject.as_str()).collect()
}

#[test]
fn what_still_holds_and_how_well() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/signals/learnings.jsonl");
    let bytes = std::fs::read(path).unwrap();
    let (found, reading) = look(&bytes, 15);
    assert_eq!(
        subjects(&found),
        ["small-commits", "deep-waves-of-three", "src/export.rs", "feature scope", "clock-mock",]
    );
    let kinds: Vec<_> = found.iter().map(|learning| learning.kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["proven-pattern", "effective-sizing", "fragile-file", "scope-guidance", "anti-pattern"]
    );
    assert_eq!(found[0].insight, "insight of l3");
    // Seen today: whole. 91 days: a little under a half. No date: whole.
    assert!((found[0].score - 0.9).abs() < 1e-9);
    assert!((found[4].score - 0.9 * 0.5_f64.powf(91.0 / 90.0)).abs() < 1e-9, "{}", found[4].score);
    assert!((found[3].score - 0.5).abs() < 1e-9);
    assert_eq!(reading.says, "5 learnings, 2 expired");
    assert_eq!(
        reading.problems,
        ["1 line: not one record each", "1 line: of a newer schema version: not used",]
    );
    assert_eq!(subjects(&look(&bytes, 2).0), ["small-commits", "deep-waves-of-three"]);
}

#[test]
fn expiry() {
    let check = |record: Value, stays: bool| {
        let mut record = record;
        record["confidence"] = json!(0.5);
        assert_eq!(look(record.to_string().as_bytes(), 9).0.len(), usize::from(stays), "{record}");
    };
    // Expired at the very moment.
    check(json!({"expires_at": "2026-11-03T01:17:00Z"}), false);
    check(json!({"expires_at": "2026-11-03T01:17:01Z"}), true);
    check(json!({"expires_at": "2026-11-03"}), false);
    check(json!({"expires_at": "2026-11-03T02:17:00+01:00"}), false);
    check(json!({"expires_at": "garbage"}), true);
    check(json!({}), true);
    for (kind, days) in [
        ("mode-selector-accuracy", 30),
        ("fragile-file", 45),
        ("recurring-issue", 45),
        ("hardware-pattern", 60),
        ("never-heard-of", 60),
        ("", 60),
        ("convention", 90),
        ("gotcha", 90),
        ("pattern", 90),
    ] {
        let created =
            |days: i64| now().checked_sub(SignedDuration::from_hours(24 * days)).unwrap().to_string();
        check(json!({"type": kind, "created_at": created(days)}), false);
        check(json!({"type": kind, "created_at": created(days - 1)}), true);
        check(json!({"type": kind, "created_at": created(days), "updated_at": created(1)}), true);
        check(json!({"type": kind, "created_at": created(days), "last_seen": created(1)}), true);
        check(
            json!({"type": kind, "created_at": created(days), "last_seen": created(1), "updated_at": null}),
            false,
        );
        // A date that is said outweighs the type.
        check(json!({"type": kind, "created_at": created(days), "expires_at": "2099-01-01T00:00:00Z"}), true);
    }
}

#[test]
fn confidence_and_order() {
    let line = |subject: &str, confidence: Value, created: &str| {
        json!({"subject": subject, "confidence": confidence, "created_at": created, "expires_at": "2099-01-01"}).to_string() + "\n"
    };
    let far = "2020-01-01T00:00:00Z";
    let text = [
        line("edge", json!(0.3), "2026-11-03"),
        line("text", json!("0.9"), "2026-11-03"),
        line("future", json!(0.4), "2031-01-01"),
        line("older", json!(0.5), far),
        line("newer", json!(0.5), "2020-01-02T00:00:00Z"),
        line("same", json!(0.5), far),
        line("undated", json!(0.05), ""),
        line("certain", json!(7), "2026-11-03"),
    ]
    .concat();
    let (found, _) = look(text.as_bytes(), 99);
    // The old ones rest on their floor, a tenth; of equals the newer, then the first in the file.
    assert_eq!(subjects(&found), ["certain", "future", "newer", "older", "same"]);
    assert!((found[0].score - 1.0).abs() < 1e-9 && (found[1].score - 0.4).abs() < 1e-9);
    assert!(found[2..].iter().all(|learning| (learning.score - 0.05).abs() < 1e-9));
}

#[test]
fn no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (found, reading) = best(&Layout::new(folder.path()), 15, now());
    assert_eq!((found.len(), reading.origin, reading.says.as_str()), (0, None, "not there"));
    assert_eq!(look(b"", 15).1.says, "no learning, 0 expired");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the dates and numbers, scores are between 0 and 1, best first, and no more than asked for.
    #[test]
    fn scores_are_in_order(records in prop::collection::vec((any::<f64>(), "(20[0-9]{2}-0[1-9]-1[0-9](T00:00:00Z)?|x)"), 0..20), count in 0_usize..9) {
        let text: String = records
            .iter()
            .map(|(confidence, date)| json!({"confidence": confidence, "created_at": date}).to_string() + "\n")
            .collect();
        let (found, _) = look(text.as_bytes(), count);
        prop_assert!(found.len() <= count);
        prop_assert!(found.iter().all(|learning| (0.0..=1.0).contains(&learning.score)));
        prop_assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }
}
