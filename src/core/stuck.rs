//! Whether a turn goes round in circles (design §6, recovery §10.3–10.4, §13 "Stuck").
//!
//! Theory of operation: [`Watch`] is fed with the facts of an attempt. It pairs the start of each tool call with its
//! end and reduces the pair to a symbol (tool, input, outcome); the last few symbols of each thread are kept, the
//! main conversation and every sub-agent being threads of their own. A call that brought something *about* clears its
//! thread, whatever was noted there. Otherwise four signs are looked for: the same failure over and over, a repeated
//! pattern, refusal after refusal, and a long time with many calls and nothing to show.
//!
//! What counts as progress is narrow on purpose (recovery §10.3: heartbeats and instruction reads "mask" a loop): a
//! file written with something not written before, a commit, a task ticked, a test with an outcome not seen before.
//! Memory is bounded by constants, however long a session is.

pub mod call;
pub mod ladder;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use call::{Call, Deeds, Outcome};

use super::fact::Fact;
use super::time::Now;

/// The same call with the same failure, one after the other (design §6).
const SAME_FAILURES: usize = 5;
/// Longest pattern looked for, in calls (recovery §10.4, health monitor).
const LONGEST_PATTERN: usize = 5;
/// How often a pattern has to come (recovery §10.4, health monitor).
const PATTERN_TIMES: usize = 4;
/// How often a single call that does not fail has to come: five looks at something that is awaited are no circle
/// yet (field-reports N05).
const SAME_CALLS: usize = 6;
/// Denied calls without progress between them (design §6, "denied writes"; the number is that of the failures).
const DENIALS: usize = 5;
/// Calls without progress, and … (ours: a long look around takes fewer; recovery §10.4 has 5 to 20 minutes).
const IDLE_CALLS: u32 = 60;
/// … the time that goes with them. Both have to be reached: a build of an hour is one call.
const IDLE_TIME: Duration = Duration::from_mins(20);

/// Calls remembered of a thread: enough for the longest pattern.
const REMEMBERED: usize = LONGEST_PATTERN * PATTERN_TIMES;
/// Threads watched at the same time; of more the one that was quiet longest is forgotten.
const THREADS: usize = 64;
/// Calls under way at the same time.
const PENDING: usize = 128;
/// Inputs of writes remembered; what is written again after more than that counts as new.
const WRITTEN: usize = 4096;
/// Test commands remembered, and outcomes of each. With more outcomes none is new any more: such a test says
/// something else every time.
const TESTS: usize = 64;
const TEST_OUTCOMES: usize = 16;
/// Lines of evidence, and their length in characters.
const EVIDENCE: usize = 6;
const LINE: usize = 200;

/// A thread that goes round in circles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// By which sign.
    pub kind: Kind,
    /// What repeats itself, in words.
    pub why: String,
    /// The calls, one a line, and what the model said last.
    pub evidence: Vec<String>,
}

/// The signs of a circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Denied calls and nothing that worked.
    Denials,
    /// The same call with the same failure.
    SameFailure,
    /// A pattern of calls that repeats itself.
    Pattern,
    /// Many calls over a long time, and nothing changed.
    NoProgress,
}

/// A finished call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Done {
    /// Tool, input and outcome.
    symbol: (u64, u64),
    is_error: bool,
    /// The call in words.
    what: String,
    /// First line of its outcome.
    words: String,
}

/// The main conversation, or a sub-agent.
#[derive(Debug, Default)]
struct Thread {
    /// The call that started the sub-agent; `None` = the main conversation.
    agent: Option<String>,
    done: VecDeque<Done>,
    denied: Vec<String>,
    calls: u32,
    /// When the first of `calls` ended.
    since: Option<Duration>,
    /// Of the last event, to find the quietest thread.
    turn: u64,
}

impl Thread {
    fn progressed(&mut self) {
        self.done.clear();
        self.denied.clear();
        self.idle_from_here();
    }

    fn idle_from_here(&mut self) {
        (self.calls, self.since) = (0, None);
    }
}

/// A call under way.
#[derive(Debug)]
struct Pending {
    id: Option<String>,
    agent: Option<String>,
    tool: String,
    what: String,
    input: u64,
    deeds: Deeds,
    denied: bool,
}

/// The outcomes that the runs of one test had.
#[derive(Debug)]
struct TestRuns {
    input: u64,
    outcomes: BTreeSet<u64>,
}

/// Watches a session for circles.
#[derive(Debug, Default)]
pub struct Watch {
    /// The session is not to change anything: that it does not is no sign.
    read_only: bool,
    threads: Vec<Thread>,
    pending: VecDeque<Pending>,
    written: BTreeSet<u64>,
    written_order: VecDeque<u64>,
    tests: VecDeque<TestRuns>,
    ticked: u32,
    progress: u64,
    said: String,
    clock: u64,
}

impl Watch {
    /// A watch over a session; `read_only` when it is not to change files.
    #[must_use]
    pub fn new(read_only: bool) -> Self {
        Watch { read_only, ..Watch::default() }
    }

