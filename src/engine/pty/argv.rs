//! Arguments of the interactive program.

use std::ffi::OsString;

use crate::engine::headless::{Invocation, WAKE_UP_TOOLS};

/// Tools that put a menu on the screen for a person; without them the model decides, or reports that it cannot.
const MENU_TOOLS: [&str; 3] = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];

/// The arguments, without the program. What only print mode knows is left out (see [`super`]).
#[must_use]
pub fn argv(invocation: &Invocation<'_>) -> Vec<OsString> {
    let pass_through = invocation.pass_through;
    let mut args: Vec<OsString> = Vec::new();
    let mut push = |parts: &[&str]| args.extend(parts.iter().map(OsString::from));
    push(&[if invocation.resume { "--resume" } else { "--session-id" }, invocation.session_id]);
    for (flag, value) in
        [("--permission-mode", &pass_through.permission_mode), ("--model", &pass_through.model)]
    {
        if let Some(value) = value {
            push(&[flag, value]);
        }
    }
    for (flag, values) in
        [("--allowed-tools", &pass_through.allowed_tools), ("--mcp-config", &pass_through.mcp_config)]
    {
        for value in values {
            push(&[flag, value]);
        }
    }
    let not_offered = [&WAKE_UP_TOOLS[..], &MENU_TOOLS[..]].concat().join(",");
    push(&["--disallowed-tools", &not_offered]);
    args.extend(pass_through.extra.iter().map(OsString::from));
    args
}
