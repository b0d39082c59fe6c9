//! A word of a command, as far as its text is known before it runs.
//!
//! Quotes and escapes are taken off, variables of the same script and the home folder are filled in, braces are
//! expanded. What nobody can know is kept as such: where it matters the judgement is "no".

use rable::{Node, NodeKind};

use super::state::State;

/// Alternatives of braces that are followed.
const MAX_ALTERNATIVES: usize = 64;

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::core::gate) enum Piece {
    /// Literal text.
    Text(String),
    /// Characters that the shell matches with file names.
    Glob(String),
    /// Text that is not known before it runs.
    Unknown,
    /// Unquoted: not known, and it may be no word or several.
    Several,
}

/// A word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::core::gate) struct Value {
    pub(in crate::core::gate) pieces: Vec<Piece>,
}

impl Value {
    /// A word that is known.
    pub(in crate::core::gate) fn of(text: impl Into<String>) -> Self {
        Value { pieces: vec![Piece::Text(text.into())] }
    }

    /// A word that is not.
    pub(in crate::core::gate) fn unknown() -> Self {
        Value { pieces: vec![Piece::Several] }
    }

    /// The whole text, if it is known; a glob that matches nothing stands for itself, so it is none.
    pub(in crate::core::gate) fn text(&self) -> Option<String> {
        let texts = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The text up to the first piece that is not known.
    pub(in crate::core::gate) fn beginning(&self) -> String {
        let known = self.pieces.iter().map_while(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        });
        known.collect()
    }

    /// For people and rules; what is not known is an ellipsis.
    pub(in crate::core::gate) fn shown(&self) -> String {
        let shown = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) | Piece::Glob(text) => text.as_str(),
            Piece::Unknown | Piece::Several => "…",
        });
        shown.collect()
    }

    /// Whether it may be an option.
    pub(in crate::core::gate) fn may_be_option(&self) -> bool {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text.starts_with('-'),
            Some(Piece::Glob(_)) | None => false,
            Some(Piece::Unknown | Piece::Several) => true,
        }
    }

    /// Whether a part of it is not known.
    pub(in crate::core::gate) fn is_uncertain(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Unknown | Piece::Several))
    }

    fn push(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }
}

/// What stands inside of a word and runs.
#[derive(Debug, Clone)]
pub(super) enum Nested {
    /// Parsed.
    Node(Node),
    /// Raw text that the parser left alone, in which substitutions may hide.
    Raw(String),
}

/// What reading a word gives.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The words it becomes: none, one, or several.
    pub(super) values: Vec<Value>,
    /// What runs to make it.
    pub(super) nested: Vec<Nested>,
    /// The parser and this reader do not agree what is in it.
    pub(super) doubtful: bool,
}

/// Reads a word of a command; `splits` = its expansions may become several words (not so in assignments).
pub(super) fn read(node: &Node, state: &State, splits: bool) -> Read {
    let NodeKind::Word { value, parts, .. } = &node.kind else {
        return Read { values: vec![Value::unknown()], doubtful: true, ..Read::default() };
    };
    let mut reader = Reader { state, splits, out: Read::default() };
    let mut words = vec![Word::default()];
    for part in parts {
        if let NodeKind::BraceExpansion { content } = &part.kind {
            reader.out.nested.push(Nested::Raw(content.clone()));
            words = braces(words, content, splits);
            continue;
        }
        for word in &mut words {
            reader.part(word, part, value);
        }
    }
    for word in words {
        reader.finish(word);
    }
    // Alternatives read the same parts.
    reader.out.nested.truncate(MAX_ALTERNATIVES * 8);
    reader.out
}

/// A word that is being read.
#[derive(Debug, Clone, Default)]
struct Word {
    value: Value,
    /// Words that were split off before it.
    before: Vec<Value>,
    double: bool,
    /// Something quoted was in it: it is a word even when it is empty.
    quoted: bool,
    started: bool,
}

impl Word {
    fn text(&mut self, text: &str) {
        self.started |= !text.is_empty();
        self.value.push(text);
    }

