//! The wave cap, enforced: how many sub-agents may run at once, and who is told no (design §7).
//!
//! Before a sub-agent starts, the CLI asks. What was let through and has not begun counts as running: the calls of one
//! message are asked about before the first of them begins.
//!
//! The cap follows the machine while a session runs: a worse tier counts at once, a better one only when it has been
//! better for [`STEADY`]. Otherwise a machine on the border between two tiers would let a wave in with each swing.
//!
//! Invariants
//! - What runs is counted per process: a process that is gone took its sub-agents along. The totals are those of the
//!   session, over all its processes.
//! - A call that came to nothing (another rule refused it) gives its place back when its result comes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::resources::{ResourceVerdict, Tier};

/// A reading older than this is taken again before a sub-agent is let in (field-reports J09).
pub const FRESH: Duration = Duration::from_secs(5);

/// How long a machine has to have been better before the cap rises.
pub const STEADY: Duration = Duration::from_mins(1);

/// Tools that start a sub-agent: `Agent` on the wire, `Task` in older versions (claude-code §5).
pub const AGENT_TOOLS: [&str; 2] = ["Agent", "Task"];

/// What became of the sub-agents that a session wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaveTotals {
    /// Calls that would have started one.
    pub asked: u32,
    /// Sub-agents that began.
    pub started: u32,
    /// Calls refused because of the cap.
    pub denied: u32,
    /// Most that ran at once.
    pub peak: u32,
}

impl WaveTotals {
    /// Whether any were wanted or ran.
    #[must_use]
    pub fn any(&self) -> bool {
        self.asked > 0 || self.started > 0
    }
}

/// How many sub-agents may run at once now, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cap {
    /// So many.
    pub cap: u32,
    /// The tier it belongs to.
    pub tier: Tier,
    /// The reading that decided, in words; `None` when none did.
    pub why: Option<String>,
    /// When the machine was last looked at, on the monotonic clock.
    looked: Option<Duration>,
    /// Since when every reading was better, on the monotonic clock.
    better_since: Option<Duration>,
}

impl Cap {
    /// The cap a session begins with. The machine is looked at again before the first sub-agent.
    #[must_use]
    pub fn new(cap: u32) -> Self {
        Cap { cap, tier: Tier::Unknown, why: None, looked: None, better_since: None }
    }

    /// Whether the machine has to be looked at before the cap may be used.
    #[must_use]
    pub fn is_stale(&self, now: Duration) -> bool {
        self.looked.is_none_or(|looked| now.saturating_sub(looked) > FRESH)
    }

    /// Takes a reading in; whether the cap changed.
    pub fn look(&mut self, now: Duration, verdict: &ResourceVerdict) -> bool {
        let first = self.looked.replace(now).is_none();
        // A reading that failed says nothing, and nothing is made up for it.
        if verdict.tier == Tier::Unknown {
            self.better_since = None;
            return false;
        }
        if !first && verdict.cap > self.cap {
            let since = *self.better_since.get_or_insert(now);
            if now.saturating_sub(since) < STEADY {
                return false;
            }
        }
        self.better_since = None;
        let changed = verdict.cap != self.cap;
        self.cap = verdict.cap;
        self.tier = verdict.tier;
        self.why = verdict
            .deciding
            .filter(|_| verdict.tier > Tier::Green)
            .map(|deciding| format!("{} {}", deciding.signal, deciding.value_words()));
        changed
    }

    fn machine(&self) -> String {
        match &self.why {
            Some(why) => format!("the machine is {} ({why})", self.tier),
            None => "that is the limit of this run".to_owned(),
        }
    }
}

/// The sub-agents of a session.
#[derive(Debug, Default)]
pub struct Wave {
    /// Tasks that run now, with the call that started them, if known.
    running: BTreeMap<String, Option<String>>,
    /// Calls let through that have not begun.
    let_through: BTreeSet<String>,
    totals: WaveTotals,
}

impl Wave {
    /// So far.
    #[must_use]
    pub fn totals(&self) -> WaveTotals {
        self.totals
    }

    /// Sub-agents that run or are about to.
    #[must_use]
    pub fn live(&self) -> u32 {
        u32::try_from(self.running.len() + self.let_through.len()).unwrap_or(u32::MAX)
    }

    /// Another process begins: none of the last one's sub-agents is left.
    pub fn begin_attempt(&mut self) {
        self.running.clear();
        self.let_through.clear();
    }

    /// A call wants to start a sub-agent. `Err` carries what the model is told: why not, and what to do instead.
    pub fn ask(&mut self, call: &str, cap: &Cap) -> Result<(), String> {
        // The same call asked about twice has one place.
        if self.let_through.contains(call) {
            return Ok(());
        }
        self.totals.asked += 1;
        let live = self.live();
        if live < cap.cap {
            self.let_through.insert(call.to_owned());
            return Ok(());
        }
        self.totals.denied += 1;
        let machine = cap.machine();
        Err(if cap.cap == 0 {
            format!(
                "no sub-agent may be started now: {machine}. Do this work yourself, in this session, one step at a time"
            )
        } else {
            let runs = if live == 1 { "1 runs".to_owned() } else { format!("{live} run") };
            format!(
                "at most {} sub-agent(s) may run at once: {machine}; {runs} now. Wait until one has ended and ask again, or do this part yourself",
                cap.cap
            )
        })
    }

