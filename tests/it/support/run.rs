//! A run of the product, while it goes on and when it is over.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::env::{TestEnv, text};
use super::{proc, wait};

/// Longest run where a test says nothing else.
pub(crate) const RUN_LIMIT: Duration = Duration::from_mins(1);

/// The task files and the index before a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Before {
    pub(crate) plan: String,
    pub(crate) inbox: String,
    pub(crate) staged: String,
    /// The documents of the product, by name.
    pub(crate) documents: BTreeMap<String, Vec<u8>>,
    /// How many calls of the double there were.
    pub(crate) calls: usize,
    /// The run records there were.
    pub(crate) records: Vec<Value>,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) args: Vec<String>,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) elapsed: Duration,
    /// Highest resident size seen, KiB; `None` where `/proc` is missing.
    pub(crate) peak_rss_kib: Option<u64>,
    pub(crate) before: Before,
}

impl Finished {
    /// The exit code; `None` after a death by signal.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal it died of.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Stdout as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("stdout is not JSON: {e}\n{self}"))
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { args, status, stdout, stderr, elapsed, .. } = self;
        write!(
            f,
            "autopilot {}: {status} after {elapsed:.2?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
            args.join(" ")
        )
    }
}

/// A run under way. Dropped without [`Running::finish`], it is killed.
pub(crate) struct Running<'a> {
    env: &'a TestEnv,
    args: Vec<String>,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    started: Instant,
    limit: Duration,
    peak_rss_kib: Option<u64>,
    status: Option<ExitStatus>,
    before: Before,
}

impl<'a> Running<'a> {
    /// Starts `command`, its output going to the two files. Not to pipes: a descendant that lives on must not
    /// keep the test waiting for an end of file.
    pub(super) fn start(
        env: &'a TestEnv,
        mut command: Command,
        args: &[&str],
        stdout: PathBuf,
        stderr: PathBuf,
    ) -> Self {
        command.args(args).stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        let before = env.before();
        let child = command.spawn().unwrap();
        let mut running = Self {
            env,
            args: args.iter().map(|a| (*a).to_owned()).collect(),
            child,
            stdout,
            stderr,
            started: Instant::now(),
            limit: RUN_LIMIT,
            peak_rss_kib: None,
            status: None,
            before,
        };
        running.sample();
        running
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Another limit than [`RUN_LIMIT`] for the whole run.
    #[must_use]
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sends a signal to `autopilot` alone.
    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        assert!(proc::signal(self.pid(), signal), "no process to signal");
    }

    /// Waits for a condition while the run goes on; fails when the run ends before, or lasts too long.
    #[track_caller]
    pub(crate) fn wait_for<T>(&mut self, what: &str, mut look: impl FnMut(&TestEnv) -> Option<T>) -> T {
        let left = self.limit.saturating_sub(self.started.elapsed());
        let env = self.env;
        let found = wait::poll(left, || {
            // Looked at before the condition: what the run did last must not be missed.
            let over = self.over();
            match look(env) {
                Some(value) => Some(Some(value)),
                None if over => Some(None),
                None => None,
            }
        });
        match found {
            Some(Some(value)) => value,
            Some(None) => panic!("the run ended before: {what}\n{}\n{}", self.output(), dump(env)),
            None => panic!("waited {left:.1?} in vain: {what}\n{}\n{}", self.output(), dump(env)),
        }
    }

    /// Waits until call `call` of the double has come to `event` (`started`, `prompt`, `hang`, a `mark`'s name, …).
    #[track_caller]
    pub(crate) fn wait_mark(&mut self, call: u64, event: &str) {
        self.wait_for(&format!("call {call} at {event}"), |env| env.has_mark(call, event).then_some(()));
    }

    /// Waits for a published event of the run.
    #[track_caller]
    pub(crate) fn wait_event(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_for(what, |env| env.events().into_iter().find(&wanted))
    }

    /// What it has printed so far.
    pub(crate) fn output(&self) -> String {
        format!("--- stdout\n{}\n--- stderr\n{}", text(&self.stdout), text(&self.stderr))
    }

    /// Children of `autopilot` that ended and that it has not waited for.
    pub(crate) fn zombies(&self) -> Vec<proc::Proc> {
        proc::zombies_of(self.pid())
    }

