//! `.orchestrator/bootstrap.lock`: how thoroughly the project was set up (upstream-formats §5.8).
//!
//! `key: value` lines, `#` comments; all values are text. An empty file is a bootstrap without a tier, which is
//! not the same as none.

use jiff::Timestamp;

use super::source;
use crate::core::signals::{BootstrapLock, SourceReading};
use crate::state::bounded;
use crate::state::layout::Layout;

/// A lock is some lines; larger files are not read.
const LARGEST: u64 = 64 << 10;

/// The bootstrap of the repository; `None` when there is none, or it cannot be read.
#[must_use]
pub fn read(layout: &Layout, now: Timestamp) -> (Option<BootstrapLock>, SourceReading) {
    let path = layout.bootstrap_lock();
    let mut reading = source(layout.root(), &path, now);
    let lock = match bounded::read(&path, LARGEST) {
        Ok(Some(file)) => {
            if std::str::from_utf8(&file.bytes).is_err() {
                reading.problems.push("has bytes that are not UTF-8: they were replaced".to_owned());
            }
            parse(&String::from_utf8_lossy(&file.bytes), &mut reading.problems)
        }
        Ok(None) => return (None, reading),
        Err(error) => {
            "not read".clone_into(&mut reading.says);
            reading.problems.push(error.to_string());
            return (None, reading);
        }
    };
    reading.says = lock.tier.as_ref().map_or_else(|| "no tier".to_owned(), |tier| format!("tier {tier}"));
    (Some(lock), reading)
}

fn parse(text: &str, problems: &mut Vec<String>) -> BootstrapLock {
    let mut lock = BootstrapLock::default();
    let text = text.trim_start_matches('\u{feff}');
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(':') {
            Some((key, value)) if key.trim() == "tier" => lock.tier = Some(value.trim().to_owned()),
            Some(_) => {}
            None => problems.push(format!("line {number} has no colon: passed over")),
        }
    }
    lock.tier = lock.tier.filter(|tier| !tier.is_empty());
    lock
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::repository;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn tiers() {
        let check = |bytes: &[u8], tier: Option<&str>, says: &str, problems: usize| {
            let repository = repository(".orchestrator/bootstrap.lock", bytes);
            let (lock, reading) = read(&Layout::new(repository.path()), NOW);
            assert_eq!(lock, Some(BootstrapLock { tier: tier.map(ToOwned::to_owned) }));
            assert_eq!((reading.says.as_str(), reading.problems.len()), (says, problems), "{reading:?}");
            assert_eq!(reading.origin.as_deref(), Some(".orchestrator/bootstrap.lock"));
            assert_eq!((reading.source.as_str(), reading.age_seconds), ("bootstrap.lock", Some(0)));
        };
        check(b"", None, "no tier", 0);
        check(
            b"# made by hand\nversion: 1\ntier: deep\ntimestamp: 2026-05-01T10:00:00Z\n",
            Some("deep"),
            "tier deep",
            0,
        );
        check(b"\xef\xbb\xbftier:fast\r\n", Some("fast"), "tier fast", 0);
        check(b"  tier :  odd one  ", Some("odd one"), "tier odd one", 0);
        check(b"tier:\nnonsense\n\xff\n", None, "no tier", 3);
    }

    #[test]
    fn none() {
        let folder = tempfile::tempdir().unwrap();
        let (lock, reading) = read(&Layout::new(folder.path()), NOW);
        assert_eq!((lock, reading.origin, reading.says.as_str()), (None, None, "not there"));
        let repository = repository(".orchestrator/bootstrap.lock", &vec![b'#'; 70 << 10]);
        let (lock, reading) = read(&Layout::new(repository.path()), NOW);
        assert_eq!(lock, None);
        assert!(reading.says == "not read" && reading.problems[0].contains("too large"), "{reading:?}");
    }
}
