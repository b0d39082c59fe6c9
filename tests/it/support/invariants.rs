//! The ten invariants that hold after *every* run, whatever the test is about (field-reports §O4).
//!
//! Each is judged from the outside: from `/proc`, from git, from what the double remembers of its own doings and from
//! the files the product promises. Where the product's record leaves room, the check only asks for what
//! design §3 and §9 fix.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::env::{TestEnv, text};
use super::run::{Finished, RUN_LIMIT, dump};
use super::wait;

/// Resident size of a debug build that no input may drive it over, KiB.
const RSS_LIMIT_KIB: u64 = 64 << 10;

/// How long a process that was told to end may take to be gone after the run.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);

/// The ten reasons a loop stops, with the exit codes that belong to each (design §3).
const KILL_SWITCHES: &[(&str, &[i32])] = &[
    ("max-sessions-reached", &[0]),
    ("max-hours-exceeded", &[0]),
    ("token-budget-exceeded", &[0]),
    ("resource-overload", &[11]),
    ("low-confidence-fallback", &[10]),
    ("user-abort", &[129, 130, 143]),
    ("stall-timeout", &[12]),
    ("spiral", &[13]),
    ("failed-wave", &[14, 20, 21, 22, 23, 24]),
    ("carryover-too-high", &[15]),
];

/// Exit codes of a run without a kill-switch: planned end, error, fallback, verdict, others at work.
const NO_KILL_SWITCH: &[i32] = &[0, 1, 3, 4, 5];

/// Exit codes after which there need not be a record: nothing was run.
const NO_RECORD: &[i32] = &[2, 4, 5];

/// Failure classes (field-reports §0) that have an exit code of their own.
const CLASS_CODES: &[(&str, i32)] = &[
    ("auth", 20),
    ("billing", 21),
    ("usage_limit", 22),
    ("binary_missing", 23),
    ("disk", 23),
    ("env_refused", 23),
];

/// What a test allows beyond the invariants.
#[derive(Debug, Clone)]
pub(crate) struct Expect {
    /// Longest run.
    pub(crate) within: Duration,
    /// Highest resident size, KiB.
    pub(crate) rss_kib: u64,
    /// The driver was ended by a signal it cannot handle: no record, leftovers until the next start.
    pub(crate) killed: bool,
    /// The run ends before a record is due.
    pub(crate) no_record: bool,
    /// The cost of the record need not be what the double charged (a result got lost on purpose).
    pub(crate) any_cost: bool,
    /// Kinds of violation of the double that are part of the test.
    pub(crate) violations: &'static [&'static str],
    /// Beginnings of lines that deaths in the middle of a write left in the logs; they are closed off and stay.
    pub(crate) fragments: usize,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            within: RUN_LIMIT,
            rss_kib: RSS_LIMIT_KIB,
            killed: false,
            no_record: false,
            any_cost: false,
            violations: &[],
            fragments: 0,
        }
    }
}

/// An invariant that does not hold: its number in field-reports §O4 and what is wrong.
pub(crate) type Problem = (u8, String);

/// Fails the test when one of the ten does not hold.
#[track_caller]
pub(crate) fn check_invariants(env: &TestEnv, run: &Finished, expect: &Expect) {
    let found = problems(env, run, expect);
    assert!(found.is_empty(), "invariants broken: {found:#?}\n{run}\n{}", dump(env));
}

/// What does not hold.
pub(crate) fn problems(env: &TestEnv, run: &Finished, expect: &Expect) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut add = |number: u8, texts: Vec<String>| found.extend(texts.into_iter().map(|t| (number, t)));
    // Processes first: what still runs may still write.
    add(1, bounded_end(run, expect));
    add(2, nothing_left(env, run, expect));
    add(3, logs_and_record(env, run, expect));
    add(4, tasks_only_after_success(env, run));
    add(5, transcripts_untouched(env));
    add(6, work_tree_untouched(env, run));
    add(7, one_process_each(env, expect));
    add(8, if env.bystander_lives() { vec![] } else { vec!["the bystander is gone".to_owned()] });
    add(9, bounded_memory(run, expect));
    add(10, exit_code_agrees(env, run, expect));
    found
}

