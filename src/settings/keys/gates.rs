//! What sessions may do (design §8).

use super::{Group, file_only, spec};
use crate::core::gate::Policy;
use crate::settings::kinds::{Choice, RuleList};

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
pub static GATE_DENY: RuleList = RuleList {
    spec: file_only(
        "gate-deny",
        "AUTOPILOT_GATE_DENY",
        Group::Safety,
        "RULES",
        "Tool calls to refuse, before all else; as in Claude Code: `Bash(git push:*)`, `Edit(docs/**)`, `WebFetch`",
    ),
    example: "Bash(git push:*)",
};

/// Calls about which a person wants to be asked.
pub static GATE_ASK: RuleList = RuleList {
    spec: file_only(
        "gate-ask",
        "AUTOPILOT_GATE_ASK",
        Group::Safety,
        "RULES",
        "Tool calls for which a person wants to be asked: refused, since none is here",
    ),
    example: "Bash(npm install:*)",
};

/// Calls that are allowed.
pub static GATE_ALLOW: RuleList = RuleList {
    spec: file_only(
        "gate-allow",
        "AUTOPILOT_GATE_ALLOW",
        Group::Safety,
        "RULES",
        "Tool calls to allow; `deep: Bash(git push:*)` is for sessions of one kind",
    ),
    example: "Bash(npm run deploy)",
};
