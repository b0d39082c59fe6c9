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
//! and nothing is deleted. If it is not what was read, somebody saved in between: a copy of it is put back, and the
//! edit starts over from what the person wrote. [`edit`]
//!
//! # The late write
//!
//! An editor that had opened the old file may write into it after it came out. So what came out is kept in a
//! folder of ours for an hour or more, and every pass looks whether it has changed since ([`sweep`]). If so,
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
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::state::atomic::{FileError, folder_of};

/// How long a file that came out is kept at least. A save takes milliseconds; but somebody may have opened the
/// file in the moment in which a save of theirs was missing from it, and save that later.
const KEEP: Duration = Duration::from_hours(1);
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
    edit_as(files, path, Kind::Edit, change)
}

fn edit_as<F: Files>(
    files: &mut F,
    path: &Path,
    kind: Kind,
    change: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<bool, EditError> {
    for _ in 0..MAX_RESTARTS {
        let old = files.read(path).map_err(FileError::at("read", path))?;
        let seen = old.as_deref().unwrap_or_default();
        let Some(new) = change(seen) else { return Ok(false) };
        if old.is_some() && new == seen {
            return Ok(false);
        }
        let name = Name { kind, of: hash(path_bytes(path)), seen: hash(seen), put: hash(&new) };
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
        if read_or_empty(files, &staged)? == old {
            return Ok(true);
        }
        put_back(files, path, Held { file: staged, name, put: new })?;
    }
    Err(EditError::Busy(path.to_owned()))
}

fn read_or_empty<F: Files>(files: &mut F, path: &Path) -> Result<Vec<u8>, EditError> {
    Ok(files.read(path).map_err(FileError::at("read", path))?.unwrap_or_default())
}

/// A file that came out of an exchange.
struct Held {
    file: PathBuf,
    name: Name,
    /// What was put in its place.
    put: Vec<u8>,
}

/// Puts a save that came out back in its place.
///
/// A *copy* of it goes back: the file itself stays where nobody but its editor can reach it. Else whoever opened
/// the file in this moment, saw ours, and saves that in place, would destroy the one that has the save.
fn put_back<F: Files>(files: &mut F, path: &Path, mut held: Held) -> Result<(), EditError> {
    for round in 0..MAX_RESTARTS {
        let save = read_or_empty(files, &held.file)?;
        // First of all it is called what it is, lest it be taken for ours by its contents after a crash. Ours
        // may then be replaced by it; an earlier save may not.
        let instead = if round == 0 { hash(&held.put) } else { hash(&save) };
        let settled = Name { kind: Kind::Save, seen: instead, put: hash(&save), ..held.name };
        let to = free_name(files, folder_of(&held.file), &settled.text())?;
        files.rename(&held.file, &to).map_err(FileError::at("rename", &held.file))?;
        let name = Name { kind: Kind::Restore, seen: hash(&held.put), put: hash(&save), ..held.name };
        let staged = files
            .stage(&name.text(), &save, path)
            .map_err(FileError::at("write a copy of a save of", path))?;
        match files.exchange(&staged, path) {
            Ok(()) => {}
            // Removed meanwhile: `sweep` sets the save aside.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(FileError::at("put back", path)(error).into()),
        }
        // What comes out for it should be ours. If not, that was saved even later, and goes back too.
        if read_or_empty(files, &staged)? == held.put {
            return Ok(());
        }
        held = Held { file: staged, name, put: save };
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
    let links: Vec<Name> = kept.iter().map(|kept| kept.name).collect();
    for kept in &kept {
        if let Err(error) = settle(files, kept, &links, paths, &mut swept) {
            swept.problems.push(error.to_string());
        }
    }
    // What is accounted for by the contents of a file is so no more when these have just been replaced.
    for path in std::mem::take(&mut swept.done).iter().filter(|_| !swept.put_back) {
        if let Err(error) = files.remove(path) {
            swept.problems.push(FileError::at("remove", path)(error).to_string());
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
    /// Files that are accounted for and old enough to go.
    done: Vec<PathBuf>,
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
    let of_it = || links.iter().filter(|name| name.of == kept.name.of && name.kind == Kind::Edit);
    let aged = kept.age >= KEEP;
    let mut done = match kept.name.kind {
        // As it was read before the edit; or ours, if it never came to the exchange. What another edit has
        // written is no proof: a save may be the same by chance when the file has long become something else.
        Kind::Edit => now == kept.name.seen || now == kept.name.put,
        // Ours came out.
        Kind::Restore => now == kept.name.seen,
        Kind::Save => false,
    };
    if !done && bytes.is_empty() && !aged {
        // In the middle of a save.
        return Ok(());
    }
    let path = paths.iter().find(|path| hash(path_bytes(path)) == kept.name.of);
    if !done && let Some(path) = path {
        // What edits of ours alone make of contents.
        let closure = |start: u64| {
            let mut made = HashSet::from([start]);
            while of_it().any(|name| made.contains(&name.seen) && made.insert(name.put)) {}
            made
        };
        let with_it = closure(now);
        let mut without_it = closure(kept.name.put);
        if kept.name.kind == Kind::Save {
            without_it.extend(closure(kept.name.seen));
        }
        let put_back = edit_as(files, path, Kind::Restore, &mut |current| {
            let have = hash(current);
            done = with_it.contains(&have) || has_lines(current, &bytes);
            (!done && without_it.contains(&have)).then(|| bytes.clone())
        })?;
        if put_back {
            swept.put_back = true;
            // Its editor may not be done, and a save of what was there before may still come: it stays.
            let name = Name { kind: Kind::Save, seen: kept.name.put, put: now, ..kept.name };
            let to = free_name(files, folder_of(&kept.path), &name.text())?;
            files.rename(&kept.path, &to).map_err(FileError::at("rename", &kept.path))?;
            return Ok(());
        }
    }
    if done {
        swept.done.extend(aged.then(|| kept.path.clone()));
    } else {
        let to = free_name(files, folder_of(&kept.path), &format!("rescued-{now:016x}.md"))?;
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

/// Why a file is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It came out for an edit.
    Edit,
    /// It came out when a save was put back.
    Restore,
    /// It is a save that was put back.
    Save,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Edit, Kind::Restore, Kind::Save];

    fn word(self) -> &'static str {
        match self {
            Kind::Edit => "edit",
            Kind::Restore => "restore",
            Kind::Save => "save",
        }
    }
}

/// What the name of a kept file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    /// Why it is kept.
    kind: Kind,
    /// Hash of the path of the file it belongs to.
    of: u64,
    /// Hash of the contents that were read; for a save: of what stood in its place.
    seen: u64,
    /// Hash of what was written for it; for a save: of as much of it as was put back.
    put: u64,
}

impl Name {
    fn text(&self) -> String {
        format!("{}-{:016x}-{:016x}-{:016x}", self.kind.word(), self.of, self.seen, self.put)
    }

    fn parse(name: &str) -> Option<Name> {
        let mut parts = name.split('.').next()?.split('-');
        let word = parts.next()?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word)?;
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
