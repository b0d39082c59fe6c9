use super::super::mode::{Pressure, PressureLevel};
use super::super::signals::{Backlog, BootstrapLock, Issue, Learning, SessionFacts};
use super::*;

// Signals in the words of upstream-formats §6.10.

fn rec(mode: &str) -> Signals {
    let state = StateFields { recommended_mode: Some(mode.to_owned()), ..StateFields::default() };
    Signals { state, ..Signals::default() }
}

/// Sessions as they are written today.
fn nested(kind: &str, completions: &[f64]) -> Vec<SessionFacts> {
    let session = |&completion: &f64| SessionFacts {
        has_effectiveness: true,
        planned: Some(4.0),
        carryover: Some(0.0),
        ..flat(kind, completion)
    };
    completions.iter().map(session).collect()
}

/// A session without an `effectiveness` object.
fn flat(kind: &str, completion: f64) -> SessionFacts {
    SessionFacts {
        session_type: Some(kind.to_owned()),
        completion: Some(completion),
        ..SessionFacts::default()
    }
}

trait With: Sized {
    fn change(self, change: impl FnOnce(&mut Signals)) -> Self;

    /// S3.
    fn s3(self, kind: &str) -> Self {
        self.change(|s| s.recent_sessions = nested(kind, &[1.0; 3]))
    }
    /// Three flat sessions; `P3` is with 0.5.
    fn flat3(self, kind: &str, completion: f64) -> Self {
        self.change(|s| s.recent_sessions = vec![flat(kind, completion); 3])
    }
    fn tier(self, tier: &str) -> Self {
        self.change(|s| s.bootstrap = Some(BootstrapLock { tier: Some(tier.to_owned()) }))
    }
    fn priorities(self, count: i64) -> Self {
        self.change(|s| s.state.top_priorities = Some((0..count).collect()))
    }
    fn carryover(self, ratio: f64) -> Self {
        self.change(|s| s.state.carryover_ratio = Some(ratio))
    }
    fn completion(self, rate: f64) -> Self {
        self.change(|s| s.state.completion_rate = Some(rate))
    }
    fn hints(self, subject: &str, count: usize) -> Self {
        let hint = Learning {
            kind: "effective-sizing".to_owned(),
            subject: subject.to_owned(),
            ..Learning::default()
        };
        self.change(|s| s.learnings = vec![hint; count])
    }
    fn text(self, text: &str) -> Self {
        self.change(|s| s.task_text = Some(text.to_owned()))
    }
    fn tasks(self, open: u32, most_carried: u32) -> Self {
        self.change(|s| s.tasks = Some(TaskEvidence { open, most_carried }))
    }
}

impl With for Signals {
    fn change(mut self, change: impl FnOnce(&mut Signals)) -> Self {
        change(&mut self);
        self
    }
}

/// `feature 0.7; deep 0.4, discovery 0.4`
fn shown(choice: &Recommendation) -> String {
    let mode = choice.mode.map_or("none", Mode::as_str);
    let alternatives: Vec<String> = choice
        .alternatives
        .iter()
        .map(|Alternative { mode, confidence }| {
            let mode = if *mode == Mode::Housekeeping { "hk" } else { mode.as_str() };
            format!("{mode} {confidence}")
        })
        .collect();
    format!("{mode} {}; {}", choice.confidence, alternatives.join(", "))
}

#[track_caller]
fn check(signals: &Signals, expected: &str) -> Recommendation {
    let choice = select(signals, false);
    assert_eq!(shown(&choice), expected, "{:#?}", choice.reasons);
    choice
}

