//! What is done about a circle, step by step (design §6, recovery §10.4).

use super::Stuck;

/// Steps of all ladders of a session together (ours: three ladders). Without a bound a session that does one
/// useful thing after each step would be talked to for ever (recovery §14.7).
const MOST_STEPS: u32 = 9;

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Interrupt the turn, then a different prompt in the same conversation.
    Nudge,
    /// Interrupt the turn, compact the conversation, then the same.
    Compact,
    /// End the process; a new conversation takes over.
    Fresh,
    /// Tell the human and stop.
    End,
}

/// The steps a session has been through.
#[derive(Debug, Clone, Default)]
pub struct Ladder {
    level: u8,
    taken: u32,
    /// Progress of the session when the last step was taken.
    progress: u64,
}

impl Ladder {
    /// The next step. `progress` counts what the session got done; more of it than at the last step begins the
    /// ladder again (recovery §13: "productive resets count and level").
    pub fn next(&mut self, progress: u64) -> Step {
        if progress > self.progress {
            self.level = 0;
        }
        self.progress = progress;
        self.taken += 1;
        let step = match self.level {
            _ if self.taken > MOST_STEPS => Step::End,
            0 => Step::Nudge,
            1 => Step::Compact,
            2 => Step::Fresh,
            3.. => Step::End,
        };
        self.level = self.level.saturating_add(1);
        step
    }

    /// Steps taken so far, this one included.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.taken
    }
}

/// A circle in the words of the prompt that is to break it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    /// What repeated itself.
    pub cause: String,
    /// The calls it was made of.
    pub tried: Vec<String>,
}

impl From<&Stuck> for Circle {
    fn from(stuck: &Stuck) -> Self {
        Circle { cause: stuck.why.clone(), tried: stuck.evidence.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_harder_until_something_gets_done() {
        let mut ladder = Ladder::default();
        let mut next = |progress| ladder.next(progress);
        // What was done before the first step changes nothing.
        assert_eq!(
            [7, 7, 7, 7, 7].map(&mut next),
            [Step::Nudge, Step::Compact, Step::Fresh, Step::End, Step::End]
        );
        let mut ladder = Ladder::default();
        let mut next = |progress| ladder.next(progress);
        assert_eq!(
            [0, 0, 1, 1, 1, 1].map(&mut next),
            [Step::Nudge, Step::Compact, Step::Nudge, Step::Compact, Step::Fresh, Step::End]
        );
    }

    #[test]
    fn progress_after_every_step_does_not_go_on_for_ever() {
        let mut ladder = Ladder::default();
        let steps: Vec<Step> = (0..20).map(|progress| ladder.next(progress)).collect();
        assert_eq!(steps[..9], [Step::Nudge; 9]);
        assert_eq!(steps[9..], [Step::End; 11]);
        assert_eq!(ladder.taken(), 20);
    }
}
