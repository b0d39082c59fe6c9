//! Output tokens of each session by model, with what they cost.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::svg::{LEFT, bar, esc, legend, open};
use crate::report::RunSummary;
use crate::ui::text::{count, dollars};

const ROW: f64 = 18.0;
const PITCH: f64 = 26.0;
/// Room for the words behind a bar.
const END: f64 = 800.0;
/// Models with a colour of their own.
const COLOURS: usize = 6;

/// The chart; `None` when no session knows its tokens.
pub(super) fn chart(run: &RunSummary) -> Option<String> {
    let known: Vec<_> = run
        .sessions
        .iter()
        .filter_map(|session| Some((session, session.end.as_ref()?)))
        .filter_map(|(session, end)| Some((session, end, end.tokens?.output)))
        .collect();
    let most = known.iter().map(|(.., output)| *output).max().filter(|most| *most > 0)?;
    let mut by_model: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, end, output) in &known {
        let mut rest = *output;
        for spend in &end.models {
            let of = by_model.entry(&spend.model).or_default();
            *of = of.saturating_add(spend.tokens.output);
            rest = rest.saturating_sub(spend.tokens.output);
        }
        if rest > 0 {
            *by_model.entry("").or_default() += rest;
        }
    }
    let mut models: Vec<(&str, u64)> = by_model.into_iter().collect();
    models.sort_by_key(|(name, output)| (name.is_empty(), std::cmp::Reverse(*output)));
    let colour = |model: &str| {
        let place = models.iter().position(|(name, _)| *name == model).unwrap_or(COLOURS);
        if model.is_empty() || place >= COLOURS { 7 } else { place + 1 }
    };

    #[expect(clippy::cast_precision_loss, reason = "a few dozen sessions")]
    let height = PITCH * known.len() as f64 + 8.0;
    let mut out = open(height, "Output tokens and cost of each session by model");
    let mut y = 4.0;
    for (session, end, output) in &known {
        _ = write!(
            out,
            "<text x={} y={:.1} text-anchor=end>session <tspan class=k>{}</tspan></text>",
            LEFT - 10.0,
            y + 13.0,
            session.iteration
        );
        let mut x = LEFT;
        let mut rest = *output;
        let mut piece = |out: &mut String, model: &str, tokens: u64, cost: Option<f64>| {
            if tokens == 0 {
                return;
            }
            #[expect(clippy::cast_precision_loss, reason = "a share of the plot")]
            let width = tokens as f64 / most as f64 * (END - LEFT);
            let name = if model.is_empty() { "model unknown".to_owned() } else { esc(model, 60) };
            let cost = cost.map(|cost| format!(", {}", dollars(Some(cost)))).unwrap_or_default();
            let title = format!("{name}: {} output tokens{cost}", count(tokens));
            // A gap between pieces, so that neighbours can be told apart without their colours.
            let right = if width > 4.0 { x + width - 1.5 } else { x + width };
            bar(out, &format!("f{}", colour(model)), [x, right], y, ROW, &title);
            x += width;
        };
        for spend in &end.models {
            let tokens = spend.tokens.output.min(rest);
            rest -= tokens;
            piece(&mut out, &spend.model, tokens, spend.cost_usd);
        }
        piece(&mut out, "", rest, None);
        let words = format!("{} · {}", count(*output), dollars(end.cost_usd));
        _ = write!(out, "<text class=k x={:.1} y={:.1}>{words}</text>", x.max(LEFT + 2.0) + 8.0, y + 13.0);
        y += PITCH;
    }
    out.push_str("</svg></div>");
    let mut items: Vec<(String, String)> = models
        .iter()
        .take(COLOURS)
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, output)| {
            (format!("b{}", colour(name)), format!("{}, {}", esc(name, 60), count(*output)))
        })
        .collect();
    let others: u64 = models.iter().filter(|(name, _)| colour(name) == 7).map(|(_, output)| *output).sum();
    if others > 0 {
        items.push(("b7".to_owned(), format!("others or unknown, {}", count(others))));
    }
    legend(&mut out, &items);
    Some(out)
}
