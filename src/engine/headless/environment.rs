//! The child's environment, as a pure function of ours.
//!
//! Variables of Claude Code and of the API change what the child does and who pays: `CLAUDE_*` and
//! `ANTHROPIC_*` pass by an allow-list, everything else of that kind is taken out (field-reports K01, K13,
//! I17; recovery §7). What is not of that kind passes untouched: an over-scrubbed environment breaks logins
//! (K05). Only names are ever recorded, never values.

use std::ffi::OsString;

/// Who pays for the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Billing {
    /// Whatever the environment says.
    Inherit,
    /// The subscription: variables that bill an API account or send requests elsewhere are dropped.
    Subscription,
}

/// Variables that bill an API account or a cloud provider, or redirect requests (recovery §7).
const BILLING: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "ANTHROPIC_FOUNDRY_BASE_URL",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "ANTHROPIC_FOUNDRY_RESOURCE",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_UNIX_SOCKET",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
    "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
];

/// Settings of a person that are meant for every session.
const KEPT: &[&str] = &[
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_EFFORT_LEVEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "CLAUDE_CODE_SHELL",
    "CLAUDE_CODE_SHELL_PREFIX",
    "CLAUDE_CODE_TMPDIR",
    "CLAUDE_CODE_GLOB_TIMEOUT_SECONDS",
    "CLAUDE_CODE_CLIENT_CERT",
    "CLAUDE_CODE_CLIENT_KEY",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
    "CLAUDE_CODE_PROXY_RESOLVES_HOSTS",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW",
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
    "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR",
    "CLAUDE_STREAM_IDLE_TIMEOUT_MS",
    "CLAUDE_ENABLE_STREAM_WATCHDOG",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_BETAS",
    "ANTHROPIC_VERTEX_PROJECT_ID",
];

/// Prefixes of switches that only turn something off or measure.
const KEPT_PREFIXES: &[&str] = &["CLAUDE_CODE_DISABLE_", "CLAUDE_CODE_OTEL_", "CLAUDE_CODE_ENABLE_TELEMETRY"];

/// What the child gets, and what is worth telling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildEnvironment {
    /// All of it.
    pub variables: Vec<(OsString, OsString)>,
    /// Names taken out.
    pub removed: Vec<String>,
    /// Names of Claude and API variables that pass.
    pub kept: Vec<String>,
    /// Names that pass and make an API account pay or send requests elsewhere (field-reports F09).
    pub billing: Vec<String>,
}

/// Builds it. `set` is added last and wins.
#[must_use]
pub fn child_environment(
    parent: impl IntoIterator<Item = (OsString, OsString)>,
    billing: Billing,
    set: &[(&str, String)],
) -> ChildEnvironment {
    let mut child = ChildEnvironment::default();
    for (name, value) in parent {
        let Some(text) = name.to_str() else {
            child.variables.push((name, value));
            continue;
        };
        if set.iter().any(|(own, _)| *own == text) {
            continue;
        }
        let verdict = judge(text, value.is_empty(), billing);
        match verdict {
            Verdict::Ordinary => child.variables.push((name, value)),
            Verdict::Remove => child.removed.push(text.to_owned()),
            Verdict::Keep => {
                child.kept.push(text.to_owned());
                child.variables.push((name, value));
            }
            Verdict::KeepBilling => {
                child.kept.push(text.to_owned());
                child.billing.push(text.to_owned());
                child.variables.push((name, value));
            }
        }
    }
    for (name, value) in set {
        child.variables.push((OsString::from(name), OsString::from(value)));
    }
    child.removed.sort();
    child.kept.sort();
    child.billing.sort();
    child
}

enum Verdict {
    Ordinary,
    Keep,
    KeepBilling,
    Remove,
}

fn judge(name: &str, empty: bool, billing: Billing) -> Verdict {
    let upper = name.to_ascii_uppercase();
    let ours = upper.starts_with("CLAUDE") || upper.starts_with("ANTHROPIC_") || upper == "AI_AGENT";
    if !ours {
        return Verdict::Ordinary;
    }
    if BILLING.contains(&name) {
        return match billing {
            Billing::Subscription => Verdict::Remove,
            Billing::Inherit if empty => Verdict::Keep,
            Billing::Inherit => Verdict::KeepBilling,
        };
    }
    if KEPT.contains(&name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        Verdict::Keep
    } else {
        Verdict::Remove
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(names: &[&str]) -> Vec<(OsString, OsString)> {
        names.iter().map(|name| (OsString::from(name), OsString::from("value"))).collect()
    }

    fn names(child: &ChildEnvironment) -> Vec<String> {
        child.variables.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn markers_of_an_outer_session_are_stripped() {
        let outer = [
            "CLAUDECODE",
            "CLAUDE_CODE_ENTRYPOINT",
            "CLAUDE_CODE_SSE_PORT",
            "CLAUDE_CODE_CHILD_SESSION",
            "CLAUDE_CODE_SKIP_PROMPT_HISTORY",
            "CLAUDE_CODE_RESUME_INTERRUPTED_TURN",
            "CLAUDE_CODE_PROJECT_DIR_NAME",
            "CLAUDE_CODE_EXIT_AFTER_STOP_DELAY",
            "CLAUDE_CODE_SOMETHING_NEW",
            "ANTHROPIC_LOG",
            "AI_AGENT",
        ];
        let child = child_environment(pairs(&outer), Billing::Inherit, &[]);
        assert_eq!(child.variables, []);
        assert_eq!(child.removed.len(), outer.len());
    }

    #[test]
    fn what_a_login_needs_is_kept() {
        let needed = ["HOME", "USER", "PATH", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "HTTPS_PROXY"];
        for billing in [Billing::Inherit, Billing::Subscription] {
            let child = child_environment(pairs(&needed), billing, &[]);
            assert_eq!(names(&child), needed);
            assert_eq!(child.kept, ["CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"]);
            assert_eq!(child.billing, [""; 0]);
        }
    }

    #[test]
    fn who_pays_is_reported_or_dropped() {
        let paid = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"];
        let child = child_environment(pairs(&paid), Billing::Inherit, &[]);
        assert_eq!(child.billing, paid);
        let child = child_environment(pairs(&paid), Billing::Subscription, &[]);
        assert_eq!((names(&child).len(), child.removed.len()), (0, 2));
    }

    #[test]
    fn our_own_values_win_once() {
        let child = child_environment(
            pairs(&["AUTOPILOT_RUN_ID", "A"]),
            Billing::Inherit,
            &[("AUTOPILOT_RUN_ID", "new".to_owned())],
        );
        assert_eq!(
            child.variables,
            [("A".into(), "value".into()), ("AUTOPILOT_RUN_ID".into(), "new".into())]
                as [(OsString, OsString); 2]
        );
    }
}
