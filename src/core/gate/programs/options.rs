//! Options of a program, read tolerantly: bundled, abbreviated, with or without `=`.

use super::super::shell::Value;

/// The arguments of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a>(pub(super) &'a [Value]);

impl<'a> Options<'a> {
    /// Texts of the options; an argument that is not known is none of them.
    fn given(self) -> impl Iterator<Item = String> + 'a {
        self.0
            .iter()
            .filter_map(Value::text)
            .take_while(|text| text != "--")
            .filter(|text| text.starts_with('-'))
    }

    /// Those before the first operand: what follows is for another program.
    pub(super) fn leading(self) -> Options<'a> {
        let end = self.0.iter().position(|value| !value.may_be_option()).unwrap_or(self.0.len());
        Options(&self.0[..end])
    }

    /// A short option, alone or in a bundle.
    pub(super) fn short(self, letter: char) -> bool {
        self.given().any(|text| !text.starts_with("--") && text.chars().skip(1).any(|c| c == letter))
    }

    /// A long option; abbreviations of at least `least` letters count, as GNU's and git's parsers take them.
    pub(super) fn long(self, name: &str, least: usize) -> bool {
        self.given().any(|text| {
            let Some(given) = text.strip_prefix("--") else { return false };
            let given = given.split('=').next().unwrap_or(given);
            given == name || (given.len() >= least && name.starts_with(given))
        })
    }

    /// An option with exactly this text, or this text and `=`.
    pub(super) fn exactly(self, option: &str) -> bool {
        self.0
            .iter()
            .filter_map(Value::text)
            .any(|text| text == option || text.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
    }

    /// Whether an argument that is not known may be an option.
    pub(super) fn may_be_more(self) -> bool {
        self.0.iter().any(|value| value.is_uncertain() && value.may_be_option())
    }

    /// What is not an option; after `--` everything.
    pub(super) fn operands(self) -> Vec<&'a Value> {
        let mut only_operands = false;
        let mut operands = Vec::new();
        for value in self.0 {
            let text = value.beginning();
            if only_operands || !text.starts_with('-') || text == "-" {
                operands.push(value);
            } else if text == "--" {
                only_operands = true;
            }
        }
        operands
    }

    /// The value of an option: the rest of its argument, or the next one.
    pub(super) fn value_of(self, names: &[&str]) -> Option<Value> {
        for (at, value) in self.0.iter().enumerate() {
            let text = value.beginning();
            for name in names {
                if text == *name && value.text().is_some() {
                    return self.0.get(at + 1).cloned();
                }
                let joined = if name.starts_with("--") { format!("{name}=") } else { (*name).to_owned() };
                if text.starts_with(&joined) && text.len() >= joined.len() && text != **name {
                    return Some(without(value, joined.len()));
                }
            }
        }
        None
    }
}

/// A word without its first bytes, which are known.
pub(super) fn without(value: &Value, bytes: usize) -> Value {
    let mut value = value.clone();
    if let Some(super::super::shell::Piece::Text(text)) = value.pieces.first_mut() {
        *text = text.get(bytes..).unwrap_or_default().to_owned();
    }
    value
}
