//! The resource probe: fills a [`Sample`] with what the machine says now.
//!
//! Theory of operation: on Linux everything is read by hand from `/proc` and the control groups; where there is
//! no `/proc` (macOS) `sysinfo` gives memory, swap and the process table. Each reading fails on its own. The
//! root directory is injectable, so that `fixtures/proc` trees test every path.
//!
//! Invariants
//! - Read-only, no child process, no clock: the caller stamps the sample and discards an old one
//!   (field-reports J09).
//! - A figure that could not be read is [`Reading::Failed`]; nothing is filled in for it.
//!
//! Pitfalls
//! - With `/proc` mounted `hidepid` the processes of other users are invisible, so peers is a lower bound.
//! - The kernel's memory rating on macOS needs a `sysctl` call, which only `process/` may run: see
//!   [`FREE_PERCENT_COMMAND`] and [`parse_free_percent`].
//! - The call blocks for some milliseconds: keep it off the event loop.

mod cgroup;
mod meminfo;
mod peers;
mod proc_table;
mod system;
mod work_tree;

use std::io;
use std::path::{Path, PathBuf};

pub use peers::{ProcessRow, count_peers, is_claude};

use crate::core::resources::{Reading, Sample};

/// macOS: prints the memory free in percent, one integer. Run it with a short time limit.
pub const FREE_PERCENT_COMMAND: [&str; 3] = ["/usr/sbin/sysctl", "-n", "kern.memorystatus_level"];

/// Reads the resources of the machine.
#[derive(Debug, Clone)]
pub struct Probe {
    root: PathBuf,
}

impl Default for Probe {
    fn default() -> Self {
        Self::new()
    }
}

impl Probe {
    /// Reads this machine.
    pub fn new() -> Self {
        Self::with_root("/")
    }

    /// Reads the `/proc` and `/sys` trees below `root`.
    pub fn with_root(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// One sample. `is_ours` says whether a process belongs to this run (its own process id, the processes it
    /// recorded, those with its cookie); whatever descends from such a process is left out of the peers, too.
    /// It is asked only about Claude processes and their ancestors.
    pub fn sample(&self, is_ours: &dyn Fn(u32) -> bool) -> Sample {
        if self.root.join("proc/meminfo").exists() {
            self.linux(is_ours)
        } else if self.root == Path::new("/") {
            system::sample(is_ours)
        } else {
            let why = || format!("{} has no proc/meminfo", self.root.display());
            Sample {
                host_available: Reading::Failed(why()),
                swap_used: Reading::Failed(why()),
                peers: Reading::Failed(why()),
                ..Sample::default()
            }
        }
    }

    /// Memory that is left, in bytes: the tighter of what the host still hands out and what the own control group
    /// may still take. `None` where neither can be read. Fast: two files, no table of processes.
    pub fn memory_left(&self) -> Option<u64> {
        let text = read(&self.root, "proc/meminfo").ok()?;
        let host = meminfo::available(&text).ok();
        let group = match cgroup::headroom(&self.root) {
            Reading::Value(bytes) => Some(bytes),
            Reading::Absent | Reading::Failed(_) => None,
        };
        host.into_iter().chain(group).min()
    }

    /// The process ids of the Claude sessions, other than that of `own`, that work in the working tree whose top
    /// is `root`, in rising order. A directory that cannot be read counts as another one.
    ///
    /// A session that `own` runs in is no peer of it, and where a nested repository or a linked worktree
    /// begins, this working tree ends.
    pub fn sessions_in(&self, root: &Path, own: u32) -> Vec<u32> {
        // The kernel names directories without links.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let is_here = |dir: Option<PathBuf>| dir.is_some_and(|dir| work_tree::contains(&root, &dir));
        if self.root.join("proc/meminfo").exists() {
            let directory = |pid: u32| std::fs::read_link(self.root.join(format!("proc/{pid}/cwd"))).ok();
            let table = proc_table::read(&self.root).unwrap_or_default();
            peers::sessions_here(&table, own, &|pid| is_here(directory(pid)))
        } else if self.root == Path::new("/") {
            system::sessions_in(own, &|dir| is_here(Some(dir.to_owned())))
        } else {
            Vec::new()
        }
    }

    fn linux(&self, is_ours: &dyn Fn(u32) -> bool) -> Sample {
        let (host_available, swap_used) = match read(&self.root, "proc/meminfo") {
            Ok(text) => (reading(meminfo::available(&text)), reading(meminfo::swap_used(&text))),
            Err(why) => (Reading::Failed(why.clone()), Reading::Failed(why)),
        };
        Sample {
            host_available,
            swap_used,
            cgroup_headroom: cgroup::headroom(&self.root),
            peers: match proc_table::read(&self.root) {
                Ok(table) => Reading::Value(count_peers(&table, is_ours)),
                Err(why) => Reading::Failed(why),
            },
            free_percent: Reading::Absent,
            pressure_avg10: self.pressure(),
        }
    }

    fn pressure(&self) -> Reading<f64> {
        let path = "proc/pressure/memory";
        match std::fs::read_to_string(self.root.join(path)) {
            Ok(text) => reading(meminfo::pressure_avg10(&text)),
            // Not there on old kernels; there but refused (EOPNOTSUPP) when accounting is switched off.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported) => {
                Reading::Absent
            }
            Err(error) => Reading::Failed(format!("cannot read /{path}: {error}")),
        }
    }
}

