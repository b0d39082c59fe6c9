//! Work that outlives the result of a turn (claude-code §2 and §6).

use serde_json::{Value, json};

use rustix::process::Signal;

use crate::stub::Reply;
use crate::support::{Night, STEP, Turn};

/// Scripts a session that starts one sub-agent, which runs one command.
fn script(night: &Night) {
    night
        .stub
        .when(1, |request| request.last_user_text().contains("Help out"), Reply::bash("touch helped"))
        .when(1, |request| request.user_text().contains("Help out"), Reply::text("Helped"))
        .next(Reply::tool(
            "Agent",
            &json!({"description": "a helper", "prompt": "Help out", "subagent_type": "general-purpose"}),
        ))
        .always(Reply::text("All done"));
}

/// A sub-agent is started in the background unless told otherwise, so the first result says nothing of its work: the
/// end of a session is a result with no background task left.
#[test]
fn a_sub_agent_outlives_the_first_result_and_brings_a_second() {
    let night = Night::new();
    script(&night);
    let mut turn = Turn::start(&night, &["--allowed-tools", "Bash"]);
    turn.initialize();
    turn.prompt("Do it");
    let call = turn.answer_hook("pre", &json!({}));
    assert_eq!(call["tool_name"], "Agent", "although init lists the tool as Task");
    let started = turn.next_where("start of the sub-agent", |line| line["subtype"] == "task_started").1;
    assert_eq!(started["is_backgrounded"], true);
    assert_eq!(started["task_type"], "local_agent");
    let first = turn.result();
    assert_eq!(first["result_index"], 0);
    assert_eq!(first["subagent_stats"]["started_in_background"], 1);
    let second = turn.result();
    assert_eq!(second["result_index"], 1);
    assert_eq!(second["origin"]["kind"], "task-notification");
    assert_eq!(second["subagent_stats"]["completed"], 1);
    assert_eq!(night.read("helped").as_deref(), Some(""));

    let lines = turn.lines();
    let of_agent = lines.iter().filter(|line| line["request"]["subtype"] == "hook_callback");
    let of_agent: Vec<_> =
        of_agent.filter(|line| line["request"]["input"]["agent_id"] != Value::Null).collect();
    assert_eq!(of_agent.len(), 1, "the gate is asked about the calls of a sub-agent");
    assert_eq!(of_agent[0]["request"]["input"]["agent_id"], started["task_id"]);
    let tasks = lines.iter().rfind(|line| line["subtype"] == "background_tasks_changed").unwrap();
    assert_eq!(tasks["tasks"], json!([]));
    assert_eq!(turn.close(), Some(0));
}

/// With the variable set, the sub-agent is part of the turn that started it.
#[test]
fn without_background_tasks_a_sub_agent_ends_before_the_result() {
    let mut night = Night::new();
    night.variable("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1");
    script(&night);
    let mut turn = Turn::start(&night, &["--allowed-tools", "Bash"]);
    turn.initialize();
    turn.prompt("Do it");
    let result = turn.result();
    let started = turn.lines().into_iter().find(|line| line["subtype"] == "task_started").unwrap();
    assert_eq!(started["is_backgrounded"], false);
    assert_eq!(result["result_index"], 0);
    assert_eq!(result["subagent_stats"]["completed"], 1);
    assert_eq!(night.read("helped").as_deref(), Some(""));
    assert_eq!(turn.close(), Some(0));
}

#[test]
fn a_shell_in_the_background_keeps_the_process_until_a_signal() {
    let night = Night::new();
    let shell = json!({"command": "tail -f /dev/null", "description": "a wait", "run_in_background": true});
    night.stub.next(Reply::tool("Bash", &shell)).always(Reply::text("All done"));
    let mut turn = Turn::start(&night, &["--allowed-tools", "Bash"]);
    turn.initialize();
    turn.prompt("Do it");
    turn.answer_hook("pre", &json!({}));
    let stop = turn.answer_hook("stop", &json!({}));
    assert_eq!(stop["background_tasks"][0]["type"], "shell");
    assert_eq!(stop["background_tasks"][0]["status"], "running");
    assert_eq!(turn.result()["is_error"], false);
    turn.program.close_stdin();
    night.wait_for_process("tail -f /dev/null");
    assert!(turn.program.is_running());
    turn.program.signal(Signal::TERM);
    assert_eq!(turn.program.wait(STEP).code(), Some(143));
    night.wait_until_empty(STEP);
}
