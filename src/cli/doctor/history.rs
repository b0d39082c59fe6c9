//! Who else is here, how the last run came out, and whether its notifications arrived.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use super::{Check, ok, problem, warning};
use crate::cli::notify::channels as configured;
use crate::cli::runs::{self, Depth};
use crate::cli::start;
use crate::core::published::peer_words;
use crate::driver;
use crate::notify::Channel;
use crate::probe::Probe;
use crate::report::RunOutcome;
use crate::settings::Settings;
use crate::state::layout::Layout;
use crate::state::lock::Peek;

/// Lines of a log of notifications that are looked at.
const MAX_LOG: u64 = 1 << 20;

/// Another run, a dead one, and Claude sessions of others in this tree.
pub(super) fn others(root: &Path) -> Vec<Check> {
    let layout = Layout::new(root);
    let mut checks = Vec::new();
    match runs::peek(&layout) {
        Ok(Some(Peek { held: true, holder })) => {
            let who = holder.map(|holder| format!("run {} since {}", holder.run_id, holder.started_at));
            checks.push(warning(
                "other runs",
                format!("{} goes on here", who.as_deref().unwrap_or("a run that is just starting")),
                "a second one is refused (exit code 5) until it has ended: autopilot status",
            ));
        }
        Ok(Some(Peek { holder: Some(holder), .. })) => checks.push(warning(
            "other runs",
            format!("run {} died without a word", holder.run_id),
            "autopilot resume goes on with it; any next run puts it in order",
        )),
        Ok(_) => checks.push(ok("other runs", "none here")),
        Err(error) => checks.push(super::of_error("other runs", &error)),
    }
    let peers = driver::sessions_at_work(&Probe::new(), root);
    if !peers.is_empty() {
        checks.push(warning(
            "peers",
            format!("{} at work in this tree", peer_words(&peers)),
            "a run waits for them (--peer-grace), then ends with exit code 5; end them, or use a worktree",
        ));
    }
    checks
}

/// How the last run came out.
pub(super) fn last_run(layout: &Layout) -> Vec<Check> {
    let Some(run_id) = runs::ids(layout).ok().and_then(|mut ids| ids.pop()) else { return Vec::new() };
    let Ok(summary) = runs::read(layout, &run_id, Depth::Outline) else { return Vec::new() };
    let words = format!("{run_id}: {}", summary.headline());
    let next = summary.next_steps().first().cloned().unwrap_or_else(|| format!("autopilot report {run_id}"));
    let mut checks = vec![match summary.outcome {
        RunOutcome::Planned | RunOutcome::Aborted => ok("last run", words),
        // The same would happen again.
        RunOutcome::Stopped if matches!(summary.exit_code, Some(20 | 21 | 24)) => {
            problem("last run", words, next)
        }
        RunOutcome::Stopped | RunOutcome::Manual | RunOutcome::Unfinished => warning("last run", words, next),
    }];
    checks.extend(undelivered(layout, &run_id));
    checks
}

fn undelivered(layout: &Layout, run_id: &str) -> Option<Check> {
    let path = layout.run(run_id)?.notifications();
    let file = crate::state::bounded::read(&path, MAX_LOG).ok()??;
    let failed: Vec<Value> = file
        .bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter(|line| line["outcome"] == "failed")
        .collect();
    let last = failed.last()?;
    let word = |name: &str| last[name].as_str().unwrap_or("?").to_owned();
    Some(warning(
        "notifications",
        format!("{} of the last run by {} failed: {}", word("event"), word("channel"), word("detail")),
        "autopilot notify test",
    ))
}

/// Whether the programs that carry notifications are there.
pub(super) fn channels(settings: &Settings, environment: &[(OsString, OsString)]) -> Option<Check> {
    let channels = configured(settings);
    if channels.is_empty() {
        return None;
    }
    let missing: Vec<String> = channels
        .iter()
        .filter(|channel| {
            let program = match channel {
                Channel::Webhook(_) => "curl",
                Channel::Desktop if cfg!(target_os = "macos") => "osascript",
                Channel::Desktop => "notify-send",
                Channel::Mail(_)
                    if ["/usr/sbin/sendmail", "/usr/lib/sendmail"]
                        .iter()
                        .any(|path| Path::new(path).exists()) =>
                {
                    return false;
                }
                Channel::Mail(_) => "sendmail",
                Channel::Command(_) => return false,
            };
            start::find_program(Path::new(program), environment).is_err()
        })
        .map(ToString::to_string)
        .collect();
    let names: Vec<String> = channels.iter().map(ToString::to_string).collect();
    Some(if missing.is_empty() {
        ok("channels", format!("{} (`autopilot notify test` tries them)", names.join(", ")))
    } else {
        warning(
            "channels",
            format!("no program for {}", missing.join(", ")),
            "install curl, notify-send or sendmail, whichever it needs",
        )
    })
}