    /// Waits for the end. A run over its limit is killed with all it started, and fails the test.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Finished {
        let left = self.limit.saturating_sub(self.started.elapsed());
        if wait::poll(left, || self.over().then_some(())).is_none() {
            let left_over = self.env.leftovers();
            let report = format!("{}\n{}", self.output(), dump(self.env));
            drop(self);
            panic!("no end after {left:.1?}, alive: {left_over:#?}\n{report}");
        }
        Finished {
            args: std::mem::take(&mut self.args),
            status: self.status.unwrap(),
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
            elapsed: self.started.elapsed(),
            peak_rss_kib: self.peak_rss_kib,
            before: std::mem::take(&mut self.before),
        }
    }

    fn over(&mut self) -> bool {
        self.sample();
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap();
        }
        self.status.is_some()
    }

    /// The high-water mark only grows, so its last value before the end is the one that counts.
    fn sample(&mut self) {
        if self.status.is_none() {
            self.peak_rss_kib = proc::peak_rss_kib(self.pid()).max(self.peak_rss_kib);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.child.kill().ok();
            self.child.wait().ok();
            self.env.end_leftovers();
        }
    }
}

/// What helps to understand a failure.
pub(crate) fn dump(env: &TestEnv) -> String {
    let list = |values: Vec<Value>| values.iter().map(|v| v.to_string() + "\n").collect::<String>();
    let calls = env.calls().into_iter().map(|mut call| {
        if let Some(call) = call.as_object_mut() {
            call.remove("env");
        }
        call
    });
    format!(
        "--- calls\n{}--- marks\n{}--- violations\n{}--- events\n{}--- runs\n{}--- sessions\n{}",
        list(calls.collect()),
        list(env.marks()),
        list(env.violations()),
        list(env.events()),
        list(env.runs()),
        list(env.sessions())
    )
}

#[cfg(test)]
mod tests {
    //! The support itself, with shell stand-ins for the product.

    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::support::double;

    fn shell<'a>(env: &'a TestEnv, text: &str) -> Running<'a> {
        let mut command = env.command("sh");
        command.arg("-c").arg(text);
        env.start_command(command, &[])
    }

    fn double() -> String {
        format!("\"$AUTOPILOT_CLAUDE_BIN\" {} go", double::PRINT.join(" "))
    }

    #[test]
    fn the_environment_is_built_from_nothing() {
        let mut env = TestEnv::new();
        env.unset("LOGNAME");
        env.set("EXTRA", "1");
        let run = shell(&env, "env | sed 's/=.*//'").finish();
        let mut names: Vec<&str> =
            run.stdout.lines().filter(|n| !["PWD", "SHLVL", "_"].contains(n)).collect();
        names.sort_unstable();
        let mut wanted: Vec<&str> = env.variables().collect();
        wanted.sort_unstable();
        assert_eq!(names, wanted);
        assert!(!names.contains(&"LOGNAME") && names.contains(&"EXTRA"));
        assert_eq!(shell(&env, "type gh glab claude >/dev/null 2>&1").finish().code(), Some(127));
    }

    #[test]
    fn the_built_program_starts_in_it() {
        let env = TestEnv::new();
        let run = env.autopilot(&["--version"]);
        assert_eq!(run.code(), Some(0), "{run}");
    }

    #[test]
    fn a_run_can_be_watched_and_signalled() {
        let env = TestEnv::new();
        env.script("init\nhang");
        let folder = ".orchestrator/autopilot/runs/r";
        let mut run = shell(
            &env,
            &format!(
                "trap 'echo \"{{}}\"; exit 143' TERM; mkdir -p {folder}; {} >/dev/null &
                 echo '{{\"event\":\"x\"}}' >{folder}/events.jsonl; wait",
                double()
            ),
        );
        run.wait_mark(1, "hang");
        run.wait_event("x", |e| e["event"] == "x");
        run.signal(Signal::TERM);
        let run = run.finish();
        assert_eq!((run.code(), run.json()), (Some(143), serde_json::json!({})));
        assert!(run.peak_rss_kib.is_some_and(|peak| peak > 100), "{:?}", run.peak_rss_kib);
        assert_eq!(env.leftovers().len(), 1);
        env.end_leftovers();
    }

    #[test]
    fn a_child_that_nobody_waits_for_is_seen() {
        let env = TestEnv::new();
        let run = shell(&env, "true & exec sleep 60");
        wait::until("a zombie", || (!run.zombies().is_empty()).then_some(()));
    }

    #[test]
    fn a_run_over_its_limit_is_ended_with_all_it_started() {
        let env = TestEnv::new();
        env.script("spawn_grandchild setsid ignore-term\nhang");
        let mut run = shell(&env, &format!("{} & wait", double()));
        run.wait_mark(1, "hang");
        let run = run.limit(Duration::from_millis(1));
        let panic = catch_unwind(AssertUnwindSafe(|| run.finish())).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("no end after") && text.contains("__grandchild"), "{text}");
        assert_eq!(env.leftovers(), []);
        assert!(env.bystander_lives());
    }
}
