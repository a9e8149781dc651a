//! MySQL and MariaDB behind Palisade: a driver with the servers' own locks, and no policy.
//!
//! [`MysqlBackend`] runs only what the firewall printed: one prepared statement, in a read-only session with fixed
//! settings. Time-outs are the server's and our own, and the number of connections is bounded. [`introspect`] reads a
//! catalog from a server. [`examine()`] lists the rights of its account beyond reading.

pub mod account;
mod backend;
mod cascade_count;
mod cells;
mod config;
mod connect;
mod digests;
mod estimate;
mod execute;
mod fault;
mod grants;
mod history;
pub mod introspect;
mod ledger;
mod origin;
mod params;
mod reach;
mod rehearse;
mod schema_change;
mod settings;
#[cfg(test)]
mod tests;
mod tls;
mod trigger_writes;
mod weaknesses;
mod write;

pub use backend::MysqlBackend;
pub use cascade_count::columns_read;
pub use config::MysqlConfig;
pub use connect::{ConnectError, Obstacle, connect};
pub use digests::{Digest, Digests, read_digests};
pub use history::rights::{
    GrantedOn, HistoryGrant, HistoryKeeping, HistoryRights, KeptTable, history_keeping,
    list_kept_tables, read_history_rights,
};
pub use introspect::{IntrospectError, catalog};
/// The driver whose connections this crate takes.
pub use mysql_async;
pub use mysql_async::Conn;
pub use palisade_pool::ConfigError;
pub use tls::SslMode;
pub use weaknesses::{Excess, Weakness, WeaknessKind, examine, examine_beside, lag_privileges};
