//! The state of CI on a branch: the command, and what its answer says.
//!
//! The newest run of each workflow counts. Only one that has finished and failed makes it red; what is neither
//! good nor bad (cancelled, waiting for an approval, a word that is not known) makes it unknown, never green
//! and never "there is no CI" (#1031).

use jiff::Timestamp;
use serde_json::Value;

use crate::core::signals::CiStatus;

use super::detect::ForgeKind;
use super::{Unreadable, plain};

/// Longest name of a workflow and longest word of a state that is shown, in characters.
const LONGEST: usize = 60;

/// What CI says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ci {
    /// `None`: there is no run on this branch.
    pub status: Option<CiStatus>,
    /// In a few words.
    pub says: String,
    /// Entries that could not be read.
    pub problems: Vec<String>,
}

/// Arguments of the command, without `-R`. The branch is part of its option, so that one that begins with a
/// dash stays a branch.
pub(super) fn arguments(kind: ForgeKind, branch: &str) -> Vec<String> {
    match kind {
        ForgeKind::GitHub => vec![
            "run".into(),
            "list".into(),
            format!("--branch={branch}"),
            "--limit=10".into(),
            "--json=status,conclusion,headSha,workflowName,createdAt".into(),
        ],
        // `--ref` came with glab 1.53 or a little earlier; an older one says that it does not know it.
        ForgeKind::GitLab => vec![
            "ci".into(),
            "list".into(),
            format!("--ref={branch}"),
            "--per-page=10".into(),
            "--output=json".into(),
        ],
    }
}

/// State of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Passed,
    Failed,
    Unfinished,
    /// Neither, or not known: the word.
    Unclear(String),
}

/// Reads an answer.
pub(super) fn parse(kind: ForgeKind, answer: &[u8]) -> Result<Ci, Unreadable> {
    let list: Vec<Value> = serde_json::from_slice(answer)?;
    let runs: Vec<&Value> = list.iter().filter(|run| run.is_object()).collect();
    let mut problems = Vec::new();
    if runs.len() < list.len() {
        problems.push(format!("{} entries are no runs", list.len() - runs.len()));
    }
    let newest = newest(kind, &runs);
    let latest: Vec<(String, State)> =
        newest.iter().map(|run| (workflow(kind, run), state(kind, run))).collect();
    let named = |wanted: &dyn Fn(&State) -> bool| {
        let found: Vec<&str> =
            latest.iter().filter(|(_, state)| wanted(state)).map(|(name, _)| name.as_str()).collect();
        (!found.is_empty()).then(|| found.join(", "))
    };
    let unclear = latest.iter().find_map(|(name, state)| match state {
        State::Unclear(word) if word.is_empty() => Some(format!("{name} does not say its state")),
        State::Unclear(word) => Some(format!("{name} is {word}")),
        State::Passed | State::Failed | State::Unfinished => None,
    });
    let (status, says) = if let Some(names) = named(&|state| *state == State::Failed) {
        (Some(CiStatus::Red), format!("red: {names}"))
    } else if let Some(names) = named(&|state| *state == State::Unfinished) {
        (Some(CiStatus::Pending), format!("pending: {names}"))
    } else if let Some(unclear) = unclear {
        (Some(CiStatus::Unknown), format!("unknown: {unclear}"))
    } else if let Some(names) = named(&|state| *state == State::Passed) {
        (Some(CiStatus::Green), format!("green: {names}"))
    } else if list.is_empty() {
        (None, "no runs on this branch".to_owned())
    } else {
        (Some(CiStatus::Unknown), "unknown".to_owned())
    };
    Ok(Ci { status, says, problems })
}

/// The newest run of each workflow, in the order of the list. Both programs list the newest first, which
/// decides where a date does not.
fn newest<'a>(kind: ForgeKind, runs: &[&'a Value]) -> Vec<&'a Value> {
    let mut kept: Vec<(String, Option<Timestamp>, &Value)> = Vec::new();
    for run in runs {
        let (name, created) = (workflow(kind, run), created(run));
        match kept.iter_mut().find(|(known, ..)| *known == name) {
            None => kept.push((name, created, run)),
            Some(known) if created.is_some() && created > known.1 => *known = (name, created, run),
            Some(_) => {}
        }
    }
    kept.into_iter().map(|(.., run)| run).collect()
}

