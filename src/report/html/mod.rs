//! The report as one web page: inline style, inline SVG, nothing loaded, no script, light and dark.
//!
//! Invariant: every text that is not a literal of these files goes through [`svg::esc`], which leaves nothing
//! that HTML could act on; links are made of a forge's address that was built anew from harmless parts and of
//! hexadecimal digits. A content security policy forbids scripts and loads all the same.

mod bars;
mod lines;
mod svg;
mod timeline;

use std::fmt::Write as _;
use std::time::Duration;

use jiff::tz::TimeZone;

use self::svg::esc;
use super::span::{HEADS, SpanSummary, row};
use super::text::{cells, cost, output, refusals, remarks, short_oid};
use super::{RunOutcome, RunSummary, SessionSummary};
use crate::ui::text::{
    Tone, clean_lines, count, dollars, instant, plural, span as words_of, span_of_seconds,
};

/// Longest piece of foreign text.
const MAX_TEXT: usize = 600;
/// Up to so many sessions are shown unfolded.
const UNFOLDED: usize = 6;

const STYLE: &str = include_str!("style.css");

/// The page of a run.
pub(super) fn run(run: &RunSummary, zone: &TimeZone) -> String {
    let id = run.run_id.as_deref().unwrap_or("unknown");
    let mut out = begin(&format!("{id}: {}", run.headline()));
    head(&mut out, run, id, zone);
    tiles(&mut out, run);
    decisions(&mut out, run);
    let mut chart = |title: &str, chart: Option<String>| {
        if let Some(chart) = chart {
            _ = write!(out, "<section class=card><h2>{title}</h2>{chart}</section>");
        }
    };
    chart("Timeline", timeline::chart(run, zone));
    chart("Output tokens and cost", bars::chart(run));
    chart("Usage windows", lines::windows(run, zone));
    chart("Machine", lines::resources(run, zone));
    sessions(&mut out, run, zone);
    events(&mut out, run, zone);
    foot(&mut out, run);
    finish(out)
}

fn begin(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\
         <meta name=viewport content=\"width=device-width,initial-scale=1\"><meta name=referrer content=no-referrer>\
         <meta name=robots content=noindex><title>{}</title><style>{STYLE}</style></head><body><main>",
        esc(title, 200)
    )
}

fn finish(mut out: String) -> String {
    out.push_str("</main></body></html>\n");
    out
}

/// The class of the badge of an outcome.
fn tone(run: &RunSummary) -> &'static str {
    match run.outcome {
        RunOutcome::Planned => "good",
        RunOutcome::Manual | RunOutcome::Aborted | RunOutcome::Unfinished => "warn",
        RunOutcome::Stopped => "bad",
    }
}

fn head(out: &mut String, run: &RunSummary, id: &str, zone: &TimeZone) {
    _ = write!(
        out,
        "<div class=head><h1>Run {}</h1><span class=\"badge {}\">{}</span>",
        esc(id, 200),
        tone(run),
        esc(&run.headline(), 200)
    );
    if let Some(code) = run.exit_code {
        _ = write!(out, "<span class=badge>exit code {code}</span>");
    }
    out.push_str("</div>");
    if let Some(detail) = &run.detail {
        _ = write!(out, "<p class=sub>{}</p>", esc(detail, MAX_TEXT));
    }
    let mut facts = Vec::new();
    if let Some(at) = run.started_at {
        facts.push(format!("started {}", instant(at, zone)));
    }
    if let (Some(at), true) = (run.last_event_at, run.outcome != RunOutcome::Unfinished) {
        facts.push(format!("ended {}", instant(at, zone)));
    } else if let Some(at) = run.last_event_at {
        facts.push(format!("last sign of life {}", instant(at, zone)));
    }
    if let Some(repository) = &run.repository {
        let branch = run.branch.as_deref().map(|branch| format!(", branch {}", esc(branch, 80)));
        facts.push(format!("{}{}", esc(repository, 200), branch.unwrap_or_default()));
    }
    if let Some(parent) = &run.parent_run_id {
        facts.push(format!("continued run {}", esc(parent, 200)));
    }
    _ = write!(out, "<p class=\"sub mute\">{}</p>", facts.join(" · "));
    if let Some(damage) = &run.damage {
        _ = write!(out, "<p class=warnc>warning: {}</p>", esc(damage, MAX_TEXT));
    }
}

