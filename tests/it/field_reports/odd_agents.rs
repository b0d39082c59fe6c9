//! Kinds of failure that nobody has reported yet: programs that behave like no version of the CLI. Each run ends in
//! bounded time with an honest record.

use std::time::Duration;

use super::{Morning, Night, night, night_with_agent, text};

/// A whole stream, for agents that are shell scripts.
const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"3f0c8a52-6f0a-4d43-9b6e-0d4f6a2b9c11","model":"m"}"#;
const SAID: &str = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Done."}]}}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Done.","stop_reason":"end_turn","session_id":"3f0c8a52-6f0a-4d43-9b6e-0d4f6a2b9c11","total_cost_usd":0.5,"structured_output":{"status":"complete","summary":"Did it."}}"#;

/// Whatever the agent made of it, these deadlines bound the night.
fn bounded(night: Night) -> Morning {
    night
        .args(&["--first-output-timeout=2", "--stall-timeout=5", "--turn-timeout=0.1"])
        .expect(|expect| {
            expect.within = Duration::from_secs(45);
            expect.any_cost = true;
        })
        .run()
}

#[test]
fn initialize_is_never_answered_and_stdin_read_to_its_end() {
    let morning = bounded(night("plain\nread_stdin to-eof\nhang"));
    morning.ended(14, "failed-wave", "startup_hang");
    let morning = bounded(night_with_agent("while read -r line; do :; done"));
    assert!(matches!(morning.run.code(), Some(14)), "{morning}");
}

#[test]
fn a_program_from_before_the_control_protocol() {
    let morning = bounded(night("plain\nturn"));
    morning.fine();
    let warned =
        morning.events("warning").iter().any(|event| text(&event["text"]).contains("control protocol"));
    assert!(warned, "{morning}");
}

#[test]
fn stdin_is_ignored_and_a_stream_printed() {
    bounded(night("read_stdin never\nturn")).fine().judged(&["ok"]);
    let agent = format!("echo '{INIT}'\necho '{SAID}'\necho '{RESULT}'");
    bounded(night_with_agent(&agent)).fine().judged(&["ok"]);
}

#[test]
fn no_init() {
    bounded(night("text \"Done.\"\nreport\nresult")).fine().judged(&["ok"]);
    bounded(night_with_agent(&format!("echo '{RESULT}'"))).fine().judged(&["ok"]);
}

#[test]
fn an_array_instead_of_lines() {
    let morning = bounded(night_with_agent(&format!("echo '[{INIT},{SAID},{RESULT}]'")));
    assert_ne!(morning.run.code(), Some(1), "{morning}");
    assert_ne!(morning.classes()[0], "unknown_error", "{morning}");
}

#[test]
fn a_pretty_printed_object() {
    let morning = bounded(night_with_agent(
        "echo '{'\necho '  \"type\": \"result\",'\necho '  \"subtype\": \"success\",'\necho '  \"result\": \"Done.\"'\necho '}'",
    ));
    morning.ended(14, "failed-wave", "incomplete");
}

#[test]
fn windows_line_ends_a_byte_order_mark_and_blank_lines() {
    let agent = format!(
        "printf '\\357\\273\\277%s\\r\\n\\r\\n\\n%s\\r\\n   \\n%s\\r\\n' '{INIT}' '{SAID}' '{RESULT}'"
    );
    let morning = bounded(night_with_agent(&agent));
    morning.fine().judged(&["ok"]);
    assert_eq!(morning.events("initialised").len(), 1, "the first line is read too: {morning}");
    assert_eq!(morning.events("attempt_ended")[0]["bad_lines"], 0, "{morning}");
}

#[test]
fn nul_bytes_between_lines() {
    let agent = format!("printf '\\0\\0\\0\\n%s\\n%s\\0\\n%s\\n' '{INIT}' '{SAID}' '{RESULT}'");
    bounded(night_with_agent(&agent)).fine().judged(&["ok"]);
}

