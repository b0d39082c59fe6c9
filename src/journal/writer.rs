//! Writing the event journal of a run: `events.jsonl`.
//!
//! # How
//!
//! The journal has a thread of its own behind a bounded queue, so that a slow disk does not stop the driver
//! from reading a child's output. An event is serialised by the caller and written with one `write_all`
//! (`O_APPEND`). What the run's state depends on ([`RunEvent::is_durable`]) is also synced, and the caller
//! can wait for that ([`Journal::append_durable`]) before it does what the event announces. Events that wait in the
//! queue together share one sync.
//!
//! # Invariants
//!
//! - Sequence numbers count up without a gap over the life of the file, also across [`Journal::open`] by
//!   `resume`.
//! - A torn last line is closed off before anything is added, never glued to, never removed.
//! - A journal of a newer format is not written to.
//! - After the first failure nothing more is written (the file may end in half a line). The failure is
//!   given to everyone who waits, to every later append, and to [`Journal::finish`]; the caller ends the
//!   run with exit code 23. A run without its record would have to be guessed at by `resume`.
//! - A journal that was removed under us (a session's `git clean -fdx`) is restored, with all it had, at
//!   the next durable event: the open descriptor still has the bytes.
//!
//! # Pitfalls
//!
//! A full queue makes [`Journal::append`] wait for the disk. Events are few; a thousand of them waiting
//! means that the disk hangs, and then the run should too.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::iter;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::core::published::{FORMAT, RunEvent};
use crate::core::time::Now;
use crate::state::atomic::{FileError, PRIVATE_FILE, folder_of, sync_folder, write_line};

use super::reader::{ReadError, read_journal};

/// Events that may wait for the disk.
const QUEUE: usize = 1024;

/// The journal cannot be written. Cheap to clone: everyone gets the first failure.
#[derive(Debug, Clone, Error)]
pub enum JournalError {
    /// The system refused.
    #[error(transparent)]
    File(Arc<FileError>),
    /// What is there cannot be continued.
    #[error(transparent)]
    Unreadable(Arc<ReadError>),
    /// The thread of the journal is gone (it panicked).
    #[error("the journal's thread ended before its time")]
    Gone,
}

impl From<FileError> for JournalError {
    fn from(error: FileError) -> JournalError {
        JournalError::File(Arc::new(error))
    }
}

impl JournalError {
    /// Whether the disk, a quota or a size limit is what stopped it.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, JournalError::File(error) if error.is_disk_full())
    }
}

/// One event on its way to the disk.
struct Job {
    line: Vec<u8>,
    sync: bool,
    ack: Option<oneshot::Sender<Result<(), JournalError>>>,
}

/// The event journal of a run, open for writing.
#[derive(Debug)]
pub struct Journal {
    queue: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<JournalError>>,
    next_seq: u64,
}

/// Says when an event is safely on the disk. Dropping it changes nothing.
#[derive(Debug)]
#[must_use = "the event is only known to be on the disk once this was waited for"]
pub struct Ack(oneshot::Receiver<Result<(), JournalError>>);

impl Ack {
    /// Waits, without blocking the thread.
    pub async fn wait(self) -> Result<(), JournalError> {
        self.0.await.unwrap_or(Err(JournalError::Gone))
    }

    /// Waits and blocks the thread. Not for use inside of a runtime.
    ///
    /// # Panics
    ///
    /// Inside of an asynchronous context.
    pub fn wait_blocking(self) -> Result<(), JournalError> {
        self.0.blocking_recv().unwrap_or(Err(JournalError::Gone))
    }
}

