//! All sessions of a server: who has how many, and which of them a request means.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::request::Parts;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_core::Stream;
use palisade_mcp::{Caller, PalisadeServer};
use rmcp::{
    ErrorData,
    model::{
        ClientJsonRpcMessage, GetExtensions as _, GetMeta as _, ProtocolVersion,
        ServerJsonRpcMessage,
    },
    transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager},
};
use tokio::time::interval;

use super::{
    binding::{Binding, Fit},
    outbox::COMMON,
    session::Session,
    stream::{EventStream, read_event_name},
    transport::SessionTransport,
};
use crate::{credential::Term, metrics::Metrics};

/// Sessions at a time.
const MAX_SESSIONS: usize = 4_096;

/// Sessions of one token at a time.
const MAX_OF_ACCOUNT: usize = 64;

/// How often it is looked which sessions are over.
const LOOK: Duration = Duration::from_secs(5);

/// Random bytes of a session's id.
const ID_BYTES: usize = 32;

/// Header of the revision that a request is of.
const VERSION: &str = "mcp-protocol-version";

tokio::task_local! {
    /// Who asks, while a request is answered.
    pub(crate) static ASKING: Asking;
}

/// What a request brought.
#[derive(Clone)]
pub(crate) struct Arrival {
    /// Who asks for what.
    pub(crate) binding: Binding,
    /// For how long.
    pub(crate) term: Term,
}

impl Arrival {
    /// Of whom the request is, for calls that go on without it. It has to be of the same to the letter.
    pub(crate) fn caller(&self) -> Caller {
        let Binding {
            account,
            asker,
            is_certified,
            is_read_only,
            // The server has it already.
            narrowing: _,
        } = &self.binding;
        let account = match is_certified {
            true => format!("{account} by a certificate"),
            false => account.clone(),
        };
        let asker = match is_read_only {
            true => asker.clone().read_only(),
            false => asker.clone(),
        };
        let term = self.term.clone();
        Caller::new(account, asker, move || term.is_over())
    }
}

/// What a request brought, and the server that it leaves.
pub(crate) struct Asking {
    pub(crate) arrival: Arrival,
    pub(crate) server: PalisadeServer,
    /// Of the session that it may begin: whether its client can be told of what it did not ask.
    pub(crate) is_heard: Arc<AtomicBool>,
}

/// Why no session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The token has as many as it can have, and reads all of them.
    Account,
    /// The server has as many as it can have.
    Server,
    /// The server ends.
    Ending,
}

/// Which session a request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// One of its own.
    Own,
    /// One of its own, which was begun with other headers.
    Narrowed,
    /// None that it could know of.
    Unknown,
}

/// A session that is not there.
#[derive(Debug, thiserror::Error)]
#[error("there is no such session")]
pub(crate) struct Gone;

/// The sessions of a server.
#[derive(Default)]
pub(crate) struct Sessions {
    all: Mutex<HashMap<SessionId, Arc<Session>>>,
    is_ending: AtomicBool,
    metrics: Option<Arc<Metrics>>,
}

impl Sessions {
    /// None yet. They are counted by `metrics`.
    pub(crate) fn new(metrics: Option<Arc<Metrics>>) -> Self {
        Self {
            metrics,
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which session `id` is to a request, and that it is used, if it is the request's own.
    pub(crate) fn find(&self, id: &str, binding: &Binding) -> Found {
        let session = self.lock().get(id).cloned();
        let Some(session) = session else {
            return Found::Unknown;
        };
        match session.binding.compare(binding) {
            Fit::Same => {
                session.touch();
                Found::Own
            }
            Fit::Narrowed => Found::Narrowed,
            Fit::Foreign => Found::Unknown,
        }
    }

    /// Whether one more can begin, of who asks with `binding`.
    pub(crate) fn find_room(&self, binding: &Binding) -> Result<(), NoRoom> {
        self.find_place(&self.lock(), binding).map(drop)
    }

    /// The session that gives way to one more of who asks with `binding`, if one has to. It is always of the same token, and
    /// others keep theirs.
    fn find_place(
        &self,
        all: &HashMap<SessionId, Arc<Session>>,
        binding: &Binding,
    ) -> Result<Option<SessionId>, NoRoom> {
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(NoRoom::Ending);
        }
        let own = || {
            all.iter()
                .filter(|(_, session)| session.binding.account == binding.account)
        };
        let why = match (own().count() >= MAX_OF_ACCOUNT, all.len() >= MAX_SESSIONS) {
            (false, false) => return Ok(None),
            (true, _) => NoRoom::Account,
            (false, true) => NoRoom::Server,
        };
        let unread = own().filter(|(_, session)| !session.is_read());
        let oldest = unread.min_by_key(|(_, session)| session.last_used());
        oldest.map(|(id, _)| Some(id.clone())).ok_or(why)
    }

    /// The session `id`, if it is of who asks now.
    fn own(&self, id: &str) -> Result<Arc<Session>, Gone> {
        let session = self.lock().get(id).cloned().ok_or(Gone)?;
        let is_own = |asking: &Asking| {
            let fit = session.binding.compare(&asking.arrival.binding);
            fit == Fit::Same
        };
        match ASKING.try_with(is_own) {
            Ok(true) => Ok(session),
            Ok(false) | Err(_) => Err(Gone),
        }
    }

    fn count(&self, all: &HashMap<SessionId, Arc<Session>>) {
        if let Some(metrics) = &self.metrics {
            metrics.set_sessions(all.len());
        }
    }

    /// Ends the session `id`, if there is one.
    fn remove(&self, id: &str) {
        let removed = {
            let mut all = self.lock();
            let removed = all.remove(id);
            self.count(&all);
            removed
        };
        if let Some(session) = removed {
            session.end();
        }
    }

    /// Ends every session that is over by `now`.
    fn sweep(&self, now: Instant) {
        let all: Vec<_> = {
            let all = self.lock();
            all.iter()
                .map(|(id, session)| (id.clone(), Arc::clone(session)))
                .collect()
        };
        for (id, session) in all {
            if session.is_over(now) {
                self.remove(&id);
            }
        }
    }

    /// Ends sessions that are over, as long as it is polled.
    pub(crate) async fn keep_swept(self: Arc<Self>) {
        let mut look = interval(LOOK);
        loop {
            look.tick().await;
            self.sweep(Instant::now());
        }
    }

    /// Has no session begin, and ends the streams that no request waits for.
    pub(crate) fn drain(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for session in self.lock().values() {
            session.with_outbox(|outbox| outbox.close_common());
        }
    }

    /// Ends all of them.
    pub(crate) fn end(&self) {
        let all = std::mem::take(&mut *self.lock());
        for session in all.values() {
            session.end();
        }
    }
}

/// A new id. None where the machine has no random bytes.
fn make_id() -> Option<SessionId> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes).into())
}