#[test]
fn upstreams_vectors() {
    let none = || Signals::default();
    let table = [
        // The first table of §6.10.
        (rec("feature"), "feature 0.5; "),
        (rec("feature").priorities(0), "feature 0.55; "),
        (rec("deep").priorities(0), "deep 0.5; "),
        (rec("feature").s3("feature"), "feature 0.7; hk 0.4, deep 0.4, discovery 0.4"),
        (rec("feature").flat3("feature", 1.0), "feature 0.65; hk 0.4, deep 0.4, discovery 0.4"),
        (
            rec("feature").s3("feature").tier("standard").priorities(0),
            "feature 0.8; hk 0.3, deep 0.3, discovery 0.3",
        ),
        (
            rec("feature").s3("feature").tier("standard").priorities(0).hints("Feature", 1),
            "feature 0.85; hk 0.3, deep 0.3, discovery 0.3",
        ),
        (
            rec("feature").s3("feature").tier("standard").priorities(0).hints("a feature session", 2),
            "feature 0.9; hk 0.3, deep 0.3, discovery 0.3",
        ),
        (
            rec("deep").s3("deep").tier("deep").hints("deep", 1),
            "deep 0.8; feature 0.35, hk 0.3, discovery 0.3",
        ),
        (
            rec("deep").s3("deep").tier("deep").hints("deep", 2),
            "deep 0.85; feature 0.35, hk 0.3, discovery 0.3",
        ),
        (
            rec("housekeeping").s3("housekeeping").tier("fast").hints("housekeeping", 2),
            "housekeeping 0.85; feature 0.35, deep 0.3, discovery 0.3",
        ),
        (
            rec("feature").change(|s| s.recent_sessions = nested("feature", &[0.7, 0.8, 0.7])),
            "feature 0.63; hk 0.5, deep 0.5, discovery 0.5",
        ),
        (rec("feature").s3("deep").tier("deep"), "deep 0.75; feature 0.35, hk 0.3, discovery 0.3"),
        (rec("feature").carryover(0.25), "feature 0.4; "),
        (rec("deep").carryover(0.25), "deep 0.5; "),
        (none().completion(0.49).carryover(0.9), "plan-retro 0.8; feature 0.3, discovery 0.25"),
        (none().completion(0.5).carryover(0.3), "deep 0.75; feature 0.3, plan-retro 0.2"),
        (none().carryover(0.456), "deep 0.75; feature 0.3, plan-retro 0.2"),
        (rec("plan-retro").tier("standard"), "feature 0.6; plan-retro 0.4, hk 0.4, deep 0.4"),
        (rec("feature").s3("discovery"), "feature 0.45; discovery 0.65, hk 0.4, deep 0.4"),
        (
            rec("feature").change(|s| s.recent_sessions = vec![SessionFacts::default(); 3]),
            "feature 0.5; hk 0.5, deep 0.5, discovery 0.5",
        ),
        (rec("feature").priorities(8).text("Rename Across All of it"), "feature 0.35; "),
        (rec("feature").priorities(8), "feature 0.5; "),
        (rec("feature").priorities(6), "feature 0.5; "),
        (rec("bogus"), "feature 0; "),
        (none(), "feature 0; "),
        // The second: float and order.
        (rec("deep").flat3("deep", 0.5), "deep 0.57; hk 0.5, feature 0.5, discovery 0.5"),
        (rec("deep").flat3("deep", 0.5).hints("deep", 1), "deep 0.63; hk 0.5, feature 0.5, discovery 0.5"),
        (rec("deep").flat3("deep", 0.5).tier("deep"), "deep 0.68; hk 0.4, feature 0.4, discovery 0.4"),
        (rec("deep").flat3("deep", 0.5).hints("deep", 2), "deep 0.68; hk 0.5, feature 0.5, discovery 0.5"),
        (
            rec("deep").flat3("deep", 0.5).tier("deep").hints("deep", 1),
            "deep 0.73; hk 0.4, feature 0.4, discovery 0.4",
        ),
        (
            rec("feature").flat3("feature", 0.5).tier("standard").hints("feature", 2),
            "feature 0.78; hk 0.4, deep 0.4, discovery 0.4",
        ),
        (
            rec("feature").flat3("feature", 0.5).tier("standard").hints("feature", 1).priorities(0),
            "feature 0.77; hk 0.4, deep 0.4, discovery 0.4",
        ),
        (
            rec("feature").flat3("feature", 0.5).tier("standard").hints("feature", 2).priorities(0),
            "feature 0.83; hk 0.4, deep 0.4, discovery 0.4",
        ),
        (
            rec("feature").s3("deep").tier("deep").carryover(0.25),
            "deep 0.75; feature 0.25, hk 0.2, discovery 0.2",
        ),
        (
            rec("discovery").s3("deep").tier("deep").carryover(0.25),
            "deep 0.75; feature 0.25, discovery 0.2, hk 0.2",
        ),
        (rec("housekeeping").tier("fast"), "housekeeping 0.6; feature 0.4, deep 0.4, discovery 0.4"),
        (
            rec("feature").priorities(9).text("repo-wide").change(|s| {
                s.recent_sessions = vec![SessionFacts {
                    has_effectiveness: true,
                    planned: Some(4.0),
                    carryover: Some(2.0),
                    ..SessionFacts::default()
                }];
            }),
            "deep 0.5; discovery 0.5, evolve 0.5, feature 0.35",
        ),
    ];
    for (signals, expected) in &table {
        check(signals, expected);
    }
    assert_eq!(table.len(), 38);
}

