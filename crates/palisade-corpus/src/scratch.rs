//! A database in memory that says which rows its tables take.

#[cfg(feature = "sqlite")]
use rusqlite::Connection;

/// Tables without rows.
pub(crate) struct Scratch {
    #[cfg(feature = "sqlite")]
    connection: Connection,
}

impl Scratch {
    /// Tables as `definitions` make them.
    #[cfg(feature = "sqlite")]
    pub(crate) fn new(definitions: &[String]) -> Result<Self, String> {
        let make = || {
            let connection = Connection::open_in_memory()?;
            connection.execute_batch(&definitions.join("\n"))?;
            connection.execute_batch("PRAGMA foreign_keys = ON")?;
            Ok(Self { connection })
        };
        make().map_err(|error: rusqlite::Error| error.to_string())
    }

    /// Whether the tables take the row, which they have from then on.
    #[cfg(feature = "sqlite")]
    pub(crate) fn takes(&self, insert: &str) -> bool {
        self.connection.execute_batch(insert).is_ok()
    }

    #[cfg(not(feature = "sqlite"))]
    pub(crate) fn new(_definitions: &[String]) -> Result<Self, String> {
        Err("SQLite is not built in".to_owned())
    }

    #[cfg(not(feature = "sqlite"))]
    pub(crate) fn takes(&self, _insert: &str) -> bool {
        false
    }
}