    fn piece(&mut self, piece: Piece) {
        self.started = true;
        self.value.pieces.push(piece);
    }

    fn split(&mut self) {
        if self.started || self.quoted {
            self.before.push(std::mem::take(&mut self.value));
        }
        self.started = false;
        self.quoted = false;
    }
}

/// Each word so far with each alternative.
fn braces(words: Vec<Word>, content: &str, splits: bool) -> Vec<Word> {
    let inner = content.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(content);
    let plain = !inner.contains(['{', '}', '$', '`', '\'', '"', '\\', '*', '?', '[']);
    let alternatives: Vec<&str> = inner.split(',').collect();
    if plain && splits && alternatives.len() > 1 && words.len() * alternatives.len() <= MAX_ALTERNATIVES {
        let each = |word: Word| {
            alternatives
                .iter()
                .map(move |text| {
                    let mut word = word.clone();
                    word.text(text);
                    word
                })
                .collect::<Vec<_>>()
        };
        return words.into_iter().flat_map(each).collect();
    }
    let sequence = plain && alternatives.len() == 1;
    let mut words = words;
    for word in &mut words {
        // `{1..9}` is one letter or number each, without a slash.
        let piece = if sequence { Piece::Glob(content.to_owned()) } else { Piece::Several };
        word.piece(piece);
    }
    words
}

struct Reader<'a> {
    state: &'a State,
    splits: bool,
    out: Read,
}

