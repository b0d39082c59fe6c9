//! What a person does next, for each way a run can end. The most useful step first.

use crate::core::event::RunEnd;
use crate::core::kill_switch::KillSwitch;
use crate::core::outcome::Class;
use crate::error::exit::Exit;

/// Commands, each with a word on why.
pub(super) fn next_steps(run_id: &str, end: &RunEnd, exit: Exit) -> Vec<String> {
    let resume = format!("autopilot resume {run_id}");
    let mut steps: Vec<String> = Vec::new();
    let mut step = |text: &str| steps.push(text.to_owned());
    match exit {
        Exit::Login => {
            step(
                "claude /login    (or a fresh CLAUDE_CODE_OAUTH_TOKEN from `claude setup-token`, or a valid ANTHROPIC_API_KEY)",
            );
            step(&resume);
        }
        Exit::Billing => {
            step("see to the credit or the plan of the account, then:");
            step(&resume);
        }
        Exit::UsageLimit => {
            step(&format!("{resume}    (once the limit has reset, or with a larger --max-wait)"));
        }
        Exit::Environment if end.failure_class == Some(Class::ModelUnavailable) => {
            step(&format!("{resume} --model NAME    (one that this account may use)"));
        }
        Exit::Environment => {
            step("autopilot doctor    (says what is wrong here)");
            step(&resume);
        }
        Exit::Blocked => {
            step("answer the question: write it into the prompt or a file of the repository, then:");
            step(&format!("{resume} --prompt '…'"));
        }
        Exit::ManualFallback => {
            step("autopilot --prompt 'what is to be done'    (the work in words)");
            step("write tasks as `- [ ] …` into .project/plan.md, or loose ones into .project/inbox.md");
            step("autopilot --mode feature    (let a session choose)");
            step(&format!("autopilot explain {run_id}    (why it was not sure)"));
        }
        Exit::VerdictNo => {
            step("autopilot verdict    (which gate said no, and on what)");
            step("autopilot --autonomy advisory    (start all the same)");
        }
        Exit::AlreadyRunning => {
            let pids: Vec<String> = end.peers.iter().map(|peer| peer.pid.to_string()).collect();
            step(&format!("end the other Claude session (process {}), then:", pids.join(", ")));
            step(&resume);
            step(&format!("{resume} --allow-peers    (works beside it, in the same files)"));
        }
        Exit::Interrupted | Exit::Terminated => step(&resume),
        Exit::Planned if end.reserved_window.is_some() => {
            step(&format!("{resume}    (once that window has reset, or with a smaller --reserve)"));
        }
        Exit::Planned if end.work_done => step("git log    (the work was reported done: look it over)"),
        _ => match end.kill_switch {
            Some(KillSwitch::MaxSessionsReached) => {
                let more = end.iterations.saturating_mul(2).clamp(1, 50);
                step(&format!(
                    "{resume} --max-sessions {more}    (with the same work, if there is more to do)"
                ));
            }
            Some(KillSwitch::MaxHoursExceeded) => step(&resume),
            Some(KillSwitch::TokenBudgetExceeded) => {
                step(&format!("{resume} --max-tokens N    (or --max-cost USD, with a larger budget)"));
            }
            Some(KillSwitch::ResourceOverload) => {
                step("close other Claude sessions or wait, then:");
                step(&resume);
            }
            Some(KillSwitch::StallTimeout) => {
                step("look at what the session did last (stream/ in the folder of the run), then:");
                step(&resume);
            }
            Some(KillSwitch::Spiral | KillSwitch::CarryoverTooHigh) => {
                step("git log, git diff    (look at the work; then cut the scope or split it)");
            }
            Some(KillSwitch::FailedWave) if end.failure_class == Some(Class::TransientApi) => step(&resume),
            Some(KillSwitch::FailedWave) => {
                step("git log, git diff    (look at what was left; mend the cause first)");
                step(&resume);
            }
            Some(KillSwitch::LowConfidenceFallback) => {
                step("autopilot --prompt 'what is to be done'    (the work in words)");
                step("write tasks as `- [ ] …` into .project/plan.md");
                step(&format!("autopilot explain {run_id}    (why it was not sure)"));
            }
            Some(KillSwitch::UserAbort) | None => {}
        },
    }
    steps
}
