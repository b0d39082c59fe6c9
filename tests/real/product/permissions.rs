//! What a session may not do, and what helps it: denied calls, questions, sub-agents.

use serde_json::json;

use super::{WORK, commit, work};
use crate::stub::Reply;
use crate::support::Night;

/// The CLI calls such a turn a success.
#[test]
fn a_denied_call_is_reported() {
    let night = Night::new();
    night.stub.next(commit("one")).next(Reply::report("complete"));
    let ended = night.run(&[WORK[0], "--max-sessions=1", "--no-progress"]);
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    assert_eq!(night.commits(), [] as [&str; 0]);
    let session = &night.events_of(&ended, "session_ended")[0];
    assert_eq!(json!([session["class"], session["denials"]]), json!(["denied", 1]));
    assert!(ended.stderr.contains("denied"), "{}", ended.stderr);
}

#[test]
fn a_question_that_needs_a_person_ends_the_run() {
    let night = Night::new();
    let question = json!({"blocked_on": {"question": "Which of the two licences?", "options": ["MIT"]}});
    night.stub.next(Reply::report_with("blocked", &question));
    let ended = night.run(&work(&["--max-sessions=2"]));
    assert_eq!(ended.verdict(), json!([24, "failed-wave", "blocked"]), "{}", ended.stderr);
    assert_eq!(ended.sessions.len(), 1);
    assert!(ended.stderr.contains("Which of the two licences?"), "{}", ended.stderr);
}

#[test]
fn a_sub_agent_is_counted_with_its_tokens() {
    let night = Night::new();
    let helper = json!({"description": "a helper", "prompt": "Help out", "subagent_type": "general-purpose"});
    night
        .stub
        .when(1, |request| request.last_user_text().contains("Help out"), commit("helped").usage(500, 41))
        .when(1, |request| request.user_text().contains("Help out"), Reply::text("Helped").usage(600, 42))
        .next(Reply::tool("Agent", &helper).usage(1000, 43))
        .next(Reply::report("complete").usage(1100, 44));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add helped"]);
    assert_eq!(ended.sessions[0]["total_agents"], 1);
    assert_eq!(ended.record()["total_tokens_used"], 41 + 42 + 43 + 44);
    assert_eq!(ended.record()["tokens"]["input"], night.stub.spent().0);
}
