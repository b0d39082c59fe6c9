//! A shell command, parsed into everything that would run.
//!
//! The grammar is bash's, read by `rable`; words are read in [`word`], what is known at each point of the script in
//! [`state`], and [`walk`] goes through it in the order in which it would run.
//!
//! Why this parser: held against `bash -n` on 466 shell scripts of a Linux installation and the 1,566 commands of
//! `fixtures/gate`, rable 0.2.2 refused none that bash takes and took one that bash refuses (`<<`, which the walk
//! denies); tree-sitter-bash 0.25 refused 34 and took 3, brush-parser 0.3 refused 6 and took 1.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use super::finding::{Finding, Subject, Weight};
use super::{Context, MAX_COMMAND, Removable};

mod state;
mod substitutions;
mod targets;
mod walk;
mod word;

pub(super) use state::State;
pub(super) use targets::Target;
pub(super) use walk::{Feed, Flow, Walk};
pub(super) use word::{Piece, Value};

/// Stack for parser and walk; a nesting that the parser admits (1,000) fits in half of it, measured without
/// optimisation.
const STACK: usize = 64 << 20;

/// What is found in the input of the shell tool, and the paths about which git was asked.
pub(super) fn findings(
    input: &serde_json::Value,
    context: &Context<'_>,
    removable: Removable<'_>,
) -> (Vec<Finding>, Vec<PathBuf>) {
    let refused = |reason: &str| {
        let finding = Finding {
            what: String::new(),
            subject: Subject::Tool(input.clone()),
            weight: Weight::Never,
            reason: reason.to_owned(),
            asks: false,
        };
        (vec![finding], Vec::new())
    };
    let Some(command) = input.get("command").and_then(serde_json::Value::as_str) else {
        return refused("it names no command");
    };
    if command.len() > MAX_COMMAND {
        return refused("it is longer than 128 KiB; write it into a file of the repository first");
    }
    if command.contains('\0') {
        return refused("it holds a NUL character");
    }
    let found = looked_at(|| {
        let mut walk = Walk::new(context, removable);
        walk.script(command, State::new(context));
        walk.done()
    });
    found.unwrap_or_else(|| refused("it could not be judged, and what is not judged is not allowed"))
}

/// Looks with room on the stack. `None` = the look broke down: a mistake of the parser or of ours must neither allow a
/// call nor end the run.
fn looked_at<T>(look: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(|| stacker::grow(STACK, look))).ok()
}

#[cfg(test)]
mod tests {
    use super::looked_at;

    #[test]
    fn a_look_that_breaks_down_says_nothing() {
        assert_eq!(looked_at(|| 1), Some(1));
        assert_eq!(looked_at(|| -> i32 { panic!("on purpose") }), None);
    }
}
