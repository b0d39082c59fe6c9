//! How the last runs ended: what the pre-launch verdict looks back on (upstream-formats §9).

use std::io;
use std::ops::ControlFlow;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{counted, note, source};
use crate::core::signals::SourceReading;
use crate::journal::records::{MetricFile, newest_first};
use crate::state::layout::Layout;

/// Runs a verdict looks back on, unless told otherwise (upstream-formats §9).
pub const RECENT_RUNS: usize = 50;

/// `kind` of the records of upstream's multi-story coordinator, which are no runs (upstream-formats §5.1).
const COORDINATOR: &str = "multi-story-coordinator";

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// `autopilot_run_id`.
    pub run_id: Option<String>,
    /// `kill_switch`, as written: it need not be one of ours. Never empty.
    pub kill_switch: Option<String>,
    /// Iteration 1 fell back to manual.
    pub fallback_to_manual: bool,
    /// Nothing was started.
    pub dry_run: bool,
    /// Exit code; `None` in upstream's records.
    pub exit_code: Option<i64>,
    /// How it ended, in our word; `None` in upstream's records.
    pub outcome: Option<String>,
}

/// The last `count` runs of the repository, oldest first; 0 = [`RECENT_RUNS`].
#[must_use]
pub fn recent(layout: &Layout, count: usize, now: Timestamp) -> (Vec<RunFacts>, SourceReading) {
    let count = if count == 0 { RECENT_RUNS } else { count };
    let path = layout.autopilot_jsonl();
    let mut reading = source(layout.root(), &path, now);
    let mut runs = Vec::new();
    let mut newer = 0;
    let walk: io::Result<_> = newest_first(&path, |record| {
        if MetricFile::Autopilot.is_newer(&record) {
            newer += 1;
        } else if record.get("kind").is_none_or(|kind| kind != COORDINATOR) {
            runs.push(facts(&record));
        }
        if runs.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    runs.reverse();
    if reading.origin.is_some() {
        let last = runs.last().map(|last: &RunFacts| {
            let end = last.kill_switch.as_deref().or(last.outcome.as_deref());
            format!(", last {}", end.unwrap_or("without a kill-switch"))
        });
        reading.says = counted(runs.len(), "run") + &last.unwrap_or_default();
    }
    note(&mut reading, &walk, newer);
    (runs, reading)
}

fn facts(record: &Map<String, Value>) -> RunFacts {
    let text = |key: &str| {
        record.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
    };
    let flag = |key: &str| record.get(key).and_then(Value::as_bool).unwrap_or(false);
    RunFacts {
        run_id: text("autopilot_run_id"),
        kill_switch: text("kill_switch"),
        fallback_to_manual: flag("fallback_to_manual"),
        dry_run: flag("dry_run"),
        exit_code: record.get("exit_code").and_then(Value::as_i64),
        outcome: text("outcome"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::signals::repository;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn look(bytes: &[u8], count: usize) -> (Vec<RunFacts>, SourceReading) {
        let repository = repository(".orchestrator/metrics/autopilot.jsonl", bytes);
        recent(&Layout::new(repository.path()), count, NOW)
    }

    fn ends(runs: &[RunFacts]) -> Vec<&str> {
        runs.iter().map(|run| run.kill_switch.as_deref().unwrap_or("-")).collect()
    }

    #[test]
    fn records_of_both_versions() {
        let file = |name: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal/upstream");
            std::fs::read(folder.join(name)).unwrap()
        };
        let (runs, reading) = look(&file("autopilot-v2.jsonl"), 0);
        assert_eq!(
            runs[0],
            RunFacts {
                run_id: Some("main-2026-11-02-0117-autopilot".to_owned()),
                kill_switch: Some("stall-timeout".to_owned()),
                fallback_to_manual: false,
                dry_run: false,
                exit_code: Some(12),
                outcome: Some("stopped".to_owned()),
            }
        );
        assert!(runs[1].dry_run && runs[1].kill_switch.is_none());
        assert!(reading.problems.is_empty(), "{reading:?}");
        // The coordinator's record is no run.
        let (runs, reading) = look(&file("autopilot-v1.jsonl"), 0);
        let all = file("autopilot-v1.jsonl").split_inclusive(|byte| *byte == b'\n').count();
        assert_eq!(runs.len(), all - 1);
        assert!(runs.iter().all(|run| run.run_id.is_some() && run.exit_code.is_none()));
        assert!(reading.problems.is_empty(), "{reading:?}");
    }

    #[test]
    fn the_newest_and_what_is_wrong_with_the_others() {
        let text = b"{\"autopilot_run_id\":\"a\",\"kill_switch\":\"spiral\"}\n7\nnonsense\n[]\n\
            {\"autopilot_run_id\":\"b\",\"kill_switch\":\"\"}\n\
            {\"schema_version\":3,\"autopilot_run_id\":\"c\",\"kill_switch\":\"user-abort\"}\n\
            {\"kind\":\"multi-story-coordinator\",\"run_id\":\"m\"}\n\
            {\"kill_switch\":3,\"dry_run\":\"yes\",\"exit_code\":\"0\"}\n\
            {\"autopilot_run_id\":\"d\",\"fallback_to_manual\":true}\n{\"autopilot_run_id\":\"e";
        let (runs, reading) = look(text, 9);
        assert_eq!(ends(&runs), ["spiral", "-", "-", "-"]);
        assert_eq!(runs[2], RunFacts::default());
        assert!(runs[3].fallback_to_manual);
        assert_eq!(
            reading.problems,
            [
                "3 lines: not one record each",
                "1 line: cut off at the end of the file",
                "1 line: of a newer schema version: not used",
            ]
        );
        assert_eq!(reading.says, "4 runs, last without a kill-switch");
        // An upper bound, the newest, oldest first.
        assert_eq!(look(text, 3).0, runs[1..]);
        let many: Vec<_> = (0..60).map(|n| format!("{{\"autopilot_run_id\":\"{n}\"}}\n")).collect();
        let (runs, _) = look(many.concat().as_bytes(), 0);
        assert_eq!(runs.len(), RECENT_RUNS);
        assert_eq!(runs[49].run_id.as_deref(), Some("59"));
    }

    #[test]
    fn no_file_or_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let (runs, reading) = recent(&layout, 0, NOW);
        assert_eq!((runs.len(), reading.origin, reading.says.as_str()), (0, None, "not there"));
        std::fs::create_dir_all(layout.autopilot_jsonl()).unwrap();
        let (runs, reading) = recent(&layout, 0, NOW);
        assert_eq!((runs.len(), reading.says.as_str(), reading.problems.len()), (0, "not read", 1));
    }
}
