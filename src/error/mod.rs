//! Errors at the edge: what the person at the terminal sees, and the exit code it becomes.
//!
//! Modules have their own error enums. Here, at the edge of the program, each becomes a [`CliError`]: a kind,
//! from which the exit code follows in one `match`, a message, the chain of causes and hints. Expected
//! endings of a run (a limit, a kill-switch) are not errors; they go through [`exit::of_run`].
//!
//! Messages are lower-case fragments without a full stop. A hint is a whole sentence's worth of what to do
//! next, and it names a command or a key.

use std::error::Error;
use std::fmt;

use crate::settings::error::SettingsError;

pub mod exit;

use exit::Exit;

/// What kind of failure it is. Decides the exit code and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A defect, or a failure nobody foresaw.
    Unexpected,
    /// The command line asks for something that does not exist or makes no sense.
    Usage,
    /// A configuration file or variable is wrong.
    Config,
    /// The machine: no usable `claude`, a directory that is not there, a full disk.
    Environment,
    /// Another autopilot holds the repository, or this one was started inside a run.
    AlreadyRunning,
    /// The pre-launch verdict is "no".
    VerdictNo,
    /// A person must log in.
    Login,
    /// A person must see to billing.
    Billing,
    /// The usage limit lasts longer than `--max-wait`.
    UsageLimit,
    /// A person must answer a question.
    Blocked,
}

impl ErrorKind {
    /// The exit code of the process.
    #[must_use]
    pub fn exit(self) -> Exit {
        match self {
            ErrorKind::Unexpected => Exit::Unexpected,
            ErrorKind::Usage | ErrorKind::Config => Exit::Usage,
            ErrorKind::Environment => Exit::Environment,
            ErrorKind::AlreadyRunning => Exit::AlreadyRunning,
            ErrorKind::VerdictNo => Exit::VerdictNo,
            ErrorKind::Login => Exit::Login,
            ErrorKind::Billing => Exit::Billing,
            ErrorKind::UsageLimit => Exit::UsageLimit,
            ErrorKind::Blocked => Exit::Blocked,
        }
    }
}

/// A failure on its way to the terminal.
#[derive(Debug)]
pub struct CliError {
    kind: ErrorKind,
    error: Box<dyn Error + Send + Sync>,
    cause: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
}

impl CliError {
    /// A failure with a message of its own.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        CliError { kind, error: message.into().into(), cause: None, hints: Vec::new() }
    }

    /// A failure of the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        CliError::new(ErrorKind::Usage, message)
    }

    /// A failure of the machine.
    pub fn environment(message: impl Into<String>) -> Self {
        CliError::new(ErrorKind::Environment, message)
    }

    /// A failure nobody foresaw.
    pub fn unexpected(message: impl Into<String>) -> Self {
        CliError::new(ErrorKind::Unexpected, message)
    }

    /// Wraps an error of a module: its own words become the message, its causes the chain.
    pub fn from_error(kind: ErrorKind, error: impl Error + Send + Sync + 'static) -> Self {
        CliError { kind, error: Box::new(error), cause: None, hints: Vec::new() }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }

    /// Adds what the person can do about it.
    #[must_use]
    pub fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The exit code of the process.
    pub fn exit(&self) -> Exit {
        self.kind.exit()
    }

    /// The causes in words, outermost first. What the words before end with already is not said again.
    pub fn causes(&self) -> Vec<String> {
        let mut said = self.to_string();
        std::iter::successors(self.source(), |cause| (**cause).source())
            .map(ToString::to_string)
            .filter(|cause| {
                let new = !said.ends_with(cause.as_str());
                said.clone_from(cause);
                new
            })
            .collect()
    }

    /// What the person can do, most useful first.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for CliError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Some(cause) => Some(cause.as_ref()),
            None => self.error.source(),
        }
    }
}

impl From<SettingsError> for CliError {
    fn from(error: SettingsError) -> Self {
        let kind = if error.is_command_line() { ErrorKind::Usage } else { ErrorKind::Config };
        let hints = error.hints();
        hints.into_iter().fold(CliError::from_error(kind, error), CliError::hinted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read {path}")]
    struct Outer {
        path: &'static str,
        source: Inner,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("permission denied")]
    struct Inner;

    #[test]
    fn wrapped_error_keeps_its_words_and_its_causes() {
        let error = CliError::from_error(ErrorKind::Config, Outer { path: "a.toml", source: Inner });
        assert_eq!(error.to_string(), "cannot read a.toml");
        assert_eq!(error.causes(), ["permission denied"]);
    }

    #[test]
    fn a_cause_that_the_message_ends_with_is_not_repeated() {
        let error = CliError::environment("cannot read a.toml: permission denied").caused_by(Inner);
        assert_eq!(error.causes(), [""; 0]);
    }

    #[test]
    fn own_message_with_a_cause() {
        let error =
            CliError::environment("no start").caused_by(Outer { path: "b", source: Inner }).hinted("try c");
        assert_eq!(error.causes(), ["cannot read b", "permission denied"]);
        assert_eq!(error.hints(), ["try c"]);
        assert_eq!(error.exit(), Exit::Environment);
    }

    #[test]
    fn kinds_and_their_codes() {
        for (kind, code) in [
            (ErrorKind::Unexpected, 1),
            (ErrorKind::Usage, 2),
            (ErrorKind::Config, 2),
            (ErrorKind::VerdictNo, 4),
            (ErrorKind::AlreadyRunning, 5),
            (ErrorKind::Login, 20),
            (ErrorKind::Billing, 21),
            (ErrorKind::UsageLimit, 22),
            (ErrorKind::Environment, 23),
            (ErrorKind::Blocked, 24),
        ] {
            assert_eq!(kind.exit().code(), code, "{kind:?}");
        }
    }
}
