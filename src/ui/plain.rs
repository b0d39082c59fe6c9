//! Lines for people: one calm entry per event that matters, stamped with the elapsed time.
//!
//! This is the complete account of a run for cron mails, CI logs and terminals alike. [`render`] is pure:
//! an event, the elapsed time and the little that must be remembered between events go in, text comes out.
//! Further lines of one entry are indented under its first. Retries of the API, which come by the dozen in a
//! bad hour, are told when they begin and when they are over.

mod long;

use std::fmt::Write as _;
use std::time::Duration;

use super::text::{TextOptions, Tone, instant, plural, span, span_of_seconds, stopwatch};
use crate::core::outcome::Class;
use crate::core::published::{Purpose, ReportSource, ResetSource, RunEvent};
use crate::core::suitability::{Gate, GateName};

/// Columns of the time stamp and the gap after it.
const INDENT: usize = 10;
/// Foreign text always gets this much room, however narrow the log is.
const LEAST_ROOM: usize = 40;

/// What has to be remembered between events.
#[derive(Debug, Clone)]
pub struct PlainState {
    options: TextOptions,
    max_sessions: Option<u32>,
    iteration: u32,
    resources: Option<(String, u32)>,
    introduced: Option<(Option<String>, Option<String>)>,
    retries: Option<Retries>,
    warned_windows: Vec<Option<String>>,
}

/// A series of API retries that has been announced.
#[derive(Debug, Clone, PartialEq)]
struct Retries {
    cause: String,
    seen: u32,
}

impl PlainState {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(options: TextOptions) -> Self {
        PlainState {
            options,
            max_sessions: None,
            iteration: 0,
            resources: None,
            introduced: None,
            retries: None,
            warned_windows: Vec::new(),
        }
    }

    /// How the lines are laid out.
    #[must_use]
    pub fn options(&self) -> &TextOptions {
        &self.options
    }

    /// Foreign text, made harmless, in what is left of a line after `used` columns.
    fn foreign(&self, text: &str, used: usize) -> String {
        self.options.fit(text, self.options.width.saturating_sub(INDENT + used).max(LEAST_ROOM))
    }

    fn session(&self, iteration: u32) -> String {
        match self.max_sessions {
            Some(max) => format!("session {iteration} of {max}"),
            None => format!("session {iteration}"),
        }
    }

    /// Takes note of a retry; its announcement if it begins a series.
    fn retry(&mut self, cause: String) -> Option<String> {
        match &mut self.retries {
            Some(series) if series.cause == cause => {
                series.seen = series.seen.saturating_add(1);
                None
            }
            _ => {
                let line = format!("the API does not answer ({cause}); Claude Code tries again by itself");
                self.retries = Some(Retries { cause, seen: 1 });
                Some(line)
            }
        }
    }
}

/// One entry of the account while it is put together.
struct EntryText {
    tone: Tone,
    first: String,
    more: Vec<(Tone, String)>,
}

impl EntryText {
    fn new(tone: Tone, first: impl Into<String>) -> Self {
        EntryText { tone, first: first.into(), more: Vec::new() }
    }

    fn with(mut self, tone: Tone, line: impl Into<String>) -> Self {
        self.more.push((tone, line.into()));
        self
    }

    fn lay_out(&self, elapsed: Duration, options: &TextOptions) -> String {
        let stamp = options.paint(Tone::Dim, &stopwatch(elapsed));
        let mut out = format!("{stamp}  {}", options.paint(self.tone, &options.spell(&self.first)));
        for (tone, line) in &self.more {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', INDENT));
            out.push_str(&options.paint(*tone, &options.spell(line)));
        }
        out
    }
}

/// The text of an event, without a newline at its end; `None` when it says nothing to a person.
///
/// `elapsed` is the time since the run began. An entry may have several lines.
pub fn render(event: &RunEvent, elapsed: Duration, state: &mut PlainState) -> Option<String> {
    let over = retries_over(event, state);
    let entry = describe(event, state);
    let mut out = String::new();
    for entry in over.into_iter().chain(entry) {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&entry.lay_out(elapsed, &state.options));
    }
    (!out.is_empty()).then_some(out)
}

