//! The open issues: the command, and what its answer says (upstream-formats §7, §16).
//!
//! One window of [`LIMIT`] issues is asked for; one that is full is [`Backlog::truncated`]. A label that makes
//! an issue a task is looked for in that window, because the counts are to be about all issues.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::core::signals::{Backlog, Issue};

use super::detect::{Forge, ForgeKind};
use super::{Unreadable, plain};

/// Issues asked for: the most that GitLab gives in one answer; 50 hid some (c20d4d2).
pub const LIMIT: usize = 100;

/// An issue is stale when its last change is longer ago than this.
const STALE_AFTER: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Longest title or label kept, in characters. The forges allow 256 and fewer.
const LONGEST: usize = 256;

/// Arguments of the command, without `-R`.
pub(super) fn arguments(kind: ForgeKind) -> Vec<String> {
    let words = match kind {
        ForgeKind::GitHub => [
            format!("--limit={LIMIT}"),
            "--state=open".to_owned(),
            "--json=number,title,labels,updatedAt".to_owned(),
        ]
        .to_vec(),
        // Open ones are what it lists by default; there is no `--state`.
        ForgeKind::GitLab => vec![format!("--per-page={LIMIT}"), "--output=json".to_owned()],
    };
    ["issue".to_owned(), "list".to_owned()].into_iter().chain(words).collect()
}

/// Sums up an answer. `label` is the one that makes an issue a task.
pub(super) fn parse(
    forge: &Forge,
    answer: &[u8],
    label: Option<&str>,
    now: Timestamp,
) -> Result<Backlog, Unreadable> {
    let list: Vec<Value> = serde_json::from_slice(answer)?;
    let label = label.map(normal).filter(|label| !label.is_empty());
    let mut backlog = Backlog {
        forge: forge.kind.as_str().to_owned(),
        truncated: list.len() >= LIMIT,
        ..Backlog::default()
    };
    for issue in list.iter().filter(|issue| issue.is_object()) {
        let labels = labels(issue);
        let has = |wanted: &str| labels.iter().any(|label| normal(label) == wanted);
        backlog.total += 1;
        backlog.critical += u32::from(has("priority:critical"));
        backlog.high += u32::from(has("priority:high"));
        backlog.stale += u32::from(is_stale(issue, now));
        if label.as_deref().is_some_and(has)
            && let Some(number) = number(issue)
        {
            let title = plain(issue["title"].as_str().unwrap_or_default(), LONGEST);
            backlog.tasks.push(Issue { number, title, labels });
        }
    }
    Ok(backlog)
}

/// What a summary says, in a few words.
pub(super) fn says(backlog: &Backlog, label: Option<&str>) -> String {
    let Backlog { total, critical, high, stale, truncated, tasks, forge: _ } = backlog;
    let more = if *truncated { " or more" } else { "" };
    let tasks = label.map_or_else(String::new, |label| {
        format!(", {} with the label `{}`", tasks.len(), plain(label, LONGEST))
    });
    format!("{total}{more} open, {critical} critical, {high} high, {stale} stale{tasks}")
}

/// Number within the project; GitLab's `id` is that of the whole installation.
fn number(issue: &Value) -> Option<u64> {
    issue["number"].as_u64().or_else(|| issue["iid"].as_u64())
}

