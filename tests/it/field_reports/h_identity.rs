//! Class H: which conversation a process belongs to.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Signal;

use super::{night, strings, text};
use crate::support::invariants::{Expect, check_invariants};

/// Leaves a conversation that can be resumed.
const FIRST: &str = "nth_call 1 {\ninit\ntool Bash {\"command\":\"make\"}\napi_error 529 \"API Error: Overloaded\"\nexit 1\n}";
/// What the CLI says of an id it does not find.
const FRAME: &str = "emit {\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"num_turns\":0,\"session_id\":\"{session}\",\"total_cost_usd\":0,\"errors\":[\"No conversation found with session ID: {session}\"]}";
const STDERR: &str = "stderr \"No conversation found with session ID: {session}\"";

#[test]
fn h01_h02_the_session_to_resume_is_refused() {
    for refusal in [format!("{FRAME}\n{STDERR}"), FRAME.to_owned(), STDERR.to_owned()] {
        let script = format!(
            "{FIRST}\nnth_call 2 {{\nread_stdin never\n{refusal}\nexit 1\n}}\nnth_call 3 {{\nturn\n}}"
        );
        let morning = night(&script).run();
        morning.fine().judged(&["transient_api", "no_session", "ok"]);
        assert_eq!(morning.resumed(), [false, true, false], "{morning}");
        let (ids, events) =
            (morning.ids(), morning.env.events().iter().map(ToString::to_string).collect::<String>());
        assert!(ids[1] != ids[2] && events.contains(&ids[0]), "the lost id is recorded: {morning}");
        let prompt = strings(&morning.env.calls()[2]["prompts"]).join("\n");
        assert!(prompt.contains("Do the work."), "{prompt}");
    }
}

#[test]
fn h01_no_session_is_to_be_had() {
    let refusal = format!("read_stdin never\n{FRAME}\n{STDERR}\nexit 1");
    let morning = night(&format!("{FIRST}\nnth_call 2 {{\n{refusal}\n}}")).run();
    morning.ended(14, "failed-wave", "no_session");
    // New ones are tried, but not for ever.
    assert!(morning.env.calls().len() <= 6, "{morning}");
}

#[test]
fn h03_the_session_id_is_in_use() {
    // Without a transcript the id is given up; with one it is resumed.
    let refusal = "read_stdin never\nstderr \"Error: Session ID {session} is already in use.\"\nexit 1";
    let morning = night(&format!("nth_call 1 {{\n{refusal}\n}}\nnth_call 2 {{\nturn\n}}")).run();
    morning.fine().judged(&["session_in_use", "ok"]);
    let morning = night(&format!(
        "nth_call 1 {{\ntranscript_turn \"Hello.\"\n{}\n}}\nnth_call 2 {{\nturn\n}}",
        &refusal["read_stdin never\n".len()..]
    ))
    .run();
    morning.fine().judged(&["session_in_use", "ok"]).resumed_the_first();
}

#[test]
fn h05_a_stored_id_that_is_none() {
    let damage: [&dyn Fn(&str) -> String; 3] =
        [&|id| format!("{id}\\n{id}"), &|_| String::new(), &|_| "x".repeat(1 << 20)];
    for damage in damage {
        let first =
            night("init\ntool Bash {\"command\":\"make\"}\nmark here\nhang").expect(|e| e.killed = true);
        let first = first.watched(|run| {
            run.wait_mark(1, "here");
            run.signal(Signal::KILL);
        });
        let id = first.ids()[0].clone();
        let runs = first.env.repo().join(".orchestrator/autopilot/runs");
        for run in fs::read_dir(runs).unwrap() {
            let path = run.unwrap().path().join("events.jsonl");
            let journal = fs::read_to_string(&path).unwrap();
            fs::write(&path, journal.replace(&id, &damage(&id))).unwrap();
        }
        first.env.script("turn");
        let run = first.env.autopilot(&["resume", "--no-progress", "--max-sessions=1"]);
        check_invariants(&first.env, &run, &Expect { any_cost: true, ..Expect::default() });
        assert_eq!(run.code(), Some(0), "{run}");
    }
}

#[test]
fn h06_a_resumed_session_gets_a_new_id() {
    let script = "nth_call 1 {\ninit\ntext \"Done.\"\nresult\n}\nnth_call 2 {\nnew_session\nreport {\"status\":\"partial\"}\nturn\n}\nnth_call 3 {\nturn\n}";
    let morning = night(script).set("AUTOPILOT_MAX_SESSIONS", "2").args(&["--chain=resume"]).run();
    assert!(!morning.run.stderr.contains("unfinished"), "one row a session: {morning}");
    let ids: BTreeSet<String> = morning.ids().into_iter().collect();
    assert_eq!(ids.len(), 2, "the third call goes on under the new id: {morning}");
    assert_eq!(morning.resumed(), [false, true, true], "{morning}");
}

