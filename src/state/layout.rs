//! Where everything is.
//!
//! ```text
//! .orchestrator/metrics/autopilot.jsonl     one record a run          shared with upstream
//! .orchestrator/metrics/sessions.jsonl      one record a session      shared with upstream
//! .orchestrator/metrics/learnings.jsonl     what was learned          upstream's, only read
//! .orchestrator/bootstrap.lock              tier of the project       upstream's, only read
//! .orchestrator/autopilot/.gitignore        `*`
//! .orchestrator/autopilot/lock              who runs here             see `lock`
//! .orchestrator/autopilot/handover.json     what the last session left
//! .orchestrator/autopilot/tasks.json        ids of tasks, how often each was carried over
//! .orchestrator/autopilot/inbox-archive.md  what was taken out of the inbox
//! .orchestrator/autopilot/documentation     commit at which documentation was last asked for
//! .orchestrator/autopilot/forge.json        last answers of gh or glab
//! .orchestrator/autopilot/schedule.json     which slot of a schedule was started last
//! .orchestrator/autopilot/schedule.log      what scheduled runs said
//! .orchestrator/autopilot/notified.json     which notification was last delivered when
//! .orchestrator/autopilot/runs/<run id>/    events.jsonl, stream/, report.md, report.html, run.json,
//!                                           notifications.jsonl
//! ```
//!
//! `.orchestrator` and `metrics` belong to upstream too: they are made with the ordinary mode if missing and
//! never changed. What is below `autopilot` is ours alone: folders 0700, files 0600.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::atomic::{PRIVATE_FILE, is_disk_full};
use super::run_id::age_key;

/// Paths of one repository. Cheap to clone; touches nothing until [`Layout::prepare`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

/// Files of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

/// Why the folders could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The file system is mounted read-only.
    ReadOnly,
    /// Permission denied.
    Permission,
    /// A file (or something else that is not a folder) has the name.
    FileInTheWay,
    /// Disk or quota full.
    DiskFull,
    /// The folder of the repository is not there.
    NoRepository,
    /// Something else.
    Other,
}

/// The folders could not be made: what is wrong where, and what to do.
#[derive(Debug, Error)]
#[error("cannot create {}: {source}", path.display())]
pub struct LayoutError {
    /// What was to be created.
    pub path: PathBuf,
    /// What kind of problem it is.
    pub obstacle: Obstacle,
    /// What the system said.
    pub source: io::Error,
}

impl LayoutError {
    /// What a person does about it, one sentence.
    #[must_use]
    pub fn next_step(&self) -> String {
        let path = self.path.display();
        match self.obstacle {
            Obstacle::ReadOnly => {
                format!("the file system of {path} is read-only: remount it writable or use another clone")
            }
            Obstacle::Permission => {
                format!("make the folder above {path} writable for this user")
            }
            Obstacle::FileInTheWay => {
                format!("something that is not a folder is in the way of {path}: move it")
            }
            Obstacle::DiskFull => format!("free some space on the disk (or quota) of {path}"),
            Obstacle::NoRepository => format!("the folder above {path} does not exist: check `-C`"),
            Obstacle::Other => format!("check the disk and the folder of {path}"),
        }
    }

    fn new(path: &Path, source: io::Error) -> LayoutError {
        let obstacle = match source.kind() {
            io::ErrorKind::ReadOnlyFilesystem => Obstacle::ReadOnly,
            io::ErrorKind::PermissionDenied => Obstacle::Permission,
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => Obstacle::FileInTheWay,
            io::ErrorKind::NotFound => Obstacle::NoRepository,
            _ if is_disk_full(&source) => Obstacle::DiskFull,
            _ => Obstacle::Other,
        };
        LayoutError { path: path.to_owned(), obstacle, source }
    }
}

