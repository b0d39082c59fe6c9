//! Who is told what becomes of a run.

use std::marker::PhantomData;
use std::time::Duration;

use super::{Group, file_only, minutes};
use crate::core::notice::{NoticeKind, QuietHours, Webhook};
use crate::settings::kinds::{Choice, Number, OptionalText, Parsed, ParsedList};

/// A command for each notification.
pub static NOTIFY_COMMAND: OptionalText = OptionalText {
    spec: file_only(
        "notify-command",
        "AUTOPILOT_NOTIFY_COMMAND",
        Group::Notifications,
        "CMD",
        "Shell command that gets each notification as JSON on its standard input",
    ),
    example: "jq -r .title | wall",
};

/// Web services.
pub static NOTIFY_WEBHOOK: ParsedList<Webhook> = ParsedList {
    spec: file_only(
        "notify-webhook",
        "AUTOPILOT_NOTIFY_WEBHOOK",
        Group::Notifications,
        "HOOKS",
        "Web services to post to, by curl: an address, or json=, slack=, discord=, ntfy= before an address or a $VARIABLE \
         that holds it",
    ),
    what: "webhooks",
    example: "slack=$SLACK_WEBHOOK_URL",
    default: &[],
    secret: true,
    meaning: PhantomData,
};

/// The desktop of this user.
pub static NOTIFY_DESKTOP: Choice<bool> = Choice {
    spec: file_only(
        "notify-desktop",
        "AUTOPILOT_NOTIFY_DESKTOP",
        Group::Notifications,
        "WHEN",
        "Notifications on the desktop, by notify-send or osascript",
    ),
    options: &[("off", false), ("on", true)],
};

/// An address for mail.
pub static NOTIFY_MAIL: OptionalText = OptionalText {
    spec: file_only(
        "notify-mail",
        "AUTOPILOT_NOTIFY_MAIL",
        Group::Notifications,
        "ADDRESS",
        "Address that gets each notification as mail, by sendmail",
    ),
    example: "me@example.org",
};

/// What is told.
pub static NOTIFY_ON: ParsedList<NoticeKind> = ParsedList {
    spec: file_only(
        "notify-on",
        "AUTOPILOT_NOTIFY_ON",
        Group::Notifications,
        "KINDS",
        "What to tell: started, done, stopped, blocked (needs a person), limit-wait, healed",
    ),
    what: "kinds of notifications",
    example: "blocked",
    default: &["done", "stopped", "blocked", "limit-wait", "healed"],
    secret: false,
    meaning: PhantomData,
};

/// When nothing is told.
pub static QUIET_HOURS: Parsed<QuietHours> = Parsed {
    spec: file_only(
        "quiet-hours",
        "AUTOPILOT_QUIET_HOURS",
        Group::Notifications,
        "SPAN",
        "Local hours in which nothing is sent but what is urgent; the rest is told with the next message",
    ),
    example: "22:00-07:00",
    meaning: PhantomData,
};

/// Whether what is urgent is told in quiet hours.
pub static QUIET_URGENT: Choice<bool> = Choice {
    spec: file_only(
        "quiet-urgent",
        "AUTOPILOT_QUIET_URGENT",
        Group::Notifications,
        "WHAT",
        "What becomes of urgent notifications in quiet hours: blocked, and stopped by itself",
    ),
    options: &[("send", true), ("hold", false)],
};

/// How long the same is not told again.
pub static NOTIFY_COOLDOWN: Number<Duration> = Number::new(
    file_only(
        "notify-cooldown",
        "AUTOPILOT_NOTIFY_COOLDOWN",
        Group::Notifications,
        "M",
        "Minutes in which the same is not told again, counted from its delivery, over all runs here",
    ),
    15.0,
    0.0,
    10_080.0,
    minutes,
);
