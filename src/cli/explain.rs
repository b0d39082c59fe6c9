//! `autopilot explain`: every decision of a run with its inputs, read back from its journal.

use std::fmt::Write as _;
use std::path::Path;

use crate::core::published::{Entry, ResetSource, RunEvent, SwitchInputs};
use crate::core::what_if::{Overrides, Redecided, redecide};
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::journal::reader::read_journal;
use crate::settings::key::parse_number;
use crate::state::layout::Layout;
use crate::ui::printer::Printer;
use crate::ui::text::{Tone, one_line};
use crate::ui::words::source_lines;

use super::args::ExplainArgs;
use super::{runs, start, watcher};

/// Characters of a line; journals hold words of sessions, which may be long.
const LONGEST_LINE: usize = 400;

pub(super) async fn explain(
    directory: &Path,
    args: &ExplainArgs,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let layout = Layout::new(&repo.root);
    let run_id = runs::find(&layout, args.run.as_deref())?;
    let run_dir =
        layout.run(&run_id).ok_or_else(|| CliError::usage(format!("`{run_id}` is not the id of a run")))?;
    let replay = read_journal(&run_dir.events())
        .map_err(|error| CliError::from_error(ErrorKind::Environment, error))?;
    if !args.what_if.is_empty() {
        return what_if(&run_id, &replay.entries, args, json, printer);
    }
    let decisions = decisions(&replay.entries, args.iteration);
    if decisions.is_empty() {
        let which = args.iteration.map(|n| format!(" of iteration {n}")).unwrap_or_default();
        return Err(CliError::usage(format!("run {run_id} has no decision{which} in its journal"))
            .hinted("`autopilot explain` without --iteration shows all there are"));
    }
    if json {
        let lines: Result<Vec<String>, _> =
            decisions.iter().map(|(_, entry)| serde_json::to_string(entry)).collect();
        let lines = lines.map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?;
        printer.data(&lines.join("\n"))?;
        return Ok(Exit::Planned);
    }
    let options = watcher::text_options(printer);
    let mut text = format!("run {run_id}\n");
    let mut iteration = None;
    for (of, entry) in decisions {
        if iteration != Some(of) {
            iteration = Some(of);
            _ = writeln!(text, "\niteration {of}");
        }
        for line in words(&entry.event) {
            // What belongs to the line above stands further in.
            let indent = " ".repeat(line.len() - line.trim_start_matches(' ').len());
            _ = writeln!(text, "  {indent}{}", options.spell(&one_line(&line, LONGEST_LINE)));
        }
    }
    printer.data(text.trim_end())?;
    Ok(Exit::Planned)
}

/// The decisions again, with other limits.
fn what_if(
    run_id: &str,
    entries: &[Entry],
    args: &ExplainArgs,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let overrides = overrides(&args.what_if)?;
    let decisions = redecide(entries, &overrides);
    let wanted = |decision: &&Redecided| args.iteration.is_none_or(|n| n == decision.iteration);
    if json {
        let list: Vec<serde_json::Value> = decisions
            .iter()
            .filter(wanted)
            .map(|decision| {
                serde_json::json!({
                    "iteration": decision.iteration,
                    "decision": decision.what.as_str(),
                    "before": decision.before,
                    "after": decision.after,
                    "differs": decision.differs,
                })
            })
            .collect();
        printer.data(&serde_json::json!({ "run_id": run_id, "decisions": list }).to_string())?;
        return Ok(Exit::Planned);
    }
    let options = watcher::page_options(printer);
    let mut text = format!("run {run_id}, decided again with {}\n", args.what_if.join(", "));
    let mut iteration = None;
    for decision in decisions.iter().filter(wanted) {
        if iteration != Some(decision.iteration) {
            iteration = Some(decision.iteration);
            _ = writeln!(text, "\niteration {}", decision.iteration);
        }
        let (before, after) =
            (options.fit(&decision.before, LONGEST_LINE), options.fit(&decision.after, LONGEST_LINE));
        if decision.differs {
            let line = format!("  {}: was {before}", decision.what.as_str());
            _ = writeln!(
                text,
                "{line}\n    {}",
                options.paint(Tone::Warn, &format!("would have been {after}"))
            );
        } else {
            _ = writeln!(text, "  {}: {after}, as it was", decision.what.as_str());
        }
    }
    let last = if decisions.is_empty() {
        "this run recorded no decision to make again"
    } else if decisions.iter().any(|decision| decision.differs) {
        "from here on the run would have gone another way; what would have followed is not known"
    } else {
        "nothing would have been different"
    };
    _ = writeln!(text, "\n{last}");
    printer.data(text.trim_end())?;
    Ok(Exit::Planned)
}

