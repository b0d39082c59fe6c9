use super::*;
use crate::core::published::Tokens;
use indicatif::TermLike;
use std::io;
use std::sync::{Arc, Mutex};

fn wall() -> Timestamp {
    "2026-08-23T01:00:00Z".parse().unwrap()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn now(n: u64) -> Now {
    Now { mono: seconds(1_000_000 + n), wall: wall() }
}

fn options(width: usize) -> TextOptions {
    TextOptions { width, ..TextOptions::log() }
}

fn run_started() -> RunEvent {
    RunEvent::RunStarted {
        run_id: "r".into(),
        version: "0.1.0".into(),
        repository: "/repo".into(),
        branch: None,
        parent_run_id: None,
        max_sessions: 5,
        max_hours: 4.0,
        max_tokens: 500_000,
        max_cost_usd: Some(10.0),
        confidence_threshold: 0.85,
        claude: "claude".into(),
        claude_version: None,
    }
}

fn session_started() -> RunEvent {
    RunEvent::SessionStarted {
        iteration: 2,
        session_id: "s".into(),
        mode: Mode::Feature,
        cap: 4,
        continued: false,
        tasks: Vec::new(),
    }
}

fn tool(name: &str, summary: &str) -> RunEvent {
    RunEvent::ToolUsed { name: name.into(), summary: summary.into(), sub_agent: false }
}

#[test]
fn each_activity_has_its_words() {
    let until: Timestamp = "2026-08-23T03:13:00Z".parse().unwrap();
    let check = |events: &[RunEvent], at: u64, expected: [&str; 3]| {
        let mut state = ProgressState::default();
        state.apply(&run_started(), seconds(0));
        for event in events {
            state.apply(event, seconds(100));
        }
        let moment = Moment { elapsed: seconds(at), wall: wall() };
        assert_eq!(lines(&state, moment, &options(100)), expected);
    };
    let fresh = "0 of 500k output tokens · cost unknown of $10.00";
    let place = "session 2 of 5 · feature · 00:01:42, 3h 58m left";
    check(&[], 2, ["before session 1 · 00:00:02, 3h 59m left", fresh, "preparing the next session"]);
    check(&[session_started()], 102, [place, fresh, "starting Claude Code"]);
    check(
        &[
            session_started(),
            tool("Agent", "look at it"),
            RunEvent::WaveChanged {
                live: 1,
                cap: 4,
                totals: WaveTotals { asked: 3, started: 1, denied: 2, peak: 1 },
            },
            RunEvent::Progress { output_tokens: 12_345, cost_usd: Some(0.5) },
            tool("Bash", "cargo test"),
        ],
        130,
        [
            "session 2 of 5 · feature · 00:02:10, 3h 57m left",
            "12.3k of 500k output tokens · $0.50 of $10.00 · sub-agents 1 of 4 (3 asked, 1 started, 2 refused)",
            "Bash: cargo test · silent for 30s",
        ],
    );
    check(
        &[
            session_started(),
            RunEvent::LimitWait { window: None, until, source: ResetSource::Event, why: String::new() },
        ],
        102,
        [place, fresh, "usage limit: 2h 13m left, until Sun 23 Aug 03:13 UTC"],
    );
    let peer_wait = RunEvent::PeerWait {
        iteration: 3,
        peers: vec![crate::core::published::PeerSession { pid: 1234, age_seconds: 720 }],
        until: "2026-08-23T01:04:10Z".parse().unwrap(),
        at_most_seconds: 300,
    };
    check(
        &[session_started(), peer_wait.clone()],
        152,
        [
            "session 2 of 5 · feature · 00:02:32, 3h 57m left",
            fresh,
            "at most 4m 10s more: waiting for the Claude session 1234 (started 12 min ago) to finish",
        ],
    );
    check(
        &[session_started(), peer_wait, RunEvent::PeerGone { waited_seconds: 9 }],
        102,
        [place, fresh, "preparing the next session"],
    );
    let healed = RunEvent::Healed {
        session_id: "s".into(),
        class: crate::core::outcome::Class::Stalled,
        action: "resume".into(),
        why: String::new(),
        recovery: 1,
        run_heal: None,
        delay_seconds: 5,
    };
    check(&[session_started(), healed.clone()], 102, [place, fresh, "healing in 3s: resume"]);
    check(
        &[session_started(), RunEvent::ApiRetry { attempt: 3, max_retries: 10, status: None, error: None }],
        102,
        [place, fresh, "the API does not answer, retry 3 of 10"],
    );
    check(
        &[session_started(), RunEvent::StopRequested { level: "finish".into(), by: "SIGINT".into() }],
        102,
        ["session 2 of 5 · feature · 00:01:42, 3h 58m left · stopping", fresh, "starting Claude Code"],
    );
}

#[test]
fn totals_of_ended_sessions_stand_when_no_progress_came() {
    let mut state = ProgressState::default();
    let ended = RunEvent::SessionEnded {
        iteration: 1,
        session_id: "s".into(),
        completed: true,
        class: crate::core::outcome::Class::Ok,
        status: None,
        summary: None,
        work: None,
        contradictions: vec![],
        verification: None,
        tasks: None,
        tokens: Tokens { output: 700, ..Tokens::default() },
        models: vec![],
        cost_usd: Some(0.25),
        seconds: 1.0,
        turns: 1,
        attempts: 1,
        denials: 0,
        wave: WaveTotals::default(),
    };
    state.apply(&ended, seconds(1));
    assert_eq!((state.output_tokens, state.cost_usd), (700, Some(0.25)));
}

#[test]
fn foreign_text_neither_breaks_the_block_nor_its_width() {
    let mut state = ProgressState::default();
    state.apply(&session_started(), seconds(0));
    state.apply(&tool("Bash", &format!("a\nb\u{1b}[2J{}", "漢".repeat(200))), seconds(0));
    for width in [0, 1, 10, 40, 100] {
        for ascii in [false, true] {
            let options = TextOptions { ascii, ..options(width) };
            for line in lines(&state, Moment { elapsed: seconds(60), wall: wall() }, &options) {
                assert!(crate::ui::text::width(&line) <= width, "{line:?} at {width}");
                assert!(!line.chars().any(char::is_control));
                assert!(!ascii || line.is_ascii(), "{line:?}");
            }
        }
    }
}

/// A terminal that keeps what is written to it.
#[derive(Debug, Clone, Default)]
struct Screen(Arc<Mutex<Vec<String>>>);

impl Screen {
    fn writes(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|text| !text.trim().is_empty()).cloned().collect()
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        100
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.lock().unwrap().push(text.to_owned());
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn events_draw_nothing_and_ticks_at_most_once_a_second() {
    let screen = Screen::default();
    let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
    let mut progress = Progress::on(target, options(100), now(0));
    assert!(progress.wants_ticks());
    progress.observe(&run_started(), now(0));
    progress.observe(&session_started(), now(0));
    assert!(screen.writes().is_empty());
    progress.tick(now(1));
    let first = screen.writes();
    assert!(first.iter().any(|text| text.contains("session 2 of 5")), "{first:?}");
    progress.tick(now(1));
    assert_eq!(screen.writes(), first);
    progress.tick(now(2));
    assert!(screen.writes().len() > first.len());
    assert_eq!(progress.above(|| 7), 7);
    progress.finish();
    assert!(!progress.wants_ticks());
}

#[test]
fn hidden_wants_no_ticks_and_still_runs_what_prints() {
    let mut progress = Progress::hidden(options(100), now(0));
    assert!(!progress.wants_ticks());
    progress.observe(&run_started(), now(0));
    progress.tick(now(5));
    assert_eq!(progress.drawn, None);
    assert_eq!(progress.above(|| 7), 7);
}
