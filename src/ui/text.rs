//! Words for people: cleaning of foreign text, cutting to a width, and the notation of times and numbers.
//!
//! Texts of models, tools and children are untrusted: printed raw they could move the cursor, retitle the
//! terminal, or reverse what a reader sees. [`one_line`] and [`clean_lines`] remove escape sequences,
//! control characters and invisible direction marks, and every foreign text passes through one of them.
//! A number that was not measured is written `unknown`, never 0 (field-reports M03).

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How text for people is laid out.
#[derive(Debug, Clone)]
pub struct TextOptions {
    /// Columns a line may take; foreign text is cut to fit.
    pub width: usize,
    /// Only ASCII comes out, for `LANG=C` and mail programs that know no UTF-8.
    pub ascii: bool,
    /// Colour codes are wanted.
    pub colour: bool,
    /// Also what matters only when looking for a fault: tool calls, attempts, checks.
    pub verbose: bool,
    /// Zone of the local times.
    pub time_zone: TimeZone,
}

impl TextOptions {
    /// A log file or a mail: 120 columns, no colour, UTC.
    #[must_use]
    pub fn log() -> Self {
        TextOptions { width: 120, ascii: false, colour: false, verbose: false, time_zone: TimeZone::UTC }
    }

    /// `text` in a tone, when colour is wanted.
    #[must_use]
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        match tone.sgr() {
            Some(code) if self.colour => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }

    /// Foreign text as one harmless line of at most `max` columns ([`one_line`]), in ASCII when wanted.
    #[must_use]
    pub fn fit(&self, text: &str, max: usize) -> String {
        if self.ascii {
            // Spelled before it is cut, because spelling may lengthen it.
            one_line(&to_ascii(text), max).replace('…', "~")
        } else {
            one_line(text, max)
        }
    }

    /// A line of a table, cut to the width with its spacing kept. Its cells are clean already.
    #[must_use]
    pub fn fit_table(&self, line: &str) -> String {
        let line = self.spell(line);
        if width(&line) <= self.width {
            return line.into_owned();
        }
        let mut columns = 0;
        let mut out = String::new();
        for c in line.chars() {
            columns += char_width(c);
            if columns + 1 > self.width {
                break;
            }
            out.push(c);
        }
        out.push(if self.ascii { '~' } else { '…' });
        out
    }

    /// Foreign text as harmless lines of at most `max` columns (at least 20), broken between words.
    #[must_use]
    pub fn wrap(&self, text: &str, max: usize) -> Vec<String> {
        let max = max.max(20);
        let text = self.spell(text);
        let mut lines: Vec<String> = Vec::new();
        for word in one_line(&text, usize::MAX).split(' ') {
            let mut word = word;
            match lines.last_mut() {
                Some(line) if width(line) + 1 + width(word) <= max => {
                    line.push(' ');
                    line.push_str(word);
                    continue;
                }
                _ => {}
            }
            // A word that is longer than a line is cut where the line ends.
            loop {
                let mut columns = 0;
                let end = word.char_indices().find(|(_, c)| {
                    columns += char_width(*c);
                    columns > max
                });
                let (now, later) = word.split_at(end.map_or(word.len(), |(at, _)| at));
                lines.push(now.to_owned());
                if later.is_empty() {
                    break;
                }
                word = later;
            }
        }
        lines
    }

    /// One clean line ([`clean_lines`]) broken to at most `max` columns; its indentation is kept.
    #[must_use]
    pub fn wrap_kept(&self, line: &str, max: usize) -> Vec<String> {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        if body.is_empty() {
            return vec![String::new()];
        }
        if indent * 2 > max {
            return self.wrap(line, max);
        }
        let lines = self.wrap(body, max - indent);
        lines.into_iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect()
    }

    /// `text`, spelled in ASCII when that is wanted.
    #[must_use]
    pub fn spell<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.ascii { to_ascii(text) } else { Cow::Borrowed(text) }
    }
}

/// What a piece of text means; the colour follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary.
    Plain,
    /// Of lesser weight: times, details.
    Dim,
    /// A heading.
    Strong,
    /// As hoped.
    Good,
    /// Worth a look.
    Warn,
    /// Wrong.
    Bad,
}