/// `NAME=VALUE` of `--what-if`, with the bounds of the settings.
fn overrides(given: &[String]) -> Result<Overrides, CliError> {
    const NAMES: &str = "confidence-threshold, carryover-threshold, peer-abort, max-sessions, max-hours, \
                         max-tokens, max-cost";
    let mut overrides = Overrides::default();
    for text in given {
        let wrong = |what: &str| {
            CliError::usage(format!("--what-if `{}`: {what}", one_line(text, 60)))
                .hinted(format!("give NAME=VALUE, where NAME is one of {NAMES}"))
        };
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("it has no ="))?;
        let name = name.trim().trim_start_matches("--");
        let number = parse_number(value.trim()).map_err(|_| wrong("the value is not a number"))?;
        if number < 0.0 {
            return Err(wrong("the value is below 0"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` stops at the bounds"
        )]
        match name {
            "confidence-threshold" => overrides.confidence_threshold = Some(number),
            "carryover-threshold" => overrides.carryover_threshold = Some(number),
            "peer-abort" => overrides.peer_abort = Some(number as u32),
            "max-sessions" => overrides.max_sessions = Some(number as u32),
            "max-hours" => overrides.max_hours = Some(number),
            "max-tokens" => overrides.max_tokens = Some(number as u64),
            "max-cost" => overrides.max_cost_usd = Some(number),
            _ => return Err(wrong("no limit of that name was recorded")),
        }
    }
    Ok(overrides)
}

/// The entries that are decisions, each with its iteration.
fn decisions(entries: &[Entry], wanted: Option<u32>) -> Vec<(u32, &Entry)> {
    let mut iteration = 1;
    let mut found = Vec::new();
    for entry in entries {
        match &entry.event {
            RunEvent::ResourcesJudged { iteration: of, .. }
            | RunEvent::Surveyed { iteration: of, .. }
            | RunEvent::ModeSelected { iteration: of, .. }
            | RunEvent::SessionStarted { iteration: of, .. }
            | RunEvent::SwitchesChecked { iteration: of, .. }
            | RunEvent::SessionEnded { iteration: of, .. } => iteration = *of,
            _ => {}
        }
        if wanted.is_none_or(|wanted| wanted == iteration) && !words(&entry.event).is_empty() {
            found.push((iteration, entry));
        }
    }
    found
}

/// A decision, its inputs and its reasons; nothing for an event that decides nothing.
fn words(event: &RunEvent) -> Vec<String> {
    match event {
        RunEvent::ResourcesJudged { tier, cap, deciding, signals, .. } => {
            let by = deciding.as_deref().map(|by| format!(", decided by {by}")).unwrap_or_default();
            let first = format!("resources: {tier}, at most {cap} sub-agents per wave{by}");
            let each = signals.iter().map(|s| format!("  {}: {} ({})", s.signal, s.value, s.tier));
            std::iter::once(first).chain(each).collect()
        }
        RunEvent::Surveyed { signals, .. } => {
            let lines = signals.sources.iter().flat_map(source_lines).map(|line| format!("  {line}"));
            std::iter::once("signals:".to_owned()).chain(lines).collect()
        }
        RunEvent::ModeSelected {
            mode,
            confidence,
            threshold,
            rationale,
            alternatives,
            pressure,
            reasons,
            ..
        } => {
            let mode = mode.map_or("none", |mode| mode.as_str());
            let comparison = if confidence >= threshold { ">=" } else { "<" };
            let mut lines = vec![format!(
                "mode: {mode}, confidence {confidence} {comparison} threshold {threshold}: {rationale}"
            )];
            lines.extend(reasons.iter().map(|reason| format!("  {reason}")));
            if !alternatives.is_empty() {
                let others: Vec<String> =
                    alternatives.iter().map(|other| format!("{} {}", other.mode, other.confidence)).collect();
                lines.push(format!("  instead of: {}", others.join(", ")));
            }
            lines.push(format!("  context pressure: {} ({})", pressure.level.as_str(), pressure.score));
            lines
        }
        RunEvent::VerdictJudged { autonomy, verdict } => {
            let word = if verdict.suitable { "yes" } else { "no" };
            let gates = verdict.gates.iter().map(|gate| {
                format!("  {}: {} ({})", gate.name, if gate.passed { "ok" } else { "FAIL" }, gate.why)
            });
            std::iter::once(format!("pre-launch verdict: {word} (--autonomy {autonomy})"))
                .chain(gates)
                .collect()
        }
        RunEvent::SwitchesChecked { phase, inputs, hit, detail, .. } => {
            let hit = hit.map_or("none fires".to_owned(), |hit| hit.as_str().to_owned());
            let detail = detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
            let mut lines = vec![format!("kill-switches {phase} the session: {hit}{detail}")];
            lines.push(format!("  {}", switch_words(inputs, phase)));
            lines
        }
        RunEvent::SessionStarted { session_id, mode, tasks, .. } => {
            let tasks = tasks.iter().map(|task| format!("  task: {task}"));
            std::iter::once(format!("session {session_id}: {mode}")).chain(tasks).collect()
        }
        RunEvent::OutcomeJudged { attempt, class, confidence, reasons, .. } => {
            let reasons = reasons.iter().map(|reason| format!("  {reason}"));
            std::iter::once(format!("outcome of attempt {attempt}: {class} (confidence {confidence})"))
                .chain(reasons)
                .collect()
        }
        RunEvent::Healed { class, action, why, recovery, delay_seconds, .. } => {
            vec![format!("heal {recovery} for {class}: {action} in {delay_seconds} s, because {why}")]
        }
        RunEvent::ConversationLeft { session_id, successor, class, why } => {
            vec![format!("conversation {session_id} left for {successor} ({class}): {why}")]
        }
        RunEvent::LimitWait { window, until, source, why } => {
            let window = window.as_deref().unwrap_or("usage limit");
            let known = match source {
                ResetSource::Event => "as the CLI says",
                ResetSource::Text => "as the words of the limit say",
                ResetSource::Unknown => "to ask again; nobody says when it resets",
            };
            vec![format!("waits for {window} until {until}, {known}: {why}")]
        }
        RunEvent::ReserveReached { window, utilization, reserve, resets_at, .. } => {
            let resets = resets_at.map(|at| format!(", resets at {at}")).unwrap_or_default();
            let used = utilization * 100.0;
            vec![format!("reserve: {window} is {used:.0} % used{resets}; --reserve {reserve} keeps the rest")]
        }
        RunEvent::PeerWait { until, peers, .. } => {
            let pids: Vec<String> = peers.iter().map(|peer| peer.pid.to_string()).collect();
            vec![format!("waits until {until} for other Claude sessions: {}", pids.join(", "))]
        }
        RunEvent::QuestionAsked { question, until, .. } => {
            vec![format!("question: {question}; its first option is taken at {until}")]
        }
        RunEvent::QuestionAnswered { answer, by, .. } => vec![format!("answered: {answer} ({by})")],
        RunEvent::SessionEnded { class, status, contradictions, tasks, .. } => {
            let status = status.as_deref().unwrap_or("none");
            let mut lines = vec![format!("session over: {class}, reported {status}")];
            lines.extend(contradictions.iter().map(|text| format!("  but: {text}")));
            if let Some(tasks) = tasks {
                let mut list = |name: &str, titles: &[String]| {
                    lines.extend(titles.iter().map(|title| format!("  {name}: {title}")));
                };
                list("done, ticked by the session", &tasks.ticked_by_session);
                list("done, ticked by autopilot", &tasks.ticked_by_us);
                list("still open", &tasks.still_open);
                list("no task of that name", &tasks.unknown_claims);
            }
            lines
        }
        RunEvent::StopRequested { level, by } => vec![format!("stop asked for by {by}: {level}")],
        RunEvent::RunEnded { kill_switch, detail, exit_code, .. } => {
            let why = kill_switch.map_or("planned or before the first session", |hit| hit.as_str());
            let detail = detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
            vec![format!("end: {why}{detail} (exit code {exit_code})")]
        }
        // What was left to Claude Code's own rules is no decision of ours.
        RunEvent::GateDecided { tool, what, decision, reason, .. } if decision != "defer" => {
            vec![format!("gate: {decision} {tool} {what}"), format!("  {reason}")]
        }
        RunEvent::CapChanged { cap, tier, why } => {
            let why = why.as_deref().map(|why| format!(", decided by {why}")).unwrap_or_default();
            vec![format!("resources: {tier}, at most {cap} sub-agents at once from here on{why}")]
        }
        _ => Vec::new(),
    }
}

/// What the switches of a phase compare.
fn switch_words(inputs: &SwitchInputs, phase: &str) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| value.to_string());
    if phase == "before" {
        let cost = inputs
            .max_cost_usd
            .map_or(String::new(), |max| format!(", cost {} of {max}", number(inputs.cost_usd)));
        let tokens = if inputs.max_tokens == 0 { "off".to_owned() } else { inputs.max_tokens.to_string() };
        return format!(
            "sessions {} of {}, hours {:.2} of {}, tokens {} of {tokens}{cost}, resources {} with {} peers (more than {} stop)",
            inputs.iterations,
            inputs.max_sessions,
            inputs.elapsed_hours,
            inputs.max_hours,
            inputs.tokens,
            inputs.resources,
            inputs.peers.map_or_else(|| "?".to_owned(), |peers| peers.to_string()),
            inputs.peer_abort,
        );
    }
    format!(
        "spiral {}, failed {}, carry-over {} of {} planned (more than {} stops)",
        number(inputs.spiral),
        number(inputs.failed),
        number(inputs.carryover),
        number(inputs.planned),
        inputs.carryover_threshold,
    )
}
