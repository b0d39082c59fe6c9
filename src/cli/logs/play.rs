//! Puts journal and streams into one order.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::core::published::{Entry, RunEvent};
use crate::protocol::stream::{Body, Message, System};

use super::render::Render;
use super::stream::StreamReader;

/// A run on its way to the page.
#[derive(Debug)]
pub(super) struct Play {
    streams: PathBuf,
    render: Render,
    /// Entries that are not told yet.
    waiting: VecDeque<Entry>,
    /// The attempt whose stream is being played.
    attempt: Option<(u32, StreamReader)>,
    ended: bool,
}

/// What stands in both, so that the two can be lined up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Introduction,
    Retry,
    Window,
}

impl Play {
    pub(super) fn new(streams: PathBuf, render: Render) -> Play {
        Play { streams, render, waiting: VecDeque::new(), attempt: None, ended: false }
    }

    /// New entries of the journal.
    pub(super) fn add(&mut self, entries: Vec<Entry>) {
        self.waiting.extend(entries);
    }

    /// Whether the journal's last event has arrived.
    pub(super) fn is_at_the_end(&self) -> bool {
        self.waiting.back().is_some_and(|entry| matches!(entry.event, RunEvent::RunEnded { .. }))
    }

    /// Whether the last event was told.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// What there is to print.
    pub(super) fn take(&mut self) -> String {
        self.render.take()
    }

    /// Tells what there is; `over`: nothing will be added.
    pub(super) fn go_on(&mut self, over: bool) {
        loop {
            let Some((number, reader)) = &mut self.attempt else {
                let Some(entry) = self.waiting.pop_front() else { return };
                self.tell(&entry);
                if let RunEvent::AttemptStarted { attempt, .. } = entry.event {
                    self.attempt = Some((attempt, StreamReader::new(&self.streams, attempt)));
                }
                continue;
            };
            let number = *number;
            // Looked for first: what the stream had before the attempt ended is then read.
            let ends = self.waiting.iter().any(|entry| ends(&entry.event, number));
            let news = reader.poll();
            let mut messages = news.messages;
            if ends || over {
                messages.extend(reader.finish());
            }
            if news.gap {
                self.render.gap();
            }
            for message in &messages {
                if let Some(mark) = mark(message) {
                    self.tell_up_to(mark, number);
                }
                self.render.message(number, message);
            }
            if !(ends || over) {
                // It goes on: what the journal has by now has happened by now.
                while let Some(entry) = self.waiting.pop_front() {
                    self.tell(&entry);
                }
                return;
            }
            self.attempt = None;
            // To the end of the attempt; the loop goes on behind it.
            while let Some(entry) = self.waiting.pop_front() {
                let last = ends_here(&entry.event, number);
                self.tell(&entry);
                if last {
                    break;
                }
                if let RunEvent::AttemptStarted { attempt, .. } = entry.event {
                    self.attempt = Some((attempt, StreamReader::new(&self.streams, attempt)));
                    break;
                }
            }
        }
    }

    /// Tells the entries up to the next one that says the same as the stream; none, if there is none.
    fn tell_up_to(&mut self, wanted: Mark, number: u32) {
        let until = self
            .waiting
            .iter()
            .take_while(|entry| !ends(&entry.event, number))
            .position(|entry| mark_of(&entry.event) == Some(wanted));
        if let Some(until) = until {
            for entry in self.waiting.drain(..=until).collect::<Vec<_>>() {
                self.tell(&entry);
            }
        }
    }

    fn tell(&mut self, entry: &Entry) {
        self.ended |= matches!(entry.event, RunEvent::RunEnded { .. });
        self.render.entry(entry);
    }
}

/// Whether an attempt cannot go on behind this event.
fn ends(event: &RunEvent, number: u32) -> bool {
    match event {
        RunEvent::AttemptStarted { attempt, .. } => *attempt > number,
        RunEvent::SessionEnded { .. } | RunEvent::RunEnded { .. } => true,
        _ => ends_here(event, number),
    }
}

fn ends_here(event: &RunEvent, number: u32) -> bool {
    matches!(event, RunEvent::AttemptEnded { attempt, .. } if *attempt == number)
}

fn mark(message: &Message) -> Option<Mark> {
    match &message.body {
        Body::System(system) => match &**system {
            System::Init(_) => Some(Mark::Introduction),
            System::ApiRetry(_) => Some(Mark::Retry),
            _ => None,
        },
        Body::RateLimit(_) => Some(Mark::Window),
        _ => None,
    }
}

fn mark_of(event: &RunEvent) -> Option<Mark> {
    match event {
        RunEvent::Initialised { .. } => Some(Mark::Introduction),
        RunEvent::ApiRetry { .. } => Some(Mark::Retry),
        RunEvent::RateLimit { .. } => Some(Mark::Window),
        _ => None,
    }
}
