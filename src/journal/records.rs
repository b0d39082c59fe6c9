//! Reading the metric files back.
//!
//! Nothing that a file can contain makes reading fail: unknown fields are kept, a bad line is counted and
//! skipped, whole records in a damaged line are recovered, a torn tail is noted, and a record of a newer
//! version is delivered and counted. What to make of the counts is the caller's to decide.
//!
//! [`recent`] reads backwards from the end, so that its cost depends on what is asked for and not on the
//! length of the history (design §12: 100,000 records, 50 ms).

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Map, Value};

use crate::state::backward::BackwardLines;

use super::lines::{self, Line};
use super::{autopilot_record, session_record};

/// So far back a search for recent records goes at most.
const MAX_LOOK_BACK: u64 = 256 << 20;

/// A line longer than this is no record when it is read from the end: it is counted, and not kept in memory.
const LONGEST_LINE: usize = 16 << 20;

/// Which of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricFile {
    /// `autopilot.jsonl`.
    Autopilot,
    /// `sessions.jsonl`.
    Sessions,
    /// `learnings.jsonl`.
    Learnings,
}

impl MetricFile {
    /// Newest version of a record that we understand. Upstream accepts sessions of version 3.
    #[must_use]
    pub fn newest_schema(self) -> u64 {
        match self {
            MetricFile::Autopilot => autopilot_record::SCHEMA_VERSION,
            MetricFile::Sessions => session_record::SCHEMA_VERSION + 1,
            MetricFile::Learnings => 1,
        }
    }

    /// Whether a record says that it is of a version newer than [`MetricFile::newest_schema`].
    #[must_use]
    pub fn is_newer(self, record: &Map<String, Value>) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a version is a small number")]
        let newest = self.newest_schema() as f64;
        record.get("schema_version").and_then(Value::as_f64).is_some_and(|version| version > newest)
    }
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// The records, in file order.
    pub values: Vec<Map<String, Value>>,
    /// Lines that are not one record each.
    pub bad_lines: usize,
    /// Records of `values` that were recovered from such lines.
    pub recovered: usize,
    /// The last line has no newline and is not a record: a write was cut off. Not among `bad_lines`.
    pub torn_tail: bool,
    /// Records of `values` with a version newer than ours.
    pub newer_schema: usize,
    /// The search for recent records was given up before the beginning of the file.
    pub gave_up: bool,
}

/// All records of a file; none when it is not there.
pub fn read_records(path: &Path, kind: MetricFile) -> io::Result<Records> {
    let bytes = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(_) => fs::read(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Records::default()),
        Err(error) => return Err(error),
    };
    let mut records = Records::default();
    for line in lines::split(&bytes) {
        let found = records.take(Some(line), !lines::is_torn(line));
        records.values.extend(found);
    }
    records.count_newer(kind);
    Ok(records)
}

/// The last `count` records of a file, in file order; none when it is not there.
pub fn recent(path: &Path, kind: MetricFile, count: usize) -> io::Result<Records> {
    recent_where(path, kind, count, |_| true)
}

/// The last `count` records that `keep` accepts, in file order. Records that it refuses do not use up the
/// count: abandoned stubs must not fill the window (upstream-formats §15.1, #834).
///
/// `keep` is asked for the newest record first, and so on back: one that remembers the ids it has seen makes
/// "the last record of an id counts" out of it.
///
/// The other counts are of the part of the file that was looked at.
pub fn recent_where(
    path: &Path,
    kind: MetricFile,
    count: usize,
    mut keep: impl FnMut(&Map<String, Value>) -> bool,
) -> io::Result<Records> {
    let mut values = Vec::new();
    let mut records = newest_first(path, |record| {
        if values.len() < count && keep(&record) {
            values.push(record);
        }
        if values.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    values.reverse();
    records.values = values;
    records.count_newer(kind);
    Ok(records)
}

/// Gives `visit` one record after the other, the newest first, until it breaks off or [`MAX_LOOK_BACK`] bytes
/// were read. The answer holds the counts alone, of the part of the file that was looked at.
pub fn newest_first(
    path: &Path,
    mut visit: impl FnMut(Map<String, Value>) -> ControlFlow<()>,
) -> io::Result<Records> {
    let mut records = Records::default();
    // Asked before it is opened: opening a FIFO would block.
    let opened = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(_) => File::open(path).and_then(|file| Ok((file.metadata()?.len(), file))),
        Err(error) => Err(error),
    };
    let (length, file) = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(records),
        Err(error) => return Err(error),
    };
    let mut backwards = BackwardLines::new(&file, length, LONGEST_LINE);
    let mut out = Vec::new();
    while let Some(line) = backwards.next_line(MAX_LOOK_BACK, &mut out)? {
        let found = records.take(line.bytes, line.terminated);
        if found.into_iter().rev().try_for_each(&mut visit).is_break() {
            return Ok(records);
        }
    }
    records.gave_up = !backwards.is_done();
    Ok(records)
}

