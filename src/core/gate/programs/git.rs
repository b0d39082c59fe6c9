//! Git, by its subcommand.

use super::super::finding::Weight;
use super::super::shell::{State, Value, Walk};
use super::{Objection, Options, Run, foreign, never, refused};

/// Options before the subcommand that take a value of their own.
const WITH_VALUE: [&str; 9] = [
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--super-prefix",
    "--config-env",
    "--attr-source",
];

/// Subcommands that every git has; another name may be an alias for anything.
const KNOWN: [&str; 98] = [
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bugreport",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "citool",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "credential",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fast-export",
    "fast-import",
    "fetch",
    "filter-branch",
    "fmt-merge-msg",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "init",
    "interpret-trailers",
    "lfs",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "maintenance",
    "merge",
    "merge-base",
    "merge-file",
    "merge-tree",
    "mergetool",
    "mktree",
    "mv",
    "name-rev",
    "notes",
    "pack-refs",
    "prune",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "repack",
    "replace",
    "request-pull",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-email",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "sparse-checkout",
    "stash",
    "status",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "version",
    "worktree",
];

/// Settings whose value is run as a program.
fn runs(key: &str) -> bool {
    let key = key.to_lowercase();
    [
        "core.pager",
        "core.editor",
        "core.sshcommand",
        "core.fsmonitor",
        "core.hookspath",
        "core.askpass",
        "core.gitproxy",
        "sequence.editor",
        "diff.external",
        "credential.helper",
        "gpg.program",
        "include.path",
        "init.templatedir",
        "uploadpack.packobjectshook",
        "core.alternaterefscommand",
    ]
    .contains(&key.as_str())
        || ["alias.", "pager.", "filter.", "includeif.", "url."]
            .iter()
            .any(|section| key.starts_with(section))
        || [
            ".cmd",
            ".command",
            ".textconv",
            ".helper",
            ".path",
            ".program",
            ".driver",
            ".receivepack",
            ".uploadpack",
            ".vcs",
        ]
        .iter()
        .any(|end| key.ends_with(end))
}

