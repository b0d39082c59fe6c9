//! Tasks that a person wrote down: `.project/plan.md` and `.project/inbox.md` (design §5, recovery §10.6–10.8).
//!
//! # Theory of operation
//!
//! The files are the person's. Reading never changes them; exactly three edits do: one byte of a checkbox
//! ([`settle`]), lines added at the end of the plan, and lines taken out of the inbox that are safely in the
//! plan ([`take_inbox`], [`add_follow_ups`]). All three go through [`mod@swap`], which loses no save of a person
//! whatever the moment.
//!
//! What is remembered about a task (its id, how often it was given to a session) is in a ledger of ours
//! ([`mod@ids`]), never in the person's files.
//!
//! # In a run
//!
//! Before an iteration [`take_inbox`], then [`load`]; with the start of the session [`given`]; after its end
//! [`settle`] with what it claims to have done. A dry run only does [`look`].
//!
//! # Pitfalls
//!
//! - All calls block, for the disk.
//! - Only one program at a time may call these for a repository; the lock of the run sees to that.
//! - A file that is read in the middle of a save in place is a half one. Nothing of it is lost, but an item of
//!   the inbox may become a task with half its text.

pub mod follow_up;
pub mod inbox;
mod disk;
mod files;
mod ids;
mod parse;
mod priority;
mod similar;
pub mod swap;
mod tick;

#[cfg(test)]
mod model;

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use self::disk::Disk;
use self::files::{PROJECT, TaskFiles, inbox_place, plan_place, read_all};
use self::ids::{Entry, Ledger, Seen, match_all};
use self::inbox::{Pending, Places, Taken, appended, is_among, of_title};
use self::parse::Item;
use self::similar::{Shape, likeness, normalise};
use self::swap::{EditError, Swept, edit, sweep};
use self::tick::{Ticked, listed, tick};
use crate::core::signals::SourceReading;
use crate::core::task::{Task, TaskSource};
use crate::state::atomic::{FileError, folder_of};

/// What the task files say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tasks {
    /// Open tasks: those of the plan, of the files it links to, of the inbox, each in the order of its file.
    pub open: Vec<Task>,
    /// Ticked ones.
    pub done: usize,
    /// How each file was read: the plan and the inbox always, others if linked to.
    pub readings: Vec<SourceReading>,
    /// At least one of the files is there and readable: there is a source of tasks.
    pub exists: bool,
}

/// What became of the tasks that a session was given. All but the claims are ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Given, or claimed, and found ticked.
    pub ticked_by_session: Vec<String>,
    /// Claimed to be done, found open, and ticked by us.
    pub ticked_by_us: Vec<String>,
    /// Given and still open.
    pub still_open: Vec<String>,
    /// Given, and not there any more, or struck through.
    pub gone: Vec<String>,
    /// Claims that name no task which could be ticked, as they were given.
    pub unknown_claims: Vec<String>,
    /// What a person should know.
    pub problems: Vec<String>,
}

/// Reads the tasks, gives new ones an id and remembers it in the file `ledger`, whose folder must exist. Puts
/// right first what a save that crossed an earlier edit left behind ([`mod@swap`]).
#[must_use]
pub fn load(root: &Path, ledger: &Path, now: Timestamp) -> Tasks {
    let mut files = read_all(root, now);
    let swept = sweep(&mut disk(root, ledger, now), &files.paths());
    if swept.put_back {
        files = read_all(root, now);
    }
    tasks(files, ledger, now, true, swept.problems)
}

/// Reads the tasks and changes nothing anywhere. A new task has the id that [`load`] would give it.
#[must_use]
pub fn look(root: &Path, ledger: &Path, now: Timestamp) -> Tasks {
    tasks(read_all(root, now), ledger, now, false, Vec::new())
}

