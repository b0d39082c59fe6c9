//! What has to be true before a run starts: a repository, a prompt, a program, nobody else.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::core::signals::Signals;
use crate::driver::survey::Sources;
use crate::error::{CliError, ErrorKind};
use crate::forge::{self, ForgeKind};
use crate::git::{self, GitError, Repo};
use crate::settings::{self, PromptSource, Settings, env_vars};
use crate::state::layout::Layout;

/// Largest prompt the CLI takes on stdin (field-reports C15).
const MAX_PROMPT: u64 = 10 * 1024 * 1024;
/// Room for what our templates add to it.
const TEMPLATE_ROOM: u64 = 64 * 1024;

/// Finds the repository `directory` is in.
pub(super) async fn repository(directory: &Path) -> Result<Repo, CliError> {
    if !directory.is_dir() {
        return Err(CliError::environment(format!("{} is not a directory", directory.display()))
            .hinted("give an existing directory with -C DIR"));
    }
    git::discover(directory).await.map_err(|error| {
        let hint = match &error {
            GitError::NotARepository { .. } => Some(
                "a run needs a git repository, to see what sessions did: `git init`, or another one with -C DIR",
            ),
            GitError::NoWorkTree { .. } | GitError::Bare { .. } => {
                Some("a run needs a working tree: `git clone` it, or `git worktree add`")
            }
            GitError::Missing => Some("install git; a run sees by it what sessions did"),
            _ => None,
        };
        let error = CliError::from_error(ErrorKind::Environment, error);
        match hint {
            Some(hint) => error.hinted(hint),
            None => error,
        }
    })
}

/// Where the work of a run comes from, by its settings.
pub(super) async fn sources(
    settings: &Settings,
    repo: &Repo,
    branch: Option<String>,
    environment: &[(OsString, OsString)],
    asked: Signals,
) -> Sources {
    let configured = match settings.work.forge {
        settings::Forge::Auto | settings::Forge::Off => None,
        settings::Forge::GitHub => Some(ForgeKind::GitHub),
        settings::Forge::GitLab => Some(ForgeKind::GitLab),
    };
    let forge = if settings.work.forge == settings::Forge::Off {
        None
    } else {
        let remotes = git::remotes(repo).await.unwrap_or_default();
        forge::detect(&remotes, configured)
    };
    let state_dir =
        environment.iter().find(|(name, value)| name == env_vars::SO_STATE_DIR && !value.is_empty());
    Sources {
        layout: Layout::new(&repo.root),
        goes_on: !asked.prompt,
        asked,
        branch,
        forge,
        backlog_label: settings.work.backlog_label.clone(),
        state_dir: state_dir.map(|(_, value)| PathBuf::from(value)),
    }
}

/// A night's work must not end at a record that cannot be written: both metric files are tried before it.
pub(super) fn check_records(layout: &Layout) -> Result<(), CliError> {
    for path in [layout.autopilot_jsonl(), layout.sessions_jsonl()] {
        match OpenOptions::new().append(true).open(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CliError::environment(format!("{} cannot be written", path.display()))
                    .caused_by(error)
                    .hinted(
                        "mend what is in the way, or its owner and permissions: records of runs go there",
                    ));
            }
        }
    }
    Ok(())
}

/// Reads the prompt. White space alone is a mistake, not work (field-reports A07).
pub(super) fn prompt(source: &PromptSource) -> Result<String, CliError> {
    let (text, name) = match source {
        PromptSource::Text(text) => (text.clone(), "--prompt".to_owned()),
        PromptSource::Stdin => {
            let mut bytes = Vec::new();
            io::stdin().lock().take(MAX_PROMPT + 1).read_to_end(&mut bytes).map_err(|error| {
                CliError::environment("cannot read the prompt from standard input").caused_by(error)
            })?;
            (utf8(&bytes, "standard input")?, "standard input".to_owned())
        }
        PromptSource::File(path) => {
            let name = path.display().to_string();
            let mut bytes = Vec::new();
            std::fs::File::open(path)
                .and_then(|file| file.take(MAX_PROMPT + 1).read_to_end(&mut bytes))
                .map_err(|error| {
                    CliError::usage(format!("cannot read the prompt file {name}"))
                        .caused_by(error)
                        .hinted("give a readable text file, or `-` for standard input")
                })?;
            (utf8(&bytes, &name)?, name)
        }
    };
    if text.len() as u64 > MAX_PROMPT - TEMPLATE_ROOM {
        return Err(CliError::usage(format!("the prompt from {name} is too large: Claude Code takes 10 MB"))
            .hinted("put the text into a file of the repository and name that file in a short prompt"));
    }
    if text.trim().is_empty() {
        return Err(CliError::usage(format!("the prompt from {name} is empty"))
            .hinted("say what is to be done, or leave it out"));
    }
    if text.contains('\0') {
        return Err(CliError::usage(format!("the prompt from {name} has a NUL byte in it"))
            .hinted("give a text file, without binary data"));
    }
    Ok(text)
}

fn utf8(bytes: &[u8], name: &str) -> Result<String, CliError> {
    // A byte order mark is no part of the text.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map(ToOwned::to_owned).map_err(|error| {
        CliError::usage(format!("the prompt from {name} is not UTF-8 text"))
            .caused_by(error)
            .hinted("save the text as UTF-8, for instance with `iconv -t UTF-8`")
    })
}

/// Finds the program that is to be driven, as a start would. It is not run: that alone would start a session
/// with some wrappers.
pub(super) fn find_program(
    program: &Path,
    environment: &[(OsString, OsString)],
) -> Result<PathBuf, CliError> {
    let missing = |what: String| {
        CliError::environment(what).hinted(
            "install Claude Code, or say where it is with --claude-bin PATH or AUTOPILOT_CLAUDE_BIN; \
             `autopilot doctor` checks it",
        )
    };
    if program.components().count() > 1 {
        return match program.metadata() {
            Ok(found) if !found.is_file() => Err(missing(format!("{} is not a file", program.display()))),
            Ok(_) if access(program, Access::EXEC_OK).is_err() => {
                Err(CliError::environment(format!("{} is not executable", program.display()))
                    .hinted(format!("chmod +x {}", program.display())))
            }
            Ok(_) => std::path::absolute(program)
                .map_err(|error| missing(format!("{} cannot be used", program.display())).caused_by(error)),
            Err(error) => Err(missing(format!("{} cannot be used", program.display())).caused_by(error)),
        };
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = path.unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file() && access(candidate.as_path(), Access::EXEC_OK).is_ok())
        .ok_or_else(|| {
            missing(format!("`{}` is not on PATH ({})", program.display(), path.to_string_lossy()))
        })
}
