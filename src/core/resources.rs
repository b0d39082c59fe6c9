//! The resource verdict: how many sub-agents the machine can carry now.
//!
//! Theory of operation: a [`Sample`] is what the probe could read at one moment, every reading on its own
//! [`Reading`]. [`judge`] gives each of the four signals a [`Tier`] by the table of design §7 and takes the
//! most restrictive; the verdict names the signal that decided, its value and the threshold it crossed, so
//! that a printout of the verdict is its explanation.
//!
//! Invariants
//! - A reading that failed or does not exist on this platform is [`Tier::Unknown`] for its signal. It neither
//!   tightens nor loosens the verdict, and no value is made up for it.
//! - With every signal unknown the verdict is unknown, the cap is the configured default, and nothing is ever
//!   critical: a missing measurement never kills a run (design §4).
//! - The cap never exceeds the configured default: a tier can only lower it.
//!
//! Pitfalls
//! - A sample carries no time. The caller stamps it and refuses to act on an old one (field-reports J09).
//! - "GB" in the table is 2^30 bytes: the compatible implementation divides bytes by 1024³ and compares swap
//!   in units of 1024² (upstream-formats §8.1, §8.2).
//! - Edges the table leaves open: a value on the border between two tiers belongs to the healthier one when
//!   the table says "≥" for it (6 GB is green, 4 GB is warn, 2 GB is degraded; 30, 15 and 5 % likewise) and to
//!   the stricter one when it says "<" (1 GB of swap is warn, 2 GB is degraded). Swap is critical only *above*
//!   3 GB, so exactly 3 GB is degraded.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One GB of the thresholds: 2^30 bytes.
pub const GB: u64 = 1 << 30;

/// Sub-agents per wave when nothing is configured (design §7, row green).
pub const DEFAULT_CAP: u32 = 8;

/// One measurement, or why there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading<T> {
    /// The value that was read.
    Value(T),
    /// This platform or this configuration has no such figure (no memory limit, no pressure file).
    #[default]
    Absent,
    /// It should be there and could not be read; the text says what failed.
    Failed(String),
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Failed(_) => None,
        }
    }

    /// What failed, if this reading failed.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed(why) => Some(why),
            Self::Value(_) | Self::Absent => None,
        }
    }
}

/// What the probe read at one moment. Sizes are bytes. Carries no time: the caller stamps it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Memory the host can still hand out without swapping (`MemAvailable`).
    pub host_available: Reading<u64>,
    /// What the tightest memory limit of the own control group and its ancestors still leaves.
    /// [`Reading::Absent`] means that none of them has a limit.
    pub cgroup_headroom: Reading<u64>,
    /// Swap in use on the host.
    pub swap_used: Reading<u64>,
    /// Other Claude process trees on the host, ours excluded.
    pub peers: Reading<u64>,
    /// macOS: memory free in percent, as the kernel rates it (`kern.memorystatus_level`).
    pub free_percent: Reading<u64>,
    /// Linux: share of the last 10 s in which some task waited for memory, in percent. Informational: the
    /// table has no column for it.
    pub pressure_avg10: Reading<f64>,
}

/// Which of the two memory figures is the tighter one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemorySource {
    /// The host's own free memory.
    Host,
    /// The limit of a control group.
    Cgroup,
}

impl Sample {
    /// The memory that is really available: the tighter of the host and the control group (design §7).
    /// With one of them unknown the other one counts alone. On a tie the host is named.
    pub fn memory_available(&self) -> Option<(u64, MemorySource)> {
        match (self.host_available.value(), self.cgroup_headroom.value()) {
            (Some(&host), Some(&cgroup)) if cgroup < host => Some((cgroup, MemorySource::Cgroup)),
            (Some(&host), _) => Some((host, MemorySource::Host)),
            (None, Some(&cgroup)) => Some((cgroup, MemorySource::Cgroup)),
            (None, None) => None,
        }
    }
}

/// How tight a resource is. Ordered: a later tier is more restrictive, and unknown restricts nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Not measured. Never stricter than any measured tier.
    Unknown,
    /// The configured cap.
    Green,
    /// At most 4 sub-agents per wave.
    Warn,
    /// At most 2 sub-agents per wave.
    Degraded,
    /// No sub-agents: the session works alone.
    Critical,
}

