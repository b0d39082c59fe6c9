//! The vocabulary of notifications: what is told, over which web services, and when it stays quiet.
//!
//! Decisions only; what is sent how is the business of `notify`.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Time;

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoticeKind {
    /// A run began, or goes on.
    Started,
    /// A run ended as planned.
    Done,
    /// A run stopped itself, or was stopped.
    Stopped,
    /// Nothing goes on before a person has acted: a login, an answer, a decision.
    Blocked,
    /// A run sleeps on a usage limit.
    LimitWait,
    /// Something broke and was repaired.
    Healed,
}

impl NoticeKind {
    /// All, in the order of the documentation.
    pub const ALL: [NoticeKind; 6] = [
        NoticeKind::Started,
        NoticeKind::Done,
        NoticeKind::Stopped,
        NoticeKind::Blocked,
        NoticeKind::LimitWait,
        NoticeKind::Healed,
    ];

    /// The word in configuration and payload.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            NoticeKind::Started => "started",
            NoticeKind::Done => "done",
            NoticeKind::Stopped => "stopped",
            NoticeKind::Blocked => "blocked",
            NoticeKind::LimitWait => "limit-wait",
            NoticeKind::Healed => "healed",
        }
    }
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for NoticeKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        NoticeKind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let words: Vec<&str> = NoticeKind::ALL.iter().map(|kind| kind.as_str()).collect();
            format!("it is none of {}", words.join(", "))
        })
    }
}

/// How soon a person should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// To be told, not to be woken for: automation has it in hand (recovery §11).
    Low,
    /// The normal end of a run.
    Normal,
    /// Automation is out of options.
    High,
}

impl Urgency {
    /// The word in the payload.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Urgency::Low => "low",
            Urgency::Normal => "normal",
            Urgency::High => "high",
        }
    }
}

/// Whose format a webhook takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WebhookKind {
    /// The notification as it is, in JSON.
    Json,
    /// An incoming webhook of Slack, or of what imitates it (Mattermost, Rocket.Chat).
    Slack,
    /// A webhook of Discord.
    Discord,
    /// A topic of ntfy.
    Ntfy,
}

impl WebhookKind {
    /// All of them.
    pub const ALL: [WebhookKind; 4] =
        [WebhookKind::Json, WebhookKind::Slack, WebhookKind::Discord, WebhookKind::Ntfy];

    /// The word in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            WebhookKind::Json => "json",
            WebhookKind::Slack => "slack",
            WebhookKind::Discord => "discord",
            WebhookKind::Ntfy => "ntfy",
        }
    }

    /// Whose address it is; anybody's gets the plain document.
    fn of_url(url: &str) -> WebhookKind {
        let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', ':', '?']).next());
        match host.unwrap_or_default() {
            "hooks.slack.com" => WebhookKind::Slack,
            "discord.com" | "discordapp.com" => WebhookKind::Discord,
            "ntfy.sh" => WebhookKind::Ntfy,
            _ => WebhookKind::Json,
        }
    }
}

/// A webhook: `URL`, `KIND=URL` or `KIND=$VARIABLE`.
///
/// Whoever has the address can post, so it is never shown in full, and a configuration file in a repository
/// names a variable instead.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Whose format.
    pub kind: WebhookKind,
    /// Where to.
    pub target: Target,
}

/// Where a webhook is.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// Its address.
    Url(String),
    /// The variable that holds its address.
    Variable(String),
}

impl FromStr for Webhook {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = WebhookKind::ALL
            .into_iter()
            .find_map(|kind| Some((kind, text.strip_prefix(kind.as_str())?.strip_prefix('=')?)));
        let (kind, target) = match named {
            Some((kind, target)) => (Some(kind), target),
            None => (None, text),
        };
        if let Some(name) = target.strip_prefix('$') {
            let valid = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            return match kind {
                _ if !valid => Err("that is no name of a variable".to_owned()),
                Some(kind) => Ok(Webhook { kind, target: Target::Variable(name.to_owned()) }),
                None => Err(format!("say whose it is: slack={target}, discord=…, ntfy=… or json=…")),
            };
        }
        let kind = kind.unwrap_or_else(|| WebhookKind::of_url(target));
        check_url(target)?;
        Ok(Webhook { kind, target: Target::Url(target.to_owned()) })
    }
}