#[test]
fn what_upstreams_tests_pin() {
    let none = || Signals::default();
    let table = [
        (none().completion(0.499), "plan-retro 0.8; feature 0.3, discovery 0.25"),
        (none().completion(0.5), "feature 0; "),
        (none().carryover(0.3), "deep 0.75; feature 0.3, plan-retro 0.2"),
        (none().carryover(0.29), "feature 0; "),
        (rec("feature").completion(0.1).carryover(0.4), "plan-retro 0.8; feature 0.3, discovery 0.25"),
        (none().completion(f64::NAN).carryover(f64::NAN), "feature 0; "),
        (rec("feature").completion(f64::NEG_INFINITY).carryover(f64::INFINITY), "feature 0.5; "),
        (rec("Feature"), "feature 0; "),
        (rec(" deep"), "feature 0; "),
        (rec(""), "feature 0; "),
        // Trend 0.65, with tier 0.75, with one hint 0.80, with two 0.85, and no more.
        (rec("deep").flat3("deep", 0.9), "deep 0.65; hk 0.4, feature 0.4, discovery 0.4"),
        (rec("deep").flat3("deep", 0.9).tier("deep"), "deep 0.75; hk 0.3, feature 0.3, discovery 0.3"),
        (
            rec("deep").flat3("deep", 0.9).tier("deep").hints("deep", 1),
            "deep 0.8; hk 0.3, feature 0.3, discovery 0.3",
        ),
        (
            rec("deep").flat3("deep", 0.9).tier("deep").hints("deep", 2),
            "deep 0.85; hk 0.3, feature 0.3, discovery 0.3",
        ),
        (
            rec("deep").flat3("deep", 0.9).tier("deep").hints("deep", 9),
            "deep 0.85; hk 0.3, feature 0.3, discovery 0.3",
        ),
        (rec("deep").flat3("deep", 0.89), "deep 0.57; hk 0.5, feature 0.5, discovery 0.5"),
        // Only the last three count, and only if they are alike.
        (
            rec("deep").change(|s| {
                s.recent_sessions = vec![flat("feature", 1.0); 7];
                s.recent_sessions.extend(vec![flat("deep", 1.0); 3]);
            }),
            "deep 0.65; hk 0.4, feature 0.4, discovery 0.4",
        ),
        (
            rec("deep").change(|s| {
                s.recent_sessions = vec![flat("deep", 1.0), flat("deep", 1.0), flat("feature", 1.0)];
            }),
            "deep 0.5; hk 0.5, feature 0.5, discovery 0.5",
        ),
        (
            rec("deep").change(|s| s.recent_sessions = vec![flat("deep", 1.0); 2]),
            "deep 0.5; hk 0.5, feature 0.5, discovery 0.5",
        ),
        // An unknown completion counts as 0.
        (
            rec("deep").change(|s| {
                s.recent_sessions = vec![flat("deep", 1.3); 3];
                s.recent_sessions[1].completion = None;
            }),
            "deep 0.57; hk 0.5, feature 0.5, discovery 0.5",
        ),
        // Three sessions of a type that is no mode are nobody's trend.
        (rec("feature").flat3("unknown", 1.0), "feature 0.5; hk 0.5, deep 0.5, discovery 0.5"),
        // Swaps.
        (rec("feature").flat3("deep", 1.0), "deep 0.65; feature 0.4, hk 0.4, discovery 0.4"),
        (rec("feature").flat3("deep", 1.0).tier("deep"), "deep 0.75; feature 0.3, hk 0.3, discovery 0.3"),
        (rec("plan-retro").flat3("plan-retro", 1.0), "plan-retro 0.65; hk 0.4, feature 0.4, deep 0.4"),
        // The penalty of a carry-over spares deep.
        (rec("feature").carryover(0.2), "feature 0.4; "),
        (rec("feature").carryover(0.19), "feature 0.5; "),
        (rec("deep").carryover(0.29), "deep 0.5; "),
        // A tier that is no tier says nothing, but the lock is there.
        (rec("feature").tier("huge"), "feature 0.5; hk 0.5, deep 0.5, discovery 0.5"),
        (
            rec("feature").change(|s| s.bootstrap = Some(BootstrapLock::default())),
            "feature 0.5; hk 0.5, deep 0.5, discovery 0.5",
        ),
        // A hint of another kind is none.
        (
            rec("deep").change(|s| {
                s.learnings = vec![Learning {
                    kind: "fragile-file".into(),
                    subject: "deep".into(),
                    ..Learning::default()
                }];
            }),
            "deep 0.5; hk 0.5, feature 0.5, discovery 0.5",
        ),
        (
            rec("deep").change(|s| {
                s.learnings = vec![Learning {
                    kind: "scope-guidance".into(),
                    subject: "DEEPer".into(),
                    ..Learning::default()
                }];
            }),
            "deep 0.55; hk 0.5, feature 0.5, discovery 0.5",
        ),
    ];
    for (signals, expected) in &table {
        check(signals, expected);
    }
    assert_eq!(table.len(), 31);

    // The backlog is looked at, and changes nothing.
    let before = rec("feature").s3("deep").tier("deep");
    let mut backlog = Backlog { total: 50, critical: 9, high: 20, stale: 30, ..Backlog::default() };
    backlog.tasks.push(Issue { number: 1, title: "deep".into(), labels: vec!["deep".into()] });
    let after = before.clone().change(|s| s.backlog = Some(backlog));
    assert_eq!(select(&before, false), select(&after, false));
}

