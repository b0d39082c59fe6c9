//! One program with its arguments: what would it do?
//!
//! What changes the shell itself is in [`builtins`], what runs another command in [`wrappers`], the rest by subject.
//! A program nobody has heard of is ordinary as long as its arguments stay in the tree.

use std::path::Path;

use super::finding::Weight;
use super::paths::{self, Zone};
use super::shell::{Flow, State, Target, Value, Walk};

mod builtins;
mod code;
mod copies;
mod git;
mod options;
mod outside;
mod removal;
mod wrappers;

use options::Options;

/// What is against a program; `None` = nothing in particular.
pub(super) type Objection = Option<(Weight, String)>;

/// A refusal with its reason.
#[expect(clippy::unnecessary_wraps, reason = "an objection, as every judge returns it")]
fn refused(reason: &str) -> Objection {
    Some((Weight::Refused, reason.to_owned()))
}

/// A refusal that only the very command can lift.
#[expect(clippy::unnecessary_wraps, reason = "an objection, as every judge returns it")]
fn never(reason: &str) -> Objection {
    Some((Weight::Never, reason.to_owned()))
}

/// It is not dangerous, but not known to be ordinary either.
#[expect(clippy::unnecessary_wraps, reason = "an objection, as every judge returns it")]
fn foreign(reason: &str) -> Objection {
    Some((Weight::Foreign, reason.to_owned()))
}

/// A program as it is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    /// Its name without folder and ending, in small letters.
    name: &'a str,
    /// Everything after it.
    arguments: &'a [Value],
    /// For people and rules.
    line: &'a str,
}

/// Folders that hold programs; what is called by its path there is the program of that name.
const PROGRAM_FOLDERS: [&str; 9] = [
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/sbin",
    "/usr/sbin",
    "/usr/local/sbin",
    "/opt/homebrew/bin",
    "/snap/bin",
    "/usr/games",
];

