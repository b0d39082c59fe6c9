//! Where a path is, by its text alone.

use std::path::{Component, Path, PathBuf};

use super::Context;

/// A kind of place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    /// The tree itself, a folder around it, the home folder or the root: never to be removed.
    Root,
    /// In the working tree or a folder added to it.
    Tree,
    /// In a folder added to the tree.
    Added,
    /// In a `.git` folder.
    Git,
    /// Decides what a session may do: settings and hooks of Claude Code, our own files.
    Settings,
    /// Holds keys or passwords.
    Credential,
    /// Below a folder for what is not kept.
    Temporary,
    /// `/dev/null` and its kind.
    Sink,
    /// Any other device.
    Device,
    /// Everywhere else.
    Outside,
}

/// Puts a path together without looking at the disk: no `.`, `..` or doubled slashes are left.
pub(super) fn normalise(base: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in base.join(path).components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::Normal(name) => clean.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// Where a normalised path is.
pub(super) fn zone(path: &Path, context: &Context<'_>) -> Zone {
    if path.starts_with("/dev") || path.starts_with("/proc/sysrq-trigger") {
        return if is_sink(path) { Zone::Sink } else { Zone::Device };
    }
    let tree = normalise(Path::new("/"), context.tree);
    if tree.starts_with(path) || context.home.is_some_and(|home| home.starts_with(path)) {
        return Zone::Root;
    }
    if is_credential(path) {
        return Zone::Credential;
    }
    if has_component(path, ".git") {
        return Zone::Git;
    }
    if decides_what_is_allowed(path) {
        return Zone::Settings;
    }
    if path.starts_with(&tree) {
        return Zone::Tree;
    }
    if context.added.iter().any(|added| path.starts_with(added)) {
        return Zone::Added;
    }
    let below = |folder: &PathBuf| path.starts_with(folder) && path != folder;
    if context.temporary.iter().any(below) {
        return Zone::Temporary;
    }
    Zone::Outside
}

fn is_sink(path: &Path) -> bool {
    let text = path.to_string_lossy();
    [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/tty",
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
        "/dev/urandom",
        "/dev/random",
    ]
    .contains(&&*text)
        || text.starts_with("/dev/fd/")
        || text.starts_with("/dev/shm/")
}

fn has_component(path: &Path, name: &str) -> bool {
    path.components().any(|component| component.as_os_str().eq_ignore_ascii_case(name))
}

/// The lock that a git process left which was ended: to remove it is a repair.
pub(super) fn is_index_lock(path: &Path) -> bool {
    path.ends_with(".git/index.lock")
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Of a name in small letters.
fn ends_with(name: &str, ending: &str) -> bool {
    name.strip_suffix(ending).is_some_and(|stem| !stem.is_empty())
}

fn decides_what_is_allowed(path: &Path) -> bool {
    let name = name(path);
    if [".mcp.json", ".claude.json", ".autopilot.toml"].contains(&&*name) {
        return true;
    }
    if has_component(path, ".claude") {
        let settings = name.starts_with("settings") && ends_with(&name, ".json");
        return settings || has_component(path, "hooks") || name == ".claude";
    }
    let text = path.to_string_lossy();
    text.contains("/.orchestrator/autopilot/") || text.ends_with("/.orchestrator/autopilot")
}

/// File names whose content is a secret (recovery §3.5).
const CREDENTIAL_NAMES: [&str; 16] = [
    ".netrc",
    "_netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".vault-token",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "credentials",
    ".credentials",
    "authorized_keys",
    "kubeconfig",
];

/// Folders full of secrets.
const CREDENTIAL_FOLDERS: [&str; 5] = [".ssh", ".gnupg", ".aws", ".kube", ".azure"];

/// Endings of key files.
const KEY_ENDINGS: [&str; 8] = [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".ppk", ".kdbx"];

/// Whether the name says that it holds keys or passwords. `.env.example` and its kind do not.
pub(super) fn is_credential(path: &Path) -> bool {
    let name = name(path);
    let sample = ["example", "sample", "template", "dist", "defaults", "schema"];
    if name == ".env" || name == ".envrc" {
        return true;
    }
    if let Some(kind) = name.strip_prefix(".env.") {
        return !kind.split('.').any(|part| sample.contains(&part));
    }
    let stem = name.split_once('.').map_or(&*name, |(stem, _)| stem);
    let data = [".json", ".yml", ".yaml", ".toml", ".env", ".ini", ".txt", ".csv", ".xml", ".enc"];
    let named = ["secret", "secrets", "credential", "credentials", ".secrets", ".credentials"];
    let is_data = data.iter().any(|ending| name.ends_with(ending));
    let stem_named =
        named.contains(&stem) || name.starts_with(".credentials.") || name.starts_with(".secrets.");
    let text = path.to_string_lossy().to_lowercase();
    CREDENTIAL_NAMES.contains(&&*name)
        || named.contains(&&*name)
        || (is_data && stem_named && !sample.iter().any(|word| name.contains(word)))
        || KEY_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || name.starts_with("id_rsa")
        || name.contains("private_key")
        || name.contains("private-key")
        || name.starts_with("service-account") && ends_with(&name, ".json")
        || CREDENTIAL_FOLDERS.iter().any(|folder| has_component(path, folder))
        || [".docker/config.json", "gcloud/credentials.db", ".config/gh/hosts.yml", ".cargo/credentials.toml"]
            .iter()
            .any(|end| text.ends_with(end))
        || ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/passwd-"].iter().any(|file| text == *file)
        || (text.starts_with("/proc/") && text.ends_with("/environ"))
}
