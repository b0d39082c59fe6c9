//! Evidence → outcome, as one pure function.
//!
//! Order of trust (design §6): structured fields of the result, `is_error` over `subtype`; then the
//! transcript; text only in error results, synthetic messages and stderr, by anchored patterns; exit codes
//! last. Words in tool output or prose of a healthy run are never looked at (field-reports E03).

use super::evidence::{Evidence, Exit, LaunchFailure, StopCause};
use super::fact::TurnResult;
use super::outcome::Class;

/// Size of a transcript, in bytes, from which a refusal to resume it is taken for its size: the CLI ran out of memory
/// and said that there is no such conversation with 103 MB, and others with 64 MiB (field-reports I15).
const TOO_LARGE: u64 = 64 << 20;

/// What ground truth says of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The class.
    pub class: Class,
    /// 1 = a structured field says so; 0.5 = inferred.
    pub confidence: f64,
    /// Why, strongest first; never empty.
    pub reasons: Vec<String>,
}

impl Outcome {
    fn new(class: Class, confidence: f64, reason: impl Into<String>) -> Self {
        Outcome { class, confidence, reasons: vec![reason.into()] }
    }

    fn because(mut self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        if !reason.is_empty() {
            self.reasons.push(reason);
        }
        self
    }
}

/// Says what became of an attempt.
#[must_use]
pub fn judge(evidence: &Evidence) -> Outcome {
    if let Some((failure, words)) = &evidence.end.launch_failure {
        let class = match failure {
            LaunchFailure::ProgramMissing | LaunchFailure::NotExecutable => Class::BinaryMissing,
            LaunchFailure::DirectoryGone | LaunchFailure::CommandMissing => Class::EnvRefused,
            LaunchFailure::DiskFull => Class::Disk,
            LaunchFailure::Other => Class::UnknownError,
        };
        return Outcome::new(class, 1.0, words.clone());
    }
    let outcome = match &evidence.result {
        Some(result) if result.is_error => of_error_result(result, evidence),
        Some(result) => of_good_result(result, evidence),
        None => without_result(evidence),
    };
    with_transcript(with_exit(outcome, evidence), evidence)
}

/// A conversation that the CLI does not find although its file is there was not lost (field-reports H02, I15).
fn with_transcript(outcome: Outcome, evidence: &Evidence) -> Outcome {
    match &evidence.digest {
        Some(digest) if outcome.class == Class::NoSession && digest.size > 0 => {
            let mib = digest.size.div_ceil(1 << 20);
            if digest.size >= TOO_LARGE {
                outcome
                    .because(format!("its transcript is still there, with {mib} MiB too large to be resumed"))
            } else {
                outcome.because(format!("its transcript is still there ({mib} MiB)"))
            }
        }
        Some(_) | None => outcome,
    }
}

