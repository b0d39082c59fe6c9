//! `autopilot run`: from settings to a run, and from its end to record, report and exit code.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::core::autonomy::Autonomy;
use crate::core::mediation::Grounds;
use crate::core::notice::Target;
use crate::core::outcome::Class;
use crate::core::published::RunEvent;
use crate::core::recovery::Policy;
use crate::core::run::{Chain, Inherited, Limits};
use crate::core::signals::Signals;
use crate::core::time::Now;
use crate::driver::{self, Carrier, Ended, FollowUps, Observer, Setup, clock};
use crate::engine::headless::{Billing, PassThrough};
use crate::error::exit::{self, Exit, StopSignal};
use crate::error::{CliError, ErrorKind};
use crate::git::{self, Repo};
use crate::inhibit::Inhibitor;
use crate::journal::autopilot_record::{AutopilotRecord, Heal, SCHEMA_VERSION};
use crate::journal::metrics::store_autopilot;
use crate::journal::writer::Journal;
use crate::process::{Cookie, ProcessId};
use crate::report::RunSummary;
use crate::settings::env_vars;
use crate::settings::layer::Layer;
use crate::settings::{self, Notifications, Settings, keys};
use crate::state::atomic;
use crate::state::layout::{Layout, RunDir};
use crate::state::lock::{Acquired, Holder, LockError, RunLock};
use crate::state::run_id;
use crate::ui::printer::{Level, Printer};
use crate::ui::text::plural;

use super::grounds::grounds;
use super::runs::Depth;
use super::watcher::{self, Watcher};
use super::{ci, config, history, next_steps, notify, plan, remains, runs, start};

/// A run as the command line asks for it.
pub(super) struct Request {
    pub(super) directory: PathBuf,
    pub(super) flags: Layer,
    /// For `run.json`, so that `resume` can ask the same again.
    pub(super) argv: Vec<String>,
    pub(super) events: bool,
    pub(super) json: bool,
    pub(super) environment: Vec<(OsString, OsString)>,
    /// The run that goes on.
    pub(super) continued: Option<Continued>,
}

/// A run that goes on.
pub(super) struct Continued {
    pub(super) run_id: String,
    pub(super) file: RunFile,
    pub(super) inherited: Inherited,
    pub(super) earlier: Earlier,
}

/// What the record of a run tells of its earlier parts.
#[derive(Default)]
pub(super) struct Earlier {
    /// When the run began, if not in this part.
    pub(super) started_at: Option<Timestamp>,
    /// Automatic repairs before this part.
    pub(super) heals: Vec<Heal>,
}

/// `run.json`: what `resume` needs to ask for the same again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RunFile {
    /// Version of this file.
    pub(super) v: u32,
    pub(super) run_id: String,
    pub(super) argv: Vec<String>,
    pub(super) prompt: Option<String>,
    /// A run that this one continued, when that still made a new run (0.1).
    #[serde(default)]
    pub(super) parent_run_id: Option<String>,
    /// The command line of each `resume`.
    #[serde(default)]
    pub(super) resumed_with: Vec<Vec<String>>,
}

pub(super) async fn run(request: Request, printer: &Printer) -> Result<Exit, CliError> {
    let repo = start::repository(&request.directory).await?;
    let files = config::Files::locate(&repo.root);
    let resolved = config::load(&request.flags, &files)?;
    for notice in &resolved.notices {
        printer.warn(notice);
    }
    let settings = resolved.settings;
    refuse_nesting(&settings, &request.environment)?;
    let environment = request.environment.clone();
    let result = Box::pin(start_and_drive(request, &settings, repo.clone(), printer)).await;
    if let Err(error) = &result
        && !settings.safety.dry_run
    {
        notify::tell_failure(&settings, &repo, &environment, error, printer).await;
    }
    result
}

