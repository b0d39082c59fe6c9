//! The kinds of settings: numbers with bounds, words, texts, paths, switches.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::key::{Context, Key, Reading, Refusal, Setting, Spec, closest, parse_number};
use super::value::{Raw, Shown, number_text};

/// A number with bounds.
pub struct Number<T: 'static> {
    spec: Spec,
    default: f64,
    min: f64,
    /// Infinite = no bound.
    max: f64,
    whole: bool,
    zero_is_off: bool,
    unwise: fn(f64) -> Option<&'static str>,
    convert: fn(f64) -> T,
}

impl<T> Number<T> {
    /// A number between `min` and `max`; `convert` gets one in bounds.
    #[must_use]
    pub const fn new(spec: Spec, default: f64, min: f64, max: f64, convert: fn(f64) -> T) -> Self {
        Number { spec, default, min, max, whole: false, zero_is_off: false, unwise: |_| None, convert }
    }

    /// A fraction is cut off, after the bounds.
    #[must_use]
    pub const fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// 0 means off.
    #[must_use]
    pub const fn zero_is_off(mut self) -> Self {
        self.zero_is_off = true;
        self
    }

    /// A remark on a value that is in bounds but unwise.
    #[must_use]
    pub const fn remarks(mut self, unwise: fn(f64) -> Option<&'static str>) -> Self {
        self.unwise = unwise;
        self
    }
}

impl<T> Setting for Number<T> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        Some(Shown::Number(self.default))
    }

    fn default_words(&self) -> String {
        if self.zero_is_off && self.default == 0.0 { "off".to_owned() } else { number_text(self.default) }
    }

    fn bounds(&self) -> String {
        let min = number_text(self.min);
        let range = if self.max.is_finite() {
            format!("{min} to {}", number_text(self.max))
        } else {
            format!("{min} or more")
        };
        if self.zero_is_off { format!("{range}, 0 = off") } else { range }
    }

    fn example(&self) -> Shown {
        Shown::Number(if self.default == 0.0 { self.max.min(25.0) } else { self.default })
    }
}

impl<T> Key for Number<T> {
    type Out = T;

    fn read(&self, raw: &Raw, _: &Context<'_>) -> Result<Reading<T>, Refusal> {
        let given = match raw {
            Raw::Number(number) => Some(*number),
            Raw::Variable(text) => text.to_str().and_then(|text| parse_number(text).ok()),
            _ => None,
        };
        let given = given.filter(|number| number.is_finite()).ok_or_else(|| Refusal::expected("a number"))?;
        // Bounds first, then the floor: 0.5 sessions are 1, not 0 (upstream-formats §4.1).
        let bounded = given.clamp(self.min, self.max);
        let used = if self.whole { bounded.floor() } else { bounded };
        let remark = if given > self.max {
            Some(format!("is above the bound: using {}", number_text(used)))
        } else if given < self.min {
            Some(format!("is below the bound: using {}", number_text(used)))
        } else if used < given {
            Some(format!("is not a whole number: using {}", number_text(used)))
        } else {
            (self.unwise)(used).map(str::to_owned)
        };
        Ok(Reading { value: (self.convert)(used), shown: Some(Shown::Number(used)), remark })
    }

    fn default(&self) -> T {
        (self.convert)(self.default)
    }
}

/// True or false.
pub struct Flag {
    /// Name, variable, heading, help.
    pub spec: Spec,
}

impl Setting for Flag {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        Some(Shown::Flag(false))
    }

    fn example(&self) -> Shown {
        Shown::Flag(true)
    }

    fn help(&self) -> String {
        self.spec.about.to_owned()
    }
}

impl Key for Flag {
    type Out = bool;

    fn read(&self, raw: &Raw, _: &Context<'_>) -> Result<Reading<bool>, Refusal> {
        let value = match raw {
            Raw::Flag(flag) => Some(*flag),
            Raw::Variable(text) => match text.to_str().map(str::to_ascii_lowercase).as_deref() {
                Some("1" | "true" | "yes" | "on") => Some(true),
                Some("0" | "false" | "no" | "off") => Some(false),
                _ => None,
            },
            _ => None,
        };
        let value = value.ok_or_else(|| Refusal::expected("true or false"))?;
        Ok(Reading::plain(value, Shown::Flag(value)))
    }

    fn default(&self) -> bool {
        false
    }
}

/// One of a few words.
pub struct Choice<T: 'static> {
    /// Name, variable, heading, help.
    pub spec: Spec,
    /// The words and what they mean; the first is the default.
    pub options: &'static [(&'static str, T)],
}

