//! The PTY engine on the real interactive program.

use rustix::process::Signal;
use serde_json::json;

use super::{TOOL, commit};
use crate::stub::{Reply, Request};
use crate::support::{Night, STEP};

/// An account that has been set up (a fresh one asks the network first), and a folder that nobody has trusted yet.
fn set_up() -> Night {
    let night = Night::new();
    let key = "sk-made-up-for-a-test";
    let config = json!({
        "hasCompletedOnboarding": true, "theme": "dark", "lastOnboardingVersion": "2.1.332",
        "customApiKeyResponses": {"approved": [&key[key.len() - 20..]], "rejected": []},
    });
    std::fs::write(night.config().join(".claude.json"), config.to_string()).expect("a fresh file");
    night
}

const ARGUMENTS: [&str; 5] =
    ["--engine=pty", "--prompt=Do the work", "--permission-mode=manual", "--max-sessions=1", "--no-progress"];

fn reported(status: &str) -> Reply {
    let report = json!({
        "status": status, "summary": "It is done.",
        "agent_summary": {"complete": 1, "partial": 0, "failed": 0, "spiral": 0},
        "effectiveness": {"planned_issues": 1, "completed": 1, "carryover": 0, "emergent": 0},
    });
    Reply::text(&format!("All done.\n```json\n{report}\n```"))
}

/// First start, trust, a dialog that is approved, and the end of the turn.
#[test]
fn ordinary_work_is_approved_and_ends() {
    let night = set_up();
    night.stub.next(commit("one")).next(reported("complete"));
    let ended = night.run(&ARGUMENTS);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one"], "{}", ended.stderr);
    let session = &night.events_of(&ended, "session_ended")[0];
    assert_eq!(
        json!([session["class"], session["status"], session["summary"]]),
        json!(["ok", "complete", "It is done."])
    );
    let decided = &night.events_of(&ended, "gate_decided")[0];
    assert_eq!(json!([decided["decision"], decided["prompt"]]), json!(["allow", true]));
    let end = &night.events_of(&ended, "attempt_ended")[0];
    assert_eq!(end["signals"], json!([]), "it leaves by itself: {end}");
}

/// A dialog that is denied: the call does not run, and the session is told why.
#[test]
fn a_refused_call_does_not_run_and_the_session_is_told() {
    let night = set_up();
    night.stub.next(Reply::bash("touch ran.txt && git push --force")).when(
        1,
        |request| request.last_user_text().contains("was refused"),
        reported("complete"),
    );
    let ended = night.run(&ARGUMENTS);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.read("ran.txt"), None, "{}", ended.stderr);
    let decided = &night.events_of(&ended, "gate_decided")[0];
    assert_eq!(json!([decided["decision"], decided["what"]]), json!(["deny", "git push --force"]));
    let requests = night.stub.requests();
    let told = requests.iter().map(Request::last_user_text).find(|text| text.contains("was refused"));
    assert!(told.expect("it was told").contains("force"), "{}", ended.stderr);
    assert_eq!(night.events_of(&ended, "session_ended")[0]["denials"], 1);
}

#[test]
fn the_calls_of_a_sub_agent_are_judged_too() {
    let night = set_up();
    let helper = json!({"description": "a helper", "prompt": "Help out", "subagent_type": "general-purpose"});
    let helps = |request: &Request| request.user_text().contains("Help out");
    night
        .stub
        .when(1, helps, Reply::bash("echo fine > allowed.txt"))
        .when(2, helps, Reply::text("Helped"))
        .next(Reply::tool("Agent", &helper))
        .next(reported("complete"))
        .next(reported("complete"));
    let ended = night.run(&ARGUMENTS);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.read("allowed.txt").as_deref(), Some("fine\n"), "{}", ended.stderr);
    let decided = &night.events_of(&ended, "gate_decided")[0];
    assert_eq!(
        json!([decided["decision"], decided["sub_agent"]]),
        json!(["allow", true]),
        "{}",
        ended.stderr
    );
}

/// Killed in the middle of a tool, it is resumed under the same id.
#[test]
fn a_killed_program_is_resumed() {
    let night = set_up();
    night.stub.next(commit("one")).next(Reply::bash(TOOL));
    let mut program = night.start(&ARGUMENTS);
    night.wait_for_process(TOOL);
    night.stub.next(commit("two")).next(reported("complete"));
    let pid = night.wait_for_event("attempt_spawned")["pid"].as_u64().unwrap();
    night.signal(u32::try_from(pid).unwrap(), Signal::KILL);
    night.wait_until_gone(TOOL);
    let ended = night.ended(&mut program);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(ended.heals(), [("killed_by_other".to_owned(), "reconcile".to_owned())]);
    assert_eq!(night.commits(), ["Add one", "Add two"], "{}", ended.stderr);
    assert_eq!(night.transcripts().len(), 1, "the same conversation");
    night.wait_until_empty(STEP);
}
