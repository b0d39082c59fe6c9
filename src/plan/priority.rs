//! How much a task presses, from its words (recovery §10.6). Pure; the words stay where they are.
//!
//! In this order, the first that says something decides:
//!
//! 1. A *mark*: words in brackets (`(high)`, `[critical]`), a tag (`#asap`), `priority: high`, or a word that
//!    the line begins with, followed by a colon, a dash or an exclamation mark (`urgent: …`, `Low - …`). The
//!    most pressing mark counts.
//! 2. A line that begins with `someday` or `nice to have`: "someday maybe fix the urgent one" is for someday.
//! 3. A whole word anywhere; the most pressing counts. `high` and `low` need a "priority" or "prio" behind
//!    them, because in a sentence they speak of something else ("high memory use", "low disk space"), and a
//!    word after `not` or `non` says nothing.
//!
//! What is in code (`` `critical()` ``) or part of another word ("highlight", "low-level") never counts.

use crate::core::task::Priority;

const WORDS: [(&str, Priority); 9] = [
    ("critical", Priority::Critical),
    ("urgent", Priority::Critical),
    ("blocker", Priority::Critical),
    ("high", Priority::High),
    ("important", Priority::High),
    ("asap", Priority::High),
    ("low", Priority::Low),
    ("nice to have", Priority::Low),
    ("someday", Priority::Low),
];

/// The priority that a title speaks of.
pub(super) fn priority(title: &str) -> Priority {
    let text = without_code(title);
    let words = words(&text);
    marks(&text, &words)
        .or_else(|| {
            let first = at_start(&words)?;
            (first == Priority::Low && words.first().is_some_and(|word| word.text != "low")).then_some(first)
        })
        .or_else(|| anywhere(&words))
        .unwrap_or_default()
}

/// A word with what stands around it.
struct Word<'a> {
    text: &'a str,
    before: char,
    after: &'a str,
}

/// Lower case, `nice-to-have` as one reads it, without code.
fn without_code(title: &str) -> String {
    let mut text = String::with_capacity(title.len());
    for (index, part) in title.split('`').enumerate() {
        text.push_str(if index % 2 == 0 { part } else { "\u{1}" });
    }
    text.to_lowercase().replace("nice-to-have", "nice to have")
}

/// Words; a hyphen or an underscore joins.
fn words(text: &str) -> Vec<Word<'_>> {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '\'' | '\u{1}');
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(part).map(|start| at + start) {
        let end = text[start..].find(|c| !part(c)).map_or(text.len(), |end| start + end);
        let before = text[..start].chars().next_back().unwrap_or(' ');
        found.push(Word { text: &text[start..end], before, after: &text[end..] });
        at = end;
    }
    // A dash that stands alone is none.
    found.retain(|word| word.text.contains(|c: char| c.is_alphanumeric() || c == '\u{1}'));
    found
}

fn level(text: &str) -> Option<Priority> {
    WORDS.iter().find(|(word, _)| *word == text).map(|(_, priority)| *priority)
}

fn marks(text: &str, words: &[Word<'_>]) -> Option<Priority> {
    let bracketed = |open: char, close: char| {
        text.split(open).skip(1).filter_map(move |rest| rest.split_once(close)).filter_map(|(inner, _)| {
            let inner = inner.trim().trim_end_matches('!');
            let inner = inner.strip_prefix("priority:").or(inner.strip_prefix("prio:")).unwrap_or(inner);
            let inner = inner.strip_suffix("priority").or(inner.strip_suffix("prio")).unwrap_or(inner);
            level(inner.trim())
        })
    };
    let tags = words.iter().filter(|word| word.before == '#').filter_map(|word| level(word.text));
    let said = words.windows(2).filter_map(|pair| {
        let named = matches!(pair[0].text, "priority" | "prio") && pair[0].after.starts_with(':');
        named.then(|| level(pair[1].text)).flatten()
    });
    let leading = at_start(words).filter(|_| {
        let count = if words[0].text == "nice" { 3 } else { 1 };
        let after = words[count - 1].after.trim_start_matches(['*', '_', ' ', ')', ']']);
        let after_word = words[count - 1].after;
        after.starts_with([':', '!']) || (after_word.starts_with(' ') && after.starts_with(['-', '–', '—']))
    });
    bracketed('(', ')').chain(bracketed('[', ']')).chain(tags).chain(said).chain(leading).min()
}

/// The level of the word, or of "nice to have", that the text begins with.
fn at_start(words: &[Word<'_>]) -> Option<Priority> {
    phrase(words).or_else(|| level(words.first()?.text))
}

fn phrase(words: &[Word<'_>]) -> Option<Priority> {
    let [nice, to, have, ..] = words else { return None };
    ([nice.text, to.text, have.text] == ["nice", "to", "have"]).then_some(Priority::Low)
}

fn anywhere(words: &[Word<'_>]) -> Option<Priority> {
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let denied = index > 0 && matches!(words[index - 1].text, "not" | "non");
        let named = words.get(index + 1).is_some_and(|next| matches!(next.text, "priority" | "prio"));
        let plain = !matches!(word.text, "high" | "low");
        let level = phrase(&words[index..]).or_else(|| level(word.text).filter(|_| plain || named));
        if !denied {
            found.extend(level);
        }
    }
    found.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_count() {
        use Priority::{Critical, High, Low, Normal};
        for (title, expected) in [
            ("Fix the parser", Normal),
            ("", Normal),
            ("someday maybe fix the highlight colour", Low),
            ("Fix the parser (high)", High),
            ("(HIGH) Fix the parser", High),
            ("[critical] Fix the parser", Critical),
            ("Fix the parser [critical]", Critical),
            ("Fix the parser #asap", High),
            ("Fix the parser #asapxyz", Normal),
            ("urgent: fix the parser", Critical),
            ("Urgent - fix the parser", Critical),
            ("**Urgent:** fix the parser", Critical),
            ("BLOCKER! fix the parser", Critical),
            ("low: fix the parser", Low),
            ("Low — fix the parser", Low),
            ("nice to have: dark mode", Low),
            ("nice-to-have: dark mode", Low),
            ("dark mode would be nice to have", Low),
            ("priority: high, fix it", High),
            ("Fix it (priority: low)", Low),
            ("Fix it (low priority)", Low),
            ("low-level driver for the disk", Normal),
            ("low disk space is not noticed", Normal),
            ("high memory use of the parser", Normal),
            ("High memory use of the parser", Normal),
            ("high priority fix of the parser", High),
            ("highlight the current line", Normal),
            ("below the fold, slow, follow", Normal),
            ("this is important for everybody", High),
            ("an urgent and important fix", Critical),
            ("not urgent, fix the parser", Normal),
            ("non critical warnings", Normal),
            ("non-critical warnings", Normal),
            ("call `critical()` only once", Normal),
            ("unbalanced ` critical", Normal),
            ("someday: the critical path view", Low),
            ("Someday fix the urgent one", Low),
            ("nice to have: all critical errors at once", Low),
            ("fix the parser (see above) (low)", Low),
            ("fix the importantly named file", Normal),
            ("(low) and (high)", High),
            ("ünïcode – dringend [URGENT]", Critical),
            ("- - -", Normal),
            (":", Normal),
            ("nice to", Normal),
        ] {
            assert_eq!(priority(title), expected, "{title}");
        }
    }
}