impl Journal {
    /// Opens the journal at `path`, new or to be continued. The folder must exist.
    pub fn open(path: &Path) -> Result<Journal, JournalError> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(PRIVATE_FILE)
            .open(path)
            .map_err(FileError::at("open", path))?;
        let metadata = file.metadata().map_err(FileError::at("examine", path))?;
        let mut sink = Sink { path: path.to_owned(), file };
        let mut next_seq = 0;
        if metadata.is_file() && metadata.len() > 0 {
            let replay = read_journal(path).map_err(|error| JournalError::Unreadable(Arc::new(error)))?;
            next_seq = replay.last_seq.map_or(0, |seq| seq + 1);
            let mut last = [0];
            sink.file.read_exact_at(&mut last, metadata.len() - 1).map_err(FileError::at("read", path))?;
            if last != *b"\n" {
                sink.write(b"\n")?;
            }
        } else if metadata.is_file() {
            sync_folder(folder_of(path))?;
        }
        let (queue, jobs) = sync_channel(QUEUE);
        let failure = Arc::new(OnceLock::new());
        let remembered = Arc::clone(&failure);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || sink.serve(&jobs, &remembered))
            .map_err(FileError::at("start a thread for", path))?;
        Ok(Journal { queue: Some(queue), thread: Some(thread), failure, next_seq })
    }

    /// Sequence number of the next event.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Queues an event; one that is not for the journal ([`RunEvent::is_journaled`]) is passed over. Durable
    /// events are synced in their turn.
    ///
    /// Fails if an *earlier* event could not be written.
    pub fn append(&mut self, event: &RunEvent, now: Now) -> Result<(), JournalError> {
        if !event.is_journaled() {
            return self.failure.get().map_or(Ok(()), |error| Err(error.clone()));
        }
        self.queue(event, now, event.is_durable(), None)
    }

    /// Queues an event, to be synced; the [`Ack`] says when that is done.
    pub fn append_durable(&mut self, event: &RunEvent, now: Now) -> Result<Ack, JournalError> {
        let (ack, done) = oneshot::channel();
        self.queue(event, now, true, Some(ack))?;
        Ok(Ack(done))
    }

    /// Says when everything that was given to it so far is on the disk.
    pub fn all_stored(&mut self) -> Result<Ack, JournalError> {
        let (ack, done) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(JournalError::Gone)?;
        queue.send(Job { line: Vec::new(), sync: true, ack: Some(ack) }).map_err(|_| JournalError::Gone)?;
        Ok(Ack(done))
    }

    /// Waits until everything is written and synced; the first failure, if there was one.
    pub fn finish(mut self) -> Result<(), JournalError> {
        self.close()
    }

    fn queue(
        &mut self,
        event: &RunEvent,
        now: Now,
        sync: bool,
        ack: Option<oneshot::Sender<Result<(), JournalError>>>,
    ) -> Result<(), JournalError> {
        #[derive(Serialize)]
        struct Line<'a> {
            v: u32,
            seq: u64,
            at: Timestamp,
            event: &'a RunEvent,
        }
        if let Some(error) = self.failure.get() {
            return Err(error.clone());
        }
        let line = Line { v: FORMAT, seq: self.next_seq, at: now.wall, event };
        let mut line = serde_json::to_vec(&line).expect("events are plain data");
        line.push(b'\n');
        let queue = self.queue.as_ref().ok_or(JournalError::Gone)?;
        queue.send(Job { line, sync, ack }).map_err(|_| JournalError::Gone)?;
        self.next_seq += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), JournalError> {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            return Err(JournalError::Gone);
        }
        self.failure.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Every way out of the program lets the queue run dry.
        self.close().ok();
    }
}

/// The file, on the journal's thread.
struct Sink {
    path: PathBuf,
    file: File,
}

impl Sink {
    fn serve(mut self, jobs: &Receiver<Job>, failure: &OnceLock<JournalError>) {
        let mut unsynced = false;
        while let Ok(first) = jobs.recv() {
            // One sync for all that wait: events come in groups, and each sync is a wait for the disk.
            let batch: Vec<Job> = iter::once(first).chain(jobs.try_iter().take(QUEUE)).collect();
            let sync = batch.iter().any(|job| job.sync);
            let result = match failure.get() {
                Some(error) => Err(error.clone()),
                None => self.store(&batch, sync),
            };
            unsynced = !sync;
            if let Err(error) = &result {
                failure.get_or_init(|| error.clone());
            }
            for ack in batch.into_iter().filter_map(|job| job.ack) {
                ack.send(result.clone()).ok();
            }
        }
        if unsynced
            && failure.get().is_none()
            && let Err(error) = self.sync()
        {
            failure.get_or_init(|| error);
        }
    }

