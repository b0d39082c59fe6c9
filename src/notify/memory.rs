//! What was delivered when, over all runs of a repository, and the log of one run.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::state::atomic::{self, FileError, PRIVATE_FILE};

/// Longer than the longest cooldown.
const KEPT: SignedDuration = SignedDuration::from_hours(14 * 24);

/// When which message was last delivered. A file that cannot be read is an empty one: the worst is a message too
/// many.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    /// By channel, then by the key of the notice.
    #[serde(default)]
    delivered: BTreeMap<String, BTreeMap<String, Timestamp>>,
}

impl Memory {
    pub(super) fn load(path: &Path) -> Memory {
        std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    pub(super) fn delivered_at(&self, channel: &str, key: &str) -> Option<Timestamp> {
        self.delivered.get(channel)?.get(key).copied()
    }

    pub(super) fn delivered(&mut self, channel: String, key: String, now: Timestamp) {
        self.delivered.entry(channel).or_default().insert(key, now);
        for keys in self.delivered.values_mut() {
            keys.retain(|_, at| now.duration_since(*at).abs() < KEPT);
        }
        self.delivered.retain(|_, keys| !keys.is_empty());
    }

    pub(super) fn store(&self, path: &Path) -> Result<(), FileError> {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        atomic::replace(path, &bytes, PRIVATE_FILE)
    }
}

/// Appends a line with one write.
pub(super) fn append(path: &Path, outcome: &Outcome) -> io::Result<()> {
    let mut line = serde_json::to_vec(outcome)?;
    line.push(b'\n');
    OpenOptions::new().append(true).create(true).mode(PRIVATE_FILE).open(path)?.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_remembered_and_forgotten_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notified.json");
        let now: Timestamp = "2026-12-01T03:00:00Z".parse().unwrap();
        let mut memory = Memory::load(&path);
        assert_eq!(memory.delivered_at("command", "healed:stalled"), None);
        memory.delivered("command".to_owned(), "healed:stalled".to_owned(), now);
        memory.store(&path).unwrap();
        let mut memory = Memory::load(&path);
        assert_eq!(memory.delivered_at("command", "healed:stalled"), Some(now));
        assert_eq!(memory.delivered_at("mail", "healed:stalled"), None);
        memory.delivered("mail".to_owned(), "x".to_owned(), now + KEPT);
        assert_eq!(memory.delivered_at("command", "healed:stalled"), None);
        // Damaged: as if there were none.
        atomic::replace(&path, b"{\"delivered\": [", PRIVATE_FILE).unwrap();
        assert_eq!(Memory::load(&path).delivered_at("mail", "x"), None);
    }
}
