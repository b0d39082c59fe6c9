//! Reading a task file: which checkboxes it has, at which byte each mark is, and what belongs to it. Pure.
//!
//! # What is a task
//!
//! A checkbox that Markdown (with the task list extension) makes of the text: at any depth, of any list kind.
//! What stands in code, in an HTML block or in an HTML comment is none. A box in a block quote is one, since
//! that is how it is shown.
//!
//! - A box with **open boxes below it** is not work itself: its parts are. Once they are all ticked or struck
//!   it is offered, so that somebody looks at the whole and ticks it; were it never offered, a plan could
//!   never be finished by a run.
//! - A **struck** item (`~~all of it~~`, a note in brackets may follow) is not work, nor is what is below it.
//! - A box without any text is not work.
//!
//! # Bytes
//!
//! The file may be in any encoding that contains ASCII. The structure is read from a copy of the same length
//! in which every byte that is not UTF-8 is a `?`, so that all offsets are those of the file; texts are cut
//! from the file itself.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Most bytes of a title; what is beyond is left out.
const MAX_TITLE: usize = 500;
/// Most bytes of a description.
const MAX_DESCRIPTION: usize = 4096;

/// A checkbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one line")]
pub(super) struct Item {
    /// Offset of the byte between the brackets.
    pub(super) mark: usize,
    /// It is ticked.
    pub(super) checked: bool,
    /// It, or one above it, is struck through.
    pub(super) struck: bool,
    /// Boxes below it are open, and neither struck nor empty.
    pub(super) open_below: bool,
    /// It stands in another box, at any depth.
    pub(super) nested: bool,
    /// Lists and quotes around it; 1 for an item of a list of its own.
    pub(super) depth: usize,
    /// Its line without box and comments.
    pub(super) title: String,
    /// The other lines that belong to it, without those of boxes below it, dedented.
    pub(super) description: Option<String>,
    /// Headings above it, outermost first.
    pub(super) phase: Vec<String>,
    /// Its line, from 1.
    pub(super) line: u32,
    /// All of it, from the bullet on.
    pub(super) range: Range<usize>,
}

impl Item {
    /// Whether it is work as it stands.
    pub(super) fn is_work(&self) -> bool {
        !self.checked && !self.open_below && self.counts()
    }

    /// Whether it is a task at all, open or done.
    pub(super) fn counts(&self) -> bool {
        !self.struck && !self.title.is_empty()
    }
}

/// A heading at the top level of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heading {
    /// 1 to 6.
    pub(super) level: u8,
    /// Its text, without markup.
    pub(super) text: String,
    /// All of it.
    pub(super) range: Range<usize>,
}

/// What was found in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    /// Checkboxes in the order of the file.
    pub(super) items: Vec<Item>,
    /// Headings in the order of the file, those within lists and quotes left out.
    pub(super) headings: Vec<Heading>,
    /// Targets of links, as written.
    pub(super) links: Vec<String>,
}

/// Reads a file.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let skip = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
    let text = same_length(&bytes[skip..]);
    let mut walk = Walk { bytes, skip, ..Walk::default() };
    for (event, range) in Parser::new_ext(&text, OPTIONS).into_offset_iter() {
        walk.step(&event, range.start + skip..range.end + skip);
    }
    walk.finish()
}

const BOM: &[u8] = b"\xEF\xBB\xBF";
const OPTIONS: Options = Options::ENABLE_TASKLISTS.union(Options::ENABLE_STRIKETHROUGH);

/// The text for the parser: every byte that is not UTF-8 is one `?`.
fn same_length(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n('?', chunk.invalid().len()));
    }
    text
}

/// A list item that is still open.
#[derive(Debug, Default)]
struct Open {
    range: Range<usize>,
    /// Index in `items` of its box.
    boxed: Option<usize>,
    /// Ranges of the nearest boxed items below it.
    below: Vec<Range<usize>>,
    /// A box below it is open.
    unfinished: bool,
}

#[derive(Default)]
struct Walk<'a> {
    bytes: &'a [u8],
    skip: usize,
    /// Containers (lists, quotes) around the current place.
    depth: usize,
    open: Vec<Open>,
    /// Headings above, with their levels.
    above: Vec<(u8, String)>,
    /// The heading that is being read.
    heading: Option<Heading>,
    /// Code, in which `<!--` is no comment.
    code: Vec<Range<usize>>,
    /// Per item: ranges of boxed items below, for the description.
    cut: Vec<Vec<Range<usize>>>,
    parsed: Parsed,
    /// Lines counted so far, up to this offset.
    counted: (u32, usize),
}

