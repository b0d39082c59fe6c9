//! Changing STATE.md: the recommendation for the next session, and what it should know.
//!
//! # Care
//!
//! - Only the entries and bullets in question change; every other byte of the file stays, line ends included.
//! - A front matter that cannot be read is never written over: a person has to mend it, and is told how.
//! - Before the file is replaced, the new text is read back: all fields must say what they are to say, old and
//!   new. With that, and because foreign values are never unquoted, nothing grows by being written again
//!   (upstream-formats §15.1, #739: 6.3 MB of backslashes).
//! - A result over 256 KiB, or of more than five times the old size, is refused (upstream-formats §5.5).
//! - Compare and swap: if the file changed between reading and replacing, it is read again and the change is
//!   made again. Some microseconds between the last look and the rename remain.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use thiserror::Error;

use super::front_matter::{self, Broken, FrontMatter, Value, one_line};
use super::{LARGEST, OPEN_QUESTIONS, RECOMMENDATION, WHAT_NOT_TO_RETRY, find, preferred, sections};
use crate::core::mode::Mode;
use crate::journal::js;
use crate::state::atomic::{FileError, Staged, folder_of, remove_leftovers};
use crate::state::bounded::{self, BoundedError};

/// Largest result, in bytes (upstream-formats §5.5).
const LARGEST_RESULT: usize = 256 << 10;
/// Largest growth in one go, as a factor (upstream-formats §5.5).
const LARGEST_GROWTH: usize = 5;
/// Up to this size growth is not looked at: a new file holds its first hand-over, thirty bullets at most.
const FREE_GROWTH: usize = 32 << 10;
/// Longest rationale, in characters (upstream-formats §5.5).
const LONGEST_RATIONALE: usize = 120;
/// Most priorities (upstream-formats §5.5).
const MOST_PRIORITIES: usize = 5;
/// How often a change is made again because somebody else wrote in between.
const MAX_RESTARTS: u32 = 20;
/// Where the fields of an idle reset are kept, and how many resets back.
const ARCHIVE: (&str, usize) = ("Previous Recommendations", 5);
/// The file is upstream's and people's: it is not private, as ours are.
const SHARED_FILE: u32 = 0o644;

/// What a session leaves for the next one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HandOver {
    /// `recommended-mode`. `None` takes the field out, here and below: nothing is made up.
    pub recommended_mode: Option<Mode>,
    /// `top-priorities`: issue numbers, the first five count.
    pub top_priorities: Option<Vec<i64>>,
    /// `carryover-ratio`, written with two decimals.
    pub carryover_ratio: Option<f64>,
    /// `completion-rate`, written with two decimals.
    pub completion_rate: Option<f64>,
    /// `rationale`, cut at 120 characters.
    pub rationale: Option<String>,
    /// To be added to `## What Not To Retry`.
    pub what_not_to_retry: Vec<String>,
    /// To be added to `## Open Questions`.
    pub open_questions: Vec<String>,
    /// `session-type` of a file that is made new: `feature`, `deep`, `housekeeping`.
    pub session_type: Option<String>,
    /// `branch` of a file that is made new.
    pub branch: Option<String>,
}

/// Why STATE.md was not changed. It is as it was.
#[derive(Debug, Error)]
pub enum StateMdError {
    /// It cannot be read, or is too large to be.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: BoundedError,
    },
    /// It is not text.
    #[error("{} has bytes that are not UTF-8, from byte {at} on: save it as UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Of the first one.
        at: usize,
    },
    /// Its front matter cannot be read.
    #[error("{}, line {line}: {what}: mend it or remove the front matter", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It would become too large.
    #[error("{} would grow from {from} to {to} bytes, more than the {limit} that are allowed: shorten it", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes now.
        from: usize,
        /// Bytes then.
        to: usize,
        /// The bound it breaks.
        limit: usize,
    },
    /// The new front matter would not say what it is meant to say.
    #[error("{}: the front matter would not read back: `{key}` would change: mend that field", path.display())]
    NotAFixpoint {
        /// The file.
        path: PathBuf,
        /// The field.
        key: String,
    },
    /// The system refuses.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Puts the hand-over into STATE.md, which is made if there is none. Gives its path.
