//! What must hold in every run, whatever happens to it.

use crate::core::event::{Effect, Event, RunEnd, StopLevel};
use crate::core::published::RunEvent;
use crate::core::time::{TimerId, TimerKind};

/// Looks on and panics when an invariant is broken.
#[derive(Debug)]
pub(super) struct Oracle {
    max_sessions: u32,
    live: Option<u32>,
    last_attempt: u32,
    inspected: bool,
    stop: Option<StopLevel>,
    finished: bool,
    tokens: u64,
    cost: f64,
    recorded: u32,
    /// Of the timer armed last: it names the state that the run is in.
    epoch: u64,
    /// The event being taken in is a timer of an earlier state.
    stale: bool,
}

impl Oracle {
    pub(super) fn new(max_sessions: u32) -> Self {
        Oracle {
            max_sessions,
            live: None,
            last_attempt: 0,
            inspected: false,
            stop: None,
            finished: false,
            tokens: 0,
            cost: 0.0,
            recorded: 0,
            epoch: 0,
            stale: false,
        }
    }

    /// The attempt that lives as far as the effects say.
    pub(super) fn live(&self) -> Option<u32> {
        self.live
    }

    pub(super) fn event(&mut self, event: &Event) {
        // The deadline belongs to the run, not to a state of it.
        self.stale = matches!(event, Event::Timer(timer)
            if timer.epoch != self.epoch && timer.kind != TimerKind::Deadline);
        match event {
            Event::AttemptOver { attempt, .. } if self.live == Some(*attempt) => self.live = None,
            Event::Stop { level, .. } => self.stop = self.stop.max(Some(*level)),
            Event::Timer(TimerId { kind: TimerKind::Deadline, epoch }) => {
                let level = if *epoch == 1 { StopLevel::Finish } else { StopLevel::Interrupt };
                self.stop = self.stop.max(Some(level));
            }
            Event::JournalFailed(_) => self.stop = self.stop.max(Some(StopLevel::Interrupt)),
            _ => {}
        }
    }

    /// `running` is the attempt that runs as far as the run says.
    pub(super) fn effect(&mut self, effect: &Effect, running: Option<u32>) {
        assert!(!self.stale, "a timer of an earlier state has an effect: {effect:?}");
        if let Effect::Arm { timer, .. } | Effect::ArmAt { timer, .. } = effect
            && timer.kind != TimerKind::Deadline
        {
            self.epoch = timer.epoch;
        }
        match effect {
            Effect::Inspect { .. } => {
                assert_eq!(self.live, None, "a transcript is looked at while its process lives");
                self.inspected = true;
            }
            Effect::Launch(launch) => {
                assert!(!self.finished, "a launch after the end");
                assert_eq!(self.live, None, "two attempts live at the same time");
                assert!(self.inspected, "a launch without a look at the transcript");
                assert!(self.stop < Some(StopLevel::Interrupt), "a launch after {:?}", self.stop);
                assert_eq!(launch.attempt, self.last_attempt + 1, "attempts are numbered in order");
                assert_eq!(running, Some(launch.attempt));
                assert!(launch.iteration <= self.max_sessions);
                self.inspected = false;
                self.live = Some(launch.attempt);
                self.last_attempt = launch.attempt;
            }
            Effect::StopAttempt { attempt, .. }
            | Effect::CheckLiveness { attempt }
            | Effect::Answer { attempt, .. }
            | Effect::AskGit { attempt, .. }
            | Effect::CloseInput { attempt } => {
                assert_eq!(self.live, Some(*attempt), "{effect:?} for an attempt that is not there");
            }
            Effect::RecordSession(close) => {
                self.recorded += 1;
                assert_eq!(self.live, None, "recorded while it lives");
                assert_eq!(close.iteration, self.recorded, "each session is recorded once");
            }
            Effect::Publish(event) => {
                if let RunEvent::SwitchesChecked { inputs, .. } = &**event {
                    self.spend(inputs.tokens, inputs.cost_usd);
                }
            }
            Effect::Finish(end) => self.finish(end),
            Effect::Sample
            | Effect::LookForPeers
            | Effect::Survey
            | Effect::Snapshot
            | Effect::Arm { .. }
            | Effect::ArmAt { .. }
            | Effect::OpenSession { .. }
            | Effect::SettleTasks { .. }
            | Effect::Measure { .. } => assert!(!self.finished, "{effect:?} after the end"),
        }
    }

    fn finish(&mut self, end: &RunEnd) {
        assert!(!self.finished, "a second end");
        assert_eq!(self.live, None, "the run ends while an attempt lives");
        assert!(end.iterations <= self.max_sessions);
        assert!(end.iterations <= self.recorded, "an iteration without a record");
        assert!(end.kill_switch.is_some() || end.detail.is_some(), "an end without a word: {end:?}");
        self.spend(end.tokens.output, end.cost_usd);
        self.finished = true;
    }

    fn spend(&mut self, tokens: u64, cost: Option<f64>) {
        assert!(tokens >= self.tokens, "tokens went down from {} to {tokens}", self.tokens);
        let cost = cost.unwrap_or(0.0);
        assert!(cost + 1e-9 >= self.cost, "cost went down from {} to {cost}", self.cost);
        self.tokens = tokens;
        self.cost = cost;
    }
}
