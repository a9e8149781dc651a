//! PostgreSQL behind Palisade: a driver with the engine's own locks, and no policy.
//!
//! [`PostgresBackend`] runs only what the firewall printed: one query, as a cursor of a read-only transaction that is
//! always rolled back. Where that is asked for, it also runs a change in a transaction of its own. Time-outs are the
//! server's and our own, and the number of connections is bounded. [`introspect`] reads a catalog from a database.
//! [`examine()`] lists the rights of its account beyond reading.

mod backend;
mod cells;
mod config;
mod connect;
mod estimate;
mod execute;
mod fault;
mod history;
pub mod introspect;
mod ledger;
mod params;
mod rehearse;
mod schema_change;
mod second_look;
mod settings;
#[cfg(test)]
mod tests;
mod tls;
mod types;
mod weaknesses;
mod wire;
mod write;

pub use backend::PostgresBackend;
pub use config::{PostgresConfig, SettingName};
pub use connect::{ConnectError, connect, connect_by};
pub use introspect::{IntrospectError, catalog};
pub use palisade_pool::ConfigError;
pub use tls::SslMode;
/// The driver whose connections this crate takes.
pub use tokio_postgres;
pub use weaknesses::{Excess, Weakness, WeaknessKind, examine};
