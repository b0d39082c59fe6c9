//! `kill -9` at every step that leaves something on the disk, and between any two of them (design §12,
//! field-reports O3, N01, H14).
//!
//! The program has crash points (`src/process/crash.rs`) behind each line of `events.jsonl` and in the middle of
//! it, around each replacement of a file, each write to a metric file and to the lock, and right after a
//! `claude` was started. A run is ended at its first point, another one at its second, and so on until a run
//! passes fewer points than that and comes to its end. After each of them `resume` has to go on as if nothing
//! had been.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::{Expect, check_invariants};
use crate::support::run::{Finished, dump};

/// More than any run passes, and so a sign that runs do not get to their end.
const TOO_MANY: u64 = 400;

/// Trials at one time. They wait for processes and the disk more than they compute.
const WORKERS: usize = 6;

/// Calls of the double in a run that nobody disturbs.
const CALLS: usize = 4;
/// And its sessions.
const SESSIONS: usize = 3;

/// A first session whose process dies in the middle of its turn and that then does a part, a second one that does
/// another, and a third one that does the rest. Two of them leave a process of their own behind.
const SCRIPT: &str = r#"
nth_call 1 {
  init
  text "Looking around." partial
  spawn_grandchild setsid
  tool_start Bash {"command":"make"}
  exit 7
}
nth_call 2 {
  init
  touch a.txt "a part"
  report {"status":"partial"}
  turn "Did a part."
}
nth_call 3 {
  init
  touch b.txt "another part"
  report {"status":"partial"}
  turn "Did another part."
}
nth_call 4 {
  init
  spawn_grandchild setsid
  touch c.txt "the rest"
  report {"status":"complete"}
  turn "Did the rest."
}
"#;

const PROMPT: &str = "Port the parser";
const RUN: &[&str] = &["--prompt", PROMPT, "--verify", "test -e README.md", "--max-sessions", "6"];

/// Of the points in the middle of a write every so many-th: a death there differs from the one before the write by
/// a fragment at the end of one file. With the variable `CRASH_POINTS=all` each of them is tried.
const STRIDE_WITHIN: u64 = 5;

/// Where a run dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Between(u64),
    Within(u64),
    Nowhere,
}

/// What became of one trial.
enum Trial {
    /// The run was killed and all was put right.
    Survived,
    /// It has no crash point of that number.
    CameToItsEnd,
}

fn place() -> TestEnv {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_TURN_BACKOFF", "0, 0");
    env.script(SCRIPT);
    env
}

/// Starts `args` and has it die at crash point `at`.
fn start(env: &TestEnv, args: &[&str], at: Point) -> Finished {
    let mut command = env.command(env!("CARGO_BIN_EXE_autopilot"));
    match at {
        Point::Between(at) => drop(command.env("TEST_CRASH_POINT", at.to_string())),
        Point::Within(at) => drop(command.env("TEST_CRASH_WITHIN", at.to_string())),
        Point::Nowhere => {}
    }
    env.start_command(command, args).finish()
}

/// Goes on after a death: with the run where there is one, else anew.
fn go_on(env: &TestEnv, at: Point) -> Finished {
    let run = start(env, &["resume"], at);
    // Died before it could say what is to be resumed, and so before it did anything.
    if run.code() == Some(2) {
        assert_eq!(env.calls().len(), 0, "there was something to go on with: {run}\n{}", dump(env));
        return start(env, RUN, at);
    }
    run
}

/// A run is killed at crash point `first`, the run that goes on with it at `second`.
fn trial(first: Point, second: Point) -> Trial {
    let env = place();
    let mut run = start(&env, RUN, first);
    if run.signal() != Some(9) {
        assert_eq!(run.code(), Some(0), "{run}\n{}", dump(&env));
        check_invariants(&env, &run, &Expect::default());
        assert_eq!(env.calls().len(), CALLS, "{}", dump(&env));
        return Trial::CameToItsEnd;
    }
    let mut deaths = 1;
    if second != Point::Nowhere {
        run = go_on(&env, second);
        deaths += usize::from(run.signal() == Some(9));
    }
    if run.signal() == Some(9) {
        check_invariants(&env, &run, &Expect { killed: true, fragments: deaths, ..Expect::default() });
        run = go_on(&env, Point::Nowhere);
    }
    // A call that was cut off may have charged what nobody has heard of.
    check_invariants(&env, &run, &Expect { any_cost: true, fragments: deaths, ..Expect::default() });
    assert_eq!(run.code(), Some(0), "{run}\n{}", dump(&env));
    assert_eq!(env.leftovers(), [], "{run}");
    assert!(env.calls().len() <= CALLS + deaths, "work was done again: {run}\n{}", dump(&env));
    let mut wrong = journals(&env);
    wrong.extend(records(&env));
    wrong.extend(prompts(&env));
    wrong.extend(left_of_writing(&env));
    assert!(wrong.is_empty(), "{wrong:#?}\n{run}\n{}", dump(&env));
    Trial::Survived
}

/// Every journal counts up without a gap from its first event to its last, `run_ended`.
fn journals(env: &TestEnv) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, events) in journals_by_run(env) {
        let numbers: Vec<u64> = events.iter().filter_map(|entry| entry["seq"].as_u64()).collect();
        if numbers != (0..).take(events.len()).collect::<Vec<u64>>() {
            wrong.push(format!("{id}: numbers {numbers:?}"));
        }
        if events.last().is_none_or(|last| last["event"]["type"] != "run_ended") {
            wrong.push(format!("{id}: it has no end"));
        }
    }
    wrong
}

