//! Cuts a byte stream into lines, with bounded memory and without ever failing.
//!
//! Theory: [`LineFramer`] is sans-IO. The reader pushes whatever chunk it got; complete lines come out as
//! [`Frame`]s that borrow from the chunk (no copy) or, for a line that spans chunks, from one buffer.
//! Only the byte `\n` splits, nothing is decoded here: a multi-byte character may lie across two reads
//! (field-reports C11).
//!
//! A line of up to [`MAX_LINE`] bytes comes whole. Beyond that its long strings are cut while it streams
//! ([`Frame::Elided`]), so that a giant tool result or final answer still parses, with all its other fields.
//! Only when even that form is too long is the line skipped to the next newline ([`Frame::Oversized`],
//! field-reports C05).
//!
//! Invariants: the frames depend on the bytes only, never on the chunking; each byte is looked at once per
//! pass (no rescans); at most `2 * MAX_LINE` bytes are held, and only while such a line is passing.
//!
//! Pitfall: the strings of an elided line are not what was sent. Never approve a tool call on one.

use memchr::memchr;

use super::elide::Elider;

/// Longest line, in bytes, that is delivered whole, and longest elided form. Well above what a healthy
/// session writes, well below what a process with a 32 MB budget may hold.
pub const MAX_LINE: usize = 4 * 1024 * 1024;

/// Bytes kept of each string of a line longer than [`MAX_LINE`].
pub const ELIDED_STRING_HEAD: usize = 4 * 1024;

/// Bytes of a skipped line that are kept as a sample.
pub const OVERSIZED_HEAD: usize = 1024;

/// A buffer larger than this is given back to the allocator after its line.
const RETAINED_BUFFER: usize = 256 * 1024;

/// Elision checks its limit this often, so that a huge chunk cannot grow the buffer past it.
const ELISION_STEP: usize = 64 * 1024;

/// One line, or what could be kept of it. No variant holds the line's end (`\n` or `\r\n`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A complete line, byte for byte.
    Line(&'a [u8]),
    /// A complete line longer than [`MAX_LINE`]: valid JSON if the line was, its long strings cut.
    Elided {
        /// The shortened line.
        line: &'a [u8],
        /// Length of the line as it was sent, in bytes.
        len: u64,
    },
    /// A line that was skipped because its elided form is too long too.
    Oversized {
        /// Length of the line as it was sent, in bytes.
        len: u64,
        /// The first bytes of its elided form, at most [`OVERSIZED_HEAD`].
        head: &'a [u8],
    },
    /// What followed the last newline when the stream ended (only from [`LineFramer::finish`]).
    Tail {
        /// The bytes: whole up to [`MAX_LINE`], elided or only a head beyond it.
        bytes: &'a [u8],
        /// Their number as they were sent.
        len: u64,
    },
}

/// Counters of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameStats {
    /// Bytes pushed.
    pub bytes: u64,
    /// Complete lines, the elided and the skipped ones included.
    pub lines: u64,
    /// Lines delivered with their long strings cut.
    pub elided: u64,
    /// Lines skipped.
    pub oversized: u64,
}

/// The framer; see the module documentation.
#[derive(Debug)]
pub struct LineFramer {
    buffer: Vec<u8>,
    /// Bytes of the current line seen so far.
    len: u64,
    mode: Mode,
    stats: FrameStats,
    max_line: usize,
    string_head: usize,
}

#[derive(Debug)]
enum Mode {
    Whole,
    Eliding(Elider),
    Skipping,
}

impl Default for LineFramer {
    fn default() -> Self {
        Self::new()
    }
}

impl LineFramer {
    /// A framer at the start of a stream.
    pub fn new() -> Self {
        Self::with_limits(MAX_LINE, ELIDED_STRING_HEAD)
    }

