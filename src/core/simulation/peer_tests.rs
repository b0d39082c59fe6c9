//! Other Claude sessions at work in the same tree: waited for, and never raced.

use super::script::done;
use super::*;

use KillSwitch::{FailedWave, MaxHoursExceeded, MaxSessionsReached, UserAbort};

impl World {
    /// Somebody else's Claude session works here for so long, in seconds from the start.
    fn other(mut self, pid: u32, from: u64, until: u64) -> Self {
        self.others.push((pid, secs(from), secs(until)));
        self
    }

    /// Who works here now.
    pub(super) fn peers_here(&self) -> Vec<PeerSession> {
        let now = self.now.mono.saturating_sub(start_of_world().mono);
        self.others
            .iter()
            .filter(|(_, from, until)| *from <= now && now < *until)
            .map(|(pid, from, _)| PeerSession { pid: *pid, age_seconds: now.saturating_sub(*from).as_secs() })
            .collect()
    }

    /// The waits as they were published: iteration, processes, seconds at most.
    fn waits(&self) -> Vec<(u32, Vec<u32>, u64)> {
        let waits = self.published.iter().filter_map(|event| match event {
            RunEvent::PeerWait { iteration, peers, at_most_seconds, .. } => {
                Some((*iteration, peers.iter().map(|peer| peer.pid).collect(), *at_most_seconds))
            }
            _ => None,
        });
        waits.collect()
    }

    /// How long it was waited each time.
    fn waited(&self) -> Vec<u64> {
        let waited = self.published.iter().filter_map(|event| match event {
            RunEvent::PeerGone { waited_seconds } => Some(*waited_seconds),
            _ => None,
        });
        waited.collect()
    }

    fn looks(&self) -> usize {
        self.published.iter().filter(|event| matches!(event, RunEvent::ResourcesJudged { .. })).count()
    }

    fn warnings(&self) -> Vec<&str> {
        let warnings = self.published.iter().filter_map(|event| match event {
            RunEvent::Warning { text } => Some(text.as_str()),
            _ => None,
        });
        warnings.collect()
    }
}

fn sessions(max_sessions: u32) -> Limits {
    Limits { max_sessions, ..limits() }
}

/// Held up to its end by others: no switch, their process in the words.
#[track_caller]
fn held(world: &World, pids: &[u32], iterations: u32, words: &str) {
    world.ended(None, iterations, words);
    let end = world.end();
    assert_eq!(end.peers.iter().map(|peer| peer.pid).collect::<Vec<_>>(), pids);
    assert!(!end.fallback_to_manual && !end.needs_person && end.failure_class.is_none());
    assert_eq!(end.iterations as usize, world.launches.len());
}

#[test]
fn a_peer_that_ends_in_time_is_waited_for() {
    let world = World::new(limits()).other(77, 0, 12).play();
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(world.waits(), [(1, vec![77], 300)]);
    assert_eq!(world.waited(), [15], "looked at every five seconds");
    assert_eq!(world.looks(), 3, "before the wait, after it, and after the session: each look is fresh");
    assert_eq!(world.elapsed(), 25);
    assert!(world.end().peers.is_empty());
}

#[test]
fn nobody_is_waited_for_who_is_not_there() {
    let world = World::new(sessions(2)).other(77, 5, 9).play();
    world.ended(Some(MaxSessionsReached), 2, "");
    assert_eq!((world.waits(), world.waited()), (vec![], vec![]));
}

#[test]
fn every_session_is_preceded_by_a_look() {
    // It comes while the first session runs, which is let finish; the second one waits.
    let world = World::new(sessions(2)).other(77, 3, 40).play();
    world.ended(Some(MaxSessionsReached), 2, "");
    assert_eq!(world.waits(), [(2, vec![77], 300)]);
    assert_eq!(world.waited(), [30]);
    // It stays: the first session counts.
    let world = World::new(sessions(2)).other(77, 3, 4000).play();
    held(&world, &[77], 1, "the Claude session 77 (started 5 min ago) is still at work in this repository");
    assert_eq!(world.elapsed(), 310);
}

#[test]
fn after_the_grace_the_run_ends_and_names_it() {
    let world = World::new(sessions(3)).other(77, 0, 9000).play();
    held(
        &world,
        &[77],
        0,
        "the Claude session 77 (started 5 min ago) is still at work in this repository after 300 s of waiting",
    );
    assert_eq!((world.elapsed(), world.waited()), (300, vec![]));
    // A grace that is no multiple of the pause between looks is kept to the second.
    let world = World::new(Limits { peer_grace: secs(7), ..limits() }).other(77, 0, 9000).play();
    held(&world, &[77], 0, "after 7 s of waiting");
    assert_eq!((world.elapsed(), world.waits()), (7, vec![(1, vec![77], 7)]));
    // Its last moment counts.
    let world = World::new(Limits { peer_grace: secs(7), ..limits() }).other(77, 0, 7).play();
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(world.waited(), [7]);
}

