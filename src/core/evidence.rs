//! All that is known of an attempt once it is over: what [`super::judge`] decides on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::fact::{DeniedCall, Fact, Initialised, RateLimit, TurnResult};
use super::time::Now;
use super::transcript_digest::TranscriptDigest;

/// Bound on the model text kept of one attempt; the raw stream has all of it (field-reports C13).
const TEXT_LIMIT: usize = 16 * 1024;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Why we ended a process, if we did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// No line came in time.
    FirstOutput,
    /// Silence of stream, transcript and tools.
    Stall,
    /// The turn took too long.
    TurnTimeout,
    /// The result was there, the process stayed (field-reports A01). Not a failure.
    ExitGrace,
    /// The operator asked for it.
    Operator,
    /// The time is nearly over (`--deadline`): what is good is to be committed.
    WrapUp,
    /// It went round in circles.
    Stuck,
    /// The API refused the login, twice, and the CLI was about to ask for minutes on end (field-reports F04).
    Login,
}

/// Why a process could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchFailure {
    /// The program is not there, or is being replaced (field-reports K08).
    ProgramMissing,
    /// The program cannot be executed.
    NotExecutable,
    /// The working directory is gone (field-reports K09).
    DirectoryGone,
    /// The disk is full.
    DiskFull,
    /// The CLI does not know the slash command that was to be sent.
    CommandMissing,
    /// Anything else.
    Other,
}

/// How an attempt ended, as the engine saw it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttemptEnd {
    /// Exit of the process; `None` if it could not be reaped.
    pub exit: Option<Exit>,
    /// Could not be started: kind and words.
    pub launch_failure: Option<(LaunchFailure, String)>,
    /// The CLI did not answer the control protocol; the prompt was not sent.
    pub handshake_failed: bool,
    /// Lines of stdout, readable or not.
    pub lines: u64,
    /// Signals sent, in order.
    pub signals: Vec<String>,
    /// Processes it left that were ended.
    pub swept: Vec<String>,
    /// Still alive after that.
    pub survivors: Vec<String>,
    /// End of stderr, known noise removed (field-reports C17).
    pub stderr_tail: String,
    /// The noise: worth telling, never a reason.
    pub stderr_noise: Vec<String>,
    /// The stderr marker of the background ceiling was seen (field-reports B02).
    pub background_ceiling: bool,
    /// Memory that was left right after it was killed, in bytes; `None` = it was not, or nobody knows.
    pub memory_left: Option<u64>,
}

impl AttemptEnd {
    /// The CLI does not speak the control protocol: it does not answer, or it cuts long lines of its input and
    /// says so on stderr (field-reports C15). As plain text on stdin a prompt arrives.
    #[must_use]
    pub fn refuses_control(&self) -> bool {
        self.handshake_failed || self.stderr_tail.contains("Error parsing streaming input line")
    }
}

/// The evidence of one attempt, gathered fact by fact.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Last `system/init`.
    pub initialised: Option<Initialised>,
    /// Findings from well-formed lines; 0 = nothing came that belongs to a turn.
    pub lines: u64,
    /// API retries of the CLI because its login was refused.
    pub login_refused: u32,
    /// Unreadable lines.
    pub bad_lines: u64,
    /// Last result; the last one is authoritative (field-reports A17).
    pub result: Option<TurnResult>,
    /// Text of the main thread after the last prompt, bounded to its end.
    pub text: String,
    /// Last API failure written into the conversation, unless the model spoke after it.
    pub api_error: Option<(Option<String>, Option<u16>, String)>,
    /// Latest state of each usage window.
    pub rate_limits: BTreeMap<String, RateLimit>,
    /// API retries of the CLI.
    pub api_retries: u32,
    /// Background tasks and sub-agents that were stopped, not finished.
    pub stopped_tasks: BTreeSet<String>,
    /// Sub-agents started.
    pub agents_started: u32,
    /// Of these, failed.
    pub agents_failed: u32,
    /// Sub-agents running now.
    pub agents_running: BTreeSet<String>,
    /// Calls denied, by tool.
    pub denied: Vec<String>,
    /// Calls whose denial has been counted, or is not to be.
    pub settled_denials: BTreeSet<String>,
    /// Tool calls.
    pub tool_calls: u32,
    /// When it was launched.
    pub started: Option<Now>,
    /// When the last sign of life came.
    pub last_sign: Option<Now>,
    /// Longest silence.
    pub longest_gap: Duration,
    /// Kind of the last finding that says what was going on; empty before the first (field-reports A02).
    pub last_event: &'static str,
    /// Why we ended it.
    pub stop_cause: Option<StopCause>,
    /// With [`StopCause::Stuck`]: what repeated itself.
    pub circle: Option<String>,
    /// How it ended.
    pub end: AttemptEnd,
    /// What the transcript says afterwards.
    pub digest: Option<TranscriptDigest>,
}

