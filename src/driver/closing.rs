//! What is written when a session closes, besides its record: the hand-over, STATE.md, tasks that follow.
//!
//! None of it may fail a run: what goes wrong is told as a warning.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::core::event::SessionClose;
use crate::core::mode::Mode;
use crate::core::signals::StateFields;
use crate::core::task::{Priority, Task};
use crate::git::{self, Repo};
use crate::journal::hand_over;
use crate::journal::session_record::session_type;
use crate::plan::{self, follow_up};
use crate::state::atomic;
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
    left: crate::core::hand_over::Closing,
    /// For STATE.md; `None` = it is not written.
    state: Option<StateFile>,
    /// Titles of tasks to add to the plan.
    follow_ups: Vec<String>,
    /// Commit for the documentation mark, if its task is among them.
    documented: Option<String>,
    now: Timestamp,
}

impl Closing {
    /// What is to be written; `known` are the tasks that were open before the session.
    pub(super) fn of(setup: &Setup, close: &SessionClose, known: &[Task], now: Timestamp) -> Self {
        let left = close.closing.clone();
        let state = (setup.state_file && close.completed).then(|| StateFile {
            session_type: session_type(close.mode).to_owned(),
            branch: setup.sources.branch.clone(),
        });
        // A prompt is the work itself; it has no plan to add to.
        let wanted = setup.follow_ups.verify && !setup.sources.asked.prompt;
        let follow_ups = if wanted { verifications(close, known) } else { Vec::new() };
        let (layout, state_dir) = (setup.layout.clone(), setup.sources.state_dir.clone());
        Closing { layout, state_dir, left, state, follow_ups, documented: None, now }
    }

    /// A session that recommends nothing takes nothing back: what it may have written itself stays.
    fn write_state(&self, state: &StateFile) -> Result<(), state_md::StateMdError> {
        let (root, state_dir) = (self.layout.root(), self.state_dir.as_deref());
        let fields = if self.left.fields == StateFields::default() {
            state_md::read(root, state_dir, self.now).fields
        } else {
            self.left.fields.clone()
        };
        let left = &self.left.hand_over;
        if fields == StateFields::default() && left.do_not_retry.is_empty() && left.open_questions.is_empty()
        {
            return Ok(());
        }
        let hand_over = state_md::HandOver {
            recommended_mode: fields.recommended_mode.and_then(|mode| mode.parse::<Mode>().ok()),
            top_priorities: fields.top_priorities,
            carryover_ratio: fields.carryover_ratio,
            completion_rate: fields.completion_rate,
            rationale: fields.rationale,
            what_not_to_retry: left.do_not_retry.clone(),
            open_questions: left.open_questions.clone(),
            session_type: Some(state.session_type.clone()),
            branch: state.branch.clone(),
        };
        state_md::write(root, state_dir, &hand_over, self.now).map(drop)
    }

    /// Adds the task for the documentation; `head` is where the next one counts from.
    pub(super) fn add_documentation(&mut self, (title, head): (String, String)) {
        self.follow_ups.push(title);
        self.documented = Some(head);
    }

    /// Whether it adds tasks to the plan.
    pub(super) fn adds_tasks(&self) -> bool {
        !self.follow_ups.is_empty()
    }

    /// Writes it, and says what could not be written. Blocks for the disk.
    pub(super) fn write(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let root = self.layout.root();
        if let Err(error) = hand_over::write(&self.layout.hand_over(), &self.left.hand_over, self.now) {
            warnings.push(error.to_string());
        }
        if let Some(state) = &self.state
            && let Err(error) = self.write_state(state)
        {
            warnings.push(format!("STATE.md is not written: {error}"));
        }
        if !self.follow_ups.is_empty() {
            match plan::add_follow_ups(root, &self.layout.tasks(), self.now, &self.follow_ups) {
                Ok(added) => {
                    if let Some(head) = &self.documented
                        && let Err(error) = atomic::replace(
                            &self.layout.documentation_mark(),
                            head.as_bytes(),
                            atomic::PRIVATE_FILE,
                        )
                    {
                        warnings.push(error.to_string());
                    }
                    warnings.extend(added.iter().map(|title| format!("task added to the plan: {title}")));
                }
                Err(error) => warnings.push(format!("no task could be added to the plan: {error}")),
            }
        }
        warnings
    }
}

/// The task to bring the documentation up to date, once enough has changed (recovery §10.8), and the commit
/// from which the next one counts.
pub(super) async fn documentation(
    repo: &Repo,
    mark: &Path,
    start: Option<&str>,
    open: &[Task],
) -> Option<(String, String)> {
    let head = git::snapshot(repo).await.ok()?.head?.to_string();
    let from = match std::fs::read_to_string(mark) {
        Ok(from) => from.trim().to_owned(),
        // The first time: from the session just over.
        Err(_) => start?.to_owned(),
    };
    let changed = git::changed_paths(repo, &from).await.ok().flatten();
    if changed.is_none() || !mark.exists() {
        // Nobody knows what has changed: count from here, or from the beginning of this session.
        let from = if changed.is_none() { &head } else { &from };
        if let Err(error) = atomic::replace(mark, from.as_bytes(), atomic::PRIVATE_FILE) {
            tracing::warn!(%error, "documentation mark");
        }
    }
    let titles = open.iter().map(|task| task.title.as_str());
    let title = follow_up::documentation(titles, changed.as_deref(), follow_up::DOCUMENTATION_THRESHOLD)?;
    Some((title, head))
}

/// What a STATE.md that is made new says of the session.
#[derive(Debug)]
struct StateFile {
    session_type: String,
    branch: Option<String>,
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
