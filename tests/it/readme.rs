//! The README's tables are made from the code; this fails when they differ.

use std::path::Path;

use autopilot::cli::args;
use autopilot::error::exit;
use autopilot::settings::{env_vars, keys};

fn sections() -> [(&'static str, String); 4] {
    [
        ("commands", args::markdown()),
        ("settings", keys::markdown()),
        ("environment", env_vars::markdown()),
        ("exit codes", exit::markdown()),
    ]
}

/// `text` with every generated section as the code has it now.
fn regenerated(mut text: String) -> String {
    for (name, content) in sections() {
        let open = format!("<!-- generated: {name} -->\n");
        let from = text.find(&open).expect("the README has a place for each section") + open.len();
        let length = text[from..].find("<!-- end -->").expect("each section has an end");
        text.replace_range(from..from + length, &content);
    }
    text
}

#[test]
fn the_tables_are_those_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = std::fs::read_to_string(&path).expect("the README is there");
    let wanted = regenerated(text.clone());
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(&path, &wanted).expect("the README can be written");
    } else {
        assert!(
            text == wanted,
            "README.md is not up to date: run UPDATE_README=1 cargo test --test it readme"
        );
    }
}
