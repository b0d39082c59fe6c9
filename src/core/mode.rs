//! Session modes, and what a choice between them is made of (design §5, upstream-formats §6.1).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What kind of session comes next. The order is the tie order of upstream-formats §6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Small repairs and upkeep.
    Housekeeping,
    /// One piece of product work; the default.
    Feature,
    /// A large or carried-over piece of work.
    Deep,
    /// Look, do not change: find what should be done.
    Discovery,
    /// Improve how the project works.
    Evolve,
    /// Plan after a run that went badly.
    PlanRetro,
}

impl Mode {
    /// All modes, in tie order.
    pub const ALL: [Mode; 6] =
        [Mode::Housekeeping, Mode::Feature, Mode::Deep, Mode::Discovery, Mode::Evolve, Mode::PlanRetro];

    /// The name used on the command line and in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Housekeeping => "housekeeping",
            Mode::Feature => "feature",
            Mode::Deep => "deep",
            Mode::Discovery => "discovery",
            Mode::Evolve => "evolve",
            Mode::PlanRetro => "plan-retro",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Mode::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| format!("unknown mode `{text}`"))
    }
}

/// What kind of session comes next, and why. Made by [`super::selector::select`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recommendation {
    /// The choice; `None` = nothing to recommend.
    pub mode: Option<Mode>,
    /// 0 to 1, always finite.
    pub confidence: f64,
    /// In words, at most [`LONGEST_RATIONALE`] characters.
    pub rationale: String,
    /// There is a source of work, and nothing open in it: the run ends as planned.
    pub no_open_work: bool,
    /// The next best modes, best first, at most three, never the chosen one.
    pub alternatives: Vec<Alternative>,
    /// How much the work at hand presses on the context of a session.
    pub pressure: Pressure,
    /// What the compatible rules alone gave, before task evidence; `None` = they were not asked.
    pub compatible: Option<Compatible>,
    /// The whole way to the choice, a line a step: which rule, which terms with their values.
    pub reasons: Vec<String>,
}

/// Longest rationale, in characters (upstream-formats §6.7).
pub const LONGEST_RATIONALE: usize = 120;

/// A mode that was not chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Which.
    pub mode: Mode,
    /// 0 to 1.
    pub confidence: f64,
}

/// Context pressure (upstream-formats §6.6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// The score, in one of three words.
    pub level: PressureLevel,
    /// 0 to 1, two decimals.
    pub score: f64,
}

/// How high the pressure is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PressureLevel {
    /// Below 0.3.
    #[default]
    Low,
    /// From 0.3 on.
    Medium,
    /// From 0.7 on.
    High,
}

impl PressureLevel {
    /// The word used in rationales.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PressureLevel::Low => "low",
            PressureLevel::Medium => "medium",
            PressureLevel::High => "high",
        }
    }
}

/// What the compatible rules of upstream-formats §6.3 gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Compatible {
    /// The rule that decided.
    pub rule: Rule,
    /// Its mode.
    pub mode: Mode,
    /// Its confidence.
    pub confidence: f64,
}

/// The compatible rules, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The last session completed too little. Despite its name it has nothing to do with sub-agents.
    Spiral,
    /// The last session left too much over.
    Carryover,
    /// STATE.md recommends a mode, and it is scored.
    Passthrough,
    /// None of these.
    Default,
}

impl Rule {
    /// Its name, as upstream-formats §6.3 writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Rule::Spiral => "SPIRAL",
            Rule::Carryover => "CARRYOVER",
            Rule::Passthrough => "PASSTHROUGH",
            Rule::Default => "DEFAULT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_a_name_of_its_own_that_reads_back() {
        for mode in Mode::ALL {
            assert_eq!(mode.as_str().parse::<Mode>(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        for odd in ["", "Feature", "feature ", "plan_retro"] {
            assert!(odd.parse::<Mode>().unwrap_err().contains(odd));
        }
    }
}