impl Tone {
    fn sgr(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Dim => Some("2"),
            Tone::Strong => Some("1"),
            Tone::Good => Some("32"),
            Tone::Warn => Some("33"),
            Tone::Bad => Some("31"),
        }
    }
}

/// Longest escape string that is recognised as one; an unterminated one costs only its introducer.
const MAX_ESCAPE_CHARS: usize = 4096;

/// The characters of a text that have no effect but to be seen. Newlines and tabs are kept.
struct Visible<'t> {
    rest: &'t str,
}

impl Visible<'_> {
    fn pop(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        Some(next)
    }

    /// After ESC: drops the sequence it introduces.
    fn skip_escape(&mut self) {
        match self.rest.chars().next() {
            Some('[') => {
                self.pop();
                self.skip_csi();
            }
            Some(']' | 'P' | 'X' | '^' | '_') => {
                self.pop();
                self.skip_string();
            }
            Some(' '..='/') => {
                while let Some(' '..='/') = self.rest.chars().next() {
                    self.pop();
                }
                if let Some('0'..='~') = self.rest.chars().next() {
                    self.pop();
                }
            }
            Some('0'..='~') => {
                self.pop();
            }
            _ => {}
        }
    }

    /// After a control sequence introducer: parameters, intermediates and the final character.
    fn skip_csi(&mut self) {
        while let Some(next) = self.rest.chars().next() {
            match next {
                ' '..='?' => {
                    self.pop();
                }
                '@'..='~' => {
                    self.pop();
                    return;
                }
                _ => return,
            }
        }
    }

    /// After the introducer of an operating system command or the like: up to BEL or the terminator.
    fn skip_string(&mut self) {
        let mut escaped = false;
        for (at, next) in self.rest.char_indices().take(MAX_ESCAPE_CHARS) {
            let ends = matches!(next, '\u{7}' | '\u{9c}') || (escaped && next == '\\');
            if ends {
                self.rest = &self.rest[at + next.len_utf8()..];
                return;
            }
            escaped = next == '\u{1b}';
        }
    }
}

impl Iterator for Visible<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            match self.pop()? {
                '\u{1b}' => self.skip_escape(),
                '\u{9b}' => self.skip_csi(),
                '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.skip_string(),
                '\r' => {
                    if !self.rest.starts_with('\n') {
                        return Some('\n');
                    }
                }
                '\u{2028}' | '\u{2029}' | '\u{85}' => return Some('\n'),
                kept @ ('\n' | '\t') => return Some(kept),
                dropped if dropped.is_control() || is_invisible(dropped) => {}
                kept => return Some(kept),
            }
        }
    }
}

/// Characters that change how their neighbours are read, or hide text, without being seen themselves.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Columns a character takes on a terminal; an approximation good enough for cutting and aligning.
fn char_width(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{200c}'
        | '\u{200d}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6ff}'
        | '\u{1f900}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// Columns a text takes on a terminal.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Foreign text as one line of at most `max` columns: escape sequences, control characters and invisible
/// marks removed, white space collapsed, cut between characters with `…`.
#[must_use]
pub fn one_line(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut columns = 0;
    let mut gap = false;
    for c in (Visible { rest: text }) {
        if c.is_whitespace() {
            gap = !out.is_empty();
            continue;
        }
        let needed = char_width(c) + usize::from(gap);
        if columns + needed > max {
            while columns + 1 > max {
                let Some(last) = out.pop() else { return String::new() };
                columns -= char_width(last);
            }
            out.push('…');
            return out;
        }
        if gap {
            out.push(' ');
            gap = false;
        }
        out.push(c);
        columns += needed;
    }
    out
}

/// The last `max_lines` lines of foreign text, cleaned like [`one_line`] but with their spacing kept.
#[must_use]
pub fn clean_lines(text: &str, max_lines: usize) -> Vec<String> {
    let visible: String = Visible { rest: text }.collect();
    let lines: Vec<String> =
        visible.lines().map(|line| line.replace('\t', "    ").trim_end().to_owned()).collect();
    let skip = lines.len().saturating_sub(max_lines);
    lines.into_iter().skip(skip).collect()
}

/// `text` spelled in ASCII: typographic characters become what a typewriter has, the rest `?`.
#[must_use]
pub fn to_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '…' => out.push_str("..."),
            '·' | '–' | '—' | '‐' | '‑' | '•' => out.push('-'),
            '‘' | '’' => out.push('\''),
            '“' | '”' => out.push('"'),
            '→' => out.push_str("->"),
            '×' => out.push('x'),
            '✓' => out.push_str("ok"),
            '\u{a0}' | '\u{202f}' => out.push(' '),
            c if c.is_ascii() => out.push(c),
            c if char_width(c) == 0 => {}
            _ => out.push('?'),
        }
    }
    Cow::Owned(out)
}

