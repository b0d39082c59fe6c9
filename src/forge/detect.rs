//! Which forge a repository lives on, told from its remotes (upstream-formats §7, #1039, #872).
//!
//! All remotes are looked at, by host; the order `origin`, `gitlab`, `github`, the others decides between
//! several. A host that says nothing is no forge unless the user configured which one it is: asking the wrong
//! program is worse than asking none.
//!
//! What comes out of a URL is handed to a program as the value of `-R`. So it is built anew from parts that
//! consist of letters, digits, `.`, `_` and `-` alone and do not begin with a dash, always with its host, and
//! never with a user or a password in it. A remote whose URL does not fit is not used.

use serde::{Deserialize, Serialize};

/// A kind of forge, and with it the program that speaks to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForgeKind {
    /// GitHub, spoken to by `gh`.
    GitHub,
    /// GitLab, spoken to by `glab`.
    GitLab,
}

impl ForgeKind {
    /// The word of [`Backlog::forge`](crate::core::signals::Backlog::forge).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ForgeKind::GitHub => "github",
            ForgeKind::GitLab => "gitlab",
        }
    }

    /// Name of its program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            ForgeKind::GitHub => "gh",
            ForgeKind::GitLab => "glab",
        }
    }

    /// What a host name says: the public host, or one that begins like it. Tenants of GitHub's cloud have
    /// hosts below `ghe.com`.
    fn of_host(host: &str) -> Option<Self> {
        if host.starts_with("github.") || host.ends_with(".ghe.com") {
            Some(ForgeKind::GitHub)
        } else if host.starts_with("gitlab.") {
            Some(ForgeKind::GitLab)
        } else {
            None
        }
    }
}

/// Where the issues and the CI of a repository are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forge {
    /// Which kind.
    pub kind: ForgeKind,
    /// Its host, in lower case, without a port. `None`: the remote does not say.
    pub host: Option<String>,
    /// Value of `-R`, with the host in it; `None`: the program has to find out by itself.
    pub spec: Option<String>,
    /// Name of the remote it was told from.
    pub remote: String,
}

/// Remotes in the order in which they are preferred; all others come after these.
const PREFERRED: [&str; 3] = ["origin", "gitlab", "github"];

/// Tells the forge from the remotes, as pairs of name and URL. `configured` is what the user says it is: then
/// only remotes of that kind count, or else those whose host says nothing.
#[must_use]
pub fn detect(remotes: &[(String, String)], configured: Option<ForgeKind>) -> Option<Forge> {
    let usable: Vec<(&str, Place)> = remotes
        .iter()
        .filter(|(name, _)| !name.chars().any(char::is_control))
        .filter_map(|(name, url)| Some((name.as_str(), Place::parse(url)?)))
        .collect();
    let best = |fits: &dyn Fn(Option<ForgeKind>) -> bool| {
        usable
            .iter()
            .filter(|(_, place)| fits(place.kind()))
            .min_by_key(|(name, _)| PREFERRED.iter().position(|known| known == name).unwrap_or(usize::MAX))
    };
    let (found, kind) = match configured {
        None => best(&|kind| kind.is_some()).and_then(|found| Some((found, found.1.kind()?)))?,
        Some(wanted) => {
            (best(&|kind| kind == Some(wanted)).or_else(|| best(&|kind| kind.is_none()))?, wanted)
        }
    };
    let (name, place) = found;
    Some(Forge {
        kind,
        host: (!place.host.is_empty()).then(|| place.host.clone()),
        spec: place.spec(kind),
        remote: (*name).to_owned(),
    })
}

/// What a URL says.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// Lower case; empty for a path of this machine.
    host: String,
    /// `http` or `https`.
    scheme: &'static str,
    /// Of the web, not of SSH.
    port: Option<u16>,
    /// Folders, the project last, without `.git`.
    path: Vec<String>,
}

