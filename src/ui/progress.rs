//! The live block of a terminal.
//!
//! Three lines that are drawn over each other: where the run stands, what is spent, what happens now. The
//! block is an adornment: everything that matters is also printed as a line above it ([`super::plain`]),
//! and without a terminal nothing is lost.
//!
//! Theory of operation: [`ProgressState`] folds events and is turned into lines by the pure [`lines`].
//! [`Progress`] holds the state and an indicatif bar that is only a place to draw: events change the state
//! and draw nothing, [`Progress::tick`] draws, at most once a second, and is driven from outside. No steady
//! tick of indicatif is ever started, so that no thread exists and a hidden block costs nothing: when
//! [`Progress::wants_ticks`] is false the caller arms no timer at all.
//!
//! Pitfall: indicatif prints nothing when hidden, its `println` neither. Lines therefore go through the
//! printer, inside [`Progress::above`], which takes the block away and puts it back.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::text::{TextOptions, Tone, count, dollars, instant, known_cost, span, stopwatch};
use crate::core::mode::Mode;
use crate::core::published::{ResetSource, RunEvent, peer_words};
use crate::core::time::Now;
use crate::core::wave::WaveTotals;

/// Least time between two drawings.
const REDRAW: Duration = Duration::from_secs(1);
/// Silence shorter than this is not worth a word.
const QUIET: Duration = Duration::from_secs(5);

/// What the block shows, folded from events. Times are since the start of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProgressState {
    iteration: u32,
    max_sessions: u32,
    max_time: Option<Duration>,
    mode: Option<Mode>,
    output_tokens: u64,
    max_tokens: u64,
    cost_usd: Option<f64>,
    max_cost_usd: Option<f64>,
    /// Output tokens and dollars of the sessions that are over.
    settled: (u64, Option<f64>),
    /// Sub-agents that run, that may, and the totals of the session.
    wave: Option<(u32, u32, WaveTotals)>,
    activity: Activity,
    last_event: Duration,
    stopping: bool,
}

/// What happens now.
#[derive(Debug, Clone, Default, PartialEq)]
enum Activity {
    #[default]
    Preparing,
    Starting,
    Working,
    Tool {
        name: String,
        summary: String,
        sub_agent: bool,
    },
    Retrying {
        attempt: u32,
        max: u32,
    },
    Healing {
        action: String,
        until: Duration,
    },
    LimitWait {
        window: Option<String>,
        until: Timestamp,
        source: ResetSource,
    },
    Asking {
        until: Timestamp,
    },
    PeerWait {
        who: String,
        until: Timestamp,
    },
    Judging,
}

