//! A tool call reduced to what can be compared: what it was called with, what it is meant to change, how it ended.
//!
//! The engine makes these from the parsed input and the text of the result, so that neither has to travel. Hashes are
//! only ever compared within one run.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::super::shell_words::{self, Command};

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// `tool_use_id`; the result names it.
    pub id: Option<String>,
    /// The call that started the sub-agent it belongs to; `None` = the main conversation.
    pub agent: Option<String>,
    /// Hash of the input, whatever the order of its fields.
    pub input: u64,
    /// What it is meant to change.
    pub deeds: Deeds,
}

/// What a call is meant to change. Whether it did, its result says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Files.
    pub changes: bool,
    /// The history.
    pub commits: bool,
    /// It runs tests.
    pub tests: bool,
    /// Tasks that it says are done.
    pub ticked: u32,
}

/// The result of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The call.
    pub id: Option<String>,
    /// As in [`Call::agent`].
    pub agent: Option<String>,
    /// Hash of the text without what differs from time to time.
    pub hash: u64,
    /// Hash of how many tests did what, where the text says; else [`Outcome::hash`].
    pub tested: u64,
    /// First line, for people.
    pub words: String,
    /// The call was not allowed.
    pub denied: bool,
    /// Git had nothing to commit.
    pub nothing_to_commit: bool,
}

impl Call {
    /// The call of a tool. `whole` = the input is all there: of a cut one nothing is known to be the same.
    #[must_use]
    pub fn new(id: Option<String>, agent: Option<String>, name: &str, input: &Value, whole: bool) -> Self {
        let mut hash = hash(&canonical(input).to_string());
        if !whole && let Some(id) = &id {
            hash = combine(hash, self::hash(id));
        }
        Call { id, agent, input: hash, deeds: deeds(name, input) }
    }
}

impl Outcome {
    /// The result of a call, from its text.
    #[must_use]
    pub fn new(id: Option<String>, agent: Option<String>, text: &str, denied: bool) -> Self {
        let steady = hash(&steady(text));
        let counts = counts(text);
        Outcome {
            id,
            agent,
            hash: steady,
            tested: if counts.is_empty() { steady } else { hash(&format!("{counts:?}")) },
            words: text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().into(),
            denied,
            nothing_to_commit: text.contains("nothing to commit")
                || text.contains("no changes added to commit")
                || text.contains("nothing added to commit"),
        }
    }
}

/// A hash of a text.
pub(super) fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// A hash of two.
pub(super) fn combine(first: u64, second: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (first, second).hash(&mut hasher);
    hasher.finish()
}

