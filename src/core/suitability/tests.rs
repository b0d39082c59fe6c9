use proptest::prelude::*;

use super::*;

/// Everything in order.
fn healthy() -> Inputs<'static> {
    Inputs {
        confidence: Some(0.9),
        ci: Some(CiStatus::Green),
        resources: Some(Tier::Green),
        ..Inputs::default()
    }
}

fn ended(word: &str) -> RunOutcome {
    RunOutcome { kill_switch: Some(word.to_owned()), ..RunOutcome::default() }
}

/// So many runs, of which so many ended with this word and the others as planned.
fn runs(total: usize, bad: usize, word: &str) -> Vec<RunOutcome> {
    (0..total).map(|at| ended(if at < bad { word } else { "max-sessions-reached" })).collect()
}

/// The gates that did not pass.
fn failed(inputs: &Inputs<'_>) -> Vec<GateName> {
    let verdict = judge(inputs);
    let names: Vec<GateName> = verdict.gates.iter().map(|gate| gate.name).collect();
    assert_eq!(names, GateName::ALL);
    let failed: Vec<_> = verdict.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name).collect();
    assert_eq!(verdict.suitable, failed.is_empty(), "{}", verdict.rationale);
    failed
}

#[test]
fn confidence_has_to_reach_the_floor() {
    let check = |confidence, floor, passes: bool| {
        let inputs = Inputs { floor, confidence, ..healthy() };
        assert_eq!(failed(&inputs).is_empty(), passes, "{confidence:?} {floor}");
    };
    check(Some(0.5), 0.5, true);
    check(Some(0.499_999), 0.5, false);
    check(Some(0.0), 0.0, true);
    check(Some(1.0), 1.0, true);
    check(Some(0.99), 1.0, false);
    for missing in [None, Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY)] {
        check(missing, 0.0, false);
        let verdict = judge(&Inputs { confidence: missing, ..healthy() });
        assert!(
            verdict.rationale.contains("confidence 0>=0.5 FAIL") && verdict.confidence.abs() < f64::EPSILON
        );
    }
    // A floor that is none is the default, never 0.
    for odd in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
        check(Some(0.49), odd, false);
        check(Some(0.5), odd, true);
    }
}

#[test]
fn fewer_than_one_run_in_five_may_end_badly() {
    let check = |total, bad, passes: bool| {
        let runs = runs(total, bad, "spiral");
        let inputs = Inputs { runs: &runs, ..healthy() };
        assert_eq!(failed(&inputs), if passes { vec![] } else { vec![GateName::History] }, "{bad}/{total}");
    };
    check(0, 0, true);
    check(4, 4, true);
    check(5, 0, true);
    check(5, 1, false);
    check(6, 1, true);
    check(10, 1, true);
    check(10, 2, false);
    check(11, 2, true);
    check(50, 9, true);
    check(50, 10, false);
}

#[test]
fn only_what_went_wrong_is_bad() {
    for switch in KillSwitch::ALL {
        let all = runs(10, 10, switch.as_str());
        let bad = ["spiral", "failed-wave", "stall-timeout", "carryover-too-high", "resource-overload"]
            .contains(&switch.as_str());
        let expected = if bad { vec![GateName::History] } else { vec![] };
        assert_eq!(failed(&Inputs { runs: &all, ..healthy() }), expected, "{switch}");
    }
    let ten = |run: RunOutcome| {
        let all = vec![run; 10];
        judge(&Inputs { runs: &all, ..healthy() })
    };
    let planned = ten(ended("max-sessions-reached"));
    assert!(planned.suitable && planned.warnings.is_empty(), "{planned:?}");
    assert!(ten(RunOutcome::default()).suitable);
    assert!(ten(ended("")).suitable);
    assert!(!ten(ended(" spiral ")).suitable);
    assert!(ten(RunOutcome { fallback_to_manual: true, ..ended("spiral") }).suitable);
    let newer = ten(ended("bored"));
    assert!(newer.suitable);
    assert_eq!(newer.warnings, ["10 of 10 runs ended with an unknown kill-switch: not counted as bad"]);
}

#[test]
fn a_dry_run_is_no_run() {
    let mut all = runs(5, 1, "spiral");
    all.extend(vec![RunOutcome { dry_run: true, ..RunOutcome::default() }; 40]);
    assert_eq!(failed(&Inputs { runs: &all, ..healthy() }), [GateName::History], "they thin nothing out");
    let few = [vec![RunOutcome { dry_run: true, ..ended("spiral") }; 40], runs(4, 4, "spiral")].concat();
    let verdict = judge(&Inputs { runs: &few, ..healthy() });
    assert!(verdict.suitable);
    assert_eq!(verdict.warnings, ["kill-switch signal omitted: only 4<5 runs"]);
    // A manual fall-back is one.
    all.extend(vec![RunOutcome { fallback_to_manual: true, ..RunOutcome::default() }; 1]);
    assert_eq!(failed(&Inputs { runs: &all, ..healthy() }), []);
}

