//! PostgreSQL behind Palisade: a driver with the engine's own locks, and no policy.
//!
//! [`PostgresBackend`] runs what the firewall printed, and nothing else: one query, as a cursor of a read-only
//! transaction that is always rolled back, or where that is asked for one change in a transaction of its own, within time-outs of the server's and of our own, over a bounded
//! number of connections. [`introspect`] reads a catalog from a database, [`examine()`] looks at what its account
//! may do beyond reading.

mod backend;
mod cells;
mod config;
mod connect;
mod estimate;
mod examine;
mod execute;
mod fault;
pub mod introspect;
mod outside;
mod params;
mod schema;
mod settings;
#[cfg(test)]
mod tests;
mod tls;
mod wire;
mod write;

pub use backend::PostgresBackend;
pub use config::{PostgresConfig, SettingName};
pub use connect::{ConnectError, connect};
pub use examine::{Weakness, WeaknessKind, examine};
pub use introspect::{IntrospectError, catalog};
pub use palisade_pool::ConfigError;
pub use tls::SslMode;
