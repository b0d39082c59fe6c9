//! What the double remembers between calls and tells the test, in the folder `FAKE_CLAUDE_STATE`.
//!
//! | path | content |
//! |---|---|
//! | `calls/0001.json` | one record a call, rewritten (atomically) as the call goes on |
//! | `events.jsonl` | marks in the order they happened: `started`, `prompt`, `hang`, `mark`, `signal`, `ended`, … |
//! | `violations.jsonl` | what no driver may cause: two live processes on one session id or work tree, an unscripted prompt |
//! | `shadow/<ENC>/<id>.jsonl` | the transcripts as the double left them |
//! | `work.jsonl` | files and commits the double made in the work tree |
//! | `grandchildren/<pid>.json` | processes left behind on purpose |
//! | `totals/<id>.json` | running cost of a conversation |
//!
//! Safe with parallel calls: the counter is kept under a lock, every log line is one append.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

/// The folder.
pub(crate) struct State {
    root: PathBuf,
}

impl State {
    /// Opens (and completes) the folder.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        for folder in ["calls", "grandchildren", "locks", "shadow", "totals", "used_ids"] {
            fs::create_dir_all(root.join(folder))?;
        }
        Ok(Self { root: root.to_path_buf() })
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Takes the next call number, from 1.
    pub(crate) fn next_call(&self) -> io::Result<u64> {
        let _guard = self.guard()?;
        let path = self.path("counter");
        let last: u64 = fs::read_to_string(&path).ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0);
        fs::write(path, (last + 1).to_string())?;
        Ok(last + 1)
    }

    /// Marks `id` as used and says whether it was before.
    pub(crate) fn use_id(&self, id: &str) -> io::Result<bool> {
        match OpenOptions::new().write(true).create_new(true).open(self.path("used_ids").join(id)) {
            Ok(_) => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// The running totals of a conversation, changed by `change` under the lock.
    pub(crate) fn totals(&self, id: &str, change: impl FnOnce(&mut Value)) -> io::Result<Value> {
        let _guard = self.guard()?;
        let path = self.path("totals").join(format!("{id}.json"));
        let mut totals = fs::read_to_string(&path)
            .ok()
            .and_then(|t| serde_json::from_str(&t).ok())
            .unwrap_or_else(|| json!({"cost": 0.0, "models": {}}));
        change(&mut totals);
        fs::write(path, totals.to_string())?;
        Ok(totals)
    }

    /// Appends a line to one of the logs.
    pub(crate) fn log(&self, name: &str, entry: &Value) {
        let line = format!("{entry}\n");
        // A state folder that is gone means that the test is over: nobody is left to tell.
        if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(self.path(name)) {
            file.write_all(line.as_bytes()).ok();
        }
    }

    /// Claims `name` for the life of the returned file; `None` when a live process holds it.
    pub(crate) fn claim(&self, name: &str) -> io::Result<Option<File>> {
        let path = self.path("locks").join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn guard(&self) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.path("lock"))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }
}

/// The record of one call, shared by the threads of the double.
pub(crate) struct Call {
    pub(crate) number: u64,
    state: State,
    record: Mutex<Value>,
}

impl Call {
    /// Starts the record with what is known before anything is read.
    pub(crate) fn begin(state: State, number: u64, argv: &[String]) -> Self {
        let env: serde_json::Map<String, Value> = std::env::vars_os()
            .map(|(k, v)| (k.to_string_lossy().into_owned(), v.to_string_lossy().into_owned().into()))
            .collect();
        let cwd = std::env::current_dir().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
        let record = json!({
            "call": number, "pid": std::process::id(), "argv": argv, "env": env, "cwd": cwd,
            "started_ms": now_ms(), "prompts": [], "hook_answers": [], "permission_answers": [],
            "controls": [], "stdin_bytes": 0, "results": [],
        });
        Self { number, state, record: Mutex::new(record) }
    }

    /// The state folder.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Changes the record and saves it.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Value)) {
        let mut record = self.lock();
        change(&mut record);
        let path = self.state.path("calls").join(format!("{:04}.json", self.number));
        let temporary = path.with_extension("tmp");
        // As for logs: no folder, nobody to tell.
        if fs::write(&temporary, record.to_string()).is_ok() {
            fs::rename(&temporary, &path).ok();
        }
    }

    /// Appends `value` to a list of the record.
    pub(crate) fn push(&self, list: &str, value: Value) {
        self.update(|record| {
            if let Some(list) = record[list].as_array_mut() {
                list.push(value);
            }
        });
    }

    /// Logs a mark that tests can wait for.
    pub(crate) fn event(&self, event: &str, detail: &Value) {
        self.state.log(
            "events.jsonl",
            &json!({"call": self.number, "pid": std::process::id(), "event": event, "detail": detail, "ms": now_ms()}),
        );
    }

    /// Logs what no driver may cause.
    pub(crate) fn violation(&self, kind: &str, detail: &str) {
        self.state.log(
            "violations.jsonl",
            &json!({"call": self.number, "pid": std::process::id(), "kind": kind, "detail": detail, "ms": now_ms()}),
        );
    }

    /// Ends the record and the process. The first of the threads to come here wins.
    pub(crate) fn leave(&self, code: i32) -> ! {
        self.update(|record| {
            record["exit"] = code.into();
            record["ended_ms"] = now_ms().into();
        });
        self.event("ended", &code.into());
        // Held to the end: no second thread gets past this line.
        let _last = self.lock();
        std::process::exit(code)
    }

    fn lock(&self) -> MutexGuard<'_, Value> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wall clock, milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
