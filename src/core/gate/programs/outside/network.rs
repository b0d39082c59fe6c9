//! What talks to other machines, or works with keys for them.

use super::super::{Objection, Options, Run, foreign, refused};
use super::has;

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

pub(super) fn network(run: &Run<'_>) -> Objection {
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
