//! Bytes → lines. The frames depend on the bytes and never on how they were cut into chunks; no byte is lost.

use autopilot::protocol::frame::{Frame, LineFramer};

/// Small limits, so that elision and skipping are reached within a short input.
const LIMITS: [(usize, usize); 3] = [(64, 8), (256, 16), (4096, 64)];

#[derive(Debug, PartialEq)]
enum Owned {
    Line(Vec<u8>),
    Elided(Vec<u8>, u64),
    Oversized(Vec<u8>, u64),
    Tail(Vec<u8>, u64),
}

fn owned(frame: Frame<'_>) -> Owned {
    match frame {
        Frame::Line(bytes) => Owned::Line(bytes.to_vec()),
        Frame::Elided { line, len } => Owned::Elided(line.to_vec(), len),
        Frame::Oversized { len, head } => Owned::Oversized(head.to_vec(), len),
        Frame::Tail { bytes, len } => Owned::Tail(bytes.to_vec(), len),
    }
}

fn frames<'a>(limits: (usize, usize), chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Owned>, u64) {
    let mut framer = LineFramer::with_limits(limits.0, limits.1);
    let mut found = Vec::new();
    for chunk in chunks {
        framer.push(chunk, |frame| found.push(owned(frame)));
    }
    let bytes = framer.stats().bytes;
    framer.finish(|frame| found.push(owned(frame)));
    (found, bytes)
}

/// The first byte chooses the limits, the second the size of the chunks.
pub fn run(mut data: &[u8]) {
    let limits = LIMITS[super::byte(&mut data) % LIMITS.len()];
    let size = super::byte(&mut data).max(1);
    let (whole, bytes) = frames(limits, std::iter::once(data));
    assert_eq!(bytes, data.len() as u64);
    let (cut, _) = frames(limits, data.chunks(size));
    assert_eq!(whole, cut, "chunks of {size}");
    let newlines = data.split(|byte| *byte == b'\n').count() - 1;
    let tails = whole.iter().filter(|frame| matches!(frame, Owned::Tail(..))).count();
    assert_eq!(whole.len(), newlines + tails, "a line each");
    for frame in &whole {
        match frame {
            Owned::Line(line) => assert!(line.len() <= limits.0 + 1 && !line.contains(&b'\n')),
            Owned::Elided(line, len) => assert!(line.len() as u64 <= *len && !line.contains(&b'\n')),
            Owned::Oversized(head, len) => assert!(head.len() as u64 <= *len),
            Owned::Tail(bytes, len) => assert!(bytes.len() as u64 <= *len),
        }
    }
}
