//! Other Claude sessions in the same working tree: waited for, named, and never raced.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::proc;
use crate::support::story::{PARTIAL, events, finish, record_is, run, says};
use crate::support::wait;

/// A process that passes for somebody else's Claude session.
struct Peer {
    pid: i32,
}

impl Peer {
    /// Starts one that works in `directory`. Its parent is gone: whoever runs these tests from inside a Claude
    /// session is a parent of `autopilot` too, and the helpers of that session are no peers.
    fn start(env: &TestEnv, directory: &Path) -> Self {
        let claude = env.root().join("claude");
        if !claude.exists() {
            symlink(env.root().join("bin/sleep").canonicalize().unwrap(), &claude).unwrap();
        }
        let mut shell = env.command("sh");
        // Nothing of the place in its environment: it is no process of the test's run.
        shell.env_clear().current_dir(directory).stderr(Stdio::null());
        let script = "\"$0\" 300 </dev/null >/dev/null 2>&1 & echo $!";
        let output = shell.args(["-c", script]).arg(&claude).output().unwrap();
        let pid = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        let peer = Peer { pid };
        wait::until("the peer is what it passes for", || {
            proc::find(pid)?.command.contains("/claude 300").then_some(())
        });
        peer
    }

    fn end(&self) {
        proc::signal(self.pid, Signal::KILL);
        wait::until("the peer is gone", || (!proc::alive(self.pid)).then_some(()));
    }

    fn lives(&self) -> bool {
        proc::alive(self.pid)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        proc::signal(self.pid, Signal::KILL);
    }
}

/// The run has said that it waits for this process.
fn waits_for(env: &TestEnv, pid: i32) -> Option<Value> {
    events(env, "peer_wait").into_iter().find(|wait| wait["peers"][0]["pid"] == pid)
}

#[test]
fn a_peer_that_ends_in_time_lets_the_run_go_on() {
    let env = TestEnv::new();
    std::fs::create_dir(env.repo().join(".claude")).unwrap();
    let peer = Peer::start(&env, &env.repo().join(".claude"));
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "1"]);
    let told = running.wait_for("it waits", |env| waits_for(env, peer.pid));
    assert_eq!((&told["iteration"], &told["at_most_seconds"]), (&json!(1), &json!(300)));
    assert_eq!(env.calls(), [Value::Null; 0]);
    // Whoever looks meanwhile sees what it waits for.
    let status = env.autopilot(&["status"]);
    assert!(
        status.stdout.contains(&format!("waiting for the Claude session {} (started ", peer.pid)),
        "{status}"
    );
    peer.end();
    let run = finish(&env, running, 0, &Expect::default());
    says(
        &run,
        &[
            &format!("waiting for the Claude session {} (started ", peer.pid),
            " to finish, at most 5m 00s",
            "--allow-peers",
            "nobody else works here any more",
            &format!("waited for the Claude session {}", peer.pid),
        ],
    );
    assert_eq!(env.calls().len(), 1);
    record_is(&env, &[("kill_switch", json!("max-sessions-reached")), ("exit_code", json!(0))]);
}

