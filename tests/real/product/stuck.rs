//! A session that goes round in circles, and what brings it out of them.

use serde_json::json;

use super::{commit, work};
use crate::stub::{Reply, Request};
use crate::support::{Ended, Night};

/// The text the model makes of the conversation when it is compacted.
const SUMMARY: &str = "It looked for a file that is not there, again and again.";
const WHY: &str = "`Bash: cat missing-file` failed 5 times in a row in the same way";

/// The model does the same again and again, whatever it is told.
fn circles(night: &Night) {
    night.stub.always(Reply::bash("cat missing-file"));
}

/// It does the work once it reads this.
fn works_once_it_reads(night: &Night, words: &'static str) {
    let reads = move |request: &Request| request.user_text().contains(words);
    night.stub.when(1, reads, commit("one")).when(1, reads, Reply::report("complete"));
}

fn can_be_compacted(night: &Night) {
    let asked = |request: &Request| request.last_user_text().contains("detailed summary");
    night.stub.when(u32::MAX, asked, Reply::text(&format!("<summary>{SUMMARY}</summary>")));
}

fn run(night: &Night) -> Ended {
    circles(night);
    night.run(&work(&["--max-sessions=1"]))
}

fn purposes(night: &Night, ended: &Ended) -> Vec<String> {
    let turns = night.events_of(ended, "turn_started");
    turns.iter().map(|turn| turn["purpose"].as_str().expect("a purpose").to_owned()).collect()
}

#[test]
fn a_different_prompt_after_the_interrupt() {
    let night = Night::new();
    works_once_it_reads(&night, "going round in circles");
    let ended = run(&night);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(ended.heals(), [("stuck".to_owned(), "interrupted, then a different prompt".to_owned())]);
    assert_eq!(night.commits(), ["Add one"]);
    assert_eq!(night.transcripts().len(), 1, "the same conversation");
    let requests = night.stub.requests();
    let nudge = requests.iter().find(|request| request.last_user_text().contains("going round")).unwrap();
    assert!(nudge.last_user_text().contains(WHY), "{}", nudge.last_user_text());
    assert!(nudge.user_text().contains("Do the work"), "what came before is still there");
    assert_eq!(night.events_of(&ended, "attempt_ended")[0]["signals"], json!([]), "no signal was needed");
}

#[test]
fn compaction_and_a_different_prompt() {
    let night = Night::new();
    can_be_compacted(&night);
    works_once_it_reads(&night, SUMMARY);
    let ended = run(&night);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(purposes(&night, &ended), ["work", "nudge", "compact", "nudge"]);
    assert_eq!(night.commits(), ["Add one"]);
    assert_eq!(night.transcripts().len(), 1, "the same conversation");
    let judged = night.events_of(&ended, "outcome_judged");
    assert_eq!(judged[2]["class"], "ok", "{}", judged[2]);
    let last = night.stub.requests().pop().unwrap();
    assert!(last.user_text().contains(SUMMARY) && last.user_text().contains(WHY), "{}", last.user_text());
}

#[test]
fn a_fresh_conversation_takes_over() {
    let night = Night::new();
    can_be_compacted(&night);
    works_once_it_reads(&night, "You take over from a session that was lost");
    let ended = run(&night);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(purposes(&night, &ended), ["work", "nudge", "compact", "nudge", "reconcile"]);
    assert_eq!(night.commits(), ["Add one"]);
    assert_eq!(night.transcripts().len(), 2);
    let last = night.stub.requests().pop().unwrap();
    assert!(
        last.user_text().contains(WHY) && last.user_text().contains("Do the work"),
        "{}",
        last.user_text()
    );
}

#[test]
fn in_the_end_a_person_is_told() {
    let night = Night::new();
    can_be_compacted(&night);
    let ended = run(&night);
    assert_eq!(ended.verdict(), json!([13, "spiral", "stuck"]), "{}", ended.stderr);
    assert_eq!(ended.heals().len(), 3);
    assert_eq!(ended.sessions[0]["agent_summary"]["spiral"], 1);
    assert!(ended.stderr.contains(WHY), "{}", ended.stderr);
}

/// The CLI says of each denied call twice that it was denied, by its own rules or by ours: it counts once.
#[test]
fn denied_calls_are_a_circle() {
    for (gate, call) in [("--gate=off", commit("never")), ("--gate=guard", Reply::bash("sudo true"))] {
        let night = Night::new();
        works_once_it_reads(&night, "5 tool calls were denied");
        night.stub.always(call);
        let ended = night.run(&[super::WORK[0], gate, "--max-sessions=1", "--no-progress"]);
        assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
        assert_eq!(ended.heals(), [("stuck".to_owned(), "interrupted, then a different prompt".to_owned())]);
        let requests = night.stub.requests();
        let nudge =
            requests.iter().position(|request| request.user_text().contains("5 tool calls were denied"));
        assert!(
            nudge.is_some_and(|before| before >= 5),
            "{gate}: one request for each of five calls: {nudge:?}"
        );
    }
}

#[test]
fn a_sub_agent_in_a_circle_stops_the_turn() {
    let night = Night::new();
    works_once_it_reads(&night, "going round in circles");
    let helper = json!({"description": "a helper", "prompt": "Help out", "subagent_type": "general-purpose"});
    let is_helper = |request: &Request| {
        request.user_text().contains("Help out") && !request.user_text().contains("Do the work")
    };
    night.stub.when(u32::MAX, is_helper, Reply::bash("cat missing-file"));
    night.stub.next(Reply::tool("Agent", &helper));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(purposes(&night, &ended), ["work", "nudge"]);
    assert_eq!(night.commits(), ["Add one"]);
    let last = night.stub.requests().pop().unwrap();
    assert!(last.user_text().contains(&format!("a sub-agent: {WHY}")), "{}", last.user_text());
}
