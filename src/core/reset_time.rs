//! When a usage limit resets, from the words of the limit.
//!
//! The structured event says it as a number ([`super::fact::RateLimit`]) and is always preferred; this is for
//! limits that came without one, in the wordings of field-reports E01. The words come from error results and
//! synthetic messages only ([`super::judge::limit_words`]), never from prose.
//!
//! A wrong time costs a night, no time costs a few cheap questions. So a clause is only believed when every
//! word of it is understood; anything doubtful is `None`, and the caller asks again with growing pauses:
//!
//! ```text
//! resets [at|on] TIME|WEEKDAY|DATE|ZONE… (in any order, each at most once, a time among them)
//! resets in 2 hours 30 minutes            …limit reached|1762952400
//! ```
//!
//! Pitfalls (field-reports E05): the named zone counts, not the machine's; a clock time is the *next* such
//! time there, unless it has only just passed; on the night the clocks go back it is the later of the two;
//! between "AM" and its number there may be a narrow no-break space.

use std::time::Duration;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

/// A time that passed no longer ago than this has "just passed": it is now, not tomorrow.
pub const JUST_PASSED: Duration = Duration::from_mins(10);
/// No window is longer than a week; a day of slack (recovery §4.5).
const LONGEST_WINDOW: Duration = Duration::from_hours(8 * 24);
/// The session window has five hours; an hour of slack (field-reports E05).
const SESSION_WINDOW: Duration = Duration::from_hours(6);
/// A clause is a few words.
const CLAUSE_LIMIT: usize = 120;
/// The words of a limit are a line or two.
const TEXT_LIMIT: usize = 4096;

/// When the limit that `text` speaks of resets: at most eight days ahead, or just passed. `None` when the text
/// does not say so beyond doubt. A time without a zone is one of `local`.
#[must_use]
pub fn reset_time(text: &str, now: Timestamp, local: &TimeZone) -> Option<Timestamp> {
    let text: String = text.chars().take(TEXT_LIMIT).collect::<String>().to_ascii_lowercase();
    let mut found: Option<Timestamp> = None;
    let said = epochs(&text).chain(clauses(&text).map(|clause| of_clause(clause, now, local)));
    for said in said {
        match said {
            Said::Nothing => {}
            Said::Doubtful => return None,
            // Two times: which of them is the one that counts is not for us to guess.
            Said::At(at) if found.is_some_and(|before| before != at) => return None,
            Said::At(at) => found = Some(at),
        }
    }
    // A session limit that seems to reset tomorrow has reset already, or the zone is not what we think.
    let session = text.contains("session limit") || text.contains("5-hour limit");
    let horizon = if session { SESSION_WINDOW } else { LONGEST_WINDOW };
    found.filter(|at| (earliest(now)..=now.saturating_add(horizon).unwrap_or(now)).contains(at))
}

/// What a part of the text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// It is not about a time.
    Nothing,
    /// It may be about a time, and we do not understand it.
    Doubtful,
    At(Timestamp),
}

fn earliest(now: Timestamp) -> Timestamp {
    now.saturating_sub(JUST_PASSED).unwrap_or(now)
}

/// The old wording: `Claude AI usage limit reached|1762952400`, also in milliseconds.
fn epochs(text: &str) -> impl Iterator<Item = Said> + '_ {
    text.split('|').skip(1).map(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        if after.starts_with(char::is_alphanumeric) {
            return Said::Nothing;
        }
        let at = number.parse::<i64>().ok().and_then(|number| match digits {
            10 => Timestamp::from_second(number).ok(),
            13 => Timestamp::from_millisecond(number).ok(),
            _ => None,
        });
        at.map_or(Said::Nothing, Said::At)
    })
}

/// What follows each "resets", to the end of the clause.
fn clauses(text: &str) -> impl Iterator<Item = &str> {
    ["reset", "try again"].into_iter().flat_map(move |anchor| {
        text.match_indices(anchor).filter_map(move |(at, _)| {
            let rest = &text[at + anchor.len()..];
            let rest = rest.strip_prefix('s').unwrap_or(rest);
            let word =
                !text[..at].ends_with(char::is_alphanumeric) && !rest.starts_with(char::is_alphanumeric);
            word.then(|| clause(rest.strip_prefix(':').unwrap_or(rest)))
        })
    })
}

