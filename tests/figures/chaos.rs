//! What goes wrong at night, and what becomes of the run: the cases in which other drivers were measured with
//! the same kind of double on the same kind of machine, theirs beside ours.
//!
//! The figures of the others were taken once, in 2026, from ralph-orchestrator 2.10.1 (`run --no-tui`),
//! continuous-claude 0.24.8 (`--disable-commits`) and ralph-claude-code 0.11.5 (`--live`); newer versions may do
//! better. Ours are taken anew each time.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::figure::{Figure, Measured, Taken};
use super::support::env::TestEnv;
use super::support::run::Finished;
use super::support::wait;

/// The others, in the order of [`PUBLISHED`].
const PEERS: [&str; 3] = ["ralph-orchestrator", "continuous-claude", "ralph-claude-code"];

/// What was measured of them, by figure.
const PUBLISHED: [(&str, &str, [&str; 3]); 6] = [
    (
        "chaos-usage-limit",
        "usage limit, resets in 20 s",
        ["5 calls, dead after 1.1 s", "3 calls, dead after 3 s", "4 calls in 80 s, blind retries"],
    ),
    (
        "chaos-never-exits",
        "result sent, never exits",
        ["300 s, then accepted", "for ever", "900 s, then thrown away"],
    ),
    (
        "chaos-silent-hang",
        "silent hang in a turn",
        ["ended at its limit", "for ever", "no limit for silence"],
    ),
    (
        "chaos-cost-cap",
        "cap $7, sessions of $5",
        ["$40 in 8 sessions, no stop", "$10 in 2 sessions", "has no cap"],
    ),
    (
        "chaos-ctrl-c",
        "Ctrl-C",
        ["exit 137, no report, child left", "ends, none left", "alive after 8 s, child left"],
    ),
    ("chaos-kill-9", "kill -9, then the next start", ["2 left", "not measured", "1 left"]),
];

pub(crate) const CASES: [Figure; 6] = [
    Figure { name: "chaos-usage-limit", budget: "2 calls, ok", take: usage_limit },
    Figure { name: "chaos-never-exits", budget: "<= 15 s + 5 s", take: never_exits },
    Figure { name: "chaos-silent-hang", budget: "<= 5 s past", take: silent_hang },
    Figure { name: "chaos-cost-cap", budget: "<= $10", take: cost_cap },
    Figure { name: "chaos-ctrl-c", budget: "130, 0 left", take: ctrl_c },
    Figure { name: "chaos-kill-9", budget: "0 left", take: kill_9 },
];

/// Ours beside theirs; nothing when no case of these was taken.
pub(crate) fn beside(taken: &[(&Figure, Taken)]) -> String {
    let mut text = String::new();
    let mut row = |cells: [&str; 5]| {
        let [case, ours, first, second, third] = cells;
        writeln!(text, "{case:<29} {ours:<36} {first:<33} {second:<25} {third}").unwrap();
    };
    let mut any = false;
    for (name, case, theirs) in &PUBLISHED {
        let Some((_, found)) = taken.iter().find(|(figure, _)| figure.name == *name) else { continue };
        if !any {
            row(["case", "autopilot, now", PEERS[0], PEERS[1], PEERS[2]]);
        }
        any = true;
        let ours = found.measured.as_ref().map_or("NOT MEASURED", |measured| &measured.value);
        row([case, ours, theirs[0], theirs[1], theirs[2]]);
    }
    text
}

const ONE: [&str; 6] = ["--mode", "feature", "--prompt", "x", "--max-sessions", "1"];

fn record(env: &TestEnv, run: &Finished) -> Value {
    let record = env.last_run();
    assert_eq!(record["exit_code"], run.code().expect("an exit code"), "{run}");
    record
}

/// How many processes of the run are left once it is over, given a moment to go.
fn left(env: &TestEnv) -> usize {
    wait::poll(Duration::from_secs(1), || env.leftovers().is_empty().then_some(()));
    env.leftovers().len()
}

fn usage_limit() -> Measured {
    let env = TestEnv::new();
    env.script(
        "nth_call 1 {\ninit\nusage_limit 20\nexit 1\n}\nnth_call 2 {\nreport {\"status\":\"complete\"}\nturn\n}",
    );
    let run = env.autopilot(&ONE);
    let record = record(&env, &run);
    let calls = env.calls();
    let resumed = calls.len() == 2 && calls[0]["session_id"] == calls[1]["session_id"];
    let outcome = record["outcome"].as_str().unwrap_or("?");
    Measured {
        value: format!("{} calls, {outcome} after {:.0} s", calls.len(), run.elapsed.as_secs_f64()),
        within: Some(resumed && run.code() == Some(0) && record["iterations_completed"] == 1),
        how: format!(
            "asleep for {} s (to the reset and 2 to 10 s more), then the same conversation went on",
            record["limit_wait_seconds"]
        ),
    }
}

