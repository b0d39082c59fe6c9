//! What a closed session recommends for the next one: the recommendation fields of STATE.md
//! (upstream-formats §5.5, "Writer").
//!
//! A session may say itself what should come next. Where it does not, two ratios decide. They are its own
//! counts, never estimates: a session that planned nothing recommends nothing, and all five fields stay away.

use super::mode::{LONGEST_RATIONALE, Mode};
use super::session_report::{Effectiveness, SessionReport};
use super::signals::StateFields;

/// Most issue numbers in `top-priorities`.
const MOST_PRIORITIES: usize = 5;
/// Stands where a session recommends a mode and does not say why.
const ITS_OWN: &str = "recommended by the session itself";

/// The rule; the first that matches decides. Ratios from 0 to 1.
#[must_use]
pub fn recommend(completion_rate: f64, carryover_ratio: f64) -> (Mode, &'static str) {
    if completion_rate < 0.5 {
        (Mode::PlanRetro, "v0: completion <50% → retro")
    } else if carryover_ratio >= 0.3 {
        (Mode::Deep, "v0: carryover ≥30% → deep")
    } else {
        (Mode::Feature, "v0: default clean completion")
    }
}

/// The fields for STATE.md. What the session recommends wins over the rule, as far as it is valid: a mode
/// that exists, with its reason; issue numbers. The reason of a mode that does not exist explains nothing.
#[must_use]
pub fn state_fields(report: &SessionReport) -> StateFields {
    let Effectiveness { planned_issues, completed, carryover, emergent: _ } = report.effectiveness;
    let Some(planned) = planned_issues.filter(|planned| *planned > 0) else { return StateFields::default() };
    let completion_rate = completed.map(|completed| ratio(completed, planned));
    let carryover_ratio = carryover.map(|carryover| ratio(carryover, planned));
    let own = report.recommended_mode.as_deref().and_then(|name| name.trim().parse::<Mode>().ok());
    let by_rule = completion_rate.zip(carryover_ratio).map(|(done, left)| recommend(done, left));
    let (mode, rationale) = match (own, by_rule) {
        (Some(mode), _) => {
            let why = report.rationale.as_deref().and_then(one_line).unwrap_or_else(|| ITS_OWN.to_owned());
            (Some(mode), Some(why))
        }
        (None, Some((mode, why))) => (Some(mode), Some(why.to_owned())),
        (None, None) => (None, None),
    };
    StateFields {
        recommended_mode: mode.map(|mode| mode.as_str().to_owned()),
        top_priorities: priorities(&report.top_priorities),
        carryover_ratio,
        completion_rate,
        rationale,
    }
}

/// To two decimals.
fn ratio(part: u64, planned: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "task counts are far below 2^52")]
    let ratio = part as f64 / planned as f64;
    (ratio * 100.0).round() / 100.0
}

/// One line of at most [`LONGEST_RATIONALE`] characters; `None` without a visible one.
fn one_line(text: &str) -> Option<String> {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let line: String = words.join(" ").chars().take(LONGEST_RATIONALE).collect();
    (!line.is_empty()).then_some(line)
}

