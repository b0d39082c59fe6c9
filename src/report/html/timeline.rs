//! The timeline: a row a session, in it the processes of its turns; waits above, heals as marks.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::svg::{Axis, LEFT, RIGHT, bar, esc, legend, length, open};
use crate::core::outcome::Class;
use crate::core::published::{Purpose, peer_words};
use crate::report::{RunSummary, SessionSummary};
use crate::ui::text::{clock, span_of_seconds};

const ROW: f64 = 20.0;
const PITCH: f64 = 27.0;
const TOP: f64 = 8.0;

/// The chart; `None` when nothing has a time.
pub(super) fn chart(run: &RunSummary, zone: &TimeZone) -> Option<String> {
    let (start, end) = (run.started_at?, run.last_event_at?);
    if run.sessions.is_empty() && run.waits.is_empty() && run.peer_waits.is_empty() {
        return None;
    }
    let axis = Axis::new(start, end, zone);
    let waits = !run.waits.is_empty() || !run.peer_waits.is_empty();
    let first = TOP + if waits { PITCH } else { 0.0 };
    #[expect(clippy::cast_precision_loss, reason = "a few dozen sessions")]
    let bottom = first + PITCH * run.sessions.len() as f64;
    let mut out = open(bottom + 24.0, "Timeline of sessions, turns, waits and heals");
    axis.draw(&mut out, TOP, bottom);
    let mut used = Used::default();
    if waits {
        _ = write!(out, "<text x={} y={:.1} text-anchor=end>waits</text>", LEFT - 10.0, TOP + 14.0);
        draw_waits(&mut out, run, &axis, end, bottom, &mut used);
    }
    let mut y = first;
    for session in &run.sessions {
        draw_session(&mut out, run, session, &axis, [start, end], y, zone, &mut used);
        y += PITCH;
    }
    _ = write!(out, "<path class=base d=\"M{LEFT} {bottom:.1}H{RIGHT}\"/></svg></div>");
    legend(&mut out, &used.legend());
    Some(out)
}

/// What the legend has to explain.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "a list of marks, each there or not")]
struct Used {
    work: bool,
    again: bool,
    close: bool,
    limit: bool,
    peers: bool,
    bad: bool,
    heal: bool,
}

impl Used {
    fn legend(&self) -> Vec<(String, String)> {
        [
            (self.work, "b1", "work turn"),
            (self.again, "b3", "gone on after an interruption"),
            (self.close, "b7", "asked for the report"),
            (self.limit, "b4", "asleep on a usage limit"),
            (self.peers, "b5", "waiting for another session"),
            (self.bad, "bcritical", "process that ended badly"),
            (self.heal, "b2", "heal"),
        ]
        .into_iter()
        .filter(|(used, ..)| *used)
        .map(|(_, class, words)| (class.to_owned(), words.to_owned()))
        .collect()
    }
}

fn draw_waits(out: &mut String, run: &RunSummary, axis: &Axis, end: Timestamp, bottom: f64, used: &mut Used) {
    let until = |at: Timestamp, waited: Option<u64>| {
        let waited = waited.and_then(|seconds| i64::try_from(seconds).ok()).map(SignedDuration::from_secs);
        waited.and_then(|waited| at.checked_add(waited).ok()).unwrap_or(end)
    };
    let mut band = |from: Timestamp, to: Timestamp, class: &str, what: &str| {
        let x = [axis.x(from), axis.x(to)];
        _ = write!(
            out,
            "<rect class=\"{class}\" opacity=.13 x={:.1} y={TOP} width={:.1} height={:.1} />",
            x[0],
            (x[1] - x[0]).max(1.0),
            bottom - TOP
        );
        let took = length(from, to);
        bar(out, class, x, TOP, ROW, &format!("{what}: {took}"));
        if x[1] - x[0] > 60.0 {
            _ = write!(
                out,
                "<text class=on{} x={:.1} y={:.1} text-anchor=middle>{took}</text>",
                class.trim_start_matches('f'),
                f64::midpoint(x[0], x[1]),
                TOP + 14.0
            );
        }
    };
    for wait in &run.waits {
        used.limit = true;
        let window = esc(wait.window.as_deref().unwrap_or("usage limit"), 60);
        band(wait.at, until(wait.at, wait.waited_seconds), "f4", &format!("asleep on {window}"));
    }
    for wait in &run.peer_waits {
        used.peers = true;
        let who = esc(&peer_words(&wait.peers), 200);
        band(wait.at, until(wait.at, wait.waited_seconds), "f5", &format!("waited for {who}"));
    }
}

