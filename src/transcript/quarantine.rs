//! Frees a session id that a message-less transcript blocks.
//!
//! A file `<id>.jsonl` without a message is refused by `--resume` ("No conversation found") *and* by
//! `--session-id` ("already in use"), so the id is wedged until the file is out of the way (claude-code §4).
//! It is renamed, never deleted, and a file with a message is never touched.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::record::{Entry, lossy};
use super::{TranscriptError, open};

/// A line longer than this is taken for a message, unread: refusing is always safe.
const LONGEST_LINE: u64 = 64 << 20;

/// What [`quarantine`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quarantine {
    /// There is no file: the id is free.
    NothingThere,
    /// The file holds a message: a real conversation, untouched.
    Refused,
    /// The file was renamed to this.
    Renamed(PathBuf),
}

/// Renames the transcript at `path` to `<path>.unresumable-<now_ms>` when the whole file holds no user or
/// assistant message, with or without text, of whatever chain. `now_ms` is milliseconds since the epoch; when
/// that name is taken the next free number is used.
///
/// No process may be running on the session: the caller holds the one-live-process rule. A file that grows
/// while it is read is refused all the same.
///
/// # Errors
/// The file cannot be read or renamed, or is not a regular file.
pub fn quarantine(path: &Path, now_ms: u64) -> Result<Quarantine, TranscriptError> {
    let Some((file, size)) = open(path)? else { return Ok(Quarantine::NothingThere) };
    if holds_message(&file).map_err(|source| TranscriptError::io("read", path, source))? {
        return Ok(Quarantine::Refused);
    }
    match open(path)? {
        None => return Ok(Quarantine::NothingThere),
        Some((_, now)) if now != size => return Ok(Quarantine::Refused),
        Some(_) => {}
    }
    let target = (now_ms..=u64::MAX).map(|ms| with_suffix(path, ms)).find(|p| p.symlink_metadata().is_err());
    let Some(target) = target else {
        return Err(TranscriptError::io("rename", path, io::ErrorKind::AlreadyExists.into()));
    };
    std::fs::rename(path, &target).map_err(|source| TranscriptError::io("rename", path, source))?;
    Ok(Quarantine::Renamed(target))
}

fn with_suffix(path: &Path, ms: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".unresumable-{ms}"));
    PathBuf::from(name)
}

fn holds_message(file: &File) -> io::Result<bool> {
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? as u64;
        if read == 0 {
            return Ok(false);
        }
        let blank = line.iter().all(|b| *b == 0 || b.is_ascii_whitespace());
        if read == LONGEST_LINE && !blank {
            return Ok(true);
        }
        let text = lossy(&line);
        if Entry::parse(text.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace()))
            .is_some_and(|entry| entry.role().is_some())
        {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn only_a_file_without_any_message_is_moved() {
        let message = r#"{"type":"user","message":{"content":"hi"}}"#;
        for (name, text, moved) in [
            ("empty", String::new(), true),
            ("queue lines", r#"{"type":"queue-operation"}"#.to_owned() + "\n", true),
            ("garbage", "garbage\n\0\0\0\n[]\n".to_owned(), true),
            ("torn first message", message[..20].to_owned(), true),
            ("message", message.to_owned() + "\n", false),
            ("message without a newline", message.to_owned(), false),
            ("message behind NULs", format!("\0\0\0{message}\n"), false),
            ("image only", r#"{"type":"user","message":{"content":[{"type":"image"}]}}"#.to_owned(), false),
            ("meta only", r#"{"type":"user","isMeta":true,"message":{"content":"x"}}"#.to_owned(), false),
            ("long line first", "x".repeat(1 << 20) + "\n" + message, false),
        ] {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join("id.jsonl");
            File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
            let done = quarantine(&path, 42).unwrap();
            if moved {
                let target = temp.path().join("id.jsonl.unresumable-42");
                assert_eq!(done, Quarantine::Renamed(target.clone()), "{name}");
                assert_eq!(fs::read(target).unwrap(), text.as_bytes(), "{name}");
                assert_eq!(quarantine(&path, 42).unwrap(), Quarantine::NothingThere, "{name}");
            } else {
                assert_eq!(done, Quarantine::Refused, "{name}");
                assert_eq!(fs::read(&path).unwrap(), text.as_bytes(), "{name}");
            }
        }
    }

    #[test]
    fn an_earlier_quarantine_is_never_overwritten() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("id.jsonl");
        for expected in ["id.jsonl.unresumable-7", "id.jsonl.unresumable-8"] {
            File::create(&path).unwrap();
            assert_eq!(quarantine(&path, 7).unwrap(), Quarantine::Renamed(temp.path().join(expected)));
        }
    }

    #[test]
    fn a_directory_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        assert!(matches!(quarantine(temp.path(), 7), Err(TranscriptError::NotAFile { .. })));
    }
}
