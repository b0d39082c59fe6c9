//! `autopilot gate explain`: what the gate makes of a tool call. Nothing is run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use crate::core::gate::{self, Call, Context, Decision, Policy, Ruling};
use crate::error::exit::Exit;
use crate::error::{CliError, ErrorKind};
use crate::git;
use crate::settings::layer::Layer;
use crate::ui::printer::Printer;
use crate::ui::text::one_line;

use super::args::GateExplainArgs;
use super::grounds::grounds;
use super::{config, start, watcher};

/// Characters of a part and of a reason.
const LONGEST_LINE: usize = 300;

#[derive(Serialize)]
struct Document<'a> {
    tool: &'a str,
    input: &'a Value,
    policy: &'static str,
    /// Before it runs: `allow`, `deny`, or `defer` to Claude Code's own rules.
    decision: &'static str,
    reason: &'a str,
    /// Where Claude Code would ask a person.
    asked: &'static str,
    parts: Vec<DocumentPart<'a>>,
}

#[derive(Serialize)]
struct DocumentPart<'a> {
    what: &'a str,
    decision: &'static str,
    reason: &'a str,
}

pub(super) async fn explain(
    directory: &Path,
    args: &GateExplainArgs,
    flags: &Layer,
    json: bool,
    printer: &Printer,
) -> Result<Exit, CliError> {
    let repo = start::repository(directory).await?;
    let settings = config::load(flags, &config::Files::locate(&repo.root))?.settings;
    let environment: Vec<_> = std::env::vars_os().collect();
    let grounds = grounds(&settings, &repo.root, &environment);
    let cwd = std::path::absolute(directory).unwrap_or_else(|_| repo.root.clone());
    let input = input(&args.tool, &args.what)?;
    let call = Call { tool: &args.tool, input: &input };
    let context = Context {
        policy: grounds.policy,
        rules: &grounds.rules,
        mode: args.mode,
        tree: &grounds.tree,
        added: &grounds.added,
        cwd: if cwd.starts_with(&repo.root) { &cwd } else { &repo.root },
        home: grounds.home.as_deref(),
        temporary: &grounds.temporary,
    };
    let removable: BTreeMap<PathBuf, bool> =
        git::removable(&repo.root, &gate::questions(&call, &context)).await;
    let known = |path: &Path| removable.get(path).copied();
    let ruling = gate::judge(&call, &context, &known);
    let asked = gate::judge_prompt(&call, &context, &known);
    let policy = word(grounds.policy);
    let text = if json {
        let document = Document {
            tool: &args.tool,
            input: &input,
            policy,
            decision: ruling.decision.as_str(),
            reason: &ruling.reason,
            asked: asked.decision.as_str(),
            parts: ruling
                .parts
                .iter()
                .map(|part| DocumentPart {
                    what: &part.what,
                    decision: part.decision.as_str(),
                    reason: &part.reason,
                })
                .collect(),
        };
        serde_json::to_string(&document)
            .map_err(|error| CliError::from_error(ErrorKind::Unexpected, error))?
    } else {
        let options = watcher::text_options(printer);
        let text = words(&ruling, &asked, &args.tool, policy, &repo.root);
        text.lines().map(|line| options.spell(line)).collect::<Vec<_>>().join("\n")
    };
    printer.data(&text)?;
    Ok(Exit::Planned)
}

fn word(policy: Policy) -> &'static str {
    match policy {
        Policy::Guard => "guard",
        Policy::Strict => "strict",
        Policy::Off => "off",
    }
}

/// The input of a tool from one word.
fn input(tool: &str, what: &str) -> Result<Value, CliError> {
    if what.trim_start().starts_with('{') && tool != "Bash" {
        return serde_json::from_str(what)
            .map_err(|error| CliError::usage("the input of the tool is not JSON").caused_by(error));
    }
    Ok(match tool {
        "Bash" => json!({"command": what}),
        "Grep" | "Glob" => json!({"pattern": what}),
        "WebFetch" => json!({"url": what}),
        "WebSearch" => json!({"query": what}),
        "Agent" | "Task" => json!({"subagent_type": what}),
        "NotebookEdit" => json!({"notebook_path": what}),
        _ => json!({"file_path": what}),
    })
}

fn words(ruling: &Ruling, asked: &Ruling, tool: &str, policy: &str, tree: &Path) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    _ = writeln!(text, "{tool} under gate = {policy} in {}", tree.display());
    for part in &ruling.parts {
        let what = if part.what.is_empty() { tool } else { &part.what };
        let said = match part.decision {
            Decision::Allow => "allowed",
            Decision::Deny => "REFUSED",
            Decision::Defer => "no objection",
        };
        _ = writeln!(text, "\n  {}", one_line(what, LONGEST_LINE));
        _ = writeln!(text, "    {said}: {}", one_line(&part.reason, LONGEST_LINE));
    }
    let before = match ruling.decision {
        Decision::Allow => "allowed, without a question",
        Decision::Deny => "refused",
        Decision::Defer => "no objection; Claude Code's own rules decide",
    };
    _ = writeln!(text, "\nbefore it runs: {before}");
    if ruling.decision == Decision::Defer {
        let then = match asked.decision {
            Decision::Allow => "allowed".to_owned(),
            Decision::Deny => format!("refused: {}", one_line(&asked.reason, LONGEST_LINE)),
            Decision::Defer => "refused by Claude Code, since nobody is here".to_owned(),
        };
        _ = writeln!(text, "where these would ask a person: {then}");
    }
    text
}
