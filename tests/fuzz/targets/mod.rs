//! What is fuzzed: each target takes any bytes, and must neither panic nor hang nor break the promise it states.
//!
//! Two programs run them: `tests/fuzz/src/bin/*`, guided by coverage, for as long as one likes; and
//! `tests/it/fuzz.rs`, a moment of blind mutation of the seeds with every run of the tests, so that a target
//! cannot rot.

pub mod configuration;
pub mod framer;
pub mod gate;
pub mod plan;
pub mod records;
pub mod reset_time;
pub mod stream;
pub mod transcript;

/// A target: its name, which is also that of its binary and of its folder of seeds, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: &[Target] = &[
    ("framer", framer::run),
    ("stream", stream::run),
    ("transcript", transcript::run),
    ("reset_time", reset_time::run),
    ("plan", plan::run),
    ("configuration", configuration::run),
    ("records", records::run),
    ("gate", gate::run),
];

/// Folders that hold more seeds of a target than `tests/fuzz/seeds/<name>`; `tests/run` asks for them, too.
pub const SEEDS: &[(&str, &[&str])] = &[
    ("framer", &[]),
    ("stream", &["fixtures/stream/2.1.332"]),
    ("transcript", &["fixtures/transcripts"]),
    ("reset_time", &[]),
    ("plan", &["fixtures/plans"]),
    ("configuration", &["fixtures/config", "fixtures/signals"]),
    ("gate", &[]),
    ("records", &["fixtures/journal/v1", "fixtures/journal/upstream"]),
];

/// Takes a number off the front of the input; 0 when nothing is left.
fn byte(data: &mut &[u8]) -> usize {
    match data.split_first() {
        Some((first, rest)) => {
            *data = rest;
            usize::from(*first)
        }
        None => 0,
    }
}

/// A folder in memory where there is one: a run makes many thousand files.
fn folder() -> tempfile::TempDir {
    let shm = std::path::Path::new("/dev/shm");
    let made = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    made.expect("a temporary folder")
}
