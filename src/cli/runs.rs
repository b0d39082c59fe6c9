//! Finding runs and reading them back, for `report`, `logs`, `history`, `status`, `explain` and `resume`.
//!
//! What can be shown is shown: a journal with damaged lines gives the rest of it, a folder without a journal
//! what the record in `autopilot.jsonl` says, and either says so.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::ControlFlow;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::error::{CliError, ErrorKind};
use crate::forge::{self, Forge, ForgeKind};
use crate::git::{self, Repo};
use crate::journal::reader::{ReadError, is_missing, skim_journal};
use crate::journal::records::newest_first;
use crate::report::RunSummary;
use crate::state::layout::{Layout, RunDir};
use crate::state::lock::{self, Holder, Peek};
use crate::state::run_id::age_key;

/// Words that mean the last run.
const LAST: &str = "last";
/// Records of older runs that are passed over before there can be none that is wanted.
const RECORDS_OUT_OF_ORDER: usize = 32;
/// Ids that a hint names.
const NAMED: usize = 3;

/// The run with this id or beginning of an id; the last one by default, and by the word `last`.
pub(super) fn find(layout: &Layout, wanted: Option<&str>) -> Result<String, CliError> {
    let ids = ids(layout)?;
    let Some(wanted) = wanted.filter(|wanted| *wanted != LAST) else {
        // One that died before it said that it began has nothing to tell or to go on with.
        let began = ids.iter().rev().find(|id| layout.run(id).is_some_and(|run_dir| began(&run_dir)));
        return began.or(ids.last()).cloned().ok_or_else(|| {
            CliError::usage("there has been no run here").hinted("start one with `autopilot`")
        });
    };
    let matching: Vec<&String> = ids.iter().filter(|id| id.starts_with(wanted)).collect();
    match matching.as_slice() {
        _ if ids.iter().any(|id| id == wanted) => Ok(wanted.to_owned()),
        [one] => Ok((*one).clone()),
        [] => {
            let error = CliError::usage(format!("there is no run `{wanted}` here"));
            Err(match nearest(&ids, wanted) {
                Some(near) => {
                    error.hinted(format!("did you mean {near}? `autopilot history` lists all runs"))
                }
                None => error.hinted("there has been no run here yet"),
            })
        }
        several => {
            let named: Vec<&str> = several.iter().rev().take(NAMED).map(|id| id.as_str()).collect();
            Err(CliError::usage(format!("{} runs begin with `{wanted}`", several.len()))
                .hinted(format!("say more of its id: the last ones are {}", named.join(", "))))
        }
    }
}

/// Whether the journal has a first line, which is the beginning. One that cannot be read is for whoever wants to
/// read it to complain of.
fn began(run_dir: &RunDir) -> bool {
    let path = run_dir.events();
    let Ok(mut file) = File::open(&path) else { return path.exists() };
    let mut head = [0; 16 << 10];
    // The first line is a few hundred bytes; a read of a local file gives them at once.
    file.read(&mut head).map_or(true, |read| head[..read].contains(&b'\n'))
}

/// Ids of all runs with a folder, oldest first.
pub(super) fn ids(layout: &Layout) -> Result<Vec<String>, CliError> {
    layout
        .run_ids()
        .map_err(|error| CliError::environment("cannot list the runs of this repository").caused_by(error))
}

/// The id that looks most like what was asked for: one that contains it, else the least different one; of equals
/// the newest.
fn nearest<'i>(ids: &'i [String], wanted: &str) -> Option<&'i str> {
    if let Some(id) = ids.iter().rev().find(|id| !wanted.is_empty() && id.contains(wanted)) {
        return Some(id);
    }
    let wanted: String = wanted.chars().take(200).collect();
    let score = |id: &String| strsim::jaro_winkler(&wanted, id);
    ids.iter().max_by(|a, b| score(a).total_cmp(&score(b))).map(String::as_str)
}

/// How much of a journal is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// What `status` and `history` show.
    Outline,
    /// All that a report shows, readings of usage windows included.
    Whole,
}

/// What is known of a run.
///
/// # Errors
/// Its journal cannot be read: the system refused, or a newer version wrote it.
pub(super) fn summary(layout: &Layout, run_id: &str, depth: Depth) -> Result<RunSummary, ReadError> {
    let Some(run_dir) = layout.run(run_id) else {
        return Ok(RunSummary {
            damage: Some("this is not the id of a run".to_owned()),
            ..RunSummary::default()
        });
    };
    let wanted = |kind: &str| RunSummary::needs(kind) && (depth == Depth::Whole || kind != "rate_limit");
    let mut summary = match skim_journal(&run_dir.events(), wanted) {
        Ok(skim) => RunSummary::from_skim(&skim),
        Err(error) if is_missing(&error) => {
            let record = record(layout, run_id).unwrap_or_default();
            let mut summary =
                record.map_or_else(RunSummary::default, |record| RunSummary::from_record(&record));
            summary.damage = Some("its journal (events.jsonl) is not there".to_owned());
            summary
        }
        Err(error) => return Err(error),
    };
    if summary.run_id.is_none() {
        summary.run_id = Some(run_id.to_owned());
    }
    Ok(summary)
}

