use super::*;
use crate::core::published::FORMAT;
use crate::ui::sample;
use proptest::prelude::*;

fn night() -> RunSummary {
    RunSummary::from_entries(&sample::journal())
}

#[test]
fn a_night_as_text() {
    insta::assert_snapshot!(night().to_text(&TextOptions::log()));
}

#[test]
fn a_night_as_markdown() {
    insta::assert_snapshot!(night().to_markdown());
}

#[test]
fn a_night_as_json() {
    let json = night().to_json();
    assert_eq!(json.matches('\n').count(), 1);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
}

#[test]
fn a_half_finished_journal_tells_what_is_known() {
    let journal = sample::journal();
    let until = journal
        .iter()
        .position(|entry| matches!(entry.event, RunEvent::LimitWait { .. }))
        .expect("the night has a wait");
    let summary = RunSummary::from_entries(&journal[..=until]);
    insta::assert_snapshot!(summary.to_text(&TextOptions::log()));
    assert_eq!(summary.outcome, RunOutcome::Unfinished);
    assert_eq!(summary.exit_code, None);
    let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
    assert_eq!(
        (&json["exit_code"], &json["next"][0]),
        (&serde_json::Value::Null, &"autopilot status".into())
    );
    assert_eq!(summary.iterations, 1);
    assert_eq!(summary.cost_usd, Some(1.25));
}

#[test]
fn a_wait_for_others_is_told_while_it_lasts_and_after() {
    let entry = |second: i64, event: RunEvent| Entry {
        v: FORMAT,
        seq: second.unsigned_abs(),
        at: sample::start() + jiff::Span::new().seconds(second),
        event,
    };
    let wait = |second: i64, pid: u32| {
        let until = sample::start() + jiff::Span::new().seconds(300);
        let peers = vec![PeerSession { pid, age_seconds: 720 }];
        entry(second, RunEvent::PeerWait { iteration: 1, peers, until, at_most_seconds: 300 })
    };
    let check = |entries: &[Entry], text: &str, markdown: &str, waited: &[Option<u64>]| {
        let summary = RunSummary::from_entries(entries);
        let found = summary.to_text(&TextOptions::log());
        assert!(found.contains(text), "{found}");
        let found = summary.to_markdown();
        assert!(found.contains(markdown), "{found}");
        let lasted: Vec<_> = summary.peer_waits.iter().map(|wait| wait.waited_seconds).collect();
        assert_eq!(lasted, waited);
    };
    let mut entries = vec![entry(0, sample::run_started()), wait(0, 7)];
    check(
        &entries,
        "  waiting for the Claude session 7 (started 12 min ago) to finish, until Sun 23 Aug 01:22 UTC at most",
        "## Waits for other sessions

- Sun 23 Aug 01:17 UTC, the Claude session 7 (started 12 min ago): waiting until Sun 23 Aug 01:22 UTC at most",
        &[None],
    );
    // Another one took its place, and ended.
    entries.extend([wait(60, 8), entry(90, RunEvent::PeerGone { waited_seconds: 90 })]);
    check(
        &entries,
        "  waited for the Claude session 8 (started 12 min ago): 1m 30s",
        "session 8 (started 12 min ago): waited 1m 30s",
        &[Some(90)],
    );
    // The next one outlasts the grace.
    entries.push(wait(100, 9));
    let end = RunEvent::RunEnded {
        kill_switch: None,
        detail: Some("it is still at work".into()),
        exit_code: 5,
        failure_class: None,
        fallback_to_manual: false,
        iterations: 0,
        sessions: vec![],
        tokens: Tokens::default(),
        cost_usd: None,
        seconds: 400.0,
        limit_wait_seconds: 0,
        next: vec![],
    };
    entries.push(entry(400, end));
    check(
        &entries,
        "stopped: another Claude session is at work here, exit code 5\n  it is still at work",
        "session 9 (started 12 min ago): waited 5m 00s",
        &[Some(90), Some(300)],
    );
}

