//! Which key is pressed, and when: a pure state machine over what screen and transcript show.
//!
//! Nothing here knows what a call does: a permission dialog becomes a question, and its answer a key. Nothing but the
//! screen is trusted less than the transcript: an end, a start and a refusal are believed when they stand there.

use std::collections::VecDeque;
use std::time::Duration;

use super::screen::{self, Shown};
use super::tail::{End, Pending};
use super::timings as t;

/// A key or a text for the terminal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    /// Text of the driver, as one paste.
    Paste(String),
    /// The Enter key.
    Enter,
    /// The Esc key.
    Escape,
    /// The Down key.
    Down,
    /// A digit.
    Digit(char),
    /// Ctrl-C.
    ControlC,
    /// One repaint: the terminal a column narrower, and back.
    Nudge,
    /// Ask whether this call may run; `None` = it cannot be told which call it is.
    Ask(String, Option<Pending>),
    /// Ask the triage command what the screen shows.
    Triage,
    /// The turn is over.
    Over(End),
    /// The screen is given up: why.
    GiveUp(String),
    /// The account has to log in.
    Login,
}

/// What is seen at one moment.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    /// Monotonic time.
    pub(super) now: Duration,
    /// Lines of the screen.
    pub(super) lines: &'a [String],
    /// The transcript has grown since the last look.
    pub(super) grown: bool,
    /// Calls without a result.
    pub(super) pending: &'a [Pending],
    /// End of the turn in the transcript.
    pub(super) end: Option<&'a End>,
    /// The end is settled.
    pub(super) settled: bool,
    /// Prompts that arrived in the transcript.
    pub(super) prompts: u32,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// Until the prompt can be typed.
    Boot,
    /// Pasted; Enter was pressed so often, last at.
    Submitting { pasted: Duration, enters: u32, last: Duration, prompts: u32 },
    /// The model has it.
    Turn,
    /// Ctrl-C was pressed once, at.
    Leaving(Duration),
    /// Nothing is left to do.
    Done,
}

/// How the program is steered through one turn.
#[derive(Debug)]
pub(super) struct Pilot {
    phase: Phase,
    /// Texts that are still to be typed.
    texts: VecDeque<String>,
    began: Duration,
    boot: Duration,
    may_bypass: bool,
    ready_since: Option<Duration>,
    last_lines: Vec<String>,
    unchanged_since: Duration,
    /// The ladder waits for this long.
    window: Duration,
    nudged: bool,
    triages: u32,
    last_growth: Option<Duration>,
    last_key: Option<Duration>,
    boot_keys: u32,
    bypass_tries: u32,
    menus: u32,
    surveys: u32,
    /// The question that waits for its answer, and since when.
    asking: Option<(String, Duration)>,
    /// The screen whose dialog was answered last, and with which key: it may take a while to go.
    answered: Option<(Vec<String>, Act)>,
    asked: u32,
    refusals: u32,
    leave: bool,
}

impl Pilot {
    /// Before the program shows anything. `may_bypass` = the operator asked to skip permissions.
    pub(super) fn new(now: Duration, prompt: String, resume: bool, may_bypass: bool) -> Self {
        Pilot {
            phase: Phase::Boot,
            texts: VecDeque::from([prompt]),
            began: now,
            boot: if resume { t::BOOT_ON_RESUME } else { t::BOOT },
            may_bypass,
            ready_since: None,
            last_lines: Vec::new(),
            unchanged_since: now,
            window: t::STUCK_IN_BOOT,
            nudged: false,
            triages: 0,
            last_growth: None,
            last_key: None,
            boot_keys: 0,
            bypass_tries: 0,
            menus: 0,
            surveys: 0,
            asking: None,
            answered: None,
            asked: 0,
            refusals: 0,
            leave: false,
        }
    }

    /// No further prompt will come: the program is left when its turn is over.
    pub(super) fn leave(&mut self) {
        self.leave = true;
    }

