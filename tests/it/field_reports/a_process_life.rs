//! Class A: hangs, missing results, exit statuses.

use std::time::Duration;

use super::night;

#[test]
fn a01_result_emitted_process_never_exits() {
    let morning = night("init\ntext \"Done.\"\nreport\nresult\nhang").run();
    morning.fine().judged(&["ok"]).because("hung after its result").healed(&[]);
    let ended = &morning.events("attempt_ended")[0];
    assert!(super::strings(&ended["signals"]).iter().any(|s| s.contains("TERM")), "{morning}");
    assert_eq!(morning.env.last_run()["cost_usd"], 0.01, "{morning}");
}

#[test]
fn a01_a14_hung_after_its_result_and_deaf_to_sigterm() {
    let morning = night("trap_term ignore\ninit\ntext \"Done.\"\nreport\nresult\nhang").run();
    morning.fine().judged(&["ok"]);
    let signals = super::strings(&morning.events("attempt_ended")[0]["signals"]).join(", ");
    assert!(signals.contains("TERM") && signals.contains("KILL"), "{morning}");
}

#[test]
fn a01_a_grandchild_holds_stdout_after_the_parent_has_gone() {
    for options in ["plain hold-stdout", "setsid hold-stdout"] {
        let script = format!("spawn_grandchild {options}\ninit\ntext \"Done.\"\nreport\nresult\nexit 0");
        let morning = night(&script).run();
        morning.fine().judged(&["ok"]);
        assert_eq!(super::strings(&morning.events("attempt_ended")[0]["swept"]).len(), 1, "{morning}");
    }
}

#[test]
fn a02_output_stops_after_a_tool_result_and_the_process_stays() {
    let script = "nth_call 1 {\ninit\ntext \"First.\" partial\ntool Bash {\"command\":\"make\"}\nhang\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).args(&["--stall-timeout=5"]).run();
    morning.fine().judged(&["stalled", "ok"]).healed(&["stalled: reconcile"]).resumed_the_first();
    morning.because("last seen: tool result");
    let gap = morning.events("attempt_ended")[0]["longest_gap_seconds"].as_f64().unwrap();
    assert!((5.0..30.0).contains(&gap), "{morning}");
}

#[test]
fn a03_stream_ends_after_a_tool_result() {
    let script = "nth_call 1 {\ninit\ntool Bash {\"command\":\"make\"}\nexit 0\n}\nnth_call 2 {\nturn\n}";
    night(script).run().fine().judged(&["incomplete", "ok"]).resumed_the_first();
}

#[test]
fn a04_the_transcript_grows_while_stdout_is_silent() {
    let entry = "append_transcript {\"type\":\"system\",\"subtype\":\"still_at_it\"}";
    let script = format!(
        "init\ntext \"A long one.\" partial\nrepeat 7 {{\nsleep 1000\n{entry}\n}}\ntext \"Done.\"\nreport\nresult"
    );
    let morning = night(&script).args(&["--stall-timeout=5"]).run();
    morning.fine().judged(&["ok"]);
    assert_eq!(morning.env.calls().len(), 1);
}

#[test]
fn a05_exit_0_without_a_result() {
    let script = "nth_call 1 {\ninit\ntouch src/a.rs \"half\"\ntext \"Half of it.\" partial\nexit 0\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).run();
    morning.fine().judged(&["incomplete", "ok"]).resumed_the_first();
    morning.because("exit code 0 without a result");
    assert_eq!(morning.env.read("src/a.rs"), "half");
}

#[test]
fn a05_the_final_text_is_there_but_no_result() {
    // The reply stands complete in the transcript: it is adopted, and the missing report is asked for.
    let script = "nth_call 1 {\ninit\ntext \"All done.\"\nexit 0\n}\nnth_call 2 {\nturn\n}";
    night(script).run().fine().judged(&["incomplete", "ok"]).resumed_the_first();
}

#[test]
fn a07_an_empty_prompt_is_refused_before_anything_starts() {
    for prompt in ["--prompt=", "--prompt=  \n\t "] {
        let morning = night("turn").args(&[prompt]).run();
        assert_eq!((morning.run.code(), morning.env.calls().len()), (Some(2), 0), "{prompt:?} {morning}");
    }
}

