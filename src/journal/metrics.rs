//! Writing `autopilot.jsonl` and `sessions.jsonl` so that no record is ever lost.
//!
//! # Protocol (design §9)
//!
//! Every writer of ours holds [`Layout::metrics_lock`], one lock for both files.
//!
//! - A run's record: read the file, add the line, write all of it to a temporary file in the same folder,
//!   sync, rename, sync the folder.
//! - A session's record: one `write_all` of the whole line under `O_APPEND`, then sync. If the session has
//!   written a record of its own, that one is completed in place (see [`super::session_record`]), by the
//!   same replacement as above. How it is recognised: [`completion`].
//! - A last line without a newline is first closed off with one: the fragment is kept, and nothing is glued
//!   to it (field-reports N01). A whole record that merely lacks its newline is thereby saved.
//!
//! # Writers that do not know the lock
//!
//! Upstream appends to `sessions.jsonl` without any lock, and a session may do so at any moment. An append of
//! ours does not mind. A replacement looks, immediately before the rename, whether the file is still the one
//! that was read, and starts over if not; and after the rename it looks once more at the old file, which
//! it still has open, and carries over what arrived in between. What remains is a writer that opened the
//! file before our rename and writes after that last look: some microseconds, and only when a session
//! writes records after its own process has ended.
//!
//! # When the disk is full
//!
//! Nothing is retried here. The error carries the record ([`AppendError::record`]), so that the caller can
//! print it: a record that cannot be stored is still not lost (upstream-formats §15.2).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memchr::memmem;
use serde::Serialize;
use thiserror::Error;
use uuid::Uuid;

use crate::state::atomic::{
    FileError, PRIVATE_FILE, Staged, remove_leftovers, sync_folder, with_lock, write_line,
};
use crate::state::layout::Layout;

use super::autopilot_record::AutopilotRecord;
use super::lines::{self, Line};
use super::session_record::{RawObject, SessionRecord, complete, is_stub};

/// How long a writer waits for the others. They need milliseconds; half a minute means one is stuck.
const LOCK_BOUND: Duration = Duration::from_secs(30);

/// How often a replacement starts over because a writer without lock keeps appending.
const MAX_RESTARTS: u32 = 100;

/// Most memory that is set aside for a file before it is read: some years of records.
const MAX_RESERVED: usize = 256 << 20;

/// Read of upstream's `current-session.json`, which holds some hundred bytes.
const MAX_CURRENT_SESSION: u64 = 64 * 1024;

/// A record could not be stored. It is not lost: it is in here.
#[derive(Debug, Error)]
#[error("cannot add a record to {}: {source}", path.display())]
pub struct AppendError {
    /// The metric file.
    pub path: PathBuf,
    /// The record as it would have been written, one line without its newline.
    pub record: String,
    /// What went wrong.
    pub source: FileError,
}

/// What became of a session's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionWrite {
    /// It was added.
    Appended,
    /// The session had written one; that one was completed.
    Completed {
        /// The id the session gave itself (upstream makes up its own).
        session_id: String,
    },
}

/// Adds the record of a run. Blocks for the disk, and up to 30 s for other writers.
pub fn append_autopilot(layout: &Layout, record: &AutopilotRecord) -> Result<(), AppendError> {
    write_autopilot(layout, record, |_| None)
}

/// Adds the record of a run and takes the one out that it has already (a run that was resumed: one record a run,
/// design §9), so that the file stays in the order in which runs ended. Of several the last one is taken out,
/// which is the one that counts for readers. Blocks like [`append_autopilot`].
pub fn store_autopilot(layout: &Layout, record: &AutopilotRecord) -> Result<(), AppendError> {
    write_autopilot(layout, record, |old| line_of_run(old, &record.autopilot_run_id))
}

