use super::*;
use crate::core::kill_switch::KillSwitch;
use crate::ui::sample;
use jiff::tz::TimeZone;

fn options() -> TextOptions {
    TextOptions { time_zone: TimeZone::get("Europe/Berlin").expect("a bundled zone"), ..TextOptions::log() }
}

fn night(options: TextOptions) -> String {
    let mut state = PlainState::new(options);
    let lines = sample::events().into_iter().filter_map(|(at, event)| {
        let elapsed = Duration::from_secs(at.unsigned_abs());
        render(&event, elapsed, &mut state)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_night_as_a_log_tells_it() {
    insta::assert_snapshot!(night(options()));
}

#[test]
fn a_night_in_detail() {
    insta::assert_snapshot!(night(TextOptions { verbose: true, ..options() }));
}

#[test]
fn a_night_in_ascii_and_narrow() {
    let text = night(TextOptions { ascii: true, width: 60, ..options() });
    assert!(text.is_ascii(), "{text}");
}

#[test]
fn colours_only_when_asked_for() {
    assert!(!night(options()).contains('\u{1b}'));
    let coloured = night(TextOptions { colour: true, ..options() });
    assert!(coloured.contains("\u{1b}[31m"));
    // Without the codes it is the same text, so no foreign escape has come through either.
    let bare: String = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"]
        .iter()
        .fold(coloured, |text, code| text.replace(code, ""));
    assert_eq!(bare, night(options()));
}

/// What one event says after some others, without the time.
fn say(before: &[RunEvent], event: &RunEvent) -> Option<String> {
    let mut state = PlainState::new(options());
    for earlier in before {
        render(earlier, Duration::ZERO, &mut state);
    }
    render(event, Duration::ZERO, &mut state).map(|text| text[INDENT..].to_owned())
}

#[test]
fn each_event_in_its_words() {
    let check = |event: RunEvent, expected: Option<&str>| {
        assert_eq!(say(&[], &event).as_deref(), expected, "{event:?}");
    };
    check(RunEvent::Progress { output_tokens: 1, cost_usd: None }, None);
    check(RunEvent::AttemptSpawned { attempt: 1, pid: 7 }, None);
    check(RunEvent::Warning { text: "disk\nnearly\u{1b}[2Jfull".into() }, Some("warning: disk nearlyfull"));
    check(
        RunEvent::ModeSelected {
            alternatives: Vec::new(),
            pressure: crate::core::mode::Pressure::default(),
            reasons: Vec::new(),
            iteration: 1,
            mode: None,
            confidence: 0.0,
            threshold: 0.85,
            rationale: "no open work".into(),
        },
        Some("no open work"),
    );
    check(
        RunEvent::ResourcesJudged {
            iteration: 1,
            tier: "critical".into(),
            cap: 0,
            deciding: Some("swap_used".into()),
            signals: vec![],
        },
        Some("resources critical because of swap_used: no sub-agents"),
    );
    check(
        RunEvent::RateLimit {
            status: "allowed_warning".into(),
            window: Some("seven_day".into()),
            resets_at: Some("2026-08-25T20:00:00Z".parse().unwrap()),
            utilization: Some(0.85),
        },
        Some("usage window seven_day is 85 % used, resets Tue 25 Aug 22:00 CEST (20:00 UTC)"),
    );
    check(
        RunEvent::StopRequested { level: "finish".into(), by: "SIGINT".into() },
        Some("stop asked for by SIGINT: this session is finished first (ask again to interrupt it)"),
    );
    check(
        RunEvent::DeadRunFound {
            run_id: "r1".into(),
            swept: vec!["node".into(), "sh".into()],
            survivors: vec!["sh 77".into()],
        },
        Some(concat!(
            "run r1 died without a word; its record is written now (`autopilot resume` goes on)\n",
            "          ended what it left: node, sh\n",
            "          STILL ALIVE, end it by hand: sh 77"
        )),
    );
    check(
        RunEvent::Suspended { asleep_seconds: 3_700.0 },
        Some("this machine was asleep for 1h 01m; time limits start afresh"),
    );
    check(
        RunEvent::ReportReceived {
            session_id: "s".into(),
            source: ReportSource::Derived,
            status: None,
            problems: vec![],
        },
        Some("no session report was handed in; judged from stream and git"),
    );
}

#[test]
fn a_wait_for_others_says_for_whom_and_how_long() {
    let peers = vec![crate::core::published::PeerSession { pid: 1234, age_seconds: 720 }];
    let until = sample::start();
    let wait = RunEvent::PeerWait { iteration: 1, peers, until, at_most_seconds: 300 };
    assert_eq!(
        say(&[], &wait).as_deref(),
        Some(
            "waiting for the Claude session 1234 (started 12 min ago) to finish, at most 5m 00s
          it works in this repository, too (--allow-peers would not wait)"
        )
    );
    assert_eq!(
        say(&[wait], &RunEvent::PeerGone { waited_seconds: 65 }).as_deref(),
        Some("nobody else works here any more; waited 1m 05s")
    );
}

#[test]
fn a_run_that_did_not_start_says_what_to_do() {
    let ended = RunEvent::RunEnded {
        kill_switch: None,
        detail: Some("iteration 1: confidence=0.2 < threshold=0.85".into()),
        exit_code: 3,
        failure_class: None,
        fallback_to_manual: true,
        iterations: 0,
        sessions: vec![],
        tokens: crate::core::published::Tokens::default(),
        cost_usd: Some(0.0),
        seconds: 0.4,
        limit_wait_seconds: 0,
        next: vec!["autopilot --mode feature".into()],
    };
    let expected = "\
run ended: not sure enough to start by itself, exit code 3
          iteration 1: confidence=0.2 < threshold=0.85
          0 completed sessions in 0s, 0 output tokens, $0.00
          next: autopilot --mode feature";
    assert_eq!(say(&[], &ended).unwrap(), expected);
}

#[test]
fn the_same_is_not_said_twice() {
    let warning = RunEvent::RateLimit {
        status: "allowed_warning".into(),
        window: Some("five_hour".into()),
        resets_at: None,
        utilization: None,
    };
    assert!(say(&[], &warning).is_some());
    assert_eq!(say(std::slice::from_ref(&warning), &warning), None);
    let judged = RunEvent::ResourcesJudged {
        iteration: 1,
        tier: "green".into(),
        cap: 8,
        deciding: None,
        signals: vec![],
    };
    assert_eq!(say(std::slice::from_ref(&judged), &judged), None);
    let retry = |error: &str| RunEvent::ApiRetry {
        attempt: 1,
        max_retries: 10,
        status: None,
        error: Some(error.into()),
    };
    assert_eq!(say(&[retry("overloaded")], &retry("overloaded")), None);
    assert!(say(&[retry("overloaded")], &retry("rate_limit")).is_some());
}

#[test]
fn an_unmeasured_number_is_unknown_and_a_measured_zero_is_zero() {
    let check = |cost: Option<f64>, attempts: u32, expected: &str| {
        let mut event = sample::session_ended(1, "s");
        if let RunEvent::SessionEnded { tokens, cost_usd, attempts: ran, .. } = &mut event {
            *tokens = crate::core::published::Tokens::default();
            *cost_usd = cost;
            *ran = attempts;
        }
        let line = say(&[], &event).unwrap();
        assert!(line.contains(expected), "{line}");
    };
    check(None, 1, "unknown output tokens, cost unknown");
    check(Some(f64::NAN), 1, "unknown output tokens, cost unknown");
    check(Some(-2.0), 1, "unknown output tokens, cost unknown");
    check(Some(0.0), 1, " 0 output tokens, $0.00");
    check(None, 0, " 0 output tokens, cost unknown");
}

#[test]
fn every_switch_can_end_a_run_in_words() {
    for switch in KillSwitch::ALL {
        let mut event = sample::events().pop().expect("the night has an end").1;
        if let RunEvent::RunEnded { kill_switch, .. } = &mut event {
            *kill_switch = Some(switch);
        }
        assert!(say(&[], &event).unwrap().contains(switch.as_str()));
    }
}
