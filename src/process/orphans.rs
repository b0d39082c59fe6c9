//! What a run that was itself ended by SIGKILL left behind (field-reports H14, J04).

use std::io;
use std::time::Duration;

use super::id::ProcessId;
use super::spawn::Cookie;
use super::stop::{Graces, SweepReport, sweep};
use super::tree::Tree;

/// How often to look while a process is in the middle of `exec`, a millisecond apart.
const LOOKS: usize = 20;

/// A living process of a dead run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Orphan {
    /// Pid and start time.
    pub id: ProcessId,
    /// Short command name.
    pub comm: String,
}

/// The living carriers of a cookie and their descendants, by pid: those of our own user, or of all when we
/// are root.
///
/// Neither we, nor our ancestors, nor anything we started is among them, even where we carry the cookie
/// ourselves because we were started inside that run. May block for 20 ms while processes are being started.
/// Somebody has to know that the run is dead (its lock was free): this does not ask.
///
/// # Errors
/// The process table cannot be read.
pub fn orphans(cookie: &Cookie) -> io::Result<Vec<Orphan>> {
    let mut tree = Tree::left_behind(cookie.clone(), &[]);
    for _ in 0..LOOKS {
        tree.observe()?;
        if tree.settled() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }

    Ok(tree.members().into_iter().map(|member| Orphan { id: member.id, comm: member.comm }).collect())
}

/// Ends [`orphans`], and those processes that the dead run `recorded` and that still live: these are found
/// even if they have scrubbed their environment. SIGTERM, grace, SIGKILL, verified; returns at once when
/// there is nobody.
pub async fn sweep_orphans(cookie: &Cookie, recorded: &[ProcessId], graces: Graces) -> SweepReport {
    sweep(&mut Tree::left_behind(cookie.clone(), recorded), graces).await
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::membership::Carries;
    use super::super::signal::send;
    use super::super::stop::Swept;
    use super::super::testing::{alone, bystander, here, read_pid, sh, wait_until};
    use super::super::{Exit, Signal, is_alive, spawn};
    use super::*;

    const GRACES: Graces = Graces { terminate: Duration::from_secs(20), kill: Duration::from_secs(20) };

    #[tokio::test]
    async fn a_dead_driver_leaves_orphans_that_are_found_and_ended() {
        let bystander = bystander().await;
        let cookie = Cookie::unique("AUTOPILOT_TEST_RUN");
        assert_eq!(orphans(&cookie).unwrap(), []);
        assert_eq!(
            sweep_orphans(&cookie, &[], GRACES).await,
            SweepReport { verified: true, ..SweepReport::default() }
        );

        // The driver: does not carry the cookie, but starts one that does, and one that has scrubbed it.
        let script = format!(
            "env {}={} setsid sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1' &
             env -i setsid sh -c 'echo $$; exec sleep 301 >/dev/null 2>&1' & wait",
            cookie.name, cookie.value
        );
        let mut driver = spawn(&sh(&script)).unwrap();
        let ids =
            [read_pid(&mut driver).await, read_pid(&mut driver).await].map(|pid| ProcessId::of(pid).unwrap());
        // Alive, they descend from us: not orphans.
        assert_eq!(orphans(&cookie).unwrap(), []);
        send(driver.id(), Signal::Kill).unwrap();
        assert_eq!(driver.wait().await.unwrap(), Exit::Signal(9));

        let found = orphans(&cookie).unwrap();
        let [Orphan { id: carrier, .. }] = found.as_slice() else { panic!("{found:?}") };
        assert!(ids.contains(carrier));
        // A recorded pid that was reused meanwhile is somebody else.
        let reused = ProcessId { start_time: bystander.id().start_time + 1, ..bystander.id() };
        let report = sweep_orphans(&cookie, &[ids[0], ids[1], reused], GRACES).await;
        let mut expected: Vec<_> = ids
            .iter()
            .map(|id| Swept { pid: id.pid, comm: "sleep".into(), signal: Signal::Terminate })
            .collect();
        expected.sort_unstable_by_key(|swept| swept.pid);
        assert_eq!(report, SweepReport { swept: expected, survivors: vec![], verified: true });
        assert_eq!(orphans(&cookie).unwrap(), []);
        assert!(is_alive(&bystander.id()));
    }

    #[test]
    fn we_and_ours_are_no_orphans_even_if_we_carry_the_cookie() {
        let pairs = [("AUTOPILOT_TEST_NESTED", "9f7c1c52-nested")];
        alone(here!("we_and_ours_are_no_orphans_even_if_we_carry_the_cookie"), &pairs, async || {
            let [(name, value)] = pairs;
            let cookie = Cookie::new(name, value);
            let mut spec = sh("echo $$; exec sleep 300");
            spec.env.push((name.into(), value.into()));
            let mut child = spawn(&spec).unwrap();
            read_pid(&mut child).await;

            let carries = |pid| super::super::os::carries_pair(pid, &cookie.pair()) == Carries::Yes;
            wait_until("both carry it", || carries(std::process::id()) && carries(child.id().pid)).await;
            assert_eq!(orphans(&cookie).unwrap(), []);
            let report = sweep_orphans(&cookie, &[ProcessId::current().unwrap()], GRACES).await;
            assert_eq!(report, SweepReport { verified: true, ..SweepReport::default() });
            assert!(is_alive(&child.id()));
        });
    }
}
