//! The clocks of the run, the only place that reads them.

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::core::time::Now;

/// Reads both clocks.
#[must_use]
pub fn now() -> Now {
    Now { mono: with_suspend(), wall: wall() }
}

/// The wall clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// Time the machine has been asleep since boot, as far as it can be told.
#[must_use]
pub fn asleep() -> Duration {
    with_suspend().saturating_sub(read(ClockId::Monotonic))
}

/// Since boot, time asleep included: a deadline is a deadline whether the machine slept or not.
#[cfg(target_os = "linux")]
fn with_suspend() -> Duration {
    read(ClockId::Boottime) + slept_in_a_test()
}

/// Test builds only: as if the machine had slept for as many seconds as stand in the file that
/// `TEST_ASLEEP_FILE` names. Half an hour passes no other way in a test of the whole program.
#[cfg(feature = "test-fakes")]
fn slept_in_a_test() -> Duration {
    std::env::var_os("TEST_ASLEEP_FILE")
        .and_then(|path| std::fs::read_to_string(path).ok())
        .and_then(|text| text.trim().parse().ok())
        .map_or(Duration::ZERO, Duration::from_secs)
}

#[cfg(not(feature = "test-fakes"))]
const fn slept_in_a_test() -> Duration {
    Duration::ZERO
}

/// macOS: `CLOCK_MONOTONIC` counts the time asleep there. Not verified.
#[cfg(not(target_os = "linux"))]
fn with_suspend() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}
