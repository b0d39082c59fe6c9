//! What the sessions are told.
//!
//! Prompts are Markdown templates with front matter in `commands/`, embedded into the program; a file of the
//! same name under `.autopilot/commands/` of the repository takes the place of an embedded one. They are
//! rendered with minijinja from a plain [`Context`].
//!
//! Invariants: a value is inserted as it is. It is never read as a template, never escaped, never trimmed,
//! so that a task such as `fix {{ x }} in <b>` arrives as written. A slash command is sent verbatim, for a
//! wrapper would break it (recovery §1.8 step 8). A mistake in a template is an error with file and line,
//! a misspelt name included, and comes before anything is started ([`check_overrides`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;
use thiserror::Error;

use crate::core::mode::Mode;
use crate::core::task::{Task, TaskSource};
use crate::ui::text::{count, dollars, span};

/// The slash command for people inside Claude Code (`autopilot.md`); not a prompt of a run.
pub const SLASH_COMMAND: &str = include_str!("../../commands/autopilot.md");

/// What a prompt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The work of a session.
    Session,
    /// Hand in the missing session report.
    Close,
    /// Go on with an instruction that was cut off half-way.
    Reconcile,
    /// Go on after a pause that lost nothing.
    Continue,
    /// Take over from a lost session.
    Handover,
    /// Try something different.
    Nudge,
    /// Commit what is good, and report.
    WrapUp,
    /// The answer to a question.
    Answer,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 8] = [
        Kind::Session,
        Kind::Close,
        Kind::Reconcile,
        Kind::Continue,
        Kind::Handover,
        Kind::Nudge,
        Kind::WrapUp,
        Kind::Answer,
    ];

    /// Name of the template's file, embedded or overriding.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Kind::Session => "session.md",
            Kind::Close => "close.md",
            Kind::Reconcile => "reconcile.md",
            Kind::Continue => "continue.md",
            Kind::Handover => "handover.md",
            Kind::Nudge => "nudge.md",
            Kind::WrapUp => "wrap-up.md",
            Kind::Answer => "answer.md",
        }
    }

    fn embedded(self) -> &'static str {
        match self {
            Kind::Session => include_str!("../../commands/session.md"),
            Kind::Close => include_str!("../../commands/close.md"),
            Kind::Reconcile => include_str!("../../commands/reconcile.md"),
            Kind::Continue => include_str!("../../commands/continue.md"),
            Kind::Handover => include_str!("../../commands/handover.md"),
            Kind::Nudge => include_str!("../../commands/nudge.md"),
            Kind::WrapUp => include_str!("../../commands/wrap-up.md"),
            Kind::Answer => include_str!("../../commands/answer.md"),
        }
    }
}

/// What a prompt can speak of. Each kind uses a part of it; what does not apply stays empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// Kind of session.
    pub mode: Mode,
    /// Which session of the run, from 1.
    pub session: u32,
    /// `--max-sessions`.
    pub max_sessions: u32,
    /// The work as a person wrote it (`--prompt`). Goes before `tasks`.
    pub prompt: Option<String>,
    /// The chosen tasks.
    pub tasks: Vec<String>,
    /// Sub-agents a wave may have.
    pub wave_cap: u32,
    /// What is left for the run.
    pub budget: Budget,
    /// `--verify`.
    pub verify: Option<String>,
    /// What the last session left to the next one.
    pub handover: Option<String>,
    /// What was tried without success.
    pub do_not_retry: Vec<String>,
    /// What nobody has answered yet.
    pub open_questions: Vec<String>,
    /// [`Kind::Answer`], and a [`Kind::Handover`] after one: the question.
    pub question: Option<String>,
    /// And what is answered.
    pub answer: Option<String>,
    /// [`Kind::Reconcile`], [`Kind::Handover`]: the instruction that was cut off.
    pub instruction: Option<String>,
    /// Why this prompt is sent, in words: what failed, or what repeats itself.
    pub cause: Option<String>,
    /// [`Kind::Handover`]: `git status` and the last commits.
    pub git_state: Option<String>,
    /// [`Kind::Handover`]: the last texts of the lost conversation, oldest first.
    pub last_texts: Vec<String>,
    /// [`Kind::Close`]: fields of the report that were not as asked.
    pub problems: Vec<String>,
}

