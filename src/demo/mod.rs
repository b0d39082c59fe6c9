//! `autopilot demo`: the real loop on a scratch repository, with a scripted agent in the place of Claude Code.
//!
//! Nothing is faked but the agent: sessions, gates, commits, records and reports are those of any run, no
//! account and no network are needed, and what is left in the scratch folder can be looked at afterwards.
//!
//! [`prepare`] makes the folder; the caller runs the loop on it. How the agent is started: `--claude-bin`
//! takes a program, so the folder holds a symbolic link [`AGENT_NAME`] to `autopilot` itself, and `main` acts
//! as the agent when it is called by that name ([`is_agent_name`], [`agent_main`]). A link needs no
//! executable mount where it stands (the permission of the target's mount counts), no shell, and no variable
//! in the environment that a child could inherit by mistake; `--version` works as with any other program.
//! Pitfall: whoever resolves the link before starting it loses the name, and with it the agent.
//!
//! The agent writes and commits only in a repository that [`prepare`] has marked, so that nobody's own work
//! is touched when it is started by hand.

pub mod agent;
mod script;
mod wire;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jiff::Timestamp;
use thiserror::Error;

pub use script::SESSIONS;

/// Name by which `autopilot` acts as the agent.
pub const AGENT_NAME: &str = "autopilot-demo-agent";

/// Git setting that marks a scratch repository.
const MARK: &str = "autopilot.demo";

/// A scratch repository, ready for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoRepo {
    /// Everything of the demonstration; stays until somebody deletes it.
    pub root: PathBuf,
    /// The repository.
    pub repo: PathBuf,
    /// Program for `--claude-bin`; to be started by this very path.
    pub claude_bin: PathBuf,
    /// Variables for the environment of the run and its children.
    pub env: Vec<(&'static str, PathBuf)>,
    /// Text for `--prompt`.
    pub prompt: String,
    /// Sessions after which the agent reports `complete`.
    pub sessions: u32,
}

/// Why a demonstration could not be prepared.
#[derive(Debug, Error)]
pub enum DemoError {
    /// The given folder has something in it.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The file system refuses.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Git is not there or refuses.
    #[error("`git {command}` failed in {}: {problem}", path.display())]
    Git {
        /// First argument of git.
        command: String,
        /// Where.
        path: PathBuf,
        /// Its words.
        problem: String,
    },
}

/// Makes a scratch repository in `dir`, which must be absent or empty, or in a fresh temporary folder.
///
/// `exe` is the running `autopilot`.
///
/// # Errors
/// When the folder is in use, cannot be written, or git fails.
pub fn prepare(dir: Option<&Path>, exe: &Path) -> Result<DemoRepo, DemoError> {
    let root = if let Some(dir) = dir {
        empty_folder(dir)?
    } else {
        let made = tempfile::Builder::new().prefix("autopilot-demo-").tempdir();
        made.map_err(failed("make a folder in", &std::env::temp_dir()))?.keep()
    };
    let root = root.canonicalize().map_err(failed("resolve", &root))?;
    let exe = exe.canonicalize().map_err(failed("resolve", exe))?;
    let (repo, config, bin) = (root.join("repo"), root.join("claude-config"), root.join("bin"));
    for folder in [&repo, &config, &bin] {
        fs::create_dir(folder).map_err(failed("make", folder))?;
    }
    let claude_bin = bin.join(AGENT_NAME);
    std::os::unix::fs::symlink(exe, &claude_bin).map_err(failed("make the link", &claude_bin))?;

    write_new(&repo.join("README.md"), script::README)?;
    write_new(&repo.join("PROMPT.md"), script::PROMPT)?;
    write_new(&repo.join(".gitignore"), "/.orchestrator/\n")?;
    let git = |arguments: &[&str]| run_git(&repo, arguments);
    git(&["-c", "init.defaultBranch=main", "init", "--quiet"])?;
    git(&["config", "--local", "user.name", "Demo Person"])?;
    git(&["config", "--local", "user.email", "demo@example.invalid"])?;
    git(&["config", "--local", "commit.gpgSign", "false"])?;
    git(&["config", "--local", MARK, "true"])?;
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--message", "Start of the demonstration"])?;

    Ok(DemoRepo {
        root,
        repo,
        claude_bin,
        env: vec![("CLAUDE_CONFIG_DIR", config)],
        prompt: script::PROMPT.to_owned(),
        sessions: SESSIONS,
    })
}

/// Whether a program called by this name (`argv[0]`) has to act as the agent.
#[must_use]
pub fn is_agent_name(argv0: &OsStr) -> bool {
    Path::new(argv0).file_name() == Some(OsStr::new(AGENT_NAME))
}

/// The agent as a program: on the standard streams, in the current folder. `args` without the program's
/// name. Returns the exit code.
pub fn agent_main(args: &[String], now: Timestamp) -> u8 {
    let Ok(cwd) = std::env::current_dir() else { return 1 };
    let config_dir = std::env::var_os("CLAUDE_CONFIG_DIR");
    let config_dir =
        config_dir.map_or_else(|| std::env::temp_dir().join("autopilot-demo-config"), PathBuf::from);
    let world = agent::World { cwd, config_dir, now, pause: agent::PAUSE };
    agent::run(args, &world, io::stdin().lock(), io::stdout().lock(), io::stderr().lock())
}

fn empty_folder(dir: &Path) -> Result<PathBuf, DemoError> {
    fs::create_dir_all(dir).map_err(failed("make", dir))?;
    let mut entries = fs::read_dir(dir).map_err(failed("read", dir))?;
    if entries.next().is_some() {
        return Err(DemoError::NotEmpty(dir.to_owned()));
    }
    Ok(dir.to_owned())
}

/// Writes a file that does not exist yet.
fn write_new(path: &Path, text: &str) -> Result<(), DemoError> {
    let written = fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(failed("write", path))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DemoError {
    let path = path.to_owned();
    move |source| DemoError::Io { what, path, source }
}

/// Runs git in `dir`, free of the caller's repository, hooks and signing; its standard output.
fn run_git(dir: &Path, arguments: &[&str]) -> Result<String, DemoError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the demo agent stands in for a foreign program, which starts its own tools"
    )]
    let mut command = Command::new("git");
    command
        .args(["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"])
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null());
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(name);
    }
    let error =
        |problem: String| DemoError::Git { command: arguments.join(" "), path: dir.to_owned(), problem };
    let output = command.output().map_err(|source| error(source.to_string()))?;
    if !output.status.success() {
        return Err(error(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests;
