//! Tables and views.

use std::collections::HashMap;

use mysql_async::{Conn, Row};
use palisade::{
    catalog::{CatalogBuilder, RelationDef, RelationKind},
    change::{IMAGES, LEDGER},
};

use super::{
    Described, IntrospectError, Name,
    read::{of_users, optional, query, text},
};

/// Of so many relations it is asked how many rows they have.
const MAX_ESTIMATED: usize = 2_000;

/// All that is told of users' relations, in order of schema and name, but for the firewall's own.
///
/// The server opens every table for such a question, so there is one for all that want to know.
pub(super) async fn ask(conn: &mut Conn) -> Result<Vec<Row>, IntrospectError> {
    let sql = format!(
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, t.ENGINE, v.VIEW_DEFINITION, \
                t.TABLE_COMMENT \
         FROM information_schema.TABLES t LEFT JOIN information_schema.VIEWS v \
              ON v.TABLE_SCHEMA = t.TABLE_SCHEMA AND v.TABLE_NAME = t.TABLE_NAME \
         WHERE {} AND t.TABLE_NAME NOT IN ('{LEDGER}', '{IMAGES}') ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME",
        of_users("t.TABLE_SCHEMA")
    );
    Ok(query(conn, sql).await?)
}

/// About how many rows tables have, of `relations` in all. Of very many none is told: the server opens the data of each for this, which takes
/// it longer than all else that is asked.
pub(super) async fn ask_estimates(
    conn: &mut Conn,
    relations: usize,
) -> Result<Vec<Row>, IntrospectError> {
    if relations > MAX_ESTIMATED {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, CAST(t.TABLE_ROWS AS CHAR) FROM information_schema.TABLES t \
         WHERE t.TABLE_TYPE = 'BASE TABLE' AND {}",
        of_users("t.TABLE_SCHEMA")
    );
    Ok(query(conn, sql).await?)
}

/// Tells `builder` of comments on tables, and about how many rows there are. A view's comment is the server's own word for a view.
pub(super) fn describe(
    rows: &[Row],
    estimates: &[Row],
    mut builder: CatalogBuilder,
) -> Result<CatalogBuilder, IntrospectError> {
    for row in rows {
        let (schema, name, kind) = (text(row, 0)?, text(row, 1)?, text(row, 2)?);
        let comment = optional(row, 5)?.unwrap_or_default();
        if kind != "VIEW" && !comment.is_empty() {
            builder = builder.comment(schema, name, None, &comment);
        }
    }
    for row in estimates {
        let estimate = optional(row, 2)?.and_then(|rows| rows.parse().ok());
        if let Some(estimate) = estimate {
            builder = builder.row_estimate(text(row, 0)?, text(row, 1)?, estimate);
        }
    }
    Ok(builder)
}

/// Every relation that can be read, in order of schema and name, from the rows of [`ask`].
pub(super) fn read(
    rows: &[Row],
    mut columns: HashMap<Name, Vec<Described>>,
) -> Result<Vec<RelationDef>, IntrospectError> {
    let mut relations = Vec::new();
    for row in rows {
        let (schema, name) = (text(row, 0)?, text(row, 1)?);
        let engine = optional(row, 3)?.unwrap_or_default();
        let kind = match text(row, 2)?.as_str() {
            "BASE TABLE" | "SYSTEM VERSIONED" if engine.eq_ignore_ascii_case("MRG_MyISAM") => {
                RelationKind::Virtual
            }
            "BASE TABLE" | "SYSTEM VERSIONED" => RelationKind::Table,
            "VIEW" => RelationKind::View,
            // Of one session, of the server, or no relation.
            "TEMPORARY" | "TEMPORARY SEQUENCE" | "SYSTEM VIEW" | "SEQUENCE" => continue,
            other => {
                return Err(IntrospectError::Inconsistent(format!(
                    "relation `{name}` is of the unknown kind `{other}`"
                )));
            }
        };
        let own = columns
            .remove(&(schema.clone(), name.clone()))
            .unwrap_or_default();
        let retimed = own.iter().filter(|described| described.is_retimed);
        let retimed = retimed
            .map(|described| described.column.name.clone())
            .collect();
        let own = own.into_iter().map(|described| described.column).collect();
        let mut def = RelationDef::new(schema, name, kind, own);
        def.retimed = retimed;
        if kind == RelationKind::View {
            def.definition = optional(row, 4)?.filter(|text| !text.is_empty());
        }
        relations.push(def);
    }
    Ok(relations)
}
