//! The runs of a span of time together: `report --since 7d`.
//!
//! A run belongs to the span in which it began. One whose folder cannot be read is named, not left out in
//! silence; a value that one of them does not know makes a sum a lower bound, and it is told as one.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::text::short_oid;
use super::{RunSummary, SCHEMA_VERSION, html, junit, markdown};
use crate::ui::text::{TextOptions, Tone, count, dollars, instant, plural, span, width};

/// Runs of a span of time, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SpanSummary {
    /// Version of the document: that of the report of a run.
    pub schema_version: u32,
    /// Runs that began at or after this.
    pub since: Timestamp,
    /// When the report was made.
    pub until: Timestamp,
    /// What they come to.
    pub totals: Totals,
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// Runs that could not be read, and why.
    pub unreadable: Vec<Unreadable>,
}

/// A run that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// Its id.
    pub run_id: String,
    /// Why.
    pub why: String,
}

/// Sums over runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Runs.
    pub runs: usize,
    /// Of them ended as planned.
    pub planned: usize,
    /// Completed sessions.
    pub sessions: u32,
    /// Commits.
    pub commits: u64,
    /// Verifications that passed.
    pub verified: usize,
    /// Verifications that failed.
    pub not_verified: usize,
    /// Output tokens that are known.
    pub output_tokens: u64,
    /// Dollars that are known.
    pub known_cost_usd: f64,
    /// Whether that is all: every run knows its cost.
    pub cost_complete: bool,
    /// Seconds at work and asleep.
    pub seconds: f64,
    /// Seconds of them asleep on usage limits.
    pub limit_wait_seconds: u64,
    /// Automatic repairs.
    pub heals: usize,
}

impl SpanSummary {
    /// The runs, in any order, of the time from `since` to `until`.
    #[must_use]
    pub fn new(
        since: Timestamp,
        until: Timestamp,
        mut runs: Vec<RunSummary>,
        unreadable: Vec<Unreadable>,
    ) -> Self {
        runs.sort_by_key(|run| run.started_at);
        let totals = totals(&runs);
        SpanSummary { schema_version: SCHEMA_VERSION, since, until, totals, runs, unreadable }
    }

