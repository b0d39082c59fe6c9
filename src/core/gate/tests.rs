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
                Some('\\') => out.push('\\'),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
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
