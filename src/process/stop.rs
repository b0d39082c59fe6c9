//! Ending a tree: the ladder of signals, and the sweep of what it leaves.
//!
//! # Theory of operation
//!
//! Each rung is a signal and a grace; a grace ends early when the leader was reaped. SIGINT goes to the
//! leader only: it ends its own tools, and leaves a readable transcript. SIGTERM goes to the leader's group
//! and to every member outside it, since Claude Code's tools live in sessions of their own (claude-code §6).
//! SIGKILL goes to everybody, because a leader that gets one cleans up nothing. Then comes the sweep, also
//! after a *normal* exit (field-reports J01, J10): SIGTERM, grace, SIGKILL, until two looks at the process
//! table in a row find nobody, for a member can fork between a look and the signal that follows it.
//!
//! # Invariants
//!
//! * Bounded: the graces, plus at least [`LEAST_KILL_GRACE`] each time SIGKILL was sent. What does not die of
//!   SIGKILL (state D, somebody else's process) is reported, not waited for.
//! * No pipe is read, written or closed here, so whoever drains them may go on; if nobody does, SIGKILL ends
//!   that too.
//! * Cancel-safe: a stop that is dropped halfway may be started again.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::exit::Exit;
use super::id::{ProcessId, is_alive};
use super::signal::{self, SendError, Signal};
use super::spawn::Child;
use super::tree::Tree;

/// Dying of SIGKILL takes a moment on a loaded machine; with less than this, the dying would be called
/// survivors.
pub(super) const LEAST_KILL_GRACE: Duration = Duration::from_millis(500);

/// Longest pause between two looks at the process table while something is ending.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Which signal a stop starts with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FirstStep {
    /// SIGINT to the leader: let it end the turn properly.
    Interrupt,
    /// SIGTERM at once.
    Terminate,
}

/// How a stop proceeds. Graces are seconds rather than milliseconds (field-reports J02).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ladder {
    /// The first rung.
    pub first: FirstStep,
    /// From SIGINT to SIGTERM; unused when the first step is [`FirstStep::Terminate`].
    pub interrupt_grace: Duration,
    /// From SIGTERM to SIGKILL; also the sweep's.
    pub terminate_grace: Duration,
    /// How long after SIGKILL until survivors are given up on; also the sweep's. Half a second at least.
    pub kill_grace: Duration,
}

/// The graces of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Graces {
    /// From SIGTERM to SIGKILL. Zero: no SIGTERM.
    pub terminate: Duration,
    /// How long after SIGKILL until survivors are given up on. Half a second at least.
    pub kill: Duration,
}

/// Whom a signal was sent to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Recipient {
    /// The leader only.
    Leader,
    /// The leader's process group.
    Group,
    /// A member outside that group.
    Member(ProcessId),
}

/// A signal that was delivered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sent {
    /// Which.
    pub signal: Signal,
    /// To whom.
    pub to: Recipient,
}

/// A process that had outlived its leader, or was killed with it, and is gone now.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Swept {
    /// Its pid.
    pub pid: u32,
    /// Its short command name.
    pub comm: String,
    /// The strongest signal it was sent.
    pub signal: Signal,
}

/// Why a process is still there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WhyAlive {
    /// We may not signal it: it runs as another user (`sudo`, set-uid).
    NotPermitted,
    /// It was sent SIGKILL and has not ended: uninterruptible in the kernel (state D).
    Unkillable,
}

/// A process that is alive after SIGKILL.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Survivor {
    /// Pid and start time, for a later try.
    pub id: ProcessId,
    /// Its short command name.
    pub comm: String,
    /// Why.
    pub why: WhyAlive,
}

/// What a sweep did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SweepReport {
    /// What it ended, by pid.
    pub swept: Vec<Swept>,
    /// What it could not end, by pid.
    pub survivors: Vec<Survivor>,
    /// Whether two looks in a row found nobody. False with no survivors: the process table could not be read.
    pub verified: bool,
}

