//! A block of a crontab. What stands around it is never touched.

use std::path::Path;

use super::{Job, shell_quoted};

/// How often a crontab looks for a slot that was missed, in minutes. Cron forgets what it slept through.
const LOOK_MINUTES: u32 = 20;

fn begin(id: &str) -> String {
    format!("# begin autopilot {id}")
}

fn end(id: &str) -> String {
    format!("# end autopilot {id}")
}

/// The block of a job: once at its time, and every [`LOOK_MINUTES`] in case that was missed. Both start the same
/// command, which knows which slots were started.
#[must_use]
pub fn block(job: &Job) -> String {
    let words: Vec<String> = job.command().iter().map(|word| shell_quoted(word)).collect();
    // The folder is ignored by git, and may be cleaned away.
    let folder = job.directory.join(".orchestrator/autopilot");
    let quoted = |path: &Path| shell_quoted(&path.to_string_lossy());
    let command = format!(
        "mkdir -p {} && PATH={} {} >> {} 2>&1",
        quoted(&folder),
        shell_quoted(&job.path),
        words.join(" "),
        quoted(&folder.join("schedule.log"))
    );
    // Cron makes a newline of `%`, also within quotes, and takes the backslash away again.
    let command = command.replace('%', "\\%");
    let id = job.id();
    let look =
        if job.catch_up_hours > 0 { format!("*/{LOOK_MINUTES} * * * * {command}\n") } else { String::new() };
    format!("{}\n# {}\n{} {command}\n{look}{}\n", begin(&id), job.marker(), job.slot.cron(), end(&id))
}

/// The crontab with the job in it, in place of an earlier one of the same id.
#[must_use]
pub fn installed(crontab: &str, job: &Job) -> String {
    let (mut text, _) = removed(crontab, &job.id());
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + &block(job)
}

/// The crontab without the job, and whether it was there. A block without an end is left alone: nobody knows what of
/// it is whose.
#[must_use]
pub fn removed(crontab: &str, id: &str) -> (String, bool) {
    let (begin, end) = (begin(id), end(id));
    let lines: Vec<&str> = crontab.split_inclusive('\n').collect();
    let is = |line: &str, mark: &str| line.trim_end() == mark;
    let from = lines.iter().position(|line| is(line, &begin));
    let to = from.and_then(|from| lines[from..].iter().position(|line| is(line, &end)).map(|to| from + to));
    match (from, to) {
        (Some(from), Some(to)) => {
            let rest = lines[..from].iter().chain(&lines[to + 1..]);
            (rest.copied().collect(), true)
        }
        _ => (crontab.to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::nasty_job;
    use super::*;

    #[test]
    fn a_block() {
        insta::assert_snapshot!(block(&nasty_job()));
    }

    #[test]
    fn the_rest_of_a_crontab_stays_as_it_is() {
        let job = nasty_job();
        let other = Job { name: "noon".to_owned(), slot: "12:00".parse().unwrap(), ..job.clone() };
        for own in ["", "MAILTO=me\n0 5 * * * backup\n", "0 5 * * * backup"] {
            let once = installed(own, &job);
            assert!(once.starts_with(own), "{once}");
            assert_eq!(installed(&once, &job), once, "installing twice is installing once");
            let both = installed(&once, &other);
            assert_eq!(Job::in_text(&both), [job.clone(), other.clone()]);
            let (without, there) = removed(&both, &job.id());
            assert!(there && Job::in_text(&without) == [other.clone()], "{without}");
            let (none, _) = removed(&without, &other.id());
            assert_eq!(none.trim_end(), own.trim_end());
        }
        let damaged = installed("", &job).replace(&end(&job.id()), "");
        assert_eq!(removed(&damaged, &job.id()), (damaged.clone(), false));
    }
}
