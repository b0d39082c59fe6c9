//! What was found in a call, before rules and policy are applied.

use std::path::PathBuf;

/// How much is against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// It changes nothing.
    Nothing,
    /// Everyday work inside the tree.
    Ordinary,
    /// It reaches outside, or nobody knows what it does.
    Foreign,
    /// Dangerous; an allow rule can lift it.
    Refused,
    /// No prefix rule can lift it, only one that names the very command.
    Never,
}

/// What rules are held against.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Subject {
    /// A command, with its words joined by spaces.
    Command(String),
    /// A file that is written, absolute.
    Written(PathBuf),
    /// A file that is read, absolute.
    Read(PathBuf),
    /// The input of another tool.
    Tool(serde_json::Value),
}

/// One part of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    /// For people; empty = the tool itself.
    pub(super) what: String,
    /// For rules.
    pub(super) subject: Subject,
    /// How much is against it.
    pub(super) weight: Weight,
    /// Why, as the end of a sentence; for a refusal with what to do instead.
    pub(super) reason: String,
    /// It was refused only because git has not been asked yet.
    pub(super) asks: bool,
}
