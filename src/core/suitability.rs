//! The pre-launch verdict: may this run start unattended? (design §7, upstream-formats §9)
//!
//! Four gates, all of which have to pass: confidence, the history of the last runs, CI, resources. It never
//! speaks about a run that is under way, and adds no kill-switch.
//!
//! What is not known is said in a warning and passes: a missing measurement is no failure. The one exception
//! is the confidence, which is ours to have. Unlike upstream, only bad endings count against the history:
//! there a repository whose every run did all it was asked for was never suitable.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::autonomy::Autonomy;
use super::kill_switch::KillSwitch;
use super::resources::Tier;
use super::signals::CiStatus;

/// Least confidence, where none is configured.
pub const DEFAULT_FLOOR: f64 = 0.5;
/// Fewer runs than these make no history.
const LEAST_RUNS: usize = 5;
/// The history passes while fewer than one in so many runs ended badly: a rate below 0.2.
const ONE_IN: usize = 5;

/// What the verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inputs<'a> {
    /// The dial. It has no influence on the verdict, only on what is done with it.
    pub autonomy: Autonomy,
    /// Least confidence, 0 to 1; anything else is taken as [`DEFAULT_FLOOR`].
    pub floor: f64,
    /// Confidence of the choice of iteration 1.
    pub confidence: Option<f64>,
    /// CI of the branch; `None` = there is none, or it could not be asked.
    pub ci: Option<CiStatus>,
    /// Tier of the resource probe; `None` = not probed.
    pub resources: Option<Tier>,
    /// The last runs, in any order.
    pub runs: &'a [RunOutcome],
}

impl Default for Inputs<'_> {
    fn default() -> Self {
        Inputs {
            autonomy: Autonomy::default(),
            floor: DEFAULT_FLOOR,
            confidence: None,
            ci: None,
            resources: None,
            runs: &[],
        }
    }
}

/// How a run ended, as its record says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOutcome {
    /// `kill_switch`, as written.
    pub kill_switch: Option<String>,
    /// `fallback_to_manual`.
    pub fallback_to_manual: bool,
    /// `dry_run`: nothing was started, so it is no run of the history.
    pub dry_run: bool,
}

/// How a run ended, for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// As planned, by a person, or before anything was started.
    Good,
    /// Something went wrong.
    Bad,
    /// With a word that nobody here knows.
    Unknown,
}

impl RunOutcome {
    fn ending(&self) -> Ending {
        let word = self.kill_switch.as_deref().map(str::trim).filter(|word| !word.is_empty());
        let Some(word) = word.filter(|_| !self.fallback_to_manual) else { return Ending::Good };
        match KillSwitch::ALL.into_iter().find(|switch| switch.as_str() == word) {
            Some(switch) if is_failure(switch) => Ending::Bad,
            Some(_) => Ending::Good,
            None => Ending::Unknown,
        }
    }
}

/// A switch that fires because something went wrong. The others are limits that were set, a person's word,
/// and not being sure, which is what the gate of the confidence is there for.
fn is_failure(switch: KillSwitch) -> bool {
    match switch {
        KillSwitch::Spiral
        | KillSwitch::FailedWave
        | KillSwitch::StallTimeout
        | KillSwitch::CarryoverTooHigh
        | KillSwitch::ResourceOverload => true,
        KillSwitch::MaxSessionsReached
        | KillSwitch::MaxHoursExceeded
        | KillSwitch::TokenBudgetExceeded
        | KillSwitch::UserAbort
        | KillSwitch::LowConfidenceFallback => false,
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// All gates passed.
    pub suitable: bool,
    /// The confidence that was judged; 0 when it is missing.
    pub confidence: f64,
    /// The whole verdict on one line, in upstream's words.
    pub rationale: String,
    /// What could not be judged.
    pub warnings: Vec<String>,
    /// The four gates, in the order of [`GateName::ALL`].
    pub gates: Vec<Gate>,
}

impl Verdict {
    /// Whether a run must not start (design §7: exit 4).
    #[must_use]
    pub fn forbids_start(&self, autonomy: Autonomy) -> bool {
        match autonomy {
            Autonomy::AutonomousGated => !self.suitable,
            Autonomy::Off | Autonomy::Advisory => false,
        }
    }
}

/// One of the four questions, answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Which.
    pub name: GateName,
    /// It does not stand in the way.
    pub passed: bool,
    /// What was compared, in words.
    pub why: String,
}

/// The gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateName {
    /// The choice of the first session is sure enough.
    Confidence,
    /// The last runs did not end badly too often.
    History,
    /// CI of the branch is not red.
    Ci,
    /// The machine has room.
    Resources,
}

impl GateName {
    /// All of them, in the order in which they are judged.
    pub const ALL: [GateName; 4] =
        [GateName::Confidence, GateName::History, GateName::Ci, GateName::Resources];

    /// The word for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            GateName::Confidence => "confidence",
            GateName::History => "history",
            GateName::Ci => "ci",
            GateName::Resources => "resources",
        }
    }
}

impl fmt::Display for GateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A gate, and its part of the rationale.
struct Judged {
    gate: Gate,
    segment: String,
}

