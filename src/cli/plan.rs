//! `--dry-run`: the plan of a run, and nothing started.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::core::mode::{Alternative, Mode, Pressure};
use crate::core::published::{PeerSession, peer_words};
use crate::core::resources::ResourceVerdict;
use crate::core::signals::SourceReading;
use crate::core::suitability::Verdict;
use crate::core::time::Now;
use crate::driver;
use crate::driver::survey::Sources;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::git::Repo;
use crate::journal::autopilot_record::{AutopilotRecord, SCHEMA_VERSION};
use crate::journal::metrics::append_autopilot;
use crate::settings::Settings;
use crate::state::layout::Layout;
use crate::ui::printer::Printer;
use crate::ui::text;
use crate::ui::words::source_lines;

use super::outlook::{self, Outlook};
use super::run;

/// What a plan is made of.
pub(super) struct Plan<'a> {
    pub(super) settings: &'a Settings,
    pub(super) repo: &'a Repo,
    pub(super) layout: &'a Layout,
    pub(super) run_id: &'a str,
    pub(super) claude: &'a Path,
    pub(super) prompt: Option<&'a str>,
    pub(super) environment: &'a [(OsString, OsString)],
    pub(super) sources: Sources,
    pub(super) json: bool,
    pub(super) started: Now,
    pub(super) printer: &'a Printer,
}

/// The plan as data.
#[derive(Debug, Serialize)]
struct Document {
    schema_version: u32,
    dry_run: bool,
    run_id: String,
    repository: String,
    mode: Option<&'static str>,
    confidence: f64,
    confidence_threshold: f64,
    rationale: String,
    would_start: bool,
    no_open_work: bool,
    reasons: Vec<String>,
    alternatives: Vec<Alternative>,
    pressure: Pressure,
    open_tasks: Option<u32>,
    tasks: Vec<String>,
    sources: Vec<SourceReading>,
    verdict: Verdict,
    resource_tier: String,
    agents_per_wave: u32,
    resource_reasons: Vec<String>,
    peers: Option<u64>,
    peers_here: Vec<PeerSession>,
    peers_here_consequence: Option<String>,
    budgets: Vec<String>,
    deadlines: Vec<String>,
    command: Vec<String>,
    prompt_bytes: Option<usize>,
    environment_removed: Vec<String>,
    environment_kept: Vec<String>,
    billing: Vec<String>,
    stops: Vec<String>,
}

/// Prints the plan, records the dry run, starts nothing.
pub(super) async fn plan(plan: Plan<'_>) -> Result<Exit, CliError> {
    let outlook = outlook::outlook(plan.settings, &plan.repo.root, plan.sources.clone()).await;
    let Plan {
        settings,
        repo,
        layout,
        run_id,
        claude,
        prompt,
        environment,
        sources: _,
        json,
        started,
        printer,
    } = plan;
    for warning in &outlook.warnings {
        printer.warn(warning);
    }
    let Outlook { survey, choice, would_start, tasks, resources, peers, peers_here, verdict, .. } = outlook;
    let limits = run::limits(settings, super::grounds::grounds(settings, &repo.root, environment));
    let child = crate::engine::headless::child_environment(
        environment.iter().cloned(),
        run::billing(settings),
        &[("AUTOPILOT_RUN_ID", run_id.to_owned())],
    );
    let mut command = vec![claude.display().to_string()];
    let argv = driver::planned_argv(&run::pass_through(settings), settings.budgets.max_cost);
    command.extend(argv.iter().map(|arg| arg.to_string_lossy().into_owned()));
    let document = Document {
        schema_version: 1,
        dry_run: true,
        run_id: run_id.to_owned(),
        repository: repo.root.display().to_string(),
        mode: choice.mode.map(Mode::as_str),
        confidence: choice.confidence,
        confidence_threshold: limits.confidence_threshold,
        rationale: choice.rationale,
        would_start,
        no_open_work: choice.no_open_work,
        reasons: choice.reasons,
        alternatives: choice.alternatives,
        pressure: choice.pressure,
        open_tasks: survey.signals.tasks.map(|tasks| tasks.open),
        tasks: tasks.iter().map(|task| task.title.clone()).collect(),
        sources: survey.signals.sources,
        verdict,
        resource_tier: resources.tier.to_string(),
        agents_per_wave: resources.cap,
        resource_reasons: resources.reasons.clone(),
        peers,
        peers_here_consequence: (!peers_here.is_empty()).then(|| consequence(settings)),
        peers_here,
        budgets: budgets(settings),
        deadlines: deadlines(settings),
        command,
        prompt_bytes: prompt.map(str::len),
        environment_removed: child.removed,
        environment_kept: child.kept,
        billing: child.billing,
        stops: stops(settings, would_start, choice.no_open_work),
    };
    append_autopilot(layout, &record(&Dry { settings, repo, run_id, started }, &resources)).map_err(
        |error| {
            CliError::from_error(ErrorKind::Environment, error)
                .hinted("free some space or mend the permissions of .orchestrator/metrics")
        },
    )?;
    if json {
        let text = serde_json::to_string(&document)
            .map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?;
        printer.data(&text)?;
    } else {
        printer.data(&layout_of(&document))?;
    }
    Ok(Exit::Planned)
}

