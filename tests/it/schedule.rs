//! Schedules: what schedulers are told, and that a slot is started once, and caught up once.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::run::{Finished, dump};
use crate::support::story::{prints, says};

/// A crontab in a file; without one it says what cron says.
const CRONTAB: &str = "case $1 in\n-l) cat \"$HOME/crontab\" 2>/dev/null || { echo \"no crontab for tester\" >&2; exit 1; };;\n-) cat > \"$HOME/crontab\";;\nesac";
/// A systemd that keeps a diary.
const SYSTEMCTL: &str = "echo \"$@\" >> \"$HOME/systemctl\"";

fn command(env: &TestEnv, args: &[&str], code: i32) -> Finished {
    let ended = env.autopilot(args);
    assert_eq!(ended.code(), Some(code), "{ended}");
    ended
}

fn crontab(env: &TestEnv) -> String {
    fs::read_to_string(env.home().join("crontab")).unwrap_or_default()
}

fn time_of_day(at: Timestamp) -> String {
    at.to_zoned_datetime(jiff::tz::TimeZone::UTC).strftime("%H:%M").to_string()
}

/// As if the job had been installed, or last started, then.
fn last_started(env: &TestEnv, at: Timestamp) {
    let text = json!({ "slots": { "night": at } }).to_string();
    env.write(".orchestrator/autopilot/schedule.json", text);
}

#[test]
fn a_crontab_starts_a_missed_slot_once() {
    let env = TestEnv::new();
    env.tool("crontab", CRONTAB);
    let own = "MAILTO=me\n0 5 * * * backup\n";
    fs::write(env.home().join("crontab"), own).unwrap();
    let hour_ago = Timestamp::now() - SignedDuration::from_hours(1);
    let at = format!("--at={}", time_of_day(hour_ago));
    let args =
        ["schedule", "install", "--with=cron", &at, "--", "--max-sessions=1", "--prompt", "it's 100% $HOME"];
    let installed = command(&env, &args, 0);
    says(&installed, &["installed with cron", "doctor --as-scheduled"]);
    command(&env, &args, 0);
    let text = crontab(&env);
    assert!(text.starts_with(own), "{text}");
    assert_eq!(text.matches("# begin autopilot").count(), 1, "{text}");
    prints(&command(&env, &["schedule", "show"], 0), &["by cron", "--max-sessions=1"]);

    // The line as cron would give it to the shell.
    let line = text.lines().find_map(|line| line.strip_prefix("*/20 * * * * ")).unwrap().replace("\\%", "%");
    let call = || {
        let mut shell = env.command("sh");
        let ended = shell.args(["-c", &line]).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    };
    call();
    assert_eq!(env.calls().len(), 0, "what lies before the installation was not missed: {}", dump(&env));
    last_started(&env, hour_ago - SignedDuration::from_hours(24));
    call();
    call();
    assert_eq!(env.runs().len(), 1, "{}", dump(&env));
    assert!(env.calls()[0]["prompts"][0].as_str().unwrap().contains("it's 100% $HOME"));
    let log = env.read(".orchestrator/autopilot/schedule.log");
    assert!(log.contains("catching up on the slot of") && log.contains("max-sessions-reached"), "{log}");

    command(&env, &["schedule", "remove"], 0);
    assert_eq!(crontab(&env), own);
    let none = command(&env, &["schedule", "remove"], 2);
    says(&none, &["no schedule `night` is installed"]);
}

#[test]
fn a_crontab_that_cannot_be_read_is_not_replaced() {
    let env = TestEnv::new();
    env.tool("crontab", "case $1 in\n-l) echo 'cannot open your crontab: I/O error' >&2; exit 1;;\n-) cat > \"$HOME/crontab\";;\nesac");
    let refused = command(&env, &["schedule", "install", "--with=cron", "--", "--prompt=x"], 23);
    says(&refused, &["the crontab cannot be read: cannot open your crontab"]);
    assert!(!env.home().join("crontab").exists());
}

