//! The report for people: a small aligned table, totals, repairs, and what to do next.

use std::time::Duration;

use super::{Refusal, RunOutcome, RunSummary, SessionSummary};
use crate::core::published::{Tokens, peer_words};
use crate::ui::text::{
    TextOptions, Tone, clean_lines, count, dollars, instant, one_line, plural, span, span_of_seconds, width,
};
use crate::ui::words::{result_words, wave_words};

/// Heads of the table.
const HEADS: [&str; 8] = ["#", "mode", "result", "time", "commits", "files", "tokens", "cost"];
/// The column of the result.
const RESULT: usize = 2;
/// Lines of one text.
const MAX_LINES: usize = 6;
/// Longest command.
const MAX_COMMAND: usize = 400;
/// Commits that are named for a session.
const MAX_COMMITS: usize = 5;
/// Columns with numbers, which are set flush right.
const NUMBERS: [bool; 8] = [true, false, false, true, true, true, true, true];

/// The table's cells for a session.
pub(super) fn cells(session: &SessionSummary) -> [String; 8] {
    let unknown = || "unknown".to_owned();
    let mode = session.mode.map_or_else(unknown, |mode| mode.to_string());
    let Some(end) = &session.end else {
        return [
            session.iteration.to_string(),
            mode,
            "unfinished".to_owned(),
            unknown(),
            unknown(),
            unknown(),
            unknown(),
            unknown(),
        ];
    };
    let work = end.work.as_ref();
    [
        session.iteration.to_string(),
        mode,
        result_words(end.completed, end.class, end.status.as_deref()),
        span_of_seconds(end.seconds),
        work.map_or_else(unknown, |work| work.commits_total.to_string()),
        work.map_or_else(unknown, |work| work.files_changed.to_string()),
        output(end.tokens),
        dollars(end.cost_usd),
    ]
}

/// The heads of the table.
pub(super) fn heads() -> [&'static str; 8] {
    HEADS
}

/// Output tokens, or `unknown`.
pub(super) fn output(tokens: Option<Tokens>) -> String {
    tokens.map_or_else(|| "unknown".to_owned(), |tokens| count(tokens.output))
}

/// The cost of the run; a lower bound when only some sessions said theirs.
pub(super) fn cost(summary: &RunSummary) -> String {
    match (summary.cost_usd, summary.known_cost_usd) {
        (None, Some(known)) => format!("unknown (at least {})", dollars(Some(known))),
        (sum, _) => dollars(sum),
    }
}

/// What is to be said of a session beside its line in the table: tone and text, text still foreign.
pub(super) fn remarks(session: &SessionSummary) -> Vec<(Tone, String)> {
    let mut remarks = Vec::new();
    let Some(end) = &session.end else { return remarks };
    if let Some(summary) = &end.summary {
        remarks.push((Tone::Plain, summary.clone()));
    }
    for contradiction in &end.contradictions {
        remarks.push((Tone::Warn, format!("but: {contradiction}")));
    }
    if let Some(work) = &end.work {
        if work.history_rewritten {
            remarks.push((Tone::Warn, "history was rewritten".to_owned()));
        }
        if work.dirty > 0 {
            remarks.push((Tone::Warn, format!("{} not committed", plural(work.dirty, "file"))));
        }
    }
    match &end.verification {
        Some(verification) if verification.passed => {
            remarks.push((Tone::Good, "verification passed".to_owned()));
        }
        Some(verification) => {
            remarks.push((Tone::Bad, format!("verification failed: {}", verification.ended)));
            for line in clean_lines(&verification.tail, 3) {
                remarks.push((Tone::Dim, format!("| {line}")));
            }
        }
        None => {}
    }
    if end.denials > 0 {
        remarks.push((Tone::Plain, format!("{} denied", plural(u64::from(end.denials), "tool call"))));
    }
    remarks.extend(wave_words(&end.wave).map(|words| (Tone::Plain, words)));
    if session.heals > 0 {
        remarks.push((Tone::Plain, format!("healed {}", times(session.heals))));
    }
    remarks
}

/// The latest commits of a session, a line each.
fn commits(session: &SessionSummary) -> Vec<String> {
    let Some(work) = session.end.as_ref().and_then(|end| end.work.as_ref()) else { return Vec::new() };
    let shown = work.commits.iter().take(MAX_COMMITS);
    let mut lines: Vec<String> =
        shown.map(|commit| format!("{} {}", short_oid(&commit.oid), commit.subject)).collect();
    let shown = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    if work.commits_total > shown {
        lines.push(format!("and {} more", plural(work.commits_total - shown, "commit")));
    }
    lines
}

