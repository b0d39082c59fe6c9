//! The loop: switches and their order, counting, stops, the journal (design §4, upstream-formats §2.4, §16).

use super::script::{attempt, costing, counted, done, failed, good, reported};
use super::*;
use crate::core::published::Purpose::{Close, Reconcile, Work as WorkTurn};
use crate::core::published::ReportSource;

use KillSwitch::{
    CarryoverTooHigh, FailedWave, LowConfidenceFallback, MaxHoursExceeded, MaxSessionsReached,
    ResourceOverload, Spiral, StallTimeout, TokenBudgetExceeded, UserAbort,
};

fn sessions(max_sessions: u32) -> Limits {
    Limits { max_sessions, ..limits() }
}

fn giving(results: impl IntoIterator<Item = crate::core::fact::TurnResult>) -> Vec<Attempt> {
    results.into_iter().map(|result| attempt().after(1).init().text("worked").result(result)).collect()
}

#[test]
fn as_many_sessions_as_asked_for() {
    for max in [1, 3] {
        let world = World::new(sessions(max)).play();
        world.ended(
            Some(MaxSessionsReached),
            max,
            &format!("iterations_completed={max} >= max-sessions={max}"),
        );
        assert_eq!(world.end().sessions.len(), max as usize);
        assert_eq!(world.records.len(), max as usize);
        let ids: std::collections::BTreeSet<_> = world.end().sessions.iter().collect();
        assert_eq!(ids.len(), max as usize, "each has a conversation of its own");
        assert!(world.launches.iter().all(|launch| !launch.resume));
    }
}

#[test]
fn what_a_session_reports_can_stop_the_run() {
    // (report, threshold) → switch; all after one iteration of three.
    let check = |report, threshold, expected: Option<(KillSwitch, &str)>| {
        let limits = Limits { carryover_threshold: threshold, ..sessions(3) };
        let world = World::new(limits).attempts(giving([report])).play();
        match expected {
            Some((switch, words)) => world.ended(Some(switch), 1, words),
            None => world.ended(Some(MaxSessionsReached), 3, ""),
        }
    };
    check(counted(2, 0, 0, 0), 0.5, Some((Spiral, "agent_summary.spiral=2 > 0")));
    check(counted(0, 0, 0, 0), 0.5, None);
    check(counted(1, 3, 0, 0), 0.5, Some((Spiral, "")));
    check(counted(0, 3, 0, 0), 0.5, Some((FailedWave, "agent_summary.failed=3 > 0")));
    check(counted(0, 1, 4, 4), 0.5, Some((FailedWave, "")));
    check(counted(0, 0, 4, 3), 0.5, Some((CarryoverTooHigh, "carryover/planned=0.75 > threshold=0.5")));
    check(counted(0, 0, 4, 2), 0.5, None);
    check(counted(0, 0, 10, 3), 0.2, Some((CarryoverTooHigh, "carryover/planned=0.3 > threshold=0.2")));
    check(counted(0, 0, 0, 3), 0.5, None);
    check(reported("partial"), 0.5, None);
}

#[test]
fn a_failed_verification_counts_as_a_failed_wave() {
    let mut world = World::new(Limits { verify: true, ..sessions(3) });
    world.verifications = VecDeque::from([true, false]);
    let world = world.play();
    world.ended(Some(FailedWave), 2, "--verify failed: ");
    assert_eq!(world.verified, 2);
    assert_eq!(world.records[1].verification.as_ref().map(|verification| verification.passed), Some(false));
}

#[test]
fn work_that_is_reported_complete_ends_the_run_as_planned() {
    for status in ["complete", "nothing_to_do"] {
        let world = World::new(sessions(5)).attempts(giving([reported(status)])).play();
        world.ended(None, 1, "no open work");
        assert!(!world.end().fallback_to_manual);
    }
    // Unless the verification says otherwise.
    let mut world =
        World::new(Limits { verify: true, ..sessions(5) }).attempts(giving([reported("complete")]));
    world.verifications = VecDeque::from([false]);
    let world = world.play();
    world.ended(Some(FailedWave), 1, "");
    assert!(world.published.iter().any(|event| matches!(
        event,
        RunEvent::SessionEnded { contradictions, .. } if contradictions.len() == 1
    )));
}

