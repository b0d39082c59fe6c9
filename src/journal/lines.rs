//! Lines of a shared JSONL file, read with tolerance.
//!
//! A healthy line is one JSON object. A damaged one may still hold whole records: two objects on one line
//! (a newline was lost), or a good object behind the fragment of a torn one (somebody appended without
//! closing the fragment off; field-reports N01), or an object with bytes that are not UTF-8. What can be
//! told apart is recovered, and the line is counted as damaged.
//!
//! From a damaged line only objects that carry an id are taken: a nested object of a torn record is also an
//! object, but not a record.
//!
//! Healthy lines go through the `jsonl` crate, always as the slice of one framed line: it has no length
//! limit, and to it a bad byte or the end of the file is an error (crates B1).

use std::ops::Range;

use memchr::{memchr_iter, memmem, memrchr};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// One JSON object, keys in alphabetical order.
pub(super) type Object = Map<String, Value>;

/// Fields by which a record is recognised in a damaged line.
const ID_KEYS: [&str; 3] = ["session_id", "autopilot_run_id", "run_id"];

/// Possible starts that are tried in one damaged line.
const MAX_STARTS: usize = 1024;

/// Bytes that are scanned for one damaged line, all tries together.
const MAX_SCANNED: usize = 32 << 20;

/// What a line holds.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// Nothing but white space.
    Blank,
    /// One record, as it should be.
    Whole(Object),
    /// Anything else: the records that could be recovered, with their place in the line, and whether bytes
    /// are left over that belong to none.
    Damaged { recovered: Vec<(Range<usize>, Object)>, garbage: bool },
}

/// Reads one line, with or without its newline.
pub(super) fn read_line(line: &[u8]) -> Line {
    if line.trim_ascii().is_empty() {
        return Line::Blank;
    }
    match jsonl::read::<_, Object>(line) {
        Ok(object) => Line::Whole(object),
        Err(_) => salvage(line),
    }
}

fn salvage(line: &[u8]) -> Line {
    let mut recovered = Vec::new();
    let mut at = 0;
    // Objects one after the other from the front.
    while let Some(span) = value_at(line, at) {
        at = span.end;
        recovered.extend(record(line, span));
    }
    let rest = at;
    let garbage = !line[rest..].trim_ascii().is_empty();
    // Behind the fragment: the last object that reaches to the end of the line. From the back, because the
    // start of a record comes before the starts of the objects nested in it, which end too early.
    let end = line.trim_ascii_end().len();
    if garbage && line[..end].ends_with(b"}") {
        let mut scanned = 0;
        for start in memmem::rfind_iter(&line[rest..end], b"{\"").map(|start| rest + start).take(MAX_STARTS) {
            scanned += end - start;
            if scanned > MAX_SCANNED {
                break;
            }
            if let Some(span) = value_at(line, start)
                && span.end == end
                && let Some(found) = record(line, span)
            {
                recovered.push(found);
                break;
            }
        }
    }
    Line::Damaged { recovered, garbage }
}

/// The extent of the JSON object that starts at (or behind white space from) `at`.
fn value_at(line: &[u8], at: usize) -> Option<Range<usize>> {
    let start = at + line[at..].iter().position(|byte| !byte.is_ascii_whitespace())?;
    if line[start] != b'{' {
        return None;
    }
    // Skipping does not recurse, and does not mind bytes inside of strings that are not UTF-8.
    let mut values = serde_json::Deserializer::from_slice(&line[start..]).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(start..start + values.byte_offset())
}

fn record(line: &[u8], span: Range<usize>) -> Option<(Range<usize>, Object)> {
    let object: Object = serde_json::from_str(&String::from_utf8_lossy(&line[span.clone()])).ok()?;
    ID_KEYS.iter().any(|key| object.get(*key).is_some_and(Value::is_string)).then_some((span, object))
}

/// Whether an appender has to close off the last line first.
pub(super) fn is_torn(bytes: &[u8]) -> bool {
    bytes.last().is_some_and(|byte| *byte != b'\n')
}

/// The lines of `bytes` with their newlines; the last one may lack it.
pub(super) fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr_iter(b'\n', bytes).map(|newline| newline + 1).chain((is_torn(bytes)).then_some(bytes.len())).map(
        move |end| {
            let line = &bytes[start..end];
            start = end;
            line
        },
    )
}

/// The extent of the line around `at`, without its newline.
pub(super) fn around(bytes: &[u8], at: usize) -> Range<usize> {
    let start = memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
    let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |newline| at + newline);
    start..end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ids of the records in a line, and whether there was garbage.
    fn look(line: &[u8]) -> (Vec<String>, bool) {
        let id = |object: &Object| object["session_id"].as_str().unwrap().to_owned();
        match read_line(line) {
            Line::Blank => (vec![], false),
            Line::Whole(object) => (vec![id(&object)], false),
            Line::Damaged { recovered, garbage } => {
                (recovered.iter().map(|(_, object)| id(object)).collect(), garbage)
            }
        }
    }

    #[test]
    fn what_can_be_recovered() {
        let check = |line: &[u8], ids: &[&str], garbage: bool| {
            assert_eq!(
                look(line),
                (ids.iter().map(|id| (*id).to_owned()).collect(), garbage),
                "{}",
                String::from_utf8_lossy(line)
            );
        };
        check(b"", &[], false);
        check(b" \r\n", &[], false);
        check(b"{\"session_id\":\"a\"}\n", &["a"], false);
        check(b"{\"session_id\":\"a\"}\r\n", &["a"], false);
        // Two on one line, with and without a blank.
        check(b"{\"session_id\":\"a\"}{\"session_id\":\"b\"}\n", &["a", "b"], false);
        check(b"{\"session_id\":\"a\"} {\"session_id\":\"b\"}", &["a", "b"], false);
        // A fragment, then a good one; nested objects do not count as records.
        check(b"{\"session_id\":\"a\",\"w\":[{\"x\":1{\"session_id\":\"b\",\"n\":{\"y\":1}}\n", &["b"], true);
        check(b"{\"session_id\":\"a\",\"n\":{\"complete\":1}\n", &[], true);
        check(b"{\"session_id\":\"a\"}{\"session_id\":\"b", &["a"], true);
        check(b"\0\0\0\0{\"session_id\":\"a\"}\n", &["a"], true);
        check(b"{\"session_id\":\"a\",\"t\":\"\xff\xfe\"}\n", &["a"], false);
        // Not objects.
        for no in [b"1".as_slice(), b"[]", b"\"x\"", b"null", b"nonsense", b"\xff", b"{", b"}", b"{}{}"] {
            assert!(look(no).0.is_empty());
        }
    }

    #[test]
    fn a_damaged_line_costs_a_bounded_time() {
        let nested = b"{\"a\":".repeat(200_000);
        assert_eq!(look(&nested).0.len(), 0);
        let mut many = b"{\"a\":1},".repeat(200_000);
        many.push(b'}');
        assert_eq!(look(&many).0.len(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn splitting_loses_nothing(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200)) {
            let parts: Vec<_> = split(&bytes).collect();
            prop_assert_eq!(&parts.concat(), &bytes);
            prop_assert!(parts.iter().all(|part| !part.is_empty() && !part[..part.len() - 1].contains(&b'\n')));
        }

        #[test]
        fn no_bytes_upset_it(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            read_line(&bytes);
        }

        #[test]
        fn no_json_like_bytes_upset_it(text in "[{}\\[\\]\":,0-9a\\\\ \u{0}ä]{0,200}") {
            read_line(text.as_bytes());
        }
    }
}
