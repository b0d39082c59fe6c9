//! `autopilot schedule`: puts runs into the schedulers of this machine, and starts them when they are due.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy as _;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ZonedDateTime};
use serde::Serialize;

use crate::driver::clock;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::process::{CaptureError, CaptureSpec, Captured, capture};
use crate::schedule::{Due, Job, Slot, Started, cron, due, launchd, manifests, systemd};
use crate::settings::env_vars;
use crate::state::atomic;
use crate::state::layout::Layout;
use crate::ui::printer::Printer;
use crate::ui::text::instant;

use super::args::{Cli, Format, InstallArgs, JobArgs, RemoveArgs, ScheduleCommand, Scheduler, ShowArgs};
use super::{config, run, start};

/// Longest wait for the lock of `schedule.json`.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// A log beyond this begins anew.
const MAX_LOG: u64 = 4 << 20;
/// Folders that are on the `PATH` of every job.
const SYSTEM_PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

pub(super) async fn schedule(
    directory: &Path,
    command: &ScheduleCommand,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let root = start::repository(directory).await?.root;
    match command {
        ScheduleCommand::Install(args) => install(&root, args, printer).await,
        ScheduleCommand::Show(ShowArgs { format: Some(format), job }) => {
            let job = job_of(&root, job)?;
            let now = now();
            printer.data(&match format {
                Format::Cron => cron::block(&job),
                Format::Systemd => format!("{}\n{}", systemd::service(&job), systemd::timer(&job)),
                Format::Launchd => launchd::plist(&job),
                Format::Github => manifests::github(&job, &now),
                Format::Kubernetes => manifests::kubernetes(&job, &now),
            })?;
            Ok(Exit::Planned)
        }
        ScheduleCommand::Show(_) => show(&root, json, printer).await,
        ScheduleCommand::Remove(args) => remove(&root, args, printer).await,
        ScheduleCommand::Run(args) => Box::pin(run_if_due(&root, args, json, printer)).await,
    }
}

fn now() -> ZonedDateTime {
    clock::wall().to_zoned_datetime(TimeZone::system())
}

/// The job that the arguments describe. Options of the run are read as the run would, so that a mistake is found now
/// and not at night.
fn job_of(root: &Path, args: &JobArgs) -> Result<Job, CliError> {
    let slot = Slot::parse(&args.at, &args.days).map_err(CliError::usage)?;
    let cli = options(&args.args)?;
    config::load(&config::flags(&cli)?, &config::Files::locate(root))?;
    let program = std::env::current_exe()
        .map_err(|error| CliError::environment("this program cannot find itself").caused_by(error))?;
    let job = Job {
        v: 1,
        name: args.name.clone(),
        directory: root.to_owned(),
        slot,
        catch_up_hours: args.catch_up,
        args: args.args.clone(),
        program,
        path: job_path(std::env::var_os(env_vars::PATH).as_deref()),
    };
    job.check().map_err(|error| {
        CliError::from_error(ErrorKind::Usage, error)
            .hinted("put a prompt into a file, and name it with --prompt-file")
    })?;
    Ok(job)
}

/// The options of a run as they stand behind `--`.
fn options(args: &[String]) -> Result<Cli, CliError> {
    let line = std::iter::once("autopilot").chain(args.iter().map(String::as_str));
    let cli = Cli::parse_argv(line.map(OsString::from)).map_err(|error| {
        let words = error.to_string();
        let words = words.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        CliError::usage(format!("these are no options of a run: {words}"))
    })?;
    if cli.command.is_some() || cli.global.directory.is_some() {
        return Err(CliError::usage("behind `--` stand options of a run, without a command and without -C"));
    }
    Ok(cli)
}