    /// As JSON in one line.
    ///
    /// # Panics
    /// Never: every field has a JSON form and every key is a string.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut document = self.clone();
        for run in &mut document.runs {
            (run.next, run.decide) = (run.next_steps(), run.to_decide());
        }
        let mut json = serde_json::to_string(&document).expect("every field has a JSON form");
        json.push('\n');
        json
    }

    /// As `JUnit` XML: a suite a run.
    #[must_use]
    pub fn to_junit(&self) -> String {
        junit::report(&self.runs)
    }

    /// As one web page.
    #[must_use]
    pub fn to_html(&self, zone: &TimeZone) -> String {
        html::span(self, zone)
    }

    /// For people.
    #[must_use]
    pub fn to_text(&self, options: &TextOptions) -> String {
        let zone = &options.time_zone;
        let mut out = String::new();
        let head = format!("Runs since {}", instant(self.since, zone));
        _ = writeln!(out, "{}", options.paint(Tone::Strong, &head));
        for line in self.sums() {
            _ = writeln!(out, "  {line}");
        }
        if !self.runs.is_empty() {
            out.push('\n');
        }
        let rows: Vec<[String; 6]> = self.runs.iter().map(|run| row(run, zone)).collect();
        let widths: [usize; 6] = std::array::from_fn(|column| {
            rows.iter().map(|row| width(&row[column])).chain([HEADS[column].len()]).max().unwrap_or(0)
        });
        let line = |cells: &[String; 6]| {
            let cells: Vec<String> = cells
                .iter()
                .zip(widths)
                .enumerate()
                .map(|(column, (cell, columns))| {
                    let pad = " ".repeat(columns.saturating_sub(width(cell)));
                    if column == 0 || column == 5 { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
                })
                .collect();
            format!("  {}", cells.join("  ")).trim_end().to_owned()
        };
        if !rows.is_empty() {
            _ = writeln!(out, "{}", options.paint(Tone::Dim, &line(&HEADS.map(str::to_owned))));
        }
        for (run, cells) in self.runs.iter().zip(&rows) {
            let tone = match run.exit_code {
                Some(0) => Tone::Plain,
                Some(_) => Tone::Bad,
                None => Tone::Warn,
            };
            _ = writeln!(out, "{}", options.paint(tone, &options.fit_table(&line(cells))));
            let id = run.run_id.as_deref().unwrap_or("unknown");
            _ = writeln!(out, "{}", options.paint(Tone::Dim, &format!("    {}", options.fit(id, 76))));
        }
        for Unreadable { run_id, why } in &self.unreadable {
            let text = format!("  warning: run {run_id} cannot be read: {}", options.fit(why, 200));
            _ = writeln!(out, "{}", options.paint(Tone::Warn, &text));
        }
        let decide: Vec<(&str, Vec<String>)> = self
            .runs
            .iter()
            .map(|run| (run.run_id.as_deref().unwrap_or("unknown"), run.to_decide()))
            .filter(|(_, decide)| !decide.is_empty())
            .collect();
        if !decide.is_empty() {
            _ = writeln!(out, "\n{}", options.paint(Tone::Strong, "To decide"));
        }
        for (id, decide) in decide {
            _ = writeln!(out, "  {id}");
            for text in decide {
                for (n, line) in options.wrap(&text, options.width.saturating_sub(6)).iter().enumerate() {
                    _ = writeln!(out, "  {} {line}", if n == 0 { "  -" } else { "   " });
                }
            }
        }
        out
    }

    /// As Markdown. Times are UTC.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut out = format!("# Runs since {}\n\n", instant(self.since, &TimeZone::UTC));
        for line in self.sums() {
            _ = writeln!(out, "- {}", markdown::escape(&line));
        }
        if !self.runs.is_empty() {
            _ = writeln!(out, "\n| run | {} |\n|---|{}", HEADS.join(" | "), "---|".repeat(HEADS.len()));
        }
        for run in &self.runs {
            let id = markdown::escape(run.run_id.as_deref().unwrap_or("unknown"));
            let cells = row(run, &TimeZone::UTC).map(|cell| markdown::escape(&cell));
            _ = writeln!(out, "| {id} | {} |", cells.join(" | "));
        }
        for Unreadable { run_id, why } in &self.unreadable {
            let (id, why) = (markdown::escape(run_id), markdown::escape(why));
            _ = writeln!(out, "\nwarning: run {id} cannot be read: {why}");
        }
        let commits: Vec<String> = self
            .runs
            .iter()
            .flat_map(|run| run.sessions.iter().map(move |session| (run, session)))
            .filter_map(|(run, session)| Some((run, session.end.as_ref()?.work.as_ref()?)))
            .flat_map(|(run, work)| work.commits.iter().map(move |commit| (run, commit)))
            .map(|(run, commit)| {
                let oid = short_oid(&commit.oid);
                let link = run.commit_link(&commit.oid);
                let oid = link.map_or_else(|| format!("`{oid}`"), |link| format!("[`{oid}`]({link})"));
                format!("- {oid} {}", markdown::escape(&commit.subject))
            })
            .collect();
        if !commits.is_empty() {
            _ = writeln!(out, "\n## Commits\n\n{}", commits.join("\n"));
        }
        out
    }

    /// The sums in words, two lines and more.
    pub(super) fn sums(&self) -> Vec<String> {
        let t = &self.totals;
        let bound = if t.cost_complete { "" } else { "at least " };
        let mut lines = vec![format!(
            "{}, {} as planned; {}, {}",
            plural(t.runs as u64, "run"),
            t.planned,
            plural(u64::from(t.sessions), "completed session"),
            plural(t.commits, "commit"),
        )];
        lines.push(format!(
            "{}, {} output tokens, cost {bound}{}",
            span(Duration::try_from_secs_f64(t.seconds).unwrap_or_default()),
            count(t.output_tokens),
            dollars(Some(t.known_cost_usd)),
        ));
        let mut more = Vec::new();
        if t.verified + t.not_verified > 0 {
            more.push(format!("verified {} of {} sessions", t.verified, t.verified + t.not_verified));
        }
        if t.limit_wait_seconds > 0 {
            let waited = span(Duration::from_secs(t.limit_wait_seconds));
            more.push(format!("{waited} waiting for usage limits"));
        }
        if t.heals > 0 {
            more.push(plural(t.heals as u64, "heal"));
        }
        if !more.is_empty() {
            lines.push(more.join(", "));
        }
        lines
    }
}

/// Heads of the table of runs.
pub(super) const HEADS: [&str; 6] = ["started", "sessions", "commits", "time", "cost", "ended"];

/// The table's cells for a run.
pub(super) fn row(run: &RunSummary, zone: &TimeZone) -> [String; 6] {
    let started = run.started_at.map_or_else(
        || "unknown".to_owned(),
        |at| at.to_zoned_datetime(zone.clone()).strftime("%a %d %b %H:%M").to_string(),
    );
    let max = run.limits.map(|limits| format!("/{}", limits.max_sessions)).unwrap_or_default();
    [
        started,
        format!("{}{max}", run.iterations),
        run.commits().to_string(),
        run.seconds.map_or_else(|| "unknown".to_owned(), crate::ui::text::span_of_seconds),
        run.cost_usd.or(run.known_cost_usd).map_or_else(|| "unknown".to_owned(), |cost| dollars(Some(cost))),
        run.short_headline(),
    ]
}

fn totals(runs: &[RunSummary]) -> Totals {
    let mut totals = Totals { runs: runs.len(), cost_complete: true, ..Totals::default() };
    for run in runs {
        totals.planned += usize::from(run.exit_code == Some(0));
        totals.sessions = totals.sessions.saturating_add(run.iterations);
        totals.commits = totals.commits.saturating_add(run.commits());
        for verification in run.ended().filter_map(|end| end.verification.as_ref()) {
            totals.verified += usize::from(verification.passed);
            totals.not_verified += usize::from(!verification.passed);
        }
        totals.output_tokens =
            totals.output_tokens.saturating_add(run.tokens.map(|tokens| tokens.output).unwrap_or_default());
        totals.known_cost_usd += run.cost_usd.or(run.known_cost_usd).unwrap_or_default();
        // A run without a session has cost nothing.
        totals.cost_complete &= run.cost_usd.is_some() || run.sessions.is_empty();
        totals.seconds += run.seconds.unwrap_or_default();
        totals.limit_wait_seconds = totals.limit_wait_seconds.saturating_add(run.limit_wait_seconds);
        totals.heals += run.heals.len();
    }
    totals
}
