//! Ending a tree that does not want to end.

use std::time::Instant;

use rustix::process::Signal;

use super::figure::Measured;
use super::support::env::TestEnv;
use super::support::wait;

/// SIGTERM to `autopilot` while its session has a descendant that left its session and ignores SIGTERM. The
/// sweep gives it two seconds before SIGKILL, on purpose, so that is the floor of this figure.
pub(crate) fn stubborn_tree() -> Measured {
    let env = TestEnv::new();
    env.script(
        "init\ntext \"Building.\" partial\nspawn_grandchild setsid ignore-term hold-stdout\nmark up\nhang",
    );
    let mut run = env.start(&["--mode", "feature", "--prompt", "x", "--max-sessions", "1"]);
    run.wait_mark(1, "up");
    let start = Instant::now();
    run.signal(Signal::TERM);
    wait::until("nobody is left", || env.leftovers().is_empty().then_some(()));
    let empty = start.elapsed();
    let run = run.finish();
    let over = start.elapsed();
    assert_eq!(run.code(), Some(143), "{run}");
    Measured {
        value: format!("{:.2} s", empty.as_secs_f64()),
        within: None,
        how: format!(
            "SIGTERM to no process left, setsid grandchild that ignores SIGTERM and holds stdout, once; \
             exit seen after {:.2} s; 2 s of it are the grace before SIGKILL",
            over.as_secs_f64()
        ),
    }
}
