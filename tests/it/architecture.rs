//! The dependency direction of the source: who may know whom, and what may appear where.
//!
//! The rules are absences, and an absence has no test unless one looks for it. [`violations`] reads every file
//! of `src` as text, without its comments, strings and unit tests, and compares the `crate::…` paths and a few
//! words with the tables below. The checker itself is tested on sources made up for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules that may know only these others. What is not listed is bound by [`UNKNOWN_TO`] alone.
const MAY_KNOW: [(&str, &[&str]); 12] = [
    ("core", &[]),
    ("protocol", &[]),
    ("process", &[]),
    ("state", &["process"]),
    ("state_md", &["core", "journal", "state"]),
    ("signals", &["core", "journal", "state"]),
    ("engine", &["core", "process", "protocol", "tasks"]),
    ("forge", &["core", "process", "state"]),
    ("plan", &["core", "state"]),
    ("schedule", &[]),
    ("inhibit", &["process"]),
    ("notify", &["core", "error", "process", "report", "state", "tasks", "ui"]),
];

/// Modules that the ones named may not know: (module, who may know it; `None` = everybody but the edges).
const KNOWN_BY: [(&str, &[&str]); 3] = [("engine", &["driver", "cli"]), ("driver", &["cli"]), ("cli", &[])];

/// The edges know nothing of what drives them, and little of each other.
const EDGES: [&str; 15] = [
    "probe",
    "journal",
    "state",
    "state_md",
    "signals",
    "transcript",
    "git",
    "forge",
    "plan",
    "settings",
    "ui",
    "report",
    "prompts",
    "protocol",
    "notify",
];

/// Only `cli` brings these together; nobody else knows more than one of them.
const JOINED_BY_CLI: [&str; 3] = ["settings", "driver", "ui"];
/// Knows two of them on purpose: `ui` says where a value of `config show` came from, `driver` none.
const JOINED_EXCEPTIONS: [(&str, &str); 1] = [("ui", "settings")];

/// Words that may not appear in the pure core.
const IMPURE: [&str; 9] = [
    "tokio",
    "std::fs",
    "std::process",
    "std::env",
    "std::net",
    "std::thread",
    "Instant",
    "SystemTime",
    "Timestamp::now",
];

/// Where `select!` may stand: one over the sources of a run, the others over one process each.
const SELECTS: [&str; 6] = [
    "src/driver/mod.rs",
    "src/driver/signals.rs",
    "src/engine/headless/session.rs",
    "src/engine/headless/warden.rs",
    "src/engine/pty/session.rs",
    "src/process/capture.rs",
];

/// What is wrong with a file, in words.
fn violations(path: &str, source: &str) -> Vec<String> {
    let code = code_of(source);
    let module = module_of(path);
    let mut found = Vec::new();
    for known in known(&code) {
        if known == module {
            continue;
        }
        if let Some((_, allowed)) = MAY_KNOW.iter().find(|(name, _)| *name == module)
            && !allowed.contains(&known.as_str())
        {
            found.push(format!("{path}: {module} may not know {known}"));
        }
        if let Some((_, by)) = KNOWN_BY.iter().find(|(name, _)| *name == known)
            && module != "main"
            && !by.contains(&module.as_str())
        {
            found.push(format!("{path}: {module} may not know {known}, only {by:?} may"));
        }
        if JOINED_BY_CLI.contains(&module.as_str())
            && JOINED_BY_CLI.contains(&known.as_str())
            && !JOINED_EXCEPTIONS.contains(&(module.as_str(), known.as_str()))
        {
            found.push(format!("{path}: only cli knows both {module} and {known}"));
        }
    }
    if module == "core" {
        found.extend(
            IMPURE
                .iter()
                .filter(|word| has_word(&code, word))
                .map(|word| format!("{path}: {word} in the pure core")),
        );
    }
    if has_word(&code, "select!") && !SELECTS.contains(&path) {
        found.push(format!("{path}: a select! of its own"));
    }
    if module != "process" && has_word(&code, "unsafe") {
        found.push(format!("{path}: unsafe outside process"));
    }
    found
}

/// The top-level module of a file: `src/core/run.rs` is of `core`, `src/tasks.rs` of `tasks`.
fn module_of(path: &str) -> String {
    let rest = path.strip_prefix("src/").unwrap_or(path);
    rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs").to_owned()
}

/// The modules of the crate that are named: by `crate::x`, `crate::{x, y::z}` or `autopilot::x`.
fn known(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in ["crate::", "autopilot::"] {
        for (at, _) in code.match_indices(root) {
            if code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &code[at + root.len()..];
            match rest.strip_prefix('{') {
                Some(group) => found.extend(first_of_each(group)),
                None => found.extend(identifier(rest)),
            }
        }
    }
    found
}

/// The first names of a `{…}` group, whatever is nested in it.
fn first_of_each(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut names = Vec::new();
    let mut expected = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expected = true,
            c if expected && !c.is_whitespace() => {
                names.extend(identifier(&group[at..]));
                expected = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    // A name of the crate root in capitals is a type or a constant, not a module.
    (end > 0 && text.starts_with(|c: char| c.is_lowercase())).then(|| text[..end].to_owned())
}

fn has_word(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(part) && !code[at + word.len()..].starts_with(part))
}

