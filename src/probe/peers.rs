//! Other Claude sessions on the host, counted as process *trees*.
//!
//! One session is several processes (sub-agents' helpers, MCP servers of the same program, a wrapper script),
//! so a process counts only when no ancestor of it is a Claude process, and never when it or an ancestor is
//! ours. The name has to fit exactly: `claude-squad`, `vim claude` and `grep claude` are no sessions.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// One process of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessRow {
    /// Process id.
    pub pid: u32,
    /// Parent's process id, 0 for none.
    pub parent: u32,
    /// The kernel's short name.
    pub comm: OsString,
    /// The executable, when it may be read.
    pub exe: Option<PathBuf>,
    /// The arguments, the program first.
    pub argv: Vec<OsString>,
}

/// Script runtimes that run Claude Code as a file.
const RUNTIMES: [&str; 3] = ["node", "nodejs", "bun"];

/// Options of those runtimes that take the next argument as their value.
const WITH_VALUE: [&str; 8] =
    ["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--env-file"];

/// Whether the process is Claude Code: by its short name, its executable or the program it was called as, or as
/// a script run by node or bun.
pub fn is_claude(row: &ProcessRow) -> bool {
    let called = row.argv.first().and_then(|program| Path::new(program).file_name());
    let exe = row.exe.as_deref().and_then(Path::file_name);
    let named = |name: &str| [Some(row.comm.as_os_str()), called, exe].contains(&Some(OsStr::new(name)));
    named("claude") || (RUNTIMES.into_iter().any(named) && script(&row.argv).is_some_and(is_claude_script))
}

/// The script that a runtime runs: the first argument that is no option and no option's value.
fn script(argv: &[OsString]) -> Option<&Path> {
    let mut rest = argv.iter().skip(1);
    while let Some(arg) = rest.next() {
        let text = arg.to_string_lossy();
        match &*text {
            "-e" | "--eval" | "-p" | "--print" => return None,
            "run" => {}
            option if WITH_VALUE.contains(&option) => {
                rest.next();
            }
            option if option.starts_with('-') => {}
            _ => return Some(Path::new(arg)),
        }
    }
    None
}

fn is_claude_script(script: &Path) -> bool {
    script.ends_with("claude-code/cli.js") || script.file_name() == Some(OsStr::new("claude"))
}

/// Counts the Claude process trees of `table` without ours. `is_ours` is asked about Claude processes and
/// their ancestors.
pub fn count_peers(table: &[ProcessRow], is_ours: &dyn Fn(u32) -> bool) -> u64 {
    let claudes: HashMap<u32, bool> = table.iter().map(|row| (row.pid, is_claude(row))).collect();
    let parents: HashMap<u32, u32> = table.iter().map(|row| (row.pid, row.parent)).collect();
    let ancestors = |pid: u32| {
        std::iter::successors(parents.get(&pid).copied(), |pid| parents.get(pid).copied())
            // The table is not read at one moment: a reused id can make a circle.
            .take(table.len())
    };
    let counts = |row: &&ProcessRow| {
        claudes.get(&row.pid) == Some(&true)
            && !is_ours(row.pid)
            && !ancestors(row.pid).any(|pid| claudes.get(&pid) == Some(&true) || is_ours(pid))
    };
    table.iter().filter(counts).count() as u64
}

