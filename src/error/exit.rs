//! The exit codes: one table, from which `--help`, the manual page and the README are made (design §3).
//!
//! 6 and 7 are answers of `status` and `stop`; no run ends with them.
//!
//! A caller (cron, a CI job) tells by the code alone whether a person is needed: 0 is a planned end, 10 to 15
//! say that the run stopped itself, 20 to 24 that nothing goes on before a person has acted.

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::core::kill_switch::KillSwitch;
use crate::core::outcome::Class;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Ended as planned.
    Planned = 0,
    /// A defect, or a failure nobody foresaw.
    Unexpected = 1,
    /// Command line or configuration.
    Usage = 2,
    /// Iteration 1 was not sure enough to start.
    ManualFallback = 3,
    /// The pre-launch verdict is "no".
    VerdictNo = 4,
    /// Another autopilot or a Claude session holds the repository.
    AlreadyRunning = 5,
    /// `status`, `stop`: no run goes on here.
    NotRunning = 6,
    /// `status`: the last run died without a word.
    Died = 7,
    /// `low-confidence-fallback`.
    LowConfidence = 10,
    /// `resource-overload`.
    ResourceOverload = 11,
    /// `stall-timeout`.
    Stall = 12,
    /// `spiral`.
    Spiral = 13,
    /// `failed-wave`.
    FailedWave = 14,
    /// `carryover-too-high`.
    Carryover = 15,
    /// A person must log in.
    Login = 20,
    /// A person must see to billing.
    Billing = 21,
    /// The usage limit lasts longer than `--max-wait`.
    UsageLimit = 22,
    /// The machine.
    Environment = 23,
    /// A person must answer a question.
    Blocked = 24,
    /// `user-abort` by SIGINT: 128 + 2.
    Interrupted = 130,
    /// `user-abort` by anything else: 128 + 15.
    Terminated = 143,
}

impl Exit {
    /// All codes, in order.
    pub const ALL: [Exit; 21] = [
        Exit::Planned,
        Exit::Unexpected,
        Exit::Usage,
        Exit::ManualFallback,
        Exit::VerdictNo,
        Exit::AlreadyRunning,
        Exit::NotRunning,
        Exit::Died,
        Exit::LowConfidence,
        Exit::ResourceOverload,
        Exit::Stall,
        Exit::Spiral,
        Exit::FailedWave,
        Exit::Carryover,
        Exit::Login,
        Exit::Billing,
        Exit::UsageLimit,
        Exit::Environment,
        Exit::Blocked,
        Exit::Interrupted,
        Exit::Terminated,
    ];

    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// A short name, stable, for records and scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Exit::Planned => "planned",
            Exit::Unexpected => "unexpected-error",
            Exit::Usage => "usage",
            Exit::ManualFallback => "manual-fallback",
            Exit::VerdictNo => "verdict-no",
            Exit::AlreadyRunning => "already-running",
            Exit::NotRunning => "not-running",
            Exit::Died => "died",
            Exit::LowConfidence => "low-confidence-fallback",
            Exit::ResourceOverload => "resource-overload",
            Exit::Stall => "stall-timeout",
            Exit::Spiral => "spiral",
            Exit::FailedWave => "failed-wave",
            Exit::Carryover => "carryover-too-high",
            Exit::Login => "login-needed",
            Exit::Billing => "billing",
            Exit::UsageLimit => "usage-limit",
            Exit::Environment => "environment",
            Exit::Blocked => "blocked",
            Exit::Interrupted => "interrupted",
            Exit::Terminated => "terminated",
        }
    }

    /// What it means, in one line.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Planned => {
                "ended as planned: sessions, hours, tokens or cost used up, no work left, dry run"
            }
            Exit::Unexpected => "unexpected error",
            Exit::Usage => "wrong command line or configuration",
            Exit::ManualFallback => "not sure enough to start the first session; a person chooses",
            Exit::VerdictNo => "the pre-launch verdict said no",
            Exit::AlreadyRunning => {
                "another autopilot or a Claude session holds this repository, or this one runs inside a run"
            }
            Exit::NotRunning => "`status` and `stop`: no run goes on here",
            Exit::Died => "`status`: the last run died without a word",
            Exit::LowConfidence => "not sure enough what to do next after the first session",
            Exit::ResourceOverload => "the machine is short of resources and many peers run",
            Exit::Stall => "a session hung and could not be healed",
            Exit::Spiral => "a session went round in circles",
            Exit::FailedWave => "a session, its sub-agents or --verify failed",
            Exit::Carryover => "too much of the planned work was left over",
            Exit::Login => "a person must log in",
            Exit::Billing => "a person must see to billing",
            Exit::UsageLimit => "the usage limit lasts longer than --max-wait",
            Exit::Environment => "no usable claude, a bad directory or a full disk",
            Exit::Blocked => "blocked on a question that a person must answer",
            Exit::Interrupted => "stopped by SIGINT (Ctrl-C)",
            Exit::Terminated => "stopped by SIGTERM, SIGHUP or a request from outside",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// The signal that asked for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    Hangup,
}