/// Source without comments, string and character literals, and without what stands behind `#[cfg(test)]`
/// at the end of a file.
fn code_of(source: &str) -> String {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with("/*") {
            rest = rest.find("*/").map_or("", |at| &rest[at + 2..]);
        } else if let Some(after) = raw_string(rest) {
            code.push_str("\"\"");
            rest = after;
        } else if c == '"' {
            code.push_str("\"\"");
            rest = after_string(&rest[1..]);
        } else if let Some(after) = character(rest) {
            code.push(' ');
            rest = after;
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    code
}

/// What follows a raw string that begins here.
fn raw_string(text: &str) -> Option<&str> {
    let hashes = text.strip_prefix('r')?;
    let body = hashes.trim_start_matches('#');
    let end = format!("\"{}", "#".repeat(hashes.len() - body.len()));
    let body = body.strip_prefix('"')?;
    Some(body.find(&end).map_or("", |at| &body[at + end.len()..]))
}

/// What follows the closing quote.
fn after_string(text: &str) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

/// What follows a character literal that begins here; a lifetime is none.
fn character(text: &str) -> Option<&str> {
    let body = text.strip_prefix('\'')?;
    if let Some(escaped) = body.strip_prefix('\\') {
        let end = escaped.char_indices().skip(1).find(|(_, c)| *c == '\'')?.0;
        return Some(&escaped[end + 1..]);
    }
    let c = body.chars().next()?;
    body[c.len_utf8()..].strip_prefix('\'')
}

/// Every Rust file below a folder, with its path from the package.
fn sources(root: &Path) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root.join("src"), &mut paths);
    paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}

#[test]
fn the_source_keeps_to_its_architecture() {
    let sources = sources(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(sources.len() > 50, "{} files", sources.len());
    let wrong: Vec<String> = sources.iter().flat_map(|(path, source)| violations(path, source)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The tables speak of what is there.
    let modules: BTreeSet<String> = sources.iter().map(|(path, _)| module_of(path)).collect();
    let named =
        MAY_KNOW.iter().map(|(name, _)| *name).chain(KNOWN_BY.iter().map(|(name, _)| *name)).chain(EDGES);
    for name in named {
        assert!(modules.contains(name), "{name} is no module");
    }
    for path in SELECTS {
        let source = sources.iter().find(|(name, _)| name == path).map(|(_, source)| code_of(source));
        assert!(source.is_some_and(|code| has_word(&code, "select!")), "{path} has no select! any more");
    }
}

#[test]
fn a_broken_rule_is_found() {
    let check = |path: &str, source: &str, expected: &[&str]| {
        let found = violations(path, source);
        assert_eq!(found.len(), expected.len(), "{source}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found} does not say {expected}");
        }
    };
    let core = "src/core/run.rs";
    check(core, "use crate::core::time::Now;", &[]);
    check(core, "use crate::ui::text;", &["core may not know ui"]);
    check(core, "use crate::{core::time, git::{self, Repo}, probe};", &["know git", "know probe"]);
    check(core, "fn f() { crate::journal::append() }", &["know journal"]);
    check(core, "use tokio::sync::mpsc;", &["tokio in the pure core"]);
    check(core, "use std::time::{Duration, Instant};", &["Instant"]);
    check(core, "let t = std::time::SystemTime::now();", &["SystemTime"]);
    check(core, "use std::fs;", &["std::fs"]);
    check(core, "let instant = Instantly; my_tokio();", &[]);
    check(core, "// use crate::ui::text; tokio\n/* std::fs */ let s = \"unsafe select! crate::ui\";", &[]);
    check(core, "let s = r#\"tokio \" crate::ui\"#; let c = '\"'; use crate::ui;", &["know ui"]);
    check(core, "fn f<'a>(s: &'a str) { let q = '\\''; } use crate::ui;", &["know ui"]);
    check("src/protocol/frame.rs", "use crate::core::fact;", &["protocol may not know core"]);
    check("src/plan/mod.rs", "use crate::core::task; use crate::state::atomic;", &[]);
    check("src/plan/mod.rs", "use crate::journal::x;", &["plan may not know journal"]);
    check("src/process/spawn.rs", "use crate::tasks::Tasks;", &["process may not know tasks"]);
    check("src/engine/headless/session.rs", "use crate::driver::clock;", &["know driver", "only [\"cli\"]"]);
    for edge in EDGES.iter().filter(|edge| !["protocol"].contains(edge)) {
        for master in ["driver", "engine", "cli"] {
            let source = format!("use crate::{master}::x;");
            let path = format!("src/{edge}/mod.rs");
            let found = violations(&path, &source);
            assert!(found.iter().any(|found| found.contains(&format!("know {master}"))), "{found:?}");
        }
    }
    check("src/cli/run.rs", "use crate::{settings, driver, ui, engine};", &[]);
    check("src/driver/mod.rs", "use crate::engine::headless; use crate::git;", &[]);
    check("src/driver/mod.rs", "use crate::settings::Settings;", &["only cli knows both"]);
    check("src/ui/plain.rs", "use crate::driver::Setup;", &["may not know driver", "only cli knows both"]);
    check("src/main.rs", "autopilot::cli::main()", &[]);
    check("src/git/run.rs", "tokio::select! { x = y => {} }", &["a select! of its own"]);
    check("src/driver/mod.rs", "tokio::select! { x = y => {} }", &[]);
    check("src/journal/raw.rs", "unsafe { f() }", &["unsafe outside process"]);
    check("src/process/spawn.rs", "unsafe { f() }", &[]);
    // Unit tests may know more.
    check(core, "fn f() {}\n#[cfg(test)]\nmod tests {\n use crate::ui;\n}", &[]);
}
