//! What became of the tasks of a session: the task files, in the words of the core.

use std::path::Path;

use crate::core::published::TaskOutcome;
use crate::core::task::{Task, TaskSource};
use crate::plan::{self, Settled};

/// What is asked of the task files.
#[derive(Debug)]
pub(super) struct Question {
    /// Id of the conversation.
    pub(super) session_id: String,
    /// Ids of the tasks it was given.
    pub(super) given: Vec<String>,
    /// Tasks it reports done.
    pub(super) done: Vec<String>,
    /// Open boxes of these may be ticked.
    pub(super) proven: bool,
    /// All tasks that were open before it.
    pub(super) known: Vec<Task>,
}

/// Looks, ticks what is proven, and says what a person should know. Blocks for the disk.
pub(super) fn settle(root: &Path, ledger: &Path, question: &Question) -> (TaskOutcome, Vec<String>) {
    let Question { session_id, given, done, proven, known } = question;
    // Issues are closed at the forge, not ticked here.
    let is_issue =
        |id: &String| known.iter().any(|task| task.id == *id && task.source == TaskSource::Backlog);
    let boxes: Vec<String> = given.iter().filter(|id| !is_issue(id)).cloned().collect();
    let names_issue =
        |claim: &&String| known.iter().any(|task| task.source == TaskSource::Backlog && names(claim, task));
    let claims: Vec<String> = done.iter().filter(|claim| !names_issue(claim)).cloned().collect();
    let accepted: &[String] = if *proven { &claims } else { &[] };
    let Settled { ticked_by_session, ticked_by_us, still_open, gone, unknown_claims, problems } =
        plan::settle(root, ledger, &boxes, accepted, session_id);

    let title = |id: &String| {
        known.iter().find(|task| task.id == *id).map_or_else(|| id.clone(), |task| task.title.clone())
    };
    let titles = |ids: &[String]| ids.iter().map(title).collect::<Vec<String>>();
    let claimed = |id: &String| {
        known.iter().filter(|task| task.id == *id).any(|task| done.iter().any(|claim| names(claim, task)))
    };
    let disproved: Vec<String> =
        if *proven { Vec::new() } else { still_open.iter().filter(|id| claimed(id)).cloned().collect() };
    let outcome = TaskOutcome {
        given: titles(given),
        ticked_by_session: titles(&ticked_by_session),
        ticked_by_us: titles(&ticked_by_us),
        still_open: titles(&still_open),
        gone: titles(&gone),
        disproved: titles(&disproved),
        unknown_claims,
    };
    (outcome, problems)
}

/// Whether a claim names a task: by its id in it, or by its title.
fn names(claim: &str, task: &Task) -> bool {
    let word = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#').to_owned();
    claim.split_whitespace().any(|part| word(part).eq_ignore_ascii_case(&task.id))
        || claim.trim().eq_ignore_ascii_case(task.title.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_names_a_task_by_id_or_title() {
        let task = Task { id: "k3x9qa".to_owned(), title: "Add a parser".to_owned(), ..Task::default() };
        for claim in ["k3x9qa", "[K3X9QA] Add a parser", "done: k3x9qa.", "add a parser ", "(k3x9qa)"] {
            assert!(names(claim, &task), "{claim}");
        }
        for claim in ["", "Add", "a parser", "k3x9q"] {
            assert!(!names(claim, &task), "{claim}");
        }
        let issue = Task { id: "#12".to_owned(), title: "x".to_owned(), ..Task::default() };
        assert!(names("closed #12", &issue) && !names("closed #123", &issue));
    }
}
