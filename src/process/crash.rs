//! Crash points: places at which a test has the program die, as by `kill -9` or a power cut.
//!
//! They stand around every step that leaves something on the disk. With the feature `test-fakes` and
//! `TEST_CRASH_POINT=n` in the environment, the n-th one that is passed ends the process by SIGKILL.
//! Without the feature there is nothing of it in the program.

/// Passes a crash point.
pub fn crash_point() {
    crash_after(|| {});
}

/// Passes a crash point whose death leaves what `last` does, such as half a line.
#[cfg(not(feature = "test-fakes"))]
#[inline]
pub fn crash_after(_last: impl FnOnce()) {}

/// Passes a crash point whose death leaves what `last` does, such as half a line.
#[cfg(feature = "test-fakes")]
pub fn crash_after(last: impl FnOnce()) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static AT: LazyLock<Option<u64>> = LazyLock::new(|| std::env::var("TEST_CRASH_POINT").ok()?.parse().ok());
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let Some(at) = *AT else { return };
    if PASSED.fetch_add(1, Ordering::Relaxed) + 1 == at {
        last();
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::KILL).ok();
        // The signal may take a moment to arrive, and nothing may be done in it.
        loop {
            std::thread::park();
        }
    }
}