impl Judged {
    fn new(name: GateName, passed: bool, why: String, segment: String) -> Judged {
        Judged { gate: Gate { name, passed, why }, segment }
    }
}

/// Judges. Pure and total.
#[must_use]
pub fn judge(inputs: &Inputs<'_>) -> Verdict {
    let mut warnings = Vec::new();
    let judged = [
        confidence(inputs),
        history(inputs.runs, &mut warnings),
        ci(inputs.ci, &mut warnings),
        resources(inputs.resources, &mut warnings),
    ];
    if inputs.autonomy == Autonomy::Off {
        warnings.push("autonomy off — verdict advisory only; caller will confirm".to_owned());
    }
    let suitable = judged.iter().all(|one| one.gate.passed);
    let mut parts = vec![format!("suitable={suitable}")];
    let forced: Vec<&str> = [
        (inputs.ci == Some(CiStatus::Red), "CI red"),
        (inputs.resources == Some(Tier::Critical), "resource critical"),
    ]
    .into_iter()
    .filter_map(|(forced, words)| forced.then_some(words))
    .collect();
    if !forced.is_empty() {
        parts.push(format!("FORCED: {}", forced.join(" + ")));
    }
    let (gates, segments): (Vec<Gate>, Vec<String>) =
        judged.into_iter().map(|one| (one.gate, one.segment)).unzip();
    parts.extend(segments);
    Verdict {
        suitable,
        confidence: known_confidence(inputs).unwrap_or(0.0),
        rationale: parts.join("; "),
        warnings,
        gates,
    }
}

fn known_confidence(inputs: &Inputs<'_>) -> Option<f64> {
    inputs.confidence.filter(|confidence| confidence.is_finite())
}

fn confidence(inputs: &Inputs<'_>) -> Judged {
    let floor = if (0.0..=1.0).contains(&inputs.floor) { inputs.floor } else { DEFAULT_FLOOR };
    let known = known_confidence(inputs);
    let passed = known.is_some_and(|confidence| confidence >= floor);
    let why = match known {
        None => "the confidence is not known".to_owned(),
        Some(confidence) if passed => format!("confidence {confidence} >= {floor}"),
        Some(confidence) => format!("confidence {confidence} < {floor}"),
    };
    let segment = format!("confidence {}>={floor} {}", known.unwrap_or(0.0), ok(passed));
    Judged::new(GateName::Confidence, passed, why, segment)
}

fn history(runs: &[RunOutcome], warnings: &mut Vec<String>) -> Judged {
    let endings: Vec<Ending> = runs.iter().filter(|run| !run.dry_run).map(RunOutcome::ending).collect();
    let count = |wanted| endings.iter().filter(|ending| **ending == wanted).count();
    let (total, bad, unknown) = (endings.len(), count(Ending::Bad), count(Ending::Unknown));
    if unknown > 0 {
        warnings
            .push(format!("{unknown} of {total} runs ended with an unknown kill-switch: not counted as bad"));
    }
    if total < LEAST_RUNS {
        warnings.push(format!("kill-switch signal omitted: only {total}<{LEAST_RUNS} runs"));
        let why = format!("only {total} runs so far: too few to judge");
        let segment = format!("kill-switch omitted ({total}<{LEAST_RUNS} runs)");
        return Judged::new(GateName::History, true, why, segment);
    }
    let passed = bad * ONE_IN < total;
    #[expect(clippy::cast_precision_loss, reason = "numbers of runs are far below 2^52")]
    let rate = (bad as f64 / total as f64 * 100.0).round() / 100.0;
    let why = format!("{bad} of the last {total} runs ended badly (fewer than one in {ONE_IN} may)");
    let segment = format!("kill-switch {bad}/{total} fired rate={rate} {}", ok(passed));
    Judged::new(GateName::History, passed, why, segment)
}

fn ci(status: Option<CiStatus>, warnings: &mut Vec<String>) -> Judged {
    let passed = match status {
        None => {
            warnings.push("CI signal absent".to_owned());
            true
        }
        Some(CiStatus::Unknown) => {
            warnings.push("CI status unknown".to_owned());
            true
        }
        Some(CiStatus::Green | CiStatus::Pending) => true,
        Some(CiStatus::Red) => false,
    };
    let word = status.map_or("absent", CiStatus::as_str);
    Judged::new(GateName::Ci, passed, format!("CI is {word}"), format!("CI {word} {}", ok(passed)))
}

fn resources(tier: Option<Tier>, warnings: &mut Vec<String>) -> Judged {
    let passed = match tier {
        None => {
            warnings.push("resource signal absent".to_owned());
            true
        }
        Some(Tier::Unknown) => {
            warnings.push("resources unknown: nothing could be measured".to_owned());
            true
        }
        Some(Tier::Green | Tier::Warn | Tier::Degraded) => true,
        Some(Tier::Critical) => false,
    };
    let word = tier.map_or_else(|| "absent".to_owned(), |tier| tier.to_string());
    let why = format!("resources: {word}");
    Judged::new(GateName::Resources, passed, why, format!("resource {word} {}", ok(passed)))
}

fn ok(passed: bool) -> &'static str {
    if passed { "ok" } else { "FAIL" }
}

#[cfg(test)]
mod tests;