/// The beginning of an object id.
pub(super) fn short_oid(oid: &str) -> String {
    oid.chars().filter(char::is_ascii_hexdigit).take(10).collect()
}

/// What the gate refused, a line each.
pub(super) fn refusals(summary: &RunSummary) -> Vec<String> {
    let mut lines: Vec<String> = summary
        .refusals
        .iter()
        .map(|Refusal { tool, what, reason, times: n, .. }| {
            let often = if *n > 1 { format!(" ({})", times(*n)) } else { String::new() };
            format!("refused{often}: {tool} {}: {reason}", one_line(what, 80))
        })
        .collect();
    let listed: u64 = summary.refusals.iter().map(|refusal| u64::from(refusal.times)).sum();
    if summary.refused > listed {
        lines.push(format!("and {} more refused", plural(summary.refused - listed, "tool call")));
    }
    lines
}

fn times(n: u32) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

/// The totals, in one or two lines.
pub(super) fn totals(summary: &RunSummary) -> Vec<String> {
    let so_far = if summary.outcome == RunOutcome::Unfinished { "so far " } else { "" };
    let max = summary.limits.map(|limits| format!(" of {}", limits.max_sessions)).unwrap_or_default();
    let mut lines = vec![format!(
        "{so_far}completed {}{max} sessions in {}, {} output tokens, cost {}",
        summary.iterations,
        summary.seconds.map_or_else(|| "unknown time".to_owned(), span_of_seconds),
        output(summary.tokens),
        cost(summary),
    )];
    let mut delays = Vec::new();
    if summary.limit_wait_seconds > 0 {
        let waited = span(Duration::from_secs(summary.limit_wait_seconds));
        delays.push(format!("{waited} waiting for usage limits"));
    }
    if summary.api_retries > 0 {
        let retries = if summary.api_retries == 1 { "retry" } else { "retries" };
        delays.push(format!("{} API {retries}", count(summary.api_retries)));
    }
    if !delays.is_empty() {
        lines.push(format!("delays: {}", delays.join(", ")));
    }
    lines
}

/// The whole report.
pub(super) fn report(summary: &RunSummary, options: &TextOptions) -> String {
    let mut page = Page { options, out: String::new() };
    let run_id = summary.run_id.as_deref().unwrap_or("unknown");
    page.line(0, Tone::Strong, &format!("Run {run_id}"));
    let fine = summary.exit_code.map_or(Tone::Warn, |code| if code == 0 { Tone::Good } else { Tone::Bad });
    let exit = summary.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    page.line(2, fine, &format!("{}{exit}", summary.headline()));
    if let Some(detail) = &summary.detail {
        page.line(2, Tone::Plain, detail);
    }
    if let Some(damage) = &summary.damage {
        page.line(2, Tone::Warn, &format!("warning: {damage}"));
    }
    if let Some(at) = summary.started_at {
        page.line(2, Tone::Dim, &format!("started {}", instant(at, &options.time_zone)));
    }
    if let Some(parent) = &summary.parent_run_id {
        page.line(2, Tone::Dim, &format!("continued run {parent}"));
    }
    page.gap();
    page.table(&summary.sessions);
    for line in totals(summary) {
        page.line(2, Tone::Plain, &line);
    }

    for (number, heal) in summary.heals.iter().enumerate() {
        let line = format!("heal {} for {}: {}; {}", number + 1, heal.class, heal.action, heal.why);
        page.line(2, Tone::Plain, &line);
    }
    for wait in &summary.waits {
        let window = wait.window.as_deref().unwrap_or("unnamed window");
        let waited = wait.waited_seconds.map_or_else(
            || format!("until {}, not over", instant(wait.until, &options.time_zone)),
            |seconds| span(Duration::from_secs(seconds)),
        );
        page.line(2, Tone::Plain, &format!("waited for {window}: {waited}"));
    }
    for wait in &summary.peer_waits {
        let who = peer_words(&wait.peers);
        let line = match wait.waited_seconds {
            Some(seconds) => format!("waited for {who}: {}", span(Duration::from_secs(seconds))),
            None => format!(
                "waiting for {who} to finish, until {} at most",
                instant(wait.until, &options.time_zone)
            ),
        };
        page.line(2, Tone::Plain, &line);
    }
    for line in refusals(summary) {
        page.line(2, Tone::Plain, &line);
    }
    for warning in &summary.warnings {
        page.line(2, Tone::Warn, &format!("warning: {warning}"));
    }
    let decide = summary.to_decide();
    if !decide.is_empty() {
        page.gap();
        page.line(0, Tone::Strong, "To decide");
        for text in decide {
            page.line(2, Tone::Plain, &format!("- {text}"));
        }
    }
    let next = summary.next_steps();
    if !next.is_empty() {
        page.gap();
        page.line(0, Tone::Strong, "Next");
        for command in next {
            page.whole(2, &command);
        }
    }
    page.out
}