#[test]
fn too_little_confidence() {
    let world = World::new(sessions(3)).survey(Signals::default()).play();
    world.ended(None, 0, "iteration 1: confidence=0 < threshold=0.85 — fallback to manual");
    assert!(world.end().fallback_to_manual);
    assert_eq!(world.launches.len(), 0);

    let prompt = Signals { prompt: true, ..Signals::default() };
    let world = World::new(sessions(3)).survey(prompt).survey(Signals::default()).play();
    world.ended(Some(LowConfidenceFallback), 1, "iteration 2: confidence=0 < threshold=0.85");
    assert!(!world.end().fallback_to_manual);

    let world =
        World::new(Limits { confidence_threshold: 0.0, ..limits() }).survey(Signals::default()).play();
    world.ended(Some(MaxSessionsReached), 1, "");
}

#[test]
fn hours() {
    // Each session takes an hour: the one that begins at 1 h 40 min ends beyond the limit and is let finish.
    let hour = || attempt().init().usage("m", 1).after(2400).result(reported("partial")).after(0);
    let limits = Limits { max_hours: 1.5, stall_timeout: secs(7200), ..sessions(9) };
    let world = World::new(limits).attempts([hour(), hour(), hour(), hour()]).play();
    world.ended(Some(MaxHoursExceeded), 3, "elapsed=2h >= max-hours=1.5h");
}

#[test]
fn time_asleep_on_a_limit_counts_unless_it_is_free() {
    for (free, switch, iterations) in [(false, MaxHoursExceeded, 1), (true, MaxSessionsReached, 2)] {
        let reset = start_of_world().wall.checked_add(secs(2 * 3600)).unwrap();
        let limited = attempt().init().text("begun").rejected(Some(reset)).result(failed(Some(429), "limit"));
        let limits = Limits { limit_wait_free: free, max_hours: 1.0, ..sessions(2) };
        let world = World::new(limits).attempts([limited]).play();
        world.ended(Some(switch), iterations, "");
        assert!(world.end().limit_wait >= secs(7190), "{:?}", world.end().limit_wait);
        assert!(world.end().duration >= secs(7200), "the duration is wall clock, whatever is free");
    }
}

#[test]
fn tokens_and_dollars() {
    let costly = || giving((0..9).map(|_| costing(reported("partial"), 100_000, 3.0)));
    let limits = Limits { max_tokens: 250_000, ..sessions(9) };
    let world = World::new(limits).attempts(costly()).play();
    world.ended(Some(TokenBudgetExceeded), 3, "cumulative_tokens=300000 >= max-tokens=250000");
    assert_eq!(world.end().tokens.output, 300_000);
    assert_eq!(
        world.launches.iter().map(|launch| launch.tokens_left).collect::<Vec<_>>(),
        [Some(250_000), Some(150_000), Some(50_000)]
    );

    let limits = Limits { max_tokens: 0, max_cost_usd: Some(7.0), ..sessions(9) };
    let world = World::new(limits).attempts(costly()).play();
    world.ended(Some(TokenBudgetExceeded), 3, "cumulative_cost_usd=9 >= max-cost=7");
    assert_eq!(
        world.launches.iter().map(|launch| launch.budget_left_usd).collect::<Vec<_>>(),
        [Some(7.0), Some(4.0), Some(1.0)]
    );

    // Nobody says what it costs: nothing fires.
    let world = World::new(Limits { max_tokens: 1, max_cost_usd: Some(0.01), ..sessions(3) }).play();
    world.ended(Some(MaxSessionsReached), 3, "");
    assert_eq!(world.end().cost_usd, None);
}

