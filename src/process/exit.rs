//! How processes end.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal as RawSignal;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Exit {
    /// It exited with this code. A shell reports 128 + n for a command that signal n ended.
    Code(i32),
    /// A signal ended it. Never a success (field-reports J06).
    Signal(i32),
}

impl Exit {
    /// Exit code 0. On its own this proves little: Claude Code exits 0 when it is interrupted (claude-code
    /// §6).
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // Only stopped or continued processes have neither, and nobody here asks for those.
            (None, None) => Self::Code(status.into_raw()),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match signal_name(number) {
                Some(name) => write!(f, "signal {number} ({name})"),
                None => write!(f, "signal {number}"),
            },
        }
    }
}

/// Numbers differ between systems, so the table is made of the system's own constants.
fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: [(RawSignal, &str); 17] = [
        (RawSignal::HUP, "SIGHUP"),
        (RawSignal::INT, "SIGINT"),
        (RawSignal::QUIT, "SIGQUIT"),
        (RawSignal::ILL, "SIGILL"),
        (RawSignal::TRAP, "SIGTRAP"),
        (RawSignal::ABORT, "SIGABRT"),
        (RawSignal::BUS, "SIGBUS"),
        (RawSignal::FPE, "SIGFPE"),
        (RawSignal::KILL, "SIGKILL"),
        (RawSignal::USR1, "SIGUSR1"),
        (RawSignal::SEGV, "SIGSEGV"),
        (RawSignal::USR2, "SIGUSR2"),
        (RawSignal::PIPE, "SIGPIPE"),
        (RawSignal::ALARM, "SIGALRM"),
        (RawSignal::TERM, "SIGTERM"),
        (RawSignal::XCPU, "SIGXCPU"),
        (RawSignal::XFSZ, "SIGXFSZ"),
    ];
    NAMES.iter().find(|(signal, _)| signal.as_raw() == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses() {
        let check = |raw: i32, expected: Exit, text: &str, success: bool| {
            let exit = Exit::from(ExitStatus::from_raw(raw));
            assert_eq!((exit, exit.to_string().as_str(), exit.success()), (expected, text, success));
        };
        check(0, Exit::Code(0), "exit code 0", true);
        check(1 << 8, Exit::Code(1), "exit code 1", false);
        check(137 << 8, Exit::Code(137), "exit code 137", false);
        check(9, Exit::Signal(9), "signal 9 (SIGKILL)", false);
        check(6 | 0x80, Exit::Signal(6), "signal 6 (SIGABRT)", false);
        check(64, Exit::Signal(64), "signal 64", false);
    }
}
