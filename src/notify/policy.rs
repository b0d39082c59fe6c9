//! Whether a notice is sent: pure, with its reason.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Time;

use super::notice::Notice;
use crate::core::notice::{NoticeKind, QuietHours, Urgency};

/// What an operator wants to hear, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The kinds that are told.
    pub on: Vec<NoticeKind>,
    /// When nothing is told.
    pub quiet_hours: Option<QuietHours>,
    /// What is urgent is told all the same.
    pub urgent_always: bool,
    /// How long the same is not told again after it was delivered; zero = it is always told.
    pub cooldown: Duration,
}

/// What becomes of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is sent.
    Send,
    /// Nobody asked for this kind.
    Unwanted,
    /// It is quiet now: told with the next message.
    Quiet,
    /// The same was delivered a moment ago.
    Repeated {
        /// When.
        delivered: Timestamp,
    },
}

/// Decides about one notice on one channel. `time` is the local time of the notice, `delivered` when the same was
/// last delivered on this channel.
#[must_use]
pub fn decide(notice: &Notice, rules: &Rules, time: Time, delivered: Option<Timestamp>) -> Decision {
    if !rules.on.contains(&notice.kind) {
        return Decision::Unwanted;
    }
    if let Some(delivered) = delivered {
        // A clock that was set back leaves a time in the future; that must not silence a channel for ever.
        let since = Duration::try_from(notice.at.duration_since(delivered)).ok();
        if since.is_some_and(|since| since < rules.cooldown) {
            return Decision::Repeated { delivered };
        }
    }
    let quiet = rules.quiet_hours.is_some_and(|hours| hours.contains(time));
    if quiet && !(rules.urgent_always && notice.urgency == Urgency::High) {
        return Decision::Quiet;
    }
    Decision::Send
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::notice::tests::notice;

    #[test]
    fn decisions() {
        let rules = |quiet: Option<&str>, urgent_always| Rules {
            on: vec![NoticeKind::Done, NoticeKind::Blocked, NoticeKind::Healed],
            quiet_hours: quiet.map(|hours| hours.parse().unwrap()),
            urgent_always,
            cooldown: Duration::from_mins(15),
        };
        let night = Some("22:00-07:00");
        let at = |hour| Time::new(hour, 0, 0, 0).unwrap();
        let (done, blocked, healed) = (
            notice(NoticeKind::Done, Urgency::Normal),
            notice(NoticeKind::Blocked, Urgency::High),
            notice(NoticeKind::Healed, Urgency::Low),
        );
        let ago = |seconds: i64| Some(done.at - jiff::SignedDuration::from_secs(seconds));
        let repeated = |seconds| Decision::Repeated { delivered: ago(seconds).unwrap() };
        for (notice, rules, hour, delivered, expected) in [
            (&done, rules(None, true), 3, None, Decision::Send),
            (&notice(NoticeKind::Started, Urgency::Low), rules(None, true), 3, None, Decision::Unwanted),
            (&done, rules(night, true), 3, None, Decision::Quiet),
            (&done, rules(night, true), 8, None, Decision::Send),
            (&blocked, rules(night, true), 3, None, Decision::Send),
            (&blocked, rules(night, false), 3, None, Decision::Quiet),
            (&healed, rules(None, true), 3, ago(899), repeated(899)),
            (&healed, rules(None, true), 3, ago(900), Decision::Send),
            // The clock was set back: delivered in the future.
            (&healed, rules(None, true), 3, ago(-60), Decision::Send),
            // What was told is not held back as well.
            (&done, rules(night, true), 3, ago(1), repeated(1)),
        ] {
            assert_eq!(decide(notice, &rules, at(hour), delivered), expected, "{notice:?} {hour}");
        }
        let no_cooldown = Rules { cooldown: Duration::ZERO, ..rules(None, true) };
        assert_eq!(decide(&healed, &no_cooldown, at(3), ago(0)), Decision::Send);
    }
}