/// Whether a request's client knows events without a message.
fn knows_priming(parts: Option<&Parts>) -> bool {
    let version = parts.and_then(|parts| parts.headers.get(VERSION));
    let version = version.and_then(|version| version.to_str().ok());
    version.is_some_and(|version| version >= ProtocolVersion::V_2025_11_25.as_str())
}

impl SessionManager for Sessions {
    type Error = Gone;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let id = make_id().ok_or(Gone)?;
        let (session, said) = ASKING
            .try_with(|asking| {
                let Arrival { binding, term } = asking.arrival.clone();
                Session::begin(binding, term, Arc::clone(&asking.is_heard))
            })
            .map_err(|_| Gone)?;
        let given_way = {
            let mut all = self.lock();
            let place = self.find_place(&all, &session.binding);
            let given_way = place.map_err(|_| Gone)?.and_then(|id| all.remove(&id));
            all.insert(Arc::clone(&id), Arc::clone(&session));
            self.count(&all);
            given_way
        };
        if let Some(given_way) = given_way {
            given_way.end();
        }
        Ok((id, SessionTransport::new(session, said)))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let session = self.own(id)?;
        let answer = session.with_outbox(|outbox| outbox.expect_opening());
        let answer = answer.ok_or(Gone)?;
        session.hear(message);
        answer.await.map_err(|_| Gone)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.own(id).is_ok())
    }

    /// Ends it, for its client by a request, or for the protocol's crate once its server has ended.
    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        if ASKING.try_with(drop_nothing).is_ok() {
            self.own(id)?;
        }
        self.remove(id);
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let session = self.own(id)?;
        let ClientJsonRpcMessage::Request(request) = &message else {
            return Ok(EventStream::only(session, None));
        };
        let progress = request.request.get_meta().get_progress_token();
        let is_primed = knows_priming(request.request.extensions().get());
        let Some(reader) = session.open(&request.id, progress) else {
            let text =
                "a request of this id runs in this session; give each request an id of its own";
            let error = ErrorData::invalid_request(text, None);
            let error = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
            return Ok(EventStream::only(session, Some(error)));
        };
        let stream = EventStream::new(Arc::clone(&session), reader);
        let is_heard = session.hear(message);
        is_heard.then_some(()).ok_or(Gone)?;
        Ok(match is_primed {
            true => stream.primed(),
            false => stream,
        })
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        let is_heard = self.own(id)?.hear(message);
        is_heard.then_some(()).ok_or(Gone)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let session = self.own(id)?;
        Ok(self.read_again(session, (COMMON, None)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let session = self.own(id)?;
        let (stream, given) = read_event_name(&last_event_id).ok_or(Gone)?;
        Ok(self.read_again(session, (stream, Some(given))))
    }
}

/// Nothing is done with who asks but to see that somebody does.
fn drop_nothing(_: &Asking) {}

impl Sessions {
    /// What another reader of a stream is given. What has no such stream any more ends at once, so that its client does not come again
    /// for the same.
    fn read_again(
        &self,
        session: Arc<Session>,
        (stream, given): (u64, Option<u64>),
    ) -> EventStream {
        if self.is_ending.load(Ordering::Relaxed) && stream == COMMON {
            return EventStream::only(session, None);
        }
        let reader = session.with_outbox(|outbox| outbox.begin_reading(stream, given));
        match reader {
            Some(reader) => EventStream::new(session, (stream, reader)),
            None => EventStream::only(session, None),
        }
    }
}
