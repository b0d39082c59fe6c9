//! Substitutions in text that the parser left alone: defaults of variables, arithmetic, here-documents, conditions.

use super::state::State;
use super::walk::{MAX_SCRIPTS, Walk, excerpt, too_much};
use crate::core::gate::finding::Weight;

impl Walk<'_> {
    /// Judges the substitutions in text that the parser left alone, wherever they stand: what is quoted counts too.
    pub(in crate::core::gate) fn raw(&mut self, text: &str, state: &State) {
        let mut rest = text;
        while let Some((at, opening)) = next_substitution(rest) {
            let from = &rest[at..];
            let end = if opening == '`' {
                backquoted(from)
                    .inspect(|(inner, _)| {
                        self.script(inner, state.clone());
                    })
                    .map(|(_, end)| end)
            } else {
                self.parenthesised(from, state)
            };
            let Some(end) = end else {
                self.find(&excerpt(from), Weight::Never, "a substitution in it is not understood");
                return;
            };
            rest = &from[end..];
        }
    }

    /// Finds the end of a `$(…)` by parsing up to each parenthesis, and judges it.
    fn parenthesised(&mut self, from: &str, state: &State) -> Option<usize> {
        if too_much(from.get(..from.len().min(4096)).unwrap_or(from)).is_some() {
            return None;
        }
        for (tried, (close, _)) in from.match_indices(')').enumerate() {
            if tried >= 40 {
                return None;
            }
            let candidate = format!(": {}", &from[..=close]);
            if let Ok(nodes) = rable::parse(&candidate, false) {
                if self.scripts >= MAX_SCRIPTS {
                    return None;
                }
                self.scripts += 1;
                for node in &nodes {
                    self.node(node, state.clone());
                }
                self.scripts -= 1;
                return Some(close + 1);
            }
        }
        None
    }
}

/// Where the next substitution begins that is not escaped.
fn next_substitution(text: &str) -> Option<(usize, char)> {
    let mut escaped = false;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        if escaped {
            escaped = false;
            continue;
        }
        match byte {
            b'\\' => escaped = true,
            b'`' => return Some((at, '`')),
            b'$' | b'<' | b'>' if bytes.get(at + 1) == Some(&b'(') => return Some((at, '(')),
            _ => {}
        }
    }
    None
}

/// The inside of a backquoted command and where it ends.
fn backquoted(text: &str) -> Option<(String, usize)> {
    let mut inner = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '`' => return Some((inner, at + 1)),
            '\\' => match chars.next() {
                Some((_, next)) if "`$\\".contains(next) => inner.push(next),
                Some((_, next)) => inner.extend(['\\', next]),
                None => return None,
            },
            _ => inner.push(c),
        }
    }
    None
}
