//! Takes valid JSON apart without decoding it.
//!
//! Theory: a line is validated once, by `serde_json`. After that a value is a slice of the line ([`Raw`]),
//! and splitting an object or a list ([`Parts`]) is a search for brackets and quotes in text that is known
//! to be valid. So the big output of a tool is skipped at the speed of `memchr` on every level, where a
//! typed parser would decode it. And it is skipped once: where a long string ends is kept in [`LongStrings`]
//! for the levels below, which meet the same string again.
//!
//! Invariants: a [`Raw`] holds one valid value; splitting is iterative, so depth costs no stack; nothing
//! panics even if the text were invalid. A property test holds the splitting against `serde_json`.

use std::cell::RefCell;

use memchr::memchr;
use serde::de::IgnoredAny;

/// Strings up to about this long are searched without `memchr`.
const SHORT_STRING: usize = 48;

/// The text of one valid JSON value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// The value that `text` is, white space around it aside.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str::<IgnoredAny>(text).ok().map(|_| Self(text.trim_ascii()))
    }

    /// The value that `text` begins with, and its length; or how far it reads as one.
    pub(super) fn parse_prefix(text: &'a str) -> Result<(Self, usize), usize> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                let end = values.byte_offset();
                Ok((Self(text[..end].trim_ascii()), end))
            }
            // Without newlines in the text the column is the number of bytes read.
            Some(Err(error)) => Err(error.column()),
            None => Err(text.len()),
        }
    }

    pub(super) fn get(self) -> &'a str {
        self.0
    }

    /// The first byte, which tells the type: `{`, `[`, `"`, `t`, `f`, `n`, `-` or a digit.
    pub(super) fn kind(self) -> u8 {
        self.0.as_bytes().first().copied().unwrap_or_default()
    }

    /// What a list holds; of an object, its keys and values in turn; of a scalar, nothing. `long` is shared
    /// by all values of one line.
    pub(super) fn parts(self, long: &'a LongStrings) -> Parts<'a> {
        let container = matches!(self.kind(), b'{' | b'[');
        Parts { text: if container { self.0 } else { "" }, at: 1, long }
    }
}

/// Iterator of [`Raw::parts`].
pub(super) struct Parts<'a> {
    text: &'a str,
    at: usize,
    long: &'a LongStrings,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at)?, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':') {
            self.at += 1;
        }
        if matches!(bytes[self.at], b'}' | b']') {
            return None;
        }
        let start = self.at;
        self.at = value_end(bytes, start, self.long);
        Some(Raw(&self.text[start..self.at]))
    }
}

/// Where the value that starts at `at` ends, in valid JSON.
fn value_end(bytes: &[u8], mut at: usize, long: &LongStrings) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(bytes, at, long),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => {
                let scalar = |byte: &u8| !matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
                at += bytes[at..].iter().take_while(|byte| scalar(byte)).count();
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Where the string whose first character is at `at` ends, its closing quote included.
fn string_end(bytes: &[u8], mut at: usize, long: &LongStrings) -> usize {
    // Most strings are keys and codes: a plain loop beats the set-up of a vector search.
    let short_end = (at + SHORT_STRING).min(bytes.len());
    while at < short_end {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    let at = at.min(bytes.len());
    at + long.length(&bytes[at..]).min(bytes.len() - at)
}

/// Lengths of the long strings of one line, by the address of where their short beginning ends. The first
/// pass over the line meets them in order, so the list is sorted.
#[derive(Debug, Default)]
pub(super) struct LongStrings(RefCell<Vec<(usize, usize)>>);

impl LongStrings {
    /// How many bytes are left of a string of which the beginning was taken off, its closing quote included.
    fn length(&self, rest: &[u8]) -> usize {
        let address = rest.as_ptr().addr();
        let mut known = self.0.borrow_mut();
        if let Ok(index) = known.binary_search_by_key(&address, |(address, _)| *address) {
            return known[index].1;
        }
        let length = rest_of_string(rest);
        if length > SHORT_STRING && known.last().is_none_or(|(last, _)| *last < address) {
            known.push((address, length));
        }
        length
    }
}

/// Source text has an escape every few bytes, so only quotes are searched for.
fn rest_of_string(rest: &[u8]) -> usize {
    let mut from = 0;
    while let Some(found) = memchr(b'"', &rest[from..]) {
        let quote = from + found;
        let backslashes = rest[..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        from = quote + 1;
        if backslashes % 2 == 0 {
            return from;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, value::RawValue};

    use super::*;

    #[test]
    fn values_are_taken_apart_whatever_they_hold() {
        #[track_caller]
        fn check(text: &str, expected: &[&str]) {
            assert_eq!(
                Raw::parse(text).unwrap().parts(&LongStrings::default()).map(Raw::get).collect::<Vec<_>>(),
                expected
            );
        }
        check("[]", &[]);
        check(" { } ", &[]);
        check("7", &[]);
        check(r#""[1]""#, &[]);
        check(" [ 1 ,-2.5e3,\ttrue,null ] ", &["1", "-2.5e3", "true", "null"]);
        check(r#"[[1,[2]],{"a":[]},"x"]"#, &["[1,[2]]", r#"{"a":[]}"#, r#""x""#]);
        check(r#"["]","\"]","\\","\\\"",3]"#, &[r#""]""#, r#""\"]""#, r#""\\""#, r#""\\\"""#, "3"]);
        check(r#"{"a" : "}" , "b":{"c":"{"}}"#, &[r#""a""#, r#""}""#, r#""b""#, r#"{"c":"{"}"#]);
        check("[\"é\",\"\u{1F600}\"]", &["\"é\"", "\"\u{1F600}\""]);
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![any::<String>(), "[\\\\\"a-c{}\\[\\]:,]{0,300}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            text.clone().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::hash_map(text.clone(), inner, 0..5)
                    .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        /// serde as the oracle: the same parts, in compact and in spaced text.
        #[test]
        fn parts_are_those_of_a_full_parser(list in prop::collection::vec(values(), 0..5)) {
            for text in [serde_json::to_string(&list).unwrap(), serde_json::to_string_pretty(&list).unwrap()] {
                let expected: Vec<&RawValue> = serde_json::from_str(&text).unwrap();
                let long = LongStrings::default();
                let parts: Vec<&str> = Raw::parse(&text).unwrap().parts(&long).map(Raw::get).collect();
                prop_assert_eq!(&parts, &expected.iter().map(|raw| raw.get()).collect::<Vec<_>>());
                for (part, value) in parts.iter().zip(&list).filter(|(_, value)| value.is_object()) {
                    let parts: Vec<Value> =
                        Raw(part).parts(&long).map(|raw| serde_json::from_str(raw.get()).unwrap()).collect();
                    let read: Map<_, _> = parts
                        .chunks_exact(2)
                        .map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone()))
                        .collect();
                    prop_assert_eq!(&Value::Object(read), value);
                }
            }
        }
    }
}