    fn store(&mut self, batch: &[Job], sync: bool) -> Result<(), JournalError> {
        for job in batch.iter().filter(|job| !job.line.is_empty()) {
            self.write(&job.line)?;
        }
        if sync {
            self.sync()?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        Ok(write_line(&mut self.file, bytes).map_err(FileError::at("write to", &self.path))?)
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        let metadata = self.file.metadata().map_err(FileError::at("examine", &self.path))?;
        if metadata.nlink() == 0 {
            self.restore(metadata.len()).map_err(FileError::at("restore", &self.path))?;
        }
        match self.file.sync_data() {
            // Pipes and terminals cannot be synced, and need not be.
            Err(error) if metadata.is_file() => Err(FileError::at("sync", &self.path)(error).into()),
            _ => Ok(()),
        }
    }

    /// The file was removed: writes it anew from the descriptor that still has it.
    fn restore(&mut self, length: u64) -> io::Result<()> {
        let folder = folder_of(&self.path);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, 0)?;
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .mode(PRIVATE_FILE)
            .open(&self.path)?;
        file.write_all(&bytes)?;
        File::open(folder)?.sync_all()?;
        self.file = file;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::journal::reader::Replay;

    fn now() -> Now {
        Now { mono: Duration::ZERO, wall: "2026-04-25T08:42:00Z".parse().unwrap() }
    }

    fn warning(text: &str) -> RunEvent {
        RunEvent::Warning { text: text.to_owned() }
    }

    fn texts(replay: &Replay) -> Vec<(u64, String)> {
        let text = |event: &RunEvent| match event {
            RunEvent::Warning { text } => text.clone(),
            other => format!("{other:?}"),
        };
        replay.entries.iter().map(|entry| (entry.seq, text(&entry.event))).collect()
    }

    fn expected(texts: &[(u64, &str)]) -> Vec<(u64, String)> {
        texts.iter().map(|(seq, text)| (*seq, (*text).to_owned())).collect()
    }

    #[test]
    fn writes_what_it_is_given_and_goes_on_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(&warning("a"), now()).unwrap();
        journal.append(&RunEvent::Progress { output_tokens: 1, cost_usd: None }, now()).unwrap();
        journal.append_durable(&warning("b"), now()).unwrap().wait_blocking().unwrap();
        // Already readable while the journal is open.
        assert_eq!(texts(&read_journal(&path).unwrap()), expected(&[(0, "a"), (1, "b")]));
        journal.finish().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        // Killed in the middle of a line, and resumed.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"v\":1,\"se").unwrap();
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.next_seq(), 2);
        journal.append(&warning("c"), now()).unwrap();
        journal.finish().unwrap();
        let replay = read_journal(&path).unwrap();
        assert_eq!(texts(&replay), expected(&[(0, "a"), (1, "b"), (2, "c")]));
        assert_eq!((replay.bad_lines, replay.torn_tail), (1, false));
    }

    #[tokio::test]
    async fn an_ack_can_be_awaited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.append_durable(&warning("a"), now()).unwrap().wait().await.unwrap();
        assert_eq!(read_journal(&path).unwrap().entries.len(), 1);
    }

    #[test]
    fn all_that_was_given_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        for text in ["a", "b"] {
            journal.append(&warning(text), now()).unwrap();
        }
        journal.all_stored().unwrap().wait_blocking().unwrap();
        assert_eq!(texts(&read_journal(&path).unwrap()), expected(&[(0, "a"), (1, "b")]));
        journal.append(&warning("c"), now()).unwrap();
        journal.finish().unwrap();
        assert_eq!(read_journal(&path).unwrap().last_seq, Some(2));
    }

    #[test]
    fn more_than_the_queue_holds_is_written_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        for number in 0..3 * QUEUE {
            journal.append(&warning(&number.to_string()), now()).unwrap();
        }
        drop(journal);
        let replay = read_journal(&path).unwrap();
        assert_eq!(replay.entries.len(), 3 * QUEUE);
        assert!(replay.entries.iter().zip(0..).all(|(entry, seq)| entry.seq == seq));
    }

    #[test]
    fn a_full_disk_is_remembered() {
        let mut journal = Journal::open(Path::new("/dev/full")).unwrap();
        let error = journal.append_durable(&warning("a"), now()).unwrap().wait_blocking().unwrap_err();
        assert!(error.is_disk_full() && error.to_string().contains("/dev/full"), "{error}");
        assert!(journal.append(&warning("b"), now()).unwrap_err().is_disk_full());
        assert!(journal.append(&RunEvent::Progress { output_tokens: 1, cost_usd: None }, now()).is_err());
        assert!(journal.finish().unwrap_err().is_disk_full());
    }

    #[test]
    fn a_removed_journal_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs/x/events.jsonl");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        journal.append_durable(&warning("a"), now()).unwrap().wait_blocking().unwrap();
        fs::remove_dir_all(folder.path().join("runs")).unwrap();
        journal.append(&warning("b"), now()).unwrap();
        journal.append_durable(&warning("c"), now()).unwrap().wait_blocking().unwrap();
        journal.append(&warning("d"), now()).unwrap();
        journal.finish().unwrap();
        let all = expected(&[(0, "a"), (1, "b"), (2, "c"), (3, "d")]);
        assert_eq!(texts(&read_journal(&path).unwrap()), all);
    }

    #[test]
    fn a_newer_journal_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        crate::state::atomic::replace(&path, b"{\"v\":2}\n", 0o600).unwrap();
        assert!(matches!(Journal::open(&path).unwrap_err(), JournalError::Unreadable(_)));
        assert_eq!(fs::read(&path).unwrap(), b"{\"v\":2}\n");
    }

    const KILLED: &str = "AUTOPILOT_TEST_JOURNAL";

    /// With the variable set: writes for ever and says which events it was told are safe.
    #[test]
    fn journal_process() {
        let own = tempfile::tempdir().unwrap();
        let (path, count) = match std::env::var(KILLED) {
            Ok(path) => (PathBuf::from(path), usize::MAX),
            Err(_) => (own.path().join("events.jsonl"), 3),
        };
        let mut journal = Journal::open(&path).unwrap();
        for number in 0..count {
            let seq = journal.next_seq();
            journal.append(&warning(&"x".repeat(number * 997 % 70_000)), now()).unwrap();
            journal.append_durable(&warning("y"), now()).unwrap().wait_blocking().unwrap();
            println!("safe {seq}");
        }
        journal.finish().unwrap();
        assert_eq!(read_journal(&path).unwrap().entries.len(), 2 * count);
    }

    #[test]
    fn kill_9_loses_nothing_that_was_acknowledged() {
        use std::io::BufRead as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut safe = Vec::new();
        for round in 0..4 {
            let name = "journal::writer::tests::journal_process";
            let mut child = crate::journal::start_self(name, "", &[(KILLED, path.to_str().unwrap())]);
            let output = std::io::BufReader::new(child.stdout.take().unwrap());
            for (number, line) in output.lines().enumerate() {
                if let Some((_, seq)) = line.unwrap().split_once("safe ") {
                    safe.push(seq.parse::<u64>().unwrap());
                }
                if number == 10 + round {
                    child.kill().unwrap();
                }
            }
            child.wait().unwrap();
        }
        let mut journal = Journal::open(&path).unwrap();
        journal.append(&warning("after"), now()).unwrap();
        journal.finish().unwrap();
        let replay = read_journal(&path).unwrap();
        // Not one number is missing or used twice, whatever was cut off.
        let numbers: Vec<_> = replay.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
        assert!(safe.len() >= 30 && safe.iter().all(|seq| seq + 1 < numbers.len() as u64));
        assert!(!replay.torn_tail && replay.bad_lines <= 4);
    }
}