async fn start_and_drive(
    request: Request,
    settings: &Settings,
    repo: Repo,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let prompt = match (&request.continued, &settings.work.prompt) {
        (Some(continued), None) => continued.file.prompt.clone(),
        (_, Some(source)) => Some(start::prompt(source)?),
        (None, None) => None,
    };
    if let Some(continued) = &request.continued {
        refuse_used_up(settings, continued)?;
    }
    let carrier = carrier(settings)?;
    let claude = start::find_program(&settings.claude.bin, &request.environment)?;
    let layout = Layout::new(&repo.root);
    layout.prepare().map_err(|error| {
        let next = error.next_step();
        CliError::from_error(ErrorKind::Environment, error).hinted(next)
    })?;
    start::check_records(&layout)?;
    let started = clock::now();
    let asked = Signals { forced_mode: settings.work.mode, prompt: prompt.is_some(), ..Signals::default() };
    // Both ask git.
    let (branch, mut sources) =
        tokio::join!(git::branch(&repo), start::sources(settings, &repo, None, &request.environment, asked));
    let branch = branch.ok().flatten();
    let base_id = run_id::base_id(branch.as_deref(), started.wall);
    sources.branch.clone_from(&branch);
    sources.goes_on |= request.continued.is_some();
    if settings.safety.dry_run {
        return plan::plan(plan::Plan {
            settings,
            repo: &repo,
            layout: &layout,
            run_id: &base_id,
            claude: &claude,
            prompt: prompt.as_deref(),
            environment: &request.environment,
            sources,
            json: request.json,
            started,
            printer,
        })
        .await;
    }

    let (run_id, run_dir) = match &request.continued {
        Some(Continued { run_id, .. }) => match layout.run(run_id) {
            Some(run_dir) => (run_id.clone(), run_dir),
            None => return Err(CliError::usage(format!("`{run_id}` is not the id of a run"))),
        },
        None => run_id::claim_run_dir(&layout, &base_id)
            .map_err(|error| CliError::from_error(ErrorKind::Environment, error))?,
    };
    let cookie = Cookie::new(env_vars::AUTOPILOT_COOKIE, Uuid::new_v4().to_string());
    let new = request.continued.is_none();
    let acquired = take_lock(&layout, &run_id, &cookie, started).inspect_err(|_| {
        if new {
            // Claimed for nothing; it is empty.
            drop(std::fs::remove_dir_all(run_dir.path()));
        }
    })?;
    let (mut lock, dead) = remains::settle(&layout, acquired).await;

    let (file, inherited, earlier) =
        if let Some(Continued { mut file, inherited, earlier, .. }) = request.continued {
            file.prompt.clone_from(&prompt);
            file.resumed_with.push(request.argv);
            (file, inherited, earlier)
        } else {
            let (run_id, argv) = (run_id.clone(), request.argv);
            let file = RunFile { v: 1, run_id, argv, prompt: prompt.clone(), ..RunFile::default() };
            (file, Inherited::default(), Earlier::default())
        };
    let begun = write_run_file(&run_dir, &file).and_then(|()| {
        Journal::open(&run_dir.events()).map_err(|error| {
            let full = error.is_disk_full();
            hinted_if_full(full, CliError::from_error(ErrorKind::Environment, error))
        })
    });
    let mut journal = match begun {
        Ok(journal) => journal,
        Err(error) => {
            // It has not begun, so nobody is to find it dead.
            drop(lock.release());
            if new {
                drop(std::fs::remove_dir_all(run_dir.path()));
            }
            return Err(error);
        }
    };
    let notifier = notify::notifier(settings, &layout, Some(&run_dir), &request.environment);
    let source = notify::source(&repo.root, Some(&run_id));
    let mut watcher = Watcher::new(printer, request.events, started, notifier, source);
    let environment = environment(request.environment, &settings.notifications);
    let setup = Setup {
        run_id: run_id.clone(),
        cookie,
        limits: limits(settings, grounds(settings, &repo.root, &environment)),
        sources,
        state_file: settings.work.state_file,
        follow_ups: FollowUps {
            verify: settings.work.follow_ups.verify,
            docs: settings.work.follow_ups.docs,
        },
        inherited,
        agents_per_wave: settings.work.agents_per_wave,
        // The name, not what was found: it is looked up again at each start (field-reports K08).
        claude: if settings.claude.bin.components().count() > 1 {
            claude
        } else {
            settings.claude.bin.clone()
        },
        billing: billing(settings),
        engine: carrier,
        pass_through: pass_through(settings),
        prompt,
        session_command: settings.work.session_command.clone(),
        verify: settings.work.verify.clone(),
        verify_timeout: settings.deadlines.verify,
        environment,
        repo,
        layout,
        run_dir,
    };
    let mut say = |event: RunEvent, journal: &mut Journal| {
        let now = clock::now();
        let seq = Some(journal.next_seq());
        if let Err(error) = journal.append(&event, now) {
            printer.warn(&error.to_string());
        }
        watcher.event(now, seq, &event);
    };
    let first =
        if new { run_started(&setup, settings, branch) } else { run_resumed(&setup, settings, branch) };
    say(first, &mut journal);
    for event in dead {
        say(event, &mut journal);
    }
    if let Some(text) = driver::billing_notice(&setup) {
        say(RunEvent::Warning { text }, &mut journal);
    }

    let inhibitor =
        if settings.safety.no_inhibit { None } else { Inhibitor::take(&setup.repo.root, &setup.environment) };
    let driven = Box::pin(driver::drive(&setup, &mut journal, &mut lock, &mut watcher)).await;
    if let Some(inhibitor) = inhibitor {
        inhibitor.release().await;
    }
    let ended = match driven {
        Ok(ended) => ended,
        Err(error) => {
            watcher.finish();
            drop(lock.release());
            return Err(CliError::from_error(ErrorKind::Unexpected, error));
        }
    };
    let commit_url = Box::pin(runs::commit_url(&setup.repo)).await;
    let exit =
        conclude(&setup, settings, &ended, earlier, commit_url, journal, &mut watcher, request.json, printer);
    forget_old_runs(&setup.layout, settings, printer);
    if let Err(error) = lock.release() {
        printer.warn(&error.to_string());
    }
    // Last, because it may take a while: the next run need not wait for a webhook that hangs.
    notify::finish(watcher.into_notifier(), printer).await;
    exit
}

