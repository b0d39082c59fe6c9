//! What the tests of the built program share.

#[path = "../../fake_claude/encoding.rs"]
pub(crate) mod encoding;

pub(crate) mod double;
pub(crate) mod env;
pub(crate) mod filters;
pub(crate) mod history;
pub(crate) mod invariants;
pub(crate) mod proc;
pub(crate) mod run;
pub(crate) mod story;
pub(crate) mod wait;
