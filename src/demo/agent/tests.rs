use super::*;
use crate::demo::{DemoRepo, prepare};
use std::path::Path;

/// A prepared repository that goes away with the test.
struct Stage {
    _dir: tempfile::TempDir,
    demo: DemoRepo,
}

/// What an agent left.
struct Played {
    code: u8,
    lines: Vec<Value>,
    output: String,
    errors: String,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let demo = prepare(Some(&dir.path().join("demo")), &crate::demo::tests::exe()).unwrap();
        Stage { _dir: dir, demo }
    }

    fn world(&self, cwd: &Path) -> World {
        World {
            cwd: cwd.to_owned(),
            config_dir: self.demo.env[0].1.clone(),
            now: "2026-08-23T01:00:00Z".parse().unwrap(),
            pause: Duration::ZERO,
        }
    }

    fn play_in(&self, cwd: &Path, args: &[&str], input: &str) -> Played {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let code = run(&args, &self.world(cwd), input.as_bytes(), &mut output, &mut errors);
        let output = String::from_utf8(output).unwrap();
        let lines = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Played { code, lines, output, errors: String::from_utf8(errors).unwrap() }
    }

    fn play(&self, args: &[&str], input: &str) -> Played {
        self.play_in(&self.demo.repo, args, input)
    }

    fn commits(&self) -> usize {
        run_git(&self.demo.repo, &["rev-list", "--count", "HEAD"]).unwrap().trim().parse().unwrap()
    }
}

const STREAM: [&str; 7] = [
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    "--json-schema={}",
];

/// The flags of a driver, with more.
fn streaming<'a>(more: &[&'a str]) -> Vec<&'a str> {
    STREAM.into_iter().chain(more.iter().copied()).collect()
}

fn prompt(text: &str) -> String {
    let line = json!({
        "type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": null,
        "session_id": "default",
    });
    format!("{line}\n")
}

fn initialize(hooks: &Value) -> String {
    let request = json!({"subtype": "initialize", "hooks": hooks});
    format!("{}\n", json!({"type": "control_request", "request_id": "r1", "request": request}))
}

fn answer(id: &str, response: &Value) -> String {
    let response = json!({"subtype": "success", "request_id": id, "response": response});
    format!("{}\n", json!({"type": "control_response", "response": response}))
}

fn interrupt() -> String {
    format!(
        "{}\n",
        json!({"type": "control_request", "request_id": "i1", "request": {"subtype": "interrupt"}})
    )
}

/// A line in a word: its type, and its subtype or the kind of its content.
fn word(line: &Value) -> String {
    let kind = line["type"].as_str().unwrap();
    let detail = match kind {
        "assistant" | "user" => {
            let block = &line["message"]["content"][0];
            block["name"].as_str().or_else(|| block["type"].as_str())
        }
        "control_request" => line["request"]["subtype"].as_str(),
        "control_response" => line["response"]["request_id"].as_str(),
        _ => line["subtype"].as_str(),
    };
    format!("{kind}/{}", detail.unwrap_or_default())
}

fn words(lines: &[Value]) -> Vec<String> {
    lines.iter().map(word).collect()
}

fn result(played: &Played) -> &Value {
    let last = played.lines.last().expect("something was written");
    assert_eq!(last["type"], "result", "{last}");
    last
}

#[test]
fn three_sessions_do_the_work_and_a_fourth_finds_none() {
    let stage = Stage::new();
    for (number, status) in ["partial", "partial", "complete", "nothing_to_do"].into_iter().enumerate() {
        let id = Uuid::new_v4().to_string();
        let input = initialize(&json!({})) + &prompt(&stage.demo.prompt);
        let played = stage.play(&streaming(&["--session-id", &id]), &input);
        assert_eq!((played.code, played.errors.as_str()), (0, ""));
        assert_eq!(played.output.lines().count(), played.lines.len(), "every line is JSON");
        let result = result(&played);
        assert_eq!(result["structured_output"]["status"], status);
        assert_eq!(result["session_id"], json!(id));
        assert_eq!(result["model_usage_since_last_result"][wire::MODEL]["outputTokens"], 640);
        assert_eq!(stage.commits(), 1 + (number + 1).min(3));
        let mut expected = vec!["control_response/r1", "system/init"];
        if number < 3 {
            expected.push("assistant/text");
        }
        if number == 1 {
            expected.push("system/api_retry");
        }
        if number < 3 {
            expected.extend(["assistant/Write", "user/tool_result", "assistant/Bash", "user/tool_result"]);
        }
        expected.extend([
            "assistant/text",
            "assistant/StructuredOutput",
            "user/tool_result",
            "result/success",
        ]);
        assert_eq!(words(&played.lines), expected);
    }
    assert_eq!(run_git(&stage.demo.repo, &["status", "--porcelain"]).unwrap(), "");
}

