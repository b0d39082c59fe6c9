//! `sessions.jsonl` and `autopilot.jsonl`, written by either side and read by the other.

use std::fs;

use serde_json::{Value, json};

use super::{all, only_session, read_by_them};
use crate::product::{WORK, commit, work};
use crate::stub::{Reply, Stub};
use crate::support::{Night, Plugin};

/// A session with everything a report can say.
fn full_report(stub: &Stub) {
    let more = json!({
        "agent_summary": {"complete": 2, "partial": 1, "failed": 0, "spiral": 0},
        "effectiveness": {"planned_issues": 4, "completed": 3, "carryover": 1, "emergent": 2},
        "waves": [{"wave": 1, "role": "Discovery", "agents": 1}, {"wave": 2, "role": "", "agents": 2}],
        "tasks_done": ["one"], "tasks_carried": ["two"], "recommended_mode": "deep",
        "top_priorities": ["two"], "rationale": "One is left.", "do_not_retry": ["Guessing"],
    });
    stub.next(commit("one")).next(Reply::report_with("partial", &more));
}

#[test]
fn their_code_accepts_every_kind_of_record_of_ours() {
    let night = Night::new();
    let plugin = Plugin::in_night(&night);
    full_report(&night.stub);
    night.stub.next(commit("two")).next(Reply::report("complete"));
    let two = night.run(&work(&["--max-sessions=2", "--mode=housekeeping"]));
    assert_eq!((two.code, two.sessions.len()), (Some(0), 2), "{}", two.stderr);
    // Nobody says anything of a plan, and not how it ended.
    night.stub.next(commit("three")).next(Reply::text("Done")).next(Reply::text("Done"));
    night.stub.next(Reply::text("Done")).next(Reply::text("Done"));
    let unresolved = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(
        json!(all(&unresolved.sessions[2..], "status")),
        json!(["unresolved"]),
        "{}",
        unresolved.stderr
    );
    night.stub.always(Reply::error(401, "authentication_error", "invalid x-api-key"));
    let failed = night.run(&work(&["--max-sessions=1"]));
    assert_eq!(json!(all(&failed.sessions[3..], "status")), json!(["abandoned"]), "{}", failed.stderr);
    let last = night.outcome(&mut night.start(&work(&["--dry-run"])));
    assert_eq!((last.runs.len(), last.sessions.len()), (4, 4));

    let read = read_by_them(&night, &plugin);
    assert_eq!(read["canonical"], json!(all(&last.sessions, "session_id")));
    assert_eq!(read["recent"], json!(all(&last.sessions[..3], "session_id")), "the abandoned one is none");
    assert_eq!(read["runs"], json!(all(&last.runs, "autopilot_run_id")));
    for selected in ["selected", "selected_after_feature"] {
        let confidence = read[selected]["confidence"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&confidence), "{}", read[selected]);
    }
    assert_eq!(read["selected_after_feature"]["mode"], "feature");
    assert_eq!(read["suitability"]["suitable"], true, "{}", read["suitability"]);
    let by_mode = &read["by_mode"];
    assert_eq!(
        json!([by_mode["housekeeping"]["n_autopilot"], by_mode["feature"]["n_autopilot"]]),
        json!([2, 1])
    );
    assert_eq!(by_mode["housekeeping"]["completion_rate_autopilot"], 0.875, "of 0.75 and 1");
}

