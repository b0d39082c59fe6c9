//! One run per repository, and the trace of a run that died.
//!
//! # How
//!
//! The lock is an advisory lock (`flock`) on one file, so the kernel lets go of it whatever kills the
//! process; a recorded process id decides nothing (a live lock was once stolen because the recorded pid was
//! dead, upstream-formats §15.1). The *content* of the file says who holds it, for people and for the next
//! run: it is written after the lock is taken and cleared by [`RunLock::release`]. Content without a lock
//! is therefore the trace of a run that died, and names the cookie by which its orphans are found.
//!
//! # Invariants
//!
//! - The file is written in place and never replaced or removed by us. If somebody else removed it while
//!   we waited (`git clean -fdx`), the lock we hold is on a dead inode; that is checked after locking, and
//!   [`RunLock::reassert`] checks again while the run goes on.
//! - What a dead run left to do is not forgotten by a second death: holders stay in the file, behind
//!   the new one, until [`RunLock::settled`] says that they were dealt with.
//!   Nor by a death while that is written down: what is there stays until the new content, a line of its
//!   own behind it, is on the disk. The last line that can be read counts.
//! - Content that cannot be read never blocks a run; it is reported as damaged.
//! - The descriptor is close-on-exec: a child that outlives us does not keep the lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::process::{crash_point, crash_within};

use super::atomic::{FileError, PRIVATE_FILE, names_file};

/// More than this in the file is not ours; it is not read.
const MAX_CONTENT: u64 = 64 * 1024;

/// A `status` looks at the lock by taking it for an instant: so long we insist before we call it held.
const INSIST: [Duration; 4] = [
    Duration::from_millis(2),
    Duration::from_millis(8),
    Duration::from_millis(20),
    Duration::from_millis(50),
];

/// Who holds a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Id of the run.
    pub run_id: String,
    /// Process id, for people. Not a proof of life.
    pub pid: u32,
    /// Start time of that process in the unit of the system's process table, so that a re-used pid is
    /// recognised; 0 when unknown.
    #[serde(default)]
    pub pid_start_time: u64,
    /// Value of `AUTOPILOT_RUN_ID`-like marks in the environment of everything the run started.
    pub cookie: String,
    /// Name of the machine.
    #[serde(default)]
    pub host: String,
    /// When the run started.
    pub started_at: Timestamp,
    /// Version of `autopilot`.
    #[serde(default)]
    pub version: String,
}

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    holder: Holder,
    /// Holders that died and whose remains were not yet dealt with, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unsettled: Vec<Holder>,
}

/// Why the lock was not taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another run holds the repository.
    #[error("{} is held by {}", path.display(), describe(holder.as_deref()))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who it is; `None` when its content cannot be read (it may just be starting).
        holder: Option<Box<Holder>>,
    },
    /// The system refused, for instance because the file system has no locks.
    #[error(transparent)]
    File(#[from] FileError),
}

fn describe(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!(
            "run {} (process {} on {}) since {}",
            holder.run_id, holder.pid, holder.host, holder.started_at
        ),
        None => "a run that has not said who it is".to_owned(),
    }
}

/// The lock of a repository, held. Dropping it without [`RunLock::release`] leaves the crash trace.
#[derive(Debug)]
pub struct RunLock {
    path: PathBuf,
    file: File,
    content: Content,
}

/// A lock just taken, and what its last holders left.
#[derive(Debug)]
pub struct Acquired {
    /// The lock.
    pub lock: RunLock,
    /// Runs that held it and died without release, newest first: their orphans are to be swept and their
    /// records written, then [`RunLock::settled`] called.
    pub previous: Vec<Holder>,
    /// The file had content that could not be read: somebody died, it is not known who.
    pub damaged: bool,
}

/// What [`peek`] saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// Who is named in the file; `None` when the content cannot be read.
    pub holder: Option<Holder>,
    /// Whether the lock is held right now; `false` = that run died.
    pub held: bool,
}

