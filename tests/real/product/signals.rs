//! A person, or a shutdown, that wants the run to end.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::{commit, in_seconds, work};
use crate::stub::Reply;
use crate::support::Night;

/// A command without end.
pub(crate) const TOOL: &str = "tail -f /dev/null";

#[test]
fn one_interrupt_lets_the_session_finish() {
    let night = Night::new();
    let gate = night.config().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let wait = format!("cat {}", gate.display());
    night
        .stub
        .next(Reply::bash(&format!("{wait} && git commit --quiet --allow-empty -m Finished")))
        .next(Reply::report("partial"))
        .next(commit("two"));
    let mut program = night.start(&work(&["--max-sessions=3"]));
    night.wait_for_process(&wait);
    program.signal(Signal::INT);
    night.wait_for_event("stop_requested");
    fs::write(&gate, "go\n").unwrap();
    let ended = night.ended(&mut program);
    assert_eq!(ended.verdict(), json!([130, "user-abort", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Finished"]);
    assert_eq!(ended.record()["iterations_completed"], 1);
    assert_eq!(ended.sessions[0]["status"], "completed");
    assert_eq!(night.stub.requests().len(), 2, "no second session");
}

/// Ends a run in the middle of a tool, and checks how.
fn check_ended_at_once(end: impl Fn(&Night, &crate::support::Program), code: i32) {
    let night = Night::new();
    night.stub.next(commit("one")).next(Reply::bash(TOOL)).always(commit("more"));
    let mut program = night.start(&work(&["--max-sessions=3"]));
    night.wait_for_process(TOOL);
    let [transcript] = &night.transcripts()[..] else { panic!("one transcript") };
    let written = fs::read(transcript).expect("the transcript is there");
    let asked = Instant::now();
    end(&night, &program);
    let ended = night.ended(&mut program);
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert_eq!(ended.verdict(), json!([code, "user-abort", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one"]);
    assert_eq!(ended.record()["iterations_completed"], 0);
    assert_eq!(ended.sessions[0]["status"], "abandoned");
    assert_eq!(ended.record()["total_tokens_used"], night.stub.spent().1, "what was spent is told");
    assert!(
        fs::read(transcript).expect("the transcript is there").starts_with(&written),
        "the transcript is only added to"
    );
    assert!(ended.stderr.contains("autopilot resume"), "{}", ended.stderr);
}

#[test]
fn a_second_interrupt_ends_the_session() {
    check_ended_at_once(
        |night, program| {
            program.signal(Signal::INT);
            night.wait_for_event("stop_requested");
            program.signal(Signal::INT);
        },
        130,
    );
}

#[test]
fn a_termination_ends_the_session() {
    check_ended_at_once(|_, program| program.signal(Signal::TERM), 143);
}

/// The CLI has not said a word yet, so there may be no conversation to go on with.
#[test]
fn a_run_ended_before_the_first_word_can_be_resumed() {
    let night = Night::new();
    let mut program = night.start(&work(&["--max-sessions=1"]));
    night.wait_for_event("attempt_spawned");
    program.signal(Signal::TERM);
    let first = night.outcome(&mut program);
    night.wait_until_empty(Duration::from_secs(2));
    assert_eq!(first.code, Some(143), "{}", first.stderr);
    assert_eq!(first.verdict(), json!([143, "user-abort", null]), "{}", first.stderr);

    night.stub.next(commit("one")).next(Reply::report("complete"));
    let resumed = night.outcome(&mut night.start(&["resume"]));
    night.wait_until_empty(Duration::from_secs(2));
    assert_eq!(resumed.verdict(), json!([0, "max-sessions-reached", null]), "{}", resumed.stderr);
    assert_eq!(night.commits(), ["Add one"]);
}

#[test]
fn one_interrupt_ends_the_sleep_for_a_usage_limit() {
    let mut night = Night::new();
    night.subscription();
    night.stub.next(commit("one")).next(Reply::usage_limit(in_seconds(3600)));
    let mut program = night.start(&work(&["--max-sessions=3"]));
    night.wait_for_event("limit_wait");
    program.signal(Signal::INT);
    let ended = night.ended(&mut program);
    assert_eq!(ended.verdict(), json!([130, "user-abort", null]), "{}", ended.stderr);

    night.stub.next(commit("two")).next(Reply::report("complete"));
    let resumed = night.run(&["resume", "--max-sessions=1"]);
    assert_eq!(resumed.record()["exit_code"], 0, "{}", resumed.stderr);
    assert_eq!(resumed.record()["sessions"], ended.record()["sessions"]);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
}

#[test]
fn a_second_run_in_the_same_repository_is_refused() {
    let night = Night::new();
    night.stub.next(Reply::bash(TOOL));
    let mut first = night.start(&work(&["--max-sessions=1"]));
    night.wait_for_process(TOOL);
    let second = night.outcome(&mut night.start(&work(&[])));
    assert_eq!(second.code, Some(5), "{}", second.stderr);
    assert_eq!(night.stub.requests().len(), 1);
    first.signal(Signal::TERM);
    let ended = night.ended(&mut first);
    assert_eq!(ended.verdict(), json!([143, "user-abort", null]), "{}", ended.stderr);
    assert_eq!(ended.runs.len(), 1);
}