impl ProgressState {
    /// Folds an event in; `elapsed` is the time since the run began.
    pub fn apply(&mut self, event: &RunEvent, elapsed: Duration) {
        match event {
            RunEvent::RunStarted { max_sessions, max_hours, max_tokens, max_cost_usd, .. }
            | RunEvent::RunResumed { max_sessions, max_hours, max_tokens, max_cost_usd, .. } => {
                self.max_sessions = *max_sessions;
                self.max_time = Duration::try_from_secs_f64(max_hours * 3600.0).ok();
                self.max_tokens = *max_tokens;
                self.max_cost_usd = *max_cost_usd;
            }
            RunEvent::SessionStarted { iteration, mode, .. } => {
                self.iteration = *iteration;
                self.mode = Some(*mode);
                self.wave = None;
                self.activity = Activity::Starting;
            }
            RunEvent::QuestionAsked { until, .. } => self.activity = Activity::Asking { until: *until },
            RunEvent::AttemptStarted { .. }
            | RunEvent::LimitWaitOver { .. }
            | RunEvent::QuestionAnswered { .. } => {
                self.activity = Activity::Starting;
            }
            RunEvent::Initialised { .. } | RunEvent::TextWritten { .. } => self.activity = Activity::Working,
            RunEvent::WaveChanged { live, cap, totals } => self.wave = Some((*live, *cap, *totals)),
            RunEvent::ToolUsed { name, summary, sub_agent } => {
                self.activity =
                    Activity::Tool { name: name.clone(), summary: summary.clone(), sub_agent: *sub_agent };
            }
            RunEvent::Progress { output_tokens, cost_usd } => {
                self.output_tokens = *output_tokens;
                self.cost_usd = *cost_usd;
            }
            RunEvent::ApiRetry { attempt, max_retries, .. } => {
                self.activity = Activity::Retrying { attempt: *attempt, max: *max_retries };
            }
            RunEvent::Healed { action, delay_seconds, .. } => {
                let until = elapsed.saturating_add(Duration::from_secs(*delay_seconds));
                self.activity = Activity::Healing { action: action.clone(), until };
            }
            RunEvent::LimitWait { window, until, source, .. } => {
                self.activity =
                    Activity::LimitWait { window: window.clone(), until: *until, source: *source };
            }
            RunEvent::PeerWait { peers, until, .. } => {
                self.activity = Activity::PeerWait { who: peer_words(peers), until: *until };
            }
            RunEvent::PeerGone { .. } => self.activity = Activity::Preparing,
            RunEvent::AttemptEnded { .. } => self.activity = Activity::Judging,
            RunEvent::SessionEnded { tokens, cost_usd, .. } => {
                let (output, cost) = self.settled;
                let cost = match (cost, known_cost(*cost_usd)) {
                    (Some(sum), Some(more)) => Some(sum + more),
                    (sum, more) => sum.or(more),
                };
                self.settled = (output.saturating_add(tokens.output), cost);
                self.output_tokens = self.output_tokens.max(self.settled.0);
                self.cost_usd = match (self.cost_usd, self.settled.1) {
                    (Some(told), Some(sum)) => Some(told.max(sum)),
                    (told, sum) => told.or(sum),
                };
                self.activity = Activity::Preparing;
            }
            RunEvent::StopRequested { .. } => self.stopping = true,
            RunEvent::Suspended { .. }
            | RunEvent::DeadRunFound { .. }
            | RunEvent::ResourcesJudged { .. }
            | RunEvent::Surveyed { .. }
            | RunEvent::VerdictJudged { .. }
            | RunEvent::ModeSelected { .. }
            | RunEvent::SwitchesChecked { .. }
            | RunEvent::ReserveReached { .. }
            | RunEvent::TurnStarted { .. }
            | RunEvent::AttemptSpawned { .. }
            | RunEvent::RateLimit { .. }
            | RunEvent::StreamAnomaly { .. }
            | RunEvent::OutcomeJudged { .. }
            | RunEvent::Accounted { .. }
            | RunEvent::ConversationLeft { .. }
            | RunEvent::GateDecided { .. }
            | RunEvent::CapChanged { .. }
            | RunEvent::ReportReceived { .. }
            | RunEvent::Warning { .. }
            | RunEvent::RunEnded { .. } => {}
        }
        self.last_event = elapsed;
    }
}

/// The clock readings that [`lines`] needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Since the run began.
    pub elapsed: Duration,
    /// The wall clock, for the countdown to a limit reset.
    pub wall: Timestamp,
}

/// The block at one moment: three lines, none wider than `options.width`.
#[must_use]
pub fn lines(state: &ProgressState, moment: Moment, options: &TextOptions) -> [String; 3] {
    let mut place = if state.iteration == 0 {
        vec!["before session 1".to_owned()]
    } else {
        vec![format!("session {} of {}", state.iteration, state.max_sessions)]
    };
    place.extend(state.mode.map(|mode| mode.as_str().to_owned()));
    let left = state.max_time.map(|max| format!(", {} left", span(max.saturating_sub(moment.elapsed))));
    place.push(format!("{}{}", stopwatch(moment.elapsed), left.unwrap_or_default()));
    if state.stopping {
        place.push("stopping".to_owned());
    }

    let of = |max: Option<String>| max.map(|max| format!(" of {max}")).unwrap_or_default();
    let max_tokens = of((state.max_tokens > 0).then(|| count(state.max_tokens)));
    let cost = match known_cost(state.cost_usd) {
        Some(sum) => dollars(Some(sum)),
        None => "cost unknown".to_owned(),
    };
    let mut spent = vec![
        format!("{}{max_tokens} output tokens", count(state.output_tokens)),
        format!("{cost}{}", of(state.max_cost_usd.map(|max| dollars(Some(max))))),
    ];
    if let Some((live, cap, WaveTotals { asked, started, denied, peak: _ })) = state.wave {
        let refused = if denied > 0 { format!(", {denied} refused") } else { String::new() };
        spent.push(format!("sub-agents {live} of {cap} ({asked} asked, {started} started{refused})"));
    }

    let mut now = activity(state, moment, options);
    let silence = moment.elapsed.saturating_sub(state.last_event);
    let asleep = matches!(
        state.activity,
        Activity::LimitWait { .. } | Activity::PeerWait { .. } | Activity::Asking { .. }
    );
    let silent = silence >= QUIET && !asleep;
    let silent = if silent { format!(" · silent for {}", span(silence)) } else { String::new() };
    now = options.fit(&now, options.width.saturating_sub(silent.chars().count()));
    now.push_str(&silent);

    [place.join(" · "), spent.join(" · "), now].map(|line| options.fit(&line, options.width))
}

