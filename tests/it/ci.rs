//! A job of a CI system: the landing before its time limit, what it is told, and the chain of parts through the scripts
//! of the composite action.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::run::dump;
use crate::support::story::{HANG, PARTIAL, events, prompt, record_is, run, run_as, says};

/// Wrap up after 4.8 s, interrupt after 5.7 s.
const SIX_SECONDS: &str = "--deadline=0.1";

#[test]
fn it_lands_before_the_deadline_and_resume_goes_on() {
    let env = TestEnv::new();
    // Interrupted, asked to wrap up, and does.
    env.script(&format!(
        "nth_call 1 {{\n{HANG}\n}}\nnth_call 2 {{\n{PARTIAL}\n}}\nnth_call 3 {{\nturn\n}}\n"
    ));
    let first = run_as(
        &env,
        &["--prompt", "the work", "--max-sessions=4", SIX_SECONDS],
        0,
        &Expect { any_cost: true, ..Expect::default() },
    );
    let purposes: Vec<Value> =
        events(&env, "turn_started").iter().map(|turn| turn["purpose"].clone()).collect();
    assert_eq!(purposes, [json!("work"), json!("wrap_up")], "{}", dump(&env));
    assert!(prompt(&env, 2).contains("The time for this session is nearly over"), "{}", prompt(&env, 2));
    record_is(
        &env,
        &[
            ("kill_switch", json!("max-hours-exceeded")),
            ("kill_switch_detail", json!("deadline=0.1 min: reached")),
            ("exit_code", json!(0)),
            ("iterations_completed", json!(1)),
        ],
    );
    says(&first, &["autopilot resume"]);
    assert!(first.elapsed.as_secs_f64() < 6.0, "{:?}", first.elapsed);
    run_as(&env, &["resume", "--deadline=0"], 0, &Expect { any_cost: true, ..Expect::default() });
    assert_eq!((env.runs().len(), env.calls().len()), (1, 3), "{}", dump(&env));
}

#[test]
fn github_is_told() {
    let mut env = TestEnv::new();
    let (summary, output) = (env.root().join("out/summary"), env.root().join("out/output"));
    std::fs::write(&summary, "before\n").unwrap();
    env.set("GITHUB_STEP_SUMMARY", &summary.display().to_string());
    env.set("GITHUB_OUTPUT", &output.display().to_string());
    // Only a job of GitHub.
    run(&env, &["--prompt", "x", "--max-sessions=1"], 0);
    assert_eq!(std::fs::read_to_string(&summary).unwrap(), "before\n");
    env.set("GITHUB_ACTIONS", "true");
    env.script("init\napi_error 401 \"Not logged in · Please run /login\"\nexit 1");
    let ended = run(&env, &["--prompt", "x", "--quiet"], 20);
    let text = std::fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("before\n# ") && text.contains("claude /login"), "{text}");
    let outputs = std::fs::read_to_string(&output).unwrap();
    let id = env.last_run()["autopilot_run_id"].as_str().unwrap().to_owned();
    assert_eq!(outputs, format!("run-id={id}\nexit-code=20\noutcome=login-needed\nmore=false\n"));
    says(
        &ended,
        &[&format!("::error title=autopilot {id}::stopped: failed-wave (auth)"), "::warning title="],
    );
}

/// The script of the action in a job: its own temporary folder, its own home.
fn action(env: &TestEnv, script: &str, job: &Path, repo: &Path, variables: &[(&str, &str)]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/actions/autopilot").join(script);
    let mut command = env.command("bash");
    command.arg(script).current_dir(repo).env("RUNNER_TEMP", job.join("temp")).env("HOME", job.join("home"));
    command.env("CLAUDE_CONFIG_DIR", job.join("config")).env("PROGRAM", env!("CARGO_BIN_EXE_autopilot"));
    command
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_OUTPUT", job.join("output"))
        .envs(variables.iter().copied());
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}\n{}", String::from_utf8_lossy(&ended.stderr), dump(env));
}

#[test]
fn a_chain_of_jobs_is_one_run() {
    let env = TestEnv::new();
    env.script(&format!(
        "nth_call 1 {{\n{HANG}\n}}\nnth_call 2 {{\n{PARTIAL}\n}}\nnth_call 3 {{\nreport {{\"status\":\"complete\"}}\nturn\n}}\n"
    ));
    let job = |number: u32| {
        let folder = env.root().join(format!("job-{number}"));
        for name in ["temp", "home", "config"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        folder
    };
    let output = |job: &Path| std::fs::read_to_string(job.join("output")).unwrap();
    let first = job(1);
    let told = [("PART", "1"), ("MINUTES", "0.1"), ("OPTIONS", "--max-sessions 4 --prompt 'it'\\''s $HOME'")];
    action(&env, "run.sh", &first, env.repo(), &told);
    assert!(output(&first).contains("more=true"), "{}", output(&first));
    assert!(prompt(&env, 1).contains("it's $HOME"));
    // A commit, a change that is not committed, a deleted file, one that git ignores.
    let run_id = env.last_run()["autopilot_run_id"].clone();
    env.write("tracked", "1\n");
    env.write(".gitignore", "build\n");
    env.git(&["add", "."]);
    env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "work of part 1"]);
    env.write("tracked", "2\n");
    env.write("new file", "new\n");
    env.write("build", "heavy\n");
    action(&env, "save.sh", &first, env.repo(), &[]);

    // Another machine: a fresh checkout, where nothing is.
    let second = job(2);
    std::fs::create_dir_all(second.join("temp/autopilot")).unwrap();
    for name in ["repository.tar", "conversations.tar"] {
        std::fs::copy(first.join("temp/autopilot").join(name), second.join("temp/autopilot").join(name))
            .unwrap();
    }
    for entry in std::fs::read_dir(env.repo()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
    }
    let git = Command::new("git").args(["init", "-q"]).current_dir(env.repo()).status().unwrap();
    assert!(git.success());
    action(&env, "restore.sh", &second, env.repo(), &[]);
    assert_eq!((env.read("tracked"), env.read("new file")), ("2\n".to_owned(), "new\n".to_owned()));
    assert!(!env.repo().join("build").exists(), "what git ignores stays behind");
    assert!(env.git(&["log", "--oneline"]).contains("work of part 1"));
    action(&env, "run.sh", &second, env.repo(), &[("PART", "2"), ("MINUTES", "60")]);
    assert!(output(&second).contains("more=false"), "{}", output(&second));
    assert_eq!(
        (env.runs().len(), env.last_run()["autopilot_run_id"].clone()),
        (1, run_id),
        "one run, one record"
    );
    assert_eq!(env.last_run()["iterations_completed"], json!(2));
}