/// A running time as `hh:mm:ss`.
#[must_use]
pub fn stopwatch(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A length of time in its two largest units: `12s`, `3m 05s`, `2h 13m`, `1d 4h`.
#[must_use]
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if seconds < 60 {
        format!("{seconds}s")
    } else if minutes < 60 {
        format!("{minutes}m {:02}s", seconds % 60)
    } else if hours < 24 {
        format!("{hours}h {:02}m", minutes % 60)
    } else {
        format!("{days}d {}h", hours % 24)
    }
}

/// [`span`] of a number of seconds; `unknown` for a number that is none.
#[must_use]
pub fn span_of_seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "unknown".to_owned(), span)
}

/// Hours of a budget, without needless digits: `4h`, `0.5h`.
#[must_use]
pub fn hours(hours: f64) -> String {
    format!("{hours}h")
}

/// A count in short notation: `999`, `12.3k`, `1.25M`. Rounded down, so that a budget never looks spent
/// before it is.
#[must_use]
pub fn count(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{}k", fraction(n / 100, 1)),
        1_000_000..1_000_000_000 => format!("{}M", fraction(n / 10_000, 2)),
        _ => format!("{}G", fraction(n / 10_000_000, 2)),
    }
}

/// `n` with its last `places` digits behind a point; trailing zeros left out.
fn fraction(n: u64, places: u32) -> String {
    let unit = 10_u64.pow(places);
    let digits = format!("{}.{:0width$}", n / unit, n % unit, width = places as usize);
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Dollars, or `unknown`. What is not a sum of money (negative, not finite) is unknown (field-reports M03).
#[must_use]
pub fn dollars(sum: Option<f64>) -> String {
    match known_cost(sum) {
        None => "unknown".to_owned(),
        Some(sum) if sum > 0.0 && sum < 0.01 => format!("${sum:.4}"),
        Some(sum) => format!("${sum:.2}"),
    }
}

/// The sum, if it is one: finite and not negative.
#[must_use]
pub fn known_cost(sum: Option<f64>) -> Option<f64> {
    sum.filter(|sum| sum.is_finite() && *sum >= 0.0)
}

/// `1 commit`, `2 commits`.
#[must_use]
pub fn plural(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(n)) }
}