/// The end of a series of retries, when this event shows it.
fn retries_over(event: &RunEvent, state: &mut PlainState) -> Option<EntryText> {
    let answered = matches!(event, RunEvent::ToolUsed { .. } | RunEvent::TextWritten { .. });
    let ended = matches!(
        event,
        RunEvent::AttemptEnded { .. } | RunEvent::OutcomeJudged { .. } | RunEvent::SessionEnded { .. }
    );
    if !answered && !ended {
        return None;
    }
    let series = state.retries.take()?;
    let times = plural(u64::from(series.seen), "retry").replace("retrys", "retries");
    Some(if answered {
        EntryText::new(Tone::Plain, format!("the API answers again after {times}"))
    } else {
        EntryText::new(Tone::Plain, format!("the API did not answer in {times}"))
    })
}

/// What the event says to a person.
fn describe(event: &RunEvent, state: &mut PlainState) -> Option<EntryText> {
    let verbose = state.options.verbose;
    let entry = match event {
        RunEvent::RunStarted { .. } => long::run_started(event, state)?,
        RunEvent::RunResumed { .. } => long::run_resumed(event, state)?,
        RunEvent::DeadRunFound { run_id, swept, survivors } => {
            let run_id = state.foreign(run_id, 30);
            let mut entry = EntryText::new(
                Tone::Warn,
                format!(
                    "run {run_id} died without a word; its record is written now (`autopilot resume` goes on)"
                ),
            );
            if !swept.is_empty() {
                entry = entry.with(Tone::Plain, format!("ended what it left: {}", list(state, swept)));
            }
            still_alive(state, entry, survivors)
        }
        RunEvent::ResourcesJudged { tier, cap, deciding, signals, .. } => {
            let judged = (tier.clone(), *cap);
            if state.resources.as_ref() == Some(&judged) && !verbose {
                return None;
            }
            state.resources = Some(judged);
            // What decided comes first; what was not measured is left out here, the journal has it.
            let mut measured: Vec<_> = signals.iter().filter(|signal| signal.value != "unknown").collect();
            measured.sort_by_key(|signal| Some(&signal.signal) != deciding.as_ref());
            let values: Vec<String> =
                measured.iter().map(|signal| format!("{} {}", signal.signal, signal.value)).collect();
            let mut line = format!("resources {tier}");
            if let Some(deciding) = deciding.as_ref().filter(|_| tier != "green") {
                _ = write!(line, " because of {deciding}");
            }
            if !values.is_empty() {
                _ = write!(line, " ({})", values.join(", "));
            }
            let agents = if *cap == 0 {
                "no sub-agents".to_owned()
            } else {
                format!("at most {} a wave", plural(u64::from(*cap), "sub-agent"))
            };
            let tone = if *cap == 0 { Tone::Warn } else { Tone::Plain };
            EntryText::new(tone, format!("{}: {agents}", state.foreign(&line, 30)))
        }
        RunEvent::ModeSelected { mode, confidence, threshold, rationale, .. } => {
            // Nothing to be sure about: the work is done.
            if mode.is_none() && *confidence == 0.0 {
                return Some(EntryText::new(Tone::Plain, state.foreign(rationale, 0)));
            }
            let what = mode.map_or("no recommendation", |mode| mode.as_str());
            let sure = format!("confidence {confidence:.2}, {threshold:.2} needed");
            let why = state.foreign(rationale, what.len() + sure.len() + 12);
            let tone = if mode.is_some() && confidence >= threshold { Tone::Plain } else { Tone::Warn };
            EntryText::new(tone, format!("next: {what} ({sure}): {why}"))
        }
        RunEvent::VerdictJudged { autonomy, verdict } => {
            // Too little confidence ends in a person's choice anyway, and that has words of its own.
            let against = |gate: &Gate| !gate.passed && gate.name != GateName::Confidence;
            let quiet = !verdict.forbids_start(*autonomy) && !verdict.gates.iter().any(against);
            if quiet && !verbose {
                return None;
            }
            long::verdict(*autonomy, verdict, state)
        }
        RunEvent::SwitchesChecked { phase, hit, detail, .. } => {
            if !verbose {
                return None;
            }
            let found = hit.map_or("none fires", |hit| hit.as_str());
            let detail = detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
            let line = format!("kill-switches {phase} the session: {found}{detail}");
            EntryText::new(Tone::Dim, state.foreign(&line, 0))
        }
        RunEvent::Surveyed { signals, .. } => {
            if !verbose {
                return None;
            }
            long::surveyed(signals, state)
        }
        RunEvent::SessionStarted { iteration, session_id, mode, cap, continued, tasks } => {
            state.iteration = *iteration;
            let verb = if *continued { "goes on" } else { "starts" };
            let session = state.session(*iteration);
            let id = state.foreign(session_id, 40);
            let mut entry =
                EntryText::new(Tone::Strong, format!("{session} {verb}: {mode}, sub-agents {cap}, id {id}"));
            for task in tasks {
                entry = entry.with(Tone::Plain, format!("task: {}", state.foreign(task, 6)));
            }
            entry
        }
        RunEvent::TurnStarted { turn, purpose, .. } => {
            let what = match purpose {
                Purpose::Work if *turn <= 1 && !verbose => return None,
                Purpose::Work => "the work itself",
                Purpose::Reconcile => "go on after the interruption, doing only what is not done yet",
                Purpose::Continue => "go on where it stopped",
                Purpose::Answer => "go on with the first option, as nobody answered",
                Purpose::Nudge => "try something different, as it went round in circles",
                Purpose::WrapUp => "commit what is good, and report: the time is nearly over",
                Purpose::Compact => "compact the conversation",
                Purpose::Close => "hand in the session report, which is missing",
            };
            EntryText::new(Tone::Plain, format!("turn {turn}: {what}"))
        }
        RunEvent::AttemptStarted { attempt, resume, argv, .. } => {
            if !verbose {
                return None;
            }
            let how = if *resume { "resumes" } else { "starts" };
            let line = format!("attempt {attempt} {how}: {}", argv.join(" "));
            EntryText::new(Tone::Dim, state.foreign(&line, 0))
        }
        RunEvent::AttemptSpawned { attempt, pid } => {
            if !verbose {
                return None;
            }
            EntryText::new(Tone::Dim, format!("attempt {attempt} is process {pid}"))
        }
        RunEvent::Initialised { .. } => long::initialised(event, state)?,
        RunEvent::ToolUsed { name, summary, sub_agent } => {
            if !verbose {
                return None;
            }
            let by = if *sub_agent { " (sub-agent)" } else { "" };
            EntryText::new(Tone::Dim, state.foreign(&format!("{name}{by}: {summary}"), 0))
        }
        RunEvent::TextWritten { text, sub_agent } => {
            if !verbose {
                return None;
            }
            let by = if *sub_agent { "sub-agent" } else { "Claude" };
            EntryText::new(Tone::Dim, format!("{by}: {}", state.foreign(text, by.len() + 2)))
        }
        RunEvent::Progress { .. } | RunEvent::WaveChanged { .. } | RunEvent::Accounted { .. } => return None,
        RunEvent::ApiRetry { status, error, .. } => {
            let error = error.as_deref().unwrap_or("unknown");
            let cause = status.map_or_else(|| error.to_owned(), |status| format!("{error}, HTTP {status}"));
            let cause = state.foreign(&cause, 60);
            EntryText::new(Tone::Warn, state.retry(cause)?)
        }
        RunEvent::RateLimit { status, window, resets_at, utilization } => {
            if status != "allowed_warning" || state.warned_windows.contains(window) {
                return None;
            }
            state.warned_windows.push(window.clone());
            let window = state.foreign(window.as_deref().unwrap_or("unnamed"), 60);
            let used = utilization.map(|part| format!(" is {:.0} % used", part * 100.0));
            let resets = resets_at.map(|at| format!(", resets {}", instant(at, &state.options.time_zone)));
            let line = format!(
                "usage window {window}{}{}",
                used.as_deref().unwrap_or(" is nearly used up"),
                resets.unwrap_or_default()
            );
            EntryText::new(Tone::Warn, line)
        }
        RunEvent::StreamAnomaly { anomaly, sample } => {
            if !verbose {
                return None;
            }
            let line = format!("skipped output that could not be read ({anomaly}): {sample}");
            EntryText::new(Tone::Dim, state.foreign(&line, 0))
        }
        RunEvent::AttemptEnded { attempt, exit, swept, survivors, seconds, .. } => {
            if !verbose && swept.is_empty() && survivors.is_empty() {
                return None;
            }
            let exit = exit.as_deref().unwrap_or("ended, how is unknown");
            let line = format!("attempt {attempt} ended after {}: {exit}", span_of_seconds(*seconds));
            let mut entry = EntryText::new(Tone::Dim, state.foreign(&line, 0));
            if !swept.is_empty() {
                entry = entry.with(Tone::Plain, format!("ended what it left: {}", list(state, swept)));
            }
            still_alive(state, entry, survivors)
        }
        RunEvent::OutcomeJudged { class, confidence, reasons, .. } => {
            if *class == Class::Ok && !verbose {
                return None;
            }
            let tone = if matches!(class, Class::Ok | Class::OkExitAnomaly) { Tone::Dim } else { Tone::Warn };
            let why = state.foreign(&reasons.join("; "), class.as_str().len() + 30);
            EntryText::new(tone, format!("outcome {class} (confidence {confidence:.2}): {why}"))
        }
        RunEvent::ConversationLeft { session_id, successor, class, .. } => {
            let line = format!(
                "conversation {session_id} could not go on ({class}); {successor} has taken over, the old transcript stays"
            );
            EntryText::new(Tone::Warn, state.foreign(&line, 0))
        }
        RunEvent::Healed { class, action, why, recovery, delay_seconds, .. } => {
            let pause = match delay_seconds {
                0 => String::new(),
                seconds => format!(" in {}", span(Duration::from_secs(*seconds))),
            };
            let action = state.foreign(action, 40);
            EntryText::new(Tone::Warn, format!("heal {recovery} for {class}: {action}{pause}"))
                .with(Tone::Plain, format!("because {}", state.foreign(why, 8)))
        }
        RunEvent::LimitWait { window, until, source, why } => {
            let window = window.as_deref().map(|window| format!(" ({})", state.foreign(window, 60)));
            let until = instant(*until, &state.options.time_zone);
            let known = match source {
                ResetSource::Event => "",
                ResetSource::Text => ", the time its words name",
                ResetSource::Unknown => ", then it is asked again: nobody says when it resets",
            };
            let line = format!("usage limit{}: asleep until {until}{known}", window.unwrap_or_default());
            EntryText::new(Tone::Warn, line).with(Tone::Plain, state.foreign(why, 0))
        }
        RunEvent::ReserveReached { window, utilization, reserve, resets_at, .. } => {
            let window = state.foreign(window, 60);
            let resets = resets_at.map(|at| format!(", resets {}", instant(at, &state.options.time_zone)));
            let used = utilization * 100.0;
            let line = format!("usage window {window} is {used:.0} % used{}", resets.unwrap_or_default());
            EntryText::new(Tone::Warn, line)
                .with(Tone::Plain, format!("no other session: --reserve {reserve} keeps the rest"))
        }
        RunEvent::LimitWaitOver { waited_seconds } => {
            let waited = span(Duration::from_secs(*waited_seconds));
            EntryText::new(Tone::Plain, format!("awake again after {waited} of waiting for the usage limit"))
        }
        RunEvent::PeerWait { .. } => long::peer_wait(event)?,
        RunEvent::PeerGone { waited_seconds } => {
            let waited = span(Duration::from_secs(*waited_seconds));
            EntryText::new(Tone::Plain, format!("nobody else works here any more; waited {waited}"))
        }
        RunEvent::Suspended { asleep_seconds } => {
            let asleep = span_of_seconds(*asleep_seconds);
            EntryText::new(
                Tone::Plain,
                format!("this machine was asleep for {asleep}; time limits start afresh"),
            )
        }
        RunEvent::ReportReceived { source, problems, .. } => {
            let line = match source {
                ReportSource::Derived => "no session report was handed in; judged from stream and git",
                ReportSource::CloseTurn | ReportSource::Structured if problems.is_empty() => return None,
                ReportSource::CloseTurn | ReportSource::Structured => "the session report is not as asked",
            };
            let mut entry = EntryText::new(Tone::Warn, line);
            for problem in problems {
                entry = entry.with(Tone::Plain, state.foreign(problem, 0));
            }
            entry
        }
        RunEvent::GateDecided { tool, what, decision, reason, .. } => {
            let denied = decision == "deny";
            if !denied && !verbose {
                return None;
            }
            let tone = if denied { Tone::Warn } else { Tone::Dim };
            let verb = match decision.as_str() {
                "deny" => "denied",
                "allow" => "allowed",
                _ => "left to Claude Code's rules",
            };
            EntryText::new(
                tone,
                format!("{verb}: {}", state.foreign(&format!("{tool} {what}"), verb.len() + 2)),
            )
            .with(tone, state.foreign(reason, 0))
        }
        RunEvent::CapChanged { cap, tier, why } => {
            let why = why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
            let agents = if *cap == 0 {
                "no further sub-agents".to_owned()
            } else {
                format!("at most {} at once", plural(u64::from(*cap), "sub-agent"))
            };
            let line = state.foreign(&format!("resources {tier}{why}"), 30);
            EntryText::new(if *cap == 0 { Tone::Warn } else { Tone::Plain }, format!("{line}: {agents}"))
        }
        RunEvent::QuestionAsked { question, options, until, .. } => {
            let until = instant(*until, &state.options.time_zone);
            let mut entry =
                EntryText::new(Tone::Warn, format!("blocked on a question: {}", state.foreign(question, 23)));
            for option in options {
                entry = entry.with(Tone::Plain, format!("option: {}", state.foreign(option, 8)));
            }
            entry.with(
                Tone::Plain,
                format!("the first option is taken at {until}; stop the run to answer it yourself"),
            )
        }
        RunEvent::QuestionAnswered { answer, by, .. } => {
            let line = format!("answered ({}): {}", state.foreign(by, 40), state.foreign(answer, 60));
            EntryText::new(Tone::Warn, line)
        }
        RunEvent::SessionEnded { .. } => long::session_ended(event, state)?,
        RunEvent::StopRequested { level, by } => {
            let how = match level.as_str() {
                "finish" => "this session is finished first (ask again to interrupt it)",
                "interrupt" => "the session is interrupted and recorded (ask again to kill it)",
                "kill" => "everything is ended now",
                other => other,
            };
            let by = state.foreign(by, 40);
            EntryText::new(Tone::Warn, format!("stop asked for by {by}: {}", state.foreign(how, 40)))
        }
        RunEvent::Warning { text } => {
            EntryText::new(Tone::Warn, format!("warning: {}", state.foreign(text, 9)))
        }
        RunEvent::RunEnded { .. } => long::run_ended(event, state)?,
    };
    Some(entry)
}

fn list(state: &PlainState, names: &[String]) -> String {
    state.foreign(&names.join(", "), 32)
}

fn still_alive(state: &PlainState, entry: EntryText, survivors: &[String]) -> EntryText {
    if survivors.is_empty() {
        return entry;
    }
    entry.with(Tone::Bad, format!("STILL ALIVE, end it by hand: {}", list(state, survivors)))
}

#[cfg(test)]
mod tests;
