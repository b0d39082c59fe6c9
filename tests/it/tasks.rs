//! Work from `.project/`: what a session is given, what becomes of the boxes, and when there is none left
//! (design §5, recovery §10.6–7).

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::dump;
use crate::support::story::{events, finish, prompt, record_is, run, run_folders, says};

const PLAN: &str = ".project/plan.md";
const INBOX: &str = ".project/inbox.md";
/// Two tasks.
const TWO: &str = "# Plan\n\n- [ ] Write the parser\n- [ ] Write the printer\n";

/// A session that commits and reports these tasks done, without touching their boxes.
fn works_on(tasks: &[&str]) -> String {
    format!("commit \"Work of call {{call}}\" work{{call}}.txt\n{}", reports("partial", tasks))
}

fn reports(status: &str, done: &[&str]) -> String {
    format!("report {}\nturn", json!({"status": status, "tasks_done": done}))
}

/// The run ended because nothing is left to do.
#[track_caller]
fn no_open_work(env: &TestEnv, iterations: u32) {
    record_is(
        env,
        &[
            ("kill_switch", Value::Null),
            ("kill_switch_detail", json!("no open work: nothing is open in the task sources")),
            ("iterations_completed", json!(iterations)),
            ("outcome", json!("planned")),
            ("fallback_to_manual", json!(false)),
            ("failure_class", Value::Null),
        ],
    );
}

fn report_file(env: &TestEnv) -> String {
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    env.read(&format!(".orchestrator/autopilot/runs/{id}/report.md"))
}

#[test]
fn a_repository_without_any_source_is_told_how_to_begin() {
    let env = TestEnv::new();
    let run = run(&env, &[], 3);
    assert_eq!(env.calls().len(), 0);
    says(&run, &["Next", "--prompt", ".project/plan.md"]);
    record_is(
        &env,
        &[
            ("kill_switch", Value::Null),
            ("fallback_to_manual", json!(true)),
            ("iterations_completed", json!(0)),
            ("outcome", json!("manual-fallback")),
        ],
    );
    assert!(env.git(&["status", "--porcelain", "--", ":!.orchestrator"]).is_empty(), "nothing was written");
}

#[test]
fn open_tasks_are_enough_to_start_and_a_ticked_plan_ends_the_run() {
    let env = TestEnv::new();
    env.write(PLAN, TWO);
    let ticked = TWO.replace("[ ]", "[x]").replace('\n', "\\n");
    env.script(&format!(
        "touch {PLAN} \"{ticked}\"\ncommit \"Both\" {PLAN} both.txt\n{}",
        reports("complete", &["Write the parser", "Write the printer"])
    ));
    let run_first = run(&env, &[], 0);
    no_open_work(&env, 1);
    assert_eq!(env.calls().len(), 1);
    let text = prompt(&env, 1);
    assert!(text.contains("Write the parser") && text.contains("Write the printer"), "{text}");
    assert!(text.contains("housekeeping") && text.contains(&format!("({PLAN}, line 3")), "{text}");
    let chosen = &events(&env, "mode_selected")[0];
    assert_eq!(json!([chosen["mode"], chosen["threshold"]]), json!(["housekeeping", 0.85]));
    let tasks = &events(&env, "session_ended")[0]["tasks"];
    assert_eq!(tasks["ticked_by_session"], json!(["Write the parser", "Write the printer"]), "{tasks}");
    assert_eq!(events(&env, "session_ended")[0]["contradictions"], json!([]));
    says(&run_first, &["ended as planned", "no open work"]);

    // Nothing is left from the start.
    let run = run(&env, &[], 0);
    no_open_work(&env, 0);
    assert_eq!(env.calls().len(), 1, "{run}");
}

#[test]
fn a_reported_and_committed_task_is_ticked_and_nothing_else_changes() {
    let env = TestEnv::new();
    // Foreign line ends, a byte that is no UTF-8, no line end at the end.
    let plan = b"\xef\xbb\xbf# Plan \xff\r\n\r\n* [ ] Write the parser  \r\n\r\n\t1) [x] odd\r\n- [X] Old\r\n- [ ] Write the printer";
    env.write(PLAN, plan);
    env.script(&works_on(&["write the PARSER"]));
    run(&env, &["--max-sessions", "1"], 0);
    let now = std::fs::read(env.repo().join(PLAN)).unwrap();
    let changed: Vec<usize> = (0..plan.len()).filter(|at| now.get(*at) != plan.get(*at)).collect();
    let mark = plan.windows(3).position(|three| three == b"[ ]").unwrap() + 1;
    assert_eq!((changed, now.len()), (vec![mark], plan.len()), "{:?}", String::from_utf8_lossy(&now));
    assert_eq!(now[mark], b'x');
    let tasks = &events(&env, "session_ended")[0]["tasks"];
    assert_eq!(tasks["ticked_by_us"], json!(["Write the parser"]), "{tasks}");
    let session = events(&env, "session_started");
    assert_eq!(tasks["given"], session[0]["tasks"]);
}

