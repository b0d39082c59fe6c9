//! A service and a timer of a user's systemd.

use std::fmt::Write as _;

use super::Job;

/// Names of the two units of a job: service and timer.
#[must_use]
pub fn names(id: &str) -> (String, String) {
    (format!("autopilot-{id}.service"), format!("autopilot-{id}.timer"))
}

/// The service: one run. It is ended as a person would (SIGTERM to the process itself, which ends what it started),
/// and may take as long as it takes.
#[must_use]
pub fn service(job: &Job) -> String {
    let command: Vec<String> = job.command().iter().map(|word| quoted(word)).collect();
    let mut text =
        format!("# {}\n[Unit]\nDescription=autopilot in {}\n\n", job.marker(), specifiers(&text_of(job)));
    // Writing to a string cannot fail.
    _ = write!(
        text,
        "[Service]\nType=oneshot\nWorkingDirectory={}\nEnvironment={}\nExecStart={}\n\
         KillMode=mixed\nTimeoutStartSec=infinity\nTimeoutStopSec=120\n",
        specifiers(&text_of(job)),
        assignment(&format!("PATH={}", job.path)),
        command.join(" ")
    );
    text
}

/// The timer. `Persistent`: a slot during which the machine was off is caught up at the next start.
#[must_use]
pub fn timer(job: &Job) -> String {
    let days = if job.slot.is_daily() { String::new() } else { format!("{} ", job.slot.capital_days()) };
    format!(
        "# {}\n[Unit]\nDescription=autopilot in {}, {}\n\n[Timer]\nOnCalendar={days}*-*-* {}:00\n\
         Persistent={}\nAccuracySec=1s\n\n[Install]\nWantedBy=timers.target\n",
        job.marker(),
        specifiers(&text_of(job)),
        job.slot,
        job.slot.time_text(),
        job.catch_up_hours > 0
    )
}

fn text_of(job: &Job) -> String {
    job.directory.to_string_lossy().into_owned()
}

/// `%` begins a specifier.
fn specifiers(text: &str) -> String {
    text.replace('%', "%%")
}

/// A word of a command line, where a variable begins with `$` (systemd.service(5), "Command lines").
fn quoted(word: &str) -> String {
    assignment(&word.replace('$', "$$"))
}

/// An assignment of `Environment=`, where it does not.
fn assignment(text: &str) -> String {
    let escaped = specifiers(text).replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::super::tests::nasty_job;
    use super::*;

    #[test]
    fn units() {
        let job = nasty_job();
        insta::assert_snapshot!(format!("{}\n=====\n{}", service(&job), timer(&job)));
        assert_eq!(Job::in_text(&service(&job)), std::slice::from_ref(&job));
        assert!(
            timer(&Job { slot: "01:17".parse().unwrap(), ..job }).contains("\nOnCalendar=*-*-* 01:17:00\n")
        );
    }
}
