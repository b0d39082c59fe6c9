//! `session-command`: sessions that are carried out by the command of a plug-in, with its hooks at work.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::records::{check_completed, emit, own_record};
use super::{only_session, read_by_them};
use crate::product::{TOOL, commit};
use crate::stub::{Reply, Request};
use crate::support::{Ended, Night, Plugin};

/// A night whose sessions are those of the plug-in.
fn night() -> (Night, Plugin) {
    let night = Night::new();
    let plugin = Plugin::in_night(&night);
    let load = format!(
        "session-command = \"session-orchestrator\"\nclaude-arg = [\"--plugin-dir\", {:?}]\n",
        plugin.folder()
    );
    night.write(".autopilot.toml", &load);
    (night, plugin)
}

const OPTIONS: [&str; 4] = ["--max-sessions=1", "--mode=feature", "--allowed-tools=Bash", "--no-progress"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&OPTIONS[..], more].concat()
}

/// The text of the plug-in's session command, as the model has to get it.
fn expanded(plugin: &Plugin, arguments: &str) -> String {
    let command = plugin.read("commands/session.md");
    let (_, body) = command.split_once("\n---\n").expect("front matter");
    body.trim().replace("$ARGUMENTS", arguments)
}

fn assert_sent(request: &Request, plugin: &Plugin, arguments: &str) {
    let asked = request.user_text();
    assert!(asked.contains(&expanded(plugin, arguments)), "{asked}");
}

/// The text of the first entry of a person in the transcript.
fn first_entry(night: &Night, session: &str) -> String {
    let text = fs::read_to_string(night.transcript(session)).expect("the transcript is there");
    let mut entries = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let first = entries.find(|entry| entry["type"] == "user").expect("an entry of a person");
    first["message"]["content"].to_string()
}

/// What the start hook called a session.
fn label(night: &Night) -> String {
    let current: Value =
        serde_json::from_str(&night.read(".orchestrator/current-session.json").expect("the hook wrote it"))
            .expect("it is JSON");
    current["semantic_session_id"].as_str().expect("the start hook has run").to_owned()
}

/// The record that the end hook filled in became the one of the session: one record, measured by us.
fn check_stub_completed(night: &Night, plugin: &Plugin, ended: &Ended, status: &str) {
    let (session, id) = only_session(ended);
    assert_eq!(ended.sessions.len(), 1, "{:#?}", ended.sessions);
    assert_eq!(json!([session["session_id"], session["raw_session_id"]]), json!([label(night), id]));
    assert_eq!(session["_backfill_source"], "events-jsonl", "their end hook wrote it first");
    assert_eq!(json!([session["status"], session["session_type"]]), json!([status, "feature"]));
    for guess in ["_backfill_incomplete_fields", "_session_type_inferred", "_synthetic"] {
        assert_eq!(session.get(guess), None, "it is measured now");
    }
    let real = if status == "abandoned" { json!([]) } else { json!([label(night)]) };
    let theirs = read_by_them(night, plugin);
    assert_eq!(json!([theirs["canonical"], theirs["recent"]]), json!([[label(night)], real]));
}

#[test]
fn a_session_of_the_plug_in_is_one_session_with_one_record() {
    let (night, plugin) = night();
    night.stub.next(commit("one").usage(1000, 50)).next(Reply::report("complete").usage(2000, 30));
    let ended = night.run(&with(&[]));
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(night.commits(), ["Add one"]);
    let requests = night.stub.requests();
    assert_sent(&requests[0], &plugin, "feature");
    assert!(requests[0].tool("StructuredOutput").is_some(), "it is asked for the report all the same");
    let (session, id) = only_session(&ended);
    let first = first_entry(&night, id);
    assert!(first.contains("<command-name>/session-orchestrator:session</command-name>"), "{first}");
    assert!(first.contains("<command-args>feature</command-args>"), "{first}");
    assert_eq!(json!([session["total_token_output"], session["total_files_changed"]]), json!([80, 1]));
    assert_eq!(session["effectiveness"]["completion_rate"], 1);
    check_stub_completed(&night, &plugin, &ended, "completed");
}

#[test]
fn the_work_of_the_prompt_goes_with_the_command() {
    let (night, plugin) = night();
    night.stub.next(Reply::report("complete"));
    let work = "Mend the roof: \"all\" of it,\nthen the {{ gutter }}.";
    let ended = night.run(&with(&[&format!("--prompt={work}")]));
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    assert_sent(&night.stub.requests()[0], &plugin, &format!("feature {work}"));
}

/// The plug-in would make something else of a mode that it does not know.
#[test]
fn a_mode_that_the_plug_in_does_not_know_gets_the_built_in_prompt() {
    let (night, _plugin) = night();
    night.stub.next(Reply::report("complete"));
    let ended = night.run(&["--max-sessions=1", "--mode=discovery", "--no-progress"]);
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    let asked = night.stub.requests()[0].user_text();
    assert!(asked.contains("Find out what should be done next"), "{asked}");
}