#[test]
fn no_line_end_after_the_result() {
    let agent = format!("printf '%s\\n%s\\n%s' '{INIT}' '{SAID}' '{RESULT}'");
    bounded(night_with_agent(&agent)).fine().judged(&["ok"]);
}

#[test]
fn the_result_before_the_init() {
    bounded(night_with_agent(&format!("echo '{RESULT}'\necho '{INIT}'\necho '{SAID}'"))).fine();
}

#[test]
fn two_results_with_different_ids() {
    let other = RESULT.replace("3f0c8a52", "99999999").replace("Did it.", "Did the other.");
    let morning = bounded(night_with_agent(&format!("echo '{INIT}'\necho '{RESULT}'\necho '{other}'")));
    morning.fine();
    assert_eq!(morning.env.sessions()[0]["notes"], "Did the other.", "the last one counts: {morning}");
}

#[test]
fn an_id_that_is_none() {
    let agent = format!(
        "echo '{}'\necho '{SAID}'\necho '{}'",
        INIT.replace("3f0c8a52", "../../etc"),
        RESULT.replace("3f0c8a52", "../../etc")
    );
    let morning = bounded(night_with_agent(&agent));
    morning.fine();
    assert!(!morning.env.last_run()["sessions"].to_string().contains(".."), "{morning}");
}

#[test]
fn a_result_of_an_unknown_subtype() {
    let odd = RESULT.replace("\"success\"", "\"celebrated\"");
    bounded(night_with_agent(&format!("echo '{INIT}'\necho '{SAID}'\necho '{odd}'"))).fine();
    let error = "nth_call 1 {\ninit\nresult {\"subtype\":\"error_in_orbit\",\"is_error\":false,\"result\":\"off course\"}\n}\nnth_call 2 {\nturn\n}";
    bounded(night(error)).fine().judged(&["unknown_error", "ok"]).because("off course");
}

#[test]
fn a_result_without_any_field() {
    let morning = bounded(night_with_agent("echo '{\"type\":\"result\"}'"));
    morning.ended(14, "failed-wave", "no_work");
}

#[test]
fn the_parent_ends_at_once_and_a_child_goes_on_with_the_stream() {
    let agent = format!("( sleep 1; echo '{INIT}'; echo '{SAID}'; echo '{RESULT}' ) &\nexit 0");
    let morning = bounded(night_with_agent(&agent));
    assert!(matches!(morning.run.code(), Some(0 | 14)), "{morning}");
    assert_ne!(morning.classes()[0], "unknown_error", "{morning}");
}

#[test]
fn stdout_is_closed_and_the_process_lives_on() {
    let morning = bounded(night_with_agent(&format!("echo '{INIT}'\nexec >&- 2>&-\nsleep 60")));
    morning.ended(12, "stall-timeout", "stalled");
    let morning = bounded(night_with_agent("exec >&- 2>&- <&-\nsleep 60"));
    morning.ended(14, "failed-wave", "startup_hang");
}

#[test]
fn stdout_is_closed_after_the_result_and_the_process_lives_on() {
    let morning = bounded(night_with_agent(&format!(
        "echo '{INIT}'\necho '{SAID}'\necho '{RESULT}'\nexec >&- 2>&-\nsleep 60"
    )));
    morning.fine().judged(&["ok"]);
}

#[test]
fn output_after_stdin_is_closed() {
    let script = "init\ntext \"Done.\"\nreport\nresult\nread_stdin to-eof\ntext \"One more thing.\" partial\nemit {\"type\":\"system\",\"subtype\":\"brand_new\"}\nexit 0";
    bounded(night(script)).fine();
}

#[test]
fn exit_0_at_once_and_without_a_word() {
    let morning = bounded(night_with_agent("exit 0"));
    morning.ended(14, "failed-wave", "incomplete");
}

#[test]
fn a_help_text_instead_of_a_stream() {
    let morning = bounded(night_with_agent(
        "echo 'Usage: claude [options]'\necho 'error: unknown option --json-schema' >&2\nexit 1",
    ));
    morning.ended(14, "failed-wave", "unknown_error").because("unknown option --json-schema");
}

