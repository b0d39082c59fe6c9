//! One message over one channel: which program, which arguments, what on its standard input.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::curl;
use super::notice::Notice;
use crate::core::notice::{Target, Urgency, Webhook, WebhookKind, check_url};
use crate::process::{CaptureError, CaptureSpec, capture};

/// Longest delivery. Whoever takes longer is ended, with all it started.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);
/// Characters that Discord takes in one message are 2,000.
const DISCORD_MAX: usize = 1_900;
/// Far below what the others take.
const CHAT_MAX: usize = 3_000;
/// Where `sendmail` is when it is not on `PATH`: cron's has neither folder.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// Where messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// A shell command that gets the notice as JSON on its standard input.
    Command(String),
    /// A web service, by `curl`.
    Webhook(Webhook),
    /// The desktop of this user: `notify-send`, or `osascript` on macOS.
    Desktop,
    /// Mail to this address, by `sendmail`.
    Mail(String),
}

/// Without what is secret: a command may hold a token.
impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Channel::Command(_) => f.write_str("command"),
            Channel::Webhook(webhook) => write!(f, "{webhook}"),
            Channel::Desktop => f.write_str("desktop"),
            Channel::Mail(_) => f.write_str("mail"),
        }
    }
}

impl Channel {
    /// Delivers a message.
    ///
    /// # Errors
    /// Why it was not delivered, in words, without what is secret.
    pub async fn deliver(
        &self,
        notice: &Notice,
        root: &Path,
        environment: &[(OsString, OsString)],
    ) -> Result<(), String> {
        let spec = self.spec(notice, root, environment)?;
        let program = spec.program.display().to_string();
        match capture(&spec).await {
            Ok(captured) if captured.exit.success() => Ok(()),
            Ok(captured) => {
                let words = String::from_utf8_lossy(&captured.stderr);
                let words = words.trim().lines().last().unwrap_or_default().trim().to_owned();
                let words = self.without_secrets(&words, environment);
                let colon = if words.is_empty() { "" } else { ": " };
                Err(format!("{program} ended with {}{colon}{words}", captured.exit))
            }
            Err(CaptureError::Spawn(_)) => Err(format!("{program} cannot be started; is it installed?")),
            Err(error) => Err(error.to_string()),
        }
    }

    fn without_secrets(&self, words: &str, environment: &[(OsString, OsString)]) -> String {
        match self {
            Channel::Webhook(webhook) => match address(webhook, environment) {
                Ok(url) => words.replace(&url, "…"),
                Err(_) => words.to_owned(),
            },
            _ => words.to_owned(),
        }
    }

    fn spec(
        &self,
        notice: &Notice,
        root: &Path,
        environment: &[(OsString, OsString)],
    ) -> Result<CaptureSpec, String> {
        let document = || serde_json::to_string(notice).map_err(|error| error.to_string());
        let (program, args, input): (&str, Vec<OsString>, Option<String>) = match self {
            Channel::Command(command) => {
                ("/bin/sh", vec!["-c".into(), command.into()], Some(format!("{}\n", document()?)))
            }
            Channel::Webhook(webhook) => {
                let url = address(webhook, environment)?;
                let (url, body) = match webhook.kind {
                    WebhookKind::Json => (url, document()?),
                    WebhookKind::Slack => (url, slack(notice)),
                    WebhookKind::Discord => (url, discord(notice)),
                    WebhookKind::Ntfy => ntfy(&url, notice)?,
                };
                ("curl", vec!["--config".into(), "-".into()], Some(curl::post(&url, &body)))
            }
            Channel::Desktop if cfg!(target_os = "macos") => {
                // As arguments, so that nothing of the text is a script.
                let script = [
                    "on run argv",
                    "display notification (item 2 of argv) with title (item 1 of argv)",
                    "end run",
                ];
                let mut args: Vec<OsString> =
                    script.iter().flat_map(|line| [OsString::from("-e"), OsString::from(line)]).collect();
                args.extend([notice.title.clone().into(), notice.text.clone().into()]);
                ("osascript", args, None)
            }
            Channel::Desktop => {
                let urgency = match notice.urgency {
                    Urgency::Low => "--urgency=low",
                    Urgency::Normal => "--urgency=normal",
                    Urgency::High => "--urgency=critical",
                };
                let args = ["--app-name=autopilot".into(), urgency.into(), "--".into()];
                let text = [notice.title.clone().into(), notice.text.clone().into()];
                ("notify-send", args.into_iter().chain(text).collect(), None)
            }
            Channel::Mail(address) => {
                let on_path = on_path("sendmail", environment);
                let elsewhere = SENDMAIL.into_iter().find(|path| Path::new(path).exists());
                let program = if on_path { "sendmail" } else { elsewhere.unwrap_or("sendmail") };
                (program, vec!["-t".into(), "-i".into()], Some(mail(address, notice)))
            }
        };
        let mut spec = CaptureSpec::new(program, root);
        spec.args = args;
        spec.env = Some(environment.to_vec());
        spec.env_set = vec![("AUTOPILOT_NOTIFY_EVENT".into(), notice.kind.as_str().into())];
        if let Channel::Desktop = self {
            spec.env_set.extend(session_bus(environment));
        }
        spec.stdin = input.map(String::into_bytes);
        spec.timeout = TIMEOUT;
        spec.max_output = 8 << 10;
        Ok(spec)
    }
}

