//! Catalogs from the text of a schema: what `pg_dump` and `mysqldump` print, or people write.
//!
//! ```
//! let text = "CREATE TABLE users (id integer PRIMARY KEY, email text NOT NULL);";
//! let catalog = palisade_ddl::postgres(text, "shop")?;
//! assert_eq!(catalog.relations()[0].uid, "public.users");
//! # Ok::<(), palisade_ddl::DdlError>(())
//! ```
//!
//! The text is read word by word, not by the parser of statements. A catalog needs types, keys and definitions as they are
//! written, and a dump is full of syntax that no parser of queries knows.
//!
//! | a statement | what becomes of it |
//! |---|---|
//! | changes nothing in a catalog: rows, rights, owners, comments, sequences, indexes that are not unique | skipped |
//! | changes the catalog, and is understood | in the catalog |
//! | changes the catalog, and is not understood | an error with its line; with [`lenient`] a problem in a list |
//!
//! In the last case the relation stays in the catalog without a definition, and no session can read it. No relation is lost.
//!
//! A text says less than a server, and so does a catalog that is read from it:
//!
//! * Types of a view's columns are known where they are a table's columns or a cast; else they are empty
//!   and of the class [`Other`](palisade::catalog::TypeClass::Other).
//! * A view's definition and the expressions of columns are as written; a server prints them anew.
//! * Of an extension only the functions and types are known that the registry knows.
//! * PostgreSQL's search path is `public` unless the text sets the database's own.
//! * Of a trigger whose function has no schema, that is the first of the search path in which the text makes it.
//! * The name of a unique key is not known where the text has none and the engine's choice depends on other names.
//! * A column of a domain counts as a column with a default.
//! * Temporary tables belong to a session and are left out.

mod cursor;
mod foreign_key;
mod lex;
mod mysql;
mod operand;
mod postgres;
mod state;
#[cfg(test)]
mod tests;
mod trigger;
mod unique_key;
mod view;
mod view_columns;

use crate::{
    cursor::Cursor,
    lex::{Lexer, Statement},
    state::SchemaState,
};
use palisade::catalog::{Catalog, CatalogError};
use palisade::dialect::Dialect;

/// Why a text gives no catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct DdlError {
    line: usize,
    message: String,
}

impl DdlError {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }

    /// Where, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// What is wrong there.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// A catalog of a text that was not understood everywhere.
#[derive(Debug, Clone)]
pub struct Partial {
    /// What was understood. Relations that were not have no definition and cannot be read.
    pub catalog: Catalog,
    /// What was not, in the order of the text, but for views whose names mean
    /// something else to a session, which come last.
    pub problems: Vec<DdlError>,
}

/// The catalog of the PostgreSQL database `database` whose schema is `text`.
///
/// # Errors
/// At the first statement that changes what a catalog says and is not understood.
pub fn postgres(text: &str, database: &str) -> Result<Catalog, DdlError> {
    read(Dialect::Postgres, text, database, Unread::Fails).map(|read| read.catalog)
}

/// The catalog of the MySQL or MariaDB database `database` whose schema is `text`. Names of relations are compared with
/// regard to case.
///
/// # Errors
/// At the first statement that changes what a catalog says and is not understood.
pub fn mysql(text: &str, database: &str) -> Result<Catalog, DdlError> {
    read(Dialect::Mysql, text, database, Unread::Fails).map(|read| read.catalog)
}

/// The catalog of as much of `text` as is understood.
///
/// # Errors
/// If the text cannot be cut into statements, if a statement is not understood that may make a relation whose
/// name cannot be read, or if `dialect` is SQLite, whose texts the engine itself reads.
pub fn lenient(dialect: Dialect, text: &str, database: &str) -> Result<Partial, DdlError> {
    read(dialect, text, database, Unread::Noted)
}

/// What becomes of a statement that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    Fails,
    Noted,
}

fn read(dialect: Dialect, text: &str, database: &str, unread: Unread) -> Result<Partial, DdlError> {
    if dialect == Dialect::Sqlite {
        return Err(DdlError::new(1, "SQLite reads its schemas itself"));
    }
    let mut lexer = Lexer::new(text, dialect);
    let mut state = SchemaState::new(dialect, database);
    let mut problems = Vec::new();
    while let Some(Statement { tokens }) = lexer.statement()? {
        let cursor = Cursor::new(text, &tokens, dialect);
        let result = match dialect {
            Dialect::Postgres => {
                let rows = cursor.sees("copy") && cursor.has("from stdin");
                let result = postgres::statement(cursor, &mut state);
                if rows {
                    lexer.skip_rows()?;
                }
                result
            }
            Dialect::Mysql => mysql::statement(cursor, &mut state, &mut lexer),
            Dialect::Sqlite => Err(cursor.error("SQLite reads its schemas itself")),
        };
        if let Err(error) = result {
            if unread == Unread::Fails || !state.spoil(cursor) {
                return Err(error);
            }
            problems.push(error);
        }
    }
    for error in state.check_bindings() {
        if unread == Unread::Fails {
            return Err(error);
        }
        problems.push(error);
    }
    let catalog = state
        .finish()
        .map_err(|error: CatalogError| DdlError::new(1, error.to_string()))?;
    Ok(Partial { catalog, problems })
}
