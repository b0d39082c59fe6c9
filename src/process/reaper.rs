//! Subreaper: orphans of our trees are re-parented to us instead of to init, and we reap them, pid by pid.
//!
//! # Theory of operation
//!
//! tokio reaps the children it started and nothing else; adopted orphans would stay zombies for as long as we
//! run, and `waitpid(-1)` would take statuses that tokio waits for (crates B2.1). So the process keeps a
//! registry of the children it started itself: a child of ours that is *not* in it was adopted, may be reaped
//! by its pid, and, if the evidence is sound, belongs to a tree.
//!
//! # Invariants
//!
//! * A child is started and entered in the registry under one lock, and adoption is judged under the same
//!   lock after the process table was read. So a child that is just being started is never taken for an
//!   orphan.
//! * Adoption proves descent only if every child we have was started here. It does not when we are pid 1 (a
//!   container's init inherits everybody) or when we inherited children over `exec` (`sleep 9 & exec
//!   autopilot`): then orphans are reaped but never claimed, and cookie and descent must do.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::id::ProcessId;
use super::membership::{Process, Snapshot};
use super::os;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Adoption {
    /// We are no subreaper.
    None,
    /// Orphans come to us, but not only those of our trees.
    ReapOnly,
    /// Whoever comes to us descends from a child we started.
    ProvesDescent,
}

struct Registry {
    /// Pid and start time (0: unknown, any) of the children started here and not known to be reaped.
    started: BTreeMap<u32, u64>,
    adoption: Adoption,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { started: BTreeMap::new(), adoption: Adoption::None });

fn registry() -> MutexGuard<'static, Registry> {
    // The map is valid after any panic: each change is one insert or remove.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn adopted(&self, process: &Process) -> bool {
        process.parent == std::process::id()
            && self
                .started
                .get(&process.id.pid)
                .is_none_or(|start_time| *start_time != 0 && *start_time != process.id.start_time)
    }
}

/// Makes this process the one that orphaned descendants are re-parented to. Linux only; elsewhere nothing
/// happens.
///
/// Call it once, early, before the first child is started. It is not inherited by children.
pub fn become_subreaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let mut registry = registry();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let inherited = os::snapshot()?.values().any(|process| registry.adopted(process));
        let init = std::process::id() == 1;
        registry.adoption = if init || inherited { Adoption::ReapOnly } else { Adoption::ProvesDescent };
    }
    Ok(())
}

/// Starts a child and enters it in the registry in one step.
pub(super) fn register<T>(start: impl FnOnce() -> io::Result<(T, u32)>) -> io::Result<(T, ProcessId)> {
    let mut registry = registry();
    let (child, pid) = start()?;
    // A child that we have not reaped has a row, if only as a zombie.
    let id = ProcessId::of(pid).unwrap_or(ProcessId { pid, start_time: 0 });
    registry.started.insert(pid, id.start_time);
    Ok((child, id))
}

/// The child was reaped.
pub(super) fn forget(id: ProcessId) {
    let mut registry = registry();
    if registry.started.get(&id.pid) == Some(&id.start_time) {
        registry.started.remove(&id.pid);
    }
}

/// Living processes of the snapshot that were adopted, if that proves that they descend from a child started
/// here.
pub(super) fn adopted(snapshot: &Snapshot) -> Vec<&Process> {
    let registry = registry();
    if registry.adoption != Adoption::ProvesDescent {
        return Vec::new();
    }
    snapshot.values().filter(|process| !process.zombie && registry.adopted(process)).collect()
}

/// Reaps every adopted orphan that has ended, and says how many. Never waits, and never touches a child that
/// was started here. Does nothing unless we are a subreaper. Costs one read of the process table.
pub fn reap_adopted() -> io::Result<usize> {
    if registry().adoption == Adoption::None {
        return Ok(0);
    }
    Ok(reap(&os::snapshot()?))
}

/// [`reap_adopted`] for a snapshot that was just taken.
pub(super) fn reap(snapshot: &Snapshot) -> usize {
    let mut registry = registry();
    if registry.adoption == Adoption::None {
        return 0;
    }
    // A dropped `Child` is reaped by tokio and never forgotten by its owner.
    registry.started.retain(|pid, start_time| {
        os::process(*pid).is_some_and(|p| *start_time == 0 || p.id.start_time == *start_time)
    });
    snapshot
        .values()
        .filter(|process| process.zombie && registry.adopted(process))
        // The snapshot may be older than the registry: only a zombie that is there now is certainly the one
        // meant.
        .filter(|process| os::process(process.id.pid).is_some_and(|p| p.id == process.id && p.zombie))
        .filter(|process| reap_one(process.id.pid))
        .count()
}

fn reap_one(pid: u32) -> bool {
    use rustix::process::{Pid, WaitOptions, waitpid};
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::testing::{alone, here, own_children, read_pid, sh, wait_until};
    use super::super::{Exit, spawn};
    use super::*;

    #[test]
    fn orphans_are_adopted_and_reaped_and_our_children_are_not() {
        alone(here!("orphans_are_adopted_and_reaped_and_our_children_are_not"), &[], async || {
            assert_eq!(reap_adopted().unwrap(), 0);
            become_subreaper().unwrap();
            // The inner shell ends at once; its child lives until it is killed.
            let mut parent = spawn(&sh("(exec sleep 300 >/dev/null 2>&1 & echo $!)")).unwrap();
            let orphan = ProcessId::of(read_pid(&mut parent).await).unwrap();
            // Unreaped: the parent is a zombie of ours that is not the reaper's business.
            wait_until("the leader has ended", || os::process(parent.id().pid).is_some_and(|p| p.zombie))
                .await;
            wait_until("adoption", || {
                os::process(orphan.pid).is_some_and(|p| p.parent == std::process::id())
            })
            .await;
            assert_eq!(reap_adopted().unwrap(), 0);
            super::super::signal::send(orphan, super::super::Signal::Kill).unwrap();
            wait_until("the orphan is a zombie", || os::process(orphan.pid).is_some_and(|p| p.zombie)).await;
            assert_eq!(reap_adopted().unwrap(), 1);
            assert_eq!(os::process(orphan.pid), None);
            assert_eq!(parent.wait().await.unwrap(), Exit::Code(0));
            assert!(own_children().is_empty());
        });
    }

    #[test]
    fn children_inherited_over_exec_make_adoption_prove_nothing() {
        alone(here!("children_inherited_over_exec_make_adoption_prove_nothing"), &[], async || {
            // Not in the registry, as if an `exec`ed shell had started it.
            let mut command = super::super::testing::command("sleep");
            let mut inherited = command.arg("300").spawn().unwrap();
            become_subreaper().unwrap();
            assert_eq!(adopted(&os::snapshot().unwrap()), Vec::<&Process>::new());
            inherited.kill().unwrap();
            inherited.wait().unwrap();
        });
    }
}
