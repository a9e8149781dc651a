//! All that a catalog is made from in one short text, which the server makes: reading a thousand tables
//! and sending them takes many times as long.

use mysql_async::Conn;

use super::{
    IntrospectError,
    read::{of_users, query, text},
};

/// What the catalog reads, by relation of `information_schema`: the column that names the database, and
/// those that make the rest.
const SOURCES: &[(&str, &str, &str)] = &[
    (
        "COLUMNS",
        "TABLE_SCHEMA",
        "TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, \
         COALESCE(COLLATION_NAME, ''), EXTRA, COALESCE(GENERATION_EXPRESSION, ''), COLUMN_KEY, \
         COALESCE(COLUMN_DEFAULT, '')",
    ),
    (
        "TABLES",
        "TABLE_SCHEMA",
        "TABLE_NAME, TABLE_TYPE, COALESCE(ENGINE, '')",
    ),
    (
        "VIEWS",
        "TABLE_SCHEMA",
        "TABLE_NAME, COALESCE(VIEW_DEFINITION, '')",
    ),
    (
        "KEY_COLUMN_USAGE",
        "TABLE_SCHEMA",
        "TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, ORDINAL_POSITION, \
         COALESCE(REFERENCED_TABLE_SCHEMA, ''), COALESCE(REFERENCED_TABLE_NAME, ''), \
         COALESCE(REFERENCED_COLUMN_NAME, '')",
    ),
    (
        "STATISTICS",
        "TABLE_SCHEMA",
        "TABLE_NAME, INDEX_NAME, NON_UNIQUE, SEQ_IN_INDEX, COALESCE(COLUMN_NAME, ''), COALESCE(SUB_PART, '')",
    ),
    (
        "REFERENTIAL_CONSTRAINTS",
        "CONSTRAINT_SCHEMA",
        "TABLE_NAME, CONSTRAINT_NAME, COALESCE(DELETE_RULE, ''), COALESCE(UPDATE_RULE, '')",
    ),
    (
        "TRIGGERS",
        "EVENT_OBJECT_SCHEMA",
        "EVENT_OBJECT_TABLE, TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_MANIPULATION",
    ),
    ("ROUTINES", "ROUTINE_SCHEMA", "ROUTINE_NAME, ROUTINE_TYPE"),
    (
        "PARAMETERS",
        "SPECIFIC_SCHEMA",
        "SPECIFIC_NAME, ROUTINE_TYPE, ORDINAL_POSITION, COALESCE(DTD_IDENTIFIER, '')",
    ),
];

/// Reads it: for each source, how many rows there are and what their digests are together, whatever
/// their order.
pub(crate) async fn read(conn: &mut Conn) -> Result<String, IntrospectError> {
    let parts: Vec<_> = SOURCES
        .iter()
        .map(|(relation, schema, rest)| {
            format!(
                "SELECT CONCAT_WS(' ', COUNT(*), BIT_XOR(CAST(CONV(LEFT(\
                 SHA2(CONCAT_WS(0x00, {schema}, {rest}), 256), 16), 16, 10) AS UNSIGNED))) \
                 FROM information_schema.{relation} WHERE {}",
                of_users(schema)
            )
        })
        .collect();
    let rows = query(conn, parts.join(" UNION ALL ")).await?;
    let texts = rows.iter().map(|row| text(row, 0));
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join(", "))
}
