use super::*;
use crate::core::published::FORMAT;
use crate::ui::sample;
use crate::ui::text::TextOptions;
use jiff::tz::TimeZone;
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

/// The night of the fixtures: limits, heals, peers, a verification that failed.
fn fixture() -> RunSummary {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal/v1/night.jsonl");
    let skim = crate::journal::reader::skim_journal(&path, RunSummary::needs).unwrap();
    RunSummary {
        commit_url: Some("https://github.com/acme/shop/commit/".to_owned()),
        ..RunSummary::from_skim(&skim)
    }
}

#[test]
fn skimmed_or_read_in_full_it_is_the_same_run() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal/v1/night.jsonl");
    let whole = RunSummary::from_entries(&crate::journal::reader::read_journal(&path).unwrap().entries);
    assert_eq!(RunSummary { commit_url: None, ..fixture() }, whole);
}

#[test]
fn at_eighty_columns() {
    let text = fixture().to_text(&TextOptions { width: 80, ..TextOptions::log() });
    let too_wide: Vec<_> = text.lines().filter(|line| crate::ui::text::width(line) > 80).collect();
    assert_eq!(too_wide, Vec::<&str>::new());
    insta::assert_snapshot!(text);
}

#[test]
fn as_markdown_with_links() {
    insta::assert_snapshot!(fixture().to_markdown());
}

#[test]
fn as_junit() {
    insta::assert_snapshot!(fixture().to_junit());
}

/// Tags of a page, without what stands between them.
fn tags(page: &str) -> Vec<&str> {
    let style = page.find("</style>").expect("it has a style");
    page[style..].split('<').skip(1).map(|tag| &tag[..tag.find('>').unwrap_or(tag.len())]).collect()
}

#[test]
fn the_page_is_complete_in_itself() {
    let page = fixture().to_html(&TimeZone::UTC);
    for part in ["Timeline", "Output tokens and cost", "Usage windows", "Machine", "To decide", "Next"] {
        assert!(page.contains(&format!("<h2>{part}</h2>")), "{part}");
    }
    assert_eq!(page.matches("<svg").count(), 4);
    let links: Vec<&str> = tags(&page).into_iter().filter(|tag| tag.starts_with("a ")).collect();
    assert_eq!(links.len(), 5);
    assert!(links[0].starts_with("a href=\"https://github.com/acme/shop/commit/1f1f"), "{}", links[0]);
    for never in ["<script", "<link", "<img", "@import", "url(", "src=", "onload"] {
        assert!(!page.contains(never), "{never}");
    }
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("default-src 'none'"));
}

#[test]
fn the_charts_hold_nothing_that_is_not_a_number() {
    for summary in [fixture(), night(), RunSummary::default()] {
        let page = summary.to_html(&TimeZone::UTC);
        assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
    }
}

const HOSTILE: &str =
    "\"><script>alert(1)</script><img src=x onerror=alert(2)>' onmouseover='alert(3)`\u{1b}[31m";

/// A run in which everything that can be foreign is hostile.
fn hostile() -> RunSummary {
    let mut run = fixture();
    let evil = || HOSTILE.to_owned();
    (run.run_id, run.detail, run.repository, run.branch) =
        (Some(evil()), Some(evil()), Some(evil()), Some(evil()));
    (run.version, run.claude_version, run.parent_run_id) = (Some(evil()), Some(evil()), Some(evil()));
    (run.damage, run.warnings, run.next) =
        (Some(evil()), vec![evil()], vec![evil(), format!("{HOSTILE}    ({HOSTILE})")]);
    run.questions.push(Question {
        at: sample::start(),
        session_id: evil(),
        question: evil(),
        answer: Some(evil()),
    });
    for heal in &mut run.heals {
        (heal.action, heal.why, heal.session_id) = (evil(), evil(), evil());
    }
    for wait in &mut run.waits {
        wait.window = Some(evil());
    }
    for point in &mut run.course.windows {
        (point.window, point.status) = (evil(), evil());
    }
    for point in &mut run.course.resources {
        (point.tier, point.deciding) = (evil(), Some(evil()));
    }
    for session in &mut run.sessions {
        session.session_id = evil();
        let end = session.end.as_mut().unwrap();
        (end.status, end.summary, end.contradictions) = (Some(evil()), Some(evil()), vec![evil()]);
        end.models.iter_mut().for_each(|spend| spend.model = evil());
        end.verification = Some(Verification { passed: false, ended: evil(), tail: evil() });
        end.tasks = Some(TaskOutcome {
            ticked_by_us: vec![evil()],
            still_open: vec![evil()],
            disproved: vec![evil()],
            ..TaskOutcome::default()
        });
        if let Some(work) = &mut end.work {
            for commit in &mut work.commits {
                (commit.oid, commit.subject) = (evil(), evil());
            }
        }
    }
    run
}

