//! The mode selector: what kind of session comes next (design §5).
//!
//! Pure and total: `select(signals) → Recommendation`. The first of these that applies decides:
//!
//! 1. a session that was cut off goes on;
//! 2. a session reported the work complete: no open work;
//! 3. `--mode`, and a prompt: 1.0;
//! 4. the compatible rules (`compatible`, upstream-formats §6), put right by the open tasks.
//!
//! Every step leaves a line in [`Recommendation::reasons`], so that `--dry-run` and `explain` print the whole
//! way to a choice and compute nothing again.

mod compatible;
mod pressure;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use super::mode::{Alternative, Compatible, LONGEST_RATIONALE, Mode, Recommendation, Rule};
use super::signals::{Signals, StateFields};
use super::task::TaskEvidence;

/// Confidence where open tasks alone say what to do.
const TASKS_ALONE: f64 = 0.90;
/// What open tasks add to a score, and the most it can become by that.
const TASK_BONUS: f64 = 0.40;
const TASK_CEILING: f64 = 0.95;
/// Up to so many open tasks are upkeep.
const FEW_TASKS: u32 = 2;
/// More open tasks than these are a large piece of work.
const MANY_TASKS: u32 = 8;
/// A task that was left over so often is larger than it looks.
const CARRIED_OFTEN: u32 = 2;
/// Said where a repository has nothing that a choice could rest on.
const NO_SOURCE: &str = "no source of work: give --prompt, or write `- [ ] a task` into .project/plan.md";

/// Chooses. `work_done` = a session reported that the prompt's work is complete.
#[must_use]
pub fn select(signals: &Signals, work_done: bool) -> Recommendation {
    let pressure = pressure::read(signals);
    let base = Recommendation { pressure: pressure.pressure, ..Recommendation::default() };
    let sure = |mode: Mode, rationale: &str| Recommendation {
        mode: Some(mode),
        confidence: 1.0,
        rationale: rationale.to_owned(),
        reasons: vec![format!("{rationale}: {mode} 1")],
        ..base.clone()
    };
    if signals.interrupted {
        return sure(
            signals.forced_mode.unwrap_or(Mode::Feature),
            "goes on with the session that was cut off",
        );
    }
    if work_done {
        let rationale = "no open work: a session reported it complete".to_owned();
        return Recommendation { no_open_work: true, reasons: vec![rationale.clone()], rationale, ..base };
    }
    match (signals.forced_mode, signals.prompt) {
        (Some(mode), true) => return sure(mode, "--mode, with the work of the prompt"),
        (Some(mode), false) => return sure(mode, "--mode"),
        (None, true) => return sure(Mode::Feature, "the prompt says what to do"),
        (None, false) => {}
    }

    let mut reasons = vec![pressure.explain()];
    let choice = compatible::choose(signals, &pressure, &mut reasons);
    let compatible = Compatible { rule: choice.rule, mode: choice.mode, confidence: choice.confidence };
    reasons.push(format!("the rules give {} {}: {}", choice.mode, choice.confidence, choice.rationale));
    let recommendation = Recommendation {
        mode: Some(choice.mode),
        confidence: choice.confidence,
        rationale: choice.rationale,
        alternatives: choice.alternatives,
        compatible: Some(compatible),
        reasons,
        ..base
    };
    match signals.tasks {
        Some(tasks) => with_tasks(recommendation, compatible, tasks),
        None => without_tasks(recommendation, signals),
    }
}

/// No source of tasks: the rules alone decide. Where they had nothing to go by either, the rationale says what
/// a person can do.
fn without_tasks(mut recommendation: Recommendation, signals: &Signals) -> Recommendation {
    recommendation.reasons.push("task evidence: there is no source of tasks".to_owned());
    if signals.state == StateFields::default() && signals.recent_sessions.is_empty() {
        NO_SOURCE.clone_into(&mut recommendation.rationale);
        recommendation.reasons.push(NO_SOURCE.to_owned());
    }
    recommendation
}

/// Task evidence (design §5, rule 4).
fn with_tasks(
    mut recommendation: Recommendation,
    compatible: Compatible,
    tasks: TaskEvidence,
) -> Recommendation {
    let TaskEvidence { open, most_carried } = tasks;
    if open == 0 {
        "no open work: nothing is open in the task sources".clone_into(&mut recommendation.rationale);
        recommendation.reasons.push("task evidence: nothing is open, so there is no work".to_owned());
        return Recommendation {
            mode: None,
            confidence: 0.0,
            no_open_work: true,
            alternatives: Vec::new(),
            ..recommendation
        };
    }
    let count = if open == 1 { "1 open task".to_owned() } else { format!("{open} open tasks") };
    match compatible.rule {
        Rule::Spiral => {
            recommendation
                .reasons
                .push(format!("task evidence: {count}; SPIRAL stays: a person should look"));
        }
        Rule::Carryover => {
            recommendation.confidence = TASKS_ALONE;
            recommendation.rationale = cut(&format!("{}; {count}", recommendation.rationale));
            recommendation.reasons.push(format!("task evidence: {count}: deep {TASKS_ALONE}"));
        }
        Rule::Default => {
            let (mode, why) = if most_carried >= CARRIED_OFTEN {
                (Mode::Deep, format!("{count}, one carried over {most_carried} times"))
            } else if open > MANY_TASKS {
                (Mode::Deep, format!("{count}, more than {MANY_TASKS}"))
            } else if open <= FEW_TASKS {
                (Mode::Housekeeping, format!("{count}, no more than {FEW_TASKS}"))
            } else {
                (Mode::Feature, count)
            };
            recommendation.mode = Some(mode);
            recommendation.confidence = TASKS_ALONE;
            recommendation.rationale = cut(&format!("{why}: {mode}"));
            recommendation.reasons.push(format!("task evidence: {why}: {mode} {TASKS_ALONE}"));
        }
        Rule::Passthrough => {
            let lifted = |confidence: f64| round2((confidence + TASK_BONUS).min(TASK_CEILING));
            recommendation.confidence = lifted(compatible.confidence);
            for Alternative { mode: _, confidence } in &mut recommendation.alternatives {
                *confidence = lifted(*confidence);
            }
            recommendation.rationale = cut(&format!("{}; {count} +{TASK_BONUS}", recommendation.rationale));
            recommendation.reasons.push(format!(
                "task evidence: {count}: every score +{TASK_BONUS}, at most {TASK_CEILING}: {} {} → {}",
                compatible.mode, compatible.confidence, recommendation.confidence
            ));
        }
    }
    recommendation
}

/// At most [`LONGEST_RATIONALE`] characters.
fn cut(text: &str) -> String {
    text.chars().take(LONGEST_RATIONALE).collect()
}

/// A word somebody else wrote, so that it cannot break a line or fill a screen.
fn quoted(word: &str) -> String {
    const LONGEST: usize = 40;
    let short: String = word.chars().take(LONGEST).collect();
    let more = if short.len() < word.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

/// To two decimals, half up, as JavaScript's `Math.round(v * 100) / 100` does for what is not negative.
fn round2(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// To three decimals, for display.
fn round3(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Within bounds whatever comes in: `NaN` becomes the lower one.
fn clamp(value: f64, low: f64, high: f64) -> f64 {
    if value.is_nan() { low } else { value.clamp(low, high) }
}