/// Their driver's record of a dry run, and more from their writers: seen, kept byte for byte, added to.
#[test]
fn their_records_are_read_and_kept() {
    let night = Night::new();
    let plugin = Plugin::in_night(&night);
    plugin.program(&night, "scripts/autopilot.mjs", &["--headless", "--dry-run", "--max-sessions=3"]);
    plugin.script(&night, "write-theirs.mjs", &[]);
    let earlier = json!({
        "session_id": "main-2026-04-25-0842", "session_type": "deep",
        "started_at": "2026-04-25T08:42:00.000Z", "completed_at": "2026-04-25T09:10:00Z",
        "total_waves": 1, "waves": [{"wave": 1, "role": "Impl-Core", "agent_count": 2, "quality": "pass"}],
        "agent_summary": {"complete": 2, "partial": 0, "failed": 0, "spiral": 0},
        "total_agents": 2, "total_files_changed": 5,
        "effectiveness": {"planned_issues": 2, "completed": 2, "carryover": 0, "emergent": 0, "completion_rate": 1},
    });
    plugin.program(&night, "scripts/emit-session.mjs", &["--entry", &earlier.to_string()]);
    let theirs = |file: &str| fs::read(night.repo().join(".orchestrator/metrics").join(file)).unwrap();
    let (runs, sessions) = (theirs("autopilot.jsonl"), theirs("sessions.jsonl"));

    let status = night.outcome(&mut night.start(&["status"]));
    // Nothing is running, and that is not for the records to say.
    assert_eq!(status.code, Some(6), "{}{}", status.stdout, status.stderr);
    let dry = night.outcome(&mut night.start(&work(&["--dry-run"])));
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    for said in [&status.stderr, &dry.stderr] {
        for word in ["jsonl", "record", "newer", "damaged"] {
            assert!(!said.contains(word), "{said}");
        }
    }
    night.stub.next(commit("one")).next(Reply::report("complete"));
    let ended = night.outcome(&mut night.start(&work(&["--max-sessions=1"])));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(theirs("autopilot.jsonl").starts_with(&runs) && theirs("sessions.jsonl").starts_with(&sessions));
    assert_eq!((ended.runs.len(), ended.sessions.len()), (3 + 2, 1 + 1));
    read_by_them(&night, &plugin);
}

/// A command that has the session write its own record, as their session-end does. `entry` is shell text in double quotes.
pub(super) fn emit(plugin: &Plugin, entry: &Value) -> Reply {
    let entry = entry.to_string().replace('"', "\\\"");
    Reply::bash(&format!("node {}/scripts/emit-session.mjs --entry \"{entry}\"", plugin.folder()))
}

/// What a session says of itself; `id` may name shell variables.
pub(super) fn own_record(id: &str) -> Value {
    json!({
        "session_id": id, "session_type": "deep", "platform": "claude",
        "started_at": "2026-04-25T08:42:00Z", "completed_at": "2026-04-25T09:10:00.000Z",
        "total_waves": 2, "waves": [{"wave": 1, "role": "Impl-Core"}, {"wave": 2, "role": "Quality"}],
        "agent_summary": {"complete": 5, "partial": 1, "failed": 0, "spiral": 0},
        "total_agents": 6, "total_files_changed": 9,
        "effectiveness": {"planned_issues": 8, "completed": 6, "carryover": 2, "emergent": 0, "completion_rate": 0.75},
        "open_questions_deferred": 1,
    })
}

/// [`own_record`] has the last word; what it does not say is ours.
pub(super) fn check_completed(session: &Value, run: &Value) {
    let own = own_record("");
    for (field, value) in
        own.as_object().expect("a record").iter().filter(|(field, _)| *field != "session_id")
    {
        assert_eq!(session[field], *value, "{field}");
    }
    assert_eq!(session["autopilot_run_id"], *run);
    assert_eq!(json!([session["branch"], session["status"]]), json!(["main", "completed"]));
    assert!(session["total_token_output"].as_u64() > Some(0), "{session}");
    assert!(session["duration_seconds"].is_u64(), "{session}");
}

#[test]
fn a_record_that_the_session_wrote_is_completed() {
    let night = Night::new();
    let plugin = Plugin::in_night(&night);
    night.stub.next(emit(&plugin, &own_record("$CLAUDE_CODE_SESSION_ID"))).next(Reply::report("complete"));
    let ended = night.run(&[WORK[0], WORK[1], WORK[2], "--max-sessions=1", "--mode=feature"]);
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    assert_eq!(ended.sessions.len(), 1);
    let (session, id) = only_session(&ended);
    assert_eq!(session["session_id"], id);
    check_completed(session, &ended.record()["autopilot_run_id"]);
    let read = read_by_them(&night, &plugin);
    assert_eq!(json!([read["canonical"], read["recent"]]), json!([[id], [id]]));
}
