//! Running `autopilot` itself in a [`Night`], and what it leaves.
#![expect(dead_code, reason = "for the tests of the product, which come with the product's command line")]

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::child::Program;
use super::night::Night;

/// How a run of `autopilot` ended, and what it left.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The records of `autopilot.jsonl`.
    pub(crate) runs: Vec<Value>,
    /// The records of `sessions.jsonl`.
    pub(crate) sessions: Vec<Value>,
}

impl Night {
    /// Starts `autopilot`.
    pub(crate) fn start(&self, arguments: &[&str]) -> Program {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_autopilot")));
        command.args(arguments);
        let mut program = Program::start(command);
        program.close_stdin();
        program
    }

    /// Runs `autopilot` to its end, which has to come `within` this time.
    pub(crate) fn run(&self, arguments: &[&str], within: Duration) -> Ended {
        let mut program = self.start(arguments);
        self.ended(&mut program, within)
    }

    /// Waits for the end of a started `autopilot`.
    pub(crate) fn ended(&self, program: &mut Program, within: Duration) -> Ended {
        let status = program.wait(within);
        Ended {
            code: status.code(),
            stdout: program.stdout(),
            stderr: program.stderr(),
            runs: self.records("autopilot.jsonl"),
            sessions: self.records("sessions.jsonl"),
        }
    }

    /// The records of a file in `.orchestrator/metrics`. A line that is not JSON fails the test.
    pub(crate) fn records(&self, file: &str) -> Vec<Value> {
        let text = self.read(&format!(".orchestrator/metrics/{file}")).unwrap_or_default();
        let record = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{file}: {e}: {line}"));
        text.lines().map(record).collect()
    }

    /// The subjects of the commits made since the first one, oldest first.
    pub(crate) fn commits(&self) -> Vec<String> {
        let log = self.git(&["log", "--reverse", "--format=%s"]);
        log.lines().skip(1).map(str::to_owned).collect()
    }
}
