//! The run loop of design §4 as a state machine: `step(now, event) → effects`.
//!
//! ```text
//! Start → Looking (sample, peers, survey, snapshot) → switches → peers → mode → confidence
//!           ↑ ↑                                                    │               │
//!           │ └───────────────────── Waiting ←────────────────────┘               │
//!           └── switches ← recorded ← measured ← Session ←─────────────────────────┘    → Finish
//! ```
//!
//! The order of the checks is design §4's: abort, sessions, hours, tokens, cost, overload, peers in the same
//! tree, mode, confidence; after a session stall, spiral, failed wave, carry-over, abort. An iteration is
//! counted before the checks that follow its session. The core makes no ids up and reads no clock.

use std::time::Duration;

use jiff::Timestamp;

use super::autonomy::Autonomy;
use super::conversation::Conversation;
use super::event::{Effect, Effects, Event, RunEnd, StopLevel, Survey};
use super::kill_switch::{self, Fired, KillSwitch};
use super::mediation::Grounds;
use super::mode::Mode;
use super::outcome::Class;
use super::published::{PeerSession, Purpose, ResetSource, RunEvent, SignalReading, SwitchInputs};
use super::recovery::Policy;
use super::resources::ResourceVerdict;
use super::selector;
use super::session::{Session, SessionEnd};
use super::session_report::ReportStatus;
use super::signals::Signals;
use super::suitability;
use super::task;
use super::time::{Now, TimerKind};
use super::turn::{Books, LaunchContext, Shared};
pub use inherited::Inherited;
use peers::PeerWait;

mod inherited;
mod landing;
mod peers;

/// What the next iteration does with the conversation of the last one (`--chain`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// A new conversation.
    Fresh,
    /// The last one goes on.
    Resume,
}

/// The limits of a run, resolved.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Limits {
    /// `--max-sessions`.
    pub max_sessions: u32,
    /// `--max-hours`.
    pub max_hours: f64,
    /// `--limit-wait-free`: time asleep on usage limits does not count.
    pub limit_wait_free: bool,
    /// `--max-tokens`; 0 = off.
    pub max_tokens: u64,
    /// `--max-cost`.
    pub max_cost_usd: Option<f64>,
    /// `--confidence-threshold`.
    pub confidence_threshold: f64,
    /// `--carryover-threshold`.
    pub carryover_threshold: f64,
    /// `--peer-abort`.
    pub peer_abort: u32,
    /// `--stall-timeout`.
    pub stall_timeout: Duration,
    /// `--first-output-timeout`.
    pub first_output_timeout: Duration,
    /// `--turn-timeout`.
    pub turn_timeout: Duration,
    /// `--exit-grace`.
    pub exit_grace: Duration,
    /// `--deadline`: from the start of this process to its end.
    pub deadline: Option<Duration>,
    /// `--chain`.
    pub chain: Chain,
    /// `--autonomy`.
    pub autonomy: Autonomy,
    /// Least confidence of a good pre-launch verdict.
    pub confidence_floor: f64,
    /// `--verify` is given.
    pub verify: bool,
    /// `--escalation-timeout` under `--autonomy autonomous-gated`: a question nobody answers for so long takes
    /// its first option. `None` = a question ends the run.
    pub answer_after: Option<Duration>,
    /// What tools may do.
    pub gate: Grounds,
    /// `stuck-detection`: a turn that goes round in circles is stopped.
    pub stuck_detection: bool,
    /// Recovery of turns.
    pub recovery: Policy,
    /// `--peer-grace`.
    pub peer_grace: Duration,
    /// `--allow-peers`.
    pub allow_peers: bool,
    /// `--reserve`: percent of each usage window to keep; 0 = off.
    pub reserve: f64,
    /// Added to a limit's reset so that not everybody comes back in the same second.
    pub jitter: Duration,
}

impl Limits {
    /// `--max-hours` as a duration.
    #[must_use]
    pub fn max_time(&self) -> Duration {
        Duration::try_from_secs_f64(self.max_hours * 3600.0).unwrap_or(Duration::MAX)
    }
}

/// A usage limit that is being waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenLimit {
    /// Which window.
    pub window: Option<String>,
    /// Until when to wait.
    pub until: Timestamp,
    /// How that is known.
    pub source: ResetSource,
    /// Words of the limit.
    pub why: String,
}

#[derive(Debug)]
enum State {
    Idle,
    Looking(Looking),
    /// For other Claude sessions in this tree to end.
    Waiting(PeerWait),
    InSession(Box<Session>),
    Done,
}

