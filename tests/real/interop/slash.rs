//! `commands/autopilot.md`, the slash command for people inside Claude Code.

use std::path::Path;

use crate::stub::Reply;
use crate::support::{Night, STEP};

const COMMAND: &str = include_str!("../../../commands/autopilot.md");

#[test]
fn the_command_is_expanded_with_its_arguments_and_may_run_what_it_asks_for() {
    let night = Night::new();
    night.install("autopilot", Path::new(env!("CARGO_BIN_EXE_autopilot")));
    night.write(".claude/commands/autopilot.md", COMMAND);
    night.stub.next(Reply::bash("autopilot status --json")).next(Reply::text("No run yet."));
    let mut claude = night.claude(&["-p", "/autopilot status --json"]);
    claude.close_stdin();
    assert_eq!(claude.wait(STEP).code(), Some(0), "{}{}", claude.stdout(), claude.stderr());
    assert_eq!(claude.stdout(), "No run yet.");

    let requests = night.stub.requests();
    let (_, body) = COMMAND.split_once("\n---\n").expect("front matter");
    let expanded = body.replace("$ARGUMENTS", "status --json");
    assert!(expanded.contains("The person asks for: status --json\n"));
    let asked = requests[0].user_text();
    assert!(asked.contains(expanded.trim_end()), "{asked}");
    assert!(!asked.contains("allowed-tools"), "{asked}");
    // Its front matter allows the command, in a session in which nothing else is.
    let [(result, failed)] = &requests[1].tool_results()[..] else { panic!("one tool result") };
    // It ran: with no run at all its exit code says so, as that of a question with the answer no.
    assert!(*failed && result.contains("Exit code 6") && result.contains("\"running\":false"), "{result}");
}

/// Without arguments it asks for the status by itself, so none may be made up.
#[test]
fn without_arguments_nothing_is_left_of_the_place_for_them() {
    let night = Night::new();
    night.write(".claude/commands/autopilot.md", COMMAND);
    night.stub.next(Reply::text("Nothing to tell."));
    let mut claude = night.claude(&["-p", "/autopilot"]);
    claude.close_stdin();
    assert_eq!(claude.wait(STEP).code(), Some(0), "{}{}", claude.stdout(), claude.stderr());
    let asked = night.stub.requests()[0].user_text();
    assert!(asked.contains("The person asks for:") && !asked.contains("$ARGUMENTS"), "{asked}");
}