fn journals_by_run(env: &TestEnv) -> BTreeMap<String, Vec<Value>> {
    let folder = env.repo().join(".orchestrator/autopilot/runs");
    let mut runs = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(path.join("events.jsonl")).unwrap_or_default();
        let events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        // A run that died before its first event has done nothing.
        if !events.is_empty() {
            runs.insert(path.file_name().unwrap().to_string_lossy().into_owned(), events);
        }
    }
    runs
}

/// One record for each run, and one for each session that came to its end.
fn records(env: &TestEnv) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut owed_runs = Vec::new();
    let mut owed_sessions = Vec::new();
    for (id, events) in journals_by_run(env) {
        for event in events.iter().map(|entry| &entry["event"]).filter(|e| e["type"] == "session_ended") {
            owed_sessions.push((event["session_id"].clone(), json!(id)));
        }
        owed_runs.push(json!(id));
    }
    let mut runs: Vec<Value> = env.runs().iter().map(|record| record["autopilot_run_id"].clone()).collect();
    // A run that had not said a word yet may be on record all the same.
    runs.retain(|id| {
        owed_runs.contains(id) || env.runs().iter().filter(|r| r["autopilot_run_id"] == *id).count() > 1
    });
    let mut sessions: Vec<(Value, Value)> = env
        .sessions()
        .iter()
        .map(|record| (record["session_id"].clone(), record["autopilot_run_id"].clone()))
        .collect();
    let key = |value: &(Value, Value)| value.0.to_string() + &value.1.to_string();
    runs.sort_by_key(Value::to_string);
    sessions.sort_by_key(key);
    owed_sessions.sort_by_key(key);
    if runs != owed_runs {
        wrong.push(format!("records of the runs {runs:?}, there were {owed_runs:?}"));
    }
    if sessions != owed_sessions {
        wrong.push(format!("records of the sessions {sessions:?}, there were {owed_sessions:?}"));
    }
    let last = env.last_run();
    if (&last["exit_code"], &last["outcome"]) != (&json!(0), &json!("planned")) {
        wrong.push(format!("the last run did not end as planned: {last}"));
    }
    wrong
}

/// No instruction that had reached a conversation was given again as if nothing had been, in that conversation
/// or in a fresh one: what was begun is gone on with.
fn prompts(env: &TestEnv) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut begun = 0;
    let ids: BTreeSet<String> =
        env.calls().iter().filter_map(|call| Some(call["session_id"].as_str()?.to_owned())).collect();
    for id in ids {
        let text = fs::read_to_string(env.transcript(&id)).unwrap_or_default();
        let given = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|entry| entry["type"] == "user")
            .map(|entry| entry["message"]["content"].to_string())
            // A prompt to go on says first of all that it is one.
            .filter(|prompt| prompt.contains(PROMPT) && !prompt.contains("was interrupted half-way"))
            .count();
        if given > 1 {
            wrong.push(format!("conversation {id} got its instruction {given} times"));
        }
        begun += given;
    }
    if begun > SESSIONS {
        wrong.push(format!("{begun} sessions were begun"));
    }
    wrong
}

/// Temporary files of a write that was cut off beside the metric files.
fn left_of_writing(env: &TestEnv) -> Vec<String> {
    let mut wrong = Vec::new();
    for entry in fs::read_dir(env.repo().join(".orchestrator/metrics")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "tmp" || end == "lock") {
            wrong.push(format!("left of writing: {}", path.display()));
        }
    }
    wrong
}

/// Dies at the points `of(1)`, `of(2)`, … until a run comes to its end. How many there were.
fn every(of: impl Fn(u64) -> Point + Sync, stride: u64) -> u64 {
    let began = Instant::now();
    let next = AtomicU64::new(1);
    let end = AtomicU64::new(u64::MAX);
    let (survived, failed) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let at = next.fetch_add(stride, Ordering::Relaxed);
            if at > TOO_MANY || at >= end.load(Ordering::Relaxed) {
                break;
            }
            // Every fourth time the run that goes on dies as well, at a point that moves along.
            let second = if at.is_multiple_of(4) { Point::Between(1 + at * 7 % 40) } else { Point::Nowhere };
            let points = (of(at), second);
            match catch_unwind(|| trial(points.0, points.1)) {
                Ok(Trial::Survived) => drop(survived.fetch_add(1, Ordering::Relaxed)),
                Ok(Trial::CameToItsEnd) => drop(end.fetch_min(at, Ordering::Relaxed)),
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    failed.lock().unwrap().insert(points, text);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    let (survived, failed) = (survived.into_inner(), failed.into_inner().unwrap());
    println!(
        "{} crash points tried, {survived} survived, in {:.1?}",
        survived + failed.len() as u64,
        began.elapsed()
    );
    for (points, text) in &failed {
        println!("--- {points:?}\n{}", text.lines().take(12).collect::<Vec<_>>().join("\n"));
    }
    assert!(failed.is_empty(), "not survived: {:?}", failed.keys());
    assert!(end.into_inner() < TOO_MANY, "no run came to its end");
    survived
}

#[test]
fn a_run_survives_its_death_between_any_two_steps() {
    let survived = every(Point::Between, 1);
    assert!(survived >= 90, "only {survived} crash points: where are the others?");
}

#[test]
fn a_run_survives_its_death_in_the_middle_of_a_write() {
    let all = std::env::var_os("CRASH_POINTS").is_some_and(|which| which == "all");
    let survived = every(Point::Within, if all { 1 } else { STRIDE_WITHIN });
    assert!(survived >= 8, "only {survived} crash points: where are the others?");
}
