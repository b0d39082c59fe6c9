//! Engines: what carries a turn.
//!
//! An engine starts the process of an attempt, speaks with it, and says what it found as core
//! [`Event`](crate::core::event::Event)s stamped with the attempt. It decides nothing: how long to wait, when
//! to stop and what an end means is the core's business. The headless engine drives `claude -p`; the PTY engine
//! (feature `pty`) the interactive program in a pseudo-terminal.

mod handle;
pub mod headless;
#[cfg(feature = "pty")]
pub mod pty;

pub use handle::Handle;
