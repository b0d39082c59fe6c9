//! Lines of a file from its end to its beginning, with bounded memory.
//!
//! Blocks are read backwards and grow with the line that is being put together, so a line of many MiB costs
//! linear time. A line over the limit is skipped without being kept. Nothing here knows what a line means:
//! transcripts and metric files are read with it alike.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use memchr::memrchr;

/// First block; a typical line fits.
const FIRST_BLOCK: u64 = 64 << 10;
/// Blocks double up to this size.
const LARGEST_BLOCK: u64 = 1 << 20;

/// One line, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'b> {
    /// Where it begins in the file.
    pub start: u64,
    /// Whether a newline follows it; only the last line of a file can lack one.
    pub terminated: bool,
    /// Its bytes; `None` when it is longer than the limit.
    pub bytes: Option<&'b [u8]>,
}

/// Reads lines backwards. Invariant: `buf` holds the bytes of the current, unfinished line and whatever was
/// read before it, `buf[0]` is at `buf_start`, and there is no newline in `buf[unsearched..]`.
#[derive(Debug)]
pub(crate) struct BackwardLines<'f> {
    file: &'f File,
    limit: usize,
    buf_start: u64,
    buf: Vec<u8>,
    unsearched: usize,
    /// Bytes of the current line were dropped because it is over the limit.
    dropped: bool,
    /// A newline stands right behind the current line.
    terminated: bool,
    block: u64,
    read: u64,
    done: bool,
}

impl<'f> BackwardLines<'f> {
    /// Lines of the first `end` bytes of `file`; lines over `limit` bytes are only reported.
    pub(crate) fn new(file: &'f File, end: u64, limit: usize) -> Self {
        Self {
            file,
            limit,
            buf_start: end,
            buf: Vec::new(),
            unsearched: 0,
            dropped: false,
            terminated: false,
            block: FIRST_BLOCK,
            read: 0,
            done: end == 0,
        }
    }

    /// Bytes read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read
    }

    /// Whether the beginning of the file was reached.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// The next line towards the beginning, in `out`. `None` at the beginning of the file, and also when
    /// `budget` bytes were read and more would be needed; [`Self::is_done`] tells the two apart. The empty
    /// piece behind the last newline of a file is no line.
    pub(crate) fn next_line<'b>(
        &mut self,
        budget: u64,
        out: &'b mut Vec<u8>,
    ) -> io::Result<Option<Line<'b>>> {
        while !self.done {
            let newline = memrchr(b'\n', &self.buf[..self.unsearched]);
            if newline.is_none() && self.buf_start > 0 {
                if self.read >= budget {
                    return Ok(None);
                }
                self.fill(budget - self.read)?;
                continue;
            }
            let from = newline.map_or(0, |at| at + 1);
            let start = self.buf_start + from as u64;
            let kept = !self.dropped && self.buf.len() - from <= self.limit;
            let terminated = self.terminated;
            out.clear();
            if kept {
                out.extend_from_slice(&self.buf[from..]);
            }
            self.buf.truncate(newline.unwrap_or(0));
            self.unsearched = self.buf.len();
            self.dropped = false;
            self.terminated = true;
            self.done = newline.is_none();
            let behind_the_end = kept && out.is_empty() && !terminated;
            if !behind_the_end {
                return Ok(Some(Line { start, terminated, bytes: kept.then_some(out.as_slice()) }));
            }
        }
        Ok(None)
    }

    /// Puts one more block in front of the buffer, of about `most` bytes at most.
    fn fill(&mut self, most: u64) -> io::Result<()> {
        // No newline is in it: all of it belongs to the line that is over the limit.
        self.dropped |= self.buf.len() > self.limit;
        if self.dropped {
            self.buf = Vec::new();
        }
        let take = self.block.max(self.buf.len() as u64 / 2).min(most.max(FIRST_BLOCK)).min(self.buf_start);
        let take_len = usize::try_from(take).map_err(io::Error::other)?;
        let mut block = Vec::with_capacity(take_len + self.buf.len());
        block.resize(take_len, 0);
        self.file.read_exact_at(&mut block, self.buf_start - take)?;
        block.extend_from_slice(&self.buf);
        self.buf = block;
        self.unsearched = take_len;
        self.buf_start -= take;
        self.read += take;
        self.block = (self.block * 2).min(LARGEST_BLOCK);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// `(start, terminated, bytes)` of every line, first line first.
    fn lines(bytes: &[u8], limit: usize) -> Vec<(u64, bool, Option<Vec<u8>>)> {
        let file = file(bytes);
        let mut reader = BackwardLines::new(&file, bytes.len() as u64, limit);
        let (mut out, mut all) = (Vec::new(), Vec::new());
        while let Some(line) = reader.next_line(u64::MAX, &mut out).unwrap() {
            all.push((line.start, line.terminated, line.bytes.map(<[u8]>::to_vec)));
        }
        assert!(reader.is_done());
        assert_eq!(reader.bytes_read(), bytes.len() as u64, "each byte is read once");
        all.reverse();
        all
    }

    /// The same, forwards.
    fn oracle(bytes: &[u8], limit: usize) -> Vec<(u64, bool, Option<Vec<u8>>)> {
        let mut start = 0;
        bytes
            .split_inclusive(|b| *b == b'\n')
            .map(|piece| {
                let line = piece.strip_suffix(b"\n").unwrap_or(piece);
                let at = start;
                start += piece.len() as u64;
                (at, line.len() < piece.len(), (line.len() <= limit).then(|| line.to_vec()))
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn backwards_is_forwards_reversed(pieces in prop::collection::vec((0_usize..200_000, any::<bool>()), 0..6), limit in 0_usize..250_000) {
            let mut bytes = Vec::new();
            for (length, newline) in pieces {
                bytes.resize(bytes.len() + length, b'x');
                bytes.extend(newline.then_some(b'\n'));
            }
            prop_assert_eq!(lines(&bytes, limit), oracle(&bytes, limit));
        }
    }

    proptest! {
        #[test]
        fn short_lines_too(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(0)], 0..40), limit in 0_usize..5) {
            prop_assert_eq!(lines(&bytes, limit), oracle(&bytes, limit));
        }
    }

    #[test]
    fn the_budget_ends_the_search() {
        let bytes = vec![b'x'; 1 << 20];
        let file = file(&bytes);
        let mut reader = BackwardLines::new(&file, bytes.len() as u64, usize::MAX);
        assert_eq!(reader.next_line(1, &mut Vec::new()).unwrap(), None);
        assert!(!reader.is_done());
        assert_eq!(reader.bytes_read(), FIRST_BLOCK);
    }
}
