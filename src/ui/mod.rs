//! What a run looks like from outside: lines for people, a live block on a terminal, JSON for programs.
//!
//! Everything here consumes [`crate::core::published::RunEvent`] and nothing else (style A10), and nothing
//! here reads a clock: elapsed times are arguments. The plain lines are complete without a terminal; the
//! progress block is an adornment that never carries news of its own.

pub mod json;
pub mod plain;
pub mod printer;
pub mod progress;
#[cfg(test)]
pub(crate) mod sample;
pub mod text;
pub mod words;
