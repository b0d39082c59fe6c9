//! Finds whole messages inside a line that is not one JSON value.
//!
//! Theory: two writers share a pipe and one event lands in the middle of another (field-reports C01), a
//! newline is lost between two events, or a banner precedes the first one. The torn message is gone, but
//! what was glued in is intact: from each `{"` on, one JSON object is tried.
//!
//! Invariants: only objects whose `type` is one of this protocol's top-level types count, so that a content
//! block of the torn message is not taken for a message. Quotes inside JSON strings are escaped, so text
//! that a model or a tool quotes cannot match. Work is linear: failed attempts draw on a budget.

use memchr::memmem;

use super::{Anomaly, MAX_MESSAGES, Message, sample};
use crate::protocol::{
    lenient::{Line, Object},
    raw::Raw,
};

/// Bytes that may be read in vain, in lengths of the line.
const BUDGET: usize = 8;

/// Delivers the messages in `text`, and notes the one anomaly that the line is.
pub(super) fn read(text: &str, messages: &mut Vec<Message>, line: &Line) {
    let before = messages.len();
    let mut budget = text.len().saturating_mul(BUDGET);
    let mut at = 0;
    let brace = memmem::Finder::new(b"{\"");
    while let Some(found) = brace.find(&text.as_bytes()[at..]) {
        let start = at + found;
        match Raw::parse_prefix(&text[start..]) {
            Ok((raw, len)) => {
                at = start + len;
                let object = Object::new(raw, line).filter(|object| {
                    messages.len() < MAX_MESSAGES
                        && object.str("type").is_some_and(|label| Message::is_known(&label))
                });
                messages.extend(object.map(|object| Message::read(&object)));
            }
            Err(read) => {
                at = start + 2;
                match budget.checked_sub(read) {
                    Some(left) => budget = left,
                    None => break,
                }
            }
        }
    }
    line.note(match messages.len() - before {
        0 => Anomaly::NotJson { len: text.len(), sample: sample(text) },
        salvaged => Anomaly::Glued { salvaged, sample: sample(text) },
    });
}
