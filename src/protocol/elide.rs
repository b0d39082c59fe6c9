//! Cuts the long strings out of a JSON line while it streams past.
//!
//! Theory: a line that is too long to hold is nearly always one giant string (the output of a tool, the
//! content of a file) among small fields that matter. [`Elider`] copies the line byte by byte to a buffer,
//! but of every JSON string it keeps only the head, followed by a note of how much is gone. What comes out
//! is again one valid JSON line.
//!
//! Invariants: the output depends on the input bytes only, never on how they were cut into pieces; it only
//! grows; valid JSON in gives valid JSON out. Pitfall: a string may only be cut between characters, so not
//! inside an escape, inside a UTF-8 sequence, or between the halves of an escaped surrogate pair (half a
//! pair is a syntax error to a strict parser).

use memchr::{memchr, memchr2};

/// Streaming state of one line; see the module documentation.
#[derive(Debug)]
pub(super) struct Elider {
    head: usize,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// Between strings: everything is copied.
    Outside,
    /// Inside a string whose bytes are still copied.
    Keeping { kept: usize, escape: Escape, high_surrogate: bool },
    /// Inside a string whose head is full.
    Dropping { dropped: u64, backslash: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    Backslash,
    Unicode { digits: u8, value: u32 },
}

impl Elider {
    /// `head` is the number of raw bytes of each string to keep.
    pub(super) fn new(head: usize) -> Self {
        Self { head, place: Place::Outside }
    }

    /// Takes the next piece of the line and appends what is kept of it to `out`.
    pub(super) fn feed(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while !input.is_empty() {
            let used = match self.place {
                Place::Outside => self.outside(input, out),
                Place::Keeping { kept, escape, high_surrogate } => {
                    self.keeping(input, out, kept, escape, high_surrogate)
                }
                Place::Dropping { dropped, backslash } => self.dropping(input, out, dropped, backslash),
            };
            input = &input[used..];
        }
    }

    fn outside(&mut self, input: &[u8], out: &mut Vec<u8>) -> usize {
        let used = memchr(b'"', input).map_or(input.len(), |quote| {
            self.place = Place::Keeping { kept: 0, escape: Escape::None, high_surrogate: false };
            quote + 1
        });
        out.extend_from_slice(&input[..used]);
        used
    }

    fn keeping(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        kept: usize,
        escape: Escape,
        high_surrogate: bool,
    ) -> usize {
        let byte = input[0];
        if escape == Escape::None {
            let inside_character = byte & 0xC0 == 0x80 || (high_surrogate && byte == b'\\');
            if kept >= self.head && byte != b'"' && !inside_character {
                self.place = Place::Dropping { dropped: 0, backslash: false };
                return 0;
            }
            // The bulk of a string: a run without escapes, up to the head's end.
            let window = &input[..input.len().min(self.head.saturating_sub(kept))];
            let run = memchr2(b'"', b'\\', window).unwrap_or(window.len());
            if run > 0 {
                out.extend_from_slice(&window[..run]);
                self.place = Place::Keeping { kept: kept + run, escape: Escape::None, high_surrogate: false };
                return run;
            }
        }
        out.push(byte);
        let (escape, high_surrogate) = match (escape, byte) {
            (Escape::None, b'"') => {
                self.place = Place::Outside;
                return 1;
            }
            (Escape::None, b'\\') => (Escape::Backslash, high_surrogate),
            (Escape::Backslash, b'u') => (Escape::Unicode { digits: 0, value: 0 }, false),
            (Escape::None | Escape::Backslash, _) => (Escape::None, false),
            (Escape::Unicode { digits, value }, _) => {
                let value = value << 4 | char::from(byte).to_digit(16).unwrap_or(0);
                match digits {
                    3 => (Escape::None, (0xD800..0xDC00).contains(&value)),
                    _ => (Escape::Unicode { digits: digits + 1, value }, false),
                }
            }
        };
        self.place = Place::Keeping { kept: kept + 1, escape, high_surrogate };
        1
    }

