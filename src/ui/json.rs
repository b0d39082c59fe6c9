//! `--events`: the life of a run as JSON lines for programs.
//!
//! A line of a journaled event is the line of `events.jsonl`, so that one reader does for both; an event
//! that is for the eye only has `"seq":null`. Each line is one write and is flushed at once. A reader that
//! goes away (a closed pipe, a full disk) must not end a night's work: the first failure is returned, and
//! from then on the writer is silent. It also never writes after a failed write, which may have torn a line.

use std::io::{self, Write};

use jiff::Timestamp;
use serde::Serialize;

use crate::core::published::{Entry, FORMAT, RunEvent};

/// Same fields in the same order as [`Entry`].
#[derive(Serialize)]
struct Line<'e> {
    v: u32,
    seq: Option<u64>,
    at: Timestamp,
    event: &'e RunEvent,
}

/// Writes events, one JSON object a line.
#[derive(Debug)]
pub struct EventWriter<W> {
    out: Option<W>,
}

impl<W: Write> EventWriter<W> {
    /// A writer to `out`.
    pub fn new(out: W) -> Self {
        EventWriter { out: Some(out) }
    }

    /// An event that was journaled.
    ///
    /// # Errors
    /// The first failure to write; later calls do nothing.
    pub fn journaled(&mut self, entry: &Entry) -> io::Result<()> {
        self.write(&Line { v: entry.v, seq: Some(entry.seq), at: entry.at, event: &entry.event })
    }

    /// An event that is not journaled.
    ///
    /// # Errors
    /// The first failure to write; later calls do nothing.
    pub fn live(&mut self, at: Timestamp, event: &RunEvent) -> io::Result<()> {
        self.write(&Line { v: FORMAT, seq: None, at, event })
    }

    /// Whether a write has failed.
    pub fn is_closed(&self) -> bool {
        self.out.is_none()
    }

    fn write(&mut self, line: &Line<'_>) -> io::Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let mut bytes = serde_json::to_vec(line).map_err(io::Error::from)?;
        bytes.push(b'\n');
        let written = out.write_all(&bytes).and_then(|()| out.flush());
        if written.is_err() {
            self.out = None;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2026-08-23T01:17:00Z".parse().unwrap()
    }

    #[test]
    fn a_journaled_line_is_the_journal_line_and_a_live_one_has_no_number() {
        let entry =
            Entry { v: FORMAT, seq: 7, at: at(), event: RunEvent::Warning { text: "line\nbreak".into() } };
        let mut out = Vec::new();
        let mut writer = EventWriter::new(&mut out);
        writer.journaled(&entry).unwrap();
        writer.live(at(), &RunEvent::Progress { output_tokens: 5, cost_usd: None }).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], serde_json::to_string(&entry).unwrap());
        assert_eq!(serde_json::from_str::<Entry>(lines[0]).unwrap(), entry);
        assert_eq!(
            lines[1],
            r#"{"v":1,"seq":null,"at":"2026-08-23T01:17:00Z","event":{"type":"progress","output_tokens":5,"cost_usd":null}}"#
        );
    }

    /// Takes some bytes, then breaks like a pipe whose reader has left.
    struct Breaking {
        left: usize,
        calls: usize,
    }

    impl Write for &mut Breaking {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.left == 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let taken = bytes.len().min(self.left);
            self.left -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_leaves_is_told_once_and_never_written_to_again() {
        let mut pipe = Breaking { left: 10, calls: 0 };
        let mut writer = EventWriter::new(&mut pipe);
        let event = RunEvent::Warning { text: "x".into() };
        assert_eq!(writer.live(at(), &event).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(writer.is_closed());
        assert!(writer.live(at(), &event).is_ok());
        assert_eq!(pipe.calls, 2);
    }
}
