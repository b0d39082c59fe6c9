//! One turn: a prompt, from before its first process to the end of its result.
//!
//! A turn has one live process at most. Its states: look at the transcript → run an attempt → look again →
//! judge → accept, or pause and go round.

use std::time::Duration;

use super::attempt::Running;
use super::conversation::Conversation;
use super::event::{Answer, Effect, Effects, Launch, StopLevel, StopStep};
use super::evidence::{Evidence, StopCause};
use super::fact::Fact;
use super::hand_over::HandOver;
use super::judge::{Outcome, judge};
use super::kill_switch::Stall;
use super::ledger::Ledger;
use super::outcome::Class;
use super::published::{Purpose, RunEvent};
use super::recovery::{self, Action, Case, Departure, History, Poison};
use super::run::{Inherited, Limits, OpenLimit};
use super::task::Task;
use super::time::{Now, TimerId, TimerKind};
use super::transcript_digest::{Resumable, TranscriptDigest};
use super::usage::UsageWindows;
pub(super) use circles::Circles;

mod circles;

/// From an interrupt to its result; then the process is terminated (recovery §8.3: SIGINT, 10 s, SIGTERM).
const INTERRUPT_GRACE: Duration = Duration::from_secs(10);

/// Retries of the CLI with a refused login after which a person is asked for. It would go on for three minutes
/// (claude-code §3).
const LOGIN_REFUSALS: u32 = 2;

/// Why a CLI that does not ask before each call does not run.
const UNGATED: &str = "this Claude Code does not ask before it runs a tool, so nothing could be refused: update it, or \
    allow it with --gate off";

/// Largest transcript, in bytes, that is resumed. With 223 MB the CLI took 12 GB of memory, with 103 MB it gave up and said
/// that there is no such conversation (field-reports I11, I15).
const LARGEST_RESUMED: u64 = 128 << 20;

/// What a turn shares with the run while it steps.
pub(super) struct Shared<'a> {
    pub(super) now: Now,
    pub(super) limits: &'a Limits,
    pub(super) books: &'a mut Books,
    pub(super) effects: &'a mut Effects,
    /// How hard the operator wants to stop, if at all.
    pub(super) stop: Option<StopLevel>,
    /// What the run has used of its time.
    pub(super) elapsed: Duration,
    /// Time until the last session is interrupted (`--deadline`).
    pub(super) deadline_in: Option<Duration>,
}

impl Shared<'_> {
    /// Time that is left of the run, or of this process if that is less.
    fn time_left(&self) -> Duration {
        let run = self.limits.max_time().saturating_sub(self.elapsed);
        self.deadline_in.map_or(run, |deadline| run.min(deadline))
    }

    /// Says what the run has used so far.
    fn publish_books(&mut self, session_id: &str) {
        let run = self.books.ledger.run();
        let conversation = self.books.ledger.conversation(session_id).unwrap_or_default();
        self.effects.publish(RunEvent::Accounted {
            session_id: session_id.to_owned(),
            tokens: run.tokens,
            cost_usd: run.cost_usd,
            conversation_tokens: conversation.tokens,
            conversation_cost_usd: conversation.cost_usd,
        });
    }
}

/// What a run counts while its sessions step.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) ledger: Ledger,
    /// Number of the last attempt.
    pub(super) attempts: u32,
    /// Time spent asleep on usage limits.
    pub(super) limit_wait: Duration,
    /// The account's usage windows, as this run saw them.
    pub(super) usage: UsageWindows,
    /// Speak plain `-p` for the rest of the session.
    plain: bool,
    /// Heals of the run that are used up (recovery §4.2).
    pub(super) heals: u32,
    /// Conversations that cannot go on.
    poison: Poison,
    /// How often the CLI refused the control protocol.
    control_refused: u32,
    /// A usage limit that lasts longer than this process may (`--deadline`), in words.
    pub(super) limit_beyond_deadline: Option<String>,
    /// Names states for timers.
    epoch: u64,
}

/// So often the control protocol is tried in a run: once may be a slow start, twice is an answer.
const CONTROL_TRIES: u32 = 2;