#[derive(Debug, Default)]
struct Looking {
    verdict: Option<(ResourceVerdict, Option<u32>)>,
    survey: Option<Box<Survey>>,
    snapshot: bool,
    /// Others at work in this tree.
    here: Option<Vec<PeerSession>>,
}

/// A run.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a run")]
pub struct Run {
    limits: Limits,
    state: State,
    books: Books,
    /// When this process began.
    started: Option<Now>,
    /// What the run was at work before that.
    before: Duration,
    iterations: u32,
    sessions: Vec<String>,
    stop: Option<(StopLevel, &'static str)>,
    verdict_at_start: Option<String>,
    last_conversation: Option<Conversation>,
    interrupted: Option<String>,
    /// The session under way is, or the next one will be, one that `resume` took up.
    taken_up: bool,
    /// What the interrupted conversation was waiting for.
    open_limit: Option<OpenLimit>,
    work_done: bool,
    /// The work is given in words.
    has_prompt: bool,
    stalls: u32,
    ids: Vec<String>,
    journal_failure: Option<String>,
    /// It was said that others work in this tree (`--allow-peers`).
    told_of_peers: bool,
    /// The deadline ended it.
    deadline_reached: bool,
}

/// Spare conversation ids a session may use up by fresh starts.
const IDS_PER_SESSION: usize = 8;

impl Run {
    /// A run that has not begun. `ids` are the conversation ids it may use: see [`Run::ids_needed`].
    #[must_use]
    pub fn new(limits: Limits, ids: Vec<String>, inherited: Inherited) -> Self {
        Run {
            limits,
            state: State::Idle,
            books: Books::reopened(&inherited),
            started: None,
            before: inherited.elapsed,
            iterations: inherited.iterations,
            sessions: inherited.sessions,
            stop: None,
            verdict_at_start: inherited.verdict_at_start,
            last_conversation: None,
            taken_up: inherited.session_id.is_some(),
            interrupted: inherited.session_id,
            open_limit: inherited.limit,
            work_done: inherited.work_done,
            has_prompt: false,
            stalls: inherited.stalls,
            ids,
            journal_failure: None,
            told_of_peers: false,
            deadline_reached: false,
        }
    }

    /// How many conversation ids a run of that many sessions may use up.
    #[must_use]
    pub fn ids_needed(max_sessions: u32) -> usize {
        max_sessions as usize * IDS_PER_SESSION
    }

    /// Whether the run is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// The attempt that runs now, if one does.
    #[must_use]
    pub fn running_attempt(&self) -> Option<u32> {
        match &self.state {
            State::InSession(session) => session.running(),
            State::Idle | State::Looking(_) | State::Waiting(_) | State::Done => None,
        }
    }

    /// Takes an event in and says what is to be done. Never fails, never blocks.
    pub fn step(&mut self, now: Now, event: Event) -> Effects {
        let mut effects = Effects::default();
        match event {
            Event::Start => {
                if matches!(self.state, State::Idle) {
                    self.started = Some(now);
                    self.prepare_landing(&mut effects);
                    self.look(&mut effects);
                }
            }
            Event::Stop { level, by } => self.request_stop(now, level, by, &mut effects),
            Event::JournalFailed(why) => {
                self.journal_failure.get_or_insert(why);
                self.request_stop(now, StopLevel::Interrupt, "disk", &mut effects);
            }
            Event::Suspended { asleep } => {
                effects.publish(RunEvent::Suspended { asleep_seconds: asleep.as_secs_f64() });
                self.lengthen_peer_grace(asleep);
                self.forward(now, Event::Suspended { asleep }, &mut effects);
            }
            Event::Sampled { verdict, peers } => {
                match &mut self.state {
                    State::Looking(looking) => looking.verdict = Some((verdict, peers)),
                    // Asked for before a sub-agent starts.
                    State::InSession(_) => {
                        self.forward(now, Event::Sampled { verdict, peers }, &mut effects);
                        return effects;
                    }
                    State::Idle | State::Waiting(_) | State::Done => {}
                }
                self.looked(now, &mut effects);
            }
            Event::PeersHere(here) => self.peers_seen(now, here, &mut effects),
            Event::Surveyed(survey) => {
                if let State::Looking(looking) = &mut self.state {
                    looking.survey = Some(survey);
                    // Only now: a survey moves items of the inbox into the plan, which is no work of a session.
                    effects.push(Effect::Snapshot);
                }
                self.looked(now, &mut effects);
            }
            Event::Snapshotted => {
                if let State::Looking(looking) = &mut self.state {
                    looking.snapshot = true;
                }
                self.looked(now, &mut effects);
            }
            Event::Spawned { attempt, pid } => {
                if self.running_attempt() == Some(attempt) {
                    effects.publish(RunEvent::AttemptSpawned { attempt, pid });
                }
            }
            Event::Recorded(Err(why)) => {
                self.journal_failure.get_or_insert(why);
                self.forward(now, Event::Recorded(Ok(())), &mut effects);
            }
            Event::Timer(timer) if timer.kind == TimerKind::Deadline => {
                self.land(now, timer.epoch, &mut effects);
            }
            Event::Timer(timer) if self.is_peer_poll(timer) => effects.push(Effect::LookForPeers),
            event @ (Event::Inspected { .. }
            | Event::Found { .. }
            | Event::AttemptOver { .. }
            | Event::Liveness { .. }
            | Event::GitSaid { .. }
            | Event::Timer(_)
            | Event::Measured { .. }
            | Event::TasksSettled(_)
            | Event::Recorded(Ok(()))) => self.forward(now, event, &mut effects),
        }
        effects
    }