/// What [`RunLock::reassert`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasserted {
    /// All as it should be.
    Intact,
    /// The file had been removed; it was made and locked again.
    Restored,
}

impl RunLock {
    /// Takes the lock, without waiting, for `holder`. The folder must exist.
    pub fn acquire(path: &Path, holder: &Holder) -> Result<Acquired, LockError> {
        let file = lock_file(path)?;
        let (previous, damaged) = match read_content(&file) {
            Stored::Nothing => (Vec::new(), false),
            Stored::Damaged => (Vec::new(), true),
            Stored::Known(Content { holder, mut unsettled }) => {
                unsettled.insert(0, holder);
                (unsettled, false)
            }
        };
        let content = Content { holder: holder.clone(), unsettled: previous.clone() };
        let lock = RunLock { path: path.to_owned(), file, content };
        lock.store()?;
        Ok(Acquired { lock, previous, damaged })
    }

    /// The remains of earlier holders have been dealt with: they are no longer kept in the file.
    pub fn settled(&mut self) -> Result<(), LockError> {
        if self.content.unsettled.is_empty() {
            return Ok(());
        }
        self.content.unsettled.clear();
        self.store()
    }

    /// Makes sure the path still names the file that is locked. A session may remove it (`git clean -fdx`);
    /// then it is made and locked again, unless another run was quicker ([`LockError::Held`]). Its folder is
    /// the business of [`super::layout::Layout::prepare`].
    pub fn reassert(&mut self) -> Result<Reasserted, LockError> {
        if names_file(&self.path, &self.file).map_err(FileError::at("examine", &self.path))? {
            return Ok(Reasserted::Intact);
        }
        self.file = lock_file(&self.path)?;
        self.store()?;
        Ok(Reasserted::Restored)
    }

    /// Ends the run cleanly: the content is cleared, then the lock let go.
    pub fn release(self) -> Result<(), LockError> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.sync_all())
            .map_err(FileError::at("clear", &self.path))
            .map_err(LockError::from)
    }

    /// In place: first behind what is there, and once that is safe, over it if it fits.
    fn store(&self) -> Result<(), LockError> {
        let mut bytes = serde_json::to_vec(&self.content).expect("plain data serialises");
        bytes.push(b'\n');
        let work = || -> io::Result<()> {
            let there = match read_content(&self.file) {
                Stored::Known(_) => self.file.metadata()?.len(),
                Stored::Nothing | Stored::Damaged => 0,
            };
            let mut behind = bytes.clone();
            // A line that was cut off is ended first.
            if there > 0 {
                behind.insert(0, b'\n');
            }
            crash_within(|| drop(self.file.write_all_at(&behind[..behind.len() / 2], there)));
            self.file.write_all_at(&behind, there)?;
            self.file.set_len(there + behind.len() as u64)?;
            self.file.sync_all()?;
            crash_point();
            if there >= bytes.len() as u64 {
                self.file.write_all_at(&bytes, 0)?;
                self.file.sync_all()?;
                crash_point();
                self.file.set_len(bytes.len() as u64)?;
                self.file.sync_all()?;
            }
            Ok(())
        };
        work().map_err(FileError::at("write", &self.path)).map_err(LockError::from)
    }
}

/// Who is named in the lock file and whether the lock is held; `None` when no run is and none died.
/// Changes nothing.
pub fn peek(path: &Path) -> Result<Option<Peek>, FileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::at("open", path)(error)),
    };
    let held = match file.try_lock_shared() {
        Ok(()) => {
            file.unlock().map_err(FileError::at("unlock", path))?;
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(error)) => return Err(FileError::at("examine the lock", path)(error)),
    };
    Ok(match read_content(&file) {
        Stored::Known(content) => Some(Peek { holder: Some(content.holder), held }),
        Stored::Damaged => Some(Peek { holder: None, held }),
        Stored::Nothing => held.then_some(Peek { holder: None, held }),
    })
}

