//! The triage command: a program of the operator's that says what an unrecognised screen shows (recovery §2, R4).
//!
//! It gets the end of the screen and answers `{"state": …, "key": …}`. Whatever it says, it can press nothing but
//! Enter, Esc or one digit, and only where [`super::pilot`] takes it.

use std::path::Path;

use serde::Deserialize;

use crate::process::{CaptureSpec, capture};

use super::timings::{TRIAGE_INPUT, TRIAGE_WITHIN};

/// States it may name; another one is `unknown`.
const STATES: [&str; 7] = ["ready", "working", "gate", "menu", "survey", "error", "unknown"];

#[derive(Deserialize)]
struct Said {
    state: String,
    #[serde(default)]
    key: Option<String>,
}

/// Asks the command; a failure is `unknown` without a key.
pub(super) async fn ask(command: &str, lines: &[String], cwd: &Path) -> (String, Option<String>) {
    let screen = lines.join("\n");
    let skip = screen.chars().count().saturating_sub(TRIAGE_INPUT);
    let mut spec = CaptureSpec::new("sh", cwd);
    spec.args = vec!["-c".into(), command.into()];
    spec.stdin = Some(screen.chars().skip(skip).collect::<String>().into_bytes());
    spec.timeout = TRIAGE_WITHIN;
    spec.max_output = 64 << 10;
    match capture(&spec).await {
        Ok(captured) if captured.exit.success() => said(&captured.stdout),
        Ok(_) | Err(_) => ("unknown".to_owned(), None),
    }
}

fn said(output: &[u8]) -> (String, Option<String>) {
    let Ok(Said { state, key }) = serde_json::from_slice(output) else { return ("unknown".to_owned(), None) };
    let state = if STATES.contains(&state.as_str()) { state } else { "unknown".to_owned() };
    let is_digit = |key: &str| key.len() == 1 && key.chars().all(|c| c.is_ascii_digit());
    (state, key.filter(|key| key == "enter" || key == "esc" || is_digit(key)))
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn what_it_may_say() {
        for (output, state, key) in [
            (r#"{"state":"survey","key":"0"}"#, "survey", Some("0")),
            (r#"{"state":"menu","key":"esc"}"#, "menu", Some("esc")),
            (r#"{"state":"working"}"#, "working", None),
            (r#"{"state":"fine","key":"enter"}"#, "unknown", Some("enter")),
            (r#"{"state":"menu","key":"12"}"#, "menu", None),
            (r#"{"state":"menu","key":"y"}"#, "menu", None),
            ("I think it is ready", "unknown", None),
            ("", "unknown", None),
        ] {
            assert_eq!(said(output.as_bytes()), (state.to_owned(), key.map(str::to_owned)), "{output}");
        }
    }
}