impl Books {
    /// Books that are opened again by `resume`.
    pub(super) fn reopened(inherited: &Inherited) -> Self {
        let totals = inherited.conversations.iter().map(|(id, spend)| (id.clone(), *spend));
        Books {
            ledger: Ledger::reopened(inherited.spend, totals),
            attempts: inherited.attempts,
            limit_wait: inherited.limit_wait,
            heals: inherited.heals,
            poison: Poison::reopened(inherited.left_at, inherited.left_for.clone()),
            ..Books::default()
        }
    }

    /// A session begins: the control protocol gets another chance.
    pub(super) fn begin_session(&mut self) {
        self.ledger.begin_session();
        self.poison.begin_session();
        self.plain = self.control_refused >= CONTROL_TRIES;
    }

    pub(super) fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TurnEnd {
    /// It is over and counts.
    Done {
        class: Class,
        /// Words worth telling.
        why: Option<String>,
    },
    /// It could not be brought to an end.
    Failed {
        class: Class,
        why: String,
        /// The hang, when that was the reason.
        stall: Option<Stall>,
    },
    /// A person has to act.
    NeedsPerson { class: Class, why: String },
    /// It went round in circles and nothing helped.
    Spiral {
        /// What it was doing.
        why: String,
    },
    /// The operator stopped it.
    Aborted,
}

#[derive(Debug)]
enum Phase {
    /// Waiting for the transcript before an attempt.
    Before,
    /// A process runs.
    Running(Box<Running>),
    /// Waiting for the transcript after an attempt.
    After(Box<Evidence>),
    /// Pausing before a recovery.
    Pausing { epoch: u64 },
    /// Asleep until a usage limit resets.
    Limited { epoch: u64, since: Now },
}

/// The state of a turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) number: u32,
    /// What the turn is for.
    pub(super) purpose: Purpose,
    /// What the next attempt says.
    prompt: Purpose,
    offset: Option<u64>,
    phase: Phase,
    history: History,
    circles: Circles,
    /// The attempt is to make room in a full context; the work comes after it.
    compacting: bool,
    pub(super) attempts: u32,
    /// Calls denied in all its attempts.
    pub(super) denials: usize,
    /// Sub-agents started in all its attempts.
    pub(super) agents_started: u32,
    /// Of these, failed.
    pub(super) agents_failed: u32,
    /// Evidence of the last attempt, for the session.
    pub(super) evidence: Evidence,
}

impl Turn {
    /// Begins a turn: the transcript is looked at first.
    pub(super) fn begin(
        number: u32,
        purpose: Purpose,
        conversation: &Conversation,
        circles: Circles,
        shared: &mut Shared<'_>,
    ) -> Self {
        shared.effects.push(Effect::Inspect { session_id: conversation.id.clone(), offset: None });
        Self::new(number, purpose, circles, shared)
    }

    /// Begins a turn with the rest of a wait that a run before could not finish. A wait that is over, or longer
    /// than this run may wait, is not taken up: asking costs one call and tells what holds now.
    pub(super) fn begin_limited(
        number: u32,
        purpose: Purpose,
        conversation: &Conversation,
        limit: OpenLimit,
        circles: Circles,
        shared: &mut Shared<'_>,
    ) -> Self {
        let rest = shared.now.until_wall(limit.until);
        if rest.is_zero() || rest > shared.limits.recovery.max_wait {
            return Self::begin(number, purpose, conversation, circles, shared);
        }
        let mut turn = Self::new(number, purpose, circles, shared);
        turn.history.limits.waited(limit.window.as_deref(), rest);
        turn.wait_until(limit, shared);
        turn
    }

    fn new(number: u32, purpose: Purpose, circles: Circles, shared: &mut Shared<'_>) -> Self {
        shared.books.ledger.begin_turn();
        Turn {
            number,
            purpose,
            prompt: purpose,
            offset: None,
            phase: Phase::Before,
            history: History::default(),
            circles,
            compacting: false,
            attempts: 0,
            denials: 0,
            agents_started: 0,
            agents_failed: 0,
            evidence: Evidence::default(),
        }
    }

