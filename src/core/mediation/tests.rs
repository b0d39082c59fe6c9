use super::*;
use serde_json::json;

#[test]
fn events_hold_no_secrets() {
    for (text, expected) in [
        ("cargo test --all", "cargo test --all"),
        ("curl -H 'Authorization: Bearer abc.def' x", "curl -H 'Authorization: Bearer *** x"),
        ("export GITHUB_TOKEN=ghp_0123456789abcdef", "export GITHUB_TOKEN=***"),
        ("TOKEN=abc ./run", "TOKEN=*** ./run"),
        ("psql --password=hunter2 db", "psql --password=*** db"),
        ("use sk-ant-REDACTED now", "use *** now"),
        ("echo $TOKEN", "echo $TOKEN"),
        ("a tokeniser: fast", "a tokeniser: fast"),
    ] {
        assert_eq!(redacted(text), expected);
    }
}

#[test]
fn a_call_in_a_line() {
    for (input, expected) in [
        (json!({"command": "ls\nrm x"}), "ls"),
        (json!({"file_path": "a.rs", "content": "long"}), "a.rs"),
        (json!({"other": 1}), ""),
        (json!(null), ""),
        (json!({"command": "é".repeat(900)}), &*"é".repeat(WHAT)),
    ] {
        assert_eq!(excerpt(&input), expected);
    }
}

#[test]
fn a_question_in_any_shape() {
    let asks = |question: Option<&str>, options: &[&str]| BlockedOn {
        question: question.map(str::to_owned),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
    };
    for (input, expected) in [
        (
            json!({"questions": [{"question": "a?", "options": [{"label": "x"}, {"label": "y"}]}, {"question": "b?"}]}),
            asks(Some("a?"), &["x", "y"]),
        ),
        (json!({"question": "a?", "options": ["x", 3]}), asks(Some("a?"), &["x"])),
        (json!({"questions": []}), asks(None, &[])),
        (json!("text"), asks(None, &[])),
    ] {
        assert_eq!(question(&input), expected);
    }
}
