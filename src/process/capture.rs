//! Running a short helper (git, gh, `claude --version`, a user's `--verify` command) and keeping what it
//! says.
//!
//! Both pipes are drained from the start, beyond what is kept, so that no amount of output blocks the helper
//! (field-reports C12). The exit is what ends the wait, never end-of-file: a grandchild may hold a pipe open
//! for ever.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::time::timeout;

use super::exit::Exit;
use super::spawn::{self, Child, Cookie, SpawnError};
use super::stop::{FirstStep, Graces, Ladder, StopReport, stop, sweep};

/// Variable that tells the descendants of a helper from those of a session. Its value is fresh for each
/// helper.
pub const HELPER_COOKIE: &str = "AUTOPILOT_HELPER_ID";

/// How long after the exit a pipe may stay open before it counts as held by somebody else. What the helper
/// itself wrote is in the pipe when it exits and is read first, so this is no limit on its output.
const LEAK_GRACE: Duration = Duration::from_millis(250);

/// How a helper that runs out of time is ended.
const LADDER: Ladder = Ladder {
    first: FirstStep::Terminate,
    interrupt_grace: Duration::ZERO,
    terminate_grace: Duration::from_secs(2),
    kill_grace: Duration::from_secs(2),
};

/// All there is to know for running a helper.
#[derive(Clone, PartialEq, Eq)]
pub struct CaptureSpec {
    /// Absolute path, or a bare name that is looked up on `PATH`.
    pub program: PathBuf,
    /// Arguments without the program's own name.
    pub args: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    /// The environment to start from; `None`: ours.
    pub env: Option<Vec<(OsString, OsString)>>,
    /// Names taken out of it.
    pub env_remove: Vec<OsString>,
    /// Pairs then added or replaced.
    pub env_set: Vec<(OsString, OsString)>,
    /// What it reads; `None`: `/dev/null`.
    pub stdin: Option<Vec<u8>>,
    /// From start to exit.
    pub timeout: Duration,
    /// Bytes kept of each stream; the rest is read and dropped.
    pub max_output: usize,
    /// Whether what it leaves running after its exit is ended. Git leaves daemons on purpose; a test suite
    /// that leaves a server does not.
    pub sweep: bool,
}

impl CaptureSpec {
    /// Our environment, no input, 30 s, 1 MiB of each stream.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: None,
            env_remove: Vec::new(),
            env_set: Vec::new(),
            stdin: None,
            timeout: Duration::from_secs(30),
            max_output: 1 << 20,
            sweep: false,
        }
    }
}

/// Values of variables and the input may be secret, so only names and lengths are shown.
impl fmt::Debug for CaptureSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            |pairs: &[(OsString, OsString)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        f.debug_struct("CaptureSpec")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("cwd", &self.cwd)
            .field("env", &self.env.as_deref().map(names))
            .field("env_remove", &self.env_remove)
            .field("env_set", &names(&self.env_set))
            .field("stdin_bytes", &self.stdin.as_ref().map(Vec::len))
            .field("timeout", &self.timeout)
            .field("max_output", &self.max_output)
            .field("sweep", &self.sweep)
            .finish()
    }
}

/// What a helper that ended left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Captured {
    /// How it ended.
    pub exit: Exit,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
    /// Whether either was longer than what was kept.
    pub truncated: bool,
    /// Whether a process that it had started still held a pipe open, and may have had more to say.
    pub left_open: bool,
}

