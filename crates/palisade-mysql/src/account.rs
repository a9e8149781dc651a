//! What whoever sets an account up asks the server: who it is, what it reads.

use std::collections::BTreeSet;

use mysql_async::Conn;
use palisade::ident;

use crate::{
    grants::Account,
    introspect::{IntrospectError, Product, product, query, text},
};

/// The product's name and the server's version, in the server's own words.
///
/// # Errors
/// If the server does not answer.
pub async fn version(conn: &mut Conn) -> Result<(&'static str, String), IntrospectError> {
    let version = cell(conn, "SELECT VERSION()").await?;
    let name = match product(&version) {
        Product::MariaDb => "MariaDB",
        Product::MySql => "MySQL",
    };
    Ok((name, version))
}

/// Where the server sees `conn` come from: an account for that host may log in from here.
///
/// # Errors
/// If the server does not answer, or not as its documentation says.
pub async fn client_host(conn: &mut Conn) -> Result<String, IntrospectError> {
    Ok(account(&cell(conn, "SELECT USER()").await?)?.1)
}

/// The account whose rights `conn` has: its name, and the host that it is for.
///
/// # Errors
/// If the server does not answer, or not as its documentation says.
pub async fn current(conn: &mut Conn) -> Result<(String, String), IntrospectError> {
    account(&cell(conn, "SELECT CURRENT_USER()").await?)
}

fn account(text: &str) -> Result<(String, String), IntrospectError> {
    // The last, for a name may hold one.
    let (name, host) = text.rsplit_once('@').ok_or_else(|| {
        IntrospectError::Inconsistent("the server does not tell who we are".to_owned())
    })?;
    Ok((name.to_owned(), host.to_owned()))
}

/// The views that read with the rights of whoever asks, as the catalog calls them.
///
/// # Errors
/// If the server does not answer.
pub async fn invoker_views(conn: &mut Conn) -> Result<BTreeSet<String>, IntrospectError> {
    let sql = "SELECT v.TABLE_SCHEMA, v.TABLE_NAME FROM information_schema.VIEWS v \
               WHERE v.SECURITY_TYPE = 'INVOKER'";
    let rows = query(conn, sql.to_owned()).await?;
    rows.iter()
        .map(|row| {
            let (schema, name) = (text(row, 0)?, text(row, 1)?);
            Ok(ident::qualify([schema.as_str(), name.as_str()]))
        })
        .collect()
}

/// The columns that the account sees and may not read: database, relation, column.
///
/// # Errors
/// If the server does not answer.
pub async fn unreadable(
    conn: &mut Conn,
) -> Result<BTreeSet<(String, String, String)>, IntrospectError> {
    let sql = "SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME FROM information_schema.COLUMNS c \
               WHERE FIND_IN_SET('select', LOWER(c.PRIVILEGES)) = 0";
    let rows = query(conn, sql.to_owned()).await?;
    rows.iter()
        .map(|row| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?)))
        .collect()
}

/// The server's own relations that have a column which the account may read: database and name, in small letters.
///
/// # Errors
/// If the server does not answer.
pub async fn readable_system(
    conn: &mut Conn,
) -> Result<BTreeSet<(String, String)>, IntrospectError> {
    let sql = "SELECT DISTINCT LOWER(c.TABLE_SCHEMA), LOWER(c.TABLE_NAME) FROM information_schema.COLUMNS c \
               WHERE FIND_IN_SET('select', LOWER(c.PRIVILEGES)) > 0 \
                 AND LOWER(c.TABLE_SCHEMA) IN ('information_schema', 'mysql', 'performance_schema', 'sys')";
    let rows = query(conn, sql.to_owned()).await?;
    rows.iter()
        .map(|row| Ok((text(row, 0)?, text(row, 1)?)))
        .collect()
}

/// A way to give a column a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assigning {
    /// In new rows.
    Insert,
    /// In rows that are there.
    Update,
}

/// A column: database, relation, name.
pub type ColumnName = (String, String, String);

/// The columns that the account may assign, and how.
///
/// # Errors
/// If the server does not answer.
pub async fn assignable(conn: &mut Conn) -> Result<Vec<(ColumnName, Assigning)>, IntrospectError> {
    let mut found = Vec::new();
    for (word, assigning) in [("insert", Assigning::Insert), ("update", Assigning::Update)] {
        let sql = format!(
            "SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME FROM information_schema.COLUMNS c \
             WHERE FIND_IN_SET('{word}', LOWER(c.PRIVILEGES)) > 0"
        );
        for row in query(conn, sql).await? {
            found.push(((text(&row, 0)?, text(&row, 1)?, text(&row, 2)?), assigning));
        }
    }
    Ok(found)
}

/// Those of `tables`, by database and name, on which the account certainly has `privilege`, in capitals.
///
/// # Errors
/// If the server does not answer, or not as its documentation says.
pub async fn having(
    conn: &mut Conn,
    privilege: &str,
    tables: &[(&str, &str)],
) -> Result<Vec<(String, String)>, IntrospectError> {
    let account = Account::read(conn).await?;
    let may = |(schema, name): &&(&str, &str)| account.may(schema, name, privilege);
    Ok(tables
        .iter()
        .filter(may)
        .map(|(schema, name)| ((*schema).to_owned(), (*name).to_owned()))
        .collect())
}

async fn cell(conn: &mut Conn, sql: &str) -> Result<String, IntrospectError> {
    let rows = query(conn, sql.to_owned()).await?;
    let row = rows.first().ok_or_else(|| {
        IntrospectError::Inconsistent("the server does not say what it is".to_owned())
    })?;
    text(row, 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_account_is_a_name_and_a_host() {
        let own = |name: &str, host: &str| (name.to_owned(), host.to_owned());
        assert_eq!(
            account("agent@localhost").unwrap(),
            own("agent", "localhost")
        );
        assert_eq!(account("a@b@%").unwrap(), own("a@b", "%"));
        assert_eq!(account("@%").unwrap(), own("", "%"));
        account("agent").unwrap_err();
    }
}
