//! What is gathered before a session: signals, tasks, hand-over. The edges that are asked do not know each
//! other; here is where their answers come together.
//!
//! Nothing in here is fatal. A source that cannot be read says so in its reading, and what is worth a person's
//! attention comes back as a warning.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::core::event::Survey;
use crate::core::hand_over::HandOver;
use crate::core::signals::{LEARNINGS, RECENT_SESSIONS, Signals, SourceReading};
use crate::core::suitability::RunOutcome;
use crate::core::task::{Task, TaskEvidence, TaskSource};
use crate::forge::{self, Forge, ForgeQuery};
use crate::journal::hand_over;
use crate::plan;
use crate::signals::{bootstrap, learnings, run_history, sessions};
use crate::state::layout::Layout;
use crate::state_md;

/// Older hand-overs tell nothing: the repository has gone on without us (seconds).
const HAND_OVER_LIFE: u64 = 14 * 24 * 3600;

/// Where the work of a run comes from, and whom to ask.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Where files are.
    pub layout: Layout,
    /// Mode and prompt, as they were asked for.
    pub asked: Signals,
    /// Branch at the start, for CI.
    pub branch: Option<String>,
    /// The forge, if it is to be asked.
    pub forge: Option<Forge>,
    /// Issues with this label are tasks.
    pub backlog_label: Option<String>,
    /// `SO_STATE_DIR`, relative to the repository or not.
    pub state_dir: Option<PathBuf>,
    /// What an earlier run left counts: the work goes on. Not so with a prompt of its own.
    pub goes_on: bool,
}

/// How a survey may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// As a run does: items of the inbox become tasks of the plan, new tasks get their ids.
    Take,
    /// As a dry run does: nothing is changed anywhere.
    Only,
}

/// What was found, and what a person should know of it.
#[derive(Debug, Default)]
pub struct Surveyed {
    /// For the core.
    pub survey: Survey,
    /// In words.
    pub warnings: Vec<String>,
    /// Items of the inbox have become tasks of the plan.
    pub plan_changed: bool,
}

/// Looks at all sources. `left` is what the last session of this run left; without it the file says.
pub async fn survey(sources: Sources, left: Option<HandOver>, look: Look, now: Timestamp) -> Surveyed {
    // A prompt is the work itself: the task files are none of its business.
    let asks_tasks = !sources.asked.prompt;
    let of = sources.clone();
    let tasks = tokio::task::spawn_blocking(move || asks_tasks.then(|| read_tasks(&of.layout, look, now)));
    let of = sources.clone();
    let files = tokio::task::spawn_blocking(move || read_files(&of, left, now));
    let (files, tasks, forge) = tokio::join!(files, tasks, ask_forge(&sources, now));
    let (Ok(mut found), Ok(tasks)) = (files, tasks) else {
        // A panic in a reader: told by the panic itself; the run goes on with what it was asked for.
        let survey = Survey::from(sources.asked);
        let warnings = vec!["the signals could not be read".to_owned()];
        return Surveyed { survey, warnings, plan_changed: false };
    };
    if let Some(tasks) = tasks {
        found.take_in(tasks);
    }
    let (backlog, ci, readings) = forge;
    let signals = &mut found.survey.signals;
    signals.ci = ci;
    let labelled = sources.backlog_label.is_some();
    if let Some(backlog) = backlog.as_ref().filter(|_| labelled && !signals.prompt) {
        found.survey.tasks.extend(backlog.tasks.iter().map(|issue| Task {
            id: format!("#{}", issue.number),
            title: issue.title.clone(),
            source: TaskSource::Backlog,
            ..Task::default()
        }));
        signals.tasks = Some(TaskEvidence::of(&found.survey.tasks));
    }
    signals.backlog = backlog;
    // Issues that are no tasks are only counted: trouble with them alone is not worth a person's attention.
    let matters = |reading: &&SourceReading| labelled || reading.source != "backlog";
    found.warnings.extend(readings.iter().filter(matters).flat_map(problems));
    signals.sources.extend(readings);
    found
}

