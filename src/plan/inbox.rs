//! The inbox: what a person jots down becomes a task of the plan, and only then leaves the inbox.
//!
//! # What is an item
//!
//! Whatever stands in comments (such as the one at the head of the file that explains it) is none.
//!
//! - `- [ ] T`: an item T, with what is below it. One that is ticked or struck is left where it is.
//! - `## H` with text below: an item H; the text, up to the next box at the margin or the next heading of this
//!   level or above, is its description. So is nothing at all: `## H` alone is an item.
//! - `## H` directly followed by boxes is the title of a list: the boxes are the items and carry its name; it
//!   leaves with the last of them.
//! - Anything else (text before the first heading, a list without boxes) is not touched.
//!
//! # Order of steps
//!
//! 1. What is not yet an open task is appended to the plan, durably.
//! 2. The plan is read again: only what is found in it counts as taken.
//! 3. The lines to go are added to an archive of ours, durably.
//! 4. The inbox is read again; exactly those lines that are still as they were go.
//!
//! A crash after any step, or a save of a person between any two, leaves an item in the inbox or in the plan
//! or in both; the next pass finds what is in both by its text ([`super::similar::same_task`]) and only
//! removes it. Both files are changed by [`super::swap::edit`], which loses no save.

use std::ops::Range;
use std::path::PathBuf;

use super::parse::{Item, Parsed, line_end, line_start, next_line, parse};
use super::similar::same_task;
use super::swap::{EditError, Files, edit};

/// Heading in the plan under which items of the inbox are added.
pub(super) const HEADING: &str = "Inbox";

/// Something in the inbox that is to become a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// Its text, as bytes of the file.
    title: Vec<u8>,
    /// Name of the list it stands in.
    label: Option<Vec<u8>>,
    /// What is below it, as lines of the file.
    body: Vec<u8>,
    /// Its lines, with the empty ones behind those of a heading.
    lines: Range<usize>,
    /// Line number, from 1.
    pub(super) line: u32,
}

impl Pending {
    /// As it will be read from the plan.
    pub(super) fn as_item(&self) -> Item {
        parse(&self.block("\n")).items.into_iter().next().unwrap_or_default()
    }

    /// The lines that make it a task.
    fn block(&self, eol: &str) -> Vec<u8> {
        let mut block = [b"- [ ] ", self.title.as_slice()].concat();
        block.extend(eol.bytes());
        if let Some(label) = &self.label {
            block.extend([b"  Inbox list: ", label.as_slice(), eol.as_bytes()].concat());
        }
        let lines: Vec<&[u8]> = self.body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).collect();
        let indent = |line: &&[u8]| line.len() - line.trim_ascii_start().len();
        let common = lines.iter().filter(|line| !line.is_empty()).map(indent).min().unwrap_or(0);
        for line in trim_blank(&lines) {
            if !line.is_empty() {
                block.extend(b"  ");
                block.extend(&line[common..]);
            }
            block.extend(eol.bytes());
        }
        block
    }

    /// What must be found again to remove it.
    fn text<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes[self.lines.clone()].trim_ascii_end()
    }
}

/// Without empty lines at both ends.
fn trim_blank<'a>(lines: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
    let Some(first) = lines.iter().position(|line| !line.is_empty()) else { return &[] };
    let last = lines.iter().rposition(|line| !line.is_empty()).unwrap_or(first);
    &lines[first..=last]
}

/// What the inbox holds.
pub(super) fn pending(bytes: &[u8]) -> Vec<Pending> {
    survey(bytes).0
}

/// A heading that names a list: its lines, and where the list ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Label {
    lines: Range<usize>,
    section_end: usize,
}

