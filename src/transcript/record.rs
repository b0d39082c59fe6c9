//! The lines of a transcript, read leniently.
//!
//! The format is internal to the vendor and changes without notice (recovery §1.1), so every field is optional
//! and a field of an unexpected type is as good as absent: it never costs the rest of the line. Text goes
//! through bytes, because a cut emoji leaves a lone surrogate escape in the JSON (field-reports G07), which
//! `serde_json` refuses in a `str`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// One line. Only what the digest needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry<'a> {
    #[serde(rename = "type", borrow, deserialize_with = "lenient")]
    pub kind: Option<Text<'a>>,
    #[serde(rename = "isSidechain", deserialize_with = "lenient")]
    pub is_sidechain: Option<bool>,
    #[serde(rename = "isMeta", deserialize_with = "lenient")]
    pub is_meta: Option<bool>,
    #[serde(rename = "isApiErrorMessage", deserialize_with = "lenient")]
    pub is_api_error: Option<bool>,
    #[serde(rename = "isCompactSummary", deserialize_with = "lenient")]
    pub is_compact_summary: Option<bool>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub parent_tool_use_id: Option<Text<'a>>,
    #[serde(rename = "sessionId", borrow, deserialize_with = "lenient")]
    pub session_id: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub cwd: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub timestamp: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub error: Option<Text<'a>>,
    #[serde(rename = "apiErrorStatus", deserialize_with = "lenient")]
    pub api_error_status: Option<u16>,
    #[serde(rename = "errorDetails", borrow, deserialize_with = "lenient")]
    pub error_details: Option<Text<'a>>,
    #[serde(borrow)]
    message: ObjectOrNothing<Message<'a>>,
}

/// The `message` of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow, deserialize_with = "lenient")]
    pub id: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub role: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub model: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub stop_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    usage: ObjectOrNothing<Usage>,
}

/// What a message cost.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    #[serde(rename = "input_tokens", deserialize_with = "lenient")]
    pub input: Option<u64>,
    #[serde(rename = "output_tokens", deserialize_with = "lenient")]
    pub output: Option<u64>,
    #[serde(rename = "cache_read_input_tokens", deserialize_with = "lenient")]
    pub cache_read: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens", deserialize_with = "lenient")]
    pub cache_creation: Option<u64>,
}

impl Message<'_> {
    /// What it cost, if it says so.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage.0
    }
}

/// A block of a message's content.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(rename = "type", borrow, deserialize_with = "lenient")]
    pub kind: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub text: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub id: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub name: Option<Text<'a>>,
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub tool_use_id: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub is_error: Option<bool>,
}

/// A line as text. The plain check first: the lossy conversion is several times slower even on valid text.
pub(super) fn lossy(line: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed)
}

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

impl<'a> Entry<'a> {
    /// A message of the conversation with the user: not of a sub-agent, no meta entry, no compaction summary,
    /// nothing that the CLI made up itself.
    pub(super) fn conversation(&self) -> Option<Role> {
        self.role().filter(|_| !self.is_side_chain() && !self.is_aside() && !self.is_synthetic())
    }

    /// Text of the CLI in the user's place: meta entries and the summary after a compaction.
    pub(super) fn is_aside(&self) -> bool {
        self.is_meta == Some(true) || self.is_compact_summary == Some(true)
    }

    /// The entry in `line`, or `None` when it is not a JSON object.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        // A struct also deserialises from an array; a line has to be an object.
        line.trim_start().starts_with('{').then(|| serde_json::from_str(line).ok()).flatten()
    }

    /// The role of a message; `None` for every other kind of entry. `type` decides, and only a line without
    /// one is judged by `message.role` (recovery §1.3).
    pub(super) fn role(&self) -> Option<Role> {
        let name = match (&self.kind, self.message()) {
            (Some(kind), _) => kind,
            (None, Some(Message { role: Some(role), .. })) => role,
            (None, _) => return None,
        };
        match name.as_str() {
            "user" => Some(Role::User),
            "assistant" => Some(Role::Assistant),
            _ => None,
        }
    }

    /// Belongs to a sub-agent.
    pub(super) fn is_side_chain(&self) -> bool {
        self.is_sidechain == Some(true) || self.parent_tool_use_id.is_some()
    }

    /// Written by the CLI and not by the model: API failures, "No response requested.".
    pub(super) fn is_synthetic(&self) -> bool {
        self.is_api_error == Some(true)
            || self
                .message()
                .and_then(|m| m.model.as_ref())
                .is_some_and(|model| model.as_str() == "<synthetic>")
    }

    /// The `message`, if it is an object.
    pub(super) fn message(&self) -> Option<&Message<'a>> {
        self.message.0.as_ref()
    }

    /// The content of the message, each block on its own.
    pub(super) fn content(&self) -> Content<'a> {
        let raw = self.message().and_then(|m| m.content).map_or("[]", RawValue::get);
        if let Ok(text) = serde_json::from_str(raw) {
            return Content::Text(text);
        }
        let blocks: Vec<ObjectOrNothing<Block<'a>>> = serde_json::from_str(raw).unwrap_or_default();
        Content::Blocks(blocks.into_iter().filter_map(|block| block.0).collect())
    }
}

