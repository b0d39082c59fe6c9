//! `autopilot stop`: ends the run that goes on here, and nothing else.

use serde_json::json;

use crate::support::env::TestEnv;
use crate::support::invariants::Expect;
use crate::support::proc;
use crate::support::run::{Finished, dump};
use crate::support::story::{HANG, PARTIAL, events, finish, record_is, says};

fn waiting() -> String {
    format!("init\nwait_file go\n{}", PARTIAL.replace("turn", "text \"Did a part.\"\nresult"))
}

#[track_caller]
fn stop(env: &TestEnv, args: &[&str], code: i32) -> Finished {
    let told = env.autopilot(&[&["stop"], args].concat());
    assert_eq!(told.code(), Some(code), "{told}");
    told
}

#[test]
fn the_session_is_finished_however_often_it_is_asked() {
    let env = TestEnv::new();
    env.script(&waiting());
    let mut running = env.start(&["--prompt", "x", "--max-sessions", "3"]);
    running.wait_mark(1, "waiting");
    for number in 0..4 {
        let told = stop(&env, &[], 0);
        says(&told, &["the session is finished, then it stops"]);
        running.wait_for("it takes note", |env| (!events(env, "stop_requested").is_empty()).then_some(()));
        assert!(!env.has_mark(1, "interrupted"), "stop number {number} was too hard");
    }
    env.release("go");
    let run = finish(&env, running, 143, &Expect { any_cost: true, ..Expect::default() });
    says(&run, &["stop asked for by autopilot stop", "user-abort", "autopilot resume"]);
    record_is(
        &env,
        &[
            ("kill_switch", json!("user-abort")),
            ("iterations_completed", json!(1)),
            ("kill_switch_detail", json!("AbortSignal triggered between iterations (autopilot stop)")),
        ],
    );
    assert_eq!(events(&env, "stop_requested").len(), 1);
    assert_eq!((env.calls().len(), events(&env, "attempt_ended")[0]["signals"].clone()), (1, json!([])));
}

#[test]
fn now_interrupts_the_turn_and_waits_for_the_end() {
    let env = TestEnv::new();
    env.script(HANG);
    let mut running = env.start(&["--prompt", "x"]);
    running.wait_mark(1, "hang");
    let told = stop(&env, &["--now", "--wait"], 0);
    says(&told, &["interrupted and recorded", "is over"]);
    finish(&env, running, 143, &Expect { any_cost: true, ..Expect::default() });
    assert!(env.has_mark(1, "interrupted"), "{}", dump(&env));
    record_is(&env, &[("kill_switch", json!("user-abort")), ("iterations_completed", json!(0))]);
    assert_eq!(events(&env, "stop_requested")[0]["by"], "autopilot stop --now");
    assert_eq!(env.leftovers(), []);
}

#[test]
fn for_programs() {
    let env = TestEnv::new();
    assert_eq!(stop(&env, &["--json"], 6).json(), json!({"run_id": null, "asked": null, "ended": false}));
    env.script(HANG);
    let mut running = env.start(&["--prompt", "x"]);
    running.wait_mark(1, "hang");
    let id =
        running.wait_event("its start", |e| e["event"]["type"] == "run_started")["event"]["run_id"].clone();
    let told = stop(&env, &["--json", "--now", "--wait"], 0);
    assert_eq!(told.json(), json!({"run_id": id, "asked": "interrupt", "ended": true}));
    finish(&env, running, 143, &Expect { any_cost: true, ..Expect::default() });
}

#[test]
fn nothing_to_stop_is_said_and_has_its_own_code() {
    let env = TestEnv::new();
    says(&stop(&env, &[], 6), &["nothing is running here"]);
    says(&stop(&env, &["--now", "--wait"], 6), &["nothing is running here"]);
}

/// A lock file that names somebody else's process: nobody holds it, so nobody is signalled.
#[test]
fn a_bystander_with_a_pid_from_an_old_lock_is_left_alone() {
    let env = TestEnv::new();
    let pid = env.bystander();
    let lock = |start: u64| {
        json!({"holder": {"run_id": "main-2026-01-01-0000-autopilot", "pid": pid, "pid_start_time": start,
            "cookie": "c", "host": "", "started_at": "2026-01-01T00:00:00Z"}})
    };
    for start in [0, 1, 12_345] {
        env.write(".orchestrator/autopilot/lock", lock(start).to_string());
        let told = stop(&env, &["--now"], 6);
        says(&told, &["nothing is running here; run main-2026-01-01-0000-autopilot died without a word"]);
        assert!(env.bystander_lives());
    }
    // Held, by somebody who wrote a pid that is not the run's.
    let file =
        std::fs::File::options().append(true).open(env.repo().join(".orchestrator/autopilot/lock")).unwrap();
    file.lock().unwrap();
    let told = stop(&env, &[], 23);
    says(&told, &["cannot be told to stop", "gone"]);
    env.write(".orchestrator/autopilot/other", "");
    assert!(env.bystander_lives() && proc::alive(pid));
}
