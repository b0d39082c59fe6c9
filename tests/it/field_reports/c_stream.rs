//! Class C: what the stream may throw at its reader.

use std::fmt::Write as _;

use serde_json::Value;

use super::{night, text};

/// The rest of a good turn.
const DONE: &str = "text \"Done.\"\nreport\nresult";

#[test]
fn c01_an_event_injected_in_the_middle_of_another_line() {
    let torn = r#"emit_raw "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"partial text{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"allowed\"}}\n …continuation\"}]}}\n""#;
    let morning = night(&format!("init\n{torn}\n{DONE}")).run();
    morning.fine().judged(&["ok"]);
    assert_eq!(morning.events("attempt_ended")[0]["bad_lines"], 2, "{morning}");
}

#[test]
fn c02_stdout_cut_at_65536_bytes() {
    let head = r#"{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\""#;
    let script = format!(
        "nth_call 1 {{\ninit\ntranscript_turn \"The long answer.\"\nemit_raw \"{head}{{pad:64K}}\"\nexit 0\n}}\nnth_call 2 {{\nturn\n}}"
    );
    let morning = night(&script).run();
    morning.fine().judged(&["incomplete", "ok"]).resumed_the_first();
    assert_eq!(morning.events("attempt_ended")[0]["bad_lines"], 1, "{morning}");
}

#[test]
fn c04_lines_that_are_not_json() {
    let morning = night(&format!(
        "emit Now using node v20.11.0 (npm v10.2.4)\ninit\nemit [log_abc] sending request {{ method: 'post' }}\n{DONE}"
    ))
    .set("ANTHROPIC_LOG", "debug")
    .run();
    morning.fine().judged(&["ok"]);
    assert_eq!(morning.events("attempt_ended")[0]["bad_lines"], 2, "{morning}");
    assert!(morning.env.calls()[0]["env"]["ANTHROPIC_LOG"].is_null(), "{morning}");
}

#[test]
fn c04_a_banner_alone_is_no_start() {
    let script = "nth_call 1 {\nemit Now using node v20.11.0\nhang\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).args(&["--first-output-timeout=3"]).run();
    morning.fine().judged(&["startup_hang", "ok"]);
}

#[test]
fn c05_very_long_lines() {
    let line = |size: &str| {
        format!(
            "emit {{\"type\":\"assistant\",\"session_id\":\"{{session}}\",\"message\":{{\"id\":\"m1\",\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{{pad:{size}}}\"}}]}}}}"
        )
    };
    for size in ["1048577", "16M", "4194305"] {
        let morning = night(&format!("init\n{}\n{DONE}", line(size))).run();
        morning.fine().judged(&["ok"]);
    }
}

#[test]
fn c05_the_result_itself_is_the_very_long_line() {
    for size in ["1048577", "4194305", "16M"] {
        let script = format!("init\ntext \"Done.\"\nreport\nresult {{\"result\":\"{{pad:{size}}}\"}}");
        let morning = night(&script).run();
        morning.fine().judged(&["ok"]);
        assert_eq!(morning.env.sessions()[0]["notes"], "Did the work.", "the report counts: {morning}");
    }
}

#[test]
fn c05_sixty_four_megabytes_without_a_line_end() {
    let script = "nth_call 1 {\ninit\nrepeat 4 {\nemit_raw \"{pad:16M}\"\n}\nemit_raw \"\\n\"\ntext \"Done.\"\nreport\nresult\n}";
    night(script).run().fine().judged(&["ok"]);
}

#[test]
fn c06_unknown_types_and_wrong_json_types() {
    let mut script = "init\n".to_owned();
    for line in [
        r#"{"type":"tool_progress","elapsed_time_seconds":3}"#,
        r#"{"type":"system","subtype":"thinking_tokens","estimated_tokens":50}"#,
        r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#,
        r#"{"type":"system","subtype":"status","status":"compacting"}"#,
        r#"{"type":"brand_new","payload":{"a":[1,2,{"b":null}]}}"#,
        r#"{"type":"assistant","session_id":5,"message":{"id":7,"usage":null,"content":"a text"}}"#,
        r#"{"type":"assistant","message":{"content":[5,null,"x",{"type":9},{}],"usage":{"output_tokens":"many"}}}"#,
        r#"{"type":"assistant","message":null}"#,
        r#"{"type":"user","message":{"content":{"type":"tool_result"}}}"#,
        r#"{"type":"system","subtype":7}"#,
        r#"{"type":"system","subtype":"init","session_id":5,"tools":{},"mcp_servers":"none"}"#,
        r#"{"type":"rate_limit_event","rate_limit_info":null}"#,
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":3,"resetsAt":"soon","utilization":1}}"#,
        r#"{"type":"control_request","request_id":5,"request":"x"}"#,
        r#"{"type":null}"#,
        "{}",
        "42",
        "[1,2]",
        "\"a string\"",
        "null",
    ] {
        writeln!(script, "emit {line}").unwrap();
    }
    let morning = night(&format!("{script}{DONE}")).run();
    morning.fine().judged(&["ok"]);
}

