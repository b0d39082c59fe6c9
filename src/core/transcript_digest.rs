//! What a transcript says about a turn: the pure value that the judge of outcomes reads.
//!
//! Theory of operation: before a turn is started the driver records the size of the transcript, the *offset*.
//! Afterwards everything that starts at or behind it belongs to the turn (recovery §1.6). `transcript::digest`
//! reads the end of the file once and fills a [`TranscriptDigest`]; nothing here does I/O.
//!
//! Invariants
//! - Only the main chain counts: side chains, meta entries, compaction summaries and synthetic entries decide
//!   nothing and are never a reply (recovery §1.3, field-reports I08, claude-code §4).
//! - [`TranscriptDigest::reply`] is text written after the offset or nothing: a reply of an earlier turn is
//!   never handed out as the new one.
//! - What a bounded read did not see is said to be unknown ([`Resumable::Unknown`], [`Open::NotSeen`],
//!   [`Tally::exact`]), never guessed.
//!
//! Pitfalls
//! - The turn-over predicate is not proof while a process lives: the preamble of a tool call is a line of its
//!   own, up to about 70 s before the call (recovery §1.5). It is meant for a turn whose process is dead.
//! - [`Growth::Shrunk`] is not "nothing happened": reconcile (recovery §1.9).

use serde::{Deserialize, Serialize};

use super::published::Tokens;

/// The transcript of one session, seen from one offset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptDigest {
    /// Whether there is a file at all.
    pub exists: bool,
    /// Bytes; 0 without a file.
    pub size: u64,
    /// How the size compares with the offset.
    pub growth: Growth,
    /// Whether the conversation can be resumed.
    pub resumable: Resumable,
    /// Whether the last turn in the file has ended (recovery §1.5), whatever the offset.
    pub turn_over: TurnOver,
    /// The last main-chain reply text after the offset.
    pub reply: Option<Excerpt>,
    /// Input of the last accepted or pending `StructuredOutput` call after the offset, as JSON text: the
    /// session report when the stream lost its result line. Absent when it is over the reply limit.
    pub structured_output: Option<String>,
    /// The API failure, if the last main-chain assistant line after the offset is one (field-reports I14).
    pub api_error: Option<ApiError>,
    /// Entries after the offset.
    pub after: Tally,
    /// Tokens of the main chain's messages after the offset, each message once; a lower bound unless
    /// [`Tally::exact`].
    pub tokens_after: Tokens,
    /// Ids of tool calls of the last turn that have no result (field-reports I09, G03), oldest first.
    pub dangling_tool_use: Vec<String>,
    /// The file ends in the middle of a line (field-reports I01). The line is ignored.
    pub torn_tail: bool,
    /// Lines in the part that was read which are not JSON objects, the torn tail not among them.
    pub bad_lines: u64,
    /// Lines in the part that was read which had NUL bytes around them (a host crash leaves such blocks).
    pub nul_lines: u64,
    /// Lines in the part that was read which were too long to be looked at.
    pub oversized_lines: u64,
    /// `timestamp` of the last entry that has one, as written (field-reports I16).
    pub last_timestamp: Option<String>,
    /// Bytes read to find this out.
    pub scanned: u64,
}

impl TranscriptDigest {
    /// Whether the model did anything after the offset: an assistant entry that is not an API failure.
    /// When it did not, the same prompt can be given again (recovery §1.9, first row). An inexact tally and a
    /// shrunk file are `None`: unknown.
    pub fn model_ran(&self) -> Option<bool> {
        match self.growth {
            Growth::Shrunk { .. } => None,
            Growth::Unchanged => Some(false),
            Growth::Grown { .. } if self.after.assistant > 0 => Some(true),
            Growth::Grown { .. } => self.after.exact.then_some(false),
        }
    }
}

/// The size against the offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// Exactly the offset (a missing file at offset 0 is that, too).
    #[default]
    Unchanged,
    /// Longer.
    Grown {
        /// Bytes added.
        by: u64,
    },
    /// Shorter or gone: not append-only any more, so what happened is unknown (recovery §1.6).
    Shrunk {
        /// Bytes missing.
        by: u64,
    },
}

impl Growth {
    /// Compares a size with the offset recorded before the turn.
    pub fn of(size: u64, offset: u64) -> Self {
        match size.cmp(&offset) {
            std::cmp::Ordering::Equal => Self::Unchanged,
            std::cmp::Ordering::Greater => Self::Grown { by: size - offset },
            std::cmp::Ordering::Less => Self::Shrunk { by: offset - size },
        }
    }
}

