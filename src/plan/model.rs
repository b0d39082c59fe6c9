//! Files in memory, with a person at the keyboard: what the property tests run the edits against.
//!
//! Names point at inodes, as on a disk. A person's editor saves either by writing a new file and renaming it
//! over the old one, or by emptying the file it has open and writing into it in two parts, wherever its name
//! has gone meanwhile. Before each step of ours as many of the person's moves are made as the schedule says,
//! and at a chosen step the power may fail.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::swap::Files;

/// How a person saves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saving {
    /// A new file, renamed over the old one.
    Rename,
    /// Emptied and written again.
    InPlace,
}

/// What a person changes, seeing the lines of a file.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// A line at the end.
    Add(String),
    /// The nth line gets a text at its end.
    Edit(usize, String),
    /// The nth line goes.
    Delete(usize),
}

/// An edit of a person from opening the file to closing it.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) file: &'static str,
    pub(super) saving: Saving,
    pub(super) change: Change,
}

#[derive(Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    changed: u64,
}

impl std::fmt::Debug for Inode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:?}", self.changed, String::from_utf8_lossy(&self.bytes))
    }
}

/// What the editor does next.
#[derive(Debug, Clone)]
enum Editor {
    /// It has read the file and changed the text: the new text.
    Open(Edit, Vec<u8>),
    /// It has emptied the inode, and this is to be written.
    Writing(usize, Vec<u8>),
}

/// The disk and the person.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    names: BTreeMap<PathBuf, usize>,
    inodes: Vec<Inode>,
    clock: u64,
    steps: usize,
    /// Before which steps of ours the person makes a move.
    pub(super) schedule: Vec<usize>,
    /// What they do, first one last.
    pub(super) edits: Vec<Edit>,
    editor: Option<Editor>,
    /// The step at which the power fails.
    pub(super) fails_at: Option<usize>,
    /// Lines the person has saved, and not deleted or changed since.
    pub(super) wanted: Vec<String>,
}

const KEPT: &str = "kept";

impl Model {
    pub(super) fn with(name: &str, bytes: &[u8]) -> Model {
        let mut model = Model::default();
        model.set(Path::new(name), bytes.to_vec());
        model
    }