/// The folders of this `PATH` that are there, each once, and those of every system.
pub(super) fn job_path(path: Option<&OsStr>) -> String {
    let mut folders: Vec<String> = Vec::new();
    let own = path.map(std::env::split_paths).into_iter().flatten();
    for folder in own.chain(SYSTEM_PATH.map(PathBuf::from)) {
        let text = folder.to_string_lossy().into_owned();
        let usable = folder.is_absolute() && folder.is_dir() && !text.contains(':');
        if usable && !folders.contains(&text) {
            folders.push(text);
        }
    }
    folders.join(":")
}

async fn install(root: &Path, args: &InstallArgs, printer: &Printer) -> Result<Exit, CliError> {
    let job = job_of(root, &args.job)?;
    let scheduler = match args.with {
        Some(scheduler) => scheduler,
        None => usual_scheduler(root).await?,
    };
    let layout = Layout::new(root);
    layout.prepare().map_err(|error| {
        let next = error.next_step();
        CliError::from_error(ErrorKind::Environment, error).hinted(next)
    })?;
    // One job, one scheduler: otherwise every night would be called for twice.
    for other in [Scheduler::Cron, Scheduler::Systemd, Scheduler::Launchd] {
        if other != scheduler {
            take_out(&job.id(), other, root).await?;
        }
    }
    match scheduler {
        Scheduler::Cron => {
            let crontab = crontab(root).await?;
            set_crontab(root, cron::installed(&crontab, &job)).await?;
        }
        Scheduler::Systemd => install_units(&job, root, printer).await?,
        Scheduler::Launchd => install_agent(&job, root).await?,
    }
    // What lies before its installation was not missed.
    note_started(&layout, &job.name, clock::wall())?;
    let next = job.slot.next(&now()).map(|at| instant(at, &TimeZone::system())).unwrap_or_default();
    printer.say(&format!("installed with {}: {} ({next} is the next one)", word(scheduler), job.slot));
    printer.say("autopilot doctor --as-scheduled    (says whether it will work there)");
    let environment = [(OsString::from("PATH"), OsString::from(&job.path))];
    let cli = options(&job.args)?;
    let settings = config::load(&config::flags(&cli)?, &config::Files::locate(root))?.settings;
    if let Err(error) = start::find_program(&settings.claude.bin, &environment) {
        printer.warn(&format!("the job will not find claude: {error}"));
    }
    Ok(Exit::Planned)
}

fn word(scheduler: Scheduler) -> &'static str {
    match scheduler {
        Scheduler::Cron => "cron",
        Scheduler::Systemd => "systemd",
        Scheduler::Launchd => "launchd",
    }
}

async fn usual_scheduler(root: &Path) -> Result<Scheduler, CliError> {
    if cfg!(target_os = "macos") {
        return Ok(Scheduler::Launchd);
    }
    let manager = tool("systemctl", &["--user", "show-environment"], None, root).await;
    if manager.is_ok_and(|captured| captured.exit.success()) {
        return Ok(Scheduler::Systemd);
    }
    match crontab(root).await {
        Ok(_) => Ok(Scheduler::Cron),
        Err(_) => Err(CliError::environment("neither systemd nor cron can be used by this user here").hinted(
            "`autopilot schedule show --as cron` prints what another scheduler may start; --as github and --as \
             kubernetes print manifests",
        )),
    }
}

async fn tool(
    program: &str,
    args: &[&str],
    input: Option<String>,
    root: &Path,
) -> Result<Captured, CaptureError> {
    let mut spec = CaptureSpec::new(program, root);
    spec.args = args.iter().map(OsString::from).collect();
    spec.stdin = input.map(String::into_bytes);
    capture(&spec).await
}

/// [`tool`], with a failure as an error.
async fn must(
    program: &str,
    args: &[&str],
    input: Option<String>,
    root: &Path,
) -> Result<Captured, CliError> {
    let failed = || CliError::environment(format!("`{program} {}` failed", args.join(" ")));
    let captured = tool(program, args, input, root).await.map_err(|error| failed().caused_by(error))?;
    if captured.exit.success() {
        return Ok(captured);
    }
    let words = String::from_utf8_lossy(&captured.stderr).trim().to_owned();
    Err(failed().caused_by(std::io::Error::other(format!("{}: {words}", captured.exit))))
}

