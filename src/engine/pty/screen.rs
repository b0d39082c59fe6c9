//! What a screen shows (recovery §3.2, §3.3). Only good for choosing a key.

/// What is on the screen, by its lines from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// The account has to log in.
    Login,
    /// "How is Claude doing this session?"
    Survey,
    /// A menu of a question to a person.
    Menu,
    /// "Is this a project you trust?"
    Trust,
    /// A new MCP server of the project.
    McpServer,
    /// The warning about skipped permissions; its default leaves the program.
    Bypass,
    /// The choice of a theme.
    Theme,
    /// May this call run?
    Permission,
    /// Another dialog that waits for Enter.
    Dialog,
    /// The model or a sub-agent works.
    Working,
    /// An empty prompt.
    Ready,
    /// None of these.
    Unknown,
}

/// Footers of an empty prompt. They occur in prose, so only the last lines count.
const FOOTERS: [&str; 12] = [
    "? for shortcuts",
    "shift+tab to cycle",
    "/effort",
    "bypass permissions on",
    "accept edits on",
    "plan mode on",
    "manual mode on",
    "auto mode on",
    "shell)",
    "shells)",
    "← for agents",
    "↓ to manage",
];

/// Looks in the order of recovery §3.2.
pub(super) fn shown(lines: &[String]) -> Shown {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    let last = &lines[lines.len().saturating_sub(6)..];
    let confirm = last.iter().any(|line| line.contains("Enter to confirm"));
    let option = highlighted(&lines).is_some();
    if has("Select login method") || has("Please run /login") || has("Browser didn't open? Use the url below")
    {
        return Shown::Login;
    }
    if has("How is Claude doing this session?") {
        return Shown::Survey;
    }
    if last.iter().any(|line| line.contains("Enter to select") || line.contains("Tab/Arrow keys to navigate"))
    {
        return Shown::Menu;
    }
    if confirm || option {
        if has("Bypass Permissions mode") && has("No, exit") {
            return Shown::Bypass;
        }
        if has("trust this folder") || has("Do you trust the files") {
            return Shown::Trust;
        }
        if has("MCP server") && (has("found in .mcp.json") || has("New MCP server") || has("new MCP server"))
        {
            return Shown::McpServer;
        }
        if has("Choose the text style") || has("text style that looks best") {
            return Shown::Theme;
        }
    }
    if option
        && (has("Do you want to proceed")
            || has("Do you want to make this edit")
            || has("Do you want to create")
            || has("Do you want to"))
    {
        return Shown::Permission;
    }
    if confirm || (option && last.iter().any(|line| line.contains("Esc to cancel"))) {
        return Shown::Dialog;
    }
    if is_working(&lines) {
        return Shown::Working;
    }
    let prompt = last.iter().any(|line| *line == "❯" || *line == ">");
    let footer = last.iter().any(|line| FOOTERS.iter().any(|footer| line.contains(footer)));
    if prompt && (footer || lines.iter().any(|line| is_done(line))) {
        return Shown::Ready;
    }
    Shown::Unknown
}

/// The option that Enter would take, without its number.
pub(super) fn highlighted(lines: &[impl AsRef<str>]) -> Option<String> {
    lines.iter().rev().find_map(|line| {
        let rest = line.as_ref().trim().strip_prefix('❯')?.trim_start();
        let (number, option) = rest.split_once(". ").unwrap_or(("", rest));
        let numbered = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
        let plain = ["Yes", "No"].iter().any(|word| rest.starts_with(word));
        (numbered || plain).then(|| if numbered { option.trim().to_owned() } else { rest.trim().to_owned() })
    })
}

fn is_working(lines: &[&str]) -> bool {
    lines.iter().rev().take(12).any(|line| {
        line.contains("esc to interrupt")
            || (line.contains("Waiting for") && line.contains("background agent"))
            || counts_tokens(line)
    })
}

/// `↓ 1.2k tokens`.
fn counts_tokens(line: &str) -> bool {
    ["↓ ", "↑ "].iter().any(|arrow| {
        line.match_indices(arrow).any(|(at, _)| {
            let rest = &line[at + arrow.len()..];
            let number: String =
                rest.chars().take_while(|c| c.is_ascii_digit() || ".km".contains(*c)).collect();
            number.starts_with(|c: char| c.is_ascii_digit())
                && rest[number.len()..].trim_start().starts_with("tokens")
        })
    })
}

/// `✻ Brewed for 12s · done 8:25 PM`: a glyph, one word, "for", a time. Not "attempt 2 · waited for 30s".
fn is_done(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let glyph = words.next().is_some_and(|word| ["✻", "✶", "✳", "✢", "✽", "·"].contains(&word));
    let verb = words
        .next()
        .is_some_and(|word| word.chars().all(char::is_alphabetic) && word.starts_with(char::is_uppercase));
    let ends = words.next() == Some("for")
        && words.next().is_some_and(|time| {
            time.ends_with(['s', 'm', 'h'])
                && time.trim_end_matches(['s', 'm', 'h']).chars().all(|c| c.is_ascii_digit())
        });
    glyph && verb && ends
}

