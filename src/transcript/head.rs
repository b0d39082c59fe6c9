//! The first entries of a transcript: whose it is, and whether it holds a message.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::record::{Entry, lossy};

/// How much of the beginning is read.
const HEAD: u64 = 256 << 10;

/// What the beginning of a transcript says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The first `sessionId`.
    pub session_id: Option<String>,
    /// The first `cwd`.
    pub cwd: Option<String>,
    /// A message with text was seen.
    pub has_message: bool,
    /// Bytes read.
    pub read: u64,
}

impl Head {
    /// Reads at most the first 256 KiB; a line that goes on behind them is not looked at.
    pub(super) fn read(file: &File, size: u64) -> std::io::Result<Self> {
        let read = size.min(HEAD);
        let mut bytes = vec![0; usize::try_from(read).map_err(std::io::Error::other)?];
        file.read_exact_at(&mut bytes, 0)?;
        let mut head = Self { read, ..Self::default() };
        for line in bytes.split(|b| *b == b'\n') {
            let line = lossy(line);
            let Some(entry) = Entry::parse(line.trim_matches(['\0', ' ', '\r'])) else { continue };
            let keep = |text: &Option<super::record::Text<'_>>| text.as_ref().map(|t| t.as_str().to_owned());
            head.session_id = head.session_id.or_else(|| keep(&entry.session_id));
            head.cwd = head.cwd.or_else(|| keep(&entry.cwd));
            head.has_message |= entry.conversation().is_some() && !entry.content().text().is_empty();
        }
        Ok(head)
    }
}