#[test]
fn a_machine_without_room() {
    for (gb, peers, fires) in [(1, Some(8), true), (1, Some(6), false), (5, Some(6), false), (1, None, false)]
    {
        let world = World::new(limits()).machine(gb, peers).play();
        if fires {
            world.ended(Some(ResourceOverload), 0, "verdict=critical peers=8 > threshold=6");
            assert_eq!(world.launches.len(), 0);
        } else {
            world.ended(Some(MaxSessionsReached), 1, "");
        }
    }
    // Critical without peers: the session works alone.
    let world = World::new(limits()).machine(1, None).play();
    assert_eq!(world.launches[0].cap, 0);
    assert_eq!(world.end().resource_verdict_at_start.as_deref(), Some("critical"));
}

/// Design §4: abort, sessions, hours, tokens, cost, overload, confidence. Everything holds at once; one after
/// the other is taken away.
#[test]
fn the_order_of_the_checks() {
    let order = [
        (Some(UserAbort), "before iteration"),
        (Some(MaxSessionsReached), "iterations_completed=0"),
        (Some(MaxHoursExceeded), "elapsed="),
        (Some(ResourceOverload), "verdict=critical"),
        (None, "fallback to manual"),
    ];
    for (at, (switch, words)) in order.into_iter().enumerate() {
        let limits = Limits {
            max_sessions: if at <= 1 { 0 } else { 5 },
            max_hours: if at <= 2 { 0.0 } else { 4.0 },
            ..limits()
        };
        let mut world = World::new(limits).survey(Signals::default());
        if at <= 3 {
            world = world.machine(1, Some(9));
        }
        if at == 0 {
            world = world.stop_at(Duration::ZERO, StopLevel::Finish);
        }
        world.play().ended(switch, 0, words);
    }
}

#[test]
fn a_stop_before_the_first_session() {
    for level in [StopLevel::Finish, StopLevel::Interrupt, StopLevel::Kill] {
        let mut world = World::new(sessions(3));
        world.step(Event::Stop { level, by: "SIGTERM" });
        let world = world.play();
        world.ended(Some(UserAbort), 0, "AbortSignal triggered before iteration (SIGTERM)");
        assert_eq!(world.launches.len(), 0);
        // While the repository is being looked at, which takes a while.
        let world = World::new(sessions(3)).stop_at(Duration::from_millis(10), level).play();
        world.ended(Some(UserAbort), 0, "");
        assert_eq!(world.end().stopped_by, Some("SIGINT"));
    }
}

#[test]
fn what_is_late_between_sessions_is_dropped() {
    // A timer of the first session runs out while the second one is being prepared.
    let mut world = World::new(sessions(2));
    let late = TimerId { kind: TimerKind::Turn, epoch: 1 };
    for after in [10_060, 10_075] {
        world = world.at(Duration::from_millis(after), Event::Timer(late));
    }
    let world = world.suspend_at(Duration::from_millis(10_065), secs(60)).play();
    world.ended(Some(MaxSessionsReached), 2, "");
}

#[test]
fn sigint_once_finishes_the_session() {
    let world = World::new(sessions(3)).stop_at(secs(5), StopLevel::Finish).play();
    world.ended(Some(UserAbort), 1, "AbortSignal triggered between iterations (SIGINT)");
    assert_eq!(world.stops, []);
    // The missing report is still asked for.
    let world = World::new(sessions(3))
        .attempts([attempt().init().after(9).text("x").result(good())])
        .stop_at(secs(5), StopLevel::Finish)
        .play();
    world.ended(Some(UserAbort), 1, "");
    assert_eq!(world.launches.len(), 2);
    // A switch outranks the stop that came during the same session.
    let world = World::new(sessions(3))
        .attempts([attempt().init().after(9).result(counted(1, 0, 0, 0))])
        .stop_at(secs(5), StopLevel::Finish)
        .play();
    world.ended(Some(Spiral), 1, "");
}