#[test]
fn a07_an_error_on_stderr_and_no_exit() {
    let script = "nth_call 1 {\nstderr \"Error: No messages returned\"\nhang\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).args(&["--first-output-timeout=3"]).run();
    morning.fine().judged(&["startup_hang", "ok"]).because("Error: No messages returned");
}

#[test]
fn a08_zero_output_recovers_with_the_next_process() {
    let script = "nth_call 1 {\nread_stdin never\nhang\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).args(&["--first-output-timeout=2"]).run();
    morning.fine();
    assert_eq!(morning.env.calls().len(), 2, "{morning}");
}

#[test]
fn a08_zero_output_for_ever_is_a_bounded_number_of_tries() {
    let morning = night("read_stdin never\nhang").args(&["--first-output-timeout=1"]).run();
    morning.ended(14, "failed-wave", "startup_hang").because("not one line came in time");
    assert!((3..=4).contains(&morning.env.calls().len()), "{morning}");
    assert_eq!(morning.env.last_run()["iterations_completed"], 0);
}

#[test]
fn a08_hook_lines_before_the_init_are_a_start() {
    let hook = "emit {\"type\":\"system\",\"subtype\":\"hook_started\",\"hook_event\":\"SessionStart\",\"session_id\":\"{session}\"}";
    let script = format!("{hook}\nsleep 3500\nturn");
    let morning = night(&script).args(&["--first-output-timeout=3"]).run();
    morning.fine().judged(&["ok"]);
}

#[test]
fn a09_a_gap_just_under_the_limit_is_no_fault() {
    let script = "init\ntext \"Thinking.\" partial\nsleep 4000\ntext \"Done.\"\nreport\nresult";
    let morning = night(script).args(&["--stall-timeout=5"]).run();
    morning.fine().judged(&["ok"]);
    let gap = morning.events("attempt_ended")[0]["longest_gap_seconds"].as_f64().unwrap();
    assert!(gap > 3.9, "{morning}");
}

#[test]
fn a10_retries_and_then_silence() {
    let script = "nth_call 1 {\ninit\nretry 3 529\nhang\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).args(&["--stall-timeout=5"]).run();
    morning.fine().judged(&["stalled", "ok"]).resumed_the_first();
    assert_eq!(morning.events("api_retry").len(), 3);
}

#[test]
fn a12_an_empty_result_with_text_before_it() {
    let script =
        "nth_call 1 {\ninit\ntext \"The answer is 42.\"\nresult {\"result\":\"\"}\n}\nnth_call 2 {\nturn\n}";
    night(script).run().fine().judged(&["ok", "ok"]).resumed_the_first();
}

#[test]
fn a12_an_empty_result_and_nothing_before_it() {
    for before in ["thinking \"Hm.\"", ""] {
        let morning = night(&format!("init\n{before}\nresult {{\"result\":\"\"}}")).run();
        morning.ended(14, "failed-wave", "no_work").judged(&["no_work"]);
    }
}

#[test]
fn a13_pauses_longer_than_the_exit_grace_are_no_end() {
    let script = "init\nrepeat 2 {\ntext \"On it.\" partial\nsleep 1500\n}\ntext \"Done.\"\nreport\nresult";
    let morning = night(script).run();
    morning.fine().judged(&["ok"]);
    assert_eq!(super::strings(&morning.events("attempt_ended")[0]["signals"]), [""; 0], "{morning}");
}

#[test]
fn a15_j06_result_by_exit() {
    let ends =
        ["exit 0", "exit 1", "exit 143", "exit 137", "exit 134", "signal_self KILL", "signal_self TERM"];
    let error = "result {\"is_error\":true,\"subtype\":\"error_during_execution\",\"errors\":[\"it broke\"]}";
    for end in ends {
        // A success wins over the exit, which is told.
        let morning = night(&format!("init\ntext \"Done.\"\nreport\nresult\n{end}")).run();
        let class = if end == "exit 0" { "ok" } else { "ok_exit_anomaly" };
        morning.fine().judged(&[class]);
        // An error stays an error whatever the exit.
        let script = format!("nth_call 1 {{\ninit\n{error}\n{end}\n}}\nnth_call 2 {{\nturn\n}}");
        night(&script).run().fine().judged(&["unknown_error", "ok"]).because("it broke");
        // Without a result it is never a success.
        let script =
            format!("nth_call 1 {{\ninit\ntext \"Half.\" partial\n{end}\n}}\nnth_call 2 {{\nturn\n}}");
        let morning = night(&script).run();
        let class = match end {
            "exit 0" => "incomplete",
            "exit 1" => "unknown_error",
            _ => "killed_by_other",
        };
        morning.fine().judged(&[class, "ok"]).resumed_the_first();
    }
}

