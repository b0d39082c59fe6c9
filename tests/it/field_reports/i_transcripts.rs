//! Class I: what stands, or does not stand, in the conversation file.

use super::{night, strings};

#[test]
fn i01_a_torn_last_line() {
    let script = "nth_call 1 {\ninit\ntext \"Half.\" partial\nappend_transcript \"{\\\"type\\\":\\\"assistant\\\",\\\"isApiErrorM\"\nexit 1\n}\nnth_call 2 {\nturn\n}";
    night(script).run().fine().judged(&["unknown_error", "ok"]).resumed_the_first();
}

#[test]
fn i04_i05_no_message_in_the_file() {
    for first in [
        "append_transcript {\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"3f0c8a52-6f0a-4d43-9b6e-0d4f6a2b9c11\"}\nexit 1",
        "append_transcript \"\"\nexit 1",
        "no_transcript\ninit\ntext \"Half.\" partial\nexit 1",
    ] {
        let morning = night(&format!("nth_call 1 {{\n{first}\n}}\nnth_call 2 {{\nturn\n}}")).run();
        morning.fine().judged(&["unknown_error", "ok"]);
        assert_eq!(morning.resumed(), [false, false], "{first}: {morning}");
    }
}

#[test]
fn i09_a_killed_tool_call_is_resumed_with_a_warning() {
    let script = "nth_call 1 {\ninit\ntool_start Bash {\"command\":\"make install\"}\nsignal_self TERM\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).run();
    morning
        .fine()
        .judged(&["killed_by_other", "ok"])
        .healed(&["killed_by_other: reconcile"])
        .resumed_the_first();
    let prompt = strings(&morning.env.calls()[1]["prompts"]).join("\n");
    assert!(prompt.contains("last command may have run"), "{prompt}");
}

#[test]
fn i09_the_resumed_conversation_is_refused_for_its_dangling_call() {
    let error = "init\napi_error 400 \"API Error: 400 messages.22: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_0{call}\"\nexit 1";
    let script = format!(
        "nth_call 1 {{\ninit\ntool_start Bash {{\"command\":\"make\"}}\nsignal_self TERM\n}}\nnth_call 2 {{\n{error}\n}}\nnth_call 3 {{\n{error}\n}}\nnth_call 4 {{\nturn\n}}"
    );
    let morning = night(&script).run();
    morning.fine().judged(&["killed_by_other", "poisoned_session", "poisoned_session", "ok"]);
    assert_eq!(morning.resumed(), [false, true, true, false], "{morning}");
}

#[test]
fn i14_the_failure_stands_only_in_the_transcript() {
    let entry = |status: u16, error: &str, words: &str| {
        format!(
            "append_transcript {{\"type\":\"assistant\",\"uuid\":\"u1\",\"sessionId\":\"{{session}}\",\"isSidechain\":false,\"isApiErrorMessage\":true,\"error\":\"{error}\",\"apiErrorStatus\":{status},\"message\":{{\"model\":\"<synthetic>\",\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{words}\"}}]}}}}"
        )
    };
    let overloaded = entry(529, "overloaded", "API Error: Overloaded");
    let script = format!(
        "nth_call 1 {{\ninit\ntext \"Half.\" partial\n{overloaded}\nexit 1\n}}\nnth_call 2 {{\nturn\n}}"
    );
    night(&script).run().fine().judged(&["transient_api", "ok"]).resumed_the_first();
    let expired = entry(401, "authentication_failed", "OAuth token has expired · Please run /login");
    night(&format!("init\n{expired}\nexit 1")).run().ended(20, "failed-wave", "auth");
    // A clean turn after it supersedes it.
    let script = format!(
        "nth_call 1 {{\ninit\n{overloaded}\ntranscript_turn \"All is well again.\"\nexit 0\n}}\nnth_call 2 {{\nturn\n}}"
    );
    night(&script).run().fine().judged(&["incomplete", "ok"]);
}

#[test]
fn i16_the_transcript_stops_while_the_session_works_on() {
    // Ten messages in the stream, three in the file; then the process dies.
    let line = "emit {\"type\":\"assistant\",\"session_id\":\"{session}\",\"message\":{\"id\":\"m{now}\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"More.\"}]}}";
    let script = format!(
        "nth_call 1 {{\ninit\nrepeat 3 {{\ntext \"Some.\" partial\n}}\nrepeat 7 {{\n{line}\n}}\nsignal_self KILL\n}}\nnth_call 2 {{\nturn\n}}"
    );
    night(&script).run().fine().judged(&["killed_by_other", "ok"]).resumed_the_first();
}