impl Evidence {
    /// Takes a fact in. Anything that comes is a sign of life.
    pub fn take(&mut self, now: Now, fact: &Fact) {
        self.sign_of_life(now);
        if !matches!(fact, Fact::Anomaly { .. }) {
            self.lines += 1;
        }
        self.last_event = kind(fact).unwrap_or(self.last_event);
        match fact {
            Fact::Initialised(init) => self.initialised = Some(init.clone()),
            Fact::Text { text, sub_agent: false } => {
                self.api_error = None;
                // It was let in after all.
                self.login_refused = 0;
                if !self.text.is_empty() {
                    self.text.push('\n');
                }
                self.text.push_str(text);
                keep_end(&mut self.text, TEXT_LIMIT);
            }
            Fact::ToolStarted { .. } => self.tool_calls += 1,
            Fact::ApiRetry(retry) => {
                self.api_retries += 1;
                self.login_refused += u32::from(retry.refuses_login());
            }
            Fact::RateLimit(limit) => {
                let window = limit.window.clone().unwrap_or_default();
                self.rate_limits.insert(window, limit.clone());
            }
            Fact::ApiError { class, status, text } => {
                self.api_error = Some((class.clone(), *status, text.clone()));
            }
            Fact::TaskStarted { id, agent, .. } => {
                if *agent && self.agents_running.insert(id.clone()) {
                    self.agents_started += 1;
                }
            }
            Fact::TaskEnded { id, status } => {
                if self.agents_running.remove(id) && status == "failed" {
                    self.agents_failed += 1;
                }
                if matches!(status.as_str(), "stopped" | "killed") {
                    self.stopped_tasks.insert(id.clone());
                }
            }
            Fact::Denied { tool, id } => self.denied(tool, id.as_deref()),
            Fact::Result(result) => {
                for DeniedCall { tool, id } in &result.denied {
                    if id.is_some() || !self.denied.contains(tool) {
                        self.denied(tool, id.as_deref());
                    }
                }
                let mut result = (**result).clone();
                // A turn that a background agent starts after the report owes none of its own (seen on
                // 2.1.332): the report given before stands.
                if result.structured_output.is_none() && !result.is_error {
                    result.structured_output = self.result.take().and_then(|before| before.structured_output);
                }
                self.result = Some(result);
            }
            Fact::Anomaly { .. } => self.bad_lines += 1,
            Fact::Text { sub_agent: true, .. }
            | Fact::ToolEnded { .. }
            | Fact::Usage { .. }
            | Fact::Asked(_)
            | Fact::Heartbeat => {}
        }
    }

    /// The gate refused a call: the session was told why and what to do instead, so it does not count as one that the
    /// rules of the CLI denied, although the CLI lists it there (seen on 2.1.332).
    pub fn refused(&mut self, id: &str) {
        self.settled_denials.insert(id.to_owned());
    }

    /// A call was denied; each counts once, however often it is told.
    fn denied(&mut self, tool: &str, id: Option<&str>) {
        if id.is_none_or(|id| self.settled_denials.insert(id.to_owned())) {
            self.denied.push(tool.to_owned());
        }
    }

    /// Something showed that the attempt lives.
    pub fn sign_of_life(&mut self, now: Now) {
        if let Some(last) = self.last_sign.or(self.started) {
            self.longest_gap = self.longest_gap.max(now.since(last));
        }
        self.last_sign = Some(now);
    }

    /// Something showed that the attempt lived some time before `now`: a file it wrote then. The transcript is written a
    /// moment after the stream, so the time of the look in place of the time of the write would double every silence.
    pub fn lived(&mut self, now: Now, ago: Duration) {
        if ago < self.silence(now) {
            let wall = now.wall.checked_sub(ago).unwrap_or(now.wall);
            self.sign_of_life(Now { mono: now.mono.saturating_sub(ago), wall });
        }
    }

    /// Silence since the last sign of life.
    #[must_use]
    pub fn silence(&self, now: Now) -> Duration {
        self.last_sign.or(self.started).map_or(Duration::ZERO, |last| now.since(last))
    }

