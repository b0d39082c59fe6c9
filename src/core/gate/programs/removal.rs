//! What removes files, judged by what it would remove.

use super::super::finding::{Finding, Subject, Weight};
use super::super::paths::{self, Zone};
use super::super::shell::{State, Target, Value, Walk};
use super::{Objection, Options, Run, never, refused};

/// Files that are made again by the next build or save; `find -delete` may take them.
const LEFT_OVERS: [&str; 14] = [
    "*.pyc",
    "*.pyo",
    "*.o",
    "*.obj",
    "*.class",
    "*.log",
    "*.tmp",
    "*.orig",
    "*.rej",
    "*.swp",
    "*.bak",
    "*~",
    ".DS_Store",
    "*.profraw",
];

impl Walk<'_> {
    pub(super) fn removes(&mut self, run: &Run<'_>, state: &State) -> Objection {
        let options = Options(run.arguments);
        match run.name {
            "rm" | "grm" | "del" | "erase" | "trash" | "trash-put" | "unlink" | "srm" => {
                if options.long("no-preserve-root", 4) {
                    return never("it asks to remove the root");
                }
                let recursive = options.short('r')
                    || options.short('R')
                    || options.long("recursive", 1)
                    || options.may_be_more()
                    || options.exactly("/s")
                    || run.name.starts_with("trash")
                    || run.arguments.iter().any(|argument| ["/s", "/S"].contains(&argument.shown().as_str()));
                self.removes_all(run, options.operands(), recursive, state)
            }
            "rmdir" | "rd" => {
                let windows =
                    run.arguments.iter().any(|argument| argument.shown().eq_ignore_ascii_case("/s"));
                self.removes_all(run, options.operands(), windows, state)
            }
            "rimraf" | "del-cli" | "shred" | "wipe" | "remove-item" => {
                self.removes_all(run, options.operands(), true, state)
            }
            "truncate" => {
                let size = options.value_of(&["-s", "--size"]);
                let shrinks = size
                    .as_ref()
                    .is_none_or(|size| size.is_uncertain() || size.shown().starts_with(['0', '-', '<', '/']));
                for operand in
                    options.operands().into_iter().filter(|operand| Some(*operand) != size.as_ref())
                {
                    if shrinks {
                        self.emptied(run.line, operand, state);
                    }
                    self.written(run.line, operand, state);
                }
                None
            }
            "find" | "gfind" | "bfs" => self.find_removes(run, state),
            _ => None,
        }
    }

    fn removes_all(
        &mut self,
        run: &Run<'_>,
        operands: Vec<&Value>,
        recursive: bool,
        state: &State,
    ) -> Objection {
        if operands.is_empty() && !recursive {
            return None;
        }
        if operands.is_empty() {
            return refused("it names nothing to remove");
        }
        for operand in operands {
            self.remove(run.line, operand, recursive, state);
        }
        None
    }

    /// Judges that one word is removed.
    pub(super) fn remove(&mut self, line: &str, value: &Value, recursive: bool, state: &State) {
        for target in self.targets(value, state) {
            let (weight, reason, asks) = match target {
                Target::At(path) => self.remove_at(&path, recursive, value),
                Target::In { folder, all } => self.remove_in(&folder, all, recursive),
                Target::Unknown => (
                    Weight::Refused,
                    "what it removes cannot be known before it runs; name the path itself",
                    false,
                ),
            };
            self.push(Finding {
                what: line.to_owned(),
                subject: Subject::Command(line.to_owned()),
                weight,
                reason: reason.to_owned(),
                asks,
            });
        }
    }

    fn remove_at(
        &mut self,
        path: &std::path::Path,
        recursive: bool,
        value: &Value,
    ) -> (Weight, &'static str, bool) {
        // `x/.` and `x/..` are the folder, whatever they are called.
        let dotted = value.shown().ends_with("/.") || value.shown().ends_with("/..");
        match paths::zone(path, self.context) {
            Zone::Root => {
                (Weight::Never, "it removes the working tree, the home folder or what they lie in", false)
            }
            Zone::Git if !recursive && paths::is_index_lock(path) => {
                (Weight::Ordinary, "it removes the lock of a git process that is gone", false)
            }
            Zone::Git => (Weight::Never, "it removes a part of the git repository", false),
            Zone::Settings => (Weight::Refused, "it removes what says what sessions may do", false),
            Zone::Credential => (Weight::Refused, "it removes a file of keys or passwords", false),
            Zone::Device | Zone::Sink => (Weight::Never, "it removes a device", false),
            Zone::Temporary => (Weight::Ordinary, "it removes what is not kept", false),
            Zone::Added if !recursive => (Weight::Ordinary, "it removes a file of an added folder", false),
            Zone::Added | Zone::Outside => {
                (Weight::Refused, "it removes something outside the working tree", false)
            }
            Zone::Tree if !recursive && !dotted => {
                (Weight::Ordinary, "it removes single files of the tree", false)
            }
            Zone::Tree => self.remove_ignored(path),
        }
    }

    fn remove_ignored(&mut self, path: &std::path::Path) -> (Weight, &'static str, bool) {
        match self.ignored(path) {
            Some(true) => (Weight::Ordinary, "git ignores what it removes", false),
            Some(false) => (
                Weight::Refused,
                "it removes a folder that git does not ignore; remove files by name with `git rm` or `rm`",
                false,
            ),
            None => (Weight::Refused, "nobody asked git whether it ignores what is removed", true),
        }
    }

    fn remove_in(
        &mut self,
        folder: &std::path::Path,
        all: bool,
        recursive: bool,
    ) -> (Weight, &'static str, bool) {
        let is_tree = folder == self.context.tree;
        match paths::zone(folder, self.context) {
            Zone::Root if is_tree && !recursive && !all => {
                (Weight::Ordinary, "it removes single files of the tree", false)
            }
            Zone::Root => {
                (Weight::Never, "it removes by a pattern over the working tree or what it lies in", false)
            }
            _ if self.context.temporary.iter().any(|temporary| temporary == folder) && !all => {
                (Weight::Ordinary, "it removes what is not kept", false)
            }
            Zone::Tree if !recursive && !all => {
                (Weight::Ordinary, "it removes single files of the tree", false)
            }
            Zone::Tree => self.remove_ignored(folder),
            Zone::Temporary => (Weight::Ordinary, "it removes what is not kept", false),
            Zone::Git => (Weight::Never, "it removes a part of the git repository", false),
            _ => (Weight::Refused, "it removes by a pattern outside the working tree", false),
        }
    }

    fn find_removes(&mut self, run: &Run<'_>, state: &State) -> Objection {
        let texts: Vec<String> = run.arguments.iter().map(Value::shown).collect();
        for (at, text) in texts.iter().enumerate() {
            if ["-fprint", "-fprint0", "-fls", "-fprintf"].contains(&text.as_str())
                && let Some(file) = run.arguments.get(at + 1)
            {
                self.written(run.line, file, state);
            }
        }
        if !texts.iter().any(|text| text == "-delete") {
            return None;
        }
        let starts: Vec<&Value> = run
            .arguments
            .iter()
            .skip_while(|value| ["-H", "-L", "-P"].contains(&value.shown().as_str()))
            .take_while(|value| !value.shown().starts_with(['-', '(', '!']))
            .collect();
        let here = Value::of(".");
        let starts = if starts.is_empty() { vec![&here] } else { starts };
        let pattern = Options(run.arguments).value_of(&["-name", "-iname"]);
        let left_over = pattern.is_some_and(|pattern| LEFT_OVERS.contains(&pattern.shown().as_str()))
            && !texts.iter().any(|text| ["-o", "-or", ",", "-not", "!"].contains(&text.as_str()));
        for start in starts {
            let inside = self.targets(start, state).iter().all(|target| {
                let zone = match target {
                    Target::At(path) | Target::In { folder: path, .. } => {
                        if path == self.context.tree {
                            Zone::Tree
                        } else {
                            paths::zone(path, self.context)
                        }
                    }
                    Target::Unknown => Zone::Outside,
                };
                matches!(zone, Zone::Tree | Zone::Temporary | Zone::Added)
            });
            if left_over && inside {
                continue;
            }
            self.remove(run.line, start, true, state);
        }
        None
    }
}