impl Layout {
    /// The layout of the repository (work tree) at `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Layout {
        Layout { root: root.into() }
    }

    /// Top level of the repository.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `.orchestrator`, shared with upstream.
    #[must_use]
    pub fn orchestrator(&self) -> PathBuf {
        self.root.join(".orchestrator")
    }

    /// `.orchestrator/metrics`, shared with upstream.
    #[must_use]
    pub fn metrics(&self) -> PathBuf {
        self.orchestrator().join("metrics")
    }

    /// One record a run.
    #[must_use]
    pub fn autopilot_jsonl(&self) -> PathBuf {
        self.metrics().join("autopilot.jsonl")
    }

    /// One record a session.
    #[must_use]
    pub fn sessions_jsonl(&self) -> PathBuf {
        self.metrics().join("sessions.jsonl")
    }

    /// What sessions learned.
    #[must_use]
    pub fn learnings_jsonl(&self) -> PathBuf {
        self.metrics().join("learnings.jsonl")
    }

    /// How thoroughly the project was set up.
    #[must_use]
    pub fn bootstrap_lock(&self) -> PathBuf {
        self.orchestrator().join("bootstrap.lock")
    }

    /// Lock of the two metric files, beside them so that work trees which share the folder share the lock;
    /// exists only while it is held (see [`super::atomic`]).
    #[must_use]
    pub fn metrics_lock(&self) -> PathBuf {
        self.metrics().join(".autopilot.lock")
    }

    /// `.orchestrator/autopilot`, ours alone.
    #[must_use]
    pub fn autopilot(&self) -> PathBuf {
        self.orchestrator().join("autopilot")
    }

    /// Lock of the repository (see [`super::lock`]).
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.autopilot().join("lock")
    }

    /// What the last session left to the next.
    #[must_use]
    pub fn hand_over(&self) -> PathBuf {
        self.autopilot().join("handover.json")
    }

    /// Ids of the tasks, and how often each was carried over.
    #[must_use]
    pub fn tasks(&self) -> PathBuf {
        self.autopilot().join("tasks.json")
    }

    /// What was taken out of the inbox.
    #[must_use]
    pub fn inbox_archive(&self) -> PathBuf {
        self.autopilot().join("inbox-archive.md")
    }

    /// The commit at which the documentation was last asked for.
    #[must_use]
    pub fn documentation_mark(&self) -> PathBuf {
        self.autopilot().join("documentation")
    }

    /// Which notification was last delivered when.
    #[must_use]
    pub fn notified(&self) -> PathBuf {
        self.autopilot().join("notified.json")
    }

    /// Which slot of a schedule was started last.
    #[must_use]
    pub fn schedule(&self) -> PathBuf {
        self.autopilot().join("schedule.json")
    }

    /// What scheduled runs said.
    #[must_use]
    pub fn schedule_log(&self) -> PathBuf {
        self.autopilot().join("schedule.log")
    }

    /// Last answers of the forge.
    #[must_use]
    pub fn forge_cache(&self) -> PathBuf {
        self.autopilot().join("forge.json")
    }

    /// Folder of all runs.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.autopilot().join("runs")
    }

    /// Files of the run `run_id`, whether it exists or not; `None` when the name cannot be a run id, such
    /// as one that would lead out of the folder of runs.
    #[must_use]
    pub fn run(&self, run_id: &str) -> Option<RunDir> {
        let plain = !run_id.is_empty()
            && !run_id.starts_with('.')
            && run_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        // An id that begins with a dot is possible for an odd branch, but then it also has a date.
        (plain || (age_key(run_id).is_some() && !run_id.contains(['/', '\0'])))
            .then(|| RunDir::new(self.runs().join(run_id)))
    }

    /// Ids of the runs on disk, oldest first; empty when there are none yet.
    pub fn run_ids(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.runs()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut ids = Vec::new();
        for entry in entries {
            if let Ok(name) = entry?.file_name().into_string()
                && let Some(key) = age_key(&name)
            {
                ids.push((key, name));
            }
        }
        ids.sort();
        Ok(ids.into_iter().map(|(_, name)| name).collect())
    }

    /// Creates what is missing. What is there is not touched. Safe to call at any time, by several processes.
    pub fn prepare(&self) -> Result<(), LayoutError> {
        // Not `recursive`: a wrong `-C` must not grow a repository that is not there.
        for (path, mode) in [
            (self.orchestrator(), 0o777),
            (self.metrics(), 0o777),
            (self.autopilot(), 0o700),
            (self.runs(), 0o700),
        ] {
            make_folder(&path, mode)?;
        }
        let ignore = self.autopilot().join(".gitignore");
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(&ignore)
        {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(LayoutError::new(&ignore, error)),
        };
        file.write_all(b"*\n").map_err(|error| LayoutError::new(&ignore, error))
    }
}

fn make_folder(path: &Path, mode: u32) -> Result<(), LayoutError> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(()),
        // On a read-only file system an existing folder answers EROFS, not EEXIST; it may still be there.
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(LayoutError::new(path, error)),
    }
}