    /// The attempt that runs now.
    pub(super) fn running(&self) -> Option<u32> {
        match &self.phase {
            Phase::Running(running) => Some(running.attempt),
            Phase::Before | Phase::After(_) | Phase::Pausing { .. } | Phase::Limited { .. } => None,
        }
    }

    pub(super) fn inspected(
        &mut self,
        context: &LaunchContext,
        conversation: &mut Conversation,
        digest: TranscriptDigest,
        shared: &mut Shared<'_>,
    ) -> Option<TurnEnd> {
        match std::mem::replace(&mut self.phase, Phase::Before) {
            Phase::Before => self.launch(context, conversation, &digest, shared),
            Phase::After(mut evidence) => {
                if evidence.result.is_none() {
                    shared.books.ledger.correct_estimate(&conversation.id, digest.tokens_after);
                }
                evidence.digest = Some(digest);
                self.over(*evidence, conversation, shared)
            }
            other @ (Phase::Running(_) | Phase::Pausing { .. } | Phase::Limited { .. }) => {
                self.phase = other;
                None
            }
        }
    }

    fn launch(
        &mut self,
        context: &LaunchContext,
        conversation: &mut Conversation,
        digest: &TranscriptDigest,
        shared: &mut Shared<'_>,
    ) -> Option<TurnEnd> {
        // An operator's stop always wins, checked before every launch (recovery §1.8).
        if shared.stop >= Some(StopLevel::Interrupt) || (shared.stop.is_some() && !conversation.used) {
            return Some(TurnEnd::Aborted);
        }
        let mut quarantine = false;
        // A file too large to be read whole is resumed, and the CLI has the last word; not so one that costs it all memory.
        let too_large = digest.size > LARGEST_RESUMED;
        let resume = digest.resumable != Resumable::No && !too_large;
        if !resume && conversation.used {
            // Never the same `--session-id` twice (field-reports H13).
            if self.purpose == Purpose::Close {
                // There is nothing left to report on.
                return Some(TurnEnd::Failed {
                    class: Class::NoSession,
                    why: "the conversation to report on is gone".to_owned(),
                    stall: None,
                });
            }
            // Removed by a clean-up, or never written (field-reports I06, I17).
            let lost = if too_large {
                format!("a transcript of {} MiB, too large to go on with", digest.size >> 20)
            } else if digest.exists {
                "a transcript without messages".to_owned()
            } else {
                "no transcript to go on with".to_owned()
            };
            let text = format!("conversation {} has {lost}", conversation.id);
            shared.effects.publish(RunEvent::Warning { text });
            // A new one that never started has nothing to tell; the one before it has.
            if conversation.left.is_none() || shared.books.poison.departure().is_none() {
                let (session_id, class) = (conversation.id.clone(), Class::NoSession);
                conversation.left = Some(Departure { session_id, class, why: lost });
            }
            if !conversation.renew(shared.effects) {
                return Some(TurnEnd::Failed {
                    class: Class::NoSession,
                    why: "no conversation could be started".to_owned(),
                    stall: None,
                });
            }
            self.offset = Some(0);
            // "Go on", or an answer, says nothing to a conversation that does not know what it is about.
            if matches!(
                self.prompt,
                Purpose::Continue | Purpose::Answer | Purpose::Nudge | Purpose::WrapUp | Purpose::Compact
            ) {
                self.prompt = Purpose::Reconcile;
            }
        } else if !resume && digest.exists {
            quarantine = true;
        }
        let offset = *self.offset.get_or_insert(if resume { digest.size } else { 0 });
        shared.books.attempts += 1;
        let attempt = shared.books.attempts;
        let epoch = shared.books.next_epoch();
        self.attempts += 1;
        conversation.used = true;
        self.circles.begin_attempt();
        shared.books.ledger.begin_attempt(&conversation.id, resume);
        let spend = shared.books.ledger.run();
        shared.effects.push(Effect::Launch(Box::new(Launch {
            attempt,
            iteration: context.iteration,
            session_id: conversation.id.clone(),
            resume,
            plain: shared.books.plain,
            quarantine,
            turn: self.number,
            transcript_offset: offset,
            purpose: self.prompt,
            mode: context.mode,
            cap: context.cap,
            budget_left_usd: shared
                .limits
                .max_cost_usd
                .map(|limit| (limit - spend.cost_usd.unwrap_or(0.0)).max(0.0)),
            tokens_left: (shared.limits.max_tokens > 0)
                .then(|| shared.limits.max_tokens.saturating_sub(spend.tokens.output)),
            time_left: shared.time_left(),
            tasks: context.tasks.clone(),
            hand_over: context.hand_over.clone(),
            answer: context.answer.clone(),
            circle: self.circles.circle.clone(),
            left: conversation.left.clone(),
        })));
        shared.effects.arm(TimerKind::FirstOutput, epoch, shared.limits.first_output_timeout);
        shared.effects.arm(TimerKind::Turn, epoch, shared.limits.turn_timeout);
        let evidence = Evidence { started: Some(shared.now), ..Evidence::default() };
        self.phase = Phase::Running(Box::new(Running {
            attempt,
            epoch,
            evidence,
            result_seen: false,
            input_closed: false,
            quiet_until: None,
            first_line_due: shared.now.mono + shared.limits.first_output_timeout,
            turn_due: shared.now.mono + shared.limits.turn_timeout,
            stopping: false,
        }));
        None
    }

