//! A conversation: its id now, the ids it had, and those it may still take.

use super::event::Effects;
use super::published::RunEvent;
use super::recovery::Departure;

/// The conversation a session belongs to.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    /// Its id now.
    pub(super) id: String,
    /// Ids it had before; each has a transcript of its own.
    pub(super) earlier: Vec<String>,
    /// A process was started with this id.
    pub(super) used: bool,
    /// Ids to take when a new one is needed; the core makes none up.
    pub(super) spare_ids: Vec<String>,
    /// The conversation it takes over from.
    pub(super) left: Option<Departure>,
}

impl Conversation {
    /// Goes over to a new id; `false` when there is none left.
    pub(super) fn renew(&mut self, effects: &mut Effects) -> bool {
        match self.spare_ids.pop() {
            Some(id) => {
                self.rename(id, effects);
                self.used = false;
                true
            }
            None => false,
        }
    }

    /// Takes another id and says so: both have to be findable (field-reports H01, H06).
    pub(super) fn rename(&mut self, id: String, effects: &mut Effects) {
        let old = std::mem::replace(&mut self.id, id);
        effects.publish(RunEvent::Warning {
            text: format!("conversation {old} is left; {} takes its place", self.id),
        });
        self.earlier.push(old);
    }
}
