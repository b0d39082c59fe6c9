//! Ids of tasks that survive edits, and the ledger in which they are kept.
//!
//! Nothing is written into a person's file for it: an id is given once and kept in a file of ours, and a line
//! that is read again is matched to what is known of it. In this order, each known task at most once:
//!
//! 1. the same text in the same file under the same headings, then anywhere in the file, then in any file; of
//!    several with the same text the first goes to the first;
//! 2. a similar text in the same file under the same headings ([`super::similar`]), the most similar first;
//! 3. the same place: between the same two neighbours.
//!
//! What is not found any more stays known for a while, so that a branch switch or a cut and paste over two
//! passes keeps the ids; it is found again by its exact text alone, lest new tasks inherit from old ones.
//!
//! An id is made from the text, so that a ledger that was lost gives the same ids again in most cases.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::disk::read_bounded;
use super::similar::{Shape, likeness};
use super::swap::hash;
use crate::state::atomic::{self, FileError, PRIVATE_FILE};

/// Version of the ledger file; a newer one is left alone.
const VERSION: u32 = 1;
/// Most tasks that are remembered though they are gone.
const MAX_GONE: usize = 1000;
/// Pairs up to which every text is compared with every other.
const MAX_PAIRS: usize = 40_000;
/// Beyond that: with those that are at most so many places away.
const WINDOW: usize = 10;
/// No vowels but `a` and `e`, nothing that looks like something else.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of an id.
const ID_LENGTH: usize = 6;

/// What is known of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    /// Its id.
    pub(super) id: String,
    /// Its text when last seen.
    pub(super) title: String,
    /// The file, relative to the repository.
    pub(super) file: String,
    /// Headings above it.
    pub(super) phase: Vec<String>,
    /// Its place among the tasks of the file, from 0.
    pub(super) order: usize,
    /// It was there at the last look.
    pub(super) present: bool,
    /// How often a session was given it.
    pub(super) given: u32,
    /// Sessions in a row that were given it and left it open.
    pub(super) carried: u32,
    /// The session after which it was ticked.
    pub(super) done_by: Option<String>,
    /// When it was first seen.
    pub(super) first_seen: Option<Timestamp>,
}

/// A task as it was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Its text.
    pub(super) title: &'a str,
    /// The file.
    pub(super) file: &'a str,
    /// Headings above it.
    pub(super) phase: &'a [String],
}

/// All that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ledger {
    version: u32,
    /// In the order in which they were first seen.
    pub(super) tasks: Vec<Entry>,
    /// A newer program wrote it: it is not ours to write.
    #[serde(skip)]
    read_only: bool,
}

