//! How long a tool call waits for the gate: over the real protocol, from the question on the double's stdout to the
//! answer on its stdin, with the journal written as in any run.

use serde_json::json;

use super::figure::Measured;
use super::support::env::TestEnv;

const CALLS: usize = 10_000;

pub(crate) fn answers() -> Measured {
    let corpora =
        [include_str!("../../fixtures/gate/dangerous.txt"), include_str!("../../fixtures/gate/everyday.txt")];
    let lines = corpora
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.is_empty() && !line.starts_with("# "));
    let commands: Vec<String> = lines.map(|line| line.replace("\\n", "\n")).collect();
    let env = TestEnv::new();
    env.write(".autopilot.toml", "stuck-detection = \"off\"\n");
    env.script(&format!(
        "init\nask_hooks {CALLS} {}\ntext \"Done.\"\nreport\nresult",
        json!({"commands": commands})
    ));
    let run = env.autopilot(&["--prompt", "x", "--max-sessions", "1"]);
    assert_eq!((run.code(), env.calls().len()), (Some(0), 1), "{run}");
    let answers: Vec<f64> = env.calls()[0]["answers_us"]
        .as_array()
        .expect("the double's clock")
        .iter()
        .filter_map(serde_json::Value::as_f64)
        .collect();
    assert_eq!(answers.len(), CALLS, "each question has its answer");
    let at = |share: usize| answers[(CALLS - 1) * share / 1000] / 1000.0;
    Measured {
        value: format!("{:.2} ms", at(990)),
        within: Some(at(990) <= 5.0),
        how: format!(
            "p99 of {CALLS} calls of both corpora ({} commands); p50 {:.2} ms, longest {:.1} ms",
            commands.len(),
            at(500),
            at(1000)
        ),
    }
}
