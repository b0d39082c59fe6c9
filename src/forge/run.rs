//! Runs one command of `gh` or `glab`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use thiserror::Error;

use crate::process::{CaptureError, CaptureSpec, SpawnError, capture};

use super::{ForgeQuery, plain};

/// Most bytes of an answer that are kept. `glab` sends whole issues, with texts of up to 1 MiB each.
const MAX_OUTPUT: usize = 16 << 20;

/// Lines of an error message that are shown, and characters of them.
const SAID: (usize, usize) = (3, 300);

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// The program is there and was not started.
    #[error("cannot be started: {0}")]
    Start(#[from] SpawnError),
    /// It says that something is wrong: no network, not logged in, no such project, an unknown option.
    #[error("failed with {exit}{}", after_colon(said))]
    Refused {
        /// How it ended.
        exit: String,
        /// What it said on standard error, shortened.
        said: String,
    },
    /// It hung, and was ended with all that it had started.
    #[error("did not answer within {} s and was ended{}", limit.as_secs_f32(), left(*survivors))]
    TimedOut {
        /// The time allowed.
        limit: Duration,
        /// Processes that could not be ended.
        survivors: usize,
    },
    /// The answer is longer than anything sensible.
    #[error("answered more than {} MiB", MAX_OUTPUT >> 20)]
    TooLong,
    /// Its pipes or its status could not be read.
    #[error("could not be read from: {0}")]
    Io(io::Error),
}

fn after_colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

fn left(survivors: usize) -> String {
    if survivors == 0 { String::new() } else { format!(", but {survivors} of its processes live on") }
}

/// Runs the program of the forge and gives what it answered.
pub(super) async fn ask(query: &ForgeQuery, args: &[String]) -> Result<Vec<u8>, Failure> {
    let mut spec = CaptureSpec::new(&query.program, &query.root);
    spec.args = args.iter().map(OsString::from).collect();
    spec.env = Some(environment(std::env::vars_os(), query.forge.host.as_deref()));
    spec.timeout = query.timeout;
    spec.max_output = MAX_OUTPUT;
    match capture(&spec).await {
        Ok(captured) if !captured.exit.success() => {
            Err(Failure::Refused { exit: captured.exit.to_string(), said: said(&captured.stderr) })
        }
        Ok(captured) if captured.stdout.len() >= MAX_OUTPUT => Err(Failure::TooLong),
        Ok(captured) => Ok(captured.stdout),
        Err(CaptureError::Spawn(error)) => Err(Failure::Start(error)),
        Err(CaptureError::Io { source, .. }) => Err(Failure::Io(source)),
        Err(CaptureError::TimedOut { after, stop, .. }) => {
            Err(Failure::TimedOut { limit: after, survivors: stop.survivors.len() })
        }
    }
}

/// The first lines of an error message, as one.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<String> = text
        .lines()
        .map(|line| plain(line, SAID.1))
        .filter(|line| !line.is_empty())
        .take(SAID.0)
        .map(|line| line.split(' ').map(without_user).collect::<Vec<_>>().join(" "))
        .collect();
    plain(&lines.join("; "), SAID.1)
}

/// A URL without user and password: the text goes into the journal.
fn without_user(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => word.to_owned(),
    }
}

/// Whether the program is there: a bare name is looked for in the folders of `search_path`.
pub(super) fn is_installed(program: &Path, root: &Path, search_path: Option<OsString>) -> bool {
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.components().count() > 1 {
        return executable(&root.join(program));
    }
    search_path.is_some_and(|folders| {
        std::env::split_paths(&folders).any(|folder| executable(&folder.join(program)))
    })
}

/// Variables that make the programs ask, notify, colour, trace or look at another repository.
const DROPPED: [&str; 13] = [
    "GH_REPO",
    "GITLAB_REPO",
    "GITLAB_GROUP",
    "REMOTE_ALIAS",
    "GH_DEBUG",
    "GLAB_DEBUG",
    "GLAB_DEBUG_HTTP",
    "DEBUG",
    "GH_FORCE_TTY",
    "CLICOLOR_FORCE",
    "FORCE_HYPERLINKS",
    "GLAB_FORCE_HYPERLINKS",
    // Its successor is set; `glab` complains about this one.
    "NO_PROMPT",
];

/// Variables that name a host. They stay when it is the one of the remote: `glab` then knows whose the token
/// of the environment is. Another one must not redirect the question (#872, #904).
const HOSTS: [&str; 4] = ["GH_HOST", "GITLAB_HOST", "GL_HOST", "GITLAB_URI"];

