//! The ten kill-switches: when a run stops, and the words it stops with.
//!
//! The enum, the order of the checks, the operators and the wording of the details are those of
//! upstream-formats §2.2 and §3.2 and of design §4; the defects of §15 are not copied. A missing
//! measurement never kills: every input that may be unknown is an `Option`, and `None` passes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::published::SwitchInputs;

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

/// A switch that fired, with its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    /// Which.
    pub switch: KillSwitch,
    /// What was compared, as upstream-formats §3.2 words it.
    pub detail: String,
}

fn fired(switch: KillSwitch, detail: String) -> Fired {
    Fired { switch, detail }
}

/// The switches that may fire before a session, in their order; abort is checked by the caller, first.
#[must_use]
pub fn before_session(inputs: &SwitchInputs) -> Option<Fired> {
    let SwitchInputs { iterations, max_sessions, elapsed_hours, max_hours, tokens, max_tokens, .. } = inputs;
    if iterations >= max_sessions {
        return Some(fired(
            KillSwitch::MaxSessionsReached,
            format!("iterations_completed={iterations} >= max-sessions={max_sessions}"),
        ));
    }
    if elapsed_hours >= max_hours {
        return Some(fired(
            KillSwitch::MaxHoursExceeded,
            format!("elapsed={}h >= max-hours={}h", rounded(*elapsed_hours), rounded(*max_hours)),
        ));
    }
    if *max_tokens > 0 && tokens >= max_tokens {
        return Some(fired(
            KillSwitch::TokenBudgetExceeded,
            format!("cumulative_tokens={tokens} >= max-tokens={max_tokens}"),
        ));
    }
    if let (Some(cost), Some(limit)) = (inputs.cost_usd, inputs.max_cost_usd)
        && cost >= limit
    {
        return Some(fired(
            KillSwitch::TokenBudgetExceeded,
            format!("cumulative_cost_usd={} >= max-cost={}", rounded(cost), rounded(limit)),
        ));
    }
    if let Some(peers) = inputs.peers
        && inputs.resources == "critical"
        && peers > inputs.peer_abort
    {
        return Some(fired(
            KillSwitch::ResourceOverload,
            format!("verdict=critical peers={peers} > threshold={}", inputs.peer_abort),
        ));
    }
    None
}

/// The switches that may fire after a session, in their order; `stalled_seconds` is set when the session
/// hung and could not be healed.
#[must_use]
pub fn after_session(inputs: &SwitchInputs, stall: Option<&Stall>) -> Option<Fired> {
    if let Some(Stall { seconds, threshold, marker }) = stall {
        return Some(fired(
            KillSwitch::StallTimeout,
            format!("stalled {seconds}s ≥ threshold {threshold}s (marker={marker})"),
        ));
    }
    if let Some(spiral) = inputs.spiral.filter(|count| *count > 0.0) {
        return Some(fired(KillSwitch::Spiral, format!("agent_summary.spiral={} > 0", rounded(spiral))));
    }
    if let Some(failed) = inputs.failed.filter(|count| *count > 0.0) {
        return Some(fired(KillSwitch::FailedWave, format!("agent_summary.failed={} > 0", rounded(failed))));
    }
    if let (Some(planned), Some(carryover)) = (inputs.planned, inputs.carryover)
        && planned.is_finite()
        && planned > 0.0
        && carryover.is_finite()
    {
        let ratio = carryover / planned;
        if ratio > inputs.carryover_threshold {
            return Some(fired(
                KillSwitch::CarryoverTooHigh,
                format!(
                    "carryover/planned={} > threshold={} (carryover={}, planned={})",
                    rounded(ratio),
                    inputs.carryover_threshold,
                    rounded(carryover),
                    rounded(planned)
                ),
            ));
        }
    }
    None
}

/// A hang that no recovery healed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// Silence in whole seconds.
    pub seconds: u64,
    /// The deadline it passed.
    pub threshold: u64,
    /// What was watched.
    pub marker: &'static str,
}

