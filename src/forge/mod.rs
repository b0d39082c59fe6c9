//! The forge a repository lives on: its open issues and the state of its CI, through the user's own `gh` or
//! `glab` (design §5, upstream-formats §7).
//!
//! Theory of operation: [`detect()`] tells the forge from the remotes, [`read`] asks two questions at a time,
//! each with a time limit, and [`read_cached_only`] asks none. What the programs answer is kept in a file for a
//! few minutes, because a run asks before every iteration.
//!
//! Invariants
//! - Nothing here is fatal, and nothing takes longer than the time limit plus the few seconds that ending a
//!   process tree may take. There is always one reading of each of the two sources that says what happened.
//! - What could not be read is not made up: no backlog, and CI that is `unknown`, which is not the same as no CI
//!   (#1031). A failure is forgotten after a minute.
//! - Only reading commands; no prompt, no update check, no input. They are about the repository of the remote
//!   and its host: no variable of the environment redirects them (#872, #904).
//!
//! Pitfalls
//! - Titles and labels are written by strangers. They are made one line here, and are no more trustworthy.
//! - The programs keep their own logins; a token in the environment reaches them and nobody else.

mod cache;
mod ci;
mod detect;
mod issues;
mod run;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;

use crate::core::signals::{Backlog, CiStatus, SourceReading};

use cache::{Answer, Cache};
pub use cache::{FRESH, FRESH_FAILURE};
pub use detect::{Forge, ForgeKind, detect};
pub use issues::LIMIT;

/// Time limit of one command, unless the query says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeQuery {
    /// Top of the working tree; the programs run there.
    pub root: PathBuf,
    /// The branch whose CI counts; `None` (detached): CI is not asked about.
    pub branch: Option<String>,
    /// Whom.
    pub forge: Forge,
    /// The label that makes an issue a task of a run; `None`: no issue is one.
    pub label: Option<String>,
    /// The program: a bare name is for `PATH`, anything else is a path.
    pub program: PathBuf,
    /// Time limit of each of the two commands.
    pub timeout: Duration,
    /// The time it is.
    pub now: Timestamp,
}

impl ForgeQuery {
    /// A query to the program of the forge on `PATH`, with the usual time limit, about no branch and no label.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, forge: Forge, now: Timestamp) -> Self {
        let program = PathBuf::from(forge.kind.program());
        ForgeQuery { root: root.into(), branch: None, forge, label: None, program, timeout: TIMEOUT, now }
    }

    /// The complete arguments of a command.
    fn arguments(&self, mut words: Vec<String>) -> Vec<String> {
        if let Some(spec) = &self.forge.spec {
            words.extend(["-R".to_owned(), spec.clone()]);
        }
        words
    }
}