#[test]
fn no_word_of_a_model_becomes_markup() {
    let known: std::collections::BTreeSet<String> =
        tags(&fixture().to_html(&TimeZone::UTC)).iter().map(|tag| names(tag)).collect();
    let page = hostile().to_html(&TimeZone::UTC);
    for tag in tags(&page) {
        assert!(known.contains(&names(tag)), "<{tag}>");
    }
    assert!(page.contains("&lt;script&gt;") && !page.contains('\u{1b}'));
    // An id that is none is no link.
    assert!(!page.contains("<a "), "a link from a hostile id");
    let xml = hostile().to_junit();
    assert!(!xml.contains("<script") && !xml.contains('\u{1b}') && xml.contains("&lt;script&gt;"));
    let markdown = hostile().to_markdown();
    assert!(!markdown.contains("<script>") || markdown.contains("\\<script\\>"), "{markdown}");
}

/// A tag as its name and the names of its attributes.
fn names(tag: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    let mut value = false;
    for c in tag.chars() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '=' => value = true,
            ' ' => {
                value = false;
                out.push(' ');
            }
            c if !value => out.push(c),
            _ => {}
        }
    }
    let mut words: Vec<&str> = out.split_whitespace().collect();
    words.sort_unstable();
    words.join(" ")
}

#[test]
fn a_damaged_journal_says_so_and_tells_the_rest() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal/v1/killed.jsonl");
    let skim = crate::journal::reader::skim_journal(&path, |_| true).unwrap();
    let summary = RunSummary::from_skim(&skim);
    let damage = summary.damage.as_deref().unwrap();
    assert!(damage.contains("1 line of the journal") && damage.contains("moon_phase"), "{damage}");
    let options = TextOptions::log();
    for text in [summary.to_text(&options), summary.to_markdown(), summary.to_html(&TimeZone::UTC)] {
        assert!(text.contains("warning: 1 line of the journal"), "{text}");
    }
}

#[test]
fn old_records_give_what_they_know() {
    for (name, most) in [("autopilot-v1.jsonl", 1), ("autopilot-v2.jsonl", 2)] {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal/upstream").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        let mut runs = 0;
        for line in text.lines() {
            let record: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
            if !record.contains_key("autopilot_run_id") {
                continue;
            }
            runs += 1;
            let version = record.get("schema_version").and_then(serde_json::Value::as_u64);
            assert!(version.is_none_or(|version| version <= most), "{line}");
            let summary = RunSummary::from_record(&record);
            assert!(summary.run_id.is_some() && summary.started_at.is_some(), "{line}");
            assert!(summary.to_text(&TextOptions::log()).contains(summary.run_id.as_deref().unwrap()));
        }
        assert!(runs > 0, "{name}");
    }
}

#[test]
fn runs_of_a_week() {
    let mut second = night();
    second.run_id = Some("main-2026-11-15-0100-autopilot".to_owned());
    let span = span::SpanSummary::new(
        sample::start(),
        sample::start(),
        vec![fixture(), second],
        vec![span::Unreadable { run_id: "x".into(), why: "newer".into() }],
    );
    let t = span.totals;
    assert_eq!((t.runs, t.planned, t.sessions, t.commits, t.verified, t.not_verified), (2, 0, 5, 7, 3, 2));
    assert!(!t.cost_complete && (t.known_cost_usd - 9.9).abs() < 1e-9);
    insta::assert_snapshot!("week_text", span.to_text(&TextOptions { width: 80, ..TextOptions::log() }));
    insta::assert_snapshot!("week_markdown", span.to_markdown());
    assert_eq!(span.to_junit().matches("<testsuite ").count(), 2);
    let json: serde_json::Value = serde_json::from_str(&span.to_json()).unwrap();
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(2));
    let page = span.to_html(&TimeZone::UTC);
    assert!(page.contains("main-2026-11-15-0100-autopilot") && page.matches("<svg").count() == 2);
}