#[test]
fn a_peer_that_stays_ends_the_run() {
    let env = TestEnv::new();
    let peer = Peer::start(&env, env.repo());
    for (grace, words) in [("0", "is at work in this repository"), ("1", "after 1 s of waiting")] {
        let run = run(&env, &["--prompt", "x", "--peer-grace", grace], 5);
        says(
            &run,
            &[
                "stopped: another Claude session is at work here, exit code 5",
                &format!("the Claude session {} (started ", peer.pid),
                words,
                "Next",
                &peer.pid.to_string(),
                "autopilot resume",
                "--allow-peers",
            ],
        );
        record_is(
            &env,
            &[
                ("kill_switch", Value::Null),
                ("exit_code", json!(5)),
                ("outcome", json!("already-running")),
                ("iterations_completed", json!(0)),
                ("fallback_to_manual", json!(false)),
                ("failure_class", Value::Null),
            ],
        );
        let detail = env.last_run()["kill_switch_detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&peer.pid.to_string()) && detail.contains(words), "{detail}");
    }
    assert_eq!((env.calls().len(), env.sessions().len()), (0, 0));
    assert!(peer.lives(), "it is not touched");
    // What was to be done is still known.
    peer.end();
    run(&env, &["resume", "--max-sessions", "1"], 0);
    assert_eq!(env.calls().len(), 1);
}

#[test]
fn one_that_comes_while_a_session_runs_is_waited_for_before_the_next() {
    let env = TestEnv::new();
    env.script(&format!("init\nwait_file go\n{}", PARTIAL.replace("turn", "text \"x\"\nresult")));
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "2", "--peer-grace", "1"]);
    running.wait_mark(1, "waiting");
    let peer = Peer::start(&env, env.repo());
    env.release("go");
    let run = finish(&env, running, 5, &Expect::default());
    says(&run, &[&format!("the Claude session {}", peer.pid), "exit code 5"]);
    record_is(&env, &[("iterations_completed", json!(1)), ("kill_switch", Value::Null)]);
    assert_eq!(env.calls().len(), 1);
}

#[test]
fn peers_may_be_allowed() {
    let env = TestEnv::new();
    env.script(PARTIAL);
    let peer = Peer::start(&env, env.repo());
    let run = run(&env, &["--prompt", "x", "--max-sessions", "2", "--allow-peers"], 0);
    says(&run, &[&format!("warning: the Claude session {} (started ", peer.pid), "--allow-peers"]);
    assert_eq!(events(&env, "warning").len(), 1, "it is said once");
    assert_eq!((env.calls().len(), events(&env, "peer_wait").len()), (2, 0));
}

#[test]
fn sessions_elsewhere_are_no_peers() {
    let env = TestEnv::new();
    env.git(&["worktree", "add", "--quiet", "-b", "other", ".claude/worktrees/other"]);
    let _elsewhere = Peer::start(&env, env.root());
    let _linked = Peer::start(&env, &env.repo().join(".claude/worktrees/other"));
    run(&env, &["--prompt", "x", "--max-sessions", "1", "--peer-grace", "0"], 0);
    assert_eq!(env.calls().len(), 1);
}

#[test]
fn a_stop_ends_the_wait() {
    let env = TestEnv::new();
    let peer = Peer::start(&env, env.repo());
    let mut running = env.start(&["--prompt", "x"]);
    running.wait_for("it waits", |env| waits_for(env, peer.pid));
    running.signal(Signal::INT);
    finish(&env, running, 130, &Expect::default());
    record_is(&env, &[("kill_switch", json!("user-abort")), ("iterations_completed", json!(0))]);
    assert!(peer.lives());
}

#[test]
fn a_plan_says_what_would_happen() {
    let env = TestEnv::new();
    let peer = Peer::start(&env, env.repo());
    for (args, words) in [
        (["--peer-grace", "90"].as_slice(), "the run would wait for it at most 1m 30s, then end (exit 5)"),
        (&["--peer-grace=0"], "the run would end at once (exit 5)"),
        (&["--allow-peers"], "the run would work beside it (--allow-peers)"),
    ] {
        let plan = run(&env, &[&["--dry-run", "--prompt", "x"], args].concat(), 0);
        let who = format!("the Claude session {} (started ", peer.pid);
        assert!(plan.stdout.contains(&who) && plan.stdout.contains(words), "{plan}");
        let plan = run(&env, &[&["--dry-run", "--json", "--prompt", "x"], args].concat(), 0);
        assert_eq!(plan.json()["peers_here"][0]["pid"], peer.pid, "{plan}");
        assert_eq!(plan.json()["peers_here_consequence"], words, "{plan}");
    }
}
