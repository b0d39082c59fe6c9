//! Class J: processes and signals.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use super::{night, strings, text};
use crate::support::invariants::{Expect, check_invariants};

#[test]
fn j01_j10_what_a_session_leaves_behind_is_ended_and_told() {
    for options in ["plain", "setsid", "plain ignore-term", "setsid ignore-term"] {
        let morning = night(&format!("spawn_grandchild {options}\nturn\nexit 0")).run();
        morning.fine().judged(&["ok"]);
        let swept = strings(&morning.events("attempt_ended")[0]["swept"]);
        assert!(swept.len() == 1 && swept[0].contains("fake-claude"), "{options}: {morning}");
        assert!(swept[0].contains("KILL") == options.contains("ignore-term"), "{options}: {swept:?}");
    }
}

#[test]
fn j01_three_of_them_when_the_session_is_killed() {
    let script = "nth_call 1 {\nspawn_grandchild plain ignore-term\nspawn_grandchild setsid ignore-term\nspawn_grandchild setsid\ninit\ntext \"Half.\" partial\nsignal_self KILL\n}\nnth_call 2 {\nturn\n}";
    let morning = night(script).run();
    morning.fine().judged(&["killed_by_other", "ok"]);
    assert_eq!(strings(&morning.events("attempt_ended")[0]["swept"]).len(), 3, "{morning}");
}

#[test]
fn j02_two_seconds_to_flush_after_sigterm() {
    let script = "trap_term slow 2000\ninit\ntext \"Done.\"\nreport\nresult\nhang";
    let morning = night(script).run();
    morning.fine();
    let transcript = fs::read_to_string(morning.env.transcript(&morning.ids()[0])).unwrap();
    assert!(transcript.contains("flushed_after_signal"), "{transcript}");
    assert!(!strings(&morning.events("attempt_ended")[0]["signals"]).join(" ").contains("KILL"), "{morning}");
}

#[test]
fn j03_the_operator_always_gets_out() {
    for signals in [&[Signal::TERM][..], &[Signal::HUP], &[Signal::INT; 2], &[Signal::INT; 3]] {
        let ignore = if signals.len() == 3 {
            "trap_term ignore\ntrap_int ignore\ntrap_interrupt ignore\n"
        } else {
            ""
        };
        let script = format!("{ignore}init\ntool_start Bash {{\"command\":\"make\"}}\nmark here\nhang");
        let morning =
            night(&script).expect(|expect| expect.within = Duration::from_secs(25)).watched(|run| {
                run.wait_mark(1, "here");
                for signal in signals {
                    run.signal(*signal);
                    let seen = run.wait_event("the stop", |line| line["event"]["type"] == "stop_requested");
                    assert!(!text(&seen["event"]["by"]).is_empty());
                }
            });
        assert_eq!(text(&morning.env.last_run()["kill_switch"]), "user-abort", "{morning}");
        assert_eq!(morning.env.calls().len(), 1, "{morning}");
    }
}

#[test]
fn j06_j08_ended_by_a_signal_or_out_of_memory() {
    for (end, words) in [
        ("signal_self KILL", "signal 9"),
        ("signal_self ABRT", "signal 6"),
        ("signal_self SEGV", "signal 11"),
        ("exit 137", "exit code 137"),
        (
            "stderr \"FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\"\nexit 134",
            "heap out of memory",
        ),
    ] {
        let script =
            format!("nth_call 1 {{\ninit\ntext \"Half.\" partial\n{end}\n}}\nnth_call 2 {{\nturn\n}}");
        let morning = night(&script).run();
        morning.fine().judged(&["killed_by_other", "ok"]).because(words).resumed_the_first();
    }
}

#[test]
fn j06_a_signal_every_time_is_no_success() {
    let morning = night("init\ntext \"Half.\" partial\nsignal_self KILL").run();
    morning.ended(14, "failed-wave", "killed_by_other").judged(&["killed_by_other"; 3]);
}

#[test]
fn j12_a_stopped_process_is_ended_too() {
    // SIGTERM stays pending on a stopped process: "sent" is not "dead".
    let script = "init\ntext \"Done.\"\nreport\nresult\nsignal_self STOP\nhang";
    let morning = night(script).run();
    morning.fine().judged(&["ok"]);
}

#[test]
fn j09_a_recorded_process_number_that_is_somebody_elses_now() {
    let night = night("init\nmark here\nhang").expect(|expect| expect.killed = true);
    let dead = night.watched(|run| {
        run.wait_mark(1, "here");
        run.signal(Signal::KILL);
    });
    let env = dead.env;
    env.end_leftovers();
    // What the dead run knew of its process would hit the bystander today.
    let (old, new) = (env.calls()[0]["pid"].to_string(), env.bystander().to_string());
    for run in fs::read_dir(env.repo().join(".orchestrator/autopilot/runs")).unwrap() {
        let path = run.unwrap().path().join("events.jsonl");
        let journal = fs::read_to_string(&path).unwrap();
        let aged = journal.replace(&format!("\"pid\":{old}"), &format!("\"pid\":{new}"));
        assert_ne!(journal, aged, "the number is on record");
        fs::write(&path, aged).unwrap();
    }
    env.script("turn");
    let run = env.autopilot(&["resume", "--no-progress", "--max-sessions=1"]);
    // Invariant 8: the bystander lives.
    check_invariants(&env, &run, &Expect { any_cost: true, ..Expect::default() });
    assert_eq!(run.code(), Some(0), "{run}");
}