fn survey(bytes: &[u8]) -> (Vec<Pending>, Vec<Label>) {
    let parsed = parse(bytes);
    let sections = sections(bytes, &parsed);
    let mut found = Vec::new();
    let mut labels = Vec::new();
    for section in &sections {
        let boxes = || parsed.items.iter().filter(|item| section.contains(item) && !item.nested);
        let first = boxes().filter(|item| item.depth == 1).map(|item| line_start(bytes, item.mark)).min();
        let body = section.body..first.unwrap_or(section.end);
        let has_text = !without_comments(&bytes[body.clone()]).trim_ascii().is_empty();
        let name = section.name(bytes);
        let is_item = !name.is_empty() && (has_text || first.is_none());
        if is_item {
            found.push(Pending {
                title: name.to_vec(),
                label: None,
                body: bytes[body.clone()].to_vec(),
                lines: section.start..body.end,
                line: 0,
            });
        } else if !name.is_empty() {
            labels.push(Label { lines: section.start..body.end, section_end: section.end });
        }
        // A box within the text of an item goes with it.
        let from = if is_item { body.end } else { section.start };
        let label = (!is_item && !name.is_empty()).then(|| name.to_vec());
        let whole = boxes().filter(|item| item.mark >= from && item.counts() && !item.checked);
        found.extend(whole.filter_map(|item| boxed(bytes, item, label.clone())));
    }
    found.sort_by_key(|pending| pending.lines.start);
    let (mut line, mut at) = (1, 0);
    for pending in &mut found {
        line += memchr::memchr_iter(b'\n', &bytes[at..pending.lines.start]).count();
        at = pending.lines.start;
        pending.line = u32::try_from(line).unwrap_or(u32::MAX);
    }
    (found, labels)
}

/// The item of a box, if nothing but space stands before its bullet.
fn boxed(bytes: &[u8], item: &Item, label: Option<Vec<u8>>) -> Option<Pending> {
    let start = line_start(bytes, item.range.start);
    if !bytes[start..item.range.start].trim_ascii().is_empty() || item.range.start < start {
        return None;
    }
    let below = next_line(bytes, item.mark);
    let end = content_end(bytes, below, item.range.end);
    Some(Pending {
        title: bytes[item.mark + 2..line_end(bytes, item.mark)].trim_ascii().to_vec(),
        label,
        body: bytes[below..end].to_vec(),
        lines: start..end,
        line: 0,
    })
}

/// End of the last line in `from..to` that is not empty.
fn content_end(bytes: &[u8], from: usize, to: usize) -> usize {
    let text = bytes[from..to.max(from)].trim_ascii_end();
    if text.is_empty() { from } else { next_line(bytes, from + text.len() - 1) }
}

/// From a heading of level 1 or 2 to the next; the first may have none.
struct Section {
    start: usize,
    /// Behind the heading.
    body: usize,
    end: usize,
    /// It is one of level 2.
    second: bool,
}

impl Section {
    fn contains(&self, item: &Item) -> bool {
        (self.start..self.end).contains(&item.mark)
    }

    /// Bytes of the heading, without its marks; empty if it makes no item.
    fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        if !self.second {
            return b"";
        }
        let line = &bytes[self.start..line_end(bytes, self.start)];
        let line = line.trim_ascii();
        let Some(text) = line.strip_prefix(b"##") else { return line };
        let text = text.trim_ascii();
        // Closing marks of a heading stand alone.
        let open = text.trim_ascii_end();
        let hashes = open.iter().rev().take_while(|byte| **byte == b'#').count();
        let before = &open[..open.len() - hashes];
        if hashes > 0 && (before.is_empty() || before.ends_with(b" ")) {
            before.trim_ascii_end()
        } else {
            open
        }
    }
}

fn sections(bytes: &[u8], parsed: &Parsed) -> Vec<Section> {
    let headings: Vec<_> = parsed.headings.iter().filter(|heading| heading.level <= 2).collect();
    let start = |range: &Range<usize>| line_start(bytes, range.start);
    let first = headings.first().map_or(bytes.len(), |heading| start(&heading.range));
    let mut sections = vec![Section { start: 0, body: 0, end: first, second: false }];
    for (index, heading) in headings.iter().enumerate() {
        let end = headings.get(index + 1).map_or(bytes.len(), |next| start(&next.range));
        let body = content_end(bytes, start(&heading.range), heading.range.end).min(end);
        sections.push(Section { start: start(&heading.range), body, end, second: heading.level == 2 });
    }
    sections
}

