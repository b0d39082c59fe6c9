//! What the product keeps on disk, apart from the records themselves: where things are, what a run is
//! called, who owns the repository, and how a file is replaced without ever being half there.
//!
//! Nothing here knows what the files mean; that is [`crate::journal`]. All calls are blocking and short;
//! the wall clock is always an argument.

pub mod atomic;
pub mod layout;
pub mod lock;
pub mod run_id;
