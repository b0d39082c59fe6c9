//! `autopilot history`: the runs of this repository, and how long their folders are kept.
//!
//! A run leaves a record in `autopilot.jsonl`, which stays for ever, and a folder, which can be large: the raw
//! streams of its processes. Only folders are removed, the oldest ones first, by count and by size, and never
//! one of a run that goes on or has no end: it may be resumed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::args::{HistoryArgs, HistoryCommand};
use super::runs::{self, Depth};
use super::{config, start, watcher};
use crate::driver::clock;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::journal::reader::has_ended;
use crate::report::RunSummary;
use crate::settings::layer::Layer;
use crate::state::layout::Layout;
use crate::ui::printer::Printer;
use crate::ui::text::{Tone, dollars, plural, span_of_seconds, width};

/// A folder without a journal may be one of a run that is just starting, for so long.
const STARTING: SignedDuration = SignedDuration::from_hours(1);
/// Heads of the list.
const HEADS: [&str; 7] = ["sessions", "commits", "time", "cost", "size", "ended", "run"];

/// A run in the list.
#[derive(Serialize)]
struct Listed {
    run_id: String,
    started_at: Option<Timestamp>,
    running: bool,
    outcome: crate::report::RunOutcome,
    exit_code: Option<u8>,
    kill_switch: Option<crate::core::kill_switch::KillSwitch>,
    sessions: u32,
    max_sessions: Option<u32>,
    /// `null` = unknown, as its folder was removed.
    commits: Option<u64>,
    cost_usd: Option<f64>,
    known_cost_usd: Option<f64>,
    output_tokens: Option<u64>,
    seconds: Option<f64>,
    /// Of its folder; `null` = it was removed.
    bytes: Option<u64>,
    damage: Option<String>,
    #[serde(skip)]
    words: String,
}

#[derive(Serialize)]
struct Document {
    schema_version: u32,
    runs: Vec<Listed>,
}

pub(super) async fn history(
    directory: &Path,
    args: &HistoryArgs,
    flags: &Layer,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let layout = Layout::new(&repo.root);
    if let Some(HistoryCommand::Prune { keep, max_size, dry_run }) = &args.command {
        let rule = if keep.is_none() && max_size.is_none() {
            let settings = config::load(flags, &config::Files::locate(&repo.root))?.settings;
            Rule::new(settings.safety.keep_runs, settings.safety.keep_size)
        } else {
            Rule { runs: keep.map(|keep| keep as usize), bytes: *max_size }
        };
        return prune_by_hand(&layout, rule, *dry_run, json, printer);
    }
    let runs = list(&layout, args.limit)?;
    if json {
        let text = serde_json::to_string(&Document { schema_version: 1, runs })
            .map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?;
        printer.data(&text)?;
        return Ok(Exit::Planned);
    }
    if runs.is_empty() {
        printer.say("there has been no run here; start one with `autopilot`");
        return Ok(Exit::Planned);
    }
    printer.data(&table(&runs, printer))?;
    Ok(Exit::Planned)
}

/// The newest runs, newest first; 0 = all.
fn list(layout: &Layout, limit: usize) -> Result<Vec<Listed>, CliError> {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let running = runs::peek(layout)?.filter(|peek| peek.held).and_then(|peek| peek.holder);
    let running = running.map(|holder| holder.run_id);
    let mut ids = runs::ids(layout)?;
    ids.reverse();
    let mut listed: Vec<Listed> = Vec::new();
    for run_id in ids.iter().take(limit) {
        let summary = runs::summary(layout, run_id, Depth::Outline)
            .unwrap_or_else(|error| RunSummary { damage: Some(error.to_string()), ..RunSummary::default() });
        let bytes = layout.run(run_id).map(|run_dir| size_of(run_dir.path()));
        listed.push(Listed::new(run_id, &summary, bytes, running.as_ref() == Some(run_id)));
    }
    let recorded = runs::recorded(layout, |_| true)
        .map_err(|error| CliError::environment("cannot read autopilot.jsonl").caused_by(error))?;
    for summary in recorded {
        if let Some(run_id) = summary.run_id.as_ref().filter(|run_id| !ids.contains(run_id)) {
            listed.push(Listed::new(run_id, &summary, None, false));
        }
    }
    listed.sort_by_key(|run| std::cmp::Reverse(run.started_at.or_else(|| runs::begun(&run.run_id))));
    listed.truncate(limit);
    Ok(listed)
}