#[test]
fn requests_that_nobody_asked_for() {
    let ask = r#"{"type":"control_request","request_id":"x1","request":{"subtype":"hook_callback","callback_id":"nobody","input":{}}}"#;
    let odd = r#"{"type":"control_request","request_id":"x2","request":{"subtype":"fly_to_the_moon"}}"#;
    let cancel = r#"{"type":"control_cancel_request","request_id":"x3"}"#;
    let response = r#"{"type":"control_response","response":{"subtype":"success","request_id":"never-sent","response":{}}}"#;
    let agent = format!(
        "echo '{INIT}'\necho '{ask}'\necho '{odd}'\necho '{cancel}'\necho '{response}'\necho '{SAID}'\necho '{RESULT}'"
    );
    bounded(night_with_agent(&agent)).fine().judged(&["ok"]);
}

#[test]
fn initialize_is_answered_with_an_error() {
    let agent = format!(
        r#"case "$*" in *input-format*)
read -r line
echo '{{"type":"control_response","response":{{"subtype":"error","request_id":"autopilot-1","error":"unknown subtype"}}}}'
read -r line
exit 1;; esac
echo '{INIT}'
echo '{SAID}'
echo '{RESULT}'"#
    );
    bounded(night_with_agent(&agent)).fine();
}

#[test]
fn a_flood_of_two_hundred_megabytes_of_unknown_events() {
    let line = "emit {\"type\":\"brand_new\",\"data\":\"{pad:4K}\",\"session_id\":\"{session}\"}";
    let script = format!("init\nrepeat 50000 {{\n{line}\n}}\ntext \"Done.\"\nreport\nresult");
    let morning = night(&script).expect(|expect| expect.within = Duration::from_secs(45)).run();
    morning.fine().judged(&["ok"]);
}

#[test]
fn chatter_without_end_is_ended_by_the_turn_timeout() {
    let agent = format!("echo '{INIT}'\nwhile :; do echo '{{\"type\":\"brand_new\"}}'; sleep 0.1; done");
    let morning = bounded(night_with_agent(&agent));
    morning.ended(12, "stall-timeout", "stalled").because("longer than allowed");
}

#[test]
fn the_agent_removes_the_folder_of_the_records() {
    let agent = format!("echo '{INIT}'\nrm -rf .orchestrator\necho '{SAID}'\necho '{RESULT}'");
    let morning = bounded(night_with_agent(&agent));
    assert_eq!(morning.env.runs().len(), 1, "{morning}");
    assert_eq!(morning.env.sessions().len(), 1, "{morning}");
}

#[test]
fn the_agent_puts_a_file_in_the_place_of_the_records() {
    let agent =
        format!("echo '{INIT}'\nrm -rf .orchestrator\n: >.orchestrator\necho '{SAID}'\necho '{RESULT}'");
    let night = night_with_agent(&agent).args(&["--first-output-timeout=2", "--stall-timeout=5"]);
    let morning = night.expect(|expect| (expect.any_cost, expect.no_record) = (true, true)).run();
    assert!(!matches!(morning.run.code(), None | Some(0)), "nothing could be recorded: {morning}");
    assert!(morning.run.stderr.contains(".orchestrator"), "it is said: {morning}");
}

#[test]
fn the_agent_removes_its_own_working_directory() {
    let partial = RESULT.replace("complete", "partial");
    let night = night_with_agent(&format!("echo '{INIT}'\nrm -rf \"$PWD\"\necho '{SAID}'\necho '{partial}'"));
    let args = ["--prompt=Do the work.", "--exit-grace=1", "--no-progress", "--max-sessions=3"];
    let run = night.env.autopilot(&args);
    assert_eq!(run.code(), Some(23), "{run}");
    // Found out by whoever comes first: the record that has no folder any more, or the look before the next session.
    let said = ["not a git repository any more", "cannot add a record to"];
    assert!(said.iter().any(|words| run.stderr.contains(words)), "{run}");
    assert!(night.env.leftovers().is_empty() && night.env.bystander_lives(), "{run}");
}

