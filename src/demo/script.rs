//! What the demonstration is about: a guide in three parts, one a session.

use std::path::Path;

use super::{DemoError, MARK, run_git};

/// One piece of the work.
#[derive(Debug)]
pub(super) struct Part {
    /// File, from the top of the repository.
    pub(super) path: &'static str,
    /// What it is, for messages.
    pub(super) title: &'static str,
    /// Its text.
    pub(super) text: &'static str,
}

/// Sessions the work takes.
pub const SESSIONS: u32 = 3;

/// The pieces, in order; one a session.
pub(super) const PARTS: [Part; SESSIONS as usize] = [
    Part {
        path: "guide/1-what-happened.md",
        title: "what happened",
        text: "# What happened\n\nEach session began with a prompt, wrote one part of this guide, committed it \
               and handed in\na report. `autopilot` checked the report against the commits before it believed \
               it.\n\n    git log --stat\n",
    },
    Part {
        path: "guide/2-where-to-look.md",
        title: "where to look",
        text: "# Where to look\n\nThe record of the run is one line in `.orchestrator/metrics/autopilot.jsonl`. \
               Every decision,\nwith its inputs, is under `.orchestrator/autopilot/runs/`.\n\n    autopilot \
               status\n",
    },
    Part {
        path: "guide/3-your-own-repository.md",
        title: "your own repository",
        text: "# Your own repository\n\nSee first what would happen, then let it run.\n\n    autopilot \
               doctor\n    autopilot --dry-run\n    autopilot --max-sessions=3 --prompt-file work.md\n",
    },
];

/// `README.md` of the scratch repository.
pub(super) const README: &str = "# A demonstration\n\nThis repository was made by `autopilot demo`. It may be \
                                 deleted at any time.\n";

/// `PROMPT.md`, the work.
pub(super) const PROMPT: &str = "Write a short guide to this demonstration in `guide/`, in three parts: what \
                                 happened, where to look, and your own repository.\nOne part a session, each \
                                 in a commit of its own.\n";

/// How far the work is, as the repository tells; `None` where it was not made for a demonstration.
pub(super) fn parts_done(repo: &Path) -> Result<Option<usize>, DemoError> {
    // A setting that is absent makes git fail; the list of all settings does not.
    let settings = run_git(repo, &["config", "--local", "--list"])?;
    if !settings.lines().any(|line| line == format!("{MARK}=true")) {
        return Ok(None);
    }
    let files = run_git(repo, &["ls-tree", "-r", "--name-only", "HEAD"])?;
    Ok(Some(PARTS.iter().take_while(|part| files.lines().any(|file| file == part.path)).count()))
}