fn without_comments(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(start) = memchr::memmem::find(rest, b"<!--") {
        let Some(end) = memchr::memmem::find(&rest[start + 4..], b"-->") else { break };
        kept.extend(&rest[..start]);
        rest = &rest[start + 4 + end + 3..];
    }
    kept.extend(rest);
    kept
}

/// The plan with `blocks` at its end under `## heading`, everything before unchanged. `None` if they would not
/// be tasks there, because the file ends within code or a comment.
pub(super) fn appended(plan: &[u8], heading: &str, pending: &[&Pending]) -> Option<Vec<u8>> {
    let before = parse(plan);
    let eol = if memchr::memmem::find(plan, b"\r\n").is_some() { "\r\n" } else { "\n" };
    let last = before.headings.iter().rev().find(|found| found.level <= 2);
    let under = last.is_some_and(|last| last.level == 2 && last.text == heading);
    [false, true].into_iter().find_map(|apart| {
        let mut new = plan.to_vec();
        if !new.is_empty() && !new.ends_with(b"\n") && !new.ends_with(b"\r") {
            new.extend(eol.bytes());
        }
        if !under {
            let gap = if new.is_empty() { "" } else { eol };
            new.extend(format!("{gap}## {heading}{eol}{eol}").bytes());
        } else if apart {
            new.extend(eol.bytes());
        }
        for pending in pending {
            new.extend(pending.block(eol));
        }
        let after = parse(&new);
        let expected: Vec<Item> = pending.iter().map(|pending| pending.as_item()).collect();
        // An empty box at the very end becomes one only by the line end behind it; it does not matter.
        let old: Vec<&Item> = before.items.iter().filter(|item| !item.title.is_empty()).collect();
        let all: Vec<&Item> = after.items.iter().filter(|item| !item.title.is_empty()).collect();
        let (kept, added) = all.split_at_checked(old.len())?;
        let added: Vec<&Item> = added.iter().copied().filter(|item| !item.nested).collect();
        let same = |a: &Item, b: &Item| a.title == b.title && a.checked == b.checked && a.struck == b.struck;
        let kept = kept.iter().zip(&old).all(|(a, b)| same(a, b) && a.mark == b.mark);
        let right = added.len() == expected.len() && added.iter().zip(&expected).all(|(a, b)| same(a, b));
        (kept && right).then_some(new)
    })
}

/// The inbox without those items of `texts` that are still in it as they were, each text once.
fn without(bytes: &[u8], texts: &[Vec<u8>]) -> Vec<u8> {
    let (found, labels) = survey(bytes);
    let mut wanted: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let mut cuts: Vec<Range<usize>> = Vec::new();
    for pending in &found {
        if let Some(index) = wanted.iter().position(|text| *text == pending.text(bytes)) {
            wanted.swap_remove(index);
            cuts.push(pending.lines.clone());
        }
    }
    for label in labels {
        let inside = |cut: &&Range<usize>| cut.start >= label.lines.end && cut.end <= label.section_end;
        let mut at = label.lines.end;
        let mut rest = Vec::new();
        for cut in cuts.iter().filter(inside) {
            rest.extend(&bytes[at..cut.start]);
            at = cut.end;
        }
        rest.extend(&bytes[at..label.section_end]);
        if at > label.lines.end && rest.trim_ascii().is_empty() {
            cuts.push(label.lines);
        }
    }
    cuts.sort_by_key(|cut| cut.start);
    let mut kept = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for cut in cuts {
        kept.extend(&bytes[at..cut.start]);
        at = cut.end;
    }
    kept.extend(&bytes[at..]);
    kept
}

/// The files that a pass touches.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// The plan, not a link.
    pub(super) plan: PathBuf,
    /// The inbox, not a link.
    pub(super) inbox: PathBuf,
    /// Where removed lines are kept.
    pub(super) archive: PathBuf,
}

