//! The compatible rules: upstream's choice, with upstream's arithmetic (upstream-formats §6.3 to §6.7).
//!
//! Scores are compared with scores that other tools wrote, so they have to agree to the last bit: sums are
//! formed in the order that is written here, in IEEE doubles, and rounded only where upstream rounds. Do not
//! fold, reorder or simplify (§6.4: 0.575 becomes 0.57, 0.625 becomes 0.63).

use super::super::mode::{Alternative, Mode, Pressure, PressureLevel, Rule};
use super::super::signals::{SessionFacts, Signals};
use super::{clamp, cut, pressure, quoted, round2, round3};

/// Completion below which the last session went badly.
const SPIRAL_BELOW: f64 = 0.5;
/// Carry-over from which the rest of the work comes first.
const CARRYOVER_FROM: f64 = 0.3;
/// Where a score starts, and where it ends.
const BASE: f64 = 0.5;
const CEILING: f64 = 0.9;
/// The least score worth showing as an alternative, and how many are shown.
const LEAST: f64 = 0.1;
const SHOWN: usize = 3;

/// What the rules gave.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) rule: Rule,
    pub(super) mode: Mode,
    pub(super) confidence: f64,
    pub(super) rationale: String,
    pub(super) alternatives: Vec<Alternative>,
}

/// The rules in their order; the first that matches decides. `reasons` gets a line a step.
pub(super) fn choose(signals: &Signals, pressure: &pressure::Reading, reasons: &mut Vec<String>) -> Choice {
    let mut choice = first_match(signals, pressure.pressure, reasons);
    let Pressure { level, score } = pressure.pressure;
    if level != PressureLevel::Low {
        choice.rationale = cut(&format!("{}; pressure:{}({score})", choice.rationale, level.as_str()));
    }
    choice
}

fn first_match(signals: &Signals, pressure: Pressure, reasons: &mut Vec<String>) -> Choice {
    let state = &signals.state;
    let fixed = |rule, mode, confidence, rationale: &str, alternatives: &[(Mode, f64)]| Choice {
        rule,
        mode,
        confidence,
        rationale: cut(rationale),
        alternatives: alternatives
            .iter()
            .map(|&(mode, confidence)| Alternative { mode, confidence })
            .collect(),
    };
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let known = |value: Option<f64>| value.map_or_else(|| "not known".to_owned(), |v| round3(v).to_string());

    let completion = finite(state.completion_rate);
    if let Some(rate) = completion.filter(|rate| *rate < SPIRAL_BELOW) {
        // Cut off, not rounded: a rate just below must not print as the limit.
        let shown = (rate * 1000.0).floor() / 1000.0;
        reasons.push(format!("SPIRAL: completion {shown} < {SPIRAL_BELOW}: plan-retro 0.8"));
        return fixed(
            Rule::Spiral,
            Mode::PlanRetro,
            0.8,
            &format!("completion {shown} < {SPIRAL_BELOW} — plan-retro clear"),
            &[(Mode::Feature, 0.3), (Mode::Discovery, 0.25)],
        );
    }
    reasons.push(format!("SPIRAL does not apply: completion {}", known(completion)));

    let carryover = finite(state.carryover_ratio);
    if let Some(ratio) = carryover.filter(|ratio| *ratio >= CARRYOVER_FROM) {
        reasons.push(format!("CARRYOVER: ratio {} >= {CARRYOVER_FROM}: deep 0.75", round3(ratio)));
        return fixed(
            Rule::Carryover,
            Mode::Deep,
            0.75,
            &format!("carryover {}% — deep clear", (ratio * 100.0).round()),
            &[(Mode::Feature, 0.3), (Mode::PlanRetro, 0.2)],
        );
    }
    reasons.push(format!("CARRYOVER does not apply: ratio {}", known(carryover)));

    let recommended = state.recommended_mode.as_deref();
    let Some(mode) = recommended.and_then(|name| name.parse::<Mode>().ok()) else {
        reasons.push(match recommended {
            None => "DEFAULT: STATE.md recommends no mode: feature 0".to_owned(),
            Some(name) => {
                format!("DEFAULT: STATE.md recommends {}, which is no mode: feature 0", quoted(name))
            }
        });
        let rationale = "missing/invalid recommendedMode → default";
        return fixed(Rule::Default, Mode::Feature, 0.0, rationale, &[]);
    };
    passthrough(mode, signals, pressure, reasons)
}

