//! The machine: disk, memory, the limits of its control group, its clock.

use std::ffi::OsString;
use std::path::Path;

use jiff::Timestamp;

use super::{Check, ok, problem, warning};
use crate::core::resources::{self, Reading};
use crate::inhibit::Inhibitor;
use crate::probe::Probe;
use crate::settings::Settings;
use crate::state::space::free_bytes;

/// Less than this is too little for a night of transcripts and builds.
const LITTLE_DISK: u64 = 1 << 30;
/// Claude Code alone takes several hundred megabytes, and what it builds comes on top.
const LITTLE_MEMORY: u64 = 2 << 30;
/// Before this program was written no clock is right.
const EARLIEST: i64 = 1_767_225_600;
/// Where systemd's own time service leaves a mark once it has the time.
const TIMESYNC: &str = "/run/systemd/timesync";

pub(super) fn disk(root: &Path) -> Check {
    match free_bytes(root) {
        Some(free) => {
            let words = format!("{:.1} GB free", free_gigabytes(free));
            if free < LITTLE_DISK {
                warning("disk", words, "free some space: transcripts and builds need it")
            } else {
                ok("disk", words)
            }
        }
        None => warning("disk", "free space cannot be read".to_owned(), "look with df"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn free_gigabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

pub(super) fn machine(settings: Option<&Settings>) -> Check {
    let own = std::process::id();
    let sample = Probe::new().sample(&|pid| pid == own);
    let default_cap = settings.map_or(resources::DEFAULT_CAP, |settings| settings.work.agents_per_wave);
    let verdict = resources::judge(&sample, default_cap);
    let words = format!(
        "{}, {} sub-agents per wave{}",
        verdict.tier,
        verdict.cap,
        verdict.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default()
    );
    match verdict.tier {
        resources::Tier::Unknown | resources::Tier::Green => ok("machine", words),
        _ => warning("machine", words, "close other sessions, or expect smaller waves"),
    }
}

/// What the control group of this process leaves (a container, a service with `MemoryMax`). Nothing when nothing is
/// limited.
pub(super) fn group() -> Option<Check> {
    match Probe::new().sample(&|_| true).cgroup_headroom {
        Reading::Absent => None,
        Reading::Failed(why) => {
            Some(warning("memory limit", why, "see whether this container limits memory"))
        }
        Reading::Value(left) => {
            let words = format!("{:.1} GB left of the limit of the control group", free_gigabytes(left));
            Some(if left < LITTLE_MEMORY {
                warning(
                    "memory limit",
                    words,
                    "raise the limit: a session that is killed for memory is lost work",
                )
            } else {
                ok("memory limit", words)
            })
        }
    }
}

/// Waits for usage limits aim at the wall clock.
pub(super) fn clock(now: Timestamp) -> Check {
    let words = format!("{} UTC", now.strftime("%F %H:%M"));
    if now.as_second() < EARLIEST {
        return problem("clock", words, "set the clock: waits for usage limits aim at it");
    }
    let folder = Path::new(TIMESYNC);
    if folder.is_dir() && !folder.join("synchronized").exists() {
        return warning("clock", format!("{words}, not synchronised"), "timedatectl set-ntp true");
    }
    ok("clock", words)
}

/// Whether a run can keep this machine awake. Nothing where the machine cannot sleep anyway.
pub(super) async fn sleep(
    settings: Option<&Settings>,
    root: &Path,
    environment: &[(OsString, OsString)],
) -> Option<Check> {
    let states = std::fs::read_to_string("/sys/power/state").unwrap_or_default();
    if !cfg!(target_os = "macos") && !states.contains("mem") && !states.contains("disk") {
        return None;
    }
    let next = "see that this machine does not go to sleep at night: a run sleeps with it, and goes on after the wake";
    if settings.is_some_and(|settings| settings.safety.no_inhibit) {
        return Some(warning("sleep", "a run does not keep this machine awake (no-inhibit)", next));
    }
    let granted = match Inhibitor::take(root, environment) {
        Some(mut inhibitor) => {
            let granted = inhibitor.is_granted().await;
            inhibitor.release().await;
            granted
        }
        None => false,
    };
    Some(if granted {
        ok("sleep", "a run keeps this machine awake")
    } else {
        warning("sleep", "a run cannot keep this machine awake: no systemd-inhibit, or it refuses", next)
    })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_clock_of_the_past() {
        assert_eq!(clock("1970-01-01T00:01:00Z".parse().unwrap()).verdict, Verdict::Problem);
        assert_ne!(clock("2026-12-01T00:00:00Z".parse().unwrap()).verdict, Verdict::Problem);
    }
}
