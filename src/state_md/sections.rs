//! Sections of bullets in the body of STATE.md: `## What Not To Retry`, `## Open Questions`.
//!
//! A section goes from its heading to the next one of the first or second level; headings inside of fenced
//! code are none. A bullet is a `-`, `*` or `+` line with the lines that are indented below it. What is no
//! bullet (prose, comments, blank lines) is nobody's business here and keeps its bytes.

use std::ops::Range;

use super::front_matter::{Lines, one_line};

/// Longest bullet that is written, in characters: a hand-over is a note, not a log.
const LONGEST_BULLET: usize = 400;

/// A bullet with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bullet {
    /// Its lines, line breaks included.
    span: Range<usize>,
    /// What it says, on one line, without the marker.
    says: String,
}

#[derive(Debug, Default)]
struct Section {
    /// Behind its last line that is not blank: the heading, at least.
    end: usize,
    /// In the order of the text.
    bullets: Vec<Bullet>,
}

/// What the bullets of the section `title` say, in their order; none when it is not there.
#[must_use]
pub(super) fn bullets(text: &str, from: usize, title: &str) -> Vec<String> {
    find(text, from, title)
        .map_or_else(Vec::new, |section| section.bullets.into_iter().map(|bullet| bullet.says).collect())
}

/// `text` with the bullets `added` in the section `title`, at most `cap` in all: the newest stand last and
/// stay, the oldest go. One that is there already moves to the end as it is. `newline` ends new lines.
#[must_use]
pub(super) fn merge(
    text: &str,
    from: usize,
    title: &str,
    added: &[String],
    cap: usize,
    newline: &str,
) -> String {
    let mut fresh: Vec<String> = Vec::new();
    for bullet in added {
        let says: String = one_line(bullet).chars().take(LONGEST_BULLET).collect();
        // Cut text may end in a blank.
        let says = says.trim_end().to_owned();
        fresh.retain(|other| *other != says);
        if !says.is_empty() {
            fresh.push(says);
        }
    }
    fresh.drain(..fresh.len().saturating_sub(cap));
    if fresh.is_empty() {
        return text.to_owned();
    }
    let Some(section) = find(text, from, title) else {
        let mut whole = text.to_owned();
        if !whole.is_empty() && !whole.ends_with('\n') {
            whole.push_str(newline);
        }
        if !whole.is_empty() {
            whole.push_str(newline);
        }
        whole.push_str(&["## ", title, newline, newline].concat());
        whole.extend(fresh.iter().map(|says| ["- ", says, newline].concat()));
        return whole;
    };
    let old = section.bullets;
    let (moved, staying): (Vec<&Bullet>, Vec<&Bullet>) =
        old.iter().partition(|old| fresh.contains(&old.says));
    let staying = &staying[staying.len().saturating_sub(cap - fresh.len())..];
    let lines = fresh.iter().map(|says| match moved.iter().find(|old| old.says == *says) {
        // As a person wrote it.
        Some(old) => [text[old.span.clone()].trim_end(), newline].concat(),
        None => ["- ", says, newline].concat(),
    });
    let insert_at = old.last().map_or(section.end, |last| last.span.end);
    let mut whole = String::with_capacity(text.len() + 1024);
    let mut copied = 0;
    for gone in old.iter().filter(|old| !staying.contains(old)) {
        whole.push_str(&text[copied..gone.span.start]);
        copied = gone.span.end;
    }
    whole.push_str(&text[copied..insert_at]);
    if !whole.ends_with('\n') {
        whole.push_str(newline);
    }
    if old.is_empty() {
        whole.push_str(newline);
    }
    whole.extend(lines);
    whole.push_str(&text[insert_at..]);
    whole
}

fn find(text: &str, from: usize, title: &str) -> Option<Section> {
    let mut section: Option<Section> = None;
    let mut fence: Option<&str> = None;
    let mut margin = None;
    // A bullet ends with the first line that is not indented below it.
    let mut open = false;
    for line in Lines::from(text, from) {
        let content = line.text.trim();
        let end = line.start + text[line.start..].find('\n').map_or(text.len() - line.start, |at| at + 1);
        let opening = ["```", "~~~"].into_iter().find(|mark| content.starts_with(mark));
        match (fence, opening) {
            (None, Some(mark)) if is_closed(text, end, mark) => fence = opening,
            (Some(mark), Some(closing)) if mark == closing => fence = None,
            _ => {}
        }
        let fenced = fence.is_some() || opening.is_some();
        if !fenced && let Some(heading) = line.text.strip_prefix("# ").or(line.text.strip_prefix("## ")) {
            if section.is_some() {
                break;
            }
            if line.text.starts_with("##") && heading.trim().eq_ignore_ascii_case(title) {
                section = Some(Section { end, bullets: Vec::new() });
            }
            continue;
        }
        let Some(section) = &mut section else { continue };
        if content.is_empty() {
            open = false;
            continue;
        }
        section.end = end;
        let indent = line.text.len() - line.text.trim_start().len();
        let marked = ["- ", "* ", "+ "].into_iter().find_map(|marker| content.strip_prefix(marker));
        match (marked, section.bullets.last_mut()) {
            (Some(says), _) if !fenced && indent <= *margin.get_or_insert(indent) => {
                section.bullets.push(Bullet { span: line.start..end, says: one_line(says) });
                open = true;
            }
            (_, Some(last)) if open && margin.is_some_and(|margin| indent > margin) => {
                last.span.end = end;
                last.says = one_line(&[&last.says, " ", content].concat());
            }
            _ => open = false,
        }
    }
    section
}

