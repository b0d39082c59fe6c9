//! What a session may not do, and what helps it: denied calls, questions, sub-agents.

use serde_json::json;

use super::{WORK, commit, work};
use crate::stub::{Reply, Request};
use crate::support::Night;

/// What the gate has no objection to is allowed where the CLI would ask a person: nobody is there.
#[test]
fn ordinary_work_needs_no_permission() {
    let night = Night::new();
    night.stub.next(commit("one")).next(Reply::report("complete"));
    let ended = night.run(&[WORK[0], "--max-sessions=1", "--no-progress"]);
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one"], "{}", ended.stderr);
    let session = &night.events_of(&ended, "session_ended")[0];
    assert_eq!(json!([session["class"], session["denials"]]), json!(["ok", 0]));
}

/// Also where the rules of the CLI allow it.
#[test]
fn what_is_dangerous_does_not_run() {
    for arguments in
        [&["--allowed-tools=Bash"][..], &[], &["--permission-mode=plan"], &["--permission-mode=dontAsk"]]
    {
        let night = Night::new();
        night.write("kept/file", "kept");
        night.write(".gitignore", "target\n");
        night.write("target/debug/app", "built");
        night
            .stub
            .next(Reply::bash("touch ran.txt && rm -rf kept"))
            .next(Reply::bash("rm -rf target && touch /tmp/none 2>/dev/null; echo removed"))
            .next(Reply::report("complete"));
        let ended = night.run(&[&[WORK[0], "--max-sessions=1", "--no-progress"], arguments].concat());
        assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
        assert_eq!(
            (night.read("ran.txt"), night.read("kept/file").as_deref()),
            (None, Some("kept")),
            "{arguments:?}"
        );
        let requests = night.stub.requests();
        let told = requests.iter().flat_map(Request::tool_results).find(|(_, is_error)| *is_error);
        assert!(
            told.expect("a refusal").0.contains("is not allowed in this unattended session"),
            "{arguments:?}"
        );
        let refused = &night.events_of(&ended, "gate_decided")[0];
        assert_eq!((&refused["decision"], &refused["what"]), (&json!("deny"), &json!("rm -rf kept")));
        assert!(ended.stderr.contains("rm -rf kept"), "{}", ended.stderr);
        let session = &night.events_of(&ended, "session_ended")[0];
        // Stricter modes of the CLI deny the other call as well.
        let by_mode = arguments.iter().any(|argument| argument.contains("mode"));
        assert_eq!(session["denials"], if by_mode { 2 } else { 1 }, "{arguments:?} {session}");
        if !by_mode {
            assert_eq!(night.read("target/debug/app"), None, "what git ignores may go: {}", ended.stderr);
        }
    }
}

#[test]
fn the_calls_of_a_sub_agent_are_judged_too() {
    let night = Night::new();
    let helper = json!({"description": "a helper", "prompt": "Help out", "subagent_type": "general-purpose"});
    let helps = |request: &Request| request.user_text().contains("Help out");
    night
        .stub
        .when(1, helps, Reply::bash("touch ran.txt; git push --force"))
        .when(1, helps, Reply::bash("echo fine > allowed.txt"))
        .when(1, helps, Reply::text("Helped"))
        .next(Reply::tool("Agent", &helper))
        .next(Reply::report("complete"));
    let ended = night.run(&[WORK[0], "--max-sessions=1", "--no-progress"]);
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    assert_eq!(
        (night.read("ran.txt"), night.read("allowed.txt").as_deref()),
        (None, Some("fine\n")),
        "{}",
        ended.stderr
    );
    let decided = night.events_of(&ended, "gate_decided");
    let refused = decided.iter().find(|event| event["decision"] == "deny").expect("a refusal");
    assert_eq!((&refused["what"], &refused["sub_agent"]), (&json!("git push --force"), &json!(true)));
}

#[test]
fn under_strict_only_what_is_named_runs() {
    let night = Night::new();
    night
        .write(".autopilot.toml", "gate = \"strict\"\ngate-allow = [\"Bash(touch:*)\", \"Edit(docs/**)\"]\n");
    let file = |path: &str| json!({"file_path": night.repo().join(path), "content": "text"});
    night
        .stub
        .next(Reply::bash("touch one.txt"))
        .next(Reply::bash("touch two.txt && echo > three.txt"))
        .next(Reply::tool("Write", &file("docs/a.md")))
        .next(Reply::tool("Write", &file("src/a.rs")))
        .next(Reply::report("complete"));
    let ended = night.run(&[WORK[0], "--max-sessions=1", "--no-progress"]);
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    let there =
        ["one.txt", "two.txt", "three.txt", "docs/a.md", "src/a.rs"].map(|file| night.read(file).is_some());
    assert_eq!(there, [true, false, false, true, false], "{}", ended.stderr);
}

#[test]
fn no_more_sub_agents_than_the_machine_carries() {
    let night = Night::new();
    night.write(".autopilot.toml", "agents-per-wave = 1\n");
    let helper = |name: &str| json!({"description": name, "prompt": format!("Help {name}"), "subagent_type": "general-purpose"});
    night
        .stub
        .when(4, |request| request.user_text().contains("Help out"), Reply::text("Helped"))
        .next(Reply::tool("Agent", &helper("out")).and_tool("Agent", &helper("out too")))
        .next(Reply::report("complete"));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    let wave = &night.events_of(&ended, "session_ended")[0]["wave"];
    assert_eq!(wave, &json!({"asked": 2, "started": 1, "denied": 1, "peak": 1}), "{}", ended.stderr);
    let requests = night.stub.requests();
    let told = requests.iter().flat_map(Request::tool_results).find(|(_, is_error)| *is_error);
    assert!(told.expect("a refusal").0.contains("sub-agent"), "{}", ended.stderr);
}

#[test]
fn a_question_that_needs_a_person_ends_the_run() {
    let night = Night::new();
    let question = json!({"blocked_on": {"question": "Which of the two licences?", "options": ["MIT"]}});
    night.stub.next(Reply::report_with("blocked", &question));
    let ended = night.run(&work(&["--max-sessions=2"]));
    assert_eq!(ended.verdict(), json!([24, "failed-wave", "blocked"]), "{}", ended.stderr);
    assert_eq!(ended.sessions.len(), 1);
    assert!(ended.stderr.contains("Which of the two licences?"), "{}", ended.stderr);
}

#[test]
fn a_sub_agent_is_counted_with_its_tokens() {
    let night = Night::new();
    let helper = json!({"description": "a helper", "prompt": "Help out", "subagent_type": "general-purpose"});
    night
        .stub
        .when(1, |request| request.last_user_text().contains("Help out"), commit("helped").usage(500, 41))
        .when(1, |request| request.user_text().contains("Help out"), Reply::text("Helped").usage(600, 42))
        .next(Reply::tool("Agent", &helper).usage(1000, 43))
        .next(Reply::report("complete").usage(1100, 44));
    let ended = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add helped"]);
    assert_eq!(ended.sessions[0]["total_agents"], 1);
    assert_eq!(ended.record()["total_tokens_used"], 41 + 42 + 43 + 44);
    assert_eq!(ended.record()["tokens"]["input"], night.stub.spent().0);
}