/// What a stop did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StopReport {
    /// The signals of the ladder, in order, before the sweep.
    pub signals: Vec<Sent>,
    /// How the leader ended. `None`: it has not, or its status was lost.
    pub exit: Option<Exit>,
    /// What was ended beside the leader, by pid.
    pub swept: Vec<Swept>,
    /// What could not be ended, by pid.
    pub survivors: Vec<Survivor>,
    /// As in [`SweepReport`].
    pub verified: bool,
}

/// Ends a child and everything it started. Returns as soon as that is done, and in any case after the graces.
///
/// Also right when the child has ended already: then only the sweep is left.
pub async fn stop(child: &mut Child, tree: &mut Tree, ladder: Ladder) -> StopReport {
    let mut signals = Vec::new();
    let mut hits = Hits::default();
    let mut sweep_grace = ladder.terminate_grace;
    look(tree);
    let mut ended = child.wait_at_most(Duration::ZERO).await.is_some();

    if !ended && ladder.first == FirstStep::Interrupt {
        if child.signal(Signal::Interrupt) {
            signals.push(Sent { signal: Signal::Interrupt, to: Recipient::Leader });
        }
        ended = child.wait_at_most(ladder.interrupt_grace).await.is_some();
    }
    if !ended {
        look(tree);
        signals.extend(hits.everybody(child, tree, Signal::Terminate));
        ended = child.wait_at_most(ladder.terminate_grace).await.is_some();
    }
    if !ended {
        look(tree);
        signals.extend(hits.everybody(child, tree, Signal::Kill));
        ended = child.wait_at_most(ladder.kill_grace.max(LEAST_KILL_GRACE)).await.is_some();
        // They have all had their SIGTERM and their time.
        sweep_grace = Duration::ZERO;
    }
    tracing::debug!(leader = %child.id(), ended, exit = ?child.exit(), ?signals, "stopped");

    let report = hits.sweep(tree, Graces { terminate: sweep_grace, kill: ladder.kill_grace }).await;
    let SweepReport { swept, survivors, verified } = report;
    StopReport { signals, exit: child.exit(), swept, survivors, verified }
}

/// Ends what is left of a tree, its leader included: SIGTERM, grace, SIGKILL, until two looks in a row find
/// nobody. Returns at once when nobody is left.
pub async fn sweep(tree: &mut Tree, graces: Graces) -> SweepReport {
    Hits::default().sweep(tree, graces).await
}

/// A look that may fail: then what is remembered has to do, and the sweep's verification reports it.
fn look(tree: &mut Tree) {
    if let Err(error) = tree.observe() {
        tracing::warn!(%error, "the process table cannot be read");
    }
}

/// Who was sent what, over the whole of one stop.
#[derive(Default)]
struct Hits {
    /// Members that may count as swept.
    victims: HashMap<ProcessId, Swept>,
    /// Members that have had their SIGTERM.
    warned: HashSet<ProcessId>,
    /// Members that we may not signal.
    denied: HashSet<ProcessId>,
}

impl Hits {
    /// The leader's group, and each member outside it.
    fn everybody(&mut self, child: &Child, tree: &Tree, signal: Signal) -> Vec<Sent> {
        let mut sent = Vec::new();
        let outside = tree.live_outside_group(child.id().pid);
        if child.signal_group(signal) {
            sent.push(Sent { signal, to: Recipient::Group });
        }
        for (id, comm) in tree.live() {
            let reached = !outside.contains(&id) || self.send(id, signal);
            if outside.contains(&id) && reached {
                sent.push(Sent { signal, to: Recipient::Member(id) });
            }
            if reached && id != child.id() {
                self.note(id, comm, signal);
            }
        }
        sent
    }

    fn send(&mut self, id: ProcessId, signal: Signal) -> bool {
        match signal::send(id, signal) {
            Ok(()) => true,
            Err(SendError::Gone) => false,
            Err(SendError::NotPermitted) => {
                self.denied.insert(id);
                false
            }
            Err(error) => {
                tracing::warn!(%id, %signal, %error, "failed to signal");
                false
            }
        }
    }

    /// A SIGTERM alone makes no victim: most members end with their leader. Whoever outlives it is one.
    fn note(&mut self, id: ProcessId, comm: String, signal: Signal) {
        if signal == Signal::Kill {
            self.victims.insert(id, Swept { pid: id.pid, comm, signal });
        } else {
            self.warned.insert(id);
        }
    }

