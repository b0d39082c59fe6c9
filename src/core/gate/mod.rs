//! May this tool call happen? (design §8)
//!
//! A pure function of the call, the operator's policy and rules, and the folders of the session. The command of a
//! shell tool is parsed into everything that would run ([`shell`]), each program is judged by what its arguments do
//! ([`programs`]), files by where they are ([`paths`]). What cannot be parsed, or resolved where it matters, is denied.
//!
//! Decisions, first hit wins, for each part of a call: a deny rule, an ask rule (nobody is here to be asked), an allow
//! rule, the policy. One denied part denies the call.
//!
//! Where the dangerous set comes from: recovery §3.5, §10.9. What only git knows (is this ignored?) is asked for with
//! [`questions`] and handed in. Judged is the text: that a link leads out of the tree is seen where git is asked, not
//! elsewhere.

use std::path::{Path, PathBuf};

use super::mode::Mode;

mod files;
mod finding;
mod paths;
mod programs;
mod rules;
mod shell;

use finding::{Finding, Subject, Weight};
pub use rules::{Rule, RuleError, Rules};

/// Largest input of a call that is judged, in bytes of its texts. What is longer is denied unread, except contents of
/// files, which are not looked at.
const MAX_COMMAND: usize = 128 << 10;

/// A tool call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Name of the tool on the wire.
    pub tool: &'a str,
    /// Its input.
    pub input: &'a serde_json::Value,
}

/// `--gate`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// What is dangerous is denied, everything else follows Claude Code's own rules.
    #[default]
    Guard,
    /// Only what an allow rule names passes.
    Strict,
    /// Nothing is judged.
    Off,
}

/// Where a call would happen.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// What is allowed in general.
    pub policy: Policy,
    /// What the operator said.
    pub rules: &'a Rules,
    /// Kind of the session; rules may be for one.
    pub mode: Mode,
    /// The working tree, absolute.
    pub tree: &'a Path,
    /// Folders that were added to it.
    pub added: &'a [PathBuf],
    /// Where the call starts.
    pub cwd: &'a Path,
    /// Home folder of the session.
    pub home: Option<&'a Path>,
    /// Folders for what is not kept.
    pub temporary: &'a [PathBuf],
}

/// What comes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may happen, whatever else would be asked.
    Allow,
    /// It may not.
    Deny,
    /// No objection: Claude Code's own rules decide.
    Defer,
}

impl Decision {
    /// The word in events and output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Deny => "deny",
            Decision::Defer => "defer",
        }
    }
}

/// A part of a call: one program, one redirection, one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What would happen.
    pub what: String,
    /// What comes of it.
    pub decision: Decision,
    /// Why.
    pub reason: String,
}

/// The judgement of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What comes of it.
    pub decision: Decision,
    /// Why; the model reads it when the call is denied.
    pub reason: String,
    /// Its parts, in the order in which they would run.
    pub parts: Vec<Part>,
}

/// Tells whether a path is one plain file, or a folder of which git has nothing and ignores all; `None` = nobody asked.
pub type Removable<'a> = &'a dyn Fn(&Path) -> Option<bool>;

/// The paths about which git must be asked before [`judge`] can say yes.
#[must_use]
pub fn questions(call: &Call<'_>, context: &Context<'_>) -> Vec<PathBuf> {
    if context.policy == Policy::Off {
        return Vec::new();
    }
    let (findings, asked) = findings(call, context, &|_| None);
    // What is refused anyway needs no git.
    let refused_anyway = findings.iter().any(|finding| finding.weight >= Weight::Refused && !finding.asks);
    if refused_anyway { Vec::new() } else { asked }
}

/// Judges a call before it runs (`PreToolUse`).
#[must_use]
pub fn judge(call: &Call<'_>, context: &Context<'_>, removable: Removable<'_>) -> Ruling {
    rule(call, context, removable, false)
}

/// Judges a call about which Claude Code would ask a person (`can_use_tool`): what is ordinary and stays in the tree is
/// allowed, everything else denied. Never [`Decision::Defer`], but where nothing is judged.
#[must_use]
pub fn judge_prompt(call: &Call<'_>, context: &Context<'_>, removable: Removable<'_>) -> Ruling {
    rule(call, context, removable, true)
}