#[test]
fn red_and_critical_outrank_everything() {
    for (ci, fails) in [
        (CiStatus::Green, false),
        (CiStatus::Red, true),
        (CiStatus::Pending, false),
        (CiStatus::Unknown, false),
    ] {
        let expected = if fails { vec![GateName::Ci] } else { vec![] };
        assert_eq!(failed(&Inputs { confidence: Some(1.0), ci: Some(ci), ..healthy() }), expected);
    }
    for (tier, fails) in [
        (Tier::Unknown, false),
        (Tier::Green, false),
        (Tier::Warn, false),
        (Tier::Degraded, false),
        (Tier::Critical, true),
    ] {
        let expected = if fails { vec![GateName::Resources] } else { vec![] };
        assert_eq!(failed(&Inputs { confidence: Some(1.0), resources: Some(tier), ..healthy() }), expected);
    }
}

#[test]
fn the_rationale_says_all_of_it() {
    #[track_caller]
    fn says(inputs: &Inputs<'_>, rationale: &str, warnings: &[&str]) {
        let verdict = judge(inputs);
        assert_eq!((verdict.rationale.as_str(), verdict.warnings.as_slice()), (rationale, &*own(warnings)));
    }
    fn own(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }
    let one_in_ten = runs(10, 1, "failed-wave");
    says(
        &Inputs { runs: &one_in_ten, ..healthy() },
        "suitable=true; confidence 0.9>=0.5 ok; kill-switch 1/10 fired rate=0.1 ok; CI green ok; resource green ok",
        &[],
    );
    says(
        &Inputs { autonomy: Autonomy::Off, ..Inputs::default() },
        "suitable=false; confidence 0>=0.5 FAIL; kill-switch omitted (0<5 runs); CI absent ok; resource absent ok",
        &[
            "kill-switch signal omitted: only 0<5 runs",
            "CI signal absent",
            "resource signal absent",
            "autonomy off — verdict advisory only; caller will confirm",
        ],
    );
    let two_in_six = runs(6, 2, "spiral");
    let worst = Inputs {
        confidence: Some(1.0),
        ci: Some(CiStatus::Red),
        resources: Some(Tier::Critical),
        runs: &two_in_six,
        ..healthy()
    };
    says(
        &worst,
        "suitable=false; FORCED: CI red + resource critical; confidence 1>=0.5 ok; \
         kill-switch 2/6 fired rate=0.33 FAIL; CI red FAIL; resource critical FAIL",
        &[],
    );
    let forced = |inputs| judge(&inputs).rationale.split("; ").nth(1).unwrap().to_owned();
    assert_eq!(forced(Inputs { resources: Some(Tier::Green), ..worst }), "FORCED: CI red");
    assert_eq!(forced(Inputs { ci: None, ..worst }), "FORCED: resource critical");
    says(
        &Inputs {
            ci: Some(CiStatus::Unknown),
            resources: Some(Tier::Unknown),
            runs: &one_in_ten,
            ..healthy()
        },
        "suitable=true; confidence 0.9>=0.5 ok; kill-switch 1/10 fired rate=0.1 ok; CI unknown ok; resource unknown ok",
        &["CI status unknown", "resources unknown: nothing could be measured"],
    );
    let whys: Vec<String> = judge(&worst).gates.into_iter().map(|gate| gate.why).collect();
    assert_eq!(
        whys,
        [
            "confidence 1 >= 0.5",
            "2 of the last 6 runs ended badly (fewer than one in 5 may)",
            "CI is red",
            "resources: critical"
        ]
    );
}

#[test]
fn only_the_gated_dial_forbids() {
    let good = judge(&healthy());
    let bad = judge(&Inputs { ci: Some(CiStatus::Red), ..healthy() });
    let forbidden = |verdict: &Verdict| Autonomy::ALL.map(|dial| verdict.forbids_start(dial));
    assert_eq!(forbidden(&good), [false; 3]);
    assert_eq!(forbidden(&bad), [false, false, true]);
    let text = serde_json::to_string(&bad).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), bad);
}

proptest! {
    #[test]
    fn the_dial_never_changes_the_verdict_and_a_bad_run_never_helps(
        confidence in prop::option::of(prop::num::f64::ANY),
        floor in prop::num::f64::ANY,
        total in 0_usize..30,
        bad in 0_usize..30,
    ) {
        let all = runs(total, bad, "stall-timeout");
        let inputs = Inputs { floor, confidence, runs: &all, ..healthy() };
        let verdict = judge(&inputs);
        prop_assert!(verdict.confidence.is_finite());
        for autonomy in Autonomy::ALL {
            prop_assert_eq!(judge(&Inputs { autonomy, ..inputs }).suitable, verdict.suitable);
        }
        if total >= 5 {
            let more = [all.clone(), runs(1, 1, "spiral")].concat();
            let worse = judge(&Inputs { runs: &more, ..inputs });
            prop_assert!(verdict.suitable || !worse.suitable);
        }
    }
}