/// The Claude sessions of `table` that work where `is_here` says, without that of `own` and the one it runs
/// in: of each process tree the Claude processes that are here and below no other such process, by pid.
/// `is_here` is asked about Claude processes only.
///
/// The tree around `own` is left out as a whole: a session that starts a run from inside (`--allow-nested`)
/// waits for that run, and so do its helpers.
pub(super) fn sessions_here(table: &[ProcessRow], own: u32, is_here: &dyn Fn(u32) -> bool) -> Vec<u32> {
    let parents: HashMap<u32, u32> = table.iter().map(|row| (row.pid, row.parent)).collect();
    let claudes: HashSet<u32> = table.iter().filter(|row| is_claude(row)).map(|row| row.pid).collect();
    // Itself first. The table is not read at one moment: a reused id can make a circle.
    let line =
        |pid: u32| std::iter::successors(Some(pid), |pid| parents.get(pid).copied()).take(table.len() + 1);
    let own_line: HashSet<u32> = line(own).collect();
    let here: HashSet<u32> = claudes
        .iter()
        .copied()
        .filter(|pid| !line(*pid).any(|above| above == own))
        .filter(|pid| {
            let root = line(*pid).filter(|above| claudes.contains(above)).last();
            !root.is_some_and(|root| own_line.contains(&root))
        })
        .filter(|pid| is_here(*pid))
        .collect();
    let mut sessions: Vec<u32> = here
        .iter()
        .copied()
        .filter(|pid| !line(*pid).any(|above| above != *pid && here.contains(&above)))
        .collect();
    sessions.sort_unstable();
    sessions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, parent: u32, comm: &str, argv: &[&str]) -> ProcessRow {
        let argv = argv.iter().map(OsString::from).collect();
        ProcessRow { pid, parent, comm: comm.into(), exe: None, argv }
    }

    #[test]
    fn which_process_is_claude() {
        let table: &[(&str, &[&str], bool)] = &[
            ("claude", &["claude", "-p"], true),
            ("claude", &[], true),
            ("MainThread", &["/home/u/.local/bin/claude", "--resume", "x"], true),
            ("node", &["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js", "-p"], true),
            (
                "node",
                &["/usr/bin/node", "--max-old-space-size=4096", "-r", "x.js", "/usr/local/bin/claude"],
                true,
            ),
            ("MainThread", &["node", "/x/claude-code/cli.js"], true),
            ("bun", &["bun", "run", "/x/claude-code/cli.js"], true),
            ("claude-squad", &["claude-squad"], false),
            ("Claude", &["/Applications/Claude.app/Contents/MacOS/Claude"], false),
            ("vim", &["vim", "claude"], false),
            ("vim", &["vim", "/x/claude-code/cli.js"], false),
            ("grep", &["grep", "claude"], false),
            ("bash", &["bash", "-c", "claude -p"], false),
            ("node", &["node", "server.js", "/usr/local/bin/claude"], false),
            ("node", &["node", "-e", "/usr/local/bin/claude"], false),
            ("node", &["node", "-r", "/x/claude-code/cli.js", "server.js"], false),
            ("node", &["node", "/x/not-claude-code/cli.js"], false),
            ("node", &["node"], false),
            ("kworker/0:1", &[], false),
            ("", &[""], false),
        ];
        for (comm, argv, expected) in table {
            assert_eq!(is_claude(&row(2, 1, comm, argv)), *expected, "{comm} {argv:?}");
        }
        let by_exe = ProcessRow { exe: Some("/opt/claude".into()), ..row(2, 1, "MainThread", &["worker"]) };
        assert!(is_claude(&by_exe));
    }

    #[test]
    fn trees_count_once_and_ours_never() {
        let claude = |pid, parent| row(pid, parent, "claude", &["claude"]);
        let other = |pid, parent| row(pid, parent, "bash", &["bash"]);
        let one_tree = vec![other(1, 0), claude(10, 1), other(11, 10), claude(12, 11), claude(13, 10)];
        let table: Vec<(&str, Vec<ProcessRow>, &[u32], u64)> = vec![
            ("nothing", vec![], &[], 0),
            ("a tree with three of them", one_tree.clone(), &[], 1),
            ("ours by its root", one_tree.clone(), &[10], 0),
            ("ours by the parent of all", one_tree.clone(), &[1], 0),
            ("only a part of it is ours", one_tree, &[12], 1),
            ("two trees", vec![claude(10, 1), claude(20, 1)], &[], 2),
            ("two trees, one ours", vec![claude(10, 1), claude(20, 1)], &[20], 1),
            ("descends from us", vec![other(5, 1), other(6, 5), claude(7, 6), claude(9, 1)], &[5], 1),
            ("we run inside a session", vec![claude(3, 1), other(5, 3), claude(7, 5)], &[5], 1),
            ("a circle of reused ids", vec![claude(10, 11), other(11, 12), other(12, 11)], &[], 1),
            ("its own parent", vec![other(10, 10), claude(11, 10)], &[], 1),
        ];
        for (name, rows, ours, expected) in table {
            assert_eq!(count_peers(&rows, &|pid| ours.contains(&pid)), expected, "{name}");
        }
    }

    #[test]
    fn sessions_by_where_they_work() {
        let claude = |pid, parent| row(pid, parent, "claude", &["claude"]);
        let other = |pid, parent| row(pid, parent, "bash", &["bash"]);
        // Ours is 5, below the shell 1.
        let ours = vec![other(1, 0), other(5, 1), claude(6, 5), other(7, 6), claude(8, 7)];
        let with = |rows: &[ProcessRow]| [ours.clone(), rows.to_vec()].concat();
        let table = [
            ("ours are none", with(&[]), &[1, 5, 6, 7, 8][..], &[][..]),
            ("one here", with(&[claude(20, 1)]), &[20], &[20]),
            ("one elsewhere", with(&[claude(20, 1)]), &[], &[]),
            ("only sessions are asked for", with(&[other(20, 1)]), &[20], &[]),
            ("several, by pid", with(&[claude(30, 1), claude(20, 1)]), &[30, 20], &[20, 30]),
            ("its helpers are not counted", with(&[claude(20, 1), claude(21, 20)]), &[20, 21], &[20]),
            ("a helper was sent here", with(&[claude(20, 1), other(21, 20), claude(22, 21)]), &[22], &[22]),
            (
                "we run inside a session, which has helpers",
                vec![claude(3, 1), other(4, 3), other(5, 4), claude(6, 5), claude(9, 3)],
                &[3, 6, 9],
                &[],
            ),
            ("inside one, beside another", vec![claude(3, 1), other(5, 3), claude(20, 1)], &[3, 20], &[20]),
            ("a circle of reused ids", with(&[claude(20, 21), other(21, 22), other(22, 20)]), &[20], &[20]),
        ];
        for (name, rows, here, expected) in table {
            assert_eq!(sessions_here(&rows, 5, &|pid| here.contains(&pid)), expected, "{name}");
        }
    }
}