/// The last lines of a screen, for a report.
pub(super) fn last_lines(lines: &[String]) -> String {
    let full: Vec<&String> = lines.iter().filter(|line| !line.trim().is_empty()).collect();
    let last = full.iter().skip(full.len().saturating_sub(6));
    last.map(|line| line.trim().chars().take(100).collect::<String>()).collect::<Vec<_>>().join(" | ")
}

/// Whether the screen shows this call: a dialog about another one must not be answered with its judgement.
pub(super) fn shows(lines: &[String], call: &serde_json::Value) -> bool {
    let squeezed =
        |text: &str| text.chars().filter(|c| !c.is_whitespace() && !"│┃|❯".contains(*c)).collect::<String>();
    let screen = squeezed(&lines.concat());
    let told = ["command", "file_path", "notebook_path", "url", "path", "pattern", "query"]
        .iter()
        .find_map(|key| call.get(*key)?.as_str());
    told.is_some_and(|text| {
        // A path may be shown relative to the folder, a long text cut.
        let name = if text.starts_with('/') && !text.contains(' ') {
            text.rsplit('/').next().unwrap_or(text)
        } else {
            text
        };
        let beginning: String = squeezed(name).chars().take(60).collect();
        !beginning.is_empty() && screen.contains(&beginning)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_a_screen_shows() {
        for (text, expected) in [
            ("", Shown::Unknown),
            (
                " Claude Code v2.1.332\n────\n❯ \n────\n  ⏸ manual mode on · ? for shortcuts · ← for agents",
                Shown::Ready,
            ),
            (
                "● All done.\n✻ Crunched for 0s · done 1:47 PM\n────\n❯\n────\n  ⏸ manual mode on · ? for shortcuts",
                Shown::Ready,
            ),
            ("❯ Make the file\n  ⏸ manual mode on", Shown::Unknown),
            ("The footer says ? for shortcuts\nand more\nprose\na\nb\nc\nd\ne", Shown::Unknown),
            ("✻ Brewing… (12s · ↓ 1.2k tokens · esc to interrupt)\n❯\n  ? for shortcuts", Shown::Working),
            ("✻ Brewing… (↑ 400 tokens)\n❯\n  ? for shortcuts", Shown::Working),
            ("✻ Waiting for 2 background agents\n❯\n  ? for shortcuts", Shown::Working),
            (
                " Bash command\n touch made.txt\n Do you want to proceed?\n ❯ 1. Yes\n   2. Yes, and always allow\n   4. No\n Esc to cancel · Tab to amend",
                Shown::Permission,
            ),
            (
                " Edit file\n Do you want to make this edit to a.rs?\n ❯ 1. Yes\n   3. No\n Esc to cancel",
                Shown::Permission,
            ),
            (
                " Accessing workspace:\n ❯ No, exit\n   Yes, I trust this folder\n Enter to confirm · Esc to cancel",
                Shown::Trust,
            ),
            (
                " WARNING: Claude Code running in Bypass Permissions mode\n ❯ 1. No, exit\n   2. Yes, I accept\n Enter to confirm · Esc to cancel",
                Shown::Bypass,
            ),
            (
                " New MCP server found in .mcp.json: x\n ❯ 1. Use this MCP server\n   3. Continue without\n Enter to confirm · Esc to cancel",
                Shown::McpServer,
            ),
            (
                " Choose the text style that looks best with your terminal\n ❯ 1. Dark mode\n   2. Light mode",
                Shown::Theme,
            ),
            (
                " Which database?\n ❯ 1. Postgres\n   2. SQLite\n Enter to select · Tab/Arrow keys to navigate · Esc to cancel",
                Shown::Menu,
            ),
            (
                " How is Claude doing this session? (optional)\n  1: Bad   2: Fine   3: Good   0: Dismiss\n❯",
                Shown::Survey,
            ),
            (" Something new\n ❯ 1. Go on\n   2. Stop\n Enter to confirm · Esc to cancel", Shown::Dialog),
            (" Select login method:\n ❯ 1. Claude account with subscription\n   2. Console", Shown::Login),
            // What looks alike.
            ("✻ attempt 2 · waited for 30s\n❯", Shown::Unknown),
            (" * Poll for 5s and see\n❯", Shown::Unknown),
        ] {
            assert_eq!(shown(&lines(text)), expected, "{text}");
        }
    }

    #[test]
    fn the_option_that_enter_takes() {
        for (text, expected) in [
            (" ❯ 1. Yes\n   2. No", Some("Yes")),
            ("   1. Yes\n ❯ 2. Yes, and don't ask again", Some("Yes, and don't ask again")),
            (" ❯ No, exit\n   Yes, I trust", Some("No, exit")),
            ("❯ a prompt", None),
            ("❯", None),
        ] {
            assert_eq!(highlighted(&lines(text)).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_dialog_shows_the_call_or_does_not() {
        let screen = lines(" Bash command\n │ touch made.txt && \n │ ls\n Do you want to proceed?");
        for (call, expected) in [
            (serde_json::json!({"command": "touch made.txt && ls"}), true),
            (serde_json::json!({"command": "touch other.txt"}), false),
            (serde_json::json!({"file_path": "/repo/made.txt"}), true),
            (serde_json::json!({"command": ""}), false),
            (serde_json::json!({}), false),
        ] {
            assert_eq!(shows(&screen, &call), expected, "{call}");
        }
    }
}
