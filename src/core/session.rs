//! One session: the work turn, the turn that hands in a missing report, and what they add up to.

use serde_json::Value;
use uuid::Uuid;

use super::claims::{self, Checked};
use super::conversation::Conversation;
use super::event::{Answer, Effect, Effects, Event, SessionClose, StopLevel};
use super::evidence::Evidence;
use super::fact::Fact;
use super::hand_over::Closing;
use super::kill_switch::Stall;
use super::mediation::Mediation;
use super::next_session;
use super::outcome::Class;
use super::published::{Purpose, ReportSource, RunEvent, TaskOutcome, Verification, Work};
use super::run::OpenLimit;
use super::session_report::{BlockedOn, ReportStatus, SessionReport};
use super::time::{Now, TimerKind};
use super::turn::{Circles, LaunchContext, Shared, Turn, TurnEnd};

/// How a session ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SessionEnd {
    /// Counts as an iteration.
    pub(super) completed: bool,
    pub(super) class: Class,
    pub(super) why: String,
    /// A hang that nothing healed.
    pub(super) stall: Option<Stall>,
    pub(super) needs_person: bool,
    pub(super) aborted: bool,
}

impl SessionEnd {
    /// It went round in circles and nothing helped: a session that was helped ends as something else.
    pub(super) fn spiral(&self) -> bool {
        self.class == Class::Stuck
    }
}

/// Where a session stands.
#[derive(Debug)]
enum Stage {
    /// Its turns run.
    Working,
    /// It is blocked on a question; the answer is given when the timer runs out.
    Asking { epoch: u64, answer: Answer },
    /// Its turns are over; what it did is being measured.
    Measuring(SessionEnd),
    /// What became of its tasks is being looked up.
    Settling(SessionEnd),
    /// Its record is being written.
    Recording(SessionEnd),
}

/// The state of a session.
#[derive(Debug)]
pub(super) struct Session {
    context: LaunchContext,
    pub(super) conversation: Conversation,
    started: Now,
    mediation: Mediation,
    turn: Turn,
    turns: u32,
    attempts: u32,
    denials: u32,
    agents_started: u32,
    agents_failed: u32,
    /// Questions answered for it.
    answers: u32,
    report: Option<SessionReport>,
    report_source: ReportSource,
    /// The work turn's class, while the close turn runs.
    work_class: Class,
    work_why: String,
    stage: Stage,
    work: Option<Work>,
    verification: Option<Verification>,
    tasks: Option<TaskOutcome>,
    checked: Checked,
}

/// Questions answered for a session; one that asks on and on needs a person.
const MAX_ANSWERS: u32 = 3;

impl Session {
    pub(super) fn begin(
        context: LaunchContext,
        conversation: Conversation,
        first: Purpose,
        open_limit: Option<OpenLimit>,
        shared: &mut Shared<'_>,
    ) -> Self {
        shared.books.begin_session();
        shared.effects.publish(RunEvent::SessionStarted {
            iteration: context.iteration,
            session_id: conversation.id.clone(),
            mode: context.mode,
            cap: context.cap,
            continued: conversation.used,
            tasks: context.tasks.iter().map(|task| task.title.clone()).collect(),
        });
        let circles = Circles::new(shared.limits.stuck_detection, context.mode);
        let turn = match open_limit {
            Some(limit) => Turn::begin_limited(1, first, &conversation, limit, circles, shared),
            None => Turn::begin(1, first, &conversation, circles, shared),
        };
        Session {
            mediation: Mediation::new(context.mode, context.cap),
            context,
            conversation,
            started: shared.now,
            turn,
            turns: 1,
            attempts: 0,
            denials: 0,
            agents_started: 0,
            agents_failed: 0,
            answers: 0,
            report: None,
            report_source: ReportSource::Derived,
            work_class: Class::Ok,
            work_why: String::new(),
            stage: Stage::Working,
            work: None,
            verification: None,
            tasks: None,
            checked: Checked::default(),
        }
    }

    pub(super) fn running(&self) -> Option<u32> {
        self.turn.running()
    }

    pub(super) fn report(&self) -> Option<&SessionReport> {
        self.report.as_ref()
    }

    pub(super) fn verification(&self) -> Option<&Verification> {
        self.verification.as_ref()
    }

    pub(super) fn iteration(&self) -> u32 {
        self.context.iteration
    }

    /// The numbers that count.
    pub(super) fn checked(&self) -> &Checked {
        &self.checked
    }

