//! Shells and interpreters: code on the command line, at standard input, in a file.
//!
//! The code of a shell is parsed. That of another language is only looked through for what removes trees, starts
//! programs or talks to the network: enough to catch the accident, not the intention. A script in a file of the tree
//! is ordinary, whoever wrote it.

use super::super::finding::Weight;
use super::super::shell::{Feed, State, Value, Walk};
use super::{Objection, Options, Run, foreign, never, refused};

const SHELLS: [&str; 12] =
    ["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "rbash", "yash", "csh", "tcsh"];

/// Interpreters and the options after which code stands.
const INTERPRETERS: [(&str, &[&str]); 17] = [
    ("python", &["-c"]),
    ("pypy", &["-c"]),
    ("ipython", &["-c"]),
    ("node", &["-e", "-p", "-pe", "--eval", "--print"]),
    ("nodejs", &["-e", "-p", "-pe", "--eval", "--print"]),
    ("deno", &["eval"]),
    ("bun", &["-e", "--eval", "-p", "--print"]),
    ("tsx", &["-e", "--eval"]),
    ("ts-node", &["-e", "-p", "-pe", "--eval"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("php", &["-r"]),
    ("lua", &["-e"]),
    ("r", &["-e"]),
    ("rscript", &["-e"]),
    ("osascript", &["-e"]),
    ("julia", &["-e"]),
];

/// What such code must not do. In small letters, blanks taken out.
const DANGERS: [&str; 70] = [
    "rmtree",
    "rmdir(",
    ").rm(",
    "process.binding",
    "open(\"/etc",
    "open('/etc",
    "os.remove",
    "os.unlink",
    "os.rmdir",
    "removedirs",
    "shutil.move",
    "os.system",
    "os.popen",
    "os.exec",
    "os.spawn",
    "posix_spawn",
    "subprocess",
    "pty.spawn",
    "__import__",
    "importlib",
    "getattr(os",
    "exec(",
    "eval(",
    "compile(",
    "ctypes",
    "os.kill",
    "killpg",
    "os.chmod",
    "os.chown",
    "truncate(",
    "child_process",
    "rmsync",
    "unlinksync",
    "rmdirsync",
    "fs.rm",
    "fs.unlink",
    "fspromises.rm",
    "execsync",
    "spawnsync",
    "process.kill",
    "deno.remove",
    "deno.command",
    "deno.run",
    "bun.spawn",
    "bun.$",
    "import(",
    "unlink",
    "system(",
    "system\"",
    "system'",
    "qx",
    "fileutils.rm",
    "rm_rf",
    "rm_r",
    "file.delete",
    "dir.rmdir",
    "popen",
    "shell_exec",
    "passthru",
    "proc_open",
    "doshellscript",
    "urlopen",
    "requests.",
    "httpx",
    "socket",
    "http.client",
    "fetch(",
    "https.get",
    "http.get",
    "net/http",
];

/// Names of programs in strings of code that are run.
const WORDS: [&str; 14] = [
    "rm -rf",
    "rm -fr",
    "rm -r",
    "push --force",
    "push -f",
    "reset --hard",
    "mkfs",
    "/dev/sd",
    "drop table",
    "delete from",
    "truncate table",
    ".ssh/",
    "id_rsa",
    "/etc/shadow",
];

impl Walk<'_> {
    pub(super) fn runs_code(&mut self, run: &Run<'_>, state: &State) -> Objection {
        if SHELLS.contains(&run.name) {
            return self.shell(run, state);
        }
        let base = run.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if let Some((_, options)) = INTERPRETERS.iter().find(|(name, _)| *name == base) {
            return self.interpreter(run, base, options);
        }
        match run.name {
            "awk" | "gawk" | "mawk" | "nawk" => awk(run),
            "sed" | "gsed" => self.sed(run, state),
            "less" | "more" | "man" | "most" => run
                .arguments
                .iter()
                .any(|argument| {
                    let text = argument.shown();
                    text.starts_with('+') && text.contains('!')
                        || run.name == "man"
                            && ["-P", "--pager"].iter().any(|option| text.starts_with(option))
                })
                .then(|| refused("a pager that runs commands cannot be judged"))
                .flatten(),
            "vim" | "vi" | "nvim" | "ex" | "view" | "emacs" | "ed" => editor(run),
            "iex" | "invoke-expression" | "powershell" | "pwsh" | "cmd" => {
                never("what it runs cannot be judged; use the shell's own commands")
            }
            "expect" | "tclsh" | "gdb" | "lldb" => (Options(run.arguments).exactly("-c")
                || Options(run.arguments).exactly("-ex")
                || matches!(self.feed, Feed::Pipe(_) | Feed::Text { .. }))
            .then(|| refused("code for it on the command line cannot be judged; write it into a file"))
            .flatten(),
            _ => None,
        }
    }

    fn shell(&mut self, run: &Run<'_>, state: &State) -> Objection {
        let before = Options(run.arguments).leading();
        if before.short('n') && !before.short('c') && !before.short('s') && matches!(self.feed, Feed::Nothing)
        {
            // Only the syntax is checked.
            return None;
        }
        let mut at = 0;
        let mut reads_code = false;
        let mut reads_input = false;
        while let Some(argument) = run.arguments.get(at) {
            let text = argument.beginning();
            if !(argument.may_be_option() || text.starts_with('+')) {
                break;
            }
            if argument.is_uncertain() {
                return never(
                    "how the shell is called cannot be known before it runs; run the commands themselves",
                );
            }
            at += 1;
            if text == "--" || text == "-" {
                break;
            }
            if let Some(long) = text.strip_prefix("--") {
                match long {
                    "rcfile" | "init-file" => {
                        return refused("it names what the shell runs first; run the commands themselves");
                    }
                    "command" => reads_code = true,
                    _ => {}
                }
                continue;
            }
            reads_code |= text.starts_with('-') && text.contains('c');
            reads_input |= text.starts_with('-') && text.contains('s');
            if text.ends_with(['o', 'O']) {
                at += 1;
            }
        }
        let rest = &run.arguments[at.min(run.arguments.len())..];
        if reads_code {
            let code = rest.first()?;
            // A shell in a shell reads the same standard input.
            self.code(code, run, state);
            return self.ran(run);
        }
        match rest.first() {
            Some(script) if !reads_input => {
                let text = script.beginning();
                if text.starts_with("/dev/fd/63") {
                    return never("what the shell runs cannot be known before; run the commands themselves");
                }
                if text.starts_with("/dev/") || text.starts_with("/proc/") {
                    self.fed(run, state);
                    return self.ran(run);
                }
                if script.is_uncertain() {
                    return refused("which script it runs cannot be known; name it");
                }
                None
            }
            _ => {
                self.fed(run, state);
                self.ran(run)
            }
        }
    }

    /// The shell itself does nothing besides.
    fn ran(&mut self, run: &Run<'_>) -> Objection {
        self.find(run.line, Weight::Ordinary, "what the shell runs is judged by itself");
        None
    }

    fn interpreter(&mut self, run: &Run<'_>, base: &str, code_options: &[&str]) -> Objection {
        let mut codes: Vec<Value> = Vec::new();
        let mut names_script = false;
        let mut skip = false;
        for (at, argument) in run.arguments.iter().enumerate() {
            if skip {
                skip = false;
                continue;
            }
            let text = argument.beginning();
            let is_long = text.starts_with("--");
            // `-ne code`, `-lane code`: a bundle that ends with the letter.
            let bundle = !is_long
                && text.starts_with('-')
                && text.len() > 2
                && argument.text().is_some()
                && ["perl", "ruby", "node", "python"].contains(&base)
                && code_options.iter().any(|option| option.len() == 2 && text.ends_with(&option[1..]));
            if code_options.contains(&text.as_str()) && argument.text().is_some() || bundle {
                codes.extend(run.arguments.get(at + 1).cloned());
                skip = true;
                if base == "python" {
                    names_script = true;
                    break;
                }
            } else if let Some(option) = code_options.iter().find(|option| {
                text.starts_with(*option)
                    && text.len() > option.len()
                    && (!is_long || text[option.len()..].starts_with('='))
            }) {
                codes.push(super::options::without(argument, option.len()));
            } else if text == "-m" {
                return self.module(run, at);
            } else if text.starts_with("/dev/fd/63") {
                return refused("what it runs cannot be known before; write the code into a file");
            } else if !text.starts_with('-') && codes.is_empty() {
                names_script = text != "/dev/stdin";
                let name = text.rsplit('/').next().unwrap_or_default();
                let inner = Run { name, arguments: &run.arguments[at + 1..], line: run.line };
                if let Some(objection) = super::outside::objection(&inner, &self.feed) {
                    return Some(objection);
                }
                break;
            } else if text == "-" {
                break;
            }
        }
        for code in &codes {
            if code.is_uncertain() && code.beginning().is_empty() {
                return refused("the code it runs cannot be known before it runs; write it into a file");
            }
            if let Some(objection) = looked_through(&code.shown()) {
                return Some(objection);
            }
        }
        if !codes.is_empty()
            || names_script
            || run
                .arguments
                .iter()
                .any(|argument| ["--version", "-V", "--help", "-h"].contains(&argument.shown().as_str()))
        {
            return None;
        }
        match &self.feed {
            Feed::Text { text, .. } => looked_through(text),
            Feed::Pipe(_) => refused("what comes through the pipe is run as code; write it into a file"),
            Feed::File(_) | Feed::Nothing => None,
        }
    }

    /// `python -m module`.
    fn module(&mut self, run: &Run<'_>, at: usize) -> Objection {
        let rest = &run.arguments[(at + 1).min(run.arguments.len())..];
        let name = rest.first().map(Value::shown).unwrap_or_default();
        let inner = Run { name: &name, arguments: rest.get(1..).unwrap_or_default(), line: run.line };
        super::outside::objection(&inner, &self.feed)
    }

    fn sed(&mut self, run: &Run<'_>, state: &State) -> Objection {
        let options = Options(run.arguments);
        let in_place = options.short('i') || options.long("in-place", 2);
        let scripts_named = options.value_of(&["-e", "--expression"]).is_some()
            || options.value_of(&["-f", "--file"]).is_some();
        let operands = options.operands();
        let scripts: Vec<String> = if scripts_named {
            run.arguments.iter().map(Value::shown).filter(|text| !text.starts_with("-n")).collect()
        } else {
            operands.first().map(|value| value.shown()).into_iter().collect()
        };
        for script in &scripts {
            if sed_runs(script) {
                return refused(
                    "its script runs commands or writes files; do that with the commands themselves",
                );
            }
        }
        if in_place {
            let scripts = [options.value_of(&["-e", "--expression"]), options.value_of(&["-f", "--file"])];
            let is_script = |file: &Value| {
                let at = run.arguments.iter().position(|argument| std::ptr::eq(argument, file));
                let before = at.and_then(|at| run.arguments.get(at.checked_sub(1)?)).map(Value::shown);
                scripts.iter().flatten().any(|script| script == file)
                    || before.is_some_and(|before| {
                        ["-e", "--expression", "-f", "--file"].contains(&before.as_str())
                    })
            };
            for file in operands.iter().filter(|file| !is_script(file)).skip(usize::from(!scripts_named)) {
                // Which files a loop or a pipe names does not matter as long as nothing leads out.
                if !file.is_uncertain() && !file.shown().is_empty() {
                    self.written(run.line, file, state);
                }
            }
        }
        None
    }
}

/// Whether a sed script runs commands (`e`, `s///e`) or writes files (`w /etc/x`).
fn sed_runs(script: &str) -> bool {
    script.split([';', '\n', '{', '}']).any(|command| {
        let command = command.trim().trim_start_matches(|c: char| c.is_ascii_digit() || ",$!~+ ".contains(c));
        let command = match command.strip_prefix('/') {
            Some(rest) => rest.split_once('/').map_or("", |(_, after)| after).trim(),
            None => command,
        };
        if let Some(rest) = command.strip_prefix('s') {
            let Some(delimiter) = rest.chars().next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace())
            else {
                return false;
            };
            let flags = rest.rsplit(delimiter).next().unwrap_or_default();
            return rest.matches(delimiter).count() >= 3
                && (flags.contains('e') || flags.trim_start().starts_with('w') || flags.contains("w /"));
        }
        command == "e"
            || command.starts_with("e ")
            || command.starts_with("w /")
            || command.starts_with("w ~")
            || command.starts_with("W /")
    })
}

fn awk(run: &Run<'_>) -> Objection {
    let code: String = run.arguments.iter().map(Value::shown).collect::<Vec<_>>().join("\n");
    let bare: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let pipes = ["|\"", "\"|", "|getline", "|&", "|cmd"].iter().any(|pipe| bare.contains(pipe))
        && !bare.contains("||\"");
    let runs = bare.contains("system(") || pipes && (bare.contains("getline") || bare.contains("print"));
    let writes = bare.contains(">\"/") && !bare.contains(">\"/dev/std") || bare.contains(">>\"/");
    if runs {
        // `sort` and its kind are what people pipe to.
        let harmless =
            ["|\"sort", "|\"cat", "|\"column", "|\"uniq", "\"date\""].iter().any(|pipe| bare.contains(pipe))
                && !bare.contains("system(");
        return if harmless { None } else { refused("its code runs commands; run them in the shell") };
    }
    writes.then(|| refused("its code writes outside the working tree")).flatten()
}

fn editor(run: &Run<'_>) -> Objection {
    let runs = run.arguments.iter().any(|argument| {
        let text = argument.shown();
        text.contains('!')
            || text.contains("system(")
            || text.starts_with("--eval")
            || text.contains("shell-command")
            || text.starts_with("+py")
            || text.contains("jobstart")
            || text.contains(":py")
            || text.contains("lua ")
    });
    if runs {
        refused("an editor that runs commands cannot be judged")
    } else {
        foreign("it is an editor, and waits for a person")
    }
}

/// Looks through code of another language.
fn looked_through(code: &str) -> Option<(Weight, String)> {
    let lower = code.to_lowercase();
    let bare: String = lower.chars().filter(|c| !c.is_whitespace()).collect();
    let word = WORDS.iter().find(|word| lower.contains(**word)).copied();
    // `re.compile(`, `model.eval(`, `pattern.exec(` are methods of something else.
    let as_function = ["exec(", "eval(", "compile(", "import(", "qx"];
    let danger = DANGERS.iter().copied().find(|danger| {
        bare.match_indices(danger).any(|(at, _)| {
            let before = bare[..at].chars().next_back();
            let is_part = before.is_some_and(|c| c == '.' || c.is_alphanumeric() || c == '_');
            !(as_function.contains(danger) && is_part)
        })
    });
    let found = word.or(danger)?;
    Some((
        Weight::Refused,
        format!(
            "its code has `{found}`; what removes, starts programs or uses the network belongs into the shell, where it is judged"
        ),
    ))
}