#[test]
fn an_empty_journal_claims_nothing() {
    let summary = RunSummary::from_entries(&[]);
    assert_eq!((summary.tokens, summary.cost_usd, summary.seconds), (None, None, None));
    let text = summary.to_text(&TextOptions::log());
    assert!(text.contains("unknown output tokens, cost unknown"), "{text}");
    assert!(text.contains("no session was started"), "{text}");
}

#[test]
fn one_session_of_unknown_cost_makes_the_sum_unknown() {
    let entry = |seq: u64, event: RunEvent| Entry { v: FORMAT, seq, at: sample::start(), event };
    let mut unknown = sample::session_ended(2, "b");
    if let RunEvent::SessionEnded { cost_usd, tokens, .. } = &mut unknown {
        *cost_usd = Some(f64::NAN);
        *tokens = Tokens::default();
    }
    let summary = RunSummary::from_entries(&[entry(0, sample::session_ended(1, "a")), entry(1, unknown)]);
    assert_eq!(summary.cost_usd, None);
    assert_eq!(summary.known_cost_usd, Some(1.25));
    assert_eq!(summary.tokens, None);
    assert!(summary.to_text(&TextOptions::log()).contains("cost unknown (at least $1.25)"));
}

#[test]
fn one_conversation_may_serve_several_iterations() {
    let entry = |event: RunEvent| Entry { v: FORMAT, seq: 0, at: sample::start(), event };
    let summary = RunSummary::from_entries(&[
        entry(sample::session_started(1, "a")),
        entry(sample::session_ended(1, "a")),
        entry(sample::session_started(2, "a")),
    ]);
    assert_eq!(summary.sessions.len(), 2);
    assert!(summary.sessions[0].end.is_some() && summary.sessions[1].end.is_none());
}

#[test]
fn the_outcome_follows_switch_and_exit_code() {
    let check = |switch: Option<KillSwitch>, code: u8, manual: bool, expected: RunOutcome| {
        let mut entry = sample::journal().pop().expect("the night has an end");
        if let RunEvent::RunEnded { kill_switch, exit_code, fallback_to_manual, .. } = &mut entry.event {
            *kill_switch = switch;
            *exit_code = code;
            *fallback_to_manual = manual;
        }
        assert_eq!(RunSummary::from_entries(&[entry]).outcome, expected);
    };
    check(Some(KillSwitch::MaxSessionsReached), 0, false, RunOutcome::Planned);
    check(None, 0, false, RunOutcome::Planned);
    check(None, 3, true, RunOutcome::Manual);
    check(Some(KillSwitch::UserAbort), 130, false, RunOutcome::Aborted);
    check(Some(KillSwitch::Spiral), 13, false, RunOutcome::Stopped);
    check(None, 1, false, RunOutcome::Stopped);
}

#[test]
fn no_summary_forges_markup() {
    let entry = |event: RunEvent| Entry { v: FORMAT, seq: 0, at: sample::start(), event };
    let mut ended = sample::session_ended(1, "a|b\n# c");
    if let RunEvent::SessionEnded { summary, .. } = &mut ended {
        *summary = Some("ok\n# Fake\n| x | [link](http://x) <b>\u{1b}[2J".into());
    }
    let markdown = RunSummary::from_entries(&[entry(ended)]).to_markdown();
    assert!(markdown.contains(r"- ok \# Fake \| x \| \[link\](http://x) \<b\>"), "{markdown}");
    assert!(!markdown.contains('\u{1b}') && !markdown.contains("\n# Fake"));
}

proptest! {
    /// Any part of a journal, in any order, gives a report.
    #[test]
    fn any_part_of_a_journal_can_be_told(picks in prop::collection::vec(any::<prop::sample::Index>(), 0..30)) {
        let journal = sample::journal();
        let part: Vec<Entry> = picks.iter().map(|pick| pick.get(&journal).clone()).collect();
        let summary = RunSummary::from_entries(&part);
        let options = TextOptions { ascii: true, width: 80, ..TextOptions::log() };
        prop_assert!(summary.to_text(&options).is_ascii());
        prop_assert!(summary.to_markdown().ends_with('\n'));
        prop_assert!(serde_json::from_str::<serde_json::Value>(&summary.to_json()).is_ok());
    }
}
