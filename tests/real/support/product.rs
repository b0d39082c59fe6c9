//! Running `autopilot` itself in a [`Night`], what it leaves, and what holds after every run.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::child::Program;
use super::night::Night;
use super::wait::{self, STEP};

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

impl Ended {
    /// The record of the last run.
    pub(crate) fn record(&self) -> &Value {
        self.runs.last().expect("a run leaves a record")
    }

    /// Exit code, kill-switch and class of the failure, as the record has them. The process agrees ([`Night::ended`]).
    pub(crate) fn verdict(&self) -> Value {
        let record = self.record();
        json!([record["exit_code"], record["kill_switch"], record["failure_class"]])
    }

    /// What was healed, as class and action.
    pub(crate) fn heals(&self) -> Vec<(String, String)> {
        let heals = self.record()["heals"].as_array().expect("a list of heals").iter();
        heals.map(|heal| (text(&heal["class"]), text(&heal["action"]))).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

impl Night {
    /// Starts `autopilot`. It pauses only briefly before a recovery, and a busy machine does not change what it decides.
    pub(crate) fn start(&self, arguments: &[&str]) -> Program {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_autopilot")));
        command
            .env("AUTOPILOT_TURN_BACKOFF", "0.1,0.1")
            .env("AUTOPILOT_HEAL_BACKOFF", "none")
            .env("AUTOPILOT_PEER_ABORT", "100")
            .args(arguments);
        let mut program = Program::start(command);
        program.close_stdin();
        program
    }

    /// Runs `autopilot` to its end and checks what holds after every run.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        let mut program = self.start(arguments);
        self.ended(&mut program)
    }

    /// Waits for the end of a started `autopilot` and checks what holds after every run that got as far as a record: no
    /// process is left, exit code, record and journal agree, every session has one record and one transcript, and the
    /// transcripts are what the CLI writes.
    pub(crate) fn ended(&self, program: &mut Program) -> Ended {
        let ended = self.outcome(program);
        self.wait_until_empty(Duration::from_secs(2));
        let record = ended.record();
        assert_eq!(record["exit_code"], json!(ended.code), "{}", ended.stderr);
        let run = text(&record["autopilot_run_id"]);
        let events = self.events(&run);
        let last = events.last().expect("a run has events");
        assert_eq!(last["type"], "run_ended", "{last}");
        assert_eq!(last["exit_code"], record["exit_code"]);

        let of_run: Vec<&Value> =
            ended.sessions.iter().filter(|session| session["autopilot_run_id"] == run.as_str()).collect();
        // A session of the plug-in names itself, and the conversation behind it.
        let conversation =
            |session: &'_ &'_ Value| session.get("raw_session_id").unwrap_or(&session["session_id"]).clone();
        let mut recorded: Vec<Value> = of_run.iter().map(conversation).collect();
        // A session that was stopped and resumed has a record for each part; the last one counts for readers.
        recorded.dedup();
        // A session that went over to another conversation names that as well: the record lists both.
        let mut named = record["sessions"].as_array().expect("a list of ids").iter();
        let in_order = recorded.iter().all(|id| named.any(|other| other == id));
        assert!(in_order, "one record for each session, in order: {recorded:?} {}", record["sessions"]);
        let sum: u64 = of_run.iter().filter_map(|session| session["total_token_output"].as_u64()).sum();
        assert_eq!(record["total_tokens_used"], sum, "the run costs what its sessions cost");

        let all: Vec<Value> =
            ended.runs.iter().flat_map(|run| self.events(&text(&run["autopilot_run_id"]))).collect();
        let started = all.iter().filter(|event| event["type"] == "attempt_started");
        let known: BTreeSet<String> = started.map(|event| text(&event["session_id"])).collect();
        let mut seen = BTreeSet::new();
        for path in self.transcripts() {
            let id = path.file_stem().expect("a file name").to_string_lossy().into_owned();
            assert!(known.contains(&id), "{} belongs to no session of ours", path.display());
            check_transcript(&path, &id);
            assert!(seen.insert(id), "a second transcript: {}", path.display());
        }
        for id in &recorded {
            assert!(seen.contains(&text(id)), "session {id} has no transcript");
        }
        ended
    }

    /// Waits for the end of a started `autopilot`, whatever it is.
    pub(crate) fn outcome(&self, program: &mut Program) -> Ended {
        let status = program.wait(STEP);
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
        lines(&self.repo().join(".orchestrator/metrics").join(file))
    }

    /// The events of a run.
    pub(crate) fn events(&self, run: &str) -> Vec<Value> {
        let entries = lines(&self.repo().join(".orchestrator/autopilot/runs").join(run).join("events.jsonl"));
        entries.into_iter().map(|mut entry| entry["event"].take()).collect()
    }

    /// Waits until the run under way has said an event of this type.
    pub(crate) fn wait_for_event(&self, kind: &str) -> Value {
        let runs = self.repo().join(".orchestrator/autopilot/runs");
        wait::until(kind, STEP, || {
            let run = fs::read_dir(&runs).ok()?.filter_map(Result::ok).max_by_key(fs::DirEntry::file_name)?;
            // The last line may be half written.
            let text = fs::read_to_string(run.path().join("events.jsonl")).ok()?;
            let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            entries.map(|mut entry| entry["event"].take()).find(|event| event["type"] == kind)
        })
    }

    /// The events of the last run of this type.
    pub(crate) fn events_of(&self, ended: &Ended, kind: &str) -> Vec<Value> {
        let run = text(&ended.record()["autopilot_run_id"]);
        self.events(&run).into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// All transcripts of conversations; those of sub-agents are not among them.
    pub(crate) fn transcripts(&self) -> Vec<PathBuf> {
        let Ok(projects) = fs::read_dir(self.config().join("projects")) else { return Vec::new() };
        let folders = projects.map(|entry| entry.expect("a readable folder").path());
        let files = folders.flat_map(|folder| fs::read_dir(folder).expect("a readable folder"));
        files.map(|entry| entry.expect("a readable folder").path()).filter(|path| path.is_file()).collect()
    }

    /// The subjects of the commits made since the first one, oldest first.
    pub(crate) fn commits(&self) -> Vec<String> {
        let log = self.git(&["log", "--reverse", "--format=%s"]);
        log.lines().skip(1).map(str::to_owned).collect()
    }
}

/// A transcript nobody but the CLI wrote to: its name, its permissions, whole lines of JSON, all of the one session.
fn check_transcript(path: &Path, id: &str) {
    assert_eq!(
        path.extension().and_then(|extension| extension.to_str()),
        Some("jsonl"),
        "{}",
        path.display()
    );
    let mode = path.metadata().expect("the file is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    for line in lines(path) {
        if let Some(session) = line.get("sessionId") {
            assert_eq!(session, id, "{}", path.display());
        }
    }
}

/// The lines of a file of JSON lines; none when there is no such file.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "{} ends in the middle of a line", path.display());
    let value =
        |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}: {line}", path.display()));
    text.lines().map(value).collect()
}
