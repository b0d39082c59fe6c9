use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::core::kill_switch::KillSwitch;
use crate::core::mode::Mode;
use crate::core::outcome::Class;
use crate::core::published::Tokens;
use crate::journal::autopilot_record::{Heal, SCHEMA_VERSION};
use crate::journal::records::{MetricFile, of_run, read_records, recent};
use crate::journal::session_record::{AgentSummary, SessionStatus};
use crate::journal::start_self;
use crate::state::atomic;

fn put(path: &Path, text: &str) {
    atomic::replace(path, text.as_bytes(), 0o644).unwrap();
}

fn run(id: &str) -> AutopilotRecord {
    AutopilotRecord {
        schema_version: SCHEMA_VERSION,
        autopilot_run_id: id.to_owned(),
        started_at: "2026-11-02T01:17:00Z".parse().unwrap(),
        completed_at: "2026-11-02T05:21:03.25Z".parse().unwrap(),
        duration_seconds: 14643,
        max_sessions: 5,
        max_hours: 4.0,
        confidence_threshold: 0.85,
        max_tokens: 500_000,
        iterations_completed: 1,
        kill_switch: Some(KillSwitch::StallTimeout),
        kill_switch_detail: Some("stalled 640s ≥ threshold 600s (marker=transcript)".to_owned()),
        sessions: vec!["7a1c0000-0000-4000-8000-000000000001".to_owned()],
        host_class: None,
        resource_verdict_at_start: Some("green".to_owned()),
        fallback_to_manual: false,
        dry_run: false,
        total_tokens_used: 20000,
        worktree_path: None,
        parent_run_id: None,
        stall_recovery_count: 2,
        blocked_by_issue: None,
        aborted_by_cohort: false,
        spiral_recovery_count: 0,
        outcome: "stopped".to_owned(),
        exit_code: 12,
        failure_class: Some(Class::Stalled),
        cost_usd: Some(1.25),
        tokens: Tokens { input: 1000, output: 20000, cache_read: 300_000, cache_creation: 4000 },
        limit_wait_seconds: 10837,
        heals: vec![Heal {
            session_id: "7a1c0000-0000-4000-8000-000000000001".to_owned(),
            class: Class::Stalled,
            action: "kill and resume".to_owned(),
            recovery: 1,
        }],
        version: "0.1.0".to_owned(),
    }
}

fn dry_run() -> AutopilotRecord {
    AutopilotRecord {
        started_at: "2026-11-03T01:17:00Z".parse().unwrap(),
        completed_at: "2026-11-03T01:17:00Z".parse().unwrap(),
        duration_seconds: 0,
        max_hours: 0.5,
        confidence_threshold: 1.0,
        max_tokens: 0,
        iterations_completed: 0,
        kill_switch: None,
        kill_switch_detail: Some("dry-run preview — no sessions executed".to_owned()),
        sessions: vec![],
        resource_verdict_at_start: None,
        dry_run: true,
        total_tokens_used: 0,
        stall_recovery_count: 0,
        outcome: "dry_run".to_owned(),
        exit_code: 0,
        failure_class: None,
        cost_usd: None,
        tokens: Tokens::default(),
        limit_wait_seconds: 0,
        heals: vec![],
        ..run("main-2026-11-03-0117-autopilot")
    }
}

fn session(id: &str) -> SessionRecord {
    SessionRecord {
        session_id: id.to_owned(),
        mode: Mode::Deep,
        autopilot_run_id: "main-2026-11-02-0117-autopilot".to_owned(),
        platform: Some("claude".to_owned()),
        branch: Some("main".to_owned()),
        session_start_ref: None,
        started_at: "2026-11-02T01:17:00Z".parse().unwrap(),
        completed_at: "2026-11-02T02:17:00Z".parse().unwrap(),
        duration_seconds: 3600,
        status: SessionStatus::Completed,
        waves: vec![],
        agent_summary: AgentSummary::default(),
        total_agents: 0,
        total_files_changed: 0,
        effectiveness: None,
        issues_closed: vec![],
        issues_created: vec![],
        tokens: None,
        total_cost_usd: None,
        notes: None,
    }
}