impl Tier {
    /// Sub-agents per wave in this tier, never more than `default_cap`.
    pub fn cap(self, default_cap: u32) -> u32 {
        match self {
            Self::Unknown | Self::Green => default_cap,
            Self::Warn => default_cap.min(4),
            Self::Degraded => default_cap.min(2),
            Self::Critical => 0,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Green => "green",
            Self::Warn => "warn",
            Self::Degraded => "degraded",
            Self::Critical => "critical",
        })
    }
}

/// The four signals of the table, in its column order. On equal tiers the first one is named as deciding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// Memory available, bytes.
    Memory,
    /// Swap used, bytes.
    Swap,
    /// Other Claude process trees.
    Peers,
    /// macOS memory free, percent.
    FreePercent,
}

impl Signal {
    /// Every signal, in the order in which ties are broken.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Swap, Self::Peers, Self::FreePercent];

    /// The rows of the table for this signal, strictest first: the first that holds is the tier, none is green.
    fn rules(self) -> [Threshold; 3] {
        use Comparison::{Above, AtLeast, Below};
        let row = |tier, comparison, limit| Threshold { tier, comparison, limit };
        match self {
            Self::Memory => [
                row(Tier::Critical, Below, 2 * GB),
                row(Tier::Degraded, Below, 4 * GB),
                row(Tier::Warn, Below, 6 * GB),
            ],
            Self::Swap => [
                row(Tier::Critical, Above, 3 * GB),
                row(Tier::Degraded, AtLeast, 2 * GB),
                row(Tier::Warn, AtLeast, GB),
            ],
            Self::Peers => {
                [row(Tier::Critical, Above, 6), row(Tier::Degraded, AtLeast, 5), row(Tier::Warn, AtLeast, 3)]
            }
            Self::FreePercent => {
                [row(Tier::Critical, Below, 5), row(Tier::Degraded, Below, 15), row(Tier::Warn, Below, 30)]
            }
        }
    }

    /// `value` with the unit of this signal, for people.
    fn show(self, value: u64) -> String {
        match self {
            Self::Memory | Self::Swap => gigabytes(value),
            Self::Peers => value.to_string(),
            Self::FreePercent => format!("{value} %"),
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory available",
            Self::Swap => "swap used",
            Self::Peers => "other Claude sessions",
            Self::FreePercent => "memory free",
        })
    }
}

/// How a value is compared with the limit of a [`Threshold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparison {
    /// `value < limit`
    Below,
    /// `value >= limit`
    AtLeast,
    /// `value > limit`
    Above,
}

/// A border of the table: the tier holds when the value compares so with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threshold {
    /// The tier that this border leads to.
    pub tier: Tier,
    /// On which side of the limit.
    pub comparison: Comparison,
    /// In the unit of the signal: bytes, a count or percent.
    pub limit: u64,
}

impl Threshold {
    fn holds(self, value: u64) -> bool {
        match self.comparison {
            Comparison::Below => value < self.limit,
            Comparison::AtLeast => value >= self.limit,
            Comparison::Above => value > self.limit,
        }
    }
}

/// What one signal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalTier {
    /// Which signal.
    pub signal: Signal,
    /// Its tier; [`Tier::Unknown`] exactly when `value` is `None`.
    pub tier: Tier,
    /// Its value in the unit of the signal.
    pub value: Option<u64>,
    /// The border that was crossed; `None` for green and unknown.
    pub threshold: Option<Threshold>,
}

impl SignalTier {
    /// The value with its unit, for people; `unknown` when it was not measured.
    #[must_use]
    pub fn value_words(&self) -> String {
        self.value.map_or_else(|| "unknown".to_owned(), |value| self.signal.show(value))
    }
}

impl fmt::Display for SignalTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { signal, tier, value, threshold } = self;
        let Some(value) = value else { return write!(f, "{signal} unknown") };
        write!(f, "{signal} {} is {tier}", signal.show(*value))?;
        let Some(Threshold { comparison, limit, tier: _ }) = threshold else { return Ok(()) };
        let relation = match comparison {
            Comparison::Below => "below",
            Comparison::AtLeast => "at least",
            Comparison::Above => "above",
        };
        write!(f, " ({relation} {})", signal.show(*limit))
    }
}

