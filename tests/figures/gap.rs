//! From the end of one process of the driven program to the beginning of the next.
//!
//! Read off the double's own wall clock, to the millisecond: from its last act before `exit` to its first look
//! at the clock after `exec`. So the end of one process and the start of the other are in it.

use std::time::Duration;

use super::figure::{Measured, median, ms};
use super::support::env::TestEnv;

const GAPS: usize = 15;

pub(crate) fn between_sessions() -> Measured {
    let env = TestEnv::new();
    env.script("report {\"status\":\"partial\"}\nturn");
    let sessions = (GAPS + 1).to_string();
    let run = env.autopilot(&["--mode", "feature", "--prompt", "x", "--max-sessions", &sessions]);
    assert_eq!((run.code(), env.calls().len()), (Some(0), GAPS + 1), "{run}");
    measured(gaps(&env), "one session's end to the next one's start")
}

pub(crate) fn before_a_recovery() -> Measured {
    let mut env = TestEnv::new();
    env.set("AUTOPILOT_TURN_BACKOFF", "0,0");
    let script = (0..GAPS).map(|number| {
        let call = 2 * number + 1;
        format!(
            "nth_call {call} {{\ninit\ntext \"Half of it.\" partial\nexit 1\n}}\n\
             nth_call {} {{\nreport {{\"status\":\"partial\"}}\nturn\n}}\n",
            call + 1
        )
    });
    env.script(&script.collect::<String>());
    let sessions = GAPS.to_string();
    let run = env.autopilot(&["--mode", "feature", "--prompt", "x", "--max-sessions", &sessions]);
    assert_eq!((run.code(), env.calls().len()), (Some(0), 2 * GAPS), "{run}");
    // Every other gap follows a crash.
    measured(gaps(&env).into_iter().step_by(2).collect(), "a crash to its recovery, backoff 0")
}

fn gaps(env: &TestEnv) -> Vec<Duration> {
    let calls = env.calls();
    let at = |number: usize, key: &str| calls[number][key].as_u64().expect("the double's clock");
    (1..calls.len())
        .map(|number| {
            Duration::from_millis(at(number, "started_ms").saturating_sub(at(number - 1, "ended_ms")))
        })
        .collect()
}

fn measured(mut gaps: Vec<Duration>, what: &str) -> Measured {
    let middle = median(&mut gaps);
    Measured {
        value: format!("{:.0} ms", ms(middle)),
        within: Some(middle <= Duration::from_millis(50)),
        how: format!(
            "{what}: median of {}, {:.0} to {:.0} ms, by the double's clock",
            gaps.len(),
            ms(gaps[0]),
            ms(gaps[gaps.len() - 1])
        ),
    }
}
