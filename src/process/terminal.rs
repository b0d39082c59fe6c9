//! A process on a pseudo-terminal of its own.

use std::io;

use pty_process::{OwnedReadPty, OwnedWritePty, Size};

use super::reaper;
use super::spawn::{Child, SpawnError, SpawnSpec, adopted, explained};

/// The two halves of our end of a pseudo-terminal.
#[derive(Debug)]
pub struct Terminal {
    /// What the program prints.
    pub output: OwnedReadPty,
    /// Its keyboard, and the size of its screen.
    pub keyboard: OwnedWritePty,
}

/// Starts a process whose three standard streams are a new terminal of this size, in a session of its own: it is the
/// leader of its session and of its group. Otherwise as [`spawn`](super::spawn()).
///
/// # Errors
///
/// As `spawn`; also when the system has no terminal left.
pub fn spawn_on_terminal(spec: &SpawnSpec, rows: u16, columns: u16) -> Result<(Child, Terminal), SpawnError> {
    let other = |error: pty_process::Error| SpawnError::Other {
        program: spec.program.clone(),
        source: io::Error::other(error),
    };
    let (pty, pts) = pty_process::open().map_err(other)?;
    pty.resize(Size::new(rows, columns)).map_err(other)?;
    let command = pty_process::Command::new(&spec.program)
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .env(&spec.cookie.name, &spec.cookie.value)
        .current_dir(&spec.cwd);
    let started = reaper::register(|| {
        let child = command.spawn(pts).map_err(|error| match error {
            pty_process::Error::Io(error) => error,
            pty_process::Error::Rustix(error) => error.into(),
            other => io::Error::other(other),
        })?;
        let pid =
            child.id().ok_or_else(|| io::Error::other("a child that was never waited for has no pid"))?;
        Ok((child, pid))
    });
    let (inner, id) = started.map_err(|error| explained(error, spec))?;
    super::crash_point();
    let (output, keyboard) = pty.into_split();
    Ok((adopted(inner, id, spec.cookie.clone()), Terminal { output, keyboard }))
}