/// Whether `--resume` can work: at least one user or assistant message with text (recovery §1.7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resumable {
    /// A message with text was seen.
    Yes,
    /// The whole file was read and has none, or there is no file. A file like this blocks its id
    /// (claude-code §4, "a wedged id").
    #[default]
    No,
    /// None in the part that was read, and the file is longer than that.
    Unknown,
}

/// Whether the last turn in the file has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnOver {
    /// No user or assistant message in the whole file, or no file.
    #[default]
    NoMessage,
    /// The turn is open.
    NotOver {
        /// What the last message is.
        why: Open,
    },
    /// The turn has ended.
    Over {
        /// What shows it.
        by: Ended,
    },
}

/// Why a turn counts as open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Open {
    /// The last message is a prompt that nobody answered.
    Prompt,
    /// The last message is the result of a tool call.
    ToolResult,
    /// The last message is a note that the user interrupted.
    Interrupted,
    /// The last message calls a tool.
    ToolUse,
    /// The last message has neither text nor a tool call (thinking only, blank).
    NoText,
    /// The last message has text, but its stop reason says that more comes.
    StopReason(String),
    /// The last assistant line is an API failure.
    ApiError,
    /// The last line is too long to be looked at.
    Oversized,
    /// No message in the part that was read, and the file is longer than that.
    NotSeen,
}

/// What shows the end of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Text and a stop reason that ends a turn (`end_turn`, `stop_sequence`, `max_tokens`, …): the strong sign.
    StopReason(String),
    /// Text without a stop reason: the weak sign.
    Text,
    /// An accepted `StructuredOutput` call: how a turn with `--json-schema` ends, with stop reason `tool_use`
    /// (claude-code §3).
    StructuredOutput,
}

/// Text from a transcript, cut to a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// The beginning of the text, cut on a character boundary.
    pub text: String,
    /// Bytes that were cut off.
    pub cut: u64,
}

impl Excerpt {
    /// The first `limit` bytes of `text`, or a little less so that no character is split.
    pub fn new(text: &str, limit: usize) -> Self {
        let end = text.floor_char_boundary(limit);
        Self { text: text[..end].to_owned(), cut: (text.len() - end) as u64 }
    }
}

/// An API failure as a transcript line (claude-code §4, field-reports I14).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// `error`: the class, for example `rate_limit`.
    pub class: Option<String>,
    /// `apiErrorStatus`: the HTTP status.
    pub status: Option<u16>,
    /// The text shown to the user.
    pub text: Excerpt,
    /// `errorDetails`, when it is text.
    pub details: Option<Excerpt>,
}

/// Main-chain entries after the offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// User entries that are no tool results.
    pub prompts: u64,
    /// User entries with a tool result.
    pub tool_results: u64,
    /// Assistant entries that are no API failures. One message of the model is several entries.
    pub assistant: u64,
    /// API failures.
    pub api_errors: u64,
    /// Everything after the offset was read; else the figures are lower bounds.
    pub exact: bool,
}

impl Tally {
    /// All messages after the offset.
    pub fn messages(&self) -> u64 {
        let Self { prompts, tool_results, assistant, api_errors, exact: _ } = self;
        prompts + tool_results + assistant + api_errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_names_the_difference() {
        for (size, offset, expected) in [
            (0, 0, Growth::Unchanged),
            (7, 7, Growth::Unchanged),
            (9, 7, Growth::Grown { by: 2 }),
            (0, 7, Growth::Shrunk { by: 7 }),
        ] {
            assert_eq!(Growth::of(size, offset), expected, "{size} {offset}");
        }
    }

    #[test]
    fn excerpts_never_split_a_character() {
        for (text, limit, expected, cut) in [
            ("", 3, "", 0),
            ("abc", 3, "abc", 0),
            ("abcd", 3, "abc", 1),
            ("aéé", 4, "aé", 2),
            ("🦀", 3, "", 4),
        ] {
            assert_eq!(Excerpt::new(text, limit), Excerpt { text: expected.to_owned(), cut }, "{text:?}");
        }
    }

    #[test]
    fn whether_the_model_ran() {
        let tally = |assistant, exact| Tally { prompts: 1, assistant, exact, ..Tally::default() };
        for (growth, after, expected) in [
            (Growth::Unchanged, Tally::default(), Some(false)),
            (Growth::Grown { by: 9 }, tally(0, true), Some(false)),
            (Growth::Grown { by: 9 }, tally(0, false), None),
            (Growth::Grown { by: 9 }, tally(2, false), Some(true)),
            (Growth::Shrunk { by: 9 }, tally(0, true), None),
        ] {
            let digest = TranscriptDigest { exists: true, growth, after, ..TranscriptDigest::default() };
            assert_eq!(digest.model_ran(), expected, "{growth:?} {after:?}");
        }
    }
}