struct Page<'o> {
    options: &'o TextOptions,
    out: String,
}

impl Page<'_> {
    fn gap(&mut self) {
        self.out.push('\n');
    }

    /// Foreign or own text, made harmless, in as many lines as it takes but not more than [`MAX_LINES`].
    fn line(&mut self, indent: usize, tone: Tone, text: &str) {
        let room = self.options.width.saturating_sub(indent).max(40);
        let mut lines = self.options.wrap(text, room);
        if lines.len() > 1 {
            // What follows the first line stands further in.
            lines = self.options.wrap(text, room - 2);
        }
        let cut = lines.len() > MAX_LINES;
        lines.truncate(MAX_LINES);
        let last = lines.len().saturating_sub(1);
        for (number, line) in lines.iter().enumerate() {
            let end = if cut && number == last { self.options.spell(" …") } else { "".into() };
            self.out.extend(std::iter::repeat_n(' ', indent + if number > 0 { 2 } else { 0 }));
            self.out.push_str(&self.options.paint(tone, &format!("{line}{end}")));
            self.out.push('\n');
        }
    }

    /// A command, made harmless and in one piece: it is to be copied.
    fn whole(&mut self, indent: usize, text: &str) {
        self.out.extend(std::iter::repeat_n(' ', indent));
        // Behind four spaces stands why; they are kept, so that it is seen where the command ends.
        let (command, why) = text.split_once("    ").unwrap_or((text, ""));
        self.out.push_str(&self.options.fit(command, MAX_COMMAND));
        if !why.is_empty() {
            let why = self.options.fit(why, MAX_COMMAND);
            self.out.push_str("    ");
            self.out.push_str(&self.options.paint(Tone::Dim, &why));
        }
        self.out.push('\n');
    }

    fn table(&mut self, sessions: &[SessionSummary]) {
        if sessions.is_empty() {
            self.line(2, Tone::Plain, "no session was started");
            return;
        }
        let mut rows: Vec<[String; 8]> =
            sessions.iter().map(|session| cells(session).map(|cell| self.options.fit(&cell, 30))).collect();
        let mut widths: Vec<usize> = (0..HEADS.len())
            .map(|column| {
                rows.iter().map(|row| width(&row[column])).max().unwrap_or(0).max(HEADS[column].len())
            })
            .collect();
        // The words of the result are what gives way.
        let all = widths.iter().map(|columns| columns + 2).sum::<usize>();
        let room =
            widths[RESULT].saturating_sub(all.saturating_sub(self.options.width)).max(HEADS[RESULT].len());
        if room < widths[RESULT] {
            widths[RESULT] = room;
            for row in &mut rows {
                row[RESULT] = self.options.fit(&row[RESULT], room);
            }
        }
        self.row(&HEADS.map(str::to_owned), &widths, Tone::Dim);
        for (session, row) in sessions.iter().zip(&rows) {
            self.row(row, &widths, Tone::Plain);
            for (tone, text) in remarks(session) {
                self.line(5 + widths[0], tone, &text);
            }
            for text in commits(session) {
                self.line(5 + widths[0], Tone::Dim, &text);
            }
        }
        self.gap();
    }

    fn row(&mut self, cells: &[String; 8], widths: &[usize], tone: Tone) {
        let mut line = String::new();
        for ((cell, &columns), number) in cells.iter().zip(widths).zip(NUMBERS) {
            let pad = columns.saturating_sub(width(cell));
            let (before, after) = if number { (pad, 0) } else { (0, pad) };
            line.extend(std::iter::repeat_n(' ', 2 + before));
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', after));
        }
        self.out.push_str(&self.options.paint(tone, line.trim_end()));
        self.out.push('\n');
    }
}
