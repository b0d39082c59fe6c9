//! Class I: what stands, or does not stand, in the conversation file.

use std::fs;

use serde_json::Value;

use super::{night, strings};
use crate::support::invariants::{Expect, check_invariants};

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
fn i06_the_conversation_was_removed_by_the_clean_up() {
    let first = night(
        "init\ntool Bash {\"command\":\"make\"}\napi_error 401 \"Not logged in · Please run /login\"\nexit 1",
    )
    .run();
    first.ended(20, "failed-wave", "auth");
    let env = first.env;
    let id = super::text(&env.calls()[0]["requested_id"]);
    let path = env.transcript(&id);
    let shadow = env.state("shadow").join(path.strip_prefix(env.config_dir().join("projects")).unwrap());
    // Its folder stays, the file is gone.
    fs::create_dir(path.with_extension("")).unwrap();
    fs::remove_file(&path).unwrap();
    fs::remove_file(shadow).unwrap();
    env.script("turn");
    let run = env.autopilot(&["resume", "--no-progress", "--max-sessions=1"]);
    check_invariants(&env, &run, &Expect::default());
    assert_eq!(run.code(), Some(0), "{run}");
    let call = &env.calls()[1];
    assert!(call["resumed"] == false && call["requested_id"] != id.as_str(), "{call}");
    let prompt = strings(&call["prompts"]).join("\n");
    assert!(prompt.contains("Do the work."), "the hand-over carries the task: {prompt}");
    assert!(run.stderr.contains("has no transcript to go on with"), "{run}");
}

#[test]
fn i08_a_failure_of_a_sub_agent_is_none_of_the_session() {
    let error = "\"error\":\"authentication_failed\",\"message\":{\"id\":\"m9\",\"model\":\"<synthetic>\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Please run /login\"}]}";
    // In the transcript, where nothing else says why the process ended; and in the stream of a good turn.
    let entry = format!(
        "append_transcript {{\"type\":\"assistant\",\"uuid\":\"u1\",\"sessionId\":\"{{session}}\",\"isSidechain\":true,\"isApiErrorMessage\":true,\"apiErrorStatus\":401,{error}}}"
    );
    let script =
        format!("nth_call 1 {{\ninit\ntext \"Half.\" partial\n{entry}\nexit 1\n}}\nnth_call 2 {{\nturn\n}}");
    night(&script).run().fine().judged(&["unknown_error", "ok"]).resumed_the_first();
    let line = format!(
        "emit {{\"type\":\"assistant\",\"session_id\":\"{{session}}\",\"parent_tool_use_id\":\"toolu_1\",{error}}}"
    );
    night(&format!("init\n{line}\ntext \"Done.\"\nreport\nresult")).run().fine().judged(&["ok"]);
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
fn i10_the_end_of_the_conversation_is_lost() {
    // The file is shorter than it was before the turn: what happened in it is unknown, a fresh one takes over.
    let script = "nth_call 1 {\nreport {\"status\":\"partial\"}\nturn\n}\nnth_call 2 {\ninit\ntext \"More.\" partial\ntruncate_transcript 8000\nsignal_self KILL\n}\nnth_call 3 {\nturn\n}";
    let morning = night(script).set("AUTOPILOT_MAX_SESSIONS", "2").args(&["--chain=resume"]).run();
    morning.fine().judged(&["ok", "killed_by_other", "ok"]);
    assert_eq!(morning.resumed(), [false, true, false], "{morning}");
    let prompt = strings(&morning.env.calls()[2]["prompts"]).join("\n");
    assert!(prompt.contains("Do the work.") && prompt.contains("take over"), "{prompt}");
    assert!(String::from_utf8_lossy(&morning.raw()).contains("More."), "the raw log has it: {morning}");
}

#[test]
fn i11_a_huge_transcript_is_not_given_to_the_cli_again() {
    let first = "init\ntext \"Half.\" partial\nmark here\nwait_file go\nexit 1";
    let night = night(&format!("nth_call 1 {{\n{first}\n}}\nnth_call 2 {{\nturn\n}}"));
    let morning = night.watched(|run| {
        run.wait_mark(1, "here");
        run.wait_for("the growth", |env| {
            let path = env.transcript(&super::text(&env.calls()[0]["session_id"]));
            let shadow =
                env.state("shadow").join(path.strip_prefix(env.config_dir().join("projects")).unwrap());
            for path in [shadow, path] {
                fs::OpenOptions::new().write(true).open(path).unwrap().set_len(129 << 20).unwrap();
            }
            env.release("go");
            Some(())
        });
    });
    morning.fine().judged(&["unknown_error", "ok"]);
    assert_eq!(morning.resumed(), [false, false], "{morning}");
    let told = |event: &Value| super::text(&event["text"]).ends_with("129 MiB, too large to go on with");
    assert!(morning.events("warning").iter().any(told), "{morning}");
    let prompt = strings(&morning.env.calls()[1]["prompts"]).join("\n");
    assert!(prompt.contains("Do the work.") && prompt.contains("take over"), "{prompt}");
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

#[test]
fn i15_a_refused_conversation_that_is_still_there_is_said_to_be() {
    let refusal = "read_stdin never\nstderr \"No conversation found with session ID: {session}\"\nexit 1";
    let script = format!(
        "nth_call 1 {{\ninit\ntool Bash {{\"command\":\"make\"}}\nexit 1\n}}\nnth_call 2 {{\n{refusal}\n}}\nnth_call 3 {{\nturn\n}}"
    );
    let morning = night(&script).run();
    morning.fine().judged(&["unknown_error", "no_session", "ok"]).because("its transcript is still there");
    assert_eq!(morning.resumed(), [false, true, false], "{morning}");
}

#[test]
fn i17_a_cli_that_writes_no_transcript() {
    let script = "no_transcript\nreport {\"status\":\"partial\"}\nturn";
    let morning = night(script).set("AUTOPILOT_MAX_SESSIONS", "3").args(&["--chain=resume"]).run();
    morning.fine().judged(&["ok"; 3]);
    // Nothing is there to be resumed, and that is known before it is tried.
    assert_eq!(morning.resumed(), [false; 3], "{morning}");
    let told = |event: &Value| super::text(&event["text"]).ends_with("has no transcript to go on with");
    assert_eq!(morning.events("warning").into_iter().filter(told).count(), 2, "{morning}");
    for call in morning.env.calls() {
        assert!(!call["argv"].to_string().contains("no-session-persistence"), "{call}");
    }
}
