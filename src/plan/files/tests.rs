use std::os::unix::fs::symlink;

use super::*;

const NOW: Timestamp = Timestamp::MAX;

/// A person writes: neither atomic nor careful.
fn write(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    use std::io::Write as _;
    fs::File::create(path).unwrap().write_all(text.as_ref()).unwrap();
}

fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(path, text);
    }
    folder
}

fn names(files: &TaskFiles) -> Vec<&str> {
    files.plan.iter().map(|file| file.name.as_str()).collect()
}

fn problems(files: &TaskFiles) -> String {
    files.readings.iter().flat_map(|reading| reading.problems.clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn links_are_followed_once_each_and_never_out() {
    let repo = repository(&[
        (
            ".project/plan.md",
            "[a](sub/a.md) [again](./sub/../sub/a.md#x) [me](plan.md) [inbox](inbox.md) [out](../README.md)\n\
             [web](https://example.org/x.md) [abs](/etc/x.md) [mail](mailto:x@y.md) [text](x.txt)\n\
             [space](with%20space.md) [ref][r] [gone](gone.md) [link](link.md)\n\n[r]: sub/r.MD\n",
        ),
        (".project/sub/a.md", "[back](../plan.md) [b](b.md) [up](../../README.md) - [ ] no box\n\n- [ ] a\n"),
        (".project/sub/b.md", "- [ ] b\n"),
        (".project/sub/r.MD", "- [ ] r\n"),
        (".project/with space.md", "- [ ] s\n"),
        (".project/inbox.md", "- [ ] i\n"),
        ("README.md", "- [ ] outside\n"),
        ("elsewhere/secret.md", "- [ ] outside\n"),
    ]);
    symlink(repo.path().join("elsewhere/secret.md"), repo.path().join(".project/link.md")).unwrap();
    let files = read_all(repo.path(), NOW);
    assert_eq!(
        names(&files),
        [
            ".project/plan.md",
            ".project/sub/a.md",
            ".project/with space.md",
            ".project/sub/r.MD",
            ".project/sub/b.md"
        ]
    );
    assert_eq!(files.inbox.as_ref().unwrap().1.len(), 1);
    let problems = problems(&files);
    assert!(problems.contains("gone.md") && problems.contains("link.md, which cannot be read: it leads out"));
    assert_eq!(problems.lines().count(), 2, "{problems}");
}

#[test]
fn circles_depth_and_number_are_bounded() {
    let mut files = vec![(".project/plan.md".to_owned(), "[x](d0.md)\n".to_owned())];
    for n in 0..20 {
        files.push((
            format!(".project/d{n}.md"),
            format!("- [ ] t{n}\n\n[next](d{}.md) [plan](plan.md)\n", n + 1),
        ));
    }
    let borrowed: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let repo = repository(&borrowed);
    let found = read_all(repo.path(), NOW);
    assert_eq!(found.plan.len(), MAX_DEPTH + 1);
    assert!(problems(&found).contains("too many files"));

    let links: String = (0..200).fold(String::new(), |links, n| links + &format!("[l](w{n}.md)\n"));
    write(repo.path().join(".project/plan.md"), links);
    for n in 0..200 {
        write(repo.path().join(format!(".project/w{n}.md")), "- [ ] x\n");
    }
    let found = read_all(repo.path(), NOW);
    assert_eq!(found.plan.len(), MAX_LINKED + 1);
}

#[test]
fn what_cannot_be_read_is_said() {
    let check = |build: &dyn Fn(&Path), says: &str, problem: &str| {
        let repo = repository(&[(".project/x", "")]);
        build(&repo.path().join(".project/plan.md"));
        let files = read_all(repo.path(), NOW);
        assert!(files.plan.is_empty());
        let reading = &files.readings[0];
        assert_eq!((reading.source.as_str(), reading.says.as_str()), ("plan.md", says));
        assert_eq!(problem.is_empty(), reading.problems.is_empty(), "{reading:?}");
        assert!(problems(&files).contains(problem), "{}", problems(&files));
    };
    check(&|_| {}, "not there", "");
    check(&|path| fs::create_dir(path).unwrap(), "not readable", "no regular file");
    check(&|path| symlink("nowhere", path).unwrap(), "not readable", "cannot be read");
    check(&|path| symlink("/etc/passwd", path).unwrap(), "not readable", "leads out of the repository");
    check(&|path| symlink("plan.md", path).unwrap(), "not readable", "cannot be read");
    check(&|path| write(path, vec![b'a'; (4 << 20) + 1]), "not readable", "larger than 4 MiB");
    #[cfg(target_os = "linux")]
    check(
        &|path| {
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        },
        "not readable",
        "no regular file",
    );
    let files = read_all(Path::new("/nonexistent/repository"), NOW);
    assert!(files.plan.is_empty() && files.inbox.is_none() && files.readings.len() == 2);
}

#[test]
fn the_plan_itself_may_be_a_link_within_the_repository() {
    let repo = repository(&[("docs/todo.md", "- [ ] a\n"), (".project/x", "")]);
    symlink("../docs/todo.md", repo.path().join(".project/plan.md")).unwrap();
    let files = read_all(repo.path(), NOW);
    assert_eq!(files.plan[0].parsed.items.len(), 1);
    assert!(files.plan[0].path.ends_with("docs/todo.md"));
}