/// What is left for the run; `None` = no such limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// Time of `--max-hours`.
    pub time: Option<Duration>,
    /// Output tokens of `--max-tokens`.
    pub output_tokens: Option<u64>,
    /// Dollars of `--max-cost`.
    pub cost_usd: Option<f64>,
}

impl Context {
    /// The least a prompt can say: the first and only session of a run, with nothing else known.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Context {
            mode,
            session: 1,
            max_sessions: 1,
            prompt: None,
            tasks: Vec::new(),
            wave_cap: 0,
            budget: Budget::default(),
            verify: None,
            handover: None,
            do_not_retry: Vec::new(),
            open_questions: Vec::new(),
            question: None,
            answer: None,
            instruction: None,
            cause: None,
            git_state: None,
            last_texts: Vec::new(),
            problems: Vec::new(),
        }
    }
}

/// Why a prompt could not be made.
#[derive(Debug, Error)]
pub enum PromptError {
    /// An overriding template exists and cannot be read.
    #[error("cannot read the prompt template {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The template is wrong.
    #[error("prompt template {}, line {line}: {problem}", path.display())]
    Template {
        /// Which file; the name in `commands/` for an embedded one.
        path: PathBuf,
        /// Line in that file, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The template says nothing.
    #[error("prompt template {} gives an empty prompt", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
}

/// The prompt of a kind.
///
/// `override_dir` is `.autopilot/commands` of the repository; it need not exist.
///
/// # Errors
/// When an overriding template cannot be read, is wrong, or says nothing.
pub fn render(kind: Kind, context: &Context, override_dir: Option<&Path>) -> Result<String, PromptError> {
    let wrapped = match kind {
        Kind::Session => &context.prompt,
        Kind::Reconcile | Kind::Handover => &context.instruction,
        Kind::Close | Kind::Continue | Kind::Nudge | Kind::WrapUp | Kind::Answer => &None,
    };
    if let Some(text) = wrapped.as_deref().filter(|text| is_slash_command(text)) {
        return Ok(text.to_owned());
    }
    let template = Template::find(kind, override_dir)?;
    let prompt = template.render(&Values::new(context))?;
    if prompt.trim().is_empty() {
        return Err(PromptError::Empty { path: template.path });
    }
    Ok(prompt)
}

/// Tries every overriding template, so that a mistake shows before the night begins.
///
/// # Errors
/// The first that [`render`] would give.
pub fn check_overrides(override_dir: &Path) -> Result<(), PromptError> {
    let mut full = Context::new(Mode::Feature);
    let some = || Some("x".to_owned());
    (full.handover, full.instruction, full.cause) = (some(), some(), some());
    (full.git_state, full.verify) = (some(), some());
    (full.question, full.answer) = (some(), some());
    full.open_questions = vec!["x".to_owned()];
    (full.do_not_retry, full.last_texts) = (vec!["x".to_owned()], vec!["x".to_owned()]);
    (full.tasks, full.problems) = (vec!["x".to_owned()], vec!["x".to_owned()]);
    full.budget.output_tokens = Some(1);
    full.budget.time = Some(Duration::from_mins(1));
    for kind in Kind::ALL {
        render(kind, &full, Some(override_dir))?;
        render(kind, &Context::new(Mode::Feature), Some(override_dir))?;
    }
    Ok(())
}

/// A task as the list of a prompt shows it: id and title, then where it stands and what belongs to it, indented.
#[must_use]
pub fn task_words(task: &Task) -> String {
    let mut words = format!("[{}] {}", task.id, task.title);
    let place = match task.source {
        TaskSource::Plan | TaskSource::Inbox | TaskSource::FollowUp if !task.file.is_empty() => {
            let phase = task.phase.last().map(|phase| format!(", under \"{phase}\"")).unwrap_or_default();
            format!("\n  ({}, line {}{phase})", task.file, task.line)
        }
        TaskSource::Plan | TaskSource::Inbox | TaskSource::FollowUp | TaskSource::Backlog => String::new(),
    };
    words.push_str(&place);
    for line in task.description.iter().flat_map(|text| text.lines()) {
        words.push_str("\n  ");
        words.push_str(line.trim_end());
    }
    words
}

/// The session command of a plug-in (`session-command`) in place of [`Kind::Session`], with the work a person
/// asked for behind the mode, where upstream takes it as task context.
///
/// `None` when the built-in prompt is to be sent: for a mode that the command does not know (upstream makes
/// `deep` of it), and when the person asked for a command of their own.
#[must_use]
pub fn session_command(plugin: &str, mode: Mode, prompt: Option<&str>) -> Option<String> {
    let known = match mode {
        Mode::Housekeeping | Mode::Feature | Mode::Deep => true,
        Mode::Discovery | Mode::Evolve | Mode::PlanRetro => false,
    };
    let command = format!("/{plugin}:session {mode}");
    match prompt {
        _ if !known => None,
        Some(text) if is_slash_command(text) => None,
        Some(text) => Some(format!("{command} {text}")),
        None => Some(command),
    }
}

/// The command of a plug-in that `text` calls, as `plugin:name`. `None` for a command of Claude Code or the
/// repository, which need not be on its list.
#[must_use]
pub fn plugin_command(text: &str) -> Option<&str> {
    let name = text.strip_prefix('/')?.split(char::is_whitespace).next()?;
    (is_slash_command(text) && name.contains(':')).then_some(name)
}

/// Whether Claude Code would take `text` as a slash command: `/name` or `/plugin:name`, then nothing or
/// arguments. A path such as `/etc/hosts` at the beginning of a sentence is none.
#[must_use]
pub fn is_slash_command(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('/') else { return false };
    let name = rest.split(char::is_whitespace).next().unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, ':' | '-' | '_' | '.'))
}

