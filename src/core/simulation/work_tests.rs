//! The work of sessions: tasks given and settled, claims checked, questions answered, what is handed over.

use super::script::{attempt, counted, done, reported};
use super::*;
use crate::core::fact::TurnResult;
use crate::core::mode::Mode;
use crate::core::published::Purpose::{Answer, Work as WorkTurn};
use crate::core::task::Task;

fn open(ids: &[&str]) -> Survey {
    let task = |id: &&str| Task { id: (*id).to_owned(), title: format!("do {id}"), ..Task::default() };
    // The choice itself is not what is tried here.
    let signals = Signals { forced_mode: Some(Mode::Feature), ..Signals::default() };
    Survey { tasks: ids.iter().map(task).collect(), signals, ..Survey::default() }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn with_report(change: impl FnOnce(&mut serde_json::Value)) -> Attempt {
    let mut result = counted(0, 0, 2, 0);
    change(result.structured_output.as_mut().unwrap());
    says(result)
}

fn says(result: TurnResult) -> Attempt {
    attempt().after(1).init().text("worked").result(result)
}

fn committed() -> Work {
    Work { commits_total: 1, ..Work::default() }
}

#[test]
fn a_session_gets_tasks_and_they_are_settled_by_what_is_proven() {
    // (commits, --verify passes) → proven.
    for (commits, verified, proven) in [(1, true, true), (0, true, false), (1, false, false)] {
        let report = with_report(|report| report["tasks_done"] = serde_json::json!(["t1"]));
        let limits = Limits { verify: true, ..limits() };
        let mut world = World::new(limits).survey(open(&["t1", "t2"])).attempts([report]);
        world.work = Some(Work { commits_total: commits, ..Work::default() });
        world.verifications = VecDeque::from([verified]);
        let world = world.play();
        assert_eq!(world.asked, [(strings(&["t1", "t2"]), strings(&["t1"]), proven)]);
        let given: Vec<&str> = world.launches[0].tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(given, ["t1", "t2"]);
        assert_eq!(world.states_opened, 1);
    }
}

#[test]
fn a_prompt_is_the_work_and_no_task_is_asked_for() {
    let mut survey = open(&["t1"]);
    survey.signals.prompt = true;
    let world = World::new(limits()).survey(survey).play();
    assert!(world.launches[0].tasks.is_empty());
    assert!(world.asked.is_empty());
}

#[test]
fn an_open_box_contradicts_complete_and_is_carried_over() {
    let outcome = TaskOutcome {
        given: strings(&["do t1", "do t2"]),
        still_open: strings(&["do t1", "do t2"]),
        ..TaskOutcome::default()
    };
    let mut world = World::new(Limits { max_sessions: 3, ..limits() })
        .survey(open(&["t1", "t2"]))
        .attempts([says(reported("complete"))]);
    world.settled = VecDeque::from([outcome.clone()]);
    world.work = Some(committed());
    let world = world.play();
    world.ended(
        Some(KillSwitch::CarryoverTooHigh),
        1,
        "carryover/planned=1 > threshold=0.5 (carryover=2, planned=2)",
    );
    assert!(world.published.iter().any(|event| matches!(
        event,
        RunEvent::SessionEnded { contradictions, tasks: Some(tasks), .. }
            if contradictions.len() == 1 && *tasks == outcome
    )));
    assert_eq!(world.records[0].checked.carryover, Some(2), "the record holds what counts");
}

#[test]
fn a_sub_agent_that_the_stream_saw_fail_is_a_failed_wave() {
    let silent = || reported("partial");
    let world = World::new(Limits { max_sessions: 3, ..limits() })
        .attempts([attempt()
            .init()
            .agent_starts("a")
            .agent_ends("a", "failed")
            .text("done")
            .result(silent())])
        .play();
    world.ended(Some(KillSwitch::FailedWave), 1, "agent_summary.failed=1 > 0");
}

fn blocked(question: &str, options: &[&str]) -> Attempt {
    with_report(|report| {
        report["status"] = "blocked".into();
        report["blocked_on"] = serde_json::json!({ "question": question, "options": options });
    })
}

fn gated() -> Limits {
    Limits { answer_after: Some(secs(20 * 60)), ..limits() }
}

#[test]
fn a_question_ends_the_run_and_stays_in_the_hand_over() {
    for limits in [limits(), gated()] {
        let options: &[&str] = if limits.answer_after.is_some() { &[] } else { &["a", "b"] };
        let world = World::new(limits).attempts([blocked("which?", options)]).play();
        world.ended(Some(KillSwitch::FailedWave), 1, "blocked on a person's answer: which?");
        assert_eq!(world.end().failure_class, Some(Class::Blocked));
        assert!(world.end().needs_person);
        assert!(world.records[0].closing.hand_over.open_questions[0].starts_with("which?"));
    }
}

#[test]
fn under_autonomous_gated_the_first_option_is_taken_after_the_timeout() {
    let world = World::new(gated()).attempts([blocked("which?", &["a", "b"]), done()]).play();
    let said: Vec<_> = world.launches.iter().map(|launch| (launch.purpose, launch.resume)).collect();
    assert_eq!(said, [(WorkTurn, false), (Answer, true)]);
    let answer = world.launches[1].answer.as_ref().unwrap();
    assert_eq!((answer.question.as_str(), answer.answer.as_str()), ("which?", "a"));
    assert!(world.elapsed() >= 20 * 60, "{}", world.elapsed());
    world.ended(Some(KillSwitch::MaxSessionsReached), 1, "");
    assert_eq!(world.records.len(), 1, "it is one session");
}

#[test]
fn one_that_asks_on_and_on_needs_a_person() {
    let asks = (0..9).map(|n| blocked(&format!("{n}?"), &["a"]));
    let world = World::new(Limits { max_hours: 24.0, ..gated() }).attempts(asks).play();
    assert_eq!(world.launches.len(), 4);
    world.ended(Some(KillSwitch::FailedWave), 1, "3?");
}

#[test]
fn a_stop_does_not_wait_for_an_answer() {
    for level in [StopLevel::Finish, StopLevel::Interrupt, StopLevel::Kill] {
        let world = World::new(gated()).attempts([blocked("which?", &["a"])]).stop_at(secs(60), level).play();
        world.ended(Some(KillSwitch::UserAbort), 1, "");
        assert!(world.elapsed() < 70);
        assert_eq!(world.launches.len(), 1);
        assert_eq!(world.records[0].closing.hand_over.open_questions, ["which? [options: a]"]);
    }
}

#[test]
fn what_did_not_work_is_handed_on() {
    let mut first = open(&["t1"]);
    first.hand_over.do_not_retry = strings(&["old"]);
    let report = with_report(|report| {
        report["status"] = "partial".into();
        report["do_not_retry"] = serde_json::json!(["new"]);
        report["summary"] = "half".into();
    });
    let world = World::new(limits()).survey(first).attempts([report]).play();
    assert_eq!(world.launches[0].hand_over.do_not_retry, ["old"]);
    let left = &world.records[0].closing.hand_over;
    assert_eq!(
        (left.do_not_retry.as_slice(), left.summary.as_deref()),
        (&strings(&["old", "new"])[..], Some("half"))
    );
}
