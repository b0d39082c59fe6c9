//! Questions of the CLI before tools run: each is answered once, refusals are told, sub-agents need a place.

use serde_json::{Value, json};

use super::script::{attempt, counted, done, reported};
use super::*;
use crate::core::gate::Decision;
use crate::core::kill_switch::KillSwitch::{FailedWave, Spiral};
use crate::core::published::Purpose;
use crate::core::wave::WaveTotals;

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "d"})
}

fn decisions(world: &World) -> Vec<(&str, Decision)> {
    world.answers.iter().map(|(id, answer)| (id.as_str(), answer.decision)).collect()
}

fn told(world: &World) -> Vec<String> {
    let told = world.published.iter().filter_map(|event| match event {
        RunEvent::GateDecided { tool, what, decision, .. } => Some(format!("{decision} {tool} {what}")),
        _ => None,
    });
    told.collect()
}

#[test]
fn each_question_is_answered_and_told() {
    let script = attempt()
        .after(1)
        .init()
        .asks("a", "Bash", &bash("cargo test"))
        .asks("b", "Bash", &bash("git push -f"))
        .asks("c", "Bash", &bash("rm -rf target"))
        .asks("d", "Bash", &bash("rm -rf src"))
        .after(1)
        .text("did what it could")
        .result(counted(0, 0, 1, 0));
    let mut world = World::new(limits()).attempts([script]);
    world.ignored.insert(PathBuf::from("/repo/target"));
    let world = world.play();
    assert_eq!(
        decisions(&world),
        [("a", Decision::Defer), ("b", Decision::Deny), ("c", Decision::Defer), ("d", Decision::Deny)]
    );
    assert_eq!(told(&world).len(), 4);
    let Some(RunEvent::SessionEnded { denials, class, .. }) =
        world.published.iter().find(|event| matches!(event, RunEvent::SessionEnded { .. }))
    else {
        panic!("no end of a session");
    };
    // The session was told what to do instead, and did it.
    assert_eq!((*denials, *class), (2, Class::Ok));
}

#[test]
fn what_is_asked_of_an_attempt_that_is_over_is_not_answered() {
    let script = attempt().after(1).init().asks("a", "Bash", &bash("ls")).exits(Exit::Code(1));
    let world = World::new(limits())
        .attempts([script, done()])
        .at(secs(2), Event::GitSaid { attempt: 1, request_id: "a".to_owned(), removable: BTreeMap::new() })
        .play();
    assert_eq!(decisions(&world), [("a", Decision::Defer)]);
}

#[test]
fn a_call_that_is_refused_again_and_again_is_a_circle() {
    let insists = |_| {
        (0..9).fold(attempt().after(1).init(), |script, n| {
            script.after(1).asks(&format!("q{n}"), "Bash", &bash("git push -f"))
        })
    };
    let scripts: Vec<Attempt> = (0..8).map(insists).collect();
    let world = World::new(limits()).attempts(scripts).play();
    world.ended(Some(Spiral), 1, "went round in circles");
}

fn question() -> Value {
    json!({"questions": [{"question": "which database?", "header": "db", "multiSelect": false,
        "options": [{"label": "sqlite", "description": "d"}, {"label": "postgres", "description": "d"}]}]})
}

fn asks_a_person() -> Attempt {
    attempt().after(1).init().asks("q", "AskUserQuestion", &question()).after(1).text("stopped")
}

#[test]
fn a_question_to_a_person_ends_the_session_unless_it_gets_done_without() {
    // What the session reports after it was told that nobody is here → how the run ends.
    let blocked = "blocked on a person's answer: which database? [options: sqlite | postgres]";
    for (status, blocks) in [("blocked", true), ("partial", true), ("complete", false)] {
        let world = World::new(limits()).attempts([asks_a_person().result(reported(status))]).play();
        assert_eq!(decisions(&world), [("q", Decision::Deny)]);
        if blocks {
            world.ended(Some(FailedWave), 1, blocked);
            assert!(world.end.as_ref().unwrap().1.needs_person);
        } else {
            assert_eq!(world.end.as_ref().unwrap().1.failure_class, None, "{status}");
        }
    }
}