/// A run inside a session of another one would share its budget and its repository.
fn refuse_nesting(settings: &Settings, environment: &[(OsString, OsString)]) -> Result<(), CliError> {
    let outer = environment.iter().find(|(name, value)| name == "AUTOPILOT_RUN_ID" && !value.is_empty());
    match outer {
        Some((_, run)) if !settings.safety.allow_nested && !settings.safety.dry_run => Err(CliError::new(
            ErrorKind::AlreadyRunning,
            format!("this is already inside of run {}", run.to_string_lossy()),
        )
        .hinted("start it outside of the session, or say --allow-nested")),
        _ => Ok(()),
    }
}

/// Budgets are for the run as a whole, in all its parts: one that is used up leaves nothing to go on with.
fn refuse_used_up(settings: &Settings, continued: &Continued) -> Result<(), CliError> {
    let Continued { run_id, inherited, .. } = continued;
    let budgets = &settings.budgets;
    let slept = if budgets.limit_wait_free { inherited.limit_wait } else { Duration::ZERO };
    let hours = inherited.elapsed.saturating_sub(slept).as_secs_f64() / 3600.0;
    let spent = inherited.spend.cost_usd.unwrap_or_default();
    let (used, option) = if inherited.iterations >= budgets.max_sessions {
        (format!("has done its {} sessions", budgets.max_sessions), "--max-sessions N")
    } else if hours >= budgets.max_hours {
        (format!("has used its {} hours", budgets.max_hours), "--max-hours H")
    } else if budgets.max_tokens > 0 && inherited.spend.tokens.output >= budgets.max_tokens {
        (format!("has used its {} output tokens", budgets.max_tokens), "--max-tokens N")
    } else if budgets.max_cost.is_some_and(|max| spent >= max) {
        (format!("has spent its ${}", budgets.max_cost.unwrap_or_default()), "--max-cost USD")
    } else {
        return Ok(());
    };
    Err(CliError::usage(format!("run {run_id} {used}; there is nothing to go on with"))
        .hinted(format!("allow it more in all with {option}, or start a new run")))
}

