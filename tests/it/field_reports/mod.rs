//! The kinds of failure that people met in the field (field-reports), one test or more each, named by entry id.
//!
//! Every run goes through [`Night::run`], which checks the ten invariants and what holds for every call: a prompt is
//! sent explicitly each time (A07, N06), `--continue` is never used (H08), and no session id is started twice (H13).

mod a_process_life;
mod b_background_work;
mod c_stream;
mod coverage;
mod d_success;
mod e_limits;
mod f_api;
mod g_poisoned;
mod h_identity;
mod i_transcripts;
mod j_processes;
mod k_environment;
mod n_records;
mod odd_agents;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::env::TestEnv;
use crate::support::invariants::{Expect, check_invariants};
use crate::support::run::{Finished, Running, dump};

/// Options of every night, before those of the test.
const OPTIONS: &[&str] = &["--prompt=Do the work.", "--exit-grace=1", "--no-progress"];

/// A night to be run.
pub(crate) struct Night {
    pub(crate) env: TestEnv,
    args: Vec<String>,
    expect: Expect,
    /// The agent is not the double, so that there are no call records to look at.
    any_agent: bool,
}

/// A night that is over.
pub(crate) struct Morning {
    pub(crate) env: TestEnv,
    pub(crate) run: Finished,
}

/// A night with the double playing `script`, one session, and pauses between recoveries that a test can wait for.
pub(crate) fn night(script: &str) -> Night {
    let mut env = TestEnv::new();
    env.script(script);
    env.set("AUTOPILOT_TURN_BACKOFF", "0.1,0.1");
    env.set("AUTOPILOT_MAX_SESSIONS", "1");
    let args = OPTIONS.iter().map(|arg| (*arg).to_owned()).collect();
    Night { env, args, expect: Expect::default(), any_agent: false }
}

/// A night with a shell script in the place of `claude`, for what the double cannot be told to do.
pub(crate) fn night_with_agent(body: &str) -> Night {
    let mut night = night("exit 99");
    let path = night.env.root().join("agent");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    night.env.set("AUTOPILOT_CLAUDE_BIN", path.to_str().unwrap());
    night.any_agent = true;
    night
}

impl Night {
    #[must_use]
    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        if args.iter().any(|arg| arg.starts_with("--prompt")) {
            self.args.retain(|arg| !arg.starts_with("--prompt"));
        }
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    #[must_use]
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.env.set(name, value);
        self
    }

    #[must_use]
    pub(crate) fn expect(mut self, change: impl FnOnce(&mut Expect)) -> Self {
        change(&mut self.expect);
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(self) -> Morning {
        self.watched(|_| {})
    }

    /// Runs it to its end; `watch` looks on and may interfere.
    #[track_caller]
    pub(crate) fn watched(self, watch: impl FnOnce(&mut Running<'_>)) -> Morning {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let mut running = self.env.start(&args);
        watch(&mut running);
        let run = running.finish();
        check_invariants(&self.env, &run, &self.expect);
        let morning = Morning { env: self.env, run };
        if !self.any_agent && !self.expect.killed {
            morning.check_calls();
        }
        morning
    }
}

impl Morning {
    #[track_caller]
    fn check_calls(&self) {
        let mut started = BTreeSet::new();
        for call in self.env.calls() {
            let argv = strings(&call["argv"]);
            assert!(!argv.iter().any(|arg| arg == "--continue" || arg == "-c"), "H08: {argv:?}");
            for prompt in strings(&call["prompts"]) {
                assert!(
                    prompt.contains("Do the work.") || prompt == "/compact" || prompt.trim().len() > 40,
                    "N06: {prompt:?}\n{self}"
                );
            }
            if let Some(at) = argv.iter().position(|arg| arg == "--session-id") {
                assert!(started.insert(argv[at + 1].clone()), "H13: started twice: {}\n{self}", argv[at + 1]);
            }
        }
    }

    /// Published events of one type.
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.env.events();
        events.into_iter().map(|line| line["event"].clone()).filter(|event| event["type"] == kind).collect()
    }

    /// The outcome of each attempt.
    pub(crate) fn classes(&self) -> Vec<String> {
        self.events("outcome_judged").iter().map(|event| text(&event["class"])).collect()
    }

    /// All reasons of all outcomes.
    pub(crate) fn reasons(&self) -> String {
        let all: Vec<String> =
            self.events("outcome_judged").iter().flat_map(|event| strings(&event["reasons"])).collect();
        all.join("\n")
    }

    /// What was healed, and how.
    pub(crate) fn heals(&self) -> Vec<String> {
        let heal = |event: &Value| format!("{}: {}", text(&event["class"]), text(&event["action"]));
        self.events("healed").iter().map(heal).collect()
    }

    /// Whether each call resumed a conversation.
    pub(crate) fn resumed(&self) -> Vec<bool> {
        self.env
            .calls()
            .iter()
            .map(|call| strings(&call["argv"]).iter().any(|arg| arg == "--resume"))
            .collect()
    }

    /// The session id of each call.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.env.calls().iter().map(|call| text(&call["requested_id"])).collect()
    }

    /// Exit code, kill-switch and failure class.
    pub(crate) fn end(&self) -> (Option<i32>, String, String) {
        let record = self.env.last_run();
        (self.run.code(), text(&record["kill_switch"]), text(&record["failure_class"]))
    }

    /// Everything that the raw logs kept of stdout.
    pub(crate) fn raw(&self) -> Vec<u8> {
        let mut found = Vec::new();
        let runs = self.env.repo().join(".orchestrator/autopilot/runs");
        for run in fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()) {
            let mut parts: Vec<PathBuf> = fs::read_dir(run.join("stream"))
                .map(|folder| folder.map(|entry| entry.unwrap().path()).collect())
                .unwrap_or_default();
            parts.sort();
            found.extend(parts.iter().flat_map(|part| fs::read(part).unwrap()));
        }
        found
    }

    /// Ended as planned after its one session.
    #[track_caller]
    pub(crate) fn fine(&self) -> &Self {
        self.ended(0, "max-sessions-reached", "")
    }

    #[track_caller]
    pub(crate) fn ended(&self, code: i32, switch: &str, class: &str) -> &Self {
        assert_eq!(self.end(), (Some(code), switch.to_owned(), class.to_owned()), "{self}");
        self
    }

    #[track_caller]
    pub(crate) fn judged(&self, classes: &[&str]) -> &Self {
        assert_eq!(self.classes(), classes, "{self}");
        self
    }

    #[track_caller]
    pub(crate) fn healed(&self, heals: &[&str]) -> &Self {
        assert_eq!(self.heals(), heals, "{self}");
        self
    }

    /// Some reason says `words`.
    #[track_caller]
    pub(crate) fn because(&self, words: &str) -> &Self {
        assert!(self.reasons().contains(words), "no reason says {words:?}: {:?}\n{self}", self.reasons());
        self
    }

    /// The second call went on with the conversation of the first.
    #[track_caller]
    pub(crate) fn resumed_the_first(&self) -> &Self {
        let ids = self.ids();
        assert!(ids.len() > 1 && ids[0] == ids[1] && self.resumed()[..2] == [false, true], "{self}");
        self
    }
}

impl std::fmt::Display for Morning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{}", self.run, dump(&self.env))
    }
}

/// A string; empty for anything else.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The strings of a list.
pub(crate) fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}
