//! The pure core: the only code that decides.
//!
//! Nothing here reads a clock, touches a file, starts a process or knows tokio. Time is an argument
//! ([`time::Now`]), timers leave as effects and come back as events, and every decision is a value that
//! carries its reasons, so that a table test is its specification and `explain` is a printout.
//!
//! Reading order: [`run`] is the loop of design §4; inside it a session is one or two turns, a turn is one
//! or more attempts. [`evidence`] gathers what an attempt revealed, [`judge`] says what became of it,
//! [`recovery`] what to do about it. What comes next is decided by [`selector`] from [`signals`];
//! what a closed session recommends to that choice by [`next_session`]; whether a run may start unattended
//! at all by [`suitability`].

mod attempt;
pub mod autonomy;
pub mod claims;
mod conversation;
pub mod event;
pub mod evidence;
pub mod fact;
pub mod gate;
pub mod hand_over;
pub mod judge;
pub mod kill_switch;
pub mod ledger;
pub mod mediation;
pub mod mode;
pub mod next_session;
pub mod notice;
pub mod outcome;
pub mod published;
pub mod recovery;
pub mod reset_time;
pub mod resources;
pub mod run;
pub mod selector;
mod session;
pub mod session_report;
mod shell_words;
pub mod signals;
#[cfg(test)]
mod simulation;
pub mod stuck;
pub mod suitability;
pub mod task;
pub mod time;
pub mod transcript_digest;
mod turn;
mod usage;
pub mod wave;
pub mod what_if;