fn activity(state: &ProgressState, moment: Moment, options: &TextOptions) -> String {
    match &state.activity {
        Activity::Preparing => "preparing the next session".to_owned(),
        Activity::Starting => "starting Claude Code".to_owned(),
        Activity::Working => "Claude is working".to_owned(),
        Activity::Tool { name, summary, sub_agent } => {
            let by = if *sub_agent { " (sub-agent)" } else { "" };
            format!("{name}{by}: {summary}")
        }
        Activity::Retrying { attempt, max } => format!("the API does not answer, retry {attempt} of {max}"),
        Activity::Healing { action, until } => match until.saturating_sub(moment.elapsed) {
            Duration::ZERO => format!("healing: {action}"),
            left => format!("healing in {}: {action}", span(left)),
        },
        Activity::LimitWait { window, until, source } => {
            let left = Now { mono: moment.elapsed, wall: moment.wall }.until_wall(*until);
            let window = window.as_deref().map(|window| format!(" ({window})")).unwrap_or_default();
            let until = instant(*until, &options.time_zone);
            let then = match source {
                ResetSource::Event | ResetSource::Text => "until",
                ResetSource::Unknown => "asked again",
            };
            format!("usage limit{window}: {} left, {then} {until}", span(left))
        }
        Activity::Asking { until } => {
            let left = Now { mono: moment.elapsed, wall: moment.wall }.until_wall(*until);
            format!("a question waits for a person: {} left, then its first option is taken", span(left))
        }
        Activity::PeerWait { who, until } => {
            let left = Now { mono: moment.elapsed, wall: moment.wall }.until_wall(*until);
            format!("at most {} more: waiting for {who} to finish", span(left))
        }
        Activity::Judging => "looking at what was done".to_owned(),
    }
}

/// The block on a terminal, or nothing at all.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    state: ProgressState,
    options: TextOptions,
    started: Now,
    drawn: Option<Duration>,
}

impl Progress {
    /// A block on stderr; hidden by itself when stderr is no terminal.
    #[must_use]
    pub fn on_stderr(options: TextOptions, now: Now) -> Self {
        Self::on(ProgressDrawTarget::stderr(), options, now)
    }

    /// No block: nothing is ever drawn and no tick is wanted.
    #[must_use]
    pub fn hidden(options: TextOptions, now: Now) -> Self {
        Self::on(ProgressDrawTarget::hidden(), options, now)
    }

    /// A block on any draw target.
    #[must_use]
    pub fn on(target: ProgressDrawTarget, options: TextOptions, now: Now) -> Self {
        let style =
            ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        Progress { bar, state: ProgressState::default(), options, started: now, drawn: None }
    }

    /// Whether [`Progress::tick`] should be called once a second. False when hidden.
    #[must_use]
    pub fn wants_ticks(&self) -> bool {
        !self.bar.is_hidden() && !self.bar.is_finished()
    }

    /// Takes note of an event. Draws nothing.
    pub fn observe(&mut self, event: &RunEvent, now: Now) {
        self.state.apply(event, now.since(self.started));
    }

    /// Draws, unless hidden or drawn less than a second ago.
    pub fn tick(&mut self, now: Now) {
        if !self.wants_ticks() {
            return;
        }
        let elapsed = now.since(self.started);
        if self.drawn.is_some_and(|drawn| elapsed.saturating_sub(drawn) < REDRAW) {
            return;
        }
        self.drawn = Some(elapsed);
        let moment = Moment { elapsed, wall: now.wall };
        let [place, spent, now] = lines(&self.state, moment, &self.options);
        self.bar.set_message(format!(
            "{}\n{}\n{}",
            self.options.paint(Tone::Strong, &place),
            self.options.paint(Tone::Dim, &spent),
            now
        ));
    }

    /// Runs `print` with the block taken away, so that what it prints stands above it.
    pub fn above<R>(&mut self, print: impl FnOnce() -> R) -> R {
        if self.wants_ticks() { self.bar.suspend(print) } else { print() }
    }

    /// The terminal has another width now.
    pub fn set_width(&mut self, columns: usize) {
        self.options.width = columns;
    }

    /// Takes the block away for good.
    pub fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests;
