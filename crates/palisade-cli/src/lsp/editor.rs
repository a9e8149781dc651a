//! The editor: what it is sent, and the requests that it waits for.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
};

use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::MessageType;
use serde_json::{Value, json};

/// The editor at the other end.
pub(super) struct Editor {
    /// None once nothing more is sent.
    connection: Mutex<Option<Connection>>,
    /// The requests that have no answer yet.
    pending: Mutex<BTreeSet<RequestId>>,
    /// Numbers of requests to the editor.
    next: AtomicI32,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) code: ErrorCode,
    pub(super) why: String,
}

impl Unanswered {
    pub(super) fn new(code: ErrorCode, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { code, why }
    }
}

/// Requests that may wait at a time.
const MAX_PENDING: usize = 64;

impl Editor {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection: Mutex::new(Some(connection)),
            pending: Mutex::default(),
            next: AtomicI32::new(1),
        }
    }

    /// Takes up a request; false where too many wait.
    pub(super) fn admit(&self, id: &RequestId) -> bool {
        let mut pending = lock(&self.pending);
        pending.len() < MAX_PENDING && pending.insert(id.clone())
    }

    /// Whether the editor still waits for an answer.
    pub(super) fn is_waiting(&self, id: &RequestId) -> bool {
        lock(&self.pending).contains(id)
    }

    /// Answers a request that was taken up, unless the editor waits no more.
    pub(super) fn answer(&self, id: RequestId, answer: Result<Value, Unanswered>) {
        if lock(&self.pending).remove(&id) {
            self.respond(id, answer);
        }
    }

    /// Ends a request that the editor waits for no more.
    pub(super) fn cancel(&self, id: RequestId) {
        let why = Unanswered::new(ErrorCode::RequestCanceled, "cancelled");
        self.answer(id, Err(why));
    }

    /// Answers a request at once.
    pub(super) fn respond(&self, id: RequestId, answer: Result<Value, Unanswered>) {
        let response = match answer {
            Ok(result) => Response::new_ok(id, result),
            Err(Unanswered { code, why }) => Response::new_err(id, code as i32, why),
        };
        self.send(response.into());
    }

    /// Tells the editor something.
    pub(super) fn notify(&self, method: &str, params: Value) {
        let notification = Notification {
            method: method.to_owned(),
            params,
        };
        self.send(notification.into());
    }

    /// Shows the person something.
    pub(super) fn show(&self, kind: MessageType, message: &str) {
        self.notify(
            "window/showMessage",
            json!({"type": kind, "message": message}),
        );
    }

    /// Asks the editor for something whose answer does not matter.
    pub(super) fn ask(&self, method: &str, params: Value) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let request = Request {
            id: format!("palisade-{id}").into(),
            method: method.to_owned(),
            params,
        };
        self.send(request.into());
    }

    /// Sends nothing more, so that the writing thread ends with what is left.
    pub(super) fn close(&self) {
        lock(&self.connection).take();
    }

    fn send(&self, message: Message) {
        if let Some(connection) = &*lock(&self.connection) {
            // Whoever reads no more is not told.
            let _ = connection.sender.send(message);
        }
    }
}

/// A poisoned lock guards finished values; the panic was elsewhere.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
