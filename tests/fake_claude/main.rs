//! A scripted double of the Claude Code CLI.
//!
//! It takes the command line of `claude -p`, refuses what the real CLI refuses, and then does what the
//! script file `FAKE_CLAUDE_SCRIPT` says (see [`script`] for the syntax), speaking the stream format and the
//! control protocol as they were measured on version 2.1.332. What it saw and did is left in the folder
//! `FAKE_CLAUDE_STATE` (see [`state`]) for the test to judge.
//!
//! Invariants: a script that cannot be played is exit 99 and a violation, never a silent success;
//! a call never outlives the test's folder by more than a moment once it waits; no byte of a transcript is written
//! without its shadow.

#![expect(clippy::disallowed_methods, reason = "a double shares no code, and so no bug, with the product")]

mod args;
mod control;
mod encoding;
mod grandchild;
mod out;
mod play;
mod script;
mod signals;
mod state;
mod transcript;
mod wire;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use crate::args::Args;
use crate::out::Out;
use crate::play::Play;
use crate::signals::Traps;
use crate::state::{Call, State};
use crate::transcript::Transcript;

/// The version it plays.
const VERSION: &str = "2.1.332";

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    match start(&argv) {
        Ok(code) => code,
        Err(error) => {
            writeln!(std::io::stderr(), "fake-claude: {error}").ok();
            ExitCode::from(99)
        }
    }
}

fn start(argv: &[String]) -> Result<ExitCode, Box<dyn std::error::Error>> {
    if let [word, state, options @ ..] = argv
        && word == grandchild::WORD
    {
        grandchild::run(Path::new(state), options)?;
        return Ok(ExitCode::SUCCESS);
    }
    let command_line = Args::parse(argv);
    if command_line.as_ref().is_ok_and(|a| a.has("--version")) {
        let version = std::env::var("FAKE_CLAUDE_VERSION").unwrap_or_else(|_| VERSION.to_owned());
        writeln!(std::io::stdout(), "{version} (Claude Code)")?;
        return Ok(ExitCode::SUCCESS);
    }

    let state = State::open(Path::new(&std::env::var("FAKE_CLAUDE_STATE")?))?;
    let steps = script::parse(&fs::read_to_string(std::env::var("FAKE_CLAUDE_SCRIPT")?)?)?;
    let number = state.next_call()?;
    let call = Arc::new(Call::begin(state, number, argv));
    let out = Arc::new(Out::new(Arc::clone(&call)));
    let traps = Arc::new(Traps::default());
    signals::watch(Arc::clone(&call), Arc::clone(&out), Arc::clone(&traps))?;

    let nested = std::env::var_os("CLAUDECODE").is_some();
    let root = rustix::process::geteuid().is_root() && std::env::var_os("IS_SANDBOX").is_none();
    let options = match command_line.and_then(|given| given.refusal(nested, root).map_or(Ok(given), Err)) {
        Ok(given) => given,
        Err(text) => refuse(&call, &out, &text),
    };
    let cwd = std::env::current_dir()?;
    let config_dir = config_dir()?;
    let resumed = options.value("--resume").map(str::to_owned);
    let session = resumed
        .clone()
        .or_else(|| options.value("--session-id").map(str::to_owned))
        .unwrap_or_else(wire::uuid);
    call.update(|r| {
        r["session_id"] = session.clone().into();
        r["requested_id"] = session.clone().into();
        r["resumed"] = resumed.is_some().into();
    });
    let transcript = Transcript::new(&config_dir, &call.state().path("shadow"), &cwd, &session);
    if resumed.is_some() && !transcript.has_message() {
        out.line(&wire::no_conversation(&session));
        refuse(&call, &out, &format!("No conversation found with session ID: {session}"));
    }
    if options.has("--session-id") && transcript.path().exists() {
        refuse(&call, &out, &format!("Error: Session ID {session} is already in use."));
    }

    // Held to the end of the process.
    let tree = encoding::encode(&cwd.canonicalize()?.to_string_lossy());
    let mut claims = Vec::new();
    for (kind, name) in [("session", session.clone()), ("work_tree", tree)] {
        match call.state().claim(&format!("{kind}.{name}"))? {
            Some(claim) => claims.push(claim),
            None => call.violation(&format!("two_processes_on_one_{kind}"), &name),
        }
    }
    let used_before = call.state().use_id(&session)?;
    call.event("started", &session.clone().into());
    let steps = script::select(&steps, number, &session);
    Play::new(options, call, out, traps, (config_dir, cwd), (session, used_before)).run(&steps)
}

/// Says no as the CLI does: text on stderr, exit 1.
fn refuse(call: &Call, out: &Out, text: &str) -> ! {
    out.stderr(format!("{text}\n").as_bytes());
    call.update(|r| r["refused"] = text.into());
    call.event("refused", &text.into());
    call.leave(1)
}

fn config_dir() -> Result<PathBuf, String> {
    std::env::var_os("CLAUDE_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".claude")))
        .ok_or_else(|| "neither CLAUDE_CONFIG_DIR nor HOME is set".to_owned())
}
