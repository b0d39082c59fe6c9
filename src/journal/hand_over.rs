//! `handover.json`: what the last session left, for the first session of the next run.
//!
//! One small document, replaced as a whole. Readers forgive everything: a file that is damaged, or of a newer
//! version, tells nothing, and that is said; a run never fails for it.

use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::core::hand_over::HandOver;
use crate::core::signals::SourceReading;
use crate::state::atomic::{self, FileError, PRIVATE_FILE};

/// Version of the document; a reader ignores a newer one.
pub const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    v: u32,
    at: Timestamp,
    #[serde(flatten)]
    hand_over: HandOver,
}

/// Writes it.
///
/// # Errors
/// When the file cannot be replaced.
pub fn write(path: &Path, hand_over: &HandOver, now: Timestamp) -> Result<(), FileError> {
    let document = Document { v: FORMAT, at: now, hand_over: hand_over.clone() };
    let mut bytes = serde_json::to_vec_pretty(&document).unwrap_or_default();
    bytes.push(b'\n');
    atomic::replace(path, &bytes, PRIVATE_FILE)
}

/// Reads it. What is not there, or cannot be used, is an empty hand-over with a word on why.
#[must_use]
pub fn read(path: &Path, now: Timestamp) -> (HandOver, SourceReading) {
    let mut reading = SourceReading { source: "hand-over".to_owned(), ..SourceReading::default() };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            "none".clone_into(&mut reading.says);
            return (HandOver::default(), reading);
        }
        Err(error) => {
            "cannot be read".clone_into(&mut reading.says);
            reading.problems.push(error.to_string());
            return (HandOver::default(), reading);
        }
    };
    reading.origin = path.file_name().map(|name| name.to_string_lossy().into_owned());
    match serde_json::from_slice::<Document>(&bytes) {
        Ok(document) if document.v <= FORMAT => {
            let age = now.as_second().saturating_sub(document.at.as_second());
            reading.age_seconds = Some(u64::try_from(age).unwrap_or(0));
            reading.says = format!(
                "{}, {} not to retry, {} open questions",
                document.hand_over.session_id.as_deref().unwrap_or("no session"),
                document.hand_over.do_not_retry.len(),
                document.hand_over.open_questions.len(),
            );
            (document.hand_over, reading)
        }
        Ok(document) => {
            "not used".clone_into(&mut reading.says);
            reading.problems.push(format!("version {} is newer than {FORMAT}", document.v));
            (HandOver::default(), reading)
        }
        Err(error) => {
            "not used".clone_into(&mut reading.says);
            reading.problems.push(error.to_string());
            (HandOver::default(), reading)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("handover.json");
        let now: Timestamp = "2026-11-30T08:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-11-30T09:00:00Z".parse().unwrap();

        let (nothing, reading) = read(&path, now);
        assert_eq!((nothing, reading.origin, reading.problems), (HandOver::default(), None, Vec::new()));

        let hand_over = HandOver {
            session_id: Some("s1".to_owned()),
            summary: Some("half \"done\"\nü".to_owned()),
            do_not_retry: vec!["x".to_owned()],
            open_questions: vec!["y?".to_owned()],
        };
        write(&path, &hand_over, now).unwrap();
        let (found, reading) = read(&path, later);
        assert_eq!(found, hand_over);
        assert_eq!(reading.age_seconds, Some(3600));
        assert!(reading.problems.is_empty(), "{reading:?}");

        for damaged in ["", "{", "[]", r#"{"v":2,"at":"2026-11-30T08:00:00Z","summary":"from the future"}"#] {
            atomic::replace(&path, damaged.as_bytes(), PRIVATE_FILE).unwrap();
            let (found, reading) = read(&path, later);
            assert_eq!((found, reading.problems.len()), (HandOver::default(), 1), "{damaged}");
        }
    }
}
