//! What a run is called, and how the name is made unique.
//!
//! The readable id is upstream's (upstream-formats §5.1): `<branch>-<YYYY-MM-DD>-<HHMM>-autopilot`, UTC. It
//! has the resolution of a minute, so two runs of one branch can collide; the folder of the run is made with
//! an exclusive `mkdir`, and whoever comes second gets `-2`, and so on. An id is thus unique per repository.
//!
//! Deviations from upstream, all for names that would be awkward on a command line or as a folder: leading
//! dashes are taken off, an empty rest becomes `unknown`, and a branch is cut at [`MAX_BRANCH`] characters.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;

use jiff::Timestamp;

use super::atomic::FileError;
use super::layout::{Layout, RunDir};

/// Longest branch part of an id, in characters; the id must fit a file name (255 bytes) with room to spare.
pub const MAX_BRANCH: usize = 160;

/// Runs of one branch that may start within one minute before we suspect something else is wrong.
const MAX_COLLISIONS: u32 = 1000;

/// The id of a run started at `now` on `branch` (`None` when detached or not known).
#[must_use]
pub fn base_id(branch: Option<&str>, now: Timestamp) -> String {
    let mut name = String::new();
    for c in branch.unwrap_or_default().chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
            name.push(c);
        } else if !name.ends_with('\0') {
            // A placeholder, so that a run of foreign characters next to a real dash keeps both.
            name.push('\0');
        }
    }
    let name = name.replace('\0', "-");
    let name: String = name.trim_start_matches('-').chars().take(MAX_BRANCH).collect();
    let name = if name.is_empty() { "unknown" } else { &name };
    format!("{name}-{}-autopilot", now.strftime("%Y-%m-%d-%H%M"))
}

/// When an id says its run started, and its collision number, as a key that sorts by age.
///
/// `None` for a name that is not a run id.
#[must_use]
pub fn age_key(run_id: &str) -> Option<(String, u32)> {
    let (head, tail) = run_id.rsplit_once("-autopilot")?;
    let number = match tail.strip_prefix('-') {
        Some(number) => number.parse().ok()?,
        None if tail.is_empty() => 1,
        None => return None,
    };
    let at = head.len().checked_sub("2026-04-25-0842".len())?;
    let stamp = head.get(at..)?;
    let shape = stamp.bytes().enumerate().all(|(index, byte)| match index {
        4 | 7 | 10 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    shape.then(|| (stamp.to_owned(), number))
}

/// Makes the folder of a run, exclusively, and returns the id that it got.
///
/// [`Layout::prepare`] must have been called.
pub fn claim_run_dir(layout: &Layout, base_id: &str) -> Result<(String, RunDir), FileError> {
    for number in 1..=MAX_COLLISIONS {
        let run_id = if number == 1 { base_id.to_owned() } else { format!("{base_id}-{number}") };
        let path = layout.runs().join(&run_id);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {
                let run = RunDir::new(path);
                let stream = run.stream();
                DirBuilder::new()
                    .mode(0o700)
                    .create(&stream)
                    .map_err(FileError::at("create the folder", &stream))?;
                return Ok((run_id, run));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(FileError::at("create the folder", &path)(error)),
        }
    }
    let source = io::Error::new(io::ErrorKind::AlreadyExists, "too many runs within one minute");
    Err(FileError::at("create the folder", &layout.runs().join(base_id))(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_upstream() {
        let now: Timestamp = "2026-04-25T08:42:59.999Z".parse().unwrap();
        let long = "x".repeat(300);
        let check = |branch: Option<&str>, expected: &str| {
            assert_eq!(base_id(branch, now), format!("{expected}-2026-04-25-0842-autopilot"), "{branch:?}");
        };
        check(Some("main"), "main");
        check(Some("feat/x y"), "feat-x-y");
        check(Some("feat//x"), "feat-x");
        check(Some("a-/b"), "a--b");
        check(Some("v1.2_x"), "v1.2_x");
        check(None, "unknown");
        check(Some(""), "unknown");
        check(Some("日本"), "unknown");
        check(Some("-x"), "x");
        check(Some("../../etc"), "..-..-etc");
        check(Some(&long), &"x".repeat(MAX_BRANCH));
    }

    #[test]
    fn utc_whatever_the_offset() {
        let now: Timestamp = "2026-01-01T00:30:00+02:00".parse().unwrap();
        assert_eq!(base_id(Some("main"), now), "main-2025-12-31-2230-autopilot");
    }

    #[test]
    fn collisions_get_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        layout.prepare().unwrap();
        let ids: Vec<_> =
            (0..3).map(|_| claim_run_dir(&layout, "m-2026-04-25-0842-autopilot").unwrap().0).collect();
        assert_eq!(
            ids,
            ["m-2026-04-25-0842-autopilot", "m-2026-04-25-0842-autopilot-2", "m-2026-04-25-0842-autopilot-3"]
        );
    }

    #[test]
    fn claims_are_exclusive_between_threads() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        layout.prepare().unwrap();
        let mut ids: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| claim_run_dir(&layout, "m-2026-04-25-0842-autopilot").unwrap().0))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 8);
    }

    #[test]
    fn keys_sort_by_age() {
        let mut ids = [
            "zz-2026-04-25-0842-autopilot",
            "aa-2026-04-25-0842-autopilot-10",
            "aa-2026-04-25-0842-autopilot-2",
            "aa-2025-12-31-2359-autopilot",
        ];
        ids.sort_by_key(|id| age_key(id));
        assert_eq!(
            ids,
            [
                "aa-2025-12-31-2359-autopilot",
                "zz-2026-04-25-0842-autopilot",
                "aa-2026-04-25-0842-autopilot-2",
                "aa-2026-04-25-0842-autopilot-10",
            ]
        );
        for no in ["", "-autopilot", "x-autopilot", "m-2026-04-25-0842-autopilot-x", "é2026-04-25-0842x"] {
            assert_eq!(age_key(no), None, "{no}");
        }
    }
}