/// Makes the items of the inbox tasks of the plan; see [`mod@inbox`]. Without an inbox it does nothing.
pub fn take_inbox(root: &Path, ledger: &Path, now: Timestamp) -> Result<Taken, EditError> {
    let files = read_all(root, now);
    let mut disk = disk(root, ledger, now);
    let Swept { problems, put_back, .. } = sweep(&mut disk, &files.paths());
    let files = if put_back { read_all(root, now) } else { files };
    let mut taken = Taken::default();
    // An inbox that is no readable file of this repository is not written to either, nor is such a plan.
    let plan_is_ours = !files.plan.is_empty() || !is_there(&root.join(PROJECT).join("plan.md"));
    if files.inbox.is_some() && plan_is_ours {
        let places = Places {
            plan: plan_place(root),
            inbox: inbox_place(root),
            archive: folder_of(ledger).join("inbox-archive.md"),
        };
        let elsewhere: Vec<Item> =
            files.plan.iter().skip(1).flat_map(|file| file.parsed.items.iter().cloned()).collect();
        taken = inbox::take(&mut disk, &places, &elsewhere)?;
    }
    taken.problems.splice(0..0, problems);
    Ok(taken)
}

/// Appends tasks of ours to the plan (made if missing), those left out that are open in it already. Returns
/// the titles that were added. See [`mod@follow_up`].
pub fn add_follow_ups(
    root: &Path,
    ledger: &Path,
    now: Timestamp,
    titles: &[String],
) -> Result<Vec<String>, EditError> {
    let files = read_all(root, now);
    let refused = |text: &str| {
        let source = std::io::Error::other(text.to_owned());
        EditError::File(FileError { step: "add a task to", path: root.join(PROJECT).join("plan.md"), source })
    };
    if titles.is_empty() {
        return Ok(Vec::new());
    }
    if files.plan.is_empty() && is_there(&root.join(PROJECT).join("plan.md")) {
        return Err(refused("it is no readable file of this repository"));
    }
    let project = root.join(PROJECT);
    match DirBuilder::new().create(&project) {
        Err(error) if !project.is_dir() => return Err(FileError::at("create", &project)(error).into()),
        _ => {}
    }
    let elsewhere: Vec<&Item> = files.plan.iter().skip(1).flat_map(|file| &file.parsed.items).collect();
    let pending: Vec<Pending> = titles.iter().map(|title| of_title(title)).collect();
    let mut added = Vec::new();
    let mut failed = false;
    edit(&mut disk(root, ledger, now), &plan_place(root), &mut |plan| {
        let parsed = parse::parse(plan);
        let known = || parsed.items.iter().chain(elsewhere.iter().copied());
        let mut seen = HashSet::new();
        let new: Vec<&Pending> = pending
            .iter()
            .filter(|pending| {
                let item = pending.as_item();
                item.is_work() && seen.insert(normalise(&item.title)) && !is_among(&item, known())
            })
            .collect();
        added = new.iter().map(|pending| pending.as_item().title).collect();
        if new.is_empty() {
            return None;
        }
        let result = appended(plan, follow_up::HEADING, &new);
        failed = result.is_none();
        result
    })?;
    if failed {
        return Err(refused("it ends within code or a comment that is not closed"));
    }
    Ok(added)
}

/// Remembers that a session is given these tasks.
pub fn given(ledger: &Path, ids: &[String]) -> Result<(), FileError> {
    let (mut known, _) = Ledger::read(ledger, false);
    let mut found = false;
    for id in ids {
        if let Some(entry) = known.entry_mut(id) {
            entry.given += 1;
            found = true;
        }
    }
    if found { known.write(ledger) } else { Ok(()) }
}