/// What a pass over the inbox did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// Titles of the items that became tasks.
    pub added: Vec<String>,
    /// Titles of those that were tasks already.
    pub already: Vec<String>,
    /// What a person should know.
    pub problems: Vec<String>,
}

/// Whether an open task of `items` is the one of `wanted`.
pub(super) fn is_among<'a>(wanted: &Item, items: impl IntoIterator<Item = &'a Item>) -> bool {
    items.into_iter().filter(|item| !item.checked && item.counts()).any(|item| {
        let alike = |a: &str, b: &str| a == b || same_task(a, b);
        let described = match (&wanted.description, &item.description) {
            (None, _) => true,
            // A second thought on the same subject is not swallowed.
            (Some(_), None) => false,
            (Some(a), Some(b)) => alike(a, b),
        };
        described && alike(&wanted.title, &item.title)
    })
}

/// Makes the items of the inbox tasks of the plan. `elsewhere` are items of the files the plan links to.
pub(super) fn take<F: Files>(files: &mut F, places: &Places, elsewhere: &[Item]) -> Result<Taken, EditError> {
    let read = |files: &mut F, path: &PathBuf| {
        let bytes = files.read(path).map_err(crate::state::atomic::FileError::at("read", path))?;
        Ok::<_, EditError>(bytes.unwrap_or_default())
    };
    let mut taken = Taken::default();
    let inbox = read(files, &places.inbox)?;
    let items: Vec<(Pending, Item)> =
        pending(&inbox).into_iter().map(|pending| (pending.clone(), pending.as_item())).collect();
    if items.is_empty() {
        return Ok(taken);
    }
    let mut refused = false;
    let mut added = Vec::new();
    edit(files, &places.plan, &mut |plan| {
        let parsed = parse(plan);
        let mut new: Vec<(&Pending, &Item)> = Vec::new();
        for (pending, item) in &items {
            let twin = new
                .iter()
                .any(|(_, other)| other.title == item.title && other.description == item.description);
            if !twin && !is_among(item, parsed.items.iter().chain(elsewhere)) {
                new.push((pending, item));
            }
        }
        added = new.iter().map(|(_, item)| item.title.clone()).collect();
        let blocks: Vec<&Pending> = new.iter().map(|(pending, _)| *pending).collect();
        if blocks.is_empty() {
            return None;
        }
        let result = appended(plan, HEADING, &blocks);
        refused = result.is_none();
        result
    })?;
    if refused {
        added.clear();
        let text = "the inbox is left as it is: the plan ends within code or a comment that is not closed";
        taken.problems.push(text.to_owned());
    }
    let plan = parse(&read(files, &places.plan)?);
    let safe = |item: &Item| is_among(item, plan.items.iter().chain(elsewhere));
    let mut texts = Vec::new();
    let mut archived = Vec::new();
    for (pending, item) in items.iter().filter(|(_, item)| safe(item)) {
        let text = pending.text(&inbox).to_vec();
        if let Some(label) = &pending.label {
            archived.extend([b"## ", label.as_slice(), b"\n"].concat());
        }
        archived.extend([text.as_slice(), b"\n"].concat());
        texts.push(text);
        let list = if added.contains(&item.title) { &mut taken.added } else { &mut taken.already };
        list.push(item.title.clone());
    }
    if texts.is_empty() {
        return Ok(taken);
    }
    files
        .append(&places.archive, &archived)
        .map_err(crate::state::atomic::FileError::at("add to", &places.archive))?;
    edit(files, &places.inbox, &mut |inbox| Some(without(inbox, &texts)))?;
    Ok(taken)
}

/// A task of ours, one line, for [`appended`].
pub(super) fn of_title(title: &str) -> Pending {
    let words: Vec<&str> = title.split_whitespace().collect();
    Pending { title: words.join(" ").into_bytes(), ..Pending::default() }
}

#[cfg(test)]
#[path = "inbox/tests.rs"]
mod tests;