impl<T> Choice<T> {
    /// The words.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.options.iter().map(|(word, _)| *word)
    }

    fn default_word(&self) -> &'static str {
        self.options[0].0
    }
}

impl<T: Sync> Setting for Choice<T> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        Some(Shown::Text(self.default_word().to_owned()))
    }

    fn default_words(&self) -> String {
        self.default_word().to_owned()
    }

    fn bounds(&self) -> String {
        self.words().collect::<Vec<_>>().join(", ")
    }

    fn example(&self) -> Shown {
        Shown::Text(self.words().last().unwrap_or_default().to_owned())
    }

    fn help(&self) -> String {
        // clap lists the words itself.
        format!("{} [default: {}]", self.spec.about, self.default_word())
    }
}

impl<T: Copy + Sync> Key for Choice<T> {
    type Out = T;

    fn read(&self, raw: &Raw, _: &Context<'_>) -> Result<Reading<T>, Refusal> {
        let text = text_of(raw);
        let chosen = text.and_then(|text| self.options.iter().find(|(word, _)| *word == text));
        match chosen {
            Some((word, value)) => Ok(Reading::plain(*value, Shown::Text((*word).to_owned()))),
            None => Err(Refusal {
                expected: format!("one of {}", self.bounds()),
                suggestion: text.and_then(|text| closest(text, self.words())),
            }),
        }
    }

    fn default(&self) -> T {
        self.options[0].1
    }
}

/// Text that is always there.
pub struct Text {
    /// Name, variable, heading, help.
    pub spec: Spec,
    /// Default.
    pub default: &'static str,
}

impl Setting for Text {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        Some(Shown::Text(self.default.to_owned()))
    }

    fn default_words(&self) -> String {
        self.default.to_owned()
    }

    fn example(&self) -> Shown {
        Shown::Text(self.default.to_owned())
    }
}

impl Key for Text {
    type Out = String;

    fn read(&self, raw: &Raw, _: &Context<'_>) -> Result<Reading<String>, Refusal> {
        let text = non_empty_text(raw)?;
        Ok(Reading::plain(text.to_owned(), Shown::Text(text.to_owned())))
    }

    fn default(&self) -> String {
        self.default.to_owned()
    }
}

/// Text that may be left out.
pub struct OptionalText {
    /// Name, variable, heading, help.
    pub spec: Spec,
    /// An example.
    pub example: &'static str,
}

impl Setting for OptionalText {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        None
    }

    fn example(&self) -> Shown {
        Shown::Text(self.example.to_owned())
    }
}

impl Key for OptionalText {
    type Out = Option<String>;

    fn read(&self, raw: &Raw, _: &Context<'_>) -> Result<Reading<Option<String>>, Refusal> {
        let text = non_empty_text(raw)?;
        Ok(Reading::plain(Some(text.to_owned()), Shown::Text(text.to_owned())))
    }

    fn default(&self) -> Option<String> {
        None
    }
}

/// Texts. A single text is a list of one; a variable has one element a line.
pub struct List {
    /// Name, variable, heading, help.
    pub spec: Spec,
    /// An example of an element.
    pub example: &'static str,
}

impl Setting for List {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        Some(Shown::List(Vec::new()))
    }

    fn default_words(&self) -> String {
        "none".to_owned()
    }

    fn example(&self) -> Shown {
        Shown::List(vec![self.example.to_owned()])
    }

    fn help(&self) -> String {
        self.spec.about.to_owned()
    }
}

/// Texts that have to mean something, given as those of a [`List`].
pub struct ParsedList<T> {
    /// Name, variable, heading, help.
    pub spec: Spec,
    /// What they are, in the plural.
    pub what: &'static str,
    /// An example of an element.
    pub example: &'static str,
    /// The elements when no source gives any.
    pub default: &'static [&'static str],
    /// What is given is never shown, only what `T` says of itself.
    pub secret: bool,
    /// What they mean.
    pub meaning: PhantomData<fn() -> T>,
}

impl<T> Setting for ParsedList<T> {
    fn is_secret(&self) -> bool {
        self.secret
    }

    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        Some(Shown::List(self.default.iter().map(|&item| item.to_owned()).collect()))
    }

    fn default_words(&self) -> String {
        if self.default.is_empty() { "none".to_owned() } else { self.default.join(", ") }
    }

    fn example(&self) -> Shown {
        Shown::List(vec![self.example.to_owned()])
    }

    fn help(&self) -> String {
        self.spec.about.to_owned()
    }
}

impl<T: FromStr<Err: fmt::Display> + fmt::Display> Key for ParsedList<T> {
    type Out = Vec<T>;

