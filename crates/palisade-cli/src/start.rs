//! What the start of `serve` finds while the server answers already.
//!
//! Clients wait for the answer to `initialize`, and databases can take long to open. So the server answers first. What is wrong with
//! policies, configuration or accounts still ends it with its message and its exit code: a server that an operator has set up wrongly
//! is not served in part. A database server that cannot be reached is tried again, since it may only start later.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use palisade_mcp::PalisadeServer;
use tokio::{sync::Notify, task::JoinHandle, time::timeout};

use crate::{database::Database, exit::Failure, setup::Setup};

/// How long a server whose client has gone waits for what its start finds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was found so far. Clones share it.
#[derive(Clone)]
pub(crate) struct Start(Arc<Shared>);

struct Shared {
    found: Mutex<Found>,
    /// Told when the server has to end.
    ended: Notify,
    was_asked_to_end: AtomicBool,
    /// Whether a database that cannot be opened now may open by itself: one of a server.
    may_come: bool,
    is_alone: bool,
}

#[derive(Default)]
struct Found {
    /// What ends the server.
    failure: Option<Failure>,
    /// The first database that could not be reached.
    unreached: Option<Failure>,
}

impl Start {
    /// Of a server over `databases`.
    pub(crate) fn over(databases: &[(Setup, Database)]) -> Self {
        let is_remote = |database: &Database| match database {
            Database::Server(_) => true,
            Database::Sqlite(_) | Database::Memory(_) => false,
        };
        Self(Arc::new(Shared {
            found: Mutex::default(),
            ended: Notify::new(),
            was_asked_to_end: AtomicBool::new(false),
            may_come: databases.iter().any(|(_, database)| is_remote(database)),
            is_alone: databases.len() == 1,
        }))
    }

    fn lock_found(&self) -> MutexGuard<'_, Found> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes down why the database of the connection `name` could not be opened at the start.
    pub(crate) fn note(&self, name: &str, failure: Failure) {
        let mut found = self.lock_found();
        match failure {
            // The end of the server takes away what others still open with: that is no fault of theirs.
            Failure::Unavailable(_) if found.failure.is_some() => {}
            Failure::Unavailable(_) => {
                if self.0.may_come || !self.0.is_alone {
                    tracing::error!(
                        connection = name,
                        "not served yet, and tried again when an agent asks for it: {failure}"
                    );
                }
                found.unreached.get_or_insert(failure);
            }
            Failure::Usage(_)
            | Failure::Configuration(_)
            | Failure::ConfigurationAt(_)
            | Failure::Internal(_)
            | Failure::OutputClosed => {
                let failure = match self.0.is_alone {
                    true => failure,
                    false => name_connection(name, failure),
                };
                found.failure.get_or_insert(failure);
                self.0.ended.notify_one();
            }
        }
    }

    /// Opens the databases of `server`, and says what only then is known of them.
    pub(crate) async fn warm(self, server: PalisadeServer) {
        server.warm().await;
        for clash in server.list_template_clashes() {
            tracing::warn!(
                "{clash}, so it is offered by `run_template` alone; give it another name"
            );
        }
        // Files do not come by themselves.
        if !server.has_open_database() && !self.0.may_come {
            self.0.ended.notify_one();
        }
    }

    /// Waits until the server has to end: it is asked to, or the start found that it cannot serve.
    pub(crate) async fn wait_for_end(&self) {
        tokio::select! {
            () = wait_for_termination() => self.0.was_asked_to_end.store(true, Ordering::Relaxed),
            () = self.0.ended.notified() => {}
        }
    }

    /// Waits until every database was tried once, unless the process is asked to end.
    pub(crate) async fn wait_for_warmth(&self, warmed: JoinHandle<()>) {
        if self.has_failed() || self.0.was_asked_to_end.load(Ordering::Relaxed) {
            return;
        }
        tokio::select! {
            // A fault in it is in the log.
            _ = timeout(PATIENCE, warmed) => {}
            () = self.wait_for_end() => {}
        }
    }

    /// Whether something ends the server.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock_found().failure.is_some()
    }

    /// What the start found wrong of `server`, which has ended.
    pub(crate) fn judge(&self, server: &PalisadeServer) -> Result<(), Failure> {
        let mut found = self.lock_found();
        let unreached = found.unreached.take();
        let was_asked = self.0.was_asked_to_end.load(Ordering::Relaxed);
        let had_none = !server.has_open_database() && !was_asked;
        let failure = found.failure.take();
        failure
            .or(unreached.filter(|_| had_none))
            .map_or(Ok(()), Err)
    }
}

/// A failure with the connection that it is of.
fn name_connection(name: &str, failure: Failure) -> Failure {
    let with_name = |text: String| format!("{text}\n  connection: `{name}`");
    match failure {
        Failure::Usage(text) => Failure::Usage(with_name(text)),
        Failure::Configuration(text) => Failure::Configuration(with_name(text)),
        Failure::Unavailable(text) => Failure::Unavailable(with_name(text)),
        Failure::Internal(text) => Failure::Internal(with_name(text)),
        // It has the place of the configuration.
        Failure::ConfigurationAt(_) | Failure::OutputClosed => failure,
    }
}

/// Waits until the process is asked to end. Then its statements end too, and an anchor names the end of its audit log.
async fn wait_for_termination() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let both = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        );
        if let (Ok(mut terminate), Ok(mut interrupt)) = both {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            return;
        }
        tracing::warn!("signals are not heard: no anchor names the end of the audit log then");
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(is_alone: bool) -> Start {
        Start(Arc::new(Shared {
            found: Mutex::default(),
            ended: Notify::new(),
            was_asked_to_end: AtomicBool::new(false),
            may_come: true,
            is_alone,
        }))
    }

    #[test]
    fn what_ends_a_server_over_several_names_its_connection() {
        for (is_alone, expected) in [
            (true, "error: no such table"),
            (false, "error: no such table\n  connection: `sales`"),
        ] {
            let start = start(is_alone);
            let text = "error: no such table".to_owned();
            start.note("sales", Failure::Configuration(text));
            // Of another, whose session ends with the server.
            start.note("crm", Failure::Unavailable("connection closed".to_owned()));
            let found = start.lock_found();
            let told = found.failure.as_ref().map(ToString::to_string);
            assert_eq!(told.as_deref(), Some(expected));
            assert!(found.unreached.is_none());
        }
    }
}
