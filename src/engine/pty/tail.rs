//! The end of a transcript while it grows: facts, and where the turn stands.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde_json::Value;

use crate::core::fact::{Fact, TurnResult};
use crate::core::published::Tokens;
use crate::engine::headless::Translator;
use crate::protocol::frame::{Frame, LineFramer};
use crate::protocol::stream;

use super::{report, screen};

/// Bytes read in one look.
const CHUNK: u64 = 8 << 20;
/// Texts of the last messages that are kept, in bytes.
const TEXT: usize = 64 << 10;

/// A call that has no result yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pending {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) input: Value,
    /// Of a sub-agent.
    pub(super) sub_agent: bool,
}

/// How the last turn ended, as far as it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The model ended it; why.
    Turn(String),
    /// Somebody pressed Esc.
    Interrupted,
    /// The API failed.
    Failed,
}

/// Follows a transcript.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    /// Where the next look begins.
    offset: u64,
    framer: LineFramer,
    translator: Translator,
    /// Calls of the main thread that wait for their results.
    pub(super) pending: Vec<Pending>,
    /// The end of the turn, once it is there.
    pub(super) end: Option<End>,
    /// `system/turn_duration` came after it.
    pub(super) settled: bool,
    /// Prompts of ours that arrived.
    pub(super) prompts: u32,
    /// Version of the program, once an entry names it.
    pub(super) version: Option<String>,
    text: String,
    messages: u64,
    tokens: BTreeMap<String, Tokens>,
    /// Entries for the log of the attempt.
    log: Vec<Vec<u8>>,
}

impl Tail {
    /// Begins at the end of what is there.
    pub(super) fn new(path: PathBuf) -> Self {
        let offset = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        Tail {
            path,
            offset,
            framer: LineFramer::new(),
            translator: Translator::default(),
            pending: Vec::new(),
            end: None,
            settled: false,
            prompts: 0,
            version: None,
            text: String::new(),
            messages: 0,
            tokens: BTreeMap::new(),
            log: Vec::new(),
        }
    }