/// A repository with the given contents of the two metric files.
fn repository(autopilot: &[u8], sessions: &[u8]) -> (tempfile::TempDir, Layout) {
    // In memory where possible: what is tested here is not the speed of a disk.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let layout = Layout::new(folder.path());
    layout.prepare().unwrap();
    for (path, bytes) in [(layout.autopilot_jsonl(), autopilot), (layout.sessions_jsonl(), sessions)] {
        if !bytes.is_empty() {
            crate::state::atomic::replace(&path, bytes, 0o644).unwrap();
        }
    }
    (folder, layout)
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal").join(name)).unwrap()
}

fn keys(line: &str) -> Vec<String> {
    // Order matters, so not through a map.
    let mut keys = Vec::new();
    let mut values = serde_json::Deserializer::from_str(line);
    serde::Deserializer::deserialize_map(&mut values, Keys(&mut keys)).unwrap();
    keys
}

struct Keys<'a>(&'a mut Vec<String>);

impl<'de> serde::de::Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
            self.0.push(key);
        }
        Ok(())
    }
}

fn ids(records: &[Map<String, Value>], key: &str) -> Vec<String> {
    records.iter().map(|record| record[key].as_str().unwrap_or("-").to_owned()).collect()
}

#[test]
fn run_records_are_byte_for_byte_the_golden_ones() {
    let (_folder, layout) = repository(b"", b"");
    append_autopilot(&layout, &run("main-2026-11-02-0117-autopilot")).unwrap();
    append_autopilot(&layout, &dry_run()).unwrap();
    let written = fs::read_to_string(layout.autopilot_jsonl()).unwrap();
    assert_eq!(written, String::from_utf8(fixture("upstream/autopilot-v2.jsonl")).unwrap());
    assert!(!layout.metrics_lock().exists());
    assert_eq!(fs::metadata(layout.autopilot_jsonl()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_fields_of_upstream_come_first_and_in_its_order() {
    let upstream = String::from_utf8(fixture("upstream/autopilot-v1.jsonl")).unwrap();
    let theirs = keys(upstream.lines().nth(1).unwrap());
    assert_eq!(theirs.len(), 24);
    let ours = keys(&serde_json::to_string(&run("x")).unwrap());
    assert_eq!(ours[..theirs.len()], theirs);
    let added = [
        "outcome",
        "exit_code",
        "failure_class",
        "cost_usd",
        "tokens",
        "limit_wait_seconds",
        "heals",
        "version",
    ];
    assert_eq!(ours[theirs.len()..], added);
}

#[test]
fn upstream_files_are_read() {
    let path =
        |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal/upstream").join(name);
    let runs = read_records(&path("autopilot-v1.jsonl"), MetricFile::Autopilot).unwrap();
    assert_eq!((runs.values.len(), runs.bad_lines, runs.newer_schema), (4, 0, 0));
    assert_eq!(runs.values[1]["kill_switch"], "spiral");
    assert_eq!(runs.values[3]["kind"], "multi-story-coordinator");
    let runs = read_records(&path("autopilot-v2.jsonl"), MetricFile::Autopilot).unwrap();
    assert_eq!((runs.values.len(), runs.bad_lines, runs.newer_schema), (2, 0, 0));
    assert_eq!(runs.values[0]["max_hours"], 4);
    let sessions = read_records(&path("sessions.jsonl"), MetricFile::Sessions).unwrap();
    assert_eq!((sessions.values.len(), sessions.bad_lines, sessions.newer_schema), (8, 0, 1));
    assert_eq!(sessions.values[3]["notes"], "Übergabe – fertig");
    let damaged = read_records(&path("sessions-damaged.jsonl"), MetricFile::Sessions).unwrap();
    assert_eq!(ids(&damaged.values, "session_id"), ["d1", "d2", "d3", "d4", "d5", "d6"]);
    assert_eq!((damaged.bad_lines, damaged.recovered, damaged.torn_tail), (5, 5, true));
    for name in ["sessions.jsonl", "sessions-damaged.jsonl"] {
        let all = read_records(&path(name), MetricFile::Sessions).unwrap().values;
        let last = recent(&path(name), MetricFile::Sessions, 4).unwrap().values;
        assert_eq!(last, all[all.len() - 4..]);
    }
    let found = |id: &str| of_run(&path("autopilot-v1.jsonl"), id).unwrap();
    assert!(found("fix-cart-2026-05-02-0100-autopilot").is_some());
    assert_eq!(found("fix-cart-2026-05-02-0100"), None);
}

#[test]
fn a_torn_tail_is_kept_and_the_next_record_is_whole() {
    let whole = b"{\"session_id\":\"a\"}\n";
    for tail in [b"{\"session_id\":\"b".as_slice(), b"{\"session_id\":\"b\"}", b"\xc3", b"\0\0", b" "] {
        let old = [whole.as_slice(), tail].concat();
        let (_folder, layout) = repository(&old, &old);
        append_autopilot(&layout, &run("r")).unwrap();
        append_session(&layout, &session("s"), 0).unwrap();
        for (path, line) in [
            (layout.autopilot_jsonl(), line_of(&run("r"))),
            (layout.sessions_jsonl(), line_of(&session("s"))),
        ] {
            let expected = [old.as_slice(), b"\n", &line].concat();
            assert_eq!(fs::read(&path).unwrap(), expected);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        }
    }
}

#[test]
fn a_record_of_the_session_is_completed_in_its_place() {
    let check = |before: &[u8], after: &str, id: &str| {
        let (_folder, layout) = repository(b"", before);
        let written = append_session(&layout, &session("s1"), 0).unwrap();
        assert_eq!(written, SessionWrite::Completed { session_id: id.to_owned() });
        let text = String::from_utf8_lossy(&fs::read(layout.sessions_jsonl()).unwrap()).into_owned();
        let completed = |theirs: &str| {
            let theirs = serde_json::from_str(theirs).unwrap();
            serde_json::to_string(&complete(&theirs, &session("s1"))).unwrap()
        };
        let own = format!(r#"{{"session_id":"{id}","session_type":"feature"}}"#);
        let raw = r#"{"session_id":"u1","raw_session_id":"s1"}"#;
        assert_eq!(text, after.replace("<own>", &completed(&own)).replace("<raw>", &completed(raw)));
    };
    let own = r#"{"session_id":"s1","session_type":"feature"}"#;
    check(
        format!("{{\"a\":1}}\n{own}\n{{\"b\":\"s1\"}}\n").as_bytes(),
        "{\"a\":1}\n<own>\n{\"b\":\"s1\"}\n",
        "s1",
    );
    // The last one of an id is the one that counts.
    check(format!("{own}\n{own}\n").as_bytes(), &format!("{own}\n<own>\n"), "s1");
    // Without its newline; with a carriage return; under upstream's own kind of id.
    check(own.as_bytes(), "<own>\n", "s1");
    check(format!("{own}\r\n").as_bytes(), "<own>\n", "s1");
    check(b"{\"session_id\":\"u1\",\"raw_session_id\":\"s1\"}\n{\"x\":2}\n", "<raw>\n{\"x\":2}\n", "u1");
    // Out of damaged lines it gets a line of its own, and nothing else is touched.
    check(
        format!("{{\"session_id\":\"a\"}}{own}\n{{}}\n").as_bytes(),
        "{\"session_id\":\"a\"}\n<own>\n{}\n",
        "s1",
    );
    check(format!("{own}{{\"session_id\":\"a\"}}\n").as_bytes(), "<own>\n{\"session_id\":\"a\"}\n", "s1");
    check(format!("{{\"torn\":\"{own}").as_bytes(), "{\"torn\":\"\n<own>\n", "s1");
}

const ME: &str = "11111111-2222-4333-8444-000000000001";
const OTHER: &str = "11111111-2222-4333-8444-000000000002";

/// Upstream's sessions have names of their own (upstream-formats §5.2, §12).
#[test]
fn the_record_of_a_session_is_found_under_its_own_name() {
    let check = |added: &str, completed: Option<usize>| {
        let (_folder, layout) = repository(b"", added.as_bytes());
        let run = session(ME).autopilot_run_id;
        let text = fs::read_to_string(layout.sessions_jsonl()).unwrap().replace("<run>", &run);
        put(&layout.sessions_jsonl(), &text);
        let current = format!(r#"{{"session_id":"{ME}","semantic_session_id":"main-session-1","pid":7}}"#);
        put(&layout.orchestrator().join("current-session.json"), &current);
        let written = append_session(&layout, &session(ME), 0).unwrap();
        let after = fs::read_to_string(layout.sessions_jsonl()).unwrap();
        let changed: Vec<usize> = (0..)
            .zip(text.lines().zip(after.lines()))
            .filter(|(_, (a, b))| a != b)
            .map(|(at, _)| at)
            .collect();
        assert_eq!(changed, completed.into_iter().collect::<Vec<_>>(), "{added}\n{after}");
        assert_eq!(matches!(written, SessionWrite::Completed { .. }), completed.is_some(), "{added}");
        // Once more is the same record, not one more.
        assert!(matches!(append_session(&layout, &session(ME), 0).unwrap(), SessionWrite::Completed { .. }));
        assert_eq!(fs::read_to_string(layout.sessions_jsonl()).unwrap(), after);
    };
    // By the name the start hook gave it; by the run it was told; not by anything else.
    check("{\"session_id\":\"main-session-1\"}\n", Some(0));
    check("{\"session_id\":\"main-0842\",\"autopilot_run_id\":\"<run>\"}\n", Some(0));
    check("{\"session_id\":\"main-0842\"}\n", None);
    check("{\"session_id\":\"main-0842\",\"notes\":\"main-session-1\"}\n", None);
    // Another conversation of the run is another session.
    check(&format!("{{\"session_id\":\"{OTHER}\",\"autopilot_run_id\":\"<run>\"}}\n"), None);
    let other = format!(
        "{{\"session_id\":\"main-0842\",\"raw_session_id\":\"{OTHER}\",\"autopilot_run_id\":\"<run>\"}}\n"
    );
    check(&other, None);
    check(&format!("{{\"session_id\":\"main-session-1\",\"raw_session_id\":\"{OTHER}\"}}\n"), None);
    // What the session wrote counts before what a hook made up for it, whichever came last.
    let own = "{\"session_id\":\"main-0842\",\"autopilot_run_id\":\"<run>\"}\n";
    let stub = format!(
        r#"{{"session_id":"main-session-1","raw_session_id":"{ME}","status":"abandoned","_backfill_source":"x"}}"#
    ) + "\n";
    check(&format!("{own}{stub}"), Some(0));
    check(&format!("{stub}{own}"), Some(1));
    check(&format!("{stub}{other}"), Some(0));
}

/// The start hook overwrites its file for every session, also for one of a person.
#[test]
fn the_name_of_another_session_is_not_taken() {
    let check = |current: &str| {
        let current = current.replace("<me>", ME);
        let (_folder, layout) = repository(b"", b"{\"session_id\":\"main-session-2\"}\n");
        put(&layout.orchestrator().join("current-session.json"), &current);
        assert_eq!(append_session(&layout, &session(ME), 0).unwrap(), SessionWrite::Appended);
    };
    check(r#"{"session_id":"s2","semantic_session_id":"main-session-2"}"#);
    check(r#"{"semantic_session_id":"main-session-2"}"#);
    check(r#"{"session_id":"<me>","semantic_session_id":7}"#);
    check(r#"{"session_id":"<me>","semantic_session_id":"main-session-2""#);
    check("");
}

#[test]
fn only_the_record_itself_is_completed() {
    let (_folder, layout) = repository(
        b"",
        b"{\"session_id\":\"s2\",\"supersedes\":\"s1\"}\n{\"session_id\":\"s1x\"}\n{\"s1\":\"s1\"}\n",
    );
    assert_eq!(append_session(&layout, &session("s1"), 0).unwrap(), SessionWrite::Appended);
    assert_eq!(
        append_session(&layout, &session("s1"), 0).unwrap(),
        SessionWrite::Completed { session_id: "s1".to_owned() }
    );
    let all = read_records(&layout.sessions_jsonl(), MetricFile::Sessions).unwrap();
    assert_eq!(all.values.len(), 4);
}

#[test]
fn what_was_there_before_the_session_is_not_its_own() {
    let earlier = b"{\"session_id\":\"s1\",\"total_agents\":1}\n";
    let check = |added: &[u8], expected: SessionWrite, count: usize| {
        let (_folder, layout) = repository(b"", earlier);
        let since = sessions_length(&layout);
        OpenOptions::new().append(true).open(layout.sessions_jsonl()).unwrap().write_all(added).unwrap();
        assert_eq!(append_session(&layout, &session("s1"), since).unwrap(), expected);
        assert!(fs::read(layout.sessions_jsonl()).unwrap().starts_with(earlier));
        let found = read_records(&layout.sessions_jsonl(), MetricFile::Sessions).unwrap();
        assert_eq!((found.values.len(), found.bad_lines), (count, 0));
    };
    // `--chain resume`: the same conversation, one iteration later.
    check(b"", SessionWrite::Appended, 2);
    check(b"{\"session_id\":\"s2\"}\n", SessionWrite::Appended, 3);
    check(b"{\"session_id\":\"s1\"}\n", SessionWrite::Completed { session_id: "s1".to_owned() }, 2);
    // The file was replaced by a shorter one: everything is looked at.
    let (_folder, layout) = repository(b"", earlier);
    assert!(matches!(
        append_session(&layout, &session("s1"), 1 << 40).unwrap(),
        SessionWrite::Completed { .. }
    ));
    assert_eq!(sessions_length(&Layout::new("/nonexistent")), 0);
}

/// A writer that knows no lock appends whenever it likes; nothing of it is lost.
#[test]
fn a_foreign_append_during_a_replacement_survives() {
    let (_folder, layout) = repository(b"", b"{\"session_id\":\"s1\"}\n");
    let path = layout.sessions_jsonl();
    let late = |id: &str| {
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(file, "{{\"session_id\":\"{id}\"}}").unwrap();
    };
    // Between read and rename: seen, started over.
    let mut round = 0;
    let edit = |old: &[u8]| {
        round += 1;
        if round <= 2 {
            late(&format!("late{round}"));
        }
        Some(Splice { at: old.len()..old.len(), with: b"{\"session_id\":\"ours\"}\n".to_vec() })
    };
    assert!(rewrite(&path, edit).unwrap());
    let found = read_records(&path, MetricFile::Sessions).unwrap();
    assert_eq!(ids(&found.values, "session_id"), ["s1", "late1", "late2", "ours"]);
    // After the last look before the rename: carried over from the old file.
    let (old, bytes) = read(&path, 0).unwrap();
    let mut opened_before = OpenOptions::new().append(true).open(&path).unwrap();
    Staged::new(&path, &[&bytes], 0o600).unwrap().commit().unwrap();
    opened_before.write_all(b"{\"session_id\":\"later\"}\n").unwrap();
    carry_over(&path, &mut old.unwrap(), bytes.len()).unwrap();
    let found = read_records(&path, MetricFile::Sessions).unwrap();
    assert_eq!(ids(&found.values, "session_id"), ["s1", "late1", "late2", "ours", "later"]);
}

#[test]
fn a_file_that_never_rests_is_an_error_not_a_loop() {
    let (_folder, layout) = repository(b"", b"{}\n");
    let path = layout.sessions_jsonl();
    let error = rewrite(&path, |old| {
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{}\n").unwrap();
        Some(Splice { at: 0..old.len(), with: vec![] })
    })
    .unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::ResourceBusy);
}

#[test]
fn what_cannot_be_stored_is_handed_back() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path().join("repo"));
    // A file where the folder should be.
    fs::create_dir_all(layout.orchestrator()).unwrap();
    drop(File::create(layout.metrics()).unwrap());
    let error = append_autopilot(&layout, &run("r")).unwrap_err();
    assert_eq!(error.record.as_bytes(), line_of(&run("r")).trim_ascii_end());
    assert!(error.to_string().contains("autopilot.jsonl"), "{error}");
    let error = append_session(&layout, &session("s"), 0).unwrap_err();
    assert_eq!(error.record.as_bytes(), line_of(&session("s")).trim_ascii_end());
    // Something that is not a file is neither read for ever nor replaced.
    let (_folder, layout) = repository(b"", b"");
    std::os::unix::fs::symlink("/dev/zero", layout.autopilot_jsonl()).unwrap();
    std::os::unix::fs::symlink("/dev/full", layout.sessions_jsonl()).unwrap();
    assert!(append_autopilot(&layout, &run("r")).is_err());
    assert!(append_session(&layout, &session("s"), 0).is_err());
    assert!(!layout.metrics_lock().exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_in_the_file_stays_and_ours_is_readable(
        noise in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'{'), Just(b'"'), any::<u8>()], 0..120)
    ) {
        let (_folder, layout) = repository(&noise, &noise);
        append_autopilot(&layout, &run("r")).unwrap();
        append_session(&layout, &session("s"), 0).unwrap();
        for (path, kind, key) in [
            (layout.autopilot_jsonl(), MetricFile::Autopilot, "autopilot_run_id"),
            (layout.sessions_jsonl(), MetricFile::Sessions, "session_id"),
        ] {
            prop_assert!(fs::read(&path).unwrap().starts_with(&noise));
            let last = recent(&path, kind, 1).unwrap();
            prop_assert!(last.values[0].contains_key(key));
        }
    }
}

// ---- Several processes -------------------------------------------------------------------------------
//
// The test binary starts itself: `writer_process` is a test of its own that, when the variables below are
// set, becomes one of many writers and says on stdout which records it was told are safe.

const FOLDER: &str = "AUTOPILOT_TEST_WRITER_FOLDER";
const NAME: &str = "AUTOPILOT_TEST_WRITER_NAME";
const COUNT: &str = "AUTOPILOT_TEST_WRITER_COUNT";

#[test]
fn writer_process() {
    let (_folder, layout, name, count) = if let Ok(folder) = std::env::var(FOLDER) {
        let count = std::env::var(COUNT).unwrap().parse().unwrap();
        (None, Layout::new(folder), std::env::var(NAME).unwrap(), count)
    } else {
        // Not a child: the same thing alone and small.
        let (folder, layout) = repository(b"", b"");
        (Some(folder), layout, "alone".to_owned(), 3)
    };
    write_records(&layout, &name, count);
    let sessions = read_records(&layout.sessions_jsonl(), MetricFile::Sessions).unwrap();
    let own = sessions.values.iter().filter(|record| record["notes"].as_str().unwrap().starts_with(&name));
    assert_eq!(own.count(), count);
}

fn write_records(layout: &Layout, name: &str, count: usize) {
    for number in 0..count {
        let id = format!("{name}-{number}");
        // Mixed sizes; one beyond the size of a pipe and of most buffers.
        let size = if number == 7 { 80_000 } else { number * 37 % 1500 };
        let mut record = session(&id);
        record.notes = Some(format!("{name} {}", "ü".repeat(size / 2)));
        append_session(layout, &record, sessions_length(layout)).unwrap();
        let mut record = run(&id);
        record.kill_switch_detail = Some("x".repeat(size));
        append_autopilot(layout, &record).unwrap();
        println!("safe {id}");
    }
}

fn start_writer(layout: &Layout, name: &str, count: usize, prelude: &str) -> Child {
    let count = count.to_string();
    let root = layout.root().to_str().unwrap();
    start_self(
        "journal::metrics::tests::writer_process",
        prelude,
        &[(FOLDER, root), (NAME, name), (COUNT, &count)],
    )
}

fn all_ids(layout: &Layout) -> [Vec<String>; 2] {
    [
        (layout.sessions_jsonl(), MetricFile::Sessions, "session_id"),
        (layout.autopilot_jsonl(), MetricFile::Autopilot, "autopilot_run_id"),
    ]
    .map(|(path, kind, key)| {
        let found = read_records(&path, kind).unwrap();
        ids(&found.values, key)
    })
}

/// The budget of design §12, for both files: 8 processes × 200 appends = 1,600 of 1,600 records.
#[test]
fn eight_processes_lose_nothing() {
    let (_folder, layout) = repository(b"", b"");
    let writers: Vec<_> =
        (0..8).map(|number| start_writer(&layout, &format!("w{number}"), 200, "")).collect();
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for found in all_ids(&layout) {
        assert_eq!(found.len(), 1600);
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len(), 1600);
    }
    for (path, kind) in
        [(layout.sessions_jsonl(), MetricFile::Sessions), (layout.autopilot_jsonl(), MetricFile::Autopilot)]
    {
        let found = read_records(&path, kind).unwrap();
        assert_eq!((found.bad_lines, found.torn_tail), (0, false));
    }
}

/// `kill -9` in a loop of writes: what a writer was told is safe is there, and the next record is whole.
#[test]
fn killed_writers_lose_nothing_that_was_acknowledged() {
    let (_folder, layout) = repository(b"", b"");
    let mut safe = Vec::new();
    for round in 0..4 {
        let mut writer = start_writer(&layout, &format!("k{round}"), 100_000, "");
        let lines = std::io::BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut left: u32 = 9 + round;
        for line in lines {
            // The pipe is read to its end: what was said before the kill counts too.
            let line = line.unwrap();
            // The test runner prints the name of the test in front of the first one.
            if let Some((_, id)) = line.split_once("safe ") {
                safe.push(id.to_owned());
            }
            if left == 0 {
                writer.kill().unwrap();
            }
            left = left.saturating_sub(1);
        }
        writer.wait().unwrap();
    }
    append_session(&layout, &session("after"), 0).unwrap();
    append_autopilot(&layout, &run("after")).unwrap();
    for found in all_ids(&layout) {
        assert_eq!(found.last().unwrap(), "after");
        let distinct: BTreeSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), found.len());
        assert!(safe.len() > 36 && safe.iter().all(|id| distinct.contains(id)));
    }
    // What the dead left half written was cleared away by those who came after.
    let mut left: Vec<_> =
        fs::read_dir(layout.metrics()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["autopilot.jsonl", "sessions.jsonl"]);
}

/// A limit on the size of files stands in for a full disk: the write is cut in the middle.
#[test]
fn a_write_cut_short_is_an_error_and_costs_no_other_record() {
    let (_folder, layout) = repository(b"", b"");
    // 64 blocks of 512 bytes (or of 1,024: whatever the shell counts in); record 7 is larger than either.
    let writer = start_writer(&layout, "full", 50, "trap '' XFSZ; ulimit -f 64;");
    let output = writer.wait_with_output().unwrap();
    assert!(!output.status.success());
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("AppendError") && said.contains("full-7") && said.contains("FileTooLarge"),
        "{said}"
    );
    append_session(&layout, &session("after"), 0).unwrap();
    append_autopilot(&layout, &run("after")).unwrap();
    let [sessions, runs] = all_ids(&layout);
    let expected: Vec<_> =
        (0..7).map(|number| format!("full-{number}")).chain(["after".to_owned()]).collect();
    assert_eq!(sessions, expected);
    assert_eq!(runs, expected);
    let found = read_records(&layout.sessions_jsonl(), MetricFile::Sessions).unwrap();
    assert_eq!((found.bad_lines, found.torn_tail), (1, false));
}