impl Walk<'_> {
    fn step(&mut self, event: &Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::List(_) | Tag::BlockQuote(_)) => self.depth += 1,
            Event::End(TagEnd::List(_) | TagEnd::BlockQuote(_)) => self.depth = self.depth.saturating_sub(1),
            Event::Start(Tag::Item) => self.open.push(Open { range, ..Open::default() }),
            Event::End(TagEnd::Item) => self.close(),
            Event::TaskListMarker(checked) => self.mark(*checked, &range),
            Event::Start(Tag::Heading { level, .. }) if self.depth == 0 => {
                self.heading = Some(Heading { level: number(*level), text: String::new(), range });
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some(mut heading) = self.heading.take() {
                    heading.text = bounded(heading.text.trim(), MAX_TITLE);
                    self.above.retain(|(level, _)| *level < heading.level);
                    self.above.push((heading.level, heading.text.clone()));
                    self.parsed.headings.push(heading);
                }
            }
            Event::Start(Tag::CodeBlock(_)) => self.code.push(range),
            Event::Start(Tag::Link { dest_url, .. }) => self.parsed.links.push(dest_url.to_string()),
            Event::Code(text) => {
                self.code.push(range);
                self.say(text);
            }
            Event::Text(text) => self.say(text),
            Event::SoftBreak | Event::HardBreak => self.say(" "),
            _ => {}
        }
    }

    fn say(&mut self, text: &str) {
        if let Some(heading) = &mut self.heading {
            heading.text.push_str(text);
        }
    }

    fn mark(&mut self, checked: bool, range: &Range<usize>) {
        let nested = self.open.iter().rev().skip(1).any(|open| open.boxed.is_some());
        let Some(open) = self.open.last_mut() else { return };
        let Some(bracket) = self.bytes[range.clone()].iter().position(|byte| *byte == b'[') else { return };
        let mark = range.start + bracket + 1;
        // Never point at a byte that is no mark: it is what gets written.
        if !matches!(self.bytes.get(mark), Some(b' ' | b'\t' | 0x0b | 0x0c | b'x' | b'X'))
            || self.bytes.get(mark + 1) != Some(&b']')
        {
            return;
        }
        open.boxed = Some(self.parsed.items.len());
        let (line, from) = self.counted;
        let line = line + count_lines(&self.bytes[from..mark.max(from)]);
        self.counted = (line, mark);
        self.cut.push(Vec::new());
        self.parsed.items.push(Item {
            mark,
            checked,
            nested,
            depth: self.depth,
            phase: self.above.iter().map(|(_, text)| text.clone()).collect(),
            line: line + 1,
            range: open.range.clone(),
            ..Item::default()
        });
    }

    fn close(&mut self) {
        let Some(closed) = self.open.pop() else { return };
        let mut up = closed.below;
        let mut open_below = closed.unfinished;
        if let Some(index) = closed.boxed {
            let item = &mut self.parsed.items[index];
            (item.title, item.struck) = title(self.bytes, item.mark);
            item.open_below = open_below;
            self.cut[index] = std::mem::take(&mut up);
            up.push(closed.range);
            // A struck item takes its parts with it.
            open_below = !item.struck && (open_below || (!item.checked && !item.title.is_empty()));
        }
        if let Some(parent) = self.open.last_mut() {
            // The longer list stays where it is, so that deep nesting costs no copies.
            if parent.below.is_empty() {
                parent.below = up;
            } else {
                parent.below.append(&mut up);
            }
            parent.unfinished |= open_below;
        }
    }

    fn finish(mut self) -> Parsed {
        let comments = comments(self.bytes, &mut self.code, self.skip);
        let mut struck_to = 0;
        for (item, cut) in self.parsed.items.iter_mut().zip(&self.cut) {
            if item.range.start < struck_to {
                item.struck = true;
            } else if item.struck {
                struck_to = item.range.end;
            }
            item.description = description(self.bytes, item, cut);
        }
        let hidden = |item: &Item| {
            let at = comments.partition_point(|comment| comment.end <= item.mark);
            comments.get(at).is_some_and(|comment| comment.start < item.mark)
        };
        self.parsed.items.retain(|item| !hidden(item));
        self.parsed
    }
}