/// The environment of the programs.
fn environment(
    ours: impl Iterator<Item = (OsString, OsString)>,
    host: Option<&str>,
) -> Vec<(OsString, OsString)> {
    let fixed = [
        ("GH_PROMPT_DISABLED", "1"),
        ("GH_NO_UPDATE_NOTIFIER", "1"),
        ("GH_NO_EXTENSION_UPDATE_NOTIFIER", "1"),
        ("GH_SPINNER_DISABLED", "1"),
        ("GLAB_NO_PROMPT", "true"),
        ("GLAB_CHECK_UPDATE", "false"),
        ("GLAB_SEND_TELEMETRY", "false"),
        ("NO_COLOR", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ];
    let redirects = |name: &OsStr, value: &OsStr| {
        let value = value.to_string_lossy().to_lowercase();
        let value = value.split_once("://").map_or(value.as_str(), |(_, rest)| rest).trim_end_matches('/');
        HOSTS.iter().any(|known| name == *known) && host.is_some_and(|host| value != host)
    };
    let dropped = |name: &OsStr, value: &OsStr| {
        name.as_bytes().starts_with(b"GIT_")
            || DROPPED.iter().any(|known| name == *known)
            || fixed.iter().any(|(known, _)| name == *known)
            || redirects(name, value)
    };
    let kept = ours.filter(|(name, value)| !dropped(name, value));
    kept.chain(fixed.map(|(name, value)| (name.into(), value.into()))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn nothing_of_the_environment_redirects_a_question() {
        let check = |ours: &[(&str, &str)], host: Option<&str>, kept: &[&str]| {
            let ours = ours.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
            let env = environment(ours, host);
            let names: Vec<_> = env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
            assert_eq!(names[..names.len() - 9], *kept, "{env:?}");
            assert_eq!(env.iter().filter(|(name, _)| name == "NO_COLOR").count(), 1);
        };
        check(&[("PATH", "x"), ("HOME", "x"), ("GH_TOKEN", "t")], None, &["PATH", "HOME", "GH_TOKEN"]);
        check(&[("GH_REPO", "a/b"), ("GITLAB_REPO", "a/b"), ("GIT_DIR", "x"), ("DEBUG", "1")], None, &[]);
        check(&[("NO_COLOR", ""), ("GLAB_CHECK_UPDATE", "true"), ("NO_PROMPT", "1")], None, &[]);
        let host = Some("gitlab.example.com");
        check(&[("GITLAB_HOST", "gitlab.example.com")], host, &["GITLAB_HOST"]);
        check(&[("GITLAB_HOST", "https://GitLab.example.com/")], host, &["GITLAB_HOST"]);
        check(&[("GITLAB_HOST", "gitlab.example.org"), ("GH_HOST", "x"), ("GL_HOST", "")], host, &[]);
        check(&[("GITLAB_HOST", "gitlab.example.org")], None, &["GITLAB_HOST"]);
    }

    #[test]
    fn what_an_error_message_says() {
        let check = |stderr: &str, expected: &str| assert_eq!(said(stderr.as_bytes()), expected, "{stderr}");
        check("", "");
        check("\n  \n", "");
        check("HTTP 404\n", "HTTP 404");
        check("\n  ERROR  \n\n  no\tnetwork\n", "ERROR; no network");
        check("1\n2\n3\n4\n", "1; 2; 3");
        check("\u{1b}[31mred\u{1b}[0m", "[31mred [0m");
        check("GET https://u:secret@h.example/x: 401", "GET https://h.example/x: 401");
        check("GET https://h.example/u@x: 401", "GET https://h.example/u@x: 401");
        check("GET https://u:secret@h.example", "GET https://h.example");
        assert_eq!(said(&vec![b'x'; 5000]).chars().count(), 300);
    }

    #[test]
    fn where_a_program_is_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, mode) in [("gh", 0o755), ("text", 0o644)] {
            drop(fs::File::create(at(name)).unwrap());
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(at("glab")).unwrap();
        let path = || Some(std::env::join_paths([at("none"), folder.path().to_path_buf()]).unwrap());
        let check = |program: &str, path: Option<OsString>, expected: bool| {
            assert_eq!(is_installed(Path::new(program), folder.path(), path), expected, "{program}");
        };
        check("gh", path(), true);
        check("gh", Some(at("none").into()), false);
        check("gh", Some(OsString::new()), false);
        check("gh", None, false);
        check("text", path(), false);
        check("glab", path(), false);
        check("./gh", None, true);
        check(at("gh").to_str().unwrap(), None, true);
        check(at("none").to_str().unwrap(), path(), false);
    }
}