#[test]
fn a_run_has_one_record() {
    let other = br#"{"autopilot_run_id":"r2","note":"about r"}"#;
    for (before, after) in [
        (Vec::new(), "<new>"),
        ([other.as_slice(), b"\n"].concat(), "<other><new>"),
        ([other.as_slice(), b"\n", &line_of(&run("r"))].concat(), "<other><new>"),
        ([&line_of(&run("r")), other.as_slice(), b"\n"].concat(), "<other><new>"),
        ([&line_of(&run("r")), other.as_slice()].concat(), "<other><new>"),
        // A dry run in the same minute is another one.
        (line_of(&AutopilotRecord { dry_run: true, ..run("r") }), "<dry><new>"),
        // Without a newline at the end; twice, where the last one counts; in a damaged line.
        (line_of(&run("r")).trim_ascii_end().to_vec(), "<new>"),
        ([line_of(&run("r")), line_of(&run("r"))].concat(), "<old><new>"),
        ([b"x".as_slice(), &line_of(&run("r"))].concat(), "x<old><new>"),
    ] {
        let (_folder, layout) = repository(&before, b"");
        let new = AutopilotRecord { iterations_completed: 77, ..run("r") };
        store_autopilot(&layout, &new).unwrap();
        let text = |line: Vec<u8>| String::from_utf8(line).unwrap();
        let expected = after
            .replace("<new>", &text(line_of(&new)))
            .replace("<dry>", &text(line_of(&AutopilotRecord { dry_run: true, ..run("r") })))
            .replace("<old>", &text(line_of(&run("r"))))
            .replace("<other>", &text([other.as_slice(), b"\n"].concat()));
        assert_eq!(text(fs::read(layout.autopilot_jsonl()).unwrap()), expected);
    }
}