fn bounded_end(run: &Finished, expect: &Expect) -> Vec<String> {
    if run.elapsed <= expect.within {
        vec![]
    } else {
        vec![format!("took {:.1?}, allowed are {:.1?}", run.elapsed, expect.within)]
    }
}

/// Nothing is left, or the run said by pid what is.
fn nothing_left(env: &TestEnv, run: &Finished, expect: &Expect) -> Vec<String> {
    if expect.killed {
        return vec![];
    }
    wait::poll(LEFTOVER_GRACE, || env.leftovers().is_empty().then_some(()));
    let record = env.runs().pop().map(|r| r.to_string()).unwrap_or_default();
    env.leftovers()
        .into_iter()
        .filter(|proc| !names_pid(&record, proc.pid) && !names_pid(&run.stderr, proc.pid))
        .map(|proc| format!("left behind: {proc:?}"))
        .collect()
}

fn names_pid(text: &str, pid: i32) -> bool {
    text.split(|c: char| !c.is_ascii_digit()).any(|number| number == pid.to_string())
}

fn logs_and_record(env: &TestEnv, run: &Finished, expect: &Expect) -> Vec<String> {
    let mut found = Vec::new();
    let mut fragments = 0;
    for path in journals(&env.repo().join(".orchestrator")) {
        let bytes = fs::read(&path).unwrap();
        let name = path.strip_prefix(env.repo()).unwrap().display().to_string();
        // A driver that was killed may leave a torn end; the next one closes it off.
        if !bytes.is_empty() && !bytes.ends_with(b"\n") && !expect.killed {
            found.push(format!("{name} ends in the middle of a line"));
        }
        let whole = bytes.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n"));
        for (index, line) in whole.enumerate() {
            if serde_json::from_slice::<Value>(line).is_ok_and(|v| v.is_object()) {
                continue;
            }
            fragments += usize::from(is_beginning(line));
            if !is_beginning(line) || fragments > expect.fragments {
                found.push(format!("{name}:{}: {}", index + 1, String::from_utf8_lossy(line).trim_end()));
            }
        }
    }
    found.extend(documents(env, run));
    if record_due(run, expect) {
        let records = env.runs();
        // A run that is resumed gets a new record for its old one.
        match records.last().filter(|record| !run.before.records.contains(record)) {
            None => found.push("no run record".to_owned()),
            Some(record) => found.extend(record_states(env, run, record, expect)),
        }
    }
    found
}

/// Whether this is how an object of one line begins, and no more of it.
fn is_beginning(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    line.starts_with(b"{") && serde_json::from_slice::<Value>(line).is_err_and(|error| error.is_eof())
}

/// What the product keeps between runs, replaced as a whole and for the owner's eyes only.
const DOCUMENTS: &[&str] = &["handover.json", "tasks.json", "forge.json", "inbox-archive.md"];

/// Those that this run may have written are whole and private. What a test put there beforehand need not be.
fn documents(env: &TestEnv, run: &Finished) -> Vec<String> {
    let mut found = Vec::new();
    for name in DOCUMENTS {
        let path = env.repo().join(".orchestrator/autopilot").join(name);
        let Ok(metadata) = path.metadata() else { continue };
        if run.before.documents.get(*name) == Some(&fs::read(&path).unwrap()) {
            continue;
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            found.push(format!("{name} can be read by others: {:o}", metadata.permissions().mode()));
        }
        if path.extension().is_some_and(|end| end == "json")
            && serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).is_err()
        {
            found.push(format!("{name} is no JSON document: {}", text(&path)));
        }
    }
    found
}

fn record_due(run: &Finished, expect: &Expect) -> bool {
    !expect.killed && !expect.no_record && !run.code().is_some_and(|code| NO_RECORD.contains(&code))
}

