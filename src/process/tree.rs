//! Everything that an attempt or a run started, wherever it went.

use std::collections::{HashMap, HashSet};
use std::io;

use super::id::ProcessId;
use super::membership::{self, Carries, Evidence, Process, Snapshot};
use super::spawn::Cookie;
use super::{HELPER_COOKIE, os, reaper};

/// A set of processes: a leader, or a cookie, and all that can be proved to come from it (see `membership`).
///
/// What was seen once stays a member for as long as it lives, whatever happens to its parents. So look from
/// time to time with [`Tree::observe`]: what leaves its parent, its session *and* its environment between two
/// looks is found only where we are a subreaper (Linux, after [`become_subreaper`](super::become_subreaper)).
///
/// We ourselves, our ancestors and init are never members.
#[derive(Debug)]
pub struct Tree {
    leader: Option<ProcessId>,
    cookie: Cookie,
    /// Members at the last look; the leader until it is gone.
    known: HashSet<ProcessId>,
    /// Members alive at the last look.
    live: HashMap<ProcessId, Live>,
    /// Pids of members, dead ones too, that name a group or session in which a member lives.
    founders: HashSet<u32>,
    /// Processes whose environment was read and did not hold the cookie. It never will: an environment is
    /// inherited.
    strangers: HashSet<ProcessId>,
    /// Counters of members that have ended, as last seen.
    ended: Activity,
    /// Whether the last look was conclusive.
    settled: bool,
    /// Whether unknown orphans that were re-parented to us are members.
    adopts: bool,
}

#[derive(Debug)]
struct Live {
    process: Process,
    io_bytes: u64,
}

/// One living member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Pid and start time.
    pub id: ProcessId,
    /// Short command name.
    pub comm: String,
    /// Whether it is the leader of the tree.
    pub leader: bool,
    /// CPU time, that of children it has waited for included, in ticks (Linux: 10 ms).
    pub cpu_ticks: u64,
    /// Bytes read and written, the same children included. 0 when unreadable.
    pub io_bytes: u64,
}

/// A measure of what the tools have done so far: the members without the leader.
///
/// Compare two samples of one tree: if `cpu_ticks` or `io_bytes` grew, some tool made progress. Both never
/// shrink, because members that ended keep counting. They are no usage figures: a child's time counts once as
/// its own and again as its parent's when that has waited for it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Activity {
    /// CPU time in ticks (Linux: 10 ms).
    pub cpu_ticks: u64,
    /// Bytes through `read` and `write`: files, pipes, sockets (macOS: disk only).
    pub io_bytes: u64,
    /// How many tools are alive now.
    pub live: usize,
}

impl Tree {
    /// The tree of one process that was just started with `cookie` in its environment.
    pub fn led_by(leader: ProcessId, cookie: Cookie) -> Self {
        Self {
            leader: Some(leader),
            cookie,
            known: HashSet::from([leader]),
            live: HashMap::new(),
            founders: HashSet::from([leader.pid]),
            strangers: HashSet::new(),
            ended: Activity::default(),
            settled: true,
            adopts: true,
        }
    }

    /// What a run that has died left behind: the carriers of its cookie, the recorded processes that still
    /// live, and their descendants. Nothing that descends from us is a member, even if we carry the cookie.
    pub(super) fn left_behind(cookie: Cookie, recorded: &[ProcessId]) -> Self {
        Self {
            leader: None,
            cookie,
            known: recorded.iter().copied().collect(),
            live: HashMap::new(),
            founders: HashSet::new(),
            strangers: HashSet::new(),
            ended: Activity::default(),
            settled: true,
            adopts: false,
        }
    }

    /// For helpers: they may leave a daemon (`git fsmonitor--daemon`) and must not claim somebody else's.
    pub(super) fn without_adoption(mut self) -> Self {
        self.adopts = false;
        self
    }

    /// The process that the tree started from, alive or not.
    pub fn leader(&self) -> Option<ProcessId> {
        self.leader
    }

    /// Looks at the process table, remembers who belongs to the tree, and reaps adopted orphans that have
    /// ended.
    ///
    /// Cost: one small read for each process of the host, and one more for each process never seen before.
    /// Measured on a virtual machine with 100 to 130 processes: 10 µs of CPU for each process, 1 ms in all
    /// (debug build: 30 µs, 4 ms).
    ///
    /// # Errors
    /// The process table cannot be read (no `/proc`, out of descriptors). What is remembered stays as it was.
    pub fn observe(&mut self) -> io::Result<()> {
        let snapshot = os::snapshot()?;
        self.settled = true;
        let me = std::process::id();
        let mut protected = membership::ancestry(&snapshot, me);
        if self.leader.is_none() {
            protected.extend(membership::descendants(&snapshot, me));
        }
        let proven = self.proven(&snapshot, &protected);
        let evidence =
            Evidence { known: &self.known, founders: &self.founders, proven: &proven, protected: &protected };
        let members = membership::members(&snapshot, &evidence);
        // The list of processes is older than what is read of each: one that ended in between may have forked,
        // and its child is not in this snapshot.
        if reaper::reap(&snapshot) > 0 {
            self.settled = false;
        }
        self.remember(snapshot, &members);
        Ok(())
    }

