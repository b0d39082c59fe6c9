//! Starting a process from a description of it, and waiting for it.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use uuid::Uuid;

use super::exit::Exit;
use super::id::ProcessId;
use super::reaper;
use super::signal::{self, Signal};
use super::tree::Tree;

/// A pair in a child's environment that all its descendants inherit, so that they can be found whatever
/// became of their parents. The value is unique, so that another run, in another repository, is never hit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cookie {
    /// Name of the variable.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Cookie {
    /// A cookie that was recorded, or whose value is an id that is unique already.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }

    /// A cookie with a fresh random value.
    pub fn unique(name: impl Into<String>) -> Self {
        Self::new(name, Uuid::new_v4().to_string())
    }

    /// As it stands in an environment block.
    pub(super) fn pair(&self) -> Vec<u8> {
        format!("{}={}", self.name, self.value).into_bytes()
    }
}

/// All there is to know for starting a process.
#[derive(Clone, PartialEq, Eq)]
pub struct SpawnSpec {
    /// Absolute path, or a bare name that is looked up on the *child's* `PATH`.
    pub program: PathBuf,
    /// Arguments without the program's own name.
    pub args: Vec<OsString>,
    /// The complete environment: nothing else is inherited (field-reports K13).
    pub env: Vec<(OsString, OsString)>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Added to the environment; wins over a variable of the same name.
    pub cookie: Cookie,
}