/// The whole line, newline included, of the last record of this run.
fn line_of_run(old: &[u8], run_id: &str) -> Option<Range<usize>> {
    let needle = memmem::Finder::new(run_id.as_bytes());
    let mut end = old.len();
    while end > 0 {
        let line = lines::around(old, end - 1);
        let whole = line.start..end;
        end = line.start;
        // A damaged line stays as it is, whatever is in it: a reader takes the last record.
        if needle.find(&old[line.clone()]).is_some()
            && matches!(lines::read_line(&old[line.clone()]), Line::Whole(_))
            && serde_json::from_slice::<RawObject>(&old[line]).is_ok_and(|theirs| is_of_run(&theirs, run_id))
        {
            return Some(whole);
        }
    }
    None
}

/// A dry run has an id that a run begun in the same minute may get, too: its record stays.
fn is_of_run(theirs: &RawObject, run_id: &str) -> bool {
    theirs.text("autopilot_run_id").is_some_and(|id| id == run_id) && !theirs.is_true("dry_run")
}

fn write_autopilot(
    layout: &Layout,
    record: &AutopilotRecord,
    replaced: impl Fn(&[u8]) -> Option<Range<usize>>,
) -> Result<(), AppendError> {
    let path = layout.autopilot_jsonl();
    let line = line_of(record);
    locked(layout, || {
        rewrite(&path, |old| {
            let Range { start, end } = replaced(old).unwrap_or(old.len()..old.len());
            let behind = &old[end..];
            let last = if behind.is_empty() { &old[..start] } else { behind };
            Some(Splice { at: start..old.len(), with: [behind, &closing_off(last, &line)].concat() })
        })
    })
    .map(drop)
    .map_err(|source| AppendError { path, record: without_newline(&line), source })
}

/// Length of `sessions.jsonl`, to be taken when a session begins and given to [`append_session`] when it has
/// ended; 0 when there is no file.
#[must_use]
pub fn sessions_length(layout: &Layout) -> u64 {
    fs::metadata(layout.sessions_jsonl()).map_or(0, |metadata| metadata.len())
}

/// Adds the record of a session, or completes the one the session wrote. Blocks like [`append_autopilot`].
///
/// `since` is [`sessions_length`] as it was when the session began. Only what was added later can be the
/// session's own: with `--chain resume` the record of an earlier iteration bears the same id, and there the
/// new one is added, the last being the one that counts for readers. 0 (not known any more, after a crash)
/// means the whole file; a record of ours that is there already is then not doubled.
pub fn append_session(
    layout: &Layout,
    record: &SessionRecord,
    since: u64,
) -> Result<SessionWrite, AppendError> {
    let path = layout.sessions_jsonl();
    let line = line_of(record);
    let label = label(layout, &record.session_id);
    locked(layout, || {
        let since = usize::try_from(since).unwrap_or(usize::MAX);
        let (_, added) = read(&path, since).map_err(FileError::at("read", &path))?;
        if completion(&added, 0, record, label.as_deref()).is_some() {
            let mut session_id = String::new();
            let completed = rewrite(&path, |old| {
                let (splice, id) = completion(old, since, record, label.as_deref())?;
                session_id = id;
                Some(splice)
            })?;
            if completed {
                return Ok(SessionWrite::Completed { session_id });
            }
        }
        append(&path, &line)?;
        Ok(SessionWrite::Appended)
    })
    .map_err(|source| AppendError { path, record: without_newline(&line), source })
}

/// The name that upstream's start hook gave to the session (`<branch>-<date>-session-<n>`), from the file in
/// which it keeps both names of the session that started last. `None` when that is another one.
fn label(layout: &Layout, session_id: &str) -> Option<String> {
    let path = layout.orchestrator().join("current-session.json");
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?;
    let mut bytes = Vec::new();
    file.take(MAX_CURRENT_SESSION).read_to_end(&mut bytes).ok()?;
    let current: RawObject = serde_json::from_slice(&bytes).ok()?;
    current.text("session_id").filter(|id| id == session_id)?;
    current.text("semantic_session_id").filter(|label| !label.is_empty())
}

/// The record as a line. `jsonl` makes two writes of it, so it gets a buffer, never the file (crates B1).
fn line_of(record: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    jsonl::write(&mut line, record).expect("plain data serialises into memory");
    line
}

fn without_newline(line: &[u8]) -> String {
    String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
}