/// The address of a webhook.
fn address(webhook: &Webhook, environment: &[(OsString, OsString)]) -> Result<String, String> {
    match &webhook.target {
        Target::Url(url) => Ok(url.clone()),
        Target::Variable(name) => {
            let value = variable(environment, name).and_then(|value| value.to_str());
            let url = value.ok_or_else(|| format!("the variable {name} is not set"))?.trim();
            check_url(url).map_err(|why| format!("the variable {name}: {why}"))?;
            Ok(url.to_owned())
        }
    }
}

fn variable<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsString> {
    environment.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
}

fn on_path(program: &str, environment: &[(OsString, OsString)]) -> bool {
    variable(environment, "PATH")
        .is_some_and(|path| std::env::split_paths(path).any(|folder| folder.join(program).is_file()))
}

/// A job of cron has no session bus; the one of the user is at a known place.
fn session_bus(environment: &[(OsString, OsString)]) -> Option<(OsString, OsString)> {
    const NAME: &str = "DBUS_SESSION_BUS_ADDRESS";
    if variable(environment, NAME).is_some() {
        return None;
    }
    let bus = format!("/run/user/{}/bus", rustix::process::getuid().as_raw());
    Path::new(&bus).exists().then(|| (NAME.into(), format!("unix:path={bus}").into()))
}

fn shortened(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(max).collect();
    out.push('…');
    out
}

/// Slack reads `<…>` and `&` as its own; everything else is text.
fn slack(notice: &Notice) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text = format!("*{}*\n{}", escaped(&notice.title), escaped(&shortened(&notice.text, CHAT_MAX)));
    json!({ "text": text }).to_string()
}

/// Nobody is mentioned, whatever a session wrote.
fn discord(notice: &Notice) -> String {
    let content = shortened(&format!("**{}**\n{}", notice.title, notice.text), DISCORD_MAX);
    json!({ "content": content, "allowed_mentions": { "parse": [] } }).to_string()
}

/// Publishing as JSON goes to the root of the server, with the topic in the document: headers take no UTF-8.
fn ntfy(url: &str, notice: &Notice) -> Result<(String, String), String> {
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let (root, topic) = address
        .trim_end_matches('/')
        .rsplit_once('/')
        .filter(|(root, topic)| !topic.is_empty() && !root.ends_with('/'))
        .ok_or("the address of ntfy has no topic")?;
    let priority = match notice.urgency {
        Urgency::Low => 2,
        Urgency::Normal => 3,
        Urgency::High => 4,
    };
    let body = json!({
        "topic": topic,
        "title": notice.title,
        "message": shortened(&notice.text, CHAT_MAX),
        "priority": priority,
    });
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Ok((format!("{root}/{query}"), body.to_string()))
}

/// A whole message, header and body, with one address.
fn mail(address: &str, notice: &Notice) -> String {
    format!(
        "To: {address}\nSubject: {}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{}\n\n-- \n{} on {}\n",
        encoded(&notice.title),
        notice.text,
        notice.source.repository,
        notice.source.host
    )
}

