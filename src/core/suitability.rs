//! Stand-in.
/// Dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autonomy {
    /// Off.
    Off,
    /// Advisory.
    Advisory,
    /// Gated.
    AutonomousGated,
}