    /// How long the run has been at work, in all its parts.
    fn duration(&self, now: Now) -> Duration {
        self.before + self.started.map_or(Duration::ZERO, |started| now.since(started))
    }

    fn elapsed(&self, now: Now) -> Duration {
        let elapsed = self.duration(now);
        if self.limits.limit_wait_free { elapsed.saturating_sub(self.books.limit_wait) } else { elapsed }
    }

    fn look(&mut self, effects: &mut Effects) {
        self.state = State::Looking(Looking::default());
        effects.push(Effect::Sample);
        effects.push(Effect::LookForPeers);
        effects.push(Effect::Survey);
    }

    /// Everything has been looked at: the checks before a session, in their order.
    fn looked(&mut self, now: Now, effects: &mut Effects) {
        if !self.peers_known() {
            return;
        }
        let (verdict, peers, survey) = match &mut self.state {
            State::Looking(Looking {
                verdict: Some((verdict, peers)),
                survey: Some(survey),
                snapshot: true,
                ..
            }) => (verdict.clone(), *peers, std::mem::take(survey)),
            State::Idle | State::Looking(_) | State::Waiting(_) | State::InSession(_) | State::Done => return,
        };
        let Survey { signals, tasks, hand_over, recent_runs } = *survey;
        self.has_prompt = signals.prompt;
        let iteration = self.iterations + 1;
        effects.publish(verdict_event(iteration, &verdict));
        self.verdict_at_start.get_or_insert_with(|| verdict.tier.to_string());

        let inputs = self.inputs(now, verdict.tier.to_string(), peers);
        if self.journal_failure.is_some() {
            self.finish_unwritable(now, effects);
            return;
        }
        let fired = self
            .aborted("AbortSignal triggered before iteration")
            .or_else(|| kill_switch::before_session(&inputs))
            .or_else(|| self.too_late_to_begin(now));
        effects.publish(switches_checked(iteration, "before", inputs, fired.as_ref()));
        if let Some(fired) = fired {
            self.finish(now, Some(fired), None, effects);
            return;
        }
        if self.keeps_reserve(now, iteration, effects) || self.held_by_peers(now, iteration, effects) {
            return;
        }
        let signals = Signals { interrupted: self.interrupted.is_some(), ..signals };
        effects.publish(RunEvent::Surveyed { iteration, signals: Box::new(signals.clone()) });
        let choice = selector::select(&signals, self.work_done);
        effects.publish(RunEvent::ModeSelected {
            iteration,
            mode: choice.mode,
            confidence: choice.confidence,
            threshold: self.limits.confidence_threshold,
            rationale: choice.rationale.clone(),
            alternatives: choice.alternatives.clone(),
            pressure: choice.pressure,
            reasons: choice.reasons.clone(),
        });
        if choice.no_open_work {
            self.finish_planned(now, choice.rationale, effects);
            return;
        }
        if iteration == 1 && !signals.interrupted {
            let inputs = suitability::Inputs {
                autonomy: self.limits.autonomy,
                floor: self.limits.confidence_floor,
                confidence: Some(choice.confidence),
                ci: signals.ci,
                resources: Some(verdict.tier),
                runs: &recent_runs,
            };
            if self.forbidden(now, &inputs, effects) {
                return;
            }
        }
        match choice.mode {
            Some(mode) if choice.confidence >= self.limits.confidence_threshold => {
                // A prompt is the work itself; the tasks are another run's.
                let tasks = if signals.prompt { Vec::new() } else { task::choose(&tasks, mode) };
                let cap = verdict.cap;
                let context = LaunchContext { iteration, mode, cap, tasks, hand_over, answer: None };
                self.begin_session(now, context, effects);
            }
            mode => self.not_sure(now, iteration, mode, choice.confidence, effects),
        }
    }

