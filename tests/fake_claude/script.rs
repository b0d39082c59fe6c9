//! The script: what this call of the double does, one step a line.
//!
//! A line is a word and its arguments: bare words, `"texts"` (with `\n \r \t \0 \\ \" \xHH`) and JSON
//! objects or arrays. `#` starts a comment line. A line that ends in ` {` opens a block, `}` closes it:
//! `nth_call N {` (from call N on, until a sibling with a greater N), `if_session ID {` … `} else {`, `repeat N {`.
//! Placeholders are filled in when a step runs: `{session} {call} {cwd} {pid} {now} {now+20} {now-5} {pad:64K}`.
//!
//! Words are checked when the script is read, so that a typing error fails the test that made it
//! and not an assertion far away.

use serde_json::Value;

/// Every word a script can use.
const WORDS: &[&str] = &[
    "agent",
    "alloc",
    "api_error",
    "append_transcript",
    "ask_hook",
    "ask_hooks",
    "ask_permission",
    "busy",
    "commit",
    "emit",
    "emit_raw",
    "exit",
    "half_write",
    "hang",
    "if_used_session_id",
    "init",
    "mark",
    "new_session",
    "next_prompt",
    "no_transcript",
    "plain",
    "rate_limit",
    "read_prompt",
    "read_stdin",
    "report",
    "result",
    "retry",
    "signal_self",
    "sleep",
    "spawn_grandchild",
    "spend",
    "stderr",
    "text",
    "thinking",
    "tool",
    "tool_end",
    "tool_start",
    "touch",
    "transcript_turn",
    "trap_int",
    "trap_interrupt",
    "trap_term",
    "truncate_transcript",
    "turn",
    "usage_limit",
    "wait_file",
];

/// One step, or a block of steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// A word and the rest of its line, not yet expanded.
    Do { line: usize, word: String, rest: String },
    /// `repeat N`.
    Repeat(u64, Vec<Step>),
    /// `nth_call N`; gone after [`select`].
    NthCall(u64, Vec<Step>),
    /// `if_session ID`; gone after [`select`].
    IfSession { id: String, yes: Vec<Step>, no: Vec<Step> },
}

/// One argument of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arg {
    Word(String),
    Text(Vec<u8>),
    Json(Value),
}

/// Reads a script. The error names the line.
pub(crate) fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut lines = text.lines().enumerate();
    let (steps, end) = block(&mut lines)?;
    match end {
        End::Script => Ok(steps),
        End::Brace(line) | End::Else(line) => Err(format!("line {line}: nothing to close here")),
    }
}

enum End {
    Script,
    Brace(usize),
    Else(usize),
}

