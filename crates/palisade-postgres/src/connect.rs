//! Connecting.

use tokio_postgres::{Client, NoTls};

use crate::introspect::chain;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server cannot be reached, or does not let us in.
    #[error("cannot connect: {}", chain(.0))]
    Engine(#[from] tokio_postgres::Error),
}

/// A connection to the database at `url` (`postgres://user@host:port/database`, or `key=value` pairs),
/// which ends when the client is dropped. Runs on the caller's runtime.
///
/// # Errors
/// If `url` is no connection URL, or the server does not let us in.
pub async fn connect(url: &str) -> Result<Client, ConnectError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