    /// The pre-launch verdict (design §7); whether it ended the run.
    fn forbidden(&mut self, now: Now, inputs: &suitability::Inputs<'_>, effects: &mut Effects) -> bool {
        if inputs.autonomy == Autonomy::Off {
            return false;
        }
        let verdict = suitability::judge(inputs);
        effects.publish(RunEvent::VerdictJudged { autonomy: inputs.autonomy, verdict: verdict.clone() });
        if !verdict.forbids_start(inputs.autonomy) {
            return false;
        }
        let mut end = self.end(now);
        end.detail = Some(verdict.rationale.clone());
        end.forbidden = Some(verdict);
        self.close(end, effects);
        true
    }

    /// Whether `--reserve` ended the run: a usage window is used up so far that the rest is to be kept.
    fn keeps_reserve(&mut self, now: Now, iteration: u32, effects: &mut Effects) -> bool {
        let reserve = self.limits.reserve;
        let Some(full) = self.books.usage.beyond_reserve(now.wall, reserve) else { return false };
        let used = full.utilization * 100.0;
        let detail =
            format!("usage window {} is {used:.0} % used, --reserve {reserve} keeps the rest", full.name);
        effects.publish(RunEvent::ReserveReached {
            iteration,
            window: full.name.clone(),
            utilization: full.utilization,
            resets_at: full.resets_at,
            reserve,
        });
        let mut end = self.end(now);
        end.detail = Some(detail);
        end.reserved_window = Some(full.name);
        self.close(end, effects);
        true
    }

    fn not_sure(
        &mut self,
        now: Now,
        iteration: u32,
        mode: Option<Mode>,
        confidence: f64,
        effects: &mut Effects,
    ) {
        let threshold = self.limits.confidence_threshold;
        let detail = format!("iteration {iteration}: confidence={confidence} < threshold={threshold}");
        if iteration > 1 {
            let fired = Fired { switch: KillSwitch::LowConfidenceFallback, detail };
            self.finish(now, Some(fired), None, effects);
            return;
        }
        let detail = match mode {
            None => "iteration 1: no mode recommendation — fallback to manual".to_owned(),
            Some(_) => format!("{detail} — fallback to manual"),
        };
        let mut end = self.end(now);
        end.detail = Some(detail);
        end.fallback_to_manual = true;
        self.close(end, effects);
    }

    fn begin_session(&mut self, now: Now, context: LaunchContext, effects: &mut Effects) {
        let mut first = Purpose::Work;
        let interrupted = self.interrupted.take();
        let open_limit = self.open_limit.take().filter(|_| interrupted.is_some());
        let conversation = if let Some(id) = interrupted {
            first = Purpose::Reconcile;
            Some(Conversation { id, earlier: Vec::new(), used: true, spare_ids: Vec::new(), left: None })
        } else if self.limits.chain == Chain::Resume {
            self.last_conversation.take()
        } else {
            None
        };
        let mut spare_ids = self.ids.split_off(self.ids.len().saturating_sub(IDS_PER_SESSION));
        let conversation = if let Some(conversation) = conversation {
            Conversation { spare_ids, ..conversation }
        } else {
            let Some(id) = spare_ids.pop() else {
                let detail = "no conversation id left".to_owned();
                let fired = Fired { switch: KillSwitch::FailedWave, detail };
                self.finish(now, Some(fired), None, effects);
                return;
            };
            Conversation { id, earlier: Vec::new(), used: false, spare_ids, left: None }
        };
        let elapsed = self.elapsed(now);
        let stop = self.stop.map(|(level, _)| level);
        let deadline_in = self.deadline_in(now);
        let mut shared =
            Shared { now, limits: &self.limits, books: &mut self.books, effects, stop, elapsed, deadline_in };
        if first == Purpose::Work {
            let tasks = context.tasks.iter().map(|task| task.id.clone()).collect();
            shared.effects.push(Effect::OpenSession { tasks });
        }
        let session = Session::begin(context, conversation, first, open_limit, &mut shared);
        self.state = State::InSession(Box::new(session));
    }