#[test]
fn every_task_of_a_plan_is_worked_off_one_session_after_the_other() {
    let env = TestEnv::new();
    env.write(PLAN, "## One\n- [ ] Alpha gate\n## Two\n- [ ] Beta gate\n- [ ] Gamma gate\n");
    let session = |call: u32, task: &str| format!("nth_call {call} {{\n{}\n}}\n", works_on(&[task]));
    env.script(&[session(1, "Alpha gate"), session(2, "Gamma gate"), session(3, "Beta gate")].concat());
    run(&env, &[], 0);
    no_open_work(&env, 3);
    assert_eq!(env.read(PLAN), "## One\n- [x] Alpha gate\n## Two\n- [x] Beta gate\n- [x] Gamma gate\n");
    assert!(prompt(&env, 1).contains("Alpha gate"));
    assert!(!prompt(&env, 2).contains("Alpha gate") && prompt(&env, 2).contains("Beta gate"));
    assert!(prompt(&env, 3).contains("Beta gate") && !prompt(&env, 3).contains("Gamma gate"));
}

#[test]
fn items_of_the_inbox_are_tasks_of_the_plan_before_the_session() {
    let env = TestEnv::new();
    let head = "<!-- Jot things down here. -->\n\n";
    env.write(PLAN, "# Plan\n\n- [ ] Write the parser\n");
    env.write(INBOX, format!("{head}- [ ] urgent: mend the lexer\n\n## Speed it up\n\nIt takes 3 s\n"));
    // In the middle of the session a person jots down another.
    env.script(&format!(
        "nth_call 1 {{\nwait_file go\n{}\n}}\nnth_call 2 {{\n{}\n}}",
        works_on(&["urgent: mend the lexer"]),
        works_on(&["Write the parser", "Speed it up", "And a colour switch"])
    ));
    let mut running = env.start(&[]);
    running.wait_mark(1, "waiting");
    let (plan, inbox) = (env.read(PLAN), env.read(INBOX));
    for text in
        ["- [ ] Write the parser\n", "- [ ] urgent: mend the lexer\n", "- [ ] Speed it up\n", "It takes 3 s"]
    {
        assert!(plan.contains(text), "`{text}` is not in the plan:\n{plan}");
    }
    assert_eq!(inbox.trim(), head.trim(), "{inbox}");
    let archive = env.read(".orchestrator/autopilot/inbox-archive.md");
    assert!(archive.contains("mend the lexer") && archive.contains("It takes 3 s"), "{archive}");
    env.write(INBOX, format!("{inbox}- [ ] And a colour switch\n"));
    env.release("go");
    finish(&env, running, 0, &Expect::default());

    no_open_work(&env, 2);
    let first = prompt(&env, 1);
    let at = |text: &str| first.find(text).unwrap_or_else(|| panic!("`{text}` is not in {first}"));
    assert!(at("mend the lexer") < at("Write the parser"), "what presses comes first: {first}");
    assert!(first.contains("It takes 3 s") && !first.contains("colour"), "{first}");
    assert!(prompt(&env, 2).contains("And a colour switch"), "{}", prompt(&env, 2));
    assert!(!env.read(PLAN).contains("[ ]"), "{}", env.read(PLAN));
    assert_eq!(env.read(INBOX).trim(), head.trim());
}

#[test]
fn an_edit_of_a_person_during_the_session_survives_the_tick() {
    let env = TestEnv::new();
    env.write(PLAN, TWO);
    env.script(&format!("wait_file go\n{}", works_on(&["Write the printer"])));
    let mut running = env.start(&["--max-sessions", "1"]);
    running.wait_mark(1, "waiting");
    let edited = "# The plan, with a preface\n\nSee the notes.\n\n- [ ] Write the printer in colour\n- [ ] Sleep\n\
                  - [ ] Write the parser\n- [ ] Write the printer\n";
    env.write(PLAN, edited);
    env.release("go");
    finish(&env, running, 0, &Expect::default());
    let wanted = edited.replace("- [ ] Write the printer\n", "- [x] Write the printer\n");
    assert_eq!(env.read(PLAN), wanted);
}

