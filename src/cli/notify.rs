//! From settings to a notifier, and `autopilot notify test`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::core::notice::NoticeKind;
use crate::driver::clock;
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::git::Repo;
use crate::notify::policy::Rules;
use crate::notify::{Channel, Notice, Notifier, Outcome, Setup, Source};
use crate::settings::Settings;
use crate::settings::layer::Layer;
use crate::state::layout::{Layout, RunDir};
use crate::ui::printer::{Printer, Style};

use super::args::NotifyTestArgs;
use super::{config, start};

/// Where the settings want messages.
pub(super) fn channels(settings: &Settings) -> Vec<Channel> {
    let wanted = &settings.notifications;
    let mut channels = Vec::new();
    channels.extend(wanted.command.clone().map(Channel::Command));
    channels.extend(wanted.webhooks.iter().cloned().map(Channel::Webhook));
    channels.extend(wanted.desktop.then_some(Channel::Desktop));
    channels.extend(wanted.mail.clone().map(Channel::Mail));
    channels
}

/// Who speaks.
pub(super) fn source(root: &Path, run_id: Option<&str>) -> Source {
    Source {
        run_id: run_id.map(str::to_owned),
        repository: root.display().to_string(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}

/// A notifier with what the settings want, at work.
pub(super) fn notifier(
    settings: &Settings,
    layout: &Layout,
    run_dir: Option<&RunDir>,
    environment: &[(OsString, OsString)],
) -> Notifier {
    let wanted = &settings.notifications;
    Notifier::start(Setup {
        channels: channels(settings),
        rules: Rules {
            on: wanted.on.clone(),
            quiet_hours: wanted.quiet_hours,
            urgent_always: wanted.urgent_always,
            cooldown: wanted.cooldown,
        },
        root: layout.root().to_owned(),
        environment: environment.to_vec(),
        memory: layout.notified(),
        log: run_dir.map(RunDir::notifications),
        zone: TimeZone::system(),
        clock: clock::wall,
    })
}

/// Waits for what is under way, and says what failed. Nothing of it changes how the run ended.
pub(super) async fn finish(notifier: Notifier, printer: &Printer) {
    for Outcome { event, channel, detail, .. } in notifier.finish().await {
        let why = detail.unwrap_or_default();
        printer.warn(&format!("the notification `{event}` was not delivered by {channel}: {why}"));
    }
}

/// A run that could not begin is the one nobody would miss until the morning.
///
/// Not told: what the person who typed it sees at once (usage), and that another run is at work, which is what a
/// job of cron that comes too often finds.
pub(super) async fn tell_failure(
    settings: &Settings,
    repo: &Repo,
    environment: &[(OsString, OsString)],
    error: &CliError,
    printer: &Printer,
) {
    if matches!(error.kind(), ErrorKind::Usage | ErrorKind::AlreadyRunning) || channels(settings).is_empty() {
        return;
    }
    let notifier = notifier(settings, &Layout::new(&repo.root), None, environment);
    notifier.tell(Notice::of_failure(
        &error.to_string(),
        error.hints(),
        error.exit(),
        clock::wall(),
        &source(&repo.root, None),
    ));
    finish(notifier, printer).await;
}

/// `autopilot notify test`.
pub(super) async fn test(
    directory: &Path,
    what: &NotifyTestArgs,
    flags: &Layer,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let settings = config::load(flags, &config::Files::locate(&repo.root))?.settings;
    let kind: NoticeKind = what.event.parse().map_err(CliError::usage)?;
    let channels = channels(&settings);
    if channels.is_empty() {
        return Err(CliError::usage("no notifications are configured here").hinted(
            "set notify-command, notify-webhook, notify-desktop or notify-mail (`autopilot config init` has \
             examples)",
        ));
    }
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let notice = Notice::test(kind, clock::wall(), &source(&repo.root, None));
    let mut results = Vec::new();
    for channel in channels {
        printer.detail(&format!("trying {channel}"));
        let began = clock::now();
        let result = channel.deliver(&notice, &repo.root, &environment).await;
        let milliseconds = clock::now().since(began).as_millis();
        results.push(Tried { channel: channel.to_string(), milliseconds, error: result.err() });
    }
    let failed = results.iter().any(|tried| tried.error.is_some());
    if json {
        let text = serde_json::to_string(&results).map_err(|error| {
            CliError::unexpected("the results cannot be written as JSON").caused_by(error)
        })?;
        printer.data(&text)?;
    } else {
        let mut text = String::new();
        for Tried { channel, milliseconds, error } in &results {
            // Writing to a string cannot fail.
            match error {
                None => {
                    let mark = printer.paint(Style::Good, "delivered");
                    _ = writeln!(text, "{mark} {channel} in {milliseconds} ms");
                }
                Some(why) => {
                    let mark = printer.paint(Style::Bad, "failed   ");
                    _ = writeln!(text, "{mark} {channel}: {why}");
                }
            }
        }
        printer.data(&text)?;
    }
    Ok(if failed { Exit::Environment } else { Exit::Planned })
}

#[derive(Debug, Serialize)]
struct Tried {
    channel: String,
    milliseconds: u128,
    /// `null` = delivered.
    error: Option<String>,
}
