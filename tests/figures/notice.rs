//! From an event of a run to the notification of it.
//!
//! The document says when it happened, the command that gets it says when it got it; both by the wall clock of this
//! machine.

use jiff::Timestamp;
use serde_json::Value;

use super::figure::{Measured, median, ms};
use super::support::env::TestEnv;

const RUNS: usize = 10;

/// The end of a run to the first line of the command's own: the record, the report and its page are written in
/// between.
pub(crate) fn delay() -> Measured {
    let mut delays: Vec<_> = (0..RUNS).map(|_| of_one_run()).collect();
    let middle = median(&mut delays);
    Measured {
        value: format!("{:.0} ms", ms(middle)),
        within: None,
        how: format!(
            "the end of a run to its `done` in the hands of notify-command: median of {RUNS} runs, {:.0} to {:.0} ms",
            ms(delays[0]),
            ms(delays[RUNS - 1])
        ),
    }
}

fn of_one_run() -> std::time::Duration {
    let env = TestEnv::new();
    env.write(
        ".autopilot.toml",
        "notify-on = [\"done\"]\nnotify-command = \"date +%s%N > \\\"$HOME/got\\\"; cat > \\\"$HOME/notice\\\"\"\n",
    );
    let run = env.autopilot(&["--prompt", "x", "--max-sessions", "1"]);
    assert_eq!(run.code(), Some(0), "{run}");
    let read = |name: &str| std::fs::read_to_string(env.home().join(name)).unwrap();
    let notice: Value = serde_json::from_str(&read("notice")).unwrap();
    let happened: Timestamp = notice["at"].as_str().unwrap().parse().unwrap();
    let got = Timestamp::from_nanosecond(read("got").trim().parse().unwrap()).unwrap();
    got.duration_since(happened).try_into().unwrap()
}
