//! Who belongs to a tree: the rule, as a pure function on a snapshot of the process table.
//!
//! Each way in is a proof, never a likeness; names and ages decide nothing:
//!
//! * known: it was a member before (same pid *and* start time), so re-parenting changes nothing;
//! * proven: the caller saw the cookie in its environment, or adopted it;
//! * descent: its parent is a member and not younger than it. The age test matters because a snapshot is not
//!   taken at one instant: the parent's pid may have been reused between reading the child and reading the
//!   parent;
//! * group or session: a number that is the pid of a member (alive or dead: a *founder*) and that a living
//!   member still carries. The kernel does not hand out a pid while it names a group or session, so this
//!   cannot be somebody else's. A merely *shared* group or session proves nothing: a terminal's session is
//!   shared with the user's shell.

use std::collections::{HashMap, HashSet};

use super::id::ProcessId;

/// One row of the process table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Process {
    pub(super) id: ProcessId,
    /// Pid of the parent.
    pub(super) parent: u32,
    /// Process group; 0 when unknown.
    pub(super) group: u32,
    /// Session; 0 when unknown.
    pub(super) session: u32,
    /// Dead, not reaped yet.
    pub(super) zombie: bool,
    /// Short command name.
    pub(super) comm: String,
    /// CPU time of the process and of the children it has waited for, in ticks.
    pub(super) cpu_ticks: u64,
}

/// What the environment of a process says about a cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carries {
    /// It is there.
    Yes,
    /// It is not, and never will be.
    No,
    /// The process is between two programs, in the middle of `exec`: ask again at once.
    NotYet,
    /// It is gone or cannot be read.
    Unknown,
}

/// The process table at (about) one moment, by pid.
pub(super) type Snapshot = HashMap<u32, Process>;

/// What is known beside the snapshot.
pub(super) struct Evidence<'a> {
    /// Members of the last look.
    pub(super) known: &'a HashSet<ProcessId>,
    /// Pids of members, dead ones included, that may name a group or a session.
    pub(super) founders: &'a HashSet<u32>,
    /// Processes of this snapshot that are members by cookie or adoption.
    pub(super) proven: &'a HashSet<u32>,
    /// Never members, whatever the evidence.
    pub(super) protected: &'a HashSet<u32>,
}

/// The pids of the snapshot that belong to the tree, zombies included.
pub(super) fn members(snapshot: &Snapshot, evidence: &Evidence<'_>) -> HashSet<u32> {
    let eligible = |pid: &u32| !evidence.protected.contains(pid);
    let mut members: HashSet<u32> = snapshot
        .values()
        .filter(|process| evidence.known.contains(&process.id) || evidence.proven.contains(&process.id.pid))
        .map(|process| process.id.pid)
        .filter(eligible)
        .collect();
    loop {
        let founded = |number: u32| members.contains(&number) || evidence.founders.contains(&number);
        let owned: HashSet<u32> = members
            .iter()
            .filter_map(|pid| snapshot.get(pid))
            .flat_map(|member| [member.group, member.session])
            .filter(|number| *number > 1 && founded(*number))
            .collect();
        let joining: Vec<u32> = snapshot
            .values()
            .filter(|process| !members.contains(&process.id.pid) && eligible(&process.id.pid))
            .filter(|process| {
                let descends = members.contains(&process.parent)
                    && snapshot
                        .get(&process.parent)
                        .is_some_and(|parent| parent.id.start_time <= process.id.start_time);
                descends || owned.contains(&process.group) || owned.contains(&process.session)
            })
            .map(|process| process.id.pid)
            .collect();
        if joining.is_empty() {
            return members;
        }
        members.extend(joining);
    }
}

/// `pid` and everything above it, up to the root of the process table. Pids 0 and 1 are always among them.
pub(super) fn ancestry(snapshot: &Snapshot, pid: u32) -> HashSet<u32> {
    let mut chain = HashSet::from([0, 1]);
    let mut current = pid;
    while chain.insert(current) {
        match snapshot.get(&current) {
            Some(process) => current = process.parent,
            None => break,
        }
    }
    chain
}

