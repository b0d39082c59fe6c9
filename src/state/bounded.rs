//! Reading a small file of somebody else, whose size nobody vouches for.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use thiserror::Error;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded {
    /// All of its bytes.
    pub bytes: Vec<u8>,
    /// When it was last changed; `None` where the file system does not say.
    pub modified: Option<SystemTime>,
}

/// Why a file was not read.
#[derive(Debug, Error)]
pub enum BoundedError {
    /// It is a folder, a pipe, a device.
    #[error("not a regular file")]
    NotAFile,
    /// It is larger than the caller is willing to read.
    #[error("too large: {size} bytes, at most {limit} are read")]
    TooLarge {
        /// Its bytes; what was read when it grew in between.
        size: u64,
        /// The bound.
        limit: u64,
    },
    /// The system refuses.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// The file at `path`, if it has no more than `limit` bytes; `None` when there is none. Never reads more than
/// `limit` + 1 bytes.
pub fn read(path: &Path, limit: u64) -> Result<Option<Bounded>, BoundedError> {
    // Asked before it is opened: opening a FIFO would block.
    let opened = fs::metadata(path).and_then(|metadata| {
        if metadata.is_file() { Ok(Some((File::open(path)?, metadata))) } else { Ok(None) }
    });
    let (file, metadata) = match opened {
        Ok(Some(opened)) => opened,
        Ok(None) => return Err(BoundedError::NotAFile),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if metadata.len() > limit {
        return Err(BoundedError::TooLarge { size: metadata.len(), limit });
    }
    let mut bytes = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut bytes)? as u64;
    if read > limit {
        return Err(BoundedError::TooLarge { size: read, limit });
    }
    Ok(Some(Bounded { bytes, modified: metadata.modified().ok() }))
}

/// Whole seconds since a file was changed; 0 when that is still to come.
#[must_use]
pub fn age_seconds(modified: SystemTime, now: Timestamp) -> Option<u64> {
    let seconds = now.as_second() - Timestamp::try_from(modified).ok()?.as_second();
    Some(u64::try_from(seconds).unwrap_or(0))
}

/// Whole seconds since the file at `path` was changed; `None` when there is none.
#[must_use]
pub fn age_of(path: &Path, now: Timestamp) -> Option<u64> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok().and_then(|at| age_seconds(at, now))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::state::atomic::replace;

    #[test]
    fn up_to_the_limit_and_not_a_byte_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert_eq!(read(&path, 3).unwrap(), None);
        replace(&path, b"abc", 0o600).unwrap();
        assert_eq!(read(&path, 3).unwrap().unwrap().bytes, b"abc");
        let refused = read(&path, 2).unwrap_err().to_string();
        assert!(refused.contains("too large: 3 bytes") && refused.contains('2'), "{refused}");
        for odd in [folder.path(), Path::new("/dev/zero")] {
            assert!(matches!(read(odd, 9), Err(BoundedError::NotAFile)), "{}", odd.display());
        }
        assert!(matches!(read(&path.join("below"), 9), Err(BoundedError::Io(_))));
    }

    #[test]
    fn ages_are_never_negative() {
        let now: Timestamp = "2026-11-03T01:17:00Z".parse().unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(now.as_second()).unwrap());
        for (changed, expected) in
            [(at, 0), (at - Duration::from_secs(90), 90), (at + Duration::from_secs(90), 0)]
        {
            assert_eq!(age_seconds(changed, now), Some(expected));
        }
        assert_eq!(age_of(Path::new("/nonexistent/a"), now), None);
    }
}