/// A time of day: `03:10:07`.
#[must_use]
pub fn clock(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned_datetime(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// An instant in local time and UTC: `Sun 23 Aug 03:10 CEST (01:10 UTC)`.
#[must_use]
pub fn instant(at: Timestamp, zone: &TimeZone) -> String {
    let local = at.to_zoned_datetime(zone.clone());
    let utc = at.to_zoned_datetime(TimeZone::UTC);
    if local.offset().is_zero() {
        return utc.strftime("%a %d %b %H:%M UTC").to_string();
    }
    let same_day = local.date() == utc.date();
    let utc = utc.strftime(if same_day { "%H:%M UTC" } else { "%a %H:%M UTC" });
    format!("{} ({utc})", local.strftime("%a %d %b %H:%M %Z"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn foreign_text_becomes_one_harmless_line() {
        let check =
            |text: &str, max: usize, expected: &str| assert_eq!(one_line(text, max), expected, "{text:?}");
        check("plain", 80, "plain");
        check("  two\n\n lines\tand a tab ", 80, "two lines and a tab");
        check("\u{1b}[31mred\u{1b}[0m", 80, "red");
        check("\u{1b}[2J\u{1b}[Hgone", 80, "gone");
        check("\u{1b}]0;title\u{7}text", 80, "text");
        check("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", 80, "link");
        check("\u{1b}]never ends", 80, "never ends");
        check("\u{1b}(Bset", 80, "set");
        check("\u{9b}31mred", 80, "red");
        check("a\u{8}\u{7}\u{0}b", 80, "ab");
        check("safe\u{202e}txt.exe", 80, "safetxt.exe");
        check("tail\u{1b}", 80, "tail");
        check("over\rwritten", 80, "over written");
        check("0123456789", 10, "0123456789");
        check("0123456789a", 10, "012345678…");
        check("漢字漢字", 5, "漢字…");
        check("漢字漢字", 8, "漢字漢字");
        check("ab cd", 3, "ab…");
        check("anything", 0, "");
    }

    #[test]
    fn lines_keep_their_spacing_and_the_last_ones_win() {
        assert_eq!(clean_lines("one\n\ttwo\u{1b}[1m \r\nthree\n", 2), ["    two", "three"]);
        assert!(clean_lines("", 5).is_empty());
    }

    #[test]
    fn notation() {
        let seconds = Duration::from_secs;
        assert_eq!(stopwatch(seconds(3_725)), "01:02:05");
        assert_eq!(stopwatch(seconds(360_000)), "100:00:00");
        for (time, expected) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m 00s"),
            (3_599, "59m 59s"),
            (8_000, "2h 13m"),
            (100_000, "1d 3h"),
        ] {
            assert_eq!(span(seconds(time)), expected);
        }
        assert_eq!(span_of_seconds(f64::NAN), "unknown");
        assert_eq!(span_of_seconds(-1.0), "unknown");
        for (n, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1k"),
            (12_345, "12.3k"),
            (999_999, "999.9k"),
            (1_250_000, "1.25M"),
            (u64::MAX, "18446744073.7G"),
        ] {
            assert_eq!(count(n), expected);
        }
        for (sum, expected) in [
            (Some(0.0), "$0.00"),
            (Some(0.0009), "$0.0009"),
            (Some(1.5), "$1.50"),
            (None, "unknown"),
            (Some(f64::NAN), "unknown"),
            (Some(f64::INFINITY), "unknown"),
            (Some(-1.0), "unknown"),
        ] {
            assert_eq!(dollars(sum), expected);
        }
        assert_eq!(plural(1, "commit"), "1 commit");
        assert_eq!(plural(0, "commit"), "0 commits");
        assert_eq!(to_ascii("a…b — “c” é漢"), "a...b - \"c\" ??");
    }

    #[test]
    fn instants_are_local_and_utc() {
        let check = |zone: &str, at: &str, expected: &str| {
            let zone = TimeZone::get(zone).unwrap();
            assert_eq!(instant(at.parse().unwrap(), &zone), expected);
        };
        check("Europe/Berlin", "2026-08-23T01:10:00Z", "Sun 23 Aug 03:10 CEST (01:10 UTC)");
        check("Asia/Tokyo", "2026-08-23T20:00:00Z", "Mon 24 Aug 05:00 JST (Sun 20:00 UTC)");
        check("UTC", "2026-08-23T01:10:00Z", "Sun 23 Aug 01:10 UTC");
    }

    proptest! {
        #[test]
        fn nothing_foreign_moves_the_cursor(text in any::<String>(), max in 0_usize..200) {
            let line = one_line(&text, max);
            prop_assert!(width(&line) <= max);
            prop_assert!(!line.chars().any(|c| c.is_control() || is_invisible(c)));
            prop_assert!(to_ascii(&line).is_ascii());
        }

        #[test]
        fn escapes_of_all_kinds_are_removed(
            text in "([\\x1b\\x9b\\x9d\\x90]|[\\[\\]P;0-9A-Za-z \\\\\\x07\\n])*", max in 0_usize..80,
        ) {
            prop_assert!(!one_line(&text, max).chars().any(char::is_control));
            prop_assert!(clean_lines(&text, 9).iter().all(|line| !line.chars().any(char::is_control)));
        }
    }
}