impl Place {
    /// `None`: not to be used.
    fn parse(url: &str) -> Option<Self> {
        if url.starts_with('-') || url.chars().any(char::is_control) {
            return None;
        }
        let Some((scheme, rest)) = url.split_once("://") else { return Self::scp_like(url) };
        let scheme = scheme.to_ascii_lowercase();
        let web = match scheme.as_str() {
            "http" => Some("http"),
            "https" => Some("https"),
            "ssh" | "git+ssh" | "ssh+git" | "git" => None,
            "file" => return Some(Self::local()),
            _ => return None,
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = match host.split_once(':') {
            None | Some((_, "")) => (host.trim_end_matches(':'), None),
            Some((host, port)) => (host, Some(port.parse::<u16>().ok()?)),
        };
        let usual = if web == Some("http") { 80 } else { 443 };
        let port = port.filter(|port| web.is_some() && *port != usual);
        Self::of(host, web.unwrap_or("https"), port, path)
    }

    /// `[user@]host:path`, or a path of this machine: git's rule is whether a colon comes before any slash.
    fn scp_like(url: &str) -> Option<Self> {
        match url.split_once(':') {
            Some((host, path)) if !host.contains('/') => {
                let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
                Self::of(host, "https", None, path)
            }
            _ => Some(Self::local()),
        }
    }

    fn local() -> Self {
        Place { host: String::new(), scheme: "https", port: None, path: Vec::new() }
    }

    fn of(host: &str, scheme: &'static str, port: Option<u16>, path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        let path: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let host = web_host(host.to_ascii_lowercase());
        let harmless = is_harmless(&host) && path.iter().all(|part| is_harmless(part));
        harmless.then_some(Place { host, scheme, port, path })
    }

    fn kind(&self) -> Option<ForgeKind> {
        ForgeKind::of_host(&self.host)
    }

    fn spec(&self, kind: ForgeKind) -> Option<String> {
        let Place { host, scheme, port, path } = self;
        if host.is_empty() {
            return None;
        }
        let host = port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        let path_text = path.join("/");
        match kind {
            ForgeKind::GitHub if path.len() == 2 => Some(format!("{host}/{path_text}")),
            // A group may be nested, so only a full URL says what is the host.
            ForgeKind::GitLab if path.len() >= 2 => Some(format!("{scheme}://{host}/{path_text}")),
            ForgeKind::GitHub | ForgeKind::GitLab => None,
        }
    }
}

/// The public hosts have other names for SSH: for port 443, and by the custom of `Host github.com-work` in the
/// SSH configuration of somebody with two accounts.
fn web_host(host: String) -> String {
    for (public, others) in [("github.com", ["ssh.", "www."]), ("gitlab.com", ["altssh.", "www."])] {
        let alias = host.strip_prefix(public).is_some_and(|rest| rest.starts_with('-'));
        let other = host.strip_suffix(public).is_some_and(|rest| others.contains(&rest));
        if alias || other {
            return public.to_owned();
        }
    }
    host
}

/// Whether a host or a part of a path can be part of an argument.
fn is_harmless(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('-')
        && part != ".."
        && part != "."
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn remotes(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, url)| ((*name).to_owned(), (*url).to_owned())).collect()
    }

    fn spec(url: &str, configured: Option<ForgeKind>) -> Option<(ForgeKind, Option<String>)> {
        detect(&remotes(&[("origin", url)]), configured).map(|forge| (forge.kind, forge.spec))
    }

    #[test]
    fn forms_of_urls() {
        use ForgeKind::{GitHub, GitLab};
        let check = |url: &str, expected: Option<(ForgeKind, Option<&str>)>| {
            let expected = expected.map(|(kind, spec)| (kind, spec.map(str::to_owned)));
            assert_eq!(spec(url, None), expected, "{url}");
        };
        let hub = Some((GitHub, Some("github.com/o/r")));
        for url in [
            "https://github.com/o/r",
            "https://github.com/o/r.git",
            "https://github.com/o/r/",
            "https://github.com/o/r.git/",
            "https://user:secret@github.com/o/r.git",
            "https://github.com:443/o/r",
            "HTTPS://GitHub.com/o/r",
            "https://www.github.com/o/r",
            "ssh://git@github.com/o/r.git",
            "ssh://git@github.com:22/o/r.git",
            "ssh://git@ssh.github.com:443/o/r.git",
            "git+ssh://git@github.com/o/r.git",
            "git://github.com/o/r.git",
            "git@github.com:o/r.git",
            "github.com:o/r",
            "git@github.com:/o/r.git",
            "git@github.com-work:o/r.git",
        ] {
            check(url, hub);
        }
        check("https://github.example.com/o/r.js", Some((GitHub, Some("github.example.com/o/r.js"))));
        check("https://github.example.com:8443/o/r", Some((GitHub, Some("github.example.com:8443/o/r"))));
        check("git@tenant.ghe.com:o/r.git", Some((GitHub, Some("tenant.ghe.com/o/r"))));
        let lab = Some((GitLab, Some("https://gitlab.com/g/s/t/r")));
        check("git@gitlab.com:g/s/t/r.git", lab);
        check("https://gitlab.com/g/s/t/r", lab);
        check("ssh://git@altssh.gitlab.com:443/g/s/t/r.git", lab);
        check(
            "ssh://git@gitlab.example.com:2222/g/r.git",
            Some((GitLab, Some("https://gitlab.example.com/g/r"))),
        );
        check("http://gitlab.lan:8080/g/r", Some((GitLab, Some("http://gitlab.lan:8080/g/r"))));
        // The host says which one; the path does not say which project.
        check("https://github.com/o", Some((GitHub, None)));
        check("https://github.com/a/b/c", Some((GitHub, None)));
        check("https://gitlab.com/", Some((GitLab, None)));
        for url in [
            "",
            "https://example.com/o/r",
            "https://notgithub.com/o/r",
            "https://example.com/github.com/o/r",
            "git@git.example.com:gitlab.com/r.git",
            "/srv/git/github.com/o/r.git",
            "../github.com:o/r",
            "file:///srv/github.com/o/r",
            "C:\\github.com\\o",
            "ext::sh -c github.com",
        ] {
            check(url, None);
        }
    }

    #[test]
    fn nothing_that_could_be_an_option_gets_through() {
        for url in [
            "--upload-pack=x",
            "-R:o/r",
            "git@github.com:-o/r",
            "git@github.com:o/--web",
            "git@-github.com:o/r",
            "https://github.com/o/r\n--web",
            "https://github.com/o/r\u{7f}",
            "https://github.com/o/r --web",
            "https://github.com/o/r?x=y",
            "https://github.com/o/%2d%2dweb",
            "https://github.com/o/..",
            "https://github.com:99999/o/r",
            "https://github.com:x/o/r",
            "https://[::1]/o/r",
            "javascript://github.com/o/r",
        ] {
            assert_eq!(spec(url, None), None, "{url}");
        }
        assert_eq!(detect(&remotes(&[("a\nb", "https://github.com/o/r")]), None), None);
        for url in ["--upload-pack=x", "https://git.example.com/-o/r", "https://git.example.com/o/r\0"] {
            assert_eq!(spec(url, Some(ForgeKind::GitLab)), None, "{url}");
        }
    }

    #[test]
    fn which_remote_counts() {
        use ForgeKind::{GitHub, GitLab};
        let check = |list: &[(&str, &str)], configured, expected: Option<(&str, ForgeKind)>| {
            let found = detect(&remotes(list), configured);
            let found = found.as_ref().map(|forge| (forge.remote.as_str(), forge.kind));
            assert_eq!(found, expected, "{list:?}");
        };
        let (hub, lab) = ("https://github.com/o/r", "https://gitlab.com/g/r");
        let unknown = "https://git.example.com/o/r";
        check(&[], None, None);
        check(&[], Some(GitHub), None);
        check(&[("origin", hub), ("gitlab", lab)], None, Some(("origin", GitHub)));
        check(&[("github", hub), ("gitlab", lab)], None, Some(("gitlab", GitLab)));
        check(&[("a", hub), ("github", hub)], None, Some(("github", GitHub)));
        check(&[("b", lab), ("a", hub)], None, Some(("b", GitLab)));
        // Not the first by name but the first that is known.
        check(&[("origin", unknown), ("mirror", lab)], None, Some(("mirror", GitLab)));
        check(&[("origin", "-x"), ("mirror", hub)], None, Some(("mirror", GitHub)));
        check(&[("origin", unknown)], None, None);
        check(&[("gitlab", unknown)], None, None);
        check(&[("origin", unknown)], Some(GitLab), Some(("origin", GitLab)));
        check(&[("origin", hub), ("mirror", lab)], Some(GitLab), Some(("mirror", GitLab)));
        check(&[("origin", hub), ("x", unknown)], Some(GitLab), Some(("x", GitLab)));
        check(&[("origin", hub)], Some(GitLab), None);
    }

    #[test]
    fn a_configured_kind_makes_the_spec() {
        let check = |url: &str, kind, host: Option<&str>, spec: Option<&str>| {
            let forge = detect(&remotes(&[("origin", url)]), Some(kind)).unwrap();
            assert_eq!((forge.host.as_deref(), forge.spec.as_deref()), (host, spec), "{url}");
        };
        let host = Some("git.example.com");
        check("git@git.example.com:o/r.git", ForgeKind::GitHub, host, Some("git.example.com/o/r"));
        check("git@git.example.com:g/s/r", ForgeKind::GitLab, host, Some("https://git.example.com/g/s/r"));
        check("/srv/git/r.git", ForgeKind::GitLab, None, None);
    }

    proptest! {
        #[test]
        fn a_spec_is_one_harmless_word(url in "[a-z]{0,5}(://|@|:)?[-a-z@.:/\\[ \\n~%]{0,12}github\\.com[:/][-a-z./\\n =]{0,20}") {
            if let Some((_, Some(spec))) = spec(&url, None) {
                prop_assert!(!spec.starts_with('-') && !spec.contains("/-"), "{spec}");
                prop_assert!(spec.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:/".contains(&b)), "{spec}");
            }
        }
    }
}
