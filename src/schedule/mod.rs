//! Runs that begin by themselves: what a scheduler of the system is told, and when a run is due.
//!
//! # Theory of operation
//!
//! A [`Job`] is a repository, a [`Slot`] (time of day, days) and the options of the run. Each scheduler gets it as
//! text, made by a pure function: a block of a crontab ([`cron`]), a service and a timer ([`systemd`]), a property
//! list ([`launchd`]), manifests for others ([`manifests`]). In each of these a comment holds the whole job as JSON
//! ([`Job::marker`]), so that what is installed is found and shown without guessing.
//!
//! All of them start `autopilot schedule run`, which asks [`due`] before it starts a run. So a slot is started once,
//! whoever calls how often, and a slot that was missed (the machine was off, asleep, or a scheduler caught up in its
//! own way) is caught up once, as long as that makes sense.
//!
//! # Pitfalls
//!
//! - A scheduler's environment is next to empty (field-reports K05): `PATH` is written into the job.
//! - `%` is a newline in a crontab, and a specifier in a unit.
//! - Nothing of a job may hold a control character: none of the formats can carry it.

pub mod cron;
pub mod launchd;
pub mod manifests;
pub mod slot;
pub mod systemd;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp, ZonedDateTime};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use slot::Slot;

/// In front of the JSON in a comment.
const MARKER: &str = "autopilot-schedule: ";

/// How late a scheduler may be without that being a miss.
const PUNCTUAL: SignedDuration = SignedDuration::from_mins(5);

/// A run that begins by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Version of this document.
    pub v: u32,
    /// Tells several jobs of one repository apart.
    pub name: String,
    /// Top level of the repository.
    pub directory: PathBuf,
    /// When.
    #[serde(with = "slot::as_text")]
    pub slot: Slot,
    /// Hours after a slot in which it is still caught up; 0 = never.
    pub catch_up_hours: u32,
    /// Options of the run.
    pub args: Vec<String>,
    /// This program.
    pub program: PathBuf,
    /// `PATH` of the job.
    pub path: String,
}

/// Why a job cannot be written down.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum JobError {
    /// A newline or something like it.
    #[error("{what} has a control character in it, which no scheduler can carry")]
    Control {
        /// What.
        what: String,
    },
    /// Not UTF-8.
    #[error("{} is not UTF-8, which no scheduler can carry", path.display())]
    NotText {
        /// Which path.
        path: PathBuf,
    },
}

impl Job {
    /// Refuses what a line of text cannot carry.
    ///
    /// # Errors
    /// Which part it is.
    pub fn check(&self) -> Result<(), JobError> {
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| JobError::NotText { path: path.to_owned() })
        };
        let parts = [self.name.clone(), text(&self.directory)?, text(&self.program)?, self.path.clone()];
        match parts.iter().chain(&self.args).find(|part| part.chars().any(char::is_control)) {
            Some(part) => Err(JobError::Control { what: format!("{part:?}") }),
            None => Ok(()),
        }
    }

    /// A name that is this job's alone on this machine: the path of the repository, spelt with letters, digits, `-`
    /// for `/` and `_xx` for everything else, and the name.
    #[must_use]
    pub fn id(&self) -> String {
        let path = self.directory.to_string_lossy();
        let mut id = spelt(path.trim_matches('/'));
        if self.name != DEFAULT_NAME {
            id.push('.');
            id.push_str(&spelt(&self.name));
        }
        id
    }

    /// What the scheduler starts, in words.
    #[must_use]
    pub fn command(&self) -> Vec<String> {
        let mut words = vec![
            self.program.to_string_lossy().into_owned(),
            "-C".to_owned(),
            self.directory.to_string_lossy().into_owned(),
            "schedule".to_owned(),
            "run".to_owned(),
            format!("--at={}", self.slot.time_text()),
            format!("--days={}", self.slot.days_text()),
            format!("--catch-up={}", self.catch_up_hours),
        ];
        if self.name != DEFAULT_NAME {
            words.push(format!("--name={}", self.name));
        }
        words.push("--".to_owned());
        words.extend(self.args.iter().cloned());
        words
    }

    /// The comment that holds all of it, on one line, without the sign of a comment.
    #[must_use]
    pub fn marker(&self) -> String {
        // Checked to be text: it always has a JSON form.
        format!("{MARKER}{}", serde_json::to_string(self).unwrap_or_default())
    }

    /// The jobs whose markers stand in a text.
    #[must_use]
    pub fn in_text(text: &str) -> Vec<Job> {
        text.lines()
            .filter_map(|line| line.split_once(MARKER))
            .filter_map(|(_, json)| serde_json::from_str(json.trim_end_matches("-->").trim()).ok())
            .collect()
    }
}

/// Name of a job that was given none.
pub const DEFAULT_NAME: &str = "night";

fn spelt(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'/' => out.push('-'),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            // Writing to a string cannot fail.
            byte => _ = write!(out, "_{byte:02x}"),
        }
    }
    out
}

/// A word as a POSIX shell reads it back.
fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// When which job was last started: `schedule.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The slot of its last start, or the time of its installation, by name.
    #[serde(default)]
    pub slots: BTreeMap<String, Timestamp>,
}