///
/// Only for the holder of the repository's lock. Blocks for the disk.
pub fn write(
    root: &Path,
    state_dir: Option<&Path>,
    hand_over: &HandOver,
    now: Timestamp,
) -> Result<PathBuf, StateMdError> {
    let path = find(root, state_dir).unwrap_or_else(|| preferred(root, state_dir));
    change(&path, |old| {
        let mut draft = Draft::new(old)?;
        if draft.is_new {
            draft.found(hand_over, now);
        }
        let ratio = |value: Option<f64>| {
            let value = value.filter(|value| value.is_finite())?;
            let literal = format!("{value:.2}");
            let value = literal.parse().ok()?;
            Some((literal, Value::Float(value)))
        };
        let text = |text: String| (front_matter::text(&text), Value::Text(text));
        let priorities = hand_over.top_priorities.as_ref().map(|list| {
            let list = &list[..list.len().min(MOST_PRIORITIES)];
            let words: Vec<String> = list.iter().map(i64::to_string).collect();
            (format!("[{}]", words.join(", ")), Value::List(list.iter().copied().map(Value::Int).collect()))
        });
        let rationale = hand_over.rationale.as_ref().map(|rationale| {
            let cut: String = one_line(rationale).chars().take(LONGEST_RATIONALE).collect();
            text(cut.trim_end().to_owned())
        });
        let values = [
            hand_over.recommended_mode.map(|mode| text(mode.as_str().to_owned())),
            priorities,
            ratio(hand_over.carryover_ratio),
            ratio(hand_over.completion_rate),
            rationale,
        ];
        // A session has closed on it: the next start resets it. One that is `active` is somebody else's.
        if draft.front().get("status") == Some(&Value::Text("idle".to_owned())) {
            draft.set("status", Some(("completed".to_owned(), Value::Text("completed".to_owned()))));
        }
        draft.set("updated", Some(text(js::timestamp(now))));
        for (key, value) in RECOMMENDATION.into_iter().zip(values) {
            draft.set(key, value);
        }
        draft.add(WHAT_NOT_TO_RETRY, &hand_over.what_not_to_retry);
        draft.add(OPEN_QUESTIONS, &hand_over.open_questions);
        Ok(Some(draft))
    })?;
    Ok(path)
}

/// Begins a session the way upstream does: a `completed` state becomes `idle`, its wave 0, and the
/// recommendation leaves the front matter for `## Previous Recommendations`; all sections stay
/// (upstream-formats §5.5). `false` when there is nothing to reset.
///
/// Only for the holder of the repository's lock. Blocks for the disk.
pub fn idle_reset(root: &Path, state_dir: Option<&Path>, now: Timestamp) -> Result<bool, StateMdError> {
    let Some(path) = find(root, state_dir) else { return Ok(false) };
    change(&path, |old| {
        let mut draft = Draft::new(old)?;
        let completed = Value::Text("completed".to_owned());
        if draft.is_new || draft.front().get("status") != Some(&completed) {
            return Ok(None);
        }
        let archived: Vec<String> = RECOMMENDATION
            .into_iter()
            .filter_map(|key| draft.front().entries.into_iter().rev().find(|entry| entry.key == key))
            .map(|entry| one_line(&draft.text[entry.span]))
            .collect();
        draft.set("status", Some(("idle".to_owned(), Value::Text("idle".to_owned()))));
        draft.set("current-wave", Some(("0".to_owned(), Value::Int(0))));
        for key in RECOMMENDATION {
            draft.set(key, None);
        }
        if !archived.is_empty() {
            draft.add(ARCHIVE, &[format!("{}: {}", js::timestamp(now), archived.join("; "))]);
        }
        Ok(Some(draft))
    })
}

/// A STATE.md that is being changed, readable at every step.
#[derive(Debug)]
struct Draft {
    text: String,
    /// Ends the lines that are added.
    newline: &'static str,
    /// There is no front matter yet.
    is_new: bool,
    /// What the fields must say in the end.
    expected: Vec<(String, Value)>,
}

impl Draft {
    fn new(text: &str) -> Result<Draft, Broken> {
        let found = front_matter::parse(text)?;
        let first = text.split_once('\n').map_or("", |(first, _)| first);
        let newline = if first.ends_with('\r') { "\r\n" } else { "\n" };
        let expected = found.iter().flat_map(FrontMatter::values);
        let expected = expected.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        Ok(Draft { text: text.to_owned(), newline, is_new: found.is_none(), expected })
    }

