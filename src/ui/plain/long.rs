//! The entries with many facts: the beginning and the end of runs and sessions.

use std::fmt::Write as _;
use std::time::Duration;

use super::{EntryText, PlainState, list};
use crate::core::autonomy::Autonomy;
use crate::core::published::{RunEvent, TaskOutcome, Verification, peer_words};
use crate::core::signals::Signals;
use crate::core::suitability::Verdict;
use crate::error::exit::Exit;
use crate::ui::text::{Tone, clean_lines, count, dollars, hours, known_cost, plural, span, span_of_seconds};
use crate::ui::words::{measured_tokens, result_words, source_lines, wave_words, work_words};

pub(super) fn run_started(event: &RunEvent, state: &mut PlainState) -> Option<EntryText> {
    let RunEvent::RunStarted {
        run_id,
        version,
        repository,
        branch,
        parent_run_id,
        max_sessions,
        max_hours,
        max_tokens,
        max_cost_usd,
        claude,
        claude_version,
        ..
    } = event
    else {
        return None;
    };
    state.max_sessions = Some(*max_sessions);
    let budget = budget(*max_sessions, *max_hours, *max_tokens, *max_cost_usd);
    let run_id = state.foreign(run_id, 60);
    let place = match branch {
        Some(branch) => format!("in {repository}, branch {branch}"),
        None => format!("in {repository}, on no branch"),
    };
    let program = match claude_version {
        Some(version) => format!("{claude} {version}"),
        // It introduces itself when the first session starts.
        None => claude.clone(),
    };
    let mut entry = EntryText::new(Tone::Strong, format!("run {run_id}: at most {budget}"))
        .with(Tone::Plain, state.foreign(&place, 0))
        .with(Tone::Dim, state.foreign(&format!("autopilot {version} drives {program}"), 0));
    if let Some(parent) = parent_run_id {
        entry = entry.with(Tone::Plain, format!("continues run {}", state.foreign(parent, 14)));
    }
    Some(entry)
}

pub(super) fn run_resumed(event: &RunEvent, state: &mut PlainState) -> Option<EntryText> {
    let RunEvent::RunResumed {
        branch,
        max_sessions,
        max_hours,
        max_tokens,
        max_cost_usd,
        iterations,
        seconds,
        tokens,
        cost_usd,
        ..
    } = event
    else {
        return None;
    };
    state.max_sessions = Some(*max_sessions);
    let budget = budget(*max_sessions, *max_hours, *max_tokens, *max_cost_usd);
    let mut used = format!(
        "used so far: {}, {}, {} output tokens",
        plural(u64::from(*iterations), "session"),
        span_of_seconds(*seconds),
        count(tokens.output)
    );
    if let Some(cost) = known_cost(*cost_usd) {
        _ = write!(used, ", {}", dollars(Some(cost)));
    }
    let place = match branch {
        Some(branch) => format!("on branch {branch}"),
        None => "on no branch".to_owned(),
    };
    Some(
        EntryText::new(
            Tone::Strong,
            format!("the run goes on {}: at most {budget}", state.foreign(&place, 40)),
        )
        .with(Tone::Plain, used),
    )
}

/// Budgets of a run.
fn budget(sessions: u32, max_hours: f64, tokens: u64, cost_usd: Option<f64>) -> String {
    let mut budget = format!("{}, {}", plural(u64::from(sessions), "session"), hours(max_hours));
    if tokens > 0 {
        _ = write!(budget, ", {} output tokens", count(tokens));
    }
    if let Some(max) = cost_usd {
        _ = write!(budget, ", {}", dollars(Some(max)));
    }
    budget
}

