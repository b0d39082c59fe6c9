//! Programs that reach beyond the tree: network, system, packages, processes, databases, clouds.

use super::super::shell::{Feed, Value};
use super::{Objection, Options, Run};

mod clouds;
mod databases;
mod network;
mod packages;
mod processes;
mod system;

/// Programs that change nothing whatever their arguments are.
const CHANGE_NOTHING: [&str; 12] =
    [":", "true", "false", "echo", "printf", "test", "[", "pwd", "sleep", "type", "which", "whoami"];

/// Whether a program only prints.
pub(super) fn changes_nothing(run: &Run<'_>) -> bool {
    CHANGE_NOTHING.contains(&run.name)
}

/// Arguments that may be names of files: texts and patterns are left out.
pub(super) fn file_arguments<'a>(run: &Run<'a>) -> Vec<&'a Value> {
    match run.name {
        "echo" | "printf" | "test" | "[" | "true" | ":" | "which" | "type" | "sleep" | "seq" | "expr"
        | "basename" | "dirname" => Vec::new(),
        "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" | "sed" | "awk" | "gawk" | "jq" | "yq"
        | "git-grep" | "ast-grep" | "sg" => {
            let given = Options(run.arguments).value_of(&["-e", "--regexp", "-f", "--file"]).is_some();
            Options(run.arguments).operands().into_iter().skip(usize::from(!given)).collect()
        }
        "git" | "gh" | "glab" => {
            let mut files = Vec::new();
            let mut skip = false;
            let is_grep = run.arguments.iter().any(|argument| argument.shown() == "grep");
            for argument in run.arguments {
                let text = argument.shown();
                if std::mem::take(&mut skip) {
                    continue;
                }
                if [
                    "-m",
                    "--message",
                    "-am",
                    "--grep",
                    "--author",
                    "--format",
                    "--pretty",
                    "-S",
                    "-G",
                    "--title",
                    "--body",
                    "-t",
                    "-b",
                    "-c",
                    "--jq",
                    "-q",
                    "--label",
                ]
                .contains(&text.as_str())
                    || is_grep && text == "-e"
                {
                    skip = true;
                } else if !text.contains([' ', '\n'])
                    && ![
                        "-m",
                        "--message=",
                        "--grep=",
                        "--author=",
                        "--format=",
                        "--pretty=",
                        "-am",
                        "-S",
                        "-G",
                        "-c",
                    ]
                    .iter()
                    .any(|option| text.starts_with(option))
                {
                    files.push(argument);
                }
            }
            if is_grep {
                files.retain(|file| file.shown().contains(['/', '.']));
            }
            files
        }
        "find" => run.arguments.iter().take_while(|argument| !argument.shown().starts_with('-')).collect(),
        _ => run.arguments.iter().filter(|argument| !argument.shown().contains('\n')).collect(),
    }
}

fn has(run: &Run<'_>, words: &[&str]) -> bool {
    run.arguments.iter().any(|argument| words.contains(&argument.shown().as_str()))
}

/// The first words that are no options.
fn verbs(run: &Run<'_>) -> Vec<String> {
    Options(run.arguments).operands().into_iter().map(Value::shown).take(4).collect()
}

fn verb(verbs: &[String], at: usize) -> &str {
    verbs.get(at).map(String::as_str).unwrap_or_default()
}

pub(super) fn objection(run: &Run<'_>, feed: &Feed) -> Objection {
    network::network(run)
        .or_else(|| system::system(run))
        .or_else(|| processes::processes(run))
        .or_else(|| packages::packages(run))
        .or_else(|| databases::databases(run, feed))
        .or_else(|| clouds::clouds(run))
}