#[test]
fn pressure_has_three_terms() {
    #[track_caller]
    fn pressed(signals: &Signals, level: PressureLevel, score: f64) -> Recommendation {
        let choice = select(signals, false);
        assert_eq!(choice.pressure, Pressure { level, score }, "{:?}", choice.reasons);
        choice
    }
    use PressureLevel::{High, Low, Medium};
    let left = |carryover: f64, planned: f64| SessionFacts {
        has_effectiveness: true,
        planned: Some(planned),
        carryover: Some(carryover),
        ..SessionFacts::default()
    };
    let after = |sessions: Vec<SessionFacts>| rec("feature").change(|s| s.recent_sessions = sessions);

    pressed(&Signals::default(), Low, 0.0);
    pressed(&rec("feature").priorities(5), Low, 0.2);
    pressed(&rec("feature").priorities(6), Medium, 0.3);
    let eight = pressed(&rec("feature").priorities(8), Medium, 0.5);
    assert!(eight.rationale.ends_with("; pressure:medium(0.5)"), "{}", eight.rationale);
    pressed(&rec("feature").priorities(800), Medium, 0.5);
    pressed(&rec("feature").priorities(8).text("rename across all"), High, 0.75);
    pressed(&after(vec![left(2.0, 4.0)]).priorities(9).text("repo-wide"), High, 0.95);
    pressed(&after(vec![left(4.0, 10.0)]).priorities(8).text("every Agent"), High, 0.85);
    pressed(&after(vec![left(3.0, 10.0)]), Low, 0.0);
    pressed(&after(vec![left(10.0, 10.0)]), Low, 0.25);
    // Of the last five; what has no plan is not one of the valid ones.
    let mut long = vec![left(10.0, 10.0); 4];
    long.extend(vec![left(0.0, 4.0); 5]);
    pressed(&after(long), Low, 0.0);
    pressed(
        &after(vec![left(1.0, 0.0), left(1.0, f64::NAN), left(f64::INFINITY, 2.0), left(1.0, 2.0)]),
        Low,
        0.2,
    );
    for phrase in ["ACROSS ALL", "every skill", "every repo", "repowide", "cross-cutting", "massive refactor"]
    {
        pressed(&Signals::default().text(&format!("please, {phrase} it")), Low, 0.25);
    }
    for phrase in ["", "every file", "repo wide", "crosscutting"] {
        pressed(&Signals::default().text(phrase), Low, 0.0);
    }
    // The bonus of a low pressure wants something that says so.
    check(&rec("feature").text(""), "feature 0.5; ");
    check(&rec("feature").text("x"), "feature 0.55; ");
}

