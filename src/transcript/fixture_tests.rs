//! Every file of `fixtures/transcripts/` against the digest it has to give.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Limits, TranscriptError, digest, digest_within, stat};
use crate::core::transcript_digest::{Ended, Growth, Resumable, TranscriptDigest, TurnOver};

/// Where the turn began.
#[derive(Debug, Clone, Copy)]
enum At {
    /// Offset 0.
    Start,
    /// Exactly at the beginning of this line, counted from 0.
    Line(usize),
    /// In the middle of this line.
    Inside(usize),
    /// At the end of the file.
    End,
    /// This many bytes behind the end.
    Behind(u64),
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts").join(format!("{name}.jsonl"))
}

fn offset(bytes: &[u8], at: At) -> u64 {
    let line = |n| bytes.split_inclusive(|b| *b == b'\n').take(n).map(<[u8]>::len).sum::<usize>();
    match at {
        At::Start => 0,
        At::Line(n) => line(n) as u64,
        At::Inside(n) => line(n) as u64 + 3,
        At::End => bytes.len() as u64,
        At::Behind(by) => bytes.len() as u64 + by,
    }
}

/// What matters of a digest, in one line.
fn summary(d: &TranscriptDigest) -> String {
    let over = match &d.turn_over {
        TurnOver::NoMessage => "none".to_owned(),
        TurnOver::NotOver { why } => format!("open {why:?}"),
        TurnOver::Over { by: Ended::StopReason(reason) } => format!("over {reason}"),
        TurnOver::Over { by } => format!("over {by:?}"),
    };
    let tally = d.after;
    let mut out = format!(
        "{over} | {:?} | p{} r{} a{} e{}",
        d.resumable, tally.prompts, tally.tool_results, tally.assistant, tally.api_errors
    );
    let mut add = |text: String| {
        out.push_str(" | ");
        out.push_str(&text);
    };
    if let Some(reply) = &d.reply {
        add(format!("reply {:?}", reply.text));
    }
    if let Some(json) = &d.structured_output {
        add(format!("report {json}"));
    }
    if let Some(e) = &d.api_error {
        add(format!("api {} {:?}", e.class.as_deref().unwrap_or("?"), e.status));
    }
    if !d.dangling_tool_use.is_empty() {
        add(format!("dangling {}", d.dangling_tool_use.join(" ")));
    }
    if d.torn_tail {
        add("torn".to_owned());
    }
    for (what, count) in [("bad", d.bad_lines), ("nul", d.nul_lines), ("oversized", d.oversized_lines)] {
        if count > 0 {
            add(format!("{what} {count}"));
        }
    }
    if !tally.exact {
        add("inexact".to_owned());
    }
    out
}

