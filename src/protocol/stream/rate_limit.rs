//! `rate_limit_event`: the usage windows of a subscription (claude-code §2, field-reports E02, C08).
//!
//! Pitfalls: an event with status `allowed` or `allowed_warning` is a metric, not a stop; `resetsAt` may be
//! absent; `utilization` may be the integer 1.

use crate::protocol::lenient::Object;

/// One event: the window that speaks, and what is known of the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RateLimit {
    /// Whether requests pass. `None` if the event does not say.
    pub status: Option<LimitStatus>,
    /// Which window speaks: `five_hour`, `seven_day`, `seven_day_overage_included`, …
    pub limit_type: Option<String>,
    /// End of that window, in seconds since the epoch.
    pub resets_at: Option<i64>,
    /// Used share of the window, 1.0 is all of it.
    pub utilization: Option<f64>,
    /// The warning threshold that was passed.
    pub surpassed_threshold: Option<f64>,
    /// Whether requests are paid from extra usage.
    pub is_using_overage: Option<bool>,
    /// Whether extra usage is available.
    pub overage_status: Option<LimitStatus>,
    /// Why extra usage is not available.
    pub overage_disabled_reason: Option<String>,
    /// End of the extra usage window, in seconds since the epoch.
    pub overage_resets_at: Option<i64>,
    /// A code such as `credits_required`.
    pub error_code: Option<String>,
    /// All windows that the event lists.
    pub windows: Vec<LimitWindow>,
}

/// One usage window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LimitWindow {
    /// Its name: `five_hour`, `seven_day`, …
    pub name: String,
    /// Whether requests pass.
    pub status: Option<LimitStatus>,
    /// Used share, 1.0 is all of it.
    pub utilization: Option<f64>,
    /// Its end, in seconds since the epoch.
    pub resets_at: Option<i64>,
}

/// Whether requests pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitStatus {
    /// They do.
    Allowed,
    /// They do, and the window is nearly used up.
    AllowedWarning,
    /// They do not.
    Rejected,
    /// A status this version does not know.
    Unknown(String),
}

impl LimitStatus {
    fn read(object: &Object<'_>, key: &'static str) -> Option<Self> {
        Some(match &*object.str(key)? {
            "allowed" => Self::Allowed,
            "allowed_warning" => Self::AllowedWarning,
            "rejected" => Self::Rejected,
            other => Self::Unknown(other.to_owned()),
        })
    }
}

impl RateLimit {
    pub(super) fn read(message: &Object<'_>) -> Self {
        let Some(info) = message.object("rate_limit_info") else {
            return Self::default();
        };
        let mut windows = Vec::new();
        if let Some(listed) = info.object("unifiedWindows") {
            for (name, raw) in listed.entries() {
                if let Some(window) = Object::from_raw(raw, "unifiedWindows", info.line()) {
                    windows.push(LimitWindow {
                        name: name.to_owned(),
                        status: LimitStatus::read(&window, "status"),
                        utilization: window.f64("utilization"),
                        resets_at: epoch(&window, "resetsAt"),
                    });
                }
            }
        }
        Self {
            status: LimitStatus::read(&info, "status"),
            limit_type: info.string("rateLimitType"),
            resets_at: epoch(&info, "resetsAt"),
            utilization: info.f64("utilization"),
            surpassed_threshold: info.f64("surpassedThreshold"),
            is_using_overage: info.bool("isUsingOverage"),
            overage_status: LimitStatus::read(&info, "overageStatus"),
            overage_disabled_reason: info.string("overageDisabledReason"),
            overage_resets_at: epoch(&info, "overageResetsAt"),
            error_code: info.string("errorCode"),
            windows,
        }
    }
}

/// Seconds since the epoch. A value of thirteen digits is taken for milliseconds: as seconds it would lie
/// thirty thousand years ahead, and a wait would never end.
fn epoch(object: &Object<'_>, key: &'static str) -> Option<i64> {
    const SECONDS_END: u64 = 100_000_000_000;
    let value = object.u64(key)?;
    i64::try_from(if value >= SECONDS_END { value / 1000 } else { value }).ok().filter(|&seconds| seconds > 0)
}
