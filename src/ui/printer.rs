//! The printer owns the streams: nothing else in the program writes to stdout or stderr.
//!
//! Theory of operation. Data goes to stdout, everything for people to stderr. How much is said depends on
//! `--quiet` and `--verbose`; errors are always said. A progress bar is an adornment of stderr: it is shown only on a
//! terminal, never while details are printed, and whatever the printer writes goes above it.
//!
//! Invariants. Text is never lost because a bar is hidden (indicatif's own `println` prints nothing then). A
//! closed pipe is not an error: whoever reads stdout has seen enough, later data is dropped and the program goes
//! on to its own end. A stderr that cannot be written to is ignored: there is nobody to tell.
//!
//! Pitfall. Text that comes from a session can carry escape sequences; they are taken out of everything for
//! people, so that no model output can move the cursor or set a title. Colour is put on afterwards.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::ColorChoice;
use indicatif::{MultiProgress, ProgressDrawTarget};

use crate::error::CliError;
use crate::settings::env_vars;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Warnings and errors.
    Quiet,
    /// What a person wants to know.
    Default,
    /// Details too.
    Verbose,
}

/// What the command line asks of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How much is said.
    pub level: Level,
    /// `--color`.
    pub color: ColorChoice,
    /// `--no-progress`.
    pub no_progress: bool,
}

/// What is known of the streams and of the terminal behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the surroundings")]
pub struct Surroundings {
    /// stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// stderr is a terminal.
    pub stderr_is_terminal: bool,
    /// `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `TERM` is `dumb`.
    pub dumb: bool,
    /// `CI` is set and not empty.
    pub ci: bool,
}

impl Surroundings {
    /// Those of this process.
    #[must_use]
    pub fn detect() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Surroundings {
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            no_color: is_set(env_vars::NO_COLOR),
            dumb: std::env::var_os(env_vars::TERM).is_some_and(|term| term == "dumb"),
            ci: is_set(env_vars::CI),
        }
    }

    /// Whether a stream gets colour. An explicit wish is stronger than the environment.
    #[must_use]
    pub fn wants_color(self, choice: ColorChoice, is_terminal: bool) -> bool {
        match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_terminal && !self.no_color && !self.dumb,
        }
    }
}

/// A way to set text apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Errors.
    Bad,
    /// Warnings.
    Warning,
    /// Success.
    Good,
    /// Hints and other pointers.
    Pointer,
    /// Headings.
    Strong,
    /// What may be skipped.
    Faint,
}

impl Style {
    fn sequence(self) -> &'static str {
        match self {
            Style::Bad => "\x1b[1;31m",
            Style::Warning => "\x1b[1;33m",
            Style::Good => "\x1b[1;32m",
            Style::Pointer => "\x1b[1;36m",
            Style::Strong => "\x1b[1m",
            Style::Faint => "\x1b[2m",
        }
    }
}

/// Text in a style, or plain where there is no colour.
#[must_use]
pub fn paint(color: bool, style: Style, text: &str) -> String {
    if color { format!("{}{text}\x1b[0m", style.sequence()) } else { text.to_owned() }
}

type Stream = Mutex<Box<dyn Write + Send>>;

/// Writes to stdout and stderr. Clones share the streams.
#[derive(Clone)]
pub struct Printer {
    shared: Arc<Shared>,
}

struct Shared {
    level: Level,
    progress: bool,
    out_color: bool,
    err_color: bool,
    out: Stream,
    err: Stream,
    /// Nobody reads stdout any more.
    out_closed: AtomicBool,
    bars: Mutex<Option<MultiProgress>>,
}

impl fmt::Debug for Printer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Printer")
            .field("level", &self.shared.level)
            .field("progress", &self.shared.progress)
            .finish_non_exhaustive()
    }
}

impl Printer {
    /// A printer on the streams of this process.
    #[must_use]
    pub fn new(options: Options, surroundings: Surroundings) -> Self {
        Printer::on(options, surroundings, Box::new(io::stdout()), Box::new(io::stderr()))
    }

