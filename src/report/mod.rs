//! What a run came to: folded from its journal, told as text, Markdown, JSON, HTML or
//! `JUnit` XML.
//!
//! [`RunSummary`] folds [`Entry`]s in any state of completeness: the journal of a run that goes on, of one
//! that was killed, or one with lines missing gives the summary of what is known. A value that was not
//! measured stays `None` and is told as `unknown`, never as 0 (field-reports M03); in particular a run is
//! `unfinished` until its last event says otherwise.
//!
//! The JSON document is the summary itself: fields are only ever added, and a change of meaning raises
//! [`SCHEMA_VERSION`].

pub mod course;
mod decide;
mod html;
mod junit;
mod markdown;
mod record;
mod skim;
pub mod span;
mod text;
mod words;

use jiff::Timestamp;
use serde::Serialize;

use crate::core::kill_switch::KillSwitch;
use crate::core::mode::Mode;
use crate::core::outcome::Class;
use crate::core::published::{
    Entry, ModelSpend, PeerSession, RunEvent, TaskOutcome, Tokens, Verification, Work,
};
use crate::core::wave::WaveTotals;
use crate::ui::text::known_cost;
use crate::ui::words::measured_tokens;

use course::Course;

/// Version of the JSON document.
pub const SCHEMA_VERSION: u32 = 1;

/// How a run came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Ended as planned: exit code 0.
    Planned,
    /// Not sure enough to start by itself; a person decides (exit code 3).
    Manual,
    /// A person or the system asked for the end.
    Aborted,
    /// Stopped by a kill-switch or a failure.
    Stopped,
    /// Its journal has no end: it goes on, or it died.
    #[default]
    Unfinished,
}

/// A run, as far as its journal tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunSummary {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Id of the run; `None` when the journal has lost its beginning.
    pub run_id: Option<String>,
    /// Run this one continued.
    pub parent_run_id: Option<String>,
    /// How it came out.
    pub outcome: RunOutcome,
    /// The switch that fired.
    pub kill_switch: Option<KillSwitch>,
    /// Its words, or those of the fall-back.
    pub detail: Option<String>,
    /// Exit code; `None` while unfinished.
    pub exit_code: Option<u8>,
    /// Class of the failure that ended it.
    pub failure_class: Option<Class>,
    /// Iteration 1 fell back to manual.
    pub fallback_to_manual: bool,
    /// Completed iterations.
    pub iterations: u32,
    /// Version of `autopilot`.
    pub version: Option<String>,
    /// Version of the driven CLI.
    pub claude_version: Option<String>,
    /// Top level of the repository.
    pub repository: Option<String>,
    /// Branch at the start.
    pub branch: Option<String>,
    /// Budgets of the run.
    pub limits: Option<Limits>,
    /// Time of the first entry.
    pub started_at: Option<Timestamp>,
    /// Time of the last entry so far.
    pub last_event_at: Option<Timestamp>,
    /// Seconds it was at work, in all its parts; in a part without an end from its first entry to its last, by
    /// the wall clock.
    pub seconds: Option<f64>,
    /// When it was resumed.
    pub resumed_at: Vec<Timestamp>,
    /// Seconds of them asleep on usage limits.
    pub limit_wait_seconds: u64,
    /// Tokens of the run; `None` = unknown. While unfinished: of the sessions that are over.
    pub tokens: Option<Tokens>,
    /// API-equivalent dollars of the run; `None` = unknown.
    pub cost_usd: Option<f64>,
    /// What the sessions with a known cost come to; a lower bound when `cost_usd` is unknown.
    pub known_cost_usd: Option<f64>,
    /// Conversations, in order.
    pub sessions: Vec<SessionSummary>,
    /// Automatic repairs, in order.
    pub heals: Vec<Heal>,
    /// Sleeps on usage limits, in order.
    pub waits: Vec<Wait>,
    /// Waits for other Claude sessions in the same working tree, in order.
    pub peer_waits: Vec<PeerWait>,
    /// Retries the CLI made by itself.
    pub api_retries: u64,
    /// Warnings, each once.
    pub warnings: Vec<String>,
    /// Tool calls that the gate refused, each once, the first ones.
    pub refusals: Vec<Refusal>,
    /// Tool calls that the gate refused, all of them.
    pub refused: u64,
    /// Questions that sessions were blocked on, in order.
    pub questions: Vec<Question>,
    /// What a person does next, most useful first.
    pub next: Vec<String>,
    /// What a person must decide or look at, most urgent first; filled by [`RunSummary::to_json`].
    pub decide: Vec<String>,
    /// Beginning of the web address of a commit, its id follows; `None` = the forge is not known. Not from the
    /// journal: whoever knows the remotes sets it.
    pub commit_url: Option<String>,
    /// What of the journal could not be read; `None` = all of it was. Set by whoever reads it.
    pub damage: Option<String>,
    /// What happened when.
    pub course: Course,
    /// Seconds before the part that goes on now.
    #[serde(skip)]
    pub(crate) seconds_before: Option<f64>,
}

