//! What a client reads of a session over one HTTP request.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use rmcp::{
    model::ServerJsonRpcMessage, transport::streamable_http_server::session::ServerSseMessage,
};

use super::{
    outbox::Read,
    session::{RETRY, Session},
};

/// The events of a stream, as long as its client reads them.
pub(crate) struct EventStream {
    session: Arc<Session>,
    /// The stream and its reader. None once it has ended.
    reader: Option<(u64, u64)>,
    /// What comes before everything else.
    first: Option<ServerSseMessage>,
}

impl EventStream {
    /// What `reader` of a stream of `session` is given.
    pub(crate) fn new(session: Arc<Session>, reader: (u64, u64)) -> Self {
        Self {
            session,
            reader: Some(reader),
            first: None,
        }
    }

    /// The same, where the client learns first how it comes again if the stream breaks.
    pub(crate) fn primed(mut self) -> Self {
        self.first = self
            .reader
            .map(|(stream, _)| ServerSseMessage::priming(name_event(stream, 0), RETRY));
        self
    }

    /// One message, or none.
    pub(crate) fn only(session: Arc<Session>, message: Option<ServerJsonRpcMessage>) -> Self {
        Self {
            session,
            reader: None,
            first: message.map(ServerSseMessage::from_message),
        }
    }
}

/// The name of an event: its stream, and how many messages of that its reader has with it.
fn name_event(stream: u64, given: u64) -> String {
    format!("{stream}-{given}")
}

/// The stream, and how many messages a client was given, by the name of the last event that it saw.
pub(crate) fn read_event_name(name: &str) -> Option<(u64, u64)> {
    let (stream, given) = name.split_once('-')?;
    Some((stream.parse().ok()?, given.parse().ok()?))
}

impl Stream for EventStream {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let Some(reader) = self.reader else {
            return Poll::Ready(None);
        };
        let read = self
            .session
            .with_outbox(|outbox| outbox.read(reader, context.waker()));
        match read {
            Read::Nothing => Poll::Pending,
            Read::Message(number, message) => {
                let mut event = ServerSseMessage::default();
                event.event_id = Some(name_event(reader.0, number.saturating_add(1)));
                event.message = Some(message);
                Poll::Ready(Some(event))
            }
            Read::End => {
                self.end();
                Poll::Ready(None)
            }
        }
    }
}

impl EventStream {
    fn end(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.session.leave(reader);
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.end();
    }
}
