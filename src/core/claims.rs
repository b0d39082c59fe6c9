//! Claim against ground truth (design §5): what a session says of its work, checked against git, the task
//! files, `--verify` and the stream. The worse of the two counts, and where they disagree is told.
//!
//! A measurement that is missing proves nothing: without it the claim stands.

use super::published::{TaskOutcome, Verification, Work};
use super::session_report::{ReportStatus, SessionReport};

/// What is known when a session is over.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// Its report.
    pub report: Option<&'a SessionReport>,
    /// What git says.
    pub work: Option<&'a Work>,
    /// `--verify`.
    pub verification: Option<&'a Verification>,
    /// What the task files say.
    pub tasks: Option<&'a TaskOutcome>,
    /// Sub-agents the stream saw start.
    pub agents_started: u32,
    /// Of these, failed.
    pub agents_failed: u32,
}

/// What counts. `None` = neither said nor measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Sub-agents or work items that went in circles.
    pub spiral: Option<u64>,
    /// That failed; a failed `--verify` is not among them.
    pub failed: Option<u64>,
    /// Tasks planned.
    pub planned: Option<u64>,
    /// Of these, done.
    pub completed: Option<u64>,
    /// Of these, left over.
    pub carryover: Option<u64>,
    /// Where claim and truth disagree, in words.
    pub contradictions: Vec<String>,
}

/// Checks the claims of a session.
#[must_use]
pub fn check(evidence: &Evidence<'_>) -> Checked {
    let mut checked = Checked::default();
    let history_rewritten = evidence.work.is_some_and(|work| work.history_rewritten);
    if let Some(report) = evidence.report {
        checked.spiral = report.agent_summary.spiral;
        checked.failed = report.agent_summary.failed;
        checked.planned = report.effectiveness.planned_issues;
        checked.completed = report.effectiveness.completed;
        checked.carryover = report.effectiveness.carryover;
        check_end(evidence, report, &mut checked);
        check_agents(evidence, report, &mut checked);
    } else if evidence.agents_failed > 0 {
        checked.failed = Some(u64::from(evidence.agents_failed));
    }
    if history_rewritten {
        checked
            .contradictions
            .push("the history was rewritten: the old head is no ancestor of the new one".to_owned());
    }
    checked
}

/// "Complete" and "tasks done", against `--verify`, git and the boxes.
fn check_end(evidence: &Evidence<'_>, report: &SessionReport, checked: &mut Checked) {
    let says_done = matches!(report.status, Some(ReportStatus::Complete | ReportStatus::NothingToDo));
    if report.status == Some(ReportStatus::Complete)
        && evidence.verification.is_some_and(|verification| !verification.passed)
    {
        checked.contradictions.push("reported complete, but --verify failed".to_owned());
    }
    let nothing_done = evidence.work.is_some_and(|work| work.commits_total == 0 && !work.dirty_changed);
    let claimed = count(&report.tasks_done);
    if claimed > 0 && nothing_done {
        checked
            .contradictions
            .push("reported tasks done, but git shows neither a commit nor a change".to_owned());
        left_over(checked, claimed, claimed);
    }
    let Some(tasks) = evidence.tasks else { return };
    let open = count(&tasks.still_open);
    if says_done && open > 0 {
        checked.contradictions.push(format!(
            "reported {}, but {open} of {} given tasks {} still open: {}",
            report.status.map(ReportStatus::as_str).unwrap_or_default(),
            count(&tasks.given),
            if open == 1 { "is" } else { "are" },
            list(&tasks.still_open),
        ));
        left_over(checked, open, count(&tasks.given));
    } else if !tasks.disproved.is_empty() && evidence.work.is_some() {
        let disproved = count(&tasks.disproved);
        checked
            .contradictions
            .push(format!("reported done, but nothing was committed for it: {}", list(&tasks.disproved)));
        left_over(checked, disproved, disproved.max(count(&tasks.given)));
    }
}

/// Counts of sub-agents, against those of the stream.
fn check_agents(evidence: &Evidence<'_>, report: &SessionReport, checked: &mut Checked) {
    let started = u64::from(evidence.agents_started);
    let failed = u64::from(evidence.agents_failed);
    let claimed = report.waves.iter().filter_map(|wave| wave.agents).sum::<u64>();
    if claimed > 0 && started == 0 {
        checked
            .contradictions
            .push(format!("reported {claimed} sub-agents in waves, but the stream shows none"));
    }
    if failed > checked.failed.unwrap_or(0) {
        checked.contradictions.push(format!(
            "reported {} failed sub-agents, but the stream shows {failed}",
            checked.failed.map_or_else(|| "no count of".to_owned(), |failed| failed.to_string()),
        ));
        checked.failed = Some(failed);
    }
}

/// At least `open` of at least `planned` tasks are left over.
fn left_over(checked: &mut Checked, open: u64, planned: u64) {
    let carryover = checked.carryover.unwrap_or(0).max(open);
    let planned = checked.planned.unwrap_or(0).max(planned).max(carryover);
    checked.carryover = Some(carryover);
    checked.planned = Some(planned);
    checked.completed = Some(checked.completed.unwrap_or(0).min(planned.saturating_sub(carryover)));
}

fn count(list: &[String]) -> u64 {
    list.len() as u64
}

