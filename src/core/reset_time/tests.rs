//! Every row of field-reports E01, and the arithmetic of E05.

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn tz(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

/// What `text` says at `now`, on a machine in `local`; an empty expectation is "it does not say".
#[track_caller]
fn check_in(local: &str, now: &str, text: &str, expected: &str) {
    let found = reset_time(text, at(now), &tz(local));
    let expected = (!expected.is_empty()).then(|| at(expected));
    assert_eq!(found, expected, "{text:?} at {now} in {local}");
}

#[track_caller]
fn check(now: &str, text: &str, expected: &str) {
    check_in("UTC", now, text, expected);
}

#[test]
fn the_rows_of_e01() {
    // Mon 12 Jan 2026, noon UTC.
    const NOW: &str = "2026-01-12T12:00:00Z";
    for (row, text, expected) in [
        (1, "Claude AI usage limit reached|1768222800", "2026-01-12T13:00:00Z"),
        (1, "Claude AI usage limit reached|1768222800000", "2026-01-12T13:00:00Z"),
        (1, "Claude AI usage limit reached|1762952400", ""),
        (
            2,
            "Claude usage limit reached. Your limit will reset at 3pm (America/Bogota).",
            "2026-01-12T20:00:00Z",
        ),
        (3, "5-hour limit reached ∙ resets 3pm", "2026-01-12T15:00:00Z"),
        (
            4,
            "5-hour limit reached · resets 3pm (Europe/Stockholm) · /upgrade to Max 20x or turn on /extra-usage",
            "2026-01-12T14:00:00Z",
        ),
        (5, "You've hit your limit · resets 12:30am", "2026-01-13T00:30:00Z"),
        (6, "Weekly limit reached · resets 10am (Asia/Seoul) · /upgrade…", "2026-01-13T01:00:00Z"),
        (7, "You've hit your limit · resets 1pm (Europe/Lisbon)", "2026-01-12T13:00:00Z"),
        (8, "You've hit your limit · resets Jan 14, 11:30am (Asia/Calcutta)", "2026-01-14T06:00:00Z"),
        (9, "You've hit your limit · resets Jan 16, 11am (Europe/Berlin)", "2026-01-16T10:00:00Z"),
        (10, "You've hit your session limit · resets 3:50pm (Europe/Paris)", "2026-01-12T14:50:00Z"),
        (10, "You've hit your session limit · resets 12am (Asia/Seoul)", "2026-01-12T15:00:00Z"),
        (
            10,
            "You've hit your session limit · resets 3:50pm\n/usage-credits to finish what you’re working on.",
            "2026-01-12T15:50:00Z",
        ),
        (
            11,
            "You've hit your weekly limit · resets Jan 15 at 12am (Australia/Melbourne)",
            "2026-01-14T13:00:00Z",
        ),
        (12, "You've hit your Opus limit", ""),
        (13, "You're out of extra usage · resets 9pm", "2026-01-12T21:00:00Z"),
        (
            14,
            "You’ve hit your limit for Claude messages. Limits will reset at 9:30 AM.",
            "2026-01-13T09:30:00Z",
        ),
        (
            14,
            "You’ve hit your limit for Claude messages. Limits will reset at 9:30\u{202f}AM.",
            "2026-01-13T09:30:00Z",
        ),
        (15, "API Error: Rate limit reached", ""),
        (16, "Server is temporarily limiting requests (not your usage limit)", ""),
        (17, "Request rejected (429)", ""),
        (18, "You've hit your weekly limit · resets Mon 12:00am", "2026-01-19T00:00:00Z"),
        (18, "You've hit your session limit · resets 3:45pm", "2026-01-12T15:45:00Z"),
        (19, "spend limit reached (daily; resets 2026-01-13 00:00 UTC)", "2026-01-13T00:00:00Z"),
        (19, "spend limit unavailable", ""),
        (20, "API Error: Usage credits required for 1M context · /model", ""),
        (21, "You've reached your limit. Please try again at 12:16 PM", "2026-01-12T12:16:00Z"),
    ] {
        assert_eq!(
            reset_time(text, at(NOW), &TimeZone::UTC),
            (!expected.is_empty()).then(|| at(expected)),
            "row {row}: {text:?}"
        );
    }
    check(
        "2026-12-01T18:00:00Z",
        "You've hit your 5-hour limit · resets 8:41pm (UTC)",
        "2026-12-01T20:41:00Z",
    );
    // Both hold (field-reports G09).
    check(
        "2026-12-01T06:00:00Z",
        "Prompt is too long · automatic compaction failed: You've hit your session limit · resets 3:50am (America/Toronto)",
        "2026-12-01T08:50:00Z",
    );
}

#[test]
fn a_clock_time_is_the_next_one_in_its_zone() {
    let hit = |when: &str| format!("You've hit your limit · resets {when}");
    for (local, now, when, expected) in [
        // 23:00 → 2:30am is tomorrow; 12:31 → 12:30pm has just passed.
        ("Europe/Berlin", "2026-06-10T21:00:00Z", "2:30am", "2026-06-11T00:30:00Z"),
        ("UTC", "2026-06-10T12:31:00Z", "12:30pm", "2026-06-10T12:30:00Z"),
        ("UTC", "2026-06-10T12:40:00Z", "12:30pm", "2026-06-10T12:30:00Z"),
        ("UTC", "2026-06-10T12:41:00Z", "12:30pm", "2026-06-11T12:30:00Z"),
        // Just passed, over midnight and over the turn of the year.
        ("UTC", "2026-06-10T00:02:00Z", "11:58pm", "2026-06-09T23:58:00Z"),
        ("UTC", "2027-01-01T00:02:00Z", "Dec 31, 11:58pm", "2026-12-31T23:58:00Z"),
        ("UTC", "2026-12-31T23:00:00Z", "Jan 1, 2am", "2027-01-01T02:00:00Z"),
        ("UTC", "2026-12-31T23:00:00Z", "12am", "2027-01-01T00:00:00Z"),
        ("UTC", "2026-06-10T11:00:00Z", "12pm", "2026-06-10T12:00:00Z"),
        ("UTC", "2028-02-28T11:00:00Z", "Feb 29, 1am", "2028-02-29T01:00:00Z"),
        ("UTC", "2026-02-28T11:00:00Z", "Feb 29, 1am", ""),
        // The machine is in another zone than the text, on another day.
        ("America/Los_Angeles", "2026-06-10T20:00:00Z", "6am (Asia/Tokyo)", "2026-06-10T21:00:00Z"),
        ("Pacific/Auckland", "2026-06-10T20:00:00Z", "3pm (America/Los_Angeles)", "2026-06-10T22:00:00Z"),
        ("Asia/Tokyo", "2026-06-10T20:00:00Z", "6am", "2026-06-10T21:00:00Z"),
        // Weekdays: the next such day, which may be today.
        ("UTC", "2026-06-10T08:00:00Z", "Wed 9am", "2026-06-10T09:00:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "Wed 9am", "2026-06-17T09:00:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "Monday at 9:15 am", "2026-06-15T09:15:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "9am on Thurs", "2026-06-11T09:00:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "tomorrow at 8am", "2026-06-11T08:00:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "at 3pm today", "2026-06-10T15:00:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "today at 8am", ""),
        // Dates.
        ("UTC", "2026-06-10T09:30:00Z", "Jun 11, 2026, 12:27 AM", "2026-06-11T00:27:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "11 June at 12:27 AM", "2026-06-11T00:27:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "on June 11th at 12:27am", "2026-06-11T00:27:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "Thu, Jun 11 at 9am", "2026-06-11T09:00:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "2026-06-12T01:02:03Z", "2026-06-12T01:02:03Z"),
        ("UTC", "2026-06-10T09:30:00Z", "2026-06-12 01:00 (Europe/Berlin)", "2026-06-11T23:00:00Z"),
        // Far away, or long passed.
        ("UTC", "2026-06-10T09:30:00Z", "Jun 9, 11am", ""),
        ("UTC", "2026-06-10T09:30:00Z", "Jun 19, 11am", ""),
        ("UTC", "2026-06-10T09:30:00Z", "Jun 11, 2027, 9am", ""),
        // 24 hours.
        ("UTC", "2026-06-10T09:30:00Z", "21:05", "2026-06-10T21:05:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "00:00 UTC", "2026-06-11T00:00:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "12:30", "2026-06-10T12:30:00Z"),
        ("UTC", "2026-06-10T09:30:00Z", "3:45:10 p.m. (UTC)", "2026-06-10T15:45:10Z"),
        ("UTC", "2026-06-10T09:30:00Z", "11:45p.m.", "2026-06-10T23:45:00Z"),
    ] {
        check_in(local, now, &hit(when), expected);
    }
}

#[test]
fn nights_when_the_clocks_change() {
    for (zone, now, when, expected) in [
        // Forward: there is no 2:30; the same distance after midnight.
        ("America/New_York", "2026-03-08T05:00:00Z", "2:30am", "2026-03-08T07:30:00Z"),
        ("Europe/Berlin", "2026-03-29T00:00:00Z", "2:30am", "2026-03-29T01:30:00Z"),
        // Back: there are two; the later.
        ("America/New_York", "2026-11-01T04:00:00Z", "1:30am", "2026-11-01T06:30:00Z"),
        ("Europe/Berlin", "2026-10-24T22:00:00Z", "2:30am", "2026-10-25T01:30:00Z"),
        // Between the two.
        ("America/New_York", "2026-11-01T05:45:00Z", "1:30am", "2026-11-01T06:30:00Z"),
        // The day after.
        ("Europe/Berlin", "2026-03-28T22:00:00Z", "9am", "2026-03-29T07:00:00Z"),
    ] {
        check_in(zone, now, &format!("You've hit your limit · resets {when}"), expected);
        check(now, &format!("You've hit your limit · resets {when} ({zone})"), expected);
    }
}

#[test]
fn zones() {
    let text = |zone: &str| format!("You've hit your limit · resets 3pm {zone}");
    for (zone, expected) in [
        ("UTC", "2026-06-10T15:00:00Z"),
        ("(GMT)", "2026-06-10T15:00:00Z"),
        ("(utc)", "2026-06-10T15:00:00Z"),
        ("MESZ", "2026-06-10T13:00:00Z"),
        ("(CEST)", "2026-06-10T13:00:00Z"),
        ("JST", "2026-06-11T06:00:00Z"),
        ("PDT", "2026-06-10T22:00:00Z"),
        ("(UTC+5:30)", "2026-06-10T09:30:00Z"),
        ("UTC-03", "2026-06-10T18:00:00Z"),
        ("+0200", "2026-06-10T13:00:00Z"),
        ("Asia/Kathmandu", "2026-06-10T09:15:00Z"),
        ("(US/Pacific)", "2026-06-10T22:00:00Z"),
        // Several zones go by these names.
        ("IST", ""),
        ("CST", ""),
        ("EST", ""),
        ("(MST)", ""),
        // No zone of the database.
        ("(Mars/Olympus)", ""),
        ("Pacific", ""),
        ("UTC+25", ""),
        ("UTC+1:99", ""),
        ("(", "2026-06-10T15:00:00Z"),
    ] {
        check("2026-06-10T09:20:00Z", &text(zone), expected);
    }
    // The machine's own name for its zone is understood there, in summer and in winter.
    check_in("Asia/Kolkata", "2026-06-10T06:00:00Z", &text("IST"), "2026-06-10T09:30:00Z");
    check_in("America/Chicago", "2026-06-10T06:00:00Z", &text("(CDT)"), "2026-06-10T20:00:00Z");
    check_in("America/Chicago", "2026-12-10T06:00:00Z", &text("CST"), "2026-12-10T21:00:00Z");
    check_in("America/Chicago", "2026-12-10T06:00:00Z", &text("IST"), "");
}

#[test]
fn from_now() {
    for (when, minutes) in [
        ("in 3 hours", Some(180)),
        ("in 3 hours.", Some(180)),
        ("in 2h 30m", Some(150)),
        ("in 2h30m (or upgrade)", None),
        ("in 2h30m", Some(150)),
        ("in 1 hour and 5 minutes", Some(65)),
        ("in an hour or two", None),
        ("in an hour", Some(60)),
        ("in 45 min", Some(45)),
        ("in 2 days, 4 hours", Some(52 * 60)),
        ("in 8 days", Some(8 * 24 * 60)),
        ("in 9 days", None),
        ("in 120 seconds · /upgrade", Some(2)),
        ("in 3", None),
        ("in 3 4 hours", None),
        ("in hours", None),
        ("in 1.5 hours", None),
        ("in 3 fortnights", None),
        ("in 99999999999999999999 hours", None),
        ("in", None),
    ] {
        let now = at("2026-06-10T09:20:00Z");
        let expected = minutes.map(|minutes: i64| now + SignedDuration::from_mins(minutes));
        for text in [format!("Usage limit reached. It resets {when}"), format!("Limit. Try again {when}")] {
            assert_eq!(reset_time(&text, now, &TimeZone::UTC), expected, "{text:?}");
        }
    }
}

#[test]
fn what_is_doubtful_is_not_said() {
    for text in [
        "",
        "resets",
        "resets soon",
        "resets at 3",
        "resets 13pm",
        "resets 0am",
        "resets 25:00",
        "resets 24:00",
        "resets 3:5pm",
        "resets 3:60pm",
        "resets 3pm 4pm",
        "resets Mon Tue 9am",
        "resets Mon",
        "resets Jan 12",
        "resets next Monday at 9am",
        "resets 8/9/2026 9am",
        "resets 3pm Blursday",
        "resets every day at 3pm",
        "resets 3pm (in 2 hours)",
        "resets 3pm UTC (Europe/Berlin)",
        "resets 2026-06-12T01:00:00Z 3pm",
        // A day of the week that is not that date's.
        "resets Mon, Jun 11 at 9am",
        // Two times; which of them counts?
        "session limit resets 3pm · weekly limit resets Mon 9am",
        "resets 3pm · resets 4 o'clock",
        "limit reached|1781082000 · resets 11pm",
        // Of another word.
        "presets 3pm",
        "resetting 3pm",
        "limit|1781082000x",
        "limit|178108200",
        "limit|17810820000",
        // Only this limit is at most five hours long: 15 hours ahead is another zone, or long passed.
        "You've hit your session limit · resets 12:30am",
    ] {
        check("2026-06-10T09:20:00Z", text, "");
    }
    // Said twice is said once.
    check("2026-06-10T08:20:00Z", "limit|1781082000 · resets 9am", "2026-06-10T09:00:00Z");
    check("2026-06-10T09:20:00Z", "Resets: 3PM, or /upgrade now", "2026-06-10T15:00:00Z");
    check("2026-06-10T09:20:00Z", "resets 3pm and nothing can be done", "2026-06-10T15:00:00Z");
}

/// Words of resets, in any order.
fn jumble() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        proptest::sample::select(vec![
            "resets",
            "reset",
            "try again",
            "at",
            "in",
            "on",
            "3pm",
            "12:30",
            "am",
            "12am",
            "0:00",
            "Mon",
            "Jan",
            "Dec 31",
            "31",
            "29",
            "Feb",
            "2026",
            "2026-06-10",
            "tomorrow",
            "today",
            "(UTC)",
            "(Europe/Berlin)",
            "(America/New_York)",
            "CST",
            "+0530",
            "5",
            "hours",
            "3h",
            "999999d",
            "and",
            ",",
            ".",
            "·",
            "|",
            "|1781082000",
            "session limit",
            "(",
            ")",
            "\u{202f}",
            "’",
            "é",
        ])
        .prop_map(str::to_owned),
        "[0-9:apm|+/()., -]{0,12}",
    ];
    proptest::collection::vec(word, 0..9).prop_map(|words| format!("resets {}", words.join(" ")))
}

