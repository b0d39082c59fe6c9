//! A configuration for `curl` on its standard input, so that no address or body is on a command line, where every
//! user of the machine could read it.

use std::fmt::Write as _;

/// Seconds one try may take; [`super::deliver::TIMEOUT`] is above two of them with the pause in between.
const MAX_SECONDS: u32 = 6;

/// One POST of JSON. A passing failure is tried once more; whatever the server answers beyond 2xx is an error.
pub(super) fn post(url: &str, body: &str) -> String {
    let mut text = String::from("request = \"POST\"\nheader = \"Content-Type: application/json\"\n");
    // Writing to a string cannot fail.
    _ = writeln!(text, "url = {}", quoted(url));
    _ = writeln!(text, "data-raw = {}", quoted(body));
    _ = writeln!(text, "max-time = {MAX_SECONDS}");
    text.push_str("retry = 1\nretry-delay = 1\nfail\nsilent\nshow-error\nproto = \"=http,https\"\n");
    text.push_str("output = \"/dev/null\"\n");
    text
}

/// As curl reads quoted values.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_its_quotes() {
        let text = post("https://example.org/a\"b", "{\"text\":\"one\\ntwo\"}\nurl = file:///etc/passwd");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], r#"url = "https://example.org/a\"b""#);
        assert_eq!(lines[3], r#"data-raw = "{\"text\":\"one\\ntwo\"}\nurl = file:///etc/passwd""#);
        assert_eq!(lines.iter().filter(|line| line.starts_with("url")).count(), 1);
    }
}
