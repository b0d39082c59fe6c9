//! Failures of the API: which the product heals, which it waits for, and which it leaves to a person.

use serde_json::{Value, json};

use super::{commit, in_seconds, work};
use crate::stub::{Reply, Request};
use crate::support::{Ended, Night};

/// A run of two sessions at most whose every request fails, to its exit code, kill-switch and class.
fn check_always(reply: Reply, expected: &Value) -> (Night, Ended) {
    let night = Night::new();
    night.stub.always(reply);
    let ended = night.run(&work(&["--max-sessions=2"]));
    assert_eq!(&ended.verdict(), expected, "{}", ended.stderr);
    assert_eq!(ended.record()["iterations_completed"], 0);
    assert_eq!(ended.sessions.len(), 1, "no second session");
    assert_eq!(ended.sessions[0]["status"], "abandoned");
    (night, ended)
}

/// A failure that only a person can end is not tried again, and the person is told what to do.
fn check_needs_person(reply: Reply, expected: &Value, advice: &str) {
    let (night, ended) = check_always(reply, expected);
    assert_eq!(night.events_of(&ended, "attempt_started").len(), 1);
    assert_eq!(ended.heals(), []);
    assert!(ended.stderr.contains(advice), "{advice}: {}", ended.stderr);
}

#[test]
fn a_missing_login_ends_the_run() {
    check_needs_person(
        Reply::error(401, "authentication_error", "invalid x-api-key"),
        &json!([20, "failed-wave", "auth"]),
        "login",
    );
}

#[test]
fn an_empty_account_ends_the_run() {
    check_needs_person(
        Reply::error(400, "invalid_request_error", "Your credit balance is too low to access the API."),
        &json!([21, "failed-wave", "billing"]),
        "billing",
    );
}

#[test]
fn an_account_that_is_shut_off_ends_the_run() {
    check_needs_person(
        Reply::error(400, "invalid_request_error", "This organization has been disabled."),
        &json!([20, "failed-wave", "auth"]),
        "disabled organization",
    );
}

#[test]
fn an_unknown_model_ends_the_run() {
    check_needs_person(
        Reply::error(404, "not_found_error", "model: no-such-model"),
        &json!([23, "failed-wave", "model_unavailable"]),
        "--model",
    );
}

#[test]
fn a_rate_limit_that_stays_is_given_up_after_the_recoveries() {
    let (night, ended) = check_always(
        Reply::error(429, "rate_limit_error", "slow down"),
        &json!([14, "failed-wave", "transient_api"]),
    );
    assert_eq!(night.events_of(&ended, "attempt_started").len(), 3);
    assert_eq!(ended.heals().len(), 2);
    assert_eq!(night.transcripts().len(), 1, "all attempts go into one conversation");
}

/// A session that meets a passing failure and then does its work.
fn check_healed(times: u32, reply: Reply) -> (Night, Ended) {
    let night = Night::new();
    night.stub.when(times, |_| true, reply).next(commit("one")).next(Reply::report("complete"));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one"]);
    assert_eq!(ended.sessions[0]["status"], "completed");
    (night, ended)
}

#[test]
fn an_overloaded_api_is_healed() {
    // The CLI itself asks twice.
    let overloaded = Reply::error(529, "overloaded_error", "Overloaded");
    let (night, ended) = check_healed(2, overloaded);
    assert_eq!(ended.heals(), [("transient_api".to_owned(), "same prompt again".to_owned())]);
    assert_eq!(night.transcripts().len(), 1);
}

#[test]
fn a_connection_cut_in_the_middle_of_an_answer_is_healed() {
    // The CLI itself asks again a few times; it gets nothing before autopilot has taken over.
    let night = Night::new();
    let taken_over = |request: &Request| request.user_text().contains("Go on exactly where you stopped");
    night
        .stub
        .next(commit("one"))
        .when(20, move |request| !taken_over(request), Reply::cut())
        .next(commit("two"))
        .next(Reply::report("complete"));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(ended.heals(), [("transient_api".to_owned(), "continue".to_owned())]);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
    assert_eq!(night.transcripts().len(), 1);
}

