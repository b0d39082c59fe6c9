//! Configuration: a file of any text and variables of any value give settings within their bounds, or an error in
//! words. `## Session Config` of a CLAUDE.md and the head of a STATE.md are read whatever they hold.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use autopilot::settings::layer::{ConfigFile, Layer};
use autopilot::settings::resolve::resolve;
use autopilot::signals::session_config;
use autopilot::state_md;
use jiff::Timestamp;

/// Variables that the rest of the input is the value of, one after the other.
const VARIABLES: [&str; 8] = [
    "AUTOPILOT_MAX_SESSIONS",
    "AUTOPILOT_MAX_HOURS",
    "AUTOPILOT_CONFIDENCE_THRESHOLD",
    "AUTOPILOT_TURN_BACKOFF",
    "AUTOPILOT_MODE",
    "AUTOPILOT_ALLOWED_TOOLS",
    "AUTOPILOT_CLAUDE_BIN",
    "AUTOPILOT_MAX_COST",
];

/// The first byte chooses what is read.
pub fn run(mut data: &[u8]) {
    match super::byte(&mut data) % 4 {
        0 | 1 => {
            let text = String::from_utf8_lossy(data).into_owned();
            let file = ConfigFile { path: PathBuf::from(".autopilot.toml"), text };
            settings(&|_| None, Some(&file));
        }
        2 => {
            let mut values = data.split(|byte| *byte == 0);
            let given: Vec<(&str, OsString)> = VARIABLES
                .iter()
                .filter_map(|name| Some((*name, OsString::from_vec(values.next()?.to_vec()))))
                .collect();
            let find =
                |name: &str| given.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
            settings(&find, None);
        }
        _ => documents(data),
    }
}

fn settings(env: &impl Fn(&str) -> Option<OsString>, file: Option<&ConfigFile>) {
    match resolve(&Layer::new(), env, file, None) {
        Ok(resolved) => {
            let settings = &resolved.settings;
            assert!((1..=50).contains(&settings.budgets.max_sessions));
            assert!((0.5..=24.0).contains(&settings.budgets.max_hours));
            assert!((0.0..=1.0).contains(&settings.stop_rules.confidence_threshold));
            assert!(settings.budgets.max_cost.is_none_or(|cost| cost >= 0.0));
            assert!(settings.deadlines.turn_backoff.len() <= 10);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn documents(data: &[u8]) {
    let folder = super::folder();
    let root = folder.path();
    fs::write(root.join("CLAUDE.md"), data).expect("memory");
    fs::create_dir(root.join(".claude")).expect("memory");
    fs::write(root.join(".claude/STATE.md"), data).expect("memory");
    let (config, _) = session_config::read(root, Timestamp::UNIX_EPOCH);
    assert!(config.confidence_floor.is_none_or(|floor| (0.0..=1.0).contains(&floor)));
    let reading = state_md::read(root, None, Timestamp::UNIX_EPOCH);
    assert!(!format!("{reading:?}").is_empty());
    assert_eq!(fs::read(root.join("CLAUDE.md")).expect("memory"), data);
}
