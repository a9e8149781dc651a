//! One session: whose it is, what its client said, and what it is told.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    ProgressToken, RequestId, ServerJsonRpcMessage,
};
use tokio::{
    runtime::Handle,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::sleep,
};

use super::{
    binding::Binding,
    outbox::{COMMON, Outbox},
};
use crate::credential::Term;

/// How long the answer to a request waits for a client whose stream broke. Then the request is given up, and its statement ends on the
/// database. A client comes again after [`RETRY`].
const GRACE: Duration = Duration::from_millis(700);

/// After what time a client whose stream broke comes again.
pub(crate) const RETRY: Duration = Duration::from_millis(200);

/// How long a session may be unused, without a stream that is read.
pub(crate) const IDLE: Duration = Duration::from_secs(20 * 60);

/// How old a session can become.
pub(crate) const OLDEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A session.
pub(crate) struct Session {
    /// With what it was begun.
    pub(crate) binding: Binding,
    term: Term,
    begun: Instant,
    used: Mutex<Instant>,
    outbox: Mutex<Outbox>,
    /// What the client says goes to the server. None once the session has ended.
    inbox: Mutex<Option<UnboundedSender<ClientJsonRpcMessage>>>,
    /// Whether the client can be told of what it did not ask now.
    is_heard: Arc<AtomicBool>,
}

impl Session {
    /// A new one, and what its client will say.
    pub(crate) fn begin(
        binding: Binding,
        term: Term,
        is_heard: Arc<AtomicBool>,
    ) -> (Arc<Self>, UnboundedReceiver<ClientJsonRpcMessage>) {
        let (inbox, said) = unbounded_channel();
        let now = Instant::now();
        let session = Self {
            binding,
            term,
            begun: now,
            used: Mutex::new(now),
            outbox: Mutex::default(),
            inbox: Mutex::new(Some(inbox)),
            is_heard,
        };
        (Arc::new(session), said)
    }

    /// Does something with what is said, and notes whether the client can be told of what it did not ask.
    pub(crate) fn with_outbox<T>(&self, act: impl FnOnce(&mut Outbox) -> T) -> T {
        let mut outbox = lock(&self.outbox);
        let done = act(&mut outbox);
        self.is_heard.store(outbox.is_heard(), Ordering::Relaxed);
        done
    }

    /// That it is used now.
    pub(crate) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// When it was used last.
    pub(crate) fn last_used(&self) -> Instant {
        *lock(&self.used)
    }

    /// Whether one of its streams is read.
    pub(crate) fn is_read(&self) -> bool {
        self.with_outbox(|outbox| outbox.is_read())
    }

