//! The files of [`super::swap`] on a real disk.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::swap::Files;
use crate::state::atomic::{PRIVATE_FILE, folder_of, sync_folder};

/// Largest file that is read, in bytes.
pub(super) const MAX_FILE: u64 = 4 << 20;

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