/// At most two decimals, never padded, as the details print numbers (upstream-formats §3.2).
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> SwitchInputs {
        SwitchInputs {
            max_sessions: 5,
            max_hours: 4.0,
            max_tokens: 500_000,
            resources: "green".to_owned(),
            peer_abort: 6,
            carryover_threshold: 0.5,
            ..SwitchInputs::default()
        }
    }

    fn check_before(change: impl FnOnce(&mut SwitchInputs), expected: Option<(KillSwitch, &str)>) {
        let mut inputs = quiet();
        change(&mut inputs);
        let got = before_session(&inputs);
        assert_eq!(got.as_ref().map(|fired| (fired.switch, fired.detail.as_str())), expected, "{inputs:?}");
    }

    fn check_after(change: impl FnOnce(&mut SwitchInputs), expected: Option<(KillSwitch, &str)>) {
        let mut inputs = quiet();
        change(&mut inputs);
        let got = after_session(&inputs, None);
        assert_eq!(got.as_ref().map(|fired| (fired.switch, fired.detail.as_str())), expected, "{inputs:?}");
    }

    #[test]
    fn before_a_session() {
        use KillSwitch::{MaxHoursExceeded, MaxSessionsReached, ResourceOverload, TokenBudgetExceeded};
        check_before(|_| {}, None);
        check_before(
            |i| i.iterations = 5,
            Some((MaxSessionsReached, "iterations_completed=5 >= max-sessions=5")),
        );
        check_before(|i| i.elapsed_hours = 3.999, None);
        check_before(|i| i.elapsed_hours = 4.0, Some((MaxHoursExceeded, "elapsed=4h >= max-hours=4h")));
        check_before(
            |i| (i.elapsed_hours, i.max_hours) = (0.6667, 0.5),
            Some((MaxHoursExceeded, "elapsed=0.67h >= max-hours=0.5h")),
        );
        check_before(|i| i.tokens = 499_999, None);
        check_before(
            |i| i.tokens = 600_000,
            Some((TokenBudgetExceeded, "cumulative_tokens=600000 >= max-tokens=500000")),
        );
        check_before(|i| (i.tokens, i.max_tokens) = (600_000, 0), None);
        check_before(|i| i.max_cost_usd = Some(7.0), None);
        check_before(
            |i| (i.cost_usd, i.max_cost_usd) = (Some(10.0), Some(7.0)),
            Some((TokenBudgetExceeded, "cumulative_cost_usd=10 >= max-cost=7")),
        );
        let overload = |peers, tier: &'static str| {
            move |i: &mut SwitchInputs| (i.peers, i.resources) = (peers, tier.to_owned())
        };
        check_before(overload(Some(6), "critical"), None);
        check_before(overload(Some(8), "warn"), None);
        check_before(overload(None, "critical"), None);
        check_before(
            overload(Some(8), "critical"),
            Some((ResourceOverload, "verdict=critical peers=8 > threshold=6")),
        );
    }

    #[test]
    fn the_first_of_the_order_wins() {
        let everything = |i: &mut SwitchInputs| {
            i.iterations = 9;
            i.elapsed_hours = 9.0;
            i.tokens = 900_000;
            i.peers = Some(9);
            i.resources = "critical".to_owned();
        };
        check_before(
            everything,
            Some((KillSwitch::MaxSessionsReached, "iterations_completed=9 >= max-sessions=5")),
        );
    }

    #[test]
    fn after_a_session() {
        use KillSwitch::{CarryoverTooHigh, FailedWave, Spiral};
        check_after(|_| {}, None);
        check_after(|i| i.spiral = Some(0.0), None);
        check_after(|i| i.spiral = Some(-1.0), None);
        check_after(|i| i.spiral = Some(f64::NAN), None);
        check_after(|i| i.spiral = Some(2.0), Some((Spiral, "agent_summary.spiral=2 > 0")));
        check_after(|i| i.failed = Some(3.0), Some((FailedWave, "agent_summary.failed=3 > 0")));
        check_after(
            |i| (i.spiral, i.failed) = (Some(1.0), Some(1.0)),
            Some((Spiral, "agent_summary.spiral=1 > 0")),
        );
        let carry = |carryover, planned, threshold| {
            move |i: &mut SwitchInputs| {
                (i.carryover, i.planned, i.carryover_threshold) = (Some(carryover), Some(planned), threshold);
            }
        };
        check_after(carry(2.0, 4.0, 0.5), None);
        check_after(carry(3.0, 0.0, 0.5), None);
        check_after(|i| i.carryover = Some(3.0), None);
        check_after(
            carry(3.0, 4.0, 0.5),
            Some((CarryoverTooHigh, "carryover/planned=0.75 > threshold=0.5 (carryover=3, planned=4)")),
        );
        check_after(
            carry(3.0, 10.0, 0.2),
            Some((CarryoverTooHigh, "carryover/planned=0.3 > threshold=0.2 (carryover=3, planned=10)")),
        );
    }

    #[test]
    fn a_stall_outranks_the_rest() {
        let inputs = SwitchInputs { spiral: Some(2.0), ..quiet() };
        let stall = Stall { seconds: 600, threshold: 600, marker: "stream" };
        let fired = after_session(&inputs, Some(&stall)).unwrap();
        assert_eq!(fired.switch, KillSwitch::StallTimeout);
        assert_eq!(fired.detail, "stalled 600s ≥ threshold 600s (marker=stream)");
    }

    #[test]
    fn names_are_unique_and_ten() {
        let names: std::collections::BTreeSet<_> =
            KillSwitch::ALL.into_iter().map(KillSwitch::as_str).collect();
        assert_eq!(names.len(), 10);
    }
}