fn tiles(out: &mut String, run: &RunSummary) {
    out.push_str("<div class=tiles>");
    let mut tile = |value: &str, what: &str| {
        _ = write!(out, "<div class=tile><b>{value}</b><span>{what}</span></div>");
    };
    let max = run.limits.map(|limits| format!(" of {}", limits.max_sessions)).unwrap_or_default();
    tile(&format!("{}{max}", run.iterations), "sessions completed");
    tile(&count(run.commits()), if run.commits() == 1 { "commit" } else { "commits" });
    let verified: Vec<bool> = run
        .ended()
        .filter_map(|end| end.verification.as_ref())
        .map(|verification| verification.passed)
        .collect();
    if !verified.is_empty() {
        let passed = verified.iter().filter(|passed| **passed).count();
        tile(&format!("{passed} of {}", verified.len()), "verified");
    }
    let (value, what) = match (run.cost_usd, run.known_cost_usd) {
        (None, Some(known)) => (format!("≥ {}", dollars(Some(known))), "cost, not all known"),
        (sum, _) => (dollars(sum), "cost, API equivalent"),
    };
    tile(&value, what);
    tile(&output(run.tokens), "output tokens");
    tile(&run.seconds.map_or_else(|| "unknown".to_owned(), span_of_seconds), "from start to end");
    if run.limit_wait_seconds > 0 {
        tile(&words_of(Duration::from_secs(run.limit_wait_seconds)), "asleep on usage limits");
    }
    if !run.heals.is_empty() {
        tile(&run.heals.len().to_string(), if run.heals.len() == 1 { "heal" } else { "heals" });
    }
    out.push_str("</div>");
}

fn decisions(out: &mut String, run: &RunSummary) {
    let decide = run.to_decide();
    if !decide.is_empty() {
        let class = if run.outcome == RunOutcome::Stopped { "bad" } else { "warn" };
        _ = write!(out, "<section class=\"card {class}\"><h2>To decide</h2><ul>");
        for text in decide {
            _ = write!(out, "<li>{}</li>", esc(&text, MAX_TEXT));
        }
        out.push_str("</ul></section>");
    }
    let next = run.next_steps();
    if !next.is_empty() {
        out.push_str("<section class=card><h2>Next</h2>");
        for command in next {
            // Behind four spaces stands why.
            let (command, why) = command.split_once("    ").unwrap_or((&command, ""));
            _ = write!(out, "<pre>{}</pre>", esc(command, MAX_TEXT));
            if !why.is_empty() {
                _ = write!(out, "<p class=mute>{}</p>", esc(why.trim_matches(['(', ')']), MAX_TEXT));
            }
        }
        out.push_str("</section>");
    }
}

fn sessions(out: &mut String, run: &RunSummary, zone: &TimeZone) {
    out.push_str("<section class=card><h2>Sessions</h2>");
    if run.sessions.is_empty() {
        out.push_str("<p class=mute>No session was started.</p>");
    }
    for session in &run.sessions {
        self::session(out, run, session, zone, run.sessions.len() <= UNFOLDED);
    }
    out.push_str("</section>");
}