fn layout_of(document: &Document) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        // Writing to a string cannot fail.
        _ = writeln!(text, "{label:<11} {value}");
    };
    line("plan", &format!("{} in {}", document.run_id, document.repository));
    let mode = document.mode.unwrap_or("none");
    let comparison = if document.would_start { ">=" } else { "<" };
    line(
        "mode",
        &format!(
            "{mode}, confidence {} {comparison} threshold {}: {}",
            document.confidence, document.confidence_threshold, document.rationale
        ),
    );
    for reason in &document.reasons {
        line("", reason);
    }
    if !document.alternatives.is_empty() {
        let others: Vec<String> = document
            .alternatives
            .iter()
            .map(|other| format!("{} {}", other.mode, other.confidence))
            .collect();
        line("", &format!("instead of: {}", others.join(", ")));
    }
    for (at, task) in document.tasks.iter().enumerate() {
        let of = document.open_tasks.map(|open| format!("{} of {open} open", document.tasks.len()));
        let label = if at == 0 { "tasks" } else { "" };
        let of = of.filter(|_| at == 0).map(|of| format!(" ({of})")).unwrap_or_default();
        line(label, &format!("{task}{of}"));
    }
    for (at, text) in document.sources.iter().flat_map(source_lines).enumerate() {
        line(if at == 0 { "signals" } else { "" }, &text);
    }
    line("verdict", &document.verdict.rationale);
    line(
        "resources",
        &format!("{}: at most {} sub-agents per wave", document.resource_tier, document.agents_per_wave),
    );
    for reason in &document.resource_reasons {
        line("", reason);
    }
    if let Some(consequence) = &document.peers_here_consequence {
        let verb = if document.peers_here.len() == 1 { "works" } else { "work" };
        line("peers", &format!("{} {verb} here, too: {consequence}", peer_words(&document.peers_here)));
    }
    line("budgets", &document.budgets.join(", "));
    line("deadlines", &document.deadlines.join(", "));
    line("command", &shell_words(&document.command));
    match document.prompt_bytes {
        Some(bytes) => line("prompt", &format!("{bytes} bytes, given on stdin")),
        None => line("prompt", "none: the session gets the template of its mode"),
    }
    if !document.environment_removed.is_empty() {
        line("environment", &format!("removed: {}", document.environment_removed.join(", ")));
    }
    if !document.environment_kept.is_empty() {
        line("environment", &format!("passed on: {}", document.environment_kept.join(", ")));
    }
    if !document.billing.is_empty() {
        line(
            "billing",
            &format!("who pays, and where requests go, is up to {}", document.billing.join(", ")),
        );
    }
    for (at, stop) in document.stops.iter().enumerate() {
        line(if at == 0 { "stops when" } else { "" }, stop);
    }
    line("started", "nothing (--dry-run)");
    text
}

/// What a run would do about Claude sessions that work in the same tree.
fn consequence(settings: &Settings) -> String {
    match settings.deadlines.peer_grace {
        _ if settings.safety.allow_peers => "the run would work beside it (--allow-peers)".to_owned(),
        Duration::ZERO => "the run would end at once (exit 5)".to_owned(),
        grace => format!("the run would wait for it at most {}, then end (exit 5)", text::span(grace)),
    }
}

/// A command line that a shell would read back as the same words.
fn shell_words(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c))
    };
    let quoted = words
        .iter()
        .map(|word| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) });
    quoted.collect::<Vec<_>>().join(" ")
}

