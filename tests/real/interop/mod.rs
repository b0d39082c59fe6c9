//! Together with the programs whose files and commands we share: session-orchestrator, by its own code, and the CLI's slash
//! commands.

mod plugin;
mod records;
mod slash;

use serde_json::{Value, json};

use crate::support::{Ended, Night, Plugin};

/// What their code says about the records that are there; it has nothing to complain about.
fn read_by_them(night: &Night, plugin: &Plugin) -> Value {
    let read = plugin.script(night, "read-ours.mjs", &[]);
    let complaints: Vec<&Value> = read["complaints"].as_array().expect("a list").iter().collect();
    assert!(complaints.iter().all(|complaint| complaint.is_null()), "{complaints:#?}");
    assert_eq!(read["integrity"], json!(null), "what their start banner says of the file");
    read
}

/// The values of a field.
fn all<'v>(records: impl IntoIterator<Item = &'v Value>, field: &str) -> Vec<&'v Value> {
    records.into_iter().map(|record| &record[field]).collect()
}

/// The one record of a session in a run that had one, and its conversation.
fn only_session(ended: &Ended) -> (&Value, &str) {
    let run = &ended.record()["autopilot_run_id"];
    let of_run: Vec<&Value> =
        ended.sessions.iter().filter(|session| session["autopilot_run_id"] == *run).collect();
    let [session] = of_run[..] else { panic!("one record of the run: {of_run:#?}") };
    let ids = ended.record()["sessions"].as_array().expect("a list of ids");
    let [Value::String(id)] = &ids[..] else { panic!("one conversation: {ids:?}") };
    (session, id)
}