#[test]
fn harder_stops_end_the_turn() {
    let long = || attempt().after(1).init().text("begun").after(3000).result(reported("partial"));
    // Answered: the result comes, the input is closed, the process ends.
    let world = World::new(sessions(3)).attempts([long()]).stop_at(secs(5), StopLevel::Interrupt).play();
    world.ended(Some(UserAbort), 0, "between iterations");
    assert_eq!(world.stopped(), [(5, StopStep::Interrupt)]);
    assert_eq!(world.classes(), [Class::KilledByDriver]);
    assert!(world.elapsed() < 6);
    assert_eq!(world.records.len(), 1, "it is recorded all the same");
    assert!(!world.records[0].completed);
    // Not answered: ten seconds, then the ladder.
    let world =
        World::new(sessions(3)).attempts([long().deaf()]).stop_at(secs(5), StopLevel::Interrupt).play();
    world.ended(Some(UserAbort), 0, "");
    assert_eq!(world.stopped(), [(5, StopStep::Interrupt), (15, StopStep::Terminate)]);
    // Three times: at once, even while the ladder is under way.
    let world = World::new(sessions(3))
        .attempts([long().deaf()])
        .stop_at(secs(4), StopLevel::Finish)
        .stop_at(secs(5), StopLevel::Interrupt)
        .stop_at(secs(6), StopLevel::Kill)
        .stop_at(secs(6), StopLevel::Finish)
        .play();
    world.ended(Some(UserAbort), 0, "");
    assert_eq!(world.stopped(), [(5, StopStep::Interrupt), (6, StopStep::Kill)]);
}

#[test]
fn a_stop_after_the_result_keeps_the_result() {
    // The process stays after its result: the exit grace goes on, nothing else is done to it.
    let work = attempt().init().text("x").result(reported("partial")).lingers();
    let world = World::new(sessions(3)).attempts([work]).stop_at(secs(5), StopLevel::Interrupt).play();
    world.ended(Some(UserAbort), 1, "");
    assert_eq!(world.stopped(), [(15, StopStep::Terminate)]);
    assert_eq!(world.classes(), [Class::Ok]);
    // A background agent keeps it: nobody waits for that any more.
    let work = attempt().init().agent_starts("a").text("x").result(reported("partial")).lingers();
    let world = World::new(sessions(3)).attempts([work]).stop_at(secs(5), StopLevel::Interrupt).play();
    assert_eq!(world.stopped(), [(5, StopStep::Terminate)]);
    world.ended(Some(UserAbort), 1, "");
}

#[test]
fn a_stop_while_nothing_runs() {
    let crash = || attempt().after(1).init().text("x").exits(Exit::Signal(11));
    for level in [StopLevel::Interrupt, StopLevel::Kill] {
        // In the pause before a recovery.
        let world = World::new(sessions(3)).attempts([crash()]).stop_at(secs(3), level).play();
        world.ended(Some(UserAbort), 0, "");
        assert_eq!((world.launches.len(), world.elapsed()), (1, 3));
    }
    // Asleep on a limit, however gentle the stop; the time asleep is counted.
    let reset = start_of_world().wall.checked_add(secs(3600)).unwrap();
    let limited =
        || attempt().after(1).init().text("x").rejected(Some(reset)).result(failed(Some(429), "limit"));
    for level in [StopLevel::Finish, StopLevel::Interrupt, StopLevel::Kill] {
        let world = World::new(sessions(3)).attempts([limited()]).stop_at(secs(600), level).play();
        world.ended(Some(UserAbort), 0, "");
        assert_eq!((world.launches.len(), world.elapsed()), (1, 600));
        assert_eq!(world.end().limit_wait.as_secs(), 598);
    }
    // The stop came first, then the limit: the same.
    let world = World::new(sessions(3))
        .attempts([attempt()
            .init()
            .text("x")
            .after(9)
            .rejected(Some(reset))
            .result(failed(Some(429), "limit"))])
        .stop_at(secs(5), StopLevel::Finish)
        .play();
    world.ended(Some(UserAbort), 0, "");
    assert!(world.elapsed() < 20);
}

