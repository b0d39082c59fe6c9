//! Rules of the operator, in the syntax that users of Claude Code know.
//!
//! `Bash(git push:*)` or `Bash(git push *)` a beginning, `Bash(npm run build)` that very command, `Bash(*--help)` any
//! text at a star; `Edit(src/**)` and `Read(//etc/hosts)` files (`//` absolute, `~/` at home, else in the tree; `Edit`
//! is for every tool that writes); `WebFetch(domain:example.org)`; `Agent(Explore)`; a bare name is every call of the
//! tool, `mcp__server` every tool of a server. `deep: Bash(git push:*)` is for sessions of one kind.

use std::fmt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use super::Context;
use super::finding::Subject;
use super::paths;
use crate::core::mode::Mode;

/// The rules of the three keys, deny before ask before allow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// `gate-deny`.
    pub deny: Vec<Rule>,
    /// `gate-ask`: a person would have to be asked; none is here, so these deny as well.
    pub ask: Vec<Rule>,
    /// `gate-allow`.
    pub allow: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    text: String,
    mode: Option<Mode>,
    tool: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Everything,
    Exactly(String),
    Beginning(String),
    Like(Pattern),
    Path(String),
    Domain(String),
}

/// Why a rule is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Nothing, or no name before the parenthesis.
    #[error("it names no tool; write `Bash(git push:*)`, `Edit(src/**)` or `WebFetch`")]
    NoTool,
    /// The parenthesis is not closed, or something follows it.
    #[error("it does not end with `)`; write `Bash(git push:*)`")]
    NotClosed,
    /// Empty parentheses.
    #[error("nothing stands in its parentheses; without them it is for every call of the tool")]
    Empty,
    /// A bad glob.
    #[error("its pattern is not one: {0}")]
    Pattern(String),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let mode =
            text.split_once(':').and_then(|(word, rest)| Some((word.trim().parse().ok()?, rest.trim())));
        let (mode, rest) = mode.map_or((None, text), |(mode, rest): (Mode, _)| (Some(mode), rest));
        let (tool, inner) = match rest.split_once('(') {
            Some((tool, inner)) => (tool, Some(inner.strip_suffix(')').ok_or(RuleError::NotClosed)?)),
            None => (rest, None),
        };
        let known = |c: char| c.is_alphanumeric() || "_-*.".contains(c);
        if tool.is_empty() || !tool.chars().all(known) {
            return Err(RuleError::NoTool);
        }
        let what = match inner.map(str::trim) {
            None | Some("*") => What::Everything,
            Some("") => return Err(RuleError::Empty),
            Some(inner) => what(tool, inner)?,
        };
        Ok(Rule { text: text.to_owned(), mode, tool: tool.to_owned(), what })
    }
}

fn what(tool: &str, inner: &str) -> Result<What, RuleError> {
    if ["Edit", "Write", "MultiEdit", "NotebookEdit", "Read", "Grep", "Glob", "LS"].contains(&tool) {
        Pattern::new(inner).map_err(|err| RuleError::Pattern(err.to_string()))?;
        return Ok(What::Path(inner.to_owned()));
    }
    if let Some(domain) = inner.strip_prefix("domain:") {
        return Ok(What::Domain(domain.to_lowercase()));
    }
    let beginning = inner.strip_suffix(":*").or_else(|| inner.strip_suffix(" *"));
    if let Some(beginning) = beginning.filter(|beginning| !beginning.contains('*')) {
        return Ok(What::Beginning(beginning.to_owned()));
    }
    if inner.contains('*') {
        let escaped: Vec<String> = inner.split('*').map(Pattern::escape).collect();
        return Ok(What::Like(
            Pattern::new(&escaped.join("*")).map_err(|err| RuleError::Pattern(err.to_string()))?,
        ));
    }
    Ok(What::Exactly(inner.to_owned()))
}

impl Rules {
    pub(super) fn denies(&self, tool: &str, subject: &Subject, context: &Context<'_>) -> Option<&Rule> {
        self.deny.iter().find(|rule| rule.matches(tool, subject, context))
    }

