//! A time of day on some days of the week, as `01:17 mon-fri`.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Time, Weekday};
use jiff::{Timestamp, ToSpan as _, ZonedDateTime};

/// Words of the days, Monday first.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// When a job begins, in local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    time: Time,
    /// Monday first; at least one is true.
    days: [bool; 7],
}

impl Slot {
    /// From a time of day (`01:17`) and days (`daily`, `mon-fri`, `sat,sun`).
    ///
    /// # Errors
    /// What would be taken.
    pub fn parse(time: &str, days: &str) -> Result<Slot, String> {
        let parsed = time
            .split_once(':')
            .and_then(|(hour, minute)| Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok());
        let time = parsed.ok_or_else(|| format!("`{time}` is no time of day such as 01:17"))?;
        Ok(Slot { time, days: parse_days(days)? })
    }

    /// The time, as `01:17`.
    #[must_use]
    pub fn time_text(&self) -> String {
        format!("{:02}:{:02}", self.time.hour(), self.time.minute())
    }

    /// The days, as [`Slot::parse`] reads them.
    #[must_use]
    pub fn days_text(&self) -> String {
        match self.days {
            days if days.iter().all(|day| *day) => "daily".to_owned(),
            [true, true, true, true, true, false, false] => "mon-fri".to_owned(),
            _ => self.day_words().join(","),
        }
    }

    /// Hour and minute.
    #[must_use]
    pub fn hour_minute(&self) -> (i8, i8) {
        (self.time.hour(), self.time.minute())
    }

    /// Whether it is every day.
    #[must_use]
    pub fn is_daily(&self) -> bool {
        self.days.iter().all(|day| *day)
    }

    fn day_words(&self) -> Vec<&'static str> {
        DAYS.into_iter().zip(self.days).filter(|(_, on)| *on).map(|(word, _)| word).collect()
    }

    /// The days as systemd wants them: `Mon,Tue`.
    #[must_use]
    pub fn capital_days(&self) -> String {
        let capital = |word: &str| format!("{}{}", word[..1].to_uppercase(), &word[1..]);
        self.day_words().into_iter().map(capital).collect::<Vec<_>>().join(",")
    }

    /// The days as cron and launchd count them: Sunday is 0. Empty = every day.
    #[must_use]
    pub fn numbers_from_sunday(&self) -> Vec<usize> {
        if self.is_daily() {
            return Vec::new();
        }
        let mut numbers: Vec<usize> =
            self.days.iter().enumerate().filter(|(_, on)| **on).map(|(day, _)| (day + 1) % 7).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The fields of a crontab.
    #[must_use]
    pub fn cron(&self) -> String {
        let days = self.numbers_from_sunday();
        let days = match days[..] {
            [] => "*".to_owned(),
            [1, 2, 3, 4, 5] => "1-5".to_owned(),
            _ => days.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        };
        format!("{} {} * * {days}", self.time.minute(), self.time.hour())
    }

    /// The same instant in UTC, at the offset that holds at `now`. Days move along over midnight.
    #[must_use]
    pub fn in_utc(&self, now: &ZonedDateTime) -> Slot {
        let local = i32::from(self.time.hour()) * 60 + i32::from(self.time.minute());
        let minutes = local - now.offset().seconds() / 60;
        let (shift, minute) = (minutes.div_euclid(24 * 60), minutes.rem_euclid(24 * 60));
        let mut days = [false; 7];
        for (day, _) in self.days.iter().enumerate().filter(|(_, on)| **on) {
            let day = i32::try_from(day).unwrap_or_default();
            days[usize::try_from((day + shift).rem_euclid(7)).unwrap_or_default()] = true;
        }
        let part = |number: i32| i8::try_from(number).unwrap_or_default();
        Slot { time: Time::constant(part(minute / 60), part(minute % 60), 0, 0), days }
    }

    /// The latest slot up to now; where a clock jumps over it, the moment after the jump counts.
    #[must_use]
    pub fn latest(&self, now: &ZonedDateTime) -> Option<Timestamp> {
        (0..=7).find_map(|back| self.on(now, -back).filter(|at| *at <= now.timestamp()))
    }

    /// The first slot after now.
    #[must_use]
    pub fn next(&self, now: &ZonedDateTime) -> Option<Timestamp> {
        (0..=7).find_map(|ahead| self.on(now, ahead).filter(|at| *at > now.timestamp()))
    }

    /// Its instant some days away from the day of `now`, if that day is one of its days.
    fn on(&self, now: &ZonedDateTime, days: i64) -> Option<Timestamp> {
        let date = now.date().checked_add(days.days()).ok()?;
        if !self.days[index(date.weekday())] {
            return None;
        }
        Some(date.to_datetime(self.time).to_zoned_datetime(now.time_zone().clone()).ok()?.timestamp())
    }
}