/// The record that a run has already: the last one, if there are several.
pub fn of_run(path: &Path, run_id: &str) -> io::Result<Option<Map<String, Value>>> {
    // A dry run has an id that a run begun in the same minute may get, too.
    let is = |record: &Map<String, Value>| {
        record.get("autopilot_run_id").is_some_and(|id| id == run_id)
            && record.get("dry_run").is_none_or(|dry| dry != true)
    };
    Ok(recent_where(path, MetricFile::Autopilot, 1, is)?.values.pop())
}

/// How many records there are of a run's sessions with this id: more than one where iterations share a
/// conversation (`--chain resume`).
pub fn session_records(path: &Path, run_id: &str, session_id: &str) -> io::Result<usize> {
    let is = |record: &Map<String, Value>| {
        let names = [("autopilot_run_id", run_id), ("session_id", session_id)];
        // A session that named itself keeps the id of its conversation under another name.
        let raw = record.get("raw_session_id").is_some_and(|id| id == session_id);
        names.iter().all(|(key, value)| {
            record.get(*key).is_some_and(|id| id == value) || (*key == "session_id" && raw)
        })
    };
    Ok(recent_where(path, MetricFile::Sessions, usize::MAX, is)?.values.len())
}

impl Records {
    /// Reads a line, keeps the counts, and gives its records. `None` = a line that is too long to be one.
    fn take(&mut self, line: Option<&[u8]>, terminated: bool) -> Vec<Map<String, Value>> {
        let recovered = match line.map(lines::read_line) {
            Some(Line::Blank) => return Vec::new(),
            Some(Line::Whole(object)) => return vec![object],
            Some(Line::Damaged { recovered, .. }) => recovered,
            None => Vec::new(),
        };
        if terminated {
            self.bad_lines += 1;
        } else {
            self.torn_tail = true;
        }
        self.recovered += recovered.len();
        recovered.into_iter().map(|(_, object)| object).collect()
    }