    async fn sweep(mut self, tree: &mut Tree, graces: Graces) -> SweepReport {
        if !graces.terminate.is_zero() {
            // Running out of time is what SIGKILL is for.
            let _in_time = timeout(graces.terminate, self.ask(tree)).await;
        }
        let verified = timeout(graces.kill.max(LEAST_KILL_GRACE), self.kill(tree)).await.unwrap_or(false);
        let mut report = SweepReport { verified, ..SweepReport::default() };
        if !verified {
            look(tree);
            for (id, comm) in tree.live().into_iter().filter(|(id, _)| is_alive(id)) {
                self.victims.remove(&id);
                let why =
                    if self.denied.contains(&id) { WhyAlive::NotPermitted } else { WhyAlive::Unkillable };
                report.survivors.push(Survivor { id, comm, why });
            }
        }
        report.swept = self.victims.into_values().collect();
        report.swept.sort_unstable_by_key(|swept| swept.pid);
        report.survivors.sort_unstable_by_key(|survivor| survivor.id);
        if !report.swept.is_empty() || !report.survivors.is_empty() {
            tracing::info!(swept = ?report.swept, survivors = ?report.survivors, "swept");
        }
        report
    }

    /// SIGTERM to each member once, until nobody is left.
    async fn ask(&mut self, tree: &mut Tree) {
        let mut pause = Pause::new();
        while tree.observe().is_ok() {
            let live = tree.live();
            if live.is_empty() && tree.settled() {
                return;
            }
            for (id, comm) in live {
                if self.warned.contains(&id) || self.send(id, Signal::Terminate) {
                    self.warned.insert(id);
                    self.victims.entry(id).or_insert(Swept { pid: id.pid, comm, signal: Signal::Terminate });
                }
            }
            pause.take().await;
        }
    }

    /// SIGKILL to each member, until nobody is left; whether that was verified.
    async fn kill(&mut self, tree: &mut Tree) -> bool {
        let mut pause = Pause::new();
        let mut found_nobody = false;
        loop {
            let looked = tree.observe().is_ok();
            // After a failed look these are the remembered ones, of which some may be gone.
            let live: Vec<_> = tree.live().into_iter().filter(|(id, _)| looked || is_alive(id)).collect();
            if live.is_empty() {
                if !looked || (found_nobody && tree.settled()) {
                    return looked;
                }
                found_nobody = tree.settled();
            } else {
                found_nobody = false;
                for (id, comm) in live {
                    if self.send(id, Signal::Kill) {
                        self.note(id, comm, Signal::Kill);
                    }
                }
            }
            pause.take().await;
        }
    }
}

/// Pauses that start at a millisecond, so that the usual quick end is noticed at once.
struct Pause(Duration);

impl Pause {
    fn new() -> Self {
        Self(Duration::from_millis(1))
    }

