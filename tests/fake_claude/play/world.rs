//! Raw output, signals, processes and the work tree.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::PoisonError;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;

use super::{Play, Played, Stop};
use crate::grandchild;
use crate::script::{self, Arg};

impl Play {
    pub(super) fn emit_raw(&mut self, args: &[Arg]) -> Played {
        for arg in args {
            match arg {
                Arg::Text(bytes) => self.out.stdout(bytes),
                Arg::Word(ms) => {
                    self.wait(Duration::from_millis(ms.parse().map_err(|_| format!("`{ms}` is no pause"))?))?;
                }
                Arg::Json(_) => return Err("wants texts and pauses".to_owned().into()),
            }
        }
        Ok(())
    }

    pub(super) fn stderr(&self, args: &[Arg]) -> Played {
        match args {
            [Arg::Text(text)] => self.out.stderr(&[text, b"\n".as_slice()].concat()),
            [Arg::Word(count)] => {
                let mut left = script::size(count).ok_or_else(|| format!("`{count}` is no size"))?;
                let chunk = [b'e'; 1 << 14];
                while left > 0 {
                    self.out.stderr(&chunk[..left.min(chunk.len())]);
                    left = left.saturating_sub(chunk.len());
                }
            }
            _ => return Err("wants a text or a number of bytes".to_owned().into()),
        }
        Ok(())
    }

    pub(super) fn signal_self(&mut self, name: &str) -> Played {
        let signal = match name {
            "TERM" => Signal::TERM,
            "KILL" => Signal::KILL,
            "INT" => Signal::INT,
            "HUP" => Signal::HUP,
            "ABRT" => Signal::ABORT,
            "SEGV" => Signal::SEGV,
            "STOP" => Signal::STOP,
            other => return Err(format!("unknown signal `{other}`").into()),
        };
        kill_process(getpid(), signal).map_err(io::Error::from)?;
        if name == "STOP" {
            return Ok(());
        }
        self.wait_until(|| {
            // Again: the first SIGSEGV only removes the handler that Rust's runtime has for it.
            kill_process(getpid(), signal).ok();
            false
        })
    }

    pub(super) fn start_grandchild(
        &self,
        options: &[String],
        hold_stdout: bool,
    ) -> io::Result<(std::process::Child, PathBuf)> {
        let state = self.call.state().path("");
        #[expect(clippy::disallowed_methods, reason = "a double does not share the product's process code")]
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(grandchild::WORD).arg(state).args(options).stdin(Stdio::null()).stderr(Stdio::null());
        if !hold_stdout {
            command.stdout(Stdio::null());
        }
        let child = command.spawn()?;
        let file = self.call.state().path("grandchildren").join(format!("{}.json", child.id()));
        Ok((child, file))
    }

    pub(super) fn spawn_grandchild(&mut self, args: &[Arg]) -> Played {
        let options: Vec<String> = args
            .iter()
            .map(|a| match a {
                Arg::Word(word) => Ok(word.clone()),
                other => Err(format!("{other:?} is no option")),
            })
            .collect::<Result<_, _>>()?;
        let has = |name: &str| options.iter().any(|o| o == name);
        let (child, ready) = self.start_grandchild(&options, has("hold-stdout"))?;
        self.wait_until(|| ready.exists())?;
        if has("tool") {
            self.traps.tools.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
        }
        self.call.event("grandchild", &json!({"pid": child.id(), "options": options}));
        Ok(())
    }

    /// A tool process that uses CPU for `ms`, in its own session like the CLI's Bash tool.
    pub(super) fn busy(&mut self, ms: u64) -> Played {
        let options = ["setsid".to_owned(), "busy".to_owned(), format!("ms={ms}")];
        let (mut child, _) = self.start_grandchild(&options, false)?;
        self.traps.tools.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
        self.call.event("busy", &child.id().into());
        self.wait_until(|| !matches!(child.try_wait(), Ok(None)))?;
        self.traps.tools.lock().unwrap_or_else(PoisonError::into_inner).retain(|pid| *pid != child.id());
        Ok(())
    }

    pub(super) fn write_file(&self, name: &str, content: &[u8]) -> Played {
        let path = self.cwd.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::File::create(&path)?.write_all(content)?;
        self.call.state().log(
            "work.jsonl",
            &json!({"file": name, "bytes": content.len(), "text": String::from_utf8_lossy(content)}),
        );
        Ok(())
    }

    pub(super) fn commit(&self, message: &str, files: &[Arg]) -> Played {
        for file in files {
            let name = match file {
                Arg::Word(name) => name.clone(),
                Arg::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Arg::Json(_) => return Err("wants file names".to_owned().into()),
            };
            if !self.cwd.join(&name).exists() {
                self.write_file(&name, format!("{message}\n").as_bytes())?;
            }
            self.git(&["add", "--", &name])?;
        }
        self.git(&["commit", "--quiet", "--no-verify", "--allow-empty", "-m", message])?;
        let commit = self.git(&["rev-parse", "HEAD"])?;
        self.call.state().log("work.jsonl", &json!({"commit": commit.trim()}));
        Ok(())
    }

    pub(super) fn git(&self, args: &[&str]) -> Result<String, Stop> {
        #[expect(clippy::disallowed_methods, reason = "a double does not share the product's process code")]
        let output = Command::new("git").args(args).current_dir(&self.cwd).stdin(Stdio::null()).output()?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(Stop::Mistake(format!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr))))
        }
    }
}
