//! What a person or a program sees of a run while it goes its way, here and elsewhere.

use std::io::{self, Stdout};
use std::path::Path;

use jiff::tz::TimeZone;

use crate::core::published::{Entry, FORMAT, RunEvent};
use crate::core::time::Now;
use crate::driver::Observer;
use crate::error::exit::Exit;
use crate::notify::{Notice, Notifier, Source};
use crate::report::RunSummary;
use crate::ui::json::EventWriter;
use crate::ui::plain::{self, PlainState};
use crate::ui::printer::{Level, Printer};
use crate::ui::progress::Progress;
use crate::ui::text::TextOptions;

/// Shows the events of a run.
pub(super) struct Watcher<'a> {
    printer: &'a Printer,
    plain: PlainState,
    progress: Progress,
    events: Option<EventWriter<Stdout>>,
    started: Now,
    notifier: Notifier,
    source: Source,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(
        printer: &'a Printer,
        events: bool,
        started: Now,
        notifier: Notifier,
        source: Source,
    ) -> Self {
        let options = text_options(printer);
        let progress = if printer.shows_progress() {
            Progress::on_stderr(options.clone(), started)
        } else {
            Progress::hidden(options.clone(), started)
        };
        Watcher {
            printer,
            plain: PlainState::new(options),
            progress,
            events: events.then(|| EventWriter::new(io::stdout())),
            started,
            notifier,
            source,
        }
    }

    /// Tells how the run ended to those who are elsewhere.
    pub(super) fn tell_end(&self, summary: &RunSummary, exit: Exit, page: &Path, now: Now) {
        if !self.notifier.is_silent() {
            let page = page.display().to_string();
            self.notifier.tell(Notice::of_end(summary, exit, now.wall, &self.source, page));
        }
    }

    /// What remains to be waited for.
    pub(super) fn into_notifier(self) -> Notifier {
        self.notifier
    }

    /// Takes the progress block away for good.
    pub(super) fn finish(&mut self) {
        self.progress.finish();
    }
}

impl Observer for Watcher<'_> {
    fn event(&mut self, now: Now, seq: Option<u64>, event: &RunEvent) {
        if let Some(events) = &mut self.events {
            let written = match seq {
                Some(seq) => events.journaled(&Entry { v: FORMAT, seq, at: now.wall, event: event.clone() }),
                None => events.live(now.wall, event),
            };
            if let Err(error) = written {
                tracing::debug!(%error, "--events");
            }
        }
        if !self.notifier.is_silent()
            && let Some(notice) = Notice::of_event(event, now.wall, &self.source, &TimeZone::system())
        {
            self.notifier.tell(notice);
        }
        self.progress.observe(event, now);
        // The summary that follows says the same, and more.
        if matches!(event, RunEvent::RunEnded { .. }) {
            return;
        }
        if let Some(line) = plain::render(event, now.since(self.started), &mut self.plain) {
            let printer = self.printer;
            self.progress.above(|| printer.say(&line));
        }
    }

    fn tick(&mut self, now: Now) {
        self.progress.tick(now);
    }

    fn wants_ticks(&self) -> bool {
        self.progress.wants_ticks()
    }
}

/// Width of lines that go to a file or a mail: what is cut off there is lost, and nothing has to fit.
const LOG_COLUMNS: usize = 400;

/// How text for people is laid out on this terminal or in this log.
pub(super) fn text_options(printer: &Printer) -> TextOptions {
    let mut options = TextOptions::log();
    options.colour = printer.has_color();
    options.verbose = printer.level() == Level::Verbose;
    options.time_zone = jiff::tz::TimeZone::system();
    options.ascii = !locale_is_utf8();
    options.width = terminal_columns().unwrap_or(LOG_COLUMNS);
    options
}

/// Width of a page that goes to a file.
const PAGE_COLUMNS: usize = 100;

/// How a page for people is laid out on stdout.
pub(super) fn page_options(printer: &Printer) -> TextOptions {
    let mut options = text_options(printer);
    options.colour = printer.data_has_color();
    options.width = columns(rustix::stdio::stdout()).unwrap_or(PAGE_COLUMNS);
    options
}

/// How a log for people is laid out on stdout.
pub(super) fn log_options(printer: &Printer) -> TextOptions {
    let mut options = page_options(printer);
    options.width = columns(rustix::stdio::stdout()).unwrap_or(LOG_COLUMNS);
    options
}

/// How a page for people is laid out in a file.
pub(super) fn file_options() -> TextOptions {
    let mut options = TextOptions::log();
    options.time_zone = jiff::tz::TimeZone::system();
    options.width = PAGE_COLUMNS;
    options
}

fn terminal_columns() -> Option<usize> {
    columns(rustix::stdio::stderr())
}

fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col >= 20).then(|| usize::from(size.ws_col))
}

/// The first of these that is set decides, as POSIX says. Nothing set: a modern system.
fn locale_is_utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty())
        .is_none_or(|value| {
            let value = value.to_string_lossy().to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}