/// A template and where it came from.
struct Template {
    path: PathBuf,
    body: String,
    /// Lines of the file before `body`.
    lines_before: usize,
}

impl Template {
    fn find(kind: Kind, override_dir: Option<&Path>) -> Result<Self, PromptError> {
        if let Some(dir) = override_dir {
            let path = dir.join(kind.file_name());
            match fs::read_to_string(&path) {
                Ok(text) => return Self::split(path, &text),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(source) => return Err(PromptError::Read { path, source }),
            }
        }
        Self::split(Path::new("commands").join(kind.file_name()), kind.embedded())
    }

    /// Takes the front matter off: lines between two `---`, at the very beginning.
    fn split(path: PathBuf, text: &str) -> Result<Self, PromptError> {
        let mut lines = text.split_inclusive('\n');
        let is_rule = |line: &str| line.trim_end() == "---";
        if !lines.next().is_some_and(is_rule) {
            return Ok(Template { path, body: text.to_owned(), lines_before: 0 });
        }
        let Some(between) = lines.position(is_rule) else {
            let problem = "the front matter has no end (`---`)".to_owned();
            return Err(PromptError::Template { path, line: 1, problem });
        };
        Ok(Template { path, body: lines.collect(), lines_before: between + 2 })
    }

    fn render(&self, values: &Values<'_>) -> Result<String, PromptError> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.render_str(&self.body, values).map_err(|error| {
            let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
            PromptError::Template {
                path: self.path.clone(),
                line: self.lines_before + error.line().unwrap_or(1),
                problem: format!("{}{detail}", error.kind()),
            }
        })
    }
}

/// The names a template can use.
#[derive(Serialize)]
struct Values<'c> {
    mode: &'static str,
    mode_intro: &'static str,
    read_only: bool,
    session: u32,
    max_sessions: u32,
    prompt: Option<&'c str>,
    tasks: &'c [String],
    tasks_intro: &'static str,
    wave_cap: u32,
    budget: Vec<String>,
    time_left: Option<String>,
    verify: Option<&'c str>,
    handover: Option<&'c str>,
    do_not_retry: &'c [String],
    open_questions: &'c [String],
    question: Option<&'c str>,
    answer: Option<&'c str>,
    instruction: &'c str,
    cause: Option<&'c str>,
    git_state: Option<&'c str>,
    last_texts: &'c [String],
    problems: &'c [String],
    ruler: String,
}

