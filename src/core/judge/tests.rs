//! What became of an attempt, row by row: claude-code §3, and the `driver` lines of field-reports A–K that are
//! decided from evidence.

use proptest::prelude::*;
use serde_json::json;

use super::wordings::{LIMITS, wording};
use super::*;
use crate::core::evidence::AttemptEnd;
use crate::core::fact::{DeniedCall, Fact, RateLimit};
use crate::core::stuck::call::{Call, Outcome as ToolOutcome};
use crate::core::time::Now;
use crate::core::transcript_digest::{ApiError, Excerpt, TranscriptDigest};

fn now() -> Now {
    Now {
        mono: std::time::Duration::from_secs(5),
        wall: jiff::Timestamp::from_second(1_790_000_000).unwrap(),
    }
}

fn ended(exit: Exit) -> AttemptEnd {
    AttemptEnd { exit: Some(exit), ..AttemptEnd::default() }
}

/// What is known after `facts` and an exit with this code.
fn after(facts: impl AsRef<[Fact]>, code: i32) -> Evidence {
    let mut evidence = Evidence { started: Some(now()), ..Evidence::default() };
    for fact in facts.as_ref() {
        evidence.take(now(), fact);
    }
    evidence.end = ended(Exit::Code(code));
    evidence
}

fn text(text: &str) -> Fact {
    Fact::Text { text: text.to_owned(), sub_agent: false }
}

fn result(result: TurnResult) -> Fact {
    Fact::Result(Box::new(result))
}

fn success() -> TurnResult {
    TurnResult {
        subtype: Some("success".to_owned()),
        terminal_reason: Some("completed".to_owned()),
        stop_reason: Some("end_turn".to_owned()),
        num_turns: Some(3),
        text: "All done.".to_owned(),
        ..TurnResult::default()
    }
}

fn failure(status: Option<u16>, words: &str) -> TurnResult {
    TurnResult {
        is_error: true,
        terminal_reason: Some("api_error".to_owned()),
        api_error_status: status,
        text: words.to_owned(),
        ..success()
    }
}

fn subtype(subtype: &str, terminal: &str) -> TurnResult {
    TurnResult {
        subtype: Some(subtype.to_owned()),
        is_error: true,
        terminal_reason: Some(terminal.to_owned()),
        text: String::new(),
        errors: vec![format!("{subtype} of the CLI")],
        ..TurnResult::default()
    }
}

fn window(status: &str) -> Fact {
    Fact::RateLimit(RateLimit {
        status: status.to_owned(),
        window: Some("five_hour".to_owned()),
        ..RateLimit::default()
    })
}

#[track_caller]
fn check(evidence: &Evidence, expected: Class) {
    let outcome = judge(evidence);
    assert_eq!(outcome.class, expected, "{:?} from {evidence:#?}", outcome.reasons);
    assert!(outcome.reasons.iter().all(|reason| !reason.trim().is_empty()), "{outcome:?}");
    assert!(!outcome.reasons.is_empty() && (0.0..=1.0).contains(&outcome.confidence));
}

/// The class of an error result with exit 1.
#[track_caller]
fn failed(turn: TurnResult, expected: Class) {
    check(&after(vec![result(turn)], 1), expected);
}

