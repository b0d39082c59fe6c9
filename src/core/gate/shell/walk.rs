//! Through a script, in the order in which it would run.
//!
//! A list of commands has two ends, one after success and one after failure, so that `cd x && rm -rf y` and
//! `cd x || exit` are understood. Loops are read until nothing new is learnt. What would run in a place that cannot be
//! reached is judged nevertheless, with nothing known.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rable::{ListOperator, Node, NodeKind};

use super::state::State;
use super::word::{self, Nested, Piece, Value};
use crate::core::gate::finding::{Finding, Subject, Weight};
use crate::core::gate::{Context, Removable};

/// Scripts within scripts (`sh -c "sh -c …"`), and nestings of one.
const MAX_DEPTH: usize = 200;
pub(super) const MAX_SCRIPTS: usize = 10;

/// Commands that are looked at; one in a loop counts each time it is read.
const MAX_COMMANDS: usize = 20_000;

/// The parser needs cubic time for substitutions in one another: 100 need a third of a second.
const MAX_SUBSTITUTIONS: usize = 100;
const MAX_NESTED: usize = 16;

/// Here-documents of one script; the parser needs quadratic time for them.
const MAX_HERE_DOCUMENTS: usize = 200;

/// Findings that are kept.
const MAX_FINDINGS: usize = 1_000;

/// What comes in at standard input.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::core::gate) enum Feed {
    /// Whatever the session has.
    Nothing,
    /// The output of other commands, with all of their words.
    Pipe(String),
    /// This text; `certain` = it has no expansions.
    Text { text: String, certain: bool },
    /// A file.
    File(Value),
}

/// What is known after a command, by how it ended; `None` = it does not end so.
#[derive(Debug, Clone)]
pub(in crate::core::gate) struct Flow {
    pub(in crate::core::gate) ok: Option<State>,
    pub(in crate::core::gate) failed: Option<State>,
}

impl Flow {
    /// It may end either way, and nothing depends on it.
    pub(in crate::core::gate) fn both(state: State) -> Self {
        Flow { ok: Some(state.clone()), failed: Some(state) }
    }

    /// It does not come back.
    pub(in crate::core::gate) fn never() -> Self {
        Flow { ok: None, failed: None }
    }

    fn either(self) -> Option<State> {
        join(self.ok, self.failed)
    }
}

fn join(one: Option<State>, other: Option<State>) -> Option<State> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.join(&other)),
        (one, other) => one.or(other),
    }
}