#[expect(clippy::too_many_arguments, reason = "a row needs the run, the scale and its place")]
fn draw_session(
    out: &mut String,
    run: &RunSummary,
    session: &SessionSummary,
    axis: &Axis,
    [start, end]: [Timestamp; 2],
    y: f64,
    zone: &TimeZone,
    used: &mut Used,
) {
    let mode = session.mode.map(|mode| mode.to_string()).unwrap_or_default();
    _ = write!(
        out,
        "<text x={} y={:.1} text-anchor=end><tspan class=k>{}</tspan> {}</text>",
        LEFT - 10.0,
        y + 14.0,
        session.iteration,
        esc(&mode, 14)
    );
    let begin = session.started_at.unwrap_or(start);
    let over = session
        .end
        .as_ref()
        .and_then(|ended| SignedDuration::try_from_secs_f64(ended.seconds).ok())
        .and_then(|length| begin.checked_add(length).ok())
        .unwrap_or(end)
        .min(end);
    let title = match &session.end {
        Some(ended) => format!(
            "session {}: {}, {}",
            session.iteration,
            esc(&crate::ui::words::result_words(ended.completed, ended.class, ended.status.as_deref()), 60),
            span_of_seconds(ended.seconds)
        ),
        None => format!("session {}: not finished", session.iteration),
    };
    bar(out, "back", [axis.x(begin), axis.x(over)], y, ROW, &title);
    for attempt in run.course.attempts.iter().filter(|attempt| attempt.iteration == session.iteration) {
        let until = attempt.until.unwrap_or(end);
        let (class, what) = match attempt.purpose {
            None | Some(Purpose::Work) => {
                used.work = true;
                ("f1", "work")
            }
            Some(Purpose::Close) => {
                used.close = true;
                ("f7", "asked for the report")
            }
            Some(
                Purpose::Reconcile
                | Purpose::Continue
                | Purpose::Answer
                | Purpose::Nudge
                | Purpose::WrapUp
                | Purpose::Compact,
            ) => {
                used.again = true;
                ("f3", "gone on")
            }
        };
        let x = [axis.x(attempt.at), axis.x(until)];
        let judged = attempt.class.map(|class| format!(", {class}")).unwrap_or_default();
        let title = format!(
            "turn {}, process {}: {what}, from {} for {}{}",
            attempt.turn,
            attempt.attempt,
            clock(attempt.at, zone),
            length(attempt.at, until),
            esc(&judged, 60),
        );
        bar(out, class, x, y, ROW, &title);
        let bad = attempt.class.is_some_and(|class| !matches!(class, Class::Ok | Class::OkExitAnomaly));
        if bad {
            used.bad = true;
            let right = x[1].max(x[0] + 2.0);
            bar(out, "fcritical", [right - 3.0, right], y, ROW, &title);
        }
    }
    for heal in run.heals.iter().filter(|heal| heal.at >= begin && heal.at <= over) {
        used.heal = true;
        let (x, middle) = (axis.x(heal.at), y + ROW / 2.0);
        _ = write!(
            out,
            "<path class=f2 stroke=\"var(--card)\" stroke-width=1.5 d=\"M{x:.1} {:.1}l7 7-7 7-7-7z\"><title>{}: heal for {}: {}</title></path>",
            middle - 7.0,
            clock(heal.at, zone),
            esc(heal.class.as_str(), 40),
            esc(&heal.action, 200)
        );
    }
}