impl Walk<'_> {
    pub(super) fn git(&mut self, run: &Run<'_>, state: &State) -> Objection {
        if !["git", "hub", "yadm"].contains(&run.name) {
            return if run.name.starts_with("git-") && run.name.len() > 4 && run.name != "git-lfs" {
                let mut words = vec![Value::of(&run.name[4..])];
                words.extend_from_slice(run.arguments);
                self.git_command(&words, run, state.clone())
            } else {
                None
            };
        }
        let mut at = 0;
        let mut place = state.clone();
        let mut elsewhere = false;
        while let Some(argument) = run.arguments.get(at) {
            let text = argument.beginning();
            if !argument.may_be_option() {
                break;
            }
            if argument.is_uncertain() && !text.contains('=') {
                return never("which git command it runs cannot be known before it runs; name it");
            }
            let (name, joined) = match text.split_once('=') {
                Some((name, _)) => (name.to_owned(), true),
                None => (text.clone(), false),
            };
            let takes_value = WITH_VALUE.contains(&name.as_str());
            let value = if name.starts_with("-c") && name != "-c" {
                Some(Value::of(text[2..].to_owned()))
            } else if takes_value && !joined {
                at += 1;
                run.arguments.get(at).cloned()
            } else {
                Some(super::options::without(argument, name.len() + 1))
            };
            let shown = value.as_ref().map(Value::shown).unwrap_or_default();
            match name.as_str() {
                "-C" => place.go(value.as_ref().and_then(Value::text).as_deref()),
                "--git-dir" | "--work-tree" | "--exec-path" => elsewhere |= joined || takes_value,
                _ if name.starts_with("-c") || name == "--config-env" => {
                    let key = shown.split('=').next().unwrap_or_default().to_owned();
                    let code = shown.split_once('=').map(|(_, code)| code.to_owned()).unwrap_or_default();
                    if runs(&key)
                        && !["", "cat", "false", "true", "vim", "code --wait", ":"].contains(&code.as_str())
                    {
                        self.git_setting(&key, &code, run, state);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        let words = &run.arguments[at.min(run.arguments.len())..];
        let objection = self.git_command(words, run, place);
        if objection.is_none() && elsewhere {
            return foreign("it works on a repository that is named by its folder");
        }
        objection
    }

    /// A setting that names a program: aliases with `!` are shell commands, the others too.
    fn git_setting(&mut self, key: &str, code: &str, run: &Run<'_>, state: &State) {
        if key.to_lowercase().starts_with("alias.") {
            let script = match code.strip_prefix('!') {
                Some(script) => script.to_owned(),
                None => format!("git {code}"),
            };
            self.script(&script, state.clone());
        } else {
            self.find(run.line, Weight::Refused, "it sets a program that git runs; call the program itself");
        }
    }

    fn git_command(&mut self, words: &[Value], run: &Run<'_>, state: State) -> Objection {
        let (command, arguments) = words.split_first()?;
        let Some(name) = command.text() else {
            return never("which git command it runs cannot be known before it runs; name it");
        };
        let options = Options(arguments);
        let operands = options.operands();
        let shown: Vec<String> = arguments.iter().map(Value::shown).collect();
        let first = operands.first().map(|value| value.shown()).unwrap_or_default();
        let whole = |text: &str| [".", "./", ":/", "*", ":", "..", "./*", ":/*", ":(top)"].contains(&text);
        match name.as_str() {
            "push" => push(options, &operands),
            "send-pack" | "http-push" => refused("it pushes past the checks of `git push`"),
            "reset" if options.long("hard", 1) || options.may_be_more() => {
                refused("it throws away work that is not committed; `git stash` or `git commit` keeps it")
            }
            "reset" if options.long("merge", 3) || options.long("keep", 3) => None,
            "clean" => {
                let dry = options.short('n') || options.long("dry-run", 2);
                (!dry || options.may_be_more())
                    .then(|| refused("it removes files that git does not have; remove them by name"))
                    .flatten()
            }
            "checkout" | "restore" | "switch" => {
                let force = options.short('f') && name != "restore"
                    || options.long("force", 1)
                    || options.long("discard-changes", 3);
                let staged_only = name == "restore"
                    && (options.long("staged", 2) || options.short('S'))
                    && !(options.long("worktree", 1) || options.short('W'));
                let by_file = options.long("pathspec-from-file", 3);
                let after_dashes = shown.iter().position(|text| text == "--");
                let everything = name != "switch"
                    && operands.iter().any(|value| {
                        let text = value.shown();
                        whole(&text)
                            || text == self.context.tree.to_string_lossy()
                            || text.starts_with(":/")
                            || text.starts_with(":(")
                            || text.starts_with('*')
                    });
                let _ = after_dashes;
                if (force || by_file || everything) && !staged_only {
                    return refused(
                        "it throws away work that is not committed; name the files, or `git stash`",
                    );
                }
                if operands.iter().any(|value| value.is_uncertain())
                    && after_dashes.is_some()
                    && name == "checkout"
                {
                    return refused("which files it throws away cannot be known before it runs; name them");
                }
                None
            }
            "stash" if ["drop", "clear"].contains(&first.as_str()) => refused("it throws away stashed work"),
            "branch"
                if options.short('D')
                    || (options.short('d') || options.long("delete", 3))
                        && (options.short('f') || options.long("force", 2)) =>
            {
                refused("it removes a branch with commits that may be nowhere else; `git branch -d` checks")
            }
            "branch" | "tag" if options.short('f') || options.long("force", 2) => {
                refused("it moves a name away from commits that may be nowhere else")
            }
            "tag" if options.short('d') || options.long("delete", 3) => refused("it removes a tag"),
            "update-ref" => refused("it changes references past the checks of git's own commands"),
            "reflog" if ["expire", "delete"].contains(&first.as_str()) => {
                refused("it removes the way back to lost commits")
            }
            "prune" => refused("it removes objects that may be the only copy"),
            "gc" if shown
                .iter()
                .any(|text| text.starts_with("--prune=") && text != "--prune=2.weeks.ago")
                || options.long("aggressive", 2) && shown.iter().any(|text| text.contains("now")) =>
            {
                refused("it removes objects that may be the only copy")
            }
            "filter-branch" | "filter-repo" | "fast-import" | "replace" => refused("it rewrites history"),
            "rm" if options.short('r') && (options.short('f') || options.long("force", 1)) => {
                refused("it removes a folder with what is not committed in it; without -f git checks")
            }
            "read-tree" if options.exactly("--reset") || options.short('u') => {
                refused("it throws away work that is not committed; `git stash` or `git commit` keeps it")
            }
            "rm" if (options.short('r'))
                && operands.iter().any(|value| whole(&value.shown()) || value.is_uncertain()) =>
            {
                refused("it removes the whole tree; name what to remove")
            }
            "worktree" if first == "remove" && (options.short('f') || options.long("force", 2)) => {
                refused("it removes a worktree with work that is not committed")
            }
            "worktree" if first == "add" => foreign("it makes a working tree in another folder"),
            "worktree" if first == "move" => foreign("it moves a working tree"),
            "submodule" if first == "foreach" => {
                let code: Vec<&Value> = operands.iter().skip(1).copied().collect();
                self.joined(&code, run, &state);
                None
            }
            "submodule" if first == "deinit" => refused("it removes the working tree of a submodule"),
            "bisect" if first == "run" => {
                let from = arguments.iter().position(|value| value.shown() == "run").unwrap_or_default() + 1;
                self.program(&arguments[from.min(arguments.len())..], state);
                None
            }
            "rebase" | "difftool" | "mergetool" => {
                for (at, text) in shown.iter().enumerate() {
                    let code = match text.as_str() {
                        "-x" | "--exec" | "--extcmd" => arguments.get(at + 1).cloned(),
                        _ if text.starts_with("--exec=") => Some(super::options::without(&arguments[at], 7)),
                        _ if text.starts_with("--extcmd=") => {
                            Some(super::options::without(&arguments[at], 9))
                        }
                        _ if text.starts_with("-x") => Some(super::options::without(&arguments[at], 2)),
                        _ => None,
                    };
                    if let Some(code) = code {
                        self.code(&code, run, &state);
                    }
                }
                None
            }
            "grep"
                if shown
                    .iter()
                    .any(|text| text.starts_with("-O") || text.starts_with("--open-files-in-pager")) =>
            {
                refused("it opens what it finds in a program; without that option it only prints")
            }
            "config" => self.git_config(options, &operands, run, &state),
            "remote" if ["add", "set-url", "rm", "remove", "rename"].contains(&first.as_str()) => {
                foreign("it changes where a push goes")
            }
            "clone" | "ls-remote" | "fetch" | "pull" | "submodule" | "lfs" | "archive" => {
                let runs_a_program = ["--upload-pack", "--receive-pack", "--exec", "-u"]
                    .iter()
                    .any(|option| options.exactly(option))
                    || operands.iter().any(|value| value.shown().starts_with("ext::"));
                if runs_a_program && name != "lfs" {
                    return refused("it names a program to run for the transfer");
                }
                if name == "pull" && (options.long("force", 2) || options.short('f'))
                    || name == "fetch" && operands.iter().any(|value| value.shown().starts_with('+'))
                {
                    return refused("it overwrites references with force");
                }
                self.git_output(options, run, &state);
                if ["pull", "clone", "archive"].contains(&name.as_str()) || name == "ls-remote" {
                    foreign("it talks to another repository")
                } else {
                    None
                }
            }
            "send-email" | "request-pull" | "daemon" | "instaweb" | "credential" | "credential-store"
            | "credential-cache" | "p4" | "svn" => refused("it sends something out, or hands out passwords"),
            "diff" | "log" | "show" | "format-patch" | "bundle" | "diff-tree" | "shortlog" => {
                self.git_output(options, run, &state);
                None
            }
            "init" if operands.iter().any(|value| value.shown().starts_with(['/', '.'])) && first != "." => {
                foreign("it makes a repository in another folder")
            }
            _ if KNOWN.contains(&name.as_str())
                || ["--version", "--help", "-h", "-v", "var"].contains(&name.as_str())
                || name.starts_with("--") =>
            {
                None
            }
            _ => foreign("it is no command of git, so it may be an alias for anything"),
        }
    }

    fn git_output(&mut self, options: Options<'_>, run: &Run<'_>, state: &State) {
        if let Some(file) = options.value_of(&["--output", "-o", "--output-directory"]) {
            self.written(run.line, &file, state);
        }
    }

    fn git_config(
        &mut self,
        options: Options<'_>,
        operands: &[&Value],
        run: &Run<'_>,
        state: &State,
    ) -> Objection {
        let reads = ["--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch", "--show-origin"]
            .iter()
            .any(|option| options.exactly(option))
            || operands.first().is_some_and(|value| ["get", "list"].contains(&value.shown().as_str()));
        if reads {
            return None;
        }
        let operands: Vec<&Value> = operands
            .iter()
            .copied()
            .filter(|value| !["set", "unset", "edit"].contains(&value.shown().as_str()))
            .collect();
        if operands.len() < 2 && !options.exactly("--unset") && !options.exactly("--unset-all") {
            return (options.exactly("-e") || options.exactly("--edit"))
                .then(|| refused("it opens an editor"))
                .flatten();
        }
        if options.exactly("--global")
            || options.exactly("--system")
            || options.exactly("--file")
            || options.exactly("-f")
        {
            return refused(
                "it changes git's settings outside of this repository; without --global it is for this one",
            );
        }
        let key = operands.first().map(|value| value.shown()).unwrap_or_default();
        if runs(&key) {
            let code = operands.get(1).and_then(|value| value.text()).unwrap_or_default();
            self.git_setting(&key, &code, run, state);
            return refused("it sets a program that git runs from then on");
        }
        None
    }
}

fn push(options: Options<'_>, operands: &[&Value]) -> Objection {
    let force = options.short('f')
        || options.long("force", 2)
        || options.long("force-with-lease", 6)
        || options.long("force-if-includes", 6)
        || options.long("mirror", 1)
        || options.long("prune", 3)
        || operands.iter().any(|value| value.beginning().starts_with('+'));
    if force {
        return refused(
            "a push with force overwrites what others have; push without it, or to another branch",
        );
    }
    let deletes = options.short('d')
        || options.long("delete", 2)
        || operands.iter().any(|value| value.beginning().starts_with(':') && value.shown().len() > 1);
    if deletes {
        return refused("it removes a branch or tag of the remote repository");
    }
    if options.may_be_more() || operands.iter().any(|value| value.is_uncertain() && value.may_be_option()) {
        return refused("what it pushes cannot be known before it runs; name remote and branch");
    }
    if ["--receive-pack", "--exec"].iter().any(|option| options.exactly(option)) {
        return refused("it names a program to run for the transfer");
    }
    foreign("it publishes commits")
}