    /// The usage windows that block. `allowed` and `allowed_warning` are figures, not stops (field-reports
    /// C08); overage of an allowed window pins nothing (E02), and neither does a rejected window while extra
    /// usage pays.
    pub fn rejected_windows(&self) -> impl Iterator<Item = &RateLimit> {
        self.rate_limits.values().filter(|limit| limit.status == "rejected" && !limit.using_overage)
    }

    /// The usage window that blocks longest, as far as is known, if one does.
    #[must_use]
    pub fn rejected_window(&self) -> Option<&RateLimit> {
        self.rejected_windows().max_by_key(|limit| limit.resets_at)
    }
}

/// What a finding says of what was going on, in words for people.
fn kind(fact: &Fact) -> Option<&'static str> {
    match fact {
        Fact::Initialised(_) => Some("start of a turn"),
        Fact::Text { .. } => Some("text"),
        Fact::ToolStarted { .. } => Some("tool call"),
        Fact::ToolEnded { .. } => Some("tool result"),
        Fact::ApiRetry(_) => Some("API retry"),
        Fact::RateLimit(_) => Some("rate limit"),
        Fact::ApiError { .. } => Some("API failure"),
        Fact::TaskStarted { .. } | Fact::TaskEnded { .. } => Some("background task"),
        Fact::Denied { .. } => Some("denied call"),
        Fact::Asked(_) => Some("question of the CLI"),
        Fact::Result(_) => Some("result"),
        Fact::Usage { .. } | Fact::Anomaly { .. } | Fact::Heartbeat => None,
    }
}

