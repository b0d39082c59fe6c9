//! Refuses to start the real CLI anywhere but in a namespace that has nothing but loopback.

use std::path::PathBuf;

/// Set by `tests/run` to the program file of the pinned CLI.
pub(crate) const CLI_VARIABLE: &str = "AUTOPILOT_TEST_CLAUDE";

/// The version these tests were written against; `tests/run` installs the same file's version.
pub(crate) const CLI_VERSION: &str = include_str!("../cli-version");

/// The program file of the pinned CLI, once it is certain that it cannot reach a network.
pub(crate) fn pinned_cli() -> PathBuf {
    // Not /sys/class/net: inside `unshare --net` that can still show the interfaces of the namespace outside.
    let table = std::fs::read_to_string("/proc/self/net/dev").expect("ring 4 needs Linux's /proc");
    let interfaces = interfaces(&table);
    assert_eq!(
        interfaces,
        ["lo"],
        "the real CLI runs only where there is nothing but loopback: start these tests with `tests/run`"
    );
    let path = std::env::var_os(CLI_VARIABLE).map(PathBuf::from);
    let path =
        path.unwrap_or_else(|| panic!("{CLI_VARIABLE} is not set: start these tests with `tests/run`"));
    let manifest = path.with_file_name("package.json");
    let version = std::fs::read(&manifest)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
        .and_then(|package| package["version"].as_str().map(str::to_owned));
    assert_eq!(
        version.as_deref(),
        Some(CLI_VERSION.trim()),
        "{CLI_VARIABLE} is not the pinned CLI (by {}): start these tests with `tests/run`",
        manifest.display()
    );
    path
}

/// The interface names in the text of `/proc/net/dev`.
fn interfaces(table: &str) -> Vec<&str> {
    table.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect()
}

#[test]
fn interfaces_are_read_from_the_table() {
    let table = "Inter-|   Receive      |  Transmit\n face |bytes    packets|bytes    packets\n    lo:  0 0\n  eth0: 1 2\n";
    assert_eq!(interfaces(table), ["lo", "eth0"]);
}