fn block<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Result<(Vec<Step>, End), String> {
    let mut steps = Vec::new();
    while let Some((index, raw)) = lines.next() {
        let (number, line) = (index + 1, raw.trim());
        match line {
            "" => continue,
            "}" => return Ok((steps, End::Brace(number))),
            "} else {" => return Ok((steps, End::Else(number))),
            _ if line.starts_with('#') => continue,
            _ => {}
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match rest.trim().strip_suffix('{').map(str::trim) {
            Some(head) if ["repeat", "nth_call", "if_session"].contains(&word) => {
                let (inner, end) = block(lines)?;
                let other = match (word, end) {
                    (_, End::Brace(_)) => Vec::new(),
                    ("if_session", End::Else(_)) => match block(lines)? {
                        (other, End::Brace(_)) => other,
                        _ => return Err(format!("line {number}: `else` is not closed")),
                    },
                    _ => return Err(format!("line {number}: `{word}` is not closed")),
                };
                let count = || head.parse().map_err(|_| format!("line {number}: `{head}` is not a count"));
                steps.push(match word {
                    "repeat" => Step::Repeat(count()?, inner),
                    "nth_call" => Step::NthCall(count()?, inner),
                    _ => Step::IfSession { id: head.to_owned(), yes: inner, no: other },
                });
            }
            _ if WORDS.contains(&word) => {
                steps.push(Step::Do { line: number, word: word.to_owned(), rest: rest.trim().to_owned() });
            }
            _ => return Err(format!("line {number}: unknown step `{word}`")),
        }
    }
    Ok((steps, End::Script))
}

/// The steps of call number `call` with session `id`.
pub(crate) fn select(steps: &[Step], call: u64, id: &str) -> Vec<Step> {
    let chosen = steps
        .iter()
        .filter_map(|s| match s {
            Step::NthCall(n, _) if *n <= call => Some(*n),
            _ => None,
        })
        .max();
    let mut flat = Vec::new();
    for step in steps {
        match step {
            Step::Do { .. } => flat.push(step.clone()),
            Step::Repeat(n, inner) => flat.push(Step::Repeat(*n, select(inner, call, id))),
            Step::NthCall(n, inner) if Some(*n) == chosen => flat.extend(select(inner, call, id)),
            Step::NthCall(..) => {}
            Step::IfSession { id: wanted, yes, no } => {
                flat.extend(select(if wanted == id { yes } else { no }, call, id));
            }
        }
    }
    flat
}

/// Whether one of `words` occurs anywhere in `steps`.
pub(crate) fn mentions(steps: &[Step], words: &[&str]) -> bool {
    steps.iter().any(|step| match step {
        Step::Do { word, .. } => words.contains(&word.as_str()),
        Step::Repeat(_, inner) | Step::NthCall(_, inner) => mentions(inner, words),
        Step::IfSession { yes, no, .. } => mentions(yes, words) || mentions(no, words),
    })
}

/// What placeholders stand for.
pub(crate) struct Facts<'a> {
    pub(crate) session: &'a str,
    pub(crate) call: u64,
    pub(crate) cwd: &'a str,
    pub(crate) now: u64,
}

