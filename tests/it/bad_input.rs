//! What is wrong before a run starts, and what goes wrong with its files: the right exit code, what to do next, nothing
//! lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::{Expect, check_invariants, problems};
use crate::support::run::dump;
use crate::support::story::{PARTIAL, events, finish, record_is, refused, run, run_as, says};

const NOTHING_RUN: Expect = Expect { no_record: true, ..EXPECT };
const EXPECT: Expect = Expect {
    within: crate::support::run::RUN_LIMIT,
    rss_kib: 64 << 10,
    killed: false,
    no_record: false,
    any_cost: false,
    violations: &[],
    fragments: 0,
};

/// Arguments that are refused with `code`; what is said begins with `error: `, holds `texts` and ends with a hint.
#[track_caller]
fn check(env: &TestEnv, args: &[&str], code: i32, texts: &[&str]) {
    let run = refused(env, args, code);
    assert!(run.stderr.starts_with("error: "), "{run}");
    says(&run, texts);
    let last = run.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("hint: ") || last.contains("--help"), "what to do next? {run}");
    assert!(!run.stderr.contains("panicked"), "{run}");
}

#[test]
fn the_directory() {
    let env = TestEnv::new();
    let at = |name: &str| env.root().join(name).to_string_lossy().into_owned();
    let (outside, missing, bare) = (at("home"), at("missing"), at("bare.git"));
    env.git(&["clone", "--quiet", "--bare", ".", &bare]);
    check(&env, &["-C", &outside, "--prompt", "x"], 23, &["is not in a git repository", "git init"]);
    check(&env, &["-C", &missing, "--prompt", "x"], 23, &["missing is not a directory", "-C DIR"]);
    check(&env, &["-C", &bare, "--prompt", "x"], 23, &["bare repository", "git worktree add"]);
    assert!(fs::read_dir(&outside).unwrap().next().is_none(), "nothing is made where nothing is");

    let mut command = env.command("sh");
    command.args(["-c", "mkdir ../gone && cd ../gone && rm -r ../gone && exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_autopilot"));
    let run = finish(&env, env.start_command(command, &["--prompt", "x"]), 23, &NOTHING_RUN);
    says(&run, &["the current directory cannot be used", "hint: it was deleted or moved"]);
}

#[test]
fn something_in_the_way_of_the_state() {
    for name in
        [".orchestrator", ".orchestrator/metrics", ".orchestrator/autopilot", ".orchestrator/autopilot/runs"]
    {
        let env = TestEnv::new();
        env.write(name, "in the way");
        check(&env, &["--prompt", "x"], 23, &["cannot create", name, "in the way", "move it"]);
        assert_eq!(env.read(name), "in the way");
    }
    let env = TestEnv::new();
    fs::create_dir_all(env.repo().join(".orchestrator/autopilot/lock")).unwrap();
    check(&env, &["--prompt", "x"], 23, &["cannot open", "autopilot/lock"]);
}

