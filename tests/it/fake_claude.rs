//! The double itself: what `claude-code.md` says of the real CLI holds for it.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::double::{Double, call};
use crate::support::encoding::encode;
use crate::support::env::TestEnv;
use crate::support::{proc, wait};

const ID: &str = "3f0c8a52-6f0a-4d43-9b6e-0d4f6a2b9c11";

fn types(lines: &[Value]) -> Vec<String> {
    lines
        .iter()
        .map(|l| match l["subtype"].as_str().filter(|_| l["type"] != "result") {
            Some(subtype) => format!("{}/{subtype}", l["type"].as_str().unwrap()),
            None => l["type"].as_str().unwrap_or("?").to_owned(),
        })
        .collect()
}

fn transcript(env: &TestEnv, id: &str) -> Vec<Value> {
    let text = fs::read_to_string(env.transcript(id)).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn plain_mode_takes_the_prompt_from_stdin() {
    let env = TestEnv::new();
    env.script("init\ntext \"Hello\"\nresult");
    let ended = call(&env, &["--session-id", ID], "say hello");
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(types(&ended.lines), ["system/init", "assistant", "result"]);
    let result = ended.result();
    assert_eq!(result["result"], "Hello");
    assert_eq!(result["session_id"], ID);
    assert_eq!(
        (&result["stop_reason"], &result["terminal_reason"]),
        (&json!("end_turn"), &json!("completed"))
    );

    let record = &env.calls()[0];
    assert_eq!(record["prompts"], json!(["say hello"]));
    assert_eq!(record["argv"][0], "-p");
    assert_eq!(record["cwd"], json!(env.repo()));
    assert_eq!(record["env"]["USER"], "tester");
    assert_eq!(record["exit"], 0);
}

#[test]
fn the_transcript_is_written_along() {
    use std::os::unix::fs::PermissionsExt as _;
    let env = TestEnv::new();
    env.script("init\ntool Bash {\"command\":\"ls\"} \"a\\nb\"\ntext \"Done\"\nresult");
    call(&env, &["--session-id", ID], "go");
    let entries = transcript(&env, ID);
    let kinds: Vec<_> = entries.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "queue-operation",
            "queue-operation",
            "user",
            "assistant",
            "user",
            "assistant",
            "last-prompt",
            "cost-state"
        ]
    );
    assert_eq!(entries[2]["message"]["content"], "go");
    assert_eq!(entries[3]["message"]["stop_reason"], "tool_use");
    assert_eq!(entries[4]["message"]["content"][0]["content"], "a\nb");
    assert_eq!(entries[4]["parentUuid"], entries[3]["uuid"]);
    assert_eq!(entries[5]["message"]["stop_reason"], "end_turn");
    let mode = fs::metadata(env.transcript(ID)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn totals_are_those_of_the_conversation() {
    let env = TestEnv::new();
    env.script("spend {\"cost\":0.25,\"output\":7}\nturn");
    call(&env, &["--session-id", ID], "one");
    let ended = call(&env, &["--resume", ID], "two");
    let result = ended.result();
    let sum = |key: &str| {
        let models = result[key].as_object().unwrap();
        models.values().map(|m| m["outputTokens"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(result["total_cost_usd"], 0.5);
    assert_eq!((sum("modelUsage"), sum("model_usage_since_last_result")), (14, 7));
    assert_eq!(result["usage"]["output_tokens"], 7);
}

#[test]
fn what_the_real_cli_refuses_is_refused() {
    let mut env = TestEnv::new();
    env.script("turn");
    let said = |env: &TestEnv, args: &[&str], prompt: &str| {
        let ended = call(env, args, prompt);
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        ended
    };
    for (args, prompt, text) in [
        (["--resume", "latest"], "x", "is not a UUID"),
        (["--session-id", "one"], "x", "Invalid session ID. Must be a valid UUID."),
        (["--permission-mode", "default"], " \n", "Input contained only whitespace"),
        (["--frobnicate", "x"], "x", "unknown option '--frobnicate'"),
    ] {
        let ended = said(&env, &args, prompt);
        assert!(ended.stderr.contains(text), "{ended:?}");
        assert_eq!(ended.lines, Vec::<Value>::new());
    }

    // An unknown id: a result line that echoes it, without an init.
    let ended = said(&env, &["--resume", ID], "x");
    let text = format!("No conversation found with session ID: {ID}");
    assert_eq!(types(&ended.lines), ["result"]);
    assert_eq!((&ended.result()["session_id"], &ended.result()["errors"]), (&json!(ID), &json!([text])));
    assert!(ended.result().get("result").is_none());
    assert_eq!(ended.stderr.trim_end(), text);

    // A wedged id: a file without a message can neither be resumed nor used.
    env.seed_transcript(ID, "{\"type\":\"queue-operation\",\"operation\":\"enqueue\"}\n");
    assert!(said(&env, &["--resume", ID], "x").stderr.contains("No conversation found"));
    let ended = said(&env, &["--session-id", ID], "x");
    assert_eq!(ended.stderr.trim_end(), format!("Error: Session ID {ID} is already in use."));
    assert_eq!(ended.lines, Vec::<Value>::new());

    env.set("CLAUDECODE", "1");
    let ended = said(&env, &["--model", "opus"], "x");
    assert!(ended.stderr.contains("inside another Claude Code session"), "{ended:?}");
}

#[test]
fn root_may_not_skip_permissions_outside_a_sandbox() {
    let mut env = TestEnv::new();
    env.script("turn");
    let root = rustix::process::geteuid().is_root();
    let ended = call(&env, &["--dangerously-skip-permissions"], "x");
    assert_eq!(ended.status.code(), Some(i32::from(root)), "{ended:?}");
    env.set("IS_SANDBOX", "1");
    assert_eq!(call(&env, &["--dangerously-skip-permissions"], "x").status.code(), Some(0));
}

#[test]
fn the_version_is_no_call() {
    let env = TestEnv::new();
    let output = env.command(env!("CARGO_BIN_EXE_fake-claude")).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2.1.332 (Claude Code)\n");
    assert_eq!(env.calls(), Vec::<Value>::new());
}

#[test]
fn the_control_protocol_from_handshake_to_end() {
    let env = TestEnv::new();
    env.script("init\ntool Bash {\"command\":\"ls\"} \"a\"\ntool Write {\"file_path\":\"/etc/x\"} \"b\"\nturn \"Done\"");
    let mut double = Double::start_stream(&env, &["--session-id", ID, "--json-schema", "{}"]);
    double.initialize(&["PreToolUse", "Stop"]);
    let answer = double.next();
    assert_eq!(answer["type"], "control_response");
    assert_eq!(
        (&answer["response"]["subtype"], &answer["response"]["request_id"]),
        (&json!("success"), &json!("r1"))
    );

    double.prompt("go");
    assert_eq!(double.next()["subtype"], "init");
    for (tool, decision) in [("Bash", "allow"), ("Write", "deny")] {
        let request = double.next_of("control_request");
        let input = &request["request"]["input"];
        assert_eq!(
            (&request["request"]["subtype"], &input["hook_event_name"]),
            (&json!("hook_callback"), &json!("PreToolUse"))
        );
        assert_eq!(request["request"]["callback_id"], "pre");
        assert_eq!((&input["tool_name"], &input["session_id"]), (&json!(tool), &json!(ID)));
        assert_eq!(input["transcript_path"], json!(env.transcript(ID)));
        double.answer(
            &request,
            &json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
            "permissionDecision": decision, "permissionDecisionReason": "outside"}}),
        );
        let result = double.next_of("user")["message"]["content"][0].clone();
        let expected =
            if decision == "allow" { (json!("a"), json!(false)) } else { (json!("outside"), json!(true)) };
        assert_eq!((result["content"].clone(), result["is_error"].clone()), expected);
    }
    let stop = double.next_of("control_request");
    assert_eq!(stop["request"]["input"]["last_assistant_message"], "Done");
    double.answer(&stop, &json!({}));
    let result = double.next_of("result");
    assert_eq!(
        (&result["stop_reason"], &result["structured_output"]["status"]),
        (&json!("tool_use"), &json!("complete"))
    );

    // It stays until stdin is closed.
    assert!(proc::alive(double.pid()));
    let ended = double.end();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(env.calls()[0]["hook_answers"].as_array().unwrap().len(), 3);
    assert_eq!(env.violations(), Vec::<Value>::new());
}

#[test]
fn a_permission_prompt_goes_to_the_driver_or_is_denied() {
    let env = TestEnv::new();
    env.script("init\nask_permission Bash {\"command\":\"make\"}\nresult");
    let mut double = Double::start_stream(&env, &["--permission-prompt-tool", "stdio"]);
    double.prompt("go");
    let request = double.next_of("control_request");
    assert_eq!(request["request"]["subtype"], "can_use_tool");
    double.answer(&request, &json!({"behavior": "allow", "updatedInput": {"command": "make"}}));
    assert_eq!(double.end().result()["permission_denials"], json!([]));

    let ended = call(&env, &[], "go");
    assert_eq!(types(&ended.lines), ["system/init", "system/permission_denied", "result"]);
    assert_eq!(ended.result()["permission_denials"][0]["tool_name"], "Bash");
    assert_eq!(ended.result()["subtype"], "success");
}

#[test]
fn an_interrupt_ends_the_turn_and_another_prompt_follows() {
    let env = TestEnv::new();
    env.script("init\nhang\ntext \"never\"\nnext_prompt\nturn \"other\"");
    let mut double = Double::start_stream(&env, &[]);
    double.initialize(&[]);
    double.prompt("one");
    double.next_of("system");
    double.interrupt();
    let result = double.next_of("result");
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("error_during_execution"), &json!(true)));
    assert_eq!(result["terminal_reason"], "aborted_streaming");
    double.prompt("two");
    assert_eq!(double.next_of("result")["result"], "other");
    let ended = double.end();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(env.calls()[0]["prompts"], json!(["one", "two"]));
}

