//! The stream of a session: 1 GiB with a line of 64 MiB in it.

use std::io::{Read as _, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use autopilot::core::fact::Fact;
use autopilot::engine::headless::Translator;
use autopilot::protocol::frame::LineFramer;
use autopilot::protocol::stream::parse_frame;

use super::figure::{Measured, cpu_time, mb, status_bytes};
use super::support::double;
use super::support::env::TestEnv;

const SIZE: u64 = 1 << 30;
const GIANT: u64 = 64 << 20;
/// Bytes that are handed over at once, as the reader of the pipe does.
const CHUNK: usize = 64 << 10;
const RUNS: usize = 3;

/// What one run of the subject says of itself.
#[derive(Debug, Clone, Copy)]
struct Seen {
    rate: f64,
    /// The same for a second of CPU time: what an idle machine would give.
    cpu_rate: f64,
    lines: u64,
    facts: u64,
    peak: u64,
    start: u64,
}

/// The median run by rate, and the highest peak of all.
fn seen(mix: &str) -> Seen {
    let mut runs: Vec<Seen> = (0..RUNS)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let output = command.args(["__stream", mix]).stdin(Stdio::null()).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let words: Vec<&str> = text.split_whitespace().collect();
            let [rate, cpu_rate, lines, facts, peak, start] = words[..] else {
                panic!("the subject said {text:?}")
            };
            let number = |word: &str| word.parse::<u64>().unwrap();
            Seen {
                rate: rate.parse().unwrap(),
                cpu_rate: cpu_rate.parse().unwrap(),
                lines: number(lines),
                facts: number(facts),
                peak: number(peak),
                start: number(start),
            }
        })
        .collect();
    let peak = runs.iter().map(|run| run.peak).max().unwrap();
    runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    Seen { peak, ..runs[RUNS / 2] }
}

fn mixed() -> Seen {
    static SEEN: OnceLock<Seen> = OnceLock::new();
    *SEEN.get_or_init(|| seen("mixed"))
}

pub(crate) fn rate() -> Measured {
    let Seen { rate, cpu_rate, lines, facts, .. } = mixed();
    Measured {
        value: format!("{rate:.0} MB/s"),
        within: Some(rate >= 300.0),
        how: format!(
            "LineFramer, parse_frame, Translator in a process of its own: 1 GiB, {lines} lines (one of 64 MiB), \
             {facts} facts, {CHUNK}-byte chunks from memory, median of {RUNS}; {cpu_rate:.0} MB per second of CPU time"
        ),
    }
}

pub(crate) fn memory() -> Measured {
    let Seen { peak, start, .. } = mixed();
    Measured {
        value: format!("{:.1} MB", mb(peak)),
        within: Some(peak <= 32_000_000),
        how: format!(
            "VmHWM of that process, highest of {RUNS}; {:.1} MB of it before the first byte, its lines included",
            mb(start)
        ),
    }
}

pub(crate) fn small_lines() -> Measured {
    let Seen { rate, cpu_rate, lines, .. } = seen("deltas");
    Measured {
        value: format!("{rate:.0} MB/s"),
        within: None,
        how: format!(
            "the same with partial-message deltas only, the worst mix: {lines} lines; {cpu_rate:.0} MB per second of CPU time"
        ),
    }
}

/// The measured process: generates, reads, and prints what it saw.
pub(crate) fn subject(mix: &str) -> ExitCode {
    let block = block(mix);
    let giant = vec![b'x'; CHUNK];
    let start_size = status_bytes("self", "VmHWM");
    let mut framer = LineFramer::new();
    let mut translator = Translator::default();
    let (mut facts, mut sent) = (0_u64, 0_u64);
    let mut giant_due = mix == "mixed";
    let mut push = |framer: &mut LineFramer, chunk: &[u8]| {
        framer.push(chunk, |frame| {
            let parsed = parse_frame(frame);
            for anomaly in &parsed.anomalies {
                facts += u64::from(translator.anomaly(anomaly).is_some());
            }
            for message in &parsed.messages {
                translator.message(message, |fact| facts += u64::from(fact != Fact::Heartbeat));
            }
        });
        chunk.len() as u64
    };
    let (start, cpu_start) = (Instant::now(), cpu_time());
    while sent < SIZE {
        for chunk in block.chunks(CHUNK) {
            sent += push(&mut framer, chunk);
        }
        if giant_due && sent >= SIZE / 2 {
            giant_due = false;
            sent += push(&mut framer, TOOL_RESULT_HEAD.as_bytes());
            for _ in 0..GIANT / giant.len() as u64 {
                sent += push(&mut framer, &giant);
            }
            sent += push(&mut framer, TOOL_RESULT_TAIL.as_bytes());
        }
    }
    let (time, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu_start));
    let stats = framer.stats();
    let oversized = u64::from(mix == "mixed");
    assert_eq!((stats.bytes, stats.elided, stats.oversized), (sent, oversized, 0));
    let [rate, cpu_rate] = [time, cpu].map(|time| mb(sent) / time.as_secs_f64());
    println!(
        "{rate:.1} {cpu_rate:.1} {} {facts} {} {start_size}",
        stats.lines,
        status_bytes("self", "VmHWM")
    );
    ExitCode::SUCCESS
}

