//! What holds for all signals.

use proptest::prelude::*;

use super::super::signals::{BootstrapLock, Learning, SessionFacts};
use super::*;

fn number() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        3 => Just(None),
        6 => (0.0..1.2_f64).prop_map(Some),
        1 => prop::num::f64::ANY.prop_map(Some),
    ]
}

fn word() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        1 => Just(None),
        6 => prop::sample::select(Mode::ALL.to_vec()).prop_map(|mode| Some(mode.to_string())),
        1 => "\\PC{0,130}".prop_map(Some),
    ]
}

fn session() -> impl Strategy<Value = SessionFacts> {
    (word(), number(), any::<bool>(), number(), number()).prop_map(
        |(session_type, completion, has_effectiveness, planned, carryover)| SessionFacts {
            session_id: None,
            session_type,
            completion,
            has_effectiveness,
            planned,
            carryover,
        },
    )
}

fn sessions() -> impl Strategy<Value = Vec<SessionFacts>> {
    prop_oneof![prop::collection::vec(session(), 0..6), session().prop_map(|session| vec![session; 3]),]
}

fn signals() -> impl Strategy<Value = Signals> {
    let state = (word(), number(), number(), prop::option::of(prop::collection::vec(any::<i64>(), 0..12)));
    let learning = (prop::sample::select(vec!["effective-sizing", "scope-guidance", "other"]), word());
    let tier = prop::sample::select(vec!["fast", "standard", "deep", "other"]);
    let text = prop::option::of(prop::sample::select(vec!["", "x", "cross-cutting"]));
    (
        state,
        sessions(),
        prop::collection::vec(learning, 0..4),
        prop::option::of(prop::option::of(tier)),
        text,
        prop::option::of((0_u32..14, 0_u32..4)),
    )
        .prop_map(|(state, recent_sessions, learnings, tier, text, tasks)| {
            let (recommended_mode, completion_rate, carryover_ratio, top_priorities) = state;
            let learning = |(kind, subject): (&str, Option<String>)| Learning {
                kind: kind.to_owned(),
                subject: subject.unwrap_or_default(),
                ..Learning::default()
            };
            Signals {
                state: StateFields {
                    recommended_mode,
                    top_priorities,
                    carryover_ratio,
                    completion_rate,
                    rationale: None,
                },
                recent_sessions,
                learnings: learnings.into_iter().map(learning).collect(),
                bootstrap: tier.map(|tier| BootstrapLock { tier: tier.map(str::to_owned) }),
                task_text: text.map(str::to_owned),
                tasks: tasks.map(|(open, most_carried)| TaskEvidence { open, most_carried }),
                ..Signals::default()
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn it_is_total(signals in signals(), work_done: bool, interrupted: bool, prompt: bool) {
        for signals in [signals.clone(), Signals { prompt, interrupted, ..signals }] {
            let choice = select(&signals, work_done);
            prop_assert!((0.0..=1.0).contains(&choice.confidence));
            prop_assert!((0.0..=1.0).contains(&choice.pressure.score));
            prop_assert!(!choice.rationale.is_empty());
            prop_assert!(choice.rationale.chars().count() <= LONGEST_RATIONALE);
            prop_assert!(!choice.reasons.is_empty());
            prop_assert!(choice.alternatives.len() <= 3);
            prop_assert!(choice.alternatives.is_sorted_by(|a, b| a.confidence >= b.confidence));
            let fair = |one: &Alternative| (0.1..=0.95).contains(&one.confidence) && Some(one.mode) != choice.mode;
            prop_assert!(choice.alternatives.iter().all(fair));
            prop_assert_eq!(choice.no_open_work, choice.mode.is_none());
            prop_assert_eq!(&select(&signals, work_done), &choice);
        }
    }

    #[test]
    fn open_tasks_never_touch_a_spiral_and_never_lower_a_score(signals in signals(), open in 1_u32..20) {
        let tasks = Some(TaskEvidence { open, most_carried: 0 });
        let with = select(&Signals { tasks, ..signals.clone() }, false);
        let without = select(&Signals { tasks: None, ..signals }, false);
        prop_assert!(with.confidence >= without.confidence);
        prop_assert!(!with.no_open_work);
        if without.compatible.unwrap().rule == Rule::Spiral {
            let mut with = with;
            with.reasons.clone_from(&without.reasons);
            prop_assert_eq!(with, without);
        } else {
            // The lowest score of the rules is 0.05.
            prop_assert!(with.confidence >= 0.45);
        }
    }
}