/// Scores the recommended mode and the others; the best executable one is chosen (§6.4).
fn passthrough(mode: Mode, signals: &Signals, pressure: Pressure, reasons: &mut Vec<String>) -> Choice {
    let terms = Terms::of(mode, signals, pressure);
    reasons.push(format!("PASSTHROUGH: {}", terms.explain(mode)));
    let primary = Alternative { mode, confidence: terms.score };
    if !has_active_signals(signals) {
        reasons.push("no sessions, learnings or bootstrap.lock: the other modes are not scored".to_owned());
        return Choice {
            rule: Rule::Passthrough,
            mode,
            confidence: primary.confidence,
            rationale: "passthrough of recommended-mode — stale signals".to_owned(),
            alternatives: Vec::new(),
        };
    }
    let others = Mode::ALL.into_iter().filter(|other| *other != mode).map(|other| {
        let terms = Terms::of(other, signals, pressure);
        reasons.push(format!("instead: {}", terms.explain(other)));
        Alternative { mode: other, confidence: terms.score }
    });
    let mut alternatives = best(others.collect());
    let rival = alternatives.iter().position(|other| is_executable(other.mode));
    if let Some(at) = rival
        && alternatives[at].confidence > primary.confidence
    {
        let chosen = alternatives.remove(at);
        alternatives.insert(0, primary);
        let rationale = format!(
            "global-max swap: {} ({}) outranked passthrough {} ({})",
            chosen.mode, chosen.confidence, primary.mode, primary.confidence
        );
        reasons.push(rationale.clone());
        return Choice {
            rule: Rule::Passthrough,
            mode: chosen.mode,
            confidence: chosen.confidence,
            rationale: cut(&rationale),
            alternatives: best(alternatives),
        };
    }
    Choice {
        rule: Rule::Passthrough,
        mode,
        confidence: primary.confidence,
        rationale: cut(&passthrough_rationale(mode, signals)),
        alternatives,
    }
}

/// Those worth showing, best first; on a tie the order stays.
fn best(mut modes: Vec<Alternative>) -> Vec<Alternative> {
    modes.retain(|one| one.confidence >= LEAST);
    modes.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    modes.truncate(SHOWN);
    modes
}

/// A mode that may be promoted over a recommendation: one that changes something.
fn is_executable(mode: Mode) -> bool {
    match mode {
        Mode::Housekeeping | Mode::Feature | Mode::Deep | Mode::Evolve => true,
        Mode::Discovery | Mode::PlanRetro => false,
    }
}

/// There is something by which modes could be told apart. An empty bootstrap.lock is something.
fn has_active_signals(signals: &Signals) -> bool {
    !signals.learnings.is_empty() || !signals.recent_sessions.is_empty() || signals.bootstrap.is_some()
}

/// The wording classes of §6.7.
fn passthrough_rationale(mode: Mode, signals: &Signals) -> String {
    let trend = last_three(signals).is_some_and(|last| all_of(last, mode));
    let tier = tier(signals).filter(|tier| mode_of_tier(tier) == Some(mode));
    match (trend, tier) {
        (true, Some(_)) => "passthrough reinforced by recent-sessions trend + bootstrap tier".to_owned(),
        (true, None) => "passthrough reinforced by recent-sessions trend".to_owned(),
        (false, Some(tier)) => format!("passthrough reinforced by bootstrap tier ({tier})"),
        (false, None) => "passthrough of recommended-mode".to_owned(),
    }
}

