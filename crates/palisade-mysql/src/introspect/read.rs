//! What the other readers share.

use mysql_async::{Conn, Row, prelude::Queryable as _};

use super::{IntrospectError, MIN_MARIADB, MIN_MYSQL, Product};

/// The condition that the databases of the server itself are left out.
pub(super) fn of_users(column: &str) -> String {
    format!("LOWER({column}) NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')")
}

/// The server as a whole.
pub(super) struct Server {
    pub(super) product: Product,
    version: String,
    /// The session's.
    pub(super) database: String,
    pub(super) case_sensitive_relations: bool,
}

/// Reads it.
pub(super) async fn server(conn: &mut Conn) -> Result<Server, IntrospectError> {
    let rows = query(
        conn,
        "SELECT VERSION(), DATABASE(), @@global.lower_case_table_names".to_owned(),
    )
    .await?;
    let Some(row) = rows.first() else {
        return Err(IntrospectError::Inconsistent(
            "the server does not say what it is".to_owned(),
        ));
    };
    let version = text(row, 0)?;
    Ok(Server {
        product: product(&version),
        version,
        database: optional(row, 1)?.ok_or(IntrospectError::NoDatabase)?,
        case_sensitive_relations: text(row, 2)? == "0",
    })
}

/// The product that calls itself so: MariaDB says its name in its version.
pub(crate) fn product(version: &str) -> Product {
    if version.to_ascii_lowercase().contains("mariadb") {
        Product::MariaDb
    } else {
        Product::MySql
    }
}

impl Server {
    /// Whether it tells of the triggers of a table to whoever may change it.
    pub(super) fn tells_triggers(&self) -> bool {
        match self.product {
            Product::MariaDb => tells_triggers(&self.version),
            Product::MySql => false,
        }
    }

    /// The product and its version, without what a distribution adds.
    pub(super) fn shown(&self) -> String {
        let product = self.product.name();
        let version = self.version.split('-').next().unwrap_or_default();
        format!("{product} {version}")
    }

    pub(super) fn check(&self) -> Result<(), IntrospectError> {
        let least = match self.product {
            Product::MariaDb => MIN_MARIADB,
            Product::MySql => MIN_MYSQL,
        };
        match number(&self.version) {
            Some(found) if found >= least => Ok(()),
            Some(_) | None => Err(IntrospectError::Version(self.version.clone())),
        }
    }
}

/// Whether a MariaDB of this version tells of triggers to those who may not make them: earlier ones of 10.11 do not, and of
/// other series it is not known.
fn tells_triggers(version: &str) -> bool {
    let end = |c: char| !c.is_ascii_digit();
    let last = version
        .strip_prefix("10.11.")
        .and_then(|rest| rest.split(end).next());
    last.and_then(|last| last.parse::<u16>().ok())
        .is_some_and(|last| last >= 19)
}

/// The first two numbers of a version.
fn number(version: &str) -> Option<(u16, u16)> {
    let mut parts = version.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor: String = parts
        .next()?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    Some((major, minor.parse().ok()?))
}

/// The rows of a query of ours.
pub(crate) async fn query(conn: &mut Conn, sql: String) -> Result<Vec<Row>, mysql_async::Error> {
    conn.query(sql).await
}

/// A cell as the server sent it; nothing for NULL.
fn bytes(row: &Row, index: usize) -> Result<Option<Vec<u8>>, IntrospectError> {
    match row.get_opt::<Option<Vec<u8>>, _>(index) {
        Some(Ok(cell)) => Ok(cell),
        Some(Err(_)) | None => Err(odd(index)),
    }
}

/// A cell that may be NULL.
pub(crate) fn optional(row: &Row, index: usize) -> Result<Option<String>, IntrospectError> {
    bytes(row, index)?
        .map(|bytes| String::from_utf8(bytes).map_err(|_| odd(index)))
        .transpose()
}

/// A cell that is not NULL.
pub(crate) fn text(row: &Row, index: usize) -> Result<String, IntrospectError> {
    optional(row, index)?.ok_or_else(|| odd(index))
}

fn odd(index: usize) -> IntrospectError {
    IntrospectError::Inconsistent(format!("column {index} of an answer is of another type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_tell_of_triggers() {
        for (version, expected) in [
            ("10.11.19-MariaDB-0+deb12u1", true),
            ("10.11.14-MariaDB-0+deb12u2", false),
            ("10.11.100-MariaDB", true),
            ("11.4.2-MariaDB", false),
            ("10.11", false),
        ] {
            assert_eq!(tells_triggers(version), expected, "{version}");
            assert_eq!(server(version).tells_triggers(), expected, "{version}");
        }
        // No MySQL does, whatever its number.
        assert!(!server("10.11.19").tells_triggers());
    }

    fn server(version: &str) -> Server {
        Server {
            product: product(version),
            version: version.to_owned(),
            database: String::new(),
            case_sensitive_relations: true,
        }
    }

    #[test]
    fn old_servers_are_told_from_new_ones() {
        for (version, product_, ok) in [
            ("10.11.19-MariaDB-0+deb12u1", Product::MariaDb, true),
            ("11.4.2-MariaDB-log", Product::MariaDb, true),
            ("10.6.18-MariaDB", Product::MariaDb, false),
            ("5.7.44", Product::MySql, false),
            ("8.0.36-0ubuntu0", Product::MySql, true),
            ("9.7.4", Product::MySql, true),
            ("x", Product::MySql, false),
        ] {
            let server = server(version);
            assert_eq!(server.product, product_, "{version}");
            assert_eq!(server.check().is_ok(), ok, "{version}");
        }
    }
}