/// Refused calls that a report lists; the journal has all of them.
const MAX_REFUSALS: usize = 20;

/// A tool call that the gate refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// When it was refused first.
    pub at: Timestamp,
    /// The tool.
    pub tool: String,
    /// The part of the call that decided.
    pub what: String,
    /// Why.
    pub reason: String,
    /// How often.
    pub times: u32,
}

/// A question a session was blocked on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    /// When it was asked.
    pub at: Timestamp,
    /// Id of the conversation.
    pub session_id: String,
    /// The question.
    pub question: String,
    /// What was answered for the person; `None` = nothing.
    pub answer: Option<String>,
}

/// Budgets of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limits {
    /// `--max-sessions`.
    pub max_sessions: u32,
    /// `--max-hours`.
    pub max_hours: f64,
    /// `--max-tokens`; 0 = off.
    pub max_tokens: u64,
    /// `--max-cost`.
    pub max_cost_usd: Option<f64>,
}

/// One session of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionSummary {
    /// Iteration it belongs to, from 1.
    pub iteration: u32,
    /// Id of the conversation.
    pub session_id: String,
    /// Mode, when its start is known.
    pub mode: Option<Mode>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// How it ended; `None` when it has not, as far as is known.
    pub end: Option<SessionEnd>,
    /// Automatic repairs it needed.
    pub heals: u32,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionEnd {
    /// Whether it counts as a completed iteration.
    pub completed: bool,
    /// What ground truth says.
    pub class: Class,
    /// Status it reported.
    pub status: Option<String>,
    /// Its own summary.
    pub summary: Option<String>,
    /// What git says; `None` = unknown.
    pub work: Option<Work>,
    /// Where claim and ground truth disagree.
    pub contradictions: Vec<String>,
    /// `--verify`.
    pub verification: Option<Verification>,
    /// What became of its tasks; `None` = it had none, or the files could not be read.
    pub tasks: Option<TaskOutcome>,
    /// Tokens; `None` = unknown.
    pub tokens: Option<Tokens>,
    /// The same by model, most output first, as far as known.
    pub models: Vec<ModelSpend>,
    /// Dollars; `None` = unknown.
    pub cost_usd: Option<f64>,
    /// Seconds it took.
    pub seconds: f64,
    /// Turns it took.
    pub turns: u32,
    /// Processes started for it.
    pub attempts: u32,
    /// Tool calls that were denied.
    pub denials: u32,
    /// What became of the sub-agents it wanted.
    pub wave: WaveTotals,
}

/// An automatic repair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Heal {
    /// When.
    pub at: Timestamp,
    /// Id of the conversation it was for.
    pub session_id: String,
    /// What was wrong.
    pub class: Class,
    /// What was done about it.
    pub action: String,
    /// Why that.
    pub why: String,
}