/// A result that says it is an error, by its structured fields, then by its words.
fn of_error_result(result: &TurnResult, evidence: &Evidence) -> Outcome {
    let words = words_of(result, evidence);
    let subtype = result.subtype.as_deref().unwrap_or_default();
    let terminal = result.terminal_reason.as_deref().unwrap_or_default();
    let error_code = result.api_error.as_deref().unwrap_or_default();
    let by_operator = evidence.stop_cause == Some(StopCause::Operator);

    if subtype == "error_max_turns" || terminal == "max_turns" {
        return Outcome::new(Class::MaxTurns, 1.0, words);
    }
    if subtype == "error_max_budget_usd" || terminal == "budget_exhausted" {
        // The budget is checked after each answer and can hit one that is complete (claude-code §3).
        return if result.structured_output.is_some() {
            Outcome::new(Class::Ok, 0.9, "the session report is there").because(words)
        } else {
            Outcome::new(Class::Budget, 1.0, words)
        };
    }
    if subtype == "error_max_structured_output_retries" {
        return Outcome::new(Class::Ok, 0.7, "the work is over; the report was not given as asked")
            .because(words);
    }
    if by_operator && (terminal.starts_with("aborted") || subtype == "error_during_execution") {
        return Outcome::new(Class::KilledByDriver, 1.0, "interrupted on request");
    }
    if evidence.stop_cause == Some(StopCause::WrapUp)
        && (terminal.starts_with("aborted") || subtype == "error_during_execution")
    {
        return to_wrap_up();
    }
    if evidence.stop_cause == Some(StopCause::Stuck)
        && (terminal.starts_with("aborted") || subtype == "error_during_execution")
    {
        return of_circle(evidence);
    }
    if evidence.stop_cause == Some(StopCause::Login) && result.is_error {
        return login_refused();
    }
    // Both can hold: a full context whose compaction met a limit waits first (field-reports G09).
    let limit = limit_words(evidence);
    if evidence.rejected_window().is_some() || error_code == "usage_limit_reached" || limit.is_some() {
        return Outcome::new(Class::UsageLimit, 1.0, limit.unwrap_or(words));
    }
    if terminal == "prompt_too_long" || terminal == "rapid_refill_breaker" || says_too_long(&words) {
        return Outcome::new(Class::ContextFull, 1.0, words);
    }
    if subtype == "error_during_execution" && says_no_conversation(&words) {
        return Outcome::new(Class::NoSession, 1.0, words);
    }
    let type_ = result.api_error_type.as_deref().unwrap_or_default();
    let class_word =
        evidence.api_error.as_ref().and_then(|(class, _, _)| class.as_deref()).unwrap_or_default();
    of_api_failure(result.api_error_status, type_, error_code, class_word, &words).unwrap_or_else(|| {
        if terminal.starts_with("aborted") {
            Outcome::new(Class::Incomplete, 0.8, format!("aborted: {words}"))
        } else if terminal == "api_error" || terminal == "model_error" {
            Outcome::new(Class::TransientApi, 0.6, words)
        } else {
            Outcome::new(Class::UnknownError, 0.5, words)
        }
    })
}

/// Class of an API failure (claude-code §3, recovery §5.2). `None` when its fields say nothing.
fn of_api_failure(
    status: Option<u16>,
    type_: &str,
    error_code: &str,
    class_word: &str,
    words: &str,
) -> Option<Outcome> {
    let sure = |class| Some(Outcome::new(class, 1.0, words));
    if class_word == "billing_error" || says_billing(words) {
        return sure(Class::Billing);
    }
    if class_word == "oauth_org_not_allowed" || says_organisation(words) {
        return sure(Class::Auth);
    }
    if says_policy(words) {
        return sure(Class::PolicyRefusal);
    }
    match status {
        Some(401 | 403) => return sure(Class::Auth),
        Some(404) => return sure(Class::ModelUnavailable),
        Some(413) => return sure(Class::ContextFull),
        Some(429 | 500..=599) => return sure(Class::TransientApi),
        Some(400) => {
            return if says_too_long(words) {
                sure(Class::ContextFull)
            } else {
                sure(Class::PoisonedSession)
            };
        }
        Some(_) | None => {}
    }
    if class_word == "authentication_failed" || type_ == "authentication_error" || says_login(words) {
        return sure(Class::Auth);
    }
    if class_word == "model_not_found" {
        return sure(Class::ModelUnavailable);
    }
    // The CLI has asked for the rest three times by then.
    if error_code == "max_output_tokens" || class_word == "max_output_tokens" {
        return sure(Class::OutputLimit);
    }
    if matches!(error_code, "tool_history_mismatch" | "media_removed") {
        return sure(Class::PoisonedSession);
    }
    if error_code == "connection_failed"
        || matches!(class_word, "overloaded" | "server_error" | "rate_limit")
        || says_network(words)
    {
        return sure(Class::TransientApi);
    }
    None
}