fn take_lock(layout: &Layout, run_id: &str, cookie: &Cookie, started: Now) -> Result<Acquired, CliError> {
    let own = ProcessId::current();
    let holder = Holder {
        run_id: run_id.to_owned(),
        pid: std::process::id(),
        pid_start_time: own.map(|own| own.start_time).unwrap_or_default(),
        cookie: cookie.value.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        started_at: started.wall,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    match RunLock::acquire(&layout.lock(), &holder) {
        Ok(acquired) => Ok(acquired),
        Err(error) => Err(match &error {
            LockError::Held { holder, .. } => {
                let words = match holder {
                    Some(holder) => format!(
                        "run {} holds this repository since {} (process {} on {})",
                        holder.run_id, holder.started_at, holder.pid, holder.host
                    ),
                    None => "another run holds this repository".to_owned(),
                };
                CliError::new(ErrorKind::AlreadyRunning, words)
                    .hinted("wait for it (`autopilot status`), or use another checkout (`git worktree add`)")
            }
            LockError::File(file) if file.is_disk_full() => {
                hinted_if_full(true, CliError::from_error(ErrorKind::Environment, error))
            }
            LockError::File(_) => CliError::from_error(ErrorKind::Environment, error)
                .hinted("the lock has to be a file on a file system with locks: see what is there instead"),
        }),
    }
}

fn write_run_file(run_dir: &RunDir, file: &RunFile) -> Result<(), CliError> {
    let mut bytes = serde_json::to_vec_pretty(file)
        .map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?;
    bytes.push(b'\n');
    atomic::replace(&run_dir.run_json(), &bytes, atomic::PRIVATE_FILE).map_err(|error| {
        let full = error.is_disk_full();
        hinted_if_full(full, CliError::from_error(ErrorKind::Environment, error))
    })
}

/// What a person does about a full disk before anything was started.
fn hinted_if_full(full: bool, error: CliError) -> CliError {
    if full { error.hinted("free some space; nothing was started") } else { error }
}

/// The limits of the core from the settings.
pub(super) fn limits(settings: &Settings, gate: Grounds) -> Limits {
    Limits {
        max_sessions: settings.budgets.max_sessions,
        max_hours: settings.budgets.max_hours,
        limit_wait_free: settings.budgets.limit_wait_free,
        max_tokens: settings.budgets.max_tokens,
        max_cost_usd: settings.budgets.max_cost,
        confidence_threshold: settings.stop_rules.confidence_threshold,
        carryover_threshold: settings.stop_rules.carryover_threshold,
        peer_abort: settings.stop_rules.peer_abort,
        stall_timeout: settings.deadlines.stall,
        first_output_timeout: settings.deadlines.first_output,
        turn_timeout: settings.deadlines.turn,
        exit_grace: settings.deadlines.exit_grace,
        deadline: settings.deadlines.deadline,
        chain: match settings.work.chain {
            settings::Chain::Fresh => Chain::Fresh,
            settings::Chain::Resume => Chain::Resume,
        },
        autonomy: settings.stop_rules.autonomy,
        confidence_floor: settings.stop_rules.confidence_floor,
        verify: settings.work.verify.is_some(),
        answer_after: (settings.stop_rules.autonomy == Autonomy::AutonomousGated
            && !settings.deadlines.escalation.is_zero())
        .then_some(settings.deadlines.escalation),
        stuck_detection: settings.stop_rules.stuck_detection,
        gate,
        recovery: Policy {
            backoff: settings.deadlines.turn_backoff.clone(),
            heals: settings.deadlines.heal_backoff.clone(),
            max_wait: settings.deadlines.max_wait,
            time_zone: jiff::tz::TimeZone::system(),
        },
        peer_grace: settings.deadlines.peer_grace,
        allow_peers: settings.safety.allow_peers,
        reserve: settings.budgets.reserve,
        // Two to ten seconds, so that not everybody asks again in the same one.
        jitter: Duration::from_millis(2000 + u64::from(Uuid::new_v4().as_bytes()[0]) * 8000 / 255),
    }
}

/// The engine that was asked for, if this build has it.
fn carrier(settings: &Settings) -> Result<Carrier, CliError> {
    match settings.claude.engine {
        settings::Engine::Headless => Ok(Carrier::Headless),
        // It sees only the calls about which Claude Code asks.
        #[cfg(feature = "pty")]
        settings::Engine::Pty
            if settings.safety.gate == crate::core::gate::Policy::Strict
                || (settings.safety.gate == crate::core::gate::Policy::Guard
                    && super::grounds::skips_permissions(settings)) =>
        {
            Err(CliError::usage("the PTY engine cannot judge calls about which Claude Code does not ask")
                .hinted(
                    "take --engine headless, or --gate guard with a permission mode that asks, or --gate off",
                ))
        }
        #[cfg(feature = "pty")]
        settings::Engine::Pty => Ok(Carrier::Pty {
            triage: settings.claude.triage.clone(),
            may_bypass: super::grounds::skips_permissions(settings),
        }),
        #[cfg(not(feature = "pty"))]
        settings::Engine::Pty => Err(CliError::usage("this build has no PTY engine")
            .hinted("install it with `cargo install --path . --features pty`, or leave --engine out")),
    }
}

pub(super) fn billing(settings: &Settings) -> Billing {
    match settings.claude.billing {
        settings::Billing::Inherit => Billing::Inherit,
        settings::Billing::Subscription => Billing::Subscription,
    }
}

pub(super) fn pass_through(settings: &Settings) -> PassThrough {
    PassThrough {
        model: settings.claude.model.clone(),
        fallback_model: settings.claude.fallback_model.clone(),
        permission_mode: Some(settings.claude.permission_mode.clone()),
        allowed_tools: settings.claude.allowed_tools.clone(),
        mcp_config: settings.claude.mcp_config.clone(),
        // Without a gate nobody would answer.
        ask_permission: settings.safety.gate != crate::core::gate::Policy::Off,
        extra: settings.claude.args.clone(),
    }
}

/// What sessions inherit. A login looks for `USER`, `LOGNAME` and `HOME`; cron leaves some of them out (field-reports
/// K05). Addresses of webhooks are none of their business.
fn environment(
    mut environment: Vec<(OsString, OsString)>,
    notifications: &Notifications,
) -> Vec<(OsString, OsString)> {
    let secret = |name: &OsString| {
        name == keys::NOTIFY_WEBHOOK.spec.env
            || notifications.webhooks.iter().any(
                |webhook| matches!(&webhook.target, Target::Variable(variable) if name == variable.as_str()),
            )
    };
    environment.retain(|(name, _)| !secret(name));
    let is_set = |environment: &[(OsString, OsString)], name: &str| {
        environment.iter().any(|(key, value)| key == name && !value.is_empty())
    };
    let Some(account) = account() else { return environment };
    for (name, value) in [("USER", &account.0), ("LOGNAME", &account.0), ("HOME", &account.1)] {
        if !is_set(&environment, name) {
            environment.retain(|(key, _)| key != name);
            environment.push((name.into(), value.into()));
        }
    }
    environment
}

/// Name and home of the user this process runs as.
fn account() -> Option<(String, String)> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let table = std::fs::read_to_string("/etc/passwd").ok()?;
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.len() >= 6 && fields[2] == uid).then(|| (fields[0].to_owned(), fields[5].to_owned()))
    })
}