impl Listed {
    fn new(run_id: &str, summary: &RunSummary, bytes: Option<u64>, running: bool) -> Listed {
        Listed {
            run_id: run_id.to_owned(),
            started_at: summary.started_at,
            running,
            outcome: summary.outcome,
            exit_code: summary.exit_code,
            kill_switch: summary.kill_switch,
            sessions: summary.iterations,
            max_sessions: summary.limits.map(|limits| limits.max_sessions),
            commits: bytes.map(|_| summary.commits()),
            cost_usd: summary.cost_usd,
            known_cost_usd: summary.known_cost_usd,
            output_tokens: summary.tokens.map(|tokens| tokens.output),
            seconds: summary.seconds,
            bytes,
            damage: summary.damage.clone(),
            words: if running { "running".to_owned() } else { summary.short_headline() },
        }
    }

    fn cells(&self) -> [String; 7] {
        let unknown = || "unknown".to_owned();
        let max = self.max_sessions.map(|max| format!("/{max}")).unwrap_or_default();
        [
            format!("{}{max}", self.sessions),
            self.commits.map_or_else(unknown, |commits| commits.to_string()),
            self.seconds.map_or_else(unknown, span_of_seconds),
            self.cost_usd.or(self.known_cost_usd).map_or_else(unknown, |cost| dollars(Some(cost))),
            self.bytes.map_or_else(|| "-".to_owned(), bytes_in_words),
            self.words.clone(),
            self.run_id.clone(),
        ]
    }
}

fn table(runs: &[Listed], printer: &Printer) -> String {
    let options = watcher::page_options(printer);
    let rows: Vec<[String; 7]> =
        runs.iter().map(|run| run.cells().map(|cell| options.fit(&cell, 200))).collect();
    let widths: [usize; 7] = std::array::from_fn(|column| {
        rows.iter().map(|row| width(&row[column])).chain([HEADS[column].len()]).max().unwrap_or(0)
    });
    let line = |cells: &[String; 7]| {
        let mut line = String::new();
        for (column, (cell, columns)) in cells.iter().zip(widths).enumerate() {
            let pad = " ".repeat(columns.saturating_sub(width(cell)));
            let sep = if column == 0 { "" } else { "  " };
            _ = if column >= 5 { write!(line, "{sep}{cell}{pad}") } else { write!(line, "{sep}{pad}{cell}") };
        }
        line.trim_end().to_owned()
    };
    let mut out = options.paint(Tone::Dim, &line(&HEADS.map(str::to_owned))) + "\n";
    for (run, cells) in runs.iter().zip(&rows) {
        let tone = match run.exit_code {
            _ if run.running => Tone::Good,
            Some(0) => Tone::Plain,
            Some(_) => Tone::Bad,
            None => Tone::Warn,
        };
        out.push_str(&options.paint(tone, &line(cells)));
        out.push('\n');
        if let Some(damage) = &run.damage {
            let text = format!("  warning: {}", options.fit(damage, options.width.saturating_sub(12)));
            out.push_str(&options.paint(Tone::Warn, &text));
            out.push('\n');
        }
    }
    out
}

/// How much is kept; `None` = no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    runs: Option<usize>,
    bytes: Option<u64>,
}

impl Rule {
    /// From the settings `keep-runs` and `keep-size`; 0 = no limit.
    pub(super) fn new(runs: u32, megabytes: u64) -> Rule {
        Rule {
            runs: (runs > 0).then_some(runs as usize),
            bytes: (megabytes > 0).then(|| megabytes.saturating_mul(1_000_000)),
        }
    }
}

/// A folder that could be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Folder {
    run_id: String,
    path: PathBuf,
    bytes: u64,
    /// Why it stays whatever the rule says.
    stays: Option<&'static str>,
}

/// Removes what the rule does not keep; what was removed, and what could not be.
pub(super) fn prune(layout: &Layout, rule: Rule) -> Result<(Vec<String>, Vec<String>), CliError> {
    let folders = folders(layout)?;
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    for folder in beyond(&folders, rule) {
        match fs::remove_dir_all(&folder.path) {
            Ok(()) => removed.push(folder.run_id.clone()),
            Err(error) => failed.push(format!("cannot remove {}: {error}", folder.path.display())),
        }
    }
    Ok((removed, failed))
}

