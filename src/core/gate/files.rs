//! Tools that read or write one file.

use std::path::{Path, PathBuf};

use super::Context;
use super::finding::{Finding, Subject, Weight};
use super::paths::{self, Zone};

/// Judges a tool that writes a file.
pub(super) fn written(input: &serde_json::Value, context: &Context<'_>) -> Vec<Finding> {
    match named(input, &["file_path", "notebook_path"], context) {
        Some(path) => vec![write(&path, context)],
        None => vec![Finding {
            what: String::new(),
            subject: Subject::Tool(input.clone()),
            weight: Weight::Never,
            reason: "it names no file".to_owned(),
            asks: false,
        }],
    }
}

/// Judges that a file is written.
pub(super) fn write(path: &Path, context: &Context<'_>) -> Finding {
    let (weight, reason) = match paths::zone(path, context) {
        Zone::Tree | Zone::Added => (Weight::Ordinary, "it writes inside the working tree"),
        Zone::Temporary | Zone::Sink => (Weight::Ordinary, "it writes where nothing is kept"),
        Zone::Root | Zone::Outside if is_plan(path, context) => {
            (Weight::Ordinary, "it writes the plan of a session")
        }
        Zone::Root | Zone::Outside => (
            Weight::Refused,
            "it writes outside the working tree; keep files in the repository or below /tmp",
        ),
        Zone::Git => (Weight::Refused, "it writes into .git; use git commands"),
        Zone::Settings => (Weight::Refused, "it changes what sessions may do; that is for the operator"),
        Zone::Credential => {
            (Weight::Refused, "it writes a file of keys or passwords; that is for the operator")
        }
        Zone::Device => (Weight::Never, "it writes to a device"),
    };
    finding(format!("write {}", path.display()), Subject::Written(path.to_owned()), weight, reason)
}

/// Judges a tool that reads a file or looks through a folder.
pub(super) fn read(input: &serde_json::Value, context: &Context<'_>) -> Vec<Finding> {
    let path = named(input, &["file_path", "notebook_path", "path"], context);
    let path = path.unwrap_or_else(|| paths::normalise(context.tree, context.cwd));
    let mut findings = vec![read_path(&path, context)];
    // A pattern may name another place, and the files themselves.
    let pattern = ["pattern", "glob"].iter().find_map(|key| {
        let text = input.get(key)?.as_str()?;
        (*key == "glob" || input.get("output_mode").is_none() && text.starts_with(['/', '~', '.']))
            .then_some(text)
    });
    if let Some(pattern) = pattern {
        let path = expand(pattern, context).map(|pattern| paths::normalise(&path, &pattern));
        if let Some(path) = path
            && (paths::is_credential(&path) || pattern.starts_with(['/', '~']))
        {
            findings.push(read_path(&path, context));
        }
    }
    findings
}

fn read_path(path: &Path, context: &Context<'_>) -> Finding {
    let (weight, reason) = match paths::zone(path, context) {
        Zone::Credential => (Weight::Refused, "it reads a file of keys or passwords"),
        Zone::Tree | Zone::Added | Zone::Git | Zone::Settings => {
            (Weight::Ordinary, "it reads inside the working tree")
        }
        Zone::Temporary | Zone::Sink => (Weight::Ordinary, "it reads what is not kept"),
        Zone::Root if path == context.tree => (Weight::Ordinary, "it reads inside the working tree"),
        Zone::Root | Zone::Outside => (Weight::Foreign, "it reads outside the working tree"),
        Zone::Device => (Weight::Refused, "it reads a device"),
    };
    finding(format!("read {}", path.display()), Subject::Read(path.to_owned()), weight, reason)
}

/// Claude Code keeps the plan of a session in its own folder.
fn is_plan(path: &Path, context: &Context<'_>) -> bool {
    let plans = context.home.map(|home| home.join(".claude/plans"));
    plans.is_some_and(|plans| path.starts_with(&plans) && path.extension().is_some_and(|end| end == "md"))
}

fn named(input: &serde_json::Value, keys: &[&str], context: &Context<'_>) -> Option<PathBuf> {
    let text = keys.iter().find_map(|key| input.get(key)?.as_str()).filter(|text| !text.is_empty())?;
    Some(paths::normalise(context.cwd, &expand(text, context)?))
}

/// `~` is the home folder.
fn expand(text: &str, context: &Context<'_>) -> Option<PathBuf> {
    match text.strip_prefix('~') {
        Some("") => context.home.map(Path::to_owned),
        Some(rest) if rest.starts_with('/') => Some(context.home?.join(rest.trim_start_matches('/'))),
        _ => Some(PathBuf::from(text)),
    }
}

fn finding(what: String, subject: Subject, weight: Weight, reason: &str) -> Finding {
    Finding { what, subject, weight, reason: reason.to_owned(), asks: false }
}