#[test]
fn c07_api_retry_is_no_failure() {
    let morning = night(&format!("init\nretry 9 529\nretry 1 0\n{DONE}")).run();
    morning.fine().judged(&["ok"]).healed(&[]);
    assert_eq!(morning.events("api_retry").len(), 10, "{morning}");
}

#[test]
fn c08_an_allowed_rate_limit_is_a_figure() {
    let events = "rate_limit allowed +3600s\nrate_limit allowed_warning +3600s\nrate_limit allowed_warning +7200s seven_day";
    let morning = night(&format!("init\n{events}\n{DONE}")).run();
    morning.fine().judged(&["ok"]);
    // A rejected window beside a success is none either.
    let morning = night(&format!("init\nrate_limit rejected +3600s\n{DONE}")).run();
    morning.fine().judged(&["ok"]);
}

#[test]
fn c11_characters_split_at_read_boundaries_and_invalid_bytes() {
    // The four bytes of U+1F680, one write each; then a lone 0xff in a text, and one outside of JSON.
    let line = r#"emit_raw "{\"type\":\"assistant\",\"message\":{\"id\":\"m1\",\"content\":[{\"type\":\"text\",\"text\":\"up \xf0" 20 "\x9f" 20 "\x9a" 20 "\x80 and \xff away\"}]}}" 20 "\n""#;
    let morning = night(&format!("init\n{line}\nemit_raw \"\\xff\\xfe\\n\"\n{DONE}")).run();
    morning.fine().judged(&["ok"]);
    let raw = morning.raw();
    assert!(raw.windows(4).any(|bytes| bytes == "🚀".as_bytes()), "the raw log has the bytes: {morning}");
    assert!(morning.events("attempt_ended")[0]["bad_lines"].as_u64() >= Some(1), "{morning}");
}

#[test]
fn c12_stderr_before_the_first_line_of_stdout() {
    for stderr in ["stderr 65537", "stderr 10M"] {
        let morning = night(&format!("{stderr}\n{}", "turn")).args(&["--first-output-timeout=10"]).run();
        morning.fine().judged(&["ok"]);
        assert!(text(&morning.events("attempt_ended")[0]["stderr_tail"]).len() <= 4096, "{morning}");
    }
}

#[test]
fn c13_all_texts_are_kept_not_only_the_last() {
    let script = format!(
        "init\ntext \"The whole report: alpha.\" partial\ntext \"Let me know if you need more.\"\n{}",
        "report\nresult"
    );
    let morning = night(&script).run();
    morning.fine();
    let raw = String::from_utf8_lossy(&morning.raw()).into_owned();
    assert!(raw.contains("The whole report: alpha."), "{morning}");
}

#[test]
fn c14_d02_the_reason_comes_from_the_result_and_is_never_empty() {
    let cases = [
        (
            "result {\"is_error\":true,\"subtype\":\"error_during_execution\",\"result\":null,\"errors\":[\"the reason\"]}\nexit 1",
            "the reason",
        ),
        ("api_error 500 \"API Error: 500 the reason\"\nexit 1", "the reason"),
        ("stderr \"the reason\"\nexit 1", "the reason"),
        ("exit 1", "exit code 1"),
        ("result {\"is_error\":true,\"result\":null,\"terminal_reason\":null}\nexit 1", ""),
    ];
    for (end, reason) in cases {
        let morning = night(&format!("nth_call 1 {{\ninit\n{end}\n}}\nnth_call 2 {{\nturn\n}}")).run();
        morning.fine().because(reason);
        for outcome in morning.events("outcome_judged") {
            assert!(
                super::strings(&outcome["reasons"]).iter().all(|r| !r.trim().is_empty()),
                "{end}: {morning}"
            );
        }
    }
}

