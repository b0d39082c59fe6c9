//! What changes clouds, containers and forges.

use super::super::super::shell::Value;
use super::super::{Objection, Run, foreign, refused};
use super::{verb, verbs};

pub(super) fn clouds(run: &Run<'_>) -> Objection {
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
            let others =
                ["stop", "kill", "restart"].contains(&first) && run.arguments.iter().any(Value::is_uncertain);
            if others || first == "kill" {
                return refused(
                    "it ends containers that may be of others; `docker compose stop` ends those of the project",
                );
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
