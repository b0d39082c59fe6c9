//! Sessions in a row: work, report, records, books.

use serde_json::json;

use super::{assert_cost, commit, work};
use crate::stub::Reply;
use crate::support::{Ended, Night, STEP};

/// Larger than an argument of a process may be (128 KiB), with an end that must arrive as well (field-reports C15).
fn large_work() -> String {
    let mut text = "The beginning of the work.\n".to_owned();
    while text.len() < 200 * 1024 {
        text.push_str("A line of the work, with \"quotes\", {{ braces }} and \u{1f319}.\n");
    }
    text + "The end of the work."
}

#[test]
fn three_sessions_do_the_work_and_every_one_is_accounted_for() {
    let night = Night::new();
    let text = large_work();
    night.write("work.md", &text);
    for (name, status) in [("one", "partial"), ("two", "partial"), ("three", "complete")] {
        night.stub.next(commit(name).usage(1000, 50)).next(Reply::report(status).usage(2000, 30));
    }
    let mut program = night.start(&[
        "--max-sessions=3",
        "--prompt-file=work.md",
        "--allowed-tools=Bash",
        "--max-cost=5",
        "--no-progress",
    ]);
    night.stub.wait_for_request(STEP, |_| true);
    let running = night.leftovers();
    assert!(running.iter().any(|left| left.command.contains("--session-id")), "{running:?}");
    assert!(!running.iter().any(|left| left.command.contains("of the work.")), "{running:?}");

    let ended = night.ended(&mut program);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one", "Add two", "Add three"]);
    let requests = night.stub.requests();
    assert_eq!(requests.len(), 6);
    for first in requests.iter().step_by(2) {
        assert!(first.user_text().contains(&text), "the prompt arrives complete");
    }
    let started = night.events_of(&ended, "session_started");
    for (request, started) in requests.iter().step_by(2).zip(&started) {
        let rule = match started["cap"].as_u64().unwrap() {
            0 => "Work without sub-agents".to_owned(),
            cap => format!("at most {cap} sub-agent"),
        };
        assert!(request.user_text().contains(&rule), "{rule}");
    }
    assert!(requests[2].user_text().contains("A session that ends partial."), "what the last one left");

    let record = ended.record();
    assert_eq!(record["iterations_completed"], 3);
    assert_eq!(record["heals"], json!([]));
    assert_eq!(record["tokens"]["input"], night.stub.spent().0);
    assert_eq!(record["tokens"]["output"], night.stub.spent().1);
    assert_eq!(record["total_tokens_used"], 240);
    assert_cost(&record["cost_usd"], 9000, 240);
    for session in &ended.sessions {
        assert_eq!(session["status"], "completed");
        assert_eq!(session["agent_summary"], json!({"complete": 1, "partial": 0, "failed": 0, "spiral": 0}));
        assert_eq!(session["effectiveness"]["completion_rate"], 1);
        assert_eq!(session["total_files_changed"], 1);
        assert_eq!(session["total_token_output"], 80);
        assert_cost(&session["total_cost_usd"], 3000, 80);
    }
    assert_eq!(night.transcripts().len(), 3);
}

/// The CLI asks once by itself, then the product does, in the same conversation.
#[test]
fn a_missing_report_is_asked_for_once_in_the_same_conversation() {
    let night = Night::new();
    night
        .stub
        .next(commit("one").usage(1000, 50))
        .next(Reply::text("Done").usage(1100, 7))
        .next(Reply::text("Really done").usage(1200, 8))
        .next(Reply::report("complete").usage(1300, 9));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    let received = night.events_of(&ended, "report_received");
    assert_eq!(json!([received[0]["source"], received[0]["status"]]), json!(["close_turn", "complete"]));
    check_two_turns(&night, &ended);
    assert_eq!(ended.sessions[0]["status"], "completed");
    assert_eq!(ended.sessions[0]["agent_summary"]["complete"], 1);
    assert!(night.stub.requests()[3].last_user_text().contains("only give the session report now"));
}

#[test]
fn a_report_that_never_comes_is_derived_and_nothing_is_counted_twice() {
    let night = Night::new();
    night.stub.next(commit("one").usage(1000, 50)).always(Reply::text("Done").usage(1100, 7));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    let received = night.events_of(&ended, "report_received");
    assert_eq!(json!([received[0]["source"], received[0]["status"]]), json!(["derived", null]));
    check_two_turns(&night, &ended);
    assert_eq!(ended.sessions[0]["status"], "unresolved");
    assert_eq!(
        ended.sessions[0]["effectiveness"],
        json!({"carryover": null}),
        "nobody said anything of a plan"
    );
    assert_eq!(night.commits(), ["Add one"]);
}

/// Two processes in one conversation, and the books say what the API charged.
fn check_two_turns(night: &Night, ended: &Ended) {
    let attempts = night.events_of(ended, "attempt_started");
    assert_eq!(attempts.len(), 2);
    assert_eq!(json!([attempts[0]["resume"], attempts[1]["resume"]]), json!([false, true]));
    assert_eq!(attempts[0]["session_id"], attempts[1]["session_id"]);
    assert_eq!(night.transcripts().len(), 1);
    let (input, output) = night.stub.spent();
    let session = &ended.sessions[0];
    assert_eq!(json!([session["total_token_input"], session["total_token_output"]]), json!([input, output]));
    assert_cost(&ended.record()["cost_usd"], input, output);
}

#[test]
fn a_resumed_chain_goes_on_in_the_same_conversation() {
    let night = Night::new();
    for (name, status) in [("one", "partial"), ("two", "complete")] {
        night.stub.next(commit(name).usage(1000, 50)).next(Reply::report(status).usage(2000, 30));
    }
    let ended = night.run(&work(&["--max-sessions=2", "--chain=resume"]));
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
    assert_eq!(night.transcripts().len(), 1);
    assert!(night.stub.requests()[2].user_text().contains("This is session 1 of at most 2"));
    assert_eq!(ended.record()["total_tokens_used"], 160);
    assert_eq!(ended.sessions[1]["total_token_output"], 80);
    assert_cost(&ended.record()["cost_usd"], 6000, 160);
}
