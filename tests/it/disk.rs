//! A disk that is full: `.orchestrator` on a file system of its own that has room for so and so many pages, from
//! none to more than a run needs, so that each write of a run is once the one that does not fit (field-reports K07).
//!
//! The file system lives in a mount namespace of the run, so nothing of the machine is touched. It is copied out
//! when the run is over, and again when there is room and `resume` has gone on.

use std::collections::BTreeMap;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::support::env::TestEnv;
use crate::support::run::{Finished, dump};
use crate::support::story::PARTIAL;

/// From a disk that is full at once to one on which everything fits.
const PAGES: std::ops::RangeInclusive<usize> = 1..=40;

/// Runs at one time.
const WORKERS: usize = 4;

/// Runs the program on a small disk, makes room, and goes on.
const SCRIPT: &str = r#"
/usr/bin/mount -t tmpfs -o "size=$1" tmpfs .orchestrator || exit 99
shift
"$@"; code=$?
cp -R .orchestrator "$TMPDIR/full"
/usr/bin/mount -o remount,size=16m tmpfs .orchestrator || exit 99
"$1" resume --max-sessions 3 >"$TMPDIR/resumed.out" 2>&1; echo $? >"$TMPDIR/resumed.code"
cp -R .orchestrator "$TMPDIR/freed"
exit $code
"#;

/// A line that can be read, of a file that may be torn at its end and nowhere else.
fn lines(path: &Path) -> (Vec<Value>, usize) {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let read: Vec<Option<Value>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    let bad = read.iter().filter(|line| line.is_none()).count();
    assert!(
        bad == 0 || (bad == 1 && read.last().is_some_and(Option::is_none)),
        "{}: torn before its end:\n{text}",
        path.display()
    );
    (read.into_iter().flatten().collect(), bad)
}

/// The records that were printed because they could not be stored.
fn printed(run: &Finished) -> Vec<Value> {
    let lines = run.stderr.lines();
    lines.filter_map(|line| serde_json::from_str(line.get(line.find("keep it: ")? + 9..)?).ok()).collect()
}

fn journals(folder: &Path) -> Vec<PathBuf> {
    let runs = fs::read_dir(folder.join("autopilot/runs")).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = runs.map(|run| run.path().join("events.jsonl")).collect();
    found.sort();
    found
}

/// The exit code of the run on the small disk.
fn trial(pages: usize) -> i32 {
    let env = TestEnv::new();
    env.script(&format!(
        "nth_call 1 {{\n{PARTIAL}\n}}\nnth_call 2 {{\nreport {{\"status\":\"complete\"}}\nturn\n}}"
    ));
    fs::create_dir(env.repo().join(".orchestrator")).expect("the folder");
    let mut command = env.command("/usr/bin/unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"]);
    command.arg(format!("{}k", 4 * pages));
    command.arg(env!("CARGO_BIN_EXE_autopilot"));
    let run = env.start_command(command, &["--prompt", "x", "--max-sessions", "2"]).finish();
    let code = run.code().expect("an exit code");
    let [full, freed] = ["full", "freed"].map(|name| env.root().join("tmp").join(name));
    let resumed = fs::read_to_string(env.root().join("tmp/resumed.out")).expect("what it said");
    let said = || format!("{pages} pages: {run}\n--- resumed\n{resumed}\n{}", dump(&env));

    assert!([0, 23].contains(&code), "{}", said());
    assert_eq!(env.leftovers(), [], "{}", said());
    let calls = env.calls();
    let kept = printed(&run);
    if code == 23 {
        assert!(run.stderr.contains("No space left"), "{}", said());
        assert!(run.stderr.contains("free some space"), "what is to be done? {}", said());
    }
    for journal in journals(&full) {
        lines(&journal);
    }
    // What is not in the file has been printed, and nothing is in both.
    let (runs, _) = lines(&full.join("metrics/autopilot.jsonl"));
    let (sessions, _) = lines(&full.join("metrics/sessions.jsonl"));
    let of_run = |record: &&Value| record["kill_switch_detail"].is_string();
    let before: usize = resumed_from(&calls, &runs, &kept);
    let run_records = runs.len() + kept.iter().filter(of_run).count();
    assert!(run_records <= 1 && (run_records == 1 || before == 0), "{run_records} records: {}", said());
    let mut ids: Vec<&Value> = sessions.iter().map(|record| &record["session_id"]).collect();
    ids.extend(kept.iter().filter(|record| !of_run(record)).map(|record| &record["session_id"]));
    for call in &calls[..before] {
        assert_eq!(ids.iter().filter(|id| ***id == call["session_id"]).count(), 1, "{}", said());
    }

    // With room again it goes on, on top of what was cut off.
    let code_then = fs::read_to_string(env.root().join("tmp/resumed.code")).expect("its exit code");
    let nothing_to_do = ["there has been no run here", "start a new run instead", "has done its"];
    match code_then.trim() {
        "0" => {}
        "2" => assert!(nothing_to_do.iter().any(|words| resumed.contains(words)), "{}", said()),
        code => panic!("exit code {code}: {}", said()),
    }
    for journal in journals(&freed) {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        let numbers: Vec<u64> = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["seq"].as_u64())
            .collect();
        assert!(numbers.iter().zip(0..).all(|(seq, at)| *seq == at), "{numbers:?}: {}", said());
    }
    code
}

/// How many calls of the double belong to the run on the small disk.
fn resumed_from(calls: &[Value], runs: &[Value], kept: &[Value]) -> usize {
    let sessions = runs.iter().chain(kept).find_map(|record| record["sessions"].as_array());
    let ids: Vec<&Value> = sessions.into_iter().flatten().collect();
    calls
        .iter()
        .take_while(|call| ids.contains(&&call["session_id"]) && call["results"][0]["is_error"] == false)
        .count()
}

#[test]
fn a_run_that_finds_the_disk_full_at_any_write() {
    let next = AtomicUsize::new(*PAGES.start());
    let (codes, failed) = (Mutex::new(BTreeMap::new()), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let pages = next.fetch_add(1, Ordering::Relaxed);
                    if !PAGES.contains(&pages) {
                        break;
                    }
                    match catch_unwind(|| trial(pages)) {
                        Ok(code) => drop(codes.lock().unwrap().insert(pages, code)),
                        Err(panic) => {
                            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                            failed.lock().unwrap().insert(pages, text);
                        }
                    }
                }
            });
        }
    });
    let (codes, failed) = (codes.into_inner().unwrap(), failed.into_inner().unwrap());
    println!("exit codes by pages of room: {codes:?}");
    for (pages, text) in &failed {
        println!("--- {pages}\n{}", text.lines().take(25).collect::<Vec<_>>().join("\n"));
    }
    assert!(failed.is_empty(), "failed with so many pages: {:?}", failed.keys());
    assert_eq!((codes[PAGES.start()], codes[PAGES.end()]), (23, 0), "from too little room to enough");
}
