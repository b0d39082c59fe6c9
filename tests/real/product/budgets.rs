//! Limits on turns and money.

use serde_json::json;

use super::{commit, work};
use crate::stub::Reply;
use crate::support::Night;

#[test]
fn a_session_cut_by_a_turn_limit_is_continued() {
    check_continued(&Night::new());
}

/// The name of the folder of a transcript is made from that of the repository, and cut with a hash when it is long.
#[test]
fn a_session_is_continued_whatever_the_folder_is_called() {
    check_continued(&Night::in_folder("Pröjekt \u{1f319} & more"));
    check_continued(&Night::in_folder(&"long".repeat(60)));
}

fn check_continued(night: &Night) {
    night.stub.next(commit("one")).next(commit("two")).next(Reply::report("complete"));
    let ended = night.run(&work(&["--max-sessions=1", "--claude-arg", "--max-turns", "--claude-arg", "1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
    assert_eq!(night.transcripts().len(), 1);
    let continued = ("max_turns".to_owned(), "continue".to_owned());
    assert_eq!(ended.heals(), [continued.clone(), continued]);
    assert_eq!(ended.record()["total_tokens_used"], night.stub.spent().1);
}

/// A session here costs $0.0136: the first leaves less than the second needs.
#[test]
fn a_run_stops_when_its_money_is_spent() {
    let night = Night::new();
    for name in ["one", "two", "three"] {
        night.stub.next(commit(name).usage(1000, 50)).next(Reply::report("partial").usage(2000, 30));
    }
    let ended = night.run(&work(&["--max-sessions=5", "--max-cost=0.02"]));
    assert_eq!(ended.verdict(), json!([0, "token-budget-exceeded", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
    assert_eq!(ended.record()["iterations_completed"], 2);
    let attempts = night.events_of(&ended, "attempt_started");
    let budgets: Vec<&str> = attempts
        .iter()
        .map(|attempt| {
            let argv = attempt["argv"].as_array().unwrap();
            let at = argv.iter().position(|arg| arg == "--max-budget-usd").unwrap();
            argv[at + 1].as_str().unwrap()
        })
        .collect();
    assert_eq!(budgets, ["0.0200", "0.0064"]);
    assert_eq!(ended.record()["total_tokens_used"], night.stub.spent().1);
}