/// The first few of a list.
fn list(items: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut words = items.iter().take(SHOWN).map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ");
    if items.len() > SHOWN {
        words.push_str(", …");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::session_report::{AgentSummary, Effectiveness, Wave};

    fn report(status: ReportStatus, done: &[&str]) -> SessionReport {
        SessionReport {
            status: Some(status),
            tasks_done: strings(done),
            agent_summary: AgentSummary { failed: Some(0), spiral: Some(0), ..AgentSummary::default() },
            effectiveness: Effectiveness {
                planned_issues: Some(2),
                completed: Some(2),
                carryover: Some(0),
                emergent: Some(0),
            },
            ..SessionReport::default()
        }
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn tasks(given: &[&str], open: &[&str], disproved: &[&str]) -> TaskOutcome {
        TaskOutcome {
            given: strings(given),
            still_open: strings(open),
            disproved: strings(disproved),
            ..TaskOutcome::default()
        }
    }

    #[track_caller]
    fn check_one(evidence: &Evidence<'_>, numbers: [Option<u64>; 4], contradictions: &[&str]) {
        let checked = check(evidence);
        assert_eq!([checked.failed, checked.planned, checked.completed, checked.carryover], numbers);
        assert_eq!(checked.contradictions.len(), contradictions.len(), "{:?}", checked.contradictions);
        for (found, expected) in checked.contradictions.iter().zip(contradictions) {
            assert!(found.contains(expected), "{found:?} does not say {expected:?}");
        }
    }

    #[test]
    fn the_worse_of_claim_and_truth_counts() {
        use ReportStatus::{Complete, NothingToDo, Partial};
        let as_said = [Some(0), Some(2), Some(2), Some(0)];
        let complete = report(Complete, &["a", "b"]);
        let partial = report(Partial, &["a"]);
        let nothing = report(NothingToDo, &[]);
        let silent = Work::default();
        let busy = Work { commits_total: 1, ..Work::default() };
        let all = tasks(&["a", "b"], &[], &[]);
        let one_open = tasks(&["a", "b"], &["b"], &[]);
        let failed = Verification { passed: false, ended: "exit code 1".to_owned(), tail: String::new() };
        let of = |report| Evidence { report: Some(report), ..Evidence::default() };

        check_one(&Evidence::default(), [None; 4], &[]);
        check_one(&of(&complete), as_said, &[]);
        check_one(&Evidence { work: Some(&busy), tasks: Some(&all), ..of(&complete) }, as_said, &[]);
        check_one(
            &Evidence { work: Some(&silent), ..of(&complete) },
            [Some(0), Some(2), Some(0), Some(2)],
            &["neither a commit nor a change"],
        );
        check_one(
            &Evidence { work: Some(&busy), tasks: Some(&one_open), ..of(&complete) },
            [Some(0), Some(2), Some(1), Some(1)],
            &["reported complete, but 1 of 2 given tasks is still open: `b`"],
        );
        check_one(
            &Evidence { tasks: Some(&one_open), ..of(&nothing) },
            [Some(0), Some(2), Some(1), Some(1)],
            &["reported nothing_to_do"],
        );
        // A part is what it says it is.
        check_one(&Evidence { work: Some(&busy), tasks: Some(&one_open), ..of(&partial) }, as_said, &[]);
        check_one(
            &Evidence {
                work: Some(&Work { dirty: 1, dirty_changed: true, ..Work::default() }),
                tasks: Some(&tasks(&["a", "b"], &["a", "b"], &["a"])),
                ..of(&partial)
            },
            [Some(0), Some(2), Some(1), Some(1)],
            &["nothing was committed for it: `a`"],
        );
        check_one(&Evidence { verification: Some(&failed), ..of(&complete) }, as_said, &["--verify failed"]);
        check_one(&Evidence { verification: Some(&failed), ..of(&partial) }, as_said, &[]);
        let rewritten = Work { history_rewritten: true, ..busy.clone() };
        check_one(&Evidence { work: Some(&rewritten), ..of(&complete) }, as_said, &["history"]);
        check_one(&Evidence { work: Some(&rewritten), ..Evidence::default() }, [None; 4], &["history"]);
    }

    #[test]
    fn sub_agents_are_counted_by_the_stream() {
        let claims = report(ReportStatus::Complete, &[]);
        let of = |started, failed| Evidence {
            report: Some(&claims),
            agents_started: started,
            agents_failed: failed,
            ..Evidence::default()
        };
        check_one(&of(3, 0), [Some(0), Some(2), Some(2), Some(0)], &[]);
        check_one(&of(3, 2), [Some(2), Some(2), Some(2), Some(0)], &["the stream shows 2"]);
        let mut waves = claims.clone();
        waves.waves = vec![Wave { agents: Some(4), ..Wave::default() }];
        let none = Evidence { report: Some(&waves), ..Evidence::default() };
        check_one(&none, [Some(0), Some(2), Some(2), Some(0)], &["reported 4 sub-agents"]);
        let unsaid = Evidence { agents_failed: 1, ..Evidence::default() };
        check_one(&unsaid, [Some(1), None, None, None], &[]);
        assert_eq!(check(&Evidence { agents_failed: 0, ..unsaid }).failed, None, "nothing is made up");
    }
}
