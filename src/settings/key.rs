//! What a setting is: a name, a default, bounds, and how to read it from a raw value.
//!
//! Each kind of setting ([`super::kinds`]) is a type with [`Key::read`], so that a key can only give the type it
//! is declared with. Reading is total: a value is taken, adjusted with a remark, or refused with what was expected.

use std::path::{Path, PathBuf};

use super::value::{Raw, Shown};

/// What all kinds of settings have in common.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Name in files; with `--` in front the option of the command line.
    pub name: &'static str,
    /// Environment variable.
    pub env: &'static str,
    /// Whether the command line has it.
    pub flag: bool,
    /// Under which heading it stands.
    pub group: Group,
    /// What the value is called in help.
    pub metavar: &'static str,
    /// What it is for, in one line, without default and bounds.
    pub about: &'static str,
}

/// Headings of help and tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What a run may use up.
    Budgets,
    /// When a run stops itself for quality.
    StopRules,
    /// How long to wait for what.
    Deadlines,
    /// What is worked on, and how.
    Work,
    /// The driven program.
    Claude,
    /// What keeps a run from doing harm.
    Safety,
    /// Who is told what becomes of a run.
    Notifications,
}

impl Group {
    /// The heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Group::Budgets => "Budgets",
            Group::StopRules => "Stop rules",
            Group::Deadlines => "Deadlines",
            Group::Work => "Work",
            Group::Claude => "Claude",
            Group::Safety => "Safety",
            Group::Notifications => "Notifications",
        }
    }
}

/// A setting of any kind, for the registry.
pub trait Setting: Sync {
    /// Name, variable, heading, help.
    fn spec(&self) -> &Spec;
    /// The default as it is shown; `None` = not set.
    fn default_shown(&self) -> Option<Shown>;
    /// The default in words.
    fn default_words(&self) -> String {
        self.default_shown().map_or_else(|| "not set".to_owned(), |shown| shown.toml())
    }
    /// The values it takes, in words; empty = any.
    fn bounds(&self) -> String {
        String::new()
    }
    /// A value for an example in a file.
    fn example(&self) -> Shown;
    /// Whether a value gives access to something, so that it is not shown as it was given.
    fn is_secret(&self) -> bool {
        false
    }

    /// The line of help: what it is for, default and bounds.
    fn help(&self) -> String {
        let about = self.spec().about;
        let default = self.default_shown().map(|_| format!("default: {}", self.default_words()));
        let bounds = Some(self.bounds()).filter(|bounds| !bounds.is_empty());
        match (default, bounds) {
            (None, None) => about.to_owned(),
            (Some(one), None) | (None, Some(one)) => format!("{about} [{one}]"),
            (Some(default), Some(bounds)) => format!("{about} [{default}; {bounds}]"),
        }
    }
}

/// A setting that gives a value of one type.
pub trait Key: Setting {
    /// What it gives.
    type Out;
    /// Reads a value.
    fn read(&self, raw: &Raw, context: &Context<'_>) -> Result<Reading<Self::Out>, Refusal>;
    /// The value when no source gives one.
    fn default(&self) -> Self::Out;
}

/// What reading a path needs to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// Folder that relative paths count from; `None` = the working directory.
    pub base: Option<&'a Path>,
    /// What `~/` stands for where no shell has expanded it.
    pub home: Option<&'a Path>,
}

impl Context<'_> {
    /// `~/` is the home folder, a relative path counts from the base.
    #[must_use]
    pub fn expand(&self, path: PathBuf) -> PathBuf {
        if let (Some(home), Ok(rest)) = (self.home, path.strip_prefix("~")) {
            return home.join(rest);
        }
        match self.base {
            Some(base) => base.join(path),
            None => path,
        }
    }
}

/// A value that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading<T> {
    /// The value.
    pub value: T,
    /// As it is shown; `None` = not set.
    pub shown: Option<Shown>,
    /// What a person should know about it, to go after the value as it was given.
    pub remark: Option<String>,
}

impl<T> Reading<T> {
    /// A value there is nothing to say about.
    pub(super) fn plain(value: T, shown: Shown) -> Self {
        Reading { value, shown: Some(shown), remark: None }
    }
}

/// Why a value was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What would have been taken.
    pub expected: String,
    /// A value that was probably meant.
    pub suggestion: Option<&'static str>,
}

impl Refusal {
    pub(super) fn expected(what: impl Into<String>) -> Self {
        Refusal { expected: what.into(), suggestion: None }
    }
}

/// Reads a number as the command line and variables have it: decimal, finite, nothing around it.
///
/// Upstream reads `0x10` as 16, an empty text as 0 and `abc` as the default (upstream-formats §4.1); none of
/// that is copied.
///
/// # Errors
///
/// What is wrong with it, as a fragment.
pub fn parse_number(text: &str) -> Result<f64, String> {
    if text.is_empty() {
        return Err("it is empty; give a number, or leave the option out to keep the default".to_owned());
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err("it is not a finite number".to_owned()),
        Err(_) => Err("it is not a number".to_owned()),
    }
}

/// The candidate that was probably meant, if one is near enough.
#[must_use]
pub fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Long garbage is not a misspelling, and the distance costs the product of both lengths.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase().replace('_', "-");
    candidates
        .map(|candidate| (strsim::normalized_damerau_levenshtein(&word, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, number) in
            [("5", Some(5.0)), ("3.7", Some(3.7)), ("1e1", Some(10.0)), ("-5", Some(-5.0)), (".5", Some(0.5))]
        {
            assert_eq!(parse_number(text).ok(), number, "{text}");
        }
        // upstream-formats §4.1: every one of these was something else there.
        for text in ["", "abc", "NaN", "nan", "inf", "Infinity", "-inf", "0x10", " 5", "3=4", "1e999", "5h"] {
            assert!(parse_number(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn misspellings() {
        let words = ["max-sessions", "max-hours", "mode", "model"];
        for (word, meant) in [
            ("max-session", Some("max-sessions")),
            ("max_sessions", Some("max-sessions")),
            ("MAX_HOURS", Some("max-hours")),
            ("modle", Some("model")),
            ("xyzzy", None),
        ] {
            assert_eq!(closest(word, words.into_iter()), meant, "{word}");
        }
        assert_eq!(closest(&"max-sessions".repeat(100), words.into_iter()), None);
    }
}