#[test]
fn the_table_of_claude_code_section_3() {
    let code =
        |api_error: &str, turn: TurnResult| TurnResult { api_error: Some(api_error.to_owned()), ..turn };
    let type_ = |type_: &str, turn: TurnResult| TurnResult { api_error_type: Some(type_.to_owned()), ..turn };
    check(&after(vec![text("All done."), result(success())], 0), Class::Ok);
    let reported = TurnResult {
        stop_reason: Some("tool_use".to_owned()),
        structured_output: Some(json!({"status": "complete"})),
        ..success()
    };
    check(&after(vec![result(reported)], 0), Class::Ok);
    failed(
        type_("authentication_error", failure(Some(401), "Invalid API key · Fix external API key")),
        Class::Auth,
    );
    failed(failure(Some(401), "Failed to authenticate. API Error: 401 OAuth token has expired"), Class::Auth);
    failed(type_("permission_error", failure(Some(403), "Request not allowed")), Class::Auth);
    failed(
        type_("rate_limit_error", failure(Some(429), "API Error: Request rejected (429) · x")),
        Class::TransientApi,
    );
    let limit =
        code("usage_limit_reached", failure(Some(429), "You've hit your 5-hour limit · resets 8:41pm (UTC)"));
    check(&after(vec![window("rejected"), result(limit)], 1), Class::UsageLimit);
    failed(type_("overloaded_error", failure(Some(529), "Overloaded")), Class::TransientApi);
    failed(type_("api_error", failure(Some(500), "Internal server error")), Class::TransientApi);
    failed(code("connection_failed", failure(None, "gone")), Class::TransientApi);
    failed(failure(Some(400), "Credit balance is too low"), Class::Billing);
    failed(failure(Some(404), "There's an issue with the selected model (x)."), Class::ModelUnavailable);
    failed(
        failure(Some(400), "messages.7.content.12: `thinking` blocks cannot be modified"),
        Class::PoisonedSession,
    );
    failed(
        code("tool_history_mismatch", failure(Some(400), "tool use concurrency issues")),
        Class::PoisonedSession,
    );
    let image = TurnResult {
        terminal_reason: Some("image_error".to_owned()),
        ..failure(None, "Could not process image")
    };
    failed(code("media_removed", image), Class::PoisonedSession);
    let long = TurnResult { terminal_reason: Some("prompt_too_long".to_owned()), ..failure(None, "x") };
    failed(long, Class::ContextFull);
    failed(subtype("error_max_turns", "max_turns"), Class::MaxTurns);
    failed(subtype("error_max_budget_usd", "budget_exhausted"), Class::Budget);
    // The budget hit an answer that is complete.
    let report = Some(json!({"status": "complete"}));
    failed(
        TurnResult { structured_output: report, ..subtype("error_max_budget_usd", "budget_exhausted") },
        Class::Ok,
    );
    failed(subtype("error_max_structured_output_retries", ""), Class::Ok);
    let unknown = TurnResult {
        errors: vec!["No conversation found with session ID: 5d6e".to_owned()],
        terminal_reason: None,
        ..subtype("error_during_execution", "")
    };
    failed(unknown, Class::NoSession);
    // An interrupt of ours, and one that is not.
    let mut interrupted = after(vec![result(subtype("error_during_execution", "aborted_streaming"))], 0);
    check(&interrupted, Class::Incomplete);
    interrupted.stop_cause = Some(StopCause::Operator);
    check(&interrupted, Class::KilledByDriver);
    // `/compact`, or any command the CLI answers by itself.
    check(
        &after(vec![result(TurnResult { num_turns: Some(0), text: String::new(), ..success() })], 0),
        Class::NoWork,
    );
}

#[test]
fn limits_and_failures_by_their_words() {
    for words in LIMITS {
        failed(failure(Some(429), words), Class::UsageLimit);
        failed(failure(None, words), Class::UsageLimit);
    }
    for (status, words, class) in [
        (
            None,
            "API Error: Server is temporarily limiting requests (not your usage limit)",
            Class::TransientApi,
        ),
        (Some(429), "API Error: Request rejected (429)", Class::TransientApi),
        (None, "spend limit unavailable", Class::TransientApi),
        (Some(429), "API Error: Usage credits required for 1M context · /model", Class::Billing),
        (
            Some(529),
            "API Error: 529 Overloaded. This is a server-side issue, usually temporary",
            Class::TransientApi,
        ),
        (None, "API Error: Repeated 529 Overloaded errors", Class::TransientApi),
        (None, "API Error: Stream idle timeout - partial response received", Class::TransientApi),
        (None, "API Error: Your computer went to sleep mid-response.", Class::TransientApi),
        (None, "API Error: The response stopped arriving.", Class::TransientApi),
        (None, "Connection lost before a response was produced", Class::TransientApi),
        (None, "Unable to connect to API (ECONNRESET)", Class::TransientApi),
        (None, "Failed to authenticate: OAuth session expired and could not be refreshed", Class::Auth),
        (None, "Not logged in · Please run /login", Class::Auth),
        (Some(403), "Please run /login · API Error: 403 Request not allowed", Class::Auth),
        (None, "Invalid API key · Fix external API key", Class::Auth),
        (Some(400), "Credit balance too low · Add funds", Class::Billing),
        (Some(400), "Your credit balance is too low to access the Anthropic API", Class::Billing),
        (Some(400), "API Error: 400 This organization has been disabled.", Class::Auth),
        (Some(400), "Your ANTHROPIC_API_KEY belongs to a disabled organization", Class::Auth),
        (
            Some(400),
            "unable to respond to this request, which appears to violate our Usage Policy",
            Class::PolicyRefusal,
        ),
        (Some(400), "prompt is too long: 210000 tokens > 200000 maximum", Class::ContextFull),
        (None, "Error during compaction: Error: Conversation too long", Class::ContextFull),
        (None, "Context limit reached", Class::ContextFull),
        (Some(413), "Request too large (max 32MB)", Class::ContextFull),
        (
            Some(400),
            "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_1",
            Class::PoisonedSession,
        ),
        (Some(400), "image exceeds 5 MB maximum: 6521204 bytes > 5242880 bytes", Class::PoisonedSession),
        (Some(400), "The request body is not valid JSON: no low surrogate in string", Class::PoisonedSession),
    ] {
        failed(failure(status, words), class);
    }
}