#[test]
fn a_prompt_that_no_script_expects_is_a_violation() {
    let env = TestEnv::new();
    let mut double = Double::start_stream(&env, &[]);
    double.prompt("one");
    double.next_of("result");
    double.prompt("two");
    assert_eq!(double.end().status.code(), Some(99));
    assert_eq!(env.violations()[0]["kind"], "unscripted_prompt");
}

#[test]
fn an_old_cli_does_not_answer() {
    let env = TestEnv::new();
    env.script("plain\nturn");
    let mut double = Double::start_stream(&env, &[]);
    double.initialize(&[]);
    double.prompt("one");
    let ended = double.end();
    assert_eq!(types(&ended.lines), ["system/init", "assistant", "result"]);
}

#[test]
fn each_call_plays_its_own_part() {
    let env = TestEnv::new();
    env.script("nth_call 1 {\ninit\napi_error 529 \"Overloaded\"\n}\nnth_call 2 {\nturn \"call {call}\"\n}");
    let failed = call(&env, &["--session-id", ID], "x");
    assert_eq!(failed.status.code(), Some(1));
    let result = failed.result();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(true)));
    assert_eq!(
        (&result["api_error_status"], &result["api_error_type"]),
        (&json!(529), &json!("overloaded_error"))
    );
    assert_eq!(failed.lines[1]["message"]["model"], "<synthetic>");
    assert_eq!(transcript(&env, ID)[3]["isApiErrorMessage"], true);
    for number in 2..4 {
        let ended = call(&env, &["--resume", ID], "x");
        assert_eq!(ended.result()["result"], format!("call {number}"));
    }
}