    pub(super) fn asks(&self, tool: &str, subject: &Subject, context: &Context<'_>) -> Option<&Rule> {
        self.ask.iter().find(|rule| rule.matches(tool, subject, context))
    }

    pub(super) fn allows(&self, tool: &str, subject: &Subject, context: &Context<'_>) -> Option<&Rule> {
        self.allow.iter().find(|rule| rule.matches(tool, subject, context))
    }

    /// Whether an allow rule names this very command, chains and all.
    pub(super) fn allows_exactly(&self, tool: &str, command: &str, mode: Mode) -> bool {
        self.allow.iter().any(|rule| {
            rule.mode.is_none_or(|only| only == mode)
                && rule.tool == tool
                && matches!(&rule.what, What::Exactly(text) if text == command.trim())
        })
    }
}

impl Rule {
    fn matches(&self, tool: &str, subject: &Subject, context: &Context<'_>) -> bool {
        if self.mode.is_some_and(|only| only != context.mode) {
            return false;
        }
        match subject {
            Subject::Command(command) => self.tool == tool && self.matches_text(command),
            Subject::Written(path) => {
                (self.tool == "Edit" || self.tool == tool) && self.matches_path(path, context)
            }
            Subject::Read(path) => {
                (self.tool == "Read" || self.tool == tool) && self.matches_path(path, context)
            }
            Subject::Tool(input) => self.matches_tool(tool) && self.matches_input(input),
        }
    }

    fn matches_tool(&self, tool: &str) -> bool {
        let agents = ["Agent", "Task"];
        self.tool == tool
            || (agents.contains(&&*self.tool) && agents.contains(&tool))
            || (self.tool.starts_with("mcp__")
                && tool
                    .strip_prefix(self.tool.trim_end_matches('*').trim_end_matches("__"))
                    .is_some_and(|rest| rest.starts_with("__")))
    }

    fn matches_text(&self, text: &str) -> bool {
        match &self.what {
            What::Everything => true,
            What::Exactly(exact) => text == exact,
            What::Beginning(beginning) => text
                .strip_prefix(beginning.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
            What::Like(pattern) => pattern.matches(text),
            What::Path(_) | What::Domain(_) => false,
        }
    }

    fn matches_path(&self, path: &Path, context: &Context<'_>) -> bool {
        let pattern = match &self.what {
            What::Everything => return true,
            What::Path(pattern) => pattern,
            _ => return false,
        };
        let (base, pattern) = if let Some(rest) = pattern.strip_prefix("//") {
            (PathBuf::from("/"), rest)
        } else if let Some(rest) = pattern.strip_prefix("~/") {
            let Some(home) = context.home else { return false };
            (home.to_owned(), rest)
        } else {
            (context.tree.to_owned(), pattern.trim_start_matches("./").trim_start_matches('/'))
        };
        let base = paths::normalise(Path::new("/"), &base);
        let Ok(rest) = path.strip_prefix(&base) else { return false };
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        // As in a .gitignore: a bare name is meant at any depth, a folder means what is below it.
        let mut forms = vec![pattern.to_owned(), format!("{}/**/*", pattern.trim_end_matches("/**"))];
        if !pattern.contains('/') {
            forms.push(format!("**/{pattern}"));
        }
        forms.iter().any(|form| Pattern::new(form).is_ok_and(|form| form.matches_path_with(rest, options)))
    }

    fn matches_input(&self, input: &serde_json::Value) -> bool {
        let text = |key: &str| input.get(key).and_then(serde_json::Value::as_str);
        match &self.what {
            What::Everything => true,
            What::Domain(domain) => text("url").and_then(host).is_some_and(|host| {
                host == *domain
                    || domain.strip_prefix("*.").is_some_and(|end| host.ends_with(&format!(".{end}")))
            }),
            What::Exactly(_) | What::Beginning(_) | What::Like(_) => {
                ["subagent_type", "skill", "command", "url", "query"]
                    .iter()
                    .filter_map(|key| text(key))
                    .any(|text| self.matches_text(text))
            }
            What::Path(_) => false,
        }
    }
}

/// The host of an address, in small letters.
fn host(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = if host.starts_with('[') { host } else { host.split(':').next()? };
    Some(host.to_lowercase())
}