#[test]
fn a_daemon_that_hides() {
    // Its own session, an empty environment, no parent: only adoption shows where it came from.
    let agent = format!(
        "(env -i \"$(command -v setsid || echo nohup)\" sleep 4321.5 >/dev/null 2>&1 <&- &)\necho '{INIT}'\necho '{SAID}'\necho '{RESULT}'"
    );
    let morning = bounded(night_with_agent(&agent));
    morning.fine();
    let processes = morning.env.command("ps").args(["-eo", "args"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&processes.stdout).contains("sleep 4321.5"), "{morning}");
}

#[test]
fn reports_of_every_wrong_shape() {
    for report in [
        "\"all done\"",
        "[]",
        "42",
        "{\"status\":\"celebrating\",\"summary\":7}",
        "{\"status\":\"complete\",\"agent_summary\":{\"spiral\":-1,\"failed\":\"none\"},\"effectiveness\":{\"planned_issues\":0,\"carryover\":1e308}}",
        "{\"status\":\"partial\",\"waves\":{\"a\":1},\"tasks_carried\":\"x\",\"blocked_on\":[]}",
    ] {
        let morning = bounded(night(&format!(
            "nth_call 1 {{\ninit\ntext \"Done.\"\nresult {{\"structured_output\":{report}}}\n}}\nnth_call 2 {{\nturn\n}}"
        )));
        assert_eq!(morning.run.code(), Some(0), "{report}: {morning}");
    }
}

#[test]
fn results_with_fields_of_the_wrong_kind() {
    for changes in [
        "{\"is_error\":\"yes\",\"num_turns\":-1,\"duration_ms\":\"long\"}",
        "{\"total_cost_usd\":1e300,\"usage\":[],\"modelUsage\":\"much\"}",
        "{\"permission_denials\":\"none\",\"subagent_stats\":5,\"errors\":{\"a\":1}}",
        "{\"result\":{\"text\":\"x\"},\"stop_reason\":5,\"session_id\":[]}",
    ] {
        let morning = bounded(night(&format!("init\ntext \"Done.\"\nreport\nresult {changes}")));
        assert_eq!(morning.run.code(), Some(0), "{changes}: {morning}");
    }
}

#[test]
fn resets_that_cannot_be() {
    // Milliseconds, the far future, the far past, beyond all calendars.
    for at in ["{now+3600}000", "32503680000", "1e30", "9223372036854775807"] {
        let event = format!(
            "emit {{\"type\":\"rate_limit_event\",\"session_id\":\"{{session}}\",\"rate_limit_info\":{{\"status\":\"rejected\",\"resetsAt\":{at},\"rateLimitType\":\"five_hour\"}}}}"
        );
        let script = format!(
            "init\n{event}\napi_error 429 \"You've hit your session limit\" usage_limit_reached\nexit 1"
        );
        let morning = bounded(night(&script).args(&["--max-wait=0"]));
        morning.ended(22, "failed-wave", "usage_limit");
    }
}

#[test]
fn a_hundred_megabytes_on_stderr() {
    let morning = bounded(night("init\nrepeat 10 {\nstderr 10M\n}\ntext \"Done.\"\nreport\nresult"));
    morning.fine().judged(&["ok"]);
}

#[test]
fn ten_thousand_lines_that_are_not_json() {
    let morning =
        bounded(night("init\nrepeat 10000 {\nemit this is {not} JSON\n}\ntext \"Done.\"\nreport\nresult"));
    morning.fine().judged(&["ok"]);
    assert_eq!(morning.events("attempt_ended")[0]["bad_lines"], 10_000, "{morning}");
    let journal: usize = morning.env.events().iter().map(|event| event.to_string().len()).sum();
    assert!(journal < 256 << 10, "the journal stays small: {journal} bytes");
}