/// Field-reports G09: the same terminal reason for a limit, a full context and anything else.
#[test]
fn a_blocking_limit_is_told_apart_by_words_and_event() {
    let blocking = |words: &str| TurnResult {
        terminal_reason: Some("blocking_limit".to_owned()),
        ..failure(None, words)
    };
    failed(blocking("Prompt is too long"), Class::ContextFull);
    failed(blocking(LIMITS[24]), Class::UsageLimit);
    failed(blocking(""), Class::UnknownError);
    check(&after(vec![window("rejected"), result(blocking(""))], 1), Class::UsageLimit);
    // Figures are not stops (field-reports C08), and the latest state of a window counts.
    check(&after(vec![window("allowed_warning"), result(blocking(""))], 1), Class::UnknownError);
    check(&after(vec![window("rejected"), window("allowed"), result(blocking(""))], 1), Class::UnknownError);
    check(&after(vec![window("rejected"), text("x"), result(success())], 0), Class::Ok);
}

/// Where the reset time is read from: words of the CLI, never the model's.
#[test]
fn the_words_of_a_limit_come_from_structured_places_only() {
    let limit = LIMITS[8];
    let synthetic = || Fact::ApiError { class: None, status: Some(429), text: limit.to_owned() };
    for (facts, expected) in [
        (vec![result(failure(Some(429), limit))], Some(limit)),
        (vec![synthetic()], Some(limit)),
        // The result says nothing, the conversation does.
        (vec![synthetic(), result(failure(Some(429), ""))], Some(limit)),
        (vec![window("rejected"), result(failure(None, "API Error: 529 Overloaded"))], None),
        (vec![text(limit)], None),
        (vec![text(limit), result(success())], None),
        (vec![result(TurnResult { text: limit.to_owned(), ..success() })], None),
        // An error whose text is what the model said last.
        (vec![text(&format!("I read:\n{limit}")), result(failure(None, limit))], None),
    ] {
        let evidence = after(facts, 1);
        assert_eq!(limit_words(&evidence).as_deref(), expected, "{evidence:#?}");
        let said = judge(&evidence);
        assert_eq!(
            said.class == Class::UsageLimit && said.reasons[0] == limit,
            expected.is_some(),
            "{said:?}"
        );
    }
    // That one is no limit.
    let prose = [text(limit), result(failure(None, limit))];
    assert_ne!(judge(&after(prose, 1)).class, Class::UsageLimit);
}

#[test]
fn a_success_is_a_claim() {
    let tool = || Fact::ToolStarted {
        name: "Bash".to_owned(),
        summary: String::new(),
        sub_agent: false,
        call: Call::default(),
    };
    let empty = || TurnResult { text: String::new(), ..success() };
    let stopped = |stop: &str| TurnResult { stop_reason: Some(stop.to_owned()), ..success() };
    for (facts, expected) in [
        // A12: the text stands in the stream, only tools ran, nothing at all.
        (vec![text("It is done."), result(empty())], Class::Ok),
        (vec![tool(), result(empty())], Class::Ok),
        (vec![result(empty())], Class::NoWork),
        // A22: with and without words.
        (vec![tool(), result(TurnResult { text: String::new(), ..stopped("tool_use") })], Class::Incomplete),
        (vec![tool(), result(stopped("tool_use"))], Class::Incomplete),
        (vec![result(stopped("max_tokens"))], Class::OutputLimit),
        // B01: stopped tasks, and agents the system killed.
        (
            vec![
                tool(),
                Fact::TaskEnded { id: "t".to_owned(), status: "stopped".to_owned() },
                result(success()),
            ],
            Class::IncompleteBackground,
        ),
        (
            vec![
                tool(),
                Fact::TaskEnded { id: "t".to_owned(), status: "completed".to_owned() },
                result(success()),
            ],
            Class::Ok,
        ),
        (vec![result(TurnResult { agents_killed_by_system: 1, ..success() })], Class::IncompleteBackground),
        // D04: either place names it.
        (vec![Fact::Denied { tool: "Bash".to_owned(), id: None }, result(success())], Class::Denied),
        (
            vec![result(TurnResult {
                denied: vec![DeniedCall { tool: "Write".to_owned(), id: None }],
                ..success()
            })],
            Class::Denied,
        ),
        // D06.
        (
            vec![result(TurnResult {
                text: "Unknown command: /hepl. Did you mean /help?".to_owned(),
                ..success()
            })],
            Class::NoWork,
        ),
        // The words alone, after real work, are prose.
        (
            vec![tool(), result(TurnResult { text: "Unknown command: fixed".to_owned(), ..success() })],
            Class::Ok,
        ),
        // A17: the last result counts.
        (vec![result(failure(Some(529), "Overloaded")), text("x"), result(success())], Class::Ok),
    ] {
        check(&after(facts, 0), expected);
    }
    // B02: the marker on stderr.
    let mut ceiling = after(vec![text("x"), result(success())], 0);
    ceiling.end.background_ceiling = true;
    check(&ceiling, Class::IncompleteBackground);
}