/// Fields in one order, and without the words for people that differ from call to call.
fn canonical(input: &Value) -> Value {
    match input {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            let speaks = |name: &str| name == "description" && fields.contains_key("command");
            sorted
                .into_iter()
                .filter(|(name, _)| !speaks(name))
                .map(|(name, value)| (name.clone(), canonical(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => input.clone(),
    }
}

/// The text without what differs from time to time: durations, times of day, dates, addresses.
fn steady(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '[' | ']' | ',' | ';' | '"' | '\''))
        .filter(|word| !word.is_empty() && !is_volatile(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// `0.35s`, `12ms`, `1m30s`, `3.14`, `12:30:01`, `2026-03-01T10:00:00Z`, `0x7ffe`.
fn is_volatile(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ':', '!']);
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    if let Some(digits) = word.strip_prefix("0x") {
        return digits.chars().all(|c| c.is_ascii_hexdigit());
    }
    let is_time = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | '-' | 'T' | 'Z' | '+');
    if word.chars().all(is_time) {
        // A whole number alone says something: how many tests failed, which line.
        return word.contains(['.', ':', 'T']) || word.matches('-').count() == 2;
    }
    let letters: String = word.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
    matches!(
        letters.as_str(),
        "s" | "ms" | "us" | "µs" | "ns" | "m" | "min" | "h" | "sec" | "secs" | "seconds" | "hms" | "hm"
    )
}

/// How many tests did what, by the last word that each count has: `3 passed`, `1 failed`.
fn counts(text: &str) -> BTreeMap<&str, &str> {
    let mut counts = BTreeMap::new();
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    for pair in words.windows(2) {
        if let [number, what] = pair
            && number.chars().all(|c| c.is_ascii_digit())
            && matches!(
                *what,
                "passed" | "passing" | "failed" | "failing" | "failures" | "failure" | "errors" | "error"
            )
        {
            counts.insert(*what, *number);
        }
    }
    counts
}

fn deeds(name: &str, input: &Value) -> Deeds {
    let none = Deeds::default();
    match name {
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Deeds { changes: true, ..none },
        "Bash" => input.get("command").and_then(Value::as_str).map(of_command).unwrap_or_default(),
        "TodoWrite" => {
            let todos = input.get("todos").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let ticked = todos.iter().filter(|todo| todo["status"] == "completed").count();
            Deeds { ticked: u32::try_from(ticked).unwrap_or(u32::MAX), ..none }
        }
        // One task each: the same twice is no second one.
        "TaskUpdate" => Deeds { changes: input["status"] == "completed", ..none },
        // Tools of MCP servers say by their names what they do.
        _ => {
            let verb =
                name.strip_prefix("mcp__").and_then(|rest| rest.rsplit("__").next()).unwrap_or_default();
            let writes =
                ["write", "edit", "create", "delete", "move", "apply", "update", "insert", "replace"];
            Deeds { changes: verb.split(['_', '-']).any(|word| writes.contains(&word)), ..none }
        }
    }
}

/// What a shell command is meant to change. A guess from its words: it only has to tell work from looking around.
fn of_command(text: &str) -> Deeds {
    let mut deeds = Deeds::default();
    for command in shell_words::commands(text) {
        deeds.changes |= command.writes_to.iter().any(|target| is_kept(target)) || changes(&command);
        deeds.commits |= subcommand(&command, "git") == Some("commit");
        deeds.tests |= tests(&command);
    }
    deeds
}

/// A file that stays: not a device, not a scratch file.
fn is_kept(path: &str) -> bool {
    !["/dev/", "/tmp/", "/var/tmp/", "$TMPDIR", "&"].iter().any(|start| path.starts_with(start))
}

/// The subcommand when it is this program's: `commit` of `git -C dir commit`.
fn subcommand<'c>(command: &'c Command, program: &str) -> Option<&'c str> {
    if command.program() != program {
        return None;
    }
    let mut rest = command.arguments().iter();
    while let Some(word) = rest.next() {
        if matches!(word.as_str(), "-C" | "-c" | "--prefix" | "--manifest-path" | "--git-dir" | "--work-tree")
        {
            rest.next();
        } else if !word.starts_with(['-', '+']) {
            return Some(word);
        }
    }
    None
}

fn changes(command: &Command) -> bool {
    let arguments = command.arguments();
    let is = |word: &str| arguments.iter().any(|argument| argument == word);
    let any = |words: &[&str]| words.iter().any(|word| is(word));
    let program = command.program();
    let sub = subcommand(command, program).unwrap_or_default();
    match program {
        "mv" | "cp" | "rm" | "mkdir" | "rmdir" | "touch" | "ln" | "patch" | "install" | "tee"
        | "truncate" => arguments.iter().any(|argument| !argument.starts_with('-') && is_kept(argument)),
        "sed" | "perl" | "ruby" => {
            arguments.iter().any(|argument| argument.starts_with("-i") || argument.starts_with("-pi"))
                || is("--in-place")
        }
        "git" => matches!(
            sub,
            "add"
                | "am"
                | "apply"
                | "checkout"
                | "cherry-pick"
                | "merge"
                | "mv"
                | "restore"
                | "revert"
                | "rm"
        ),
        "npm" | "pnpm" | "yarn" | "bun" => {
            matches!(sub, "add" | "i" | "ci" | "install" | "remove" | "uninstall")
        }
        "pip" | "pip3" | "uv" | "poetry" | "gem" | "composer" | "bundle" => {
            any(&["install", "add", "remove", "sync", "lock", "uninstall"])
        }
        "cargo" => matches!(sub, "add" | "remove" | "new" | "init" | "fmt" | "fix" | "update"),
        "go" => matches!(sub, "get" | "mod" | "fmt" | "generate"),
        "gofmt" => is("-w"),
        "prettier" | "eslint" | "biome" | "ruff" => any(&["--write", "-w", "--fix", "format"]),
        "black" | "rustfmt" | "isort" => !any(&["--check", "--diff"]),
        _ => false,
    }
}