/// A pipeline of GitLab is all there is; its name may be another one each time.
fn workflow(kind: ForgeKind, run: &Value) -> String {
    let name = match kind {
        ForgeKind::GitHub => plain(run["workflowName"].as_str().unwrap_or_default(), LONGEST),
        ForgeKind::GitLab => "the pipeline".to_owned(),
    };
    if name.is_empty() { "a workflow without a name".to_owned() } else { name }
}

fn created(run: &Value) -> Option<Timestamp> {
    run["createdAt"].as_str().or_else(|| run["created_at"].as_str())?.trim().parse().ok()
}

fn state(kind: ForgeKind, run: &Value) -> State {
    let word = |field: &str| run[field].as_str().unwrap_or_default().trim().to_lowercase();
    let status = word("status");
    match kind {
        ForgeKind::GitHub if status == "completed" => conclusion(&word("conclusion")),
        ForgeKind::GitHub => match status.as_str() {
            "queued" | "in_progress" | "requested" | "waiting" | "pending" => State::Unfinished,
            other => State::Unclear(plain(other, LONGEST)),
        },
        ForgeKind::GitLab => match status.as_str() {
            "success" | "skipped" => State::Passed,
            "failed" => State::Failed,
            // `manual` waits for a person.
            "created"
            | "waiting_for_resource"
            | "preparing"
            | "pending"
            | "running"
            | "canceling"
            | "manual"
            | "scheduled" => State::Unfinished,
            other => State::Unclear(plain(other, LONGEST)),
        },
    }
}

