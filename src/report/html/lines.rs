//! Usage windows of the account, and the machine with its other sessions, over time.

use std::fmt::Write as _;

use jiff::tz::TimeZone;

use super::svg::{Axis, LEFT, RIGHT, bar, esc, legend, length, open};
use crate::report::RunSummary;
use crate::ui::text::clock;

const TOP: f64 = 10.0;
/// Height of a plot.
const PLOT: f64 = 130.0;
/// Windows that are drawn.
const MAX_WINDOWS: usize = 6;
/// Marks of one line that can be pointed at.
const MAX_MARKS: usize = 120;

/// How far usage windows were used up; `None` when nothing said so.
pub(super) fn windows(run: &RunSummary, zone: &TimeZone) -> Option<String> {
    let (start, end) = (run.started_at?, run.last_event_at?);
    let windows = run.course.by_window();
    if windows.is_empty() {
        return None;
    }
    let axis = Axis::new(start, end, zone);
    let bottom = TOP + PLOT;
    let y = |share: f64| bottom - share.clamp(0.0, 1.05) * PLOT;
    let mut out = open(bottom + 24.0, "Used share of the usage windows over time");
    for percent in [0.0, 0.5, 1.0] {
        _ = write!(
            out,
            "<path class=grid d=\"M{LEFT} {0:.1}H{RIGHT}\"/><text class=m x={1} y={2:.1} text-anchor=end>{3:.0} %</text>",
            y(percent),
            LEFT - 10.0,
            y(percent) + 4.0,
            percent * 100.0
        );
    }
    axis.draw(&mut out, TOP, bottom);
    let mut items = Vec::new();
    for (number, (name, points)) in windows.iter().take(MAX_WINDOWS).enumerate() {
        let colour = number + 1;
        let mut path = String::new();
        for (at, point) in points.iter().enumerate() {
            let (x, y) = (axis.x(point.at), y(point.utilization));
            // It stays as it was until somebody says otherwise.
            _ = if at == 0 { write!(path, "M{x:.1} {y:.1}") } else { write!(path, "H{x:.1}V{y:.1}") };
        }
        _ = write!(out, "<path class=\"l s{colour}\" d=\"{path}H{:.1}\"/>", axis.x(end));
        let name = esc(name, 40);
        let every = points.len().div_ceil(MAX_MARKS).max(1);
        for (at, point) in points.iter().enumerate() {
            let rejected = point.status == "rejected";
            if at % every != 0 && !rejected && at + 1 != points.len() {
                continue;
            }
            let (class, radius) =
                if rejected { ("fcritical".to_owned(), 5) } else { (format!("f{colour}"), 4) };
            let word = if rejected { ", rejected" } else { "" };
            _ = write!(
                out,
                "<circle class=\"{class}\" stroke=\"var(--card)\" cx={:.1} cy={:.1} r={radius}><title>{}: {name} {:.0} % used{word}</title></circle>",
                axis.x(point.at),
                y(point.utilization),
                clock(point.at, zone),
                point.utilization * 100.0
            );
        }
        let last = points.last().map(|point| point.utilization * 100.0).unwrap_or_default();
        items.push((format!("b{colour}"), format!("{name}, at last {last:.0} %")));
    }
    out.push_str("</svg></div>");
    legend(&mut out, &items);
    Some(out)
}

/// Tiers of the machine as a band, other sessions above it; `None` when it was never looked at.
pub(super) fn resources(run: &RunSummary, zone: &TimeZone) -> Option<String> {
    let (start, end) = (run.started_at?, run.last_event_at?);
    let points = &run.course.resources;
    if points.is_empty() {
        return None;
    }
    let axis = Axis::new(start, end, zone);
    let most = points.iter().filter_map(|point| point.peers).max();
    let plot = if most.is_some_and(|most| most > 0) { 70.0 } else { 0.0 };
    let band = TOP + plot + if plot > 0.0 { 12.0 } else { 0.0 };
    let bottom = band + 26.0;
    let mut out = open(bottom + 24.0, "Tier of the machine and other Claude sessions over time");
    axis.draw(&mut out, TOP, bottom);
    _ = write!(out, "<text x={} y={:.1} text-anchor=end>machine</text>", LEFT - 10.0, band + 14.0);
    let mut tiers: Vec<&str> = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let until = points.get(at + 1).map_or(end, |next| next.at);
        let tier = tier(&point.tier);
        if !tiers.contains(&tier) {
            tiers.push(tier);
        }
        let by = point.deciding.as_deref().map(|by| format!(" because of {}", esc(by, 60)));
        let title = format!(
            "{} for {}: {}{}, at most {} sub-agents a wave",
            clock(point.at, zone),
            length(point.at, until),
            esc(&point.tier, 20),
            by.unwrap_or_default(),
            point.cap
        );
        // A line of the card between neighbours of one tier: each was a look of its own.
        let x = [axis.x(point.at), axis.x(until)];
        bar(&mut out, &format!("f{tier}"), [x[0], (x[1] - 1.0).max(x[0])], band, 20.0, &title);
    }
    if let Some(most) = most.filter(|most| *most > 0) {
        let y = |peers: u32| TOP + plot - f64::from(peers) / f64::from(most) * (plot - 8.0);
        for peers in [0, most] {
            _ = write!(
                out,
                "<path class=grid d=\"M{LEFT} {0:.1}H{RIGHT}\"/><text class=m x={1} y={2:.1} text-anchor=end>{peers} peers</text>",
                y(peers),
                LEFT - 10.0,
                y(peers) + 4.0
            );
        }
        let mut path = String::new();
        for point in points {
            if let Some(peers) = point.peers {
                let (x, y) = (axis.x(point.at), y(peers));
                _ = if path.is_empty() {
                    write!(path, "M{x:.1} {y:.1}")
                } else {
                    write!(path, "H{x:.1}V{y:.1}")
                };
            }
        }
        _ = write!(out, "<path class=\"l s5\" d=\"{path}H{:.1}\"/>", axis.x(end));
    }
    out.push_str("</svg></div>");
    let mut items: Vec<(String, String)> =
        tiers.iter().map(|tier| (format!("b{tier}"), format!("tier {tier}"))).collect();
    if plot > 0.0 {
        items.push(("b5".to_owned(), "other Claude sessions".to_owned()));
    }
    legend(&mut out, &items);
    Some(out)
}

/// The class of a tier: foreign text never becomes one.
fn tier(tier: &str) -> &'static str {
    match tier {
        "green" => "green",
        "warn" => "warn",
        "degraded" => "degraded",
        "critical" => "critical",
        _ => "unknown",
    }
}