fn full() -> Reply {
    Reply::error(400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum")
}

fn context_heal(action: &str) -> (String, String) {
    ("context_full".to_owned(), action.to_owned())
}

/// A request for a summary is answered; the work goes on when `goes_on` fits; everything else is too long.
fn room_can_be_made(night: &Night, goes_on: impl Fn(&Request) -> bool + Clone + Send + 'static) {
    let asks = |request: &Request| request.last_user_text().contains("detailed summary");
    let fits = goes_on.clone();
    night
        .stub
        .next(commit("one"))
        .when(9, asks, Reply::text("<summary>The first half is done.</summary>"))
        .when(1, goes_on, commit("two"))
        .when(1, fits, Reply::report("complete"))
        .when(9, |_| true, full());
}

#[test]
fn a_full_conversation_is_made_room_in_by_the_cli_itself() {
    let night = Night::new();
    room_can_be_made(&night, |request| request.user_text().contains("The first half is done"));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(ended.heals(), [], "{}", ended.stderr);
    assert_eq!(night.transcripts().len(), 1);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
}

#[test]
fn a_full_conversation_is_made_room_in_when_the_cli_does_not() {
    let mut night = Night::new();
    night.variable("DISABLE_AUTO_COMPACT", "1");
    room_can_be_made(&night, |request| request.user_text().contains("interrupted half-way"));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(ended.heals(), [context_heal("/compact, then reconcile")], "{}", ended.stderr);
    assert_eq!(night.transcripts().len(), 1);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
}

#[test]
fn a_full_conversation_is_taken_over_by_a_fresh_one_once() {
    let (night, ended) = check_always(full(), &json!([14, "failed-wave", "context_full"]));
    // It is alone with its prompt: the CLI has nothing to compact, and neither has `/compact`.
    assert_eq!(
        ended.heals().last(),
        Some(&context_heal("fresh conversation with hand-over")),
        "{}",
        ended.stderr
    );
    assert!(ended.heals().len() <= 2, "{}", ended.stderr);
    assert_eq!(night.transcripts().len(), 2);
    let last = night.stub.requests().pop().unwrap();
    for part in ["You take over from a session that was lost", "Do the work", "## The repository now"] {
        assert!(last.user_text().contains(part), "{part}: {}", last.user_text());
    }
}

#[test]
fn a_conversation_that_cannot_go_on_is_taken_over_by_a_fresh_one() {
    let (night, ended) = check_healed(
        2,
        Reply::error(
            400,
            "invalid_request_error",
            "messages.3.content.0: `thinking` blocks cannot be modified.",
        ),
    );
    let heal = |action: &str| ("poisoned_session".to_owned(), action.to_owned());
    assert_eq!(ended.heals(), [heal("same prompt again"), heal("fresh conversation with hand-over")]);
    assert_eq!(night.transcripts().len(), 2);
}

/// A conversation in which the API refuses something for ever is left, however the CLI itself tries to mend it.
#[track_caller]
fn check_left(refusal: &str) {
    let night = Night::new();
    let taken_over =
        |request: &Request| request.user_text().contains("You take over from a session that was lost");
    night
        .stub
        .when(20, move |request| !taken_over(request), Reply::error(400, "invalid_request_error", refusal))
        .next(commit("one"))
        .next(Reply::report("complete"));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one"]);
    let left = ("poisoned_session".to_owned(), "fresh conversation with hand-over".to_owned());
    assert_eq!(ended.heals().last(), Some(&left), "{}", ended.stderr);
    assert_eq!(night.transcripts().len(), 2);
}

#[test]
fn a_result_without_its_call_is_left_behind() {
    check_left("messages.5.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_01.");
}

#[test]
fn an_image_that_cannot_be_sent_is_left_behind() {
    check_left(
        "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 6521204 bytes > 5242880 bytes",
    );
}

#[test]
fn text_that_is_no_text_is_left_behind() {
    check_left(
        "The request body is not valid JSON: no low surrogate in string: line 1 column 347010 (char 347009)",
    );
}

/// The CLI itself asks three times to go on, then calls it a failure of the API.
#[test]
fn an_answer_cut_at_its_limit_is_continued() {
    let (night, ended) = check_healed(4, Reply::text("Half of it").stop_reason("max_tokens"));
    assert_eq!(ended.heals(), [("output_limit".to_owned(), "continue".to_owned())]);
    assert_eq!(night.transcripts().len(), 1);
}

/// The CLI checks the report and has the session give it again.
#[test]
fn a_report_against_the_schema_is_given_again() {
    let (night, ended) = check_healed(1, Reply::report("finished"));
    assert_eq!(ended.heals(), []);
    assert!(night.stub.requests()[1].tool_results()[0].1, "the session is told of its mistake");
}

#[test]
fn a_run_without_login_goes_on_after_the_login() {
    let night = Night::new();
    // The CLI itself asks twice.
    night
        .stub
        .next(commit("one"))
        .when(2, |_| true, Reply::error(401, "authentication_error", "invalid x-api-key"))
        .next(commit("two"))
        .next(Reply::report("complete"));
    let first = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(first.verdict(), json!([20, "failed-wave", "auth"]), "{}", first.stderr);
    let resumed = night.run(&["resume"]);
    assert_eq!(resumed.verdict(), json!([0, "max-sessions-reached", null]), "{}", resumed.stderr);
    assert_eq!(resumed.runs.len(), 1, "one record a run");
    assert_eq!(resumed.record()["autopilot_run_id"], first.record()["autopilot_run_id"]);
    assert_eq!(resumed.record()["sessions"], first.record()["sessions"]);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
    assert_eq!(night.transcripts().len(), 1);
    let spent: u64 = resumed.runs.iter().filter_map(|run| run["total_tokens_used"].as_u64()).sum();
    assert_eq!(spent, night.stub.spent().1, "both parts of the run are counted, each once");
}

#[test]
fn a_usage_limit_is_slept_through_and_the_session_goes_on() {
    let mut night = Night::new();
    night.subscription();
    night
        .stub
        .next(commit("one").usage(1000, 50))
        .next(Reply::usage_limit(in_seconds(5)))
        .next(commit("two").usage(1000, 50))
        .next(Reply::report("complete").usage(1000, 50));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
    assert!(ended.record()["limit_wait_seconds"].as_u64() > Some(0), "{}", ended.record());
    assert_eq!(ended.heals(), [], "a wait uses up no recovery");
    let waits = night.events_of(&ended, "limit_wait");
    assert_eq!(json!([waits.len(), waits[0]["window"]]), json!([1, "five_hour"]));
    assert_eq!(night.transcripts().len(), 1);
    assert!(night.stub.requests()[2].last_user_text().contains("Go on exactly where you stopped"));
    assert_eq!(ended.record()["total_tokens_used"], night.stub.spent().1);
}

#[test]
fn a_usage_limit_beyond_the_longest_wait_ends_the_run() {
    let mut night = Night::new();
    night.subscription();
    night.stub.always(Reply::usage_limit(in_seconds(7200)));
    let ended = night.run(&work(&["--max-sessions=2", "--max-wait=1"]));
    assert_eq!(ended.verdict(), json!([22, "failed-wave", "usage_limit"]), "{}", ended.stderr);
    assert_eq!(ended.record()["limit_wait_seconds"], 0);
    assert_eq!(night.stub.requests().len(), 1, "nothing is tried again");
    assert!(ended.stderr.contains("autopilot resume"), "{}", ended.stderr);
}
