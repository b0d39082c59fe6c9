//! Class D: what "success" means.

use super::{night, strings, text};

#[test]
fn d01_success_with_is_error_is_a_failure() {
    let result = "result {\"subtype\":\"success\",\"is_error\":true,\"result\":\"API Error: Rate limit reached\",\"stop_reason\":\"stop_sequence\"}";
    // No reset is said and nothing may be waited for: the limit is the end.
    let morning = night(&format!("init\n{result}")).args(&["--max-wait=0"]).run();
    morning.ended(22, "failed-wave", "usage_limit").judged(&["usage_limit"]);
    let result = "result {\"subtype\":\"success\",\"is_error\":true,\"result\":\"API Error: something else\",\"terminal_reason\":\"api_error\"}";
    let morning = night(&format!("nth_call 1 {{\ninit\n{result}\n}}\nnth_call 2 {{\nturn\n}}")).run();
    morning.fine().judged(&["transient_api", "ok"]);
}

#[test]
fn d04_denied_calls_are_told_by_tool() {
    let denials = "{\"permission_denials\":[{\"tool_name\":\"Bash\",\"tool_use_id\":\"t1\",\"tool_input\":{\"command\":\"make\"}},{\"tool_name\":\"Write\",\"tool_use_id\":\"t2\",\"tool_input\":{}}]}";
    let morning = night(&format!("init\ntext \"I could not.\"\nreport\nresult {denials}")).run();
    morning.judged(&["denied"]).because("Bash").because("Write");
    assert_eq!(morning.events("session_ended")[0]["denials"], 2, "{morning}");
    assert_eq!(morning.events("session_ended")[0]["class"], "denied", "{morning}");
}

#[test]
fn d04_a_denial_that_the_result_does_not_list() {
    let morning = night("init\nask_hook Bash {\"command\":\"make\"}\nask_permission Write {\"file_path\":\"/etc/a\"}\ntext \"I could not.\"\nreport\nresult {\"permission_denials\":[]}").run();
    // It was told why and what to do instead; the refusal stands in the report.
    morning.judged(&["ok"]);
    assert_eq!(morning.events("session_ended")[0]["denials"], 1, "{morning}");
    assert!(morning.run.stderr.contains("`write /etc/a` is not allowed"), "{morning}");
}

#[test]
fn d06_an_unknown_command_is_no_work() {
    let script = "init\ntext \"Unknown command: /hepl. Did you mean /help?\"\nresult {\"num_turns\":0}";
    let morning = night(script).run();
    morning.ended(14, "failed-wave", "no_work").because("Unknown command: /hepl");
    assert_eq!(morning.env.calls().len(), 1, "deterministic: {morning}");
}

#[test]
fn d08_nobody_is_there_to_be_asked() {
    for (tool, input, decision, words) in [
        (
            "AskUserQuestion",
            "{\"questions\":[{\"question\":\"Postgres or SQLite?\",\"options\":[]}]}",
            "deny",
            "no person is here",
        ),
        ("ExitPlanMode", "{\"plan\":\"Postgres\"}", "allow", "nobody is here to approve a plan"),
    ] {
        // Answered, it decides by itself; or it ends its turn all the same, and is asked once for its report.
        for (end, calls) in [("report\nresult", 1), ("result", 2)] {
            let morning = night(&format!(
                "nth_call 1 {{\ninit\ntool {tool} {input}\ntext \"I take the first one.\"\n{end}\n}}\nnth_call 2 {{\nturn\n}}"
            ))
            .run();
            morning.fine();
            assert_eq!(
                (morning.classes()[0].as_str(), morning.env.calls().len()),
                ("ok", calls),
                "{morning}"
            );
            let answer = &morning.env.calls()[0]["hook_answers"][0]["response"]["hookSpecificOutput"];
            assert_eq!(answer["permissionDecision"], decision, "{morning}");
            assert!(text(&answer["permissionDecisionReason"]).contains(words), "{answer}");
            let told = &morning.events("gate_decided")[0];
            assert_eq!(
                (&told["tool"], &told["decision"]),
                (&tool.into(), &decision.into()),
                "on record: {morning}"
            );
        }
    }
    // Where the rules of the CLI come first, it is a call denied.
    let script = "init\nask_permission AskUserQuestion {}\ntext \"Then not.\"\nreport\nresult";
    let morning = night(script).set("AUTOPILOT_GATE", "off").run();
    morning.fine().judged(&["denied"]).because("AskUserQuestion");
}

#[test]
fn d09_limits_of_turns_budget_and_output() {
    let check = |result: &str, class: &str, again: bool| {
        let script = format!(
            "nth_call 1 {{\ninit\ntool Bash {{\"command\":\"make\"}}\n{result}\n}}\nnth_call 2 {{\nturn\n}}"
        );
        let morning = night(&script).run();
        let mut classes = vec![class];
        classes.extend(again.then_some("ok"));
        morning.fine().judged(&classes);
        if again {
            morning.resumed_the_first();
        }
    };
    let max_turns = "\"subtype\":\"error_max_turns\",\"num_turns\":2,\"result\":null,\"errors\":[\"Reached maximum number of turns (1)\"]";
    check(
        &format!("result {{{max_turns},\"is_error\":true,\"terminal_reason\":\"max_turns\"}}\nexit 1"),
        "max_turns",
        true,
    );
    // Old versions: not called an error; and no words at all.
    check(&format!("result {{{max_turns},\"is_error\":false}}"), "max_turns", true);
    check(
        "result {\"subtype\":\"error_max_turns\",\"is_error\":true,\"result\":null,\"errors\":[]}\nexit 1",
        "max_turns",
        true,
    );
    check(
        "result {\"subtype\":\"error_max_budget_usd\",\"is_error\":true,\"result\":null,\"errors\":[\"Reached maximum budget ($1)\"]}\nexit 1",
        "budget",
        false,
    );
}

#[test]
fn d09_max_turns_again_and_again_is_bounded() {
    let script = "init\ntool Bash {\"command\":\"make\"}\nresult {\"subtype\":\"error_max_turns\",\"is_error\":true,\"result\":null,\"errors\":[\"Reached maximum number of turns (1)\"]}\nexit 1";
    let morning = night(script).run();
    morning.ended(14, "failed-wave", "max_turns");
    assert!(morning.env.calls().len() <= 7, "{morning}");
}

#[test]
fn d09_no_structured_output_after_all_retries() {
    let result = "result {\"subtype\":\"error_max_structured_output_retries\",\"is_error\":true,\"result\":null,\"errors\":[\"Failed to provide valid structured output\"]}\nexit 1";
    let morning = night(&format!("nth_call 1 {{\ninit\ncommit \"Add a\" src/a.rs\ntext \"Done.\"\n{result}\n}}\nnth_call 2 {{\nturn\n}}")).run();
    morning.fine().judged(&["ok", "ok"]).resumed_the_first();
    assert_eq!(strings(&morning.env.last_run()["sessions"]).len(), 1);
    assert_eq!(text(&morning.env.sessions()[0]["notes"]), "Did the work.");
}