    fn forward(&mut self, now: Now, mut event: Event, effects: &mut Effects) {
        let elapsed = self.elapsed(now);
        let stop = self.stop.map(|(level, _)| level);
        // What comes between sessions or after the end is late: the state stays as it is.
        let deadline_in = self.deadline_in(now);
        let State::InSession(session) = &mut self.state else { return };
        let mut shared =
            Shared { now, limits: &self.limits, books: &mut self.books, effects, stop, elapsed, deadline_in };
        if let Some(end) = session.step(&mut event, &mut shared)
            && let State::InSession(session) = std::mem::replace(&mut self.state, State::Idle)
        {
            self.session_over(now, &session, &end, effects);
        }
    }

    /// The session is measured and recorded: count it, then the checks after a session, in their order.
    fn session_over(&mut self, now: Now, session: &Session, end: &SessionEnd, effects: &mut Effects) {
        self.state = State::Idle;
        let iteration = session.iteration();
        // Ids it had before are told as well: each has a transcript of its own (field-reports H06, G00).
        for id in &session.conversation.earlier {
            if !self.sessions.contains(id) {
                self.sessions.push(id.clone());
            }
        }
        // The conversation that `resume` took up is on the list, if the run ended by itself then.
        let listed = std::mem::take(&mut self.taken_up) && self.sessions.contains(&session.conversation.id);
        if session.conversation.used && !listed {
            self.sessions.push(session.conversation.id.clone());
        }
        if end.completed {
            self.iterations += 1;
            if end.stall.is_none() {
                self.books.heals = 0;
            }
        }
        if self.journal_failure.is_some() {
            self.finish_unwritable(now, effects);
            return;
        }
        self.last_conversation = Some(session.conversation.clone());
        let report = session.report();
        let failed_verification = session.verification().filter(|verification| !verification.passed);
        let mut inputs = self.inputs(now, String::new(), None);
        let checked = session.checked();
        inputs.spiral = checked.spiral.map(as_number);
        inputs.failed = checked.failed.map(as_number);
        inputs.planned = checked.planned.map(as_number);
        inputs.carryover = checked.carryover.map(as_number);
        // It counts as a failed wave (design §3), in words of its own where the session reported none.
        let only_verification =
            failed_verification.filter(|_| inputs.failed.is_none_or(|failed| failed <= 0.0));
        if failed_verification.is_some() {
            inputs.failed = Some(inputs.failed.unwrap_or(0.0).max(0.0) + 1.0);
        }
        let stall = end.stall.clone();
        if stall.is_some() {
            self.stalls += 1;
        }
        let failure = (!end.completed && !end.aborted || end.needs_person).then_some(end.class);
        let fired = if let (Some(class), None) = (failure, &stall) {
            let detail = if class == Class::Blocked {
                format!("blocked on a person's answer: {}", end.why)
            } else {
                format!("session failed ({class}): {}", end.why)
            };
            Some(Fired { switch: KillSwitch::FailedWave, detail })
        } else if end.aborted {
            None
        } else {
            kill_switch::after_session(&inputs, stall.as_ref()).map(|fired| match only_verification {
                Some(verification) if fired.switch == KillSwitch::FailedWave => {
                    Fired { detail: format!("--verify failed: {}", verification.ended), ..fired }
                }
                _ if fired.switch == KillSwitch::Spiral && end.spiral() => {
                    Fired { detail: format!("went round in circles: {}", end.why), ..fired }
                }
                _ => fired,
            })
        };
        let fired = fired
            .or_else(|| self.aborted("AbortSignal triggered between iterations"))
            .or_else(|| self.limited_beyond_deadline());
        effects.publish(switches_checked(iteration, "after", inputs, fired.as_ref()));
        // Without a prompt "complete" speaks of what that session chose to do, not of all there is (design §5).
        let work_done = match report.and_then(|report| report.status) {
            Some(ReportStatus::Complete) => self.has_prompt,
            Some(ReportStatus::NothingToDo) => true,
            Some(ReportStatus::Partial | ReportStatus::Blocked) | None => false,
        };
        self.work_done |= work_done && failed_verification.is_none();
        match fired {
            Some(fired) => {
                let failure = failure
                    .or_else(|| (stall.is_some() || end.spiral()).then_some(end.class))
                    .map(|class| (class, end.needs_person));
                self.finish(now, Some(fired), failure, effects);
            }
            None => self.look(effects),
        }
    }