/// What an address has to be.
///
/// # Errors
/// What is wrong with it, without the address.
pub fn check_url(url: &str) -> Result<(), String> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some(rest) = rest else { return Err("an address begins with https:// or http://".to_owned()) };
    if rest.is_empty() || rest.starts_with('/') {
        return Err("the address has no host".to_owned());
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("the address has blanks in it".to_owned());
    }
    Ok(())
}

/// Without what gives access: scheme and host only.
impl fmt::Display for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.kind.as_str())?;
        match &self.target {
            Target::Variable(name) => write!(f, "${name}"),
            Target::Url(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let host = authority.rsplit('@').next().unwrap_or_default();
                write!(f, "{scheme}://{host}/…")
            }
        }
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({self})")
    }
}

/// A span of the day, over midnight where it ends before it begins: `22:00-07:00`. The end is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietHours {
    from: Time,
    to: Time,
}

impl QuietHours {
    /// Whether a time of day is in it.
    #[must_use]
    pub fn contains(self, time: Time) -> bool {
        if self.from <= self.to {
            self.from <= time && time < self.to
        } else {
            self.from <= time || time < self.to
        }
    }
}

impl FromStr for QuietHours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
        };
        let span = text.split_once('-').and_then(|(from, to)| Some((time(from)?, time(to)?)));
        match span {
            Some((from, to)) if from != to => Ok(QuietHours { from, to }),
            _ => Err("two different times of day, as in `22:00-07:00`".to_owned()),
        }
    }
}

impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from, self.to);
        write!(f, "{:02}:{:02}-{:02}:{:02}", from.hour(), from.minute(), to.hour(), to.minute())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks() {
        for (text, expected) in [
            ("https://hooks.slack.com/services/T0/B0/secret", Ok("slack=https://hooks.slack.com/…")),
            ("https://discord.com/api/webhooks/1/secret", Ok("discord=https://discord.com/…")),
            ("https://ntfy.sh/my-nights", Ok("ntfy=https://ntfy.sh/…")),
            ("https://me:secret@example.org:8443/hook?k=secret", Ok("json=https://example.org:8443/…")),
            ("slack=https://chat.example.org/hooks/secret", Ok("slack=https://chat.example.org/…")),
            ("ntfy=$NTFY_URL", Ok("ntfy=$NTFY_URL")),
            ("$SLACK_URL", Err("say whose it is: slack=$SLACK_URL, discord=…, ntfy=… or json=…")),
            ("slack=$", Err("that is no name of a variable")),
            ("slack=$A B", Err("that is no name of a variable")),
            ("ftp://example.org/x", Err("an address begins with https:// or http://")),
            ("teams=https://example.org", Err("an address begins with https:// or http://")),
            ("https://", Err("the address has no host")),
            ("https://example.org/a\nurl = file:///etc/passwd", Err("the address has blanks in it")),
        ] {
            let parsed = text.parse::<Webhook>();
            assert_eq!(
                parsed.map(|webhook| webhook.to_string()),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{text}"
            );
        }
        let debug = format!("{:?}", "https://hooks.slack.com/services/secret".parse::<Webhook>().unwrap());
        assert!(!debug.contains("secret"), "{debug}");
    }

    #[test]
    fn quiet_hours_may_span_midnight() {
        let time = |hour, minute| Time::new(hour, minute, 0, 0).unwrap();
        let night: QuietHours = "22:00-07:00".parse().unwrap();
        let noon: QuietHours = "12:00 - 13:30".parse().unwrap();
        for (hours, at, inside) in [
            (night, time(22, 0), true),
            (night, time(23, 59), true),
            (night, time(0, 0), true),
            (night, time(6, 59), true),
            (night, time(7, 0), false),
            (night, time(12, 0), false),
            (noon, time(12, 0), true),
            (noon, time(13, 29), true),
            (noon, time(13, 30), false),
            (noon, time(0, 0), false),
        ] {
            assert_eq!(hours.contains(at), inside, "{hours} {at}");
        }
        assert_eq!(noon.to_string(), "12:00-13:30");
        for wrong in ["", "22:00", "22-7", "22:00-24:00", "22:00-22:00", "22:00-07:60", "a:b-c:d", "-"] {
            assert!(wrong.parse::<QuietHours>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for kind in NoticeKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(
            "end".parse::<NoticeKind>().unwrap_err(),
            "it is none of started, done, stopped, blocked, limit-wait, healed"
        );
    }
}