    pub(super) fn found(&mut self, attempt: u32, fact: &Fact, session_id: &str, shared: &mut Shared<'_>) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.attempt != attempt {
            return;
        }
        let first_line = running.evidence.lines == 0 && !matches!(fact, Fact::Anomaly { .. });
        running.evidence.take(shared.now, fact);
        if first_line {
            shared.effects.arm(TimerKind::Stall, running.epoch, shared.limits.stall_timeout);
        }
        if matches!(fact, Fact::Initialised(_) | Fact::Text { .. } | Fact::ToolStarted { .. })
            && let Some(Departure { session_id: left, class, why }) = shared.books.poison.commit(shared.now)
        {
            let (session_id, successor) = (left, session_id.to_owned());
            shared.effects.publish(RunEvent::ConversationLeft { session_id, successor, class, why });
        }
        running.quiet_until = None;
        shared.books.usage.take(shared.now.wall, fact);
        match fact {
            Fact::Usage { message_id, tokens } => shared.books.ledger.note_message(message_id, *tokens),
            Fact::ApiRetry(_) if running.evidence.login_refused == LOGIN_REFUSALS && !running.stopping => {
                running.end(StopCause::Login, StopStep::Terminate, shared);
            }
            Fact::ApiRetry(retry) => {
                let pause = Duration::try_from_secs_f64((retry.delay_ms / 1000.0).clamp(0.0, 3600.0));
                running.quiet_until =
                    Some(Now { mono: shared.now.mono + pause.unwrap_or_default(), ..shared.now });
            }
            Fact::Result(result) => {
                shared.books.ledger.settle(session_id, result);
                running.result_seen = true;
                shared.effects.arm(TimerKind::ExitGrace, running.epoch, shared.limits.exit_grace);
            }
            // The turn goes on after a result: a background agent came back (field-reports A17).
            Fact::Initialised(_) | Fact::Text { .. } | Fact::ToolStarted { .. } | Fact::ToolEnded { .. }
                if running.result_seen =>
            {
                running.result_seen = false;
                shared.effects.arm(TimerKind::Stall, running.epoch, shared.limits.stall_timeout);
                if running.is_interrupted() {
                    shared.effects.arm(TimerKind::InterruptGrace, running.epoch, INTERRUPT_GRACE);
                }
            }
            _ => {}
        }
        // Callbacks of agents that still run need an open stdin, and so does the turn that the CLI begins when
        // they come back. With a result and no agent nothing more will be said; after the last agent the exit
        // grace waits for that turn.
        if running.result_seen && !running.waits_for_agents() {
            if matches!(fact, Fact::Result(_)) {
                running.close_input(shared);
            }
            if matches!(fact, Fact::Result(_) | Fact::TaskEnded { .. }) {
                shared.effects.arm(TimerKind::ExitGrace, running.epoch, shared.limits.exit_grace);
            }
        }
        self.circles.look(fact, running, shared);
    }

    /// A call of the running attempt was refused. Not among what the CLI denied: the session was told what to do
    /// instead.
    pub(super) fn refused(&mut self, attempt: u32, denied: &Fact, shared: &mut Shared<'_>) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.attempt == attempt {
            if let Fact::Denied { id: Some(id), .. } = denied {
                running.evidence.refused(id);
            }
            self.circles.look(denied, running, shared);
        }
    }

    /// A timer of the running attempt, or of a pause.
    pub(super) fn timer(
        &mut self,
        timer: TimerId,
        conversation: &Conversation,
        shared: &mut Shared<'_>,
    ) -> Option<TurnEnd> {
        match &mut self.phase {
            Phase::Pausing { epoch } if timer.kind == TimerKind::Backoff && timer.epoch == *epoch => {
                self.look_again(conversation, shared);
                None
            }
            Phase::Limited { epoch, since }
                if timer.kind == TimerKind::LimitReset && timer.epoch == *epoch =>
            {
                let waited = shared.now.since(*since);
                shared.books.limit_wait += waited;
                shared.effects.publish(RunEvent::LimitWaitOver { waited_seconds: waited.as_secs() });
                self.look_again(conversation, shared);
                None
            }
            Phase::Running(running) if timer.epoch == running.epoch && !running.stopping => {
                running.deadline(timer.kind, shared);
                None
            }
            Phase::Before
            | Phase::Running(_)
            | Phase::After(_)
            | Phase::Pausing { .. }
            | Phase::Limited { .. } => None,
        }
    }

    fn look_again(&mut self, conversation: &Conversation, shared: &mut Shared<'_>) {
        self.phase = Phase::Before;
        shared.effects.push(Effect::Inspect { session_id: conversation.id.clone(), offset: None });
    }

    pub(super) fn liveness(&mut self, attempt: u32, moved: Option<Duration>, shared: &mut Shared<'_>) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.attempt != attempt || running.stopping {
            return;
        }
        // What came while we looked counts as well.
        if let Some(ago) = moved {
            running.evidence.lived(shared.now, ago);
        }
        let silence = running.silence(shared.now);
        if silence < shared.limits.stall_timeout {
            let rest = shared.limits.stall_timeout.saturating_sub(silence);
            shared.effects.arm(TimerKind::Stall, running.epoch, rest.max(Duration::from_millis(10)));
        } else {
            running.end(StopCause::Stall, StopStep::Terminate, shared);
        }
    }

    /// The machine slept: that time proves nothing (field-reports L01). The deadlines move, and a timer that
    /// ran out meanwhile finds that it is too early.
    pub(super) fn suspended(&mut self, asleep: Duration, shared: &mut Shared<'_>) {
        self.circles.slept(asleep);
        if let Phase::Running(running) = &mut self.phase {
            running.evidence.sign_of_life(shared.now);
            running.first_line_due = shared.now.mono + shared.limits.first_output_timeout;
            running.turn_due += asleep;
        }
    }

    /// The time is nearly over: the turn is interrupted, and asked to commit what is good. One that is on its way out,
    /// or hands in its report, gets there sooner if it is left alone.
    pub(super) fn wrap_up(&mut self, shared: &mut Shared<'_>) {
        let Phase::Running(running) = &mut self.phase else { return };
        let ending = running.stopping || running.result_seen || running.evidence.stop_cause.is_some();
        if ending || self.purpose == Purpose::Close {
            return;
        }
        running.evidence.stop_cause = Some(StopCause::WrapUp);
        let (attempt, step) = (running.attempt, StopStep::Interrupt);
        shared.effects.push(Effect::StopAttempt { attempt, step });
        shared.effects.arm(TimerKind::InterruptGrace, running.epoch, INTERRUPT_GRACE);
    }

    /// The operator raised the level of the stop.
    pub(super) fn stop(&mut self, level: StopLevel, shared: &mut Shared<'_>) -> Option<TurnEnd> {
        match &mut self.phase {
            Phase::Running(running) => {
                match level {
                    StopLevel::Finish => {}
                    StopLevel::Interrupt if running.stopping => {}
                    StopLevel::Interrupt if running.result_seen => {
                        // The turn is over; only agents would keep the process.
                        if running.waits_for_agents() {
                            running.end(StopCause::Operator, StopStep::Terminate, shared);
                        }
                    }
                    StopLevel::Interrupt => {
                        running.evidence.stop_cause = Some(StopCause::Operator);
                        shared.effects.push(Effect::StopAttempt {
                            attempt: running.attempt,
                            step: StopStep::Interrupt,
                        });
                        shared.effects.arm(TimerKind::InterruptGrace, running.epoch, INTERRUPT_GRACE);
                    }
                    StopLevel::Kill => running.end(StopCause::Operator, StopStep::Kill, shared),
                }
                None
            }
            // Nothing runs: there is nothing to wait for.
            Phase::Pausing { .. } => Some(TurnEnd::Aborted),
            Phase::Limited { since, .. } => {
                shared.books.limit_wait += shared.now.since(*since);
                Some(TurnEnd::Aborted)
            }
            Phase::Before | Phase::After(_) => None,
        }
    }

    /// The process is gone.
    pub(super) fn attempt_over(
        &mut self,
        attempt: u32,
        end: super::evidence::AttemptEnd,
        conversation: &Conversation,
        shared: &mut Shared<'_>,
    ) -> Option<TurnEnd> {
        let Phase::Running(running) = &mut self.phase else { return None };
        if running.attempt != attempt {
            return None;
        }
        let mut evidence = std::mem::take(&mut running.evidence);
        let seconds = evidence.started.map_or(0.0, |started| shared.now.since(started).as_secs_f64());
        shared.books.ledger.end_attempt(&conversation.id);
        shared.effects.publish(RunEvent::AttemptEnded {
            attempt,
            exit: end.exit.map(|exit| exit.to_string()),
            signals: end.signals.clone(),
            swept: end.swept.clone(),
            survivors: end.survivors.clone(),
            lines: end.lines,
            bad_lines: evidence.bad_lines,
            longest_gap_seconds: evidence.longest_gap.max(evidence.silence(shared.now)).as_secs_f64(),
            seconds,
            stderr_tail: end.stderr_tail.clone(),
        });
        for text in &end.stderr_noise {
            shared.effects.publish(RunEvent::Warning { text: text.clone() });
        }
        evidence.end = end;
        if evidence.end.refuses_control() && !shared.books.plain && shared.limits.gate.needs_control {
            self.phase = Phase::Before;
            return Some(TurnEnd::NeedsPerson { class: Class::EnvRefused, why: UNGATED.to_owned() });
        }
        if evidence.end.refuses_control() && !shared.books.plain {
            shared.books.plain = true;
            shared.books.control_refused += 1;
            shared.effects.publish(RunEvent::Warning {
                text: "the CLI does not speak the control protocol; going on with plain -p".to_owned(),
            });
        }
        if evidence.end.handshake_failed && evidence.stop_cause.is_none() {
            // The prompt was never sent. Nothing ran, nothing is used up.
            self.look_again(conversation, shared);
            return None;
        }
        self.phase = Phase::After(Box::new(evidence));
        shared.effects.push(Effect::Inspect { session_id: conversation.id.clone(), offset: self.offset });
        None
    }

    fn over(
        &mut self,
        evidence: Evidence,
        conversation: &mut Conversation,
        shared: &mut Shared<'_>,
    ) -> Option<TurnEnd> {
        let outcome = judge(&evidence);
        shared.effects.publish(RunEvent::OutcomeJudged {
            attempt: shared.books.attempts,
            session_id: conversation.id.clone(),
            class: outcome.class,
            confidence: outcome.confidence,
            reasons: outcome.reasons.clone(),
        });
        shared.publish_books(&conversation.id);
        // Refilled by a stretch of healthy work, never by the step that fails (recovery §14.7).
        let lived = evidence.started.map_or(Duration::ZERO, |started| shared.now.since(started));
        if lived.saturating_sub(evidence.silence(shared.now)) >= recovery::HEALTHY {
            shared.books.heals = 0;
        }
        let stall = (outcome.class == Class::Stalled).then(|| hang(&evidence, shared)).flatten();
        self.denials += evidence.denied.len();
        self.agents_started += evidence.agents_started;
        self.agents_failed += evidence.agents_failed;
        let made_room = matches!(outcome.class, Class::Ok | Class::OkExitAnomaly | Class::HungAfterResult);
        if self.compacting && made_room {
            self.compacting = false;
            self.evidence = evidence;
            self.prompt = Purpose::Reconcile;
            self.look_again(conversation, shared);
            return None;
        }
        if evidence.stop_cause == Some(StopCause::WrapUp)
            && outcome.class == Class::KilledByDriver
            && shared.stop < Some(StopLevel::Interrupt)
        {
            self.evidence = evidence;
            self.prompt = Purpose::WrapUp;
            self.look_again(conversation, shared);
            return None;
        }
        if (!self.compacting || outcome.class == Class::Stuck) && self.is_step(&outcome) {
            self.evidence = evidence;
            return self.step(&outcome, conversation, shared);
        }
        let case = Case {
            now: shared.now,
            session_id: &conversation.id,
            outcome: &outcome,
            evidence: &evidence,
            policy: &shared.limits.recovery,
            jitter: shared.limits.jitter,
        };
        let action = recovery::decide(case, &mut self.history, &mut shared.books.poison);
        self.evidence = evidence;
        if outcome.class == Class::KilledByDriver {
            return Some(TurnEnd::Aborted);
        }
        match action {
            Action::Accept { why } => Some(TurnEnd::Done { class: outcome.class, why }),
            Action::NeedsPerson { class, why } => Some(TurnEnd::NeedsPerson { class, why }),
            // Who asked for the end gets it.
            Action::GiveUp { .. }
                if outcome.class == Class::Stuck && shared.stop >= Some(StopLevel::Interrupt) =>
            {
                Some(TurnEnd::Aborted)
            }
            Action::GiveUp { why } => {
                if self.healed(&outcome, &why, conversation, shared) {
                    return None;
                }
                Some(self.gave_up_on_circle(outcome.class, &why).unwrap_or(TurnEnd::Failed {
                    class: outcome.class,
                    why,
                    stall,
                }))
            }
            // What comes after this process waits for it: the record of the wait is for `resume`.
            Action::WaitForLimit(limit)
                if shared.deadline_in.is_some_and(|left| shared.now.until_wall(limit.until) > left) =>
            {
                let OpenLimit { window, until, source, why } = limit;
                shared.books.limit_beyond_deadline = Some(why.clone());
                shared.effects.publish(RunEvent::LimitWait { window, until, source, why });
                Some(TurnEnd::Aborted)
            }
            // Who asked for an end does not wait hours for a limit, whichever of the two came first.
            Action::WaitForLimit(_) if shared.stop.is_some() => Some(TurnEnd::Aborted),
            // A stop that came meanwhile is never overridden by a recovery.
            Action::Again { .. } | Action::WaitForLimit(_) if shared.stop >= Some(StopLevel::Interrupt) => {
                Some(TurnEnd::Aborted)
            }
            // The report is worth one try, not a night.
            Action::Again { why, .. } | Action::WaitForLimit(OpenLimit { why, .. })
                if self.purpose == Purpose::Close =>
            {
                Some(TurnEnd::Failed { class: outcome.class, why, stall: None })
            }
            Action::Again { prompt, fresh, after, why } => {
                let session_id = conversation.id.clone();
                if fresh && !conversation.renew(shared.effects) {
                    return Some(self.gave_up_on_circle(outcome.class, &why).unwrap_or(TurnEnd::Failed {
                        class: outcome.class,
                        why,
                        stall: None,
                    }));
                }
                if fresh {
                    self.offset = None;
                    conversation.left = shared.books.poison.departure().cloned();
                    self.hand_circle_over(outcome.class);
                }
                self.prompt = prompt.unwrap_or(self.prompt);
                self.compacting = prompt.map_or(self.compacting, |prompt| prompt == Purpose::Compact);
                let action = match (prompt, fresh) {
                    (_, true) => "fresh conversation with hand-over",
                    (None, false) => "same prompt again",
                    (Some(Purpose::Continue), false) => "continue",
                    (Some(Purpose::Compact), false) => "/compact, then reconcile",
                    (Some(_), false) => "reconcile",
                };
                shared.effects.publish(RunEvent::Healed {
                    session_id,
                    class: outcome.class,
                    action: action.to_owned(),
                    why,
                    recovery: self.history.recoveries,
                    run_heal: None,
                    delay_seconds: after.as_secs(),
                });
                if after.is_zero() {
                    self.look_again(conversation, shared);
                } else {
                    let epoch = shared.books.next_epoch();
                    shared.effects.arm(TimerKind::Backoff, epoch, after);
                    self.phase = Phase::Pausing { epoch };
                }
                None
            }
            Action::WaitForLimit(limit) => {
                self.wait_until(limit, shared);
                None
            }
        }
    }

    /// A turn that was given up is healed once more, if that may help and the run has the time.
    fn healed(
        &mut self,
        outcome: &Outcome,
        why: &str,
        conversation: &Conversation,
        shared: &mut Shared<'_>,
    ) -> bool {
        if self.purpose == Purpose::Close || shared.stop.is_some() {
            return false;
        }
        let policy = &shared.limits.recovery;
        let Some(heal) = recovery::heal(outcome, &self.evidence, policy, shared.books.heals) else {
            return false;
        };
        // A run whose hours end meanwhile would only have waited for nothing.
        if shared.elapsed.saturating_add(heal.after) >= shared.limits.max_time() {
            return false;
        }
        shared.books.heals += 1;
        self.history.recoveries = 0;
        self.prompt = heal.prompt.unwrap_or(self.prompt);
        let (number, of) = (shared.books.heals, policy.heals.len());
        shared.effects.publish(RunEvent::Healed {
            session_id: conversation.id.clone(),
            class: outcome.class,
            action: format!("run heal {number} of {of}"),
            why: why.to_owned(),
            recovery: number,
            run_heal: Some(number),
            delay_seconds: heal.after.as_secs(),
        });
        let epoch = shared.books.next_epoch();
        shared.effects.arm(TimerKind::Backoff, epoch, heal.after);
        self.phase = Phase::Pausing { epoch };
        true
    }

    /// Sleeps on the wall clock, which a suspend moves on. What wakes up is the attempt itself: it is the cheapest
    /// probe there is (one call, refused in under a second when the limit still holds), and when it passes
    /// nothing was spent on asking (recovery §4.5, field-reports E06).
    fn wait_until(&mut self, limit: OpenLimit, shared: &mut Shared<'_>) {
        let OpenLimit { window, until, source, why } = limit;
        let epoch = shared.books.next_epoch();
        self.phase = Phase::Limited { epoch, since: shared.now };
        shared
            .effects
            .push(Effect::ArmAt { timer: TimerId { kind: TimerKind::LimitReset, epoch }, at: until });
        shared.effects.publish(RunEvent::LimitWait { window, until, source, why });
        // What was answered before the limit stands in the transcript; the rest is to be done.
        if self.evidence.tool_calls > 0 || !self.evidence.text.is_empty() {
            self.prompt = Purpose::Continue;
        }
    }
}

/// What a launch needs to know of its session.
#[derive(Debug, Clone)]
pub(super) struct LaunchContext {
    pub(super) iteration: u32,
    pub(super) mode: super::mode::Mode,
    pub(super) cap: u32,
    pub(super) tasks: Vec<Task>,
    pub(super) hand_over: HandOver,
    /// What a question of the session was answered with.
    pub(super) answer: Option<Answer>,
}

/// The hang that we ended the attempt for, if we did, in the words of the kill-switch.
fn hang(evidence: &Evidence, shared: &Shared<'_>) -> Option<Stall> {
    let (took, limit, marker) = match evidence.stop_cause? {
        StopCause::Stall => (evidence.silence(shared.now), shared.limits.stall_timeout, "stream"),
        StopCause::TurnTimeout => {
            (shared.now.since(evidence.started?), shared.limits.turn_timeout, "turn-timeout")
        }
        StopCause::FirstOutput
        | StopCause::ExitGrace
        | StopCause::Operator
        | StopCause::Stuck
        | StopCause::WrapUp
        | StopCause::Login => {
            return None;
        }
    };
    Some(Stall { seconds: took.as_secs(), threshold: limit.as_secs(), marker })
}