    /// A printer on any streams.
    #[must_use]
    pub fn on(
        options: Options,
        surroundings: Surroundings,
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
    ) -> Self {
        let progress = options.level == Level::Default
            && !options.no_progress
            && surroundings.stderr_is_terminal
            && !surroundings.dumb
            && !surroundings.ci;
        Printer {
            shared: Arc::new(Shared {
                level: options.level,
                progress,
                out_color: surroundings.wants_color(options.color, surroundings.stdout_is_terminal),
                err_color: surroundings.wants_color(options.color, surroundings.stderr_is_terminal),
                out: Mutex::new(out),
                err: Mutex::new(err),
                out_closed: AtomicBool::new(false),
                bars: Mutex::new(None),
            }),
        }
    }

    /// How much is said.
    #[must_use]
    pub fn level(&self) -> Level {
        self.shared.level
    }

    /// Whether a progress bar may be shown.
    #[must_use]
    pub fn shows_progress(&self) -> bool {
        self.shared.progress
    }

    /// Where a progress bar draws: stderr, or nowhere.
    #[must_use]
    pub fn progress_target(&self) -> ProgressDrawTarget {
        if self.shared.progress { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
    }

    /// From now on text goes above these bars; `None` = there are none any more.
    pub fn set_bars(&self, bars: Option<MultiProgress>) {
        *lock(&self.shared.bars) = bars;
    }

    /// Whether nobody reads stdout any more.
    #[must_use]
    pub fn stdout_is_closed(&self) -> bool {
        self.shared.out_closed.load(Ordering::Relaxed)
    }

    /// Whether text for people has colour.
    #[must_use]
    pub fn has_color(&self) -> bool {
        self.shared.err_color
    }

    /// Whether data for people (a report, a log) has colour.
    #[must_use]
    pub fn data_has_color(&self) -> bool {
        self.shared.out_color
    }

    /// Text in a style, for use in what is said.
    #[must_use]
    pub fn paint(&self, style: Style, text: &str) -> String {
        paint(self.shared.err_color, style, text)
    }

    /// Data: a document or a line, to stdout, ended by a newline, flushed.
    ///
    /// # Errors
    ///
    /// stdout cannot be written to (a full disk). A closed pipe is no error.
    pub fn data(&self, text: &str) -> Result<(), CliError> {
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        self.data_bytes(format!("{text}{newline}").as_bytes())
    }

    /// Data as it is, to stdout, flushed.
    ///
    /// # Errors
    ///
    /// stdout cannot be written to (a full disk). A closed pipe is no error.
    pub fn data_bytes(&self, bytes: &[u8]) -> Result<(), CliError> {
        if self.stdout_is_closed() {
            return Ok(());
        }
        let result = self.above_bars(|| {
            let mut out = lock(&self.shared.out);
            out.write_all(bytes).and_then(|()| out.flush())
        });
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.shared.out_closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            result => {
                result.map_err(|error| CliError::environment("cannot write to stdout").caused_by(error))
            }
        }
    }

    /// What a person wants to know: a line or more, to stderr.
    pub fn say(&self, text: &str) {
        if self.shared.level >= Level::Default {
            self.line(text);
        }
    }

    /// Lines for the program that reads this log (a CI system), to stderr, however quiet it is.
    pub fn command(&self, text: &str) {
        self.line(text.trim_end());
    }

    /// Details, with `--verbose`.
    pub fn detail(&self, text: &str) {
        if self.shared.level >= Level::Verbose {
            self.line(&self.paint(Style::Faint, &plain(text)));
        }
    }

    /// Something that should be seen and stops nothing.
    pub fn warn(&self, text: &str) {
        self.line(&format!("{} {}", self.paint(Style::Warning, "warning:"), plain(text)));
    }

    /// A failure, its causes and what can be done.
    pub fn error(&self, error: &CliError) {
        self.line(&render(error, self.shared.err_color));
    }

