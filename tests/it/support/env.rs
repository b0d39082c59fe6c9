//! A place to run the product in: an own repository, home and configuration, an environment built from nothing, the
//! double in the place of `claude`, and a bystander process that must survive.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::run::{Before, Finished, Running};
use super::{encoding, proc, wait};

/// Programs on the `PATH` of a test, and no others: above all no `gh`, no `glab` and no real `claude`.
const TOOLS: &[&str] = &[
    "bash", "cat", "cp", "curl", "date", "echo", "env", "false", "git", "grep", "ls", "mkdir", "mv", "ps",
    "rm", "find", "printf", "setsid", "sed", "sh", "sleep", "tar", "touch", "true", "uname", "xargs",
];

/// The place. Everything in it ends and vanishes with it.
pub(crate) struct TestEnv {
    root: TempDir,
    repo: PathBuf,
    mark: String,
    base: String,
    vars: BTreeMap<String, String>,
    bystander: RefCell<Child>,
    /// Files of the person who owns the repository: name and content.
    own_files: RefCell<BTreeMap<String, Vec<u8>>>,
    runs: RefCell<usize>,
}

impl TestEnv {
    /// A fresh place with one commit on `main` and a double that does one good turn.
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("autopilot-it-").tempdir().unwrap();
        // Resolved, because the product and git report resolved paths (macOS: /private/var).
        let base = root.path().canonicalize().unwrap();
        for folder in ["bin", "home", "config", "state", "tmp", "repo", "out"] {
            fs::create_dir(base.join(folder)).unwrap();
        }
        for tool in TOOLS {
            if let Some(path) = on_path(tool) {
                symlink(path, base.join("bin").join(tool)).unwrap();
            }
        }
        let at = |name: &str| base.join(name).to_string_lossy().into_owned();
        let mark = uuid::Uuid::new_v4().to_string();
        let vars = [
            ("PATH", at("bin")),
            ("HOME", at("home")),
            ("TMPDIR", at("tmp")),
            ("USER", "tester".to_owned()),
            ("LOGNAME", "tester".to_owned()),
            ("SHELL", "/bin/sh".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", "UTC".to_owned()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
            ("GIT_CONFIG_SYSTEM", "/dev/null".to_owned()),
            ("CLAUDE_CONFIG_DIR", at("config")),
            ("AUTOPILOT_CLAUDE_BIN", env!("CARGO_BIN_EXE_fake-claude").to_owned()),
            // Whoever works on this machine with Claude Code must not end the runs of the tests.
            ("AUTOPILOT_PEER_ABORT", "100".to_owned()),
            // Minutes of waiting; what is tried with them says so.
            ("AUTOPILOT_HEAL_BACKOFF", "none".to_owned()),
            ("FAKE_CLAUDE_SCRIPT", at("script")),
            ("FAKE_CLAUDE_STATE", at("state")),
            (proc::MARK, mark.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let repo = base.join("repo");
        let mut bystander = Command::new("sleep");
        bystander.arg("300").env_clear().current_dir(&repo);
        bystander.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut env = Self {
            root,
            repo,
            mark,
            base: String::new(),
            vars,
            bystander: RefCell::new(bystander.spawn().unwrap()),
            own_files: RefCell::default(),
            runs: RefCell::new(0),
        };
        env.git(&["init", "--quiet", "--initial-branch=main"]);
        env.git(&["config", "user.name", "Tess Tester"]);
        env.git(&["config", "user.email", "tess@example.invalid"]);
        env.write("README.md", "# A repository\n");
        env.git(&["add", "README.md"]);
        env.git(&["commit", "--quiet", "-m", "Start"]);
        env.base = env.git(&["rev-parse", "HEAD"]);
        env.script("turn");
        env
    }

    // ---- places ----

    pub(crate) fn root(&self) -> &Path {
        self.repo.parent().unwrap()
    }

    pub(crate) fn repo(&self) -> &Path {
        &self.repo
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// `CLAUDE_CONFIG_DIR`.
    pub(crate) fn config_dir(&self) -> PathBuf {
        self.root().join("config")
    }

    /// `FAKE_CLAUDE_STATE`.
    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.root().join("state").join(name)
    }

    /// The conversation file of `id` for sessions in the repository.
    pub(crate) fn transcript(&self, id: &str) -> PathBuf {
        encoding::transcript_path(&self.config_dir(), &self.repo, id)
    }

    // ---- preparing ----

    /// What the double does from now on.
    pub(crate) fn script(&self, text: &str) {
        fs::write(self.root().join("script"), text).unwrap();
    }

    /// Lets a double go on that waits with `wait_file NAME`.
    pub(crate) fn release(&self, name: &str) {
        fs::write(self.state(name), "").unwrap();
    }

    /// Sets a variable for later processes.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.vars.insert(name.to_owned(), value.to_owned());
    }

    /// Removes one.
    pub(crate) fn unset(&mut self, name: &str) {
        self.vars.remove(name);
    }

    /// The names of all variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.vars.keys().map(String::as_str)
    }