fn conclusion(word: &str) -> State {
    match word {
        "success" | "skipped" | "neutral" => State::Passed,
        "failure" | "timed_out" | "startup_failure" => State::Failed,
        "" => State::Unclear("completed without a conclusion".to_owned()),
        other => State::Unclear(plain(other, LONGEST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use CiStatus::{Green, Pending, Red, Unknown};

    fn run(workflow: &str, status: &str, conclusion: &str, hour: u8) -> String {
        format!(
            r#"{{"workflowName": "{workflow}", "status": "{status}", "conclusion": "{conclusion}",
                 "headSha": "ab", "createdAt": "2026-03-31T{hour:02}:00:00Z"}}"#
        )
    }

    fn status(kind: ForgeKind, runs: &[String]) -> Option<CiStatus> {
        parse(kind, format!("[{}]", runs.join(",")).as_bytes()).unwrap().status
    }

    #[test]
    fn every_word_of_github() {
        let check = |state: &str, conclusion: &str, expected| {
            let found = status(ForgeKind::GitHub, &[run("t", state, conclusion, 1)]);
            assert_eq!(found, Some(expected), "{state} {conclusion}");
        };
        for good in ["success", "skipped", "neutral", "SUCCESS", " success "] {
            check("completed", good, Green);
        }
        for bad in ["failure", "timed_out", "startup_failure"] {
            check("completed", bad, Red);
            // Only a finished one is red.
            check("in_progress", bad, Pending);
        }
        for neither in ["cancelled", "stale", "action_required", "", "frobnicated"] {
            check("completed", neither, Unknown);
        }
        for unfinished in ["queued", "in_progress", "requested", "waiting", "pending"] {
            check(unfinished, "", Pending);
        }
        for odd in ["", "frobnicating", "success"] {
            check(odd, "success", Unknown);
        }
    }

    #[test]
    fn every_word_of_gitlab() {
        let check = |word: &str, expected| {
            let answer = [format!(r#"{{"id": 1, "status": "{word}", "ref": "main", "sha": "ab"}}"#)];
            assert_eq!(status(ForgeKind::GitLab, &answer), Some(expected), "{word}");
        };
        for (word, expected) in [
            ("success", Green),
            ("skipped", Green),
            ("failed", Red),
            ("created", Pending),
            ("waiting_for_resource", Pending),
            ("preparing", Pending),
            ("pending", Pending),
            ("running", Pending),
            ("canceling", Pending),
            ("manual", Pending),
            ("scheduled", Pending),
            ("canceled", Unknown),
            ("", Unknown),
            ("completed", Unknown),
        ] {
            check(word, expected);
        }
    }

    #[test]
    fn the_newest_of_each_workflow_counts() {
        let check = |runs: &[(&str, &str, u8)], expected, says: &str| {
            let runs: Vec<String> = runs
                .iter()
                .map(|(name, word, hour)| match *word {
                    "" => run(name, "in_progress", "", *hour),
                    word => run(name, "completed", word, *hour),
                })
                .collect();
            let found = parse(ForgeKind::GitHub, format!("[{}]", runs.join(",")).as_bytes()).unwrap();
            assert_eq!((found.status, found.says.as_str()), (expected, says), "{runs:?}");
        };
        check(&[], None, "no runs on this branch");
        check(&[("t", "success", 2), ("t", "failure", 1)], Some(Green), "green: t");
        check(&[("t", "failure", 1), ("t", "success", 2)], Some(Green), "green: t");
        check(&[("t", "failure", 2), ("t", "success", 1)], Some(Red), "red: t");
        // The first of the list, when the dates are the same.
        check(&[("t", "success", 1), ("t", "failure", 1)], Some(Green), "green: t");
        check(&[("t", "success", 1), ("l", "failure", 1), ("d", "", 1)], Some(Red), "red: l");
        check(&[("t", "success", 1), ("l", "skipped", 1)], Some(Green), "green: t, l");
        // A failure that is being repeated is no longer the last word.
        check(&[("t", "", 2), ("t", "failure", 1)], Some(Pending), "pending: t");
        check(&[("t", "success", 2), ("l", "", 1)], Some(Pending), "pending: l");
        check(&[("t", "cancelled", 2), ("l", "", 1)], Some(Pending), "pending: l");
        check(&[("t", "success", 2), ("l", "cancelled", 1)], Some(Unknown), "unknown: l is cancelled");
        check(&[("", "failure", 2)], Some(Red), "red: a workflow without a name");
    }

    #[test]
    fn dates_of_gitlab_and_none_at_all() {
        let pipeline = |word: &str, created: &str| {
            format!(r#"{{"status": "{word}", "name": "n{word}", "created_at": "{created}"}}"#)
        };
        let check =
            |runs: [String; 2], expected| assert_eq!(status(ForgeKind::GitLab, &runs), Some(expected));
        let (old, new) = ("2026-03-30T10:00:00.000Z", "2026-03-31T10:00:00.000+02:00");
        check([pipeline("failed", new), pipeline("success", old)], Red);
        check([pipeline("failed", old), pipeline("success", new)], Green);
        check([pipeline("failed", ""), pipeline("success", "x")], Red);
        check([pipeline("failed", ""), pipeline("success", old)], Green);
    }

    #[test]
    fn odd_answers() {
        for answer in ["", "null", "{}", "\"x\"", "[", "no runs found", "[{\"status\": \"completed\""] {
            assert!(parse(ForgeKind::GitHub, answer.as_bytes()).is_err(), "{answer}");
        }
        let check = |answer: &str, expected, problems: usize| {
            let found = parse(ForgeKind::GitHub, answer.as_bytes()).unwrap();
            assert_eq!((found.status, found.problems.len()), (expected, problems), "{answer}: {found:?}");
        };
        check("[]", None, 0);
        // A list of something else is not "no CI".
        check("[1, null]", Some(Unknown), 1);
        check("[{}]", Some(Unknown), 0);
        check(r#"[{"status": 3, "workflowName": ["x"]}]"#, Some(Unknown), 0);
        check(&format!("[null, {}]", run("t", "completed", "failure", 1)), Some(Red), 1);
        let hostile = run("t\\u001b[31m\\nx", "completed", "failure", 1);
        assert_eq!(
            parse(ForgeKind::GitHub, format!("[{hostile}]").as_bytes()).unwrap().says,
            "red: t [31m x"
        );
    }
}
