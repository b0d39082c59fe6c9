//! The dial that says what the pre-launch verdict may do (design §7, upstream-formats §9).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `--autonomy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Autonomy {
    /// The verdict is not computed before a run.
    Off,
    /// It is computed and said; a run starts whatever it is.
    #[default]
    Advisory,
    /// Only a suitable run starts.
    AutonomousGated,
}

impl Autonomy {
    /// All positions of the dial, the least strict first.
    pub const ALL: [Autonomy; 3] = [Autonomy::Off, Autonomy::Advisory, Autonomy::AutonomousGated];

    /// The word on the command line and in configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Autonomy::Off => "off",
            Autonomy::Advisory => "advisory",
            Autonomy::AutonomousGated => "autonomous-gated",
        }
    }
}

impl fmt::Display for Autonomy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Autonomy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Autonomy::ALL
            .into_iter()
            .find(|dial| dial.as_str() == text)
            .ok_or_else(|| format!("unknown autonomy `{text}`: expected off, advisory or autonomous-gated"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_reads_back_and_nothing_else_does() {
        for dial in Autonomy::ALL {
            assert_eq!(dial.to_string().parse(), Ok(dial));
            assert_eq!(serde_json::to_value(dial).unwrap(), dial.as_str());
        }
        for odd in ["", "Off", "gated", "autonomous_gated", " off"] {
            assert!(odd.parse::<Autonomy>().unwrap_err().contains(&format!("`{odd}`")));
        }
    }
}