#[test]
fn a_stop_during_a_long_verification() {
    let run = |level| {
        let mut world = World::new(Limits { verify: true, ..sessions(3) }).stop_at(secs(20), level);
        world.measure = secs(1000);
        world.step(Event::Start);
        while world.end.is_none() {
            assert!(world.advance());
        }
        world
    };
    // Once: it is let finish, and so it counts.
    let world = run(StopLevel::Finish);
    world.ended(Some(UserAbort), 1, "");
    assert!(world.records[0].verification.is_some());
    // Harder: nobody waits for it. The work was done, so the session counts.
    for level in [StopLevel::Interrupt, StopLevel::Kill] {
        let world = run(level);
        world.ended(Some(UserAbort), 1, "");
        assert_eq!(world.elapsed(), 20);
        assert_eq!(world.records[0].verification, None);
        world.play_out();
    }
}

#[test]
fn a_journal_that_cannot_be_written_ends_the_run() {
    let failure = || Event::JournalFailed("the journal cannot be written: no space left".to_owned());
    let check = |world: World, iterations| {
        let world = world.play();
        world.ended(Some(FailedWave), iterations, "no space left");
        assert_eq!(world.end().failure_class, Some(Class::Disk));
        assert!(world.end().needs_person);
    };
    // Before the session, while it runs, while it pauses.
    check(World::new(sessions(3)).at(Duration::from_millis(5), failure()), 0);
    check(World::new(sessions(3)).at(secs(5), failure()), 0);
    let crash = attempt().init().text("x").exits(Exit::Signal(11));
    check(World::new(sessions(3)).attempts([crash]).at(secs(3), failure()), 0);
    // Between two sessions.
    check(World::new(sessions(3)).at(Duration::from_millis(10_080), failure()), 1);
    // The session's record cannot be written.
    let mut world = World::new(sessions(3));
    world.unrecordable = true;
    check(world, 1);
}

#[test]
fn a_missing_report_is_asked_for_once() {
    let silent = || attempt().after(1).init().text("did it").result(good());
    let world = World::new(limits()).attempts([silent(), done()]).play();
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(
        world.launches.iter().map(|l| (l.purpose, l.resume, l.turn)).collect::<Vec<_>>(),
        [(WorkTurn, false, 1), (Close, true, 2)]
    );
    assert_eq!(world.launches[0].session_id, world.launches[1].session_id);
    assert_eq!(world.records[0].report_source, ReportSource::CloseTurn);
    // Neither does the second turn, or it breaks: the work counts without a report.
    for close in [silent(), attempt().init().exits(Exit::Signal(9)), attempt().exits(Exit::Code(1))] {
        let world = World::new(limits()).attempts([silent(), close]).play();
        world.ended(Some(MaxSessionsReached), 1, "");
        assert_eq!(world.launches.len(), 2);
        assert_eq!(world.records[0].report_source, ReportSource::Derived);
    }
    // A spent budget is not spent further.
    let spent = crate::core::fact::TurnResult {
        subtype: Some("error_max_budget_usd".to_owned()),
        is_error: true,
        ..good()
    };
    let world = World::new(limits()).attempts([attempt().init().text("x").result(spent)]).play();
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!((world.launches.len(), world.records[0].class), (1, Class::Budget));
}

#[test]
fn a_blocked_session_needs_a_person() {
    let blocked = crate::core::fact::TurnResult {
        structured_output: Some(serde_json::json!({
            "status": "blocked", "summary": "s", "blocked_on": {"question": "which database?"}
        })),
        ..good()
    };
    let world = World::new(sessions(3)).attempts(giving([blocked])).play();
    world.ended(Some(FailedWave), 1, "blocked on a person's answer: which database?");
    assert_eq!((world.end().failure_class, world.end().needs_person), (Some(Class::Blocked), true));
    let world = World::new(sessions(3)).attempts(giving([reported("blocked")])).play();
    world.ended(Some(FailedWave), 1, "does not say on what");
}

#[test]
fn a_person_is_needed_at_once() {
    for (status, words, class) in [
        (Some(401), "Invalid API key · Fix external API key", Class::Auth),
        (Some(400), "Credit balance is too low", Class::Billing),
        (Some(404), "There's an issue with the selected model (x).", Class::ModelUnavailable),
    ] {
        let world = World::new(sessions(3)).attempts(giving([failed(status, words)])).play();
        world.ended(Some(FailedWave), 0, words);
        assert_eq!((world.end().failure_class, world.end().needs_person), (Some(class), true));
        assert_eq!(world.launches.len(), 1);
    }
}

