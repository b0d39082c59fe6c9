//! What the memory limits of the own control group and its ancestors leave.
//!
//! Every ancestor limits the sum of what is below it, so the tightest one counts. Both versions are looked at,
//! because a hybrid system has both mounted. `memory.high` of version 2 counts like a limit: above it the
//! kernel throttles and reclaims, which is what the verdict wants to avoid. File cache that can be dropped at
//! once (`inactive_file`) is not counted as used.

use std::io;
use std::path::{Component, Path, PathBuf};

use super::read;
use crate::core::resources::Reading;

/// From this size on a version 1 limit means "none": the kernel's default is 2^63 rounded down to a page.
const V1_UNLIMITED: u64 = 1 << 62;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// The directory of the own group and the mount point above it, as the machine sees them.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    version: Version,
    mount: PathBuf,
    dir: PathBuf,
}

/// Bytes left below the tightest limit. [`Reading::Absent`] when nothing is limited; a level that cannot be
/// read is a failure only when no other level has a limit.
pub(super) fn headroom(root: &Path) -> Reading<u64> {
    let groups = match (read(root, "proc/self/cgroup"), read(root, "proc/self/mountinfo")) {
        (Ok(cgroup), Ok(mountinfo)) => own_groups(&cgroup, &mountinfo),
        // A kernel without control groups has no such file.
        (Err(_), _) if !root.join("proc/self/cgroup").exists() => return Reading::Absent,
        (Err(why), _) | (_, Err(why)) => return Reading::Failed(why),
    };
    let mut tightest = None;
    let mut failure = None;
    for group in groups {
        for dir in group.dir.ancestors().take_while(|dir| dir.starts_with(&group.mount)) {
            match level(root, dir, group.version) {
                Ok(Some(left)) => tightest = Some(tightest.map_or(left, |least: u64| least.min(left))),
                Ok(None) => {}
                Err(why) => failure = Some(why),
            }
        }
    }
    match (tightest, failure) {
        (Some(left), _) => Reading::Value(left),
        (None, Some(why)) => Reading::Failed(why),
        (None, None) => Reading::Absent,
    }
}