fn session(out: &mut String, run: &RunSummary, session: &SessionSummary, zone: &TimeZone, unfold: bool) {
    let [number, mode, result, time, commits, _, tokens, cost] = cells(session).map(|cell| esc(&cell, 80));
    let good = session.end.as_ref().is_some_and(|end| {
        end.completed
            && end.contradictions.is_empty()
            && end.verification.as_ref().is_none_or(|verification| verification.passed)
    });
    let badge = match (&session.end, good) {
        (None, _) => "warn",
        (Some(_), true) => "good",
        (Some(_), false) => "bad",
    };
    let open = if unfold || !good { " open" } else { "" };
    _ = write!(
        out,
        "<details{open}><summary><b>{number}</b> {mode} <span class=\"badge {badge}\">{result}</span>"
    );
    match session.end.as_ref().and_then(|end| end.verification.as_ref()) {
        Some(verification) if verification.passed => {
            out.push_str("<span class=\"badge good\">verified</span>");
        }
        Some(_) => out.push_str("<span class=\"badge bad\">not verified</span>"),
        None => {}
    }
    _ = write!(out, "<span class=fill></span><span class=mute>");
    if session.end.is_some() {
        let noun = if commits == "1" { "commit" } else { "commits" };
        _ = write!(out, "{time} · {commits} {noun} · {tokens} tokens · {cost}");
    }
    out.push_str("</span></summary><div>");
    for (tone, text) in remarks(session) {
        let class = match tone {
            Tone::Good => " class=good",
            Tone::Warn => " class=warnc",
            Tone::Bad => " class=badc",
            Tone::Dim => " class=mute",
            Tone::Plain | Tone::Strong => "",
        };
        _ = write!(out, "<p{class}>{}</p>", esc(&text, MAX_TEXT));
    }
    if let Some(work) = session.end.as_ref().and_then(|end| end.work.as_ref())
        && work.commits_total > 0
    {
        out.push_str("<ul>");
        for commit in &work.commits {
            let oid = format!("<code>{}</code>", short_oid(&commit.oid));
            let oid = match run.commit_link(&commit.oid) {
                Some(link) => format!("<a href=\"{}\" rel=noreferrer>{oid}</a>", esc(&link, MAX_TEXT)),
                None => oid,
            };
            _ = write!(out, "<li>{oid} {}</li>", esc(&commit.subject, 200));
        }
        let listed = u64::try_from(work.commits.len()).unwrap_or(u64::MAX);
        if work.commits_total > listed {
            _ = write!(out, "<li>and {}</li>", plural(work.commits_total - listed, "more commit"));
        }
        _ = write!(
            out,
            "</ul><p class=mute>{}, +{} −{}</p>",
            plural(work.files_changed, "file"),
            count(work.insertions),
            count(work.deletions)
        );
    }
    if let Some(tasks) = session.end.as_ref().and_then(|end| end.tasks.as_ref()) {
        let mut list = |name: &str, titles: &[String]| {
            for title in titles {
                _ = write!(out, "<p><span class=mute>{name}:</span> {}</p>", esc(title, 200));
            }
        };
        list("done", &tasks.ticked_by_session);
        list("done, ticked by autopilot", &tasks.ticked_by_us);
        list("still open", &tasks.still_open);
    }
    let at = session.started_at.map(|at| format!(", from {}", instant(at, zone))).unwrap_or_default();
    _ = write!(out, "<p class=mute>conversation <code>{}</code>{at}</p>", esc(&session.session_id, 80));
    out.push_str("</div></details>");
}

fn events(out: &mut String, run: &RunSummary, zone: &TimeZone) {
    let mut rows: Vec<(jiff::Timestamp, &str, String)> = Vec::new();
    for heal in &run.heals {
        let text = format!("{}: {}, because {}", heal.class, heal.action, heal.why);
        rows.push((heal.at, "heal", text));
    }
    for wait in &run.waits {
        let window = wait.window.as_deref().unwrap_or("usage limit");
        let waited = wait.waited_seconds.map_or_else(
            || format!("until {}, not over", instant(wait.until, zone)),
            |seconds| words_of(Duration::from_secs(seconds)),
        );
        rows.push((wait.at, "usage limit", format!("{window}: {waited}")));
    }
    for wait in &run.peer_waits {
        let who = crate::core::published::peer_words(&wait.peers);
        let waited = wait.waited_seconds.map_or_else(
            || format!("until {} at most", instant(wait.until, zone)),
            |seconds| words_of(Duration::from_secs(seconds)),
        );
        rows.push((wait.at, "peers", format!("{who}: {waited}")));
    }
    for asked in &run.questions {
        let answer = asked.answer.as_deref().map(|answer| format!(" Answered: {answer}"));
        rows.push((asked.at, "question", format!("{}{}", asked.question, answer.unwrap_or_default())));
    }
    rows.sort_by_key(|(at, ..)| *at);
    if !rows.is_empty() {
        out.push_str("<section class=card><h2>Heals, waits and questions</h2><div class=scroll><table>");
        for (at, kind, text) in rows {
            let (at, text) = (instant(at, zone), esc(&text, MAX_TEXT));
            _ = write!(out, "<tr><td class=mute>{at}</td><td>{kind}</td><td>{text}</td></tr>");
        }
        out.push_str("</table></div></section>");
    }
    let refusals = refusals(run);
    if !refusals.is_empty() {
        out.push_str("<section class=card><h2>Refused by the gate</h2><ul>");
        for line in refusals {
            _ = write!(out, "<li>{}</li>", esc(&line, MAX_TEXT));
        }
        out.push_str("</ul></section>");
    }
    if !run.warnings.is_empty() {
        out.push_str("<section class=\"card warn\"><h2>Warnings</h2><ul>");
        for warning in &run.warnings {
            _ = write!(out, "<li>{}</li>", esc(warning, MAX_TEXT));
        }
        out.push_str("</ul></section>");
    }
}

