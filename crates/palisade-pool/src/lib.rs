//! Sessions with a server: so many and no more, each clean when it is given out.
//!
//! A pool of our own, since each of its rules is a lock. It bounds the number of sessions, and of statements that wait
//! for one. A session goes back only after the server has confirmed that nothing is left in it. A session that was
//! abandoned in the middle is ended on the server and closed. It is never given out again, so that a late order to end
//! it hits nothing else.
//!
//! [`Servers`] finds the server for a session where there are several. [`Connector`] says how an engine's sessions are made, cleaned and ended; [`Pool::run`] runs a [`Statement`]
//! in one of them within its time.
//!
//! Beside the sessions it has what both servers' backends share: a [`Task`] of a rewritten statement, [`commit()`], and parts of
//! the configuration ([`ConfigError`], [`CertificateFiles`], [`tls`]).

mod config;
mod deadline;
mod password_source;
mod pool;
mod servers;
mod statement_task;
#[cfg(test)]
mod tests;
pub mod tls;
mod turns;

pub use config::{CONNECT_TIMEOUT, CertificateFiles, ConfigError};
pub use deadline::{Ended, Failed, Statement};
pub use password_source::PasswordSource;
pub use pool::{Connector, Lease, PATIENCE, Pool, PoolError, PoolSize};
pub use servers::{
    Found, NoServer, Opener, STOPGAP_AGE, Servers, Standing, TARGET_OPTION, TARGETS, Trial, Wanted,
};
pub use statement_task::{Changes, Task, Work, commit};
pub use turns::Turn;
