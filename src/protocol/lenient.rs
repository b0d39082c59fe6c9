//! Reads JSON objects whose shape nobody promised.
//!
//! Theory: [`Object`] splits a valid object into its entries once, as slices ([`Raw`]); an accessor reads one
//! of them when somebody asks. What nobody asks for is never decoded. Nothing is required: a field that is
//! absent, `null` or of the wrong type reads as `None`, the last case with an [`Anomaly`] (field-reports C06).
//!
//! Invariants: no accessor fails or panics; memory is bounded by the line plus small constants, whatever
//! the line holds (entries, list items and texts are capped); the last of several equal keys wins, as in
//! JavaScript. Pitfall: strings may hold half a surrogate pair, written as an escape (field-reports G07).
//! serde refuses those, so such a string is decoded as bytes and repaired.

use std::{borrow::Cow, cell::RefCell, fmt};

use memchr::memchr;
use serde::{Deserializer, de::Visitor};
use serde_json::value::RawValue;

use super::{
    raw::{LongStrings, Raw},
    stream::Anomaly,
};

/// Entries of one object that are kept; further ones are ignored.
const MAX_ENTRIES: usize = 512;
/// Items of one list that are kept; further ones are ignored.
pub(super) const MAX_ITEMS: usize = 4096;
/// Anomalies noted for one line.
const MAX_ISSUES: usize = 32;
/// Longest string, in raw bytes, that is read as an identifier, a path or a code.
const MAX_STRING: usize = 8 * 1024;
/// Ends a text that was cut.
pub const CUT: &str = "…";

/// What the values of one line share: what was found odd, and what was learnt on the way.
#[derive(Debug, Default)]
pub(super) struct Line {
    issues: RefCell<Vec<Anomaly>>,
    long: LongStrings,
}

impl Line {
    pub(super) fn note(&self, anomaly: Anomaly) {
        let mut noted = self.issues.borrow_mut();
        // A line is bad at most once, and that is never lost among its small faults.
        if noted.len() < MAX_ISSUES || anomaly.is_bad_line() {
            noted.push(anomaly);
        }
    }

    pub(super) fn long(&self) -> &LongStrings {
        &self.long
    }

    pub(super) fn into_anomalies(self) -> Vec<Anomaly> {
        self.issues.into_inner()
    }
}

/// An object that notes what it finds wrong.
#[derive(Debug)]
pub(super) struct Object<'a> {
    entries: Vec<(Cow<'a, str>, Raw<'a>)>,
    line: &'a Line,
}

impl<'a> Object<'a> {
    /// The object that `raw` is, if it is one.
    pub(super) fn new(raw: Raw<'a>, line: &'a Line) -> Option<Self> {
        if raw.kind() != b'{' {
            return None;
        }
        let mut entries = Vec::with_capacity(16);
        let mut parts = raw.parts(line.long());
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            if entries.len() == MAX_ENTRIES {
                break;
            }
            entries.push((text(key, MAX_STRING).unwrap_or_default(), value));
        }
        Some(Self { entries, line })
    }

    /// Like [`Object::new`], but anything else is noted under `field`.
    pub(super) fn from_raw(raw: Raw<'a>, field: &'static str, line: &'a Line) -> Option<Self> {
        let object = Self::new(raw, line);
        if object.is_none() {
            line.note(Anomaly::WrongType { field });
        }
        object
    }

    /// The value under `key`, unless it is absent or `null`.
    pub(super) fn raw(&self, key: &str) -> Option<Raw<'a>> {
        let (_, raw) = self.entries.iter().rev().find(|(name, _)| name == key)?;
        (raw.get() != "null").then_some(*raw)
    }

    pub(super) fn json(&self, key: &str) -> Option<RawJson> {
        self.raw(key).and_then(|raw| RawValue::from_string(raw.get().to_owned()).ok()).map(RawJson)
    }

    /// A short string: identifier, code, path.
    pub(super) fn str(&self, key: &'static str) -> Option<Cow<'a, str>> {
        self.checked(key, |raw| text(raw, MAX_STRING))
    }

    pub(super) fn string(&self, key: &'static str) -> Option<String> {
        self.str(key).map(Cow::into_owned)
    }

    /// A text of any length, of which about `limit` bytes are read.
    pub(super) fn text(&self, key: &'static str, limit: usize) -> Option<String> {
        self.checked(key, |raw| text(raw, limit)).map(Cow::into_owned)
    }

    /// `true`, `false`, or one of them as a string.
    pub(super) fn bool(&self, key: &'static str) -> Option<bool> {
        self.checked(key, |raw| match raw.get() {
            "true" | r#""true""# => Some(true),
            "false" | r#""false""# => Some(false),
            _ => None,
        })
    }

    /// A finite number, also one written as a string.
    pub(super) fn f64(&self, key: &'static str) -> Option<f64> {
        self.checked(key, number)
    }

    /// A number of things: not negative; a fraction is dropped.
    pub(super) fn u64(&self, key: &'static str) -> Option<u64> {
        self.checked(key, count)
    }

    pub(super) fn object(&self, key: &'static str) -> Option<Object<'a>> {
        Self::from_raw(self.raw(key)?, key, self.line)
    }

    /// The items of a list; absent or not a list reads as empty.
    pub(super) fn list(&self, key: &'static str) -> Vec<Raw<'a>> {
        let Some(mut parts) =
            self.checked(key, |raw| (raw.kind() == b'[').then(|| raw.parts(self.line.long())))
        else {
            return Vec::new();
        };
        let items = parts.by_ref().take(MAX_ITEMS).collect();
        if parts.next().is_some() {
            self.line.note(Anomaly::TooMany { field: key });
        }
        items
    }

    /// The items of a list that are objects.
    pub(super) fn objects(&self, key: &'static str) -> impl Iterator<Item = Object<'a>> {
        let line = self.line;
        self.list(key).into_iter().filter_map(move |raw| Self::from_raw(raw, key, line))
    }

    /// The items of a list that are strings, or objects with a `name`.
    pub(super) fn names(&self, key: &'static str) -> Vec<String> {
        let read = |raw: Raw<'a>| match raw.kind() {
            b'{' => Self::from_raw(raw, key, self.line)?.string("name"),
            _ => text(raw, MAX_STRING).map(Cow::into_owned),
        };
        self.list(key).into_iter().filter_map(read).collect()
    }

    /// The keys of an object used as a map, with their values.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, Raw<'a>)> {
        self.entries.iter().map(|(key, raw)| (key.as_ref(), *raw))
    }

    pub(super) fn line(&self) -> &'a Line {
        self.line
    }

    fn checked<T>(&self, key: &'static str, read: impl FnOnce(Raw<'a>) -> Option<T>) -> Option<T> {
        let value = read(self.raw(key)?);
        if value.is_none() {
            self.line.note(Anomaly::WrongType { field: key });
        }
        value
    }
}