#[test]
fn parallel_calls_get_different_numbers() {
    let env = TestEnv::new();
    env.script("init\nwait_file go\nresult");
    let doubles: Vec<_> = (0..6).map(|_| Double::start(&env, &["x"])).collect();
    for double in &doubles {
        double.next_of("system");
    }
    env.release("go");
    for double in doubles {
        assert_eq!(double.end().status.code(), Some(0));
    }
    let numbers: Vec<_> = env.calls().iter().map(|c| c["call"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_usage_limit_comes_as_an_event_and_an_error() {
    let env = TestEnv::new();
    env.script("init\nusage_limit +20s");
    let ended = call(&env, &[], "x");
    assert_eq!(types(&ended.lines), ["system/init", "rate_limit_event", "assistant", "result"]);
    let info = &ended.lines[1]["rate_limit_info"];
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let resets_at = info["resetsAt"].as_u64().unwrap();
    assert!((now + 1..=now + 20).contains(&resets_at), "{resets_at}, now {now}");
    assert_eq!(info["status"], "rejected");
    assert_eq!(ended.result()["api_error"], "usage_limit_reached");
    let text = ended.result()["result"].as_str().unwrap();
    assert!(text.starts_with("You've hit your 5-hour limit · resets "), "{text}");
}

#[test]
fn raw_bytes_pauses_and_long_streams() {
    let env = TestEnv::new();
    env.script("emit_raw \"\\xff{\" 20 \"x\\n\"\nrepeat 100 {\nemit {\"type\":\"noise\",\"pad\":\"{pad:64K}\"}\n}\nresult");
    let ended = call(&env, &[], "x");
    assert_eq!(ended.lines[0], "\u{fffd}{x\n");
    assert_eq!(ended.lines.len(), 102);
    assert_eq!(ended.lines[1]["pad"].as_str().unwrap().len(), 64 << 10);
}

#[test]
fn signals_end_it_as_they_end_the_cli() {
    for (script, signal, code) in [
        ("init\nhang", Signal::TERM, 143),
        ("init\nhang", Signal::INT, 0),
        ("init\nhang", Signal::HUP, 129),
        ("init\ntrap_term slow 50\nhang", Signal::TERM, 143),
        (
            "init\ntool_start Bash {\"command\":\"make\"}\nspawn_grandchild setsid tool\nhang",
            Signal::TERM,
            143,
        ),
        ("init\ntool_start Bash {\"command\":\"make\"}\nspawn_grandchild setsid tool\nhang", Signal::INT, 0),
    ] {
        let env = TestEnv::new();
        env.script(script);
        let double = Double::start(&env, &["--session-id", ID, "x"]);
        wait::until("it hangs", || env.has_mark(1, "hang").then_some(()));
        double.signal(signal);
        let ended = double.end();
        assert_eq!(ended.status.code(), Some(code), "{script} {signal:?}");
        wait::until("its tool is gone", || env.leftovers().is_empty().then_some(()));
        let result = ended.lines.iter().any(|l| l["type"] == "result");
        assert_eq!(result, script.contains("tool_start") && signal == Signal::INT, "{script} {signal:?}");
        let flushed = transcript(&env, ID).iter().any(|e| e["subtype"] == "flushed_after_signal");
        assert_eq!(flushed, script.contains("slow"), "{script}");
    }
}

#[test]
fn a_deaf_one_takes_sigkill_and_its_tool_lives_on() {
    let env = TestEnv::new();
    env.script("init\ntrap_term ignore\nspawn_grandchild setsid ignore-term tool\nhang");
    let mut double = Double::start(&env, &["x"]);
    wait::until("it hangs", || env.has_mark(1, "hang").then_some(()));
    double.signal(Signal::TERM);
    wait::until("the signal has arrived", || env.has_mark(1, "TERM").then_some(()));
    assert!(proc::alive(double.pid()));
    double.signal(Signal::KILL);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&double.wait()), Some(9));
    let left = env.leftovers();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].command.contains("__grandchild"), "{left:?}");
    env.end_leftovers();
    assert_eq!(env.leftovers(), []);
}

