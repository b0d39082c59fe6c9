//! `git status --porcelain=v2 --branch -z`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Oid;
use super::run::path;

/// Files whose size and time go into the fingerprint; the names of all others do.
const FILES_LOOKED_AT: usize = 5_000;

/// The parsed answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing<'a> {
    pub head: Option<Oid>,
    pub branch: Option<String>,
    pub dirty: u64,
    pub untracked: u64,
    /// The answer was cut.
    pub cut: bool,
    /// Every record about a file: all of it, and the path in it.
    files: Vec<(&'a [u8], &'a [u8])>,
}

/// Parses the answer; a cut one loses its last, incomplete record. Unknown records are skipped.
pub(super) fn parse(bytes: &[u8], truncated: bool) -> Listing<'_> {
    let mut listing = Listing { cut: truncated, ..Listing::default() };
    let complete = bytes.iter().rposition(|b| *b == 0).map_or(&bytes[..0], |end| &bytes[..end]);
    let mut records = complete.split(|b| *b == 0);
    while let Some(record) = records.next() {
        let fields_before_path = match record.first() {
            Some(b'#') => {
                header(record, &mut listing);
                continue;
            }
            Some(b'1') => 8,
            Some(b'2') => {
                // The old name is a record of its own.
                records.next();
                9
            }
            Some(b'u') => 10,
            Some(b'?') => 1,
            _ => continue,
        };
        let Some(path) = record.splitn(fields_before_path + 1, |b| *b == b' ').nth(fields_before_path) else {
            continue;
        };
        if fields_before_path == 1 {
            listing.untracked += 1;
        } else {
            listing.dirty += 1;
        }
        listing.files.push((record, path));
    }
    listing
}

fn header(record: &[u8], listing: &mut Listing<'_>) {
    let text = String::from_utf8_lossy(record);
    if let Some(oid) = text.strip_prefix("# branch.oid ") {
        listing.head = Oid::parse(oid);
    } else if let Some(branch) = text.strip_prefix("# branch.head ") {
        listing.branch = (branch != "(detached)").then(|| branch.to_owned());
    }
}

/// A hash of the dirty state: 0 for a clean tree. The status alone does not change when a dirty file is
/// edited again, so size and time of the files go in, too.
pub(super) fn fingerprint(root: &Path, listing: &Listing<'_>) -> u64 {
    if listing.files.is_empty() {
        return 0;
    }
    let mut hash = Fnv::default();
    for (at, (record, file)) in listing.files.iter().enumerate() {
        hash.add(record);
        if at < FILES_LOOKED_AT
            && let Ok(meta) = root.join(path(file)).symlink_metadata()
        {
            for number in [meta.size(), meta.mtime().cast_unsigned(), meta.mtime_nsec().cast_unsigned()] {
                hash.add(&number.to_le_bytes());
            }
        }
        hash.add(&[0]);
    }
    hash.0
}

/// FNV-1a, 64 bits: the fingerprint is stored and compared by later versions of this program, which the hasher
/// of the standard library does not promise.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn records() {
        let one = format!("1 .M N... 100644 100644 100644 {OID} {OID} a b.txt");
        let two = format!("2 R. N... 100644 100644 100644 {OID} {OID} R100 new name");
        let unmerged = format!("u UU N... 100644 100644 100644 100644 {OID} {OID} {OID} c");
        let text = format!(
            "# branch.oid {OID}\0# branch.head main\0# stash 1\0{one}\0{two}\0old name\0{unmerged}\0? x\0! ignored\0"
        );
        let listing = parse(text.as_bytes(), false);
        assert_eq!(listing.head.as_ref().map(Oid::as_str), Some(OID));
        assert_eq!((listing.branch.as_deref(), listing.dirty, listing.untracked), (Some("main"), 3, 1));
        let paths: Vec<_> = listing.files.iter().map(|(_, path)| *path).collect();
        assert_eq!(paths, [&b"a b.txt"[..], b"new name", b"c", b"x"]);
    }

    #[test]
    fn states_without_a_commit_or_a_branch() {
        for (text, head, branch) in [
            ("# branch.oid (initial)\0# branch.head trunk\0".to_owned(), false, Some("trunk")),
            (format!("# branch.oid {OID}\0# branch.head (detached)\0"), true, None),
            (String::new(), false, None),
        ] {
            let listing = parse(text.as_bytes(), false);
            assert_eq!((listing.head.is_some(), listing.branch.as_deref()), (head, branch), "{text:?}");
            assert_eq!(fingerprint(Path::new("/nowhere"), &listing), 0);
        }
    }

    #[test]
    fn a_cut_answer_loses_only_its_last_record() {
        let listing = parse(b"? a\0? b\0? c", true);
        assert_eq!((listing.untracked, listing.cut), (2, true));
        assert_eq!(parse(b"? a", true).untracked, 0);
        assert_eq!(
            parse(b"1 x\0? \xff\xfe\0", false).untracked,
            1,
            "bad records are skipped, paths are bytes"
        );
    }
}