/// Values of variables may be secret, so only their names are shown.
impl fmt::Debug for SpawnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnSpec")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("cookie", &self.cookie)
            .finish()
    }
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No such file: never installed, or an updater is just swapping it (field-reports K08). Dangling links
    /// too.
    #[error("program `{}` does not exist", program.display())]
    Missing {
        /// As given.
        program: PathBuf,
    },
    /// The file is there; what it needs to run is not.
    #[error("program `{}` exists, but the interpreter or loader it names does not", program.display())]
    InterpreterMissing {
        /// As given.
        program: PathBuf,
    },
    /// No permission to execute (EACCES), or not a program (ENOEXEC: cut short, wrong architecture).
    #[error("program `{}` cannot be executed", program.display())]
    NotExecutable {
        /// As given.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is just being written (ETXTBSY, field-reports K08).
    #[error("program `{}` is being written to", program.display())]
    Busy {
        /// As given.
        program: PathBuf,
    },
    /// Too many links on the way (ELOOP, field-reports K08).
    #[error("program `{}` is a loop of symbolic links", program.display())]
    SymlinkLoop {
        /// As given.
        program: PathBuf,
    },
    /// The working directory was deleted, moved, or cannot be entered (field-reports K09).
    #[error("working directory `{}` cannot be used", cwd.display())]
    WorkingDirectory {
        /// As given.
        cwd: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Anything else: out of processes or memory, arguments too long (E2BIG, field-reports C16), a NUL byte
    /// in an argument.
    #[error("failed to start `{}`", program.display())]
    Other {
        /// As given.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A process that was started here, the leader of its own process group.
///
/// Dropping it before it was waited for sends SIGKILL to its group; tokio reaps the leader later. A destructor cannot
/// wait, so what lives in sessions of its own (the tools of Claude Code do) survives the drop: end a child
/// with [`stop`](super::stop), and leave the drop to panics and to futures that are cancelled.
#[derive(Debug)]
pub struct Child {
    inner: tokio::process::Child,
    id: ProcessId,
    cookie: Cookie,
    exit: Option<Exit>,
    /// Somebody else reaped it, so that its pid may be anybody's.
    status_lost: bool,
    /// Standard input, until taken. Drop it to send end-of-file; [`Child::wait`] does not.
    pub stdin: Option<ChildStdin>,
    /// Standard output, until taken. Somebody has to drain it all the time (field-reports C12).
    pub stdout: Option<ChildStdout>,
    /// Standard error, until taken. Somebody has to drain it all the time (field-reports C12).
    pub stderr: Option<ChildStderr>,
}

impl Child {
    /// Pid and start time.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// The pair that its descendants carry.
    pub fn cookie(&self) -> &Cookie {
        &self.cookie
    }

    /// How it ended, once that is known.
    pub fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// A handle on everything this process starts. Make it at once: a tree remembers what it has seen.
    pub fn tree(&self) -> Tree {
        Tree::led_by(self.id, self.cookie.clone())
    }

    /// Waits for the process itself to end: neither for its children nor for its pipes. May be cancelled and
    /// called again, also after it returned.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let status = self.inner.wait().await;
        if let Err(error) = &status {
            self.status_lost |= Errno::from_io_error(error) == Some(Errno::CHILD);
        }
        Ok(self.reaped(status?))
    }

    /// Waits for at most `limit`. `None`: still running. An error means that the status is lost, so it is not
    /// running. With a `limit` of zero, an exit that has happened is still noticed.
    pub(super) async fn wait_at_most(&mut self, limit: Duration) -> Option<io::Result<Exit>> {
        if let Ok(Some(status)) = self.inner.try_wait() {
            self.reaped(status);
        }
        tokio::time::timeout(limit, self.wait()).await.ok()
    }

    /// Signals the process; nobody, if it was reaped.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        self.unreaped().is_some_and(|pid| signal::send_to_unreaped(pid, signal).is_ok())
    }

    /// Signals its group; nobody, if it was reaped.
    pub(super) fn signal_group(&self, signal: Signal) -> bool {
        self.unreaped().is_some_and(|pid| signal::send_to_group_of_unreaped(pid, signal).is_ok())
    }

    fn reaped(&mut self, status: ExitStatus) -> Exit {
        reaper::forget(self.id);
        *self.exit.insert(Exit::from(status))
    }

    /// The pid, while nobody has reaped it: neither we nor somebody who waits for any child.
    fn unreaped(&self) -> Option<u32> {
        self.inner.id().filter(|_| !self.status_lost)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal_group(Signal::Kill);
    }
}

/// Starts a process with all three standard streams piped, in a process group of its own, so that a
/// terminal's Ctrl-C does not reach it behind our back. Descriptors of ours are close-on-exec and stay ours.
///
/// Must be called inside a tokio runtime. Blocks for the time of one `fork` and `exec`.
pub fn spawn(spec: &SpawnSpec) -> Result<Child, SpawnError> {
    let mut command = command(&spec.program);
    command
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.cwd)
        .stdin(Stdio::piped());
    let child = start(command, &spec.program, &spec.cwd, spec.cookie.clone())?;
    super::crash_point();
    Ok(child)
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts processes")]
pub(super) fn command(program: &Path) -> Command {
    Command::new(program)
}

/// The part that every process has in common, whoever asks for it.
pub(super) fn start(
    mut command: Command,
    program: &Path,
    cwd: &Path,
    cookie: Cookie,
) -> Result<Child, SpawnError> {
    command.env(&cookie.name, &cookie.value).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let started = reaper::register(|| {
        let child = command.spawn()?;
        let pid =
            child.id().ok_or_else(|| io::Error::other("a child that was never waited for has no pid"))?;
        Ok((child, pid))
    });
    let (mut inner, id) = started.map_err(|error| explain(error, program, cwd, search_path(&command)))?;
    let (stdin, stdout, stderr) = (inner.stdin.take(), inner.stdout.take(), inner.stderr.take());
    Ok(Child { inner, id, cookie, exit: None, status_lost: false, stdin, stdout, stderr })
}

/// A process that was started on a terminal.
#[cfg(feature = "pty")]
pub(super) fn adopted(inner: tokio::process::Child, id: ProcessId, cookie: Cookie) -> Child {
    Child { inner, id, cookie, exit: None, status_lost: false, stdin: None, stdout: None, stderr: None }
}

/// Why a process of this description could not be started.
#[cfg(feature = "pty")]
pub(super) fn explained(error: io::Error, spec: &SpawnSpec) -> SpawnError {
    let path = spec.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    explain(error, &spec.program, &spec.cwd, path)
}

/// One errno stands for several causes, because changing directory and executing fail in the same call: look
/// again at what is there.
fn explain(error: io::Error, program: &Path, cwd: &Path, search_path: Option<OsString>) -> SpawnError {
    if let Err(source) = usable_directory(cwd) {
        return SpawnError::WorkingDirectory { cwd: cwd.into(), source };
    }
    let program = program.to_path_buf();
    let is_path = program.components().count() > 1;
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR) => {
            // A bare name was looked for on PATH, so a file of that name in the directory says nothing.
            if is_path && fs::metadata(cwd.join(&program)).is_ok_and(|found| found.is_file()) {
                SpawnError::InterpreterMissing { program }
            } else {
                SpawnError::Missing { program }
            }
        }
        // What a search answers when it found nothing, if a directory on the way may not be entered.
        Some(Errno::ACCESS) if !is_path && !found_on(search_path, &program) => {
            SpawnError::Missing { program }
        }
        Some(Errno::ACCESS | Errno::PERM | Errno::NOEXEC | Errno::ISDIR) => {
            SpawnError::NotExecutable { program, source: error }
        }
        Some(Errno::TXTBSY) => SpawnError::Busy { program },
        Some(Errno::LOOP) => SpawnError::SymlinkLoop { program },
        _ => SpawnError::Other { program, source: error },
    }
}