/// The string that `raw` is, read up to about `limit` raw bytes; a longer one ends with [`CUT`].
pub(super) fn text(raw: Raw<'_>, limit: usize) -> Option<Cow<'_, str>> {
    let body = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if body.len() <= limit {
        return Some(unescape(body));
    }
    let mut head = unescape(&body[..boundary(body, limit)]).into_owned();
    head.push_str(CUT);
    Some(Cow::Owned(head))
}

/// The first place at or after `limit` where an escaped string may be cut: between characters, and not
/// between the halves of a surrogate pair.
fn boundary(body: &str, limit: usize) -> usize {
    let bytes = body.as_bytes();
    let mut at = 0;
    while at < limit.min(bytes.len()) {
        at += match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(b'u')) => {
                let high = bytes.get(at + 2..at + 4).is_some_and(|hex| {
                    hex[0].eq_ignore_ascii_case(&b'd') && matches!(hex[1] | 0x20, b'8' | b'9' | b'a' | b'b')
                });
                let low_follows = bytes.get(at + 6..at + 8) == Some(b"\\u");
                if high && low_follows { 12 } else { 6 }
            }
            (b'\\', _) => 2,
            _ => 1,
        };
    }
    at = at.min(bytes.len());
    while !body.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Decodes the inside of a valid JSON string. Half a surrogate pair becomes U+FFFD.
fn unescape(body: &str) -> Cow<'_, str> {
    struct Wtf8;
    impl Visitor<'_> for Wtf8 {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }

        fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<String, E> {
            Err(E::custom("asked for bytes"))
        }
    }
    if memchr(b'\\', body.as_bytes()).is_none() {
        return Cow::Borrowed(body);
    }
    let quoted = format!("\"{body}\"");
    let decoded = serde_json::from_str::<String>(&quoted)
        .or_else(|_| serde_json::Deserializer::from_str(&quoted).deserialize_bytes(Wtf8));
    // Only a body that is not the inside of a JSON string gets here; showing it raw loses nothing.
    Cow::Owned(decoded.unwrap_or_else(|_: serde_json::Error| body.to_owned()))
}

/// The finite number that `raw` is or spells.
pub(super) fn number(raw: Raw<'_>) -> Option<f64> {
    let digits = match raw.kind() {
        b'"' => text(raw, 64)?,
        b'-' | b'0'..=b'9' => Cow::Borrowed(raw.get()),
        _ => return None,
    };
    digits.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

/// The count that `raw` is or spells.
pub(super) fn count(raw: Raw<'_>) -> Option<u64> {
    if let Ok(whole) = raw.get().trim_matches('"').parse() {
        return Some(whole);
    }
    let value = number(raw)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, sign checked"
    )]
    (value >= 0.0).then_some(value as u64)
}