fn number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// Line breaks: LF, CRLF, and CR alone.
fn count_lines(bytes: &[u8]) -> u32 {
    let count = memchr::memchr2_iter(b'\n', b'\r', bytes)
        .filter(|at| bytes[*at] == b'\r' || *at == 0 || bytes[at - 1] != b'\r')
        .count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Ranges of comments that Markdown may not see as such: those that begin within a paragraph and reach over
/// what looks like a list.
fn comments(bytes: &[u8], code: &mut [Range<usize>], from: usize) -> Vec<Range<usize>> {
    code.sort_by_key(|range| range.start);
    let mut found = Vec::new();
    let mut at = from;
    while let Some(start) = memchr::memmem::find(&bytes[at..], b"<!--").map(|found| at + found) {
        let next = code.partition_point(|range| range.end <= start);
        if let Some(range) = code.get(next)
            && range.start <= start
        {
            at = range.end.max(start + 4);
            continue;
        }
        let Some(end) = memchr::memmem::find(&bytes[start + 4..], b"-->") else { break };
        at = start + 4 + end + 3;
        found.push(start..at);
    }
    found
}

/// End of the line that `from` is in, without its line break.
pub(super) fn line_end(bytes: &[u8], from: usize) -> usize {
    memchr::memchr2(b'\n', b'\r', &bytes[from..]).map_or(bytes.len(), |found| from + found)
}

/// Start of the line that `at` is in.
pub(super) fn line_start(bytes: &[u8], at: usize) -> usize {
    memchr::memrchr2(b'\n', b'\r', &bytes[..at]).map_or(0, |found| found + 1)
}

/// Start of the line after the one that `from` is in.
pub(super) fn next_line(bytes: &[u8], from: usize) -> usize {
    let end = line_end(bytes, from);
    match &bytes[end..] {
        [b'\r', b'\n', ..] => end + 2,
        [_, ..] => end + 1,
        [] => end,
    }
}

/// The rest of the line behind the box, without comments; and whether it is struck through.
fn title(bytes: &[u8], mark: usize) -> (String, bool) {
    let line = String::from_utf8_lossy(&bytes[mark + 2..line_end(bytes, mark)]).into_owned();
    let mut text = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some((before, after)) = rest.split_once("<!--") {
        let Some((_, after)) = after.split_once("-->") else { break };
        text.push_str(before);
        rest = after;
    }
    text.push_str(rest);
    let text = bounded(text.trim(), MAX_TITLE);
    let struck = is_struck(&text);
    (text, struck)
}

/// `~~all of it~~`, perhaps with punctuation or a note in brackets behind. `~~this~~ that` is a correction.
fn is_struck(text: &str) -> bool {
    let Some((inner, after)) = text.strip_prefix("~~").and_then(|rest| rest.rsplit_once("~~")) else {
        return false;
    };
    let after = after.trim().trim_end_matches(['.', ',', ';', ':', '!']);
    let note = after.is_empty() || (after.starts_with('(') && after.ends_with(')'));
    !inner.trim().is_empty() && !inner.contains("~~") && note
}

/// The lines of an item below its own, without those of `cut`.
fn description(bytes: &[u8], item: &Item, cut: &[Range<usize>]) -> Option<String> {
    let mut at = next_line(bytes, item.mark);
    let end = item.range.end.min(bytes.len());
    let mut kept: Vec<u8> = Vec::new();
    for range in cut.iter().chain(std::iter::once(&(end..end))) {
        if at < range.start {
            kept.extend_from_slice(&bytes[at..range.start.min(at + 2 * MAX_DESCRIPTION)]);
        }
        at = at.max(range.end);
        if kept.len() > 2 * MAX_DESCRIPTION {
            break;
        }
    }
    let text = dedent(&String::from_utf8_lossy(&kept));
    let text = bounded(text.trim_matches(['\n', '\r', ' ', '\t']), MAX_DESCRIPTION);
    (!text.is_empty()).then_some(text)
}

/// Without the indentation that all lines have in common; the ends of lines become `\n`.
fn dedent(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches(['\r', ' ', '\t'])).collect();
    let indent = |line: &&str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let common = lines.iter().filter(|line| !line.is_empty()).map(indent).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(common..).unwrap_or("")).collect();
    lines.join("\n")
}

/// At most `most` bytes of it.
fn bounded(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].trim_end().to_owned()
}

#[cfg(test)]
#[path = "parse/tests.rs"]
mod tests;
