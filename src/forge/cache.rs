//! Answers kept between iterations and runs, in one small file.
//!
//! A good answer is used for [`FRESH`]. A failure is used for [`FRESH_FAILURE`] only, so that a network that is
//! back is noticed by the next iteration but one (upstream kept "no backlog" for the whole run). An answer to
//! another question, one from the future, and a file that cannot be read count as none at all.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::core::signals::{Backlog, CiStatus};
use crate::state::atomic;

/// How long an answer is used.
pub const FRESH: SignedDuration = SignedDuration::from_mins(10);

/// How long a failure is used.
pub const FRESH_FAILURE: SignedDuration = SignedDuration::from_mins(1);

/// Longest file that is read, in bytes. A hundred issues with long titles and many labels are far below.
const MAX_BYTES: u64 = 4 << 20;

/// Version of the file; another one is ignored.
const VERSION: u32 = 1;

/// What the program said, or that it did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer<T> {
    /// The command and all that the answer depends on.
    pub question: String,
    /// When it was asked.
    pub at: Timestamp,
    /// There was no answer that could be read.
    pub failed: bool,
    /// The answer.
    pub value: Option<T>,
    /// It, in a few words.
    pub says: String,
    /// What was wrong.
    pub problems: Vec<String>,
}

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cache {
    version: u32,
    /// Last answer about issues.
    pub backlog: Option<Answer<Backlog>>,
    /// Last answer about CI.
    pub ci: Option<Answer<CiStatus>>,
}

impl<T> Answer<T> {
    fn is_fresh(&self, question: &str, now: Timestamp) -> bool {
        let age = now.duration_since(self.at);
        let limit = if self.failed { FRESH_FAILURE } else { FRESH };
        self.question == question && !age.is_negative() && age < limit
    }
}

/// The answer to `question`, if there is a fresh one.
pub(super) fn fresh<T>(answer: Option<Answer<T>>, question: &str, now: Timestamp) -> Option<Answer<T>> {
    answer.filter(|answer| answer.is_fresh(question, now))
}

/// Reads the file; what cannot be read is empty.
pub(super) fn load(path: &Path) -> Cache {
    let read = || {
        // A named pipe in its place would block.
        if !fs::metadata(path)?.is_file() {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let cache: Option<Cache> = read().ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    cache.filter(|cache| cache.version == VERSION).unwrap_or_default()
}

/// Writes the file, readable by its owner alone. It is only a cache: a failure is logged.
pub(super) fn save(path: &Path, mut cache: Cache) {
    cache.version = VERSION;
    match serde_json::to_vec(&cache) {
        Ok(bytes) => {
            if let Err(error) = atomic::replace(path, &bytes, atomic::PRIVATE_FILE) {
                tracing::debug!(%error, "the answers of the forge were not kept");
            }
        }
        Err(error) => tracing::debug!(%error, "the answers of the forge were not kept"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn answer(failed: bool) -> Answer<CiStatus> {
        Answer {
            question: "q".into(),
            at: at("2026-03-31T12:00:00Z"),
            failed,
            value: (!failed).then_some(CiStatus::Green),
            says: "green: t".into(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn how_long_an_answer_is_used() {
        let check = |failed: bool, question: &str, now: &str, expected: bool| {
            let found = fresh(Some(answer(failed)), question, at(now));
            assert_eq!(found.is_some(), expected, "{failed} {question} {now}");
        };
        check(false, "q", "2026-03-31T12:00:00Z", true);
        check(false, "q", "2026-03-31T12:09:59Z", true);
        check(false, "q", "2026-03-31T12:10:00Z", false);
        check(false, "q", "2026-03-31T11:59:59Z", false);
        check(false, "other", "2026-03-31T12:00:00Z", false);
        check(true, "q", "2026-03-31T12:00:59Z", true);
        check(true, "q", "2026-03-31T12:01:00Z", false);
        check(true, "q", "2026-03-31T11:59:59Z", false);
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("forge.json");
        let backlog = Answer {
            question: "b".into(),
            at: at("2026-03-31T12:00:00.5Z"),
            failed: false,
            value: Some(Backlog { total: 3, forge: "github".into(), ..Backlog::default() }),
            says: "3 open".into(),
            problems: vec!["p".into()],
        };
        let cache = Cache { version: VERSION, backlog: Some(backlog), ci: Some(answer(true)) };
        save(&path, cache.clone());
        assert_eq!(load(&path), cache);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("forge.json");
        let good = serde_json::to_string(&Cache { version: VERSION, backlog: None, ci: Some(answer(false)) });
        let good = good.unwrap();
        let check = |text: &str, expected: bool| {
            File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(load(&path).ci.is_some(), expected, "{text}");
        };
        check(&good, true);
        for end in [0, 1, good.len() / 2, good.len() - 1] {
            check(&good[..end], false);
        }
        check("[]", false);
        check("null", false);
        check(&good.replace("\"version\":1", "\"version\":2"), false);
        check(&good.replace("\"green\"", "\"blue\""), false);
        check(&good.replace("2026-03", "2026-33"), false);
        fs::remove_file(&path).unwrap();
        assert_eq!(load(&path), Cache::default());
        fs::create_dir(&path).unwrap();
        assert_eq!(load(&path), Cache::default());
        // Nowhere to write: nothing happens.
        save(&folder.path().join("missing/forge.json"), Cache::default());
    }
}