    /// Puts a minimal front matter before whatever is there.
    fn found(&mut self, hand_over: &HandOver, now: Timestamp) {
        let at = front_matter::mark(&self.text);
        let nl = self.newline;
        let title = if self.text[at..].trim().is_empty() {
            [nl, "# Session State", nl].concat()
        } else {
            nl.to_owned()
        };
        self.text.insert_str(at, &["---", nl, "---", nl, &title].concat());
        let text = |text: &str| Some((front_matter::text(text), Value::Text(one_line(text))));
        let zero = || Some(("0".to_owned(), Value::Int(0)));
        self.set("schema-version", Some(("1".to_owned(), Value::Int(1))));
        self.set("session-type", text(hand_over.session_type.as_deref().unwrap_or("none")));
        self.set("branch", hand_over.branch.as_deref().map_or(Some(("null".to_owned(), Value::Null)), text));
        self.set("issues", Some(("[]".to_owned(), Value::List(Vec::new()))));
        self.set("started_at", text(&js::timestamp(now)));
        self.set("status", text("completed"));
        self.set("current-wave", zero());
        self.set("total-waves", zero());
    }

    /// The front matter as it is now.
    fn front(&self) -> FrontMatter {
        let none = FrontMatter { entries: Vec::new(), end: 0, body: 0 };
        front_matter::parse(&self.text).ok().flatten().unwrap_or(none)
    }

    /// Sets a field to a literal and what it means, or takes it out. Repeated keys become one.
    fn set(&mut self, key: &str, to: Option<(String, Value)>) {
        let front = self.front();
        let mut line = to.as_ref().map(|(literal, _)| [key, ": ", literal, self.newline].concat());
        let mut entries = front.entries.iter().filter(|entry| entry.key == key).rev().peekable();
        if entries.peek().is_none()
            && let Some(line) = &line
        {
            self.text.insert_str(front.end, line);
        }
        // From the back, so that the places of those before stay true. The last one is the one that counts.
        for entry in entries {
            self.text.replace_range(entry.span.clone(), &line.take().unwrap_or_default());
        }
        self.expected.retain(|(other, _)| other != key);
        self.expected.extend(to.map(|(_, value)| (key.to_owned(), value)));
    }

    fn add(&mut self, (title, cap): (&str, usize), bullets: &[String]) {
        self.text = sections::merge(&self.text, self.front().body, title, bullets, cap, self.newline);
    }

    /// A field that would not say what it is to say.
    fn mistake(&self) -> Option<String> {
        let Ok(Some(front)) = front_matter::parse(&self.text) else { return Some("---".to_owned()) };
        let found = front.values();
        let differs = |key: &str, value: &Value| {
            found.iter().find(|(other, _)| *other == key).is_none_or(|(_, other)| *other != value)
        };
        let changed =
            self.expected.iter().find(|(key, value)| differs(key, value)).map(|(key, _)| key.clone());
        let extra = || {
            let unknown = |key: &str| !self.expected.iter().any(|(other, _)| other == key);
            found.iter().find(|(key, _)| unknown(key)).map(|(key, _)| (*key).to_owned())
        };
        changed.or_else(extra)
    }
}

/// Reads the file, lets `edit` make a draft of it, and puts that in its place; `false` when `edit` wants no
/// change, or none comes of it.
fn change(
    path: &Path,
    mut edit: impl FnMut(&str) -> Result<Option<Draft>, Broken>,
) -> Result<bool, StateMdError> {
    remove_leftovers(path);
    for _ in 0..MAX_RESTARTS {
        let old = bytes(path)?;
        let text = std::str::from_utf8(old.as_deref().unwrap_or_default())
            .map_err(|error| StateMdError::NotText { path: path.to_owned(), at: error.valid_up_to() })?;
        let draft = edit(text).map_err(|Broken { line, what }| StateMdError::Broken {
            path: path.to_owned(),
            line,
            what,
        })?;
        let Some(draft) = draft.filter(|draft| draft.text != text) else { return Ok(false) };
        check(path, text, &draft)?;
        make_folder(path)?;
        let staged = Staged::new(path, &[draft.text.as_bytes()], SHARED_FILE)?;
        if bytes(path)? == old {
            staged.commit()?;
            return Ok(true);
        }
    }
    let source = io::Error::new(io::ErrorKind::ResourceBusy, "another program keeps writing to it");
    Err(FileError { step: "replace", path: path.to_owned(), source }.into())
}

