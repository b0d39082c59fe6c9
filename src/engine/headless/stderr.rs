//! What stays of stderr: a bounded tail, with known noise set apart.
//!
//! stderr is drained at once and always (field-reports C12). A warning there is never the reason of a
//! failure (C17), and one line without an end must not cost memory.

/// Bytes kept of the end.
const TAIL: usize = 4096;
/// Noise lines kept for the report.
const MAX_NOISE: usize = 8;

/// Gathers stderr.
#[derive(Debug, Default)]
pub(super) struct StderrTail {
    bytes: Vec<u8>,
    /// Marker of the background ceiling, found across chunk borders.
    ceiling: bool,
    carry: Vec<u8>,
}

const CEILING: &[u8] = b"Background tasks still running after";

impl StderrTail {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.carry.extend_from_slice(chunk);
        if !self.ceiling {
            self.ceiling = memchr::memmem::find(&self.carry, CEILING).is_some();
        }
        let keep = self.carry.len().min(CEILING.len());
        self.carry.drain(..self.carry.len() - keep);
        let chunk = &chunk[chunk.len().saturating_sub(2 * TAIL)..];
        self.bytes.extend_from_slice(chunk);
        if self.bytes.len() > 4 * TAIL {
            self.bytes.drain(..self.bytes.len() - 2 * TAIL);
        }
    }

    /// Whether the CLI said that it ended background work at its ceiling (field-reports B02).
    pub(super) fn background_ceiling(&self) -> bool {
        self.ceiling
    }

    /// The end without the noise, and the noise.
    pub(super) fn finish(&self) -> (String, Vec<String>) {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut kept = Vec::new();
        let mut noise: Vec<String> = Vec::new();
        for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            if is_noise(line) {
                if noise.len() < MAX_NOISE && !noise.iter().any(|known| known == line) {
                    noise.push(line.chars().take(300).collect());
                }
            } else {
                kept.push(line);
            }
        }
        let mut tail = kept.join("\n");
        if tail.len() > TAIL {
            let mut cut = tail.len() - TAIL;
            while !tail.is_char_boundary(cut) {
                cut += 1;
            }
            tail.drain(..cut);
        }
        (tail, noise)
    }
}

/// Warnings that explain nothing about an end (field-reports K03, K04, F09).
fn is_noise(line: &str) -> bool {
    (line.starts_with("Ignoring ") && line.contains(" entries from "))
        || line.starts_with("Warning: no stdin data received")
        || line.starts_with("claude.ai connectors are disabled")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_told_but_is_never_the_reason() {
        let mut tail = StderrTail::default();
        tail.push(b"Ignoring 88 permissions.allow entries from .claude/settings.json: not trusted\n");
        tail.push(b"Warning: no stdin data received in 3s, proceeding without it.\nError: bad\n");
        let (kept, noise) = tail.finish();
        assert_eq!(kept, "Error: bad");
        assert_eq!(noise.len(), 2);
    }

    #[test]
    fn memory_stays_bounded_and_the_end_is_kept() {
        let mut tail = StderrTail::default();
        for _ in 0..1000 {
            tail.push(&[b'x'; 10_240]);
        }
        tail.push("…the end".as_bytes());
        assert!(tail.bytes.capacity() < 16 * TAIL);
        let (kept, _) = tail.finish();
        assert!(kept.ends_with("the end") && kept.len() <= TAIL);
    }

    #[test]
    fn the_ceiling_is_found_across_chunks() {
        let mut tail = StderrTail::default();
        tail.push(b"Background tasks still run");
        assert!(!tail.background_ceiling());
        tail.push(b"ning after 600s; terminating.\n");
        assert!(tail.background_ceiling());
    }
}