#[test]
fn the_chain_goes_on_in_the_same_conversation_when_asked() {
    let world = World::new(Limits { chain: Chain::Resume, ..sessions(3) }).play();
    world.ended(Some(MaxSessionsReached), 3, "");
    assert!(world.launches.iter().all(|launch| launch.session_id == world.launches[0].session_id));
    assert_eq!(world.launches.iter().map(|launch| launch.resume).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn an_interrupted_conversation_goes_on_first() {
    let inherited = || Inherited { session_id: Some("old".to_owned()), ..Inherited::default() };
    let mut world = World::inheriting(sessions(2), inherited());
    world.transcripts.insert("old".to_owned(), vec![Entry { assistant: true, ends: false }]);
    let world = world.play();
    world.ended(Some(MaxSessionsReached), 2, "");
    let first = &world.launches[0];
    assert_eq!((first.session_id.as_str(), first.resume, first.purpose), ("old", true, Reconcile));
    assert_eq!(first.transcript_offset, ENTRY);
    assert_eq!((world.launches[1].resume, world.launches[1].purpose), (false, WorkTurn));
    // It is gone: a new one takes over, and says so.
    let world = World::inheriting(limits(), inherited()).play();
    let first = &world.launches[0];
    assert!(!first.resume && first.session_id != "old" && first.purpose == Reconcile);
    assert!(world.published.iter().any(
        |event| matches!(event, RunEvent::Warning { text } if text.contains("old") && text.contains(&first.session_id))
    ));
    // Nothing is left to do.
    let world = World::inheriting(limits(), Inherited { work_done: true, ..Inherited::default() }).play();
    world.ended(None, 0, "no open work");
}

#[test]
fn a_hang_that_nothing_heals_counts_and_stops_the_run() {
    let hang = || attempt().after(1).init().text("begun");
    let world = World::new(sessions(3)).attempts([hang(), hang(), hang()]).play();
    world.ended(Some(StallTimeout), 1, "stalled 600s ≥ threshold 600s (marker=stream)");
    assert_eq!((world.end().stalls, world.end().failure_class), (1, Some(Class::Stalled)));
    assert_eq!(world.launches.len(), 3);
    // A turn that is busy and does not end is not told as silence.
    let busy = || (0..400).fold(attempt().init(), |busy, _| busy.after(30).tool("Bash"));
    let world = World::new(sessions(3)).attempts([busy(), busy(), busy()]).play();
    world.ended(Some(StallTimeout), 1, "stalled 5400s ≥ threshold 5400s (marker=turn-timeout)");
}

#[test]
fn the_ledger_adds_up_over_attempts_turns_and_sessions() {
    let attempts = [
        // Dies without a result: its messages are charged.
        attempt().init().usage("a", 10).usage("a", 30).text("x").exits(Exit::Signal(9)),
        // Ends well, without a report.
        attempt().init().usage("b", 5).text("x").result(costing(good(), 100, 0.5)),
        // Hands it in.
        attempt().init().usage("c", 5).result(costing(reported("partial"), 7, 0.1)),
        // The next session.
        attempt().init().denied("Bash").result(costing(reported("partial"), 1000, 1.0)),
    ];
    let world = World::new(sessions(2)).attempts(attempts).play();
    world.ended(Some(MaxSessionsReached), 2, "");
    assert_eq!(world.end().tokens.output, 30 + 100 + 7 + 1000);
    assert_eq!(world.records.iter().map(|record| record.tokens.output).collect::<Vec<_>>(), [137, 1000]);
    assert_eq!(world.records[1].class, Class::Denied);
    let total: f64 = world.records.iter().filter_map(|record| record.cost_usd).sum();
    assert!((total - world.end().cost_usd.unwrap()).abs() < 1e-9);
}

impl World {
    /// Lets what is still on its way arrive after the end; the oracle sees that it has no effect.
    fn play_out(mut self) {
        while !self.agenda.is_empty() {
            assert!(self.advance());
        }
        assert!(self.run.is_over());
    }
}
