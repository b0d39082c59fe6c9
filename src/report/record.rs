//! A summary from the record in `autopilot.jsonl` alone, for runs whose folder is gone.
//!
//! All versions of the record are read, upstream's too: what it does not say stays unknown. Its sessions are
//! ids only, so they are not listed.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Limits, RunOutcome, RunSummary, SCHEMA_VERSION};
use crate::core::kill_switch::KillSwitch;
use crate::core::outcome::Class;
use crate::core::published::Tokens;
use crate::ui::text::known_cost;

impl RunSummary {
    /// What the record of a run says.
    #[must_use]
    pub fn from_record(record: &Map<String, Value>) -> RunSummary {
        let text = |key: &str| record.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
        let number = |key: &str| record.get(key).and_then(Value::as_f64);
        let count = |key: &str| record.get(key).and_then(Value::as_u64);
        let time = |key: &str| record.get(key).and_then(Value::as_str)?.parse::<Timestamp>().ok();
        let kill_switch =
            record.get("kill_switch").cloned().and_then(|v| serde_json::from_value::<KillSwitch>(v).ok());
        let fallback_to_manual = record.get("fallback_to_manual").and_then(Value::as_bool).unwrap_or(false);
        let exit_code = count("exit_code").and_then(|code| u8::try_from(code).ok());
        let outcome = match (kill_switch, exit_code) {
            (Some(KillSwitch::UserAbort), _) => RunOutcome::Aborted,
            (_, Some(0)) => RunOutcome::Planned,
            (Some(switch), None) if switch.is_planned() => RunOutcome::Planned,
            _ if fallback_to_manual => RunOutcome::Manual,
            (None, None) => RunOutcome::Unfinished,
            _ => RunOutcome::Stopped,
        };
        let small = |key: &str| count(key).and_then(|n| u32::try_from(n).ok());
        let limits = small("max_sessions").zip(number("max_hours")).map(|(max_sessions, max_hours)| Limits {
            max_sessions,
            max_hours,
            max_tokens: count("max_tokens").unwrap_or_default(),
            max_cost_usd: None,
        });
        let tokens = record.get("tokens").cloned().and_then(|v| serde_json::from_value::<Tokens>(v).ok());
        let used = count("total_tokens_used").map(|output| Tokens { output, ..Tokens::default() });
        RunSummary {
            schema_version: SCHEMA_VERSION,
            run_id: text("autopilot_run_id"),
            parent_run_id: text("parent_run_id"),
            outcome,
            kill_switch,
            detail: text("kill_switch_detail"),
            exit_code,
            failure_class: record
                .get("failure_class")
                .cloned()
                .and_then(|v| serde_json::from_value::<Class>(v).ok()),
            fallback_to_manual,
            iterations: small("iterations_completed").unwrap_or_default(),
            version: text("version"),
            limits,
            started_at: time("started_at"),
            last_event_at: time("completed_at"),
            seconds: number("duration_seconds"),
            limit_wait_seconds: count("limit_wait_seconds").unwrap_or_default(),
            tokens: tokens.or(used),
            cost_usd: known_cost(number("cost_usd")),
            ..RunSummary::default()
        }
    }
}
