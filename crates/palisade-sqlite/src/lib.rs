//! SQLite behind Palisade: a driver with the engine's own locks, and no policy.
//!
//! [`SqliteBackend`] runs only what the firewall printed. The file and the transaction are read-only; the authorizer,
//! defensive mode, limits and a deadline are set. Changes run only where that is asked for, over a connection and a
//! transaction of their own. [`introspect`] reads a catalog from a database or from the text of its schema.

mod backend;
mod define;
mod dump;
mod execute;
mod fault;
mod full_text;
pub mod history;
mod implicit_calls;
pub mod introspect;
mod keyed;
mod ledger;
mod load;
mod reader;
mod rehearse;
mod schema_snapshot;
mod schema_text;
#[cfg(test)]
mod tests;
mod worker;
mod write;
mod write_turns;

pub use backend::{OpenError, SqliteBackend};
pub use introspect::{IntrospectError, catalog, catalog_from_ddl, engine};
pub use keyed::add_keyed_hash;
/// The driver whose connections this crate takes.
pub use rusqlite;

pub use load::{CreateError, LoadError, create_database};
