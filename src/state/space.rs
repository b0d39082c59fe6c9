//! Room on a file system.

use std::path::Path;

use rustix::fs::statvfs;

/// Bytes that this user may still write to the file system that `path` is on; `None` when that cannot be read,
/// or the file system does not count.
#[must_use]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = statvfs(path).ok()?;
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_has_room_or_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert_eq!(free_bytes(Path::new("/nowhere/at/all")), None);
        // Nothing can be written there, and no size says so.
        if Path::new("/proc/self").exists() {
            assert_eq!(free_bytes(Path::new("/proc/self")), None);
        }
    }
}
