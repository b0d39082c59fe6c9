//! What the CLI has said of limits and errors, for tests that quote it where it means nothing.

use proptest::prelude::*;

/// Field-reports E01, by row. Row 21 is another agent's wording and no row of ours.
pub(crate) const LIMITS: [&str; 25] = [
    "Claude AI usage limit reached|1762952400",
    "Claude usage limit reached. Your limit will reset at 3pm (America/Bogota).",
    "5-hour limit reached ∙ resets 3pm",
    "5-hour limit reached · resets 3pm (Europe/Stockholm) · /upgrade to Max 20x or turn on /extra-usage",
    "5-hour limit reached ∙ resets 12:30am",
    "Weekly limit reached · resets 10am (Asia/Seoul) · /upgrade to Max",
    "You've hit your limit · resets 1pm (Europe/Lisbon)",
    "You've hit your limit · resets Jan 30, 11:30am (Asia/Calcutta)",
    "You've hit your limit · resets Feb 16, 11am (Europe/Berlin)",
    "You've hit your session limit · resets 12:50pm (Europe/Paris)",
    "You've hit your session limit · resets 12am (Asia/Seoul)",
    "You've hit your session limit · resets 12:50am\n/usage-credits to finish what you’re working on.",
    "You've hit your weekly limit · resets Jul 15 at 12am (Australia/Melbourne)",
    "You've hit your Opus limit",
    "You've hit your Sonnet limit",
    "You're out of extra usage · resets 9pm",
    "You’ve hit your limit for Claude messages. Limits will reset at 9:30 AM.",
    "API Error: Rate limit reached",
    "You've hit your weekly limit · resets Mon 12:00am",
    "You've hit your session limit · resets 3:45pm",
    "spend limit reached (daily; resets 2026-08-09 00:00 UTC)",
    "spend limit reached",
    "You've hit your 5-hour limit · resets 8:41pm (UTC)",
    "You've hit your session limit · resets 3:30am (America/New_York)",
    "Prompt is too long · automatic compaction failed: You've hit your session limit · resets 3:50am",
];

/// Error wordings of the other classes.
const ERRORS: [&str; 16] = [
    "Invalid API key · Fix external API key",
    "Please run /login · API Error: 403 Request not allowed",
    "Not logged in · Please run /login",
    "API Error: 401 OAuth token has expired",
    "Credit balance is too low",
    "API Error: Usage credits required for 1M context",
    "API Error: 400 This organization has been disabled.",
    "API Error: 529 Overloaded",
    "API Error: Stream idle timeout - partial response received",
    "Unable to connect to API (ECONNRESET)",
    "Prompt is too long",
    "API Error: 400 due to tool use concurrency issues.",
    "API Error: Claude Code is unable to respond to this request, which appears to violate our Usage Policy",
    "No conversation found with session ID: 5d6e",
    "Error: Session ID x is already in use.",
    "Claude Code cannot be launched inside another Claude Code session.",
];

/// One of them among ids and numbers, as logs and tools have it.
pub(crate) fn wording() -> impl Strategy<Value = String> {
    let quoted = prop::sample::select(LIMITS.iter().chain(&ERRORS).copied().collect::<Vec<_>>());
    (
        quoted,
        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        0..1_000_000_u32,
        any::<bool>(),
    )
        .prop_map(|(words, uuid, number, before)| {
            if before {
                format!("{uuid}: {words} ({number})")
            } else {
                format!("{words}\nexit {number} of {uuid}, 401 429 529")
            }
        })
}
