//! From the command line and the files of this machine to settings, and `autopilot config show`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use serde::Serialize;

use super::args::{Cli, Command, GlobalArgs, RunArgs};
use crate::driver::clock;
use crate::error::CliError;
use crate::settings::key::Group;
use crate::settings::layer::{ConfigFile, Layer, Origin};
use crate::settings::resolve::{Resolved, resolve};
use crate::settings::value::Raw;
use crate::settings::{env_vars, keys};
use crate::signals::session_config;
use crate::ui::printer::{self, Level};

/// Name of the configuration file in a repository.
pub const REPOSITORY_FILE: &str = ".autopilot.toml";

/// The configuration files, there or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// In the repository.
    pub repository: PathBuf,
    /// The user's; `None` = there is no home folder.
    pub user: Option<PathBuf>,
}

impl Files {
    /// The files for a repository and this user.
    #[must_use]
    pub fn locate(root: &Path) -> Files {
        let user =
            etcetera::choose_base_strategy().ok().map(|dirs| dirs.config_dir().join("autopilot/config.toml"));
        Files { repository: root.join(REPOSITORY_FILE), user }
    }
}

/// Resolves the settings for a repository from the command line, this environment and both files.
///
/// # Errors
///
/// A file that cannot be read, or a value that cannot be used.
pub fn load(flags: &Layer, files: &Files) -> Result<Resolved, CliError> {
    let mut resolved = load_with(flags, &|name| std::env::var_os(name), files)?;
    take_session_config(&mut resolved, files);
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    resolved.notices.extend(env_vars::unknown(names.iter().map(AsRef::as_ref)));
    Ok(resolved)
}

/// What CLAUDE.md or AGENTS.md says of the pre-launch verdict.
fn take_session_config(resolved: &mut Resolved, files: &Files) {
    let Some(root) = files.repository.parent() else { return };
    let (session, reading) = session_config::read(root, clock::wall());
    let Some(origin) = reading.origin else { return };
    resolved.notices.extend(reading.problems.iter().map(|problem| format!("{origin}: {problem}")));
    let autonomy = session.autonomy.and_then(|word| word.parse().ok());
    resolved.take_session_config(&root.join(origin), autonomy, session.confidence_floor);
}

/// [`load`] with any environment.
fn load_with(
    flags: &Layer,
    env: &impl Fn(&str) -> Option<OsString>,
    files: &Files,
) -> Result<Resolved, CliError> {
    let repository = ConfigFile::read(&files.repository)?;
    let user = files.user.as_deref().map_or(Ok(None), ConfigFile::read)?;
    Ok(resolve(flags, env, repository.as_ref(), user.as_ref())?)
}

/// The settings of the command line, before and after the command.
///
/// # Errors
///
/// Options of a run before a command that has no use for them.
pub fn flags(cli: &Cli) -> Result<Layer, CliError> {
    let mut layer = layer(&cli.run);
    let (name, own) = match &cli.command {
        None
        | Some(Command::Doctor(_) | Command::Config { .. } | Command::Gate { .. } | Command::Notify { .. }) =>
        {
            return Ok(layer);
        }
        Some(Command::Run(run) | Command::Verdict(run)) => {
            layer.overlay(self::layer(run));
            return Ok(layer);
        }
        Some(Command::Resume(resume)) => {
            layer.overlay(self::layer(&resume.options));
            return Ok(layer);
        }
        Some(Command::Explain(_)) => ("explain", layer.names().next()),
        Some(Command::Status) => ("status", layer.names().next()),
        Some(Command::Report(_)) => ("report", layer.names().next()),
        Some(Command::Logs(_)) => ("logs", layer.names().next()),
        Some(Command::Stop(_)) => ("stop", layer.names().next()),
        Some(Command::History(_)) => ("history", layer.names().next()),
        Some(Command::Schedule { .. }) => ("schedule", layer.names().next()),
        Some(Command::Demo) => ("demo", layer.names().next()),
        Some(Command::Completions { .. }) => ("completions", layer.names().next()),
        Some(Command::Man) => ("man", layer.names().next()),
        Some(Command::DemoAgent { .. }) => ("demo-agent", layer.names().next()),
    };
    match own.or(cli.run.events.then_some("events")) {
        Some(option) => Err(CliError::usage(format!("`autopilot {name}` has no use for --{option}")).hinted(
            "options of a run go with `run`, `resume`, `verdict`, `doctor`, `gate` and `config show`",
        )),
        None => Ok(layer),
    }
}

