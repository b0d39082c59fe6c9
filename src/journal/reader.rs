//! Reading the event journal of a run back (`resume`, `explain`, `status`, `logs`).
//!
//! - A line that cannot be read is counted, not fatal; so is an event that this version does not know.
//! - A torn last line is what a `kill -9` leaves; it is noted and otherwise ignored.
//! - A line of a newer [`FORMAT`] is refused: its events may mean something else, and a wrong replay is
//!   worse than none.
//!
//! A journal can be long (a night of retries is 200,000 events), and most of it does not matter to most readers:
//! [`skim_journal`] reads only the events that are asked for, counts the others by type, and holds one piece of
//! the file at a time.
//!
//! Journals of every version that ever shipped stay readable: `fixtures/journal/v1` is pinned by a test. A
//! field added to an event later must therefore be an `Option` or have a default.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use memchr::{memchr, memmem, memrchr};
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::core::published::{Entry, FORMAT, RunEvent};
use crate::state::atomic::FileError;

use super::lines;

/// Names of unknown events that are kept for the message.
const MAX_NAMES: usize = 8;

/// Why a journal was not read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The system refused, or the journal is not there.
    #[error(transparent)]
    File(#[from] FileError),
    /// A newer `autopilot` wrote it.
    #[error(
        "{} has event format {found}, this version reads up to {FORMAT}: use a newer autopilot",
        path.display()
    )]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
}

/// What a journal holds.
#[derive(Debug, Default, PartialEq)]
pub struct Replay {
    /// The events, in file order.
    pub entries: Vec<Entry>,
    /// Lines that could not be read.
    pub bad_lines: usize,
    /// Events that are not known here.
    pub unknown_events: usize,
    /// Their names, the first few.
    pub unknown_names: Vec<String>,
    /// The last line was cut off.
    pub torn_tail: bool,
    /// Highest sequence number, also of unknown events.
    pub last_seq: Option<u64>,
}

/// Reads a whole journal.
pub fn read_journal(path: &Path) -> Result<Replay, ReadError> {
    let mut follower = Follower::open(path)?;
    let mut replay = follower.poll()?;
    // What is left has no newline. It may be whole all the same (field-reports N01).
    if !follower.partial.is_empty() {
        let line = std::mem::take(&mut follower.partial);
        replay.torn_tail = !replay.take(&line, path)?;
        replay.bad_lines -= usize::from(replay.torn_tail);
    }
    Ok(replay)
}

/// What a journal holds of some types of events.
#[derive(Debug, Default, PartialEq)]
pub struct Skim {
    /// The events that were asked for, and what was wrong with the file.
    pub replay: Replay,
    /// The others, by type.
    pub skipped: BTreeMap<String, u64>,
    /// When the last event was, of whatever type.
    pub last_at: Option<Timestamp>,
}

/// Bytes of a journal that are held at a time, unless a line is longer.
const PIECE: usize = 256 * 1024;

/// Reads the events whose type is `wanted`. Of the others only the beginning is looked at, so what is wrong
/// behind it goes unnoticed.
pub fn skim_journal(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Skim, ReadError> {
    let mut file = File::open(path).map_err(FileError::at("open", path))?;
    let mut skim = Skim::default();
    let mut piece = vec![0; PIECE];
    let mut held = 0;
    let mut last = String::new();
    loop {
        if held == piece.len() {
            piece.resize(piece.len() * 2, 0);
        }
        let count = match file.read(&mut piece[held..]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(FileError::at("read", path)(error).into()),
        };
        // What was held has no newline.
        let Some(newline) = memrchr(b'\n', &piece[held..held + count]) else {
            held += count;
            continue;
        };
        let whole = held + newline + 1;
        for line in lines::split(&piece[..whole]) {
            skim.take(line, path, &wanted, &mut last)?;
        }
        piece.copy_within(whole..held + count, 0);
        held = held + count - whole;
    }
    if held > 0 {
        let bad = skim.replay.bad_lines;
        skim.take(&piece[..held], path, &wanted, &mut last)?;
        if skim.replay.bad_lines > bad {
            (skim.replay.bad_lines, skim.replay.torn_tail) = (bad, true);
        }
    }
    skim.last_at = last.parse().ok().or(skim.last_at);
    Ok(skim)
}

impl Skim {
    /// Reads one line; `last` is the time of the last event that was passed over behind those that were read.
    fn take(
        &mut self,
        line: &[u8],
        path: &Path,
        wanted: &impl Fn(&str) -> bool,
        last: &mut String,
    ) -> Result<(), ReadError> {
        if let Some(header) = Header::read(line)
            && !wanted(header.kind)
        {
            self.replay.last_seq = self.replay.last_seq.max(Some(header.seq));
            // Read once, at the end: most of these are not the last one.
            last.clear();
            last.push_str(header.at);
            match self.skipped.get_mut(header.kind) {
                Some(count) => *count += 1,
                None => drop(self.skipped.insert(header.kind.to_owned(), 1)),
            }
            return Ok(());
        }
        let known = self.replay.entries.len();
        self.replay.take(line, path)?;
        if let Some(entry) = self.replay.entries.get(known) {
            self.last_at = Some(entry.at);
            last.clear();
        }
        Ok(())
    }
}

/// The beginning of a line as [`super::writer`] writes it.
struct Header<'l> {
    seq: u64,
    at: &'l str,
    kind: &'l str,
    /// The event, with its braces.
    event: &'l [u8],
}

