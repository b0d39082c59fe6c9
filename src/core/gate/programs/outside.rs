//! Programs that reach beyond the tree: network, system, packages, processes, databases, clouds.

use super::super::shell::{Feed, Value};
use super::{Objection, Options, Run, foreign, never, refused};

/// Programs that change nothing whatever their arguments are.
const CHANGE_NOTHING: [&str; 12] =
    [":", "true", "false", "echo", "printf", "test", "[", "pwd", "sleep", "type", "which", "whoami"];

/// Whether a program only prints.
pub(super) fn changes_nothing(run: &Run<'_>) -> bool {
    CHANGE_NOTHING.contains(&run.name)
}

/// Arguments that may be names of files: texts and patterns are left out.
pub(super) fn file_arguments<'a>(run: &Run<'a>) -> Vec<&'a Value> {
    match run.name {
        "echo" | "printf" | "test" | "[" | "true" | ":" | "which" | "type" | "sleep" | "seq" | "expr"
        | "basename" | "dirname" => Vec::new(),
        "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" | "sed" | "awk" | "gawk" | "jq" | "yq"
        | "git-grep" | "ast-grep" | "sg" => {
            let given = Options(run.arguments).value_of(&["-e", "--regexp", "-f", "--file"]).is_some();
            Options(run.arguments).operands().into_iter().skip(usize::from(!given)).collect()
        }
        "git" | "gh" | "glab" => {
            let mut files = Vec::new();
            let mut skip = false;
            let is_grep = run.arguments.iter().any(|argument| argument.shown() == "grep");
            for argument in run.arguments {
                let text = argument.shown();
                if std::mem::take(&mut skip) {
                    continue;
                }
                if [
                    "-m",
                    "--message",
                    "-am",
                    "--grep",
                    "--author",
                    "--format",
                    "--pretty",
                    "-S",
                    "-G",
                    "--title",
                    "--body",
                    "-t",
                    "-b",
                    "-c",
                    "--jq",
                    "-q",
                    "--label",
                ]
                .contains(&text.as_str())
                    || is_grep && text == "-e"
                {
                    skip = true;
                } else if !text.contains([' ', '\n'])
                    && ![
                        "-m",
                        "--message=",
                        "--grep=",
                        "--author=",
                        "--format=",
                        "--pretty=",
                        "-am",
                        "-S",
                        "-G",
                        "-c",
                    ]
                    .iter()
                    .any(|option| text.starts_with(option))
                {
                    files.push(argument);
                }
            }
            if is_grep {
                files.retain(|file| file.shown().contains(['/', '.']));
            }
            files
        }
        "find" => run.arguments.iter().take_while(|argument| !argument.shown().starts_with('-')).collect(),
        _ => run.arguments.iter().filter(|argument| !argument.shown().contains('\n')).collect(),
    }
}

fn has(run: &Run<'_>, words: &[&str]) -> bool {
    run.arguments.iter().any(|argument| words.contains(&argument.shown().as_str()))
}

/// The first words that are no options.
fn verbs(run: &Run<'_>) -> Vec<String> {
    Options(run.arguments).operands().into_iter().map(Value::shown).take(4).collect()
}

fn verb(verbs: &[String], at: usize) -> &str {
    verbs.get(at).map(String::as_str).unwrap_or_default()
}

pub(super) fn objection(run: &Run<'_>, feed: &Feed) -> Objection {
    network(run)
        .or_else(|| system(run))
        .or_else(|| processes(run))
        .or_else(|| packages(run))
        .or_else(|| databases(run, feed))
        .or_else(|| clouds(run))
}