    fn read(&self, raw: &Raw, _: &Context<'_>) -> Result<Reading<Vec<T>>, Refusal> {
        let what = self.what;
        let items = texts(raw)
            .ok_or_else(|| Refusal::expected(format!("an array of {what} such as `{}`", self.example)))?;
        let (mut values, mut shown) = (Vec::new(), Vec::new());
        for (number, item) in items.iter().enumerate() {
            let value: T = item.parse().map_err(|error| {
                let item = if self.secret { format!("number {}", number + 1) } else { format!("`{item}`") };
                Refusal::expected(format!("{what}; of {item}: {error}"))
            })?;
            shown.push(if self.secret { value.to_string() } else { item.clone() });
            values.push(value);
        }
        Ok(Reading::plain(values, Shown::List(shown)))
    }

    fn default(&self) -> Vec<T> {
        self.default.iter().filter_map(|item| item.parse().ok()).collect()
    }
}

/// A text that has to mean something and may be left out.
pub struct Parsed<T> {
    /// Name, variable, heading, help.
    pub spec: Spec,
    /// An example.
    pub example: &'static str,
    /// What it means.
    pub meaning: PhantomData<fn() -> T>,
}

impl<T> Setting for Parsed<T> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        None
    }

    fn bounds(&self) -> String {
        format!("such as {}", self.example)
    }

    fn example(&self) -> Shown {
        Shown::Text(self.example.to_owned())
    }
}

impl<T: FromStr<Err: fmt::Display> + fmt::Display> Key for Parsed<T> {
    type Out = Option<T>;

    fn read(&self, raw: &Raw, _: &Context<'_>) -> Result<Reading<Option<T>>, Refusal> {
        let value: T =
            non_empty_text(raw)?.parse().map_err(|error: T::Err| Refusal::expected(error.to_string()))?;
        let shown = Shown::Text(value.to_string());
        Ok(Reading::plain(Some(value), shown))
    }

    fn default(&self) -> Option<T> {
        None
    }
}

/// One text or several, one a line in a variable.
fn texts(raw: &Raw) -> Option<Vec<String>> {
    let items: Vec<String> = match raw {
        Raw::List(items) => items.clone(),
        Raw::Text(text) => vec![text.clone()],
        Raw::Variable(text) => text.to_str()?.lines().map(str::to_owned).collect(),
        _ => return None,
    };
    items.iter().all(|item| !item.is_empty()).then_some(items)
}

impl Key for List {
    type Out = Vec<String>;

    fn read(&self, raw: &Raw, _: &Context<'_>) -> Result<Reading<Vec<String>>, Refusal> {
        let items = texts(raw)
            .ok_or_else(|| Refusal::expected("a string or an array of strings, none of them empty"))?;
        Ok(Reading::plain(items.clone(), Shown::List(items)))
    }

    fn default(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Pauses in seconds, separated by commas; none at all is possible.
pub struct Pauses {
    /// Name, variable, heading, help.
    pub spec: Spec,
    /// Default.
    pub default: &'static str,
}

/// Most pauses that are taken, and the longest of them in seconds.
const MAX_PAUSES: usize = 10;
const LONGEST_PAUSE: f64 = 3600.0;

impl Pauses {
    fn parse(text: &str) -> Option<Vec<Duration>> {
        if text.trim().eq_ignore_ascii_case("none") {
            return Some(Vec::new());
        }
        let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        let pauses: Option<Vec<Duration>> = parts
            .iter()
            .map(|part| {
                let seconds = parse_number(part).ok().filter(|seconds| *seconds <= LONGEST_PAUSE)?;
                Duration::try_from_secs_f64(seconds).ok()
            })
            .collect();
        pauses.filter(|pauses| pauses.len() <= MAX_PAUSES)
    }
}

impl Setting for Pauses {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        Some(Shown::Text(self.default.to_owned()))
    }

    fn default_words(&self) -> String {
        self.default.to_owned()
    }

    fn bounds(&self) -> String {
        format!("none, or at most {MAX_PAUSES}, each 0 to {LONGEST_PAUSE}")
    }

    fn example(&self) -> Shown {
        Shown::Text("5, 30, 120".to_owned())
    }
}

impl Key for Pauses {
    type Out = Vec<Duration>;

    fn read(&self, raw: &Raw, _: &Context<'_>) -> Result<Reading<Vec<Duration>>, Refusal> {
        let text = match raw {
            Raw::Text(text) => Some(text.clone()),
            Raw::Variable(text) => text.to_str().map(ToOwned::to_owned),
            Raw::List(items) => Some(items.join(",")),
            Raw::Number(number) => Some(number_text(*number)),
            _ => None,
        };
        let expected = || Refusal::expected(format!("seconds, separated by commas: {}", self.bounds()));
        let text = text.ok_or_else(expected)?;
        let pauses = Pauses::parse(&text).ok_or_else(expected)?;
        Ok(Reading::plain(pauses, Shown::Text(text)))
    }