    /// What clap has to say: help and version are data, the rest is an error.
    ///
    /// # Errors
    ///
    /// As [`Printer::data`].
    pub fn clap(&self, error: &clap::Error) -> Result<(), CliError> {
        let text = |color: bool| {
            let text = error.render();
            if color { text.ansi().to_string() } else { text.to_string() }
        };
        if error.use_stderr() {
            self.line(text(self.shared.err_color).trim_end());
            return Ok(());
        }
        self.data(&text(self.shared.out_color))
    }

    /// A line to stderr, above the bars.
    fn line(&self, text: &str) {
        let text = format!("{}\n", printable(text));
        self.above_bars(|| {
            let mut err = lock(&self.shared.err);
            // There is nobody to tell that nobody can be told.
            drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
        });
    }

    /// Takes the bars away while something is written. Unlike `println` it also works with hidden bars.
    fn above_bars<T>(&self, write: impl FnOnce() -> T) -> T {
        let bars = lock(&self.shared.bars).clone();
        match bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }
}

/// A panic while writing leaves a stream as usable as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error as it is printed: message, causes, a blank line, hints.
#[must_use]
pub fn render(error: &CliError, color: bool) -> String {
    let mut lines = vec![format!("{} {}", paint(color, Style::Bad, "error:"), plain(&error.to_string()))];
    for cause in error.causes() {
        lines.push(format!("  {} {}", paint(color, Style::Bad, "cause:"), plain(&cause)));
    }
    if !error.hints().is_empty() {
        lines.push(String::new());
    }
    for hint in error.hints() {
        lines.push(format!("{} {}", paint(color, Style::Pointer, "hint:"), plain(hint)));
    }
    lines.join("\n")
}

