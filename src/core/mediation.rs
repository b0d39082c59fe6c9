//! What is answered when the CLI asks before a tool runs (design §8).
//!
//! Each question is answered once, by the first of these that has something to say:
//!
//! 1. A question that is not known in full is refused.
//! 2. What only a person could do (`AskUserQuestion`, `ExitPlanMode`) is settled by policy.
//! 3. The gate judges the call ([`super::gate`]); where it depends on what git ignores, git is asked first.
//! 4. A sub-agent needs a place under the wave cap ([`super::wave`]); an old reading of the machine is taken again.
//!
//! Invariant: no way leads to a yes without a judgement. What is never answered here, is refused by the engine when its
//! time is over.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::event::{Effect, Effects};
use super::fact::{Asked, Fact};
use super::gate::{self, Call, Context, Decision, Policy, Rules, Ruling};
use super::mode::Mode;
use super::published::RunEvent;
use super::resources::ResourceVerdict;
use super::session_report::BlockedOn;
use super::time::Now;
use super::wave::{AGENT_TOOLS, Cap, Wave, WaveTotals};

/// Longest excerpt of a call in an event, in characters.
const WHAT: usize = 200;

/// Questions that may wait for an answer at once; a CLI asks as many as a message has calls.
const WAITING: usize = 1024;

/// What the operator allows, and where.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grounds {
    /// `--gate`.
    pub policy: Policy,
    /// `gate-deny`, `gate-ask`, `gate-allow`.
    pub rules: Rules,
    /// The working tree.
    pub tree: PathBuf,
    /// Folders that were added to it (`--add-dir`).
    pub added: Vec<PathBuf>,
    /// Home folder of the session.
    pub home: Option<PathBuf>,
    /// Folders for what is not kept.
    pub temporary: Vec<PathBuf>,
    /// A CLI that does not ask before each call would be left to itself: it must not run then.
    pub needs_control: bool,
    /// The operator asked for plans only (`--permission-mode plan`).
    pub plans_only: bool,
}

/// The answer to a question of the CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What.
    pub decision: Decision,
    /// Why; the model reads it when the answer is no.
    pub reason: String,
}

/// Mediates the tool calls of a session.
#[derive(Debug)]
pub(super) struct Mediation {
    mode: Mode,
    attempt: u32,
    cap: Cap,
    wave: Wave,
    /// Waiting for git, by request.
    at_git: BTreeMap<String, Asked>,
    /// Waiting for a reading of the machine, in order.
    at_machine: Vec<(Asked, Ruling)>,
    /// The last question to a person.
    question: Option<BlockedOn>,
}

impl Mediation {
    pub(super) fn new(mode: Mode, cap: u32) -> Self {
        Mediation {
            mode,
            attempt: 0,
            cap: Cap::new(cap),
            wave: Wave::default(),
            at_git: BTreeMap::new(),
            at_machine: Vec::new(),
            question: None,
        }
    }

    pub(super) fn totals(&self) -> WaveTotals {
        self.wave.totals()
    }

    /// What the session wanted to ask a person last.
    pub(super) fn question(&self) -> Option<&BlockedOn> {
        self.question.as_ref()
    }

    /// The question is out of the world.
    pub(super) fn forget_question(&mut self) {
        self.question = None;
    }

    /// Takes a fact of the running attempt in; a refused call comes back.
    pub(super) fn take(
        &mut self,
        now: Now,
        attempt: u32,
        fact: &Fact,
        grounds: &Grounds,
        effects: &mut Effects,
    ) -> Option<Fact> {
        let before = (self.wave.live(), self.wave.totals());
        let refused = self.take_in(now, attempt, fact, grounds, effects);
        self.publish_wave(before, effects);
        refused
    }

    /// Says how the wave stands, if it changed.
    fn publish_wave(&self, before: (u32, WaveTotals), effects: &mut Effects) {
        let (live, totals) = (self.wave.live(), self.wave.totals());
        if (live, totals) != before {
            effects.publish(RunEvent::WaveChanged { live, cap: self.cap.cap, totals });
        }
    }

    fn take_in(
        &mut self,
        now: Now,
        attempt: u32,
        fact: &Fact,
        grounds: &Grounds,
        effects: &mut Effects,
    ) -> Option<Fact> {
        if self.attempt != attempt {
            self.attempt = attempt;
            self.wave.begin_attempt();
            self.at_git.clear();
            self.at_machine.clear();
        }
        match fact {
            Fact::Asked(asked) => return self.asked(now, asked, grounds, effects),
            Fact::TaskStarted { id, agent, call } => {
                self.wave.task_started(id, *agent, call.as_deref());
            }
            Fact::TaskEnded { id, .. } => self.wave.task_ended(id),
            Fact::ToolEnded { is_error, outcome, .. } => {
                if let Some(call) = &outcome.id {
                    self.wave.call_ended(call, *is_error);
                }
            }
            Fact::Initialised(_)
            | Fact::Text { .. }
            | Fact::ToolStarted { .. }
            | Fact::Usage { .. }
            | Fact::ApiRetry(_)
            | Fact::RateLimit(_)
            | Fact::ApiError { .. }
            | Fact::Denied { .. }
            | Fact::Result(_)
            | Fact::Anomaly { .. }
            | Fact::Heartbeat => {}
        }
        None
    }