/// What the command line asks of the output.
#[must_use]
pub fn output(global: &GlobalArgs) -> printer::Options {
    let level = match (global.quiet, global.verbose) {
        (true, _) => Level::Quiet,
        (false, 0) => Level::Default,
        (false, _) => Level::Verbose,
    };
    printer::Options { level, color: global.color, no_progress: global.no_progress }
}

/// Whether `--events` was given, before or after the command.
#[must_use]
pub fn wants_events(cli: &Cli) -> bool {
    let own = match &cli.command {
        Some(Command::Run(run)) => run.events,
        Some(Command::Resume(resume)) => resume.options.events,
        _ => false,
    };
    cli.run.events || own
}

/// The options that were given, as a layer.
fn layer(args: &RunArgs) -> Layer {
    let text = |text: &Option<String>| text.clone().map(Raw::Text);
    let path = |path: &Option<PathBuf>| path.clone().map(Raw::Path);
    let list = |items: &Vec<String>| (!items.is_empty()).then(|| Raw::List(items.clone()));
    let mut layer = Layer::new();
    layer.flag(&keys::MAX_SESSIONS, args.max_sessions.map(Raw::Number));
    layer.flag(&keys::MAX_HOURS, args.max_hours.map(Raw::Number));
    layer.flag(&keys::LIMIT_WAIT_FREE, args.limit_wait_free.map(Raw::Flag));
    layer.flag(&keys::MAX_TOKENS, args.max_tokens.map(Raw::Number));
    layer.flag(&keys::MAX_COST, args.max_cost.map(Raw::Number));
    layer.flag(&keys::RESERVE, args.reserve.map(Raw::Number));
    layer.flag(&keys::CONFIDENCE_THRESHOLD, args.confidence_threshold.map(Raw::Number));
    layer.flag(&keys::CARRYOVER_THRESHOLD, args.carryover_threshold.map(Raw::Number));
    layer.flag(&keys::PEER_ABORT, args.peer_abort.map(Raw::Number));
    layer.flag(&keys::STALL_TIMEOUT, args.stall_timeout.map(Raw::Number));
    layer.flag(&keys::FIRST_OUTPUT_TIMEOUT, args.first_output_timeout.map(Raw::Number));
    layer.flag(&keys::TURN_TIMEOUT, args.turn_timeout.map(Raw::Number));
    layer.flag(&keys::EXIT_GRACE, args.exit_grace.map(Raw::Number));
    layer.flag(&keys::MAX_WAIT, args.max_wait.map(Raw::Number));
    layer.flag(&keys::PEER_GRACE, args.peer_grace.map(Raw::Number));
    layer.flag(&keys::DEADLINE, args.deadline.map(Raw::Number));
    layer.flag(&keys::MODE, text(&args.mode));
    layer.flag(&keys::PROMPT, text(&args.prompt));
    layer.flag(&keys::PROMPT_FILE, path(&args.prompt_file));
    layer.flag(&keys::VERIFY, text(&args.verify));
    layer.flag(&keys::CHAIN, text(&args.chain));
    layer.flag(&keys::AUTONOMY, text(&args.autonomy));
    layer.flag(&keys::CLAUDE_BIN, path(&args.claude_bin));
    layer.flag(&keys::MODEL, text(&args.model));
    layer.flag(&keys::FALLBACK_MODEL, text(&args.fallback_model));
    layer.flag(&keys::PERMISSION_MODE, text(&args.permission_mode));
    layer.flag(&keys::ALLOWED_TOOLS, list(&args.allowed_tools));
    layer.flag(&keys::MCP_CONFIG, list(&args.mcp_config));
    layer.flag(&keys::CLAUDE_ARG, list(&args.claude_arg));
    layer.flag(&keys::DRY_RUN, args.dry_run.map(Raw::Flag));
    layer.flag(&keys::ALLOW_NESTED, args.allow_nested.map(Raw::Flag));
    layer.flag(&keys::ALLOW_PEERS, args.allow_peers.map(Raw::Flag));
    layer.flag(&keys::NO_INHIBIT, args.no_inhibit.map(Raw::Flag));
    layer.flag(&keys::ENGINE, text(&args.engine));
    layer.flag(&keys::GATE, text(&args.gate));
    layer
}

