//! Notifications: who is told what, and that no channel can touch a run.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::run::{Finished, dump};
use crate::support::story::{prints, refused, run, says};

/// What Claude Code says without a login.
const NO_LOGIN: &str = "init\napi_error 401 \"Not logged in · Please run /login\"\nexit 1";
/// Writes each document on a line of its own.
const TO_FILE: &str = "notify-command = \"cat >> \\\"$OUT\\\"\"\n";

/// The documents that the command got.
fn told(env: &TestEnv) -> Vec<Value> {
    let text = std::fs::read_to_string(env.root().join("out/notices")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What became of the notices of the last run, as (event, channel, outcome).
fn outcomes(env: &TestEnv) -> Vec<(String, String, String)> {
    let folder = crate::support::story::run_folders(env).pop().unwrap();
    let text = std::fs::read_to_string(folder.join("notifications.jsonl")).unwrap_or_default();
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let word = |name: &str| line[name].as_str().unwrap().to_owned();
            (word("event"), word("channel"), word("outcome"))
        })
        .collect()
}

/// A command that prints, with its exit code checked.
fn command(env: &TestEnv, args: &[&str], code: i32) -> Finished {
    let ended = env.autopilot(args);
    assert_eq!(ended.code(), Some(code), "{ended}");
    ended
}

fn kinds(env: &TestEnv) -> Vec<String> {
    told(env).iter().map(|notice| notice["event"].as_str().unwrap().to_owned()).collect()
}

fn place(config: &str) -> TestEnv {
    let mut env = TestEnv::new();
    let out = env.root().join("out/notices").display().to_string();
    env.set("OUT", &out);
    env.write(".autopilot.toml", config);
    env
}

#[test]
fn a_command_gets_one_document_for_each_notice() {
    let env = place(&format!("{TO_FILE}notify-on = [\"started\", \"done\"]\n"));
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    let told = told(&env);
    assert_eq!(kinds(&env), ["started", "done"], "{}", dump(&env));
    let done = &told[1];
    assert_eq!((&done["v"], &done["urgency"], &done["exit_code"]), (&json!(1), &json!("normal"), &json!(0)));
    assert_eq!(done["run_id"], env.last_run()["autopilot_run_id"]);
    assert_eq!(done["sessions"], json!(1));
    assert!(done["next"][0].as_str().unwrap().starts_with("git log"), "{done}");
    let page = done["report"].as_str().unwrap();
    assert!(std::fs::metadata(page).unwrap().len() > 0, "the page that is named is there");
}

#[test]
fn a_person_is_called_once_for_the_same_and_only_what_was_delivered_counts() {
    let mut env = place("notify-command = \"cat >> \\\"$OUT\\\"; exit $CODE\"\n");
    env.script(NO_LOGIN);
    let blocked = |outcome: &str| vec![("blocked".to_owned(), "command".to_owned(), outcome.to_owned())];
    // Not delivered: the cooldown has not begun.
    env.set("CODE", "7");
    let failed = run(&env, &["--prompt", "x"], 20);
    says(&failed, &["the notification `blocked` was not delivered by command", "7"]);
    assert_eq!(outcomes(&env), blocked("failed"));
    env.set("CODE", "0");
    run(&env, &["--prompt", "x"], 20);
    assert_eq!(outcomes(&env), blocked("delivered"));
    run(&env, &["--prompt", "x"], 20);
    assert_eq!(outcomes(&env), blocked("repeated"));
    let told = told(&env);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((&told[1]["event"], &told[1]["urgency"]), (&json!("blocked"), &json!("high")));
    assert_eq!((&told[1]["outcome"], &told[1]["exit_code"]), (&json!("login-needed"), &json!(20)));
    assert!(told[1]["text"].as_str().unwrap().contains("claude /login"), "{told:?}");
}

#[test]
fn a_webhook_that_hangs_and_a_full_mailbox_change_nothing() {
    // It takes the connection and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let env = place(&format!(
        "{TO_FILE}notify-webhook = \"http://127.0.0.1:{port}/geheim\"\nnotify-mail = \"me@example.org\"\n"
    ));
    env.tool("sendmail", "cat > /dev/null; echo 'mailbox is full' >&2; exit 75");
    let began = std::time::Instant::now();
    let ended = run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    assert!(began.elapsed() < Duration::from_secs(25), "bounded: {:?}", began.elapsed());
    assert_eq!(kinds(&env), ["done"], "the other channel is not held up");
    let mut outcomes = outcomes(&env);
    outcomes.sort();
    let of = |channel: &str, outcome: &str| ("done".to_owned(), channel.to_owned(), outcome.to_owned());
    let hook = "json=http://127.0.0.1:{port}/…".replace("{port}", &port.to_string());
    assert_eq!(outcomes, [of("command", "delivered"), of(&hook, "failed"), of("mail", "failed")]);
    says(&ended, &["mailbox is full", "was not delivered by json=http://127.0.0.1"]);
    let everything = format!("{}{}", ended.stdout, ended.stderr);
    assert!(!everything.contains("geheim"), "{everything}");
}