fn never_exits() -> Measured {
    let env = TestEnv::new();
    env.script("report {\"status\":\"complete\"}\nturn\nhang");
    let mut run = env.start(&ONE);
    run.wait_mark(1, "result");
    let result = Instant::now();
    let run = run.finish();
    let late = result.elapsed();
    let record = record(&env, &run);
    let accepted = run.code() == Some(0) && record["iterations_completed"] == 1 && env.calls().len() == 1;
    Measured {
        value: format!(
            "{:.1} s, then {}",
            late.as_secs_f64(),
            if accepted { "accepted" } else { "NOT accepted" }
        ),
        within: Some(accepted && late <= Duration::from_secs(20)),
        how: "from the result to the end of the run, with the default --exit-grace of 15 s".to_owned(),
    }
}

fn silent_hang() -> Measured {
    const LIMIT: u64 = 10;
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_TURN_BACKOFF", "0");
    env.script(
        "nth_call 1 {\ninit\ntext \"Looking.\" partial\nmark silent\nhang\n}\nnth_call 2 {\nreport {\"status\":\"complete\"}\nturn\n}",
    );
    let limit = LIMIT.to_string();
    let mut run = env.start(&[&ONE[..], &["--stall-timeout", &limit]].concat());
    run.wait_mark(1, "silent");
    let silent = Instant::now();
    run.wait_mark(2, "started");
    let late = silent.elapsed().saturating_sub(Duration::from_secs(LIMIT));
    let run = run.finish();
    let done = record(&env, &run)["iterations_completed"] == 1 && run.code() == Some(0);
    Measured {
        value: format!("{:.1} s past the limit, resumed", late.as_secs_f64()),
        within: Some(done && late <= Duration::from_secs(5)),
        how: format!("from the limit (--stall-timeout {LIMIT}) to the process that goes on; backoff 0"),
    }
}

fn cost_cap() -> Measured {
    let env = TestEnv::new();
    env.script("spend {\"cost\":5}\nreport {\"status\":\"partial\"}\nturn");
    let run = env.autopilot(&[&ONE[..4], &["--max-sessions", "8", "--max-cost", "7"]].concat());
    let record = record(&env, &run);
    let spent = record["cost_usd"].as_f64().expect("the cost");
    let calls = env.calls();
    let argv: Vec<&str> =
        calls[calls.len() - 1]["argv"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let told = argv.iter().position(|arg| *arg == "--max-budget-usd").and_then(|at| argv.get(at + 1));
    Measured {
        value: format!("${spent} in {} sessions", calls.len()),
        within: Some(run.code() == Some(0) && spent <= 10.0),
        how: format!(
            "the double ignores --max-budget-usd; the last session was told {} and the CLI would have kept to it",
            told.unwrap_or(&"nothing")
        ),
    }
}

fn ctrl_c() -> Measured {
    let env = TestEnv::new();
    env.script("init\ntext \"Looking.\" partial\nspawn_grandchild setsid\nmark up\nhang");
    let mut run = env.start(&ONE);
    run.wait_mark(1, "up");
    let pressed = Instant::now();
    run.signal(Signal::INT);
    // Once is: finish this session, then stop. This one would never finish.
    run.wait_event("the first Ctrl-C", |line| line["event"]["type"] == "stop_requested");
    run.signal(Signal::INT);
    let run = run.finish();
    let over = pressed.elapsed();
    let record = record(&env, &run);
    let left = left(&env);
    let code = run.code().unwrap_or(-1);
    Measured {
        value: format!("exit {code} in {:.1} s, record, {left} left", over.as_secs_f64()),
        within: Some(code == 130 && left == 0 && record["kill_switch"] == "user-abort"),
        how: "pressed twice in a turn that hangs, with a child in a session of its own".to_owned(),
    }
}

fn kill_9() -> Measured {
    let env = TestEnv::new();
    env.script(
        "nth_call 1 {\ninit\ntext \"Looking.\" partial\nspawn_grandchild setsid ignore-term\nmark up\nhang\n}\nnth_call 2 {\nreport {\"status\":\"complete\"}\nturn\n}",
    );
    let mut run = env.start(&ONE);
    run.wait_mark(1, "up");
    run.signal(Signal::KILL);
    let run = run.finish();
    assert_eq!(run.signal(), Some(9), "{run}");
    let before = env.leftovers().len();
    let next = env.autopilot(&["resume"]);
    let left = left(&env);
    let recorded = env.runs().iter().filter(|record| record["exit_code"] == 137).count();
    Measured {
        value: format!("{left} left of {before}, run on record"),
        within: Some(left == 0 && before == 2 && recorded == 1 && next.code() == Some(0)),
        how: "claude and a child in a session of its own that ignores SIGTERM; the next start was `resume`"
            .to_owned(),
    }
}