/// An answer that is not what was asked for.
#[derive(Debug, Error)]
#[error("its answer is no list: {0}")]
struct Unreadable(#[from] serde_json::Error);

/// One of the two commands: its arguments, its name for people, and what identifies its answer.
struct Command {
    args: Vec<String>,
    shown: String,
    question: String,
}

impl Command {
    fn new(query: &ForgeQuery, words: Vec<String>, more: &str) -> Self {
        let args = query.arguments(words);
        let name = query.forge.kind.program();
        let spec = query.forge.spec.as_ref().map_or_else(String::new, |spec| format!(" -R {spec}"));
        let shown = format!("{name} {} {}{spec}", args[0], args[1]);
        let question = format!("{} {args:?} {more}", query.program.display());
        Command { args, shown, question }
    }
}

/// The backlog, the state of CI, and how both were read (`backlog`, then `ci`).
pub type Readings = (Option<Backlog>, Option<CiStatus>, Vec<SourceReading>);

/// Asks the forge, unless there are answers in `cache` that are fresh enough.
///
/// What is new is kept in `cache`, a file in a folder of ours; where that is not possible, nothing is kept.
pub async fn read(query: &ForgeQuery, cache: &Path) -> Readings {
    let (issues, runs) = commands(query);
    let kept = cache::load(cache);
    let backlog = cache::fresh(kept.backlog.clone(), &issues.question, query.now);
    let ci = runs.as_ref().and_then(|runs| cache::fresh(kept.ci.clone(), &runs.question, query.now));
    let complete = backlog.is_some() && (ci.is_some() || runs.is_none());
    if !complete && !run::is_installed(&query.program, &query.root, std::env::var_os("PATH")) {
        let says = format!("{} is not installed", query.forge.kind.program());
        return readings(query, (&issues, backlog), (runs.as_ref(), ci), &says);
    }
    let asked_issues = async {
        match backlog {
            Some(answer) => answer,
            None => ask_issues(query, &issues).await,
        }
    };
    let asked_runs = async {
        match (ci, &runs) {
            (None, Some(runs)) => Some(ask_runs(query, runs).await),
            (answer, _) => answer,
        }
    };
    let (backlog, ci) = tokio::join!(asked_issues, asked_runs);
    if !complete {
        let mut new = Cache::default();
        new.backlog = Some(backlog.clone());
        new.ci = ci.clone().or(kept.ci);
        cache::save(cache, new);
    }
    readings(query, (&issues, Some(backlog)), (runs.as_ref(), ci), "")
}

/// What `cache` still knows, for callers that may not spend time. Starts nothing.
#[must_use]
pub fn read_cached_only(query: &ForgeQuery, cache: &Path) -> Readings {
    let (issues, runs) = commands(query);
    let kept = cache::load(cache);
    let backlog = cache::fresh(kept.backlog, &issues.question, query.now);
    let ci = runs.as_ref().and_then(|runs| cache::fresh(kept.ci, &runs.question, query.now));
    readings(query, (&issues, backlog), (runs.as_ref(), ci), "not asked")
}

/// The two commands; the second needs a branch.
fn commands(query: &ForgeQuery) -> (Command, Option<Command>) {
    let kind = query.forge.kind;
    let label = format!("label {:?}", query.label);
    let issues = Command::new(query, issues::arguments(kind), &label);
    let branch = query.branch.as_deref().filter(|branch| !branch.is_empty());
    let runs = branch.map(|branch| Command::new(query, ci::arguments(kind, branch), ""));
    (issues, runs)
}

async fn ask_issues(query: &ForgeQuery, command: &Command) -> Answer<Backlog> {
    let label = query.label.as_deref();
    let read = match run::ask(query, &command.args).await {
        Ok(bytes) => issues::parse(&query.forge, &bytes, label, query.now).map_err(|error| error.to_string()),
        Err(failure) => Err(failure.to_string()),
    };
    match read {
        Ok(backlog) => {
            let says = issues::says(&backlog, label);
            let problems = if backlog.truncated {
                vec![format!("only the newest {LIMIT} issues were looked at")]
            } else {
                Vec::new()
            };
            let question = command.question.clone();
            Answer { question, at: query.now, failed: false, value: Some(backlog), says, problems }
        }
        Err(problem) => failed(query, command, None, "the backlog is not known", &problem),
    }
}

async fn ask_runs(query: &ForgeQuery, command: &Command) -> Answer<CiStatus> {
    let read = match run::ask(query, &command.args).await {
        Ok(bytes) => ci::parse(query.forge.kind, &bytes).map_err(|error| error.to_string()),
        Err(failure) => Err(failure.to_string()),
    };
    match read {
        Ok(ci::Ci { status, says, problems }) => {
            let question = command.question.clone();
            Answer { question, at: query.now, failed: false, value: status, says, problems }
        }
        Err(problem) => failed(query, command, Some(CiStatus::Unknown), "unknown", &problem),
    }
}

fn failed<T>(
    query: &ForgeQuery,
    command: &Command,
    value: Option<T>,
    says: &str,
    problem: &str,
) -> Answer<T> {
    let problems = vec![format!("`{}` {problem}", command.shown)];
    let question = command.question.clone();
    Answer { question, at: query.now, failed: true, value, says: says.to_owned(), problems }
}

/// Puts the answers into the words of the core. `otherwise` is said where there is none.
fn readings(
    query: &ForgeQuery,
    (issues, backlog): (&Command, Option<Answer<Backlog>>),
    (runs, ci): (Option<&Command>, Option<Answer<CiStatus>>),
    otherwise: &str,
) -> Readings {
    let (backlog, about_backlog) = reading(query, "backlog", issues, backlog, otherwise);
    let (ci, about_ci) = if let Some(runs) = runs {
        reading(query, "ci", runs, ci, otherwise)
    } else {
        let says = "not on a branch".to_owned();
        (None, SourceReading { source: "ci".to_owned(), says, ..SourceReading::default() })
    };
    (backlog, ci, vec![about_backlog, about_ci])
}

fn reading<T>(
    query: &ForgeQuery,
    source: &str,
    command: &Command,
    answer: Option<Answer<T>>,
    otherwise: &str,
) -> (Option<T>, SourceReading) {
    let source = source.to_owned();
    let Some(answer) = answer else {
        return (None, SourceReading { source, says: otherwise.to_owned(), ..SourceReading::default() });
    };
    let age = u64::try_from(query.now.duration_since(answer.at).as_secs()).unwrap_or(0);
    let reading = SourceReading {
        source,
        origin: Some(command.shown.clone()),
        age_seconds: Some(age),
        says: answer.says,
        problems: answer.problems,
    };
    (answer.value, reading)
}

/// Text of a stranger as one line without control characters, at most `longest` characters.
fn plain(text: &str, longest: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(longest).collect()
}