fn budgets(settings: &Settings) -> Vec<String> {
    let budgets = &settings.budgets;
    let mut list = vec![format!("{} sessions", budgets.max_sessions), format!("{} hours", budgets.max_hours)];
    list.push(match budgets.max_tokens {
        0 => "no token budget".to_owned(),
        tokens => format!("{tokens} output tokens"),
    });
    list.push(match budgets.max_cost {
        None => "no cost budget".to_owned(),
        Some(cost) => format!("${cost}"),
    });
    list
}

fn deadlines(settings: &Settings) -> Vec<String> {
    let deadlines = &settings.deadlines;
    let words = |name: &str, time: Duration| format!("{name} {}", text::span(time));
    vec![
        words("first output", deadlines.first_output),
        words("stall", deadlines.stall),
        words("turn", deadlines.turn),
        words("exit grace", deadlines.exit_grace),
        words("limit wait", deadlines.max_wait),
        words("peer grace", deadlines.peer_grace),
    ]
}

/// What would end the run, in the order in which it is checked (design §4).
fn stops(settings: &Settings, would_start: bool, no_open_work: bool) -> Vec<String> {
    let mut stops = Vec::new();
    if no_open_work {
        stops.push("at once: nothing is open (planned end)".to_owned());
    } else if !would_start {
        stops.push("at once: iteration 1 falls back to manual (exit 3)".to_owned());
    }
    let rules = &settings.stop_rules;
    let budgets = &settings.budgets;
    stops.push("SIGINT, SIGTERM or SIGHUP comes (user-abort)".to_owned());
    stops.push(format!("{} sessions are done (max-sessions-reached)", budgets.max_sessions));
    stops.push(format!("{} hours have passed (max-hours-exceeded)", budgets.max_hours));
    if budgets.max_tokens > 0 {
        stops.push(format!("{} output tokens are used (token-budget-exceeded)", budgets.max_tokens));
    }
    if let Some(cost) = budgets.max_cost {
        stops.push(format!("${cost} are spent (token-budget-exceeded)"));
    }
    stops.push(format!(
        "resources are critical while more than {} peers run (resource-overload)",
        rules.peer_abort
    ));
    if !settings.safety.allow_peers {
        stops.push(
            "another Claude session stays at work in this tree for longer than the peer grace (exit 5)"
                .to_owned(),
        );
    }
    stops
        .push(format!("the confidence falls below {} (low-confidence-fallback)", rules.confidence_threshold));
    stops.push("a hang outlasts its recoveries (stall-timeout)".to_owned());
    stops.push("a session reports agents going in circles (spiral)".to_owned());
    stops.push("a session, a wave or --verify fails (failed-wave)".to_owned());
    stops.push(format!(
        "more than {} of the planned work is left over (carryover-too-high)",
        rules.carryover_threshold
    ));
    stops.push("nothing is left to do (planned end)".to_owned());
    stops
}

/// What its record is made of.
struct Dry<'a> {
    settings: &'a Settings,
    repo: &'a Repo,
    run_id: &'a str,
    started: Now,
}

/// A dry run leaves a record too (upstream-formats §2.2, step 4 of the start).
fn record(plan: &Dry<'_>, verdict: &ResourceVerdict) -> AutopilotRecord {
    let settings = plan.settings;
    AutopilotRecord {
        schema_version: SCHEMA_VERSION,
        autopilot_run_id: plan.run_id.to_owned(),
        started_at: plan.started.wall,
        completed_at: plan.started.wall,
        duration_seconds: 0,
        max_sessions: settings.budgets.max_sessions,
        max_hours: settings.budgets.max_hours,
        confidence_threshold: settings.stop_rules.confidence_threshold,
        max_tokens: settings.budgets.max_tokens,
        iterations_completed: 0,
        kill_switch: None,
        kill_switch_detail: Some("dry-run preview — no sessions executed".to_owned()),
        sessions: Vec::new(),
        host_class: None,
        resource_verdict_at_start: Some(verdict.tier.to_string()),
        fallback_to_manual: false,
        dry_run: true,
        total_tokens_used: 0,
        worktree_path: plan.repo.is_linked_worktree().then(|| plan.repo.root.display().to_string()),
        parent_run_id: None,
        stall_recovery_count: 0,
        blocked_by_issue: None,
        aborted_by_cohort: false,
        spiral_recovery_count: 0,
        outcome: Exit::Planned.name().to_owned(),
        exit_code: Exit::Planned.code(),
        failure_class: None,
        cost_usd: None,
        tokens: crate::core::published::Tokens::default(),
        limit_wait_seconds: 0,
        heals: Vec::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
