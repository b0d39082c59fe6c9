//! The environment of one test: a home, a configuration folder and a repository that nobody uses, and the stub.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::child::Program;
use super::namespace::pinned_cli;
use super::process::{self, Leftover};
use super::wait::{self, STEP};
use crate::stub::Stub;

/// One isolated night. Everything it started ends with it.
pub(crate) struct Night {
    // Named before the folder, so that the CLI is cut off before the ground goes.
    pub(crate) stub: Stub,
    variables: BTreeMap<String, String>,
    cli: PathBuf,
    /// The name of the folder of the repository.
    repo: String,
    root: TempDir,
}

impl Night {
    /// A repository with one commit, nothing configured, a made-up API key.
    pub(crate) fn new() -> Self {
        Self::in_folder("repo")
    }

    /// The same with the repository in a folder of this name.
    pub(crate) fn in_folder(repo: &str) -> Self {
        let cli = pinned_cli();
        let root = tempfile::Builder::new().prefix("night-").tempdir().expect("a temporary folder");
        let mut night =
            Self { stub: Stub::start(), variables: BTreeMap::new(), cli, repo: repo.to_owned(), root };
        night.variable("ANTHROPIC_API_KEY", "sk-made-up-for-a-test");
        for folder in ["home", "config", repo, "tmp", "bin"] {
            std::fs::create_dir(night.root.path().join(folder)).expect("a fresh folder");
        }
        night.install("claude", &night.cli);
        night.git(&["init", "--quiet", "--initial-branch=main"]);
        night.git(&["config", "user.name", "Night Watch"]);
        night.git(&["config", "user.email", "night@example.invalid"]);
        night.write("README.md", "A made-up project.\n");
        night.git(&["add", "README.md"]);
        night.git(&["commit", "--quiet", "--message", "Start"]);
        night
    }

    /// Makes a program known by a name to everything that is started later.
    pub(crate) fn install(&self, name: &str, program: &Path) {
        std::os::unix::fs::symlink(program, self.root.path().join("bin").join(name)).expect("a fresh link");
    }

    /// Sets one more environment variable for what is started later.
    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Makes the CLI act as a subscription, with a made-up token in place of the key.
    pub(crate) fn subscription(&mut self) {
        self.variables.remove("ANTHROPIC_API_KEY");
        self.variable("CLAUDE_CODE_OAUTH_TOKEN", "token-made-up-for-a-test");
    }

    /// The working tree, without symbolic links in its path.
    pub(crate) fn repo(&self) -> PathBuf {
        self.root.path().join(&self.repo).canonicalize().expect("the repository exists")
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The configuration folder of the CLI.
    pub(crate) fn config(&self) -> PathBuf {
        self.root.path().join("config")
    }

    /// Writes a file of the working tree.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.repo().join(path);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file of the test");
    }

    /// Reads a file of the working tree; `None` when there is none.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.repo().join(path)).ok()
    }

    /// A command in the working tree with an environment built from nothing.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let mut path = self.root.path().join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").expect("PATH is set"));
        command
            .current_dir(self.repo())
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home())
            .env("TMPDIR", self.root.path().join("tmp"))
            .env("USER", "night")
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("CLAUDE_CONFIG_DIR", self.config())
            .env("ANTHROPIC_BASE_URL", self.stub.base_url())
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_TELEMETRY", "1")
            .env("DISABLE_ERROR_REPORTING", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("CLAUDE_CODE_MAX_RETRIES", "1");
        command.envs(&self.variables);
        command
    }

    /// Runs git in the working tree and gives what it printed.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = self.command(Path::new("git")).args(arguments).output().expect("git can be started");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {message}");
        String::from_utf8(output.stdout).expect("git prints UTF-8 here").trim_end().to_owned()
    }

    /// Starts the CLI itself.
    pub(crate) fn claude(&self, arguments: &[&str]) -> Program {
        let mut command = self.command(&self.cli);
        command.args(arguments);
        Program::start(command)
    }

    /// The transcript of a session.
    pub(crate) fn transcript(&self, session: &str) -> PathBuf {
        let projects = std::fs::read_dir(self.config().join("projects")).expect("the CLI has run");
        let mut files =
            projects.filter_map(|entry| Some(entry.ok()?.path().join(format!("{session}.jsonl"))));
        files.find(|file| file.exists()).unwrap_or_else(|| panic!("no transcript of {session}"))
    }

    /// The processes of this night that still live.
    pub(crate) fn leftovers(&self) -> Vec<Leftover> {
        process::with_home(&self.home())
    }

    fn runs(&self, command: &str) -> bool {
        self.leftovers().iter().any(|left| left.command == command)
    }

    /// Sends a signal to a process of this night.
    pub(crate) fn signal(&self, pid: u32, signal: Signal) {
        assert!(self.leftovers().iter().any(|left| left.pid == pid), "{pid} is no process of this night");
        process::signal(pid, signal);
    }

    /// Waits until a process with exactly these arguments lives.
    pub(crate) fn wait_for_process(&self, command: &str) {
        wait::until(command, STEP, || self.runs(command).then_some(()));
    }

    /// Waits until no process with exactly these arguments lives.
    pub(crate) fn wait_until_gone(&self, command: &str) {
        wait::until(command, STEP, || (!self.runs(command)).then_some(()));
    }

    /// Waits until no process of this night lives.
    pub(crate) fn wait_until_empty(&self, within: Duration) {
        wait::until("end of every process of the night", within, || {
            self.leftovers().is_empty().then_some(())
        });
    }
}

impl Drop for Night {
    fn drop(&mut self) {
        for left in self.leftovers() {
            process::signal(left.pid, Signal::KILL);
        }
    }
}
