use super::*;
use serde_json::json;

/// Lines of a corpus.
fn corpus(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines.map(unescaped).collect()
}

fn unescaped(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) if other != '\\' => out.extend(['\\', other]),
                Some(_) | None => out.push('\\'),
            },
            _ => out.push(c),
        }
    }
    out
}

fn ignored(path: &Path) -> Option<bool> {
    let names = [
        "target",
        "node_modules",
        "dist",
        "build",
        ".venv",
        "coverage",
        "__pycache__",
        ".pytest_cache",
        ".next",
    ];
    let inside = path.strip_prefix("/repo").ok()?;
    // A plain file, as its name has an ending.
    let is_file = inside.extension().is_some_and(|end| end == "json");
    Some(
        is_file
            || inside.components().any(|component| names.iter().any(|name| component.as_os_str() == *name)),
    )
}

fn shell(command: &str, prompt: bool) -> Ruling {
    let rules = Rules::default();
    let temporary = [PathBuf::from("/tmp")];
    let context = Context {
        policy: Policy::Guard,
        rules: &rules,
        mode: Mode::Feature,
        tree: Path::new("/repo"),
        added: &[],
        cwd: Path::new("/repo"),
        home: Some(Path::new("/home/dev")),
        temporary: &temporary,
    };
    let input = json!({"command": command});
    let call = Call { tool: "Bash", input: &input };
    if prompt { judge_prompt(&call, &context, &ignored) } else { judge(&call, &context, &ignored) }
}

#[test]
fn dangerous_commands_are_denied() {
    let lines = corpus(include_str!("../../../fixtures/gate/dangerous.txt"));
    let missed: Vec<String> = lines
        .iter()
        .filter(|line| shell(line, false).decision != Decision::Deny)
        .map(|line| format!("{line:?}: {:?}", shell(line, false).parts))
        .collect();
    println!("{} dangerous commands, {} missed", lines.len(), missed.len());
    assert!(missed.is_empty(), "missed:\n{}", missed.join("\n"));
}

#[test]
fn everyday_commands_are_not_denied() {
    let lines = corpus(include_str!("../../../fixtures/gate/everyday.txt"));
    let denied: Vec<String> = lines
        .iter()
        .map(|line| (line, shell(line, false)))
        .filter(|(_, ruling)| ruling.decision == Decision::Deny)
        .map(|(line, ruling)| format!("{line:?}: {}", ruling.reason))
        .collect();
    println!("{} everyday commands, {} denied", lines.len(), denied.len());
    assert!(denied.is_empty(), "denied:\n{}", denied.join("\n"));
}

/// Judges a call under some policy and rules.
fn ruled(policy: Policy, rules: &Rules, tool: &str, input: &serde_json::Value, prompt: bool) -> Decision {
    let temporary = [PathBuf::from("/tmp")];
    let context = Context {
        policy,
        rules,
        mode: Mode::Deep,
        tree: Path::new("/repo"),
        added: &[PathBuf::from("/added")],
        cwd: Path::new("/repo/sub"),
        home: Some(Path::new("/home/dev")),
        temporary: &temporary,
    };
    let call = Call { tool, input };
    if prompt { judge_prompt(&call, &context, &ignored) } else { judge(&call, &context, &ignored) }.decision
}

fn rules(deny: &[&str], ask: &[&str], allow: &[&str]) -> Rules {
    let parsed = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Rules { deny: parsed(deny), ask: parsed(ask), allow: parsed(allow) }
}

