//! `JUnit` XML, for the test view of a CI system: a suite a run, a case a session, and one for the run itself.
//!
//! A session fails when it did not complete, when its verification failed, or when ground truth contradicts
//! what it says. The run fails when its exit code is not 0, and is an error while its end is not known.
//! Foreign text is cleaned: XML 1.0 has no way to write most control characters.

use std::fmt::Write as _;

use super::{RunOutcome, RunSummary, SessionSummary};
use crate::ui::text::{clean_lines, one_line};
use crate::ui::words::result_words;

/// Longest message.
const MAX_MESSAGE: usize = 400;
/// Lines of a text.
const MAX_LINES: usize = 60;

/// A document with a suite for each run.
pub(super) fn report(runs: &[RunSummary]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let suites: Vec<Suite> = runs.iter().map(suite).collect();
    let sum = |of: fn(&Suite) -> usize| suites.iter().map(of).sum::<usize>();
    _ = writeln!(
        out,
        "<testsuites name=\"autopilot\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\">",
        sum(|suite| suite.tests),
        sum(|suite| suite.failures),
        sum(|suite| suite.errors),
        suites.iter().map(|suite| suite.seconds).sum::<f64>(),
    );
    for suite in &suites {
        out.push_str(&suite.xml);
    }
    out.push_str("</testsuites>\n");
    out
}

struct Suite {
    tests: usize,
    failures: usize,
    errors: usize,
    seconds: f64,
    xml: String,
}

fn suite(run: &RunSummary) -> Suite {
    let id = escape(run.run_id.as_deref().unwrap_or("unknown"), MAX_MESSAGE);
    let seconds = seconds(run.seconds);
    let mut cases = String::new();
    let (mut failures, mut errors) = (0, 0);
    for session in &run.sessions {
        let fault = session_fault(session);
        count(fault.as_ref(), &mut failures, &mut errors);
        let mode = session.mode.map(|mode| format!(": {mode}")).unwrap_or_default();
        let name = format!("session {}{mode}", session.iteration);
        let text = session.end.as_ref().and_then(|end| end.summary.as_deref());
        let took = session.end.as_ref().map_or(0.0, |end| self::seconds(Some(end.seconds)));
        case(&mut cases, &id, &name, took, fault.as_ref(), text);
    }
    let fault = run_fault(run);
    count(fault.as_ref(), &mut failures, &mut errors);
    let decide = run.to_decide().join("\n");
    case(&mut cases, &id, "run", seconds, fault.as_ref(), (!decide.is_empty()).then_some(&*decide));

    let tests = run.sessions.len() + 1;
    let mut xml = String::new();
    _ = write!(
        xml,
        "  <testsuite name=\"{id}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{seconds:.3}\""
    );
    if let Some(at) = run.started_at {
        _ = write!(xml, " timestamp=\"{}\"", at.strftime("%Y-%m-%dT%H:%M:%SZ"));
    }
    xml.push_str(">\n    <properties>\n");
    let mut property = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let value = escape(&value, MAX_MESSAGE);
            _ = writeln!(xml, "      <property name=\"{name}\" value=\"{value}\"/>");
        }
    };
    property("exit_code", run.exit_code.map(|code| code.to_string()));
    property("kill_switch", run.kill_switch.map(|switch| switch.to_string()));
    property("cost_usd", run.cost_usd.map(|cost| format!("{cost:.4}")));
    property("output_tokens", run.tokens.map(|tokens| tokens.output.to_string()));
    property("commits", Some(run.commits().to_string()));
    property("repository", run.repository.clone());
    property("branch", run.branch.clone());
    xml.push_str("    </properties>\n");
    xml.push_str(&cases);
    xml.push_str("  </testsuite>\n");
    Suite { tests, failures, errors, seconds, xml }
}

/// What is wrong with a case: element, message, text.
struct Fault {
    element: &'static str,
    message: String,
    text: String,
}

fn count(fault: Option<&Fault>, failures: &mut usize, errors: &mut usize) {
    match fault.map(|fault| fault.element) {
        Some("failure") => *failures += 1,
        Some(_) => *errors += 1,
        None => {}
    }
}

fn session_fault(session: &SessionSummary) -> Option<Fault> {
    let Some(end) = &session.end else {
        let message = "not finished, as far as the journal tells".to_owned();
        return Some(Fault { element: "error", message, text: String::new() });
    };
    let failed = end.verification.as_ref().filter(|verification| !verification.passed);
    let message = if !end.completed {
        result_words(end.completed, end.class, end.status.as_deref())
    } else if let Some(verification) = failed {
        format!("verification failed: {}", verification.ended)
    } else {
        end.contradictions.first()?.clone()
    };
    let tail = failed.map(|verification| verification.tail.clone()).unwrap_or_default();
    let text = end.contradictions.iter().fold(String::new(), |text, but| text + "but: " + but + "\n") + &tail;
    Some(Fault { element: "failure", message, text })
}

fn run_fault(run: &RunSummary) -> Option<Fault> {
    let element = match (run.outcome, run.exit_code) {
        (RunOutcome::Unfinished, _) => "error",
        (_, Some(0)) => return None,
        _ => "failure",
    };
    Some(Fault { element, message: run.headline(), text: run.detail.clone().unwrap_or_default() })
}

fn case(out: &mut String, class: &str, name: &str, seconds: f64, fault: Option<&Fault>, text: Option<&str>) {
    let name = escape(name, MAX_MESSAGE);
    _ = write!(out, "    <testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.3}\"");
    if fault.is_none() && text.is_none() {
        out.push_str("/>\n");
        return;
    }
    out.push_str(">\n");
    if let Some(Fault { element, message, text }) = fault {
        let message = escape(message, MAX_MESSAGE);
        _ = writeln!(out, "      <{element} message=\"{message}\">{}</{element}>", lines(text));
    }
    if let Some(text) = text {
        _ = writeln!(out, "      <system-out>{}</system-out>", lines(text));
    }
    out.push_str("    </testcase>\n");
}

fn seconds(seconds: Option<f64>) -> f64 {
    seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0).unwrap_or_default()
}

/// Foreign text as the value of an attribute.
fn escape(text: &str, max: usize) -> String {
    entities(&one_line(text, max))
}

/// Foreign text as the content of an element, its lines kept.
fn lines(text: &str) -> String {
    entities(&clean_lines(text, MAX_LINES).join("\n"))
}

fn entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c => out.push(c),
        }
    }
    out
}