fn locked<T>(layout: &Layout, work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    // They are made again after a `git clean`, but a repository that is gone is not.
    for folder in [layout.orchestrator(), layout.metrics()] {
        match fs::create_dir(&folder) {
            Err(error) if !folder.is_dir() => {
                return Err(FileError::at("create the folder", &folder)(error));
            }
            _ => {}
        }
    }
    with_lock(&layout.metrics_lock(), LOCK_BOUND, work)?
}

/// `line`, behind the newline that the last line of `old` may lack.
fn closing_off(old: &[u8], line: &[u8]) -> Vec<u8> {
    let mut with = Vec::with_capacity(line.len() + 1);
    if lines::is_torn(old) {
        with.push(b'\n');
    }
    with.extend_from_slice(line);
    with
}

/// One write at the end of the file, synced.
fn append(path: &Path, line: &[u8]) -> Result<(), FileError> {
    let step = FileError::at("write to", path);
    let work = || -> io::Result<bool> {
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(PRIVATE_FILE).open(path)?;
        let length = file.metadata()?.len();
        let mut last = [b'\n'];
        if length > 0 {
            file.read_exact_at(&mut last, length - 1)?;
        }
        write_line(&mut file, &closing_off(&last, line))?;
        file.sync_all()?;
        Ok(length == 0)
    };
    if work().map_err(step)? {
        sync_folder(path.parent().unwrap_or(path))?;
    }
    Ok(())
}

/// A change of a file: the bytes `at` make room for `with`.
struct Splice {
    at: Range<usize>,
    with: Vec<u8>,
}

/// Replaces the file by what `edit` makes of it; `false` when `edit` wants no change.
fn rewrite(path: &Path, mut edit: impl FnMut(&[u8]) -> Option<Splice>) -> Result<bool, FileError> {
    remove_leftovers(path);
    for _ in 0..MAX_RESTARTS {
        let (mut file, bytes) = read(path, 0).map_err(FileError::at("read", path))?;
        let Some(Splice { at, with }) = edit(&bytes) else { return Ok(false) };
        let staged = Staged::new(path, &[&bytes[..at.start], &with, &bytes[at.end..]], PRIVATE_FILE)?;
        if !is_unchanged(path, file.as_ref(), bytes.len()).map_err(FileError::at("examine", path))? {
            continue;
        }
        staged.commit()?;
        if let Some(file) = &mut file {
            carry_over(path, file, bytes.len()).map_err(FileError::at("carry over records in", path))?;
        }
        return Ok(true);
    }
    let source = io::Error::new(io::ErrorKind::ResourceBusy, "another program keeps writing to it");
    Err(FileError { step: "replace", path: path.to_owned(), source })
}

/// The file, and its bytes from `since` on: all of them when it is shorter than that (it was replaced). No
/// file and no bytes when it is not there.
fn read(path: &Path, since: usize) -> io::Result<(Option<File>, Vec<u8>)> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, Vec::new())),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    // A device or a pipe would be read for ever.
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let since = since as u64;
    let from = if since > metadata.len() { 0 } else { since };
    file.seek(SeekFrom::Start(from))?;
    // In one piece: growing step by step would copy, and touch, a long file several times over. More than
    // is there may come (a writer without lock), and less may be asked for than a damaged size says.
    let expected = usize::try_from(metadata.len() - from).unwrap_or(0).min(MAX_RESERVED);
    let mut bytes = Vec::with_capacity(expected + 1);
    file.read_to_end(&mut bytes)?;
    Ok((Some(file), bytes))
}