#[test]
fn wording() {
    #[track_caller]
    fn says(signals: &Signals, expected: &str) {
        assert_eq!(select(signals, false).rationale, expected);
    }
    says(&rec("feature"), "passthrough of recommended-mode — stale signals");
    says(&rec("feature").tier("huge"), "passthrough of recommended-mode");
    says(&rec("deep").tier("deep"), "passthrough reinforced by bootstrap tier (deep)");
    says(&rec("deep").s3("deep"), "passthrough reinforced by recent-sessions trend");
    let both = "passthrough reinforced by recent-sessions trend + bootstrap tier";
    says(&rec("deep").s3("deep").tier("deep"), both);
    says(
        &rec("feature").s3("deep").tier("deep"),
        "global-max swap: deep (0.75) outranked passthrough feature (0.35)",
    );
    says(&Signals::default().carryover(0.3), "carryover 30% — deep clear");
    says(&Signals::default().carryover(0.456), "carryover 46% — deep clear");
    says(&Signals::default().completion(0.4999), "completion 0.499 < 0.5 — plan-retro clear");
    says(&rec("bogus"), "missing/invalid recommendedMode → default");
    says(&rec("feature").tasks(5, 0), "passthrough of recommended-mode — stale signals; 5 open tasks +0.4");
    says(&Signals::default().carryover(0.4).tasks(1, 0), "carryover 40% — deep clear; 1 open task");
    says(&Signals::default().tasks(5, 0), "5 open tasks: feature");
    says(&Signals::default().tasks(5, 2), "5 open tasks, one carried over 2 times: deep");
    // Where there is nothing, it teaches; what the rules said is still in the reasons.
    says(&Signals::default(), NO_SOURCE);
    let nothing = select(&Signals::default(), false);
    assert!(nothing.rationale.contains("--prompt") && nothing.rationale.contains(".project/plan.md"));
    assert!(nothing.reasons.iter().any(|line| line.contains("missing/invalid recommendedMode")));
    says(&Signals::default().flat3("deep", 1.0), "missing/invalid recommendedMode → default");
    // Words of others stay on their line.
    let odd = select(&rec(&"x\n\u{1b}[2J".repeat(1000)), false);
    assert!(odd.reasons.iter().all(|line| line.len() < 400 && !line.contains(char::is_control)));
}

#[test]
fn the_reasons_say_every_term() {
    let choice = select(&rec("feature").s3("deep").tier("deep").carryover(0.25).tasks(3, 0), false);
    assert_eq!(
        choice.reasons,
        [
            "context pressure: low 0 = scope 0 + keywords 0 + carry-over 0",
            "SPIRAL does not apply: completion not known",
            "CARRYOVER does not apply: ratio 0.25",
            "PASSTHROUGH: feature 0.25 = 0.5 + trend 0 + tier 0 + hints 0 - penalties 0.3 + pressure 0.05",
            "instead: housekeeping 0.2 = 0.5 + trend 0 + tier 0 + hints 0 - penalties 0.3 + pressure 0",
            "instead: deep 0.75 = 0.5 + trend 0.15 + tier 0.1 + hints 0 - penalties 0 + pressure 0",
            "instead: discovery 0.2 = 0.5 + trend 0 + tier 0 + hints 0 - penalties 0.3 + pressure 0",
            "instead: evolve 0.2 = 0.5 + trend 0 + tier 0 + hints 0 - penalties 0.3 + pressure 0",
            "instead: plan-retro 0.2 = 0.5 + trend 0 + tier 0 + hints 0 - penalties 0.3 + pressure 0",
            "global-max swap: deep (0.75) outranked passthrough feature (0.25)",
            "the rules give deep 0.75: global-max swap: deep (0.75) outranked passthrough feature (0.25)",
            "task evidence: 3 open tasks: every score +0.4, at most 0.95: deep 0.75 → 0.95",
        ]
    );
}