#[test]
fn c15_the_cli_cuts_a_long_line_of_its_input() {
    // As JSON lines the prompt does not arrive; unchanged it would not the second time either.
    let script = "nth_call 1 {\nstderr \"Error parsing streaming input line: Unterminated string in JSON\"\nexit 1\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).run();
    morning.fine().judged(&["unknown_error", "ok"]).because("Error parsing streaming input line");
    let streams = |call: &Value| super::strings(&call["argv"]).iter().any(|arg| arg == "--input-format");
    let calls = morning.env.calls();
    assert_eq!((streams(&calls[0]), streams(&calls[1])), (true, false), "{morning}");
}

#[test]
fn c16_a_large_prompt_goes_by_stdin() {
    let night = night("nth_call 1 {\nturn\n}").args(&["--prompt-file=night.md"]);
    night.env.write("night.md", format!("Do the work.\n{}", "All of it. ".repeat(30_000)));
    let morning = night.run();
    morning.fine().judged(&["ok"]);
    let call = &morning.env.calls()[0];
    assert!(call["stdin_bytes"].as_u64() > Some(300_000), "{morning}");
    assert!(super::strings(&call["argv"]).iter().all(|arg| arg.len() < 16 << 10), "{morning}");
}

#[test]
fn c16_the_child_exits_before_it_reads_the_prompt() {
    let night = night(
        "nth_call 1 {\nread_stdin never\nstderr \"Error: bad start\"\nexit 1\n}\nnth_call 2 {\nturn\n}",
    );
    let night = night.args(&["--prompt-file=night.md"]);
    night.env.write("night.md", format!("Do the work.\n{}", "All of it. ".repeat(30_000)));
    night.run().fine().judged(&["unknown_error", "ok"]).because("Error: bad start");
}

#[test]
fn c16_the_child_never_reads_the_prompt() {
    // It answers as if it had: the writer must not hold up the reader.
    let night = night("read_stdin never\nturn").args(&["--prompt-file=night.md"]);
    night.env.write("night.md", format!("Do the work.\n{}", "All of it. ".repeat(30_000)));
    night.run().fine().judged(&["ok"]);
}

#[test]
fn c16_the_child_never_reads_and_never_speaks() {
    let night = night("nth_call 1 {\nread_stdin never\nhang\n}\nnth_call 2 {\nturn\n}");
    let night = night.args(&["--prompt-file=night.md", "--first-output-timeout=2"]);
    night.env.write("night.md", format!("Do the work.\n{}", "All of it. ".repeat(30_000)));
    night.run().fine();
}

#[test]
fn c17_a_warning_on_stderr_is_not_the_reason() {
    let script = "init\nstderr \"Ignoring 88 permissions.allow entries from .claude/settings.json: this workspace has not been trusted\"\napi_error 401 \"Failed to authenticate: OAuth session expired and could not be refreshed\"\nexit 1";
    let morning = night(script).run();
    morning.ended(20, "failed-wave", "auth").because("OAuth session expired");
    assert!(!morning.reasons().contains("Ignoring 88"), "{morning}");
    let detail = text(&morning.env.last_run()["kill_switch_detail"]);
    assert!(detail.contains("OAuth session expired") && !detail.contains("Ignoring"), "{detail}");
    assert!(morning.events("warning").iter().any(|w| text(&w["text"]).contains("Ignoring 88")), "{morning}");
}

#[test]
fn c17_only_noise_on_stderr_and_no_result() {
    let script = "nth_call 1 {\ninit\nstderr \"Ignoring 88 permissions.allow entries from .claude/settings.json: this workspace has not been trusted\"\nexit 1\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).run();
    morning.fine();
    assert!(!morning.reasons().contains("Ignoring 88"), "{morning}");
}

#[test]
fn c19_eight_megabytes_at_once_and_then_the_result() {
    let line = "emit {\"type\":\"user\",\"session_id\":\"{session}\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"{pad:4K}\"}]}}";
    let morning = night(&format!("init\nrepeat 2048 {{\n{line}\n}}\n{DONE}\nexit 0")).run();
    morning.fine().judged(&["ok"]);
    assert_eq!(morning.events("attempt_ended")[0]["bad_lines"], 0, "{morning}");
}
