//! When two texts are the same task. Pure.
//!
//! Two questions, and two answers:
//!
//! - *Is this item already a task?* ([`same_task`]) A wrong yes takes an item away from a person, so it is
//!   careful. Recovery §10.6 without its substring rule: short titles (fewer than 5 words) must be equal once
//!   normalised; longer ones may differ a little (cosine of their word counts ≥ 0.85), but never in a number
//!   or in a word of one or two letters, which the cosine does not see: "parser 12" is not "parser 13".
//!   Words that every sentence has do not count, since they would make "add … to the …" and "remove … from
//!   the …" alike.
//! - *Is this the line I knew, edited?* ([`likeness`]) A wrong no costs a task its id; everything that is
//!   nearer has been taken already when this is asked.

use std::collections::BTreeMap;

/// From here on two texts may be the same (recovery §10.6).
const COSINE: f64 = 0.85;
/// From here on two lines may be the same, edited.
const DISTANCE: f64 = 0.8;
/// A title with fewer words is short (recovery §10.6).
const SHORT: usize = 5;
/// Most characters that are compared: the distance takes time with the square of it.
const CAP: usize = 200;

/// Words that say nothing about what is to be done.
const FILLERS: [&str; 24] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "into", "is", "it", "its", "of",
    "on", "or", "that", "the", "this", "to", "we", "with",
];

/// Lower case, without markup, with single spaces and without a full stop.
pub(super) fn normalise(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !matches!(c, '*' | '_' | '`' | '~')).collect();
    let words: Vec<String> = plain.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ").trim_end_matches(['.', '!', ',', ';', ':', ' ']).to_owned()
}

/// Whether `a` and `b` name the same task.
pub(super) fn same_task(a: &str, b: &str) -> bool {
    let (a, b) = (normalise(a), normalise(b));
    if a == b {
        return !a.is_empty();
    }
    let (a, b) = (Words::of(&a), Words::of(&b));
    a.total >= SHORT && b.total >= SHORT && a.exact == b.exact && cosine(&a.counts, &b.counts) >= COSINE
}

/// A line as it is compared by [`likeness`]; made once, compared often.
#[derive(Debug, Default)]
pub(super) struct Shape {
    text: String,
    characters: usize,
    words: BTreeMap<String, u32>,
}

impl Shape {
    pub(super) fn of(title: &str) -> Shape {
        let text: String = normalise(title).chars().take(CAP).collect();
        Shape { characters: text.chars().count(), words: Words::of(&text).counts, text }
    }
}

/// How alike two lines are, if they may be one line before and after an edit.
pub(super) fn likeness(a: &Shape, b: &Shape) -> Option<f64> {
    let words = cosine(&a.words, &b.words);
    let words = if words >= COSINE { words } else { 0.0 };
    let (shorter, longer) = (a.characters.min(b.characters), a.characters.max(b.characters));
    // Each character that one has more than the other costs an edit; the distance is what takes the time.
    let possible = longer > 0 && (longer - shorter) * 5 <= longer;
    let letters = if possible { strsim::normalized_levenshtein(&a.text, &b.text) } else { 0.0 };
    let letters = if letters >= DISTANCE { letters } else { 0.0 };
    let best = words.max(letters);
    (best > 0.0).then_some(best)
}

#[derive(Default)]
struct Words {
    /// Longer words without fillers, and how often.
    counts: BTreeMap<String, u32>,
    /// Words that must be the same: with a digit, or too short to be counted.
    exact: Vec<String>,
    /// Words that count.
    total: usize,
}

impl Words {
    fn of(normalised: &str) -> Words {
        let mut words = Words::default();
        for word in normalised.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            if FILLERS.contains(&word) {
                continue;
            }
            if word.chars().count() <= 2 || word.contains(|c: char| c.is_numeric()) {
                words.exact.push(word.to_owned());
            }
            if word.chars().count() > 2 {
                *words.counts.entry(word.to_owned()).or_default() += 1;
                words.total += 1;
            }
        }
        words.exact.sort();
        words
    }
}

fn cosine(a: &BTreeMap<String, u32>, b: &BTreeMap<String, u32>) -> f64 {
    let dot: f64 = a.iter().filter_map(|(word, n)| b.get(word).map(|m| f64::from(*n) * f64::from(*m))).sum();
    let norm =
        |counts: &BTreeMap<String, u32>| counts.values().map(|n| f64::from(*n).powi(2)).sum::<f64>().sqrt();
    let norms = norm(a) * norm(b);
    if norms > 0.0 { dot / norms } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_task() {
        for (a, b, expected) in [
            ("Fix", "fix.", true),
            ("fix", "fix the parser", false),
            ("Fix **login**", "fix `login`", true),
            ("fix login", "fix logout", false),
            ("", "", false),
            ("...", "", false),
            ("Add retry logic to the network client layer", "add retry logic to network client layer", true),
            (
                "Add retry logic to the network client layer",
                "Add some retry logic for the network client layer",
                true,
            ),
            ("Add retry logic to the network client layer", "Write documentation of the parser", false),
            (
                "Add dark mode to the settings page of the app",
                "Remove dark mode from the settings page of the app",
                false,
            ),
            (
                "Fix issue 12 in the parser module code today",
                "Fix issue 13 in the parser module code today",
                false,
            ),
            (
                "Review security findings of phase b before shipping",
                "Review security findings of phase c before shipping",
                false,
            ),
            ("Ünïcode größe prüfen beim lesen der datei", "ünïcode größe prüfen beim lesen der datei!", true),
        ] {
            assert_eq!(same_task(a, b), expected, "{a} / {b}");
            assert_eq!(same_task(b, a), expected, "{b} / {a}");
        }
    }

    #[test]
    fn what_may_be_an_edit() {
        for (a, b, expected) in [
            ("Write the parser", "Write the  Parser!", true),
            ("Write the parser", "Write the parsers", true),
            ("Write the parser", "Ship it", false),
            ("", "Write the parser", false),
            ("", "", false),
            ("Measure load of large plans", "Measure load of very large plans", true),
        ] {
            let (a, b) = (Shape::of(a), Shape::of(b));
            assert_eq!(likeness(&a, &b).is_some(), expected, "{a:?} / {b:?}");
        }
        let long = Shape::of(&"word ".repeat(100_000));
        assert!(likeness(&long, &long).is_some());
    }
}
