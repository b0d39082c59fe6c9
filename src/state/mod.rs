//! What the product keeps on disk, apart from the records themselves: where things are, what a run is
//! called, who owns the repository, how a file is replaced without ever being half there, and how one is
//! read that may be larger than it should.
//!
//! Nothing here knows what the files mean; that is [`crate::journal`]. All calls are blocking and short;
//! the wall clock is always an argument.

pub mod atomic;
pub(crate) mod backward;
pub mod bounded;
pub mod layout;
pub mod lock;
pub mod run_id;
pub mod space;
