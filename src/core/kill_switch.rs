//! The ten kill-switches: when a run stops, and the words it stops with.
//!
//! The enum, the order of the checks, the operators and the wording of the details are those of
//! upstream-formats §2.2 and §3.2 and of design §4; the defects of §15 are not copied. A missing
//! measurement never kills: every input that may be unknown is an `Option`, and `None` passes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a run stopped. Ten values, and never an eleventh (design §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KillSwitch {
    /// The planned number of sessions is done: the normal good end.
    MaxSessionsReached,
    /// The wall-clock budget is spent.
    MaxHoursExceeded,
    /// The machine is critically short of resources while many peers run.
    ResourceOverload,
    /// From iteration 2 on: not sure enough what to do next.
    LowConfidenceFallback,
    /// A person or the system asked for the end.
    UserAbort,
    /// The token or cost budget is spent.
    TokenBudgetExceeded,
    /// A session hung and could not be healed.
    StallTimeout,
    /// Sub-agents went round in circles.
    Spiral,
    /// A wave of sub-agents, the verification, or the session itself failed.
    FailedWave,
    /// Too much of the planned work was left over.
    CarryoverTooHigh,
}

impl KillSwitch {
    /// All switches, in the order of upstream-formats §3.1.
    pub const ALL: [KillSwitch; 10] = [
        KillSwitch::MaxSessionsReached,
        KillSwitch::MaxHoursExceeded,
        KillSwitch::ResourceOverload,
        KillSwitch::LowConfidenceFallback,
        KillSwitch::UserAbort,
        KillSwitch::TokenBudgetExceeded,
        KillSwitch::StallTimeout,
        KillSwitch::Spiral,
        KillSwitch::FailedWave,
        KillSwitch::CarryoverTooHigh,
    ];

    /// The name used in records and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            KillSwitch::MaxSessionsReached => "max-sessions-reached",
            KillSwitch::MaxHoursExceeded => "max-hours-exceeded",
            KillSwitch::ResourceOverload => "resource-overload",
            KillSwitch::LowConfidenceFallback => "low-confidence-fallback",
            KillSwitch::UserAbort => "user-abort",
            KillSwitch::TokenBudgetExceeded => "token-budget-exceeded",
            KillSwitch::StallTimeout => "stall-timeout",
            KillSwitch::Spiral => "spiral",
            KillSwitch::FailedWave => "failed-wave",
            KillSwitch::CarryoverTooHigh => "carryover-too-high",
        }
    }

    /// Whether this is an end the operator planned for (exit code 0, not a bad ending for the verdict).
    #[must_use]
    pub fn is_planned(self) -> bool {
        matches!(
            self,
            KillSwitch::MaxSessionsReached | KillSwitch::MaxHoursExceeded | KillSwitch::TokenBudgetExceeded
        )
    }
}

impl fmt::Display for KillSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