const IDS: &str = r#""session_id":"00000000-0000-4000-8000-000000000000","parent_tool_use_id":null,"uuid":"00000000-0000-4000-8000-000000000001""#;
const TOOL_RESULT_HEAD: &str = r#"{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":""#;
const TOOL_RESULT_TAIL: &str =
    "\"}]},\"parent_tool_use_id\":null,\"session_id\":\"00000000-0000-4000-8000-000000000000\"}\n";

/// About two megabytes of whole lines, repeated to make the stream.
fn block(mix: &str) -> Vec<u8> {
    let mut lines = String::new();
    let delta = |text: &str| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}},{IDS}}}"#
        ) + "\n"
    };
    let code = r#"    let value = parse(\"input\").map_err(|e| e.to_string())?;\n"#;
    let mut turn = 0_usize;
    while lines.len() < 2 << 20 {
        turn += 1;
        // A message of the model: its deltas, then the whole of it, with a tool call.
        for word in ["I ", "will ", "look ", "at ", "the ", "parser ", "first", ".\\n"] {
            lines += &delta(word);
        }
        if mix == "deltas" {
            continue;
        }
        let said = format!(
            r#"{{"type":"assistant","message":{{"id":"msg_{turn}","type":"message","role":"assistant","model":"claude-x","content":[{{"type":"text","text":"I will look at the parser first.\n"}},{{"type":"tool_use","id":"toolu_{turn}","name":"Read","input":{{"file_path":"/repo/src/file_{turn}.rs","limit":200}}}}],"stop_reason":null,"usage":{{"input_tokens":4,"cache_creation_input_tokens":1200,"cache_read_input_tokens":40000,"output_tokens":180}}}},{IDS}}}"#
        );
        lines += &said;
        lines.push('\n');
        // Its result: mostly some kilobytes of text, now and then a long file.
        let length = if turn.is_multiple_of(10) { 1500 } else { turn * 37 % 120 };
        lines += TOOL_RESULT_HEAD;
        lines += &code.repeat(length);
        lines += TOOL_RESULT_TAIL;
    }
    lines.into_bytes()
}

/// `autopilot` reads the same amount from the double through the pipe.
pub(crate) fn end_to_end() -> Measured {
    // 3,840 lines of 256 KiB and one of 64 MiB: the double is slow with many small ones.
    let tool = |size: &str| format!("emit {TOOL_RESULT_HEAD}{{pad:{size}}}{}", TOOL_RESULT_TAIL.trim_end());
    let half = format!("repeat 1920 {{\n{}\n}}\n", tool("256K"));
    let steps = format!("init\nmark first\n{half}{}\n{half}mark last\n", tool("64M"));
    let sent = SIZE;

    // Without autopilot: the double's own speed.
    let bare = {
        let env = TestEnv::new();
        env.script(&format!("{steps}turn"));
        let mut command = env.command(env!("CARGO_BIN_EXE_fake-claude"));
        let mut child =
            command.args(double::PRINT).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"go").unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut buffer = vec![0; CHUNK];
        while stdout.read(&mut buffer).unwrap() > 0 {}
        assert!(child.wait().unwrap().success());
        between(&env)
    };

    let env = TestEnv::new();
    env.script(&format!("{steps}turn"));
    let run = env.autopilot(&["--mode", "feature", "--prompt", "x", "--max-sessions", "1"]);
    assert_eq!(run.code(), Some(0), "{run}");
    let peak = run.peak_rss_kib.expect("VmHWM of autopilot") * 1024;
    let whole = between(&env);
    let rate = |time: Duration| mb(sent) / time.as_secs_f64();
    Measured {
        value: format!("{:.1} MB, {:.0} MB/s", mb(peak), rate(whole)),
        within: Some(peak <= 32_000_000),
        how: format!(
            "VmHWM of autopilot reading 1 GiB with a line of 64 MiB from fake-claude, once; the double into a \
             reader that does nothing: {:.0} MB/s",
            rate(bare)
        ),
    }
}

/// From the first byte of the bulk to the last, by the double's clock.
fn between(env: &TestEnv) -> Duration {
    let marks = env.marks();
    let at = |name: &str| {
        let mark = marks.iter().find(|mark| mark["event"] == "mark" && mark["detail"] == name);
        mark.and_then(|mark| mark["ms"].as_u64()).unwrap()
    };
    Duration::from_millis(at("last") - at("first"))
}
