//! Columns of relations and of row types.

use std::collections::HashMap;

use palisade::{catalog::CatalogBuilder, ident};
use tokio_postgres::Client;

use super::{IntrospectError, read::USER_SCHEMA};

/// The columns of every relation and composite type that people made, by the relation's oid.
pub(crate) struct Columns {
    by_relation: HashMap<u32, Vec<ColumnFacts>>,
    /// Whether each has the database's collation, that of `"C"`, or none.
    pub(super) plain_collations: bool,
}

/// A row of `pg_attribute`.
pub(crate) struct ColumnFacts {
    /// `attnum`, which counts dropped columns too.
    pub(crate) number: i16,
    pub(crate) name: String,
    pub(super) type_oid: u32,
    /// As `format_type` spells it without its modifier.
    pub(super) bare_type: String,
    /// As `format_type` spells it, with its modifier.
    pub(super) type_name: String,
    pub(super) not_null: bool,
    /// Empty, or a collation under which different bytes can be equal.
    pub(super) collation: String,
    pub(super) generated: Option<String>,
    pub(super) stored: bool,
    /// The default's expression, if it is known whether there is one: a domain may get one while a statement runs.
    pub(super) default: Option<Option<String>>,
}

/// FROM and WHERE of the columns that the account may not read, as `a`, of relations `c` of which it may read others.
pub(crate) fn from_withheld() -> String {
    format!(
        "FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {USER_SCHEMA} \
           AND NOT pg_catalog.has_table_privilege(c.oid, 'SELECT') \
           AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT') \
           AND NOT pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')"
    )
}

/// Tells `builder` which columns the account may not read, of relations of which it may read others.
pub(super) async fn read_withheld(
    client: &Client,
    mut builder: CatalogBuilder,
) -> Result<CatalogBuilder, IntrospectError> {
    let sql = format!("SELECT n.nspname, c.relname, a.attname {}", from_withheld());
    for row in client.query_typed(&sql, &[]).await? {
        builder = builder.withheld_column(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    }
    Ok(builder)
}

impl Columns {
    pub(super) async fn read(client: &Client) -> Result<Self, IntrospectError> {
        let sql = format!(
            "SELECT a.attrelid, a.attnum, a.attname, a.atttypid, \
                    pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, \
                    cn.nspname, co.collname, \
                    CASE WHEN a.attgenerated <> '' THEN pg_catalog.pg_get_expr(g.adbin, g.adrelid) END, \
                    pg_catalog.format_type(a.atttypid, NULL), a.attgenerated = 's', \
                    a.attgenerated = '' AND a.attidentity = '' \
                      AND (a.atthasdef OR (t.typtype <> 'd' AND t.typdefault IS NULL)), \
                    pg_catalog.pg_get_expr(g.adbin, g.adrelid), \
                    a.attcollation IN (0, 100, 950) \
             FROM pg_catalog.pg_attribute a \
             JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
             JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation AND NOT co.collisdeterministic \
             LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace \
             LEFT JOIN pg_catalog.pg_attrdef g ON g.adrelid = a.attrelid AND g.adnum = a.attnum \
             WHERE a.attnum > 0 AND NOT a.attisdropped \
               AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c') AND {USER_SCHEMA} \
             ORDER BY a.attrelid, a.attnum"
        );
        let mut by_relation: HashMap<u32, Vec<ColumnFacts>> = HashMap::new();
        let mut plain_collations = true;
        for row in client.query_typed(&sql, &[]).await? {
            let collation = match (
                row.try_get::<_, Option<&str>>(6)?,
                row.try_get::<_, Option<&str>>(7)?,
            ) {
                (Some(schema), Some(name)) => ident::qualify([schema, name]),
                (Some(_), None) | (None, Some(_)) | (None, None) => String::new(),
            };
            // The oids of `default` and `C` are the engine's own (its `pg_collation.dat`).
            plain_collations &= row.try_get::<_, bool>(13)?;
            by_relation
                .entry(row.try_get(0)?)
                .or_default()
                .push(ColumnFacts {
                    number: row.try_get(1)?,
                    name: row.try_get(2)?,
                    type_oid: row.try_get(3)?,
                    bare_type: row.try_get(9)?,
                    type_name: row.try_get(4)?,
                    not_null: row.try_get(5)?,
                    collation,
                    generated: row.try_get(8)?,
                    stored: row.try_get(10)?,
                    default: match row.try_get(11)? {
                        true => Some(row.try_get(12)?),
                        false => None,
                    },
                });
        }
        Ok(Self {
            by_relation,
            plain_collations,
        })
    }

    /// The columns of `relation`, in order; empty if it does not exist.
    pub(crate) fn columns(&self, relation: u32) -> &[ColumnFacts] {
        self.by_relation.get(&relation).map_or(&[], Vec::as_slice)
    }

    /// Names of the columns of `relation` with these numbers.
    pub(super) fn names(
        &self,
        relation: u32,
        numbers: &[i16],
    ) -> Result<Vec<String>, IntrospectError> {
        let columns = self.columns(relation);
        numbers
            .iter()
            .map(|number| {
                columns
                    .iter()
                    .find(|column| column.number == *number)
                    .map(|column| column.name.clone())
                    .ok_or_else(|| {
                        IntrospectError::Inconsistent(format!(
                            "a key names column {number} of relation {relation}, which is not there"
                        ))
                    })
            })
            .collect()
    }
}
