//! What writes, moves or opens up files by their names.

use super::super::finding::Weight;
use super::super::paths::{self, Zone};
use super::super::shell::{State, Target, Value, Walk};
use super::{Objection, Options, Run, foreign, never, refused};

impl Walk<'_> {
    pub(super) fn copies(&mut self, run: &Run<'_>, state: &State) -> Objection {
        let options = Options(run.arguments);
        let operands = options.operands();
        match run.name {
            "cp" | "gcp" | "install" | "ginstall" | "scp" | "rsync" | "ditto" | "rclone" => {
                if run.name == "rsync" {
                    if options.value_of(&["-e", "--rsh", "--rsync-path"]).is_some_and(|code| {
                        let code = code.shown();
                        !code.starts_with("ssh") || code.contains([';', '|', '&', '`', '$'])
                    }) {
                        return refused("it names a program to run for the transfer");
                    }
                    if options.given_any(&[
                        "--delete",
                        "--delete-after",
                        "--delete-before",
                        "--delete-excluded",
                        "--delete-during",
                        "--delete-delay",
                        "--del",
                        "--remove-source-files",
                    ]) {
                        if let Some(to) = operands.last() {
                            self.remove(run.line, to, true, state);
                        }
                        return None;
                    }
                }
                if operands.iter().any(|operand| is_remote(operand)) && run.name != "cp" {
                    return refused("it copies over the network");
                }
                let to = options
                    .value_of(&["-t", "--target-directory"])
                    .or_else(|| operands.last().map(|to| (*to).clone()));
                if let Some(to) = to {
                    if operands.first().is_some_and(|from| from.shown() == "/dev/null") {
                        self.emptied(run.line, &to, state);
                    }
                    self.placed(run.line, &to, state);
                }
                None
            }
            "mv" | "gmv" | "rename" => {
                let to = options.value_of(&["-t", "--target-directory"]);
                let count = operands.len();
                for (at, operand) in operands.iter().enumerate() {
                    let is_target = to.is_none() && at + 1 == count;
                    if is_target {
                        let sink = self.targets(operand, state).iter().any(|target| matches!(target, Target::At(path) if matches!(paths::zone(path, self.context), Zone::Sink | Zone::Device)));
                        if sink {
                            return never("it moves something to where it is gone");
                        }
                        self.placed(run.line, operand, state);
                    } else {
                        self.moved_away(run.line, operand, state);
                    }
                }
                if let Some(to) = to {
                    self.placed(run.line, &to, state);
                }
                None
            }
            "ln" | "gln" | "link" => {
                let symbolic = options.short('s') || options.long("symbolic", 1);
                // What a symbolic link says is meant from the folder it lies in.
                let mut there = state.clone();
                if let Some(link) =
                    operands.last().and_then(|link| link.text()).filter(|_| symbolic && operands.len() > 1)
                {
                    there.go(Some(
                        link.rsplit_once('/')
                            .map_or(".", |(folder, _)| if folder.is_empty() { "/" } else { folder }),
                    ));
                }
                for (at, operand) in operands.iter().enumerate() {
                    let from = if at + 1 == operands.len() { state } else { &there };
                    for target in self.targets(operand, from) {
                        let outside = match &target {
                            Target::At(path) | Target::In { folder: path, .. } => {
                                !matches!(
                                    paths::zone(path, self.context),
                                    Zone::Tree | Zone::Added | Zone::Temporary
                                ) && *path != self.context.tree
                            }
                            Target::Unknown => true,
                        };
                        if outside {
                            return refused("it links to or from outside the working tree");
                        }
                    }
                }
                None
            }
            "tee" | "sponge" | "gtee" => {
                for operand in operands {
                    self.written(run.line, operand, state);
                }
                None
            }
            "dd" | "gdd" => {
                for argument in run.arguments {
                    if argument.beginning().starts_with("of=") {
                        let file = super::options::without(argument, 3);
                        self.written(run.line, &file, state);
                    }
                    if argument.beginning().starts_with("if=/dev/")
                        && !argument.shown().contains("zero")
                        && !argument.shown().contains("random")
                    {
                        return refused("it reads a device");
                    }
                }
                None
            }
            "touch" | "mkdir" | "split" | "csplit" | "mkfifo" | "mktemp" => {
                let skip = usize::from(["split", "csplit"].contains(&run.name));
                for operand in operands.iter().skip(skip) {
                    self.placed(run.line, operand, state);
                }
                None
            }
            "chmod" | "gchmod" => self.chmod(run, &operands, state),
            "chown" | "chgrp" | "chattr" | "setfacl" | "xattr" | "setfattr" | "chflags" => {
                if options.may_be_more() {
                    return refused("what it changes cannot be known before it runs");
                }
                refused("it changes who owns files; that is for the operator")
            }
            "tar" | "gtar" | "bsdtar" | "unzip" | "7z" | "cpio" | "pax" | "zip" => {
                self.archive(run, options, state)
            }
            "patch" => {
                if let Some(place) = options.value_of(&["-d", "--directory", "-o", "--output"]) {
                    self.placed(run.line, &place, state);
                }
                None
            }
            "crontab" => {
                (!options.exactly("-l")).then(|| refused("it changes what the machine runs later")).flatten()
            }
            _ => None,
        }
    }

    /// A file or folder that is made or overwritten.
    fn placed(&mut self, line: &str, value: &Value, state: &State) {
        if value.is_uncertain()
            && !value.beginning().starts_with('/')
            && !value.beginning().starts_with("..")
            && !value.beginning().starts_with('~')
        {
            // `cp x "$name"` in a loop: where it goes is not known, but nothing says that it leads out.
            self.find(line, Weight::Foreign, "where it writes is not known before it runs");
            return;
        }
        let is_tree = |target: &Target| matches!(target, Target::At(path) if path == self.context.tree || self.context.temporary.contains(path) || self.context.added.contains(path));
        if self.targets(value, state).iter().all(is_tree) {
            return;
        }
        self.written(line, value, state);
    }

    /// Something that is no longer where it was.
    fn moved_away(&mut self, line: &str, value: &Value, state: &State) {
        for target in self.targets(value, state) {
            let (path, all) = match target {
                Target::At(path) => (path, false),
                Target::In { folder, all } => (folder, all),
                // In a place that is not known, what it is called still tells.
                Target::Unknown => {
                    if let Some(text) = value.text() {
                        (paths::normalise(self.context.tree, std::path::Path::new(&text)), false)
                    } else {
                        self.find(line, Weight::Foreign, "what it moves is not known before it runs");
                        continue;
                    }
                }
            };
            let zone = paths::zone(&path, self.context);
            match zone {
                Zone::Tree | Zone::Temporary | Zone::Added => {}
                Zone::Root
                    if path == self.context.tree
                        && !all
                        && !value.shown().ends_with(['.', '/'])
                        && value.text().is_none() => {}
                Zone::Git if paths::is_index_lock(&path) => {}
                Zone::Outside => {
                    self.find(line, Weight::Refused, "it moves something that lies outside the working tree");
                }
                Zone::Root => self.find(line, Weight::Never, "it moves the working tree, or what it lies in"),
                _ => self.find(line, Weight::Refused, "it moves what is not for sessions to move"),
            }
        }
    }

    fn chmod(&mut self, run: &Run<'_>, operands: &[&Value], state: &State) -> Objection {
        let mode = run.arguments.iter().find(|argument| {
            let text = argument.shown();
            !text.starts_with('-')
                || text.len() > 1
                    && text[1..].chars().all(|c| "rwxXst".contains(c))
                    && text.chars().any(|c| "wxs".contains(c))
        })?;
        let text = mode.shown();
        let octal = text.trim_start_matches(['0', '=', '+']);
        let others_write = octal.len() >= 3
            && octal.chars().all(|c| ('0'..='7').contains(&c))
            && octal.ends_with(['2', '3', '6', '7'])
            || text.split(',').any(|part| {
                part.split_once(['+', '='])
                    .is_some_and(|(who, what)| (who.contains(['o', 'a'])) && what.contains('w'))
            });
        let set_id = octal.len() == 4
            && octal.chars().all(|c| ('0'..='7').contains(&c))
            && octal.starts_with(['2', '4', '6'])
            || text.contains("+s")
            || text.contains("=s");
        let nobody = !octal.is_empty() && octal.chars().all(|c| c == '0') || text.chars().all(|c| c == '0');
        if nobody {
            return refused("nobody could read it any more");
        }
        if others_write || set_id || mode.is_uncertain() {
            return refused(
                "it lets everybody on the machine write or become somebody else; `chmod +x` or 755 is enough",
            );
        }
        for operand in operands.iter().filter(|operand| operand.shown() != text) {
            for target in self.targets(operand, state) {
                let path = match target {
                    Target::At(path) | Target::In { folder: path, .. } => path,
                    Target::Unknown => continue,
                };
                match paths::zone(&path, self.context) {
                    Zone::Tree | Zone::Temporary | Zone::Added => {}
                    Zone::Root if path == self.context.tree => {}
                    _ => return refused("it changes permissions outside the working tree"),
                }
            }
        }
        None
    }

    fn archive(&mut self, run: &Run<'_>, options: Options<'_>, state: &State) -> Objection {
        let runs = [
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "-I",
            "--rsh-command",
            "--info-script",
            "--new-volume-script",
            "-F",
            "-TT",
            "--unzip-command",
        ];
        if run.name.ends_with("tar") && options.given_any(&runs)
            || run.name == "zip" && options.exactly("-TT")
        {
            let plain = options.value_of(&["-I", "--use-compress-program"]).is_some_and(|program| {
                ["zstd", "pigz", "pixz", "xz", "lz4", "gzip", "zstdmt"]
                    .contains(&program.shown().split(' ').next().unwrap_or_default())
            });
            if !plain {
                return refused("it names a program to run for each part; run that by itself");
            }
        }
        if options.long("remove-files", 6) {
            return refused("it removes what it packs");
        }
        if options.short('P') && run.name.ends_with("tar") || options.long("absolute-names", 3) {
            return refused("it may write anywhere; leave that option out");
        }
        if let Some(place) = options
            .value_of(&["-C", "--directory", "-d", "-o"])
            .filter(|_| run.name != "zip" && run.name != "7z")
        {
            self.placed(run.line, &place, state);
        }
        let first = run.arguments.first().map(Value::shown).unwrap_or_default();
        let makes = run.name.ends_with("tar")
            && (options.short('c')
                || options.long("create", 2)
                || !first.starts_with('-') && first.contains('c'));
        if makes {
            let file = options.value_of(&["-f", "--file"]).or_else(|| {
                run.arguments.iter().skip(1).find(|argument| argument.shown().contains(".t")).cloned()
            });
            if let Some(file) = file.filter(|file| file.shown() != "-") {
                self.written(run.line, &file, state);
            }
        }
        if run.arguments.iter().any(|argument| argument.shown().starts_with("--one-top-level=/")) {
            return foreign("it unpacks outside the working tree");
        }
        None
    }
}

/// `host:path`.
fn is_remote(value: &Value) -> bool {
    let text = value.shown();
    text.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/'))
        || text.starts_with("rsync://")
}

impl Options<'_> {
    /// Whether one of these options is there, alone or with a value.
    fn given_any(self, names: &[&str]) -> bool {
        names.iter().any(|name| {
            self.exactly(name)
                || self.0.iter().any(|value| !name.starts_with("--") && value.beginning().starts_with(name))
        })
    }
}
