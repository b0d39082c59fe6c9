//! What a session leaves to the next one: in the prompt, across runs, and in STATE.md (design §5 and §9,
//! upstream-formats §5.5 and §12).

use std::fs;

use serde_json::json;

use crate::support::env::TestEnv;
use crate::support::run::{Finished, dump};
use crate::support::story::{events, prompt, run, says};

const PLAN: &str = ".project/plan.md";
const STATE: &str = ".claude/STATE.md";
const DEAD_END: &str = "vendoring zlib: the linker finds two";
const QUESTION: &str = "May the old format go?";

/// Three open tasks, and a session that works on none of them to its end.
fn place() -> TestEnv {
    let env = TestEnv::new();
    env.write(PLAN, "- [ ] Write the parser\n- [ ] Write the printer\n- [ ] Write the checker\n");
    env
}

/// A session that is not done, with more in its report.
fn leaves(more: &serde_json::Value) -> String {
    let mut report = json!({"status": "partial", "summary": "Half of the parser stands in call {call}.",
        "effectiveness": {"planned_issues": 4, "completed": 3, "carryover": 1, "emergent": 0}});
    for (key, value) in more.as_object().unwrap() {
        report[key] = value.clone();
    }
    format!("commit \"Part {{call}}\" part{{call}}.txt\nreport {report}\nturn")
}

/// One session of a run of its own.
#[track_caller]
fn one(env: &TestEnv) -> Finished {
    run(env, &["--max-sessions", "1"], 0)
}

fn front_matter(env: &TestEnv) -> Vec<String> {
    let text = env.read(STATE);
    let front = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    front.unwrap_or_else(|| panic!("no front matter: {text}")).0.lines().map(str::to_owned).collect()
}

#[track_caller]
fn warns(env: &TestEnv, words: &[&str]) {
    let told: Vec<String> =
        events(env, "warning").iter().map(|event| event["text"].as_str().unwrap().to_owned()).collect();
    let fits = |text: &&String| words.iter().all(|word| text.contains(word));
    assert_eq!(told.iter().filter(fits).count(), 1, "{words:?} in {told:#?}");
}

#[test]
fn dead_ends_and_questions_reach_the_next_session_and_the_next_run() {
    let env = place();
    let first =
        leaves(&json!({"do_not_retry": [DEAD_END], "blocked_on": {"question": QUESTION, "options": []}}));
    env.script(&format!("nth_call 1 {{\n{first}\n}}\nnth_call 2 {{\n{}\n}}", leaves(&json!({}))));
    run(&env, &["--max-sessions", "2"], 0);
    one(&env);
    assert!(!prompt(&env, 1).contains("Half of the parser"), "{}", prompt(&env, 1));
    for call in [2, 3] {
        let text = prompt(&env, call);
        let last = format!("Half of the parser stands in call {}.", call - 1);
        for wanted in [last.as_str(), DEAD_END, QUESTION, "do not try it again", "nobody has answered"] {
            assert_eq!(text.matches(wanted).count(), 1, "call {call}, `{wanted}`: {text}");
        }
    }
}

#[test]
fn the_hand_over_of_other_work_does_not_reach_a_prompt() {
    let env = place();
    env.script(&leaves(&json!({"do_not_retry": [DEAD_END]})));
    one(&env);
    run(&env, &["--prompt", "Something else", "--max-sessions", "1"], 0);
    let text = prompt(&env, 2);
    assert!(!text.contains(DEAD_END) && !text.contains("Half of the parser"), "{text}");
}

#[test]
fn a_damaged_hand_over_is_told_and_not_used() {
    let env = place();
    env.script(&leaves(&json!({})));
    one(&env);
    env.write(".orchestrator/autopilot/handover.json", "{\"v\":1,");
    one(&env);
    warns(&env, &["hand-over"]);
    assert!(!prompt(&env, 2).contains("Half of the parser"));
}

#[test]
fn a_state_file_is_made_with_the_recommendation() {
    let env = place();
    env.script(&leaves(&json!({"do_not_retry": [DEAD_END], "top_priorities": ["412", "#7"],
        "recommended_mode": "deep", "rationale": "the parser: is \"large\""})));
    one(&env);
    let front = front_matter(&env);
    for line in [
        "schema-version: 1",
        "session-type: feature",
        "branch: main",
        "status: completed",
        "recommended-mode: deep",
        "top-priorities: [412, 7]",
        "carryover-ratio: 0.25",
        "completion-rate: 0.75",
    ] {
        assert!(front.iter().any(|found| found == line), "`{line}` is not in {front:#?}");
    }
    assert!(front.iter().any(|line| line.starts_with("rationale: ") && line.contains("large")), "{front:#?}");
    let text = env.read(STATE);
    assert!(text.contains(&format!("## What Not To Retry\n\n- {DEAD_END}")), "{text}");
    // The next run goes by it.
    one(&env);
    let chosen = events(&env, "mode_selected").pop().unwrap();
    assert_eq!((&chosen["mode"], &chosen["confidence"]), (&json!("deep"), &json!(0.9)), "{chosen}");
}