/// What one group leaves; `None` when it has no limit.
fn level(root: &Path, dir: &Path, version: Version) -> Result<Option<u64>, String> {
    let (limits, usage, cache): (&[&str], _, _) = match version {
        Version::V1 => (&["memory.limit_in_bytes"], "memory.usage_in_bytes", "total_inactive_file"),
        Version::V2 => (&["memory.max", "memory.high"], "memory.current", "inactive_file"),
    };
    let mut limit: Option<u64> = None;
    for file in limits {
        let Some(text) = optional(root, dir, file)? else { continue };
        let value = match text.trim() {
            "max" => continue,
            number => number.parse::<u64>().map_err(|_| unreadable(dir, file, number))?,
        };
        if version == Version::V2 || value < V1_UNLIMITED {
            limit = Some(limit.map_or(value, |least| least.min(value)));
        }
    }
    let Some(limit) = limit else { return Ok(None) };
    let Some(used) = optional(root, dir, usage)? else {
        return Err(format!("{} is limited but has no {usage}", dir.display()));
    };
    let used = used.trim().parse::<u64>().map_err(|_| unreadable(dir, usage, used.trim()))?;
    // Without the statistics the cache counts as used: that errs on the careful side and makes nothing up.
    let stat = optional(root, dir, "memory.stat")?.unwrap_or_default();
    let droppable = stat
        .lines()
        .find_map(|line| line.strip_prefix(cache)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
        .unwrap_or(0);
    Ok(Some(limit.saturating_sub(used.saturating_sub(droppable))))
}

fn unreadable(dir: &Path, file: &str, text: &str) -> String {
    format!("{}: not a size: {text:?}", dir.join(file).display())
}

/// A file of a group; `None` when it is not there (the root group has no limits, a group without the memory
/// controller neither).
fn optional(root: &Path, dir: &Path, file: &str) -> Result<Option<String>, String> {
    let path = dir.join(file);
    match std::fs::read_to_string(below(root, &path)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The memory groups of the own process: at most one of each version.
fn own_groups(cgroup: &str, mountinfo: &str) -> Vec<Group> {
    let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
    let mut groups = Vec::new();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let version = match controllers {
            "" => Version::V2,
            list if list.split(',').any(|name| name == "memory") => Version::V1,
            _ => continue,
        };
        // The last mount hides the earlier ones on the same place, so it is the one to take.
        let Some(mount) = mounts.iter().rev().find(|mount| mount.version == version) else { continue };
        groups.push(Group { version, dir: mount.directory(Path::new(path)), mount: mount.point.clone() });
    }
    groups
}

/// A mounted hierarchy that has, or can have, the memory controller.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that is visible at the mount point.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// A line of mountinfo: `id parent device root point options [tags…] - type source superoptions`.
    fn parse(line: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (unescape(left.next()?), unescape(left.next()?));
        let mut right = right.split(' ');
        let version = match right.next()? {
            "cgroup2" => Version::V2,
            "cgroup" if right.nth(1)?.split(',').any(|option| option == "memory") => Version::V1,
            _ => return None,
        };
        Some(Self { version, root, point })
    }

    /// Where the group `path` is visible. A path outside of what the mount shows (another namespace, a
    /// container that only has its own group mounted) is taken for the mount point itself.
    fn directory(&self, path: &Path) -> PathBuf {
        let escapes = path.components().any(|part| part == Component::ParentDir);
        match path.strip_prefix(&self.root) {
            Ok(relative) if !escapes && !relative.as_os_str().is_empty() => self.point.join(relative),
            _ => self.point.clone(),
        }
    }
}

/// Undoes the octal escapes of mountinfo (`\040` is a space).
fn unescape(field: &str) -> PathBuf {
    let mut out = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok());
        if let Some(code) = code.filter(u8::is_ascii) {
            out.push(char::from(code));
            rest = &rest[at + 4..];
        } else {
            out.push('\\');
            rest = &rest[at + 1..];
        }
    }
    out.push_str(rest);
    PathBuf::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

    #[test]
    fn the_directory_of_the_own_group() {
        let v1 = |root: &str| format!("35 31 0:32 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
        let table: [(&str, &str, String, &str); 8] = [
            ("v2", "0::/user.slice/a.scope", V2.to_owned(), "/sys/fs/cgroup/user.slice/a.scope"),
            ("v2, root of its namespace", "0::/", V2.to_owned(), "/sys/fs/cgroup"),
            ("v2, outside of its namespace", "0::/../other", V2.to_owned(), "/sys/fs/cgroup"),
            ("v1", "4:memory:/a/b", v1("/"), "/sys/fs/cgroup/memory/a/b"),
            ("v1, several controllers", "4:cpu,memory:/a", v1("/"), "/sys/fs/cgroup/memory/a"),
            (
                "container that sees its own group",
                "4:memory:/docker/abc",
                v1("/docker/abc"),
                "/sys/fs/cgroup/memory",
            ),
            ("a group below it", "4:memory:/docker/abc/x", v1("/docker/abc"), "/sys/fs/cgroup/memory/x"),
            ("mounted from elsewhere", "4:memory:/docker/abc", v1("/docker/other"), "/sys/fs/cgroup/memory"),
        ];
        for (name, cgroup, mountinfo, expected) in table {
            let groups = own_groups(cgroup, &mountinfo);
            assert_eq!(
                groups.iter().map(|g| g.dir.clone()).collect::<Vec<_>>(),
                [PathBuf::from(expected)],
                "{name}"
            );
        }
        assert_eq!(own_groups("4:cpu:/a\nbad line\n1:name=systemd:/", &v1("/")), []);
        assert_eq!(own_groups("0::/a", "nonsense"), []);
        assert_eq!(own_groups("0::/\n4:memory:/", &format!("{V2}\n{}", v1("/"))).len(), 2, "hybrid");
    }

    #[test]
    fn escapes_in_mount_points() {
        for (field, expected) in [
            ("/a\\040b", "/a b"),
            ("/a\\134b", "/a\\b"),
            ("/a\\", "/a\\"),
            ("/a\\9x", "/a\\9x"),
            ("/é\\04", "/é\\04"),
        ] {
            assert_eq!(unescape(field), PathBuf::from(expected), "{field}");
        }
    }

    #[test]
    fn one_level() {
        // Files of one group and what it leaves.
        type Case = (Version, &'static [(&'static str, &'static str)], Result<Option<u64>, &'static str>);
        let table: &[Case] = &[
            (Version::V2, &[("memory.max", "max\n"), ("memory.current", "5\n")], Ok(None)),
            (Version::V2, &[("memory.max", "100\n"), ("memory.current", "30\n")], Ok(Some(70))),
            (
                Version::V2,
                &[
                    ("memory.max", "100"),
                    ("memory.current", "30"),
                    ("memory.stat", "anon 10\ninactive_file 20\nactive_file 9\n"),
                ],
                Ok(Some(90)),
            ),
            (
                Version::V2,
                &[("memory.max", "100"), ("memory.high", "60"), ("memory.current", "30")],
                Ok(Some(30)),
            ),
            (Version::V2, &[("memory.max", "100"), ("memory.current", "130")], Ok(Some(0))),
            (Version::V2, &[("memory.max", "0"), ("memory.current", "0")], Ok(Some(0))),
            (Version::V2, &[("memory.max", "100")], Err("no memory.current")),
            (Version::V2, &[("memory.max", "lots"), ("memory.current", "1")], Err("memory.max: not a size")),
            (Version::V2, &[], Ok(None)),
            (
                Version::V1,
                &[("memory.limit_in_bytes", "9223372036854771712"), ("memory.usage_in_bytes", "5")],
                Ok(None),
            ),
            (
                Version::V1,
                &[
                    ("memory.limit_in_bytes", "100"),
                    ("memory.usage_in_bytes", "50"),
                    ("memory.stat", "inactive_file 1\ntotal_inactive_file 20"),
                ],
                Ok(Some(70)),
            ),
        ];
        for (version, files, expected) in table {
            let temp = tempfile::tempdir().unwrap();
            std::fs::create_dir(temp.path().join("g")).unwrap();
            for (name, text) in *files {
                let mut file = std::fs::File::create(temp.path().join("g").join(name)).unwrap();
                io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            }
            let found = level(temp.path(), Path::new("/g"), *version);
            match (expected, found) {
                (Ok(expected), found) => assert_eq!(found, Ok(*expected), "{files:?}"),
                (Err(part), Err(why)) => assert!(why.contains(part), "{why}"),
                (Err(_), Ok(found)) => panic!("{files:?}: {found:?}"),
            }
        }
    }
}
