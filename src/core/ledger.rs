//! Tokens and money: adding up what sessions use, once each.
//!
//! `total_cost_usd` and `modelUsage` are running totals of the conversation, carried over `--resume`;
//! `usage` leaves sub-agents out (claude-code §3). So an attempt is settled by the exact addition
//! (`model_usage_since_last_result`) where the CLI gives it, else by the difference to the last total known
//! for that conversation, else by the total. An attempt that died without a result is charged what its
//! messages said, marked as an estimate. Absent is not zero: a cost nobody stated stays unknown
//! (field-reports M01, M03).
//!
//! The estimate is a lower bound: a message in the stream says what it cost before its first word was written,
//! so its output is next to nothing (seen on 2.1.332). A CLI that is ended by SIGTERM still writes its running
//! total down, and the next attempt of the conversation takes it up: the next result corrects the estimate.
//! Until then, and after SIGKILL, the messages in the transcript do, which know their whole cost.

use std::collections::{BTreeMap, HashMap};

use super::fact::{ModelUsage, TurnResult, UsageByModel};
use super::published::{ModelSpend, Tokens};

/// Tokens and dollars added up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spend {
    /// Tokens of all models and sub-agents.
    pub tokens: Tokens,
    /// Dollars, as far as known; `None` until the first known amount.
    pub cost_usd: Option<f64>,
}

impl Spend {
    /// A conversation that has not begun.
    fn nothing() -> Self {
        Spend { cost_usd: Some(0.0), ..Spend::default() }
    }

    fn add(&mut self, other: Spend) {
        self.tokens = sum(self.tokens, other.tokens);
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(a), Some(b)) => Some(a + b),
            (known, None) | (None, known) => known,
        };
    }
}

/// Books of a run.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    run: Spend,
    session: Spend,
    /// The session by model, as far as results said it.
    by_model: BTreeMap<String, Spend>,
    /// Last running totals known, by conversation.
    totals: HashMap<String, Spend>,
    /// The same by model.
    models: HashMap<String, UsageByModel>,
    /// Estimates of the attempt that runs now, by message.
    open: BTreeMap<String, Tokens>,
    /// Tokens charged since the turn began.
    turn: Tokens,
    /// What was charged by estimate since the last result, by conversation.
    unsettled: HashMap<String, Tokens>,
}

impl Ledger {
    /// Books that are opened again (`resume`): what the run had used, and the last running totals known, by
    /// conversation.
    #[must_use]
    pub fn reopened(run: Spend, totals: impl IntoIterator<Item = (String, Spend)>) -> Self {
        Ledger { run, totals: totals.into_iter().collect(), ..Ledger::default() }
    }

    /// The last running totals known of a conversation.
    #[must_use]
    pub fn conversation(&self, session_id: &str) -> Option<Spend> {
        self.totals.get(session_id).copied()
    }

    /// A session begins.
    pub fn begin_session(&mut self) {
        self.session = Spend::default();
        self.by_model.clear();
    }

    /// A turn begins.
    pub fn begin_turn(&mut self) {
        self.turn = Tokens::default();
    }

    /// An attempt begins; one that does not resume its conversation starts the running totals at nothing.
    pub fn begin_attempt(&mut self, session_id: &str, resume: bool) {
        self.open.clear();
        if !resume {
            self.totals.insert(session_id.to_owned(), Spend::nothing());
            self.models.remove(session_id);
        }
    }

    /// A message said what it used so far.
    pub fn note_message(&mut self, message_id: &str, tokens: Tokens) {
        let known = self.open.entry(message_id.to_owned()).or_default();
        known.input = known.input.max(tokens.input);
        known.output = known.output.max(tokens.output);
        known.cache_read = known.cache_read.max(tokens.cache_read);
        known.cache_creation = known.cache_creation.max(tokens.cache_creation);
    }

