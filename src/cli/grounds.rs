//! What sessions may do, and where: the settings as the core needs them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::core::gate::Policy;
use crate::core::mediation::Grounds;
use crate::settings::Settings;

/// The grounds of a run in this working tree with this environment of its sessions.
pub(super) fn grounds(settings: &Settings, tree: &Path, environment: &[(OsString, OsString)]) -> Grounds {
    let variable = |wanted: &str| {
        environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| PathBuf::from(value))
    };
    let policy = settings.safety.gate;
    Grounds {
        policy,
        rules: settings.safety.rules.clone(),
        tree: tree.to_owned(),
        added: added(&settings.claude.args, tree),
        home: variable("HOME").filter(|home| home.is_absolute()),
        temporary: temporary(variable("TMPDIR")),
        needs_control: policy == Policy::Strict || (policy == Policy::Guard && skips_permissions(settings)),
        plans_only: settings.claude.permission_mode == "plan",
    }
}

/// Whether Claude Code shall not ask before it runs a tool.
pub(super) fn skips_permissions(settings: &Settings) -> bool {
    settings.claude.permission_mode == "bypassPermissions"
        || settings.claude.args.iter().any(|arg| arg.contains("dangerously-skip-permissions"))
}

/// Folders after `--add-dir`, which takes several.
fn added(args: &[String], tree: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut taking = false;
    for arg in args {
        if let Some(folder) = arg.strip_prefix("--add-dir=") {
            folders.push(tree.join(folder));
            taking = true;
        } else if arg.starts_with('-') {
            taking = arg == "--add-dir";
        } else if taking {
            folders.push(tree.join(arg));
        }
    }
    folders
}

/// Folders for what is not kept, with the names behind links (`/tmp` is `/private/tmp` on a Mac).
fn temporary(own: Option<PathBuf>) -> Vec<PathBuf> {
    let given = [PathBuf::from("/tmp"), PathBuf::from("/var/tmp")].into_iter().chain(own);
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in given.filter(|folder| folder.is_absolute() && folder.parent().is_some()) {
        let real = std::fs::canonicalize(&folder).ok();
        for folder in [Some(folder), real].into_iter().flatten() {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_added() {
        let args: Vec<String> =
            ["--add-dir", "../a", "/b", "--x", "c", "--add-dir=d"].map(str::to_owned).to_vec();
        let expected = ["/repo/../a", "/b", "/repo/d"].map(PathBuf::from);
        assert_eq!(added(&args, Path::new("/repo")), expected);
    }

    #[test]
    fn the_root_is_no_folder_for_temporary_files() {
        assert!(!temporary(Some(PathBuf::from("/"))).contains(&PathBuf::from("/")));
        assert!(!temporary(Some(PathBuf::from("tmp"))).contains(&PathBuf::from("tmp")));
        assert!(temporary(None).contains(&PathBuf::from("/tmp")));
    }
}