fn clause(rest: &str) -> &str {
    let end = rest
        .char_indices()
        .enumerate()
        .find(|(count, (at, c))| {
            matches!(c, '\n' | '·' | '∙' | '•' | '|' | ';' | '–' | '—')
                // A slash command, not a zone.
                || (*c == '/' && rest[..*at].ends_with(char::is_whitespace))
                || *count == CLAUSE_LIMIT
        })
        .map_or(rest.len(), |(_, (at, _))| at);
    &rest[..end]
}

fn of_clause(clause: &str, now: Timestamp, local: &TimeZone) -> Said {
    let words = words(clause);
    // "resets in 3 hours"
    let at = match words.split_first() {
        Some((&"in", duration)) => of_duration(duration).and_then(|after| now.checked_add(after).ok()),
        Some(_) => Stated::read(&words, now, local).and_then(|stated| stated.resolve(now, local)),
        None => None,
    };
    match at {
        Some(at) => Said::At(at),
        None if clause.contains(|c: char| c.is_ascii_digit()) => Said::Doubtful,
        None => Said::Nothing,
    }
}

/// The words of the clause, without punctuation, to the end of the sentence or of an enclosing bracket. A zone
/// keeps no bracket: every word has to be understood anyway.
fn words(clause: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut open = false;
    for word in clause.split(|c: char| c.is_whitespace() || c == ',') {
        let (word, opens) = match word.strip_prefix('(') {
            Some(word) => (word, true),
            None => (word, false),
        };
        open |= opens;
        let bare = word.trim_end_matches([')', '.', '!', '?']);
        let ends_sentence =
            word[bare.len()..].contains(['.', '!', '?']) && !bare.ends_with("a.m") && !bare.ends_with("p.m");
        let bare = if let Some(time) = bare.strip_suffix(".m") { time } else { bare };
        if matches!(bare, "or" | "and" | "unless" | "please" | "if" | "-") && !is_duration(&words) {
            break;
        }
        if !bare.is_empty() {
            words.push(bare);
        }
        let closes = word[bare.len()..].contains(')');
        if ends_sentence || (closes && !open) {
            break;
        }
        open &= !closes;
    }
    words
}

fn is_duration(words: &[&str]) -> bool {
    words.first() == Some(&"in")
}

/// `3 hours`, `2h 30m`, `1 day and 4 hours`, `an hour`.
fn of_duration(words: &[&str]) -> Option<SignedDuration> {
    let mut total: i64 = 0;
    let mut number: Option<i64> = None;
    let mut units = 0;
    for word in words.iter().filter(|word| **word != "and") {
        // `2h30m` is several of them.
        let mut rest = *word;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let letters = rest[digits..].bytes().take_while(u8::is_ascii_lowercase).count();
            if digits > 0 {
                if number.is_some() || digits > 6 {
                    return None;
                }
                number = rest[..digits].parse().ok();
            }
            match &rest[digits..digits + letters] {
                "" if digits > 0 => {}
                "a" | "an" if digits == 0 && number.is_none() => number = Some(1),
                unit => {
                    let seconds = match unit {
                        "s" | "sec" | "secs" | "second" | "seconds" => 1,
                        "m" | "min" | "mins" | "minute" | "minutes" => 60,
                        "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
                        "d" | "day" | "days" => 24 * 3600,
                        _ => return None,
                    };
                    total += number.take()? * seconds;
                    units += 1;
                }
            }
            rest = &rest[digits + letters..];
        }
    }
    (number.is_none() && units > 0).then(|| SignedDuration::from_secs(total))
}