impl Walk<'_> {
    /// Judges a command whose words are known as far as they can be.
    pub(super) fn program(&mut self, words: &[Value], state: State) -> Flow {
        let Some((first, arguments)) = words.split_first() else { return Flow::both(state) };
        let line = words.iter().map(Value::shown).collect::<Vec<_>>().join(" ");
        let Some(called) = first.text().filter(|text| !text.is_empty()) else {
            self.find(&line, Weight::Never, "which program it runs cannot be known before it runs; name it");
            return Flow::both(state);
        };
        let bare = called.trim_start_matches('=');
        if bare.starts_with('-') && bare.len() > 1 {
            self.find(&line, Weight::Never, "an option stands where its program should");
            return Flow::both(state);
        }
        if bare.chars().any(|c| c.is_control() || (c.is_whitespace() && c != ' '))
            || bare.contains('\u{200b}')
        {
            self.find(&line, Weight::Never, "the name of its program holds characters that cannot be seen");
            return Flow::both(state);
        }
        let name = bare.rsplit('/').next().unwrap_or_default().to_lowercase();
        let name = name.strip_suffix(".exe").unwrap_or(&name).to_owned();
        let run = Run { name: &name, arguments, line: &line };
        if self.functions.contains(bare) {
            if self.inside.iter().any(|function| function == bare) {
                self.find(
                    &line,
                    Weight::Never,
                    "a function that calls itself may fill the machine with processes",
                );
            }
            // Whatever its body does was judged where it is defined; where it leaves the shell is not known.
            let mut after = state.clone();
            after.forget();
            if let Some((weight, reason)) = self.objection(&run, &state)
                && weight >= Weight::Refused
            {
                self.find(&line, weight, reason);
            }
            return Flow::both(after);
        }
        if let Some(flow) = self.builtin(&run, &state) {
            return flow;
        }
        let wraps = self.wrapper(&run, &state);
        self.calls_by_path(bare, &line, &state);
        if !self.elsewhere {
            self.mentions(&run, &state);
        }
        match self.objection(&run, &state) {
            Some((weight, reason)) => self.find(&line, weight, reason),
            None if wraps => self.find(&line, Weight::Nothing, "what it runs is judged by itself"),
            None if outside::changes_nothing(&run) => self.find(&line, Weight::Nothing, "it changes nothing"),
            None => {
                let (weight, reason) = self.reach(&run, &state);
                self.find(&line, weight, reason);
            }
        }
        Flow::both(state)
    }

    fn objection(&mut self, run: &Run<'_>, state: &State) -> Objection {
        let objections = [
            self.removes(run, state),
            self.git(run, state),
            self.copies(run, state),
            self.runs_code(run, state),
            self.ends_by_name(run),
            outside::objection(run, &self.feed),
        ];
        objections.into_iter().flatten().max_by_key(|(weight, _)| *weight)
    }

    /// `kill $(pgrep x)`: by name after all.
    fn ends_by_name(&self, run: &Run<'_>) -> Objection {
        let names = ["pgrep", "pidof", "killall"];
        let by_name = run.name == "kill"
            && run.arguments.iter().any(Value::is_uncertain)
            && self.found().any(|what| names.iter().any(|name| what.starts_with(name)));
        if by_name {
            refused("it ends processes by name, also those of others; end your own by id, with `kill`")
        } else {
            None
        }
    }

    /// A program that is called by its path, and lies neither in the tree nor where programs are.
    fn calls_by_path(&mut self, called: &str, line: &str, state: &State) {
        if !called.contains('/') || self.elsewhere {
            return;
        }
        for target in self.targets(&Value::of(called), state) {
            let Target::At(path) = target else { continue };
            let parent = path.parent().unwrap_or(Path::new("/"));
            let is_home = self.context.home.is_some_and(|home| path.starts_with(home));
            let known = PROGRAM_FOLDERS.iter().any(|folder| parent == Path::new(folder)) || is_home;
            match paths::zone(&path, self.context) {
                Zone::Tree | Zone::Added | Zone::Temporary => {}
                _ if known => {}
                _ => self.find(line, Weight::Foreign, "its program lies outside the working tree"),
            }
        }
    }

    /// Files of keys and passwords among the arguments, whatever the program does with them.
    fn mentions(&mut self, run: &Run<'_>, state: &State) {
        for argument in outside::file_arguments(run) {
            let shown = argument.shown();
            // `--file=.env`, `@.env`, `host:.env`
            let tail = shown.rsplit(['=', '@', ':']).next().unwrap_or_default();
            if tail == shown {
                self.read_file(run.line, argument, state);
            } else if !tail.is_empty() {
                self.read_file(run.line, argument, state);
                self.read_file(run.line, &Value::of(tail), state);
            }
        }
    }

    /// How far the arguments of a program reach.
    fn reach(&mut self, run: &Run<'_>, state: &State) -> (Weight, String) {
        if self.elsewhere {
            return (Weight::Foreign, "it runs on another machine or in a container".to_owned());
        }
        for argument in outside::file_arguments(run) {
            let text = argument.beginning();
            if !(text.starts_with('/') || text.starts_with("..") || text.contains("/../")) {
                continue;
            }
            for target in self.targets(argument, state) {
                let path = match target {
                    Target::At(path) | Target::In { folder: path, .. } => path,
                    Target::Unknown => {
                        return (
                            Weight::Foreign,
                            "where one of its arguments points is not known".to_owned(),
                        );
                    }
                };
                match paths::zone(&path, self.context) {
                    Zone::Device => return (Weight::Foreign, "it touches a device".to_owned()),
                    Zone::Outside | Zone::Root if path != self.context.tree => {
                        return (Weight::Foreign, "it reaches outside the working tree".to_owned());
                    }
                    _ => {}
                }
            }
        }
        (Weight::Ordinary, "it is ordinary work in the tree".to_owned())
    }
}