fn run_started(setup: &Setup, settings: &Settings, branch: Option<String>) -> RunEvent {
    RunEvent::RunStarted {
        run_id: setup.run_id.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        repository: setup.repo.root.display().to_string(),
        branch,
        parent_run_id: None,
        max_sessions: settings.budgets.max_sessions,
        max_hours: settings.budgets.max_hours,
        max_tokens: settings.budgets.max_tokens,
        max_cost_usd: settings.budgets.max_cost,
        confidence_threshold: settings.stop_rules.confidence_threshold,
        claude: setup.claude.display().to_string(),
        claude_version: None,
    }
}

fn run_resumed(setup: &Setup, settings: &Settings, branch: Option<String>) -> RunEvent {
    let Inherited { iterations, elapsed, spend, .. } = &setup.inherited;
    RunEvent::RunResumed {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        branch,
        max_sessions: settings.budgets.max_sessions,
        max_hours: settings.budgets.max_hours,
        max_tokens: settings.budgets.max_tokens,
        max_cost_usd: settings.budgets.max_cost,
        confidence_threshold: settings.stop_rules.confidence_threshold,
        iterations: *iterations,
        seconds: elapsed.as_secs_f64(),
        tokens: spend.tokens,
        cost_usd: spend.cost_usd,
    }
}

