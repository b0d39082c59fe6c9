//! `report.md`: the same account with the commits, for a repository's web page or a mail.
//!
//! Foreign text is cleaned and its Markdown signs are escaped, so that no summary of a model can forge a
//! heading, a link or a table row.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::text::{cells, cost, heads, output, refusals, remarks, short_oid, totals};
use super::{RunSummary, SessionSummary};
use crate::core::published::peer_words;
use crate::ui::text::{count, dollars, instant, one_line, plural, span};

/// Longest piece of foreign text.
const MAX_TEXT: usize = 400;

/// The whole report.
pub(super) fn report(summary: &RunSummary) -> String {
    let mut out = String::new();
    let run_id = summary.run_id.as_deref().unwrap_or("unknown");
    _ = writeln!(out, "# Run {}\n", escape(run_id));
    let exit = summary.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    _ = writeln!(out, "**{}**{exit}\n", escape(&summary.headline()));
    if let Some(detail) = &summary.detail {
        _ = writeln!(out, "{}\n", escape(detail));
    }
    if let Some(damage) = &summary.damage {
        _ = writeln!(out, "warning: {}\n", escape(damage));
    }
    facts(&mut out, summary);

    let decide = summary.to_decide();
    if !decide.is_empty() {
        _ = writeln!(out, "## To decide\n");
        for text in decide {
            _ = writeln!(out, "- {}", escape(&text));
        }
        out.push('\n');
    }
    _ = writeln!(out, "## Sessions\n");
    if summary.sessions.is_empty() {
        _ = writeln!(out, "No session was started.\n");
    } else {
        _ = writeln!(out, "| {} |", heads().join(" | "));
        _ = writeln!(out, "|{}", "---|".repeat(heads().len()));
        for session in &summary.sessions {
            _ = writeln!(out, "| {} |", cells(session).map(|cell| escape(&cell)).join(" | "));
        }
        out.push('\n');
        for line in totals(summary) {
            _ = writeln!(out, "{}\n", escape(&line));
        }
        for session in &summary.sessions {
            details(&mut out, summary, session);
        }
    }
    if !summary.heals.is_empty() {
        _ = writeln!(out, "## Heals\n");
        for heal in &summary.heals {
            let (action, why) = (escape(&heal.action), escape(&heal.why));
            let at = instant(heal.at, &TimeZone::UTC);
            _ = writeln!(out, "- {at}, {}: {action}, because {why}", escape(heal.class.as_str()));
        }
        out.push('\n');
    }
    if !summary.waits.is_empty() {
        _ = writeln!(out, "## Usage limits\n");
        for wait in &summary.waits {
            let window = escape(wait.window.as_deref().unwrap_or("unnamed window"));
            let at = instant(wait.at, &TimeZone::UTC);
            let waited = wait.waited_seconds.map_or_else(
                || format!("waiting until {}", instant(wait.until, &TimeZone::UTC)),
                |seconds| format!("waited {}", span(Duration::from_secs(seconds))),
            );
            _ = writeln!(out, "- {at}, {window}: {waited}");
        }
        out.push('\n');
    }
    if !summary.peer_waits.is_empty() {
        _ = writeln!(out, "## Waits for other sessions\n");
        for wait in &summary.peer_waits {
            let (who, at) = (peer_words(&wait.peers), instant(wait.at, &TimeZone::UTC));
            let waited = wait.waited_seconds.map_or_else(
                || format!("waiting until {} at most", instant(wait.until, &TimeZone::UTC)),
                |seconds| format!("waited {}", span(Duration::from_secs(seconds))),
            );
            _ = writeln!(out, "- {at}, {who}: {waited}");
        }
        out.push('\n');
    }
    let refusals = refusals(summary);
    if !refusals.is_empty() {
        _ = writeln!(out, "## Refused\n");
        for line in refusals {
            _ = writeln!(out, "- {}", escape(&line));
        }
        out.push('\n');
    }
    if !summary.warnings.is_empty() {
        _ = writeln!(out, "## Warnings\n");
        for warning in &summary.warnings {
            _ = writeln!(out, "- {}", escape(warning));
        }
        out.push('\n');
    }
    let next = summary.next_steps();
    if !next.is_empty() {
        _ = writeln!(out, "## Next\n");
        for command in next {
            _ = writeln!(out, "    {}", one_line(&command, MAX_TEXT));
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn facts(out: &mut String, summary: &RunSummary) {
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            _ = writeln!(out, "- {name}: {}", escape(&value));
        }
    };
    fact("repository", summary.repository.clone());
    fact("branch", summary.branch.clone());
    fact("continued run", summary.parent_run_id.clone());
    fact("started", summary.started_at.map(|at| instant(at, &TimeZone::UTC)));
    fact("output tokens", Some(output(summary.tokens)));
    fact("cost (API equivalent)", Some(cost(summary)));
    fact("autopilot", summary.version.clone());
    fact("Claude Code", Some(summary.claude_version.clone().unwrap_or_else(|| "unknown".to_owned())));
    out.push('\n');
}

fn details(out: &mut String, summary: &RunSummary, session: &SessionSummary) {
    _ = writeln!(out, "### Session {} ({})\n", session.iteration, escape(&session.session_id));
    for (_, remark) in remarks(session) {
        _ = writeln!(out, "- {}", escape(&remark));
    }
    if let Some(work) = session.end.as_ref().and_then(|end| end.work.as_ref()) {
        for commit in &work.commits {
            let oid = format!("`{}`", short_oid(&commit.oid));
            let oid = summary.commit_link(&commit.oid).map_or(oid.clone(), |link| format!("[{oid}]({link})"));
            _ = writeln!(out, "- {oid} {}", escape(&commit.subject));
        }
        let listed = u64::try_from(work.commits.len()).unwrap_or(u64::MAX);
        if work.commits_total > listed {
            _ = writeln!(out, "- and {}", plural(work.commits_total - listed, "more commit"));
        }
    }
    if let Some(end) = session.end.as_ref().filter(|end| !end.models.is_empty()) {
        let models: Vec<String> = end
            .models
            .iter()
            .map(|spend| {
                let cost =
                    spend.cost_usd.map(|cost| format!(", {}", dollars(Some(cost)))).unwrap_or_default();
                format!("{} ({} output tokens{cost})", spend.model, count(spend.tokens.output))
            })
            .collect();
        _ = writeln!(out, "- models: {}", escape(&models.join("; ")));
    }
    if session.end.is_none() {
        _ = writeln!(out, "- not finished, as far as the journal tells");
    }
    out.push('\n');
}

/// Foreign text as one line without effect in Markdown.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text, MAX_TEXT).chars() {
        if matches!(c, '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' | '!') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
