//! How long to wait for a usage limit.
//!
//! The event says when it resets, else the words do ([`reset_time`]), else nobody does and the limit is asked
//! again after growing pauses; so it is, too, when a limit still holds although its time has come
//! (field-reports E06). All waits for one limit together are bounded by `--max-wait`, and none uses an attempt
//! up. A limit is a window: what was waited for one says nothing of another.
//!
//! What is done after a wait is the resumed attempt itself, not a question before it: when the limit still holds it is
//! refused in under a second and costs nothing (field-reports E02, E09), and when it does not, nothing was spent on
//! asking (recovery §4.5 asks for no more).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{Action, Policy};
use crate::core::evidence::Evidence;
use crate::core::judge::limit_words;
use crate::core::outcome::Class;
use crate::core::published::ResetSource;
use crate::core::reset_time::reset_time;
use crate::core::run::OpenLimit;
use crate::core::time::Now;

/// Pause before asking again when a limit does not say when it resets (recovery §4.5).
const UNKNOWN_RESET: Duration = Duration::from_mins(5);
/// Longest of the growing pauses.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
/// Shortest pause.
const SHORTEST_PAUSE: Duration = Duration::from_secs(5);
/// A clock time is said by the minute, and the reset lies anywhere in it.
const MINUTE: Duration = Duration::from_mins(1);
/// So far apart an event and the words about it may be: a minute for the precision, one for rounding.
const SAME_RESET: Duration = Duration::from_mins(2);
/// So long the same words mean the same instant: "resets 3pm", said again at four, is not tomorrow.
const SAME_WORDS: Duration = Duration::from_hours(12);
/// An attempt that worked for so long shows that the limit before it was over.
const LET_THROUGH: Duration = Duration::from_mins(5);

/// The waits of a turn for usage limits, by window.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    of: BTreeMap<String, WaitsForOne>,
    /// The last words that said a time, and which.
    words: Option<(String, Timestamp)>,
}

/// The waits for one window.
#[derive(Debug, Clone, Default)]
struct WaitsForOne {
    /// In a row.
    waits: u32,
    /// Of them those that had no reset to aim at.
    probes: u32,
    /// The reset that was aimed at last.
    last_reset: Option<Timestamp>,
    /// What they add up to.
    total: Duration,
}

impl Waits {
    /// Takes over a wait that was decided on elsewhere.
    pub fn waited(&mut self, window: Option<&str>, wait: Duration) {
        let one = self.of.entry(window.unwrap_or_default().to_owned()).or_default();
        one.waits += 1;
        one.total = one.total.saturating_add(wait);
    }

    /// The limit that was waited for is over. What its words meant is kept: said again a little later, they do not
    /// mean tomorrow.
    fn over(&mut self) {
        self.of.clear();
    }

    /// The time that `words` say. The same words again say the same time again.
    fn time_of(&mut self, words: &str, now: Now, policy: &Policy) -> Option<Timestamp> {
        if let Some((before, at)) = &self.words
            && before == words
            && now.wall.duration_since(*at).unsigned_abs() < SAME_WORDS
        {
            return Some(*at);
        }
        let at = reset_time(words, now.wall, &policy.time_zone)?;
        let slack = if at.as_second() % 60 == 0 { MINUTE } else { Duration::ZERO };
        let at = at.saturating_add(slack).unwrap_or(at);
        self.words = Some((words.to_owned(), at));
        Some(at)
    }
}

/// Decides on a wait, and notes it.
pub(super) fn wait(
    now: Now,
    evidence: &Evidence,
    waits: &mut Waits,
    policy: &Policy,
    jitter: Duration,
    why: String,
) -> Action {
    let worked = evidence.tool_calls > 0 || !evidence.text.is_empty();
    if worked && evidence.started.is_some_and(|started| now.since(started) >= LET_THROUGH) {
        waits.over();
    }
    let words = limit_words(evidence);
    let said = words.as_deref().and_then(|words| waits.time_of(words, now, policy));
    let (reset, source) = reset(now, evidence, said);
    let window = match evidence.rejected_window() {
        Some(limit) => limit.window.clone(),
        None => words.as_deref().and_then(window_of).map(ToOwned::to_owned),
    };
    let one = waits.of.entry(window.clone().unwrap_or_default()).or_default();
    one.waits += 1;
    let waited_for = std::mem::replace(&mut one.last_reset, reset);
    let (pause, source) = match reset {
        Some(reset) if reset > now.wall => (now.until_wall(reset).saturating_add(jitter), source),
        // Just passed, and not the one that was waited for already: ask again soon.
        Some(reset) if waited_for != Some(reset) => (jitter.max(SHORTEST_PAUSE), source),
        // Not said, or passed and still limited: ask less and less often.
        Some(_) | None => {
            let pause = UNKNOWN_RESET.saturating_mul(1 << one.probes.min(8));
            one.probes += 1;
            (pause.min(LONGEST_PAUSE), ResetSource::Unknown)
        }
    };
    one.total = one.total.saturating_add(pause);
    let until = now.wall.checked_add(pause).unwrap_or(Timestamp::MAX);
    if one.total <= policy.max_wait {
        return Action::WaitForLimit(OpenLimit { window, until, source, why });
    }
    let minutes = pause.as_secs() / 60;
    Action::NeedsPerson {
        class: Class::UsageLimit,
        why: match source {
            ResetSource::Unknown if one.waits == 1 => {
                format!("{why}; it does not say when it resets, and to ask again later is beyond --max-wait")
            }
            ResetSource::Event | ResetSource::Text if one.waits == 1 => {
                format!("{why}; it resets at {until:.0}, in {minutes} min, beyond --max-wait")
            }
            ResetSource::Unknown | ResetSource::Event | ResetSource::Text => {
                format!("{why}; it still holds, and {minutes} min more would be beyond --max-wait")
            }
        },
    }
}

/// When the limit resets: as the event says, unless that cannot be the limit that holds now, then as the words
/// say.
fn reset(now: Now, evidence: &Evidence, said: Option<Timestamp>) -> (Option<Timestamp>, ResetSource) {
    let stated = evidence.rejected_windows().filter_map(|limit| limit.resets_at).max();
    // The same reset, said by the minute: nothing new, and up to a minute late.
    let is_stated = |said: &Timestamp| {
        stated.is_some_and(|stated| said.duration_since(stated).unsigned_abs() <= SAME_RESET)
    };
    let said = said.filter(|said| !is_stated(said));
    // Another window is rejected as well, and nobody says until when; or the stated one is over.
    let not_all = evidence.rejected_windows().any(|limit| limit.resets_at.is_none());
    match (stated, said) {
        (Some(stated), Some(said)) if (not_all || stated <= now.wall) && said > stated => {
            (Some(said), ResetSource::Text)
        }
        (Some(stated), _) => (Some(stated), ResetSource::Event),
        (None, Some(said)) => (Some(said), ResetSource::Text),
        (None, None) => (None, ResetSource::Unknown),
    }
}

/// The window that the words name, by the name an event would use where there is one.
fn window_of(words: &str) -> Option<&'static str> {
    let words = words.to_lowercase();
    [
        ("session limit", "five_hour"),
        ("5-hour limit", "five_hour"),
        ("weekly limit", "seven_day"),
        ("opus limit", "opus"),
        ("sonnet limit", "sonnet"),
        ("extra usage", "overage"),
        ("spend limit", "spend"),
    ]
    .into_iter()
    .find_map(|(name, window)| words.contains(name).then_some(window))
}
