//! Session modes and the choice between them (design §5, upstream-formats §6.1).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::signals::Signals;

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

/// What kind of session comes next, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The choice; `None` = nothing to recommend.
    pub mode: Option<Mode>,
    /// 0 to 1, always finite.
    pub confidence: f64,
    /// In words, at most 120 characters.
    pub rationale: String,
    /// There is a source of work, and nothing open in it: the run ends as planned.
    pub no_open_work: bool,
}

/// Chooses. Pure and total (design §5, rules 1 and 2). `work_done` = a session reported that the prompt's
/// work is complete.
#[must_use]
pub fn select(signals: &Signals, work_done: bool) -> Recommendation {
    let sure = |mode, rationale: &str| Recommendation {
        mode: Some(mode),
        confidence: 1.0,
        rationale: rationale.to_owned(),
        no_open_work: false,
    };
    if signals.interrupted {
        return sure(
            signals.forced_mode.unwrap_or(Mode::Feature),
            "goes on with the session that was cut off",
        );
    }
    if work_done {
        return Recommendation {
            mode: None,
            confidence: 0.0,
            rationale: "no open work: a session reported it complete".to_owned(),
            no_open_work: true,
        };
    }
    match (signals.forced_mode, signals.prompt) {
        (Some(mode), true) => sure(mode, "--mode, with the work of the prompt"),
        (Some(mode), false) => sure(mode, "--mode"),
        (None, true) => sure(Mode::Feature, "the prompt says what to do"),
        (None, false) => Recommendation {
            mode: Some(Mode::Feature),
            confidence: 0.0,
            rationale: "no source of work: neither a prompt nor a mode".to_owned(),
            no_open_work: false,
        },
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

    #[test]
    fn the_choice_is_total() {
        let modes = [None].into_iter().chain(Mode::ALL.map(Some));
        for (forced_mode, prompt, work_done) in modes.flat_map(|mode| {
            [(mode, false, false), (mode, true, false), (mode, false, true), (mode, true, true)]
        }) {
            let choice = select(&Signals { forced_mode, prompt, ..Signals::default() }, work_done);
            let expected = match (forced_mode, prompt, work_done) {
                (_, _, true) => (None, 0.0, true),
                (Some(mode), _, false) => (Some(mode), 1.0, false),
                (None, true, false) => (Some(Mode::Feature), 1.0, false),
                (None, false, false) => (Some(Mode::Feature), 0.0, false),
            };
            assert_eq!((choice.mode, choice.confidence, choice.no_open_work), expected);
            assert!(!choice.rationale.is_empty() && choice.rationale.len() <= 120);
        }
    }
}
