//! The keyed hash that tokens and hash masks are made of, which SQLite has no function for.

use palisade::token::{SQLITE_FUNCTION, keyed_hash};
use rusqlite::{
    Connection,
    functions::{Context, FunctionFlags},
    types::ValueRef,
};

/// Adds the function to `conn`, for whoever runs rewritten statements over a connection of their own;
/// [`SqliteBackend`](crate::SqliteBackend) does it by itself. No view, trigger or schema can call it.
///
/// # Errors
/// If a statement of the connection is running.
pub fn add_keyed_hash(conn: &Connection) -> rusqlite::Result<()> {
    conn.create_scalar_function(
        SQLITE_FUNCTION,
        2,
        FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_DIRECTONLY,
        |call| Ok(hash_arguments(call)),
    )
}

/// NULL stays NULL; nothing raises.
fn hash_arguments(call: &Context<'_>) -> Option<String> {
    match (call.get_raw(0), call.get_raw(1)) {
        (ValueRef::Text(key), ValueRef::Text(text)) => Some(keyed_hash(key, text)),
        _ => None,
    }
}
