//! The last things a conversation said and read, for the one that takes over (field-reports H02, G05).
//!
//! Only what the model wrote for its reader is taken, in the main conversation: no tool output, no thinking,
//! nothing of sub-agents, nothing the CLI made up. So nothing a tool printed (a key, a password) travels on.

use std::fs::File;
use std::path::Path;

use serde::Deserialize;

use super::record::{Content, Entry, Role, lossy};
use super::{TranscriptError, open};
use crate::state::backward::{BackwardLines, Line};

/// Texts that are kept, and bytes of each (recovery §1.3).
const TEXTS: usize = 8;
const TEXT_BYTES: usize = 600;
/// Files that are kept.
const FILES: usize = 3;
/// Bytes that are read from the end. What is further back is no last word.
const BUDGET: u64 = 8 << 20;
/// Longest line that is looked at.
const LONGEST_LINE: usize = 1 << 20;

/// The end of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastWords {
    /// What the model wrote, oldest first, each bounded.
    pub texts: Vec<String>,
    /// Files that were read last, the newest last. What they hold may be why it could not go on.
    pub files_read: Vec<String>,
}

/// The last words in the transcript at `path`; none when there is no file.
///
/// # Errors
/// The file exists and cannot be read, or is not a regular file.
pub fn last_words(path: &Path) -> Result<LastWords, TranscriptError> {
    let Some((file, size)) = open(path)? else { return Ok(LastWords::default()) };
    read(&file, size).map_err(|source| TranscriptError::io("read", path, source))
}

fn read(file: &File, size: u64) -> std::io::Result<LastWords> {
    let mut found = LastWords::default();
    let mut lines = BackwardLines::new(file, size, LONGEST_LINE);
    let mut buffer = Vec::new();
    while found.texts.len() < TEXTS || found.files_read.len() < FILES {
        let Some(line) = lines.next_line(BUDGET, &mut buffer)? else { break };
        found.take(&line);
    }
    found.texts.reverse();
    found.files_read.reverse();
    Ok(found)
}

impl LastWords {
    fn take(&mut self, line: &Line<'_>) {
        let Some(bytes) = line.bytes else { return };
        let text = lossy(bytes);
        let Some(entry) = Entry::parse(&text) else { return };
        if entry.conversation() != Some(Role::Assistant) {
            return;
        }
        let content = entry.content();
        let said = content.text();
        if !said.is_empty() && self.texts.len() < TEXTS {
            self.texts.push(bounded(&said));
        }
        let Content::Blocks(blocks) = &content else { return };
        for block in blocks.iter().rev() {
            let reads =
                block.is("tool_use") && block.name.as_ref().is_some_and(|name| name.as_str() == "Read");
            let Some(input) = block.input.filter(|_| reads) else { continue };
            let Ok(ReadInput { file_path }) = serde_json::from_str(input.get()) else { continue };
            if self.files_read.len() < FILES && !self.files_read.contains(&file_path) {
                self.files_read.push(file_path);
            }
        }
    }
}

#[derive(Deserialize)]
struct ReadInput {
    file_path: String,
}

fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES);
    if end == text.len() { text.to_owned() } else { format!("{} …", text[..end].trim_end()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn look(lines: &[&str]) -> LastWords {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.join("\n").as_bytes()).unwrap();
        last_words(file.path()).unwrap()
    }

    fn says(text: &str) -> String {
        format!(
            r#"{{"type":"assistant","message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    }

    fn reads(path: &str) -> String {
        format!(
            r#"{{"type":"assistant","message":{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"Read","input":{{"file_path":"{path}"}}}}]}}}}"#
        )
    }

    #[test]
    fn only_what_the_model_wrote_in_the_main_conversation() {
        let side = says("of a sub-agent").replacen('{', r#"{"isSidechain":true,"#, 1);
        let made_up = says("API Error: 400").replacen('{', r#"{"isApiErrorMessage":true,"#, 1);
        let result = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"a key"}]}}"#;
        let found = look(&[
            r#"{"type":"user","message":{"role":"user","content":"the prompt"}}"#,
            &says("first"),
            &reads("/a"),
            result,
            &reads("/b"),
            &reads("/a"),
            "not a line of JSON",
            &says("second"),
            &side,
            &made_up,
            r#"{"type":"assistant","message":{"content":[{"type":"text","te"#,
        ]);
        assert_eq!(found.texts, ["first", "second"]);
        assert_eq!(found.files_read, ["/b", "/a"], "each once, the newest last");
    }

    #[test]
    fn it_is_bounded() {
        let long = "ä".repeat(2000);
        let lines: Vec<String> = (0..50).map(|n| says(&format!("{n} {long}"))).collect();
        let found = look(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found.texts.len(), TEXTS);
        assert!(found.texts[0].starts_with("42 ") && found.texts[7].starts_with("49 "));
        assert!(found.texts.iter().all(|text| text.len() <= TEXT_BYTES + 8 && text.ends_with('…')));
        assert_eq!(last_words(Path::new("/nowhere/at/all")).unwrap(), LastWords::default());
    }
}
