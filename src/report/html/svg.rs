//! What the charts share: escaping, the time axis, numbers of coordinates.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::ui::text::{one_line, span};

/// Width of every chart in its own units.
pub(super) const WIDTH: f64 = 960.0;
/// Where the plot begins and ends.
pub(super) const LEFT: f64 = 120.0;
pub(super) const RIGHT: f64 = 944.0;
/// Labels on a time axis at most.
const MAX_TICKS: i64 = 9;
/// Steps of a time axis, in seconds.
const STEPS: [i64; 16] =
    [1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];

/// Foreign text as one line that means nothing in HTML, in attributes too.
pub(super) fn esc(text: &str, max: usize) -> String {
    let mut out = String::new();
    for c in one_line(text, max).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '`' => out.push_str("&#96;"),
            c => out.push(c),
        }
    }
    out
}

/// A span of time drawn from left to right.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    start: f64,
    length: f64,
    zone: TimeZone,
}

impl Axis {
    /// From one instant to another; a span of nothing becomes a second.
    pub(super) fn new(start: Timestamp, end: Timestamp, zone: &TimeZone) -> Axis {
        let length = end.duration_since(start).as_secs_f64().max(1.0);
        Axis { start: seconds(start), length, zone: zone.clone() }
    }

    /// Where an instant lies, within the plot.
    pub(super) fn x(&self, at: Timestamp) -> f64 {
        let share = ((seconds(at) - self.start) / self.length).clamp(0.0, 1.0);
        LEFT + share * (RIGHT - LEFT)
    }

    /// Lines and labels, from `top` to `bottom`; the labels stand below.
    pub(super) fn draw(&self, out: &mut String, top: f64, bottom: f64) {
        let step = self.step();
        let first = Self::instant(self.start);
        let offset = first.map_or(0, |at| i64::from(self.zone.to_offset(at).seconds()));
        #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970 are far below 2^63")]
        let begin = (self.start.floor() as i64 + offset).div_euclid(step) * step - offset;
        let many_days = self.length > 36.0 * 3600.0;
        for number in 0..=MAX_TICKS + 1 {
            let Ok(at) = Timestamp::from_second(begin + number * step) else { return };
            if seconds(at) < self.start || seconds(at) > self.start + self.length {
                continue;
            }
            let x = self.x(at);
            let local = at.to_zoned_datetime(self.zone.clone());
            let label = match step {
                ..60 => local.strftime("%H:%M:%S"),
                _ if many_days => local.strftime("%d %b %H:%M"),
                _ => local.strftime("%H:%M"),
            };
            _ = write!(out, "<path class=grid d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>");
            // At the edges a label in the middle would hang over.
            let anchor = if x > RIGHT - 20.0 { "end" } else { "middle" };
            _ = write!(
                out,
                "<text class=m x={x:.1} y={:.1} text-anchor={anchor}>{label}</text>",
                bottom + 16.0
            );
        }
    }

    fn step(&self) -> i64 {
        #[expect(clippy::cast_precision_loss, reason = "steps are small numbers")]
        let fits = |step: i64| self.length / step as f64 <= MAX_TICKS as f64;
        let days = (self.length / 86_400.0 / 9.0).ceil().max(1.0);
        #[expect(clippy::cast_possible_truncation, reason = "a number of days")]
        STEPS.into_iter().find(|step| fits(*step)).unwrap_or(days as i64 * 86_400)
    }

    fn instant(seconds: f64) -> Option<Timestamp> {
        Timestamp::from_duration(jiff::SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
    }
}

/// A bar with round corners and a word that shows when it is pointed at.
pub(super) fn bar(out: &mut String, class: &str, x: [f64; 2], y: f64, height: f64, title: &str) {
    // Thinner than this nobody sees it, or can point at it.
    let width = (x[1] - x[0]).max(2.0);
    let radius = (width / 2.0).min(3.0);
    _ = write!(
        out,
        "<rect class=\"{class}\" x={:.1} y={y:.1} width={width:.1} height={height:.1} rx={radius:.1}><title>{title}</title></rect>",
        x[0],
    );
}

/// The opening tag of a chart.
pub(super) fn open(height: f64, label: &str) -> String {
    format!("<div class=chart><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=img aria-label=\"{label}\">")
}

/// The legend under a chart: class of the mark, words.
pub(super) fn legend(out: &mut String, items: &[(String, String)]) {
    out.push_str("<div class=legend>");
    for (class, words) in items {
        _ = write!(out, "<span><i class=\"{class}\"></i>{words}</span>");
    }
    out.push_str("</div>");
}

/// Seconds in words.
pub(super) fn length(from: Timestamp, to: Timestamp) -> String {
    span(Duration::try_from_secs_f64(to.duration_since(from).as_secs_f64()).unwrap_or_default())
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}
