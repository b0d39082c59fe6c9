//! Journal and metric files, however damaged. Reading never fails but for a newer format, finds nothing that is not
//! there, and a record that is appended to any of them is found again.

use std::fs;

use autopilot::journal::reader::read_journal;
use autopilot::journal::records::{MetricFile, read_records, recent};

/// One file, read as each of them.
pub fn run(data: &[u8]) {
    let folder = super::folder();
    let path = folder.path().join("x.jsonl");
    fs::write(&path, data).expect("memory");
    if let Ok(replay) = read_journal(&path) {
        let lines = data.split(|byte| *byte == b'\n').count();
        assert!(replay.entries.len() + replay.bad_lines + replay.unknown_events <= lines);
    }
    for kind in [MetricFile::Autopilot, MetricFile::Sessions, MetricFile::Learnings] {
        let all = read_records(&path, kind).expect("any bytes can be read");
        let last = recent(&path, kind, 3).expect("any bytes can be read from the end");
        let from = all.values.len().saturating_sub(3);
        assert_eq!(last.values, all.values[from..], "the last ones are the last of all");
    }
    let mut more = data.to_vec();
    if !more.ends_with(b"\n") && !more.is_empty() {
        more.push(b'\n');
    }
    more.extend_from_slice(b"{\"session_id\":\"the last\"}\n");
    fs::write(&path, more).expect("memory");
    let last = recent(&path, MetricFile::Sessions, 1).expect("any bytes");
    assert_eq!(last.values[0]["session_id"], "the last");
}
