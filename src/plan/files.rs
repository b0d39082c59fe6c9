//! Which files hold tasks: the plan, what it links to, the inbox; and what was wrong with each.
//!
//! A link is followed if it is relative, ends in `.md` and leads to a file in `.project`, each file once, so
//! many files and so deep at most. Where a link really leads is asked of the system: one that leaves the
//! folder, by `..` or by a symbolic link, is not followed. The plan and the inbox themselves may be links to
//! somewhere in the repository.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::disk::read_bounded;
use super::inbox::{Pending, pending};
use super::parse::{Parsed, parse};
use crate::core::signals::SourceReading;
use crate::state::atomic::folder_of;

/// Folder of the task files, in the repository.
pub(super) const PROJECT: &str = ".project";
const PLAN: &str = "plan.md";
const INBOX: &str = "inbox.md";
/// Most files that are read because of links.
const MAX_LINKED: usize = 64;
/// Longest way of links from the plan.
const MAX_DEPTH: usize = 8;
/// Most broken links that are spoken of, for each file.
const MAX_BROKEN: usize = 5;

/// A file with tasks.
#[derive(Debug)]
pub(super) struct TaskFile {
    /// Relative to the repository.
    pub(super) name: String,
    /// Where it really is.
    pub(super) path: PathBuf,
    /// What is in it.
    pub(super) parsed: Parsed,
}

/// What there is.
#[derive(Debug, Default)]
pub(super) struct TaskFiles {
    /// The plan, if it could be read, and then the files it leads to.
    pub(super) plan: Vec<TaskFile>,
    /// The inbox: its name, where it really is, what is to become a task.
    pub(super) inbox: Option<(TaskFile, Vec<Pending>)>,
    /// How each was read; what it says is still to be told.
    pub(super) readings: Vec<SourceReading>,
}

impl TaskFiles {
    /// The files that are edited.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let inbox = self.inbox.iter().map(|(file, _)| file);
        self.plan.iter().chain(inbox).map(|file| file.path.clone()).collect()
    }
}

/// Reads all task files of the repository at `root`.
pub(super) fn read_all(root: &Path, now: Timestamp) -> TaskFiles {
    let mut files = TaskFiles::default();
    let base = fs::canonicalize(root.join(PROJECT)).unwrap_or_else(|_| root.join(PROJECT));
    if let Some((file, _)) = main_file(root, &base, PLAN, now, &mut files.readings) {
        let mut seen = HashSet::from([file.path.clone(), place(root, INBOX)]);
        files.plan.push(file);
        follow(&base, now, &mut seen, &mut files);
    }
    if let Some((file, bytes)) = main_file(root, &base, INBOX, now, &mut files.readings) {
        files.inbox = Some((file, pending(&bytes)));
    }
    files
}

/// Where the file really is, or would be.
pub(super) fn place(root: &Path, name: &str) -> PathBuf {
    let path = root.join(PROJECT).join(name);
    fs::canonicalize(&path)
        .unwrap_or_else(|_| fs::canonicalize(root.join(PROJECT)).map_or(path, |folder| folder.join(name)))
}

/// Where the plan is, or would be.
pub(super) fn plan_place(root: &Path) -> PathBuf {
    place(root, PLAN)
}

/// Where the inbox is, or would be.
pub(super) fn inbox_place(root: &Path) -> PathBuf {
    place(root, INBOX)
}

fn main_file(
    root: &Path,
    base: &Path,
    file: &str,
    now: Timestamp,
    readings: &mut Vec<SourceReading>,
) -> Option<(TaskFile, Vec<u8>)> {
    let name = format!("{PROJECT}/{file}");
    let mut reading = SourceReading { source: file.to_owned(), ..SourceReading::default() };
    let read = (|| {
        let path = fs::canonicalize(root.join(&name))?;
        let inside =
            path.starts_with(base) || fs::canonicalize(root).is_ok_and(|root| path.starts_with(root));
        if !inside {
            return Err(io::Error::other("it is a link that leads out of the repository"));
        }
        let bytes = read_bounded(&path)?;
        reading.age_seconds = age(&path, now);
        Ok((path, bytes))
    })();
    let found = match read {
        Ok((path, bytes)) => {
            reading.origin = Some(name.clone());
            Some((TaskFile { name, path, parsed: parse(&bytes) }, bytes))
        }
        Err(error) => {
            "not there".clone_into(&mut reading.says);
            let link = fs::symlink_metadata(root.join(&name)).is_ok();
            if error.kind() != io::ErrorKind::NotFound || link {
                "not readable".clone_into(&mut reading.says);
                reading.origin = Some(name.clone());
                reading.problems.push(format!("{name} cannot be read: {error}"));
            }
            None
        }
    };
    readings.push(reading);
    found
}

