//! Lines → messages. Whatever a line holds, reading it gives messages and anomalies of bounded size, always the same.

use autopilot::protocol::frame::LineFramer;
use autopilot::protocol::stream::{Anomaly, MAX_SAMPLE, Parsed, parse_frame, parse_line};

fn bounded(parsed: &Parsed) {
    for anomaly in &parsed.anomalies {
        let sample = match anomaly {
            Anomaly::NotJson { sample, .. }
            | Anomaly::Glued { sample, .. }
            | Anomaly::NotAnObject { sample }
            | Anomaly::TruncatedTail { sample, .. }
            | Anomaly::Oversized { sample, .. } => sample,
            Anomaly::Elided { .. }
            | Anomaly::InvalidUtf8
            | Anomaly::WrongType { .. }
            | Anomaly::TooMany { .. } => continue,
        };
        // A replacement character is longer than the byte it stands for.
        assert!(sample.len() <= 3 * MAX_SAMPLE, "{} bytes", sample.len());
    }
    for message in &parsed.messages {
        if let Some(label) = message.unknown_label() {
            assert!(label.len() <= 4 * MAX_SAMPLE, "{} bytes", label.len());
        }
    }
}

/// A stream of lines, and each line by itself.
pub fn run(data: &[u8]) {
    let mut framer = LineFramer::with_limits(4096, 64);
    let mut from_stream = Vec::new();
    framer.push(data, |frame| from_stream.push(parse_frame(frame)));
    framer.finish(|frame| from_stream.push(parse_frame(frame)));
    from_stream.iter().for_each(bounded);
    for line in data.split(|byte| *byte == b'\n') {
        let parsed = parse_line(line);
        bounded(&parsed);
        assert_eq!(format!("{parsed:?}"), format!("{:?}", parse_line(line)));
        // A line that is an object and nothing else is never called a bad one.
        if serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line).is_ok() {
            assert!(!parsed.anomalies.iter().any(Anomaly::is_bad_line), "{parsed:?}");
        }
    }
}
