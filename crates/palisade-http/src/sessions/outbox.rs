//! What the server says within a session, by the streams on which its client reads it.

use std::{collections::HashMap, sync::Arc, task::Waker};

use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientNotification, GetExtensions as _, ProgressToken, RequestId,
        ServerJsonRpcMessage, ServerNotification,
    },
    service::OriginatingRequestId,
};
use tokio::sync::oneshot;

use super::events::Events;

/// The number of the stream that answers no request: that of `GET`.
pub(crate) const COMMON: u64 = 0;

/// The stream of a request's answer.
#[derive(Debug)]
struct Answers {
    request: RequestId,
    progress: Option<ProgressToken>,
    events: Events,
    /// Whether its last message is there, or there will be none.
    is_done: bool,
}

/// Everything that is said.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    common: Events,
    answers: HashMap<u64, Answers>,
    by_request: HashMap<RequestId, u64>,
    by_progress: HashMap<ProgressToken, u64>,
    last: u64,
    /// Who waits for the answer to `initialize`.
    opening: Option<oneshot::Sender<ServerJsonRpcMessage>>,
    is_ended: bool,
}

/// What a reader comes upon.
pub(crate) enum Read {
    /// The next message, and its number.
    Message(u64, Arc<ServerJsonRpcMessage>),
    /// Nothing yet.
    Nothing,
    /// There will be nothing.
    End,
}

impl Outbox {
    /// Says `message` where its client reads it.
    pub(crate) fn put(&mut self, message: ServerJsonRpcMessage) {
        if self.is_ended {
            return;
        }
        match &message {
            ServerJsonRpcMessage::Response(response) => {
                let id = response.id.clone();
                self.answer(Some(&id), message);
            }
            ServerJsonRpcMessage::Error(error) => {
                let id = error.id.clone();
                self.answer(id.as_ref(), message);
            }
            ServerJsonRpcMessage::Request(request) => {
                let of = request.request.extensions().get::<OriginatingRequestId>();
                let stream = of.and_then(|of| self.by_request.get(&of.0)).copied();
                self.say(stream.or_else(|| self.heard()), message);
            }
            ServerJsonRpcMessage::Notification(notification) => {
                let stream = match &notification.notification {
                    ServerNotification::ProgressNotification(told) => {
                        let token = &told.params.progress_token;
                        self.by_progress.get(token).copied()
                    }
                    // It is about what the client was asked.
                    ServerNotification::CancelledNotification(_)
                    | ServerNotification::CustomNotification(_) => self.heard(),
                    _ => None,
                };
                self.say(stream, message);
            }
        }
    }

    /// Where a client hears what it is asked: on the common stream, or with the last request that it waits for.
    fn heard(&self) -> Option<u64> {
        if self.common.is_read {
            return Some(COMMON);
        }
        let waiting = self
            .answers
            .iter()
            .filter(|(_, answers)| answers.events.is_read && !answers.is_done);
        waiting.map(|(stream, _)| *stream).max()
    }

    /// Says `message` on a stream, or else on the common one.
    fn say(&mut self, stream: Option<u64>, message: ServerJsonRpcMessage) {
        let answers = stream.and_then(|stream| self.answers.get_mut(&stream));
        match answers {
            Some(answers) if !answers.is_done => answers.events.push(message),
            Some(_) | None => self.common.push(message),
        }
    }

    /// Answers the request of this id. What is answered already, or given up, is not answered again.
    fn answer(&mut self, id: Option<&RequestId>, message: ServerJsonRpcMessage) {
        if let Some(opening) = self.opening.take() {
            // Whoever waited may have gone.
            let _ = opening.send(message);
            return;
        }
        let stream = id.and_then(|id| self.forget(id));
        if let Some(answers) = stream.and_then(|stream| self.answers.get_mut(&stream)) {
            answers.is_done = true;
            answers.events.push(message);
        }
    }

    /// Has nothing more be said of the request of this id. Its stream, if there was one.
    fn forget(&mut self, id: &RequestId) -> Option<u64> {
        let stream = self.by_request.remove(id)?;
        let answers = self.answers.get(&stream)?;
        if let Some(token) = &answers.progress
            && self.by_progress.get(token) == Some(&stream)
        {
            self.by_progress.remove(token);
        }
        Some(stream)
    }

    /// Has the answer to `initialize` sent to who waits for it.
    pub(crate) fn expect_opening(&mut self) -> Option<oneshot::Receiver<ServerJsonRpcMessage>> {
        let (told, waits) = oneshot::channel();
        self.opening = (!self.is_ended).then_some(told);
        self.opening.is_some().then_some(waits)
    }