/// A forgotten `--plugin-dir` must not let the model guess what was meant.
#[test]
fn a_plug_in_that_is_not_loaded_ends_the_run_before_anything_is_asked() {
    let mut night = Night::new();
    night.variable("AUTOPILOT_SESSION_COMMAND", "session-orchestrator");
    let ended = night.outcome(&mut night.start(&with(&[])));
    assert_eq!(ended.verdict(), json!([23, "failed-wave", "env_refused"]), "{}", ended.stderr);
    assert!(ended.stderr.contains("/session-orchestrator:session"), "{}", ended.stderr);
    assert!(ended.stderr.contains("--plugin-dir"), "{}", ended.stderr);
    assert_eq!(night.stub.requests().len(), 0);
}

#[test]
fn a_session_that_was_cut_off_gets_the_command_again_as_it_is() {
    let (night, plugin) = night();
    night.stub.next(commit("one")).next(Reply::bash(TOOL));
    let mut program = night.start(&with(&[]));
    night.wait_for_process(TOOL);
    night.stub.next(commit("two")).next(Reply::report("complete"));
    let pid = night.wait_for_event("attempt_spawned")["pid"].as_u64().unwrap();
    night.signal(u32::try_from(pid).unwrap(), Signal::KILL);
    let ended = night.ended(&mut program);
    assert_eq!(ended.verdict(), json!([0, "max-sessions-reached", null]), "{}", ended.stderr);
    assert_eq!(ended.heals(), [("killed_by_other".to_owned(), "reconcile".to_owned())]);
    assert_eq!(night.commits(), ["Add one", "Add two"]);
    let again = night.stub.requests()[2].last_user_text();
    assert!(again.contains(&expanded(&plugin, "feature")), "{again}");
    check_stub_completed(&night, &plugin, &ended, "completed");
}

/// The end hook of a session that came to nothing leaves an abandoned stub; it does not become a second session.
#[test]
fn a_failed_session_and_its_abandoned_stub_are_one() {
    let (night, plugin) = night();
    night.stub.always(Reply::error(401, "authentication_error", "invalid x-api-key"));
    let ended = night.run(&with(&[]));
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    check_stub_completed(&night, &plugin, &ended, "abandoned");
}

/// Their session-end names the record after branch and time, their end hook does not find that and adds a stub.
#[test]
fn what_the_session_wrote_counts_and_the_stub_beside_it_does_not() {
    let (night, plugin) = night();
    let mut own = own_record("main-2026-04-25-0842");
    own["autopilot_run_id"] = json!("$AUTOPILOT_RUN_ID");
    night.stub.next(emit(&plugin, &own)).next(Reply::report("complete"));
    let ended = night.run(&with(&[]));
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    let (session, id) = only_session(&ended);
    assert_eq!(
        json!([session["session_id"], session["raw_session_id"]]),
        json!(["main-2026-04-25-0842", id])
    );
    check_completed(session, &ended.record()["autopilot_run_id"]);
    let stub = ended.sessions.iter().find(|record| record.get("_backfill_source").is_some()).expect("a stub");
    assert_eq!(json!([ended.sessions.len(), stub["status"]]), json!([2, "abandoned"]));
    let read = read_by_them(&night, &plugin);
    assert_eq!(read["recent"], json!(["main-2026-04-25-0842"]), "one session was worked");
}

/// Under the name that the start hook gave it, their hook finds the record, and we do.
#[test]
fn a_record_under_the_name_of_the_start_hook_is_completed() {
    let (night, plugin) = night();
    let id =
        "$(node -p 'require(process.cwd() + `/.orchestrator/current-session.json`).semantic_session_id')";
    night.stub.next(emit(&plugin, &own_record(id))).next(Reply::report("complete"));
    let ended = night.run(&with(&[]));
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    assert_eq!(ended.sessions.len(), 1, "{:#?}", ended.sessions);
    let (session, conversation) = only_session(&ended);
    assert_eq!(
        json!([session["session_id"], session["raw_session_id"]]),
        json!([label(&night), conversation])
    );
    check_completed(session, &ended.record()["autopilot_run_id"]);
    read_by_them(&night, &plugin);
}

/// A stub that turns up meanwhile for somebody else's session is left alone.
#[test]
fn the_stub_of_another_session_is_not_ours() {
    let (night, plugin) = night();
    let mut other = own_record("main-2026-04-24-session-3");
    other["status"] = json!("abandoned");
    other["_backfill_source"] = json!("events-jsonl");
    other["raw_session_id"] = json!("11111111-2222-4333-8444-555555555555");
    night.stub.next(emit(&plugin, &other)).next(Reply::report("complete"));
    let ended = night.run(&with(&[]));
    assert_eq!(ended.record()["exit_code"], 0, "{}", ended.stderr);
    let (session, id) = only_session(&ended);
    assert_eq!(json!([ended.sessions.len(), session["raw_session_id"]]), json!([2, id]));
    let kept = ended.sessions.iter().find(|record| record["session_id"] == other["session_id"]).unwrap();
    assert_eq!(json!([kept["status"], kept.get("autopilot_run_id")]), json!(["abandoned", null]));
    read_by_them(&night, &plugin);
}
