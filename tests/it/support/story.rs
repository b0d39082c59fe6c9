//! What most tests of a run say: run it, check the ten invariants, look at the record and the events.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::env::TestEnv;
use super::invariants::{Expect, check_invariants};
use super::run::{Finished, Running, dump};

/// A report that leaves work for another session.
pub(crate) const PARTIAL: &str = "report {\"status\":\"partial\"}\nturn \"Did a part.\"";

/// A turn that is in the middle of a tool call until it is told to end.
pub(crate) const HANG: &str = "init\ntool_start Bash {\"command\":\"make\"}\nhang";

/// A run to its end, with invariants.
#[track_caller]
pub(crate) fn run(env: &TestEnv, args: &[&str], code: i32) -> Finished {
    run_as(env, args, code, &Expect::default())
}

/// The same with other expectations.
#[track_caller]
pub(crate) fn run_as(env: &TestEnv, args: &[&str], code: i32, expect: &Expect) -> Finished {
    finish(env, env.start(args), code, expect)
}

/// The end of a run that was started before.
#[track_caller]
pub(crate) fn finish(env: &TestEnv, running: Running<'_>, code: i32, expect: &Expect) -> Finished {
    let run = running.finish();
    check_invariants(env, &run, expect);
    assert_eq!(run.code(), Some(code), "{run}\n{}", dump(env));
    run
}

/// A command that starts no run and leaves no record of one.
#[track_caller]
pub(crate) fn refused(env: &TestEnv, args: &[&str], code: i32) -> Finished {
    let before = (env.runs().len(), env.calls().len());
    let run = run_as(env, args, code, &Expect { no_record: true, ..Expect::default() });
    assert_eq!((env.runs().len(), env.calls().len()), before, "something was run: {run}");
    assert_eq!(run.stdout, "", "{run}");
    run
}

/// The texts must stand in what was said, in this order.
#[track_caller]
pub(crate) fn says(run: &Finished, texts: &[&str]) {
    let mut rest = run.stderr.as_str();
    for text in texts {
        let Some(at) = rest.find(text) else { panic!("`{text}` is not said (here): {run}") };
        rest = &rest[at + text.len()..];
    }
}

/// Fields of the newest run record.
#[track_caller]
pub(crate) fn record_is(env: &TestEnv, fields: &[(&str, Value)]) {
    let record = env.last_run();
    for (name, value) in fields {
        assert_eq!(record[name], *value, "`{name}` of {record}\n{}", dump(env));
    }
}

/// The events of one type, without their envelopes.
pub(crate) fn events(env: &TestEnv, kind: &str) -> Vec<Value> {
    env.events().into_iter().map(|entry| entry["event"].clone()).filter(|e| e["type"] == kind).collect()
}

/// The folders of the runs, oldest first.
pub(crate) fn run_folders(env: &TestEnv) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(env.repo().join(".orchestrator/autopilot/runs"))
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    folders.sort();
    folders
}

/// The prompt of call `call`, from 1.
#[track_caller]
pub(crate) fn prompt(env: &TestEnv, call: usize) -> String {
    env.calls()[call - 1]["prompts"][0].as_str().expect("a prompt").to_owned()
}

/// The value that follows `name` in the arguments of call `call`, from 1.
#[track_caller]
pub(crate) fn argument(env: &TestEnv, call: usize, name: &str) -> Option<String> {
    let argv = env.calls()[call - 1]["argv"].as_array().expect("arguments").clone();
    let at = argv.iter().position(|arg| arg == name)?;
    argv.get(at + 1)?.as_str().map(str::to_owned)
}

/// The texts must stand in stdout, in this order.
#[track_caller]
pub(crate) fn prints(told: &Finished, texts: &[&str]) {
    let mut rest = told.stdout.as_str();
    for text in texts {
        let Some(at) = rest.find(text) else { panic!("`{text}` is not printed (here): {told}") };
        rest = &rest[at + text.len()..];
    }
}