/// Compares the task files with what a session was given and what it claims to have done, ticks what was
/// claimed and is open, and remembers the outcome. A claim names a task by its id, alone or at the
/// beginning, or by its title; a title that is merely similar counts only for a task that was given.
#[must_use]
pub fn settle(root: &Path, ledger: &Path, given: &[String], claims: &[String], session: &str) -> Settled {
    // The age of kept files matters to `sweep` alone, which is not called here.
    let mut disk = disk(root, ledger, Timestamp::MIN);
    let (mut known, problem) = Ledger::read(ledger, true);
    let mut settled = Settled { problems: problem.into_iter().collect(), ..Settled::default() };
    let files = read_all(root, Timestamp::MIN);
    let lines = lines(&files);
    let seen: Vec<Seen<'_>> = lines.iter().map(Line::seen).collect();
    let of: Vec<Option<usize>> = match_all(&known.tasks, &seen);
    let id_of = |line: usize| of[line].map(|entry| known.tasks[entry].id.clone());
    let line_of = |id: &str| (0..lines.len()).find(|line| id_of(*line).as_deref() == Some(id));

    let mut given: Vec<String> = given.to_vec();
    let mut once = HashSet::new();
    given.retain(|id| once.insert(id.clone()));
    let mut done = HashSet::new();
    for claim in claims {
        let named = claimed(claim, &lines, &id_of, &given);
        let Some((line, id)) = named.and_then(|line| Some((line, id_of(line)?))) else {
            settled.unknown_claims.push(claim.clone());
            continue;
        };
        if lines[line].item.checked || !done.insert(id.clone()) {
            if !given.contains(&id) && !settled.ticked_by_us.contains(&id) {
                push_once(&mut settled.ticked_by_session, &id);
            }
            continue;
        }
        let entries: Vec<Entry> =
            known.tasks.iter().filter(|entry| entry.file == lines[line].file).cloned().collect();
        match tick(&mut disk, lines[line].path, lines[line].file, &entries, &id) {
            Ok(Ticked::Done) => settled.ticked_by_us.push(id),
            Ok(Ticked::Already) => push_once(&mut settled.ticked_by_session, &id),
            Ok(Ticked::Gone | Ticked::NotWork) => settled.unknown_claims.push(claim.clone()),
            Err(error) => settled.problems.push(error.to_string()),
        }
    }
    for id in &given {
        if settled.ticked_by_us.contains(id) || settled.ticked_by_session.contains(id) {
            continue;
        }
        let list = match line_of(id).map(|line| &lines[line].item) {
            Some(item) if item.checked => &mut settled.ticked_by_session,
            Some(item) if item.counts() => &mut settled.still_open,
            Some(_) | None => &mut settled.gone,
        };
        push_once(list, id);
    }
    for id in settled.ticked_by_us.iter().chain(&settled.ticked_by_session) {
        if let Some(entry) = known.entry_mut(id) {
            entry.carried = 0;
            entry.done_by = Some(session.to_owned());
        }
    }
    for id in &settled.still_open {
        if let Some(entry) = known.entry_mut(id) {
            entry.carried += 1;
        }
    }
    if let Err(error) = known.write(ledger) {
        settled.problems.push(error.to_string());
    }
    settled
}

fn push_once(list: &mut Vec<String>, id: &str) {
    if !list.iter().any(|known| known == id) {
        list.push(id.to_owned());
    }
}

/// The line that a claim names.
fn claimed(
    claim: &str,
    lines: &[Line<'_>],
    id_of: &dyn Fn(usize) -> Option<String>,
    given: &[String],
) -> Option<usize> {
    let by_id = |id: &str| {
        (0..lines.len()).find(|line| id_of(*line).is_some_and(|known| known.eq_ignore_ascii_case(id)))
    };
    let bare = |text: &str| text.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let first = claim.split_whitespace().next().map(bare).unwrap_or_default();
    if let Some(line) = by_id(&bare(claim)) {
        return Some(line);
    }
    let is_given = |line: &usize| id_of(*line).is_some_and(|id| given.contains(&id));
    // A word of a title may look like an id by chance: at the beginning of more text only a given one counts.
    if let Some(line) = by_id(&first).filter(is_given) {
        return Some(line);
    }
    let wanted = normalise(claim);
    let equal = || {
        (0..lines.len()).filter(|line| !wanted.is_empty() && normalise(&lines[*line].item.title) == wanted)
    };
    // Of several with this title one that was given, and an open one, come first.
    if let Some(line) = equal().min_by_key(|line| (!is_given(line), lines[*line].item.checked)) {
        return Some(line);
    }
    let shape = Shape::of(claim);
    (0..lines.len())
        .filter(is_given)
        .filter_map(|line| Some((likeness(&shape, &Shape::of(&lines[line].item.title))?, line)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, line)| line)
}

/// A task as it stands in a file.
struct Line<'a> {
    item: std::borrow::Cow<'a, Item>,
    file: &'a str,
    path: &'a Path,
    source: TaskSource,
}

