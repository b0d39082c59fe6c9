//! Class E: usage limits.

use std::fmt::Write as _;

use rustix::process::Signal;

use super::{night, text};

#[test]
fn e02_the_structured_event_is_waited_for_and_uses_no_attempt() {
    let script = "nth_call 1 {\ninit\ntool Bash {\"command\":\"make\"}\nusage_limit +1s\nexit 1\n}\nnth_call 2 {\nusage_limit +1s seven_day\nexit 1\n}\nnth_call 3 {\nturn\n}";
    let morning = night(script).run();
    morning.fine().judged(&["usage_limit", "usage_limit", "ok"]).healed(&[]).resumed_the_first();
    assert_eq!(morning.events("limit_wait").len(), 2, "{morning}");
    assert!(morning.env.last_run()["limit_wait_seconds"].as_u64() >= Some(1), "{morning}");
}

#[test]
fn e02_integers_and_missing_fields_in_the_event() {
    // The window that blocks has a reset; one that is allowed, with its overage rejected, pins nothing.
    let allowed = "emit {\"type\":\"rate_limit_event\",\"session_id\":\"{session}\",\"rate_limit_info\":{\"status\":\"allowed\",\"resetsAt\":{now+500000},\"rateLimitType\":\"seven_day\",\"utilization\":1,\"overageStatus\":\"rejected\",\"overageDisabledReason\":\"org_level_disabled_until\",\"isUsingOverage\":false}}";
    let script =
        format!("nth_call 1 {{\ninit\n{allowed}\nusage_limit +1s\nexit 1\n}}\nnth_call 2 {{\nturn\n}}");
    night(&script).run().fine().judged(&["usage_limit", "ok"]);
}

#[test]
fn e02_a_limit_beyond_max_wait_is_the_end_and_says_when_it_resets() {
    let morning = night("init\nusage_limit +7200s seven_day\nexit 1").args(&["--max-wait=1"]).run();
    morning.ended(22, "failed-wave", "usage_limit");
    assert_eq!(morning.env.calls().len(), 1, "{morning}");
}

#[test]
fn e02_no_reset_is_said_and_a_person_stops_the_wait() {
    let event = "emit {\"type\":\"rate_limit_event\",\"session_id\":\"{session}\",\"rate_limit_info\":{\"status\":\"rejected\",\"rateLimitType\":\"five_hour\"}}";
    let script =
        format!("init\n{event}\napi_error 429 \"You've hit your session limit\" usage_limit_reached\nexit 1");
    let morning = night(&script).watched(|run| {
        run.wait_event("the wait", |line| line["event"]["type"] == "limit_wait");
        run.signal(Signal::TERM);
    });
    assert_eq!(morning.run.code(), Some(143), "{morning}");
    assert_eq!(text(&morning.env.last_run()["kill_switch"]), "user-abort");
}

#[test]
fn e03_words_of_limits_in_healthy_text_are_only_words() {
    let rows = [
        "Claude AI usage limit reached|1762952400",
        "Claude usage limit reached. Your limit will reset at 3pm (America/Bogota).",
        "5-hour limit reached ∙ resets 3pm",
        "5-hour limit reached · resets 3pm (Europe/Stockholm) · /upgrade to Max 20x or turn on /extra-usage",
        "Weekly limit reached · resets 10am (Asia/Seoul) · /upgrade…",
        "You've hit your limit · resets 1pm (Europe/Lisbon)",
        "You've hit your session limit · resets 12:50pm (Europe/Paris)",
        "You've hit your Opus limit",
        "You're out of extra usage · resets 9pm",
        "You’ve hit your limit for Claude messages. Limits will reset at 9:30 AM.",
        "API Error: Rate limit reached",
        "spend limit reached (daily; resets 2026-08-09 00:00 UTC)",
        "API Error: Usage credits required for 1M context",
        "Prompt is too long",
        "API Error: 529 Overloaded",
        "Not logged in · Please run /login",
        "Credit balance is too low",
        "No conversation found with session ID: 3f0c8a52-6f0a-4d43-9b6e-0d4f6a2b9c11",
    ];
    let mut script = "init\n".to_owned();
    for row in rows {
        writeln!(script, "tool Bash {{\"command\":\"cat notes\"}} \"{row}\"\ntext \"{row}\" partial")
            .unwrap();
    }
    // The answer itself speaks of it, too, and so does stderr.
    let last = rows[5];
    write!(script, "stderr \"{last}\"\ntext \"{last}\"\nreport {{\"summary\":\"{last}\"}}\nresult").unwrap();
    let morning = night(&script).run();
    morning.fine().judged(&["ok"]);
    assert_eq!(morning.env.calls().len(), 1, "{morning}");
}

#[test]
fn e09_a_session_limit_that_looks_like_an_api_error() {
    let changes = "{\"duration_ms\":458,\"num_turns\":1,\"total_cost_usd\":0}";
    let script = format!(
        "init\napi_error 429 \"You've hit your session limit · resets 3:30am (America/New_York)\" \"\" {changes}\nexit 1"
    );
    let morning = night(&script).args(&["--max-wait=0"]).run();
    morning.ended(22, "failed-wave", "usage_limit").judged(&["usage_limit"]);
    assert_eq!(morning.env.calls().len(), 1, "not retried at once: {morning}");
}

#[test]
fn e09_a_529_is_not_a_limit() {
    let script = "nth_call 1 {\ninit\napi_error 529 \"API Error: 529 Overloaded. This is a server-side issue, usually temporary\"\nexit 1\n}\nnth_call 2 {\nturn\n}";
    night(script).run().fine().judged(&["transient_api", "ok"]);
}
