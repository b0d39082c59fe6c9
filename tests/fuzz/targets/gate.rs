//! The judge of tool calls: any command gets a ruling, and a dangerous one is denied however it is spelled and wrapped.

use std::path::{Path, PathBuf};

use autopilot::core::gate::{self, Call, Context, Decision, Policy, Rules, Ruling};
use autopilot::core::mode::Mode;
use serde_json::json;

const DANGEROUS: &str = include_str!("../../../fixtures/gate/dangerous.txt");

/// The first byte says which: an odd one begins a command, an even one picks a line and what is done to it.
pub fn run(data: &[u8]) {
    let Some((first, mut rest)) = data.split_first() else { return };
    if first % 2 == 1 {
        let command = String::from_utf8_lossy(rest);
        let ruling = judged(&command);
        assert!(ruling.decision != Decision::Deny || !ruling.reason.is_empty());
        return;
    }
    let lines = dangerous();
    let at = super::byte(&mut rest) * 256 + super::byte(&mut rest);
    let line = mutated(&lines[at % lines.len()], &mut |end| super::byte(&mut rest) % end);
    let ruling = judged(&line);
    assert_eq!(ruling.decision, Decision::Deny, "{line:?}: {ruling:?}");
}

/// The lines of the corpus as commands.
pub fn dangerous() -> Vec<String> {
    let lines = DANGEROUS.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines
        .map(|line| line.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace('\0', "\\"))
        .collect()
}

/// What the gate makes of a command in a repository whose `target` and such are ignored.
pub fn judged(command: &str) -> Ruling {
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
    let ignored = |path: &Path| {
        let names = ["target", "node_modules", "dist", "build", ".venv", "coverage"];
        let inside = path.strip_prefix("/repo").ok()?;
        Some(inside.components().any(|component| names.iter().any(|name| component.as_os_str() == *name)))
    };
    gate::judge(&Call { tool: "Bash", input: &json!({ "command": command }) }, &context, &ignored)
}

/// The command in other words that do the same: up to three layers, each chosen by a number below the given one.
pub fn mutated(line: &str, choose: &mut dyn FnMut(usize) -> usize) -> String {
    let mut line = respelled(line, choose);
    for _ in 0..choose(4) {
        line = wrapped(&line, choose);
    }
    line
}

/// The first word and the blanks written otherwise, where it is plain that nothing else changes.
fn respelled(line: &str, choose: &mut dyn FnMut(usize) -> usize) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ./-_".contains(c);
    if !line.chars().all(plain) || line.starts_with('-') {
        return line.to_owned();
    }
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let keywords = [
        "if", "then", "else", "for", "while", "until", "case", "select", "function", "time", "coproc",
        "exec", "eval", "source", ".", "trap", "alias", "export", "local", "declare", "let", "builtin",
        "command", "exit", "cd", "in", "do",
    ];
    let is_program = !keywords.contains(&name) && name.len() > 1;
    let (head, tail) = name.split_at(1);
    let name = match choose(if is_program { 10 } else { 1 }) {
        1 => format!("\\{name}"),
        2 => format!("'{name}'"),
        3 => format!("\"{name}\""),
        4 => format!("{head}''{tail}"),
        5 => format!("{head}\\{tail}"),
        6 => format!("\"{head}\"'{tail}'"),
        7 => format!("$'{name}'"),
        8 if !name.contains('/') => format!("/usr/bin/{name}"),
        9 if !name.contains('/') => {
            ["command ", "env ", "nohup ", "timeout 5 ", "nice -n 5 ", "env A=1 ", "\\\n"][choose(7)]
                .to_owned()
                + name
        }
        _ => name.to_owned(),
    };
    let blank = [" ", "  ", "\t", " \\\n", " \t "][choose(5)];
    let words: Vec<String> = rest
        .split(' ')
        .map(|word| match choose(5) {
            1 if !word.is_empty() => format!("\"{word}\""),
            2 if !word.is_empty() => format!("'{word}'"),
            3 if word.len() > 1 => format!("{}''{}", &word[..1], &word[1..]),
            _ => word.to_owned(),
        })
        .collect();
    if rest.is_empty() { name } else { format!("{name}{blank}{}", words.join(blank)) }
}

/// The command inside of another one that runs it.
fn wrapped(line: &str, choose: &mut dyn FnMut(usize) -> usize) -> String {
    let quoted = format!("'{}'", line.replace('\'', "'\\''"));
    match choose(25) {
        0 => format!("sh -c {quoted}"),
        1 => format!("bash -lc {quoted}"),
        2 => format!("bash -euo pipefail -c {quoted}"),
        3 => format!("eval {quoted}"),
        4 => format!("(\n{line}\n)"),
        5 => format!("{{\n{line}\n}}"),
        6 => format!("if true; then\n{line}\nfi"),
        7 => format!("true && {{\n{line}\n}}"),
        8 => format!("{{\n{line}\n}} || true"),
        9 => format!("echo $(\n{line}\n)"),
        10 => format!("X=$(\n{line}\n)"),
        11 => format!("for i in 1; do\n{line}\ndone"),
        12 => format!("while true; do\n{line}\nbreak; done"),
        13 => format!("f() {{\n{line}\n}}; f"),
        14 => format!("env A=1 sh -c {quoted}"),
        15 => format!("timeout -k 5 9 bash -c {quoted}"),
        16 => format!("nohup sh -c {quoted} >/dev/null 2>&1 &"),
        17 => format!("cargo build; {line}"),
        18 => format!("# a comment\n{line}"),
        19 => format!("ls |\n{{\n{line}\n}}"),
        20 => format!("_C={quoted}; eval \"$_C\""),
        21 => format!("echo \"$(\n{line}\n)\""),
        22 => format!("xargs sh -c {quoted} < /dev/null"),
        23 => format!("find . -maxdepth 0 -exec sh -c {quoted} \\;"),
        _ => format!("case x in\nx)\n{line}\n;;\nesac"),
    }
}