fn foot(out: &mut String, run: &RunSummary) {
    let mut facts = Vec::new();
    if let Some(limits) = run.limits {
        let tokens = if limits.max_tokens == 0 {
            String::new()
        } else {
            format!(", {} tokens", count(limits.max_tokens))
        };
        let cost = limits.max_cost_usd.map(|cost| format!(", {}", dollars(Some(cost)))).unwrap_or_default();
        facts.push(format!(
            "budget: {}, {}h{tokens}{cost}",
            plural(u64::from(limits.max_sessions), "session"),
            limits.max_hours
        ));
    }
    if let Some(tokens) = run.tokens {
        facts.push(format!(
            "tokens: {} in, {} out, {} read from the cache, {} written to it",
            count(tokens.input),
            count(tokens.output),
            count(tokens.cache_read),
            count(tokens.cache_creation)
        ));
    }
    facts.push(format!("cost {}", cost(run)));
    if run.api_retries > 0 {
        facts.push(format!("API retries: {}", count(run.api_retries)));
    }
    facts.push(format!("autopilot {}", esc(run.version.as_deref().unwrap_or("unknown"), 40)));
    facts.push(format!("Claude Code {}", esc(run.claude_version.as_deref().unwrap_or("unknown"), 40)));
    _ = write!(out, "<footer>{}</footer>", facts.join(" · "));
}

/// The page of a span of time.
pub(super) fn span(span: &SpanSummary, zone: &TimeZone) -> String {
    let title = format!("Runs since {}", instant(span.since, zone));
    let mut out = begin(&title);
    _ = write!(out, "<div class=head><h1>{}</h1></div>", esc(&title, 200));
    for line in span.sums() {
        _ = write!(out, "<p class=sub>{}</p>", esc(&line, MAX_TEXT));
    }
    out.push_str("<section class=card><h2>Runs</h2><div class=scroll><table><tr>");
    for (column, head) in HEADS.iter().enumerate() {
        let class = if (1..5).contains(&column) { " class=n" } else { "" };
        _ = write!(out, "<th{class}>{head}</th>");
    }
    out.push_str("<th>run</th></tr>");
    for run in &span.runs {
        out.push_str("<tr>");
        for (column, cell) in row(run, zone).iter().enumerate() {
            let cell = esc(cell, 80);
            _ = match column {
                1..5 => write!(out, "<td class=n>{cell}</td>"),
                5 => write!(out, "<td><span class=\"badge {}\">{cell}</span></td>", tone(run)),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        let id = esc(run.run_id.as_deref().unwrap_or("unknown"), 200);
        _ = write!(out, "<td class=mute><code>{id}</code></td></tr>");
    }
    out.push_str("</table></div></section>");
    for run in &span.runs {
        let id = run.run_id.as_deref().unwrap_or("unknown");
        let decide = run.to_decide();
        _ = write!(out, "<section class=card><h2>{}</h2>", esc(id, 200));
        if let Some(chart) = timeline::chart(run, zone) {
            out.push_str(&chart);
        }
        if !decide.is_empty() {
            out.push_str("<h2>To decide</h2><ul>");
            for text in decide {
                _ = write!(out, "<li>{}</li>", esc(&text, MAX_TEXT));
            }
            out.push_str("</ul>");
        }
        if let Some(next) = run.next_steps().first() {
            _ = write!(out, "<pre>{}</pre>", esc(next, MAX_TEXT));
        }
        out.push_str("</section>");
    }
    if !span.unreadable.is_empty() {
        out.push_str("<section class=\"card warn\"><h2>Not readable</h2><ul>");
        for unreadable in &span.unreadable {
            let why = clean_lines(&unreadable.why, 1).join(" ");
            _ = write!(out, "<li>{}: {}</li>", esc(&unreadable.run_id, 200), esc(&why, MAX_TEXT));
        }
        out.push_str("</ul></section>");
    }
    finish(out)
}