/// Whether `path` still is the file that was read, with nothing added.
fn is_unchanged(path: &Path, file: Option<&File>, length: usize) -> io::Result<bool> {
    let named = match fs::metadata(path) {
        Ok(named) => Some(named),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let read = file.map(File::metadata).transpose()?;
    Ok(match (named, read) {
        (None, None) => true,
        (Some(named), Some(read)) => {
            (named.dev(), named.ino(), named.len()) == (read.dev(), read.ino(), length as u64)
        }
        _ => false,
    })
}

/// What was appended to the replaced file after we read it belongs into the new one.
fn carry_over(path: &Path, old: &mut File, length: usize) -> io::Result<()> {
    if old.metadata()?.len() <= length as u64 {
        return Ok(());
    }
    let mut late = Vec::new();
    old.seek(SeekFrom::Start(length as u64))?;
    old.read_to_end(&mut late)?;
    let mut new = OpenOptions::new().append(true).open(path)?;
    new.write_all(&late)?;
    new.sync_all()
}

/// The change that completes the record which the session wrote itself, and the id it bears there.
///
/// Only from `since` on. Upstream's sessions name themselves (`main-2026-04-25-0842`), so the record of a
/// conversation is one of these, see [`belongs`]. What the session said counts before a stub that a hook
/// filled in for it, and of several the last one, as for readers (upstream-formats §5.2).
fn completion(
    old: &[u8],
    since: usize,
    record: &SessionRecord,
    label: Option<&str>,
) -> Option<(Splice, String)> {
    let since = if since > old.len() { 0 } else { since };
    let names = [Some(record.session_id.as_str()), Some(record.autopilot_run_id.as_str()), label];
    let needles = names.map(|name| name.map(|name| memmem::Finder::new(name.as_bytes()).into_owned()));
    let mut stub = None;
    let mut end = old.len();
    while end > since {
        let line = lines::around(old, end - 1);
        end = line.start;
        if !needles.iter().flatten().any(|needle| needle.find(&old[line.clone()]).is_some()) {
            continue;
        }
        let spans: Vec<_> = match lines::read_line(&old[line.clone()]) {
            Line::Blank => continue,
            Line::Whole(_) => std::iter::once(0..line.len()).collect(),
            Line::Damaged { recovered, .. } => recovered.into_iter().map(|(span, _)| span).collect(),
        };
        for span in spans.into_iter().rev() {
            let span = line.start + span.start..line.start + span.end;
            let Ok(theirs) = serde_json::from_slice::<RawObject>(&old[span.clone()]) else { continue };
            if !belongs(&theirs, record, label) {
                continue;
            }
            if !is_stub(&theirs) {
                return Some(splice(old, &line, span, &theirs, record));
            }
            stub = stub.or(Some((line.clone(), span, theirs)));
        }
    }
    let (line, span, theirs) = stub?;
    Some(splice(old, &line, span, &theirs, record))
}

/// Whether `theirs` is about the conversation of `record`. In this order: it names a conversation as its id
/// or its raw id, which then has to be this one; or it has a name of upstream's making, and that is the one
/// this conversation was given, or it was told our run (one session of a run writes at a time).
fn belongs(theirs: &RawObject, record: &SessionRecord, label: Option<&str>) -> bool {
    let named = ["session_id", "raw_session_id"].map(|key| theirs.text(key));
    if named.iter().flatten().any(|id| *id == record.session_id) {
        return true;
    }
    let [Some(id), None] = named else { return false };
    // A conversation has a UUID, so a name is told from one.
    let is_uuid = |id: &str| Uuid::parse_str(id).is_ok();
    if is_uuid(&id) || !is_uuid(&record.session_id) {
        return false;
    }
    Some(id.as_str()) == label
        || theirs.text("autopilot_run_id").is_some_and(|run| run == record.autopilot_run_id)
}

fn splice(
    old: &[u8],
    line: &Range<usize>,
    span: Range<usize>,
    theirs: &RawObject,
    record: &SessionRecord,
) -> (Splice, String) {
    let session_id = theirs.text("session_id").unwrap_or_else(|| record.session_id.clone());
    let mut with = Vec::new();
    // Out of a damaged line it gets a line of its own.
    if span.start > line.start {
        with.push(b'\n');
    }
    with.extend_from_slice(&line_of(&complete(theirs, record)));
    // Its newline stands behind the span already, unless more of a damaged line does, or nothing.
    if span.end == line.end && line.end < old.len() {
        with.pop();
    }
    (Splice { at: span, with }, session_id)
}

#[cfg(test)]
mod tests;