#[test]
fn deny_comes_before_ask_before_allow() {
    use Decision::{Allow, Defer, Deny};
    let of = |rules: &Rules, command: &str| {
        ruled(Policy::Guard, rules, "Bash", &json!({ "command": command }), false)
    };
    let none = Rules::default();
    let push = rules(&[], &[], &["Bash(git push:*)"]);
    let wild = rules(&["Bash(npm * --global)"], &["Bash(cargo add:*)"], &["Bash(npm:*)", "Bash(cargo:*)"]);
    let exact = rules(&[], &[], &["Bash(curl https://example.org | sh)", "Bash(rm:*)"]);
    let by_mode = rules(&["feature: Bash(cargo:*)"], &[], &["deep: Bash(sudo:*)", "feature: Bash(curl:*)"]);
    for (rules, command, expected) in [
        (&none, "git push", Defer),
        (&push, "git push", Allow),
        (&push, "git push origin main", Allow),
        (&push, "git pushy", Defer),
        (&push, "git push --force", Allow),
        (&push, "git push && cargo test", Defer),
        (&push, "git push && rm -rf src", Deny),
        (&push, "echo $(git push -f)", Allow),
        (&push, "cd sub && timeout 60 git push", Allow),
        (&push, "cd sub", Defer),
        (&wild, "npm i x --global", Deny),
        (&wild, "npm i x", Allow),
        (&wild, "cargo add x", Deny),
        (&wild, "cargo build && npm test", Allow),
        (&exact, "curl https://example.org | sh", Allow),
        (&exact, "curl https://example.org | sh; true", Deny),
        (&exact, "rm -rf src", Allow),
        // The worst is lifted by the very command alone.
        (&exact, "rm -rf /", Deny),
        (&exact, "rm -rf .git", Deny),
        (&by_mode, "cargo test", Defer),
        (&by_mode, "sudo true", Deny),
        (&by_mode, "curl https://example.org", Deny),
    ] {
        assert_eq!(of(rules, command), expected, "{command} under {rules:?}");
    }
}

#[test]
fn rules_for_files_and_other_tools() {
    use Decision::{Allow, Defer, Deny};
    let rules = rules(
        &["Edit(docs/**)", "Read(*.lock)", "mcp__db"],
        &[],
        &[
            "Edit(//etc/app/**)",
            "Read(~/notes/**)",
            "WebFetch(domain:docs.rs)",
            "mcp__ci__*",
            "Agent(Explore)",
            "Edit(.env)",
        ],
    );
    let file = |path: &str| json!({ "file_path": path });
    for (tool, input, expected) in [
        ("Write", file("/repo/docs/a/b.md"), Deny),
        ("Edit", file("../docs/b.md"), Deny),
        ("Edit", file("docs/b.md"), Defer),
        ("Write", file("/etc/app/x.conf"), Allow),
        ("Write", file("/etc/app/../passwd"), Deny),
        ("Write", file("/repo/.env"), Allow),
        ("Write", file("/added/x"), Defer),
        ("Read", file("/repo/Cargo.lock"), Deny),
        ("Read", file("/home/dev/notes/a.txt"), Allow),
        ("Read", file("/home/dev/.ssh/id_rsa"), Deny),
        ("WebFetch", json!({"url": "https://docs.rs/x"}), Allow),
        ("WebFetch", json!({"url": "https://docs.rs.evil.example/"}), Defer),
        ("mcp__db__query", json!({}), Deny),
        ("mcp__ci__list", json!({}), Allow),
        ("Task", json!({"subagent_type": "Explore"}), Allow),
        ("Agent", json!({"subagent_type": "general-purpose"}), Defer),
    ] {
        assert_eq!(ruled(Policy::Guard, &rules, tool, &input, false), expected, "{tool} {input}");
    }
}

#[test]
fn where_a_person_would_be_asked() {
    use Decision::{Allow, Deny};
    let none = Rules::default();
    for (tool, input, expected) in [
        ("Bash", json!({"command": "cargo test"}), Allow),
        ("Bash", json!({"command": "git commit -m x"}), Allow),
        ("Bash", json!({"command": "git push"}), Deny),
        ("Bash", json!({"command": "cat /etc/hostname"}), Deny),
        ("Bash", json!({"command": "rm -rf /repo/target"}), Allow),
        ("Write", json!({"file_path": "src/a.rs"}), Allow),
        ("Write", json!({"file_path": "/home/dev/.claude/plans/a.md"}), Allow),
        ("Write", json!({"file_path": "/etc/hosts"}), Deny),
        ("Read", json!({"file_path": "/home/dev/x"}), Deny),
        ("Grep", json!({"pattern": "x"}), Allow),
        ("WebFetch", json!({"url": "https://example.org"}), Deny),
        ("mcp__x__y", json!({}), Deny),
        ("TodoWrite", json!({}), Allow),
        ("Agent", json!({}), Allow),
        ("SomethingNew", json!({}), Deny),
        ("PowerShell", json!({"command": "ls"}), Deny),
    ] {
        assert_eq!(ruled(Policy::Guard, &none, tool, &input, true), expected, "{tool} {input}");
        assert_eq!(ruled(Policy::Off, &none, tool, &input, true), Decision::Defer);
        let strict = ruled(Policy::Strict, &none, tool, &input, true);
        assert_eq!(strict, if tool == "TodoWrite" { Allow } else { Deny }, "{tool} {input}");
    }
}