#[test]
fn a_grandchild_can_hold_stdout_open() {
    let env = TestEnv::new();
    env.script("spawn_grandchild plain hold-stdout\nturn");
    let mut double = Double::start(&env, &["x"]);
    double.next_of("result");
    assert_eq!(double.wait().code(), Some(0));
    assert_eq!(env.leftovers().len(), 1);
    env.end_leftovers();
    // Only now the end of the file comes.
    assert_eq!(double.end().lines, Vec::<Value>::new());
}

#[test]
fn stdin_can_be_left_alone_or_read_in_part() {
    let env = TestEnv::new();
    env.script("nth_call 1 {\nread_stdin never\nexit 7\n}\nnth_call 2 {\nread_stdin 4\nexit 8\n}\nnth_call 3 {\nstderr 1M\nread_stdin to-eof\nexit 9\n}");
    assert_eq!(call(&env, &[], "never read").status.code(), Some(7));
    assert_eq!(call(&env, &[], "four read").status.code(), Some(8));
    let ended = call(&env, &[], "all read");
    assert_eq!((ended.status.code(), ended.stderr.len()), (Some(9), 1 << 20));
    assert_eq!(env.calls()[1]["stdin_bytes"], 4);
    assert_eq!(env.calls()[2]["prompts"], json!(["all read"]));
}