/// What a clause states, each thing once.
#[derive(Debug, Default)]
struct Stated {
    time: Option<Time>,
    weekday: Option<Weekday>,
    /// Month and day.
    day: Option<(i8, i8)>,
    year: Option<i16>,
    /// Days from today.
    days_ahead: Option<i64>,
    zone: Option<TimeZone>,
    instant: Option<Timestamp>,
}

impl Stated {
    /// `None` when a word is not understood, or says again what was said.
    fn read(words: &[&str], now: Timestamp, local: &TimeZone) -> Option<Stated> {
        let mut stated = Stated::default();
        let mut at = 0;
        while let Some(&word) = words.get(at) {
            let next = words.get(at + 1).copied();
            at += 1;
            if matches!(word, "at" | "on") {
                continue;
            }
            if let Some((time, both)) = clock_time(word, next) {
                once(&mut stated.time, time)?;
                at += usize::from(both);
            } else if let Some(weekday) = weekday(word) {
                once(&mut stated.weekday, weekday)?;
            } else if let Some(month) = month(word) {
                once(&mut stated.day, (month, day_of_month(next?)?))?;
                at += 1;
            } else if let (Some(day), Some(month)) = (day_of_month(word), next.and_then(month)) {
                once(&mut stated.day, (month, day))?;
                at += 1;
            } else if let (4, Ok(year), true) = (word.len(), word.parse::<i16>(), stated.day.is_some()) {
                once(&mut stated.year, year)?;
            } else if matches!(word, "today" | "tomorrow") {
                once(&mut stated.days_ahead, i64::from(word == "tomorrow"))?;
            } else if let (10, Ok(date)) = (word.len(), word.parse::<Date>()) {
                once(&mut stated.day, (date.month(), date.day()))?;
                once(&mut stated.year, date.year())?;
            } else if let Ok(instant) = word.parse::<Timestamp>() {
                once(&mut stated.instant, instant)?;
            } else {
                once(&mut stated.zone, zone(word, now, local)?)?;
            }
        }
        Some(stated)
    }

    fn resolve(self, now: Timestamp, local: &TimeZone) -> Option<Timestamp> {
        let Stated { time, weekday, day, year, days_ahead, zone, instant } = self;
        if let Some(instant) = instant {
            let alone = time.is_none() && weekday.is_none() && day.is_none() && days_ahead.is_none();
            return (alone && zone.is_none()).then_some(instant);
        }
        let time = time?;
        let zone = zone.unwrap_or_else(|| local.clone());
        let today = zone.to_datetime(now).date();
        // Yesterday, too: two minutes after midnight, 11:58pm has just passed. A little farther than any
        // window, so that a day of the month needs no rule of its own for the turn of the year.
        (-1..=9)
            .filter(|ahead| days_ahead.is_none_or(|days| days == *ahead))
            .filter_map(|ahead| today.checked_add(SignedDuration::from_hours(24 * ahead)).ok())
            .filter(|date| weekday.is_none_or(|weekday| weekday == date.weekday()))
            .filter(|date| day.is_none_or(|day| day == (date.month(), date.day())))
            .filter(|date| year.is_none_or(|year| year == date.year()))
            // Both times there are on the night the clocks go back, and none when they go forward: the later
            // one is never too early.
            .filter_map(|date| zone.to_ambiguous_timestamp(date.to_datetime(time)).later().ok())
            .find(|at| *at >= earliest(now))
    }
}

/// Sets what has not been said yet.
fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    if slot.is_some() {
        return None;
    }
    *slot = Some(value);
    Some(())
}

/// A time of the day, and whether the next word is part of it: `3pm`, `3 pm`, `12:30am`, `15:00`, `9:30 a`(m).
fn clock_time(word: &str, next: Option<&str>) -> Option<(Time, bool)> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let half_of = |suffix| match suffix {
        "a" | "am" => Some(0),
        "p" | "pm" => Some(12),
        _ => None,
    };
    let (half, both) = match (&word[digits.len()..], next) {
        ("", Some(next)) => (half_of(next), half_of(next).is_some()),
        ("", None) => (None, false),
        (suffix, _) => (Some(half_of(suffix)?), false),
    };
    let mut parts = digits.split(':');
    let hour = number(parts.next()?, 1)?;
    let minutes = parts.next();
    let minute = minutes.map_or(Some(0), |part| number(part, 2))?;
    let second = parts.next().map_or(Some(0), |part| number(part, 2))?;
    if parts.next().is_some() {
        return None;
    }
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        // A bare number is no time of the day.
        None if minutes.is_some() => hour,
        Some(_) | None => return None,
    };
    Some((Time::new(hour, minute, second, 0).ok()?, both))
}