/// Field-reports A15: {success, error, none} × exits.
#[test]
fn the_exit_never_overrules_the_result() {
    let exits = [
        (Exit::Code(0), Class::Ok, Class::Incomplete),
        (Exit::Code(1), Class::OkExitAnomaly, Class::UnknownError),
        (Exit::Code(143), Class::OkExitAnomaly, Class::KilledByOther),
        (Exit::Code(137), Class::OkExitAnomaly, Class::KilledByOther),
        (Exit::Code(134), Class::OkExitAnomaly, Class::KilledByOther),
        (Exit::Code(129), Class::OkExitAnomaly, Class::KilledByOther),
        (Exit::Signal(9), Class::OkExitAnomaly, Class::KilledByOther),
        (Exit::Signal(15), Class::OkExitAnomaly, Class::KilledByOther),
    ];
    for (exit, with_success, without) in exits {
        let with = |facts| Evidence { end: ended(exit), ..after(facts, 0) };
        check(&with(vec![text("x"), result(success())]), with_success);
        check(&with(vec![result(failure(Some(401), "Invalid API key"))]), Class::Auth);
        check(&with(vec![text("x")]), without);
        // We ended it after its result: that is no failure (A01).
        let grace =
            Evidence { stop_cause: Some(StopCause::ExitGrace), ..with(vec![text("x"), result(success())]) };
        check(&grace, Class::Ok);
        assert!(judge(&grace).reasons.join(" ").contains("hung after its result"));
    }
    check(&Evidence { end: AttemptEnd::default(), ..after(vec![text("x")], 0) }, Class::UnknownError);
}

#[test]
fn what_we_ended_ourselves() {
    for (cause, class) in [
        (StopCause::FirstOutput, Class::StartupHang),
        (StopCause::Stall, Class::Stalled),
        (StopCause::TurnTimeout, Class::Stalled),
        (StopCause::Operator, Class::KilledByDriver),
    ] {
        check(&Evidence { stop_cause: Some(cause), ..after(vec![text("x")], 143) }, class);
        // The result came all the same.
        check(
            &Evidence { stop_cause: Some(cause), ..after(vec![text("x"), result(success())], 143) },
            Class::Ok,
        );
    }
}

#[test]
fn stderr_without_a_result() {
    for (stderr, class) in [
        ("Error: No conversation found with session ID: 5d6e", Class::NoSession),
        ("Error: Session ID 5d6e is already in use.", Class::SessionInUse),
        ("Error: Claude Code cannot be launched inside another Claude Code session.", Class::EnvRefused),
        (
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
            Class::EnvRefused,
        ),
        ("The current directory no longer exists (it was deleted or moved).", Class::EnvRefused),
        ("Working directory \"/x\" no longer exists. Please restart Claude", Class::EnvRefused),
        ("Can't read the current directory (EACCES).", Class::EnvRefused),
        ("Not logged in · Please run /login", Class::Auth),
        ("something else", Class::UnknownError),
        ("", Class::UnknownError),
    ] {
        let mut evidence = after(vec![], 1);
        evidence.end.stderr_tail = format!("a line before\n{stderr}\n");
        check(&evidence, class);
    }
}