/// A header value: as it is, or as RFC 2047 wants what is not ASCII, in words of at most 75 characters.
fn encoded(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.is_ascii() {
        return clean;
    }
    let mut words = Vec::new();
    let mut word = String::new();
    for c in clean.chars() {
        let mut buffer = [0; 4];
        let mut bytes = String::new();
        for byte in c.encode_utf8(&mut buffer).bytes() {
            // Writing to a string cannot fail.
            _ = write!(bytes, "={byte:02X}");
        }
        // `=?utf-8?Q?` and `?=` take 12, and the first one stands behind `Subject: `.
        if word.len() + bytes.len() > 54 {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c);
        } else {
            word.push_str(&bytes);
        }
    }
    words.push(word);
    words.iter().map(|word| format!("=?utf-8?Q?{word}?=")).collect::<Vec<_>>().join("\n ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::notice::NoticeKind;
    use crate::notify::notice::tests::notice;

    fn spec(channel: &Channel, notice: &Notice, environment: &[(&str, &str)]) -> Result<CaptureSpec, String> {
        let environment: Vec<(OsString, OsString)> =
            environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        channel.spec(notice, Path::new("/srv/app"), &environment)
    }

    fn input(spec: &CaptureSpec) -> String {
        String::from_utf8(spec.stdin.clone().unwrap_or_default()).unwrap()
    }

    fn nasty() -> Notice {
        Notice {
            title: "app: stopped <!channel>".to_owned(),
            text: "it said \"@everyone\" & more\nnext: autopilot resume x".to_owned(),
            ..notice(NoticeKind::Stopped, Urgency::High)
        }
    }

    #[test]
    fn a_command_gets_the_document() {
        let spec = spec(&Channel::Command("cat > \"$F\"".to_owned()), &nasty(), &[]).unwrap();
        assert_eq!(spec.program, Path::new("/bin/sh"));
        let document: serde_json::Value = serde_json::from_str(&input(&spec)).unwrap();
        assert_eq!(
            (&document["event"], &document["urgency"], &document["v"]),
            (&json!("stopped"), &json!("high"), &json!(1))
        );
        assert_eq!(document["run_id"], "main-2026-12-01-0300");
    }

    #[test]
    fn bodies_of_web_services() {
        let body = |text: &str| {
            let spec = spec(&Channel::Webhook(text.parse().unwrap()), &nasty(), &[]).unwrap();
            assert_eq!(spec.args, ["--config", "-"]);
            let config = input(&spec);
            let line = |name: &str| {
                let line = config.lines().find_map(|line| line.strip_prefix(&format!("{name} = "))).unwrap();
                serde_json::from_str::<String>(line).unwrap()
            };
            (line("url"), serde_json::from_str::<serde_json::Value>(&line("data-raw")).unwrap())
        };
        let (url, slack) = body("https://hooks.slack.com/services/T/B/x");
        assert_eq!(url, "https://hooks.slack.com/services/T/B/x");
        assert_eq!(
            slack["text"],
            "*app: stopped &lt;!channel&gt;*\nit said \"@everyone\" &amp; more\nnext: autopilot resume x"
        );
        let (_, discord) = body("discord=https://example.org/x");
        assert_eq!(discord["allowed_mentions"]["parse"], json!([]));
        let (url, ntfy) = body("https://ntfy.sh/nights?auth=x");
        assert_eq!(url, "https://ntfy.sh/?auth=x");
        assert_eq!((&ntfy["topic"], &ntfy["priority"]), (&json!("nights"), &json!(4)));
        let (_, plain) = body("https://example.org/hook");
        assert_eq!(plain["event"], "stopped");
        let no_topic = spec(&Channel::Webhook("https://ntfy.sh".parse().unwrap()), &nasty(), &[]);
        assert_eq!(no_topic.unwrap_err(), "the address of ntfy has no topic");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let long = Notice { text: "ä".repeat(5_000), ..nasty() };
        let body: serde_json::Value = serde_json::from_str(&discord(&long)).unwrap();
        assert_eq!(body["content"].as_str().unwrap().chars().count(), DISCORD_MAX + 1);
    }

    #[test]
    fn the_address_may_be_in_a_variable() {
        let channel = Channel::Webhook("slack=$HOOK".parse().unwrap());
        let found =
            |environment: &[(&str, &str)]| spec(&channel, &nasty(), environment).map(|spec| input(&spec));
        assert!(
            found(&[("HOOK", "https://example.org/secret")])
                .unwrap()
                .contains("url = \"https://example.org/secret\"")
        );
        assert_eq!(found(&[]).unwrap_err(), "the variable HOOK is not set");
        assert_eq!(
            found(&[("HOOK", "example.org/secret")]).unwrap_err(),
            "the variable HOOK: an address begins with https:// or http://"
        );
    }

    #[test]
    fn mail_is_one_message_to_one_address() {
        let tricky = Notice { title: "app: größer\nBcc: everybody@example.org".to_owned(), ..nasty() };
        let mail = mail("me@example.org", &tricky);
        let (header, body) = mail.split_once("\n\n").unwrap();
        assert!(
            header.starts_with("To: me@example.org\nSubject: =?utf-8?Q?app=3A=20gr=C3=B6=C3=9Fer=20Bcc"),
            "{header}"
        );
        assert!(!header.contains("\nBcc"), "{header}");
        assert!(header.lines().all(|line| line.len() <= 78), "{header}");
        assert!(body.starts_with("it said"), "{body}");
        assert_eq!(encoded("plain"), "plain");
    }
}
