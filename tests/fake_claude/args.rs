//! The command line of the real CLI, as far as a driver uses it, with the refusals the real CLI
//! makes before it does anything (claude-code §4, field-reports H05, K01, K02, A07).
//! An option the CLI does not have is refused too: a driver that invents one must fail its tests.

use std::collections::BTreeMap;

/// Options followed by exactly one value.
const ONE_VALUE: &[&str] = &[
    "--agent",
    "--agents",
    "--append-system-prompt",
    "--append-system-prompt-file",
    "--betas",
    "--debug-file",
    "--effort",
    "--fallback-model",
    "--input-format",
    "--json-schema",
    "--max-budget-usd",
    "--max-thinking-tokens",
    "--max-turns",
    "--model",
    "--output-format",
    "--permission-mode",
    "--permission-prompt-tool",
    "--plugin-dir",
    "--resume",
    "--session-id",
    "--setting-sources",
    "--settings",
    "--system-prompt",
    "--system-prompt-file",
];

/// Options that swallow every word up to the next option.
const MANY_VALUES: &[&str] =
    &["--add-dir", "--allowed-tools", "--disallowed-tools", "--mcp-config", "--tools"];

/// Switches.
const NO_VALUE: &[&str] = &[
    "--allow-dangerously-skip-permissions",
    "--bare",
    "--continue",
    "--dangerously-skip-permissions",
    "--debug",
    "--disable-slash-commands",
    "--fork-session",
    "--include-hook-events",
    "--include-partial-messages",
    "--no-session-persistence",
    "--print",
    "--replay-user-messages",
    "--strict-mcp-config",
    "--verbose",
    "--version",
];

/// A parsed command line.
#[derive(Debug, Default)]
pub(crate) struct Args {
    options: BTreeMap<String, Vec<String>>,
    /// The prompt given as a word instead of on stdin.
    pub(crate) prompt: Option<String>,
}

impl Args {
    /// Parses argv without the program name. The error is the CLI's own text.
    pub(crate) fn parse(argv: &[String]) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut words = argv.iter().peekable();
        while let Some(word) = words.next() {
            if !word.starts_with('-') || word == "-" {
                parsed.prompt.get_or_insert_with(|| word.clone());
                continue;
            }
            let (name, inline) = match word.split_once('=') {
                Some((name, value)) => (canonical(name), Some(value.to_owned())),
                None => (canonical(word), None),
            };
            let values = parsed.options.entry(name.clone()).or_default();
            if ONE_VALUE.contains(&name.as_str()) {
                match inline.or_else(|| words.next().cloned()) {
                    Some(value) => values.push(value),
                    None => return Err(format!("error: option '{word} <value>' argument missing")),
                }
            } else if MANY_VALUES.contains(&name.as_str()) {
                values.extend(inline);
                while let Some(value) = words.next_if(|w| !w.starts_with('-')) {
                    values.push(value.clone());
                }
            } else if !NO_VALUE.contains(&name.as_str()) {
                return Err(format!("error: unknown option '{word}'"));
            }
        }
        Ok(parsed)
    }

    /// Whether a switch or option was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    /// The last value of an option.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.options.get(name)?.last().map(String::as_str)
    }

    /// Whether stdin takes JSON lines and the control protocol is spoken.
    pub(crate) fn stream_input(&self) -> bool {
        self.value("--input-format") == Some("stream-json")
    }

    /// What the real CLI says, on stderr and with exit 1, before it looks at the conversation.
    pub(crate) fn refusal(&self, nested: bool, root_outside_sandbox: bool) -> Option<String> {
        if nested {
            return Some(
                "Error: Claude Code cannot be launched inside another Claude Code session.\n\
                 Nested sessions share runtime resources and will crash all active sessions.\n\
                 To bypass this check, unset the CLAUDECODE environment variable."
                    .to_owned(),
            );
        }
        let skips = self.has("--dangerously-skip-permissions")
            || self.value("--permission-mode") == Some("bypassPermissions");
        if skips && root_outside_sandbox {
            return Some(
                "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
                    .to_owned(),
            );
        }
        if !self.has("--print") {
            return Some("Error: the double has no interactive mode; call it with -p".to_owned());
        }
        if self.value("--output-format") != Some("stream-json") {
            return Some("Error: the double only speaks --output-format stream-json".to_owned());
        }
        if !self.has("--verbose") {
            return Some(
                "Error: When using --print, --output-format=stream-json requires --verbose".to_owned(),
            );
        }
        if let Some(id) = self.value("--session-id")
            && !is_uuid(id)
        {
            return Some("Error: Invalid session ID. Must be a valid UUID.".to_owned());
        }
        if let Some(id) = self.value("--resume")
            && !is_uuid(id)
        {
            return Some(format!(
                "Error: --resume requires a valid session ID or session title when used with --print. \
                 Usage: claude -p --resume <session-id|title>. Provided value \"{id}\" is not a UUID"
            ));
        }
        if self.has("--session-id")
            && (self.has("--resume") || self.has("--continue"))
            && !self.has("--fork-session")
        {
            return Some(
                "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified."
                    .to_owned(),
            );
        }
        None
    }
}

/// Long names of the short options and of the spellings the CLI takes for one option.
fn canonical(name: &str) -> String {
    match name {
        "-p" => "--print",
        "-r" => "--resume",
        "-c" => "--continue",
        "-v" => "--version",
        "-d" => "--debug",
        "--allowedTools" => "--allowed-tools",
        "--disallowedTools" => "--disallowed-tools",
        other => other,
    }
    .to_owned()
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::Args;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn values_lists_and_the_prompt_are_told_apart() {
        let args = parse("-p --allowedTools Read Bash(git:*) --model=opus --verbose hello").unwrap();
        assert_eq!(args.value("--model"), Some("opus"));
        assert_eq!(args.value("--allowed-tools"), Some("Bash(git:*)"));
        assert_eq!(args.prompt.as_deref(), Some("hello"));
    }

    #[test]
    fn an_invented_option_is_refused() {
        assert_eq!(parse("-p --be-careful").unwrap_err(), "error: unknown option '--be-careful'");
    }

    #[test]
    fn refusals_of_the_real_cli() {
        fn check(line: &str, nested: bool, root: bool, expected: Option<&str>) {
            let refusal = parse(line).unwrap().refusal(nested, root);
            match expected {
                Some(part) => {
                    assert!(refusal.as_deref().is_some_and(|r| r.contains(part)), "{line}: {refusal:?}");
                }
                None => assert_eq!(refusal, None, "{line}"),
            }
        }
        let ok = "-p --output-format stream-json --verbose";
        let id = "3f0c8a52-6f0a-4d43-9b6e-0d4f6a2b9c11";
        check(ok, false, true, None);
        check(ok, true, false, Some("cannot be launched inside another"));
        check(&format!("{ok} --dangerously-skip-permissions"), false, true, Some("root/sudo"));
        check(&format!("{ok} --permission-mode bypassPermissions"), false, true, Some("root/sudo"));
        check(&format!("{ok} --dangerously-skip-permissions"), false, false, None);
        check(&format!("{ok} --resume last"), false, false, Some("is not a UUID"));
        check(
            &format!("{ok} --session-id {}", id.replace('-', "")),
            false,
            false,
            Some("Invalid session ID"),
        );
        check(&format!("{ok} --session-id {id}"), false, false, None);
        check(&format!("{ok} --session-id {id} --resume {id}"), false, false, Some("--fork-session"));
        check("-p --output-format stream-json", false, false, Some("requires --verbose"));
    }
}
