//! Words about a usage limit → when it resets: never long before now, and the same words mean the same.

use autopilot::core::reset_time::{JUST_PASSED, reset_time};
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// The first two bytes choose the hour of the year and the zone.
pub fn run(mut data: &[u8]) {
    let hours = i64::try_from(super::byte(&mut data)).expect("a byte") * 37;
    let zone = i8::try_from(super::byte(&mut data) % 27).expect("small") - 12;
    let now = Timestamp::from_second(1_775_000_000 + hours * 3600).expect("this century");
    let local = TimeZone::fixed(Offset::constant(zone));
    let text = String::from_utf8_lossy(data);
    let found = reset_time(&text, now, &local);
    if let Some(at) = found {
        assert!(at >= now.saturating_sub(JUST_PASSED).expect("this century"), "{text}: {at}, now {now}");
    }
    assert_eq!(reset_time(&text, now, &local), found);
}