    /// Opens the stream of a request's answer, for its first reader. None where a request of this id runs, or the session has ended.
    pub(crate) fn open(
        &mut self,
        request: &RequestId,
        progress: Option<ProgressToken>,
    ) -> Option<(u64, u64)> {
        if self.is_ended || self.by_request.contains_key(request) {
            return None;
        }
        self.last += 1;
        let stream = self.last;
        let mut answers = Answers {
            request: request.clone(),
            progress: progress.clone(),
            events: Events::default(),
            is_done: false,
        };
        let reader = answers.events.begin_reading(None);
        self.answers.insert(stream, answers);
        self.by_request.insert(request.clone(), stream);
        if let Some(token) = progress {
            self.by_progress.insert(token, stream);
        }
        Some((stream, reader))
    }

    /// Has `stream` read by another reader, which was given `given` messages already, if it says so. None where there is no such stream any more.
    pub(crate) fn begin_reading(&mut self, stream: u64, given: Option<u64>) -> Option<u64> {
        let is_ended = self.is_ended;
        let events = self.events(stream).filter(|_| !is_ended)?;
        Some(events.begin_reading(given))
    }

    fn events(&mut self, stream: u64) -> Option<&mut Events> {
        match stream {
            COMMON => Some(&mut self.common),
            stream => self.answers.get_mut(&stream).map(|a| &mut a.events),
        }
    }

    /// What `reader` of `stream` reads next; it is woken where that is nothing yet.
    pub(crate) fn read(&mut self, (stream, reader): (u64, u64), waker: &Waker) -> Read {
        if self.is_ended {
            return Read::End;
        }
        let is_done = self.answers.get(&stream).is_some_and(|a| a.is_done);
        let events = self.events(stream);
        let Some(events) = events.filter(|events| events.is_read && events.readers == reader)
        else {
            return Read::End;
        };
        match events.take() {
            Some((number, message)) => Read::Message(number, message),
            None if is_done => Read::End,
            None => {
                events.wait(waker);
                Read::Nothing
            }
        }
    }

    /// That `reader` of `stream` is gone. The request whose answer it did not read to its end, if it is the last reader.
    pub(crate) fn end_reading(&mut self, (stream, reader): (u64, u64)) -> Option<RequestId> {
        let events = self.events(stream)?;
        if events.readers != reader {
            return None;
        }
        events.is_read = false;
        let answers = self.answers.get(&stream)?;
        if answers.is_done {
            self.answers.remove(&stream);
            return None;
        }
        Some(answers.request.clone())
    }

    /// Gives the request of `stream` up, unless somebody came to read its answer after `reader` left. Whether it was.
    pub(crate) fn give_up(&mut self, (stream, reader): (u64, u64)) -> bool {
        let Some(answers) = self.answers.get(&stream) else {
            return false;
        };
        if answers.events.readers != reader || answers.events.is_read {
            return false;
        }
        let (request, is_done) = (answers.request.clone(), answers.is_done);
        if !is_done {
            // Of one that is answered, the id may be another request's by now.
            self.forget(&request);
        }
        self.answers.remove(&stream);
        !is_done
    }

    /// That the client said `message`: what it cancels is not answered.
    pub(crate) fn hear(&mut self, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Notification(notification) = message else {
            return;
        };
        let ClientNotification::CancelledNotification(cancelled) = &notification.notification
        else {
            return;
        };
        let id = cancelled.params.request_id.as_ref();
        let stream = id.and_then(|id| self.forget(id));
        if let Some(answers) = stream.and_then(|stream| self.answers.get_mut(&stream)) {
            answers.is_done = true;
            answers.events.wake();
        }
    }

    /// Whether the common stream is read.
    pub(crate) fn is_heard(&self) -> bool {
        self.common.is_read && !self.is_ended
    }

    /// Whether anything is read.
    pub(crate) fn is_read(&self) -> bool {
        self.common.is_read || self.answers.values().any(|a| a.events.is_read)
    }

    /// Ends the common stream. The client may come again.
    pub(crate) fn close_common(&mut self) {
        self.common.is_read = false;
        self.common.wake();
    }

    /// Ends everything. The requests that run.
    pub(crate) fn end(&mut self) -> Vec<RequestId> {
        self.is_ended = true;
        self.opening = None;
        self.common.is_read = false;
        self.common.wake();
        for answers in self.answers.values_mut() {
            answers.events.wake();
        }
        self.answers.clear();
        self.by_progress.clear();
        self.by_request.drain().map(|(id, _)| id).collect()
    }
}
