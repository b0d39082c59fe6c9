//! Interrupts and signals in the middle of a turn (claude-code §5 and §6).

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stub::Reply;
use crate::support::{Night, STEP, Turn};

const TOOL: &str = "tail -f /dev/null";

/// A turn that waits for the API.
fn waiting(night: &Night) -> Turn {
    night.stub.next(Reply::silent()).always(Reply::text("All done"));
    let mut turn = Turn::start(night, &[]);
    turn.initialize();
    turn.prompt("Do it");
    night.stub.wait_for_request(STEP, |_| true);
    turn
}

/// A turn that runs a tool without end.
fn working(night: &Night) -> Turn {
    night.stub.next(Reply::bash(TOOL)).always(Reply::text("All done"));
    let mut turn = Turn::start(night, &["--allowed-tools", "Bash"]);
    turn.initialize();
    turn.prompt("Do it");
    turn.answer_hook("pre", &json!({}));
    night.wait_for_process(TOOL);
    turn
}

#[test]
fn an_interrupt_ends_the_turn_and_the_process_goes_on() {
    for (begin, terminal) in
        [(waiting as fn(&Night) -> Turn, "aborted_streaming"), (working, "aborted_tools")]
    {
        let night = Night::new();
        let mut turn = begin(&night);
        turn.send(
            &json!({"type": "control_request", "request_id": "i1", "request": {"subtype": "interrupt"}}),
        );
        turn.next_where("answer", |line| line["response"]["request_id"] == "i1");
        let result = turn.result();
        assert_eq!(result["subtype"], "error_during_execution");
        assert_eq!(result["is_error"], true);
        assert_eq!(result["terminal_reason"], terminal);
        night.wait_until_gone(TOOL);

        turn.prompt("Do something else");
        let result = turn.result();
        assert_eq!(result["result"], "All done");
        assert_eq!(turn.close(), Some(0));
    }
}

#[test]
fn a_signal_ends_the_process_and_its_tool() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 0), (Signal::HUP, 129)] {
        for begin in [waiting, working] {
            let night = Night::new();
            let mut turn = begin(&night);
            turn.program.signal(signal);
            assert_eq!(turn.program.wait(STEP).code(), Some(code), "{signal:?}");
            night.wait_until_empty(STEP);
            let result = turn.lines().into_iter().find(|line| line["type"] == "result");
            // An interrupt may or may not get its result line out before the process ends; nothing else has one.
            if let Some(result) = result {
                assert_eq!(
                    (signal, &result["subtype"]),
                    (Signal::INT, &Value::from("error_during_execution"))
                );
            }
        }
    }
}

/// So a driver that kills has to sweep.
#[test]
fn a_kill_leaves_the_tool_alive() {
    let night = Night::new();
    let mut turn = working(&night);
    turn.program.signal(Signal::KILL);
    assert_eq!(turn.program.wait(STEP).code(), None);
    night.wait_for_process(TOOL);
}
