//! A program under test with its three pipes, read by threads so that it never blocks on us.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::wait;

/// What came on an output, line by line.
#[derive(Default)]
struct Lines {
    lines: Mutex<(Vec<(Instant, String)>, bool)>,
    changed: Condvar,
}

impl Lines {
    fn collect(pipe: impl Read + Send + 'static) -> Arc<Self> {
        let shared = Arc::new(Self::default());
        let for_reader = Arc::clone(&shared);
        // Ends by itself when the last holder of the pipe is gone.
        std::thread::spawn(move || {
            let mut reader = BufReader::new(pipe);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
                line.clear();
                for_reader.change(|(lines, _)| lines.push((Instant::now(), text)));
            }
            for_reader.change(|(_, ended)| *ended = true);
        });
        shared
    }

    fn change(&self, change: impl FnOnce(&mut (Vec<(Instant, String)>, bool))) {
        change(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn text(&self) -> String {
        let guard = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        guard.0.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The first line from number `from` on that gives a value, with the number of the line after it and its time.
    /// `None` when the output ended or time is up.
    fn find<T>(
        &self,
        from: usize,
        deadline: Instant,
        mut pick: impl FnMut(&str) -> Option<T>,
    ) -> Option<(usize, Instant, T)> {
        let mut guard = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = from;
        loop {
            while let Some((at, line)) = guard.0.get(next) {
                next += 1;
                if let Some(value) = pick(line) {
                    return Some((next, *at, value));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if guard.1 || left.is_zero() {
                return None;
            }
            guard = self.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// As much of a line as helps to see what it is.
fn beginning(line: &str) -> String {
    line.chars().take(300).collect()
}

/// A started program. Killed and reaped on drop.
pub(crate) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
    started: Instant,
    read: usize,
}

impl Program {
    /// Starts it with three pipes.
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", command.get_program().display()));
        Self {
            stdin: child.stdin.take(),
            stdout: Lines::collect(child.stdout.take().expect("stdout is a pipe")),
            stderr: Lines::collect(child.stderr.take().expect("stderr is a pipe")),
            child,
            started,
            read: 0,
        }
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line to its stdin.
    pub(crate) fn write_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("the program reads its stdin");
    }

    /// Ends its stdin.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal to this one process.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        super::process::signal(self.pid(), signal);
    }

    /// Everything on stdout so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Everything on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// The next line of stdout that gives a value, and how long after the start it came. Lines before it are passed over.
    pub(crate) fn next_line<T>(
        &mut self,
        what: &str,
        within: Duration,
        pick: impl FnMut(&str) -> Option<T>,
    ) -> (Duration, T) {
        let Some((next, at, value)) = self.stdout.find(self.read, Instant::now() + within, pick) else {
            let lines: Vec<String> = self.stdout().lines().map(beginning).collect();
            panic!("no {what} within {within:?}\nstdout: {lines:#?}\nstderr: {}", self.stderr());
        };
        self.read = next;
        (at - self.started, value)
    }

    /// Waits for the end of the process, and of its outputs unless something it started still holds them.
    pub(crate) fn wait(&mut self, within: Duration) -> ExitStatus {
        let child = &mut self.child;
        let status = wait::until("end of the program", within, || {
            child.try_wait().expect("a child can be waited for")
        });
        // Short: what the process wrote is in the pipe already, only a leaked descendant keeps it open longer.
        let deadline = Instant::now() + Duration::from_secs(1);
        for output in [&self.stdout, &self.stderr] {
            output.find(usize::MAX, deadline, |_| None::<()>);
        }
        status
    }

    /// Whether it runs still.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails when it has been reaped already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
