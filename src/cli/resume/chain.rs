//! The runs that the one to be resumed went on with: `resume` of a `resume`.

use crate::core::published::{Entry, RunEvent};
use crate::journal::reader::read_journal;
use crate::report::RunSummary;
use crate::state::layout::Layout;

use super::RunFile;
use super::read_run_file;

/// More parts than a person resumes. Guards against files that name each other.
const LONGEST: usize = 1000;

/// The earlier parts, oldest first. It ends where a part is not there any more or cannot be read.
#[derive(Default)]
pub(super) struct Chain(Vec<Part>);

struct Part {
    file: RunFile,
    entries: Vec<Entry>,
}

/// What parts of a chain have used up of its budgets.
#[derive(Default)]
pub(super) struct Used {
    pub(super) sessions: u32,
    /// Output tokens.
    pub(super) tokens: u64,
    /// As far as it is known.
    pub(super) cost_usd: Option<f64>,
}

impl Used {
    /// With what one more part has used up.
    pub(super) fn and(mut self, part: &RunSummary) -> Used {
        self.sessions = self.sessions.saturating_add(part.iterations);
        self.tokens = self.tokens.saturating_add(part.tokens.map(|tokens| tokens.output).unwrap_or_default());
        self.cost_usd = match (self.cost_usd, part.known_cost_usd) {
            (Some(before), Some(more)) => Some(before + more),
            (known, None) | (None, known) => known,
        };
        self
    }
}

impl Chain {
    /// What came before the run of `file`.
    pub(super) fn before(layout: &Layout, file: &RunFile) -> Chain {
        let mut parts = Vec::new();
        let mut parent = file.parent_run_id.clone();
        while let Some(run_dir) = parent.as_deref().and_then(|id| layout.run(id)) {
            let (Ok(file), Ok(replay)) =
                (read_run_file(&run_dir.run_json()), read_journal(&run_dir.events()))
            else {
                break;
            };
            if parts.len() == LONGEST {
                break;
            }
            parent.clone_from(&file.parent_run_id);
            parts.push(Part { file, entries: replay.entries });
        }
        parts.reverse();
        Chain(parts)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flat_map(|part| &part.entries)
    }

    pub(super) fn used(&self) -> Used {
        self.0.iter().fold(Used::default(), |used, part| used.and(&RunSummary::from_entries(&part.entries)))
    }

    /// The entries that say what `file`, the last part, left unfinished: its own, and if it died before it
    /// started anything, those of the part whose work it had taken over.
    pub(super) fn unfinished<'a>(&'a self, file: &RunFile, last: &'a [Entry]) -> Vec<&'a Entry> {
        let (mut prompt, mut part) = (&file.prompt, last);
        let mut entries = vec![part];
        for earlier in self.0.iter().rev() {
            // With another prompt it had other work.
            if started_anything(part) || earlier.file.prompt != *prompt {
                break;
            }
            (prompt, part) = (&earlier.file.prompt, &earlier.entries);
            entries.push(part);
        }
        entries.into_iter().rev().flatten().collect()
    }
}

fn started_anything(entries: &[Entry]) -> bool {
    entries
        .iter()
        .any(|entry| matches!(entry.event, RunEvent::AttemptStarted { .. } | RunEvent::SessionEnded { .. }))
}