    /// A result came for this conversation.
    pub fn settle(&mut self, session_id: &str, result: &TurnResult) {
        let known = self.totals.get(session_id).copied();
        // A conversation that was taken up from an earlier process is not known by model: nothing is made up.
        let known_models = self.models.get(session_id);
        if known.is_none_or(|known| known == Spend::nothing()) || known_models.is_some() {
            for (model, spend) in by_model(result, known_models) {
                self.by_model.entry(model).or_default().add(spend);
            }
        }
        let tokens_added = result
            .usage_since_last_result
            .as_ref()
            .map(total_of)
            .or_else(|| {
                result.model_usage.as_ref().map(|total| match known {
                    Some(before) => difference(total_of(total), before),
                    None => total_of(total),
                })
            })
            .or_else(|| result.usage.map(|tokens| Spend { tokens, cost_usd: None }))
            .unwrap_or_else(|| self.open_estimate());
        let exact_cost = result.usage_since_last_result.as_ref().and_then(|usage| total_of(usage).cost_usd);
        let total_cost = finite(result.total_cost_usd);
        let cost_added =
            exact_cost.or_else(|| match (total_cost, known.and_then(|before| before.cost_usd)) {
                (Some(total), Some(before)) if total >= before => Some(total - before),
                // A total below the last one known is a new count (older CLIs count by process).
                (Some(total), _) => Some(total),
                (None, _) => tokens_added.cost_usd,
            });
        let mut added = Spend { tokens: tokens_added.tokens, cost_usd: cost_added };
        if let Some(estimate) = self.unsettled.remove(session_id)
            && let Some(before) = known
        {
            if let Some(total) = &result.model_usage {
                let by_total = difference(total_of(total), before).tokens;
                added.tokens = sum(added.tokens, beyond(by_total, sum(added.tokens, estimate)));
            }
            if let (Some(total), Some(before), Some(cost)) = (total_cost, before.cost_usd, added.cost_usd) {
                added.cost_usd = Some(cost.max(total - before));
            }
        }
        self.add(added);
        let entry = self.totals.entry(session_id.to_owned()).or_default();
        if let Some(total) = &result.model_usage {
            entry.tokens = total_of(total).tokens;
            self.models.insert(session_id.to_owned(), total.clone());
        }
        if total_cost.is_some() {
            entry.cost_usd = total_cost;
        }
        self.open.clear();
    }

    /// An attempt is over; messages that no result settled are charged as they are.
    pub fn end_attempt(&mut self, session_id: &str) {
        if !self.open.is_empty() {
            let estimate = self.open_estimate();
            let unsettled = self.unsettled.entry(session_id.to_owned()).or_default();
            *unsettled = sum(*unsettled, estimate.tokens);
            self.add(estimate);
        }
        self.open.clear();
    }

    /// An attempt is over without a result, and the transcript says what the messages of the turn cost: what they
    /// cost beyond what was charged for the turn is charged, too.
    pub fn correct_estimate(&mut self, session_id: &str, of_turn: Tokens) {
        let more = beyond(of_turn, self.turn);
        if more != Tokens::default() {
            let unsettled = self.unsettled.entry(session_id.to_owned()).or_default();
            *unsettled = sum(*unsettled, more);
            self.add(Spend { tokens: more, cost_usd: None });
        }
    }

    fn add(&mut self, spend: Spend) {
        self.run.add(spend);
        self.session.add(spend);
        self.turn = sum(self.turn, spend.tokens);
    }

    /// The whole run, the running attempt's estimate included.
    #[must_use]
    pub fn run(&self) -> Spend {
        let mut spend = self.run;
        spend.add(self.open_estimate());
        spend
    }

    /// The session under way or just ended.
    #[must_use]
    pub fn session(&self) -> Spend {
        self.session
    }

    /// The same by model, most output first, as far as results named the models: what is only estimated has no
    /// model, so the sum may be less than [`Ledger::session`].
    #[must_use]
    pub fn session_by_model(&self) -> Vec<ModelSpend> {
        let of = |(model, spend): (&String, &Spend)| ModelSpend {
            model: model.clone(),
            tokens: spend.tokens,
            cost_usd: spend.cost_usd,
        };
        let mut list: Vec<ModelSpend> = self.by_model.iter().map(of).collect();
        list.sort_by_key(|spend| std::cmp::Reverse(spend.tokens.output));
        list
    }

    fn open_estimate(&self) -> Spend {
        Spend { tokens: self.open.values().copied().fold(Tokens::default(), sum), cost_usd: None }
    }
}

