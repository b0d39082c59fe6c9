//! Keeps the machine awake while a run goes on (field-reports L01).
//!
//! A helper of the system holds the wish: `systemd-inhibit` (logind) on Linux, `caffeinate` on macOS. Each lives as
//! long as the pipe that it, or what it runs, reads from: when this process ends, however it ends, so does the wish.
//! A system without such a helper, or one that refuses (no session, a container), is a system that is not kept awake;
//! nothing else follows from it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use crate::process::{Child, Cookie, HELPER_COOKIE, SpawnSpec, spawn};

/// A helper that is still there after this has got what it wanted.
const REFUSED_WITHIN: Duration = Duration::from_millis(500);
/// How long a helper has to notice that its pipe was closed.
const RELEASED_WITHIN: Duration = Duration::from_secs(2);

/// Holds the machine awake until it is dropped.
#[derive(Debug)]
pub struct Inhibitor {
    child: Child,
}

impl Inhibitor {
    /// Asks for it. `None`: this system has no such helper.
    #[must_use]
    pub fn take(root: &Path, environment: &[(OsString, OsString)]) -> Option<Inhibitor> {
        let (program, args): (&str, &[&str]) = if cfg!(target_os = "macos") {
            // Idle sleep, and sleep on mains; as long as `cat` lives.
            ("caffeinate", &["-i", "-s", "cat"])
        } else {
            let args = &[
                "--what=sleep:idle",
                "--who=autopilot",
                "--why=a run of Claude Code sessions goes on",
                "--mode=block",
                "cat",
            ];
            ("systemd-inhibit", args)
        };
        let spec = SpawnSpec {
            program: program.into(),
            args: args.iter().map(OsString::from).collect(),
            env: environment.to_vec(),
            cwd: root.to_owned(),
            cookie: Cookie::unique(HELPER_COOKIE),
        };
        match spawn(&spec) {
            Ok(child) => Some(Inhibitor { child }),
            Err(error) => {
                tracing::debug!(%error, "the machine is not kept awake");
                None
            }
        }
    }

    /// Whether it was granted, once that can be told: a helper that was refused ends at once.
    pub async fn is_granted(&mut self) -> bool {
        timeout(REFUSED_WITHIN, self.child.wait()).await.is_err()
    }

    /// Lets the machine sleep again, and waits until the helper is gone.
    pub async fn release(mut self) {
        // `cat` reads the end of its input and ends, and the helper with it.
        drop(self.child.stdin.take());
        if timeout(RELEASED_WITHIN, self.child.wait()).await.is_err() {
            tracing::warn!("what kept the machine awake does not end; it is killed");
        }
    }
}