    /// Calls that brought something about, so far.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Another attempt begins: its calls are looked at on their own. What was written and tested stays known.
    pub fn begin_attempt(&mut self) {
        self.threads.clear();
        self.pending.clear();
        self.said.clear();
    }

    /// The machine slept: that time is not time without progress.
    pub fn slept(&mut self, asleep: Duration) {
        for thread in &mut self.threads {
            thread.since = thread.since.map(|since| since + asleep);
        }
    }

    /// Takes a fact in.
    pub fn observe(&mut self, now: Now, fact: &Fact) -> Option<Stuck> {
        match fact {
            Fact::ToolStarted { name, summary, call, .. } => {
                self.started(name, summary, call);
                None
            }
            Fact::ToolEnded { is_error, outcome, .. } => self.ended(now, *is_error, outcome),
            Fact::Denied { tool, id } => self.denied(now, tool, id.as_deref()),
            Fact::Text { text, sub_agent: false } => {
                self.said = line(text);
                None
            }
            Fact::Text { sub_agent: true, .. }
            | Fact::Initialised(_)
            | Fact::Usage { .. }
            | Fact::ApiRetry(_)
            | Fact::RateLimit(_)
            | Fact::ApiError { .. }
            | Fact::TaskStarted { .. }
            | Fact::TaskEnded { .. }
            | Fact::Result(_)
            | Fact::Anomaly { .. }
            | Fact::Asked(_)
            | Fact::Heartbeat => None,
        }
    }

    fn started(&mut self, tool: &str, summary: &str, call: &Call) {
        if self.pending.len() >= PENDING {
            self.pending.pop_front();
        }
        let what = if summary.is_empty() { tool.to_owned() } else { format!("{tool}: {summary}") };
        self.pending.push_back(Pending {
            id: call.id.clone(),
            agent: call.agent.clone(),
            tool: tool.to_owned(),
            what: line(&what),
            input: call::combine(call::hash(tool), call.input),
            deeds: call.deeds,
            denied: false,
        });
    }

    fn ended(&mut self, now: Now, is_error: bool, outcome: &Outcome) -> Option<Stuck> {
        // An old CLI without ids: results come in the order of the calls.
        let at = self.pending.iter().position(|call| match (&call.id, &outcome.id) {
            (Some(started), Some(ended)) => started == ended,
            (None, _) | (_, None) => call.agent == outcome.agent,
        })?;
        let call = self.pending.remove(at)?;
        let denied = call.denied || outcome.denied;
        if !denied && self.brought_about(&call, is_error, outcome) {
            self.progress += 1;
            self.thread(call.agent.as_deref()).progressed();
            // Who directs sub-agents gets on with them.
            self.thread(None).idle_from_here();
            return None;
        }
        let done = Done {
            symbol: (call.input, call::combine(outcome.hash, u64::from(is_error))),
            is_error,
            what: call.what,
            words: line(&outcome.words),
        };
        self.idle(now, call.agent.as_deref(), done, denied)
    }

    fn denied(&mut self, now: Now, tool: &str, id: Option<&str>) -> Option<Stuck> {
        let known = self.pending.iter_mut().find(|call| match (&call.id, id) {
            (Some(started), Some(denied)) => started == denied,
            (None, _) | (_, None) => call.tool == tool && !call.denied,
        });
        if let Some(call) = known {
            // Counted when it ends.
            call.denied = true;
            return None;
        }
        let symbol = (call::hash(tool), call::hash("denied"));
        let done = Done { symbol, is_error: true, what: line(tool), words: "denied".to_owned() };
        self.idle(now, None, done, true)
    }

    /// Whether a call that is over changed something.
    fn brought_about(&mut self, call: &Pending, is_error: bool, outcome: &Outcome) -> bool {
        let Deeds { changes, commits, tests, ticked } = call.deeds;
        let mut progress = commits && !is_error && !outcome.nothing_to_commit;
        // A change that is tested in the same command stands, whatever the test says.
        if changes && (!is_error || tests) {
            progress |= self.is_new(call.input);
        }
        if tests {
            progress |= self.is_new_outcome(call.input, call::combine(outcome.tested, u64::from(is_error)));
        }
        if ticked > self.ticked && !is_error {
            self.ticked = ticked;
            progress = true;
        }
        progress
    }

    fn is_new(&mut self, input: u64) -> bool {
        if !self.written.insert(input) {
            return false;
        }
        self.written_order.push_back(input);
        if self.written_order.len() > WRITTEN
            && let Some(oldest) = self.written_order.pop_front()
        {
            self.written.remove(&oldest);
        }
        true
    }

    /// Whether a test ended as it never did before. The first time says nothing changed.
    fn is_new_outcome(&mut self, input: u64, outcome: u64) -> bool {
        let Some(runs) = self.tests.iter_mut().find(|runs| runs.input == input) else {
            if self.tests.len() >= TESTS {
                self.tests.pop_front();
            }
            self.tests.push_back(TestRuns { input, outcomes: BTreeSet::from([outcome]) });
            return false;
        };
        runs.outcomes.len() < TEST_OUTCOMES && runs.outcomes.insert(outcome)
    }

