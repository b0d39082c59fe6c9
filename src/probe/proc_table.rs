//! The process table of Linux: `/proc/<pid>/stat`, `cmdline` and `exe`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::peers::ProcessRow;

/// What is read of a file: a stat line always fits, and so do the first arguments of every command.
const READ: usize = 4096;

/// The kernel's flag for its own threads (`PF_KTHREAD`).
const KERNEL_THREAD: u32 = 0x0020_0000;

/// Every live process below `root`. A process that ends while it is read is left out, and so are zombies and
/// kernel threads.
pub(super) fn read(root: &Path) -> Result<Vec<ProcessRow>, String> {
    let proc = root.join("proc");
    let entries = std::fs::read_dir(&proc).map_err(|error| format!("cannot list /proc: {error}"))?;
    let mut rows = Vec::new();
    let mut buffer = [0; READ];
    for entry in entries {
        let entry = entry.map_err(|error| format!("cannot list /proc: {error}"))?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        rows.extend(process(&entry.path(), pid, &mut buffer));
    }
    Ok(rows)
}

fn process(dir: &Path, pid: u32, buffer: &mut [u8; READ]) -> Option<ProcessRow> {
    let (comm, parent) = parse_stat(begin(&dir.join("stat"), buffer).ok()?)?;
    let argv = begin(&dir.join("cmdline"), buffer).map(arguments).unwrap_or_default();
    // Refused for processes of other users; the names above have to do then.
    let exe = std::fs::read_link(dir.join("exe")).ok();
    Some(ProcessRow { pid, parent, comm, exe, argv })
}

/// The beginning of a file, in one read: this runs for every process of the host.
fn begin<'b>(path: &Path, buffer: &'b mut [u8; READ]) -> io::Result<&'b [u8]> {
    let length = File::open(path)?.read(buffer)?;
    Ok(&buffer[..length])
}

/// `pid (comm) state ppid pgrp session tty tpgid flags …`. The name can hold anything, closing parentheses
/// too, so the last one ends it. `None` for a zombie, a kernel thread and for what is no such line.
fn parse_stat(stat: &[u8]) -> Option<(OsString, u32)> {
    let open = stat.iter().position(|b| *b == b'(')?;
    let close = stat.iter().rposition(|b| *b == b')').filter(|close| *close > open)?;
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut rest = rest.split_ascii_whitespace();
    let state = rest.next()?;
    let parent = rest.next()?.parse().ok()?;
    let flags: u32 = rest.nth(4).and_then(|flags| flags.parse().ok()).unwrap_or(0);
    let counts = !matches!(state, "Z" | "X") && flags & KERNEL_THREAD == 0;
    counts.then(|| (OsStr::from_bytes(&stat[open + 1..close]).to_owned(), parent))
}

/// NUL-terminated arguments. A program that rewrites its title leaves one string and a run of NULs.
fn arguments(cmdline: &[u8]) -> Vec<OsString> {
    let end = cmdline.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    match &cmdline[..end] {
        [] => Vec::new(),
        bytes => bytes.split(|b| *b == 0).map(|arg| OsStr::from_bytes(arg).to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        for (line, expected) in [
            ("7 (claude) S 3 7 7 0", Some(("claude", 3))),
            ("7 (a) b) (c) R 3 7", Some(("a) b) (c", 3))),
            ("7 (tmux: server) S 1 7", Some(("tmux: server", 1))),
            ("7 (claude) Z 3 7", None),
            ("7 (claude) S 3 7 7 0 -1 4194304 1", Some(("claude", 3))),
            ("7 (kworker/0:1) I 2 0 0 0 -1 69238880 0", None),
            ("7 (claude) X 3 7", None),
            ("7 (claude) S", None),
            ("7 claude S 3", None),
            (")(", None),
            ("", None),
        ] {
            let expected = expected.map(|(comm, parent)| (OsString::from(comm), parent));
            assert_eq!(parse_stat(line.as_bytes()), expected, "{line:?}");
        }
        assert!(parse_stat(b"7 (\xff) S 3 7").is_some(), "a name is bytes");
    }

    #[test]
    fn command_lines() {
        for (bytes, expected) in [
            (&b"claude\0-p\0"[..], &["claude", "-p"][..]),
            (b"claude\0\0\0\0\0", &["claude"]),
            (b"sh\0-c\0\0x\0", &["sh", "-c", "", "x"]),
            (b"title without an end", &["title without an end"]),
            (b"", &[]),
            (b"\0\0", &[]),
        ] {
            assert_eq!(
                arguments(bytes),
                expected.iter().map(OsString::from).collect::<Vec<_>>(),
                "{bytes:?}"
            );
        }
    }
}