/// The answer of [`judge`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceVerdict {
    /// The most restrictive tier of all known signals.
    pub tier: Tier,
    /// Sub-agents allowed per wave.
    pub cap: u32,
    /// The signal that decided: the first with the verdict's tier. `None` only when every signal is unknown.
    pub deciding: Option<SignalTier>,
    /// Where the memory figure came from, when there is one.
    pub memory_source: Option<MemorySource>,
    /// All four signals, in the order of [`Signal::ALL`].
    pub signals: Vec<SignalTier>,
    /// The reasons as text: the deciding signal first, then the other restrictive ones, then what could not
    /// be read, then what is only informational.
    pub reasons: Vec<String>,
}

/// Judges a sample by the table of design §7; see the module text for the edges.
///
/// ```
/// use autopilot::core::resources::{GB, Reading, Sample, Signal, Tier, judge};
///
/// let sample = Sample {
///     host_available: Reading::Value(8 * GB),
///     swap_used: Reading::Value(0),
///     peers: Reading::Value(7),
///     ..Sample::default()
/// };
/// let verdict = judge(&sample, 8);
/// assert_eq!((verdict.tier, verdict.cap), (Tier::Critical, 0));
/// assert_eq!(verdict.deciding.map(|d| d.signal), Some(Signal::Peers));
/// ```
pub fn judge(sample: &Sample, default_cap: u32) -> ResourceVerdict {
    let memory = sample.memory_available();
    let signals = Signal::ALL.map(|signal| {
        let value = match signal {
            Signal::Memory => memory.map(|(bytes, _)| bytes),
            Signal::Swap => sample.swap_used.value().copied(),
            Signal::Peers => sample.peers.value().copied(),
            Signal::FreePercent => sample.free_percent.value().copied(),
        };
        rate(signal, value)
    });
    let tier = signals.iter().map(|s| s.tier).max().unwrap_or(Tier::Unknown);
    let deciding = signals.iter().find(|s| s.value.is_some() && s.tier == tier).copied();
    let memory_source = memory.map(|(_, source)| source);
    ResourceVerdict {
        tier,
        cap: tier.cap(default_cap),
        deciding,
        memory_source,
        reasons: reasons(sample, &signals, deciding, memory_source),
        signals: signals.to_vec(),
    }
}

fn rate(signal: Signal, value: Option<u64>) -> SignalTier {
    let threshold = value.and_then(|v| signal.rules().into_iter().find(|rule| rule.holds(v)));
    let tier = match (value, threshold) {
        (None, _) => Tier::Unknown,
        (Some(_), None) => Tier::Green,
        (Some(_), Some(rule)) => rule.tier,
    };
    SignalTier { signal, tier, value, threshold }
}

fn reasons(
    sample: &Sample,
    signals: &[SignalTier],
    deciding: Option<SignalTier>,
    memory_source: Option<MemorySource>,
) -> Vec<String> {
    let describe = |s: &SignalTier| match (s.signal, memory_source) {
        (Signal::Memory, Some(MemorySource::Cgroup)) => format!("{s}, by the control group's limit"),
        _ => s.to_string(),
    };
    let mut out: Vec<String> = deciding.iter().map(describe).collect();
    let is_deciding = |s: &SignalTier| deciding.is_some_and(|d| d.signal == s.signal);
    out.extend(signals.iter().filter(|s| s.tier > Tier::Green && !is_deciding(s)).map(describe));
    let failures = [
        ("host memory", sample.host_available.failure()),
        ("control group memory", sample.cgroup_headroom.failure()),
        ("swap", sample.swap_used.failure()),
        ("other Claude sessions", sample.peers.failure()),
        ("memory free percent", sample.free_percent.failure()),
        ("memory pressure", sample.pressure_avg10.failure()),
    ];
    out.extend(
        failures.into_iter().filter_map(|(what, why)| why.map(|why| format!("{what} unknown: {why}"))),
    );
    if deciding.is_none() {
        out.push("no resource could be measured: the configured cap stands".to_owned());
    }
    if let Some(share) = sample.pressure_avg10.value().filter(|share| **share > 0.0) {
        out.push(format!("info: tasks waited for memory {share:.1} % of the last 10 s"));
    }
    out
}

