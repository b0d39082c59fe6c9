//! Tasks that follow from finished ones (recovery §10.8). Pure: titles in, titles out; they are appended to
//! the plan like the items of the inbox, under a heading of their own.
//!
//! - A session that finished a task and reported issues: "Verify & Polish: X", once for each X, and never for
//!   a task that is itself one of looking again.
//! - Enough files that are no Markdown have changed since the documentation was last brought up to date: one
//!   task for it, if none is open. Without a last time nothing is known, and nothing is made up.

use std::collections::BTreeSet;

use super::priority::priority;
use super::similar::normalise;
use crate::core::task::Priority;

/// Heading in the plan under which these tasks are added.
pub const HEADING: &str = "Follow-up";
/// Changed files from which on the documentation is looked at.
pub const DOCUMENTATION_THRESHOLD: usize = 10;

const VERIFY: &str = "Verify & Polish: ";
const DOCUMENTATION: &str = "Update the documentation";

/// A task that a session has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished<'a> {
    /// Its title.
    pub title: &'a str,
    /// How much it pressed.
    pub priority: Priority,
    /// The session reported something doubtful about its work.
    pub issues: bool,
}

/// Tasks to look again at finished ones. `known` are the titles of all tasks there are, ticked ones too: what
/// was looked at once is not looked at again.
#[must_use]
pub fn verifications<'a>(known: impl IntoIterator<Item = &'a str>, finished: &[Finished<'_>]) -> Vec<String> {
    let mut seen: BTreeSet<String> = known.into_iter().flat_map(subjects).collect();
    let mut titles = Vec::new();
    for task in finished.iter().filter(|task| task.issues && !looks_again(task.title)) {
        let title = task.title.split_whitespace().collect::<Vec<_>>().join(" ");
        if title.is_empty() || !seen.insert(normalise(&title)) {
            continue;
        }
        let mut text = format!("{VERIFY}{title}");
        let word = match task.priority {
            Priority::Critical => Some("critical"),
            Priority::High => Some("high"),
            Priority::Normal | Priority::Low => None,
        };
        if let Some(word) = word.filter(|_| priority(&text) != task.priority) {
            text = format!("{text} ({word})");
        }
        titles.push(text);
    }
    titles
}

/// The X of a "Verify & Polish: X", with and without a priority at its end: that may be ours or part of X.
fn subjects(title: &str) -> Vec<String> {
    let Some(rest) = title.trim().strip_prefix(VERIFY.trim_end()).map(str::trim) else { return Vec::new() };
    let without = ["(critical)", "(high)"].iter().find_map(|word| rest.strip_suffix(word));
    [Some(rest), without].into_iter().flatten().map(normalise).collect()
}

/// Whether a task is itself one of verifying, validating or polishing.
fn looks_again(title: &str) -> bool {
    let first = title.split(|c: char| !c.is_alphanumeric()).find(|word| {
        !word.is_empty() && !["critical", "urgent", "high", "low"].contains(&word.to_lowercase().as_str())
    });
    first.is_some_and(|word| {
        let word = word.to_lowercase();
        ["verify", "verification", "verifying", "validate", "validation", "polish", "polishing"]
            .contains(&word.as_str())
    })
}

/// A task to bring the documentation up to date. `open` are the titles of the open tasks, `changed` the paths
/// that were changed since it was last done; `None` = that is not known.
#[must_use]
pub fn documentation<'a>(
    open: impl IntoIterator<Item = &'a str>,
    changed: Option<&[String]>,
    threshold: usize,
) -> Option<String> {
    let is_markdown = |path: &str| {
        let end = path.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
        end.is_some_and(|end| ["md", "markdown", "mdx"].contains(&end.as_str()))
    };
    let files: BTreeSet<&String> = changed?.iter().filter(|path| !is_markdown(path)).collect();
    let wanted = normalise(DOCUMENTATION);
    let is_open = open.into_iter().any(|title| normalise(title).starts_with(&wanted));
    (!is_open && files.len() >= threshold.max(1))
        .then(|| format!("{DOCUMENTATION}: {} files have changed since that was last done", files.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_at_again() {
        let check = |known: &[&str], finished: &[(&str, Priority, bool)], expected: &[&str]| {
            let finished: Vec<Finished<'_>> = finished
                .iter()
                .map(|(title, priority, issues)| Finished { title, priority: *priority, issues: *issues })
                .collect();
            assert_eq!(verifications(known.iter().copied(), &finished), expected, "{known:?} {finished:?}");
        };
        let normal = Priority::Normal;
        check(&[], &[("Write it", normal, true)], &["Verify & Polish: Write it"]);
        check(&[], &[("Write it", normal, false)], &[]);
        check(&[], &[("", normal, true), (" \n", normal, true)], &[]);
        check(
            &[],
            &[("Write\n it", normal, true), ("write it.", normal, true)],
            &["Verify & Polish: Write it"],
        );
        check(&["Verify & Polish: Write it"], &[("Write it", normal, true)], &[]);
        check(&["Verify & Polish: Write it (high)"], &[("Write it", Priority::High, true)], &[]);
        check(&["Verify & Polish: Write it (high)"], &[("Write it (high)", Priority::High, true)], &[]);
        check(&["Verify & Polish: Write"], &[("Write it", normal, true)], &["Verify & Polish: Write it"]);
        for again in
            ["Verify & Polish: X", "verify the parser", "Validate input", "polish", "urgent: verify it"]
        {
            check(&[], &[(again, normal, true)], &[]);
        }
        check(
            &[],
            &[("Add verification of tokens", normal, true)],
            &["Verify & Polish: Add verification of tokens"],
        );
        check(&[], &[("high: x", Priority::High, true)], &["Verify & Polish: high: x (high)"]);
        check(&[], &[("x [critical]", Priority::Critical, true)], &["Verify & Polish: x [critical]"]);
        check(&[], &[("x", Priority::Low, true)], &["Verify & Polish: x"]);
    }

    #[test]
    fn when_the_documentation_is_looked_at() {
        let files =
            |count: usize, end: &str| (0..count).map(|n| format!("src/f{n}.{end}")).collect::<Vec<_>>();
        let check = |open: &[&str], changed: Option<Vec<String>>, threshold, expected: bool| {
            let found = documentation(open.iter().copied(), changed.as_deref(), threshold);
            assert_eq!(found.is_some(), expected, "{open:?} {changed:?} {threshold}: {found:?}");
        };
        check(&[], Some(files(10, "rs")), DOCUMENTATION_THRESHOLD, true);
        check(&[], Some(files(9, "rs")), DOCUMENTATION_THRESHOLD, false);
        check(&[], Some(files(30, "md")), DOCUMENTATION_THRESHOLD, false);
        check(&[], Some([files(9, "rs"), files(9, "rs")].concat()), DOCUMENTATION_THRESHOLD, false);
        check(&[], Some(vec!["Makefile".to_owned()]), 1, true);
        check(&[], Some(vec!["README.MD".to_owned()]), 1, false);
        check(&[], Some(Vec::new()), 0, false);
        check(&[], None, 0, false);
        check(&["update the documentation: of the api"], Some(files(50, "rs")), 10, false);
        check(&["Update the parser"], Some(files(50, "rs")), 10, true);
    }
}