#[test]
fn work_and_transcript_edits_are_on_record() {
    let env = TestEnv::new();
    env.script(
        "init\ncommit \"Add a\" a.txt\nhalf_write b.txt \"12345678\"\nappend_transcript {\"type\":\"assistant\",\"x\":1}\n\
         append_transcript \"{torn\"\ntruncate_transcript 3\nexit 0",
    );
    call(&env, &["--session-id", ID], "x");
    assert_eq!(env.git(&["log", "-1", "--format=%s"]), "Add a");
    assert_eq!(env.read("b.txt"), "1234");
    assert_eq!(env.work()[1]["commit"], env.git(&["rev-parse", "HEAD"]));
    let text = fs::read_to_string(env.transcript(ID)).unwrap();
    assert!(text.ends_with("\n{t"), "{text}");
}

#[test]
fn a_used_id_can_be_refused_without_a_transcript() {
    let env = TestEnv::new();
    env.script("no_transcript\nif_used_session_id\nturn");
    assert_eq!(call(&env, &["--session-id", ID], "x").status.code(), Some(0));
    let ended = call(&env, &["--session-id", ID], "x");
    assert_eq!(
        (ended.status.code(), ended.stderr.trim_end()),
        (Some(1), &*format!("Error: Session ID {ID} is already in use."))
    );
    assert!(!env.transcript(ID).exists());
}

#[test]
fn sessions_can_be_told_apart_and_renamed() {
    let env = TestEnv::new();
    env.script(&format!("if_session {ID} {{\ninit\napi_error 400 \"thinking blocks cannot be modified\"\n}} else {{\nnew_session\nturn\n}}"));
    assert_eq!(call(&env, &["--session-id", ID], "x").result()["api_error_status"], 400);
    let other = "7d444840-9dc0-41d1-b245-5ffdce74fad2";
    let ended = call(&env, &["--session-id", other], "x");
    let id = ended.result()["session_id"].as_str().unwrap();
    assert_ne!(id, other);
    assert!(env.transcript(id).exists());
}

#[test]
fn a_busy_tool_uses_cpu_and_ends() {
    let env = TestEnv::new();
    env.script("init\ntool_start Bash {\"command\":\"make\"}\nbusy 100\ntool_end \"built\"\nagent \"look around\"\nturn");
    let ended = call(&env, &[], "x");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(ended.result()["subagent_stats"]["completed"], 1);
    assert!(ended.lines.iter().any(|l| l["parent_tool_use_id"].is_string()));
    assert!(env.has_mark(1, "busy"));
}

#[test]
fn a_script_that_cannot_be_played_is_loud() {
    let env = TestEnv::new();
    env.script("init\nsleep soon");
    let ended = call(&env, &[], "x");
    assert_eq!(ended.status.code(), Some(99));
    assert!(ended.stderr.contains("line 2: sleep: `soon` is not a number"), "{ended:?}");
    assert_eq!(env.violations()[0]["kind"], "script");
}

#[test]
fn a_rough_night_plays_to_its_end() {
    let env = TestEnv::new();
    env.script(include_str!("../../fixtures/scripts/rough-night.script"));
    let other = "7d444840-9dc0-41d1-b245-5ffdce74fad2";
    let exit =
        |args: &[&str]| call(&env, &[args, ["--json-schema", "{}"].as_slice()].concat(), "go on").status;
    assert_eq!(exit(&["--session-id", ID]).code(), Some(1));
    let hung = Double::start(&env, &["--resume", ID, "go on"]);
    hung.next_of("result");
    wait::until("it hangs", || env.has_mark(2, "hang").then_some(()));
    hung.signal(Signal::TERM);
    assert_eq!(hung.end().status.code(), Some(143));
    assert_eq!(exit(&["--session-id", other]).code(), Some(1));
    assert_eq!(exit(&["--resume", other]).code(), None);
    assert_eq!(exit(&["--resume", other]).code(), Some(0));
    let last = call(&env, &["--resume", other, "--json-schema", "{}"], "go on");
    assert_eq!(last.result()["structured_output"]["status"], "complete");
    assert_eq!(env.git(&["log", "--format=%s"]), "Add the printer\nAdd the parser\nStart");
    assert_eq!(env.violations(), Vec::<Value>::new());
}