/// Class, reason, session ids, attempts and cost of a run record.
fn record_states(env: &TestEnv, run: &Finished, record: &Value, expect: &Expect) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["autopilot_run_id", "started_at", "completed_at", "version"] {
        if record[key].as_str().is_none_or(str::is_empty) {
            found.push(format!("record: `{key}` says nothing: {}", record[key]));
        }
    }
    for key in ["kill_switch", "failure_class", "cost_usd", "exit_code", "sessions", "outcome"] {
        if record.get(key).is_none() {
            found.push(format!("record: `{key}` is missing"));
        }
    }
    if ["kill_switch_detail", "outcome"].iter().all(|key| record[key].as_str().is_none_or(str::is_empty)) {
        found.push("record: no reason in `kill_switch_detail` or `outcome`".to_owned());
    }
    let ids: BTreeSet<&str> =
        record["sessions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = env.calls();
    let first = run.before.calls.min(all.len());
    let calls = &all[first..];
    for call in calls
        .iter()
        .filter(|c| c["results"].as_array().is_some_and(|r| r.iter().any(|r| r["is_error"] == false)))
    {
        let id = call["session_id"].as_str().unwrap_or_default();
        if !ids.contains(id) {
            found.push(format!("record: session {id} had a good result and is not named"));
        }
    }
    if let Some(attempts) = record.get("attempts").and_then(Value::as_u64)
        && attempts != u64::try_from(calls.len()).unwrap()
    {
        found.push(format!("record: {attempts} attempts, the double was called {} times", calls.len()));
    }
    // The record of a run that goes on counts its earlier parts.
    let earlier = if was_there(run, record) { calls_since(&all[..first], record) } else { &[] };
    let calls: Vec<&Value> = earlier.iter().chain(calls).collect();
    found.extend(cost_is_right(&calls, record, expect));
    found
}

/// Whether the run was begun before, as far as its journal or a record tells.
fn was_there(run: &Finished, record: &Value) -> bool {
    run.args.first().is_some_and(|command| command == "resume")
        || run.before.records.iter().any(|old| old["autopilot_run_id"] == record["autopilot_run_id"])
}

/// The calls of the double since the run of `record` began.
fn calls_since<'a>(calls: &'a [Value], record: &Value) -> &'a [Value] {
    let began = record["started_at"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let began = began.map_or(0, jiff::Timestamp::as_millisecond);
    let first = calls.iter().position(|call| call["started_ms"].as_i64().is_some_and(|ms| ms >= began));
    first.map_or(&[], |first| &calls[first..])
}

/// What the double charged in this run, when every result of it was sent and none had totals made up by the script.
fn cost_is_right(calls: &[&Value], record: &Value, expect: &Expect) -> Option<String> {
    let results: Vec<&Value> = calls.iter().filter_map(|c| c["results"].as_array()).flatten().collect();
    if expect.any_cost || results.iter().any(|r| r["own_totals"] != true) {
        return None;
    }
    let charged: f64 = results.iter().filter_map(|r| r["spent"].as_f64()).sum();
    match &record["cost_usd"] {
        Value::Number(cost) if (cost.as_f64()? - charged).abs() < 1e-6 => None,
        Value::Null | Value::String(_) if results.is_empty() => None,
        cost => Some(format!("record: cost_usd is {cost}, the double charged {charged}")),
    }
}

