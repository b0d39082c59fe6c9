//! `autopilot` driving the real CLI: a night from its command line to its records.

mod budgets;
mod chain;
mod commands;
mod failures;
mod permissions;
mod recovery;
mod signals;
mod stuck;
mod tasks;
#[cfg(feature = "pty")]
mod terminal;

use serde_json::Value;

pub(crate) use signals::TOOL;

use crate::stub::Reply;

/// The options of a run in which commands are allowed.
pub(crate) const WORK: [&str; 3] = ["--prompt=Do the work", "--allowed-tools=Bash", "--no-progress"];

/// [`WORK`] and more.
pub(crate) fn work<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&WORK[..], more].concat()
}

/// A command that writes a file and commits it.
pub(crate) fn commit(name: &str) -> Reply {
    Reply::bash(&format!(
        "echo {name} > {name}.txt && git add {name}.txt && git commit --quiet -m 'Add {name}'"
    ))
}

/// A time from now, as the API tells it.
fn in_seconds(seconds: u64) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(now.as_secs() + seconds).expect("a time before 2262")
}

/// Dollars a million tokens of the model these tests get, as the pinned CLI prices them.
const PRICES: (f64, f64) = (4.0, 20.0);

fn assert_cost(cost: &Value, input: u64, output: u64) {
    let cost = cost.as_f64().expect("a known cost");
    let count = |tokens| f64::from(u32::try_from(tokens).expect("a test uses few tokens"));
    let expected = (count(input) * PRICES.0 + count(output) * PRICES.1) / 1e6;
    assert!((cost - expected).abs() < 1e-9, "{cost} for {input} and {output} tokens, expected {expected}");
}