/// Whether a fence ends somewhere behind `from`. One that does not is taken for text: what is added behind it
/// must be found again.
fn is_closed(text: &str, from: usize, mark: &str) -> bool {
    Lines::from(text, from).any(|line| line.text.trim_start().starts_with(mark))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TITLE: &str = "Open Questions";

    fn merged(text: &str, added: &[&str], cap: usize) -> String {
        let added: Vec<String> = added.iter().map(|says| (*says).to_owned()).collect();
        merge(text, 0, TITLE, &added, cap, "\n")
    }

    #[test]
    fn bullets_of_a_section() {
        let check = |text: &str, expected: &[&str]| assert_eq!(bullets(text, 0, TITLE), expected, "{text}");
        check("", &[]);
        check("## Other\n- a\n", &[]);
        check("## Open Questions\n- a\n* b\n+ c\n## Next\n- d\n", &["a", "b", "c"]);
        check("# Top\n\n## open questions  \n\nprose\n\n- a\n  goes  on\n\n- b", &["a goes on", "b"]);
        check("## Open Questions\n- a\n  - below\n### Deeper\n- b\n# End\n- c", &["a - below", "b"]);
        check(
            "```\n## Open Questions\n- a\n```\n## Open Questions\n- b\n```\n- c\n# x\n```\n- d\n",
            &["b", "d"],
        );
        check("## Open Questions\r\n- a\r\n\r\n## Next\r\n", &["a"]);
        check("### Open Questions\n- a\n", &[]);
    }

    #[test]
    fn merging() {
        let check = |text: &str, added: &[&str], cap: usize, expected: &str| {
            assert_eq!(merged(text, added, cap), expected, "{text} + {added:?}");
        };
        check("", &["a"], 9, "## Open Questions\n\n- a\n");
        check("# T", &["a", "b"], 9, "# T\n\n## Open Questions\n\n- a\n- b\n");
        check("# T\n", &[], 9, "# T\n");
        check("# T\n", &[" ", "\n"], 9, "# T\n");
        check("## Open Questions\n## N\n", &["a"], 9, "## Open Questions\n\n- a\n## N\n");
        check("## Open Questions", &["a"], 9, "## Open Questions\n\n- a\n");
        check(
            "## Open Questions\n\n- a\nprose\n\n## N\n",
            &["b"],
            9,
            "## Open Questions\n\n- a\n- b\nprose\n\n## N\n",
        );
        // Nothing new leaves every byte alone, even too many.
        check("## Open Questions\n- a\n- b", &["b"], 9, "## Open Questions\n- a\n- b\n");
        check("## Open Questions\n- a\n- b\n", &[], 1, "## Open Questions\n- a\n- b\n");
        // One that is there moves to the end as it was written; the oldest go.
        check(
            "## Open Questions\n* a\n  more\n- b\n",
            &["a more"],
            9,
            "## Open Questions\n- b\n* a\n  more\n",
        );
        check("## Open Questions\n- a\nx\n- b\n", &["c", "d"], 3, "## Open Questions\nx\n- b\n- c\n- d\n");
        check("## Open Questions\n- a\n", &["b", "c", "b", "d"], 2, "## Open Questions\n- b\n- d\n");
        check("## Open Questions\n- a", &["x\r\n y"], 1, "## Open Questions\n- x y\n");
    }

    proptest! {
        /// Never more than the cap, the newest last, and a second time changes nothing.
        #[test]
        fn merging_is_idempotent(
            text in "(# T\n)?((## Open Questions|## N|- [a-d]|\\* [a-d]|  more|x||```)\r?\n){0,10}",
            added in prop::collection::vec("[a-f]", 0..6),
            cap in 1_usize..5,
        ) {
            let once = merge(&text, 0, TITLE, &added, cap, "\n");
            prop_assert_eq!(&merge(&once, 0, TITLE, &added, cap, "\n"), &once);
            if !added.is_empty() {
                let found = bullets(&once, 0, TITLE);
                prop_assert!(found.len() <= cap, "{:?}", found);
                prop_assert_eq!(found.last(), added.last());
            }
        }
    }
}
