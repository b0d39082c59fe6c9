//! A shell command in words, as far as words go: quotes, separators, redirections, here-documents.
//!
//! Only good for guessing what a command is about. What decides whether a command may run has to be stricter.

/// One simple command of a list or a pipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Command {
    words: Vec<String>,
    /// Files its output goes to.
    pub(super) writes_to: Vec<String>,
}

impl Command {
    /// The program as it is called; empty for a command without one.
    #[must_use]
    pub(super) fn path(&self) -> &str {
        self.words.first().map(String::as_str).unwrap_or_default()
    }

    /// The name of the program.
    #[must_use]
    pub(super) fn program(&self) -> &str {
        self.path().rsplit('/').next().unwrap_or_default()
    }

    /// What follows the program.
    #[must_use]
    pub(super) fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Takes off what only says how the program is to be run: variables, `sudo`, `timeout 60`, …
    fn unwrap(&mut self) {
        while let Some(first) = self.words.first() {
            let is_variable = first.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            });
            let name = first.rsplit('/').next().unwrap_or_default();
            let wraps = matches!(
                name,
                "sudo"
                    | "env"
                    | "time"
                    | "timeout"
                    | "nice"
                    | "nohup"
                    | "xargs"
                    | "command"
                    | "exec"
                    | "then"
                    | "do"
                    | "else"
                    | "if"
                    | "!"
                    | "{"
                    | "stdbuf"
            );
            if !is_variable && !wraps {
                return;
            }
            self.words.remove(0);
            if wraps {
                while self.words.first().is_some_and(|word| {
                    word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit())
                }) {
                    self.words.remove(0);
                }
            }
        }
    }
}

/// How deep `sh -c` is followed.
const DEPTH: u32 = 3;

/// The simple commands of a text, in order; those of `sh -c '…'` in its place.
#[must_use]
pub(super) fn commands(text: &str) -> Vec<Command> {
    let mut found = Vec::new();
    read(text, DEPTH, &mut found);
    found
}

fn read(text: &str, depth: u32, found: &mut Vec<Command>) {
    let mut lexer = Lexer::default();
    for line in without_documents(text) {
        line.chars().for_each(|c| lexer.take(c));
        lexer.take('\n');
    }
    lexer.end_of_command();
    for mut command in lexer.commands {
        command.unwrap();
        let script = matches!(command.program(), "sh" | "bash" | "zsh" | "dash")
            .then(|| {
                let flag =
                    command.words.iter().position(|word| word.starts_with('-') && word.ends_with('c'))?;
                command.words.get(flag + 1).cloned()
            })
            .flatten();
        match script {
            Some(script) if depth > 0 => read(&script, depth - 1, found),
            Some(_) | None => found.push(command),
        }
    }
}

/// The lines that are not inside a here-document.
fn without_documents(text: &str) -> Vec<&str> {
    let mut lines = text.lines();
    let mut kept = Vec::new();
    while let Some(line) = lines.next() {
        kept.push(line);
        if let Some(end) = document_end(line) {
            lines.by_ref().find(|line| line.trim() == end);
        }
    }
    kept
}

/// The word that ends the here-document a line begins.
fn document_end(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("<<")?;
    let word = rest.trim_start_matches('-').trim_start().trim_start_matches(['\'', '"', '\\']);
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
    let word = &word[..end];
    word.starts_with(|c: char| c.is_alphabetic() || c == '_').then_some(word)
}

#[derive(Debug, Default)]
struct Lexer {
    commands: Vec<Command>,
    command: Command,
    word: Option<String>,
    /// The quote that is open.
    quote: Option<char>,
    escaped: bool,
    /// The next word is the target of a redirection.
    redirected: bool,
    /// The last one was `>`.
    after_arrow: bool,
}

impl Lexer {
    fn take(&mut self, c: char) {
        let after_arrow = std::mem::take(&mut self.after_arrow);
        if std::mem::take(&mut self.escaped) {
            if c != '\n' {
                self.word.get_or_insert_default().push(c);
            }
            return;
        }
        match (self.quote, c) {
            (Some(quote), c) if c == quote => self.quote = None,
            (quote, '\\') if quote != Some('\'') => self.escaped = true,
            (None, '\'' | '"') => {
                self.quote = Some(c);
                self.word.get_or_insert_default();
            }
            // `2>&1`, `&>`: no separator.
            (None, '&') if after_arrow => self.word.get_or_insert_default().push(c),
            (None, '>') => {
                // `2>`: the number is no word.
                if self.word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
                    self.word = None;
                }
                self.end_of_word();
                (self.redirected, self.after_arrow) = (true, true);
            }
            (None, '|') if after_arrow => {}
            (None, ';' | '&' | '|' | '\n' | '(' | ')' | '`') => self.end_of_command(),
            (None, c) if c.is_whitespace() => self.end_of_word(),
            (Some(_) | None, c) => self.word.get_or_insert_default().push(c),
        }
    }

    fn end_of_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.redirected) {
            self.command.writes_to.push(word);
        } else {
            self.command.words.push(word);
        }
    }

    fn end_of_command(&mut self) {
        self.end_of_word();
        self.redirected = false;
        let command = std::mem::take(&mut self.command);
        if command != Command::default() {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let commands = commands(text);
        let found: Vec<(String, String)> =
            commands.iter().map(|command| (command.words.join("·"), command.writes_to.join("·"))).collect();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(words, targets)| (words.as_str(), targets.as_str())).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn words() {
        check("", &[]);
        check("a 'b c' \"d; e\" f\\ g ''", &[("a·b c·d; e·f g·", "")]);
        check("a; b && c || d | e & f\ng", &["a", "b", "c", "d", "e", "f", "g"].map(|word| (word, "")));
        check("a $(b c) `d`", &[("a·$", ""), ("b·c", ""), ("d", "")]);
        check("a > f 2>&1 >>'g h' >|i", &[("a", "f·&1·g h·i")]);
        check("A=1 B= sudo -E env x=y timeout -k 5 60 make", &[("make", "")]);
        check("if a; then b; fi", &[("a", ""), ("b", ""), ("fi", "")]);
        check("bash -lc 'a && sh -c \"b c\"' ; d", &[("a", ""), ("b·c", ""), ("d", "")]);
    }

    #[test]
    fn here_documents_are_no_commands() {
        check("cat > f <<'EOF'\nrm -r x\nEOF\nls", &[("cat·<<EOF", "f"), ("ls", "")]);
        check("cat <<-E\nrm\n\tE\nls", &[("cat·<<-E", ""), ("ls", "")]);
        check("cat <<E\nrm", &[("cat·<<E", "")]);
        check("a <<< 'x'\nb", &[("a·<<<·x", ""), ("b", "")]);
        check("echo $((1<<2))\nb", &[("echo·$", ""), ("1<<2", ""), ("b", "")]);
    }

    #[test]
    fn odd_texts_are_read_somehow() {
        for text in ["'", "\"a", "a\\", ">", "&&&", ">>>>", "((", "A=", "bash -c", "é ü > ñ", "\0"] {
            assert!(commands(text).len() <= text.len(), "{text:?}");
        }
        check("a >", &[("a", "")]);
    }
}