/// The settings in force as a configuration file that would give the same.
#[must_use]
pub fn show(resolved: &Resolved, with_origin: bool) -> String {
    let mut text = String::new();
    let mut heading: Option<Group> = None;
    for entry in &resolved.entries {
        let group = keys::find(entry.name).map(|setting| setting.spec().group);
        if group != heading {
            let gap = if heading.is_some() { "\n" } else { "" };
            let _ = writeln!(text, "{gap}# {}", group.map_or("", Group::title));
            heading = group;
        }
        let line = match &entry.shown {
            Some(shown) => format!("{} = {}", entry.name, shown.toml()),
            None => format!("# {} is not set", entry.name),
        };
        match (with_origin, &entry.shown) {
            (true, Some(_)) => {
                let _ = writeln!(text, "{line:<36}  # {}", entry.origin);
            }
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

/// `config show --json`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    settings: BTreeMap<&'static str, Shown>,
    files: Vec<File<'a>>,
    notices: &'a [String],
}

#[derive(Debug, Serialize)]
struct Shown {
    value: Option<serde_json::Value>,
    origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

#[derive(Debug, Serialize)]
struct File<'a> {
    path: &'a Path,
    exists: bool,
}

/// The settings in force as one JSON document.
///
/// # Errors
///
/// A path of a file is not UTF-8.
pub fn show_json(resolved: &Resolved, files: &Files) -> Result<String, CliError> {
    let settings = resolved.entries.iter().map(|entry| {
        let from = (entry.origin != Origin::Default).then(|| entry.origin.to_string());
        let value = entry.shown.as_ref().map(crate::settings::value::Shown::json);
        (entry.name, Shown { value, origin: entry.origin.kind(), from })
    });
    let files = std::iter::once(&files.repository).chain(&files.user);
    let document = Document {
        settings: settings.collect(),
        files: files.map(|path| File { path, exists: path.exists() }).collect(),
        notices: &resolved.notices,
    };
    serde_json::to_string_pretty(&document)
        .map_err(|error| CliError::unexpected("cannot write the settings as JSON").caused_by(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::autonomy::Autonomy;
    use crate::state::atomic;

    fn parse(words: &[&str]) -> Cli {
        let argv = std::iter::once(&"autopilot").chain(words);
        Cli::parse_argv(argv.map(OsString::from)).unwrap()
    }

    fn resolved(words: &[&str], text: &str) -> Resolved {
        let file = ConfigFile { path: PathBuf::from("/repo/.autopilot.toml"), text: text.to_owned() };
        resolve(&flags(&parse(words)).unwrap(), &|_| None, Some(&file), None).unwrap()
    }

    #[test]
    fn every_option_reaches_the_settings() {
        for setting in keys::ALL.into_iter().filter(|setting| setting.spec().flag) {
            let (name, example) = (setting.spec().name, setting.example());
            let option = format!("--{name}={}", example.words());
            for words in [vec![option.as_str()], vec!["run", &option], vec!["resume", "id", &option]] {
                let resolved = resolved(&words, "");
                let entry = resolved.entry(name).unwrap();
                assert_eq!((&entry.shown, &entry.origin), (&Some(example.clone()), &Origin::Flag(name)));
            }
        }
    }

    #[test]
    fn session_config_is_the_weakest_layer() {
        let repo = tempfile::tempdir().unwrap();
        let files = Files { repository: repo.path().join(REPOSITORY_FILE), user: None };
        let text = "# P\n\n## Session Config\n\ndispatcher-autonomy:\n  autonomy: autonomous-gated\n  confidence-floor: 0.7\n";
        atomic::replace(&repo.path().join("CLAUDE.md"), text.as_bytes(), 0o644).unwrap();
        let with = |words: &[&str]| {
            let mut resolved = resolve(&flags(&parse(words)).unwrap(), &|_| None, None, None).unwrap();
            take_session_config(&mut resolved, &files);
            resolved
        };
        let resolved = with(&[]);
        assert_eq!(resolved.settings.stop_rules.autonomy, Autonomy::AutonomousGated);
        assert_eq!(resolved.settings.stop_rules.confidence_floor.to_string(), "0.7");
        let origin = resolved.entry("autonomy").unwrap().origin.to_string();
        assert!(origin.starts_with("Session Config of ") && origin.ends_with("CLAUDE.md"), "{origin}");
        let stronger = with(&["--autonomy=off"]);
        assert_eq!(stronger.settings.stop_rules.autonomy, Autonomy::Off);
        assert_eq!(stronger.entry("autonomy").unwrap().origin, Origin::Flag("autonomy"));
    }

    #[test]
    fn after_the_command_wins() {
        let settings =
            resolved(&["--max-sessions=2", "--max-hours=2", "run", "--max-sessions=3"], "").settings;
        assert_eq!(settings.budgets.max_sessions, 3);
        assert_eq!(settings.budgets.max_hours.to_string(), "2");
    }

    #[test]
    fn commands_without_a_use_for_them_refuse_options_of_a_run() {
        for command in [&["status"] as &[&str], &["demo"], &["man"], &["completions", "bash"]] {
            for option in ["--max-sessions=2", "--events", "--dry-run"] {
                let error = flags(&parse(&[&[option], command].concat())).unwrap_err();
                assert_eq!(error.exit().code(), 2);
                let name = option.split('=').next().unwrap_or_default();
                assert!(error.to_string().ends_with(&format!("has no use for {name}")), "{error}");
            }
            assert!(flags(&parse(command)).unwrap().is_empty());
        }
    }

    #[test]
    fn output_levels() {
        for (words, level) in
            [(&[] as &[&str], Level::Default), (&["-q"], Level::Quiet), (&["status", "-vv"], Level::Verbose)]
        {
            assert_eq!(output(&parse(words).global).level, level, "{words:?}");
        }
    }

    #[test]
    fn events_before_or_after() {
        for (words, expected) in [
            (&["--events"] as &[&str], true),
            (&["run", "--events"], true),
            (&["--events", "run"], true),
            (&[], false),
        ] {
            assert_eq!(wants_events(&parse(words)), expected, "{words:?}");
        }
    }

    #[test]
    fn show_with_origins() {
        let text = include_str!("../../fixtures/config/full.toml");
        insta::assert_snapshot!(show(&resolved(&["--max-sessions=999", "--dry-run=false"], text), true));
    }

    #[test]
    fn what_is_shown_is_a_file_that_gives_the_same() {
        let text = include_str!("../../fixtures/config/full.toml");
        for text in ["", text] {
            let before = resolved(&[], text);
            for with_origin in [false, true] {
                assert_eq!(resolved(&[], &show(&before, with_origin)).settings, before.settings);
            }
        }
    }

    #[test]
    fn shown_as_json() {
        let files = Files { repository: PathBuf::from("/none/.autopilot.toml"), user: None };
        let json = show_json(&resolved(&["--max-sessions=999"], "max-cost = 2.5"), &files).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["settings"]["max-sessions"]["value"], 50);
        assert_eq!(json["settings"]["max-sessions"]["from"], "--max-sessions");
        assert_eq!(json["settings"]["max-cost"]["value"], 2.5);
        assert_eq!(json["settings"]["max-cost"]["origin"], "file");
        assert_eq!(json["settings"]["model"]["value"], serde_json::Value::Null);
        assert_eq!(json["settings"].as_object().unwrap().len(), keys::ALL.len());
        assert_eq!(json["notices"].as_array().unwrap().len(), 1);
        assert_eq!(json["files"][0]["exists"], false);
    }

    #[test]
    fn errors_of_files() {
        let check = |name: &str| {
            let path = Path::new("fixtures/config").join(name);
            let file = ConfigFile::read(&path).unwrap().unwrap();
            let error = resolve(&Layer::new(), &|_| None, Some(&file), None).unwrap_err();
            let error = CliError::from(error);
            assert_eq!(error.exit().code(), 2, "{name}");
            crate::ui::printer::render(&error, false)
        };
        let all = ["syntax.toml", "unknown-key.toml", "wrong-type.toml", "two-prompts.toml"].map(check);
        insta::assert_snapshot!(all.join("\n\n"));
    }

    #[test]
    fn files_are_read_and_none_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("user.toml");
        let files = Files { repository: folder.path().join(REPOSITORY_FILE), user: Some(user.clone()) };
        let load = || load_with(&Layer::new(), &|_| None, &files);
        assert_eq!(load().unwrap().entry("max-hours").unwrap().origin, Origin::Default);
        let write = |path: &Path, text: &[u8]| {
            std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), text).unwrap();
        };
        write(&user, b"max-hours = 3\nmax-sessions = 3");
        write(&files.repository, b"max-hours = 2");
        let resolved = load().unwrap();
        assert_eq!(resolved.settings.budgets.max_sessions, 3);
        let origin = Origin::File { path: files.repository.clone(), line: 1 };
        assert_eq!(resolved.entry("max-hours").unwrap().origin, origin);
    }
}