/// Text without control characters; lines and tabs stay.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Text without control characters except those that our own colours need.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = rest.strip_prefix("\x1b[").and_then(|after| {
            let digits = after.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            after[digits..].starts_with('m').then_some(digits + 3)
        });
        let (keep, length) = match colour {
            Some(length) => (true, length),
            None => (!c.is_control() || matches!(c, '\n' | '\t'), c.len_utf8()),
        };
        if keep {
            out.push_str(&rest[..length]);
        }
        rest = &rest[length..];
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A stream that keeps what is written, and fails once it has been told to.
    #[derive(Clone, Default)]
    struct Paper {
        text: Arc<Mutex<Vec<u8>>>,
        failure: Arc<Mutex<Option<io::ErrorKind>>>,
    }

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(kind) = *self.failure.lock().unwrap() {
                return Err(kind.into());
            }
            self.text.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const TERMINAL: Surroundings = Surroundings {
        stdout_is_terminal: true,
        stderr_is_terminal: true,
        no_color: false,
        dumb: false,
        ci: false,
    };

    fn options(level: Level) -> Options {
        Options { level, color: ColorChoice::Auto, no_progress: false }
    }

    fn printer(level: Level, surroundings: Surroundings) -> (Printer, Paper, Paper) {
        let (out, err) = (Paper::default(), Paper::default());
        let printer = Printer::on(options(level), surroundings, Box::new(out.clone()), Box::new(err.clone()));
        (printer, out, err)
    }

    #[test]
    fn data_and_people_are_kept_apart_and_levels_hold() {
        for (level, expected) in [
            (Level::Quiet, "warning: w\nerror: e\n"),
            (Level::Default, "s\nwarning: w\nerror: e\n"),
            (Level::Verbose, "s\nd\nwarning: w\nerror: e\n"),
        ] {
            let (printer, out, err) = printer(level, Surroundings::default());
            printer.say("s");
            printer.detail("d");
            printer.warn("w");
            printer.error(&CliError::usage("e"));
            printer.data("{}").unwrap();
            printer.data("{}\n").unwrap();
            assert_eq!(err.text(), expected);
            assert_eq!(out.text(), "{}\n{}\n");
        }
    }

    #[test]
    fn colour() {
        let piped = Surroundings { stderr_is_terminal: false, ..TERMINAL };
        let no_color = Surroundings { no_color: true, ..TERMINAL };
        let dumb = Surroundings { dumb: true, ..TERMINAL };
        for (choice, surroundings, expected) in [
            (ColorChoice::Auto, TERMINAL, true),
            (ColorChoice::Auto, piped, false),
            (ColorChoice::Auto, no_color, false),
            (ColorChoice::Auto, dumb, false),
            (ColorChoice::Always, piped, true),
            (ColorChoice::Always, no_color, true),
            (ColorChoice::Never, TERMINAL, false),
        ] {
            let wants = surroundings.wants_color(choice, surroundings.stderr_is_terminal);
            assert_eq!(wants, expected, "{choice:?} {surroundings:?}");
        }
    }

    #[test]
    fn progress_only_where_it_can_be_seen() {
        let shows = |options: Options, surroundings: Surroundings| {
            let printer = Printer::on(options, surroundings, Box::new(io::sink()), Box::new(io::sink()));
            assert_eq!(printer.progress_target().is_hidden(), !printer.shows_progress());
            printer.shows_progress()
        };
        let default = options(Level::Default);
        assert!(!shows(options(Level::Quiet), TERMINAL));
        assert!(!shows(options(Level::Verbose), TERMINAL));
        assert!(!shows(Options { no_progress: true, ..default }, TERMINAL));
        assert!(!shows(default, Surroundings { ci: true, ..TERMINAL }));
        assert!(!shows(default, Surroundings { dumb: true, ..TERMINAL }));
        assert!(!shows(default, Surroundings::default()));
    }

    #[test]
    fn nothing_is_lost_over_hidden_bars() {
        let (printer, out, err) = printer(Level::Default, Surroundings::default());
        let bars = MultiProgress::with_draw_target(printer.progress_target());
        let _bar = bars.add(indicatif::ProgressBar::new(3));
        printer.set_bars(Some(bars));
        printer.say("above");
        printer.data("data").unwrap();
        printer.set_bars(None);
        printer.say("after");
        assert_eq!((out.text().as_str(), err.text().as_str()), ("data\n", "above\nafter\n"));
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is() {
        let (printer, out, err) = printer(Level::Default, Surroundings::default());
        *out.failure.lock().unwrap() = Some(io::ErrorKind::StorageFull);
        assert_eq!(printer.data("x").unwrap_err().exit().code(), 23);
        assert!(!printer.stdout_is_closed());
        *out.failure.lock().unwrap() = Some(io::ErrorKind::BrokenPipe);
        printer.data("x").unwrap();
        assert!(printer.stdout_is_closed());
        *err.failure.lock().unwrap() = Some(io::ErrorKind::BrokenPipe);
        printer.say("nobody");
    }

    #[test]
    fn errors_causes_and_hints() {
        let error = CliError::environment("cannot start claude")
            .caused_by(io::Error::other("no such file"))
            .hinted("install it")
            .hinted("or name it with --claude-bin");
        insta::assert_snapshot!(render(&error, false), @r"
        error: cannot start claude
          cause: no such file

        hint: install it
        hint: or name it with --claude-bin
        ");
        assert_eq!(render(&CliError::usage("x"), true), "\u{1b}[1;31merror:\u{1b}[0m x");
    }

    #[test]
    fn escape_sequences_of_others_do_not_reach_the_terminal() {
        let (printer, _, err) = printer(Level::Default, TERMINAL);
        printer.say("a\x1b]0;title\x07b\x1b[2Jc\r\td\x1b[1mbold\x1b[0m");
        printer.warn("w\x1b[31m");
        assert_eq!(err.text(), "a]0;titleb[2Jc\td\x1b[1mbold\x1b[0m\n\x1b[1;33mwarning:\x1b[0m w[31m\n");
    }

    proptest! {
        #[test]
        fn printable_text_has_no_control_but_colour(text in "[\\x00-\\x1f\\[0-9;ma-z\u{80}-\u{ff}]{0,40}") {
            let clean = printable(&text);
            prop_assert_eq!(printable(&clean), clean.clone());
            for (at, c) in clean.char_indices().filter(|(_, c)| c.is_control()) {
                prop_assert!(matches!(c, '\n' | '\t') || clean[at..].starts_with("\x1b["), "{:?}", clean);
            }
        }
    }
}