    /// Who is a member by cookie or adoption. Each environment is read once.
    fn proven(&mut self, snapshot: &Snapshot, protected: &HashSet<u32>) -> HashSet<u32> {
        self.strangers.retain(|id| snapshot.get(&id.pid).is_some_and(|process| process.id == *id));
        let pair = self.cookie.pair();
        let mut proven = HashSet::new();
        for process in snapshot.values() {
            let settled = process.zombie
                || protected.contains(&process.id.pid)
                || self.live.contains_key(&process.id)
                || self.strangers.contains(&process.id);
            if settled {
                continue;
            }
            match os::carries_pair(process.id.pid, &pair) {
                Carries::Yes => {
                    proven.insert(process.id.pid);
                }
                Carries::No => {
                    self.strangers.insert(process.id);
                }
                Carries::NotYet => self.settled = false,
                Carries::Unknown => {}
            }
        }
        if self.adopts {
            let since = self.leader.map_or(u64::MAX, |leader| leader.start_time);
            let orphans =
                reaper::adopted(snapshot).into_iter().filter(|orphan| orphan.id.start_time >= since);
            // Names, not values: whoever carries our value is a member already.
            let others = [self.cookie.name.as_bytes(), HELPER_COOKIE.as_bytes()];
            let nobody_elses =
                |pid: &u32| others.iter().all(|name| os::carries_name(*pid, name) == Carries::No);
            proven.extend(orphans.map(|orphan| orphan.id.pid).filter(nobody_elses));
        }
        proven
    }

    fn remember(&mut self, mut snapshot: Snapshot, members: &HashSet<u32>) {
        let mut before = std::mem::take(&mut self.live);
        self.known.clear();
        let processes: Vec<Process> = members.iter().filter_map(|pid| snapshot.remove(pid)).collect();
        self.known.extend(processes.iter().map(|process| process.id));
        for process in processes.into_iter().filter(|process| !process.zombie) {
            let io_bytes = before.remove(&process.id).map_or(0, |live| live.io_bytes);
            self.live.insert(process.id, Live { process, io_bytes });
        }
        for (id, live) in before {
            self.founders.insert(id.pid);
            if Some(id) != self.leader {
                self.ended.cpu_ticks = self.ended.cpu_ticks.saturating_add(live.process.cpu_ticks);
                self.ended.io_bytes = self.ended.io_bytes.saturating_add(live.io_bytes);
            }
        }
        self.founders.extend(members);
        let named: HashSet<u32> =
            self.live.values().flat_map(|live| [live.process.group, live.process.session]).collect();
        self.founders.retain(|pid| named.contains(pid));
    }

    /// The members that lived at the last look, by pid, with counters of now where they can still be read.
    pub fn members(&self) -> Vec<Member> {
        let mut members: Vec<Member> = self
            .live
            .values()
            .map(|live| Member {
                id: live.process.id,
                comm: live.process.comm.clone(),
                leader: Some(live.process.id) == self.leader,
                cpu_ticks: live.process.cpu_ticks,
                io_bytes: os::io_bytes(live.process.id.pid).max(live.io_bytes),
            })
            .collect();
        members.sort_unstable_by_key(|member| member.id);
        members
    }

    /// Looks again, and says what the tools have done so far. A long build is healthy as long as this moves
    /// (design §3, `--stall-timeout`; field-reports A09).
    ///
    /// # Errors
    /// As [`Tree::observe`].
    pub fn activity(&mut self) -> io::Result<Activity> {
        self.observe()?;
        let mut activity = self.ended;
        for (id, live) in &mut self.live {
            if Some(*id) == self.leader {
                continue;
            }
            live.io_bytes = live.io_bytes.max(os::io_bytes(id.pid));
            activity.cpu_ticks = activity.cpu_ticks.saturating_add(live.process.cpu_ticks);
            activity.io_bytes = activity.io_bytes.saturating_add(live.io_bytes);
            activity.live += 1;
        }
        Ok(activity)
    }

