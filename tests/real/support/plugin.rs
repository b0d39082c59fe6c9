//! session-orchestrator, whose files we share, as its authors publish it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::child::Program;
use super::night::Night;
use super::wait::STEP;

/// Set by `tests/run` to the folder of the pinned package.
const PLUGIN_VARIABLE: &str = "AUTOPILOT_TEST_PLUGIN";
/// Set by `tests/run` to the Node.js program that the package asks for.
const NODE_VARIABLE: &str = "AUTOPILOT_TEST_NODE";

/// The versions these tests were written against; `tests/run` installs the same files' versions.
const PLUGIN_VERSION: &str = include_str!("../plugin-version");
const NODE_VERSION: &str = include_str!("../node-version");

/// The folder of our scripts that call theirs.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/interop");

/// The pinned package, with `node` on the path of a night.
pub(crate) struct Plugin {
    root: PathBuf,
}

impl Plugin {
    /// Fails the test, with what to do about it, where the package or its Node.js is missing.
    pub(crate) fn in_night(night: &Night) -> Self {
        let root = pinned(PLUGIN_VARIABLE, 0, PLUGIN_VERSION);
        // `bin/node` in the folder of its package.
        let node = pinned(NODE_VARIABLE, 2, NODE_VERSION);
        night.install("node", &node);
        Self { root }
    }

    /// Its folder, as `--plugin-dir` wants it.
    pub(crate) fn folder(&self) -> &str {
        self.root.to_str().expect("a path of the test is UTF-8")
    }

    /// Reads a file of the package.
    pub(crate) fn read(&self, path: &str) -> String {
        let path = self.root.join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Runs one of its programs in the working tree and gives what it printed.
    pub(crate) fn program(&self, night: &Night, path: &str, arguments: &[&str]) -> String {
        let path = self.root.join(path);
        run(night, &path, arguments)
    }

    /// Runs one of our scripts in the working tree, with the package's folder as the first argument, and gives the JSON
    /// that it printed.
    pub(crate) fn script(&self, night: &Night, name: &str, arguments: &[&str]) -> Value {
        let printed = run(night, &Path::new(SCRIPTS).join(name), &[&[self.folder()], arguments].concat());
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{name}: {error}: {printed}"))
    }
}

fn run(night: &Night, program: &Path, arguments: &[&str]) -> String {
    let mut command = night.command(Path::new("node"));
    command.arg(program).args(arguments);
    let mut program = Program::start(command);
    program.close_stdin();
    let status = program.wait(STEP);
    assert!(status.success(), "{arguments:?}: {status}: {}", program.stderr());
    program.stdout()
}

/// The path in a variable, once the package `up` folders above it has the version.
fn pinned(variable: &str, up: usize, version: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from);
    let path = path.unwrap_or_else(|| panic!("{variable} is not set: start these tests with `tests/run`"));
    let manifest = path.ancestors().nth(up).map(|package| package.join("package.json"));
    let found = manifest
        .and_then(|manifest| std::fs::read(manifest).ok())
        .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        .and_then(|package| package["version"].as_str().map(str::to_owned));
    assert_eq!(
        found.as_deref(),
        Some(version.trim()),
        "{variable} ({}) is not the pinned version: start these tests with `tests/run`",
        path.display()
    );
    path
}