/// Everything below `pid`, itself excluded.
pub(super) fn descendants(snapshot: &Snapshot, pid: u32) -> HashSet<u32> {
    let mut below = HashSet::new();
    loop {
        let found: Vec<u32> = snapshot
            .values()
            .filter(|process| process.parent == pid || below.contains(&process.parent))
            .map(|process| process.id.pid)
            .filter(|candidate| *candidate != pid && !below.contains(candidate))
            .collect();
        if found.is_empty() {
            return below;
        }
        below.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of (pid, start time, parent, group, session).
    fn table(rows: &[(u32, u64, u32, u32, u32)]) -> Snapshot {
        rows.iter()
            .map(|&(pid, start_time, parent, group, session)| {
                let id = ProcessId { pid, start_time };
                let comm = String::new();
                (pid, Process { id, parent, group, session, zombie: false, comm, cpu_ticks: 0 })
            })
            .collect()
    }

    /// Shell 50 leads session 50 and runs us (60), who started leader 100 (group 100, session of the shell)
    /// at 10.
    const BASE: [(u32, u64, u32, u32, u32); 4] =
        [(1, 0, 0, 1, 1), (50, 1, 1, 50, 50), (60, 5, 50, 60, 50), (100, 10, 60, 100, 50)];

    struct Given<'a> {
        rows: &'a [(u32, u64, u32, u32, u32)],
        founders: &'a [u32],
        proven: &'a [u32],
        without_leader: bool,
    }

    fn check(what: &str, given: &Given<'_>, expected: &[u32]) {
        let mut rows: Vec<_> = BASE.to_vec();
        if given.without_leader {
            rows.pop();
        }
        rows.extend_from_slice(given.rows);
        let snapshot = table(&rows);
        let protected = ancestry(&snapshot, 60);
        let evidence = Evidence {
            known: &HashSet::from([ProcessId { pid: 100, start_time: 10 }]),
            founders: &given.founders.iter().copied().collect(),
            proven: &given.proven.iter().copied().collect(),
            protected: &protected,
        };
        let mut found: Vec<u32> = members(&snapshot, &evidence).into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{what}");
    }

    #[test]
    fn membership_is_proven_never_guessed() {
        let given = |rows| Given { rows, founders: &[], proven: &[], without_leader: false };
        check("the leader alone", &given(&[]), &[100]);
        check(
            "children and their children",
            &given(&[(101, 11, 100, 100, 50), (102, 12, 101, 100, 50)]),
            &[100, 101, 102],
        );
        check("a bystander started by us", &given(&[(200, 11, 60, 200, 50)]), &[100]);
        check("the user's other jobs in the shared session", &given(&[(201, 11, 50, 201, 50)]), &[100]);
        check("a re-parented process in the leader's group", &given(&[(103, 11, 1, 100, 50)]), &[100, 103]);
        check(
            "a re-parented process in a session that a member founded",
            &given(&[(104, 11, 100, 104, 104), (105, 12, 1, 105, 104)]),
            &[100, 104, 105],
        );
        check(
            "a child older than its parent: the parent's pid was reused",
            &given(&[(106, 9, 100, 106, 50)]),
            &[100],
        );
        check(
            "a cycle of parents does not hang",
            &given(&[(300, 1, 301, 0, 0), (301, 1, 300, 0, 0)]),
            &[100],
        );
    }

    #[test]
    fn evidence_beyond_the_snapshot_counts() {
        check(
            "the cookie brings in the carrier and its descendants",
            &Given {
                rows: &[(110, 11, 1, 110, 110), (111, 12, 110, 111, 110)],
                founders: &[],
                proven: &[110],
                without_leader: false,
            },
            &[100, 110, 111],
        );
        check(
            "a carrier in the user's session does not bring in the session",
            &Given {
                rows: &[(112, 11, 1, 112, 50), (113, 12, 50, 113, 50)],
                founders: &[],
                proven: &[112],
                without_leader: false,
            },
            &[100, 112],
        );
        check(
            "a dead founder counts while a living member carries the number",
            &Given {
                rows: &[(120, 11, 1, 100, 50), (121, 12, 1, 100, 50)],
                founders: &[100],
                proven: &[120],
                without_leader: true,
            },
            &[120, 121],
        );
        check(
            "a dead founder's number alone proves nothing: it may have been reused",
            &Given {
                rows: &[(100, 99, 1, 100, 100), (122, 100, 100, 100, 100)],
                founders: &[100],
                proven: &[],
                without_leader: true,
            },
            &[],
        );
        check(
            "nobody proves us, our parent or init to be members",
            &Given { rows: &[], founders: &[50], proven: &[1, 50, 60], without_leader: false },
            &[100],
        );
    }

    #[test]
    fn ancestors_and_descendants() {
        let snapshot = table(&BASE);
        assert_eq!(ancestry(&snapshot, 60), HashSet::from([0, 1, 50, 60]));
        assert_eq!(ancestry(&snapshot, 999), HashSet::from([0, 1, 999]));
        assert_eq!(descendants(&snapshot, 50), HashSet::from([60, 100]));
        assert_eq!(descendants(&snapshot, 100), HashSet::new());
    }
}