    fn asked(&mut self, now: Now, asked: &Asked, grounds: &Grounds, effects: &mut Effects) -> Option<Fact> {
        if let Some(doubt) = asked.doubt
            && grounds.policy != Policy::Off
        {
            let reason = format!("{doubt}: what is not known in full is not allowed. Ask for less at once");
            return self.answer(asked, ruling(Decision::Deny, reason), effects);
        }
        if let Some(ruling) = self.for_a_person(asked, grounds) {
            return self.answer(asked, ruling, effects);
        }
        let call = Call { tool: &asked.tool, input: &asked.input };
        let paths = gate::questions(&call, &context(asked, self.mode, grounds));
        if paths.is_empty() {
            return self.judge(now, asked.clone(), &BTreeMap::new(), grounds, effects);
        }
        if self.at_git.len() >= WAITING {
            let reason = "too many calls wait for an answer; ask for fewer at once".to_owned();
            return self.answer(asked, ruling(Decision::Deny, reason), effects);
        }
        effects.push(Effect::AskGit { attempt: self.attempt, request_id: asked.request_id.clone(), paths });
        self.at_git.insert(asked.request_id.clone(), asked.clone());
        None
    }

    /// Git said what it ignores.
    pub(super) fn git_said(
        &mut self,
        now: Now,
        request_id: &str,
        removable: &BTreeMap<PathBuf, bool>,
        grounds: &Grounds,
        effects: &mut Effects,
    ) -> Option<Fact> {
        let asked = self.at_git.remove(request_id)?;
        self.judge(now, asked, removable, grounds, effects)
    }

    /// The machine was looked at; the refused calls among those that waited for it come back.
    pub(super) fn sampled(
        &mut self,
        now: Now,
        verdict: &ResourceVerdict,
        effects: &mut Effects,
    ) -> Vec<Fact> {
        if self.cap.look(now.mono, verdict) {
            effects.publish(RunEvent::CapChanged {
                cap: self.cap.cap,
                tier: self.cap.tier.to_string(),
                why: self.cap.why.clone(),
            });
        }
        let before = (self.wave.live(), self.wave.totals());
        let waiting = std::mem::take(&mut self.at_machine);
        let refused =
            waiting.into_iter().filter_map(|(asked, ruling)| self.place(&asked, ruling, effects)).collect();
        self.publish_wave(before, effects);
        refused
    }

    fn judge(
        &mut self,
        now: Now,
        asked: Asked,
        removable: &BTreeMap<PathBuf, bool>,
        grounds: &Grounds,
        effects: &mut Effects,
    ) -> Option<Fact> {
        let call = Call { tool: &asked.tool, input: &asked.input };
        let context = context(&asked, self.mode, grounds);
        let known = |path: &Path| removable.get(path).copied();
        let ruling = if asked.prompt {
            gate::judge_prompt(&call, &context, &known)
        } else {
            gate::judge(&call, &context, &known)
        };
        let needs_place = AGENT_TOOLS.contains(&asked.tool.as_str()) && ruling.decision != Decision::Deny;
        if !needs_place {
            return self.answer(&asked, ruling, effects);
        }
        if self.cap.is_stale(now.mono) {
            if self.at_machine.is_empty() {
                effects.push(Effect::Sample);
            }
            self.at_machine.push((asked, ruling));
            return None;
        }
        self.place(&asked, ruling, effects)
    }

    /// Gives a sub-agent its place under the cap, or refuses it.
    fn place(&mut self, asked: &Asked, ruling: Ruling, effects: &mut Effects) -> Option<Fact> {
        let call = asked.call.as_deref().unwrap_or(&asked.request_id);
        let ruling = match self.wave.ask(call, &self.cap) {
            Ok(()) => ruling,
            Err(reason) => self::ruling(Decision::Deny, reason),
        };
        self.answer(asked, ruling, effects)
    }

    /// What nobody is here for. `None` = it is a call like any other.
    fn for_a_person(&mut self, asked: &Asked, grounds: &Grounds) -> Option<Ruling> {
        match asked.tool.as_str() {
            "AskUserQuestion" => {
                self.question = Some(question(&asked.input));
                Some(ruling(Decision::Deny, NO_ANSWER.to_owned()))
            }
            "ExitPlanMode" if grounds.plans_only => Some(ruling(Decision::Deny, ONLY_PLANS.to_owned())),
            "ExitPlanMode" => Some(ruling(
                Decision::Allow,
                "nobody is here to approve a plan; each call of its work is judged by itself".to_owned(),
            )),
            _ => None,
        }
    }