#[test]
fn open_tasks() {
    let none = || Signals::default();
    let table = [
        // Nothing else to go by: their number decides, and one that is left over again and again.
        (none().tasks(1, 0), "housekeeping 0.9; "),
        (none().tasks(2, 1), "housekeeping 0.9; "),
        (none().tasks(3, 0), "feature 0.9; "),
        (none().tasks(8, 1), "feature 0.9; "),
        (none().tasks(9, 0), "deep 0.9; "),
        (none().tasks(u32::MAX, u32::MAX), "deep 0.9; "),
        (none().tasks(5, 2), "deep 0.9; "),
        (none().tasks(1, 2), "deep 0.9; "),
        (rec("bogus").tasks(3, 0), "feature 0.9; "),
        // A leftover of the last session comes first.
        (none().carryover(0.3).tasks(1, 0), "deep 0.9; feature 0.3, plan-retro 0.2"),
        // A person should look.
        (none().completion(0.2).tasks(20, 5), "plan-retro 0.8; feature 0.3, discovery 0.25"),
        // Every other score rises.
        (rec("feature").tasks(3, 0), "feature 0.9; "),
        (rec("deep").tasks(3, 0), "deep 0.9; "),
        (rec("feature").priorities(0).tasks(3, 0), "feature 0.95; "),
        (rec("feature").priorities(8).text("across all").tasks(3, 0), "feature 0.75; "),
        (rec("feature").s3("discovery").tasks(3, 9), "feature 0.85; discovery 0.95, hk 0.8, deep 0.8"),
        (rec("plan-retro").tier("standard").tasks(1, 0), "feature 0.95; plan-retro 0.8, hk 0.8, deep 0.8"),
        // A source with nothing open: no work, whatever the rules say.
        (none().tasks(0, 0), "none 0; "),
        (rec("feature").s3("feature").tasks(0, 0), "none 0; "),
        (none().carryover(0.9).tasks(0, 0), "none 0; "),
        (none().completion(0.1).tasks(0, 7), "none 0; "),
    ];
    for (signals, expected) in &table {
        let choice = check(signals, expected);
        assert_eq!(choice.no_open_work, choice.mode.is_none());
        let without = select(&Signals { tasks: None, ..signals.clone() }, false);
        assert_eq!(choice.compatible, without.compatible);
        let Compatible { mode, confidence, rule: _ } = choice.compatible.unwrap();
        assert_eq!((Some(mode), confidence), (without.mode, without.confidence));
    }
    assert_eq!(table.len(), 21);
}

#[test]
fn the_order_before_the_rules() {
    let choose = |forced_mode, prompt, interrupted, work_done| {
        let signals = Signals { forced_mode, prompt, interrupted, ..rec("evolve").tasks(0, 0) };
        let choice = select(&signals, work_done);
        assert!(choice.compatible.is_none() && choice.alternatives.is_empty() && !choice.reasons.is_empty());
        (choice.mode, choice.confidence, choice.no_open_work)
    };
    for forced in [None].into_iter().chain(Mode::ALL.map(Some)) {
        let sure = |mode| (Some(mode), 1.0, false);
        let or_feature = forced.unwrap_or(Mode::Feature);
        for (prompt, work_done) in [(false, false), (false, true), (true, false), (true, true)] {
            assert_eq!(choose(forced, prompt, true, work_done), sure(or_feature));
        }
        assert_eq!(choose(forced, true, false, true), (None, 0.0, true));
        assert_eq!(choose(forced, true, false, false), sure(or_feature));
        if let Some(mode) = forced {
            assert_eq!(choose(Some(mode), false, false, false), sure(mode));
            assert_eq!(choose(Some(mode), false, false, true), (None, 0.0, true));
        }
    }
}

#[test]
fn a_choice_survives_the_journal() {
    let choice = select(&rec("feature").s3("deep").tier("deep").priorities(8).tasks(3, 0), false);
    let text = serde_json::to_string(&choice).unwrap();
    assert_eq!(serde_json::from_str::<Recommendation>(&text).unwrap(), choice);
    assert!(text.contains(r#""pressure":{"level":"medium","score":0.5}"#), "{text}");
    assert!(
        text.contains(r#""compatible":{"rule":"passthrough","mode":"deep","confidence":0.75}"#),
        "{text}"
    );
    // A reader of an older line takes what is there.
    let old = r#"{"mode":"deep","confidence":1.0,"rationale":"--mode","unknown":[]}"#;
    assert_eq!(serde_json::from_str::<Recommendation>(old).unwrap().mode, Some(Mode::Deep));
}
