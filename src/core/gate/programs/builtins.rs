//! What changes the shell itself: where it stands, what its variables hold, whether it goes on.

use super::super::finding::Weight;
use super::super::shell::{Feed, Flow, Piece, State, Value, Walk};
use super::Run;

/// Variables whose value is run, or decides what is.
const RUN: [&str; 27] = [
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS4",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "GIT_PROXY_COMMAND",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "BROWSER",
    "LESSOPEN",
    "RUSTC_WRAPPER",
    "SHELL",
    "MAKEFLAGS",
    "PYTHONSTARTUP",
    "PERL5OPT",
];

/// Values of these that are everyday.
const HARMLESS: [&str; 17] = [
    "",
    "cat",
    "true",
    "false",
    ":",
    "less",
    "more",
    "vi",
    "vim",
    "nano",
    "code --wait",
    "sccache",
    "bash",
    "/bin/bash",
    "/bin/sh",
    "delta",
    "-j",
];

impl Walk<'_> {
    /// Judges a variable that is set for a command or for the shell.
    pub(in crate::core::gate) fn assigned(&mut self, name: &str, value: Option<&Value>, state: &State) {
        let line = format!("{name}={}", value.map(Value::shown).unwrap_or_default());
        if name.starts_with("LD_") || name.starts_with("DYLD_") {
            if name != "LD_LIBRARY_PATH" && name != "DYLD_LIBRARY_PATH" {
                self.find(&line, Weight::Refused, "it loads code into every program that follows");
            }
            return;
        }
        let git_key = name.starts_with("GIT_CONFIG");
        let text = value.and_then(Value::text);
        if git_key {
            self.find(
                &line,
                Weight::Refused,
                "it sets git's configuration from the environment; use `git -c`",
            );
            return;
        }
        if name == "NODE_OPTIONS" || name == "RUBYOPT" || name == "JAVA_TOOL_OPTIONS" {
            let shown = value.map(Value::shown).unwrap_or_default();
            if ["--require", "-r", "--import", "--eval", "-javaagent"]
                .iter()
                .any(|option| shown.contains(option))
            {
                self.find(&line, Weight::Refused, "it loads code into every program that follows");
            }
            return;
        }
        if !RUN.contains(&name) {
            return;
        }
        match text {
            Some(text)
                if HARMLESS.contains(&text.trim()) || (name == "MAKEFLAGS" && text.starts_with("-j")) => {}
            Some(text) => {
                self.script(&text, state.clone());
                if ["BASH_ENV", "ENV", "PYTHONSTARTUP", "LESSOPEN", "PERL5OPT"].contains(&name) {
                    self.find(&line, Weight::Refused, "it names what every shell that follows runs first");
                }
            }
            None => self.find(
                &line,
                Weight::Refused,
                "it sets a program that others run, and which cannot be known",
            ),
        }
    }

    /// A builtin of the shell; `None` = it is another program.
    pub(super) fn builtin(&mut self, run: &Run<'_>, state: &State) -> Option<Flow> {
        let mut after = state.clone();
        let operands = super::Options(run.arguments).operands();
        let nothing = "it only changes the shell itself";
        match run.name {
            "cd" | "chdir" => {
                let to = operands.first();
                let text = match to {
                    None => state.variable("HOME").and_then(|home| home.text()),
                    Some(to) => to.text().filter(|text| text != "-"),
                };
                after.go(text.as_deref());
                self.find(run.line, Weight::Nothing, "it only changes the folder");
                return Some(Flow { ok: Some(after), failed: Some(state.clone()) });
            }
            "pushd" | "popd" => after.forget_place(),
            "exit" | "return" | "logout" => {
                self.find(run.line, Weight::Nothing, "it only ends the script");
                return Some(Flow::never());
            }
            "break" | "continue" => {}
            "eval" => {
                self.joined(&run.arguments.iter().collect::<Vec<_>>(), run, state);
                after.forget();
                return Some(Flow::both(after));
            }
            "trap" => {
                if let Some(code) = operands.first()
                    && operands.len() > 1
                    && code.shown() != "-"
                {
                    let mut anywhere = state.clone();
                    anywhere.forget_place();
                    self.code(code, run, &anywhere);
                }
            }
            "source" | "." => {
                self.sourced(run, &operands, state);
                after.forget();
                return Some(Flow::both(after));
            }
            "alias" => {
                for operand in &operands {
                    if let Some((_, code)) = operand.shown().split_once('=') {
                        if operand.is_uncertain() {
                            self.find(run.line, Weight::Refused, "what the alias runs cannot be known");
                        } else {
                            self.script(code, state.clone());
                        }
                    }
                }
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                for operand in &operands {
                    let beginning = operand.beginning();
                    let Some((name, _)) = beginning.split_once('=') else { continue };
                    let value = super::options::without(operand, name.len() + 1);
                    let value = (!name.ends_with('+') && !value.shown().starts_with('(')).then_some(value);
                    self.assigned(name, value.as_ref(), state);
                    let as_reference = super::Options(run.arguments).short('n') && run.name != "export";
                    after.set(name.trim_end_matches('+'), value.filter(|_| !as_reference));
                }
            }
            "read" | "mapfile" | "readarray" | "getopts" | "let" | "unset" => after.forget_variables(),
            "printf" => {
                let target = super::Options(run.arguments).value_of(&["-v"]);
                if target.is_some() {
                    after.forget_variables();
                }
            }
            "set" | "shopt" | "setopt" | "unsetopt" | "enable" | "hash" | "umask" | "ulimit" | "wait"
            | "jobs" | "shift" | "times" | "disown" | "bg" | "fg" | "bind" | "complete" | "compgen" => {
                if run.name == "enable" && super::Options(run.arguments).short('f') {
                    self.find(run.line, Weight::Refused, "it loads code into the shell");
                }
                if run.name == "hash" && super::Options(run.arguments).short('p') {
                    self.find(run.line, Weight::Refused, "it gives a program the name of another one");
                }
                if run.name == "bind" {
                    self.find(run.line, Weight::Refused, "it binds a key to something that runs");
                }
                if run.name == "set" {
                    after.forget_variables();
                }
            }
            _ => return None,
        }
        self.find(run.line, Weight::Nothing, nothing);
        Some(Flow::both(after))
    }

    /// A script that is run in this shell.
    fn sourced(&mut self, run: &Run<'_>, operands: &[&Value], state: &State) {
        let Some(file) = operands.first() else { return };
        match file.text() {
            Some(text) if text.starts_with("/dev/fd/") => {
                self.find(run.line, Weight::Never, "which script it runs cannot be known; name it");
            }
            Some(text) if text.starts_with("/dev/") || text == "-" => self.fed(run, state),
            Some(_) => {
                self.read_file(run.line, file, state);
                let (weight, reason) = self.reach(run, state);
                self.find(run.line, weight, reason);
            }
            None if file.pieces.iter().any(|piece| matches!(piece, Piece::Several))
                || file.is_uncertain() =>
            {
                self.find(run.line, Weight::Refused, "which script it runs cannot be known; name it");
            }
            None => self.find(run.line, Weight::Refused, "which script it runs cannot be known; name it"),
        }
    }

    /// What a shell reads from its standard input.
    pub(super) fn fed(&mut self, run: &Run<'_>, state: &State) {
        match self.feed.clone() {
            Feed::Text { text, certain: true } => {
                self.feed = Feed::Nothing;
                self.script(&text, state.clone());
            }
            Feed::Text { .. } => {
                self.find(
                    run.line,
                    Weight::Never,
                    "what the shell runs cannot be known before; write it with a quoted delimiter",
                );
            }
            Feed::Pipe(_) => {
                self.find(
                    run.line,
                    Weight::Never,
                    "a shell that runs what comes through a pipe runs anything; run the commands themselves",
                );
            }
            Feed::File(file) => {
                let words = [Value::of("source"), file];
                let line = run.line.to_owned();
                let inner = Run { name: "source", arguments: &words[1..], line: &line };
                let (weight, reason) = match words[1].text() {
                    Some(text) if text.starts_with("/dev/") => {
                        (Weight::Never, "what the shell runs cannot be known before".to_owned())
                    }
                    Some(_) => self.reach(&inner, state),
                    None => (Weight::Refused, "which script it runs cannot be known; name it".to_owned()),
                };
                self.find(&line, weight, reason);
            }
            Feed::Nothing => {}
        }
    }
}