/// The JSON Lines files below `folder` that the product writes; raw streams are the CLI's.
fn journals(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "stream" {
            found.extend(journals(&path));
        } else if path.extension().is_some_and(|e| e == "jsonl") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A task is ticked, and an inbox item gone, only when a session did it, or the text has moved to the plan.
fn tasks_only_after_success(env: &TestEnv, run: &Finished) -> Vec<String> {
    let (plan, inbox) = (env.read(".project/plan.md"), env.read(".project/inbox.md"));
    let calls = env.calls();
    let succeeded = calls[run.before.calls.min(calls.len())..]
        .iter()
        .filter_map(|c| c["results"].as_array())
        .flatten()
        .any(|r| {
            r["is_error"] == false && !matches!(r["status"].as_str(), Some("blocked" | "nothing_to_do"))
        });
    let by_session = |file: &str| env.work().iter().any(|w| w["file"] == file);
    let mut found = Vec::new();
    let now: Vec<&str> = plan.lines().map(str::trim).collect();
    for line in run.before.plan.lines().map(str::trim) {
        let Some(task) = line.strip_prefix("- [ ]").map(str::trim) else { continue };
        let ticked = now.iter().any(|l| l.strip_prefix("- [x]").is_some_and(|t| t.trim().starts_with(task)));
        if ticked && !succeeded {
            found.push(format!("ticked without a success: {task}"));
        }
        if !plan.contains(task) && !by_session(".project/plan.md") {
            found.push(format!("gone from the plan: {task}"));
        }
    }
    for item in run.before.inbox.lines().map(item_text).filter(|item| !item.is_empty()) {
        if !inbox.contains(item) && !plan.contains(item) && !by_session(".project/inbox.md") {
            found.push(format!("gone from the inbox: {item}"));
        }
    }
    found
}

/// The text of a list item, or of a heading of level 2, which may be an item; empty for other headings, comments
/// and blank lines.
fn item_text(line: &str) -> &str {
    let line = line.trim();
    if let Some(heading) = line.strip_prefix("## ") {
        return heading.trim();
    }
    if line.starts_with('#') || line.starts_with("<!--") {
        return "";
    }
    ["- [ ]", "- [x]", "-", "*"].iter().find_map(|p| line.strip_prefix(p)).unwrap_or(line).trim()
}

/// Every conversation is as the double left it; one that was moved away is complete.
fn transcripts_untouched(env: &TestEnv) -> Vec<String> {
    let projects = env.config_dir().join("projects");
    let shadows = env.state("shadow");
    let (real, shadow) = (files(&projects), files(&shadows));
    let mut found = Vec::new();
    for (name, wrote) in &shadow {
        let moved = name.split(".moved-").next().unwrap_or(name).trim_end_matches(".jsonl");
        let kept = real.iter().filter(|(n, _)| n.starts_with(moved)).any(|(_, bytes)| {
            // A double that was killed between its two writes is one chunk short, never different.
            bytes == wrote || (unfinished(env, moved) && !bytes.is_empty() && wrote.starts_with(bytes))
        });
        if !kept {
            found.push(format!("transcript {name} is not what the CLI wrote"));
        }
    }
    for name in real.keys() {
        let known = shadow
            .keys()
            .any(|s| name.starts_with(s.split(".moved-").next().unwrap_or(s).trim_end_matches(".jsonl")));
        if !known {
            found.push(format!("transcript {name} was written by somebody else"));
        }
    }
    found
}

/// Whether a call with this conversation has not come to its end by itself.
fn unfinished(env: &TestEnv, name: &str) -> bool {
    env.calls()
        .iter()
        .any(|c| c["session_id"].as_str().is_some_and(|id| name.ends_with(id)) && c.get("exit").is_none())
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            found.extend(
                files(&entry.path()).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)),
            );
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

fn work_tree_untouched(env: &TestEnv, run: &Finished) -> Vec<String> {
    let mut found = Vec::new();
    let work = env.work();
    let mut commits: BTreeSet<&str> = work.iter().filter_map(|w| w["commit"].as_str()).collect();
    commits.insert(env.base());
    let all = env.git(&["rev-list", "--all"]);
    let all: BTreeSet<&str> = all.lines().collect();
    let history = env.git(&["rev-list", "HEAD"]);
    let history: BTreeSet<&str> = history.lines().collect();
    for commit in all.difference(&commits) {
        found.push(format!("commit {commit} is neither the person's nor the session's"));
    }
    for commit in commits.difference(&history) {
        found.push(format!("commit {commit} is not in the history of HEAD any more"));
    }
    let stash = env.git(&["stash", "list"]);
    if !stash.is_empty() {
        found.push(format!("stashed: {stash}"));
    }
    let staged = env.git(&["diff", "--cached", "--name-only"]);
    if staged != run.before.staged {
        found.push(format!("the index changed: {:?}, now {staged:?}", run.before.staged));
    }
    let mut wanted = env.own_files();
    for entry in &work {
        if let (Some(name), Some(text)) = (entry["file"].as_str(), entry["text"].as_str())
            && !name.starts_with(".project/")
            && !name.starts_with(".orchestrator/")
        {
            wanted.insert(name.to_owned(), text.as_bytes().to_vec());
        }
    }
    for (name, content) in wanted {
        match fs::read(env.repo().join(&name)) {
            // The double notes its own content as text.
            Ok(now) if now == content || String::from_utf8_lossy(&now).as_bytes() == content => {}
            Ok(_) => found.push(format!("{name} has changed")),
            Err(error) => found.push(format!("{name}: {error}")),
        }
    }
    found
}