/// A result that does not say it is an error. Success is a claim; it is checked.
fn of_good_result(result: &TurnResult, evidence: &Evidence) -> Outcome {
    // Answered without the model, and that is all there was to do (claude-code §3).
    if result.local_command.as_deref() == Some("compact") {
        return Outcome::new(Class::Ok, 1.0, "the conversation is compacted");
    }
    let stop = result.stop_reason.as_deref().unwrap_or_default();
    let text = if result.text.trim().is_empty() { evidence.text.trim() } else { result.text.trim() };
    if text.starts_with("Unknown command:") && evidence.tool_calls == 0 {
        return Outcome::new(Class::NoWork, 1.0, first_line(text));
    }
    if evidence.end.background_ceiling
        || !evidence.stopped_tasks.is_empty()
        || result.agents_killed_by_system > 0
    {
        return Outcome::new(
            Class::IncompleteBackground,
            1.0,
            "background work was stopped before it was finished",
        );
    }
    if result.structured_output.is_none() {
        // `tool_use` beside a structured output is normal; without one the turn is not over
        // (claude-code §3, field-reports A22).
        if stop == "tool_use" {
            return Outcome::new(Class::Incomplete, 1.0, "the last message is a tool call, not an answer");
        }
        if stop == "max_tokens" {
            return Outcome::new(Class::OutputLimit, 1.0, "the answer was cut at the output limit");
        }
        if text.is_empty() && evidence.tool_calls == 0 {
            return Outcome::new(Class::NoWork, 0.9, "success without a word and without a tool call");
        }
        // A command the CLI answers by itself, such as the reserved `/session` (upstream-formats §15.1).
        if result.num_turns == Some(0) && evidence.tool_calls == 0 {
            return Outcome::new(
                Class::NoWork,
                0.9,
                format!("answered without the model: {}", first_line(text)),
            );
        }
    }
    if !evidence.denied.is_empty() {
        return Outcome::new(
            Class::Denied,
            1.0,
            format!("{} tool call(s) denied: {}", evidence.denied.len(), evidence.denied.join(", ")),
        );
    }
    Outcome::new(Class::Ok, 1.0, "the result says success")
}

/// We ended it because it went round in circles.
fn of_circle(evidence: &Evidence) -> Outcome {
    Outcome::new(Class::Stuck, 1.0, evidence.circle.as_deref().unwrap_or("it went round in circles"))
}

/// The attempt was ended because its login was refused twice.
fn login_refused() -> Outcome {
    Outcome::new(
        Class::Auth,
        1.0,
        "the API refused the login twice (401); the CLI would have asked for minutes",
    )
}

/// Nothing went wrong, and the session has one more prompt to come.
fn to_wrap_up() -> Outcome {
    Outcome::new(Class::KilledByDriver, 1.0, "interrupted for the deadline, to wrap up")
}