/// This user's crontab. That there is none is one answer; that it cannot be read is another, and must not make an
/// empty one of it.
async fn crontab(root: &Path) -> Result<String, CliError> {
    let captured = tool("crontab", &["-l"], None, root)
        .await
        .map_err(|error| CliError::environment("the crontab cannot be read").caused_by(error))?;
    if captured.exit.success() && !captured.truncated {
        return String::from_utf8(captured.stdout).map_err(|error| {
            CliError::environment("the crontab is not UTF-8, and is left alone").caused_by(error)
        });
    }
    let words = String::from_utf8_lossy(&captured.stderr).into_owned();
    if !captured.truncated && words.to_lowercase().contains("no crontab for") {
        return Ok(String::new());
    }
    Err(CliError::environment(format!("the crontab cannot be read: {}", words.trim())))
}

async fn set_crontab(root: &Path, text: String) -> Result<(), CliError> {
    must("crontab", &["-"], Some(text), root).await.map(drop)
}

fn units_folder() -> Result<PathBuf, CliError> {
    etcetera::choose_base_strategy()
        .map(|dirs| dirs.config_dir().join("systemd/user"))
        .map_err(|error| CliError::environment("there is no home folder").caused_by(error))
}

fn agents_folder() -> Result<PathBuf, CliError> {
    etcetera::choose_base_strategy()
        .map(|dirs| dirs.home_dir().join("Library/LaunchAgents"))
        .map_err(|error| CliError::environment("there is no home folder").caused_by(error))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), CliError> {
    std::fs::create_dir_all(folder).map_err(|error| {
        CliError::environment(format!("cannot create {}", folder.display())).caused_by(error)
    })?;
    // A prompt may be in it.
    atomic::replace(&folder.join(name), text.as_bytes(), atomic::PRIVATE_FILE)
        .map_err(|error| CliError::from_error(ErrorKind::Environment, error))
}

async fn install_units(job: &Job, root: &Path, printer: &Printer) -> Result<(), CliError> {
    let folder = units_folder()?;
    let (service, timer) = systemd::names(&job.id());
    write(&folder, &service, &systemd::service(job))?;
    write(&folder, &timer, &systemd::timer(job))?;
    must("systemctl", &["--user", "daemon-reload"], None, root).await?;
    // `enable --now` alone leaves a timer that runs as it was.
    must("systemctl", &["--user", "enable", &timer], None, root).await?;
    must("systemctl", &["--user", "restart", &timer], None, root).await?;
    let lingers = tool("loginctl", &["show-user", "--property=Linger", "--value"], None, root).await;
    if lingers.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim() == "no") {
        printer.warn(
            "timers of this user run only while they are logged in: `loginctl enable-linger` changes that",
        );
    }
    Ok(())
}

async fn install_agent(job: &Job, root: &Path) -> Result<(), CliError> {
    let folder = agents_folder()?;
    let label = launchd::label(&job.id());
    let name = format!("{label}.plist");
    write(&folder, &name, &launchd::plist(job))?;
    let domain = format!("gui/{}", rustix::process::getuid().as_raw());
    // Not loaded yet is no failure.
    drop(tool("launchctl", &["bootout", &format!("{domain}/{label}")], None, root).await);
    let path = folder.join(name).display().to_string();
    must("launchctl", &["bootstrap", &domain, &path], None, root).await.map(drop)
}

