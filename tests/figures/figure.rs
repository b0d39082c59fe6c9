//! A figure: how it is taken, and how it is shown.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Something that is measured.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    /// The budget in words; `none` where the figure is only told.
    pub(crate) budget: &'static str,
    /// Takes it; panics when it cannot be taken.
    pub(crate) take: fn() -> Measured,
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The value with its unit.
    pub(crate) value: String,
    /// Whether it is within the budget; `None` without one.
    pub(crate) within: Option<bool>,
    /// How it was measured, and what it was compared with.
    pub(crate) how: String,
}

/// A figure as it was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) measured: Result<Measured, String>,
    /// Load average of one minute before and after.
    load: (String, String),
    /// More work than processors at that time: a time that is over its budget proves nothing.
    busy: bool,
}

impl Taken {
    pub(crate) fn of(figure: &Figure) -> Self {
        let before = load();
        let measured = catch_unwind(AssertUnwindSafe(figure.take)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
        });
        let load = (before, load());
        let cores =
            std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap());
        // A program that measures is itself one of those that want a processor.
        let is_over = |load: &String| load.parse::<f64>().is_ok_and(|load| load > f64::from(cores) + 0.5);
        Self { measured, busy: is_over(&load.0) || is_over(&load.1), load }
    }
}

/// The table.
pub(crate) fn table(taken: &[(&Figure, Taken)]) -> String {
    let mut text = String::new();
    let mut row = |cells: [&str; 6]| {
        let [name, value, budget, verdict, load, how] = cells;
        writeln!(text, "{name:<19} {value:<22} {budget:<13} {verdict:<13} {load:<12} {how}").unwrap();
    };
    row(["figure", "measured", "budget", "verdict", "load", "how"]);
    for (figure, taken) in taken {
        let load = format!("{} {}", taken.load.0, taken.load.1);
        match &taken.measured {
            Ok(Measured { value, within, how }) => {
                let verdict = match within {
                    Some(true) => "within",
                    Some(false) if taken.busy => "missed, busy",
                    Some(false) => "MISSED",
                    None => "-",
                };
                row([figure.name, value, figure.budget, verdict, &load, how]);
            }
            Err(why) => {
                let why = why.lines().next().unwrap_or_default();
                row([figure.name, "-", figure.budget, "NOT MEASURED", &load, why]);
            }
        }
    }
    text
}

/// The load average of the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("?").to_owned()
}

/// The middle one; of an even number the greater of the two.
pub(crate) fn median(values: &mut [Duration]) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

/// CPU time of this thread so far.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Megabytes of a million bytes.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
pub(crate) fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A line `Name:   12 kB` of `/proc/<pid>/status`, in bytes.
pub(crate) fn status_bytes(pid: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