/// The terms of the score of a mode (§6.5).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Terms {
    trend: f64,
    tier: f64,
    hints: f64,
    penalty: f64,
    pressure: f64,
    score: f64,
}

impl Terms {
    fn of(mode: Mode, signals: &Signals, pressure: Pressure) -> Terms {
        let last = last_three(signals);
        let trend = match last {
            Some(last) if all_of(last, mode) => {
                if mean_completion(last) >= 0.9 {
                    0.15
                } else {
                    0.075
                }
            }
            Some(_) | None => 0.0,
        };
        let tier_mode = tier(signals).and_then(mode_of_tier);
        let tier = if tier_mode == Some(mode) { 0.10 } else { 0.0 };
        let mut hints = 0.0_f64;
        for learning in &signals.learnings {
            if ["effective-sizing", "scope-guidance"].contains(&learning.kind.as_str())
                && learning.subject.to_lowercase().contains(mode.as_str())
            {
                hints = (hints + 0.05).min(0.10);
            }
        }
        let mut penalty = 0.0;
        let other_trend = |last: &[SessionFacts; 3]| {
            Mode::ALL.into_iter().any(|other| other != mode && all_of(last, other))
                && mean_completion(last) >= 0.9
        };
        if last.is_some_and(other_trend) {
            penalty += 0.10;
        }
        if tier_mode.is_some_and(|other| other != mode) {
            penalty += 0.10;
        }
        let carryover = signals.state.carryover_ratio.filter(|ratio| ratio.is_finite());
        if mode != Mode::Deep && carryover.is_some_and(|ratio| ratio >= 0.2) {
            penalty += 0.10;
        }
        let pressure = if pressure::is_known(signals) { pressure_term(mode, pressure.level) } else { 0.0 };
        let delta = trend + tier + hints - penalty + pressure;
        let score = round2(clamp(BASE + delta, 0.0, CEILING));
        Terms { trend, tier, hints, penalty, pressure, score }
    }

    fn explain(&self, mode: Mode) -> String {
        let Terms { trend, tier, hints, penalty, pressure, score } = self;
        format!(
            "{mode} {score} = {BASE} + trend {trend} + tier {tier} + hints {} - penalties {} + pressure {}",
            round3(*hints),
            round3(*penalty),
            round3(*pressure)
        )
    }
}

fn pressure_term(mode: Mode, level: PressureLevel) -> f64 {
    match mode {
        Mode::Feature => match level {
            PressureLevel::Low => 0.05,
            PressureLevel::Medium => 0.0,
            PressureLevel::High => -0.15,
        },
        Mode::Housekeeping => match level {
            PressureLevel::Low | PressureLevel::Medium => 0.0,
            PressureLevel::High => -0.10,
        },
        Mode::Deep | Mode::Discovery | Mode::Evolve | Mode::PlanRetro => 0.0,
    }
}

fn tier(signals: &Signals) -> Option<&str> {
    signals.bootstrap.as_ref().and_then(|lock| lock.tier.as_deref())
}

/// The mode that a bootstrap tier stands for; an unknown tier says nothing.
fn mode_of_tier(tier: &str) -> Option<Mode> {
    match tier {
        "fast" => Some(Mode::Housekeeping),
        "standard" => Some(Mode::Feature),
        "deep" => Some(Mode::Deep),
        _ => None,
    }
}

/// The last three sessions; fewer make no trend.
fn last_three(signals: &Signals) -> Option<&[SessionFacts; 3]> {
    signals.recent_sessions.last_chunk()
}

fn all_of(sessions: &[SessionFacts; 3], mode: Mode) -> bool {
    sessions.iter().all(|session| session.session_type.as_deref() == Some(mode.as_str()))
}

/// Mean completion, summed from 0 in file order; an unknown one counts as 0.
fn mean_completion(sessions: &[SessionFacts; 3]) -> f64 {
    let mut sum = 0.0;
    for session in sessions {
        sum += session.completion.filter(|rate| rate.is_finite()).unwrap_or(0.0);
    }
    sum / 3.0
}
