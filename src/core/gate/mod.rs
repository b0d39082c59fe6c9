//! STUB
#![allow(missing_docs)]
use super::mode::Mode;
use std::path::{Path, PathBuf};
pub struct Call<'a> {
    pub tool: &'a str,
    pub input: &'a serde_json::Value,
}
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    #[default]
    Guard,
    Strict,
    Off,
}
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {}
pub struct Context<'a> {
    pub policy: Policy,
    pub rules: &'a Rules,
    pub mode: Mode,
    pub tree: &'a Path,
    pub added: &'a [PathBuf],
    pub cwd: &'a Path,
    pub home: Option<&'a Path>,
    pub temporary: &'a [PathBuf],
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny,
    Defer,
}
impl Decision {
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Deny => "deny",
            Decision::Defer => "defer",
        }
    }
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub what: String,
    pub decision: Decision,
    pub reason: String,
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    pub decision: Decision,
    pub reason: String,
    pub parts: Vec<Part>,
}
pub fn questions(call: &Call<'_>, _context: &Context<'_>) -> Vec<PathBuf> {
    let c = call.input["command"].as_str().unwrap_or_default();
    c.strip_prefix("rm -rf ").map(|p| vec![PathBuf::from(p)]).unwrap_or_default()
}
pub fn judge(call: &Call<'_>, context: &Context<'_>, removable: &dyn Fn(&Path) -> Option<bool>) -> Ruling {
    let r = |decision| Ruling { decision, reason: "stub".to_owned(), parts: vec![] };
    if context.policy == Policy::Off {
        return r(Decision::Defer);
    }
    let c = call.input["command"].as_str().unwrap_or_default();
    if c.contains("push -f") {
        return r(Decision::Deny);
    }
    for p in questions(call, context) {
        if removable(&p) != Some(true) {
            return r(Decision::Deny);
        }
    }
    r(Decision::Defer)
}
pub fn judge_prompt(
    call: &Call<'_>,
    context: &Context<'_>,
    removable: &dyn Fn(&Path) -> Option<bool>,
) -> Ruling {
    let mut r = judge(call, context, removable);
    if r.decision == Decision::Defer {
        r.decision = Decision::Allow;
    }
    r
}