fn prune_by_hand(
    layout: &Layout,
    rule: Rule,
    dry_run: bool,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let folders = folders(layout)?;
    let planned: Vec<&Folder> = beyond(&folders, rule).collect();
    let bytes: u64 = planned.iter().map(|folder| folder.bytes).sum();
    let (removed, failed) = if dry_run {
        (planned.iter().map(|folder| folder.run_id.clone()).collect(), Vec::new())
    } else {
        prune(layout, rule)?
    };
    for text in &failed {
        printer.warn(text);
    }
    if json {
        let text = serde_json::json!({ "removed": removed, "dry_run": dry_run, "bytes": bytes }).to_string();
        printer.data(&text)?;
    } else {
        let verb = if dry_run { "would remove" } else { "removed" };
        for run_id in &removed {
            printer.say(&format!("{verb} {run_id}"));
        }
        let runs = plural(removed.len() as u64, "run");
        printer.say(&format!("{verb} {runs}, {}", bytes_in_words(bytes)));
    }
    if failed.is_empty() { Ok(Exit::Planned) } else { Ok(Exit::Environment) }
}

/// All folders of runs, newest first.
fn folders(layout: &Layout) -> Result<Vec<Folder>, CliError> {
    let running = runs::peek(layout)?.and_then(|peek| peek.holder).map(|holder| holder.run_id);
    let now = clock::wall();
    let mut found = Vec::new();
    for run_id in runs::ids(layout)?.into_iter().rev() {
        let Some(run_dir) = layout.run(&run_id) else { continue };
        let stays = if running.as_ref() == Some(&run_id) {
            Some("it goes on, or died and is not settled yet")
        } else {
            match has_ended(&run_dir.events()) {
                Ok(true) => None,
                Ok(false) => Some("it has no end and may be resumed"),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    let begun = fs::metadata(run_dir.path())
                        .and_then(|metadata| metadata.modified())
                        .ok()
                        .and_then(|at| Timestamp::try_from(at).ok());
                    let young = begun.is_some_and(|at| now.duration_since(at) < STARTING);
                    young.then_some("it may be just starting")
                }
                Err(_) => Some("its journal cannot be read"),
            }
        };
        let path = run_dir.path().to_owned();
        found.push(Folder { run_id, bytes: size_of(&path), path, stays });
    }
    Ok(found)
}

/// The folders, newest first, that a rule does not keep. The newest one is always kept.
fn beyond(folders: &[Folder], rule: Rule) -> impl Iterator<Item = &Folder> {
    let mut bytes = 0_u64;
    folders.iter().enumerate().filter_map(move |(place, folder)| {
        bytes = bytes.saturating_add(folder.bytes);
        let too_many = rule.runs.is_some_and(|runs| place >= runs);
        let too_much = rule.bytes.is_some_and(|most| bytes > most);
        let goes = place > 0 && folder.stays.is_none() && (too_many || too_much);
        if goes {
            bytes = bytes.saturating_sub(folder.bytes);
        }
        goes.then_some(folder)
    })
}

/// Bytes of the files in a folder; links are not followed.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// `12 kB`, `3.4 MB`.
fn bytes_in_words(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_removes() {
        // Sizes of the folders, newest first; `!` = it stays whatever the rule says.
        let check = |folders: &str, runs: Option<usize>, bytes: Option<u64>, expected: &[usize]| {
            let folders: Vec<Folder> = folders
                .split(' ')
                .enumerate()
                .map(|(place, text)| Folder {
                    run_id: place.to_string(),
                    path: PathBuf::new(),
                    bytes: text.trim_end_matches('!').parse().unwrap(),
                    stays: text.ends_with('!').then_some("because"),
                })
                .collect();
            let gone: Vec<usize> =
                beyond(&folders, Rule { runs, bytes }).map(|folder| folder.run_id.parse().unwrap()).collect();
            assert_eq!(gone, expected, "{folders:?} {runs:?} {bytes:?}");
        };
        check("1 1 1 1", None, None, &[]);
        check("1 1 1 1", Some(2), None, &[2, 3]);
        check("1 1 1! 1", Some(2), None, &[3]);
        check("5 5 5 5", None, Some(12), &[2, 3]);
        // A large one goes, a small older one may stay.
        check("1 90 1 1", None, Some(10), &[1]);
        // The newest one is kept, whatever it weighs, and so is one that stays.
        check("90 1", Some(0), Some(10), &[1]);
        check("1 90! 1", None, Some(10), &[2]);
        check("1 1", Some(0), None, &[1]);
    }
}