impl<'c> Values<'c> {
    fn new(context: &'c Context) -> Self {
        let quoted = [&context.instruction, &context.git_state, &context.question, &context.answer];
        let quoted = quoted.map(|text| text.as_deref());
        let quoted = quoted.into_iter().flatten().chain(context.last_texts.iter().map(String::as_str));
        Values {
            mode: context.mode.as_str(),
            mode_intro: mode_intro(context.mode),
            read_only: context.mode == Mode::Discovery,
            session: context.session,
            max_sessions: context.max_sessions,
            prompt: context.prompt.as_deref(),
            tasks: &context.tasks,
            tasks_intro: tasks_intro(context.mode),
            wave_cap: context.wave_cap,
            budget: budget_words(context.budget),
            time_left: context.budget.time.map(span),
            verify: context.verify.as_deref(),
            handover: context.handover.as_deref(),
            do_not_retry: &context.do_not_retry,
            open_questions: &context.open_questions,
            question: context.question.as_deref(),
            answer: context.answer.as_deref(),
            instruction: context.instruction.as_deref().unwrap_or("(not known)"),
            cause: context.cause.as_deref(),
            git_state: context.git_state.as_deref(),
            last_texts: &context.last_texts,
            problems: &context.problems,
            ruler: ruler(quoted),
        }
    }
}

/// A line of dashes that no quoted text contains, so that none can end its quotation.
fn ruler<'t>(quoted: impl Iterator<Item = &'t str>) -> String {
    let longest = quoted.flat_map(|text| text.split(|c| c != '-')).map(str::len).max().unwrap_or(0);
    "-".repeat(longest.saturating_add(1).max(20))
}

fn budget_words(budget: Budget) -> Vec<String> {
    let time = budget.time.map(span);
    let tokens = budget.output_tokens.map(|tokens| format!("{} output tokens", count(tokens)));
    let cost = budget.cost_usd.map(|sum| dollars(Some(sum)));
    [time, tokens, cost].into_iter().flatten().collect()
}

/// What a session of a mode does when nothing more particular is asked.
fn mode_intro(mode: Mode) -> &'static str {
    match mode {
        Mode::Housekeeping => {
            "Put the repository in order: failing or flaky tests, lint findings, outdated documentation, dead \
             code, loose ends of the last sessions. Small and safe steps only."
        }
        Mode::Feature => {
            "Do the most useful open piece of product work you find in the plan, the issues and the notes of \
             this repository, with its tests."
        }
        Mode::Deep => {
            "Take on the largest open or carried-over piece of work you find in the plan and the notes of this \
             repository: divide it, and do it part by part, each with its tests."
        }
        Mode::Discovery => {
            "Find out what should be done next: read the code, run the tests, look for faults, gaps and risks. \
             Write each finding as a task with its evidence where this repository keeps its tasks."
        }
        Mode::Evolve => {
            "Improve how this project works: what made the last sessions slow or wrong? Turn it into better \
             tests, scripts, checks or written conventions."
        }
        Mode::PlanRetro => {
            "The last run went badly. Find out why from the notes, the commits and the reports, and bring the \
             plan into a shape in which the next session can succeed: smaller tasks, clear ends, dead ends named."
        }
    }
}

/// How the list of tasks is introduced.
fn tasks_intro(mode: Mode) -> &'static str {
    match mode {
        Mode::Housekeeping => "Small repairs and upkeep, in this order:",
        Mode::Feature => "In this order:",
        Mode::Deep => {
            "Large or carried-over work, in this order. Divide each task first, and finish one before the next:"
        }
        Mode::Discovery => "Find out, for each of these, what should be done and why:",
        Mode::Evolve => "Improve how the project works, starting from these:",
        Mode::PlanRetro => "The last run went badly. Find out why, and plan these anew in smaller steps:",
    }
}

#[cfg(test)]
mod tests;
