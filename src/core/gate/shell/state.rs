//! What is known at a point of a script: where it stands, and what its variables hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rable::{Node, NodeKind};

use super::word::{Piece, Value};
use crate::core::gate::{Context, paths};

/// Folders a script may be in at a point, before that is given up.
const MAX_PLACES: usize = 8;

/// What is known.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::core::gate) struct State {
    /// The folders it may be in; empty = nobody knows.
    pub(in crate::core::gate) places: BTreeSet<PathBuf>,
    variables: BTreeMap<String, Value>,
    tree: PathBuf,
    temporary: PathBuf,
    /// `IFS` was set: nobody knows how words are split.
    pub(super) splits_otherwise: bool,
    /// The variable that names the folder for what is not kept was set.
    temporary_moved: bool,
}

impl State {
    /// At the start of a command.
    pub(super) fn new(context: &Context<'_>) -> Self {
        let mut variables = BTreeMap::new();
        if let Some(home) = context.home {
            variables.insert("HOME".to_owned(), Value::of(home.to_string_lossy()));
        }
        let root = Path::new("/");
        State {
            places: BTreeSet::from([paths::normalise(root, context.cwd)]),
            variables,
            tree: paths::normalise(root, context.tree),
            temporary: context.temporary.first().cloned().unwrap_or_else(|| "/tmp".into()),
            splits_otherwise: false,
            temporary_moved: false,
        }
    }

    /// Nothing is known any more.
    pub(in crate::core::gate) fn forget(&mut self) {
        self.places.clear();
        self.variables.clear();
        self.splits_otherwise = true;
        self.temporary_moved = true;
    }

    /// No variable is known any more, but for the home folder.
    pub(in crate::core::gate) fn forget_variables(&mut self) {
        self.variables.retain(|name, _| name == "HOME");
    }

    /// It may be anywhere.
    pub(in crate::core::gate) fn forget_place(&mut self) {
        self.places.clear();
    }

    /// What is known when it may have come either way.
    pub(super) fn join(mut self, other: &State) -> State {
        if self.places.is_empty() || other.places.is_empty() {
            self.places.clear();
        } else {
            self.places.extend(other.places.iter().cloned());
            if self.places.len() > MAX_PLACES {
                self.places.clear();
            }
        }
        self.variables.retain(|name, value| other.variables.get(name) == Some(value));
        self.splits_otherwise |= other.splits_otherwise;
        self.temporary_moved |= other.temporary_moved;
        self
    }

    /// `cd`; `None` = somewhere.
    pub(in crate::core::gate) fn go(&mut self, folder: Option<&str>) {
        let Some(folder) = folder else { return self.places.clear() };
        self.places = self.places.iter().map(|place| paths::normalise(place, Path::new(folder))).collect();
        self.variables.remove("OLDPWD");
    }

    /// Assigns; `None` = something.
    pub(in crate::core::gate) fn set(&mut self, name: &str, value: Option<Value>) {
        match name {
            "IFS" => self.splits_otherwise = true,
            "TMPDIR" | "TMP" | "TEMP" => self.temporary_moved = true,
            _ => {}
        }
        match value.filter(|value| !value.pieces.iter().any(|piece| matches!(piece, Piece::Several))) {
            Some(value) if !name.contains('[') => self.variables.insert(name.to_owned(), value),
            _ => self.variables.remove(name.split('[').next().unwrap_or(name)),
        };
        if name == "PWD" {
            self.places.clear();
        }
    }

    /// What a variable holds.
    pub(in crate::core::gate) fn variable(&self, name: &str) -> Option<Value> {
        if name == "PWD" && self.places.len() == 1 {
            return self.places.first().map(|place| Value::of(place.to_string_lossy()));
        }
        self.variables.get(name).cloned()
    }

    /// `${TMPDIR:-/tmp}`.
    pub(super) fn default_of(&self, name: &str, default: &str) -> Option<Value> {
        let is_temporary =
            !self.temporary_moved && ["TMPDIR", "TMP", "TEMP"].contains(&name) && default == "/tmp";
        is_temporary.then(|| Value::of(self.temporary.to_string_lossy()))
    }

    /// The output of a few commands is known: `pwd`, `mktemp`, `git rev-parse --show-toplevel`.
    pub(super) fn known_output(&self, command: &Node) -> Option<String> {
        let NodeKind::Command { assignments, words, redirects } = &command.kind else { return None };
        if !assignments.is_empty() || redirects.iter().any(|redirect| !is_of_errors(redirect)) {
            return None;
        }
        let words: Option<Vec<&str>> = words
            .iter()
            .map(|word| match &word.kind {
                NodeKind::Word { value, .. } => Some(value.as_str()),
                _ => None,
            })
            .collect();
        match words?.as_slice() {
            ["pwd"] if self.places.len() == 1 => {
                self.places.first().map(|place| place.to_string_lossy().into_owned())
            }
            ["git", "rev-parse", "--show-toplevel"]
                if self.places.iter().all(|place| place.starts_with(&self.tree))
                    && !self.places.is_empty() =>
            {
                Some(self.tree.to_string_lossy().into_owned())
            }
            // What these print for `eval` only sets variables.
            ["direnv", "export", ..]
            | ["pyenv" | "rbenv" | "nodenv" | "goenv", "init", ..]
            | ["brew", "shellenv"]
            | ["fnm" | "mise" | "opam", "env", ..]
            | ["mise", "activate", ..] => Some(String::new()),
            ["mktemp", arguments @ ..] if arguments.iter().all(|argument| makes_temporary(argument)) => {
                Some(self.temporary.join("mktemp").to_string_lossy().into_owned())
            }
            _ => None,
        }
    }
}

fn is_of_errors(redirect: &Node) -> bool {
    matches!(&redirect.kind, NodeKind::Redirect { fd: 2, .. })
}

/// Whether `mktemp` with this argument makes something in the folder for what is not kept.
fn makes_temporary(argument: &str) -> bool {
    ["-d", "-t", "-q", "-dt", "-td", "--directory"].contains(&argument)
        || (argument.starts_with("/tmp/") && !argument.contains("..") && argument.ends_with("XXX"))
        || (!argument.contains(['/', '$', '`', '-']) && argument.ends_with("XXX") && argument.len() > 3)
}
