//! What is told: made from an event of a run, or from its summary when it is over.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::core::kill_switch::KillSwitch;
use crate::core::notice::{NoticeKind, Urgency};
use crate::core::outcome::Class;
use crate::core::published::RunEvent;
use crate::error::exit::Exit;
use crate::report::RunSummary;
use crate::ui::text::{dollars, instant, one_line, plural, span_of_seconds};

/// Version of the document.
const VERSION: u32 = 1;
/// Longest piece of foreign text in a notice.
const MAX_TEXT: usize = 300;
/// Decisions and next steps that are listed; the report has all of them.
const MAX_LISTED: usize = 4;

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Id of the run; `None` for `notify test`.
    pub run_id: Option<String>,
    /// Top level of the repository.
    pub repository: String,
    /// Name of this machine.
    pub host: String,
}

impl Source {
    /// The last folder of the repository: what people call it.
    fn name(&self) -> &str {
        self.repository.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&self.repository)
    }
}

/// What a run came to, for programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct End {
    /// Name of the exit code.
    pub outcome: &'static str,
    /// Exit code.
    pub exit_code: u8,
    /// The switch that fired.
    pub kill_switch: Option<&'static str>,
    /// Class of the failure.
    pub failure_class: Option<&'static str>,
    /// Completed sessions.
    pub sessions: u32,
    /// Commits of all sessions.
    pub commits: u64,
    /// API-equivalent dollars, when known.
    pub cost_usd: Option<f64>,
    /// Seconds it took.
    pub seconds: Option<f64>,
    /// What a person must decide, most urgent first.
    pub decide: Vec<String>,
    /// What a person does next, most useful first.
    pub next: Vec<String>,
    /// The report, as a page.
    pub report: String,
}

/// One thing to tell. Serialised, it is the document that commands and plain webhooks get; fields are only ever
/// added.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Notice {
    /// Version of the document.
    pub v: u32,
    /// What it is about.
    #[serde(rename = "event", serialize_with = "as_word")]
    pub kind: NoticeKind,
    /// How soon to look.
    #[serde(serialize_with = "as_urgency")]
    pub urgency: Urgency,
    /// When it happened.
    pub at: Timestamp,
    /// Who speaks.
    #[serde(flatten)]
    pub source: Source,
    /// One line.
    pub title: String,
    /// A few lines; may be empty.
    pub text: String,
    /// How the run ended, if it has.
    #[serde(flatten)]
    pub end: Option<End>,
    /// What is the same: not told again before the cooldown is over.
    #[serde(skip)]
    pub key: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde wants")]
