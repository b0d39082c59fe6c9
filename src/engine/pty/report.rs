//! The report of a session where no flag asks for it: in the prompt, and from the last text.

use serde_json::Value;

/// What is added to a prompt that wants a report.
pub(super) fn instruction(schema: &str) -> String {
    format!(
        "\n\nEnd your last message with the report on the work: one JSON object in a ```json block, by this schema: {schema}"
    )
}

/// The report in a text: its last JSON block, or the object it ends with.
pub(super) fn find(text: &str) -> Option<Value> {
    let fenced = text.rsplit_once("```json").map(|(_, rest)| rest.split("```").next().unwrap_or(rest));
    let bare = || {
        text.rfind("\n{").map(|at| &text[at + 1..]).or_else(|| text.trim().starts_with('{').then_some(text))
    };
    let report: Value = serde_json::from_str(fenced.or_else(bare)?.trim()).ok()?;
    report.get("status").is_some_and(Value::is_string).then_some(report)
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn the_report_of_a_text() {
        for (text, expected) in [
            ("Done.\n```json\n{\"status\":\"complete\"}\n```", Some("complete")),
            (
                "```json\n{\"status\":\"partial\"}\n```\nand\n```json\n{\"status\":\"complete\"}\n```\n",
                Some("complete"),
            ),
            ("{\"status\":\"blocked\"}", Some("blocked")),
            ("All is done.\n{\"status\": \"complete\"}\n", Some("complete")),
            ("```json\n{\"name\":\"x\"}\n```", None),
            ("```json\n{broken\n```", None),
            ("All done.", None),
        ] {
            let found = find(text);
            assert_eq!(found.as_ref().and_then(|report| report["status"].as_str()), expected, "{text}");
        }
    }
}
