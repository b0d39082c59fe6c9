//! Table tests of single lines.

use proptest::prelude::*;

use super::*;
use crate::protocol::frame::LineFramer;

/// Names of the anomalies, in order.
fn names(anomalies: &[Anomaly]) -> Vec<&'static str> {
    anomalies.iter().map(Anomaly::name).collect()
}

/// The one message of a line that is as documented.
#[track_caller]
fn body(line: &str) -> Body {
    let mut parsed = parse_line(line.as_bytes());
    assert_eq!(parsed.anomalies, [], "{line}");
    assert_eq!(parsed.messages.len(), 1, "{line}");
    parsed.messages.remove(0).body
}

#[track_caller]
fn result(line: &str) -> TurnResult {
    let parsed = parse_line(line.as_bytes());
    match parsed.messages.into_iter().next().map(|message| message.body) {
        Some(Body::Result(result)) => *result,
        other => panic!("not a result: {other:?}"),
    }
}

#[test]
fn lines_that_are_not_one_object_are_one_anomaly_and_lose_no_message() {
    /// `expected` is the number of messages and the names of the anomalies.
    #[track_caller]
    fn check(line: &[u8], messages: usize, expected: &[&str]) {
        let parsed = parse_line(line);
        assert_eq!(parsed.messages.len(), messages, "{parsed:?}");
        assert_eq!(names(&parsed.anomalies), expected, "{parsed:?}");
        let bad = parsed.anomalies.iter().filter(|anomaly| anomaly.is_bad_line()).count();
        assert!(bad <= 1, "{parsed:?}");
    }
    let alive = r#"{"type":"keep_alive"}"#;
    let user = r#"{"uuid":"u","message":{"content":"x"},"type":"user"}"#;
    check(b"", 0, &[]);
    check(b"  \t", 0, &[]);
    check(alive.as_bytes(), 1, &[]);
    check(format!("\u{feff} {alive} ").as_bytes(), 1, &[]);
    check(b"{}", 1, &[]);
    check(b"Now using node v20", 0, &["not_json"]);
    check(b"[DEBUG] starting", 0, &["not_json"]);
    check(b"7", 0, &["not_an_object"]);
    check(b"null", 0, &["not_an_object"]);
    check(br#""text""#, 0, &["not_an_object"]);
    check(format!("[{alive},{user}]").as_bytes(), 2, &[]);
    check(format!("[1,{alive},2]").as_bytes(), 1, &["not_an_object"]);
    check(format!("{user}{user}").as_bytes(), 2, &["glued"]);
    check(format!("banner {user} trailer").as_bytes(), 1, &["glued"]);
    // C01: one event inside another, and the rest of the torn one on the next line.
    check(
        format!(r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"par{user}"#)
            .as_bytes(),
        1,
        &["glued"],
    );
    check(br#" tial"}]}}"#, 0, &["not_json"]);
    // A complete content block of a torn message is not a message, and neither is quoted text.
    check(
        br#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t"},{"type":"te"#,
        0,
        &["not_json"],
    );
    check(br#"{"type":"user","message":{"content":"{\"type\":\"result\"}"},"trunc"#, 0, &["not_json"]);
    check(b"\xff\xfe", 0, &["invalid_utf8", "not_json"]);
    check(b"{\"type\":\"keep_alive\",\"x\":\"\xff\"}", 1, &["invalid_utf8"]);
    check(br#"{"type":5}"#, 1, &["wrong_type", "wrong_type"]);
}

#[test]
fn hostile_lines_cost_bounded_work_and_memory() {
    let torn = parse_line(&br#"{"a":"#.repeat(20_000));
    assert_eq!(names(&torn.anomalies), ["not_json"]);
    let many = format!("[{}]", vec!["{}"; 5000].join(","));
    let many = parse_line(many.as_bytes());
    assert_eq!((many.messages.len(), names(&many.anomalies)), (MAX_MESSAGES, vec!["too_many"]));
    let deep =
        format!(r#"{{"type":"result","structured_output":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(result(&deep).structured_output.unwrap().to_value(), None);
    let long = format!(r#"{{"type":"{0}","subtype":"{0}"}}"#, "x".repeat(5000));
    assert!(parse_line(long.as_bytes()).messages[0].unknown_label().unwrap().len() < 150);
    let faulty = parse_line(br#"{"type":"user","message":5}"#.repeat(100).as_slice());
    assert_eq!(faulty.messages.len(), 100);
    assert!(matches!(faulty.anomalies.last(), Some(Anomaly::Glued { salvaged: 100, .. })));
    let banner = parse_line("é".repeat(5000).as_bytes());
    assert!(
        matches!(&banner.anomalies[..], [Anomaly::NotJson { len: 10_000, sample }] if sample.len() == MAX_SAMPLE)
    );
}

#[test]
fn frames_keep_their_kind() {
    #[track_caller]
    fn check(frame: Frame<'_>, messages: usize, expected: &[&str]) {
        let parsed = parse_frame(frame);
        assert_eq!((parsed.messages.len(), names(&parsed.anomalies)), (messages, expected.to_vec()));
    }
    check(Frame::Line(b"{}"), 1, &[]);
    check(Frame::Oversized { len: 9, head: b"\xffx" }, 0, &["oversized"]);
    check(Frame::Tail { bytes: br#"{"type":"result"}"#, len: 17 }, 1, &[]);
    check(Frame::Tail { bytes: br#"{"type":"resu"#, len: 13 }, 0, &["truncated_tail"]);
    let request = br#"{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool"}}"#;
    for (frame, elided) in [(Frame::Line(request), false), (Frame::Elided { line: request, len: 99 }, true)] {
        let parsed = parse_frame(frame);
        assert!(
            matches!(&parsed.messages[0].body, Body::ControlRequest(request) if request.elided == elided),
            "{parsed:?}"
        );
    }
}

#[test]
fn a_giant_result_line_still_tells_its_outcome() {
    let giant = "word \\n\\\"quoted\\\" \\ud83d\\ude00 ".repeat(140_000);
    let line = format!(
        "{{\"type\":\"user\"}}\n{{\"result\":\"{giant}\",\"is_error\":true,\"subtype\":\"success\",\"type\":\"result\"}}\n"
    );
    let mut framer = LineFramer::new();
    let mut parsed = Vec::new();
    for chunk in line.as_bytes().chunks(65_536) {
        framer.push(chunk, |frame| parsed.push(parse_frame(frame)));
    }
    assert_eq!(framer.stats().elided, 1);
    assert_eq!(names(&parsed[1].anomalies), ["elided"]);
    let Body::Result(result) = &parsed[1].messages[0].body else { panic!("{parsed:?}") };
    assert!(result.is_error());
    assert!(result.text.as_ref().unwrap().ends_with("bytes cut]"));
}

#[test]
fn the_flag_beats_the_subtype_and_an_error_subtype_needs_no_flag() {
    #[track_caller]
    fn check(fields: &str, expected: bool) {
        assert_eq!(result(&format!(r#"{{"type":"result"{fields}}}"#)).is_error(), expected, "{fields}");
    }
    check(r#","subtype":"success","is_error":true"#, true);
    check(r#","subtype":"success","is_error":false"#, false);
    check(r#","subtype":"error_max_turns","is_error":false"#, true);
    check(r#","subtype":"error_max_turns""#, true);
    check(r#","subtype":"error""#, true);
    check(r#","is_error":true"#, true);
    check(r#","is_error":"true""#, true);
    check(r#","subtype":"success""#, false);
    check("", false);
}

#[test]
fn a_cost_that_is_not_one_is_unknown() {
    #[track_caller]
    fn check(value: &str, expected: Option<f64>) {
        assert_eq!(
            result(&format!(r#"{{"type":"result","total_cost_usd":{value}}}"#)).total_cost_usd,
            expected
        );
    }
    check("0.25", Some(0.25));
    check("0", Some(0.0));
    check("3", Some(3.0));
    check(r#""0.5""#, Some(0.5));
    check("null", None);
    check("-0.1", None);
    check("1e400", None);
    check(r#""NaN""#, None);
    check(r#""inf""#, None);
    check("{}", None);
    assert_eq!(result(r#"{"type":"result"}"#).total_cost_usd, None);
}

#[test]
fn unknown_labels_are_counted_by_name() {
    #[track_caller]
    fn check(line: &str, expected: Option<&str>) {
        assert_eq!(parse_line(line.as_bytes()).messages[0].unknown_label().as_deref(), expected);
    }
    check(r#"{"type":"hologram"}"#, Some("hologram"));
    check(r#"{"type":"hologram","subtype":"3d"}"#, Some("hologram/3d"));
    check(r#"{"type":"system","subtype":"thinking_tokens"}"#, Some("system/thinking_tokens"));
    check(r#"{"type":"system"}"#, Some("system/"));
    check(
        r#"{"type":"control_request","request":{"subtype":"mcp_message"}}"#,
        Some("control_request/mcp_message"),
    );
    check(r#"{"type":"system","subtype":"init"}"#, None);
    check(r#"{"type":"stream_event"}"#, None);
    check("{}", Some(""));
}

#[test]
fn limits_are_read_in_every_spelling() {
    let Body::RateLimit(limit) = body(
        r#"{"rate_limit_info":{"status":"rejected","resetsAt":"1778565600000","utilization":1,"overageStatus":"maybe"},"type":"rate_limit_event"}"#,
    ) else {
        panic!()
    };
    assert_eq!(limit.status, Some(LimitStatus::Rejected));
    assert_eq!(limit.resets_at, Some(1_778_565_600));
    assert_eq!(limit.utilization, Some(1.0));
    assert_eq!(limit.overage_status, Some(LimitStatus::Unknown("maybe".into())));
    let Body::RateLimit(limit) = body(r#"{"type":"rate_limit_event","rate_limit_info":{"resetsAt":0}}"#)
    else {
        panic!()
    };
    assert_eq!((limit.status, limit.resets_at), (None, None));
    assert_eq!(body(r#"{"type":"rate_limit_event"}"#), Body::RateLimit(Box::default()));
}

#[test]
fn commands_are_told_by_the_answer_to_initialize() {
    let check = |response: &str, expected: Option<&[&str]>| {
        let line = format!(
            r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"r","response":{response}}}}}"#
        );
        let Body::ControlResponse(answer) = body(&line) else { panic!("{line}") };
        let names = answer.commands();
        let names = names.as_ref().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(names.as_deref(), expected, "{response}");
    };
    check(r#"{"commands":[{"name":"init","x":1},{"name":"so:session"}]}"#, Some(&["init", "so:session"]));
    check(r#"{"commands":[7,{"name":null},{"name":"init"}]}"#, Some(&["init"]));
    // Nothing is known of commands.
    for unknown in [r#"{"commands":[]}"#, r#"{"commands":{"name":"x"}}"#, "{}", "null", "7"] {
        check(unknown, None);
    }
}

#[test]
fn excerpts_of_many_blocks_stay_bounded() {
    let part = format!(r#"{{"type":"text","text":"{}"}}"#, "x".repeat(3000));
    let line = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","content":[{}]}}]}}}}"#,
        vec![part; 10].join(",")
    );
    let Body::User(user) = body(&line) else { panic!() };
    assert!((MAX_EXCERPT..MAX_EXCERPT + 10).contains(&user.tool_results[0].text.len()));
}

proptest! {
    #[test]
    fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..200)) {
        let parsed = parse_line(&line);
        prop_assert!(parsed.anomalies.iter().filter(|anomaly| anomaly.is_bad_line()).count() <= 1);
    }

    /// Known labels and fields with values of every type: whatever is odd, there is one message.
    #[test]
    fn no_object_panics_or_is_lost(
        label in prop::sample::select(vec!["system", "assistant", "user", "result", "rate_limit_event", "control_request", "control_response"]),
        subtype in prop::sample::select(vec!["init", "api_retry", "task_updated", "background_tasks_changed", "status", "compact_boundary", "hook_callback", "success"]),
        fields in prop::collection::vec((
            prop::sample::select(vec!["message", "content", "request", "input", "response", "usage", "modelUsage", "errors", "subagent_stats", "rate_limit_info", "session_id", "tasks", "tools", "patch", "total_cost_usd", "tool_result_meta", "permission_denials"]),
            prop::sample::select(vec!["null", "5", "-1.5", "true", r#""x""#, r#""\ud83d""#, "[]", "[1,[],{}]", "{}", r#"{"content":[{"type":"text"},7]}"#, r#"{"subtype":"hook_callback","input":{"tool_input":[]}}"#, r#"{"m":{"costUSD":"x"},"killed":3,"refused":{"a":"b"}}"#]),
        ), 0..6),
    ) {
        let fields: String = fields.iter().map(|(key, value)| [r#",""#, key, r#"":"#, value].concat()).collect();
        let line = format!(r#"{{"type":"{label}","subtype":"{subtype}"{fields}}}"#);
        let parsed = parse_line(line.as_bytes());
        prop_assert_eq!(parsed.messages.len(), 1);
        prop_assert!(parsed.anomalies.iter().all(|anomaly| !anomaly.is_bad_line()));
    }
}