/// Names of the labels, which are objects or plain strings.
fn labels(issue: &Value) -> Vec<String> {
    let list = issue["labels"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |label: &Value| Some(plain(label.as_str().or_else(|| label["name"].as_str())?, LONGEST));
    list.iter().filter_map(name).filter(|name| !name.is_empty()).collect()
}

/// Labels are compared without case and without blanks around; GitLab's scoped labels have two colons.
fn normal(label: &str) -> String {
    label.trim().to_lowercase().replace("::", ":")
}

/// A date that cannot be read counts as stale.
fn is_stale(issue: &Value, now: Timestamp) -> bool {
    let updated = issue["updatedAt"].as_str().or_else(|| issue["updated_at"].as_str());
    let updated = updated.and_then(|text| text.trim().parse::<Timestamp>().ok());
    updated.is_none_or(|updated| now.duration_since(updated) > STALE_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forge(kind: ForgeKind) -> Forge {
        Forge { kind, host: None, spec: None, remote: "origin".into() }
    }

    fn now() -> Timestamp {
        "2026-03-31T12:00:00Z".parse().unwrap()
    }

    fn parsed(answer: &str, label: Option<&str>) -> Backlog {
        parse(&forge(ForgeKind::GitHub), answer.as_bytes(), label, now()).unwrap()
    }

    #[test]
    fn an_answer_of_gh() {
        let answer = r#"[
            {"number": 7, "title": "Crash at\tstart", "updatedAt": "2026-03-30T10:00:00Z",
             "labels": [{"id": "x", "name": "Priority:Critical", "color": "f00"}, {"name": "autopilot"}]},
            {"number": 8, "title": "Slow", "updatedAt": "2026-01-01T00:00:00Z",
             "labels": [{"name": " priority::high "}]}
        ]"#;
        let task = Issue {
            number: 7,
            title: "Crash at start".into(),
            labels: vec!["Priority:Critical".into(), "autopilot".into()],
        };
        let expected = Backlog {
            forge: "github".into(),
            total: 2,
            critical: 1,
            high: 1,
            stale: 1,
            truncated: false,
            tasks: vec![task],
        };
        let found = parsed(answer, Some("AutoPilot"));
        assert_eq!(found, expected);
        assert_eq!(
            says(&found, Some("AutoPilot")),
            "2 open, 1 critical, 1 high, 1 stale, 1 with the label `AutoPilot`"
        );
        assert_eq!(parsed(answer, None).tasks, []);
        assert_eq!(parsed(answer, Some(" ")).tasks, []);
    }

    #[test]
    fn an_answer_of_glab() {
        let answer = r#"[{"id": 900123, "iid": 3, "title": "Do it", "state": "opened",
            "updated_at": "2026-03-31T13:00:00.000+02:00", "labels": ["priority::critical", "bot::ready"]}]"#;
        let found = parse(&forge(ForgeKind::GitLab), answer.as_bytes(), Some("bot:ready"), now()).unwrap();
        let tasks = vec![Issue {
            number: 3,
            title: "Do it".into(),
            labels: vec!["priority::critical".into(), "bot::ready".into()],
        }];
        let expected = Backlog { forge: "gitlab".into(), total: 1, critical: 1, tasks, ..Backlog::default() };
        assert_eq!(found, expected);
    }

    #[test]
    fn thirty_days_are_not_stale() {
        let check = |updated: &str, stale: u32| {
            let found = parsed(&format!(r#"[{{"number": 1, "updatedAt": {updated}}}]"#), None);
            assert_eq!((found.total, found.stale), (1, stale), "{updated}");
        };
        check(r#""2026-03-01T12:00:00Z""#, 0);
        check(r#""2026-03-01T11:59:59Z""#, 1);
        check(r#""2026-02-28T12:00:00Z""#, 1);
        check(r#""2026-03-01T13:00:00+01:00""#, 0);
        check(r#""2027-01-01T00:00:00Z""#, 0);
        check(r#""yesterday""#, 1);
        check(r#""""#, 1);
        check("null", 1);
        check("1774958400", 1);
    }

    #[test]
    fn odd_entries_cost_only_themselves() {
        let found = parsed(r#"[null, 3, "x", [], {}, {"number": "7", "labels": "bug"}]"#, Some("bug"));
        assert_eq!((found.total, found.stale, found.tasks.len()), (2, 2, 0));
        let labels =
            r#"[{"number": 1, "labels": [null, 3, {"id": 1}, {"name": 4}, "", "bug", {"name": "b"}]}]"#;
        assert_eq!(parsed(labels, Some("bug")).tasks[0].labels, ["bug", "b"]);
        // Without a number nobody could close it again.
        assert_eq!(parsed(r#"[{"labels": ["bug"]}]"#, Some("bug")).tasks, []);
        assert_eq!(parsed(r#"[{"number": -1, "labels": ["bug"]}]"#, Some("bug")).tasks, []);
        let both = parsed(r#"[{"labels": ["priority:high", "priority::high", "PRIORITY:CRITICAL"]}]"#, None);
        assert_eq!((both.critical, both.high), (1, 1));
        for near in ["priority", "high", "priority:highest", "priority: high", "p:high"] {
            assert_eq!(parsed(&format!(r#"[{{"labels": ["{near}"]}}]"#), None).high, 0, "{near}");
        }
    }

    #[test]
    fn a_full_window_is_truncated() {
        let list = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
        for (count, truncated) in [(0, false), (99, false), (100, true), (101, true)] {
            let found = parsed(&list(count), None);
            assert_eq!((found.total as usize, found.truncated), (count, truncated));
        }
        assert_eq!(says(&parsed(&list(100), None), None), "100 or more open, 0 critical, 0 high, 100 stale");
    }

    #[test]
    fn what_is_no_list_is_unreadable() {
        for answer in
            ["", "null", "{}", "3", "[", "[{]", "no issues", "[] []", "{\"message\": \"Not Found\"}"]
        {
            let found = parse(&forge(ForgeKind::GitHub), answer.as_bytes(), None, now());
            assert!(found.is_err(), "{answer}: {found:?}");
        }
        assert!(parse(&forge(ForgeKind::GitHub), &[0xff, 0xfe, 0], None, now()).is_err());
        let deep = "[".repeat(100_000);
        assert!(parse(&forge(ForgeKind::GitHub), deep.as_bytes(), None, now()).is_err());
    }
}