    /// Whether it is over by `now`: unused or old, or because its token was revoked.
    ///
    /// A token that has ended by itself ends what is streamed, and not the session: an authorization server gives its client another one.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= OLDEST
            || (now.saturating_duration_since(self.last_used()) >= IDLE && !self.is_read())
            || self.term.is_revoked()
    }

    /// Hands what the client says to the server. Whether there is one still.
    pub(crate) fn hear(&self, message: ClientJsonRpcMessage) -> bool {
        self.with_outbox(|outbox| outbox.hear(&message));
        let inbox = lock(&self.inbox);
        inbox
            .as_ref()
            .is_some_and(|inbox| inbox.send(message).is_ok())
    }

    /// Says `message` where the client reads it.
    pub(crate) fn say(&self, message: ServerJsonRpcMessage) {
        self.with_outbox(|outbox| outbox.put(message));
    }

    /// Opens the stream of the answer to a request: its number, and that of its reader.
    pub(crate) fn open(
        &self,
        request: &RequestId,
        progress: Option<ProgressToken>,
    ) -> Option<(u64, u64)> {
        self.with_outbox(|outbox| outbox.open(request, progress))
    }

    /// That a reader of a stream is gone. Unless it comes again soon, its request is given up.
    pub(crate) fn leave(self: &Arc<Self>, reader: (u64, u64)) {
        if reader.0 == COMMON {
            self.touch();
        }
        let Some(request) = self.with_outbox(|outbox| outbox.end_reading(reader)) else {
            return;
        };
        let session = Arc::clone(self);
        let give_up = move || {
            if session.with_outbox(|outbox| outbox.give_up(reader)) {
                session.hear(cancel(request));
            }
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                sleep(GRACE).await;
                give_up();
            })),
            Err(_) => give_up(),
        }
    }

    /// Ends it: what runs is cancelled, every stream ends, and the server is told that its client has gone.
    pub(crate) fn end(&self) {
        let running = self.with_outbox(Outbox::end);
        let inbox = lock(&self.inbox).take();
        if let Some(inbox) = inbox {
            for request in running {
                // The server may have gone.
                let _ = inbox.send(cancel(request));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a client says that gives a request up.
fn cancel(request: RequestId) -> ClientJsonRpcMessage {
    let given_up = CancelledNotificationParam::new(
        Some(request),
        Some("the client no longer reads the answer".to_owned()),
    );
    ClientJsonRpcMessage::notification(ClientNotification::CancelledNotification(
        CancelledNotification::new(given_up),
    ))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use palisade::session::Principal;
    use palisade_mcp::{Asker, Narrowing};

    use super::*;
    use crate::sessions::binding::Fit;

    fn binding(account: &str) -> Binding {
        Binding {
            account: account.to_owned(),
            asker: Asker::new(Principal::new("Agent", "one")),
            is_certified: false,
            is_read_only: false,
            narrowing: Narrowing::default(),
        }
    }

    /// The id of the request that a client gives up.
    fn given_up(said: Option<ClientJsonRpcMessage>) -> serde_json::Value {
        let said = serde_json::to_value(said.unwrap()).unwrap();
        assert_eq!(said["method"], "notifications/cancelled");
        said["params"]["requestId"].clone()
    }

    fn begin() -> Arc<Session> {
        // An authorization server's token has ended, and its client can have another.
        let term = Term::Until(SystemTime::UNIX_EPOCH);
        Session::begin(binding("a"), term, Arc::default()).0
    }

    #[test]
    fn a_session_is_over_when_it_is_unused_or_old() {
        let second = Duration::from_secs(1);
        let now = Instant::now();
        let session = begin();
        assert!(!session.is_over(now + IDLE - second));
        assert!(session.is_over(now + IDLE + second));
        // What is read is in use, but not for ever.
        let reader = session.with_outbox(|outbox| outbox.begin_reading(COMMON, None));
        assert!(!session.is_over(now + IDLE + second));
        assert!(session.is_over(now + OLDEST + second));
        session.leave((COMMON, reader.unwrap()));
        assert!(session.is_over(Instant::now() + IDLE));
        // So is one whose request waits for its answer.
        let session = begin();
        let request = RequestId::Number(1);
        session.open(&request, None).unwrap();
        assert!(!session.is_over(now + IDLE + second));
    }

    #[test]
    fn a_session_is_bound_to_all_that_it_was_begun_with() {
        let begun = binding("a");
        assert_eq!(begun.compare(&binding("a")), Fit::Same);
        assert_eq!(begun.compare(&binding("b")), Fit::Foreign);
        let other = Asker::new(Principal::new("Agent", "two"));
        let client = Asker::new(Principal::new("Agent", "one")).with_client("x");
        for asker in [other, client] {
            let foreign = Binding {
                asker,
                ..binding("a")
            };
            assert_eq!(begun.compare(&foreign), Fit::Foreign);
        }
        let certified = Binding {
            is_certified: true,
            ..binding("a")
        };
        assert_eq!(begun.compare(&certified), Fit::Foreign);
        let narrowed = Binding {
            is_read_only: true,
            ..binding("a")
        };
        assert_eq!(begun.compare(&narrowed), Fit::Narrowed);
        assert_eq!(narrowed.compare(&begun), Fit::Narrowed);
    }

    #[test]
    fn the_end_of_a_session_cancels_what_runs() {
        let (session, mut said) =
            Session::begin(binding("a"), Term::Until(SystemTime::now()), Arc::default());
        session.open(&RequestId::Number(4), None).unwrap();
        session.end();
        assert_eq!(given_up(said.try_recv().ok()), 4);
        assert!(said.blocking_recv().is_none());
        assert_eq!(session.open(&RequestId::Number(5), None), None);
        assert!(!session.hear(cancel(RequestId::Number(5))));
    }

    #[test]
    fn a_request_that_is_left_is_given_up_once() {
        let (session, mut said) =
            Session::begin(binding("a"), Term::Until(SystemTime::now()), Arc::default());
        let request = RequestId::Number(1);
        let reader = session.open(&request, None).unwrap();
        // Its id is taken as long as it runs.
        assert_eq!(session.open(&request, None), None);
        // Somebody else reads by now.
        let next = session.with_outbox(|outbox| outbox.begin_reading(reader.0, Some(0)));
        session.leave(reader);
        assert!(said.try_recv().is_err());
        session.leave((reader.0, next.unwrap()));
        assert_eq!(given_up(said.try_recv().ok()), 1);
        assert!(said.try_recv().is_err());
        assert!(session.open(&request, None).is_some());
    }
}