    /// Takes an event in; returns how the session ended once it is recorded.
    pub(super) fn step(&mut self, event: &mut Event, shared: &mut Shared<'_>) -> Option<SessionEnd> {
        match (&self.stage, &mut *event) {
            (Stage::Working, Event::Measured { .. } | Event::TasksSettled(_) | Event::Recorded(_)) => {
                return None;
            }
            (Stage::Working, _) => {}
            (Stage::Asking { epoch, answer }, Event::Timer(timer)) => {
                if timer.kind == TimerKind::Escalation && timer.epoch == *epoch {
                    let answer = answer.clone();
                    self.answer(answer, shared);
                }
                return None;
            }
            // Who wants to leave does not wait for an answer; the question stays in the hand-over.
            (Stage::Asking { .. }, Event::Stop { .. }) => {
                self.end_blocked(false, shared);
                return None;
            }
            (Stage::Measuring(end), Event::Measured { work, verification }) => {
                let end = end.clone();
                (self.work, self.verification) = (work.take(), verification.take());
                self.measured(end, shared);
                return None;
            }
            (Stage::Settling(end), Event::TasksSettled(tasks)) => {
                let end = end.clone();
                self.tasks = tasks.take();
                self.settled(end, shared);
                return None;
            }
            // `--verify` may take long; who wants to leave now does not wait for it.
            (Stage::Measuring(end), Event::Stop { level, .. }) if *level >= StopLevel::Interrupt => {
                let end = end.clone();
                self.settled(end, shared);
                return None;
            }
            (Stage::Recording(end), Event::Recorded(_)) => return Some(end.clone()),
            // Over, and only being measured and recorded: nothing may start the turn again.
            (Stage::Asking { .. } | Stage::Measuring(_) | Stage::Settling(_) | Stage::Recording(_), _) => {
                return None;
            }
        }
        let turn_end = match event {
            Event::Inspected { session_id, digest } => {
                if *session_id != self.conversation.id {
                    return None;
                }
                let digest = std::mem::take(digest.as_mut());
                self.turn.inspected(&self.context, &mut self.conversation, digest, shared)
            }
            Event::Found { attempt, fact } => {
                self.found(*attempt, fact, shared);
                None
            }
            Event::AttemptOver { attempt, end } => {
                let end = std::mem::take(end.as_mut());
                self.turn.attempt_over(*attempt, end, &self.conversation, shared)
            }
            Event::GitSaid { attempt, request_id, removable } => {
                if self.turn.running() == Some(*attempt) {
                    let grounds = &shared.limits.gate;
                    let refused =
                        self.mediation.git_said(shared.now, request_id, removable, grounds, shared.effects);
                    self.refused(*attempt, refused, shared);
                }
                None
            }
            Event::Sampled { verdict, .. } => {
                if let Some(attempt) = self.turn.running() {
                    let refused = self.mediation.sampled(shared.now, verdict, shared.effects);
                    self.refused(attempt, refused, shared);
                }
                None
            }
            Event::Liveness { attempt, moved } => {
                self.turn.liveness(*attempt, *moved, shared);
                None
            }
            Event::Timer(timer) => self.turn.timer(*timer, &self.conversation, shared),
            Event::Suspended { asleep } => {
                self.turn.suspended(*asleep, shared);
                None
            }
            Event::Stop { level, .. } => self.turn.stop(*level, shared),
            Event::Measured { .. }
            | Event::TasksSettled(_)
            | Event::Recorded(_)
            | Event::Start
            | Event::PeersHere(_)
            | Event::Surveyed(_)
            | Event::Snapshotted
            | Event::Spawned { .. }
            | Event::JournalFailed(_) => None,
        };
        if let Some(turn_end) = turn_end {
            self.turn_over(turn_end, shared);
        }
        None
    }

    /// The time is nearly over.
    pub(super) fn wrap_up(&mut self, shared: &mut Shared<'_>) {
        if matches!(self.stage, Stage::Working) {
            self.turn.wrap_up(shared);
        }
    }

    fn found(&mut self, attempt: u32, fact: &Fact, shared: &mut Shared<'_>) {
        if self.turn.running() != Some(attempt) {
            return;
        }
        publish_fact(attempt, fact, shared.effects);
        self.turn.found(attempt, fact, &self.conversation.id, shared);
        let refused = self.mediation.take(shared.now, attempt, fact, &shared.limits.gate, shared.effects);
        self.refused(attempt, refused, shared);
        if matches!(fact, Fact::Usage { .. } | Fact::Result(_)) {
            let spend = shared.books.ledger.run();
            shared
                .effects
                .publish(RunEvent::Progress { output_tokens: spend.tokens.output, cost_usd: spend.cost_usd });
        }
    }

