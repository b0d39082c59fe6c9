//! Session ids, transcripts, and what a turn cost (claude-code §3 and §4).

use serde_json::Value;

use crate::stub::Reply;
use crate::support::{Night, STEP, Turn};

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// One turn in a process of its own.
fn turn(night: &Night, arguments: &[&str]) -> Value {
    let mut turn = Turn::start(night, arguments);
    turn.initialize();
    turn.prompt("Go on");
    let result = turn.result();
    assert_eq!(turn.close(), Some(0));
    result
}

/// Starts the CLI with arguments that it refuses; gives what it wrote to stderr.
fn refused(night: &Night, arguments: &[&str]) -> String {
    let mut turn = Turn::start(night, arguments);
    assert_eq!(turn.program.wait(STEP).code(), Some(1));
    assert_eq!(turn.program.stdout(), "");
    turn.program.stderr()
}

/// The output tokens of all models in a usage object.
fn output_tokens(usage: &Value) -> u64 {
    let models = usage.as_object().expect("usage is by model");
    models.values().map(|model| model["outputTokens"].as_u64().expect("a count")).sum()
}

#[test]
fn resume_appends_to_the_same_file_and_totals_are_the_conversations() {
    let night = Night::new();
    night.stub.next(Reply::text("First").usage(100, 7)).next(Reply::text("Second").usage(100, 11));

    let first = turn(&night, &["--session-id", ID]);
    assert_eq!(first["session_id"], ID);
    let before = std::fs::read_to_string(night.transcript(ID)).unwrap();
    assert_eq!(output_tokens(&first["modelUsage"]), 7);

    let second = turn(&night, &["--resume", ID]);
    assert_eq!(second["session_id"], ID);
    let after = std::fs::read_to_string(night.transcript(ID)).unwrap();
    assert!(after.len() > before.len() && after.starts_with(&before), "resume only appends");
    assert_eq!(output_tokens(&second["modelUsage"]), 18);
    assert_eq!(output_tokens(&second["model_usage_since_last_result"]), 11);
    assert_eq!(second["usage"]["output_tokens"], 11);
    let cost = |result: &Value| result["total_cost_usd"].as_f64().expect("a cost");
    assert!(cost(&second) > cost(&first) && cost(&first) > 0.0);
    assert!(night.stub.requests()[1].user_text().contains("Go on"), "the history is sent again");
}

#[test]
fn ids_that_cannot_be_used_are_refused_on_stderr() {
    let night = Night::new();
    night.stub.always(Reply::text("Fine"));
    turn(&night, &["--session-id", ID]);
    let text = refused(&night, &["--session-id", ID]);
    assert_eq!(text, format!("Error: Session ID {ID} is already in use."));
    let text = refused(&night, &["--session-id", "not-a-uuid"]);
    assert_eq!(text, "Error: Invalid session ID. Must be a valid UUID.");
}

#[test]
fn resume_of_an_unknown_id_echoes_it() {
    let night = Night::new();
    let mut turn = Turn::start(&night, &["--resume", ID]);
    let result = turn.next("result");
    assert_eq!(turn.program.wait(STEP).code(), Some(1));
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(result["is_error"], true);
    assert_eq!(result["session_id"], ID);
    assert_eq!(result["errors"][0], format!("No conversation found with session ID: {ID}"));
    assert_eq!(turn.lines().len(), 1, "there is no init");
}

#[test]
fn a_transcript_without_a_message_wedges_the_id_until_it_is_renamed() {
    let night = Night::new();
    night.stub.always(Reply::text("Fine"));
    turn(&night, &["--session-id", ID]);
    let file = night.transcript(ID);
    std::fs::write(&file, "").unwrap();

    let mut resumed = Turn::start(&night, &["--resume", ID]);
    let result = resumed.next("result");
    assert_eq!(result["errors"][0], format!("No conversation found with session ID: {ID}"));
    let text = refused(&night, &["--session-id", ID]);
    assert!(text.contains("already in use"), "{text}");

    std::fs::rename(&file, file.with_extension("unresumable-1")).unwrap();
    assert_eq!(turn(&night, &["--session-id", ID])["session_id"], ID);
}

#[test]
fn a_line_cut_in_the_middle_resumes() {
    let night = Night::new();
    night.stub.always(Reply::text("Fine"));
    turn(&night, &["--session-id", ID]);
    let file = night.transcript(ID);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() - 20]).unwrap();
    assert_eq!(turn(&night, &["--resume", ID])["is_error"], false);
}

/// Nothing but the driver prevents two processes on one conversation.
#[test]
fn two_processes_may_resume_one_id() {
    let night = Night::new();
    night.stub.always(Reply::text("Fine"));
    turn(&night, &["--session-id", ID]);
    let mut both = [Turn::start(&night, &["--resume", ID]), Turn::start(&night, &["--resume", ID])];
    for one in &mut both {
        one.initialize();
        one.prompt("Go on");
    }
    for mut one in both {
        assert_eq!(one.result()["session_id"], ID);
        assert_eq!(one.close(), Some(0));
    }
}