/// What a helper had said when its time was over.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Output {
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It was not started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It ran longer than allowed and was ended, with everything it had started.
    #[error("`{}` did not end within {} s", program.display(), after.as_secs_f32())]
    TimedOut {
        /// As given.
        program: PathBuf,
        /// The time allowed.
        after: Duration,
        /// What it had said by then.
        output: Output,
        /// How it was ended, and what could not be.
        stop: Box<StopReport>,
    },
    /// Its pipes or its status could not be read. It was killed.
    #[error("failed to read from `{}`", program.display())]
    Io {
        /// As given.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Runs a helper to its end, in a process group of its own.
///
/// What it leaves running after a normal exit is left alone (git starts daemons), unless
/// [`CaptureSpec::sweep`] says otherwise; it carries [`HELPER_COOKIE`], and the run's own cookie if the caller put that into the environment. When the future
/// is dropped, the helper's group is ended with SIGKILL ([`Child`]).
pub async fn capture(spec: &CaptureSpec) -> Result<Captured, CaptureError> {
    let mut child = start(spec)?;
    let failed = |source| CaptureError::Io { program: spec.program.clone(), source };
    let (mut stdout, mut stderr) = (Kept::new(spec.max_output), Kept::new(spec.max_output));
    let (out, err, input) = (child.stdout.take(), child.stderr.take(), child.stdin.take());
    let ended = {
        let pipes = async { tokio::try_join!(stdout.drain(out), stderr.drain(err)).map(|_| ()) };
        let feed = feed(input, spec.stdin.as_deref().unwrap_or_default());
        tokio::pin!(pipes, feed);
        let (mut drained, mut input_done) = (None, false);
        let exit = async {
            loop {
                tokio::select! {
                    exit = child.wait() => return exit,
                    result = &mut pipes, if drained.is_none() => drained = Some(result),
                    () = &mut feed, if !input_done => input_done = true,
                }
            }
        };
        match timeout(spec.timeout, exit).await {
            Err(_) => None,
            Ok(exit) => {
                if drained.is_none() {
                    drained = timeout(LEAK_GRACE, &mut pipes).await.ok();
                }
                Some((exit.map_err(failed)?, drained))
            }
        }
    };
    if ended.is_some() && spec.sweep {
        let graces = Graces { terminate: LADDER.terminate_grace, kill: LADDER.kill_grace };
        let report = sweep(&mut child.tree().without_adoption(), graces).await;
        if !report.survivors.is_empty() {
            tracing::warn!(survivors = ?report.survivors, "what a helper left could not be ended");
        }
    }
    let Some((exit, drained)) = ended else {
        let mut tree = child.tree().without_adoption();
        let stop = Box::new(stop(&mut child, &mut tree, LADDER).await);
        let output = Output { stdout: stdout.bytes, stderr: stderr.bytes };
        return Err(CaptureError::TimedOut {
            program: spec.program.clone(),
            after: spec.timeout,
            output,
            stop,
        });
    };
    let left_open = drained.is_none();
    drained.transpose().map_err(failed)?;
    let truncated = stdout.dropped || stderr.dropped;
    Ok(Captured { exit, stdout: stdout.bytes, stderr: stderr.bytes, truncated, left_open })
}

fn start(spec: &CaptureSpec) -> Result<Child, SpawnError> {
    let mut command = spawn::command(&spec.program);
    command.args(&spec.args).current_dir(&spec.cwd);
    if let Some(env) = &spec.env {
        command.env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    }
    for name in &spec.env_remove {
        command.env_remove(name);
    }
    command.envs(spec.env_set.iter().map(|(name, value)| (name, value)));
    command.stdin(if spec.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    spawn::start(command, &spec.program, &spec.cwd, Cookie::unique(HELPER_COOKIE))
}

/// Writes the input and closes the pipe. A helper that does not read it all has its reasons, and its exit
/// tells.
async fn feed(pipe: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut pipe) = pipe
        && let Err(error) = pipe.write_all(input).await
    {
        tracing::debug!(%error, "a helper did not read all of its input");
    }
}

/// The beginning of a stream.
struct Kept {
    bytes: Vec<u8>,
    most: usize,
    dropped: bool,
}

impl Kept {
    fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most, dropped: false }
    }

    async fn drain(&mut self, pipe: Option<impl AsyncRead + Unpin>) -> io::Result<()> {
        let Some(mut pipe) = pipe else { return Ok(()) };
        let mut buffer = vec![0; 32 << 10];
        loop {
            let read = pipe.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            let keep = read.min(self.most - self.bytes.len());
            self.bytes.extend_from_slice(&buffer[..keep]);
            self.dropped |= keep < read;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bystander, wait_until};
    use super::super::{ProcessId, is_alive};
    use super::*;

    fn spec(script: &str) -> CaptureSpec {
        let args = vec!["-c".into(), script.into()];
        CaptureSpec { args, timeout: Duration::from_mins(1), ..CaptureSpec::new("sh", "/") }
    }

    fn pids(text: &[u8]) -> Vec<ProcessId> {
        let text = String::from_utf8_lossy(text);
        text.split_whitespace().filter_map(|word| ProcessId::of(word.parse().ok()?)).collect()
    }

    #[tokio::test]
    async fn output_exit_and_truncation() {
        async fn check(spec: CaptureSpec, exit: Exit, stdout: &str, stderr: &str, truncated: bool) {
            let captured = capture(&spec).await.unwrap();
            let expected =
                Captured { exit, stdout: stdout.into(), stderr: stderr.into(), truncated, left_open: false };
            assert_eq!(captured, expected, "{spec:?}");
        }
        let ok = Exit::Code(0);
        check(spec("echo out; echo err >&2; exit 3"), Exit::Code(3), "out\n", "err\n", false).await;
        check(spec("kill -KILL $$"), Exit::Signal(9), "", "", false).await;
        check(spec("cat"), ok, "", "", false).await;
        check(CaptureSpec { stdin: Some(b"in\0put".to_vec()), ..spec("cat") }, ok, "in\0put", "", false)
            .await;
        check(CaptureSpec { stdin: Some(vec![b'x'; 4 << 20]), ..spec("exit 0") }, ok, "", "", false).await;
        check(CaptureSpec { max_output: 3, ..spec("echo 1234; echo 12 >&2") }, ok, "123", "12\n", true).await;
        check(CaptureSpec { max_output: 5, ..spec("echo 1234") }, ok, "1234\n", "", false).await;
        check(CaptureSpec { max_output: 0, ..spec("echo 1234") }, ok, "", "", true).await;
        let path = || (OsString::from("PATH"), std::env::var_os("PATH").unwrap_or_default());
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let env = Some(vec![path(), pair("A", "a"), pair("B", "b"), pair("C", "c")]);
        let edited = CaptureSpec {
            env,
            env_remove: vec!["A".into()],
            env_set: vec![pair("B", "bb")],
            ..spec("echo $A-$B-$C")
        };
        check(edited, ok, "-bb-c\n", "", false).await;
    }

    #[tokio::test]
    async fn ten_mebibytes_of_errors_first_do_not_block() {
        let script = "head -c 10485760 /dev/zero >&2; echo done";
        let captured = capture(&CaptureSpec { max_output: 1000, ..spec(script) }).await.unwrap();
        assert_eq!((captured.stdout.as_slice(), captured.stderr.len()), (b"done\n".as_slice(), 1000));
        assert!(captured.truncated);
    }

    #[tokio::test]
    async fn the_whole_tree_ends_when_time_is_over() {
        let bystander = bystander().await;
        let script = "setsid sleep 300 & echo $!; sleep 301 & echo $!; echo said >&2; wait";
        // Long enough for a loaded machine to get as far as `wait`.
        let error =
            capture(&CaptureSpec { timeout: Duration::from_millis(1200), ..spec(script) }).await.unwrap_err();
        assert_eq!(error.to_string(), "`sh` did not end within 1.2 s");
        let CaptureError::TimedOut { output, stop, .. } = error else { panic!("{error:?}") };
        assert_eq!(output.stderr, b"said\n");
        assert_eq!((stop.exit, stop.survivors.len(), stop.verified), (Some(Exit::Signal(15)), 0, true));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
        assert_eq!(pids(&output.stdout).iter().filter(|id| is_alive(id)).count(), 0);
        assert!(is_alive(&bystander.id()));
    }

    #[tokio::test]
    async fn a_grandchild_that_holds_the_pipe_open_blocks_nothing() {
        let captured = capture(&spec("sleep 300 & echo $!; exit 5")).await.unwrap();
        assert_eq!((captured.exit, captured.truncated, captured.left_open), (Exit::Code(5), false, true));
        let [grandchild] = pids(&captured.stdout)[..] else { panic!("{captured:?}") };
        assert!(is_alive(&grandchild), "a helper's daemons are left alone");
        super::super::signal::send(grandchild, super::super::Signal::Kill).unwrap();
    }

    #[tokio::test]
    async fn dropping_the_future_kills_the_helper() {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pid");
        let mut spec = spec("echo $$ > pid.new; mv pid.new pid; exec sleep 300");
        spec.cwd = directory.path().into();
        let found = || std::fs::read(&pid_file).ok().and_then(|text| pids(&text).first().copied());
        let helper = tokio::select! {
            result = capture(&spec) => panic!("{result:?}"),
            helper = async { wait_until("the helper runs", || found().is_some()).await; found() } => helper.unwrap(),
        };
        wait_until("the helper is dead", || !is_alive(&helper)).await;
    }

    #[tokio::test]
    async fn a_missing_helper_is_a_spawn_error() {
        let error = capture(&CaptureSpec::new("no-such-program-anywhere", "/")).await.unwrap_err();
        assert!(matches!(error, CaptureError::Spawn(SpawnError::Missing { .. })), "{error:?}");
        assert_eq!(error.to_string(), "program `no-such-program-anywhere` does not exist");
    }
}
