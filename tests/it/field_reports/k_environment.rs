//! Classes K and L: what surrounds the child, and time.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;

use super::{night, strings, text};

#[test]
fn k01_k13_leaked_variables_do_not_reach_the_child() {
    let leaked = [
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_SKIP_PROMPT_HISTORY",
        "CLAUDE_CODE_RESUME_INTERRUPTED_TURN",
        "CLAUDE_CODE_PROJECT_DIR_NAME",
        "CLAUDE_CODE_EXIT_AFTER_STOP_DELAY",
        "CLAUDE_CODE_RETRY_WATCHDOG",
        "ANTHROPIC_LOG",
    ];
    let night = leaked.iter().fold(night("turn"), |night, name| night.set(name, "leaked-value-1"));
    let morning = night.run();
    morning.fine();
    let call = &morning.env.calls()[0];
    let removed = strings(&morning.events("attempt_started")[0]["env_removed"]);
    for name in leaked {
        assert!(call["env"][name].is_null() && removed.iter().any(|r| r == name), "{name}: {morning}");
    }
    let events = morning.env.events().iter().map(ToString::to_string).collect::<String>();
    assert!(!events.contains("leaked-value-1"), "names only, never values: {morning}");
}

#[test]
fn k01_k02_k09_the_cli_refuses_its_surroundings() {
    for words in [
        "Error: Claude Code cannot be launched inside another Claude Code session.",
        "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
        "The current directory no longer exists (it was deleted or moved). Start Claude Code from an existing directory.",
        "Working directory \\\"/gone\\\" no longer exists. Please restart Claude from an existing directory.",
    ] {
        let morning = night(&format!("read_stdin never\nstderr \"{words}\"\nexit 1")).run();
        morning.ended(23, "failed-wave", "env_refused");
        assert_eq!(morning.env.calls().len(), 1, "no retry: {morning}");
        assert!(morning.env.calls()[0]["env"]["IS_SANDBOX"].is_null(), "not set unasked: {morning}");
        let detail = text(&morning.env.last_run()["kill_switch_detail"]);
        assert!(detail.contains(&words.replace('\\', "")[..30]), "{detail}");
    }
}

#[test]
fn k03_a_work_space_that_is_not_trusted_explains_the_denials() {
    let warning = "Ignoring 20 permissions.allow entries from .claude/settings.json: this workspace has not been trusted";
    let script = format!(
        "stderr \"{warning}\"\ninit\nask_permission Bash {{\"command\":\"make\"}}\ntext \"I could not.\"\nreport\nresult"
    );
    // The rules of the CLI alone: with the gate on, its prompt would be answered.
    let morning = night(&script).set("AUTOPILOT_GATE", "off").run();
    morning.fine().judged(&["denied"]).because("Bash");
    assert!(morning.events("warning").iter().any(|event| text(&event["text"]) == warning), "{morning}");
    assert!(morning.run.stderr.contains("Ignoring 20"), "{morning}");
}

#[test]
fn k04_the_warning_about_stdin_is_noise() {
    let warning = "Warning: no stdin data received in 3s, proceeding without it. If piping from a slow command, redirect stdin explicitly: < /dev/null to skip, or wait longer.";
    let morning = night(&format!("stderr \"{warning}\"\nemit {warning}\nturn")).run();
    morning.fine().judged(&["ok"]);
    // Stdin is closed after the turn: a child that reads to the end gets there.
    let morning = night("init\ntext \"Done.\"\nreport\nresult\nread_stdin to-eof\nexit 0").run();
    morning.fine().judged(&["ok"]);
    assert_eq!(strings(&morning.events("attempt_ended")[0]["signals"]), [""; 0], "{morning}");
}

#[test]
fn k05_as_cron_calls_it() {
    let mut night = night("turn");
    for name in ["USER", "LOGNAME", "SHELL", "TMPDIR", "TZ"] {
        night.env.unset(name);
    }
    let morning = night.set("LANG", "C").run();
    morning.fine();
    for name in ["HOME", "USER", "LOGNAME"] {
        assert!(!text(&morning.env.calls()[0]["env"][name]).is_empty(), "{name}: {morning}");
    }
}

#[test]
fn k05_a_bare_name_is_looked_up_on_the_path_and_a_missing_one_is_said() {
    let mut night = night("turn").expect(|expect| expect.no_record = true);
    night.env.unset("AUTOPILOT_CLAUDE_BIN");
    let morning = night.run();
    assert_eq!(morning.run.code(), Some(23), "{morning}");
    assert!(morning.run.stderr.contains("claude"), "{morning}");
}

#[test]
fn k05_no_home() {
    let mut night = night("turn");
    night.env.unset("HOME");
    night.run().fine();
}