/// The walk.
pub(in crate::core::gate) struct Walk<'a> {
    pub(in crate::core::gate) context: &'a Context<'a>,
    removable: Removable<'a>,
    findings: Vec<Finding>,
    asked: BTreeSet<PathBuf>,
    /// Functions that the script defines.
    pub(in crate::core::gate) functions: BTreeSet<String>,
    /// Functions whose body is being read.
    pub(in crate::core::gate) inside: Vec<String>,
    /// Standard input of the command that is read.
    pub(in crate::core::gate) feed: Feed,
    /// What is read would run on another machine: no path of this one is meant.
    pub(in crate::core::gate) elsewhere: bool,
    depth: usize,
    pub(super) scripts: usize,
    commands: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(context: &'a Context<'a>, removable: Removable<'a>) -> Self {
        Walk {
            context,
            removable,
            findings: Vec::new(),
            asked: BTreeSet::new(),
            functions: BTreeSet::new(),
            inside: Vec::new(),
            feed: Feed::Nothing,
            elsewhere: false,
            depth: 0,
            scripts: 0,
            commands: 0,
        }
    }

    pub(super) fn done(self) -> (Vec<Finding>, Vec<PathBuf>) {
        (self.findings, self.asked.into_iter().collect())
    }

    /// Notes a part.
    pub(in crate::core::gate) fn find(&mut self, what: &str, weight: Weight, reason: impl Into<String>) {
        self.push(Finding {
            what: what.to_owned(),
            subject: Subject::Command(what.to_owned()),
            weight,
            reason: reason.into(),
            asks: false,
        });
    }

    pub(in crate::core::gate) fn push(&mut self, finding: Finding) {
        // One reason for a part is enough, unless a further one is worse.
        let is_known = |known: &Finding| {
            known.what == finding.what
                && known.weight >= finding.weight
                && (known.subject == finding.subject || finding.weight <= Weight::Ordinary)
        };
        if self.findings.iter().any(is_known) {
            return;
        }
        if self.findings.len() < MAX_FINDINGS || finding.weight >= Weight::Refused {
            self.findings.push(finding);
        }
    }

    /// What was found so far.
    pub(in crate::core::gate) fn found(&self) -> impl Iterator<Item = &str> {
        self.findings.iter().map(|finding| finding.what.as_str())
    }

    /// Keeps only what is dangerous of what is found meanwhile.
    pub(in crate::core::gate) fn only_dangers(&mut self, look: impl FnOnce(&mut Self)) {
        let before = self.findings.len();
        look(self);
        let found = self.findings.split_off(before);
        self.findings.extend(found.into_iter().filter(|finding| finding.weight >= Weight::Refused));
    }

    /// Whether git ignores a path, as far as it was asked.
    pub(in crate::core::gate) fn ignored(&mut self, path: &Path) -> Option<bool> {
        self.asked.insert(path.to_owned());
        (self.removable)(path)
    }

    /// A script within the command.
    pub(in crate::core::gate) fn script(&mut self, text: &str, state: State) -> Option<State> {
        if self.scripts >= MAX_SCRIPTS {
            self.find(&excerpt(text), Weight::Never, "too many shells in one another");
            return None;
        }
        if let Some(reason) = too_much(text) {
            self.find(&excerpt(text), Weight::Never, reason);
            return None;
        }
        let Ok(nodes) = rable::parse(text, false) else {
            let reason = "it cannot be parsed as a shell command, and what is not understood is not allowed";
            self.find(&excerpt(text), Weight::Never, reason);
            return None;
        };
        let is_remark = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
        if nodes.is_empty() && !text.lines().all(is_remark) {
            self.find(&excerpt(text), Weight::Never, "it cannot be parsed as a shell command");
        }
        self.scripts += 1;
        let mut state = Some(state);
        for node in &nodes {
            let before = state.take().unwrap_or_else(|| self.unknown());
            state = self.node(node, before).either();
        }
        self.scripts -= 1;
        state
    }

    /// Nothing is known.
    fn unknown(&self) -> State {
        let mut state = State::new(self.context);
        state.forget();
        state
    }

    pub(super) fn node(&mut self, node: &Node, state: State) -> Flow {
        self.commands += 1;
        if self.commands > MAX_COMMANDS || self.depth >= MAX_DEPTH {
            self.find("", Weight::Never, "it is too long or too deeply nested to be judged; run it in parts");
            return Flow::both(state);
        }
        self.depth += 1;
        let flow = self.inner(node, state);
        self.depth -= 1;
        flow
    }

    fn inner(&mut self, node: &Node, state: State) -> Flow {
        match &node.kind {
            NodeKind::Command { assignments, words, redirects } => {
                self.command(assignments, words, redirects, state)
            }
            NodeKind::Pipeline { commands, .. } => {
                let outer = self.feed.clone();
                let mut said = String::new();
                for command in commands {
                    self.node(command, state.clone());
                    said.push_str(&texts(command));
                    said.push('\n');
                    self.feed = Feed::Pipe(said.clone());
                }
                self.feed = outer;
                Flow::both(state)
            }
            NodeKind::List { items } => {
                let mut flow = Flow { ok: Some(state), failed: None };
                let mut operator = Some(ListOperator::Semi);
                for item in items {
                    let before = match operator {
                        Some(ListOperator::And) => flow.ok.clone(),
                        Some(ListOperator::Or) => flow.failed.clone(),
                        _ => flow.clone().either(),
                    };
                    let before = before.unwrap_or_else(|| self.unknown());
                    let next = self.node(&item.command, before.clone());
                    flow = match operator {
                        Some(ListOperator::And) => {
                            Flow { ok: next.ok, failed: join(flow.failed, next.failed) }
                        }
                        Some(ListOperator::Or) => Flow { ok: join(flow.ok, next.ok), failed: next.failed },
                        _ => next,
                    };
                    if item.operator == Some(ListOperator::Background) {
                        flow = Flow::both(before);
                    }
                    operator = item.operator;
                }
                flow
            }
            NodeKind::If { condition, then_body, else_body, redirects } => {
                self.with(redirects, state, |walk, state| {
                    let tested = walk.node(condition, state);
                    let before = tested.ok.unwrap_or_else(|| walk.unknown());
                    let then = walk.node(then_body, before);
                    let other = match else_body {
                        Some(body) => {
                            let before = tested.failed.unwrap_or_else(|| walk.unknown());
                            walk.node(body, before)
                        }
                        None => Flow { ok: tested.failed.clone(), failed: tested.failed },
                    };
                    Flow { ok: join(then.ok, other.ok), failed: join(then.failed, other.failed) }
                })
            }
            NodeKind::While { condition, body, redirects }
            | NodeKind::Until { condition, body, redirects } => self.with(redirects, state, |walk, state| {
                walk.until_known(state, |walk, state| {
                    let tested = walk.node(condition, state).either().unwrap_or_else(|| walk.unknown());
                    walk.node(body, tested)
                })
            }),
            NodeKind::For { var, words, body, redirects }
            | NodeKind::Select { var, words, body, redirects } => {
                self.with(redirects, state, |walk, state| {
                    let mut values: Vec<Value> = Vec::new();
                    match words {
                        Some(words) => words.iter().for_each(|word| values.extend(walk.read(word, &state))),
                        None => values.push(Value::unknown()),
                    }
                    if values.len() > 24 {
                        values = vec![Value::unknown()];
                    }
                    walk.until_known(state, |walk, mut state| {
                        let mut after: Option<State> = None;
                        for value in &values {
                            state.set(var, Some(value.clone()));
                            let flow = walk.node(body, state.clone());
                            after = join(after, flow.either());
                        }
                        let mut after = after.unwrap_or(state);
                        after.set(var, None);
                        Flow::both(after)
                    })
                })
            }
            NodeKind::ForArith { init, cond, incr, body, redirects } => {
                self.with(redirects, state, |walk, mut state| {
                    for text in [init, cond, incr] {
                        walk.raw(text, &state);
                    }
                    state.forget_variables();
                    walk.until_known(state, |walk, state| walk.node(body, state))
                })
            }
            NodeKind::Case { word, patterns, redirects } => self.with(redirects, state, |walk, state| {
                walk.read(word, &state);
                let mut after = Some(state.clone());
                for pattern in patterns {
                    for word in &pattern.patterns {
                        walk.read(word, &state);
                    }
                    if let Some(body) = &pattern.body {
                        // `;&` falls through.
                        let before = after.clone().unwrap_or_else(|| state.clone());
                        after = join(after, walk.node(body, before).either());
                    }
                }
                Flow::both(after.unwrap_or(state))
            }),
            NodeKind::Function { name, body } => {
                self.functions.insert(name.clone());
                self.inside.push(name.clone());
                let mut within = state.clone();
                within.forget_place();
                within.forget_variables();
                self.node(body, within);
                self.inside.pop();
                Flow::both(state)
            }
            NodeKind::Subshell { body, redirects } => {
                let after = state.clone();
                self.with(redirects, state, |walk, state| walk.node(body, state));
                Flow::both(after)
            }
            NodeKind::BraceGroup { body, redirects } => {
                self.with(redirects, state, |walk, state| walk.node(body, state))
            }
            NodeKind::Coproc { command, .. } => {
                self.node(command, state.clone());
                Flow::both(state)
            }
            NodeKind::Negation { pipeline } => {
                let Flow { ok, failed } = self.node(pipeline, state);
                Flow { ok: failed, failed: ok }
            }
            NodeKind::Time { pipeline, .. } => self.node(pipeline, state),
            NodeKind::ArithmeticCommand { raw_content, redirects, .. } => {
                self.with(redirects, state, |walk, mut state| {
                    walk.raw(raw_content, &state);
                    state.forget_variables();
                    Flow::both(state)
                })
            }
            NodeKind::ConditionalExpr { body, redirects } => self.with(redirects, state, |walk, state| {
                walk.condition(body, &state);
                Flow::both(state)
            }),
            NodeKind::Empty | NodeKind::Comment { .. } => Flow::both(state),
            _ => {
                self.find("", Weight::Never, "a part of it is not understood");
                Flow::both(state)
            }
        }
    }

    /// Reads a loop until a further round says nothing new.
    fn until_known(&mut self, state: State, mut round: impl FnMut(&mut Self, State) -> Flow) -> Flow {
        let mut before = state;
        for _ in 0..8 {
            let after = round(self, before.clone()).either();
            let joined = match after {
                Some(after) => before.clone().join(&after),
                None => before.clone(),
            };
            if joined == before {
                return Flow::both(before);
            }
            before = joined;
        }
        before.forget();
        round(self, before.clone());
        Flow::both(before)
    }

    /// A compound command with redirections of its own.
    fn with(
        &mut self,
        redirects: &[Node],
        state: State,
        inner: impl FnOnce(&mut Self, State) -> Flow,
    ) -> Flow {
        let outer = self.feed.clone();
        if let Some(feed) = self.redirects(redirects, &state, false) {
            self.feed = feed;
        }
        let flow = inner(self, state);
        self.feed = outer;
        flow
    }

    fn condition(&mut self, node: &Node, state: &State) {
        match &node.kind {
            NodeKind::CondTerm { value, .. } => self.raw(value, state),
            NodeKind::UnaryTest { operand, .. } | NodeKind::CondNot { operand } => {
                self.condition(operand, state);
            }
            NodeKind::BinaryTest { left, right, .. }
            | NodeKind::CondAnd { left, right }
            | NodeKind::CondOr { left, right } => {
                self.condition(left, state);
                self.condition(right, state);
            }
            NodeKind::CondParen { inner } => self.condition(inner, state),
            NodeKind::Word { .. } => {
                self.read(node, state);
            }
            _ => self.find("", Weight::Never, "a part of its condition is not understood"),
        }
    }

    fn command(
        &mut self,
        assignments: &[Node],
        words: &[Node],
        redirects: &[Node],
        mut state: State,
    ) -> Flow {
        let mut environment = Vec::new();
        for assignment in assignments {
            let read = word::read(assignment, &state, false);
            self.nested(&read, &state);
            let value = read.values.into_iter().next().unwrap_or_default();
            let known = !read.doubtful;
            let (name, value) = split_assignment(&value);
            environment.push((name, value.filter(|_| known)));
        }
        let mut values = Vec::new();
        for word in words {
            values.extend(self.read(word, &state));
        }
        for (name, value) in &environment {
            self.assigned(name, value.as_ref(), &state);
        }
        let feed = self.redirects(redirects, &state, says_nothing(&values));
        if values.is_empty() {
            for (name, value) in environment {
                self.find(&format!("{name}="), Weight::Nothing, "it only sets a variable");
                state.set(&name, value);
            }
            return Flow::both(state);
        }
        let outer = self.feed.clone();
        if let Some(feed) = feed {
            self.feed = feed;
        }
        let flow = self.program(&values, state);
        self.feed = outer;
        flow
    }

    /// Reads a word and judges what runs to make it.
    pub(super) fn read(&mut self, word: &Node, state: &State) -> Vec<Value> {
        let read = word::read(word, state, true);
        self.nested(&read, state);
        read.values
    }

    fn nested(&mut self, read: &word::Read, state: &State) {
        if read.doubtful {
            self.find("", Weight::Never, "a word of it is not understood");
        }
        let outer = std::mem::replace(&mut self.feed, Feed::Nothing);
        for nested in &read.nested {
            match nested {
                Nested::Node(node) => {
                    self.node(node, state.clone());
                }
                Nested::Raw(text) => self.raw(text, state),
            }
        }
        self.feed = outer;
    }

    /// Judges redirections; what comes in at standard input is returned.
    fn redirects(&mut self, redirects: &[Node], state: &State, no_command: bool) -> Option<Feed> {
        let mut feed = None;
        for redirect in redirects {
            match &redirect.kind {
                NodeKind::HereDoc { delimiter, complete, .. } if delimiter.trim().is_empty() || !complete => {
                    self.find("", Weight::Never, "a here-document in it has no end");
                }
                NodeKind::HereDoc { content, quoted, fd, .. } => {
                    if !quoted {
                        self.raw(content, state);
                    }
                    if matches!(fd, -1 | 0) {
                        let certain = *quoted || !content.contains(['$', '`']);
                        feed = Some(Feed::Text { text: content.clone(), certain });
                    }
                }
                NodeKind::Redirect { op, target, fd, .. } => {
                    let read = word::read(target, state, false);
                    self.nested(&read, state);
                    let value = read.values.into_iter().next().unwrap_or_default();
                    let text = value.text().unwrap_or_default();
                    let is_descriptor =
                        !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '-');
                    if op.contains('&') && !op.starts_with("&>") && (is_descriptor || value.is_uncertain()) {
                        continue;
                    }
                    if op == "<<<" {
                        let certain = !value.is_uncertain();
                        feed = Some(Feed::Text { text: value.shown(), certain });
                        continue;
                    }
                    if op.contains('>') {
                        self.redirected(&format!("{op} {}", value.shown()), &value, state);
                        if no_command && !op.contains(">>") {
                            self.emptied(&format!("{op} {}", value.shown()), &value, state);
                        }
                    } else {
                        self.read_file(&format!("{op} {}", value.shown()), &value, state);
                    }
                    if op.contains('<') && matches!(fd, -1 | 0) {
                        feed = Some(Feed::File(value));
                    }
                }
                _ => self.find("", Weight::Never, "a redirection in it is not understood"),
            }
        }
        feed
    }
}

