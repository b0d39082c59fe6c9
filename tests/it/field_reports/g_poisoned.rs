//! Class G: conversations that fail the same way for ever.

use super::night;

const THINKING: &str =
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified";

#[test]
fn g00_g01_the_same_400_twice_leaves_the_session_for_a_fresh_one() {
    let error = |place: &str| {
        format!(
            "init\napi_error 400 \"API Error: 400 {place}: {THINKING} (request req_011CaB{place})\"\nexit 1"
        )
    };
    let script = format!(
        "nth_call 1 {{\n{}\n}}\nnth_call 2 {{\n{}\n}}\nnth_call 3 {{\nturn\n}}",
        error("messages.7.content.12"),
        error("messages.9.content.3")
    );
    let morning = night(&script).run();
    morning.fine().judged(&["poisoned_session", "poisoned_session", "ok"]);
    let ids = morning.ids();
    assert!(ids[0] == ids[1] && ids[1] != ids[2], "{morning}");
    assert_eq!(morning.resumed(), [false, true, false], "{morning}");
    let prompt = super::strings(&morning.env.calls()[2]["prompts"]).join("\n");
    assert!(prompt.contains("Do the work."), "the hand-over carries the task: {prompt}");
    // Both ids are findable, and the old transcript is still there (invariant 5 says: untouched).
    let events = morning.env.events().iter().map(ToString::to_string).collect::<String>();
    assert!(events.contains(&ids[0]) && events.contains(&ids[2]));
    assert!(morning.env.transcript(&ids[0]).exists(), "{morning}");
}

#[test]
fn g00_a_400_on_every_session_is_the_end() {
    let morning = night(&format!(
        "init\napi_error 400 \"API Error: 400 messages.{{call}}.content.1: {THINKING}\"\nexit 1"
    ))
    .run();
    morning.ended(14, "failed-wave", "poisoned_session");
    let mut ids = morning.ids();
    ids.dedup();
    assert_eq!((ids.len(), morning.env.calls().len()), (2, 4), "one fresh start: {morning}");
}

#[test]
fn g03_g04_g05_g07_other_wordings_of_a_broken_conversation() {
    for words in [
        "messages.22: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_{call}",
        "API Error: 400 due to tool use concurrency issues",
        "messages.5.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_01{call}",
        "messages.3.content.1.image: image exceeds 5 MB maximum: 652120{call} bytes > 5242880 bytes",
        "The request body is not valid JSON: no low surrogate in string: line 1 column 34701{call}",
    ] {
        let error = format!("init\napi_error 400 \"API Error: 400 {words}\"\nexit 1");
        let script =
            format!("nth_call 1 {{\n{error}\n}}\nnth_call 2 {{\n{error}\n}}\nnth_call 3 {{\nturn\n}}");
        let morning = night(&script).run();
        morning.fine().judged(&["poisoned_session", "poisoned_session", "ok"]);
    }
}

#[test]
fn g07_an_intermittent_400_is_healed_by_one_retry() {
    let script = "nth_call 1 {\ninit\napi_error 400 \"API Error: 400 'utf-8' codec can't encode character: surrogates not allowed\"\nexit 1\n}\nnth_call 2 {\nturn\n}";
    night(script).run().fine().judged(&["poisoned_session", "ok"]).resumed_the_first();
}

#[test]
fn g00_errors_in_no_time_and_without_a_turn() {
    // No status, no known words: what is the same twice in no time at all is as deterministic as a 400.
    let error = "init\nresult {\"is_error\":true,\"subtype\":\"error_during_execution\",\"result\":null,\"num_turns\":0,\"duration_ms\":0,\"errors\":[\"something odd\"]}\nexit 1";
    let script = format!("nth_call 1 {{\n{error}\n}}\nnth_call 2 {{\n{error}\n}}\nnth_call 3 {{\nturn\n}}");
    let morning = night(&script).run();
    morning.fine();
    let ids = morning.ids();
    assert!(ids[1] != ids[2], "{morning}");
}

#[test]
fn g08_the_context_is_full() {
    // Room is made once, in the same conversation; then the work goes on there.
    for error in [
        "api_error 400 \"API Error: 400 prompt is too long: 215001 tokens > 200000 maximum\"",
        "api_error 0 \"Prompt is too long\" \"\" {\"terminal_reason\":\"blocking_limit\",\"duration_api_ms\":0}",
        "api_error 0 \"Context limit reached\"",
        "api_error 413 \"API Error: 413 Request too large\"",
    ] {
        let script =
            format!("nth_call 1 {{\ninit\ntext \"half\"\n{error}\nexit 1\n}}\nnth_call 2 {{\nturn\n}}");
        let morning = night(&script).run();
        morning.fine().judged(&["context_full", "ok", "ok"]).resumed_the_first();
        assert_eq!(morning.resumed(), [false, true, true], "{morning}");
        assert_eq!(super::strings(&morning.env.calls()[1]["prompts"]), ["/compact"], "{morning}");
        let after = super::strings(&morning.env.calls()[2]["prompts"]).join("\n");
        assert!(after.contains("Do the work.") && after.contains("interrupted half-way"), "{after}");
        // It does not help: the next one is a fresh one, told what happened.
        let full = format!("init\ntext \"half\"\n{error}\nexit 1");
        let script = format!("nth_call 1 {{\n{full}\n}}\nnth_call 2 {{\n{full}\n}}\nnth_call 3 {{\nturn\n}}");
        let morning = night(&script).run();
        morning.fine();
        let ids = morning.ids();
        assert!(ids[0] == ids[1] && ids[1] != ids[2], "{morning}");
    }
    // The CLI has tried to make room already: not the same conversation again.
    for error in [
        "api_error 0 \"Error during compaction: Error: Conversation too long\"",
        "api_error 0 \"Autocompact is thrashing\" \"\" {\"terminal_reason\":\"rapid_refill_breaker\"}",
    ] {
        let script = format!("nth_call 1 {{\ninit\n{error}\nexit 1\n}}\nnth_call 2 {{\nturn\n}}");
        let morning = night(&script).run();
        morning.fine().judged(&["context_full", "ok"]);
        let ids = morning.ids();
        assert!(
            ids[0] != ids[1] && morning.resumed() == [false, false],
            "not the same session again: {morning}"
        );
    }
}

