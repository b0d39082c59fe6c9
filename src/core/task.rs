//! Tasks: pieces of work with a name that outlives edits (design §5).

use serde::{Deserialize, Serialize};

use super::mode::Mode;

/// Where a task stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskSource {
    /// A checkbox of `.project/plan.md`, or of a file it links to.
    #[default]
    Plan,
    /// An item of `.project/inbox.md`.
    Inbox,
    /// An issue of the forge with the configured label.
    Backlog,
    /// Made by autopilot: look at what a session reported as doubtful, or bring the documentation up to date.
    FollowUp,
}

/// How much a task presses, most first (recovery §10.6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// critical, urgent, blocker.
    Critical,
    /// high, important, asap.
    High,
    /// Nothing said.
    #[default]
    Normal,
    /// low, nice to have, someday.
    Low,
}

/// A task that is open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// Short and stable: survives edits of its text and moves in the file.
    pub id: String,
    /// Its line, without box and priority words taken off.
    pub title: String,
    /// Text that belongs to it, if any.
    pub description: Option<String>,
    /// Headings above it, outermost first.
    pub phase: Vec<String>,
    /// Where it stands.
    pub source: TaskSource,
    /// File, relative to the repository; empty for an issue.
    pub file: String,
    /// Line in that file, from 1; 0 for an issue.
    pub line: u32,
    /// How much it presses.
    pub priority: Priority,
    /// Sessions in a row that were given it and left it open.
    pub carried: u32,
}

/// What the open tasks mean for the choice of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskEvidence {
    /// Open tasks of all sources.
    pub open: u32,
    /// The most often carried of them was carried over so often.
    pub most_carried: u32,
}

impl TaskEvidence {
    /// Counts.
    #[must_use]
    pub fn of(tasks: &[Task]) -> Self {
        TaskEvidence {
            open: u32::try_from(tasks.len()).unwrap_or(u32::MAX),
            most_carried: tasks.iter().map(|task| task.carried).max().unwrap_or(0),
        }
    }
}

/// Most tasks a session of a mode is given. A list that is too long invites to hurry; one task alone wastes the
/// start of a session on a small repair.
#[must_use]
pub fn most_at_once(mode: Mode) -> usize {
    match mode {
        Mode::Housekeeping | Mode::Feature => 3,
        Mode::Deep | Mode::Discovery | Mode::Evolve | Mode::PlanRetro => 8,
    }
}

/// The tasks for a session of `mode`: what presses most first, else in the order of the files.
#[must_use]
pub fn choose(tasks: &[Task], mode: Mode) -> Vec<Task> {
    let mut chosen: Vec<&Task> = tasks.iter().collect();
    chosen.sort_by_key(|task| task.priority);
    chosen.into_iter().take(most_at_once(mode)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_presses_comes_first_and_the_files_order_breaks_ties() {
        let task = |id: &str, priority| Task { id: id.to_owned(), priority, ..Task::default() };
        let tasks = [
            task("a", Priority::Low),
            task("b", Priority::Normal),
            task("c", Priority::Critical),
            task("d", Priority::Normal),
        ];
        let ids = |mode| choose(&tasks, mode).into_iter().map(|task| task.id).collect::<Vec<_>>();
        assert_eq!(ids(Mode::Feature), ["c", "b", "d"]);
        assert_eq!(ids(Mode::Deep), ["c", "b", "d", "a"]);
    }
}