    /// The CLI says that a task began. Shells are no sub-agents.
    pub fn task_started(&mut self, id: &str, agent: bool, call: Option<&str>) {
        if !agent || self.running.contains_key(id) {
            return;
        }
        if let Some(call) = call {
            self.let_through.remove(call);
        } else {
            // An old CLI does not say which call it was: one place is used up.
            self.let_through.pop_first();
        }
        self.running.insert(id.to_owned(), call.map(str::to_owned));
        self.began();
    }

    /// The CLI says that a task ended.
    pub fn task_ended(&mut self, id: &str) {
        self.running.remove(id);
    }

    /// The result of a call came. One that was let through and never announced is over with it.
    pub fn call_ended(&mut self, call: &str, is_error: bool) {
        if self.let_through.contains(call) {
            if !is_error {
                self.began();
            }
            self.let_through.remove(call);
        }
    }

    fn began(&mut self) {
        self.totals.started += 1;
        let running = u32::try_from(self.running.len()).unwrap_or(u32::MAX).max(1);
        self.totals.peak = self.totals.peak.max(running);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::resources::{GB, Reading, Sample, judge};

    fn verdict(available_gb: u64) -> ResourceVerdict {
        judge(&Sample { host_available: Reading::Value(available_gb * GB), ..Sample::default() }, 8)
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn one_message_with_many_calls_gets_as_many_as_there_are_places() {
        let mut cap = Cap::new(8);
        cap.look(at(0), &verdict(3));
        let mut wave = Wave::default();
        let answers: Vec<bool> =
            ["a", "b", "c", "d"].iter().map(|call| wave.ask(call, &cap).is_ok()).collect();
        assert_eq!(answers, [true, true, false, false]);
        // Announced, asked about again, ended: the places come back one by one.
        wave.task_started("t1", true, Some("a"));
        wave.task_started("t1", true, Some("a"));
        wave.task_started("sh", false, None);
        wave.task_started("t2", true, Some("b"));
        assert_eq!((wave.live(), wave.ask("e", &cap).is_ok()), (2, false));
        wave.call_ended("a", false);
        assert_eq!(wave.live(), 2, "in the background it runs on after its call returned");
        wave.task_ended("t1");
        assert_eq!(wave.ask("e", &cap), Ok(()));
        assert_eq!(wave.ask("e", &cap), Ok(()));
        assert_eq!(wave.totals(), WaveTotals { asked: 6, started: 2, denied: 3, peak: 2 });
    }

    #[test]
    fn a_call_that_comes_to_nothing_gives_its_place_back() {
        let cap = Cap::new(1);
        let mut wave = Wave::default();
        assert_eq!(wave.ask("a", &cap), Ok(()));
        wave.call_ended("other", true);
        assert!(wave.ask("b", &cap).is_err());
        wave.call_ended("a", true);
        assert_eq!(wave.ask("b", &cap), Ok(()));
        // A CLI that announces no tasks: the call is the sub-agent.
        wave.call_ended("b", false);
        assert_eq!((wave.live(), wave.totals().started, wave.totals().peak), (0, 1, 1));
        // A process that is gone took its sub-agents along; the totals stay.
        wave.ask("c", &cap).unwrap();
        wave.task_started("t", true, None);
        wave.begin_attempt();
        assert_eq!((wave.live(), wave.totals().asked), (0, 4));
    }

    #[test]
    fn the_words_say_what_to_do() {
        let mut cap = Cap::new(8);
        cap.look(at(0), &verdict(1));
        let words = Wave::default().ask("a", &cap).unwrap_err();
        assert_eq!(
            words,
            "no sub-agent may be started now: the machine is critical (memory available 1.0 GB). Do this work \
             yourself, in this session, one step at a time"
        );
        let mut wave = Wave::default();
        let cap = Cap::new(1);
        wave.ask("a", &cap).unwrap();
        assert_eq!(
            wave.ask("b", &cap).unwrap_err(),
            "at most 1 sub-agent(s) may run at once: that is the limit of this run; 1 runs now. Wait until one \
             has ended and ask again, or do this part yourself"
        );
    }

    #[test]
    fn the_cap_falls_at_once_and_rises_when_it_has_been_better_for_a_while() {
        // (seconds, GB available; 0 = unreadable) → cap
        let readings = [
            (0, 8, 8),
            (10, 3, 2),
            (20, 8, 2),
            (79, 8, 2),
            (80, 8, 8),
            (90, 5, 4),
            (100, 8, 4),
            (110, 3, 2),
            (120, 8, 2),
            (170, 0, 2),
            (185, 8, 2),
            (246, 5, 4),
            (300, 1, 0),
        ];
        let mut cap = Cap::new(8);
        assert!(cap.is_stale(at(0)));
        for (seconds, gb, expected) in readings {
            let verdict = if gb == 0 { judge(&Sample::default(), 8) } else { verdict(gb) };
            let before = cap.cap;
            let changed = cap.look(at(seconds), &verdict);
            assert_eq!((cap.cap, changed), (expected, before != expected), "at {seconds} s with {gb} GB");
            assert!(!cap.is_stale(at(seconds) + FRESH) && cap.is_stale(at(seconds + 6)));
        }
    }
}
