//! Tables and views.

use mysql_async::Conn;
use palisade::{
    catalog::{RelationDef, RelationKind},
    change::{IMAGES, LEDGER},
};

use super::{
    IntrospectError, Product, columns,
    read::{of_users, optional, query, text},
};

/// Every relation that can be read, in order of schema and name.
pub(super) async fn read(
    conn: &mut Conn,
    product: Product,
) -> Result<Vec<RelationDef>, IntrospectError> {
    let mut columns = columns::read(conn, product).await?;
    let sql = format!(
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, t.ENGINE, v.VIEW_DEFINITION \
         FROM information_schema.TABLES t LEFT JOIN information_schema.VIEWS v \
              ON v.TABLE_SCHEMA = t.TABLE_SCHEMA AND v.TABLE_NAME = t.TABLE_NAME \
         WHERE {} AND t.TABLE_NAME NOT IN ('{LEDGER}', '{IMAGES}') ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME",
        of_users("t.TABLE_SCHEMA")
    );
    let mut relations = Vec::new();
    for row in query(conn, sql).await? {
        let (schema, name) = (text(&row, 0)?, text(&row, 1)?);
        let engine = optional(&row, 3)?.unwrap_or_default();
        let kind = match text(&row, 2)?.as_str() {
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
            def.definition = optional(&row, 4)?.filter(|text| !text.is_empty());
        }
        relations.push(def);
    }
    Ok(relations)
}