#[test]
fn a17_m01_several_inits_and_results_in_one_process() {
    // A sub-agent in the background comes back after each result, and the CLI begins a turn of its own.
    let agent = |event: &str, rest: &str| {
        format!(
            "emit {{\"type\":\"system\",\"subtype\":\"{event}\",\"task_id\":\"t1\",{rest},\"session_id\":\"{{session}}\"}}\n"
        )
    };
    let starts = agent("task_started", "\"task_type\":\"local_agent\"");
    let comes_back = format!(
        "sleep 600\n{}sleep 600\ninit\nsleep 600\n",
        agent("task_notification", "\"status\":\"completed\"")
    );
    let script = format!(
        "init\n{starts}text \"One.\" partial\nresult {{\"result_index\":0}}\n{comes_back}{starts}text \"Two.\" partial\nresult {{\"result_index\":1}}\n{comes_back}ask_hook Bash {{\"command\":\"make\"}}\ntext \"Three.\"\nreport {{\"summary\":\"Three.\"}}\nresult {{\"result_index\":2}}"
    );
    let morning = night(&script).run();
    morning.fine().judged(&["ok"]);
    assert_eq!(morning.env.calls().len(), 1, "{morning}");
    assert_eq!(morning.env.sessions()[0]["notes"], "Three.", "{morning}");
    assert_eq!(morning.env.last_run()["cost_usd"], 0.03, "the running total, not a sum of totals: {morning}");
}

#[test]
fn a18_a_result_moves_the_state_although_the_process_stays() {
    // Two sessions: the second begins although the first process would never have ended.
    let morning = night("init\ntext \"Done.\"\nreport {\"status\":\"partial\"}\nresult\nhang")
        .set("AUTOPILOT_MAX_SESSIONS", "2")
        .run();
    morning.fine().judged(&["ok", "ok"]);
}

#[test]
fn a20_a_turn_over_its_time_keeps_what_was_done() {
    let work = "init\ncommit \"Add a\" src/a.rs\nrepeat 40 {\ntext \"Still at it.\" partial\nsleep 300\n}";
    let script = format!("nth_call 1 {{\n{work}\n}}\nnth_call 2 {{\nturn\n}}");
    let morning = night(&script).args(&["--turn-timeout=0.05"]).run();
    morning.fine().judged(&["stalled", "ok"]).resumed_the_first().because("longer than allowed");
    assert_eq!(morning.events("session_ended")[0]["work"]["commits_total"], 1, "{morning}");
}

#[test]
fn a20_the_ladder_runs_out_and_the_record_still_has_the_work() {
    let busy = "repeat 40 {\ntext \"Still at it.\" partial\nsleep 300\n}";
    let script = format!(
        "nth_call 1 {{\ninit\ncommit \"Add a\" src/a.rs\n{busy}\n}}\nnth_call 2 {{\ninit\n{busy}\n}}"
    );
    let morning = night(&script).args(&["--turn-timeout=0.05"]).run();
    morning.ended(12, "stall-timeout", "stalled").judged(&["stalled"; 3]);
    let session = &morning.events("session_ended")[0];
    assert_eq!(
        (&session["work"]["commits_total"], &session["attempts"]),
        (&1.into(), &3.into()),
        "{morning}"
    );
    assert_eq!(super::strings(&morning.env.last_run()["sessions"]), [morning.ids()[0].clone()], "{morning}");
    assert!(morning.run.elapsed < Duration::from_secs(40));
}

#[test]
fn a22_success_whose_last_message_is_a_tool_call() {
    for result in [
        "result {\"stop_reason\":\"tool_use\",\"result\":\"\",\"num_turns\":28}",
        "result {\"stop_reason\":\"tool_use\",\"result\":\"Now starting plan generation…\"}",
    ] {
        let script = format!(
            "nth_call 1 {{\ninit\ntool Bash {{\"command\":\"make\"}}\n{result}\n}}\nnth_call 2 {{\nturn\n}}"
        );
        night(&script).run().fine().judged(&["incomplete", "ok"]).resumed_the_first();
    }
}