#[test]
fn no_state_file_is_made_where_none_is_wanted() {
    let env = place();
    env.write(".autopilot.toml", "state-file = \"off\"\n");
    env.script(&leaves(&json!({})));
    one(&env);
    assert!(!env.repo().join(".claude").exists());
}

#[test]
fn a_state_file_keeps_all_other_bytes() {
    let env = place();
    let before = "---\nschema-version: 1\nstatus: active   # mine\nowner: \"Tess \\\"T\\\" Tester\"\nissues: [1,  2]\n\
                  notes:\n  - one\n  - two\n---\n\n# State\n\nprose, with trailing space \n\n## Deviations\n\n- one\n";
    env.write(STATE, before);
    env.script(&leaves(&json!({"do_not_retry": [DEAD_END]})));
    one(&env);
    let after = env.read(STATE);
    let mut rest = after.as_str();
    for line in before.lines() {
        let at = rest.find(line).unwrap_or_else(|| panic!("`{line}` is gone or moved:\n{after}"));
        rest = &rest[at + line.len()..];
    }
    for added in ["recommended-mode: feature", "completion-rate: 0.75", "carryover-ratio: 0.25", DEAD_END] {
        assert!(after.contains(added), "`{added}` is not in\n{after}");
    }
    // Nothing grows by being written again with the same.
    let long = after.len();
    one(&env);
    assert_eq!(env.read(STATE).len(), long, "{}", env.read(STATE));
}

#[test]
fn a_completed_state_is_idle_when_a_session_begins() {
    let env = place();
    env.write(
        STATE,
        "---\nschema-version: 1\nstatus: completed\ncurrent-wave: 3\nrecommended-mode: deep\ncompletion-rate: 0.75\n\
         rationale: large\n---\n\n# State\n",
    );
    env.script(&format!("wait_file go\n{}", leaves(&json!({}))));
    let mut running = env.start(&["--max-sessions", "1"]);
    running.wait_mark(1, "waiting");
    running.wait_for("an idle state", |env| env.read(STATE).contains("status: idle").then_some(()));
    let text = env.read(STATE);
    assert!(text.contains("current-wave: 0\n") && text.contains("## Previous Recommendations"), "{text}");
    assert!(!text.split("\n---\n").next().unwrap().contains("recommended-mode"), "{text}");
    env.release("go");
    crate::support::story::finish(&env, running, 0, &crate::support::invariants::Expect::default());
    // It was read before it was reset, and the session's own word is there now.
    assert_eq!(events(&env, "mode_selected")[0]["mode"], "deep", "{}", dump(&env));
    assert!(front_matter(&env).contains(&"recommended-mode: feature".to_owned()), "{}", env.read(STATE));
}

#[test]
fn a_broken_front_matter_is_never_written_over() {
    let env = place();
    let before = "---\nstatus: completed\n  - what: is this\nrecommended-mode: deep\n# no end\n";
    env.write(STATE, before);
    env.script(&leaves(&json!({"do_not_retry": [DEAD_END]})));
    let run = one(&env);
    assert_eq!(env.read(STATE), before);
    warns(&env, &["STATE.md is not written", "mend it"]);
    says(&run, &["STATE.md"]);
    // The next session knows all the same: our own file has it, too.
    one(&env);
    assert!(prompt(&env, 2).contains(DEAD_END), "{}", prompt(&env, 2));
}

#[test]
fn a_state_file_that_has_grown_beyond_reason_is_told_and_left_alone() {
    let env = place();
    let path = env.repo().join(STATE);
    env.write(STATE, format!("---\nstatus: completed\n---\n\n{}\n", "\\\\".repeat(3 << 20)));
    let size = fs::metadata(&path).unwrap().len();
    env.script(&leaves(&json!({})));
    one(&env);
    warns(&env, &["STATE.md is not written"]);
    assert_eq!(fs::metadata(&path).unwrap().len(), size);
}