/// No result came: what we did, then what the transcript and stderr say, then how the process ended.
fn without_result(evidence: &Evidence) -> Outcome {
    match evidence.stop_cause {
        Some(StopCause::Operator) => {
            return Outcome::new(Class::KilledByDriver, 1.0, "stopped on request");
        }
        Some(StopCause::WrapUp) => return to_wrap_up(),
        Some(StopCause::Stuck) => return of_circle(evidence),
        Some(StopCause::Login) => return login_refused(),
        Some(StopCause::FirstOutput) => {
            return Outcome::new(Class::StartupHang, 1.0, "not one line came in time")
                .because(stderr_or(evidence, "stderr is empty"));
        }
        Some(StopCause::Stall) => {
            return Outcome::new(
                Class::Stalled,
                1.0,
                "stream and transcript went silent and no tool made progress",
            )
            .because(last_event(evidence));
        }
        Some(StopCause::TurnTimeout) => {
            return Outcome::new(Class::Stalled, 1.0, "the turn took longer than allowed")
                .because(last_event(evidence));
        }
        Some(StopCause::ExitGrace) | None => {}
    }
    let stderr = evidence.end.stderr_tail.as_str();
    if says_no_conversation(stderr) {
        return Outcome::new(Class::NoSession, 1.0, first_line(stderr));
    }
    if let Some(line) = line_with(stderr, &["Session ID ", " is already in use"]) {
        return Outcome::new(Class::SessionInUse, 1.0, line);
    }
    for pattern in [
        &["cannot be launched inside another Claude Code session"][..],
        &["cannot be used with root/sudo privileges"],
        &["current directory no longer exists"],
        &["Working directory ", " no longer exists"],
        &["Can't read the current directory"],
    ] {
        if let Some(line) = line_with(stderr, pattern) {
            return Outcome::new(Class::EnvRefused, 1.0, line);
        }
    }
    let api_error = last_api_error(evidence);
    // A limit looks like any other 429 in the conversation: event and words come first (field-reports E09).
    if evidence.rejected_window().is_some() {
        return Outcome::new(Class::UsageLimit, 0.9, "a usage window is rejected and no result came");
    }
    if let Some((_, _, words)) = &api_error
        && says_limit(words)
    {
        return Outcome::new(Class::UsageLimit, 0.9, first_line(words))
            .because("the failure stands in the conversation; no result came");
    }
    if let Some((class, status, words)) = api_error
        && let Some(outcome) = of_api_failure(status, "", "", class.as_deref().unwrap_or_default(), &words)
    {
        return outcome.because("the failure stands in the conversation; no result came");
    }
    if says_login(stderr) {
        return Outcome::new(Class::Auth, 0.8, first_line(stderr));
    }
    match evidence.end.exit {
        Some(Exit::Signal(signal)) => Outcome::new(
            Class::KilledByOther,
            1.0,
            format!("ended by signal {signal}, which we did not send"),
        )
        .because(memory_words(evidence)),
        Some(Exit::Code(code @ (129 | 134 | 137 | 139 | 143))) => {
            Outcome::new(Class::KilledByOther, 0.8, format!("exit code {code} without a result"))
                .because(stderr_or(evidence, "stderr is empty"))
                .because(memory_words(evidence))
        }
        Some(Exit::Code(0)) => Outcome::new(
            Class::Incomplete,
            1.0,
            format!("exit code 0 without a result after {} lines", evidence.end.lines),
        ),
        Some(Exit::Code(code)) => {
            Outcome::new(Class::UnknownError, 0.5, stderr_or(evidence, "no result and nothing on stderr"))
                .because(format!("exit code {code}"))
        }
        None => Outcome::new(Class::UnknownError, 0.3, "the process could not be reaped"),
    }
}

/// What was left of the memory when the process was killed (field-reports J08); empty when nobody looked.
fn memory_words(evidence: &Evidence) -> String {
    match evidence.end.memory_left {
        Some(bytes) => format!("{} MB of memory were left right after it", bytes >> 20),
        None => String::new(),
    }
}

/// The exit only ever adds to what the result said (field-reports A01, A15).
fn with_exit(outcome: Outcome, evidence: &Evidence) -> Outcome {
    if outcome.class != Class::Ok || evidence.result.is_none() {
        return outcome;
    }
    match (evidence.stop_cause, evidence.end.exit) {
        (Some(StopCause::ExitGrace), _) => {
            outcome.because("hung after its result: the process stayed and was ended")
        }
        (None, Some(exit @ (Exit::Signal(_) | Exit::Code(1..)))) => {
            let result_was_error = evidence.result.as_ref().is_some_and(|result| result.is_error);
            if result_was_error {
                outcome
            } else {
                Outcome { class: Class::OkExitAnomaly, ..outcome.because(format!("then {exit}")) }
            }
        }
        _ => outcome,
    }
}

/// The words of a usage limit, from the places where only the CLI writes: an error result, or a failure in the
/// conversation. Never from prose: words of the model that end up in a result are its own (field-reports E03).
#[must_use]
pub fn limit_words(evidence: &Evidence) -> Option<String> {
    let words = match &evidence.result {
        Some(result) if !result.is_error => None,
        Some(result) if result.text.trim().is_empty() || is_prose(result, evidence) => {
            evidence.api_error.clone().map(|(_, _, words)| words)
        }
        Some(result) => Some(result.failure_text()),
        None => last_api_error(evidence).map(|(_, _, words)| words),
    };
    words.filter(|words| says_limit(words))
}