#[test]
fn under_autonomous_gated_it_takes_its_first_option_after_the_wait() {
    let limits = Limits { answer_after: Some(secs(1200)), ..limits() };
    let world = World::new(limits).attempts([asks_a_person().result(reported("partial")), done()]).play();
    let answered = world.published.iter().find_map(|event| match event {
        RunEvent::QuestionAnswered { answer, .. } => Some(answer.as_str()),
        _ => None,
    });
    assert_eq!(answered, Some("sqlite"));
    let purposes: Vec<Purpose> = world.launches.iter().map(|launch| launch.purpose).collect();
    assert_eq!(purposes, [Purpose::Work, Purpose::Answer]);
    assert!(world.launches[1].answer.as_ref().is_some_and(|answer| answer.question == "which database?"));
    assert!(world.end.as_ref().unwrap().0 >= start_of_world().mono + secs(1200));
}

#[test]
fn a_plan_is_approved_unless_plans_are_all_that_was_asked_for() {
    for (plans_only, decision) in [(false, Decision::Allow), (true, Decision::Deny)] {
        let mut limits = limits();
        limits.gate.plans_only = plans_only;
        let script =
            attempt().after(1).init().asks("p", "ExitPlanMode", &json!({"plan": "1. do it"})).after(1);
        let world = World::new(limits).attempts([script.text("x").result(counted(0, 0, 1, 0))]).play();
        assert_eq!(decisions(&world), [("p", decision)]);
    }
}

fn agent() -> Value {
    json!({"description": "look", "prompt": "look at it", "subagent_type": "general-purpose"})
}

#[test]
fn sub_agents_get_places_by_the_tier_of_the_moment() {
    let script = attempt()
        .after(1)
        .init()
        .asks("a1", "Agent", &agent())
        .asks("a2", "Task", &agent())
        .asks("a3", "Agent", &agent())
        .after(1)
        .agent_starts_for("t1", "a1")
        .agent_starts_for("t2", "a2")
        .after(30)
        .agent_ends("t1", "completed")
        .asks("a4", "Agent", &agent())
        .after(1)
        .agent_ends("t2", "completed")
        .text("done")
        .result(counted(0, 0, 1, 0));
    let world = World::new(limits()).machine(3, Some(0)).attempts([script]).play();
    assert_eq!(
        decisions(&world),
        [("a1", Decision::Defer), ("a2", Decision::Defer), ("a3", Decision::Deny), ("a4", Decision::Defer)]
    );
    assert!(world.answers[2].1.reason.contains("at most 2 sub-agent(s)"), "{}", world.answers[2].1.reason);
    assert_eq!(world.records[0].wave, WaveTotals { asked: 4, started: 2, denied: 1, peak: 2 });

    let none = attempt().after(1).init().asks("a", "Agent", &agent()).after(1).text("x");
    let world = World::new(limits()).machine(1, Some(0)).attempts([none.result(counted(0, 0, 1, 0))]).play();
    assert_eq!(decisions(&world), [("a", Decision::Deny)]);
    assert!(world.answers[0].1.reason.starts_with("no sub-agent may be started now"));
}

#[test]
fn the_totals_of_a_session_survive_its_processes() {
    let crashes = attempt()
        .after(1)
        .init()
        .asks("a1", "Agent", &agent())
        .after(1)
        .agent_starts_for("t1", "a1")
        .lands()
        .exits(Exit::Code(1));
    let goes_on = attempt()
        .after(1)
        .init()
        .asks("a2", "Agent", &agent())
        .after(1)
        .agent_starts_for("t2", "a2")
        .after(1)
        .agent_ends("t2", "completed")
        .text("done")
        .result(counted(0, 0, 1, 0));
    let world = World::new(limits()).machine(3, Some(0)).attempts([crashes, goes_on]).play();
    // The sub-agent of the process that is gone holds no place.
    assert_eq!(world.records[0].wave, WaveTotals { asked: 2, started: 2, denied: 0, peak: 1 });
}

#[test]
fn nothing_is_approved_that_is_not_known_in_full() {
    let odd = |doubt| {
        Fact::Asked(Box::new(crate::core::fact::Asked {
            request_id: "q".to_owned(),
            tool: "Bash".to_owned(),
            input: bash("ls"),
            prompt: true,
            doubt,
            ..crate::core::fact::Asked::default()
        }))
    };
    for (doubt, decision) in [(None, Decision::Allow), (Some("the input is too long"), Decision::Deny)] {
        let script = attempt().after(1).init().say(odd(doubt)).after(1).text("x");
        let world = World::new(limits()).attempts([script.result(counted(0, 0, 1, 0))]).play();
        assert_eq!(decisions(&world), [("q", decision)]);
    }
}
