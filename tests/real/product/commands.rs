//! Commands that start no session.

use serde_json::{Value, json};

use super::work;
use crate::support::Night;

#[test]
fn the_doctor_knows_the_cli() {
    let night = Night::new();
    let doctor = night.outcome(&mut night.start(&["doctor", "--json"]));
    assert_eq!(doctor.code, Some(0), "{}{}", doctor.stdout, doctor.stderr);
    let checks: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let found = checks.as_array().unwrap().iter().any(|check| {
        check["verdict"] == "ok"
            && check["found"].as_str().unwrap().contains(crate::support::CLI_VERSION.trim())
    });
    assert!(found, "{checks:#}");
    assert_eq!(night.stub.requests().len(), 0);
    assert_eq!(night.git(&["status", "--porcelain"]), "", "nothing is left in the work tree");
}

#[test]
fn a_dry_run_starts_nothing() {
    let night = Night::new();
    let dry = night.outcome(&mut night.start(&work(&["--dry-run"])));
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    assert_eq!(json!([dry.record()["dry_run"], dry.record()["sessions"]]), json!([true, []]));
    assert_eq!(night.stub.requests().len(), 0);
    assert!(!night.config().join("projects").exists(), "the CLI was not started");
    assert!(dry.stdout.contains("--session-id") || dry.stderr.contains("--session-id"), "{}", dry.stderr);
}
