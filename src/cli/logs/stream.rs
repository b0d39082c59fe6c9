//! The raw stream of one attempt, read while it may still be written (see [`crate::journal::raw`]).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::journal::raw::segments;
use crate::protocol::frame::LineFramer;
use crate::protocol::stream::{Message, parse_frame};

/// Files that were read and may still have a name: the two of the end.
const KEPT_OPEN: usize = 2;
/// Bytes read at a time.
const PIECE: usize = 64 * 1024;

/// Reads an attempt's files in their order, across the rotation of the last two.
#[derive(Debug)]
pub(super) struct StreamReader {
    folder: PathBuf,
    attempt: u32,
    file: Option<(File, u64)>,
    /// Identity of the head, once it was read to its end.
    head: Option<u64>,
    /// The last files of the end that were read to theirs. Kept open, so that no new file gets their identity.
    done: VecDeque<(File, u64)>,
    framer: LineFramer,
}

/// What was new.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) messages: Vec<Message>,
    /// Part of the stream was not kept, or was rotated away before it was read.
    pub(super) gap: bool,
}

impl StreamReader {
    pub(super) fn new(folder: &Path, attempt: u32) -> StreamReader {
        StreamReader {
            folder: folder.to_owned(),
            attempt,
            file: None,
            head: None,
            done: VecDeque::new(),
            framer: LineFramer::new(),
        }
    }

    /// What was added since the last time. What cannot be read ends the reading of this attempt, not the log.
    pub(super) fn poll(&mut self) -> News {
        let mut news = News::default();
        loop {
            if self.file.is_none() && !self.open_next(&mut news) {
                return news;
            }
            let Ok(()) = self.drain(&mut news) else { return news };
            // At the end of a file that has a successor: it may have grown before that was made.
            if !self.has_successor() {
                return news;
            }
            let Ok(()) = self.drain(&mut news) else { return news };
            let Some((file, inode)) = self.file.take() else { continue };
            if self.head.is_none() {
                self.head = Some(inode);
                continue;
            }
            self.done.push_back((file, inode));
            if self.done.len() > KEPT_OPEN {
                self.done.pop_front();
            }
        }
    }

    /// The last line, when the stream ended without a newline.
    pub(super) fn finish(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        self.framer.finish(|frame| messages.extend(parse_frame(frame).messages));
        messages
    }

    fn drain(&mut self, news: &mut News) -> io::Result<()> {
        let Some((file, _)) = &mut self.file else { return Ok(()) };
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => self
                    .framer
                    .push(&piece[..count], |frame| news.messages.extend(parse_frame(frame).messages)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Files that are not read yet, in the order of the stream, each with its identity.
    fn unread(&self) -> Vec<(PathBuf, u64)> {
        segments(&self.folder, self.attempt)
            .into_iter()
            .filter_map(|path| Some((path.clone(), path.metadata().ok()?.ino())))
            .filter(|(_, inode)| self.head != Some(*inode) && self.done.iter().all(|(_, done)| done != inode))
            .collect()
    }

    fn has_successor(&self) -> bool {
        let current = self.file.as_ref().map(|(_, inode)| *inode);
        self.unread().iter().any(|(_, inode)| Some(*inode) != current)
    }

    fn open_next(&mut self, news: &mut News) -> bool {
        let unread = self.unread();
        let Some((path, inode)) = unread.first() else { return false };
        let Ok(file) = File::open(path) else { return false };
        // Two files of the end: the one before them was given up, unless it is the one just read.
        let older = path.to_string_lossy().contains(".tail.1.");
        news.gap |= older && self.head.is_some();
        self.file = Some((file, *inode));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::raw::{Limits, RawLog};

    fn line(n: u32) -> String {
        format!("{{\"type\":\"system\",\"subtype\":\"status\",\"session_id\":\"{n:04}\"}}\n")
    }

    fn ids(messages: &[Message]) -> Vec<u32> {
        messages.iter().map(|m| m.session_id.as_deref().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn a_stream_that_grows_and_turns_over_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let one = line(0).len();
        let mut log = RawLog::with_limits(folder.path(), 1, Limits { head: 2 * one, tail: 3 * one });
        let mut reader = StreamReader::new(folder.path(), 1);
        let mut seen = Vec::new();
        for n in 0..40 {
            log.write(line(n).as_bytes());
            log.flush();
            let news = reader.poll();
            seen.extend(ids(&news.messages));
        }
        assert_eq!(seen, (0..40).collect::<Vec<_>>());
    }

    #[test]
    fn a_finished_stream_is_read_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let one = line(0).len();
        let mut log = RawLog::with_limits(folder.path(), 1, Limits { head: 2 * one, tail: 3 * one });
        for n in 0..40 {
            log.write(line(n).as_bytes());
        }
        log.write(line(40).trim_end().as_bytes());
        log.finish();
        let mut reader = StreamReader::new(folder.path(), 1);
        let news = reader.poll();
        assert!(news.gap);
        let mut seen = ids(&news.messages);
        seen.extend(ids(&reader.finish()));
        assert_eq!(seen[..2], [0, 1]);
        assert_eq!(seen.last(), Some(&40));
        assert!(seen.is_sorted(), "{seen:?}");
        assert!(StreamReader::new(folder.path(), 2).poll().messages.is_empty());
    }
}
