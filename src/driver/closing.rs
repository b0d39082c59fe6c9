//! What is written when a session closes, besides its record: the hand-over, STATE.md, tasks that follow.
//!
//! None of it may fail a run: what goes wrong is told as a warning.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::core::event::SessionClose;
use crate::core::mode::Mode;
use crate::core::task::{Priority, Task};
use crate::journal::hand_over;
use crate::journal::session_record::session_type;
use crate::plan::{self, follow_up};
use crate::state::layout::Layout;
use crate::state_md;

use super::Setup;

/// Tasks that a run adds to the plan by itself (recovery §10.8).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FollowUps {
    /// Look again at work that is reported done and in doubt.
    pub verify: bool,
    /// Bring the documentation up to date after many changes.
    pub docs: bool,
}

/// Everything that closing a session writes, ready to be written elsewhere.
#[derive(Debug)]
pub(super) struct Closing {
    layout: Layout,
    state_dir: Option<PathBuf>,
    closing: crate::core::hand_over::Closing,
    /// For STATE.md; `None` = it is not written.
    state: Option<state_md::HandOver>,
    /// Titles of tasks to add to the plan.
    follow_ups: Vec<String>,
    now: Timestamp,
}

impl Closing {
    /// What is to be written; `known` are the tasks that were open before the session.
    pub(super) fn of(setup: &Setup, close: &SessionClose, known: &[Task], now: Timestamp) -> Self {
        let closing = close.closing.clone();
        let state = (setup.state_file && close.completed).then(|| state_md::HandOver {
            recommended_mode: closing
                .fields
                .recommended_mode
                .as_deref()
                .and_then(|mode| mode.parse::<Mode>().ok()),
            top_priorities: closing.fields.top_priorities.clone(),
            carryover_ratio: closing.fields.carryover_ratio,
            completion_rate: closing.fields.completion_rate,
            rationale: closing.fields.rationale.clone(),
            what_not_to_retry: closing.hand_over.do_not_retry.clone(),
            open_questions: closing.hand_over.open_questions.clone(),
            session_type: Some(session_type(close.mode).to_owned()),
            branch: setup.sources.branch.clone(),
        });
        // A prompt is the work itself; it has no plan to add to.
        let wanted = setup.follow_ups.verify && !setup.sources.asked.prompt;
        let follow_ups = if wanted { verifications(close, known) } else { Vec::new() };
        let (layout, state_dir) = (setup.layout.clone(), setup.sources.state_dir.clone());
        Closing { layout, state_dir, closing, state, follow_ups, now }
    }

    /// Whether it adds tasks to the plan.
    pub(super) fn adds_tasks(&self) -> bool {
        !self.follow_ups.is_empty()
    }

    /// Writes it, and says what could not be written. Blocks for the disk.
    pub(super) fn write(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let root = self.layout.root();
        if let Err(error) = hand_over::write(&self.layout.hand_over(), &self.closing.hand_over, self.now) {
            warnings.push(error.to_string());
        }
        if let Some(state) = &self.state
            && let Err(error) = state_md::write(root, self.state_dir.as_deref(), state, self.now)
        {
            warnings.push(format!("STATE.md is not written: {error}"));
        }
        if !self.follow_ups.is_empty() {
            match plan::add_follow_ups(root, &self.layout.tasks(), self.now, &self.follow_ups) {
                Ok(added) => {
                    warnings.extend(added.iter().map(|title| format!("task added to the plan: {title}")));
                }
                Err(error) => warnings.push(format!("no task could be added to the plan: {error}")),
            }
        }
        warnings
    }
}

/// One task to look again at what a session reported done although something speaks against it (recovery
/// §10.8).
fn verifications(close: &SessionClose, known: &[Task]) -> Vec<String> {
    let doubtful = !close.checked.contradictions.is_empty()
        || close.verification.as_ref().is_some_and(|verification| !verification.passed)
        || close.checked.failed.is_some_and(|failed| failed > 0);
    let ticked =
        close.tasks.iter().flat_map(|tasks| tasks.ticked_by_session.iter().chain(&tasks.ticked_by_us));
    let finished: Vec<follow_up::Finished<'_>> = ticked
        .map(|title| follow_up::Finished {
            title,
            priority: known
                .iter()
                .find(|task| task.title == *title)
                .map_or(Priority::Normal, |task| task.priority),
            issues: doubtful,
        })
        .collect();
    let mut titles = follow_up::verifications(known.iter().map(|task| task.title.as_str()), &finished);
    titles.truncate(1);
    titles
}
