//! The remotes of a repository.

use super::run::git_ok;
use super::{GitError, Repo};

/// The remotes as pairs of name and the URL that git fetches from (`insteadOf` applied), in git's order. A URL
/// may hold a password: it is not for showing.
///
/// # Errors
/// Git cannot be run or fails.
pub async fn remotes(repo: &Repo) -> Result<Vec<(String, String)>, GitError> {
    let output = git_ok(&repo.root, &["remote", "--verbose"]).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(fetched_from).map(|(name, url)| (name.to_owned(), url.to_owned())).collect())
}

/// `name<TAB>url (fetch)`; a partial clone's filter may follow.
fn fetched_from(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once('\t')?;
    let without_filter = rest.rsplit_once(" [").map_or(rest, |(before, _)| before);
    let url = rest.strip_suffix(" (fetch)").or_else(|| without_filter.strip_suffix(" (fetch)"))?;
    Some((name, url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_git_remote() {
        let check = |line: &str, expected| assert_eq!(fetched_from(line), expected, "{line}");
        check("origin\tgit@h:o/r (fetch)", Some(("origin", "git@h:o/r")));
        check("origin\tgit@h:o/r (fetch) [blob:none]", Some(("origin", "git@h:o/r")));
        check("origin\t/a [b] c (fetch)", Some(("origin", "/a [b] c")));
        check("origin\tgit@h:o/r (push)", None);
        check("origin\t/x (fetch) (push)", None);
        check("origin", None);
        check("", None);
    }
}
