//! The headless engine: one `claude -p --output-format stream-json` process per attempt.
//!
//! Theory of operation. Three tasks share an attempt. The *reader* drains stdout and stderr from the first
//! byte to the last and does nothing else that could block the child (field-reports C12, C19); the *writer*
//! owns stdin, so that a prompt larger than the pipe cannot deadlock against the reader (C16); the *warden*
//! owns the process: it waits for it, carries out the stop ladder, and sweeps the tree. Exit and end of
//! stream are different facts: after the exit the tree is swept, which closes the pipes that a grandchild
//! still holds, and only then the rest of the stream is read, for a bounded time.
//!
//! Invariants: nothing that arrives on stdout or stderr ends a run; the prompt is sent once; every request
//! of the CLI is answered, and one that the core does not answer in time is refused; [`AttemptOver`](crate::core::event::Event::AttemptOver) is always the last event
//! of an attempt, and exactly one.

mod argv;
mod environment;
mod facts;
mod output;
mod questions;
mod session;
mod stderr;
pub(super) mod warden;

pub use argv::{Invocation, PassThrough, Protocol, argv};
pub use environment::{Billing, ChildEnvironment, child_environment};
pub use facts::{Translator, summarise};
pub use session::{Order, launch};
#[cfg(feature = "pty")]
pub(super) use {argv::WAKE_UP_TOOLS, session::failed};
