//! The engines' own relations, as reviewed data in `data/relations/`: what their rows tell of.

use std::{collections::HashMap, sync::LazyLock};

use crate::dialect::Dialect;

/// What the rows of a system relation tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SystemClass {
    /// Names, types, keys and comments of objects.
    Catalog,
    /// Other people's statements, sessions, locks, jobs, progress.
    Activity,
    /// Values or counts of data, which filters and masks do not reach.
    Statistics,
    /// Passwords, options and connection strings, accounts, authentication rules.
    Secrets,
    /// Raw storage below the tables.
    Storage,
    /// Configuration of the server.
    Settings,
}

/// A relation of the engine's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemRelation {
    /// Its schema, folded.
    pub schema: String,
    /// Its name, folded.
    pub name: String,
    /// What it tells of.
    pub class: SystemClass,
    /// Its columns, over all versions of the engine.
    pub columns: Vec<String>,
}

type Relations = HashMap<(String, String), SystemRelation>;

/// The system relation `schema.name`, both folded; `None` for one that is not known, which nobody may
/// read.
#[must_use]
pub fn system_relation(
    dialect: Dialect,
    schema: &str,
    name: &str,
) -> Option<&'static SystemRelation> {
    static POSTGRES: LazyLock<Relations> =
        LazyLock::new(|| read(include_str!("../../data/relations/postgres.tsv")));
    static MYSQL: LazyLock<Relations> =
        LazyLock::new(|| read(include_str!("../../data/relations/mysql.tsv")));
    let relations = match dialect {
        Dialect::Sqlite => return None,
        Dialect::Postgres => &*POSTGRES,
        Dialect::Mysql => &*MYSQL,
    };
    relations.get(&(schema.to_owned(), name.to_owned()))
}

/// `schema name class columns except`, between tabs. A row that cannot be read is left out, so that its
/// relation is not known; a test shows that there is none.
fn read(table: &str) -> Relations {
    table
        .lines()
        .filter_map(row)
        .map(|relation| ((relation.schema.clone(), relation.name.clone()), relation))
        .collect()
}

fn row(line: &str) -> Option<SystemRelation> {
    let mut fields = line.split('\t');
    let (schema, name, class) = (fields.next()?, fields.next()?, fields.next()?);
    let class = match class {
        "catalog" => SystemClass::Catalog,
        "activity" => SystemClass::Activity,
        "statistics" => SystemClass::Statistics,
        "secrets" => SystemClass::Secrets,
        "storage" => SystemClass::Storage,
        "settings" => SystemClass::Settings,
        _ => return None,
    };
    Some(SystemRelation {
        schema: schema.to_owned(),
        name: name.to_owned(),
        class,
        columns: fields.next()?.split(',').map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        for table in [
            include_str!("../../data/relations/postgres.tsv"),
            include_str!("../../data/relations/mysql.tsv"),
        ] {
            let rows: Vec<_> = table.lines().filter(|l| !l.starts_with('#')).collect();
            assert_eq!(rows.iter().filter(|l| row(l).is_none()).count(), 0);
            assert_eq!(read(table).len(), rows.len());
        }
        let class = |schema, name| {
            system_relation(Dialect::Postgres, schema, name).map(|relation| relation.class)
        };
        assert_eq!(class("pg_catalog", "pg_class"), Some(SystemClass::Catalog));
        assert_eq!(
            class("pg_catalog", "pg_stats"),
            Some(SystemClass::Statistics)
        );
        assert_eq!(class("pg_catalog", "pg_authid"), Some(SystemClass::Secrets));
        assert_eq!(class("pg_catalog", "pg_nothing"), None);
    }
}
