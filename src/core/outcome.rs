//! What ground truth says of a turn: the class vocabulary of field-reports §0.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a turn ended. The names are those of field-reports §0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Finished as asked.
    Ok,
    /// Finished as asked, but the process ended oddly afterwards (field-reports A01, A15).
    OkExitAnomaly,
    /// It stopped before the work was over.
    Incomplete,
    /// Background work was cut off at the end of the turn.
    IncompleteBackground,
    /// Not one line came.
    StartupHang,
    /// It went silent in the middle.
    Stalled,
    /// The result came, the process stayed.
    HungAfterResult,
    /// A usage window is used up: wait.
    UsageLimit,
    /// A passing failure of API or network.
    TransientApi,
    /// A person must log in.
    Auth,
    /// A person must pay or change the plan.
    Billing,
    /// The model does not exist or is not allowed.
    ModelUnavailable,
    /// The provider refuses the content.
    PolicyRefusal,
    /// The conversation itself is broken; it will fail the same way for ever.
    PoisonedSession,
    /// The context window is full.
    ContextFull,
    /// The answer was cut at the output limit.
    OutputLimit,
    /// `--max-turns` was reached.
    MaxTurns,
    /// A budget was reached.
    Budget,
    /// Tool calls were denied.
    Denied,
    /// It ended without doing anything.
    NoWork,
    /// The conversation to resume is not there.
    NoSession,
    /// The id is taken.
    SessionInUse,
    /// The CLI refuses this environment (nested, root, directory gone).
    EnvRefused,
    /// The disk is full.
    Disk,
    /// The program is not there.
    BinaryMissing,
    /// We ended it.
    KilledByDriver,
    /// Somebody else ended it.
    KilledByOther,
    /// The session cannot go on without a person's answer (ours; design §3, exit code 24).
    Blocked,
    /// It went round in circles (ours; design §6, recovery §10.3).
    Stuck,
    /// None of these.
    UnknownError,
}

impl Class {
    /// The name used in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Ok => "ok",
            Class::OkExitAnomaly => "ok_exit_anomaly",
            Class::Incomplete => "incomplete",
            Class::IncompleteBackground => "incomplete_background",
            Class::StartupHang => "startup_hang",
            Class::Stalled => "stalled",
            Class::HungAfterResult => "hung_after_result",
            Class::UsageLimit => "usage_limit",
            Class::TransientApi => "transient_api",
            Class::Auth => "auth",
            Class::Billing => "billing",
            Class::ModelUnavailable => "model_unavailable",
            Class::PolicyRefusal => "policy_refusal",
            Class::PoisonedSession => "poisoned_session",
            Class::ContextFull => "context_full",
            Class::OutputLimit => "output_limit",
            Class::MaxTurns => "max_turns",
            Class::Budget => "budget",
            Class::Denied => "denied",
            Class::NoWork => "no_work",
            Class::NoSession => "no_session",
            Class::SessionInUse => "session_in_use",
            Class::EnvRefused => "env_refused",
            Class::Disk => "disk",
            Class::BinaryMissing => "binary_missing",
            Class::KilledByDriver => "killed_by_driver",
            Class::KilledByOther => "killed_by_other",
            Class::Blocked => "blocked",
            Class::Stuck => "stuck",
            Class::UnknownError => "unknown_error",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