/// A number of at most two digits, and at least so many.
fn number(part: &str, least: usize) -> Option<i8> {
    let right = (least..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    right.then(|| part.parse().ok()).flatten()
}

/// `7`, `07`, `7th`.
fn day_of_month(word: &str) -> Option<i8> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|suffix| word.strip_suffix(suffix));
    number(digits.unwrap_or(word), 1).filter(|day| (1..=31).contains(day))
}

fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "mon" | "monday" => Weekday::Monday,
        "tue" | "tues" | "tuesday" => Weekday::Tuesday,
        "wed" | "weds" | "wednesday" => Weekday::Wednesday,
        "thu" | "thur" | "thurs" | "thursday" => Weekday::Thursday,
        "fri" | "friday" => Weekday::Friday,
        "sat" | "saturday" => Weekday::Saturday,
        "sun" | "sunday" => Weekday::Sunday,
        _ => return None,
    })
}

fn month(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let month = MONTHS.iter().position(|name| *name == word || name[..3] == *word);
    let month = month.or((word == "sept").then_some(8))?;
    i8::try_from(month + 1).ok()
}

/// A zone by name, abbreviation or offset. An abbreviation that means several zones is only understood where it
/// is the machine's own.
fn zone(word: &str, now: Timestamp, local: &TimeZone) -> Option<TimeZone> {
    if is_own_abbreviation(word, now, local) {
        return Some(local.clone());
    }
    let hours = match word {
        "utc" | "gmt" | "z" | "zulu" | "wet" => 0,
        "cet" | "mez" | "west" => 1,
        "cest" | "mesz" | "eet" | "sast" => 2,
        "eest" | "msk" => 3,
        "hkt" | "sgt" | "awst" => 8,
        "jst" | "kst" => 9,
        "aest" => 10,
        "aedt" => 11,
        "nzst" => 12,
        "nzdt" => 13,
        "edt" => -4,
        "mdt" => -6,
        "pdt" => -7,
        "akdt" => -8,
        // In the database, and used for other zones as well.
        "est" | "mst" | "hst" | "met" => return None,
        _ => return offset(word).or_else(|| TimeZoneDatabase::bundled().get(word).ok()),
    };
    Some(TimeZone::fixed(Offset::from_hours(hours).ok()?))
}

/// The local zone's abbreviation, of now or of after its next change.
fn is_own_abbreviation(word: &str, now: Timestamp, local: &TimeZone) -> bool {
    let is = |abbreviation: &str| abbreviation.eq_ignore_ascii_case(word);
    is(local.to_offset_info(now).abbreviation())
        || local.following(now).next().is_some_and(|change| is(change.abbreviation()))
}

/// `utc+2`, `gmt-05:30`, `+0200`.
fn offset(word: &str) -> Option<TimeZone> {
    let signed = word.strip_prefix("utc").or_else(|| word.strip_prefix("gmt")).unwrap_or(word);
    let (sign, value) = match signed.split_at_checked(1)? {
        ("+", value) => (1, value),
        ("-" | "−", value) => (-1, value),
        _ => return None,
    };
    let (hours, minutes) = match (value.split_once(':'), value.len()) {
        (Some(parts), _) => parts,
        (None, 4) => value.split_at_checked(2)?,
        (None, _) => (value, "00"),
    };
    let (hours, minutes) = (i32::from(number(hours, 1)?), i32::from(number(minutes, 2)?));
    if hours > 14 || minutes > 59 {
        return None;
    }
    Some(TimeZone::fixed(Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?))
}

#[cfg(test)]
mod tests;