#[test]
fn the_folder_of_a_conversation_is_named_after_the_resolved_directory() {
    for (path, name) in
        [("/home/me/my_repo.v2", "-home-me-my-repo-v2"), ("/a b/\u{e4}", "-a-b--"), ("/\u{1f600}x", "---x")]
    {
        assert_eq!(encode(path), name);
    }
    let long = encode(&format!("/{}", "d".repeat(300)));
    assert_eq!((long.len(), &long[..3], &long[200..201]), (208, "-dd", "-"));
}

#[test]
fn every_other_line_of_the_stream() {
    let env = TestEnv::new();
    env.script(
        "init {\"model\":\"m\"}\nthinking \"hm\"\nretry 2 529\nrate_limit allowed_warning +60 seven_day\n\
         text \"half\" partial\ntranscript_turn \"behind the stream\"\nresult {\"stop_reason\":\"tool_use\",\"usage\":null}",
    );
    let ended = call(&env, &["--session-id", ID], "x");
    assert_eq!(
        types(&ended.lines),
        [
            "system/init",
            "assistant",
            "system/api_retry",
            "system/api_retry",
            "rate_limit_event",
            "assistant",
            "result"
        ]
    );
    assert_eq!(ended.lines[0]["model"], "m");
    assert_eq!(ended.lines[3]["attempt"], 2);
    assert_eq!(ended.lines[4]["rate_limit_info"]["rateLimitType"], "seven_day");
    assert_eq!((&ended.result()["stop_reason"], ended.result().get("usage")), (&json!("tool_use"), None));
    let entries = transcript(&env, ID);
    let reasons: Vec<_> =
        entries.iter().filter(|e| e["type"] == "assistant").map(|e| &e["message"]["stop_reason"]).collect();
    assert_eq!(reasons, [&Value::Null, &Value::Null, &json!("end_turn")]);
    assert_eq!(entries[5]["message"]["content"][0]["text"], "behind the stream");
}

#[test]
fn one_that_is_deaf_to_interrupts_goes_on() {
    let env = TestEnv::new();
    env.script("trap_interrupt ignore\ntrap_int ignore\ninit\nwait_file go\nalloc 1\nturn");
    let mut double = Double::start_stream(&env, &[]);
    double.prompt("x");
    double.next_of("system");
    double.interrupt();
    double.next_of("control_response");
    double.signal(Signal::INT);
    wait::until("the signal has arrived", || env.has_mark(1, "INT").then_some(()));
    env.release("go");
    assert_eq!(double.next_of("result")["subtype"], "success");
    assert_eq!(double.end().status.code(), Some(0));
}

#[test]
fn it_can_die_of_any_signal() {
    use std::os::unix::process::ExitStatusExt as _;
    let env = TestEnv::new();
    for (name, signal) in [("KILL", 9), ("ABRT", 6), ("SEGV", 11)] {
        env.script(&format!("init\nsignal_self {name}"));
        assert_eq!(call(&env, &[], "x").status.signal(), Some(signal), "{name}");
    }
    assert!(env.calls().iter().all(|c| c.get("exit").is_none()));
}

#[test]
fn a_broken_input_line_ends_it() {
    let env = TestEnv::new();
    let mut double = Double::start_stream(&env, &[]);
    double.write(b"{\"type\":\"user\",\"mess\n");
    let ended = double.end();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.starts_with("Error parsing streaming input line: {"), "{ended:?}");
}

#[test]
fn input_that_does_not_come_is_waited_for_three_seconds() {
    let env = TestEnv::new();
    let mut double = Double::start(&env, &[]);
    assert_eq!(double.wait().code(), Some(1));
    let ended = double.end();
    assert!(ended.stderr.starts_with("Warning: no stdin data received in 3s"), "{ended:?}");
    assert!(ended.stderr.contains("Input contained only whitespace"), "{ended:?}");
}