/// Whether an address is of this machine.
fn is_loopback(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    if text.contains("://")
        && !(text.starts_with("http://") || text.starts_with("https://") || text.starts_with("ws://"))
    {
        return false;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains(['@', '\\', '{', '…']) {
        return false;
    }
    let host = if let Some(inner) = authority.strip_prefix('[') {
        inner.split(']').next().unwrap_or_default()
    } else {
        authority.split(':').next().unwrap_or_default()
    };
    host == "localhost"
        || host == "::1"
        || host == "0.0.0.0"
        || host.ends_with(".localhost")
        || (host.starts_with("127.") && host.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn network(run: &Run<'_>) -> Objection {
    match run.name {
        "curl" | "wget" | "http" | "https" | "xh" | "xhs" | "aria2c" | "axel" | "lynx" | "w3m" | "links"
        | "invoke-webrequest" | "iwr" | "fetch" => {
            let options = Options(run.arguments);
            if has(run, &["--version", "--help", "-V"]) && run.arguments.len() == 1 {
                return None;
            }
            let reads_a_list = [
                "-K",
                "--config",
                "-i",
                "--input-file",
                "--proxy",
                "-x",
                "--connect-to",
                "--resolve",
                "--unix-socket",
                "--doh-url",
                "--url-query",
            ]
            .iter()
            .any(|option| options.exactly(option) && !(run.name == "curl" && *option == "-i"));
            let takes_value = [
                "-o",
                "--output",
                "-X",
                "--request",
                "-H",
                "--header",
                "-d",
                "--data",
                "--data-raw",
                "--data-binary",
                "--json",
                "-w",
                "--write-out",
                "-m",
                "--max-time",
                "--connect-timeout",
                "--retry",
                "--retry-delay",
                "-u",
                "--user",
                "-A",
                "-F",
                "--form",
                "-b",
                "-c",
                "-e",
                "-T",
                "-t",
                "--tries",
                "--timeout",
                "-O-",
                "--retry-max-time",
                "--data-urlencode",
            ];
            let mut addresses = Vec::new();
            let mut skip = false;
            for argument in run.arguments {
                let text = argument.shown();
                if std::mem::take(&mut skip) {
                    continue;
                }
                if let Some(bundle) = text.strip_prefix('-') {
                    let ends_with_value = !bundle.starts_with('-')
                        && bundle.len() > 1
                        && run.name == "curl"
                        && bundle.ends_with(['o', 'X', 'H', 'd', 'w', 'm', 'u', 'A', 'F']);
                    skip = takes_value.contains(&text.as_str()) && text != "-O-" || ends_with_value;
                    if let Some(url) = text.strip_prefix("--url=") {
                        addresses.push(url.to_owned());
                    }
                } else {
                    addresses.push(text);
                }
            }
            let local = !addresses.is_empty()
                && addresses.iter().all(|address| {
                    is_loopback(address)
                        || ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"].contains(&address.as_str())
                            && run.name.starts_with('h')
                });
            if local && !reads_a_list {
                None
            } else {
                refused(
                    "it talks to the network, and what it brings or sends nobody looks at; only addresses of this machine are fine",
                )
            }
        }
        "nc" | "ncat" | "netcat" | "socat" | "telnet" | "ftp" | "sftp" | "tftp" | "lftp" | "rsh"
        | "rlogin" => refused("it opens a connection to anywhere"),
        "ssh" | "mosh" | "autossh" | "sshpass" => foreign("it works on another machine"),
        "ssh-keygen" | "ssh-add" | "ssh-copy-id" | "gpg" | "gpg2" | "pass" | "security" | "secret-tool"
        | "keyctl" | "op" | "vault" | "age" | "openssl"
            if !(run.name == "openssl" && has(run, &["version", "dgst", "rand", "s_client", "x509"])
                || has(run, &["--version"])
                || run.name == "gpg" && has(run, &["--verify", "--list-keys"])) =>
        {
            refused("it works with keys or passwords; that is for the operator")
        }
        "mail" | "mailx" | "sendmail" | "mutt" | "swaks" | "msmtp" => refused("it sends mail"),
        "ping" | "dig" | "nslookup" | "host" | "traceroute" | "nmap" | "tcpdump" => {
            foreign("it looks at the network")
        }
        _ => None,
    }
}

fn system(run: &Run<'_>) -> Objection {
    let verbs = verbs(run);
    match run.name {
        "sudo" | "doas" | "su" | "pkexec" | "runuser" | "gosu" | "su-exec" | "run0" | "sg" | "newgrp" => {
            never("it becomes somebody else; unattended sessions work as the user they run as")
        }
        "chroot" | "unshare" | "nsenter" | "bwrap" | "firejail" | "setpriv" => {
            refused("it changes what the machine looks like to a command")
        }
        "shutdown" | "reboot" | "halt" | "poweroff" | "telinit" | "init" | "stop-computer"
        | "restart-computer" | "kexec" => never("it stops the machine"),
        "fdisk" | "sfdisk" | "gdisk" | "sgdisk" | "parted" | "wipefs" | "blkdiscard" | "mkswap"
        | "swapon" | "swapoff" | "mount" | "umount" | "losetup" | "cryptsetup" | "lvremove" | "vgremove"
        | "pvremove" | "zpool" | "zfs" | "mdadm" | "hdparm" | "diskutil" | "format" | "badblocks"
        | "tune2fs" | "fsck" | "format-volume" | "clear-disk" => never("it works on disks"),
        name if name.starts_with("mkfs") || name.starts_with("mke2fs") || name.starts_with("newfs") => {
            never("it works on disks")
        }
        "systemctl" | "service" | "launchctl" | "rc-service" | "initctl" | "loginctl" | "sc" => {
            let looks = [
                "status",
                "is-active",
                "is-enabled",
                "list-units",
                "list-timers",
                "list-unit-files",
                "show",
                "cat",
                "list",
                "print",
                "list-sessions",
            ];
            let looks = verbs.iter().take(2).any(|verb| looks.contains(&verb.as_str()));
            if looks {
                foreign("it looks at the services of the machine")
            } else {
                refused("it changes the services of the machine")
            }
        }
        "useradd" | "userdel" | "usermod" | "groupadd" | "groupdel" | "passwd" | "chpasswd" | "visudo"
        | "adduser" | "deluser" | "chsh" | "dscl" => refused("it changes the users of the machine"),
        "insmod" | "rmmod" | "modprobe" | "sysctl" | "iptables" | "ip6tables" | "nft" | "ufw"
        | "firewall-cmd" | "pfctl" | "setenforce" | "defaults" | "csrutil" | "spctl" | "reg" | "bcdedit"
        | "update-grub" | "grub-install" | "efibootmgr" | "hostnamectl" | "timedatectl" | "nvram" => {
            let looks = run.name == "sysctl"
                && (has(run, &["-a", "-n"]) || verbs.iter().all(|verb| !verb.contains('=')))
                && !has(run, &["-w", "-p"])
                || has(run, &["query", "read", "status", "list", "-l", "-L"]);
            if looks {
                foreign("it looks at the settings of the machine")
            } else {
                refused("it changes the settings of the machine")
            }
        }
        "ip" | "ifconfig" | "route" => {
            if has(run, &["add", "del", "delete", "set", "flush", "down", "up"]) {
                refused("it changes the network of the machine")
            } else {
                foreign("it looks at the network")
            }
        }
        "at" | "batch" => refused("it changes what the machine runs later"),
        "history" if has(run, &["-c", "-d", "-w"]) => refused("it removes the history of the shell"),
        "env" | "printenv" if run.arguments.is_empty() => {
            foreign("it prints the environment, secrets and all")
        }
        "compgen" | "dmesg" | "journalctl"
            if has(run, &["--vacuum-size", "--vacuum-time", "-c", "-C"])
                || run.arguments.iter().any(|argument| argument.shown().starts_with("--vacuum")) =>
        {
            refused("it removes logs")
        }
        "claude" | "autopilot" | "codex" | "gemini" => {
            if has(run, &["--version", "-v", "--help", "-h", "status", "doctor"]) {
                None
            } else {
                refused("it starts or steers another agent; this session has its own budget and rules")
            }
        }
        _ => None,
    }
}

fn processes(run: &Run<'_>) -> Objection {
    match run.name {
        "killall" | "pkill" | "killall5" | "taskkill" | "stop-process" | "skill" | "fkill" => {
            if run.name == "taskkill" && has(run, &["/PID", "/pid"]) && !has(run, &["/IM", "/im"]) {
                return None;
            }
            refused("it ends processes by name, also those of others; end your own by id, with `kill`")
        }
        "kill" => {
            let operands: Vec<String> = run.arguments.iter().map(Value::shown).collect();
            let signal_only = operands.iter().any(|text| ["-l", "-L", "-0"].contains(&text.as_str()));
            if signal_only {
                return None;
            }
            // `kill -9 -1`, `kill -- -1`, `kill 1`, `kill 0`
            let named_signal =
                operands.first().is_some_and(|text| text.starts_with('-') && text.len() > 1 && text != "--");
            let rest = &operands[usize::from(named_signal && operands.len() > 1).min(operands.len())..];
            if rest.iter().any(|text| ["-1", "1", "-0", "0"].contains(&text.as_str()))
                && rest.first().is_none_or(|text| text != "-s")
            {
                return never("it ends every process it may");
            }
            None
        }
        "fuser"
            if run
                .arguments
                .iter()
                .any(|argument| argument.shown().starts_with('-') && argument.shown().contains('k')) =>
        {
            refused(
                "it ends processes by what they use, also those of others; end your own by id, with `kill`",
            )
        }
        _ => None,
    }
}

fn packages(run: &Run<'_>) -> Objection {
    let verbs = verbs(run);
    let (first, second) = (verb(&verbs, 0), verb(&verbs, 1));
    let options = Options(run.arguments);
    let publishes = "it publishes, and nobody can take that back";
    match run.name {
        "npm" | "pnpm" | "yarn" | "bun" | "cnpm" => {
            let publishing = [
                "publish",
                "unpublish",
                "deprecate",
                "owner",
                "access",
                "dist-tag",
                "token",
                "adduser",
                "login",
                "logout",
                "star",
                "hook",
                "team",
                "org",
            ];
            let at_workspace = verbs.iter().any(|verb| verb == "publish") && first != "run";
            if (publishing.contains(&first) || at_workspace)
                && !has(run, &["--dry-run"])
                && !(first == "dist-tag" && second == "ls")
            {
                return refused(publishes);
            }
            if has(run, &["-g", "--global", "--location=global"])
                && !["list", "ls", "root", "bin", "config", "prefix", "outdated"].contains(&first)
                || run.name == "yarn" && first == "global"
            {
                return refused("it installs for the whole machine; without -g it is for the project");
            }
            if ["config", "set"].contains(&first) && (second == "set" || first == "set") {
                return refused("it changes the settings of the user");
            }
            None
        }
        "pip" | "pip3" | "pipx" | "uv" | "easy_install" | "conda" | "mamba" => {
            if has(run, &["--user", "--break-system-packages", "--system", "--target=/", "--root"])
                || run.name == "easy_install"
            {
                return refused("it installs outside the project; use a virtual environment");
            }
            if first == "publish" {
                return refused(publishes);
            }
            if ["uv", "conda", "mamba"].contains(&run.name)
                && (first == "self" || first == "tool" && second == "install")
                || run.name == "pipx" && first != "run"
            {
                return foreign("it installs outside the project");
            }
            None
        }
        "cargo" => match first {
            "publish" | "yank" | "owner" | "login" | "logout" if !has(run, &["--dry-run"]) => {
                refused(publishes)
            }
            "install" | "uninstall" => foreign("it installs for the user, not for the project"),
            _ => None,
        },
        "gem" => match first {
            "push" | "yank" | "owner" | "signin" => refused(publishes),
            "install" | "uninstall" | "update" => foreign("it installs for the user, not for the project"),
            _ => None,
        },
        "go" if first == "install" => foreign("it installs for the user, not for the project"),
        "twine" | "flit" | "vsce" | "ovsx" | "semantic-release" | "goreleaser" | "release-it" | "np"
        | "lerna" | "changeset" | "hatch" | "poetry" | "pdm" | "maturin" | "mvn" | "gradle" | "gradlew"
        | "mvnw" | "sbt" | "dotnet" | "nuget" | "pod" | "helm" | "npm-publish" | "jsr" | "deno" => {
            let publishing = ["upload", "publish", "deploy", "push", "release", "trunk"];
            let hit = verbs.iter().any(|verb| {
                publishing.contains(&verb.as_str())
                    || verb.ends_with(":deploy")
                    || verb.ends_with(":publish")
                    || verb == "publishToMavenCentral"
            }) || ["semantic-release", "goreleaser", "release-it", "np"].contains(&run.name)
                && !has(run, &["--snapshot", "check", "--version", "build"]);
            if hit && !has(run, &["--dry-run", "--dry", "-n"]) { refused(publishes) } else { None }
        }
        "apt" | "apt-get" | "aptitude" | "dpkg" | "yum" | "dnf" | "rpm" | "zypper" | "pacman" | "apk"
        | "brew" | "port" | "snap" | "flatpak" | "choco" | "winget" | "scoop" | "nix-env" | "emerge" => {
            let removes = [
                "remove",
                "purge",
                "autoremove",
                "uninstall",
                "erase",
                "--purge",
                "-R",
                "-Rs",
                "-e",
                "-r",
                "-P",
                "zap",
                "del",
            ];
            let looks = [
                "list",
                "search",
                "show",
                "info",
                "policy",
                "-l",
                "-L",
                "-s",
                "-S",
                "-qa",
                "-q",
                "-W",
                "config",
                "doctor",
                "outdated",
                "--version",
                "deps",
                "-Q",
                "-Ss",
            ];
            if has(run, &removes) {
                refused("it removes software of the machine")
            } else if has(run, &looks) {
                None
            } else {
                foreign("it installs for the whole machine")
            }
        }
        "corepack" | "nvm" | "rustup" | "pyenv" | "rbenv" | "asdf" | "volta" | "fnm" | "sdk" => {
            let removes = ["uninstall", "remove", "self"];
            if has(run, &removes) {
                refused("it removes tools of the user")
            } else if ["install", "default", "update", "global", "use"].contains(&first) {
                foreign("it changes the tools of the user")
            } else {
                None
            }
        }
        _ if options.long("break-system-packages", 8) => refused("it installs outside the project"),
        _ => None,
    }
}

fn databases(run: &Run<'_>, feed: &Feed) -> Objection {
    const CLIENTS: [&str; 22] = [
        "psql",
        "mysql",
        "mariadb",
        "sqlite3",
        "sqlite",
        "sqlcmd",
        "mycli",
        "pgcli",
        "litecli",
        "usql",
        "duckdb",
        "clickhouse-client",
        "clickhouse",
        "cockroach",
        "bq",
        "snowsql",
        "impala-shell",
        "beeline",
        "hive",
        "db2",
        "sqlplus",
        "isql",
    ];
    const OTHERS: [&str; 5] = ["redis-cli", "mongosh", "mongo", "cqlsh", "influx"];
    let is_sql = CLIENTS.contains(&run.name);
    if !is_sql && !OTHERS.contains(&run.name) {
        return match run.name {
            "dropdb" | "dropuser" | "mysqladmin"
                if run.name != "mysqladmin" || has(run, &["drop", "shutdown", "flush-tables"]) =>
            {
                refused("it removes a database")
            }
            "rails" | "rake" | "bin/rails"
                if has(run, &["db:drop", "db:reset", "db:purge", "db:schema:load"]) =>
            {
                refused("it removes a database")
            }
            "prisma"
                if verbs(run).join(" ").contains("migrate reset")
                    || has(run, &["--force-reset", "--accept-data-loss"]) =>
            {
                refused("it removes a database")
            }
            "manage.py" | "django-admin" if has(run, &["flush", "reset_db"]) => {
                refused("it removes what is in a database")
            }
            _ => None,
        };
    }
    let mut said = run.arguments.iter().map(Value::shown).collect::<Vec<_>>().join(" ");
    let mut unknown = run.arguments.iter().any(|argument| {
        argument.is_uncertain()
            && argument.beginning().is_empty()
            && run.arguments.len() > 1
            && is_sql
            && has(run, &["-c", "-e", "--command", "--execute"])
    });
    match feed {
        Feed::Pipe(text) | Feed::Text { text, .. } => {
            said.push('\n');
            said.push_str(text);
            unknown |= matches!(feed, Feed::Pipe(text) if !text.contains(|c: char| c.is_alphabetic()));
        }
        Feed::File(_) | Feed::Nothing => {}
    }
    let lower = said.to_lowercase();
    let mut words = String::new();
    // Comments and blanks between the words do not hide them.
    let mut in_comment = false;
    let chars: Vec<char> = lower.chars().collect();
    for (at, c) in chars.iter().enumerate() {
        let next = chars.get(at + 1);
        if *c == '/' && next == Some(&'*') {
            in_comment = true;
        }
        if in_comment {
            in_comment = !(*c == '/' && at > 0 && chars[at - 1] == '*');
            words.push(' ');
        } else if c.is_alphanumeric() || *c == '_' {
            words.push(*c);
        } else {
            words.push(' ');
        }
    }
    let words: Vec<&str> = words.split_whitespace().collect();
    let pair =
        |one: &str, others: &[&str]| words.windows(2).any(|pair| pair[0] == one && others.contains(&pair[1]));
    let destroys = pair(
        "drop",
        &[
            "table",
            "database",
            "schema",
            "view",
            "index",
            "user",
            "role",
            "column",
            "owned",
            "materialized",
            "type",
            "function",
            "extension",
            "keyspace",
            "collection",
            "sequence",
            "temporary",
        ],
    ) || pair("delete", &["from"])
        || words.contains(&"truncate")
        || words.iter().any(|word| {
            ["flushall", "flushdb", "dropdatabase", "deletemany", "dropcollection"].contains(word)
        })
        || OTHERS.contains(&run.name)
            && (words.contains(&"drop")
                || words.contains(&"remove") && run.name.starts_with("mongo")
                || words.contains(&"shutdown"))
        || is_sql && said.contains("\\!")
        || run.name.starts_with("sqlite")
            && (words.contains(&"shell") && said.contains(".shell") || said.contains(".system"));
    if destroys {
        return refused(
            "it removes what is in a database; a migration of the project can do that, looked over by a person",
        );
    }
    unknown.then(|| refused("what it does to the database cannot be known before it runs")).flatten()
}

fn clouds(run: &Run<'_>) -> Objection {
    let verbs = verbs(run);
    let all: Vec<String> = run.arguments.iter().map(Value::shown).collect();
    let (first, second) = (verb(&verbs, 0), verb(&verbs, 1));
    let removes = |words: &[&str]| all.iter().any(|word| words.contains(&word.as_str()));
    match run.name {
        "terraform" | "tofu" | "terragrunt" | "pulumi" | "cdk" | "cdktf" => {
            if removes(&[
                "destroy",
                "-destroy",
                "apply",
                "up",
                "deploy",
                "taint",
                "import",
                "force-unlock",
                "rm",
                "cancel",
                "down",
                "run-all",
            ]) {
                refused("it changes what runs in the cloud")
            } else {
                None
            }
        }
        "kubectl" | "oc" | "k9s" => {
            let looks = [
                "get",
                "describe",
                "logs",
                "explain",
                "version",
                "config",
                "cluster-info",
                "api-resources",
                "top",
                "diff",
                "auth",
            ];
            if looks.contains(&first) {
                foreign("it talks to a cluster")
            } else {
                refused("it changes what runs in a cluster")
            }
        }
        "helm" if ["uninstall", "delete", "install", "upgrade", "rollback"].contains(&first) => {
            refused("it changes what runs in a cluster")
        }
        "aws" | "gcloud" | "az" | "doctl" | "heroku" | "flyctl" | "fly" | "vercel" | "netlify"
        | "railway" | "wrangler" | "firebase" | "supabase" | "gsutil" | "s3cmd" | "mc" | "linode-cli"
        | "ibmcloud" | "oci" => {
            let looks = all.iter().any(|word| {
                word.starts_with("describe")
                    || word.starts_with("list")
                    || word.starts_with("get-")
                    || [
                        "ls",
                        "list",
                        "status",
                        "whoami",
                        "--version",
                        "logs",
                        "show",
                        "version",
                        "--help",
                        "info",
                        "dev",
                    ]
                    .contains(&word.as_str())
            });
            if looks {
                foreign("it talks to the cloud")
            } else {
                refused("it changes what runs in the cloud")
            }
        }
        "docker" | "podman" | "nerdctl" | "docker-compose" => {
            let prunes = removes(&["prune"]) || removes(&["-v", "--volumes"]) && removes(&["down"]);
            if prunes
                || first == "volume" && second == "rm"
                || removes(&["rmi"]) && removes(&["-f", "--force"])
                || first == "rm"
                || first == "swarm"
                || second == "rm" && first == "image"
            {
                return refused("it removes containers, images or volumes that may be of others");
            }
            if removes(&["push", "login"]) && first != "compose" || second == "push" {
                return refused("it publishes an image");
            }
            let opens = all.iter().any(|word| {
                word == "--privileged"
                    || word.starts_with("--pid=host")
                    || word.starts_with("--cap-add")
                    || word.contains("docker.sock")
                    || word.starts_with("-v/")
                    || word.starts_with("/:")
                    || word.starts_with("--volume=/:")
                    || word.contains("source=/,")
                    || word.contains("src=/,")
                    || word == "--device"
                    || word.starts_with("/etc")
                    || word.starts_with("/root")
                    || word.starts_with("/home:")
            });
            if opens { refused("it opens the machine to a container") } else { None }
        }
        "gh" | "glab" | "hub" => {
            let text = format!("{first} {second}");
            let looks = [
                "view",
                "list",
                "status",
                "diff",
                "checks",
                "watch",
                "--version",
                "checkout",
                "search",
                "clone",
                "download",
            ];
            if second == "delete"
                || [
                    "merge", "close", "archive", "transfer", "lock", "edit", "disable", "set", "remove",
                    "rename",
                ]
                .contains(&second)
                    && first != "alias"
                || ["secret", "ssh-key", "gpg-key", "auth", "variable", "repo delete"].contains(&first)
                    && second != "status"
                    && second != "list"
            {
                return refused("it changes or removes what is on the forge, which is for a person");
            }
            if first == "api" {
                let writes = removes(&["-X", "--method", "-f", "-F", "--field", "--raw-field", "--input"])
                    || all.iter().any(|word| word.starts_with("-X") || word.starts_with("--method="));
                return if writes {
                    refused("it changes what is on the forge past its own commands")
                } else {
                    foreign("it asks the forge")
                };
            }
            if first == "extension" || first == "alias" || first == "codespace" {
                return refused("it runs what nobody here has looked at");
            }
            if looks.contains(&second) || looks.contains(&first) {
                foreign("it asks the forge")
            } else {
                foreign(&format!("it writes to the forge ({text})"))
            }
        }
        "ansible" | "ansible-playbook" | "salt" | "chef-client" | "puppet" | "vagrant" | "packer"
        | "nomad" | "consul" | "virsh" | "VBoxManage" | "multipass" | "lxc" | "incus" => {
            if removes(&["--check", "--syntax-check", "status", "validate", "list", "--version", "fmt"]) {
                None
            } else {
                refused("it changes machines")
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn addresses_of_this_machine() {
        for (address, expected) in [
            ("http://localhost:3000/health", true),
            ("localhost:8080", true),
            ("127.0.0.1", true),
            ("http://[::1]:80/x", true),
            ("http://localhost@evil.example/", false),
            ("http://localhost.evil.example/", false),
            ("127.0.0.1.evil.example", false),
            ("file:///etc/passwd", false),
            ("https://example.org", false),
            ("http://{localhost,evil.example}/", false),
        ] {
            assert_eq!(is_loopback(address), expected, "{address}");
        }
    }
}
