//! The wire formats of Claude Code's print mode: what its stdout says and what its stdin takes.
//!
//! Theory: bytes → [`frame::LineFramer`] → lines → [`stream::parse_frame`] → messages and anomalies.
//! Nothing here fails: the format belongs to somebody else, new types and fields arrive with every release,
//! and a line that cannot be read is a fact to report, not an error that ends the night. In the other
//! direction, [`control`] builds the lines that start and steer a turn.
//!
//! Invariants: depends on no other module of the crate; no I/O, no clock; memory is bounded whatever the
//! peer sends; every string that may be large is cut to a documented limit when it is read.
//!
//! Pitfall: what a message *means* (is this a usage limit, is the turn complete) is decided in `core`, from
//! the fields that are reported here.

pub mod control;
mod elide;
pub mod frame;
mod lenient;
mod raw;
pub mod stream;

pub use lenient::{CUT, RawJson};
