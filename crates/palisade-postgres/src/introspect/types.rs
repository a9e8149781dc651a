//! Types of the database.

use std::collections::HashMap;

use palisade::{
    catalog::{TypeClass, TypeDef, TypeKind},
    dialect::Dialect,
};
use tokio_postgres::Client;

use super::{IntrospectError, columns::Columns, read::USER_SCHEMA};

/// How many domains may stand over each other before we stop looking.
const MAX_DOMAINS: usize = 64;

/// Types that people made, and every domain and enumeration.
pub(super) struct Types {
    /// In order of schema and name.
    list: Vec<Type>,
    by_oid: HashMap<u32, usize>,
}

struct Type {
    schema: String,
    name: String,
    sort: Sort,
    /// Whether it is none of the system's.
    own: bool,
    extension: Option<String>,
}

/// `pg_type.typtype`.
enum Sort {
    Base,
    /// The relation that holds its columns.
    Composite(u32),
    /// What it narrows: the oid, and the name without and with its modifier; and its conditions.
    Domain(u32, String, String, Option<String>),
    Enum,
    Range,
}

impl Types {
    pub(super) async fn read(client: &Client) -> Result<Self, IntrospectError> {
        // Arrays go by their element's name, tables' row types by the table's, and a type that is
        // only declared cannot be used.
        let sql = format!(
            "SELECT t.oid, n.nspname, t.typname, t.typtype::text, t.typrelid, t.typbasetype, \
                    pg_catalog.format_type(t.typbasetype, t.typtypmod), {USER_SCHEMA}, e.extname, \
                    pg_catalog.format_type(t.typbasetype, NULL), \
                    (SELECT pg_catalog.string_agg(pg_catalog.pg_get_constraintdef(k.oid), ' ' ORDER BY k.conname) \
                     FROM pg_catalog.pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c') \
             FROM pg_catalog.pg_type t \
             JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
             LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid \
             LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass \
                  AND d.objid = t.oid AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass \
                  AND d.deptype = 'e' \
             LEFT JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid \
             WHERE t.typisdefined AND ( \
                   t.typtype IN ('d', 'e') \
                   OR {USER_SCHEMA} AND ( \
                      t.typtype IN ('r', 'm') \
                      OR t.typtype = 'c' AND c.relkind = 'c' \
                      OR t.typtype = 'b' AND NOT EXISTS ( \
                         SELECT FROM pg_catalog.pg_type x WHERE x.typarray = t.oid))) \
             ORDER BY n.nspname, t.typname"
        );
        let mut list = Vec::new();
        let mut by_oid = HashMap::new();
        for row in client.query_typed(&sql, &[]).await? {
            let name: String = row.try_get(2)?;
            let sort = match row.try_get::<_, String>(3)?.as_str() {
                "b" => Sort::Base,
                "c" => Sort::Composite(row.try_get(4)?),
                "d" => Sort::Domain(
                    row.try_get(5)?,
                    row.try_get(9)?,
                    row.try_get(6)?,
                    row.try_get(10)?,
                ),
                "e" => Sort::Enum,
                "r" | "m" => Sort::Range,
                other => {
                    return Err(IntrospectError::Inconsistent(format!(
                        "type `{name}` is of the unknown kind `{other}`"
                    )));
                }
            };
            by_oid.insert(row.try_get(0)?, list.len());
            list.push(Type {
                schema: row.try_get(1)?,
                name,
                sort,
                own: row.try_get(7)?,
                extension: row.try_get(8)?,
            });
        }
        Ok(Self { list, by_oid })
    }

    /// The class of the type `oid`, which `format_type` spells `name` if it has no modifier.
    pub(super) fn class(&self, oid: u32, name: &str) -> TypeClass {
        let (mut oid, mut name) = (oid, name);
        for _ in 0..MAX_DOMAINS {
            let Some(found) = self.by_oid.get(&oid).and_then(|i| self.list.get(*i)) else {
                return TypeClass::from_name(Dialect::Postgres, name);
            };
            match &found.sort {
                Sort::Enum => return TypeClass::Enum,
                Sort::Domain(base, bare, _, _) => (oid, name) = (*base, bare),
                Sort::Base | Sort::Composite(_) | Sort::Range => return TypeClass::Other,
            }
        }
        TypeClass::Other
    }

    /// What the catalog says of them.
    pub(super) fn definitions(&self, columns: &Columns) -> Vec<TypeDef> {
        self.list
            .iter()
            .filter(|found| found.own)
            .map(|found| TypeDef {
                schema: found.schema.clone(),
                name: found.name.clone(),
                kind: match &found.sort {
                    Sort::Base => TypeKind::Base,
                    Sort::Composite(relation) => TypeKind::Composite(
                        columns
                            .columns(*relation)
                            .iter()
                            .map(|c| (c.name.clone(), c.type_name.clone()))
                            .collect(),
                    ),
                    Sort::Domain(_, _, base, check) => TypeKind::Domain {
                        base: base.clone(),
                        check: check.clone(),
                    },
                    Sort::Enum => TypeKind::Enum,
                    Sort::Range => TypeKind::Range,
                },
                extension: found.extension.clone(),
            })
            .collect()
    }
}