    /// Whether the prompt has not been typed yet.
    pub(super) fn waits_to_type(&self) -> bool {
        self.phase == Phase::Boot
    }

    /// What to do now.
    pub(super) fn look(&mut self, seen: &Seen<'_>) -> Vec<Act> {
        if seen.grown {
            self.last_growth = Some(seen.now);
        }
        if seen.lines != self.last_lines {
            self.last_lines = seen.lines.to_vec();
            self.unchanged_since = seen.now;
            self.nudged = false;
            self.triages = 0;
            self.window = self.stuck_window();
        }
        let shown = screen::shown(seen.lines);
        self.ready_since = match shown {
            Shown::Ready => self.ready_since.or(Some(seen.now)),
            _ => None,
        };
        let mut acts = Vec::new();
        match self.phase.clone() {
            Phase::Boot => self.boot(seen, shown, &mut acts),
            Phase::Submitting { pasted, enters, last, prompts } => {
                self.submit(seen, shown, (pasted, enters, last, prompts), &mut acts);
            }
            Phase::Turn => self.turn(seen, shown, &mut acts),
            Phase::Leaving(since) => {
                if seen.now.saturating_sub(since) >= t::EXIT_KEYS {
                    self.phase = Phase::Leaving(seen.now);
                    acts.push(Act::ControlC);
                }
            }
            Phase::Done => {
                if self.leave {
                    self.phase = Phase::Leaving(seen.now);
                    acts.push(Act::ControlC);
                }
            }
        }
        acts
    }

    /// The answer to the question of this id: the key for its dialog, and what the session is told of a refusal.
    pub(super) fn answered(
        &mut self,
        now: Duration,
        id: &str,
        lines: &[String],
        allow: bool,
        reason: &str,
    ) -> Vec<Act> {
        if self.asking.as_ref().is_none_or(|(asked, _)| asked != id) {
            return Vec::new();
        }
        self.asking = None;
        self.last_key = Some(now);
        // Only the plain yes: the others allow more than was judged.
        let plain_yes = screen::highlighted(lines).as_deref() == Some("Yes");
        if allow && plain_yes && screen::shown(lines) == Shown::Permission {
            self.answered = Some((lines.to_vec(), Act::Enter));
            return vec![Act::Enter];
        }
        self.answered = Some((lines.to_vec(), Act::Escape));
        self.refusals += 1;
        self.texts.push_back(format!(
            "A tool call was refused, not by a person: {reason}. Do not try it again; go on with the task without it."
        ));
        vec![Act::Escape]
    }

    /// What the triage command said (recovery §2): a state, and a key.
    pub(super) fn triaged(&mut self, now: Duration, state: &str, key: Option<&str>) -> Vec<Act> {
        self.last_key = Some(now);
        match (state, key) {
            ("ready", _) if self.phase == Phase::Boot => self.type_next(now).into_iter().collect(),
            ("survey", Some("0")) => vec![Act::Digit('0')],
            // A dialog that is not recognised as one is refused; nobody has judged it.
            ("survey" | "menu" | "unknown", Some("esc")) | ("gate", _) => vec![Act::Escape],
            _ => Vec::new(),
        }
    }

    fn stuck_window(&self) -> Duration {
        if self.phase == Phase::Boot { t::STUCK_IN_BOOT } else { t::STUCK_IN_TURN }
    }

    fn cooled(&self, now: Duration) -> bool {
        self.last_key.is_none_or(|last| now.saturating_sub(last) >= t::GATE_COOLDOWN)
    }

    fn key(&mut self, now: Duration, act: Act, acts: &mut Vec<Act>) {
        self.last_key = Some(now);
        acts.push(act);
    }

    fn is_ready(&self, now: Duration) -> bool {
        self.ready_since.is_some_and(|since| now.saturating_sub(since) >= t::READY_HOLDS)
    }

