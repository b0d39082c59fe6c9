//! What publishes, or installs beyond the project.

use super::super::{Objection, Options, Run, foreign, refused};
use super::{has, verb, verbs};

pub(super) fn packages(run: &Run<'_>) -> Objection {
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
            let by_script = ["run", "run-script"].contains(&first)
                && ["publish", "deploy", "release"]
                    .iter()
                    .any(|word| second == *word || second.starts_with(&format!("{word}:")));
            if by_script {
                return refused(publishes);
            }
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