/// Whether a run is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// Start it, for this slot.
    Now {
        /// The instant of the slot.
        slot: Timestamp,
        /// It should have begun long ago.
        missed: bool,
    },
    /// Not now.
    No {
        /// Why, in words.
        why: &'static str,
        /// The slot to come.
        next: Option<Timestamp>,
    },
}

/// Whether the latest slot up to now has still to be started.
///
/// `last`: the slot that was started last, or when the job was installed. Without it nothing is known of the past,
/// and only a slot of this moment is started.
#[must_use]
pub fn due(slot: &Slot, now: &ZonedDateTime, last: Option<Timestamp>, catch_up: SignedDuration) -> Due {
    let next = slot.next(now);
    let Some(latest) = slot.latest(now) else { return Due::No { why: "there was no slot yet", next } };
    if last.is_some_and(|last| last >= latest) {
        return Due::No { why: "this slot was started already", next };
    }
    let late = now.timestamp().duration_since(latest);
    let missed = late > PUNCTUAL;
    if missed && last.is_none() {
        return Due::No { why: "nothing is known of earlier slots, so none is caught up", next };
    }
    if missed && late > catch_up {
        return Due::No { why: "it is too late for the slot that was missed", next };
    }
    Due::Now { slot: latest, missed }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    /// Full of what has a meaning somewhere.
    pub(crate) fn nasty_job() -> Job {
        Job {
            v: 1,
            name: DEFAULT_NAME.to_owned(),
            directory: "/srv/my app/50%".into(),
            slot: "01:17 mon-fri".parse().unwrap(),
            catch_up_hours: 12,
            args: ["--max-hours=5", "--prompt", "it's $HOME & \"that\" 100% <now>", "--verify=make \\ test"]
                .map(str::to_owned)
                .to_vec(),
            program: "/opt/auto pilot/bin/autopilot".into(),
            path: "/opt/bin:/usr/bin:/bin".to_owned(),
        }
    }

    #[test]
    fn a_job_is_found_again_in_its_marker() {
        let job = nasty_job();
        let text =
            format!("x\n# {}\n<!-- {} -->\n# autopilot-schedule: {{broken\n", job.marker(), job.marker());
        assert_eq!(Job::in_text(&text), [job.clone(), job.clone()]);
        assert_eq!(job.id(), "srv-my_20app-50_25");
        assert_eq!(Job { name: "noon".to_owned(), ..job }.id(), "srv-my_20app-50_25.noon");
    }

    #[test]
    fn what_no_line_can_carry_is_refused() {
        let job = nasty_job();
        assert_eq!(job.check(), Ok(()));
        let newline = Job { args: vec!["--prompt=a\nb".to_owned()], ..job.clone() };
        assert!(matches!(newline.check(), Err(JobError::Control { .. })));
        let path = PathBuf::from(std::ffi::OsString::from_vec(vec![b'/', 0xff]));
        assert!(matches!(Job { directory: path, ..job }.check(), Err(JobError::NotText { .. })));
    }

    #[test]
    fn a_slot_is_started_once_and_caught_up_once() {
        let slot: Slot = "01:17 daily".parse().unwrap();
        let hours = SignedDuration::from_hours;
        let at = |text: &str| -> ZonedDateTime { format!("{text}[UTC]").parse().unwrap() };
        let stamp = |text: &str| -> Timestamp { text.parse().unwrap() };
        let today = stamp("2026-12-01T01:17:00Z");
        let yesterday = stamp("2026-11-30T01:17:00Z");
        let start = |missed| Due::Now { slot: today, missed };
        let no = |why, next: &str| Due::No { why, next: Some(stamp(next)) };
        for (now, last, expected) in [
            ("2026-12-01T01:17:00Z", Some(yesterday), start(false)),
            ("2026-12-01T01:17:40Z", None, start(false)),
            (
                "2026-12-01T01:16:59Z",
                Some(yesterday),
                no("this slot was started already", "2026-12-01T01:17:00Z"),
            ),
            (
                "2026-12-01T01:17:30Z",
                Some(today),
                no("this slot was started already", "2026-12-02T01:17:00Z"),
            ),
            // The machine was off at night.
            ("2026-12-01T08:00:00Z", Some(yesterday), start(true)),
            ("2026-12-01T08:00:00Z", Some(stamp("2026-11-20T01:17:00Z")), start(true)),
            ("2026-12-01T13:17:00Z", Some(yesterday), start(true)),
            (
                "2026-12-01T13:17:01Z",
                Some(yesterday),
                no("it is too late for the slot that was missed", "2026-12-02T01:17:00Z"),
            ),
            (
                "2026-12-01T08:00:00Z",
                None,
                no("nothing is known of earlier slots, so none is caught up", "2026-12-02T01:17:00Z"),
            ),
            // Installed at noon: last night is no miss.
            (
                "2026-12-01T12:20:00Z",
                Some(stamp("2026-12-01T12:00:00Z")),
                no("this slot was started already", "2026-12-02T01:17:00Z"),
            ),
        ] {
            assert_eq!(due(&slot, &at(now), last, hours(12)), expected, "{now} {last:?}");
        }
        let never = due(&slot, &at("2026-12-01T08:00:00Z"), Some(yesterday), hours(0));
        assert!(matches!(never, Due::No { .. }), "{never:?}");
    }
}