#[test]
fn every_tool_call_asks_first_when_hooks_are_there() {
    let stage = Stage::new();
    let hooks = json!({"PreToolUse": [{"matcher": "*", "hookCallbackIds": ["pre"]}]});
    let allow = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}});
    let input = initialize(&hooks) + &prompt("go") + &answer("demo-1", &allow) + &answer("demo-2", &allow);
    let played = stage.play(&streaming(&["--session-id", &Uuid::new_v4().to_string()]), &input);
    let order = words(&played.lines);
    assert_eq!(
        order[3..9],
        [
            "assistant/Write",
            "control_request/hook_callback",
            "user/tool_result",
            "assistant/Bash",
            "control_request/hook_callback",
            "user/tool_result"
        ]
    );
    assert_eq!(played.lines[4]["request"]["callback_id"], "pre");
    assert_eq!(played.lines[4]["request"]["input"]["tool_name"], "Write");
    assert_eq!(stage.commits(), 2);
}

#[test]
fn a_denied_call_is_not_made() {
    let stage = Stage::new();
    let hooks = json!({"PreToolUse": [{"matcher": "*", "hookCallbackIds": ["pre"]}]});
    let deny = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not today",
    }});
    let input = initialize(&hooks) + &prompt("go") + &answer("demo-1", &deny);
    let played = stage.play(&streaming(&["--session-id", &Uuid::new_v4().to_string()]), &input);
    let refused = &played.lines[5]["message"]["content"][0];
    assert_eq!((&refused["content"], &refused["is_error"]), (&json!("not today"), &json!(true)));
    assert_eq!(result(&played)["structured_output"]["status"], "partial");
    assert_eq!(result(&played)["permission_denials"][0]["tool_name"], "Write");
    assert_eq!(stage.commits(), 1);
    assert!(!stage.demo.repo.join("guide").exists());
}

#[test]
fn a_shell_command_asks_for_permission_on_stdio() {
    let stage = Stage::new();
    let input = initialize(&json!({}))
        + &prompt("go")
        + &answer("demo-1", &json!({"behavior": "allow", "updatedInput": {}}));
    let flags = ["--permission-prompt-tool", "stdio", "--permission-mode", "acceptEdits"];
    let played = stage.play(&streaming(&flags), &input);
    let asked: Vec<&Value> = played.lines.iter().filter(|line| line["type"] == "control_request").collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["request"]["subtype"], "can_use_tool");
    assert_eq!(asked[0]["request"]["tool_name"], "Bash");
    assert_eq!(stage.commits(), 2);
}

#[test]
fn an_interrupted_turn_leaves_work_that_the_next_one_finishes() {
    let stage = Stage::new();
    let id = Uuid::new_v4().to_string();
    let flags = streaming(&["--session-id", &id, "--permission-prompt-tool", "stdio"]);
    let allow = answer("demo-2", &json!({"behavior": "allow"}));
    let input = prompt("go") + &interrupt() + &prompt("again") + &allow;
    let played = stage.play(&flags, &input);
    assert_eq!(played.code, 0);
    let results: Vec<&Value> = played.lines.iter().filter(|line| line["type"] == "result").collect();
    assert_eq!(results.len(), 2);
    assert_eq!(results[0]["terminal_reason"], "aborted_streaming");
    assert_eq!(results[1]["structured_output"]["status"], "partial");
    assert!(words(&played.lines).contains(&"control_response/i1".to_owned()));
    assert_eq!(stage.commits(), 2);
}

#[test]
fn a_driver_that_leaves_ends_it() {
    let stage = Stage::new();
    let played = stage.play(&streaming(&["--permission-prompt-tool=stdio"]), &prompt("go"));
    assert_eq!(played.code, 1);
    assert_eq!(stage.commits(), 1);
    assert_eq!(stage.play(&STREAM, "").code, 0);
}

