//! The raw stream of one attempt, bounded.
//!
//! # How
//!
//! The beginning of a stream says how it was set up, the end says how it went wrong; the middle is also in
//! the transcript. So the first MiB is kept for good, and of the rest the last 7.5 to 15 MiB:
//!
//! ```text
//! attempt-0001.head.jsonl      the first MiB
//! attempt-0001.tail.1.jsonl    older part of the end
//! attempt-0001.tail.0.jsonl    newest part, being written
//! ```
//!
//! When `tail.0` is full it takes the place of `tail.1`. Read in this order ([`segments`]) the files are the
//! stream, with at most one gap, behind the head. Cuts are made between writes where possible: a caller that
//! writes whole lines gets whole lines.
//!
//! # Invariants
//!
//! - Writing never fails for the caller and waits for nothing but the page cache: a full disk must not stop
//!   the reading of the stream. The first error is remembered, and nothing is written after it.
//! - Nothing is synced: after a crash of the machine the transcript is the ground truth.
//! - Up to 64 KiB wait in memory; [`RawLog::flush`] when the stream goes quiet.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::state::atomic::{FileError, PRIVATE_FILE};

/// Size of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the beginning.
    pub head: usize,
    /// Bytes of each of the two files of the end.
    pub tail: usize,
}

/// 16 MiB in all.
impl Default for Limits {
    fn default() -> Limits {
        Limits { head: 1 << 20, tail: 15 << 19 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    Tail,
}

/// The raw stream of one attempt, being written.
#[derive(Debug)]
pub struct RawLog {
    folder: PathBuf,
    attempt: u32,
    limits: Limits,
    part: Part,
    /// `None` before the first byte and after a failure.
    file: Option<BufWriter<File>>,
    /// Bytes in the file being written.
    filled: usize,
    /// Bytes in `tail.1`.
    older: usize,
    total: u64,
    dropped: u64,
    error: Option<FileError>,
}

/// What became of a raw stream.
#[derive(Debug)]
pub struct RawSummary {
    /// Bytes of the stream.
    pub total: u64,
    /// Of them not kept: for the bound, or because of the error.
    pub dropped: u64,
    /// Why writing stopped, if it did.
    pub error: Option<FileError>,
}

/// The files of an attempt that exist, in the order of the stream.
#[must_use]
pub fn segments(folder: &Path, attempt: u32) -> Vec<PathBuf> {
    ["head", "tail.1", "tail.0"]
        .iter()
        .map(|part| segment(folder, attempt, part))
        .filter(|path| path.is_file())
        .collect()
}

fn segment(folder: &Path, attempt: u32, part: &str) -> PathBuf {
    folder.join(format!("attempt-{attempt:04}.{part}.jsonl"))
}

impl RawLog {
    /// For attempt number `attempt`, in the `stream` folder of a run. Files are made with the first byte.
    #[must_use]
    pub fn new(folder: &Path, attempt: u32) -> RawLog {
        RawLog::with_limits(folder, attempt, Limits::default())
    }

    /// With other sizes (at least one byte each).
    #[must_use]
    pub fn with_limits(folder: &Path, attempt: u32, limits: Limits) -> RawLog {
        RawLog {
            folder: folder.to_owned(),
            attempt,
            limits: Limits { head: limits.head.max(1), tail: limits.tail.max(1) },
            part: Part::Head,
            file: None,
            filled: 0,
            older: 0,
            total: 0,
            dropped: 0,
            error: None,
        }
    }

    /// Adds bytes of the stream.
    pub fn write(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.error.is_some() {
                self.dropped += bytes.len() as u64;
                return;
            }
            let limit = self.limit();
            let room = limit - self.filled;
            // What fits into a file of its own is not cut; what does not fit anywhere must be.
            let count = if bytes.len() <= room {
                bytes.len()
            } else if self.filled > 0 && (room == 0 || bytes.len() <= self.limits.tail) {
                0
            } else {
                room
            };
            let (now, later) = bytes.split_at(count);
            let result = if count == 0 { self.rotate() } else { self.put(now) };
            match result {
                Ok(()) => {
                    self.filled += count;
                    bytes = later;
                }
                Err(error) => {
                    self.file = None;
                    self.error = Some(error);
                }
            }
        }
    }

    /// Hands to the system what waits in memory, so that `logs` and a reader after `kill -9` see it.
    pub fn flush(&mut self) {
        if let Some(file) = &mut self.file
            && let Err(source) = file.flush()
        {
            self.error = Some(FileError::at("write to", &self.current())(source));
            self.file = None;
        }
    }

    /// Why writing stopped, if it did.
    #[must_use]
    pub fn error(&self) -> Option<&FileError> {
        self.error.as_ref()
    }

    /// Writes the rest.
    pub fn finish(mut self) -> RawSummary {
        self.flush();
        RawSummary { total: self.total, dropped: self.dropped, error: self.error.take() }
    }

    fn limit(&self) -> usize {
        match self.part {
            Part::Head => self.limits.head,
            Part::Tail => self.limits.tail,
        }
    }

    fn current(&self) -> PathBuf {
        let part = match self.part {
            Part::Head => "head",
            Part::Tail => "tail.0",
        };
        segment(&self.folder, self.attempt, part)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let path = self.current();
        let file = if let Some(file) = &mut self.file {
            file
        } else {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(PRIVATE_FILE)
                .open(&path)
                .map_err(FileError::at("open", &path))?;
            self.file.insert(BufWriter::with_capacity(64 * 1024, file))
        };
        file.write_all(bytes).map_err(FileError::at("write to", &path))
    }

    /// The current file is full: the next one.
    fn rotate(&mut self) -> Result<(), FileError> {
        let path = self.current();
        if let Some(mut file) = self.file.take() {
            file.flush().map_err(FileError::at("write to", &path))?;
        }
        if self.part == Part::Tail {
            let older = segment(&self.folder, self.attempt, "tail.1");
            fs::rename(&path, &older).map_err(FileError::at("rename", &path))?;
            self.dropped += self.older as u64;
            self.older = self.filled;
        }
        self.part = Part::Tail;
        self.filled = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use proptest::prelude::*;

    use super::*;

    fn read_all(folder: &Path) -> Vec<u8> {
        segments(folder, 1).iter().flat_map(|path| fs::read(path).unwrap()).collect()
    }

    fn names(folder: &Path) -> Vec<String> {
        segments(folder, 1)
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn keeps_the_beginning_and_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = RawLog::with_limits(folder.path(), 1, Limits { head: 8, tail: 8 });
        for number in 0..10 {
            log.write(format!("l{number}\n").as_bytes());
        }
        let summary = log.finish();
        assert_eq!(read_all(folder.path()), b"l0\nl1\nl6\nl7\nl8\nl9\n");
        assert_eq!((summary.total, summary.dropped), (30, 12));
        assert!(summary.error.is_none());
        assert_eq!(
            names(folder.path()),
            ["attempt-0001.head.jsonl", "attempt-0001.tail.1.jsonl", "attempt-0001.tail.0.jsonl"]
        );
        for path in segments(folder.path(), 1) {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(segments(folder.path(), 2).is_empty());
    }

    #[test]
    fn nothing_written_nothing_made() {
        let folder = tempfile::tempdir().unwrap();
        let summary = RawLog::new(folder.path(), 1).finish();
        assert_eq!((summary.total, names(folder.path()).len()), (0, 0));
    }

    #[test]
    fn flushed_bytes_are_readable() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = RawLog::new(folder.path(), 1);
        log.write(b"a\n");
        log.flush();
        assert_eq!(read_all(folder.path()), b"a\n");
    }

    #[test]
    fn a_full_disk_is_remembered_and_not_fatal() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join("attempt-0001.head.jsonl")).unwrap();
        let mut log = RawLog::new(folder.path(), 1);
        log.write(&vec![b'x'; 100_000]);
        assert!(log.error().unwrap().is_disk_full());
        log.write(b"more");
        let summary = log.finish();
        assert_eq!((summary.total, summary.dropped), (100_004, 100_004));
        assert!(summary.error.unwrap().to_string().contains("attempt-0001.head.jsonl"));
        // A folder that is not there is no more fatal.
        let mut log = RawLog::new(&folder.path().join("gone"), 1);
        log.write(b"x");
        assert!(log.finish().error.is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn bounded_and_true(writes in prop::collection::vec(0_usize..40, 0..60)) {
            let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
            let limits = Limits { head: 16, tail: 24 };
            let mut log = RawLog::with_limits(folder.path(), 1, limits);
            let mut all = Vec::new();
            for (number, size) in writes.into_iter().enumerate() {
                let chunk = vec![u8::try_from(number).unwrap(); size];
                log.write(&chunk);
                all.extend(chunk);
            }
            let summary = log.finish();
            let kept = read_all(folder.path());
            prop_assert!(kept.len() <= limits.head + 2 * limits.tail);
            prop_assert_eq!(summary.total, all.len() as u64);
            prop_assert_eq!(summary.dropped, (all.len() - kept.len()) as u64);
            // What is kept is a beginning and an end of the stream.
            let head = fs::read(segment(folder.path(), 1, "head")).unwrap_or_default();
            prop_assert!(all.starts_with(&head));
            prop_assert!(all.ends_with(&kept[head.len()..]));
        }
    }
}
