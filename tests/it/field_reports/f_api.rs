//! Class F: API, network, authentication.

use super::{night, text};

/// A failure that passes: the same conversation goes on, at once or after a while.
#[track_caller]
fn passes(error: &str) {
    let script = format!(
        "nth_call 1 {{\ninit\ntool Bash {{\"command\":\"make\"}}\n{error}\nexit 1\n}}\nnth_call 2 {{\nturn\n}}"
    );
    let morning = night(&script).run();
    morning.fine().judged(&["transient_api", "ok"]).healed(&["transient_api: continue"]).resumed_the_first();
}

/// A failure that only a person can end: no second try, the words told, an exit code of its own.
#[track_caller]
fn stops(error: &str, code: i32, class: &str, words: &str) {
    let morning = night(&format!("init\n{error}\nexit 1")).run();
    morning.ended(code, "failed-wave", class).judged(&[class]).because(words);
    assert_eq!(morning.env.calls().len(), 1, "{morning}");
    assert!(text(&morning.env.last_run()["kill_switch_detail"]).contains(words), "{morning}");
}

#[test]
fn f01_overloaded() {
    passes(
        "api_error 529 \"API Error: 529 {\\\"type\\\":\\\"error\\\",\\\"error\\\":{\\\"type\\\":\\\"overloaded_error\\\",\\\"message\\\":\\\"Overloaded\\\"}}\"",
    );
    passes("api_error 529 \"API Error: Repeated 529 Overloaded errors\"");
    // Without a status, by its words alone.
    passes("api_error 500 \"API Error: 500 Internal server error\"");
    passes("api_error 429 \"API Error: Server is temporarily limiting requests (not your usage limit)\"");
    passes("api_error 429 \"API Error: Request rejected (429)\"");
}

#[test]
fn f01_overloaded_for_ever_is_bounded_and_told() {
    let morning = night("init\napi_error 529 \"API Error: Overloaded\"\nexit 1").run();
    morning.ended(14, "failed-wave", "transient_api").judged(&["transient_api"; 3]);
}

#[test]
fn f02_the_stream_broke_in_the_middle() {
    for words in [
        "API Error: Stream idle timeout - partial response received",
        "API Error: Response stalled mid-stream",
        "API Error: Connection closed mid-response",
        "API Error: Server error mid-response. The response above may be incomplete.",
        "API Error: Your computer went to sleep mid-response. The response above may be incomplete.",
        "API Error: The response stopped arriving. Try again.",
        "API Error: Connection lost before a response was produced",
    ] {
        passes(&format!("api_error 0 \"{words}\""));
    }
}

#[test]
fn f03_the_network_is_gone() {
    for words in [
        "API Error: Unable to connect to API (ECONNRESET)",
        "API Error: Unable to connect to API (ENOTFOUND)",
    ] {
        passes(&format!("api_error 0 \"{words}\" connection_failed"));
    }
}

#[test]
fn f04_not_logged_in() {
    for (status, words) in [
        (401, "Failed to authenticate: OAuth session expired and could not be refreshed"),
        (401, "API Error: 401 OAuth token has expired · Please run /login"),
        (403, "Please run /login · API Error: 403 Request not allowed"),
        (0, "Not logged in · Please run /login"),
        (0, "Login expired · Please run /login"),
    ] {
        stops(&format!("api_error {status} \"{words}\""), 20, "auth", words);
    }
}

#[test]
fn f04_k05_only_stderr_says_that_nobody_is_logged_in() {
    let morning = night("read_stdin never\nstderr \"Not logged in · Please run /login\"\nexit 1").run();
    morning.ended(20, "failed-wave", "auth");
    assert_eq!(morning.env.calls().len(), 1, "{morning}");
    assert!(morning.run.stderr.contains("login"), "what to do is said: {morning}");
}

#[test]
fn f05_the_credit_is_used_up() {
    for (status, words) in [
        (400, "Your credit balance is too low to access the Anthropic API"),
        (400, "Credit balance is too low"),
        (0, "Credit balance too low · Add funds: https://example.invalid/billing"),
    ] {
        stops(&format!("api_error {status} \"{words}\""), 21, "billing", words);
    }
}

#[test]
fn f06_the_api_key_is_wrong() {
    stops("api_error 401 \"Invalid API key · Fix external API key\"", 20, "auth", "Invalid API key");
    stops("api_error 0 \"Invalid API key · Fix external API key\"", 20, "auth", "Invalid API key");
}

#[test]
fn f07_the_model_does_not_exist() {
    let words =
        "There's an issue with the selected model (nope). It may not exist or you may not have access to it.";
    stops(&format!("api_error 404 \"{words}\""), 23, "model_unavailable", "(nope)");
}

#[test]
fn f09_a_key_in_the_environment_is_told_and_can_be_dropped() {
    let source = "init {\"apiKeySource\":\"ANTHROPIC_API_KEY\"}\ntext \"Done.\"\nreport\nresult";
    let noise = "stderr \"claude.ai connectors are disabled because ANTHROPIC_API_KEY or another auth source is set\"";
    let night_of = |billing: &str| {
        night(&format!("{source}\n{noise}"))
            .set("ANTHROPIC_API_KEY", "made-up-key-1")
            .set("AUTOPILOT_BILLING", billing)
    };
    let morning = night_of("inherit").run();
    morning.fine().judged(&["ok"]);
    let warnings = morning.events("warning").iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(warnings.contains("ANTHROPIC_API_KEY set: sessions are billed"), "{morning}");
    assert!(warnings.contains("connectors are disabled"), "{morning}");
    assert_eq!(morning.events("initialised")[0]["api_key_source"], "ANTHROPIC_API_KEY", "{morning}");
    assert!(morning.run.stderr.contains("paid by API key (ANTHROPIC_API_KEY)"), "{morning}");
    let all = morning.env.events().iter().map(ToString::to_string).collect::<String>();
    assert!(!all.contains("made-up-key-1"), "names only, never values: {morning}");

    let morning = night_of("subscription").run();
    morning.fine();
    assert!(morning.env.calls()[0]["env"]["ANTHROPIC_API_KEY"].is_null(), "{morning}");
    let removed = super::strings(&morning.events("attempt_started")[0]["env_removed"]);
    assert!(removed.iter().any(|name| name == "ANTHROPIC_API_KEY"), "{removed:?}");
}

#[test]
fn f10_a_refusal_gets_one_fresh_session_and_then_the_end() {
    let error = "api_error 0 \"API Error: Claude Code is unable to respond to this request, which appears to violate our Usage Policy (https://example.invalid/policy).\"";
    let morning = night(&format!("init\n{error}\nexit 1")).run();
    morning.ended(14, "failed-wave", "policy_refusal").judged(&["policy_refusal"; 2]);
    let ids = morning.ids();
    assert!(ids[0] != ids[1] && morning.resumed() == [false, false], "{morning}");
}

#[test]
fn f12_the_organisation_is_disabled() {
    stops("api_error 400 \"API Error: 400 This organization has been disabled.\"", 20, "auth", "disabled");
    let words = "Your ANTHROPIC_API_KEY belongs to a disabled organization";
    stops(&format!("api_error 400 \"{words}\""), 20, "auth", words);
}