/// Reads what [`FREE_PERCENT_COMMAND`] printed.
pub fn parse_free_percent(stdout: &[u8]) -> Reading<u64> {
    let text = String::from_utf8_lossy(stdout);
    match text.trim().parse::<u64>() {
        Ok(percent) if percent <= 100 => Reading::Value(percent),
        _ => Reading::Failed(format!("sysctl kern.memorystatus_level printed {:?}", text.trim())),
    }
}

fn reading<T>(result: Result<T, String>) -> Reading<T> {
    match result {
        Ok(value) => Reading::Value(value),
        Err(why) => Reading::Failed(why),
    }
}

/// A text file below `root`; the error names the path as the machine itself would.
fn read(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|error| format!("cannot read /{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::resources::{GB, Tier, judge};

    fn fixture(name: &str) -> Probe {
        Probe::with_root(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/proc").join(name))
    }

    #[test]
    fn fixtures() {
        use Reading::{Absent, Value};
        const KB: u64 = 1024;
        let table = [
            // A leaf without a limit of its own, a limited parent, the root without files.
            (
                "v2-nested",
                Sample {
                    host_available: Value(12_582_912 * KB),
                    cgroup_headroom: Value(4 * GB - 3 * GB + GB / 2),
                    swap_used: Value(1_048_576 * KB),
                    peers: Value(2),
                    free_percent: Absent,
                    pressure_avg10: Value(1.25),
                },
            ),
            // Inside a container: the mount shows the group itself as its root.
            (
                "v1-container",
                Sample {
                    host_available: Value(8_388_608 * KB),
                    cgroup_headroom: Value(2 * GB - GB + GB / 4),
                    swap_used: Value(0),
                    peers: Value(0),
                    free_percent: Absent,
                    pressure_avg10: Absent,
                },
            ),
            // Both hierarchies, neither limited.
            (
                "hybrid-unlimited",
                Sample {
                    host_available: Value(8_388_608 * KB),
                    cgroup_headroom: Absent,
                    swap_used: Value(0),
                    peers: Value(0),
                    free_percent: Absent,
                    pressure_avg10: Absent,
                },
            ),
        ];
        for (name, expected) in table {
            assert_eq!(fixture(name).sample(&|_| false), expected, "{name}");
        }
    }

    #[test]
    fn broken_readings_fail_one_by_one() {
        let sample = fixture("broken").sample(&|_| false);
        assert_eq!(sample.host_available.failure(), Some("MemAvailable: not a size: \"soon\""));
        assert_eq!(sample.swap_used.failure(), Some("SwapTotal is missing"));
        assert_eq!(sample.pressure_avg10.failure(), Some("no avg10 in the some line"));
        assert!(sample.cgroup_headroom.failure().is_some_and(|why| why.contains("memory.max")), "{sample:?}");
        assert_eq!(sample.peers, Reading::Value(0));
        assert_eq!(judge(&sample, 8).tier, Tier::Green, "the peers alone");

        let nothing = fixture("does-not-exist").sample(&|_| false);
        assert_eq!(judge(&nothing, 8).tier, Tier::Unknown);
    }

    #[test]
    fn this_machine() {
        let sample = Probe::new().sample(&|_| true);
        assert!(sample.host_available.value().is_some_and(|bytes| *bytes > 0), "{sample:?}");
        assert!(sample.swap_used.value().is_some(), "{sample:?}");
        assert_eq!(sample.peers, Reading::Value(0), "all of them are ours");
        assert_ne!(judge(&sample, 8).tier, Tier::Unknown);
    }

    /// A process that passes for a Claude session.
    struct Session(std::process::Child);

    impl Session {
        #[expect(clippy::disallowed_methods, reason = "a test of what the process table says")]
        fn start(program: &Path, directory: &Path) -> Self {
            let mut command = std::process::Command::new(program);
            Session(command.arg("300").current_dir(directory).spawn().unwrap())
        }

        fn pid(&self) -> u32 {
            self.0.id()
        }
    }

    impl Drop for Session {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    /// The tests of this program are run by a Claude session at times, and theirs are children of ours: so the
    /// look is that of a process that has nothing to do with either.
    const STRANGER: u32 = u32::MAX >> 1;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture")]
    fn sessions_are_told_by_where_they_work() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for folder in ["repo/.git", "repo/src", "repo/nested/.git", "elsewhere"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::fs::write(at("repo/.git/HEAD"), "").unwrap();
        std::fs::write(at("repo/nested/.git/HEAD"), "").unwrap();
        std::os::unix::fs::symlink(at("repo"), at("link")).unwrap();
        let sleep = ["/bin/sleep", "/usr/bin/sleep"].map(Path::new);
        let sleep = sleep.into_iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(sleep, at("claude")).unwrap();

        let here = |name: &str, own: u32| {
            let by_hand = Probe::new().sessions_in(&at(name), own);
            let root = at(name).canonicalize().unwrap();
            let by_sysinfo = system::sessions_in(own, &|dir| work_tree::contains(&root, dir));
            assert_eq!(by_hand, by_sysinfo);
            by_hand
        };
        assert_eq!(here("repo", STRANGER), [0; 0]);
        let one = Session::start(&at("claude"), &at("repo/src"));
        let _no_session = Session::start(sleep, &at("repo"));
        let _elsewhere = Session::start(&at("claude"), &at("elsewhere"));
        let nested = Session::start(&at("claude"), &at("repo/nested"));
        assert_eq!(here("repo", STRANGER), [one.pid()]);
        assert_eq!(here("link", STRANGER), [one.pid()]);
        assert_eq!(here("repo/nested", STRANGER), [nested.pid()]);
        assert_eq!(here("repo", std::process::id()), [0; 0], "children are ours");
        assert_eq!(here("repo", one.pid()), [0; 0], "nobody is a peer of itself");
        drop(one);
        assert_eq!(here("repo", STRANGER), [0; 0]);
    }

    #[test]
    fn free_percent_output() {
        for (stdout, expected) in
            [("47\n", Some(47)), (" 0 ", Some(0)), ("101", None), ("", None), ("x", None)]
        {
            assert_eq!(parse_free_percent(stdout.as_bytes()).value().copied(), expected, "{stdout:?}");
        }
    }
}