    fn request_stop(&mut self, now: Now, level: StopLevel, by: &'static str, effects: &mut Effects) {
        if matches!(self.state, State::Done) || self.stop.is_some_and(|(before, _)| before >= level) {
            return;
        }
        self.stop = Some((level, by));
        effects.publish(RunEvent::StopRequested { level: level.as_str().to_owned(), by: by.to_owned() });
        self.forward(now, Event::Stop { level, by }, effects);
        self.stop_waiting(now, effects);
    }

    fn aborted(&mut self, words: &str) -> Option<Fired> {
        let (_, by) = self.stop?;
        if by == landing::BY {
            return Some(self.landed());
        }
        Some(Fired { switch: KillSwitch::UserAbort, detail: format!("{words} ({by})") })
    }

    fn inputs(&self, now: Now, resources: String, peers: Option<u32>) -> SwitchInputs {
        let spend = self.books.ledger.run();
        SwitchInputs {
            iterations: self.iterations,
            max_sessions: self.limits.max_sessions,
            elapsed_hours: self.elapsed(now).as_secs_f64() / 3600.0,
            max_hours: self.limits.max_hours,
            tokens: spend.tokens.output,
            max_tokens: self.limits.max_tokens,
            cost_usd: spend.cost_usd,
            max_cost_usd: self.limits.max_cost_usd,
            resources,
            peers,
            peer_abort: self.limits.peer_abort,
            spiral: None,
            failed: None,
            planned: None,
            carryover: None,
            carryover_threshold: self.limits.carryover_threshold,
        }
    }

    fn end(&self, now: Now) -> RunEnd {
        let spend = self.books.ledger.run();
        RunEnd {
            kill_switch: None,
            detail: None,
            failure_class: None,
            needs_person: false,
            fallback_to_manual: false,
            forbidden: None,
            peers: Vec::new(),
            work_done: self.work_done,
            reserved_window: None,
            deadline_reached: self.deadline_reached,
            stopped_by: self.stop.map(|(_, by)| by),
            iterations: self.iterations,
            sessions: self.sessions.clone(),
            tokens: spend.tokens,
            cost_usd: spend.cost_usd,
            duration: self.duration(now),
            limit_wait: self.books.limit_wait,
            stalls: self.stalls,
            resource_verdict_at_start: self.verdict_at_start.clone(),
        }
    }

    fn finish(
        &mut self,
        now: Now,
        fired: Option<Fired>,
        failure: Option<(Class, bool)>,
        effects: &mut Effects,
    ) {
        let mut end = self.end(now);
        if let Some(Fired { switch, detail }) = fired {
            end.kill_switch = Some(switch);
            end.detail = Some(detail);
        }
        if let Some((class, needs_person)) = failure {
            end.failure_class = Some(class);
            end.needs_person = needs_person;
        }
        self.close(end, effects);
    }

    /// The run's own files cannot be written: a person has to make room.
    fn finish_unwritable(&mut self, now: Now, effects: &mut Effects) {
        let detail = self.journal_failure.clone().unwrap_or_default();
        let fired = Fired { switch: KillSwitch::FailedWave, detail };
        self.finish(now, Some(fired), Some((Class::Disk, true)), effects);
    }

    fn finish_planned(&mut self, now: Now, detail: String, effects: &mut Effects) {
        let mut end = self.end(now);
        end.detail = Some(detail);
        self.close(end, effects);
    }

    fn close(&mut self, end: RunEnd, effects: &mut Effects) {
        self.state = State::Done;
        effects.push(Effect::Finish(Box::new(end)));
    }
}

fn switches_checked(iteration: u32, phase: &str, inputs: SwitchInputs, fired: Option<&Fired>) -> RunEvent {
    RunEvent::SwitchesChecked {
        iteration,
        phase: phase.to_owned(),
        inputs,
        hit: fired.map(|fired| fired.switch),
        detail: fired.map(|fired| fired.detail.clone()),
    }
}

fn verdict_event(iteration: u32, verdict: &ResourceVerdict) -> RunEvent {
    RunEvent::ResourcesJudged {
        iteration,
        tier: verdict.tier.to_string(),
        cap: verdict.cap,
        deciding: verdict.deciding.map(|deciding| deciding.signal.to_string()),
        signals: verdict
            .signals
            .iter()
            .map(|signal| SignalReading {
                signal: signal.signal.to_string(),
                value: signal.value_words(),
                tier: signal.tier.to_string(),
            })
            .collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of tasks and agents are far below 2^52")]
fn as_number(count: u64) -> f64 {
    count as f64
}
