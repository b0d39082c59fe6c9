//! `/proc/meminfo` and `/proc/pressure/memory`.

/// `MemAvailable` in bytes.
pub(super) fn available(meminfo: &str) -> Result<u64, String> {
    field(meminfo, "MemAvailable")
}

/// Swap in use in bytes; 0 without swap.
pub(super) fn swap_used(meminfo: &str) -> Result<u64, String> {
    let (total, free) = (field(meminfo, "SwapTotal")?, field(meminfo, "SwapFree")?);
    Ok(total.saturating_sub(free))
}

/// `avg10` of the `some` line, in percent.
pub(super) fn pressure_avg10(pressure: &str) -> Result<f64, String> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some ")).ok_or("no some line")?;
    let avg10 = some.split_whitespace().find_map(|field| field.strip_prefix("avg10="));
    let share = avg10.and_then(|value| value.parse::<f64>().ok()).filter(|share| share.is_finite());
    share.ok_or_else(|| "no avg10 in the some line".to_owned())
}

/// A field in bytes. The file says kB and means KiB.
fn field(meminfo: &str, name: &str) -> Result<u64, String> {
    let value = meminfo
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .ok_or_else(|| format!("{name} is missing"))?
        .trim();
    value
        .strip_suffix("kB")
        .and_then(|number| number.trim().parse::<u64>().ok())
        .and_then(|kib| kib.checked_mul(1024))
        .ok_or_else(|| format!("{name}: not a size: {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        for (text, expected) in [
            ("MemTotal: 9 kB\nMemAvailable:       2 kB\n", Ok(2048)),
            ("MemAvailable: 0 kB", Ok(0)),
            ("MemAvailableX: 2 kB", Err("MemAvailable is missing")),
            ("MemAvailable: 2", Err("MemAvailable: not a size: \"2\"")),
            ("MemAvailable: -2 kB", Err("MemAvailable: not a size: \"-2 kB\"")),
            (
                "MemAvailable: 99999999999999999999 kB",
                Err("MemAvailable: not a size: \"99999999999999999999 kB\""),
            ),
            (
                "MemAvailable: 18446744073709551615 kB",
                Err("MemAvailable: not a size: \"18446744073709551615 kB\""),
            ),
            ("", Err("MemAvailable is missing")),
        ] {
            assert_eq!(available(text), expected.map_err(str::to_owned), "{text:?}");
        }
        assert_eq!(swap_used("SwapTotal: 8 kB\nSwapFree: 3 kB"), Ok(5 * 1024));
        assert_eq!(swap_used("SwapTotal: 0 kB\nSwapFree: 0 kB"), Ok(0));
        assert!(swap_used("SwapTotal: 8 kB").is_err());
    }

    #[test]
    fn pressure() {
        let line =
            |avg: &str| format!("some avg10={avg} avg60=0.00 avg300=0.00 total=5\nfull avg10=9.00 total=1\n");
        for (text, expected) in [
            (line("0.00"), Some(0.0)),
            (line("12.50"), Some(12.5)),
            (line("nan"), None),
            ("full avg10=9.00".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(pressure_avg10(&text).ok(), expected, "{text:?}");
        }
    }
}