#[test]
fn a_claim_without_a_commit_is_told_and_counts_as_left_over() {
    let env = TestEnv::new();
    env.write(PLAN, TWO);
    env.script(&format!(
        "report {}\nturn",
        json!({"status": "partial", "tasks_done": ["Write the parser"],
            "effectiveness": {"planned_issues": 2, "completed": 1, "carryover": 0, "emergent": 0}})
    ));
    // Our own writing between the sessions is no work of the second one.
    let run = run(&env, &["--max-sessions", "2"], 0);
    let said = "reported tasks done, but git shows neither a commit nor a change";
    for ended in events(&env, "session_ended") {
        let told = ended["contradictions"].to_string();
        assert!(told.contains(said) && told.contains("Write the parser"), "{told}\n{}", dump(&env));
        assert_eq!(ended["tasks"]["disproved"], json!(["Write the parser"]));
        assert_eq!(ended["work"]["dirty_changed"], false, "{ended}");
    }
    assert_eq!(env.sessions().len(), 2);
    for session in env.sessions() {
        let counted = &session["effectiveness"];
        assert_eq!(json!([counted["completed"], counted["carryover"]]), json!([1, 1]), "{session}");
    }
    let after: Vec<Value> =
        events(&env, "switches_checked").into_iter().filter(|e| e["phase"] == "after").collect();
    assert_eq!(after[0]["inputs"]["carryover"], 1.0, "{after:?}");
    assert_eq!(env.read(PLAN), TWO, "nothing is ticked for it");
    says(&run, &[said]);
    assert!(report_file(&env).contains(said), "{}", report_file(&env));
}

#[test]
fn what_we_move_or_tick_ourselves_is_no_work_of_a_session() {
    let env = TestEnv::new();
    env.write(PLAN, TWO);
    env.write(INBOX, "- [ ] Write the checker\n");
    // The first one does nothing, the second one earns a tick, the third one claims what it did not do. Before each
    // of them something is in the inbox.
    env.script(&format!(
        "nth_call 1 {{\nwait_file one\n{}\n}}\nnth_call 2 {{\nwait_file two\n{}\n}}\nnth_call 3 {{\n{}\n}}",
        reports("partial", &[]),
        works_on(&["Write the parser"]),
        reports("partial", &["Write the printer"])
    ));
    let mut running = env.start(&["--max-sessions", "3", "--carryover-threshold", "1"]);
    for (call, name, item) in [(1, "one", "Name it well"), (2, "two", "Paint it")] {
        running.wait_mark(call, "waiting");
        env.write(INBOX, format!("{}- [ ] {item}\n", env.read(INBOX)));
        env.release(name);
    }
    finish(&env, running, 0, &Expect::default());
    let ended = events(&env, "session_ended");
    // A person wrote into the inbox during the first two.
    let changed: Vec<&Value> = ended.iter().map(|event| &event["work"]["dirty_changed"]).collect();
    assert_eq!(changed, [true, true, false], "{}", dump(&env));
    assert!(ended[2]["contradictions"].to_string().contains("neither a commit nor a change"), "{}", ended[2]);
    let plan = env.read(PLAN);
    for task in ["- [x] Write the parser", "- [ ] Write the printer", "- [ ] Name it well", "- [ ] Paint it"]
    {
        assert!(plan.contains(task), "`{task}` is not in {plan}");
    }
}

#[test]
fn complete_with_open_boxes_is_too_much_carried_over() {
    let env = TestEnv::new();
    env.write(PLAN, TWO);
    env.script(&format!("commit \"Some\" some.txt\n{}", reports("complete", &[])));
    let run = run(&env, &[], 15);
    record_is(&env, &[("kill_switch", json!("carryover-too-high")), ("iterations_completed", json!(1))]);
    let said = "reported complete, but 2 of 2 given tasks are still open";
    says(&run, &[said, "carryover-too-high"]);
    assert!(report_file(&env).contains(said), "{}", report_file(&env));
    assert_eq!(env.read(PLAN), TWO);
}