fn one_process_each(env: &TestEnv, expect: &Expect) -> Vec<String> {
    env.violations()
        .into_iter()
        .filter(|v| !expect.violations.iter().any(|kind| v["kind"] == *kind))
        .map(|v| v.to_string())
        .collect()
}

fn bounded_memory(run: &Finished, expect: &Expect) -> Vec<String> {
    match run.peak_rss_kib {
        Some(peak) if peak > expect.rss_kib => {
            vec![format!("{peak} KiB resident, allowed are {}", expect.rss_kib)]
        }
        // What refuses to run may be gone before it can be looked at.
        None if cfg!(target_os = "linux") && record_due(run, expect) => {
            vec!["its memory was never seen".to_owned()]
        }
        _ => vec![],
    }
}

fn exit_code_agrees(env: &TestEnv, run: &Finished, expect: &Expect) -> Vec<String> {
    let Some(code) = run.code() else {
        return if expect.killed { vec![] } else { vec![format!("died of signal {:?}", run.signal())] };
    };
    let mut found = Vec::new();
    if !record_due(run, expect) {
        return found;
    }
    let Some(record) = env.runs().pop() else { return found };
    if record["exit_code"] != code {
        found.push(format!("exit code {code}, the record says {}", record["exit_code"]));
    }
    match record["kill_switch"].as_str() {
        None if NO_KILL_SWITCH.contains(&code) => {}
        None => found.push(format!("exit code {code} without a kill-switch")),
        Some(name) => match KILL_SWITCHES.iter().find(|(known, _)| *known == name) {
            None => found.push(format!("kill-switch `{name}` is none of the ten")),
            Some((_, codes)) if codes.contains(&code) => {}
            Some((_, codes)) => {
                found.push(format!("kill-switch `{name}` with exit code {code}, not {codes:?}"));
            }
        },
    }
    let class = record["failure_class"].as_str();
    if (20..=24).contains(&code) && class.is_none() {
        found.push(format!("exit code {code} without a failure class"));
    }
    if let Some((class, wanted)) = CLASS_CODES.iter().find(|(known, _)| Some(*known) == class)
        && record["kill_switch"] == "failed-wave"
        && code != *wanted
    {
        found.push(format!("class `{class}` with exit code {code}, not {wanted}"));
    }
    found
}

#[cfg(test)]
mod tests {
    //! The checks themselves: a faultless run has no problem, and each fault is found under its number.

    use std::process::Command;

    use serde_json::json;

    use super::super::double;
    use super::*;
    use crate::support::proc;

    const ID: &str = "3f0c8a52-6f0a-4d43-9b6e-0d4f6a2b9c11";

    /// A stand-in for the product: calls the double once, writes its record, then does what `fault` says.
    fn stand_in(env: &TestEnv, code: i32, record: &Value, fault: &str) -> Finished {
        env.write(".project/plan.md", "- [ ] do a\n");
        env.write(".project/inbox.md", "- look at b\n\n## Later\n");
        env.write("notes.txt", "mine\n");
        let mut command: Command = env.command("sh");
        command.arg("-c").arg(format!(
            "mkdir -p .orchestrator/metrics
             \"$AUTOPILOT_CLAUDE_BIN\" {} --session-id {ID} \"do it\" >/dev/null
             echo '{record}' >>.orchestrator/metrics/autopilot.jsonl
             {fault}
             exit {code}",
            double::PRINT.join(" ")
        ));
        env.start_command(command, &[]).finish()
    }

    fn record() -> Value {
        json!({"autopilot_run_id": "main-2026-04-25-0842-autopilot", "started_at": "2026-04-25T08:42:00.000Z",
            "completed_at": "2026-04-25T08:43:00.000Z", "version": "0.1.0", "kill_switch": "max-sessions-reached",
            "kill_switch_detail": "1 of 1", "failure_class": null, "outcome": "ok", "exit_code": 0,
            "sessions": [ID], "cost_usd": 0.01})
    }

