//! What a server has counted of statements, by their digests (MySQL's manual, "Statement Digest Aggregation").

use std::time::Duration;

use mysql_async::Conn;

use crate::introspect::{IntrospectError, query, text};

/// The statements of a database that a server has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// Those whose texts it keeps, the most frequent first.
    pub digests: Vec<Digest>,
    /// Calls, of any database, of those for which it had no room.
    pub lost: u64,
}

/// A statement without its literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Its text: a `?` for each literal, `(...)` for lists of them.
    pub text: String,
    /// How often it was run, by whomever.
    pub calls: u64,
    /// When first, since 1970-01-01 UTC.
    pub first: Duration,
    /// When last.
    pub last: Duration,
}

/// The statements in the database of `conn` that its server has counted; none where `performance_schema` is off.
///
/// # Errors
/// If the server does not answer, or the account may not read them.
pub async fn read_digests(conn: &mut Conn) -> Result<Option<Digests>, IntrospectError> {
    let on = query(
        conn,
        "SHOW GLOBAL VARIABLES LIKE 'performance_schema'".to_owned(),
    )
    .await?;
    if on.first().map(|row| text(row, 1)).transpose()?.as_deref() != Some("ON") {
        return Ok(None);
    }
    let counted = "FROM performance_schema.events_statements_summary_by_digest";
    let sql =
        format!("SELECT CAST(COALESCE(SUM(COUNT_STAR), 0) AS CHAR) {counted} WHERE DIGEST IS NULL");
    let lost = query(conn, sql).await?;
    let lost = lost.first().map(|row| number(&text(row, 0)?)).transpose()?;
    let sql = format!(
        "SELECT DIGEST_TEXT, CAST(COUNT_STAR AS CHAR), CAST(UNIX_TIMESTAMP(FIRST_SEEN) AS CHAR), \
         CAST(UNIX_TIMESTAMP(LAST_SEEN) AS CHAR) {counted} \
         WHERE SCHEMA_NAME = DATABASE() AND DIGEST_TEXT IS NOT NULL \
           AND DIGEST_TEXT NOT LIKE '%events_statements_summary_by_digest%' ORDER BY COUNT_STAR DESC, DIGEST_TEXT"
    );
    let rows = query(conn, sql).await?;
    let digests = rows.iter().map(|row| {
        Ok(Digest {
            text: text(row, 0)?,
            calls: number(&text(row, 1)?)?,
            first: Duration::from_secs(number(&text(row, 2)?)?),
            last: Duration::from_secs(number(&text(row, 3)?)?),
        })
    });
    Ok(Some(Digests {
        digests: digests.collect::<Result<_, IntrospectError>>()?,
        lost: lost.unwrap_or_default(),
    }))
}

/// The whole part of a number that the server wrote.
fn number(written: &str) -> Result<u64, IntrospectError> {
    let whole = written.split('.').next().unwrap_or_default();
    whole
        .parse()
        .map_err(|_| IntrospectError::Inconsistent(format!("`{written}` is no number")))
}