/// [`summary`], with an error for people.
pub(super) fn read(layout: &Layout, run_id: &str, depth: Depth) -> Result<RunSummary, CliError> {
    summary(layout, run_id, depth).map_err(|error| {
        let newer = matches!(error, ReadError::Newer { .. });
        let error =
            CliError::from_error(if newer { ErrorKind::Usage } else { ErrorKind::Environment }, error);
        if newer {
            error.hinted("update autopilot, or read the report.md in the folder of the run")
        } else {
            error
        }
    })
}

/// The record of a run in `autopilot.jsonl`.
fn record(layout: &Layout, run_id: &str) -> io::Result<Option<Map<String, Value>>> {
    let mut found = None;
    newest_first(&layout.autopilot_jsonl(), |record| {
        if record.get("autopilot_run_id").is_some_and(|id| id == run_id) {
            found = Some(record);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The runs that `autopilot.jsonl` knows, newest first, as long as `wanted` accepts their start. Dry runs are none.
pub(super) fn recorded(layout: &Layout, wanted: impl Fn(Timestamp) -> bool) -> io::Result<Vec<RunSummary>> {
    let mut found = Vec::new();
    let mut too_old = 0;
    let walk = newest_first(&layout.autopilot_jsonl(), |record| {
        let is = |key: &str, value: &Value| record.get(key) == Some(value);
        let run = record.contains_key("autopilot_run_id")
            && !is("dry_run", &Value::Bool(true))
            && !record.contains_key("kind");
        let begun = record.get("started_at").and_then(Value::as_str).and_then(|at| at.parse().ok());
        match begun {
            Some(at) if !wanted(at) => too_old += 1,
            Some(_) if run => found.push(RunSummary::from_record(&record)),
            _ => {}
        }
        // Records stand in the order of their ends: a long run may stand behind short ones.
        if too_old > RECORDS_OUT_OF_ORDER { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match walk {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(found),
    }
}

/// When an id says that its run began.
pub(super) fn begun(run_id: &str) -> Option<Timestamp> {
    let (stamp, _) = age_key(run_id)?;
    let (date, clock) = stamp.rsplit_once('-')?;
    format!("{date}T{}:{}:00Z", clock.get(..2)?, clock.get(2..)?).parse().ok()
}

/// Who holds the repository right now, and whether it still lives.
pub(super) fn peek(layout: &Layout) -> Result<Option<Peek>, CliError> {
    lock::peek(&layout.lock()).map_err(|error| CliError::from_error(ErrorKind::Environment, error))
}

/// Whether this run goes on right now.
pub(super) fn is_running(layout: &Layout, run_id: &str) -> Result<bool, CliError> {
    let is = |holder: &Holder| holder.run_id == run_id;
    Ok(peek(layout)?.is_some_and(|peek| peek.held && peek.holder.as_ref().is_some_and(is)))
}

/// The beginning of the web address of a commit, where a remote is on a forge that has them.
pub(super) async fn commit_url(repo: &Repo) -> Option<String> {
    let remotes = git::remotes(repo).await.ok()?;
    address(&forge::detect(&remotes, None)?)
}

fn address(forge: &Forge) -> Option<String> {
    let spec = forge.spec.as_deref()?;
    Some(match forge.kind {
        ForgeKind::GitHub => format!("https://{spec}/commit/"),
        ForgeKind::GitLab => format!("{spec}/-/commit/"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_id() {
        let ids = [
            "main-2026-01-01-0100-autopilot",
            "main-2026-01-02-0100-autopilot",
            "fix-2026-01-02-0200-autopilot",
        ]
        .map(str::to_owned);
        let check =
            |wanted: &str, expected: Option<&str>| assert_eq!(nearest(&ids, wanted), expected, "{wanted}");
        check("2026-01-01", Some(&ids[0]));
        check("main-2026-01-03", Some(&ids[1]));
        check("fox-2026", Some(&ids[2]));
        assert_eq!(nearest(&[], "x"), None);
    }

    #[test]
    fn addresses_of_commits() {
        let check = |url: &str, expected: Option<&str>| {
            let found = forge::detect(&[("origin".to_owned(), url.to_owned())], None);
            assert_eq!(found.and_then(|forge| address(&forge)).as_deref(), expected, "{url}");
        };
        check("git@github.com:o/r.git", Some("https://github.com/o/r/commit/"));
        check("https://token:x@github.com/o/r", Some("https://github.com/o/r/commit/"));
        check("https://gitlab.com/a/b/c.git", Some("https://gitlab.com/a/b/c/-/commit/"));
        check("https://example.org/o/r.git", None);
        check("/srv/git/r.git", None);
        check("https://github.com/o/r\"onclick=x", None);
    }
}