/// The issue numbers among them, `412` or `#412`, each once. Priorities in words have no place in STATE.md;
/// `None` without a number, because an empty list would say that there are no priorities.
fn priorities(said: &[String]) -> Option<Vec<i64>> {
    let mut numbers = Vec::new();
    for text in said {
        let text = text.trim();
        let number = text.strip_prefix('#').unwrap_or(text).parse::<i64>().ok().filter(|number| *number > 0);
        if let Some(number) = number.filter(|number| !numbers.contains(number)) {
            numbers.push(number);
        }
    }
    numbers.truncate(MOST_PRIORITIES);
    (!numbers.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(planned: Option<u64>, completed: Option<u64>, carryover: Option<u64>) -> SessionReport {
        let effectiveness =
            Effectiveness { planned_issues: planned, completed, carryover, ..Effectiveness::default() };
        SessionReport { effectiveness, ..SessionReport::default() }
    }

    #[test]
    fn the_rule() {
        let table = [
            (0.0, 0.0, Mode::PlanRetro),
            (0.49, 1.0, Mode::PlanRetro),
            (0.5, 0.29, Mode::Feature),
            (0.5, 0.3, Mode::Deep),
            (1.0, 0.3, Mode::Deep),
            (1.0, 0.0, Mode::Feature),
        ];
        for (completion, carryover, expected) in table {
            let (mode, why) = recommend(completion, carryover);
            assert_eq!(mode, expected, "{completion} {carryover}");
            assert!(why.starts_with("v0: "));
        }
        assert_eq!(recommend(0.2, 0.0).1, "v0: completion <50% → retro");
        assert_eq!(recommend(0.7, 0.3).1, "v0: carryover ≥30% → deep");
        assert_eq!(recommend(1.0, 0.0).1, "v0: default clean completion");
    }

    #[test]
    fn counts_become_ratios_and_ratios_a_recommendation() {
        let check = |planned, completed, carryover, rates: (Option<f64>, Option<f64>), mode: Option<&str>| {
            let fields = state_fields(&report(planned, completed, carryover));
            assert_eq!((fields.completion_rate, fields.carryover_ratio), rates);
            assert_eq!(fields.recommended_mode.as_deref(), mode);
            assert_eq!(fields.rationale.is_some(), mode.is_some());
            assert_eq!(fields.top_priorities, None);
        };
        check(Some(4), Some(4), Some(0), (Some(1.0), Some(0.0)), Some("feature"));
        check(Some(3), Some(2), Some(1), (Some(0.67), Some(0.33)), Some("deep"));
        check(Some(3), Some(1), Some(2), (Some(0.33), Some(0.67)), Some("plan-retro"));
        check(Some(2), Some(3), Some(0), (Some(1.5), Some(0.0)), Some("feature"));
        // Half of it is not known: nothing is made up.
        check(Some(4), Some(1), None, (Some(0.25), None), None);
        check(Some(4), None, Some(4), (None, Some(1.0)), None);
        check(Some(4), None, None, (None, None), None);
        for nothing in [None, Some(0)] {
            let own = SessionReport {
                recommended_mode: Some("deep".to_owned()),
                rationale: Some("because".to_owned()),
                top_priorities: vec!["1".to_owned()],
                ..report(nothing, Some(0), Some(0))
            };
            assert_eq!(state_fields(&own), StateFields::default());
        }
    }

    #[test]
    fn the_sessions_own_word_wins_when_it_is_valid() {
        let check = |mode: Option<&str>, why: Option<&str>, expected: (&str, &str)| {
            let fields = state_fields(&SessionReport {
                recommended_mode: mode.map(str::to_owned),
                rationale: why.map(str::to_owned),
                ..report(Some(4), Some(4), Some(0))
            });
            let got = (fields.recommended_mode.unwrap(), fields.rationale.unwrap());
            assert_eq!((got.0.as_str(), got.1.as_str()), expected);
        };
        let rule = ("feature", "v0: default clean completion");
        check(None, None, rule);
        check(None, Some("x"), rule);
        check(Some("ultradeep"), Some("ultra"), rule);
        check(Some("evolve"), Some("tests are slow"), ("evolve", "tests are slow"));
        check(Some(" deep "), Some("two\nlines\tand \u{1b}[31mred "), ("deep", "two lines and [31mred"));
        check(Some("deep"), None, ("deep", ITS_OWN));
        check(Some("deep"), Some(" \n"), ("deep", ITS_OWN));
        let long = "ä".repeat(200);
        check(Some("deep"), Some(&long), ("deep", &"ä".repeat(120)));

        let unknown =
            SessionReport { recommended_mode: Some("deep".to_owned()), ..report(Some(4), None, None) };
        assert_eq!(state_fields(&unknown).recommended_mode.as_deref(), Some("deep"));
    }

    #[test]
    fn priorities_are_issue_numbers() {
        let check = |said: &[&str], expected: Option<&[i64]>| {
            let said = said.iter().map(|text| (*text).to_owned()).collect();
            let fields =
                state_fields(&SessionReport { top_priorities: said, ..report(Some(1), Some(1), Some(0)) });
            assert_eq!(fields.top_priorities.as_deref(), expected);
        };
        check(&[], None);
        check(&["fix the parser", "-3", "0", "#", "1.5"], None);
        check(&["412", " #7 ", "fix it", "412"], Some(&[412, 7]));
        check(&["1", "2", "3", "4", "5", "6"], Some(&[1, 2, 3, 4, 5]));
        check(&["99999999999999999999"], None);
    }

    #[test]
    fn the_selector_reads_what_is_written() {
        use super::super::selector::select;
        use super::super::signals::Signals;
        for (completed, carryover, expected, confidence) in
            [(4, 0, Mode::Feature, 0.5), (2, 2, Mode::Deep, 0.75), (1, 3, Mode::PlanRetro, 0.8)]
        {
            let state = state_fields(&report(Some(4), Some(completed), Some(carryover)));
            let choice = select(&Signals { state, ..Signals::default() }, false);
            assert_eq!((choice.mode, choice.confidence), (Some(expected), confidence));
        }
    }
}
