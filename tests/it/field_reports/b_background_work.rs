//! Class B: background work in print mode.

use super::night;

const STARTED: &str = "emit {\"type\":\"system\",\"subtype\":\"task_started\",\"task_id\":\"b1\",\"task_type\":\"local_bash\",\"description\":\"make\",\"session_id\":\"{session}\"}";
const STOPPED: &str = "emit {\"type\":\"system\",\"subtype\":\"task_notification\",\"task_id\":\"b1\",\"status\":\"stopped\",\"session_id\":\"{session}\"}";
const CEILING: &str = "stderr \"Background tasks still running after 600s; terminating.\"\nstderr \"Set CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS=0 to wait indefinitely.\"";
const KILLED: &str = "{\"subagent_stats\":{\"spawned\":1,\"completed\":0,\"failed\":0,\"killed\":{\"parent\":0,\"user\":0,\"system\":1}}}";

/// The first turn says success although background work was cut; the second one finishes it.
#[track_caller]
fn check(first: &str) {
    let script = format!("nth_call 1 {{\n{first}\n}}\nnth_call 2 {{\nturn\n}}");
    let morning = night(&script).run();
    morning.fine().judged(&["incomplete_background", "ok"]).resumed_the_first();
}

#[test]
fn b01_a_background_command_is_stopped_after_the_result() {
    check(&format!("init\n{STARTED}\ntext \"You will be notified.\"\nreport\nresult\n{STOPPED}"));
}

#[test]
fn b01_a_background_command_is_stopped_before_the_result() {
    check(&format!("init\n{STARTED}\ntext \"You will be notified.\"\n{STOPPED}\nreport\nresult"));
}

#[test]
fn b01_the_result_counts_a_killed_agent() {
    check(&format!("init\ntext \"Agents are at work.\"\nreport\nresult {KILLED}"));
}

#[test]
fn b01_background_work_is_switched_off() {
    let morning = night("turn").run();
    assert_eq!(morning.env.calls()[0]["env"]["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"], "1", "{morning}");
}

#[test]
fn b02_only_stderr_tells_of_the_ceiling() {
    check(&format!("init\ntext \"Agents are at work.\"\nreport\nresult\n{CEILING}"));
}

#[test]
fn b02_only_the_stream_tells_of_the_stopped_task() {
    check(&format!("init\n{STARTED}\ntext \"It runs.\"\nreport\nresult\nsleep 200\n{STOPPED}"));
}

#[test]
fn b05_a_stop_hook_is_not_the_end() {
    let hook = "emit {\"type\":\"system\",\"subtype\":\"hook_response\",\"hook_event\":\"Stop\",\"hook_name\":\"Stop\",\"outcome\":\"success\",\"exit_code\":0,\"session_id\":\"{session}\"}";
    let script = format!(
        "init\ntext \"Idle?\" partial\n{hook}\nsleep 1500\nagent \"dig\"\ncommit \"Add a\" src/a.rs\ntext \"Done.\"\nreport\nresult"
    );
    let morning = night(&script).run();
    morning.fine().judged(&["ok"]);
    assert_eq!(morning.events("session_ended")[0]["work"]["commits_total"], 1, "{morning}");
}