    fn type_next(&mut self, now: Duration) -> Option<Act> {
        let text = self.texts.pop_front()?;
        self.phase = Phase::Submitting { pasted: now, enters: 0, last: now, prompts: u32::MAX };
        Some(Act::Paste(text))
    }

    fn boot(&mut self, seen: &Seen<'_>, shown: Shown, acts: &mut Vec<Act>) {
        if seen.now.saturating_sub(self.began) > self.boot || self.boot_keys > t::BOOT_KEYS {
            self.give_up(seen, "the program did not come to its prompt", acts);
            return;
        }
        if self.is_ready(seen.now) {
            acts.extend(self.type_next(seen.now));
            return;
        }
        if !self.cooled(seen.now) {
            return;
        }
        let yes = screen::highlighted(seen.lines).is_some_and(|option| option.starts_with("Yes"));
        match shown {
            Shown::Login => acts.push(Act::Login),
            // The operator started the run in this folder.
            Shown::Trust => self.boot_key(seen.now, if yes { Act::Enter } else { Act::Down }, acts),
            Shown::Bypass if self.may_bypass && self.bypass_tries <= 2 * t::BYPASS_TRIES => {
                self.bypass_tries += 1;
                self.boot_key(seen.now, if yes { Act::Enter } else { Act::Down }, acts);
            }
            Shown::Bypass => {
                self.give_up(seen, "it asks whether permissions may be skipped, and nobody said so", acts);
            }
            Shown::Theme => self.boot_key(seen.now, Act::Enter, acts),
            Shown::Survey => self.survey(seen.now, acts),
            // A server that came with the repository, and whatever is not known.
            Shown::McpServer | Shown::Menu | Shown::Dialog | Shown::Permission => {
                self.boot_key(seen.now, Act::Escape, acts);
            }
            Shown::Working | Shown::Ready | Shown::Unknown => self.ladder(seen, acts),
        }
    }

    fn boot_key(&mut self, now: Duration, act: Act, acts: &mut Vec<Act>) {
        self.boot_keys += 1;
        self.key(now, act, acts);
    }

    fn survey(&mut self, now: Duration, acts: &mut Vec<Act>) {
        self.surveys += 1;
        if self.surveys > t::SURVEYS {
            acts.push(Act::GiveUp("a survey does not go away".to_owned()));
            self.phase = Phase::Done;
            return;
        }
        let act = if self.surveys % 2 == 1 { Act::Digit('0') } else { Act::Escape };
        self.key(now, act, acts);
    }

    fn submit(
        &mut self,
        seen: &Seen<'_>,
        shown: Shown,
        at: (Duration, u32, Duration, u32),
        acts: &mut Vec<Act>,
    ) {
        let (pasted, enters, last, prompts) = at;
        // What was there when the text was pasted.
        let prompts = if prompts == u32::MAX { seen.prompts } else { prompts };
        let taken = seen.prompts > prompts
            || (enters > 0 && matches!(shown, Shown::Permission | Shown::Menu | Shown::Working));
        if taken {
            self.phase = Phase::Turn;
            self.window = t::STUCK_IN_TURN;
            self.unchanged_since = seen.now;
            return;
        }
        let due = if enters == 0 {
            seen.now.saturating_sub(pasted) >= t::PASTE_TO_ENTER
        } else {
            seen.now.saturating_sub(last) >= t::SUBMIT_WITHIN
        };
        let mut next = (enters, last);
        if due && enters >= t::ENTERS {
            self.give_up(seen, "the prompt was not taken", acts);
            return;
        }
        if due {
            if enters == 1 {
                acts.push(Act::Nudge);
            }
            self.key(seen.now, Act::Enter, acts);
            next = (enters + 1, seen.now);
        }
        self.phase = Phase::Submitting { pasted, enters: next.0, last: next.1, prompts };
    }

