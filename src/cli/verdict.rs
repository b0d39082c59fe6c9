//! `autopilot verdict`: may a run start here unattended? The four gates, each with its reason.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::core::autonomy::Autonomy;
use crate::core::signals::{Signals, SourceReading};
use crate::core::suitability::Verdict;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::git;
use crate::settings::layer::Layer;
use crate::ui::printer::Printer;
use crate::ui::text::one_line;
use crate::ui::words::source_lines;

use super::{config, outlook, start, watcher};

/// Characters of a line; sources quote files, which may hold anything.
const LONGEST_LINE: usize = 400;

#[derive(Serialize)]
struct Document<'a> {
    autonomy: Autonomy,
    #[serde(flatten)]
    verdict: &'a Verdict,
    mode: Option<&'static str>,
    mode_rationale: &'a str,
    sources: &'a [SourceReading],
}

pub(super) async fn verdict(
    directory: &Path,
    flags: &Layer,
    environment: &[(OsString, OsString)],
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let settings = config::load(flags, &config::Files::locate(&repo.root))?.settings;
    let branch = git::branch(&repo).await.ok().flatten();
    let asked = Signals {
        forced_mode: settings.work.mode,
        prompt: settings.work.prompt.is_some(),
        ..Signals::default()
    };
    let sources = start::sources(&settings, &repo, branch, environment, asked).await;
    let outlook = outlook::outlook(&settings, &repo.root, sources).await;
    let verdict = &outlook.verdict;
    let autonomy = settings.stop_rules.autonomy;
    if json {
        let document = Document {
            autonomy,
            verdict,
            mode: outlook.choice.mode.map(crate::core::mode::Mode::as_str),
            mode_rationale: &outlook.choice.rationale,
            sources: &outlook.survey.signals.sources,
        };
        let text = serde_json::to_string(&document)
            .map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?;
        printer.data(&text)?;
    } else {
        let mut text = String::new();
        let word = if verdict.suitable { "yes" } else { "no" };
        // Writing to a string cannot fail, here and below.
        _ = writeln!(text, "may start unattended: {word}");
        for gate in &verdict.gates {
            let passed = if gate.passed { "ok" } else { "FAIL" };
            _ = writeln!(text, "  {:<11} {passed:<5} {}", gate.name.as_str(), gate.why);
        }
        for warning in &verdict.warnings {
            _ = writeln!(text, "  note: {warning}");
        }
        _ = writeln!(
            text,
            "a run with --autonomy {autonomy} {}",
            match (verdict.suitable, autonomy) {
                (true, _) => "starts",
                (false, Autonomy::AutonomousGated) => "does not start (exit 4)",
                (false, Autonomy::Advisory) => "starts with a warning",
                (false, Autonomy::Off) => "starts; nobody asks for the verdict",
            }
        );
        let options = watcher::text_options(printer);
        _ = writeln!(text, "sources");
        for line in outlook.survey.signals.sources.iter().flat_map(source_lines) {
            _ = writeln!(text, "  {}", options.spell(&one_line(&line, LONGEST_LINE)));
        }
        printer.data(text.trim_end())?;
    }
    Ok(if verdict.suitable { Exit::Planned } else { Exit::VerdictNo })
}
