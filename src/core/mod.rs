//! The pure core: the only code that decides.
//!
//! Nothing here reads a clock, touches a file, starts a process or knows tokio. Time is an argument
//! ([`time::Now`]), timers leave as effects and come back as events, and every decision is a value that
//! carries its reasons, so that a table test is its specification and `explain` is a printout.

pub mod kill_switch;
pub mod mode;
pub mod outcome;
pub mod published;
pub mod time;