    fn turn(&mut self, seen: &Seen<'_>, shown: Shown, acts: &mut Vec<Act>) {
        if let Some((id, since)) = self.asking.clone() {
            if seen.now.saturating_sub(since) >= t::ANSWER_WITHIN {
                let late = "it could not be judged in time";
                acts.extend(self.answered(seen.now, &id, seen.lines, false, late));
            }
            return;
        }
        if let Some(end) = seen.end
            && self.over(seen, end, acts)
        {
            return;
        }
        if !self.cooled(seen.now) {
            return;
        }
        match shown {
            Shown::Permission if self.answered.as_ref().is_some_and(|(lines, _)| *lines == seen.lines) => {
                // The key was swallowed, or the program is slow: it is no new question.
                if self.last_key.is_none_or(|last| seen.now.saturating_sub(last) >= t::SUBMIT_WITHIN)
                    && let Some((_, act)) = self.answered.clone()
                {
                    self.key(seen.now, act, acts);
                }
            }
            Shown::Permission => {
                self.asked += 1;
                let id = format!("dialog-{}", self.asked);
                let call = seen.pending.iter().find(|call| screen::shows(seen.lines, &call.input)).cloned();
                self.asking = Some((id.clone(), seen.now));
                acts.push(Act::Ask(id, call));
            }
            Shown::Menu => {
                self.menus += 1;
                if self.menus > t::MENUS {
                    self.give_up(seen, "a menu opens again and again", acts);
                } else {
                    self.key(seen.now, Act::Escape, acts);
                }
            }
            Shown::Survey => self.survey(seen.now, acts),
            Shown::Login => acts.push(Act::Login),
            Shown::Trust | Shown::McpServer | Shown::Bypass | Shown::Theme | Shown::Dialog => {
                self.key(seen.now, Act::Escape, acts);
            }
            Shown::Working | Shown::Ready | Shown::Unknown => self.ladder(seen, acts),
        }
    }

    /// Whether the turn is over, by the transcript, with the screen as its witness.
    fn over(&mut self, seen: &Seen<'_>, end: &End, acts: &mut Vec<Act>) -> bool {
        let quiet = self.last_growth.is_none_or(|last| seen.now.saturating_sub(last) >= t::QUIET_AFTER_END);
        if !(self.is_ready(seen.now) || (seen.settled && self.ready_since.is_some()) || quiet) {
            return false;
        }
        if *end == End::Interrupted && self.refusals <= t::REFUSALS && !self.texts.is_empty() {
            // It was told no with Esc, which ends the turn: now it is told why.
            let told: Vec<String> = self.texts.drain(..).collect();
            self.texts.push_back(told.join("\n"));
            acts.extend(self.type_next(seen.now));
            return true;
        }
        self.phase = Phase::Done;
        acts.push(Act::Over(end.clone()));
        true
    }

    /// A screen that does not change (recovery §2, R1 to R5; R2 is [`Self::over`]).
    fn ladder(&mut self, seen: &Seen<'_>, acts: &mut Vec<Act>) {
        if seen.now.saturating_sub(self.unchanged_since) < self.window {
            return;
        }
        if self.last_growth.is_some_and(|last| seen.now.saturating_sub(last) < t::TRANSCRIPT_FRESH) {
            self.unchanged_since = seen.now;
            self.window = self.stuck_window();
            return;
        }
        self.unchanged_since = seen.now;
        self.window = self.stuck_window().min(t::REARM);
        if !self.nudged {
            self.nudged = true;
            acts.push(Act::Nudge);
        } else if self.triages < t::TRIAGES {
            self.triages += 1;
            acts.push(Act::Triage);
        } else {
            self.give_up(seen, "the screen does not change", acts);
        }
    }

    fn give_up(&mut self, seen: &Seen<'_>, why: &str, acts: &mut Vec<Act>) {
        self.phase = Phase::Done;
        acts.push(Act::GiveUp(format!("{why}; it shows: {}", screen::last_lines(seen.lines))));
    }
}

#[cfg(test)]
mod tests;
