//! Changing a file that a person may be saving at the same moment, so that no save is ever lost.
//!
//! # Why an exchange
//!
//! An editor saves in one of two ways: it writes a new file and renames it over ours, or it empties ours and
//! writes into it. Neither takes a lock. Against these:
//!
//! - Writing into the file *in place*, even a single byte, cannot be made safe: if a save into the same file
//!   comes between our last look and our write, the byte lands somewhere in the new text, and what stood
//!   there is gone. Looking again afterwards shows that it happened, not what was there.
//! - *Replacing* it (compare, then rename) loses a save by rename that comes between the two steps.
//!
//! So the new contents are written to a file of their own and *exchanged* with the old one in one step
//! (`renameat2(RENAME_EXCHANGE)`, `renameatx_np(RENAME_SWAP)`). Whatever stood there at that moment comes out,
//! and nothing is deleted. If it is not what was read, somebody saved in between: it is put back, and the edit
//! starts over from what the person wrote. [`edit`]
//!
//! # The late write
//!
//! An editor that had opened the old file may write into it after it came out. So what came out is kept in a
//! folder of ours for a minute or more, and every pass looks whether it has changed since ([`sweep`]). If so,
//! it is a save that went past the file. If only edits of ours stand in the file since, the save is put in its
//! place (the edits are lost, not the save; they are made again by whoever asked for them). If the person
//! has saved again meanwhile, the stray one is set aside as `rescued-…` and reported.
//!
//! A kept file says by its name which file it is of (a hash of the path), which contents are accounted for
//! (`seen`: what was read; `put`: what was written), so that a crash between any two steps leaves all that
//! [`sweep`] needs. Nothing but [`sweep`] deletes one.
//!
//! # Limits
//!
//! A file system without exchange (NFS, some FUSE ones) gets a hard link to the old file and a rename: there,
//! a save by rename in the microseconds between the two is lost. Extended attributes are not carried over.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use thiserror::Error;

use crate::state::atomic::{FileError, PRIVATE_FILE, folder_of, sync_folder};

/// Largest file that is read, in bytes.
pub(super) const MAX_FILE: u64 = 4 << 20;
/// How long a file that came out is kept at least. An editor's save takes milliseconds.
const KEEP: Duration = Duration::from_secs(60);
/// How often an edit starts over because of saves in between.
const MAX_RESTARTS: u32 = 8;

