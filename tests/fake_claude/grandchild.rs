//! A process that a script leaves behind: the double started again as `fake-claude __grandchild STATE OPTION…`.
//! Options: `setsid`, `ignore-term`, `busy` (uses about a third of a CPU), `ms=N` (ends by itself).
//! It ends on its own after two minutes, or as soon as the test's folder is gone, so that a failing test leaks nothing.

use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

/// The hidden first argument.
pub(crate) const WORD: &str = "__grandchild";

/// Longest life.
const LIFE: Duration = Duration::from_mins(2);

/// Runs the grandchild.
pub(crate) fn run(state: &Path, options: &[String]) -> io::Result<()> {
    let has = |name: &str| options.iter().any(|o| o == name);
    if has("setsid") {
        rustix::process::setsid()?;
    }
    // Registering a handler and never looking at it ignores the signal.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let _ignored = if has("ignore-term") { Some(signal(SignalKind::terminate())?) } else { None };

    let life =
        options.iter().find_map(|o| o.strip_prefix("ms=")?.parse().ok()).map_or(LIFE, Duration::from_millis);
    let folder = state.join("grandchildren");
    let pid = std::process::id();
    let temporary = folder.join(format!("{pid}.tmp"));
    fs::write(&temporary, json!({"pid": pid, "options": options}).to_string())?;
    fs::rename(&temporary, folder.join(format!("{pid}.json")))?;

    let start = Instant::now();
    while start.elapsed() < life && folder.exists() {
        if has("busy") {
            let spin = Instant::now();
            while spin.elapsed() < Duration::from_millis(10) {
                black_box(spin);
            }
            thread::sleep(Duration::from_millis(20));
        } else {
            thread::sleep(life.saturating_sub(start.elapsed()).min(Duration::from_millis(200)));
        }
    }
    Ok(())
}