impl Line<'_> {
    fn seen(&self) -> Seen<'_> {
        Seen { title: &self.item.title, file: self.file, phase: &self.item.phase }
    }
}

/// All that have ids: every box with a text, and what is in the inbox and not yet in the plan.
fn lines(files: &TaskFiles) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for file in &files.plan {
        lines.extend(listed(&file.parsed.items).map(|item| Line {
            item: std::borrow::Cow::Borrowed(item),
            file: &file.name,
            path: &file.path,
            source: source(item),
        }));
    }
    let Some((file, pending)) = &files.inbox else { return lines };
    for pending in pending {
        let mut item = pending.as_item();
        item.line = pending.line;
        // What is below it are parts of one thing as long as it is in the inbox.
        item.open_below = false;
        let known = files.plan.iter().flat_map(|file| &file.parsed.items);
        if !item.title.is_empty() && !is_among(&item, known) {
            let item = std::borrow::Cow::Owned(item);
            lines.push(Line { item, file: &file.name, path: &file.path, source: TaskSource::Inbox });
        }
    }
    lines
}

/// Where a task of the plan came from, told by the heading that we put above it.
fn source(item: &Item) -> TaskSource {
    let ours = item.phase.last().is_some_and(|heading| heading == follow_up::HEADING);
    if ours { TaskSource::FollowUp } else { TaskSource::Plan }
}

fn tasks(mut files: TaskFiles, path: &Path, now: Timestamp, write: bool, mut problems: Vec<String>) -> Tasks {
    let (mut ledger, problem) = Ledger::read(path, write);
    problems.extend(problem);
    let before = write.then(|| ledger.clone());
    let mut readings = std::mem::take(&mut files.readings);
    let lines = lines(&files);
    let seen: Vec<Seen<'_>> = lines.iter().map(Line::seen).collect();
    let entries = ledger.take_in(&seen, now);
    if before.is_some_and(|before| ledger != before)
        && let Err(error) = ledger.write(path)
    {
        problems.push(error.to_string());
    }
    let mut open = Vec::new();
    for (line, entry) in lines.iter().zip(entries).filter(|(line, _)| line.item.is_work()) {
        let entry = &ledger.tasks[entry];
        open.push(Task {
            id: entry.id.clone(),
            title: line.item.title.clone(),
            description: line.item.description.clone(),
            phase: line.item.phase.clone(),
            source: line.source,
            file: line.file.to_owned(),
            line: line.item.line,
            priority: priority::priority(&line.item.title),
            carried: entry.carried,
        });
    }
    for reading in &mut readings {
        let Some(file) = &reading.origin else { continue };
        if let Some(found) = files.plan.iter().find(|found| found.name == *file) {
            let all = found.parsed.items.iter().filter(|item| item.counts());
            let left = all.clone().filter(|item| !item.checked).count();
            reading.says = format!("{left} open of {}", all.count());
        } else if let Some((_, pending)) = files.inbox.as_ref().filter(|(found, _)| found.name == *file) {
            reading.says = match pending.len() {
                0 => "empty".to_owned(),
                1 => "1 item".to_owned(),
                count => format!("{count} items"),
            };
        }
    }
    if let Some(first) = readings.first_mut() {
        first.problems.append(&mut problems);
    }
    let done = files.plan.iter().flat_map(|file| &file.parsed.items);
    let done = done.filter(|item| item.checked && item.counts()).count();
    let exists = !files.plan.is_empty() || files.inbox.is_some();
    Tasks { open, done, readings, exists }
}

fn disk(root: &Path, ledger: &Path, now: Timestamp) -> Disk {
    Disk::new(folder_of(ledger), &root.join(PROJECT), now)
}

fn is_there(path: &PathBuf) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests;