impl Ledger {
    /// Reads the ledger; one that is missing is empty. One that is damaged is set aside if `repair`, and a
    /// text says so.
    pub(super) fn read(path: &Path, repair: bool) -> (Ledger, Option<String>) {
        let bytes = match read_bounded(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (Ledger::default(), None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let ledger = Ledger { read_only: true, ..Ledger::default() };
                return (ledger, Some(format!("the list of known tasks cannot be read: {error}")));
            }
            Err(error) => return (Ledger::default(), Some(set_aside(path, &error.to_string(), repair))),
        };
        // A list would do for a structure too, and lose what is in it.
        if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
            return (Ledger::default(), Some(set_aside(path, "it is no object", repair)));
        }
        match serde_json::from_slice::<Ledger>(&bytes) {
            Ok(ledger) if ledger.version > VERSION => {
                let text = format!(
                    "the list of known tasks has version {}, this autopilot knows {VERSION}: it is left alone",
                    ledger.version
                );
                (Ledger { read_only: true, ..Ledger::default() }, Some(text))
            }
            Ok(mut ledger) => {
                // Somebody may have edited it: an id names one task.
                let mut ids = HashSet::new();
                ledger.tasks.retain(|entry| !entry.id.is_empty() && ids.insert(entry.id.clone()));
                (ledger, None)
            }
            Err(error) => (Ledger::default(), Some(set_aside(path, &error.to_string(), repair))),
        }
    }

    /// Writes the ledger, unless it is not ours to write.
    pub(super) fn write(&self, path: &Path) -> Result<(), FileError> {
        if self.read_only {
            return Ok(());
        }
        let mut bytes = serde_json::to_vec(&Ledger { version: VERSION, ..self.clone() })
            .map_err(|error| FileError::at("write", path)(error.into()))?;
        bytes.push(b'\n');
        atomic::replace(path, &bytes, PRIVATE_FILE)
    }

    /// Takes in what was read now, all files in one list, and returns the index of the entry of each.
    pub(super) fn take_in(&mut self, seen: &[Seen<'_>], now: Timestamp) -> Vec<usize> {
        let matched = match_all(&self.tasks, seen);
        let mut ids: HashSet<String> = self.tasks.iter().map(|entry| entry.id.clone()).collect();
        for entry in &mut self.tasks {
            entry.present = false;
        }
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut indices = Vec::with_capacity(seen.len());
        for (seen, index) in seen.iter().zip(matched) {
            let index = index.unwrap_or_else(|| {
                let id = new_id(seen.title, &mut ids);
                self.tasks.push(Entry { id, first_seen: Some(now), ..Entry::default() });
                self.tasks.len() - 1
            });
            let place = places.entry(seen.file).or_default();
            let entry = &mut self.tasks[index];
            entry.present = true;
            entry.order = *place;
            *place += 1;
            if entry.title != seen.title {
                seen.title.clone_into(&mut entry.title);
            }
            if entry.file != seen.file {
                seen.file.clone_into(&mut entry.file);
            }
            if entry.phase != seen.phase {
                seen.phase.clone_into(&mut entry.phase);
            }
            indices.push(index);
        }
        self.forget(indices)
    }

    /// Drops the oldest of those that are gone, and says where the others are now.
    fn forget(&mut self, indices: Vec<usize>) -> Vec<usize> {
        let gone = self.tasks.iter().filter(|entry| !entry.present).count();
        let mut excess = gone.saturating_sub(MAX_GONE);
        if excess == 0 {
            return indices;
        }
        let mut moved = Vec::with_capacity(self.tasks.len());
        let mut kept = 0;
        for entry in &self.tasks {
            let drop = !entry.present && excess > 0;
            excess -= usize::from(drop);
            moved.push((!drop).then_some(kept));
            kept += usize::from(!drop);
        }
        let mut at = 0;
        self.tasks.retain(|_| {
            at += 1;
            moved[at - 1].is_some()
        });
        indices.into_iter().filter_map(|index| moved[index]).collect()
    }

    /// The entry with this id.
    pub(super) fn entry_mut(&mut self, id: &str) -> Option<&mut Entry> {
        self.tasks.iter_mut().find(|entry| entry.id == id)
    }
}

fn set_aside(path: &Path, error: &str, repair: bool) -> String {
    if !repair {
        return format!("the list of known tasks is damaged ({error})");
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let aside = (1..100)
        .map(|count| path.with_file_name(format!("{name}.damaged-{count}")))
        .find(|aside| !aside.exists())
        .unwrap_or_else(|| path.with_file_name(format!("{name}.damaged")));
    match fs::rename(path, &aside) {
        Ok(()) => format!("the list of known tasks was damaged ({error}); it is now {}", aside.display()),
        Err(rename) => {
            format!("the list of known tasks is damaged ({error}) and cannot be set aside: {rename}")
        }
    }
}

fn new_id(title: &str, taken: &mut HashSet<String>) -> String {
    let mut salt: u32 = 0;
    loop {
        let mut text = title.as_bytes().to_vec();
        text.extend(salt.to_le_bytes());
        let mut number = hash(&text);
        // The low bits of this hash are mixed worse than the high ones.
        number ^= number >> 33;
        let id: String = (0..ID_LENGTH)
            .map(|place| char::from(ALPHABET[usize::try_from((number >> (5 * place)) & 31).unwrap_or(0)]))
            .collect();
        if taken.insert(id.clone()) {
            return id;
        }
        salt = salt.wrapping_add(1);
    }
}

/// For each that was read the index of the entry it is; see the module.
pub(super) fn match_all(entries: &[Entry], seen: &[Seen<'_>]) -> Vec<Option<usize>> {
    let mut matcher = Matcher { entries, seen, of: vec![None; seen.len()], used: vec![false; entries.len()] };
    matcher.exactly(|file, phase, title| (file, phase, title));
    matcher.exactly(|file, _, title| (file, title));
    matcher.exactly(|_, _, title| title);
    matcher.similar();
    matcher.by_place();
    matcher.of
}

struct Matcher<'a> {
    entries: &'a [Entry],
    seen: &'a [Seen<'a>],
    of: Vec<Option<usize>>,
    used: Vec<bool>,
}

impl<'a> Matcher<'a> {
    fn take(&mut self, seen: usize, entry: usize) {
        self.of[seen] = Some(entry);
        self.used[entry] = true;
    }