    fn answer(&mut self, asked: &Asked, ruling: Ruling, effects: &mut Effects) -> Option<Fact> {
        let Ruling { decision, reason, parts } = ruling;
        // A prompt has no "as usual": who would be asked is not here.
        let decision = if asked.prompt && decision == Decision::Defer { Decision::Deny } else { decision };
        effects.push(Effect::Answer {
            attempt: self.attempt,
            request_id: asked.request_id.clone(),
            answer: Answer { decision, reason: reason.clone() },
        });
        let refused = parts.iter().find(|part| part.decision == Decision::Deny);
        let what = refused.or(parts.first()).map_or_else(|| excerpt(&asked.input), |part| part.what.clone());
        effects.publish(RunEvent::GateDecided {
            tool: asked.tool.chars().take(WHAT).collect(),
            what: redacted(&what.chars().take(WHAT).collect::<String>()),
            decision: decision.as_str().to_owned(),
            reason: redacted(&reason),
            prompt: asked.prompt,
            sub_agent: asked.sub_agent,
        });
        (decision == Decision::Deny)
            .then(|| Fact::Denied { tool: asked.tool.clone(), id: asked.call.clone() })
    }
}

/// Told to a session that asks a person.
const NO_ANSWER: &str = "no person is here to answer. If the work can go on without it, take the safest answer \
    yourself and say so in the report. If it cannot, stop here and report status \"blocked\" with the question and its \
    options in blocked_on";

/// Told to a session that has made the plan it was asked for.
const ONLY_PLANS: &str = "no person is here to approve the plan, and this run only plans. Put the plan into the report \
    and end";

fn ruling(decision: Decision, reason: String) -> Ruling {
    Ruling { decision, reason, parts: Vec::new() }
}

fn context<'a>(asked: &'a Asked, mode: Mode, grounds: &'a Grounds) -> Context<'a> {
    Context {
        policy: grounds.policy,
        rules: &grounds.rules,
        mode,
        tree: &grounds.tree,
        added: &grounds.added,
        cwd: asked.cwd.as_deref().map_or(&grounds.tree, Path::new),
        home: grounds.home.as_deref(),
        temporary: &grounds.temporary,
    }
}

/// The first question of an `AskUserQuestion`, with the labels of its options.
fn question(input: &serde_json::Value) -> BlockedOn {
    let first = input.get("questions").and_then(|questions| questions.get(0)).unwrap_or(input);
    let text = |value: &serde_json::Value| value.as_str().map(|text| text.chars().take(WHAT * 2).collect());
    let options = first.get("options").and_then(serde_json::Value::as_array);
    BlockedOn {
        question: first.get("question").and_then(text),
        options: options
            .into_iter()
            .flatten()
            .filter_map(|option| option.get("label").and_then(text).or_else(|| text(option)))
            .collect(),
    }
}

/// What a call is about, in a line.
fn excerpt(input: &serde_json::Value) -> String {
    ["command", "file_path", "notebook_path", "path", "url", "pattern", "description", "prompt", "query"]
        .iter()
        .find_map(|key| input.get(key)?.as_str())
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(WHAT)
        .collect()
}

/// Words after which a value is a secret.
const SECRET_NAMES: [&str; 8] =
    ["token", "secret", "password", "passwd", "authorization", "bearer", "api_key", "api-key"];

/// Beginnings of well-known keys.
const KEY_BEGINNINGS: [&str; 8] = ["sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "AKIA", "npm_"];

/// The text without what looks like a secret: events are kept, sent on and pasted into reports (design §9).
fn redacted(text: &str) -> String {
    let mut secret_next = false;
    let mut words = Vec::new();
    for word in text.split(' ') {
        let bare = word.trim_matches(['"', '\'', ',', ';']);
        let lower = word.to_lowercase();
        let ends_there = |at: &usize| !lower[*at..].starts_with(|c: char| c.is_alphanumeric());
        let named = SECRET_NAMES
            .iter()
            .filter_map(|name| Some(lower.find(name)? + name.len()))
            .filter(ends_there)
            .max();
        let value_at = named.and_then(|at| {
            let rest = word.get(at..)?;
            let from = rest.find(['=', ':'])? + 1;
            (from < rest.len() && !rest[from..].starts_with(['"', '\'', '$'])).then_some(at + from)
        });
        if let Some(at) = value_at {
            words.push(format!("{}***", &word[..at]));
            secret_next = false;
        } else if KEY_BEGINNINGS.iter().any(|key| bare.contains(key) && bare.len() >= key.len() + 12)
            || (secret_next && !bare.is_empty() && !lower.contains("bearer") && !lower.contains("basic"))
        {
            words.push("***".to_owned());
            secret_next = false;
        } else {
            secret_next = named.is_some() && (lower.ends_with(':') || lower.ends_with("bearer"))
                || secret_next && (lower.contains("bearer") || lower.contains("basic") || bare.is_empty());
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests;
