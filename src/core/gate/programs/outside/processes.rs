//! What ends processes.

use super::super::super::shell::Value;
use super::super::{Objection, Run, never, refused};
use super::has;

pub(super) fn processes(run: &Run<'_>) -> Objection {
    match run.name {
        "killall" | "pkill" | "killall5" | "taskkill" | "stop-process" | "skill" | "fkill" => {
            if run.name == "taskkill" && has(run, &["/PID", "/pid"]) && !has(run, &["/IM", "/im"]) {
                return None;
            }
            refused("it ends processes by name, also those of others; end your own by id, with `kill`")
        }
        "kill" => {
            let operands: Vec<String> = run.arguments.iter().map(Value::shown).collect();
            let signal_only = operands.iter().any(|text| ["-l", "-L", "-0"].contains(&text.as_str()));
            if signal_only {
                return None;
            }
            // `kill -9 -1`, `kill -- -1`, `kill 1`, `kill 0`
            let named_signal =
                operands.first().is_some_and(|text| text.starts_with('-') && text.len() > 1 && text != "--");
            let rest = &operands[usize::from(named_signal && operands.len() > 1).min(operands.len())..];
            if rest.iter().any(|text| ["-1", "1", "-0", "0"].contains(&text.as_str()))
                && rest.first().is_none_or(|text| text != "-s")
            {
                return never("it ends every process it may");
            }
            None
        }
        "fuser"
            if run
                .arguments
                .iter()
                .any(|argument| argument.shown().starts_with('-') && argument.shown().contains('k')) =>
        {
            refused(
                "it ends processes by what they use, also those of others; end your own by id, with `kill`",
            )
        }
        _ => None,
    }
}
