//! What a person must decide or look at in the morning, told from the summary alone.
//!
//! Only what a person can act on: a heal that worked is history, a claim that git contradicts is not.

use super::{RunOutcome, RunSummary, SessionSummary};
use crate::error::exit::Exit;
use crate::ui::text::{one_line, plural};

/// Longest piece of foreign text in a decision.
const MAX_TEXT: usize = 300;
/// Tasks that are named.
const MAX_NAMED: usize = 5;

/// Most urgent first. The text is cleaned, and still foreign.
pub(super) fn decisions(summary: &RunSummary) -> Vec<String> {
    let mut list = Vec::new();
    list.extend(of_the_end(summary));
    for question in &summary.questions {
        let asked = one_line(&question.question, MAX_TEXT);
        list.push(match &question.answer {
            Some(answer) => format!(
                "nobody was there for \"{asked}\": it was answered with \"{}\"; is that right?",
                one_line(answer, MAX_TEXT)
            ),
            None => format!("answer: \"{asked}\""),
        });
    }
    for session in &summary.sessions {
        of_session(session, &mut list);
    }
    let denials: u64 = summary.ended().map(|end| u64::from(end.denials)).fold(0, u64::saturating_add);
    if denials > 0 {
        let denied = plural(denials, "tool call");
        list.push(format!("{denied} denied; allow what is safe? (gate-allow, --allowed-tools)"));
    }
    list
}

/// What the way it ended asks for. Words of a failure are in the detail, which every report has beside this.
fn of_the_end(summary: &RunSummary) -> Option<String> {
    let exit = summary.exit_code.and_then(|code| Exit::ALL.into_iter().find(|exit| exit.code() == code));
    let detail = || summary.detail.as_deref().map(|detail| one_line(detail, MAX_TEXT)).unwrap_or_default();
    match exit {
        None if summary.outcome == RunOutcome::Unfinished => None,
        Some(Exit::Login) => Some("log in: Claude Code has no valid login here".to_owned()),
        Some(Exit::Billing) => Some("see to credit or plan of the account".to_owned()),
        Some(Exit::Environment) => Some(format!("mend this machine: {}", detail())),
        Some(Exit::Blocked) => Some(format!("answer: {}", detail())),
        Some(Exit::ManualFallback) => Some("choose what is to be done: it was not sure enough".to_owned()),
        Some(Exit::LowConfidence) => Some("choose what comes next: it was not sure enough".to_owned()),
        Some(Exit::VerdictNo) => Some("the pre-launch verdict is no: start it all the same?".to_owned()),
        Some(Exit::UsageLimit) => Some("wait for the usage limit, or allow a longer wait?".to_owned()),
        Some(Exit::Carryover) => Some("cut the scope, or split it: too much was left over".to_owned()),
        Some(Exit::Spiral) => Some("say it differently: the session went round in circles".to_owned()),
        Some(_) | None => None,
    }
}

fn of_session(session: &SessionSummary, list: &mut Vec<String>) {
    let Some(end) = &session.end else { return };
    let number = session.iteration;
    let mut say = |text: String| list.push(format!("session {number}: {text}"));
    if let Some(verification) = end.verification.as_ref().filter(|verification| !verification.passed) {
        say(format!(
            "the verification failed ({}); mend or revert?",
            one_line(&verification.ended, MAX_TEXT)
        ));
    }
    for contradiction in &end.contradictions {
        say(format!("{}; look it over", one_line(contradiction, MAX_TEXT)));
    }
    if let Some(work) = &end.work {
        if work.history_rewritten {
            say("history was rewritten; is what it replaced still wanted? (`git reflog`)".to_owned());
        }
        if work.dirty > 0 && work.dirty_changed {
            say(format!("{} not committed; keep or discard?", plural(work.dirty, "file")));
        }
    }
    if let Some(tasks) = &end.tasks
        && !tasks.disproved.is_empty()
        // Which of them it is, where no contradiction says so already.
        && end.contradictions.is_empty()
    {
        let named: Vec<String> =
            tasks.disproved.iter().take(MAX_NAMED).map(|task| one_line(task, 80)).collect();
        let more = tasks.disproved.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        say(format!("reported done, and nothing was committed for it: {}{more}", named.join(", ")));
    }
}