/// Takes a job out of a scheduler, if it is there.
async fn take_out(id: &str, scheduler: Scheduler, root: &Path) -> Result<bool, CliError> {
    match scheduler {
        Scheduler::Cron => {
            let Ok(crontab) = crontab(root).await else { return Ok(false) };
            let (text, there) = cron::removed(&crontab, id);
            if there {
                set_crontab(root, text).await?;
            }
            Ok(there)
        }
        Scheduler::Systemd => {
            let (service, timer) = systemd::names(id);
            let folder = units_folder()?;
            if !folder.join(&timer).exists() && !folder.join(&service).exists() {
                return Ok(false);
            }
            must("systemctl", &["--user", "disable", "--now", &timer], None, root).await?;
            for name in [timer, service] {
                remove_file(&folder.join(name))?;
            }
            must("systemctl", &["--user", "daemon-reload"], None, root).await?;
            Ok(true)
        }
        Scheduler::Launchd => {
            let label = launchd::label(id);
            let path = agents_folder()?.join(format!("{label}.plist"));
            if !path.exists() {
                return Ok(false);
            }
            let target = format!("gui/{}/{label}", rustix::process::getuid().as_raw());
            // Not loaded is as good.
            drop(tool("launchctl", &["bootout", &target], None, root).await);
            remove_file(&path)?;
            Ok(true)
        }
    }
}

fn remove_file(path: &Path) -> Result<(), CliError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CliError::environment(format!("cannot remove {}", path.display())).caused_by(error))
        }
        _ => Ok(()),
    }
}

async fn remove(root: &Path, args: &RemoveArgs, printer: &Printer) -> Result<Exit, CliError> {
    let installed = installed(root).await;
    let Some((_, job)) = installed.iter().find(|(_, job)| job.name == args.name) else {
        let names: Vec<&str> = installed.iter().map(|(_, job)| job.name.as_str()).collect();
        let error = CliError::usage(format!("no schedule `{}` is installed for this repository", args.name));
        return Err(if names.is_empty() {
            error
        } else {
            error.hinted(format!("there is {}", names.join(", ")))
        });
    };
    for scheduler in [Scheduler::Cron, Scheduler::Systemd, Scheduler::Launchd] {
        if take_out(&job.id(), scheduler, root).await? {
            printer.say(&format!("removed from {}: {}", word(scheduler), job.slot));
        }
    }
    Ok(Exit::Planned)
}

/// The jobs of a repository in the schedulers of this machine.
pub(super) async fn installed(root: &Path) -> Vec<(Scheduler, Job)> {
    let mut found = Vec::new();
    if let Ok(crontab) = crontab(root).await {
        found.extend(Job::in_text(&crontab).into_iter().map(|job| (Scheduler::Cron, job)));
    }
    let texts = |folder: Result<PathBuf, CliError>, ending: &str| {
        let entries = folder.ok().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten();
        let paths = entries.flatten().map(|entry| entry.path());
        let wanted = paths.filter(|path| {
            path.file_name()
                .and_then(OsStr::to_str)
                .is_some_and(|name| name.starts_with("autopilot") && name.ends_with(ending))
        });
        wanted.filter_map(|path| std::fs::read_to_string(path).ok()).collect::<Vec<String>>()
    };
    for text in texts(units_folder(), ".timer") {
        found.extend(Job::in_text(&text).into_iter().map(|job| (Scheduler::Systemd, job)));
    }
    for text in texts(agents_folder(), ".plist") {
        found.extend(launchd::jobs(&text).into_iter().map(|job| (Scheduler::Launchd, job)));
    }
    found.retain(|(_, job)| job.directory == root);
    found
}

#[derive(Debug, Serialize)]
struct Shown {
    scheduler: &'static str,
    #[serde(flatten)]
    job: Job,
    next: Option<Timestamp>,
    last_started: Option<Timestamp>,
}

