//! Waiting for a condition with a deadline: the only way to wait in these tests.

use std::thread;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const STEP: Duration = Duration::from_millis(5);

/// Longest wait where a test says nothing else. Generous: a loaded machine must not fail a test.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Waits until `look` gives a value. `None` after `limit`.
pub(crate) fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = look() {
            return Some(value);
        }
        if start.elapsed() >= limit {
            return None;
        }
        thread::sleep(STEP);
    }
}

/// Like [`poll`] with [`LONG`], and fails the test with `what` when nothing comes.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    poll(LONG, look).unwrap_or_else(|| panic!("waited {LONG:?} in vain: {what}"))
}