/// A message's content.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Text(Text<'a>),
    Blocks(Vec<Block<'a>>),
}

impl<'a> Content<'a> {
    /// All text: the string, or the text blocks joined by a newline, trimmed (recovery §1.3).
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text.as_str().trim()),
            Self::Blocks(blocks) => {
                let mut texts = blocks.iter().filter(|b| b.is("text")).filter_map(|b| b.text.as_ref());
                match (texts.next(), texts.next()) {
                    (None, _) => Cow::Borrowed(""),
                    (Some(only), None) => Cow::Borrowed(only.as_str().trim()),
                    (Some(first), Some(second)) => {
                        let mut all = format!("{}\n{}", first.as_str(), second.as_str());
                        for text in texts {
                            all.push('\n');
                            all.push_str(text.as_str());
                        }
                        Cow::Owned(all.trim().to_owned())
                    }
                }
            }
        }
    }

    /// The blocks of one kind.
    pub(super) fn blocks<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = &'s Block<'a>> {
        let blocks: &[Block<'a>] = match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        };
        blocks.iter().filter(move |block| block.is(kind))
    }
}

impl Block<'_> {
    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind.as_ref().is_some_and(|k| k.as_str() == kind)
    }
}

/// A JSON string; lone surrogates become U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Text(lossy(bytes)))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

/// An object, or nothing for every other JSON value. Unlike [`lenient`] it reads its text only once, which
/// counts where the text can be many MiB.
#[derive(Debug)]
struct ObjectOrNothing<T>(Option<T>);

impl<T> Default for ObjectOrNothing<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ObjectOrNothing<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Any<T> {
            type Value = Option<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Some)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(None)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(None)
            }
        }

        deserializer.deserialize_any(Any(PhantomData)).map(Self)
    }
}

/// The value if it has the expected type, `None` for anything else that is valid JSON.
fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_the_wrong_type_costs_only_itself() {
        let line = r#"{"type":"assistant","isMeta":"yes","error":{"a":1},"apiErrorStatus":"429","cwd":7,
            "message":{"role":[],"content":[1,{"type":"text","text":"done"},{"type":"text","text":9},null,"x",[{}]]}}"#;
        let entry = Entry::parse(line).expect("valid JSON");
        assert_eq!(entry.role(), Some(Role::Assistant));
        assert_eq!((entry.is_meta, entry.api_error_status), (None, None));
        assert!(entry.error.is_none() && entry.cwd.is_none());
        assert_eq!(entry.content().text(), "done");
    }

    #[test]
    fn a_lone_surrogate_costs_one_character() {
        let line = r#"{"type":"assistant","message":{"content":"cut \ud83e"},"error":"a\ud83eb"}"#;
        let entry = Entry::parse(line).expect("valid JSON");
        assert!(entry.content().text().starts_with("cut \u{fffd}"));
        assert!(entry.error.is_some_and(|e| e.as_str().starts_with('a') && e.as_str().ends_with('b')));
    }

    #[test]
    fn roles() {
        for (line, expected) in [
            (r#"{"type":"user"}"#, Some(Role::User)),
            (r#"{"type":"user","message":null}"#, Some(Role::User)),
            (r#"{"type":"user","message":[1,{"a":[]}]}"#, Some(Role::User)),
            (r#"{"type":"user","message":-1.5}"#, Some(Role::User)),
            (r#"{"type":"user","message":true}"#, Some(Role::User)),
            (r#"{"message":{"role":"assistant"}}"#, Some(Role::Assistant)),
            (r#"{"type":"progress","message":{"role":"assistant"}}"#, None),
            (r#"{"type":"system"}"#, None),
            (r#"{"message":"x"}"#, None),
            ("{}", None),
        ] {
            assert_eq!(Entry::parse(line).and_then(|e| e.role()), expected, "{line}");
        }
        for not_an_object in ["[]", "null", "7", r#""x""#, "", "{", r#"{"type":"user"} x"#] {
            assert!(Entry::parse(not_an_object).is_none(), "{not_an_object}");
        }
    }
}
