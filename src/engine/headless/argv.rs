//! The command line of one attempt, as a pure function.
//!
//! The prompt is never among the arguments: it may be larger than the system allows (field-reports C16) and
//! everybody on the machine could read it.

use std::ffi::OsString;

/// How the prompt reaches the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `--input-format stream-json`: prompt and control requests as lines on an open stdin (claude-code §5).
    Control,
    /// Plain `-p`: the prompt on stdin, then end of file. For a CLI that does not answer `initialize`.
    Plain,
}

/// What is passed through from the settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PassThrough {
    /// `--model`.
    pub model: Option<String>,
    /// `--fallback-model`.
    pub fallback_model: Option<String>,
    /// `--permission-mode`.
    pub permission_mode: Option<String>,
    /// `--allowed-tools`, each as given.
    pub allowed_tools: Vec<String>,
    /// `--mcp-config`, each as given.
    pub mcp_config: Vec<String>,
    /// Where a person would be asked for permission, ask over the control protocol (claude-code §5).
    pub ask_permission: bool,
    /// `--claude-arg`, in order, last.
    pub extra: Vec<String>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation<'a> {
    /// Id of the conversation.
    pub session_id: &'a str,
    /// Continue it instead of starting it.
    pub resume: bool,
    /// How the prompt is sent.
    pub protocol: Protocol,
    /// JSON schema of the session report.
    pub report_schema: Option<&'a str>,
    /// Dollars this process may spend.
    pub budget_usd: Option<f64>,
    /// From the settings.
    pub pass_through: &'a PassThrough,
}

/// Tools with which a session asks to be woken up later. In print mode nobody wakes it: the turn ends, and what was
/// to be looked at is not (field-reports B01). A CLI that does not know a name does not mind it.
pub(in crate::engine) const WAKE_UP_TOOLS: [&str; 3] = ["ScheduleWakeup", "CronCreate", "Monitor"];

/// The arguments, without the program.
#[must_use]
pub fn argv(invocation: &Invocation<'_>) -> Vec<OsString> {
    let Invocation { session_id, resume, protocol, report_schema, budget_usd, pass_through } = invocation;
    let mut args: Vec<OsString> = Vec::new();
    let mut push = |parts: &[&str]| args.extend(parts.iter().map(OsString::from));
    push(&["-p", "--output-format", "stream-json", "--verbose"]);
    if *protocol == Protocol::Control {
        push(&["--input-format", "stream-json"]);
        if pass_through.ask_permission {
            push(&["--permission-prompt-tool", "stdio"]);
        }
    }
    push(&[if *resume { "--resume" } else { "--session-id" }, session_id]);
    let PassThrough {
        model,
        fallback_model,
        permission_mode,
        allowed_tools,
        mcp_config,
        ask_permission: _,
        extra,
    } = pass_through;
    for (flag, value) in
        [("--permission-mode", permission_mode), ("--model", model), ("--fallback-model", fallback_model)]
    {
        if let Some(value) = value {
            push(&[flag, value]);
        }
    }
    for (flag, values) in [("--allowed-tools", allowed_tools), ("--mcp-config", mcp_config)] {
        for value in values {
            push(&[flag, value]);
        }
    }
    push(&["--disallowed-tools", &WAKE_UP_TOOLS.join(",")]);
    if let Some(schema) = report_schema {
        push(&["--json-schema", schema]);
    }
    if let Some(budget) = budget_usd {
        // The CLI refuses 0; the smallest amount it accepts ends the turn just as well.
        push(&["--max-budget-usd", &format!("{:.4}", budget.max(0.0001))]);
    }
    args.extend(extra.iter().map(OsString::from));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192d3a4-5b6c-4d7e-8f90-a1b2c3d4e5f6";

    fn words(invocation: &Invocation<'_>) -> String {
        argv(invocation).iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn first_turn_over_the_control_protocol() {
        let pass_through = PassThrough {
            permission_mode: Some("acceptEdits".into()),
            ask_permission: true,
            ..PassThrough::default()
        };
        let invocation = Invocation {
            session_id: ID,
            resume: false,
            protocol: Protocol::Control,
            report_schema: Some("{}"),
            budget_usd: None,
            pass_through: &pass_through,
        };
        insta::assert_snapshot!(words(&invocation), @"-p --output-format stream-json --verbose --input-format stream-json --permission-prompt-tool stdio --session-id 0192d3a4-5b6c-4d7e-8f90-a1b2c3d4e5f6 --permission-mode acceptEdits --disallowed-tools ScheduleWakeup,CronCreate,Monitor --json-schema {}");
    }

    #[test]
    fn a_later_turn_plain_with_everything_passed_through() {
        let pass_through = PassThrough {
            model: Some("opus".into()),
            fallback_model: Some("sonnet".into()),
            permission_mode: Some("dontAsk".into()),
            allowed_tools: vec!["Bash(git:*)".into(), "Edit".into()],
            mcp_config: vec!["mcp.json".into()],
            ask_permission: true,
            extra: vec!["--max-turns".into(), "7".into()],
        };
        let invocation = Invocation {
            session_id: ID,
            resume: true,
            protocol: Protocol::Plain,
            report_schema: None,
            budget_usd: Some(1.5),
            pass_through: &pass_through,
        };
        insta::assert_snapshot!(words(&invocation), @"-p --output-format stream-json --verbose --resume 0192d3a4-5b6c-4d7e-8f90-a1b2c3d4e5f6 --permission-mode dontAsk --model opus --fallback-model sonnet --allowed-tools Bash(git:*) --allowed-tools Edit --mcp-config mcp.json --disallowed-tools ScheduleWakeup,CronCreate,Monitor --max-budget-usd 1.5000 --max-turns 7");
    }
}
