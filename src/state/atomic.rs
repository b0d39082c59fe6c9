//! Replacing a file so that a reader sees the old bytes or the new ones, and a crash leaves one of them.
//!
//! # How
//!
//! New bytes go to a temporary file in the *same folder* (a rename does not cross file systems), which is
//! synced, renamed over the target, and the folder synced, because a rename is only durable once its
//! directory is. A target that is a symbolic link is followed: the link stays, its target is replaced. Mode
//! and owner of an existing file are kept; `tempfile` alone would turn a 0644 file into 0600 (crates B1).
//!
//! # Locks
//!
//! [`with_lock`] guards read-modify-write cycles *between processes that use it*. The lock is a file of its
//! own: a lock on the data file would stay with the old inode after the rename and guard nothing. It is
//! removed again by its holder, so that no untracked file lies around in a work tree; whoever gets a lock
//! therefore checks that the path still names the inode it locked, and starts over if not. A lock file
//! left behind by a `kill -9` is empty and harmless: the kernel dropped the lock itself.
//!
//! # Pitfalls
//!
//! - Writers that do not take the lock (a session's own `appendFile`) are not excluded. See
//!   [`crate::journal::metrics`] for what is done about them.
//! - The bound of the wait is counted in slept time; a suspended machine does not use it up.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;
use thiserror::Error;

use crate::process::{crash_point, crash_within};

/// Mode of files that are ours alone (design §9).
pub const PRIVATE_FILE: u32 = 0o600;

/// A file operation that failed, with the step and the path.
#[derive(Debug, Error)]
#[error("cannot {step} {}: {source}", path.display())]
pub struct FileError {
    /// What was being done, as a verb phrase: `cannot {step} {path}`.
    pub step: &'static str,
    /// The file it was done to.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    /// A closure for `map_err`.
    pub(crate) fn at(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
        let path = path.to_owned();
        move |source| FileError { step, path, source }
    }

    /// Whether the disk, a quota or a size limit is what stopped it (field-reports K07).
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        is_disk_full(&self.source)
    }
}

/// Whether an error says that no more bytes fit: disk, quota or file size limit (field-reports K07).
#[must_use]
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Replaces the contents of `path`, or creates it with `mode` (an existing file keeps its own mode).
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    Staged::new(path, &[bytes], mode)?.commit()
}

/// New contents of a file, complete and synced beside it, not yet in its place.
///
/// Dropping it without [`Staged::commit`] removes the temporary file and changes nothing.
#[derive(Debug)]
pub struct Staged {
    temporary: NamedTempFile,
    target: PathBuf,
}

impl Staged {
    /// Writes `parts`, one after the other, next to `path`.
    pub fn new(path: &Path, parts: &[&[u8]], mode: u32) -> Result<Staged, FileError> {
        let target = resolve(path)?;
        let folder = folder_of(&target);
        let old = match fs::metadata(&target) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FileError::at("examine", &target)(error)),
        };
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(target.file_name().unwrap_or_default());
        prefix.push(".");
        let mut temporary = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            .tempfile_in(folder)
            .map_err(FileError::at("create a temporary file in", folder))?;
        let written = (|| {
            for part in parts {
                temporary.write_all(part)?;
            }
            let file = temporary.as_file();
            // The owner first: changing it may clear mode bits. A root-owned replacement would lock out
            // the user whose file it was; where it is not permitted, it is not needed either.
            if let Some(old) = &old
                && (old.uid(), old.gid()) != (file.metadata()?.uid(), file.metadata()?.gid())
            {
                std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid())).ok();
            }
            let mode = old.as_ref().map_or(mode, |old| old.mode() & 0o7777);
            file.set_permissions(Permissions::from_mode(mode))?;
            file.sync_all()
        })();
        written.map_err(FileError::at("write the new contents of", &target))?;
        Ok(Staged { temporary, target })
    }

    /// Puts it in place and makes that durable.
    pub fn commit(self) -> Result<(), FileError> {
        let Staged { temporary, target } = self;
        crash_point();
        temporary.persist(&target).map_err(|error| FileError::at("replace", &target)(error.error))?;
        crash_point();
        sync_folder(folder_of(&target))
    }
}

/// Adds a whole line, or several, to a file open for appending: one write, so that writers do not mix.
pub fn write_line(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    crash_within(|| drop(file.write_all(&bytes[..bytes.len() / 2])));
    file.write_all(bytes)?;
    crash_point();
    Ok(())
}