#[test]
fn every_fixture() {
    use At::{Behind, End, Inside, Line, Start};
    let table: &[(&str, At, &str)] = &[
        ("finished-turn", Start, r#"over end_turn | Yes | p1 r1 a4 e0 | reply "All tests pass.""#),
        ("finished-turn", End, "over end_turn | Yes | p0 r0 a0 e0"),
        ("text-without-stop-reason", Start, r#"over Text | Yes | p1 r1 a4 e0 | reply "All tests pass.""#),
        ("preamble-only", Start, r#"open StopReason("tool_use") | Yes | p1 r0 a1 e0 | reply "Let me look.""#),
        ("thinking-only", Start, "open NoText | Yes | p1 r0 a1 e0"),
        (
            "ends-on-tool-use",
            Start,
            r#"open ToolUse | Yes | p1 r0 a3 e0 | reply "Two calls." | dangling t1 t2"#,
        ),
        ("parallel-call-half-answered", Start, "open ToolResult | Yes | p1 r2 a3 e0 | dangling t2 t3"),
        ("ends-on-tool-result", Start, r#"open ToolResult | Yes | p1 r1 a3 e0 | reply "I will run them.""#),
        ("interrupted", Start, r#"open Interrupted | Yes | p2 r1 a3 e0 | reply "I will run them.""#),
        (
            "structured-output",
            Start,
            r#"over StructuredOutput | Yes | p1 r2 a5 e0 | reply "Reporting." | report {"status":"complete","summary":"done"}"#,
        ),
        ("structured-output", End, "over StructuredOutput | Yes | p0 r0 a0 e0"),
        (
            "structured-output-refused",
            Start,
            r#"open ToolResult | Yes | p1 r2 a4 e0 | reply "I will run them.""#,
        ),
        ("torn-tail", Start, r#"over end_turn | Yes | p1 r1 a4 e0 | reply "All tests pass." | torn"#),
        ("no-final-newline", Start, r#"over end_turn | Yes | p1 r0 a1 e0 | reply "Done.""#),
        ("queue-operations-only", Start, "none | No | p0 r0 a0 e0"),
        ("empty", Start, "none | No | p0 r0 a0 e0"),
        ("summary-only", Start, "none | No | p0 r0 a0 e0"),
        ("metadata-only", Start, "none | No | p0 r0 a0 e0"),
        ("meta-only", Start, "none | No | p0 r0 a0 e0"),
        ("garbage", Start, "none | No | p0 r0 a0 e0 | bad 3"),
        (
            "api-error-last",
            Start,
            r#"open ApiError | Yes | p1 r1 a3 e1 | reply "I will run them." | api rate_limit Some(429)"#,
        ),
        ("api-error-last", End, "open ApiError | Yes | p0 r0 a0 e0"),
        ("api-error-without-status", Start, "open Prompt | Yes | p2 r0 a0 e1 | api unknown None"),
        ("api-error-without-status", Line(2), "open Prompt | Yes | p1 r0 a0 e0"),
        ("api-error-then-clean-turn", Start, r#"over end_turn | Yes | p2 r0 a1 e1 | reply "Done now.""#),
        ("side-chain-after-reply", Start, r#"over end_turn | Yes | p1 r1 a4 e0 | reply "Main reply.""#),
        ("side-chain-after-reply", Line(6), "over end_turn | Yes | p0 r0 a0 e0"),
        (
            "compaction-boundary",
            Start,
            r#"over end_turn | Yes | p1 r1 a4 e0 | reply "Going on after compaction, done.""#,
        ),
        (
            "killed-after-compaction",
            Start,
            r#"open ToolResult | Yes | p1 r1 a3 e0 | reply "I will run them.""#,
        ),
        ("killed-after-compaction", Line(5), "open ToolResult | Yes | p0 r0 a0 e0"),
        (
            "nul-block",
            Start,
            r#"over end_turn | Yes | p1 r0 a1 e0 | reply "Before the crash." | torn | nul 3"#,
        ),
        ("meta-entries", Start, r#"over end_turn | Yes | p1 r0 a1 e0 | reply "Done.""#),
        (
            "lone-surrogate",
            Start,
            "over end_turn | Yes | p1 r0 a1 e0 | reply \"Cut \u{fffd}\u{fffd}\u{fffd}\"",
        ),
        ("two-turns", Line(2), r#"over end_turn | Yes | p1 r0 a1 e0 | reply "Second reply.""#),
        ("two-turns", Line(3), r#"over end_turn | Yes | p0 r0 a1 e0 | reply "Second reply.""#),
        ("two-turns", Inside(2), r#"over end_turn | Yes | p0 r0 a1 e0 | reply "Second reply.""#),
        ("two-turns", Inside(3), "over end_turn | Yes | p0 r0 a0 e0"),
        ("two-turns", End, "over end_turn | Yes | p0 r0 a0 e0"),
        ("two-turns", Behind(10), "over end_turn | Yes | p0 r0 a0 e0 | inexact"),
        ("prompt-only", Line(2), "open Prompt | Yes | p1 r0 a0 e0"),
        ("prompt-only", End, "open Prompt | Yes | p0 r0 a0 e0"),
    ];
    for (name, at, expected) in table {
        let path = fixture(name);
        let bytes = fs::read(&path).unwrap();
        let offset = offset(&bytes, *at);
        let digest = digest(&path, offset).unwrap();
        assert_eq!(summary(&digest), *expected, "{name} {at:?}");
        assert!(digest.exists);
        assert_eq!(digest.growth, Growth::of(bytes.len() as u64, offset), "{name} {at:?}");
        assert_eq!(digest.size, bytes.len() as u64);
    }
    for file in fs::read_dir(fixture("x").parent().unwrap()).unwrap() {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(stem == "README" || table.iter().any(|row| row.0 == stem), "{stem} has no row");
    }
}

#[test]
fn details_that_the_summary_leaves_out() {
    let error = digest(&fixture("api-error-last"), 0).unwrap().api_error.expect("an API error");
    assert!(error.text.text.starts_with("You've hit your 5-hour limit"));
    assert_eq!(error.details.map(|d| d.text).as_deref(), Some("429 rate_limit_error"));
    let finished = digest(&fixture("finished-turn"), 0).unwrap();
    assert_eq!(finished.last_timestamp.as_deref(), Some("2026-11-30T02:00:06.000Z"));
}

#[test]
fn a_missing_file_is_a_digest_and_has_no_stat() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("none.jsonl");
    assert_eq!(stat(&path).unwrap(), None);
    let fresh = digest(&path, 0).unwrap();
    assert_eq!((fresh.exists, fresh.growth, fresh.resumable), (false, Growth::Unchanged, Resumable::No));
    assert_eq!(fresh.model_ran(), Some(false));
    let gone = digest(&path, 100).unwrap();
    assert_eq!((gone.growth, gone.model_ran()), (Growth::Shrunk { by: 100 }, None));
    assert!(matches!(digest(temp.path(), 0), Err(TranscriptError::NotAFile { .. })));

    fs::File::create(&path).unwrap().write_all(b"12345").unwrap();
    assert_eq!(stat(&path).unwrap().map(|s| s.size), Some(5));
}

/// A file of `lines`, with the offset where the last `turn` of them begin.
fn write(lines: &[&str], turn: usize) -> (tempfile::NamedTempFile, u64) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut offset = 0;
    for (at, line) in lines.iter().enumerate() {
        offset += if at + turn < lines.len() { line.len() as u64 + 1 } else { 0 };
        file.write_all(line.as_bytes()).unwrap();
        file.write_all(b"\n").unwrap();
    }
    (file, offset)
}

const PROMPT: &str = r#"{"type":"user","message":{"content":"go"}}"#;
const REPLY: &str = r#"{"type":"assistant","message":{"content":"Done.","stop_reason":"end_turn"}}"#;

#[test]
fn a_line_of_many_mebibytes_is_read_or_reported() {
    let big = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t1","content":"{}"}}]}}}}"#,
        "x".repeat(3 << 20)
    );
    let (file, offset) = write(&[PROMPT, REPLY, PROMPT, &big, REPLY], 3);
    assert_eq!(
        summary(&digest(file.path(), offset).unwrap()),
        r#"over end_turn | Yes | p0 r0 a1 e0 | reply "Done." | inexact"#,
        "not read on for the tally alone"
    );
    let limits = Limits { soft: u64::MAX, ..Limits::default() };
    assert_eq!(
        summary(&digest_within(file.path(), offset, &limits).unwrap()),
        r#"over end_turn | Yes | p1 r1 a1 e0 | reply "Done.""#
    );
    let (file, offset) = write(&[PROMPT, REPLY, PROMPT, &big], 2);
    assert_eq!(summary(&digest(file.path(), offset).unwrap()), "open ToolResult | Yes | p1 r1 a0 e0");
    let limits = Limits { line: 1 << 20, ..Limits::default() };
    let limited = digest_within(file.path(), offset, &limits).unwrap();
    assert_eq!(summary(&limited), "open Oversized | Yes | p1 r0 a0 e0 | oversized 1 | inexact");
}

#[test]
fn what_the_budget_did_not_reach_is_unknown() {
    let noise = format!(r#"{{"type":"system","content":"{}"}}"#, "x".repeat(300_000));
    let limits = Limits { soft: 1, hard: 1, ..Limits::default() };

    let (file, _) = write(&[PROMPT, REPLY, &noise], 1);
    let seen = digest_within(file.path(), 0, &limits).unwrap();
    assert_eq!(summary(&seen), "open NotSeen | Yes | p0 r0 a0 e0 | inexact", "the head shows a message");

    let (file, _) = write(&[&noise, PROMPT, REPLY, &noise], 1);
    let seen = digest_within(file.path(), 0, &limits).unwrap();
    assert_eq!(summary(&seen), "open NotSeen | Unknown | p0 r0 a0 e0 | inexact");
    let seen = digest_within(file.path(), 0, &Limits { soft: 1, ..Limits::default() }).unwrap();
    assert_eq!(summary(&seen), r#"over end_turn | Yes | p1 r0 a1 e0 | reply "Done." | inexact"#);
}

#[test]
fn a_long_reply_is_cut_and_says_so() {
    let reply = format!(r#"{{"type":"assistant","message":{{"content":"{}"}}}}"#, "é".repeat(50));
    let (file, offset) = write(&[PROMPT, &reply], 2);
    let digest = digest_within(file.path(), offset, &Limits { text: 5, ..Limits::default() }).unwrap();
    let reply = digest.reply.expect("a reply");
    assert_eq!((reply.text.as_str(), reply.cut), ("éé", 96));
}

#[test]
fn what_the_messages_of_the_turn_cost_is_counted_once_each() {
    let entry = |id: &str, usage: &str| {
        format!(r#"{{"type":"assistant","message":{{"id":"{id}","content":"x","usage":{usage}}}}}"#)
    };
    let before = entry("m0", r#"{"input_tokens":1000,"output_tokens":1000}"#);
    let first = entry("m1", r#"{"input_tokens":5,"output_tokens":7,"cache_read_input_tokens":11}"#);
    let again = entry("m1", r#"{"input_tokens":5,"output_tokens":9,"cache_read_input_tokens":11}"#);
    let other =
        entry("m2", r#"{"output_tokens":20,"cache_creation_input_tokens":3,"service_tier":"standard"}"#);
    let odd = entry("m3", r#"{"output_tokens":"many"}"#);
    let none = entry("m4", "7");
    let (file, offset) = write(&[PROMPT, &before, &first, &again, &other, &odd, &none], 5);
    let tokens = digest(file.path(), offset).unwrap().tokens_after;
    assert_eq!((tokens.input, tokens.output, tokens.cache_read, tokens.cache_creation), (5, 29, 11, 3));
}

/// A boundary of a compaction begins a chain of its own. What was used before it was used all the same (field-reports
/// I07), and nobody has to be able to follow the chain across it.
#[test]
fn a_compaction_in_the_middle_of_a_turn_loses_no_usage() {
    let entry = |id: &str, parent: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"{id}","parentUuid":{parent},"message":{{"id":"{id}","content":"Done.","stop_reason":"end_turn","usage":{{"output_tokens":7}}}}}}"#
        )
    };
    let boundary = r#"{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"gone","compactMetadata":{"trigger":"auto","preTokens":180000}}"#;
    let (file, offset) = write(&[PROMPT, &entry("a", "\"nowhere\""), boundary, &entry("c", "\"not-b\"")], 4);
    let seen = digest(file.path(), offset).unwrap();
    assert_eq!(summary(&seen), r#"over end_turn | Yes | p1 r0 a2 e0 | reply "Done.""#);
    assert_eq!(seen.tokens_after.output, 14);
}

/// Field-reports I11: 300 MiB are judged from their last blocks.
#[test]
fn a_huge_transcript_costs_what_its_last_turn_costs() {
    let (mut file, _) = write(&[PROMPT, REPLY], 0);
    file.as_file().set_len(300 << 20).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"\n").unwrap();
    let offset = file.as_file().metadata().unwrap().len();
    write!(file, "{PROMPT}\n{REPLY}\n").unwrap();
    let seen = digest(file.path(), offset).unwrap();
    assert_eq!(summary(&seen), r#"over end_turn | Yes | p1 r0 a1 e0 | reply "Done.""#);
    assert!(seen.scanned < 1 << 20, "{} bytes were read", seen.scanned);
}

mod any_bytes {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a crash leaves of a real file, the digest is an answer, and no reply comes from before the offset.
        #[test]
        fn never_fail(
            name in prop::sample::select(vec!["finished-turn", "two-turns", "nul-block", "structured-output", "api-error-last"]),
            cut in any::<prop::sample::Index>(), hole in any::<prop::sample::Index>(), byte in any::<u8>(), at in any::<prop::sample::Index>(),
        ) {
            let mut bytes = fs::read(fixture(name)).unwrap();
            bytes.truncate(cut.index(bytes.len()) + 1);
            let hole = hole.index(bytes.len());
            bytes[hole] = byte;
            let offset = at.index(bytes.len() + 1) as u64;
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            let seen = digest(file.path(), offset).unwrap();
            if let Some(reply) = seen.reply.filter(|_| byte.is_ascii_alphanumeric()) {
                let tail = String::from_utf8_lossy(&bytes[usize::try_from(offset).unwrap()..]).into_owned();
                prop_assert!(tail.contains(&reply.text), "{:?}", reply.text);
            }
        }
    }
}