#[test]
fn a_webhook_gets_its_own_format_by_curl() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        // The end of a body is where its length says.
        loop {
            let n = stream.read(&mut buffer).unwrap();
            request.extend_from_slice(&buffer[..n]);
            let text = String::from_utf8_lossy(&request).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.trim().parse::<usize>().unwrap())
                });
                if body.len() >= length.unwrap() {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
                    return (head.to_owned(), body.to_owned());
                }
            }
            assert!(n > 0, "{text}");
        }
    });
    let mut env = place("notify-webhook = \"slack=$HOOK\"\n");
    env.set("HOOK", &format!("http://127.0.0.1:{port}/services/geheim"));
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    let (head, body) = server.join().unwrap();
    assert!(head.starts_with("POST /services/geheim HTTP/1.1\r\n"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(
        body["text"].as_str().unwrap().starts_with("*repo: done, max-sessions-reached*\n1 session, "),
        "{body}"
    );
    assert_eq!(outcomes(&env), [("done".to_owned(), "slack=$HOOK".to_owned(), "delivered".to_owned())]);
    // Sessions know nothing of it.
    let call = env.calls()[0].to_string();
    assert!(call.contains("\"OUT\"") && !call.contains("HOOK"), "{call}");
}

#[test]
fn quiet_hours_hold_back_what_is_not_urgent() {
    // An hour around now, wherever midnight is.
    let hour = |offset: i64| {
        let at = Timestamp::now() + SignedDuration::from_hours(offset);
        at.to_zoned_datetime(jiff::tz::TimeZone::UTC).strftime("%H:%M").to_string()
    };
    let span = format!("{}-{}", hour(-1), hour(1));
    let env = place(&format!("{TO_FILE}quiet-hours = \"{span}\"\n"));
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    assert_eq!(kinds(&env), Vec::<String>::new());
    assert_eq!(outcomes(&env), [("done".to_owned(), "command".to_owned(), "held".to_owned())]);
    env.script(NO_LOGIN);
    run(&env, &["--prompt", "x"], 20);
    assert_eq!(kinds(&env), ["blocked"]);
}

#[test]
fn a_run_that_cannot_begin_says_so_too() {
    let mut env = place(TO_FILE);
    env.set("AUTOPILOT_CLAUDE_BIN", "/nowhere/claude");
    refused(&env, &["--prompt", "x"], 23);
    let told = told(&env);
    assert_eq!((told.len(), &told[0]["event"]), (1, &json!("blocked")), "{told:?}");
    assert_eq!(told[0]["title"], "repo: a run could not begin");
    // What whoever typed it sees at once is no news.
    refused(&env, &["--max-sessions", "1", "--prompt-file", "missing"], 2);
    refused(&env, &["--dry-run", "--prompt", "x"], 23);
    assert_eq!(kinds(&env).len(), 1);
}

#[test]
fn a_test_says_what_came_of_each_channel() {
    let env = place(TO_FILE);
    let good = command(&env, &["notify", "test", "--event", "blocked"], 0);
    prints(&good, &["delivered command in "]);
    assert_eq!(kinds(&env), ["blocked"]);
    env.write(
        ".autopilot.toml",
        format!("{TO_FILE}notify-desktop = \"on\"\nnotify-webhook = \"ntfy=$NONE\"\n"),
    );
    let bad = command(&env, &["notify", "test"], 23);
    prints(
        &bad,
        &[
            "delivered command in ",
            "failed    ntfy=$NONE: the variable NONE is not set",
            "failed    desktop: notify-send cannot be started; is it installed?",
        ],
    );
    let json = command(&env, &["notify", "test", "--json"], 23).json();
    assert_eq!((&json[0]["error"], json.as_array().unwrap().len()), (&Value::Null, 3));
    env.write(".autopilot.toml", "");
    let none = command(&env, &["notify", "test"], 2);
    says(&none, &["no notifications are configured here", "notify-command"]);
}