fn as_word<S: serde::Serializer>(kind: &NoticeKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde wants")]
fn as_urgency<S: serde::Serializer>(urgency: &Urgency, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(urgency.as_str())
}

impl Notice {
    /// Of an event while the run goes on; most are nothing to tell.
    #[must_use]
    pub fn of_event(event: &RunEvent, at: Timestamp, source: &Source, zone: &TimeZone) -> Option<Notice> {
        let name = source.name();
        let (kind, urgency, title, text, key) = match event {
            RunEvent::RunStarted { max_sessions, max_hours, branch, .. } => (
                NoticeKind::Started,
                Urgency::Low,
                format!("{name}: a run began"),
                format!(
                    "at most {} in {max_hours} h{}",
                    plural(u64::from(*max_sessions), "session"),
                    branch.as_deref().map(|branch| format!(", on {branch}")).unwrap_or_default()
                ),
                format!("started:{}:{at}", source.run_id.as_deref().unwrap_or_default()),
            ),
            RunEvent::RunResumed { iterations, max_sessions, .. } => (
                NoticeKind::Started,
                Urgency::Low,
                format!("{name}: a run goes on"),
                format!("{iterations} of at most {} done", plural(u64::from(*max_sessions), "session")),
                format!("started:{}:{at}", source.run_id.as_deref().unwrap_or_default()),
            ),
            RunEvent::Healed { class, action, why, .. } => (
                NoticeKind::Healed,
                Urgency::Low,
                format!("{name}: {class}, and repaired"),
                format!("{}: {}", one_line(action, MAX_TEXT), one_line(why, MAX_TEXT)),
                format!("healed:{class}"),
            ),
            RunEvent::LimitWait { window, until, why, .. } => (
                NoticeKind::LimitWait,
                Urgency::Low,
                format!("{name}: asleep until {} on a usage limit", instant(*until, zone)),
                one_line(why, MAX_TEXT),
                format!("limit-wait:{}", window.as_deref().unwrap_or_default()),
            ),
            RunEvent::QuestionAsked { question, options, until, session_id } => (
                NoticeKind::Blocked,
                Urgency::High,
                format!("{name}: a session asks you something"),
                format!(
                    "{}\nOptions: {}. The first is taken at {}.",
                    one_line(question, MAX_TEXT),
                    one_line(&options.join(", "), MAX_TEXT),
                    instant(*until, zone)
                ),
                format!("question:{session_id}:{question}"),
            ),
            _ => return None,
        };
        let source = source.clone();
        Some(Notice { v: VERSION, kind, urgency, at, source, title, text, end: None, key })
    }

    /// Of a run that is over.
    #[must_use]
    pub fn of_end(
        summary: &RunSummary,
        exit: Exit,
        at: Timestamp,
        source: &Source,
        report: String,
    ) -> Notice {
        let kind = kind_of(exit);
        let name = source.name();
        let (urgency, title) = match kind {
            NoticeKind::Done => (Urgency::Normal, format!("{name}: done, {}", summary.short_headline())),
            NoticeKind::Blocked => (Urgency::High, format!("{name}: needs you: {}", exit.meaning())),
            _ if matches!(exit, Exit::Interrupted | Exit::Terminated) => {
                (Urgency::Normal, format!("{name}: {}", exit.meaning()))
            }
            _ => (Urgency::High, format!("{name}: stopped: {}", summary.short_headline())),
        };
        let (decide, next) = (summary.to_decide(), summary.next_steps());
        let mut lines = vec![format!(
            "{}, {}, {}, cost {}",
            plural(u64::from(summary.iterations), "session"),
            plural(summary.commits(), "commit"),
            summary.seconds.map_or_else(|| "unknown time".to_owned(), span_of_seconds),
            dollars(summary.cost_usd),
        )];
        lines.extend(summary.detail.as_deref().map(|detail| one_line(detail, MAX_TEXT)));
        lines.extend(decide.iter().take(MAX_LISTED).map(|item| format!("- {item}")));
        if decide.len() > MAX_LISTED {
            lines.push(format!("- and {} more", decide.len() - MAX_LISTED));
        }
        lines.extend(next.first().map(|step| format!("next: {step}")));
        let key = match kind {
            // Each run that ends well is news.
            NoticeKind::Done => format!("done:{}", source.run_id.as_deref().unwrap_or_default()),
            // A job that fails every ten minutes of the same is not.
            kind => format!("{kind}:{}", exit.name()),
        };
        let end = End {
            outcome: exit.name(),
            exit_code: exit.code(),
            kill_switch: summary.kill_switch.map(KillSwitch::as_str),
            failure_class: summary.failure_class.map(Class::as_str),
            sessions: summary.iterations,
            commits: summary.commits(),
            cost_usd: summary.cost_usd.filter(|cost| cost.is_finite()),
            seconds: summary.seconds,
            decide,
            next,
            report,
        };
        let (source, text) = (source.clone(), lines.join("\n"));
        Notice { v: VERSION, kind, urgency, at, source, title, text, end: Some(end), key }
    }

    /// Of a run that could not begin.
    #[must_use]
    pub fn of_failure(words: &str, hints: &[String], exit: Exit, at: Timestamp, source: &Source) -> Notice {
        let lines =
            std::iter::once(words.to_owned()).chain(hints.first().map(|hint| format!("next: {hint}")));
        let kind = kind_of(exit);
        Notice {
            v: VERSION,
            kind,
            urgency: Urgency::High,
            at,
            source: source.clone(),
            title: format!("{}: a run could not begin", source.name()),
            text: lines.collect::<Vec<_>>().join("\n"),
            end: None,
            key: format!("{kind}:{}:{words}", exit.name()),
        }
    }

    /// To see whether the channels work.
    #[must_use]
    pub fn test(kind: NoticeKind, at: Timestamp, source: &Source) -> Notice {
        Notice {
            v: VERSION,
            kind,
            urgency: if kind == NoticeKind::Blocked { Urgency::High } else { Urgency::Normal },
            at,
            source: source.clone(),
            title: format!("{}: this is a test of autopilot's notifications", source.name()),
            text: format!("A notice of the kind `{kind}` looks like this one."),
            end: None,
            key: format!("test:{at}"),
        }
    }

    /// One message of several: the last of the most urgent ones, and a line for each of the others.
    #[must_use]
    pub fn merged(notices: &[Arc<Notice>]) -> Option<Notice> {
        let main = notices.iter().rev().max_by_key(|notice| (notice.urgency, notice.end.is_some()))?;
        let mut message = Notice::clone(main);
        let others: Vec<String> = notices
            .iter()
            .filter(|notice| !Arc::ptr_eq(notice, main))
            .map(|notice| format!("before: {}", notice.title))
            .collect();
        if !others.is_empty() {
            let lines = Some(message.text.clone()).filter(|text| !text.is_empty());
            message.text = lines.into_iter().chain(others).collect::<Vec<_>>().join("\n");
        }
        Some(message)
    }
}

/// 3 to 5 and 20 to 24 are the codes after which nothing goes on before a person has acted.
fn kind_of(exit: Exit) -> NoticeKind {
    match exit {
        Exit::Planned => NoticeKind::Done,
        Exit::ManualFallback
        | Exit::VerdictNo
        | Exit::AlreadyRunning
        | Exit::LowConfidence
        | Exit::Login
        | Exit::Billing
        | Exit::UsageLimit
        | Exit::Environment
        | Exit::Blocked => NoticeKind::Blocked,
        _ => NoticeKind::Stopped,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::RunOutcome;

    pub(in super::super) fn source() -> Source {
        Source {
            run_id: Some("main-2026-12-01-0300".to_owned()),
            repository: "/srv/app".to_owned(),
            host: "night".to_owned(),
        }
    }

    pub(in super::super) fn notice(kind: NoticeKind, urgency: Urgency) -> Notice {
        let at = "2026-12-01T03:00:00Z".parse().unwrap();
        Notice { urgency, ..Notice::test(kind, at, &source()) }
    }

    fn at() -> Timestamp {
        "2026-12-01T03:00:00Z".parse().unwrap()
    }

    #[test]
    fn events_that_are_news() {
        let of = |event: &RunEvent| Notice::of_event(event, at(), &source(), &TimeZone::UTC);
        let healed = of(&RunEvent::Healed {
            session_id: "s".to_owned(),
            class: Class::Stalled,
            action: "resume".to_owned(),
            why: "nothing moved for 600 s".to_owned(),
            recovery: 1,
            run_heal: None,
            delay_seconds: 5,
        })
        .unwrap();
        assert_eq!(
            (healed.kind, healed.urgency, healed.key.as_str()),
            (NoticeKind::Healed, Urgency::Low, "healed:stalled")
        );
        assert_eq!(healed.title, "app: stalled, and repaired");
        let wait = of(&RunEvent::LimitWait {
            window: Some("five_hour".to_owned()),
            until: "2026-12-01T05:00:00Z".parse().unwrap(),
            source: crate::core::published::ResetSource::Event,
            why: "five hour limit".to_owned(),
        })
        .unwrap();
        assert_eq!(wait.title, "app: asleep until Tue 01 Dec 05:00 UTC on a usage limit");
        let asked = of(&RunEvent::QuestionAsked {
            session_id: "s".to_owned(),
            question: "Which database?".to_owned(),
            options: vec!["sqlite".to_owned(), "postgres".to_owned()],
            until: "2026-12-01T03:20:00Z".parse().unwrap(),
        })
        .unwrap();
        assert_eq!((asked.kind, asked.urgency), (NoticeKind::Blocked, Urgency::High));
        assert_eq!(
            asked.text,
            "Which database?\nOptions: sqlite, postgres. The first is taken at Tue 01 Dec 03:20 UTC."
        );
        assert_eq!(of(&RunEvent::Warning { text: "x".to_owned() }), None);
    }

    #[test]
    fn an_end_says_what_to_do() {
        let summary = RunSummary {
            outcome: RunOutcome::Stopped,
            kill_switch: Some(KillSwitch::FailedWave),
            failure_class: Some(Class::Auth),
            detail: Some("Not logged in".to_owned()),
            exit_code: Some(20),
            iterations: 2,
            seconds: Some(3_600.0),
            cost_usd: Some(1.5),
            next: vec!["claude /login".to_owned(), "autopilot resume x".to_owned()],
            ..RunSummary::default()
        };
        let end = |exit| Notice::of_end(&summary, exit, at(), &source(), "/srv/report.html".to_owned());
        let notice = end(Exit::Login);
        insta::assert_snapshot!(serde_json::to_string_pretty(&notice).unwrap());
        assert_eq!(notice.key, "blocked:login-needed");
        for (exit, kind, urgency) in [
            (Exit::Planned, NoticeKind::Done, Urgency::Normal),
            (Exit::Stall, NoticeKind::Stopped, Urgency::High),
            (Exit::Interrupted, NoticeKind::Stopped, Urgency::Normal),
            (Exit::ManualFallback, NoticeKind::Blocked, Urgency::High),
            (Exit::Environment, NoticeKind::Blocked, Urgency::High),
        ] {
            assert_eq!((end(exit).kind, end(exit).urgency), (kind, urgency), "{exit:?}");
        }
    }

    #[test]
    fn several_become_one() {
        let [healed, stopped, wait] = [
            notice(NoticeKind::Healed, Urgency::Low),
            Notice {
                title: "it stopped".to_owned(),
                text: String::new(),
                ..notice(NoticeKind::Stopped, Urgency::High)
            },
            Notice { title: "it waits".to_owned(), ..notice(NoticeKind::LimitWait, Urgency::Low) },
        ]
        .map(Arc::new);
        let merged = Notice::merged(&[Arc::clone(&healed), stopped, wait]).unwrap();
        assert_eq!(merged.title, "it stopped");
        assert_eq!(merged.text, format!("before: {}\nbefore: it waits", healed.title));
        assert_eq!(Notice::merged(std::slice::from_ref(&healed)).as_ref(), Some(&*healed));
        assert_eq!(Notice::merged(&[]), None);
    }
}