    fn numbers(found: &[Problem]) -> Vec<u8> {
        let mut numbers: Vec<u8> = found.iter().map(|(number, _)| *number).collect();
        numbers.dedup();
        numbers
    }

    #[track_caller]
    fn check(script: &str, code: i32, record: &Value, fault: &str, expected: &[u8]) -> Vec<Problem> {
        let env = TestEnv::new();
        env.script(script);
        let run = stand_in(&env, code, record, fault);
        let found = problems(&env, &run, &Expect::default());
        assert_eq!(numbers(&found), expected, "{fault}: {found:#?}\n{run}\n{}", dump(&env));
        found
    }

    const GOOD: &str =
        "touch src/a.rs \"fn a() {}\\n\"\ncommit \"Do a\" src/a.rs\ntouch dirty.txt \"half\"\nturn";

    #[test]
    fn a_faultless_run_has_no_problem() {
        let env = TestEnv::new();
        env.script(GOOD);
        let run = stand_in(&env, 0, &record(), "true");
        check_invariants(&env, &run, &Expect::default());
        assert_eq!(env.last_run(), record());

        check(GOOD, 0, &record(), "sed -i 's/- .../- [x]/' .project/plan.md", &[]);
        check(
            GOOD,
            0,
            &record(),
            "printf -- '- [ ] look at b\\n- [ ] Later\\n' >>.project/plan.md; echo >.project/inbox.md",
            &[],
        );
    }

    #[test]
    fn a_process_left_behind_is_found_unless_the_run_names_it() {
        let script = "spawn_grandchild setsid ignore-term\nturn";
        let found = check(script, 0, &record(), "true", &[2]);
        assert!(found[0].1.contains("__grandchild"), "{found:?}");
        check(
            script,
            0,
            &record(),
            "for f in \"$FAKE_CLAUDE_STATE\"/grandchildren/*; do p=${f##*/}; echo still alive: ${p%.json} >&2; done",
            &[],
        );
    }

    #[test]
    fn faulty_logs_and_records_are_found() {
        let mut nameless = record();
        nameless["sessions"] = json!([]);
        let mut cheap = record();
        cheap["cost_usd"] = json!(0.02);
        let mut silent = record();
        silent["kill_switch_detail"] = json!("");
        silent["outcome"] = json!("");
        let metrics = ".orchestrator/metrics";
        check(GOOD, 0, &nameless, "true", &[3]);
        check(GOOD, 0, &cheap, "true", &[3]);
        check(GOOD, 0, &silent, "true", &[3]);
        check(GOOD, 0, &record(), &format!("echo '{{\"a\":{{\"b\":1}}' >>{metrics}/sessions.jsonl"), &[3]);
        check(GOOD, 0, &record(), &format!("printf '{{}}' >>{metrics}/sessions.jsonl"), &[3]);
        check(GOOD, 0, &record(), &format!("rm {metrics}/autopilot.jsonl"), &[3]);
        let ours = ".orchestrator/autopilot";
        for (name, text, umask, expected) in [
            ("tasks.json", "{}", "077", [].as_slice()),
            ("tasks.json", "{}", "022", &[3]),
            ("handover.json", "{\"v\":1,", "077", &[3]),
            ("inbox-archive.md", "- look at b", "077", &[]),
        ] {
            let fault = format!("mkdir -p {ours}; umask {umask}; printf '%s' '{text}' >{ours}/{name}");
            check(GOOD, 0, &record(), &fault, expected);
        }
    }

    #[test]
    fn lost_and_untruthful_tasks_are_found() {
        let mut failed = record();
        failed["cost_usd"] = json!(0);
        failed["sessions"] = json!([]);
        let fail = "init\napi_error 529 \"Overloaded\"";
        check(fail, 0, &failed, "sed -i 's/- ..../- [x]/' .project/plan.md", &[4]);
        check(GOOD, 0, &record(), "echo >.project/plan.md", &[4]);
        check(GOOD, 0, &record(), "echo >.project/inbox.md", &[4]);
        check(GOOD, 0, &record(), "sed -i '/^## /d' .project/inbox.md", &[4]);
    }