#[test]
fn a_conversation_goes_on_and_its_totals_grow() {
    let stage = Stage::new();
    let id = Uuid::new_v4().to_string();
    stage.play(&streaming(&["--session-id", &id]), &prompt("one"));
    let again = stage.play(&streaming(&["--session-id", &id]), &prompt("two"));
    assert_eq!((again.code, again.output.as_str()), (1, ""));
    assert_eq!(again.errors, format!("Error: Session ID {id} is already in use.\n"));
    let resumed = stage.play(&streaming(&["--resume", &id]), &prompt("two"));
    assert_eq!(result(&resumed)["total_cost_usd"], 0.025);
    assert_eq!(result(&resumed)["model_usage_since_last_result"][wire::MODEL]["costUSD"], 0.0125);

    let folder = wire::encode(&stage.demo.repo);
    let path = stage.demo.env[0].1.join("projects").join(folder).join(format!("{id}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    let entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let prompts: Vec<&Value> = entries
        .iter()
        .map(|entry| &entry["message"]["content"])
        .filter(|content| content.is_string())
        .collect();
    assert_eq!(prompts, [&json!("one"), &json!("two")]);
    assert!(entries.iter().all(|entry| entry["sessionId"] == json!(id)));
}

#[test]
fn refusals_are_those_of_the_real_program() {
    let stage = Stage::new();
    let unknown = Uuid::new_v4().to_string();
    let played = stage.play(&streaming(&["--resume", &unknown]), &prompt("go"));
    assert_eq!(played.code, 1);
    assert_eq!(words(&played.lines), ["result/error_during_execution"]);
    assert_eq!(
        result(&played)["errors"][0],
        json!(format!("No conversation found with session ID: {unknown}"))
    );
    let played = stage.play(&streaming(&["--session-id", "friendly"]), "");
    assert_eq!(played.errors, "Error: Invalid session ID. Must be a valid UUID.\n");
    assert_eq!(stage.play(&["--version"], "").output, "0.0.0-demo (Claude Code)\n");
}

#[test]
fn plain_print_mode_reads_the_prompt_to_its_end() {
    let stage = Stage::new();
    let played = stage.play(&["-p", "--model", "opus"], "go\nand more\n");
    assert_eq!((played.code, played.output.as_str()), (0, "Wrote part 1 of 3: what happened.\n"));
    let played = stage.play(&["-p", "go", "--output-format=json"], "");
    assert_eq!(result(&played)["stop_reason"], "end_turn");
    assert_eq!(stage.commits(), 3);
}

#[test]
fn a_repository_of_somebody_else_is_left_alone() {
    let stage = Stage::new();
    run_git(&stage.demo.repo, &["config", "--local", "--unset", "autopilot.demo"]).unwrap();
    let played = stage.play(&STREAM, &prompt("go"));
    assert_eq!(result(&played)["structured_output"]["status"], "blocked");
    assert_eq!(stage.commits(), 1);
    let nowhere = tempfile::tempdir().unwrap();
    let played = stage.play_in(nowhere.path(), &STREAM, &prompt("go"));
    assert_eq!(result(&played)["structured_output"]["status"], "blocked");
}

#[test]
fn flags_it_does_not_know_are_ignored() {
    let check = |args: &[&str], expected: Options| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        assert_eq!(Options::parse(&args), expected, "{args:?}");
    };
    let plain = || Options { permission_mode: "default".into(), ..Options::default() };
    check(&[], plain());
    check(&["--model", "opus", "--max-budget-usd=3", "--settings", "{}"], plain());
    check(&["-p", "do it", "--verbose"], Options { prompt: Some("do it".into()), ..plain() });
    check(
        &["--resume=abc", "--json-schema", "{}", "--output-format", "json"],
        Options { resume: Some("abc".into()), wants_report: true, output: Output::Json, ..plain() },
    );
    check(&["--permission-mode"], Options { permission_mode: String::new(), ..plain() });
}

#[test]
fn broken_input_is_skipped() {
    let stage = Stage::new();
    let input = format!("garbage\n\n{{\"type\":7}}\n{}", prompt("go"));
    assert_eq!(stage.play(&STREAM, &input).code, 0);
    assert_eq!(stage.commits(), 2);
}

#[test]
fn project_folders_are_named_as_the_real_program_does() {
    let check = |path: &str, expected: &str| assert_eq!(wire::encode(Path::new(path)), expected);
    check("/home/u/my.proj", "-home-u-my-proj");
    check(r"C:\a b/c", "C--a-b-c");
    check("/é😀", "----");
    assert_eq!(wire::encode(Path::new(&"x".repeat(300))).len(), 205);
}