    fn exactly<K: std::hash::Hash + Eq>(&mut self, key: impl Fn(&'a str, &'a [String], &'a str) -> K) {
        let mut known: HashMap<K, Vec<usize>> = HashMap::new();
        let mut order: Vec<usize> = (0..self.entries.len()).filter(|entry| !self.used[*entry]).collect();
        if order.is_empty() || self.of.iter().all(Option::is_some) {
            return;
        }
        // Those that are there before those that are gone, then as in the file; taken from the end.
        order.sort_by_key(|entry| (!self.entries[*entry].present, self.entries[*entry].order));
        for entry in order.into_iter().rev() {
            let known_entry: &'a Entry = &self.entries[entry];
            known
                .entry(key(&known_entry.file, &known_entry.phase, &known_entry.title))
                .or_default()
                .push(entry);
        }
        for index in 0..self.seen.len() {
            if self.of[index].is_some() {
                continue;
            }
            let seen = self.seen[index];
            if let Some(entry) = known.get_mut(&key(seen.file, seen.phase, seen.title)).and_then(Vec::pop) {
                self.take(index, entry);
            }
        }
    }

    fn similar(&mut self) {
        if !self.has_open_ends() {
            return;
        }
        // File and headings → those that were read, those that are known.
        let mut groups = BTreeMap::<(&str, &[String]), (Vec<usize>, Vec<usize>)>::new();
        for (index, seen) in self.seen.iter().enumerate().filter(|(index, _)| self.of[*index].is_none()) {
            groups.entry((seen.file, seen.phase)).or_default().0.push(index);
        }
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.present
                && !self.used[index]
                && let Some(group) = groups.get_mut(&(entry.file.as_str(), entry.phase.as_slice()))
            {
                group.1.push(index);
            }
        }
        let pairs: usize = groups.values().map(|(seen, entries)| seen.len() * entries.len()).sum();
        let window = if pairs > MAX_PAIRS { WINDOW } else { usize::MAX };
        for (seen, mut entries) in groups.into_values() {
            entries.sort_by_key(|entry| self.entries[*entry].order);
            let shapes: Vec<Shape> =
                entries.iter().map(|entry| Shape::of(&self.entries[*entry].title)).collect();
            let mut pairs = Vec::new();
            for (place, index) in seen.iter().enumerate() {
                let shape = Shape::of(self.seen[*index].title);
                for (other, entry) in entries.iter().enumerate() {
                    let apart = place.abs_diff(other);
                    if apart <= window
                        && let Some(score) = likeness(&shape, &shapes[other])
                    {
                        pairs.push((score, apart, *index, *entry));
                    }
                }
            }
            pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
            for (_, _, index, entry) in pairs {
                if self.of[index].is_none() && !self.used[entry] {
                    self.take(index, entry);
                }
            }
        }
    }

    /// Whether something that is known to be there, and something that was read, are still without the other.
    fn has_open_ends(&self) -> bool {
        self.of.iter().any(Option::is_none)
            && self.entries.iter().zip(&self.used).any(|(entry, used)| entry.present && !used)
    }

    /// What stands between the same two neighbours is the same task, rewritten.
    fn by_place(&mut self) {
        if !self.has_open_ends() {
            return;
        }
        // Per file: what was between whom.
        let mut files: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.present) {
            files.entry(&entry.file).or_default().push(index);
        }
        let mut between = HashMap::new();
        for (file, entries) in &mut files {
            entries.sort_by_key(|entry| self.entries[*entry].order);
            for (place, entry) in entries.iter().enumerate() {
                let before = place.checked_sub(1).map(|place| entries[place]);
                let after = entries.get(place + 1).copied();
                if !self.used[*entry] && (before.is_some() || after.is_some()) {
                    between.insert((*file, before, after), *entry);
                }
            }
        }
        let neighbour = |index: Option<usize>, file: &str| {
            index
                .and_then(|index| self.seen.get(index).map(|seen| (index, seen)))
                .filter(|(_, seen)| seen.file == file)
        };
        let mut found = Vec::new();
        for (index, seen) in self.seen.iter().enumerate().filter(|(index, _)| self.of[*index].is_none()) {
            // A neighbour that is itself unknown says nothing.
            let known = |place: Option<usize>| match neighbour(place, seen.file) {
                None => Some(None),
                Some((place, _)) => self.of[place].map(Some),
            };
            let (before, after) = (known(index.checked_sub(1)), known(Some(index + 1)));
            if let (Some(before), Some(after)) = (before, after)
                && let Some(entry) = between.get(&(seen.file, before, after))
            {
                found.push((index, *entry));
            }
        }
        for (index, entry) in found {
            if !self.used[entry] {
                self.take(index, entry);
            }
        }
    }
}

#[cfg(test)]
#[path = "ids/tests.rs"]
mod tests;
