//! Wordings that the lines of a run and its report share.

use std::fmt::Write as _;
use std::time::Duration;

use super::text::{count, known_cost, plural, span};
use crate::core::outcome::Class;
use crate::core::published::{Tokens, Work};
use crate::core::signals::SourceReading;
use crate::core::wave::WaveTotals;

/// How a session came out, in a word or two: what it reported, or what ground truth says of it.
#[must_use]
pub fn result_words(completed: bool, class: Class, status: Option<&str>) -> String {
    match (completed, status) {
        (true, Some(status)) if matches!(class, Class::Ok | Class::OkExitAnomaly | Class::Blocked) => {
            status.to_owned()
        }
        (true, Some(status)) => format!("{status} ({class})"),
        (true, None) => format!("no report ({class})"),
        (false, _) if class == Class::KilledByDriver => "stopped on request".to_owned(),
        (false, _) => format!("failed ({class})"),
    }
}

/// What git says, in words.
#[must_use]
pub fn work_words(work: &Work) -> String {
    let mut words = plural(work.commits_total, "commit");
    if work.commits_total > 0 {
        _ = write!(
            words,
            " ({}, +{} -{})",
            plural(work.files_changed, "file"),
            count(work.insertions),
            count(work.deletions)
        );
    }
    if work.dirty > 0 {
        _ = write!(words, ", {} not committed", plural(work.dirty, "file"));
    }
    words
}

/// What became of the sub-agents a session wanted; `None` = it wanted none.
#[must_use]
pub fn wave_words(wave: &WaveTotals) -> Option<String> {
    wave.any().then(|| {
        let WaveTotals { asked, started, denied, peak } = wave;
        format!("sub-agents: {asked} asked for, {started} started, {denied} refused, at most {peak} at once")
    })
}

/// A source of signals: what it says, where from, how old; a line more for each problem.
#[must_use]
pub fn source_lines(reading: &SourceReading) -> Vec<String> {
    let origin = reading.origin.as_deref().filter(|origin| *origin != reading.source);
    let age = reading.age_seconds.map(|age| format!("{} old", span(Duration::from_secs(age))));
    let place: Vec<String> = [origin.map(str::to_owned), age].into_iter().flatten().collect();
    let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
    let first = format!("{}: {}{place}", reading.source, reading.says);
    let problems = reading.problems.iter().map(|problem| format!("{}: {problem}", reading.source));
    std::iter::once(first).chain(problems).collect()
}

/// The tokens, if they were measured. All zero, no cost and yet something ran: nothing was reported
/// (field-reports M03).
#[must_use]
pub fn measured_tokens(tokens: Tokens, cost_usd: Option<f64>, ran: u32) -> Option<Tokens> {
    let silent = tokens == Tokens::default() && known_cost(cost_usd).is_none() && ran > 0;
    (!silent).then_some(tokens)
}
