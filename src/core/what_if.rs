//! What the recorded decisions of a run would have been with other limits (`explain --what-if`).
//!
//! The same pure functions decide again on the inputs as they were recorded. The first decision that comes out
//! otherwise is the end of what can be said: from there on the run would have gone another way, and nobody knows
//! which.

use super::kill_switch::{self, KillSwitch, Stall};
use super::published::{Entry, RunEvent, SwitchInputs};
use super::selector::select;

/// Limits to decide with; `None` = as it was.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overrides {
    /// `--confidence-threshold`.
    pub confidence_threshold: Option<f64>,
    /// `--carryover-threshold`.
    pub carryover_threshold: Option<f64>,
    /// `--peer-abort`.
    pub peer_abort: Option<u32>,
    /// `--max-sessions`.
    pub max_sessions: Option<u32>,
    /// `--max-hours`.
    pub max_hours: Option<f64>,
    /// `--max-tokens`; 0 = off.
    pub max_tokens: Option<u64>,
    /// `--max-cost`; 0 = off.
    pub max_cost_usd: Option<f64>,
}

/// A decision, as it was and as it would have been.
#[derive(Debug, Clone, PartialEq)]
pub struct Redecided {
    /// Iteration, from 1.
    pub iteration: u32,
    /// What was decided.
    pub what: What,
    /// As it was.
    pub before: String,
    /// As it would have been.
    pub after: String,
    /// Whether the run would have gone another way.
    pub differs: bool,
}

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Which session comes next, and whether that is sure enough.
    Mode,
    /// The switches before a session.
    SwitchesBefore,
    /// The switches after a session.
    SwitchesAfter,
}

impl What {
    /// In words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            What::Mode => "mode",
            What::SwitchesBefore => "kill-switches before the session",
            What::SwitchesAfter => "kill-switches after the session",
        }
    }
}

/// Decides again, in order, up to and including the first decision that differs.
#[must_use]
pub fn redecide(entries: &[Entry], overrides: &Overrides) -> Vec<Redecided> {
    let mut decisions = Vec::new();
    let mut surveyed = None;
    for entry in entries {
        let decision = match &entry.event {
            RunEvent::Surveyed { signals, .. } => {
                surveyed = Some(signals);
                continue;
            }
            RunEvent::ModeSelected { iteration, mode, confidence, threshold, rationale, .. } => {
                let wanted = overrides.confidence_threshold.unwrap_or(*threshold);
                let word = |mode: Option<super::mode::Mode>| mode.map_or("none", |mode| mode.as_str());
                let sure = |mode: Option<super::mode::Mode>, confidence: f64, threshold: f64| {
                    if mode.is_some() && confidence >= threshold { "starts it" } else { "starts none" }
                };
                // A session that reported its work complete is no signal: that choice stands as it was.
                let done = mode.is_none() && rationale.starts_with("no open work: a session");
                let again = surveyed.take().filter(|_| !done).map(|signals| select(signals, false));
                let (mode_after, confidence_after) =
                    again.map_or((*mode, *confidence), |again| (again.mode, again.confidence));
                let before = sure(*mode, *confidence, *threshold);
                let after = sure(mode_after, confidence_after, wanted);
                Redecided {
                    iteration: *iteration,
                    what: What::Mode,
                    before: format!("{} {confidence}, threshold {threshold}: {before}", word(*mode)),
                    after: format!("{} {confidence_after}, threshold {wanted}: {after}", word(mode_after)),
                    differs: before != after || (after == "starts it" && *mode != mode_after),
                }
            }
            RunEvent::SwitchesChecked { iteration, phase, inputs, hit, .. } => {
                let changed = overrides.apply(inputs);
                let before_session = phase == "before";
                let fired = if before_session {
                    kill_switch::before_session(&changed)
                } else {
                    // That it hung was no question of these limits.
                    let hung = Stall { seconds: 0, threshold: 0, marker: "recorded" };
                    kill_switch::after_session(
                        &changed,
                        (*hit == Some(KillSwitch::StallTimeout)).then_some(&hung),
                    )
                };
                // What fires for another reason than these inputs (a person, the session itself) fires all the same.
                let own = if before_session {
                    kill_switch::before_session(inputs)
                } else {
                    kill_switch::after_session(inputs, None)
                };
                let foreign = hit.filter(|hit| own.as_ref().is_none_or(|own| own.switch != *hit));
                let after = foreign.or(fired.as_ref().map(|fired| fired.switch));
                let word = |hit: Option<KillSwitch>| hit.map_or("none fires", |hit| hit.as_str()).to_owned();
                let detail = fired.filter(|fired| Some(fired.switch) == after).map(|fired| fired.detail);
                Redecided {
                    iteration: *iteration,
                    what: if before_session { What::SwitchesBefore } else { What::SwitchesAfter },
                    before: word(*hit),
                    after: word(after) + &detail.map(|detail| format!(": {detail}")).unwrap_or_default(),
                    differs: after != *hit,
                }
            }
            _ => continue,
        };
        let last = decision.differs;
        decisions.push(decision);
        if last {
            break;
        }
    }
    decisions
}

