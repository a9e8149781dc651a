//! The messages of one stream, and where in it a client is.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use rmcp::model::ServerJsonRpcMessage;

/// The most messages of a stream that are kept for a client that does not read, or comes again.
pub(crate) const MAX_EVENTS: usize = 64;

/// The messages of a stream.
#[derive(Debug, Default)]
pub(crate) struct Events {
    kept: VecDeque<Arc<ServerJsonRpcMessage>>,
    /// The number of the first that is kept.
    first: u64,
    /// The number of the next that its reader is given.
    next: u64,
    /// How many readers it has had. The last of them reads.
    pub(crate) readers: u64,
    /// Whether that one is there.
    pub(crate) is_read: bool,
    waker: Option<Waker>,
}

impl Events {
    /// One more message. The oldest gives way where there are too many.
    pub(crate) fn push(&mut self, message: ServerJsonRpcMessage) {
        if self.kept.len() >= MAX_EVENTS {
            self.kept.pop_front();
            self.first += 1;
        }
        self.kept.push_back(Arc::new(message));
        self.wake();
    }

    /// The next message that was not given, with its number.
    pub(crate) fn take(&mut self) -> Option<(u64, Arc<ServerJsonRpcMessage>)> {
        let number = self.next.max(self.first);
        let at = usize::try_from(number - self.first).ok()?;
        let message = Arc::clone(self.kept.get(at)?);
        self.next = number + 1;
        Some((number, message))
    }

    /// Has it read by another reader, which was given the first `given` messages, if it says so. Whoever read it before reads no more.
    pub(crate) fn begin_reading(&mut self, given: Option<u64>) -> u64 {
        if let Some(given) = given {
            let end = self.first + u64::try_from(self.kept.len()).unwrap_or_default();
            self.next = given.min(end);
        }
        self.readers += 1;
        self.is_read = true;
        self.wake();
        self.readers
    }

    /// Wakes its reader at the next message.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    /// Wakes its reader now.
    pub(crate) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{EmptyResult, RequestId, ServerResult};

    use super::*;

    fn message(id: i64) -> ServerJsonRpcMessage {
        ServerJsonRpcMessage::response(
            ServerResult::EmptyResult(EmptyResult {}),
            RequestId::Number(id),
        )
    }

    #[test]
    fn a_reader_goes_on_where_it_says_that_it_is() {
        let mut events = Events::default();
        for id in 0..3 {
            events.push(message(id));
        }
        events.begin_reading(None);
        let numbers = |events: &mut Events| {
            std::iter::from_fn(|| events.take())
                .map(|(number, _)| number)
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(&mut events), [0, 1, 2]);
        // What was given is not given again, unless it is asked for.
        events.begin_reading(None);
        assert_eq!(numbers(&mut events), [0_u64; 0]);
        events.begin_reading(Some(1));
        assert_eq!(numbers(&mut events), [1, 2]);
        // A number that was never given is that of the last.
        events.begin_reading(Some(u64::MAX));
        events.push(message(3));
        assert_eq!(numbers(&mut events), [3]);
    }

    #[test]
    fn a_stream_that_is_not_read_keeps_few_messages() {
        let mut events = Events::default();
        let many = u64::try_from(MAX_EVENTS).unwrap() * 10;
        for id in 0..many {
            events.push(message(i64::try_from(id).unwrap()));
        }
        assert_eq!(events.kept.len(), MAX_EVENTS);
        let (number, oldest) = events.take().unwrap();
        let json = |message: &ServerJsonRpcMessage| serde_json::to_value(message).unwrap();
        assert_eq!(number, many - u64::try_from(MAX_EVENTS).unwrap());
        assert_eq!(
            json(&oldest),
            json(&message(i64::try_from(number).unwrap()))
        );
    }
}
