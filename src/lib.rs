//! Placeholder.
pub mod cli;
pub mod core;
pub mod demo;
pub mod driver;
pub mod engine;
pub mod error;
pub mod git;
pub mod journal;
pub mod probe;
pub mod process;
pub mod prompts;
pub mod protocol;
pub mod report;
pub mod settings;
pub mod state;
pub mod transcript;
pub mod ui;
