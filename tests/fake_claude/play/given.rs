//! The arguments of one step, by place and kind. What does not fit is a mistake of the script.

use serde_json::{Value, json};

use crate::script::Arg;
use crate::state::now_ms;

/// The arguments of one step.
pub(super) struct Given<'a> {
    pub(super) args: &'a [Arg],
}

impl Given<'_> {
    pub(super) fn get(&self, at: usize) -> Result<&Arg, String> {
        self.args.get(at).ok_or_else(|| format!("argument {} is missing", at + 1))
    }

    pub(super) fn word(&self, at: usize) -> Result<&str, String> {
        match self.get(at)? {
            Arg::Word(word) => Ok(word),
            other => Err(format!("{other:?} is not a word")),
        }
    }

    pub(super) fn number(&self, at: usize) -> Result<u64, String> {
        let word = self.word(at)?;
        word.parse().map_err(|_| format!("`{word}` is not a number"))
    }

    /// A word or a text.
    pub(super) fn text(&self, at: usize) -> Result<String, String> {
        match self.get(at)? {
            Arg::Word(word) => Ok(word.clone()),
            Arg::Text(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            Arg::Json(_) => Err("JSON is not a text".to_owned()),
        }
    }

    /// The bytes of a text; a missing one is empty.
    pub(super) fn bytes(&self, at: usize) -> &[u8] {
        match self.args.get(at) {
            Some(Arg::Text(bytes)) => bytes,
            _ => &[],
        }
    }

    /// `+20s`, `+20` or `-5`: epoch seconds from now.
    pub(super) fn moment(&self, at: usize) -> Result<u64, String> {
        let word = self.word(at)?;
        let seconds: i64 =
            word.trim_end_matches('s').parse().map_err(|_| format!("`{word}` is not like +20s"))?;
        (now_ms() / 1000).checked_add_signed(seconds).ok_or_else(|| format!("`{word}` is out of range"))
    }

    /// The first JSON argument; an empty object without one.
    pub(super) fn json(&self) -> Value {
        self.args
            .iter()
            .find_map(|a| match a {
                Arg::Json(value) => Some(value.clone()),
                _ => None,
            })
            .unwrap_or_else(|| json!({}))
    }

    /// The last quoted text.
    pub(super) fn last_text(&self) -> Option<String> {
        self.args.iter().rev().find_map(|a| match a {
            Arg::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        })
    }

    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.args.iter().filter_map(|a| match a {
            Arg::Word(word) => Some(word.as_str()),
            _ => None,
        })
    }

    pub(super) fn says(&self, wanted: &str) -> bool {
        self.words().any(|w| w == wanted)
    }
}
