//! Who else works in this tree: where a Claude session is the probe says, how old it is the process table.

use std::path::Path;

use crate::core::published::PeerSession;
use crate::probe::Probe;
use crate::process::{ProcessId, describe};

/// The Claude sessions of others whose working directory is in the working tree `root`. What cannot be told
/// counts as none.
#[must_use]
pub fn sessions_at_work(probe: &Probe, root: &Path) -> Vec<PeerSession> {
    let with_age = |pid| {
        let age = describe(&ProcessId::of(pid)?)?.age;
        Some(PeerSession { pid, age_seconds: age.as_secs() })
    };
    // One that has ended between the two looks is none.
    probe.sessions_in(root, std::process::id()).into_iter().filter_map(with_age).collect()
}
