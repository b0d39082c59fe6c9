//! What the driver holds of an attempt, whichever engine carries it.

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::core::event::StopStep;
use crate::core::mediation::Answer;
use crate::process::Activity;

/// What an engine can be asked while its attempt runs.
pub(super) enum Request {
    /// No further prompt will come.
    CloseInput,
    /// End it.
    Stop(StopStep),
    /// The answer to the question of this id.
    Answer(String, Answer),
    /// How busy the tools are.
    Activity(oneshot::Sender<Option<Activity>>),
}

/// A handle on an attempt. Dropping it ends the attempt.
#[derive(Clone)]
pub struct Handle {
    requests: UnboundedSender<Request>,
}

impl Handle {
    pub(super) fn new() -> (Handle, UnboundedReceiver<Request>) {
        let (requests, received) = mpsc::unbounded_channel();
        (Handle { requests }, received)
    }

    /// No further prompt will come.
    pub fn close_input(&self) {
        self.send(Request::CloseInput);
    }

    /// Answers a question of the CLI. One that waits no more is passed over.
    pub fn answer(&self, request_id: String, answer: Answer) {
        self.send(Request::Answer(request_id, answer));
    }

    /// End it.
    pub fn stop(&self, step: StopStep) {
        self.send(Request::Stop(step));
    }

    /// CPU time and I/O of the session's tools; `None` once it is over or where it cannot be told.
    pub async fn activity(&self) -> Option<Activity> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Activity(reply));
        answer.await.ok().flatten()
    }

    fn send(&self, request: Request) {
        // An attempt that is over needs no request; its last event is on the way.
        drop(self.requests.send(request));
    }
}