impl Overrides {
    fn apply(&self, inputs: &SwitchInputs) -> SwitchInputs {
        let mut changed = inputs.clone();
        let Overrides {
            confidence_threshold: _,
            carryover_threshold,
            peer_abort,
            max_sessions,
            max_hours,
            max_tokens,
            max_cost_usd,
        } = *self;
        changed.carryover_threshold = carryover_threshold.unwrap_or(changed.carryover_threshold);
        changed.peer_abort = peer_abort.unwrap_or(changed.peer_abort);
        changed.max_sessions = max_sessions.unwrap_or(changed.max_sessions);
        changed.max_hours = max_hours.unwrap_or(changed.max_hours);
        changed.max_tokens = max_tokens.unwrap_or(changed.max_tokens);
        if let Some(limit) = max_cost_usd {
            changed.max_cost_usd = (limit > 0.0).then_some(limit);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::mode::{Mode, Pressure};

    fn entry(event: RunEvent) -> Entry {
        Entry { v: 1, seq: 0, at: jiff::Timestamp::UNIX_EPOCH, event }
    }

    fn choice(iteration: u32, confidence: f64) -> Entry {
        entry(RunEvent::ModeSelected {
            iteration,
            mode: Some(Mode::Feature),
            confidence,
            threshold: 0.85,
            rationale: String::new(),
            alternatives: Vec::new(),
            pressure: Pressure::default(),
            reasons: Vec::new(),
        })
    }

    fn switches(
        iteration: u32,
        phase: &str,
        hit: Option<KillSwitch>,
        change: fn(&mut SwitchInputs),
    ) -> Entry {
        let mut inputs = SwitchInputs {
            max_sessions: 5,
            max_hours: 4.0,
            resources: "green".to_owned(),
            carryover_threshold: 0.5,
            ..SwitchInputs::default()
        };
        change(&mut inputs);
        entry(RunEvent::SwitchesChecked { iteration, phase: phase.to_owned(), inputs, hit, detail: None })
    }

    /// What differs, as (iteration, what would have been), and how many decisions were made again.
    fn check(entries: &[Entry], overrides: Overrides, made: usize, expected: Option<(u32, &str)>) {
        let decisions = redecide(entries, &overrides);
        let differs = decisions.iter().find(|decision| decision.differs);
        assert_eq!(
            differs.map(|decision| (decision.iteration, decision.after.as_str())),
            expected,
            "{decisions:#?}"
        );
        assert_eq!(decisions.len(), made);
    }

    #[test]
    fn the_first_decision_that_differs_is_the_last_that_is_told() {
        let run = [
            switches(1, "before", None, |_| {}),
            choice(1, 0.95),
            switches(1, "after", None, |i| (i.planned, i.carryover) = (Some(4.0), Some(1.0))),
            switches(2, "before", None, |i| (i.iterations, i.tokens) = (1, 90_000)),
            choice(2, 0.87),
            switches(2, "after", None, |i| (i.planned, i.carryover) = (Some(4.0), Some(2.0))),
            switches(3, "before", Some(KillSwitch::MaxSessionsReached), |i| i.iterations = 5),
        ];
        check(&run, Overrides::default(), 7, None);
        let with = |change: fn(&mut Overrides)| {
            let mut overrides = Overrides::default();
            change(&mut overrides);
            overrides
        };
        check(
            &run,
            with(|o| o.confidence_threshold = Some(0.9)),
            5,
            Some((2, "feature 0.87, threshold 0.9: starts none")),
        );
        check(
            &run,
            with(|o| o.carryover_threshold = Some(0.2)),
            3,
            Some((1, "carryover-too-high: carryover/planned=0.25 > threshold=0.2 (carryover=1, planned=4)")),
        );
        check(
            &run,
            with(|o| o.max_tokens = Some(50_000)),
            4,
            Some((2, "token-budget-exceeded: cumulative_tokens=90000 >= max-tokens=50000")),
        );
        check(&run, with(|o| o.max_sessions = Some(8)), 7, Some((3, "none fires")));
    }

    #[test]
    fn what_these_limits_did_not_decide_stays() {
        let run = [switches(1, "after", Some(KillSwitch::UserAbort), |_| {})];
        check(&run, Overrides { carryover_threshold: Some(0.1), ..Overrides::default() }, 1, None);
        let run = [switches(1, "after", Some(KillSwitch::StallTimeout), |_| {})];
        check(&run, Overrides { carryover_threshold: Some(0.1), ..Overrides::default() }, 1, None);
    }
}