/// Verbatim JSON text on one line.
///
/// For what this program hands on or compares without interpreting it, for example the input of a tool.
#[derive(Debug, Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The text, as it was sent.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The parsed value; `None` only for what a parser with limits refuses (nesting beyond 128 levels,
    /// half a surrogate pair).
    pub fn to_value(&self) -> Option<serde_json::Value> {
        serde_json::from_str(self.0.get()).ok()
    }

    pub(super) fn as_raw(&self) -> &RawValue {
        &self.0
    }
}

impl From<&serde_json::Value> for RawJson {
    fn from(value: &serde_json::Value) -> Self {
        Self(serde_json::value::to_raw_value(value).expect("a `Value` has only string keys"))
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn object(text: &str, read: impl FnOnce(&Object<'_>)) -> Vec<Anomaly> {
        let line = Line::default();
        read(&Object::new(Raw::parse(text).unwrap(), &line).unwrap());
        line.into_anomalies()
    }

    #[test]
    fn numbers_come_in_many_spellings() {
        #[track_caller]
        fn check(value: &str, number: Option<f64>, count: Option<u64>) {
            let mut noted = 0;
            let issues = object(&format!(r#"{{"n":{value}}}"#), |object| {
                assert_eq!((object.f64("n"), object.u64("n")), (number, count));
                noted = if value == "null" {
                    0
                } else {
                    usize::from(number.is_none()) + usize::from(count.is_none())
                };
            });
            assert_eq!(issues.len(), noted, "{issues:?}");
        }
        check("5", Some(5.0), Some(5));
        check("1", Some(1.0), Some(1));
        check("549.5", Some(549.5), Some(549));
        check("1e3", Some(1000.0), Some(1000));
        check(r#""7""#, Some(7.0), Some(7));
        check(r#"" 7.5 ""#, Some(7.5), Some(7));
        check("-1", Some(-1.0), None);
        check("18446744073709551615", Some(18_446_744_073_709_551_615.0), Some(u64::MAX));
        check("1e999", None, None);
        check(r#""NaN""#, None, None);
        check(r#""inf""#, None, None);
        check(r#""""#, None, None);
        check("true", None, None);
        check("[1]", None, None);
        check("null", None, None);
    }

    #[test]
    fn texts_are_cut_between_characters_and_survive_half_pairs() {
        #[track_caller]
        fn check(value: &str, limit: usize, expected: &str) {
            let issues = object(&format!(r#"{{"t":{value}}}"#), |object| {
                assert_eq!(object.text("t", limit).as_deref(), Some(expected));
            });
            assert!(issues.is_empty(), "{issues:?}");
        }
        check(r#""abcdef""#, 6, "abcdef");
        check(r#""abcdef""#, 3, "abc…");
        check(r#""abcdef""#, 0, "…");
        check(r#""ab\ncd""#, 3, "ab\n…");
        check(r#""ab\u00e9cd""#, 3, "ab\u{e9}…");
        check(r#""ab\ud83d\ude00cd""#, 3, "ab\u{1F600}…");
        check(r#""ab\ud83d\ude00cd""#, 9, "ab\u{1F600}…");
        check("\"ab\u{1F600}cd\"", 3, "ab\u{1F600}…");
        check(r#""half \ud83d pair""#, 100, "half \u{fffd}\u{fffd}\u{fffd} pair");
        check(r#""half \ud83d""#, 11, "half \u{fffd}\u{fffd}\u{fffd}");
    }

    #[test]
    fn wrong_types_read_as_absent_and_are_noted() {
        let issues = object(r#"{"a":5,"b":null,"c":"x","d":{},"e":[1,{"f":2}],"a2":1,"a2":2}"#, |object| {
            assert_eq!(object.string("a"), None);
            assert_eq!(object.string("b"), None);
            assert_eq!(object.string("absent"), None);
            assert_eq!(object.bool("c"), None);
            assert!(object.list("d").is_empty());
            assert_eq!(object.objects("e").filter_map(|item| item.u64("f")).collect::<Vec<_>>(), [2]);
            assert_eq!(object.u64("a2"), Some(2));
        });
        let fields: Vec<String> = issues.iter().map(ToString::to_string).collect();
        assert_eq!(fields.len(), 4, "{fields:?}");
    }

    #[test]
    fn floods_are_capped() {
        let list = format!(r#"{{"l":[{}1]}}"#, "1,".repeat(5000));
        let issues = object(&list, |object| assert_eq!(object.list("l").len(), MAX_ITEMS));
        assert_eq!(issues, [Anomaly::TooMany { field: "l" }]);
        let keys: Vec<String> = (0..1000).map(|n| format!(r#""k{n}":1"#)).collect();
        object(&format!("{{{}}}", keys.join(",")), |object| {
            assert_eq!(object.entries().count(), MAX_ENTRIES);
        });
        let issues = object(r#"{"a":1}"#, |object| (0..100).for_each(|_| drop(object.string("a"))));
        assert_eq!(issues.len(), MAX_ISSUES);
    }
}
