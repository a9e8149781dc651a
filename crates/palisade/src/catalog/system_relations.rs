//! The engines' own relations, as reviewed data in `data/relations/`: what their rows tell of.
//!
//! Which columns a server has is a fact of its catalog, in `system_columns`.

use std::{collections::HashMap, sync::LazyLock};

use crate::{dialect::Dialect, ident};

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

impl SystemClass {
    /// The word for it in the data.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Activity => "activity",
            Self::Statistics => "statistics",
            Self::Secrets => "secrets",
            Self::Storage => "storage",
            Self::Settings => "settings",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [
            Self::Catalog,
            Self::Activity,
            Self::Statistics,
            Self::Secrets,
            Self::Storage,
            Self::Settings,
        ]
        .into_iter()
        .find(|class| class.name() == word)
    }
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
    /// Those of them that hold secrets, where the relation as a whole does not.
    pub secrets: Vec<String>,
}

impl SystemRelation {
    /// The qualified name that policies use.
    #[must_use]
    pub fn uid(&self) -> String {
        ident::qualify([self.schema.as_str(), self.name.as_str()])
    }
}

type Relations = HashMap<(String, String), SystemRelation>;

/// The system relation `schema.name`, both folded; `None` for an unknown relation, which no session may read.
#[must_use]
pub fn system_relation(
    dialect: Dialect,
    schema: &str,
    name: &str,
) -> Option<&'static SystemRelation> {
    engine_relations(dialect)?.get(&(schema.to_owned(), name.to_owned()))
}

/// The system relations that have one name wherever they are, in no order; those of extensions stand in schemas of the
/// database's choice, and are relations of its own.
pub fn system_relations(dialect: Dialect) -> impl Iterator<Item = &'static SystemRelation> {
    let relations = engine_relations(dialect)
        .into_iter()
        .flat_map(HashMap::values);
    relations.filter(|relation| relation.name != "*" && !relation.schema.starts_with('@'))
}

/// The schemas of the engine's own.
#[must_use]
pub fn system_schemas(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Sqlite => &[],
        Dialect::Postgres => &["information_schema", "pg_catalog"],
        Dialect::Mysql => &["information_schema", "mysql", "performance_schema", "sys"],
    }
}

#[cfg(feature = "postgres")]
const POSTGRES_TABLE: &str = include_str!("../../data/relations/postgres.tsv");
#[cfg(not(feature = "postgres"))]
const POSTGRES_TABLE: &str = "";
#[cfg(feature = "mysql")]
const MYSQL_TABLE: &str = include_str!("../../data/relations/mysql.tsv");
#[cfg(not(feature = "mysql"))]
const MYSQL_TABLE: &str = "";

fn engine_relations(dialect: Dialect) -> Option<&'static Relations> {
    static POSTGRES: LazyLock<Relations> = LazyLock::new(|| read(POSTGRES_TABLE));
    static MYSQL: LazyLock<Relations> = LazyLock::new(|| read(MYSQL_TABLE));
    match dialect {
        Dialect::Sqlite => None,
        Dialect::Postgres => Some(&*POSTGRES),
        Dialect::Mysql => Some(&*MYSQL),
    }
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
    let class = SystemClass::from_word(class)?;
    let columns = fields.next()?.split(',').map(str::to_owned).collect();
    let mut secrets = Vec::new();
    for except in fields.next()?.split(',').filter(|except| *except != "-") {
        let (column, holds) = except.split_once(':')?;
        match SystemClass::from_word(holds) {
            Some(SystemClass::Secrets) => secrets.push(column.to_owned()),
            Some(_) => {}
            // Text that people have written, such as that of a view.
            None if holds == "definition" => {}
            None => return None,
        }
    }
    Some(SystemRelation {
        schema: schema.to_owned(),
        name: name.to_owned(),
        class,
        columns,
        secrets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        for table in [POSTGRES_TABLE, MYSQL_TABLE] {
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