#[test]
fn others_may_take_its_place_within_the_same_grace() {
    let world = World::new(limits()).other(77, 0, 100).other(78, 50, 200).other(79, 190, 9000).play();
    held(&world, &[79], 0, "session 79 (started 1 min ago) is still at work");
    let pids: Vec<_> = world.waits().into_iter().map(|(_, pids, _)| pids).collect();
    assert_eq!(pids, [vec![77], vec![77, 78], vec![78], vec![78, 79], vec![79]]);
    assert_eq!(world.elapsed(), 300);
    // Each wait has a grace of its own.
    let world =
        World::new(Limits { peer_grace: secs(20), ..sessions(2) }).other(77, 0, 18).other(78, 25, 45).play();
    world.ended(Some(MaxSessionsReached), 2, "");
    assert_eq!(world.waits().len(), 2);
}

#[test]
fn no_grace_at_all() {
    let world = World::new(Limits { peer_grace: Duration::ZERO, ..limits() }).other(77, 0, 1).play();
    held(&world, &[77], 0, "the Claude session 77 (started 0 s ago) is at work in this repository");
    assert_eq!((world.elapsed(), world.waits()), (0, vec![]));
    let world = World::new(Limits { peer_grace: Duration::ZERO, ..limits() }).play();
    world.ended(Some(MaxSessionsReached), 1, "");
}

#[test]
fn peers_that_are_allowed_are_said_once() {
    for peer_grace in [secs(0), secs(300)] {
        let limits = Limits { allow_peers: true, peer_grace, ..sessions(3) };
        let world = World::new(limits.clone()).other(77, 0, 9000).play();
        world.ended(Some(MaxSessionsReached), 3, "");
        assert_eq!((world.waits(), world.elapsed()), (vec![], 30));
        assert_eq!(
            world.warnings(),
            ["the Claude session 77 (started 0 s ago) is at work in this repository, too (--allow-peers)"]
        );
        assert_eq!(World::new(limits).play().warnings(), [""; 0]);
    }
}

#[test]
fn a_stop_ends_the_wait_at_once() {
    for level in [StopLevel::Finish, StopLevel::Interrupt, StopLevel::Kill] {
        let world = World::new(limits()).other(77, 0, 9000).stop_at(secs(33), level).play();
        world.ended(Some(UserAbort), 0, "AbortSignal triggered before iteration (SIGINT)");
        assert_eq!((world.elapsed(), world.launches.len()), (33, 0));
        assert!(world.end().peers.is_empty());
        let checks = world.published.iter().filter_map(|event| match event {
            RunEvent::SwitchesChecked { hit, iteration, .. } => Some((*iteration, *hit)),
            _ => None,
        });
        assert_eq!(checks.collect::<Vec<_>>(), [(1, None), (1, Some(UserAbort))]);
    }
    // A switch, and a stop, outrank the peer.
    let world = World::new(limits()).other(77, 0, 9000).stop_at(Duration::ZERO, StopLevel::Finish).play();
    world.ended(Some(UserAbort), 0, "");
    let world = World::new(Limits { max_sessions: 0, ..limits() }).other(77, 0, 9000).play();
    world.ended(Some(MaxSessionsReached), 0, "");
}

#[test]
fn a_journal_that_cannot_be_written_ends_the_wait() {
    let world = World::new(limits())
        .other(77, 0, 9000)
        .at(secs(33), Event::JournalFailed("no space left".to_owned()))
        .play();
    world.ended(Some(FailedWave), 0, "no space left");
    assert_eq!((world.elapsed(), world.end().failure_class), (33, Some(Class::Disk)));
}

#[test]
fn the_wait_counts_towards_the_hours() {
    let limits = Limits { max_hours: 0.5, peer_grace: secs(86_400), ..limits() };
    let world = World::new(limits.clone()).other(77, 0, 90_000).play();
    world.ended(Some(MaxHoursExceeded), 0, "elapsed=0.5h >= max-hours=0.5h");
    assert_eq!(world.elapsed(), 1800);
    assert_eq!(world.waits(), [(1, vec![77], 1799)], "not told to last longer than the run");
    // An odd number of hours, which no clock hits exactly.
    let limits = Limits { max_hours: 0.7, ..limits };
    let world = World::new(limits).other(77, 0, 90_000).play();
    world.ended(Some(MaxHoursExceeded), 0, "");
    assert_eq!(world.elapsed(), 2520);
}

#[test]
fn sleep_of_the_machine_is_no_part_of_the_grace() {
    let world = World::new(limits()).other(77, 0, 3890).suspend_at(secs(100), secs(3600)).play();
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(world.elapsed(), 3890 + 10, "{:?}", world.waited());
    assert_eq!(world.waits(), [(1, vec![77], 300), (1, vec![77], 200)]);
}

#[test]
fn what_comes_late_has_no_effect() {
    // A timer of the wait runs out, and an answer arrives, when the session runs already.
    let late = TimerId { kind: TimerKind::PeerPoll, epoch: 1 };
    let world = World::new(limits())
        .other(77, 0, 12)
        .attempts([done()])
        .at(secs(17), Event::Timer(late))
        .at(secs(18), Event::PeersHere(vec![PeerSession { pid: 77, age_seconds: 1 }]))
        .play();
    world.ended(Some(MaxSessionsReached), 1, "");
    // The other way round: answers of the look that led to the wait.
    let world = World::new(limits())
        .other(77, 0, 12)
        .at(secs(3), Event::Snapshotted)
        .at(secs(3), Event::Surveyed(Box::default()))
        .play();
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(world.waited(), [15]);
}