    /// Calls that were refused: one on which the model insists is a circle.
    fn refused(&mut self, attempt: u32, refused: impl IntoIterator<Item = Fact>, shared: &mut Shared<'_>) {
        for denied in refused {
            self.denials = self.denials.saturating_add(1);
            self.turn.refused(attempt, &denied, shared);
        }
    }

    fn turn_over(&mut self, turn_end: TurnEnd, shared: &mut Shared<'_>) {
        self.attempts += self.turn.attempts;
        self.denials = self.denials.saturating_add(u32::try_from(self.turn.denials).unwrap_or(u32::MAX));
        self.agents_started += self.turn.agents_started;
        self.agents_failed += self.turn.agents_failed;
        let evidence = &self.turn.evidence;
        // Follow the id the CLI confirmed with a good result, if it is one (field-reports H05, H06, H11).
        if let Some(result) = &evidence.result
            && !result.is_error
            && let Some(id) = result.session_id.as_ref().filter(|id| **id != self.conversation.id)
            && Uuid::parse_str(id).is_ok()
        {
            self.conversation.rename(id.clone(), shared.effects);
        }
        if let Some(value) = structured_output(evidence) {
            self.take_report(&value, shared);
        }
        match turn_end {
            TurnEnd::Done { class, why } => {
                if self.turn.purpose != Purpose::Close {
                    self.work_class = class;
                    self.work_why = why.unwrap_or_default();
                }
                let ask_again = self.report.is_none()
                    && self.turn.purpose != Purpose::Close
                    && class != Class::Budget
                    && shared.stop < Some(StopLevel::Interrupt);
                if ask_again {
                    self.turns += 1;
                    let circles = self.turn.take_circles();
                    self.turn = Turn::begin(self.turns, Purpose::Close, &self.conversation, circles, shared);
                } else {
                    self.finish_work(shared);
                }
            }
            // Without the report the session still did its work: stream and git say what.
            TurnEnd::Failed { .. } | TurnEnd::NeedsPerson { .. } | TurnEnd::Aborted
                if self.turn.purpose == Purpose::Close =>
            {
                self.finish_work(shared);
            }
            // It counts, as a hang does that could not be healed.
            TurnEnd::Spiral { why } => self.finish(
                SessionEnd {
                    completed: true,
                    class: Class::Stuck,
                    why,
                    stall: None,
                    needs_person: false,
                    aborted: false,
                },
                shared,
            ),
            TurnEnd::Failed { class, why, stall } => self.finish(
                SessionEnd {
                    // A hang that could not be healed counts, as upstream counts it (design §4).
                    completed: stall.is_some(),
                    class,
                    why,
                    stall,
                    needs_person: false,
                    aborted: false,
                },
                shared,
            ),
            TurnEnd::NeedsPerson { class, why } => self.finish(
                SessionEnd { completed: false, class, why, stall: None, needs_person: true, aborted: false },
                shared,
            ),
            TurnEnd::Aborted => self.finish(
                SessionEnd {
                    completed: false,
                    class: Class::KilledByDriver,
                    why: "stopped on request".to_owned(),
                    stall: None,
                    needs_person: false,
                    aborted: true,
                },
                shared,
            ),
        }
    }

    fn take_report(&mut self, value: &Value, shared: &mut Shared<'_>) {
        let (report, problems) = SessionReport::from_value(value);
        let source = if self.turn.purpose == Purpose::Close {
            ReportSource::CloseTurn
        } else {
            ReportSource::Structured
        };
        shared.effects.publish(RunEvent::ReportReceived {
            session_id: self.conversation.id.clone(),
            source,
            status: report.as_ref().and_then(|report| report.status).map(|s| s.as_str().to_owned()),
            problems,
        });
        if report.is_some() {
            self.report = report;
            self.report_source = source;
        }
    }

    fn finish_work(&mut self, shared: &mut Shared<'_>) {
        if self.report.is_none() {
            shared.effects.publish(RunEvent::ReportReceived {
                session_id: self.conversation.id.clone(),
                source: ReportSource::Derived,
                status: None,
                problems: vec!["the session gave no report".to_owned()],
            });
        }
        let Some(on) = self.blocked_on() else {
            let end = SessionEnd {
                completed: true,
                class: self.work_class,
                why: self.work_why.clone(),
                stall: None,
                needs_person: false,
                aborted: false,
            };
            self.finish(end, shared);
            return;
        };
        match (shared.limits.answer_after, on.options.first(), on.question) {
            (Some(after), Some(first), Some(question))
                if self.answers < MAX_ANSWERS && shared.stop.is_none() =>
            {
                let answer = Answer { question: question.clone(), answer: first.clone() };
                let epoch = shared.books.next_epoch();
                shared.effects.arm(TimerKind::Escalation, epoch, after);
                shared.effects.publish(RunEvent::QuestionAsked {
                    session_id: self.conversation.id.clone(),
                    question,
                    options: on.options.clone(),
                    until: shared
                        .now
                        .wall
                        .saturating_add(
                            jiff::SignedDuration::try_from(after).unwrap_or(jiff::SignedDuration::MAX),
                        )
                        .unwrap_or(shared.now.wall),
                });
                self.stage = Stage::Asking { epoch, answer };
            }
            _ => self.end_blocked(true, shared),
        }
    }