    async fn take(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::testing::{alone, bystander, here, own_children, read_pid, read_word, sh, wait_until};
    use super::super::{become_subreaper, os, spawn};
    use super::*;

    /// Graces that are never used up by the tests that do not mean to.
    const PATIENT: Ladder = Ladder {
        first: FirstStep::Terminate,
        interrupt_grace: Duration::from_secs(20),
        terminate_grace: Duration::from_secs(20),
        kill_grace: Duration::from_secs(20),
    };
    /// SIGTERM is going to be ignored.
    const SHORT: Ladder = Ladder { terminate_grace: Duration::from_millis(100), ..PATIENT };

    fn kinds(report: &StopReport) -> Vec<(Signal, &'static str)> {
        let kind = |sent: &Sent| match sent.to {
            Recipient::Leader => (sent.signal, "leader"),
            Recipient::Group => (sent.signal, "group"),
            Recipient::Member(_) => (sent.signal, "member"),
        };
        report.signals.iter().map(kind).collect()
    }

    #[tokio::test]
    async fn the_ladder_ends_at_the_first_rung_that_works() {
        use Signal::{Interrupt, Kill, Terminate};
        async fn check(script: &str, ladder: Ladder, signals: &[(Signal, &str)], exit: Exit) {
            let bystander = bystander().await;
            let mut child = spawn(&sh(script)).unwrap();
            assert_eq!(read_word(&mut child).await, "ready", "{script}");
            let mut tree = child.tree();
            let report = stop(&mut child, &mut tree, ladder).await;
            assert_eq!(kinds(&report), signals, "{script}");
            assert_eq!(report.exit, Some(exit), "{script}");
            assert!(report.verified && report.survivors.is_empty(), "{report:?}");
            assert!(is_alive(&bystander.id()));
            // Stopping what has ended is allowed and does nothing.
            let again = stop(&mut child, &mut tree, ladder).await;
            let nothing = StopReport { exit: Some(exit), verified: true, ..StopReport::default() };
            assert_eq!(again, nothing, "{script}");
        }
        let interrupt = Ladder { first: FirstStep::Interrupt, ..PATIENT };
        let in_a_hurry =
            Ladder { first: FirstStep::Interrupt, interrupt_grace: Duration::from_millis(50), ..PATIENT };
        let all_in_a_hurry = Ladder { terminate_grace: Duration::from_millis(50), ..in_a_hurry };
        let polite = "trap 'exit 0' INT; echo ready; while :; do sleep 0.01; done";
        let obeys_term = "trap '' INT; trap 'exit 143' TERM; echo ready; while :; do sleep 0.01; done";
        let stubborn = "trap '' INT TERM; echo ready; exec sleep 300";
        check("echo ready; exec sleep 300", PATIENT, &[(Terminate, "group")], Exit::Signal(15)).await;
        // The leader survives its SIGTERM and ends because the group's other process got one too.
        let waits = "trap : TERM; sleep 300 & echo ready; wait; wait; exit 9";
        check(waits, PATIENT, &[(Terminate, "group")], Exit::Code(9)).await;
        check(polite, interrupt, &[(Interrupt, "leader")], Exit::Code(0)).await;
        check(obeys_term, in_a_hurry, &[(Interrupt, "leader"), (Terminate, "group")], Exit::Code(143)).await;
        check(stubborn, SHORT, &[(Terminate, "group"), (Kill, "group")], Exit::Signal(9)).await;
        let all = [(Interrupt, "leader"), (Terminate, "group"), (Kill, "group")];
        check(stubborn, all_in_a_hurry, &all, Exit::Signal(9)).await;
    }

    #[test]
    fn a_stubborn_child_with_a_stubborn_daemon_that_holds_stdout() {
        alone(here!("a_stubborn_child_with_a_stubborn_daemon_that_holds_stdout"), &[], async || {
            become_subreaper().unwrap();
            let bystander = bystander().await;
            let script = "trap '' TERM; (setsid sh -c 'echo $$; exec sleep 300' &) ; exec sleep 300";
            let mut child = spawn(&sh(script)).unwrap();
            let daemon = ProcessId::of(read_pid(&mut child).await).unwrap();
            wait_until("the daemon's parent is gone", || {
                os::process(daemon.pid).is_some_and(|p| p.parent == std::process::id() && p.comm == "sleep")
            })
            .await;
            let mut tree = child.tree();
            let report = stop(&mut child, &mut tree, SHORT).await;
            let (term, kill) = (Signal::Terminate, Signal::Kill);
            assert_eq!(
                kinds(&report),
                [(term, "group"), (term, "member"), (kill, "group"), (kill, "member")]
            );
            assert_eq!(report.exit, Some(Exit::Signal(9)));
            assert_eq!(report.swept, [Swept { pid: daemon.pid, comm: "sleep".into(), signal: kill }]);
            assert_eq!((report.survivors, report.verified), (vec![], true));
            assert_eq!(os::process(daemon.pid), None, "no zombie either");
            assert_eq!(own_children(), [bystander.id().pid]);
        });
    }

    #[tokio::test]
    async fn what_outlives_a_normal_exit_is_swept() {
        let bystander = bystander().await;
        // One in the leader's group, one that ignores SIGTERM in a session of its own.
        let script = "trap '' TERM; setsid sh -c 'echo $$; exec sleep 300' & trap - TERM;
            sleep 301 & echo $!; read line; exit 0";
        let mut child = spawn(&sh(script)).unwrap();
        let mut tree = child.tree();
        let pids = [read_pid(&mut child).await, read_pid(&mut child).await];
        let left = pids.map(|pid| ProcessId::of(pid).unwrap());
        wait_until("both are asleep", || {
            left.iter().all(|id| os::process(id.pid).is_some_and(|p| p.comm == "sleep"))
        })
        .await;
        drop(child.stdin.take());
        assert_eq!(child.wait().await.unwrap(), Exit::Code(0));
        let report =
            sweep(&mut tree, Graces { terminate: Duration::from_millis(200), kill: PATIENT.kill_grace })
                .await;
        let mut signals: Vec<_> =
            report.swept.iter().map(|swept| (swept.comm.as_str(), swept.signal)).collect();
        signals.sort_unstable();
        assert_eq!(signals, [("sleep", Signal::Terminate), ("sleep", Signal::Kill)], "{report:?}");
        assert!(report.verified && report.survivors.is_empty(), "{report:?}");
        assert!(left.iter().all(|id| !is_alive(id)));
        assert!(is_alive(&bystander.id()));
    }

    #[test]
    fn a_daemon_without_the_cookie_is_swept_and_the_bystander_is_not() {
        alone(here!("a_daemon_without_the_cookie_is_swept_and_the_bystander_is_not"), &[], async || {
            become_subreaper().unwrap();
            let bystander = bystander().await;
            let script = "env -i setsid sh -c 'sleep 300 >/dev/null 2>&1 & echo $!'; exit 3";
            let mut child = spawn(&sh(script)).unwrap();
            let mut tree = child.tree();
            let daemon = read_pid(&mut child).await;
            // On a busy machine it is told before it has become what it is to be.
            while os::snapshot().unwrap().get(&daemon).is_none_or(|process| process.comm != "sleep") {
                tokio::task::yield_now().await;
            }
            assert_eq!(child.wait().await.unwrap(), Exit::Code(3));
            let report = stop(&mut child, &mut tree, PATIENT).await;
            assert_eq!(report.signals, []);
            assert_eq!(report.exit, Some(Exit::Code(3)));
            assert_eq!(
                report.swept,
                [Swept { pid: daemon, comm: "sleep".into(), signal: Signal::Terminate }]
            );
            assert!(report.verified);
            assert_eq!(own_children(), [bystander.id().pid]);
        });
    }

    #[test]
    fn members_that_keep_forking_are_run_down() {
        alone(here!("members_that_keep_forking_are_run_down"), &[], async || {
            become_subreaper().unwrap();
            // Each shell starts two successors in sessions of their own, ignores SIGTERM, and ends: at most
            // 2^6 of them.
            let script = r#"trap '' TERM; n=$1; [ "$n" -gt 0 ] || exec sleep 300
                setsid sh -c "$2" sh $((n - 1)) "$2" & setsid sh -c "$2" sh $((n - 1)) "$2" & exit 0"#;
            let mut spec = sh(r#"sh -c "$1" sh 6 "$1"; echo ready; exec sleep 300"#);
            spec.args.extend(["sh".into(), script.into()]);
            let mut child = spawn(&spec).unwrap();
            assert_eq!(read_word(&mut child).await, "ready");
            let mut tree = child.tree();
            let report = stop(&mut child, &mut tree, SHORT).await;
            assert!(report.verified && report.survivors.is_empty(), "{report:?}");
            assert!(own_children().is_empty());
            assert_eq!(super::super::orphans(child.cookie()).unwrap(), []);
        });
    }

    #[tokio::test]
    async fn a_stop_may_be_dropped_and_started_again() {
        let mut child = spawn(&sh("trap '' TERM; echo ready; exec sleep 300")).unwrap();
        assert_eq!(read_word(&mut child).await, "ready");
        let mut tree = child.tree();
        assert!(timeout(Duration::from_millis(50), stop(&mut child, &mut tree, PATIENT)).await.is_err());
        assert!(is_alive(&child.id()));
        let report = stop(&mut child, &mut tree, SHORT).await;
        assert_eq!(report.exit, Some(Exit::Signal(9)));
    }
}