pub(super) fn initialised(event: &RunEvent, state: &mut PlainState) -> Option<EntryText> {
    let RunEvent::Initialised {
        model, cli_version, permission_mode, api_key_source, failed_mcp_servers, ..
    } = event
    else {
        return None;
    };
    let introduced = (model.clone(), permission_mode.clone());
    let news = state.introduced.as_ref() != Some(&introduced);
    state.introduced = Some(introduced);
    if !news && !state.options.verbose {
        return None;
    }
    let known = |value: &Option<String>| value.as_deref().unwrap_or("unknown").to_owned();
    let mut line = format!(
        "Claude Code {}, model {}, permission mode {}",
        known(cli_version),
        known(model),
        known(permission_mode)
    );
    if let Some(source) = api_key_source.as_deref().filter(|source| *source != "none") {
        _ = write!(line, ", paid by API key ({source})");
    }
    let mut entry = EntryText::new(Tone::Plain, state.foreign(&line, 0));
    if !failed_mcp_servers.is_empty() {
        let names = list(state, failed_mcp_servers);
        entry = entry.with(Tone::Warn, format!("MCP servers that did not start: {names}"));
    }
    Some(entry)
}

pub(super) fn session_ended(event: &RunEvent, state: &PlainState) -> Option<EntryText> {
    let RunEvent::SessionEnded {
        iteration,
        completed,
        class,
        status,
        summary,
        work,
        contradictions,
        verification,
        tasks,
        tokens,
        cost_usd,
        seconds,
        attempts,
        denials,
        wave,
        ..
    } = event
    else {
        return None;
    };
    let fine = *completed && contradictions.is_empty() && verification.as_ref().is_none_or(|v| v.passed);
    let tone = match (fine, completed) {
        (true, _) => Tone::Good,
        (false, true) => Tone::Warn,
        (false, false) => Tone::Bad,
    };
    let result = state.foreign(&result_words(*completed, *class, status.as_deref()), 60);
    let work_words = work.as_ref().map_or_else(|| "commits unknown".to_owned(), work_words);
    let mut line = format!(
        "{} ended: {result}, {}, {work_words}, {} output tokens, {}",
        state.session(*iteration),
        span_of_seconds(*seconds),
        measured_tokens(*tokens, *cost_usd, *attempts)
            .map_or_else(|| "unknown".to_owned(), |tokens| count(tokens.output)),
        known_cost(*cost_usd).map_or_else(|| "cost unknown".to_owned(), |sum| dollars(Some(sum))),
    );
    if *denials > 0 {
        _ = write!(line, ", {} denied", plural(u64::from(*denials), "tool call"));
    }
    let mut entry = EntryText::new(tone, line);
    entry = wave_words(wave).into_iter().fold(entry, |entry, line| entry.with(Tone::Plain, line));
    if let Some(summary) = summary {
        entry = entry.with(Tone::Plain, state.foreign(summary, 0));
    }
    for line in tasks.iter().flat_map(task_lines) {
        entry = entry.with(Tone::Plain, state.foreign(&line, 0));
    }
    for contradiction in contradictions {
        entry = entry.with(Tone::Warn, format!("but: {}", state.foreign(contradiction, 5)));
    }
    if work.as_ref().is_some_and(|work| work.history_rewritten) {
        entry = entry.with(Tone::Warn, "history was rewritten: the old head is no longer an ancestor");
    }
    if let Some(verification) = verification {
        entry = verification_lines(state, entry, verification);
    }
    Some(entry)
}

/// What became of the tasks of a session: a line for each way.
fn task_lines(tasks: &TaskOutcome) -> Vec<String> {
    let done = tasks.ticked_by_session.iter().chain(&tasks.ticked_by_us);
    let mut lines: Vec<String> = done.map(|task| format!("done: {task}")).collect();
    lines.extend(tasks.still_open.iter().map(|task| format!("still open: {task}")));
    lines.extend(tasks.unknown_claims.iter().map(|task| format!("reported done, but no known task: {task}")));
    lines
}

