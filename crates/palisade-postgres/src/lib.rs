//! PostgreSQL behind Palisade: a driver with the engine's own locks, and no policy.
//!
//! [`introspect`] reads a catalog from a database.

mod connect;
pub mod introspect;
mod settings;

pub use connect::{ConnectError, connect};
pub use introspect::{IntrospectError, catalog};
