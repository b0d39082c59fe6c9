//! Other Claude sessions on the host, counted as process *trees*.
//!
//! One session is several processes (sub-agents' helpers, MCP servers of the same program, a wrapper script),
//! so a process counts only when no ancestor of it is a Claude process, and never when it or an ancestor is
//! ours. The name has to fit exactly: `claude-squad`, `vim claude` and `grep claude` are no sessions.

use std::collections::HashMap;
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
}
