//! The command line of the agent: the flags it knows, and how it passes over the rest.

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) session_id: Option<String>,
    pub(super) resume: Option<String>,
    /// `--input-format stream-json`.
    pub(super) streams_in: bool,
    /// `--output-format`.
    pub(super) output: Output,
    /// `--json-schema`.
    pub(super) wants_report: bool,
    /// `--permission-prompt-tool stdio`.
    pub(super) asks: bool,
    pub(super) permission_mode: String,
    pub(super) prompt: Option<String>,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub(super) enum Output {
    #[default]
    Text,
    Json,
    Stream,
}

/// Flags that take no value; after them a word is the prompt.
const SWITCHES: [&str; 6] = [
    "-p",
    "--print",
    "--verbose",
    "--include-partial-messages",
    "--replay-user-messages",
    "--dangerously-skip-permissions",
];

impl Options {
    pub(super) fn parse(args: &[String]) -> Self {
        let mut options = Options { permission_mode: "default".to_owned(), ..Options::default() };
        let mut args = args.iter().map(String::as_str).peekable();
        while let Some(arg) = args.next() {
            if !arg.starts_with('-') {
                options.prompt = Some(arg.to_owned());
                continue;
            }
            if SWITCHES.contains(&arg) {
                continue;
            }
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (arg, args.next_if(|next| !next.starts_with('-'))),
            };
            let value = value.unwrap_or_default();
            match name {
                "--session-id" => options.session_id = Some(value.to_owned()),
                "--resume" | "-r" => options.resume = Some(value.to_owned()),
                "--input-format" => options.streams_in = value == "stream-json",
                "--output-format" => {
                    options.output = match value {
                        "stream-json" => Output::Stream,
                        "json" => Output::Json,
                        _ => Output::Text,
                    };
                }
                "--json-schema" => options.wants_report = true,
                "--permission-prompt-tool" => options.asks = value == "stdio",
                "--permission-mode" => value.clone_into(&mut options.permission_mode),
                _ => {}
            }
        }
        options
    }
}