/// A sleep on a usage limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wait {
    /// When it began.
    pub at: Timestamp,
    /// Which window.
    pub window: Option<String>,
    /// Until when it was to last.
    pub until: Timestamp,
    /// How long it lasted; `None` when its end is not known.
    pub waited_seconds: Option<u64>,
}

/// A wait for other Claude sessions in the same working tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeerWait {
    /// When it began.
    pub at: Timestamp,
    /// Who was waited for, last.
    pub peers: Vec<PeerSession>,
    /// Until when it was to last at most.
    pub until: Timestamp,
    /// How long it lasted; `None` when its end is not known.
    pub waited_seconds: Option<u64>,
}

impl RunSummary {
    /// Folds a journal, complete or not.
    #[must_use]
    pub fn from_entries(entries: &[Entry]) -> Self {
        let mut summary = RunSummary { schema_version: SCHEMA_VERSION, ..RunSummary::default() };
        for entry in entries {
            summary.apply(entry);
        }
        summary
    }

    /// Folds the next entry in.
    pub fn apply(&mut self, entry: &Entry) {
        let at = entry.at;
        self.schema_version = SCHEMA_VERSION;
        let started = *self.started_at.get_or_insert(at);
        self.last_event_at = Some(at);
        if let RunEvent::RunResumed { .. } = &entry.event {
            self.resume(entry);
        } else if self.outcome == RunOutcome::Unfinished {
            let (part, before) = match self.resumed_at.last() {
                Some(resumed) => (*resumed, self.seconds_before),
                None => (started, Some(0.0)),
            };
            // A wall clock that was set back leaves no sensible length of time.
            let seconds = at.duration_since(part).as_secs_f64();
            self.seconds = before.filter(|_| seconds >= 0.0).map(|before| before + seconds);
        }
        self.course.apply(at, &entry.event);
        match &entry.event {
            RunEvent::RunStarted {
                run_id,
                version,
                repository,
                branch,
                parent_run_id,
                max_sessions,
                max_hours,
                max_tokens,
                max_cost_usd,
                claude_version,
                ..
            } => {
                self.run_id = Some(run_id.clone());
                self.version = Some(version.clone());
                self.repository = Some(repository.clone());
                self.branch.clone_from(branch);
                self.parent_run_id.clone_from(parent_run_id);
                self.claude_version.clone_from(claude_version);
                self.limits = Some(Limits {
                    max_sessions: *max_sessions,
                    max_hours: *max_hours,
                    max_tokens: *max_tokens,
                    max_cost_usd: *max_cost_usd,
                });
            }
            RunEvent::SessionStarted { iteration, session_id, mode, .. } => {
                let session = self.open_session(*iteration, session_id);
                session.mode = Some(*mode);
                session.started_at = Some(at);
            }
            RunEvent::Initialised { cli_version: Some(version), .. } => {
                self.claude_version = Some(version.clone());
            }
            RunEvent::GateDecided { tool, what, decision, reason, .. } if decision == "deny" => {
                self.refused = self.refused.saturating_add(1);
                let same = |refusal: &&mut Refusal| refusal.tool == *tool && refusal.what == *what;
                if let Some(refusal) = self.refusals.iter_mut().find(same) {
                    refusal.times = refusal.times.saturating_add(1);
                } else if self.refusals.len() < MAX_REFUSALS {
                    let (tool, what, reason) = (tool.clone(), what.clone(), reason.clone());
                    self.refusals.push(Refusal { at, tool, what, reason, times: 1 });
                }
            }
            RunEvent::ApiRetry { .. } => self.api_retries = self.api_retries.saturating_add(1),
            RunEvent::Healed { session_id, class, action, why, .. } => {
                if let Some(session) = self.sessions.last_mut().filter(|session| session.end.is_none()) {
                    session.heals = session.heals.saturating_add(1);
                }
                self.heals.push(Heal {
                    at,
                    session_id: session_id.clone(),
                    class: *class,
                    action: action.clone(),
                    why: why.clone(),
                });
            }
            RunEvent::LimitWait { window, until, .. } => {
                self.waits.push(Wait { at, window: window.clone(), until: *until, waited_seconds: None });
            }
            RunEvent::LimitWaitOver { waited_seconds } => {
                self.limit_wait_seconds = self.limit_wait_seconds.saturating_add(*waited_seconds);
                if let Some(wait) = self.waits.last_mut().filter(|wait| wait.waited_seconds.is_none()) {
                    wait.waited_seconds = Some(*waited_seconds);
                }
            }
            RunEvent::PeerWait { peers, until, .. } => self.wait_for_peers(at, peers, *until),
            RunEvent::PeerGone { waited_seconds } => self.peers_waited_for(*waited_seconds),
            RunEvent::QuestionAsked { session_id, question, .. } => self.questions.push(Question {
                at,
                session_id: session_id.clone(),
                question: question.clone(),
                answer: None,
            }),
            RunEvent::QuestionAnswered { answer, .. } => {
                if let Some(asked) = self.questions.last_mut() {
                    asked.answer = Some(answer.clone());
                }
            }
            RunEvent::SessionEnded { .. } => self.end_session(&entry.event),
            // More than the sum of sessions that are over: also of those that died with their driver.
            RunEvent::Accounted { tokens, cost_usd, .. } => {
                self.tokens = measured_tokens(*tokens, *cost_usd, 1);
                self.cost_usd = known_cost(*cost_usd);
                self.known_cost_usd = self.cost_usd;
            }
            RunEvent::Warning { text } if !self.warnings.contains(text) => self.warnings.push(text.clone()),
            RunEvent::RunEnded {
                kill_switch,
                detail,
                exit_code,
                failure_class,
                fallback_to_manual,
                iterations,
                tokens,
                cost_usd,
                seconds,
                limit_wait_seconds,
                next,
                ..
            } => {
                self.outcome = match (kill_switch, exit_code) {
                    (Some(KillSwitch::UserAbort), _) => RunOutcome::Aborted,
                    (_, 0) => RunOutcome::Planned,
                    _ if *fallback_to_manual => RunOutcome::Manual,
                    _ => RunOutcome::Stopped,
                };
                self.kill_switch = *kill_switch;
                self.detail.clone_from(detail);
                self.exit_code = Some(*exit_code);
                self.failure_class = *failure_class;
                self.fallback_to_manual = *fallback_to_manual;
                self.iterations = *iterations;
                self.cost_usd = known_cost(*cost_usd);
                let ran = u32::try_from(self.sessions.len()).unwrap_or(u32::MAX);
                self.tokens = measured_tokens(*tokens, *cost_usd, ran);
                self.seconds = (seconds.is_finite() && *seconds >= 0.0).then_some(*seconds);
                self.limit_wait_seconds = *limit_wait_seconds;
                self.next.clone_from(next);
                // The grace was over, or somebody did not want to wait.
                if let Some(began) = self.peer_waits.last().map(|wait| wait.at) {
                    let waited = at.duration_since(began).as_secs();
                    self.peers_waited_for(u64::try_from(waited).unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    /// It goes on: what was said of its end holds no more.
    fn resume(&mut self, entry: &Entry) {
        let RunEvent::RunResumed {
            version,
            branch,
            max_sessions,
            max_hours,
            max_tokens,
            max_cost_usd,
            seconds,
            ..
        } = &entry.event
        else {
            return;
        };
        self.outcome = RunOutcome::Unfinished;
        (self.kill_switch, self.detail, self.exit_code, self.failure_class) = (None, None, None, None);
        self.fallback_to_manual = false;
        self.next.clear();
        self.resumed_at.push(entry.at);
        self.seconds_before = (seconds.is_finite() && *seconds >= 0.0).then_some(*seconds);
        self.seconds = self.seconds_before;
        self.version = Some(version.clone());
        self.branch.clone_from(branch);
        self.limits = Some(Limits {
            max_sessions: *max_sessions,
            max_hours: *max_hours,
            max_tokens: *max_tokens,
            max_cost_usd: *max_cost_usd,
        });
    }

    fn wait_for_peers(&mut self, at: Timestamp, peers: &[PeerSession], until: Timestamp) {
        match self.peer_waits.last_mut().filter(|wait| wait.waited_seconds.is_none()) {
            // Others took their place, or the machine slept.
            Some(wait) => (wait.peers, wait.until) = (peers.to_vec(), until),
            None => self.peer_waits.push(PeerWait { at, peers: peers.to_vec(), until, waited_seconds: None }),
        }
    }

    fn peers_waited_for(&mut self, seconds: u64) {
        if let Some(wait) = self.peer_waits.last_mut() {
            wait.waited_seconds.get_or_insert(seconds);
        }
    }

    /// The session that an event speaks of: the one that is open, or a new one.
    fn open_session(&mut self, iteration: u32, session_id: &str) -> &mut SessionSummary {
        // The conversation may get a new id on the way (a fresh start); the session stays the same.
        let open =
            self.sessions.iter().rposition(|session| session.iteration == iteration && session.end.is_none());
        let at = open.unwrap_or_else(|| {
            self.sessions.push(SessionSummary {
                iteration,
                session_id: session_id.to_owned(),
                mode: None,
                started_at: None,
                end: None,
                heals: 0,
            });
            self.sessions.len() - 1
        });
        session_id.clone_into(&mut self.sessions[at].session_id);
        &mut self.sessions[at]
    }

    fn end_session(&mut self, event: &RunEvent) {
        let RunEvent::SessionEnded {
            iteration,
            session_id,
            completed,
            class,
            status,
            summary,
            work,
            contradictions,
            verification,
            tasks,
            tokens,
            models,
            cost_usd,
            seconds,
            turns,
            attempts,
            denials,
            wave,
        } = event
        else {
            return;
        };
        let end = SessionEnd {
            completed: *completed,
            class: *class,
            status: status.clone(),
            summary: summary.clone(),
            work: work.clone(),
            contradictions: contradictions.clone(),
            verification: verification.clone(),
            tasks: tasks.clone(),
            tokens: measured_tokens(*tokens, *cost_usd, *attempts),
            models: models.clone(),
            cost_usd: known_cost(*cost_usd),
            seconds: *seconds,
            turns: *turns,
            attempts: *attempts,
            denials: *denials,
            wave: *wave,
        };
        self.open_session(*iteration, session_id).end = Some(end);
        self.iterations = self.iterations.saturating_add(u32::from(*completed));
        let tokens = self.ended().try_fold(Tokens::default(), |sum, end| Some(add(sum, end.tokens?)));
        let cost = self.ended().map(|end| end.cost_usd).sum();
        let known = self.ended().filter_map(|end| end.cost_usd);
        let known = known.fold(None, |sum: Option<f64>, cost| Some(sum.unwrap_or(0.0) + cost));
        (self.tokens, self.cost_usd, self.known_cost_usd) = (tokens, cost, known);
    }

    fn ended(&self) -> impl Iterator<Item = &SessionEnd> {
        self.sessions.iter().filter_map(|session| session.end.as_ref())
    }
}

fn add(a: Tokens, b: Tokens) -> Tokens {
    Tokens {
        input: a.input.saturating_add(b.input),
        output: a.output.saturating_add(b.output),
        cache_read: a.cache_read.saturating_add(b.cache_read),
        cache_creation: a.cache_creation.saturating_add(b.cache_creation),
    }
}

#[cfg(test)]
mod tests;
