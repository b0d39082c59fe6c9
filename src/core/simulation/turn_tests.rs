//! A turn: deadlines, liveness, background agents, suspend, recoveries, changes of the conversation.

use super::script::{attempt, done, failed, good, out_of_turns, reported};
use super::*;
use crate::core::evidence::LaunchFailure;
use crate::core::fact::ApiRetry;
use crate::core::published::Purpose::{self, Compact, Continue, Reconcile, Work};

use KillSwitch::{FailedWave, MaxSessionsReached};

/// What each launch said, and whether it resumed.
fn said(world: &World) -> Vec<(Purpose, bool)> {
    world.launches.iter().map(|launch| (launch.purpose, launch.resume)).collect()
}

fn play(attempts: impl IntoIterator<Item = Attempt>) -> World {
    World::new(limits()).attempts(attempts).play()
}

fn in_(seconds: u64) -> Timestamp {
    start_of_world().wall.checked_add(secs(seconds)).unwrap()
}

#[test]
fn not_one_line() {
    // Nothing was written: the same prompt, in a new conversation (field-reports A08, H13).
    let world = play([attempt(), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(world.classes(), [Class::StartupHang, Class::Ok]);
    assert_eq!(world.stopped(), [(180, StopStep::Terminate)]);
    assert_eq!(said(&world), [(Work, false), (Work, false)]);
    assert_ne!(world.launches[0].session_id, world.launches[1].session_id);
    // Lines that cannot be read are none (field-reports C04).
    let banner = attempt().after(170).say(Fact::Anomaly { kind: "not_json", sample: String::new() });
    assert_eq!(play([banner, done()]).stopped(), [(180, StopStep::Terminate)]);
    // It never starts: bounded.
    let world = play([attempt(), attempt(), attempt()]);
    world.ended(Some(FailedWave), 0, "2 recoveries did not help");
    assert_eq!(world.elapsed(), 3 * 180 + 5 + 30);
}

#[test]
fn silence() {
    let quiet = || attempt().after(1).init().text("begun");
    // Gaps below the deadline are not looked into (field-reports A09, A13).
    let world = play([quiet().after(590).text("x").after(590).result(reported("partial"))]);
    assert_eq!((world.liveness_checks, world.stops.len()), (0, 0));
    // Beyond it the tools are looked at. They move: it goes on.
    let world = play([quiet().tools_move_for(1900).after(2300).result(reported("partial"))]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!((world.liveness_checks, world.stops.len()), (4 - 1, 0));
    // They do not: it ends, and goes on where it was.
    let world = play([quiet().tools_move_for(700), done()]);
    assert_eq!(world.classes(), [Class::Stalled, Class::Ok]);
    assert_eq!(world.stopped(), [(1201, StopStep::Terminate)]);
    assert_eq!(said(&world), [(Work, false), (Reconcile, true)]);
    assert_eq!(world.launches[1].transcript_offset, 0, "the turn began before the first attempt");
}

#[test]
fn the_cli_pauses_by_itself() {
    // A retry in 500 s: silence begins after it (field-reports C07).
    let world = play([attempt().init().retries_in(500).after(1090).text("x").result(reported("partial"))]);
    assert_eq!((world.classes(), world.stops.len()), (vec![Class::Ok], 0));
    let world = play([attempt().init().text("x").retries_in(500), done()]);
    assert_eq!(world.stopped(), [(1100, StopStep::Terminate)]);
}

#[test]
fn a_turn_has_its_limit() {
    let busy = (0..400).fold(attempt().init(), |busy, _| busy.after(30).tool("Bash"));
    let world = play([busy, done()]);
    assert_eq!(world.stopped(), [(5400, StopStep::Terminate)]);
    assert_eq!(world.classes(), [Class::Stalled, Class::Ok]);
    // A result just before: the exit grace is what counts.
    let late = (0..179).fold(attempt().init(), |busy, _| busy.after(30).tool("Bash"));
    let world = play([late.after(25).result(reported("partial")).lingers()]);
    assert_eq!(world.classes(), [Class::Ok]);
    assert_eq!(world.stopped(), [(5395 + 15, StopStep::Terminate)]);
}

#[test]
fn a_process_that_stays_after_its_result() {
    let world = play([attempt().init().text("x").after(4).result(reported("partial")).lingers()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!((world.classes(), world.launches.len()), (vec![Class::Ok], 1));
    assert_eq!(world.stopped(), [(19, StopStep::Terminate)]);
    assert!(world.published.iter().any(|event| matches!(
        event,
        RunEvent::OutcomeJudged { reasons, .. } if reasons.iter().any(|reason| reason.contains("hung after"))
    )));
    // Signs of life move the grace; the last result counts (field-reports A17).
    let world = play([attempt()
        .init()
        .text("x")
        .result(reported("blocked"))
        .after(10)
        .say(Fact::Heartbeat)
        .after(10)
        .init()
        .text("more")
        .after(300)
        .result(reported("partial"))
        .lingers()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(world.stopped(), [(320 + 15, StopStep::Terminate)]);
    assert_eq!((world.launches.len(), world.closed_inputs), (1, 1));
}

#[test]
fn a_background_agent_is_waited_for() {
    let work = || attempt().init().agent_starts("a").text("x").result(reported("partial"));
    // It comes back, with a result of its own that owes no report.
    let world =
        play([work().after(300).agent_ends("a", "completed").init().text("y").after(5).result(good())]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!((world.classes(), world.launches.len(), world.stops.len()), (vec![Class::Ok], 1, 0));
    assert_eq!(world.records[0].agents_started, 1);
    // It ends without another word: one exit grace for the turn that may follow, one for the exit.
    let world = play([work().after(300).agent_ends("a", "completed").lingers()]);
    assert_eq!(world.stopped(), [(330, StopStep::Terminate)]);
    // It is silent: as long as any silence may last, and then the grace to exit.
    let world = play([work().lingers()]);
    assert_eq!(world.stopped(), [(615, StopStep::Terminate)]);
    // It was cut off: one more try.
    let cut = || work().after(30).agent_ends("a", "stopped");
    let world = play([cut(), cut()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(said(&world), [(Work, false), (Continue, true)]);
    assert_eq!(world.records[0].class, Class::IncompleteBackground);
}

#[test]
fn agents_and_denials_of_failed_attempts_count() {
    let crash = attempt().init().agent_starts("a").denied("Bash").exits(Exit::Signal(11));
    let world = play([crash, attempt().init().agent_starts("b").result(reported("partial"))]);
    assert_eq!(world.records[0].agents_started, 2);
    assert!(
        world
            .published
            .iter()
            .any(|event| matches!(event, RunEvent::SessionEnded { denials: 1, attempts: 2, .. }))
    );
}

/// The machine sleeps for nine hours; no deadline may take that for silence (field-reports L01).
#[test]
fn a_suspend_gives_a_fresh_grace() {
    let asleep = secs(9 * 3600);
    let play =
        |attempt: Attempt, at| World::new(limits()).attempts([attempt]).suspend_at(secs(at), asleep).play();
    let wake = |at: u64| at + asleep.as_secs();
    // Before the first line.
    let world = play(attempt(), 100);
    assert_eq!(world.stopped(), [(wake(100) + 180, StopStep::Terminate)]);
    // In the middle of the work. What was scripted for the time asleep comes at wake-up.
    let world = play(attempt().init().text("x").after(700).result(reported("partial")), 300);
    assert_eq!((world.classes(), world.stops.len()), (vec![Class::Ok], 0));
    let world = play(attempt().init().text("x"), 300);
    assert_eq!(world.stopped(), [(wake(300) + 600, StopStep::Terminate)]);
    // The turn's own limit.
    let busy = (0..2000).fold(attempt().init(), |busy, _| busy.after(30).tool("Bash"));
    let world = play(busy, 300);
    assert_eq!(world.stopped(), [(wake(5400), StopStep::Terminate)]);
    // After the result.
    let world = play(attempt().init().text("x").result(reported("partial")).lingers(), 10);
    assert_eq!(world.stopped(), [(wake(10) + 15, StopStep::Terminate)]);
}

#[test]
fn a_limit_is_slept_out_on_the_wall_clock() {
    let limited = || {
        attempt()
            .after(1)
            .init()
            .text("begun")
            .rejected(Some(in_(3600)))
            .result(failed(Some(429), "You've hit your limit"))
    };
    let world = play([limited()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(said(&world), [(Work, false), (Continue, true)]);
    assert_eq!(world.end().limit_wait.as_secs(), 3600 + 7 - 1 - 1);
    // The machine slept over it: due at wake-up.
    let world = World::new(limits()).attempts([limited()]).suspend_at(secs(60), secs(5 * 3600)).play();
    world.ended(Some(MaxSessionsReached), 1, "");
    assert!(world.elapsed() < 5 * 3600 + 60 + 60);
    // Nothing was answered before it: the same prompt again. No attempt is used up, however often.
    let early =
        |at| attempt().init().rejected(Some(in_(at))).result(failed(Some(429), "usage limit reached"));
    let crash = || attempt().init().exits(Exit::Signal(11));
    let world = play([crash(), early(600), early(1200), crash(), early(1800)]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert!(said(&world).iter().all(|(purpose, _)| *purpose == Work));
}

#[test]
fn a_limit_that_is_too_far_away_or_does_not_lift() {
    let limited =
        |reset| attempt().init().rejected(reset).result(failed(Some(429), "You've hit your weekly limit"));
    let world = play([limited(Some(in_(7 * 3600)))]);
    world.ended(Some(FailedWave), 0, "beyond --max-wait");
    assert_eq!((world.end().failure_class, world.end().needs_person), (Some(Class::UsageLimit), true));
    assert!(world.elapsed() < 60);
    // It never says when: asked again less and less often, and not for ever (field-reports E06).
    let world = play((0..99).map(|_| limited(None)));
    world.ended(Some(FailedWave), 0, "beyond --max-wait");
    assert!(world.elapsed() <= 6 * 3600, "{}", world.elapsed());
    assert!(world.launches.len() < 12, "{}", world.launches.len());
}

#[test]
fn a_failed_handshake_uses_nothing_up() {
    let mute = || {
        attempt().after(10).ends(AttemptEnd {
            handshake_failed: true,
            exit: Some(Exit::Code(143)),
            ..AttemptEnd::default()
        })
    };
    let crash = || attempt().init().text("x").exits(Exit::Signal(11));
    // Two recoveries are left after it.
    let world = play([mute(), crash(), crash(), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(world.classes(), [Class::KilledByOther, Class::KilledByOther, Class::Ok]);
    // Never the same id twice (field-reports H13).
    assert_ne!(world.launches[0].session_id, world.launches[1].session_id);
}

#[test]
fn a_cli_that_refuses_the_control_protocol_twice_is_not_asked_again() {
    let mute = || attempt().after(10).ends(AttemptEnd { handshake_failed: true, ..AttemptEnd::default() });
    let limits = Limits { max_sessions: 4, ..limits() };
    let report = || attempt().init().result(super::script::reported("partial"));
    let plain = |attempts: Vec<Attempt>| {
        let world = World::new(limits.clone()).attempts(attempts).play();
        world.launches.iter().map(|launch| launch.plain).collect::<Vec<_>>()
    };
    assert_eq!(plain(vec![report(), report(), report(), report()]), [false; 4]);
    assert_eq!(
        plain(vec![mute(), report(), mute(), report(), report(), report()]),
        [false, true, false, true, true, true]
    );
    // It reads, but cuts what is long: as plain text the prompt arrives (field-reports C15).
    let cut = AttemptEnd {
        stderr_tail: "Error parsing streaming input line".to_owned(),
        exit: Some(Exit::Code(1)),
        ..AttemptEnd::default()
    };
    assert_eq!(plain(vec![attempt().ends(cut), report()])[..2], [false, true]);
}

fn healing() -> Limits {
    let heals = [120, 240, 480].map(secs).to_vec();
    Limits { recovery: Policy { heals, ..limits().recovery }, ..limits() }
}

fn run_heals(world: &World) -> Vec<(u32, u64)> {
    let heal = |event: &RunEvent| match event {
        RunEvent::Healed { run_heal: Some(number), delay_seconds, .. } => Some((*number, *delay_seconds)),
        _ => None,
    };
    world.published.iter().filter_map(heal).collect()
}

#[test]
fn what_recoveries_do_not_help_the_run_heals_after_minutes() {
    let crash = || attempt().after(1).init().text("x").exits(Exit::Signal(11));
    // The third heal helps. Before it: three attempts; one by the first heal, the fourth failure in a row, which
    // leaves the conversation; three of the new one; three by the second heal.
    let world = World::new(healing()).attempts((0..10).map(|_| crash()).chain([done()])).play();
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(run_heals(&world), [(1, 120), (2, 240), (3, 480)]);
    assert_eq!(world.records.len(), 1, "it is one session all the time");
    assert!(world.launches[3].resume && world.launches[3].purpose == Reconcile);
    let ids: Vec<&str> = world.launches.iter().map(|launch| launch.session_id.as_str()).collect();
    assert!(ids[..4].iter().all(|id| *id == ids[0]) && ids[4..].iter().all(|id| *id == ids[4]));
    assert_ne!(ids[0], ids[4]);
    let left = world.launches[4].left.as_ref().unwrap();
    assert_eq!((left.session_id.as_str(), left.class), (ids[0], Class::PoisonedSession));
    // There is no fourth heal, and no second departure.
    let world = World::new(healing()).attempts((0..99).map(|_| crash())).play();
    world.ended(Some(FailedWave), 0, "session failed (killed_by_other)");
    assert_eq!((run_heals(&world).len(), world.launches.len()), (3, 13));
    let departures = |event: &&RunEvent| matches!(event, RunEvent::ConversationLeft { .. });
    assert_eq!(world.published.iter().filter(departures).count(), 1);
}

#[test]
fn only_healthy_work_refills_the_heals() {
    let crash = || attempt().after(1).init().text("x").exits(Exit::Signal(11));
    // Works for a quarter of an hour and more, then crashes: the counter begins anew.
    let works = || {
        let minutes = (0..16).fold(attempt().init(), |attempt, n| attempt.text(&n.to_string()).after(60));
        minutes.text("y").exits(Exit::Signal(11))
    };
    let attempts = (0..3).map(|_| crash()).chain([works(), crash(), crash(), done()]);
    let world = World::new(healing()).attempts(attempts).play();
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(run_heals(&world), [(1, 120), (1, 120)]);
    // A hang is no health, however long it takes (recovery §14.7).
    let hang = || attempt().init().text("x").after(900);
    let world = World::new(Limits { max_hours: 24.0, ..healing() }).attempts((0..99).map(|_| hang())).play();
    world.ended(Some(KillSwitch::StallTimeout), 1, "");
    assert_eq!(run_heals(&world).len(), 3);
}

#[test]
fn what_cannot_succeed_is_not_healed_and_nobody_is_overruled() {
    let auth = || attempt().init().result(failed(Some(401), "Invalid API key"));
    let world = World::new(healing()).attempts([auth(), auth(), auth()]).play();
    assert_eq!(run_heals(&world), []);
    let crash = || attempt().after(1).init().text("x").exits(Exit::Signal(11));
    // A stop in the middle of the pause ends it at once.
    for level in [StopLevel::Finish, StopLevel::Interrupt, StopLevel::Kill] {
        let world = World::new(healing()).attempts((0..9).map(|_| crash())).stop_at(secs(60), level).play();
        world.ended(Some(KillSwitch::UserAbort), 0, "");
        assert!(world.elapsed() <= 61 && world.launches.len() == 3);
    }
    // A heal that would come after the end of the run's hours is none.
    let short = Limits { max_hours: 0.02, ..healing() };
    let world = World::new(short).attempts((0..9).map(|_| crash())).play();
    assert_eq!(run_heals(&world), []);
    // What a run used up before it was cut off stays used up.
    let inherited = Inherited { heals: 2, ..Inherited::default() };
    let world = World::inheriting(healing(), inherited).attempts((0..99).map(|_| crash())).play();
    assert_eq!(run_heals(&world), [(3, 480)]);
}

#[test]
fn crashes_go_on_where_they_were_and_are_bounded() {
    let crash = || attempt().after(1).init().text("x").exits(Exit::Signal(11));
    let world = play([crash(), crash(), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(said(&world), [(Work, false), (Reconcile, true), (Reconcile, true)]);
    let world = play([crash(), crash(), crash()]);
    world.ended(Some(FailedWave), 0, "session failed (killed_by_other)");
    assert_eq!(world.elapsed(), 1 + 5 + 1 + 30 + 1);
    // Nothing of the model: the same prompt. An API failure: go on.
    let world = play([attempt().init().exits(Exit::Signal(11)), done()]);
    assert_eq!(said(&world), [(Work, false), (Work, true)]);
    let world = play([attempt().init().text("x").result(failed(Some(529), "Overloaded")), done()]);
    assert_eq!(said(&world), [(Work, false), (Continue, true)]);
}

#[test]
fn a_reply_that_stands_in_the_transcript_is_taken() {
    let lost = attempt().init().lands().after(1).exits(Exit::Code(0));
    let world = play([lost]);
    world.ended(Some(MaxSessionsReached), 1, "");
    // Only the report is asked for.
    assert_eq!(said(&world), [(Work, false), (Purpose::Close, true)]);
}

#[test]
fn a_poisoned_conversation_is_left_once() {
    let poisoned = |n: u32| {
        let words = format!("API Error: 400 messages.{n}.content.0: `thinking` blocks cannot be modified");
        attempt().init().text("x").result(failed(Some(400), &words))
    };
    // The figures in the words do not hide that it is the same (field-reports G00).
    let world = play([poisoned(7), poisoned(9), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(said(&world), [(Work, false), (Work, true), (Reconcile, false)]);
    assert_ne!(world.launches[1].session_id, world.launches[2].session_id);
    // The fresh one is no better: the end.
    let world = play((0..9).map(poisoned));
    world.ended(Some(FailedWave), 0, "a fresh conversation met the same");
    assert_eq!(world.launches.len(), 4);
    // New words each time do not make it go on for ever.
    let words = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let world = play(words.map(|word| attempt().init().text("x").result(failed(Some(400), word))));
    assert_eq!(world.launches.len(), 6);
    world.ended(Some(FailedWave), 0, "");
}

#[test]
fn a_full_context_starts_afresh_once_and_out_of_turns_goes_on() {
    let full = || attempt().init().text("x").result(failed(None, "Prompt is too long"));
    // Room is made first, and the work goes on in the same conversation.
    let world = play([full(), done(), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    assert_eq!(said(&world), [(Work, false), (Compact, true), (Reconcile, true)]);
    // It does not help, or cannot be done: a new one, once.
    for attempts in [vec![full(), full(), done()], vec![full(), done(), full(), done()]] {
        let world = play(attempts);
        world.ended(Some(MaxSessionsReached), 1, "");
        let last = world.launches.last().unwrap();
        assert_eq!((last.purpose, last.resume), (Reconcile, false), "{:?}", said(&world));
        assert_eq!(last.left.as_ref().unwrap().class, Class::ContextFull);
    }
    play((0..9).map(|_| full())).ended(Some(FailedWave), 0, "a fresh conversation met the same");
    // A limit in the middle of it: waited for, then room is made, then the work.
    let limited = attempt().init().rejected(Some(in_(600))).result(failed(Some(429), "limit"));
    let world = play([full(), limited, done(), done()]);
    assert_eq!(said(&world), [(Work, false), (Compact, true), (Compact, true), (Reconcile, true)]);
    let turns = || attempt().init().tool("Bash").result(out_of_turns());
    let world = play((0..5).map(|_| turns()));
    world.ended(Some(MaxSessionsReached), 1, "");
    assert!(said(&world)[1..].iter().all(|said| *said == (Continue, true)));
    play((0..6).map(|_| turns())).ended(Some(FailedWave), 0, "continued 5 times already");
}

#[test]
fn go_on_is_not_said_to_a_conversation_that_knows_nothing() {
    // Out of turns, and no transcript to resume.
    let world = play([attempt().init().tool("Bash").result(out_of_turns()).writes_nothing(), done()]);
    assert_eq!(said(&world), [(Work, false), (Reconcile, false)]);
    assert_eq!(world.launches[1].transcript_offset, 0);
}

#[test]
fn a_program_that_is_being_replaced_is_waited_for_a_little() {
    let missing = || {
        attempt().ends(AttemptEnd {
            launch_failure: Some((LaunchFailure::ProgramMissing, "cannot start claude".to_owned())),
            ..AttemptEnd::default()
        })
    };
    let world = play([missing(), missing(), done()]);
    world.ended(Some(MaxSessionsReached), 1, "");
    let world = play([missing(), missing(), missing()]);
    world.ended(Some(FailedWave), 0, "cannot start claude");
    assert_eq!((world.end().failure_class, world.end().needs_person), (Some(Class::BinaryMissing), true));
}

#[test]
fn the_id_the_cli_confirms_is_followed() {
    const OTHER: &str = "3f0c8a52-7a1b-4a7e-9a55-0d6f1c2b3a49";
    let renamed = crate::core::fact::TurnResult { session_id: Some(OTHER.to_owned()), ..reported("partial") };
    let world = play([attempt().init().text("x").result(renamed)]);
    assert_eq!(world.end().sessions, [world.launches[0].session_id.as_str(), OTHER]);
    // An error result only echoes what it was asked for (field-reports H11).
    let echo = crate::core::fact::TurnResult { session_id: Some(OTHER.to_owned()), ..failed(Some(529), "x") };
    let world = play([attempt().init().text("x").result(echo), done()]);
    assert_eq!(world.end().sessions, [world.launches[0].session_id.clone()]);
}

#[test]
fn timers_of_an_earlier_attempt_do_nothing() {
    let stale = |epoch| {
        let kinds = [TimerKind::FirstOutput, TimerKind::Stall, TimerKind::Turn, TimerKind::ExitGrace];
        kinds.map(|kind| Event::Timer(TimerId { kind, epoch }))
    };
    let crash = attempt().init().text("x").exits(Exit::Signal(11));
    let mut world =
        World::new(limits()).attempts([crash, attempt().after(300).init().result(reported("partial"))]);
    for event in stale(1).into_iter().chain(stale(99)) {
        world = world.at(secs(100), event);
    }
    let world = world.play();
    assert_eq!(world.stopped(), [(5 + 180, StopStep::Terminate)], "its own first-output deadline, no other");
}

#[test]
fn a_login_that_is_refused_twice_is_not_waited_for() {
    let refused = || {
        Fact::ApiRetry(ApiRetry {
            status: Some(401),
            delay_ms: 500.0,
            max_retries: 10,
            ..ApiRetry::default()
        })
    };
    let other = || {
        Fact::ApiRetry(ApiRetry {
            status: Some(529),
            delay_ms: 500.0,
            max_retries: 10,
            ..ApiRetry::default()
        })
    };
    // Without the end, the third would come after minutes.
    let world = play([attempt().init().say(refused()).after(1).say(refused()).after(180).say(refused())]);
    world.ended(Some(FailedWave), 0, "refused the login twice");
    assert_eq!((world.end().failure_class, world.end().needs_person), (Some(Class::Auth), true));
    assert!(world.elapsed() < 30 && world.launches.len() == 1, "{} s", world.elapsed());
    // Once, or with work in between, or for another reason: it may pass.
    for facts in [
        vec![refused()],
        vec![refused(), Fact::Text { text: "x".to_owned(), sub_agent: false }, refused()],
        vec![other(), other(), other()],
    ] {
        let attempt = facts.into_iter().fold(attempt().init(), |attempt, fact| attempt.say(fact).after(1));
        play([attempt.result(reported("complete"))]).ended(Some(MaxSessionsReached), 1, "");
    }
}