fn finite(cost: Option<f64>) -> Option<f64> {
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

fn sum(a: Tokens, b: Tokens) -> Tokens {
    Tokens {
        input: a.input.saturating_add(b.input),
        output: a.output.saturating_add(b.output),
        cache_read: a.cache_read.saturating_add(b.cache_read),
        cache_creation: a.cache_creation.saturating_add(b.cache_creation),
    }
}

/// What `a` has more than `b`.
fn beyond(a: Tokens, b: Tokens) -> Tokens {
    Tokens {
        input: a.input.saturating_sub(b.input),
        output: a.output.saturating_sub(b.output),
        cache_read: a.cache_read.saturating_sub(b.cache_read),
        cache_creation: a.cache_creation.saturating_sub(b.cache_creation),
    }
}

fn total_of(usage: &UsageByModel) -> Spend {
    let mut spend = Spend::default();
    for ModelUsage { tokens, cost_usd } in usage.values() {
        spend.add(Spend { tokens: *tokens, cost_usd: finite(*cost_usd) });
    }
    spend
}

/// What a result adds, by model: the exact addition, else the difference to the last totals known.
fn by_model(result: &TurnResult, before: Option<&UsageByModel>) -> Vec<(String, Spend)> {
    let own = |usage: &ModelUsage| Spend { tokens: usage.tokens, cost_usd: finite(usage.cost_usd) };
    if let Some(added) = &result.usage_since_last_result {
        return added.iter().map(|(model, usage)| (model.clone(), own(usage))).collect();
    }
    let Some(totals) = &result.model_usage else { return Vec::new() };
    let added = totals.iter().map(|(model, usage)| {
        let total = own(usage);
        let spend = match before.and_then(|before| before.get(model)).map(own) {
            None => total,
            Some(before) => {
                let cost_usd = match (total.cost_usd, before.cost_usd) {
                    (Some(total), Some(before)) if total >= before => Some(total - before),
                    (total, _) => total,
                };
                Spend { cost_usd, ..difference(total, before) }
            }
        };
        (model.clone(), spend)
    });
    let something =
        |spend: &Spend| spend.tokens != Tokens::default() || spend.cost_usd.is_some_and(|cost| cost > 0.0);
    added.filter(|(_, spend)| something(spend)).collect()
}

/// What was added between two running totals; a total that went down is a new count.
fn difference(total: Spend, before: Spend) -> Spend {
    if total.tokens.output < before.tokens.output {
        return total;
    }
    Spend {
        tokens: Tokens {
            input: total.tokens.input.saturating_sub(before.tokens.input),
            output: total.tokens.output - before.tokens.output,
            cache_read: total.tokens.cache_read.saturating_sub(before.tokens.cache_read),
            cache_creation: total.tokens.cache_creation.saturating_sub(before.tokens.cache_creation),
        },
        cost_usd: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(output: u64, cost: Option<f64>) -> UsageByModel {
        let tokens = Tokens { output, ..Tokens::default() };
        BTreeMap::from([("opus".to_owned(), ModelUsage { tokens, cost_usd: cost })])
    }

    fn result(total: Option<f64>, cumulative: Option<u64>, since: Option<u64>) -> TurnResult {
        TurnResult {
            total_cost_usd: total,
            model_usage: cumulative.map(|output| usage(output, None)),
            usage_since_last_result: since.map(|output| usage(output, None)),
            ..TurnResult::default()
        }
    }

    /// (results of one conversation in order) → (output tokens, dollars).
    fn check(results: &[TurnResult], output: u64, cost: Option<f64>) {
        let mut ledger = Ledger::default();
        for (at, result) in results.iter().enumerate() {
            ledger.begin_attempt("id", at > 0);
            ledger.note_message("m", Tokens { output: 7, ..Tokens::default() });
            ledger.settle("id", result);
            ledger.end_attempt("id");
        }
        let spend = ledger.run();
        assert_eq!(spend.tokens.output, output, "{results:?}");
        match (spend.cost_usd, cost) {
            (Some(a), Some(b)) => assert!((a - b).abs() < 1e-9, "{a} for {results:?}"),
            (a, b) => assert_eq!(a, b, "{results:?}"),
        }
    }

    #[test]
    fn a_running_total_is_never_counted_twice() {
        // claude-code §3: 0.0009 → 0.0018 over a resume.
        check(
            &[result(Some(0.0009), Some(10), None), result(Some(0.0018), Some(25), None)],
            25,
            Some(0.0018),
        );
        // The exact addition wins over the total.
        check(&[result(Some(1.0), Some(10), Some(10)), result(Some(1.5), Some(900), Some(5))], 15, Some(1.5));
        // An older CLI counts by process: its total falls back.
        check(&[result(Some(0.25), Some(10), None), result(Some(0.03), Some(4), None)], 14, Some(0.28));
    }

    #[test]
    fn models_of_a_session_add_up_once() {
        let both = |opus, haiku| {
            let usage = |output, cost_usd| ModelUsage {
                tokens: Tokens { output, ..Tokens::default() },
                cost_usd: Some(cost_usd),
            };
            let models = BTreeMap::from([
                ("opus".to_owned(), usage(opus, 0.5)),
                ("haiku".to_owned(), usage(haiku, 0.1)),
            ]);
            TurnResult { model_usage: Some(models), ..TurnResult::default() }
        };
        let mut ledger = Ledger::default();
        ledger.begin_session();
        ledger.begin_attempt("id", false);
        ledger.settle("id", &both(10, 40));
        ledger.settle("id", &both(90, 40));
        let models = ledger.session_by_model();
        let told: Vec<_> = models.iter().map(|m| (m.model.as_str(), m.tokens.output)).collect();
        assert_eq!(told, [("opus", 90), ("haiku", 40)]);
        // The next session of the same conversation counts what it adds.
        ledger.begin_session();
        ledger.begin_attempt("id", true);
        ledger.settle("id", &both(100, 40));
        let models = ledger.session_by_model();
        assert_eq!(models.len(), 1);
        assert_eq!((models[0].model.as_str(), models[0].tokens.output), ("opus", 10));
    }

    #[test]
    fn an_unknown_cost_stays_unknown() {
        for odd in [None, Some(-1.0), Some(f64::NAN), Some(f64::INFINITY)] {
            check(&[result(odd, Some(3), None)], 3, None);
        }
    }

    #[test]
    fn an_attempt_without_result_is_charged_by_its_messages_once() {
        let mut ledger = Ledger::default();
        ledger.begin_attempt("id", false);
        let tokens = Tokens { output: 40, input: 2, ..Tokens::default() };
        ledger.note_message("a", tokens);
        ledger.note_message("a", tokens);
        ledger.note_message("b", Tokens { output: 2, ..Tokens::default() });
        assert_eq!(ledger.run().tokens.output, 42);
        ledger.end_attempt("id");
        ledger.end_attempt("id");
        assert_eq!(ledger.run().tokens.output, 42);
    }

    /// (what was added before, the total of the next result) → (output tokens, dollars), for a conversation whose
    /// second attempt died.
    fn check_corrected(total: Option<u64>, cost: f64, expected: (u64, f64)) {
        let mut ledger = Ledger::default();
        ledger.begin_attempt("id", false);
        ledger.settle("id", &result(Some(0.1), Some(10), Some(10)));
        ledger.end_attempt("id");
        ledger.begin_attempt("id", true);
        ledger.note_message("a", Tokens { output: 1, ..Tokens::default() });
        ledger.end_attempt("id");
        assert_eq!(ledger.run().tokens.output, 11);
        ledger.begin_attempt("id", true);
        let since = BTreeMap::from([(
            "opus".to_owned(),
            ModelUsage { tokens: Tokens { output: 5, ..Tokens::default() }, cost_usd: Some(0.05) },
        )]);
        let result = TurnResult { usage_since_last_result: Some(since), ..result(Some(cost), total, None) };
        ledger.settle("id", &result);
        ledger.end_attempt("id");
        let spend = ledger.run();
        assert_eq!(spend.tokens.output, expected.0);
        assert!((spend.cost_usd.unwrap() - expected.1).abs() < 1e-9, "{spend:?}");
    }

    #[test]
    fn the_transcript_corrects_an_estimate() {
        let output = |output| Tokens { output, ..Tokens::default() };
        let mut ledger = Ledger::default();
        ledger.begin_turn();
        ledger.begin_attempt("id", false);
        ledger.note_message("a", output(1));
        ledger.end_attempt("id");
        ledger.correct_estimate("id", output(30));
        assert_eq!(ledger.run().tokens.output, 30);
        assert_eq!(ledger.session().tokens.output, 30);
        // The second attempt of the turn: the transcript has both.
        ledger.begin_attempt("id", true);
        ledger.note_message("b", output(1));
        ledger.end_attempt("id");
        ledger.correct_estimate("id", output(45));
        assert_eq!(ledger.run().tokens.output, 45);
        ledger.begin_attempt("id", true);
        ledger.settle("id", &result(None, Some(52), Some(7)));
        assert_eq!(ledger.run().tokens.output, 52);
        // Another turn.
        ledger.begin_turn();
        ledger.correct_estimate("id", output(3));
        assert_eq!(ledger.run().tokens.output, 55);
    }

    #[test]
    fn the_next_result_corrects_an_estimate() {
        // Ended by SIGTERM, it wrote down that it had used 30.
        check_corrected(Some(45), 0.45, (45, 0.45));
        // Killed, it wrote nothing down: the estimate stays.
        check_corrected(Some(15), 0.15, (16, 0.15));
        // A total of the process, or none.
        check_corrected(Some(5), 0.05, (16, 0.15));
        check_corrected(None, 0.15, (16, 0.15));
    }

    /// What an earlier run has spent in a conversation is no addition of this one.
    #[test]
    fn the_total_of_a_conversation_that_others_began_corrects_nothing() {
        let mut ledger = Ledger::default();
        ledger.begin_attempt("id", true);
        ledger.note_message("a", Tokens { output: 1, ..Tokens::default() });
        ledger.end_attempt("id");
        ledger.begin_attempt("id", true);
        ledger.settle("id", &result(None, Some(900), Some(5)));
        assert_eq!(ledger.run().tokens.output, 6);
    }

    #[test]
    fn several_results_of_one_process_add_up() {
        let mut ledger = Ledger::default();
        ledger.begin_attempt("id", false);
        ledger.settle("id", &result(Some(0.1), Some(10), None));
        ledger.settle("id", &result(Some(0.3), Some(15), None));
        ledger.end_attempt("id");
        assert_eq!(ledger.run().tokens.output, 15);
        assert!((ledger.run().cost_usd.unwrap() - 0.3).abs() < 1e-9);
    }
}
