//! Ticking a box: one byte, of exactly one task.
//!
//! The file is read again, the task is found again in it the way it is found at every look ([`super::ids`]),
//! and the byte between its brackets becomes `x`. Every other byte stays: line ends, a byte order mark, what
//! is no UTF-8. It is done by [`super::swap::edit`] and not by writing the byte into the file, because a
//! write in place can fall into a save of a person's editor; the reasons are there. If the person has saved
//! meanwhile, all of it starts over from what they wrote.

use std::path::Path;

use super::ids::{Entry, Seen, match_all};
use super::parse::{Item, Parsed, parse};
use super::swap::{EditError, Files, edit};

/// What became of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ticked {
    /// The box is ticked, by us.
    Done,
    /// It had been ticked already.
    Already,
    /// The task is not in the file any more.
    Gone,
    /// It has parts that are open, or was struck through.
    NotWork,
}

/// Ticks the task with `id` in the file at `path`, called `file` in the ledger. `entries` are those of this file.
pub(super) fn tick<F: Files>(
    files: &mut F,
    path: &Path,
    file: &str,
    entries: &[Entry],
    id: &str,
) -> Result<Ticked, EditError> {
    let mut ticked = Ticked::Gone;
    edit(files, path, &mut |bytes| {
        let parsed = parse(bytes);
        let item = find(&parsed, file, entries, id);
        ticked = match item {
            None => Ticked::Gone,
            Some(item) if item.checked => Ticked::Already,
            Some(item) if !item.is_work() => Ticked::NotWork,
            Some(_) => Ticked::Done,
        };
        if ticked != Ticked::Done {
            return None;
        }
        item.map(|item| with_mark(bytes, item))
    })?;
    Ok(ticked)
}

/// The item that is the known task `id`.
fn find<'a>(parsed: &'a Parsed, file: &str, entries: &[Entry], id: &str) -> Option<&'a Item> {
    let seen: Vec<Seen<'_>> =
        listed(&parsed.items).map(|item| Seen { title: &item.title, file, phase: &item.phase }).collect();
    let matched = match_all(entries, &seen);
    let place = matched.iter().position(|entry| entry.is_some_and(|entry| entries[entry].id == id))?;
    listed(&parsed.items).nth(place)
}

/// The items that have ids: all with a text, open or not.
pub(super) fn listed(items: &[Item]) -> impl Iterator<Item = &Item> {
    items.iter().filter(|item| !item.title.is_empty())
}

/// The file with the box ticked.
fn with_mark(bytes: &[u8], item: &Item) -> Vec<u8> {
    let mut new = bytes.to_vec();
    if let Some(mark) = new.get_mut(item.mark) {
        *mark = b'x';
    }
    new
}

#[cfg(test)]
#[path = "tick/tests.rs"]
mod tests;