#[test]
fn a_timer_of_systemd() {
    let env = TestEnv::new();
    env.tool("systemctl", SYSTEMCTL);
    let args = ["schedule", "install", "--at=23:30", "--days=fri-sun", "--name=end", "--", "--prompt=x"];
    says(&command(&env, &args, 0), &["installed with systemd: 23:30 fri,sat,sun"]);
    let folder = env.home().join(".config/systemd/user");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    let timer = fs::read_to_string(folder.join(&names[1])).unwrap();
    assert!(timer.contains("\nOnCalendar=Fri,Sat,Sun *-*-* 23:30:00\nPersistent=true\n"), "{timer}");
    let shown = command(&env, &["schedule", "show", "--json"], 0).json();
    assert_eq!((&shown[0]["scheduler"], &shown[0]["name"]), (&json!("systemd"), &json!("end")));
    assert_eq!(shown[0]["args"], json!(["--prompt=x"]));
    assert!(shown[0]["next"].is_string(), "{shown}");
    says(&command(&env, &["schedule", "remove"], 2), &["no schedule `night`", "there is end"]);
    command(&env, &["schedule", "remove", "--name=end"], 0);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    let diary = fs::read_to_string(env.home().join("systemctl")).unwrap();
    let unit = &names[1];
    for wanted in [
        "--user daemon-reload".to_owned(),
        format!("--user enable {unit}"),
        format!("--user restart {unit}"),
        format!("--user disable --now {unit}"),
    ] {
        assert!(diary.lines().any(|line| line == wanted), "{wanted}: {diary}");
    }
}

#[test]
fn moving_to_another_scheduler_leaves_one_job() {
    let env = TestEnv::new();
    env.tool("crontab", CRONTAB);
    env.tool("systemctl", SYSTEMCTL);
    command(&env, &["schedule", "install", "--with=cron", "--", "--prompt=x"], 0);
    command(&env, &["schedule", "install", "--with=systemd", "--", "--prompt=x"], 0);
    let shown = command(&env, &["schedule", "show", "--json"], 0).json();
    assert_eq!((shown.as_array().unwrap().len(), &shown[0]["scheduler"]), (1, &json!("systemd")), "{shown}");
}

#[test]
fn mistakes_are_found_when_it_is_installed() {
    let env = TestEnv::new();
    env.tool("crontab", CRONTAB);
    for (args, words) in [
        (&["--at=25:00", "--", "--prompt=x"][..], "`25:00` is no time of day"),
        (&["--days=someday", "--", "--prompt=x"], "`someday` is none of"),
        (&["--", "--max-session=3"], "these are no options of a run"),
        (&["--", "status"], "without a command"),
        (&["--", "--prompt=a\nb"], "has a control character in it"),
    ] {
        let args = [&["schedule", "install", "--with=cron"][..], args].concat();
        says(&command(&env, &args, 2), &[words]);
    }
    assert_eq!(crontab(&env), "");
    let none = command(&env, &["schedule", "install", "--", "--prompt=x"], 0);
    says(&none, &["installed with cron"]);
}

#[test]
fn manifests_are_printed() {
    let env = TestEnv::new();
    for (format, words) in [
        ("github", &["- cron: \"17 1 * * 1-5\"", "part-1:", "--max-sessions=8"][..]),
        (
            "kubernetes",
            &["kind: CronJob", "schedule: \"17 1 * * 1-5\"", "timeZone: \"", "concurrencyPolicy: Forbid"],
        ),
        ("cron", &["17 1 * * 1-5 "]),
        ("systemd", &["ExecStart=", "Persistent=true"]),
        ("launchd", &["<key>StartCalendarInterval</key>"]),
    ] {
        let printed = command(
            &env,
            &["schedule", "show", &format!("--as={format}"), "--days=mon-fri", "--", "--max-sessions=8"],
            0,
        );
        prints(&printed, words);
    }
}

#[test]
fn the_doctor_sees_what_the_job_will_see() {
    let mut env = TestEnv::new();
    env.tool("crontab", CRONTAB);
    env.tool("claude", "echo '2.1.332 (Claude Code)'");
    env.unset("AUTOPILOT_CLAUDE_BIN");
    env.set("CLAUDE_CODE_OAUTH_TOKEN", "token");
    command(&env, &["schedule", "install", "--with=cron", "--", "--prompt=x", "--permission-mode=plan"], 0);
    let login = |report: &Value| {
        let check = report.as_array().unwrap().iter().find(|check| check["name"] == "login").unwrap();
        check["verdict"].as_str().unwrap().to_owned()
    };
    let here = command(&env, &["doctor", "--json"], 0).json();
    assert_eq!(login(&here), "ok");
    // The token is in this shell alone.
    let there = command(&env, &["doctor", "--as-scheduled", "--json"], 23).json();
    assert_eq!(login(&there), "problem", "{there}");
    let text = there.to_string();
    assert!(text.contains("--permission-mode plan"), "the options of the job count: {text}");
    assert!(text.contains("CLAUDE_CODE_OAUTH_TOKEN"), "what is missing there is named: {text}");
}
