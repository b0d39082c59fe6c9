//! Programs that run another command: what they run is judged like any other.

use super::super::finding::Weight;
use super::super::shell::{Feed, State, Value, Walk};
use super::{Options, Run};

/// How a wrapper is called.
struct Wrapper {
    names: &'static [&'static str],
    /// Options that take a value in the next argument.
    with_value: &'static [&'static str],
    /// Options without one. An option in neither list makes every word the possible beginning of a command.
    without: &'static [&'static str],
    /// Arguments before the command.
    before: usize,
}

const fn wrapper(
    names: &'static [&'static str],
    with_value: &'static [&'static str],
    without: &'static [&'static str],
    before: usize,
) -> Wrapper {
    Wrapper { names, with_value, without, before }
}

const WRAPPERS: [Wrapper; 25] = [
    wrapper(
        &[
            "nohup",
            "noglob",
            "nocorrect",
            "chronic",
            "unbuffer",
            "busybox",
            "toybox",
            "fakeroot",
            "-",
            "builtin",
            "ssh-agent",
            "dbus-run-session",
            "torsocks",
            "proxychains",
            "proxychains4",
            "rlwrap",
            "eatmydata",
        ],
        &[],
        &["--"],
        0,
    ),
    wrapper(&["command"], &[], &["-p", "--"], 0),
    wrapper(&["exec"], &["-a"], &["-c", "-l", "-cl", "-lc", "--"], 0),
    wrapper(
        &["env"],
        &["-u", "--unset", "-C", "--chdir", "-P"],
        &["-i", "-", "-0", "-v", "--ignore-environment", "--debug", "--null", "--"],
        0,
    ),
    wrapper(
        &["sudo", "doas", "gosu", "su-exec", "pkexec", "run0"],
        &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R", "--user", "--group"],
        &[
            "-A", "-b", "-E", "-e", "-H", "-i", "-K", "-k", "-l", "-n", "-P", "-S", "-s", "-V", "-v", "-nE",
            "-EH", "-En", "--",
        ],
        0,
    ),
    wrapper(
        &["time", "gtime"],
        &["-f", "-o", "--format", "--output"],
        &["-p", "-v", "-a", "-l", "-h", "--verbose", "--portability", "--"],
        0,
    ),
    wrapper(&["nice"], &["-n", "--adjustment"], &["--"], 0),
    wrapper(&["ionice"], &["-c", "-n", "-p", "--class", "--classdata"], &["-t", "--"], 0),
    wrapper(&["chrt"], &["-T", "-P", "-D"], &["-b", "-f", "-i", "-o", "-r", "-a", "-v", "--"], 1),
    wrapper(&["taskset"], &[], &["-c", "--cpu-list", "-a", "--"], 1),
    wrapper(&["numactl"], &["-C", "-N", "-m", "-p"], &["--"], 0),
    wrapper(
        &["timeout", "gtimeout"],
        &["-k", "-s", "--kill-after", "--signal"],
        &["--foreground", "--preserve-status", "-v", "--verbose", "-p", "-f", "--"],
        1,
    ),
    wrapper(&["stdbuf"], &["-i", "-o", "-e", "--input", "--output", "--error"], &["--"], 0),
    wrapper(&["setsid"], &[], &["-c", "-f", "-w", "--ctty", "--fork", "--wait", "--"], 0),
    wrapper(
        &["strace", "ltrace"],
        &["-e", "-o", "-p", "-s", "-P", "-E", "-u", "-a", "-b", "-O", "-S"],
        &["-f", "-ff", "-c", "-C", "-t", "-tt", "-T", "-v", "-y", "-yy", "-q", "-qq", "-r", "-x", "-k", "--"],
        0,
    ),
    wrapper(&["valgrind"], &[], &["-q", "-v", "--"], 0),
    wrapper(
        &["xvfb-run"],
        &["-n", "-s", "-e", "-f", "-p", "-w", "--server-args", "--server-num"],
        &["-a", "-l", "--auto-servernum", "--"],
        0,
    ),
    wrapper(&["caffeinate"], &["-t", "-w"], &["-d", "-i", "-m", "-s", "-u", "-di", "-dims", "--"], 0),
    wrapper(&["systemd-inhibit"], &["--what", "--who", "--why", "--mode"], &["--no-pager", "--"], 0),
    wrapper(
        &["systemd-run"],
        &["-p", "-u", "-M", "-E", "--unit", "--property"],
        &["--user", "--scope", "-t", "-P", "-q", "-G", "--wait", "--pipe", "--pty", "--collect", "--"],
        0,
    ),
    wrapper(
        &[
            "unshare",
            "firejail",
            "bwrap",
            "setarch",
            "setpriv",
            "prlimit",
            "catchsegv",
            "faketime",
            "linux64",
            "i386",
        ],
        &[],
        &["--"],
        0,
    ),
    wrapper(&["chroot"], &[], &["--"], 1),
    wrapper(&["nsenter"], &["-t", "-S", "-G"], &["-a", "-m", "-u", "-i", "-n", "-p", "--"], 0),
    wrapper(
        &["npx", "bunx", "pnpx", "uvx", "pipx", "dlx"],
        &["-p", "--package", "--from", "--with", "--python"],
        &["-y", "--yes", "--no-install", "-q", "--quiet", "--bun", "run", "--"],
        0,
    ),
    wrapper(
        &["xargs", "gxargs"],
        &[
            "-I",
            "-n",
            "-L",
            "-P",
            "-s",
            "-d",
            "-E",
            "-a",
            "-R",
            "-S",
            "-J",
            "--max-args",
            "--max-procs",
            "--max-lines",
            "--max-chars",
            "--delimiter",
            "--arg-file",
            "--replace",
        ],
        &[
            "-0",
            "-r",
            "-t",
            "-p",
            "-x",
            "-o",
            "-i",
            "--null",
            "--no-run-if-empty",
            "--verbose",
            "--exit",
            "--open-tty",
            "--",
        ],
        0,
    ),
];

