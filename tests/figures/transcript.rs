//! The outcome of a turn from a transcript of 1 GiB.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::{Duration, Instant};

use autopilot::core::transcript_digest::TurnOver;
use autopilot::transcript::digest;

use super::figure::{Measured, cpu_time, mb, median, ms};

const SIZE: u64 = 1 << 30;
/// Real lines at the end; what is before them is a hole in the file.
const TAIL: u64 = 64 << 20;

pub(crate) fn outcome_time() -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("00000000-0000-4000-8000-000000000000.jsonl");
    let mut file = File::create(&path).unwrap();
    file.seek(SeekFrom::Start(SIZE - TAIL)).unwrap();
    let (mut lines, mut number) = (String::from("\n"), 0_u64);
    let last = assistant(u64::MAX, "end_turn", r#"{"type":"text","text":"Done, and committed."}"#);
    while (lines.len() + last.len()) as u64 <= TAIL - 20_000 {
        number += 1;
        let call = format!(
            r#"{{"type":"tool_use","id":"toolu_{number}","name":"Read","input":{{"file_path":"/repo/src/a.rs"}}}}"#
        );
        lines += &assistant(number, "tool_use", &call);
        lines += &user(number, usize::try_from(number * 7919 % 12_000).unwrap());
    }
    lines += &last;
    file.write_all(lines.as_bytes()).unwrap();
    file.set_len(SIZE - TAIL + lines.len() as u64).unwrap();
    let size = file.metadata().unwrap().len();

    let time = |offset: u64| {
        let (start, cpu_start) = (Instant::now(), cpu_time());
        let digest = digest(&path, offset).unwrap();
        let (time, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu_start));
        assert!(matches!(digest.turn_over, TurnOver::Over { .. }), "{:?}", digest.turn_over);
        (time, cpu, digest.scanned)
    };
    // Seen from the beginning of a long turn, and from that of a short one.
    let mut scanned = 0;
    let mut take = |offset| {
        let (mut times, mut cpu): (Vec<Duration>, Vec<Duration>) = (0..21)
            .map(|_| {
                let (time, cpu, read) = time(offset);
                scanned = read;
                (time, cpu)
            })
            .unzip();
        (median(&mut times), median(&mut cpu))
    };
    let (short, _) = take(size - 500_000);
    let (long, cpu) = take(0);
    Measured {
        value: format!("{:.2} ms", ms(long)),
        within: Some(long <= Duration::from_millis(20)),
        how: format!(
            "{:.0} MB (sparse but for the last {:.0}), turn of the whole file: {:.1} MB read, cache warm, \
             median of 21 (CPU time {:.2} ms); turn of the last 0.5 MB: {:.2} ms",
            mb(size),
            mb(TAIL),
            mb(scanned),
            ms(cpu),
            ms(short)
        ),
    }
}

fn assistant(number: u64, stop_reason: &str, block: &str) -> String {
    format!(
        r#"{{"parentUuid":"p{number}","isSidechain":false,"type":"assistant","uuid":"a{number}","timestamp":"2026-01-01T00:00:00.000Z","sessionId":"00000000-0000-4000-8000-000000000000","cwd":"/repo","gitBranch":"main","version":"2.1.332","message":{{"id":"msg_{number}","type":"message","role":"assistant","model":"claude-x","content":[{block}],"stop_reason":"{stop_reason}","usage":{{"input_tokens":10,"output_tokens":20}}}}}}
"#
    )
}

fn user(number: u64, length: usize) -> String {
    let text = "let x = f(\\\"a\\\");\\n".repeat(length / 18);
    format!(
        r#"{{"parentUuid":"a{number}","isSidechain":false,"type":"user","uuid":"u{number}","timestamp":"2026-01-01T00:00:00.000Z","sessionId":"00000000-0000-4000-8000-000000000000","cwd":"/repo","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{number}","content":"{text}"}}]}}}}
"#
    )
}