impl<'l> Header<'l> {
    /// `None`: written by something else, of another version, or damaged; then it is to be read in full.
    fn read(line: &'l [u8]) -> Option<Header<'l>> {
        const VERSION: &[u8] = b"{\"v\":1,\"seq\":";
        let line = line.trim_ascii();
        let rest = line.strip_prefix(VERSION)?.strip_suffix(b"}")?;
        if !rest.ends_with(b"}") {
            return None;
        }
        let digits =
            rest.iter().position(|byte| !byte.is_ascii_digit()).filter(|digits| (1..20).contains(digits))?;
        let (seq, rest) = rest.split_at(digits);
        let seq = seq.iter().fold(0_u64, |seq, digit| seq * 10 + u64::from(digit - b'0'));
        let rest = rest.strip_prefix(b",\"at\":\"")?;
        let quote = memchr(b'"', rest.get(..40.min(rest.len()))?)?;
        let (at, rest) = rest.split_at(quote);
        let event = rest.strip_prefix(b"\",\"event\":")?;
        let kind = event.strip_prefix(b"{\"type\":\"")?;
        let quote = memchr(b'"', kind.get(..64.min(kind.len()))?)?;
        Some(Header {
            seq,
            at: std::str::from_utf8(at).ok()?,
            kind: std::str::from_utf8(&kind[..quote]).ok()?,
            event,
        })
    }
}

/// Reads a journal while it is written (`logs -f`): every [`Follower::poll`] gives what is new, whole lines
/// only.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    file: File,
    /// The beginning of a line whose end is not there yet.
    partial: Vec<u8>,
}

impl Follower {
    /// From the beginning of the journal.
    pub fn open(path: &Path) -> Result<Follower, ReadError> {
        let file = File::open(path).map_err(FileError::at("open", path))?;
        Ok(Follower { path: path.to_owned(), file, partial: Vec::new() })
    }

    /// What was added since the last time.
    pub fn poll(&mut self) -> Result<Replay, ReadError> {
        let known = self.partial.len();
        self.file.read_to_end(&mut self.partial).map_err(FileError::at("read", &self.path))?;
        let mut replay = Replay::default();
        if let Some(newline) = memrchr(b'\n', &self.partial[known..]) {
            let rest = self.partial.split_off(known + newline + 1);
            let whole = std::mem::replace(&mut self.partial, rest);
            for line in lines::split(&whole) {
                replay.take(line, &self.path)?;
            }
        }
        Ok(replay)
    }
}