/// Fills in the placeholders of `text`; anything else in braces stays as it is.
pub(crate) fn expand(text: &str, facts: &Facts<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let replaced = rest.find('}').and_then(|close| Some((placeholder(&rest[1..close], facts)?, close)));
        if let Some((value, close)) = replaced {
            out.push_str(&value);
            rest = &rest[close + 1..];
        } else {
            out.push('{');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

fn placeholder(name: &str, facts: &Facts<'_>) -> Option<String> {
    match name {
        "session" => Some(facts.session.to_owned()),
        "call" => Some(facts.call.to_string()),
        "cwd" => Some(facts.cwd.to_owned()),
        "pid" => Some(std::process::id().to_string()),
        "now" => Some(facts.now.to_string()),
        _ => {
            if let Some(seconds) = name.strip_prefix("now+") {
                Some((facts.now + seconds.parse::<u64>().ok()?).to_string())
            } else if let Some(seconds) = name.strip_prefix("now-") {
                Some((facts.now - seconds.parse::<u64>().ok()?).to_string())
            } else {
                Some("x".repeat(size(name.strip_prefix("pad:")?)?))
            }
        }
    }
}

/// `12`, `64K` or `16M` as a number of bytes.
pub(crate) fn size(text: &str) -> Option<usize> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(factor)
}

/// Splits the expanded rest of a line into arguments.
pub(crate) fn args(text: &str) -> Result<Vec<Arg>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        match first {
            '"' => {
                let (bytes, used) = quoted(rest)?;
                found.push(Arg::Text(bytes));
                rest = &rest[used..];
            }
            '{' | '[' => {
                let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
                let value = stream.next().ok_or("no JSON")?.map_err(|e| format!("bad JSON: {e}"))?;
                found.push(Arg::Json(value));
                rest = &rest[stream.byte_offset()..];
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                found.push(Arg::Word(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        rest = rest.trim_start();
    }
    Ok(found)
}

/// The bytes of a quoted text at the start of `text`, and how long its source is.
fn quoted(text: &str) -> Result<(Vec<u8>, usize), String> {
    let mut bytes = Vec::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((bytes, at + 1)),
            '\\' => {
                let (_, escape) = chars.next().ok_or("text ends in a backslash")?;
                match escape {
                    'n' => bytes.push(b'\n'),
                    'r' => bytes.push(b'\r'),
                    't' => bytes.push(b'\t'),
                    '0' => bytes.push(0),
                    'x' => {
                        let digits: String = chars.by_ref().take(2).map(|(_, c)| c).collect();
                        bytes.push(
                            u8::from_str_radix(&digits, 16).map_err(|_| format!("bad escape \\x{digits}"))?,
                        );
                    }
                    '"' | '\\' => bytes.push(escape as u8),
                    other => return Err(format!("bad escape \\{other}")),
                }
            }
            c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Err("text is not closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Arg, Facts, Step, args, expand, parse, select};

    const FACTS: Facts<'_> = Facts { session: "S", call: 3, cwd: "/repo", now: 1000 };

    fn words(steps: &[Step]) -> Vec<String> {
        steps
            .iter()
            .map(|s| match s {
                Step::Do { word, rest, .. } => format!("{word} {rest}").trim().to_owned(),
                Step::Repeat(n, inner) => format!("{n}x[{}]", words(inner).join(",")),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn each_call_gets_its_own_steps_and_the_last_block_repeats() {
        let script = parse(
            "plain\nnth_call 1 {\n hang\n}\nnth_call 3 {\n init\n repeat 2 {\n  text \"a\"\n }\n}\nexit 4\n",
        )
        .unwrap();
        for (call, expected) in [
            (1, vec!["plain", "hang", "exit 4"]),
            (2, vec!["plain", "hang", "exit 4"]),
            (3, vec!["plain", "init", "2x[text \"a\"]", "exit 4"]),
            (9, vec!["plain", "init", "2x[text \"a\"]", "exit 4"]),
        ] {
            assert_eq!(words(&select(&script, call, "S")), expected, "call {call}");
        }
    }

    #[test]
    fn a_session_can_be_singled_out() {
        let script = parse("if_session S {\n exit 1\n} else {\n exit 2\n}\n").unwrap();
        assert_eq!(words(&select(&script, 1, "S")), ["exit 1"]);
        assert_eq!(words(&select(&script, 1, "T")), ["exit 2"]);
    }

    #[test]
    fn mistakes_are_found_when_the_script_is_read() {
        for (script, message) in [
            ("init\nfly\n", "line 2: unknown step `fly`"),
            ("}\n", "line 1: nothing to close here"),
            ("repeat 2 {\ninit\n", "line 1: `repeat` is not closed"),
            ("repeat x {\n}\n", "line 1: `x` is not a count"),
        ] {
            assert_eq!(parse(script).unwrap_err(), message);
        }
    }

    #[test]
    fn placeholders() {
        for (text, expected) in [
            (r#"{"at":{now+20},"id":"{session}"}"#, r#"{"at":1020,"id":"S"}"#),
            ("{call} {cwd} {now-1} {pad:3}", "3 /repo 999 xxx"),
            ("{}{unknown}{", "{}{unknown}{"),
        ] {
            assert_eq!(expand(text, &FACTS), expected);
        }
    }

    #[test]
    fn arguments() {
        assert_eq!(
            args(r#"Bash {"a":[1]} "x\n\xff\"ü" 50"#).unwrap(),
            [
                Arg::Word("Bash".into()),
                Arg::Json(serde_json::json!({"a":[1]})),
                Arg::Text(b"x\n\xff\"\xc3\xbc".to_vec()),
                Arg::Word("50".into()),
            ]
        );
        for bad in ["\"open", "\"\\q\"", "{\"a\":"] {
            assert!(args(bad).is_err(), "{bad}");
        }
    }
}