/// Cuts the front so that at most `limit` bytes stay, on a character boundary.
fn keep_end(text: &mut String, limit: usize) {
    if text.len() > limit {
        let mut cut = text.len() - limit;
        while !text.is_char_boundary(cut) {
            cut += 1;
        }
        text.drain(..cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fact::ApiRetry;

    fn at(seconds: u64) -> Now {
        Now { mono: Duration::from_secs(seconds), wall: jiff::Timestamp::from_second(1_790_000_000).unwrap() }
    }

    fn text(text: &str, sub_agent: bool) -> Fact {
        Fact::Text { text: text.to_owned(), sub_agent }
    }

    fn limit(status: &str, window: &str, resets_at: Option<i64>) -> Fact {
        Fact::RateLimit(RateLimit {
            status: status.to_owned(),
            window: Some(window.to_owned()),
            resets_at: resets_at.map(|at| jiff::Timestamp::from_second(at).unwrap()),
            ..RateLimit::default()
        })
    }

    fn of(facts: &[Fact]) -> Evidence {
        let mut evidence = Evidence { started: Some(at(0)), ..Evidence::default() };
        for fact in facts {
            evidence.take(at(1), fact);
        }
        evidence
    }

    #[test]
    fn silence_is_counted_from_the_launch_and_from_each_sign() {
        let mut evidence = Evidence { started: Some(at(10)), ..Evidence::default() };
        assert_eq!(evidence.silence(at(40)).as_secs(), 30);
        evidence.take(at(45), &Fact::Heartbeat);
        evidence.take(at(46), &Fact::Anomaly { kind: "not_json", sample: String::new() });
        evidence.take(at(60), &Fact::ApiRetry(ApiRetry::default()));
        assert_eq!(evidence.silence(at(61)).as_secs(), 1);
        assert_eq!(evidence.longest_gap.as_secs(), 35);
        // An unreadable line is a sign of life, and no line.
        assert_eq!((evidence.lines, evidence.bad_lines, evidence.api_retries), (2, 1, 1));
        // A clock that stands still or an event that comes late is no panic.
        assert_eq!(evidence.silence(at(3)), Duration::ZERO);
    }

    #[test]
    fn text_is_that_of_the_main_thread_and_bounded_to_its_end() {
        assert_eq!(of(&[text("a", false), text("b", true), text("c", false)]).text, "a\nc");
        let long = of(&[text(&"é".repeat(TEXT_LIMIT), false), text("end", false)]);
        assert!(long.text.len() <= TEXT_LIMIT && long.text.ends_with("é\nend"));
    }

    #[test]
    fn the_latest_state_of_each_window_counts() {
        for (facts, expected) in [
            (vec![limit("allowed", "five_hour", None), limit("allowed_warning", "seven_day", None)], None),
            (vec![limit("rejected", "five_hour", None)], Some("five_hour")),
            (vec![limit("rejected", "five_hour", Some(9)), limit("allowed", "five_hour", Some(9))], None),
            // Both block: the later reset decides.
            (
                vec![limit("rejected", "five_hour", Some(90)), limit("rejected", "seven_day", Some(900))],
                Some("seven_day"),
            ),
            (
                vec![limit("rejected", "five_hour", Some(90)), limit("rejected", "seven_day", None)],
                Some("five_hour"),
            ),
        ] {
            let evidence = of(&facts);
            let window = evidence.rejected_window().and_then(|limit| limit.window.as_deref());
            assert_eq!(window, expected, "{facts:?}");
        }
    }

    #[test]
    fn the_last_result_counts_and_keeps_the_report_before_it() {
        let result = |is_error, report: Option<u32>| {
            Fact::Result(Box::new(TurnResult {
                is_error,
                structured_output: report.map(Into::into),
                ..TurnResult::default()
            }))
        };
        for (results, is_error, report) in [
            (vec![result(false, Some(1)), result(false, None)], false, Some(1)),
            (vec![result(false, Some(1)), result(false, Some(2))], false, Some(2)),
            (vec![result(true, None), result(false, Some(2))], false, Some(2)),
            (vec![result(false, Some(1)), result(true, None)], true, None),
        ] {
            let last = of(&results).result.unwrap();
            assert_eq!(
                (last.is_error, last.structured_output),
                (is_error, report.map(Into::into)),
                "{results:?}"
            );
        }
    }

    #[test]
    fn agents_and_denials_are_counted_once() {
        let starts = |id: &str, agent| Fact::TaskStarted { id: id.to_owned(), agent, call: None };
        let ends = |id: &str, status: &str| Fact::TaskEnded { id: id.to_owned(), status: status.to_owned() };
        let evidence = of(&[
            starts("a", true),
            starts("a", true),
            starts("shell", false),
            starts("b", true),
            ends("a", "completed"),
            ends("shell", "killed"),
            ends("never seen", "failed"),
        ]);
        assert_eq!(evidence.agents_started, 2);
        assert_eq!(evidence.agents_running, BTreeSet::from(["b".to_owned()]));
        assert_eq!(evidence.stopped_tasks, BTreeSet::from(["shell".to_owned()]));

        let call =
            |tool: &str, id: Option<&str>| DeniedCall { tool: tool.to_owned(), id: id.map(str::to_owned) };
        let listed = vec![call("Bash", Some("1")), call("Bash", Some("2")), call("Bash", Some("3"))];
        let mut evidence = Evidence::default();
        evidence.refused("3");
        let now = Now { mono: Duration::ZERO, wall: jiff::Timestamp::UNIX_EPOCH };
        evidence.take(now, &Fact::Denied { tool: "Bash".to_owned(), id: Some("1".to_owned()) });
        evidence.take(now, &Fact::Result(Box::new(TurnResult { denied: listed, ..TurnResult::default() })));
        assert_eq!(evidence.denied, ["Bash", "Bash"], "the third was refused by the gate");

        let denied_in_result =
            TurnResult { denied: vec![call("Bash", None), call("Write", None)], ..TurnResult::default() };
        let evidence = of(&[
            Fact::Denied { tool: "Bash".to_owned(), id: None },
            Fact::Result(Box::new(denied_in_result)),
        ]);
        assert_eq!(evidence.denied, ["Bash", "Write"]);
    }

    #[test]
    fn an_api_failure_stands_until_the_model_speaks_again() {
        let error = || Fact::ApiError { class: None, status: Some(529), text: "x".to_owned() };
        assert!(of(&[text("a", false), error()]).api_error.is_some());
        assert!(of(&[error(), text("a", true)]).api_error.is_some());
        assert!(of(&[error(), text("a", false)]).api_error.is_none());
    }

    #[test]
    fn a_sign_from_before_counts_from_then() {
        let at = |seconds| Now { mono: Duration::from_secs(seconds), wall: jiff::Timestamp::UNIX_EPOCH };
        let mut evidence = Evidence { started: Some(at(100)), ..Evidence::default() };
        evidence.sign_of_life(at(110));
        evidence.lived(at(130), Duration::from_secs(15));
        assert_eq!(evidence.silence(at(130)), Duration::from_secs(15));
        // Older than what is known already.
        evidence.lived(at(130), Duration::from_secs(29));
        assert_eq!(evidence.silence(at(130)), Duration::from_secs(15));
        evidence.lived(at(130), Duration::ZERO);
        assert_eq!(evidence.silence(at(130)), Duration::ZERO);
    }
}