/// Whether a command prints nothing, so that a file its output goes to is emptied.
fn says_nothing(values: &[Value]) -> bool {
    let words: Vec<String> = values.iter().map(Value::shown).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(
        words.as_slice(),
        [] | [":" | "true" | "exec", ..]
            | ["cat", "/dev/null"]
            | ["echo", "-n"]
            | ["echo", "-n", ""]
            | ["printf", ""]
    )
}

/// The name and the value of an assignment; `None` = it adds to what is there, or is a list.
fn split_assignment(value: &Value) -> (String, Option<Value>) {
    let beginning = value.beginning();
    let Some((name, first)) = beginning.split_once('=') else { return (beginning, None) };
    let mut pieces = value.pieces.clone();
    if let Some(Piece::Text(text)) = pieces.first_mut() {
        *text = text.split_once('=').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    }
    let is_list = first.starts_with('(');
    match name.strip_suffix('+') {
        Some(name) => (name.to_owned(), None),
        None => (name.to_owned(), (!is_list).then_some(Value { pieces })),
    }
}

/// All words of a command with what is below it, for a look at what is fed on.
fn texts(node: &Node) -> String {
    match &node.kind {
        NodeKind::Command { words, redirects, .. } => {
            let words = words.iter().filter_map(|word| match &word.kind {
                NodeKind::Word { value, .. } => Some(value.as_str()),
                _ => None,
            });
            let documents = redirects.iter().filter_map(|redirect| match &redirect.kind {
                NodeKind::HereDoc { content, .. } => Some(content.as_str()),
                NodeKind::Redirect { target, .. } => match &target.kind {
                    NodeKind::Word { value, .. } => Some(value.as_str()),
                    _ => None,
                },
                _ => None,
            });
            words.chain(documents).collect::<Vec<_>>().join(" ")
        }
        NodeKind::Pipeline { commands, .. } => commands.iter().map(texts).collect::<Vec<_>>().join("\n"),
        NodeKind::List { items } => {
            items.iter().map(|item| texts(&item.command)).collect::<Vec<_>>().join("\n")
        }
        NodeKind::Subshell { body, .. } | NodeKind::BraceGroup { body, .. } => texts(body),
        _ => String::new(),
    }
}

/// What would cost the parser more than a moment.
pub(super) fn too_much(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let (mut substitutions, mut depth, mut deepest, mut documents) = (0, 0_usize, 0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1);
        match byte {
            b'`' => substitutions += 1,
            b'$' | b'<' | b'>' if next == Some(&b'(') => {
                substitutions += 2;
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'<' if next == Some(&b'<') => documents += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    if substitutions > 2 * MAX_SUBSTITUTIONS || deepest > MAX_NESTED {
        return Some("it has too many substitutions to be judged; run it in parts, or write it into a file");
    }
    (documents > MAX_HERE_DOCUMENTS).then_some("it has too many here-documents to be judged; run it in parts")
}

/// The beginning of a script, for people.
pub(in crate::core::gate) fn excerpt(text: &str) -> String {
    text.trim().chars().take(160).collect()
}