/// The `PATH` that the child's program is looked for on.
fn search_path(command: &Command) -> Option<OsString> {
    let own = command.as_std().get_envs().find(|(name, _)| *name == "PATH");
    own.map_or_else(|| std::env::var_os("PATH"), |(_, value)| value.map(OsString::from))
}

fn found_on(search_path: Option<OsString>, program: &Path) -> bool {
    search_path
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).exists()))
}

fn usable_directory(cwd: &Path) -> io::Result<()> {
    if fs::metadata(cwd)?.is_dir() { Ok(access(cwd, Access::EXEC_OK)?) } else { Err(Errno::NOTDIR.into()) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drain, environment, sh};
    use super::*;

    use std::os::unix::fs::{PermissionsExt, symlink};

    #[tokio::test]
    async fn exits() {
        async fn check(script: &str, expected: Exit, text: &str) {
            let mut child = spawn(&sh(script)).unwrap();
            assert_eq!(child.wait().await.unwrap(), expected, "{script}");
            assert_eq!(child.wait().await.unwrap(), expected, "again: {script}");
            assert_eq!(child.exit(), Some(expected));
            assert_eq!(expected.to_string(), text);
            assert!(!super::super::is_alive(&child.id()));
        }
        check("exit 0", Exit::Code(0), "exit code 0").await;
        check("exit 1", Exit::Code(1), "exit code 1").await;
        check("exit 143", Exit::Code(143), "exit code 143").await;
        check("kill -KILL $$", Exit::Signal(9), "signal 9 (SIGKILL)").await;
        check("kill -TERM $$", Exit::Signal(15), "signal 15 (SIGTERM)").await;
    }

    #[tokio::test]
    async fn waiting_may_be_cancelled() {
        let mut child = spawn(&sh("read line; exit 7")).unwrap();
        assert!(child.wait_at_most(Duration::from_millis(1)).await.is_none());
        assert!(child.wait_at_most(Duration::ZERO).await.is_none());
        drop(child.stdin.take());
        assert_eq!(child.wait().await.unwrap(), Exit::Code(7));
    }

    #[tokio::test]
    async fn the_environment_is_the_one_given_and_the_cookie() {
        let mut spec = sh("exec env");
        spec.env = vec![("A".into(), "1".into()), ("AUTOPILOT_TEST".into(), "loses".into())];
        spec.env.extend(environment());
        let mut child = spawn(&spec).unwrap();
        let text = drain(child.stdout.take().unwrap()).await;
        assert_eq!(child.wait().await.unwrap(), Exit::Code(0));
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        names.retain(|name| !["PWD", "_", "SHLVL"].contains(name));
        assert_eq!(names, ["A", "AUTOPILOT_TEST", "PATH"]);
        assert!(text.contains(&format!("AUTOPILOT_TEST={}\n", spec.cookie.value)), "{text}");
        let shown = format!("{spec:?}");
        assert!(shown.contains("\"A\"") && !shown.contains("loses"), "{shown}");
    }

    #[tokio::test]
    async fn the_child_leads_a_group_of_its_own_and_has_none_of_our_descriptors() {
        let directory = tempfile::tempdir().unwrap();
        let held = std::fs::File::create(directory.path().join("held-open")).unwrap();
        let mut child =
            spawn(&sh("ls -l /dev/fd/ 2>/dev/null; ps -o pgid= -p $$ 2>/dev/null; read line")).unwrap();
        let group =
            rustix::process::getpgid(rustix::process::Pid::from_raw(child.id().pid.cast_signed())).unwrap();
        assert_eq!(group.as_raw_pid().cast_unsigned(), child.id().pid);
        drop(child.stdin.take());
        let text = drain(child.stdout.take().unwrap()).await;
        child.wait().await.unwrap();
        assert!(!text.contains("held-open"), "{text}");
        drop(held);
    }

    #[tokio::test]
    async fn failures_to_start_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let script = |name: &str, text: &str, mode| {
            std::fs::File::create(path(name))
                .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
                .unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        script("plain", "#!/bin/sh\n", 0o644);
        script("no-interpreter", "#!/no/such/interpreter\n", 0o755);
        script("empty", "", 0o755);
        script("garbage", "\u{1}\u{2}\u{3}\u{0}", 0o755);
        symlink(path("nowhere"), path("dangling")).unwrap();
        symlink(path("loop"), path("loop")).unwrap();
        std::fs::create_dir(path("gone")).unwrap();
        std::fs::remove_dir(path("gone")).unwrap();

        let kind = |error: SpawnError| match error {
            SpawnError::Missing { .. } => "missing",
            SpawnError::InterpreterMissing { .. } => "interpreter",
            SpawnError::NotExecutable { .. } => "not executable",
            SpawnError::Busy { .. } => "busy",
            SpawnError::SymlinkLoop { .. } => "loop",
            SpawnError::WorkingDirectory { .. } => "directory",
            SpawnError::Other { .. } => "other",
        };
        let check = |program: PathBuf, cwd: PathBuf, expected| {
            let what = format!("{} in {}", program.display(), cwd.display());
            let spec = SpawnSpec { program, cwd, ..sh("") };
            assert_eq!(spawn(&spec).map(|_| ()).map_err(kind), expected, "{what}");
        };
        let here = || directory.path().to_path_buf();
        check(path("nowhere"), here(), Err("missing"));
        check(path("plain/nowhere"), here(), Err("missing"));
        check("no-such-program-anywhere".into(), here(), Err("missing"));
        check(path("dangling"), here(), Err("missing"));
        check(path("plain"), here(), Err("not executable"));
        check(here(), here(), Err("not executable"));
        check(path("empty"), here(), Err("not executable"));
        check(path("garbage"), here(), Err("not executable"));
        check(path("no-interpreter"), here(), Err("interpreter"));
        check(path("loop"), here(), Err("loop"));
        check("/bin/sh".into(), path("gone"), Err("directory"));
        check("/bin/sh".into(), path("plain"), Err("directory"));
        check(path("nowhere"), path("gone"), Err("directory"));
        check("/bin/\0sh".into(), here(), Err("other"));

        // Somebody writes to the program, as an updater does.
        script("written", "#!/bin/sh\n", 0o755);
        std::fs::copy("/bin/sh", path("binary")).unwrap();
        let writer = std::fs::OpenOptions::new().append(true).open(path("binary")).unwrap();
        check(path("binary"), here(), Err("busy"));
        drop(writer);
    }

    #[tokio::test]
    async fn dropping_a_child_kills_its_group() {
        let mut child = spawn(&sh("sleep 300 & echo $!; wait")).unwrap();
        let grandchild = ProcessId::of(super::super::testing::read_pid(&mut child).await).unwrap();
        let leader = child.id();
        drop(child);
        super::super::testing::wait_until("both are dead", || {
            !super::super::is_alive(&grandchild) && !super::super::is_alive(&leader)
        })
        .await;
    }

    #[tokio::test]
    async fn a_status_that_somebody_else_took_is_an_error_and_the_pid_is_given_up() {
        use rustix::process::{Pid, WaitOptions, waitpid};
        let mut child = spawn(&sh("exit 0")).unwrap();
        let pid = Pid::from_raw(child.id().pid.cast_signed()).unwrap();
        assert!(waitpid(Some(pid), WaitOptions::empty()).unwrap().is_some());
        assert_eq!(child.wait().await.map_err(|error| Errno::from_io_error(&error)), Err(Some(Errno::CHILD)));
        assert_eq!(child.unreaped(), None);
        assert!(!child.signal_group(Signal::Kill));
    }
}