async fn show(root: &Path, json: bool, printer: &Printer) -> Result<Exit, CliError> {
    let started = read_started(&Layout::new(root));
    let shown: Vec<Shown> = installed(root)
        .await
        .into_iter()
        .map(|(scheduler, job)| Shown {
            scheduler: word(scheduler),
            next: job.slot.next(&now()),
            last_started: started.slots.get(&job.name).copied(),
            job,
        })
        .collect();
    if json {
        let text = serde_json::to_string(&shown).map_err(|error| {
            CliError::unexpected("the schedules cannot be written as JSON").caused_by(error)
        })?;
        printer.data(&text)?;
        return Ok(Exit::Planned);
    }
    let zone = TimeZone::system();
    let mut text = String::new();
    for Shown { scheduler, job, next, last_started } in &shown {
        // Writing to a string cannot fail.
        _ = writeln!(text, "{}: {} by {scheduler}", job.name, job.slot);
        _ = writeln!(text, "  run          autopilot {}", job.args.join(" "));
        let at = |at: &Option<Timestamp>| at.map_or_else(|| "unknown".to_owned(), |at| instant(at, &zone));
        _ = writeln!(text, "  next         {}", at(next));
        _ = writeln!(text, "  last slot    {}", at(last_started));
        _ = writeln!(text, "  caught up    within {} h of a slot that was missed", job.catch_up_hours);
        _ = writeln!(text, "  PATH         {}", job.path);
    }
    if shown.is_empty() {
        text.push_str("no schedule is installed for this repository (`autopilot schedule install --help`)\n");
    }
    printer.data(&text)?;
    Ok(Exit::Planned)
}

fn read_started(layout: &Layout) -> Started {
    let bytes = std::fs::read(layout.schedule()).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn note_started(layout: &Layout, name: &str, slot: Timestamp) -> Result<(), CliError> {
    let mut started = read_started(layout);
    started.slots.insert(name.to_owned(), slot);
    let bytes = serde_json::to_vec(&started).unwrap_or_default();
    atomic::replace(&layout.schedule(), &bytes, atomic::PRIVATE_FILE)
        .map_err(|error| CliError::from_error(ErrorKind::Environment, error))
}

/// Looks, and takes the slot, in one step: two schedulers may call at the same moment.
fn take_slot(layout: &Layout, args: &JobArgs, slot: &Slot) -> Result<Due, CliError> {
    layout.prepare().map_err(|error| CliError::from_error(ErrorKind::Environment, error))?;
    let lock = layout.schedule().with_extension("lock");
    atomic::with_lock(&lock, LOCK_WAIT, || {
        let last = read_started(layout).slots.get(&args.name).copied();
        let found = due(slot, &now(), last, SignedDuration::from_hours(i64::from(args.catch_up)));
        if let Due::Now { slot, .. } = &found {
            note_started(layout, &args.name, *slot)?;
        }
        Ok(found)
    })
    .map_err(|error| CliError::from_error(ErrorKind::Environment, error))?
}

async fn run_if_due(root: &Path, args: &JobArgs, json: bool, printer: &Printer) -> Result<Exit, CliError> {
    let slot = Slot::parse(&args.at, &args.days).map_err(CliError::usage)?;
    let cli = options(&args.args)?;
    let flags = config::flags(&cli)?;
    let layout = Layout::new(root);
    match take_slot(&layout, args, &slot)? {
        Due::No { why, .. } => {
            printer.detail(&format!("not due: {why}"));
            return Ok(Exit::Planned);
        }
        Due::Now { slot, missed } => {
            begin_log_anew(&layout);
            if missed {
                let at = instant(slot, &TimeZone::system());
                printer.say(&format!("catching up on the slot of {at}, which was missed"));
            }
        }
    }
    let line = std::iter::once("autopilot".to_owned()).chain(args.args.iter().cloned());
    let request = run::Request {
        directory: root.to_owned(),
        flags,
        argv: line.collect(),
        events: config::wants_events(&cli),
        json: json || cli.global.json,
        environment: std::env::vars_os().collect(),
        continued: None,
    };
    Box::pin(run::run(request, printer)).await
}

/// Whoever writes to it appends, so what comes now stands at its beginning.
fn begin_log_anew(layout: &Layout) {
    let path = layout.schedule_log();
    if path.metadata().is_ok_and(|log| log.len() > MAX_LOG)
        && let Err(error) = std::fs::OpenOptions::new().write(true).open(&path).and_then(|log| log.set_len(0))
    {
        tracing::warn!(%error, "schedule.log");
    }
}