    fn count_newer(&mut self, kind: MetricFile) {
        self.newer_schema = self.values.iter().filter(|record| kind.is_newer(record)).count();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn file_with(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn ids(records: &Records) -> Vec<&str> {
        records.values.iter().map(|record| record["session_id"].as_str().unwrap()).collect()
    }

    #[test]
    fn counts_and_recovers() {
        let file = file_with(
            b"{\"session_id\":\"a\",\"schema_version\":2}\n\n{\"session_id\":\"b\",\"schema_version\":4.0}\nnonsense\n\
              {\"session_id\":\"c\"}{\"session_id\":\"d\"}\n[1]\n\0\0{\"session_id\":\"e\xff\"}\n{\"session_id\":\"f",
        );
        let all = read_records(file.path(), MetricFile::Sessions).unwrap();
        assert_eq!(ids(&all), ["a", "b", "c", "d", "e\u{fffd}"]);
        assert_eq!((all.bad_lines, all.recovered, all.torn_tail, all.newer_schema), (4, 3, true, 1));
        let last = recent(file.path(), MetricFile::Sessions, 3).unwrap();
        assert_eq!(ids(&last), ["c", "d", "e\u{fffd}"]);
        assert!(last.torn_tail && !last.gave_up);
    }

    #[test]
    fn a_whole_record_without_newline_counts() {
        let file = file_with(b"{\"session_id\":\"a\"}\n{\"session_id\":\"b\"}");
        let all = read_records(file.path(), MetricFile::Sessions).unwrap();
        assert_eq!((ids(&all), all.torn_tail, all.bad_lines), (vec!["a", "b"], false, 0));
    }

    #[test]
    fn no_file_no_records_and_no_endless_reading() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("no");
        assert_eq!(read_records(&missing, MetricFile::Sessions).unwrap(), Records::default());
        assert_eq!(recent(&missing, MetricFile::Sessions, 3).unwrap(), Records::default());
        for odd in [Path::new("/dev/zero"), folder.path()] {
            assert!(read_records(odd, MetricFile::Sessions).is_err());
            assert!(recent(odd, MetricFile::Sessions, 3).is_err());
        }
    }

    #[test]
    fn refused_records_do_not_use_up_the_window() {
        let mut text = Vec::new();
        for number in 0..50 {
            let status = if number >= 10 { "abandoned" } else { "completed" };
            writeln!(text, "{{\"session_id\":\"s{number}\",\"status\":\"{status}\"}}").unwrap();
        }
        let file = file_with(&text);
        let real = |record: &Map<String, Value>| record["status"] != "abandoned";
        let found = recent_where(file.path(), MetricFile::Sessions, 3, real).unwrap();
        assert_eq!(ids(&found), ["s7", "s8", "s9"]);
    }

    #[test]
    fn a_line_without_end_is_counted_and_not_kept() {
        let mut text = b"{\"session_id\":\"a\"}\n{\"session_id\":\"b\",\"notes\":\"".to_vec();
        text.resize(text.len() + LONGEST_LINE, b'x');
        text.extend_from_slice(b"\"}\n{\"session_id\":\"c\"}\n");
        let found = recent(file_with(&text).path(), MetricFile::Sessions, 9).unwrap();
        assert_eq!((ids(&found), found.bad_lines), (vec!["a", "c"], 1));
    }

    #[test]
    fn long_lines_are_read_backwards_too() {
        const CHUNK: usize = 128 * 1024;
        let mut text = Vec::new();
        for (number, size) in [10, 5 * CHUNK, 1, CHUNK, CHUNK - 40, 3].into_iter().enumerate() {
            writeln!(text, "{{\"session_id\":\"s{number}\",\"notes\":\"{}\"}}", "x".repeat(size)).unwrap();
        }
        let file = file_with(&text);
        for count in 0..8 {
            let found = recent(file.path(), MetricFile::Sessions, count).unwrap();
            let expected: Vec<_> =
                (6_usize.saturating_sub(count)..6).map(|number| format!("s{number}")).collect();
            assert_eq!(ids(&found), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Good lines between random bytes: all of them are found, forwards and backwards alike.
        #[test]
        fn no_good_line_is_lost(
            parts in prop::collection::vec(prop_oneof![
                Just(None),
                prop::collection::vec(any::<u8>(), 0..60).prop_map(Some),
                "[{}\":a,\\[\\] ]{0,40}".prop_map(|text| Some(text.into_bytes())),
            ], 0..40)
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (number, part) in parts.into_iter().enumerate() {
                match part {
                    None => {
                        bytes.extend_from_slice(format!("{{\"session_id\":\"good-{number}\"}}").as_bytes());
                        expected.push(format!("good-{number}"));
                    }
                    Some(noise) => bytes.extend(noise),
                }
                bytes.push(b'\n');
            }
            let file = file_with(&bytes);
            let all = read_records(file.path(), MetricFile::Sessions).unwrap();
            let found = |records: &Records| -> Vec<String> {
                records.values.iter()
                    .filter_map(|record| record.get("session_id")?.as_str())
                    .filter(|id| id.starts_with("good-"))
                    .map(ToOwned::to_owned)
                    .collect()
            };
            prop_assert_eq!(found(&all), expected);
            let last = recent(file.path(), MetricFile::Sessions, usize::MAX).unwrap();
            prop_assert_eq!(&last.values, &all.values);
            prop_assert_eq!((last.bad_lines, last.recovered), (all.bad_lines, all.recovered));
        }
    }
}