fn index(day: Weekday) -> usize {
    usize::try_from(day.to_monday_zero_offset()).unwrap_or_default()
}

fn parse_days(text: &str) -> Result<[bool; 7], String> {
    let text = text.trim().to_lowercase();
    if matches!(text.as_str(), "daily" | "*") {
        return Ok([true; 7]);
    }
    let wrong = || format!("`{text}` is none of daily, mon-fri, sat,sun and the like");
    let day = |word: &str| DAYS.iter().position(|day| *day == word.trim()).ok_or_else(wrong);
    let mut days = [false; 7];
    for part in text.split(',') {
        let (from, to) = match part.split_once('-') {
            Some((from, to)) => (day(from)?, day(to)?),
            None => (day(part)?, day(part)?),
        };
        // `sat-mon` goes over the end of the week.
        let length = (to + 7 - from) % 7;
        for offset in 0..=length {
            days[(from + offset) % 7] = true;
        }
    }
    Ok(days)
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.time_text(), self.days_text())
    }
}

impl FromStr for Slot {
    type Err = String;

    fn from_str(text: &str) -> Result<Slot, String> {
        let (time, days) = text.split_once(' ').unwrap_or((text, "daily"));
        Slot::parse(time, days)
    }
}

/// For `#[serde(with)]`: a slot is a text.
pub(super) mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    use super::Slot;

    pub(in super::super) fn serialize<S: Serializer>(slot: &Slot, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(slot)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Slot, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(text: &str) -> Slot {
        text.parse().unwrap()
    }

    #[test]
    fn words() {
        for (text, shown, cron, capital) in [
            ("01:17", "01:17 daily", "17 1 * * *", "Mon,Tue,Wed,Thu,Fri,Sat,Sun"),
            ("1:7 mon-fri", "01:07 mon-fri", "7 1 * * 1-5", "Mon,Tue,Wed,Thu,Fri"),
            ("23:00 sat,sun", "23:00 sat,sun", "0 23 * * 0,6", "Sat,Sun"),
            ("23:00 Fri-Mon", "23:00 mon,fri,sat,sun", "0 23 * * 0,1,5,6", "Mon,Fri,Sat,Sun"),
            ("00:00 wed", "00:00 wed", "0 0 * * 3", "Wed"),
        ] {
            let slot = slot(text);
            assert_eq!(
                (slot.to_string(), slot.cron(), slot.capital_days()),
                (shown.into(), cron.into(), capital.into())
            );
            assert_eq!(shown.parse(), Ok(slot));
        }
        for wrong in ["", "24:00", "1", "01:60", "01:17 someday", "01:17 mon-", "01:17 ,", "a:b", "-1:00"] {
            assert!(wrong.parse::<Slot>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn latest_and_next() {
        let stamp = |text: &str| -> Option<Timestamp> { Some(text.parse().unwrap()) };
        // 2026-12-01 is a Tuesday.
        for (text, now, latest, next) in [
            ("01:17", "2026-12-01T01:17:00+00:00[UTC]", "2026-12-01T01:17:00Z", "2026-12-02T01:17:00Z"),
            ("01:17 mon", "2026-12-01T01:17:00+00:00[UTC]", "2026-11-30T01:17:00Z", "2026-12-07T01:17:00Z"),
            ("01:17 tue", "2026-12-01T01:16:00+00:00[UTC]", "2026-11-24T01:17:00Z", "2026-12-01T01:17:00Z"),
            // Spring forward: 02:30 does not exist on 29 March and is 03:30 then.
            (
                "02:30",
                "2026-03-29T12:00:00+02:00[Europe/Berlin]",
                "2026-03-29T01:30:00Z",
                "2026-03-30T00:30:00Z",
            ),
            // Fall back: 02:30 is there twice; the first counts, and it is one slot.
            (
                "02:30",
                "2026-10-25T02:45:00+01:00[Europe/Berlin]",
                "2026-10-25T00:30:00Z",
                "2026-10-26T01:30:00Z",
            ),
        ] {
            let now: ZonedDateTime = now.parse().unwrap();
            assert_eq!(
                (slot(text).latest(&now), slot(text).next(&now)),
                (stamp(latest), stamp(next)),
                "{text} {now}"
            );
        }
    }

    #[test]
    fn in_utc_days_move_along() {
        let berlin: ZonedDateTime = "2026-12-01T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let los_angeles: ZonedDateTime = "2026-12-01T12:00:00-08:00[America/Los_Angeles]".parse().unwrap();
        assert_eq!(slot("00:30 mon").in_utc(&berlin).to_string(), "23:30 sun");
        assert_eq!(slot("23:30 sun").in_utc(&los_angeles).to_string(), "07:30 mon");
        assert_eq!(slot("01:17").in_utc(&berlin).to_string(), "00:17 daily");
    }
}