/// Removes what a `kill -9` in the middle of a [`Staged::commit`] left beside `path`. Only for a caller that
/// holds the lock under which all replacements of `path` are made.
pub fn remove_leftovers(path: &Path) {
    let Ok(target) = resolve(path) else { return };
    let (Some(name), Ok(entries)) = (target.file_name(), fs::read_dir(folder_of(&target))) else { return };
    let name = name.to_string_lossy();
    for entry in entries.flatten() {
        let found = entry.file_name();
        let random = found.to_str().and_then(|found| {
            found.strip_prefix('.')?.strip_prefix(&*name)?.strip_prefix('.')?.strip_suffix(".tmp")
        });
        // The shape that `tempfile` makes; a person's own `.x.bak.tmp` stays.
        if random.is_some_and(|part| part.len() == 6 && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        {
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// Makes creations and renames in `folder` durable.
pub fn sync_folder(folder: &Path) -> Result<(), FileError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(FileError::at("sync the folder", folder))
}

/// Runs `work` while holding the lock file `path`, waiting up to `bound` for it.
///
/// The inner result is that of `work`. Times out with [`io::ErrorKind::TimedOut`].
pub fn with_lock<T>(path: &Path, bound: Duration, work: impl FnOnce() -> T) -> Result<T, FileError> {
    let held = FileLock::wait(path, bound)?;
    let value = work();
    drop(held);
    Ok(value)
}

/// A held lock file; removed and released on drop.
#[derive(Debug)]
struct FileLock {
    path: PathBuf,
    file: File,
}

impl FileLock {
    fn wait(path: &Path, bound: Duration) -> Result<FileLock, FileError> {
        let mut slept = Duration::ZERO;
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(lock) = FileLock::attempt(path).map_err(FileError::at("lock", path))? {
                return Ok(lock);
            }
            if slept >= bound {
                let source = io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("another process has held it for more than {} s", bound.as_secs()),
                );
                return Err(FileError { step: "lock", path: path.to_owned(), source });
            }
            std::thread::sleep(pause);
            slept += pause;
            pause = (pause * 2).min(Duration::from_millis(4));
        }
    }

    /// One try; `None` when somebody else has it or had just removed it.
    fn attempt(path: &Path) -> io::Result<Option<FileLock>> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(PRIVATE_FILE).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let current = names_file(path, &file)?;
        Ok(current.then(|| FileLock { path: path.to_owned(), file }))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Only a holder removes, and only the file it holds: if a third party removed ours, the one that is
        // there now is somebody else's live lock.
        if names_file(&self.path, &self.file).unwrap_or(false) {
            fs::remove_file(&self.path).ok();
        }
        self.file.unlock().ok();
    }
}

/// Whether `path` still names the very file that is open.
pub(crate) fn names_file(path: &Path, file: &File) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file to replace: the target of a symbolic link, else the path itself.
fn resolve(path: &Path) -> Result<PathBuf, FileError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            fs::canonicalize(path).map_err(FileError::at("resolve the link", path))
        }
        _ => Ok(path.to_owned()),
    }
}

/// The folder a file lives in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_and_keeps_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        replace(&path, b"one", 0o600).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode_of(&path)), (b"one".to_vec(), 0o600));
        for mode in [0o640, 0o644, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            replace(&path, b"two", 0o600).unwrap();
            assert_eq!((fs::read(&path).unwrap(), mode_of(&path)), (b"two".to_vec(), mode));
        }
        assert_eq!(names(folder.path()), ["a.jsonl"]);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let target = elsewhere.path().join("real");
        File::create(&target).unwrap().write_all(b"old").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        replace(&link, b"new", 0o600).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn abandoned_staging_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace(&path, b"old", 0o600).unwrap();
        drop(Staged::new(&path, &[b"ne", b"w"], 0o600).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn only_our_leftovers_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        replace(&path, b"x", 0o600).unwrap();
        let staged = Staged::new(&path, &[b"y"], 0o600).unwrap();
        // As if killed here: nobody removes it.
        let (_, kept) = staged.temporary.keep().unwrap();
        assert!(kept.exists());
        for other in
            [".a.jsonl.bak.tmp", ".b.jsonl.abcdef.tmp", ".a.jsonl.abcdef.tmp.1", "a.jsonl.abcdef.tmp"]
        {
            drop(File::create(folder.path().join(other)).unwrap());
        }
        remove_leftovers(&path);
        assert!(!kept.exists());
        assert_eq!(names(folder.path()).len(), 5);
        remove_leftovers(Path::new("/nonexistent/a"));
    }

    #[test]
    fn errors_name_step_and_path() {
        let folder = tempfile::tempdir().unwrap();
        let error = replace(&folder.path().join("missing/a"), b"", 0o600).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("missing"), "{error}");
        assert!(!error.is_disk_full());
    }

    #[test]
    fn the_lock_excludes_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join(".lock");
        let bound = Duration::from_millis(20);
        let inner = with_lock(&lock, bound, || with_lock(&lock, bound, || ()).unwrap_err()).unwrap();
        assert_eq!(inner.source.kind(), io::ErrorKind::TimedOut);
        assert!(names(folder.path()).is_empty());
        with_lock(&lock, bound, || ()).unwrap();
    }

    #[test]
    fn a_removed_lock_file_is_not_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let held = FileLock::attempt(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        let late = OpenOptions::new().write(true).create(true).truncate(false).open(&path).unwrap();
        assert!(!names_file(&path, &held.file).unwrap());
        assert!(names_file(&path, &late).unwrap());
        drop(held);
        assert!(path.exists(), "the lock of somebody else was removed");
    }

    #[test]
    fn many_threads_one_counter() {
        let folder = tempfile::tempdir().unwrap();
        let (lock, data) = (folder.path().join(".lock"), folder.path().join("n"));
        replace(&data, b"0", 0o600).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        with_lock(&lock, Duration::from_secs(30), || {
                            let count: u32 = fs::read_to_string(&data).unwrap().parse().unwrap();
                            replace(&data, (count + 1).to_string().as_bytes(), 0o600).unwrap();
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(&data).unwrap(), "100");
    }
}