/// Opens and locks the file at `path`, the one that is there when the lock is ours.
fn lock_file(path: &Path) -> Result<File, LockError> {
    let mut patience = INSIST.iter();
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_FILE)
            .open(path)
            .map_err(FileError::at("open", path))?;
        match file.try_lock() {
            Ok(()) if names_file(path, &file).map_err(FileError::at("examine", path))? => return Ok(file),
            // Removed between open and lock (that file guards nothing), or in other hands: once more.
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(FileError::at("lock", path)(error).into()),
        }
        let Some(pause) = patience.next() else {
            let holder = match read_content(&file) {
                Stored::Known(content) => Some(Box::new(content.holder)),
                Stored::Nothing | Stored::Damaged => None,
            };
            return Err(LockError::Held { path: path.to_owned(), holder });
        };
        std::thread::sleep(*pause);
    }
}

enum Stored {
    Nothing,
    Damaged,
    Known(Content),
}

fn read_content(file: &File) -> Stored {
    let mut bytes = Vec::new();
    let Ok(length) = file.metadata().map(|metadata| metadata.len()) else { return Stored::Damaged };
    // By position: the offset of the shared descriptor stays out of it.
    let mut at = length.saturating_sub(MAX_CONTENT);
    while bytes.len() as u64 <= MAX_CONTENT {
        let mut chunk = [0; 4096];
        match file.read_at(&mut chunk, at) {
            Ok(0) => break,
            Ok(count) => {
                bytes.extend_from_slice(&chunk[..count]);
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Stored::Damaged,
        }
    }
    if bytes.is_empty() {
        return Stored::Nothing;
    }
    let mut lines = bytes.rsplit(|byte| *byte == b'\n');
    lines.find_map(|line| serde_json::from_slice(line).ok()).map_or(Stored::Damaged, Stored::Known)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn holder(run_id: &str) -> Holder {
        Holder {
            run_id: run_id.to_owned(),
            pid: 4242,
            pid_start_time: 7,
            cookie: format!("cookie-{run_id}"),
            host: "box".to_owned(),
            started_at: "2026-04-25T08:42:00Z".parse().unwrap(),
            version: "0.1.0".to_owned(),
        }
    }

    fn ids(holders: &[Holder]) -> Vec<&str> {
        holders.iter().map(|holder| holder.run_id.as_str()).collect()
    }

    #[test]
    fn one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert_eq!(peek(&path).unwrap(), None);
        let first = RunLock::acquire(&path, &holder("a")).unwrap();
        assert!(first.previous.is_empty() && !first.damaged);
        let LockError::Held { holder: Some(seen), .. } = RunLock::acquire(&path, &holder("b")).unwrap_err()
        else {
            panic!("the second must be told who holds it")
        };
        assert_eq!(*seen, holder("a"));
        assert_eq!(peek(&path).unwrap(), Some(Peek { holder: Some(holder("a")), held: true }));
        first.lock.release().unwrap();
        assert_eq!(peek(&path).unwrap(), None);
        let next = RunLock::acquire(&path, &holder("b")).unwrap();
        assert!(next.previous.is_empty() && !next.damaged);
    }

    #[test]
    fn a_dead_holder_is_handed_over_until_settled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        drop(RunLock::acquire(&path, &holder("a")).unwrap());
        assert_eq!(peek(&path).unwrap(), Some(Peek { holder: Some(holder("a")), held: false }));
        // The next one dies as well, before it could put things in order.
        drop(RunLock::acquire(&path, &holder("b")).unwrap());
        let mut third = RunLock::acquire(&path, &holder("c")).unwrap();
        assert_eq!(ids(&third.previous), ["b", "a"]);
        third.lock.settled().unwrap();
        drop(third);
        assert_eq!(ids(&RunLock::acquire(&path, &holder("d")).unwrap().previous), ["c"]);
    }

    #[test]
    fn a_death_in_the_middle_of_a_write_forgets_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        drop(RunLock::acquire(&path, &holder("a")).unwrap());
        let whole = fs::read(&path).unwrap();
        drop(RunLock::acquire(&path, &holder("bb")).unwrap());
        let longer = fs::read(&path).unwrap();
        assert!(longer.starts_with(&whole), "it is written behind");
        for cut in whole.len()..longer.len() {
            crate::state::atomic::replace(&path, &longer[..cut], 0o600).unwrap();
            let taken = RunLock::acquire(&path, &holder("c")).unwrap();
            // Without the newline it is whole as well.
            let wanted = if cut + 1 < longer.len() { &["a"][..] } else { &["bb", "a"][..] };
            assert_eq!((ids(&taken.previous).as_slice(), taken.damaged), (wanted, false), "{cut}");
        }
        // Once settled, it is short again.
        let mut taken = RunLock::acquire(&path, &holder("d")).unwrap();
        let before = fs::metadata(&path).unwrap().len();
        taken.lock.settled().unwrap();
        assert_eq!(fs::read(&path).unwrap().split(|byte| *byte == b'\n').count(), 2);
        assert!(fs::metadata(&path).unwrap().len() < before);
    }

    #[test]
    fn damaged_content_never_blocks() {
        let long = vec![b'x'; 200_000];
        let cut = &serde_json::to_vec(&Content { holder: holder("a"), unsettled: vec![] }).unwrap()[..40];
        for content in [b"{".as_slice(), b"\0\0\0\0", b"\xff\xfe", b"12345\n", b"[]", cut, &long] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("lock");
            crate::state::atomic::replace(&path, content, 0o600).unwrap();
            assert_eq!(peek(&path).unwrap(), Some(Peek { holder: None, held: false }));
            let taken = RunLock::acquire(&path, &holder("n")).unwrap();
            assert!(taken.previous.is_empty() && taken.damaged);
            // Nothing of the old content is left behind the new.
            assert_eq!(peek(&path).unwrap(), Some(Peek { holder: Some(holder("n")), held: true }));
        }
    }

    #[test]
    fn unknown_fields_and_missing_details_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let content = br#"{"holder":{"run_id":"a","pid":1,"cookie":"k","started_at":"2026-04-25T08:42:00Z","new":1},"more":2}"#;
        crate::state::atomic::replace(&path, content, 0o600).unwrap();
        let seen = peek(&path).unwrap().unwrap().holder.unwrap();
        assert_eq!((seen.run_id.as_str(), seen.cookie.as_str(), seen.pid_start_time), ("a", "k", 0));
    }

    #[test]
    fn a_look_does_not_disturb_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        drop(RunLock::acquire(&path, &holder("a")).unwrap());
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    peek(&path).unwrap();
                    std::thread::yield_now();
                }
            });
            for _ in 0..20 {
                drop(RunLock::acquire(&path, &holder("b")).unwrap());
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn a_removed_file_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/lock");
        fs::create_dir(folder.path().join("deep")).unwrap();
        let mut taken = RunLock::acquire(&path, &holder("a")).unwrap();
        assert_eq!(taken.lock.reassert().unwrap(), Reasserted::Intact);
        fs::remove_dir_all(folder.path().join("deep")).unwrap();
        assert!(matches!(taken.lock.reassert(), Err(LockError::File(_))));
        fs::create_dir(folder.path().join("deep")).unwrap();
        assert_eq!(taken.lock.reassert().unwrap(), Reasserted::Restored);
        assert_eq!(peek(&path).unwrap(), Some(Peek { holder: Some(holder("a")), held: true }));
        fs::remove_file(&path).unwrap();
        let other = RunLock::acquire(&path, &holder("b")).unwrap();
        assert!(matches!(taken.lock.reassert(), Err(LockError::Held { holder: Some(_), .. })));
        drop(other);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child that outlives the lock is the point of the test")]
    fn a_child_does_not_inherit_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let taken = RunLock::acquire(&path, &holder("a")).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(taken);
        let again = RunLock::acquire(&path, &holder("b"));
        let alive = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(alive);
        assert_eq!(ids(&again.unwrap().previous), ["a"]);
    }
}