/// Runners of a project's tools: the words before the command.
const RUNNERS: [(&str, &[&str]); 24] = [
    ("uv", &["run", "tool run"]),
    ("poetry", &["run"]),
    ("pipenv", &["run"]),
    ("pdm", &["run"]),
    ("rye", &["run"]),
    ("hatch", &["run"]),
    ("conda", &["run"]),
    ("mamba", &["run"]),
    ("bundle", &["exec"]),
    ("npm", &["exec", "x"]),
    ("pnpm", &["exec", "dlx"]),
    ("yarn", &["exec", "dlx"]),
    ("bun", &["x"]),
    ("mise", &["exec", "x"]),
    ("asdf", &["exec"]),
    ("rustup", &["run"]),
    ("direnv", &["exec"]),
    ("dotenv", &["run"]),
    ("op", &["run"]),
    ("doppler", &["run"]),
    ("perf", &["stat", "record", "trace"]),
    ("gdb", &["--args"]),
    ("rr", &["record"]),
    ("entr", &[""]),
];

/// Programs that hand their words to a shell.
const AS_CODE: [&str; 8] =
    ["watch", "hyperfine", "concurrently", "parallel", "entr", "nodemon", "chokidar", "at"];

impl Walk<'_> {
    /// Judges what a program runs besides itself; says whether it runs something.
    pub(super) fn wrapper(&mut self, run: &Run<'_>, state: &State) -> bool {
        let options = Options(run.arguments);
        if run.name == "command" && (options.leading().short('v') || options.leading().short('V')) {
            return false;
        }
        if run.name == "xargs" || run.name == "gxargs" || run.name == "parallel" {
            // What comes in becomes arguments.
            return self.xargs(run, state);
        }
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&run.name)) {
            self.unwrap(wrapper, run, state, &[]);
            return true;
        }
        match run.name {
            "find" | "gfind" | "bfs" => self.find_exec(run, state),
            "fd" | "fdfind" => self.fd_exec(run, state),
            "ssh" | "mosh" | "autossh" | "sshpass" => self.ssh(run, state),
            "docker" | "podman" | "nerdctl" | "kubectl" | "docker-compose" | "oc" => {
                self.container(run, state)
            }
            "script" | "su" | "runuser" | "sg" | "flock" | "nix-shell" | "nix" | "screen" | "tmux"
            | "make" | "gmake" | "cargo" | "just" => self.option_code(run, state),
            _ if AS_CODE.contains(&run.name) => {
                let words: Vec<&Value> = options.operands();
                if run.name == "watch" || run.name == "at" {
                    self.after_options(run, &["-n", "--interval", "-f"], state);
                } else {
                    for word in &words {
                        self.code(word, run, state);
                    }
                    let first = run.arguments.iter().position(|word| !word.may_be_option());
                    self.program(&run.arguments[first.unwrap_or(run.arguments.len())..], state.clone());
                }
                if let Some(code) =
                    options.value_of(&["--exec", "-x", "-c", "--prepare", "--setup", "--cleanup"])
                {
                    self.code(&code, run, state);
                }
                true
            }
            _ => self.runner(run, state),
        }
    }

    /// Takes the wrapper off.
    fn unwrap(&mut self, wrapper: &Wrapper, run: &Run<'_>, state: &State, more: &[Value]) {
        let mut at = 0;
        let mut certain = true;
        let mut place = state.clone();
        while let Some(argument) = run.arguments.get(at) {
            let text = argument.beginning();
            if run.name == "env" && text.contains('=') && !text.starts_with('-') {
                let (name, _) = text.split_once('=').unwrap_or_default();
                let value = super::options::without(argument, name.len() + 1);
                self.assigned(name, Some(&value), state);
                at += 1;
                continue;
            }
            if !argument.may_be_option() {
                break;
            }
            if text.is_empty() {
                certain = false;
                break;
            }
            let name = text.split('=').next().unwrap_or(&text);
            if run.name == "env"
                && (name.starts_with("-S")
                    || name.starts_with("--split-string")
                    || (name.starts_with('-') && !name.starts_with("--") && name.contains('S')))
            {
                let code = if name == "-S"
                    || (name == "--split-string" && !text.contains('='))
                    || name.ends_with('S')
                {
                    at += 1;
                    run.arguments.get(at).cloned()
                } else {
                    let skip = text.find('S').map_or(2, |at| at + 1);
                    Some(super::options::without(argument, if name.starts_with("--") { 15 } else { skip }))
                };
                let rest = &run.arguments[(at + 1).min(run.arguments.len())..];
                let mut words: Vec<&Value> = code.iter().collect();
                words.extend(rest);
                self.joined(&words, run, state);
                return;
            }
            if wrapper.with_value.contains(&name) {
                if run.name == "env" && ["-C", "--chdir"].contains(&name) {
                    place.forget_place();
                }
                // `-I{}` is one argument.
                at += if text.contains('=') || argument.text().is_none() { 1 } else { 2 };
            } else if wrapper.without.contains(&text.as_str())
                || wrapper
                    .with_value
                    .iter()
                    .any(|option| !option.starts_with("--") && text.starts_with(option))
                || (name.starts_with("--") && text.contains('='))
                || (run.name == "nice" && text[1..].chars().all(|c| c.is_ascii_digit()))
            {
                at += 1;
                if text == "--" {
                    break;
                }
            } else {
                certain = false;
                break;
            }
        }
        let mut rest: Vec<Value> = run.arguments[at.min(run.arguments.len())..].to_vec();
        rest.extend_from_slice(more);
        if run.name == "sudo" {
            // `sudo X=1 cmd`
            while rest.first().is_some_and(|word| word.beginning().contains('=') && !word.may_be_option()) {
                rest.remove(0);
            }
        }
        if !certain {
            return self.anywhere(&rest, state);
        }
        let rest = &rest[wrapper.before.min(rest.len())..];
        if rest.is_empty() {
            return;
        }
        if ["npx", "bunx", "pnpx", "uvx", "pipx"].contains(&run.name) {
            let mut rest = rest.to_vec();
            // `rimraf@5`
            if let Some((name, _)) = rest[0].text().as_deref().and_then(|text| text.rsplit_once('@'))
                && !name.is_empty()
            {
                rest[0] = Value::of(name);
            }
            self.program(&rest, place);
        } else {
            self.program(rest, place);
        }
    }

    /// Nobody knows where the command begins: each word may be it, and only what is dangerous counts.
    fn anywhere(&mut self, words: &[Value], state: &State) {
        for at in 0..words.len().min(32) {
            if words[at].may_be_option() && !words[at].is_uncertain() {
                continue;
            }
            self.only_dangers(|walk| {
                walk.program(&words[at..], state.clone());
            });
        }
    }

    fn xargs(&mut self, run: &Run<'_>, state: &State) -> bool {
        let more = [Value::unknown()];
        if run.name == "parallel" {
            let words: Vec<Value> = Options(run.arguments).operands().into_iter().cloned().collect();
            let end = words.iter().position(|word| word.shown().starts_with(":::")).unwrap_or(words.len());
            let mut command = words[..end].to_vec();
            for word in &words[end..] {
                self.code_if_dangerous(word, run, state);
            }
            if let Some(first) = command.first().cloned() {
                self.code(&first, run, state);
            } else {
                self.find(run.line, Weight::Never, "it runs what it reads; run the commands themselves");
            }
            command.extend_from_slice(&more);
            self.anywhere(&command, state);
            return true;
        }
        let outer = std::mem::replace(&mut self.feed, Feed::Nothing);
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&"xargs")) {
            self.unwrap(wrapper, run, state, &more);
        }
        self.feed = outer;
        true
    }

    fn find_exec(&mut self, run: &Run<'_>, state: &State) -> bool {
        let mut any = false;
        let mut at = 0;
        while at < run.arguments.len() {
            let text = run.arguments[at].shown();
            at += 1;
            if !["-exec", "-execdir", "-ok", "-okdir"].contains(&text.as_str()) {
                continue;
            }
            let end = run.arguments[at..]
                .iter()
                .position(|word| [";", "+"].contains(&word.shown().as_str()))
                .map_or(run.arguments.len(), |length| at + length);
            let mut place = state.clone();
            if text.ends_with("dir") {
                place.forget_place();
            }
            self.program(&run.arguments[at..end], place);
            any = true;
            at = end;
        }
        any
    }

    fn fd_exec(&mut self, run: &Run<'_>, state: &State) -> bool {
        let at = run
            .arguments
            .iter()
            .position(|word| ["-x", "-X", "--exec", "--exec-batch"].contains(&word.shown().as_str()));
        let Some(at) = at else { return false };
        let mut words = run.arguments[at + 1..].to_vec();
        words.push(Value::unknown());
        self.program(&words, state.clone());
        true
    }

    /// What runs on another machine.
    fn ssh(&mut self, run: &Run<'_>, state: &State) -> bool {
        let with_value = [
            "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p", "-Q",
            "-R", "-S", "-W", "-w",
        ];
        let mut at = 0;
        while let Some(argument) = run.arguments.get(at).filter(|argument| argument.may_be_option()) {
            let text = argument.shown();
            if let Some(code) = text
                .to_lowercase()
                .split_once("proxycommand")
                .or_else(|| text.split_once("LocalCommand"))
                .map(|(_, code)| code.trim_start_matches(['=', ' ']).to_owned())
            {
                self.script(&code, state.clone());
            }
            if text == "-o"
                && let Some(next) = run.arguments.get(at + 1)
            {
                let shown = next.shown();
                if shown.to_lowercase().starts_with("proxycommand")
                    || shown.to_lowercase().starts_with("localcommand")
                {
                    self.script(
                        shown.split_once(['=', ' ']).map(|(_, code)| code).unwrap_or_default(),
                        state.clone(),
                    );
                }
            }
            at += if with_value.contains(&text.as_str()) { 2 } else { 1 };
        }
        let rest = &run.arguments[(at + 1).min(run.arguments.len())..];
        let outer = std::mem::replace(&mut self.elsewhere, true);
        if rest.is_empty() {
            self.fed(run, state);
        } else {
            self.joined(&rest.iter().collect::<Vec<_>>(), run, state);
        }
        self.elsewhere = outer;
        true
    }

    /// What runs in a container.
    fn container(&mut self, run: &Run<'_>, state: &State) -> bool {
        let texts: Vec<String> = run.arguments.iter().map(Value::shown).collect();
        let Some(at) = texts.iter().position(|text| ["exec", "run"].contains(&text.as_str())) else {
            return false;
        };
        for (at, text) in texts.iter().enumerate() {
            let given = text
                .strip_prefix("--volume=")
                .or_else(|| text.strip_prefix("-v"))
                .filter(|rest| !rest.is_empty());
            let after = ["-v", "--volume"]
                .contains(&text.as_str())
                .then(|| texts.get(at + 1).map(String::as_str))
                .flatten();
            let Some(host) = given.or(after).and_then(|mount| mount.split_once(':')).map(|(host, _)| host)
            else {
                continue;
            };
            if host.starts_with(['/', '.', '~']) {
                self.written(
                    &format!("{} (mounts {host})", run.line),
                    &Value::of(format!("{host}/in-the-container")),
                    state,
                );
            }
        }
        let outer = std::mem::replace(&mut self.elsewhere, true);
        self.anywhere(&run.arguments[at + 1..], state);
        self.elsewhere = outer;
        false
    }

    /// Code in the value of an option, and commands after it.
    fn option_code(&mut self, run: &Run<'_>, state: &State) -> bool {
        let options = Options(run.arguments);
        let codes: &[&str] = match run.name {
            "make" | "gmake" => &["--eval"],
            "cargo" => &["-s", "-x", "--shell"],
            "nix-shell" | "nix" => &["--run", "--command", "-c"],
            _ => &["-c", "--command"],
        };
        if run.name == "cargo" {
            if run.arguments.first().is_some_and(|word| word.shown() == "watch") {
                if let Some(code) = options.value_of(&["-s", "--shell"]) {
                    self.code(&code, run, state);
                }
                return true;
            }
            return false;
        }
        if ["make", "gmake"].contains(&run.name) {
            for argument in run.arguments {
                let text = argument.shown();
                let named = text
                    .split_once('=')
                    .filter(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
                if let Some(code) = text.strip_prefix("--eval=").or_else(|| text.strip_prefix("SHELL=")) {
                    self.script(code, state.clone());
                } else if let Some((_, code)) = named.filter(|(_, value)| value.contains(' ')) {
                    self.only_dangers(|walk| {
                        walk.script(code, state.clone());
                    });
                }
            }
            if options.value_of(&["-f", "--file", "--makefile"]).map(|file| file.shown()).is_some_and(
                |file| ["-", "/dev/stdin"].contains(&file.as_str()) || file.starts_with("/dev/fd/"),
            ) {
                self.find(
                    run.line,
                    Weight::Refused,
                    "it runs rules that cannot be known; write them into a file of the repository",
                );
            }
            return false;
        }
        if let Some(code) = options.value_of(codes) {
            self.code(&code, run, state);
        }
        for argument in run.arguments {
            if let Some(code) = argument.text().filter(|text| text.contains(' ')) {
                self.only_dangers(|walk| {
                    walk.script(&code, state.clone());
                });
            }
        }
        if ["flock", "screen", "tmux", "nix", "sg", "su", "runuser"].contains(&run.name) {
            self.anywhere(run.arguments, state);
        }
        true
    }

    fn after_options(&mut self, run: &Run<'_>, with_value: &[&str], state: &State) {
        let mut at = 0;
        while let Some(argument) = run.arguments.get(at).filter(|argument| argument.may_be_option()) {
            at += if with_value.contains(&argument.shown().as_str()) { 2 } else { 1 };
        }
        self.joined(&run.arguments[at.min(run.arguments.len())..].iter().collect::<Vec<_>>(), run, state);
    }

    /// `poetry run cmd`, `bundle exec cmd`.
    fn runner(&mut self, run: &Run<'_>, state: &State) -> bool {
        let Some((_, verbs)) = RUNNERS.iter().find(|(name, _)| *name == run.name) else { return false };
        let texts: Vec<String> = run.arguments.iter().map(Value::shown).collect();
        // The verb is the first word that is no option; in front of it an option may have a value.
        let first = texts.iter().position(|text| !text.starts_with('-')).unwrap_or(texts.len());
        let found = verbs.iter().find_map(|verb| {
            let verb: Vec<&str> = verb.split_whitespace().collect();
            let at = texts.windows(verb.len().max(1)).position(|window| window == verb.as_slice())?;
            (at == first || (first > 0 && at <= first + 1)).then_some(at + verb.len())
        });
        let Some(at) = found else { return false };
        let rest = &run.arguments[at.min(run.arguments.len())..];
        if rest.is_empty() {
            return false;
        }
        let skip = rest.iter().position(|word| !word.may_be_option()).unwrap_or(rest.len());
        if skip == 0 {
            self.program(rest, state.clone());
        } else {
            // An option may take a value.
            self.anywhere(&rest[skip..], state);
        }
        true
    }

    /// A word that a shell would run.
    pub(super) fn code(&mut self, code: &Value, run: &Run<'_>, state: &State) {
        let only_names =
            code.pieces.iter().all(|piece| !matches!(piece, super::super::shell::Piece::Several));
        match code.text() {
            Some(text) => {
                self.script(&text, state.clone());
            }
            None if only_names && code.shown().contains("…") => {
                self.find(run.line, Weight::Never, "a part of the code for the shell cannot be known before it runs; run the commands themselves");
            }
            None => {
                let shown = code.shown();
                if shown.contains('…') {
                    self.find(
                        run.line,
                        Weight::Never,
                        "the code for the shell cannot be known before it runs; run the commands themselves",
                    );
                } else {
                    // Globs stand for themselves when they match nothing, and a file name when they do.
                    self.script(&shown, state.clone());
                }
            }
        }
    }

    fn code_if_dangerous(&mut self, code: &Value, run: &Run<'_>, state: &State) {
        if code.text().is_some_and(|text| text.contains(' ')) {
            self.only_dangers(|walk| walk.code(code, run, state));
        }
    }

    /// Words that a shell joins and runs.
    pub(super) fn joined(&mut self, words: &[&Value], run: &Run<'_>, state: &State) {
        let mut pieces = Vec::new();
        for word in words {
            if !pieces.is_empty() {
                pieces.push(super::super::shell::Piece::Text(" ".to_owned()));
            }
            pieces.extend(word.pieces.iter().cloned());
        }
        if pieces.is_empty() {
            return;
        }
        self.code(&Value { pieces }, run, state);
    }
}
