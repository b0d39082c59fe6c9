//! Hangs, and what a killed driver leaves.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use super::signals::TOOL;
use super::{assert_cost, commit, work};
use crate::stub::{Reply, Request};
use crate::support::{Night, STEP};

/// Output tokens of an answer of the stub.
const ANSWER: u64 = 10;

#[test]
fn a_hang_is_ended_and_the_session_goes_on() {
    let night = Night::new();
    night.stub.next(commit("one")).next(Reply::never()).next(commit("two")).next(Reply::report("complete"));
    let ended = night.run(&work(&["--max-sessions=1", "--stall-timeout=5"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
    assert_eq!(ended.heals(), [("stalled".to_owned(), "reconcile".to_owned())]);
    assert_eq!(ended.record()["stall_recovery_count"], 1);
    // The stream says next to nothing of what the ended process had used; its transcript does.
    let (input, output) = night.stub.spent();
    assert_eq!(ended.record()["total_tokens_used"], output);
    assert_cost(&ended.record()["cost_usd"], input, output);
    assert_eq!(ended.sessions.len(), 1);
    assert_eq!(night.transcripts().len(), 1);
    let request = night.stub.requests()[2].last_user_text();
    assert!(request.contains("interrupted half-way") && request.contains("Do the work"), "{request}");
}

/// A tool that writes nothing for longer than the deadline is no hang while it works.
#[test]
fn a_busy_tool_is_not_a_hang() {
    let night = Night::new();
    let busy = "i=0; while [ $SECONDS -lt 9 ]; do i=$((i+1)); done; git commit --quiet --allow-empty -m Busy";
    night.stub.next(Reply::bash(busy)).next(Reply::report("complete"));
    let ended = night.run(&work(&["--max-sessions=1", "--stall-timeout=5"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(ended.heals(), []);
    assert_eq!(night.commits(), ["Busy"]);
}

/// What the CLI had started is ended as well, and the conversation goes on.
#[test]
fn a_killed_cli_is_started_again() {
    let night = Night::new();
    night.stub.next(commit("one")).next(Reply::bash(TOOL));
    let mut program = night.start(&work(&["--max-sessions=1"]));
    night.wait_for_process(TOOL);
    night.stub.next(commit("two")).next(Reply::report("complete"));
    let pid = night.wait_for_event("attempt_spawned")["pid"].as_u64().unwrap();
    night.signal(u32::try_from(pid).unwrap(), Signal::KILL);
    night.wait_until_gone(TOOL);
    let ended = night.ended(&mut program);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(ended.heals(), [("killed_by_other".to_owned(), "reconcile".to_owned())]);
    // What the killed one used counts, too, as far as it stands in its transcript: of a killed process the last
    // message may be missing there.
    let used = ended.record()["total_tokens_used"].as_u64().expect("a number");
    let spent = night.stub.spent().1;
    assert!(used == spent || used + ANSWER == spent, "{used} of {spent} tokens");
    assert_eq!(night.commits(), ["Add one", "Add two"]);
    assert_eq!(night.transcripts().len(), 1);
}

/// Nothing that a session started lives longer than the session.
#[test]
fn a_process_left_behind_is_ended_with_its_session() {
    let night = Night::new();
    let daemon =
        format!("setsid {TOOL} > /dev/null 2>&1 < /dev/null & git commit --quiet --allow-empty -m Left");
    night.stub.next(Reply::bash(&daemon)).next(Reply::report("complete"));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Left"]);
    let swept = night.events_of(&ended, "attempt_ended")[0]["swept"].clone();
    assert!(
        swept.as_array().unwrap().iter().any(|swept| swept.as_str().unwrap().contains("tail")),
        "{swept}"
    );
}

#[test]
fn a_killed_driver_is_cleaned_up_after_and_its_session_goes_on() {
    let night = Night::new();
    night.stub.next(commit("one")).next(Reply::bash(TOOL));
    let mut program = night.start(&work(&["--max-sessions=2"]));
    night.wait_for_process(TOOL);
    program.signal(Signal::KILL);
    assert_eq!(program.wait(STEP).code(), None);
    assert_eq!(night.records("autopilot.jsonl").len(), 0);
    let [transcript] = &night.transcripts()[..] else { panic!("one transcript") };
    let session = transcript.file_stem().unwrap().to_string_lossy().into_owned();
    let written = fs::read(transcript).unwrap();

    // What is left of the dead session may still ask for something before it is ended.
    let dying = session.clone();
    let is_other = move |request: &Request| request.session() != dying;
    night.stub.when(1, is_other.clone(), commit("other")).when(1, is_other, Reply::report("complete"));
    let other = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(other.runs.len(), 2, "{}", other.stderr);
    let dead = &other.runs[0];
    assert_eq!(json!([dead["outcome"], dead["exit_code"]]), json!(["died", 137]));
    assert_eq!(dead["sessions"], json!([session]));
    let found = night.events_of(&other, "dead_run_found");
    assert_eq!(found[0]["run_id"], dead["autopilot_run_id"]);
    assert_eq!(found[0]["survivors"], json!([]));
    assert_eq!(other.runs[1]["exit_code"], 0);

    night.stub.next(commit("two")).next(Reply::report("complete"));
    let resumed = night.run(&["resume", dead["autopilot_run_id"].as_str().unwrap()]);
    let record = resumed.runs.iter().find(|run| run["autopilot_run_id"] == dead["autopilot_run_id"]).unwrap();
    assert_eq!((resumed.runs.len(), &record["exit_code"]), (2, &json!(0)), "{}", resumed.stderr);
    assert_eq!(record["sessions"][0], session.as_str());
    assert_eq!(night.commits(), ["Add one", "Add other", "Add two"]);
    assert!(fs::read(transcript).unwrap().starts_with(&written), "the transcript is only added to");
    assert!(night.stub.requests().iter().any(|request| {
        request.session() == session && request.last_user_text().contains("interrupted half-way")
    }));
}