    fn dropping(&mut self, input: &[u8], out: &mut Vec<u8>, dropped: u64, backslash: bool) -> usize {
        if backslash {
            self.place = Place::Dropping { dropped: dropped + 1, backslash: false };
            return 1;
        }
        let run = memchr2(b'"', b'\\', input).unwrap_or(input.len());
        let dropped = dropped + run as u64;
        match input.get(run) {
            None => {
                self.place = Place::Dropping { dropped, backslash: false };
                run
            }
            Some(b'"') => {
                out.extend_from_slice(format!(" [{dropped} bytes cut]\"").as_bytes());
                self.place = Place::Outside;
                run + 1
            }
            Some(_) => {
                self.place = Place::Dropping { dropped: dropped + 1, backslash: true };
                run + 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn elide(line: &str, head: usize, piece: usize) -> String {
        let mut elider = Elider::new(head);
        let mut out = Vec::new();
        for piece in line.as_bytes().chunks(piece) {
            elider.feed(piece, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_cut_between_characters() {
        #[track_caller]
        fn check(line: &str, expected: &str) {
            for piece in [1, 2, 3, 100] {
                assert_eq!(elide(line, 4, piece), expected, "in pieces of {piece}");
            }
        }
        check(r#"{"a":"bcd","n":[1,2]}"#, r#"{"a":"bcd","n":[1,2]}"#);
        check(r#"["abcd"]"#, r#"["abcd"]"#);
        check(r#"["abcde"]"#, r#"["abcd [1 bytes cut]"]"#);
        check(r#"["abcdefgh",1]"#, r#"["abcd [4 bytes cut]",1]"#);
        // An escape that starts before the limit is finished, also an escaped quote or backslash.
        check(r#"["abc\"xy"]"#, r#"["abc\" [2 bytes cut]"]"#);
        check(r#"["abc\\xy"]"#, r#"["abc\\ [2 bytes cut]"]"#);
        check(r#"["abc\u00e9xy"]"#, r#"["abc\u00e9 [2 bytes cut]"]"#);
        // A quote in the dropped part does not end the string.
        check(r#"["abcdef\"gh"]"#, r#"["abcd [6 bytes cut]"]"#);
        check(r#"["abcdef\\"]"#, r#"["abcd [4 bytes cut]"]"#);
        // Both halves of a surrogate pair, or neither.
        check(r#"["abc\ud83d\ude00xy"]"#, r#"["abc\ud83d\ude00 [2 bytes cut]"]"#);
        check(r#"["abc\ud83dxy"]"#, r#"["abc\ud83d [2 bytes cut]"]"#);
        // UTF-8 sequences stay whole.
        check("[\"abc\u{1F600}xy\"]", "[\"abc\u{1F600} [2 bytes cut]\"]");
    }

    proptest! {
        #[test]
        fn valid_json_stays_valid_and_pieces_do_not_matter(
            texts in prop::collection::vec(any::<String>(), 1..5),
            ascii in any::<bool>(),
            head in 0_usize..40,
            piece in 1_usize..50,
        ) {
            let mut line = serde_json::to_string(&texts).unwrap();
            if ascii {
                // Node and Python may escape everything beyond ASCII; surrogate pairs appear.
                line = line.encode_utf16().map(|unit| match u8::try_from(unit) {
                    Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
                    _ => format!("\\u{unit:04x}"),
                }).collect::<Vec<_>>().concat();
            }
            let whole = elide(&line, head, usize::MAX);
            prop_assert_eq!(&whole, &elide(&line, head, piece));
            let back: Vec<String> = serde_json::from_str(&whole).unwrap();
            prop_assert_eq!(back.len(), texts.len());
            for (cut, text) in back.iter().zip(&texts) {
                let kept = cut.rsplit_once(" [").map_or(cut.as_str(), |(kept, _)| kept);
                prop_assert!(cut == text || text.starts_with(kept));
            }
        }
    }
}
