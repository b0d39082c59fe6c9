//! `autopilot report`: a run, and the runs of a week, in every format.

use std::fs;

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::run::Finished;
use crate::support::story::{PARTIAL, run, run_folders};

/// The night of the fixtures, as a run of this repository.
fn with_night() -> TestEnv {
    let env = TestEnv::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/journal/v1/night.jsonl");
    env.write(&format!(".orchestrator/autopilot/runs/{NIGHT}/events.jsonl"), fs::read(path).unwrap());
    env
}

const NIGHT: &str = "main-2026-11-14-0017-autopilot";

#[track_caller]
fn report(env: &TestEnv, args: &[&str], code: i32) -> Finished {
    let told = env.autopilot(&[&["report"], args].concat());
    assert_eq!(told.code(), Some(code), "{told}");
    told
}

#[test]
fn of_a_run_that_just_ended() {
    let env = TestEnv::new();
    env.git(&["remote", "add", "origin", "https://user:secret@github.com/acme/shop.git"]);
    env.script(&format!("commit \"Add the <b>basket</b>\" basket.txt\n{PARTIAL}"));
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    let oid = env.git(&["rev-parse", "HEAD"]);

    let text = report(&env, &[], 0);
    for part in [&id, "ended as planned: max-sessions-reached", "Add the <b>basket</b>", "Next"] {
        assert!(text.stdout.contains(part), "{part}: {text}");
    }
    assert_eq!(report(&env, &["last"], 0).stdout, text.stdout);
    assert_eq!(report(&env, &[&id[..id.len() - 6]], 0).stdout, text.stdout);

    let document: Value = serde_json::from_str(&report(&env, &["--json"], 0).stdout).unwrap();
    assert_eq!(document["run_id"], json!(id));
    assert_eq!(document["commit_url"], "https://github.com/acme/shop/commit/");
    assert_eq!(document["sessions"][0]["end"]["work"]["commits"][0]["oid"], json!(oid));
    assert_eq!(document["sessions"][0]["end"]["models"].as_array().map(Vec::is_empty), Some(false));
    assert_eq!(document["course"]["attempts"].as_array().map(Vec::len), Some(1));

    let link = format!("https://github.com/acme/shop/commit/{oid}");
    let markdown = report(&env, &["--format", "markdown"], 0);
    assert!(markdown.stdout.contains(&link), "{markdown}");
    let page = report(&env, &["--format", "html"], 0);
    assert!(page.stdout.contains(&format!("<a href=\"{link}\"")), "{page}");
    assert!(page.stdout.contains("Add the &lt;b&gt;basket") && !page.stdout.contains("secret"), "{page}");
    let junit = report(&env, &["--format=junit"], 0);
    assert!(junit.stdout.starts_with("<?xml") && junit.stdout.contains("failures=\"0\""), "{junit}");

    // What the run itself left in its folder is the same.
    let folder = &run_folders(&env)[0];
    assert_eq!(fs::read_to_string(folder.join("report.md")).unwrap(), markdown.stdout);
    assert_eq!(fs::read_to_string(folder.join("report.html")).unwrap(), page.stdout);
}

#[test]
fn into_a_file_by_the_name_of_which_the_format_is_known() {
    let env = with_night();
    for (name, begins) in [
        ("a.html", "<!doctype html>"),
        ("a.md", "# Run"),
        ("a.xml", "<?xml"),
        ("a.json", "{"),
        ("a.txt", "Run"),
    ] {
        let path = env.root().join("tmp").join(name);
        let told = report(&env, &["--output", path.to_str().unwrap()], 0);
        assert_eq!(told.stdout, "", "{told}");
        assert!(told.stderr.contains("written to "), "{told}");
        assert!(fs::read_to_string(&path).unwrap().starts_with(begins), "{name}");
    }
    assert!(report(&env, &["--format", "html", "--output", "-"], 0).stdout.starts_with("<!doctype"));
    // A device is written to, not replaced.
    report(&env, &["--output", "/dev/null"], 0);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    let wrong = report(&env, &["--output", env.root().join("nowhere/a.html").to_str().unwrap()], 23);
    assert!(wrong.stderr.contains("nowhere"), "{wrong}");
    let wrong = report(&env, &["--output", env.root().to_str().unwrap()], 2);
    assert!(wrong.stderr.contains("is a folder"), "{wrong}");
    report(&env, &["--json", "--format", "html"], 2);
}

#[test]
fn of_no_run_and_of_one_that_is_not_there() {
    let env = TestEnv::new();
    let none = report(&env, &[], 2);
    assert!(none.stderr.contains("there has been no run here"), "{none}");
    let env = with_night();
    let wrong = report(&env, &["main-2026-11-15"], 2);
    assert!(wrong.stderr.contains(&format!("did you mean {NIGHT}?")), "{wrong}");
    let wrong = report(&env, &["../../etc/passwd"], 2);
    assert!(wrong.stderr.contains("there is no run"), "{wrong}");
}

