//! placeholder
use serde_json::Value;
/// x
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// c
    Complete,
    /// p
    Partial,
    /// b
    Blocked,
    /// n
    NothingToDo,
}
impl Status {
    /// s
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Complete => "complete",
            Status::Partial => "partial",
            Status::Blocked => "blocked",
            Status::NothingToDo => "nothing_to_do",
        }
    }
}
/// x
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentSummary {
    /// c
    pub complete: Option<f64>,
    /// p
    pub partial: Option<f64>,
    /// f
    pub failed: Option<f64>,
    /// s
    pub spiral: Option<f64>,
}
/// x
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effectiveness {
    /// p
    pub planned_issues: Option<f64>,
    /// c
    pub completed: Option<f64>,
    /// c
    pub carryover: Option<f64>,
    /// e
    pub emergent: Option<f64>,
}
/// x
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockedOn {
    /// q
    pub question: String,
    /// o
    pub options: Vec<String>,
}
/// x
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionReport {
    /// s
    pub status: Option<Status>,
    /// s
    pub summary: Option<String>,
    /// a
    pub agent_summary: AgentSummary,
    /// e
    pub effectiveness: Effectiveness,
    /// t
    pub tasks_done: Vec<String>,
    /// b
    pub blocked_on: Option<BlockedOn>,
}
impl SessionReport {
    /// f
    pub fn from_value(_v: &Value) -> (Option<SessionReport>, Vec<String>) {
        (None, vec![])
    }
}
