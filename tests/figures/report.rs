//! What a person waits for in the morning: report and status of a long night.
//!
//! The night: 50 sessions and 200,000 events, most of them retries, usage windows and output that could not be
//! read, as a night of an overloaded API leaves them.

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::figure::{Measured, mb, median, ms};
use super::launch::AUTOPILOT;
use super::support::env::TestEnv;

const SESSIONS: u32 = 50;
const EVENTS: u32 = 200_000;
const ID: &str = "main-2026-01-02-0100-autopilot";

/// The repository with that night in it; bytes of its journal.
fn night() -> (TestEnv, usize) {
    let env = TestEnv::new();
    let mut text = String::with_capacity(40 << 20);
    let seq = std::cell::Cell::new(0_u32);
    let mut event = |event: String| {
        let number = seq.replace(seq.get() + 1);
        // Nine and a half hours in all.
        let ms = u64::from(number) * 170;
        writeln!(
            text,
            r#"{{"v":1,"seq":{number},"at":"2026-01-02T{:02}:{:02}:{:02}.{:03}Z","event":{event}}}"#,
            1 + ms / 3_600_000,
            ms / 60_000 % 60,
            ms / 1_000 % 60,
            ms % 1_000
        )
        .unwrap();
    };
    event(format!(
        r#"{{"type":"run_started","run_id":"{ID}","version":"0.1.0","repository":"/srv/shop","branch":"main","parent_run_id":null,"max_sessions":50,"max_hours":12.0,"max_tokens":0,"max_cost_usd":null,"confidence_threshold":0.85,"claude":"claude","claude_version":"2.1.332"}}"#
    ));
    let between = EVENTS / SESSIONS - 9;
    for n in 1..=SESSIONS {
        let id = format!("00000000-0000-4000-8000-{n:012}");
        event(format!(
            r#"{{"type":"resources_judged","iteration":{n},"tier":"green","cap":8,"deciding":null,"signals":[{{"signal":"memory available","value":"9.1 GB","tier":"green"}},{{"signal":"other Claude sessions","value":"{}","tier":"green"}}]}}"#,
            n % 3
        ));
        event(format!(
            r#"{{"type":"session_started","iteration":{n},"session_id":"{id}","mode":"feature","cap":8,"continued":false,"tasks":["Part {n}"]}}"#
        ));
        event(format!(
            r#"{{"type":"turn_started","session_id":"{id}","turn":1,"purpose":"work","prompt_bytes":4096,"transcript_offset":0}}"#
        ));
        event(format!(
            r#"{{"type":"attempt_started","attempt":{n},"session_id":"{id}","resume":false,"argv":["-p"],"env_removed":[],"env_kept":[]}}"#
        ));
        for k in 0..between {
            event(match k % 4 {
                0 => format!(
                    r#"{{"type":"rate_limit","status":"allowed","window":"five_hour","resets_at":"2026-01-02T06:00:00Z","utilization":{}}}"#,
                    f64::from(k % 1000) / 1000.0
                ),
                1 => r#"{"type":"stream_anomaly","anomaly":"not_json","sample":"Warning: something that is no JSON came on standard output"}"#.to_owned(),
                _ => r#"{"type":"api_retry","attempt":3,"max_retries":10,"status":529,"error":"overloaded"}"#.to_owned(),
            });
        }
        event(format!(
            r#"{{"type":"attempt_ended","attempt":{n},"exit":"exit 0","signals":[],"swept":[],"survivors":[],"lines":900,"bad_lines":0,"longest_gap_seconds":12.0,"seconds":600.0,"stderr_tail":""}}"#
        ));
        event(format!(
            r#"{{"type":"outcome_judged","attempt":{n},"session_id":"{id}","class":"ok","confidence":0.95,"reasons":["the turn ended with a result"]}}"#
        ));
        event(format!(
            r#"{{"type":"healed","session_id":"{id}","class":"transient_api","action":"go on","why":"the API did not answer","recovery":1,"run_heal":null,"delay_seconds":5}}"#
        ));
        let commits: Vec<String> = (0..8)
            .map(|c| format!(r#"{{"oid":"{:040x}","subject":"Part {n}.{c} of the shop"}}"#, n * 100 + c))
            .collect();
        event(format!(
            r#"{{"type":"session_ended","iteration":{n},"session_id":"{id}","completed":true,"class":"ok","status":"partial","summary":"Part {n} is done, with its tests.","work":{{"commits":[{}],"commits_total":8,"files_changed":9,"insertions":300,"deletions":20,"dirty":0,"history_rewritten":false}},"contradictions":[],"verification":{{"passed":true,"ended":"exit 0","tail":""}},"tasks":null,"tokens":{{"input":3000,"output":41250,"cache_read":900000,"cache_creation":20000}},"models":[{{"model":"claude-opus-4-8","tokens":{{"input":0,"output":41250,"cache_read":0,"cache_creation":0}},"cost_usd":1.25}}],"cost_usd":1.25,"seconds":600.0,"turns":1,"attempts":1,"denials":0}}"#,
            commits.join(",")
        ));
    }
    while seq.get() < EVENTS {
        event(r#"{"type":"warning","text":"the disk is filling up"}"#.to_owned());
    }
    env.write(&format!(".orchestrator/autopilot/runs/{ID}/events.jsonl"), &text);
    (env, text.len())
}

/// The median of some runs, and what they printed.
fn timed(env: &TestEnv, args: &[&str], code: i32) -> (Duration, Vec<u8>) {
    let mut times = Vec::new();
    let mut printed = Vec::new();
    for _ in 0..15 {
        let mut command = env.command(AUTOPILOT);
        command.args(args).stderr(Stdio::null());
        let start = Instant::now();
        let output = command.output().unwrap();
        times.push(start.elapsed());
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        printed = output.stdout;
    }
    (median(&mut times), printed)
}

fn how(bytes: usize, rest: &str) -> String {
    format!(
        "{SESSIONS} sessions, {EVENTS} events, {:.0} MB, cache warm, median of 15{rest}",
        mb(bytes as u64)
    )
}

pub(crate) fn report_time() -> Measured {
    let (env, bytes) = night();
    let (text, printed) = timed(&env, &["report"], 0);
    assert!(String::from_utf8_lossy(&printed).contains("completed 50 of 50 sessions"));
    let (html, _) = timed(&env, &["report", "--format", "html"], 0);
    Measured {
        value: format!("{:.0} ms", ms(text)),
        within: Some(text.max(html) <= Duration::from_millis(300)),
        how: how(bytes, &format!("; as a web page {:.0} ms", ms(html))),
    }
}

pub(crate) fn status_time() -> Measured {
    let (env, bytes) = night();
    let (full, printed) = timed(&env, &["status"], 6);
    assert!(String::from_utf8_lossy(&printed).contains("completed 50 of 50 sessions"));
    let empty = TestEnv::new();
    let (none, _) = timed(&empty, &["status"], 6);
    Measured {
        value: format!("{:.1} ms", ms(full)),
        within: Some(full <= Duration::from_millis(20)),
        how: how(bytes, &format!("; in an empty repository {:.1} ms", ms(none))),
    }
}

pub(crate) fn page_size() -> Measured {
    let (env, bytes) = night();
    let page = env.root().join("night.html");
    let path = page.to_string_lossy().into_owned();
    timed(&env, &["report", "--output", &path], 0);
    let size = fs::metadata(&page).unwrap().len();
    Measured { value: format!("{} kB", size / 1000), within: None, how: how(bytes, "") }
}