/// A file could not be edited. It is as it was, or as a person saved it.
#[derive(Debug, Error)]
pub enum EditError {
    /// The system refused a step.
    #[error(transparent)]
    File(#[from] FileError),
    /// It was saved by somebody else again and again.
    #[error("cannot edit {}: it is being saved by somebody else all the time", .0.display())]
    Busy(PathBuf),
}

/// The few things that are done to files, so that a test can put a person's saves between any two of them.
pub(super) trait Files {
    /// The contents; `None` when nothing is there.
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>>;
    /// Writes a complete, durable file in the kept folder, ready to stand at `like`. Its name begins with `name`.
    fn stage(&mut self, name: &str, bytes: &[u8], like: &Path) -> io::Result<PathBuf>;
    /// Exchanges two files in one step, durably.
    fn exchange(&mut self, staged: &Path, path: &Path) -> io::Result<()>;
    /// Gives a file of the kept folder another name, durably; fails with `AlreadyExists` when there is one.
    fn link(&mut self, kept: &Path, path: &Path) -> io::Result<()>;
    /// Adds to the end of a file of ours, durably; makes it if missing.
    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Files in the kept folder and the time since they were last written or renamed.
    fn kept(&mut self) -> io::Result<Vec<(PathBuf, Duration)>>;
    /// Renames within the kept folder.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Deletes a file of the kept folder.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

/// Changes the file at `path` (not a link) to what `change` makes of its contents; `None` leaves it. A missing
/// file is empty, and made if need be. `change` may be asked more than once. Returns whether it was changed.
pub(super) fn edit<F: Files>(
    files: &mut F,
    path: &Path,
    change: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<bool, EditError> {
    edit_as(files, path, "e", change)
}

fn edit_as<F: Files>(
    files: &mut F,
    path: &Path,
    kind: &str,
    change: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<bool, EditError> {
    for _ in 0..MAX_RESTARTS {
        let old = files.read(path).map_err(FileError::at("read", path))?;
        let seen = old.as_deref().unwrap_or_default();
        let Some(new) = change(seen) else { return Ok(false) };
        if old.is_some() && new == seen {
            return Ok(false);
        }
        let name =
            Name { kind: kind.to_owned(), of: hash(path_bytes(path)), seen: hash(seen), put: hash(&new) };
        let staged = files
            .stage(&name.text(), &new, path)
            .map_err(FileError::at("write the new contents of", path))?;
        let Some(old) = old else {
            match files.link(&staged, path) {
                Ok(()) => {
                    files.remove(&staged).map_err(FileError::at("remove", &staged))?;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(FileError::at("create", path)(error).into()),
            }
        };
        match files.exchange(&staged, path) {
            Ok(()) => {}
            // Removed, or in the middle of a save by somebody who removes first.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(FileError::at("exchange", path)(error).into()),
        }
        let out = |files: &mut F| files.read(&staged).map_err(FileError::at("read", &staged));
        if out(files)?.as_ref() == Some(&old) {
            return Ok(true);
        }
        // A save came out. Whoever opened the file since saw ours, and may save that over it: so it is kept too.
        // Where there are no hard links, that moment remains.
        let also = free_name(files, folder_of(&staged), &name.text())?;
        files.link(&staged, &also).ok();
        // It goes back, and what comes out for it should be ours. If not, that was saved even later: it goes
        // back too, and the earlier one stays for `sweep`.
        for _ in 0..2 {
            match files.exchange(&staged, path) {
                Ok(()) => {}
                // Removed meanwhile: the save that we hold is the last there is.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(FileError::at("put back", path)(error).into()),
            }
            if out(files)?.as_ref() == Some(&new) {
                break;
            }
        }
    }
    Err(EditError::Busy(path.to_owned()))
}

/// Looks after the files that were kept: puts back what was saved past a file, deletes what is accounted for.
/// `paths` are the files that are edited.
pub(super) fn sweep<F: Files>(files: &mut F, paths: &[PathBuf]) -> Swept {
    let mut swept = Swept::default();
    let listed = match files.kept() {
        Ok(listed) => listed,
        Err(error) => {
            swept.problems.push(format!("the folder of replaced files cannot be read: {error}"));
            return swept;
        }
    };
    let mut kept: Vec<Kept> = listed.into_iter().filter_map(Kept::of).collect();
    // The one that was written last first: it has the newest save.
    kept.sort_by(|a, b| a.age.cmp(&b.age).then(b.path.cmp(&a.path)));
    let links: Vec<Name> = kept.iter().map(|kept| kept.name.clone()).collect();
    for kept in &kept {
        if let Err(error) = settle(files, kept, &links, paths, &mut swept) {
            swept.problems.push(error.to_string());
        }
    }
    swept
}

/// What [`sweep`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Swept {
    /// A save was put back: what was read of the files before is old.
    pub(super) put_back: bool,
    /// What a person should know.
    pub(super) problems: Vec<String>,
}

fn settle<F: Files>(
    files: &mut F,
    kept: &Kept,
    links: &[Name],
    paths: &[PathBuf],
    swept: &mut Swept,
) -> Result<(), EditError> {
    let Some(bytes) = files.read(&kept.path).map_err(FileError::at("read", &kept.path))? else {
        return Ok(());
    };
    let now = hash(&bytes);
    let of_it = || links.iter().filter(|name| name.of == kept.name.of);
    if now == kept.name.seen || of_it().any(|name| name.put == now) {
        if kept.age >= KEEP {
            files.remove(&kept.path).map_err(FileError::at("remove", &kept.path))?;
        }
        return Ok(());
    }
    if bytes.is_empty() && kept.age < KEEP {
        // In the middle of a save.
        return Ok(());
    }
    let mut taken_in = false;
    if let Some(path) = paths.iter().find(|path| hash(path_bytes(path)) == kept.name.of) {
        // What our edits alone have made of the file since this one came out.
        let mut ours = HashSet::from([kept.name.put]);
        while of_it().any(|name| name.kind == "e" && ours.contains(&name.seen) && ours.insert(name.put)) {}
        swept.put_back |= edit_as(files, path, "r", &mut |current| {
            let have = hash(current);
            taken_in = have == now || ours.contains(&have) || has_lines(current, &bytes);
            (have != now && ours.contains(&have)).then(|| bytes.clone())
        })?;
    }
    let folder = folder_of(&kept.path);
    if taken_in {
        // Accounted for now, but its editor may not be done.
        let name = Name { seen: now, ..kept.name.clone() };
        let to = free_name(files, folder, &name.text())?;
        files.rename(&kept.path, &to).map_err(FileError::at("rename", &kept.path))?;
    } else {
        let to = free_name(files, folder, &format!("rescued-{now:016x}.md"))?;
        files.rename(&kept.path, &to).map_err(FileError::at("rename", &kept.path))?;
        swept.problems.push(format!("a save that crossed an edit was set aside: {}", to.display()));
    }
    Ok(())
}

fn free_name<F: Files>(files: &mut F, folder: &Path, name: &str) -> Result<PathBuf, EditError> {
    let mut to = folder.join(name);
    let mut count = 1;
    while files.read(&to).map_err(FileError::at("read", &to))?.is_some() {
        to = folder.join(format!("{name}.{count}"));
        count += 1;
    }
    Ok(to)
}

/// Whether every line of `wanted` stands in `text`.
fn has_lines(text: &[u8], wanted: &[u8]) -> bool {
    let lines = |bytes| <[u8]>::split(bytes, |byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let have: HashSet<&[u8]> = lines(text).collect();
    lines(wanted).all(|line| line.is_empty() || have.contains(line))
}

/// What the name of a kept file says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    /// `e` = an edit, `r` = a save that was put back.
    kind: String,
    /// Hash of the path of the file it belongs to.
    of: u64,
    /// Hash of the contents that are accounted for.
    seen: u64,
    /// Hash of what was written for it.
    put: u64,
}

impl Name {
    fn text(&self) -> String {
        format!("{}-{:016x}-{:016x}-{:016x}", self.kind, self.of, self.seen, self.put)
    }

    fn parse(name: &str) -> Option<Name> {
        let mut parts = name.split('.').next()?.split('-');
        let kind = parts.next().filter(|kind| ["e", "r"].contains(kind))?.to_owned();
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        Some(Name { kind, of: number()?, seen: number()?, put: number()? })
    }
}

struct Kept {
    path: PathBuf,
    age: Duration,
    name: Name,
}

impl Kept {
    fn of((path, age): (PathBuf, Duration)) -> Option<Kept> {
        let name = Name::parse(path.file_name()?.to_str()?)?;
        Some(Kept { path, age, name })
    }
}

fn path_bytes(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes()
}

/// FNV-1a of the bytes and their number. Stable, since it stands in names.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let length = (bytes.len() as u64).to_le_bytes();
    bytes
        .iter()
        .chain(&length)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The real files.
#[derive(Debug)]
pub(super) struct Disk {
    /// Where files that came out are kept.
    folder: PathBuf,
    /// For the age of kept files.
    now: Timestamp,
}

impl Disk {
    /// Keeps files in `state`, or, if that is another file system, beside what is edited: an exchange does not
    /// cross file systems.
    pub(super) fn new(state: &Path, project: &Path, now: Timestamp) -> Disk {
        let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
        let same = device(project).is_none_or(|project| device(state) == Some(project));
        let folder = if same { state.join("kept") } else { project.join(".autopilot-kept") };
        Disk { folder, now }
    }
}

impl Files for Disk {
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match read_bounded(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn stage(&mut self, name: &str, bytes: &[u8], like: &Path) -> io::Result<PathBuf> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if !self.folder.is_dir() => return Err(error),
            _ => {}
        }
        let old = fs::metadata(like).ok();
        let mut path = self.folder.join(name);
        let mut count = 1;
        let mut file = loop {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => break file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    path = self.folder.join(format!("{name}.{count}"));
                    count += 1;
                }
                Err(error) => return Err(error),
            }
        };
        let written = (|| {
            file.write_all(bytes)?;
            if let Some(old) = old {
                let new = file.metadata()?;
                // The owner first: changing it may clear mode bits. Where it is not permitted, it is not needed.
                if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                    std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid())).ok();
                }
                file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
            }
            file.sync_all()
        })();
        match written {
            Ok(()) => Ok(path),
            Err(error) => {
                // Nobody else has seen it.
                fs::remove_file(&path).ok();
                Err(error)
            }
        }
    }

    fn exchange(&mut self, staged: &Path, path: &Path) -> io::Result<()> {
        match renameat_with(CWD, staged, CWD, path, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let aside = staged.with_extension("aside");
                fs::remove_file(&aside).ok();
                fs::hard_link(path, &aside)?;
                fs::rename(staged, path)?;
                fs::rename(&aside, staged)?;
            }
            Err(error) => return Err(error.into()),
        }
        self.sync(path)
    }

    fn link(&mut self, kept: &Path, path: &Path) -> io::Result<()> {
        fs::hard_link(kept, path)?;
        self.sync(path)
    }

    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).mode(PRIVATE_FILE).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        sync_folder(folder_of(path)).map_err(|error| error.source)
    }

    fn kept(&mut self) -> io::Result<Vec<(PathBuf, Duration)>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            let age = u64::try_from(self.now.as_second() - metadata.ctime()).unwrap_or(0);
            if metadata.is_file() {
                found.push((entry.path(), Duration::from_secs(age)));
            }
        }
        Ok(found)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

impl Disk {
    fn sync(&self, path: &Path) -> io::Result<()> {
        for folder in [folder_of(path), &self.folder] {
            sync_folder(folder).map_err(|error| error.source)?;
        }
        Ok(())
    }
}

/// Reads a regular file of at most [`MAX_FILE`] bytes. What is no file (a pipe, a device) is not waited for.
pub(super) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file: File = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        let text = format!("it is larger than {} MiB", MAX_FILE >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}