impl Reader<'_> {
    fn part(&mut self, word: &mut Word, part: &Node, raw: &str) {
        match &part.kind {
            NodeKind::WordLiteral { value } => self.literal(word, value),
            NodeKind::AnsiCQuote { decoded, .. } if !word.double && !decoded.contains('\0') => {
                word.quoted = true;
                word.text(decoded);
            }
            NodeKind::LocaleString { inner, .. } => {
                word.quoted = true;
                self.out.nested.push(Nested::Raw(inner.clone()));
                if inner.contains(['$', '`', '\\']) { word.piece(Piece::Unknown) } else { word.text(inner) }
            }
            NodeKind::ParamExpansion { param, op, arg } => {
                if let Some(arg) = arg {
                    self.out.nested.push(Nested::Raw(arg.clone()));
                }
                self.subscript(param);
                self.variable(word, param, op.as_deref(), arg.as_deref());
            }
            NodeKind::ParamIndirect { arg, param, .. } => {
                if let Some(arg) = arg {
                    self.out.nested.push(Nested::Raw(arg.clone()));
                }
                self.subscript(param);
                self.unknown(word);
            }
            NodeKind::ParamLength { param } => {
                self.subscript(param);
                word.piece(Piece::Unknown);
            }
            NodeKind::CommandSubstitution { command, .. } => {
                self.out.nested.push(Nested::Node((**command).clone()));
                match self.state.known_output(command) {
                    Some(text) => word.text(&text),
                    None => self.unknown(word),
                }
            }
            NodeKind::ProcessSubstitution { command, .. } => {
                self.out.nested.push(Nested::Node((**command).clone()));
                word.text("/dev/fd/63");
            }
            NodeKind::ArithmeticExpansion { .. } => {
                self.out.nested.push(Nested::Raw(arithmetic(raw)));
                word.piece(Piece::Unknown);
            }
            _ => {
                self.out.doubtful |= !matches!(part.kind, NodeKind::AnsiCQuote { .. });
                word.piece(Piece::Several);
            }
        }
    }

    /// `a[$(cmd)]` runs too.
    fn subscript(&mut self, param: &str) {
        if param.contains('[') {
            self.out.nested.push(Nested::Raw(param.to_owned()));
        }
    }

    fn unknown(&self, word: &mut Word) {
        word.piece(if word.double || !self.splits { Piece::Unknown } else { Piece::Several });
    }

    fn variable(&mut self, word: &mut Word, name: &str, op: Option<&str>, default: Option<&str>) {
        let known = match op {
            None => self.state.variable(name),
            Some(":-" | "-") => self
                .state
                .variable(name)
                .filter(|value| value.text().is_some_and(|text| !text.is_empty()))
                .or_else(|| self.state.default_of(name, default.unwrap_or_default())),
            Some(_) => None,
        };
        let Some(known) = known else { return self.unknown(word) };
        for piece in known.pieces {
            match piece {
                Piece::Text(text) if word.double || !self.splits => word.text(&text),
                Piece::Text(text) => self.unquoted(word, &text),
                Piece::Glob(glob) if word.double => word.piece(Piece::Glob(glob)),
                other => word.piece(other),
            }
        }
    }

    /// The text of a variable without quotes: blanks split it, stars are globs.
    fn unquoted(&self, word: &mut Word, text: &str) {
        if self.state.splits_otherwise {
            return word.piece(Piece::Several);
        }
        for c in text.chars() {
            match c {
                ' ' | '\t' | '\n' => word.split(),
                '*' | '?' | '[' => word.piece(Piece::Glob(c.to_string())),
                _ => word.text(c.encode_utf8(&mut [0; 4])),
            }
        }
    }

    /// Literal text with its quotes.
    fn literal(&mut self, word: &mut Word, raw: &str) {
        let mut chars = raw.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let rest = &raw[at + c.len_utf8()..];
            match c {
                '"' => {
                    word.double = !word.double;
                    word.quoted = true;
                }
                '\'' if !word.double => {
                    word.quoted = true;
                    let Some(end) = rest.find('\'') else {
                        self.out.doubtful = true;
                        return;
                    };
                    word.text(&rest[..end]);
                    while chars.next_if(|(next, _)| *next <= at + 1 + end).is_some() {}
                }
                '\\' => match chars.next() {
                    Some((_, '\n')) => {}
                    Some((_, next)) if !word.double || "$`\"\\".contains(next) => {
                        word.quoted = true;
                        word.text(next.encode_utf8(&mut [0; 4]));
                    }
                    Some((_, next)) => {
                        word.text("\\");
                        word.text(next.encode_utf8(&mut [0; 4]));
                    }
                    None => word.text("\\"),
                },
                // In deeper nestings the parser leaves process substitutions alone; their text stays behind the name.
                '<' | '>' if rest.starts_with('(') && !word.double => {
                    self.out.nested.push(Nested::Raw(raw.to_owned()));
                    word.text("/dev/fd/63");
                }
                '`' => self.out.doubtful = true,
                '$' if rest.starts_with(['(', '{']) => self.out.doubtful = true,
                '{' if rest.starts_with('}') => {
                    // A file name of `find` or `xargs`.
                    chars.next();
                    word.piece(Piece::Unknown);
                }
                '~' if !word.started && !word.quoted && !word.double => self.tilde(word, rest),
                '*' | '?' if !word.double => word.piece(Piece::Glob(c.to_string())),
                '[' if !word.double && rest.contains(']') => word.piece(Piece::Glob(c.to_string())),
                _ => word.text(c.encode_utf8(&mut [0; 4])),
            }
        }
    }

    fn tilde(&self, word: &mut Word, rest: &str) {
        if !(rest.is_empty() || rest.starts_with('/')) {
            // Somebody's home, or `~+`.
            return word.piece(Piece::Unknown);
        }
        match self.state.variable("HOME") {
            Some(home) => home.pieces.into_iter().for_each(|piece| word.piece(piece)),
            None => word.piece(Piece::Unknown),
        }
    }

    fn finish(&mut self, mut word: Word) {
        if word.double {
            self.out.doubtful = true;
        }
        if self.splits {
            word.split();
            self.out.values.append(&mut word.before);
        } else {
            self.out.values.push(word.value);
        }
    }
}

/// The inside of the arithmetic of a word; all of the word when it cannot be cut out.
fn arithmetic(raw: &str) -> String {
    let inner = raw.find("$((").and_then(|from| {
        let to = raw.rfind("))")?;
        raw.get(from + 3..to)
    });
    inner.unwrap_or(raw).to_owned()
}