    /// Writes a file of the person who owns the repository; recovery must leave it alone.
    /// The task files are exempt, the product edits those.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.repo.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &content).unwrap();
        if !["CLAUDE.md", "STATE.md", ".project/", ".orchestrator/", ".claude/"]
            .iter()
            .any(|p| name.starts_with(p))
        {
            self.own_files.borrow_mut().insert(name.to_owned(), content.as_ref().to_vec());
        }
    }

    /// Makes a shell script a program on the `PATH`.
    pub(crate) fn tool(&self, name: &str, script: &str) {
        let path = self.root().join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Text of a file in the repository; empty when it is missing.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read(self.repo.join(name)).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// Puts a conversation file where the CLI would have left it.
    pub(crate) fn seed_transcript(&self, id: &str, content: impl AsRef<[u8]>) {
        let path = self.transcript(id);
        let shadow =
            self.state("shadow").join(path.strip_prefix(self.config_dir().join("projects")).unwrap());
        for path in [path, shadow] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &content).unwrap();
        }
    }

    /// Runs git in the repository.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = self.command("git").args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The commit of [`TestEnv::new`].
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn own_files(&self) -> BTreeMap<String, Vec<u8>> {
        self.own_files.borrow().clone()
    }

    /// A command in the repository with exactly the variables of this place.
    pub(crate) fn command(&self, program: &str) -> Command {
        // Looked up here: `Command` would search the PATH of the test process.
        let found = self.root().join("bin").join(program);
        let mut command = Command::new(if found.exists() { found } else { PathBuf::from(program) });
        command.env_clear().envs(&self.vars).current_dir(&self.repo).stdin(Stdio::null());
        command
    }

    // ---- running ----

    /// Runs `autopilot` to its end.
    #[track_caller]
    pub(crate) fn autopilot(&self, args: &[&str]) -> Finished {
        self.start(args).finish()
    }

    /// Starts `autopilot`.
    #[track_caller]
    pub(crate) fn start(&self, args: &[&str]) -> Running<'_> {
        self.start_command(self.command(env!("CARGO_BIN_EXE_autopilot")), args)
    }

    /// Starts any program in the place of `autopilot`, for a wrapper or a test of this support itself.
    #[track_caller]
    pub(crate) fn start_command(&self, command: Command, args: &[&str]) -> Running<'_> {
        let number = self.runs.replace_with(|n| *n + 1);
        let out = self.root().join("out");
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| out.join(format!("{number}.{name}")));
        Running::start(self, command, args, stdout, stderr)
    }

    pub(crate) fn before(&self) -> Before {
        Before {
            plan: self.read(".project/plan.md"),
            inbox: self.read(".project/inbox.md"),
            staged: self.git(&["diff", "--cached", "--name-only"]),
            documents: self.documents(),
            calls: self.calls().len(),
            records: self.runs(),
        }
    }

    /// The files right below the product's own folder.
    fn documents(&self) -> BTreeMap<String, Vec<u8>> {
        let folder = fs::read_dir(self.repo.join(".orchestrator/autopilot"));
        let entries = folder.into_iter().flatten().filter_map(Result::ok);
        let files = entries.filter(|entry| entry.path().is_file());
        files
            .filter_map(|entry| Some((entry.file_name().into_string().ok()?, fs::read(entry.path()).ok()?)))
            .collect()
    }

    // ---- reading ----

    /// Run records.
    pub(crate) fn runs(&self) -> Vec<Value> {
        lines(&self.repo.join(".orchestrator/metrics/autopilot.jsonl"))
    }

    /// The newest run record.
    #[track_caller]
    pub(crate) fn last_run(&self) -> Value {
        self.runs().pop().expect("a run record")
    }

    /// Session records.
    pub(crate) fn sessions(&self) -> Vec<Value> {
        lines(&self.repo.join(".orchestrator/metrics/sessions.jsonl"))
    }

    /// Events of all runs, runs in the order of their folders' names.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut runs: Vec<PathBuf> = fs::read_dir(self.repo.join(".orchestrator/autopilot/runs"))
            .map(|folder| folder.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default();
        runs.sort();
        runs.iter().flat_map(|run| lines(&run.join("events.jsonl"))).collect()
    }

    /// Records of the calls of the double, in order.
    pub(crate) fn calls(&self) -> Vec<Value> {
        let mut paths: Vec<PathBuf> = fs::read_dir(self.state("calls"))
            .map(|folder| folder.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default();
        paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
        paths.sort();
        paths.iter().map(|p| serde_json::from_slice(&fs::read(p).unwrap()).unwrap()).collect()
    }

    /// Marks of the double in the order they happened.
    pub(crate) fn marks(&self) -> Vec<Value> {
        lines(&self.state("events.jsonl"))
    }

    /// Whether call `call` of the double has come to `event`.
    pub(crate) fn has_mark(&self, call: u64, event: &str) -> bool {
        self.marks().iter().any(|m| m["call"] == call && (m["event"] == event || m["detail"] == event))
    }

    /// What the driver made the double do that no driver may.
    pub(crate) fn violations(&self) -> Vec<Value> {
        lines(&self.state("violations.jsonl"))
    }

    /// Files and commits of the double.
    pub(crate) fn work(&self) -> Vec<Value> {
        lines(&self.state("work.jsonl"))
    }

    /// Pids the double recorded: its own and those it left behind.
    pub(crate) fn recorded_pids(&self) -> Vec<i32> {
        let left = fs::read_dir(self.state("grandchildren"))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str()?.parse().ok());
        let calls = self.calls();
        calls.iter().filter_map(|c| i32::try_from(c["pid"].as_i64()?).ok()).chain(left).collect()
    }

    /// Live processes that began in this place, the bystander excluded.
    pub(crate) fn leftovers(&self) -> Vec<proc::Proc> {
        let mut found = proc::marked(&self.mark);
        for pid in self.recorded_pids() {
            // A pid that is used again belongs to somebody without the mark, whose parent is not init.
            if !cfg!(target_os = "linux") && proc::alive(pid) && !found.iter().any(|p| p.pid == pid) {
                found.push(proc::Proc { pid, parent: 0, state: '?', command: "fake-claude".to_owned() });
            }
        }
        found
    }

    /// Whether the bystander still runs.
    pub(crate) fn bystander_lives(&self) -> bool {
        let mut bystander = self.bystander.borrow_mut();
        let stopped = proc::find(i32::try_from(bystander.id()).unwrap()).is_some_and(|p| p.state == 'T');
        matches!(bystander.try_wait(), Ok(None)) && !stopped
    }

    /// The bystander's pid.
    pub(crate) fn bystander(&self) -> i32 {
        i32::try_from(self.bystander.borrow().id()).unwrap()
    }

    /// Ends what carries the mark, one by one.
    pub(crate) fn end_leftovers(&self) {
        wait::poll(Duration::from_secs(5), || {
            let left = self.leftovers();
            for proc in &left {
                proc::signal(proc.pid, Signal::KILL);
            }
            left.is_empty().then_some(())
        });
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        self.end_leftovers();
        let mut bystander = self.bystander.borrow_mut();
        bystander.kill().ok();
        bystander.wait().ok();
        if std::thread::panicking() && std::env::var_os("KEEP_TEST_ENV").is_some() {
            self.root.disable_cleanup(true);
        }
    }
}

/// The lines of a JSON Lines file that parse. [`super::invariants`] sees to those that do not.
fn lines(path: &Path) -> Vec<Value> {
    text(path).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(super) fn text(path: &Path) -> String {
    fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
}

fn on_path(tool: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(tool))
        .find(|path| path.is_file())
}
