//! `autopilot doctor`: what would make tonight's run fail is a problem with a way out, and exit code 23.

use serde_json::Value;

use crate::support::env::TestEnv;
use crate::support::story::run;

/// A place where a run could start.
fn healthy() -> TestEnv {
    let mut env = TestEnv::new();
    env.tool("claude", "echo '2.1.332 (Claude Code)'");
    env.set("AUTOPILOT_CLAUDE_BIN", "claude");
    env.set("CLAUDE_CODE_OAUTH_TOKEN", "made-up");
    env.git(&["config", "user.name", "Tess"]);
    env.git(&["config", "user.email", "tess@example.org"]);
    env
}

/// The checks, with the exit code that belongs to the worst of them.
#[track_caller]
fn checks(env: &TestEnv) -> Vec<Value> {
    let ended = env.autopilot(&["doctor", "--json"]);
    let checks = ended.json().as_array().unwrap().clone();
    let stops = checks.iter().any(|check| check["verdict"] == "problem");
    assert_eq!(ended.code(), Some(if stops { 23 } else { 0 }), "{ended}");
    for check in &checks {
        let needs_next = check["verdict"] != "ok";
        assert_eq!(check["next"].is_string(), needs_next, "every complaint has a way out: {check}");
    }
    checks
}

/// The check of this name has this verdict and says this.
#[track_caller]
fn check(env: &TestEnv, name: &str, verdict: &str, words: &str) {
    let checks = checks(env);
    let found = checks.iter().find(|check| check["name"] == name && check["verdict"] == verdict);
    let Some(found) = found else { panic!("no `{name}` that is `{verdict}`: {checks:#?}") };
    assert!(found["found"].as_str().unwrap().contains(words), "{found}");
}

#[test]
fn where_a_run_could_start_nothing_is_a_problem() {
    let env = healthy();
    let problems: Vec<Value> =
        checks(&env).into_iter().filter(|check| check["verdict"] == "problem").collect();
    assert!(problems.is_empty(), "{problems:#?}");
    check(&env, "claude", "ok", "2.1.332");
    check(&env, "git identity", "ok", "Tess <tess@example.org>");
}

#[test]
fn an_old_claude() {
    let env = healthy();
    env.tool("claude", "echo '1.0.30 (Claude Code)'");
    check(&env, "claude", "problem", "too old");
    env.tool("claude", "echo '2.1.200 (Claude Code)'");
    check(&env, "claude", "warning", "before 2.1.204");
}

#[test]
fn nobody_to_commit_as() {
    let env = healthy();
    env.git(&["config", "--unset", "user.name"]);
    env.git(&["config", "--unset", "user.email"]);
    env.git(&["config", "user.useConfigOnly", "true"]);
    check(&env, "git identity", "problem", "nobody to commit as");
}

#[test]
fn hooks_that_keep_a_session_from_committing() {
    let env = healthy();
    let hook = env.repo().join(".git/hooks/pre-commit");
    let write = |text: &str, mode: u32| {
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, text).unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    write("#!/nowhere/python\n", 0o755);
    check(&env, "git hooks", "problem", "pre-commit: the interpreter does not exist");
    write("#!/bin/sh\n", 0o644);
    check(&env, "git hooks", "warning", "pre-commit not executable");
    write("#!/bin/sh\n", 0o755);
    check(&env, "git hooks", "ok", "pre-commit");
    env.git(&["config", "commit.gpgsign", "true"]);
    check(&env, "git signing", "warning", "commit.gpgsign");
}

#[test]
fn a_broken_mcp_configuration_and_leaked_variables() {
    let mut env = healthy();
    env.write(".mcp.json", "{\"mcpServers\": {");
    check(&env, "mcp", "problem", ".mcp.json is not JSON");
    env.write(".mcp.json", "{\"mcpServers\":{\"db\":{\"command\":\"no-such-server\"}}}");
    check(&env, "mcp", "warning", "db (no-such-server)");
    env.set("CLAUDECODE", "1");
    check(&env, "variables", "ok", "CLAUDECODE");
}

#[test]
fn what_ended_the_last_run_would_end_the_next_one() {
    let env = TestEnv::new();
    env.script("init\napi_error 401 \"Not logged in · Please run /login\"\nexit 1");
    run(&env, &["--prompt", "x"], 20);
    check(&env, "last run", "problem", "auth");
    env.script("turn");
    run(&env, &["--prompt", "x", "--max-sessions", "1"], 0);
    check(&env, "last run", "ok", "as planned");
}