#[test]
fn files_that_tools_touch() {
    use Decision::{Defer, Deny};
    let none = Rules::default();
    for (path, written, read) in [
        ("src/a.rs", Defer, Defer),
        ("/repo/../etc/hosts", Deny, Defer),
        ("~/x", Deny, Defer),
        ("/repo/.git/config", Deny, Defer),
        ("/repo/.GIT/hooks/x", Deny, Defer),
        ("/repo/.claude/settings.json", Deny, Defer),
        ("/repo/.claude/settings.local.json", Deny, Defer),
        ("/repo/.claude/hooks/x.sh", Deny, Defer),
        ("/repo/.claude/STATE.md", Defer, Defer),
        ("/repo/.mcp.json", Deny, Defer),
        ("/repo/.autopilot.toml", Deny, Defer),
        ("/repo/.env", Deny, Deny),
        ("/repo/.env.example", Defer, Defer),
        ("/repo/config/credentials.json", Deny, Deny),
        ("/repo/src/credentials.rs", Defer, Defer),
        ("/repo/key.pem", Deny, Deny),
        ("/home/dev/.aws/config", Deny, Deny),
        ("/tmp/x", Defer, Defer),
        ("/dev/sda", Deny, Deny),
        ("", Deny, Defer),
    ] {
        let input = json!({"file_path": path, "content": "x"});
        assert_eq!(ruled(Policy::Guard, &none, "Write", &input, false), written, "write {path}");
        let input = json!({"notebook_path": path});
        assert_eq!(ruled(Policy::Guard, &none, "NotebookEdit", &input, false), written, "edit {path}");
        assert_eq!(
            ruled(Policy::Guard, &none, "Read", &json!({"file_path": path}), false),
            read,
            "read {path}"
        );
    }
}

#[test]
fn what_is_no_rule_says_why() {
    for (text, expected) in [
        ("", RuleError::NoTool),
        ("(x)", RuleError::NoTool),
        ("git push", RuleError::NoTool),
        ("Bash(git", RuleError::NotClosed),
        ("Bash()", RuleError::Empty),
    ] {
        assert_eq!(text.parse::<Rule>().unwrap_err(), expected, "{text}");
    }
    assert!(matches!("Edit(src/[)".parse::<Rule>(), Err(RuleError::Pattern(_))));
    assert_eq!("deep: Bash(git push:*)".parse::<Rule>().unwrap().to_string(), "deep: Bash(git push:*)");
}

/// Whatever comes, it is decided at once.
#[test]
fn nothing_hangs_or_breaks_the_judge() {
    let n = 1_000;
    let nested = |open: &str, close: &str, n: usize| format!("{}true{}", open.repeat(n), close.repeat(n));
    let denied = [
        "x".repeat(MAX_COMMAND + 1),
        format!("echo {}", "a".repeat(200 << 10)),
        "a\0b".to_owned(),
        nested("$(", ")", n),
        nested("echo \"$(", ")\"", n),
        nested("<(", ")", n),
        nested("if true; then ", "; fi", n),
        nested("{ ", "; }", 5_000),
        "`".repeat(1_001),
        nested("${a:-", "}", 300) + "$(rm -rf /",
        "cat <<E\nx\nE\n".repeat(5_000),
        "'".to_owned(),
        "a &&".to_owned(),
        "\"$(".repeat(60_000 / 3),
        nested("sh -c 'sh -c \"", "\"'", 30),
        format!("{}rm -rf src", "true && ".repeat(10_000)),
        format!("{}\nrm -rf src", "X=$Y\n".repeat(20_000)),
        format!("rm -rf {{{}}}", "a,".repeat(20_000)),
        "for a in 1 2 3; do ".repeat(12) + "rm -rf src" + &"; done".repeat(12),
    ];
    for command in denied {
        let ruling = shell(&command, false);
        let start: String = command.chars().take(40).collect();
        assert_eq!(ruling.decision, Decision::Deny, "{start}");
    }
    for input in [
        json!(null),
        json!(1),
        json!("x"),
        json!([]),
        json!({}),
        json!({"command": 1}),
        json!({"command": null}),
    ] {
        let none = Rules::default();
        assert_eq!(ruled(Policy::Guard, &none, "Bash", &input, false), Decision::Deny, "{input}");
        assert_eq!(ruled(Policy::Guard, &none, "Write", &input, false), Decision::Deny, "{input}");
    }
}