    /// Reads on; what came is returned, and whether anything did.
    pub(super) fn look(&mut self) -> (Vec<Fact>, bool) {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.take(CHUNK).read_to_end(&mut bytes)
        });
        // It is not there before the first entry, and a look that failed is made again.
        let read = read.unwrap_or(0);
        self.offset += read as u64;
        let mut lines: Vec<Vec<u8>> = Vec::new();
        self.framer.push(&bytes, |frame| {
            if let Frame::Line(line) | Frame::Elided { line, .. } = frame {
                lines.push(line.to_vec());
            }
        });
        let mut facts = Vec::new();
        for line in &lines {
            self.line(line, &mut facts);
        }
        (facts, read > 0)
    }

    /// Messages that came since the last time, as lines of a stream.
    pub(super) fn take_log(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.log)
    }

    fn line(&mut self, line: &[u8], facts: &mut Vec<Fact>) {
        let Ok(entry) = serde_json::from_slice::<Value>(line) else {
            facts.push(Fact::Anomaly {
                kind: "unreadable_transcript_line",
                sample: String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned(),
            });
            return;
        };
        if let Some(version) = entry["version"].as_str() {
            self.version = Some(version.to_owned());
        }
        let kind = entry["type"].as_str().unwrap_or_default();
        if entry["isSidechain"] == true || !["user", "assistant", "system"].contains(&kind) {
            facts.push(Fact::Heartbeat);
            return;
        }
        match kind {
            "system" => {
                self.settled |= entry["subtype"] == "turn_duration";
                facts.push(Fact::Heartbeat);
                return;
            }
            "user" => self.user(&entry),
            _ => self.assistant(&entry),
        }
        let mut logged = line.to_vec();
        logged.push(b'\n');
        self.log.push(logged);
        let translator = &mut self.translator;
        for message in &stream::parse_line(line).messages {
            translator.message(message, |fact| facts.push(fact));
        }
    }

    /// The call of a sub-agent that the screen shows. Sub-agents have transcripts of their own, in a folder beside.
    pub(super) fn call_of_sub_agent(&self, lines: &[String]) -> Option<Pending> {
        let folder = self.path.with_extension("").join("subagents");
        let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        let mut open: Vec<Pending> = Vec::new();
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")).take(64) {
            let mut bytes = Vec::new();
            File::open(&file).ok()?.take(CHUNK).read_to_end(&mut bytes).ok()?;
            for entry in bytes
                .split(|byte| *byte == b'\n')
                .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
            {
                for block in entry["message"]["content"].as_array().into_iter().flatten() {
                    if let Some(id) = block["tool_use_id"].as_str() {
                        open.retain(|call| call.id != id);
                    }
                    if block["type"] == "tool_use" {
                        open.push(Pending {
                            id: block["id"].as_str().unwrap_or_default().to_owned(),
                            tool: block["name"].as_str().unwrap_or_default().to_owned(),
                            input: block["input"].clone(),
                            sub_agent: true,
                        });
                    }
                }
            }
        }
        open.into_iter().find(|call| screen::shows(lines, &call.input))
    }

    fn user(&mut self, entry: &Value) {
        let content = &entry["message"]["content"];
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let text = content.as_str().or_else(|| blocks.iter().find_map(|block| block["text"].as_str()));
        for id in blocks.iter().filter_map(|block| block["tool_use_id"].as_str()) {
            self.pending.retain(|call| call.id != id);
        }
        if text.is_some_and(|text| text.starts_with("[Request interrupted by user")) {
            self.pending.clear();
            self.end = Some(End::Interrupted);
        } else if text.is_some() && entry["isMeta"] != true {
            self.prompts += 1;
            self.end = None;
            self.settled = false;
        }
    }

    fn assistant(&mut self, entry: &Value) {
        let message = &entry["message"];
        if entry["isApiErrorMessage"] == true {
            self.end = Some(End::Failed);
        }
        for block in message["content"].as_array().into_iter().flatten() {
            if let Some(text) = block["text"].as_str() {
                if self.text.len() + text.len() > TEXT {
                    self.text.clear();
                }
                if !self.text.is_empty() {
                    self.text.push('\n');
                }
                self.text.push_str(text);
            }
            if block["type"] == "tool_use" {
                self.text.clear();
                self.pending.push(Pending {
                    id: block["id"].as_str().unwrap_or_default().to_owned(),
                    tool: block["name"].as_str().unwrap_or_default().to_owned(),
                    input: block["input"].clone(),
                    sub_agent: false,
                });
            }
        }
        self.messages += 1;
        let usage = &message["usage"];
        if let Some(id) = message["id"].as_str() {
            let count = |name: &str| usage[name].as_u64().unwrap_or_default();
            let tokens = Tokens {
                input: count("input_tokens"),
                output: count("output_tokens"),
                cache_read: count("cache_read_input_tokens"),
                cache_creation: count("cache_creation_input_tokens"),
            };
            self.tokens.insert(id.to_owned(), tokens);
        }
        match message["stop_reason"].as_str() {
            Some("tool_use") | None => {}
            Some(reason) if self.end != Some(End::Failed) => self.end = Some(End::Turn(reason.to_owned())),
            Some(_) => {}
        }
    }

    /// The end of the turn as a result, in the words of print mode.
    pub(super) fn result(&self, end: &End, session_id: &str) -> TurnResult {
        let mut usage = Tokens::default();
        for tokens in self.tokens.values() {
            usage.input += tokens.input;
            usage.output += tokens.output;
            usage.cache_read += tokens.cache_read;
            usage.cache_creation += tokens.cache_creation;
        }
        let (subtype, is_error, stop_reason) = match end {
            End::Turn(reason) => ("success", false, Some(reason.clone())),
            End::Interrupted => ("error_during_execution", true, None),
            End::Failed => ("success", true, None),
        };
        TurnResult {
            subtype: Some(subtype.to_owned()),
            is_error,
            stop_reason,
            text: self.text.clone(),
            structured_output: report::find(&self.text).filter(|_| !is_error),
            num_turns: Some(self.messages),
            usage: Some(usage),
            session_id: Some(session_id.to_owned()),
            ..TurnResult::default()
        }
    }
}