    /// What the session waits for, if it does: its report says so, or it asked a person and did not get done without
    /// the answer.
    fn blocked_on(&self) -> Option<BlockedOn> {
        let asked = self.mediation.question();
        match self.report.as_ref().map(|report| (report.status, &report.blocked_on)) {
            Some((Some(ReportStatus::Blocked), on)) => {
                Some(on.as_ref().filter(|on| on.question.is_some()).or(asked).cloned().unwrap_or_default())
            }
            Some((Some(ReportStatus::Partial) | None, _)) | None => asked.cloned(),
            Some((Some(ReportStatus::Complete | ReportStatus::NothingToDo), _)) => None,
        }
    }

    /// Ends the session on its question.
    fn end_blocked(&mut self, needs_person: bool, shared: &mut Shared<'_>) {
        let why = self
            .blocked_on()
            .and_then(|on| on.words())
            .unwrap_or_else(|| "the session is blocked and does not say on what".to_owned());
        self.finish(
            SessionEnd {
                completed: true,
                class: Class::Blocked,
                why,
                stall: None,
                needs_person,
                aborted: false,
            },
            shared,
        );
    }

    /// Nobody answered in time: the first option is taken, and the session goes on (design §8).
    fn answer(&mut self, answer: Answer, shared: &mut Shared<'_>) {
        shared.effects.publish(RunEvent::QuestionAnswered {
            session_id: self.conversation.id.clone(),
            answer: answer.answer.clone(),
            by: "nobody answered in time: the first option".to_owned(),
        });
        self.mediation.forget_question();
        self.answers += 1;
        self.turns += 1;
        self.context.answer = Some(answer);
        self.report = None;
        self.report_source = ReportSource::Derived;
        self.stage = Stage::Working;
        let circles = self.turn.take_circles();
        self.turn = Turn::begin(self.turns, Purpose::Answer, &self.conversation, circles, shared);
    }

    fn finish(&mut self, end: SessionEnd, shared: &mut Shared<'_>) {
        let verify = shared.limits.verify && end.completed && shared.stop < Some(StopLevel::Interrupt);
        self.stage = Stage::Measuring(end);
        shared.effects.push(Effect::Measure { verify });
    }

    /// Git and `--verify` have spoken; now the task files, if there is something to ask them.
    fn measured(&mut self, end: SessionEnd, shared: &mut Shared<'_>) {
        let done = self.report.as_ref().map(|report| report.tasks_done.clone()).unwrap_or_default();
        let given: Vec<String> = self.context.tasks.iter().map(|task| task.id.clone()).collect();
        if given.is_empty() && done.is_empty() {
            self.settled(end, shared);
            return;
        }
        // What is not committed counts as not done, and neither does what `--verify` refuses.
        let committed = self.work.as_ref().is_some_and(|work| work.commits_total > 0);
        let refused = self.verification.as_ref().is_some_and(|verification| !verification.passed);
        shared.effects.push(Effect::SettleTasks {
            session_id: self.conversation.id.clone(),
            given,
            done,
            proven: committed && !refused,
        });
        self.stage = Stage::Settling(end);
    }

    /// The report with the numbers that count.
    fn counted(&self) -> Option<SessionReport> {
        let mut report = self.report.clone()?;
        report.effectiveness.planned_issues = self.checked.planned;
        report.effectiveness.completed = self.checked.completed;
        report.effectiveness.carryover = self.checked.carryover;
        Some(report)
    }