fn tests(command: &Command) -> bool {
    let program = command.program();
    let sub = subcommand(command, program).unwrap_or_default();
    match program {
        "pytest" | "jest" | "vitest" | "mocha" | "ctest" | "tox" | "nox" | "rspec" | "phpunit" | "bats"
        | "ava" => true,
        "cargo" => matches!(sub, "test" | "nextest" | "t"),
        "go" | "dotnet" | "swift" | "mix" | "zig" | "deno" | "bun" | "flutter" | "dart" | "rails"
        | "rake" => sub.starts_with("test"),
        "npm" | "pnpm" | "yarn" | "npx" | "make" | "just" | "mvn" | "gradle" | "gradlew" | "mvnw"
        | "bazel" | "ninja" | "uv" | "poetry" | "bundle" | "composer" | "python" | "python3" => {
            command.arguments().iter().any(|argument| {
                let name = argument.rsplit('/').next().unwrap_or_default();
                name.split(':').any(|word| word.starts_with("test"))
                    || matches!(
                        name,
                        "check" | "verify" | "pytest" | "unittest" | "jest" | "vitest" | "rspec"
                    )
            })
        }
        // A script of the repository: `tests/run`, `./test.sh`.
        _ => {
            let path = command.path();
            path.split('/').any(|part| part.starts_with("test") || part.ends_with("test.sh"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_command_is_meant_to_change() {
        for command in [
            "echo x > src/a.rs",
            "cat > f <<'EOF'\ngit commit\nEOF\n",
            "sed -i s/a/b/ f",
            "sed -i.bak s/a/b/ f",
            "mv a b",
            "cd x && rm -r y",
            "git -C d apply p",
            "npm install left-pad",
            "cargo add serde",
            "cargo fmt",
            "make | tee -a log.txt",
            "bash -c 'touch a'",
            "FOO=1 sudo cp a b",
            "prettier --write .",
            "git add .",
        ] {
            check("changes", command);
        }
        for command in [
            "git commit -m 'x; y'",
            "git add -A && git -c a=b commit --quiet -m x",
            "sh -c \"git commit -am x\"",
        ] {
            check("commits", command);
        }
        for command in [
            "cargo test",
            "cargo +nightly nextest run",
            "npm test",
            "npm run test:unit",
            "python -m pytest -q",
            "pytest",
            "go test ./...",
            "make check",
            "tests/run",
            "./gradlew test",
            "cd a; timeout 60 cargo test 2>&1 | tail -5",
            "uv run pytest",
        ] {
            check("tests", command);
        }
        for command in [
            "ls -la",
            "cat src/a.rs",
            "grep -rn 'git commit' .",
            "echo 'a > b'",
            "git status",
            "git log --oneline",
            "cargo build",
            "cargo check 2>&1",
            "make > /dev/null",
            "make 2>&1 | tee /tmp/log",
            "sed -n 1,5p f",
            "sleep 30",
            "git diff > /tmp/x",
            "cat <<EOF\nmv a b\nEOF\n",
            "echo \"unclosed",
            "$(",
            "",
        ] {
            check("", command);
        }
    }

    #[track_caller]
    fn check(expected: &str, command: &str) {
        let Deeds { changes, commits, tests, .. } = of_command(command);
        let said = if commits {
            "commits"
        } else if tests {
            "tests"
        } else if changes {
            "changes"
        } else {
            ""
        };
        assert_eq!(said, expected, "{command}");
    }

    #[test]
    fn what_a_tool_is_meant_to_change() {
        let changes = Deeds { changes: true, ..Deeds::default() };
        for (name, input, expected) in [
            ("Edit", json!({"file_path": "a"}), changes),
            ("Read", json!({"file_path": "a"}), Deeds::default()),
            ("Bash", json!({}), Deeds::default()),
            ("mcp__files__write_file", json!({}), changes),
            ("mcp__files__read_file", json!({}), Deeds::default()),
            ("TaskUpdate", json!({"taskId": "1", "status": "completed"}), changes),
            ("TaskUpdate", json!({"taskId": "1", "status": "in_progress"}), Deeds::default()),
            (
                "TodoWrite",
                json!({"todos": [{"status": "completed"}, {"status": "pending"}, {"status": "completed"}]}),
                Deeds { ticked: 2, ..Deeds::default() },
            ),
        ] {
            assert_eq!(deeds(name, &input), expected, "{name} {input}");
        }
    }

    #[test]
    fn the_same_input_has_the_same_hash() {
        let call =
            |input: &Value, whole, id: &str| Call::new(Some(id.to_owned()), None, "Bash", input, whole).input;
        let one = json!({"command": "make", "description": "Builds", "timeout": 5});
        let two = json!({"timeout": 5, "description": "Builds it again", "command": "make"});
        assert_eq!(call(&one, true, "1"), call(&two, true, "2"), "words for people do not count");
        assert_ne!(call(&one, true, "1"), call(&json!({"command": "make all", "timeout": 5}), true, "1"));
        assert_ne!(call(&one, false, "1"), call(&one, false, "2"), "of a cut input nothing is known");
        // A description that is the input itself counts.
        assert_ne!(
            call(&json!({"description": "a"}), true, "1"),
            call(&json!({"description": "b"}), true, "1")
        );
    }

    #[test]
    fn the_same_outcome_has_the_same_hash() {
        let hash = |text: &str| Outcome::new(None, None, text, false).hash;
        for (one, other) in [
            ("error: no rule (0.35s)", "error: no rule (1.2s)"),
            ("10:00:01 failed at 0x7ffe12", "10:00:09 failed at 0x7ffe99"),
            ("2026-03-01T10:00:00Z x took 12ms", "2026-03-02T11:10:00Z x took 340ms"),
        ] {
            assert_eq!(hash(one), hash(other), "{one} | {other}");
        }
        for (one, other) in
            [("2 tests failed", "3 tests failed"), ("line 12", "line 13"), ("a", "b"), ("", "x")]
        {
            assert_ne!(hash(one), hash(other), "{one} | {other}");
        }
    }

    #[test]
    fn tests_are_compared_by_their_counts() {
        let tested = |text: &str| Outcome::new(None, None, text, false).tested;
        let noisy =
            |port, failed| format!("server on port {port}\ntest result: FAILED. 3 passed; {failed} failed");
        assert_eq!(tested(&noisy(4000, 1)), tested(&noisy(5000, 1)));
        assert_ne!(tested(&noisy(4000, 1)), tested(&noisy(4000, 2)));
        assert_ne!(tested("FAIL pkg/a"), tested("FAIL pkg/b"), "without counts the text decides");
    }

    #[test]
    fn git_may_have_nothing_to_commit() {
        let nothing = |text: &str| Outcome::new(None, None, text, false).nothing_to_commit;
        assert!(nothing("On branch main\nnothing to commit, working tree clean"));
        assert!(!nothing("[main 1234567] Add one"));
    }
}
