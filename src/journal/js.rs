//! Values the way JavaScript writes them, for the files shared with upstream (upstream-formats §5.1).
//!
//! `JSON.stringify` prints a whole number without a fraction (`4`, not `4.0`), uses an exponent only from
//! 1e21 up and below 1e-6, prints what is not finite as `null`, and a `Date` with exactly three digits of
//! milliseconds. Readers that compare text or count digits exist; the bytes are part of the format.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::{Serialize as _, Serializer};
use serde_json::value::RawValue;

/// Milliseconds, always three digits.
static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// `Date.prototype.toISOString`: `2026-04-25T08:42:00.000Z`. Finer digits are cut, not rounded.
#[must_use]
pub fn timestamp(at: Timestamp) -> String {
    PRINTER.timestamp_to_string(&at)
}

/// `Number.prototype.toString`, or `null` for what JSON cannot say.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "the form of `{:e}` is fixed")]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // The shortest digits that read back as the same number, which is also what ECMAScript asks for.
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` has an exponent");
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().expect("`{:e}` has a whole exponent");
    let sign = if value < 0.0 { "-" } else { "" };
    let count = i32::try_from(digits.len()).expect("a double has at most 17 digits");
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    // `point` digits stand before the decimal point.
    let point = exponent + 1;
    match point {
        22.. | ..=-6 => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            let plus = if exponent > 0 { "+" } else { "" };
            format!("{sign}{first}{dot}{rest}e{plus}{exponent}")
        }
        1.. if count <= point => format!("{sign}{digits}{}", zeros(point - count)),
        1.. => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or_default());
            format!("{sign}{whole}.{fraction}")
        }
        _ => format!("{sign}0.{}{digits}", zeros(-point)),
    }
}

/// For `#[serde(serialize_with)]`: a number as JavaScript prints it.
pub fn serialize_number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    raw(number(*value)).serialize(serializer)
}

/// For `#[serde(serialize_with)]`: a number as JavaScript prints it, or `null`.
pub fn serialize_optional_number<S: Serializer>(
    value: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    raw(value.map_or_else(|| "null".to_owned(), number)).serialize(serializer)
}

/// For `#[serde(serialize_with)]`: an instant as JavaScript prints it.
pub fn serialize_timestamp<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&timestamp(*at))
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).expect("a number is JSON")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_as_javascript_prints_them() {
        // Left: the value; right: what `JSON.stringify` gives for it.
        for (value, expected) in [
            (4.0, "4"),
            (0.0, "0"),
            (-0.0, "0"),
            (0.85, "0.85"),
            (0.5, "0.5"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (500_000.0, "500000"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e21, "1.5e+21"),
            (1e-6, "0.000001"),
            (0.000_001_5, "0.0000015"),
            (1e-7, "1e-7"),
            (1.25e-7, "1.25e-7"),
            (-1e-7, "-1e-7"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::NAN, "null"),
            (f64::INFINITY, "null"),
            (f64::NEG_INFINITY, "null"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn instants_have_three_digits() {
        for (instant, expected) in [
            ("2026-04-25T08:42:00Z", "2026-04-25T08:42:00.000Z"),
            ("2026-04-25T08:42:00.5Z", "2026-04-25T08:42:00.500Z"),
            ("2026-04-25T08:42:59.999999999Z", "2026-04-25T08:42:59.999Z"),
            ("2026-04-25T10:42:00.007+02:00", "2026-04-25T08:42:00.007Z"),
        ] {
            assert_eq!(timestamp(instant.parse().unwrap()), expected);
        }
    }

    proptest! {
        #[test]
        fn numbers_read_back(value in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL) {
            let text = number(value);
            prop_assert_eq!(serde_json::from_str::<f64>(&text).unwrap().to_bits(), value.to_bits(), "{}", text);
        }
    }
}