fn age(path: &Path, now: Timestamp) -> Option<u64> {
    let modified = Timestamp::try_from(fs::metadata(path).ok()?.modified().ok()?).ok()?;
    Some(u64::try_from(now.as_second() - modified.as_second()).unwrap_or(0))
}

/// Reads the files that the plan leads to.
fn follow(base: &Path, now: Timestamp, seen: &mut HashSet<PathBuf>, files: &mut TaskFiles) {
    let mut waiting = VecDeque::from([(0, 0)]);
    while let Some((index, depth)) = waiting.pop_front() {
        let mut broken = 0;
        let from = &files.plan[index];
        let (folder, name) = (folder_of(&from.path).to_owned(), from.name.clone());
        let mut problems = Vec::new();
        for link in files.plan[index].parsed.links.clone() {
            let Some(target) = local_target(&link) else { continue };
            let path = match inside(base, &folder, &target) {
                Ok(Some(path)) => path,
                Ok(None) => continue,
                Err(error) => {
                    broken += 1;
                    if broken <= MAX_BROKEN {
                        problems.push(format!("{name} links to {target}, which cannot be read: {error}"));
                    }
                    continue;
                }
            };
            if seen.contains(&path) {
                continue;
            }
            if depth >= MAX_DEPTH || files.plan.len() > MAX_LINKED {
                problems.push(format!("{name} links to {target}: too many files, it is not read"));
                break;
            }
            seen.insert(path.clone());
            let inner = path.strip_prefix(base).unwrap_or(&path).to_string_lossy().into_owned();
            let origin = format!("{PROJECT}/{inner}");
            match read_bounded(&path) {
                Ok(bytes) => {
                    files.readings.push(SourceReading {
                        source: inner,
                        origin: Some(origin.clone()),
                        age_seconds: age(&path, now),
                        ..SourceReading::default()
                    });
                    files.plan.push(TaskFile { name: origin, path, parsed: parse(&bytes) });
                    waiting.push_back((files.plan.len() - 1, depth + 1));
                }
                Err(error) => {
                    problems.push(format!("{name} links to {target}, which cannot be read: {error}"));
                }
            }
        }
        if let Some(reading) =
            files.readings.iter_mut().find(|reading| reading.origin.as_ref() == Some(&name))
        {
            reading.problems.append(&mut problems);
        }
    }
}

/// The path of a link to a Markdown file on this machine, relative.
fn local_target(link: &str) -> Option<String> {
    let path = link.split(['#', '?']).next()?;
    let scheme = path.split('/').next().is_some_and(|first| first.contains(':'));
    let markdown =
        path.len() > 3 && path.get(path.len() - 3..).is_some_and(|end| end.eq_ignore_ascii_case(".md"));
    (markdown && !scheme && !path.starts_with('/')).then(|| percent_decoded(path)).flatten()
}

/// Without `%20`; `None` if that makes no text, or one with a NUL.
fn percent_decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).ok().filter(|path| !path.contains('\0'))
}

/// Where a link really leads: `None` if it is meant to lead out of the folder, an error if it leads out by a
/// symbolic link, or nowhere.
fn inside(base: &Path, folder: &Path, target: &str) -> io::Result<Option<PathBuf>> {
    let mut lexical = folder.to_owned();
    for part in Path::new(target).components() {
        match part {
            std::path::Component::ParentDir => {
                lexical.pop();
            }
            std::path::Component::Normal(part) => lexical.push(part),
            std::path::Component::CurDir
            | std::path::Component::RootDir
            | std::path::Component::Prefix(_) => {}
        }
    }
    if !lexical.starts_with(base) {
        return Ok(None);
    }
    let path = fs::canonicalize(folder.join(target))?;
    if path.starts_with(base) {
        Ok(Some(path))
    } else {
        Err(io::Error::other(format!("it leads out of {PROJECT}")))
    }
}

#[cfg(test)]
#[path = "files/tests.rs"]
mod tests;
