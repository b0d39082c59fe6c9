//! Session modes and the choice between them (design §5, upstream-formats §6.1).

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
