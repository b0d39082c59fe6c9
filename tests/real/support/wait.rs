//! Waiting for a condition with a deadline, in place of sleeping.

use std::time::{Duration, Instant};

/// Longest time for any single step of a test. A whole turn takes about 1.5 s on an idle machine.
pub(crate) const STEP: Duration = Duration::from_mins(1);

/// How often a condition is looked at.
const PERIOD: Duration = Duration::from_millis(5);

/// Waits until `ready` gives a value; fails the test after `within`.
pub(crate) fn until<T>(what: &str, within: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        std::thread::sleep(PERIOD);
    }
}