/// Record, last event, report, summary, exit code: on every way out.
#[expect(clippy::too_many_arguments, reason = "the end of a run touches everything the run has")]
fn conclude(
    setup: &Setup,
    settings: &Settings,
    ended: &Ended,
    earlier: Earlier,
    commit_url: Option<String>,
    mut journal: Journal,
    watcher: &mut Watcher<'_>,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let end = &ended.end;
    let signal = end.stopped_by.map(|by| match by {
        "SIGINT" => StopSignal::Interrupt,
        "SIGHUP" => StopSignal::Hangup,
        _ => StopSignal::Terminate,
    });
    let held = !end.peers.is_empty();
    let mut exit = if end.forbidden.is_some() {
        Exit::VerdictNo
    } else {
        exit::of_run(end.kill_switch, end.failure_class, end.fallback_to_manual, held, signal)
    };
    for record in &ended.unwritten {
        printer.warn(&format!("this record could not be written; keep it: {record}"));
    }
    let record = record(setup, settings, ended, earlier, exit);
    if let Err(error) = store_autopilot(&setup.layout, &record) {
        printer.error(
            &CliError::environment(error.to_string())
                .hinted("free some space or mend the permissions, then add the record below to the file"),
        );
        printer.warn(&format!("this record could not be written; keep it: {}", error.record));
        exit = Exit::Environment;
    }
    let last = RunEvent::RunEnded {
        kill_switch: end.kill_switch,
        detail: end.detail.clone(),
        exit_code: exit.code(),
        failure_class: end.failure_class,
        fallback_to_manual: end.fallback_to_manual,
        iterations: end.iterations,
        sessions: end.sessions.clone(),
        tokens: end.tokens,
        cost_usd: end.cost_usd,
        seconds: end.duration.as_secs_f64(),
        limit_wait_seconds: end.limit_wait.as_secs(),
        next: next_steps::next_steps(&setup.run_id, end, exit),
    };
    let seq = journal.next_seq();
    let now = clock::now();
    let journaled = journal.append(&last, now).and_then(|()| journal.finish());
    watcher.event(now, Some(seq), &last);
    watcher.finish();
    if let Err(error) = journaled {
        printer.error(
            &CliError::from_error(ErrorKind::Environment, error)
                .hinted("free some space; the record of the run is in autopilot.jsonl or above"),
        );
        exit = Exit::Environment;
    }
    let mut summary = match runs::summary(&setup.layout, &setup.run_id, Depth::Whole) {
        Ok(summary) => summary,
        Err(error) => {
            printer.warn(&format!("the journal cannot be read back: {error}"));
            RunSummary::default()
        }
    };
    summary.commit_url = commit_url;
    let pages = [
        (setup.run_dir.report(), summary.to_markdown()),
        (setup.run_dir.report_page(), summary.to_html(&jiff::tz::TimeZone::system())),
    ];
    for (path, text) in pages {
        if let Err(error) = atomic::replace(&path, text.as_bytes(), atomic::PRIVATE_FILE) {
            printer.warn(&error.to_string());
        }
    }
    ci::tell(&setup.environment, &summary, exit, end.deadline_reached, printer);
    watcher.tell_end(&summary, exit, &setup.run_dir.report_page(), now);
    printer.say("");
    printer.say(summary.to_text(&watcher::text_options(printer)).trim_end());
    // Cron mail and `--quiet` show warnings only; an end that nobody planned is one.
    if printer.level() == Level::Quiet && exit != Exit::Planned {
        let detail = end.detail.as_deref().unwrap_or_default();
        printer.warn(&format!("run {} {}: {detail}", setup.run_id, summary.headline()));
    }
    if json {
        printer.data(&summary.to_json())?;
    }
    Ok(exit)
}

