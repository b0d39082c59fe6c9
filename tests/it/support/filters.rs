//! What differs from run to run, made the same for snapshots.

use std::path::Path;

use insta::Settings;

use super::env::TestEnv;

/// Patterns and what stands in their place, in this order.
const PATTERNS: &[(&str, &str)] = &[
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[UUID]"),
    (r"[A-Za-z0-9._-]+-\d{4}-\d{2}-\d{2}-\d{4}-autopilot(-[0-9a-z]+)?", "[RUN]"),
    (r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?", "[TIME]"),
    (r"\b\d{1,2}:\d{2}(:\d{2})?( ?[ap]m)?\b", "[CLOCK]"),
    (r"\b\d+(\.\d+)? ?(ms|µs|s|min|m|h|d)\b( \d+ ?(ms|s|min|m|h)\b)*", "[DURATION]"),
    (r#""(duration_seconds|duration_ms|limit_wait_seconds|pid|ms)":\s*\d+(\.\d+)?"#, r#""$1":[N]"#),
    (r"\bpid[ =]\d+", "pid [N]"),
    (r"autopilot \d+\.\d+\.\d+", "autopilot [VERSION]"),
    (r"2\.\d+\.\d+ \(Claude Code\)", "[CLAUDE VERSION]"),
    (r#""version":\s*"\d+\.\d+\.\d+""#, r#""version":"[VERSION]""#),
];

/// Snapshot settings for output of a run in `env`.
pub(crate) fn settings(env: &TestEnv) -> Settings {
    let mut settings = Settings::clone_current();
    for (path, name) in [
        (Path::new(env!("CARGO_BIN_EXE_fake-claude")), "[FAKE CLAUDE]"),
        (Path::new(env!("CARGO_BIN_EXE_autopilot")), "[AUTOPILOT]"),
        (env.repo(), "[REPO]"),
        (&env.home(), "[HOME]"),
        (&env.config_dir(), "[CONFIG]"),
        (env.root(), "[ROOT]"),
    ] {
        settings.add_filter(&literal(&path.to_string_lossy()), name);
    }
    for (pattern, name) in PATTERNS {
        settings.add_filter(pattern, *name);
    }
    settings
}

/// A pattern that matches `text` itself.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if !c.is_alphanumeric() && c != '/' && c != '_' {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[test]
fn what_changes_from_run_to_run_is_filtered() {
    let env = TestEnv::new();
    let text = format!(
        "run feat-x-2026-04-25-0842-autopilot of 3f0c8a52-6f0a-4d43-9b6e-0d4f6a2b9c11 in {} at \
         2026-04-25T08:42:00.000Z took 1.25 s and 3 min 20 s, limit resets 8:41pm, autopilot 0.1.0, max 3 sessions",
        env.repo().display()
    );
    settings(&env).bind(|| {
        insta::assert_snapshot!(text, @"run [RUN] of [UUID] in [REPO] at [TIME] took [DURATION] and [DURATION], limit resets [CLOCK], autopilot [VERSION], max 3 sessions");
    });
}
