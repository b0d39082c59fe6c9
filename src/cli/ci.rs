//! What a CI system wants to know: summary and outputs of the step, annotations. Only where GitHub Actions says that it
//! is there; its names are those of its documentation ("Workflow commands", "Variables").

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;

use crate::error::exit::Exit;
use crate::report::RunSummary;
use crate::settings::env_vars;
use crate::ui::printer::Printer;

/// A step may have 1 MiB of summary.
const MAX_SUMMARY: usize = 1_000_000;
/// A step shows ten annotations of a kind.
const MAX_ANNOTATIONS: usize = 9;

/// Tells GitHub Actions how the run ended, if this is one of its jobs. `more`: a deadline ended it, and `resume` can go
/// on at once. What cannot be told is a warning; the run has ended as it has.
pub(super) fn tell(
    environment: &[(OsString, OsString)],
    summary: &RunSummary,
    exit: Exit,
    more: bool,
    printer: &Printer,
) {
    let variable = |name: &str| {
        environment.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    };
    if variable(env_vars::GITHUB_ACTIONS).is_none_or(|value| value != "true") {
        return;
    }
    let append = |name: &str, text: &str| {
        let Some(path) = variable(name) else { return };
        let written = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            printer.warn(&format!("{name} cannot be written: {error}"));
        }
    };
    append(env_vars::GITHUB_STEP_SUMMARY, &bounded(summary.to_markdown()));
    let outputs = format!(
        "run-id={}\nexit-code={}\noutcome={}\nmore={more}\n",
        summary.run_id.as_deref().unwrap_or_default(),
        exit.code(),
        exit.name()
    );
    append(env_vars::GITHUB_OUTPUT, &outputs);
    let text = annotations(summary, exit);
    if !text.is_empty() {
        printer.command(&text);
    }
}

fn bounded(mut text: String) -> String {
    if text.len() > MAX_SUMMARY {
        let end = (0..=MAX_SUMMARY).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push_str("\n\n(cut off: the whole report is in the folder of the run)\n");
    }
    text
}

/// Workflow commands, a line each: how it ended if not as planned, and what a person must decide.
fn annotations(summary: &RunSummary, exit: Exit) -> String {
    let mut text = String::new();
    let run = summary.run_id.as_deref().unwrap_or("autopilot");
    let title = property(&format!("autopilot {run}"));
    // Writing to a string cannot fail.
    if exit != Exit::Planned {
        let detail = summary.detail.as_deref().unwrap_or_else(|| exit.meaning());
        _ = writeln!(text, "::error title={title}::{}", data(&format!("{}: {detail}", summary.headline())));
    }
    for item in summary.to_decide().iter().take(MAX_ANNOTATIONS) {
        _ = writeln!(text, "::warning title={title}::{}", data(item));
    }
    text
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RunOutcome;

    #[test]
    fn nothing_that_a_session_wrote_is_a_command() {
        let summary = RunSummary {
            run_id: Some("main-2026".to_owned()),
            outcome: RunOutcome::Stopped,
            detail: Some("100% broken\n::set-output name=x::y".to_owned()),
            ..RunSummary::default()
        };
        let text = annotations(&summary, Exit::Blocked);
        assert_eq!(
            text.lines().next().unwrap(),
            "::error title=autopilot main-2026::stopped: 100%25 broken%0A::set-output name=x::y"
        );
        assert!(
            text.lines()
                .all(|line| line.starts_with("::error title=") || line.starts_with("::warning title=")),
            "{text}"
        );
        assert_eq!(annotations(&RunSummary::default(), Exit::Planned), "");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
        assert!(bounded("ä".repeat(MAX_SUMMARY)).len() < MAX_SUMMARY + 100);
    }
}
