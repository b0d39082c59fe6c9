use super::*;

/// The program that stands for `autopilot`.
pub(super) fn exe() -> PathBuf {
    std::env::current_exe().unwrap()
}

#[test]
fn a_scratch_repository_is_clean_and_keeps_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    let demo = prepare(Some(&dir.path().join("new/folder")), &exe()).unwrap();
    assert_eq!(run_git(&demo.repo, &["status", "--porcelain"]).unwrap(), "");
    assert_eq!(run_git(&demo.repo, &["rev-list", "--count", "HEAD"]).unwrap().trim(), "1");
    assert_eq!(run_git(&demo.repo, &["log", "-1", "--format=%ae"]).unwrap().trim(), "demo@example.invalid");
    assert_eq!(demo.claude_bin.canonicalize().unwrap(), exe().canonicalize().unwrap());
    assert!(is_agent_name(demo.claude_bin.as_os_str()));
    assert!(!is_agent_name(OsStr::new("/usr/bin/autopilot")));
    let (name, config) = &demo.env[0];
    assert!(*name == "CLAUDE_CONFIG_DIR" && config.is_dir() && config.starts_with(&demo.root));
    assert!(!config.starts_with(&demo.repo));
    assert!(demo.prompt.contains("three parts"));
}

#[test]
fn a_folder_of_its_own_survives() {
    let demo = prepare(None, &exe()).unwrap();
    assert!(demo.repo.join(".git").is_dir());
    fs::remove_dir_all(&demo.root).unwrap();
}

#[test]
fn nothing_of_others_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    write_new(&dir.path().join("mine.txt"), "x").unwrap();
    let error = prepare(Some(dir.path()), &exe()).unwrap_err();
    assert!(matches!(&error, DemoError::NotEmpty(path) if path == dir.path()), "{error}");
    let error = prepare(Some(&dir.path().join("mine.txt")), &exe()).unwrap_err();
    assert!(matches!(error, DemoError::Io { .. }), "{error}");
}
