//! `autopilot report`: a run, or all runs of a span of time, for people and for programs.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::args::{ReportArgs, ReportFormat};
use super::runs::{self, Depth};
use super::{start, watcher};
use crate::driver::clock;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::report::RunSummary;
use crate::report::span::{SpanSummary, Unreadable};
use crate::state::atomic;
use crate::state::layout::Layout;
use crate::ui::printer::Printer;
use crate::ui::text::TextOptions;

/// Mode of a report that is written to a file: it is for showing around.
const FILE_MODE: u32 = 0o644;
/// Longest span of time, in hours: a hundred years.
const LONGEST: f64 = 876_600.0;

pub(super) async fn report(
    directory: &Path,
    args: &ReportArgs,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let format = format(args, json)?;
    let repo = start::repository(directory).await?;
    let layout = Layout::new(&repo.root);
    let zone = TimeZone::system();
    let options = match &args.output {
        Some(_) => watcher::file_options(),
        None => watcher::page_options(printer),
    };
    let now = clock::wall();
    let since = match (&args.since, args.week) {
        (Some(text), _) => Some(parse_since(text, now, &zone)?),
        (None, true) => Some(parse_since("7d", now, &zone)?),
        (None, false) => None,
    };
    let commit_url = match format {
        ReportFormat::Text | ReportFormat::Junit => None,
        ReportFormat::Html | ReportFormat::Markdown | ReportFormat::Json => runs::commit_url(&repo).await,
    };
    let text = if let Some(since) = since {
        let span = collect(&layout, since, now, commit_url.as_deref())?;
        in_format_span(&span, format, &options, &zone)
    } else {
        let run_id = runs::find(&layout, args.run.as_deref())?;
        let mut summary = runs::read(&layout, &run_id, Depth::Whole)?;
        if let Some(damage) = &summary.damage
            && args.output.is_some()
        {
            printer.warn(&format!("run {run_id}: {damage}"));
        }
        summary.commit_url = commit_url;
        in_format(&summary, format, &options, &zone)
    };
    match &args.output {
        Some(path) if path.as_os_str() != "-" => {
            write(path, text.as_bytes())?;
            printer.say(&format!("written to {}", path.display()));
        }
        _ => printer.data(&text)?,
    }
    Ok(Exit::Planned)
}

fn in_format(summary: &RunSummary, format: ReportFormat, options: &TextOptions, zone: &TimeZone) -> String {
    match format {
        ReportFormat::Text => summary.to_text(options),
        ReportFormat::Json => summary.to_json(),
        ReportFormat::Markdown => summary.to_markdown(),
        ReportFormat::Html => summary.to_html(zone),
        ReportFormat::Junit => summary.to_junit(),
    }
}

fn in_format_span(
    span: &SpanSummary,
    format: ReportFormat,
    options: &TextOptions,
    zone: &TimeZone,
) -> String {
    match format {
        ReportFormat::Text => span.to_text(options),
        ReportFormat::Json => span.to_json(),
        ReportFormat::Markdown => span.to_markdown(),
        ReportFormat::Html => span.to_html(zone),
        ReportFormat::Junit => span.to_junit(),
    }
}

/// The format that is asked for: by name, by `--json`, or by the name of the file.
fn format(args: &ReportArgs, json: bool) -> Result<ReportFormat, CliError> {
    let by_name = args.output.as_deref().and_then(Path::extension).and_then(|ext| {
        Some(match ext.to_str()?.to_ascii_lowercase().as_str() {
            "html" | "htm" => ReportFormat::Html,
            "md" | "markdown" => ReportFormat::Markdown,
            "json" => ReportFormat::Json,
            "xml" => ReportFormat::Junit,
            _ => return None,
        })
    });
    match (args.format, json) {
        (None | Some(ReportFormat::Json), true) => Ok(ReportFormat::Json),
        (Some(_), true) => {
            Err(CliError::usage("--json and another --format cannot go together")
                .hinted("leave one of them out"))
        }
        (Some(format), false) => Ok(format),
        (None, false) => Ok(by_name.unwrap_or(ReportFormat::Text)),
    }
}