#[test]
fn a_program_that_does_not_start() {
    for (failure, class) in [
        (LaunchFailure::ProgramMissing, Class::BinaryMissing),
        (LaunchFailure::NotExecutable, Class::BinaryMissing),
        (LaunchFailure::DirectoryGone, Class::EnvRefused),
        (LaunchFailure::DiskFull, Class::Disk),
        (LaunchFailure::Other, Class::UnknownError),
    ] {
        let mut evidence = after(vec![], 0);
        evidence.end.launch_failure = Some((failure, "it does not start".to_owned()));
        check(&evidence, class);
    }
}

/// The failure stands in the conversation, by stream or by transcript, and no result came.
#[test]
fn a_failure_in_the_conversation_without_a_result() {
    for (class_word, status, words, class) in [
        ("authentication_failed", Some(401), "x", Class::Auth),
        ("billing_error", Some(400), "Credit balance is too low", Class::Billing),
        ("model_not_found", Some(404), "x", Class::ModelUnavailable),
        ("server_error", Some(529), "Overloaded", Class::TransientApi),
        ("rate_limit", Some(429), "API Error: Request rejected (429)", Class::TransientApi),
        ("rate_limit", Some(429), LIMITS[9], Class::UsageLimit),
        ("oauth_org_not_allowed", None, "x", Class::Auth),
    ] {
        let error = Fact::ApiError { class: Some(class_word.to_owned()), status, text: words.to_owned() };
        check(&after(vec![error.clone()], 1), class);
        // The model spoke after it: over.
        check(&after(vec![error, text("and on it goes")], 0), Class::Incomplete);
        let mut evidence = after(vec![], 1);
        evidence.digest = Some(TranscriptDigest {
            api_error: Some(ApiError {
                class: Some(class_word.to_owned()),
                status,
                text: Excerpt::new(words, 1000),
                details: None,
            }),
            ..TranscriptDigest::default()
        });
        check(&evidence, class);
    }
    let limited = after(
        vec![
            window("rejected"),
            Fact::ApiError { class: Some("rate_limit".to_owned()), status: Some(429), text: "x".to_owned() },
        ],
        1,
    );
    check(&limited, Class::UsageLimit);
}

/// Field-reports H02, I15: what is refused as unknown and is there all the same.
#[test]
fn a_conversation_that_is_not_found_and_still_there() {
    let unknown = TurnResult {
        errors: vec!["No conversation found with session ID: 5d6e".to_owned()],
        ..subtype("error_during_execution", "")
    };
    for (size, words) in
        [(0, None), (900, Some("still there (1 MiB)")), (103 << 20, Some("103 MiB too large"))]
    {
        let mut evidence = after(vec![result(unknown.clone())], 1);
        evidence.digest = Some(TranscriptDigest { exists: true, size, ..TranscriptDigest::default() });
        check(&evidence, Class::NoSession);
        let reasons = judge(&evidence).reasons.join("; ");
        assert!(words.map_or(!reasons.contains("transcript"), |words| reasons.contains(words)), "{reasons}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Field-reports E03: what a healthy run quotes is no failure of its own.
    #[test]
    fn words_of_a_healthy_run_are_never_looked_at(
        prose in prop::collection::vec((wording(), any::<bool>()), 1..6),
        last in wording(),
        with_report in any::<bool>(),
    ) {
        let mut facts: Vec<Fact> = prose
            .into_iter()
            .flat_map(|(text, sub_agent)| [
                Fact::ToolStarted { name: "Bash".to_owned(), summary: text.clone(), sub_agent, call: Call::default() },
                Fact::ToolEnded { is_error: true, sub_agent, outcome: ToolOutcome::default() },
                Fact::Text { text, sub_agent },
            ])
            .collect();
        let structured_output = with_report.then(|| json!({"status": "complete", "summary": last}));
        facts.push(result(TurnResult { text: last, structured_output, ..success() }));
        prop_assert_eq!(judge(&after(facts, 0)).class, Class::Ok);
    }

    /// The same words when we or somebody else ended it: the end decides, not what was said.
    #[test]
    fn words_of_a_run_that_was_cut_are_never_looked_at(said in wording()) {
        let cut = |exit| Evidence { end: ended(exit), ..after(vec![text(&said)], 0) };
        prop_assert_eq!(judge(&cut(Exit::Code(0))).class, Class::Incomplete);
        prop_assert_eq!(judge(&cut(Exit::Signal(9))).class, Class::KilledByOther);
        let max_turns = TurnResult { errors: vec![said.clone()], ..subtype("error_max_turns", "max_turns") };
        prop_assert_eq!(judge(&after(vec![text(&said), result(max_turns)], 1)).class, Class::MaxTurns);
    }
}