fn bytes(path: &Path) -> Result<Option<Vec<u8>>, StateMdError> {
    match bounded::read(path, LARGEST) {
        Ok(file) => Ok(file.map(|file| file.bytes)),
        Err(source) => Err(StateMdError::Unreadable { path: path.to_owned(), source }),
    }
}

/// The guards.
fn check(path: &Path, old: &str, draft: &Draft) -> Result<(), StateMdError> {
    let (from, to) = (old.len(), draft.text.len());
    let limit = LARGEST_RESULT.min((from * LARGEST_GROWTH).max(FREE_GROWTH));
    if to > limit {
        return Err(StateMdError::TooLarge { path: path.to_owned(), from, to, limit });
    }
    match draft.mistake() {
        Some(key) => Err(StateMdError::NotAFixpoint { path: path.to_owned(), key }),
        None => Ok(()),
    }
}

/// Makes the folder of the file, but not the repository around it.
fn make_folder(path: &Path) -> Result<(), FileError> {
    let folder = folder_of(path);
    match fs::create_dir(folder) {
        Err(error) if !folder.is_dir() => Err(FileError::at("create the folder", folder)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::atomic::replace;

    /// A change that adds a line to the end, while `meanwhile` happens to the file.
    fn add_line(path: &Path, mut meanwhile: impl FnMut(&Path)) -> Result<bool, StateMdError> {
        change(path, |old| {
            meanwhile(path);
            let mut draft = Draft::new(old)?;
            draft.text.push_str("ours\n");
            Ok(Some(draft))
        })
    }

    #[test]
    fn what_others_write_in_between_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("STATE.md");
        let text = || fs::read_to_string(&path).unwrap();
        replace(&path, b"---\na: 1\n---\n", 0o644).unwrap();
        let mut rounds = 0;
        let done = add_line(&path, |path| {
            rounds += 1;
            if rounds <= 3 {
                let more = text() + "theirs\n";
                replace(path, more.as_bytes(), 0o644).unwrap();
            }
        });
        assert!(done.unwrap());
        assert_eq!((rounds, text().as_str()), (4, "---\na: 1\n---\ntheirs\ntheirs\ntheirs\nours\n"));
        // One that never rests is not waited for.
        let error =
            add_line(&path, |path| replace(path, (text() + "x").as_bytes(), 0o644).unwrap()).unwrap_err();
        assert!(error.to_string().contains("keeps writing"), "{error}");
        assert!(!text()[40..].contains("ours\nours"));
        // Removed in between: made anew, from nothing.
        let mut first = true;
        add_line(&path, |path| {
            if std::mem::take(&mut first) {
                fs::remove_file(path).unwrap();
            }
        })
        .unwrap_err();
        assert!(!path.exists(), "a text without front matter is no STATE.md");
    }

    #[test]
    fn a_front_matter_that_would_not_read_back_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("STATE.md");
        let old = "---\na: 1\nb: 2\n---\n";
        replace(&path, old.as_bytes(), 0o644).unwrap();
        let check = |key: &str, spoil: &dyn Fn(&mut Draft)| {
            let error = change(&path, |old| {
                let mut draft = Draft::new(old)?;
                spoil(&mut draft);
                Ok(Some(draft))
            })
            .unwrap_err();
            assert!(
                matches!(&error, StateMdError::NotAFixpoint { key: found, .. } if found == key),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), old);
        };
        check("a", &|draft| draft.set("a", Some(("2".to_owned(), Value::Text("2".to_owned())))));
        check("c", &|draft| draft.set("c", Some(("x\nd: 1".to_owned(), Value::Text("x\nd: 1".to_owned())))));
        check("b", &|draft| draft.text = draft.text.replace("b: 2\n", ""));
        check("e", &|draft| draft.text = draft.text.replace("b: 2\n", "b: 2\ne: 3\n"));
        check("---", &|draft| draft.text = draft.text.replace("b: 2\n", " b: 2\n"));
    }
}