/// The words of a failure. The model's own are none.
fn words_of(result: &TurnResult, evidence: &Evidence) -> String {
    if is_prose(result, evidence) {
        TurnResult { text: String::new(), ..result.clone() }.failure_text()
    } else {
        result.failure_text()
    }
}

/// The text of the result is what the model wrote last, not what the CLI says of a failure.
fn is_prose(result: &TurnResult, evidence: &Evidence) -> bool {
    let text = result.text.trim();
    !text.is_empty() && evidence.text.trim_end().ends_with(text)
}

/// What was going on last, for somebody who wonders what hung.
fn last_event(evidence: &Evidence) -> String {
    let last = if evidence.last_event.is_empty() { "nothing" } else { evidence.last_event };
    format!("last seen: {last}")
}

fn last_api_error(evidence: &Evidence) -> Option<(Option<String>, Option<u16>, String)> {
    evidence.api_error.clone().or_else(|| {
        let error = evidence.digest.as_ref()?.api_error.as_ref()?;
        Some((error.class.clone(), error.status, error.text.text.clone()))
    })
}

fn stderr_or(evidence: &Evidence, otherwise: &str) -> String {
    let tail = evidence.end.stderr_tail.trim();
    if tail.is_empty() { otherwise.to_owned() } else { first_line(tail) }
}

fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().chars().take(300).collect()
}

/// The first line that holds all parts in order.
fn line_with(text: &str, parts: &[&str]) -> Option<String> {
    text.lines()
        .find(|line| {
            let mut rest = *line;
            parts.iter().all(|part| match rest.find(part) {
                Some(at) => {
                    rest = &rest[at + part.len()..];
                    true
                }
                None => false,
            })
        })
        .map(first_line)
}

// Wordings below: field-reports E01, F01–F12, G08, H01; recovery §5.2. They are only ever applied to error
// results, synthetic messages and stderr.

fn says_limit(words: &str) -> bool {
    let line = words.trim();
    if line.starts_with("API Error: Server is temporarily limiting") || line.contains("not your usage limit")
    {
        return false;
    }
    let lower = line.to_lowercase().replace('’', "'");
    lower.contains("usage limit reached")
        || lower.contains("-hour limit reached")
        || lower.contains("weekly limit reached")
        || (lower.contains("you've hit your ") && lower.contains("limit"))
        || lower.contains("you're out of extra usage")
        || lower.contains("api error: rate limit reached")
        || lower.contains("spend limit reached")
}

fn says_too_long(words: &str) -> bool {
    let lower = words.to_lowercase();
    lower.contains("prompt is too long")
        || lower.contains("input is too long")
        || lower.contains("context limit reached")
        || lower.contains("conversation too long")
        || lower.contains("automatic compaction failed")
        || lower.contains("request too large")
}

fn says_no_conversation(words: &str) -> bool {
    words.contains("No conversation found with session ID")
}

fn says_billing(words: &str) -> bool {
    let lower = words.to_lowercase();
    lower.contains("credit balance") && lower.contains("too low") || lower.contains("usage credits required")
}

fn says_organisation(words: &str) -> bool {
    let lower = words.to_lowercase();
    // The API's words, and what version 2.1.332 of the CLI makes of them with a key in the environment.
    lower.contains("organization has been disabled") || lower.contains("disabled organization")
}

fn says_policy(words: &str) -> bool {
    words.contains("violate our Usage Policy")
}

fn says_login(words: &str) -> bool {
    ["Please run /login", "Not logged in", "Failed to authenticate", "Invalid API key", "Login expired"]
        .iter()
        .any(|pattern| words.contains(pattern))
}

fn says_network(words: &str) -> bool {
    [
        "ECONNRESET",
        "ECONNREFUSED",
        "ENOTFOUND",
        "ETIMEDOUT",
        "Unable to connect to API",
        "Stream idle timeout",
        "mid-response",
        "mid-stream",
        "response stopped arriving",
        "Connection error",
        "Connection lost",
    ]
    .iter()
    .any(|pattern| words.contains(pattern))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod wordings;
