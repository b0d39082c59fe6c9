//! Where the words of a command point, and what it means that a file there is written, emptied or read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::state::State;
use super::walk::Walk;
use super::word::{Piece, Value};
use crate::core::gate::finding::{Finding, Subject, Weight};
use crate::core::gate::{files, paths};

/// Where a word points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::core::gate) enum Target {
    /// There.
    At(PathBuf),
    /// At some of what is in a folder; `all` = the pattern begins with a star.
    In { folder: PathBuf, all: bool },
    /// Nobody knows.
    Unknown,
}

impl Walk<'_> {
    /// Where a word points.
    pub(in crate::core::gate) fn targets(&self, value: &Value, state: &State) -> Vec<Target> {
        if self.elsewhere {
            return vec![Target::Unknown];
        }
        let beginning = value.beginning();
        let known = value.text();
        let absolute = beginning.starts_with('/');
        let anywhere = BTreeSet::from([PathBuf::from("/")]);
        let bases = if absolute { &anywhere } else { &state.places };
        if bases.is_empty() {
            return vec![Target::Unknown];
        }
        if let Some(text) = known {
            return bases.iter().map(|base| Target::At(paths::normalise(base, Path::new(&text)))).collect();
        }
        let shown = value.shown();
        if value.is_uncertain() || shown.split('/').any(|part| part == "..") && !beginning.contains("../") {
            return vec![Target::Unknown];
        }
        let (folder, rest) = match beginning.rfind('/') {
            Some(slash) => (&beginning[..=slash], &shown[slash + 1..]),
            None => ("", shown.as_str()),
        };
        if rest.split('/').any(|part| part == "..") {
            return vec![Target::Unknown];
        }
        let first = rest.split('/').next().unwrap_or_default();
        let all = first.starts_with(['*', '?', '[', '.'])
            && !first.trim_start_matches(['*', '?', '.']).contains(|c: char| c.is_alphanumeric())
            || first.starts_with(".*")
            || first.starts_with('[');
        bases
            .iter()
            .map(|base| Target::In { folder: paths::normalise(base, Path::new(folder)), all })
            .collect()
    }

    /// Judges that a program writes a file; rules for the command count.
    pub(in crate::core::gate) fn written(&mut self, what: &str, value: &Value, state: &State) {
        self.writes(what, value, state, |_| Subject::Command(what.to_owned()));
    }

    /// Judges that output is redirected into a file; rules for files count.
    pub(super) fn redirected(&mut self, what: &str, value: &Value, state: &State) {
        self.writes(what, value, state, |path| Subject::Written(path.to_owned()));
    }

    fn writes(&mut self, what: &str, value: &Value, state: &State, subject: impl Fn(&Path) -> Subject) {
        for target in self.targets(value, state) {
            let path = match target {
                Target::At(path) => path,
                Target::In { folder, .. } => folder.join("file"),
                Target::Unknown if self.elsewhere => continue,
                Target::Unknown => {
                    let reason = "which file it writes cannot be known before it runs; name the file";
                    self.find(what, Weight::Refused, reason);
                    continue;
                }
            };
            let file = files::write(&path, self.context);
            self.push(Finding { what: what.to_owned(), subject: subject(&path), ..file });
        }
    }

    /// Judges that a file is emptied.
    pub(in crate::core::gate) fn emptied(&mut self, what: &str, value: &Value, state: &State) {
        for target in self.targets(value, state) {
            let path = match target {
                Target::At(path) => path,
                // Many at once.
                Target::In { folder, .. } => folder,
                Target::Unknown => continue,
            };
            if path == self.context.tree {
                self.find(what, Weight::Refused, "it empties files by a pattern; name them");
                continue;
            }
            if paths::zone(&path, self.context) == paths::Zone::Tree {
                let ignored = self.ignored(&path);
                let (weight, reason) = match ignored {
                    Some(true) => (Weight::Ordinary, "git ignores the file it empties"),
                    _ => (
                        Weight::Refused,
                        "it empties a file that git may not have; remove it, or write what shall be in it",
                    ),
                };
                self.push(Finding {
                    what: what.to_owned(),
                    subject: Subject::Written(path),
                    weight,
                    reason: reason.to_owned(),
                    asks: ignored.is_none(),
                });
            }
        }
    }

    /// Judges that a file is read: only keys and passwords matter.
    pub(in crate::core::gate) fn read_file(&mut self, what: &str, value: &Value, state: &State) {
        let named = |text: &str| paths::is_credential(Path::new(text));
        let shown = value.shown();
        let by_target = self.targets(value, state).iter().any(|target| match target {
            Target::At(path) => paths::is_credential(path),
            Target::In { folder, .. } => paths::is_credential(folder),
            Target::Unknown => false,
        });
        if by_target || named(&shown) || hides_credential(value) {
            self.find(
                what,
                Weight::Refused,
                "it touches a file of keys or passwords; that is for the operator",
            );
        }
    }
}

/// A pattern such as `.en*` or `id_r?a` that can match a file of keys.
fn hides_credential(value: &Value) -> bool {
    if !value.pieces.iter().any(|piece| matches!(piece, Piece::Glob(_))) {
        return false;
    }
    let shown = value.shown();
    let last = shown.rsplit('/').next().unwrap_or_default();
    let literal = last.chars().filter(|c| c.is_alphanumeric()).count();
    let Ok(pattern) = glob::Pattern::new(last) else { return true };
    literal > 0
        && [".env", "id_rsa", "id_ed25519", ".netrc", "credentials", ".npmrc"]
            .iter()
            .any(|name| pattern.matches(name))
}