/// The folders of runs beyond what the settings keep. The run that just ended is the newest one, and stays.
fn forget_old_runs(layout: &Layout, settings: &Settings, printer: &Printer) {
    let rule = history::Rule::new(settings.safety.keep_runs, settings.safety.keep_size);
    match history::prune(layout, rule) {
        Ok((removed, failed)) => {
            if !removed.is_empty() {
                let count = u64::try_from(removed.len()).unwrap_or(u64::MAX);
                printer.detail(&format!(
                    "removed the folders of {} (keep-runs, keep-size)",
                    plural(count, "old run")
                ));
            }
            for text in failed {
                printer.warn(&text);
            }
        }
        Err(error) => printer.warn(&format!("old runs cannot be looked over: {error}")),
    }
}

fn record(
    setup: &Setup,
    settings: &Settings,
    ended: &Ended,
    earlier: Earlier,
    exit: Exit,
) -> AutopilotRecord {
    let end = &ended.end;
    let started_at = earlier.started_at.unwrap_or(ended.started.wall);
    let mut heals = earlier.heals;
    heals.extend(ended.heals.iter().cloned());
    AutopilotRecord {
        schema_version: SCHEMA_VERSION,
        autopilot_run_id: setup.run_id.clone(),
        started_at,
        // The wall clock may have been set back meanwhile.
        completed_at: ended.ended.wall.max(started_at),
        duration_seconds: (end.duration + Duration::from_millis(500)).as_secs(),
        max_sessions: settings.budgets.max_sessions,
        max_hours: settings.budgets.max_hours,
        confidence_threshold: settings.stop_rules.confidence_threshold,
        max_tokens: settings.budgets.max_tokens,
        iterations_completed: end.iterations,
        kill_switch: end.kill_switch,
        kill_switch_detail: end.detail.clone(),
        sessions: end.sessions.clone(),
        host_class: None,
        resource_verdict_at_start: end.resource_verdict_at_start.clone(),
        fallback_to_manual: end.fallback_to_manual,
        dry_run: false,
        total_tokens_used: end.tokens.output,
        worktree_path: setup.repo.is_linked_worktree().then(|| setup.repo.root.display().to_string()),
        parent_run_id: None,
        stall_recovery_count: stall_recoveries(&heals, ended.end.stalls),
        blocked_by_issue: None,
        aborted_by_cohort: false,
        spiral_recovery_count: 0,
        outcome: exit.name().to_owned(),
        exit_code: exit.code(),
        failure_class: end.failure_class,
        cost_usd: end.cost_usd,
        tokens: end.tokens,
        limit_wait_seconds: end.limit_wait.as_secs(),
        heals,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Stalled turns that were ended: those that were resumed, and the one that ended the run.
fn stall_recoveries(heals: &[Heal], sessions: u32) -> u32 {
    let healed = heals.iter().filter(|heal| heal.class == Class::Stalled).count();
    u32::try_from(healed).unwrap_or(u32::MAX).saturating_add(sessions)
}