impl RunDir {
    pub(super) fn new(path: PathBuf) -> RunDir {
        RunDir { path }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every decision with its inputs.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// Raw lines of each attempt.
    #[must_use]
    pub fn stream(&self) -> PathBuf {
        self.path.join("stream")
    }

    /// Output of `--verify` after the session of an iteration.
    #[must_use]
    pub fn verify_log(&self, iteration: u32) -> PathBuf {
        self.path.join(format!("verify-{iteration}.log"))
    }

    /// The report for people.
    #[must_use]
    pub fn report(&self) -> PathBuf {
        self.path.join("report.md")
    }

    /// The same as a web page.
    #[must_use]
    pub fn report_page(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// What came of each notification, a line each.
    #[must_use]
    pub fn notifications(&self) -> PathBuf {
        self.path.join("notifications.jsonl")
    }

    /// What the run was started with.
    #[must_use]
    pub fn run_json(&self) -> PathBuf {
        self.path.join("run.json")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn makes_what_is_missing_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        fs::create_dir_all(layout.metrics()).unwrap();
        fs::set_permissions(layout.metrics(), Permissions::from_mode(0o775)).unwrap();
        layout.prepare().unwrap();
        layout.prepare().unwrap();
        assert_eq!(mode_of(&layout.metrics()), 0o775);
        assert_eq!(mode_of(&layout.autopilot()), 0o700);
        assert_eq!(mode_of(&layout.runs()), 0o700);
        let ignore = layout.autopilot().join(".gitignore");
        assert_eq!((fs::read_to_string(&ignore).unwrap().as_str(), mode_of(&ignore)), ("*\n", 0o600));
        assert!(!layout.lock().exists() && !layout.autopilot_jsonl().exists());
        assert!(layout.run_ids().unwrap().is_empty());
    }

    #[test]
    fn says_what_is_in_the_way() {
        let check = |build: fn(&Path), obstacle: Obstacle, named: &str| {
            let folder = tempfile::tempdir().unwrap();
            build(folder.path());
            let error = Layout::new(folder.path().join("repo")).prepare().unwrap_err();
            assert_eq!(error.obstacle, obstacle, "{error}");
            assert!(error.to_string().contains(named), "{error}");
            assert!(error.next_step().contains(named), "{}", error.next_step());
        };
        check(|_| {}, Obstacle::NoRepository, "repo/.orchestrator");
        check(
            |folder| {
                fs::create_dir(folder.join("repo")).unwrap();
                drop(File::create(folder.join("repo/.orchestrator")).unwrap());
            },
            Obstacle::FileInTheWay,
            "repo/.orchestrator",
        );
        check(
            |folder| {
                fs::create_dir_all(folder.join("repo/.orchestrator")).unwrap();
                drop(File::create(folder.join("repo/.orchestrator/metrics")).unwrap());
            },
            Obstacle::FileInTheWay,
            "repo/.orchestrator/metrics",
        );
    }

    #[test]
    fn kinds_of_errors_have_their_next_step() {
        for (number, obstacle, words) in [
            (rustix::io::Errno::ROFS, Obstacle::ReadOnly, "read-only"),
            (rustix::io::Errno::ACCESS, Obstacle::Permission, "writable"),
            (rustix::io::Errno::NOSPC, Obstacle::DiskFull, "free some space"),
            (rustix::io::Errno::DQUOT, Obstacle::DiskFull, "quota"),
            (rustix::io::Errno::IO, Obstacle::Other, "check"),
        ] {
            let error = LayoutError::new(Path::new("/x/y"), number.into());
            assert_eq!(error.obstacle, obstacle);
            assert!(error.next_step().contains(words) && error.next_step().contains("/x/y"));
        }
    }

    #[test]
    fn a_run_id_never_leads_out() {
        let layout = Layout::new("/r");
        for no in ["", ".", "..", "a/b", "../x", "/etc", ".hidden", "a\0", "../m-2026-04-25-0842-autopilot"] {
            assert_eq!(layout.run(no), None, "{no}");
        }
        for yes in ["main-2026-04-25-0842-autopilot-2", "..-x-2026-04-25-0842-autopilot", "x"] {
            let run = layout.run(yes).unwrap();
            assert_eq!(
                run.events(),
                Path::new("/r/.orchestrator/autopilot/runs").join(yes).join("events.jsonl")
            );
        }
    }

    #[test]
    fn runs_are_listed_by_age() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        layout.prepare().unwrap();
        for id in ["b-2026-01-02-0000-autopilot", "z-2026-01-01-0000-autopilot", "not-a-run"] {
            fs::create_dir(layout.runs().join(id)).unwrap();
        }
        assert_eq!(layout.run_ids().unwrap(), ["z-2026-01-01-0000-autopilot", "b-2026-01-02-0000-autopilot"]);
    }
}
