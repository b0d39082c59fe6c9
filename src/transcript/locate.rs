//! Where the transcript of a session is.
//!
//! The CLI writes `<config dir>/projects/<ENC>/<session id>.jsonl`. ENC is the resolved working directory with
//! every UTF-16 unit outside `[A-Za-z0-9]` replaced by `-`; over 200 units it is cut and gets a hash, whose
//! rule has changed between versions (field-reports I13), and `CLAUDE_CODE_PROJECT_DIR_NAME` replaces it
//! altogether. So the computed name is only the first place to look: every project directory is asked for the
//! id, and when several have it, the insides decide.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::head::Head;
use super::{TranscriptError, digest, open};
use crate::core::transcript_digest::Resumable;

/// Longest encoded name that the CLI uses uncut.
const LONGEST_NAME: usize = 200;

/// A transcript that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The file.
    pub path: PathBuf,
    /// It is in the directory that the encoding rule gives for the working directory.
    pub expected_place: bool,
    /// How many project directories hold a file with this id. With more than one the CLI may refuse to resume
    /// it as "No conversation found" (field-reports H01).
    pub candidates: usize,
}

/// The configuration directory as the child sees it: `CLAUDE_CONFIG_DIR`, else `.claude` in `HOME`, both taken
/// from the environment that the *child* gets; a relative one is relative to the child's working directory.
/// `None` when neither is set.
pub fn config_dir(claude_config_dir: Option<&OsStr>, home: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    let set = |value: Option<&'_ OsStr>| value.filter(|v| !v.is_empty()).map(PathBuf::from);
    let dir = set(claude_config_dir).or_else(|| set(home).map(|home| home.join(".claude")))?;
    Some(cwd.join(dir))
}

/// ENC without the cut: each UTF-16 unit outside `[A-Za-z0-9]` becomes one `-`. Bytes that are not UTF-8 count
/// as replacement characters. The path has to be resolved already.
pub fn encode(cwd: &Path) -> String {
    let keep = |unit| u8::try_from(unit).ok().filter(u8::is_ascii_alphanumeric).map_or('-', char::from);
    cwd.to_string_lossy().encode_utf16().map(keep).collect()
}

/// Where the transcript will be when there is none yet. `None` when the name would be cut: then only
/// [`locate`] can tell.
pub fn expected_path(config_dir: &Path, cwd: &Path, session: Uuid) -> Option<PathBuf> {
    let name = encode(&resolve(cwd));
    (name.len() <= LONGEST_NAME).then(|| config_dir.join("projects").join(name).join(file_name(session)))
}

/// Finds the transcript of `session`. `cwd` is the child's working directory; links in it are followed here.
/// Of several candidates the best one counts: the right `sessionId` inside, then a message, then the right
/// `cwd` inside, then the size (field-reports I05).
///
/// # Errors
/// The projects directory exists and cannot be listed.
pub fn locate(config_dir: &Path, cwd: &Path, session: Uuid) -> Result<Option<Located>, TranscriptError> {
    let projects = config_dir.join("projects");
    let cwd = resolve(cwd);
    let expected = expected_path(config_dir, &cwd, session);
    let listing = match std::fs::read_dir(&projects) {
        Ok(listing) => listing,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(TranscriptError::io("list", &projects, source)),
    };
    let mut candidates = Vec::new();
    for dir in listing {
        let dir = dir.map_err(|source| TranscriptError::io("list", &projects, source))?;
        let path = dir.path().join(file_name(session));
        if let Ok(Some((_, size))) = open(&path) {
            candidates.push((path, size));
        }
    }
    let count = candidates.len();
    let best = match count {
        0 | 1 => candidates.pop().map(|(path, _)| path),
        _ => candidates
            .into_iter()
            .max_by_key(|(path, size)| rank(path, *size, &cwd, session))
            .map(|(path, _)| path),
    };
    Ok(best.map(|path| Located { expected_place: expected.as_ref() == Some(&path), path, candidates: count }))
}

/// Accepts a `transcript_path` that a hook reported: it has to be a file of this session under the projects
/// directory (recovery §1.1).
pub fn accept_reported(config_dir: &Path, reported: &Path, session: Uuid) -> Option<PathBuf> {
    let root = config_dir.join("projects").canonicalize().ok()?;
    let path = reported.canonicalize().ok()?;
    let named = path.file_name() == Some(OsStr::new(&file_name(session)));
    (named && path.starts_with(&root) && path.is_file()).then_some(path)
}

/// Higher is better.
fn rank(path: &Path, size: u64, cwd: &Path, session: Uuid) -> (bool, bool, bool, u64) {
    let head = match open(path) {
        Ok(Some((file, size))) => Head::read(&file, size).unwrap_or_default(),
        Ok(None) | Err(_) => Head::default(),
    };
    let has_message =
        head.has_message || digest(path, size).is_ok_and(|digest| digest.resumable == Resumable::Yes);
    let session_fits =
        head.session_id.is_none_or(|id| Uuid::try_parse(&id).is_ok_and(|inside| inside == session));
    let cwd_fits = head.cwd.is_some_and(|inside| inside == cwd.to_string_lossy());
    (session_fits, has_message, cwd_fits, size)
}