    /// A framer with other limits than [`MAX_LINE`] and [`ELIDED_STRING_HEAD`].
    pub fn with_limits(max_line: usize, string_head: usize) -> Self {
        Self {
            buffer: Vec::new(),
            len: 0,
            mode: Mode::Whole,
            stats: FrameStats::default(),
            max_line,
            string_head,
        }
    }

    /// Takes the next chunk and hands each line that it completes to `sink`, in order.
    pub fn push(&mut self, chunk: &[u8], mut sink: impl FnMut(Frame<'_>)) {
        self.stats.bytes += chunk.len() as u64;
        let mut rest = chunk;
        while let Some(newline) = memchr(b'\n', rest) {
            self.end_line(&rest[..newline], &mut sink);
            rest = &rest[newline + 1..];
        }
        self.extend(rest);
    }

    /// Ends the stream: hands an unterminated last line, if there is one, to `sink` as [`Frame::Tail`].
    /// The framer is ready for another stream afterwards, its counters go on.
    pub fn finish(&mut self, sink: impl FnOnce(Frame<'_>)) {
        if self.len > 0 {
            sink(Frame::Tail { bytes: &self.buffer, len: self.len });
        }
        self.reset();
    }

    /// Counters so far.
    pub fn stats(&self) -> FrameStats {
        self.stats
    }

    /// Whether the stream stands in the middle of a line.
    pub fn mid_line(&self) -> bool {
        self.len > 0
    }

    fn end_line(&mut self, segment: &[u8], sink: &mut impl FnMut(Frame<'_>)) {
        self.stats.lines += 1;
        if self.len == 0 && segment.len() <= self.max_line {
            sink(Frame::Line(trim_cr(segment)));
            return;
        }
        self.extend(segment);
        let frame = match self.mode {
            Mode::Whole => Frame::Line(trim_cr(&self.buffer)),
            Mode::Eliding(_) => {
                self.stats.elided += 1;
                Frame::Elided { line: trim_cr(&self.buffer), len: self.len }
            }
            Mode::Skipping => {
                self.stats.oversized += 1;
                Frame::Oversized { len: self.len, head: &self.buffer }
            }
        };
        sink(frame);
        self.reset();
    }

    fn extend(&mut self, segment: &[u8]) {
        self.len += segment.len() as u64;
        if matches!(self.mode, Mode::Whole) {
            if self.buffer.len() + segment.len() <= self.max_line {
                self.buffer.extend_from_slice(segment);
                return;
            }
            self.mode = Mode::Eliding(Elider::new(self.string_head));
            let begun = std::mem::take(&mut self.buffer);
            self.elide(&begun);
        }
        self.elide(segment);
    }

    fn elide(&mut self, segment: &[u8]) {
        for piece in segment.chunks(ELISION_STEP) {
            let Mode::Eliding(elider) = &mut self.mode else { return };
            elider.feed(piece, &mut self.buffer);
            if self.buffer.len() > self.max_line {
                self.mode = Mode::Skipping;
                self.buffer.truncate(OVERSIZED_HEAD.min(self.max_line));
                self.buffer.shrink_to_fit();
            }
        }
    }

    fn reset(&mut self) {
        self.len = 0;
        self.mode = Mode::Whole;
        self.buffer.clear();
        if self.buffer.capacity() > RETAINED_BUFFER {
            self.buffer = Vec::new();
        }
    }
}

/// One trailing `\r` belongs to the line's end.
fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame as owned text, for comparison.
    fn show(frame: Frame<'_>) -> String {
        let text = String::from_utf8_lossy;
        match frame {
            Frame::Line(line) => format!("line {}", text(line)),
            Frame::Elided { line, len } => format!("elided {len} {}", text(line)),
            Frame::Oversized { len, head } => format!("oversized {len} {}", text(head)),
            Frame::Tail { bytes, len } => format!("tail {len} {}", text(bytes)),
        }
    }

    fn frames<'a>(mut framer: LineFramer, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut out = Vec::new();
        for chunk in chunks {
            framer.push(chunk, |frame| out.push(show(frame)));
        }
        framer.finish(|frame| out.push(show(frame)));
        out
    }

    #[test]
    fn lines_of_every_kind() {
        #[track_caller]
        fn check(stream: &[u8], expected: &[&str]) {
            for piece in [1, 2, 7, 1000] {
                let framer = LineFramer::with_limits(16, 4);
                assert_eq!(frames(framer, stream.chunks(piece)), expected, "in pieces of {piece}");
            }
        }
        check(b"", &[]);
        check(b"a\nbc\n", &["line a", "line bc"]);
        check(b"a\r\n\n\r\nb\rc\n", &["line a", "line ", "line ", "line b\rc"]);
        check(b"a\nrest", &["line a", "tail 4 rest"]);
        check(b"\xff\xfe\n", &["line \u{fffd}\u{fffd}"]);
        check(b"0123456789abcdef\nx\n", &["line 0123456789abcdef", "line x"]);
    }

    #[test]
    fn long_lines_are_cut_then_skipped_and_the_next_line_is_found() {
        let run = |stream: &str| frames(LineFramer::with_limits(40, 4), stream.as_bytes().chunks(5));
        let long = "x".repeat(60);
        assert_eq!(
            run(&format!("[\"{long}\",7]\r\nnext\n")),
            ["elided 67 [\"xxxx [56 bytes cut]\",7]", "line next"]
        );
        assert_eq!(
            run(&format!("{long}\nnext\n")),
            [format!("oversized 60 {}", &long[..40]), "line next".into()]
        );
        assert_eq!(run(&format!("a\n[\"{long}")), ["line a", "tail 62 [\"xxxx"]);
    }

    #[test]
    fn counters_and_memory_follow_the_lines() {
        let mut framer = LineFramer::with_limits(1024 * 1024, 16);
        let mut line = vec![b'"'; 1];
        line.resize(3 * 1024 * 1024, b'x');
        line.extend_from_slice(b"\"\nshort\n");
        line.extend(std::iter::repeat_n(b'y', 2 * 1024 * 1024));
        line.extend_from_slice(b"\ntail");
        let mut highest = 0;
        for chunk in line.chunks(10_000) {
            framer.push(chunk, |_| ());
            highest = highest.max(framer.buffer.capacity());
        }
        let bytes = line.len() as u64;
        assert_eq!(framer.stats(), FrameStats { bytes, lines: 3, elided: 1, oversized: 1 });
        assert!(highest <= 2 * 1024 * 1024, "held {highest}");
        assert!(framer.mid_line());
        assert!(framer.buffer.capacity() <= RETAINED_BUFFER);
        framer.finish(|_| ());
        assert!(!framer.mid_line());
    }

    /// Pieces of streams in which quotes, escapes, newlines and long runs meet.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\"".to_vec()),
            Just(b"\\".to_vec()),
            Just(b"\\ud83d\\ude00".to_vec()),
            Just("\u{1F600}".as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..4),
            (0_usize..60).prop_map(|n| vec![b'z'; n]),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_frames(
            stream in stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            max_line in 1_usize..80,
            string_head in 0_usize..20,
        ) {
            let framer = || LineFramer::with_limits(max_line, string_head);
            let whole = frames(framer(), [stream.as_slice()]);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
            prop_assert_eq!(&whole, &frames(framer(), chunks));

            // One frame for each newline and one for the tail, short lines verbatim.
            let mut lines: Vec<&[u8]> = stream.split(|&byte| byte == b'\n').collect();
            let tail = lines.pop().unwrap_or_default();
            prop_assert_eq!(whole.len(), lines.len() + usize::from(!tail.is_empty()));
            for (frame, line) in whole.iter().zip(lines) {
                if line.len() <= max_line {
                    prop_assert_eq!(frame, &show(Frame::Line(trim_cr(line))));
                }
            }
        }
    }
}