/// The exit code of a run that got as far as writing its record.
///
/// `failure` counts where `failed-wave` fired (20 to 24 are recorded as that switch, design §3) and where no
/// switch fired because the run never got to its first iteration. `fallback` is `fallback_to_manual`; `held`:
/// another Claude session was at work in the tree for longer than `--peer-grace`. A `user-abort` without a signal
/// was asked for from outside and counts like SIGTERM.
#[must_use]
pub fn of_run(
    kill_switch: Option<KillSwitch>,
    failure: Option<Class>,
    fallback: bool,
    held: bool,
    signal: Option<StopSignal>,
) -> Exit {
    match kill_switch {
        None if held => Exit::AlreadyRunning,
        None if fallback => Exit::ManualFallback,
        None => failure.map_or(Exit::Planned, of_failure),
        Some(
            KillSwitch::MaxSessionsReached | KillSwitch::MaxHoursExceeded | KillSwitch::TokenBudgetExceeded,
        ) => Exit::Planned,
        Some(KillSwitch::LowConfidenceFallback) => Exit::LowConfidence,
        Some(KillSwitch::ResourceOverload) => Exit::ResourceOverload,
        Some(KillSwitch::StallTimeout) => Exit::Stall,
        Some(KillSwitch::Spiral) => Exit::Spiral,
        Some(KillSwitch::FailedWave) => failure.map_or(Exit::FailedWave, of_failure),
        Some(KillSwitch::CarryoverTooHigh) => Exit::Carryover,
        Some(KillSwitch::UserAbort) => match signal {
            Some(StopSignal::Interrupt) => Exit::Interrupted,
            Some(StopSignal::Terminate | StopSignal::Hangup) | None => Exit::Terminated,
        },
    }
}

/// The exit code of a failure that ended a run.
fn of_failure(failure: Class) -> Exit {
    match failure {
        Class::Blocked => Exit::Blocked,
        Class::Auth => Exit::Login,
        Class::Billing => Exit::Billing,
        Class::UsageLimit => Exit::UsageLimit,
        Class::EnvRefused | Class::BinaryMissing | Class::Disk | Class::ModelUnavailable => Exit::Environment,
        Class::Ok
        | Class::OkExitAnomaly
        | Class::Incomplete
        | Class::IncompleteBackground
        | Class::StartupHang
        | Class::Stalled
        | Class::Stuck
        | Class::HungAfterResult
        | Class::TransientApi
        | Class::PolicyRefusal
        | Class::PoisonedSession
        | Class::ContextFull
        | Class::OutputLimit
        | Class::MaxTurns
        | Class::Budget
        | Class::Denied
        | Class::NoWork
        | Class::NoSession
        | Class::SessionInUse
        | Class::KilledByDriver
        | Class::KilledByOther
        | Class::UnknownError => Exit::FailedWave,
    }
}

/// The table as Markdown, for the README.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from("| code | name | meaning |\n|---:|---|---|\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "| {} | `{}` | {} |", exit.code(), exit.name(), exit.meaning());
    }
    text
}

