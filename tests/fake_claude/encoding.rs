//! Where Claude Code keeps a conversation (claude-code §4). Written from the measured rule and
//! independent of the product's own code, so that the double cannot inherit a bug of the product.

use std::path::{Path, PathBuf};

/// Folder names longer than this are cut and get a hash appended.
const LONGEST: usize = 200;

/// `<config>/projects/<ENC>/<id>.jsonl` for the resolved working directory `cwd`.
pub(crate) fn transcript_path(config_dir: &Path, cwd: &Path, id: &str) -> PathBuf {
    let resolved = cwd.canonicalize().unwrap_or_else(|_| cwd.to_path_buf());
    config_dir.join("projects").join(encode(&resolved.to_string_lossy())).join(format!("{id}.jsonl"))
}

/// Each UTF-16 unit outside `[A-Za-z0-9]` becomes `-`; a long name is cut and tagged.
pub(crate) fn encode(path: &str) -> String {
    let mut name: String = path
        .encode_utf16()
        .map(|unit| match char::from_u32(u32::from(unit)) {
            Some(c) if c.is_ascii_alphanumeric() => c,
            _ => '-',
        })
        .collect();
    if name.len() > LONGEST {
        // The real hash is not documented; what matters is that a reader cannot compute it.
        let hash = path
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        name.truncate(LONGEST);
        name.push('-');
        name.extend((0..7).map(|i| char::from(b'a' + u8::try_from((hash >> (i * 5)) % 26).unwrap_or(0))));
    }
    name
}
