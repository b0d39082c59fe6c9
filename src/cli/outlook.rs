//! What a run would decide if it started now: the same reading and the same rules, and nothing changed.
//! `--dry-run` and `verdict` print it.

use std::path::Path;

use crate::core::event::Survey;
use crate::core::mode::Recommendation;
use crate::core::published::PeerSession;
use crate::core::resources::{self, ResourceVerdict, Sample};
use crate::core::selector;
use crate::core::suitability::{self, Verdict};
use crate::core::task::{self, Task};
use crate::driver::survey::{self, Look, Sources};
use crate::driver::{self, clock};
use crate::probe::Probe;
use crate::settings::Settings;

/// What would be decided, and on what.
pub(super) struct Outlook {
    pub(super) survey: Survey,
    pub(super) warnings: Vec<String>,
    pub(super) choice: Recommendation,
    /// A session would start.
    pub(super) would_start: bool,
    /// The tasks it would get.
    pub(super) tasks: Vec<Task>,
    pub(super) resources: ResourceVerdict,
    pub(super) peers: Option<u64>,
    pub(super) peers_here: Vec<PeerSession>,
    pub(super) verdict: Verdict,
}

/// Looks.
pub(super) async fn outlook(settings: &Settings, root: &Path, sources: Sources) -> Outlook {
    let surveyed = survey::survey(sources, None, Look::Only, clock::wall());
    let looked = tokio::task::spawn_blocking({
        let root = root.to_path_buf();
        move || look_at_the_machine(&root)
    });
    let (surveyed, looked) = tokio::join!(surveyed, looked);
    let survey::Surveyed { survey, warnings, plan_changed: _ } = surveyed;
    let choice = selector::select(&survey.signals, false);
    // Only a panic of the probe, told by itself, has no answer: then once more, here, where it is seen.
    let (sample, peers_here) = looked.unwrap_or_else(|_| look_at_the_machine(root));
    let resources = resources::judge(&sample, settings.work.agents_per_wave);
    let rules = &settings.stop_rules;
    let verdict = suitability::judge(&suitability::Inputs {
        autonomy: rules.autonomy,
        floor: rules.confidence_floor,
        confidence: Some(choice.confidence),
        ci: survey.signals.ci,
        resources: Some(resources.tier),
        runs: &survey.recent_runs,
    });
    let sure = choice.mode.is_some() && choice.confidence >= rules.confidence_threshold;
    let tasks = match choice.mode {
        Some(mode) if !survey.signals.prompt => task::choose(&survey.tasks, mode),
        Some(_) | None => Vec::new(),
    };
    Outlook {
        would_start: sure && !verdict.forbids_start(rules.autonomy),
        tasks,
        choice,
        peers: sample.peers.value().copied(),
        peers_here,
        resources,
        verdict,
        survey,
        warnings,
    }
}

/// Resources, and who is at work in this repository. Reads `/proc`.
fn look_at_the_machine(root: &Path) -> (Sample, Vec<PeerSession>) {
    let own = std::process::id();
    let probe = Probe::new();
    (probe.sample(&|pid| pid == own), driver::sessions_at_work(&probe, root))
}