#[test]
fn g09_a_blocking_limit_is_decided_by_event_and_words() {
    let blocking = "{\"terminal_reason\":\"blocking_limit\",\"api_error_status\":null,\"num_turns\":1,\"duration_ms\":762}";
    let first = |event: &str, words: &str| {
        format!(
            "nth_call 1 {{\ninit\n{event}\napi_error 0 \"{words}\" \"\" {blocking}\nexit 1\n}}\nnth_call 2 {{\nturn\n}}"
        )
    };
    let rejected = "rate_limit rejected +1s";
    // Rejected: wait, and go on with the same session.
    let morning = night(&first(rejected, "You've hit your session limit · resets 3:50am (UTC)")).run();
    morning.fine().judged(&["usage_limit", "ok"]).resumed_the_first();
    // Too long: a fresh one.
    let morning = night(&first("", "Prompt is too long")).run();
    morning.fine().judged(&["context_full", "ok", "ok"]);
    assert_eq!(morning.resumed(), [false, true, true], "{morning}");
    // Neither: unknown, one probe.
    let morning = night(&first("", "")).run();
    morning.fine().judged(&["unknown_error", "ok"]);
    // Both: wait first; the fresh session follows when the context is still too long after an attempt to make room.
    let both = "Prompt is too long · automatic compaction failed: You've hit your session limit · resets 3:50am (America/Toronto)";
    let script = format!(
        "nth_call 1 {{\ninit\n{rejected}\napi_error 0 \"{both}\" \"\" {blocking}\nexit 1\n}}\nnth_call 2 {{\ninit\napi_error 0 \"Prompt is too long\" \"\" {blocking}\nexit 1\n}}\nnth_call 3 {{\ninit\napi_error 0 \"Prompt is too long\" \"\" {blocking}\nexit 1\n}}\nnth_call 4 {{\nturn\n}}"
    );
    let morning = night(&script).run();
    morning.fine().judged(&["usage_limit", "context_full", "context_full", "ok"]);
    assert_eq!(morning.resumed(), [false, true, true, false], "{morning}");
}

#[test]
fn g05_h02_i15_the_successor_knows_what_was_said_and_what_not_to_read() {
    let error = format!("api_error 400 \"API Error: 400 messages.9.content.3: {THINKING}\"\nexit 1");
    let script = format!(
        "nth_call 1 {{\ninit\ntext \"The lexer is ported, the parser is half done.\"\ntool Read {{\"file_path\":\"doc/huge.pdf\"}} \"secret-of-the-tool\"\n{error}\n}}\nnth_call 2 {{\ninit\n{error}\n}}\nnth_call 3 {{\nturn\n}}"
    );
    let morning = night(&script).run();
    morning.fine().judged(&["poisoned_session", "poisoned_session", "ok"]);
    let prompt = super::strings(&morning.env.calls()[2]["prompts"]).join("\n");
    for part in [
        "Do the work.",
        "The lexer is ported, the parser is half done.",
        "Reading doc/huge.pdf whole",
        "## The repository now",
        "## main",
        "cannot be modified",
    ] {
        assert!(prompt.contains(part), "`{part}` is not in: {prompt}");
    }
    assert!(!prompt.contains("secret-of-the-tool"), "{prompt}");
    let ids = morning.ids();
    let left: Vec<_> = morning
        .env
        .events()
        .into_iter()
        .map(|entry| entry["event"].clone())
        .filter(|event| event["type"] == "conversation_left")
        .collect();
    assert_eq!(left.len(), 1, "{morning}");
    assert_eq!(
        (left[0]["session_id"].as_str(), left[0]["successor"].as_str()),
        (Some(&*ids[0]), Some(&*ids[2]))
    );
    let stays = format!("the transcript of conversation {} stays at", ids[0]);
    assert!(morning.env.read(&report_of(&morning)).contains(&stays), "{morning}");
}

/// Where the report of the run is.
fn report_of(morning: &super::Morning) -> String {
    let id = morning.env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    format!(".orchestrator/autopilot/runs/{id}/report.md")
}
