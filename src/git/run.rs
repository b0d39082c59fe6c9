//! Runs one reading git command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::process::{CaptureError, CaptureSpec, Captured, Exit, capture};

use super::{GitError, TIMEOUT};

/// Most bytes of an answer that are kept: over 100,000 changed files.
const MAX_OUTPUT: usize = 16 << 20;

/// Configuration that keeps a question from having effects: no monitor daemon, no pager, no colour.
const CONFIG: [&str; 3] = ["core.fsmonitor=false", "core.quotePath=false", "color.ui=false"];

/// What a command answered.
#[derive(Debug)]
pub(super) struct Output {
    pub exit: Exit,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// `stdout` was longer than the limit.
    pub truncated: bool,
}

impl Output {
    pub(super) fn success(&self) -> bool {
        self.exit.success()
    }
}

/// Runs `git <args>` in `dir`; a failure of git itself is an answer.
pub(super) async fn git(dir: &Path, args: &[&str]) -> Result<Output, GitError> {
    let mut words = vec![OsString::from("--no-pager")];
    for setting in CONFIG {
        words.extend(["-c".into(), setting.into()]);
    }
    words.extend(args.iter().map(OsString::from));
    run_git(dir, words).await
}

/// Runs `git <args>` in `dir`; a failure of git is an error.
pub(super) async fn git_ok(dir: &Path, args: &[&str]) -> Result<Output, GitError> {
    let output = git(dir, args).await?;
    if output.success() {
        return Ok(output);
    }
    let command = args.first().copied().unwrap_or_default();
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(GitError::from_failure(dir, command, output.exit.to_string(), &stderr))
}

/// The environment of git: no `GIT_*` variable of ours, English messages, and nothing that asks, locks or
/// fetches.
fn environment(ours: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let dropped = |name: &OsStr| {
        let name = name.as_bytes();
        name.starts_with(b"GIT_")
            || name.starts_with(b"LC_")
            || [&b"LANGUAGE"[..], b"SSH_ASKPASS"].contains(&name)
    };
    let fixed = [
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("LC_ALL", "C"),
    ];
    let fixed = fixed.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    ours.filter(|(name, _)| !dropped(name)).chain(fixed).collect()
}

/// A path as git printed it.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

async fn run_git(dir: &Path, args: Vec<OsString>) -> Result<Output, GitError> {
    let mut spec = CaptureSpec::new("git", dir);
    spec.args = args;
    spec.env = Some(environment(std::env::vars_os()));
    spec.timeout = TIMEOUT;
    spec.max_output = MAX_OUTPUT;
    match capture(&spec).await {
        Ok(Captured { exit, stdout, stderr, truncated, left_open: _ }) => {
            Ok(Output { exit, stdout, stderr, truncated })
        }
        Err(CaptureError::Spawn(error)) => Err(GitError::from_spawn(dir, error)),
        Err(CaptureError::Io { source, .. }) => Err(GitError::Io { dir: dir.to_path_buf(), source }),
        Err(CaptureError::TimedOut { after, .. }) => {
            Err(GitError::Timeout { dir: dir.to_path_buf(), seconds: after.as_secs() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_git_variable_gets_through() {
        let ours = [
            "GIT_DIR",
            "GIT_INDEX_FILE",
            "GIT_CONFIG_COUNT",
            "GIT_OPTIONAL_LOCKS",
            "LC_ALL",
            "LC_MESSAGES",
            "PATH",
            "HOME",
            "DIGIT_X",
        ];
        let env = environment(ours.into_iter().map(|name| (name.into(), "x".into())));
        let shown: Vec<String> =
            env.iter().map(|(k, v)| format!("{}={}", k.to_string_lossy(), v.to_string_lossy())).collect();
        assert_eq!(
            shown,
            [
                "PATH=x",
                "HOME=x",
                "DIGIT_X=x",
                "GIT_OPTIONAL_LOCKS=0",
                "GIT_TERMINAL_PROMPT=0",
                "GIT_NO_LAZY_FETCH=1",
                "LC_ALL=C"
            ]
        );
    }
}