#[test]
fn h08_every_process_is_told_which_conversation_by_its_id() {
    let script = "nth_call 1 {\ninit\ntool Bash {\"command\":\"make\"}\nexit 1\n}\nnth_call 2 {\nreport {\"status\":\"partial\"}\nturn\n}\nnth_call 3 {\nturn\n}";
    let morning = night(script).set("AUTOPILOT_MAX_SESSIONS", "2").args(&["--chain=resume"]).run();
    assert_eq!(morning.env.calls().len(), 3, "{morning}");
    for call in morning.env.calls() {
        let argv = strings(&call["argv"]);
        let named = argv.windows(2).filter(|pair| {
            ["--session-id", "--resume"].contains(&pair[0].as_str())
                && uuid::Uuid::parse_str(&pair[1]).is_ok()
        });
        assert_eq!(named.count(), 1, "{argv:?}");
        assert!(!argv.iter().any(|arg| ["--continue", "-c"].contains(&arg.as_str())), "{argv:?}");
    }
}

#[test]
fn h09_h11_an_id_without_a_conversation_is_never_resumed() {
    for first in [
        "read_stdin never\nexit 1",
        "no_transcript\nresult {\"is_error\":true,\"num_turns\":0,\"result\":\"it broke\"}\nexit 0",
        "no_transcript\ninit\nresult {\"is_error\":true,\"num_turns\":0,\"result\":\"it broke\"}\nexit 0",
    ] {
        let morning = night(&format!("nth_call 1 {{\n{first}\n}}\nnth_call 2 {{\nturn\n}}")).run();
        morning.fine();
        let ids = morning.ids();
        assert!(ids[0] != ids[1] && morning.resumed() == [false, false], "{morning}");
    }
}

#[test]
fn h12_limits_and_lost_sessions_use_up_no_recovery() {
    let fail = "init\ntool Bash {\"command\":\"make\"}\napi_error 529 \"API Error: Overloaded\"\nexit 1";
    let script = format!(
        "nth_call 1 {{\n{fail}\n}}\nnth_call 2 {{\nusage_limit +1s\nexit 1\n}}\nnth_call 3 {{\nread_stdin never\n{FRAME}\nexit 1\n}}\nnth_call 4 {{\nusage_limit +1s\nexit 1\n}}\nnth_call 5 {{\n{fail}\n}}\nnth_call 6 {{\nturn\n}}"
    );
    let morning = night(&script).run();
    let classes = ["transient_api", "usage_limit", "no_session", "usage_limit", "transient_api", "ok"];
    morning.fine().judged(&classes);
}

#[test]
fn h13_killed_before_its_output_the_id_is_not_used_again() {
    let script = "nth_call 1 {\nsignal_self KILL\n}\nnth_call 2 {\nif_used_session_id\nturn\n}";
    let morning = night(script).run();
    morning.fine().judged(&["killed_by_other", "ok"]);
}

#[test]
fn h14_j04_a18_the_driver_dies_and_its_child_lives() {
    let night = night(
        "trap_term ignore\ninit\ntool_start Bash {\"command\":\"make\"}\nspawn_grandchild setsid ignore-term\nmark here\nhang",
    );
    let dead = night.expect(|expect| expect.killed = true).watched(|run| {
        run.wait_mark(1, "here");
        run.signal(Signal::KILL);
    });
    let id = dead.ids()[0].clone();
    dead.env.script("turn");
    let run = dead.env.autopilot(&["resume", "--no-progress", "--max-sessions=1"]);
    // Invariant 7: the double saw no second process on its session or work tree. Invariant 2: nothing is left.
    check_invariants(&dead.env, &run, &Expect { any_cost: true, ..Expect::default() });
    assert_eq!(run.code(), Some(0), "{run}");
    let calls = dead.env.calls();
    assert_eq!(text(&calls[1]["requested_id"]), id, "{run}");
    assert_eq!(calls[1]["resumed"], true);
    let records = dead.env.runs();
    assert_eq!(
        (records.len(), &records[0]["outcome"]),
        (1, &"planned".into()),
        "one run, and its record tells how it came out: {records:?}"
    );
    let ends: Vec<_> = dead.events("run_ended").iter().map(|end| end["exit_code"].clone()).collect();
    assert_eq!(ends, [137, 0], "its death is in the journal");
}
