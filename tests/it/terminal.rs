//! A terminal or a reader that disappears while a run goes on: the run goes on.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::support::env::TestEnv;
use crate::support::run::dump;
use crate::support::story::{PARTIAL, events, record_is};
use crate::support::wait;

const SCRIPT: &str = "init\ntext \"Here.\"\nwait_file go\n";

/// The first session waits until its onlookers are gone; two more follow.
fn env() -> TestEnv {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_MAX_SESSIONS", "3");
    let wait = format!("{SCRIPT}{}", PARTIAL.replace("turn", "text \"Did a part.\"\nresult"));
    env.script(&format!(
        "nth_call 1 {{\n{wait}\n}}\nnth_call 2 {{\n{PARTIAL}\n}}\nnth_call 3 {{\n{PARTIAL}\n}}"
    ));
    env
}

#[track_caller]
fn all_three(env: &TestEnv, mut child: std::process::Child) {
    env.release("go");
    let status = wait::until("the run ends", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0), "{}", dump(env));
    record_is(env, &[("kill_switch", json!("max-sessions-reached")), ("iterations_completed", json!(3))]);
    assert_eq!(env.sessions().len(), 3);
    assert_eq!(events(env, "stop_requested").len(), 0);
    assert_eq!(env.leftovers(), []);
}

#[test]
fn pipes_that_nobody_reads_any_more() {
    let env = env();
    let mut command = env.command(env!("CARGO_BIN_EXE_autopilot"));
    command.args(["--prompt", "x", "--events", "--json", "-v"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    assert!(out.read(&mut [0; 64]).unwrap() > 0);
    wait::until("the session waits", || env.has_mark(1, "waiting").then_some(()));
    drop((out, err));
    all_three(&env, child);
}

#[test]
fn a_terminal_that_is_closed() {
    let env = env();
    let terminal: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let side = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = env.command(env!("CARGO_BIN_EXE_autopilot"));
    command.args(["--prompt", "x"]).env("TERM", "xterm");
    command.stdin(side()).stdout(side()).stderr(side());
    let child = command.spawn().unwrap();
    drop(command);
    wait::until("the session waits", || env.has_mark(1, "waiting").then_some(()));
    // From now on every write to it fails (EIO).
    drop(terminal);
    all_three(&env, child);
}
