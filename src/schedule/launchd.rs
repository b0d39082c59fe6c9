//! A property list for a user's launchd. It starts a slot that was slept through once after the wake; what was missed
//! while the machine was off is caught up by the look at load. **Not verified**: there was no macOS to try it on.

use std::fmt::Write as _;

use super::Job;

/// The label of a job.
#[must_use]
pub fn label(id: &str) -> String {
    format!("autopilot.{id}")
}

/// The property list.
#[must_use]
pub fn plist(job: &Job) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n",
    );
    // `--` may not stand in a comment, and options begin with it: the marker is a value.
    let (hour, minute) = job.slot.hour_minute();
    let log = job.directory.join(".orchestrator/autopilot/schedule.log");
    let log = escaped(&log.to_string_lossy());
    let string = |text: &str| format!("<string>{}</string>", escaped(text));
    // Writing to a string cannot fail.
    _ = writeln!(text, "<plist version=\"1.0\"><dict>");
    _ = writeln!(text, "  <key>Label</key>{}", string(&label(&job.id())));
    _ = writeln!(text, "  <key>ProgramArguments</key><array>");
    for word in job.command() {
        _ = writeln!(text, "    {}", string(&word));
    }
    _ = writeln!(text, "  </array>");
    _ = writeln!(text, "  <key>WorkingDirectory</key>{}", string(&job.directory.to_string_lossy()));
    _ = writeln!(text, "  <key>EnvironmentVariables</key><dict>");
    _ = writeln!(text, "    <key>PATH</key>{}", string(&job.path));
    _ = writeln!(text, "    <key>SCHEDULED_JOB</key>{}", string(&job.marker()));
    _ = writeln!(text, "  </dict>");
    _ = writeln!(text, "  <key>StartCalendarInterval</key><array>");
    let days = job.slot.numbers_from_sunday();
    let days: Vec<Option<usize>> =
        if days.is_empty() { vec![None] } else { days.into_iter().map(Some).collect() };
    for day in days {
        let day = day.map(|day| format!("<key>Weekday</key><integer>{day}</integer>")).unwrap_or_default();
        _ = writeln!(
            text,
            "    <dict>{day}<key>Hour</key><integer>{hour}</integer><key>Minute</key><integer>{minute}</integer></dict>"
        );
    }
    _ = writeln!(text, "  </array>");
    _ = writeln!(text, "  <key>RunAtLoad</key><{}/>", job.catch_up_hours > 0);
    _ = writeln!(text, "  <key>StandardOutPath</key><string>{log}</string>");
    _ = writeln!(text, "  <key>StandardErrorPath</key><string>{log}</string>");
    _ = writeln!(text, "</dict></plist>");
    text
}

/// The jobs whose property lists these are.
#[must_use]
pub fn jobs(text: &str) -> Vec<Job> {
    let unescaped =
        text.replace("</string>", "").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Job::in_text(&unescaped)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::nasty_job;
    use super::*;

    #[test]
    fn a_property_list() {
        let job = nasty_job();
        insta::assert_snapshot!(plist(&job));
        assert_eq!(jobs(&plist(&job)), [job]);
    }
}