#[test]
fn the_program_to_drive() {
    let env = TestEnv::new();
    let at = |name: &str| env.root().join(name).to_string_lossy().into_owned();
    fs::write(at("plain"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(at("plain"), fs::Permissions::from_mode(0o644)).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    let check = |bin: &str, texts: &[&str]| check(&env, &["--claude-bin", bin, "--prompt", "x"], 23, texts);
    check(&at("missing"), &["missing cannot be used", "No such file", "--claude-bin", "autopilot doctor"]);
    check(&at("dangling"), &["dangling cannot be used", "No such file"]);
    check(&at("home"), &["home is not a file"]);
    check(&at("plain"), &["plain is not executable", "chmod +x"]);
    check("no-such-claude", &["`no-such-claude` is not on PATH", "install Claude Code"]);
}

#[test]
fn a_program_that_vanishes_at_the_start() {
    // It is a file and executable, and still cannot be run.
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_TURN_BACKOFF", "0.01");
    let bin = env.root().join("bin/claude");
    fs::write(&bin, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).unwrap();
    let run = run(&env, &["--claude-bin", bin.to_str().unwrap(), "--prompt", "x"], 23);
    record_is(&env, &[("kill_switch", json!("failed-wave")), ("failure_class", json!("binary_missing"))]);
    says(&run, &["binary_missing", "Next", "autopilot doctor"]);
}

#[test]
fn the_prompt() {
    let env = TestEnv::new();
    let file = |name: &str, content: &[u8]| {
        let path = env.root().join(name);
        fs::write(&path, content).unwrap();
        path.to_string_lossy().into_owned()
    };
    check(&env, &["--prompt", ""], 2, &["--prompt", "empty"]);
    check(&env, &["--prompt", " \n\t"], 2, &["--prompt is blank"]);
    check(&env, &["--prompt"], 2, &["--prompt <TEXT>"]);
    check(&env, &["--prompt", "a", "--prompt-file", "b"], 2, &["cannot be used with"]);
    let folder = env.root().join("home").to_string_lossy().into_owned();
    let text = |args: &str, texts: &[&str]| check(&env, &["--prompt-file", args], 2, texts);
    text("missing.md", &["cannot read the prompt file missing.md", "No such file"]);
    text(&folder, &["cannot read the prompt file", "Is a directory"]);
    text(&file("blank", b" \n\n"), &["blank is empty"]);
    text(&file("nul", b"a\0b"), &["has a NUL byte in it"]);
    text(&file("latin1", b"gr\xfc\xdfe"), &["is not UTF-8 text"]);
    text(&file("big", &vec![b'a'; 11 << 20]), &["is too large: Claude Code takes 10 MB", "name that file"]);
    // Standard input that has nothing to say.
    text("-", &["standard input is empty"]);
}

#[test]
fn a_prompt_as_large_as_it_may_be() {
    let env = TestEnv::new();
    let path = env.root().join("large");
    fs::write(&path, "word ".repeat(2_000_000)).unwrap();
    let expect = Expect { rss_kib: 128 << 10, ..Expect::default() };
    run_as(&env, &["--prompt-file", path.to_str().unwrap()], 0, &expect);
    assert!(env.calls()[0]["stdin_bytes"].as_u64().is_some_and(|n| n > 10_000_000));
}

#[test]
fn the_configuration() {
    let env = TestEnv::new();
    let check = |text: &str, texts: &[&str]| {
        env.write(".autopilot.toml", text);
        check(&env, &["--prompt", "x"], 2, &[&[".autopilot.toml"], texts].concat());
    };
    check(
        "max-hours = 2\n\nmax-session = 3\n",
        &[":3: unknown key `max-session`", "did you mean `max-sessions`?"],
    );
    check("max-hours = \"four\"\n", &[":1: `max-hours`: expected a number", "max-hours = 4"]);
    check("max-hours = = 4\n", &[":1:", "key = value"]);
    check("max-hours = 4\nmax-hours = 5\n", &[":2:"]);
    check("chain = \"freshly\"\n", &["`chain`", "fresh", "resume"]);
    check("\u{0}\u{1}", &[":1:"]);
    env.write(".autopilot.toml", [0xff, 0xfe, b'\n']);
    super::bad_input::check(&env, &["--prompt", "x"], 2, &[".autopilot.toml"]);
}

#[test]
fn a_variable_that_is_wrong() {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_MAX_HOURS", "four");
    check(&env, &["--prompt", "x"], 2, &["AUTOPILOT_MAX_HOURS: expected a number, found `four`"]);
    env.unset("AUTOPILOT_MAX_HOURS");
    env.set("AUTOPILOT_MAX_HOUR", "4");
    let run = run(&env, &["--prompt", "x"], 0);
    says(&run, &["warning: the variable AUTOPILOT_MAX_HOUR is not known; did you mean AUTOPILOT_MAX_HOURS?"]);
}

#[test]
fn out_of_range_is_the_bound_and_said_once() {
    let env = TestEnv::new();
    env.write(".autopilot.toml", "stall-timeout = 1\n");
    let args = [
        "--prompt",
        "x",
        "--max-sessions=0",
        "--max-hours",
        "99",
        "--max-tokens=-5",
        "--confidence-threshold=0.3",
    ];
    let run = run(&env, &args, 0);
    record_is(
        &env,
        &[
            ("max_sessions", json!(1)),
            ("max_hours", json!(24)),
            ("max_tokens", json!(0)),
            ("confidence_threshold", json!(0.3)),
        ],
    );
    for text in [
        "--max-sessions 0 is below the bound: using 1",
        "--max-hours 99 is above the bound: using 24",
        "--max-tokens -5 is below the bound: using 0",
        "stall-timeout = 1 is below the bound: using 5",
        "--confidence-threshold 0.3 is below 0.5",
    ] {
        assert_eq!(run.stderr.matches(text).count(), 1, "{text}: {run}");
    }
}

#[test]
fn the_command_line() {
    let env = TestEnv::new();
    for (args, texts) in [
        (["--max-session=3"].as_slice(), ["--max-session", "--max-sessions"].as_slice()),
        (&["--frobnicate"], &["--frobnicate"]),
        (&["--max-hours=four"], &["four", "--max-hours", "not a number"]),
        (&["--max-hours="], &["--max-hours"]),
        (&["--mode=fast"], &["--mode", "housekeeping"]),
        (&["--dry-run=yes"], &["--dry-run"]),
        (&["runn"], &["runn"]),
        (&["--quiet", "--verbose"], &["--quiet"]),
    ] {
        check(&env, args, 2, texts);
    }
}

// ---- files that are damaged, and a disk that is full ----

const DAMAGES: &[(&str, &[u8])] = &[
    (
        "a torn last line",
        b"{\"schema_version\":2,\"autopilot_run_id\":\"main-2026-04-25-0842-autopilot\"}\n{\"schema_ver",
    ),
    ("no line at all", b"garbage without an end"),
    ("NUL bytes of a power cut", b"{\"a\":1}\n\0\0\0\0\0\0\0\0"),
    ("not UTF-8", b"\xff\xfe\xfd\n"),
    ("another type", b"[1,2]\n\"x\"\nnull\n"),
    ("blank lines", b"\n\n  \n"),
    ("windows line ends", b"{\"session_id\":\"s\",\"schema_version\":2}\r\n"),
];

#[test]
fn damaged_records_lose_nothing() {
    for (damage, bytes) in DAMAGES {
        let env = TestEnv::new();
        for name in ["autopilot", "sessions"] {
            env.write(&format!(".orchestrator/metrics/{name}.jsonl"), bytes);
        }
        let run = env.autopilot(&["--prompt", "x"]);
        // The damage itself is no fault of the run.
        let found = problems(&env, &run, &Expect::default());
        let ours: Vec<_> =
            found.iter().filter(|(number, text)| *number != 3 || text.contains("record")).collect();
        assert!(ours.is_empty(), "{damage}: {ours:?}\n{run}\n{}", dump(&env));
        assert_eq!(run.code(), Some(0), "{damage}: {run}");
        for (name, key) in [("autopilot", "autopilot_run_id"), ("sessions", "session_id")] {
            let now = fs::read(env.repo().join(format!(".orchestrator/metrics/{name}.jsonl"))).unwrap();
            let (old, new) = now.split_at(bytes.len());
            assert_eq!(old, *bytes, "{damage}: {name}");
            let new = new.strip_prefix(b"\n").unwrap_or(new);
            let record: Value =
                serde_json::from_slice(new).unwrap_or_else(|e| panic!("{damage}: {name}: {e}"));
            assert!(record[key].is_string() && new.ends_with(b"\n"), "{damage}: {name}: {record}");
            assert!(old.ends_with(b"\n") || now[bytes.len()] == b'\n', "{damage}: glued to the torn line");
        }
        assert_eq!(env.autopilot(&["status"]).code(), Some(6));
    }
}

/// A file system of its own below `.orchestrator`, only in the namespace of this run.
#[cfg(target_os = "linux")]
#[track_caller]
fn on_own_disk(env: &TestEnv, options: &str, args: &[&str], code: i32) -> crate::support::run::Finished {
    fs::create_dir_all(env.repo().join(".orchestrator")).unwrap();
    let script = "/usr/bin/mount -t tmpfs -o \"$1\" tmpfs .orchestrator || exit 99; shift; \"$@\"; exit $?";
    let mut command = env.command("/usr/bin/unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", options]);
    command.arg(env!("CARGO_BIN_EXE_autopilot"));
    // What it wrote is gone with the namespace.
    finish(env, env.start_command(command, args), code, &NOTHING_RUN)
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_when_the_record_is_due() {
    let env = TestEnv::new();
    env.script(PARTIAL);
    let fill = "cat /dev/zero >.orchestrator/fill 2>/dev/null; true";
    let run = on_own_disk(&env, "size=512k", &["--prompt", "x", "--verify", fill], 23);
    assert_eq!(env.calls().len(), 1, "no other session: {run}");
    let kept: Vec<Value> = run
        .stderr
        .lines()
        .filter_map(|line| serde_json::from_str(line.get(line.find("keep it: ")? + 9..)?).ok())
        .collect();
    let record =
        kept.iter().find(|r| r["kill_switch"].is_string()).unwrap_or_else(|| panic!("no record: {run}"));
    assert_eq!((&record["failure_class"], &record["exit_code"]), (&json!("disk"), &json!(23)), "{run}");
    let id = &env.calls()[0]["session_id"];
    assert_eq!(&record["sessions"], &json!([id]));
    assert!(kept.iter().any(|r| r["session_type"] == "feature" && r["session_id"] == *id), "{run}");
    says(&run, &["No space left", "hint: free some space"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_from_the_start() {
    let env = TestEnv::new();
    let run = on_own_disk(&env, "size=4k,nr_inodes=4", &["--prompt", "x"], 23);
    assert_eq!(env.calls(), [Value::Null; 0], "{run}");
    says(&run, &["error: ", "No space left", "hint: "]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_read_only() {
    let env = TestEnv::new();
    let run = on_own_disk(&env, "ro", &["--prompt", "x"], 23);
    assert_eq!(env.calls(), [Value::Null; 0]);
    says(&run, &["cannot create", "Read-only file system", "hint: ", "remount it writable"]);
}

#[test]
fn a_record_that_could_not_be_added_is_found_out_before_the_night() {
    let env = TestEnv::new();
    fs::create_dir_all(env.repo().join(".orchestrator/metrics/autopilot.jsonl")).unwrap();
    let run = run_as(&env, &["--prompt", "x"], 23, &NOTHING_RUN);
    says(&run, &["autopilot.jsonl cannot be written", "hint: "]);
    assert_eq!(env.calls().len(), 0, "nothing was started: {run}");
}

#[test]
fn a_record_that_cannot_be_added_is_kept_on_stderr() {
    let env = TestEnv::new();
    env.script(&format!("init\nwait_file go\n{}", PARTIAL.replace("turn", "text \"Did a part.\"\nresult")));
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "1"]);
    running.wait_mark(1, "waiting");
    fs::create_dir_all(env.repo().join(".orchestrator/metrics/autopilot.jsonl")).unwrap();
    env.release("go");
    let run = running.finish();
    check_invariants(&env, &run, &NOTHING_RUN);
    assert_eq!(run.code(), Some(23), "{run}");
    says(&run, &["cannot add a record to", "hint: ", "keep it: {\"schema_version\":2"]);
}

#[test]
fn a_repository_that_is_moved_away_ends_the_run() {
    let env = TestEnv::new();
    env.script(&format!("init\nwait_file go\n{}", PARTIAL.replace("turn", "text \"Did a part.\"\nresult")));
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "3"]);
    running.wait_mark(1, "waiting");
    let elsewhere = env.root().join("elsewhere");
    fs::rename(env.repo(), &elsewhere).unwrap();
    env.release("go");
    let run = running.finish();
    assert!(!env.repo().exists(), "it has been made again: {run}");
    fs::rename(&elsewhere, env.repo()).unwrap();
    check_invariants(&env, &run, &NOTHING_RUN);
    assert_eq!((run.code(), env.calls().len()), (Some(23), 1), "no session where no repository is: {run}");
    says(&run, &["keep it: {\"schema_version\":2"]);
}

#[test]
fn a_lock_file_that_is_damaged_is_said_and_taken() {
    let env = TestEnv::new();
    env.write(".orchestrator/autopilot/lock", "{\"run_id\":\"ma\0\0");
    let run = run(&env, &["--prompt", "x"], 0);
    says(&run, &["the lock file was damaged"]);
    assert_eq!(events(&env, "warning").len(), 1, "{}", dump(&env));
}