#[test]
fn what_a_verification_refuses_is_not_ticked() {
    let env = TestEnv::new();
    env.write(PLAN, TWO);
    env.script(&works_on(&["Write the parser"]));
    run(&env, &["--verify", "exit 3"], 14);
    assert_eq!(env.read(PLAN), TWO);
    assert_eq!(events(&env, "session_ended")[0]["tasks"]["ticked_by_us"], json!([]));
}

#[test]
fn doubtful_work_is_looked_at_again_by_a_task_of_the_plan() {
    let env = TestEnv::new();
    env.write(PLAN, "- [ ] Write the parser\n- [ ] Write the printer\n- [ ] Write the checker\n");
    env.script(&format!(
        "nth_call 1 {{\nagent \"try\" failed\n{}\n}}\nnth_call 2 {{\n{}\n}}",
        works_on(&["Write the parser"]),
        works_on(&["Write the printer", "Write the checker"])
    ));
    run(&env, &["--max-sessions", "1"], 14);
    let plan = env.read(PLAN);
    assert!(plan.starts_with("- [x] Write the parser\n- [ ] Write the printer\n"), "{plan}");
    assert_eq!(plan.matches("- [ ] Verify & Polish: Write the parser").count(), 1, "{plan}");
    // Off is off.
    let env = TestEnv::new();
    env.write(".autopilot.toml", "follow-ups = \"off\"\n");
    env.write(PLAN, TWO);
    env.script(&format!("agent \"try\" failed\n{}", works_on(&["Write the parser"])));
    run(&env, &["--max-sessions", "1"], 14);
    assert_eq!(env.read(PLAN), TWO.replacen("[ ]", "[x]", 1));
}

#[test]
fn what_is_left_over_twice_is_a_deep_session() {
    let env = TestEnv::new();
    env.write(".autopilot.toml", "state-file = \"off\"\n");
    env.write(PLAN, TWO);
    env.script(&works_on(&[]));
    run(&env, &["--max-sessions", "2"], 0);
    // It is known in the next run, too, and by whatever name the task goes then.
    env.write(PLAN, TWO.replace("Write the parser", "Write the parser, at last"));
    run(&env, &["--max-sessions", "1"], 0);
    let modes: Vec<Value> = events(&env, "mode_selected").iter().map(|event| event["mode"].clone()).collect();
    assert_eq!(modes, ["housekeeping", "housekeeping", "deep"], "{}", dump(&env));
    let rationale = events(&env, "mode_selected")[2]["rationale"].clone();
    assert!(rationale.as_str().unwrap().contains("one carried over 2 times"), "{rationale}");
}

#[test]
fn labelled_issues_are_tasks_until_they_are_closed() {
    let env = TestEnv::new();
    env.write(".autopilot.toml", "backlog-label = \"night\"\n");
    env.git(&["remote", "add", "origin", "git@github.com:tess/parser.git"]);
    let issue = |number: u32, title: &str, label: &str| {
        json!({"number": number, "title": title, "labels": [{"name": label}],
            "createdAt": "2026-04-01T01:00:00Z", "updatedAt": "2026-04-01T01:00:00Z"})
    };
    let open = json!([issue(12, "Mend the lexer", "night"), issue(13, "Discuss the name", "question")]);
    let issues = env.root().join("issues.json");
    std::fs::write(&issues, open.to_string()).unwrap();
    let answer = format!("case $1 in issue) cat {} ;; *) echo '[]' ;; esac", issues.display());
    env.tool("gh", &answer);
    env.script(&format!(
        "touch ../issues.json \"[]\"\ncommit \"Mend it (#12)\" lexer.txt\n{}",
        reports("complete", &["#12"])
    ));
    run(&env, &[], 0);
    no_open_work(&env, 1);
    let text = prompt(&env, 1);
    assert!(text.contains("[#12] Mend the lexer") && !text.contains("Discuss"), "{text}");
    assert!(!env.repo().join(".project").exists(), "issues are closed there, not ticked here");
}

#[test]
fn a_prompt_leaves_the_task_files_alone() {
    let env = TestEnv::new();
    env.write(PLAN, TWO);
    env.write(INBOX, "- [ ] Another\n");
    run(&env, &["--prompt", "Something else"], 0);
    assert_eq!((env.read(PLAN), env.read(INBOX)), (TWO.to_owned(), "- [ ] Another\n".to_owned()));
    assert!(!prompt(&env, 1).contains("Write the parser"));
    assert_eq!(run_folders(&env).len(), 1);
}
