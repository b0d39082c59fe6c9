//! `autopilot` runs chains of unattended Claude Code sessions in a git repository, and is still right at
//! 8 am. This crate is the whole program; the binary only calls [`cli::main`]. How to use it is in the
//! README; this page is the architecture.
//!
//! # Bird's-eye view
//!
//! ```text
//!            signals, clock, timers
//!                     │
//!   edges ──Event──▶ driver ──Event──▶ core::run::Run::step ──Effects──▶ driver ──▶ edges
//!   (engine, transcript,               (pure: decides)                  (carries out)
//!    git, probe, state)                       │
//!                                        RunEvent (published)
//!                                             ▼
//!                          journal (events.jsonl) · display · --events · report
//! ```
//!
//! A *run* is one invocation. It does *iterations*; each is one *session*, a conversation with one id. A
//! session has a work *turn* and, if its report is missing, one more turn that asks for it. A turn takes one
//! or more *attempts*; an attempt is one process. What an attempt revealed is gathered as evidence, judged
//! once it is over, and the judgement becomes an action: accept, try again (the same prompt, a reconcile
//! prompt, a fresh conversation), wait for a usage limit, stop for a person, give up.
//!
//! # Code map, in reading order
//!
//! - [`core`]: everything that decides. Start with [`core::event`] (all that can happen, all that can be
//!   wanted) and [`core::run`] (the loop).
//! - [`protocol`]: the wire format of the CLI, read tolerantly: bytes → frames → messages.
//! - [`process`]: starts, signals, sweeps and reaps process trees; the only place that does.
//! - [`transcript`], [`git`], [`probe`]: ground truth about a conversation, a repository, the machine.
//! - [`forge`]: open issues and the state of CI, through `gh` or `glab`; never fatal, never for long.
//! - [`state`], [`journal`]: where files are, how they are replaced, locked and appended; what is in them.
//! - [`state_md`], [`signals`]: upstream's files beside those: what the last session hands over, what was
//!   learned, how runs ended, what CLAUDE.md allows.
//! - [`plan`]: the tasks a person wrote down, read and ticked without ever losing a save of theirs.
//! - [`engine`]: carries an attempt: process, stream, control protocol.
//! - [`driver`]: the only `select!` over all sources.
//! - [`settings`], [`prompts`], [`report`], [`ui`], [`error`]: configuration with origins, prompt templates,
//!   summaries, what people see, exit codes.
//! - [`notify`]: tells people elsewhere, by programs of the system; cannot touch a run.
//! - [`inhibit`]: keeps the machine awake while a run goes on.
//! - [`schedule`]: what schedulers of the system are told, and when a run is due: pure.
//! - [`demo`]: a scripted agent that plays the CLI. [`cli`]: the commands.
//!
//! # Architecture invariants
//!
//! - `core` cannot fail, block, touch a file or read a clock: time is an argument, timers are data, ids are
//!   given to it. Nothing outside of `core` decides.
//! - Parsing never fails: it returns messages plus anomalies. Nothing that arrives on stdout or stderr can
//!   end a run by itself.
//! - The driver is the only place that selects over sources. The edges do not know each other, and none of
//!   them knows the driver.
//! - Nothing but `process` starts or signals a process; `unsafe` stands nowhere else.
//! - At most one process lives per conversation and per work tree. Recovery never cleans, resets or commits
//!   the user's tree, and never writes into a transcript.
//! - A crash at any byte leaves a readable journal and metric files in which no record is lost; the next
//!   start sweeps the orphans and writes the record that is owed.
//! - A missing measurement is `None` and never stops a run; nothing is made up in its place.
//! - Output is complete without a terminal: the progress block is an adornment.
//!
//! The dependency direction behind these is enforced by `tests/it/architecture.rs`, the bans by clippy
//! (`.clippy.toml`).

pub mod core;
pub mod protocol;
pub mod process;
pub mod transcript;
pub mod git;
pub mod probe;
pub mod forge;
pub mod state;
pub mod journal;
pub mod plan;
pub mod state_md;
pub mod signals;
pub mod tasks;
pub mod engine;
pub mod driver;
pub mod settings;
pub mod prompts;
pub mod report;
pub mod notify;
pub mod schedule;
pub mod inhibit;
pub mod ui;
pub mod error;
pub mod demo;
pub mod cli;