    /// A call brought nothing about.
    fn idle(&mut self, now: Now, agent: Option<&str>, done: Done, denied: bool) -> Option<Stuck> {
        let (read_only, said) = (self.read_only, self.said.clone());
        let thread = self.thread(agent);
        thread.calls += 1;
        let since = *thread.since.get_or_insert(now.mono);
        if denied {
            thread.denied.push(done.what.clone());
        }
        if thread.done.len() >= REMEMBERED {
            thread.done.pop_front();
        }
        thread.done.push_back(done);
        let idle = now.mono.saturating_sub(since);
        let (kind, why, calls) = sign(thread, idle, read_only)?;
        let why = if agent.is_some() { format!("a sub-agent: {why}") } else { why };
        thread.progressed();
        let mut evidence = calls;
        evidence.dedup();
        evidence.truncate(EVIDENCE);
        if !said.is_empty() {
            evidence.push(format!("its last words: {said}"));
        }
        Some(Stuck { kind, why, evidence })
    }

    fn thread(&mut self, agent: Option<&str>) -> &mut Thread {
        self.clock += 1;
        let clock = self.clock;
        let known = self.threads.iter().position(|thread| thread.agent.as_deref() == agent);
        let at = known.unwrap_or_else(|| self.new_thread(agent));
        let thread = &mut self.threads[at];
        thread.turn = clock;
        thread
    }

    fn new_thread(&mut self, agent: Option<&str>) -> usize {
        if self.threads.len() >= THREADS {
            let quietest = self.threads.iter().enumerate().min_by_key(|(_, thread)| thread.turn);
            if let Some(at) = quietest.map(|(at, _)| at) {
                self.threads.swap_remove(at);
            }
        }
        self.threads.push(Thread { agent: agent.map(str::to_owned), ..Thread::default() });
        self.threads.len() - 1
    }
}

/// The strongest sign that a thread shows: in words, with the calls that make it.
fn sign(thread: &Thread, idle: Duration, read_only: bool) -> Option<(Kind, String, Vec<String>)> {
    let done = &thread.done;
    if thread.denied.len() >= DENIALS {
        let mut calls: Vec<String> = Vec::new();
        for call in &thread.denied {
            let words = format!("{call} → denied");
            if !calls.contains(&words) {
                calls.push(words);
            }
        }
        let why = format!("{} tool calls were denied and nothing got done between them", thread.denied.len());
        return Some((Kind::Denials, why, calls));
    }
    let last = done.back()?;
    if last.is_error && in_a_row(done) >= SAME_FAILURES {
        let why = format!("`{}` failed {SAME_FAILURES} times in a row in the same way", last.what);
        return Some((Kind::SameFailure, why, vec![words(last)]));
    }
    if !last.is_error && in_a_row(done) >= SAME_CALLS {
        let why = format!("`{}` came {SAME_CALLS} times in a row with the same outcome", last.what);
        return Some((Kind::Pattern, why, vec![words(last)]));
    }
    if let Some(length) = pattern(done) {
        let round: Vec<&Done> = done.iter().skip(done.len() - length).collect();
        let why = format!(
            "the same {length} tool calls came {PATTERN_TIMES} times with the same outcomes: {}",
            round.iter().map(|done| format!("`{}`", done.what)).collect::<Vec<_>>().join(", ")
        );
        return Some((Kind::Pattern, why, round.iter().map(|done| words(done)).collect()));
    }
    if !read_only && thread.calls >= IDLE_CALLS && idle >= IDLE_TIME {
        let why = format!(
            "{} tool calls in {} min changed nothing: no file, no commit, no task, no outcome of a test",
            thread.calls,
            idle.as_secs() / 60
        );
        return Some((Kind::NoProgress, why, done.iter().rev().map(words).collect()));
    }
    None
}

/// How often the last call came in a row.
fn in_a_row(done: &VecDeque<Done>) -> usize {
    let Some(last) = done.back() else { return 0 };
    done.iter().rev().take_while(|other| other.symbol == last.symbol).count()
}

/// The length of the shortest pattern, of two calls or more, that fills the end of the list.
fn pattern(done: &VecDeque<Done>) -> Option<usize> {
    (2..=LONGEST_PATTERN).find(|length| {
        let span = length * PATTERN_TIMES;
        let Some(from) = done.len().checked_sub(span) else { return false };
        let varied = done.range(from..from + length).any(|other| other.symbol != done[from].symbol);
        varied && (from + length..done.len()).all(|at| done[at].symbol == done[at - length].symbol)
    })
}

fn words(done: &Done) -> String {
    let outcome = if done.is_error { "failed" } else { "ok" };
    if done.words.is_empty() {
        format!("{} → {outcome}", done.what)
    } else {
        format!("{} → {outcome}: {}", done.what, done.words)
    }
}

/// The first line with something in it, bounded.
fn line(text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut short: String = first.chars().take(LINE).collect();
    if short.len() < first.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
