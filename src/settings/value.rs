//! A value as a source gave it, before anybody knows what it should be.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A value as given. The command line and TOML have types, variables have only text.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// Text.
    Text(String),
    /// A path from the command line.
    Path(PathBuf),
    /// Texts.
    List(Vec<String>),
    /// Text of an environment variable, to be read as whatever is wanted.
    Variable(OsString),
    /// Something of TOML that no setting takes: its type in words.
    Other(&'static str),
}

impl Raw {
    /// The value for an error message: the type of a typed value, the text of a variable.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Raw::Number(number) => format!("the number {}", number_text(*number)),
            Raw::Flag(flag) => flag.to_string(),
            Raw::Text(text) => format!("the string {:?}", shortened(text)),
            Raw::Path(path) => format!("the path {}", path.display()),
            Raw::List(_) => "an array".to_owned(),
            Raw::Variable(text) => format!("`{}`", shortened(&text.to_string_lossy())),
            Raw::Other(kind) => (*kind).to_owned(),
        }
    }

    /// The value as it was typed, for a notice.
    #[must_use]
    pub fn as_typed(&self) -> String {
        match self {
            Raw::Number(number) => number_text(*number),
            Raw::Flag(flag) => flag.to_string(),
            Raw::Text(text) => text.clone(),
            Raw::Path(path) => path.display().to_string(),
            Raw::List(items) => items.join(" "),
            Raw::Variable(text) => text.display().to_string(),
            Raw::Other(kind) => (*kind).to_owned(),
        }
    }
}

/// A value as it is shown: on one line of TOML or as JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// Text.
    Text(String),
    /// Texts.
    List(Vec<String>),
}

impl Shown {
    /// A path as text; what is not UTF-8 is replaced.
    #[must_use]
    pub fn path(path: &Path) -> Shown {
        Shown::Text(path.to_string_lossy().into_owned())
    }

    /// The value as TOML, on one line.
    #[must_use]
    pub fn toml(&self) -> String {
        match self {
            Shown::Number(number) => number_text(*number),
            Shown::Flag(flag) => flag.to_string(),
            Shown::Text(text) => toml_string(text),
            Shown::List(items) => {
                format!("[{}]", items.iter().map(|item| toml_string(item)).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The value as it is typed in a shell or a variable, without quotes.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Shown::Number(number) => number_text(*number),
            Shown::Flag(flag) => flag.to_string(),
            Shown::Text(text) => text.clone(),
            Shown::List(items) => items.join("\n"),
        }
    }

    /// The value as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        match self {
            Shown::Number(number) => number_json(*number),
            Shown::Flag(flag) => (*flag).into(),
            Shown::Text(text) => text.as_str().into(),
            Shown::List(items) => items.clone().into(),
        }
    }
}

/// The beginning of a long text.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(60) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// A number without trailing zeros, and short however large it is.
#[must_use]
pub fn number_text(number: f64) -> String {
    if number.abs() < 1e15 { number.to_string() } else { format!("{number:e}") }
}

/// A whole number as a JSON integer, anything else as a float.
fn number_json(number: f64) -> serde_json::Value {
    number_text(number)
        .parse::<i64>()
        .map_or_else(|_| serde_json::Number::from_f64(number).into(), serde_json::Value::from)
}

/// A basic TOML string on one line.
fn toml_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in
            [(4.0, "4"), (0.5, "0.5"), (-5.0, "-5"), (10_000_000.0, "10000000"), (1e300, "1e300")]
        {
            assert_eq!(number_text(number), text);
        }
        assert_eq!(Shown::Number(4.0).json().to_string(), "4");
        assert_eq!(Shown::Number(0.85).json().to_string(), "0.85");
    }

    #[test]
    fn long_values_are_cut_in_messages() {
        assert_eq!(Raw::Text("ö".repeat(100)).describe(), format!("the string \"{}…\"", "ö".repeat(60)));
        assert_eq!(Raw::Variable("abc".into()).describe(), "`abc`");
    }

    proptest! {
        #[test]
        fn any_text_survives_as_toml(text in any::<String>()) {
            let document = format!("key = {}", Shown::Text(text.clone()).toml());
            prop_assert!(!document.contains('\n'));
            let table: toml::Table = document.parse().unwrap();
            prop_assert_eq!(table["key"].as_str(), Some(text.as_str()));
        }
    }
}
