//! What sessions may do (design §8).

use std::marker::PhantomData;

use super::{Group, file_only, spec};
use crate::core::gate::{Policy, Rule};
use crate::settings::kinds::{Choice, ParsedList};

/// `--gate`.
pub static GATE: Choice<Policy> = Choice {
    spec: spec(
        "gate",
        "AUTOPILOT_GATE",
        Group::Safety,
        "POLICY",
        "Tool calls of sessions: refuse what is dangerous (guard), refuse all but gate-allow (strict), judge nothing (off)",
    ),
    options: &[("guard", Policy::Guard), ("strict", Policy::Strict), ("off", Policy::Off)],
};

/// Calls that are refused.
pub static GATE_DENY: ParsedList<Rule> = ParsedList {
    spec: file_only(
        "gate-deny",
        "AUTOPILOT_GATE_DENY",
        Group::Safety,
        "RULES",
        "Tool calls to refuse, before all else; as in Claude Code: `Bash(git push:*)`, `Edit(docs/**)`, `WebFetch`",
    ),
    what: "rules",
    example: "Bash(git push:*)",
    default: &[],
    secret: false,
    meaning: PhantomData,
};

/// Calls about which a person wants to be asked.
pub static GATE_ASK: ParsedList<Rule> = ParsedList {
    spec: file_only(
        "gate-ask",
        "AUTOPILOT_GATE_ASK",
        Group::Safety,
        "RULES",
        "Tool calls for which a person wants to be asked: refused, since none is here",
    ),
    what: "rules",
    example: "Bash(npm install:*)",
    default: &[],
    secret: false,
    meaning: PhantomData,
};

/// Calls that are allowed.
pub static GATE_ALLOW: ParsedList<Rule> = ParsedList {
    spec: file_only(
        "gate-allow",
        "AUTOPILOT_GATE_ALLOW",
        Group::Safety,
        "RULES",
        "Tool calls to allow; `deep: Bash(git push:*)` is for sessions of one kind",
    ),
    what: "rules",
    example: "Bash(npm run deploy)",
    default: &[],
    secret: false,
    meaning: PhantomData,
};
