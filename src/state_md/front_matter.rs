//! The front matter of STATE.md: a subset of YAML (upstream-formats §5.5).
//!
//! What is accepted: `key: value` lines at the margin; scalars (`null`, `~` and nothing are null; `true`,
//! `false`; `-?digits` and `-?digits.digits`; quoted or bare text); flow lists `[a, b]`, split at every comma;
//! block lists of scalars, of one-level mappings, and of mappings in braces on one line. `1e3` and `.5` are
//! text. Everything else makes the whole block unreadable, as it does upstream: half a state is worse than
//! none. Blank lines and comments are passed over.
//!
//! Every entry knows its extent in the text, so that a writer can change one and leave the bytes of all
//! others alone. That is also why quotes cannot grow: what is not changed is never unquoted and quoted again.

use std::ops::Range;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`, `~`, nothing.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// Digits.
    Int(i64),
    /// Digits with a fraction, or more digits than an integer holds.
    Float(f64),
    /// Anything else.
    Text(String),
    /// `[a, b]`, or `- ` lines.
    List(Vec<Value>),
    /// An item of a list.
    Mapping(Vec<(String, Value)>),
}

/// `key: value`, with the lines of its list.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Before the colon.
    pub key: String,
    /// Behind it.
    pub value: Value,
    /// Its lines in the text, newlines included.
    pub span: Range<usize>,
}

/// The block between the fences.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontMatter {
    /// In the order of the text; a key may occur twice, and then the last one counts.
    pub entries: Vec<Entry>,
    /// Where the closing fence begins: new entries go in before it.
    pub end: usize,
    /// Where the body begins.
    pub body: usize,
}

/// Why a front matter cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Line in the file, from 1.
    pub line: usize,
    /// What is wrong with it, and by that what to mend.
    pub what: &'static str,
}

impl FrontMatter {
    /// The value of `key`, if the key is there.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().rev().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// What a reader sees: keys and values, without repeated keys and without their places.
    #[must_use]
    pub fn values(&self) -> Vec<(&str, &Value)> {
        let mut seen: Vec<(&str, &Value)> = Vec::new();
        for entry in &self.entries {
            match seen.iter_mut().find(|(key, _)| *key == entry.key) {
                Some((_, value)) => *value = &entry.value,
                None => seen.push((&entry.key, &entry.value)),
            }
        }
        seen
    }
}

/// Length of the byte order mark, if the text begins with one.
pub(super) fn mark(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// Reads the front matter; `None` when the text does not begin with a fence.
pub fn parse(text: &str) -> Result<Option<FrontMatter>, Broken> {
    let mut lines = Lines { text, at: mark(text), number: 0 };
    if !lines.next().is_some_and(|line| is_fence(line.text)) {
        return Ok(None);
    }
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let Some(line) = lines.next() else {
            return Err(Broken { line: 1, what: "the front matter has no closing `---`" });
        };
        let broken = |what| Broken { line: line.number, what };
        let content = line.text.trim_end();
        if is_fence(content) {
            return Ok(Some(FrontMatter { entries, end: line.start, body: lines.at }));
        }
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if content.starts_with(char::is_whitespace) {
            return Err(broken(NO_LIST));
        }
        let (key, value) = content.split_once(':').ok_or(broken("the line has no colon"))?;
        let value = match value.trim() {
            "" => block_list(&mut lines)?.map_or(Value::Null, Value::List),
            text => flow(text),
        };
        entries.push(Entry { key: key.trim().to_owned(), value, span: line.start..lines.at });
    }
}

const NO_LIST: &str = "the line is indented but belongs to no list";
const NO_ITEM: &str = "the line is indented but is neither an item of a list nor a field of one";

/// The `- ` lines that follow a key without a value; `None` when there are none.
fn block_list(lines: &mut Lines<'_>) -> Result<Option<Vec<Value>>, Broken> {
    let mut items: Vec<Value> = Vec::new();
    loop {
        let mut ahead = lines.clone();
        // Blank lines belong to the list only when it goes on behind them.
        let Some(line) = ahead.by_ref().find(|line| !line.text.trim().is_empty()) else { break };
        let content = line.text.trim();
        let indented = line.text.starts_with(char::is_whitespace);
        let item = if content == "-" { Some("") } else { content.strip_prefix("- ") };
        match item.map(str::trim) {
            Some(item) if !is_fence(line.text) => items.push(match pair(item) {
                Some(pair) => Value::Mapping(vec![pair]),
                None => braces(item).unwrap_or_else(|| scalar(item)),
            }),
            _ if !indented => break,
            _ => match (items.last_mut(), pair(content)) {
                (Some(Value::Mapping(pairs)), Some(pair)) => pairs.push(pair),
                (None, _) => return Err(Broken { line: line.number, what: NO_LIST }),
                _ => return Err(Broken { line: line.number, what: NO_ITEM }),
            },
        }
        *lines = ahead;
    }
    Ok((!items.is_empty()).then_some(items))
}

/// `key: value` within a list. A bare text may hold a colon, but not one behind a plain word.
fn pair(text: &str) -> Option<(String, Value)> {
    let (key, value) = text.split_once(':')?;
    let plain =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    (plain && (value.is_empty() || value.starts_with(' '))).then(|| (key.to_owned(), flow(value.trim())))
}

/// `{a: 1, b: 2}`.
fn braces(text: &str) -> Option<Value> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let pairs: Option<Vec<_>> =
        inner.split(',').map(str::trim).filter(|part| !part.is_empty()).map(pair).collect();
    pairs.map(Value::Mapping)
}

/// A list in brackets, or a scalar.
fn flow(text: &str) -> Value {
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(inner) if inner.trim().is_empty() => Value::List(Vec::new()),
        Some(inner) => Value::List(inner.split(',').map(|item| scalar(item.trim())).collect()),
        None => scalar(text),
    }
}

fn scalar(text: &str) -> Value {
    match text {
        "" | "null" | "~" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    if let Some(number) = number(text) {
        return number;
    }
    let within =
        |quote: char| (text.len() >= 2).then(|| text.strip_prefix(quote)?.strip_suffix(quote)).flatten();
    if let Some(inner) = within('"') {
        return Value::Text(unescape(inner));
    }
    if let Some(inner) = within('\'') {
        return Value::Text(inner.replace("''", "'"));
    }
    Value::Text(text.to_owned())
}

/// `-?digits`, `-?digits.digits`.
fn number(text: &str) -> Option<Value> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    match unsigned.split_once('.') {
        None if digits(unsigned) => {
            text.parse().map(Value::Int).or_else(|_| text.parse().map(Value::Float)).ok()
        }
        Some((whole, fraction)) if digits(whole) && digits(fraction) => text.parse().map(Value::Float).ok(),
        _ => None,
    }
}

/// The text of a quoted scalar: the inverse of [`text`], and nothing else.
fn unescape(inner: &str) -> String {
    let mut plain = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match (c, chars.as_str().chars().next()) {
            ('\\', Some(escaped @ ('"' | '\\'))) => {
                plain.push(escaped);
                chars.next();
            }
            _ => plain.push(c),
        }
    }
    plain
}

/// A text as a scalar on one line: bare when it reads back as itself in any YAML, else in double quotes.
/// Control characters and line breaks become blanks.
#[must_use]
pub fn text(text: &str) -> String {
    let flat = one_line(text);
    let bare = scalar(&flat) == Value::Text(flat.clone())
        && flat.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '/')
        && !flat.ends_with(':')
        && !flat.contains(": ")
        && !flat.contains(" #");
    if bare { flat } else { format!("\"{}\"", flat.replace('\\', "\\\\").replace('"', "\\\"")) }
}

/// A text without line breaks, control characters and repeated blanks.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// A line, without its line break.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'t> {
    /// Where it begins in the text.
    pub start: usize,
    /// From 1.
    pub number: usize,
    /// What stands in it.
    pub text: &'t str,
}

/// Lines with their places; LF and CRLF alike.
#[derive(Debug, Clone)]
pub(super) struct Lines<'t> {
    text: &'t str,
    /// Where the next line begins.
    pub at: usize,
    number: usize,
}

impl<'t> Lines<'t> {
    /// The lines of `text` from the byte `at` on.
    pub(super) fn from(text: &'t str, at: usize) -> Lines<'t> {
        Lines { text, at, number: 0 }
    }
}

impl<'t> Iterator for Lines<'t> {
    type Item = Line<'t>;

    fn next(&mut self) -> Option<Line<'t>> {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        let length = rest.find('\n').map_or(rest.len(), |newline| newline + 1);
        let line = Line {
            start: self.at,
            number: self.number + 1,
            text: rest[..length].trim_end_matches('\n').trim_end_matches('\r'),
        };
        self.at += length;
        self.number += 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn pairs(pairs: &[(&str, Value)]) -> Value {
        Value::Mapping(pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    }

    #[test]
    fn values_as_upstream_reads_them() {
        let check = |written: &str, expected: Value| {
            let text = format!("---\nkey: {written}\n---\n");
            let found = parse(&text).unwrap().unwrap();
            assert_eq!(found.get("key"), Some(&expected), "{written}");
        };
        for null in ["null", "~", ""] {
            check(null, Value::Null);
        }
        check("true", Value::Bool(true));
        check("false", Value::Bool(false));
        check("True", words("True"));
        check("12", Value::Int(12));
        check("-3", Value::Int(-3));
        check("007", Value::Int(7));
        check("0.50", Value::Float(0.5));
        check("-1.25", Value::Float(-1.25));
        check("99999999999999999999", Value::Float(1e20));
        for odd in ["1e3", ".5", "5.", "1.2.3", "--1", "-", "0x10", "1 2"] {
            check(odd, words(odd));
        }
        check("deep", words("deep"));
        check("v0: default clean completion", words("v0: default clean completion"));
        check("\"1.0\"", words("1.0"));
        check("'it''s'", words("it's"));
        check(r#""a \"b\" \\ c""#, words(r#"a "b" \ c"#));
        check(r#""C:\new""#, words(r"C:\new"));
        check("\"", words("\""));
        check("2026-11-03T01:17:00Z", words("2026-11-03T01:17:00Z"));
        check("[]", Value::List(vec![]));
        check("[ ]", Value::List(vec![]));
        check("[12, 15]", Value::List(vec![Value::Int(12), Value::Int(15)]));
        check("[a, \"b\", 1.5]", Value::List(vec![words("a"), words("b"), Value::Float(1.5)]));
        // Split at every comma, even one in quotes.
        check("[\"a,b\"]", Value::List(vec![words("\"a"), words("b\"")]));
        check("[1", words("[1"));
    }

    #[test]
    fn lists_in_lines() {
        let check = |written: &str, expected: &[Value]| {
            let text = format!("---\nkey:\n{written}\nnext: 1\n---\nbody\n");
            let found = parse(&text).unwrap().unwrap();
            assert_eq!(found.get("key"), Some(&Value::List(expected.to_vec())), "{written}");
            assert_eq!(found.get("next"), Some(&Value::Int(1)), "{written}");
            assert_eq!(&text[found.body..], "body\n");
        };
        check("  - 1\n  - two", &[Value::Int(1), words("two")]);
        check("- 1", &[Value::Int(1)]);
        check(
            "  - url: here\n    n: 2\n\n  - url: there",
            &[pairs(&[("url", words("here")), ("n", Value::Int(2))]), pairs(&[("url", words("there"))])],
        );
        check(
            "  - {wave: 1, role: impl}\n  - http://x",
            &[pairs(&[("wave", Value::Int(1)), ("role", words("impl"))]), words("http://x")],
        );
        check("  -\n  - \"a: b\"", &[Value::Null, words("a: b")]);
    }

    #[test]
    fn where_upstream_gives_up_so_do_we() {
        let check = |text: &str, line: usize, says: &str| {
            let broken = parse(text).unwrap_err();
            assert!(broken.line == line && broken.what.contains(says), "{text}: {broken:?}");
        };
        check("---\nstatus: idle\n", 1, "closing");
        check("---\n", 1, "closing");
        check("---\nstatus: idle\n----\nbody", 3, "colon");
        check("---\nstatus: idle\n indented: 1\n---\n", 3, "indented");
        check("---\nno colon here\n---\n", 2, "colon");
        check("---\nnested:\n  a: 1\n---\n", 3, "indented");
        check("---\nlist:\n  - 1\n  loose\n---\n", 4, "neither");
        for none in ["", "# State\n", "\n---\na: 1\n---\n", "----\n"] {
            assert_eq!(parse(none), Ok(None), "{none}");
        }
    }

    #[test]
    fn marks_line_ends_and_repeated_keys() {
        let text = "\u{feff}---\r\n# ours\r\nstatus: idle\r\n\r\nstatus: active\r\nissues:\r\n  - 7\r\n---\r\nbody\r\n";
        let found = parse(text).unwrap().unwrap();
        assert_eq!(found.get("status"), Some(&words("active")));
        assert_eq!(found.values().len(), 2);
        let spans: Vec<&str> = found.entries.iter().map(|entry| &text[entry.span.clone()]).collect();
        assert_eq!(spans, ["status: idle\r\n", "status: active\r\n", "issues:\r\n  - 7\r\n"]);
        assert_eq!((&text[found.end..found.body], &text[found.body..]), ("---\r\n", "body\r\n"));
        // The closing fence may be the end of the file.
        assert_eq!(parse("---\na: 1\n---").unwrap().unwrap().get("a"), Some(&Value::Int(1)));
    }

    proptest! {
        /// What is written reads back, and written again it is the same: quotes cannot grow.
        #[test]
        fn text_is_a_fixpoint(words in prop_oneof![any::<String>(), "[ \\\\\"':#a1.\\[\\]{},~-]{0,12}", "(null|true|12|0\\.5|---)"]) {
            let flat = one_line(&words);
            let written = text(&words);
            prop_assert!(!written.contains('\n'));
            prop_assert_eq!(flow(&written), Value::Text(flat.clone()));
            prop_assert_eq!(text(&flat), written);
        }

        /// No text upsets it, and the extents it gives are those of its lines.
        #[test]
        fn any_text_parses_or_says_why(body in "(---\n)?([a-c]?[ \t]?[-:\\[\\]{},'\"# 1a]{0,8}\r?\n){0,8}(---)?") {
            if let Ok(Some(found)) = parse(&body) {
                prop_assert!(found.end <= found.body && found.body <= body.len());
                for entry in &found.entries {
                    prop_assert!(body[entry.span.clone()].starts_with(&entry.key) && entry.span.end <= found.end);
                }
            }
        }
    }
}