#[test]
fn what_can_be_shown_of_a_damaged_folder_is_shown() {
    let env = with_night();
    let path = format!(".orchestrator/autopilot/runs/{NIGHT}/events.jsonl");
    let whole = env.read(&path);
    let lines: Vec<&str> = whole.lines().collect();

    // Lines torn and lost, and the end gone.
    let damaged =
        format!("{}\n\u{0}\u{0}garbage\n{}\n{}", lines[0], lines[4..30].join("\n"), &lines[30][..40]);
    env.write(&path, damaged);
    let told = report(&env, &[], 0);
    for part in ["not finished", "warning: 1 line of the journal cannot be read", "its last line is cut off"]
    {
        assert!(told.stdout.contains(part), "{part}: {told}");
    }
    assert!(told.stdout.contains("autopilot resume"), "{told}");
    let told = report(&env, &["--output", env.root().join("tmp/x.html").to_str().unwrap()], 0);
    assert!(told.stderr.contains("warning: "), "{told}");

    // Nothing but its record.
    fs::remove_file(env.repo().join(&path)).unwrap();
    env.write(
        ".orchestrator/metrics/autopilot.jsonl",
        format!(
            "{{\"schema_version\":2,\"autopilot_run_id\":\"{NIGHT}\",\"started_at\":\"2026-11-14T00:17:00Z\",\"completed_at\":\"2026-11-14T06:06:00Z\",\"duration_seconds\":20940,\"max_sessions\":6,\"max_hours\":8,\"iterations_completed\":3,\"kill_switch\":\"failed-wave\",\"exit_code\":14,\"dry_run\":false}}\n"
        ),
    );
    let told = report(&env, &[], 0);
    for part in ["stopped: failed-wave, exit code 14", "its journal (events.jsonl) is not there", "3 of 6"] {
        assert!(told.stdout.contains(part), "{part}: {told}");
    }

    // A newer version is no damage, and is not guessed at.
    env.write(&path, lines[0].replace("\"v\":1", "\"v\":9"));
    let told = report(&env, &[], 2);
    assert!(told.stderr.contains("newer autopilot"), "{told}");
    let told = report(&env, &["--since", "2026-11-01"], 0);
    assert!(told.stdout.contains(&format!("warning: run {NIGHT} cannot be read")), "{told}");
}

#[test]
fn of_a_week() {
    let env = with_night();
    env.script(PARTIAL);
    run(&env, &["--prompt", "x", "--max-sessions", "2"], 0);
    // A run whose folder is gone has left its record.
    let records = env.read(".orchestrator/metrics/autopilot.jsonl");
    let gone = r#"{"schema_version":2,"autopilot_run_id":"main-2026-11-13-0100-autopilot","started_at":"2026-11-13T01:00:00Z","completed_at":"2026-11-13T02:00:00Z","duration_seconds":3600,"max_sessions":5,"max_hours":4,"iterations_completed":5,"kill_switch":"max-sessions-reached","exit_code":0,"dry_run":false,"cost_usd":3.5}"#;
    let plan =
        gone.replace("2026-11-13-0100", "2026-11-13-0200").replace("\"dry_run\":false", "\"dry_run\":true");
    env.write(".orchestrator/metrics/autopilot.jsonl", format!("{gone}\n{plan}\n{records}"));

    let all: Value =
        serde_json::from_str(&report(&env, &["--since", "2026-11-01", "--json"], 0).stdout).unwrap();
    let ids: Vec<&str> =
        all["runs"].as_array().unwrap().iter().map(|r| r["run_id"].as_str().unwrap()).collect();
    let last = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    assert_eq!(ids, ["main-2026-11-13-0100-autopilot", NIGHT, &last]);
    assert_eq!(all["totals"]["sessions"], 5 + 3 + 2);

    let week = report(&env, &["--week"], 0);
    assert!(week.stdout.contains(&last) && !week.stdout.contains("main-2026-11-13"), "{week}");
    assert_eq!(report(&env, &["--since", "7d"], 0).stdout.lines().count(), week.stdout.lines().count());
    for format in ["markdown", "html", "junit"] {
        let told = report(&env, &["--since=2026-11-01", "--format", format], 0);
        assert!(told.stdout.contains(NIGHT) && told.stdout.contains(&last), "{told}");
    }
    for wrong in
        [["--since", "yesterday"].as_slice(), &["--since", "7d", "last"], &["--week", "--since", "1d"]]
    {
        report(&env, wrong, 2);
    }
}
