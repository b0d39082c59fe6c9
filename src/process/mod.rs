//! The only place where processes are started, signalled and reaped.
//!
//! # Theory of operation
//!
//! Claude Code starts its tools in sessions of their own (claude-code §6), its MCP servers outlive it
//! (field-reports J01), and after a SIGKILL its tools live on. So neither a pid nor a process group is a
//! handle on "what this attempt started"; a [`Tree`] is. Membership is decided on one snapshot of the process
//! table by the pure function in `membership`, from four kinds of evidence: descent, groups and sessions
//! founded by a member, the run's [`Cookie`] in the environment, and adoption (what was re-parented to us
//! because we are a subreaper).
//!
//! ```text
//! spawn ──► Child ──► wait
//!             └─────► Tree ──► stop    [SIGINT leader] ► SIGTERM group and members ► SIGKILL all ► sweep
//!                       └────► sweep   SIGTERM ► SIGKILL, until two looks in a row find nobody
//! capture                              a short helper command; killed as a tree when its time is over
//! orphans, sweep_orphans               what a run that was itself ended by SIGKILL left behind
//! ```
//!
//! # Invariants
//!
//! * A pid is only ever signalled through [`ProcessId`], which carries the start time: on Linux through a
//!   pidfd that was opened before the start time was compared, so a reused pid is never hit. A group is only
//!   signalled while its leader is our unreaped child, which pins the number.
//! * Pids 0 and 1, ourselves, our own process group and our ancestors are never signalled.
//! * `waitpid` is only called for one pid, never for any: tokio's statuses are not stolen (crates B2.1).
//! * Nothing here waits for end-of-file to learn of an exit, and nothing waits without a bound.
//!
//! # Pitfalls
//!
//! * Everything asynchronous needs a tokio runtime with time and I/O enabled. Nothing needs more than one
//!   thread.
//! * "Signal sent" is not "dead": read `survivors` (field-reports J12).
//! * macOS has neither subreaper nor pidfd; that part compiles by `cfg` and is **not verified**.

mod capture;
mod crash;
mod exit;
mod id;
mod membership;
mod orphans;
mod reaper;
mod signal;
mod spawn;
mod stop;
#[cfg(feature = "pty")]
mod terminal;
mod tree;

#[cfg(any(not(target_os = "linux"), test))]
mod macos;
#[cfg(target_os = "linux")]
mod procfs;

#[cfg(not(target_os = "linux"))]
use macos as os;
#[cfg(target_os = "linux")]
use procfs as os;

#[cfg(test)]
mod testing;

pub use capture::{CaptureError, CaptureSpec, Captured, HELPER_COOKIE, Output, capture};
pub use crash::{crash_point, crash_within};
pub use exit::Exit;
pub use id::{Description, ProcessId, describe, is_alive};
pub use orphans::{Orphan, orphans, sweep_orphans};
pub use reaper::{become_subreaper, reap_adopted};
pub use signal::{Request, SendError, Signal, ask};
pub use spawn::{Child, Cookie, SpawnError, SpawnSpec, spawn};
pub use stop::{
    FirstStep, Graces, Ladder, Recipient, Sent, StopReport, Survivor, SweepReport, Swept, WhyAlive, stop,
    sweep,
};
#[cfg(feature = "pty")]
pub use terminal::{Terminal, spawn_on_terminal};
pub use tree::{Activity, Member, Tree};
