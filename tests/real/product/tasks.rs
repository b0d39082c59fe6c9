//! From a plan to a finished one: the work that a repository itself says is to be done.

use serde_json::{Value, json};

use super::{commit, work};
use crate::stub::Reply;
use crate::support::Night;

const PLAN: &str = ".project/plan.md";
const TEXT: &str = "# Plan \u{1f319}\n\nNotes of the owner, with trailing space \n\n## Phase 1\n\n\
    - [ ] Write the parser\n\t\n## Phase 2\n\n* [ ] Write the printer  \n  in two colours\n* [ ] Write the checker";

/// What the run is asked for: nothing but its limits.
const ARGS: [&str; 3] = ["--max-sessions=5", "--allowed-tools=Bash", "--no-progress"];

fn reports(done: &[&str], more: &Value) -> Reply {
    let mut fields = json!({"tasks_done": done});
    for (key, value) in more.as_object().expect("an object") {
        fields[key] = value.clone();
    }
    Reply::report_with("partial", &fields)
}

#[test]
fn three_tasks_become_three_ticked_boxes_and_commits_and_the_run_ends_by_itself() {
    let night = Night::new();
    night.write(PLAN, TEXT);
    night.git(&["add", PLAN]);
    night.git(&["commit", "--quiet", "--message", "Plan"]);
    let plan = night.repo().join(PLAN);
    let edit = |from: &str, to: &str| {
        Reply::tool("Edit", &json!({"file_path": plan, "old_string": from, "new_string": to}))
    };
    night
        .stub
        // The box is ticked by a command, in the commit of the work.
        .next(Reply::bash(&format!(
            "echo a > parser.txt && sed -i 's/^- . . Write the parser/- [x] Write the parser/' {PLAN} \
             && git add parser.txt {PLAN} && git commit --quiet -m 'Add parser'"
        )))
        .next(reports(
            &["Write the parser"],
            &json!({"summary": "The parser stands.", "do_not_retry": ["flex: it cannot read UTF-8"]}),
        ))
        // By the tool for edits.
        .next(Reply::tool("Read", &json!({"file_path": plan})))
        .next(edit("* [ ] Write the printer", "* [x] Write the printer"))
        .next(Reply::bash(&format!(
            "echo b > printer.txt && git add printer.txt {PLAN} && git commit --quiet -m 'Add printer'"
        )))
        .next(reports(&["Write the printer"], &json!({"summary": "The printer stands."})))
        // Not at all, but the work is committed and reported.
        .next(commit("checker"))
        .next(reports(&["Write the checker"], &json!({})));
    let ended = night.run(&ARGS);
    assert_eq!(ended.verdict(), json!([0, null, null]), "{}", ended.stderr);
    let record = ended.record();
    assert_eq!(record["kill_switch_detail"], "no open work: nothing is open in the task sources");
    assert_eq!(json!([record["outcome"], record["iterations_completed"]]), json!(["planned", 3]));
    assert_eq!(night.commits(), ["Plan", "Add parser", "Add printer", "Add checker"]);
    assert_eq!(night.read(PLAN).unwrap(), TEXT.replace("[ ]", "[x]"), "only the boxes have changed");

    let sessions = night.events_of(&ended, "session_ended");
    let ticked = |by: &str| sessions.iter().map(|session| session["tasks"][by].clone()).collect::<Vec<_>>();
    let [parser, printer, checker] = ["Write the parser", "Write the printer", "Write the checker"];
    assert_eq!(json!(ticked("ticked_by_session")), json!([[parser], [printer], []]));
    assert_eq!(json!(ticked("ticked_by_us")), json!([[], [], [checker]]));
    assert!(sessions.iter().all(|session| session["contradictions"] == json!([])), "{sessions:?}");

    // Each session is told what is open, and what the ones before it left.
    let requests = night.stub.requests();
    assert_eq!(requests.len(), 8);
    let prompts: Vec<String> = [0, 2, 6].iter().map(|at| requests[*at].user_text()).collect();
    for (prompt, open) in
        prompts.iter().zip([&[parser, printer, checker][..], &[printer, checker], &[checker]])
    {
        for task in [parser, printer, checker] {
            assert_eq!(prompt.contains(&format!("] {task}")), open.contains(&task), "{task}: {prompt}");
        }
    }
    assert!(prompts[0].contains(&format!("({PLAN}, line 7, under \"Phase 1\")")), "{}", prompts[0]);
    assert!(prompts[1].contains("The parser stands.") && !prompts[0].contains("flex"));
    assert!(prompts[1].contains("flex: it cannot read UTF-8"), "{}", prompts[1]);
    assert!(prompts[2].contains("The printer stands.") && prompts[2].contains("flex"), "{}", prompts[2]);
}

#[test]
fn a_verification_that_fails_ends_the_run_and_its_output_is_kept() {
    let night = Night::new();
    night.stub.next(commit("one")).next(Reply::report("complete"));
    let verify = "--verify=ls one.txt && echo 3 tests failed >&2 && exit 7";
    let ended = night.run(&work(&["--max-sessions=3", verify]));
    assert_eq!(ended.verdict(), json!([14, "failed-wave", null]), "{}", ended.stderr);
    assert_eq!(ended.record()["kill_switch_detail"], "--verify failed: exit code 7");
    assert_eq!(night.stub.requests().len(), 2, "no other session was started");
    assert!(
        night.stub.requests()[0].user_text().contains("echo 3 tests failed"),
        "the session is told of it"
    );
    let run = ended.record()["autopilot_run_id"].as_str().unwrap().to_owned();
    let folder = format!(".orchestrator/autopilot/runs/{run}");
    assert_eq!(night.read(&format!("{folder}/verify-1.log")).as_deref(), Some("one.txt\n3 tests failed\n"));
    let report = night.read(&format!("{folder}/report.md")).unwrap();
    for text in
        ["verification failed: exit code 7", "3 tests failed", "reported complete, but --verify failed"]
    {
        assert!(report.contains(text), "`{text}` is not in {report}");
        assert!(ended.stderr.contains(text), "`{text}` is not said: {}", ended.stderr);
    }
}
