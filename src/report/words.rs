//! The summary in its formats, and its outcome in words.

use jiff::tz::TimeZone;

use super::{RunOutcome, RunSummary, decide, html, junit, markdown, text};
use crate::error::exit::Exit;
use crate::ui::text::TextOptions;

impl RunSummary {
    /// The report for people, with a newline at its end.
    #[must_use]
    pub fn to_text(&self, options: &TextOptions) -> String {
        text::report(self, options)
    }

    /// The report as Markdown (`report.md`). Times are UTC.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        markdown::report(self)
    }

    /// The report as one web page that needs nothing else: no script, no network. Times are of `zone`.
    #[must_use]
    pub fn to_html(&self, zone: &TimeZone) -> String {
        html::run(self, zone)
    }

    /// The report as `JUnit` XML, a test case a session and one for the run.
    #[must_use]
    pub fn to_junit(&self) -> String {
        junit::report(std::slice::from_ref(self))
    }

    /// What a person must decide or look at, most urgent first.
    #[must_use]
    pub fn to_decide(&self) -> Vec<String> {
        decide::decisions(self)
    }

    /// Commits of all sessions.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.ended().filter_map(|end| end.work.as_ref()).map(|work| work.commits_total).sum()
    }

    /// The report as one line of JSON (`--json`), with a newline at its end. Numbers that JSON cannot say
    /// come out as `null`.
    ///
    /// # Panics
    /// Never: every field has a JSON form and every key is a string.
    #[must_use]
    pub fn to_json(&self) -> String {
        let document = RunSummary { next: self.next_steps(), decide: self.to_decide(), ..self.clone() };
        let mut json = serde_json::to_string(&document).expect("every field has a JSON form");
        json.push('\n');
        json
    }

    /// What to do next: as the run said, or what helps with one that has no end.
    #[must_use]
    pub fn next_steps(&self) -> Vec<String> {
        if self.outcome != RunOutcome::Unfinished {
            return self.next.clone();
        }
        let run = self.run_id.as_deref().map(|id| format!(" {id}")).unwrap_or_default();
        vec!["autopilot status".to_owned(), format!("autopilot resume{run}")]
    }

    /// The web address of a commit, where the forge is known and the id is one.
    #[must_use]
    pub fn commit_link(&self, oid: &str) -> Option<String> {
        let plain = oid.len() >= 7 && oid.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.commit_url.as_deref().filter(|_| plain).map(|url| format!("{url}{oid}"))
    }

    /// How it came out, in one or two words.
    #[must_use]
    pub fn short_headline(&self) -> String {
        match (self.outcome, self.kill_switch, self.failure_class) {
            (RunOutcome::Unfinished, ..) => "not finished".to_owned(),
            (RunOutcome::Stopped, _, Some(class)) => class.to_string(),
            (_, Some(switch), _) => switch.to_string(),
            (RunOutcome::Planned, ..) => "as planned".to_owned(),
            (RunOutcome::Manual, ..) => "left to a person".to_owned(),
            (RunOutcome::Aborted, ..) => "on request".to_owned(),
            (RunOutcome::Stopped, ..) => "stopped".to_owned(),
        }
    }

    /// How it came out, in a few words.
    #[must_use]
    pub fn headline(&self) -> String {
        let switch = self.kill_switch.map(|switch| format!(": {switch}")).unwrap_or_default();
        let class = self.failure_class.map(|class| format!(" ({class})")).unwrap_or_default();
        match self.outcome {
            RunOutcome::Planned => format!("ended as planned{switch}"),
            RunOutcome::Manual => "not sure enough to start by itself".to_owned(),
            RunOutcome::Aborted => format!("ended on request{switch}"),
            RunOutcome::Stopped if self.exit_code == Some(Exit::AlreadyRunning.code()) => {
                "stopped: another Claude session is at work here".to_owned()
            }
            RunOutcome::Stopped => format!("stopped{switch}{class}"),
            RunOutcome::Unfinished => "not finished: it goes on, or it died".to_owned(),
        }
    }
}