    #[test]
    fn a_changed_transcript_is_found() {
        let file = "\"$CLAUDE_CONFIG_DIR\"/projects/*/*.jsonl";
        check(GOOD, 0, &record(), &format!("for f in {file}; do echo >>$f; done"), &[5]);
        check(GOOD, 0, &record(), &format!("rm {file}"), &[5]);
        check(GOOD, 0, &record(), &format!("for f in {file}; do cp $f ${{f%/*}}/other.jsonl; done"), &[5]);
        check(
            GOOD,
            0,
            &record(),
            &format!("for f in {file}; do mv $f $f.unresumable-1764500000000; done"),
            &[],
        );
    }

    #[test]
    fn a_touched_work_tree_is_found() {
        for fault in [
            "git reset --quiet --hard HEAD~1",
            "git commit --quiet --allow-empty -m mine",
            "git clean --quiet --force",
            "git add dirty.txt",
            "git stash push --quiet --include-untracked dirty.txt",
            "echo changed >notes.txt",
        ] {
            check(GOOD, 0, &record(), fault, &[6]);
        }
    }

    #[test]
    fn two_processes_on_one_session_and_tree_are_found() {
        // The second call has the id of the first, which is still there.
        let script = format!("nth_call 1 {{\ninit\nwait_file go\nresult\n}}\nnth_call 2 {{\n{GOOD}\n}}");
        let env = TestEnv::new();
        env.script(&script);
        env.write(".project/plan.md", "");
        let first = double::Double::start(&env, &["--session-id", ID, "first"]);
        first.next_of("system");
        let second = double::call(&env, &["--resume", ID], "second");
        assert!(second.status.success(), "{second:?}");
        env.release("go");
        assert!(first.end().status.success());
        let kinds: Vec<Value> = env.violations().iter().map(|v| v["kind"].clone()).collect();
        assert_eq!(kinds, ["two_processes_on_one_session", "two_processes_on_one_work_tree"]);
        assert_eq!(one_process_each(&env, &Expect::default()).len(), 2);
    }

    #[test]
    fn a_harmed_bystander_is_found() {
        let env = TestEnv::new();
        let bystander = env.bystander();
        let run = stand_in(&env, 0, &record(), &format!("kill {bystander}"));
        wait::until("the bystander is gone", || (!proc::alive(bystander)).then_some(()));
        assert_eq!(numbers(&problems(&env, &run, &Expect::default())), [8]);
    }

    #[test]
    fn time_memory_and_signal_deaths_are_judged() {
        let env = TestEnv::new();
        let run = stand_in(&env, 0, &record(), "kill -9 $$");
        let strict = Expect { within: Duration::ZERO, rss_kib: 1, ..Expect::default() };
        assert_eq!(numbers(&problems(&env, &run, &strict)), [1, 9, 10]);
        assert_eq!(numbers(&problems(&env, &run, &Expect { killed: true, ..Expect::default() })), [0_u8; 0]);
    }

    #[test]
    fn an_exit_code_that_tells_another_story_is_found() {
        for (code, changes, expected) in [
            (0, json!({"kill_switch": "spiral"}), [10].as_slice()),
            (13, json!({"kill_switch": "spiral"}), &[]),
            (13, json!({"kill_switch": "spiral", "exit_code": 0}), &[10]),
            (14, json!({"kill_switch": null}), &[10]),
            (3, json!({"kill_switch": null}), &[]),
            (1, json!({"kill_switch": "out-of-luck"}), &[10]),
            (20, json!({"kill_switch": "failed-wave", "failure_class": "auth"}), &[]),
            (21, json!({"kill_switch": "failed-wave", "failure_class": "auth"}), &[10]),
            (22, json!({"kill_switch": "failed-wave", "failure_class": null}), &[10]),
        ] {
            let mut changed = record();
            changed["exit_code"] = json!(code);
            for (key, value) in changes.as_object().unwrap() {
                changed[key] = value.clone();
            }
            check(GOOD, code, &changed, "true", expected);
        }
    }
}
