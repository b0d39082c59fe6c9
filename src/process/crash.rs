//! Crash points: places at which a test has the program die, as by `kill -9` or a power cut.
//!
//! They stand around every step that leaves something on the disk. With the feature `test-fakes` and
//! `TEST_CRASH_POINT=n` in the environment, the n-th one between two steps ends the process by SIGKILL; with
//! `TEST_CRASH_WITHIN=n` the n-th one within a step. Without the feature there is nothing of it in the program.

/// Passes a crash point between two steps.
#[cfg(not(feature = "test-fakes"))]
#[inline]
pub fn crash_point() {}

/// Passes a crash point within a step: a death there leaves what `half` does, such as half a line.
#[cfg(not(feature = "test-fakes"))]
#[inline]
pub fn crash_within(_half: impl FnOnce()) {}

#[cfg(feature = "test-fakes")]
pub use counted::{crash_point, crash_within};

#[cfg(feature = "test-fakes")]
mod counted {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Which point of a kind is deadly, and how many were passed.
    struct Points {
        deadly: Option<u64>,
        passed: AtomicU64,
    }

    impl Points {
        fn of(variable: &str) -> Points {
            let deadly = std::env::var(variable).ok().and_then(|number| number.parse().ok());
            Points { deadly, passed: AtomicU64::new(0) }
        }

        fn pass(&self, last: impl FnOnce()) {
            if self.deadly == Some(self.passed.fetch_add(1, Ordering::Relaxed) + 1) {
                last();
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).ok();
                // The signal may take a moment to arrive, and nothing may be done in it.
                loop {
                    std::thread::park();
                }
            }
        }
    }

    static BETWEEN: LazyLock<Points> = LazyLock::new(|| Points::of("TEST_CRASH_POINT"));
    static WITHIN: LazyLock<Points> = LazyLock::new(|| Points::of("TEST_CRASH_WITHIN"));

    /// Passes a crash point between two steps.
    pub fn crash_point() {
        BETWEEN.pass(|| {});
    }

    /// Passes a crash point within a step: a death there leaves what `half` does, such as half a line.
    pub fn crash_within(half: impl FnOnce()) {
        WITHIN.pass(half);
    }
}
