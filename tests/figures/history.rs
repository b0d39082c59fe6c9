//! What the last sessions cost to read, however long the history.

use std::time::{Duration, Instant};

use autopilot::core::signals::RECENT_SESSIONS;
use autopilot::signals::sessions::recent;
use autopilot::state::layout::Layout;
use jiff::Timestamp;

use super::figure::{Measured, mb, median, ms};
use super::launch::{RECORDS, session_record};

pub(crate) fn reading_time() -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path());
    std::fs::create_dir_all(layout.metrics()).unwrap();
    let mut text = String::new();
    for number in 0..RECORDS {
        session_record(&mut text, number);
    }
    std::fs::write(layout.sessions_jsonl(), &text).unwrap();
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let start = Instant::now();
            let (sessions, _) = recent(&layout, RECENT_SESSIONS, Timestamp::now());
            let time = start.elapsed();
            assert_eq!(sessions.len(), RECENT_SESSIONS);
            time
        })
        .collect();
    Measured {
        value: format!("{:.2} ms", ms(median(&mut times))),
        within: None,
        how: format!(
            "the last {RECENT_SESSIONS} sessions out of {RECORDS} records, {:.0} MB, cache warm, median of 21",
            mb(text.len() as u64)
        ),
    }
}
