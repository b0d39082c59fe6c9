//! Grace for living peers: a Claude session that is at work in the same working tree is neither interrupted
//! nor raced. Before every session the run waits for it to end, and looks again and again; when the grace is
//! over the run ends without a switch and names it (exit code 5).
//!
//! The wait counts towards `--max-hours`, and a stop of the operator ends it at once. Time asleep is given back
//! to the grace: nobody could end a session meanwhile (field-reports L01).

use std::time::Duration;

use super::{Run, State, switches_checked};
use crate::core::event::Effects;
use crate::core::published::{PeerSession, RunEvent, peer_words};
use crate::core::time::{Now, TimerId, TimerKind};

/// Pause between two looks.
const POLL: Duration = Duration::from_secs(5);
/// Shortest pause, so that a look at the very end of the grace is not followed by another in the same moment.
const LEAST_POLL: Duration = Duration::from_millis(100);

/// A wait for others to end.
#[derive(Debug)]
pub(super) struct PeerWait {
    iteration: u32,
    since: Now,
    /// When the grace is over, on the monotonic clock.
    until: Duration,
    epoch: u64,
    /// The processes that were named last; empty = nobody was, or not with the end that holds now.
    told: Vec<u32>,
}

impl Run {
    /// Whether the answer to the look for peers has come.
    pub(super) fn peers_known(&self) -> bool {
        matches!(&self.state, State::Looking(looking) if looking.here.is_some())
    }

    /// The check before a session: whether it may not begin now, because others work here.
    pub(super) fn held_by_peers(&mut self, now: Now, iteration: u32, effects: &mut Effects) -> bool {
        let State::Looking(looking) = &mut self.state else { return false };
        let here = looking.here.take().unwrap_or_default();
        if here.is_empty() {
            return false;
        }
        if self.limits.allow_peers {
            if !self.told_of_peers {
                self.told_of_peers = true;
                let text = format!("{} at work in this repository, too (--allow-peers)", are(&here));
                effects.publish(RunEvent::Warning { text });
            }
            return false;
        }
        if self.limits.peer_grace.is_zero() {
            self.finish_for_peers(now, Duration::ZERO, here, effects);
            return true;
        }
        self.state = State::Waiting(PeerWait {
            iteration,
            since: now,
            until: now.mono.saturating_add(self.limits.peer_grace),
            epoch: self.books.next_epoch(),
            told: Vec::new(),
        });
        self.wait_on(now, here, effects);
        true
    }

    /// Takes in who works here, asked for before a session or during a wait.
    pub(super) fn peers_seen(&mut self, now: Now, here: Vec<PeerSession>, effects: &mut Effects) {
        match &mut self.state {
            State::Looking(looking) => {
                looking.here = Some(here);
                self.looked(now, effects);
            }
            State::Waiting(wait) => {
                let (since, until) = (wait.since, wait.until);
                if here.is_empty() {
                    effects.publish(RunEvent::PeerGone { waited_seconds: now.since(since).as_secs() });
                    self.look(effects);
                } else if self.elapsed(now) >= self.limits.max_time() {
                    // The switch has to say it, with everything it goes by.
                    self.look(effects);
                } else if now.mono >= until {
                    self.finish_for_peers(now, now.since(since), here, effects);
                } else {
                    self.wait_on(now, here, effects);
                }
            }
            State::Idle | State::InSession(_) | State::Done => {}
        }
    }

    /// Whether the timer is the one of the wait that goes on.
    pub(super) fn is_peer_poll(&self, timer: TimerId) -> bool {
        matches!(&self.state, State::Waiting(wait)
            if timer.kind == TimerKind::PeerPoll && timer.epoch == wait.epoch)
    }

    /// The machine slept: its sleep is no part of the grace.
    pub(super) fn lengthen_peer_grace(&mut self, asleep: Duration) {
        if let State::Waiting(wait) = &mut self.state {
            wait.until = wait.until.saturating_add(asleep);
            wait.told.clear();
        }
    }

    /// A stop was asked for: nobody waits for peers any more.
    pub(super) fn stop_waiting(&mut self, now: Now, effects: &mut Effects) {
        let State::Waiting(wait) = &self.state else { return };
        let iteration = wait.iteration;
        if self.journal_failure.is_some() {
            self.finish_unwritable(now, effects);
            return;
        }
        let fired = self.aborted("AbortSignal triggered before iteration");
        effects.publish(switches_checked(
            iteration,
            "before",
            self.inputs(now, String::new(), None),
            fired.as_ref(),
        ));
        self.finish(now, fired, None, effects);
    }

    /// Names who is waited for, if that is news, and looks again a little later.
    fn wait_on(&mut self, now: Now, here: Vec<PeerSession>, effects: &mut Effects) {
        let hours_left = self.limits.max_time().saturating_sub(self.elapsed(now));
        let State::Waiting(wait) = &mut self.state else { return };
        let left = wait.until.saturating_sub(now.mono).min(hours_left);
        effects.arm(TimerKind::PeerPoll, wait.epoch, POLL.min(left).max(LEAST_POLL));
        let pids: Vec<u32> = here.iter().map(|peer| peer.pid).collect();
        if wait.told != pids {
            wait.told = pids;
            effects.publish(RunEvent::PeerWait {
                iteration: wait.iteration,
                peers: here,
                until: now.wall.checked_add(left).unwrap_or(now.wall),
                at_most_seconds: left.as_secs(),
            });
        }
    }

    /// The grace is over and they are still there.
    fn finish_for_peers(
        &mut self,
        now: Now,
        waited: Duration,
        here: Vec<PeerSession>,
        effects: &mut Effects,
    ) {
        let mut end = self.end(now);
        let who = are(&here);
        end.detail = Some(match waited.as_secs() {
            0 => format!("{who} at work in this repository"),
            seconds => format!("{who} still at work in this repository after {seconds} s of waiting"),
        });
        end.peers = here;
        self.close(end, effects);
    }
}

/// `the Claude session 12 (started 3 min ago) is`.
fn are(peers: &[PeerSession]) -> String {
    format!("{} {}", peer_words(peers), if peers.len() == 1 { "is" } else { "are" })
}