    /// Whether the last look was conclusive. It is not while some process is in the middle of `exec`, which a
    /// large program takes milliseconds for: its environment cannot be read then. Nor is it after a look that
    /// reaped somebody, who may have forked while we were looking.
    pub(super) fn settled(&self) -> bool {
        self.settled
    }

    /// Identities and names of the members that lived at the last look.
    pub(super) fn live(&self) -> Vec<(ProcessId, String)> {
        self.live.values().map(|live| (live.process.id, live.process.comm.clone())).collect()
    }

    /// The same, of those outside the leader's group: a signal to that group does not reach them.
    pub(super) fn live_outside_group(&self, group: u32) -> Vec<ProcessId> {
        self.live.values().filter(|live| live.process.group != group).map(|live| live.process.id).collect()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::testing::{alone, bystander, end, here, read_pid, sh, wait_until};
    use super::super::{Signal, become_subreaper, is_alive, spawn};
    use super::*;

    fn pids(tree: &mut Tree) -> HashSet<u32> {
        tree.observe().expect("the process table can be read");
        tree.members().iter().map(|member| member.id.pid).collect()
    }

    #[tokio::test]
    async fn members_are_remembered_after_they_were_re_parented() {
        // The cookie is scrubbed, so that only memory can tell.
        let mut child = spawn(&sh("env -i sh -c 'sleep 300 & echo $!; read line'; exit 0")).unwrap();
        let mut tree = child.tree();
        let grandchild = read_pid(&mut child).await;
        assert!(pids(&mut tree).contains(&grandchild));
        // The scrubbed shell ends, the leader ends, `sleep` lives on with another parent.
        drop(child.stdin.take());
        child.wait().await.unwrap();
        assert_eq!(pids(&mut tree), HashSet::from([grandchild]));
        super::super::signal::send(ProcessId::of(grandchild).unwrap(), Signal::Kill).unwrap();
        wait_until("nobody is left", || pids(&mut tree).is_empty()).await;
    }

    #[test]
    fn an_unknown_orphan_without_cookie_is_a_member_by_adoption() {
        alone(here!("an_unknown_orphan_without_cookie_is_a_member_by_adoption"), &[], async || {
            become_subreaper().unwrap();
            let bystander = bystander().await;
            // A daemon in every respect: other session, no cookie, parent dead before anybody looked.
            let script = "env -i setsid sh -c 'sleep 300 >/dev/null 2>&1 & echo $!'; exec sleep 300";
            let mut child = spawn(&sh(script)).unwrap();
            let daemon = read_pid(&mut child).await;
            let mut tree = child.tree();
            wait_until("adoption", || os::process(daemon).is_some_and(|p| p.parent == std::process::id()))
                .await;
            assert_eq!(pids(&mut tree), HashSet::from([daemon, child.id().pid]));
            // A second tree in the same process must not claim what carries the first one's cookie.
            let mut other = spawn(&sh("exec sleep 300")).unwrap();
            let mut carrier = spawn(&sh("setsid sh -c 'sleep 300 >/dev/null 2>&1 & echo $!'")).unwrap();
            let daemon_of_other = read_pid(&mut carrier).await;
            carrier.wait().await.unwrap();
            let mut others = other.tree();
            assert!(!pids(&mut others).contains(&daemon_of_other));
            assert!(pids(&mut carrier.tree()).contains(&daemon_of_other));
            let mut carriers = carrier.tree();
            end(&mut child, &mut tree).await;
            end(&mut other, &mut others).await;
            assert!(is_alive(&ProcessId::of(daemon_of_other).unwrap()));
            end(&mut carrier, &mut carriers).await;
            assert!(is_alive(&bystander.id()));
        });
    }

    #[tokio::test]
    async fn activity_moves_while_a_tool_works_and_only_then() {
        let mut child = spawn(&sh("sh -c 'read line; while read line; do :; done' ; exit 0")).unwrap();
        let mut tree = child.tree();
        wait_until("the tool runs", || tree.activity().unwrap().live == 1).await;
        let idle = tree.activity().unwrap();
        assert_eq!(tree.activity().unwrap(), idle);
        let mut stdin = child.stdin.take().unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stdin, &b"line\n".repeat(100)).await.unwrap();
        wait_until("the tool's counters move", || tree.activity().unwrap().io_bytes >= idle.io_bytes + 500)
            .await;
        let busy = tree.activity().unwrap();
        drop(stdin);
        child.wait().await.unwrap();
        let over = tree.activity().unwrap();
        assert_eq!(over.live, 0);
        assert!(over.io_bytes >= busy.io_bytes && over.cpu_ticks >= busy.cpu_ticks, "{busy:?} {over:?}");
    }
}
