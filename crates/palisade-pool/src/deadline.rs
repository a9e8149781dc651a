//! One statement in a session, within its time.

use std::{fmt, future::Future, time::Duration};

use palisade::guard::{BackendError, Cancel};
use tokio::time::{Instant, timeout, timeout_at};

use crate::pool::{Connector, Pool};

/// What a statement gets beyond its time, for the server to end it by its own clock: then the session can
/// be used again.
const GRACE: Duration = Duration::from_millis(200);

/// What is to be run in a session, and run again from the beginning if the session was gone.
pub trait Statement<S>: Send {
    /// Runs in `session`.
    fn attempt(&mut self, session: &mut S) -> impl Future<Output = Result<Ended, Failed>> + Send;

    /// Keeps what [`attempt`](Self::attempt) changed, once it has gone well and clean. By a clock of its own: whoever
    /// gave up on the statement's would not know what has become of the change.
    fn keep(&mut self, _session: &mut S) -> impl Future<Output = Result<(), BackendError>> + Send {
        async { Ok(()) }
    }
}

/// Whether the session has anything left to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It has not.
    Clean,
    /// There are rows left that the sink does not want.
    Overrun,
}

/// A failure and how far the statement had come.
#[derive(Debug)]
pub enum Failed {
    /// The session was not there any more; nothing had run.
    Lost(BackendError),
    /// Anything else.
    Running(BackendError),
}

impl<C: Connector> Pool<C> {
    /// What `look` finds in a session, within `time`.
    ///
    /// # Errors
    /// What `look` says, that there is no session, or that time is up.
    pub async fn look<T, E: fmt::Display>(
        &self,
        time: Duration,
        look: impl AsyncFnOnce(&mut C::Session) -> Result<T, E>,
    ) -> Result<T, BackendError> {
        let mut lease = self.lease().await?;
        let Ok(found) = timeout(time, look(lease.session()?)).await else {
            lease.abandon().await;
            return Err(BackendError::out_of_time());
        };
        lease.give_back().await;
        found.map_err(|error| BackendError::unavailable(error.to_string()))
    }

    /// Runs `statement`, the wait for a session included, within `time` and a little more. What exceeds that
    /// is ended on the server, and so is what `cancel` ends before it is kept.
    ///
    /// # Errors
    /// What the statement answers, that there is no session, that time is up, or that it was cancelled.
    pub async fn run(
        &self,
        time: Duration,
        cancel: &Cancel,
        statement: &mut impl Statement<C::Session>,
    ) -> Result<(), BackendError> {
        let deadline = Instant::now() + time + GRACE;
        let mut first = true;
        loop {
            let mut lease = tokio::select! {
                lease = timeout_at(deadline, self.lease()) => {
                    lease.map_err(|_| BackendError::busy("no connection was free in time"))??
                }
                () = cancel.wait() => return Err(BackendError::cancelled()),
            };
            let running = statement.attempt(lease.session()?);
            let result = tokio::select! {
                // What has ended is not given up.
                biased;
                result = timeout_at(deadline, running) => result.map_err(|_| BackendError::out_of_time()),
                () = cancel.wait() => Err(BackendError::cancelled()),
            };
            let result = match result {
                Ok(result) => result,
                Err(error) => {
                    lease.abandon().await;
                    return Err(error);
                }
            };
            match result {
                Ok(Ended::Clean) => {
                    let kept = statement.keep(lease.session()?).await;
                    lease.give_back().await;
                    return kept;
                }
                Ok(Ended::Overrun) => {
                    // No caller waits for it.
                    drop(lease);
                    return Ok(());
                }
                // The server closed an idle session, for it was restarted: nothing has run yet.
                Err(Failed::Lost(_)) if first && lease.is_reused() => {
                    drop(lease);
                    self.forget_idle();
                    first = false;
                }
                Err(Failed::Lost(error) | Failed::Running(error)) => {
                    lease.give_back().await;
                    return Err(error);
                }
            }
        }
    }
}