proptest! {
    #[test]
    fn a_time_is_in_reach_whatever_the_text(
        text in prop_oneof![any::<String>(), jumble(), "\\PC*reset(s)? \\PC*"],
        now in prop_oneof![1_700_000_000_i64..1_900_000_000, -377_705_023_201_i64..=253_402_207_200],
        local in proptest::sample::select(vec!["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Apia"]),
    ) {
        let now = Timestamp::from_second(now).unwrap();
        if let Some(at) = reset_time(&text, now, &tz(local)) {
            prop_assert!(at >= now - JUST_PASSED, "{at} at {now}");
            prop_assert!(at <= now + SignedDuration::from_hours(8 * 24), "{at} at {now}");
        }
    }

    /// What is written as the CLI writes it is read back, in any zone.
    #[test]
    fn a_written_time_is_read_back(
        now in 1_700_000_000_i64..1_900_000_000,
        ahead in 0_i64..(20 * 60),
        zone in proptest::sample::select(vec!["UTC", "Asia/Calcutta", "Asia/Tokyo", "America/Sao_Paulo"]),
    ) {
        let now = Timestamp::from_second(now).unwrap();
        let reset = Timestamp::from_second((now.as_second() / 60 + 1 + ahead) * 60).unwrap();
        let written = reset.to_zoned_datetime(tz(zone)).strftime("%-I:%M%P").to_string();
        let text = format!("You've hit your limit · resets {written} ({zone})");
        prop_assert_eq!(reset_time(&text, now, &TimeZone::UTC), Some(reset), "{}", text);
    }
}
