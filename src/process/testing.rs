//! What the tests of this module share. They start real processes: `sh`, `sleep`, `setsid`, `env`.

use std::ffi::OsString;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{sleep, timeout};

use super::{Child, Cookie, FirstStep, Ladder, SpawnSpec, Tree, os, spawn, stop};

/// Nothing that works takes as long; what does not work fails then.
const DEADLINE: Duration = Duration::from_secs(30);

/// A shell script with a cookie of its own and an environment of `PATH` alone.
pub(super) fn sh(script: &str) -> SpawnSpec {
    SpawnSpec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: environment(),
        cwd: "/".into(),
        cookie: Cookie::unique("AUTOPILOT_TEST"),
    }
}

pub(super) fn environment() -> Vec<(OsString, OsString)> {
    vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into())]
}

/// For the few things that `spawn` does not do on purpose.
#[expect(clippy::disallowed_methods, reason = "children that the module under test does not know of")]
pub(super) fn command(program: &str) -> std::process::Command {
    std::process::Command::new(program)
}

/// A process of ours outside every tree. It ends when dropped.
pub(super) async fn bystander() -> Child {
    let mut child = spawn(&sh("echo ready; exec sleep 300")).unwrap();
    assert_eq!(read_word(&mut child).await, "ready");
    child
}

pub(super) async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let met = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(DEADLINE, met).await.is_ok(), "never happened: {what}");
}

/// The next line of its standard output.
pub(super) async fn read_word(child: &mut Child) -> String {
    let stdout = child.stdout.as_mut().unwrap();
    let mut line = Vec::new();
    let read = async {
        loop {
            match stdout.read_u8().await.unwrap() {
                b'\n' => return,
                byte => line.push(byte),
            }
        }
    };
    assert!(timeout(DEADLINE, read).await.is_ok(), "no line");
    String::from_utf8(line).unwrap()
}

pub(super) async fn read_pid(child: &mut Child) -> u32 {
    read_word(child).await.parse().unwrap()
}

/// Everything up to end-of-file.
pub(super) async fn drain(mut pipe: impl AsyncRead + Unpin) -> String {
    let mut text = String::new();
    timeout(DEADLINE, pipe.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

/// Ends a tree, and nobody survives.
pub(super) async fn end(child: &mut Child, tree: &mut Tree) {
    let ladder = Ladder {
        first: FirstStep::Terminate,
        interrupt_grace: Duration::ZERO,
        terminate_grace: DEADLINE,
        kill_grace: DEADLINE,
    };
    let report = stop(child, tree, ladder).await;
    assert!(report.verified && report.survivors.is_empty(), "{report:?}");
}

/// Pids of all children of this process, zombies included.
pub(super) fn own_children() -> Vec<u32> {
    let me = std::process::id();
    let snapshot = os::snapshot().unwrap();
    snapshot.values().filter(|process| process.parent == me).map(|process| process.id.pid).collect()
}

/// Runs a test in a process of its own, because being a subreaper, and the list of children, belong to the
/// process and not to the thread. The process is this test binary again, with only that test and
/// `environment` added.
#[cfg(target_os = "linux")]
pub(super) fn alone(name: &str, environment: &[(&str, &str)], body: impl AsyncFnOnce()) {
    const MARK: &str = "AUTOPILOT_TEST_ALONE";
    if std::env::var_os(MARK).is_some_and(|mark| mark == name) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(body());
    }
    let mut command = command(std::env::current_exe().unwrap().to_str().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(MARK, name).envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "the test was not found: {text}");
}

/// The full name of a test of this module, for [`alone`].
macro_rules! here {
    ($test:literal) => {
        concat!(module_path!(), "::", $test).split_once("::").unwrap().1
    };
}
pub(super) use here;
