//! The conversation file (claude-code §4), written the way the CLI writes it, plus a shadow copy:
//! a test compares the two and so finds any byte that somebody else changed.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::encoding;

/// One conversation file.
pub(crate) struct Transcript {
    path: PathBuf,
    shadow: PathBuf,
    parent: Value,
    id: String,
    cwd: String,
}

impl Transcript {
    /// The file of `id` in `cwd`; nothing is created yet.
    pub(crate) fn new(config_dir: &Path, shadows: &Path, cwd: &Path, id: &str) -> Self {
        let path = encoding::transcript_path(config_dir, cwd, id);
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let shadow = shadows.join(folder).join(format!("{id}.jsonl"));
        let cwd = cwd.to_string_lossy().into_owned();
        Self { path, shadow, parent: Value::Null, id: id.to_owned(), cwd }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file holds a message: without one the id can neither be resumed nor used again.
    pub(crate) fn has_message(&self) -> bool {
        let Ok(file) = fs::File::open(&self.path) else { return false };
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let kind = serde_json::from_slice::<Value>(&line)
                .ok()
                .and_then(|v| Some(v["type"].as_str()?.to_owned()));
            if matches!(kind.as_deref(), Some("user" | "assistant")) {
                return true;
            }
            line.clear();
        }
        false
    }

    /// Appends a message entry with the fields every entry has.
    pub(crate) fn entry(&mut self, kind: &str, fields: &Value) -> io::Result<()> {
        let uuid = uuid::Uuid::new_v4().to_string();
        let mut entry = json!({
            "type": kind, "uuid": uuid, "parentUuid": self.parent, "sessionId": self.id, "cwd": self.cwd,
            "isSidechain": false, "userType": "external", "version": crate::VERSION, "gitBranch": "main",
            "timestamp": timestamp(),
        });
        merge(&mut entry, fields);
        if entry["isSidechain"] == false {
            self.parent = uuid.into();
        }
        self.raw(format!("{entry}\n").as_bytes())
    }

    /// Appends a line without the message fields (`queue-operation`, `cost-state`, …).
    pub(crate) fn line(&mut self, entry: &Value) -> io::Result<()> {
        self.raw(format!("{entry}\n").as_bytes())
    }

    /// Appends bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.prepare()?;
        // The shadow first: after a kill in between, the file is a beginning of its shadow.
        for path in [&self.shadow, &self.path] {
            OpenOptions::new().append(true).create(true).mode(0o600).open(path)?.write_all(bytes)?;
        }
        Ok(())
    }

    /// Cuts `bytes` off the end.
    pub(crate) fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.prepare()?;
        for path in [&self.path, &self.shadow] {
            let file = OpenOptions::new().write(true).open(path)?;
            let length = file.metadata()?.len();
            file.set_len(length.saturating_sub(bytes))?;
        }
        Ok(())
    }

    /// Creates the folders and takes an existing file without a shadow as it is.
    fn prepare(&self) -> io::Result<()> {
        for path in [&self.path, &self.shadow] {
            if let Some(folder) = path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
        }
        if self.path.exists() && !self.shadow.exists() {
            fs::copy(&self.path, &self.shadow)?;
        }
        if !self.path.exists() && self.shadow.exists() {
            // Moved away by the driver (quarantine): the copy follows, the id starts afresh.
            fs::rename(
                &self.shadow,
                self.shadow.with_extension(format!("moved-{}", crate::state::now_ms())),
            )?;
        }
        Ok(())
    }
}

/// Puts the members of `from` over those of `into`; `null` removes one.
pub(crate) fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        for (key, value) in from {
            if value.is_null() {
                into.remove(key);
            } else {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Now, as the CLI writes it.
pub(crate) fn timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
