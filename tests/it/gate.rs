//! The gate through the built program: what is asked over the protocol, what is answered, and what stands in the
//! journal; and `gate explain`.

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::story::{events, run};

/// Runs a session that asks these things, and returns the answers to `PreToolUse`.
fn answers(env: &TestEnv, steps: &str) -> Vec<String> {
    env.script(&format!("init\n{steps}\ntext \"Done.\"\nreport\nresult"));
    run(env, &["--prompt", "x", "--max-sessions", "1"], 0);
    let calls = env.calls();
    // The last one is that to the `Stop` of the turn.
    let (_, answers) = calls[0]["hook_answers"].as_array().unwrap().split_last().unwrap();
    let word = |answer: &Value| {
        let said = &answer["response"]["hookSpecificOutput"]["permissionDecision"];
        said.as_str().unwrap_or("as usual").to_owned()
    };
    answers.iter().map(word).collect()
}

fn decisions(env: &TestEnv) -> Vec<Value> {
    events(env, "gate_decided").iter().map(|event| json!([event["tool"], event["decision"]])).collect()
}

#[test]
fn whatever_is_asked_is_decided_and_told() {
    let env = TestEnv::new();
    // So many refusals in a row would be a circle.
    env.write(".autopilot.toml", "stuck-detection = \"off\"\n");
    let deep = format!("{}true{}", "$(".repeat(200), ")".repeat(200));
    let said = answers(
        &env,
        &format!(
            "ask_hook Bash {{\"command\":\"cargo test\"}}\n\
             ask_hook Bash {{\"command\":\"git push --force\"}}\n\
             ask_hook Write {{\"file_path\":\"a\",\"content\":\"{{pad:5M}}\"}}\n\
             ask_hook Bash {{\"command\":\"echo {{pad:200K}}\"}}\n\
             ask_hook Bash {{\"command\":\"{deep}\"}}\n\
             ask_hook Bash {{\"command\":17}}\n\
             ask_hook Bash {{}}\n\
             ask_hook Bash {{\"command\":\"rm -rf \\u0000/\"}}\n\
             ask_hook Never {{\"heard\":\"of\"}}"
        ),
    );
    assert_eq!(said, ["as usual", "deny", "deny", "deny", "deny", "deny", "deny", "deny", "as usual"]);
    assert_eq!(decisions(&env).len(), 9, "each is told");
    let explained = env.autopilot(&["explain"]);
    assert!(explained.stdout.contains("gate: deny Bash git push --force"), "{explained}");
}

/// What git ignores is asked of git.
#[test]
fn git_is_asked_what_may_go() {
    let env = TestEnv::new();
    env.write(".gitignore", "target\n");
    env.write("target/debug/app", "built");
    env.write("src/main.rs", "kept");
    let said = answers(
        &env,
        "ask_hook Bash {\"command\":\"rm -rf target\"}\n\
         ask_hook Bash {\"command\":\"rm -rf src\"}\n\
         ask_hook Bash {\"command\":\"rm -rf target/../src\"}\n\
         ask_hook Bash {\"command\":\"cd target && rm -rf debug\"}\n\
         ask_hook Bash {\"command\":\"rm -rf src/main.rs\"}",
    );
    assert_eq!(said, ["as usual", "deny", "deny", "as usual", "as usual"]);
}

#[test]
fn off_judges_nothing_and_strict_nearly_everything() {
    for (policy, expected) in [("off", ["as usual", "as usual"]), ("strict", ["deny", "deny"])] {
        let env = TestEnv::new();
        env.write(".autopilot.toml", format!("gate = \"{policy}\"\n"));
        let said = answers(
            &env,
            "ask_hook Bash {\"command\":\"git push -f\"}\nask_hook Bash {\"command\":\"cargo test\"}",
        );
        assert_eq!(said, expected, "{policy}");
    }
}

#[test]
fn a_rule_that_is_none_is_refused_with_its_place() {
    let env = TestEnv::new();
    env.write(".autopilot.toml", "gate-allow = [\"Bash(git push:*\"]\n");
    let run = env.autopilot(&["--prompt", "x"]);
    assert_eq!(run.code(), Some(2), "{run}");
    assert!(run.stderr.contains("gate-allow") && run.stderr.contains("does not end with"), "{run}");
}

#[test]
fn explain_shows_how_a_command_is_taken_apart() {
    let env = TestEnv::new();
    let run = env.autopilot(&["gate", "explain", "cargo test && sh -c 'cd / && rm -rf etc'"]);
    assert_eq!(run.code(), Some(0), "{run}");
    for words in
        ["cargo test", "rm -rf etc", "REFUSED: it removes something outside", "before it runs: refused"]
    {
        assert!(run.stdout.contains(words), "{words}: {run}");
    }
    let run = env.autopilot(&["gate", "explain", "--json", "--tool", "Write", ".env"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json!([document["decision"], document["asked"]]), json!(["deny", "deny"]));
    let run = env.autopilot(&["gate", "explain", "--tool", "Write", "{broken"]);
    assert_eq!(run.code(), Some(2), "{run}");
}

/// The rules in force with the file they are from.
#[test]
fn config_show_has_the_rules() {
    let env = TestEnv::new();
    env.write(".autopilot.toml", "gate-deny = [\"Bash(npm install:*)\"]\n");
    let run = env.autopilot(&["config", "show", "--origin"]);
    let line = run.stdout.lines().find(|line| line.starts_with("gate-deny")).unwrap_or_default().to_owned();
    assert!(line.contains("Bash(npm install:*)") && line.contains(".autopilot.toml"), "{run}");
}