/// The runs that began at or after `since`.
fn collect(
    layout: &Layout,
    since: Timestamp,
    now: Timestamp,
    commit_url: Option<&str>,
) -> Result<SpanSummary, CliError> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for run_id in runs::ids(layout)?.into_iter().rev() {
        match runs::summary(layout, &run_id, Depth::Whole) {
            Ok(summary) => {
                let begun = summary.started_at.or_else(|| runs::begun(&run_id));
                if begun.is_some_and(|at| at < since) {
                    // Ids sort by the minute of the start: the rest is older, but for those of that minute.
                    if begun.is_some_and(|at| at + SignedDuration::from_mins(2) < since) {
                        break;
                    }
                    continue;
                }
                found.push(RunSummary { commit_url: commit_url.map(ToOwned::to_owned), ..summary });
            }
            Err(error) if runs::begun(&run_id).is_none_or(|at| at >= since) => {
                unreadable.push(Unreadable { run_id, why: error.to_string() });
            }
            Err(_) => {}
        }
    }
    // What was removed from the history has left its record.
    let known: Vec<Option<String>> = found.iter().map(|run| run.run_id.clone()).collect();
    let recorded = runs::recorded(layout, |at| at >= since)
        .map_err(|error| CliError::environment("cannot read autopilot.jsonl").caused_by(error))?;
    found.extend(recorded.into_iter().filter(|run| {
        !known.contains(&run.run_id) && !unreadable.iter().any(|one| Some(&one.run_id) == run.run_id.as_ref())
    }));
    Ok(SpanSummary::new(since, now, found, unreadable))
}

/// `7d`, `36h`, `90m`, `2w` before now; a date or an instant.
fn parse_since(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, CliError> {
    let wrong = || {
        CliError::usage(format!("`{}` is no time for --since", text.chars().take(40).collect::<String>()))
            .hinted("give a length such as 7d, 36h, 90m or 2w, or a date such as 2026-11-01")
    };
    if let Some((at, unit)) = text.char_indices().next_back()
        && let Ok(number) = text[..at].parse::<f64>()
    {
        let hours = number
            * match unit {
                'm' => 1.0 / 60.0,
                'h' => 1.0,
                'd' => 24.0,
                'w' => 168.0,
                _ => return Err(wrong()),
            };
        if !(hours.is_finite() && (0.0..=LONGEST).contains(&hours)) {
            return Err(wrong());
        }
        let length = SignedDuration::try_from_secs_f64(hours * 3600.0).map_err(|_| wrong())?;
        return now.checked_sub(length).map_err(|_| wrong());
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let date: jiff::civil::Date = text.parse().map_err(|_| wrong())?;
    zone.to_timestamp(date.at(0, 0, 0, 0)).map_err(|_| wrong())
}

/// Writes the file whole or not at all; a device or a pipe is written to as it is.
fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let fail = |error: std::io::Error| {
        CliError::environment(format!("cannot write {}", path.display())).caused_by(error)
    };
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(CliError::usage(format!("{} is a folder", path.display())).hinted("give the name of a file"))
        }
        Ok(metadata) if !metadata.is_file() => {
            OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(bytes)).map_err(fail)
        }
        _ => atomic::replace(path, bytes, FILE_MODE)
            .map_err(|error| CliError::from_error(ErrorKind::Environment, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_look_back_to() {
        let now: Timestamp = "2026-11-14T12:00:00Z".parse().unwrap();
        let check = |text: &str, expected: Option<&str>| {
            let found = parse_since(text, now, &TimeZone::UTC).ok().map(|at| at.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        };
        check("7d", Some("2026-11-07T12:00:00Z"));
        check("1w", Some("2026-11-07T12:00:00Z"));
        check("36h", Some("2026-11-13T00:00:00Z"));
        check("90m", Some("2026-11-14T10:30:00Z"));
        check("0.5h", Some("2026-11-14T11:30:00Z"));
        check("2026-11-01", Some("2026-11-01T00:00:00Z"));
        check("2026-11-01T05:00:00+02:00", Some("2026-11-01T03:00:00Z"));
        for wrong in ["", "d", "7", "7y", "-7d", "1e99d", "NaNd", "yesterday", "2026-13-01", "7 days", "ä"] {
            check(wrong, None);
        }
    }
}