fn rule(call: &Call<'_>, context: &Context<'_>, removable: Removable<'_>, prompt: bool) -> Ruling {
    if context.policy == Policy::Off {
        return Ruling {
            decision: Decision::Defer,
            reason: "gate = off: nothing is judged".to_owned(),
            parts: Vec::new(),
        };
    }
    let (findings, _) = findings(call, context, removable);
    let whole = whole(call);
    let exactly =
        whole.as_deref().is_some_and(|whole| context.rules.allows_exactly(call.tool, whole, context.mode));
    let mut objected = false;
    let parts: Vec<Part> = findings
        .into_iter()
        .map(|finding| {
            let (decision, reason) = weigh(&finding, call.tool, context, prompt, exactly);
            objected |= decision != Decision::Allow && finding.weight > Weight::Nothing;
            Part { what: finding.what, decision, reason }
        })
        .collect();
    let denied = parts.iter().find(|part| part.decision == Decision::Deny);
    if let Some(part) = denied {
        let what = if part.what.is_empty() { call.tool } else { &part.what };
        let what: String = what.chars().take(160).collect();
        let reason = format!("`{what}` is not allowed in this unattended session: {}", part.reason);
        return Ruling { decision: Decision::Deny, reason, parts };
    }
    // What changes nothing does not keep what a rule allows from being allowed.
    let all_allowed = !objected && parts.iter().any(|part| part.decision == Decision::Allow);
    let first = parts.iter().find(|part| part.decision == Decision::Defer).or(parts.first());
    let reason = first.map_or_else(|| "nothing would run".to_owned(), |part| part.reason.clone());
    let decision = if all_allowed || prompt { Decision::Allow } else { Decision::Defer };
    Ruling { decision, reason, parts }
}

/// The text of a call that an exact rule may name.
fn whole(call: &Call<'_>) -> Option<String> {
    call.input.get("command")?.as_str().map(str::to_owned)
}

/// Rules first, then the policy.
fn weigh(
    finding: &Finding,
    tool: &str,
    context: &Context<'_>,
    prompt: bool,
    exactly: bool,
) -> (Decision, String) {
    let Finding { subject, weight, reason, .. } = finding;
    if let Some(rule) = context.rules.denies(tool, subject, context) {
        return (Decision::Deny, format!("the rule gate-deny = \"{rule}\" says so"));
    }
    if let Some(rule) = context.rules.asks(tool, subject, context) {
        return (Decision::Deny, format!("the rule gate-ask = \"{rule}\" wants a person, and none is here"));
    }
    if exactly {
        return (Decision::Allow, "a gate-allow rule names this very command".to_owned());
    }
    if *weight < Weight::Never
        && let Some(rule) = context.rules.allows(tool, subject, context)
    {
        return (Decision::Allow, format!("the rule gate-allow = \"{rule}\" allows it"));
    }
    match (weight, context.policy) {
        (Weight::Nothing, _) => {
            let decision =
                if prompt || context.policy == Policy::Strict { Decision::Allow } else { Decision::Defer };
            (decision, reason.clone())
        }
        (Weight::Never | Weight::Refused, _) => (Decision::Deny, reason.clone()),
        (_, Policy::Strict) => (Decision::Deny, "gate = strict, and no gate-allow rule names it".to_owned()),
        (Weight::Foreign, _) if prompt => (
            Decision::Deny,
            format!(
                "{reason}, Claude Code would ask a person, and none is here. A gate-allow rule can allow it"
            ),
        ),
        (Weight::Ordinary, _) if prompt => (Decision::Allow, reason.clone()),
        (Weight::Foreign | Weight::Ordinary, _) => (Decision::Defer, reason.clone()),
    }
}

/// Tools that only keep the session's own books.
const BOOKKEEPING: [&str; 21] = [
    "StructuredOutput",
    "TodoWrite",
    "TodoRead",
    "TaskCreate",
    "TaskUpdate",
    "TaskList",
    "TaskGet",
    "TaskOutput",
    "TaskStop",
    "AgentOutput",
    "AgentOutputTool",
    "BashOutput",
    "KillShell",
    "KillBash",
    "ToolSearch",
    "EnterPlanMode",
    "ExitPlanMode",
    "AskUserQuestion",
    "Skill",
    "SlashCommand",
    "ListMcpResourcesTool",
];

fn findings(
    call: &Call<'_>,
    context: &Context<'_>,
    removable: Removable<'_>,
) -> (Vec<Finding>, Vec<PathBuf>) {
    let tool = call.tool;
    match tool {
        "Bash" | "Monitor" => return shell::findings(call.input, context, removable),
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => {
            return (files::written(call.input, context), vec![]);
        }
        "Read" | "NotebookRead" | "Grep" | "Glob" | "LS" => {
            return (files::read(call.input, context), vec![]);
        }
        _ => {}
    }
    let finding = |weight, reason: &str| Finding {
        what: String::new(),
        subject: Subject::Tool(call.input.clone()),
        weight,
        reason: reason.to_owned(),
        asks: false,
    };
    let finding = if BOOKKEEPING.contains(&tool) {
        finding(Weight::Nothing, "it only keeps the session's books")
    } else {
        match tool {
            "Agent" | "Task" => finding(Weight::Ordinary, "each call of a sub-agent is judged by itself"),
            "WebFetch" | "WebSearch" => finding(Weight::Foreign, "it goes out to the network"),
            "PowerShell" => finding(Weight::Never, "PowerShell cannot be judged; use the Bash tool"),
            _ if tool.starts_with("mcp__") => {
                finding(Weight::Foreign, "what a tool of an MCP server does is not known")
            }
            _ => finding(Weight::Foreign, "what this tool does is not known"),
        }
    };
    (vec![finding], vec![])
}

#[cfg(test)]
mod tests;