    fn default(&self) -> Vec<Duration> {
        Pauses::parse(self.default).unwrap_or_default()
    }
}

/// A program: a bare name is for `PATH`, anything else is a path.
pub struct Program {
    /// Name, variable, heading, help.
    pub spec: Spec,
    /// Default.
    pub default: &'static str,
}

impl Setting for Program {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        Some(Shown::Text(self.default.to_owned()))
    }

    fn default_words(&self) -> String {
        format!("{} on PATH", self.default)
    }

    fn example(&self) -> Shown {
        Shown::Text(format!("/opt/bin/{}", self.default))
    }
}

impl Key for Program {
    type Out = PathBuf;

    fn read(&self, raw: &Raw, context: &Context<'_>) -> Result<Reading<PathBuf>, Refusal> {
        let path = non_empty_path(raw)?;
        let is_bare = path.components().count() == 1 && !path.is_absolute() && !ends_in_separator(&path);
        let path = if is_bare && path != Path::new("..") { path } else { context.expand(path) };
        let shown = Shown::path(&path);
        Ok(Reading::plain(path, shown))
    }

    fn default(&self) -> PathBuf {
        PathBuf::from(self.default)
    }
}

/// A file that may be left out; `-` stays as it is.
pub struct OptionalFile {
    /// Name, variable, heading, help.
    pub spec: Spec,
    /// An example.
    pub example: &'static str,
}

impl Setting for OptionalFile {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn default_shown(&self) -> Option<Shown> {
        None
    }

    fn example(&self) -> Shown {
        Shown::Text(self.example.to_owned())
    }
}

impl Key for OptionalFile {
    type Out = Option<PathBuf>;

    fn read(&self, raw: &Raw, context: &Context<'_>) -> Result<Reading<Option<PathBuf>>, Refusal> {
        let path = non_empty_path(raw)?;
        let path = if path == Path::new("-") { path } else { context.expand(path) };
        let shown = Shown::path(&path);
        Ok(Reading::plain(Some(path), shown))
    }

    fn default(&self) -> Option<PathBuf> {
        None
    }
}

fn ends_in_separator(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The text of a value that is one.
fn text_of(raw: &Raw) -> Option<&str> {
    match raw {
        Raw::Text(text) => Some(text),
        Raw::Variable(text) => text.to_str(),
        Raw::Path(path) => path.to_str(),
        Raw::Number(_) | Raw::Flag(_) | Raw::List(_) | Raw::Other(_) => None,
    }
}

fn non_empty_text(raw: &Raw) -> Result<&str, Refusal> {
    let expected =
        if matches!(raw, Raw::Variable(_)) { "text in UTF-8" } else { "a string that is not empty" };
    text_of(raw).filter(|text| !text.is_empty()).ok_or_else(|| Refusal::expected(expected))
}

/// A path; a variable or argument need not be UTF-8.
fn non_empty_path(raw: &Raw) -> Result<PathBuf, Refusal> {
    let path = match raw {
        Raw::Text(text) => Some(PathBuf::from(text)),
        Raw::Path(path) => Some(path.clone()),
        Raw::Variable(text) => Some(PathBuf::from(text)),
        Raw::Number(_) | Raw::Flag(_) | Raw::List(_) | Raw::Other(_) => None,
    };
    path.filter(|path| !path.as_os_str().is_empty())
        .ok_or_else(|| Refusal::expected("a path that is not empty"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::key::Group;

    #[test]
    fn program_paths() {
        let key = Program {
            spec: Spec {
                name: "claude-bin",
                env: "AUTOPILOT_CLAUDE_BIN",
                flag: true,
                group: Group::Claude,
                metavar: "P",
                about: "",
            },
            default: "claude",
        };
        let context = Context { base: Some(Path::new("/repo")), home: Some(Path::new("/home/me")) };
        for (given, expected) in [
            ("claude", "claude"),
            ("./claude", "/repo/./claude"),
            ("tools/claude", "/repo/tools/claude"),
            ("/opt/claude", "/opt/claude"),
            ("~/bin/claude", "/home/me/bin/claude"),
        ] {
            let reading = key.read(&Raw::Text(given.to_owned()), &context).unwrap();
            assert_eq!(reading.value, PathBuf::from(expected), "{given}");
        }
        assert!(key.read(&Raw::Text(String::new()), &context).is_err());
    }
}