/// Bytes as GB with one decimal, rounded down so that a value below a limit never prints as the limit.
fn gigabytes(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / u128::from(GB);
    format!("{}.{} GB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn healthy() -> Sample {
        Sample {
            host_available: Reading::Value(16 * GB),
            cgroup_headroom: Reading::Absent,
            swap_used: Reading::Value(0),
            peers: Reading::Value(0),
            free_percent: Reading::Value(80),
            pressure_avg10: Reading::Absent,
        }
    }

    fn with(signal: Signal, value: u64) -> Sample {
        let mut sample = healthy();
        match signal {
            Signal::Memory => sample.host_available = Reading::Value(value),
            Signal::Swap => sample.swap_used = Reading::Value(value),
            Signal::Peers => sample.peers = Reading::Value(value),
            Signal::FreePercent => sample.free_percent = Reading::Value(value),
        }
        sample
    }

    #[test]
    fn every_border_of_the_table() {
        use Signal::{FreePercent, Memory, Peers, Swap};
        use Tier::{Critical, Degraded, Green, Warn};
        let table = [
            (Memory, u64::MAX, Green, 8),
            (Memory, 6 * GB, Green, 8),
            (Memory, 6 * GB - 1, Warn, 4),
            (Memory, 4 * GB, Warn, 4),
            (Memory, 4 * GB - 1, Degraded, 2),
            (Memory, 2 * GB, Degraded, 2),
            (Memory, 2 * GB - 1, Critical, 0),
            (Memory, 0, Critical, 0),
            (Swap, 0, Green, 8),
            (Swap, GB - 1, Green, 8),
            (Swap, GB, Warn, 4),
            (Swap, 2 * GB - 1, Warn, 4),
            (Swap, 2 * GB, Degraded, 2),
            (Swap, 3 * GB, Degraded, 2),
            (Swap, 3 * GB + 1, Critical, 0),
            (Swap, u64::MAX, Critical, 0),
            (Peers, 0, Green, 8),
            (Peers, 2, Green, 8),
            (Peers, 3, Warn, 4),
            (Peers, 4, Warn, 4),
            (Peers, 5, Degraded, 2),
            (Peers, 6, Degraded, 2),
            (Peers, 7, Critical, 0),
            (FreePercent, 100, Green, 8),
            (FreePercent, 30, Green, 8),
            (FreePercent, 29, Warn, 4),
            (FreePercent, 15, Warn, 4),
            (FreePercent, 14, Degraded, 2),
            (FreePercent, 5, Degraded, 2),
            (FreePercent, 4, Critical, 0),
            (FreePercent, 0, Critical, 0),
        ];
        for (signal, value, tier, cap) in table {
            let verdict = judge(&with(signal, value), DEFAULT_CAP);
            assert_eq!((verdict.tier, verdict.cap), (tier, cap), "{signal} {value}");
            let deciding = verdict.deciding.expect("something was measured");
            if tier == Green {
                assert_eq!(deciding.threshold, None);
            } else {
                assert_eq!((deciding.signal, deciding.value), (signal, Some(value)));
                assert!(deciding.threshold.is_some_and(|t| t.tier == tier && t.holds(value)));
            }
        }
    }

    #[test]
    fn seven_peers_beat_eight_free_gigabytes() {
        let sample = Sample { host_available: Reading::Value(8 * GB), ..with(Signal::Peers, 7) };
        let verdict = judge(&sample, DEFAULT_CAP);
        assert_eq!((verdict.tier, verdict.cap), (Tier::Critical, 0));
        assert_eq!(verdict.reasons, ["other Claude sessions 7 is critical (above 6)"]);
    }

    #[test]
    fn unknown_is_never_critical_and_never_hides_a_known_signal() {
        let failed = || Reading::Failed("permission denied".to_owned());
        let blind = Sample {
            host_available: failed(),
            cgroup_headroom: failed(),
            swap_used: failed(),
            peers: failed(),
            free_percent: failed(),
            pressure_avg10: Reading::Failed("permission denied".to_owned()),
        };
        let verdict = judge(&blind, 5);
        assert_eq!((verdict.tier, verdict.cap, verdict.deciding), (Tier::Unknown, 5, None));
        assert_eq!(verdict.reasons.len(), 7);
        assert!(verdict.signals.iter().all(|s| s.tier == Tier::Unknown && s.value.is_none()));

        assert_eq!(judge(&Sample::default(), 5).tier, Tier::Unknown);

        let one = Sample { peers: Reading::Value(5), ..blind };
        let verdict = judge(&one, 5);
        assert_eq!((verdict.tier, verdict.cap), (Tier::Degraded, 2));
        assert_eq!(verdict.deciding.map(|d| d.signal), Some(Signal::Peers));
    }

    #[test]
    fn the_tighter_memory_counts_and_is_named() {
        use MemorySource::{Cgroup, Host};
        let v = |n: u64| Reading::Value(n * GB);
        let failed = || Reading::Failed("no such file".to_owned());
        let table = [
            (v(8), v(1), Some((GB, Cgroup))),
            (v(1), v(8), Some((GB, Host))),
            (v(3), v(3), Some((3 * GB, Host))),
            (v(3), Reading::Absent, Some((3 * GB, Host))),
            (v(3), failed(), Some((3 * GB, Host))),
            (failed(), v(2), Some((2 * GB, Cgroup))),
            (failed(), Reading::Absent, None),
        ];
        for (host_available, cgroup_headroom, expected) in table {
            let sample = Sample { host_available, cgroup_headroom, ..healthy() };
            assert_eq!(sample.memory_available(), expected, "{sample:?}");
            assert_eq!(judge(&sample, 8).memory_source, expected.map(|(_, source)| source));
        }
        let sample = Sample { cgroup_headroom: Reading::Value(GB / 2), ..healthy() };
        assert_eq!(
            judge(&sample, 8).reasons,
            ["memory available 0.5 GB is critical (below 2.0 GB), by the control group's limit"]
        );
    }

    #[test]
    fn a_small_configured_cap_is_never_raised() {
        for (tier, expected) in
            [(Tier::Unknown, 1), (Tier::Green, 1), (Tier::Warn, 1), (Tier::Degraded, 1), (Tier::Critical, 0)]
        {
            assert_eq!(tier.cap(1), expected, "{tier}");
        }
    }

    #[test]
    fn pressure_is_information_only() {
        let sample = Sample { pressure_avg10: Reading::Value(93.21), ..healthy() };
        let verdict = judge(&sample, 8);
        assert_eq!(verdict.tier, Tier::Green);
        assert_eq!(
            verdict.reasons,
            ["memory available 16.0 GB is green", "info: tasks waited for memory 93.2 % of the last 10 s"]
        );
    }

    fn reading() -> impl Strategy<Value = Reading<u64>> {
        prop_oneof![
            (0..10 * GB).prop_map(Reading::Value),
            (0_u64..10).prop_map(Reading::Value),
            Just(Reading::Absent),
            Just(Reading::Failed("x".to_owned())),
        ]
    }

    proptest! {
        #[test]
        fn the_verdict_is_the_worst_signal_and_a_lost_reading_never_tightens(
            host_available in reading(), swap_used in reading(), peers in reading(), free_percent in reading(), cap in 0_u32..50,
        ) {
            let sample = Sample { host_available, swap_used, peers, free_percent, ..Sample::default() };
            let verdict = judge(&sample, cap);
            prop_assert!(verdict.cap <= cap);
            prop_assert!(verdict.signals.iter().all(|s| s.tier <= verdict.tier));
            prop_assert_eq!(verdict.deciding.is_none(), verdict.tier == Tier::Unknown);
            let blinded = Sample { peers: Reading::Failed("y".to_owned()), ..sample };
            let again = judge(&blinded, cap);
            prop_assert!(again.tier <= verdict.tier && again.cap >= verdict.cap);
        }
    }
}