impl Replay {
    /// Reads one line; whether it was an entry.
    fn take(&mut self, line: &[u8], path: &Path) -> Result<bool, ReadError> {
        #[derive(Deserialize)]
        struct Version {
            v: u64,
        }
        #[derive(Deserialize)]
        struct Envelope<'a> {
            v: u32,
            seq: u64,
            at: Timestamp,
            #[serde(borrow)]
            event: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Tag {
            r#type: String,
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(true);
        }
        // What we wrote ourselves is read in one pass.
        if let Some(Header { seq, at, event, .. }) = Header::read(line)
            && let (Ok(at), Ok(event)) = (at.parse(), serde_json::from_slice::<RunEvent>(event))
        {
            self.last_seq = self.last_seq.max(Some(seq));
            self.entries.push(Entry { v: FORMAT, seq, at, event });
            return Ok(true);
        }
        if let Ok(Version { v }) = serde_json::from_slice(line)
            && v > u64::from(FORMAT)
        {
            return Err(ReadError::Newer { path: path.to_owned(), found: v });
        }
        let Ok(Envelope { v, seq, at, event }) = serde_json::from_slice(line) else {
            self.bad_lines += 1;
            return Ok(false);
        };
        self.last_seq = self.last_seq.max(Some(seq));
        if let Ok(event) = serde_json::from_str::<RunEvent>(event.get()) {
            self.entries.push(Entry { v, seq, at, event });
        } else {
            self.unknown_events += 1;
            if self.unknown_names.len() < MAX_NAMES {
                let name = serde_json::from_str::<Tag>(event.get())
                    .map_or_else(|_| "?".to_owned(), |tag| tag.r#type);
                if !self.unknown_names.contains(&name) {
                    self.unknown_names.push(name);
                }
            }
        }
        Ok(true)
    }
}

/// Whether a journal has its last event: the run is over. Looks at the end of the file.
///
/// # Errors
/// The file cannot be read.
pub fn has_ended(path: &Path) -> io::Result<bool> {
    const END: &[u8] = br#""type":"run_ended""#;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(PIECE as u64)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(lines::split(&tail).any(|line| {
        Header::read(line).is_some_and(|header| header.kind == "run_ended")
            || (memmem::find(line, END).is_some() && line.trim_ascii().ends_with(b"}}"))
    }))
}