#[test]
fn k07_a_session_that_says_that_the_disk_is_full() {
    // Nobody has measured it: the words are told, tried again within bounds, and never taken for a success.
    let result = "result {\"subtype\":\"error_during_execution\",\"is_error\":true,\"num_turns\":0,\"result\":null,\"errors\":[\"ENOENT: no such file\",\"ENOSPC: no space left on device, write\"]}\nexit 1";
    let morning = night(&format!("init\n{result}")).run();
    morning.ended(14, "failed-wave", "unknown_error").because("ENOSPC");
    assert!(text(&morning.env.last_run()["kill_switch_detail"]).contains("ENOSPC"), "{morning}");
    assert!(morning.env.calls().len() <= 4, "{morning}");
    // In the output of a tool of a healthy session it is only a word.
    let tool = "tool Bash {\"command\":\"make\"} \"Command output was lost: the temp filesystem is full (0MB free)\"";
    night(&format!("init\n{tool}\ntext \"Done.\"\nreport\nresult")).run().fine().judged(&["ok"]);
}

#[test]
fn k08_the_program_is_swapped_between_two_attempts() {
    let night = night(
        "nth_call 1 {\ninit\ntext \"Half.\" partial\nmark here\nwait_file go\nexit 1\n}\nnth_call 2 {\nturn\n}",
    );
    let link = night.env.root().join("claude-link");
    symlink(env!("CARGO_BIN_EXE_fake-claude"), &link).unwrap();
    let night =
        night.set("AUTOPILOT_CLAUDE_BIN", link.to_str().unwrap()).set("AUTOPILOT_TURN_BACKOFF", "0.3,0.6");
    let path = link.clone();
    let morning = night.watched(move |run| {
        run.wait_mark(1, "here");
        fs::remove_file(&path).unwrap();
        run.wait_for("the release", |env| {
            env.release("go");
            Some(())
        });
        run.wait_event("the missing program", |line| line["event"]["class"] == "binary_missing");
        symlink(env!("CARGO_BIN_EXE_fake-claude"), &path).unwrap();
    });
    morning.fine();
    assert!(morning.classes().contains(&"binary_missing".to_owned()), "{morning}");
    assert_eq!(morning.env.calls().len(), 2, "{morning}");
}

#[test]
fn k08_no_usable_program_from_the_start() {
    let kinds: [&dyn Fn(&std::path::Path); 5] = [
        &|_| {},
        &|path| symlink("/nowhere/at/all", path).unwrap(),
        &|path| symlink(path, path).unwrap(),
        &|path| fs::write(path, "").unwrap(),
        &|path| fs::create_dir(path).unwrap(),
    ];
    for kind in kinds {
        let night = night("turn").expect(|expect| expect.no_record = true);
        let path = night.env.root().join("claude-here");
        kind(&path);
        let morning = night.set("AUTOPILOT_CLAUDE_BIN", path.to_str().unwrap()).run();
        assert_eq!(morning.run.code(), Some(23), "{morning}");
        assert!(morning.run.stderr.contains("claude-here"), "{morning}");
    }
}

#[test]
fn k09_the_directory_is_not_there() {
    let morning =
        night("turn").args(&["-C", "/nowhere/at/all"]).expect(|expect| expect.no_record = true).run();
    assert!(matches!(morning.run.code(), Some(2 | 23)), "{morning}");
    assert!(morning.run.stderr.contains("/nowhere/at/all"), "{morning}");
}

#[test]
fn k11_servers_that_did_not_start_are_told_by_name() {
    let script = "init {\"mcp_servers\":[{\"name\":\"tracker\",\"status\":\"failed\"},{\"name\":\"docs\",\"status\":\"connected\"}]}\ntext \"Done.\"\nreport\nresult";
    let morning = night(script).run();
    morning.fine().judged(&["ok"]);
    assert_eq!(strings(&morning.events("initialised")[0]["failed_mcp_servers"]), ["tracker"], "{morning}");
    assert!(morning.run.stderr.contains("MCP servers that did not start: tracker"), "{morning}");
}

#[test]
fn k11_a_server_that_hangs_is_a_start_that_hangs() {
    let morning =
        night("nth_call 1 {\nstderr \"Connecting to MCP server tracker…\"\nhang\n}\nnth_call 2 {\nturn\n}")
            .args(&["--first-output-timeout=3"])
            .run();
    morning.fine().judged(&["startup_hang", "ok"]).because("MCP server tracker");
}

#[test]
fn l01_the_driver_stands_still_for_longer_than_a_silence_may_last() {
    let script = "init\nmark before\nrepeat 35 {\ntext \"On it.\" partial\nsleep 200\n}\nmark after\nrepeat 5 {\ntext \"On it.\" partial\nsleep 200\n}\ntext \"Done.\"\nreport\nresult";
    let morning = night(script).args(&["--stall-timeout=5", "--first-output-timeout=3"]).watched(|run| {
        run.wait_mark(1, "before");
        run.signal(Signal::STOP);
        run.wait_mark(1, "after");
        run.signal(Signal::CONT);
    });
    morning.fine().judged(&["ok"]).healed(&[]);
    assert_eq!(strings(&morning.events("attempt_ended")[0]["signals"]), [""; 0], "{morning}");
}
