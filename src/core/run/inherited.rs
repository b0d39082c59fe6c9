//! What a run had come to when it was cut off, read from its journal: what `resume` goes on with.
//!
//! Counters are taken over, not begun anew: what fails over and over gets no new heals, no new budget and no
//! second attempt number by being resumed over and over (recovery §4.2).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::OpenLimit;
use crate::core::ledger::Spend;
use crate::core::outcome::Class;
use crate::core::published::{Entry, RunEvent};
use crate::core::recovery::{HEALTHY, is_poison};

/// What a run had come to when it was cut off, and goes on with (`resume`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inherited {
    /// Conversation that was under way, if any: it goes on first.
    pub session_id: Option<String>,
    /// A session already reported the work complete.
    pub work_done: bool,
    /// Heals of the run that were used up before it was cut off, without a healthy stretch since.
    pub heals: u32,
    /// The usage limit that conversation was waiting for.
    pub limit: Option<OpenLimit>,
    /// Completed iterations.
    pub iterations: u32,
    /// Conversations so far, in order.
    pub sessions: Vec<String>,
    /// Number of the last attempt.
    pub attempts: u32,
    /// What was used.
    pub spend: Spend,
    /// Last running totals of its conversations.
    pub conversations: BTreeMap<String, Spend>,
    /// Time it was at work, asleep on usage limits included; not what lies between two parts.
    pub elapsed: Duration,
    /// Time of it asleep on usage limits.
    pub limit_wait: Duration,
    /// Sessions that ended by a stall.
    pub stalls: u32,
    /// Resource tier at the start.
    pub verdict_at_start: Option<String>,
    /// When a poisoned conversation was left last.
    pub left_at: Option<Timestamp>,
    /// Causes for which the session under way has left a conversation.
    pub left_for: Vec<Class>,
}

impl Inherited {
    /// Reads it from the journal of the run, complete or not. `verify` says whether a session's claim needs a
    /// passed `--verify` to count.
    #[must_use]
    pub fn from_journal(entries: &[Entry], verify: bool) -> Self {
        let mut reading = Reading { verify, ..Reading::default() };
        for entry in entries {
            reading.take_in(entry);
        }
        reading.found
    }
}

#[derive(Default)]
struct Reading {
    verify: bool,
    found: Inherited,
    /// The session under way or the last one.
    session: Option<String>,
    /// Time at work before the part that is being read, and when that began.
    before: Duration,
    part: Option<Timestamp>,
}

impl Reading {
    fn take_in(&mut self, entry: &Entry) {
        let found = &mut self.found;
        let part = *self.part.get_or_insert(entry.at);
        // A wall clock that was set back makes no time.
        let so_far = Duration::try_from(entry.at.duration_since(part)).unwrap_or_default();
        found.elapsed = found.elapsed.max(self.before + so_far);
        match &entry.event {
            RunEvent::RunResumed { seconds, .. } => {
                self.before = Duration::try_from_secs_f64(*seconds).unwrap_or_default();
                self.part = Some(entry.at);
                found.elapsed = self.before;
            }
            RunEvent::ResourcesJudged { tier, .. } => {
                found.verdict_at_start.get_or_insert_with(|| tier.clone());
            }
            // The id may change within a session: the last one that was used counts.
            RunEvent::AttemptStarted { attempt, session_id, .. } => {
                found.attempts = found.attempts.max(*attempt);
                found.session_id = Some(session_id.clone());
                found.limit = None;
                if !found.sessions.contains(session_id) {
                    found.sessions.push(session_id.clone());
                }
            }
            RunEvent::AttemptEnded { seconds, longest_gap_seconds, .. }
                if seconds - longest_gap_seconds >= HEALTHY.as_secs_f64() =>
            {
                found.heals = 0;
            }
            RunEvent::Accounted {
                session_id,
                tokens,
                cost_usd,
                conversation_tokens,
                conversation_cost_usd,
            } => {
                found.spend = Spend { tokens: *tokens, cost_usd: *cost_usd };
                let total = Spend { tokens: *conversation_tokens, cost_usd: *conversation_cost_usd };
                found.conversations.insert(session_id.clone(), total);
            }
            RunEvent::ConversationLeft { class, .. } => {
                found.left_for.push(*class);
                if is_poison(*class) {
                    found.left_at = Some(entry.at);
                }
            }
            RunEvent::Healed { run_heal: Some(number), .. } => found.heals = *number,
            RunEvent::LimitWait { window, until, source, why } => {
                // A run that took up a wait, and ended before it asked anything.
                if found.session_id.is_none() {
                    found.session_id.clone_from(&self.session);
                }
                found.limit = Some(OpenLimit {
                    window: window.clone(),
                    until: *until,
                    source: *source,
                    why: why.clone(),
                });
            }
            RunEvent::LimitWaitOver { waited_seconds } => {
                found.limit = None;
                found.limit_wait += Duration::from_secs(*waited_seconds);
            }
            // A person who ended the wait at the keyboard, and now asks to go on, knows better than a plan made
            // before: it asks at once. A shutdown (SIGTERM, SIGHUP) or a death says nothing about the limit.
            RunEvent::StopRequested { by, .. } if by == "SIGINT" => found.limit = None,
            RunEvent::SessionStarted { session_id, .. } => self.session = Some(session_id.clone()),
            RunEvent::SessionEnded { completed, class, status, verification, .. } => {
                found.stalls += u32::from(*class == Class::Stalled);
                if *completed {
                    (found.session_id, found.limit, found.heals) = (None, None, 0);
                    found.left_for.clear();
                    found.iterations += 1;
                    // A claim that `--verify` contradicts, or had no time to look at, leaves work.
                    found.work_done |= matches!(status.as_deref(), Some("complete" | "nothing_to_do"))
                        && verification.as_ref().map_or(!self.verify, |verification| verification.passed);
                }
            }
            _ => {}
        }
    }
}