/// Whether an error only says that there is no journal.
#[must_use]
pub fn is_missing(error: &ReadError) -> bool {
    matches!(error, ReadError::File(error) if error.source.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const GOOD: &str = r#"{"v":1,"seq":0,"at":"2026-04-25T08:42:00Z","event":{"type":"warning","text":"w"}}"#;

    fn file_with(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn counts_what_it_cannot_use() {
        let text = format!(
            "{GOOD}\n\n{}\nnonsense\n{}\n{}\n\u{fffd}\n{{\"v\":1,\"seq\":7",
            GOOD.replace("\"seq\":0", "\"seq\":1,\"later\":true").replace("\"text\"", "\"new\":[1],\"text\""),
            GOOD.replace("\"warning\"", "\"from_the_future\"").replace("\"seq\":0", "\"seq\":5"),
            GOOD.replace("\"text\"", "\"tixt\""),
        );
        let replay = read_journal(file_with(text.as_bytes()).path()).unwrap();
        assert_eq!(replay.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((replay.bad_lines, replay.unknown_events, replay.torn_tail), (2, 2, true));
        assert_eq!(replay.unknown_names, ["from_the_future", "warning"]);
        assert_eq!(replay.last_seq, Some(5));
    }

    #[test]
    fn a_whole_last_line_counts_without_its_newline() {
        let replay = read_journal(file_with(GOOD.as_bytes()).path()).unwrap();
        assert_eq!((replay.entries.len(), replay.torn_tail, replay.bad_lines), (1, false, 0));
    }

    #[test]
    fn a_newer_format_is_refused() {
        for newer in [r#"{"v":2,"whatever":true}"#, r#"{"v":4000000000000}"#] {
            let file = file_with(format!("{GOOD}\n{newer}\n").as_bytes());
            let error = read_journal(file.path()).unwrap_err();
            assert!(matches!(error, ReadError::Newer { .. }));
            assert!(error.to_string().contains("newer autopilot") && !is_missing(&error), "{error}");
        }
    }

    #[test]
    fn skimming_reads_what_is_asked_for_and_counts_the_rest() {
        let line = |seq: u32, event: &str| {
            format!("{{\"v\":1,\"seq\":{seq},\"at\":\"2026-04-25T08:42:{seq:02}Z\",\"event\":{event}}}\n")
        };
        let retry = r#"{"type":"api_retry","attempt":1,"max_retries":9,"status":529,"error":null}"#;
        let text = [
            line(0, r#"{"type":"warning","text":"a"}"#),
            line(1, retry),
            "nonsense\n".to_owned(),
            line(2, retry),
            // Another order of the fields.
            r#"{"seq":3,"v":1,"at":"2026-04-25T08:42:03Z","event":{"text":"b","type":"warning"}}"#.to_owned()
                + "\n",
            line(4, r#"{"type":"moon_phase"}"#),
            line(5, retry),
            line(6, retry)[..70].to_owned(),
        ]
        .concat();
        let skim = skim_journal(file_with(text.as_bytes()).path(), |kind| kind == "warning").unwrap();
        let seen: Vec<_> = skim.replay.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(seen, [0, 3]);
        assert_eq!((skim.replay.bad_lines, skim.replay.torn_tail, skim.replay.last_seq), (1, true, Some(5)));
        assert_eq!((skim.skipped["api_retry"], skim.skipped["moon_phase"]), (3, 1));
        assert_eq!(skim.last_at.unwrap().to_string(), "2026-04-25T08:42:05Z");
    }

    #[test]
    fn skimming_all_is_reading() {
        for name in ["events.jsonl", "killed.jsonl", "night.jsonl"] {
            let skim = skim_journal(&fixture(name), |_| true).unwrap();
            assert_eq!(skim.replay, read_journal(&fixture(name)).unwrap(), "{name}");
            assert!(skim.skipped.is_empty());
        }
    }

    #[test]
    fn lines_longer_than_a_piece_are_skimmed() {
        let long = GOOD.replace("\"w\"", &format!("\"{}\"", "x".repeat(3 * PIECE)));
        let text = format!("{GOOD}\n{long}\n{GOOD}\n{long}");
        let skim = skim_journal(file_with(text.as_bytes()).path(), |_| true).unwrap();
        assert_eq!((skim.replay.entries.len(), skim.replay.torn_tail), (4, false));
    }

    #[test]
    fn a_missing_journal_is_told_apart() {
        assert!(is_missing(&read_journal(Path::new("/nonexistent/events.jsonl")).unwrap_err()));
    }

    #[test]
    fn following_gives_whole_lines_once() {
        let mut file = file_with(b"");
        let mut follower = Follower::open(file.path()).unwrap();
        let (head, tail) = GOOD.split_at(20);
        for (written, expected) in
            [("", 0), (head, 0), (tail, 0), ("\n", 1), (&format!("{GOOD}\n{GOOD}\n{head}"), 2)]
        {
            file.write_all(written.as_bytes()).unwrap();
            let batch = follower.poll().unwrap();
            assert_eq!((batch.entries.len(), batch.bad_lines), (expected, 0));
        }
    }

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal/v1").join(name)
    }

    /// Whether `new` says everything that `old` said.
    fn covers(new: &Value, old: &Value) -> bool {
        match (new, old) {
            (Value::Object(new), Value::Object(old)) => {
                old.iter().all(|(key, old)| new.get(key).is_some_and(|new| covers(new, old)))
            }
            (Value::Array(new), Value::Array(old)) => {
                new.len() == old.len() && new.iter().zip(old).all(|(new, old)| covers(new, old))
            }
            (new, old) => new == old,
        }
    }

    #[test]
    fn every_event_of_format_1_is_read_for_ever() {
        let replay = read_journal(&fixture("events.jsonl")).unwrap();
        let lines = std::fs::read_to_string(fixture("events.jsonl")).unwrap();
        assert_eq!((replay.bad_lines, replay.unknown_names.len(), replay.torn_tail), (0, 0, false));
        assert_eq!(replay.entries.len(), lines.lines().count());
        let mut kinds = std::collections::BTreeSet::new();
        for (entry, line) in replay.entries.iter().zip(lines.lines()) {
            let old: Value = serde_json::from_str(line).unwrap();
            let new = serde_json::to_value(entry).unwrap();
            assert!(covers(&new, &old), "{line}");
            kinds.insert(old["event"]["type"].as_str().unwrap().to_owned());
        }
        assert_eq!(kinds.len(), 27);
    }

    #[test]
    fn a_killed_journal_of_format_1_is_read_for_ever() {
        let replay = read_journal(&fixture("killed.jsonl")).unwrap();
        let numbers: Vec<_> = replay.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(numbers, [0, 1, 2, 4, 6]);
        assert_eq!((replay.bad_lines, replay.torn_tail, replay.last_seq), (1, true, Some(6)));
        assert_eq!(replay.unknown_names, ["moon_phase"]);
    }

    proptest! {
        #[test]
        fn no_bytes_upset_it(noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10)) {
            let mut bytes = Vec::new();
            for part in &noise {
                bytes.extend_from_slice(part);
                bytes.push(b'\n');
                bytes.extend_from_slice(GOOD.as_bytes());
                bytes.push(b'\n');
            }
            let replay = read_journal(file_with(&bytes).path()).unwrap();
            prop_assert_eq!(replay.entries.len(), noise.len());
        }
    }
}