    /// Everything is known: what counts, and what is written down.
    fn settled(&mut self, end: SessionEnd, shared: &mut Shared<'_>) {
        self.checked = claims::check(&claims::Evidence {
            report: self.report.as_ref(),
            work: self.work.as_ref(),
            verification: self.verification.as_ref(),
            tasks: self.tasks.as_ref(),
            agents_started: self.agents_started,
            agents_failed: self.agents_failed,
        });
        if end.spiral() {
            self.checked.spiral = Some(self.checked.spiral.unwrap_or(0) + 1);
        }
        let closing = Closing {
            fields: self.counted().map(|report| next_session::state_fields(&report)).unwrap_or_default(),
            hand_over: self.context.hand_over.after(&self.conversation.id, self.report.as_ref()),
        };
        let spend = shared.books.ledger.session();
        let duration = shared.now.since(self.started);
        shared.effects.publish(RunEvent::SessionEnded {
            iteration: self.context.iteration,
            session_id: self.conversation.id.clone(),
            completed: end.completed,
            class: end.class,
            status: self.report.as_ref().and_then(|r| r.status).map(|s| s.as_str().to_owned()),
            summary: self.report.as_ref().and_then(|report| report.summary.clone()),
            work: self.work.clone(),
            contradictions: self.checked.contradictions.clone(),
            verification: self.verification.clone(),
            tasks: self.tasks.clone(),
            tokens: spend.tokens,
            models: shared.books.ledger.session_by_model(),
            cost_usd: spend.cost_usd,
            seconds: duration.as_secs_f64(),
            turns: self.turns,
            attempts: self.attempts,
            denials: self.denials,
            wave: self.mediation.totals(),
        });
        shared.effects.push(Effect::RecordSession(Box::new(SessionClose {
            iteration: self.context.iteration,
            session_id: self.conversation.id.clone(),
            mode: self.context.mode,
            completed: end.completed,
            class: end.class,
            report: self.report.clone(),
            report_source: self.report_source,
            work: self.work.clone(),
            verification: self.verification.clone(),
            checked: self.checked.clone(),
            tasks: self.tasks.clone(),
            agents_started: self.agents_started,
            wave: self.mediation.totals(),
            closing,
            tokens: spend.tokens,
            cost_usd: spend.cost_usd,
            started_at: self.started.wall,
            ended_at: shared.now.wall,
            duration,
        })));
        self.stage = Stage::Recording(end);
    }
}

/// The report as the result gives it, else as it stands in the transcript (a stream that lost its result).
fn structured_output(evidence: &Evidence) -> Option<Value> {
    if let Some(result) = &evidence.result {
        return result.structured_output.clone();
    }
    let text = evidence.digest.as_ref()?.structured_output.as_ref()?;
    serde_json::from_str(text).ok()
}

/// What a fact is for the outside, if anything.
fn publish_fact(attempt: u32, fact: &Fact, effects: &mut Effects) {
    let event = match fact {
        Fact::Initialised(init) => RunEvent::Initialised {
            attempt,
            session_id: init.session_id.clone(),
            model: init.model.clone(),
            cli_version: init.cli_version.clone(),
            permission_mode: init.permission_mode.clone(),
            api_key_source: init.api_key_source.clone(),
            failed_mcp_servers: init.failed_mcp_servers.clone(),
        },
        Fact::Text { text, sub_agent } => {
            RunEvent::TextWritten { text: text.chars().take(400).collect(), sub_agent: *sub_agent }
        }
        Fact::ToolStarted { name, summary, sub_agent, .. } => {
            // Nobody answers, and in the morning somebody wants to know what it was (field-reports D08).
            if matches!(name.as_str(), "AskUserQuestion" | "ExitPlanMode") {
                let text = format!("the session wanted to ask a person ({name}): {summary}");
                effects.publish(RunEvent::Warning { text });
            }
            RunEvent::ToolUsed { name: name.clone(), summary: summary.clone(), sub_agent: *sub_agent }
        }
        Fact::ApiRetry(retry) => RunEvent::ApiRetry {
            attempt: retry.attempt,
            max_retries: retry.max_retries,
            status: retry.status,
            error: retry.error.clone(),
        },
        Fact::RateLimit(limit) => RunEvent::RateLimit {
            status: limit.status.clone(),
            window: limit.window.clone(),
            resets_at: limit.resets_at,
            utilization: limit.utilization,
        },
        // Without a sample it is one of too many: counted, not told.
        Fact::Anomaly { kind, sample } if !sample.is_empty() => {
            RunEvent::StreamAnomaly { anomaly: (*kind).to_owned(), sample: sample.clone() }
        }
        Fact::Anomaly { .. }
        | Fact::ToolEnded { .. }
        | Fact::Usage { .. }
        | Fact::ApiError { .. }
        | Fact::TaskStarted { .. }
        | Fact::TaskEnded { .. }
        | Fact::Denied { .. }
        | Fact::Asked(_)
        | Fact::Result(_)
        | Fact::Heartbeat => return,
    };
    effects.publish(event);
}