/// The pre-launch verdict, with what speaks against the start.
pub(super) fn verdict(autonomy: Autonomy, verdict: &Verdict, state: &PlainState) -> EntryText {
    let (tone, words) = match (verdict.suitable, verdict.forbids_start(autonomy)) {
        (true, _) => (Tone::Plain, "this run may start unattended"),
        (false, true) => (Tone::Bad, "this run may not start unattended (--autonomy autonomous-gated)"),
        (false, false) => {
            (Tone::Warn, "this run should not start unattended; it does all the same (--autonomy advisory)")
        }
    };
    let mut entry = EntryText::new(tone, format!("pre-launch verdict: {words}"));
    for gate in verdict.gates.iter().filter(|gate| !gate.passed) {
        entry = entry.with(Tone::Warn, format!("{}: {}", gate.name, state.foreign(&gate.why, 12)));
    }
    entry
}

/// The sources of the choice, one a line.
pub(super) fn surveyed(signals: &Signals, state: &PlainState) -> EntryText {
    let mut entry = EntryText::new(Tone::Dim, "signals");
    for line in signals.sources.iter().flat_map(source_lines) {
        entry = entry.with(Tone::Dim, state.foreign(&line, 0));
    }
    entry
}

fn verification_lines(state: &PlainState, entry: EntryText, verification: &Verification) -> EntryText {
    if verification.passed {
        return entry.with(Tone::Good, "verification passed");
    }
    let ended = state.foreign(&verification.ended, 21);
    let mut entry = entry.with(Tone::Bad, format!("verification failed: {ended}"));
    for line in clean_lines(&verification.tail, 5) {
        entry = entry.with(Tone::Dim, format!("  {}", state.foreign(&line, 2)));
    }
    entry
}

pub(super) fn peer_wait(event: &RunEvent) -> Option<EntryText> {
    let RunEvent::PeerWait { peers, at_most_seconds, .. } = event else { return None };
    let at_most = span(Duration::from_secs(*at_most_seconds));
    let line = format!("waiting for {} to finish, at most {at_most}", peer_words(peers));
    let why = "it works in this repository, too (--allow-peers would not wait)";
    Some(EntryText::new(Tone::Warn, line).with(Tone::Plain, why))
}

pub(super) fn run_ended(event: &RunEvent, state: &PlainState) -> Option<EntryText> {
    let RunEvent::RunEnded {
        kill_switch,
        detail,
        exit_code,
        failure_class,
        fallback_to_manual,
        iterations,
        tokens,
        cost_usd,
        seconds,
        limit_wait_seconds,
        next,
        ..
    } = event
    else {
        return None;
    };
    let why = match (kill_switch, fallback_to_manual) {
        (Some(switch), _) => switch.as_str(),
        (None, true) => "not sure enough to start by itself",
        (None, false) if *exit_code == 0 => "done",
        (None, false) if *exit_code == Exit::AlreadyRunning.code() => {
            "another Claude session is at work here"
        }
        (None, false) => "failed",
    };
    let tone = if *exit_code == 0 { Tone::Good } else { Tone::Bad };
    let mut first = format!("run ended: {why}");
    if let Some(class) = failure_class {
        _ = write!(first, " ({class})");
    }
    _ = write!(first, ", exit code {exit_code}");
    let mut entry = EntryText::new(tone, first);
    if let Some(detail) = detail {
        entry = entry.with(Tone::Plain, state.foreign(detail, 0));
    }
    let mut totals = format!(
        "{} in {}, {} output tokens, {}",
        plural(u64::from(*iterations), "completed session"),
        span_of_seconds(*seconds),
        measured_tokens(*tokens, *cost_usd, *iterations)
            .map_or_else(|| "unknown".to_owned(), |tokens| count(tokens.output)),
        known_cost(*cost_usd).map_or_else(|| "cost unknown".to_owned(), |sum| dollars(Some(sum))),
    );
    if *limit_wait_seconds > 0 {
        let waited = span(Duration::from_secs(*limit_wait_seconds));
        _ = write!(totals, ", {waited} of it waiting for usage limits");
    }
    entry = entry.with(Tone::Plain, totals);
    for command in next {
        entry = entry.with(Tone::Strong, format!("next: {}", state.foreign(command, 6)));
    }
    Some(entry)
}
