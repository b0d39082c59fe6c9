//! Driving the double directly, as a driver would: the tests of the double and of this support use it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::env::TestEnv;
use super::{proc, wait};

/// The arguments of every print-mode call.
pub(crate) const PRINT: &[&str] = &["-p", "--output-format", "stream-json", "--verbose"];

/// A running double.
pub(crate) struct Double {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Option<thread::JoinHandle<String>>,
}

/// A double that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The rest of stdout, line by line; what is not JSON is a string.
    pub(crate) lines: Vec<Value>,
    pub(crate) stderr: String,
}

impl Ended {
    /// The last result line.
    #[track_caller]
    pub(crate) fn result(&self) -> &Value {
        let found = self.lines.iter().rev().find(|l| l["type"] == "result");
        found.unwrap_or_else(|| panic!("no result: {self:#?}"))
    }
}

impl Double {
    /// Starts it with [`PRINT`] and `args`.
    pub(crate) fn start(env: &TestEnv, args: &[&str]) -> Self {
        let mut command = env.command(env!("CARGO_BIN_EXE_fake-claude"));
        command.args(PRINT).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (send, lines) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if send.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let mut pipe = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { stdin: child.stdin.take(), child, lines, stderr: Some(stderr) }
    }

    /// Starts it with JSON input and the control protocol.
    pub(crate) fn start_stream(env: &TestEnv, args: &[&str]) -> Self {
        Self::start(env, &[&["--input-format", "stream-json"], args].concat())
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        assert!(proc::signal(self.pid(), signal), "no process to signal");
    }

    /// Writes bytes to stdin. A double that has gone already is fine.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).ok();
    }

    /// Writes a JSON line.
    pub(crate) fn send(&mut self, value: &Value) {
        self.write(format!("{value}\n").as_bytes());
    }

    /// Registers hooks for the given events.
    pub(crate) fn initialize(&mut self, events: &[&str]) {
        let hooks: serde_json::Map<String, Value> = events
            .iter()
            .map(|event| {
                let id = if *event == "Stop" { "stop" } else { "pre" };
                ((*event).to_owned(), json!([{"matcher": "*", "hookCallbackIds": [id]}]))
            })
            .collect();
        self.send(&json!({"type": "control_request", "request_id": "r1",
            "request": {"subtype": "initialize", "hooks": hooks}}));
    }

    /// Sends a prompt as a JSON line.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text},
            "parent_tool_use_id": null, "session_id": "default"}));
    }

    /// Ends the turn.
    pub(crate) fn interrupt(&mut self) {
        self.send(
            &json!({"type": "control_request", "request_id": "i1", "request": {"subtype": "interrupt"}}),
        );
    }

    /// Answers a control request of the double.
    pub(crate) fn answer(&mut self, request: &Value, response: &Value) {
        self.send(&json!({"type": "control_response", "response": {"subtype": "success",
            "request_id": request["request_id"], "response": response}}));
    }

    /// Closes stdin.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    /// The next line of stdout.
    #[track_caller]
    pub(crate) fn next(&self) -> Value {
        match self.lines.recv_timeout(wait::LONG) {
            Ok(line) => value(&line),
            Err(RecvTimeoutError::Timeout) => panic!("no line from the double"),
            Err(RecvTimeoutError::Disconnected) => panic!("the double has closed its stdout"),
        }
    }

    /// The next line of the given type, others skipped.
    #[track_caller]
    pub(crate) fn next_of(&self, kind: &str) -> Value {
        loop {
            let line = self.next();
            if line["type"] == kind {
                return line;
            }
        }
    }

    /// Waits for the process itself, whoever still holds its pipes.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait::until("the double ends", || self.child.try_wait().unwrap())
    }

    /// Closes stdin, waits for the end and takes what is left of the output.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        self.close();
        let status = self.wait();
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(wait::LONG) {
            lines.push(value(&line));
        }
        let stderr = self.stderr.take().unwrap().join().unwrap();
        Ended { status, lines, stderr }
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// One call in plain mode from start to end.
#[track_caller]
pub(crate) fn call(env: &TestEnv, args: &[&str], prompt: &str) -> Ended {
    let mut double = Double::start(env, args);
    double.write(prompt.as_bytes());
    double.end()
}

fn value(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap_or_else(|_| String::from_utf8_lossy(line).into_owned().into())
}
