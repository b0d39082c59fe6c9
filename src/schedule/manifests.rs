//! Manifests for schedulers that are somebody else's machine: printed, never installed.

use std::fmt::Write as _;

use jiff::ZonedDateTime;

use super::{Job, shell_quoted};

/// Jobs of the chain in the workflow: a night that is longer than one job may be.
const CHAIN: usize = 3;

/// A workflow of GitHub Actions that chains jobs through the composite action of this repository. Its schedule is in
/// UTC.
#[must_use]
pub fn github(job: &Job, now: &ZonedDateTime) -> String {
    let options: Vec<String> = job.args.iter().map(|word| shell_quoted(word)).collect();
    let slot = job.slot.in_utc(now);
    let mut text = String::new();
    // Writing to a string cannot fail.
    _ = write!(
        text,
        "# {} {}, as UTC at the offset of {}: GitHub knows no time zones.
# OWNER/autopilot is wherever the action is: .github/actions/autopilot of autopilot's own repository.
name: autopilot
on:
  schedule:
    - cron: {}
  workflow_dispatch: {{}}
permissions:
  contents: write
concurrency:
  group: autopilot
  cancel-in-progress: false
jobs:
",
        job.slot.time_text(),
        job.slot.days_text(),
        now.date(),
        yaml(&slot.cron()),
    );
    for number in 1..=CHAIN {
        _ = write!(text, "  part-{number}:\n    runs-on: ubuntu-latest\n    timeout-minutes: 350\n");
        if number > 1 {
            _ = write!(
                text,
                "    needs: part-{}\n    if: needs.part-{}.outputs.more == 'true'\n",
                number - 1,
                number - 1
            );
        }
        _ = write!(
            text,
            "    outputs:
      more: ${{{{ steps.autopilot.outputs.more }}}}
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0
      - uses: OWNER/autopilot/.github/actions/autopilot@main
        id: autopilot
        with:
          part: {number}
          minutes: 330
          options: {}
        env:
          CLAUDE_CODE_OAUTH_TOKEN: ${{{{ secrets.CLAUDE_CODE_OAUTH_TOKEN }}}}
",
            yaml(&options.join(" "))
        );
    }
    text
}

/// A `CronJob` of Kubernetes. The repository is a volume, so that the next night knows of the last one.
#[must_use]
pub fn kubernetes(job: &Job, now: &ZonedDateTime) -> String {
    let zone = now.time_zone().iana_name().unwrap_or("Etc/UTC");
    let mut args = String::new();
    for word in ["-C", "/work", "run"].into_iter().chain(job.args.iter().map(String::as_str)) {
        // Writing to a string cannot fail.
        _ = writeln!(args, "                - {}", yaml(word));
    }
    let deadline = u64::from(job.catch_up_hours.max(1)) * 3600;
    format!(
        "# The image has autopilot, claude, git and what the work needs; the volume holds a clone.
apiVersion: batch/v1
kind: CronJob
metadata:
  name: autopilot
spec:
  schedule: {}
  timeZone: {}
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: {deadline}
  successfulJobsHistoryLimit: 3
  failedJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          restartPolicy: Never
          terminationGracePeriodSeconds: 120
          securityContext:
            runAsNonRoot: true
            runAsUser: 1000
            fsGroup: 1000
          containers:
            - name: autopilot
              image: YOUR-REGISTRY/autopilot:latest
              command: [\"autopilot\"]
              args:
{args}              env:
                - name: HOME
                  value: /home/autopilot
                - name: CLAUDE_CODE_OAUTH_TOKEN
                  valueFrom:
                    secretKeyRef:
                      name: autopilot
                      key: oauth-token
              volumeMounts:
                - name: work
                  mountPath: /work
                - name: home
                  mountPath: /home/autopilot
              resources:
                requests:
                  memory: 2Gi
                limits:
                  memory: 8Gi
          volumes:
            - name: work
              persistentVolumeClaim:
                claimName: autopilot-work
            - name: home
              persistentVolumeClaim:
                claimName: autopilot-home
",
        yaml(&job.slot.cron()),
        yaml(zone),
    )
}

/// A text as YAML reads it back, whatever is in it: JSON is YAML.
fn yaml(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::tests::nasty_job;
    use super::*;

    #[test]
    fn manifests() {
        let now: ZonedDateTime = "2026-12-01T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        insta::assert_snapshot!("github", github(&nasty_job(), &now));
        insta::assert_snapshot!("kubernetes", kubernetes(&nasty_job(), &now));
    }
}