    pub(super) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        self.names.get(Path::new(name)).map(|inode| self.inodes[*inode].bytes.clone())
    }

    /// All there is, without copies whose contents are known to be elsewhere.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.keys().map(|path| path.to_string_lossy().into_owned()).collect()
    }

    pub(super) fn set(&mut self, path: &Path, bytes: Vec<u8>) {
        self.inodes.push(Inode { bytes, changed: self.clock });
        self.names.insert(path.to_owned(), self.inodes.len() - 1);
    }

    /// Time passes, longer than any save takes.
    pub(super) fn wait(&mut self) {
        self.clock += 10_000;
    }

    /// The person finishes all they had in mind, and nothing fails any more.
    pub(super) fn calm_down(&mut self) {
        self.fails_at = None;
        self.schedule.clear();
        while self.editor.is_some() || !self.edits.is_empty() {
            self.person();
        }
    }

    fn step(&mut self) -> io::Result<()> {
        self.clock += 1;
        while let Some(at) = self.schedule.iter().position(|step| *step == self.steps) {
            self.schedule.swap_remove(at);
            self.person();
        }
        self.steps += 1;
        if self.fails_at.is_some_and(|at| self.steps > at) {
            return Err(io::Error::other("the power is off"));
        }
        Ok(())
    }

    /// One move of the person.
    fn person(&mut self) {
        match self.editor.take() {
            None => {
                let Some(edit) = self.edits.pop() else { return };
                let old = self.contents(edit.file).unwrap_or_default();
                let text = String::from_utf8(old).unwrap();
                let new = self.changed(&text, &edit.change);
                self.editor = Some(Editor::Open(edit, new.into_bytes()));
            }
            Some(Editor::Open(edit, new)) => {
                let path = Path::new(edit.file);
                match (edit.saving, self.names.get(path).copied()) {
                    (Saving::InPlace, Some(inode)) => {
                        self.write(inode, Vec::new());
                        self.editor = Some(Editor::Writing(inode, new));
                    }
                    (Saving::Rename, _) | (Saving::InPlace, None) => self.set(path, new),
                }
            }
            Some(Editor::Writing(inode, new)) => {
                let written = self.inodes[inode].bytes.len();
                // In two parts; an editor writes where it is, whatever else happened to the file.
                let end = if written == 0 { new.len() / 2 } else { new.len() };
                self.write(inode, new[..end].to_vec());
                if end < new.len() {
                    self.editor = Some(Editor::Writing(inode, new));
                }
            }
        }
    }

    fn write(&mut self, inode: usize, bytes: Vec<u8>) {
        self.inodes[inode] = Inode { bytes, changed: self.clock };
    }

    /// The text that the person makes of it; keeps account of the lines they want.
    fn changed(&mut self, text: &str, change: &Change) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let unwanted = |wanted: &mut Vec<String>, line: &str| wanted.retain(|known| known != line);
        // The person deletes and edits lines that have the form of an item.
        let nth = |lines: &[String], nth: usize| {
            let items: Vec<usize> =
                (0..lines.len()).filter(|at| lines[*at].starts_with("- [ ] item")).collect();
            (!items.is_empty()).then(|| items[nth % items.len()])
        };
        match change {
            Change::Add(line) => {
                lines.push(line.clone());
                self.wanted.push(line.clone());
            }
            Change::Edit(at, text) => {
                if let Some(at) = nth(&lines, *at) {
                    unwanted(&mut self.wanted, &lines[at]);
                    lines[at] = format!("{} {text}", lines[at]);
                    self.wanted.push(lines[at].clone());
                }
            }
            Change::Delete(at) => {
                if let Some(at) = nth(&lines, *at) {
                    unwanted(&mut self.wanted, &lines[at]);
                    lines.remove(at);
                }
            }
        }
        lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Files for Model {
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.step()?;
        Ok(self.names.get(path).map(|inode| self.inodes[*inode].bytes.clone()))
    }

    fn stage(&mut self, name: &str, bytes: &[u8], _: &Path) -> io::Result<PathBuf> {
        self.step()?;
        let mut path = Path::new(KEPT).join(name);
        let mut count = 1;
        while self.names.contains_key(&path) {
            path = Path::new(KEPT).join(format!("{name}.{count}"));
            count += 1;
        }
        self.set(&path, bytes.to_vec());
        Ok(path)
    }

    fn exchange(&mut self, staged: &Path, path: &Path) -> io::Result<()> {
        self.step()?;
        let (one, two) = (self.names.get(staged), self.names.get(path));
        let (one, two) = (*one.ok_or_else(missing)?, *two.ok_or_else(missing)?);
        self.names.insert(staged.to_owned(), two);
        self.names.insert(path.to_owned(), one);
        for inode in [one, two] {
            self.inodes[inode].changed = self.clock;
        }
        Ok(())
    }

    fn link(&mut self, kept: &Path, path: &Path) -> io::Result<()> {
        self.step()?;
        if self.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = *self.names.get(kept).ok_or_else(missing)?;
        self.names.insert(path.to_owned(), inode);
        Ok(())
    }

    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        let mut all = self.contents(&path.to_string_lossy()).unwrap_or_default();
        all.extend(bytes);
        self.set(path, all);
        Ok(())
    }

    fn kept(&mut self) -> io::Result<Vec<(PathBuf, Duration)>> {
        self.step()?;
        let kept = self.names.iter().filter(|(path, _)| path.starts_with(KEPT));
        Ok(kept
            .map(|(path, inode)| {
                (path.clone(), Duration::from_secs(self.clock.saturating_sub(self.inodes[*inode].changed)))
            })
            .collect())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        let inode = self.names.remove(from).ok_or_else(missing)?;
        self.inodes[inode].changed = self.clock;
        self.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.names.remove(path).map(drop).ok_or_else(missing)
    }
}