/// With links followed; as given when that is impossible (the directory was deleted).
fn resolve(cwd: &Path) -> PathBuf {
    cwd.canonicalize().unwrap_or_else(|_| cwd.to_path_buf())
}

fn file_name(session: Uuid) -> String {
    format!("{}.jsonl", session.as_hyphenated())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    const ID: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).and_then(|mut f| io::Write::write_all(&mut f, text.as_bytes())).unwrap();
    }

    fn message(id: Uuid, cwd: &str, text: &str) -> String {
        format!(
            r#"{{"type":"user","sessionId":"{id}","cwd":"{cwd}","message":{{"role":"user","content":"{text}"}}}}"#
        ) + "\n"
    }

    #[test]
    fn encoding() {
        for (path, expected) in [
            ("/home/u/my.proj", "-home-u-my-proj"),
            ("C:\\a b/c", "C--a-b-c"),
            ("/a_b  c", "-a-b--c"),
            ("/é", "--"),
            ("/漢字", "---"),
            ("/🦀x", "---x"),
            ("/A9z", "-A9z"),
        ] {
            assert_eq!(encode(Path::new(path)), expected, "{path}");
        }
        assert_eq!(encode(Path::new(OsStr::from_bytes(b"/a\xffb"))), "-a-b");
    }

    #[test]
    fn the_configuration_directory_is_the_childs() {
        let os = |s| Some(OsStr::new(s));
        for (set, home, expected) in [
            (os("/c"), os("/h"), Some("/c")),
            (os("conf"), os("/h"), Some("/proj/conf")),
            (os(""), os("/h"), Some("/h/.claude")),
            (None, os("/h"), Some("/h/.claude")),
            (None, os(""), None),
            (None, None, None),
        ] {
            assert_eq!(
                config_dir(set, home, Path::new("/proj")),
                expected.map(PathBuf::from),
                "{set:?} {home:?}"
            );
        }
    }

    #[test]
    fn the_encoded_place_a_link_a_long_name_and_a_renamed_directory() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let config = root.join("config");
        let long = root.join("x".repeat(120)).join("y".repeat(120));
        for dir in [&root.join("my.proj"), &long] {
            fs::create_dir_all(dir).unwrap();
        }
        symlink(root.join("my.proj"), root.join("link")).unwrap();

        assert_eq!(locate(&config, &root, ID).unwrap(), None, "no projects directory");
        let place = expected_path(&config, &root.join("link"), ID).expect("short");
        assert_eq!(expected_path(&config, &root.join("my.proj"), ID).as_ref(), Some(&place));
        put(&place, "");
        let found = locate(&config, &root.join("link"), ID).unwrap();
        assert_eq!(found, Some(Located { path: place.clone(), expected_place: true, candidates: 1 }));

        assert_eq!(expected_path(&config, &long, ID), None);
        let cut = encode(&long)[..200].to_owned() + "-abc123";
        fs::remove_file(&place).unwrap();
        let hashed = config.join("projects").join(cut).join(file_name(ID));
        put(&hashed, "");
        let found = locate(&config, &long, ID).unwrap();
        assert_eq!(found, Some(Located { path: hashed, expected_place: false, candidates: 1 }));
    }

    #[test]
    fn of_several_the_largest_valid_one() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let here = root.join("repo");
        fs::create_dir_all(&here).unwrap();
        let cwd = here.to_str().unwrap().to_owned();
        let other = Uuid::from_u128(7);
        let place = expected_path(&root, &here, ID).unwrap();
        let at = |name: &str| root.join("projects").join(name).join(file_name(ID));

        // A stub in the right place, the conversation elsewhere, and a bigger file of another session.
        put(&place, "");
        put(&at("copied"), &message(ID, "/elsewhere", "hello"));
        put(&at("wrong"), &message(other, &cwd, &"z".repeat(5000)));
        put(&root.join("projects/plain-file"), "not a directory");
        let found = locate(&root, &here, ID).unwrap().expect("found");
        assert_eq!((found.path, found.candidates), (at("copied"), 3));

        // The right working directory beats the size; on equal terms the larger one wins.
        put(&at("larger"), &message(ID, "/elsewhere", &"z".repeat(500)));
        assert_eq!(locate(&root, &here, ID).unwrap().map(|f| f.path), Some(at("larger")));
        put(&place, &message(ID, &cwd, "hi"));
        let found = locate(&root, &here, ID).unwrap().expect("found");
        assert_eq!((found.path, found.expected_place), (place, true));
    }

    #[test]
    fn a_reported_path_has_to_be_ours() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let inside = root.join("projects/p").join(file_name(ID));
        let outside = root.join("elsewhere").join(file_name(ID));
        put(&inside, "");
        put(&outside, "");
        put(&root.join("projects/p/other.jsonl"), "");
        for (reported, expected) in [
            (inside.clone(), true),
            (root.join("projects/../projects/p").join(file_name(ID)), true),
            (outside, false),
            (root.join("projects/p/other.jsonl"), false),
            (root.join("projects/p/missing.jsonl"), false),
        ] {
            assert_eq!(
                accept_reported(&root, &reported, ID),
                expected.then(|| inside.clone()),
                "{reported:?}"
            );
        }
    }
}