/// The table for a terminal, each line indented by two.
#[must_use]
pub fn help_text() -> String {
    let mut text = String::new();
    for exit in Exit::ALL {
        let _ = writeln!(text, "  {:>3}  {}", exit.code(), exit.meaning());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        insta::assert_snapshot!(markdown());
    }

    #[test]
    fn help_text_has_a_line_for_each_code() {
        let text = help_text();
        for exit in Exit::ALL {
            assert!(text.contains(&format!("{:>3}  {}", exit.code(), exit.meaning())), "{exit:?}");
        }
        assert_eq!(text.lines().count(), Exit::ALL.len());
    }

    #[test]
    fn codes_rise_and_names_are_unique() {
        assert!(Exit::ALL.is_sorted_by(|a, b| a.code() < b.code()));
        let mut names: Vec<_> = Exit::ALL.iter().map(|exit| exit.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Exit::ALL.len());
    }

    #[test]
    fn run_without_a_switch() {
        assert_eq!(of_run(None, None, false, false, None).code(), 0);
        assert_eq!(of_run(None, None, true, false, None).code(), 3);
        assert_eq!(of_run(None, Some(Class::BinaryMissing), false, false, None).code(), 23);
    }

    #[test]
    fn a_repository_that_others_work_in() {
        assert_eq!(of_run(None, None, false, true, None).code(), 5);
        assert_eq!(of_run(Some(KillSwitch::UserAbort), None, false, true, None).code(), 143);
    }

    #[test]
    fn switches() {
        let check = |switch, code| {
            assert_eq!(of_run(Some(switch), None, false, false, None).code(), code, "{switch}");
        };
        check(KillSwitch::MaxSessionsReached, 0);
        check(KillSwitch::MaxHoursExceeded, 0);
        check(KillSwitch::TokenBudgetExceeded, 0);
        check(KillSwitch::LowConfidenceFallback, 10);
        check(KillSwitch::ResourceOverload, 11);
        check(KillSwitch::StallTimeout, 12);
        check(KillSwitch::Spiral, 13);
        check(KillSwitch::FailedWave, 14);
        check(KillSwitch::CarryoverTooHigh, 15);
        check(KillSwitch::UserAbort, 143);
    }

    #[test]
    fn planned_switches_are_those_of_the_core() {
        for switch in KillSwitch::ALL {
            let exit = of_run(Some(switch), None, false, false, None);
            assert_eq!(switch.is_planned(), exit == Exit::Planned, "{switch}");
        }
    }

    #[test]
    fn aborts() {
        for (signal, code) in
            [(StopSignal::Interrupt, 130), (StopSignal::Terminate, 143), (StopSignal::Hangup, 143)]
        {
            assert_eq!(of_run(Some(KillSwitch::UserAbort), None, false, false, Some(signal)).code(), code);
        }
    }

    #[test]
    fn failures_that_need_a_person() {
        let check = |failure, code| {
            let exit = of_run(Some(KillSwitch::FailedWave), Some(failure), false, false, None);
            assert_eq!(exit.code(), code, "{failure:?}");
        };
        check(Class::Auth, 20);
        check(Class::Billing, 21);
        check(Class::UsageLimit, 22);
        check(Class::EnvRefused, 23);
        check(Class::BinaryMissing, 23);
        check(Class::Disk, 23);
        check(Class::Blocked, 24);
        check(Class::PoisonedSession, 14);
        check(Class::ModelUnavailable, 23);
    }

    #[test]
    fn failure_does_not_hide_another_switch() {
        let failure = Some(Class::UsageLimit);
        assert_eq!(of_run(Some(KillSwitch::MaxHoursExceeded), failure, false, false, None).code(), 0);
        assert_eq!(
            of_run(Some(KillSwitch::UserAbort), failure, false, false, Some(StopSignal::Interrupt)).code(),
            130
        );
        assert_eq!(of_run(Some(KillSwitch::StallTimeout), failure, false, false, None).code(), 12);
    }
}