async fn ask_forge(sources: &Sources, now: Timestamp) -> forge::Readings {
    let Some(whom) = &sources.forge else { return (None, None, Vec::new()) };
    let mut query = ForgeQuery::new(sources.layout.root(), whom.clone(), now);
    query.branch.clone_from(&sources.branch);
    query.label.clone_from(&sources.backlog_label);
    forge::read(&query, &sources.layout.forge_cache()).await
}

/// What the task files say, and what was done to them.
struct FoundTasks {
    tasks: plan::Tasks,
    plan_changed: bool,
    warnings: Vec<String>,
}

fn read_tasks(layout: &Layout, look: Look, now: Timestamp) -> FoundTasks {
    let (root, ledger) = (layout.root(), layout.tasks());
    let mut plan_changed = false;
    let mut warnings = Vec::new();
    let tasks = match look {
        Look::Take => {
            match plan::take_inbox(root, &ledger, now) {
                Ok(taken) => {
                    plan_changed = !taken.added.is_empty() || !taken.already.is_empty();
                    warnings = taken.problems;
                }
                Err(error) => warnings.push(format!("the inbox stays as it is: {error}")),
            }
            plan::load(root, &ledger, now)
        }
        Look::Only => plan::look(root, &ledger, now),
    };
    FoundTasks { tasks, plan_changed, warnings }
}

impl Surveyed {
    fn take_in(&mut self, found: FoundTasks) {
        let FoundTasks { tasks, plan_changed, mut warnings } = found;
        self.plan_changed = plan_changed;
        warnings.extend(tasks.readings.iter().flat_map(problems));
        self.warnings.append(&mut warnings);
        let signals = &mut self.survey.signals;
        signals.tasks = tasks.exists.then(|| TaskEvidence::of(&tasks.open));
        signals.sources.extend(tasks.readings);
        self.survey.tasks = tasks.open;
    }
}

fn read_files(sources: &Sources, left: Option<HandOver>, now: Timestamp) -> Surveyed {
    let layout = &sources.layout;
    let root = layout.root();
    let mut found = Surveyed { survey: Survey::from(sources.asked.clone()), ..Surveyed::default() };
    let signals = &mut found.survey.signals;

    let state = state_md::read(root, sources.state_dir.as_deref(), now);
    signals.state = state.fields;
    signals.sources.push(state.source);
    let (recent_sessions, reading) = sessions::recent(layout, RECENT_SESSIONS, now);
    signals.recent_sessions = recent_sessions;
    signals.sources.push(reading);
    let (bootstrap, reading) = bootstrap::read(layout, now);
    signals.bootstrap = bootstrap;
    signals.sources.push(reading);
    let (learnings, reading) = learnings::best(layout, LEARNINGS, now);
    signals.learnings = learnings;
    signals.sources.push(reading);
    let (runs, reading) = run_history::recent(layout, run_history::RECENT_RUNS, now);
    signals.sources.push(reading);

    found.survey.hand_over = match left {
        Some(left) => left,
        None if sources.goes_on => {
            let (mut last, mut reading) = hand_over::read(&layout.hand_over(), now);
            if reading.age_seconds.is_some_and(|age| age > HAND_OVER_LIFE) {
                last = HandOver::default();
                reading.says.push_str(", too old to use");
            }
            signals.sources.push(reading);
            last.with(&HandOver {
                do_not_retry: state.extra.what_not_to_retry,
                open_questions: state.extra.open_questions,
                ..HandOver::default()
            })
        }
        None => HandOver::default(),
    };
    found.survey.recent_runs = runs
        .into_iter()
        .map(|run| RunOutcome {
            kill_switch: run.kill_switch,
            fallback_to_manual: run.fallback_to_manual,
            dry_run: run.dry_run,
        })
        .collect();
    found.warnings.extend(found.survey.signals.sources.iter().flat_map(problems));
    found
}

/// What was wrong with a source, in words.
fn problems(reading: &SourceReading) -> impl Iterator<Item = String> + '_ {
    reading.problems.iter().map(move |problem| format!("{}: {problem}", reading.source))
}
